// SPDX-License-Identifier: Apache-2.0
/*
 * device_head.cpp: log-probabilities of targets, draws, and the head's gradient. The vocabulary is
 * walked in chunks of MINT_K_CHUNK columns and the rows in slabs, so that the logits of a slab's
 * chunk are all that exists at a time. Chunks are added in ascending order; slabs do not show.
 */
#include "device.h"

extern "C" {
#include "mem.h"
}

#include <cstdlib>

#define SLAB   4096 /* rows at a time */
#define LEAVES 8    /* leaves at a time: each has a buffer of the size of B */

/* A head with its LoRA over rows h; u = act(A h). */
struct head {
    struct cuda_dev *d;
    const void *h, *u;
    const struct mint_weight *w;
    const struct mint_lora *lora; /* or NULL */
    int64_t T;
};

static int head_begin(struct head *x, struct cuda_dev *d, const void *h,
                      const struct mint_weight *w, const struct mint_lora *lora, int64_t T,
                      struct mint_err *err)
{
    *x = {d, h, NULL, w, cuda_has_lora(lora) ? lora : NULL, T};
    if (!x->lora)
        return 0;
    void *u = cuda_scratch(d, CUDA_HEAD_U, (size_t)(T * lora->rank) * d->base.act_bytes, err);
    x->u = u;
    return u ? cuda_linear(&d->base, NULL, 0, h, w, NULL, lora, u, T, err) : -1;
}

/* y[rows, cols] (row stride ldy) = logits of rows t0.. and columns v0.. */
static int head_logits(const struct head *x, float *y, int64_t ldy, int64_t t0, int64_t rows,
                       int64_t v0, int64_t cols, struct mint_err *err)
{
    struct cuda_dev *d = x->d;
    struct mint_k_product p = {};
    p.a = cuda_at(d, x->h, t0 * x->w->K);
    p.b = cuda_at(d, x->w->rows, v0 * x->w->K);
    p.lda = p.ldb = p.K = x->w->K;
    p.M = rows;
    p.N = cols;
    p.c = y;
    p.ldc = ldy;
    p.scale = 1;
    MINT_TRY(cuda_product(d, &p, err));
    if (!x->lora)
        return 0;
    int64_t r = x->lora->rank;
    p.a = cuda_at(d, x->u, t0 * r);
    p.b = cuda_at(d, x->lora->b->rows, v0 * r);
    p.lda = p.ldb = p.K = r;
    p.store = MINT_K_ADD;
    p.scale = x->lora->scale;
    return cuda_product(d, &p, err);
}

/* ---- forward. */

struct logprob {
    float *lp, *entropy, *lse, *logits; /* logits: to be kept, or NULL */
    int64_t ldl;
    const int32_t *target;
};

static int logprob_slab(const struct head *x, const struct logprob *o, int64_t t0, int64_t rows,
                        struct mint_err *err)
{
    struct cuda_dev *d = x->d;
    int64_t V = x->w->N, step = o->logits ? V : MINT_K_CHUNK, ld = o->logits ? o->ldl : step;
    size_t parts = (size_t)(rows * MINT_K_CHUNKS(V)) * 4 * sizeof(float);
    float *chunks = (float *)cuda_scratch(d, CUDA_PARTS, parts, err);
    float *y = !chunks     ? NULL
               : o->logits ? o->logits + t0 * ld
                           : (float *)cuda_scratch(d, CUDA_LOGITS,
                                                   (size_t)(rows * ld) * sizeof(float), err);
    if (!y)
        return -1;
    for (int64_t v0 = 0; v0 < V; v0 += step) {
        int64_t cols = MINT_MIN(step, V - v0);
        MINT_TRY(head_logits(x, y, ld, t0, rows, v0, cols, err));
        mint_k_logprob_chunks(chunks, o->lp + t0, y, ld, o->target + t0, rows, v0, cols, V,
                              d->stream);
    }
    mint_k_logprob_final(o->lp + t0, o->entropy ? o->entropy + t0 : NULL,
                         o->lse ? o->lse + t0 : NULL, chunks, rows, V, d->stream);
    return cuda_launched(d, "log-probabilities", err);
}

static const int32_t *targets(struct cuda_dev *d, const int32_t *target, int64_t T, int64_t V,
                              struct mint_err *err)
{
    for (int64_t t = 0; t < T; t++)
        if (target[t] < 0 || target[t] >= V)
            MINT_BUG("target %d of %lld", (int)target[t], (long long)V);
    return (const int32_t *)cuda_array(d, CUDA_TARGET, target, (size_t)T * sizeof *target, NULL,
                                       err);
}

int cuda_logprob(struct mint_dev *dev, float *lp, float *entropy, float *lse, float *logits,
                 int64_t ldl, const void *h, const struct mint_weight *w,
                 const struct mint_lora *lora, const int32_t *target, int64_t T,
                 struct mint_err *err)
{
    struct cuda_dev *d = cuda_dev(dev);
    struct head x;
    struct logprob o = {lp, entropy, lse, logits, ldl, NULL};
    if (T < 1)
        return 0;
    MINT_TRY(head_begin(&x, d, h, w, lora, T, err));
    o.target = targets(d, target, T, w->N, err);
    if (!o.target)
        return -1;
    for (int64_t t = 0; t < T; t += SLAB)
        MINT_TRY(logprob_slab(&x, &o, t, MINT_MIN(SLAB, T - t), err));
    return 0;
}

/* ---- draws. */

static int flaw(const struct mint_k_drawn *got, int64_t S, struct mint_err *err)
{
    for (int64_t i = 0; i < S; i++) {
        if (got[i].flaw == MINT_K_NOT_FINITE)
            return mint_fail(err, MINT_EDEVICE, "the logits of row %lld are not finite",
                             (long long)i);
        if (got[i].flaw == MINT_K_NOTHING_TO_DRAW)
            return mint_fail(err, MINT_EDEVICE, "every token of row %lld has probability 0",
                             (long long)i);
    }
    return 0;
}

int cuda_sample(struct mint_dev *dev, struct mint_drawn *out, const float *logits, int64_t ldl,
                const struct mint_draw *draws, int64_t S, int64_t V, struct mint_err *err)
{
    struct cuda_dev *d = cuda_dev(dev);
    if (S < 1)
        return 0;
    if (V > MINT_K_VOCAB_MAX)
        return mint_fail(err, MINT_EMODEL, "a vocabulary of %lld tokens; %d is the most on a GPU",
                         (long long)V, MINT_K_VOCAB_MAX);
    size_t n = (size_t)S, parts = n * (size_t)MINT_K_CHUNKS(V) * 4 * sizeof(float);
    struct mint_k_draw *ask = (struct mint_k_draw *)mint_xcalloc(n, sizeof *ask);
    struct mint_k_drawn *got = (struct mint_k_drawn *)mint_xcalloc(n, sizeof *got);
    for (size_t i = 0; i < n; i++)
        ask[i] = {draws[i].temperature, draws[i].top_p, draws[i].top_k, draws[i].u, draws[i].vocab};
    const void *on = cuda_array(d, CUDA_DRAWS, ask, n * sizeof *ask, NULL, err);
    float *chunks = on ? (float *)cuda_scratch(d, CUDA_PARTS, parts, err) : NULL;
    void *res = chunks ? cuda_scratch(d, CUDA_SMALL, n * sizeof *got, err) : NULL;
    int rc = -1;
    if (res) {
        mint_k_sample((struct mint_k_drawn *)res, chunks, logits, ldl,
                      (const struct mint_k_draw *)on, S, V, d->stream);
        rc = cuda_launched(d, "a draw", err);
    }
    if (rc == 0)
        rc = cuda_download(dev, got, res, n * sizeof *got, err);
    if (rc == 0)
        rc = flaw(got, S, err);
    for (size_t i = 0; i < n && rc == 0; i++)
        out[i] = {got[i].id, got[i].logprob, got[i].behavior};
    free(ask);
    free(got);
    return rc;
}

/* ---- backward. */

struct back {
    struct head x;
    const struct mint_head_grad *g;
    struct mint_k_head_grad on; /* g's arrays on the device */
    float *dh, *du;
    const struct mint_head_leaves *leaves; /* or NULL */
    int64_t t0, rows;                      /* at work */
    int64_t leaf, n;                       /* leaves at work */
    float *db[LEAVES];
    float *logits;
    void *dy;
};

/* c (+)= a b over the columns of a chunk: c f32[rows, K of b], a = dy, b the rows v0.. of w. */
static int through(const struct back *b, float *c, const struct mint_weight *w, float scale,
                   int64_t v0, int64_t cols, struct mint_err *err)
{
    struct mint_k_product p = {};
    p.a = b->dy;
    p.lda = MINT_K_CHUNK;
    p.b = cuda_at(b->x.d, w->rows, v0 * w->K);
    p.ldb = p.N = p.ldc = w->K;
    p.b_krows = true;
    p.M = b->rows;
    p.K = cols;
    p.c = c + b->t0 * w->K;
    p.store = v0 ? MINT_K_ADD : MINT_K_F32;
    p.scale = scale;
    return cuda_product(b->x.d, &p, err);
}

/* Rows v0.. of the gradients of the leaves' B. */
static int leaves_chunk(const struct back *b, int64_t v0, int64_t cols, struct mint_err *err)
{
    const struct mint_lora *lora = b->x.lora;
    int64_t r = lora->rank, first[LEAVES + 1];
    float *db[LEAVES];
    struct mint_outer o = {
        lora->scale, b->dy, MINT_K_CHUNK, cols, cuda_at(b->x.d, b->x.u, b->t0 * r), r, r};
    for (int64_t i = 0; i <= b->n; i++)
        first[i] = b->leaves->first[b->leaf + i] - b->t0;
    for (int64_t i = 0; i < b->n; i++)
        db[i] = b->db[i] + v0 * r;
    return cuda_outer(&b->x.d->base, db, &o, first, b->n, err);
}

static int back_chunk(const struct back *b, int64_t v0, struct mint_err *err)
{
    struct cuda_dev *d = b->x.d;
    int64_t cols = MINT_MIN(MINT_K_CHUNK, b->x.w->N - v0), ld = MINT_K_CHUNK, t0 = b->t0;
    const float *y = b->logits;
    struct mint_k_head_grad g = {b->on.target + t0, b->on.lse + t0, b->on.dlp + t0, NULL, NULL};
    if (b->on.dentropy) {
        g.entropy = b->on.entropy + t0;
        g.dentropy = b->on.dentropy + t0;
    }
    if (b->g->logits) {
        ld = b->g->ldl;
        y = b->g->logits + t0 * ld + v0;
    } else {
        MINT_TRY(head_logits(&b->x, b->logits, ld, t0, b->rows, v0, cols, err));
    }
    mint_k_dlogits(b->dy, MINT_K_CHUNK, cuda_f32(d), y, ld, &g, b->rows, v0, cols, d->stream);
    MINT_TRY(cuda_launched(d, "the gradient of the logits", err));
    MINT_TRY(through(b, b->dh, b->x.w, 1, v0, cols, err));
    if (b->x.lora)
        MINT_TRY(through(b, b->du, b->x.lora->b, b->x.lora->scale, v0, cols, err));
    return b->n ? leaves_chunk(b, v0, cols, err) : 0;
}

/* The next rows: a slab, or those of up to LEAVES leaves, none of which is cut. */
static void next_rows(struct back *b)
{
    const struct mint_head_leaves *l = b->leaves;
    b->t0 += b->rows;
    b->leaf += b->n;
    b->n = l ? MINT_MIN(LEAVES, l->n - b->leaf) : 0;
    int64_t end = b->n && b->leaf + b->n < l->n ? l->first[b->leaf + b->n] : b->x.T;
    if (!b->n)
        end = MINT_MIN(end, b->t0 + SLAB);
    b->rows = end - b->t0;
}

static int back_rows(struct back *b, struct mint_err *err)
{
    struct cuda_dev *d = b->x.d;
    size_t n = (size_t)b->rows * MINT_K_CHUNK;
    b->dy = cuda_scratch(d, CUDA_DLOGITS, n * d->base.act_bytes, err);
    if (b->dy && !b->g->logits)
        b->logits = (float *)cuda_scratch(d, CUDA_LOGITS, n * sizeof(float), err);
    if (!b->dy || (!b->g->logits && !b->logits))
        return -1;
    for (int64_t i = 0; i < b->n; i++) {
        b->db[i] = b->leaves->begin(b->leaves->ctx, b->leaf + i, err);
        if (!b->db[i])
            return -1;
    }
    for (int64_t v0 = 0; v0 < b->x.w->N; v0 += MINT_K_CHUNK)
        MINT_TRY(back_chunk(b, v0, err));
    for (int64_t i = 0; i < b->n; i++)
        MINT_TRY(b->leaves->end(b->leaves->ctx, b->leaf + i, b->db[i], err));
    return 0;
}

/* dh += act(du) A */
static int back_lora(const struct back *b, struct mint_err *err)
{
    struct cuda_dev *d = b->x.d;
    const struct mint_lora *lora = b->x.lora;
    int64_t n = b->x.T * lora->rank, H = b->x.w->K;
    void *act = cuda_scratch(d, CUDA_U, (size_t)n * d->base.act_bytes, err);
    struct mint_k_product p = {};
    if (!act)
        return -1;
    MINT_TRY(cuda_cast(&d->base, act, b->du, n, err));
    p.a = act;
    p.lda = p.K = lora->rank;
    p.b = lora->a->rows;
    p.ldb = p.N = p.ldc = H;
    p.b_krows = true;
    p.M = b->x.T;
    p.c = b->dh;
    p.store = MINT_K_ADD;
    p.scale = 1;
    return cuda_product(d, &p, err);
}

int cuda_head_backward(struct mint_dev *dev, float *dh, float *dlora_u,
                       const struct mint_head_grad *g, const void *h, const struct mint_weight *w,
                       const struct mint_lora *lora, int64_t T,
                       const struct mint_head_leaves *leaves, struct mint_err *err)
{
    struct cuda_dev *d = cuda_dev(dev);
    struct back b = {};
    b.g = g;
    b.dh = dh;
    b.du = dlora_u;
    MINT_TRY(head_begin(&b.x, d, h, w, lora, T, err));
    b.on = {targets(d, g->target, T, w->N, err), g->lse, g->dlp, g->entropy, g->dentropy};
    if (!b.on.target)
        return -1;
    if (b.x.lora) {
        b.leaves = leaves;
        if (!b.du)
            b.du = (float *)cuda_scratch(d, CUDA_DU, (size_t)(T * lora->rank) * sizeof(float), err);
        if (!b.du)
            return -1;
    }
    for (next_rows(&b); b.rows > 0 || b.n > 0; next_rows(&b))
        MINT_TRY(back_rows(&b, err));
    return b.x.lora && T > 0 ? back_lora(&b, err) : 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* cpu_head.c: logits in pieces, and the log-probabilities of given targets. */
#include "cpu_head.h"

#include "../mem.h"
#include "cpu_ops.h"

#include <stdlib.h>

#define LORA_COLS 128 /* columns of the LoRA part at a time */

struct prepare {
    struct cpu_head *x;
    const void *h;
};

/* h with a row stride that does not put the rows of a tile into one cache set; u = act(A h). */
static void prepare_block(void *ctx, int64_t item, int thread)
{
    const struct prepare *p = ctx;
    const struct cpu_head *x = p->x;
    const int64_t t0 = item * HEAD_ROWS, n = MINT_MIN(HEAD_ROWS, x->T - t0);

    if (x->owned_h)
        for (int64_t t = t0; t < t0 + n; t++)
            memcpy(cpu_act_at(x->d, x->owned_h, t * x->ldh), cpu_act_at(x->d, p->h, t * x->H),
                   (size_t)x->H * x->d->base.act_bytes);
    if (x->owned_u) {
        const int64_t r = x->lora->rank;
        float *sum = cpu_scratch(x->d, thread, (size_t)(n * r) * sizeof *sum);

        cpu_gemm_cols(x->d, thread, sum, (size_t)r, cpu_act_at(x->d, x->h, t0 * x->ldh),
                      (size_t)x->ldh, n, x->lora->a, 0, r);
        cpu_to_act(x->d, cpu_act_at(x->d, x->owned_u, t0 * r), sum, n * r);
    }
}

static void *act_alloc(const struct cpu_dev *d, int64_t elems)
{
    return mint_xmalloc((size_t)elems * d->base.act_bytes + 1);
}

void cpu_head_begin(struct cpu_head *x, struct cpu_dev *d, const void *h, const void *u,
                    const struct mint_weight *w, const struct mint_lora *lora, int64_t T)
{
    struct prepare p = {x, h};

    *x = (struct cpu_head){.d = d,
                           .h = h,
                           .ldh = w->K,
                           .T = T,
                           .V = w->N,
                           .H = w->K,
                           .w = w,
                           .lora = lora && lora->a ? lora : NULL,
                           .u = u,
                           .chunks = (w->N + HEAD_CHUNK - 1) / HEAD_CHUNK};
    if ((size_t)w->K * d->base.act_bytes % 1024 == 0 && T > CPU_TILE_ROWS / 2) {
        x->ldh += 64 / (int64_t)d->base.act_bytes;
        x->h = x->owned_h = act_alloc(d, T * x->ldh);
    }
    if (x->lora && !u)
        x->u = x->owned_u = act_alloc(d, T * lora->rank);
    if (x->owned_h || x->owned_u)
        cpu_parallel(d, cpu_head_blocks(T), prepare_block, &p);
}

void cpu_head_end(struct cpu_head *x)
{
    free(x->owned_h);
    free(x->owned_u);
}

const float *cpu_head_logits(const struct cpu_head *x, int thread, float *y, int64_t ldy,
                             int64_t t0, int64_t n, int64_t c, int64_t *width)
{
    const int64_t v0 = c * HEAD_CHUNK, v1 = MINT_MIN(x->V, v0 + HEAD_CHUNK);
    float *part =
        cpu_scratch(x->d, thread, (size_t)HEAD_ROWS * (HEAD_LD + LORA_COLS) * sizeof(float));

    if (!y) {
        y = part + HEAD_ROWS * LORA_COLS;
        ldy = HEAD_LD;
    }
    cpu_gemm_cols(x->d, thread, y, (size_t)ldy, cpu_act_at(x->d, x->h, t0 * x->ldh), (size_t)x->ldh,
                  n, x->w, v0, v1);
    for (int64_t v = v0; x->lora && v < v1; v += LORA_COLS) {
        const int64_t r = x->lora->rank, cols = MINT_MIN(LORA_COLS, v1 - v);

        cpu_gemm_cols(x->d, thread, part, LORA_COLS, cpu_act_at(x->d, x->u, t0 * r), (size_t)r, n,
                      x->lora->b, v, v + cols);
        for (int64_t i = 0; i < n; i++)
            x->d->isa->rows->axpy(y + i * ldy + (v - v0), x->lora->scale, part + i * LORA_COLS,
                                  cols);
    }
    *width = v1 - v0;
    return y;
}

struct logprob {
    struct cpu_head head;
    const int32_t *target;
    struct cpu_chunk *chunks;  /* [T][head.chunks] */
    float *lp, *entropy, *lse; /* lp holds the target's logit until the chunks are gathered */
    float *logits;             /* or NULL */
    int64_t ldl;
};

static void chunk_item(void *ctx, int64_t item, int thread)
{
    const struct logprob *p = ctx;
    const struct cpu_head *x = &p->head;
    const int64_t blocks = cpu_head_blocks(x->T);
    const int64_t t0 = item % blocks * HEAD_ROWS, n = MINT_MIN(HEAD_ROWS, x->T - t0);
    const int64_t c = item / blocks;
    const int64_t ld = p->logits ? p->ldl : HEAD_LD;
    float *keep = p->logits ? p->logits + t0 * ld + c * HEAD_CHUNK : NULL;
    int64_t cols;
    const float *y = cpu_head_logits(x, thread, keep, ld, t0, n, c, &cols);

    for (int64_t i = 0; i < n; i++) {
        const int64_t t = t0 + i, at = p->target[t] - c * HEAD_CHUNK;

        x->d->isa->rows->chunk(&p->chunks[t * x->chunks + c], y + i * ld, cols, p->entropy != NULL);
        if (at >= 0 && at < cols)
            p->lp[t] = y[i * ld + at];
    }
}

static void gather_item(void *ctx, int64_t item, int thread)
{
    const struct logprob *p = ctx;
    const struct cpu_head *x = &p->head;
    const int64_t t1 = MINT_MIN(x->T, (item + 1) * HEAD_ROWS);

    (void)thread;
    for (int64_t t = item * HEAD_ROWS; t < t1; t++) {
        const struct cpu_chunk *part = p->chunks + t * x->chunks;
        struct cpu_chunk all = part[0];

        for (int64_t c = 1; c < x->chunks; c++)
            cpu_chunk_add(&all, &part[c]);
        p->lp[t] = cpu_chunk_logprob(&all, p->lp[t]);
        if (p->entropy)
            p->entropy[t] = cpu_log(all.sum) - all.dev / all.sum;
        if (p->lse)
            p->lse[t] = all.max + cpu_log(all.sum);
    }
}

int cpu_logprob(struct mint_dev *dev, float *lp, float *entropy, float *lse, float *logits,
                int64_t ldl, const void *h, const struct mint_weight *head,
                const struct mint_lora *lora, const int32_t *target, int64_t T,
                struct mint_err *err)
{
    struct cpu_dev *d = cpu_dev(dev);
    struct logprob p = {
        .target = target, .lp = lp, .entropy = entropy, .lse = lse, .logits = logits, .ldl = ldl};

    (void)err;
    if (T < 1)
        return 0;
    for (int64_t t = 0; t < T; t++)
        if (target[t] < 0 || target[t] >= head->N)
            MINT_BUG("logprob: target %d of %lld", (int)target[t], (long long)head->N);
    cpu_head_begin(&p.head, d, h, NULL, head, lora, T);
    p.chunks = mint_xmalloc((size_t)(T * p.head.chunks) * sizeof *p.chunks);
    cpu_parallel(d, cpu_head_blocks(T) * p.head.chunks, chunk_item, &p);
    cpu_parallel(d, cpu_head_blocks(T), gather_item, &p);
    free(p.chunks);
    cpu_head_end(&p.head);
    return 0;
}

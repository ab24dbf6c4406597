/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bench_step.c: bench_step MODEL BATCH CONTEXT [ROWS [RUNS [THREADS]]]
 *
 * One forward step of a model on the CPU, as mint-sample makes it: BATCH sequences, ROWS (1) new
 * tokens each up to position CONTEXT, logits and a draw for the last. Prints the best of RUNS (8),
 * tokens a second, and the milliseconds of each operation in the mean.
 */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "forward.h"
#include "mem.h"

enum op { LINEAR, HEAD, ATTENTION, QKV, OTHER, NOPS };
static const char *const names[NOPS] = {"linear", "head", "attention", "qkv", "all else"};

static const struct mint_ops *real; /* the device's own */
static double seconds[NOPS];
static bool in_head;

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static int timed_linear(struct mint_dev *d, float *y, int64_t ldy, const void *x,
                        const struct mint_weight *w, const float *bias,
                        const struct mint_lora *lora, void *u, int64_t T, struct mint_err *err)
{
    double start = now();
    int rc = real->linear(d, y, ldy, x, w, bias, lora, u, T, err);
    seconds[in_head ? HEAD : LINEAR] += now() - start;
    return rc;
}

static int timed_attention(struct mint_dev *d, void *out, float *lse, const void *q,
                           const struct mint_kv *kv, int32_t layer, const struct mint_attn_shape *s,
                           const struct mint_seq *seqs, int64_t nseqs, int64_t T,
                           struct mint_err *err)
{
    double start = now();
    int rc = real->attention(d, out, lse, q, kv, layer, s, seqs, nseqs, T, err);
    seconds[ATTENTION] += now() - start;
    return rc;
}

static int timed_qkv(struct mint_dev *d, void *q, struct mint_kv *kv, int32_t layer,
                     const float *qkv, const float *qnorm, const float *knorm, float eps,
                     const float *inv_freq, const int32_t *pos, const int32_t *pages,
                     const struct mint_attn_shape *s, int64_t T, struct mint_err *err)
{
    double start = now();
    int rc = real->qkv(d, q, kv, layer, qkv, qnorm, knorm, eps, inv_freq, pos, pages, s, T, err);
    seconds[QKV] += now() - start;
    return rc;
}

struct step {
    struct mint_model *m;
    struct mint_kv *kv;
    struct mint_work *work;
    struct mint_batch batch;
    float *logits;
    void *h; /* normed, of all rows */
    struct mint_draw *draws;
    struct mint_drawn *drawn;
};

/* Keys and values of every position, so that they lie in memory as after a prompt. */
static int fill(struct step *s, int64_t B, int32_t context, const int32_t *pages, int64_t per,
                struct mint_err *err)
{
    int32_t *pos = mint_xcalloc((size_t)B, sizeof *pos),
            *page = mint_xcalloc((size_t)B, sizeof *page);
    int rc = 0;
    for (int32_t p = 0; p < context && rc == 0; p++) {
        for (int64_t b = 0; b < B; b++) {
            pos[b] = p;
            page[b] = pages[b * per + p / MINT_KV_PAGE];
        }
        for (int l = 0; l < s->m->config.layers && rc == 0; l++)
            rc = real->qkv(s->m->dev, s->work->q, s->kv, l, s->work->qkv, NULL, NULL, 1e-6f,
                           s->m->inv_freq, pos, page, &s->m->attn, B, err);
    }
    free(pos), free(page);
    return rc;
}

static int run(struct step *s, struct mint_err *err)
{
    const struct mint_model *m = s->m;
    const struct mint_model_config *c = &m->config;
    const int64_t T = s->batch.T, B = s->batch.nseqs;
    MINT_TRY(real->embed(m->dev, s->work->x, m->embed, s->batch.ids, T, err));
    for (int l = 0; l < c->layers; l++)
        MINT_TRY(mint_forward_layer(m, NULL, l, s->kv, l, s->work, s->work->x, s->work->x,
                                    &s->batch, err));
    MINT_TRY(real->rmsnorm(m->dev, s->h, s->work->x, m->norm, 1e-6f, T, c->hidden, err));
    in_head = true;
    int rc = timed_linear(m->dev, s->logits, c->vocab, s->h, m->head, NULL, NULL, NULL, B, err);
    in_head = false;
    MINT_TRY(rc);
    return real->sample(m->dev, s->drawn, s->logits, c->vocab, s->draws, B, c->vocab, err);
}

static int measure(const char *dir, int64_t B, int64_t context, int64_t rows, int runs, int threads,
                   struct mint_err *err)
{
    struct mint_dev *d;
    struct step s = {0};
    MINT_TRY(mint_backend_open(&d, "cpu", MINT_PRECISION_BF16, threads, err));
    MINT_TRY(mint_model_open(&s.m, dir, d, true, err));
    MINT_TRY(mint_model_pack(s.m, err));
    struct mint_ops ops = *(real = d->ops);
    ops.linear = timed_linear, ops.attention = timed_attention, ops.qkv = timed_qkv;
    const struct mint_model_config *c = &s.m->config;
    const int64_t T = B * rows, per = (context + MINT_KV_PAGE - 1) / MINT_KV_PAGE;
    int32_t *pages = mint_xcalloc((size_t)(B * per), 4), *row = mint_xcalloc((size_t)(3 * T), 4);
    int32_t *pos = row + T, *page = row + 2 * T;
    struct mint_seq *seqs = mint_xcalloc((size_t)B, sizeof *seqs);
    s.draws = mint_xcalloc((size_t)B, sizeof *s.draws);
    s.drawn = mint_xcalloc((size_t)B, sizeof *s.drawn);
    for (int64_t b = 0; b < B; b++) {
        for (int64_t p = 0; p < per; p++)
            pages[b * per + p] =
                (int32_t)(p * B + b); /* as sequences that grow together get them */
        for (int64_t t = b * rows; t < (b + 1) * rows; t++) {
            row[t] = (int32_t)((t * 7919 + 13) % c->vocab);
            pos[t] = (int32_t)(context - rows + t - b * rows);
            page[t] = pages[b * per + pos[t] / MINT_KV_PAGE];
        }
        seqs[b] = (struct mint_seq){b * rows, rows, context - rows, pages + b * per};
        s.draws[b] = (struct mint_draw){.temperature = 1, .top_p = 1, .u = 0.3f};
    }
    s.batch = (struct mint_batch){
        .T = T, .ids = row, .pos = pos, .pages = page, .seqs = seqs, .nseqs = B};
    MINT_TRY(real->kv_new(d, &s.kv, c->layers, (int32_t)(B * per), &s.m->attn, err));
    MINT_TRY(mint_work_new(&s.work, s.m, 0, T, false, err));
    s.logits = real->alloc(d, (size_t)(B * c->vocab) * sizeof(float), err);
    s.h = real->alloc(d, (size_t)(T * c->hidden) * d->act_bytes, err);
    if (!s.logits || !s.h)
        return -1;
    MINT_TRY(fill(&s, B, (int32_t)context, pages, per, err));
    d->ops = &ops;
    double best = 0, all = 0;
    for (int r = -1; r < runs; r++) {
        if (r == 0)
            for (int i = 0; i < NOPS; i++)
                seconds[i] = 0;
        double start = now();
        MINT_TRY(run(&s, err));
        double took = now() - start;
        if (r >= 0)
            all += took;
        if (r == 0 || (r > 0 && took < best))
            best = took;
    }
    seconds[OTHER] = all;
    for (int i = 0; i < OTHER; i++)
        seconds[OTHER] -= seconds[i];
    printf("%lld x %lld tokens at %lld, %d threads: best %.1f ms, %.1f tokens/s; in the mean",
           (long long)B, (long long)rows, (long long)context, d->threads, 1e3 * best,
           (double)T / best);
    for (int i = 0; i < NOPS; i++)
        printf(" %s %.1f", names[i], 1e3 * seconds[i] / runs);
    puts(" ms");
    return 0;
}

int main(int argc, char **argv)
{
    struct mint_err err = {0};
    long n[5] = {0, 0, 1, 8, 0};
    for (int i = 2; i < argc && i < 7; i++)
        n[i - 2] = strtol(argv[i], NULL, 10);
    if (argc < 4 || argc > 7 || n[0] < 1 || n[2] < 1 || n[1] < n[2] || n[3] < 1 || n[4] < 0) {
        fputs("usage: bench_step MODEL BATCH CONTEXT [ROWS [RUNS [THREADS]]]\n", stderr);
        return 2;
    }
    if (measure(argv[1], n[0], n[1], n[2], (int)n[3], (int)n[4], &err) < 0) {
        fprintf(stderr, "bench_step: %s\n", err.msg);
        return 1;
    }
    return 0;
}

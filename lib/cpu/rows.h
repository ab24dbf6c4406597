/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rows.h: the row code of the CPU backend: everything that is not a matrix product. One plain
 * source (rows_body.h) is compiled once per instruction set (rows_portable.c, rows_avx2.c, ...),
 * and every compilation gives the same bits: sums run in 16 lanes (element i in lane i % 16,
 * ascending) that are folded 8, 4, 2, 1, and the functions are those of vmath.h. FTZ and DAZ are
 * expected to be set (cpu_parallel does). Outputs must not overlap inputs unless said. "act"
 * outputs are bf16 where bf16 is true, else float.
 */
#ifndef MINT_CPU_ROWS_H
#define MINT_CPU_ROWS_H

#include "cpu.h"

#include <string.h>

/* What a piece of a row of logits adds to its softmax. */
struct cpu_chunk {
    float max; /* the greatest logit */
    float sum; /* sum of e^(x - max); NaN if there is a NaN */
    float dev; /* sum of e^(x - max) (x - max), for the entropy */
};

/* Of one row: the scalars of its gradient (struct mint_head_grad). */
struct cpu_dlogits {
    float lse, dlp, entropy, dentropy; /* dentropy 0: entropy is not read */
    int64_t target;                    /* outside of the piece: none of it is the target */
};

struct cpu_rows {
    void (*to_bf16)(cpu_bf16 *out, const float *x, int64_t n);
    void (*to_f32)(float *out, const cpu_bf16 *x, int64_t n);
    /* y = fma(a, x, y). */
    void (*axpy)(float *y, float a, const float *x, int64_t n);
    /* y *= a. */
    void (*scale)(float *y, float a, int64_t n);
    float (*dot)(const float *a, const float *b, int64_t n);

    /* out act = x / sqrt(mean(x^2) + eps) * w; the float result in place of act: bf16 false. */
    void (*rmsnorm)(void *out, bool bf16, const float *x, const float *w, float eps, int64_t n);
    /* dx += the gradient through it. dx may be dy. */
    void (*rmsnorm_backward)(float *dx, const float *dy, const float *x, const float *w, float eps,
                             int64_t n);
    /* out act = silu(g) u. */
    void (*swiglu)(void *out, bool bf16, const float *g, const float *u, int64_t n);
    void (*swiglu_backward)(void *dg, void *du, bool bf16, const float *dout, const float *g,
                            const float *u, int64_t n);

    /* c, s = cos, sin of the float product pos * inv_freq[i]. */
    void (*angles)(float *c, float *s, float pos, const float *inv_freq, int64_t half);
    /* out act[2*half]: the pairs (x[i], x[i+half]) turned by the angles; by minus the angles when
     * inverse. */
    void (*rotate)(void *out, bool bf16, const float *x, const float *c, const float *s,
                   bool inverse, int64_t half);

    /*
     * One block of MINT_KV_PAGE keys of the online softmax, for rows rows: s (row stride
     * MINT_KV_PAGE) the raw products, keys[i] how many keys row i may see (1..MINT_KV_PAGE). m, l:
     * running maximum and sum (m = -inf, l = 0 at the start). p act[rows][MINT_KV_PAGE]: e^(s*scale
     * - new m), 0 where masked. alpha[i]: what the row's output so far must be multiplied by.
     */
    void (*softmax)(void *p, bool bf16, const float *s, int rows, const int *keys, float scale,
                    float *m, float *l, float *alpha);
    /*
     * The same block backward: p = e^(s*scale - lse), ds = p (dp - delta) scale, both act, 0 where
     * masked, written TRANSPOSED: key j of row i at pt[j * ldt + i], dst[j * ldt + i]; ds also in
     * rows of MINT_KV_PAGE.
     */
    void (*softmax_backward)(void *pt, void *dst, int64_t ldt, void *ds, bool bf16, const float *s,
                             const float *dp, int rows, const int *keys, float scale,
                             const float *lse, const float *delta);

    void (*chunk)(struct cpu_chunk *out, const float *x, int64_t n, bool want_dev);
    /* out act = dlp (onehot(target) - p) - dentropy p (log p + entropy), log p = x - lse. */
    void (*dlogits)(void *out, bool bf16, const float *x, const struct cpu_dlogits *g, int64_t n);
    /* y = (x - max) * inv, w = e^y; returns the sum of w. */
    float (*weights)(float *y, float *w, const float *x, float max, float inv, int64_t n);
    float (*max)(const float *x, int64_t n); /* -inf when n is 0; passes over NaN */
    /* at0 + i for every x[i] >= least, ascending, to ids; returns how many. */
    int64_t (*at_least)(int32_t *ids, const float *x, int64_t n, float least, int32_t at0);

    void (*adam)(float *p, float *m, float *v, const float *g, int64_t n,
                 const struct mint_adam *a);
    double (*sumsq)(const float *x, int64_t n);
};

/* x rounded to the act type of the device. */
static inline void cpu_to_act(const struct cpu_dev *d, void *out, const float *x, int64_t n)
{
    if (d->base.act_bytes == 2)
        d->isa->rows->to_bf16((cpu_bf16 *)out, x, n);
    else
        memcpy(out, x, (size_t)n * sizeof *x);
}

/* An address in a buffer of the act type. */
static inline void *cpu_act_at(const struct cpu_dev *d, const void *p, int64_t at)
{
    return (char *)p + (size_t)at * d->base.act_bytes;
}

#endif

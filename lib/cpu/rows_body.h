/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rows_body.h: the source of rows.h's tables, included by rows_ISA.c with ROWS_TABLE set to the
 * table's name. Plain C: fixed loops over 16 lanes, which the compiler turns into its vectors.
 */
/* sqrt sets errno for the C library only; without this GCC keeps a scalar call in the loop. */
#ifndef __clang__
#pragma GCC optimize("no-math-errno", "no-trapping-math")
#endif

#include "rows.h"
#include "vmath.h"

#include <string.h>

#define LANES 16
#define BLOCK MINT_KV_PAGE

static inline float fold_sum(float *a)
{
    for (int l = 0; l < 8; l++)
        a[l] += a[l + 8];
    for (int l = 0; l < 4; l++)
        a[l] += a[l + 4];
    return (a[0] + a[2]) + (a[1] + a[3]);
}

static inline float greater(float a, float b)
{
    return a > b ? a : b;
}

static inline float fold_max(float *a)
{
    for (int l = 0; l < 8; l++)
        a[l] = greater(a[l], a[l + 8]);
    for (int l = 0; l < 4; l++)
        a[l] = greater(a[l], a[l + 4]);
    return greater(greater(a[0], a[2]), greater(a[1], a[3]));
}

/* Round to nearest even like cpu_f32_to_bf16, without branches. */
static inline cpu_bf16 bf16_of(float f)
{
    union cpu_fbits v = {.f = f};
    uint32_t r = (v.u + 0x7fff + ((v.u >> 16) & 1)) >> 16, nan = (v.u >> 16) | 0x40;

    return (cpu_bf16)((v.u & 0x7fffffff) > 0x7f800000 ? nan : r);
}

/* x (n floats) to out[at..] in the act type. */
static inline void put(void *out, bool bf16, int64_t at, const float *restrict x, int64_t n)
{
    if (bf16) {
        cpu_bf16 *restrict o = (cpu_bf16 *)out + at;

        for (int64_t i = 0; i < n; i++)
            o[i] = bf16_of(x[i]);
    } else {
        memcpy((float *)out + at, x, (size_t)n * sizeof *x);
    }
}

static void to_bf16(cpu_bf16 *restrict out, const float *restrict x, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        out[i] = bf16_of(x[i]);
}

static void to_f32(float *restrict out, const cpu_bf16 *restrict x, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        union cpu_fbits v = {.u = (uint32_t)x[i] << 16};

        out[i] = v.f;
    }
}

static void axpy(float *restrict y, float a, const float *restrict x, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        y[i] = cpu_fma(a, x[i], y[i]);
}

static void scale(float *y, float a, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        y[i] *= a;
}

static float dot(const float *restrict a, const float *restrict b, int64_t n)
{
    float acc[LANES] = {0};
    int64_t i = 0;

    for (; i + LANES <= n; i += LANES)
        for (int l = 0; l < LANES; l++)
            acc[l] = cpu_fma(a[i + l], b[i + l], acc[l]);
    for (int l = 0; i + l < n; l++)
        acc[l] = cpu_fma(a[i + l], b[i + l], acc[l]);
    return fold_sum(acc);
}

/* --- norms and SwiGLU, in pieces of PIECE so that the floats before rounding stay in cache. */

#define PIECE 256

static inline float inverse_rms(const float *x, float eps, int64_t n)
{
    return 1.0f / __builtin_sqrtf(dot(x, x, n) / (float)n + eps);
}

static void rmsnorm(void *out, bool bf16, const float *x, const float *w, float eps, int64_t n)
{
    const float r = inverse_rms(x, eps, n);
    float t[PIECE];

    for (int64_t at = 0; at < n; at += PIECE) {
        const int64_t k = MINT_MIN(PIECE, n - at);

        for (int64_t i = 0; i < k; i++)
            t[i] = x[at + i] * r * w[at + i];
        put(out, bf16, at, t, k);
    }
}

/* With r = 1 / rms: dx += r w dy - x r^3 / n sum(w dy x). */
static void rmsnorm_backward(float *dx, const float *dy, const float *x, const float *w, float eps,
                             int64_t n)
{
    const float r = inverse_rms(x, eps, n);
    float acc[LANES] = {0}, c;
    int64_t i = 0;

    for (; i + LANES <= n; i += LANES)
        for (int l = 0; l < LANES; l++)
            acc[l] = cpu_fma(dy[i + l] * w[i + l], x[i + l], acc[l]);
    for (int l = 0; i + l < n; l++)
        acc[l] = cpu_fma(dy[i + l] * w[i + l], x[i + l], acc[l]);
    c = fold_sum(acc) * (r * r * r) / (float)n;
    for (i = 0; i < n; i++)
        dx[i] = dx[i] + (dy[i] * w[i] * r - x[i] * c);
}

static void swiglu(void *out, bool bf16, const float *g, const float *u, int64_t n)
{
    float t[PIECE];

    for (int64_t at = 0; at < n; at += PIECE) {
        const int64_t k = MINT_MIN(PIECE, n - at);

        for (int64_t i = 0; i < k; i++)
            t[i] = g[at + i] / (1.0f + cpu_exp(-g[at + i])) * u[at + i];
        put(out, bf16, at, t, k);
    }
}

static void swiglu_backward(void *dg, void *du, bool bf16, const float *dout, const float *g,
                            const float *u, int64_t n)
{
    float a[PIECE], b[PIECE];

    for (int64_t at = 0; at < n; at += PIECE) {
        const int64_t k = MINT_MIN(PIECE, n - at);

        for (int64_t i = 0; i < k; i++) {
            const float x = g[at + i], y = dout[at + i], sig = 1.0f / (1.0f + cpu_exp(-x));

            a[i] = y * u[at + i] * (sig * (1.0f + x * (1.0f - sig)));
            b[i] = y * (x * sig);
        }
        put(dg, bf16, at, a, k);
        put(du, bf16, at, b, k);
    }
}

/* --- rotary embedding. */

static void angles(float *restrict c, float *restrict s, float pos, const float *restrict inv_freq,
                   int64_t half)
{
    for (int64_t i = 0; i < half; i++)
        cpu_sincos(pos * inv_freq[i], &c[i], &s[i]);
}

static void rotate(void *out, bool bf16, const float *x, const float *c, const float *s,
                   bool inverse, int64_t half)
{
    const float sign = inverse ? -1.0f : 1.0f;
    float a[PIECE], b[PIECE];

    for (int64_t at = 0; at < half; at += PIECE) {
        const int64_t k = MINT_MIN(PIECE, half - at);

        for (int64_t i = 0; i < k; i++) {
            const float x1 = x[at + i], x2 = x[half + at + i];
            const float co = c[at + i], si = s[at + i] * sign;

            a[i] = x1 * co - x2 * si;
            b[i] = x2 * co + x1 * si;
        }
        put(out, bf16, at, a, k);
        put(out, bf16, half + at, b, k);
    }
}

/* --- attention. */

static inline float block_max(const float *t)
{
    float m[LANES];

    for (int l = 0; l < LANES; l++)
        m[l] = t[l];
    for (int i = LANES; i < BLOCK; i += LANES)
        for (int l = 0; l < LANES; l++)
            m[l] = greater(m[l], t[i + l]);
    return fold_max(m);
}

static inline float block_sum(const float *t)
{
    float a[LANES];

    for (int l = 0; l < LANES; l++)
        a[l] = t[l];
    for (int i = LANES; i < BLOCK; i += LANES)
        for (int l = 0; l < LANES; l++)
            a[l] += t[i + l];
    return fold_sum(a);
}

static void softmax(void *p, bool bf16, const float *restrict s, int rows, const int *restrict keys,
                    float sc, float *restrict m, float *restrict l, float *restrict alpha)
{
    for (int i = 0; i < rows; i++) {
        const float *restrict x = s + (size_t)i * BLOCK;
        const int n = keys[i];
        float t[BLOCK], top;

        for (int j = 0; j < BLOCK; j++)
            t[j] = j < n ? x[j] * sc : -INFINITY;
        top = greater(block_max(t), m[i]);
        for (int j = 0; j < BLOCK; j++)
            t[j] = cpu_exp(t[j] - top);
        alpha[i] = cpu_exp(m[i] - top);
        l[i] = l[i] * alpha[i] + block_sum(t);
        m[i] = top;
        put(p, bf16, (int64_t)i * BLOCK, t, BLOCK);
    }
}

/* Row i of a tile to column i of an [BLOCK][ldt] matrix. */
static inline void put_column(void *out, bool bf16, int64_t ldt, int64_t i, const float *t)
{
    if (bf16)
        for (int j = 0; j < BLOCK; j++)
            ((cpu_bf16 *)out)[j * ldt + i] = bf16_of(t[j]);
    else
        for (int j = 0; j < BLOCK; j++)
            ((float *)out)[j * ldt + i] = t[j];
}

static void softmax_backward(void *pt, void *dst, int64_t ldt, void *ds, bool bf16, const float *s,
                             const float *dp, int rows, const int *keys, float sc,
                             const float *lse, const float *delta)
{
    for (int i = 0; i < rows; i++) {
        const float *restrict x = s + (size_t)i * BLOCK, *restrict y = dp + (size_t)i * BLOCK;
        const float z = lse[i], d = delta[i];
        const int n = keys[i];
        float t[BLOCK], u[BLOCK];

        for (int j = 0; j < BLOCK; j++) {
            const float e = cpu_exp(x[j] * sc - z), g = e * (y[j] - d) * sc;

            t[j] = j < n ? e : 0.0f;
            u[j] = j < n ? g : 0.0f;
        }
        put_column(pt, bf16, ldt, i, t);
        put_column(dst, bf16, ldt, i, u);
        put(ds, bf16, (int64_t)i * BLOCK, u, BLOCK);
    }
}

/* --- logits. */

static float row_max(const float *x, int64_t n)
{
    float m[LANES];
    int64_t i = 0;

    for (int l = 0; l < LANES; l++)
        m[l] = -INFINITY;
    for (; i + LANES <= n; i += LANES)
        for (int l = 0; l < LANES; l++)
            m[l] = greater(x[i + l], m[l]);
    for (int l = 0; i + l < n; l++)
        m[l] = greater(x[i + l], m[l]);
    return fold_max(m);
}

static void chunk(struct cpu_chunk *out, const float *x, int64_t n, bool want_dev)
{
    const float top = row_max(x, n);
    float a[LANES] = {0}, d[LANES] = {0};
    int64_t i = 0;

    if (!want_dev) {
        for (; i + LANES <= n; i += LANES)
            for (int l = 0; l < LANES; l++)
                a[l] += cpu_exp(x[i + l] - top);
    } else {
        for (; i + LANES <= n; i += LANES)
            for (int l = 0; l < LANES; l++) {
                const float y = x[i + l] - top, e = cpu_exp(y);

                a[l] += e;
                d[l] += e * (y > -128.0f ? y : -128.0f); /* 0, not 0 * inf */
            }
    }
    for (int l = 0; i + l < n; l++) {
        const float y = x[i + l] - top, e = cpu_exp(y);

        a[l] += e;
        d[l] += want_dev ? e * (y > -128.0f ? y : -128.0f) : 0.0f;
    }
    out->max = top;
    out->sum = fold_sum(a);
    out->dev = fold_sum(d);
    if (top > -INFINITY)
        return;
    out->sum = out->dev = 0.0f; /* only -inf, or NaN: -inf - -inf above told nothing */
    for (i = 0; i < n; i++)
        if (x[i] != x[i])
            out->sum = x[i];
}

static void dlogits(void *out, bool bf16, const float *x, float lse, float dlp, int64_t target,
                    int64_t n)
{
    float t[PIECE];

    for (int64_t at = 0; at < n; at += PIECE) {
        const int64_t k = MINT_MIN(PIECE, n - at);

        for (int64_t i = 0; i < k; i++)
            t[i] = -(dlp * cpu_exp(x[at + i] - lse));
        if (target >= at && target < at + k)
            t[target - at] = dlp * (1.0f - cpu_exp(x[target] - lse));
        put(out, bf16, at, t, k);
    }
}

static float weights(float *restrict y, float *restrict w, const float *restrict x, float max,
                     float inv, int64_t n)
{
    float a[LANES] = {0};
    int64_t i = 0;

    for (int64_t j = 0; j < n; j++) {
        y[j] = (x[j] - max) * inv;
        w[j] = cpu_exp(y[j]);
    }
    for (; i + LANES <= n; i += LANES)
        for (int l = 0; l < LANES; l++)
            a[l] += w[i + l];
    for (int l = 0; i + l < n; l++)
        a[l] += w[i + l];
    return fold_sum(a);
}

static int64_t at_least(int32_t *ids, const float *x, int64_t n, float least, int32_t at0)
{
    int64_t k = 0, i = 0;

    for (; i + LANES <= n; i += LANES) {
        int any = 0;

        for (int l = 0; l < LANES; l++)
            any |= x[i + l] >= least;
        for (int l = 0; any && l < LANES; l++)
            if (x[i + l] >= least)
                ids[k++] = at0 + (int32_t)i + l;
    }
    for (; i < n; i++)
        if (x[i] >= least)
            ids[k++] = at0 + (int32_t)i;
    return k;
}

/* --- optimiser. */

static void adam(float *restrict p, float *restrict m, float *restrict v, const float *restrict g,
                 int64_t n, const struct mint_adam *a)
{
    const float b1 = a->beta1, b2 = a->beta2, c1 = 1.0f - b1, c2 = 1.0f - b2, eps = a->eps;
    const float keep = 1.0f - a->lr * a->weight_decay, step = a->lr / a->bias1, gs = a->grad_scale;
    const float inv2 = 1.0f / a->bias2;

    for (int64_t i = 0; i < n; i++) {
        const float x = g[i] * gs;

        m[i] = b1 * m[i] + c1 * x;
        v[i] = b2 * v[i] + c2 * (x * x);
        p[i] = p[i] * keep - step * (m[i] / (__builtin_sqrtf(v[i] * inv2) + eps));
    }
}

static double sumsq(const float *x, int64_t n)
{
    double a[LANES] = {0};
    int64_t i = 0;

    for (; i + LANES <= n; i += LANES)
        for (int l = 0; l < LANES; l++)
            a[l] += (double)x[i + l] * (double)x[i + l];
    for (int l = 0; i + l < n; l++)
        a[l] += (double)x[i + l] * (double)x[i + l];
    for (int w = LANES / 2; w > 0; w /= 2)
        for (int l = 0; l < w; l++)
            a[l] += a[l + w];
    return a[0];
}

const struct cpu_rows ROWS_TABLE = {
    .to_bf16 = to_bf16,
    .to_f32 = to_f32,
    .axpy = axpy,
    .scale = scale,
    .dot = dot,
    .rmsnorm = rmsnorm,
    .rmsnorm_backward = rmsnorm_backward,
    .swiglu = swiglu,
    .swiglu_backward = swiglu_backward,
    .angles = angles,
    .rotate = rotate,
    .softmax = softmax,
    .softmax_backward = softmax_backward,
    .chunk = chunk,
    .dlogits = dlogits,
    .weights = weights,
    .max = row_max,
    .at_least = at_least,
    .adam = adam,
    .sumsq = sumsq,
};

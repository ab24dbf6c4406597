/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rows_body.h: the source of rows.h's tables, included by rows_ISA.c with ROWS_TABLE set to the
 * table's name. Plain C: fixed loops over 16 lanes, which the compiler turns into its vectors.
 */
/* Nobody looks at the exception flags; with them in mind GCC keeps selections as branches. */
#ifndef __clang__
#pragma GCC optimize("no-trapping-math")
#endif

#include "rows.h"
#include "vmath.h"

#include <string.h>

#define LANES 16
#define BLOCK MINT_KV_PAGE
#define PIECE \
    256 /* floats that stay in registers and the nearest cache between two loops; whole lanes */

/* Sixteen lanes, in vectors of the machine's size. */
#if defined __AVX512F__
#define NATIVE 16
#elif defined __AVX__
#define NATIVE 8
#else
#define NATIVE 4
#endif
#define VECTORS (LANES / NATIVE)
typedef float native __attribute__((vector_size(NATIVE * sizeof(float))));
typedef int32_t native_mask __attribute__((vector_size(NATIVE * sizeof(int32_t))));
typedef float loose __attribute__((vector_size(NATIVE * sizeof(float)), aligned(4), may_alias));
#define LOAD(x, v) (((const loose *)(const void *)(x))[v])

struct lanes {
    native v[VECTORS];
};

/* The first n < LANES of x, then fill, in t. */
static inline const float *part(float *t, const float *x, int64_t n, float fill)
{
    for (int l = 0; l < LANES; l++)
        t[l] = fill;
    memcpy(t, x, (size_t)n * sizeof *x);
    return t;
}

static inline float greater(float a, float b)
{
    return a > b ? a : b;
}

/* By lane: acc += a b; acc = x if it is greater. */
static inline void fma_lanes(struct lanes *acc, const float *a, const float *b)
{
    for (int v = 0; v < VECTORS; v++) {
        const native x = LOAD(a, v), y = LOAD(b, v);
        native z = acc->v[v];

        for (int l = 0; l < NATIVE; l++)
            z[l] = cpu_fma(x[l], y[l], z[l]);
        acc->v[v] = z;
    }
}

static inline void max_lanes(struct lanes *acc, const float *x)
{
    for (int v = 0; v < VECTORS; v++) {
        const native y = LOAD(x, v);
        const native_mask m = y > acc->v[v];

        acc->v[v] = (native)((m & (native_mask)y) | (~m & (native_mask)acc->v[v]));
    }
}

/* acc += the sums of x by lane. */
static inline void add_lanes(struct lanes *acc, const float *x, int64_t n)
{
    float t[LANES];
    int64_t i = 0;

    for (; i + LANES <= n; i += LANES)
        for (int v = 0; v < VECTORS; v++)
            acc->v[v] += LOAD(x + i, v);
    if (i < n) {
        part(t, x + i, n - i, 0.0f);
        for (int v = 0; v < VECTORS; v++)
            acc->v[v] += LOAD(t, v);
    }
}

static inline float fold_sum(const struct lanes *v)
{
    float a[LANES];

    memcpy(a, v, sizeof a);
    for (int l = 0; l < 8; l++)
        a[l] += a[l + 8];
    for (int l = 0; l < 4; l++)
        a[l] += a[l + 4];
    return (a[0] + a[2]) + (a[1] + a[3]);
}

static inline float fold_max(const struct lanes *v)
{
    float a[LANES];

    memcpy(a, v, sizeof a);
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

static float dot(const float *a, const float *b, int64_t n)
{
    float s[LANES], t[LANES];
    struct lanes acc = {0};
    int64_t i = 0;

    for (; i + LANES <= n; i += LANES)
        fma_lanes(&acc, a + i, b + i);
    if (i < n)
        fma_lanes(&acc, part(s, a + i, n - i, 0.0f), part(t, b + i, n - i, 0.0f));
    return fold_sum(&acc);
}

/* --- norms and SwiGLU. */

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
    float t[PIECE], c;
    struct lanes acc = {0};

    for (int64_t at = 0; at < n; at += PIECE) {
        const int64_t k = MINT_MIN(PIECE, n - at);

        for (int64_t i = 0; i < k; i++)
            t[i] = dy[at + i] * w[at + i] * x[at + i];
        add_lanes(&acc, t, k);
    }
    c = fold_sum(&acc) * (r * r * r) / (float)n;
    for (int64_t i = 0; i < n; i++)
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
    struct lanes m;

    memcpy(&m, t, sizeof m);
    for (int i = LANES; i < BLOCK; i += LANES)
        max_lanes(&m, t + i);
    return fold_max(&m);
}

static inline float block_sum(const float *t)
{
    struct lanes s = {0};

    add_lanes(&s, t, BLOCK);
    return fold_sum(&s);
}

/* In passes over the rows, so that the folds of one row do not wait for those of another. */
static void softmax(void *p, bool bf16, const float *restrict s, int rows, const int *restrict keys,
                    float sc, float *restrict m, float *restrict l, float *restrict alpha)
{
    float t[CPU_TILE_ROWS][BLOCK], top[CPU_TILE_ROWS], sum[CPU_TILE_ROWS];

    for (int i = 0; i < rows; i++) {
        const float *restrict x = s + (size_t)i * BLOCK;
        const int n = keys[i];

        for (int j = 0; j < BLOCK; j++)
            t[i][j] = j < n ? x[j] * sc : -INFINITY;
        top[i] = greater(block_max(t[i]), m[i]);
    }
    for (int i = 0; i < rows; i++)
        for (int j = 0; j < BLOCK; j++)
            t[i][j] = cpu_exp(t[i][j] - top[i]);
    for (int i = 0; i < rows; i++)
        sum[i] = block_sum(t[i]);
    for (int i = 0; i < rows; i++) {
        alpha[i] = cpu_exp(m[i] - top[i]);
        l[i] = l[i] * alpha[i] + sum[i];
        m[i] = top[i];
    }
    put(p, bf16, 0, t[0], (int64_t)rows * BLOCK);
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
                             const float *dp, int rows, const int *keys, float sc, const float *lse,
                             const float *delta)
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
    float t[LANES];
    struct lanes m;
    int64_t i = 0;

    memcpy(&m, part(t, x, 0, -INFINITY), sizeof m);
    for (; i + LANES <= n; i += LANES)
        max_lanes(&m, x + i);
    if (i < n)
        max_lanes(&m, part(t, x + i, n - i, -INFINITY));
    return fold_max(&m);
}

/* Only -inf and NaN: -inf - -inf tells nothing. */
static void chunk_without_numbers(struct cpu_chunk *out, const float *x, int64_t n)
{
    out->sum = out->dev = 0.0f;
    for (int64_t i = 0; i < n; i++)
        if (x[i] != x[i])
            out->sum = x[i];
}

static void chunk(struct cpu_chunk *out, const float *x, int64_t n, bool want_dev)
{
    const float top = row_max(x, n);
    float t[PIECE], u[PIECE];
    struct lanes sum = {0}, dev = {0};

    out->max = top;
    if (top == -INFINITY) {
        chunk_without_numbers(out, x, n);
        return;
    }
    for (int64_t at = 0; at < n; at += PIECE) {
        const int64_t k = MINT_MIN(PIECE, n - at);

        for (int64_t i = 0; i < k; i++)
            t[i] = cpu_exp(x[at + i] - top);
        add_lanes(&sum, t, k);
        if (!want_dev)
            continue;
        for (int64_t i = 0; i < k; i++) {
            const float y = x[at + i] - top;

            u[i] = t[i] * (y > -128.0f ? y : -128.0f); /* 0, not 0 * inf */
        }
        add_lanes(&dev, u, k);
    }
    out->sum = fold_sum(&sum);
    out->dev = fold_sum(&dev);
}

/* t += the entropy's part for logits x; an infinite log p goes with p = 0. */
static void add_dentropy(float *t, const float *x, const struct cpu_dlogits *g, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        const float y = x[i] - g->lse;

        t[i] -= g->dentropy * (cpu_exp(y) * ((y > -128.0f ? y : -128.0f) + g->entropy));
    }
}

static void dlogits(void *out, bool bf16, const float *x, const struct cpu_dlogits *g, int64_t n)
{
    const float lse = g->lse, dlp = g->dlp;
    const int64_t target = g->target;
    float t[PIECE];

    for (int64_t at = 0; at < n; at += PIECE) {
        const int64_t k = MINT_MIN(PIECE, n - at);

        for (int64_t i = 0; i < k; i++)
            t[i] = -(dlp * cpu_exp(x[at + i] - lse));
        if (target >= at && target < at + k)
            t[target - at] = dlp * (1.0f - cpu_exp(x[target] - lse));
        if (g->dentropy != 0.0f)
            add_dentropy(t, x + at, g, k);
        put(out, bf16, at, t, k);
    }
}

static float weights(float *restrict y, float *restrict w, const float *restrict x, float max,
                     float inv, int64_t n)
{
    struct lanes sum = {0};

    for (int64_t i = 0; i < n; i++) {
        y[i] = (x[i] - max) * inv;
        w[i] = cpu_exp(y[i]);
    }
    add_lanes(&sum, w, n);
    return fold_sum(&sum);
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
        const float x = g[i] * gs, m1 = b1 * m[i] + c1 * x, v1 = b2 * v[i] + c2 * (x * x);

        m[i] = m1;
        v[i] = v1;
        p[i] = p[i] * keep - step * (m1 / (__builtin_sqrtf(v1 * inv2) + eps));
    }
}

static double sumsq(const float *x, int64_t n)
{
    typedef double wide __attribute__((vector_size(NATIVE / 2 * sizeof(double))));
    wide sum[2 * VECTORS];
    double a[LANES] = {0};

    memcpy(sum, a, sizeof sum);
    for (int64_t i = 0; i < n; i += LANES) {
        const float *t = x + i;
        float last[LANES];

        if (i + LANES > n)
            t = part(last, x + i, n - i, 0.0f);
        for (int l = 0; l < LANES; l++)
            a[l] = (double)t[l];
        for (int v = 0; v < 2 * VECTORS; v++) {
            wide b;

            memcpy(&b, a + v * (NATIVE / 2), sizeof b);
            sum[v] += b * b;
        }
    }
    memcpy(a, sum, sizeof sum);
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

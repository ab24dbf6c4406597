/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Matrix products of the CPU backend against a scalar fmaf loop, bit for bit: every instruction set
 * that this CPU has, both precisions, odd shapes, packed and unpacked weights, 1 and 2 threads.
 * Inputs end at an unreadable page, outputs are filled with NaN and guarded.
 */
#include "backend.h"
#include "mem.h"
#include "cpu/cpu.h"

#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <cmocka.h>

/* --- values */

static uint32_t seed = 1;

static float uniform(void)
{
    seed = seed * 1664525u + 1013904223u;
    return (float)(seed >> 8) * 0x1p-23f - 1.0f;
}

/* A matrix as the test sees it: exact values, and as the device takes it, ending at a page that
 * must not be read. */
struct matrix {
    size_t rows, cols;
    float *v;
    void *map, *data;
    size_t map_bytes;
};

static struct matrix matrix_new(size_t rows, size_t cols, size_t elem)
{
    size_t bytes = rows * cols * elem, page = 4096;
    struct matrix m = {.rows = rows, .cols = cols};
    m.v = calloc(rows * cols + 1, sizeof *m.v);
    m.map_bytes = (bytes + page - 1) / page * page + page;
    m.map = mmap(NULL, m.map_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(m.v && m.map != MAP_FAILED);
    assert_int_equal(mprotect((char *)m.map + m.map_bytes - page, page, PROT_NONE), 0);
    m.data = (char *)m.map + m.map_bytes - page - bytes;
    return m;
}

/* Rounds v to the element type and stores it. */
static void matrix_store(struct matrix *m, size_t elem)
{
    for (size_t i = 0; i < m->rows * m->cols; i++) {
        if (elem == 2) {
            ((cpu_bf16 *)m->data)[i] = cpu_f32_to_bf16(m->v[i]);
            m->v[i] = cpu_bf16_to_f32(((cpu_bf16 *)m->data)[i]);
        } else {
            ((float *)m->data)[i] = m->v[i];
        }
    }
}

static struct matrix matrix_random(size_t rows, size_t cols, size_t elem)
{
    struct matrix m = matrix_new(rows, cols, elem);
    for (size_t i = 0; i < rows * cols; i++)
        m.v[i] = uniform();
    matrix_store(&m, elem);
    return m;
}

static void matrix_free(struct matrix *m)
{
    munmap(m->map, m->map_bytes);
    free(m->v);
}

/* --- the oracle: one accumulator, pairs ascending, the odd one first, subnormals zero */

static float flush(float v)
{
    return fabsf(v) < FLT_MIN ? copysignf(0.0f, v) : v;
}

static float step(float a, float b, float acc)
{
    return flush(fmaf(flush(a), flush(b), acc));
}

/* a[i * sa] . b[i * sb], i < n */
static float dot(const float *a, size_t sa, const float *b, size_t sb, size_t n)
{
    float acc = 0.0f;
    for (size_t i = 0; i < n; i += 2) {
        bool odd = i + 1 < n;
        acc = step(odd ? a[(i + 1) * sa] : 0.0f, odd ? b[(i + 1) * sb] : 0.0f, acc);
        acc = step(a[i * sa], b[i * sb], acc);
    }
    return acc;
}

static bool same(float a, float b)
{
    return memcmp(&a, &b, sizeof a) == 0 || (isnan(a) && isnan(b));
}

#define assert_same(got, want)                                                                     \
    do {                                                                                           \
        float got_ = (got), want_ = (want);                                                        \
        if (!same(got_, want_))                                                                    \
            fail_msg("%s: %a, %a expected (isa %s)", #got, (double)got_, (double)want_, isa_name); \
    } while (0)

/* --- devices */

static const char *isa_name = "";

struct setup {
    struct mint_dev *d;
    const struct mint_ops *ops;
    size_t act;
};

static struct setup open_device(const char *isa, enum mint_precision p, int threads)
{
    struct setup s;
    struct mint_err err = {0};
    setenv("MINT_CPU_ISA", isa, 1);
    assert_int_equal(mint_backend_open(&s.d, "cpu", p, threads, &err), 0);
    s.ops = s.d->ops;
    s.act = s.d->act_bytes;
    isa_name = isa;
    return s;
}

static void round_act(const struct setup *s, float *v, size_t n)
{
    for (size_t i = 0; s->act == 2 && i < n; i++)
        v[i] = cpu_bf16_to_f32(cpu_f32_to_bf16(v[i]));
}

/* Runs check on every instruction set and precision; each set sees 1 and 2 threads. */
static void everywhere(void (*check)(const struct setup *s))
{
    int threads = 1;
    for (const struct cpu_isa *i = cpu_isas; i->name; i++) {
        if (!i->usable())
            continue;
        for (int p = 0; p < 2; p++) {
            struct setup s =
                open_device(i->name, p ? MINT_PRECISION_F32 : MINT_PRECISION_BF16, threads);
            seed = 1;
            check(&s);
            mint_backend_close(s.d);
            threads = 3 - threads;
        }
        threads = 3 - threads;
    }
}

static float *nans(size_t n)
{
    float *p = malloc((n + 1) * sizeof *p);
    assert_non_null(p);
    for (size_t i = 0; i < n; i++)
        p[i] = NAN;
    return p;
}

static struct mint_weight *weight(const struct setup *s, const struct matrix *m, size_t elem,
                                  bool keep, bool packed)
{
    struct mint_weight *w;
    struct mint_err err = {0};
    assert_int_equal(s->ops->weight_new(s->d, &w, m->data, elem == 2 ? MINT_BF16 : MINT_F32,
                                        (int64_t)m->rows, (int64_t)m->cols, keep, packed, &err),
                     0);
    return w;
}

/* --- forward */

struct shape {
    int T, N, K, rank;
};

static const struct shape shapes[] = {
    {1, 1, 1, 0},     {1, 32, 64, 0},    {2, 31, 63, 1},  {3, 129, 66, 3},
    {5, 97, 17, 5},   {6, 64, 34, 0},    {7, 33, 2, 2},   {12, 65, 128, 7},
    {13, 40, 31, 16}, {24, 130, 33, 33}, {37, 61, 96, 4}, {0, 33, 8, 2},
};

/* y = acc + bias, then fma(scale, B act(A x), y). */
static void linear_oracle(const struct setup *s, const struct shape *q, float *y, float *u,
                          const struct matrix *x, const struct matrix *w, const float *bias,
                          const struct matrix *a, const struct matrix *b, float scale)
{
    for (int t = 0; t < q->T; t++) {
        const float *row = x->v + (size_t)t * (size_t)q->K;
        float *ut = u + t * q->rank;
        for (int r = 0; r < q->rank; r++)
            ut[r] = dot(row, 1, a->v + (size_t)r * (size_t)q->K, 1, (size_t)q->K);
        round_act(s, ut, (size_t)q->rank);
        for (int n = 0; n < q->N; n++) {
            float v = dot(row, 1, w->v + (size_t)n * (size_t)q->K, 1, (size_t)q->K);
            v += bias[n];
            if (q->rank)
                v = fmaf(scale, dot(ut, 1, b->v + n * q->rank, 1, (size_t)q->rank), v);
            y[t * q->N + n] = v;
        }
    }
}

static void check_linear_shape(const struct setup *s, const struct shape *q, size_t wbytes,
                               bool packed)
{
    size_t T = (size_t)q->T, N = (size_t)q->N, K = (size_t)q->K, r = (size_t)q->rank, ldy = N + 5;
    struct matrix x = matrix_random(T, K, s->act), w = matrix_random(N, K, wbytes);
    struct matrix a = matrix_random(r ? r : 1, K, s->act), b = matrix_random(N, r ? r : 1, s->act);
    struct matrix bias = matrix_random(1, N, 4);
    struct mint_weight *W = weight(s, &w, wbytes, true, packed);
    struct mint_lora lora = {weight(s, &a, s->act, false, packed),
                             weight(s, &b, s->act, false, packed), q->rank, 1.7f};
    float *y = nans(T * ldy + 1), *want = nans(T * N), *want_u = nans(T * r);
    struct matrix u = matrix_new(T, r, s->act);
    if (s->act == 2 && wbytes == 4) /* what the device made of it */
        round_act(s, w.v, N * K);
    linear_oracle(s, q, want, want_u, &x, &w, bias.v, &a, &b, lora.scale);
    assert_int_equal(s->ops->linear(s->d, y, (int64_t)ldy, x.data, W, bias.data, r ? &lora : NULL,
                                    T % 2 ? u.data : NULL, q->T, NULL),
                     0);
    for (size_t t = 0; t < T; t++)
        for (size_t n = 0; n < ldy; n++)
            assert_same(y[t * ldy + n], n < N ? want[t * N + n] : NAN);
    for (size_t i = 0; T % 2 && i < T * r; i++)
        assert_same(s->act == 2 ? cpu_bf16_to_f32(((cpu_bf16 *)u.data)[i]) : ((float *)u.data)[i],
                    want_u[i]);
    s->ops->weight_free(s->d, W);
    s->ops->weight_free(s->d, (struct mint_weight *)(uintptr_t)lora.a);
    s->ops->weight_free(s->d, (struct mint_weight *)(uintptr_t)lora.b);
    free(y), free(want), free(want_u);
    matrix_free(&x), matrix_free(&w), matrix_free(&a), matrix_free(&b), matrix_free(&bias);
    matrix_free(&u);
}

static void check_linear(const struct setup *s)
{
    for (size_t i = 0; i < MINT_ARRAY_LEN(shapes); i++)
        for (size_t wbytes = 2; wbytes <= 4; wbytes += 2)
            for (int packed = 0; packed < 2; packed++)
                check_linear_shape(s, &shapes[i], wbytes, packed);
}

static void test_linear(void **state)
{
    (void)state;
    everywhere(check_linear);
}

/* Depths at which unpacked panels are cut, and strides that get padded. */
static void check_linear_deep(const struct setup *s)
{
    static const struct shape deep[] = {{2, 33, 517, 0}, {14, 3, 4099, 0}, {9, 5, 1024, 3}};
    for (size_t i = 0; i < MINT_ARRAY_LEN(deep); i++)
        for (int packed = 0; packed < 2; packed++)
            check_linear_shape(s, &deep[i], 2, packed);
}

static void test_linear_deep(void **state)
{
    (void)state;
    everywhere(check_linear_deep);
}

/* A row alone has the bits that it has in any batch. */
static void check_batching(const struct setup *s)
{
    enum { T = 41, N = 200, K = 70 };
    struct matrix x = matrix_random(T, K, s->act), w = matrix_random(N, K, 2);
    float *all = nans((size_t)T * N), *some = nans((size_t)T * N);
    for (int packed = 0; packed < 2; packed++) {
        struct mint_weight *W = weight(s, &w, 2, true, packed);
        s->ops->linear(s->d, all, N, x.data, W, NULL, NULL, NULL, T, NULL);
        for (int size = 1; size <= 30; size += size < 14 ? 1 : 8)
            for (int t = 0; t + size <= T; t += size) {
                const void *from = (const char *)x.data + (size_t)(t * K) * s->act;
                s->ops->linear(s->d, some, N, from, W, NULL, NULL, NULL, size, NULL);
                assert_memory_equal(some, all + t * N, (size_t)size * N * sizeof *all);
            }
        s->ops->weight_free(s->d, W);
    }
    free(all), free(some);
    matrix_free(&x), matrix_free(&w);
}

static void test_batching(void **state)
{
    (void)state;
    everywhere(check_batching);
}

/* --- backward */

static void check_dx_shape(const struct setup *s, const struct shape *q, bool accumulate)
{
    size_t T = (size_t)q->T, N = (size_t)q->N, K = (size_t)q->K, r = (size_t)q->rank, ldy = N + 3;
    struct matrix dy = matrix_random(T, ldy, s->act), w = matrix_random(N, K, 2);
    struct matrix a = matrix_random(r ? r : 1, K, s->act), du = matrix_random(T, r, s->act);
    struct mint_weight *W = weight(s, &w, 2, true, false);
    struct mint_lora lora = {weight(s, &a, s->act, false, true), NULL, q->rank, 1.0f};
    float *dx = nans(T * K + 1);
    float *before = nans(T * K);
    for (size_t i = 0; accumulate && i < T * K; i++)
        dx[i] = before[i] = uniform();
    s->ops->linear_dx(s->d, dx, accumulate, dy.data, (int64_t)ldy, W, r ? &lora : NULL,
                      r ? du.data : NULL, q->T, NULL);
    for (size_t t = 0; t < T; t++)
        for (size_t k = 0; k < K; k++) {
            float v = dot(dy.v + t * ldy, 1, w.v + k, K, N);
            if (r)
                v += dot(du.v + t * r, 1, a.v + k, K, r);
            if (accumulate)
                v = before[t * K + k] + v;
            assert_same(dx[t * K + k], v);
        }
    assert_true(isnan(dx[T * K]));
    s->ops->weight_free(s->d, W);
    s->ops->weight_free(s->d, (struct mint_weight *)(uintptr_t)lora.a);
    free(dx), free(before);
    matrix_free(&dy), matrix_free(&w), matrix_free(&a), matrix_free(&du);
}

static void check_dx(const struct setup *s)
{
    static const struct shape deep = {9, 2051, 5, 0};
    for (size_t i = 0; i < MINT_ARRAY_LEN(shapes); i++)
        for (int accumulate = 0; accumulate < 2; accumulate++)
            check_dx_shape(s, &shapes[i], accumulate);
    check_dx_shape(s, &deep, true);
}

static void test_linear_dx(void **state)
{
    (void)state;
    everywhere(check_dx);
}

static void check_lora_du(const struct setup *s)
{
    for (size_t i = 0; i < MINT_ARRAY_LEN(shapes); i++) {
        const struct shape *q = &shapes[i];
        size_t T = (size_t)q->T, N = (size_t)q->N, r = q->rank ? (size_t)q->rank : 1;
        struct matrix dy = matrix_random(T, N, s->act), b = matrix_random(N, r, s->act);
        struct mint_lora lora = {NULL, weight(s, &b, s->act, true, false), (int64_t)r, 0.3f};
        float *du = nans(T * r + 1);
        s->ops->lora_du(s->d, du, dy.data, (int64_t)N, &lora, q->T, NULL);
        for (size_t t = 0; t < T; t++)
            for (size_t j = 0; j < r; j++)
                assert_same(du[t * r + j], lora.scale * dot(dy.v + t * N, 1, b.v + j, r, N));
        assert_true(isnan(du[T * r]));
        s->ops->weight_free(s->d, (struct mint_weight *)(uintptr_t)lora.b);
        free(du);
        matrix_free(&dy), matrix_free(&b);
    }
}

static void test_lora_du(void **state)
{
    (void)state;
    everywhere(check_lora_du);
}

static void check_outer_shape(const struct setup *s, size_t M, size_t N, size_t row0, size_t rows)
{
    size_t T = row0 + 2 * rows + 1, lda = M + 1, ldb = N + 2;
    struct matrix a = matrix_random(T, lda, s->act), b = matrix_random(T, ldb, s->act);
    /* leaves of rows, none, one and all but one of them */
    size_t first[] = {row0, row0 + rows, row0 + rows, row0 + rows + 1, T};
    struct mint_outer o = {0.7f,   a.data,       (int64_t)lda, (int64_t)M,
                           b.data, (int64_t)ldb, (int64_t)N};
    int64_t bound[5];
    float *out[4];
    for (size_t i = 0; i < 5; i++)
        bound[i] = (int64_t)first[i];
    for (size_t i = 0; i < 4; i++)
        out[i] = nans(M * N + 1);
    s->ops->outer(s->d, out, &o, bound, 4, NULL);
    for (size_t i = 0; i < 4; i++) {
        size_t from = first[i], n = first[i + 1] - from;
        for (size_t m = 0; m < M; m++)
            for (size_t k = 0; k < N; k++)
                assert_same(out[i][m * N + k],
                            n ? 0.7f * dot(a.v + from * lda + m, lda, b.v + from * ldb + k, ldb, n)
                              : 0.0f);
        assert_true(isnan(out[i][M * N]));
        free(out[i]);
    }
    matrix_free(&a), matrix_free(&b);
}

static void check_outer(const struct setup *s)
{
    static const size_t sizes[] = {1, 3, 16, 33, 70};
    for (size_t i = 0; i < MINT_ARRAY_LEN(sizes); i++)
        for (size_t j = 0; j < MINT_ARRAY_LEN(sizes); j++)
            for (size_t row0 = 0; row0 < 2; row0++)
                check_outer_shape(s, sizes[i], sizes[j], row0, i + j == 3 ? 0 : 10 + 7 * i + j);
    check_outer_shape(s, 2, 33, 1, 1100);
}

static void test_outer(void **state)
{
    (void)state;
    everywhere(check_outer);
}

/* Chunks of the inner dimension, in order, are one accumulator. */
static void check_dx_chunks(const struct setup *s)
{
    enum { T = 14, N = 65, K = 70 };
    struct matrix dy = matrix_random(T, N, s->act), w = matrix_random(N, K, 2);
    struct mint_weight *W = weight(s, &w, 2, true, false);
    struct cpu_dev *d = cpu_dev(s->d);
    float *whole = nans(T * K), *parts = nans(T * K);
    cpu_gemm_dx_cols(d, 0, whole, K, dy.data, N, T, W, 0, N, 0, K, true);
    for (int n = 0; n < N; n += 32) {
        const void *from = (const char *)dy.data + (size_t)n * s->act;
        int n1 = MINT_MIN(n + 32, N);
        cpu_gemm_dx_cols(d, 0, parts, K, from, N, T, W, n, n1, 0, 32, n == 0);
        cpu_gemm_dx_cols(d, 0, parts + 32, K, from, N, T, W, n, n1, 32, K, n == 0);
    }
    assert_memory_equal(whole, parts, sizeof *whole * T * K);
    s->ops->weight_free(s->d, W);
    free(whole), free(parts);
    matrix_free(&dy), matrix_free(&w);
}

static void test_dx_chunks(void **state)
{
    (void)state;
    everywhere(check_dx_chunks);
}

/* --- what is not a normal number */

/* ARM takes a sum that only rounding makes normal for a subnormal, and flushes it; x86 rounds
 * first. */
static bool flushed_before_rounding(float got, float want)
{
#ifdef __aarch64__
    return got == 0.0f && fabsf(want) == FLT_MIN;
#else
    (void)got;
    (void)want;
    return false;
#endif
}

static void check_special(const struct setup *s)
{
    enum { T = 13, N = 40, K = 8 };
    static const float specials[] = {1e-40f, -1e-40f,  FLT_MIN, -FLT_MIN, 1e-20f, -1e-20f, 0.0f,
                                     -0.0f,  INFINITY, NAN,     1.0f,     -1.0f,  FLT_MAX};
    struct matrix x = matrix_new(T, K, s->act), w = matrix_new(N, K, 2);
    for (size_t i = 0; i < T * K; i++)
        x.v[i] = specials[(i * 5 + i / K) % 8]; /* finite and small */
    for (size_t i = 0; i < N * K; i++)
        w.v[i] = specials[(i * 3 + i / K) % (i < 6 * K ? MINT_ARRAY_LEN(specials) : 8)];
    matrix_store(&x, s->act);
    matrix_store(&w, 2);
    struct mint_weight *W = weight(s, &w, 2, true, true);
    float *y = nans(T * N);
    volatile float tiny = FLT_MIN;
    s->ops->linear(s->d, y, N, x.data, W, NULL, NULL, NULL, T, NULL);
    for (size_t t = 0; t < T; t++)
        for (size_t n = 0; n < N; n++) {
            float want = dot(x.v + t * K, 1, w.v + n * K, 1, K);
            if (!flushed_before_rounding(y[t * N + n], want))
                assert_same(y[t * N + n], want);
        }
    assert_true(tiny / 2.0f > 0.0f); /* the caller's floating-point mode is back */
    s->ops->weight_free(s->d, W);
    free(y);
    matrix_free(&x), matrix_free(&w);
}

static void test_special(void **state)
{
    (void)state;
    everywhere(check_special);
}

/* --- weights */

static void check_weight_types(const struct setup *s)
{
    static const uint16_t half[] = {0x3c00, 0xc000, 0x0001, 0x03ff, 0x7bff, 0x8000, 0x3555, 0x1234};
    static const float value[] = {1.0f,     -2.0f, 0x1p-24f,    1023 * 0x1p-24f,
                                  65504.0f, -0.0f, 0x1.554p-2f, 0x1.8dp-11f};
    char odd[1 + sizeof half], room[1 + sizeof value];
    struct mint_weight *w;
    memcpy(odd + 1, half, sizeof half);
    memcpy(room + 1, value, sizeof value);
    for (int from = 0; from < 2; from++) {
        const void *rows = from ? odd + 1 : room + 1;
        s->ops->weight_new(s->d, &w, rows, from ? MINT_F16 : MINT_F32, 2, 4, true, false, NULL);
        for (int i = 0; i < 8; i++) {
            float want = s->act == 2 ? cpu_bf16_to_f32(cpu_f32_to_bf16(value[i])) : value[i];
            float got = w->type == MINT_F32 ? ((const float *)w->rows)[i]
                                            : cpu_bf16_to_f32(((const cpu_bf16 *)w->rows)[i]);
            assert_same(got, want);
        }
        s->ops->weight_free(s->d, w);
    }
    s->ops->weight_free(s->d, NULL);
}

static void test_weight_types(void **state)
{
    (void)state;
    everywhere(check_weight_types);
}

/* Rows at an odd address are used as well, and rows in place are not copied. */
static void check_weight_keep(const struct setup *s)
{
    static const cpu_bf16 rows[] = {0x3f80, 0x4000, 0x4040, 0x4080, 0x40a0, 0x40c0};
    char odd[1 + sizeof rows];
    struct mint_weight *kept, *moved;
    memcpy(odd + 1, rows, sizeof rows);
    s->ops->weight_new(s->d, &kept, rows, MINT_BF16, 2, 3, true, false, NULL);
    s->ops->weight_new(s->d, &moved, odd + 1, MINT_BF16, 2, 3, true, false, NULL);
    assert_ptr_equal(kept->rows, rows);
    /* what is converted for products alone is there once */
    struct mint_weight *once;
    s->ops->weight_new(s->d, &once, rows, MINT_F16, 2, 3, true, true, NULL);
    assert_null(once->owned_rows);
    assert_non_null(once->packed);
    s->ops->weight_free(s->d, once);
    assert_memory_equal(moved->rows, rows, sizeof rows);
    s->ops->weight_free(s->d, kept);
    s->ops->weight_free(s->d, moved);
}

static void test_weight_keep(void **state)
{
    (void)state;
    everywhere(check_weight_keep);
}

static void check_weight_set(const struct setup *s)
{
    enum { T = 3, N = 45, K = 21 };
    struct matrix x = matrix_random(T, K, s->act), w = matrix_random(N, K, 2);
    struct matrix fresh = matrix_random(N, K, 4);
    const float *values = fresh.data;
    float y[T * N], again[T * N];
    for (int packed = 0; packed < 2; packed++)
        for (int keep = 0; keep < 2; keep++) {
            struct mint_weight *a = weight(s, &w, 2, keep, packed);
            struct mint_weight *b = weight(s, &fresh, 4, false, !packed);
            for (int round = 0; round < 2; round++) {
                s->ops->weight_set(s->d, &a, &values, 1, NULL);
                s->ops->linear(s->d, y, N, x.data, a, NULL, NULL, NULL, T, NULL);
                s->ops->linear(s->d, again, N, x.data, b, NULL, NULL, NULL, T, NULL);
                assert_memory_equal(y, again, sizeof y);
            }
            s->ops->weight_free(s->d, a);
            s->ops->weight_free(s->d, b);
        }
    matrix_free(&x), matrix_free(&w), matrix_free(&fresh);
}

static void test_weight_set(void **state)
{
    (void)state;
    everywhere(check_weight_set);
}

/* --- element by element */

static void check_elements(const struct setup *s)
{
    enum { N = 70001 };
    static const int32_t to[] = {4, 0, 2}, from[] = {2, 4, 0};
    struct matrix x = matrix_random(1, N, 4), y = matrix_random(1, N, 4);
    uint32_t odd[] = {0x7f800001, 0xff800000, 0x7fffffff, 1, 0x80007fff, 0x3f808000, 0x3f818000};
    memcpy(x.v, odd, sizeof odd);
    memcpy(x.data, odd, sizeof odd);
    struct matrix out = matrix_new(1, N, s->act);
    s->ops->cast(s->d, out.data, x.data, N, NULL);
    for (size_t i = 0; i < N; i++) {
        if (s->act == 2)
            assert_int_equal(((cpu_bf16 *)out.data)[i], cpu_f32_to_bf16(x.v[i]));
        else
            assert_memory_equal((float *)out.data + i, x.v + i, 4);
    }
    s->ops->add(s->d, y.data, (float *)x.data, N, NULL);
    for (size_t i = 7; i < N; i++)
        assert_same(((float *)y.data)[i], y.v[i] + x.v[i]);
    /* two folds: the order of their additions counts */
    enum { LEAF = 9001 };
    float *v = y.data, *z = v + 3 * LEAF;
    float *was = mint_xmalloc(N * sizeof *was);
    memcpy(was, v, N * sizeof *was);
    const struct mint_addition add[] = {{v + LEAF, v + 2 * LEAF}, {v, v + LEAF}}, one = {z, z + 5};
    const struct mint_fold folds[] = {{LEAF, add, 2}, {5, &one, 1}};
    s->ops->fold(s->d, folds, 2, NULL);
    for (size_t i = 7; i < LEAF; i++)
        assert_same(v[i], was[i] + (was[LEAF + i] + was[2 * LEAF + i]));
    for (size_t i = 3 * LEAF; i < N; i++)
        assert_same(v[i], i < 3 * LEAF + 5 ? was[i] + was[i + 5] : was[i]);
    free(was);
    char cells[5][3] = {"aa", "bb", "cc", "dd", "ee"}, got[5][3] = {{0}};
    s->ops->gather(s->d, got, cells, from, 3, 3, NULL);
    assert_memory_equal(got, "cc\0ee\0aa\0\0", 10);
    s->ops->scatter(s->d, cells, got, to, 3, 3, NULL);
    assert_memory_equal(cells, "ee\0bb\0aa\0dd\0cc", 15);
    matrix_free(&x), matrix_free(&y), matrix_free(&out);
}

static void test_elements(void **state)
{
    (void)state;
    everywhere(check_elements);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_linear),       cmocka_unit_test(test_linear_deep),
        cmocka_unit_test(test_batching),     cmocka_unit_test(test_linear_dx),
        cmocka_unit_test(test_lora_du),      cmocka_unit_test(test_outer),
        cmocka_unit_test(test_dx_chunks),    cmocka_unit_test(test_special),
        cmocka_unit_test(test_weight_types), cmocka_unit_test(test_weight_keep),
        cmocka_unit_test(test_weight_set),   cmocka_unit_test(test_elements),
    };
    return cmocka_run_group_tests_name("gemm", tests, NULL, NULL);
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The row operations of the CPU backend (embedding, RMS norm, SwiGLU, Adam, sum of squares) against
 * plain double code: odd sizes, guarded outputs that begin as NaN, gradients against central
 * differences, the same bits on every instruction set, with 1 and 2 threads and wherever a row
 * stands.
 */
#include "cpu_test.h"

#include "cpu/rows.h"

#include <float.h>

#define EPS 1e-6f

static const int64_t widths[] = {1, 2, 7, 15, 16, 17, 31, 64, 97, 255, 256, 257, 1024, 1031};
static const int64_t heights[] = {0, 1, 3, 8, 13};

/* The output of an op on one device is what all others must give. */
struct op_case {
    int64_t T, H;
    const float *x, *y, *w;
    const void *act;
    void *want;
    size_t bytes;
};

static void compare(struct op_case *c, void *got, size_t bytes)
{
    check_guards(got, bytes);
    if (!c->want) {
        c->want = got;
        c->bytes = bytes;
        return;
    }
    assert_int_equal(bytes, c->bytes);
    check_same("output", got, c->want, bytes);
    guarded_free(got);
}

/* --- RMS norm */

static double ref_norm(const float *x, const float *w, int64_t H, int64_t i)
{
    double sum = 0.0;
    for (int64_t j = 0; j < H; j++)
        sum += (double)x[j] * (double)x[j];
    return (double)x[i] / sqrt(sum / (double)H + (double)EPS) * (double)w[i];
}

static void norm_on(struct mint_dev *d, void *ctx)
{
    struct op_case *c = ctx;
    size_t bytes = (size_t)(c->T * c->H) * d->act_bytes;
    void *out = guarded(bytes);
    assert_int_equal(cpu_rmsnorm(d, out, c->x, c->w, EPS, c->T, c->H, NULL), 0);
    for (int64_t i = 0; i < c->T * c->H && !c->want; i++) {
        double want = ref_norm(c->x + i / c->H * c->H, c->w, c->H, i % c->H);
        check_close("rmsnorm", (double)act_get(d, out, i), want,
                    fabs(want) * (d->act_bytes == 2 ? 0x1.01p-8 : 5e-7) + 1e-30);
    }
    compare(c, out, bytes);
}

/* The last row alone, with another T and at another place. */
static void norm_alone(struct mint_dev *d, const struct op_case *c)
{
    size_t row = (size_t)c->H * d->act_bytes;
    void *out = guarded(row);
    assert_int_equal(cpu_rmsnorm(d, out, c->x + (c->T - 1) * c->H, c->w, EPS, 1, c->H, NULL), 0);
    check_same("a row alone", out, (char *)c->want + (size_t)(c->T - 1) * row, row);
    guarded_free(out);
}

static void rmsnorm_forward(void **unused)
{
    (void)unused;
    for (size_t i = 0; i < MINT_ARRAY_LEN(widths); i++)
        for (size_t j = 0; j < MINT_ARRAY_LEN(heights); j++)
            for (int p = 0; p < 2; p++) {
                struct op_case c = {.T = heights[j], .H = widths[i]};
                float *x = random_floats((size_t)(c.T * c.H), 3.0f);
                float *w = random_floats((size_t)c.H, 2.0f);
                c.x = x;
                c.w = w;
                on_all_devices((enum mint_precision)p, norm_on, &c);
                if (c.T > 0) {
                    struct mint_dev *d = open_device(usable_isa(0), (enum mint_precision)p, 1);
                    norm_alone(d, &c);
                    cpu_close(d);
                }
                guarded_free(c.want);
                guarded_free(x);
                guarded_free(w);
            }
}

static void norm_back_on(struct mint_dev *d, void *ctx)
{
    struct op_case *c = ctx;
    size_t n = (size_t)(c->T * c->H);
    float *dx = floats(n);
    for (size_t i = 0; i < n; i++)
        dx[i] = 0.25f; /* the op adds */
    assert_int_equal(cpu_rmsnorm_backward(d, dx, c->y, c->x, c->w, EPS, c->T, c->H, NULL), 0);
    compare(c, dx, n * sizeof *dx);
}

/* d/dx[i] of sum(dy * rmsnorm(x)). */
static double norm_slope(float *x, const float *dy, const float *w, int64_t H, int64_t i)
{
    const float old = x[i], h = 1.0f / 256;
    double sum[2] = {0.0, 0.0};
    for (int s = 0; s < 2; s++) {
        x[i] = s ? old + h : old - h;
        for (int64_t j = 0; j < H; j++)
            sum[s] += ref_norm(x, w, H, j) * (double)dy[j];
    }
    sum[1] -= sum[0];
    sum[0] = (double)(old + h) - (double)(old - h);
    x[i] = old;
    return sum[1] / sum[0];
}

static void rmsnorm_gradient(void **unused)
{
    static const int64_t sizes[] = {1, 2, 7, 16, 33, 64, 131};
    (void)unused;
    for (size_t i = 0; i < MINT_ARRAY_LEN(sizes); i++) {
        const int64_t T = 9, H = sizes[i];
        float *x = random_floats((size_t)(T * H), 4.0f), *dy = random_floats((size_t)(T * H), 1.0f);
        float *w = random_floats((size_t)H, 2.0f);
        for (int64_t t = 0; t < T * H; t++)
            x[t] += x[t] < 0 ? -1.0f : 1.0f; /* away from the bend at 0 when H is 1 */
        struct op_case c = {.T = T, .H = H, .x = x, .y = dy, .w = w};
        on_all_devices(MINT_PRECISION_F32, norm_back_on, &c);
        for (int64_t t = 0; t < T; t++)
            for (int64_t k = 0; k < H; k += 1 + H / 9)
                check_close("rmsnorm gradient", (double)((float *)c.want)[t * H + k] - 0.25,
                            norm_slope(x + t * H, dy + t * H, w, H, k), 3e-5);
        guarded_free(c.want);
        guarded_free(x);
        guarded_free(dy);
        guarded_free(w);
    }
}

/* --- SwiGLU */

static double ref_swiglu(double g, double u)
{
    return g / (1.0 + exp(-g)) * u;
}

static void swiglu_on(struct mint_dev *d, void *ctx)
{
    struct op_case *c = ctx;
    size_t bytes = (size_t)(c->T * c->H) * d->act_bytes;
    void *out = guarded(bytes);
    assert_int_equal(cpu_swiglu(d, out, c->x, c->T, c->H, NULL), 0);
    for (int64_t i = 0; i < c->T * c->H && !c->want; i++) {
        const float *gu = c->x + i / c->H * 2 * c->H + i % c->H;
        double want = ref_swiglu((double)gu[0], (double)gu[c->H]);
        check_close("swiglu", (double)act_get(d, out, i), want,
                    fabs(want) * (d->act_bytes == 2 ? 0x1.01p-8 : 5e-7) + 1e-37);
    }
    compare(c, out, bytes);
}

static void swiglu_back_on(struct mint_dev *d, void *ctx)
{
    struct op_case *c = ctx;
    size_t bytes = (size_t)(2 * c->T * c->H) * d->act_bytes;
    void *out = guarded(bytes);
    assert_int_equal(cpu_swiglu_backward(d, out, c->y, c->x, c->T, c->H, NULL), 0);
    for (int64_t i = 0; i < c->T * c->H && !c->want; i++) {
        const int64_t at = i / c->H * 2 * c->H + i % c->H;
        const double g = (double)c->x[at], u = (double)c->x[at + c->H], y = (double)c->y[i],
                     h = 1e-5;
        const double dg = y * (ref_swiglu(g + h, u) - ref_swiglu(g - h, u)) / (2 * h);
        const double du = y * ref_swiglu(g, 1.0), rel = d->act_bytes == 2 ? 0x1.01p-8 : 1e-5;
        check_close("dg", (double)act_get(d, out, at), dg, fabs(dg) * rel + 1e-6);
        check_close("du", (double)act_get(d, out, at + c->H), du, fabs(du) * rel + 1e-6);
    }
    compare(c, out, bytes);
}

static void swiglu_both_ways(void **unused)
{
    (void)unused;
    for (size_t i = 0; i < MINT_ARRAY_LEN(widths); i++)
        for (size_t j = 0; j < MINT_ARRAY_LEN(heights); j++)
            for (int p = 0; p < 2; p++) {
                struct op_case c = {.T = heights[j], .H = widths[i]}, back;
                float *gu = random_floats((size_t)(2 * c.T * c.H), 9.0f);
                float *dout = random_floats((size_t)(c.T * c.H), 1.0f);
                c.x = gu;
                c.y = dout;
                back = c;
                on_all_devices((enum mint_precision)p, swiglu_on, &c);
                on_all_devices((enum mint_precision)p, swiglu_back_on, &back);
                guarded_free(c.want);
                guarded_free(back.want);
                guarded_free(gu);
                guarded_free(dout);
            }
}

static void swiglu_of_large_numbers(void **unused)
{
    struct mint_dev *d = open_device(usable_isa(0), MINT_PRECISION_F32, 1);
    const float gu[12] = {-200, 200, -88.5f, 88.5f, -1e30f, 1e30f, 2, 2, 2, 2, 2, 2};
    float out[6], dgu[12], dout[6] = {1, 1, 1, 1, 1, 1};
    (void)unused;
    assert_int_equal(cpu_swiglu(d, out, gu, 1, 6, NULL), 0);
    assert_int_equal(cpu_swiglu_backward(d, dgu, dout, gu, 1, 6, NULL), 0);
    assert_true(fabsf(out[0]) < 1e-30f && fabsf(out[2]) < 1e-30f && fabsf(out[4]) < 1e-30f);
    assert_true(out[1] == 400.0f && out[3] == 177.0f && out[5] == 2e30f);
    for (int i = 0; i < 12; i++)
        assert_true(isfinite(dgu[i]));
    cpu_close(d);
}

/* --- embedding */

static void embedding_copies_rows(void **unused)
{
    const int64_t V = 11, K = 37, T = 40;
    int32_t ids[40];
    (void)unused;
    for (int p = 0; p < 2; p++)
        for (int packed = 0; packed < 2; packed++) {
            struct mint_dev *d = open_device(usable_isa(0), (enum mint_precision)p, 2);
            float *values = random_floats((size_t)(V * K), 1.0f), *x = floats((size_t)(T * K));
            struct mint_weight *w;
            assert_int_equal(cpu_weight_new(d, &w, values, MINT_F32, V, K, false, packed, NULL), 0);
            for (int i = 0; i < T; i++)
                ids[i] = i * 7 % (int)V;
            assert_int_equal(cpu_embed(d, x, w, ids, T, NULL), 0);
            check_guards(x, (size_t)(T * K) * sizeof *x);
            for (int64_t i = 0; i < T * K; i++)
                assert_true(x[i] == round_act(d, values[ids[i / K] * K + i % K]));
            assert_int_equal(cpu_embed(d, x, w, ids, 0, NULL), 0);
            cpu_weight_free(d, w);
            guarded_free(values);
            guarded_free(x);
            cpu_close(d);
        }
}

/* --- optimiser */

struct adam_state {
    int64_t n;
    float *g;
    float *want[3];
    struct mint_adam a;
};

static void adam_on(struct mint_dev *d, void *ctx)
{
    struct adam_state *s = ctx;
    float *v[3];
    for (int k = 0; k < 3; k++) {
        v[k] = floats((size_t)s->n);
        for (int64_t i = 0; i < s->n; i++)
            v[k][i] = k == 0   ? (float)(i % 13) - 6.0f
                      : k == 1 ? s->g[i] / 8
                               : s->g[i] * s->g[i] / 4;
    }
    for (int64_t i = 0; i < s->n && !s->want[0]; i++) {
        const struct mint_adam *a = &s->a;
        const double g = (double)s->g[i] * (double)a->grad_scale;
        const double m = (double)a->beta1 * (double)v[1][i] + (1 - (double)a->beta1) * g;
        const double u = (double)a->beta2 * (double)v[2][i] + (1 - (double)a->beta2) * g * g;
        const double p =
            (double)v[0][i] * (1 - (double)a->lr * (double)a->weight_decay) -
            (double)a->lr * (m / (double)a->bias1) / (sqrt(u / (double)a->bias2) + (double)a->eps);
        float one[3] = {v[0][i], v[1][i], v[2][i]};
        struct mint_adam_tensor t = {&one[0], &one[1], &one[2], &s->g[i], 1};
        assert_int_equal(cpu_adam(d, &t, 1, a, NULL), 0);
        check_close("p", (double)one[0], p, 1e-6 * fabs(p) + 1e-7);
        check_close("m", (double)one[1], m, 1e-6 * fabs(m) + 1e-12);
        check_close("v", (double)one[2], u, 2e-5 * fabs(u) + 1e-12);
    }
    /* in two tensors, one behind the other */
    int64_t h = s->n / 3;
    struct mint_adam_tensor t[2] = {{v[0], v[1], v[2], s->g, h},
                                    {v[0] + h, v[1] + h, v[2] + h, s->g + h, s->n - h}};
    assert_int_equal(cpu_adam(d, t, 2, &s->a, NULL), 0);
    for (int k = 0; k < 3; k++) {
        check_guards(v[k], (size_t)s->n * sizeof(float));
        if (s->want[k])
            check_same("adam", v[k], s->want[k], (size_t)s->n * sizeof(float));
        if (s->want[k])
            guarded_free(v[k]);
        else
            s->want[k] = v[k];
    }
}

static void adam_step(void **unused)
{
    static const int64_t sizes[] = {0, 1, 17, 4099};
    (void)unused;
    for (size_t i = 0; i < MINT_ARRAY_LEN(sizes); i++) {
        struct adam_state s = {.n = sizes[i], .g = random_floats((size_t)sizes[i], 2.0f)};
        s.a = (struct mint_adam){2e-2f, 0.9f, 0.999f, 1e-8f, 0.1f, 0.271f, 0.002997f, 0.5f};
        on_all_devices(MINT_PRECISION_F32, adam_on, &s);
        for (int k = 0; k < 3; k++)
            guarded_free(s.want[k]);
        guarded_free(s.g);
    }
}

struct sumsq_case {
    const float *x;
    int64_t n;
    bool have, want_finite;
    double want;
};

static void sumsq_on(struct mint_dev *d, void *ctx)
{
    struct sumsq_case *c = ctx;
    double two[2], got, exact = 0.0;
    struct mint_adam_tensor t[2] = {{.g = c->x, .n = c->n}, {.g = c->x, .n = MINT_MIN(c->n, 1)}};
    assert_int_equal(cpu_sumsq(d, two, t, 2, NULL), 0);
    assert_true(two[1] == (c->n ? (double)c->x[0] * (double)c->x[0] : 0.0) || isnan(two[1]));
    got = two[0];
    bool finite = isfinite(got);
    assert_int_equal(finite, c->want_finite);
    if (c->have)
        assert_true(memcmp(&got, &c->want, sizeof got) == 0 || isnan(got));
    c->have = true;
    c->want = got;
    for (int64_t i = 0; i < c->n; i++)
        exact += (double)c->x[i] * (double)c->x[i];
    if (finite)
        check_close("sumsq", got, exact, 1e-12 * exact);
}

static void sum_of_squares(void **unused)
{
    static const int64_t sizes[] = {0, 1, 15, 33, 32768, 70001};
    (void)unused;
    for (size_t i = 0; i < MINT_ARRAY_LEN(sizes); i++) {
        float *x = random_floats((size_t)sizes[i], 100.0f);
        struct sumsq_case c = {.x = x, .n = sizes[i], .want_finite = true};
        on_all_devices(MINT_PRECISION_F32, sumsq_on, &c);
        static const float odd[] = {FLT_MAX, INFINITY, NAN};
        for (int k = 0; k < 3 && sizes[i]; k++) {
            struct sumsq_case bad = {.x = x, .n = sizes[i], .want_finite = k == 0};
            x[sizes[i] / 2] = odd[k];
            on_all_devices(MINT_PRECISION_F32, sumsq_on, &bad);
        }
        guarded_free(x);
    }
}

/* --- the row code by itself: roundings, and lanes */

static void rounding_is_that_of_cpu_h(void **unused)
{
    float x[64], wide[64];
    cpu_bf16 y[64];
    (void)unused;
    for (const struct cpu_isa *isa = cpu_isas; isa->name; isa++) {
        if (!isa->usable())
            continue;
        for (uint64_t u = 0; u < UINT64_C(1) << 32; u += 64 * 40009) {
            for (int i = 0; i < 64; i++) {
                union {
                    uint32_t u;
                    float f;
                } v = {.u = (uint32_t)(u + (uint64_t)i * 4093)};
                x[i] = i % 8 == 7 ? NAN : v.f;
            }
            isa->rows->to_bf16(y, x, 61);
            isa->rows->to_f32(wide, y, 61);
            for (int i = 0; i < 61; i++) {
                float back = cpu_bf16_to_f32(y[i]);
                assert_int_equal(y[i], cpu_f32_to_bf16(x[i]));
                assert_memory_equal(&wide[i], &back, sizeof back);
            }
        }
    }
}

/* 16 lanes, element i in lane i % 16 by fma, folded 8, 4, 2, 1. */
static float lanes_dot(const float *a, const float *b, int n)
{
    float l[16] = {0};
    for (int i = 0; i < n; i++)
        l[i % 16] = fmaf(a[i], b[i], l[i % 16]);
    for (int w = 8; w > 0; w /= 2)
        for (int i = 0; i < w; i++)
            l[i] += l[i + w];
    return l[0];
}

static void sums_run_in_sixteen_lanes(void **unused)
{
    (void)unused;
    for (const struct cpu_isa *isa = cpu_isas; isa->name; isa++)
        for (int n = 0; isa->usable() && n < 200; n++) {
            float *a = random_floats((size_t)n, 1.0f), *b = random_floats((size_t)n, 1.0f);
            float got = isa->rows->dot(a, b, n), want = lanes_dot(a, b, n);
            assert_memory_equal(&got, &want, sizeof got);
            guarded_free(a);
            guarded_free(b);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rmsnorm_forward),
        cmocka_unit_test(rmsnorm_gradient),
        cmocka_unit_test(swiglu_both_ways),
        cmocka_unit_test(swiglu_of_large_numbers),
        cmocka_unit_test(embedding_copies_rows),
        cmocka_unit_test(adam_step),
        cmocka_unit_test(sum_of_squares),
        cmocka_unit_test(rounding_is_that_of_cpu_h),
        cmocka_unit_test(sums_run_in_sixteen_lanes),
    };
    return cmocka_run_group_tests_name("ops", tests, NULL, NULL);
}

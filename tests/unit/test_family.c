/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Datums with a common beginning go through the model once for it: the same logprobs to the bit,
 * and the same gradients up to rounding as datum by datum. Runs from the project's root.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "policy.h"
#include "trainer.h"
#include "trainer_batch.h"

#define OK(call)                     \
    do {                             \
        if ((call) < 0)              \
            fail_msg("%s", err.msg); \
    } while (0)

enum { N = 7, MAX = 400 };

/* Seven datums: 0-2 share 150 tokens, 3-4 others 64 and more, 5 is alone, 6 begins like 0 but
 * stands apart. */
static struct mint_datum *make_datums(void)
{
    static const size_t prompt[N] = {150, 150, 150, 129, 129, 20, 150};
    static const size_t length[N] = {170, 151, 260, 140, 200, 40, 155};
    static const uint32_t kind[N] = {1, 1, 1, 2, 2, 3, 1};
    struct mint_datum *d = mint_xcalloc(N, sizeof *d);
    for (size_t k = 0; k < N; k++) {
        int32_t *ids = mint_xcalloc(MAX, sizeof *ids);
        float *f = mint_xcalloc(3 * MAX, sizeof *f);
        uint32_t x = kind[k];
        for (size_t i = 0; i <= length[k]; i++) {
            x = x * 1664525u + 1013904223u + (i == prompt[k] ? (uint32_t)k : 0);
            ids[i] = (int32_t)((x >> 16) % 97);
            f[i] = i + 1 >= prompt[k] ? 1.0f : 0.0f;
            f[MAX + i] = -4.5f - (float)(x >> 28) * 0.05f;
            f[2 * MAX + i] = (float)(k % 3) - 0.8f;
        }
        d[k] = (struct mint_datum){.n = length[k],
                                   .input = ids,
                                   .target = ids + 1,
                                   .weights = f,
                                   .logprobs = f + MAX,
                                   .advantages = f + 2 * MAX};
    }
    return d;
}

static void free_datums(struct mint_datum *d)
{
    for (size_t k = 0; k < N; k++) {
        free((void *)(uintptr_t)d[k].input);
        free((void *)(uintptr_t)d[k].weights);
    }
    free(d);
}

static void pointers(const struct mint_datum *d, const struct mint_datum **p)
{
    for (size_t k = 0; k < N; k++)
        p[k] = &d[k];
}

static void families(void **state)
{
    (void)state;
    struct mint_datum *d = make_datums();
    const struct mint_datum *p[N];
    int64_t shared;
    pointers(d, p);
    assert_int_equal(mint_family(p, N, &shared), 3);
    assert_int_equal(shared, 128);
    assert_int_equal(mint_family(p + 1, N - 1, &shared), 2);
    assert_int_equal(mint_family(p + 3, N - 3, &shared), 2);
    assert_int_equal(shared, 128); /* the last token before a weight has a row of its own */
    assert_int_equal(mint_family(p + 5, N - 5, &shared), 1);
    assert_int_equal(shared, 0);
    /* rows: 3 + 2 + 1 + 1 datums */
    struct mint_pack k;
    mint_pack_build(&k, p, N, false, 97);
    assert_int_equal(k.T, (128 + 42 + 23 + 132) + (128 + 12 + 72) + 40 + 155);
    assert_int_equal(k.nleaves, 4);
    assert_int_equal(k.nseqs, 9);
    mint_pack_release(&k);
    assert_int_equal(mint_pack_fit(p, N, 1, false), 3);
    assert_int_equal(mint_pack_fit(p, N, 1, true), 1);
    free_datums(d);
}

struct opened {
    struct mint_policy policy;
    struct mint_trainer *t;
};

static void open_one(struct opened *o, enum mint_precision precision, int64_t micro, int threads)
{
    struct mint_err err = {0};
    struct mint_policy_opts p = {"tests/oracle/fixtures/qwen3",
                                 "tests/oracle/fixtures/qwen3/adapter",
                                 "cpu",
                                 (int)precision,
                                 threads,
                                 false};
    struct mint_train_opts to = {.loss = {.loss = MINT_LOSS_IS},
                                 .beta1 = 0.9,
                                 .beta2 = 0.999,
                                 .eps = 1e-8,
                                 .micro_tokens = micro};
    OK(mint_policy_open(&o->policy, &p, &err));
    OK(mint_trainer_new(&o->t, o->policy.model, o->policy.adapter, NULL, &to, &err));
}

static void close_one(struct opened *o)
{
    mint_trainer_free(o->t);
    mint_policy_close(&o->policy);
}

static size_t param_size(const struct opened *o, size_t i)
{
    return (size_t)(o->policy.adapter->param[i].rows * o->policy.adapter->param[i].cols);
}

/* Gradient of parameter i of a step over d[0..n), from the first moment; added to sum. */
static void gradients(enum mint_precision precision, const struct mint_datum *const *d, size_t n,
                      double **sum)
{
    struct mint_err err = {0};
    struct mint_step_stats s;
    struct opened o;
    open_one(&o, precision, 4096, 2);
    OK(mint_trainer_step(o.t, d, n, 0.0, &s, &err));
    for (size_t i = 0; i < o.policy.adapter->nparams; i++) {
        size_t size = param_size(&o, i);
        float *v = mint_xcalloc(3 * size, sizeof *v);
        OK(mint_trainer_read(o.t, i, v, v + size, v + 2 * size, &err));
        if (!sum[i])
            sum[i] = mint_xcalloc(size, sizeof **sum);
        for (size_t j = 0; j < size; j++)
            sum[i][j] += 10.0 * (double)v[size + j];
        free(v);
    }
    close_one(&o);
}

static void shared_gradient_is_the_sum(void **state)
{
    (void)state;
    struct mint_datum *d = make_datums();
    const struct mint_datum *p[N];
    double *together[64] = {0}, *apart[64] = {0};
    struct opened o;
    pointers(d, p);
    gradients(MINT_PRECISION_F32, p, N, together);
    for (size_t k = 0; k < N; k++)
        gradients(MINT_PRECISION_F32, p + k, 1, apart);
    open_one(&o, MINT_PRECISION_F32, 100, 1);
    for (size_t i = 0; i < o.policy.adapter->nparams; i++) {
        double diff = 0, norm = 0;
        for (size_t j = 0; j < param_size(&o, i); j++) {
            diff += pow(together[i][j] - apart[i][j], 2);
            norm += pow(apart[i][j], 2);
        }
        if (!(sqrt(diff) <= 1e-5 * sqrt(norm)) || norm == 0)
            fail_msg("%s: shared and apart differ by %g of %g", o.policy.adapter->param[i].name,
                     sqrt(diff), sqrt(norm));
        free(together[i]);
        free(apart[i]);
    }
    close_one(&o);
    free_datums(d);
}

static void shared_logprobs_have_the_same_bits(void **state)
{
    (void)state;
    struct mint_datum *d = make_datums();
    const struct mint_datum *p[N];
    pointers(d, p);
    for (int precision = 0; precision < 2; precision++) {
        struct mint_err err = {0};
        struct opened o;
        float *shared = mint_xcalloc(N * MAX, sizeof *shared),
              *all = mint_xcalloc(N * MAX, sizeof *all);
        open_one(&o, (enum mint_precision)precision, 333, 2);
        OK(mint_trainer_forward(o.t, p, N, o.policy.adapter, false, shared, &err));
        OK(mint_trainer_forward(o.t, p, N, o.policy.adapter, true, all, &err));
        size_t at = 0, counted = 0;
        for (size_t k = 0; k < N; k++)
            for (size_t i = 0; i < d[k].n; i++, at++) {
                if (d[k].weights[i] == 0.0f) {
                    assert_true(isnan(shared[at]));
                    continue;
                }
                counted++;
                assert_memory_equal(&shared[at], &all[at], sizeof(float));
            }
        assert_int_equal(counted, 21 + 2 + 111 + 12 + 72 + 21 + 6);
        free(shared);
        free(all);
        close_one(&o);
    }
    free_datums(d);
}

/* The adapter after two steps, whatever the micro-batches and threads. */
static void same_bytes(void **state)
{
    (void)state;
    struct mint_datum *d = make_datums();
    const struct mint_datum *p[N];
    float *want[64] = {0};
    pointers(d, p);
    for (int variant = 0; variant < 4; variant++) {
        static const int64_t micro[] = {4096, 1, 300, 500};
        struct mint_err err = {0};
        struct mint_step_stats s;
        struct opened o;
        open_one(&o, MINT_PRECISION_BF16, micro[variant], 1 + variant % 3);
        for (int i = 0; i < 2; i++)
            OK(mint_trainer_step(o.t, p, N, 1e-2, &s, &err));
        for (size_t i = 0; i < o.policy.adapter->nparams; i++) {
            size_t size = param_size(&o, i);
            float *v = mint_xcalloc(3 * size, sizeof *v);
            OK(mint_trainer_read(o.t, i, v, v + size, v + 2 * size, &err));
            if (!want[i]) {
                want[i] = v;
                continue;
            }
            assert_memory_equal(v, want[i], 3 * size * sizeof *v);
            free(v);
        }
        close_one(&o);
    }
    for (size_t i = 0; i < MINT_ARRAY_LEN(want); i++)
        free(want[i]);
    free_datums(d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(families),
        cmocka_unit_test(shared_gradient_is_the_sum),
        cmocka_unit_test(shared_logprobs_have_the_same_bits),
        cmocka_unit_test(same_bytes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

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

#include "trainer_batch.h"
#include "trainer_data.h"

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
    mint_pack_build(&k, p, NULL, N, false, 97, 5);
    assert_int_equal(k.T, (128 + 42 + 23 + 132) + (128 + 12 + 72) + 40 + 155);
    assert_int_equal(k.nleaves, 4);
    for (int64_t i = 0; i < 4; i++)
        assert_int_equal(k.leaf_number[i], 5 + i);
    assert_int_equal(k.nseqs, 9);
    mint_pack_release(&k);
    assert_int_equal(mint_pack_fit(p, NULL, N, 1, false), 3);
    assert_int_equal(mint_pack_fit(p, NULL, N, 1, true), 1);
    free_datums(d);
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
    float *want = NULL;
    size_t n;
    pointers(d, p);
    for (int variant = 0; variant < 4; variant++) {
        static const int64_t micro[] = {4096, 1, 300, 500};
        struct mint_err err = {0};
        struct mint_step_stats s;
        struct opened o;
        open_one(&o, MINT_PRECISION_BF16, micro[variant], 1 + variant % 3);
        for (int i = 0; i < 2; i++)
            OK(mint_trainer_step(o.t, p, N, 1e-2, &s, &err));
        float *got = all_params(&o, &n);
        if (want)
            assert_memory_equal(got, want, n * sizeof *got);
        free(variant ? got : NULL);
        want = variant ? want : got;
        close_one(&o);
    }
    free(want);
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

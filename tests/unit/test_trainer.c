/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What must not change a bit of a step: how much of the forward is kept for the backward, and
 * whether datums without a slope are computed. Runs from the project's root.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "trainer_batch.h"
#include "trainer_data.h"

/* All parameters after two steps over p[0..n). */
static float *two_steps(const struct mint_train_opts *to, enum mint_precision precision,
                        const struct mint_datum *const *p, size_t n, struct mint_step_stats *s,
                        enum mint_recompute *again, size_t *count)
{
    struct mint_err err = {0};
    struct opened o;
    open_with(&o, precision, 2, to);
    for (int i = 0; i < 2; i++)
        OK(mint_trainer_step(o.t, p, n, 1e-2, s, &err));
    float *v = all_params(&o, count);
    *again = mint_trainer_recompute(o.t);
    close_one(&o);
    return v;
}

static void recomputation_changes_no_bit(void **state)
{
    (void)state;
    struct mint_datum *d = make_datums();
    const struct mint_datum *p[N];
    pointers(d, p);
    for (int precision = 0; precision < 2; precision++) {
        float *want = NULL;
        for (int a = MINT_RECOMPUTE_NONE; a <= MINT_RECOMPUTE_ALL; a++)
            for (int kl = 0; kl < 2 - precision; kl++) { /* with a reference pass in between */
                struct mint_train_opts to = train_opts(a == MINT_RECOMPUTE_CHEAP ? 300 : 500);
                struct mint_step_stats s;
                enum mint_recompute again;
                size_t n;
                to.recompute = (enum mint_recompute)a;
                to.loss.kl_coef = kl ? 1e-30f : 0.0f;
                float *got = two_steps(&to, (enum mint_precision)precision, p, 5, &s, &again, &n);
                assert_int_equal(again, a);
                if (want)
                    assert_memory_equal(got, want, n * sizeof *got);
                else
                    want = got;
                if (want != got)
                    free(got);
            }
        free(want);
    }
    free_datums(d);
}

static void memory_decides(void **state)
{
    (void)state;
    struct mint_datum *d = make_datums();
    const struct mint_datum *p[N];
    struct mint_err err = {0};
    struct opened o;
    size_t bytes[4];
    pointers(d, p);
    struct mint_train_opts to = train_opts(300);
    open_one(&o, MINT_PRECISION_BF16, 300, 1);
    for (int a = MINT_RECOMPUTE_NONE; a <= MINT_RECOMPUTE_ALL; a++) {
        to.recompute = (enum mint_recompute)a;
        bytes[a] = mint_trainer_bytes(o.policy.model, 4, &to, p, N, NULL);
    }
    close_one(&o);
    assert_true(bytes[1] > bytes[2] && bytes[2] > bytes[3]);
    for (int a = MINT_RECOMPUTE_NONE; a <= MINT_RECOMPUTE_ALL; a++) {
        struct mint_step_stats s;
        to.recompute = MINT_RECOMPUTE_AUTO;
        to.memory = bytes[a];
        open_with(&o, MINT_PRECISION_BF16, 1, &to);
        OK(mint_trainer_step(o.t, p, N, 1e-2, &s, &err));
        assert_int_equal(mint_trainer_recompute(o.t), a);
        close_one(&o);
    }
    struct mint_step_stats s;
    to.memory = bytes[3] / 2;
    open_with(&o, MINT_PRECISION_BF16, 1, &to);
    assert_int_equal(mint_trainer_step(o.t, p, N, 1e-2, &s, &err), -1);
    assert_int_equal(err.code, MINT_ENOMEM);
    assert_non_null(strstr(err.msg, "--memory"));
    close_one(&o);
    free_datums(d);
}

/* Members of families, whole families and lone datums without advantage, with odd and even numbers
 * of rows and of counted positions. */
static void idle_datums_change_no_bit(void **state)
{
    (void)state;
    static const unsigned masks[] = {0x02, 0x05, 0x06, 0x07, 0x08, 0x18, 0x20, 0x5a};
    for (size_t i = 0; i < MINT_ARRAY_LEN(masks); i++) {
        struct mint_datum *d = make_datums();
        const struct mint_datum *p[N];
        float *v[2];
        size_t n;
        pointers(d, p);
        for (size_t k = 0; k < N; k++)
            if (masks[i] >> k & 1)
                memset((void *)(uintptr_t)d[k].advantages, 0, d[k].n * sizeof(float));
        for (int mode = 0; mode < 2; mode++) {
            struct mint_train_opts to = train_opts(mode ? 200 : 900);
            struct mint_step_stats s;
            enum mint_recompute again;
            to.train_idle = mode == 0;
            to.watch_idle = i % 2;
            v[mode] = two_steps(&to, MINT_PRECISION_BF16, p, N, &s, &again, &n);
            assert_int_equal(s.counted, N);
            assert_int_equal(s.active, mode ? N - __builtin_popcount(masks[i]) : N);
            assert_int_equal(s.tokens, 245);
            assert_int_equal(s.seen.positions == 245, mode == 0 || to.watch_idle);
            assert_int_equal(s.trained.positions == 245, mode == 0);
        }
        if (memcmp(v[0], v[1], n * sizeof(float)) != 0)
            fail_msg("idle datums 0x%x: other bits", masks[i]);
        free(v[0]);
        free(v[1]);
        free_datums(d);
    }
}

/* Nothing active: the moments decay and move the parameters, as a gradient of 0 does. */
static void all_idle_is_a_step_of_zero(void **state)
{
    (void)state;
    struct mint_err err = {0};
    struct mint_datum *d = make_datums();
    const struct mint_datum *p[N];
    float *v[2];
    size_t n;
    pointers(d, p);
    for (int mode = 0; mode < 2; mode++) {
        struct mint_train_opts to = train_opts(400);
        struct mint_step_stats s;
        struct opened o;
        to.train_idle = mode;
        open_with(&o, MINT_PRECISION_BF16, 1, &to);
        OK(mint_trainer_step(o.t, p + 3, 2, 1e-2, &s, &err));
        for (size_t k = 0; k < 3; k++)
            memset((void *)(uintptr_t)d[k].advantages, 0, d[k].n * sizeof(float));
        OK(mint_trainer_step(o.t, p, 3, 1e-2, &s, &err));
        assert_true(s.stepped && s.grad_norm == 0.0);
        assert_int_equal(s.active, mode ? 3 : 0);
        assert_int_equal(mint_trainer_step_count(o.t), 2);
        v[mode] = all_params(&o, &n);
        close_one(&o);
    }
    assert_memory_equal(v[0], v[1], n * sizeof(float));
    free(v[0]);
    free(v[1]);
    free_datums(d);
}

/* A KL term, dro's square and cross entropy have a slope without any advantage. */
static void what_is_idle(void **state)
{
    (void)state;
    struct mint_loss_opts o = {.loss = MINT_LOSS_PPO};
    assert_true(mint_loss_by_advantage(&o));
    o.kl_coef = 0.1f;
    assert_false(mint_loss_by_advantage(&o));
    o = (struct mint_loss_opts){.loss = MINT_LOSS_DRO, .beta = 0.05f};
    assert_false(mint_loss_by_advantage(&o));
    o = (struct mint_loss_opts){.loss = MINT_LOSS_CE};
    assert_false(mint_loss_by_advantage(&o));
}

/* Gradients in two calls are those of one; the leaves go on. */
static void halves_of_a_step(void **state)
{
    (void)state;
    struct mint_err err = {0};
    struct mint_datum *d = make_datums();
    const struct mint_datum *p[N];
    struct mint_step_stats s = {0};
    struct opened o;
    float *v[2];
    size_t n;
    pointers(d, p);
    open_one(&o, MINT_PRECISION_BF16, 300, 1);
    OK(mint_trainer_step(o.t, p, N, 1e-2, &s, &err));
    v[0] = all_params(&o, &n);
    close_one(&o);
    open_one(&o, MINT_PRECISION_BF16, 300, 1);
    s = (struct mint_step_stats){0};
    OK(mint_trainer_gradients(o.t, p, 3, &s, &err));
    OK(mint_trainer_gradients(o.t, p + 3, N - 3, &s, &err));
    OK(mint_trainer_update(o.t, 1e-2, &s, &err));
    assert_int_equal(s.datums, N);
    v[1] = all_params(&o, &n);
    close_one(&o);
    assert_memory_equal(v[0], v[1], n * sizeof(float));
    free(v[0]);
    free(v[1]);
    free_datums(d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(recomputation_changes_no_bit),
        cmocka_unit_test(memory_decides),
        cmocka_unit_test(idle_datums_change_no_bit),
        cmocka_unit_test(all_idle_is_a_step_of_zero),
        cmocka_unit_test(what_is_idle),
        cmocka_unit_test(halves_of_a_step),
    };
    return cmocka_run_group_tests_name("trainer", tests, NULL, NULL);
}

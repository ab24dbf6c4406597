/* SPDX-License-Identifier: Apache-2.0 */
#include "rng.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* The known answers that the authors of Philox publish with their code. */
static void known_answers(void **state)
{
    (void)state;
    static const struct {
        uint32_t counter[4], key[2], out[4];
    } cases[] = {
        {{0, 0, 0, 0}, {0, 0}, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
        {{~0u, ~0u, ~0u, ~0u}, {~0u, ~0u}, {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
        {{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
         {0xa4093822, 0x299f31d0},
         {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
    };
    for (size_t i = 0; i < MINT_ARRAY_LEN(cases); i++) {
        uint32_t out[4];
        mint_philox(cases[i].key, cases[i].counter, out);
        assert_memory_equal(out, cases[i].out, sizeof out);
    }
}

/* Values that runs depend on: a change here changes every sample that anybody has drawn. */
static void draws_are_frozen(void **state)
{
    (void)state;
    uint32_t key[2] = {42, 7}, counter[4] = {3, 2, 0xddccbbaa, 0x1122ee99}, out[4];
    uint64_t seed = UINT64_C(7) << 32 | 42, stream = UINT64_C(0x1122ee99ddccbbaa);
    mint_philox(key, counter, out);
    assert_true(mint_rng_uniform(seed, stream, 2, 3) == (float)(out[0] >> 8) / 16777216.0f);
    assert_true(mint_rng_u64(seed, stream, 2, 3) == ((uint64_t)out[3] << 32 | out[2]));
    assert_true(mint_rng_uniform(0, 0, 0, 0) == (float)(0x6627e8 / 16777216.0));
    /* sha256("") begins with e3b0c44298fc1c14 */
    assert_true(mint_rng_stream("", 0) == UINT64_C(0x141cfc9842c4b0e3));
    assert_true(mint_rng_stream("abc", 3) == UINT64_C(0xeacf018fbf1678ba));
}

static void each_coordinate_matters(void **state)
{
    (void)state;
    uint64_t base = mint_rng_u64(1, 2, 3, 4);
    assert_true(base == mint_rng_u64(1, 2, 3, 4));
    assert_true(base != mint_rng_u64(2, 2, 3, 4));
    assert_true(base != mint_rng_u64(1 | UINT64_C(1) << 40, 2, 3, 4));
    assert_true(base != mint_rng_u64(1, 3, 3, 4));
    assert_true(base != mint_rng_u64(1, 2 | UINT64_C(1) << 40, 3, 4));
    assert_true(base != mint_rng_u64(1, 2, 4, 4));
    assert_true(base != mint_rng_u64(1, 2, 3, 5));
}

static void uniform_is_uniform(void **state)
{
    (void)state;
    enum { N = 100000, BINS = 20 };
    int bins[BINS] = {0};
    for (uint32_t i = 0; i < N; i++) {
        float u = mint_rng_uniform(5, 6, 7, i);
        assert_true(u >= 0 && u < 1);
        bins[(int)(u * BINS)]++;
    }
    double chi2 = 0, want = (double)N / BINS;
    for (int i = 0; i < BINS; i++)
        chi2 += (bins[i] - want) * (bins[i] - want) / want;
    assert_true(chi2 <
                45); /* 19 degrees of freedom: the chance is below 0.001, and the draw is fixed */
}

static void normal_has_its_moments(void **state)
{
    (void)state;
    enum { N = 100000 };
    double sum = 0, squares = 0, cubes = 0, fourth = 0;
    for (uint64_t i = 0; i < N; i++) {
        double x = (double)mint_rng_normal(1, 2, i << 20);
        assert_true(isfinite(x));
        sum += x;
        squares += x * x;
        cubes += x * x * x;
        fourth += x * x * x * x;
    }
    assert_true(fabs(sum / N) < 0.015);
    assert_true(fabs(squares / N - 1) < 0.02);
    assert_true(fabs(cubes / N) < 0.05);
    assert_true(fabs(fourth / N - 3) < 0.12);
}

static void shuffle_is_a_permutation(void **state)
{
    (void)state;
    enum { N = 1000 };
    uint32_t a[N], b[N];
    char seen[N] = {0};
    mint_rng_shuffle(3, 0, a, N);
    for (int i = 0; i < N; i++) {
        assert_true(a[i] < N && !seen[a[i]]);
        seen[a[i]] = 1;
    }
    mint_rng_shuffle(3, 0, b, N);
    assert_memory_equal(a, b, sizeof a);
    mint_rng_shuffle(3, 1, b, N);
    assert_memory_not_equal(a, b, sizeof a);
    mint_rng_shuffle(4, 0, b, N);
    assert_memory_not_equal(a, b, sizeof a);
    mint_rng_shuffle(3, 0, a, 0);
    mint_rng_shuffle(3, 0, a, 1);
    assert_int_equal(a[0], 0);
}

static void shuffle_is_fair(void **state)
{
    (void)state;
    int count[4][4] = {{0}};
    for (uint64_t epoch = 0; epoch < 24000; epoch++) {
        uint32_t p[4];
        mint_rng_shuffle(9, epoch, p, 4);
        for (int i = 0; i < 4; i++)
            count[i][p[i]]++;
    }
    for (int i = 0; i < 4; i++) {
        for (int j = 0; j < 4; j++)
            assert_true(abs(count[i][j] - 6000) < 300);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(known_answers),           cmocka_unit_test(draws_are_frozen),
        cmocka_unit_test(each_coordinate_matters), cmocka_unit_test(uniform_is_uniform),
        cmocka_unit_test(normal_has_its_moments),  cmocka_unit_test(shuffle_is_a_permutation),
        cmocka_unit_test(shuffle_is_fair),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * vmath.h against the C library in double: the error in ulp over samples of all floats, the special
 * values, and the fused multiply-add without the instruction bit for bit.
 */
#include "cpu/vmath.h"

#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static float from_bits(uint32_t u)
{
    union cpu_fbits v = {.u = u};
    return v.f;
}

static uint32_t bits_of(float f)
{
    union cpu_fbits v = {.f = f};
    return v.u;
}

static uint64_t state = 88172645463325252u;

static uint64_t next(void)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state;
}

/* |got - want| in units of want's last place as a float. */
static double ulps(float got, double want)
{
    int e;
    frexp(want, &e);
    return fabs((double)got - want) / ldexp(1.0, (e < -125 ? -125 : e) - FLT_MANT_DIG);
}

static void exp_is_close(void **unused)
{
    double worst = 0.0;
    (void)unused;
    for (uint64_t u = 0; u < UINT64_C(1) << 32; u += 1009) {
        float x = from_bits((uint32_t)u);
        double want = exp((double)x);
        if (!(x > -87.33654f && x < 88.72283f))
            continue;
        worst = fmax(worst, ulps(cpu_exp(x), want));
    }
    for (int i = 0; i < 1000000; i++) { /* where softmax lives */
        float x = (float)(next() >> 40) * -0x1p-24f * 88.0f;
        if (x > -87.33654f)
            worst = fmax(worst, ulps(cpu_exp(x), exp((double)x)));
    }
    if (worst > 1.0)
        fail_msg("exp: %.3f ulp", worst);
}

static void exp_of_special_values(void **unused)
{
    (void)unused;
    assert_true(cpu_exp(0.0f) == 1.0f);
    assert_true(cpu_exp(-0.0f) == 1.0f);
    assert_true(cpu_exp(FLT_MIN / 2) == 1.0f);
    assert_int_equal(bits_of(cpu_exp(-INFINITY)), 0);
    assert_int_equal(bits_of(cpu_exp(-FLT_MAX)), 0);
    assert_int_equal(bits_of(cpu_exp(-87.34f)), 0);
    assert_true(cpu_exp(-87.33f) >= FLT_MIN);
    assert_true(cpu_exp(INFINITY) == INFINITY);
    assert_true(cpu_exp(FLT_MAX) == INFINITY);
    assert_true(cpu_exp(88.73f) == INFINITY);
    assert_true(cpu_exp(88.722f) < INFINITY && cpu_exp(88.722f) > 3.3e38f);
    assert_true(isnan(cpu_exp(NAN)));
    assert_true(isnan(cpu_exp(-NAN)));
}

/* Every float around both limits: no garbage between finite and 0 or infinite. */
static void exp_at_its_limits(void **unused)
{
    (void)unused;
    for (uint32_t u = bits_of(-87.0f); u < bits_of(-88.0f); u++) {
        float y = cpu_exp(from_bits(u));
        assert_true(y == 0.0f || (y >= FLT_MIN && ulps(y, exp((double)from_bits(u))) < 1.0));
    }
    for (uint32_t u = bits_of(88.5f); u < bits_of(89.0f); u++) {
        float y = cpu_exp(from_bits(u));
        assert_true(y == INFINITY || ulps(y, exp((double)from_bits(u))) < 1.0);
    }
}

static void log_is_close(void **unused)
{
    double worst = 0.0;
    (void)unused;
    for (uint32_t u = bits_of(FLT_MIN); u < bits_of(INFINITY); u += 997)
        worst = fmax(worst, ulps(cpu_log(from_bits(u)), log((double)from_bits(u))));
    for (uint32_t u = bits_of(0.9f); u < bits_of(1.1f); u += 3)
        worst = fmax(worst, ulps(cpu_log(from_bits(u)), log((double)from_bits(u))));
    if (worst > 1.0)
        fail_msg("log: %.3f ulp", worst);
}

static void log_of_special_values(void **unused)
{
    (void)unused;
    assert_int_equal(bits_of(cpu_log(1.0f)), 0);
    assert_true(cpu_log(0.0f) == -INFINITY);
    assert_true(cpu_log(-0.0f) == -INFINITY);
    assert_true(cpu_log(FLT_MIN / 4) == -INFINITY);
    assert_true(cpu_log(INFINITY) == INFINITY);
    assert_true(isnan(cpu_log(-1.0f)));
    assert_true(isnan(cpu_log(-INFINITY)));
    assert_true(isnan(cpu_log(NAN)));
}

/* Rounding a result that is right to 1e-15 differs from rounding the exact one only next to a tie.
 */
static void check_angle(float a, long *wrong, double *worst)
{
    float c, s;
    cpu_sincos(a, &c, &s);
    *wrong += c != (float)cos((double)a);
    *wrong += s != (float)sin((double)a);
    *worst = fmax(*worst, fmax(ulps(c, cos((double)a)), ulps(s, sin((double)a))));
}

static void angles_are_rounded_correctly(void **unused)
{
    long wrong = 0, n = 0;
    double worst = 0.0;
    (void)unused;
    for (uint32_t u = bits_of(FLT_MIN); u <= bits_of(1048576.0f); u += 1499, n += 2)
        check_angle(from_bits(u), &wrong, &worst);
    for (int i = 0; i < 300000; i++, n += 2) /* positions times a frequency */
        check_angle((float)(next() >> 44) *
                        from_bits((uint32_t)(0x33800000 + (next() >> 36) % 0xc800000)),
                    &wrong, &worst);
    for (int q = 1; q < 600000; q += 7, n += 2) /* next to multiples of pi/2 */
        check_angle((float)(q * 1.5707963267948966), &wrong, &worst);
    if (worst > 0.5001 || wrong > n / 100000)
        fail_msg("%ld of %ld roundings differ, worst %.6f ulp", wrong, n, worst);
    check_angle(0.0f, &wrong, &worst);
    float c, s;
    cpu_sincos(0.0f, &c, &s);
    assert_true(c == 1.0f);
    assert_int_equal(bits_of(s), 0);
}

static float any_float(void)
{
    static const float special[] = {0.0f,          -0.0f,          1.0f,     -1.0f,
                                    FLT_MAX,       FLT_MIN,        INFINITY, -INFINITY,
                                    0x1.000002p0f, 0x1.fffffep-1f, 3.0f};
    uint64_t r = next();
    if (r % 16 == 0)
        return special[(r >> 8) % MINT_ARRAY_LEN(special)];
    if (r % 2)
        return from_bits((uint32_t)(r >> 16)); /* any bits */
    return from_bits(((uint32_t)(r >> 16) & 0x83ffffff) |
                     0x3c000000); /* near 1: sums that interact */
}

/* Without -mfma this is the emulation; with it, the instruction against the C library. */
static void fma_rounds_once(void **unused)
{
    (void)unused;
    for (int i = 0; i < 3000000; i++) {
        float a = any_float(), b = any_float(), c = any_float();
        if (i % 3 == 0) /* cancellation, and ties */
            c = -a * b * (i % 2 ? 1.0f : 0x1p-24f);
        float got = cpu_fma(a, b, c), want = fmaf(a, b, c);
        if (isnan(want) ? !isnan(got) : bits_of(got) != bits_of(want))
            fail_msg("fma(%a, %a, %a) = %a, not %a", (double)a, (double)b, (double)c, (double)got,
                     (double)want);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(exp_is_close),          cmocka_unit_test(exp_of_special_values),
        cmocka_unit_test(exp_at_its_limits),     cmocka_unit_test(log_is_close),
        cmocka_unit_test(log_of_special_values), cmocka_unit_test(angles_are_rounded_correctly),
        cmocka_unit_test(fma_rounds_once),
    };
    return cmocka_run_group_tests_name("vmath", tests, NULL, NULL);
}

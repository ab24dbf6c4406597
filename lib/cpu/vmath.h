/* SPDX-License-Identifier: Apache-2.0 */
/*
 * vmath.h: exp, log, fused multiply-add and sin/cos of the row code, from IEEE operations alone, so
 * that a value has the same bits whatever the compiler, the C library and the instruction set. All
 * are free of branches, so that a plain loop over them is vectorised. Errors: exp and log below 1
 * ulp over their whole range (tests/unit/test_vmath.c measures them), sin and cos correctly rounded
 * but for rare ties. Pure functions.
 */
#ifndef MINT_CPU_VMATH_H
#define MINT_CPU_VMATH_H

#include "../base.h"

#include <math.h> /* INFINITY */

union cpu_fbits {
    float f;
    uint32_t u;
    int32_t i;
};

union cpu_dbits {
    double d;
    uint64_t u;
    int64_t i;
};

/*
 * a * b + c rounded once. Without the instruction: the product is exact in double, the sum is
 * rounded to odd there (its exact error is known by Knuth's two-sum), and rounding an odd 53-bit
 * value to 24 bits gives what rounding the exact sum gives (Boldo and Melquiond 2008).
 */
static inline float cpu_fma(float a, float b, float c)
{
#if defined __FMA__ || defined __FP_FAST_FMAF
    return __builtin_fmaf(a, b, c);
#else
    double p = (double)a * (double)b, w = (double)c;
    union cpu_dbits s = {.d = p + w};
    double z = s.d - p, e = (p - (s.d - z)) + (w - z);
    int64_t inexact = (int64_t)(e > 0.0) | (int64_t)(e < 0.0); /* not for NaN: s is infinite */
    int64_t up = ((e > 0.0) == (s.d > 0.0)) ? 1 : -1;

    s.i += up & -(inexact & ~s.i & 1);
    return (float)s.d;
#endif
}

/*
 * e^x = 2^n e^r, n = round(x / ln 2), |r| <= ln 2 / 2; 1 + r + r^2 q(r), q of degree 4 fitted for
 * the least relative error (3e-9). 0 below ln of the least normal number, +inf from where the
 * result overflows.
 */
static inline float cpu_exp(float x)
{
    const float big = 12582912.0f; /* 1.5 * 2^23: adding it rounds to an integer in the low bits */
    union cpu_fbits t = {.f = cpu_fma(x, 1.44269504f, big)}, y;
    float n = t.f - big;
    float r = cpu_fma(n, -1.42860677e-6f, cpu_fma(n, -0.693145751953125f, x));
    float q = cpu_fma(r, 1.3814320554956794e-3f, 8.368851616978645e-3f);

    q = cpu_fma(r, q, 4.1668400168418884e-2f);
    q = cpu_fma(r, q, 0.1666651964187622f);
    q = cpu_fma(r, q, 0.4999999403953552f);
    y.f = cpu_fma(r * r, q, r) + 1.0f;
    y.u += t.u << 23;
    y.f = x < -87.3365402f ? 0.0f : y.f;
    y.f = x > 88.7228317f ? INFINITY : y.f;
    return x != x ? x : y.f;
}

/*
 * log x = k ln 2 + log(1 + f), 1 + f in [sqrt(1/2), sqrt 2); with s = f / (2 + f), log(1 + f) =
 * 2 atanh s = f - s (f - s^2 g(s^2)). log 0 = -inf (subnormals count as 0), NaN below.
 */
static inline float cpu_log(float x)
{
    union cpu_fbits v = {.f = x};
    int32_t k = (int32_t)(v.u - 0x3f3504f3u) >> 23;
    float f, s, z, g, y;

    v.u -= (uint32_t)k << 23;
    f = v.f - 1.0f;
    s = f / (2.0f + f);
    z = s * s;
    g = cpu_fma(z, 0.23332767188549042f, 0.2855072319507599f);
    g = cpu_fma(z, g, 0.4000012278556824f);
    g = cpu_fma(z, g, 0.6666666865348816f);
    y = cpu_fma(-s, cpu_fma(-z, g, f), f);
    y = cpu_fma((float)k, 0.693145751953125f, cpu_fma((float)k, 1.42860677e-6f, y));
    y = x < 1.17549435e-38f ? -INFINITY : y;
    y = x < 0.0f ? NAN : y;
    return x < INFINITY ? y : x; /* +inf and NaN */
}

/*
 * cos and sin of the float a, 0 <= a <= 2^20, computed in double and rounded to float. pi/2 is cut
 * into 33 + 33 + 53 bits: a quadrant number below 2^20 times each of the first two is exact.
 */
static inline void cpu_sincos(float a, float *c, float *s)
{
    const double big = 6755399441055744.0; /* 1.5 * 2^52 */
    union cpu_dbits t = {.d = (double)a * 0.63661977236758134 + big};
    double n = t.d - big;
    double r =
        (((double)a - n * 0x1.921fb544p+0) - n * 0x1.0b4611a6p-34) - n * 0x1.3198a2e037073p-69;
    double z = r * r, p, q, u, v;

    /* The Taylor series; the terms left out are below 5e-17 for |r| <= pi/4. */
    p = z * (-1.0 / 1307674368000.0) + 1.0 / 6227020800.0;
    p = z * p - 1.0 / 39916800.0;
    p = z * p + 1.0 / 362880.0;
    p = z * p - 1.0 / 5040.0;
    p = z * p + 1.0 / 120.0;
    p = z * p - 1.0 / 6.0;
    p = r + r * z * p;
    q = z * (1.0 / 20922789888000.0) - 1.0 / 87178291200.0;
    q = z * q + 1.0 / 479001600.0;
    q = z * q - 1.0 / 3628800.0;
    q = z * q + 1.0 / 40320.0;
    q = z * q - 1.0 / 720.0;
    q = z * q + 1.0 / 24.0;
    q = z * q - 0.5;
    q = 1.0 + z * q;

    u = t.u & 1 ? p : q; /* cos, up to its sign */
    v = t.u & 1 ? q : p;
    *c = (float)((t.u + 1) & 2 ? -u : u);
    *s = (float)(t.u & 2 ? -v : v);
}

#endif

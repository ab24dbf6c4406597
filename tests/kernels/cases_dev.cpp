// SPDX-License-Identifier: Apache-2.0
/* cases_dev.cpp: the functions of dev.h against double precision. Host code of the emulated build
 * can call them directly. */
#ifndef MINT_GPU
#include "dev.h"

#include "kernel_test.h"

extern "C" {
#include "cpu/vmath.h"
}

CASE(dev_exp2_is_within_two_ulp)
{
    double worst = 0;
    for (float x = -126; x < 128; x += 0.0137f) {
        double e = exp2((double)x);
        worst = fmax(worst, fabs(exp2_(x) - e) / e);
    }
    CHECK(worst < 2 * exp2(-24) * 2, "%g", worst);
    CHECK(exp2_(-INFINITY) == 0 && exp2_(0) == 1 && exp2_(200) == INFINITY, "edges");
    CHECK(exp2_(NAN) != exp2_(NAN), "NaN");
}

CASE(dev_exp_log_sincos_have_the_bits_of_the_cpu)
{
    for (int i = 0; i < 20000; i++) {
        float x = __uint_as_float(kt::random32()), y = fabsf(x);
        float e = exp_(x), f = cpu_exp(x), l = log_(x), m = cpu_log(x), c, s, d, t;
        CHECK(e == f || (e != e && f != f), "exp %a", (double)x);
        CHECK(l == m || (l != l && m != m), "log %a", (double)x);
        if (!(y <= 1048576))
            continue;
        sincos_(y, &c, &s);
        cpu_sincos(y, &d, &t);
        CHECK(c == d && s == t, "sincos %a", (double)y);
    }
}
#endif

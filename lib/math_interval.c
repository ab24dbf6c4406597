/* SPDX-License-Identifier: Apache-2.0 */
#include "math_interval.h"

/* Beyond 2^LARGE numbers are of no use here, and sines cost too much. */
enum { LARGE = 20000, SINE_LARGE = 2000, EXP_LARGE = 13 };

void mint_interval_init(struct mint_interval *x, mpfr_prec_t bits)
{
    mpfr_init2(x->lo, bits);
    mpfr_init2(x->hi, bits);
    mpfr_set_zero(x->lo, 1);
    mpfr_set_zero(x->hi, 1);
}

void mint_interval_clear(struct mint_interval *x)
{
    mpfr_clear(x->lo);
    mpfr_clear(x->hi);
}

void mint_interval_set(struct mint_interval *out, const struct mint_interval *a)
{
    mpfr_set(out->lo, a->lo, MPFR_RNDD);
    mpfr_set(out->hi, a->hi, MPFR_RNDU);
}

void mint_interval_set_q(struct mint_interval *out, mpq_srcptr q)
{
    mpfr_set_q(out->lo, q, MPFR_RNDD);
    mpfr_set_q(out->hi, q, MPFR_RNDU);
}

void mint_interval_set_si(struct mint_interval *out, long v)
{
    mpfr_set_si(out->lo, v, MPFR_RNDD);
    mpfr_set_si(out->hi, v, MPFR_RNDU);
}

void mint_interval_pi(struct mint_interval *out)
{
    mpfr_const_pi(out->lo, MPFR_RNDD);
    mpfr_const_pi(out->hi, MPFR_RNDU);
}

int mint_interval_sign(const struct mint_interval *a)
{
    return mpfr_sgn(a->lo) > 0 ? 1 : mpfr_sgn(a->hi) < 0 ? -1 : 0;
}

bool mint_interval_is_zero(const struct mint_interval *a)
{
    return mpfr_zero_p(a->lo) && mpfr_zero_p(a->hi);
}

static bool usable(const struct mint_interval *a)
{
    return mpfr_number_p(a->lo) && mpfr_number_p(a->hi) && mint_interval_size(a) < LARGE;
}

void mint_interval_neg(struct mint_interval *out, const struct mint_interval *a)
{
    if (out == a) {
        mpfr_swap(out->lo, out->hi);
        mpfr_neg(out->lo, out->lo, MPFR_RNDD);
        mpfr_neg(out->hi, out->hi, MPFR_RNDU);
        return;
    }
    mpfr_neg(out->lo, a->hi, MPFR_RNDD);
    mpfr_neg(out->hi, a->lo, MPFR_RNDU);
}

void mint_interval_add(struct mint_interval *out, const struct mint_interval *a,
                       const struct mint_interval *b)
{
    mpfr_add(out->lo, a->lo, b->lo, MPFR_RNDD);
    mpfr_add(out->hi, a->hi, b->hi, MPFR_RNDU);
}

void mint_interval_sub(struct mint_interval *out, const struct mint_interval *a,
                       const struct mint_interval *b)
{
    struct mint_interval r;
    mint_interval_init(&r, mpfr_get_prec(out->lo));
    mpfr_sub(r.lo, a->lo, b->hi, MPFR_RNDD);
    mpfr_sub(r.hi, a->hi, b->lo, MPFR_RNDU);
    mpfr_swap(out->lo, r.lo);
    mpfr_swap(out->hi, r.hi);
    mint_interval_clear(&r);
}

bool mint_interval_mul(struct mint_interval *out, const struct mint_interval *a,
                       const struct mint_interval *b)
{
    struct mint_interval r, s;
    mpfr_prec_t bits = mpfr_get_prec(out->lo);
    mint_interval_init(&r, bits);
    mint_interval_init(&s, bits);
    mpfr_srcptr x[2] = {a->lo, a->hi}, y[2] = {b->lo, b->hi};
    for (int i = 0; i < 4; i++) {
        mpfr_mul(s.lo, x[i / 2], y[i % 2], MPFR_RNDD);
        mpfr_mul(s.hi, x[i / 2], y[i % 2], MPFR_RNDU);
        if (i == 0 || mpfr_less_p(s.lo, r.lo))
            mpfr_swap(r.lo, s.lo);
        if (i == 0 || mpfr_greater_p(s.hi, r.hi))
            mpfr_swap(r.hi, s.hi);
    }
    mpfr_swap(out->lo, r.lo);
    mpfr_swap(out->hi, r.hi);
    mint_interval_clear(&r);
    mint_interval_clear(&s);
    return usable(out);
}

bool mint_interval_div(struct mint_interval *out, const struct mint_interval *a,
                       const struct mint_interval *b)
{
    if (mint_interval_sign(b) == 0)
        return false;
    struct mint_interval inv;
    mint_interval_init(&inv, mpfr_get_prec(out->lo));
    mpfr_ui_div(inv.lo, 1, b->hi, MPFR_RNDD);
    mpfr_ui_div(inv.hi, 1, b->lo, MPFR_RNDU);
    bool ok = mint_interval_mul(out, a, &inv);
    mint_interval_clear(&inv);
    return ok;
}

bool mint_interval_root(struct mint_interval *out, const struct mint_interval *a, unsigned long n)
{
    if (n % 2 == 0 && mpfr_sgn(a->lo) < 0)
        return false;
    mpfr_rootn_ui(out->lo, a->lo, n, MPFR_RNDD);
    mpfr_rootn_ui(out->hi, a->hi, n, MPFR_RNDU);
    return usable(out);
}

bool mint_interval_exp(struct mint_interval *out, const struct mint_interval *a)
{
    if (mint_interval_size(a) > EXP_LARGE)
        return false;
    mpfr_exp(out->lo, a->lo, MPFR_RNDD);
    mpfr_exp(out->hi, a->hi, MPFR_RNDU);
    return usable(out);
}

bool mint_interval_log(struct mint_interval *out, const struct mint_interval *a)
{
    if (mint_interval_sign(a) <= 0)
        return false;
    mpfr_log(out->lo, a->lo, MPFR_RNDD);
    mpfr_log(out->hi, a->hi, MPFR_RNDU);
    return usable(out);
}

/* sin or cos of the lower end, and as much around it as the interval is wide: their slopes are at
 * most 1. */
static bool wave(struct mint_interval *out, const struct mint_interval *a,
                 int f(mpfr_ptr, mpfr_srcptr, mpfr_rnd_t))
{
    if (mint_interval_size(a) > SINE_LARGE)
        return false;
    struct mint_interval r;
    mpfr_t width;
    mpfr_init2(width, 64);
    mint_interval_init(&r, mpfr_get_prec(out->lo));
    mpfr_sub(width, a->hi, a->lo, MPFR_RNDU);
    f(r.lo, a->lo, MPFR_RNDD);
    f(r.hi, a->lo, MPFR_RNDU);
    mpfr_sub(out->lo, r.lo, width, MPFR_RNDD);
    mpfr_add(out->hi, r.hi, width, MPFR_RNDU);
    mpfr_clear(width);
    mint_interval_clear(&r);
    return usable(out);
}

bool mint_interval_sin(struct mint_interval *out, const struct mint_interval *a)
{
    return wave(out, a, mpfr_sin);
}

bool mint_interval_cos(struct mint_interval *out, const struct mint_interval *a)
{
    return wave(out, a, mpfr_cos);
}

void mint_interval_atan(struct mint_interval *out, const struct mint_interval *a)
{
    mpfr_atan(out->lo, a->lo, MPFR_RNDD);
    mpfr_atan(out->hi, a->hi, MPFR_RNDU);
}

bool mint_interval_asin(struct mint_interval *out, const struct mint_interval *a)
{
    if (mpfr_cmp_si(a->lo, -1) < 0 || mpfr_cmp_si(a->hi, 1) > 0)
        return false;
    mpfr_asin(out->lo, a->lo, MPFR_RNDD);
    mpfr_asin(out->hi, a->hi, MPFR_RNDU);
    return true;
}

mpfr_exp_t mint_interval_width(const struct mint_interval *a)
{
    mpfr_t w;
    mpfr_init2(w, 32);
    mpfr_sub(w, a->hi, a->lo, MPFR_RNDU);
    mpfr_exp_t e = mpfr_regular_p(w) ? mpfr_get_exp(w) : mpfr_zero_p(w) ? -1000000 : 1000000;
    mpfr_clear(w);
    return e;
}

mpfr_exp_t mint_interval_size(const struct mint_interval *a)
{
    mpfr_exp_t e = 0;
    if (mpfr_regular_p(a->lo))
        e = MINT_MAX(e, mpfr_get_exp(a->lo));
    if (mpfr_regular_p(a->hi))
        e = MINT_MAX(e, mpfr_get_exp(a->hi));
    return e;
}

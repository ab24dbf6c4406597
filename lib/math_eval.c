/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "math_eval.h"
#include "math_interval.h"

enum {
    BITS = 256,      /* that equal values share, at least */
    GUARD = 128,     /* more to work with */
    MAX_BITS = 2500, /* of numbers in formulas that are compared like this */
    PLACES = 32,     /* tried; half of them real, half whole */
    ENOUGH = 8,      /* of them with values on both sides */
    WORK = 160,      /* steps a thousand bits of a function cost */
    WHOLE_POWER = 4000,
};

struct mint_complex {
    struct mint_interval re, im;
    bool real; /* im is 0, exactly */
};

/* The place at which formulas are computed. */
struct place {
    struct mint_math *m;
    mpfr_prec_t bits;
    int index; /* -1: there are no variables */
    bool whole;
};

enum { VALUE, NO_VALUE, GIVE_UP };

static void init(struct mint_complex *z, const struct place *p)
{
    mint_interval_init(&z->re, p->bits);
    mint_interval_init(&z->im, p->bits);
    z->real = true;
}

static void clear(struct mint_complex *z)
{
    mint_interval_clear(&z->re);
    mint_interval_clear(&z->im);
}

static void copy(struct mint_complex *out, const struct mint_complex *a)
{
    mint_interval_set(&out->re, &a->re);
    mint_interval_set(&out->im, &a->im);
    out->real = a->real;
}

static bool pay(const struct place *p, unsigned times)
{
    size_t k = ((size_t)p->bits + 511) / 512;
    return mint_math_pay(p->m, 1 + times * (k + k * k / 8));
}

/* --- arithmetic */

static bool multiply(const struct place *p, struct mint_complex *out, const struct mint_complex *b)
{
    if (out->real && b->real)
        return mint_interval_mul(&out->re, &out->re, &b->re);
    struct mint_complex r;
    struct mint_interval t;
    init(&r, p);
    mint_interval_init(&t, p->bits);
    bool ok = mint_interval_mul(&r.re, &out->re, &b->re) && mint_interval_mul(&t, &out->im, &b->im);
    mint_interval_sub(&r.re, &r.re, &t);
    ok =
        ok && mint_interval_mul(&r.im, &out->re, &b->im) && mint_interval_mul(&t, &out->im, &b->re);
    mint_interval_add(&r.im, &r.im, &t);
    r.real = false;
    copy(out, &r);
    mint_interval_clear(&t);
    clear(&r);
    return ok;
}

static bool size2(const struct place *p, struct mint_interval *out, const struct mint_complex *a)
{
    struct mint_interval t;
    mint_interval_init(&t, p->bits);
    bool ok = mint_interval_mul(out, &a->re, &a->re) && mint_interval_mul(&t, &a->im, &a->im);
    mint_interval_add(out, out, &t);
    mint_interval_clear(&t);
    return ok;
}

static bool invert(const struct place *p, struct mint_complex *z)
{
    struct mint_interval t;
    bool ok;
    mint_interval_init(&t, p->bits);
    if (z->real) {
        mint_interval_set_si(&t, 1);
        ok = mint_interval_div(&z->re, &t, &z->re);
    } else {
        ok = size2(p, &t, z);
        mint_interval_neg(&z->im, &z->im);
        ok = ok && mint_interval_div(&z->re, &z->re, &t) && mint_interval_div(&z->im, &z->im, &t);
    }
    mint_interval_clear(&t);
    return ok;
}

static bool whole_power(const struct place *p, struct mint_complex *z, long e)
{
    struct mint_complex base;
    bool ok = true;
    unsigned long k = (unsigned long)(e < 0 ? -e : e);
    init(&base, p);
    copy(&base, z);
    mint_interval_set_si(&z->re, 1);
    mint_interval_set_si(&z->im, 0);
    z->real = true;
    for (; ok && k; k >>= 1) {
        if (k & 1)
            ok = multiply(p, z, &base);
        struct mint_complex square;
        init(&square, p);
        copy(&square, &base);
        if (k > 1)
            ok = ok && pay(p, 4) && multiply(p, &base, &square);
        clear(&square);
    }
    clear(&base);
    return ok && (e >= 0 || invert(p, z));
}

/* --- exp and log, which make powers */

static bool complex_exp(const struct place *p, struct mint_complex *z)
{
    struct mint_interval size, c, s;
    if (z->real)
        return mint_interval_exp(&z->re, &z->re);
    mint_interval_init(&size, p->bits);
    mint_interval_init(&c, p->bits);
    mint_interval_init(&s, p->bits);
    bool ok = mint_interval_exp(&size, &z->re) && mint_interval_cos(&c, &z->im) &&
              mint_interval_sin(&s, &z->im) && mint_interval_mul(&z->re, &size, &c) &&
              mint_interval_mul(&z->im, &size, &s);
    mint_interval_clear(&size);
    mint_interval_clear(&c);
    mint_interval_clear(&s);
    return ok;
}

/* The angle of a complex number whose parts have known signs. */
static bool angle(const struct place *p, struct mint_interval *out, const struct mint_complex *a)
{
    int x = mint_interval_sign(&a->re), y = mint_interval_sign(&a->im);
    struct mint_interval t, pi;
    bool ok;
    mint_interval_init(&t, p->bits);
    mint_interval_init(&pi, p->bits);
    mint_interval_pi(&pi);
    if (x > 0 || (x < 0 && y)) {
        ok = mint_interval_div(&t, &a->im, &a->re);
        mint_interval_atan(&t, &t);
        if (x < 0 && y > 0)
            mint_interval_add(&t, &t, &pi);
        if (x < 0 && y < 0)
            mint_interval_sub(&t, &t, &pi);
    } else { /* pi/2 - atan(x/y) */
        ok = y != 0 && mint_interval_div(&t, &a->re, &a->im);
        mint_interval_atan(&t, &t);
        mpfr_div_2ui(pi.lo, pi.lo, 1, MPFR_RNDD);
        mpfr_div_2ui(pi.hi, pi.hi, 1, MPFR_RNDU);
        if (y < 0)
            mint_interval_neg(&pi, &pi);
        mint_interval_sub(&t, &pi, &t);
    }
    mint_interval_set(out, &t);
    mint_interval_clear(&t);
    mint_interval_clear(&pi);
    return ok;
}

static bool complex_log(const struct place *p, struct mint_complex *z)
{
    if (z->real) {
        int s = mint_interval_sign(&z->re);
        if (s > 0)
            return mint_interval_log(&z->re, &z->re);
        if (s == 0)
            return false;
        mint_interval_neg(&z->re, &z->re);
        mint_interval_pi(&z->im);
        z->real = false;
        return mint_interval_log(&z->re, &z->re);
    }
    struct mint_interval size, arg;
    mint_interval_init(&size, p->bits);
    mint_interval_init(&arg, p->bits);
    bool ok = size2(p, &size, z) && angle(p, &arg, z) && mint_interval_log(&size, &size);
    mpfr_div_2ui(z->re.lo, size.lo, 1, MPFR_RNDD);
    mpfr_div_2ui(z->re.hi, size.hi, 1, MPFR_RNDU);
    mint_interval_set(&z->im, &arg);
    mint_interval_clear(&size);
    mint_interval_clear(&arg);
    return ok;
}

/* --- trees */

static int eval(const struct place *p, const struct mint_math_node *t, struct mint_complex *out);

/* The number that a variable stands for at this place: from its name and the place alone. */
static void variable(const struct place *p, const char *name, struct mint_complex *out)
{
    uint64_t h = UINT64_C(0x9e3779b97f4a7c15) * (uint64_t)(p->index + 1);
    for (; *name; name++)
        h = (h ^ (unsigned char)*name) * UINT64_C(0x100000001b3);
    h ^= h >> 31;
    h *= UINT64_C(0xbf58476d1ce4e5b9);
    h ^= h >> 29;
    if (p->whole) {
        mint_interval_set_si(&out->re, (long)(1 + h % (uint64_t)(8 + p->index)));
        return;
    }
    static const long sizes[] = {1, 3, 12, 90};
    long size = sizes[p->index / 2 % 4];
    mint_interval_set_si(&out->re, (long)(h >> 24 & 0xffffffff) * size + 12345);
    mpfr_div_2ui(out->re.lo, out->re.lo, 32, MPFR_RNDD);
    mpfr_div_2ui(out->re.hi, out->re.hi, 32, MPFR_RNDU);
    /* the first places are positive for all variables, so that roots and logarithms have values */
    if (p->index % 2 && (h & 1))
        mint_interval_neg(&out->re, &out->re);
}

static int named(const struct place *p, const char *name, struct mint_complex *out)
{
    if (!strcmp(name, "\\pi")) {
        mint_interval_pi(&out->re);
    } else if (!strcmp(name, "e")) {
        mint_interval_set_si(&out->re, 1);
        return mint_interval_exp(&out->re, &out->re) ? VALUE : GIVE_UP;
    } else if (!strcmp(name, "i")) {
        mint_interval_set_si(&out->im, 1);
        out->real = false;
    } else {
        variable(p, name, out);
    }
    return VALUE;
}

/* A value that is known to be a whole number; GIVE_UP if it is none or large. */
static int whole_value(const struct place *p, const struct mint_math_node *t, long *out)
{
    struct mint_complex z;
    init(&z, p);
    int rc = eval(p, t, &z);
    if (rc == VALUE) {
        bool whole = z.real && mpfr_equal_p(z.re.lo, z.re.hi) && mpfr_integer_p(z.re.lo) &&
                     mpfr_fits_slong_p(z.re.lo, MPFR_RNDN);
        *out = whole ? mpfr_get_si(z.re.lo, MPFR_RNDN) : 0;
        if (!whole || *out > WHOLE_POWER || *out < -WHOLE_POWER)
            rc = GIVE_UP;
    }
    clear(&z);
    return rc;
}

static int power(const struct place *p, const struct mint_math_node *t, struct mint_complex *out)
{
    long k;
    const struct mint_math_node *e = t->ch[1];
    int rc = eval(p, t->ch[0], out);
    if (rc != VALUE)
        return rc;
    if (whole_value(p, e, &k) == VALUE)
        return whole_power(p, out, k) ? VALUE : NO_VALUE;
    struct mint_complex b;
    init(&b, p);
    rc = eval(p, e, &b);
    if (rc == VALUE && !(out->real && mint_interval_is_zero(&out->re) && b.real &&
                         mint_interval_sign(&b.re) > 0)) {
        bool ok =
            pay(p, 2 * WORK) && complex_log(p, out) && multiply(p, out, &b) && complex_exp(p, out);
        rc = ok ? VALUE : NO_VALUE;
    }
    clear(&b);
    return rc;
}

static int root(const struct place *p, const struct mint_math_node *t, struct mint_complex *z)
{
    const struct mint_math_node *n = t->ch[1];
    int rc = eval(p, t->ch[0], z);
    if (rc != VALUE)
        return rc;
    if (!mpz_fits_ulong_p(mpq_numref(n->q)) || mpz_cmp_ui(mpq_numref(n->q), WHOLE_POWER) > 0)
        return GIVE_UP;
    unsigned long k = mpz_get_ui(mpq_numref(n->q));
    if (!pay(p, WORK / 4))
        return GIVE_UP;
    if (z->real && (k % 2 || mpfr_sgn(z->re.lo) >= 0))
        return mint_interval_root(&z->re, &z->re, k) ? VALUE : NO_VALUE;
    if (z->real && k == 2 && mint_interval_sign(&z->re) < 0) {
        mint_interval_neg(&z->im, &z->re);
        mint_interval_set_si(&z->re, 0);
        z->real = false;
        return mint_interval_root(&z->im, &z->im, 2) ? VALUE : NO_VALUE;
    }
    struct mint_complex b;
    init(&b, p);
    mint_interval_set_si(&b.re, (long)k);
    bool ok = pay(p, 2 * WORK) && complex_log(p, z) && invert(p, &b) && multiply(p, z, &b) &&
              complex_exp(p, z);
    clear(&b);
    return ok ? VALUE : NO_VALUE;
}

static int factorial(const struct place *p, const struct mint_math_node *t,
                     struct mint_complex *out)
{
    long n, k = 0;
    int rc = whole_value(p, t->ch[0], &n);
    if (rc == VALUE && t->fn == FN_BINOM)
        rc = whole_value(p, t->ch[1], &k);
    if (rc != VALUE || n < 0 || k < 0 || !pay(p, WORK))
        return rc == VALUE ? NO_VALUE : rc;
    mpz_t z;
    mpz_init(z);
    if (t->fn == FN_BINOM)
        mpz_bin_uiui(z, (unsigned long)n, (unsigned long)k);
    else
        mpz_fac_ui(z, (unsigned long)n);
    mpfr_set_z(out->re.lo, z, MPFR_RNDD);
    mpfr_set_z(out->re.hi, z, MPFR_RNDU);
    mpz_clear(z);
    return mint_interval_size(&out->re) < 10000 ? VALUE : GIVE_UP;
}

/* floor, ceil and the absolute value. */
static int pieces(int fn, struct mint_complex *z)
{
    struct mint_interval *x = &z->re;
    if (fn == FN_ABS) {
        if (mint_interval_sign(x) < 0)
            mint_interval_neg(x, x);
        return mint_interval_sign(x) || mint_interval_is_zero(x) ? VALUE : GIVE_UP;
    }
    if (fn == FN_FLOOR) {
        mpfr_floor(x->lo, x->lo);
        mpfr_floor(x->hi, x->hi);
    } else {
        mpfr_ceil(x->lo, x->lo);
        mpfr_ceil(x->hi, x->hi);
    }
    return mpfr_equal_p(x->lo, x->hi) ? VALUE : GIVE_UP;
}

/* sin, cos and what is made of them. */
static bool wave(const struct place *p, int fn, struct mint_complex *z)
{
    struct mint_interval c, *x = &z->re;
    mint_interval_init(&c, p->bits);
    bool ok = mint_interval_cos(&c, x) && mint_interval_sin(x, x);
    switch (fn) {
    case FN_COS:
        mint_interval_set(x, &c);
        break;
    case FN_TAN:
        ok = ok && mint_interval_div(x, x, &c);
        break;
    case FN_COT:
        ok = ok && mint_interval_div(x, &c, x);
        break;
    case FN_SEC:
        mint_interval_set_si(x, 1);
        ok = ok && mint_interval_div(x, x, &c);
        break;
    case FN_CSC:
        mint_interval_set_si(&c, 1);
        ok = ok && mint_interval_div(x, &c, x);
        break;
    default:
        break;
    }
    mint_interval_clear(&c);
    return ok;
}

static bool hyperbolic(const struct place *p, int fn, struct mint_interval *x)
{
    struct mint_interval a, b;
    mint_interval_init(&a, p->bits);
    mint_interval_init(&b, p->bits);
    bool ok = mint_interval_exp(&a, x);
    mint_interval_neg(&b, x);
    ok = ok && mint_interval_exp(&b, &b);
    if (fn == FN_COSH)
        mint_interval_add(x, &a, &b);
    else
        mint_interval_sub(x, &a, &b);
    if (fn == FN_TANH) {
        mint_interval_add(&a, &a, &b);
        ok = ok && mint_interval_div(x, x, &a);
    } else {
        mpfr_div_2ui(x->lo, x->lo, 1, MPFR_RNDD);
        mpfr_div_2ui(x->hi, x->hi, 1, MPFR_RNDU);
    }
    mint_interval_clear(&a);
    mint_interval_clear(&b);
    return ok;
}

static bool inverse_wave(const struct place *p, int fn, struct mint_interval *x)
{
    if (fn == FN_ATAN) {
        mint_interval_atan(x, x);
        return true;
    }
    if (!mint_interval_asin(x, x))
        return false;
    if (fn == FN_ACOS) {
        struct mint_interval half;
        mint_interval_init(&half, p->bits);
        mint_interval_pi(&half);
        mpfr_div_2ui(half.lo, half.lo, 1, MPFR_RNDD);
        mpfr_div_2ui(half.hi, half.hi, 1, MPFR_RNDU);
        mint_interval_sub(x, &half, x);
        mint_interval_clear(&half);
    }
    return true;
}

static int function(const struct place *p, const struct mint_math_node *t, struct mint_complex *out)
{
    if (t->fn == FN_ROOT)
        return root(p, t, out);
    if (t->fn == FN_FACT || t->fn == FN_BINOM)
        return factorial(p, t, out);
    int rc = eval(p, t->ch[0], out);
    if (rc != VALUE)
        return rc;
    if (!pay(p, WORK))
        return GIVE_UP;
    if (t->fn == FN_LN)
        return complex_log(p, out) ? VALUE : NO_VALUE;
    if (t->fn == FN_LOG) { /* to a base that nobody said: any will do, the same for both sides */
        struct mint_complex base;
        init(&base, p);
        mint_interval_set_si(&base.re, 7919);
        bool ok = complex_log(p, out) && complex_log(p, &base) && invert(p, &base) &&
                  multiply(p, out, &base);
        clear(&base);
        return ok ? VALUE : NO_VALUE;
    }
    if (!out->real)
        return NO_VALUE;
    switch (t->fn) {
    case FN_ABS:
    case FN_FLOOR:
    case FN_CEIL:
        return pieces(t->fn, out);
    case FN_SIN:
    case FN_COS:
    case FN_TAN:
    case FN_COT:
    case FN_SEC:
    case FN_CSC:
        return wave(p, t->fn, out) ? VALUE : NO_VALUE;
    case FN_SINH:
    case FN_COSH:
    case FN_TANH:
        return hyperbolic(p, t->fn, &out->re) ? VALUE : NO_VALUE;
    case FN_ASIN:
    case FN_ACOS:
    case FN_ATAN:
        return inverse_wave(p, t->fn, &out->re) ? VALUE : NO_VALUE;
    default:
        return GIVE_UP;
    }
}

/* out must be 0 when it is called. */
static int eval(const struct place *p, const struct mint_math_node *t, struct mint_complex *out)
{
    struct mint_complex r;
    int rc = VALUE;
    if (!pay(p, 2))
        return GIVE_UP;
    switch (t->kind) {
    case MN_NUM:
        mint_interval_set_q(&out->re, t->q);
        return mint_interval_size(&out->re) < 10000 ? VALUE : GIVE_UP;
    case MN_VAR:
        return named(p, t->name, out);
    case MN_ADD:
    case MN_MUL:
        rc = eval(p, t->ch[0], out);
        for (unsigned i = 1; i < t->n && rc == VALUE; i++) {
            init(&r, p);
            rc = eval(p, t->ch[i], &r);
            if (rc == VALUE && t->kind == MN_MUL) {
                rc = multiply(p, out, &r) ? VALUE : NO_VALUE;
            } else if (rc == VALUE) {
                mint_interval_add(&out->re, &out->re, &r.re);
                mint_interval_add(&out->im, &out->im, &r.im);
                out->real = out->real && r.real;
            }
            clear(&r);
        }
        return rc;
    case MN_POW:
        return power(p, t, out);
    case MN_FN:
        return function(p, t, out);
    default:
        return GIVE_UP;
    }
}

/* --- comparison */

struct traits {
    bool variables, imaginary, steps; /* steps: floor and ceiling */
    size_t bits;                      /* of the largest numerator or denominator */
};

static void look(const struct mint_math_node *t, struct traits *f)
{
    if (t->kind == MN_VAR && !strcmp(t->name, "i"))
        f->imaginary = true;
    else if (t->kind == MN_VAR && strcmp(t->name, "e") != 0 && strcmp(t->name, "\\pi") != 0)
        f->variables = true;
    if (t->kind == MN_NUM) {
        f->bits = MINT_MAX(f->bits, mpz_sizeinbase(mpq_numref(t->q), 2));
        f->bits = MINT_MAX(f->bits, mpz_sizeinbase(mpq_denref(t->q), 2));
    }
    if (t->kind == MN_FN && (t->fn == FN_FLOOR || t->fn == FN_CEIL))
        f->steps = true;
    for (unsigned i = 0; i < t->n; i++)
        look(t->ch[i], f);
}

/* YES or NO at this place; UNKNOWN if a side has no value here, or is not known well enough. */
static enum mint_math_verdict at_place(const struct place *p, const struct mint_math_node *a,
                                       const struct mint_math_node *b, bool only_real,
                                       mpfr_exp_t agree, int *why)
{
    struct mint_complex x, y;
    enum mint_math_verdict v = MINT_MATH_UNKNOWN;
    init(&x, p);
    init(&y, p);
    int left = eval(p, a, &x), right = left == GIVE_UP ? GIVE_UP : eval(p, b, &y);
    *why = MINT_MAX(left, right);
    if (*why == VALUE && !(only_real && !(x.real && y.real))) {
        mpfr_exp_t size = MINT_MAX(mint_interval_size(&x.re), mint_interval_size(&x.im));
        mint_interval_sub(&x.re, &x.re, &y.re);
        mint_interval_sub(&x.im, &x.im, &y.im);
        if (mint_interval_sign(&x.re) || mint_interval_sign(&x.im))
            v = MINT_MATH_NO;
        else if (mint_interval_width(&x.re) < size - agree &&
                 mint_interval_width(&x.im) < size - agree)
            v = MINT_MATH_YES;
    } else if (*why == VALUE) {
        *why = NO_VALUE;
    }
    clear(&x);
    clear(&y);
    return v;
}

static enum mint_math_verdict constants(struct mint_math *m, const struct mint_math_node *a,
                                        const struct mint_math_node *b, mpfr_exp_t agree)
{
    int why = VALUE;
    enum mint_math_verdict v = MINT_MATH_UNKNOWN;
    /* cancellation eats digits: once more with more of them */
    for (int i = 0; i < 3 && v == MINT_MATH_UNKNOWN && why != GIVE_UP; i++) {
        struct place p = {m, (agree + GUARD) << i, -1, false};
        v = at_place(&p, a, b, false, agree, &why);
    }
    if (v == MINT_MATH_UNKNOWN)
        mint_math_why(m, why == NO_VALUE ? "undecided: a formula without a value"
                                         : "undecided: beyond the limits of computing");
    return v;
}

/* At how many of the places from..to do both have the same value? It stops when that is enough, and
 * says -1 as soon as they differ at one. */
static int places(struct mint_math *m, const struct mint_math_node *a,
                  const struct mint_math_node *b, bool only_real, mpfr_exp_t agree, int from,
                  int to)
{
    int good = 0, why;
    for (int i = from; i < to && good < ENOUGH && m->steps > 0; i++) {
        struct place p = {m, agree + GUARD, i, i >= PLACES / 2};
        enum mint_math_verdict v = at_place(&p, a, b, only_real, agree, &why);
        if (v == MINT_MATH_NO)
            return -1;
        good += v == MINT_MATH_YES;
    }
    return good;
}

enum mint_math_verdict mint_math_eval_equal(struct mint_math *m, struct mint_math_node *a,
                                            struct mint_math_node *b)
{
    struct traits f = {false, false, false, 0};
    look(a, &f);
    look(b, &f);
    if (f.bits > MAX_BITS) {
        mint_math_why(m, "undecided: long numbers in a formula");
        return MINT_MATH_UNKNOWN;
    }
    mpfr_exp_t agree = BITS + 4 * (mpfr_exp_t)f.bits;
    if (!f.variables)
        return constants(m, a, b, agree);
    int real = places(m, a, b, !f.imaginary, agree, 0, PLACES / 2), whole = 0;
    /* what jumps at whole numbers must agree there, too */
    if (real >= 0 && (real < ENOUGH || f.steps))
        whole = places(m, a, b, !f.imaginary, agree, PLACES / 2, PLACES);
    if (real < 0 || whole < 0)
        return MINT_MATH_NO;
    if (f.steps ? real >= ENOUGH && whole >= ENOUGH : real >= ENOUGH || whole >= ENOUGH)
        return MINT_MATH_YES;
    mint_math_why(m, "undecided: too few places where both have values");
    return MINT_MATH_UNKNOWN;
}

void mint_math_eval_done(void)
{
    mpfr_free_cache();
}

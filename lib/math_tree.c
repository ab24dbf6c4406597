/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "math_tree.h"

static bool is_num(const struct mint_math_node *a)
{
    return a->kind == MN_NUM;
}

static struct mint_math_node *from_q(struct mint_math *m, mpq_ptr q)
{
    if (!mint_math_pay_q(m, q))
        return NULL;
    struct mint_math_node *t = mint_math_node(m, MN_NUM, NULL, 0);
    t->q = q;
    return t;
}

struct mint_math_node *mint_math_node(struct mint_math *m, enum mint_math_kind kind,
                                      struct mint_math_node **ch, unsigned n)
{
    struct mint_math_node *t = mint_arena_alloc(&m->arena, sizeof(*t));
    *t = (struct mint_math_node){.kind = kind, .n = n};
    if (n) {
        t->ch = mint_arena_alloc(&m->arena, n * sizeof(*ch));
        memcpy(t->ch, ch, n * sizeof(*ch));
    }
    return t;
}

struct mint_math_node *mint_math_int(struct mint_math *m, long num, long den)
{
    mpq_ptr q = mint_math_q(m);
    mpq_set_si(q, num, (unsigned long)den);
    mpq_canonicalize(q);
    return from_q(m, q);
}

struct mint_math_node *mint_math_var(struct mint_math *m, const char *name)
{
    struct mint_math_node *t = mint_math_node(m, MN_VAR, NULL, 0);
    t->name = name;
    return t;
}

/* 10^e, or 10^-e below. */
static void scale(mpq_ptr q, long e)
{
    mpz_t p;
    mpz_init(p);
    mpz_ui_pow_ui(p, 10, (unsigned long)(e < 0 ? -e : e));
    mpz_ptr part = e < 0 ? mpq_denref(q) : mpq_numref(q);
    mpz_mul(part, part, p);
    mpq_canonicalize(q);
    mpz_clear(p);
}

struct mint_math_node *mint_math_num(struct mint_math *m, const struct mint_math_digits *d)
{
    long e = (long)d->exponent - (long)d->fraction - (long)d->repeat;
    if (d->n > MINT_MATH_DIGITS || e > MINT_MATH_DIGITS || e < -MINT_MATH_DIGITS)
        return mint_math_why(m, "undecided: a number with too many digits");
    if (!mint_math_pay(m, 1 + d->n / 64))
        return NULL;
    mpq_ptr q = mint_math_q(m);
    mpz_set_str(mpq_numref(q), d->n ? d->s : "0", 10);
    if (d->repeat) { /* a.b(c) = (abc - ab) / (10^r - 1) / 10^f */
        mpz_t head, nines;
        mpz_init(head);
        mpz_init(nines);
        mpz_ui_pow_ui(nines, 10, d->repeat);
        mpz_tdiv_q(head, mpq_numref(q), nines);
        mpz_sub(mpq_numref(q), mpq_numref(q), head);
        mpz_sub_ui(nines, nines, 1);
        mpz_set(mpq_denref(q), nines);
        mpz_clear(head);
        mpz_clear(nines);
        e += (long)d->repeat;
    }
    if (e || d->repeat)
        scale(q, e);
    return from_q(m, q);
}

struct mint_math_node *mint_math_add(struct mint_math *m, struct mint_math_node **ch, unsigned n)
{
    struct mint_math_node **out = mint_arena_alloc(&m->arena, (n + 1) * sizeof(*out));
    unsigned k = 0;
    mpq_ptr sum = NULL;
    for (unsigned i = 0; i < n; i++) {
        if (!ch[i])
            return NULL;
        if (!is_num(ch[i])) {
            out[k++] = ch[i];
            continue;
        }
        if (!sum)
            sum = mint_math_q(m);
        mpq_add(sum, sum, ch[i]->q);
        if (!mint_math_pay_q(m, sum))
            return NULL;
    }
    if (sum && (k == 0 || mpq_sgn(sum))) {
        if (!(out[k++] = from_q(m, sum)))
            return NULL;
    }
    return k == 1 ? out[0] : mint_math_node(m, MN_ADD, out, k);
}

struct mint_math_node *mint_math_mul(struct mint_math *m, struct mint_math_node **ch, unsigned n)
{
    struct mint_math_node **out = mint_arena_alloc(&m->arena, (n + 1) * sizeof(*out));
    unsigned k = 0;
    mpq_ptr product = NULL;
    for (unsigned i = 0; i < n; i++) {
        if (!ch[i])
            return NULL;
        if (!is_num(ch[i])) {
            out[k++] = ch[i];
            continue;
        }
        if (!product) {
            product = mint_math_q(m);
            mpq_set_ui(product, 1, 1);
        }
        mpq_mul(product, product, ch[i]->q);
        if (!mint_math_pay_q(m, product))
            return NULL;
    }
    if (product && (k == 0 || mpq_cmp_ui(product, 1, 1))) {
        if (!(out[k++] = from_q(m, product)))
            return NULL;
    }
    return k == 1 ? out[0] : mint_math_node(m, MN_MUL, out, k);
}

struct mint_math_node *mint_math_neg(struct mint_math *m, struct mint_math_node *a)
{
    if (a && a->kind == MN_INF) {
        struct mint_math_node *t = mint_math_node(m, MN_INF, NULL, 0);
        t->fn = -a->fn;
        return t;
    }
    struct mint_math_node *pair[2] = {mint_math_int(m, -1, 1), a};
    return mint_math_mul(m, pair, 2);
}

struct mint_math_node *mint_math_div(struct mint_math *m, struct mint_math_node *a,
                                     struct mint_math_node *b)
{
    struct mint_math_node *pair[2] = {a, mint_math_pow(m, b, mint_math_int(m, -1, 1))};
    return mint_math_mul(m, pair, 2);
}

bool mint_math_pow_q(struct mint_math *m, mpq_srcptr base, long e, mpq_ptr out)
{
    unsigned long k = (unsigned long)(e < 0 ? -e : e);
    size_t bits =
        MINT_MAX(mpz_sizeinbase(mpq_numref(base), 2), mpz_sizeinbase(mpq_denref(base), 2));
    bool unit = bits == 1; /* 0, 1 or -1 */
    if (!unit && (k > MINT_MATH_BITS || bits * k > MINT_MATH_BITS)) {
        mint_math_why(m, "undecided: a power that is too large");
        return false;
    }
    if (unit)
        k = k ? 2 - k % 2 : 0;
    mpz_pow_ui(mpq_numref(out), mpq_numref(base), k);
    mpz_pow_ui(mpq_denref(out), mpq_denref(base), k);
    if (e < 0) {
        if (!mpq_sgn(out)) {
            mint_math_why(m, "a division by zero");
            return false;
        }
        mpq_inv(out, out);
    }
    return mint_math_pay_q(m, out);
}

/* The n-th root of q as a rational number: false if it is none. Negative ones have odd roots. */
static bool root_q(struct mint_math *m, mpq_srcptr q, unsigned long n, mpq_ptr out)
{
    if (n == 0 || n > 1000 || (mpq_sgn(q) < 0 && n % 2 == 0) ||
        !mint_math_pay(m, 1 + mpz_size(mpq_numref(q)) + mpz_size(mpq_denref(q))))
        return false;
    return mpz_root(mpq_numref(out), mpq_numref(q), n) &&
           mpz_root(mpq_denref(out), mpq_denref(q), n);
}

static struct mint_math_node *pow_num(struct mint_math *m, struct mint_math_node *a,
                                      struct mint_math_node *b)
{
    mpz_srcptr num = mpq_numref(b->q), den = mpq_denref(b->q);
    mpq_ptr out = mint_math_q(m);
    if (!mpz_fits_slong_p(num) || !mpz_fits_ulong_p(den)) {
        bool unit = mpz_cmpabs_ui(mpq_numref(a->q), 1) <= 0 && !mpz_cmp_ui(mpq_denref(a->q), 1);
        if (!unit || mpz_cmp_ui(den, 1) || mpq_sgn(a->q) == 0)
            return mint_math_why(m, "undecided: a power that is too large");
        mpq_set_si(out, mpq_sgn(a->q) > 0 || mpz_even_p(num) ? 1 : -1, 1);
        return from_q(m, out);
    }
    long e = mpz_get_si(num);
    if (!mpq_sgn(a->q) && e == 0)
        return mint_math_why(m, "zero to the power of zero");
    if (mpz_cmp_ui(den, 1)) { /* a root: rational or left as it is */
        mpq_ptr root = mint_math_q(m);
        if (!root_q(m, a->q, mpz_get_ui(den), root)) {
            struct mint_math_node *pair[2] = {a, b};
            if (mpq_sgn(a->q) < 0 && mpz_odd_p(den)) {
                struct mint_math_node *args[2] = {a, mint_math_int(m, 1, (long)mpz_get_ui(den))};
                args[1]->q = mint_math_q(m);
                mpz_set(mpq_numref(args[1]->q), den);
                struct mint_math_node *r = mint_math_node(m, MN_FN, args, 2);
                r->fn = FN_ROOT;
                return mint_math_pow(m, r, mint_math_int(m, e, 1));
            }
            return mint_math_node(m, MN_POW, pair, 2);
        }
        return mint_math_pow_q(m, root, e, out) ? from_q(m, out) : NULL;
    }
    return mint_math_pow_q(m, a->q, e, out) ? from_q(m, out) : NULL;
}

struct mint_math_node *mint_math_pow(struct mint_math *m, struct mint_math_node *a,
                                     struct mint_math_node *b)
{
    if (!a || !b)
        return NULL;
    if (is_num(a) && is_num(b))
        return pow_num(m, a, b);
    if (is_num(b) && !mpq_cmp_ui(b->q, 1, 1))
        return a;
    struct mint_math_node *pair[2] = {a, b};
    return mint_math_node(m, MN_POW, pair, 2);
}

/* --- functions of exact numbers */

static bool small(const struct mint_math_node *a, unsigned long max, unsigned long *out)
{
    if (!is_num(a) || mpz_cmp_ui(mpq_denref(a->q), 1) || mpq_sgn(a->q) < 0 ||
        mpz_cmp_ui(mpq_numref(a->q), max) > 0)
        return false;
    *out = mpz_get_ui(mpq_numref(a->q));
    return true;
}

static struct mint_math_node *factorial(struct mint_math *m, struct mint_math_node *a)
{
    unsigned long k;
    if (mpz_cmp_ui(mpq_denref(a->q), 1) || mpq_sgn(a->q) < 0)
        return mint_math_why(m, "a factorial of no whole number");
    if (!small(a, MINT_MATH_FACTORIAL, &k))
        return mint_math_why(m, "undecided: a factorial that is too large");
    if (!mint_math_pay(m, 1 + k / 16))
        return NULL;
    mpq_ptr q = mint_math_q(m);
    mpz_fac_ui(mpq_numref(q), k);
    return from_q(m, q);
}

static struct mint_math_node *binomial(struct mint_math *m, struct mint_math_node *a,
                                       struct mint_math_node *b)
{
    unsigned long n, k;
    if (!small(a, MINT_MATH_FACTORIAL, &n) || !small(b, MINT_MATH_FACTORIAL, &k))
        return mint_math_why(m, "undecided: a binomial coefficient out of reach");
    if (!mint_math_pay(m, 1 + n / 8))
        return NULL;
    mpq_ptr q = mint_math_q(m);
    mpz_bin_uiui(mpq_numref(q), n, k);
    return from_q(m, q);
}

static struct mint_math_node *round_to(struct mint_math *m, struct mint_math_node *a, bool up)
{
    mpq_ptr q = mint_math_q(m);
    if (up)
        mpz_cdiv_q(mpq_numref(q), mpq_numref(a->q), mpq_denref(a->q));
    else
        mpz_fdiv_q(mpq_numref(q), mpq_numref(a->q), mpq_denref(a->q));
    return from_q(m, q);
}

/* gcd, lcm, max, min of numbers. */
static struct mint_math_node *of_many(struct mint_math *m, int fn, struct mint_math_node **ch,
                                      unsigned n)
{
    if (n == 0)
        return mint_math_why(m, "a function without its argument");
    mpq_ptr q = mint_math_q(m);
    for (unsigned i = 0; i < n; i++) {
        bool whole = is_num(ch[i]) && !mpz_cmp_ui(mpq_denref(ch[i]->q), 1);
        if (!is_num(ch[i]) || ((fn == FN_GCD || fn == FN_LCM) && !whole))
            return mint_math_why(m, "undecided: a function of something unknown");
        if (i == 0)
            mpq_set(q, ch[0]->q);
        else if (fn == FN_GCD)
            mpz_gcd(mpq_numref(q), mpq_numref(q), mpq_numref(ch[i]->q));
        else if (fn == FN_LCM)
            mpz_lcm(mpq_numref(q), mpq_numref(q), mpq_numref(ch[i]->q));
        else if ((mpq_cmp(ch[i]->q, q) > 0) == (fn == FN_MAX))
            mpq_set(q, ch[i]->q);
        if (!mint_math_pay_q(m, q))
            return NULL;
    }
    return from_q(m, q);
}

static struct mint_math_node *fn_num(struct mint_math *m, int fn, struct mint_math_node **ch,
                                     unsigned n)
{
    unsigned long k;
    mpq_ptr q;
    switch (fn) {
    case FN_ROOT:
        q = mint_math_q(m);
        if (small(ch[1], 1000, &k) && k && root_q(m, ch[0]->q, k, q))
            return from_q(m, q);
        break;
    case FN_ABS:
        q = mint_math_q(m);
        mpq_abs(q, ch[0]->q);
        return from_q(m, q);
    case FN_FLOOR:
    case FN_CEIL:
        return round_to(m, ch[0], fn == FN_CEIL);
    case FN_FACT:
        return factorial(m, ch[0]);
    case FN_BINOM:
        return binomial(m, ch[0], ch[1]);
    default:
        break;
    }
    struct mint_math_node *t = mint_math_node(m, MN_FN, ch, n);
    t->fn = fn;
    return t;
}

struct mint_math_node *mint_math_fn(struct mint_math *m, int fn, struct mint_math_node **ch,
                                    unsigned n)
{
    bool nums = n > 0;
    for (unsigned i = 0; i < n; i++) {
        if (!ch[i])
            return NULL;
        nums = nums && is_num(ch[i]);
    }
    if (fn == FN_GCD || fn == FN_LCM || fn == FN_MAX || fn == FN_MIN)
        return of_many(m, fn, ch, n);
    if (n != (fn == FN_ROOT || fn == FN_BINOM ? 2u : 1u))
        return mint_math_why(m, "a function with a wrong number of arguments");
    if (fn == FN_EXP)
        return mint_math_pow(m, mint_math_var(m, "e"), ch[0]);
    if (nums)
        return fn_num(m, fn, ch, n);
    struct mint_math_node *t = mint_math_node(m, MN_FN, ch, n);
    t->fn = fn;
    return t;
}

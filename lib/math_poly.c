/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "math_poly.h"

struct term {
    uint64_t exps; /* a byte for each atom, that of i lowest */
    mpq_ptr c;
};
struct poly {
    struct term *v;
    size_t n; /* 0: zero */
};
struct ratio {
    struct poly num, den;
};

enum { TERMS = 400, DEGREE = 100, PRODUCT = 4000, POWER = 60 };

/* What a step gives: done, not a rational function (or too large), or no value at all. */
enum { DONE, OTHER, NOTHING };

static struct poly constant(struct mint_math *m, mpq_ptr c)
{
    struct poly p = {mint_arena_alloc(&m->arena, sizeof(*p.v)), mpq_sgn(c) != 0};
    p.v[0] = (struct term){0, c};
    return p;
}

static struct poly one(struct mint_math *m)
{
    mpq_ptr c = mint_math_q(m);
    mpq_set_ui(c, 1, 1);
    return constant(m, c);
}

static bool is_constant(const struct poly *p)
{
    return p->n == 0 || (p->n == 1 && p->v[0].exps == 0);
}

static int by_exps(const void *a, const void *b)
{
    uint64_t x = ((const struct term *)a)->exps;
    uint64_t y = ((const struct term *)b)->exps;
    return x < y ? -1 : x > y;
}

/* Sorts, and adds up what is alike. */
static bool tidy(struct mint_math *m, struct poly *p)
{
    size_t n = 0;
    qsort(p->v, p->n, sizeof(*p->v), by_exps);
    for (size_t i = 0; i < p->n; i++) {
        if (n && p->v[n - 1].exps == p->v[i].exps) {
            mpq_add(p->v[n - 1].c, p->v[n - 1].c, p->v[i].c);
            if (!mint_math_pay_q(m, p->v[n - 1].c))
                return false;
            continue;
        }
        if (n && !mpq_sgn(p->v[n - 1].c))
            n--;
        p->v[n++] = p->v[i];
    }
    if (n && !mpq_sgn(p->v[n - 1].c))
        n--;
    p->n = n;
    return n <= TERMS;
}

static bool add(struct mint_math *m, const struct poly *a, const struct poly *b, int sign,
                struct poly *out)
{
    *out = (struct poly){mint_arena_alloc(&m->arena, (a->n + b->n + 1) * sizeof(*out->v)),
                         a->n + b->n};
    for (size_t i = 0; i < out->n; i++) {
        const struct term *t = i < a->n ? &a->v[i] : &b->v[i - a->n];
        out->v[i] = (struct term){t->exps, mint_math_q(m)};
        mpq_set(out->v[i].c, t->c);
        if (i >= a->n && sign < 0)
            mpq_neg(out->v[i].c, out->v[i].c);
    }
    return mint_math_pay(m, out->n) && tidy(m, out);
}

static bool mul(struct mint_math *m, const struct poly *a, const struct poly *b, struct poly *out)
{
    size_t n = a->n * b->n;
    if (n > PRODUCT)
        return false;
    struct poly p = {mint_arena_alloc(&m->arena, (n + 1) * sizeof(*p.v)), n};
    for (size_t i = 0; i < n; i++) {
        const struct term *s = &a->v[i / b->n], *t = &b->v[i % b->n];
        struct term *r = &p.v[i];
        *r = (struct term){s->exps + t->exps, mint_math_q(m)};
        mpq_mul(r->c, s->c, t->c);
        if (!mint_math_pay_q(m, r->c))
            return false;
        if ((r->exps & 0xff) >= 2) { /* i * i = -1 */
            r->exps -= 2;
            mpq_neg(r->c, r->c);
        }
        for (uint64_t e = r->exps; e; e >>= 8) {
            if ((e & 0xff) > DEGREE)
                return false;
        }
    }
    *out = p; /* which may be a or b */
    return tidy(m, out);
}

static bool ratio_mul(struct mint_math *m, const struct ratio *a, const struct ratio *b,
                      struct ratio *out)
{
    struct ratio r;
    bool ok = mul(m, &a->num, &b->num, &r.num) && mul(m, &a->den, &b->den, &r.den);
    if (ok)
        *out = r;
    return ok;
}

static bool same(const struct poly *a, const struct poly *b)
{
    if (a->n != b->n)
        return false;
    for (size_t i = 0; i < a->n; i++) {
        if (a->v[i].exps != b->v[i].exps || !mpq_equal(a->v[i].c, b->v[i].c))
            return false;
    }
    return true;
}

static bool ratio_add(struct mint_math *m, const struct ratio *a, const struct ratio *b,
                      struct ratio *out)
{
    struct ratio r;
    struct poly x, y;
    if (same(&a->den, &b->den)) {
        r.den = a->den;
        if (!add(m, &a->num, &b->num, 1, &r.num))
            return false;
    } else if (!mul(m, &a->num, &b->den, &x) || !mul(m, &b->num, &a->den, &y) ||
               !add(m, &x, &y, 1, &r.num) || !mul(m, &a->den, &b->den, &r.den)) {
        return false;
    }
    *out = r;
    return true;
}

/* A variable's form; i is always atom 0. */
static int atom(struct mint_math *m, const char *name, struct ratio *out)
{
    size_t i = 0;
    if (!m->natoms)
        m->atoms[m->natoms++] = "i";
    while (i < m->natoms && strcmp(m->atoms[i], name) != 0)
        i++;
    if (i == MINT_MATH_ATOMS)
        return OTHER;
    if (i == m->natoms)
        m->atoms[m->natoms++] = name;
    *out = (struct ratio){one(m), one(m)};
    out->num.v[0].exps = UINT64_C(1) << (8 * i);
    return DONE;
}

static int form(struct mint_math *m, struct mint_math_node *t, struct ratio *out);

static int power(struct mint_math *m, struct mint_math_node *t, struct ratio *out)
{
    struct mint_math_node *e = t->ch[1];
    if (e->kind != MN_NUM || mpz_cmp_ui(mpq_denref(e->q), 1) ||
        mpz_cmpabs_ui(mpq_numref(e->q), POWER) > 0)
        return OTHER;
    long k = mpz_get_si(mpq_numref(e->q));
    struct ratio base;
    int rc = form(m, t->ch[0], &base);
    if (rc != DONE)
        return rc;
    if (k < 0) {
        struct ratio swapped = {base.den, base.num};
        base = swapped;
        k = -k;
        if (base.den.n == 0) {
            mint_math_why(m, "a division by zero");
            return NOTHING;
        }
        if (is_constant(&base.den)) { /* so that constants stay without denominator */
            mpq_ptr c = mint_math_q(m);
            mpq_inv(c, base.den.v[0].c);
            struct poly inv = constant(m, c);
            base.den = one(m);
            if (!mul(m, &base.num, &inv, &base.num))
                return OTHER;
        }
    }
    *out = (struct ratio){one(m), one(m)};
    for (; k; k >>= 1) {
        if ((k & 1) && !ratio_mul(m, out, &base, out))
            return OTHER;
        if (k > 1 && !ratio_mul(m, &base, &base, &base))
            return OTHER;
    }
    return DONE;
}

static int form(struct mint_math *m, struct mint_math_node *t, struct ratio *out)
{
    struct ratio r;
    int rc;
    if (!mint_math_pay(m, 1))
        return OTHER;
    switch (t->kind) {
    case MN_NUM:
        *out = (struct ratio){constant(m, t->q), one(m)};
        return DONE;
    case MN_VAR:
        return atom(m, t->name, out);
    case MN_POW:
        return power(m, t, out);
    case MN_ADD:
    case MN_MUL:
        for (unsigned i = 0; i < t->n; i++) {
            if ((rc = form(m, t->ch[i], i ? &r : out)) != DONE)
                return rc;
            if (i && !(t->kind == MN_ADD ? ratio_add(m, out, &r, out) : ratio_mul(m, out, &r, out)))
                return OTHER;
        }
        return DONE;
    default:
        return OTHER;
    }
}

enum mint_math_verdict mint_math_poly_equal(struct mint_math *m, struct mint_math_node *a,
                                            struct mint_math_node *b)
{
    struct ratio x, y;
    int rc = form(m, a, &x);
    if (rc == DONE)
        rc = form(m, b, &y);
    if (rc != DONE)
        return rc == NOTHING ? MINT_MATH_NO : MINT_MATH_UNKNOWN;
    struct poly left, right, d;
    if (!mul(m, &x.num, &y.den, &left) || !mul(m, &y.num, &x.den, &right) ||
        !add(m, &left, &right, -1, &d))
        return MINT_MATH_UNKNOWN;
    return d.n == 0 ? MINT_MATH_YES : MINT_MATH_NO;
}

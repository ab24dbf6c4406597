/* SPDX-License-Identifier: Apache-2.0 */
/* A recursive descent: value > sum > term > power > primary. */
#include <stdlib.h>
#include <string.h>

#include "math_parse.h"

enum { POSTFIXES = 8 };

struct parser {
    struct mint_math *m;
    const struct mint_math_tok *v;
    size_t n, at;
    int depth, bars, trig, pm;
};

struct list {
    struct mint_math_node **v;
    unsigned n, cap;
};

static struct mint_math_node *value(struct parser *p);
static struct mint_math_node *sum(struct parser *p);
static struct mint_math_node *power(struct parser *p);
static struct mint_math_node *primary(struct parser *p);

static struct mint_math_node *fail(struct parser *p, const char *why)
{
    return mint_math_why(p->m, why);
}

static int type_at(const struct parser *p, size_t ahead)
{
    return p->at + ahead < p->n ? p->v[p->at + ahead].type : MT_END;
}

static int type(const struct parser *p)
{
    return type_at(p, 0);
}

static bool take(struct parser *p, int what)
{
    if (type(p) != what)
        return false;
    p->at++;
    return true;
}

static void push(struct parser *p, struct list *l, struct mint_math_node *t)
{
    if (l->n == l->cap) {
        unsigned cap = l->cap ? 2 * l->cap : 8;
        struct mint_math_node **v = mint_arena_alloc(&p->m->arena, cap * sizeof(*v));
        if (l->n)
            memcpy(v, l->v, l->n * sizeof(*v));
        l->v = v;
        l->cap = cap;
    }
    l->v[l->n++] = t;
}

/* Only numbers and formulas can be computed with. */
static struct mint_math_node *scalar(struct parser *p, struct mint_math_node *t)
{
    return !t || t->kind < MN_INF ? t : fail(p, "unreadable: arithmetic with what is no number");
}

static bool whole(const struct mint_math_node *t)
{
    return t && t->kind == MN_NUM && !mpz_cmp_ui(mpq_denref(t->q), 1);
}

/* --- brackets */

static bool close_of(struct parser *p, char *close)
{
    static const struct {
        int type;
        char c;
    } all[] = {{')', ')'}, {']', ']'}, {MT_RSET, '}'}, {MT_RANGLE, '>'}};
    for (size_t i = 0; i < MINT_ARRAY_LEN(all); i++) {
        if (type(p) == all[i].type) {
            *close = all[i].c;
            p->at++;
            return true;
        }
    }
    return false;
}

static struct mint_math_node *bracket(struct parser *p, char open)
{
    struct list l = {0};
    char close = 0;
    int bars = p->bars, trig = p->trig;
    p->bars = 0;
    if (open == '{' && take(p, MT_RSET)) {
        p->bars = bars;
        return mint_math_node(p->m, MN_SET, NULL, 0);
    }
    do {
        struct mint_math_node *t = value(p);
        if (!t)
            return NULL;
        push(p, &l, t);
        if (l.n > MINT_MATH_MEMBERS)
            return fail(p, "undecided: too many members");
    } while (take(p, ',') || take(p, ';'));
    if (!close_of(p, &close))
        return fail(p, "unreadable: a bracket that is not closed");
    p->bars = bars;
    p->trig = trig;
    if (open == '{')
        return close == '}' ? mint_math_node(p->m, MN_SET, l.v, l.n)
                            : fail(p, "unreadable: brackets that do not match");
    bool match = (open == '(' && close == ')') || (open == '[' && close == ']') ||
                 (open == '<' && close == '>');
    bool interval = l.n == 2 && (open == '(' || open == '[') && (close == ')' || close == ']');
    if (!match && !interval)
        return fail(p, "unreadable: brackets that do not match");
    if (l.n == 1)
        return open == '<' ? fail(p, "unreadable: angle brackets") : l.v[0];
    struct mint_math_node *t = mint_math_node(p->m, MN_TUPLE, l.v, l.n);
    t->open = open;
    t->close = close;
    return t;
}

/* {...}, in which "a \over b" may stand. */
static struct mint_math_node *group(struct parser *p)
{
    int bars = p->bars;
    p->bars = 0;
    struct mint_math_node *a = value(p);
    if (a && take(p, MT_OVER))
        a = mint_math_div(p->m, scalar(p, a), scalar(p, value(p)));
    p->bars = bars;
    if (!a)
        return NULL;
    return take(p, '}') ? a : fail(p, "unreadable: a brace that is not closed");
}

static struct mint_math_node *delimited(struct parser *p, int close, int fn)
{
    struct mint_math_node *a = scalar(p, sum(p));
    if (!a)
        return NULL;
    if (!take(p, close))
        return fail(p, "unreadable: a bracket that is not closed");
    return mint_math_fn(p->m, fn, &a, 1);
}

static bool named(const struct mint_math_tok *t, const char *name)
{
    return t->n == strlen(name) && !memcmp(t->s, name, t->n);
}

static struct mint_math_node *matrix(struct parser *p)
{
    static const char *const kinds[] = {"matrix",  "pmatrix", "bmatrix",
                                        "Bmatrix", "array",   "smallmatrix"};
    const struct mint_math_tok *name = &p->v[p->at - 1];
    bool known = false;
    for (size_t i = 0; i < MINT_ARRAY_LEN(kinds); i++)
        known |= named(name, kinds[i]);
    if (!known)
        return fail(p, "unreadable: an environment that is no matrix");
    struct list l = {0};
    unsigned rows = 0, columns = 0, in_row = 0;
    while (type(p) != MT_ENDENV) {
        struct mint_math_node *t = value(p);
        if (!t)
            return NULL;
        push(p, &l, t);
        in_row++;
        if (l.n > MINT_MATH_MEMBERS)
            return fail(p, "undecided: too many members");
        if (take(p, '&'))
            continue;
        if (type(p) != MT_ENDENV && !take(p, MT_ROW))
            return fail(p, "unreadable: a matrix");
        if (rows++ == 0)
            columns = in_row;
        if (in_row != columns)
            return fail(p, "unreadable: a matrix with uneven rows");
        in_row = 0;
    }
    p->at++;
    if (in_row || !rows)
        return fail(p, "unreadable: a matrix");
    struct mint_math_node *t = mint_math_node(p->m, MN_MATRIX, l.v, l.n);
    t->rows = rows;
    return t;
}

/* --- names */

const char *mint_math_var_name(struct mint_math *m, const struct mint_math_tok *v, size_t n,
                               size_t *used)
{
    struct mint_buf b = MINT_BUF_INIT;
    size_t at = 1;
    mint_buf_add(&b, v[0].s, v[0].n);
    while (at < n) {
        if (v[at].type == '\'') {
            mint_buf_addc(&b, '\'');
            at++;
        } else if (v[at].type == MT_SUB) {
            mint_buf_addf(&b, "_%s", v[at].num->s);
            at++;
        } else if (v[at].type == '_' && at + 1 < n) {
            size_t from = at + 1, end = from + 1;
            if (v[from].type == '{') {
                int depth = 1;
                for (from++; end < n && depth; end++)
                    depth += (v[end].type == '{') - (v[end].type == '}');
                if (depth)
                    break;
            }
            mint_buf_addc(&b, '_');
            mint_math_spell(v + from, end - from - (v[at + 1].type == '{'), false, &b);
            at = end;
        } else {
            break;
        }
    }
    const char *name = mint_arena_strndup(&m->arena, b.data, b.len);
    mint_buf_release(&b);
    *used = at;
    return name;
}

static struct mint_math_node *variable(struct parser *p)
{
    const struct mint_math_tok *t = &p->v[p->at];
    size_t used;
    const char *name = mint_math_var_name(p->m, t, p->n - p->at, &used);
    p->at += used;
    if (t->n == 1 && strchr("fgh", *t->s) && type(p) == '(')
        return fail(p, "unreadable: a function that is not known");
    return mint_math_var(p->m, name);
}

/* "xy" is x times y; longer words are no formulas. */
static struct mint_math_node *word(struct parser *p)
{
    const struct mint_math_tok *t = &p->v[p->at++];
    struct list l = {0};
    if (t->n > 3 || t->text)
        return fail(p, "unreadable: words");
    for (size_t i = 0; i < t->n; i++) {
        char c = t->s[i];
        if (!((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z')))
            return fail(p, "unreadable: words");
        push(p, &l, mint_math_var(p->m, mint_arena_strndup(&p->m->arena, &c, 1)));
    }
    if (type(p) == '_' || type(p) == MT_SUB || type(p) == '\'')
        return fail(p, "unreadable: words");
    /* a power binds to the last letter alone */
    if (type(p) == '^' || type(p) == MT_SUP) {
        const struct mint_math_tok *v = p->v;
        size_t at = p->at;
        struct mint_math_tok last = {.type = MT_VAR, .s = t->s + t->n - 1, .n = 1};
        struct mint_math_tok *copy =
            mint_arena_alloc(&p->m->arena, (p->n - at + 2) * sizeof(*copy));
        copy[0] = last;
        memcpy(copy + 1, v + at, (p->n - at) * sizeof(*copy));
        struct parser q = *p;
        q.v = copy;
        q.n = p->n - at + 1;
        q.at = 0;
        if (!mint_math_pay(p->m, q.n / 8))
            return NULL;
        l.v[l.n - 1] = power(&q);
        p->at = at + q.at - 1;
    }
    return mint_math_mul(p->m, l.v, l.n);
}

/* --- fractions, roots, functions */

/* The argument of a command: a group, or one token (the first digit of a number). */
static struct mint_math_node *argument(struct parser *p)
{
    if (take(p, '{'))
        return scalar(p, group(p));
    if (type(p) == MT_NUM && p->v[p->at].n != 1)
        return fail(p, "unreadable: which digits belong to the fraction?");
    switch (type(p)) {
    case MT_NUM:
        return mint_math_num(p->m, p->v[p->at++].num);
    case MT_VAR:
        p->at++;
        return mint_math_var(
            p->m, mint_arena_strndup(&p->m->arena, p->v[p->at - 1].s, p->v[p->at - 1].n));
    case MT_PI:
    case MT_SQRT:
    case MT_FRAC:
        return scalar(p, primary(p));
    default:
        return fail(p, "unreadable: a command without its argument");
    }
}

static struct mint_math_node *fraction(struct parser *p, bool binomial)
{
    struct mint_math_node *pair[2];
    const struct mint_math_tok *t = &p->v[p->at];
    if (type(p) == MT_NUM && t->n == 2 && t->num->plain) { /* \frac12 */
        p->at++;
        pair[0] = mint_math_int(p->m, t->s[0] - '0', 1);
        pair[1] = mint_math_int(p->m, t->s[1] - '0', 1);
    } else {
        pair[0] = argument(p);
        pair[1] = pair[0] ? argument(p) : NULL;
    }
    return binomial ? mint_math_fn(p->m, FN_BINOM, pair, 2) : mint_math_div(p->m, pair[0], pair[1]);
}

static struct mint_math_node *root(struct parser *p)
{
    struct mint_math_node *pair[2] = {NULL, mint_math_int(p->m, 2, 1)};
    if (take(p, '[')) {
        pair[1] = scalar(p, sum(p));
        if (!pair[1] || !take(p, ']') || !whole(pair[1]) || mpq_sgn(pair[1]->q) <= 0)
            return fail(p, "unreadable: the index of a root");
    }
    if (take(p, '('))
        pair[0] = scalar(p, bracket(p, '('));
    else if (type(p) == MT_NUM)
        pair[0] = mint_math_num(p->m, p->v[p->at++].num);
    else
        pair[0] = argument(p);
    return mint_math_fn(p->m, FN_ROOT, pair, 2);
}

static bool is_trig(int fn)
{
    return fn >= FN_SIN && fn <= FN_CSC;
}

static bool starts_primary(const struct parser *p, int t)
{
    switch (t) {
    case MT_NUM:
    case MT_VAR:
    case MT_WORD:
    case MT_FRAC:
    case MT_HALF:
    case MT_BINOM:
    case MT_SQRT:
    case MT_CBRT:
    case MT_FN:
    case MT_PI:
    case MT_INF:
    case '(':
    case '[':
    case '{':
    case MT_LSET:
    case MT_LFLOOR:
    case MT_LCEIL:
    case MT_BEGIN:
        return true;
    case '|':
        return p->bars == 0;
    default:
        return false;
    }
}

/* sin 2x: what stands side by side, up to the next function. */
static struct mint_math_node *bare_argument(struct parser *p)
{
    struct list l = {0};
    while (starts_primary(p, type(p)) && type(p) != MT_FN) {
        if (l.n && type(p) == MT_NUM)
            return fail(p, "unreadable: two numbers side by side");
        struct mint_math_node *t = scalar(p, power(p));
        if (!t)
            return NULL;
        push(p, &l, t);
    }
    if (!l.n)
        return fail(p, "unreadable: a function without its argument");
    if (type(p) == '/' && type_at(p, 1) != MT_FN)
        return fail(p, "unreadable: does the function end before the slash?");
    return mint_math_mul(p->m, l.v, l.n);
}

static int inverse(int fn)
{
    return fn == FN_SIN ? FN_ASIN : fn == FN_COS ? FN_ACOS : fn == FN_TAN ? FN_ATAN : 0;
}

static struct mint_math_node *call(struct parser *p, int fn, struct mint_math_node *base)
{
    struct list l = {0};
    p->trig += is_trig(fn);
    if (take(p, '(')) {
        struct mint_math_node *t = bracket(p, '(');
        if (t && t->kind == MN_TUPLE && t->open == '(' && t->close == ')')
            l = (struct list){t->ch, t->n, t->n};
        else
            push(p, &l, scalar(p, t));
    } else if (take(p, '{')) {
        push(p, &l, scalar(p, group(p)));
    } else if (type(p) == MT_FN && (fn == FN_LN || fn == FN_LOG || fn == FN_LG)) {
        push(p, &l, scalar(p, power(p))); /* ln ln x */
    } else {
        push(p, &l, bare_argument(p));
    }
    p->trig -= is_trig(fn);
    for (unsigned i = 0; i < l.n; i++) {
        if (!(l.v[i] = scalar(p, l.v[i])))
            return NULL;
    }
    if (fn == FN_LG)
        base = mint_math_int(p->m, 10, 1);
    if (!base)
        return mint_math_fn(p->m, fn, l.v, l.n);
    return mint_math_div(p->m, mint_math_fn(p->m, FN_LN, l.v, l.n),
                         mint_math_fn(p->m, FN_LN, &base, 1));
}

static struct mint_math_node *function(struct parser *p)
{
    int fn = p->v[p->at++].fn;
    struct mint_math_node *base = NULL, *exponent = NULL;
    if (fn == FN_LOG && take(p, '_')) {
        if (type(p) == MT_NUM && p->v[p->at].n > 1)
            base = mint_math_num(p->m, p->v[p->at++].num);
        else
            base = argument(p);
        if (!base)
            return NULL;
    } else if (fn == FN_LOG && type(p) == MT_SUB) {
        base = mint_math_num(p->m, p->v[p->at++].num);
    }
    if (take(p, '^')) {
        exponent = argument(p);
        if (!exponent)
            return NULL;
        if (exponent->kind == MN_NUM && !mpq_cmp_si(exponent->q, -1, 1)) {
            fn = inverse(fn);
            exponent = NULL;
            if (!fn)
                return fail(p, "unreadable: an inverse or a power?");
        }
    }
    struct mint_math_node *t = call(p, fn, base);
    return exponent ? mint_math_pow(p->m, t, exponent) : t;
}

/* --- numbers */

static bool ordinal(const struct mint_math_tok *t)
{
    return t->type == MT_WORD &&
           (named(t, "st") || named(t, "nd") || named(t, "rd") || named(t, "th"));
}

/* A whole number with a fraction beside it: 2\frac{1}{2}, 2 1/2, 2½. */
static struct mint_math_node *mixed(struct parser *p, struct mint_math_node *whole_part)
{
    struct mint_math_node *f = NULL;
    size_t start = p->at;
    if (type(p) == MT_FRAC) {
        int t = type_at(p, 1);
        bool numbers =
            t == MT_NUM
                ? type_at(p, 2) != '{' || type_at(p, 3) == MT_NUM
                : t == '{' && type_at(p, 2) == MT_NUM && type_at(p, 3) == '}' &&
                      (type_at(p, 4) == MT_NUM ||
                       (type_at(p, 4) == '{' && type_at(p, 5) == MT_NUM && type_at(p, 6) == '}'));
        if (!numbers)
            return whole_part;
        p->at++;
        f = fraction(p, false);
        if (!f)
            return NULL;
        if (f->kind != MN_NUM) {
            p->at = start;
            return whole_part;
        }
    } else if (type(p) == MT_HALF) {
        const struct mint_math_digits *d = p->v[p->at++].num;
        f = mint_math_int(p->m, (long)d->n, (long)d->fraction);
    } else {
        f = mint_math_div(p->m, mint_math_num(p->m, p->v[p->at].num),
                          mint_math_num(p->m, p->v[p->at + 2].num));
        p->at += 3;
    }
    if (!f)
        return NULL;
    if (mpq_sgn(f->q) <= 0 || mpq_cmp_ui(f->q, 1, 1) >= 0 || type(p) == '^' || type(p) == MT_SUP)
        return fail(p, "unreadable: a whole number beside a fraction");
    struct mint_math_node *pair[2] = {whole_part, f};
    return mint_math_add(p->m, pair, 2);
}

static struct mint_math_node *number(struct parser *p)
{
    const struct mint_math_tok *t = &p->v[p->at++];
    struct mint_math_node *a = mint_math_num(p->m, t->num);
    bool plain_slash = type(p) == MT_NUM && p->v[p->at].space && type_at(p, 1) == '/' &&
                       type_at(p, 2) == MT_NUM && p->v[p->at].num->plain &&
                       p->v[p->at + 2].num->plain;
    if (!a)
        return NULL;
    if (p->at < p->n && ordinal(&p->v[p->at]) && !p->v[p->at].space && whole(a)) { /* 21st */
        p->at++;
        return a;
    }
    if (type(p) == '_' || type(p) == MT_SUB) { /* 52_8 */
        struct mint_math_node *pair[2] = {a, NULL};
        if (!t->num->plain)
            return fail(p, "unreadable: a base");
        if (take(p, '_'))
            pair[1] = take(p, '{')
                          ? group(p)
                          : (type(p) == MT_NUM ? mint_math_num(p->m, p->v[p->at++].num) : NULL);
        else
            pair[1] = mint_math_num(p->m, p->v[p->at++].num);
        if (!pair[1] || !whole(pair[1]))
            return fail(p, "unreadable: a base");
        return mint_math_node(p->m, MN_BASE, pair, 2);
    }
    if (t->num->fraction || t->num->exponent || t->num->repeat)
        return a;
    if (type(p) == MT_FRAC || type(p) == MT_HALF || plain_slash)
        return mixed(p, a);
    return a;
}

static struct mint_math_node *primary(struct parser *p)
{
    const struct mint_math_tok *t = &p->v[p->at];
    struct mint_math_node *a;
    switch (type(p)) {
    case MT_NUM:
        return number(p);
    case MT_HALF:
        p->at++;
        return mint_math_int(p->m, (long)t->num->n, (long)t->num->fraction);
    case MT_VAR:
        return variable(p);
    case MT_WORD:
        return word(p);
    case MT_PI:
        p->at++;
        return mint_math_var(p->m, "\\pi");
    case MT_INF:
        p->at++;
        a = mint_math_node(p->m, MN_INF, NULL, 0);
        a->fn = 1;
        return a;
    case MT_EMPTY:
        p->at++;
        return mint_math_node(p->m, MN_SET, NULL, 0);
    case MT_FRAC:
    case MT_BINOM:
        p->at++;
        return fraction(p, t->type == MT_BINOM);
    case MT_SQRT:
        p->at++;
        return root(p);
    case MT_CBRT: {
        p->at++;
        struct mint_math_node *pair[2] = {argument(p), mint_math_int(p->m, 3, 1)};
        return mint_math_fn(p->m, FN_ROOT, pair, 2);
    }
    case MT_FN:
        return function(p);
    case '(':
    case '[':
        p->at++;
        return bracket(p, (char)t->type);
    case MT_LSET:
        p->at++;
        return bracket(p, '{');
    case MT_LANGLE:
        p->at++;
        return bracket(p, '<');
    case '{':
        p->at++;
        return group(p);
    case '|':
        p->at++;
        p->bars++;
        a = delimited(p, '|', FN_ABS);
        p->bars--;
        return a;
    case MT_LFLOOR:
        p->at++;
        return delimited(p, MT_RFLOOR, FN_FLOOR);
    case MT_LCEIL:
        p->at++;
        return delimited(p, MT_RCEIL, FN_CEIL);
    case MT_BEGIN:
        p->at++;
        return matrix(p);
    case MT_END:
        return fail(p, "unreadable: it ends too early");
    default:
        return fail(p, "unreadable: a symbol that is not known");
    }
}

/* --- operators */

static struct mint_math_node *degree(struct parser *p, struct mint_math_node *a)
{
    if (!p->trig)
        return a;
    struct mint_math_node *all[3] = {a, mint_math_var(p->m, "\\pi"), mint_math_int(p->m, 1, 180)};
    return mint_math_mul(p->m, all, 3);
}

/* What stands behind ^: NULL with *done for a degree sign or the end of an ordinal number. */
static struct mint_math_node *exponent(struct parser *p, struct mint_math_node *base,
                                       struct mint_math_node **done)
{
    size_t brace = type(p) == '{';
    *done = NULL;
    if (type_at(p, brace) == MT_DEG && (!brace || type_at(p, 2) == '}')) {
        p->at += brace ? 3 : 1;
        return *done = degree(p, base);
    }
    if (p->at + brace < p->n && ordinal(&p->v[p->at + brace]) && (!brace || type_at(p, 2) == '}')) {
        p->at += brace ? 3 : 1;
        return *done = whole(base) ? base : fail(p, "unreadable: an exponent");
    }
    if (take(p, '{'))
        return scalar(p, group(p));
    bool minus = take(p, '-');
    struct mint_math_node *e;
    if (type(p) == MT_NUM && type_at(p, 1) != '^') {
        e = mint_math_num(p->m, p->v[p->at++].num);
    } else {
        e = scalar(p, power(p));
    }
    return minus ? mint_math_neg(p->m, e) : e;
}

static struct mint_math_node *raised(struct parser *p, struct mint_math_node *a)
{
    const char *s = p->v[p->at++].num->s;
    if (strlen(s) > 6 || (!s[1] && (*s == '-' || *s == '+')))
        return fail(p, "unreadable: an exponent");
    return mint_math_pow(p->m, a, mint_math_int(p->m, strtol(s, NULL, 10), 1));
}

static struct mint_math_node *power(struct parser *p)
{
    if (++p->depth > MINT_MATH_DEPTH)
        return fail(p, "undecided: brackets nested too deeply");
    struct mint_math_node *a = primary(p), *done;
    for (int marks = 0, more = 1; a && more; marks++) {
        if (marks > POSTFIXES)
            return fail(p, "undecided: too many exponents");
        switch (type(p)) {
        case '!':
            p->at++;
            a = scalar(p, a);
            a = type(p) == '!' ? fail(p, "unreadable: a double factorial")
                               : (a ? mint_math_fn(p->m, FN_FACT, &a, 1) : NULL);
            break;
        case '^':
            p->at++;
            if (!(a = scalar(p, a)))
                break;
            struct mint_math_node *e = exponent(p, a, &done);
            a = done ? done : mint_math_pow(p->m, a, e);
            /* x^a^b is x^(a^b), which exponent has read; x^{a}^b is not mathematics */
            if (!done && a && type(p) == '^')
                a = fail(p, "unreadable: two exponents");
            break;
        case MT_SUP:
            a = scalar(p, a) ? raised(p, a) : NULL;
            break;
        case MT_DEG: /* f \circ g is no angle */
            if (named(&p->v[p->at], "\\circ") && a->kind != MN_NUM)
                return fail(p, "unreadable: a composition");
            p->at++;
            a = scalar(p, a) ? degree(p, a) : NULL;
            break;
        default:
            more = 0;
        }
    }
    p->depth--;
    return a;
}

static struct mint_math_node *signed_power(struct parser *p)
{
    bool minus = false;
    while (type(p) == '-' || type(p) == '+')
        minus ^= p->v[p->at++].type == '-';
    struct mint_math_node *a = power(p);
    return minus ? mint_math_neg(p->m, scalar(p, a)) : a;
}

/* The letter x between two numbers: 3 x 10^5. */
static bool letter_times(const struct parser *p)
{
    const struct mint_math_tok *t = &p->v[p->at];
    if (type(p) != MT_VAR || t->n != 1 || *t->s != 'x' || !p->at ||
        p->v[p->at - 1].type != MT_NUM || type_at(p, 1) != MT_NUM)
        return false;
    return (named(&t[1], "10") && type_at(p, 2) == '^') || (t->space && t[1].space);
}

static struct mint_math_node *term(struct parser *p)
{
    struct list l = {0};
    struct mint_math_node *a = power(p);
    push(p, &l, a);
    while (a) {
        bool divide = type(p) == '/';
        if (divide || type(p) == '*' || letter_times(p)) {
            p->at++;
            a = signed_power(p);
        } else if (starts_primary(p, type(p))) {
            if (type(p) == MT_NUM && p->v[p->at - 1].type == MT_NUM)
                return fail(p, "unreadable: two numbers side by side");
            a = power(p);
        } else {
            break;
        }
        a = scalar(p, a);
        if (a && divide)
            a = mint_math_pow(p->m, a, mint_math_int(p->m, -1, 1));
        push(p, &l, a);
    }
    if (!a || !(l.n == 1 || scalar(p, l.v[0])))
        return NULL;
    return l.n == 1 ? a : mint_math_mul(p->m, l.v, l.n);
}

static struct mint_math_node *sum(struct parser *p)
{
    if (++p->depth > MINT_MATH_DEPTH)
        return fail(p, "undecided: brackets nested too deeply");
    struct list l = {0};
    bool first = true, minus;
    for (;; first = false) {
        int t = type(p);
        bool sign = t == '+' || t == '-' || t == MT_PM || t == MT_MP;
        if (!first && !sign)
            break;
        minus = t == '-' || (t == MT_PM && p->pm < 0) || (t == MT_MP && p->pm > 0);
        p->at += sign;
        while (type(p) == '-' || type(p) == '+') /* 3 - -4 */
            minus ^= p->v[p->at++].type == '-';
        struct mint_math_node *a = term(p);
        if (minus)
            a = a && a->kind == MN_INF ? mint_math_neg(p->m, a) : mint_math_neg(p->m, scalar(p, a));
        if (!a)
            return NULL;
        push(p, &l, a);
    }
    p->depth--;
    if (l.n == 1)
        return l.v[0];
    for (unsigned i = 0; i < l.n; i++) {
        if (!scalar(p, l.v[i]))
            return NULL;
    }
    return mint_math_add(p->m, l.v, l.n);
}

static struct mint_math_node *value(struct parser *p)
{
    struct mint_math_node *a = sum(p);
    if (!a || (type(p) != MT_CUP && type(p) != ':'))
        return a;
    int sep = type(p);
    struct list l = {0};
    push(p, &l, a);
    while (take(p, sep)) {
        if (!(a = sum(p)))
            return NULL;
        push(p, &l, a);
        if (l.n > MINT_MATH_MEMBERS)
            return fail(p, "undecided: too many members");
    }
    return mint_math_node(p->m, sep == ':' ? MN_RATIO : MN_UNION, l.v, l.n);
}

struct mint_math_node *mint_math_parse(struct mint_math *m, const struct mint_math_tok *v, size_t n,
                                       int pm)
{
    struct parser p = {.m = m, .v = v, .n = n, .pm = pm};
    if (!mint_math_pay(m, n / 8))
        return NULL;
    struct mint_math_node *t = value(&p);
    if (t && p.at < n)
        return fail(&p, "unreadable: something is left over");
    return t;
}

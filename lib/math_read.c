/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "math_parse.h"
#include "math_poly.h"
#include "math_read.h"

enum { LABEL_TOKENS = 24, PARTS = 16 };

struct range {
    const struct mint_math_tok *v;
    size_t n;
};

static bool is(const struct mint_math_tok *t, const char *word)
{
    size_t n = strlen(word);
    if (t->n != n)
        return false;
    for (size_t i = 0; i < n; i++) {
        char c = t->s[i];
        if ((c >= 'A' && c <= 'Z' ? c + 32 : c) != word[i])
            return false;
    }
    return true;
}

static bool is_any(const struct mint_math_tok *t, const char *const *list, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (is(t, list[i]))
            return true;
    }
    return false;
}

static int step(int type)
{
    switch (type) {
    case '(':
    case '[':
    case '{':
    case MT_LSET:
    case MT_LANGLE:
    case MT_LFLOOR:
    case MT_LCEIL:
    case MT_BEGIN:
        return 1;
    case ')':
    case ']':
    case '}':
    case MT_RSET:
    case MT_RANGLE:
    case MT_RFLOOR:
    case MT_RCEIL:
    case MT_ENDENV:
        return -1;
    default:
        return 0;
    }
}

static struct range trim(struct range r)
{
    while (r.n && (r.v[0].type == '*' || r.v[0].type == ':'))
        r.v++, r.n--;
    while (r.n &&
           (r.v[r.n - 1].type == '.' || (r.v[r.n - 1].type == '*' && *r.v[r.n - 1].s == '*') ||
            r.v[r.n - 1].type == ',' || r.v[r.n - 1].type == ';'))
        r.n--;
    return r;
}

/* --- multiple choice */

static bool letter(const struct mint_math_tok *t, bool capital)
{
    return t->type == MT_VAR && t->n == 1 &&
           ((*t->s >= 'A' && *t->s <= 'J') || (!capital && *t->s >= 'a' && *t->s <= 'j'));
}

static bool mark(int type)
{
    return type == ')' || type == ']' || type == '.' || type == ':';
}

/* The letter of "(C)", "C.", "C) 24": 0 if there is none, or more than one. */
static char choice(struct range r)
{
    static const char *const names[] = {"option", "choice", "answer", "letter"};
    if (r.n > 1 && r.v[0].type == MT_WORD && is_any(&r.v[0], names, MINT_ARRAY_LEN(names)))
        r.v++, r.n--;
    size_t open = r.n && (r.v[0].type == '(' || r.v[0].type == '['), at = open + 1;
    if (r.n < at || !letter(&r.v[open], false))
        return 0;
    char c = *r.v[open].s;
    bool marked = false;
    while (at < r.n && mark(r.v[at].type)) {
        marked |= true;
        at++;
    }
    if (open && !marked)
        return 0;
    if (at < r.n) {
        if (!marked || !letter(&r.v[open], true) || r.v[at].type == MT_AND || r.v[at].type == ',' ||
            r.v[at].type == '/')
            return 0;
        for (size_t i = at; i < r.n; i++) {
            if (letter(&r.v[i], true) && i + 1 < r.n && mark(r.v[i + 1].type))
                return 0;
            if (r.v[i].type == MT_AND && i + 1 < r.n && letter(&r.v[i + 1], true))
                return 0;
        }
    }
    return (char)(c >= 'a' ? c - 32 : c);
}

/* --- prose around an answer */

static bool starts_value(const struct mint_math_tok *t)
{
    switch (t->type) {
    case MT_NUM:
    case MT_HALF:
    case MT_FRAC:
    case MT_SQRT:
    case MT_PI:
    case MT_PM:
    case '-':
    case '(':
    case '[':
    case MT_LSET:
        return true;
    case MT_VAR:
        return t[1].type != MT_WORD;
    default:
        return false;
    }
}

/* Another answer in the words behind one ("5, or perhaps 6", "5 if n is even and 6 if not"), or
 * that it is none ("5 is not right"). */
static bool hedges(const struct mint_math_tok *v, size_t n)
{
    static const char *const words[] = {"maybe",  "perhaps", "possibly", "alternatively", "unless",
                                        "either", "could",   "might",    "otherwise"};
    static const char *const cases[] = {"if", "when", "whenever", "otherwise", "else"};
    static const char *const turned[] = {"not", "wrong", "incorrect", "impossible", "false"};
    bool hedge = false, either = false, value = false, condition = false;
    if (n > 1 && v[0].type == MT_WORD &&
        (is(&v[0], "isn't") || (is(&v[0], "is") && is_any(&v[1], turned, MINT_ARRAY_LEN(turned)))))
        return true;
    if (n > 1 && is(&v[0], "\xe2\x80\xa6") && starts_value(&v[1])) /* 5 ... 8 */
        return true;
    for (size_t i = 0; i < n; i++) {
        bool word = v[i].type == MT_WORD;
        bool other = v[i].type == MT_NUM || v[i].type == MT_FRAC || letter(&v[i], true);
        either |= v[i].type == MT_AND && is(&v[i], "or");
        hedge |= word && is_any(&v[i], words, MINT_ARRAY_LEN(words));
        bool other_case = word && is_any(&v[i], cases, MINT_ARRAY_LEN(cases));
        hedge |= other_case && (value || condition);
        condition |= other_case;
        value |= other;
        if (either && other)
            return true;
    }
    return hedge && value;
}

/* Where the words behind the answer begin; r.n if there are none. */
static size_t prose(struct range r)
{
    static const char *const causes[] = {"because", "since", "as", "so", "which", "where"};
    static const char *const ends[] = {"because", "not", "but", "if", "unless", "is", "otherwise"};
    int depth = 0;
    for (size_t i = 0; i < r.n; i++) {
        const struct mint_math_tok *t = &r.v[i];
        depth += step(t->type);
        if (depth > 0)
            continue;
        bool word = t->type == MT_WORD && !t->text;
        size_t skip = t->type == ',' && i + 1 < r.n ? 1 : 0;
        skip += skip && i + 2 < r.n && r.v[i + 1].type == MT_AND;
        if ((skip || t->type == MT_AND) && i && i + 1 < r.n) {
            const struct mint_math_tok *next = &r.v[i + MINT_MAX(skip, (size_t)1)];
            if ((next->type == MT_WORD && !next->text) || next->type == MT_PERCENT_WORD)
                return i;
        }
        if (!word)
            continue;
        if (i == 0)
            return r.n;
        if (i == 1 && r.v[0].type == MT_VAR && !is_any(t, causes, MINT_ARRAY_LEN(causes)))
            return r.n;
        if (!mint_math_value_end(&r.v[i - 1]))
            return i;
        if (mint_math_turns(t) && !is_any(t, ends, MINT_ARRAY_LEN(ends))) /* 5 squared */
            return r.n;
        size_t end = i;
        bool unit = true;
        while (end < r.n && end < i + 6 &&
               (r.v[end].type == MT_WORD || r.v[end].type == '/' || r.v[end].type == '^' ||
                r.v[end].type == MT_SUP || (r.v[end].type == MT_NUM && r.v[end - 1].type == '^'))) {
            unit = unit && (r.v[end].type != MT_WORD || mint_math_unit_word(r.v, end));
            end++;
        }
        bool more = end + 1 < r.n && (r.v[end].type == MT_AND || r.v[end].type == ',') &&
                    starts_value(&r.v[end + 1]);
        if (!unit || (!more && end < r.n && end > i + 3))
            return i;
        if (!more)
            return end;
        i = end;
    }
    return r.n;
}

static struct range phrase_answer(struct range r, bool *hedged)
{
    static const char *const fillers[] = {"exactly", "just",  "simply",    "therefore", "thus",
                                          "indeed",  "equal", "to",        "given",     "by",
                                          "clearly", "then",  "definitely"};
    while (r.n > 1 && (r.v[0].type == ':' || (r.v[0].type == MT_WORD &&
                                              is_any(&r.v[0], fillers, MINT_ARRAY_LEN(fillers)))))
        r.v++, r.n--;
    size_t end = prose(r);
    *hedged = hedges(r.v + end, r.n - end);
    r.n = end;
    return r;
}

/* --- names and sides */

/* Is it a name, such as x, f(2), \angle ABC, m+n, (x,y)? Digits only as arguments and subscripts.
 */
static bool is_label(struct range r)
{
    int depth = 0;
    bool any = false, after_sub = false;
    if (r.n == 0 || r.n > LABEL_TOKENS)
        return false;
    for (size_t i = 0; i < r.n; i++) {
        int t = r.v[i].type;
        depth += step(t);
        switch (t) {
        case MT_WORD:
            if (mint_math_turns(&r.v[i])) /* "not x" */
                return false;
            any = true;
            break;
        case MT_VAR:
        case MT_ANGLE:
            any = true;
            break;
        case MT_NUM:
            if (!depth && !after_sub)
                return false;
            break;
        case '+':
        case '-':
        case '*':
        case '/':
            if (i == 0 || i + 1 == r.n)
                return false;
            break;
        case '(':
        case ')':
        case '{':
        case '}':
        case ',':
        case '_':
        case '\'':
        case MT_SUB:
        case MT_CUP:
        case '|':
            break;
        default:
            return false;
        }
        after_sub = t == '_';
    }
    return any && depth == 0;
}

static const char *spelled(struct mint_math *m, struct range r)
{
    struct mint_buf b = MINT_BUF_INIT;
    mint_buf_reserve(&b, 1);
    mint_math_spell(r.v, r.n, false, &b);
    const char *s = mint_arena_strndup(&m->arena, b.data ? b.data : "", b.len);
    mint_buf_release(&b);
    return s;
}

/* A failed attempt at reading something that need not be readable leaves no reason. */
static struct mint_math_node *try_parse(struct mint_math *m, struct range r)
{
    const char *reason = m->reason;
    struct mint_math_node *t = mint_math_parse(m, r.v, r.n, 1);
    if (!t && m->steps > 0)
        m->reason = reason;
    return t;
}

struct sides {
    struct range part[PARTS];
    int rel[PARTS]; /* between part[i] and part[i+1] */
    size_t n;
};

static bool relation(int t)
{
    return t == '=' || t == '<' || t == '>' || t == MT_LE || t == MT_GE || t == MT_NE ||
           t == MT_APPROX || t == MT_IN;
}

static bool split(struct range r, struct sides *s)
{
    int depth = 0;
    size_t from = 0;
    s->n = 0;
    for (size_t i = 0; i <= r.n; i++) {
        depth += i < r.n ? step(r.v[i].type) : 0;
        if (i < r.n && (depth > 0 || !relation(r.v[i].type)))
            continue;
        if (s->n == PARTS)
            return false;
        s->part[s->n] = trim((struct range){r.v + from, i - from});
        s->rel[s->n++] = i < r.n ? r.v[i].type : 0;
        from = i + 1;
    }
    return true;
}

/* --- one member */

struct reader {
    struct mint_math *m;
    struct mint_math_member *v;
    size_t n, cap;
    bool failed;
};

static void member(struct reader *k, const struct mint_math_member *x)
{
    if (k->n == MINT_MATH_MEMBERS) {
        mint_math_why(k->m, "undecided: too many members");
        k->failed = true;
        return;
    }
    if (k->n == k->cap) {
        size_t cap = k->cap ? 2 * k->cap : 4;
        struct mint_math_member *v = mint_arena_alloc(&k->m->arena, cap * sizeof(*v));
        if (k->n)
            memcpy(v, k->v, k->n * sizeof(*v));
        k->v = v;
        k->cap = cap;
    }
    k->v[k->n++] = *x;
}

/* Unit, percent sign and value of r: the fields of *x. pm as in mint_math_parse. */
static bool measure(struct mint_math *m, struct range r, int pm, struct mint_math_member *x)
{
    long scale;
    r = trim(r);
    x->unit = mint_math_take_unit(m, r.v, &r.n, &scale);
    if (r.n > 1 && r.v[r.n - 1].type == MT_VAR && r.v[r.n - 1].n == 1 &&
        strchr("CFK", *r.v[r.n - 1].s) &&
        (r.v[r.n - 2].type == MT_DEG ||
         (r.v[r.n - 2].type == '}' && r.n > 3 && r.v[r.n - 3].type == MT_DEG)))
        r.n--; /* 90 degrees Celsius */
    if (r.n && (r.v[r.n - 1].type == '%' || r.v[r.n - 1].type == MT_PERCENT_WORD)) {
        x->percent = true;
        r.n--;
    }
    x->value = mint_math_parse(m, r.v, r.n, pm);
    if (x->value && scale != 1) {
        struct mint_math_node *pair[2] = {x->value, mint_math_int(m, scale, 1)};
        if (x->value->kind >= MN_INF)
            return mint_math_why(m, "unreadable: a unit behind what is no number") != NULL;
        x->value = mint_math_mul(m, pair, 2);
    }
    return x->value != NULL;
}

static void value(struct reader *k, struct range r, struct mint_math_member x)
{
    size_t signs = 0;
    for (size_t i = 0; i < r.n; i++)
        signs += r.v[i].type == MT_PM;
    if (signs > 1) {
        mint_math_why(k->m, "unreadable: several signs that may be plus or minus");
        k->failed = true;
        return;
    }
    for (int pm = 1; pm >= (signs ? -1 : 1); pm -= 2) {
        if (!measure(k->m, r, pm, &x)) {
            k->failed = true;
            return;
        }
        member(k, &x);
    }
}

static bool refuse(struct reader *k, const char *why)
{
    mint_math_why(k->m, why);
    k->failed = true;
    return false;
}

static bool less(int rel)
{
    return rel == '<' || rel == MT_LE;
}

static bool inequality(int rel)
{
    return less(rel) || rel == '>' || rel == MT_GE;
}

/* 2 < x <= 5, x > 3, 3 < x: an interval, labelled x. */
static bool interval(struct reader *k, const struct sides *s)
{
    struct mint_math *m = k->m;
    struct mint_math_node *end[2], *inf = mint_math_node(m, MN_INF, NULL, 0);
    bool down = !less(s->rel[0]); /* 5 > x > 2 */
    size_t name = s->n == 3 ? 1 : is_label(s->part[0]) ? 0 : 1;
    struct mint_math_member x = {0};
    inf->fn = 1;
    if (s->n > 3 || !is_label(s->part[name]) || (s->n == 3 && less(s->rel[1]) != less(s->rel[0])))
        return refuse(k, "unreadable: an inequality that is no interval");
    x.label = spelled(m, s->part[name]);
    int rel[2] = {0, 0}; /* at the lower and the upper end */
    if (s->n == 3) {
        end[0] = mint_math_parse(m, s->part[down ? 2 : 0].v, s->part[down ? 2 : 0].n, 1);
        end[1] = mint_math_parse(m, s->part[down ? 0 : 2].v, s->part[down ? 0 : 2].n, 1);
        rel[0] = s->rel[down ? 1 : 0];
        rel[1] = s->rel[down ? 0 : 1];
    } else {
        struct mint_math_node *bound =
            mint_math_parse(m, s->part[1 - name].v, s->part[1 - name].n, 1);
        bool upper = (name == 0) == less(s->rel[0]);
        end[upper] = bound;
        end[!upper] = upper ? mint_math_neg(m, inf) : inf;
        rel[upper] = s->rel[0];
    }
    if (!end[0] || !end[1])
        return refuse(k, "unreadable: an inequality");
    x.value = mint_math_node(m, MN_TUPLE, end, 2);
    x.value->open = rel[0] == MT_LE || rel[0] == MT_GE ? '[' : '(';
    x.value->close = rel[1] == MT_LE || rel[1] == MT_GE ? ']' : ')';
    member(k, &x);
    return true;
}

/* Is it a number (or would be, were it computed) that is certainly not equal to the last part? */
static bool contradicts(struct mint_math *m, struct range part, const struct mint_math_member *last)
{
    struct mint_math_node *t = try_parse(m, part);
    if (!t || last->unit || last->percent || t->kind != MN_NUM || last->value->kind != MN_NUM)
        return false;
    return !mpq_equal(t->q, last->value->q);
}

/* Does a sum, an integral or the like start here, which what follows the = is the value of? */
static bool to_be_computed(const struct mint_math_tok *t)
{
    static const char *const names[] = {"\\sum",  "\\prod", "\\int", "\\iint",
                                        "\\oint", "\\lim",  "\\det"};
    return (t->type == MT_BAD && is_any(t, names, MINT_ARRAY_LEN(names))) || t->type == MT_BEGIN ||
           t->type == MT_FN;
}

static bool equation(struct reader *k, const struct sides *s)
{
    struct mint_math *m = k->m;
    struct mint_math_member x = {0};
    size_t last = s->n - 1;
    const struct range *first = &s->part[0];
    if (is_label(*first)) {
        x.label = spelled(m, *first);
        x.left = try_parse(m, *first);
    } else if (s->n == 2 && is_label(s->part[1])) {
        struct sides swapped = {.part = {s->part[1], s->part[0]}, .rel = {'=', 0}, .n = 2};
        return equation(k, &swapped);
    } else if (s->n == 2) {
        x.left = try_parse(m, *first);
        x.equation = true;
        if (!x.left && m->steps <= 0)
            return refuse(k, "undecided: too much to compute");
        if (!x.left && !to_be_computed(&first->v[0]))
            return refuse(k, "unreadable: the left side of an equation");
        if (!x.left)
            x.equation = false, x.label = spelled(m, *first);
    }
    size_t before = k->n;
    value(k, s->part[last], x);
    if (k->failed)
        return false;
    /* 2 + 3 = 5 says 5; 0 = x - 5 is an equation */
    for (size_t i = before; i < k->n; i++) {
        if (k->v[i].equation && k->v[i].left && k->v[i].left->kind == MN_NUM &&
            k->v[i].value->kind == MN_NUM)
            k->v[i].equation = false, k->v[i].left = NULL;
    }
    for (size_t i = 0; i < last; i++) {
        if (k->n > before && contradicts(m, s->part[i], &k->v[before]))
            return refuse(k, "the sides of the equation differ");
    }
    return true;
}

static bool one(struct reader *k, struct range r)
{
    struct sides s;
    r = trim(r);
    if (!split(r, &s))
        return refuse(k, "undecided: too many relations");
    for (size_t i = 0; i + 1 < s.n; i++) {
        if (s.rel[i] != MT_APPROX)
            continue;
        /* A of A ~ B; but x ~ 5 gives x, and ~ 5 is 5 */
        if (s.part[i].n == 0 && i == 0)
            return one(k, s.part[s.n - 1]);
        if (i == 0 && is_label(s.part[0]))
            s.rel[0] = '=';
        else
            s.n = i + 1;
    }
    for (size_t i = 0; i < s.n; i++) {
        if (s.part[i].n == 0)
            return refuse(k,
                          s.n == 1 ? "unreadable: nothing there" : "unreadable: a side is empty");
    }
    if (s.n == 1) {
        value(k, s.part[0], (struct mint_math_member){0});
        return !k->failed;
    }
    bool all_equal = true, all_unequal = true;
    for (size_t i = 0; i + 1 < s.n; i++) {
        all_equal = all_equal && s.rel[i] == '=';
        all_unequal = all_unequal && inequality(s.rel[i]);
    }
    if (all_equal)
        return equation(k, &s);
    if (all_unequal)
        return interval(k, &s);
    if (s.n == 2 && s.rel[0] == MT_IN && is_label(s.part[0])) {
        value(k, s.part[1], (struct mint_math_member){.label = spelled(k->m, s.part[0])});
        return !k->failed;
    }
    return refuse(k, "unreadable: relations of several kinds");
}

/* --- all of it */

static bool separator(int type)
{
    return type == ',' || type == ';' || type == MT_AND;
}

static void members(struct reader *k, struct range r)
{
    int depth = 0;
    size_t from = 0;
    for (size_t i = 0; i <= r.n && !k->failed; i++) {
        depth += i < r.n ? step(r.v[i].type) : 0;
        if (i < r.n && (depth > 0 || !separator(r.v[i].type)))
            continue;
        one(k, (struct range){r.v + from, i - from});
        from = i + 1;
        if (i + 1 < r.n && r.v[i].type == ',' && r.v[i + 1].type == MT_AND)
            from = ++i + 1;
    }
}

/* Words alone: nothing to compute. A short run of letters such as xy may be a product. */
static bool only_words(struct range r)
{
    bool any = false;
    for (size_t i = 0; i < r.n; i++) {
        if (r.v[i].type == MT_WORD)
            any = true;
        else if (r.v[i].type != MT_VAR && r.v[i].type != MT_AND && r.v[i].type != '-' &&
                 r.v[i].type != '\'' && r.v[i].type != '.')
            return false;
    }
    if (any && r.n == 1 && r.v[0].n <= 3 && !r.v[0].text) {
        bool product = true;
        for (size_t i = 0; i < r.v[0].n; i++)
            product = product && !strchr(r.v[0].n == 2 ? "eiouEIOU" : "aeiouAEIOU", r.v[0].s[i]);
        return !product;
    }
    return any;
}

/* One set, and not empty: its members are read as those of a list are. */
static bool in_braces(struct range r)
{
    int depth = 0;
    if (r.n < 3 || r.v[0].type != MT_LSET || r.v[r.n - 1].type != MT_RSET)
        return false;
    for (size_t i = 0; i + 1 < r.n; i++) {
        depth += step(r.v[i].type);
        if (depth == 0)
            return false;
    }
    return true;
}

static void unfold(struct mint_math *m, struct mint_math_reading *out)
{
    struct mint_math_node *t = out->n == 1 ? out->v[0].value : NULL;
    if (!t || (t->kind != MN_SET && t->kind != MN_UNION) || t->n == 0)
        return;
    struct mint_math_member *v = mint_arena_alloc(&m->arena, t->n * sizeof(*v));
    for (unsigned i = 0; i < t->n; i++) {
        v[i] = out->v[0];
        v[i].value = t->ch[i];
    }
    out->v = v;
    out->n = t->n;
    out->set = true;
}

void mint_math_read(struct mint_math *m, const char *s, size_t n, bool phrase,
                    struct mint_math_reading *out)
{
    *out = (struct mint_math_reading){0};
    const char *before = m->reason;
    m->reason = NULL;
    if (mint_math_lex(m, s, n, &out->toks)) {
        struct range r = {out->toks.v, out->toks.n};
        if (phrase)
            r = phrase_answer(r, &out->hedged);
        out->choice = choice(r);
        r = trim(r);
        out->toks = (struct mint_math_toks){r.v, r.n};
        out->words = only_words(r);
        struct reader k = {.m = m};
        if (out->words)
            mint_math_why(m, "words");
        else if (in_braces(r))
            members(&k, (struct range){r.v + 1, r.n - 2});
        else if (!out->choice || r.n == 1 || r.n == 3)
            members(&k, r);
        if (!k.failed && k.n) {
            out->v = k.v;
            out->n = k.n;
            out->set = in_braces(r);
            if (!out->set) /* {{1, 2}} is not {1, 2} */
                unfold(m, out);
        }
    }
    out->why = m->reason ? m->reason : "unreadable";
    m->reason = before;
}

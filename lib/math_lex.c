/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "math_lex.h"
#include "score.h"

enum group { GROUP, HIDDEN, TEXT_GROUP, TEXT_HIDDEN };
enum { GROUPS = 256 };

struct lexer {
    struct mint_math *m;
    const char *s;
    size_t n, at;
    struct mint_math_tok *v;
    size_t count, cap;
    unsigned char group[GROUPS];
    int groups, text; /* open braces; those of text among them */
    int brackets;     /* open ( [ \{ */
    bool loose;       /* a comma with a blank behind it: commas without one may part thousands */
    char *digits;     /* room for those of all numbers */
    bool space, failed;
    bool quoted; /* behind a single quote that opens */
};

static bool digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool alpha(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

static char peek(const struct lexer *x, size_t ahead)
{
    return x->at + ahead < x->n ? x->s[x->at + ahead] : '\0';
}

static struct mint_math_tok *emit(struct lexer *x, int type, const char *s, size_t n)
{
    if (x->count + 1 >= x->cap) {
        size_t cap = x->cap ? 2 * x->cap : 64;
        struct mint_math_tok *v = mint_arena_alloc(&x->m->arena, cap * sizeof(*v));
        if (x->count)
            memcpy(v, x->v, x->count * sizeof(*v));
        x->v = v;
        x->cap = cap;
    }
    if (x->count >= MINT_MATH_TOKENS) {
        mint_math_why(x->m, "undecided: a formula that is too long");
        x->failed = true;
        x->count--;
    }
    struct mint_math_tok *t = &x->v[x->count++];
    *t = (struct mint_math_tok){
        .type = type, .space = x->space, .text = x->text > 0, .s = s, .n = n};
    x->space = false;
    return t;
}

static int last_type(const struct lexer *x)
{
    return x->count ? x->v[x->count - 1].type : MT_END;
}

/* Code point at s[at], its bytes in *len; U+FFFD for what is not UTF-8. */
static uint32_t code_point(const struct lexer *x, size_t at, size_t *len)
{
    const unsigned char *u = (const unsigned char *)x->s + at;
    size_t left = x->n - at, need = u[0] >= 0xf0 ? 4 : u[0] >= 0xe0 ? 3 : u[0] >= 0xc0 ? 2 : 1;
    *len = 1;
    if (u[0] < 0x80)
        return u[0];
    if (need == 1 || need > left)
        return 0xfffd;
    uint32_t c = u[0] & (0x7fu >> need);
    for (size_t i = 1; i < need; i++) {
        if ((u[i] & 0xc0) != 0x80)
            return 0xfffd;
        c = c << 6 | (u[i] & 0x3fu);
    }
    *len = need;
    return c;
}

/* --- numbers */

static size_t digits_at(const struct lexer *x, size_t at)
{
    size_t n = 0;
    while (at + n < x->n && digit(x->s[at + n]))
        n++;
    return n;
}

static bool text_at(const struct lexer *x, size_t at, const char *what)
{
    size_t n = strlen(what);
    return at + n <= x->n && !memcmp(x->s + at, what, n);
}

/* Length of what parts thousands at s[at], 0 for nothing. */
static size_t separator(const struct lexer *x, size_t at)
{
    static const char *const all[] = {"{,}", ",\\! ", ",\\!",         "\\,",         "\\;",
                                      "\\:", "\\ ",   "\xe2\x80\x89", "\xe2\x80\xaf"};
    for (size_t i = 0; i < MINT_ARRAY_LEN(all); i++) {
        if (text_at(x, at, all[i]))
            return strlen(all[i]);
    }
    if (at < x->n && x->s[at] == ',' && (x->brackets == 0 || x->loose))
        return 1;
    return 0;
}

/* The repeating part: \overline{142857}. Its digits' place, 0 if there is none. */
static size_t repeating(const struct lexer *x, size_t at, size_t *n, size_t *end)
{
    static const char *const all[] = {"\\overline{", "\\bar{", "\\dot{", "\\overline ", "\\bar "};
    for (size_t i = 0; i < MINT_ARRAY_LEN(all); i++) {
        if (!text_at(x, at, all[i]))
            continue;
        size_t from = at + strlen(all[i]);
        bool brace = x->s[from - 1] == '{';
        *n = brace ? digits_at(x, from) : (size_t)(digits_at(x, from) > 0);
        if (!*n || (brace && !(from + *n < x->n && x->s[from + *n] == '}')))
            return 0;
        *end = from + *n + brace;
        return from;
    }
    return 0;
}

static void read_exponent(struct lexer *x, struct mint_math_digits *d)
{
    if (peek(x, 0) != 'e' && peek(x, 0) != 'E')
        return;
    size_t sign = peek(x, 1) == '-' || peek(x, 1) == '+', n = digits_at(x, x->at + 1 + sign);
    size_t end = x->at + 1 + sign + n;
    if (!n || (end < x->n && alpha(x->s[end])))
        return;
    int e = 0;
    for (size_t i = x->at + 1 + sign; i < end; i++)
        e = e > 1000000 ? e : e * 10 + (x->s[i] - '0');
    d->exponent = peek(x, 1) == '-' ? -e : e;
    d->plain = false;
    x->at = end;
}

static void lex_number(struct lexer *x)
{
    size_t start = x->at, n = digits_at(x, x->at), len = 0;
    struct mint_math_digits *d = mint_arena_alloc(&x->m->arena, sizeof(*d));
    char *out = x->digits;
    *d = (struct mint_math_digits){.s = out, .plain = true};
    memcpy(out, x->s + x->at, n);
    len = n;
    x->at += n;
    for (size_t sep; n >= 1 && n <= 3 && out[0] != '0' && (sep = separator(x, x->at)) &&
                     digits_at(x, x->at + sep) == 3;) {
        memcpy(out + len, x->s + x->at + sep, 3);
        len += 3;
        x->at += sep + 3;
        d->plain = false;
    }
    if (peek(x, 0) == '.') {
        size_t rn = 0, end = 0, f = digits_at(x, x->at + 1);
        size_t from = repeating(x, x->at + 1 + f, &rn, &end);
        if (f || from || !(peek(x, 1) == '.' || alpha(peek(x, 1))))
            x->at += 1 + f, d->plain = false;
        memcpy(out + len, x->s + x->at - f, f);
        d->fraction = (unsigned)f;
        len += f;
        if (from) {
            memcpy(out + len, x->s + from, rn);
            d->repeat = (unsigned)rn;
            len += rn;
            x->at = end;
        }
    }
    read_exponent(x, d);
    out[len] = '\0';
    x->digits += len + 1;
    d->n = (unsigned)len;
    emit(x, MT_NUM, x->s + start, x->at - start)->num = d;
}

/* --- words and commands */

static void open_group(struct lexer *x, bool text)
{
    static const int wants[] = {'^', '_', MT_FRAC, MT_BINOM, MT_SQRT};
    bool shown = false;
    for (size_t i = 0; i < MINT_ARRAY_LEN(wants); i++)
        shown |= last_type(x) == wants[i];
    if (x->groups == GROUPS) {
        mint_math_why(x->m, "undecided: brackets nested too deeply");
        x->failed = true;
        return;
    }
    if (shown)
        emit(x, '{', x->s + x->at, 1);
    x->group[x->groups++] =
        (unsigned char)(text ? (shown ? TEXT_GROUP : TEXT_HIDDEN) : (shown ? GROUP : HIDDEN));
    x->text += text;
}

static void brace(struct lexer *x, char c)
{
    if (c == '{') {
        if (x->groups == GROUPS) {
            mint_math_why(x->m, "undecided: brackets nested too deeply");
            x->failed = true;
            return;
        }
        x->group[x->groups++] = GROUP;
        emit(x, '{', x->s + x->at, 1);
        return;
    }
    int g = x->groups ? x->group[--x->groups] : GROUP;
    x->text -= g == TEXT_GROUP || g == TEXT_HIDDEN;
    if (g == GROUP || g == TEXT_GROUP)
        emit(x, '}', x->s + x->at, 1);
    else
        x->space = x->space || g == TEXT_HIDDEN;
}

static size_t skip_blanks(const struct lexer *x, size_t at)
{
    while (at < x->n && (x->s[at] == ' ' || x->s[at] == '\n' || x->s[at] == '\t'))
        at++;
    return at;
}

/* Behind {argument}, or where it is if there is none. */
static size_t skip_argument(const struct lexer *x, size_t at)
{
    size_t from = skip_blanks(x, at), depth = 0;
    if (from >= x->n || x->s[from] != '{')
        return at;
    for (size_t i = from; i < x->n; i++) {
        depth += x->s[i] == '{';
        if (x->s[i] == '}' && --depth == 0)
            return i + 1;
    }
    return x->n;
}

static void environment(struct lexer *x, bool begin)
{
    size_t from = skip_blanks(x, x->at), end = skip_argument(x, x->at);
    if (end == x->at || end < from + 2 || x->s[end - 1] != '}') {
        emit(x, MT_BAD, x->s + x->at, end - x->at);
        x->at = end;
        return;
    }
    emit(x, begin ? MT_BEGIN : MT_ENDENV, x->s + from + 1, end - from - 2);
    x->at = end;
    if (begin && text_at(x, from, "{array}"))
        x->at = skip_argument(x, x->at);
}

/* The command whose name is s[at..at+n); x->at is behind it. */
static void act(struct lexer *x, size_t start, const struct mint_math_symbol *k)
{
    size_t next;
    switch (k->act) {
    case ACT_TOKEN:
        if (k->type)
            emit(x, k->type, x->s + start, x->at - start)->fn = k->fn;
        else
            x->space = true;
        break;
    case ACT_VAR:
        emit(x, MT_VAR, x->s + start, x->at - start);
        break;
    case ACT_SPACE:
        x->space = true;
        break;
    case ACT_SKIP_DOT:
        next = skip_blanks(x, x->at);
        if (next < x->n && x->s[next] == '.')
            x->at = next + 1;
        break;
    case ACT_SKIP:
        break;
    case ACT_SKIP_ARG:
        x->at = skip_argument(x, x->at);
        break;
    case ACT_TEXT:
    case ACT_INNER:
        next = skip_blanks(x, x->at);
        if (next < x->n && x->s[next] == '{') {
            x->at = next;
            open_group(x, k->act == ACT_TEXT);
            x->at++;
        }
        break;
    case ACT_ENV:
        environment(x, k->name[0] == 'b');
        break;
    }
}

static void lex_command(struct lexer *x)
{
    size_t start = x->at++, n = 0;
    if (x->at == x->n) /* a blank was cut off behind it */
        return;
    while (alpha(peek(x, n)))
        n++;
    if (n == 0) {
        char c = peek(x, 0);
        n = 1;
        if (c == ' ' || c == '\n' || c == '\t') {
            x->at++;
            x->space = true;
            return;
        }
    }
    const struct mint_math_symbol *k = mint_math_command(x->s + x->at, n);
    x->at += n;
    if (k)
        act(x, start, k);
    else
        emit(x, MT_BAD, x->s + start, x->at - start);
    if (k && k->act == ACT_TOKEN && (k->type == MT_LSET || k->type == '(' || k->type == '['))
        x->brackets++;
    if (k && k->act == ACT_TOKEN && x->brackets &&
        (k->type == MT_RSET || k->type == ')' || k->type == ']'))
        x->brackets--;
}

/* A run of letters: a known name, one letter, or a word. */
static void lex_word(struct lexer *x)
{
    size_t start = x->at, len;
    while (x->at < x->n) {
        if (alpha(x->s[x->at]) || (x->s[x->at] == '\'' && x->at > start && alpha(peek(x, 1)))) {
            x->at++;
            continue;
        }
        if ((unsigned char)x->s[x->at] < 0x80 || mint_text_space(x->s + x->at, x->n - x->at))
            break;
        uint32_t c = code_point(x, x->at, &len);
        if (mint_math_unicode(c) || c == 0x3002 || (c >= 0xff01 && c <= 0xff5e))
            break;
        x->at += len;
    }
    const char *s = x->s + start;
    size_t n = x->at - start;
    const struct mint_math_symbol *k = n > 1 ? mint_math_plain_name(s, n) : NULL;
    if (k)
        emit(x, k->type, s, n)->fn = k->fn;
    else
        emit(x, n == 1 ? MT_VAR : MT_WORD, s, n);
}

static void one(struct lexer *x, int type, size_t n)
{
    emit(x, type, x->s + x->at, n);
    x->at += n;
}

/* "2^{-10}" in raised characters becomes one token, likewise lowered ones. */
static void raised(struct lexer *x, int type)
{
    size_t start = x->at, len;
    char text[32];
    size_t n = 0;
    while (x->at < x->n && n + 1 < sizeof(text)) {
        const struct mint_math_unicode *u = mint_math_unicode(code_point(x, x->at, &len));
        if (!u || u->type != type || (u->a > 9 && n))
            break;
        text[n++] = (char)(u->a > 9 ? u->a : '0' + u->a);
        x->at += len;
    }
    struct mint_math_digits *d = mint_arena_alloc(&x->m->arena, sizeof(*d));
    *d = (struct mint_math_digits){
        .s = mint_arena_strndup(&x->m->arena, text, n), .n = (unsigned)n, .plain = true};
    emit(x, type, x->s + start, x->at - start)->num = d;
}

static void lex_unicode(struct lexer *x)
{
    size_t len;
    uint32_t c = code_point(x, x->at, &len);
    if (c >= 0xff01 && c <= 0xff5e) { /* the wide forms of ASCII: one by one */
        char ascii = (char)(c - 0xff01 + 0x21);
        char *copy = mint_arena_strndup(&x->m->arena, &ascii, 1);
        if (digit(ascii) || alpha(ascii) || ascii == '\\' || ascii == '{' || ascii == '}') {
            one(x, MT_BAD, len);
            return;
        }
        emit(x, ascii, copy, 1);
        x->at += len;
        return;
    }
    const struct mint_math_unicode *u = mint_math_unicode(c);
    if (c == 0x3002) {
        one(x, '.', len);
    } else if (!u) {
        lex_word(x);
        if (x->count && x->v[x->count - 1].n == 0)
            x->at += len;
    } else if (u->type == 0) {
        x->at += len;
        x->space = true;
    } else if (u->type == MT_SUP || u->type == MT_SUB) {
        raised(x, u->type);
    } else if (u->type == MT_HALF) {
        struct mint_math_digits *d = mint_arena_alloc(&x->m->arena, sizeof(*d));
        *d = (struct mint_math_digits){.n = (unsigned)u->a, .fraction = (unsigned)u->b};
        emit(x, MT_HALF, x->s + x->at, len)->num = d;
        x->at += len;
    } else if (u->type == MT_VAR) {
        emit(x, MT_VAR, u->name, strlen(u->name));
        x->at += len;
    } else {
        one(x, u->type, len);
    }
}

/* May a prime (of f', of 5' for minutes or feet) stand here? */
static bool ends_value(const struct lexer *x)
{
    int t = last_type(x);
    return t == MT_VAR || t == MT_NUM || t == MT_DEG || t == ')';
}

static void lex_ascii(struct lexer *x, char c)
{
    char d = peek(x, 1);
    if (c == '*' && d == '*') { /* a power in programs, bold type around an answer */
        bool value =
            x->count && last_type(x) != '(' &&
            (digit(peek(x, 2)) || alpha(peek(x, 2)) || peek(x, 2) == '(' || peek(x, 2) == '-');
        if (value)
            one(x, '^', 2);
        else
            x->at += 2;
    } else if ((c == '<' || c == '>') && d == '=') {
        one(x, c == '<' ? MT_LE : MT_GE, 2);
    } else if (c == '!' && d == '=' && !(peek(x, 2) == ' ' && last_type(x) == MT_NUM)) {
        one(x, MT_NE, 2);
    } else if ((c == '=' || c == '-') && d == '>') {
        one(x, MT_BAD, 2);
    } else if (c == '$' || c == '"' || c == '`' || c == '~') {
        x->at++;
        x->space = true;
    } else if (c == '\'' && (x->space || x->quoted || !ends_value(x))) {
        x->quoted = !x->quoted;
        x->at++;
        x->space = true;
    } else if (c == '{' || c == '}') {
        brace(x, c);
        x->at++;
    } else if (c && strchr("+-*/^_()[],;:|!=<>%&'.", c)) {
        x->brackets += c == '(' || c == '[';
        x->brackets -= x->brackets && (c == ')' || c == ']');
        one(x, c, 1);
    } else {
        one(x, MT_BAD, 1);
    }
}

bool mint_math_lex(struct mint_math *m, const char *s, size_t n, struct mint_math_toks *out)
{
    static const struct mint_math_tok none = {0};
    *out = (struct mint_math_toks){&none, 0};
    if (n > MINT_MATH_TEXT) {
        mint_math_why(m, "undecided: an answer that is too long");
        return false;
    }
    struct lexer x = {.m = m, .s = s, .n = n};
    x.digits = mint_arena_alloc(&m->arena, 2 * n + 2);
    for (size_t i = 0; i + 1 < n; i++)
        x.loose |= s[i] == ',' && s[i + 1] == ' ';
    while (x.at < n && !x.failed) {
        size_t blank = mint_text_space(s + x.at, n - x.at);
        char c = s[x.at];
        if (blank) {
            x.at += blank;
            x.space = true;
        } else if (digit(c) || (c == '.' && digit(peek(&x, 1)))) {
            lex_number(&x);
        } else if (alpha(c)) {
            lex_word(&x);
        } else if (c == '\\') {
            lex_command(&x);
        } else if ((unsigned char)c >= 0x80) {
            lex_unicode(&x);
        } else {
            lex_ascii(&x, c);
        }
    }
    emit(&x, MT_END, s + n, 0);
    *out = (struct mint_math_toks){x.v, x.count - 1};
    return !x.failed;
}

void mint_math_spell(const struct mint_math_tok *v, size_t n, bool fold, struct mint_buf *out)
{
    for (size_t i = 0; i < n; i++) {
        bool word = v[i].type == MT_WORD || v[i].type == MT_VAR || v[i].type == MT_AND;
        if (i && word && v[i].space &&
            (v[i - 1].type == MT_WORD || v[i - 1].type == MT_VAR || v[i - 1].type == MT_AND))
            mint_buf_addc(out, ' ');
        if (v[i].type == MT_NUM) {
            /* two numbers side by side must not run together */
            if (i && v[i - 1].type == MT_NUM)
                mint_buf_addc(out, ' ');
            mint_buf_add(out, v[i].s, v[i].n);
            /* 1,234 is no list of 1 and 234 */
            if (!v[i].num->plain)
                mint_buf_addc(out, ' ');
        } else if (v[i].type == MT_FN && v[i].fn) {
            mint_buf_addf(out, "\\%d ", v[i].fn);
        } else if (v[i].type >= 256 && !word && v[i].type != MT_BAD && v[i].type != MT_BEGIN &&
                   v[i].type != MT_ANGLE && v[i].type != MT_AND && v[i].type != MT_ENDENV &&
                   !v[i].num) {
            mint_buf_addf(out, "#%d ", v[i].type);
        } else if (v[i].type < 256 && v[i].type > 0) {
            mint_buf_addc(out, (char)v[i].type);
        } else {
            mint_buf_add(out, v[i].s, v[i].n);
        }
    }
    for (size_t i = 0; fold && i < out->len; i++) {
        char c = out->data[i];
        out->data[i] = (char)(c >= 'A' && c <= 'Z' ? c + 32 : c);
    }
}

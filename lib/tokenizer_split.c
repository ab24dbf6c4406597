/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pre-tokenizers. A step splits each piece of the step before at the matches of one regular
 * expression.
 *
 * tokenizer.json is written for Oniguruma; PCRE2 reads its patterns the same way but for a few
 * things. \s is Unicode White_Space there, and in PCRE2 one character more (U+180E): it is
 * rewritten. What else could mean something different is refused by name.
 *
 * The patterns of the known families have a loop by hand beside them, for text in ASCII: it answers
 * only when no byte above 0x7f can take part in the match, and otherwise leaves the match to PCRE2.
 */
#include "tokenizer_impl.h"

#include <ctype.h>
#include <string.h>

static const char qwen_pattern[] = "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{"
                                   "N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*"
                                   "|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+";
static const char llama3_pattern[] =
    "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}"
    "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+";
static const char gpt2_pattern[] =
    "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+";

/* --- patterns. */
static int refuse(struct mint_err *err, const char *p, size_t n)
{
    return mint_fail(err, MINT_EMODEL, "\"%.*s\" in a regular expression is not supported",
                     (int)MINT_MIN(n, (size_t)8), p);
}

/* Behind a backslash at p[0]; *used: bytes with the backslash. */
static int translate_escape(const char *p, size_t n, size_t *used, struct mint_buf *out,
                            struct mint_err *err)
{
    char c = n > 1 ? p[1] : '\0';
    *used = 2;
    if (c == 's' || c == 'S') {
        mint_buf_adds(out, c == 's' ? "\\p{White_Space}" : "\\P{White_Space}");
        return 0;
    }
    if (c == 'u' && n >= 6) {
        *used = 6;
        mint_buf_addf(out, "\\x{%.4s}", p + 2);
        return 0;
    }
    if (c == '\0' || !(strchr("rntfdDpPx", c) || ispunct((unsigned char)c)))
        return refuse(err, p, n);
    if (strchr("pPx", c) && n > 2 && p[2] == '{') {
        const char *end = memchr(p, '}', n);
        if (!end)
            return refuse(err, p, n);
        *used = (size_t)(end - p) + 1;
    }
    mint_buf_add(out, p, *used);
    return 0;
}

/* Groups that mean the same in both. p is at "(?". */
static bool group_is_known(const char *p, size_t n)
{
    static const char *const known[] = {"(?:", "(?i:", "(?i)", "(?=", "(?!", "(?<=", "(?<!", "(?>"};
    for (size_t i = 0; i < MINT_ARRAY_LEN(known); i++)
        if (strlen(known[i]) <= n && memcmp(p, known[i], strlen(known[i])) == 0)
            return true;
    return false;
}

static int translate(const char *p, size_t n, struct mint_buf *out, struct mint_err *err)
{
    bool in_class = false;
    for (size_t i = 0, used = 1; i < n; i += used) {
        used = 1;
        if (p[i] == '\\') {
            if (translate_escape(p + i, n - i, &used, out, err))
                return -1;
            continue;
        }
        bool twin = i + 1 < n && p[i + 1] == p[i];
        bool odd = in_class ? p[i] == '[' || (p[i] == '&' && twin)
                            : p[i] == '^' || p[i] == '$' ||
                                  (p[i] == '(' && i + 1 < n && p[i + 1] == '?' &&
                                   !group_is_known(p + i, n - i)) ||
                                  (p[i] == '(' && i + 1 < n && p[i + 1] == '*') ||
                                  (p[i] == '}' && i + 1 < n && p[i + 1] == '+');
        if (odd || p[i] == '\0')
            return refuse(err, p + i, n - i);
        mint_buf_addc(out, p[i]);
        if (!in_class && p[i] == '[') {
            in_class = true;
            if (i + 1 < n && p[i + 1] == '^') {
                mint_buf_addc(out, '^');
                used = 2;
            }
        } else if (in_class && p[i] == ']') {
            in_class = false;
        }
    }
    return 0;
}

static enum tok_fast known_pattern(const char *p, size_t n)
{
    static const struct {
        const char *text;
        enum tok_fast fast;
    } known[] = {
        {qwen_pattern, TOK_FAST_QWEN},
        {llama3_pattern, TOK_FAST_LLAMA3},
        {gpt2_pattern, TOK_FAST_GPT2},
        {"\\p{N}", TOK_FAST_DIGIT},
    };
    for (size_t i = 0; i < MINT_ARRAY_LEN(known); i++)
        if (strlen(known[i].text) == n && memcmp(known[i].text, p, n) == 0)
            return known[i].fast;
    return TOK_FAST_NONE;
}

int tok_step_compile(struct tok_step *s, const char *pattern, size_t n, bool literal,
                     struct mint_err *err)
{
    struct mint_buf text = MINT_BUF_INIT;
    mint_buf_reserve(&text, n);
    if (literal)
        mint_buf_add(&text, pattern, n);
    else if (translate(pattern, n, &text, err)) {
        mint_buf_release(&text);
        return -1;
    }
    int code;
    PCRE2_SIZE at;
    pcre2_compile_context *ctx = pcre2_compile_context_create(NULL);
    pcre2_set_newline(ctx, PCRE2_NEWLINE_LF);
    pcre2_set_max_pattern_length(ctx, 1 << 16);
    uint32_t options = PCRE2_UTF | (literal ? PCRE2_LITERAL : PCRE2_UCP);
    s->re = pcre2_compile((PCRE2_SPTR)text.data, text.len, options, &code, &at, ctx);
    pcre2_compile_context_free(ctx);
    mint_buf_release(&text);
    if (!s->re) {
        PCRE2_UCHAR why[128] = "";
        pcre2_get_error_message(code, why, sizeof why);
        return mint_fail(err, MINT_EMODEL, "bad regular expression: %s", (const char *)why);
    }
    uint32_t empty = 1;
    pcre2_pattern_info(s->re, PCRE2_INFO_MATCHEMPTY, &empty);
    if (empty) {
        pcre2_code_free(s->re);
        s->re = NULL;
        return mint_fail(err, MINT_EMODEL,
                         "a regular expression that matches the empty text is not supported");
    }
    pcre2_jit_compile(s->re, PCRE2_JIT_COMPLETE); /* without it matching is slower, not different */
    s->fast = literal ? TOK_FAST_NONE : known_pattern(pattern, n);
    return 0;
}

/* --- by hand. */
enum {
    L = 1,
    N = 2,
    W = 4,
    NL = 8,
    O = 16,
    X = 32
}; /* letter, digit, white space, \r \n too, other, above 0x7f */

static inline unsigned class_of(unsigned char c)
{
    if (c >= 0x80)
        return X;
    if ((c | 0x20) >= 'a' && (c | 0x20) <= 'z')
        return L;
    if (c >= '0' && c <= '9')
        return N;
    if (c == '\n' || c == '\r')
        return W | NL;
    return c == ' ' || (c >= '\t' && c <= '\r') ? W : O;
}

/* Bytes from p[at] on whose class is in set; the end where the run stops. */
static size_t run(const unsigned char *p, size_t at, size_t n, unsigned set)
{
    while (at < n && class_of(p[at]) & set)
        at++;
    return at;
}

/* A run that stops at a byte above 0x7f may be longer. */
static bool open_end(const unsigned char *p, size_t at, size_t n)
{
    return at < n && p[at] >= 0x80;
}

/* 's 't 're 've 'm 'll 'd at p: its length, 0 if none. A byte above 0x7f behind the apostrophe
 * (long s) is left to what comes next: no loop goes over one. */
static size_t contraction(const unsigned char *p, size_t n, bool any_case)
{
    if (n < 2)
        return 0;
    unsigned char fold = any_case ? 0x20 : 0, a = p[1] | fold, b = n > 2 ? p[2] | fold : 0;
    if (a == 's' || a == 't' || a == 'm' || a == 'd')
        return 2;
    if (((a == 'r' || a == 'v') && b == 'e') || (a == 'l' && b == 'l'))
        return 3;
    return 0;
}

/* \s*[\r\n]+ (if newlines) | \s+(?!\S) | \s+ at white space. */
static size_t spaces(const unsigned char *p, size_t n, bool newlines)
{
    size_t end = run(p, 0, n, W);
    if (open_end(p, end, n))
        return 0;
    for (size_t i = end; newlines && i > 0; i--)
        if (class_of(p[i - 1]) & NL)
            return i;
    return end == n || end == 1 ? end : end - 1;
}

static size_t fast_qwen(const unsigned char *p, size_t n, size_t digits)
{
    unsigned c = class_of(p[0]);
    size_t end;
    if (p[0] == '\'') {
        end = contraction(p, n, true);
        if (end)
            return end;
    }
    if (c & N) {
        end = run(p, 1, MINT_MIN(n, digits), N);
        return end < digits && open_end(p, end, n) ? 0 : end;
    }
    if (!(c & (NL | X))) {
        if (c & ~L && open_end(p, 1, n))
            return 0;
        end = run(p, c & L ? 0 : 1, n, L);
        if (end > 1 || c & L)
            return open_end(p, end, n) ? 0 : end;
    }
    size_t from = p[0] == ' ' ? 1 : 0;
    end = run(p, from, n, O);
    if (c & O || end > from) {
        if (open_end(p, end, n))
            return 0;
        return run(p, end, n, NL);
    }
    return c & W ? spaces(p, n, true) : 0;
}

static size_t fast_gpt2(const unsigned char *p, size_t n)
{
    if (p[0] == '\'') {
        size_t end = contraction(p, n, false);
        if (end)
            return end;
    }
    size_t from = p[0] == ' ' ? 1 : 0;
    if (open_end(p, from, n))
        return 0;
    unsigned c = from < n ? class_of(p[from]) : W;
    if (c & (L | N | O)) {
        size_t end = run(p, from, n, c);
        return open_end(p, end, n) ? 0 : end;
    }
    return spaces(p, n, false);
}

size_t tok_fast_match(enum tok_fast kind, const char *s, size_t n)
{
    const unsigned char *p = (const unsigned char *)s;
    switch (kind) {
    case TOK_FAST_QWEN:
        return fast_qwen(p, n, 1);
    case TOK_FAST_LLAMA3:
        return fast_qwen(p, n, 3);
    case TOK_FAST_GPT2:
        return fast_gpt2(p, n);
    case TOK_FAST_DIGIT:
        return p[0] >= '0' && p[0] <= '9';
    case TOK_FAST_NONE:
        break;
    }
    return 0;
}

/* --- splitting. */

/* The next match in p[0..n) from *from on: 1 and its ends, 0, -1. p + *from is a character's
 * border. */
static int next_match(struct tok_splitter *s, const struct tok_step *step, const char *p, size_t n,
                      size_t *from, size_t *to, struct mint_err *err)
{
    if (!s->slow && step->fast) {
        size_t len = tok_fast_match(step->fast, p + *from, n - *from);
        if (len) {
            *to = *from + len;
            return 1;
        }
    }
    uint32_t options = PCRE2_NO_UTF_CHECK;
    int rc = pcre2_match(step->re, (PCRE2_SPTR)p, n, *from, options, s->md, s->ctx);
    if (rc == PCRE2_ERROR_JIT_STACKLIMIT)
        rc = pcre2_match(step->re, (PCRE2_SPTR)p, n, *from, options | PCRE2_NO_JIT, s->md, s->ctx);
    if (rc == PCRE2_ERROR_NOMATCH)
        return 0;
    if (rc < 0) {
        PCRE2_UCHAR why[128] = "";
        pcre2_get_error_message(rc, why, sizeof why);
        return mint_fail(err, MINT_EMODEL, "the tokenizer's regular expression gave up: %s",
                         (const char *)why);
    }
    const PCRE2_SIZE *ends = pcre2_get_ovector_pointer(s->md);
    *from = ends[0];
    *to = ends[1];
    if (*to <= *from)
        MINT_BUG("an empty match");
    return 1;
}

static int split_from(struct tok_splitter *s, int i, const char *p, size_t n, struct mint_err *err)
{
    if (n == 0)
        return 0;
    if (i == s->t->steps_n)
        return tok_bpe(s->work, p, n, s->out, err);
    const struct tok_step *step = &s->t->steps[i];
    size_t done = 0, from = 0, to = 0;
    for (int rc = 1; from < n;) {
        rc = next_match(s, step, p, n, &from, &to, err);
        if (rc < 0)
            return -1;
        if (rc == 0)
            break;
        if (!step->drop_gaps && split_from(s, i + 1, p + done, from - done, err))
            return -1;
        if (split_from(s, i + 1, p + from, to - from, err))
            return -1;
        done = from = to;
    }
    return step->drop_gaps ? 0 : split_from(s, i + 1, p + done, n - done, err);
}

int tok_split(struct tok_splitter *s, const char *p, size_t n, struct mint_err *err)
{
    return split_from(s, 0, p, n, err);
}

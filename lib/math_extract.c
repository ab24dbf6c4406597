/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "math_extract.h"
#include "score.h"

const char *const mint_math_rules[] = {
    "auto", "boxed", "hash", "phrase", "last-number", "first-number", "answer-line", "whole", NULL};

enum { LINE_CHARS = 2048 };

struct span {
    const char *s, *end;
};

static bool digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool alpha(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

static bool blank(char c)
{
    return c == ' ' || c == '\t' || c == '\n' || c == '\r' || c == '\f' || c == '\v';
}

static const char *find(const char *s, const char *end, const char *what)
{
    return memmem(s, (size_t)(end - s), what, strlen(what));
}

static const char *find_last(const char *s, const char *end, const char *what)
{
    const char *last = NULL;
    for (const char *p = s; (p = find(p, end, what)); p++)
        last = p;
    return last;
}

static bool starts(const char *s, const char *end, const char *what)
{
    size_t n = strlen(what);
    return (size_t)(end - s) >= n && !memcmp(s, what, n);
}

/* --- what counts of a response */

static struct span without_tail(struct span t)
{
    static const char *const ends[] = {"<|im_end|>", "<|endoftext|>", "<|im_start|>"};
    for (size_t i = 0; i < MINT_ARRAY_LEN(ends); i++) {
        const char *p = find(t.s, t.end, ends[i]);
        if (p)
            t.end = p;
    }
    return t;
}

static struct span without_thinking(struct span t)
{
    const char *p = find_last(t.s, t.end, "</think>");
    if (p)
        t.s = p + strlen("</think>");
    p = find(t.s, t.end, "<think>");
    if (p)
        t.end = p;
    return t;
}

/* A base model goes on with the next question. */
static struct span without_next_question(struct span t)
{
    bool text = false;
    for (const char *p = t.s; p < t.end;) {
        const char *line = p, *eol = memchr(p, '\n', (size_t)(t.end - p));
        eol = eol ? eol : t.end;
        while (p < eol && blank(*p))
            p++;
        if (text && (starts(p, t.end, "Q:") || starts(p, t.end, "Question:"))) {
            t.end = line;
            break;
        }
        text |= p < eol;
        p = eol + 1;
    }
    return t;
}

/* --- boxes */

/* Contents of the box whose command ends at p: 1, 0 (no box at all), -1 (not closed). */
static int box_at(const char *p, const char *end, struct span *out)
{
    if (p < end && alpha(*p))
        return 0;
    while (p < end && blank(*p))
        p++;
    if (p == end)
        return 0;
    if (*p != '{') { /* \boxed 7 */
        const char *q = p + (*p == '-' || *p == '+');
        if (q == end || !digit(*q))
            return 0;
        while (q < end && (digit(*q) || ((*q == '.' || *q == ',') && q + 1 < end && digit(q[1]))))
            q++;
        *out = (struct span){p, q};
        return 1;
    }
    size_t depth = 0;
    out->s = p + 1;
    for (; p < end; p++) {
        if (*p == '\\' && p + 1 < end) {
            p++;
        } else if (*p == '{') {
            depth++;
        } else if (*p == '}' && --depth == 0) {
            out->end = p;
            return 1;
        }
    }
    return -1;
}

static struct span trimmed(struct span t)
{
    while (t.s < t.end && blank(*t.s))
        t.s++;
    while (t.s < t.end && blank(t.end[-1]))
        t.end--;
    return t;
}

/* A command \boxed or \fbox at p: its length, or 0. */
static size_t box_name(const char *p, const char *end)
{
    return starts(p, end, "\\boxed") ? 6 : starts(p, end, "\\fbox") ? 5 : 0;
}

/* The last box counts: 1, 0 if there is no box, -1 with a reason. */
static int last_box(struct span t, struct mint_math_found *out)
{
    struct span box = {NULL, NULL}, last = {NULL, NULL};
    const char *where = NULL;
    int rc = 0;
    for (const char *p = t.s; (p = memchr(p, '\\', (size_t)(t.end - p))); p++) {
        size_t n = box_name(p, t.end);
        if (!n)
            continue;
        const char *q = p + n;
        while (q < t.end && blank(*q))
            q++;
        bool any =
            q < t.end && !alpha(p[n]) &&
            (*q == '{' || digit(*q) || ((*q == '-' || *q == '+') && q + 1 < t.end && digit(q[1])));
        if (any) {
            out->boxes++;
            where = p + n;
        }
    }
    if (!where)
        return 0;
    rc = box_at(where, t.end, &box);
    if (rc < 0) {
        out->why = "the last box is not closed";
        return -1;
    }
    box = trimmed(box);
    if (box.s == box.end) {
        out->why = "the last box is empty";
        return -1;
    }
    /* Do earlier boxes say the same? A few are looked at, to stay linear. */
    unsigned seen = 0;
    for (const char *p = t.s; p < where && seen < 8 && (p = memchr(p, '\\', (size_t)(t.end - p)));
         p++) {
        size_t n = box_name(p, t.end);
        if (!n || p + n >= where)
            continue;
        seen++;
        if (box_at(p + n, t.end, &last) != 1)
            continue;
        last = trimmed(last);
        if (last.end > box.s && last.s < box.s) /* the outer one */
            continue;
        if (last.end - last.s != box.end - box.s ||
            memcmp(last.s, box.s, (size_t)(box.end - box.s)) != 0)
            out->boxes_differ = true;
    }
    out->rule = MINT_MATH_BOXED;
    out->s = box.s;
    out->n = (size_t)(box.end - box.s);
    return 1;
}

/* --- markers */

/* Does x of "#### x" start like a number? A heading ("#### 3. Add") does not. */
static bool like_number(const char *p, const char *end)
{
    while (p < end && (*p == '$' || *p == '-' || *p == '+' || *p == '(' || *p == '*' || *p == ' ' ||
                       *p == '\\' || *p == '`')) {
        if (starts(p, end, "\\frac") || starts(p, end, "\\dfrac") || starts(p, end, "\\sqrt") ||
            starts(p, end, "\\pi"))
            return true;
        p++;
    }
    if (starts(p, end, "\xe2\x88\x92"))
        p += 3;
    if (starts(p, end, "\xe2\x82\xac") || starts(p, end, "\xc2\xa3"))
        p += (unsigned char)*p == 0xe2 ? 3 : 2;
    const char *from = p;
    if (p < end && *p == '.')
        p++;
    if (p == end || !digit(*p))
        return false;
    while (p < end && digit(*p))
        p++;
    if (p - from <= 2 && p + 1 < end && (*p == '.' || *p == ')' || *p == ':') && p[1] == ' ') {
        for (p += 2; p < end && *p != '\n'; p++) {
            if (alpha(*p))
                return false;
        }
    }
    return true;
}

static bool word_is(const char *p, const char *end, const char *lower)
{
    for (; *lower; lower++, p++) {
        if (p == end || (*p >= 'A' && *p <= 'Z' ? *p + 32 : *p) != *lower)
            return false;
    }
    return true;
}

/* The place behind a marker at p, NULL if there is none. */
static const char *marker(const char *p, const char *end, bool *hash)
{
    static const char *const chinese[] = {
        "\xe7\xad\x94\xe6\xa1\x88\xe6\x98\xaf", "\xe7\xad\x94\xe6\xa1\x88\xe4\xb8\xba",
        "\xe7\xad\x94\xe6\xa1\x88\xe7\x82\xba", "\xe7\xad\x94\xe6\xa1\x88\xef\xbc\x9a",
        "\xe7\xad\x94\xe6\xa1\x88:"};
    *hash = false;
    if (*p == '#') {
        *hash = true;
        if (!starts(p, end, "####") || (p + 4 < end && p[4] == '#'))
            return NULL;
        const char *x = p + 4;
        while (x < end && (*x == ' ' || *x == '\t'))
            x++;
        return x < end && like_number(x, end) ? x : NULL;
    }
    if ((unsigned char)*p == 0xe7) {
        for (size_t i = 0; i < MINT_ARRAY_LEN(chinese); i++) {
            if (starts(p, end, chinese[i]))
                return p + strlen(chinese[i]);
        }
        return NULL;
    }
    if (!word_is(p, end, "answer"))
        return NULL;
    const char *q = p + 6;
    while (q < end && (blank(*q) || *q == '*' || *q == '_'))
        q++;
    if (q < end && *q == ':')
        return q + 1;
    if (starts(q, end, "\xef\xbc\x9a"))
        return q + 3;
    if (q > p + 6 && word_is(q, end, "is") && !(q + 2 < end && (alpha(q[2]) || q[2] == '\'')) &&
        !starts(q + 2, end, "\xe2\x80\x99"))
        return q + 2;
    return NULL;
}

/* Does this full stop end a sentence? */
static bool ends_sentence(const char *p, const char *end)
{
    if (starts(p, end, "\xe3\x80\x82"))
        return true;
    if (*p != '.' && *p != '?' && *p != '!')
        return false;
    const char *q = p + 1;
    while (q < end && (*q == '*' || *q == '"' || *q == '\'' || *q == '`' || *q == ')' || *q == '_'))
        q++;
    if (*p == '!') /* a factorial goes on: 5! = 120 */
        return q == end || *q == '\n' || (blank(*q) && q + 1 < end && alpha(q[1]));
    return q == end || blank(*q);
}

/* From p to the end of the sentence or line; a formula's line breaks and points end nothing. */
static const char *sentence_end(const char *p, const char *end)
{
    const char *close = NULL;     /* what ends the formula that is open */
    bool dollars = true;          /* there may be pairs of them ahead */
    bool ahead[2] = {true, true}; /* and \\) and \\] */
    for (; p < end; p++) {
        if (close) {
            if (starts(p, end, close)) {
                p += strlen(close) - 1;
                close = NULL;
            }
            continue;
        }
        if (*p == '\\' && p + 1 < end) {
            bool square = p[1] == '[';
            if ((square || p[1] == '(') && ahead[square]) {
                close = square ? "\\]" : "\\)";
                ahead[square] = find(p + 2, end, close) != NULL;
                if (!ahead[square])
                    close = NULL;
            }
            p++;
        } else if (*p == '$' && dollars) {
            const char *what = starts(p, end, "$$") ? "$$" : "$";
            const char *next = find(p + strlen(what), end, what);
            const char *eol = memchr(p, '\n', (size_t)(end - p));
            dollars = next != NULL;
            if (next && (what[1] || !eol || next < eol)) {
                close = what;
                p += strlen(what) - 1;
            }
        } else if (*p == '\n' || ends_sentence(p, end)) {
            return p;
        }
    }
    return end;
}

/* What stands around an answer in running text. */
static const char *skip_dressing(const char *p, const char *end)
{
    while (p < end) {
        size_t n = mint_text_space(p, (size_t)(end - p));
        if (!n && starts(p, end, "\xef\xbc\x9a"))
            n = 3;
        if (!n && (*p == '*' || *p == '`' || *p == '"' || *p == ':' || *p == '_' || *p == '>'))
            n = 1;
        if (!n)
            break;
        p += n;
    }
    return p;
}

static int last_marker(struct span t, bool hashes, bool phrases, struct mint_math_found *out)
{
    const char *at = NULL;
    bool hash, at_hash = false;
    for (const char *p = t.s; p < t.end; p++) {
        if (*p != '#' && *p != 'a' && *p != 'A' && (unsigned char)*p != 0xe7)
            continue;
        if (*p == '#' && p > t.s && p[-1] == '#')
            continue;
        const char *q = marker(p, t.end, &hash);
        if (q && (hash ? hashes : phrases)) {
            at = q;
            at_hash = hash;
        }
    }
    if (!at)
        return 0;
    struct span a = {skip_dressing(at, t.end), t.end};
    a.end = sentence_end(a.s, t.end);
    if (a.end < t.end && *a.end == '?') /* a question is no answer: the mark makes it unreadable */
        a.end++;
    a = trimmed(a);
    if (a.s == a.end) {
        out->why = "nothing behind the last marker";
        return -1;
    }
    out->rule = at_hash ? MINT_MATH_HASH : MINT_MATH_PHRASE;
    out->phrase = true;
    out->s = a.s;
    out->n = (size_t)(a.end - a.s);
    return 1;
}

/* --- numbers */

/* The formula around p, if p stands in one that is closed. */
static bool formula_around(struct span t, const char *p, struct span *out)
{
    const char *s = t.s;
    while (s <= p) {
        const char *close = NULL;
        if (*s == '\\' && s + 1 < t.end && (s[1] == '(' || s[1] == '['))
            close = s[1] == '(' ? "\\)" : "\\]";
        else if (*s == '$')
            close = starts(s, t.end, "$$") ? "$$" : "$";
        if (!close) {
            s += *s == '\\' && s + 1 < t.end ? 2 : 1;
            continue;
        }
        size_t n = strlen(close);
        const char *end = find(s + n, t.end, close);
        if (!end)
            return false;
        if (end > p) {
            *out = (struct span){s + n, end};
            return s + n <= p;
        }
        s = end + n;
    }
    return false;
}

/* Prose between two dollars that were prices. */
static bool has_words(struct span t)
{
    for (const char *p = t.s; p < t.end;) {
        const char *q = p;
        while (q < t.end && alpha(*q))
            q++;
        if (q - p >= 3 && (p == t.s || (p[-1] != '\\' && p[-1] != '{')))
            return true;
        p = q + (q == p);
    }
    return false;
}

/* Does the brace at p open an argument: \frac{, }{, ^{? That of a box that lost its backslash does
 * not. */
static bool opens_argument(const char *from, const char *p)
{
    const char *q = p;
    while (q > from && alpha(q[-1]))
        q--;
    if (q == p)
        return p > from && (p[-1] == '}' || p[-1] == '^' || p[-1] == '_' || p[-1] == ']');
    size_t n = (size_t)(p - q);
    return (q > from && q[-1] == '\\') || (n >= 4 && !memcmp(p - 4, "frac", 4)) ||
           (n >= 4 && !memcmp(p - 4, "sqrt", 4));
}

/* Do the characters beside a number belong to it: 3/4, 2^10, \frac{3}{4}, 5x, 25\pi? */
static bool joined(struct span t, struct span num)
{
    if (num.end < t.end) {
        char c = *num.end, d = num.end + 1 < t.end ? num.end[1] : '\0';
        if (c == '^' || c == '_' || c == '{' || (c == '}' && d == '{') ||
            (c == '/' && (digit(d) || d == '\\')) || (c == '\\' && alpha(d)))
            return true;
        if (strchr("abcijknpqrtuvwxyz", c) && !alpha(d))
            return true;
        if (starts(num.end, t.end, "\xc2\xb2") || starts(num.end, t.end, "\xc2\xb3") ||
            starts(num.end, t.end, "\xc2\xb9") || starts(num.end, t.end, "\xe2\x81"))
            return true; /* superscripts */
        if (c == 'p' && d == 'i' && !(num.end + 2 < t.end && alpha(num.end[2])))
            return true;
        if (starts(num.end, t.end, "\xcf\x80") || starts(num.end, t.end, "\xe2\x88\x9a"))
            return true;
    }
    if (num.s > t.s) {
        char c = num.s[-1], b = num.s - 1 > t.s ? num.s[-2] : '\0';
        if (c == '^' || c == '_' || (c == '(' && alpha(b)) || (alpha(c) && !alpha(b)) ||
            (c == '{' && opens_argument(t.s, num.s - 1)))
            return true;
        if (strchr("/.,:+-*", c) && (digit(b) || b == '}' || b == ')'))
            return true;
        if ((*num.s == '-' || *num.s == '+') && (digit(c) || alpha(c)))
            return true;
        if (num.s - t.s >= 3 && !memcmp(num.s - 3, "\xe2\x88\x9a", 3))
            return true;
    }
    return false;
}

/* " million" behind a number: its length, or 0. */
static size_t large_word(const char *p, const char *end)
{
    static const char *const words[] = {" hundred", " thousand", " million",
                                        " billion", " trillion", " dozen"};
    for (size_t i = 0; i < MINT_ARRAY_LEN(words); i++) {
        size_t n = strlen(words[i]);
        if (word_is(p, end, words[i]) && !(p + n < end && alpha(p[n])))
            return n;
    }
    return 0;
}

static struct span around(struct span t, struct span num)
{
    struct span a = num;
    while (a.s > t.s && !blank(a.s[-1]))
        a.s--;
    while (a.end < t.end && !blank(*a.end))
        a.end++;
    while (a.s < num.s && strchr("\"'`*,;:.!?[<>", *a.s))
        a.s++;
    while (a.end > num.end && strchr("\"'`*,;:.!?]<>", a.end[-1]))
        a.end--;
    return a;
}

static int a_number(struct span t, enum mint_score_which which, struct mint_math_found *out)
{
    size_t at, n;
    if (!mint_number_find(t.s, (size_t)(t.end - t.s), which, &at, &n)) {
        out->why = "no number";
        return -1;
    }
    struct span num = {t.s + at, t.s + at + n}, formula;
    out->rule = which == MINT_SCORE_LAST ? MINT_MATH_LAST_NUMBER : MINT_MATH_FIRST_NUMBER;
    if (which == MINT_SCORE_LAST) {
        if (formula_around(t, num.s, &formula) && !has_words(formula))
            num = trimmed(formula);
        else if (joined(t, num))
            num = around(t, num);
        else if (num.end < t.end && *num.end == '%')
            num.end++;
        else if (large_word(num.end, t.end))
            num.end += large_word(num.end, t.end);
        else if (starts(num.end, t.end, "\\%"))
            num.end += 2;
    }
    out->s = num.s;
    out->n = (size_t)(num.end - num.s);
    return 1;
}

/* --- DAPO's line */

static int answer_line(struct span t, struct mint_math_found *out)
{
    t = trimmed(t);
    size_t chars = 0;
    const char *from = t.end;
    while (from > t.s && chars < LINE_CHARS) {
        from--;
        chars += ((unsigned char)*from & 0xc0) != 0x80;
    }
    bool line = true;
    for (const char *p = from; p < t.end; p++) {
        if (line && word_is(p, t.end, "answer")) {
            const char *q = p + 6;
            while (q < t.end && blank(*q))
                q++;
            if (q < t.end && *q == ':') {
                for (q++; q < t.end && blank(*q);)
                    q++;
                const char *end = q;
                while (end < t.end && *end != '\n' && *end != '<')
                    end++;
                struct span a = trimmed((struct span){q, end});
                out->s = a.s;
                out->n = (size_t)(a.end - a.s);
            }
        }
        line = *p == '\n' || (line && blank(*p));
    }
    out->rule = MINT_MATH_ANSWER_LINE;
    if (out->s && out->n)
        return 1;
    out->s = NULL;
    out->why = "no line \"Answer: ...\"";
    return -1;
}

/* --- rules */

void mint_math_extract(const char *text, size_t n, enum mint_math_rule rule, bool strict,
                       struct mint_math_found *out)
{
    struct span t = {text, text + n};
    int rc = 0;
    *out = (struct mint_math_found){.rule = rule, .why = "no answer"};
    if (n == 0)
        return;
    if (rule == MINT_MATH_ANSWER_LINE) {
        answer_line(t, out);
        return;
    }
    if (rule == MINT_MATH_FIRST_NUMBER) {
        a_number(t, MINT_SCORE_FIRST, out);
        return;
    }
    t = without_next_question(without_thinking(without_tail(t)));
    if (t.s == t.end)
        return;
    if (rule == MINT_MATH_WHOLE) {
        t = trimmed(t);
        out->s = t.s == t.end ? NULL : t.s;
        out->n = (size_t)(t.end - t.s);
        return;
    }
    if (rule == MINT_MATH_AUTO || rule == MINT_MATH_BOXED)
        rc = last_box(t, out);
    if (rc == 0 && rule != MINT_MATH_BOXED && rule != MINT_MATH_LAST_NUMBER)
        rc = last_marker(t, rule != MINT_MATH_PHRASE, rule != MINT_MATH_HASH, out);
    if (rc == 0 && (rule == MINT_MATH_LAST_NUMBER || (rule == MINT_MATH_AUTO && !strict)))
        a_number(t, MINT_SCORE_LAST, out);
}

void mint_math_extract_gold(const char *text, size_t n, struct mint_math_found *out)
{
    struct span t = {text, text + n};
    *out = (struct mint_math_found){.rule = MINT_MATH_WHOLE, .why = "the gold answer is empty"};
    if (n == 0 || last_box(t, out) != 0)
        return;
    if (last_marker(t, true, false, out) == 1) {
        out->phrase = false;
        return;
    }
    t = trimmed(t);
    out->s = t.s == t.end ? NULL : t.s;
    out->n = (size_t)(t.end - t.s);
}

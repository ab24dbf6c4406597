/* SPDX-License-Identifier: Apache-2.0 */
/* What a solution gave and what was expected. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "score.h"
#include "score_code.h"

/* The next line without its white space at the end; false after the last that is not empty. */
static bool next_line(const char *text, size_t n, size_t *at, const char **line, size_t *len)
{
    if (*at >= n)
        return false;
    const char *nl = memchr(text + *at, '\n', n - *at);
    size_t k = nl ? (size_t)(nl - text) - *at : n - *at;
    *line = text + *at;
    *at += k + (nl ? 1 : 0);
    while (k && strchr(" \t\r\f\v", (*line)[k - 1]) && (*line)[k - 1])
        k--;
    *len = k;
    return true;
}

static size_t without_end(const char *text, size_t n)
{
    while (n && text[n - 1] && strchr(" \t\r\f\v\n", text[n - 1]))
        n--;
    return n;
}

bool mint_code_same_text(const char *got, size_t got_n, const char *want, size_t want_n,
                         struct mint_code_diff *d)
{
    size_t a = 0, b = 0;
    got_n = without_end(got, got_n);
    want_n = without_end(want, want_n);
    for (*d = (struct mint_code_diff){.line = 1};; d->line++) {
        d->got = d->want = "";
        d->got_n = d->want_n = 0;
        bool more_got = next_line(got, got_n, &a, &d->got, &d->got_n);
        bool more_want = next_line(want, want_n, &b, &d->want, &d->want_n);
        if (!more_got && !more_want)
            return true;
        if (more_got != more_want || d->got_n != d->want_n || memcmp(d->got, d->want, d->got_n))
            return false;
    }
}

/* --- JSON values */

static bool same_number(const char *a, size_t a_n, const char *b, size_t b_n, double tolerance)
{
    struct mint_buf x = MINT_BUF_INIT, y = MINT_BUF_INIT;
    bool same;
    mint_number_canon(a, a_n, &x);
    mint_number_canon(b, b_n, &y);
    same = x.len == y.len && !memcmp(x.data, y.data, x.len);
    if (!same && tolerance > 0) {
        /* the digits of a JSON number, so it can be read; ends at the canonical form's '\0' */
        double p = strtod(x.data, NULL), q = strtod(y.data, NULL);
        same = fabs(p - q) <= tolerance * fmax(1, fabs(q));
    }
    mint_buf_release(&x);
    mint_buf_release(&y);
    return same;
}

/* Arrays of plain numbers have no values of their own: their text is walked. */
static bool next_number(const char *raw, size_t n, size_t *at, const char **num, size_t *len)
{
    static const char part[] = " \t\r\n,[]";
    while (*at < n && strchr(part, raw[*at]))
        ++*at;
    *num = raw + *at;
    *len = 0;
    while (*at < n && !strchr(part, raw[*at])) {
        ++*at;
        ++*len;
    }
    return *len > 0;
}

static bool same_arrays(const struct mint_json *got, mint_json_val a, const struct mint_json *want,
                        mint_json_val b, double tolerance)
{
    if (mint_json_size(got, a) != mint_json_size(want, b) ||
        mint_json_is_numbers(got, a) != mint_json_is_numbers(want, b))
        return false;
    if (mint_json_is_numbers(got, a)) {
        size_t an, bn, i = 0, k = 0, xn, yn;
        const char *ar = mint_json_raw(got, a, &an), *br = mint_json_raw(want, b, &bn), *x, *y;
        while (next_number(ar, an, &i, &x, &xn) && next_number(br, bn, &k, &y, &yn)) {
            if (!same_number(x, xn, y, yn, tolerance))
                return false;
        }
        return true;
    }
    a = mint_json_first(got, a);
    b = mint_json_first(want, b);
    for (; a != MINT_JSON_NONE && b != MINT_JSON_NONE;
         a = mint_json_next(got, a), b = mint_json_next(want, b)) {
        if (!mint_code_same_value(got, a, want, b, tolerance))
            return false;
    }
    return true;
}

static bool same_objects(const struct mint_json *got, mint_json_val a, const struct mint_json *want,
                         mint_json_val b, double tolerance)
{
    if (mint_json_size(got, a) != mint_json_size(want, b))
        return false;
    for (mint_json_val v = mint_json_first(want, b); v != MINT_JSON_NONE;
         v = mint_json_next(want, v)) {
        size_t n;
        struct mint_buf quoted = MINT_BUF_INIT, name = MINT_BUF_INIT;
        struct mint_json *key = mint_json_new();
        const char *raw = mint_json_key(want, v, &n);
        mint_buf_addc(&quoted, '"');
        mint_buf_add(&quoted, raw, n);
        mint_buf_addc(&quoted, '"');
        mint_buf_reserve(&name, 0);
        bool same = mint_json_parse(key, quoted.data, quoted.len, NULL) == 0 &&
                    mint_json_string(key, 0, &name) && strlen(name.data) == name.len;
        if (same) {
            mint_json_val other = mint_json_get(got, a, name.data);
            same = other != MINT_JSON_NONE && mint_code_same_value(got, other, want, v, tolerance);
        }
        mint_json_free(key);
        mint_buf_release(&quoted);
        mint_buf_release(&name);
        if (!same)
            return false;
    }
    return true;
}

static bool same_strings(const struct mint_json *got, mint_json_val a, const struct mint_json *want,
                         mint_json_val b)
{
    struct mint_buf x = MINT_BUF_INIT, y = MINT_BUF_INIT;
    bool same = mint_json_string(got, a, &x) && mint_json_string(want, b, &y) && x.len == y.len &&
                (!x.len || !memcmp(x.data, y.data, x.len));
    mint_buf_release(&x);
    mint_buf_release(&y);
    return same;
}

bool mint_code_same_value(const struct mint_json *got, mint_json_val a,
                          const struct mint_json *want, mint_json_val b, double tolerance)
{
    enum mint_json_type type = mint_json_type(want, b);
    size_t an, bn;
    bool x, y;
    if (mint_json_type(got, a) != type)
        return false;
    switch (type) {
    case MINT_JSON_NULL:
        return true;
    case MINT_JSON_BOOL:
        return mint_json_bool(got, a, &x) && mint_json_bool(want, b, &y) && x == y;
    case MINT_JSON_NUMBER: {
        const char *ar = mint_json_raw(got, a, &an), *br = mint_json_raw(want, b, &bn);
        return same_number(ar, an, br, bn, tolerance);
    }
    case MINT_JSON_STRING:
        return same_strings(got, a, want, b);
    case MINT_JSON_ARRAY:
        return same_arrays(got, a, want, b, tolerance);
    case MINT_JSON_OBJECT:
        return same_objects(got, a, want, b, tolerance);
    case MINT_JSON_ABSENT:
        break;
    }
    return false;
}

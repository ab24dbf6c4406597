/* SPDX-License-Identifier: Apache-2.0 */
/*
 * JSON as the templates' filter tojson writes it, which is Python's json.dumps(v,
 * ensure_ascii=False): ", " and ": " between, keys in their order, floats by repr. A model has seen
 * this form, so every byte counts.
 */
#include "chat_impl.h"

#include <math.h>
#include <string.h>

#include "num.h"

static void put_string(struct mint_buf *b, const char *s, size_t n)
{
    static const char from[] = "\"\\\n\r\t\f\b", to[] = "\"\\nrtfb";
    mint_buf_addc(b, '"');
    for (size_t i = 0; i < n; i++) {
        const char *known = s[i] ? strchr(from, s[i]) : NULL;
        if (known) {
            mint_buf_addc(b, '\\');
            mint_buf_addc(b, to[known - from]);
        } else if ((unsigned char)s[i] < 0x20) {
            mint_buf_addf(b, "\\u%04x", (unsigned char)s[i]);
        } else {
            mint_buf_addc(b, s[i]);
        }
    }
    mint_buf_addc(b, '"');
}

/* Python's repr of a float: the fewest digits that read back, an exponent below 1e-4 and from 1e16
 * on. */
static void put_float(struct mint_buf *b, double v)
{
    if (isinf(v)) {
        mint_buf_adds(b, v < 0 ? "-Infinity" : "Infinity");
        return;
    }
    char text[MINT_NUM_MAX], digits[MINT_NUM_MAX];
    int len = mint_num_print_double(text, fabs(v)), n = 0, point = 0, exponent = 0;
    bool dot = false;
    for (int i = 0; i < len; i++) {
        if (text[i] == '.') {
            dot = true;
        } else if (text[i] == 'e' || text[i] == 'E') {
            int64_t e = 0;
            mint_num_int(text + i + 1 + (text[i + 1] == '+'),
                         (size_t)(len - i - 1 - (text[i + 1] == '+')), &e);
            exponent = (int)e;
            break;
        } else if (n || text[i] != '0') {
            digits[n++] = text[i];
            point += !dot;
        } else {
            point -= dot; /* zeros behind the point, before the first digit */
        }
    }
    while (n > 1 && digits[n - 1] == '0')
        n--;
    if (n == 0) {
        digits[n++] = '0';
        point = 1;
        exponent = 0;
    }
    point += exponent; /* v = 0.DIGITS * 10^point */
    if (signbit(v))
        mint_buf_addc(b, '-');
    if (point <= -4 || point > 16) {
        mint_buf_add(b, digits, 1);
        if (n > 1) {
            mint_buf_addc(b, '.');
            mint_buf_add(b, digits + 1, (size_t)n - 1);
        }
        mint_buf_addf(b, "e%c%02d", point <= 0 ? '-' : '+', point <= 0 ? 1 - point : point - 1);
    } else if (point <= 0) {
        mint_buf_addf(b, "0.%.*s%.*s", -point, "0000", n, digits);
    } else if (point >= n) {
        mint_buf_addf(b, "%.*s%.*s.0", n, digits, point - n, "0000000000000000");
    } else {
        mint_buf_addf(b, "%.*s.%.*s", point, digits, n - point, digits + point);
    }
}

static void put_number(struct mint_buf *b, const char *s, size_t n)
{
    bool is_int;
    mint_num_scan(s, n, &is_int);
    if (!is_int)
        put_float(b, mint_num_double(s, n));
    else if (n == 2 && memcmp(s, "-0", 2) == 0)
        mint_buf_addc(b, '0');
    else
        mint_buf_add(b, s, n);
}

/* An array of numbers has no handles: its text is walked. */
static void put_numbers(struct mint_buf *b, const char *s, size_t n)
{
    const char *end = s + n;
    bool first = true;
    mint_buf_addc(b, '[');
    while (s < end) {
        bool is_int;
        size_t len = mint_num_scan(s, (size_t)(end - s), &is_int);
        if (len == 0) {
            s++; /* brackets, commas, white space */
            continue;
        }
        if (!first)
            mint_buf_adds(b, ", ");
        put_number(b, s, len);
        first = false;
        s += len;
    }
    mint_buf_addc(b, ']');
}

/* A key is given as it is written, escapes and all. */
static void put_key(struct mint_buf *b, const struct mint_json *j, mint_json_val member)
{
    size_t n;
    const char *key = mint_json_key(j, member, &n);
    if (!memchr(key, '\\', n)) {
        put_string(b, key, n);
        return;
    }
    struct mint_json *one = mint_json_new();
    struct mint_buf plain = MINT_BUF_INIT;
    if (mint_json_parse(one, key - 1, n + 2, NULL) == 0 &&
        mint_json_string(one, 0, &plain)) /* with its quotes */
        put_string(b, plain.data ? plain.data : "", plain.len);
    mint_buf_release(&plain);
    mint_json_free(one);
}

static void put_value(struct mint_buf *b, const struct mint_json *j, mint_json_val v)
{
    struct mint_buf s = MINT_BUF_INIT;
    size_t n;
    const char *raw = mint_json_raw(j, v, &n);
    enum mint_json_type type = mint_json_type(j, v);
    if (type == MINT_JSON_STRING) {
        mint_json_string(j, v, &s);
        put_string(b, s.data ? s.data : "", s.len);
        mint_buf_release(&s);
    } else if (type == MINT_JSON_NUMBER) {
        put_number(b, raw, n);
    } else if (type == MINT_JSON_ARRAY && mint_json_is_numbers(j, v)) {
        put_numbers(b, raw, n);
    } else if (type == MINT_JSON_ARRAY || type == MINT_JSON_OBJECT) {
        bool object = type == MINT_JSON_OBJECT;
        mint_buf_addc(b, object ? '{' : '[');
        for (mint_json_val m = mint_json_first(j, v); m != MINT_JSON_NONE;
             m = mint_json_next(j, m)) {
            if (object) {
                put_key(b, j, m);
                mint_buf_adds(b, ": ");
            }
            put_value(b, j, m);
            if (mint_json_next(j, m) != MINT_JSON_NONE)
                mint_buf_adds(b, ", ");
        }
        mint_buf_addc(b, object ? '}' : ']');
    } else {
        mint_buf_add(b, raw, n);
    }
}

void chat_put_json(struct chat_out *o, mint_json_val v)
{
    size_t from = o->text.len;
    put_value(&o->text, o->j, v);
    chat_guard(o, from);
}

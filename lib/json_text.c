/* SPDX-License-Identifier: Apache-2.0 */
#include "json_text.h"

#include <string.h>

#include "json.h"
#include "num.h"
#include "num_swar.h"

/* --- UTF-8 */

static bool is_tail(unsigned char c)
{
    return (c & 0xc0) == 0x80;
}

size_t mint_json_utf8(const char *s, size_t n)
{
    const unsigned char *u = (const unsigned char *)s;
    if (n == 0)
        return 0;
    if (u[0] < 0x80)
        return 1;
    if (u[0] < 0xc2) /* a tail without a head, or overlong */
        return 0;
    if (u[0] < 0xe0)
        return n >= 2 && is_tail(u[1]) ? 2 : 0;
    if (u[0] < 0xf0) {
        if (n < 3 || !is_tail(u[1]) || !is_tail(u[2]))
            return 0;
        bool overlong = u[0] == 0xe0 && u[1] < 0xa0, surrogate = u[0] == 0xed && u[1] >= 0xa0;
        return overlong || surrogate ? 0 : 3;
    }
    if (u[0] > 0xf4 || n < 4 || !is_tail(u[1]) || !is_tail(u[2]) || !is_tail(u[3]))
        return 0;
    bool overlong = u[0] == 0xf0 && u[1] < 0x90, too_high = u[0] == 0xf4 && u[1] >= 0x90;
    return overlong || too_high ? 0 : 4;
}

static size_t encode(char out[4], uint32_t c)
{
    if (c < 0x80) {
        out[0] = (char)c;
        return 1;
    }
    if (c < 0x800) {
        out[0] = (char)(0xc0 | c >> 6);
        out[1] = (char)(0x80 | (c & 0x3f));
        return 2;
    }
    if (c < 0x10000) {
        out[0] = (char)(0xe0 | c >> 12);
        out[1] = (char)(0x80 | (c >> 6 & 0x3f));
        out[2] = (char)(0x80 | (c & 0x3f));
        return 3;
    }
    out[0] = (char)(0xf0 | c >> 18);
    out[1] = (char)(0x80 | (c >> 12 & 0x3f));
    out[2] = (char)(0x80 | (c >> 6 & 0x3f));
    out[3] = (char)(0x80 | (c & 0x3f));
    return 4;
}

/* --- scanning */

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    c |= 0x20;
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* Four hex digits at p, -1 if there are not four. */
static int32_t hex4(const char *p, const char *end)
{
    int32_t v = 0;
    if (end - p < 4)
        return -1;
    for (int i = 0; i < 4; i++) {
        int d = hex_digit(p[i]);
        if (d < 0)
            return -1;
        v = v << 4 | d;
    }
    return v;
}

/* p at a backslash; returns the byte behind the escape, or NULL and *what. */
static const char *scan_escape(const char *p, const char *end, const char **what)
{
    if (end - p < 2) {
        *what = "string without closing quote";
        return NULL;
    }
    if (memchr("\"\\/bfnrt", p[1], 8))
        return p + 2;
    int32_t c = p[1] == 'u' ? hex4(p + 2, end) : -1;
    if (c < 0) {
        *what = p[1] == 'u' ? "\\u needs four hex digits" : "unknown escape in a string";
        return NULL;
    }
    if (c < 0xd800 || c > 0xdfff)
        return p + 6;
    int32_t low = end - p >= 8 && p[6] == '\\' && p[7] == 'u' ? hex4(p + 8, end) : -1;
    if (c > 0xdbff || low < 0xdc00 || low > 0xdfff) {
        *what = "half of a surrogate pair in a string";
        return NULL;
    }
    return p + 12;
}

/* Eight bytes at a time while they are ASCII without quote, backslash and control bytes. */
static const char *skip_plain(const char *p, const char *end)
{
    const uint64_t ones = UINT64_C(0x0101010101010101), tops = UINT64_C(0x8080808080808080);
    while (end - p >= 8) {
        uint64_t w;
        memcpy(&w, p, sizeof w);
        uint64_t quote = w ^ ones * '"', back = w ^ ones * '\\';
        /* a borrow can only flag a byte above one that is flagged rightly, so the lowest flag is
         * right */
        uint64_t hit = ((w - ones * 0x20) | (quote - ones) | (back - ones) | w) & tops;
        if (hit)
            return __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__ ? p + (__builtin_ctzll(hit) >> 3) : p;
        p += 8;
    }
    return p;
}

const char *mint_json_scan_string(const char *p, const char *end, bool *escaped, const char **what)
{
    *what = NULL;
    for (;;) {
        p = skip_plain(p, end);
        if (p == end) {
            *what = "string without closing quote";
            return p;
        }
        unsigned char c = (unsigned char)*p;
        if (c == '"')
            return p;
        if (c == '\\') {
            const char *q = scan_escape(p, end, what);
            if (!q)
                return p;
            *escaped = true;
            p = q;
        } else if (c < 0x20) {
            *what = "raw control byte in a string; it must be escaped";
            return p;
        } else {
            size_t n = mint_json_utf8(p, (size_t)(end - p));
            if (n == 0) {
                *what = "invalid UTF-8 in a string";
                return p;
            }
            p += n;
        }
    }
}

/*
 * The numbers of an array as a machine whose state is a shift. The row of a character holds, from
 * the bit on that a state is named after, the state that follows; 0, which nothing leads out of,
 * where the character cannot stand there. So a step is a load and a shift and never a branch, which
 * would be guessed wrongly once or twice for each number. The top bit of a row counts commas.
 */
enum { WRONG, START = 6, MINUS = 12, ZERO = 18, WHOLE = 24, POINT = 30 };
enum { FRACTION = 36, E = 42, SIGN = 48, EXPONENT = 54, STATE = 63 };
enum { BLOCK = 16 };

#define TO(from, to) ((uint64_t)(to) << (from))
#define SPACE_ROW    TO(START, START)
#define COMMA_ROW                                                                     \
    (TO(ZERO, START) | TO(WHOLE, START) | TO(FRACTION, START) | TO(EXPONENT, START) | \
     UINT64_C(1) << 63)
#define E_ROW (TO(ZERO, E) | TO(WHOLE, E) | TO(FRACTION, E))
#define DIGIT_ROW                                                                        \
    (TO(WHOLE, WHOLE) | TO(POINT, FRACTION) | TO(FRACTION, FRACTION) | TO(E, EXPONENT) | \
     TO(SIGN, EXPONENT) | TO(EXPONENT, EXPONENT))
#define ZERO_ROW  (DIGIT_ROW | TO(START, ZERO) | TO(MINUS, ZERO))
#define ONE_ROW   (DIGIT_ROW | TO(START, WHOLE) | TO(MINUS, WHOLE))
#define POINT_ROW (TO(ZERO, POINT) | TO(WHOLE, POINT))

static const uint64_t rows[256] = {
    [' '] = SPACE_ROW,   ['\t'] = SPACE_ROW,
    ['\n'] = SPACE_ROW,  ['\r'] = SPACE_ROW,
    ['0'] = ZERO_ROW,    ['1'] = ONE_ROW,
    ['2'] = ONE_ROW,     ['3'] = ONE_ROW,
    ['4'] = ONE_ROW,     ['5'] = ONE_ROW,
    ['6'] = ONE_ROW,     ['7'] = ONE_ROW,
    ['8'] = ONE_ROW,     ['9'] = ONE_ROW,
    [','] = COMMA_ROW,   ['.'] = POINT_ROW,
    ['e'] = E_ROW,       ['E'] = E_ROW,
    ['+'] = TO(E, SIGN), ['-'] = TO(START, MINUS) | TO(E, SIGN),
};

/* Runs the machine to the first byte that it cannot take. */
static const char *run_numbers(const char *p, const char *end, unsigned *state, size_t *commas)
{
    uint64_t s = *state, row;
    for (; end - p >= BLOCK; p += BLOCK) {
        uint64_t t = s;
        size_t n = 0;
        for (int i = 0; i < BLOCK; i++) {
            row = rows[(unsigned char)p[i]];
            n += row >> 63;
            t = row >> (t & STATE);
        }
        if ((t & STATE) == WRONG)
            break; /* somewhere in this block */
        s = t;
        *commas += n;
    }
    for (; p < end; p++) {
        row = rows[(unsigned char)*p];
        if ((row >> (s & STATE) & STATE) == WRONG)
            break;
        *commas += row >> 63;
        s = row >> (s & STATE);
    }
    *state = (unsigned)(s & STATE);
    return p;
}

const char *mint_json_scan_numbers(const char *p, const char *end, size_t *count)
{
    unsigned state = START;
    size_t commas = 0;
    for (;;) {
        p = run_numbers(p, end, &state, &commas);
        bool whole = state == ZERO || state == WHOLE || state == FRACTION || state == EXPONENT;
        bool empty = state == START && commas == 0;
        while (p < end && (*p == ' ' || *p == '\t' || *p == '\n' || *p == '\r'))
            p++;
        if (p == end || !(whole || empty))
            return NULL;
        if (*p == ']') {
            *count = commas + whole;
            return p + 1;
        }
        if (*p != ',' || empty)
            return NULL;
        p++; /* a comma that space stands before, or the machine had taken it */
        commas++;
        state = START;
    }
}

/* --- meaning */

/* The character at *p, encoded into out; *p goes behind it. */
static size_t next_char(const char **p, char out[4])
{
    const char *s = *p;
    if (*s != '\\') {
        out[0] = *s;
        *p = s + 1;
        return 1;
    }
    if (s[1] != 'u') {
        static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
        out[0] = to[strchr(from, s[1]) - from];
        *p = s + 2;
        return 1;
    }
    uint32_t c = (uint32_t)hex4(s + 2, s + 6);
    *p = s + 6;
    if (c >= 0xd800 && c <= 0xdbff) {
        uint32_t low = (uint32_t)hex4(s + 8, s + 12);
        c = 0x10000 + ((c - 0xd800) << 10) + (low - 0xdc00);
        *p = s + 12;
    }
    return encode(out, c);
}

void mint_json_unescape(struct mint_buf *out, const char *s, size_t n)
{
    const char *end = s + n;
    mint_buf_reserve(out, n); /* unescaping never makes it longer */
    while (s < end) {
        const char *back = memchr(s, '\\', (size_t)(end - s));
        size_t plain = (size_t)((back ? back : end) - s);
        mint_buf_add(out, s, plain);
        s += plain;
        if (s < end) {
            char c[4];
            size_t k = next_char(&s, c);
            mint_buf_add(out, c, k);
        }
    }
}

int mint_json_compare(const char *s, size_t n, const char *t, size_t m)
{
    const char *se = s + n, *te = t + m;
    char a[4], b[4];
    size_t an = 0, ai = 0, bn = 0, bi = 0;
    for (;;) {
        if (ai == an) {
            ai = 0;
            an = s < se ? next_char(&s, a) : 0;
        }
        if (bi == bn) {
            bi = 0;
            bn = t < te ? next_char(&t, b) : 0;
        }
        if (an == 0 || bn == 0)
            return (an > 0) - (bn > 0);
        unsigned char x = (unsigned char)a[ai++], y = (unsigned char)b[bi++];
        if (x != y)
            return x < y ? -1 : 1;
    }
}

bool mint_json_equals(const char *s, size_t n, const char *plain, size_t m)
{
    const char *end = s + n;
    size_t at = 0;
    while (s < end) {
        char c[4];
        size_t k = next_char(&s, c);
        if (m - at < k || memcmp(plain + at, c, k) != 0)
            return false;
        at += k;
    }
    return at == m;
}

/* --- writing */

static void put_escape(struct mint_buf *b, unsigned char c)
{
    switch (c) {
    case '"':
        mint_buf_add(b, "\\\"", 2);
        break;
    case '\\':
        mint_buf_add(b, "\\\\", 2);
        break;
    case '\n':
        mint_buf_add(b, "\\n", 2);
        break;
    case '\r':
        mint_buf_add(b, "\\r", 2);
        break;
    case '\t':
        mint_buf_add(b, "\\t", 2);
        break;
    case '\b':
        mint_buf_add(b, "\\b", 2);
        break;
    case '\f':
        mint_buf_add(b, "\\f", 2);
        break;
    default:
        mint_buf_addf(b, "\\u%04x", c);
    }
}

/* Bytes of s that form the beginning of a valid character, at least 1: they become one U+FFFD. */
static size_t broken_length(const char *s, size_t n)
{
    for (size_t k = MINT_MIN(n, (size_t)3); k > 1; k--) {
        char completed[4] = {'\x80', '\x80', '\x80', '\x80'};
        memcpy(completed, s, k);
        if (mint_json_utf8(completed, 4) > k)
            return k;
    }
    return 1;
}

void mint_json_put_string(struct mint_buf *b, const char *s, size_t n)
{
    const char *end = s + n;
    mint_buf_reserve(b, n + 2);
    mint_buf_addc(b, '"');
    while (s < end) {
        const char *p = s;
        for (;;) {
            p = skip_plain(p, end);
            size_t k = p < end && *p != '"' && *p != '\\' && (unsigned char)*p >= 0x20
                           ? mint_json_utf8(p, (size_t)(end - p))
                           : 0;
            if (k == 0)
                break;
            p += k;
        }
        mint_buf_add(b, s, (size_t)(p - s));
        s = p;
        if (s == end)
            break;
        if ((unsigned char)*s < 0x80) {
            put_escape(b, (unsigned char)*s++);
        } else {
            mint_buf_add(b, "\xef\xbf\xbd", 3);
            s += broken_length(s, (size_t)(end - s));
        }
    }
    mint_buf_addc(b, '"');
}

void mint_json_put_str(struct mint_buf *b, const char *s)
{
    mint_json_put_string(b, s, strlen(s));
}

void mint_json_put_int(struct mint_buf *b, int64_t v)
{
    mint_buf_reserve(b, MINT_NUM_MAX);
    b->len += (size_t)mint_num_print_int(b->data + b->len, v);
}

void mint_json_put_float(struct mint_buf *b, float v)
{
    mint_buf_reserve(b, MINT_NUM_MAX);
    if (__builtin_isfinite(v))
        b->len += (size_t)mint_num_print_float(b->data + b->len, v);
    else
        mint_buf_add(b, "null", 4);
}

void mint_json_put_double(struct mint_buf *b, double v)
{
    mint_buf_reserve(b, MINT_NUM_MAX);
    if (__builtin_isfinite(v))
        b->len += (size_t)mint_num_print_double(b->data + b->len, v);
    else
        mint_buf_add(b, "null", 4);
}

void mint_json_put_ints(struct mint_buf *b, const int32_t *v, size_t n)
{
    mint_buf_addc(b, '[');
    for (size_t i = 0; i < n; i++) {
        mint_buf_reserve(b, MINT_NUM_MAX + 2);
        char *p = b->data + b->len;
        if (i > 0)
            *p++ = ',';
        p += mint_num_print_int(p, v[i]);
        b->len = (size_t)(p - b->data);
    }
    mint_buf_addc(b, ']');
}

void mint_json_put_floats(struct mint_buf *b, const float *v, size_t n)
{
    mint_buf_addc(b, '[');
    for (size_t i = 0; i < n; i++) {
        mint_buf_reserve(b, MINT_NUM_MAX + 2);
        char *p = b->data + b->len;
        if (i > 0)
            *p++ = ',';
        if (__builtin_isfinite(v[i])) {
            p += mint_num_print_float(p, v[i]);
        } else {
            memcpy(p, "null", 4);
            p += 4;
        }
        b->len = (size_t)(p - b->data);
    }
    mint_buf_addc(b, ']');
}

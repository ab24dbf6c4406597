/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Printing follows R. Giulietti, "The Schubfach way to render doubles" (2020): scale the value and
 * the ends of its rounding interval by a power of ten so that exactly one or two candidates of the
 * wanted length remain. Reading multiplies the digits by a 128-bit power of ten and looks whether
 * both ends of the error interval round to the same value; the few texts where they do not go to
 * strtod.
 */
#include "num.h"

#include <locale.h>
#include <stdlib.h>
#include <string.h>

#include "mem.h"
#include "num_pow10.h"
#include "num_swar.h"

typedef unsigned __int128 u128;

/* floor(log2(10^e)) and floor(log10(2^e)), exact for |e| < 1200; log10 of 3/4 * 2^e for uneven
 * intervals */
static int log2_pow10(int e)
{
    return (e * 1741647) >> 19;
}

static int log10_pow2(int e)
{
    return (e * 1262611) >> 22;
}

static int log10_pow2_uneven(int e)
{
    return (e * 1262611 - 524031) >> 22;
}

/* --- printing */

struct decimal {
    uint64_t digits; /* without trailing zeros only if small; print_decimal strips them */
    int exp10;       /* value = digits * 10^exp10 */
};

/* floor(g * c / 2^128) with the lowest bit set if anything was cut off ("round to odd"). */
static uint64_t scale64(const uint64_t g[2], uint64_t c)
{
    u128 low = (u128)g[1] * c, high = (u128)g[0] * c;
    u128 sum = high + (uint64_t)(low >> 64);
    return (uint64_t)(sum >> 64) | ((uint64_t)sum > 1);
}

static uint32_t scale32(const uint64_t g[2], uint32_t c)
{
    u128 p = (u128)(g[0] + (g[1] != 0)) * c;
    return (uint32_t)(p >> 64) | ((uint32_t)(p >> 32) > 1);
}

/*
 * The choice among candidates; all values are scaled by 4. odd: the interval's ends do not belong
 * to it. Which candidate wins is as good as random, so all are computed and none is branched to.
 */
static inline struct decimal choose(uint64_t low, uint64_t mid, uint64_t high, unsigned odd, int k)
{
    uint64_t s = mid / 4, s10 = s / 10, half = 4 * s + 2;
    bool down10 = low + odd <= 40 * s10, up10 = 40 * s10 + 40 + odd <= high;
    bool down = low + odd <= 4 * s, up = 4 * s + 4 + odd <= high;
    bool round_up = mid > half || (mid == half && (s & 1));
    bool shorter = (s >= 10) & (down10 != up10);
    uint64_t full = s + (down != up ? up : round_up);
    return (struct decimal){shorter ? s10 + up10 : full, k + shorter};
}

/* value = c * 2^q; uneven: the neighbour below is nearer than the one above (c is a power of two).
 */
static struct decimal shortest64(uint64_t c, int q, bool uneven)
{
    int k = uneven ? log10_pow2_uneven(q) : log10_pow2(q);
    int h = q + log2_pow10(-k) + 1;
    const uint64_t *g = mint_pow10[-k - MINT_POW10_MIN];
    uint64_t low = scale64(g, (4 * c - 2 + uneven) << h);
    uint64_t mid = scale64(g, (4 * c) << h);
    uint64_t high = scale64(g, (4 * c + 2) << h);
    return choose(low, mid, high, c & 1, k);
}

static struct decimal shortest32(uint32_t c, int q, bool uneven)
{
    int k = uneven ? log10_pow2_uneven(q) : log10_pow2(q);
    int h = q + log2_pow10(-k) + 1;
    const uint64_t *g = mint_pow10[-k - MINT_POW10_MIN];
    uint32_t low = scale32(g, (4 * c - 2 + uneven) << h);
    uint32_t mid = scale32(g, (4 * c) << h);
    uint32_t high = scale32(g, (4 * c + 2) << h);
    return choose(low, mid, high, c & 1, k);
}

/* Room for the 20 digits of any uint64_t in front of end, and for copies of COPY bytes that start
 * there. */
#define DIGITS_ROOM 24
#define COPY        24

/* Digits of v, right-aligned before end; returns the first. Writes whole groups of eight before it.
 */
static inline char *put_digits(char *end, uint64_t v)
{
    if (v < 1000000000) { /* any float: without a branch on the number of digits */
        uint32_t top = (uint32_t)v / 100000000, rest = (uint32_t)v % 100000000;
        uint64_t digits = mint_swar_digits(rest);
        mint_swar_store(end - 8, digits);
        end[-9] = (char)('0' + top);
        return end - (top ? 9 : mint_swar_length(rest, digits));
    }
    while (v >= 100000000) {
        uint64_t rest = v / 100000000;
        mint_swar_store(end -= 8, mint_swar_digits((uint32_t)(v - rest * 100000000)));
        v = rest;
    }
    uint64_t digits = mint_swar_digits((uint32_t)v);
    mint_swar_store(end - 8, digits);
    return end - mint_swar_length((uint32_t)v, digits);
}

static int put_exponent(char *out, int e)
{
    char *o = out;
    *o++ = 'e';
    *o++ = e < 0 ? '-' : '+';
    e = abs(e);
    if (e >= 100) {
        *o++ = (char)('0' + e / 100);
        e %= 100;
    }
    *o++ = (char)('0' + e / 10);
    *o++ = (char)('0' + e % 10);
    return (int)(o - out);
}

/*
 * Fixed notation for 1e-4 <= value < 1e15, d.ddde-XX otherwise. The copies are longer than what is
 * needed, but of a fixed length, which is much quicker; MINT_NUM_MAX has room for them.
 */
static int print_decimal(char *out, bool negative, struct decimal d)
{
    char text[DIGITS_ROOM + COPY], *end = text + DIGITS_ROOM, *o = out;
    memset(end, '0', COPY);
    const char *s = put_digits(end, d.digits);
    int all = (int)(end - s), n = all, point = all + d.exp10;
    while (n > 1 && s[n - 1] == '0')
        n--;
    *o = '-';
    o += negative;
    if (point > 0 && point <= 15) {
        memcpy(o, s, COPY); /* with zeros behind the digits */
        if (point < n) {
            memcpy(o + point + 1, s + point, COPY - 8);
            o[point] = '.';
            o++;
        }
        o += MINT_MAX(point, n);
    } else if (point <= 0 && point >= -3) {
        memcpy(o, "0.000", 5);
        o += 2 - point;
        memcpy(o, s, COPY);
        o += n;
    } else {
        *o = *s;
        o[1] = '.';
        memcpy(o + 2, s + 1, COPY - 8);
        o += n > 1 ? n + 1 : 1;
        o += put_exponent(o, point - 1);
    }
    *o = '\0';
    return (int)(o - out);
}

int mint_num_print_int(char *out, int64_t v)
{
    uint64_t u = v < 0 ? -(uint64_t)v : (uint64_t)v;
    char *o = out;
    *o = '-';
    o += v < 0;
    if (u < 100000000) {
        uint64_t digits = mint_swar_digits((uint32_t)u);
        int n = mint_swar_length((uint32_t)u, digits);
        mint_swar_store(o, digits >> 8 * (8 - n));
        o += n;
    } else {
        char text[DIGITS_ROOM + COPY], *end = text + DIGITS_ROOM;
        memset(end, '0', COPY);
        const char *s = put_digits(end, u);
        memcpy(o, s, COPY);
        o += end - s;
    }
    *o = '\0';
    return (int)(o - out);
}

int mint_num_print_float(char *out, float v)
{
    uint32_t bits;
    memcpy(&bits, &v, sizeof bits);
    bool negative = bits >> 31;
    int exponent = (int)(bits >> 23 & 0xff);
    uint32_t c = bits & 0x7fffff;
    if (exponent >= 127 && exponent < 127 + 24) { /* whole numbers below 2^24: weights, mostly */
        int32_t whole = (int32_t)((c | 0x800000) >> (127 + 23 - exponent));
        if ((c | 0x800000) == (uint32_t)whole << (127 + 23 - exponent))
            return mint_num_print_int(out, negative ? -whole : whole);
    }
    if (exponent == 0 && c == 0) {
        memcpy(out, negative ? "-0" : "0", negative ? 3 : 2);
        return 1 + negative;
    }
    bool uneven = c == 0 && exponent > 1;
    if (exponent > 0)
        c |= 0x800000;
    int q = (exponent > 0 ? exponent : 1) - 127 - 23;
    return print_decimal(out, negative, shortest32(c, q, uneven));
}

int mint_num_print_double(char *out, double v)
{
    uint64_t bits;
    memcpy(&bits, &v, sizeof bits);
    bool negative = bits >> 63;
    int exponent = (int)(bits >> 52 & 0x7ff);
    uint64_t c = bits & 0xfffffffffffff;
    if (exponent == 0 && c == 0) {
        memcpy(out, negative ? "-0" : "0", negative ? 3 : 2);
        return 1 + negative;
    }
    bool uneven = c == 0 && exponent > 1;
    if (exponent > 0)
        c |= 0x10000000000000;
    int q = (exponent > 0 ? exponent : 1) - 1023 - 52;
    if (q <= 0 && q > -53 && (c & ((UINT64_C(1) << -q) - 1)) == 0) /* whole, below 2^53 */
        return print_decimal(out, negative, (struct decimal){c >> -q, 0});
    return print_decimal(out, negative, shortest64(c, q, uneven));
}

/* --- reading */

static bool is_digit(char c)
{
    return (unsigned char)(c - '0') <= 9;
}

size_t mint_num_scan(const char *s, size_t n, bool *is_int)
{
    const char *p = s, *end = s + n;
    *is_int = true;
    if (p < end && *p == '-')
        p++;
    if (p == end || !is_digit(*p))
        return 0;
    if (*p == '0')
        p++;
    else
        while (p < end && is_digit(*p))
            p++;
    if (p < end && is_digit(*p))
        return 0; /* a leading zero */
    if (p < end && *p == '.') {
        *is_int = false;
        if (++p == end || !is_digit(*p))
            return 0;
        while (p < end && is_digit(*p))
            p++;
    }
    if (p < end && (*p == 'e' || *p == 'E')) {
        *is_int = false;
        if (++p < end && (*p == '+' || *p == '-'))
            p++;
        if (p == end || !is_digit(*p))
            return 0;
        while (p < end && is_digit(*p))
            p++;
    }
    return (size_t)(p - s);
}

/* A number text taken apart: value = mantissa * 10^exp10, the mantissa cut after 19 digits. */
struct parts {
    uint64_t mantissa;
    int64_t exp10;
    bool negative, cut;
};

/* Takes the digits at p into r; returns the byte behind them. */
static inline const char *take_digits(struct parts *r, const char *p, const char *end,
                                      bool fraction)
{
    static const uint64_t tens[] = {1, 10, 100, 1000, 10000, 100000, 1000000, 10000000, 100000000};
    while (end - p >= 8 && r->mantissa < UINT64_C(100000000000)) {
        uint64_t w = mint_swar_load(p);
        int n = mint_swar_count(w);
        if (n == 0)
            return p;
        r->mantissa = r->mantissa * tens[n] + mint_swar_value(w, n);
        r->exp10 -= fraction ? n : 0;
        p += n;
        if (n < 8)
            return p;
    }
    for (; p < end && is_digit(*p); p++) {
        if (r->mantissa < UINT64_C(1000000000000000000)) {
            r->mantissa = 10 * r->mantissa + (unsigned)(*p - '0');
            r->exp10 -= fraction;
        } else {
            r->cut |= *p != '0';
            r->exp10 += !fraction;
        }
    }
    return p;
}

/* The number at the beginning of s[0..n), which is well-formed; returns the bytes it takes. */
static inline size_t take_apart(struct parts *r, const char *s, size_t n)
{
    const char *p = s, *end = s + n;
    *r = (struct parts){.negative = *p == '-'};
    p += r->negative;
    if (end - p > 1 && !is_digit(p[1])) /* most of all */
        r->mantissa = (unsigned)(*p++ - '0');
    else
        p = take_digits(r, p, end, false);
    if (p < end && *p == '.')
        p = take_digits(r, p + 1, end, true);
    if (p == end || (*p | 0x20) != 'e')
        return (size_t)(p - s);
    p++;
    bool minus = *p == '-';
    p += minus || *p == '+';
    int64_t e = 0;
    for (; p < end && is_digit(*p); p++)
        e = e < INT64_C(1000000000000000) ? 10 * e + (*p - '0') : e;
    r->exp10 += minus ? -e : e;
    return (size_t)(p - s);
}

/*
 * Rounds mantissa * 10^exp10 to bits binary digits: *c * 2^*q, 2^(bits-1) <= *c <= 2^bits. False if
 * the 128 known bits of the power of ten do not decide it.
 */
static bool round_parts(const struct parts *r, int bits, uint64_t *c, int *q)
{
    if (r->exp10 < MINT_POW10_MIN || r->exp10 > MINT_POW10_MAX)
        return false;
    int e = (int)r->exp10, shift = __builtin_clzll(r->mantissa);
    const uint64_t *g = mint_pow10[e - MINT_POW10_MIN];
    uint64_t w = r->mantissa << shift;
    u128 top = (u128)g[0] * w + (uint64_t)((u128)g[1] * w >> 64);
    /* g is too large by less than 1 and what is below top is dropped; a cut mantissa is too small
     * by less than 1 */
    u128 low = top - 1, high = top + 1;
    if (r->cut)
        high += (((u128)g[0] + 1) << shift) + 1;
    if (high < top)
        return false;
    int drop = (int)(top >> 127) + 127 - bits;
    u128 half = (u128)1 << (drop - 1);
    /* near 2^128 adding half could wrap */
    u128 a = (low >> 1) + (half >> 1), b = (high >> 1) + (half >> 1);
    if (a >> (drop - 1) != b >> (drop - 1))
        return false;
    *c = (uint64_t)(a >> (drop - 1));
    *q = drop - 63 - shift + log2_pow10(e);
    return true;
}

/* For the rare text that needs all its digits. */
static double slow_read(const char *s, size_t n, bool as_float)
{
    char small[64], *copy = n < sizeof small ? small : mint_xmalloc(n + 1);
    memcpy(copy, s, n);
    copy[n] = '\0';
    locale_t c_locale =
        newlocale(LC_ALL_MASK, "C", (locale_t)0); /* static in glibc: costs nothing */
    double v = as_float ? (double)strtof_l(copy, NULL, c_locale) : strtod_l(copy, NULL, c_locale);
    freelocale(c_locale);
    if (copy != small)
        free(copy);
    return v;
}

double mint_num_double(const char *s, size_t n)
{
    struct parts r;
    n = take_apart(&r, s, n);
    if (r.mantissa == 0)
        return r.negative ? -0.0 : 0.0;
    if (r.exp10 == 0 && r.mantissa <= UINT64_C(1) << 53 && !r.cut)
        return r.negative ? -(double)r.mantissa : (double)r.mantissa;
    uint64_t c;
    int q;
    if (!round_parts(&r, 53, &c, &q))
        return slow_read(s, n, false);
    q += (int)(c >> 53);
    c >>= c >> 53;
    int exponent = q + 52 + 1023;
    if (exponent < 1 || exponent > 2046)
        return slow_read(s, n, false);
    uint64_t bits = (uint64_t)r.negative << 63 | (uint64_t)exponent << 52 | (c & 0xfffffffffffff);
    double v;
    memcpy(&v, &bits, sizeof v);
    return v;
}

/*
 * Most texts in a quick way: as a double, whose error is below 3 units in its last place (mantissa,
 * power of ten and division each add at most one), the value says which float is nearest unless it
 * lies within that error of the middle between two floats. False where it does, and outside of the
 * normal floats.
 */
static bool quick_float(const struct parts *r, float *v)
{
    static const double tens[] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,
                                  1e8,  1e9,  1e10, 1e11, 1e12, 1e13, 1e14, 1e15,
                                  1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};
    if (r->exp10 > 0 || r->exp10 < -22)
        return false;
    double d = (double)r->mantissa / tens[-r->exp10];
    uint64_t bits;
    memcpy(&bits, &d, sizeof bits);
    uint64_t to_middle = (bits & 0x1fffffff) - (0x10000000 - 4);
    if (to_middle <= 8 || d < 0x1p-126 || d > 0x1p127)
        return false;
    *v = r->negative ? -(float)d : (float)d;
    return true;
}

static float round_float(const struct parts *r, const char *s, size_t n)
{
    float v;
    if (quick_float(r, &v))
        return v;
    if (r->mantissa == 0)
        return r->negative ? -0.0f : 0.0f;
    uint64_t c;
    int q;
    if (!round_parts(r, 24, &c, &q))
        return (float)slow_read(s, n, true);
    q += (int)(c >> 24);
    c >>= c >> 24;
    int exponent = q + 23 + 127;
    if (exponent < 1 || exponent > 254)
        return (float)slow_read(s, n, true);
    uint32_t bits =
        (uint32_t)r->negative << 31 | (uint32_t)exponent << 23 | ((uint32_t)c & 0x7fffff);
    memcpy(&v, &bits, sizeof v);
    return v;
}

size_t mint_num_read_float(const char *s, size_t n, float *v)
{
    struct parts r;
    size_t used = take_apart(&r, s, n);
    *v = round_float(&r, s, used);
    return used;
}

float mint_num_float(const char *s, size_t n)
{
    float v;
    mint_num_read_float(s, n, &v);
    return v;
}

bool mint_num_int(const char *s, size_t n, int64_t *v)
{
    const char *p = s, *end = s + n;
    bool negative = p < end && *p == '-';
    uint64_t u = 0;
    p += negative;
    if (p == end)
        return false;
    for (; p < end; p++) {
        if (!is_digit(*p) || u > (uint64_t)INT64_MAX / 10)
            return false;
        u = 10 * u + (uint64_t)(*p - '0');
        if (u > (uint64_t)INT64_MAX + negative)
            return false;
    }
    *v = (int64_t)(negative ? -u : u);
    return true;
}

/* --- options */

static const struct {
    const char *suffix;
    int64_t factor;
} units[] = {
    {"", 1},          {"K", 1000},      {"M", 1000000},   {"G", 1000000000},
    {"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30},
};

/* The whole number at the start and the factor of what follows: 0 if either is none. */
static size_t arg_int(const char *s, int64_t *factor)
{
    size_t n = s[0] == '-';
    if (!is_digit(s[n]))
        return 0;
    while (is_digit(s[n]))
        n++;
    for (size_t i = 0; i < MINT_ARRAY_LEN(units); i++) {
        *factor = units[i].factor;
        if (strcmp(s + n, units[i].suffix) == 0)
            return n;
    }
    return 0;
}

bool mint_num_arg_is_int(const char *s)
{
    int64_t factor;
    return arg_int(s, &factor) > 0;
}

bool mint_num_arg_int(const char *s, int64_t *v)
{
    int64_t number, factor, product;
    size_t n = arg_int(s, &factor);
    if (!n || !mint_num_int(s, n, &number) || __builtin_mul_overflow(number, factor, &product))
        return false;
    *v = product;
    return true;
}

bool mint_num_arg_double(const char *s, double *v)
{
    /* people write .5 and 5. on a command line, which JSON's grammar has not: put the missing zeros
     * in */
    char text[2 * 300 + 8], *t = text;
    if (strlen(s) > 300)
        return false;
    if (*s == '-')
        *t++ = *s++;
    if (*s == '.' && is_digit(s[1]))
        *t++ = '0';
    while (s[0] == '0' && is_digit(s[1]))
        s++;
    for (; *s; s++) {
        *t++ = *s;
        if (*s == '.' && !is_digit(s[1]))
            *t++ = '0';
    }
    bool is_int;
    size_t n = (size_t)(t - text);
    if (n == 0 || mint_num_scan(text, n, &is_int) != n)
        return false;
    double d = mint_num_double(text, n);
    if (__builtin_isinf(d))
        return false;
    *v = d;
    return true;
}

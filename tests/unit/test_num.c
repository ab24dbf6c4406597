/* SPDX-License-Identifier: Apache-2.0 */
/* The C library's printf and strtod, slow and exact, are the witnesses. */
#include "num.h"

#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "num_pow10.h"

static uint64_t rng_state = 88172645463325252u;

static uint64_t next_random(void)
{
    rng_state ^= rng_state << 13;
    rng_state ^= rng_state >> 7;
    rng_state ^= rng_state << 17;
    return rng_state * UINT64_C(2685821657736338717);
}

static float float_of(uint32_t bits)
{
    float v;
    memcpy(&v, &bits, sizeof v);
    return v;
}

static double double_of(uint64_t bits)
{
    double v;
    memcpy(&v, &bits, sizeof v);
    return v;
}

static uint32_t float_bits(float v)
{
    uint32_t bits;
    memcpy(&bits, &v, sizeof bits);
    return bits;
}

static uint64_t double_bits(double v)
{
    uint64_t bits;
    memcpy(&bits, &v, sizeof bits);
    return bits;
}

/* --- the table of powers, computed again with plain long arithmetic */

#define LIMBS 40
struct big {
    uint32_t limb[LIMBS];
};

static void times(struct big *b, uint32_t factor)
{
    uint64_t carry = 0;
    for (int i = 0; i < LIMBS; i++) {
        carry += (uint64_t)b->limb[i] * factor;
        b->limb[i] = (uint32_t)carry;
        carry >>= 32;
    }
    assert_int_equal(carry, 0);
}

static int compare(const struct big *a, const struct big *b)
{
    for (int i = LIMBS - 1; i >= 0; i--) {
        if (a->limb[i] != b->limb[i])
            return a->limb[i] < b->limb[i] ? -1 : 1;
    }
    return 0;
}

static void subtract(struct big *a, const struct big *b)
{
    int64_t borrow = 0;
    for (int i = 0; i < LIMBS; i++) {
        borrow += (int64_t)a->limb[i] - b->limb[i];
        a->limb[i] = (uint32_t)borrow;
        borrow >>= 32;
    }
}

static struct big power_of_ten(int n)
{
    struct big b = {{1}};
    while (n-- > 0)
        times(&b, 10);
    return b;
}

/* The first 128 bits of num / den, rounded up. */
static unsigned __int128 quotient(struct big num, struct big den)
{
    const struct big zero = {{0}};
    unsigned __int128 q = 0;
    while (compare(&num, &den) >= 0)
        times(&den, 2);
    while (q >> 127 == 0) {
        times(&num, 2);
        bool bit = compare(&num, &den) >= 0;
        if (bit)
            subtract(&num, &den);
        q = q << 1 | bit;
    }
    return q + (compare(&num, &zero) != 0);
}

static void powers_are_right(void **state)
{
    (void)state;
    for (int k = MINT_POW10_MIN; k <= MINT_POW10_MAX; k++) {
        unsigned __int128 q = k < 0 ? quotient(power_of_ten(0), power_of_ten(-k))
                                    : quotient(power_of_ten(k), power_of_ten(0));
        const uint64_t *g = mint_pow10[k - MINT_POW10_MIN];
        assert_true(g[0] == (uint64_t)(q >> 64) && g[1] == (uint64_t)q);
    }
}

/* --- printing */

static void check_grammar(const char *s, int n)
{
    bool is_int;
    assert_int_equal(strlen(s), n);
    assert_true(n < MINT_NUM_MAX);
    assert_int_equal(mint_num_scan(s, (size_t)n, &is_int), n);
}

/* Significant digits of a printed number, without the zeros at both ends. */
static int count_digits(const char *s)
{
    int n = 0, zeros = 0;
    for (; *s && *s != 'e'; s++) {
        if (*s < '0' || *s > '9' || (n == 0 && *s == '0'))
            continue;
        n++;
        zeros = *s == '0' ? zeros + 1 : 0;
    }
    return n - zeros;
}

/* Whether some text of that many digits reads back: the nearest one, or one of its neighbours. */
static bool some_text_reads_back(double v, bool as_float, int digits)
{
    char text[64];
    snprintf(text, sizeof text, "%.*e", digits - 1, v);
    char *e = strchr(text, 'e'), *last = e - 1;
    for (int step = -1; step <= 1; step++) {
        char trial[64];
        memcpy(trial, text, sizeof text);
        trial[last - text] =
            (char)(*last + step); /* ':' and '/' read back as nothing, which is fine */
        double back = as_float ? (double)strtof(trial, NULL) : strtod(trial, NULL);
        if (back == v)
            return true;
    }
    return false;
}

static void check_shortest(double v, bool as_float, const char *s)
{
    int digits = count_digits(s);
    char nearest[64];
    if (digits > 1 && some_text_reads_back(v, as_float, digits - 1))
        fail_msg("%s (%a) has a digit too many", s, v);
    /* of the texts of that length it is the nearest, unless only a farther one reads back */
    snprintf(nearest, sizeof nearest, "%.*e", digits - 1, v);
    double back = as_float ? (double)strtof(nearest, NULL) : strtod(nearest, NULL);
    if (back == v && strtold(nearest, NULL) != strtold(s, NULL))
        fail_msg("%s is not nearest to %a: %s", s, v, nearest);
}

static void check_float(float v)
{
    char s[MINT_NUM_MAX];
    int n = mint_num_print_float(s, v);
    check_grammar(s, n);
    if (float_bits(strtof(s, NULL)) != float_bits(v) ||
        float_bits(mint_num_float(s, (size_t)n)) != float_bits(v))
        fail_msg("%s does not read back to %a", s, (double)v);
    check_shortest((double)v, true, s);
}

static void check_double(double v)
{
    char s[MINT_NUM_MAX];
    int n = mint_num_print_double(s, v);
    check_grammar(s, n);
    if (double_bits(strtod(s, NULL)) != double_bits(v) ||
        double_bits(mint_num_double(s, (size_t)n)) != double_bits(v))
        fail_msg("%s does not read back to %a", s, v);
    check_shortest(v, false, s);
}

static void floats_are_shortest_and_read_back(void **state)
{
    (void)state;
    for (uint32_t e = 0; e < 255; e++) { /* all powers of two and their neighbours */
        for (uint32_t m = 0; m < 4; m++) {
            check_float(float_of(e << 23 | m));
            check_float(float_of(e << 23 | (0x7fffff - m)));
        }
    }
    for (int i = 0; i < 100000; i++) {
        uint32_t bits = (uint32_t)next_random();
        if ((bits >> 23 & 0xff) != 255)
            check_float(float_of(bits));
        check_float(-(float)(next_random() >> 40) * 0x1p-22f); /* as log-probabilities are */
    }
}

static void doubles_are_shortest_and_read_back(void **state)
{
    (void)state;
    for (uint64_t e = 0; e < 2047; e++) {
        check_double(double_of(e << 52));
        check_double(double_of(e << 52 | 1));
        check_double(double_of(e << 52 | 0xfffffffffffff));
    }
    for (int i = 0; i < 100000; i++) {
        uint64_t bits = next_random();
        if ((bits >> 52 & 0x7ff) != 2047)
            check_double(double_of(bits));
        check_double((double)(int64_t)(next_random() >> 30) / 1000.0);
    }
}

static void texts_look_as_promised(void **state)
{
    (void)state;
    static const struct {
        double v;
        const char *text;
    } cases[] = {
        {0, "0"},
        {-0.0, "-0"},
        {1, "1"},
        {-3, "-3"},
        {0.5, "0.5"},
        {-0.11, "-0.11"},
        {100, "100"},
        {12345678, "12345678"},
        {0.001, "0.001"},
        {0.0001, "0.0001"},
        {0.00001, "1e-05"},
        {1e-9, "1e-09"},
        {1.5e-7, "1.5e-07"},
        {123456.789, "123456.789"},
        {1e14, "100000000000000"},
        {999999999999999, "999999999999999"},
        {1e15, "1e+15"},
        {1e22, "1e+22"},
        {1e23, "1e+23"},
        {9007199254740993.0, "9.007199254740992e+15"},
        {5e-324, "5e-324"},
        {DBL_MAX, "1.7976931348623157e+308"},
        {-DBL_MIN, "-2.2250738585072014e-308"},
        {0.1, "0.1"},
        {0.1 + 0.2, "0.30000000000000004"},
        {2.0 / 3.0, "0.6666666666666666"},
    };
    char s[MINT_NUM_MAX];
    for (size_t i = 0; i < MINT_ARRAY_LEN(cases); i++) {
        mint_num_print_double(s, cases[i].v);
        assert_string_equal(s, cases[i].text);
    }
    static const struct {
        float v;
        const char *text;
    } floats[] = {
        {0.1f, "0.1"},
        {-0.0f, "-0"},
        {16777216.0f, "16777216"},
        {33554432.0f, "33554432"},
        {1e10f, "10000000000"},
        {3.4028235e38f, "3.4028235e+38"},
        {1e-45f, "1e-45"},
        {-1e-5f, "-1e-05"},
        {0.33333334f, "0.33333334"},
        {1.0f, "1"},
        {-7.0f, "-7"},
        {1.17549435e-38f, "1.1754944e-38"},
    };
    for (size_t i = 0; i < MINT_ARRAY_LEN(floats); i++) {
        mint_num_print_float(s, floats[i].v);
        assert_string_equal(s, floats[i].text);
    }
}

static void integers_print(void **state)
{
    (void)state;
    static const int64_t cases[] = {0,         1,         -1,        9,        10,    99,
                                    100,       101,       999,       1000,     65535, -65536,
                                    INT32_MAX, INT32_MIN, INT64_MAX, INT64_MIN};
    char s[MINT_NUM_MAX], want[MINT_NUM_MAX];
    for (size_t i = 0; i < MINT_ARRAY_LEN(cases); i++) {
        snprintf(want, sizeof want, "%lld", (long long)cases[i]);
        assert_int_equal(mint_num_print_int(s, cases[i]), strlen(want));
        assert_string_equal(s, want);
    }
    for (int i = 0; i < 10000; i++) {
        int64_t v = (int64_t)next_random() >> (i % 64);
        snprintf(want, sizeof want, "%lld", (long long)v);
        mint_num_print_int(s, v);
        assert_string_equal(s, want);
    }
}

/* --- reading */

static void scan_follows_the_grammar(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        size_t n;
        bool is_int;
    } cases[] = {
        {"0", 1, true},          {"-0", 2, true},
        {"10,", 2, true},        {"1.5]", 3, false},
        {"1e5", 3, false},       {"1E+05 ", 5, false},
        {"-1.0e-10}", 8, false}, {"123456789012345678901", 21, true},
        {"", 0, true},           {"-", 0, true},
        {"01", 0, true},         {"-01", 0, true},
        {"1.", 0, true},         {".5", 0, true},
        {"+1", 0, true},         {"1e", 0, true},
        {"1e+", 0, true},        {"1.e5", 0, true},
        {"NaN", 0, true},        {"Infinity", 0, true},
        {"-Infinity", 0, true},  {"00", 0, true},
        {"0x10", 1, true},       {"1_000", 1, true},
    };
    for (size_t i = 0; i < MINT_ARRAY_LEN(cases); i++) {
        bool is_int = false;
        size_t n = mint_num_scan(cases[i].text, strlen(cases[i].text), &is_int);
        if (n != cases[i].n || (n > 0 && is_int != cases[i].is_int))
            fail_msg("'%s': %zu", cases[i].text, n);
    }
    bool is_int;
    assert_int_equal(mint_num_scan("1.5", 1, &is_int), 1); /* does not look behind n */
    assert_int_equal(mint_num_scan("1.5", 2, &is_int), 0);
}

static void check_reading(const char *s)
{
    size_t n = strlen(s);
    char *exact = malloc(n); /* without a '\0' behind: reading it would be seen */
    memcpy(exact, s, n);
    if (double_bits(mint_num_double(exact, n)) != double_bits(strtod(s, NULL)))
        fail_msg("%s read as double %a, not %a", s, mint_num_double(exact, n), strtod(s, NULL));
    if (float_bits(mint_num_float(exact, n)) != float_bits(strtof(s, NULL)))
        fail_msg("%s read as float %a, not %a", s, (double)mint_num_float(exact, n),
                 (double)strtof(s, NULL));
    free(exact);
}

static void hard_texts_read_exactly(void **state)
{
    (void)state;
    static const char *const cases[] = {
        "0",
        "-0",
        "0.0",
        "0e999999999999999999",
        "-0.000",
        "1",
        "9007199254740993",
        "9007199254740992",
        "9007199254740993.0000000000000000000001",
        "16777217",
        "16777217.0000000001",
        "16777219",
        "0.1",
        "1e22",
        "1e23",
        "8.5e22",
        "1e400",
        "-1e400",
        "1e-400",
        "1e99999999999999999999",
        "1e-99999999999999999999",
        "2.4703282292062327e-324",
        "2.4703282292062328e-324",
        "4.9e-324",
        "1.7976931348623157e308",
        "1.7976931348623158e308",
        "1.7976931348623159e308",
        "2.2250738585072011e-308",
        "2.2250738585072012e-308",
        "2.2250738585072014e-308",
        "3.4028235677973366e38",
        "3.4028235677973365e38",
        "3.4028236e38",
        "7.0064923216240853e-46",
        "7.0064923216240854e-46",
        "1.1754942807573643e-38",
        "1.1754943508222875e-38",
        "1.00000005960464477539062",
        "1.000000059604644775390625",
        "1.00000005960464477539063",
        "0.000000000000000000000000000000000000011754943508222875",
        "123456789012345678901234567890",
        "18446744073709551615",
        "18446744073709551616",
        "9999999999999999999",
        "99999999999999999999",
        "5e-324",
        "1.00000000000000011102230246251565404236316680908203125",
        "1.00000000000000011102230246251565404236316680908203124",
        "1.00000000000000011102230246251565404236316680908203126",
        "0.500000000000000166533453693773481063544750213623046875",
    };
    for (size_t i = 0; i < MINT_ARRAY_LEN(cases); i++)
        check_reading(cases[i]);
}

static void random_texts_read_exactly(void **state)
{
    (void)state;
    char s[128];
    for (int i = 0; i < 100000; i++) {
        int digits = 1 + (int)(next_random() % 25), point = (int)(next_random() % 26), n = 0;
        if (next_random() & 1)
            s[n++] = '-';
        s[n++] = (char)('1' + next_random() % 9);
        for (int k = 1; k < digits; k++) {
            if (k == point)
                s[n++] = '.';
            s[n++] = (char)('0' + next_random() % 10);
        }
        s[n] = '\0';
        if (next_random() & 1) {
            static const int spread[] = {10, 40, 330};
            int wide = spread[next_random() % 3];
            snprintf(s + n, sizeof s - (size_t)n, "e%d",
                     (int)(next_random() % (unsigned)(2 * wide)) - wide);
        }
        check_reading(s);
    }
}

static void midpoints_read_exactly(void **state)
{
    (void)state;
    char s[400];
    for (int i = 0; i < 3000; i++) {
        /* the text of a point halfway between two floats, and texts just beside it */
        uint32_t bits = (uint32_t)next_random() & 0x7fffffff;
        if (bits >> 23 >= 254)
            continue;
        double mid = ((double)float_of(bits) + (double)float_of(bits + 1)) / 2;
        snprintf(s, sizeof s, "%.160e", mid);
        check_reading(s);
        s[100]++; /* digits there may be 9: ':' is no digit, so only where it is one */
        if (s[100] <= '9')
            check_reading(s);
        snprintf(s, sizeof s, "%.17e", mid);
        check_reading(s);
    }
}

static void very_long_texts(void **state)
{
    (void)state;
    size_t n = 100000;
    char *s = malloc(n + 32);
    memset(s, '0', n);
    s[1] = '.';
    memcpy(s + n, "1e99999", 8); /* 0.000...01e99999: the zeros and the exponent cancel */
    check_reading(s);
    memset(s, '9', n);
    snprintf(s + n, 32, "e-%zu", n - 3);
    check_reading(s);
    free(s);
}

static void int_is_exact(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        bool ok;
        int64_t v;
    } cases[] = {
        {"0", true, 0},
        {"-0", true, 0},
        {"151643", true, 151643},
        {"-100", true, -100},
        {"9223372036854775807", true, INT64_MAX},
        {"-9223372036854775808", true, INT64_MIN},
        {"9223372036854775808", false, 0},
        {"-9223372036854775809", false, 0},
        {"18446744073709551617", false, 0},
        {"1.0", false, 0},
        {"1e3", false, 0},
        {"-", false, 0},
    };
    for (size_t i = 0; i < MINT_ARRAY_LEN(cases); i++) {
        int64_t v = 42;
        bool ok = mint_num_int(cases[i].text, strlen(cases[i].text), &v);
        assert_int_equal(ok, cases[i].ok);
        assert_true(v == (ok ? cases[i].v : 42));
    }
}

static void option_values(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int64_t v;
    } good[] = {{"0", 0},       {"16", 16},        {"-1", -1},
                {"4K", 4000},   {"2M", 2000000},   {"1G", 1000000000},
                {"4KiB", 4096}, {"3MiB", 3 << 20}, {"8GiB", INT64_C(8) << 30},
                {"007", 7}};
    static const char *const bad[] = {"",
                                      "-",
                                      "x",
                                      "1x",
                                      "1.5",
                                      "1e3",
                                      "0x10",
                                      " 1",
                                      "1 ",
                                      "1k",
                                      "1KB",
                                      "9223372036854775807K",
                                      "99999999999999999999",
                                      "--1",
                                      "+1",
                                      "1Ki"};
    int64_t v;
    for (size_t i = 0; i < MINT_ARRAY_LEN(good); i++) {
        assert_true(mint_num_arg_int(good[i].text, &v));
        assert_true(v == good[i].v);
    }
    for (size_t i = 0; i < MINT_ARRAY_LEN(bad); i++) {
        v = 42;
        if (mint_num_arg_int(bad[i], &v) || v != 42)
            fail_msg("'%s' was taken", bad[i]);
    }
    static const struct {
        const char *text;
        double v;
    } reals[] = {{"0.8", 0.8}, {".5", 0.5},   {"-.5", -0.5}, {"5.", 5},    {"1e-4", 1e-4},
                 {"-1", -1},   {"2E+3", 2e3}, {"00.5", 0.5}, {"5.e1", 50}, {"0", 0}};
    static const char *const unreal[] = {"",    "-",     ".",     "e5",    "1e",  "nan",
                                         "inf", "1e999", "1.2.3", "0x1p3", "1,5", " 1",
                                         "1 ",  "+1",    "-.",    "1e5.",  "--1"};
    double d;
    for (size_t i = 0; i < MINT_ARRAY_LEN(reals); i++) {
        if (!mint_num_arg_double(reals[i].text, &d) || d != reals[i].v)
            fail_msg("'%s'", reals[i].text);
    }
    for (size_t i = 0; i < MINT_ARRAY_LEN(unreal); i++) {
        d = 42;
        if (mint_num_arg_double(unreal[i], &d) || d != 42)
            fail_msg("'%s' was taken", unreal[i]);
    }
    char longest[400];
    memset(longest, '1', sizeof longest - 1);
    longest[sizeof longest - 1] = '\0';
    assert_false(mint_num_arg_double(longest, &d));
    memset(longest, '.', sizeof longest - 1);
    longest[300] = '\0';
    assert_false(mint_num_arg_double(longest, &d));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(powers_are_right),
        cmocka_unit_test(floats_are_shortest_and_read_back),
        cmocka_unit_test(doubles_are_shortest_and_read_back),
        cmocka_unit_test(texts_look_as_promised),
        cmocka_unit_test(integers_print),
        cmocka_unit_test(scan_follows_the_grammar),
        cmocka_unit_test(hard_texts_read_exactly),
        cmocka_unit_test(random_texts_read_exactly),
        cmocka_unit_test(midpoints_read_exactly),
        cmocka_unit_test(very_long_texts),
        cmocka_unit_test(int_is_exact),
        cmocka_unit_test(option_values),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "json.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "num.h"
#include "zio.h"

static int setup(void **state)
{
    *state = mint_json_new();
    return 0;
}

static int teardown(void **state)
{
    mint_json_free(*state);
    return 0;
}

/* Parses a copy of exactly that size, so that a read behind the end is seen. */
static int parse(struct mint_json *j, const char *text, size_t n, struct mint_err *err)
{
    static char *copy;
    free(copy);
    copy = NULL;
    if (!text)
        return 0;
    copy = malloc(n ? n : 1);
    memcpy(copy, text, n);
    return mint_json_parse(j, copy, n, err);
}

static void parse_ok(struct mint_json *j, const char *text)
{
    struct mint_err err;
    if (parse(j, text, strlen(text), &err) != 0)
        fail_msg("%s: %s", text, err.msg);
}

struct text {
    const char *s;
    size_t n;
};
#define T(s)             \
    {                    \
        s, sizeof(s) - 1 \
    }

static void valid_texts_are_taken(void **state)
{
    static const struct text cases[] = {
        T("0"),
        T("-0"),
        T(" 1 "),
        T("\t\r\n1.5e-3\n"),
        T("true"),
        T("false"),
        T("null"),
        T("\"\""),
        T("[]"),
        T("{}"),
        T("[ ]"),
        T("{ }"),
        T("[[]]"),
        T("[{}]"),
        T("[1,2,3]"),
        T("[ 1 , 2 ]"),
        T("[1,null,2]"),
        T("[1,\"a\"]"),
        T("[[1],[2,3],[]]"),
        T("{\"a\":1}"),
        T("{\"a\" : [1] , \"b\":{}}"),
        T("{\"\":0}"),
        T("{\"a\":{\"a\":1}}"),
        T("[\"\\u00e9\\n\\\"\\\\\\/\\b\\f\\r\\t\"]"),
        T("\"\\ud83d\\ude00\""),
        T("\"\\u0000\""),
        T("\"\\uDBFF\\uDFFF\""),
        T("\"\x7f\xc2\x80\""),
        T("\"\xe0\xa0\x80\xed\x9f\xbf\xee\x80\x80\xef\xbf\xbf\xf0\x90\x80\x80\xf4\x8f\xbf\xbf\""),
        T("\"\xe2\x80\xa8\xe2\x80\xa9\xc2\x85\""),
        T("[-1,-0.5,1E5,1e+5]"),
        T("[9223372036854775808]"),
        T("{\"a\":1,\"A\":2,\"\\u0061b\":3}"),
    };
    struct mint_err err;
    for (size_t i = 0; i < MINT_ARRAY_LEN(cases); i++) {
        if (parse(*state, cases[i].s, cases[i].n, &err) != 0)
            fail_msg("refused %s: %s", cases[i].s, err.msg);
    }
}

static void invalid_texts_are_refused(void **state)
{
    static const struct {
        const char *s;
        size_t n;
        size_t column;
    } cases[] = {
#define E(s, column) {s, sizeof(s) - 1, column}
        E("", 1),
        E("   ", 4),
        E("{", 2),
        E("[", 2),
        E("[1", 3),
        E("[1,", 4),
        E("{\"a\"", 5),
        E("{\"a\":", 6),
        E("{\"a\":1", 7),
        E("{\"a\":1,", 8),
        E("]", 1),
        E("}", 1),
        E(",", 1),
        E(":", 1),
        E("[1}", 3),
        E("{\"a\":1]", 7),
        E("[1 2]", 4),
        E("[1,,2]", 4),
        E("[1,]", 4),
        E("[,1]", 2),
        E("[,]", 2),
        E("{,}", 2),
        E("{\"a\":1,}", 8),
        E("{\"a\" 1}", 6),
        E("{\"a\",1}", 5),
        E("{\"a\"}", 5),
        E("{\"a\":}", 6),
        E("{\"a\"::1}", 6),
        E("{\"a\":1 \"b\":2}", 8),
        E("{\"a\":1,,\"b\":2}", 8),
        E("{1:2}", 2),
        E("{null:1}", 2),
        E("{a:1}", 2),
        E("{'a':1}", 2),
        E("['a']", 2),
        E("{[1]:2}", 2),
        E("{\"a\":1:2}", 7),
        E("[\"a\":1]", 5),
        E("{\"a\":\"b\":\"c\"}", 9),
        E("nul", 1),
        E("nulL", 1),
        E("True", 1),
        E("truefalse", 5),
        E("nullx", 5),
        E("NaN", 1),
        E("Infinity", 1),
        E("-Infinity", 1),
        E("undefined", 1),
        E("01", 1),
        E("-", 1),
        E("+1", 1),
        E("1.", 1),
        E(".5", 1),
        E("1e", 1),
        E("1e+", 1),
        E("0x10", 2),
        E("1_0", 2),
        E("--1", 1),
        E("[01]", 2),
        E("[1.]", 2),
        E("[1,2,03]", 6),
        E("[1,2,+3]", 6),
        E("[1,2,NaN]", 6),
        E("[1,2 3]", 6),
        E("[1,2,3", 7),
        E("1 2", 3),
        E("{} {}", 4),
        E("[] ]", 4),
        E("{}x", 3),
        E("[1]]", 4),
        E("\"a", 3),
        E("\"", 2),
        E("\"a\\\"", 5),
        E("\"\\", 2),
        E("\"\\x\"", 2),
        E("\"\\u12\"", 2),
        E("\"\\u12g4\"", 2),
        E("\"\\u", 2),
        E("\"\\ud800\"", 2),
        E("\"\\udc00\"", 2),
        E("\"\\ud800\\u0041\"", 2),
        E("\"\\udc00\\ud800\"", 2),
        E("\"\\ud800\\ud800\"", 2),
        E("\"\\ud83d\\ude0\"", 2),
        E("\"\\ud83d\\n\"", 2),
        E("\"a\nb\"", 3),
        E("\"\t\"", 2),
        E("\"\0\"", 2),
        E("\"\x1f\"", 2),
        E("\0", 1),
        E("{}\0", 3),
        E("[1,\0]", 4),
        E("\"\x80\"", 2),
        E("\"\xc0\x80\"", 2),
        E("\"\xc1\xbf\"", 2),
        E("\"\xc3\"", 2),
        E("\"\xc3\x28\"", 2),
        E("\"\xe0\x80\x80\"", 2),
        E("\"\xe0\x9f\xbf\"", 2),
        E("\"\xed\xa0\x80\"", 2),
        E("\"\xed\xbf\xbf\"", 2),
        E("\"\xe2\x82\"", 2),
        E("\"\xf0\x80\x80\x80\"", 2),
        E("\"\xf0\x8f\xbf\xbf\"", 2),
        E("\"\xf4\x90\x80\x80\"", 2),
        E("\"\xf5\x80\x80\x80\"", 2),
        E("\"\xff\"", 2),
        E("\"12345678\x80\"", 10),
        E("\"1234567890\n\"", 12),
        E("\xef\xbb\xbf{}", 1),
        E("[1,2]//x", 6),
        E("/* x */ 1", 1),
        E("[1,/**/2]", 4),
        E("\xc2\xa0[]", 1),
        E("\f[]", 1),
        E("{\"a\":1,\"a\":2}", 8),
        E("{\"a\":1,\"\\u0061\":2}", 8),
        E("[{\"x\":{\"k\":1,\"k\":1}}]", 14),
        E("{\"\":1,\"\":2}", 7),
        E("{\"\\ud83d\\ude00\":1,\"\xf0\x9f\x98\x80\":2}", 19),
        E("\"\xf0\x9f\x98", 2),
        E("[\"a\",\"b\" \"c\"]", 10),
        E("{\"a\":tru}", 6),
        E("[1,2,3}", 7),
    };
    struct mint_err err;
    for (size_t i = 0; i < MINT_ARRAY_LEN(cases); i++) {
        char want[32];
        snprintf(want, sizeof want, "column %zu: ", cases[i].column);
        if (parse(*state, cases[i].s, cases[i].n, &err) != -1)
            fail_msg("case %zu was taken: %s", i, cases[i].s);
        assert_int_equal(err.code, MINT_EFORMAT);
        if (strncmp(err.msg, want, strlen(want)) != 0)
            fail_msg("%s: '%s' is not at column %zu", cases[i].s, err.msg, cases[i].column);
        assert_int_equal(mint_json_type(*state, 0), MINT_JSON_ABSENT);
    }
}

static void messages_say_what_is_wrong(void **state)
{
    static const char *const cases[][2] = {
        {"{\"a\":NaN}", "column 6: 'NaN' is no JSON value"},
        {"[1 2]", "column 4: expected ',' or ']', found '2'"},
        {"[1,2", "column 5: expected ',' or ']', but the text ends here"},
        {"{\"a\":007}", "column 6: '007' is no JSON number"},
        {"{\"a\" 1}", "column 6: expected ':' after the key, found '1'"},
        {"{'a':1}", "column 2: expected a key in double quotes, found '''"},
        {"{} x", "column 4: expected the end of the line after the value, found 'x'"},
        {"{\"a\":1,\"a\":2}", "column 8: key \"a\" is there twice"},
        {"\"a\tb\"", "column 3: raw control byte in a string; it must be escaped"},
        {"\xef\xbb\xbf{}", "column 1: expected a value, found byte 0xef"},
    };
    struct mint_err err;
    for (size_t i = 0; i < MINT_ARRAY_LEN(cases); i++) {
        assert_int_equal(parse(*state, cases[i][0], strlen(cases[i][0]), &err), -1);
        assert_string_equal(err.msg, cases[i][1]);
    }
}

static void every_cut_and_every_changed_byte(void **state)
{
    static const char text[] =
        "{\"id\":\"a\\u00e9\xc3\xa9\",\"t\":[1,-2.5e3],\"m\":[null,{\"x\":[]},true],\"e\":{}}";
    struct mint_err err;
    size_t n = strlen(text);
    parse_ok(*state, text);
    for (size_t i = 0; i < n; i++)
        assert_int_equal(parse(*state, text, i, &err), -1);
    for (size_t i = 0; i < n; i++) {
        char changed[sizeof text];
        for (int c = 0; c < 256; c++) {
            memcpy(changed, text, sizeof text);
            changed[i] = (char)c;
            parse(*state, changed, n, &err); /* either is fine, a crash is not */
        }
    }
}

static char *nested(size_t depth, char open, char close, const char *inside)
{
    size_t k = strlen(inside);
    char *s = malloc(2 * depth + k + 1);
    memset(s, open, depth);
    memcpy(s + depth, inside, k);
    memset(s + depth + k, close, depth);
    s[2 * depth + k] = '\0';
    return s;
}

static void depth_is_limited(void **state)
{
    static const size_t good[] = {1, 64, MINT_JSON_DEPTH},
                        bad[] = {MINT_JSON_DEPTH + 1, 60000, 1000000};
    static const char *const inside[] = {"null", "1", "", "1,2"};
    struct mint_err err;
    for (size_t i = 0; i < MINT_ARRAY_LEN(good) * MINT_ARRAY_LEN(inside); i++) {
        char *s =
            nested(good[i % MINT_ARRAY_LEN(good)], '[', ']', inside[i / MINT_ARRAY_LEN(good)]);
        parse_ok(*state, s);
        free(s);
    }
    for (size_t i = 0; i < MINT_ARRAY_LEN(bad) * MINT_ARRAY_LEN(inside); i++) {
        char *s = nested(bad[i % MINT_ARRAY_LEN(bad)], '[', ']', inside[i / MINT_ARRAY_LEN(bad)]);
        assert_int_equal(parse(*state, s, strlen(s), &err), -1);
        assert_non_null(strstr(err.msg, "levels deep"));
        memset(s, '[', strlen(s));
        assert_int_equal(parse(*state, s, strlen(s), &err), -1);
        free(s);
    }
}

static mint_json_val at(struct mint_json *j, const char *key)
{
    return mint_json_get(j, 0, key);
}

static void values_are_found_and_typed(void **state)
{
    struct mint_json *j = *state;
    parse_ok(j, " {\"s\":\"x\\ny\",\"i\":-42,\"d\":2.50,\"t\":true,\"n\":null,\"a\":[1,2,3],\"o\":{"
                "\"k\":[]}, "
                "\"m\":[1,\"two\",{}]}");
    int64_t i = 0;
    double d = 0;
    bool b = false;
    size_t n;
    assert_int_equal(mint_json_type(j, 0), MINT_JSON_OBJECT);
    assert_int_equal(mint_json_size(j, 0), 8);
    assert_true(mint_json_int(j, at(j, "i"), &i) && i == -42);
    assert_true(mint_json_double(j, at(j, "i"), &d) && d == -42);
    assert_true(mint_json_double(j, at(j, "d"), &d) && d == 2.5);
    assert_true(mint_json_bool(j, at(j, "t"), &b) && b);
    assert_int_equal(mint_json_type(j, at(j, "n")), MINT_JSON_NULL);
    assert_int_equal(mint_json_type(j, at(j, "none")), MINT_JSON_ABSENT);
    assert_int_equal(at(j, "none"), MINT_JSON_NONE);
    char *s = mint_json_strdup(j, at(j, "s"));
    assert_string_equal(s, "x\ny");
    free(s);
    assert_memory_equal(mint_json_raw(j, at(j, "s"), &n), "\"x\\ny\"", 6);
    assert_int_equal(n, 6);
    assert_memory_equal(mint_json_raw(j, at(j, "d"), &n), "2.50", 4);
    assert_int_equal(n, 4);
    assert_memory_equal(mint_json_raw(j, at(j, "o"), &n), "{\"k\":[]}", 8);
    assert_int_equal(n, 8);
    assert_memory_equal(mint_json_raw(j, at(j, "a"), &n), "[1,2,3]", 7);
    assert_int_equal(mint_json_size(j, at(j, "a")), 3);
    assert_true(mint_json_is_numbers(j, at(j, "a")));
    assert_int_equal(mint_json_first(j, at(j, "a")), MINT_JSON_NONE);
    assert_false(mint_json_is_numbers(j, at(j, "m")));
    assert_int_equal(mint_json_size(j, at(j, "m")), 3);
    /* the wrong type changes nothing */
    i = 7;
    assert_false(mint_json_int(j, at(j, "d"), &i) || mint_json_int(j, at(j, "s"), &i) || i != 7);
    assert_false(mint_json_bool(j, at(j, "n"), &b) || mint_json_double(j, at(j, "s"), &d));
    assert_null(mint_json_strdup(j, at(j, "i")));
    assert_int_equal(mint_json_get(j, at(j, "a"), "k"), MINT_JSON_NONE);
    assert_int_equal(mint_json_size(j, at(j, "s")), 0);
}

static void walking_gives_order_keys_and_elements(void **state)
{
    struct mint_json *j = *state;
    static const char *const keys[] = {"a", "b\\u0020", "c"};
    parse_ok(j, "{\"a\":[{},[1],[null,[]],\"x\"],\"b\\u0020\":1,\"c\":{\"d\":{}}}");
    size_t i = 0, n;
    for (mint_json_val v = mint_json_first(j, 0); v != MINT_JSON_NONE;
         v = mint_json_next(j, v), i++) {
        const char *key = mint_json_key(j, v, &n);
        assert_int_equal(n, strlen(keys[i]));
        assert_memory_equal(key, keys[i], n);
    }
    assert_int_equal(i, 3);
    assert_true(mint_json_key_is(j, at(j, "b "), "b "));
    assert_false(mint_json_key_is(j, at(j, "b "), "b\\u0020"));
    static const enum mint_json_type types[] = {MINT_JSON_OBJECT, MINT_JSON_ARRAY, MINT_JSON_ARRAY,
                                                MINT_JSON_STRING};
    i = 0;
    for (mint_json_val v = mint_json_first(j, at(j, "a")); v != MINT_JSON_NONE;
         v = mint_json_next(j, v)) {
        assert_int_equal(mint_json_type(j, v), types[i++]);
        assert_null(mint_json_key(j, v, &n));
        assert_false(mint_json_key_is(j, v, ""));
    }
    assert_int_equal(i, 4);
    assert_int_equal(mint_json_next(j, 0), MINT_JSON_NONE);
    assert_int_equal(mint_json_next(j, MINT_JSON_NONE), MINT_JSON_NONE);
    assert_null(mint_json_raw(j, MINT_JSON_NONE, &n));
    assert_null(mint_json_key(j, 0, &n));
}

static void strings_are_unescaped(void **state)
{
    struct mint_json *j = *state;
    struct mint_buf b = MINT_BUF_INIT;
    parse_ok(j,
             "[\"\\\"\\\\\\/\\b\\f\\n\\r\\t\",\"\\u0000\",\"\\u00e9\\u20AC\\uD83D\\uDE00.\",\"\"]");
    static const struct text want[] = {T("\"\\/\b\f\n\r\t"), T("\0"),
                                       T("\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80."), T("")};
    size_t i = 0;
    for (mint_json_val v = mint_json_first(j, 0); v != MINT_JSON_NONE;
         v = mint_json_next(j, v), i++) {
        mint_buf_reset(&b);
        assert_true(mint_json_string(j, v, &b));
        assert_int_equal(b.len, want[i].n);
        assert_memory_equal(b.data, want[i].s, want[i].n + 1);
    }
    assert_null(mint_json_strdup(j, 2)); /* holds a NUL */
    mint_buf_release(&b);
}

static void ints_are_exact_to_2_53(void **state)
{
    struct mint_json *j = *state;
    static const struct {
        const char *text;
        bool ok;
    } cases[] = {{"9007199254740992", true},
                 {"9007199254740993", false},
                 {"-9007199254740992", true},
                 {"-9007199254740993", false},
                 {"18446744073709551617", false},
                 {"1e3", false},
                 {"1.0", false},
                 {"-0", true}};
    for (size_t i = 0; i < MINT_ARRAY_LEN(cases); i++) {
        int64_t v;
        parse_ok(j, cases[i].text);
        assert_int_equal(mint_json_int(j, 0, &v), cases[i].ok);
    }
    double d;
    parse_ok(j, "1e400");
    assert_false(mint_json_double(j, 0, &d));
    parse_ok(j, "1e-400");
    assert_true(mint_json_double(j, 0, &d) && d == 0);
}

/* The numbers that the elements s[0..n) of an array are by num.h's grammar, element for element; -1
 * if they are anything else. */
static int count_numbers(const char *s, size_t n)
{
    static const char space[] = " \t";
    size_t at = strspn(s, space);
    bool is_int;
    int count = 0;
    if (at == n)
        return 0;
    for (;; at++, count++) {
        at += strspn(s + at, space);
        size_t used = mint_num_scan(s + at, n - at, &is_int);
        at += used;
        at += strspn(s + at, space);
        if (used == 0 || (at < n && s[at] != ','))
            return -1;
        if (at == n)
            return count + 1;
    }
}

/* Every text of five characters, at changing distances from the start of an array. */
static void arrays_of_numbers_follow_the_grammar(void **state)
{
    static const char alphabet[] = "0197,.-+eE ";
    enum { LETTERS = sizeof alphabet - 1, LENGTH = 5, BEFORE = 40 };
    static const char lead[BEFORE + 1] = "-0.25,17,1e-7,  3,-2.5E+10,0,-0,1234567,";
    struct mint_json *j = *state;
    struct mint_err err;
    unsigned all = 1;
    for (int i = 0; i < LENGTH; i++)
        all *= LETTERS;
    for (unsigned k = 0; k < all; k++) {
        char text[1 + BEFORE + LENGTH + 2], *elements = text + 1;
        unsigned commas[] = {0, 6, 9, 14, 18, 27, 29, 32, BEFORE}, n = commas[k % 9];
        text[0] = '[';
        memcpy(elements, lead, n);
        for (unsigned i = 0, digits = k; i < LENGTH; i++, digits /= LETTERS)
            elements[n++] = alphabet[digits % LETTERS];
        elements[n] = '\0';
        int want = count_numbers(elements, n);
        memcpy(elements + n, "]", 2);
        int rc = mint_json_parse(j, text, n + 2, &err);
        if (rc != (want >= 0 ? 0 : -1))
            fail_msg("%s: %d", text, rc);
        if (rc == 0 && (!mint_json_is_numbers(j, 0) || mint_json_size(j, 0) != (size_t)want))
            fail_msg("%s: %zu numbers, not %d", text, mint_json_size(j, 0), want);
    }
}

static void bulk_readers(void **state)
{
    struct mint_json *j = *state;
    struct mint_err err;
    int32_t ints[4];
    float floats[4];
    parse_ok(j, "{\"t\":[ 1 ,\t-2,3 ],\"f\":[-0.11,1e-45,16777217,0]}");
    assert_int_equal(mint_json_ints(j, at(j, "t"), ints, 3, -10, 10, &err), 0);
    assert_true(ints[0] == 1 && ints[1] == -2 && ints[2] == 3);
    assert_int_equal(mint_json_floats(j, at(j, "t"), floats, SIZE_MAX, &err), 0);
    assert_true(floats[0] == 1 && floats[1] == -2 && floats[2] == 3);
    assert_int_equal(mint_json_floats(j, at(j, "f"), floats, 4, &err), 0);
    assert_true(floats[0] == -0.11f && floats[1] == 0x1p-149f && floats[2] == 16777216.0f &&
                floats[3] == 0);
    parse_ok(j, "[]");
    assert_int_equal(mint_json_ints(j, 0, ints, 0, 0, 10, &err), 0);
}

static void bulk_readers_name_the_place(void **state)
{
    struct mint_json *j = *state;
    struct mint_err err;
    int32_t ints[8];
    float floats[8];
    static const struct {
        const char *text;
        bool as_float;
        size_t n;
        const char *msg;
    } cases[] = {
        {"{\"a\":{\"t\":[1,-2]}}", false, 2, "a.t[1] (column 14) is -2, outside 0..100"},
        {"{\"a\":{\"t\":[1,101]}}", false, 2, "a.t[1] (column 14) is 101, outside 0..100"},
        {"{\"a\":{\"t\":[1,2]}}", false, 3, "a.t (column 11) has 2 values, 3 expected"},
        {"{\"a\":{\"t\":[1,2.5]}}", false, 2, "a.t[1] (column 14) is 2.5, not a whole number"},
        {"{\"a\":{\"t\":[1e2]}}", false, 1, "a.t[0] (column 12) is 1e2, not a whole number"},
        {"{\"a\":{\"t\":[18446744073709551617]}}", false, 1,
         "a.t[0] (column 12) is 18446744073709551617, outside 0..100"},
        {"{\"a\":{\"t\":[1,null]}}", false, 2, "a.t[1] (column 14) is null, not a number"},
        {"{\"a\":{\"t\":[1,[2]]}}", true, 2, "a.t[1] (column 14) is [2], not a number"},
        {"{\"a\":{\"t\":\"x\"}}", true, 2, "a.t (column 11) is no array of numbers"},
        {"{\"a\":{\"t\":{}}}", true, 2, "a.t (column 11) is no array of numbers"},
        {"{\"a\":{\"t\":[0,1e39]}}", true, 2,
         "a.t[1] (column 14) is 1e39, too large for a float32"},
    };
    for (size_t i = 0; i < MINT_ARRAY_LEN(cases); i++) {
        parse_ok(j, cases[i].text);
        mint_json_val v = mint_json_get(j, at(j, "a"), "t");
        int rc = cases[i].as_float ? mint_json_floats(j, v, floats, cases[i].n, &err)
                                   : mint_json_ints(j, v, ints, cases[i].n, 0, 100, &err);
        assert_int_equal(rc, -1);
        assert_int_equal(err.code, MINT_ESCHEMA);
        assert_string_equal(err.msg, cases[i].msg);
    }
    assert_int_equal(mint_json_ints(j, MINT_JSON_NONE, ints, 1, 0, 1, &err), -1);
}

static void paths_and_columns(void **state)
{
    struct mint_json *j = *state;
    struct mint_err err;
    parse_ok(j, "{\"x\":1, \"seq\":[{},{\"lp\":[[],[5]]}]}");
    mint_json_val v = mint_json_next(j, mint_json_first(j, at(j, "seq")));
    v = mint_json_next(j, mint_json_first(j, mint_json_get(j, v, "lp")));
    struct mint_buf b = MINT_BUF_INIT;
    mint_buf_adds(&b, "at ");
    mint_json_path(j, v, &b);
    assert_string_equal(b.data, "at seq[1].lp[1]");
    assert_int_equal(mint_json_column(j, v), 29);
    mint_buf_release(&b);
    assert_int_equal(mint_json_fail(j, v, &err, "is %s", "bad"), -1);
    assert_string_equal(err.msg, "seq[1].lp[1] (column 29) is bad");
    mint_json_fail(j, 0, &err, "is bad");
    assert_string_equal(err.msg, "(column 1) is bad");
}

static void writing(void **state)
{
    (void)state;
    struct mint_buf b = MINT_BUF_INIT;
    mint_json_put_string(&b, "a\"b\\c/\n\r\t\b\f\x01\x1f\x7f\0é", 17);
    assert_string_equal(b.data, "\"a\\\"b\\\\c/\\n\\r\\t\\b\\f\\u0001\\u001f\x7f\\u0000é\"");
    mint_buf_reset(&b);
    static const int32_t ints[] = {1, -2, INT32_MIN, INT32_MAX};
    static const float floats[] = {0, -0.0f, -0.11f, 1, 1e-9f, NAN, INFINITY};
    mint_json_put_ints(&b, ints, 4);
    mint_json_put_floats(&b, floats, 7);
    mint_json_put_ints(&b, ints, 0);
    mint_json_put_double(&b, 0.1);
    mint_json_put_double(&b, -(double)INFINITY);
    mint_json_put_int(&b, -5);
    mint_json_put_str(&b, "");
    assert_string_equal(
        b.data, "[1,-2,-2147483648,2147483647][0,-0,-0.11,1,1e-09,null,null][]0.1null-5\"\"");
    mint_buf_release(&b);
}

/* Broken UTF-8 becomes one U+FFFD for each part that begins like a character, as the Unicode
 * standard advises. */
static void broken_utf8_is_replaced(void **state)
{
    (void)state;
#define R "\xef\xbf\xbd"
    static const struct {
        struct text in;
        const char *out;
    } cases[] = {
        {T("\x80"), R},
        {T("a\xffz"), "a" R "z"},
        {T("\xe2\x82"), R},
        {T("\xe2\x82z"), R "z"},
        {T("\xf0\x9f\x98"), R},
        {T("\xf0\x9f\x98\xf0\x9f\x98\x80"), R "\xf0\x9f\x98\x80"},
        {T("\xc0\x80"), R R},
        {T("\xed\xa0\x80"), R R R},
        {T("\xf4\x90\x80\x80"), R R R R},
        {T("\xc3"), R},
        {T("12345678\xc3"), "12345678" R},
    };
    struct mint_buf b = MINT_BUF_INIT;
    for (size_t i = 0; i < MINT_ARRAY_LEN(cases); i++) {
        mint_buf_reset(&b);
        mint_json_put_string(&b, cases[i].in.s, cases[i].in.n);
        assert_int_equal(b.len, strlen(cases[i].out) + 2);
        assert_memory_equal(b.data + 1, cases[i].out, b.len - 2);
    }
    mint_buf_release(&b);
}

static void what_is_written_reads_back(void **state)
{
    struct mint_buf b = MINT_BUF_INIT, back = MINT_BUF_INIT;
    char text[64];
    unsigned seed = 1;
    for (int round = 0; round < 2000; round++) {
        size_t n = (size_t)round % sizeof text;
        for (size_t i = 0; i < n; i++) {
            seed = seed * 1103515245u + 12345u;
            text[i] = (char)(seed >> 16);
        }
        mint_buf_reset(&b);
        mint_buf_reset(&back);
        mint_json_put_string(&b, text, n);
        parse_ok(*state, b.data);
        assert_true(mint_json_string(*state, 0, &back));
        mint_buf_reset(&b);
        mint_json_put_string(&b, back.data, back.len); /* valid by now: stays as it is */
        parse_ok(*state, b.data);
        size_t len = back.len;
        assert_true(mint_json_string(*state, 0, &back));
        assert_memory_equal(back.data, back.data + len, len);
    }
    mint_buf_release(&b);
    mint_buf_release(&back);
}

/* --- size: each of these takes minutes if any step is quadratic, and a blink otherwise */

static void many_keys(void **state)
{
    struct mint_buf b = MINT_BUF_INIT;
    struct mint_err err;
    for (int i = 0; i < 100000; i++)
        mint_buf_addf(&b, "%c\"key\\u0020%d\":%d", i ? ',' : '{', i, i);
    mint_buf_adds(&b, "}");
    assert_int_equal(parse(*state, b.data, b.len, &err), 0);
    assert_int_equal(mint_json_size(*state, 0), 100000);
    int64_t v;
    assert_true(mint_json_int(*state, at(*state, "key 99999"), &v) && v == 99999);
    b.len--;
    mint_buf_adds(&b, ",\"key 77777\":0,\"key 5\":1}");
    assert_int_equal(parse(*state, b.data, b.len, &err), -1);
    assert_non_null(strstr(err.msg, "key \"key 77777\" is there twice"));
    mint_buf_release(&b);
}

static void repeat(struct mint_json *j, const char *first, const char *piece, const char *last,
                   int times, int rc)
{
    struct mint_buf b = MINT_BUF_INIT;
    struct mint_err err;
    mint_buf_adds(&b, first);
    for (int i = 0; i < times; i++)
        mint_buf_adds(&b, piece);
    mint_buf_adds(&b, last);
    if (parse(j, b.data, b.len, &err) != rc)
        fail_msg("%s%s... %s", first, piece, rc ? "was taken" : err.msg);
    mint_buf_release(&b);
}

static void long_texts_take_linear_time(void **state)
{
    repeat(*state, "[", "1,", "1]", 500000, 0);
    repeat(*state, "[", "1,", "null]", 500000, 0);
    repeat(*state, "[", "[],", "1]", 300000, 0);
    repeat(*state, "[", "null,", "null]", 300000, 0);
    repeat(*state, "[", "[[[[[[[[[[[[[[[[{\"a\":1}]]]]]]]]]]]]]]]],", "1]", 30000, 0);
    repeat(*state, "[", "{\"a\":{\"b\":[1,2,{}]}},", "1]", 50000, 0);
    repeat(*state, "[1", ",1", "", 500000, -1);
    repeat(*state, "[null", ",null", "", 300000, -1);
    repeat(*state, "\"", "\\ud83d\\ude00x\xc3\xa9", "\"", 100000, 0);
    repeat(*state, "", " ", "1", 1000000, 0);
    repeat(*state, "[", "[1,", "", 100, -1);
}

static void the_number_of_values_is_limited(void **state)
{
    struct mint_buf b = MINT_BUF_INIT;
    struct mint_err err;
    mint_buf_adds(&b, "[");
    for (int i = 0; i < MINT_JSON_VALUES; i++)
        mint_buf_add(&b, "[],", 3);
    mint_buf_adds(&b, "0]");
    assert_int_equal(mint_json_parse(*state, b.data, b.len, &err), -1);
    assert_non_null(strstr(err.msg, "more than 8388608 keys and values"));
    mint_buf_release(&b);
}

/* Which lines of the malformed files are no JSON; all others must parse. */
static void malformed_files(void **state)
{
    static const char *const refused[] = {"014", "015", "016", "021", "022", "024", "025", "027",
                                          "028", "029", "030", "031", "032", "033", "034", "035",
                                          "038", "039", "040", "042", "043", "044", "045", "046",
                                          "047", "048", "059", "061", "062"};
    struct mint_json *j = *state, *entry = mint_json_new();
    struct mint_err err;
    struct mint_in *manifest, *in;
    const char *line;
    size_t n, files = 0;
    assert_int_equal(mint_in_open(&manifest, "tests/data/malformed/manifest.jsonl", &err), 0);
    while (mint_in_line(manifest, &line, &n, &err) == 1) {
        assert_int_equal(mint_json_parse(entry, line, n, &err), 0);
        char *name = mint_json_strdup(entry, mint_json_get(entry, 0, "file")), path[256];
        int64_t bad_line = 0;
        bool is_refused = false;
        mint_json_int(entry, mint_json_get(entry, 0, "line"), &bad_line);
        for (size_t i = 0; i < MINT_ARRAY_LEN(refused); i++)
            is_refused |= strncmp(name, refused[i], 3) == 0;
        files++;
        snprintf(path, sizeof path, "tests/data/malformed/%s", name);
        bool zstd_case = strncmp(name, "063", 3) > 0;
        free(name);
        if (zstd_case)
            continue;
        assert_int_equal(mint_in_open(&in, path, &err), 0);
        int first_bad = 0;
        while (mint_in_line(in, &line, &n, &err) == 1) {
            if (parse(j, line, n, &err) != 0 && !first_bad)
                first_bad = (int)mint_in_lineno(in);
        }
        mint_in_close(in);
        if (first_bad != (is_refused ? (int)bad_line : 0))
            fail_msg("%s: line %d", path, first_bad);
    }
    assert_int_equal(files, 79);
    mint_in_close(manifest);
    mint_json_free(entry);
    parse(j, NULL, 0, NULL);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(valid_texts_are_taken),
        TEST(invalid_texts_are_refused),
        TEST(messages_say_what_is_wrong),
        TEST(every_cut_and_every_changed_byte),
        TEST(depth_is_limited),
        TEST(values_are_found_and_typed),
        TEST(walking_gives_order_keys_and_elements),
        TEST(strings_are_unescaped),
        TEST(ints_are_exact_to_2_53),
        TEST(arrays_of_numbers_follow_the_grammar),
        TEST(bulk_readers),
        TEST(bulk_readers_name_the_place),
        TEST(paths_and_columns),
        TEST(writing),
        TEST(broken_utf8_is_replaced),
        TEST(what_is_written_reads_back),
        TEST(many_keys),
        TEST(long_texts_take_linear_time),
        TEST(the_number_of_values_is_limited),
        TEST(malformed_files),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

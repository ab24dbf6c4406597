/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The math verifier: thousands of rulings from tests/data/math, rules of extraction, limits, and
 * the parts that the verdicts stand on. The tables come in as source, so that their order can be
 * seen.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "json.h"
#include "math_equal.h"
#include "math_eval.h"
#include "math_extract.h"
#include "math_interval.h"
#include "math_parse.h"
#include "math_poly.h"
#include "math_symbols.c"

struct verdict {
    bool right;
    const char *why;
    struct mint_math_found found;
};

static struct mint_math work;

static int set_up(void **state)
{
    (void)state;
    mint_math_reset(&work);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    mint_math_release(&work);
    mint_math_eval_done();
    return 0;
}

static struct verdict judge(const char *text, size_t n, const char *gold, size_t gold_n,
                            bool strict)
{
    struct mint_math_found g;
    struct mint_math_reading a, b;
    struct verdict v = {false, NULL, {0}};
    mint_math_reset(&work);
    mint_math_extract(text, n, MINT_MATH_AUTO, strict, &v.found);
    mint_math_extract_gold(gold, gold_n, &g);
    assert_non_null(g.s);
    v.why = v.found.why;
    if (v.found.s) {
        mint_math_read(&work, g.s, g.n, false, &b);
        mint_math_read(&work, v.found.s, v.found.n, v.found.phrase, &a);
        v.right = mint_math_equal(&work, &a, &b, &v.why);
    }
    assert_true(work.steps >= 0);
    return v;
}

/* --- cases from files */

struct cases {
    FILE *f;
    char *line;
    size_t cap;
    struct mint_json *doc;
};

static struct cases open_cases(const char *name)
{
    char path[128];
    struct cases c = {.doc = mint_json_new()};
    snprintf(path, sizeof(path), "tests/data/math/%s", name);
    c.f = fopen(path, "r");
    if (!c.f)
        fail_msg("%s: cannot be read", path);
    return c;
}

static bool next_case(struct cases *c)
{
    struct mint_err err;
    ssize_t n = getline(&c->line, &c->cap, c->f);
    if (n <= 0)
        return false;
    if (mint_json_parse(c->doc, c->line, (size_t)n, &err) < 0)
        fail_msg("%s", err.msg);
    return true;
}

static void close_cases(struct cases *c)
{
    fclose(c->f);
    free(c->line);
    mint_json_free(c->doc);
}

static struct mint_buf text_of(const struct cases *c, const char *key)
{
    struct mint_buf b = MINT_BUF_INIT;
    mint_buf_reserve(&b, 1);
    assert_true(mint_json_string(c->doc, mint_json_get(c->doc, 0, key), &b));
    return b;
}

static int wrong;

static void expect(const char *id, bool strict, const struct mint_buf *text,
                   const struct mint_buf *gold, bool right)
{
    struct verdict v = judge(text->data, text->len, gold->data, gold->len, strict);
    if (v.right == right)
        return;
    print_error("%s%s: %s (%s), should be %s\n", id, strict ? " strict" : "",
                v.right ? "right" : "wrong", v.why, right ? "right" : "wrong");
    wrong++;
}

static void run_file(const char *name, size_t at_least)
{
    struct cases c = open_cases(name);
    size_t n = 0;
    wrong = 0;
    for (; next_case(&c); n++) {
        struct mint_buf id = text_of(&c, "id"), text = text_of(&c, "response");
        struct mint_buf gold = text_of(&c, "gold");
        bool right = false;
        assert_true(mint_json_bool(c.doc, mint_json_get(c.doc, 0, "correct"), &right));
        expect(id.data, false, &text, &gold, right);
        mint_json_bool(c.doc, mint_json_get(c.doc, 0, "correct_strict"), &right);
        expect(id.data, true, &text, &gold, right);
        mint_buf_release(&id);
        mint_buf_release(&text);
        mint_buf_release(&gold);
    }
    close_cases(&c);
    assert_true(n >= at_least);
    assert_int_equal(wrong, 0);
}

static void rulings(void **state)
{
    (void)state;
    run_file("math.jsonl", 367);
}

static void attacks(void **state)
{
    (void)state;
    run_file("attacks.jsonl", 550);
}

static void sympy_agrees(void **state)
{
    (void)state;
    struct cases c = open_cases("sympy_pairs.jsonl");
    size_t n = 0;
    wrong = 0;
    for (; next_case(&c); n++) {
        struct mint_buf id = text_of(&c, "id"), box = MINT_BUF_INIT;
        struct mint_buf side[2] = {text_of(&c, "a"), text_of(&c, "b")};
        bool equal;
        assert_true(mint_json_bool(c.doc, mint_json_get(c.doc, 0, "equal"), &equal));
        for (int i = 0; i < 2; i++) {
            mint_buf_reset(&box);
            mint_buf_addf(&box, "\\boxed{%s}", side[i].data);
            expect(id.data, true, &box, &side[1 - i], equal);
        }
        mint_buf_release(&id);
        mint_buf_release(&box);
        mint_buf_release(&side[0]);
        mint_buf_release(&side[1]);
    }
    close_cases(&c);
    assert_true(n >= 300);
    assert_int_equal(wrong, 0);
}

/* Whatever is read is equal to itself, and a response that is the gold answer in a box is right. */
static void everything_equals_itself(void **state)
{
    (void)state;
    static const char *const files[] = {"math.jsonl", "attacks.jsonl"};
    wrong = 0;
    for (size_t i = 0; i < MINT_ARRAY_LEN(files); i++) {
        struct cases c = open_cases(files[i]);
        while (next_case(&c)) {
            struct mint_buf id = text_of(&c, "id"), gold = text_of(&c, "gold");
            struct mint_buf box = MINT_BUF_INIT;
            bool plain = !strstr(gold.data, "boxed") && !strstr(gold.data, "####");
            mint_buf_addf(&box, "\\boxed{%s}", gold.data);
            if (plain)
                expect(id.data, true, &box, &gold, true);
            mint_buf_release(&id);
            mint_buf_release(&gold);
            mint_buf_release(&box);
        }
        close_cases(&c);
    }
    assert_int_equal(wrong, 0);
}

/* --- limits */

static void repeat(struct mint_buf *b, const char *what, size_t times)
{
    while (times--)
        mint_buf_adds(b, what);
}

/* Texts made to be slow or deep: none may be right, and each has a reason. */
static void hostile_boxes(void **state)
{
    (void)state;
    static const struct {
        const char *head, *part;
        size_t times;
        const char *middle, *tail;
        size_t tails;
    } t[] = {
        {"", "(", 1 << 20, "", "", 0},
        {"", "(", 3000, "2", ")", 3000},
        {"", "[", 60000, "", "", 0},
        {"", "{", 60000, "1", "}", 60000},
        {"", "\\frac", 200000, "", "", 0},
        {"", "\\frac{", 10000, "1", "}", 10000},
        {"", "\\sqrt{", 1000, "2", "}", 1000},
        {"", "\\text{", 10000, "5", "}", 10000},
        {"", "|", 60000, "", "", 0},
        {"x", "^2", 30000, "", "", 0},
        {"", "9^", 30000, "9", "", 0},
        {"", "2^{", 100, "2", "}", 100},
        {"", "9^{9^{9^{9^{9^{9}}}}}", 1, "", "", 0},
        {"5", "!", 30000, "", "", 0},
        {"", "4000!^{4000}+", 100, "1", "", 0},
        {"x", "\xc2\xb2 ", 20000, "", "", 0},
        {"", "x+", 30000, "1", "", 0},
        {"", "(x+1)*", 1000, "1", "", 0},
        {"", "(x+1)^{1000}", 1, "", "", 0},
        {"", "(a+b+c+d+e+f+g+h)^{60}", 1, "", "", 0},
        {"", "9", 200000, "", "", 0},
        {"0.", "1", 200000, "", "", 0},
        {"1e99999999999", "9", 100, "", "", 0},
        {"", "10^{10^{10}}", 1, "", "", 0},
        {"", "100000000!", 1, "", "", 0},
        {"", "\\binom{1000000000}{1000}", 1, "", "", 0},
        {"", "\\sin(10^{19000})", 1, "", "", 0},
        {"", "e^{", 40, "9", "}", 40},
        {"", "\\sqrt[1000000]{2}+", 50, "1", "", 0},
        {"", "1,", 30000, "1", "", 0},
        {"", "\\sqrt{2}+\\pi,", 199, "1", "", 0},
        {"", "x=", 30000, "5", "", 0},
        {"\\begin{pmatrix}", "1&", 30000, "1\\end{pmatrix}", "", 0},
        {"", "\\log_{", 500, "2", "}3", 500},
        {"", "\\sin ", 30000, "x", "", 0},
        {"", "a", 60000, "", "", 0},
        {"", "\\color{", 30000, "", "", 0},
        {"", "\\sin(x)^{3}\\cos(y)^{5}+", 100, "1", "", 0},
    };
    struct mint_buf b = MINT_BUF_INIT;
    for (size_t i = 0; i < MINT_ARRAY_LEN(t); i++) {
        mint_buf_reset(&b);
        mint_buf_adds(&b, "\\boxed{");
        mint_buf_adds(&b, t[i].head);
        repeat(&b, t[i].part, t[i].times);
        mint_buf_adds(&b, t[i].middle);
        repeat(&b, t[i].tail, t[i].tails);
        mint_buf_addc(&b, '}');
        struct verdict v = judge(b.data, b.len, "5", 1, false);
        if (v.right || !v.why || !*v.why)
            fail_msg("%.40s...: right", b.data);
        /* as the gold answer, too */
        v = judge("\\boxed{5}", 9, b.data + 7, b.len - 8, false);
        assert_false(v.right);
    }
    mint_buf_release(&b);
}

static void hostile_texts(void **state)
{
    (void)state;
    static const struct {
        const char *part;
        size_t times;
        const char *tail;
    } t[] = {
        {"answer is ", 100000, "5"},
        {"\\boxed{", 100000, ""},
        {"\\boxed", 100000, ""},
        {"<think>", 100000, "5"},
        {"#### ", 100000, ""},
        {"#", 1 << 20, ""},
        {"\\(", 200000, "5"},
        {"answer is \\(", 50000, "5"},
        {"$", 1 << 20, "answer is $5"},
        {"Q:\n", 200000, "5"},
        {"\xe7\xad\x94\xe6\xa1\x88", 100000, ""},
    };
    struct mint_buf b = MINT_BUF_INIT;
    for (size_t i = 0; i < MINT_ARRAY_LEN(t); i++) {
        mint_buf_reset(&b);
        repeat(&b, t[i].part, t[i].times);
        mint_buf_adds(&b, t[i].tail);
        assert_false(judge(b.data, b.len, "6", 1, false).right);
    }
    mint_buf_release(&b);
}

static void limits_say_undecided(void **state)
{
    (void)state;
    static const char *const texts[] = {"\\boxed{10^{10^{10}}}", "\\boxed{100000000!}",
                                        "\\boxed{1e999999}", "\\boxed{e^{e^{e^{e}}}}",
                                        "\\boxed{2^{2^{2^{2^{2^{2}}}}}}"};
    for (size_t i = 0; i < MINT_ARRAY_LEN(texts); i++) {
        struct verdict v = judge(texts[i], strlen(texts[i]), "5", 1, false);
        assert_false(v.right);
        assert_memory_equal(v.why, "undecided", 9);
    }
    /* but what is written alike is alike */
    const char *same = "\\boxed{10^{10^{10}}}";
    assert_true(judge(same, strlen(same), "$10^{10^{10}}$", 14, false).right);
}

/* --- extraction */

static void expect_found(const char *text, enum mint_math_rule rule, const char *want)
{
    struct mint_math_found f;
    mint_math_extract(text, strlen(text), rule, false, &f);
    if ((f.s != NULL) != (want != NULL) ||
        (want && (f.n != strlen(want) || memcmp(f.s, want, f.n) != 0)))
        fail_msg("%s: '%.*s', expected %s", text, f.s ? (int)f.n : 4, f.s ? f.s : "none",
                 want ? want : "none");
}

static void forced_rules(void **state)
{
    (void)state;
    static const char text[] = "We have 3 and 4.\n#### 12\nThe answer is 5, not 6.\n\\boxed{7}\n8";
    expect_found(text, MINT_MATH_AUTO, "7");
    expect_found(text, MINT_MATH_BOXED, "7");
    expect_found(text, MINT_MATH_HASH, "12");
    expect_found(text, MINT_MATH_PHRASE, "5, not 6");
    expect_found(text, MINT_MATH_LAST_NUMBER, "8");
    expect_found(text, MINT_MATH_FIRST_NUMBER, "3");
    expect_found(text, MINT_MATH_ANSWER_LINE, NULL);
    expect_found(" 5 ", MINT_MATH_WHOLE, "5");
    expect_found("it is 5", MINT_MATH_BOXED, NULL);
    expect_found("it is 5", MINT_MATH_HASH, NULL);
    expect_found("it is 5", MINT_MATH_PHRASE, NULL);
}

static void last_answer_line(void **state)
{
    (void)state;
    expect_found("Answer: 5", MINT_MATH_ANSWER_LINE, "5");
    expect_found("x\n  answer : 5 \nmore", MINT_MATH_ANSWER_LINE, "5");
    expect_found("Answer: 5\nAnswer: 6<|im_end|>", MINT_MATH_ANSWER_LINE, "6");
    expect_found("Answer:\n5", MINT_MATH_ANSWER_LINE, "5");
    expect_found("The Answer: 5", MINT_MATH_ANSWER_LINE, NULL);
    expect_found("\\boxed{5}", MINT_MATH_ANSWER_LINE, NULL);
    expect_found("Answer:", MINT_MATH_ANSWER_LINE, NULL);
    /* the last 2,048 characters are searched, and characters are not bytes */
    struct mint_buf b = MINT_BUF_INIT;
    for (int far = 0; far < 2; far++) {
        mint_buf_reset(&b);
        mint_buf_adds(&b, "Answer: 5\n");
        repeat(&b, "\xc3\xa9", 2048 - 10 + (size_t)far * 20);
        expect_found(b.data, MINT_MATH_ANSWER_LINE, far ? NULL : "5");
    }
    mint_buf_release(&b);
}

static void boxes_are_counted(void **state)
{
    (void)state;
    struct mint_math_found f;
    const char *text = "\\boxed{3} no, \\boxed{4}, see \\boxed for that";
    mint_math_extract(text, strlen(text), MINT_MATH_AUTO, false, &f);
    assert_int_equal(f.boxes, 2);
    assert_true(f.boxes_differ);
    text = "\\boxed{4} and so \\boxed{ 4 }";
    mint_math_extract(text, strlen(text), MINT_MATH_AUTO, false, &f);
    assert_int_equal(f.boxes, 2);
    assert_false(f.boxes_differ);
}

/* --- parts */

static void tables_are_sorted(void **state)
{
    (void)state;
    for (size_t i = 1; i < MINT_ARRAY_LEN(commands); i++)
        assert_true(strcmp(commands[i - 1].name, commands[i].name) < 0);
    for (size_t i = 1; i < MINT_ARRAY_LEN(names); i++)
        assert_true(strcmp(names[i - 1].name, names[i].name) < 0);
    for (size_t i = 1; i < MINT_ARRAY_LEN(characters); i++)
        assert_true(characters[i - 1].c < characters[i].c);
}

static struct mint_math_node *parse(const char *s)
{
    struct mint_math_toks t;
    assert_true(mint_math_lex(&work, s, strlen(s), &t));
    return mint_math_parse(&work, t.v, t.n, 1);
}

static void numbers_are_exact(void **state)
{
    (void)state;
    static const struct {
        const char *text, *value;
    } t[] = {
        {"0.\\overline{142857}", "1/7"},
        {"1.2\\overline{3}", "37/30"},
        {"1,234,567", "1234567"},
        {".5", "1/2"},
        {"5.", "5"},
        {"-2\\frac{1}{2}", "-5/2"},
        {"1.5e-3", "3/2000"},
        {"2^{-3}", "1/8"},
        {"(2/3)^3", "8/27"},
        {"\\sqrt{4/9}", "2/3"},
        {"8^{-2/3}", "1/4"},
        {"\\lfloor -7/2\\rfloor", "-4"},
        {"\\binom{10}{3}", "120"},
        {"\\gcd(12,18)", "6"},
        {"\\max(1,5/2,2)", "5/2"},
        {"|3-5|", "2"},
        {"6/2(1+2)", "9"},
        {"-3^2", "-9"},
    };
    for (size_t i = 0; i < MINT_ARRAY_LEN(t); i++) {
        mint_math_reset(&work);
        struct mint_math_node *n = parse(t[i].text);
        if (!n || n->kind != MN_NUM)
            fail_msg("%s is no number", t[i].text);
        char *s = mpq_get_str(NULL, 10, n->q);
        assert_string_equal(s, t[i].value);
        free(s);
    }
}

static void polynomials(void **state)
{
    (void)state;
    static const struct {
        const char *a, *b;
        enum mint_math_verdict v;
    } t[] = {
        {"(x+y)^3", "x^3+3x^2y+3xy^2+y^3", MINT_MATH_YES},
        {"(x+1)^{20}-(x-1)^{20}-1", "(x+1)^{20}-(x-1)^{20}", MINT_MATH_NO},
        {"\\frac{1}{x}+\\frac{1}{y}", "\\frac{x+y}{xy}", MINT_MATH_YES},
        {"(1+i)^4", "-4", MINT_MATH_YES},
        {"\\frac{1}{1+i}", "\\frac{1-i}{2}", MINT_MATH_YES},
        {"\\pi^2 e", "e\\pi\\pi", MINT_MATH_YES},
        {"\\sqrt{x}", "\\sqrt{x}", MINT_MATH_UNKNOWN},
        {"2^x", "2^x", MINT_MATH_UNKNOWN},
        {"(a+b+c+d)^{50}", "1", MINT_MATH_UNKNOWN},
        {"a+b+c+d+m+n+p+q+r", "1", MINT_MATH_UNKNOWN},
    };
    for (size_t i = 0; i < MINT_ARRAY_LEN(t); i++) {
        mint_math_reset(&work);
        struct mint_math_node *a = parse(t[i].a), *b = parse(t[i].b);
        assert_non_null(a);
        assert_non_null(b);
        if (mint_math_poly_equal(&work, a, b) != t[i].v)
            fail_msg("%s, %s", t[i].a, t[i].b);
    }
}

/* The true value lies within, at any precision; MPFR at a higher one is the witness. */
static void intervals_hold_the_value(void **state)
{
    (void)state;
    struct mint_interval x, y;
    mpfr_t v;
    mpfr_init2(v, 500);
    mint_interval_init(&x, 64);
    mint_interval_init(&y, 64);
    for (long i = 1; i < 40; i++) {
        mpq_t q;
        mpq_init(q);
        mpq_set_si(q, i % 2 ? i : -i, 7);
        mint_interval_set_q(&x, q);
        assert_true(mpfr_cmp_q(x.lo, q) <= 0 && mpfr_cmp_q(x.hi, q) >= 0);
        assert_true(mint_interval_sin(&y, &x));
        mpfr_set_q(v, q, MPFR_RNDN);
        mpfr_sin(v, v, MPFR_RNDN);
        assert_true(mpfr_lessequal_p(y.lo, v) && mpfr_lessequal_p(v, y.hi));
        assert_true(mint_interval_width(&y) < -50);
        assert_true(mint_interval_exp(&y, &x));
        mpfr_set_q(v, q, MPFR_RNDN);
        mpfr_exp(v, v, MPFR_RNDN);
        assert_true(mpfr_lessequal_p(y.lo, v) && mpfr_lessequal_p(v, y.hi));
        assert_true(mint_interval_mul(&y, &x, &x) && mint_interval_sign(&y) == 1);
        mint_interval_sub(&y, &x, &x);
        assert_int_equal(mint_interval_sign(&y), 0);
        assert_false(mint_interval_div(&y, &x, &y));
        assert_int_equal(mint_interval_log(&y, &x), i % 2);
        mpq_clear(q);
    }
    mint_interval_clear(&x);
    mint_interval_clear(&y);
    mpfr_clear(v);
}

static void units(void **state)
{
    (void)state;
    static const struct {
        const char *a, *b;
        bool agree;
    } t[] = {
        {" cm ", " cm ", true},
        {" cm ", " m ", false},
        {NULL, " cm ", true},
        {" mi / h ", " km / h ", false},
        {" cm^2 ", " cm^3 ", false},
        {" cm^2 ", " sq cm ", true},
        {" red apple ", " apple ", true},
        {" apple ", " orange ", false},
    };
    for (size_t i = 0; i < MINT_ARRAY_LEN(t); i++) {
        if (mint_math_units_agree(t[i].a, t[i].b) != t[i].agree ||
            mint_math_units_agree(t[i].b, t[i].a) != t[i].agree)
            fail_msg("%s, %s", t[i].a ? t[i].a : "", t[i].b);
    }
}

/* Votes: equal numbers have one form. */
static void one_form_for_votes(void **state)
{
    (void)state;
    static const char *const same[] = {"0.50", "\\frac12",       "1/2",
                                       "2/4",  "x=\\frac{1}{2}", "50/100"};
    for (size_t i = 0; i < MINT_ARRAY_LEN(same); i++) {
        struct mint_math_reading r;
        struct mint_buf b = MINT_BUF_INIT;
        mint_math_reset(&work);
        mint_math_read(&work, same[i], strlen(same[i]), false, &r);
        mint_math_canon(&r, &b);
        assert_string_equal(b.data, "1/2");
        mint_buf_release(&b);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rulings),
        cmocka_unit_test(attacks),
        cmocka_unit_test(sympy_agrees),
        cmocka_unit_test(everything_equals_itself),
        cmocka_unit_test(hostile_boxes),
        cmocka_unit_test(hostile_texts),
        cmocka_unit_test(limits_say_undecided),
        cmocka_unit_test(forced_rules),
        cmocka_unit_test(last_answer_line),
        cmocka_unit_test(boxes_are_counted),
        cmocka_unit_test(tables_are_sorted),
        cmocka_unit_test(numbers_are_exact),
        cmocka_unit_test(polynomials),
        cmocka_unit_test(intervals_hold_the_value),
        cmocka_unit_test(units),
        cmocka_unit_test(one_form_for_votes),
    };
    return cmocka_run_group_tests_name("math", tests, set_up, tear_down);
}

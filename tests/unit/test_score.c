/* SPDX-License-Identifier: Apache-2.0 */
/* Scorers one by one, what a score does to the text of a record, and the statistics. The scorer cmd
 * has its tests in tests/e2e/30-score.bats. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "score.h"
#include "score_summary.h"
#include "text_reader.h"

static struct mint_score_opts defaults(void)
{
    return (struct mint_score_opts){.gold_field = "answer",
                                    .strip = true,
                                    .which = MINT_SCORE_LAST,
                                    .target = -1,
                                    .min = -1,
                                    .max = -1};
}

/* --- numbers in text */

static void expect_number(const char *text, enum mint_score_which which, const char *canon)
{
    struct mint_buf b = MINT_BUF_INIT;
    size_t at, n;
    bool found = mint_number_find(text, strlen(text), which, &at, &n);
    if (found)
        mint_number_canon(text + at, n, &b);
    if (found != (canon != NULL) || (canon && strcmp(b.data, canon)))
        fail_msg("'%s': %s, expected %s", text, found ? b.data : "none", canon ? canon : "none");
    mint_buf_release(&b);
}

static void numbers(void **state)
{
    (void)state;
    static const struct {
        const char *text, *first, *last;
    } t[] = {
        {" 8", "8", "8"},
        {"no digits at all - . , e", NULL, NULL},
        {"", NULL, NULL},
        {"3 + 5 = 8.", "3", "8"},
        {"-3", "-3", "-3"},
        {"5-3", "5", "3"},
        {"x-3, (a)-4, [1]-2", "3", "2"},
        {"5 - 3", "5", "3"},
        {"= -3", "-3", "-3"},
        {"\xe2\x88\x92"
         "7",
         "-7", "-7"},
        {"+4", "4", "4"},
        {"-0", "0", "0"},
        {"007.50", "75e-1", "75e-1"},
        {".5", "5e-1", "5e-1"},
        {"5.", "5", "5"},
        {"1.2.3", "12e-1", "3"},
        {"$1,234.50", "12345e-1", "12345e-1"},
        {"1,234,567", "1234567", "1234567"},
        {"12,34", "12", "34"},
        {"1,2345", "1", "2345"},
        {"1234,567", "1234", "567"},
        {"12,345,67", "12345", "67"},
        {"1e3", "1e3", "1e3"},
        {"1000", "1e3", "1e3"},
        {"1.5E-2", "15e-3", "15e-3"},
        {"2em", "2", "2"},
        {"3e4x", "3", "4"},
        {"9007199254740993", "9007199254740993", "9007199254740993"},
        {"0.1000000000000000000001", "1000000000000000000001e-22", "1000000000000000000001e-22"},
        {"10%", "1e1", "1e1"},
    };
    for (size_t i = 0; i < MINT_ARRAY_LEN(t); i++) {
        expect_number(t[i].text, MINT_SCORE_FIRST, t[i].first);
        expect_number(t[i].text, MINT_SCORE_LAST, t[i].last);
    }
    /* an absurd exponent neither overflows nor takes long */
    struct mint_buf b = MINT_BUF_INIT;
    mint_number_canon("1e-99999999999999999999999", 26, &b);
    assert_memory_equal(b.data, "1e-", 3);
    mint_buf_release(&b);
}

static void exponents_of_any_size(void **state)
{
    (void)state;
    static const struct {
        const char *text, *canon;
    } t[] = {
        {"1e99999999999999999999", "1e99999999999999999999"},
        {"1e99999999999999999998", "1e99999999999999999998"},
        {"10e99999999999999999998", "1e99999999999999999999"},
        {"100e99999999999999999999", "1e100000000000000000001"},
        {"0.1e-99999999999999999999", "1e-100000000000000000000"},
        {"0.01e100000000000000000001", "1e99999999999999999999"},
        {"1000e-100000000000000000000", "1e-99999999999999999997"},
        {"-2.50e+00099999999999999999999", "-25e99999999999999999998"},
        {"10e999999999999999999", "1e1000000000000000000"},
        {"0.1e1000000000000000000", "1e999999999999999999"},
        {"0.10e1", "1"},
        {"0.01e0000000000000000000000002", "1"},
        {"0e99999999999999999999", "0"},
        {"1e9223372036854775807", "1e9223372036854775807"},
        {"10e9223372036854775807", "1e9223372036854775808"},
    };
    for (size_t i = 0; i < MINT_ARRAY_LEN(t); i++)
        expect_number(t[i].text, MINT_SCORE_LAST, t[i].canon);
}

static void a_megabyte_of_digits_is_quick(void **state)
{
    (void)state;
    size_t n = 1 << 20, at, len;
    char *text = malloc(n + 1);
    struct mint_buf b = MINT_BUF_INIT;
    memset(text, '9', n);
    assert_true(mint_number_find(text, n, MINT_SCORE_LAST, &at, &len));
    assert_int_equal(len, n);
    mint_number_canon(text, n, &b);
    assert_int_equal(b.len, n);
    memset(text, '-', n);
    assert_false(mint_number_find(text, n, MINT_SCORE_LAST, &at, &len));
    for (size_t i = 0; i < n; i += 4)
        memcpy(text + i, "1,23", 4);
    assert_true(mint_number_find(text, n, MINT_SCORE_LAST, &at, &len));
    free(text);
    mint_buf_release(&b);
}

static void trims_unicode_space(void **state)
{
    (void)state;
    const char *t = " \t\xc2\xa0\xe3\x80\x80x \xc3\xa9\xe2\x80\xa8\n";
    size_t at = 0, n = strlen(t);
    mint_text_trim(t, &at, &n);
    assert_int_equal(n, 4);
    assert_memory_equal(t + at, "x \xc3\xa9", 4);
    at = 0, n = 3;
    mint_text_trim(" \n ", &at, &n);
    assert_int_equal(n, 0);
}

/* --- scorers on one sequence */

/* The score for a record; NAN where it has failed; -1 with the message in msg for a bad record. */
static char msg[1100];
static double score(const char *name, const struct mint_score_opts *o, const char *record)
{
    const struct mint_scorer *s = mint_scorer_find(name);
    struct text_reader t;
    struct mint_err err = {0};
    struct mint_group g;
    struct mint_score out = {0};
    void *state = NULL;
    msg[0] = '\0';
    assert_non_null(s);
    if (s->open && s->open(o, &state, &err) < 0) {
        snprintf(msg, sizeof(msg), "%s", err.msg);
        return -2;
    }
    text_open(&t, record, false);
    if (mint_reader_next(&t.r, &err) != 1 || mint_group_text(&t.r, &g, &err) < 0)
        fail_msg("%s", err.msg);
    struct mint_score_task task = {.doc = t.r.doc, .group = &g, .index = 0};
    double v = -1;
    if (s->score(state, &task, &out, &err) == 0)
        v = out.failed ? (double)NAN : out.value;
    snprintf(msg, sizeof(msg), "%s", v == -1 ? err.msg : out.detail.len ? out.detail.data : "");
    mint_score_release(&out);
    if (s->close)
        s->close(state);
    text_close(&t);
    return v;
}

#define REC(gold, text) \
    "{\"answer\":" gold ",\"sequences\":[{\"text\":" text ",\"tokens\":[1,2,3]}]}"

static void exact(void **state)
{
    (void)state;
    struct mint_score_opts o = defaults();
    assert_true(score("exact", &o, REC("\"8\"", "\" 8\\n\"")) == 1);
    assert_string_equal(msg, "\"answer\":\"8\"");
    assert_true(score("exact", &o, REC("8", "\"8\"")) == 1);
    assert_true(score("exact", &o, REC("\"8\"", "\"8.\"")) == 0);
    assert_true(score("exact", &o, REC("[\"six\",\"6\"]", "\"6\"")) == 1);
    assert_true(score("exact", &o, REC("[\"six\",\"6\"]", "\"7\"")) == 0);
    assert_true(score("exact", &o, REC("\"\xc3\x89t\xc3\xa9\"", "\"\xc3\xa9T\xc3\x89\"")) == 0);
    o.ignore_case = true;
    assert_true(score("exact", &o, REC("\"\xc3\x89t\xc3\xa9\"", "\"\xc3\xa9T\xc3\x89\"")) == 1);
    o = defaults();
    o.strip = false;
    assert_true(score("exact", &o, REC("\"8\"", "\" 8\"")) == 0);
    assert_true(score("exact", &o, REC("\" 8\"", "\" 8\"")) == 1);
    o.gold_field = "gold";
    assert_true(score("exact", &o, REC("\"8\"", "\"8\"")) == -1);
    assert_non_null(strstr(msg, "no \"gold\""));
    o = defaults();
    assert_true(score("exact", &o, REC("{}", "\"8\"")) == -1);
    assert_true(score("exact", &o, "{\"answer\":1,\"sequences\":[{}]}") == -1);
    assert_non_null(strstr(msg, "sequences[0].text is missing"));
}

static void number(void **state)
{
    (void)state;
    struct mint_score_opts o = defaults();
    assert_true(score("number", &o, REC("\"8\"", "\"3 + 5 = 8.0\"")) == 1);
    assert_string_equal(msg, "\"answer\":\"8\"");
    assert_true(score("number", &o, REC("8", "\"8, I think. Or 9\"")) == 0);
    o.which = MINT_SCORE_FIRST;
    assert_true(score("number", &o, REC("8", "\"8, I think. Or 9\"")) == 1);
    assert_true(score("number", &o, REC("\"so #### 1,234\"", "\"1234\"")) == 1);
    assert_true(score("number", &o, REC("[\"1\",\"2\"]", "\"2\"")) == 1);
    assert_true(score("number", &o, REC("8", "\"eight\"")) == 0);
    assert_string_equal(msg, "\"answer\":null");
    assert_true(score("number", &o, REC("9007199254740993", "\"9007199254740992\"")) == 0);
    const char *gold = REC("\"1e99999999999999999999\"", "\"1e99999999999999999998\"");
    assert_true(score("number", &o, gold) == 0);
    gold = REC("\"1e99999999999999999999\"", "\"10e99999999999999999998\"");
    assert_true(score("number", &o, gold) == 1);
}

/* As the scorer math has it: no score, and the run goes on. */
static void a_gold_without_a_number(void **state)
{
    (void)state;
    struct mint_score_opts o = defaults();
    assert_true(isnan(score("number", &o, REC("\"eight\"", "\"8\""))));
    assert_non_null(strstr(msg, "holds no number"));
    assert_true(isnan(score("number", &o, REC("[\"1\",\"x\"]", "\"8\""))));
    assert_true(score("number", &o, REC("[\"8\",\"x\"]", "\"8\"")) == 1);
}

static void regex(void **state)
{
    (void)state;
    struct mint_score_opts o = defaults();
    assert_true(score("regex", &o, REC("1", "\"x\"")) == -2);
    o.pattern = "a(b";
    assert_true(score("regex", &o, REC("1", "\"x\"")) == -2);
    assert_non_null(strstr(msg, "--pattern, at byte"));
    o.pattern = "^Answer: \\d+$";
    assert_true(score("regex", &o, REC("null", "\"Answer: 12\"")) ==
                1); /* no group: no gold needed */
    assert_true(score("regex", &o, REC("null", "\"Answer: x\"")) == 0);
    o.pattern = "Answer:\\s*([^\\n]+)";
    assert_true(score("regex", &o, REC("\"12\"", "\"Answer: 11\\nAnswer: 12 \\n\"")) == 1);
    o.which = MINT_SCORE_FIRST;
    assert_true(score("regex", &o, REC("\"12\"", "\"Answer: 11\\nAnswer: 12\"")) == 0);
    assert_true(score("regex", &o, REC("null", "\"Answer: 12\"")) == -1);
    o.which = MINT_SCORE_LAST;
    o.pattern = "x*"; /* matches the empty text everywhere, even inside of no character */
    assert_true(score("regex", &o, REC("1", "\"\xc3\xa9\xe2\x82\xac\"")) == 1);
    o.pattern = "(?:(a)|b)"; /* the group of the last match is not set */
    assert_true(score("regex", &o, REC("\"\"", "\"ab\"")) == 1);
    o.pattern = "^(a+)+$";
    assert_true(isnan(score(
        "regex", &o, REC("1", "\"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaab\""))));
    assert_non_null(strstr(msg, "the pattern gave up"));
}

static void length(void **state)
{
    (void)state;
    struct mint_score_opts o = defaults();
    const char *rec = REC("1", "\"two words\xc2\xa0three \xc3\xa9\"");
    assert_true(fabs(score("length", &o, rec) - 0.03) < 1e-12); /* 3 tokens of 100 */
    assert_string_equal(msg, "\"length\":3");
    o.target = 4;
    assert_true(score("length", &o, rec) == 0.75);
    o.target = 1;
    assert_true(score("length", &o, rec) == 0);
    o.target = -1;
    o.max = 3;
    assert_true(score("length", &o, rec) == 1);
    o.max = 2;
    assert_true(score("length", &o, rec) == 0);
    o.unit = MINT_SCORE_WORDS;
    o.max = o.min = 4;
    assert_true(score("length", &o, rec) == 1);
    o.unit = MINT_SCORE_CHARS;
    o.max = o.min = 17;
    assert_true(score("length", &o, rec) == 1);
    o.min = 18;
    assert_true(score("length", &o, rec) == -2);
    o = defaults();
    assert_true(score("length", &o, "{\"sequences\":[{\"text\":\"a\"}]}") == -1);
}

/* So many different words, each with this behind it, and then the tail. */
static double heuristic(int words, const char *behind, const char *tail)
{
    struct mint_score_opts o = defaults();
    struct mint_buf b = MINT_BUF_INIT;
    mint_buf_adds(&b, "{\"sequences\":[{\"text\":\"");
    for (int i = 0; i < words; i++)
        mint_buf_addf(&b, "w%d%s ", i, behind);
    mint_buf_addf(&b, "%s\"}]}", tail);
    double v = score("heuristic", &o, b.data);
    mint_buf_release(&b);
    return v;
}

/* The MinT chat demo: 0.4 for 20 to 100 words (0.2 for 10 to 19 and 101 to 150), 0.3 for two full
 * stops, 0.3 if more than half of the words, lower-cased, differ. */
static void chat_heuristic(void **state)
{
    (void)state;
    assert_true(heuristic(20, "", "") == 0.7);
    assert_true(heuristic(100, "", "") == 0.7);
    assert_true(heuristic(19, "", "") == 0.5);
    assert_true(heuristic(101, "", "") == 0.5);
    assert_true(heuristic(150, "", "") == 0.5);
    assert_true(heuristic(151, "", "") == 0.3);
    assert_true(heuristic(9, "", "") == 0.3);
    assert_true(heuristic(9, "", ".") == 0.5);
    assert_true(heuristic(20, ".", "") == 1);
    assert_true(heuristic(0, "", "a a a a a a a a a a a a a a a a a a a a.") == 0.4);
    assert_true(heuristic(0, "", "") == 0);
    assert_true(heuristic(0, "", "A a") == 0); /* one of two is not more than half */
    assert_true(heuristic(0, "", "\xc3\x89 \xc3\xa9 x") == 0.3);
}

/* --- the record */

static void rewrite(struct mint_scoring *c, const char *record, double value, const char *want)
{
    struct text_reader t;
    struct mint_err err = {0};
    struct mint_scored s;
    struct mint_score scores[4] = {{0}};
    struct mint_buf b = MINT_BUF_INIT;
    text_open(&t, record, false);
    assert_int_equal(mint_reader_next(&t.r, &err), 1);
    s = (struct mint_scored){.r = &t.r, .scores = scores};
    assert_int_equal(mint_group_text(&t.r, &s.group, &err), 0);
    for (size_t i = 0; i < s.group.nseqs; i++) {
        scores[i].value = value;
        scores[i].failed = isnan(value);
    }
    int rc = mint_scored_write(c, &s, &b, &err);
    assert_string_equal(rc < 0 ? err.msg : b.data, want);
    mint_buf_release(&b);
    text_close(&t);
}

static void records_keep_their_bytes(void **state)
{
    (void)state;
    struct mint_scoring c = {.scorer = &mint_scorer_exact, .name = "exact", .weight = 1};
    rewrite(
        &c,
        "{ \"b\" :1e2, \"sequences\":[ {\"text\" : \"\\u00e9\" , \"x\":{ } } , {} ],\"a\":[1,  2]}",
        0.5,
        "{ \"b\" :1e2, \"sequences\":[ {\"text\" : \"\\u00e9\" , \"x\":{ },\"reward\":0.5,"
        "\"scores\":{\"exact\":0.5},\"detail\":{\"exact\":{}}} , {\"reward\":0.5,\"scores\":"
        "{\"exact\":0.5},\"detail\":{\"exact\":{}}} ],\"a\":[1,  2]}\n");
    c.weight = 0.5;
    c.name = "n\"";
    rewrite(
        &c,
        "{\"sequences\":[{\"reward\":1,\"z\":0,\"scores\":{ \"exact\":1},\"detail\":{},\"y\":1}]}",
        1,
        "{\"sequences\":[{\"z\":0,\"y\":1,\"reward\":1.5,\"scores\":{ \"exact\":1,\"n\\\"\":1},"
        "\"detail\":{\"n\\\"\":{}}}]}\n");
    c.replace = true;
    rewrite(
        &c, "{\"sequences\":[{\"reward\":1,\"scores\":{\"n\\\"\":1},\"detail\":{\"n\\\"\":{}}}]}",
        1,
        "{\"sequences\":[{\"reward\":0.5,\"scores\":{\"n\\\"\":1},\"detail\":{\"n\\\"\":{}}}]}\n");
    rewrite(&c, "{\"sequences\":[]}", 1, "{\"sequences\":[]}\n");
}

static void nulls_stay_null(void **state)
{
    (void)state;
    struct mint_scoring c = {.scorer = &mint_scorer_exact, .name = "b", .weight = 1};
    rewrite(&c, "{\"sequences\":[{\"reward\":1}]}", (double)NAN,
            "{\"sequences\":[{\"reward\":null,\"scores\":{\"b\":null},\"detail\":{\"b\":{}}}]}\n");
    rewrite(&c, "{\"sequences\":[{\"reward\":null,\"scores\":{\"a\":null}}]}", 1,
            "{\"sequences\":[{\"reward\":null,\"scores\":{\"a\":null,\"b\":1},\"detail\":{\"b\":{}}"
            "}]}\n");
    c.replace = true;
    rewrite(&c, "{\"sequences\":[{\"reward\":null}]}", 1,
            "{\"sequences\":[{\"reward\":1,\"scores\":{\"b\":1},\"detail\":{\"b\":{}}}]}\n");
}

static void a_name_scores_once(void **state)
{
    (void)state;
    struct mint_scoring c = {.scorer = &mint_scorer_exact, .name = "exact", .weight = 1};
    rewrite(&c, "{\"sequences\":[{\"scores\":{\"exact\":0}}]}", 1,
            "sequences[0].scores (column 25) already has \"exact\": give another --name, or start "
            "anew with "
            "--replace");
}

/* --- statistics */

static void pass_at_k(void **state)
{
    (void)state;
    assert_true(mint_pass_at_k(4, 0, 1) == 0);
    assert_true(mint_pass_at_k(4, 4, 4) == 1);
    assert_true(fabs(mint_pass_at_k(4, 1, 1) - 0.25) < 1e-12);
    assert_true(fabs(mint_pass_at_k(4, 1, 2) - 0.5) < 1e-12);
    assert_true(fabs(mint_pass_at_k(10, 3, 5) - (1 - 21.0 / 252)) < 1e-12); /* 1 - C(7,5)/C(10,5) */
    assert_true(fabs(mint_pass_at_k(100000, 50000, 1) - 0.5) < 1e-9);
}

static void wilson(void **state)
{
    (void)state;
    double lo, hi;
    mint_wilson(8, 10, &lo, &hi); /* by hand from the formula */
    assert_true(fabs(lo - 0.4901624715) < 1e-9 && fabs(hi - 0.9433178485) < 1e-9);
    mint_wilson(0, 20, &lo, &hi);
    assert_true(lo == 0 && fabs(hi - 0.1611251581) < 1e-9);
    mint_wilson(20, 20, &lo, &hi);
    assert_true(hi == 1 && lo > 0.8);
    mint_wilson(0, 0, &lo, &hi);
    assert_true(lo == 0 && hi == 1);
}

static int add(void *arg, struct mint_scored *s, struct mint_err *err)
{
    (void)err;
    void **both = arg;
    mint_summary_add(both[0], both[1], s);
    return 0;
}

static void summary(void **state)
{
    (void)state;
    struct text_reader t;
    struct mint_err err;
    struct mint_summary m = {.threshold = 0.5};
    struct mint_scoring c = {
        .scorer = &mint_scorer_number, .opts = defaults(), .name = "n", .weight = 1};
    void *both[] = {&m, &c};
    text_open(
        &t,
        "{\"answer\":1,\"sequences\":[{\"text\":\"2\",\"tokens\":[1,2],\"stop_reason\":\"length\"},"
        "{\"text\":\"1\",\"tokens\":[1]},{\"text\":\"1.0\",\"tokens\":[1]},{\"text\":\"x\","
        "\"tokens\":[]}]}\n"
        "{\"answer\":5,\"sequences\":[{\"text\":\"4\",\"tokens\":[1]},{\"text\":\"5\",\"tokens\":["
        "1]}]}\n",
        false);
    assert_int_equal(mint_score_stream(&c, &t.r, add, both, &err), 0);
    text_close(&t);
    assert_int_equal(m.groups, 2);
    assert_int_equal(m.sequences, 6);
    assert_int_equal(m.right, 3);
    assert_true(fabs(m.pass_sum[0] - 1.0) < 1e-12);           /* 2/4 + 1/2 */
    assert_true(fabs(m.pass_sum[1] - (5.0 / 6 + 1)) < 1e-12); /* 1 - C(2,2)/C(4,2), and 1 */
    assert_int_equal(m.pass_groups[2], 1); /* pass@4: one group is large enough */
    assert_int_equal(m.votes, 2);
    assert_int_equal(m.votes_right,
                     1); /* 1, 1.0 beat 2; in a tie the first seen, 4, wins and is wrong */
    assert_int_equal(m.length_stops, 1);
    struct mint_buf b = MINT_BUF_INIT;
    mint_summary_print(&m, &b);
    assert_non_null(strstr(b.data, "accuracy"));
    assert_null(strstr(b.data, "nan"));
    mint_buf_release(&b);
    mint_summary_release(&m);
}

/* Two groups with means 0.25 and 0.75: of 4 equally likely draws, 0.25 and 0.75 have a quarter
 * each, so they are the ends. One group says nothing about groups. */
static void intervals(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "{\"sequences\":[{\"text\":\"a\",\"reward\":0.25}]}\n"
        "{\"sequences\":[{\"text\":\"a\",\"reward\":1},{\"text\":\"a\",\"reward\":0.5}]}\n",
        "{\"sequences\":[{\"text\":\"a\",\"reward\":0.25},{\"text\":\"a\",\"reward\":1}]}\n",
        "{\"sequences\":[{\"text\":\"a\",\"reward\":0},{\"text\":\"a\",\"reward\":1}]}\n",
    };
    double lo = -9, hi = -9, from, to;
    for (int i = 0; i < 3; i++) {
        struct text_reader t;
        struct mint_err err;
        struct mint_summary m = {.threshold = 0.5};
        struct mint_scoring c = {.scorer = &mint_scorer_none, .opts = defaults(), .name = "n"};
        void *both[] = {&m, &c};
        text_open(&t, texts[i], false);
        assert_int_equal(mint_score_stream(&c, &t.r, add, both, &err), 0);
        text_close(&t);
        assert_int_equal(mint_summary_interval(&m, &lo, &hi), i != 1);
        if (i == 0)
            assert_true(fabs(lo - 0.25) < 1e-12 && fabs(hi - 0.75) < 1e-12);
        mint_wilson(1, 2, &from, &to);
        if (i == 2)
            assert_true(fabs(lo - from) < 1e-12 && fabs(hi - to) < 1e-12);
        mint_summary_release(&m);
    }
}

static void empty_summary(void **state)
{
    (void)state;
    struct mint_summary m = {0};
    struct mint_buf b = MINT_BUF_INIT;
    mint_summary_print(&m, &b);
    assert_null(strstr(b.data, "nan"));
    mint_buf_release(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers),
        cmocka_unit_test(exponents_of_any_size),
        cmocka_unit_test(a_megabyte_of_digits_is_quick),
        cmocka_unit_test(trims_unicode_space),
        cmocka_unit_test(exact),
        cmocka_unit_test(number),
        cmocka_unit_test(a_gold_without_a_number),
        cmocka_unit_test(regex),
        cmocka_unit_test(length),
        cmocka_unit_test(chat_heuristic),
        cmocka_unit_test(records_keep_their_bytes),
        cmocka_unit_test(nulls_stay_null),
        cmocka_unit_test(a_name_scores_once),
        cmocka_unit_test(pass_at_k),
        cmocka_unit_test(wilson),
        cmocka_unit_test(summary),
        cmocka_unit_test(intervals),
        cmocka_unit_test(empty_summary),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

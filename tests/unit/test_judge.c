/* SPDX-License-Identifier: Apache-2.0 */
/* How a judge's replies are read, its texts filled in, and which responses are compared. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "fs.h"
#include "score_judge.h"

static void scores_that_are_there(void **state)
{
    (void)state;
    static const struct {
        const char *reply;
        double lo, hi, score;
    } cases[] = {
        {"Score: 8", 0, 10, 8},
        {"8", 0, 10, 8},
        {" 8\n", 0, 10, 8},
        {"8.", 0, 10, 8},
        {"**8**", 0, 10, 8},
        {"SCORE: 9", 0, 10, 9},
        {"score=9", 0, 10, 9},
        {"Rating : 7.25", 0, 10, 7.25},
        {"Good work.\nScore: 3\n", 0, 10, 3},
        {"Score: 3\nIt lacks 5 things.", 0, 10, 3},
        {"**Score:** 7", 0, 10, 7},
        {"**Score: 7**", 0, 10, 7},
        {"# Final score: `7`", 0, 10, 7},
        {"Overall rating: 7/10", 0, 10, 7},
        {"Score: 7 / 10", 0, 10, 7},
        {"Score: 4 out of 5", 1, 5, 4},
        {"10/10", 0, 10, 10},
        {"Score: -0.5", -1, 1, -0.5},
        {"Score: +1", -1, 1, 1},
        {"Score: 0", 0, 10, 0},
        {"Score: 1e1", 0, 10, 10},
        {"Score: 6\n\nScore: 6.0", 0, 10, 6},
        {"<think>Score: 2? No.</think>\nScore: 8", 0, 10, 8},
        {"<think>\n</think>\n\n8", 0, 10, 8},
        {"\"Score: 5\"\r\n", 0, 10, 5},
    };
    for (size_t i = 0; i < MINT_ARRAY_LEN(cases); i++) {
        char why[MINT_JUDGE_WHY];
        double v = -99;
        int rc = mint_judge_read_score(cases[i].reply, strlen(cases[i].reply), false, cases[i].lo,
                                       cases[i].hi, &v, why);
        if (rc < 0 || v < cases[i].score || v > cases[i].score)
            fail_msg("'%s': rc %d, score %g", cases[i].reply, rc, v);
    }
}

static void scores_that_are_not(void **state)
{
    (void)state;
    static const struct {
        const char *reply, *why;
    } cases[] = {
        {"", "unparsed"},
        {"excellent", "unparsed"},
        {"not excellent", "unparsed"},
        {"There are 5 reasons why this is a score of 9", "unparsed"},
        {"I give it 8 points", "unparsed"},
        {"8 or 9", "unparsed"},
        {"7-8", "unparsed"},
        {"Score: eight", "unparsed"},
        {"Score:", "unparsed"},
        {"Score 8", "unparsed"},
        {"Scores: 8", "unparsed"},
        {"Underscore: 8", "unparsed"},
        {"Score: 8 points", "unparsed"},
        {"Score: 8/100", "unparsed"},
        {"Score: 4/5", "unparsed"},
        {"Score: 08", "unparsed"},
        {"Score: 0x8", "unparsed"},
        {"Score: 1,000", "unparsed"},
        {"Score: NaN", "unparsed"},
        {"Score: inf", "unparsed"},
        {"Score: 1e999", "unparsed"},
        {"Score: +-1", "unparsed"},
        {"Score: 3\nScore: 8", "differ"},
        {"Score: 3\nScore: N", "differ"},
        {"Score: 11", "out of range"},
        {"-1", "out of range"},
        {"10.0001", "out of range"},
        {"<think>it is fine. Score: 8", "thinking"},
        {"Score: 8 <think>", "thinking"},
        {"<think>a</think><think>Score: 8", "thinking"},
    };
    for (size_t i = 0; i < MINT_ARRAY_LEN(cases); i++) {
        char why[MINT_JUDGE_WHY] = "";
        double v = 0;
        int rc =
            mint_judge_read_score(cases[i].reply, strlen(cases[i].reply), false, 0, 10, &v, why);
        if (rc == 0 || !strstr(why, cases[i].why))
            fail_msg("'%s': rc %d, score %g, why '%s'", cases[i].reply, rc, v, why);
    }
}

static void verdicts(void **state)
{
    (void)state;
    static const struct {
        const char *reply;
        int verdict; /* -1: none */
    } cases[] = {
        {"A", MINT_JUDGE_A},
        {"B.", MINT_JUDGE_B},
        {"[[A]]", MINT_JUDGE_A},
        {"tie", MINT_JUDGE_TIE},
        {"Tie", MINT_JUDGE_TIE},
        {"Verdict: B", MINT_JUDGE_B},
        {"Verdict: **A**", MINT_JUDGE_A},
        {"Final verdict: tie", MINT_JUDGE_TIE},
        {"A is wrong.\nVerdict: B\n", MINT_JUDGE_B},
        {"Winner: Response A", MINT_JUDGE_A},
        {"<think>Verdict: A</think>B", MINT_JUDGE_B},
        {"Verdict: A\nVerdict: A", MINT_JUDGE_A},
        {"", -1},
        {"A or B", -1},
        {"A is better", -1},
        {"C", -1},
        {"a", -1},
        {"AB", -1},
        {"Verdict: neither", -1},
        {"Verdict: A\nVerdict: B", -1},
        {"<think>Verdict: A", -1},
        {"The verdict: A", -1},
    };
    for (size_t i = 0; i < MINT_ARRAY_LEN(cases); i++) {
        char why[MINT_JUDGE_WHY] = "";
        enum mint_judge_verdict v = MINT_JUDGE_A;
        int rc = mint_judge_read_verdict(cases[i].reply, strlen(cases[i].reply), false, &v, why);
        if ((rc < 0) != (cases[i].verdict < 0) || (rc == 0 && (int)v != cases[i].verdict))
            fail_msg("'%s': rc %d, verdict %d, why '%s'", cases[i].reply, rc, (int)v, why);
    }
}

/* The last line of a reply that was cut may be half of one, so it does not count, and the whole is
 * no score; what stands before it does. */
static void replies_cut_by_the_limit(void **state)
{
    (void)state;
    static const struct {
        const char *reply;
        double score; /* below 0: none */
    } cases[] = {{"Score: 1", -1},           {"1", -1},
                 {"1\nThe response", -1},    {"Score: 1\nThe response", 1},
                 {"Score: 1\n", 1},          {"<think>\nScore: 1\n", -1},
                 {"Score: 3\nScore: 1", 3},  {"Score: 3\nScore: 1\n", -1},
                 {"</think>Score: 1\nso", 1}};
    char why[MINT_JUDGE_WHY];
    for (size_t i = 0; i < MINT_ARRAY_LEN(cases); i++) {
        const char *r = cases[i].reply;
        double v = -1;
        if (mint_judge_read_score(r, strlen(r), true, 0, 10, &v, why) < 0)
            v = -1;
        if (v < cases[i].score || v > cases[i].score)
            fail_msg("'%s': %g", r, v);
    }
    enum mint_judge_verdict v;
    assert_int_equal(mint_judge_read_verdict("A", 1, true, &v, why), -1);
    assert_int_equal(mint_judge_read_verdict("Verdict: A", 10, true, &v, why), -1);
    assert_int_equal(mint_judge_read_verdict("Verdict: A\nas", 13, true, &v, why), 0);
}

/* No reply may be read beyond its end: each is cut at every byte, in memory of its own. */
static void replies_cut_anywhere(void **state)
{
    (void)state;
    static const char *const replies[] = {"<think>x</think>Final **Score:** -7.5e0 / 10.",
                                          "Verdict: Response A\nWinner = tie"};
    for (size_t i = 0; i < MINT_ARRAY_LEN(replies); i++) {
        for (size_t n = 0; n <= strlen(replies[i]); n++) {
            char *exact = malloc(n ? n : 1), why[MINT_JUDGE_WHY];
            double v;
            enum mint_judge_verdict verdict;
            assert_non_null(exact);
            memcpy(exact, replies[i], n);
            for (int cut = 0; cut < 2; cut++) {
                (void)mint_judge_read_score(exact, n, cut, -10, 10, &v, why);
                (void)mint_judge_read_verdict(exact, n, cut, &verdict, why);
            }
            free(exact);
        }
    }
}

static void scales(void **state)
{
    (void)state;
    double lo, hi;
    assert_int_equal(mint_judge_scale(NULL, &lo, &hi, NULL), 0);
    assert_true(lo >= 0 && lo <= 0 && hi >= 10 && hi <= 10);
    assert_int_equal(mint_judge_scale("-1:0.5", &lo, &hi, NULL), 0);
    assert_true(lo < -0.99 && hi > 0.49 && hi < 0.51);
    static const char *const bad[] = {"",      "5",     "5:",    ":5",          "5:5",
                                      "5:1",   "a:b",   "0:10x", "0-10",        "0:1e999",
                                      "0:10:", "0: 10", "nan:1", "-1e308:1e308"};
    for (size_t i = 0; i < MINT_ARRAY_LEN(bad); i++) {
        struct mint_err err = {0};
        if (mint_judge_scale(bad[i], &lo, &hi, &err) == 0)
            fail_msg("'%s' is taken", bad[i]);
        assert_int_equal(err.code, MINT_EUSAGE);
    }
}

static void rings(void **state)
{
    (void)state;
    int64_t k;
    assert_int_equal(mint_judge_ring("all", &k, NULL), 0);
    assert_int_equal(k, 0);
    assert_int_equal(mint_judge_ring("ring:3", &k, NULL), 0);
    assert_int_equal(k, 3);
    assert_int_equal(mint_judge_ring("ring:0", &k, NULL), -1);
    assert_int_equal(mint_judge_ring("ring:", &k, NULL), -1);
    assert_int_equal(mint_judge_ring("ring:-1", &k, NULL), -1);
    assert_int_equal(mint_judge_ring("some", &k, NULL), -1);
    /* every member of a ring has 2K partners, or all others */
    for (size_t n = 1; n <= 9; n++) {
        for (int64_t ring = 0; ring <= 6; ring++) {
            for (size_t i = 0; i < n; i++) {
                size_t partners = 0;
                for (size_t j = 0; j < n; j++) {
                    partners += mint_judge_paired(i, j, n, ring);
                    assert_true(mint_judge_paired(i, j, n, ring) ==
                                mint_judge_paired(j, i, n, ring));
                }
                size_t want = ring ? MINT_MIN(2 * (size_t)ring, n - 1) : n - 1;
                assert_int_equal(partners, want);
            }
        }
    }
}

/* --- texts */

static void built_in_texts_are_the_files(void **state)
{
    (void)state;
    static const char *const files[] = {"pipelines/judge/rubric.txt",
                                        "pipelines/judge/pairwise.txt"};
    for (int mode = 0; mode < 2; mode++) {
        char *text;
        size_t n;
        if (!mint_fs_exists(files[mode]))
            skip(); /* not run from the tree */
        assert_int_equal(mint_fs_read_file(files[mode], 1 << 20, &text, &n, NULL), 0);
        assert_string_equal(text, mint_judge_default_prompt((enum mint_judge_mode)mode));
        free(text);
    }
}

static int fill(const char *text, const char *record, struct mint_buf *out, struct mint_err *err)
{
    struct mint_json *doc = mint_json_new();
    assert_int_equal(mint_json_parse(doc, record, strlen(record), err), 0);
    struct mint_sequence seqs[2] = {{.text = "one {prompt}", .text_len = 12},
                                    {.text = "two", .text_len = 3}};
    struct mint_group group = {.seqs = seqs, .nseqs = 2};
    struct mint_score_opts opts = {.gold_field = "answer"};
    struct mint_score_task task = {.doc = doc, .group = &group, .index = 0};
    struct mint_judge_fields f = {
        .opts = &opts, .task = &task, .a = &seqs[1], .b = &seqs[0], .lo = 0, .hi = 2.5};
    int rc = mint_judge_prompt_fill(text, &f, out, err);
    mint_json_free(doc);
    return rc;
}

static void fields(void **state)
{
    (void)state;
    static const struct {
        const char *text, *record, *want; /* want NULL: an error */
    } cases[] = {
        {"[{response}]", "{}", "[one {prompt}]"},
        {"{response_a}/{response_b}", "{}", "two/one {prompt}"},
        {"{prompt} {lo}..{hi}", "{\"prompt\":\"p\\n\"}", "p\n 0..2.5"},
        {"{answer}", "{\"answer\":[\"x\",\"y\"]}", "x"},
        {"{answer}", "{\"answer\":12}", "12"},
        {"{{{id}}}", "{\"id\":1.50}", "{1.50}"},
        {"a{{b}}c", "{}", "a{b}c"},
        {"{prompt}", "{\"messages\":[{\"role\":\"user\",\"content\":\"hi\"}],\"prompt\":\"no\"}",
         "hi"},
        {"{prompt}",
         "{\"messages\":[{\"role\":\"user\",\"content\":\"hi\"},{\"role\":\"assistant\","
         "\"content\":\"ho\"}]}",
         "user: hi\n\nassistant: ho"},
        {"{prompt}", "{\"messages\":[{\"role\":\"user\",\"content\":[{\"type\":\"image\"}]}]}",
         NULL},
        {"{prompt}", "{}", NULL},
        {"{answer}", "{}", NULL},
        {"{x}", "{\"x\":[1]}", NULL},
    };
    for (size_t i = 0; i < MINT_ARRAY_LEN(cases); i++) {
        struct mint_buf out = MINT_BUF_INIT;
        struct mint_err err = {0};
        int rc = fill(cases[i].text, cases[i].record, &out, &err);
        if (rc == 0 ? !cases[i].want || strcmp(out.data, cases[i].want) != 0
                    : cases[i].want != NULL || err.code != MINT_ESCHEMA)
            fail_msg("'%s': rc %d, '%s', '%s'", cases[i].text, rc, out.data, err.msg);
        mint_buf_release(&out);
    }
}

static void texts_that_are_wrong(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        enum mint_judge_mode mode;
        const char *said; /* NULL: fine */
    } cases[] = {
        {"{response}", MINT_JUDGE_RUBRIC, NULL},
        {"{response_a}{response_b}{other-field}", MINT_JUDGE_PAIRWISE, NULL},
        {"{prompt}", MINT_JUDGE_RUBRIC, "shows {response}"},
        {"{response}{response_a}", MINT_JUDGE_RUBRIC, "shows {response}"},
        {"{response}", MINT_JUDGE_PAIRWISE, "shows {response_a}"},
        {"{response_a}", MINT_JUDGE_PAIRWISE, "shows {response_a}"},
        {"{response}\n{", MINT_JUDGE_RUBRIC, ":2: a brace"},
        {"{response}}", MINT_JUDGE_RUBRIC, ":1: a brace"},
        {"{response}\n\n{1}", MINT_JUDGE_RUBRIC, ":3: a brace"},
        {"{response} {}", MINT_JUDGE_RUBRIC, ":1: a brace"},
        {"{response} {a b}", MINT_JUDGE_RUBRIC, ":1: a brace"},
    };
    char dir[] = "/tmp/test_judge.XXXXXX";
    assert_non_null(mkdtemp(dir));
    char *path = mint_fs_join(dir, "p.txt"), *text;
    for (size_t i = 0; i < MINT_ARRAY_LEN(cases); i++) {
        struct mint_judge_opts o = {.prompt_file = path, .mode = cases[i].mode};
        struct mint_err err = {0};
        assert_int_equal(mint_fs_write_file(path, cases[i].text, strlen(cases[i].text), NULL), 0);
        int rc = mint_judge_prompt_read(&o, &text, &err);
        if ((rc == 0) != !cases[i].said || (rc < 0 && !strstr(err.msg, cases[i].said)))
            fail_msg("'%s': rc %d, '%s'", cases[i].text, rc, err.msg);
        if (rc == 0)
            free(text);
    }
    remove(path);
    remove(dir);
    free(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(scores_that_are_there),
        cmocka_unit_test(scores_that_are_not),
        cmocka_unit_test(verdicts),
        cmocka_unit_test(replies_cut_by_the_limit),
        cmocka_unit_test(replies_cut_anywhere),
        cmocka_unit_test(scales),
        cmocka_unit_test(rings),
        cmocka_unit_test(built_in_texts_are_the_files),
        cmocka_unit_test(fields),
        cmocka_unit_test(texts_that_are_wrong),
    };
    return cmocka_run_group_tests_name("judge", tests, NULL, NULL);
}

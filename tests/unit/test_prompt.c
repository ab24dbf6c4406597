/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "prompt.h"
#include "promptset.h"
#include "rollout.h"
#include "train_job.h"

static struct mint_json *parse(const char *text)
{
    struct mint_err err;
    struct mint_json *j = mint_json_new();
    if (mint_json_parse(j, text, strlen(text), &err) < 0)
        fail_msg("%s", err.msg);
    return j;
}

static void template_is(const char *template, const char *record, const char *want)
{
    struct mint_err err;
    struct mint_buf b = MINT_BUF_INIT;
    struct mint_json *j = parse(record);
    assert_int_equal(mint_template_check(template, &err), 0);
    assert_int_equal(mint_template_fill(template, j, &b, &err), 0);
    assert_string_equal(b.data, want);
    mint_buf_release(&b);
    mint_json_free(j);
}

static void templates(void **state)
{
    (void)state;
    template_is("Q: {q}\\nA:", "{\"q\":\"1+1\"}", "Q: 1+1\nA:");
    template_is("{a}{b}", "{\"a\":12,\"b\":true}", "12true");
    template_is("{{{a}}} \\\\ \\t\\x", "{\"a\":\"{b}\"}", "{{b}} \\ \t\\x");
}

static void template_errors(void **state)
{
    (void)state;
    struct mint_err err;
    struct mint_buf b = MINT_BUF_INIT;
    const char *bad[] = {"{", "}", "a{}b", "{a", "a}b"};
    for (size_t i = 0; i < MINT_ARRAY_LEN(bad); i++) {
        assert_int_equal(mint_template_check(bad[i], &err), -1);
        assert_int_equal(err.code, MINT_EUSAGE);
    }
    struct mint_json *j = parse("{\"a\":[1],\"b\":null}");
    assert_int_equal(mint_template_fill("{c}", j, &b, &err), -1);
    assert_non_null(strstr(err.msg, "{c}"));
    assert_int_equal(mint_template_fill("{a}", j, &b, &err), -1);
    assert_int_equal(mint_template_fill("{b}", j, &b, &err), -1);
    mint_json_free(j);
    mint_buf_release(&b);
}

static void ids(void **state)
{
    (void)state;
    struct {
        const char *record, *id;
    } cases[] = {{"{\"id\":\"a\\u0041\"}", "aA"}, {"{\"id\":17}", "17"}, {"{\"x\":1}", "line:9"}};
    for (size_t i = 0; i < MINT_ARRAY_LEN(cases); i++) {
        struct mint_buf b = MINT_BUF_INIT;
        struct mint_json *j = parse(cases[i].record);
        assert_int_equal(mint_prompt_id(j, 9, &b, NULL), 0);
        assert_string_equal(b.data, cases[i].id);
        mint_buf_release(&b);
        mint_json_free(j);
    }
    struct mint_json *j = parse("{\"id\":[1]}");
    struct mint_buf b = MINT_BUF_INIT;
    assert_int_equal(mint_prompt_id(j, 1, &b, NULL), -1);
    mint_json_free(j);
}

/* Names of the records that the options choose from a file of n: "0 1 2 ". */
static void chosen(int n, struct mint_promptset_opts o, char *out, size_t cap)
{
    struct mint_err err;
    struct mint_promptset *s;
    struct mint_prompt_record r;
    char path[] = "/tmp/mint-prompt-XXXXXX";
    int fd = mkstemp(path), rc;
    for (int i = 0; i < n; i++)
        dprintf(fd, "{\"n\":%d}\n", i);
    close(fd);
    const char *paths[] = {path};
    o.paths = paths;
    o.npaths = 1;
    assert_int_equal(mint_promptset_open(&s, &o, &err), 0);
    *out = '\0';
    while ((rc = mint_promptset_next(s, &r, &err)) > 0) {
        int64_t v;
        size_t len = strlen(out);
        assert_true(mint_json_int(r.doc, mint_json_get(r.doc, 0, "n"), &v));
        assert_int_equal(r.lineno, v + 1);
        snprintf(out + len, cap - len, "%lld%s ", (long long)v, r.epoch ? "'" : "");
    }
    assert_int_equal(rc, 0);
    mint_promptset_close(s);
    unlink(path);
}

static void slices(void **state)
{
    (void)state;
    char s[256], t[256], all[256] = "";
    chosen(5, (struct mint_promptset_opts){.step = -1}, s, sizeof s);
    assert_string_equal(s, "0 1 2 3 4 ");
    chosen(5, (struct mint_promptset_opts){.step = 0, .groups_per_batch = 3}, s, sizeof s);
    assert_string_equal(s, "0 1 2 ");
    chosen(5, (struct mint_promptset_opts){.step = 1, .groups_per_batch = 3}, s, sizeof s);
    assert_string_equal(s, "3 4 0' ");
    chosen(2, (struct mint_promptset_opts){.step = 1, .groups_per_batch = 3}, s, sizeof s);
    assert_string_equal(s, "1' 0' 1' ");
    struct mint_promptset_opts o = {.step = -1, .shuffle = true, .shuffle_seed = 3};
    chosen(20, o, t, sizeof t);
    chosen(20, o, s, sizeof s);
    assert_string_equal(s, t); /* the same each time, and a permutation */
    for (int i = 0; i < 20; i++) {
        char one[8];
        snprintf(one, sizeof one, i < 10 ? " %d " : "%d ", i);
        assert_true(strstr(t, one) != NULL || strncmp(t, one + 1, strlen(one) - 1) == 0);
    }
    for (int64_t i = 0; i < 3; i++) { /* shards in order are the whole */
        struct mint_promptset_opts p = o;
        p.shard = i;
        p.shards = 3;
        chosen(20, p, s, sizeof s);
        strcat(all, s);
    }
    assert_string_equal(all, t);
}

static void splices(void **state)
{
    (void)state;
    const char *text = "{ \"a\" : [1,2], \"s\":[{\"x\":1},{}] ,\"t\":{\"u\":\"v\"}}";
    struct mint_json *j = parse(text);
    struct mint_splices s = {0};
    struct mint_buf b = MINT_BUF_INIT;
    mint_json_val list = mint_json_get(j, 0, "s"), first = mint_json_first(j, list);
    mint_splice_member(&s, j, mint_json_get(j, 0, "t"), "u", mint_xstrdup("7"));
    mint_splice_member(&s, j, mint_json_get(j, 0, "t"), "w", mint_xstrdup("8"));
    mint_splice_member(&s, j, mint_json_get(j, 0, "t"), "z", mint_xstrdup("9"));
    mint_splice_member(&s, j, mint_json_next(j, first), "y", mint_xstrdup("[]"));
    mint_splice_member(&s, j, first, "x", mint_xstrdup("null"));
    mint_splice_apply(&s, text, strlen(text), &b);
    assert_string_equal(b.data, "{ \"a\" : [1,2], \"s\":[{\"x\":null},{\"y\":[]}] "
                                ",\"t\":{\"u\":7,\"w\":8,\"z\":9}}");
    mint_buf_release(&b);
    mint_splice_release(&s);
    mint_json_free(j);
}

static void reserved_names(void **state)
{
    (void)state;
    struct mint_err err;
    const char *bad[] = {"{\"sequences\":1}", "{\"sampling\":{}}", "{\"prompt_tokens\":[1]}"};
    for (size_t i = 0; i < 3; i++) {
        struct mint_json *j = parse(bad[i]);
        assert_int_equal(mint_rollout_check(j, false, &err), -1);
        assert_int_equal(mint_rollout_check(j, true, &err), i == 2 ? 0 : -1);
        mint_json_free(j);
    }
}

static void learning_rates(void **state)
{
    (void)state;
    struct mint_train_config c = {.lr = 1.0, .warmup = 2, .schedule = MINT_SCHEDULE_LINEAR};
    assert_true(mint_train_lr(&c, 0, 100, 6) == 0.5);
    assert_true(mint_train_lr(&c, 1, 100, 6) == 1.0);
    assert_true(mint_train_lr(&c, 2, 100, 6) == 1.0);
    assert_true(mint_train_lr(&c, 4, 100, 6) == 0.5);
    c.schedule = MINT_SCHEDULE_COSINE;
    assert_true(mint_train_lr(&c, 2, 100, 6) == 1.0);
    assert_true(mint_train_lr(&c, 4, 100, 6) > 0.49 && mint_train_lr(&c, 4, 100, 6) < 0.51);
    c.total_steps = 200; /* over the whole chain: this run starts at step 101 of 200 */
    assert_true(mint_train_lr(&c, 0, 101, 6) > 0.49 && mint_train_lr(&c, 0, 101, 6) < 0.51);
    assert_true(mint_train_lr(&c, 99, 101, 6) < 1e-6);
    c.schedule = MINT_SCHEDULE_CONSTANT;
    assert_true(mint_train_lr(&c, 3, 50, 6) == 1.0);
}

static void planned_steps(void **state)
{
    (void)state;
    struct mint_train_config c = {.epochs = 2, .substeps = 1};
    assert_int_equal(mint_train_planned(&c, 10), 2);
    c.batch_size = 4;
    assert_int_equal(mint_train_planned(&c, 10), 6);
    c.substeps = 3; /* 3 + 3 + 2: the last batch has two datums */
    assert_int_equal(mint_train_planned(&c, 10), 16);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(templates),
        cmocka_unit_test(template_errors),
        cmocka_unit_test(ids),
        cmocka_unit_test(slices),
        cmocka_unit_test(splices),
        cmocka_unit_test(reserved_names),
        cmocka_unit_test(learning_rates),
        cmocka_unit_test(planned_steps),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

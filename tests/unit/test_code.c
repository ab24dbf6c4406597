/* SPDX-License-Identifier: Apache-2.0 */
/* The program in a response, the forms of tests, and comparing. Running: tests/e2e/34-code.bats. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "score_code.h"

static const struct mint_code_lang *lang(const char *name)
{
    return name ? mint_code_lang(name, strlen(name)) : NULL;
}

static void extracts(void **state)
{
    (void)state;
    static const struct {
        const char *text, *want, *record, *name; /* NULL: no program */
    } t[] = {
        {"So:\n```python\nx = 1\n```\nDone", "x = 1\n", NULL, "python"},
        {"```\nx\n```", "x\n", NULL, "python"},
        {"```py\na\n```\n```PYTHON3\nb\n```", "b\n", NULL, "python"},
        {"```cpp\na\n```", "a\n", NULL, "cpp"},
        {"```C++ title=x\na\n```", "a\n", NULL, "cpp"},
        {"``` {.python}\na\n```", "a\n", NULL, "python"},
        /* the output that is shown after it is not the program */
        {"```python\na\n```\n```text\n8\n```", "a\n", NULL, "python"},
        {"```python\na\n```\n```\n8\n```", "a\n", "python", "python"},
        {"```sh\nls\n```\n```c\na\n```", "ls\n", "sh", "sh"},
        {"```sh\nls\n```", NULL, "c", "c"},
        {"```text\nls\n```", NULL, NULL, "python"},
        {"```\nx\n```", "x\n", "c", "c"},
        /* cut off, nested, indented, other fences */
        {"```python\nx = 1\nprint(", "x = 1\nprint(\n", NULL, "python"},
        {"````python\n```\nx\n````", "```\nx\n", NULL, "python"},
        {"~~~python\n```\n~~~", "```\n", NULL, "python"},
        {"1. so\n   ```python\n   if x:\n       y\n   ```", "if x:\n    y\n", NULL, "python"},
        {"use ```x``` and\n```python\ny\n```", "y\n", NULL, "python"},
        {"```x```", "```x```\n", NULL, "python"},
        {"```python\r\nx\r\n```\r\n", "x\r\n", NULL, "python"},
        /* thinking and turns */
        {"<think>```python\nno\n```</think>```python\nyes\n```", "yes\n", NULL, "python"},
        {"<think>```python\nno\n```", NULL, NULL, "python"},
        {"```python\na\n```<|im_end|>```python\nb\n```", "a\n", NULL, "python"},
        /* no blocks */
        {"Here is it:\n\nimport re\ndef f():\n  pass\n", "import re\ndef f():\n  pass\n\n", NULL,
         "python"},
        {"From here on\nthe class is\ndef f(): pass", "def f(): pass\n", NULL, "python"},
        {"print(1)", "print(1)\n", NULL, "python"},
        {"echo hi", "echo hi\n", "sh", "sh"},
        {"Sure.\n#include <stdio.h>\nint main", "#include <stdio.h>\nint main\n", "c", "c"},
        {"", NULL, NULL, "python"},
        {" \n", NULL, NULL, "python"},
        {"```python\n\n```", NULL, NULL, "python"},
    };
    for (size_t i = 0; i < MINT_ARRAY_LEN(t); i++) {
        struct mint_buf code = MINT_BUF_INIT;
        const struct mint_code_lang *l = lang(t[i].record);
        bool found = mint_code_extract(t[i].text, strlen(t[i].text), &l, lang("python"), &code);
        if (found != (t[i].want != NULL) || l != lang(t[i].name) ||
            (found && strcmp(code.data, t[i].want)))
            fail_msg("'%s': %s in %s", t[i].text, found ? code.data : "nothing", l->name);
        mint_buf_release(&code);
    }
}

static int read_tests(const char *text, struct mint_json *doc, struct mint_arena *a,
                      struct mint_code_tests *t, struct mint_err *err)
{
    if (mint_json_parse(doc, text, strlen(text), err) < 0)
        fail_msg("%s: %s", text, err->msg);
    return mint_code_tests_read(doc, "tests", a, t, err);
}

static void forms_of_tests(void **state)
{
    (void)state;
    struct mint_json *doc = mint_json_new();
    struct mint_arena a = MINT_ARENA_INIT;
    struct mint_code_tests t;
    struct mint_err err;
    assert_int_equal(read_tests("{\"setup\":\"import x\",\"entry_point\":\"f\",\"tests\":["
                                "\"assert 1\",{\"assert\":\"assert 2\"},"
                                "{\"input\":\"a\\u0000b\",\"output\":\"c\",\"args\":[\"-x\"]},"
                                "{\"stdin\":\"\",\"stdout\":\"\",\"expect_exit\":3},"
                                "{\"call\":\"f(1)\",\"expect\":null,\"tolerance\":1e-6},"
                                "{\"call\":\"f\",\"args\":[1,[2]],\"expect\":[1]}]}",
                                doc, &a, &t, &err),
                     0);
    assert_int_equal(t.n, 6);
    assert_string_equal(t.setup, "import x");
    assert_string_equal(t.entry, "f");
    assert_int_equal(t.v[0].kind, MINT_CODE_ASSERT);
    assert_string_equal(t.v[1].text, "assert 2");
    assert_int_equal(t.v[2].input_n, 3);
    assert_memory_equal(t.v[2].input, "a\0b", 3);
    assert_string_equal(t.v[2].args[0], "-x");
    assert_null(t.v[2].args[1]);
    assert_int_equal(t.v[3].exit_status, 3);
    assert_string_equal(t.v[4].text, "{\"call\":\"f(1)\"}");
    assert_true(t.v[4].tolerance == 1e-6);
    assert_string_equal(t.v[5].text, "{\"call\":\"f\",\"args\":[1,[2]]}");
    assert_int_equal(read_tests("{\"tests\":{\"inputs\":[\"1\",\"2\"],\"outputs\":[\"3\",\"4\"]}}",
                                doc, &a, &t, &err),
                     0);
    assert_int_equal(t.n, 2);
    assert_string_equal(t.v[1].want, "4");
    assert_int_equal(read_tests("{\"tests\":\"assert x\"}", doc, &a, &t, &err), 0);
    assert_int_equal(t.n, 1);
    mint_arena_release(&a);
    mint_json_free(doc);
}

static void wrong_tests(void **state)
{
    (void)state;
    static const struct {
        const char *text, *msg;
    } t[] = {
        {"{}", "no \"tests\" to run"},
        {"{\"tests\":null}", "no \"tests\" to run"},
        {"{\"tests\":[]}", "holds no test"},
        {"{\"tests\":[[]]}", "is no test"},
        {"{\"tests\":[1]}", "must be an array of tests"},
        {"{\"tests\":5}", "must be an array of tests"},
        {"{\"tests\":[\"\",{}]}", "tests[1]"},
        {"{\"tests\":[{\"input\":\"x\"}]}", "no \"output\""},
        {"{\"tests\":[{\"input\":3,\"output\":\"\"}]}", "must be a string"},
        {"{\"tests\":[{\"output\":3}]}", "must be a string"},
        {"{\"tests\":[{\"output\":\"\",\"args\":[1]}]}", "array of strings"},
        {"{\"tests\":[{\"output\":\"\",\"args\":[\"a\\u0000\"]}]}", "without NUL"},
        {"{\"tests\":[{\"output\":\"\",\"expect_exit\":256}]}", "from 0 to 255"},
        {"{\"tests\":[{\"call\":\"f\"}]}", "no \"expect\""},
        {"{\"tests\":[{\"call\":3,\"expect\":1}]}", "must be a string"},
        {"{\"tests\":[{\"call\":\"f\",\"args\":3,\"expect\":1}]}", "must be an array"},
        {"{\"tests\":[{\"call\":\"f\",\"tolerance\":-1,\"expect\":1}]}", "not below 0"},
        {"{\"tests\":[{\"assert\":3}]}", "must be a string"},
        {"{\"tests\":{\"inputs\":[\"a\"],\"outputs\":[]}}", "the same length"},
        {"{\"tests\":\"x\",\"setup\":3}", "setup"},
    };
    struct mint_json *doc = mint_json_new();
    struct mint_arena a = MINT_ARENA_INIT;
    for (size_t i = 0; i < MINT_ARRAY_LEN(t); i++) {
        struct mint_code_tests tests;
        struct mint_err err = {0};
        if (read_tests(t[i].text, doc, &a, &tests, &err) == 0 || !strstr(err.msg, t[i].msg) ||
            err.code != MINT_ESCHEMA)
            fail_msg("%s: '%s', expected '%s'", t[i].text, err.msg, t[i].msg);
    }
    mint_arena_release(&a);
    mint_json_free(doc);
}

static void same_text(void **state)
{
    (void)state;
    static const struct {
        const char *got, *want;
        size_t line; /* 0: the same */
    } t[] = {
        {"8\n", "8", 0},    {"8", "8\n\n", 0},       {"8 \t\r\n", "8\n", 0}, {"", "", 0},
        {"\n\n", "", 0},    {"a\n\nb", "a\n\nb", 0}, {"a\nb", "a\n\nb", 2},  {" 8", "8", 1},
        {"8\n9", "8", 2},   {"8", "8\n9", 2},        {"8\n\n9", "8\n9", 2},  {"", "x", 1},
        {"a b", "a  b", 1},
    };
    for (size_t i = 0; i < MINT_ARRAY_LEN(t); i++) {
        struct mint_code_diff d;
        bool same =
            mint_code_same_text(t[i].got, strlen(t[i].got), t[i].want, strlen(t[i].want), &d);
        if (same != !t[i].line || (!same && d.line != t[i].line))
            fail_msg("'%s' and '%s': line %zu", t[i].got, t[i].want, same ? 0 : d.line);
    }
    struct mint_code_diff d;
    assert_false(mint_code_same_text("8\0\n", 3, "8\n", 2, &d));
    assert_false(mint_code_same_text("8\n\0", 3, "8\n", 2, &d));
}

static void same_value(void **state)
{
    (void)state;
    static const struct {
        const char *got, *want;
        double tolerance;
        bool same;
    } t[] = {
        {"1", "1.0", 0, true},
        {"9007199254740993", "9007199254740992", 0, false},
        {"123456789012345678901234567890", "123456789012345678901234567890", 0, true},
        {"0.30000000000000004", "0.3", 0, false},
        {"0.30000000000000004", "0.3", 1e-9, true},
        {"1000000.5", "1000000", 1e-6, true},
        {"1.1", "1", 1e-6, false},
        {"true", "1", 0, false},
        {"1", "true", 1, false},
        {"true", "true", 0, true},
        {"null", "null", 0, true},
        {"null", "0", 1, false},
        {"\"a\\u0062\"", "\"ab\"", 0, true},
        {"\"3\"", "3", 0, false},
        {"[1, 2.0,3]", "[1,2,3]", 0, true},
        {"[1,2]", "[1,2,3]", 0, false},
        {"[1,2,4]", "[1,2,3]", 0, false},
        {"[]", "[]", 0, true},
        {"[[1],[]]", "[[1],[]]", 0, true},
        {"[[1],[\"a\"]]", "[[1],[2]]", 0, false},
        {"[1,\"a\"]", "[1,\"a\"]", 0, true},
        {"{\"a\":1,\"b\":[2]}", "{\"b\":[2],\"a\":1}", 0, true},
        {"{\"a\":1}", "{\"a\":1,\"b\":2}", 0, false},
        {"{\"a\\u0062\":1}", "{\"ab\":1}", 0, true},
        {"{\"a\":1,\"c\":2}", "{\"a\":1,\"b\":2}", 0, false},
        {"{}", "[]", 0, false},
    };
    struct mint_json *a = mint_json_new(), *b = mint_json_new();
    for (size_t i = 0; i < MINT_ARRAY_LEN(t); i++) {
        assert_int_equal(mint_json_parse(a, t[i].got, strlen(t[i].got), NULL), 0);
        assert_int_equal(mint_json_parse(b, t[i].want, strlen(t[i].want), NULL), 0);
        if (mint_code_same_value(a, 0, b, 0, t[i].tolerance) != t[i].same)
            fail_msg("%s and %s", t[i].got, t[i].want);
    }
    mint_json_free(a);
    mint_json_free(b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(extracts),    cmocka_unit_test(forms_of_tests),
        cmocka_unit_test(wrong_tests), cmocka_unit_test(same_text),
        cmocka_unit_test(same_value),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

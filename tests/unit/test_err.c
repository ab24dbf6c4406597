/* SPDX-License-Identifier: Apache-2.0 */
#include "err.h"

#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

static void fail_fills_and_returns_minus_one(void **state)
{
    (void)state;
    struct mint_err err;
    assert_int_equal(mint_fail(&err, MINT_ESCHEMA, "has %d values, %d expected", 31, 33), -1);
    assert_int_equal(err.code, MINT_ESCHEMA);
    assert_string_equal(err.msg, "has 31 values, 33 expected");
}

static void control_bytes_are_escaped_utf8_is_not(void **state)
{
    (void)state;
    struct mint_err err;
    mint_fail(&err, MINT_EFORMAT, "'%s'", "a\nb\x1b[2J\x7f é");
    assert_string_equal(err.msg, "'a\\x0ab\\x1b[2J\\x7f é'");
}

static void errno_text_is_added(void **state)
{
    (void)state;
    struct mint_err err;
    errno = ENOENT;
    assert_int_equal(mint_fail_errno(&err, "cannot open %s", "x"), -1);
    assert_int_equal(err.code, MINT_EIO);
    assert_string_equal(err.msg, "cannot open x: No such file or directory");
}

static void wrap_puts_text_before_and_keeps_the_code(void **state)
{
    (void)state;
    struct mint_err err;
    mint_fail(&err, MINT_ETRUNC, "ends early");
    assert_int_equal(mint_wrap(&err, "%s:%d: ", "a\tb", 17), -1);
    assert_string_equal(err.msg, "a\\x09b:17: ends early");
    assert_int_equal(err.code, MINT_ETRUNC);
}

static void long_texts_are_cut_not_overrun(void **state)
{
    (void)state;
    struct {
        struct mint_err err;
        char guard[8];
    } s = {.guard = "guard"};
    char text[5000];
    memset(text, '\n', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    mint_fail(&s.err, MINT_EFORMAT, "%s", text);
    assert_true(strlen(s.err.msg) < sizeof s.err.msg);
    for (int i = 0; i < 3; i++)
        mint_wrap(&s.err, "%s", text);
    assert_true(strlen(s.err.msg) < sizeof s.err.msg);
    errno = ENOSPC;
    mint_fail_errno(&s.err, "%s", text);
    assert_true(strlen(s.err.msg) < sizeof s.err.msg);
    assert_string_equal(s.guard, "guard");
}

static void nobody_need_listen(void **state)
{
    (void)state;
    assert_int_equal(mint_fail(NULL, MINT_EIO, "x"), -1);
    assert_int_equal(mint_fail_errno(NULL, "x"), -1);
    assert_int_equal(mint_wrap(NULL, "x"), -1);
}

static void bug_says_where_and_aborts(void **state)
{
    (void)state;
    int ends[2];
    char text[512] = "";
    int status;
    assert_int_equal(pipe(ends), 0);
    pid_t child = fork();
    if (child == 0) {
        signal(SIGABRT, SIG_DFL);
        dup2(ends[1], STDERR_FILENO);
        close(ends[0]);
        MINT_BUG("%d apples", 3);
    }
    close(ends[1]);
    size_t n = 0;
    ssize_t r;
    while ((r = read(ends[0], text + n, sizeof text - 1 - n)) > 0)
        n += (size_t)r;
    close(ends[0]);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
    assert_non_null(strstr(text, "test_err.c"));
    assert_non_null(strstr(text, "3 apples"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fail_fills_and_returns_minus_one),
        cmocka_unit_test(control_bytes_are_escaped_utf8_is_not),
        cmocka_unit_test(errno_text_is_added),
        cmocka_unit_test(wrap_puts_text_before_and_keeps_the_code),
        cmocka_unit_test(long_texts_are_cut_not_overrun),
        cmocka_unit_test(nobody_need_listen),
        cmocka_unit_test(bug_says_where_and_aborts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "log.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

/* Runs f in a child whose stderr is a pipe and returns what it said. */
static const char *said_by(void (*f)(void))
{
    static char text[65536];
    int ends[2];
    size_t n = 0;
    ssize_t r;
    assert_int_equal(pipe(ends), 0);
    pid_t child = fork();
    if (child == 0) {
        dup2(ends[1], STDERR_FILENO);
        close(ends[0]);
        close(ends[1]);
        f();
        _exit(0);
    }
    close(ends[1]);
    while ((r = read(ends[0], text + n, sizeof text - 1 - n)) > 0)
        n += (size_t)r;
    text[n] = '\0';
    close(ends[0]);
    waitpid(child, NULL, 0);
    return text;
}

static void all_voices(int level)
{
    mint_log_setup("mint-x", level, MINT_PROGRESS_AUTO);
    mint_error("e%d", 1);
    mint_warn("w");
    mint_note("n");
    mint_verbose(1, "v");
    mint_verbose(2, "vv");
}

static void quiet(void)
{
    all_voices(-1);
}

static void normal(void)
{
    all_voices(0);
}

static void verbose(void)
{
    all_voices(1);
}

static void very_verbose(void)
{
    all_voices(2);
}

static void levels(void **state)
{
    (void)state;
    assert_string_equal(said_by(quiet), "mint-x: e1\n");
    assert_string_equal(said_by(normal), "mint-x: e1\nmint-x: warning: w\nmint-x: n\n");
    assert_string_equal(said_by(verbose), "mint-x: e1\nmint-x: warning: w\nmint-x: n\nmint-x: v\n");
    assert_string_equal(said_by(very_verbose),
                        "mint-x: e1\nmint-x: warning: w\nmint-x: n\nmint-x: v\nmint-x: vv\n");
}

static void hostile(void)
{
    mint_log_setup("mint-x", 0, MINT_PROGRESS_AUTO);
    mint_error("%s", "a\nb\033[2J\177é");
}

static void control_bytes_do_not_reach_the_terminal(void **state)
{
    (void)state;
    assert_string_equal(said_by(hostile), "mint-x: a\\x0ab\\x1b[2J\\x7fé\n");
}

static void colour_and_terminal(void **state)
{
    (void)state;
    setenv("MINT_TEST_TTY", "1", 1);
    setenv("TERM", "xterm", 1);
    unsetenv("NO_COLOR");
    assert_string_equal(said_by(normal),
                        "\033[1;31mmint-x:\033[0m e1\n\033[1;33mmint-x:\033[0m warning: w\n"
                        "mint-x: n\n");
    setenv("NO_COLOR", "1", 1);
    assert_string_equal(said_by(normal), "mint-x: e1\nmint-x: warning: w\nmint-x: n\n");
    setenv("NO_COLOR", "", 1);
    assert_non_null(strstr(said_by(normal), "\033[1;31m"));
    setenv("TERM", "dumb", 1);
    assert_null(strchr(said_by(normal), '\033'));
    unsetenv("MINT_TEST_TTY");
    setenv("TERM", "xterm", 1);
    assert_null(strchr(said_by(normal), '\033'));
}

/*
 * A progress that began more than a day ago: so the first, silent second is over, and a machine
 * that stops for a moment changes none of the digits.
 */
static struct mint_progress begun(void)
{
    struct mint_progress p;
    mint_progress_begin(&p, "sampling", "sequences", 200);
    p.start -= 100000;
    return p;
}

static void drawn(void)
{
    mint_log_setup("mint-x", 0, MINT_PROGRESS_AUTO);
    struct mint_progress young;
    mint_progress_begin(&young, "young", "things", 0);
    young.start += 1000; /* the first second lasts */
    mint_progress_set(&young, 10, NULL);
    mint_progress_end(&young);
    struct mint_progress p = begun();
    mint_progress_set(&p, 150, "loss\n3");
    p.shown += 1000; /* just shown */
    mint_progress_set(&p, 160, NULL);
    p.shown -= 2000;
    mint_progress_set(&p, 160, NULL);
    mint_note("a word between");
    mint_progress_end(&p);
    p = begun();
    mint_progress_set(&p, 200, NULL);
    mint_progress_end(&p);
}

static void progress_on_a_terminal(void **state)
{
    (void)state;
    setenv("MINT_TEST_TTY", "1", 1);
    const char *s = said_by(drawn);
    unsetenv("MINT_TEST_TTY");
    assert_string_equal(
        s, "\r\033[Ksampling: 150/200 sequences (75%), 0.0015/s, 9:15:33 left, loss\\x0a3"
           "\r\033[Ksampling: 160/200 sequences (80%), 0.0016/s, 6:56:40 left"
           "\r\033[Kmint-x: a word between\n"
           "\r\033[Ksampling: 200/200 sequences (100%), 0.002/s\r\033[K");
}

static void no_progress_without_one(void **state)
{
    (void)state;
    assert_string_equal(said_by(drawn), "mint-x: a word between\n");
}

static void always(void)
{
    mint_log_setup("mint-x", -1, MINT_PROGRESS_ALWAYS);
    struct mint_progress p = begun();
    mint_progress_set(&p, 150, NULL);
    p.shown += 1000;
    mint_progress_set(&p, 200, NULL);
    mint_progress_end(&p);
    mint_progress_end(&p);
}

static void never(void)
{
    mint_log_setup("mint-x", 2, MINT_PROGRESS_NEVER);
    struct mint_progress p = begun();
    mint_progress_set(&p, 50, NULL);
    mint_progress_end(&p);
}

static void progress_in_whole_lines(void **state)
{
    (void)state;
    assert_string_equal(said_by(always),
                        "mint-x: sampling: 150/200 sequences (75%), 0.0015/s, 9:15:33 left\n"
                        "mint-x: sampling: 200/200 sequences (100%), 0.002/s\n");
    setenv("MINT_TEST_TTY", "1", 1);
    assert_string_equal(said_by(never), "");
    unsetenv("MINT_TEST_TTY");
}

static void clock_goes_on(void **state)
{
    (void)state;
    double a = mint_now();
    nanosleep(&(struct timespec){0, 2000000}, NULL);
    assert_true(mint_now() > a + 0.001);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(levels),
        cmocka_unit_test(control_bytes_do_not_reach_the_terminal),
        cmocka_unit_test(colour_and_terminal),
        cmocka_unit_test(progress_on_a_terminal),
        cmocka_unit_test(no_progress_without_one),
        cmocka_unit_test(progress_in_whole_lines),
        cmocka_unit_test(clock_goes_on),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "metrics.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "fs.h"

static char path[] = "/tmp/mint-test-metrics-XXXXXX";

static int setup(void **state)
{
    (void)state;
    int fd = mkstemp(path);
    close(fd);
    return fd < 0 ? -1 : unlink(path);
}

static int teardown(void **state)
{
    (void)state;
    unlink(path);
    memcpy(path + strlen(path) - 6, "XXXXXX", 6);
    return 0;
}

static void step(int64_t n, double loss)
{
    struct mint_metrics m = MINT_METRICS_INIT;
    struct mint_err err;
    mint_metrics_begin(&m, "mint-train");
    mint_metrics_int(&m, "step", n);
    mint_metrics_double(&m, "loss:sum", loss);
    mint_metrics_str(&m, "adapter", "a\"b");
    assert_int_equal(mint_metrics_end(&m, path, &err), 0);
    assert_null(m.line.data);
}

static void assert_file(const char *want)
{
    char *text;
    size_t n;
    assert_int_equal(mint_fs_read_file(path, 100000, &text, &n, NULL), 0);
    assert_string_equal(text, want);
    free(text);
}

static void lines_are_appended(void **state)
{
    (void)state;
    step(1, -3.5);
    step(2, (double)NAN);
    step(3, (double)INFINITY);
    assert_file("{\"tool\":\"mint-train\",\"step\":1,\"loss:sum\":-3.5,\"adapter\":\"a\\\"b\"}\n"
                "{\"tool\":\"mint-train\",\"step\":2,\"loss:sum\":null,\"adapter\":\"a\\\"b\"}\n"
                "{\"tool\":\"mint-train\",\"step\":3,\"loss:sum\":null,\"adapter\":\"a\\\"b\"}\n");
}

static void an_open_line_is_ended_first(void **state)
{
    (void)state;
    assert_int_equal(mint_fs_write_file(path, "{\"tool\":\"mi", 11, NULL), 0);
    step(1, 1);
    assert_file("{\"tool\":\"mi\n{\"tool\":\"mint-train\",\"step\":1,\"loss:sum\":1,\"adapter\":"
                "\"a\\\"b\"}\n");
}

static void no_path_writes_nothing(void **state)
{
    (void)state;
    struct mint_metrics m = MINT_METRICS_INIT;
    mint_metrics_begin(&m, "x");
    assert_int_equal(mint_metrics_end(&m, NULL, NULL), 0);
    assert_null(m.line.data);
}

static void failures_are_named(void **state)
{
    (void)state;
    struct mint_metrics m = MINT_METRICS_INIT;
    struct mint_err err;
    mint_metrics_begin(&m, "x");
    assert_int_equal(mint_metrics_end(&m, "/nonexistent/m", &err), -1);
    assert_string_equal(err.msg,
                        "cannot open metrics file /nonexistent/m: No such file or directory");
    mint_metrics_begin(&m, "x");
    assert_int_equal(mint_metrics_end(&m, "/dev/full", &err), -1);
    assert_non_null(strstr(err.msg, "No space left"));
}

/* Two tools that write one file at the same time do not mix their lines. */
static void writers_do_not_mix(void **state)
{
    (void)state;
    pid_t child = fork();
    for (int i = 0; i < 300; i++)
        step(i, 0.123456789);
    if (child == 0)
        _exit(0);
    waitpid(child, NULL, 0);
    char *text, *line, *save = NULL;
    size_t n, lines = 0;
    assert_int_equal(mint_fs_read_file(path, 1 << 20, &text, &n, NULL), 0);
    for (line = strtok_r(text, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
        assert_int_equal(strncmp(line, "{\"tool\":", 8), 0);
        assert_int_equal(line[strlen(line) - 1], '}');
        lines++;
    }
    assert_int_equal(lines, 600);
    free(text);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(lines_are_appended), TEST(an_open_line_is_ended_first), TEST(no_path_writes_nothing),
        TEST(failures_are_named), TEST(writers_do_not_mix),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

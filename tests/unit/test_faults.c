/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a writer leaves behind when a system call fails or the machine stops: the program starts
 * itself as that writer, with tests/inject/iofail.so preloaded. Under the final name there is the
 * old content, or the new one, or nothing; never a part.
 */
#include <dirent.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "fs.h"
#include "mem.h"
#include "zio.h"

static char self[4096], preload[4096], dir[512], message[4096];

/* --- the writers */

static int write_stream(const char *path)
{
    struct mint_out *out;
    struct mint_err err;
    char line[64];
    int rc = mint_out_open(&out, path, MINT_OUT_FORCE, &err);
    if (rc == 0) {
        for (int i = 0; i < 20000 && rc == 0; i++) {
            int n = snprintf(line, sizeof line, "line %d %d\n", i, i * 7919);
            rc = mint_out_write(out, line, (size_t)n, &err);
            if (rc == 0 && i % 5000 == 0)
                rc = mint_out_flush(out, &err);
        }
        if (rc == 0)
            rc = mint_out_commit(out, &err);
        else
            mint_out_abort(out);
    }
    if (rc < 0)
        fprintf(stderr, "%s\n", err.msg);
    return rc < 0;
}

static int write_folder(const char *path)
{
    struct mint_tmpdir t;
    struct mint_err err;
    int rc = mint_tmpdir_open(&t, path, true, &err);
    if (rc == 0) {
        char *a = mint_fs_join(t.path, "config.json"), *sub = mint_fs_join(t.path, "sub"),
             *b = mint_fs_join(sub, "b");
        rc = mint_fs_copy_file("source", a, &err);
        if (rc == 0 && mkdir(sub, 0777) < 0)
            rc = mint_fail_errno(&err, "cannot create %s", sub);
        if (rc == 0)
            rc = mint_fs_write_file(b, "new", 3, &err);
        if (rc == 0)
            rc = mint_tmpdir_commit(&t, &err);
        else
            mint_tmpdir_abort(&t);
        free(a);
        free(sub);
        free(b);
    }
    if (rc < 0)
        fprintf(stderr, "%s\n", err.msg);
    return rc < 0;
}

/* --- the tests */

static int enter(void **state)
{
    (void)state;
    const char *tmp = getenv("TMPDIR");
    snprintf(dir, sizeof dir, "%s/mint-test-faults-XXXXXX", tmp ? tmp : "/tmp");
    return mkdtemp(dir) ? chdir(dir) : -1;
}

static int leave(void **state)
{
    (void)state;
    char *command = mint_xasprintf("rm -rf '%s'", dir);
    int rc = chdir("/") == 0 ? system(command) : -1;
    free(command);
    return rc;
}

/* Runs a writer under a rule; returns its wait status and keeps what it said in message. */
static int run(const char *writer, const char *rule)
{
    int status, ends[2];
    size_t n = 0;
    ssize_t r;
    assert_int_equal(pipe(ends), 0);
    pid_t child = fork();
    if (child == 0) {
        dup2(ends[1], STDERR_FILENO);
        close(ends[0]);
        close(ends[1]);
        setenv("MINT_IOFAIL", rule, 1);
        setenv("LD_PRELOAD", preload, 1);
        execl(self, self, writer, "out", (char *)NULL);
        _exit(99);
    }
    close(ends[1]);
    while ((r = read(ends[0], message + n, sizeof message - 1 - n)) > 0)
        n += (size_t)r;
    message[n] = '\0';
    close(ends[0]);
    waitpid(child, &status, 0);
    return status;
}

static int count_temporaries(void)
{
    DIR *d = opendir(".");
    int n = 0;
    for (struct dirent *e; (e = readdir(d));)
        n += strstr(e->d_name, ".tmp-") != NULL;
    closedir(d);
    return n;
}

static bool has(const char *path, const char *want)
{
    char *text;
    size_t n;
    if (mint_fs_read_file(path, 1 << 24, &text, &n, NULL) < 0)
        return false;
    bool same = n == strlen(want) && memcmp(text, want, n) == 0;
    free(text);
    return same;
}

static bool is_same(const char *a, const char *b)
{
    char *text;
    size_t n;
    assert_int_equal(mint_fs_read_file(a, 1 << 24, &text, &n, NULL), 0);
    struct mint_map m;
    assert_int_equal(mint_fs_map(&m, b, NULL), 0);
    bool same = m.n == n && memcmp(m.data, text, n) == 0;
    mint_fs_unmap(&m);
    free(text);
    return same;
}

static void put(const char *path, const char *text)
{
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fputs(text, f);
    fclose(f);
}

static const char *const calls[] = {"open", "write", "fsync", "close", "rename", "mkdir"};

static void check_stream(const char *rule, bool old, bool killed)
{
    if (old)
        put("out", "old");
    else
        unlink("out");
    int status = run("stream", rule);
    bool is_new = mint_fs_exists("out") && !has("out", "old");
    if (is_new && !is_same("out", "whole"))
        fail_msg("%s left a part", rule);
    if (killed && WIFSIGNALED(status)) {
        assert_int_equal(WTERMSIG(status), SIGKILL);
        assert_true(count_temporaries() <= 1);
        assert_int_equal(WEXITSTATUS(run("stream", "none:0")), 0); /* the next one tidies up */
        assert_true(is_same("out", "whole"));
    } else if (WEXITSTATUS(status) == 0) {
        assert_true(is_new);
    } else {
        assert_int_equal(WEXITSTATUS(status), 1);
        assert_non_null(strstr(message, "No space left on device"));
        assert_true(mint_fs_exists("out") || !old);
    }
    assert_int_equal(count_temporaries(), 0);
}

static void a_stream_is_whole_or_absent(void **state)
{
    (void)state;
    assert_int_equal(run("stream", "none:0"), 0);
    assert_int_equal(rename("out", "whole"), 0);
    for (size_t c = 0; c < MINT_ARRAY_LEN(calls); c++) {
        for (int n = 1; n <= 3; n++) {
            char rule[64];
            snprintf(rule, sizeof rule, "%s:%d:ENOSPC", calls[c], n);
            check_stream(rule, false, false);
            check_stream(rule, true, false);
            snprintf(rule, sizeof rule, "%s:%d:kill", calls[c], n);
            check_stream(rule, true, true);
        }
    }
    check_stream("write:1+:short", true, false); /* short writes are no error */
    assert_true(is_same("out", "whole"));
}

static void check_folder(const char *rule, bool killed)
{
    assert_int_equal(
        system("rm -rf out && mkdir out && echo old >out/old && : >out/adapter_config.json"), 0);
    int status = run("folder", rule);
    bool is_old =
        has("out/old", "old\n") && !mint_fs_exists("out/config.json") && !mint_fs_exists("out/sub");
    bool is_new =
        has("out/config.json", "source") && has("out/sub/b", "new") && !mint_fs_exists("out/old");
    if (!is_old && !is_new)
        fail_msg("%s left a part", rule);
    if (killed && WIFSIGNALED(status)) {
        assert_int_equal(WEXITSTATUS(run("folder", "none:0")), 0);
        assert_true(has("out/sub/b", "new"));
    } else if (WEXITSTATUS(status) == 0) {
        assert_true(is_new);
    } else {
        assert_int_equal(WEXITSTATUS(status), 1);
        assert_non_null(strstr(message, "Input/output error"));
    }
    assert_int_equal(count_temporaries(), 0);
}

static void a_folder_is_whole_or_as_it_was(void **state)
{
    (void)state;
    put("source", "source");
    for (size_t c = 0; c < MINT_ARRAY_LEN(calls); c++) {
        for (int n = 1; n <= 4; n++) {
            char rule[64];
            snprintf(rule, sizeof rule, "%s:%d:EIO", calls[c], n);
            check_folder(rule, false);
            snprintf(rule, sizeof rule, "%s:%d:kill", calls[c], n);
            check_folder(rule, true);
        }
    }
}

/* A file system without the flags of renameat2: the way round gives the same. */
static void without_exchange(void **state)
{
    (void)state;
    put("source", "source");
    assert_int_equal(system("mkdir out && echo old >out/old && : >out/adapter_config.json"), 0);
    assert_int_equal(run("folder", "rename:2:EINVAL"), 0); /* 1 is that of sub/b */
    assert_true(has("out/sub/b", "new") && !mint_fs_exists("out/old"));
    assert_int_equal(count_temporaries(), 0);
    assert_int_equal(system("rm -rf out"), 0);
    assert_int_equal(run("folder", "rename:2:EINVAL"), 0);
    assert_true(has("out/sub/b", "new"));
    assert_int_equal(count_temporaries(), 0);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, enter, leave)

int main(int argc, char **argv)
{
    if (argc == 3)
        return strcmp(argv[1], "stream") == 0 ? write_stream(argv[2]) : write_folder(argv[2]);
    const char *build = getenv("MINT_BUILD");
    ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
    if (n < 0 || !build) {
        fprintf(stderr, "set MINT_BUILD to the build folder, which has tests/inject/iofail.so\n");
        return 1;
    }
    snprintf(preload, sizeof preload, "%s/tests/inject/iofail.so", build);
    if (access(preload, R_OK) != 0) {
        fprintf(stderr, "%s is missing\n", preload);
        return 1;
    }
    const struct CMUnitTest tests[] = {
        TEST(a_stream_is_whole_or_absent),
        TEST(a_folder_is_whole_or_as_it_was),
        TEST(without_exchange),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

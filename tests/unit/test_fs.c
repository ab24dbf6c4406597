/* SPDX-License-Identifier: Apache-2.0 */
#include "fs.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "mem.h"

/* Every test runs in a fresh folder, which is the working directory. */
static int enter(void **state)
{
    const char *tmp = getenv("TMPDIR");
    char *dir = mint_xasprintf("%s/mint-test-fs-XXXXXX", tmp ? tmp : "/tmp");
    *state = dir;
    return mkdtemp(dir) && chdir(dir) == 0 ? 0 : -1;
}

static int leave(void **state)
{
    char *command = mint_xasprintf("chmod -R u+w %s; rm -rf %s", (char *)*state, (char *)*state);
    int rc = chdir("/") == 0 ? system(command) : -1;
    free(command);
    free(*state);
    return rc;
}

static void make(const char *path, const char *text)
{
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fputs(text, f);
    fclose(f);
}

static void assert_content(const char *path, const char *want)
{
    struct mint_err err;
    char *text;
    size_t n;
    assert_int_equal(mint_fs_read_file(path, 1 << 20, &text, &n, &err), 0);
    assert_string_equal(text, want);
    assert_int_equal(n, strlen(want));
    free(text);
}

static void assert_no_temporaries(void)
{
    assert_int_not_equal(system("ls -A | grep -q tmp-"), 0);
}

static void read_file_has_limits(void **state)
{
    (void)state;
    struct mint_err err;
    char *text;
    size_t n;
    make("a", "0123456789");
    assert_int_equal(mint_fs_read_file("a", 10, &text, &n, &err), 0);
    assert_int_equal(n, 10);
    assert_string_equal(text, "0123456789");
    free(text);
    assert_int_equal(mint_fs_read_file("a", 9, &text, &n, &err), -1);
    assert_string_equal(err.msg, "a has more than 9 bytes");
    assert_int_equal(mint_fs_read_file("none", 9, &text, &n, &err), -1);
    assert_string_equal(err.msg, "cannot open none: No such file or directory");
    assert_int_equal(mint_fs_read_file(".", 9, &text, &n, &err), -1);
    assert_int_equal(mint_fs_read_file("/dev/zero", 100000, &text, &n, &err), -1);
    mkfifo("pipe", 0666);
    alarm(20); /* neither may wait for a writer */
    assert_int_equal(mint_fs_read_file("pipe", 9, &text, &n, &err), -1);
    assert_string_equal(err.msg, "pipe is no regular file");
    assert_int_equal(mint_fs_copy_file("pipe", "b", &err), -1);
    assert_string_equal(err.msg, "pipe is no regular file");
    alarm(0);
    assert_false(mint_fs_exists("b"));
    make("empty", "");
    assert_int_equal(mint_fs_read_file("empty", 0, &text, &n, &err), 0);
    assert_string_equal(text, "");
    free(text);
}

static void write_file_replaces(void **state)
{
    (void)state;
    struct mint_err err;
    make("a", "old");
    assert_int_equal(chmod("a", 0600), 0);
    assert_int_equal(mint_fs_write_file("a", "new text", 8, &err), 0);
    assert_content("a", "new text");
    struct stat st;
    stat("a", &st);
    assert_int_equal(st.st_mode & 0777, 0600);
    assert_int_equal(mint_fs_write_file("none/a", "x", 1, &err), -1);
    assert_string_equal(err.msg, "cannot create none/a: No such file or directory");
    assert_no_temporaries();
}

static void a_link_stays_a_link(void **state)
{
    (void)state;
    struct mint_err err;
    struct stat st;
    mkdir("d", 0777);
    make("d/real", "old");
    assert_int_equal(symlink("d/real", "link"), 0);
    assert_int_equal(mint_fs_write_file("link", "new", 3, &err), 0);
    lstat("link", &st);
    assert_true(S_ISLNK(st.st_mode));
    assert_content("d/real", "new");
}

static void map_gives_the_bytes(void **state)
{
    (void)state;
    struct mint_err err;
    struct mint_map m;
    make("a", "hello");
    assert_int_equal(mint_fs_map(&m, "a", &err), 0);
    assert_int_equal(m.n, 5);
    assert_memory_equal(m.data, "hello", 5);
    mint_fs_unmap(&m);
    assert_null(m.data);
    make("empty", "");
    assert_int_equal(mint_fs_map(&m, "empty", &err), 0);
    assert_null(m.data);
    assert_int_equal(m.n, 0);
    mint_fs_unmap(&m);
    assert_int_equal(mint_fs_map(&m, "none", &err), -1);
    assert_int_equal(mint_fs_map(&m, ".", &err), -1);
    assert_string_equal(err.msg, ". is no regular file");
    mkfifo("pipe", 0666); /* must not hang */
    assert_int_equal(mint_fs_map(&m, "pipe", &err), -1);
}

static void tmpfile_is_absent_until_commit(void **state)
{
    (void)state;
    struct mint_err err;
    struct mint_tmpfile t;
    assert_int_equal(mint_tmpfile_open(&t, "out", false, &err), 0);
    assert_int_equal(mint_fs_write_all(t.fd, "text", 4), 0);
    assert_false(mint_fs_exists("out"));
    assert_true(mint_fs_exists(t.path));
    assert_int_equal(mint_tmpfile_commit(&t, &err), 0);
    assert_content("out", "text");
    assert_no_temporaries();
    mint_tmpfile_abort(&t); /* after commit: nothing */
}

static void tmpfile_abort_leaves_nothing(void **state)
{
    (void)state;
    struct mint_err err;
    struct mint_tmpfile t;
    assert_int_equal(mint_tmpfile_open(&t, "out", false, &err), 0);
    mint_tmpfile_abort(&t);
    mint_tmpfile_abort(&t);
    struct mint_tmpfile zero = {0};
    mint_tmpfile_abort(&zero);
    assert_false(mint_fs_exists("out"));
    assert_no_temporaries();
}

static void existing_target_needs_force(void **state)
{
    (void)state;
    struct mint_err err;
    struct mint_tmpfile t;
    make("out", "old");
    assert_int_equal(mint_tmpfile_open(&t, "out", false, &err), -1);
    assert_string_equal(err.msg, "out exists; use -f to replace it");
    assert_int_equal(mint_tmpfile_open(&t, "out", true, &err), 0);
    assert_int_equal(mint_fs_write_all(t.fd, "new", 3), 0);
    assert_content("out", "old");
    assert_int_equal(mint_tmpfile_commit(&t, &err), 0);
    assert_content("out", "new");
}

static void target_that_came_meanwhile_is_kept(void **state)
{
    (void)state;
    struct mint_err err;
    struct mint_tmpfile t;
    assert_int_equal(mint_tmpfile_open(&t, "out", false, &err), 0);
    make("out", "theirs");
    assert_int_equal(mint_tmpfile_commit(&t, &err), -1);
    assert_string_equal(err.msg, "out exists; use -f to replace it");
    assert_content("out", "theirs");
    assert_no_temporaries();
}

static void bad_targets_are_named(void **state)
{
    (void)state;
    struct mint_err err;
    struct mint_tmpfile t;
    struct mint_tmpdir d;
    static const char *const names[] = {"", "/", ".", "..", "x/.."};
    mkdir("x", 0777);
    for (size_t i = 0; i < MINT_ARRAY_LEN(names); i++) {
        assert_int_equal(mint_tmpfile_open(&t, names[i], true, &err), -1);
        assert_int_equal(mint_tmpdir_open(&d, names[i], true, &err), -1);
    }
    assert_int_equal(mint_tmpfile_open(&t, "x", true, &err), -1);
    assert_string_equal(err.msg, "x is a folder");
    assert_int_equal(mint_tmpfile_open(&t, "new/", false, &err), -1);
    assert_string_equal(err.msg, "cannot create new/: that names a folder; name a file, as in "
                                 "new/NAME");
    assert_int_equal(mint_tmpfile_open(&t, "x//", true, &err), -1);
    assert_int_equal(mint_fs_write_file("new/", "x", 1, &err), -1);
    assert_false(mint_fs_exists("new"));
    make("file", "");
    assert_int_equal(mint_tmpdir_open(&d, "file", true, &err), -1);
    assert_string_equal(err.msg, "file is no folder");
    assert_int_equal(mint_tmpfile_open(&t, "none/out", true, &err), -1);
    assert_int_equal(mint_tmpdir_open(&d, "none/out", true, &err), -1);
    mint_tmpfile_abort(&t);
    mint_tmpdir_abort(&d);
    assert_no_temporaries();
}

static void one_writer_a_target(void **state)
{
    (void)state;
    struct mint_err err;
    struct mint_tmpfile t, u;
    assert_int_equal(mint_tmpfile_open(&t, "out", false, &err), 0);
    assert_int_equal(mint_tmpfile_open(&u, "out", false, &err), -1);
    assert_int_equal(err.code, MINT_ELOCKED);
    assert_int_equal(mint_tmpfile_commit(&t, &err), 0);
}

static void fill(const struct mint_tmpdir *t, const char *text)
{
    char *sub = mint_fs_join(t->path, "sub"), *file = mint_fs_join(sub, "file");
    assert_int_equal(mkdir(sub, 0777), 0);
    make(file, text);
    free(sub);
    free(file);
}

/* A process that is over, so that its pid is free. */
static long dead_pid(void)
{
    pid_t child = fork();
    if (child == 0)
        _exit(0);
    waitpid(child, NULL, 0);
    return child;
}

static void stale_temporaries_are_removed(void **state)
{
    (void)state;
    struct mint_err err;
    struct mint_tmpfile t;
    char dead[64], folder[64], inner[80], reused[64], own[64], locked[64], other[64], old[64];
    long pid = dead_pid();
    snprintf(dead, sizeof dead, "out.tmp-%ld", pid);
    snprintf(own, sizeof own, "out.tmp-%ld", (long)getpid());
    snprintf(reused, sizeof reused, "out.tmp-%ld", (long)getppid());
    snprintf(old, sizeof old, "out.tmp-%ld-old", (long)getppid());
    snprintf(other, sizeof other, "out.tmp-%ldx", pid);
    snprintf(folder, sizeof folder, "out.tmp-%ld", dead_pid());
    snprintf(inner, sizeof inner, "%s/file", folder);
    snprintf(locked, sizeof locked, "out.tmp-%ld", dead_pid());
    make(dead, "");
    make(own, "left by an earlier process of this number");
    make(reused, "by a dead writer, whose number another process has by now");
    mkdir(old, 0777); /* its writer may still move it back */
    make(other, "");
    make("out.tmp-", "");
    make("other.tmp-1", "");
    make(locked, "");
    int fd =
        open(locked, O_RDONLY); /* as a writer in another container, whose pids we cannot see */
    assert_int_equal(flock(fd, LOCK_EX), 0);
    mkdir(folder, 0777);
    make(inner, "");
    assert_int_equal(mint_tmpfile_open(&t, "out", false, &err), 0);
    assert_false(mint_fs_exists(dead));
    assert_false(mint_fs_exists(folder));
    assert_false(mint_fs_exists(reused));
    assert_true(mint_fs_exists(old));
    assert_true(mint_fs_exists(other));
    assert_true(mint_fs_exists(locked));
    assert_true(mint_fs_exists("out.tmp-"));
    assert_true(mint_fs_exists("other.tmp-1"));
    assert_int_equal(mint_tmpfile_commit(&t, &err), 0);
    assert_content("out", "");
    close(fd);
}

/* What writers that nobody waits for leave behind, a file and a folder; a writer at work loses
 * nothing. */
static void temporaries_of_the_killed_are_removed(void **state)
{
    (void)state;
    struct mint_err err;
    struct mint_tmpfile t;
    struct mint_tmpdir d;
    int ends[2];
    char text[64], c;
    assert_int_equal(pipe(ends), 0);
    pid_t child = fork();
    if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL); /* also if the test fails on the way */
        if (mint_tmpfile_open(&t, "out", false, NULL) < 0 ||
            mint_tmpdir_open(&d, "ck", false, NULL) < 0)
            _exit(9);
        fill(&d, "x");
        (void)!write(ends[1], "r", 1);
        for (;;)
            pause();
    }
    assert_int_equal(read(ends[0], &c, 1), 1);
    assert_int_equal(mint_tmpfile_open(&t, "out", false, &err), 0);
    assert_int_equal(mint_tmpdir_open(&d, "ck", false, &err), 0);
    mint_tmpfile_abort(&t);
    mint_tmpdir_abort(&d);
    snprintf(text, sizeof text, "out.tmp-%ld", (long)child);
    assert_true(mint_fs_exists(text));
    snprintf(text, sizeof text, "ck.tmp-%ld", (long)child);
    assert_true(mint_fs_exists(text));
    siginfo_t info;
    kill(child, SIGKILL);
    /* dead, but left as a zombie */
    assert_int_equal(waitid(P_PID, (id_t)child, &info, WEXITED | WNOWAIT), 0);
    assert_int_equal(mint_tmpfile_open(&t, "out", false, &err), 0);
    assert_int_equal(mint_tmpdir_open(&d, "ck", false, &err), 0);
    mint_tmpfile_abort(&t);
    mint_tmpdir_abort(&d);
    assert_no_temporaries();
    waitpid(child, NULL, 0);
    close(ends[0]);
    close(ends[1]);
}

static void the_only_copy_is_not_stale(void **state)
{
    (void)state;
    struct mint_err err;
    struct mint_tmpdir t;
    char old[64];
    snprintf(old, sizeof old, "out.tmp-%ld-old", dead_pid());
    mkdir(old, 0777);
    assert_int_equal(mint_tmpdir_open(&t, "out", false, &err), 0);
    assert_true(mint_fs_exists(old));
    assert_int_equal(mint_tmpdir_commit(&t, &err), 0);
    assert_int_equal(mint_tmpdir_open(&t, "out", true, &err), 0);
    assert_false(mint_fs_exists(old));
    mint_tmpdir_abort(&t);
}

static void tmpdir_commits_and_replaces(void **state)
{
    (void)state;
    struct mint_err err;
    struct mint_tmpdir t;
    assert_int_equal(mint_tmpdir_open(&t, "ck/", false, &err), 0);
    fill(&t, "one");
    assert_false(mint_fs_exists("ck"));
    assert_int_equal(mint_tmpdir_commit(&t, &err), 0);
    assert_content("ck/sub/file", "one");
    assert_true(mint_fs_is_dir("ck"));
    assert_int_equal(mint_tmpdir_open(&t, "ck", false, &err), -1);
    assert_string_equal(err.msg, "ck exists; use -f to replace it");
    make("ck/adapter_config.json", "{}");
    assert_int_equal(mint_tmpdir_open(&t, "ck", true, &err), 0);
    fill(&t, "two");
    assert_content("ck/sub/file", "one");
    assert_int_equal(mint_tmpdir_commit(&t, &err), 0);
    assert_content("ck/sub/file", "two");
    assert_no_temporaries();
}

static void tmpdir_abort_removes_the_tree(void **state)
{
    (void)state;
    struct mint_err err;
    struct mint_tmpdir t;
    assert_int_equal(mint_tmpdir_open(&t, "ck", false, &err), 0);
    fill(&t, "x");
    char *link = mint_fs_join(t.path, "link");
    mkdir("precious", 0777);
    make("precious/file", "kept");
    assert_int_equal(symlink("../precious", link), 0);
    free(link);
    mint_tmpdir_abort(&t);
    mint_tmpdir_abort(&t);
    assert_false(mint_fs_exists("ck"));
    assert_content("precious/file", "kept");
    assert_no_temporaries();
}

static void tmpdir_does_not_take_an_empty_folder(void **state)
{
    (void)state;
    struct mint_err err;
    struct mint_tmpdir t;
    assert_int_equal(mint_tmpdir_open(&t, "ck", false, &err), 0);
    mkdir("ck", 0777); /* rename(2) alone would replace it */
    assert_int_equal(mint_tmpdir_commit(&t, &err), -1);
    assert_string_equal(err.msg, "ck exists; use -f to replace it");
    assert_no_temporaries();
}

static void force_spares_what_is_no_model(void **state)
{
    (void)state;
    struct mint_err err;
    struct mint_tmpdir t;
    mkdir("home", 0777);
    make("home/notes", "kept");
    assert_int_equal(mint_tmpdir_open(&t, "home", true, &err), -1);
    assert_string_equal(err.msg,
                        "home is no model or adapter folder (no config.json, no "
                        "adapter_config.json), so -f does not replace it; remove it, or name "
                        "another folder");
    mkdir("home/config.json", 0777); /* the name alone is not it */
    assert_int_equal(symlink("home", "link"), 0);
    assert_int_equal(mint_tmpdir_open(&t, "link", true, &err), -1);
    assert_content("home/notes", "kept");
    /* what came while the new folder was being filled */
    assert_int_equal(mint_tmpdir_open(&t, "late", true, &err), 0);
    mkdir("late", 0777);
    make("late/notes", "kept");
    assert_int_equal(mint_tmpdir_commit(&t, &err), -1);
    assert_content("late/notes", "kept");
    /* an empty folder, and a model that holds more */
    mkdir("empty", 0777);
    assert_int_equal(mint_tmpdir_open(&t, "empty", true, &err), 0);
    assert_int_equal(mint_tmpdir_commit(&t, &err), 0);
    mkdir("model", 0777);
    make("model/config.json", "{}");
    mkdir("model/sub", 0777);
    assert_int_equal(mint_tmpdir_open(&t, "model", true, &err), 0);
    assert_int_equal(mint_tmpdir_commit(&t, &err), 0);
    assert_false(mint_fs_exists("model/sub"));
    assert_no_temporaries();
}

static void force_spares_the_working_folder(void **state)
{
    (void)state;
    struct mint_err err;
    struct mint_tmpdir t;
    mkdir("m", 0777);
    make("m/config.json", "{}");
    mkdir("m/a", 0777);
    mkdir("m/a/b", 0777);
    assert_true(mint_fs_holds("m", "m/a/b") && mint_fs_holds("m", "m") && mint_fs_holds("/", "m"));
    assert_false(mint_fs_holds("m/a", "m") || mint_fs_holds("none", "m"));
    assert_false(mint_fs_holds("m", "none"));
    char *home = realpath("m", NULL);
    assert_int_equal(symlink(home, "link"), 0);
    assert_int_equal(chdir("m/a/b"), 0);
    const char *const names[] = {home, "../../../m", "../../../link", "../b"};
    for (size_t i = 0; i < MINT_ARRAY_LEN(names); i++) {
        assert_int_equal(mint_tmpdir_open(&t, names[i], true, &err), -1);
        assert_non_null(strstr(err.msg, "holds the working folder"));
    }
    assert_content("../../config.json", "{}");
    assert_int_equal(chdir("../../.."), 0);
    assert_no_temporaries();
    free(home);
}

static void on_signal(int sig)
{
    mint_fs_cleanup();
    signal(sig, SIG_DFL);
    raise(sig);
}

static void cleanup_in_a_signal_handler(void **state)
{
    (void)state;
    int ends[2], status;
    char c;
    assert_int_equal(pipe(ends), 0);
    pid_t child = fork();
    if (child == 0) {
        struct mint_tmpfile t;
        struct mint_tmpdir d;
        signal(SIGTERM, on_signal);
        if (mint_tmpfile_open(&t, "out", false, NULL) < 0 ||
            mint_tmpdir_open(&d, "ck", false, NULL) < 0)
            _exit(9);
        fill(&d, "x");
        (void)!write(ends[1], "r", 1);
        for (;;)
            pause();
    }
    assert_int_equal(read(ends[0], &c, 1), 1);
    kill(child, SIGTERM);
    waitpid(child, &status, 0);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGTERM);
    assert_no_temporaries();
    assert_false(mint_fs_exists("out") || mint_fs_exists("ck"));
    close(ends[0]);
    close(ends[1]);
}

static void a_forked_child_cleans_nothing_up(void **state)
{
    (void)state;
    struct mint_err err;
    struct mint_tmpfile t;
    assert_int_equal(mint_tmpfile_open(&t, "out", false, &err), 0);
    pid_t child = fork();
    if (child == 0) {
        mint_fs_cleanup();
        _exit(0);
    }
    waitpid(child, NULL, 0);
    assert_true(mint_fs_exists(t.path));
    mint_fs_cleanup();
    assert_false(mint_fs_exists(t.path));
    mint_tmpfile_abort(&t);
}

static void copy_is_exact_and_exclusive(void **state)
{
    (void)state;
    struct mint_err err;
    make("a", "some bytes");
    assert_int_equal(mint_fs_copy_file("a", "b", &err), 0);
    assert_content("b", "some bytes");
    assert_int_equal(mint_fs_copy_file("a", "a", &err), -1);
    assert_int_equal(mint_fs_copy_file("none", "c", &err), -1);
    assert_content("a", "some bytes");
}

static void lock_names_its_holder(void **state)
{
    (void)state;
    struct mint_err err;
    struct mint_lock l, m;
    int ends[2], status;
    char c;
    assert_int_equal(mint_lock_take(&l, "lock", &err), 0);
    pid_t child = fork();
    if (child == 0) {
        char want[64];
        snprintf(want, sizeof want, "lock is locked by process %ld", (long)getppid());
        int rc = mint_lock_take(&m, "lock", &err);
        _exit(rc == -1 && err.code == MINT_ELOCKED && strcmp(err.msg, want) == 0 ? 0 : 1);
    }
    waitpid(child, &status, 0);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    mint_lock_release(&l);
    mint_lock_release(&l);
    assert_true(mint_fs_exists("lock"));
    assert_int_equal(mint_lock_take(&m, "lock", &err), 0);
    mint_lock_release(&m);
    /* and it dies with its holder */
    assert_int_equal(pipe(ends), 0);
    child = fork();
    if (child == 0) {
        int rc = mint_lock_take(&l, "lock", &err);
        (void)!write(ends[1], rc ? "e" : "r", 1);
        for (;;)
            pause();
    }
    assert_int_equal(read(ends[0], &c, 1), 1);
    assert_int_equal(c, 'r');
    assert_int_equal(mint_lock_take(&m, "lock", &err), -1);
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    assert_int_equal(mint_lock_take(&m, "lock", &err), 0);
    mint_lock_release(&m);
    assert_int_equal(mint_lock_take(&m, "none/lock", &err), -1);
    assert_int_equal(err.code, MINT_EIO);
    close(ends[0]);
    close(ends[1]);
}

static void join_puts_one_slash(void **state)
{
    (void)state;
    static const char *const cases[][3] = {{"a", "b", "a/b"}, {"a/", "b", "a/b"}, {"/", "b", "/b"}};
    for (size_t i = 0; i < MINT_ARRAY_LEN(cases); i++) {
        char *p = mint_fs_join(cases[i][0], cases[i][1]);
        assert_string_equal(p, cases[i][2]);
        free(p);
    }
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, enter, leave)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(read_file_has_limits),
        TEST(write_file_replaces),
        TEST(a_link_stays_a_link),
        TEST(map_gives_the_bytes),
        TEST(tmpfile_is_absent_until_commit),
        TEST(tmpfile_abort_leaves_nothing),
        TEST(existing_target_needs_force),
        TEST(target_that_came_meanwhile_is_kept),
        TEST(bad_targets_are_named),
        TEST(one_writer_a_target),
        TEST(stale_temporaries_are_removed),
        TEST(temporaries_of_the_killed_are_removed),
        TEST(the_only_copy_is_not_stale),
        TEST(tmpdir_commits_and_replaces),
        TEST(tmpdir_abort_removes_the_tree),
        TEST(tmpdir_does_not_take_an_empty_folder),
        TEST(force_spares_what_is_no_model),
        TEST(force_spares_the_working_folder),
        TEST(cleanup_in_a_signal_handler),
        TEST(a_forked_child_cleans_nothing_up),
        TEST(copy_is_exact_and_exclusive),
        TEST(lock_names_its_holder),
        TEST(join_puts_one_slash),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

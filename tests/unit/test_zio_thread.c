/* SPDX-License-Identifier: Apache-2.0 */
/* Long streams, which get threads where there are two CPUs, are as they are with one. */
#include "zio.h"

#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "buf.h"
#include "fs.h"
#include "mem.h"

#define TEXT_BYTES ((size_t)5 << 20)

static char dir[256];
static cpu_set_t all;

static void *nothing(void *arg)
{
    return arg;
}

/* ThreadSanitizer has a thread of its own from the first one on: let it be there before we count.
 */
static int begin(void **state)
{
    pthread_t thread;
    (void)state;
    return pthread_create(&thread, NULL, nothing, NULL) || pthread_join(thread, NULL);
}

static int enter(void **state)
{
    (void)state;
    const char *tmp = getenv("TMPDIR");
    snprintf(dir, sizeof dir, "%s/mint-test-zio-XXXXXX", tmp ? tmp : "/tmp");
    return mkdtemp(dir) && sched_getaffinity(0, sizeof all, &all) == 0 ? 0 : -1;
}

static int leave(void **state)
{
    (void)state;
    char *command = mint_xasprintf("rm -rf '%s'", dir);
    int rc = system(command);
    free(command);
    return rc | sched_setaffinity(0, sizeof all, &all);
}

static const char *in_dir(const char *name)
{
    static char paths[4][512];
    static unsigned at;
    char *p = paths[at++ % 4];
    snprintf(p, sizeof paths[0], "%s/%s", dir, name);
    return p;
}

static void use_cpus(bool one)
{
    cpu_set_t set = all;
    for (int i = 0, seen = 0; one && i < CPU_SETSIZE; i++) {
        if (CPU_ISSET(i, &set) && seen++ > 0)
            CPU_CLR(i, &set);
    }
    assert_int_equal(sched_setaffinity(0, sizeof set, &set), 0);
}

static int threads(void)
{
    int n = 0;
    DIR *d = opendir("/proc/self/task");
    assert_non_null(d);
    while (readdir(d))
        n++;
    closedir(d);
    return n - 2;
}

/* One that was joined may be on the list a little longer. */
static void assert_threads(int n)
{
    for (int i = 0; i < 5000 && threads() != n; i++)
        usleep(1000);
    assert_int_equal(threads(), n);
}

/* How many there should be in the middle of a long stream, besides what sanitizers have. */
static int threads_wanted(bool one_cpu, int before)
{
    return before + (!one_cpu && CPU_COUNT(&all) > 1);
}

/* Lines of 1 to 40000 bytes that zstd cannot shrink by much. */
static void make_text(struct mint_buf *b)
{
    static const char digits[] = "0123456789abcdef";
    unsigned seed = 7, left = 0;
    mint_buf_reserve(b, TEXT_BYTES);
    while (b->len < TEXT_BYTES) {
        seed = seed * 1664525u + 1013904223u;
        if (left == 0)
            left = 1 + (seed >> 8) % 40000;
        b->data[b->len++] = --left == 0 ? '\n' : digits[seed >> 28];
    }
    b->data[b->len - 1] = '\n';
}

/* Writes it in pieces of all sizes, with a flush here and there. */
static int write_text(struct mint_out *out, const struct mint_buf *text, struct mint_err *err)
{
    unsigned seed = 3;
    for (size_t at = 0, n; at < text->len; at += n) {
        seed = seed * 1664525u + 1013904223u;
        n = MINT_MIN((size_t)(seed >> 8) % (seed & 0x1000 ? 1000 : 600000) + 1, text->len - at);
        if (mint_out_write(out, text->data + at, n, err) < 0)
            return -1;
        if (seed >> 30 == 0 && mint_out_flush(out, err) < 0)
            return -1;
    }
    return 0;
}

static void slurp(const char *path, struct mint_buf *b)
{
    char *data;
    size_t n;
    assert_int_equal(mint_fs_read_file(path, (size_t)1 << 30, &data, &n, NULL), 0);
    mint_buf_reset(b);
    mint_buf_add(b, data, n);
    free(data);
}

static void put_file(const char *path, const void *p, size_t n)
{
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    assert_int_equal(fwrite(p, 1, n, f), n);
    fclose(f);
}

/* The file that write_text makes. */
static void make_file(const char *path, bool one_cpu, const struct mint_buf *text)
{
    struct mint_out *out;
    struct mint_err err;
    int before = threads();
    use_cpus(one_cpu);
    assert_int_equal(mint_out_open(&out, path, 0, &err), 0);
    assert_threads(before);
    assert_int_equal(write_text(out, text, &err), 0);
    assert_threads(threads_wanted(one_cpu, before));
    assert_int_equal(mint_out_commit(out, &err), 0);
    assert_threads(before);
}

/* What reading gives: the lines, then the return code, the message and the number of the line. */
static void read_all(const char *path, bool one_cpu, struct mint_buf *b)
{
    struct mint_in *in;
    struct mint_err err = {.msg = ""};
    const char *line;
    size_t n;
    int rc, before = threads(), middle = -1;
    use_cpus(one_cpu);
    mint_buf_reset(b);
    assert_int_equal(mint_in_open(&in, path, &err), 0);
    while ((rc = mint_in_line(in, &line, &n, &err)) == 1) {
        mint_buf_add(b, line, n);
        mint_buf_addc(b, '\n');
        if (b->len > TEXT_BYTES / 2 && middle < 0)
            middle = threads();
    }
    if (rc == 0) /* where there is damage, the thread may have ended there by then */
        assert_int_equal(middle, threads_wanted(one_cpu, before));
    mint_buf_addf(b, "%d %s %llu %llu", rc, err.msg, (unsigned long long)mint_in_lineno(in),
                  (unsigned long long)mint_in_bytes(in));
    mint_in_close(in);
    assert_threads(before);
}

static void the_bytes_are_the_same(void **state)
{
    (void)state;
    struct mint_buf text = MINT_BUF_INIT, a = MINT_BUF_INIT, b = MINT_BUF_INIT;
    make_text(&text);
    make_file(in_dir("one"), true, &text);
    make_file(in_dir("all"), false, &text);
    slurp(in_dir("one"), &a);
    slurp(in_dir("all"), &b);
    assert_int_equal(a.len, b.len);
    assert_memory_equal(a.data, b.data, a.len);
    for (int one = 0; one < 2; one++) {
        read_all(in_dir("all"), one, &b);
        assert_true(b.len > text.len && memcmp(b.data, text.data, text.len) == 0);
        assert_memory_equal(b.data + text.len, "0 ", 2);
    }
    mint_buf_release(&text);
    mint_buf_release(&a);
    mint_buf_release(&b);
}

/* Cuts and changed bytes: the same lines come before, and the same words with the same line. */
static void damage_is_found_at_the_same_line(void **state)
{
    (void)state;
    struct mint_buf text = MINT_BUF_INIT, z = MINT_BUF_INIT, a = MINT_BUF_INIT, b = MINT_BUF_INIT;
    make_text(&text);
    make_file(in_dir("z"), true, &text);
    slurp(in_dir("z"), &z);
    for (size_t i = 1; i < 16; i++) {
        size_t at = z.len * i / 16, n = i % 2 ? at : z.len;
        z.data[at] ^= 0x10;
        put_file(in_dir("bad"), z.data, n);
        z.data[at] ^= 0x10;
        read_all(in_dir("bad"), true, &a);
        read_all(in_dir("bad"), false, &b);
        assert_int_equal(a.len, b.len);
        assert_memory_equal(a.data, b.data, a.len);
        const char *words = memchr(a.data + a.len - 300, '\n', 300);
        assert_non_null(words);
        assert_non_null(strstr(words, i % 2 ? "did not finish" : ": zstd "));
        assert_null(strstr(words, "No error"));
    }
    put_file(in_dir("bad"), z.data, z.len);
    FILE *f = fopen(in_dir("bad"), "a");
    fputs("tail", f);
    fclose(f);
    read_all(in_dir("bad"), false, &b);
    assert_non_null(strstr(b.data + text.len, "bytes after the last zstd frame"));
    mint_buf_release(&text);
    mint_buf_release(&z);
    mint_buf_release(&a);
    mint_buf_release(&b);
}

/* The writer has flushed what there is and says no more: the lines are there, and who has enough
 * does not wait for it. */
static void closing_does_not_wait_for_a_silent_writer(void **state)
{
    (void)state;
    struct mint_buf text = MINT_BUF_INIT;
    struct mint_in *in;
    struct mint_err err;
    const char *line;
    size_t n, got = 0;
    int ends[2];
    make_text(&text);
    assert_int_equal(pipe(ends), 0);
    pid_t child = fork();
    if (child == 0) {
        struct mint_out *out;
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        close(ends[0]);
        dup2(ends[1], STDOUT_FILENO);
        if (mint_out_open(&out, "-", 0, NULL) < 0 || write_text(out, &text, NULL) < 0 ||
            mint_out_flush(out, NULL) < 0)
            _exit(1);
        for (;;)
            pause();
    }
    close(ends[1]);
    char *path = mint_xasprintf("/dev/fd/%d", ends[0]);
    assert_int_equal(mint_in_open(&in, path, &err), 0);
    alarm(20); /* kills the test where it would hang */
    while (got < text.len) {
        assert_int_equal(mint_in_line(in, &line, &n, &err), 1);
        assert_memory_equal(line, text.data + got, n);
        got += n + 1;
    }
    usleep(100000); /* by now the thread waits for the pipe */
    mint_in_close(in);
    alarm(0);
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    close(ends[0]);
    free(path);
    mint_buf_release(&text);
}

/* A child writes the text; returns how it ended. path NULL: a pipe that nobody reads. */
static int child_writes(const char *path, const struct mint_buf *text, void (*prepare)(void),
                        const char *says)
{
    int status, ends[2];
    assert_int_equal(pipe(ends), 0);
    pid_t child = fork();
    if (child == 0) {
        struct mint_out *out;
        struct mint_err err = {.msg = ""};
        char some[4];
        dup2(ends[1], STDOUT_FILENO);
        close(ends[1]);
        prepare();
        int rc = mint_out_open(&out, path, 0, &err);
        if (rc == 0 && !path && read(ends[0], some, sizeof some) != (ssize_t)sizeof some)
            rc = -1;
        close(ends[0]); /* and so the last reader goes */
        if (rc == 0 && write_text(out, text, &err) < 0) {
            mint_out_abort(out);
            rc = -1;
        } else if (rc == 0) {
            rc = mint_out_commit(out, &err);
        }
        if (rc == 0 || strcmp(err.msg, says) != 0)
            fprintf(stderr, "# '%s', not '%s'\n", err.msg, says);
        _exit(rc == 0 ? 0 : strcmp(err.msg, says) == 0 ? 1 : 2);
    }
    close(ends[0]);
    close(ends[1]);
    waitpid(child, &status, 0);
    return status;
}

static void ignore_sigpipe(void)
{
    signal(SIGPIPE, SIG_IGN);
}

static void default_sigpipe(void)
{
    signal(SIGPIPE, SIG_DFL);
}

static void limit_files(void)
{
    struct rlimit r = {2 << 20, 2 << 20};
    signal(SIGXFSZ, SIG_IGN);
    setrlimit(RLIMIT_FSIZE, &r);
}

static void failed_writes_are_reported(void **state)
{
    (void)state;
    struct mint_buf text = MINT_BUF_INIT;
    char *says = mint_xasprintf("cannot write %s: File too large", in_dir("out"));
    make_text(&text);
    for (int one = 0; one < 2; one++) {
        use_cpus(one);
        int status = child_writes(in_dir("out"), &text, limit_files, says);
        assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 1);
        assert_int_equal(rmdir(dir), 0); /* nothing is left in it */
        assert_int_equal(mkdir(dir, 0700), 0);
        status =
            child_writes(NULL, &text, ignore_sigpipe, "cannot write standard output: Broken pipe");
        assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 1);
        status = child_writes(NULL, &text, default_sigpipe, "");
        assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGPIPE);
    }
    free(says);
    mint_buf_release(&text);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, enter, leave)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(the_bytes_are_the_same),
        TEST(damage_is_found_at_the_same_line),
        TEST(closing_does_not_wait_for_a_silent_writer),
        TEST(failed_writes_are_reported),
    };
    return cmocka_run_group_tests(tests, begin, NULL);
}

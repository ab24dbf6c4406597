/* SPDX-License-Identifier: Apache-2.0 */
#include "zio.h"

#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <zstd.h>

#include <cmocka.h>

#include "buf.h"
#include "fs.h"
#include "json.h"
#include "mem.h"

static char dir[256];

static int enter(void **state)
{
    (void)state;
    const char *tmp = getenv("TMPDIR");
    snprintf(dir, sizeof dir, "%s/mint-test-zio-XXXXXX", tmp ? tmp : "/tmp");
    return mkdtemp(dir) ? 0 : -1;
}

static int leave(void **state)
{
    (void)state;
    char *command = mint_xasprintf("rm -rf '%s'", dir);
    int rc = system(command);
    free(command);
    return rc;
}

/* A path in the test's folder; the last few stay valid. */
static const char *in_dir(const char *name)
{
    static char paths[4][512];
    static unsigned at;
    char *p = paths[at++ % 4];
    snprintf(p, sizeof paths[0], "%s/%s", dir, name);
    return p;
}

static const char *make(const char *name, const void *bytes, size_t n)
{
    const char *path = in_dir(name);
    FILE *f = fopen(path, "w"); /* not mint_fs_write_file, whose fsync would cost seconds */
    assert_non_null(f);
    assert_int_equal(fwrite(bytes, 1, n, f), n);
    fclose(f);
    return path;
}

/* All lines of a file, each with its number: "1:a|3:b|". Returns the last return code. */
static int read_lines(const char *path, struct mint_buf *out, struct mint_err *err)
{
    struct mint_in *in;
    const char *line;
    size_t n;
    int rc;
    mint_buf_reset(out);
    mint_buf_adds(out, "");
    if (mint_in_open(&in, path, err) < 0)
        return -1;
    while ((rc = mint_in_line(in, &line, &n, err)) == 1) {
        mint_buf_addf(out, "%llu:", (unsigned long long)mint_in_lineno(in));
        mint_buf_add(out, line, n);
        mint_buf_addc(out, '|');
    }
    if (rc < 0)
        assert_int_equal(mint_in_line(in, &line, &n, NULL), -1); /* and it stays so */
    mint_in_close(in);
    return rc;
}

static void plain_text_forms(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        const char *lines;
    } cases[] = {
        {"", ""},
        {"a", "1:a|"},
        {"a\n", "1:a|"},
        {"a\nb", "1:a|2:b|"},
        {"a\r\nb\r\n", "1:a|2:b|"},
        {"a\r\n\r\nb\r", "1:a|3:b|"},
        {"\n\n\n", ""},
        {"\n \t\na\n\nb\n\n", "3:a|5:b|"},
        {"\xef\xbb\xbf{}\n", "1:{}|"},
        {"\xef\xbb\xbf", ""},
        {"a\n\xef\xbb\xbf"
         "b\n",
         "1:a|2:\xef\xbb\xbf"
         "b|"},
        {"(", "1:(|"},
        {"P", "1:P|"},
        {"(\xb5", NULL}, /* the beginning of a zstd frame */
        {"a\rb\n", "1:a\rb|"},
        {"{}\n", "1:{}|"},
        {"123\n4567\n", "1:123|2:4567|"},
    };
    struct mint_buf b = MINT_BUF_INIT;
    struct mint_err err;
    for (size_t i = 0; i < MINT_ARRAY_LEN(cases); i++) {
        const char *path = make("in", cases[i].text, strlen(cases[i].text));
        int rc = read_lines(path, &b, &err);
        assert_int_equal(rc, cases[i].lines ? 0 : -1);
        if (cases[i].lines)
            assert_string_equal(b.data, cases[i].lines);
    }
    mint_buf_release(&b);
}

static void foreign_formats_are_named(void **state)
{
    (void)state;
    static const struct {
        const char *bytes;
        size_t n;
        const char *words;
    } cases[] = {
        {"\x1f\x8b\x08\0\0\0", 6, "is gzip data; decompress it first"},
        {"\xfd"
         "7zXZ\0",
         6, "is xz data"},
        {"\xff\xfe{\0}\0", 6, "is UTF-16 text; convert it"},
        {"\xfe\xff\0{\0}", 6, "is UTF-16 text; convert it"},
    };
    struct mint_buf b = MINT_BUF_INIT;
    struct mint_err err;
    for (size_t i = 0; i < MINT_ARRAY_LEN(cases); i++) {
        assert_int_equal(read_lines(make("in", cases[i].bytes, cases[i].n), &b, &err), -1);
        assert_non_null(strstr(err.msg, cases[i].words));
        assert_non_null(strstr(err.msg, dir));
    }
    assert_int_equal(read_lines(dir, &b, &err), -1);
    assert_non_null(strstr(err.msg, "is a folder"));
    assert_int_equal(read_lines(in_dir("none"), &b, &err), -1);
    assert_non_null(strstr(err.msg, "No such file"));
    mint_buf_release(&b);
}

static void write_lines(const char *path, unsigned flags, int from, int to)
{
    struct mint_out *out;
    struct mint_err err;
    assert_int_equal(mint_out_open(&out, path, flags, &err), 0);
    for (int i = from; i < to; i++) {
        char line[64];
        int n = snprintf(line, sizeof line, "{\"id\":%d,\"x\":\"some words\"}\n", i);
        assert_int_equal(mint_out_write(out, line, (size_t)n, &err), 0);
    }
    if (mint_out_commit(out, &err) != 0)
        fail_msg("%s", err.msg);
}

static void slurp(const char *path, char **bytes, size_t *n)
{
    assert_int_equal(mint_fs_read_file(path, 1 << 28, bytes, n, NULL), 0);
}

static void written_is_one_frame_and_reads_back(void **state)
{
    (void)state;
    struct mint_buf a = MINT_BUF_INIT, b = MINT_BUF_INIT;
    struct mint_err err;
    const char *packed = in_dir("packed"), *plain = in_dir("plain");
    write_lines(packed, 0, 0, 30000);
    write_lines(plain, MINT_OUT_PLAIN, 0, 30000);
    assert_int_equal(read_lines(packed, &a, &err), 0);
    assert_int_equal(read_lines(plain, &b, &err), 0);
    assert_int_equal(a.len, b.len);
    assert_memory_equal(a.data, b.data, a.len);
    char *z, *text;
    size_t zn, n;
    slurp(packed, &z, &zn);
    slurp(plain, &text, &n);
    assert_int_equal(ZSTD_findFrameCompressedSize(z, zn), zn); /* one frame, the whole file */
    assert_true(z[4] & 4);                                     /* with a content checksum */
    assert_true(zn < n / 3);
    struct mint_in *in;
    const char *line;
    assert_int_equal(mint_in_open(&in, packed, &err), 0);
    assert_int_equal(mint_in_size(in), zn);
    assert_int_equal(mint_in_bytes(in), 0);
    while (mint_in_line(in, &line, &n, &err) == 1)
        continue;
    assert_int_equal(mint_in_bytes(in), zn);
    assert_string_equal(mint_in_name(in), packed);
    mint_in_close(in);
    mint_in_close(NULL);
    free(z);
    free(text);
    mint_buf_release(&a);
    mint_buf_release(&b);
}

static void empty_output_is_a_whole_frame(void **state)
{
    (void)state;
    struct mint_buf b = MINT_BUF_INIT;
    struct mint_err err;
    char *z;
    size_t n;
    write_lines(in_dir("out"), 0, 0, 0);
    slurp(in_dir("out"), &z, &n);
    assert_true(n >= 9);
    free(z);
    assert_int_equal(read_lines(in_dir("out"), &b, &err), 0);
    assert_int_equal(b.len, 0);
    mint_buf_release(&b);
}

static void pieces_do_not_change_the_bytes(void **state)
{
    (void)state;
    struct mint_out *out;
    struct mint_err err;
    size_t n = 700000, an, bn;
    char *text = mint_xmalloc(n), *a, *b;
    for (size_t i = 0; i < n; i++)
        text[i] = (char)('a' + (i * i / 97) % 23);
    assert_int_equal(mint_out_open(&out, in_dir("a"), 0, &err), 0);
    assert_int_equal(mint_out_write(out, text, n, &err), 0);
    assert_int_equal(mint_out_commit(out, &err), 0);
    assert_int_equal(mint_out_open(&out, in_dir("b"), 0, &err), 0);
    for (size_t i = 0, take; i < n; i += take) {
        take = MINT_MIN(i % 1000 + 1, n - i);
        assert_int_equal(mint_out_write(out, text + i, take, &err), 0);
    }
    assert_int_equal(mint_out_commit(out, &err), 0);
    slurp(in_dir("a"), &a, &an);
    slurp(in_dir("b"), &b, &bn);
    assert_int_equal(an, bn);
    assert_memory_equal(a, b, an);
    free(a);
    free(b);
    free(text);
}

static void existing_files_need_force(void **state)
{
    (void)state;
    struct mint_out *out;
    struct mint_err err;
    const char *path = make("out", "old", 3);
    assert_int_equal(mint_out_open(&out, path, 0, &err), -1);
    assert_non_null(strstr(err.msg, "exists; use -f to replace it"));
    assert_int_equal(mint_out_open(&out, path, MINT_OUT_FORCE, &err), 0);
    assert_int_equal(mint_out_write(out, "x\n", 2, &err), 0);
    mint_out_abort(out);
    char *text;
    size_t n;
    slurp(path, &text, &n);
    assert_string_equal(text, "old");
    free(text);
    write_lines(path, MINT_OUT_FORCE | MINT_OUT_PLAIN, 1, 2);
    slurp(path, &text, &n);
    assert_string_equal(text, "{\"id\":1,\"x\":\"some words\"}\n");
    free(text);
    mint_out_abort(NULL);
}

/* Two frames, whose texts are "{"id":0..." and so on; the border is reported. */
static size_t two_frames(struct mint_buf *b)
{
    char *z;
    size_t n;
    mint_buf_reset(b);
    write_lines(in_dir("1"), MINT_OUT_FORCE, 0, 3);
    write_lines(in_dir("2"), MINT_OUT_FORCE, 3, 5);
    slurp(in_dir("1"), &z, &n);
    mint_buf_add(b, z, n);
    free(z);
    size_t border = b->len;
    slurp(in_dir("2"), &z, &n);
    mint_buf_add(b, z, n);
    free(z);
    return border;
}

static void every_cut_is_refused(void **state)
{
    (void)state;
    struct mint_buf z = MINT_BUF_INIT, lines = MINT_BUF_INIT;
    struct mint_err err;
    size_t border = two_frames(&z);
    for (size_t n = 2; n <= z.len; n++) {
        int rc = read_lines(make("cut", z.data, n), &lines, &err);
        bool whole = n == border || n == z.len;
        assert_int_equal(rc, whole ? 0 : -1);
        if (!whole) {
            assert_int_equal(err.code, MINT_ETRUNC);
            assert_non_null(
                strstr(err.msg, "input ends inside a zstd frame: its writer did not finish"));
        }
    }
    mint_buf_release(&z);
    mint_buf_release(&lines);
}

/* A changed bit is found, unless it changes nothing (a bit of the header that has no meaning). */
static void every_changed_bit_is_found(void **state)
{
    (void)state;
    struct mint_buf z = MINT_BUF_INIT, want = MINT_BUF_INIT, lines = MINT_BUF_INIT;
    struct mint_err err;
    two_frames(&z);
    assert_int_equal(read_lines(make("good", z.data, z.len), &want, &err), 0);
    for (size_t i = 4; i < z.len; i++) {
        for (int bit = 0; bit < 8; bit++) {
            z.data[i] = (char)(z.data[i] ^ 1 << bit);
            int rc = read_lines(make("bad", z.data, z.len), &lines, &err);
            z.data[i] = (char)(z.data[i] ^ 1 << bit);
            if (rc == 0 && strcmp(lines.data, want.data) != 0)
                fail_msg("byte %zu, bit %d: %s", i, bit, lines.data);
        }
    }
    mint_buf_release(&z);
    mint_buf_release(&want);
    mint_buf_release(&lines);
}

static void malformed_files(void **state)
{
    (void)state;
    struct mint_json *j = mint_json_new();
    struct mint_in *manifest, *in;
    struct mint_err err;
    const char *line;
    size_t n, seen = 0;
    assert_int_equal(mint_in_open(&manifest, "tests/data/malformed/manifest.jsonl", &err), 0);
    while (mint_in_line(manifest, &line, &n, &err) == 1) {
        assert_int_equal(mint_json_parse(j, line, n, &err), 0);
        char *name = mint_json_strdup(j, mint_json_get(j, 0, "file"));
        char *expect = mint_json_strdup(j, mint_json_get(j, 0, "expect"));
        bool framing = strstr(name, "_zst_") != NULL && strstr(name, "plain_text") == NULL;
        int64_t records = 0, got = 0;
        if (framing || strcmp(expect, "accept") == 0) {
            char *path = mint_xasprintf("tests/data/malformed/%s", name);
            int rc;
            assert_int_equal(mint_in_open(&in, path, &err), 0);
            while ((rc = mint_in_line(in, &line, &n, &err)) == 1)
                got++;
            mint_in_close(in);
            if (rc != (strcmp(expect, "accept") == 0 ? 0 : -1))
                fail_msg("%s: %d", name, rc);
            if (rc == 0 && mint_json_int(j, mint_json_get(j, 0, "records"), &records))
                assert_int_equal(got, records);
            if (rc < 0)
                assert_int_equal(strncmp(err.msg, path, strlen(path)), 0);
            free(path);
            seen++;
        }
        free(name);
        free(expect);
    }
    assert_true(seen > 20);
    mint_in_close(manifest);
    mint_json_free(j);
}

/* The manifest's bomb: one line of 1 GiB in 33 kB. */
static void memory_is_bounded(void **state)
{
    (void)state;
#if defined(__SANITIZE_ADDRESS__)
    skip();
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
    skip();
#endif
#endif
    int status;
    struct rusage use;
    pid_t child = fork();
    if (child == 0) {
        struct mint_in *in;
        struct mint_err err;
        const char *line;
        size_t n;
        int rc = mint_in_open(&in, "tests/data/malformed/078_zst_bomb.jsonl.zst", &err);
        while (rc >= 0 && (rc = mint_in_line(in, &line, &n, &err)) == 1)
            continue;
        _exit(rc < 0 && strstr(err.msg, "line is longer than 256 MiB") ? 0 : 1);
    }
    assert_int_equal(wait4(child, &status, 0, &use), child);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    assert_true(use.ru_maxrss < 400 << 10); /* KiB */
}

static void a_long_line_fits(void **state)
{
    (void)state;
    struct mint_out *out;
    struct mint_in *in;
    struct mint_err err;
    size_t n = 20 << 20, got;
    char *text = mint_xmalloc(n);
    const char *line;
    for (size_t i = 0; i < n; i++)
        text[i] = (char)('0' + i / 1000 % 10);
    assert_int_equal(mint_out_open(&out, in_dir("out"), 0, &err), 0);
    assert_int_equal(mint_out_write(out, "x\n", 2, &err), 0);
    assert_int_equal(mint_out_write(out, text, n, &err), 0);
    assert_int_equal(mint_out_write(out, "\ny", 2, &err), 0);
    assert_int_equal(mint_out_commit(out, &err), 0);
    assert_int_equal(mint_in_open(&in, in_dir("out"), &err), 0);
    assert_int_equal(mint_in_line(in, &line, &got, &err), 1);
    assert_int_equal(mint_in_line(in, &line, &got, &err), 1);
    assert_int_equal(got, n);
    assert_memory_equal(line, text, n);
    assert_int_equal(mint_in_line(in, &line, &got, &err), 1);
    assert_int_equal(got, 1);
    assert_int_equal(mint_in_line(in, &line, &got, &err), 0);
    assert_int_equal(mint_in_line(in, &line, &got, &err), 0);
    mint_in_close(in);
    free(text);
}

static void large_windows_are_read(void **state)
{
    (void)state;
    ZSTD_CCtx *c = ZSTD_createCCtx();
    char packed[4096];
    struct mint_buf b = MINT_BUF_INIT;
    struct mint_err err;
    ZSTD_inBuffer from = {"a\nb\n", 4, 0};
    ZSTD_outBuffer to = {packed, sizeof packed, 0};
    ZSTD_CCtx_setParameter(c, ZSTD_c_windowLog, 31);
    ZSTD_CCtx_setParameter(c, ZSTD_c_compressionLevel, 1);
    /* in two steps, so that the size is not known and the window is not cut down to it */
    assert_false(ZSTD_isError(ZSTD_compressStream2(c, &to, &from, ZSTD_e_flush)));
    assert_int_equal(ZSTD_compressStream2(c, &to, &from, ZSTD_e_end), 0);
    ZSTD_freeCCtx(c);
    if (read_lines(make("in", packed, to.pos), &b, &err) != 0)
        fail_msg("%s", err.msg);
    assert_string_equal(b.data, "1:a|2:b|");
    mint_buf_release(&b);
}

/* A child opens a named pipe for writing, writes as asked and then waits to be killed; returns its
 * pid. */
static pid_t slow_writer(const char *fifo, const char *flushed, unsigned flags)
{
    assert_int_equal(mkfifo(fifo, 0600), 0);
    pid_t child = fork();
    if (child == 0) {
        struct mint_out *out;
        if (mint_out_open(&out, fifo, flags, NULL) < 0)
            _exit(1);
        if (mint_out_write(out, flushed, strlen(flushed), NULL) < 0 ||
            mint_out_flush(out, NULL) < 0)
            _exit(1);
        for (;;)
            pause();
    }
    return child;
}

static void flushed_lines_arrive_and_a_dead_writer_is_noticed(void **state)
{
    (void)state;
    struct mint_in *in;
    struct mint_err err;
    const char *line;
    size_t n;
    pid_t child = slow_writer(in_dir("fifo"), "{\"a\":1}\nha", 0);
    assert_int_equal(mint_in_open(&in, in_dir("fifo"), &err), 0);
    assert_int_equal(mint_in_line(in, &line, &n, &err), 1); /* the writer still lives */
    assert_int_equal(n, 7);
    assert_memory_equal(line, "{\"a\":1}", 7);
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    assert_int_equal(mint_in_line(in, &line, &n, &err), -1);
    assert_int_equal(err.code, MINT_ETRUNC);
    char *want = mint_xasprintf("%s:2: input ends inside a zstd frame: its writer did not finish",
                                in_dir("fifo"));
    assert_string_equal(err.msg, want);
    free(want);
    mint_in_close(in);
}

static void a_writer_that_dies_before_its_first_record_is_noticed(void **state)
{
    (void)state;
    struct mint_buf b = MINT_BUF_INIT;
    struct mint_err err;
    const char *fifo = in_dir("fifo");
    assert_int_equal(mkfifo(fifo, 0600), 0);
    pid_t child = fork();
    if (child == 0) {
        struct mint_out *out;
        int rc = mint_out_open(&out, fifo, 0, NULL);
        mint_out_abort(out);
        _exit(rc < 0);
    }
    assert_int_equal(read_lines(fifo, &b, &err), -1);
    assert_int_equal(err.code, MINT_ETRUNC);
    waitpid(child, NULL, 0);
    mint_buf_release(&b);
}

static void full_devices_are_reported(void **state)
{
    (void)state;
    struct mint_out *out;
    struct mint_err err;
    assert_int_equal(mint_out_open(&out, "/dev/full", 0, &err), -1);
    assert_string_equal(err.msg, "cannot write /dev/full: No space left on device");
    assert_int_equal(mint_out_open(&out, "/dev/full", MINT_OUT_PLAIN, &err), 0);
    assert_int_equal(mint_out_write(out, "x\n", 2, &err), 0);
    assert_int_equal(mint_out_flush(out, &err), -1);
    mint_out_abort(out);
    assert_int_equal(mint_out_open(&out, "/dev/full", MINT_OUT_PLAIN, &err), 0);
    assert_int_equal(mint_out_write(out, "x\n", 2, &err), 0);
    assert_int_equal(mint_out_commit(out, &err), -1);
    assert_string_equal(err.msg, "cannot write /dev/full: No space left on device");
    assert_int_equal(mint_out_open(&out, in_dir("none/out"), 0, &err), -1);
}

static void standard_streams(void **state)
{
    (void)state;
    int status;
    pid_t child = fork();
    if (child == 0) {
        struct mint_out *out;
        struct mint_in *in;
        const char *line;
        size_t n;
        int fd = open(in_dir("both"), O_RDWR | O_CREAT | O_TRUNC, 0600);
        dup2(fd, STDOUT_FILENO);
        dup2(fd, STDIN_FILENO);
        bool ok = mint_out_open(&out, NULL, 0, NULL) == 0 &&
                  mint_out_write(out, "hello\n", 6, NULL) == 0 && mint_out_commit(out, NULL) == 0 &&
                  write(STDOUT_FILENO, "", 0) == 0;
        lseek(STDIN_FILENO, 0, SEEK_SET);
        ok = ok && mint_in_open(&in, "-", NULL) == 0 && mint_in_line(in, &line, &n, NULL) == 1 &&
             n == 5 && strcmp(mint_in_name(in), "stdin") == 0 &&
             mint_in_line(in, &line, &n, NULL) == 0;
        _exit(ok ? 0 : 1);
    }
    waitpid(child, &status, 0);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

static void a_broken_pipe_is_reported(void **state)
{
    (void)state;
    int status, ends[2];
    assert_int_equal(pipe(ends), 0);
    close(ends[0]); /* before the fork: nobody holds the reading end */
    pid_t child = fork();
    if (child == 0) {
        struct mint_out *out;
        struct mint_err err;
        signal(SIGPIPE, SIG_IGN);
        dup2(ends[1], STDOUT_FILENO);
        int rc = mint_out_open(&out, "-", 0, &err);
        _exit(rc == -1 && strcmp(err.msg, "cannot write standard output: Broken pipe") == 0 ? 0
                                                                                            : 1);
    }
    close(ends[1]);
    waitpid(child, &status, 0);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, enter, leave)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(plain_text_forms),
        TEST(foreign_formats_are_named),
        TEST(written_is_one_frame_and_reads_back),
        TEST(empty_output_is_a_whole_frame),
        TEST(pieces_do_not_change_the_bytes),
        TEST(existing_files_need_force),
        TEST(every_cut_is_refused),
        TEST(every_changed_bit_is_found),
        TEST(malformed_files),
        TEST(memory_is_bounded),
        TEST(a_long_line_fits),
        TEST(large_windows_are_read),
        TEST(flushed_lines_arrive_and_a_dead_writer_is_noticed),
        TEST(a_writer_that_dies_before_its_first_record_is_noticed),
        TEST(full_devices_are_reported),
        TEST(standard_streams),
        TEST(a_broken_pipe_is_reported),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

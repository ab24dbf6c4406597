/* SPDX-License-Identifier: Apache-2.0 */
#include "zio.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zstd.h>
#include <zstd_errors.h>

#include "fs.h"
#include "mem.h"

#define CHUNK          ((size_t)256 << 10) /* read, decompressed and written at a time */
#define WINDOW_LOG_MAX 31                  /* zstd --long=31 */
#define MAGIC_BYTES    4

static const unsigned char magic[MAGIC_BYTES] = {0x28, 0xb5, 0x2f, 0xfd};

/* --- reading */

struct mint_in {
    int fd;
    char *name;
    bool zstd, in_frame, at_end, failed;
    ZSTD_DStream *dstream;
    char *raw; /* compressed bytes [raw_at, raw_n) that are still to be used */
    size_t raw_at, raw_n;
    char *text; /* decompressed bytes: [at, seen) has no newline, [seen, n) is not looked at */
    size_t at, seen, n, cap;
    uint64_t lineno, bytes, size;
};

static int read_some(struct mint_in *in, char *to, size_t room, size_t *got, struct mint_err *err)
{
    ssize_t r;
    do
        r = read(in->fd, to, room);
    while (r < 0 && errno == EINTR);
    if (r < 0)
        return mint_fail_errno(err, "%s: cannot read", in->name);
    *got = (size_t)r;
    in->bytes += (uint64_t)r;
    return 0;
}

/* Makes sure that want bytes are in raw, or all that there are until the end. */
static int fill_raw(struct mint_in *in, size_t want, struct mint_err *err)
{
    if (in->raw_at > 0 && in->raw_n - in->raw_at < want) {
        memmove(in->raw, in->raw + in->raw_at, in->raw_n - in->raw_at);
        in->raw_n -= in->raw_at;
        in->raw_at = 0;
    }
    while (in->raw_n - in->raw_at < want && !in->at_end) {
        size_t got;
        if (read_some(in, in->raw + in->raw_n, CHUNK - in->raw_n, &got, err) < 0)
            return -1;
        in->raw_n += got;
        in->at_end = got == 0;
    }
    return 0;
}

/* How many of n bytes agree with the beginning of a frame, skippable ones too; 4 means that one
 * begins. */
static size_t frame_prefix(const char *s, size_t n)
{
    static const unsigned char skippable[MAGIC_BYTES] = {0x50, 0x2a, 0x4d, 0x18};
    const unsigned char *u = (const unsigned char *)s;
    size_t a = 0, b = 0;
    while (a < n && a < MAGIC_BYTES && u[a] == magic[a])
        a++;
    while (b < n && b < MAGIC_BYTES && (b == 0 ? u[0] >> 4 == 5 : u[b] == skippable[b]))
        b++;
    return MINT_MAX(a, b);
}

static int detect(struct mint_in *in, struct mint_err *err)
{
    static const struct {
        const char *bytes;
        size_t n;
        const char *what;
    } foreign[] = {
        {"\x1f\x8b", 2, "is gzip data; decompress it first (gzip -dc)"},
        {"\xfd"
         "7zXZ",
         5, "is xz data; decompress it first (xz -dc)"},
        {"\xff\xfe", 2, "is UTF-16 text; convert it to UTF-8 first (iconv -f UTF-16)"},
        {"\xfe\xff", 2, "is UTF-16 text; convert it to UTF-8 first (iconv -f UTF-16)"},
    };
    /* no more than needed: behind a pipe somebody may wait for the answer to a short first line */
    if (fill_raw(in, 1, err) < 0)
        return -1;
    bool text = in->raw_n == 0 || in->raw[0] == '{' || (unsigned char)in->raw[0] <= ' ';
    if (!text && fill_raw(in, 5, err) < 0)
        return -1;
    size_t agree = frame_prefix(in->raw, in->raw_n);
    /* "(" or "P" alone is text, the first two bytes of a magic number are a frame that was cut */
    in->zstd = agree == MAGIC_BYTES || (agree == in->raw_n && agree > 1);
    if (in->zstd) {
        in->dstream = ZSTD_createDStream();
        if (!in->dstream)
            return mint_fail(err, MINT_EIO, "%s: cannot set up zstd", in->name);
        ZSTD_DCtx_setParameter(in->dstream, ZSTD_d_windowLogMax, WINDOW_LOG_MAX);
        return 0;
    }
    for (size_t i = 0; i < MINT_ARRAY_LEN(foreign); i++) {
        if (in->raw_n >= foreign[i].n && memcmp(in->raw, foreign[i].bytes, foreign[i].n) == 0)
            return mint_fail(err, MINT_EFORMAT, "%s %s", in->name, foreign[i].what);
    }
    return 0;
}

int mint_in_open(struct mint_in **out, const char *path, struct mint_err *err)
{
    bool is_stdin = strcmp(path, "-") == 0;
    int fd = is_stdin ? STDIN_FILENO : open(path, O_RDONLY | O_CLOEXEC);
    struct stat st;
    *out = NULL;
    if (fd < 0)
        return mint_fail_errno(err, "cannot open %s", path);
    struct mint_in *in = mint_xcalloc(1, sizeof *in);
    in->fd = fd;
    in->name = mint_xstrdup(is_stdin ? "stdin" : path);
    in->raw = mint_xmalloc(CHUNK);
    if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode))
        in->size = (uint64_t)st.st_size;
    else if (fstat(fd, &st) == 0 && S_ISDIR(st.st_mode)) {
        mint_fail(err, MINT_EIO, "%s is a folder", in->name);
        mint_in_close(in);
        return -1;
    }
    posix_fadvise(fd, 0, 0, POSIX_FADV_SEQUENTIAL);
    *out = in;
    return 0;
}

static int fail_line(struct mint_in *in, enum mint_code code, struct mint_err *err,
                     const char *what)
{
    return mint_fail(err, code, "%s:%llu: %s", in->name, (unsigned long long)in->lineno + 1, what);
}

static int fail_zstd(struct mint_in *in, size_t code, struct mint_err *err)
{
    switch (ZSTD_getErrorCode(code)) {
    case ZSTD_error_checksum_wrong:
        return fail_line(in, MINT_EFORMAT, err, "zstd checksum is wrong: the data is damaged");
    case ZSTD_error_dictionary_wrong:
        return fail_line(in, MINT_EFORMAT, err,
                         "zstd frame needs a dictionary, which is not supported");
    case ZSTD_error_frameParameter_windowTooLarge:
        return fail_line(in, MINT_EFORMAT, err, "zstd window is over 2 GiB");
    case ZSTD_error_memory_allocation:
        return fail_line(in, MINT_EIO, err, "not enough memory for the zstd window");
    default:
        return mint_fail(err, MINT_EFORMAT, "%s:%llu: zstd data is damaged (%s)", in->name,
                         (unsigned long long)in->lineno + 1, ZSTD_getErrorName(code));
    }
}

/* At the border of two frames: 1 if another one begins, 0 at the end. */
static int next_frame(struct mint_in *in, struct mint_err *err)
{
    if (fill_raw(in, MAGIC_BYTES, err) < 0)
        return -1;
    size_t left = in->raw_n - in->raw_at;
    if (left == 0)
        return 0;
    size_t agree = frame_prefix(in->raw + in->raw_at, left);
    if (agree < MINT_MIN(left, (size_t)MAGIC_BYTES))
        return fail_line(in, MINT_EFORMAT, err,
                         "bytes after the last zstd frame that are no zstd frame");
    in->in_frame = true;
    return 1;
}

/* Decompresses into text[n, cap). 1: something came or may come, 0: the end. */
static int decompress(struct mint_in *in, struct mint_err *err)
{
    if (!in->in_frame) {
        int rc = next_frame(in, err);
        if (rc <= 0)
            return rc;
    }
    for (;;) {
        ZSTD_inBuffer from = {in->raw, in->raw_n, in->raw_at};
        ZSTD_outBuffer to = {in->text, in->cap, in->n};
        size_t left = ZSTD_decompressStream(in->dstream, &to, &from);
        if (ZSTD_isError(left))
            return fail_zstd(in, left, err);
        bool came = to.pos > in->n;
        in->raw_at = from.pos;
        in->n = to.pos;
        if (left == 0)
            in->in_frame = false;
        if (came || left == 0)
            return 1;
        if (in->raw_at < in->raw_n)
            continue;
        if (fill_raw(in, 1, err) < 0)
            return -1;
        if (in->raw_n == 0)
            return fail_line(in, MINT_ETRUNC, err,
                             "input ends inside a zstd frame: its writer did not finish");
    }
}

static int read_plain(struct mint_in *in, struct mint_err *err)
{
    size_t got = in->raw_n - in->raw_at;
    if (got > 0) { /* what detect looked at */
        memcpy(in->text + in->n, in->raw + in->raw_at, got);
        in->raw_at = in->raw_n = 0;
    } else if (!in->at_end) {
        if (read_some(in, in->text + in->n, in->cap - in->n, &got, err) < 0)
            return -1;
        in->at_end = got == 0;
    }
    in->n += got;
    return got > 0;
}

/* Gets more text behind what is there. 1: there may be more, 0: the end, -1. */
static int fill_text(struct mint_in *in, struct mint_err *err)
{
    if (in->at > 0) {
        memmove(in->text, in->text + in->at, in->n - in->at);
        in->n -= in->at;
        in->seen -= in->at;
        in->at = 0;
    }
    if (in->n > MINT_LINE_MAX)
        return fail_line(in, MINT_EFORMAT, err, "line is longer than 256 MiB");
    if (in->cap - in->n < CHUNK) {
        in->cap = MINT_MIN(2 * in->cap, MINT_LINE_MAX + 2 * CHUNK);
        in->text = mint_xrealloc(in->text, in->cap);
    }
    return in->zstd ? decompress(in, err) : read_plain(in, err);
}

/* The text up to the next newline, or the rest at the end. 1, 0, -1. */
static int raw_line(struct mint_in *in, const char **line, size_t *n, struct mint_err *err)
{
    for (;;) {
        char *newline = NULL;
        if (in->seen < in->n)
            newline = memchr(in->text + in->seen, '\n', in->n - in->seen);
        size_t end = newline ? (size_t)(newline - in->text) : in->n;
        in->seen = end;
        if (newline) {
            *line = in->text + in->at;
            *n = end - in->at;
            in->at = in->seen = end + 1;
            return 1;
        }
        int rc = fill_text(in, err);
        if (rc < 0)
            return -1;
        if (rc > 0)
            continue;
        *line = in->text + in->at;
        *n = in->n - in->at;
        in->at = in->seen = in->n;
        return *n > 0;
    }
}

static bool is_blank(const char *s, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (s[i] != ' ' && s[i] != '\t' && s[i] != '\r')
            return false;
    }
    return true;
}

static int start(struct mint_in *in, struct mint_err *err)
{
    in->cap = 2 * CHUNK;
    in->text = mint_xmalloc(in->cap);
    return detect(in, err);
}

int mint_in_line(struct mint_in *in, const char **line, size_t *n, struct mint_err *err)
{
    if (in->failed)
        return mint_fail(err, MINT_EIO, "%s: reading failed before", in->name);
    in->failed = true; /* until this call has gone well */
    if (!in->text && start(in, err) < 0)
        return -1;
    do {
        int rc = raw_line(in, line, n, err);
        if (rc <= 0) {
            in->failed = rc < 0;
            return rc;
        }
        in->lineno++;
        if (in->lineno == 1 && *n >= 3 && memcmp(*line, "\xef\xbb\xbf", 3) == 0) {
            *line += 3;
            *n -= 3;
        }
        if (*n > 0 && (*line)[*n - 1] == '\r')
            --*n;
    } while (is_blank(*line, *n));
    in->failed = false;
    return 1;
}

const char *mint_in_name(const struct mint_in *in)
{
    return in->name;
}

uint64_t mint_in_lineno(const struct mint_in *in)
{
    return in->lineno;
}

uint64_t mint_in_bytes(const struct mint_in *in)
{
    return in->bytes;
}

uint64_t mint_in_size(const struct mint_in *in)
{
    return in->size;
}

void mint_in_close(struct mint_in *in)
{
    if (!in)
        return;
    if (in->fd != STDIN_FILENO)
        close(in->fd);
    ZSTD_freeDStream(in->dstream);
    free(in->name);
    free(in->raw);
    free(in->text);
    free(in);
}

/* --- writing */

struct mint_out {
    int fd;
    char *name;
    struct mint_tmpfile tmp; /* path is NULL when fd is written directly */
    bool close_fd;
    ZSTD_CStream *cstream; /* NULL: plain */
    char *text; /* collected, so that the compressed bytes do not depend on how they came */
    size_t text_n;
    char *packed;
    size_t packed_cap, to_skip; /* bytes of the magic number that went out already */
};

static int fail_write(struct mint_out *out, struct mint_err *err)
{
    return mint_fail_errno(err, "cannot write %s", out->name);
}

static int put(struct mint_out *out, const char *p, size_t n, struct mint_err *err)
{
    size_t skip = MINT_MIN(out->to_skip, n);
    out->to_skip -= skip;
    return mint_fs_write_all(out->fd, p + skip, n - skip) < 0 ? fail_write(out, err) : 0;
}

/* Hands the collected text on; how says what must leave with it. */
static int drain(struct mint_out *out, ZSTD_EndDirective how, struct mint_err *err)
{
    size_t n = out->text_n;
    out->text_n = 0;
    if (!out->cstream)
        return n > 0 ? put(out, out->text, n, err) : 0;
    ZSTD_inBuffer from = {out->text, n, 0};
    for (;;) {
        ZSTD_outBuffer to = {out->packed, out->packed_cap, 0};
        size_t left = ZSTD_compressStream2(out->cstream, &to, &from, how);
        if (ZSTD_isError(left))
            return mint_fail(err, MINT_EIO, "cannot compress %s: %s", out->name,
                             ZSTD_getErrorName(left));
        if (to.pos > 0 && put(out, out->packed, to.pos, err) < 0)
            return -1;
        if (how == ZSTD_e_continue ? from.pos == n : left == 0)
            return 0;
    }
}

/* Which descriptor or temporary path leads to. */
static int open_target(struct mint_out *out, const char *path, unsigned flags, struct mint_err *err)
{
    struct stat st;
    if (!path || strcmp(path, "-") == 0 || strcmp(path, "/dev/stdout") == 0 ||
        strcmp(path, "/dev/fd/1") == 0) {
        out->fd = STDOUT_FILENO;
        out->name = mint_xstrdup("standard output");
        return 0;
    }
    out->name = mint_xstrdup(path);
    if (stat(path, &st) == 0 && !S_ISREG(st.st_mode) && !S_ISDIR(st.st_mode)) {
        out->fd = open(path, O_WRONLY | O_CLOEXEC);
        if (out->fd < 0)
            return mint_fail_errno(err, "cannot open %s", path);
        out->close_fd = true;
        return 0;
    }
    if (mint_tmpfile_open(&out->tmp, path, flags & MINT_OUT_FORCE, err) < 0)
        return -1;
    out->fd = out->tmp.fd;
    return 0;
}

static int start_frame(struct mint_out *out, struct mint_err *err)
{
    out->cstream = ZSTD_createCStream();
    if (!out->cstream)
        return mint_fail(err, MINT_EIO, "cannot set up zstd");
    ZSTD_CCtx_setParameter(out->cstream, ZSTD_c_compressionLevel, 1);
    ZSTD_CCtx_setParameter(out->cstream, ZSTD_c_checksumFlag, 1);
    out->packed_cap = ZSTD_CStreamOutSize();
    out->packed = mint_xmalloc(out->packed_cap);
    /*
     * The magic number goes out at once: a writer that dies before its first record then leaves an
     * unfinished frame, which readers refuse, and not an empty file, which is a valid one.
     */
    if (put(out, (const char *)magic, MAGIC_BYTES, err) < 0)
        return -1;
    out->to_skip = MAGIC_BYTES;
    return 0;
}

int mint_out_open(struct mint_out **result, const char *path, unsigned flags, struct mint_err *err)
{
    struct mint_out *out = mint_xcalloc(1, sizeof *out);
    *result = NULL;
    out->fd = out->tmp.fd = -1;
    int rc = open_target(out, path, flags, err);
    if (rc == 0 && !(flags & MINT_OUT_PLAIN) && !isatty(out->fd))
        rc = start_frame(out, err);
    if (rc < 0) {
        mint_out_abort(out);
        return -1;
    }
    out->text = mint_xmalloc(CHUNK);
    *result = out;
    return 0;
}

int mint_out_write(struct mint_out *out, const void *p, size_t n, struct mint_err *err)
{
    const char *s = p;
    while (n > 0) {
        size_t take = MINT_MIN(n, CHUNK - out->text_n);
        memcpy(out->text + out->text_n, s, take);
        out->text_n += take;
        s += take;
        n -= take;
        if (out->text_n == CHUNK && drain(out, ZSTD_e_continue, err) < 0)
            return -1;
    }
    return 0;
}

int mint_out_flush(struct mint_out *out, struct mint_err *err)
{
    return drain(out, ZSTD_e_flush, err);
}

static void free_out(struct mint_out *out)
{
    ZSTD_freeCStream(out->cstream);
    free(out->name);
    free(out->text);
    free(out->packed);
    free(out);
}

int mint_out_commit(struct mint_out *out, struct mint_err *err)
{
    if (drain(out, ZSTD_e_end, err) < 0) {
        mint_out_abort(out);
        return -1;
    }
    int rc = 0;
    if (out->tmp.path)
        rc = mint_tmpfile_commit(&out->tmp, err);
    else if (out->close_fd && close(out->fd) < 0)
        rc = fail_write(out, err);
    free_out(out);
    return rc;
}

void mint_out_abort(struct mint_out *out)
{
    if (!out)
        return;
    if (out->tmp.path)
        mint_tmpfile_abort(&out->tmp);
    else if (out->close_fd)
        close(out->fd);
    free_out(out);
}

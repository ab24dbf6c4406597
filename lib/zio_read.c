/* SPDX-License-Identifier: Apache-2.0 */
#include "zio.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zstd.h>
#include <zstd_errors.h>

#include "mem.h"
#include "zio_impl.h"

#define CHUNK          MINT_ZIO_CHUNK
#define WINDOW_LOG_MAX 31 /* zstd --long=31 */
#define MAGIC_BYTES    MINT_ZIO_MAGIC_BYTES

/*
 * Where text comes from. A zstd stream that turns out to be long is decompressed ahead, by a thread
 * that has the source to itself from then on. What goes wrong stays in the source as a fault: the
 * words are made when reading gets there, since they name the line.
 */
enum fault { FAULT_READ, FAULT_ZSTD, FAULT_BEHIND, FAULT_CUT, FAULT_STOPPED };

struct source {
    int fd, stop; /* stop: an eventfd that ends waiting for fd; -1 without a thread */
    bool zstd, in_frame, at_end;
    ZSTD_DStream *dstream;
    char *raw; /* compressed bytes [raw_at, raw_n) that are still to be used */
    size_t raw_at, raw_n;
    uint64_t bytes, text; /* read from fd, and given as text */
    enum fault fault;
    size_t code; /* of the fault: errno, or zstd's */
};

struct mint_in {
    struct source src;
    char *name;
    bool failed;
    struct mint_relay *ahead; /* NULL: src is ours */
    bool ahead_tried;
    char *text; /* [at, seen) has no newline, [seen, n) is not looked at */
    size_t at, seen, n, cap;
    uint64_t lineno, bytes, size;
};

/* --- the source */

static int fault(struct source *s, enum fault what, size_t code)
{
    s->fault = what;
    s->code = code;
    return -1;
}

/* Waits until fd has something, or until mint_in_close wants the thread back. */
static bool wait_for_data(struct source *s)
{
    struct pollfd p[] = {{.fd = s->stop, .events = POLLIN}, {.fd = s->fd, .events = POLLIN}};
    if (s->stop < 0)
        return true;
    while (poll(p, MINT_ARRAY_LEN(p), -1) < 0 && errno == EINTR)
        continue;
    return !p[0].revents;
}

static int read_some(struct source *s, char *to, size_t room, size_t *got)
{
    ssize_t r;
    if (!wait_for_data(s))
        return fault(s, FAULT_STOPPED, 0);
    do
        r = read(s->fd, to, room);
    while (r < 0 && errno == EINTR);
    if (r < 0)
        return fault(s, FAULT_READ, (size_t)errno);
    *got = (size_t)r;
    s->bytes += (uint64_t)r;
    s->at_end = r == 0;
    return 0;
}

/* Makes sure that want bytes are in raw, or all that there are until the end. */
static int fill_raw(struct source *s, size_t want)
{
    if (s->raw_at > 0 && s->raw_n - s->raw_at < want) {
        memmove(s->raw, s->raw + s->raw_at, s->raw_n - s->raw_at);
        s->raw_n -= s->raw_at;
        s->raw_at = 0;
    }
    while (s->raw_n - s->raw_at < want && !s->at_end) {
        size_t got;
        if (read_some(s, s->raw + s->raw_n, CHUNK - s->raw_n, &got) < 0)
            return -1;
        s->raw_n += got;
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
    while (a < n && a < MAGIC_BYTES && s[a] == MINT_ZIO_MAGIC[a])
        a++;
    while (b < n && b < MAGIC_BYTES && (b == 0 ? u[0] >> 4 == 5 : u[b] == skippable[b]))
        b++;
    return MINT_MAX(a, b);
}

/* At the border of two frames: 1 if another one begins, 0 at the end. */
static int next_frame(struct source *s)
{
    if (fill_raw(s, MAGIC_BYTES) < 0)
        return -1;
    size_t left = s->raw_n - s->raw_at;
    if (left == 0)
        return 0;
    if (frame_prefix(s->raw + s->raw_at, left) < MINT_MIN(left, (size_t)MAGIC_BYTES))
        return fault(s, FAULT_BEHIND, 0);
    s->in_frame = true;
    return 1;
}

static int decompress(struct source *s, char *text, size_t *n)
{
    if (!s->in_frame) {
        int rc = next_frame(s);
        if (rc <= 0)
            return rc;
    }
    for (;;) {
        ZSTD_inBuffer from = {s->raw, s->raw_n, s->raw_at};
        ZSTD_outBuffer to = {text, CHUNK, 0};
        size_t left = ZSTD_decompressStream(s->dstream, &to, &from);
        if (ZSTD_isError(left))
            return fault(s, FAULT_ZSTD, left);
        s->raw_at = from.pos;
        *n = to.pos;
        s->in_frame = left != 0;
        if (*n > 0 || left == 0)
            return 1;
        if (s->raw_at < s->raw_n)
            continue;
        if (fill_raw(s, 1) < 0)
            return -1;
        if (s->raw_n == 0)
            return fault(s, FAULT_CUT, 0);
    }
}

static int read_plain(struct source *s, char *text, size_t *n)
{
    *n = s->raw_n - s->raw_at;
    if (*n > 0) { /* what detect looked at */
        memcpy(text, s->raw + s->raw_at, *n);
        s->raw_at = s->raw_n = 0;
    } else if (!s->at_end && read_some(s, text, CHUNK, n) < 0) {
        return -1;
    }
    return *n > 0;
}

/* Gets up to CHUNK bytes of text. 1: there may be more, 0: this is the end, -1 and a fault. */
static int more(struct source *s, char *text, size_t *n)
{
    *n = 0;
    int rc = s->zstd ? decompress(s, text, n) : read_plain(s, text, n);
    s->text += *n;
    return rc;
}

/* --- messages */

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

static int fail_source(struct mint_in *in, struct mint_err *err)
{
    switch (in->src.fault) {
    case FAULT_READ:
        errno = (int)in->src.code;
        return mint_fail_errno(err, "%s: cannot read", in->name);
    case FAULT_BEHIND:
        return fail_line(in, MINT_EFORMAT, err,
                         "bytes after the last zstd frame that are no zstd frame");
    case FAULT_CUT:
        return fail_line(in, MINT_ETRUNC, err,
                         "input ends inside a zstd frame: its writer did not finish");
    default:
        return fail_zstd(in, in->src.code, err);
    }
}

/* --- opening */

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
    struct source *s = &in->src;
    /* no more than needed: behind a pipe somebody may wait for the answer to a short first line */
    if (fill_raw(s, 1) < 0)
        return fail_source(in, err);
    bool text = s->raw_n == 0 || s->raw[0] == '{' || (unsigned char)s->raw[0] <= ' ';
    if (!text && fill_raw(s, 5) < 0)
        return fail_source(in, err);
    size_t agree = frame_prefix(s->raw, s->raw_n);
    /* "(" or "P" alone is text, the first two bytes of a magic number are a frame that was cut */
    s->zstd = agree == MAGIC_BYTES || (agree == s->raw_n && agree > 1);
    if (s->zstd) {
        s->dstream = ZSTD_createDStream();
        if (!s->dstream)
            return mint_fail(err, MINT_EIO, "%s: cannot set up zstd", in->name);
        ZSTD_DCtx_setParameter(s->dstream, ZSTD_d_windowLogMax, WINDOW_LOG_MAX);
        return 0;
    }
    for (size_t i = 0; i < MINT_ARRAY_LEN(foreign); i++) {
        if (s->raw_n >= foreign[i].n && memcmp(s->raw, foreign[i].bytes, foreign[i].n) == 0)
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
    in->src = (struct source){.fd = fd, .stop = -1, .raw = mint_xmalloc(CHUNK)};
    in->name = mint_xstrdup(is_stdin ? "stdin" : path);
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

/* --- decompressing ahead */

static void run_ahead(struct mint_relay *relay, void *arg)
{
    struct source *s = arg;
    struct mint_piece *p;
    int rc = 1;
    while (rc > 0 && (p = mint_relay_room(relay))) {
        rc = p->how = more(s, p->data, &p->n);
        p->bytes = s->bytes;
        mint_relay_give(relay);
    }
}

/* The source is ours again. */
static void stop_ahead(struct mint_in *in)
{
    if (in->ahead) {
        eventfd_write(in->src.stop, 1); /* the thread may wait for a pipe that has nothing to say */
        mint_relay_join(in->ahead);
        in->ahead = NULL;
    }
    if (in->src.stop >= 0)
        close(in->src.stop);
    in->src.stop = -1;
}

static void start_ahead(struct mint_in *in)
{
    in->ahead_tried = true;
    in->src.stop = eventfd(0, EFD_CLOEXEC);
    if (in->src.stop >= 0)
        in->ahead = mint_relay_start(run_ahead, &in->src, false);
    if (!in->ahead)
        stop_ahead(in);
}

static int take_ahead(struct mint_in *in, char *text, size_t *n)
{
    struct mint_piece *p = mint_relay_next(in->ahead);
    int rc = p->how;
    *n = p->n;
    in->bytes = p->bytes;
    memcpy(text, p->data, p->n);
    mint_relay_done(in->ahead);
    if (rc <= 0) /* the thread has ended */
        stop_ahead(in);
    return rc;
}

/* --- lines */

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
    if (!in->ahead_tried && in->src.zstd && in->src.text >= MINT_ZIO_LONG)
        start_ahead(in);
    size_t got;
    int rc;
    if (in->ahead) {
        rc = take_ahead(in, in->text + in->n, &got);
    } else {
        rc = more(&in->src, in->text + in->n, &got);
        in->bytes = in->src.bytes;
    }
    in->n += got;
    return rc < 0 ? fail_source(in, err) : rc;
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
    stop_ahead(in);
    if (in->src.fd != STDIN_FILENO)
        close(in->src.fd);
    ZSTD_freeDStream(in->src.dstream);
    free(in->src.raw);
    free(in->name);
    free(in->text);
    free(in);
}

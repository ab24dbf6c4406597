/* SPDX-License-Identifier: Apache-2.0 */
#include "zio.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zstd.h>

#include "fs.h"
#include "mem.h"
#include "zio_impl.h"

#define CHUNK MINT_ZIO_CHUNK

/*
 * Where text goes. What turns out to be long is compressed and written by a thread that has the
 * sink to itself from then on. It is given what would be passed on otherwise, so that the bytes are
 * the same; what goes wrong shows at the next piece, or at the end.
 */
struct sink {
    int fd;
    char *name;
    ZSTD_CStream *cstream; /* NULL: plain */
    char *packed;
    size_t packed_cap, to_skip; /* bytes of the magic number that went out already */
    bool failed;                /* in the thread: fault says why */
    struct mint_err fault;
};

struct mint_out {
    struct sink sink;
    struct mint_tmpfile tmp; /* path is NULL when sink.fd is written directly */
    bool close_fd;
    char *own, *text; /* collected, so that the compressed bytes do not depend on how they came: in
                         own, or in the piece */
    size_t text_n;
    uint64_t drained;
    struct mint_relay *behind; /* NULL: sink is ours */
    struct mint_piece *piece;
    bool behind_tried;
};

/* --- the sink */

static int put(struct sink *s, const char *p, size_t n, struct mint_err *err)
{
    size_t skip = MINT_MIN(s->to_skip, n);
    s->to_skip -= skip;
    if (mint_fs_write_all(s->fd, p + skip, n - skip) < 0)
        return mint_fail_errno(err, "cannot write %s", s->name);
    return 0;
}

/* how says what must leave together with the text. */
static int pass_on(struct sink *s, const char *text, size_t n, ZSTD_EndDirective how,
                   struct mint_err *err)
{
    if (!s->cstream)
        return n > 0 ? put(s, text, n, err) : 0;
    ZSTD_inBuffer from = {text, n, 0};
    for (;;) {
        ZSTD_outBuffer to = {s->packed, s->packed_cap, 0};
        size_t left = ZSTD_compressStream2(s->cstream, &to, &from, how);
        if (ZSTD_isError(left))
            return mint_fail(err, MINT_EIO, "cannot compress %s: %s", s->name,
                             ZSTD_getErrorName(left));
        if (to.pos > 0 && put(s, s->packed, to.pos, err) < 0)
            return -1;
        if (how == ZSTD_e_continue ? from.pos == n : left == 0)
            return 0;
    }
}

/* --- the thread */

static void run_behind(struct mint_relay *relay, void *arg)
{
    struct sink *s = arg;
    struct mint_piece *p;
    while (!s->failed && (p = mint_relay_next(relay))) {
        s->failed = pass_on(s, p->data, p->n, (ZSTD_EndDirective)p->how, &s->fault) < 0;
        mint_relay_done(relay);
    }
    mint_relay_close(relay);
}

static void start_behind(struct mint_out *out)
{
    out->behind_tried = true;
    out->behind = mint_relay_start(run_behind, &out->sink, true);
    if (!out->behind)
        return;
    out->piece = mint_relay_room(out->behind);
    out->text = out->piece->data;
}

/* The sink is ours again, once all that was handed over is written. */
static void stop_behind(struct mint_out *out)
{
    mint_relay_join(out->behind);
    out->behind = NULL;
    out->text = out->own;
}

static void hand_over(struct mint_out *out, size_t n, ZSTD_EndDirective how)
{
    out->piece->n = n;
    out->piece->how = (int)how;
    mint_relay_give(out->behind);
    out->piece = how == ZSTD_e_end ? NULL : mint_relay_room(out->behind);
    if (out->piece)
        out->text = out->piece->data;
    else
        stop_behind(out);
}

/* Sends text on its way, which was collected or, without a thread, may stand anywhere. */
static int drain(struct mint_out *out, const char *text, size_t n, ZSTD_EndDirective how,
                 struct mint_err *err)
{
    out->text_n = 0;
    if (out->behind)
        hand_over(out, n, how);
    else if (!out->sink.failed)
        MINT_TRY(pass_on(&out->sink, text, n, how, err));
    if (!out->behind && out->sink.failed) {
        if (err)
            *err = out->sink.fault;
        return -1;
    }
    out->drained += n;
    if (!out->behind_tried && how != ZSTD_e_end && out->sink.cstream &&
        out->drained >= MINT_ZIO_LONG)
        start_behind(out);
    return 0;
}

/* --- opening and closing */

/* Which descriptor or temporary path leads to. */
static int open_target(struct mint_out *out, const char *path, unsigned flags, struct mint_err *err)
{
    struct stat st;
    if (!path || strcmp(path, "-") == 0 || strcmp(path, "/dev/stdout") == 0 ||
        strcmp(path, "/dev/fd/1") == 0) {
        out->sink.fd = STDOUT_FILENO;
        out->sink.name = mint_xstrdup("standard output");
        return 0;
    }
    out->sink.name = mint_xstrdup(path);
    if (stat(path, &st) == 0 && !S_ISREG(st.st_mode) && !S_ISDIR(st.st_mode)) {
        out->sink.fd = open(path, O_WRONLY | O_CLOEXEC);
        if (out->sink.fd < 0)
            return mint_fail_errno(err, "cannot open %s", path);
        out->close_fd = true;
        return 0;
    }
    if (mint_tmpfile_open(&out->tmp, path, flags & MINT_OUT_FORCE, err) < 0)
        return -1;
    out->sink.fd = out->tmp.fd;
    return 0;
}

static int start_frame(struct mint_out *out, struct mint_err *err)
{
    out->sink.cstream = ZSTD_createCStream();
    if (!out->sink.cstream)
        return mint_fail(err, MINT_EIO, "cannot set up zstd");
    ZSTD_CCtx_setParameter(out->sink.cstream, ZSTD_c_compressionLevel, 1);
    ZSTD_CCtx_setParameter(out->sink.cstream, ZSTD_c_checksumFlag, 1);
    out->sink.packed_cap = ZSTD_CStreamOutSize();
    out->sink.packed = mint_xmalloc(out->sink.packed_cap);
    /*
     * The magic number goes out at once: a writer that dies before its first record then leaves an
     * unfinished frame, which readers refuse, and not an empty file, which is a valid one.
     */
    if (put(&out->sink, MINT_ZIO_MAGIC, MINT_ZIO_MAGIC_BYTES, err) < 0)
        return -1;
    out->sink.to_skip = MINT_ZIO_MAGIC_BYTES;
    return 0;
}

int mint_out_open(struct mint_out **result, const char *path, unsigned flags, struct mint_err *err)
{
    struct mint_out *out = mint_xcalloc(1, sizeof *out);
    *result = NULL;
    out->sink.fd = out->tmp.fd = -1;
    int rc = open_target(out, path, flags, err);
    if (rc == 0 && !(flags & MINT_OUT_PLAIN) && !isatty(out->sink.fd))
        rc = start_frame(out, err);
    if (rc < 0) {
        mint_out_abort(out);
        return -1;
    }
    out->text = out->own = mint_xmalloc(CHUNK);
    *result = out;
    return 0;
}

int mint_out_write(struct mint_out *out, const void *p, size_t n, struct mint_err *err)
{
    const char *s = p;
    while (n > 0) {
        bool direct = out->text_n == 0 && n >= CHUNK && !out->behind;
        size_t take = MINT_MIN(n, CHUNK - out->text_n);
        if (!direct)
            memcpy(out->text + out->text_n, s, take);
        out->text_n += take;
        if (out->text_n == CHUNK)
            MINT_TRY(drain(out, direct ? s : out->text, CHUNK, ZSTD_e_continue, err));
        s += take;
        n -= take;
    }
    return 0;
}

int mint_out_flush(struct mint_out *out, struct mint_err *err)
{
    return drain(out, out->text, out->text_n, ZSTD_e_flush, err);
}

static void free_out(struct mint_out *out)
{
    ZSTD_freeCStream(out->sink.cstream);
    free(out->sink.name);
    free(out->own);
    free(out->sink.packed);
    free(out);
}

int mint_out_commit(struct mint_out *out, struct mint_err *err)
{
    if (drain(out, out->text, out->text_n, ZSTD_e_end, err) < 0) {
        mint_out_abort(out);
        return -1;
    }
    int rc = 0;
    if (out->tmp.path)
        rc = mint_tmpfile_commit(&out->tmp, err);
    else if (out->close_fd && close(out->sink.fd) < 0)
        rc = mint_fail_errno(err, "cannot write %s", out->sink.name);
    free_out(out);
    return rc;
}

void mint_out_abort(struct mint_out *out)
{
    if (!out)
        return;
    if (out->behind)
        stop_behind(out);
    if (out->tmp.path)
        mint_tmpfile_abort(&out->tmp);
    else if (out->close_fd)
        close(out->sink.fd);
    free_out(out);
}

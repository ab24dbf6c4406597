/* SPDX-License-Identifier: Apache-2.0 */
/*
 * zio.h: lines in and out, zstd or plain.
 *
 * Reading: zstd or plain is told by the magic number of the first bytes. Any number of frames,
 * skippable and empty ones too, borders anywhere; CR LF, a BOM at the very start, no newline at the
 * end, blank lines (skipped, but counted) are taken. A frame that ends early ("input ends inside a
 * zstd frame: its writer did not finish"), a wrong checksum, or bytes after the last frame are
 * errors. Windows up to 2 GiB (--long=31) are read. A line over MINT_LINE_MAX is refused. Memory:
 * one line and zstd's window.
 *
 * Writing: ONE zstd frame, level 1, content checksum, ended only by commit. flush ends a block, so
 * that a reader downstream gets what was written so far. A writer that is aborted, or whose process
 * dies, leaves an unfinished frame, which every reader refuses: the magic number goes out at open,
 * so this holds from the first byte on.
 *
 * Threads: one stream belongs to one thread of the caller. Where the process has more than one CPU,
 * a zstd stream that has grown past a megabyte is decompressed ahead, or compressed and written
 * behind, in a thread of its own, at most a megabyte away. Lines, bytes and messages are those that
 * there would be without it; only that a failed write may be reported by a later call, at the
 * latest by commit, and that flush does not wait until it is done.
 */
#ifndef MINT_ZIO_H
#define MINT_ZIO_H

#include "base.h"
#include "err.h"

#define MINT_LINE_MAX ((size_t)256 << 20) /* bytes of one line, decompressed */

struct mint_in;
/* path "-" is stdin. */
int mint_in_open(struct mint_in **in, const char *path, struct mint_err *err);
/* 1 and a line without its newline (valid until the next call, not '\0'-terminated), 0 at the end,
 * -1. Errors name the file and line. */
int mint_in_line(struct mint_in *in, const char **line, size_t *n, struct mint_err *err);
const char *mint_in_name(const struct mint_in *in); /* the path, "stdin" for "-" */
uint64_t mint_in_lineno(const struct mint_in *in);  /* of the line given last; 1-based */
uint64_t mint_in_bytes(const struct mint_in *in); /* bytes read from the file so far (compressed) */
uint64_t mint_in_size(const struct mint_in *in);  /* of a regular file, else 0 */
void mint_in_close(struct mint_in *in);           /* NULL is fine */

enum mint_out_flags {
    MINT_OUT_PLAIN = 1, /* no zstd */
    MINT_OUT_FORCE = 2, /* -f: replace an existing file */
};
struct mint_out;
/* path NULL or "-": stdout (a terminal gets plain text; commit closes nothing but checks the
 * write). A regular or missing file: temporary, fsync, rename at commit. A pipe or device: written
 * directly. */
int mint_out_open(struct mint_out **out, const char *path, unsigned flags, struct mint_err *err);
int mint_out_write(struct mint_out *out, const void *p, size_t n, struct mint_err *err);
int mint_out_flush(struct mint_out *out, struct mint_err *err);
int mint_out_commit(
    struct mint_out *out,
    struct mint_err *err); /* ends the frame, publishes, frees out (also on failure, after abort) */
void mint_out_abort(struct mint_out *out); /* frees out, publishes nothing; NULL is fine */

#endif

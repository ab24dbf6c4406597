/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fs.h: files and folders that are whole or absent, and locks that die with their holder.
 *
 * A temporary is made beside its target (NAME.tmp-PID), so that rename is atomic. All live
 * temporaries are in one list: mint_fs_cleanup removes them, and cli.c calls it from the handlers
 * of INT, TERM, HUP. Stale temporaries of dead processes (NAME.tmp-PID on which nobody holds
 * flock; where a file system has no locks, whose PID is gone or a zombie) are removed when the same
 * target is written again. A target that is a symbolic link stays one: what it points to is
 * replaced. The mode of a replaced file is kept.
 * Different temporaries may be used by different threads, one by one thread only.
 */
#ifndef MINT_FS_H
#define MINT_FS_H

#include "base.h"
#include "err.h"

/* --- whole files in memory: for small ones (config.json). *out is '\0'-terminated, free() it.
 * What is no regular file (a pipe would hang) is refused. */
int mint_fs_read_file(const char *path, size_t max_bytes, char **out, size_t *n,
                      struct mint_err *err);
/* The same for a file that the user names to be read once: a pipe, <(...), is fine, and waited for.
 */
int mint_fs_read_stream(const char *path, size_t max_bytes, char **out, size_t *n,
                        struct mint_err *err);
/* Atomic write of a whole file (temporary, fsync, rename, fsync of the folder). */
int mint_fs_write_file(const char *path, const void *data, size_t n, struct mint_err *err);

/* --- read-only memory map. An empty file maps to data == NULL, n == 0. */
struct mint_map {
    void *data;
    size_t n;
};
int mint_fs_map(struct mint_map *m, const char *path, struct mint_err *err);
void mint_fs_unmap(struct mint_map *m);

/* --- one atomic file, written through fd. */
struct mint_tmpfile {
    int fd;
    char *path, *target;
    bool force;
};
/* force false: fails if target exists ("... exists; use -f to replace it"), now and again at
 * commit. A target with a slash at its end names a folder and is refused. */
int mint_tmpfile_open(struct mint_tmpfile *t, const char *target, bool force, struct mint_err *err);
int mint_tmpfile_commit(struct mint_tmpfile *t,
                        struct mint_err *err); /* fsync, rename, fsync folder; frees t */
void mint_tmpfile_abort(
    struct mint_tmpfile *t); /* close, unlink, free; cannot fail; safe on a zeroed t */

/* --- one atomic folder: fill tmpdir.path with files, then commit (fsyncs every file and the
 * folder, renames). */
struct mint_tmpdir {
    char *path, *target;
    bool force;
    int fd; /* of the folder, kept open for its lock */
};
/* force replaces only an empty folder or one with config.json or adapter_config.json (a model or an
 * adapter), and never the working folder or one that holds it: checked now and at commit. */
int mint_tmpdir_open(struct mint_tmpdir *t, const char *target, bool force, struct mint_err *err);
int mint_tmpdir_commit(struct mint_tmpdir *t, struct mint_err *err);
void mint_tmpdir_abort(struct mint_tmpdir *t);

/* --- locks: flock(2) on a file, with the holder's pid in it for the message. */
struct mint_lock {
    int fd;
    char *path;
};
/* Does not wait: MINT_ELOCKED "PATH is locked by process PID" when held. The file stays (removing
 * it would race). */
int mint_lock_take(struct mint_lock *l, const char *path, struct mint_err *err);
void mint_lock_release(struct mint_lock *l);

int mint_fs_write_all(int fd, const void *p,
                      size_t n); /* 0, or -1 with errno; retries EINTR and short writes */
/* Byte-identical; not atomic: for filling a tmpdir. to must not exist. */
int mint_fs_copy_file(const char *from, const char *to, struct mint_err *err);
bool mint_fs_exists(const char *path);
bool mint_fs_is_dir(const char *path);
/* Whether folder path is folder dir itself or lies below it; false if either cannot be looked at.
 */
bool mint_fs_holds(const char *dir, const char *path);
char *mint_fs_join(const char *dir, const char *name); /* malloc'ed "dir/name" */
void mint_fs_cleanup(void); /* async-signal-safe: unlinks live temporaries */

#endif

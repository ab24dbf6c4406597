/* SPDX-License-Identifier: Apache-2.0 */
#include "fs.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "buf.h"
#include "mem.h"

#define MAX_DEPTH 64 /* of a folder tree that is removed or synced */

/*
 * The live temporaries. A signal handler walks this list, so nodes are pushed in front and never
 * freed; a node that is done is switched off and serves the same path again.
 */
struct temp {
    struct temp *next;
    char *path;
    bool folder;
    atomic_int owner; /* pid, 0 when off: a forked child must not clean up for its parent */
};
static struct temp *_Atomic temps;

/* --- removal by system calls alone: opendir allocates, which a signal handler must not */

struct dirent64_raw {
    uint64_t ino;
    int64_t off;
    unsigned short reclen;
    unsigned char type;
    char name[];
};

static void remove_tree(int at, const char *name, int depth);

/* One pass over an open folder; true if something was removed. */
static bool remove_entries(int fd, int depth)
{
    _Alignas(struct dirent64_raw) char block[4096];
    bool removed = false;
    long n;
    while ((n = syscall(SYS_getdents64, fd, block, sizeof block)) > 0) {
        for (long i = 0; i < n;) {
            const struct dirent64_raw *e = (const void *)(block + i);
            i += e->reclen;
            if (strcmp(e->name, ".") == 0 || strcmp(e->name, "..") == 0)
                continue;
            remove_tree(fd, e->name, depth + 1);
            removed |= faccessat(fd, e->name, F_OK, AT_SYMLINK_NOFOLLOW) != 0;
        }
    }
    return removed;
}

static void remove_tree(int at, const char *name, int depth)
{
    if (unlinkat(at, name, 0) == 0 || errno == ENOENT || depth > MAX_DEPTH)
        return;
    int fd = openat(at, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return;
    /* removing shifts the entries of some file systems, so look again until nothing more goes */
    while (remove_entries(fd, depth))
        lseek(fd, 0, SEEK_SET);
    close(fd);
    unlinkat(at, name, AT_REMOVEDIR);
}

void mint_fs_cleanup(void)
{
    int saved = errno;
    for (struct temp *t = atomic_load(&temps); t; t = t->next) {
        if (atomic_load(&t->owner) != getpid())
            continue;
        if (t->folder)
            remove_tree(AT_FDCWD, t->path, 0);
        else
            unlink(t->path);
    }
    errno = saved;
}

static struct temp *find_temp(const char *path)
{
    for (struct temp *t = atomic_load(&temps); t; t = t->next) {
        if (strcmp(t->path, path) == 0)
            return t;
    }
    return NULL;
}

static void register_temp(const char *path, bool folder)
{
    mint_mem_on_fatal = mint_fs_cleanup;
    struct temp *t = find_temp(path);
    if (t) {
        t->folder = folder;
        atomic_store(&t->owner, getpid());
        return;
    }
    t = mint_xcalloc(1, sizeof *t);
    t->path = mint_xstrdup(path);
    t->folder = folder;
    atomic_init(&t->owner, getpid());
    t->next = atomic_load(&temps);
    while (!atomic_compare_exchange_weak(&temps, &t->next, t))
        continue;
}

static void unregister_temp(const char *path)
{
    struct temp *t = find_temp(path);
    if (t)
        atomic_store(&t->owner, 0);
}

static bool is_live(const char *path)
{
    struct temp *t = find_temp(path);
    return t && atomic_load(&t->owner) == getpid();
}

/* --- names */

bool mint_fs_exists(const char *path)
{
    return faccessat(AT_FDCWD, path, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

bool mint_fs_is_dir(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

char *mint_fs_join(const char *dir, const char *name)
{
    size_t n = strlen(dir);
    return mint_xasprintf("%s%s%s", dir, n > 0 && dir[n - 1] == '/' ? "" : "/", name);
}

/* The folder that holds path; free(). */
static char *folder_of(const char *path)
{
    const char *slash = strrchr(path, '/');
    if (!slash)
        return mint_xstrdup(".");
    return mint_xstrndup(path, slash == path ? 1 : (size_t)(slash - path));
}

/* The target without trailing slashes and behind a symbolic link: a link stays a link. NULL: no
 * name. */
static char *resolve_target(const char *target)
{
    size_t n = strlen(target);
    while (n > 1 && target[n - 1] == '/')
        n--;
    char *path = mint_xstrndup(target, n);
    struct stat st;
    if (lstat(path, &st) == 0 && S_ISLNK(st.st_mode)) {
        char *real = realpath(path, NULL);
        if (real) {
            free(path);
            path = real;
        }
    }
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    if (*name && strcmp(name, ".") != 0 && strcmp(name, "..") != 0)
        return path;
    free(path);
    return NULL;
}

/* The pid and nothing else, or followed by "-old"; 0 if it is no temporary's. */
static pid_t pid_of(const char *digits)
{
    char *end;
    errno = 0;
    long pid = strtol(digits, &end, 10);
    bool old = strcmp(end, "-old") == 0;
    if (!isdigit((unsigned char)*digits) || errno || pid <= 0 || pid > INT32_MAX || (*end && !old))
        return 0;
    return (pid_t)pid;
}

/* A killed process whose parent never waits for it stays visible to kill(2), but writes no more. */
static bool is_zombie(pid_t pid)
{
    char path[48], text[512];
    snprintf(path, sizeof path, "/proc/%ld/stat", (long)pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof text - 1);
    if (fd >= 0)
        close(fd);
    text[n > 0 ? n : 0] = '\0';
    const char *name_end = strrchr(text, ')'); /* the name may hold anything */
    return name_end && name_end[1] == ' ' && (name_end[2] == 'Z' || name_end[2] == 'X');
}

static bool is_dead(pid_t pid)
{
    return pid == getpid() || (kill(pid, 0) != 0 && errno == ESRCH) || is_zombie(pid);
}

enum sign { ALIVE, DEAD, UNKNOWN };

/*
 * A writer holds a lock on its temporary from before anyone can take it for stale until it is
 * renamed. That tells the living from the dead where pids do not: they are used again, zombies
 * have one, and those of other containers say nothing.
 */
static enum sign sign_of_life(int dir, const char *name)
{
    int fd = openat(dir, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return errno == EACCES ? UNKNOWN : ALIVE;
    enum sign sign = flock(fd, LOCK_EX | LOCK_NB) == 0 ? DEAD
                     : errno == EWOULDBLOCK            ? ALIVE
                                                       : UNKNOWN; /* no locks on this file system */
    close(fd);
    return sign;
}

/* name is NAME.tmp-DIGITS; the folder that a writer moved aside (-old) is not locked by it. */
static bool is_stale(int dir, const char *name, const char *digits)
{
    pid_t pid = pid_of(digits);
    if (pid == 0)
        return false;
    enum sign sign = sign_of_life(dir, name);
    if (sign == DEAD && !strstr(digits, "-old"))
        return true;
    return sign != ALIVE && is_dead(pid);
}

/* Removes what dead writers of the same target left. NAME.tmp-PID-old is the only copy while there
 * is no target. */
static void remove_stale(const char *target)
{
    char *folder = folder_of(target);
    const char *slash = strrchr(target, '/'), *base = slash ? slash + 1 : target;
    size_t n = strlen(base);
    DIR *d = opendir(folder);
    struct dirent *e;
    while (d && (e = readdir(d))) {
        if (strncmp(e->d_name, base, n) != 0 || strncmp(e->d_name + n, ".tmp-", 5) != 0)
            continue;
        char *path = mint_fs_join(folder, e->d_name);
        bool only_copy = strstr(e->d_name + n, "-old") && !mint_fs_exists(target);
        if (!only_copy && !is_live(path) && is_stale(dirfd(d), e->d_name, e->d_name + n + 5))
            remove_tree(dirfd(d), e->d_name, 0);
        free(path);
    }
    if (d)
        closedir(d);
    free(folder);
}

static int sync_folder(const char *path, struct mint_err *err)
{
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return mint_fail_errno(err, "cannot open folder %s", path);
    /* some file systems cannot sync a folder and say EINVAL; there is nothing better to do on them
     */
    int rc =
        fsync(fd) == 0 || errno == EINVAL ? 0 : mint_fail_errno(err, "cannot sync folder %s", path);
    close(fd);
    return rc;
}

static int sync_folder_of(const char *path, struct mint_err *err)
{
    char *folder = folder_of(path);
    int rc = sync_folder(folder, err);
    free(folder);
    return rc;
}

static int fail_exists(const char *target, struct mint_err *err)
{
    return mint_fail(err, MINT_EIO, "%s exists; use -f to replace it", target);
}

/* --- whole files */

int mint_fs_write_all(int fd, const void *p, size_t n)
{
    const char *s = p;
    while (n > 0) {
        ssize_t w = write(fd, s, n);
        if (w < 0 && errno == EINTR)
            continue;
        if (w < 0)
            return -1;
        s += w;
        n -= (size_t)w;
    }
    return 0;
}

static int read_all(int fd, const char *path, size_t max, struct mint_buf *b, struct mint_err *err)
{
    struct stat st;
    if (fstat(fd, &st) == 0 && (uintmax_t)st.st_size <= max)
        mint_buf_reserve(b, (size_t)st.st_size + 1);
    for (;;) {
        mint_buf_reserve(b, 4096);
        ssize_t r = read(fd, b->data + b->len, b->cap - b->len - 1);
        if (r < 0 && errno == EINTR)
            continue;
        if (r < 0)
            return mint_fail_errno(err, "cannot read %s", path);
        b->len += (size_t)r;
        b->data[b->len] = '\0';
        if (b->len > max)
            return mint_fail(err, MINT_EFORMAT, "%s has more than %zu bytes", path, max);
        if (r == 0)
            return 0;
    }
}

/* For reading; a descriptor, or -1. A named pipe must not hang here. */
static int open_regular(const char *path, struct mint_err *err)
{
    struct stat st;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return mint_fail_errno(err, "cannot open %s", path);
    if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode))
        return fd;
    mint_fail(err, MINT_EIO, "%s is no regular file", path);
    close(fd);
    return -1;
}

/* All of fd, which is closed; fd < 0: the failure to open it, err is filled. */
static int read_whole(int fd, const char *path, size_t max_bytes, char **out, size_t *n,
                      struct mint_err *err)
{
    if (fd < 0)
        return -1;
    struct mint_buf b = MINT_BUF_INIT;
    int rc = read_all(fd, path, max_bytes, &b, err);
    close(fd);
    if (rc == 0) {
        *n = b.len;
        *out = mint_buf_detach(&b);
    }
    mint_buf_release(&b);
    return rc;
}

int mint_fs_read_file(const char *path, size_t max_bytes, char **out, size_t *n,
                      struct mint_err *err)
{
    return read_whole(open_regular(path, err), path, max_bytes, out, n, err);
}

int mint_fs_read_stream(const char *path, size_t max_bytes, char **out, size_t *n,
                        struct mint_err *err)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return mint_fail_errno(err, "cannot open %s", path);
    return read_whole(fd, path, max_bytes, out, n, err);
}

int mint_fs_write_file(const char *path, const void *data, size_t n, struct mint_err *err)
{
    struct mint_tmpfile t;
    if (mint_tmpfile_open(&t, path, true, err) < 0)
        return -1;
    if (mint_fs_write_all(t.fd, data, n) < 0) {
        mint_fail_errno(err, "cannot write %s", path);
        mint_tmpfile_abort(&t);
        return -1;
    }
    return mint_tmpfile_commit(&t, err);
}

static int copy_bytes(int in, int out)
{
    size_t cap = 1 << 20;
    char *block = mint_xmalloc(cap);
    int rc = 0;
    for (;;) {
        ssize_t r = read(in, block, cap);
        if (r < 0 && errno == EINTR)
            continue;
        if (r <= 0 || mint_fs_write_all(out, block, (size_t)r) < 0) {
            rc = r == 0 ? 0 : -1;
            break;
        }
    }
    free(block);
    return rc;
}

int mint_fs_copy_file(const char *from, const char *to, struct mint_err *err)
{
    int in = open_regular(from, err);
    if (in < 0)
        return -1;
    int out = open(to, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (out < 0) {
        mint_fail_errno(err, "cannot create %s", to);
        close(in);
        return -1;
    }
    int rc = copy_bytes(in, out);
    if (rc < 0)
        mint_fail_errno(err, "cannot copy %s to %s", from, to);
    close(in);
    if (close(out) < 0 && rc == 0)
        rc = mint_fail_errno(err, "cannot write %s", to);
    return rc;
}

/* --- map */

int mint_fs_map(struct mint_map *m, const char *path, struct mint_err *err)
{
    struct stat st;
    *m = (struct mint_map){NULL, 0};
    int fd = open_regular(path, err);
    if (fd < 0)
        return -1;
    int rc = 0;
    if (fstat(fd, &st) < 0)
        rc = mint_fail_errno(err, "cannot read %s", path);
    else if (st.st_size > 0) {
        void *p = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
        if (p == MAP_FAILED)
            rc = mint_fail_errno(err, "cannot map %s", path);
        else
            *m = (struct mint_map){p, (size_t)st.st_size};
    }
    close(fd);
    return rc;
}

void mint_fs_unmap(struct mint_map *m)
{
    if (m->data)
        munmap(m->data, m->n);
    *m = (struct mint_map){NULL, 0};
}

/* --- one atomic file */

/* Fills path and target for a new temporary of either kind; *st is the target's, st_mode 0 if there
 * is none. */
static int prepare(const char *target, bool force, char **path, char **resolved, struct stat *st,
                   struct mint_err *err)
{
    *st = (struct stat){0};
    *resolved = resolve_target(target);
    *path = NULL;
    if (!*resolved)
        return mint_fail(err, MINT_EIO, "cannot create '%s': not a name", target);
    bool there = lstat(*resolved, st) == 0;
    if (!there)
        st->st_mode = 0;
    if (there && !force) {
        fail_exists(target, err);
        free(*resolved);
        return -1;
    }
    remove_stale(*resolved);
    *path = mint_xasprintf("%s.tmp-%ld", *resolved, (long)getpid());
    if (is_live(*path)) {
        mint_fail(err, MINT_ELOCKED, "%s is being written already", target);
        free(*path);
        free(*resolved);
        return -1;
    }
    return 0;
}

/* Made and locked. Before the lock another writer may take it for stale and remove it. */
static int create_locked(const char *path)
{
    struct stat st;
    for (;;) {
        int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (fd < 0)
            return -1;
        /* file systems without locks are fine: pids must do there */
        bool contested = flock(fd, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK;
        if (!contested && fstat(fd, &st) == 0 && st.st_nlink > 0)
            return fd;
        unlink(path);
        close(fd);
    }
}

int mint_tmpfile_open(struct mint_tmpfile *t, const char *target, bool force, struct mint_err *err)
{
    struct stat st;
    *t = (struct mint_tmpfile){.fd = -1};
    size_t n = strlen(target);
    if (n > 1 && target[n - 1] == '/')
        return mint_fail(err, MINT_EIO,
                         "cannot create %s: that names a folder; name a file, as in %sNAME", target,
                         target);
    if (prepare(target, force, &t->path, &t->target, &st, err) < 0) {
        *t = (struct mint_tmpfile){.fd = -1};
        return -1;
    }
    if (S_ISDIR(st.st_mode))
        mint_fail(err, MINT_EIO, "%s is a folder", target);
    else if ((t->fd = create_locked(t->path)) < 0)
        mint_fail_errno(err, "cannot create %s", target);
    if (t->fd < 0) {
        free(t->path);
        free(t->target);
        *t = (struct mint_tmpfile){.fd = -1};
        return -1;
    }
    register_temp(t->path, false);
    if (S_ISREG(st.st_mode))
        (void)!fchmod(t->fd, st.st_mode & 0777); /* what is replaced may have been private */
    t->force = force;
    return 0;
}

/* Renames without replacing; file systems without that flag get a hard link, which refuses as well.
 */
static int publish_new(const char *path, const char *target)
{
    if (renameat2(AT_FDCWD, path, AT_FDCWD, target, RENAME_NOREPLACE) == 0)
        return 0;
    if (errno != EINVAL && errno != ENOSYS)
        return -1;
    if (link(path, target) == 0) {
        unlink(path);
        return 0;
    }
    if (errno == EEXIST || mint_fs_exists(target)) {
        errno = EEXIST;
        return -1;
    }
    return rename(path, target);
}

static void forget_file(struct mint_tmpfile *t)
{
    unregister_temp(t->path);
    free(t->path);
    free(t->target);
    *t = (struct mint_tmpfile){.fd = -1};
}

int mint_tmpfile_commit(struct mint_tmpfile *t, struct mint_err *err)
{
    if (fsync(t->fd) < 0) {
        mint_fail_errno(err, "cannot write %s", t->target);
        mint_tmpfile_abort(t);
        return -1;
    }
    int fd = t->fd;
    t->fd = dup(fd); /* keeps the lock until the file has its name */
    if (close(fd) < 0) {
        mint_fail_errno(err, "cannot write %s", t->target);
        mint_tmpfile_abort(t);
        return -1;
    }
    int rc = t->force ? rename(t->path, t->target) : publish_new(t->path, t->target);
    if (rc < 0) {
        if (errno == EEXIST && !t->force)
            fail_exists(t->target, err);
        else
            mint_fail_errno(err, "cannot rename the finished output to %s", t->target);
        mint_tmpfile_abort(t);
        return -1;
    }
    unregister_temp(t->path);
    if (t->fd >= 0)
        close(t->fd);
    rc = sync_folder_of(t->target, err);
    forget_file(t);
    return rc;
}

void mint_tmpfile_abort(struct mint_tmpfile *t)
{
    if (!t->path)
        return;
    if (t->fd >= 0)
        close(t->fd);
    unlink(t->path);
    forget_file(t);
}

/* --- one atomic folder */

bool mint_fs_holds(const char *dir, const char *path)
{
    struct stat top, st, last = {0};
    int fd = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
    bool known = fd >= 0 && stat(dir, &top) == 0, found = false;
    while (known && fd >= 0 && !found && fstat(fd, &st) == 0) {
        found = st.st_dev == top.st_dev && st.st_ino == top.st_ino;
        if (st.st_dev == last.st_dev && st.st_ino == last.st_ino)
            break; /* the root is its own parent */
        last = st;
        int up = openat(fd, "..", O_PATH | O_DIRECTORY | O_CLOEXEC);
        close(fd);
        fd = up;
    }
    if (fd >= 0)
        close(fd);
    return found;
}

/* Empty, or with the file that every model or adapter folder has; another's files are not ours. */
static bool is_replaceable(const char *dir)
{
    static const char *const marks[] = {"config.json", "adapter_config.json"};
    struct stat st;
    bool ours = false;
    for (size_t i = 0; i < MINT_ARRAY_LEN(marks); i++) {
        char *mark = mint_fs_join(dir, marks[i]);
        ours |= stat(mark, &st) == 0 && S_ISREG(st.st_mode);
        free(mark);
    }
    DIR *d = ours ? NULL : opendir(dir);
    if (!d)
        return ours;
    size_t entries = 0;
    while (entries <= 2 && readdir(d))
        entries++;
    closedir(d);
    return entries <= 2; /* . and .. */
}

static int check_replaceable(const char *dir, struct mint_err *err)
{
    if (mint_fs_holds(dir, "."))
        return mint_fail(err, MINT_EIO,
                         "%s holds the working folder, so it is not replaced; name another folder",
                         dir);
    if (!is_replaceable(dir))
        return mint_fail(err, MINT_EIO,
                         "%s is no model or adapter folder (no config.json, no "
                         "adapter_config.json), so -f does not replace it; remove it, or name "
                         "another folder",
                         dir);
    return 0;
}

static int make_folder(struct mint_tmpdir *t, const char *target, struct mint_err *err)
{
    struct stat st;
    for (;;) {
        if (mkdir(t->path, 0777) < 0)
            return mint_fail_errno(err, "cannot create folder %s", target);
        register_temp(t->path, true);
        t->fd = open(t->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        /* before the lock another writer may take it for stale and remove it */
        if (t->fd >= 0 && (flock(t->fd, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK) &&
            fstat(t->fd, &st) == 0 && st.st_nlink > 0)
            return 0;
        if (t->fd < 0 && errno != ENOENT)
            return 0; /* no lock, then; filling it will say what is wrong */
        if (t->fd >= 0)
            close(t->fd);
        t->fd = -1;
        rmdir(t->path);
        unregister_temp(t->path);
    }
}

int mint_tmpdir_open(struct mint_tmpdir *t, const char *target, bool force, struct mint_err *err)
{
    struct stat st;
    *t = (struct mint_tmpdir){.fd = -1};
    if (prepare(target, force, &t->path, &t->target, &st, err) < 0) {
        *t = (struct mint_tmpdir){.fd = -1};
        return -1;
    }
    int rc = -1;
    if (st.st_mode && !S_ISDIR(st.st_mode))
        mint_fail(err, MINT_EIO, "%s is no folder", target);
    else if (!st.st_mode || check_replaceable(t->target, err) == 0)
        rc = make_folder(t, target, err);
    if (rc < 0) {
        free(t->path);
        free(t->target);
        *t = (struct mint_tmpdir){.fd = -1};
        return -1;
    }
    t->force = force;
    return 0;
}

static int sync_tree(const char *path, int depth, struct mint_err *err);

static int sync_entry(const char *path, int depth, struct mint_err *err)
{
    struct stat st;
    if (lstat(path, &st) < 0)
        return mint_fail_errno(err, "cannot read %s", path);
    if (S_ISDIR(st.st_mode))
        return sync_tree(path, depth + 1, err);
    if (!S_ISREG(st.st_mode))
        return 0;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0)
        return mint_fail_errno(err, "cannot open %s", path);
    int rc = fsync(fd) == 0 ? 0 : mint_fail_errno(err, "cannot write %s", path);
    close(fd);
    return rc;
}

static int sync_tree(const char *path, int depth, struct mint_err *err)
{
    DIR *d = opendir(path);
    if (!d)
        return mint_fail_errno(err, "cannot open folder %s", path);
    struct dirent *e;
    int rc = depth > MAX_DEPTH ? mint_fail(err, MINT_EIO, "%s is nested too deeply", path) : 0;
    while (rc == 0 && (e = readdir(d))) {
        if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0)
            continue;
        char *entry = mint_fs_join(path, e->d_name);
        rc = sync_entry(entry, depth, err);
        free(entry);
    }
    closedir(d);
    return rc == 0 ? sync_folder(path, err) : rc;
}

static void forget_folder(struct mint_tmpdir *t)
{
    if (t->fd >= 0)
        close(t->fd);
    unregister_temp(t->path);
    free(t->path);
    free(t->target);
    *t = (struct mint_tmpdir){.fd = -1};
}

/* Without an atomic swap: the old folder is moved aside first, and moved back if the new one cannot
 * come. */
static int swap_in_two_steps(const char *path, const char *target)
{
    char *old = mint_xasprintf("%s-old", path);
    int rc = rename(target, old);
    if (rc == 0 && (rc = rename(path, target)) < 0) {
        int saved = errno;
        (void)!rename(old, target);
        errno = saved;
    } else if (rc == 0) {
        remove_tree(AT_FDCWD, old, 0);
    }
    free(old);
    return rc;
}

static int publish_folder(const struct mint_tmpdir *t)
{
    if (!t->force || !mint_fs_exists(t->target)) {
        if (renameat2(AT_FDCWD, t->path, AT_FDCWD, t->target, RENAME_NOREPLACE) == 0)
            return 0;
        if (errno != EINVAL && errno != ENOSYS)
            return -1;
        if (mint_fs_exists(t->target)) {
            errno = EEXIST;
            return -1;
        }
        return rename(t->path, t->target);
    }
    if (renameat2(AT_FDCWD, t->path, AT_FDCWD, t->target, RENAME_EXCHANGE) == 0) {
        /* path holds the old folder now; it stays registered until it is gone */
        remove_tree(AT_FDCWD, t->path, 0);
        return 0;
    }
    if (errno != EINVAL && errno != ENOSYS)
        return -1;
    return swap_in_two_steps(t->path, t->target);
}

int mint_tmpdir_commit(struct mint_tmpdir *t, struct mint_err *err)
{
    if (sync_tree(t->path, 0, err) < 0 ||
        (t->force && mint_fs_exists(t->target) && check_replaceable(t->target, err) < 0)) {
        mint_tmpdir_abort(t);
        return -1;
    }
    if (publish_folder(t) < 0) {
        if (errno == EEXIST || errno == ENOTEMPTY)
            fail_exists(t->target, err);
        else
            mint_fail_errno(err, "cannot rename the finished output to %s", t->target);
        mint_tmpdir_abort(t);
        return -1;
    }
    int rc = sync_folder_of(t->target, err);
    forget_folder(t);
    return rc;
}

void mint_tmpdir_abort(struct mint_tmpdir *t)
{
    if (!t->path)
        return;
    remove_tree(AT_FDCWD, t->path, 0);
    forget_folder(t);
}

/* --- locks */

static int fail_locked(int fd, const char *path, struct mint_err *err)
{
    char text[32];
    ssize_t n = pread(fd, text, sizeof text - 1, 0);
    long pid = 0;
    if (n > 0) {
        text[n] = '\0';
        pid = strtol(text, NULL, 10);
    }
    if (pid > 0)
        return mint_fail(err, MINT_ELOCKED, "%s is locked by process %ld", path, pid);
    return mint_fail(err, MINT_ELOCKED, "%s is locked by another process", path);
}

static bool is_same_file(int fd, const char *path)
{
    struct stat a, b;
    return fstat(fd, &a) == 0 && stat(path, &b) == 0 && a.st_dev == b.st_dev &&
           a.st_ino == b.st_ino;
}

static int write_pid(int fd, const char *path, struct mint_err *err)
{
    char text[32];
    int n = snprintf(text, sizeof text, "%ld\n", (long)getpid());
    if (ftruncate(fd, 0) < 0 || pwrite(fd, text, (size_t)n, 0) != n)
        return mint_fail_errno(err, "cannot write lock %s", path);
    return 0;
}

int mint_lock_take(struct mint_lock *l, const char *path, struct mint_err *err)
{
    *l = (struct mint_lock){.fd = -1};
    int rc;
    do {
        int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
        if (fd < 0)
            return mint_fail_errno(err, "cannot open lock %s", path);
        while ((rc = flock(fd, LOCK_EX | LOCK_NB)) < 0 && errno == EINTR)
            continue;
        if (rc < 0)
            rc = errno == EWOULDBLOCK ? fail_locked(fd, path, err)
                                      : mint_fail_errno(err, "cannot lock %s", path);
        else if (!is_same_file(fd, path))
            rc = 1; /* somebody removed or replaced the file meanwhile: that lock means nothing */
        else
            rc = write_pid(fd, path, err);
        if (rc != 0)
            close(fd);
        else
            *l = (struct mint_lock){.fd = fd, .path = mint_xstrdup(path)};
    } while (rc == 1);
    return rc;
}

void mint_lock_release(struct mint_lock *l)
{
    if (!l->path)
        return;
    (void)!ftruncate(l->fd, 0); /* so that nobody is told of a process that has gone on */
    close(l->fd);
    free(l->path);
    *l = (struct mint_lock){.fd = -1};
}

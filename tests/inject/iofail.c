/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Makes system calls fail on purpose, to see what a program leaves behind when a disk is full or a
 * machine stops. Preloaded:
 *
 *   gcc -std=c11 -D_GNU_SOURCE -O2 -shared -fPIC tests/inject/iofail.c -ldl -o iofail.so
 *   MINT_IOFAIL=write:3:ENOSPC,fsync:1:EIO LD_PRELOAD=./iofail.so mint-... -o out
 *
 * MINT_IOFAIL is a list of CALL:N[+][:WHAT]. CALL is write (also pwrite), fsync (also fdatasync),
 * close, rename (all kinds), open (for writing only), mkdir; N counts the calls from 1, and with +
 * all later ones fail as well. WHAT is the name of an errno (EIO if left out), kill (the process
 * gets SIGKILL instead), or short (half of the bytes of a write are written). Only files count, not
 * the standard streams; with stdout:1 in the list, standard output counts as a file too. A
 * directory's fsync counts like any other.
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum call { WRITE, FSYNC, CLOSE, RENAME, OPEN, MKDIR, STDOUT, CALLS };
enum effect { NONE, FAIL, SHORT };

static const char *const names[CALLS] = {"write", "fsync", "close", "rename",
                                         "open",  "mkdir", "stdout"};

static struct rule {
    long at; /* 0: no rule */
    bool later, die, half;
    int error;
} rules[CALLS];
static long counts[CALLS];
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

static void set_rule(const char *item, size_t n)
{
    for (int c = 0; c < CALLS; c++) {
        size_t k = strlen(names[c]);
        if (n <= k + 1 || strncmp(item, names[c], k) != 0 || item[k] != ':')
            continue;
        char *end, what[32] = "";
        struct rule r = {.error = EIO};
        r.at = strtol(item + k + 1, &end, 10);
        r.later = *end == '+';
        end += r.later;
        size_t used = (size_t)(end - item);
        if (*end == ':' && n - used - 1 < sizeof what)
            memcpy(what, end + 1, n - used - 1);
        r.die = strcmp(what, "kill") == 0;
        r.half = strcmp(what, "short") == 0;
        for (int e = 1; e < 134; e++) {
            const char *name = strerrorname_np(e);
            if (name && strcmp(name, what) == 0)
                r.error = e;
        }
        rules[c] = r;
    }
}

__attribute__((constructor)) static void read_rules(void)
{
    const char *s = getenv("MINT_IOFAIL");
    while (s && *s) {
        size_t n = strcspn(s, ",");
        set_rule(s, n);
        s += n + (s[n] == ',');
    }
}

/* Counts a call and says what shall happen to it; sets errno for FAIL. */
static enum effect decide(enum call c)
{
    const struct rule *r = &rules[c];
    if (r->at == 0)
        return NONE;
    pthread_mutex_lock(&mutex);
    long n = ++counts[c];
    pthread_mutex_unlock(&mutex);
    if (n != r->at && !(r->later && n > r->at))
        return NONE;
    if (r->die)
        raise(SIGKILL);
    if (r->half)
        return SHORT;
    errno = r->error;
    return FAIL;
}

static bool is_counted(int fd)
{
    return fd > STDERR_FILENO || (fd == STDOUT_FILENO && rules[STDOUT].at != 0);
}

/* POSIX has no other way to make a function of dlsym's answer without a warning. */
#define REAL(name)                 \
    static __typeof__(name) *real; \
    if (!real)                     \
    *(void **)&real = dlsym(RTLD_NEXT, #name)

ssize_t write(int fd, const void *p, size_t n)
{
    REAL(write);
    enum effect e = is_counted(fd) ? decide(WRITE) : NONE;
    return e == FAIL ? -1 : real(fd, p, e == SHORT && n > 1 ? n / 2 : n);
}

ssize_t pwrite(int fd, const void *p, size_t n, off_t at)
{
    REAL(pwrite);
    enum effect e = is_counted(fd) ? decide(WRITE) : NONE;
    return e == FAIL ? -1 : real(fd, p, e == SHORT && n > 1 ? n / 2 : n, at);
}

int fsync(int fd)
{
    REAL(fsync);
    return decide(FSYNC) == FAIL ? -1 : real(fd);
}

int fdatasync(int fd)
{
    REAL(fdatasync);
    return decide(FSYNC) == FAIL ? -1 : real(fd);
}

static bool is_writable(int fd)
{
    int flags = fcntl(fd, F_GETFL);
    return flags >= 0 && (flags & O_ACCMODE) != O_RDONLY;
}

/* Files that were only read are closed without a check everywhere: they do not count. */
int close(int fd)
{
    REAL(close);
    enum effect e = is_counted(fd) && is_writable(fd) ? decide(CLOSE) : NONE;
    if (e != FAIL)
        return real(fd);
    int saved = errno;
    real(fd); /* as on Linux: the descriptor is gone also when close fails */
    errno = saved;
    return -1;
}

int rename(const char *from, const char *to)
{
    REAL(rename);
    return decide(RENAME) == FAIL ? -1 : real(from, to);
}

int renameat(int from_dir, const char *from, int to_dir, const char *to)
{
    REAL(renameat);
    return decide(RENAME) == FAIL ? -1 : real(from_dir, from, to_dir, to);
}

int renameat2(int from_dir, const char *from, int to_dir, const char *to, unsigned flags)
{
    REAL(renameat2);
    return decide(RENAME) == FAIL ? -1 : real(from_dir, from, to_dir, to, flags);
}

int mkdir(const char *path, mode_t mode)
{
    REAL(mkdir);
    return decide(MKDIR) == FAIL ? -1 : real(path, mode);
}

int open(const char *path, int flags, ...)
{
    REAL(open);
    mode_t mode = 0;
    if (flags & (O_CREAT | O_TMPFILE)) {
        va_list ap;
        va_start(ap, flags);
        mode = va_arg(ap, mode_t);
        va_end(ap);
    }
    bool counts_here = (flags & O_ACCMODE) != O_RDONLY;
    return counts_here && decide(OPEN) == FAIL ? -1 : real(path, flags, mode);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* What the processes of a box use, read from outside through the box's own /proc. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "sandbox_impl.h"

/* The whole of a small file of /proc as text: its length, 0 if it can't be read. */
static size_t slurp(int dir, const char *name, char *text, size_t cap)
{
    int fd = openat(dir, name, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return 0;
    ssize_t n = read(fd, text, cap - 1);
    close(fd);
    text[n > 0 ? n : 0] = '\0';
    return n > 0 ? (size_t)n : 0;
}

/* The k-th field (from 0) of fields parted by spaces. */
static uint64_t field(const char *s, int k)
{
    uint64_t v = 0;
    for (; k > 0 && *s; k--) {
        s += strcspn(s, " ");
        s += strspn(s, " ");
    }
    for (; *s >= '0' && *s <= '9'; s++)
        v = 10 * v + (uint64_t)(*s - '0');
    return v;
}

/* Bytes in a line "KEY: N kB" of a file of /proc. */
static int64_t size_of(const char *text, const char *key)
{
    const char *at = text;
    while ((at = strstr(at, key)) && (at == text || at[-1] != '\n'))
        at++;
    if (!at)
        return 0;
    at += strlen(key);
    at += strspn(at, " \t");
    return (int64_t)field(at, 0) * 1024;
}

/* Resident and swapped pages, and the tables of them. Where the proportional set size can be read,
 * and exact asks for it, what is shared is divided by its owners. */
static int64_t memory_of(int dir, bool exact)
{
    char text[4096];
    slurp(dir, "status", text, sizeof(text));
    int64_t tables = size_of(text, "VmPTE:");
    int64_t pages = size_of(text, "VmRSS:") + size_of(text, "VmSwap:");
    if (exact && pages && slurp(dir, "smaps_rollup", text, sizeof(text)))
        pages = size_of(text, "Pss:") + size_of(text, "SwapPss:");
    return pages + tables;
}

/* A process whose first thread has ended shows no memory; its other threads do. */
static int64_t memory_of_threads(int process, bool exact)
{
    int64_t bytes = 0;
    int fd = openat(process, "task", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *d = fd < 0 ? NULL : fdopendir(fd);
    for (struct dirent *e; d && !bytes && (e = readdir(d));) {
        int dir = e->d_name[0] == '.' ? -1 : openat(fd, e->d_name, O_RDONLY | O_CLOEXEC);
        if (dir >= 0) {
            bytes = memory_of(dir, exact);
            close(dir);
        }
    }
    if (d)
        closedir(d);
    return bytes;
}

static void add_process(int proc, const char *pid, bool exact, struct mint_usage *u)
{
    char text[1024];
    int dir = openat(proc, pid, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (dir < 0)
        return;
    int64_t bytes = memory_of(dir, exact);
    u->bytes += bytes ? bytes : memory_of_threads(dir, exact);
    if (slurp(dir, "stat", text, sizeof(text))) {
        /* The name, in brackets, may hold anything. utime, stime and those of buried children are
         * fields 14 to 17, the one after the name is 3. */
        const char *at = strrchr(text, ')');
        uint64_t ticks = 0;
        for (int k = 11; at && k < 15; k++)
            ticks += field(at + 2, k);
        u->cpu += (double)ticks / (double)sysconf(_SC_CLK_TCK);
    }
    close(dir);
}

/* What waits in sockets belongs to no process: as much as each can hold. (The filter keeps them
 * from asking for more.) */
static int64_t in_sockets(pid_t init)
{
    char path[64], text[256];
    int64_t each = 212992;
    snprintf(path, sizeof(path), "/proc/%d/net/sockstat", (int)init);
    if (!slurp(AT_FDCWD, path, text, sizeof(text)) || strncmp(text, "sockets: used ", 14))
        return 0;
    int64_t n = (int64_t)field(text + 14, 0);
    if (slurp(AT_FDCWD, "/proc/sys/net/core/wmem_default", text, sizeof(text)))
        each = (int64_t)field(text, 0);
    return n * each;
}

/* Files are memory too, even empty ones. */
static int64_t count_files(pid_t init, const char *folder)
{
    char path[64];
    struct statfs fs;
    snprintf(path, sizeof(path), "/proc/%d/root/%s", (int)init, folder);
    return statfs(path, &fs) == 0 ? (int64_t)(fs.f_files - fs.f_ffree) : 0;
}

bool mint_sandbox_usage(pid_t init, bool exact, struct mint_usage *u)
{
    char path[64];
    *u = (struct mint_usage){0};
    snprintf(path, sizeof(path), "/proc/%d/root/proc", (int)init);
    DIR *d = opendir(path);
    if (!d)
        return false;
    /* We are not in the box, so its /proc has no self for us. */
    char self[32];
    if (readlinkat(dirfd(d), "self", self, sizeof(self)) > 0) {
        closedir(d);
        return false;
    }
    bool any = false;
    for (struct dirent *e; (e = readdir(d));) {
        if (e->d_name[0] >= '0' && e->d_name[0] <= '9') {
            add_process(dirfd(d), e->d_name, exact, u);
            any = true;
        }
    }
    closedir(d);
    /* Init, which the box cannot see, has the times of those that were left to it. */
    snprintf(path, sizeof(path), "/proc/%d", (int)init);
    add_process(AT_FDCWD, path, exact, u);
    u->bytes += in_sockets(init);
    u->files = count_files(init, "tmp") + count_files(init, "dev/shm");
    return any;
}

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

/* Proportional set size: what is shared is divided by its owners. */
static int64_t pss(int dir)
{
    char text[2048];
    if (!slurp(dir, "smaps_rollup", text, sizeof(text)))
        return 0;
    const char *at = strstr(text, "\nPss:");
    if (!at)
        return 0;
    at += strlen("\nPss:");
    at += strspn(at, " ");
    return (int64_t)field(at, 0) * 1024;
}

static void add_process(int proc, const char *pid, bool exact, struct mint_usage *u)
{
    char text[1024];
    int dir = openat(proc, pid, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (dir < 0)
        return;
    if (exact)
        u->bytes += pss(dir);
    else if (slurp(dir, "statm", text, sizeof(text)))
        u->bytes += (int64_t)field(text, 1) * sysconf(_SC_PAGESIZE);
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
    u->files = count_files(init, "tmp") + count_files(init, "dev/shm");
    return any;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A control group (version 2) for each box: the kernel then holds the limits of all its processes
 * together, and counts the time of those too that nobody waits for.
 *
 * Groups are made only where a part of the tree was handed to us: below the group above ours, if
 * systemd's mark says that it is delegated, or below our own. A group that passes controllers on
 * may hold no processes (the root may), so in the second case we move down into a group of our
 * own, if nobody else is there to be moved.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <mntent.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "fs.h"
#include "mem.h"
#include "sandbox_impl.h"

enum { SELF = 0 }; /* the name of the group that we move into; boxes count from 1 */

struct mint_cgroup {
    int base; /* the folder whose children are ours */
    char *path;
    bool moved, cpu; /* we are in SELF; the processor's controller is there too */
    atomic_uint boxes;
};

/* Beside what the programs may have (mint_limits.memory): what /tmp and /dev/shm hold, and what the
 * kernel and bubblewrap need for them. */
static int64_t memory_max(const struct mint_limits *l)
{
    return l->memory + 2 * l->file_size + MINT_BOX_SHM + ((int64_t)32 << 20);
}

static size_t get(int dir, const char *file, char *text, size_t cap)
{
    int fd = openat(dir, file, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, text, cap - 1);
    if (fd >= 0)
        close(fd);
    text[n > 0 ? n : 0] = '\0';
    return n > 0 ? (size_t)n : 0;
}

/* The kernel has all these files already; a folder of a test gets them. */
static int put(int dir, const char *file, const char *text)
{
    int fd = openat(dir, file, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (fd < 0)
        return -1;
    size_t n = strlen(text);
    int rc = write(fd, text, n) == (ssize_t)n ? 0 : -1, error = errno;
    close(fd);
    errno = error;
    return rc;
}

static int put_number(int dir, const char *file, int64_t v)
{
    char text[32];
    snprintf(text, sizeof(text), "%lld", (long long)v);
    return put(dir, file, text);
}

/* The number behind KEY in lines of "KEY NUMBER". */
static uint64_t count_of(int dir, const char *file, const char *key)
{
    char text[4096], line[64];
    get(dir, file, text, sizeof(text));
    snprintf(line, sizeof(line), "%s ", key);
    for (const char *at = text; *at; at += strcspn(at, "\n"), at += *at == '\n') {
        if (!strncmp(at, line, strlen(line)))
            return strtoull(at + strlen(line), NULL, 10);
    }
    return 0;
}

static void name_of(char *text, size_t cap, unsigned number)
{
    snprintf(text, cap, "mint.%d.%u", (int)getpid(), number);
}

/* --- where */

static bool has_word(const char *text, const char *word)
{
    size_t n = strlen(word);
    for (const char *at = text; (at = strstr(at, word)); at += n) {
        if ((at == text || at[-1] == ' ') && strchr(" \n", at[n]))
            return true;
    }
    return false;
}

/* Folders of processes that were killed; one that is in use cannot be removed. */
static void sweep(int base)
{
    int fd = openat(base, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *d = fd < 0 ? NULL : fdopendir(fd);
    int pid, n;
    unsigned number;
    for (struct dirent *e; d && (e = readdir(d));) {
        if (sscanf(e->d_name, "mint.%d.%u%n", &pid, &number, &n) == 2 && !e->d_name[n] && pid > 0 &&
            kill(pid, 0) < 0 && errno == ESRCH)
            unlinkat(base, e->d_name, AT_REMOVEDIR);
    }
    if (d)
        closedir(d);
}

/* Whether children of base can have controllers: tries all that a box will need. */
static bool usable(struct mint_cgroup *c)
{
    const struct mint_limits l = {.memory = 1 << 20, .processes = 1};
    char text[512];
    unsigned number;
    get(c->base, "cgroup.controllers", text, sizeof(text));
    if (!has_word(text, "memory") || !has_word(text, "pids")) {
        errno = ENOTSUP;
        return false;
    }
    if (faccessat(c->base, "cgroup.procs", W_OK, AT_EACCESS) < 0 ||
        put(c->base, "cgroup.subtree_control", "+memory +pids") < 0)
        return false;
    c->cpu = has_word(text, "cpu") && put(c->base, "cgroup.subtree_control", "+cpu") == 0;
    sweep(c->base);
    int group = mint_cgroup_box(c, &l, &number);
    if (group < 0)
        return false;
    mint_cgroup_leave(c, group, number);
    return true;
}

static bool open_base(struct mint_cgroup *c, const char *root, const char *own, size_t own_n)
{
    if (c->base >= 0)
        close(c->base);
    free(c->path);
    c->path = mint_xasprintf("%s%.*s", root, (int)own_n, own);
    c->base = open(c->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return c->base >= 0;
}

static bool delegated(const struct mint_cgroup *c)
{
    static const char *const marks[] = {"user.delegate", "trusted.delegate"};
    char value[2];
    for (size_t i = 0; i < MINT_ARRAY_LEN(marks); i++) {
        if (fgetxattr(c->base, marks[i], value, sizeof(value)) == 1 && value[0] == '1')
            return true;
    }
    return false;
}

static bool alone(const struct mint_cgroup *c)
{
    char text[64], own[32];
    snprintf(own, sizeof(own), "%d\n", (int)getpid());
    get(c->base, "cgroup.procs", text, sizeof(text));
    return !strcmp(text, own);
}

static void move_up(struct mint_cgroup *c)
{
    char name[64];
    name_of(name, sizeof(name), SELF);
    put(c->base, "cgroup.subtree_control", c->cpu ? "-memory -pids -cpu" : "-memory -pids");
    put_number(c->base, "cgroup.procs", getpid());
    unlinkat(c->base, name, AT_REMOVEDIR);
    c->moved = false;
}

static bool move_down(struct mint_cgroup *c)
{
    char name[64];
    name_of(name, sizeof(name), SELF);
    if (mkdirat(c->base, name, 0755) < 0)
        return false;
    int group = openat(c->base, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    c->moved = group >= 0 && put_number(group, "cgroup.procs", getpid()) == 0;
    if (group >= 0)
        close(group);
    if (c->moved && usable(c))
        return true;
    int error = errno;
    move_up(c);
    errno = error;
    return false;
}

/* Our group, "/" for the root; malloc'ed, NULL if there is none. */
static char *own_group(void)
{
    char *text, *own = NULL;
    size_t n;
    if (mint_fs_read_file("/proc/self/cgroup", 1 << 16, &text, &n, NULL) < 0)
        return NULL;
    for (const char *at = text; *at && !own; at += strcspn(at, "\n"), at += *at == '\n') {
        if (!strncmp(at, "0::/", 4))
            own = mint_xstrndup(at + 3, strcspn(at + 3, "\n"));
    }
    free(text);
    return own;
}

static char *mount_point(void)
{
    FILE *f = setmntent("/proc/self/mounts", "re");
    struct mntent m;
    char text[4096], *root = NULL;
    while (f && !root && getmntent_r(f, &m, text, sizeof(text))) {
        if (!strcmp(m.mnt_type, "cgroup2"))
            root = mint_xstrdup(m.mnt_dir);
    }
    if (f)
        endmntent(f);
    return root;
}

struct mint_cgroup *mint_cgroup_open_at(const char *root, const char *own, struct mint_buf *why)
{
    struct mint_cgroup *c = mint_xcalloc(1, sizeof(*c));
    const char *last = strrchr(own, '/');
    c->base = -1;
    if (last && last[1] && open_base(c, root, own, (size_t)(last - own)) && delegated(c) &&
        usable(c))
        return c;
    if (open_base(c, root, own, strlen(own))) {
        if (usable(c))
            return c;
        if (errno == EBUSY && alone(c) && move_down(c))
            return c;
    }
    mint_buf_adds(why, errno == ENOTSUP ? "memory and pids are not handed down to this group"
                       : errno == EBUSY ? "other processes are in this group"
                                        : strerror(errno));
    mint_buf_addf(why, " (%s)", c->path);
    mint_cgroup_close(c);
    return NULL;
}

struct mint_cgroup *mint_cgroup_open(struct mint_buf *why)
{
    char *root = mount_point(), *own = own_group();
    struct mint_cgroup *c = NULL;
    if (root && own)
        c = mint_cgroup_open_at(root, own, why);
    else
        mint_buf_adds(why, "this system has no control groups of version 2");
    free(root);
    free(own);
    return c;
}

const char *mint_cgroup_path(const struct mint_cgroup *c)
{
    return c->path;
}

void mint_cgroup_close(struct mint_cgroup *c)
{
    if (!c)
        return;
    if (c->moved)
        move_up(c);
    if (c->base >= 0)
        close(c->base);
    free(c->path);
    free(c);
}

/* --- one box */

int mint_cgroup_box(struct mint_cgroup *c, const struct mint_limits *l, unsigned *number)
{
    char name[64];
    *number = atomic_fetch_add(&c->boxes, 1) + 1;
    name_of(name, sizeof(name), *number);
    if (mkdirat(c->base, name, 0755) < 0)
        return -1;
    int group = openat(c->base, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    /* bubblewrap and the first process of the box count too */
    if (group < 0 || put_number(group, "memory.max", memory_max(l)) < 0 ||
        put(group, "memory.oom.group", "1") < 0 ||
        put_number(group, "pids.max", l->processes + 2) < 0 ||
        (c->cpu && put(group, "cpu.max", "100000 100000") < 0)) {
        int error = errno;
        mint_cgroup_leave(c, group, *number);
        errno = error;
        return -1;
    }
    put(group, "memory.swap.max", "0"); /* not there on a kernel without swap */
    return group;
}

void mint_cgroup_enter(int group)
{
    int fd = openat(group, "cgroup.procs", O_WRONLY | O_CLOEXEC);
    if (fd >= 0 && write(fd, "0", 1) == 1)
        close(fd);
}

void mint_cgroup_kill(int group)
{
    if (group >= 0)
        put(group, "cgroup.kill", "1");
}

double mint_cgroup_cpu(int group)
{
    return group < 0 ? 0 : 1e-6 * (double)count_of(group, "cpu.stat", "usage_usec");
}

enum mint_cgroup_oom mint_cgroup_oom(int group)
{
    if (group < 0 || !count_of(group, "memory.events", "oom_kill"))
        return MINT_CGROUP_NO_OOM;
    return count_of(group, "memory.events", "oom") ? MINT_CGROUP_OWN_OOM : MINT_CGROUP_HOST_OOM;
}

void mint_cgroup_leave(struct mint_cgroup *c, int group, unsigned number)
{
    char name[64];
    name_of(name, sizeof(name), number);
    if (group >= 0)
        close(group);
    /* The last of its processes may still be on its way out. */
    for (int i = 0; unlinkat(c->base, name, AT_REMOVEDIR) < 0 && errno == EBUSY && i < 200; i++)
        usleep(1000);
}

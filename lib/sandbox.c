/* SPDX-License-Identifier: Apache-2.0 */
/* What bubblewrap is told, and whether it works here. Boxes: sandbox_box.c. */
#include "sandbox.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fs.h"
#include "mem.h"
#include "sandbox_impl.h"

/* Where programs are looked for, outside and inside. */
static const char *const bins[] = {"/usr/local/bin", "/usr/bin", "/bin"};

static char *find(const char *program)
{
    for (size_t i = 0; i < MINT_ARRAY_LEN(bins); i++) {
        char *path = mint_xasprintf("%s/%s", bins[i], program);
        if (access(path, X_OK) == 0)
            return path;
        free(path);
    }
    return NULL;
}

char *mint_sandbox_find(const struct mint_sandbox *s, const char *program)
{
    (void)s; /* the folders are the same on both sides */
    return find(program);
}

static void arg(struct mint_sandbox *s, const char *text)
{
    if (s->nargs == s->cap) {
        s->cap = s->cap ? 2 * s->cap : 64;
        s->args = mint_xreallocarray(s->args, s->cap, sizeof(*s->args));
    }
    s->args[s->nargs++] = mint_xstrdup(text);
}

/* args(s, "--ro-bind", "/usr", "/usr", NULL) */
static void args(struct mint_sandbox *s, ...)
{
    va_list ap;
    va_start(ap, s);
    for (const char *text; (text = va_arg(ap, const char *));)
        arg(s, text);
    va_end(ap);
}

/* /bin and the like: links into /usr on a merged system, folders of their own on others. */
static void system_folders(struct mint_sandbox *s)
{
    static const char *const top[] = {"/bin", "/sbin", "/lib", "/lib64", "/lib32", "/libx32"};
    args(s, "--ro-bind", "/usr", "/usr", NULL);
    for (size_t i = 0; i < MINT_ARRAY_LEN(top); i++) {
        char target[256];
        struct stat st;
        ssize_t n = readlink(top[i], target, sizeof(target) - 1);
        if (n > 0) {
            target[n] = '\0';
            args(s, "--symlink", target, top[i], NULL);
        } else if (stat(top[i], &st) == 0 && S_ISDIR(st.st_mode)) {
            args(s, "--ro-bind", top[i], top[i], NULL);
        }
    }
    args(s, "--ro-bind-try", "/etc/alternatives", "/etc/alternatives", NULL);
    args(s, "--ro-bind-try", "/etc/ld.so.cache", "/etc/ld.so.cache", NULL);
}

/* A /dev with nothing that has a state, in place of bubblewrap's with terminals. */
static void devices(struct mint_sandbox *s)
{
    static const char *const nodes[] = {"/dev/null", "/dev/full", "/dev/random", "/dev/urandom"};
    args(s, "--perms", "0755", "--size", "65536", "--tmpfs", "/dev", NULL);
    for (size_t i = 0; i < MINT_ARRAY_LEN(nodes); i++)
        args(s, "--dev-bind", nodes[i], nodes[i], NULL);
    /* reads as zeros too, and cannot be mapped: that would be memory that no process shows */
    args(s, "--dev-bind", "/dev/full", "/dev/zero", NULL);
    args(s, "--symlink", "/proc/self/fd", "/dev/fd", NULL);
    args(s, "--symlink", "/proc/self/fd/0", "/dev/stdin", NULL);
    args(s, "--symlink", "/proc/self/fd/1", "/dev/stdout", NULL);
    args(s, "--symlink", "/proc/self/fd/2", "/dev/stderr", NULL);
    char shm[16];
    snprintf(shm, sizeof(shm), "%d", MINT_BOX_SHM);
    args(s, "--perms", "1777", "--size", shm, "--tmpfs", "/dev/shm", NULL);
    args(s, "--remount-ro", "/dev", NULL);
}

static void make_args(struct mint_sandbox *s, const struct mint_sandbox_opts *o)
{
    args(s, s->bwrap, "--unshare-user", "--unshare-ipc", "--unshare-pid", "--unshare-net",
         "--unshare-uts", "--unshare-cgroup-try", "--die-with-parent", "--new-session", NULL);
    args(s, "--hostname", "sandbox", "--uid", "1000", "--gid", "1000", NULL);
    system_folders(s);
    for (size_t i = 0; i < o->nreadonly; i++)
        args(s, "--ro-bind", o->readonly[i], o->readonly[i], NULL);
    if (s->proc) {
        args(s, "--proc", "/proc", NULL);
        /* Nobody may look into the first process, or write into its memory (/proc/1/mem): it is
         * bubblewrap, and has no filter. */
        args(s, "--perms", "0000", "--size", "4096", "--tmpfs", "/proc/1", NULL);
        args(s, "--remount-ro", "/proc/1", NULL);
    }
    devices(s);
}

static void drop_args(struct mint_sandbox *s)
{
    for (size_t i = 0; i < s->nargs; i++)
        free(s->args[i]);
    s->nargs = 0;
}

/* An empty box: 0 works, 1 not (said in why), -1. */
static int probe(struct mint_sandbox *s, struct mint_buf *why, struct mint_err *err)
{
    char *program = find("true");
    if (!program)
        return mint_fail(err, MINT_EIO, "there is no program 'true' here");
    const char *const argv[] = {program, NULL};
    struct mint_box_spec spec = {.argv = argv,
                                 .limits = {.wall = 20,
                                            .cpu = 10,
                                            .memory = (int64_t)1 << 29,
                                            .processes = 16,
                                            .file_size = 1 << 20,
                                            .output = 1 << 10,
                                            .address_space = true}};
    struct mint_box box = {0};
    int rc = mint_box_start(s, &spec, &box, err);
    if (rc == 0) {
        mint_box_wait(&box);
        rc = box.end == MINT_BOX_EXITED && box.status == 0 ? 0 : 1;
        size_t n = box.err_head.len;
        while (n && box.err_head.data[n - 1] == '\n')
            n--;
        mint_buf_add(why, box.err_head.data, n);
        if (rc && !n)
            mint_buf_adds(why, box.end == MINT_BOX_EXITED ? "it ended with a wrong status"
                                                          : "it did not end in time");
    }
    mint_box_release(&box);
    free(program);
    return rc;
}

/* The usual reasons, and what helps. */
static const char *advice(const char *why)
{
    static const struct {
        const char *part, *help;
    } known[] = {
        {"uid map", "unprivileged user namespaces are restricted here"},
        {"ermission", "unprivileged user namespaces are restricted here"},
        {"not permitted", "unprivileged user namespaces are restricted here"},
        {"/max_", "the limit of user namespaces is reached"},
        {"Unknown option", "this bubblewrap is too old, 0.8 is needed"},
    };
    for (size_t i = 0; i < MINT_ARRAY_LEN(known); i++) {
        if (strstr(why, known[i].part))
            return known[i].help;
    }
    return "see what it says";
}

static int check(struct mint_sandbox *s, const struct mint_sandbox_opts *o, struct mint_err *err)
{
    struct mint_buf why = MINT_BUF_INIT;
    int rc = probe(s, &why, err);
    if (rc == 1) {
        /* In some containers a new /proc may not be mounted; one can do without. */
        struct mint_buf again = MINT_BUF_INIT;
        drop_args(s);
        s->proc = false;
        make_args(s, o);
        rc = probe(s, &again, err);
        mint_buf_release(&again);
    }
    if (rc == 1)
        rc = strstr(why.data, "Can't find source path")
                 ? mint_fail(err, MINT_EIO,
                             "a folder of --read-only is not there, or not for the user nobody, "
                             "who runs the programs where mint-score runs as root: %.300s",
                             why.data)
                 : mint_fail(
                       err, MINT_EIO,
                       "the sandbox does not work here: %.300s (%s); allow it with 'sysctl -w "
                       "kernel.unprivileged_userns_clone=1' or 'sysctl -w "
                       "kernel.apparmor_restrict_unprivileged_userns=0', in a container with "
                       "--security-opt seccomp=unconfined; or run without isolation, --sandbox "
                       "none, what you trust",
                       why.data, advice(why.data));
    mint_buf_release(&why);
    return rc;
}

/* Each box has a dozen descriptors here, and there may be many. */
static void raise_descriptors(void)
{
    struct rlimit r;
    if (getrlimit(RLIMIT_NOFILE, &r) == 0 && r.rlim_cur < MINT_MIN(r.rlim_max, 65536)) {
        r.rlim_cur = MINT_MIN(r.rlim_max, 65536);
        setrlimit(RLIMIT_NOFILE, &r);
    }
}

/* Root of a user namespace that knows no other users is no root to the kernel, and has none to turn
 * into. */
static bool has_user(unsigned long uid)
{
    char *text, *at, *end;
    size_t n;
    bool found = false;
    if (mint_fs_read_file("/proc/self/uid_map", 1 << 16, &text, &n, NULL) < 0)
        return false;
    for (at = text; !found; at = end) {
        unsigned long from = strtoul(at, &end, 10);
        if (end == at)
            break;
        strtoul(end, &end, 10);
        unsigned long count = strtoul(end, &end, 10);
        found = uid >= from && uid - from < count;
    }
    free(text);
    return found;
}

int mint_sandbox_open(struct mint_sandbox **out, const struct mint_sandbox_opts *o,
                      struct mint_err *err)
{
    struct mint_sandbox *s = mint_xcalloc(1, sizeof(*s));
    s->none = o->none;
    s->cgroup = o->none ? NULL : o->cgroup;
    s->drop_root = geteuid() == 0 && !o->none && has_user(MINT_BOX_UID);
    s->proc = true;
    raise_descriptors();
    int rc = 0;
    if (!s->none) {
        /* The first process of a box whose parent ends before it comes to us, not to a process 1
         * that may take its time. */
        prctl(PR_SET_CHILD_SUBREAPER, 1);
        s->bwrap = find("bwrap");
        if (!s->bwrap)
            rc = mint_fail(err, MINT_EIO,
                           "bubblewrap (bwrap) is not installed, and programs run in its sandbox: "
                           "install the package bubblewrap; or run without isolation, --sandbox "
                           "none, what you trust");
        if (rc == 0)
            rc = mint_sandbox_filter(&s->filter, err);
        if (rc == 0) {
            make_args(s, o);
            rc = check(s, o, err);
        }
    }
    if (rc < 0) {
        mint_sandbox_close(s);
        s = NULL;
    }
    *out = s;
    return rc;
}

void mint_sandbox_close(struct mint_sandbox *s)
{
    if (!s)
        return;
    drop_args(s);
    free(s->args);
    free(s->bwrap);
    mint_buf_release(&s->filter);
    free(s);
}

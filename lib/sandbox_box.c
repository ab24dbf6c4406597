/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The life of a box.
 *
 * Our child is bubblewrap, which makes the namespaces and has a child of its own: the first process
 * of the box (init). bubblewrap tells init's number and holds it back until we have set what can
 * only be set from outside (the number of processes). All processes of the box are gone when init
 * is, and the kernel says so through its pidfd. Pipes are never read to their end: a process of the
 * box may have given them to another.
 */
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "mem.h"
#include "sandbox_impl.h"

enum { SETUP, HELD, RUN, ENDING };
enum { SLICE_MS = 20, CHUNK = 65536, FILES_MAX = 20000, FDS_MAX = 8 + MINT_BOX_FILES };
static const double setup_seconds = 30, grave_seconds = 20, look_seconds = 0.02;
static const uid_t unprivileged = MINT_BOX_UID;

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* --- the child, until it becomes another program */

struct launch {
    char **argv;
    int fds[FDS_MAX]; /* ours, by the child's number */
    int nfds;
    bool drop_root;
    const char *folder; /* NULL: bubblewrap sees to it */
    int group;
    struct mint_limits limits;
    pid_t parent;
};

static const char *const environment[] = {
    "PATH=/usr/local/bin:/usr/bin:/bin",
    "HOME=/tmp",
    "LANG=C.UTF-8",
    "PYTHONHASHSEED=0", /* the same order of a set in each run */
    NULL,
};

static void limit(int what, uint64_t soft, uint64_t hard)
{
    struct rlimit r = {.rlim_cur = (rlim_t)soft, .rlim_max = (rlim_t)hard}, old;
    if (getrlimit((__rlimit_resource_t)what, &old) == 0 && old.rlim_max < r.rlim_max) {
        r.rlim_max = old.rlim_max;
        r.rlim_cur = MINT_MIN(r.rlim_cur, r.rlim_max);
    }
    setrlimit((__rlimit_resource_t)what, &r);
}

static void limit_child(const struct mint_limits *l)
{
    uint64_t memory = (uint64_t)l->memory, file = (uint64_t)l->file_size;
    limit(RLIMIT_CORE, 1, 1); /* 0 stops no program of the host that takes core files */
    limit(RLIMIT_RTPRIO, 0, 0);
    limit(RLIMIT_NICE, 0, 0);
    limit(RLIMIT_NOFILE, 256, 256);
    limit(RLIMIT_MEMLOCK, 0, 0);
    limit(RLIMIT_MSGQUEUE, 0, 0);
    limit(RLIMIT_SIGPENDING, 512, 512);
    limit(RLIMIT_STACK, 32 << 20, 32 << 20);
    limit(RLIMIT_FSIZE, file, file);
    if (l->address_space)
        limit(RLIMIT_AS, memory, memory);
    if (l->cpu < 1e6)
        limit(RLIMIT_CPU, (uint64_t)l->cpu + 1, (uint64_t)l->cpu + 2);
}

/* Only async-signal-safe calls: other threads may have held any lock. */
static void launch_child(const struct launch *l)
{
    static const int reset[] = {SIGINT, SIGTERM, SIGHUP, SIGPIPE, SIGQUIT, SIGCHLD};
    enum { ASIDE = 64 };
    sigset_t none;
    for (size_t i = 0; i < MINT_ARRAY_LEN(reset); i++)
        signal(reset[i], SIG_DFL);
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    int aside[FDS_MAX];
    for (int i = 0; i < l->nfds; i++) {
        if ((aside[i] = fcntl(l->fds[i], F_DUPFD_CLOEXEC, ASIDE)) < 0)
            _exit(125);
    }
    for (int i = 0; i < l->nfds; i++) {
        if (dup2(aside[i], i) < 0)
            _exit(125);
    }
    mint_cgroup_enter(l->group); /* before root is given up */
    if (syscall(SYS_close_range, l->nfds, ~0U, 0) < 0) {
        for (int i = l->nfds; i < 65536; i++)
            close(i);
    }
    limit_child(&l->limits);
    /* Where memory ends, the kernel takes it from here first. */
    int fd = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);
    if (fd >= 0 && write(fd, "1000", 4) == 4)
        close(fd);
    personality(ADDR_NO_RANDOMIZE); /* addresses in messages are the same in each run */
    if (l->drop_root) {
        if (syscall(SYS_setgroups, 0, NULL) < 0 ||
            syscall(SYS_setresgid, unprivileged, unprivileged, unprivileged) < 0 ||
            syscall(SYS_setresuid, unprivileged, unprivileged, unprivileged) < 0)
            _exit(125);
    }
    /* after the change of user, which forgets it */
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != l->parent)
        _exit(125);
    if (l->folder) {
        setsid();
        if (chdir(l->folder) < 0)
            _exit(125);
    }
    execve(l->argv[0], l->argv, (char *const *)(uintptr_t)environment);
    static const char said[] = "the program cannot be started\n";
    if (write(2, said, sizeof(said) - 1) < 0)
        _exit(126);
    _exit(127);
}

/* --- making one */

/* A file in memory that can be read and no more. */
static int memory_file(const void *data, size_t n)
{
    int fd = memfd_create("file", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fd < 0)
        return -1;
    for (size_t at = 0; at < n;) {
        ssize_t k = write(fd, (const char *)data + at, n - at);
        if (k < 0 && errno != EINTR) {
            close(fd);
            return -1;
        }
        at += k > 0 ? (size_t)k : 0;
    }
    if (fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_GROW | F_SEAL_SHRINK | F_SEAL_SEAL) < 0 ||
        lseek(fd, 0, SEEK_SET) < 0) {
        close(fd);
        return -1;
    }
    return fd;
}

/* One end for us, the other at l->fds[at]. */
static int pipe_for(struct launch *l, int at, bool ours_reads, int *ours)
{
    int p[2];
    if (pipe2(p, O_CLOEXEC) < 0)
        return -1;
    *ours = p[ours_reads ? 0 : 1];
    l->fds[at] = p[ours_reads ? 1 : 0];
    fcntl(*ours, F_SETFL, O_NONBLOCK);
    return 0;
}

static int open_fds(const struct mint_sandbox *s, const struct mint_box_spec *spec,
                    struct mint_box *box, struct launch *l)
{
    for (int i = 0; i < FDS_MAX; i++)
        l->fds[i] = -1;
    l->nfds = 3;
    if (spec->talk)
        MINT_TRY(pipe_for(l, 0, false, &box->in_fd));
    else if ((l->fds[0] = memory_file(spec->input, spec->input_n)) < 0)
        return -1;
    MINT_TRY(pipe_for(l, 1, true, &box->out_fd));
    MINT_TRY(pipe_for(l, 2, true, &box->err_fd));
    if (s->none)
        return 0;
    l->nfds = MINT_BOX_FD_FILE;
    MINT_TRY(pipe_for(l, MINT_BOX_FD_STATUS, true, &box->status_fd));
    MINT_TRY(pipe_for(l, MINT_BOX_FD_GO, false, &box->go_fd));
    if ((l->fds[MINT_BOX_FD_FILTER] = memory_file(s->filter.data, s->filter.len)) < 0)
        return -1;
    for (size_t i = 0; i < spec->nfiles; i++, l->nfds++) {
        if ((l->fds[l->nfds] = memory_file(spec->files[i].data, spec->files[i].n)) < 0)
            return -1;
    }
    return 0;
}

static void put(char **v, size_t *n, struct mint_arena *a, const char *text)
{
    v[(*n)++] = mint_arena_strndup(a, text, strlen(text));
}

static void put_number(char **v, size_t *n, struct mint_arena *a, const char *opt, int64_t x)
{
    char text[32];
    snprintf(text, sizeof(text), "%lld", (long long)x);
    put(v, n, a, opt);
    put(v, n, a, text);
}

static char **make_argv(const struct mint_sandbox *s, const struct mint_box_spec *spec,
                        struct mint_arena *a)
{
    enum { OWN = 32, PER_FILE = 5 };
    size_t n = 0, words = 0;
    while (spec->argv[words])
        words++;
    char **v =
        mint_arena_alloc(a, (s->nargs + OWN + PER_FILE * spec->nfiles + words + 1) * sizeof(*v));
    for (size_t i = 0; i < s->nargs; i++)
        v[n++] = s->args[i];
    if (!s->none) {
        put(v, &n, a, "--perms");
        put(v, &n, a, "0755");
        put_number(v, &n, a, "--size", 2 * spec->limits.file_size);
        put(v, &n, a, "--tmpfs");
        put(v, &n, a, "/tmp");
        for (size_t i = 0; i < spec->nfiles; i++) {
            put(v, &n, a, "--perms");
            put(v, &n, a, spec->files[i].executable ? "0755" : "0644");
            put_number(v, &n, a, "--file", MINT_BOX_FD_FILE + (int64_t)i);
            put(v, &n, a, "/tmp/");
            v[n - 1] = mint_arena_alloc(a, strlen(spec->files[i].name) + 6);
            snprintf(v[n - 1], strlen(spec->files[i].name) + 6, "/tmp/%s", spec->files[i].name);
        }
        put(v, &n, a, "--remount-ro");
        put(v, &n, a, "/");
        put(v, &n, a, "--chdir");
        put(v, &n, a, "/tmp");
        put_number(v, &n, a, "--json-status-fd", MINT_BOX_FD_STATUS);
        put_number(v, &n, a, "--block-fd", MINT_BOX_FD_GO);
        put_number(v, &n, a, "--seccomp", MINT_BOX_FD_FILTER);
        put(v, &n, a, "--");
    }
    for (size_t i = 0; i < words; i++)
        put(v, &n, a, spec->argv[i]);
    v[n] = NULL;
    return v;
}

static int open_pidfd(pid_t pid)
{
    return (int)syscall(SYS_pidfd_open, pid, 0);
}

int mint_box_start(const struct mint_sandbox *s, const struct mint_box_spec *spec,
                   struct mint_box *box, struct mint_err *err)
{
    struct mint_arena arena = MINT_ARENA_INIT;
    struct launch l = {.drop_root = s->drop_root, .limits = spec->limits, .parent = getpid()};
    *box = (struct mint_box){.sandbox = s,
                             .limits = spec->limits,
                             .stage = s->none ? RUN : SETUP,
                             .pid_fd = -1,
                             .init_fd = -1,
                             .status_fd = -1,
                             .go_fd = -1,
                             .in_fd = -1,
                             .out_fd = -1,
                             .err_fd = -1,
                             .group = -1,
                             .started = now(),
                             .status = -1};
    box->looked = box->started;
    int rc = 0;
    if (s->none && !(box->folder = mint_sandbox_folder(spec, err)))
        return -1;
    l.folder = box->folder;
    if (s->cgroup) /* if it fails, without */
        box->group = mint_cgroup_box(s->cgroup, &spec->limits, &box->group_number);
    l.group = box->group;
    if (open_fds(s, spec, box, &l) < 0)
        rc = mint_fail_errno(err, "cannot make the pipes and files of a sandbox");
    if (rc == 0) {
        l.argv = make_argv(s, spec, &arena);
        pid_t pid = fork();
        if (pid == 0)
            launch_child(&l);
        if (pid < 0)
            rc = mint_fail_errno(err, "cannot start a process");
        else
            box->pid = pid;
    }
    for (int i = 0; i < FDS_MAX; i++) {
        if (l.fds[i] >= 0)
            close(l.fds[i]);
    }
    mint_arena_release(&arena);
    if (rc == 0 && (box->pid_fd = open_pidfd(box->pid)) < 0)
        rc = mint_fail_errno(err, "cannot watch a process (Linux 5.14 is needed)");
    if (rc < 0)
        mint_box_release(box);
    return rc;
}

/* --- moving bytes */

static void shut(int *fd)
{
    if (*fd >= 0)
        close(*fd);
    *fd = -1;
}

static void pull_out(struct mint_box *b)
{
    while (b->out_fd >= 0 && b->why != MINT_BOX_OUTPUT) {
        mint_buf_reserve(&b->out, CHUNK);
        ssize_t k = read(b->out_fd, b->out.data + b->out.len, CHUNK);
        if (k < 0 && (errno == EAGAIN || errno == EINTR))
            return;
        if (k <= 0) {
            shut(&b->out_fd);
            return;
        }
        b->received += (size_t)k;
        b->out.len += (size_t)k;
        if (b->received > (uint64_t)b->limits.output) {
            b->out.len -= MINT_MIN(b->out.len, b->received - (size_t)b->limits.output);
            b->why = b->why ? b->why : MINT_BOX_OUTPUT;
            return;
        }
    }
}

/* stderr is drained whatever comes, so that nobody waits for us; little of it is kept. */
static void pull_err(struct mint_box *b)
{
    char text[CHUNK];
    for (int turns = 0; b->err_fd >= 0 && turns < 16; turns++) {
        ssize_t k = read(b->err_fd, text, sizeof(text));
        if (k < 0 && (errno == EAGAIN || errno == EINTR))
            return;
        if (k <= 0) {
            shut(&b->err_fd);
            return;
        }
        size_t n = (size_t)k, head = MINT_MIN(n, MINT_BOX_ERR_KEPT - b->err_head.len);
        mint_buf_add(&b->err_head, text, head);
        size_t rest = n - head, keep = MINT_MIN(rest, MINT_BOX_ERR_KEPT);
        mint_buf_add(&b->err_tail, text + n - keep, keep);
        if (b->err_tail.len > MINT_BOX_ERR_KEPT) {
            size_t cut = b->err_tail.len - MINT_BOX_ERR_KEPT;
            memmove(b->err_tail.data, b->err_tail.data + cut, MINT_BOX_ERR_KEPT);
            b->err_tail.len = MINT_BOX_ERR_KEPT;
        }
    }
}

static void push_in(struct mint_box *b)
{
    while (b->in_fd >= 0 && b->sent < b->to_send.len) {
        ssize_t k = write(b->in_fd, b->to_send.data + b->sent, b->to_send.len - b->sent);
        if (k < 0) {
            if (errno != EAGAIN && errno != EINTR)
                shut(&b->in_fd);
            return;
        }
        b->sent += (size_t)k;
    }
    b->sent = 0;
    mint_buf_reset(&b->to_send);
}

void mint_box_send(struct mint_box *b, const void *p, size_t n)
{
    mint_buf_add(&b->to_send, p, n);
    push_in(b);
}

void mint_box_forgive(struct mint_box *b)
{
    b->received = 0;
}

/* --- its end */

/* The number behind KEY in what bubblewrap said, -1 if it is not there. */
static int64_t said(const struct mint_box *b, const char *key)
{
    const char *at = b->said.data ? strstr(b->said.data, key) : NULL;
    if (!at)
        return -1;
    int64_t v = 0;
    at += strlen(key);
    for (at += strspn(at, "\": "); *at >= '0' && *at <= '9' && v < 1 << 30; at++)
        v = 10 * v + (*at - '0');
    return v;
}

/*
 * Limits the processes of the box (init counts, the kernel counts for each user namespace). Where
 * root's place was given up, this thread takes on the box's real user for the moment: not every
 * root may set limits of others. (The system calls themselves change one thread, unlike the C
 * library's functions.)
 */
static int limit_processes(const struct mint_box *b)
{
    uint64_t most = (uint64_t)b->limits.processes + 1;
    struct rlimit r = {.rlim_cur = most, .rlim_max = most};
    bool drop = b->sandbox->drop_root;
    if (drop && (syscall(SYS_setresgid, unprivileged, -1, -1) < 0 ||
                 syscall(SYS_setresuid, unprivileged, -1, -1) < 0))
        return -1;
    int rc = prlimit(b->init, RLIMIT_NPROC, &r, NULL), error = errno;
    if (drop && (syscall(SYS_setresuid, 0, -1, -1) < 0 || syscall(SYS_setresgid, 0, -1, -1) < 0))
        return -1;
    errno = error;
    return rc;
}

/* bubblewrap has told the number of init, which waits: now the limits, and off it goes. */
static void let_go(struct mint_box *b)
{
    int64_t pid = said(b, "\"child-pid\"");
    if (pid <= 0 || !strchr(b->said.data, '}'))
        return;
    b->init = (pid_t)pid;
    b->init_fd = open_pidfd(b->init);
    if (b->init_fd < 0 || limit_processes(b) < 0) {
        mint_buf_addf(&b->err_head, "cannot limit the number of processes: %s", strerror(errno));
        b->why = MINT_BOX_FAILED;
        return;
    }
    b->stage = HELD;
    b->started = now();
    ssize_t k = write(b->go_fd, "1", 1);
    (void)k; /* if it has died, that shows */
}

/* bubblewrap takes the byte as the last thing before it starts the program. */
static void see_start(struct mint_box *b)
{
    int left = 0;
    if (ioctl(b->go_fd, FIONREAD, &left) == 0 && left > 0)
        return;
    b->stage = RUN;
    if (b->pid > 0) /* or it is over already */
        b->started = b->looked = now();
    shut(&b->go_fd);
}

static void hear(struct mint_box *b)
{
    char text[512];
    ssize_t k;
    while (b->status_fd >= 0 && b->said.len < CHUNK) {
        if ((k = read(b->status_fd, text, sizeof(text))) <= 0) {
            if (k == 0)
                shut(&b->status_fd);
            break;
        }
        mint_buf_add(&b->said, text, (size_t)k);
    }
    if (b->stage == SETUP)
        let_go(b);
    if (b->stage == HELD)
        see_start(b);
}

static void watch(struct mint_box *b, double t)
{
    if (b->stage < RUN && t - b->started > setup_seconds) {
        mint_buf_adds(&b->err_head, "the sandbox was not set up in time");
        b->why = MINT_BOX_FAILED;
    }
    if (b->stage != RUN)
        return;
    if (t - b->started > b->limits.wall)
        b->why = MINT_BOX_WALL;
    if (b->why || b->sandbox->none || t - b->looked < look_seconds)
        return;
    b->looked = t;
    struct mint_usage u, v;
    mint_sandbox_usage(b->init, false, &u);
    u.cpu = fmax(u.cpu, mint_cgroup_cpu(b->group));
    /* Where it looks too much, shared pages may have been counted more than once; and for the
     * moment between vfork and exec, all of a process twice. */
    bool over = u.bytes > b->limits.memory && mint_sandbox_usage(b->init, true, &v) &&
                v.bytes > b->limits.memory;
    if (over && b->was_over)
        b->why = MINT_BOX_MEMORY;
    b->was_over = over;
    if (!b->why && u.cpu > b->limits.cpu)
        b->why = MINT_BOX_CPU;
    if (!b->why && u.files > FILES_MAX)
        b->why = MINT_BOX_DISK;
}

static void strike(struct mint_box *b)
{
    if (b->init_fd >= 0)
        syscall(SYS_pidfd_send_signal, b->init_fd, SIGKILL, NULL, 0);
    else if (b->pid > 0 && b->folder)
        kill(-b->pid, SIGKILL); /* its session's group */
    if (b->init_fd < 0 && b->pid > 0)
        kill(b->pid, SIGKILL);
    mint_cgroup_kill(b->group);
    if (b->stage != ENDING)
        b->killed_at = now();
    b->stage = ENDING;
}

/* Init is dead, and so all that was in the box. Its parent may have ended before it and left it to
 * us (mint_sandbox_open has asked for that), to be buried. */
static bool init_is_over(const struct mint_box *b)
{
    struct pollfd p = {.fd = b->init_fd, .events = POLLIN};
    if (b->init_fd < 0)
        return true;
    if (poll(&p, 1, 0) <= 0)
        return false;
    waitpid(b->init, NULL, WNOHANG);
    return true;
}

static enum mint_box_end see_oom(struct mint_box *b)
{
    enum mint_cgroup_oom oom = mint_cgroup_oom(b->group);
    if (oom == MINT_CGROUP_HOST_OOM)
        mint_buf_adds(&b->err_head, "the machine has no memory left for it");
    return oom == MINT_CGROUP_HOST_OOM  ? MINT_BOX_FAILED
           : oom == MINT_CGROUP_OWN_OOM ? MINT_BOX_MEMORY
                                        : MINT_BOX_RUNS;
}

static void bury(struct mint_box *b)
{
    int status;
    if (b->pid > 0 && waitpid(b->pid, &status, WNOHANG) == b->pid) {
        if (b->folder)
            kill(-b->pid, SIGKILL);
        b->pid = 0;
        b->status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
        hear(b); /* the last it said */
        strike(b);
    }
    bool late = b->stage == ENDING && now() - b->killed_at > grave_seconds;
    if (!late && (b->pid > 0 || !init_is_over(b)))
        return;
    pull_out(b);
    pull_err(b);
    b->seconds = now() - b->started;
    if (late) {
        mint_buf_adds(&b->err_head, "the processes of a sandbox do not die");
        b->why = MINT_BOX_FAILED;
    }
    if (!b->why)
        b->why = see_oom(b);
    if (!b->why && !b->sandbox->none) {
        /* Told only if the program was really started. */
        b->status = (int)said(b, "\"exit-code\"");
        b->why = b->status < 0 ? MINT_BOX_FAILED : MINT_BOX_EXITED;
    }
    if (!b->why)
        b->why = MINT_BOX_EXITED;
    if (b->why == MINT_BOX_EXITED && b->status == 128 + SIGXCPU)
        b->why = MINT_BOX_CPU;
    if (b->why == MINT_BOX_EXITED && b->status == 128 + SIGXFSZ)
        b->why = MINT_BOX_DISK;
    b->end = b->why;
}

static void serve(struct mint_box *b)
{
    if (b->end || !b->sandbox)
        return;
    hear(b);
    push_in(b);
    pull_out(b);
    pull_err(b);
    if (!b->why && b->stage != ENDING)
        watch(b, now());
    if (b->why && b->stage != ENDING)
        strike(b);
    bury(b);
}

void mint_box_step(struct mint_box *const *boxes, size_t n)
{
    struct pollfd p[MINT_BOX_MAX * 6];
    nfds_t k = 0;
    for (size_t i = 0; i < n; i++) {
        const struct mint_box *b = boxes[i];
        if (b->end || !b->sandbox)
            continue;
        int in_fd = b->sent < b->to_send.len ? b->in_fd : -1;
        int init_fd = b->stage == ENDING ? b->init_fd : -1;
        int pid_fd = b->pid > 0 ? b->pid_fd : -1;
        p[k++] = (struct pollfd){.fd = b->stage == SETUP ? b->status_fd : -1, .events = POLLIN};
        p[k++] = (struct pollfd){.fd = b->out_fd, .events = POLLIN};
        p[k++] = (struct pollfd){.fd = b->err_fd, .events = POLLIN};
        p[k++] = (struct pollfd){.fd = pid_fd, .events = POLLIN};
        p[k++] = (struct pollfd){.fd = init_fd, .events = POLLIN};
        p[k++] = (struct pollfd){.fd = in_fd, .events = POLLOUT};
    }
    poll(p, k, SLICE_MS);
    for (size_t i = 0; i < n; i++)
        serve(boxes[i]);
}

void mint_box_wait(struct mint_box *b)
{
    while (!b->end)
        mint_box_step(&b, 1);
}

void mint_box_kill(struct mint_box *b)
{
    if (!b->sandbox || b->end)
        return;
    if (!b->why)
        b->why = MINT_BOX_KILLED;
    if (b->stage != ENDING)
        strike(b);
}

void mint_box_release(struct mint_box *b)
{
    if (!b->sandbox)
        return;
    if (!b->end && (b->pid > 0 || b->init_fd >= 0)) {
        mint_box_kill(b);
        mint_box_wait(b);
    }
    shut(&b->pid_fd);
    shut(&b->init_fd);
    shut(&b->status_fd);
    shut(&b->go_fd);
    shut(&b->in_fd);
    shut(&b->out_fd);
    shut(&b->err_fd);
    if (b->group >= 0)
        mint_cgroup_leave(b->sandbox->cgroup, b->group, b->group_number);
    if (b->folder)
        mint_sandbox_remove(b->folder);
    free(b->folder);
    mint_buf_release(&b->out);
    mint_buf_release(&b->err_head);
    mint_buf_release(&b->err_tail);
    mint_buf_release(&b->said);
    mint_buf_release(&b->to_send);
    *b = (struct mint_box){0};
}

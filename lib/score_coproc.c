/* SPDX-License-Identifier: Apache-2.0 */
#include "score_coproc.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* How often a wait looks whether the program has ended while something else holds its pipes. */
enum { SLICE_MS = 50, GUARDED = 256 };

/* Process groups to kill from a signal handler: the one place where state must be global. A slot is
 * claimed by a compare-and-swap, so threads need no lock. */
static _Atomic pid_t guarded[GUARDED];
static const int guarded_signals[] = {SIGINT, SIGTERM, SIGHUP};
static struct sigaction before[MINT_ARRAY_LEN(guarded_signals)];
/* A program that starts while the signal is handled would be missed: the handler waits for those
 * that are about to get their slot, and none starts after it. */
static atomic_int starting;
static atomic_bool dying;

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void on_signal(int sig)
{
    atomic_store(&dying, true);
    while (atomic_load(&starting) > 0)
        poll(NULL, 0, 1);
    for (size_t i = 0; i < GUARDED; i++) {
        pid_t pid = atomic_load(&guarded[i]);
        if (pid > 0)
            kill(-pid, SIGKILL);
    }
    for (size_t i = 0; i < MINT_ARRAY_LEN(guarded_signals); i++) {
        if (guarded_signals[i] == sig)
            sigaction(sig, &before[i], NULL);
    }
    raise(sig); /* blocked until we return, then the former handler's turn */
}

void mint_coproc_guard_signals(void)
{
    struct sigaction act = {.sa_handler = on_signal};
    sigemptyset(&act.sa_mask);
    for (size_t i = 0; i < MINT_ARRAY_LEN(guarded_signals); i++) {
        sigaction(guarded_signals[i], NULL, &before[i]);
        if (before[i].sa_handler != SIG_IGN)
            sigaction(guarded_signals[i], &act, NULL);
    }
}

static int guard(pid_t pid)
{
    for (int i = 0; i < GUARDED; i++) {
        pid_t none = 0;
        if (atomic_compare_exchange_strong(&guarded[i], &none, pid))
            return i;
    }
    return -1;
}

void mint_coproc_init(struct mint_coproc *c, const char *command)
{
    *c = (struct mint_coproc){.command = command, .in = -1, .out = -1, .slot = -1};
}

/* In the child: only async-signal-safe calls. */
static void run_shell(const char *command, int in, int out, pid_t parent)
{
    static const int reset[] = {SIGINT, SIGTERM, SIGHUP, SIGPIPE, SIGQUIT};
    sigset_t none;
    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(125);
    for (size_t i = 0; i < MINT_ARRAY_LEN(reset); i++)
        signal(reset[i], SIG_DFL);
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    if (dup2(in, 0) < 0 || dup2(out, 1) < 0)
        _exit(125);
    execl("/bin/sh", "sh", "-c", command, (char *)NULL);
    _exit(127);
}

/* The signals stay out of this thread meanwhile, whose handler would wait for itself. */
static pid_t fork_guarded(struct mint_coproc *c, int in, int out)
{
    sigset_t guarded_set, old;
    pid_t self = getpid(), pid = -1;
    sigemptyset(&guarded_set);
    for (size_t i = 0; i < MINT_ARRAY_LEN(guarded_signals); i++)
        sigaddset(&guarded_set, guarded_signals[i]);
    pthread_sigmask(SIG_BLOCK, &guarded_set, &old);
    atomic_fetch_add(&starting, 1);
    errno = EINTR;
    if (!atomic_load(&dying))
        pid = fork();
    if (pid == 0)
        run_shell(c->command, in, out, self);
    if (pid > 0) {
        setpgid(pid, pid); /* both sides, so that neither is too late */
        c->slot = guard(pid);
    }
    int why = errno;
    atomic_fetch_sub(&starting, 1);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    errno = why;
    return pid;
}

static int start(struct mint_coproc *c, struct mint_err *err)
{
    int to[2], from[2];
    if (pipe2(to, O_CLOEXEC) < 0)
        return mint_fail_errno(err, "cannot make a pipe");
    if (pipe2(from, O_CLOEXEC) < 0) {
        mint_fail_errno(err, "cannot make a pipe");
        close(to[0]);
        close(to[1]);
        return -1;
    }
    pid_t pid = fork_guarded(c, to[0], from[1]);
    close(to[0]);
    close(from[1]);
    if (pid < 0) {
        mint_fail_errno(err, "cannot start a process");
        close(to[1]);
        close(from[0]);
        return -1;
    }
    c->pid = pid;
    c->in = to[1];
    c->out = from[0];
    fcntl(c->in, F_SETFL, O_NONBLOCK);
    fcntl(c->out, F_SETFL, O_NONBLOCK);
    mint_buf_reset(&c->got);
    return 0;
}

static void let_go(struct mint_coproc *c)
{
    if (c->in >= 0)
        close(c->in);
    if (c->out >= 0)
        close(c->out);
    c->in = c->out = -1;
    c->pid = 0;
    mint_buf_reset(&c->got);
}

/* The program has ended or must: kills its group, waits for it, frees. */
static int reap(struct mint_coproc *c, int *status)
{
    kill(-c->pid, SIGKILL);
    if (c->slot >= 0) /* before the number can be another process's */
        atomic_store(&guarded[c->slot], 0);
    c->slot = -1;
    pid_t got;
    while ((got = waitpid(c->pid, status, 0)) < 0 && errno == EINTR)
        ;
    let_go(c);
    return got < 0 ? -1 : 0;
}

void mint_coproc_kill(struct mint_coproc *c)
{
    int status;
    if (c->pid > 0)
        reap(c, &status);
}

/* Waits until the program ends by itself, at most so long; it stays to be reaped. */
static bool ended(const struct mint_coproc *c, double until)
{
    for (;;) {
        siginfo_t info = {0};
        if (waitid(P_PID, (id_t)c->pid, &info, WEXITED | WNOHANG | WNOWAIT) < 0 || info.si_pid)
            return true;
        if (now() >= until)
            return false;
        poll(NULL, 0, 2);
    }
}

void mint_coproc_close(struct mint_coproc *c)
{
    if (c->pid > 0) {
        close(c->in);
        c->in = -1;
        /* What it still says is of no use, but must not keep it from ending. */
        double until = now() + 1;
        char sink[4096];
        while (now() < until && !ended(c, now())) {
            struct pollfd p = {.fd = c->out, .events = POLLIN};
            if (poll(&p, 1, 5) > 0 && read(c->out, sink, sizeof(sink)) <= 0)
                ended(c, now() + 0.005);
        }
        mint_coproc_kill(c);
    }
    mint_buf_release(&c->got);
}

/* It has closed its output or ended: says how, and frees it. */
static int gone(struct mint_coproc *c, struct mint_err *err)
{
    int status = 0;
    bool by_itself = ended(c, now() + 0.5);
    if (reap(c, &status) < 0 || !by_itself)
        return mint_fail(err, MINT_EIO, "closed its output");
    if (WIFSIGNALED(status))
        return mint_fail(err, MINT_EIO, "was killed by signal %d (%s)", WTERMSIG(status),
                         strsignal(WTERMSIG(status)));
    int code = WEXITSTATUS(status);
    if (code > 128 && code < 128 + 65) /* how the shell says that its program was killed */
        return mint_fail(err, MINT_EIO, "exited with status %d (128 + signal %d, %s)", code,
                         code - 128, strsignal(code - 128));
    return mint_fail(err, code == 126 || code == 127 ? MINT_EUSAGE : MINT_EIO,
                     code ? "exited with status %d" : "ended (status %d) without an answer", code);
}

static int misbehaved(struct mint_coproc *c, struct mint_err *err, const char *what)
{
    mint_coproc_kill(c);
    return mint_fail(err, MINT_EIO, "%s", what);
}

/* 1 something came, 0 nothing now, -1 end of its output. */
static int read_some(struct mint_coproc *c)
{
    mint_buf_reserve(&c->got, 65536);
    ssize_t k = read(c->out, c->got.data + c->got.len, 65536);
    if (k < 0)
        return errno == EAGAIN || errno == EINTR ? 0 : -1;
    c->got.len += (size_t)k;
    c->got.data[c->got.len] = '\0';
    return k ? 1 : -1;
}

struct question {
    const char *line;
    size_t n, sent; /* n counts the newline too */
};

/* Sends what fits. A program that no longer reads may still answer, so an error is no failure. */
static void send_some(struct mint_coproc *c, struct question *q)
{
    while (q->sent < q->n) {
        bool tail = q->sent + 1 == q->n;
        ssize_t k = write(c->in, tail ? "\n" : q->line + q->sent, tail ? 1 : q->n - 1 - q->sent);
        if (k < 0) {
            if (errno == EPIPE)
                q->n = q->sent = 0;
            if (errno != EINTR)
                return;
            continue;
        }
        q->sent += (size_t)k;
    }
}

static bool take_line(struct mint_coproc *c, struct mint_buf *answer)
{
    char *end = c->got.len ? memchr(c->got.data, '\n', c->got.len) : NULL;
    if (!end)
        return false;
    size_t n = (size_t)(end - c->got.data);
    mint_buf_add(answer, c->got.data, n);
    memmove(c->got.data, end + 1, c->got.len - n - 1);
    c->got.len -= n + 1;
    return true;
}

static int exchange(struct mint_coproc *c, struct question *q, double until,
                    struct mint_buf *answer, struct mint_err *err)
{
    for (;;) {
        send_some(c, q);
        int more = read_some(c);
        if (take_line(c, answer)) {
            if (q->sent < q->n)
                return misbehaved(c, err, "answered before it had read the line");
            return 0;
        }
        if (more < 0)
            return gone(c, err);
        if (c->got.len > MINT_COPROC_ANSWER_MAX)
            return misbehaved(c, err, "gave an answer of more than 1 MiB");
        if (more > 0)
            continue;
        if (now() >= until) {
            mint_coproc_kill(c);
            return mint_fail(err, MINT_EIO, "gave no answer in time");
        }
        struct pollfd p[2] = {{.fd = c->out, .events = POLLIN},
                              {.fd = q->sent < q->n ? c->in : -1, .events = POLLOUT}};
        int ms = (int)MINT_MIN((until - now()) * 1000 + 1, (double)SLICE_MS);
        if (poll(p, 2, MINT_MAX(ms, 0)) == 0 && ended(c, 0) && read_some(c) <= 0)
            return gone(c, err); /* others hold its pipes */
    }
}

int mint_coproc_ask(struct mint_coproc *c, const char *line, size_t n, double timeout,
                    struct mint_buf *answer, struct mint_err *err)
{
    struct question q = {.line = line, .n = n + 1};
    if (c->pid > 0) {
        int more = read_some(c);
        if (more < 0)
            mint_coproc_kill(c); /* it ended between two questions: not this one's fault */
        else if (c->got.len)
            return misbehaved(c, err, "wrote more than one line for an answer");
    }
    if (c->pid <= 0 && start(c, err) < 0)
        return -1;
    return exchange(c, &q, now() + timeout, answer, err);
}

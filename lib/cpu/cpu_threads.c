/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cpu_threads.c: loops over the device's threads, and the floating-point mode in them.
 *
 * Each thread begins with a stretch of the loop that is its own, then helps with the others'.
 * Workers join a loop while it is open, and only those that joined are waited for. So a worker that
 * the kernel has not scheduled costs nothing, and a busy machine slows a loop by no more than its
 * share. Waiting is a short spin (ops follow each other within microseconds), then sleep.
 */
#include "cpu.h"

#include "../mem.h"

#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#if MINT_X86
#include <xmmintrin.h>
#endif

/*
 * Subnormals are zero while ops run, as inputs and as results: vdpbf16ps knows nothing else, and
 * the other paths must give its bits. Returns the mode to restore.
 */
#if MINT_X86
typedef unsigned fp_mode;

static fp_mode flush_subnormals(void)
{
    fp_mode old = _mm_getcsr();
    _mm_setcsr(old | 0x8040); /* FTZ, DAZ */
    return old;
}

/* The exception flags that the op raised stay. */
static void restore(fp_mode old)
{
    _mm_setcsr((_mm_getcsr() & 0x3fu) | (old & ~0x3fu));
}
#elif defined(__aarch64__)
typedef uint64_t fp_mode;

static fp_mode flush_subnormals(void)
{
    fp_mode old;
    __asm__ volatile("mrs %0, fpcr" : "=r"(old));
    __asm__ volatile("msr fpcr, %0" : : "r"(old | (UINT64_C(1) << 24))); /* FZ */
    return old;
}

static void restore(fp_mode old)
{
    __asm__ volatile("msr fpcr, %0" : : "r"(old));
}
#else
typedef int fp_mode;

static fp_mode flush_subnormals(void)
{
    return 0;
}

static void restore(fp_mode old)
{
    (void)old;
}
#endif

#define SPINS 3000     /* pauses: some 50 microseconds */
#define OPEN  0x10000u /* in state, above the count of workers that are in the loop */

/* The part of a loop that one thread begins with, and that others go on with when they are done
 * with theirs: neighbouring jobs follow each other in one thread, which may fetch ahead. */
struct stretch {
    atomic_int_least64_t next;
    int64_t end;
    char apart[48]; /* from the cache line of the next one */
};

struct worker {
    struct cpu_pool *pool;
    pthread_t id;
    int number; /* of the thread; the caller is 0 */
};

struct cpu_pool {
    struct worker *workers;
    int nworkers;
    atomic_uint loops;    /* how many have been opened; workers sleep on it */
    atomic_uint state;    /* OPEN | workers inside; the caller sleeps on it */
    atomic_uint sleepers; /* workers that may sleep */
    atomic_bool quit;
    /* The loop. Written while it is closed and nobody is inside. */
    struct stretch *stretches; /* one a thread */
    void (*fn)(void *ctx, int64_t i, int thread);
    void *ctx;
};

static void pause_cpu(void)
{
#if MINT_X86
    _mm_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

static void sleep_while(atomic_uint *word, unsigned value)
{
    syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, value, NULL, NULL, 0);
}

static void wake(atomic_uint *word, int n)
{
    syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, n, NULL, NULL, 0);
}

static void run_jobs(struct cpu_pool *p, int thread)
{
    fp_mode old = flush_subnormals();
    for (int k = 0; k <= p->nworkers; k++) {
        struct stretch *s = &p->stretches[(thread + k) % (p->nworkers + 1)];
        while (atomic_load_explicit(&s->next, memory_order_relaxed) < s->end) {
            int64_t i = atomic_fetch_add_explicit(&s->next, 1, memory_order_relaxed);
            if (i < s->end)
                p->fn(p->ctx, i, thread);
        }
    }
    restore(old);
}

/* Waits until another loop than the seen one has been opened. */
static unsigned next_loop(struct cpu_pool *p, unsigned seen)
{
    unsigned now;
    for (int spin = 0; spin < SPINS; spin++) {
        now = atomic_load(&p->loops);
        if (now != seen)
            return now;
        pause_cpu();
    }
    atomic_fetch_add(&p->sleepers, 1);
    while ((now = atomic_load(&p->loops)) == seen)
        sleep_while(&p->loops, seen);
    atomic_fetch_sub(&p->sleepers, 1);
    return now;
}

static bool enter(struct cpu_pool *p)
{
    unsigned s = atomic_load(&p->state);
    while (s & OPEN)
        if (atomic_compare_exchange_weak(&p->state, &s, s + 1))
            return true;
    return false;
}

static void *worker(void *arg)
{
    const struct worker *w = arg;
    struct cpu_pool *p = w->pool;
    for (unsigned seen = 0;;) {
        seen = next_loop(p, seen);
        if (atomic_load(&p->quit))
            return NULL;
        if (!enter(p))
            continue;
        run_jobs(p, w->number);
        if (atomic_fetch_sub(&p->state, 1) == 1) /* the last one out, and it is closed */
            wake(&p->state, 1);
    }
}

static void wait_until_empty(struct cpu_pool *p)
{
    unsigned s;
    for (int spin = 0; spin < SPINS; spin++) {
        if (atomic_load(&p->state) == 0)
            return;
        pause_cpu();
    }
    while ((s = atomic_load(&p->state)) != 0)
        sleep_while(&p->state, s);
}

/* Signals are the main thread's. */
static struct cpu_pool *pool_new(int nworkers)
{
    struct cpu_pool *p = mint_xcalloc(1, sizeof *p);
    sigset_t all, old;
    p->workers = mint_xcalloc((size_t)nworkers, sizeof *p->workers);
    p->stretches = mint_xcalloc((size_t)nworkers + 1, sizeof *p->stretches);
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &old);
    for (; p->nworkers < nworkers; p->nworkers++) {
        struct worker *w = &p->workers[p->nworkers];
        *w = (struct worker){.pool = p, .number = p->nworkers + 1};
        if (pthread_create(&w->id, NULL, worker, w) != 0)
            break; /* fewer will do */
    }
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    return p;
}

void cpu_pool_free(struct cpu_pool *p)
{
    if (!p)
        return;
    atomic_store(&p->quit, true);
    atomic_fetch_add(&p->loops, 1);
    wake(&p->loops, INT_MAX);
    for (int i = 0; i < p->nworkers; i++)
        pthread_join(p->workers[i].id, NULL);
    free(p->stretches);
    free(p->workers);
    free(p);
}

static void serial(int64_t n, void (*fn)(void *ctx, int64_t i, int thread), void *ctx)
{
    fp_mode old = flush_subnormals();
    for (int64_t i = 0; i < n; i++)
        fn(ctx, i, 0);
    restore(old);
}

void cpu_parallel(struct cpu_dev *d, int64_t n, void (*fn)(void *ctx, int64_t i, int thread),
                  void *ctx)
{
    if (n <= 1 || d->base.threads <= 1) {
        serial(n, fn, ctx);
        return;
    }
    if (!d->pool)
        d->pool = pool_new(d->base.threads - 1);
    struct cpu_pool *p = d->pool;
    p->fn = fn;
    p->ctx = ctx;
    for (int t = 0; t <= p->nworkers; t++) {
        struct stretch *s = &p->stretches[t];
        s->end = n * (t + 1) / (p->nworkers + 1);
        atomic_store_explicit(&s->next, n * t / (p->nworkers + 1), memory_order_relaxed);
    }
    atomic_store(&p->state, OPEN);
    atomic_fetch_add(&p->loops, 1);
    if (atomic_load(&p->sleepers) > 0)
        wake(&p->loops, (int)MINT_MIN(n - 1, (int64_t)p->nworkers));
    run_jobs(p, 0);
    atomic_fetch_and(&p->state, ~OPEN);
    wait_until_empty(p);
}

void cpu_share(struct cpu_dev *d, int64_t n, int64_t work,
               void (*fn)(void *ctx, int64_t i, int thread), void *ctx)
{
    if (work < CPU_SHARE_WORK)
        serial(n, fn, ctx);
    else
        cpu_parallel(d, n, fn, ctx);
}

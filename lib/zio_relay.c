/* SPDX-License-Identifier: Apache-2.0 */
#include "zio_impl.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>

#include "mem.h"

enum { PIECES = 4 };

struct mint_relay {
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t moved; /* the sides never wait both: one is short of room, the other of pieces */
    struct mint_piece pieces[PIECES];
    unsigned first, count; /* given and not yet done with */
    bool closed;
    void (*work)(struct mint_relay *r, void *arg);
    void *arg;
};

static void *run(void *arg)
{
    struct mint_relay *r = arg;
    r->work(r, r->arg);
    return NULL;
}

static bool one_cpu(void)
{
    cpu_set_t set;
    return sched_getaffinity(0, sizeof(set), &set) == 0 && CPU_COUNT(&set) == 1;
}

/* On another CPU than this thread, where there is one. The two wake each other so often that a
 * scheduler which leaves a thread where it was woken lets them take turns on one CPU. */
static void keep_apart(pthread_t thread)
{
    cpu_set_t set;
    int here = sched_getcpu();
    if (here < 0 || sched_getaffinity(0, sizeof(set), &set) != 0)
        return;
    CPU_CLR(here, &set);
    if (CPU_COUNT(&set) > 0)
        pthread_setaffinity_np(thread, sizeof(set), &set);
}

/* Signals from outside are for the threads that were there before; those that a thread's own doing
 * raises, SIGPIPE above all, stay as they are. */
static bool start_thread(struct mint_relay *r, bool apart)
{
    static const int own[] = {SIGPIPE, SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT};
    sigset_t others, old;
    sigfillset(&others);
    for (size_t i = 0; i < MINT_ARRAY_LEN(own); i++)
        sigdelset(&others, own[i]);
    pthread_sigmask(SIG_BLOCK, &others, &old);
    bool started = pthread_create(&r->thread, NULL, run, r) == 0;
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    if (started && apart)
        keep_apart(r->thread);
    return started;
}

static void release(struct mint_relay *r)
{
    for (int i = 0; i < PIECES; i++)
        free(r->pieces[i].data);
    pthread_cond_destroy(&r->moved);
    pthread_mutex_destroy(&r->lock);
    free(r);
}

struct mint_relay *mint_relay_start(void (*work)(struct mint_relay *r, void *arg), void *arg,
                                    bool apart)
{
    if (one_cpu())
        return NULL;
    struct mint_relay *r = mint_xcalloc(1, sizeof(*r));
    pthread_mutex_init(&r->lock, NULL);
    pthread_cond_init(&r->moved, NULL);
    r->work = work;
    r->arg = arg;
    for (int i = 0; i < PIECES; i++)
        r->pieces[i].data = mint_xmalloc(MINT_ZIO_CHUNK);
    if (start_thread(r, apart))
        return r;
    release(r);
    return NULL;
}

struct mint_piece *mint_relay_room(struct mint_relay *r)
{
    struct mint_piece *p = NULL;
    pthread_mutex_lock(&r->lock);
    while (r->count == PIECES && !r->closed)
        pthread_cond_wait(&r->moved, &r->lock);
    if (!r->closed)
        p = &r->pieces[(r->first + r->count) % PIECES];
    pthread_mutex_unlock(&r->lock);
    return p;
}

void mint_relay_give(struct mint_relay *r)
{
    pthread_mutex_lock(&r->lock);
    r->count++;
    pthread_cond_signal(&r->moved);
    pthread_mutex_unlock(&r->lock);
}

struct mint_piece *mint_relay_next(struct mint_relay *r)
{
    struct mint_piece *p = NULL;
    pthread_mutex_lock(&r->lock);
    while (r->count == 0 && !r->closed)
        pthread_cond_wait(&r->moved, &r->lock);
    if (r->count > 0)
        p = &r->pieces[r->first];
    pthread_mutex_unlock(&r->lock);
    return p;
}

void mint_relay_done(struct mint_relay *r)
{
    pthread_mutex_lock(&r->lock);
    r->first = (r->first + 1) % PIECES;
    r->count--;
    pthread_cond_signal(&r->moved);
    pthread_mutex_unlock(&r->lock);
}

void mint_relay_close(struct mint_relay *r)
{
    pthread_mutex_lock(&r->lock);
    r->closed = true;
    pthread_cond_signal(&r->moved);
    pthread_mutex_unlock(&r->lock);
}

void mint_relay_join(struct mint_relay *r)
{
    if (!r)
        return;
    mint_relay_close(r);
    pthread_join(r->thread, NULL);
    release(r);
}

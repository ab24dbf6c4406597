/* SPDX-License-Identifier: Apache-2.0 */
/*
 * safetensors_fingerprint.c: the fingerprint of a set of tensors. The pieces are hashed two at a
 * time, which the processor does in less time than one after the other; so they are paired by size.
 * An idle thread may do pairs ahead. Whoever wants the result never waits for it (it may be without
 * a processor for long): what it has not finished is hashed again, into an array of its own.
 */
#include "safetensors.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#ifdef _OPENMP
#include <omp.h>
#endif

#include "buf.h"
#include "hash.h"
#include "mem.h"

#define PIECE ((size_t)16 << 20)
#define STEP  ((size_t)256 << 10) /* bytes of a piece between two looks at stop */

struct piece {
    const char *p;
    size_t n, at; /* at: its place among all pieces */
};

typedef uint8_t digest[32];

struct mint_st_print {
    const struct mint_st *st;
    bool release;
    struct piece *piece; /* largest first; pair i is 2i and, where there is one, 2i + 1 */
    size_t n, pairs;
    digest *ahead, *result; /* of the idle thread, and of all; by place */
    atomic_bool *done;      /* a pair each: it is in ahead */
    atomic_bool stop;
    pthread_t thread;
    bool thread_runs;
};

static size_t pieces_of(const struct mint_st_tensor *t)
{
    return t->bytes / PIECE + (t->bytes % PIECE != 0);
}

static int larger_first(const void *a, const void *b)
{
    const struct piece *x = a, *y = b;
    if (x->n != y->n)
        return x->n < y->n ? 1 : -1;
    return x->at < y->at ? -1 : 1;
}

static void cut(struct mint_st_print *f)
{
    size_t tensors = mint_st_count(f->st), at = 0;
    for (size_t i = 0; i < tensors; i++)
        f->n += pieces_of(mint_st_at(f->st, i));
    f->piece = mint_xcalloc(f->n, sizeof *f->piece);
    for (size_t i = 0; i < tensors; i++) {
        const struct mint_st_tensor *t = mint_st_at(f->st, i);
        for (size_t off = 0; off < t->bytes; off += PIECE, at++)
            f->piece[at] =
                (struct piece){(const char *)t->data + off, MINT_MIN(PIECE, t->bytes - off), at};
    }
    qsort(f->piece, f->n, sizeof *f->piece, larger_first);
    f->pairs = (f->n + 1) / 2;
}

/* Both pieces of a pair; false: stopped. The first one is never the shorter. */
static bool hash_pair(const struct mint_st_print *f, size_t i, digest *out, const atomic_bool *stop)
{
    const struct piece *a = &f->piece[2 * i], *b = 2 * i + 1 < f->n ? a + 1 : NULL;
    size_t both = b ? b->n : 0, n;
    struct mint_sha256 s, t;
    mint_sha256_init(&s);
    mint_sha256_init(&t);
    for (size_t at = 0; at < a->n; at += n) {
        if (stop && atomic_load_explicit(stop, memory_order_relaxed))
            return false;
        n = MINT_MIN(STEP, (at < both ? both : a->n) - at);
        if (at < both)
            mint_sha256_add_two(&s, a->p + at, &t, b->p + at, n);
        else
            mint_sha256_add(&s, a->p + at, n);
        if (f->release) {
            mint_st_release(f->st, a->p + at, n);
            if (at < both)
                mint_st_release(f->st, b->p + at, n);
        }
    }
    mint_sha256_end(&s, out[a->at]);
    if (b)
        mint_sha256_end(&t, out[b->at]);
    return true;
}

static void *idle_thread(void *arg)
{
    struct mint_st_print *f = arg;
#ifdef SCHED_IDLE
    pthread_setschedparam(pthread_self(), SCHED_IDLE, &(struct sched_param){0}); /* a wish */
#endif
    for (size_t i = 0; i < f->pairs && hash_pair(f, i, f->ahead, &f->stop); i++)
        atomic_store_explicit(&f->done[i], true, memory_order_release);
    return NULL;
}

static struct mint_st_print *print_new(const struct mint_st *st, bool release)
{
    struct mint_st_print *f = mint_xcalloc(1, sizeof *f);
    f->st = st;
    f->release = release;
    cut(f);
    f->ahead = mint_xcalloc(f->n, sizeof *f->ahead);
    f->result = mint_xcalloc(f->n, sizeof *f->result);
    f->done = mint_xcalloc(f->pairs, sizeof *f->done);
    return f;
}

struct mint_st_print *mint_st_print_begin(const struct mint_st *st, bool release)
{
    struct mint_st_print *f = print_new(st, release);
    sigset_t all, old;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &old); /* signals are the main thread's */
    f->thread_runs = pthread_create(&f->thread, NULL, idle_thread, f) == 0;
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    return f;
}

static void take_pair(struct mint_st_print *f, size_t i)
{
    if (!atomic_load_explicit(&f->done[i], memory_order_acquire)) {
        hash_pair(f, i, f->result, NULL);
        return;
    }
    for (size_t k = 2 * i; k < MINT_MIN(2 * i + 2, f->n); k++)
        memcpy(f->result[f->piece[k].at], f->ahead[f->piece[k].at], sizeof(digest));
}

static void whole_text(const struct mint_st_print *f, char out[72])
{
    struct mint_buf head = MINT_BUF_INIT;
    struct mint_sha256 s;
    size_t at = 0;
    mint_sha256_init(&s);
    for (size_t i = 0; i < mint_st_count(f->st); i++) {
        const struct mint_st_tensor *t = mint_st_at(f->st, i);
        mint_buf_reset(&head);
        mint_buf_addf(&head, "%s\n%s\n", t->name, t->dtype_text);
        for (int d = 0; d < t->ndim; d++)
            mint_buf_addf(&head, "%s%lld", d ? "," : "", (long long)t->shape[d]);
        mint_buf_addc(&head, '\n');
        mint_sha256_add(&s, head.data, head.len);
        mint_sha256_add(&s, f->result[at], pieces_of(t) * sizeof(digest));
        at += pieces_of(t);
    }
    mint_sha256_end_text(&s, out);
    mint_buf_release(&head);
}

static void finish(struct mint_st_print *f, int threads, char out[72])
{
    (void)threads; /* builds without OpenMP */
    atomic_store(&f->stop, true);
#pragma omp parallel for schedule(dynamic) num_threads(threads) if (f->pairs > 1)
    for (size_t i = 0; i < f->pairs; i++)
        take_pair(f, i);
    whole_text(f, out);
}

void mint_st_print_finish(struct mint_st_print *f, int threads, char out[72])
{
    finish(f, MINT_MAX(threads, 1), out);
}

void mint_st_print_free(struct mint_st_print *f)
{
    if (!f)
        return;
    atomic_store(&f->stop, true);
    if (f->thread_runs)
        pthread_join(f->thread, NULL);
    free(f->piece);
    free(f->ahead);
    free(f->result);
    free(f->done);
    free(f);
}

static int all_threads(void)
{
#ifdef _OPENMP
    return omp_get_max_threads();
#else
    return 1;
#endif
}

int mint_st_fingerprint(const struct mint_st *st, char out[72], struct mint_err *err)
{
    (void)err; /* the data is mapped: nothing can fail */
    struct mint_st_print *f = print_new(st, false);
    finish(f, all_threads(), out);
    mint_st_print_free(f);
    return 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Records through a scorer, out in the order they came in.
 *
 * Quick scorers run on the spot. A slow one runs in threads, each with a scorer state of its own:
 * the main thread reads records into a ring of slots and takes the oldest out when all its
 * sequences have a score; workers take the next sequence without one, oldest record first. So
 * memory holds a bounded number of records, and the order of the output does not depend on who is
 * quick.
 */
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>

#include "mem.h"
#include "score.h"

typedef int sink_fn(void *arg, struct mint_scored *s, struct mint_err *err);

static void release_scores(struct mint_scored *s)
{
    for (size_t i = 0; i < s->group.nseqs; i++)
        mint_score_release(&s->scores[i]);
    free(s->scores);
    s->scores = NULL;
    s->group.nseqs = 0;
}

/* What the record turned out to be: hands it on, or counts it as bad. */
static int settle(struct mint_reader *r, struct mint_scored *s, int rc, sink_fn *sink, void *arg,
                  struct mint_err *err)
{
    if (rc == 0)
        rc = sink(arg, s, err);
    else if (err->code == MINT_ESCHEMA)
        rc = 1;
    if (rc != 1)
        return rc;
    r->file = s->r->file;
    r->lineno = s->r->lineno;
    return mint_reader_bad(r, err);
}

static int run_inline(const struct mint_scoring *c, struct mint_reader *r, void *state,
                      sink_fn *sink, void *arg, struct mint_err *err)
{
    int got;
    while ((got = mint_reader_next(r, err)) == 1) {
        struct mint_scored s = {.r = r};
        int rc = mint_group_text(r, &s.group, err);
        if (rc == 0)
            s.scores = mint_xcalloc(s.group.nseqs + 1, sizeof(*s.scores));
        else
            s.group.nseqs = 0;
        for (size_t i = 0; rc == 0 && i < s.group.nseqs; i++) {
            struct mint_score_task t = {.doc = r->doc, .group = &s.group, .index = i};
            rc = c->scorer->score(state, &t, &s.scores[i], err);
        }
        rc = settle(r, &s, rc, sink, arg, err);
        release_scores(&s);
        if (rc < 0)
            return -1;
    }
    return got;
}

/* --- in threads */

struct slot {
    struct mint_reader r; /* a copy of the record */
    struct mint_scored s;
    size_t next, done; /* sequences handed to a worker, and finished */
    int rc;
    struct mint_err err;
};

struct pool {
    const struct mint_scoring *c;
    pthread_mutex_t lock;
    pthread_cond_t work, finished;
    struct slot *slots;
    size_t nslots, first, count;
    bool stop;
};

struct worker {
    struct pool *pool;
    void *state;
    pthread_t thread;
    bool started;
};

static struct slot *find_work(struct pool *p, size_t *index)
{
    for (size_t i = 0; i < p->count; i++) {
        struct slot *s = &p->slots[(p->first + i) % p->nslots];
        if (s->next < s->s.group.nseqs) {
            *index = s->next++;
            return s;
        }
    }
    return NULL;
}

static void *work(void *arg)
{
    struct worker *w = arg;
    struct pool *p = w->pool;
    sigset_t pipe;
    sigemptyset(&pipe);
    sigaddset(&pipe, SIGPIPE);
    pthread_sigmask(SIG_BLOCK, &pipe, NULL);
    pthread_mutex_lock(&p->lock);
    while (!p->stop) {
        size_t i;
        struct slot *s = find_work(p, &i);
        if (!s) {
            pthread_cond_wait(&p->work, &p->lock);
            continue;
        }
        struct mint_score_task t = {.doc = s->r.doc, .group = &s->s.group, .index = i};
        struct mint_err err = {0};
        int rc = 0;
        bool dead = s->rc < 0; /* another sequence made the record bad */
        pthread_mutex_unlock(&p->lock);
        if (!dead)
            rc = p->c->scorer->score(w->state, &t, &s->s.scores[i], &err);
        pthread_mutex_lock(&p->lock);
        if (rc < 0 && s->rc == 0) {
            s->rc = rc;
            s->err = err;
        }
        s->done++;
        pthread_cond_signal(&p->finished);
    }
    pthread_mutex_unlock(&p->lock);
    return NULL;
}

/* The present record of r into the ring. A bad one takes no slot. */
static int put_in(struct pool *p, struct mint_reader *r, struct mint_err *err)
{
    struct slot *s = &p->slots[(p->first + p->count) % p->nslots];
    mint_reader_copy(&s->r, r);
    s->s = (struct mint_scored){.r = &s->r};
    s->next = s->done = 0;
    s->rc = 0;
    if (mint_group_text(&s->r, &s->s.group, err) < 0) {
        s->s.group.nseqs = 0;
        return mint_reader_bad(r, err);
    }
    s->s.scores = mint_xcalloc(s->s.group.nseqs + 1, sizeof(*s->s.scores));
    pthread_mutex_lock(&p->lock);
    p->count++;
    pthread_cond_broadcast(&p->work);
    pthread_mutex_unlock(&p->lock);
    return 0;
}

/* Waits for the oldest record and hands it on. */
static int take_out(struct pool *p, struct mint_reader *r, sink_fn *sink, void *arg,
                    struct mint_err *err)
{
    struct slot *s = &p->slots[p->first];
    pthread_mutex_lock(&p->lock);
    while (s->done < s->s.group.nseqs)
        pthread_cond_wait(&p->finished, &p->lock);
    p->first = (p->first + 1) % p->nslots;
    p->count--;
    pthread_mutex_unlock(&p->lock);
    if (s->rc < 0)
        *err = s->err;
    int rc = settle(r, &s->s, s->rc, sink, arg, err);
    release_scores(&s->s);
    return rc;
}

static int feed(struct pool *p, struct mint_reader *r, sink_fn *sink, void *arg,
                struct mint_err *err)
{
    int got;
    while ((got = mint_reader_next(r, err)) == 1) {
        if (p->count == p->nslots && take_out(p, r, sink, arg, err) < 0)
            return -1;
        if (put_in(p, r, err) < 0)
            return -1;
    }
    while (got == 0 && p->count) {
        if (take_out(p, r, sink, arg, err) < 0)
            return -1;
    }
    return got;
}

static int run_threads(const struct mint_scoring *c, struct mint_reader *r, void *state,
                       sink_fn *sink, void *arg, struct mint_err *err)
{
    size_t jobs = c->jobs ? c->jobs : 1;
    struct pool p = {.c = c, .nslots = 2 * jobs + 2};
    struct worker *w = mint_xcalloc(jobs, sizeof(*w));
    int rc = 0;
    p.slots = mint_xcalloc(p.nslots, sizeof(*p.slots));
    pthread_mutex_init(&p.lock, NULL);
    pthread_cond_init(&p.work, NULL);
    pthread_cond_init(&p.finished, NULL);
    for (size_t i = 0; i < jobs && rc == 0; i++) {
        w[i].pool = &p;
        if (i == 0)
            w[i].state = state;
        else if (c->scorer->open)
            rc = c->scorer->open(&c->opts, &w[i].state, err);
        if (rc == 0 && pthread_create(&w[i].thread, NULL, work, &w[i]) != 0)
            rc = mint_fail(err, MINT_EIO, "cannot start a thread: lower --jobs");
        w[i].started = rc == 0;
    }
    if (rc == 0)
        rc = feed(&p, r, sink, arg, err);
    pthread_mutex_lock(&p.lock);
    p.stop = true;
    pthread_cond_broadcast(&p.work);
    pthread_mutex_unlock(&p.lock);
    for (size_t i = 0; i < jobs; i++) {
        if (w[i].started)
            pthread_join(w[i].thread, NULL);
        if (i && w[i].state && c->scorer->close)
            c->scorer->close(w[i].state);
    }
    for (size_t i = 0; i < p.nslots; i++) {
        if (p.slots[i].s.scores)
            release_scores(&p.slots[i].s);
        mint_reader_close(&p.slots[i].r);
    }
    pthread_mutex_destroy(&p.lock);
    pthread_cond_destroy(&p.work);
    pthread_cond_destroy(&p.finished);
    free(p.slots);
    free(w);
    return rc;
}

/* --- a scorer that takes groups by itself */

struct held {
    struct mint_scored s; /* first: what the scorer holds */
    struct mint_reader r; /* a copy of the record */
    struct held *next;
};

struct feeder {
    struct mint_reader *r;
    sink_fn *sink;
    void *arg;
    struct held *out, **out_end; /* with the scorer, in order */
    struct held *spare;
};

static int feed_next(void *ctx, struct mint_scored **s, struct mint_err *err)
{
    struct feeder *f = ctx;
    int got;
    while ((got = mint_reader_next(f->r, err)) == 1) {
        struct held *h = f->spare;
        if (h)
            f->spare = h->next;
        else
            h = mint_xcalloc(1, sizeof(*h));
        mint_reader_copy(&h->r, f->r);
        h->s = (struct mint_scored){.r = &h->r};
        if (mint_group_text(&h->r, &h->s.group, err) < 0) {
            h->next = f->spare;
            f->spare = h;
            if (mint_reader_bad(f->r, err) < 0)
                return -1;
            continue;
        }
        h->s.scores = mint_xcalloc(h->s.group.nseqs + 1, sizeof(*h->s.scores));
        h->next = NULL;
        *f->out_end = h;
        f->out_end = &h->next;
        *s = &h->s;
        return 1;
    }
    return got;
}

static int feed_done(void *ctx, struct mint_scored *s, const struct mint_err *bad,
                     struct mint_err *err)
{
    struct feeder *f = ctx;
    struct held *h = f->out;
    if (!h || s != &h->s)
        MINT_BUG("a scorer gave its groups back in another order");
    if (bad)
        *err = *bad;
    int rc = settle(f->r, s, bad ? -1 : 0, f->sink, f->arg, err);
    release_scores(s);
    f->out = h->next;
    if (!f->out)
        f->out_end = &f->out;
    h->next = f->spare;
    f->spare = h;
    return rc;
}

static void free_held(struct held *h)
{
    while (h) {
        struct held *next = h->next;
        if (h->s.scores)
            release_scores(&h->s);
        mint_reader_close(&h->r);
        free(h);
        h = next;
    }
}

static int run_feed(const struct mint_scoring *c, struct mint_reader *r, void *state, sink_fn *sink,
                    void *arg, struct mint_err *err)
{
    struct feeder f = {.r = r, .sink = sink, .arg = arg};
    struct mint_score_feed feed = {feed_next, feed_done, &f};
    f.out_end = &f.out;
    int rc = c->scorer->stream(state, &feed, err);
    free_held(f.out);
    free_held(f.spare);
    return rc;
}

int mint_scoring_open(struct mint_scoring *c, struct mint_err *err)
{
    c->state = NULL;
    if (c->scorer->open && c->scorer->open(&c->opts, &c->state, err) < 0)
        return -1;
    c->opened = true;
    return 0;
}

void mint_scoring_close(struct mint_scoring *c)
{
    if (c->opened && c->scorer->close)
        c->scorer->close(c->state);
    c->state = NULL;
    c->opened = false;
}

int mint_score_stream(struct mint_scoring *c, struct mint_reader *r,
                      int (*sink)(void *arg, struct mint_scored *s, struct mint_err *err),
                      void *arg, struct mint_err *err)
{
    if (!c->opened && mint_scoring_open(c, err) < 0)
        return -1;
    int rc = c->scorer->stream ? run_feed(c, r, c->state, sink, arg, err)
             : c->scorer->slow ? run_threads(c, r, c->state, sink, arg, err)
                               : run_inline(c, r, c->state, sink, arg, err);
    mint_scoring_close(c);
    return rc;
}

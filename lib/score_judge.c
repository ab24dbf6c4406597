/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The scorer judge: a model's opinion. rubric: one question for each different response of a group,
 * reward = (score - LO) / (HI - LO). pairwise: each pair is asked about in both orders, so that a
 * judge who favours a place gives nobody a point; reward = (wins - losses) / comparisons.
 *
 * Groups whose questions are under way stand in a queue, and leave it in their order.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "mem.h"
#include "score_judge.h"

enum { REPLY_KEPT = 600 /* bytes of a reply in the detail */ };

struct ask {
    struct mint_judge_question q;
    size_t i, j; /* rubric: sequence i; pairwise: i is A, j is B */
};

struct group {
    struct group *next;
    struct mint_scored *s;
    struct ask *asks;
    size_t n, asked, answered;
    size_t *same; /* rubric: the first sequence with this text */
    bool bad;
    struct mint_err err;
};

struct judge {
    struct mint_score_opts o;
    char *text;
    double lo, hi;
    int64_t ring;
    const struct mint_judge_backend *backend;
    void *state;
    /* of a run: */
    const struct mint_score_feed *feed;
    struct group *first, *last;
    size_t groups;
    bool ended;
};

static void close_judge(void *state)
{
    struct judge *c = state;
    if (!c)
        return;
    c->backend->close(c->state);
    free(c->text);
    free(c);
}

static int open_judge(const struct mint_score_opts *o, void **state, struct mint_err *err)
{
    const struct mint_judge_opts *j = &o->judge;
    if (!j->model && !j->url)
        return mint_fail(err, MINT_EUSAGE,
                         "judge needs --judge-model DIR or --judge-url URL: who is to judge?");
    if (j->url && (j->adapter || j->expected))
        return mint_fail(err, MINT_EUSAGE, "%s is for a local judge, not for --judge-url",
                         j->adapter ? "--judge-adapter" : "--expected");
    if (!j->url && j->key_env)
        return mint_fail(err, MINT_EUSAGE, "--judge-key-env goes with --judge-url");
    if (j->mode == MINT_JUDGE_PAIRWISE && (j->expected || j->scale))
        return mint_fail(err, MINT_EUSAGE, "%s goes with --mode rubric",
                         j->scale ? "--scale" : "--expected");
    if (j->mode == MINT_JUDGE_RUBRIC && j->pairs)
        return mint_fail(err, MINT_EUSAGE, "--pairs goes with --mode pairwise");
    struct judge *c = mint_xcalloc(1, sizeof(*c));
    c->o = *o;
    c->backend = j->url ? &mint_judge_server : &mint_judge_local;
    int rc = mint_judge_scale(j->scale, &c->lo, &c->hi, err);
    if (rc == 0)
        rc = mint_judge_ring(j->pairs, &c->ring, err);
    if (rc == 0)
        rc = mint_judge_prompt_read(j, &c->text, err);
    if (rc == 0 && o->gold_named && !mint_judge_prompt_shows(c->text, "answer"))
        rc = mint_fail(err, MINT_EUSAGE,
                       "--gold-field goes with a text that shows {answer}, and does nothing here");
    if (rc < 0 || c->backend->open(j, &c->state, err) < 0) {
        free(c->text);
        free(c);
        return -1;
    }
    *state = c;
    return 0;
}

/* --- questions */

static bool same_text(const struct mint_sequence *a, const struct mint_sequence *b)
{
    return a->text_len == b->text_len && !memcmp(a->text, b->text, a->text_len);
}

static int add_ask(const struct judge *c, struct group *g, size_t i, size_t j, struct mint_err *err)
{
    const struct mint_group *all = &g->s->group;
    struct mint_score_task task = {.doc = g->s->r->doc, .group = all, .index = i};
    struct mint_judge_fields f = {.opts = &c->o,
                                  .task = &task,
                                  .a = &all->seqs[i],
                                  .b = &all->seqs[j],
                                  .lo = c->lo,
                                  .hi = c->hi};
    struct mint_buf text = MINT_BUF_INIT;
    if (mint_judge_prompt_fill(c->text, &f, &text, err) < 0) {
        mint_buf_release(&text);
        return -1;
    }
    g->asks[g->n] = (struct ask){.i = i, .j = j};
    g->asks[g->n].q.text_n = text.len;
    g->asks[g->n].q.text = mint_buf_detach(&text);
    g->asks[g->n++].q.group = g;
    return 0;
}

/* Equal responses share a question: its reply would be the same. */
static int ask_each(const struct judge *c, struct group *g, struct mint_err *err)
{
    const struct mint_sequence *seqs = g->s->group.seqs;
    size_t n = g->s->group.nseqs;
    g->asks = mint_xcalloc(n + 1, sizeof(*g->asks));
    g->same = mint_xcalloc(n + 1, sizeof(*g->same));
    for (size_t i = 0; i < n; i++) {
        size_t k = 0;
        while (k < i && !same_text(&seqs[k], &seqs[i]))
            k++;
        g->same[i] = k;
        if (k == i)
            MINT_TRY(add_ask(c, g, i, i, err));
    }
    return 0;
}

/* Equal responses tie without a question. */
static int ask_pairs(const struct judge *c, struct group *g, struct mint_err *err)
{
    const struct mint_sequence *seqs = g->s->group.seqs;
    size_t n = g->s->group.nseqs, cap = 0;
    for (size_t i = 0; i < n; i++) {
        for (size_t j = i + 1; j < n; j++) {
            if (!mint_judge_paired(i, j, n, c->ring) || same_text(&seqs[i], &seqs[j]))
                continue;
            if (g->n + 2 > cap) {
                cap = cap ? 2 * cap : 16;
                g->asks = mint_xreallocarray(g->asks, cap, sizeof(*g->asks));
            }
            MINT_TRY(add_ask(c, g, i, j, err));
            MINT_TRY(add_ask(c, g, j, i, err));
        }
    }
    return 0;
}

static int make_asks(const struct judge *c, struct group *g, struct mint_err *err)
{
    for (size_t i = 0; i < g->s->group.nseqs; i++) {
        if (!g->s->group.seqs[i].text)
            return mint_fail(err, MINT_ESCHEMA,
                             "sequences[%zu].text is missing: there is nothing to judge", i);
    }
    return c->o.judge.mode == MINT_JUDGE_RUBRIC ? ask_each(c, g, err) : ask_pairs(c, g, err);
}

static void free_group(struct group *g)
{
    for (size_t i = 0; i < g->n; i++) {
        free(g->asks[i].q.text);
        mint_buf_release(&g->asks[i].q.reply);
    }
    free(g->asks);
    free(g->same);
    free(g);
}

/* --- scores */

/* ,"KEY":"the reply, cut" */
static void put_reply(struct mint_buf *b, const char *key, const struct mint_judge_question *q)
{
    size_t n = q->reply.len;
    if (n > REPLY_KEPT) {
        for (n = REPLY_KEPT; n > REPLY_KEPT - 4 && ((unsigned char)q->reply.data[n] & 0xc0) == 0x80;
             n--)
            ;
    }
    mint_buf_addf(b, ",\"%s\":", key);
    mint_json_put_string(b, q->reply.data ? q->reply.data : "", n);
    if (n < q->reply.len)
        mint_buf_addf(b, ",\"%s_bytes\":%zu", key, q->reply.len);
}

static void fail_with(struct mint_score *out, const struct mint_judge_question *q, const char *why)
{
    if (q->failed) {
        mint_score_fail(out, "%s", q->reply.data);
        return;
    }
    mint_score_fail(out, "%s%s", why, q->cut ? " (it was cut: raise --max-tokens)" : "");
    put_reply(&out->detail, "reply", q);
}

static void rate(const struct judge *c, const struct mint_judge_question *q, struct mint_score *out)
{
    char why[MINT_JUDGE_WHY] = "";
    double v;
    if (c->o.judge.expected && !q->failed) {
        out->value = (q->expected - c->lo) / (c->hi - c->lo);
        mint_buf_adds(&out->detail, "\"score\":");
        mint_json_put_double(&out->detail, q->expected);
        mint_buf_adds(&out->detail, ",\"mass\":");
        mint_json_put_double(&out->detail, q->mass);
        return;
    }
    if (q->failed || mint_judge_read_score(q->reply.data ? q->reply.data : "", q->reply.len, q->cut,
                                           c->lo, c->hi, &v, why) < 0) {
        fail_with(out, q, why);
        return;
    }
    out->value = (v - c->lo) / (c->hi - c->lo);
    mint_buf_adds(&out->detail, "\"score\":");
    mint_json_put_double(&out->detail, v);
    put_reply(&out->detail, "reply", q);
}

static void score_each(const struct judge *c, struct group *g)
{
    size_t n = g->s->group.nseqs, *at = mint_xcalloc(n + 1, sizeof(*at));
    for (size_t k = 0; k < g->n; k++)
        at[g->asks[k].i] = k;
    for (size_t i = 0; i < n; i++)
        rate(c, &g->asks[at[g->same[i]]].q, &g->s->scores[i]);
    free(at);
}

struct tally {
    size_t wins, losses, ties; /* comparisons: two a pair */
    size_t same;               /* ties of equal responses, of which nobody was asked */
    size_t flips;              /* pairs in which the place won, not the response */
    size_t lost;               /* pairs with a reply that is no verdict */
    const struct mint_judge_question *why_of;
    char why[MINT_JUDGE_WHY];
};

/* A is the sequence x, B is y. */
static void count(struct tally *x, struct tally *y, enum mint_judge_verdict v)
{
    x->wins += v == MINT_JUDGE_A;
    y->losses += v == MINT_JUDGE_A;
    x->losses += v == MINT_JUDGE_B;
    y->wins += v == MINT_JUDGE_B;
    x->ties += v == MINT_JUDGE_TIE;
    y->ties += v == MINT_JUDGE_TIE;
}

/* A pair counts only with both of its replies: one order alone would let the place decide. */
static void count_pair(const struct ask *pair, struct tally *t)
{
    struct tally *x = &t[pair->i], *y = &t[pair->j];
    enum mint_judge_verdict v[2];
    for (int k = 0; k < 2; k++) {
        const struct mint_judge_question *q = &pair[k].q;
        char why[MINT_JUDGE_WHY] = "";
        if (!q->failed && mint_judge_read_verdict(q->reply.data ? q->reply.data : "", q->reply.len,
                                                  q->cut, &v[k], why) == 0)
            continue;
        x->lost++;
        y->lost++;
        for (int side = 0; side < 2; side++) {
            struct tally *s = side ? y : x;
            if (!s->why_of) {
                s->why_of = q;
                memcpy(s->why, why, sizeof(why));
            }
        }
        return;
    }
    count(x, y, v[0]);
    count(y, x, v[1]);
    x->flips += v[0] == v[1] && v[0] != MINT_JUDGE_TIE;
    y->flips += v[0] == v[1] && v[0] != MINT_JUDGE_TIE;
}

static void settle(const struct tally *t, struct mint_score *out)
{
    size_t n = t->wins + t->losses + t->ties;
    if (n == t->same && t->why_of) { /* a judge who says nothing gives no 0 either */
        fail_with(out, t->why_of, t->why);
    } else if (!n) {
        mint_score_fail(out, "there is no other response to compare with");
    } else {
        out->value = ((double)t->wins - (double)t->losses) / (double)n;
        mint_buf_addf(&out->detail,
                      "\"comparisons\":%zu,\"wins\":%zu,\"losses\":%zu,\"ties\":%zu,\"flips\":%zu",
                      n, t->wins, t->losses, t->ties, t->flips);
    }
    if (!out->failed && t->lost) {
        const struct mint_judge_question *q = t->why_of;
        mint_buf_addf(&out->detail, ",\"pairs_lost\":%zu,\"error\":", t->lost);
        mint_json_put_str(&out->detail, q->failed ? q->reply.data : t->why);
        if (!q->failed)
            put_reply(&out->detail, "reply", q);
    }
}

static void score_pairs(const struct judge *c, struct group *g)
{
    const struct mint_group *all = &g->s->group;
    struct tally *t = mint_xcalloc(all->nseqs + 1, sizeof(*t));
    for (size_t i = 0; i < all->nseqs; i++) {
        for (size_t j = i + 1; j < all->nseqs; j++) {
            if (mint_judge_paired(i, j, all->nseqs, c->ring) &&
                same_text(&all->seqs[i], &all->seqs[j])) {
                t[i].ties += 2, t[i].same += 2;
                t[j].ties += 2, t[j].same += 2;
            }
        }
    }
    for (size_t k = 0; k + 1 < g->n; k += 2)
        count_pair(&g->asks[k], t);
    for (size_t i = 0; i < all->nseqs; i++)
        settle(&t[i], &g->s->scores[i]);
    free(t);
}

/* --- the queue */

/* Hands on the groups at the front that are complete. */
static int deliver(struct judge *c, struct mint_err *err)
{
    while (c->first && c->first->answered == c->first->n) {
        struct group *g = c->first;
        if (!g->bad && c->o.judge.mode == MINT_JUDGE_RUBRIC)
            score_each(c, g);
        else if (!g->bad)
            score_pairs(c, g);
        c->first = g->next;
        if (!c->first)
            c->last = NULL;
        c->groups--;
        int rc = c->feed->done(c->feed->ctx, g->s, g->bad ? &g->err : NULL, err);
        free_group(g);
        MINT_TRY(rc);
    }
    return 0;
}

static int take_group(struct judge *c, struct mint_err *err)
{
    struct mint_scored *s;
    int rc = c->feed->next(c->feed->ctx, &s, err);
    if (rc != 1)
        return rc;
    struct group *g = mint_xcalloc(1, sizeof(*g));
    g->s = s;
    if (c->last)
        c->last->next = g;
    else
        c->first = g;
    c->last = g;
    c->groups++;
    if (make_asks(c, g, &g->err) < 0) {
        g->bad = true;
        for (size_t i = 0; i < g->n; i++)
            free(g->asks[i].q.text);
        g->n = 0;
    }
    return deliver(c, err) < 0 ? -1 : 1;
}

static int next(void *ctx, bool patient, struct mint_judge_question **q, struct mint_err *err)
{
    struct judge *c = ctx;
    size_t most = 2 * (size_t)c->o.judge.jobs + 8; /* groups that wait behind a slow one */
    for (;;) {
        struct group *g = c->last;
        if (g && g->asked < g->n) {
            *q = &g->asks[g->asked++].q;
            return 1;
        }
        if (c->ended)
            return 0;
        if (patient && c->groups >= most)
            return 2;
        int rc = take_group(c, err);
        if (rc < 0)
            return -1;
        c->ended = rc == 0;
    }
}

static int done(void *ctx, struct mint_judge_question *q, struct mint_err *err)
{
    struct group *g = q->group;
    g->answered++;
    return deliver(ctx, err);
}

static int run_judge(void *state, const struct mint_score_feed *feed, struct mint_err *err)
{
    struct judge *c = state;
    struct mint_judge_calls calls = {next, done, c};
    c->feed = feed;
    c->ended = false;
    int rc = c->backend->run(c->state, &calls, err);
    while (c->first) {
        struct group *g = c->first;
        c->first = g->next;
        free_group(g);
    }
    c->last = NULL;
    c->groups = 0;
    return rc;
}

const struct mint_scorer mint_scorer_judge = {
    .name = "judge",
    .summary = "what a model thinks of the response, or of two of a group",
    .slow = true,
    .open = open_judge,
    .stream = run_judge,
    .close = close_judge,
};

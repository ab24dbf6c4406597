/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Going on with sequences that an environment has answered. It gives a sequence an observation
 * (text) or observation_tokens; the tokens go behind the response with logprob null, and the policy
 * draws the next turn behind them. What was sampled is never tokenised again. A turn is a request
 * of one response, which keeps the place of its sequence in the random stream: sample and position.
 */
#include <stdlib.h>
#include <string.h>

#include "mem.h"
#include "rng.h"
#include "sample_job.h"

struct episode;

struct turn {
    struct mint_request request;
    struct episode *episode;
    const struct mint_sequence *seq;
    int64_t number;          /* of turns, with this one */
    bool cut;                /* by the budget of turns or the context: it is not drawn */
    struct mint_tokens read; /* prompt, response so far, observation */
    size_t observed;         /* tokens of the observation */
    struct mint_buf said;    /* its text */
};

/* A group in flight, in the order of the input. */
struct episode {
    struct episode *next;
    struct mint_reader record; /* a copy */
    struct mint_group group;
    struct turn *turns; /* one a sequence; those without an observation have number 0 */
    size_t asked;       /* turns that the sampler was given, or that need none */
    size_t open;        /* given and not done */
};

struct run {
    struct mint_sample_job *j;
    struct mint_reader reader;
    struct episode *first, *last; /* not yet written */
    struct mint_splices splices;
    struct mint_buf line, text;
};

static bool present(const struct mint_json *doc, mint_json_val v)
{
    return mint_json_type(doc, v) != MINT_JSON_ABSENT && mint_json_type(doc, v) != MINT_JSON_NULL;
}

/* ids are the values of v. */
static int add_ids(const struct mint_sample_job *j, struct turn *t, mint_json_val v,
                   const int32_t *ids, size_t n, struct mint_err *err)
{
    int32_t vocab = j->policy->model->config.vocab;
    for (size_t i = 0; i < n; i++) {
        if (ids[i] >= vocab)
            return mint_json_fail(t->episode->record.doc, v, err,
                                  "has %d at element %zu, outside the model's vocabulary of %d",
                                  ids[i], i, vocab);
        mint_tokens_add(&t->read, ids[i]);
    }
    return 0;
}

static int add_text(struct run *run, struct turn *t, struct mint_reader *r, mint_json_val v,
                    struct mint_err *err)
{
    unsigned flags = run->j->prompt.chat_opts.allow_special ? MINT_ENCODE_SPECIAL : 0;
    mint_buf_reserve(&t->said, 0);
    if (!mint_json_string(r->doc, v, &t->said))
        return mint_json_fail(r->doc, v, err, "must be a string or null");
    return mint_encode(run->j->prompt.tok, t->said.data, t->said.len, flags, &t->read, err);
}

static int add_tokens(struct run *run, struct turn *t, struct mint_reader *r, mint_json_val v,
                      struct mint_err *err)
{
    size_t n = mint_json_size(r->doc, v);
    int32_t *ids = mint_arena_alloc(&r->arena, (n + 1) * sizeof(*ids));
    if (mint_json_ints(r->doc, v, ids, SIZE_MAX, 0, INT32_MAX, err) < 0 ||
        add_ids(run->j, t, v, ids, n, err) < 0)
        return -1;
    mint_decode(run->j->prompt.tok, ids, n, true, &t->said);
    return 0;
}

static int count_turns(struct mint_reader *r, struct turn *t, struct mint_err *err)
{
    mint_json_val v = mint_json_get(r->doc, t->seq->val, "turns");
    int64_t before = 1;
    if (present(r->doc, v) && (!mint_json_int(r->doc, v, &before) || before < 1))
        return mint_json_fail(r->doc, v, err, "must be a whole number of at least 1");
    t->number = before + 1;
    return 0;
}

static int read_turn(struct run *run, struct episode *e, struct turn *t, struct mint_err *err)
{
    struct mint_reader *r = &e->record;
    const struct mint_sequence *s = t->seq;
    const struct mint_sample_job *j = run->j;
    mint_json_val text = mint_json_get(r->doc, s->val, "observation");
    mint_json_val tokens = mint_json_get(r->doc, s->val, "observation_tokens");
    bool by_text = present(r->doc, text), by_tokens = present(r->doc, tokens);
    if (!by_text && !by_tokens)
        return 0;
    if (by_text && by_tokens)
        return mint_json_fail(r->doc, tokens, err, "stands beside observation: give one of them");
    if (s->n && !s->logprobs)
        return mint_json_fail(r->doc, s->val, err,
                              "has no logprobs: run mint-sample --replay first");
    if (count_turns(r, t, err) < 0 ||
        add_ids(j, t, mint_json_get(r->doc, 0, "prompt_tokens"), e->group.prompt_tokens,
                e->group.prompt_n, err) < 0 ||
        add_ids(j, t, mint_json_get(r->doc, s->val, "tokens"), s->tokens, s->n, err) < 0)
        return -1;
    if ((by_text ? add_text(run, t, r, text, err) : add_tokens(run, t, r, tokens, err)) < 0)
        return -1;
    t->observed = t->read.n - e->group.prompt_n - s->n;
    t->cut = (j->max_turns && t->number > j->max_turns) ||
             (j->max_positions && (int64_t)t->read.n >= j->max_positions);
    t->request = (struct mint_request){
        .prompt = t->read.v,
        .prompt_n = (int64_t)t->read.n,
        .stream = mint_rng_stream(e->group.id, strlen(e->group.id)),
        .group = 1,
        .sample = (uint32_t)(s - e->group.seqs),
        .position = (uint32_t)(s->n + t->observed),
        .user = t,
    };
    return 0;
}

static void free_episode(struct episode *e)
{
    for (size_t i = 0; e->turns && i < e->group.nseqs; i++) {
        mint_request_release(&e->turns[i].request);
        mint_tokens_release(&e->turns[i].read);
        mint_buf_release(&e->turns[i].said);
    }
    free(e->turns);
    mint_reader_close(&e->record);
    free(e);
}

static int read_episode(struct run *run, struct episode *e, struct mint_err *err)
{
    mint_reader_copy(&e->record, &run->reader);
    if (mint_group_read(&e->record, true, &e->group, err) < 0)
        return -1;
    e->turns = mint_xcalloc(e->group.nseqs + 1, sizeof(*e->turns));
    for (size_t i = 0; i < e->group.nseqs; i++) {
        e->turns[i].episode = e;
        e->turns[i].seq = &e->group.seqs[i];
        if (read_turn(run, e, &e->turns[i], err) < 0)
            return -1;
    }
    return 0;
}

/* "[...]" with more values behind the last. */
static char *longer(struct mint_raw old, const struct mint_buf *more)
{
    struct mint_buf b = MINT_BUF_INIT;
    size_t n = old.p ? old.n - 1 : 0;
    while (n > 1 && strchr(" \t\r\n", old.p[n - 1]))
        n--;
    if (n)
        mint_buf_add(&b, old.p, n);
    else
        mint_buf_addc(&b, '[');
    if (b.len > 1 && more->len > 2)
        mint_buf_addc(&b, ',');
    mint_buf_add(&b, more->data + 1, more->len - 1);
    return mint_buf_detach(&b);
}

static char *longer_tokens(const struct turn *t, const struct mint_gen *g)
{
    struct mint_buf b = MINT_BUF_INIT;
    struct mint_tokens all = MINT_TOKENS_INIT;
    for (size_t i = t->read.n - t->observed; i < t->read.n; i++)
        mint_tokens_add(&all, t->read.v[i]);
    for (int64_t i = 0; i < g->n; i++)
        mint_tokens_add(&all, g->tokens[i]);
    mint_json_put_ints(&b, all.v, all.n);
    char *text = longer(t->seq->tokens_raw, &b);
    mint_tokens_release(&all);
    mint_buf_release(&b);
    return text;
}

static char *longer_logprobs(const struct turn *t, const struct mint_gen *g)
{
    struct mint_buf b = MINT_BUF_INIT;
    mint_buf_addc(&b, '[');
    for (size_t i = 0; i < t->observed; i++)
        mint_buf_adds(&b, i ? ",null" : "null");
    for (int64_t i = 0; i < g->n; i++) {
        if (b.len > 1)
            mint_buf_addc(&b, ',');
        mint_json_put_float(&b, g->logprobs[i]);
    }
    mint_buf_addc(&b, ']');
    char *text = longer(t->seq->logprobs_raw, &b);
    mint_buf_release(&b);
    return text;
}

static char *longer_text(struct run *run, const struct turn *t, const struct mint_gen *g)
{
    struct mint_buf all = MINT_BUF_INIT, b = MINT_BUF_INIT;
    mint_buf_add(&all, t->seq->text, t->seq->text_len);
    mint_buf_add(&all, t->said.data, t->said.len);
    mint_sample_text(run->j, g, &run->text);
    mint_buf_add(&all, run->text.data, run->text.len);
    mint_json_put_string(&b, all.data ? all.data : "", all.len);
    mint_buf_release(&all);
    return mint_buf_detach(&b);
}

/* The sequence as it is after the turn. */
static void splice_turn(struct run *run, struct episode *e, const struct turn *t)
{
    static const char *const asked[] = {"observation", "observation_tokens"};
    const struct mint_json *doc = e->record.doc;
    struct mint_splices *s = &run->splices;
    struct mint_sample_job *j = run->j;
    mint_json_val obj = t->seq->val;
    const struct mint_gen *g = t->request.gen;
    for (size_t i = 0; i < MINT_ARRAY_LEN(asked); i++) {
        if (mint_json_get(doc, obj, asked[i]) != MINT_JSON_NONE)
            mint_splice_member(s, doc, obj, asked[i], mint_xstrdup("null"));
    }
    bool stop = !t->cut && g->stop;
    mint_splice_member(s, doc, obj, "stop_reason", mint_xstrdup(stop ? "\"stop\"" : "\"length\""));
    j->stopped += stop;
    j->cut += t->cut;
    if (t->cut)
        return;
    mint_splice_member(s, doc, obj, "tokens", longer_tokens(t, g));
    mint_splice_member(s, doc, obj, "logprobs", longer_logprobs(t, g));
    mint_splice_member(s, doc, obj, "text", longer_text(run, t, g));
    mint_splice_member(s, doc, obj, "turns", mint_xasprintf("%lld", (long long)t->number));
    j->turns++;
    j->tokens += g->n;
    j->prompt_tokens += t->request.prompt_n;
}

/* The turns of a sequence come from one policy, or their ratios would mean nothing. */
static int check_policy(struct run *run, struct episode *e, struct mint_err *err)
{
    static const char *const keys[] = {"model", "adapter", "logprobs", "device", "precision"};
    const struct mint_json *doc = e->record.doc;
    struct mint_sampling_info i;
    if (e->group.sampling == MINT_JSON_NONE)
        return 0;
    if (mint_sample_info(run->j, &i, err) < 0)
        return -1;
    const char *const now[] = {i.model, i.adapter, i.logprobs, i.device, i.precision};
    for (size_t k = 0; k < MINT_ARRAY_LEN(keys); k++) {
        mint_json_val v = mint_json_get(doc, e->group.sampling, keys[k]);
        const char *then = mint_record_text(&e->record, v);
        if (v != MINT_JSON_NONE && strcmp(then ? then : "null", now[k] ? now[k] : "null") != 0)
            return mint_json_fail(doc, v, err,
                                  "is %s, and now it is %s: all turns of a sequence come from the "
                                  "same policy",
                                  then ? then : "null", now[k] ? now[k] : "null");
    }
    return 0;
}

static int write_episode(struct run *run, struct episode *e, struct mint_err *err)
{
    struct mint_sample_job *j = run->j;
    bool goes_on = false;
    for (size_t i = 0; i < e->group.nseqs; i++) {
        const struct turn *t = &e->turns[i];
        goes_on |= t->number && !t->cut;
        if (t->number)
            splice_turn(run, e, t);
        else
            j->stopped += t->seq->stop;
    }
    if (goes_on && check_policy(run, e, err) < 0)
        return mint_reader_bad(&e->record, err);
    mint_buf_reset(&run->line);
    mint_splice_apply(&run->splices, e->record.line, e->record.len, &run->line);
    mint_buf_addc(&run->line, '\n');
    j->groups++;
    j->sequences += (int64_t)e->group.nseqs;
    if (mint_out_write(j->out, run->line.data, run->line.len, err) < 0)
        return -1;
    return mint_out_flush(j->out, err);
}

/* Writes the groups at the front that are complete. */
static int flush(struct run *run, struct mint_err *err)
{
    while (run->first && run->first->open == 0 && run->first->asked == run->first->group.nseqs) {
        struct episode *e = run->first;
        if (write_episode(run, e, err) < 0)
            return -1;
        run->first = e->next;
        if (!run->first)
            run->last = NULL;
        free_episode(e);
    }
    return 0;
}

/* 1: a group was read, 0 at the end. */
static int next_episode(struct run *run, struct mint_err *err)
{
    int rc;
    while ((rc = mint_reader_next(&run->reader, err)) > 0) {
        struct episode *e = mint_xcalloc(1, sizeof(*e));
        if (read_episode(run, e, err) == 0) {
            if (run->last)
                run->last->next = e;
            else
                run->first = e;
            run->last = e;
            return 1;
        }
        free_episode(e);
        if (mint_reader_bad(&run->reader, err) < 0)
            return -1;
    }
    return rc;
}

static int next(void *ctx, struct mint_request **out, struct mint_err *err)
{
    struct run *run = ctx;
    for (;;) {
        struct episode *e = run->last;
        while (e && e->asked < e->group.nseqs) {
            struct turn *t = &e->turns[e->asked++];
            if (!t->number || t->cut)
                continue;
            e->open++;
            *out = &t->request;
            return 1;
        }
        if (flush(run, err) < 0)
            return -1;
        int rc = next_episode(run, err);
        if (rc <= 0)
            return rc;
    }
}

static int done(void *ctx, struct mint_request *r, struct mint_err *err)
{
    struct turn *t = r->user;
    t->episode->open--;
    return flush(ctx, err);
}

static void tick(void *ctx, const struct mint_sampler_stats *stats)
{
    struct mint_sample_job *j = ((struct run *)ctx)->j;
    if (j->progress)
        j->progress(j->progress_ctx, j->groups, stats->prompt_tokens, stats->tokens);
}

int mint_sample_continue(struct mint_sample_job *j, struct mint_err *err)
{
    struct run run = {.j = j};
    struct mint_sampler *sampler = NULL;
    mint_reader_init(&run.reader, j->prompts.paths, j->prompts.npaths, j->prompts.skip_bad);
    run.reader.on_skip = j->prompts.on_skip;
    int rc = mint_sampler_new(&sampler, j->policy->model, j->policy->adapter, &j->sampler, err);
    if (rc == 0) {
        struct mint_sampler_calls calls = {next, done, tick, &run};
        rc = mint_sampler_run(sampler, &calls, err);
    }
    if (rc == 0)
        rc = flush(&run, err);
    j->skipped = run.reader.skipped;
    mint_sampler_free(sampler);
    while (run.first) {
        struct episode *e = run.first;
        run.first = e->next;
        free_episode(e);
    }
    mint_reader_close(&run.reader);
    mint_splice_release(&run.splices);
    mint_buf_release(&run.line);
    mint_buf_release(&run.text);
    return rc;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A judge in a model folder: replies by our own sampler at temperature 0, or, with expected, the
 * probabilities of all scores of the scale. A chat model gets the question as one user turn, with
 * its thinking off where that is a choice; a base model as it stands.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "chat.h"
#include "cpu/vmath.h"
#include "fs.h"
#include "mem.h"
#include "policy.h"
#include "replay.h"
#include "sampler.h"
#include "score_judge.h"
#include "tokenizer.h"

enum { SCORES_MAX = 101, CONFIG_MAX = 16 << 20, PREFILL_ROWS = 512, MICRO_TOKENS = 2048 };

struct score_tokens {
    struct mint_tokens ids;
    double value;
};

struct local {
    struct mint_policy policy;
    struct mint_tokenizer *tok;
    struct mint_chat *chat; /* NULL: a base model */
    struct mint_sampler *sampler;
    struct mint_replay *replay;
    struct score_tokens *scores; /* expected */
    size_t nscores;
    size_t shared, longest; /* tokens that all of them begin with; of the longest one */
    const struct mint_judge_calls *calls;
    struct flight *flights; /* all that are under way */
};

struct flight {
    struct flight *next, *prev;
    struct mint_request request;
    struct mint_tokens tokens;
};

static void free_flight(struct local *l, struct flight *f)
{
    if (f->next)
        f->next->prev = f->prev;
    if (f->prev)
        f->prev->next = f->next;
    else
        l->flights = f->next;
    mint_request_release(&f->request);
    mint_tokens_release(&f->tokens);
    free(f);
}

static struct flight *new_flight(struct local *l)
{
    struct flight *f = mint_xcalloc(1, sizeof(*f));
    f->next = l->flights;
    if (f->next)
        f->next->prev = f;
    l->flights = f;
    return f;
}

static void close_local(void *state)
{
    struct local *l = state;
    if (!l)
        return;
    for (size_t i = 0; i < l->nscores; i++)
        mint_tokens_release(&l->scores[i].ids);
    free(l->scores);
    mint_replay_free(l->replay);
    mint_sampler_free(l->sampler);
    while (l->flights)
        free_flight(l, l->flights);
    mint_policy_close(&l->policy);
    mint_chat_close(l->chat);
    mint_tokenizer_close(l->tok);
    free(l);
}

/* --- the scores of a scale, as the model would write them */

static int add_score(struct local *l, int64_t v, bool end, struct mint_err *err)
{
    struct score_tokens *s = &l->scores[l->nscores];
    char text[64];
    int n =
        snprintf(text, sizeof(text), "Score: %lld%s", (long long)v, end && !l->chat ? "\n" : "");
    *s = (struct score_tokens){.value = (double)v};
    l->nscores++;
    MINT_TRY(mint_encode(l->tok, text, (size_t)n, 0, &s->ids, err));
    const struct mint_model_config *c = &l->policy.model->config;
    int32_t eos = mint_tokenizer_eos(l->tok);
    if (eos < 0 && c->eos_n)
        eos = c->eos[0];
    if (end && l->chat && eos >= 0)
        mint_tokens_add(&s->ids, eos);
    for (size_t i = 0; i < s->ids.n; i++)
        if (s->ids.v[i] >= c->vocab)
            return mint_fail(err, MINT_EMODEL, "the judge's tokenizer has more tokens than it");
    return 0;
}

static size_t common(const struct mint_tokens *a, const struct mint_tokens *b)
{
    size_t n = 0;
    while (n < a->n && n < b->n && a->v[n] == b->v[n])
        n++;
    return n;
}

/* Whether a score is how another one begins, as 1 is of 10: then the end has to be asked for too.
 */
static bool ambiguous(const struct local *l)
{
    for (size_t i = 0; i < l->nscores; i++)
        for (size_t j = 0; j < l->nscores; j++)
            if (i != j && common(&l->scores[i].ids, &l->scores[j].ids) == l->scores[i].ids.n)
                return true;
    return false;
}

static int make_scores(struct local *l, const char *scale, struct mint_err *err)
{
    double lo, hi;
    MINT_TRY(mint_judge_scale(scale, &lo, &hi, err));
    if (lo != floor(lo) || hi != floor(hi) || hi - lo >= SCORES_MAX || fabs(lo) > 1e6)
        return mint_fail(err, MINT_EUSAGE,
                         "--expected takes scales of whole numbers, %d at most: such as 0:10",
                         SCORES_MAX);
    l->scores = mint_xcalloc(SCORES_MAX, sizeof(*l->scores));
    for (int pass = 0; pass < 2; pass++) {
        for (double v = lo; v <= hi; v++)
            MINT_TRY(add_score(l, (int64_t)v, pass == 1, err));
        if (pass == 1 || !ambiguous(l))
            break;
        for (size_t i = 0; i < l->nscores; i++)
            mint_tokens_release(&l->scores[i].ids);
        l->nscores = 0;
    }
    l->shared = l->longest = l->scores[0].ids.n;
    for (size_t i = 1; i < l->nscores; i++) {
        l->shared = MINT_MIN(l->shared, common(&l->scores[0].ids, &l->scores[i].ids));
        l->longest = MINT_MAX(l->longest, l->scores[i].ids.n);
    }
    return 0;
}

/* --- opening */

/* Whether the folder has a chat template: mint_chat_open would refuse a base model. */
static bool has_template(const char *dir)
{
    char *path = mint_fs_join(dir, "chat_template.jinja"), *json = NULL;
    bool found = mint_fs_exists(path);
    size_t n;
    free(path);
    if (found)
        return true;
    path = mint_fs_join(dir, "tokenizer_config.json");
    if (mint_fs_exists(path) && mint_fs_read_file(path, CONFIG_MAX, &json, &n, NULL) == 0) {
        struct mint_json *j = mint_json_new();
        found = mint_json_parse(j, json, n, NULL) == 0 &&
                mint_json_type(j, mint_json_get(j, 0, "chat_template")) > MINT_JSON_NULL;
        mint_json_free(j);
        free(json);
    }
    free(path);
    return found;
}

static int open_model(struct local *l, const struct mint_judge_opts *o, struct mint_err *err)
{
    const char *fingerprint;
    struct mint_policy_opts p = {.model = o->model,
                                 .adapter = o->adapter,
                                 .device = o->device,
                                 .precision = o->precision,
                                 .threads = o->threads,
                                 .packed = !o->expected};
    MINT_TRY(mint_tokenizer_open(&l->tok, o->model, err));
    if (has_template(o->model))
        MINT_TRY(mint_chat_open(&l->chat, o->model, err));
    MINT_TRY(mint_policy_open(&l->policy, &p, err));
    return o->adapter ? mint_policy_fingerprint(&l->policy, &fingerprint, err) : 0;
}

static int open_local(const struct mint_judge_opts *o, void **state, struct mint_err *err)
{
    struct local *l = mint_xcalloc(1, sizeof(*l));
    int rc = open_model(l, o, err);
    if (rc < 0)
        mint_wrap(err, "the judge: ");
    const struct mint_model *m = rc == 0 ? l->policy.model : NULL;
    if (rc == 0 && o->expected) {
        rc = make_scores(l, o->scale, err);
        if (rc == 0)
            rc = mint_replay_new(&l->replay, l->policy.model, l->policy.adapter, MICRO_TOKENS, err);
    } else if (rc == 0) {
        struct mint_sampler_opts s = {.temperature = 0,
                                      .top_p = 1,
                                      .max_tokens = o->max_tokens,
                                      .stop_ids = m->config.eos,
                                      .stop_ids_n = (size_t)m->config.eos_n,
                                      .tok = l->tok,
                                      .draw_vocab = mint_tokenizer_size(l->tok),
                                      .slots = o->jobs,
                                      .prefill_rows = PREFILL_ROWS};
        rc = mint_sampler_new(&l->sampler, l->policy.model, l->policy.adapter, &s, err);
    }
    if (rc < 0) {
        close_local(l);
        return -1;
    }
    *state = l;
    return 0;
}

/* --- questions */

/* 0, or 1: it cannot be asked, q says why. */
static int encode(const struct local *l, struct mint_judge_question *q, struct mint_tokens *out)
{
    const struct mint_model_config *c = &l->policy.model->config;
    struct mint_chat_opts o = {.add_generation_prompt = true};
    struct mint_err err = {0};
    int rc;
    if (l->chat && mint_chat_thinks(l->chat))
        o.think = MINT_THINK_OFF;
    if (l->chat)
        rc = mint_chat_encode_user(l->chat, l->tok, q->text, q->text_n, &o, NULL, out, &err);
    else
        rc = mint_encode(l->tok, q->text, q->text_n, MINT_ENCODE_BOS, out, &err);
    size_t room = l->replay ? l->longest : 1;
    if (rc == 0 && out->n + room > (size_t)c->max_positions)
        rc = mint_fail(&err, MINT_ESCHEMA, "the question has %zu tokens, its context is %d", out->n,
                       c->max_positions);
    for (size_t i = 0; rc == 0 && i < out->n; i++)
        if (out->v[i] >= c->vocab)
            rc = mint_fail(&err, MINT_ESCHEMA, "token %d is outside of its vocabulary of %d",
                           out->v[i], c->vocab);
    if (rc == 0 && !out->n)
        rc = mint_fail(&err, MINT_ESCHEMA, "the question is empty");
    if (rc == 0)
        return 0;
    q->failed = true;
    mint_buf_addf(&q->reply, "the judge cannot be asked: %s", err.msg);
    return 1;
}

/* --- replies by sampling */

static int next_request(void *ctx, struct mint_request **out, struct mint_err *err)
{
    struct local *l = ctx;
    struct mint_judge_question *q;
    int rc;
    while ((rc = l->calls->next(l->calls->ctx, false, &q, err)) == 1) {
        struct flight *f = new_flight(l);
        if (encode(l, q, &f->tokens) == 0) {
            f->request = (struct mint_request){
                .prompt = f->tokens.v, .prompt_n = (int64_t)f->tokens.n, .group = 1, .user = q};
            *out = &f->request;
            return 1;
        }
        free_flight(l, f);
        MINT_TRY(l->calls->done(l->calls->ctx, q, err));
    }
    return rc;
}

static int done_request(void *ctx, struct mint_request *r, struct mint_err *err)
{
    struct local *l = ctx;
    struct mint_judge_question *q = r->user;
    struct flight *f = (struct flight *)((char *)r - offsetof(struct flight, request));
    const struct mint_gen *g = &r->gen[0];
    mint_buf_reserve(&q->reply, 0);
    mint_decode(l->tok, g->tokens, (size_t)g->n, true, &q->reply);
    q->cut = !g->stop;
    free_flight(l, f);
    return l->calls->done(l->calls->ctx, q, err);
}

/* --- probabilities of scores */

/* The mean over the scores, each weighted by the probability of its text behind what all share. */
static void take_mean(const struct local *l, const struct mint_response *v,
                      struct mint_judge_question *q)
{
    double lp[SCORES_MAX], top = (double)-INFINITY, sum = 0, mean = 0;
    for (size_t i = 0; i < l->nscores; i++) {
        lp[i] = 0;
        for (int64_t k = (int64_t)l->shared; k < v[i].n; k++)
            lp[i] += (double)v[i].logprobs[k];
        top = MINT_MAX(top, lp[i]);
    }
    for (size_t i = 0; i < l->nscores; i++) {
        double p = (double)cpu_exp((float)MINT_MAX(lp[i] - top, -80));
        sum += p;
        mean += p * l->scores[i].value;
    }
    q->expected = mean / sum;
    q->mass = MINT_MIN((double)cpu_exp((float)MINT_MAX(top, -80)) * sum, 1);
}

static int weigh(struct local *l, struct mint_judge_question *q, const struct mint_tokens *prompt,
                 struct mint_err *err)
{
    struct mint_response v[SCORES_MAX];
    size_t total = 0;
    for (size_t i = 0; i < l->nscores; i++)
        total += l->scores[i].ids.n;
    float *logprobs = mint_xcalloc(total + 1, sizeof(*logprobs)), *at = logprobs;
    for (size_t i = 0; i < l->nscores; i++) {
        const struct mint_tokens *ids = &l->scores[i].ids;
        v[i] = (struct mint_response){.tokens = ids->v, .n = (int64_t)ids->n, .logprobs = at};
        at += ids->n;
    }
    int rc = mint_replay_logprobs(l->replay, prompt->v, (int64_t)prompt->n, v, l->nscores, err);
    if (rc == 0)
        take_mean(l, v, q);
    if (rc == 0 && !isfinite(q->expected)) {
        q->failed = true;
        mint_buf_adds(&q->reply, "the judge's probabilities are not finite");
    }
    free(logprobs);
    return rc;
}

static int run_expected(struct local *l, const struct mint_judge_calls *calls, struct mint_err *err)
{
    struct mint_judge_question *q;
    int rc;
    while ((rc = calls->next(calls->ctx, false, &q, err)) == 1) {
        struct mint_tokens prompt = MINT_TOKENS_INIT;
        int bad = encode(l, q, &prompt);
        if (bad == 0)
            bad = weigh(l, q, &prompt, err);
        mint_tokens_release(&prompt);
        if (bad < 0 || calls->done(calls->ctx, q, err) < 0)
            return -1;
    }
    return rc;
}

static int run_local(void *state, const struct mint_judge_calls *calls, struct mint_err *err)
{
    struct local *l = state;
    if (l->replay)
        return run_expected(l, calls, err);
    struct mint_sampler_calls s = {next_request, done_request, NULL, l};
    l->calls = calls;
    return mint_sampler_run(l->sampler, &s, err);
}

const struct mint_judge_backend mint_judge_local = {open_local, run_local, close_local};

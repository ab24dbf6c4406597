/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>

#include "mem.h"
#include "replay.h"
#include "sample_job.h"

struct run {
    struct mint_sample_job *j;
    struct mint_promptset *set;
    struct mint_replay *replay; /* NULL: no logprobs */
    struct mint_buf line;
};

/* The responses of one record: n of them, of which the first `chosen` are those of --given. */
struct given {
    size_t n, chosen;
    struct mint_buf *text;
    struct mint_tokens *tokens;
    struct mint_response *response;
};

static void release(struct given *g)
{
    for (size_t i = 0; i < g->n; i++) {
        mint_buf_release(&g->text[i]);
        mint_tokens_release(&g->tokens[i]);
        free(g->response[i].logprobs);
    }
    free(g->text);
    free(g->tokens);
    free(g->response);
    *g = (struct given){0};
}

/* Ours to say, since files of preferences often hold conversations there. */
static int not_text(const struct mint_json *doc, mint_json_val v, struct mint_err *err)
{
    return mint_json_fail(doc, v, err,
                          "must be a string, or an array of strings (of a message, its content)");
}

static int add_response(const struct mint_sample_job *j, const struct mint_json *doc,
                        mint_json_val v, struct given *g, struct mint_err *err)
{
    struct mint_buf *text = &g->text[g->n];
    struct mint_tokens *tokens = &g->tokens[g->n];
    *text = (struct mint_buf)MINT_BUF_INIT;
    *tokens = (struct mint_tokens){0};
    g->response[g->n++] = (struct mint_response){0};
    mint_buf_reserve(text, 0);
    if (!mint_json_string(doc, v, text))
        return not_text(doc, v, err);
    if (mint_encode(j->prompt.tok, text->data, text->len, 0, tokens, err) < 0)
        return -1;
    if (j->append_eos)
        mint_tokens_add(tokens, j->eos);
    return 0;
}

/* Reads a field: a string is one response, an array of strings are many. */
static int read_field(const struct mint_sample_job *j, const struct mint_json *doc,
                      const char *field, const char *option, struct given *g, struct mint_err *err)
{
    mint_json_val v = mint_json_get(doc, 0, field);
    if (v == MINT_JSON_NONE)
        return mint_fail(err, MINT_ESCHEMA, "the record has no field \"%s\" (--%s)", field, option);
    bool many = mint_json_type(doc, v) == MINT_JSON_ARRAY;
    size_t n = g->n + (many ? mint_json_size(doc, v) : 1);
    if (n == g->n)
        return mint_json_fail(doc, v, err, "has no response");
    g->text = mint_xreallocarray(g->text, n, sizeof *g->text);
    g->tokens = mint_xreallocarray(g->tokens, n, sizeof *g->tokens);
    g->response = mint_xreallocarray(g->response, n, sizeof *g->response);
    if (!many)
        return add_response(j, doc, v, g, err);
    if (mint_json_is_numbers(doc, v))
        return not_text(doc, v, err);
    for (mint_json_val e = mint_json_first(doc, v); e != MINT_JSON_NONE; e = mint_json_next(doc, e))
        if (add_response(j, doc, e, g, err) < 0)
            return -1;
    return 0;
}

static int read_given(const struct mint_sample_job *j, const struct mint_json *doc, struct given *g,
                      struct mint_err *err)
{
    if (read_field(j, doc, j->given, "given", g, err) < 0)
        return -1;
    g->chosen = g->n;
    return j->rejected ? read_field(j, doc, j->rejected, "rejected", g, err) : 0;
}

static int logprobs(struct run *run, const struct mint_sample_item *item, struct given *g,
                    struct mint_err *err)
{
    for (size_t i = 0; i < g->n; i++) {
        g->response[i].tokens = g->tokens[i].v;
        g->response[i].n = (int64_t)g->tokens[i].n;
        g->response[i].logprobs = mint_xcalloc(g->tokens[i].n, sizeof(float));
    }
    return mint_replay_logprobs(run->replay, item->tokens.v, (int64_t)item->tokens.n, g->response,
                                g->n, err);
}

static int one_record(struct run *run, const struct mint_prompt_record *r,
                      const struct mint_sample_item *item, struct given *g, struct mint_err *err)
{
    struct mint_sample_job *j = run->j;
    struct mint_sampling_info info;
    if (read_given(j, r->doc, g, err) < 0)
        return -1;
    if (run->replay && logprobs(run, item, g, err) < 0)
        return -1;
    if (run->replay && mint_sample_info(j, &info, err) < 0)
        return -1;
    mint_buf_reset(&run->line);
    mint_rollout_begin(&run->line, r->doc, item->line, item->len, item->id.data, item->id.len,
                       &item->text, item->tokens.v, item->tokens.n);
    for (size_t i = 0; i < g->n; i++) {
        mint_rollout_sequence(&run->line, i == 0, g->tokens[i].v, g->response[i].logprobs,
                              g->tokens[i].n, j->append_eos, g->text[i].data, g->text[i].len);
        if (j->rejected)
            mint_rollout_reward(&run->line, "preference", i < g->chosen);
        j->sequences++;
        j->stopped += j->append_eos;
        j->tokens += (int64_t)g->tokens[i].n;
    }
    mint_rollout_end(&run->line, run->replay ? &info : NULL);
    j->groups++;
    j->prompt_tokens += (int64_t)item->tokens.n;
    return mint_out_write(j->out, run->line.data, run->line.len, err);
}

static int all_records(struct run *run, struct mint_err *err)
{
    struct mint_prompt_record r;
    int rc;
    while ((rc = mint_promptset_next(run->set, &r, err)) > 0) {
        struct mint_sample_item item;
        struct given g = {0};
        rc = mint_sample_item_build(run->j, &r, &item, err);
        if (rc == 0) {
            rc = one_record(run, &r, &item, &g, err);
            release(&g);
            mint_sample_item_free(&item);
        }
        if (rc < 0 && mint_promptset_bad(run->set, err) < 0)
            return -1;
        if (run->j->progress)
            run->j->progress(run->j->progress_ctx, run->j->groups, run->j->prompt_tokens,
                             run->j->tokens);
    }
    return rc;
}

int mint_sample_given(struct mint_sample_job *j, struct mint_err *err)
{
    struct run run = {.j = j};
    if (mint_promptset_open(&run.set, &j->prompts, err) < 0)
        return -1;
    int rc = 0;
    if (j->with_logprobs)
        rc = mint_replay_new(&run.replay, j->policy->model, j->policy->adapter, j->micro_tokens,
                             err);
    if (rc == 0)
        rc = all_records(&run, err);
    j->skipped = mint_promptset_skipped(run.set);
    j->excluded = mint_promptset_excluded(run.set);
    mint_replay_free(run.replay);
    mint_promptset_close(run.set);
    mint_buf_release(&run.line);
    return rc;
}

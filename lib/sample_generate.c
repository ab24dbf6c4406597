/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <stdlib.h>

#include "mem.h"
#include "rng.h"
#include "sample_job.h"

/* A prompt in flight. */
struct flight {
    struct mint_request request;
    struct mint_sample_item item;
};

struct run {
    struct mint_sample_job *j;
    struct mint_promptset *set;
    struct mint_json *doc; /* of the record that is written */
    struct mint_buf line, text;
};

/* The prompt's random stream: its id, and the epoch where it is not the first. */
static uint64_t stream_of(const struct mint_sample_job *j, const struct mint_sample_item *item,
                          uint64_t epoch)
{
    struct mint_buf key = MINT_BUF_INIT;
    mint_buf_add(&key, item->id.data, item->id.len);
    if (j->epoch_streams && epoch)
        mint_buf_addf(&key, "#epoch %" PRIu64, epoch);
    uint64_t stream = mint_rng_stream(key.data, key.len);
    mint_buf_release(&key);
    return stream;
}

static int next(void *ctx, struct mint_request **out, struct mint_err *err)
{
    struct run *run = ctx;
    struct mint_prompt_record r;
    int rc;
    while ((rc = mint_promptset_next(run->set, &r, err)) > 0) {
        struct flight *f = mint_xcalloc(1, sizeof *f);
        if (mint_sample_item_build(run->j, &r, &f->item, err) == 0) {
            f->request = (struct mint_request){
                .prompt = f->item.tokens.v,
                .prompt_n = (int64_t)f->item.tokens.n,
                .stream = stream_of(run->j, &f->item, r.epoch),
                .group = (int32_t)run->j->group,
                .user = f,
            };
            *out = &f->request;
            return 1;
        }
        free(f);
        if (mint_promptset_bad(run->set, err) < 0)
            return -1;
    }
    return rc;
}

static int write_group(struct run *run, struct flight *f, struct mint_err *err)
{
    struct mint_sample_job *j = run->j;
    struct mint_sampling_info info;
    const struct mint_sample_item *item = &f->item;
    if (mint_sample_info(j, &info, err) < 0 ||
        mint_json_parse(run->doc, item->line, item->len, err) < 0)
        return -1;
    mint_buf_reset(&run->line);
    mint_rollout_begin(&run->line, run->doc, item->line, item->len, item->id.data, item->id.len,
                       &item->text, item->tokens.v, item->tokens.n);
    for (int32_t i = 0; i < f->request.group; i++) {
        const struct mint_gen *g = &f->request.gen[i];
        mint_sample_text(j, g, &run->text);
        mint_rollout_sequence(&run->line, i == 0, g->tokens, g->logprobs, (size_t)g->n, g->stop,
                              run->text.data, run->text.len);
        j->sequences++;
        j->tokens += g->n;
        j->stopped += g->stop;
    }
    mint_rollout_end(&run->line, &info);
    j->groups++;
    j->prompt_tokens += (int64_t)item->tokens.n;
    if (mint_out_write(j->out, run->line.data, run->line.len, err) < 0)
        return -1;
    return mint_out_flush(j->out, err);
}

static void free_flight(struct flight *f)
{
    mint_request_release(&f->request);
    mint_sample_item_free(&f->item);
    free(f);
}

static int done(void *ctx, struct mint_request *r, struct mint_err *err)
{
    struct run *run = ctx;
    struct flight *f = r->user;
    int rc = write_group(run, f, err);
    free_flight(f);
    return rc;
}

static void tick(void *ctx, const struct mint_sampler_stats *stats)
{
    struct run *run = ctx;
    if (run->j->progress)
        run->j->progress(run->j->progress_ctx, stats->groups, stats->prompt_tokens, stats->tokens);
}

int mint_sample_generate(struct mint_sample_job *j, struct mint_err *err)
{
    struct run run = {.j = j};
    struct mint_sampler *sampler = NULL;
    int rc = mint_promptset_open(&run.set, &j->prompts, err);
    if (rc < 0)
        return -1;
    run.doc = mint_json_new();
    rc = mint_sampler_new(&sampler, j->policy->model, j->policy->adapter, &j->sampler, err);
    if (rc == 0) {
        struct mint_sampler_calls calls = {next, done, tick, &run};
        rc = mint_sampler_run(sampler, &calls, err);
    }
    j->skipped = mint_promptset_skipped(run.set);
    j->excluded = mint_promptset_excluded(run.set);
    mint_sampler_free(sampler);
    mint_promptset_close(run.set);
    mint_json_free(run.doc);
    mint_buf_release(&run.line);
    mint_buf_release(&run.text);
    return rc;
}

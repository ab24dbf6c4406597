/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "mem.h"
#include "replay.h"
#include "sample_job.h"

struct run {
    struct mint_sample_job *j;
    struct mint_reader reader;
    struct mint_replay *replay;
    struct mint_splices splices;
    struct mint_buf line;
};

static char *json_text(const char *s)
{
    struct mint_buf b = MINT_BUF_INIT;
    if (s)
        mint_json_put_str(&b, s);
    else
        mint_buf_adds(&b, "null");
    return mint_buf_detach(&b);
}

/* New logprobs say whose they are: model, adapter, step, kind of logprob, device, precision. */
static void splice_sampling(struct run *run, mint_json_val sampling,
                            const struct mint_sampling_info *info)
{
    const struct mint_json *doc = run->reader.doc;
    struct mint_splices *s = &run->splices;
    if (sampling == MINT_JSON_NONE)
        return;
    mint_splice_member(s, doc, sampling, "model", json_text(info->model));
    mint_splice_member(s, doc, sampling, "adapter", json_text(info->adapter));
    mint_splice_member(s, doc, sampling, "step", mint_xasprintf("%lld", (long long)info->step));
    mint_splice_member(s, doc, sampling, "logprobs", json_text("policy"));
    mint_splice_member(s, doc, sampling, "device", json_text(info->device));
    mint_splice_member(s, doc, sampling, "precision", json_text(info->precision));
}

static int recompute(struct run *run, const struct mint_group *g, struct mint_response *v,
                     struct mint_err *err)
{
    for (size_t i = 0; i < g->nseqs; i++) {
        float *lp = mint_arena_alloc(&run->reader.arena, (g->seqs[i].n + 1) * sizeof *lp);
        v[i] = (struct mint_response){g->seqs[i].tokens, (int64_t)g->seqs[i].n, lp};
    }
    return mint_replay_logprobs(run->replay, g->prompt_tokens, (int64_t)g->prompt_n, v, g->nseqs,
                                err);
}

static int one_group(struct run *run, struct mint_err *err)
{
    struct mint_sample_job *j = run->j;
    struct mint_group g;
    struct mint_sampling_info info;
    bool own = strcmp(j->as, "logprobs") == 0; /* not those of a reference */
    if (mint_group_read(&run->reader, true, &g, err) < 0)
        return -1;
    struct mint_response *v = mint_arena_alloc(&run->reader.arena, (g.nseqs + 1) * sizeof *v);
    if (recompute(run, &g, v, err) < 0 || mint_sample_info(j, &info, err) < 0)
        return -1;
    for (size_t i = 0; i < g.nseqs; i++) {
        struct mint_buf b = MINT_BUF_INIT;
        for (size_t k = 0; own && k < g.seqs[i].n; k++) {
            if (mint_sequence_observed(&g.seqs[i], k))
                v[i].logprobs[k] = NAN; /* printed as null */
        }
        mint_json_put_floats(&b, v[i].logprobs, (size_t)v[i].n);
        mint_splice_member(&run->splices, run->reader.doc, g.seqs[i].val, j->as,
                           mint_buf_detach(&b));
        j->sequences++;
        j->tokens += v[i].n;
        j->stopped += g.seqs[i].stop;
    }
    if (own)
        splice_sampling(run, g.sampling, &info);
    mint_buf_reset(&run->line);
    mint_splice_apply(&run->splices, run->reader.line, run->reader.len, &run->line);
    mint_buf_addc(&run->line, '\n');
    j->groups++;
    j->prompt_tokens += (int64_t)g.prompt_n;
    return mint_out_write(j->out, run->line.data, run->line.len, err);
}

int mint_sample_replay(struct mint_sample_job *j, struct mint_err *err)
{
    struct run run = {.j = j};
    mint_reader_init(&run.reader, j->prompts.paths, j->prompts.npaths, j->prompts.skip_bad);
    run.reader.on_skip = j->prompts.on_skip;
    int rc =
        mint_replay_new(&run.replay, j->policy->model, j->policy->adapter, j->micro_tokens, err);
    while (rc == 0 && (rc = mint_reader_next(&run.reader, err)) > 0) {
        rc = one_group(&run, err);
        if (rc < 0)
            rc = mint_reader_bad(&run.reader, err);
        if (j->progress)
            j->progress(j->progress_ctx, j->groups, j->prompt_tokens, j->tokens);
    }
    j->skipped = run.reader.skipped;
    mint_replay_free(run.replay);
    mint_reader_close(&run.reader);
    mint_splice_release(&run.splices);
    mint_buf_release(&run.line);
    return rc;
}

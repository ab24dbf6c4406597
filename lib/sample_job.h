/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sample_job.h: the four things that mint-sample does: generate responses, go on with responses
 * that an environment has answered (continue), take over responses that records hold (given), and
 * recompute the logprobs of rollouts (replay). Each reads all its records and writes all its
 * groups.
 */
#ifndef MINT_SAMPLE_JOB_H
#define MINT_SAMPLE_JOB_H

#include "policy.h"
#include "prompt.h"
#include "promptset.h"
#include "rollout.h"
#include "sampler.h"

struct mint_sample_job {
    /* set by the caller */
    struct mint_promptset_opts prompts;
    struct mint_prompt_opts prompt;
    struct mint_sampler_opts sampler;
    double temperature, top_p; /* as given, for the record */
    int64_t group;
    bool epoch_streams;         /* a prompt that comes again in a later epoch draws anew */
    struct mint_policy *policy; /* NULL: given without logprobs */
    struct mint_out *out;
    const char *given;              /* field with responses */
    const char *rejected;           /* field with worse ones, or NULL */
    bool append_eos;                /* to a given response */
    int32_t eos;                    /* -1: none */
    bool with_logprobs;             /* of given responses */
    int64_t micro_tokens;           /* of given and replay */
    const char *as;                 /* replay: "logprobs" or another name */
    int64_t max_positions;          /* of the model; 0: unknown */
    int64_t step;                   /* of the adapter */
    int64_t max_turns;              /* of continue; 0: no limit */
    const char *device, *precision; /* for the record */
    void (*progress)(void *ctx, int64_t groups, int64_t prompt_tokens, int64_t tokens); /* so far */
    void *progress_ctx;

    /* results */
    int64_t groups, sequences, tokens, prompt_tokens, stopped;
    int64_t turns, cut; /* of continue: drawn; not drawn, for max_turns or the context's end */
    uint64_t skipped, excluded;
};

int mint_sample_generate(struct mint_sample_job *j, struct mint_err *err);
int mint_sample_continue(struct mint_sample_job *j, struct mint_err *err);
int mint_sample_given(struct mint_sample_job *j, struct mint_err *err);
int mint_sample_replay(struct mint_sample_job *j, struct mint_err *err);
/* The prompts as they would be given to the model, a JSON line each, and nothing else done. */
int mint_sample_dry_run(struct mint_sample_job *j, struct mint_err *err);

/* --- shared by them */

/* A record with its prompt, kept until its group is written. */
struct mint_sample_item {
    char *line;
    size_t len;
    struct mint_buf id, text;
    struct mint_tokens tokens;
};
void mint_sample_item_free(struct mint_sample_item *item);
/* Reads the prompt of r. own_tokens is found out here; reserved names are refused. */
int mint_sample_item_build(const struct mint_sample_job *j, const struct mint_prompt_record *r,
                           struct mint_sample_item *item, struct mint_err *err);
/* Text of a sequence, in place of what is in text: without special tokens, and up to the stop
 * string that ended it. A character that was cut is repaired when the text is written. */
void mint_sample_text(const struct mint_sample_job *j, const struct mint_gen *g,
                      struct mint_buf *text);
/* The sampling object of this job's records. */
int mint_sample_info(struct mint_sample_job *j, struct mint_sampling_info *info,
                     struct mint_err *err);

#endif

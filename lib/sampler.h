/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sampler.h: groups of responses from a model, many prompts at a time.
 *
 * Continuous batching: a step runs one forward over one row for each running sequence and over
 * pieces of prompts that are being read; a sequence that ends frees its slot at once. A group's
 * prompt is read once: its whole KV pages are shared by the group's sequences, its last, partial
 * page is copied for each. Rows don't influence each other (backend.h), and draws are keyed by
 * (seed, prompt stream, sample index, position): the result does not depend on slots, neighbours,
 * order or threads.
 */
#ifndef MINT_SAMPLER_H
#define MINT_SAMPLER_H

#include "buf.h"
#include "lora.h"
#include "model.h"
#include "tokenizer.h"

struct mint_sampler_opts {
    float temperature, top_p;
    int32_t top_k;
    int64_t max_tokens;
    uint64_t seed;
    const int32_t *stop_ids; /* tokens that end a sequence; kept in it */
    size_t stop_ids_n;
    const char *const *stop_strings; /* text that ends a sequence; needs tok */
    size_t stop_strings_n;
    const struct mint_tokenizer *tok; /* may be NULL without stop strings */
    bool behavior;        /* logprobs of the distribution drawn from, instead of the policy's */
    int32_t draw_vocab;   /* ids from here on are never drawn; 0: all */
    int64_t slots;        /* sequences that run at a time */
    int64_t prefill_rows; /* prompt rows of a step, at most */
    size_t kv_bytes;      /* most memory for keys and values; 0: what the slots need */
};

/* One generated sequence. */
struct mint_gen {
    int32_t *tokens;
    float *logprobs;
    int64_t n;
    bool stop; /* false: max_tokens or the context's end */
    struct mint_buf
        text;        /* exact bytes of the tokens but special ones; filled only with stop strings */
    size_t text_end; /* bytes of text up to and with the stop string; text.len without one */
};

/* A prompt and its responses. The caller fills the first part; gen is allocated by the sampler and
 * freed by mint_request_release. */
struct mint_request {
    const int32_t *prompt;
    int64_t prompt_n;          /* at least 1, below the model's max_positions */
    uint64_t stream;           /* from the prompt's id: mint_rng_stream */
    int32_t group;             /* responses wanted, at least 1 */
    uint32_t sample, position; /* of the first response and its first token in the stream; 0, but
                                  where a response goes on */
    void *user;

    struct mint_gen *gen;
};
void mint_request_release(struct mint_request *r);

struct mint_sampler_stats {
    int64_t prompt_tokens, tokens, sequences, groups, steps;
};

struct mint_sampler;
int mint_sampler_new(struct mint_sampler **s, struct mint_model *m, const struct mint_adapter *a,
                     const struct mint_sampler_opts *o, struct mint_err *err);
void mint_sampler_free(struct mint_sampler *s);

struct mint_sampler_calls {
    /* 1: *r is the next prompt (it stays the caller's and must live until done), 0: no more, -1. */
    int (*next)(void *ctx, struct mint_request **r, struct mint_err *err);
    /* A group is complete; called in the order of next. */
    int (*done)(void *ctx, struct mint_request *r, struct mint_err *err);
    /* When the tokens of a step are drawn and before done is called for what they complete, for
     * progress; may be NULL. */
    void (*tick)(void *ctx, const struct mint_sampler_stats *stats);
    void *ctx;
};
int mint_sampler_run(struct mint_sampler *s, const struct mint_sampler_calls *calls,
                     struct mint_err *err);
const struct mint_sampler_stats *mint_sampler_get_stats(const struct mint_sampler *s);
/* KV bytes that this many slots of groups of this size take, for planning. */
size_t mint_sampler_kv_bytes(const struct mint_model *m, int64_t slots, int64_t group,
                             int64_t prompt_n, int64_t max_tokens);

#endif

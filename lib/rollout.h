/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rollout.h: writing rollout groups. What a record holds passes through byte for byte;
 * prompt_tokens, sequences and sampling are added behind it, id (as "line:N") and prompt where the
 * record has none.
 */
#ifndef MINT_ROLLOUT_H
#define MINT_ROLLOUT_H

#include "buf.h"
#include "json.h"

/* How the sequences came about: the record's "sampling" object. */
struct mint_sampling_info {
    const char *model;   /* fingerprint */
    const char *adapter; /* fingerprint, NULL: none */
    int64_t step;        /* the adapter's optimiser steps */
    uint64_t seed;
    double temperature, top_p;
    int64_t top_k, max_tokens;
    const char *logprobs; /* "policy", "behavior", NULL: none */
    const char *device, *precision;
};

/* Names that only the tools write may not be in a prompt record. own_prompt_tokens: prompt_tokens
 * is the prompt itself. */
int mint_rollout_check(const struct mint_json *doc, bool own_prompt_tokens, struct mint_err *err);

/* "{", the record's own bytes, and what comes before the first sequence. line[0..len) is the
 * record's text. */
void mint_rollout_begin(struct mint_buf *b, const struct mint_json *doc, const char *line,
                        size_t len, const char *id, size_t id_n, const struct mint_buf *prompt,
                        const int32_t *prompt_tokens, size_t prompt_n);
/* One sequence. logprobs NULL: null. text: bytes; invalid UTF-8 becomes U+FFFD. */
void mint_rollout_sequence(struct mint_buf *b, bool first, const int32_t *tokens,
                           const float *logprobs, size_t n, bool stop, const char *text,
                           size_t text_n);
/* Adds a reward to the sequence that was written last, as the score of that name. */
void mint_rollout_reward(struct mint_buf *b, const char *score, double reward);
/* The sampling object (NULL: none), "}" and the newline. */
void mint_rollout_end(struct mint_buf *b, const struct mint_sampling_info *s);

/* --- changes in a copy of a record's text: put new bytes in place of old ones. */
struct mint_splice {
    const char *at; /* in the text */
    size_t n;       /* bytes that go away */
    char *text;     /* bytes that come, malloc'ed; freed by apply */
};
struct mint_splices {
    struct mint_splice *v;
    size_t n, cap;
};
/* Value of key in object obj becomes text (malloc'ed JSON, taken); added behind the last member
 * where it is missing. */
void mint_splice_member(struct mint_splices *s, const struct mint_json *doc, mint_json_val obj,
                        const char *key, char *text_take);
/* Appends line with all changes made, in the order of their places, and forgets them. */
void mint_splice_apply(struct mint_splices *s, const char *line, size_t len, struct mint_buf *out);
void mint_splice_release(struct mint_splices *s);

#endif

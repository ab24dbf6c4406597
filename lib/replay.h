/* SPDX-License-Identifier: Apache-2.0 */
/*
 * replay.h: logprobs of given responses under a model, by the trainer's forward pass (the same bits
 * as sampling gives).
 */
#ifndef MINT_REPLAY_H
#define MINT_REPLAY_H

#include "lora.h"
#include "model.h"

struct mint_response {
    const int32_t *tokens;
    int64_t n;
    float *logprobs; /* n values, filled */
};

struct mint_replay;
/* micro_tokens: positions of one forward pass, about. */
int mint_replay_new(struct mint_replay **r, struct mint_model *m, const struct mint_adapter *a,
                    int64_t micro_tokens, struct mint_err *err);
void mint_replay_free(struct mint_replay *r);
/* Every id must be below the model's vocabulary, the prompt not empty, the whole within the
 * context: an error otherwise. */
int mint_replay_logprobs(struct mint_replay *r, const int32_t *prompt, int64_t prompt_n,
                         struct mint_response *v, size_t n, struct mint_err *err);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * weights_map.h: the tensors that a model with a given config has, by Hugging Face's names: the one
 * list that checks a model folder, makes a new one (mint-init) and merges an adapter (mint-export).
 * Thread-safe.
 */
#ifndef MINT_WEIGHTS_MAP_H
#define MINT_WEIGHTS_MAP_H

#include "base.h"
#include "err.h"
#include "model_config.h"
#include "safetensors.h"

enum mint_weight_kind { MINT_WEIGHT_EMBED, MINT_WEIGHT_MATRIX, MINT_WEIGHT_BIAS, MINT_WEIGHT_NORM };
struct mint_weight_spec {
    char name[80]; /* "model.layers.0.self_attn.q_proj.weight" */
    enum mint_weight_kind kind;
    int ndim; /* 2: [rows, cols] = [out, in]; 1: [rows] */
    int64_t shape[2];
};
/* Number of tensors, and the i-th: embedding, layer by layer, final norm, lm_head (untied only). */
size_t mint_weights_count(const struct mint_model_config *c);
void mint_weights_at(const struct mint_model_config *c, size_t i, struct mint_weight_spec *s);

/*
 * Every tensor that the config asks for is there, of type F32, BF16 or F16 and of the right shape,
 * and there is none that the model would have to use and cannot (rotary tables and the head of a
 * tied model may be there). The error names the tensor and both shapes. dir is for the message.
 */
int mint_weights_check(const struct mint_st *st, const struct mint_model_config *c, const char *dir,
                       struct mint_err *err);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * model.h: the frozen weights of a model folder on a device. Read-only after open; belongs to the
 * device's thread.
 */
#ifndef MINT_MODEL_H
#define MINT_MODEL_H

#include "backend.h"
#include "model_config.h"
#include "safetensors.h"

/* The linear maps that LoRA can sit on: seven a layer, and the output head once. */
enum mint_module {
    MINT_MOD_Q,
    MINT_MOD_K,
    MINT_MOD_V,
    MINT_MOD_O,
    MINT_MOD_GATE,
    MINT_MOD_UP,
    MINT_MOD_DOWN,
    MINT_MOD_LAYER_N, /* number of modules of a layer */
    MINT_MOD_HEAD = MINT_MOD_LAYER_N,
};

struct mint_layer {
    struct mint_weight *w[MINT_MOD_LAYER_N];
    float *bias[MINT_MOD_LAYER_N]; /* device f32, NULL: none */
    float *norm1, *norm2;          /* before attention, before the MLP */
    float *qnorm, *knorm;          /* Qwen3, or NULL */
};

struct mint_model {
    struct mint_model_config config;
    struct mint_dev *dev;
    struct mint_st *st;               /* the mapped files */
    struct mint_weight *embed, *head; /* head == embed where the model is tied and not packed */
    float *norm;                      /* final norm */
    float *inv_freq;                  /* host, head_dim / 2 */
    struct mint_layer *layers;
    struct mint_attn_shape attn;
    bool to_pack; /* matrices that mint_model_pack has yet to lay out */
};

/* packed: the matrices shall be laid out for few rows (sampling), now or by mint_model_pack;
 * otherwise the mapped rows serve (training). */
int mint_model_open(struct mint_model **m, const char *dir, struct mint_dev *dev, bool packed,
                    struct mint_err *err);
/* Lays out what mint_model_open left mapped, if anything. It takes as much memory as the weights
 * and the time to fill it, so that a first step is sooner without; results are the same. Not while
 * an op runs. After an error the model can only be closed. */
int mint_model_pack(struct mint_model *m, struct mint_err *err);
/* From config.json alone, to plan with: no weights, nothing to compute with. */
int mint_model_outline(struct mint_model **m, const char *dir, struct mint_dev *dev,
                       struct mint_err *err);
/* Whether the folder has weights, as far as names go. */
bool mint_model_has_weights(const char *dir);
void mint_model_close(struct mint_model *m);

/* Rows (outputs) and columns (inputs) of a module; its name in checkpoints ("self_attn.q_proj",
 * "lm_head"). */
int64_t mint_module_out(const struct mint_model_config *c, enum mint_module mod);
int64_t mint_module_in(const struct mint_model_config *c, enum mint_module mod);
const char *mint_module_name(enum mint_module mod);

#endif

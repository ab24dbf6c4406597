/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lora.h: an adapter on a device: W' = W + (alpha / r) B A (Hu et al. 2021), A [r, in] uniform in
 * +-1/sqrt(in) from the seed, B [out, r] zero at the start. Masters are float32; the products use
 * them rounded to the device's activation type (mint_adapter_sync after a change). Belongs to the
 * device's thread.
 */
#ifndef MINT_LORA_H
#define MINT_LORA_H

#include "checkpoint.h"
#include "model.h"

/* One trainable tensor. */
struct mint_param {
    char name[128]; /* PEFT's: base_model.model.model.layers.0.self_attn.q_proj.lora_A.weight */
    int64_t rows, cols;
    float *value; /* device f32 [rows, cols] */
    struct mint_weight *weight;
};

struct mint_adapter {
    struct mint_dev *dev;
    struct mint_adapter_config config;
    struct mint_lora *lora; /* [layers * MINT_MOD_LAYER_N + 1]; a NULL where the module has none */
    struct mint_param *param; /* two a module: A, then B; in model order */
    size_t nparams, slots;
    int32_t *param_of; /* for each lora entry: index of its A in param (B is next), or -1 */
};

/* Fresh (B = 0), from config.rank, alpha, attn, mlp, unembed. */
int mint_adapter_new(struct mint_adapter **a, const struct mint_model *m,
                     const struct mint_adapter_config *config, uint64_t seed, struct mint_err *err);
/* From a checkpoint's tensors; every module that the config names must be there with the right
 * shape, and nothing else. */
int mint_adapter_load(struct mint_adapter **a, const struct mint_model *m,
                      const struct mint_checkpoint *ck, struct mint_err *err);
void mint_adapter_close(struct mint_adapter *a); /* NULL is fine */

/* Carries the masters into the weights that the products use. */
int mint_adapter_sync(struct mint_adapter *a, struct mint_err *err);

/* The op argument of a module of a layer (MINT_MOD_HEAD: layer is ignored); NULL without adapter or
 * without LoRA there. */
const struct mint_lora *mint_adapter_lora(const struct mint_adapter *a, int layer,
                                          enum mint_module mod);
/* Index of the module's A in param (its B is the next), -1: none. */
int mint_adapter_param(const struct mint_adapter *a, int layer, enum mint_module mod);

#endif

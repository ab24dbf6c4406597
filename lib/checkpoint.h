/* SPDX-License-Identifier: Apache-2.0 */
/*
 * checkpoint.h: a checkpoint folder, which is a PEFT adapter folder: adapter_config.json, adapter_model.safetensors (F32),
 * optimizer.safetensors (Adam m and v under "m.NAME", "v.NAME"; absent in a bare adapter), trainer_state.json.
 * Tensor names are PEFT's: base_model.model.model.layers.N.self_attn.q_proj.lora_A.weight [r, in], ...lora_B.weight [out, r],
 * base_model.model.lm_head.lora_A.weight. Read-only after open.
 */
#ifndef MINT_CHECKPOINT_H
#define MINT_CHECKPOINT_H

#include "base.h"
#include "err.h"
#include "safetensors.h"

struct mint_adapter_config {
    int32_t rank;
    double alpha;
    bool attn, mlp, unembed; /* from target_modules; anything else there is an error that names it */
    char base_model[256];    /* base_model_name_or_path as written */
};
struct mint_trainer_state {
    int64_t step;     /* optimiser steps done, all runs */
    int64_t tokens;   /* trained positions with weight != 0 */
    char base[72];    /* fingerprint of the base model's tensors */
    char parent[72];  /* fingerprint of the parent adapter, "" for a fresh one */
    char datums[72];  /* sha256 of the datums consumed */
    char options[72]; /* sha256 of the canonical option text */
    char *options_json; /* that text; free() by close */
};
struct mint_checkpoint {
    struct mint_adapter_config config;
    struct mint_trainer_state state; /* step 0 and empty strings where trainer_state.json is absent */
    struct mint_st *adapter, *optimizer; /* optimizer NULL if absent */
    char fingerprint[72];            /* of adapter_model.safetensors */
};
int mint_checkpoint_open(struct mint_checkpoint *c, const char *dir, struct mint_err *err);
void mint_checkpoint_close(struct mint_checkpoint *c);

/* What to write. Tensors in the order given (name order for stable bytes); m and v may be NULL (no optimizer file). */
struct mint_checkpoint_tensor {
    const char *name;
    int64_t rows, cols;
    const float *data, *m, *v;
};
/* Atomic (fs.h). metrics_json: an object's text that goes into trainer_state.json under "metrics", or NULL. Fails if dir exists and !force.
 * On success fingerprint (72 bytes, may be NULL) is the written adapter's. */
int mint_checkpoint_write(const char *dir, bool force, const struct mint_adapter_config *config, const struct mint_trainer_state *state,
                          const struct mint_checkpoint_tensor *t, size_t n, const char *metrics_json, char *fingerprint, struct mint_err *err);
/* The text of adapter_config.json for this config (used by export too). Appended to b. */
struct mint_buf;
void mint_adapter_config_json(const struct mint_adapter_config *c, struct mint_buf *b);

#endif

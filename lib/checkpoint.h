/* SPDX-License-Identifier: Apache-2.0 */
/*
 * checkpoint.h: a checkpoint folder, which is a PEFT adapter folder: adapter_config.json,
 * adapter_model.safetensors (F32), optimizer.safetensors (Adam m and v under "m.NAME", "v.NAME";
 * absent in a bare adapter), trainer_state.json. Tensor names are PEFT's:
 * base_model.model.model.layers.N.self_attn.q_proj.lora_A.weight [r, in], ...lora_B.weight [out,
 * r], base_model.model.lm_head.lora_A.weight. Read-only after open.
 */
#ifndef MINT_CHECKPOINT_H
#define MINT_CHECKPOINT_H

#include "base.h"
#include "err.h"
#include "safetensors.h"

/* Bits of mint_adapter_config.modules, in the order of a layer; HEAD is the output head (lm_head).
 */
enum mint_adapter_module {
    MINT_ADAPTER_Q = 1,
    MINT_ADAPTER_K = 2,
    MINT_ADAPTER_V = 4,
    MINT_ADAPTER_O = 8,
    MINT_ADAPTER_GATE = 16,
    MINT_ADAPTER_UP = 32,
    MINT_ADAPTER_DOWN = 64,
    MINT_ADAPTER_HEAD = 128,
};

struct mint_adapter_config {
    int32_t rank;
    double alpha;
    bool attn, mlp, unembed; /* any of q,k,v,o; any of gate,up,down; lm_head */
    unsigned modules; /* exactly which (enum mint_adapter_module); 0 when written by hand: whole
                         groups */
    char base_model[1024]; /* base_model_name_or_path as written */
};
/* The modules that the config names: modules, or the groups that attn, mlp and unembed stand for.
 */
unsigned mint_adapter_modules(const struct mint_adapter_config *c);
/* "self_attn.q_proj", ..., "lm_head"; bit is one of enum mint_adapter_module. */
const char *mint_adapter_module_name(unsigned bit);

struct mint_trainer_state {
    int64_t step;       /* optimiser steps done, all runs */
    int64_t tokens;     /* trained positions with weight != 0 */
    char base[72];      /* fingerprint of the base model's tensors */
    char parent[72];    /* fingerprint of the parent adapter, "" for a fresh one */
    char datums[72];    /* sha256 of the datums consumed */
    char options[72];   /* sha256 of the canonical option text */
    char *options_json; /* that text, a JSON object; NULL if none. After open, close frees it */
};
struct mint_checkpoint {
    struct mint_adapter_config config;
    struct mint_trainer_state
        state;      /* step 0 and empty strings where trainer_state.json is absent */
    bool has_state; /* trainer_state.json is there */
    struct mint_st *adapter, *optimizer; /* optimizer NULL if absent */
    char fingerprint[72];                /* of adapter_model.safetensors */
};
/*
 * Opens and checks: every tensor belongs to a module that adapter_config.json names, has its
 * partner and the rank r (F32, BF16 or F16); the optimizer's tensors match the adapter's; the
 * adapter's fingerprint is the one that trainer_state.json recorded. Whatever PEFT can write and
 * these tools do not compute (DoRA, rsLoRA, biases, patterns, modules_to_save, ...) is an error
 * that names it. Shapes against a base model are checked by who has one. On failure nothing is left
 * open.
 */
int mint_checkpoint_open(struct mint_checkpoint *c, const char *dir, struct mint_err *err);
void mint_checkpoint_close(struct mint_checkpoint *c);

/* The pair of one module, by the base's name for it ("model.layers.0.self_attn.q_proj", "lm_head").
 * False: no LoRA there. */
bool mint_checkpoint_pair(const struct mint_checkpoint *c, const char *module,
                          const struct mint_st_tensor **a, const struct mint_st_tensor **b);

/* What to write. Tensors in the order given (name order for stable bytes); m and v may be NULL (no
 * optimizer file). */
struct mint_checkpoint_tensor {
    const char *name;
    int64_t rows, cols;
    const float *data, *m, *v;
};
/*
 * Atomic (fs.h). metrics_json: an object's text that goes into trainer_state.json under "metrics",
 * or NULL. Fails if dir exists and !force. state NULL: a bare adapter without trainer_state.json.
 * On success fingerprint (72 bytes, may be NULL) is the written adapter's. The bytes depend on the
 * arguments alone.
 */
int mint_checkpoint_write(const char *dir, bool force, const struct mint_adapter_config *config,
                          const struct mint_trainer_state *state,
                          const struct mint_checkpoint_tensor *t, size_t n,
                          const char *metrics_json, char *fingerprint, struct mint_err *err);
/* The text of adapter_config.json for this config (used by export too). Appended to b. */
struct mint_buf;
void mint_adapter_config_json(const struct mint_adapter_config *c, struct mint_buf *b);

#endif

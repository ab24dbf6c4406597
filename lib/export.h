/* SPDX-License-Identifier: Apache-2.0 */
/*
 * export.h: an adapter leaves the loop: as a PEFT folder, or merged into its base as a Hugging Face
 * model folder. Every export is written beside its target, read back, compared with what the source
 * gives, and only then renamed into place. Memory is bounded by one chunk of rows and one adapter
 * pair.
 */
#ifndef MINT_EXPORT_H
#define MINT_EXPORT_H

#include "base.h"
#include "checkpoint.h"
#include "err.h"
#include "model_config.h"
#include "safetensors.h"

struct mint_export {
    const char *model, *adapter, *to; /* folders */
    bool force;                       /* replace `to` */
    int dtype;                        /* enum mint_dtype, or -1: peft F32, hf each tensor's own */
    const char
        *base_name; /* peft: base_model_name_or_path; NULL: the adapter's own, or else `model` */
    const char *target; /* peft: an engine that must be able to load it ("vllm"), NULL: none */
    void (*progress)(void *ctx, double done, double total); /* elements; NULL: not wanted */
    void *ctx;
};

struct mint_export_result {
    char digest[72];         /* fingerprint of the tensors that were written */
    size_t tensors, modules; /* tensors written; modules that carry LoRA */
    bool tied_head;          /* the base is tied and the adapter changes the head: hf untied it */
    double delta;            /* hf: norm of the update over all merged tensors ... */
    double lost;             /* ... and of what rounding to the stored type took away or added */
};

/* Base and adapter, opened and checked against each other. */
struct mint_export_source {
    struct mint_model_config config;
    struct mint_st *base;
    struct mint_checkpoint ck;
    bool tied_head;
    size_t modules;
};
/*
 * Errors: the model folder is not whole; a LoRA tensor does not fit its base tensor or has none;
 * an adapter value is not finite; trainer_state.json names another base model (a bare adapter
 * without it is taken). On failure nothing is left open.
 */
int mint_export_open(struct mint_export_source *s, const struct mint_export *o,
                     struct mint_err *err);
void mint_export_close(struct mint_export_source *s);

int mint_export_peft(const struct mint_export *o, struct mint_export_result *res,
                     struct mint_err *err);
/*
 * W + alpha/r B A for every module with LoRA, in double, rounded once to float32 and once to the
 * stored type. A head LoRA on a tied model gives lm_head.weight = embedding + delta, leaves the
 * embedding alone and sets tie_word_embeddings to false. All other files are copied byte for byte;
 * config.json is changed only where it must be. The shards of the base stay.
 */
int mint_export_hf(const struct mint_export *o, struct mint_export_result *res,
                   struct mint_err *err);

/* --- parts of mint_export_hf that have tests of their own. */
struct mint_buf;
/* Appends json to out with the top-level member key set to value (raw JSON): in place, or as a new
 * first member. */
int mint_export_edit_json(const char *json, size_t n, const char *key, const char *value,
                          struct mint_buf *out, struct mint_err *err);
/* Copies what is neither weights nor config.json nor a folder nor hidden. */
int mint_export_copy_files(const char *from, const char *to, struct mint_err *err);

#endif

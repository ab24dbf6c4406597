/* SPDX-License-Identifier: Apache-2.0 */
/*
 * init.h: a new model folder of any supported shape, with seeded random weights and a byte-level
 * tokenizer: config.json, generation_config.json, tokenizer.json, tokenizer_config.json and
 * model.safetensors (or shards and their index).
 *
 * The bytes depend on the arguments alone, not on threads, libm or the CPU: an element is
 * std * (sum of four 16-bit uniforms, standardised), which is close to normal and cut at 3.46 std,
 * drawn by Philox from (seed, tensor name, element).
 */
#ifndef MINT_INIT_H
#define MINT_INIT_H

#include "base.h"
#include "buf.h"
#include "err.h"
#include "model_config.h"
#include "safetensors.h"

struct mint_init {
    struct mint_model_config
        config; /* shape; vocab 0: the tokenizer's size, rounded up to a multiple of 8 */
    enum mint_dtype dtype;
    uint64_t seed;
    double
        std; /* of matrices, embedding and biases; below 0: 1/sqrt(inputs) a matrix, 0.02 a bias */
    double norm_std; /* norm weights are 1 + this spread */
    int32_t shards;  /* 1: one file */
};

/* Shape of a preset by name ("tiny", "qwen3-0.6b", ...). The list is NULL-terminated. */
extern const char *const mint_init_presets[];
int mint_init_preset(const char *name, struct mint_model_config *c, struct mint_err *err);
/* What differs between the families and is no option: norms of q and k, biases. Sets arch. */
void mint_init_arch(struct mint_model_config *c, const char *arch);

/* Checks the shape as a reader of the folder would, writes it and reads it back. Atomic (fs.h).
 * progress is called with elements done and their total, from the calling thread; it may be NULL.
 */
int mint_init_write(const struct mint_init *o, const char *dir, bool force,
                    void (*progress)(void *ctx, double done, double total), void *ctx,
                    struct mint_err *err);

/* Elements first .. first+n-1 of tensor `name`, as float32: mean + std * draw. */
void mint_init_values(uint64_t seed, const char *name, double mean, double std, uint64_t first,
                      size_t n, float *out);

/* The byte tokenizer: token id = byte value, then the special tokens. Appended to b. */
#define MINT_INIT_ENDOFTEXT 256
#define MINT_INIT_IM_START  257
#define MINT_INIT_IM_END    258
#define MINT_INIT_TOKENS    259
void mint_init_tokenizer_json(struct mint_buf *b);
void mint_init_tokenizer_config_json(struct mint_buf *b, int32_t max_positions);

#endif

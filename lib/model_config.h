/* SPDX-License-Identifier: Apache-2.0 */
/*
 * model_config.h: config.json and generation_config.json of a model folder: Qwen3 (dense),
 * Qwen2/2.5, Llama 3.x and SmolLM2, as transformers 4 and 5 write them. Anything that would change
 * the numbers and is not supported (another architecture, rope scaling other than llama3, sliding
 * window in use, activations other than silu, mlp bias, quantised weights, tensor-parallel
 * oddities) is an error that names the file and the key. Thread-safe.
 */
#ifndef MINT_MODEL_CONFIG_H
#define MINT_MODEL_CONFIG_H

#include "base.h"
#include "err.h"

#define MINT_MAX_EOS 16

struct mint_model_config {
    char arch[32]; /* "qwen3", "qwen2", "llama": config.json's model_type */
    int32_t layers, hidden, ffn, heads, kv_heads, head_dim, vocab;
    int32_t max_positions; /* max_position_embeddings */
    float norm_eps;
    double rope_theta;
    bool qk_norm;  /* Qwen3 */
    bool qkv_bias; /* Qwen2, or attention_bias */
    bool o_bias;   /* attention_bias of Llama and Qwen3: o_proj too */
    bool tied;     /* tie_word_embeddings */
    struct {       /* rope_scaling llama3; factor 0: none */
        double factor, low_freq_factor, high_freq_factor;
        int32_t original_max_positions;
    } rope_scaling;
    int32_t
        eos[MINT_MAX_EOS]; /* union of generation_config.json's and config.json's eos_token_id */
    int32_t eos_n;
    int32_t bos;          /* -1: none */
    char torch_dtype[16]; /* "dtype" or "torch_dtype" as written, "" if absent; for exports */
};
int mint_model_config_read(struct mint_model_config *c, const char *dir, struct mint_err *err);
/* inv_freq[head_dim/2] as transformers computes it (default and llama3 rope), in float32. */
void mint_model_config_rope(const struct mint_model_config *c, float *inv_freq);

#endif

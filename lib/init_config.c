/* SPDX-License-Identifier: Apache-2.0 */
/* Shapes of well-known models. Sources: the config.json of each model's folder on the Hugging Face
 * hub. */
#include <stdio.h>
#include <string.h>

#include "init.h"

/* columns: layers, hidden, ffn, heads, kv_heads, head_dim, vocab (0: byte tokenizer), max_positions
 */
static const struct preset {
    const char *name, *arch;
    int32_t size[8];
    double theta;
    float eps;
    bool tied;
    double factor; /* of llama3 rope scaling; 0: none */
} presets[] = {
    {"tiny", "qwen3", {2, 64, 128, 4, 2, 16, 0, 512}, 1e4, 1e-6f, true, 0},
    {"qwen3-0.6b", "qwen3", {28, 1024, 3072, 16, 8, 128, 151936, 40960}, 1e6, 1e-6f, true, 0},
    {"qwen3-1.7b", "qwen3", {28, 2048, 6144, 16, 8, 128, 151936, 40960}, 1e6, 1e-6f, true, 0},
    {"qwen3-4b", "qwen3", {36, 2560, 9728, 32, 8, 128, 151936, 40960}, 1e6, 1e-6f, true, 0},
    {"qwen3-8b", "qwen3", {36, 4096, 12288, 32, 8, 128, 151936, 40960}, 1e6, 1e-6f, false, 0},
    {"qwen2.5-0.5b", "qwen2", {24, 896, 4864, 14, 2, 64, 151936, 32768}, 1e6, 1e-6f, true, 0},
    {"smollm2-135m", "llama", {30, 576, 1536, 9, 3, 64, 49152, 8192}, 1e5, 1e-5f, true, 0},
    {"llama3.2-1b", "llama", {16, 2048, 8192, 32, 8, 64, 128256, 131072}, 5e5, 1e-5f, true, 32},
    {"llama3.1-8b", "llama", {32, 4096, 14336, 32, 8, 128, 128256, 131072}, 5e5, 1e-5f, false, 8},
};

const char *const mint_init_presets[] = {
    "tiny",         "qwen3-0.6b",   "qwen3-1.7b",  "qwen3-4b",    "qwen3-8b",
    "qwen2.5-0.5b", "smollm2-135m", "llama3.2-1b", "llama3.1-8b", NULL};

void mint_init_arch(struct mint_model_config *c, const char *arch)
{
    snprintf(c->arch, sizeof c->arch, "%s", arch);
    c->qk_norm = !strcmp(arch, "qwen3");
    c->qkv_bias = !strcmp(arch, "qwen2");
    c->o_bias = false;
}

int mint_init_preset(const char *name, struct mint_model_config *c, struct mint_err *err)
{
    const struct preset *p = presets, *end = presets + MINT_ARRAY_LEN(presets);
    while (p < end && strcmp(p->name, name))
        p++;
    if (p == end)
        return mint_fail(err, MINT_EUSAGE, "no preset \"%s\"", name);
    memset(c, 0, sizeof *c);
    mint_init_arch(c, p->arch);
    c->layers = p->size[0];
    c->hidden = p->size[1];
    c->ffn = p->size[2];
    c->heads = p->size[3];
    c->kv_heads = p->size[4];
    c->head_dim = p->size[5];
    c->vocab = p->size[6];
    c->max_positions = p->size[7];
    c->rope_theta = p->theta;
    c->norm_eps = p->eps;
    c->tied = p->tied;
    c->bos = -1;
    if (p->factor > 0) {
        c->rope_scaling.factor = p->factor;
        c->rope_scaling.low_freq_factor = 1;
        c->rope_scaling.high_freq_factor = 4;
        c->rope_scaling.original_max_positions = 8192;
    }
    return 0;
}

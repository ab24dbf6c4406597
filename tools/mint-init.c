/* SPDX-License-Identifier: Apache-2.0 */
/* mint-init: makes a model folder with random weights and a byte-level tokenizer. */
#include <omp.h>
#include <stdio.h>
#include <string.h>

#include "cli.h"
#include "init.h"
#include "log.h"

struct options {
    struct mint_common common;
    const char *to;
    int preset, arch, dtype;
    int64_t layers, hidden, ffn, heads, kv_heads, head_dim, vocab, max_positions, seed, shards,
        threads;
    double rope_theta, std, norm_std;
    bool tied, force;
};

static const char *const archs[] = {"qwen3", "qwen2", "llama", NULL};
static const char *const dtypes[] = {"bf16", "f32", "f16", NULL};
static const enum mint_dtype dtype_of[] = {MINT_BF16, MINT_F32, MINT_F16};

#define PRESET "as the preset has it"
static const struct mint_opt opts[] = {
    MINT_O_STR(0, "to", "DIR", struct options, to, "the folder to make; must not exist"),
    MINT_O_FLAG('f', "force", struct options, force,
                "replace DIR if it is empty, a model or an adapter"),
    MINT_O_INT('s', "seed", "N", struct options, seed, 0, 9007199254740992.0,
               "the weights are drawn from this number"),
    MINT_O_INT('T', "threads", "N", struct options, threads, 1, 4096,
               "threads to use; the bytes do not depend on it"),
    MINT_O_HEAD("Shape"),
    MINT_O_CHOICE(0, "preset", mint_init_presets, struct options, preset,
                  "start from the shape of this model"),
    MINT_O_CHOICE(0, "arch", archs, struct options, arch, "architecture"),
    MINT_O_INT(0, "layers", "N", struct options, layers, 1, 10000, "layers"),
    MINT_O_INT(0, "hidden", "N", struct options, hidden, 1, 1 << 20,
               "width of the residual stream"),
    MINT_O_INT(0, "ffn", "N", struct options, ffn, 1, 1 << 22, "width of the MLP"),
    MINT_O_INT(0, "heads", "N", struct options, heads, 1, 1 << 16, "attention heads"),
    MINT_O_INT(0, "kv-heads", "N", struct options, kv_heads, 1, 1 << 16,
               "key and value heads; divides the heads"),
    MINT_O_INT(0, "head-dim", "N", struct options, head_dim, 2, 1 << 14, "width of a head; even"),
    MINT_O_INT(0, "vocab", "N", struct options, vocab, MINT_INIT_TOKENS, 1 << 24,
               "rows of the embedding; those past the tokenizer's 259 have no token"),
    MINT_O_INT(0, "max-positions", "N", struct options, max_positions, 1, 1 << 30,
               "longest sequence"),
    MINT_O_FLOAT(0, "rope-theta", "X", struct options, rope_theta, 1, 1e12,
                 "base of the rotary embedding"),
    {.type = MINT_OPT_FLAG,
     .name = "tied",
     .offset = offsetof(struct options, tied),
     .help = "the output head is the embedding",
     .more = "Without --tied or --no-tied the preset decides."},
    MINT_O_HEAD("Weights"),
    MINT_O_CHOICE(0, "dtype", dtypes, struct options, dtype, "type of the stored weights"),
    {.type = MINT_OPT_FLOAT,
     .name = "init-std",
     .arg = "X",
     .offset = offsetof(struct options, std),
     .min = 0,
     .max = 1e6,
     .help = "standard deviation of all matrices and biases",
     .more =
         "Without it a matrix, and the embedding, has 1/sqrt(columns), and a bias 0.02. A frozen "
         "random base of that scale carries a LoRA of full rank best."},
    MINT_O_FLOAT(0, "norm-std", "X", struct options, norm_std, 0, 1e6,
                 "spread of the norm weights around 1"),
    MINT_O_INT(0, "shards", "N", struct options, shards, 1, 99999,
               "weight files, with an index if several"),
    MINT_O_END,
};

static const char *const examples[] = {
    "mint-init --to model",
    "mint-init --to model --preset qwen3-0.6b --seed 1",
    "mint-init --to model --arch llama --layers 4 --hidden 128 --ffn 256 --heads 8 --kv-heads 4 "
    "--no-tied",
    NULL,
};

static const struct mint_tool tool = {
    .name = "mint-init",
    .summary = "make a model folder with random weights",
    .synopsis = "--to DIR [options]",
    .groups = 0,
    .opts = opts,
    .examples = examples,
};

static void set(int32_t *field, int64_t value)
{
    if (value > 0)
        *field = (int32_t)value;
}

static int shape(const struct options *o, struct mint_model_config *c, struct mint_err *err)
{
    if (mint_init_preset(mint_init_presets[o->preset], c, err))
        return -1;
    if (o->arch >= 0)
        mint_init_arch(c, archs[o->arch]);
    set(&c->layers, o->layers);
    set(&c->hidden, o->hidden);
    set(&c->ffn, o->ffn);
    set(&c->heads, o->heads);
    set(&c->kv_heads, o->kv_heads);
    set(&c->head_dim, o->head_dim);
    set(&c->vocab, o->vocab);
    set(&c->max_positions, o->max_positions);
    if (o->rope_theta > 0)
        c->rope_theta = o->rope_theta;
    if (mint_cli_given("tied"))
        c->tied = o->tied;
    return 0;
}

struct shown {
    struct mint_progress line;
    double total;
};

static void progress(void *ctx, double done, double total)
{
    struct shown *s = ctx;
    s->line.total = s->total = total;
    mint_progress_set(&s->line, done, NULL);
}

static int run(const struct options *o, struct mint_err *err)
{
    struct mint_init init = {.dtype = dtype_of[o->dtype],
                             .seed = (uint64_t)o->seed,
                             .std = o->std,
                             .norm_std = o->norm_std,
                             .shards = (int32_t)o->shards};
    if (!o->to)
        return mint_usage(err, "--to DIR is missing");
    if (o->common.operands.n)
        return mint_usage(err, "unexpected operand \"%s\"", o->common.operands.v[0]);
    if (shape(o, &init.config, err))
        return -1;
    if (o->threads > 0)
        omp_set_num_threads((int)o->threads);
    struct shown shown = {.total = 0};
    mint_progress_begin(&shown.line, "weights", "elements", 0);
    int rc = mint_init_write(&init, o->to, o->force, progress, &shown, err);
    mint_progress_end(&shown.line);
    if (!rc)
        mint_verbose(1, "%s: %s, %.0f parameters", o->to, init.config.arch, shown.total);
    return rc;
}

int main(int argc, char **argv)
{
    struct options o = {.preset = 0, .arch = -1, .rope_theta = -1, .std = -1, .shards = 1};
    struct mint_err err = {0};
    mint_cli_begin(&tool, argc, argv, &o);
    return mint_cli_end(run(&o, &err), &err, 0);
}

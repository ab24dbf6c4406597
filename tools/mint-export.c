/* SPDX-License-Identifier: Apache-2.0 */
/* mint-export: an adapter as a PEFT folder, or merged into its base model. */
#include <omp.h>

#include "cli.h"
#include "export.h"
#include "log.h"

enum format { PEFT, HF };

struct options {
    struct mint_common common;
    const char *model, *adapter, *to, *base_name;
    int format, dtype, target;
    int64_t threads;
    bool force;
};

static const char *const formats[] = {"peft", "hf", NULL};
static const char *const dtypes[] = {"f32", "bf16", "f16",
                                     NULL}; /* in the order of enum mint_dtype */
static const char *const targets[] = {"vllm", NULL};

static const struct mint_opt opts[] = {
    MINT_O_STR('m', "model", "DIR", struct options, model, "the base model's folder"),
    MINT_O_STR(0, "adapter", "CKPT", struct options, adapter,
               "the checkpoint or PEFT folder to export"),
    MINT_O_STR(0, "to", "DIR", struct options, to, "the folder to make; must not exist"),
    MINT_O_FLAG('f', "force", struct options, force,
                "replace DIR if it is empty, a model or an adapter"),
    {.type = MINT_OPT_CHOICE,
     .name = "format",
     .choices = formats,
     .offset = offsetof(struct options, format),
     .help = "what to make",
     .more = "peft: adapter_config.json and adapter_model.safetensors. hf: a model folder with the "
             "adapter "
             "merged into the weights."},
    {.type = MINT_OPT_CHOICE,
     .name = "dtype",
     .choices = dtypes,
     .offset = offsetof(struct options, dtype),
     .help = "type of the written weights",
     .more = "Without it a PEFT folder gets f32, and a merged tensor the type that it has in the "
             "base model."},
    MINT_O_STR(0, "base-name", "NAME", struct options, base_name,
               "peft: what base_model_name_or_path says"),
    {.type = MINT_OPT_CHOICE,
     .name = "for",
     .choices = targets,
     .offset = offsetof(struct options, target),
     .help = "peft: refuse what this engine cannot load",
     .more = "vllm loads no LoRA on the output head."},
    MINT_O_INT('T', "threads", "N", struct options, threads, 1, 4096,
               "threads to use; the bytes do not depend on it"),
    MINT_O_END,
};

static const char *const examples[] = {
    "mint-export --model model --adapter ckpt/1 --to adapter --format peft",
    "mint-export --model model --adapter ckpt/1 --to merged --format hf",
    NULL,
};

static const struct mint_tool tool = {
    .name = "mint-export",
    .summary = "export a trained adapter, alone or merged into its model",
    .synopsis = "--model DIR --adapter CKPT --to DIR --format peft|hf [options]",
    .groups = 0,
    .opts = opts,
    .examples = examples,
};

static int check(const struct options *o, struct mint_err *err)
{
    if (!o->model)
        return mint_usage(err, "--model DIR is missing");
    if (!o->adapter)
        return mint_usage(err, "--adapter CKPT is missing");
    if (!o->to)
        return mint_usage(err, "--to DIR is missing");
    if (o->format < 0)
        return mint_usage(err, "--format peft|hf is missing");
    if (o->common.operands.n)
        return mint_usage(err, "unexpected operand \"%s\"", o->common.operands.v[0]);
    if (o->format == HF && o->base_name)
        return mint_usage(err, "--base-name goes with --format peft");
    return 0;
}

static void say(const struct options *o, const struct mint_export_result *r)
{
    if (o->format == PEFT && r->tied_head)
        mint_note(
            "the adapter has LoRA on lm_head of a tied model: a loader must apply it to the head "
            "alone, as PEFT does; --format hf merges it");
    if (o->format == HF && r->tied_head)
        mint_note(
            "the head was tied to the embedding; it is now lm_head.weight, and tie_word_embeddings "
            "is false");
    if (o->format == HF && r->delta > 0 && r->lost > 0.01 * r->delta)
        mint_note("rounding changes the update by %.3g of its size; --dtype f32 keeps it",
                  r->lost / r->delta);
    if (o->format == HF && !(r->delta > 0))
        mint_note("the adapter changes nothing: all of its updates are 0");
    mint_note("%s: %zu tensors, %zu modules with LoRA, %s", o->to, r->tensors, r->modules,
              r->digest);
}

static void progress(void *ctx, double done, double total)
{
    struct mint_progress *p = ctx;
    p->total = total;
    mint_progress_set(p, done, NULL);
}

static int run(const struct options *o, struct mint_err *err)
{
    struct mint_progress p;
    struct mint_export_result r;
    struct mint_export e = {.model = o->model,
                            .adapter = o->adapter,
                            .to = o->to,
                            .force = o->force,
                            .dtype = o->dtype,
                            .base_name = o->base_name,
                            .target = o->target >= 0 ? targets[o->target] : NULL,
                            .progress = progress,
                            .ctx = &p};
    if (check(o, err))
        return -1;
    if (o->threads > 0)
        omp_set_num_threads((int)o->threads);
    mint_progress_begin(&p, "export", "bytes", 0);
    int rc = o->format == PEFT ? mint_export_peft(&e, &r, err) : mint_export_hf(&e, &r, err);
    mint_progress_end(&p);
    if (!rc)
        say(o, &r);
    return rc;
}

int main(int argc, char **argv)
{
    struct options o = {.format = -1, .dtype = -1, .target = -1};
    struct mint_err err = {0};
    mint_cli_begin(&tool, argc, argv, &o);
    return mint_cli_end(run(&o, &err), &err, 0);
}

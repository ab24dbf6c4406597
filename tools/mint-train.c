/* SPDX-License-Identifier: Apache-2.0 */
/* mint-train: optimiser steps of a LoRA adapter over Datums. The work is in train_job.h. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "backward.h"
#include "cli.h"
#include "forward.h"
#include "fs.h"
#include "hash.h"
#include "identity.h"
#include "json.h"
#include "log.h"
#include "mem.h"
#include "metrics.h"
#include "plan.h"
#include "train_job.h"
#include "zio.h"

struct options {
    struct mint_common common;
    const char *model, *from, *to, *ref_adapter;
    int loss, kl_estimator, schedule, proximal, correction;
    double clip_low, clip_high, dual_clip, beta, kl_coef, entropy_coef, correction_high,
        correction_low, lr, alpha, beta1, beta2, eps, weight_decay, grad_clip;
    int recompute;
    int64_t rank, seed, batch_size, epochs, substeps, warmup, total_steps, micro_tokens, memory;
    bool train_attn, train_mlp, train_unembed, forward_only, dry_run;
};

#define UNSET (-1.0) /* by other options: set_defaults */

#define O struct options
static const struct mint_opt option_table[] = {
    MINT_O_HEAD("Model"),
    MINT_O_STR('m', "model", "DIR", O, model, "model folder (Hugging Face)"),
    MINT_O_STR(0, "from", "CKPT", O, from, "checkpoint to go on from; without it a fresh adapter"),
    MINT_O_STR(0, "to", "CKPT", O, to, "checkpoint folder to write"),
    MINT_O_HEAD("Loss"),
    MINT_O_CHOICE(0, "loss", mint_loss_names, O, loss, "what is minimised, summed over positions"),
    MINT_O_FLOAT(0, "clip-low-threshold", "R", O, clip_low, 0, 1e6,
                 "lowest ratio of ppo (default 0.8), gspo (0.9997) and cispo (0)"),
    MINT_O_FLOAT(0, "clip-high-threshold", "R", O, clip_high, 0, 1e6,
                 "highest ratio of ppo (default 1.2), gspo (1.0004) and cispo (4)"),
    MINT_O_FLOAT(0, "dual-clip", "C", O, dual_clip, 0, 1e6,
                 "ppo and gspo: largest loss over -advantage where that is positive, 0 off"),
    MINT_O_FLOAT(0, "beta", "B", O, beta, 0, 1e6, "square term of dro (0.05), slope of dpo (0.1)"),
    MINT_O_FLOAT(0, "kl-penalty-coef", "C", O, kl_coef, 0, 1e6, "KL term against the reference"),
    MINT_O_CHOICE(0, "kl-estimator", mint_kl_names, O, kl_estimator, "its estimator"),
    MINT_O_STR(0, "ref-adapter", "CKPT", O, ref_adapter,
               "reference policy of the KL term and of dpo; without it the base"),
    MINT_O_FLOAT(0, "entropy-coef", "C", O, entropy_coef, 0, 1e6, "bonus for the full entropy"),
    MINT_O_CHOICE(0, "proximal", mint_proximal_names, O, proximal,
                  "whose logprobs the ratio is against: the datums', or this run's first ones"),
    MINT_O_CHOICE(0, "correction", mint_correction_names, O, correction,
                  "weight or mask for what the sampler made of the policy"),
    MINT_O_FLOAT(0, "correction-threshold", "R", O, correction_high, 0, 1e6,
                 "its largest ratio: tis and seq-tis 2, icepop 5, seq-mis 1.1, geo-mis 1.001"),
    MINT_O_FLOAT(0, "correction-floor", "R", O, correction_low, 0, 1e6,
                 "its smallest ratio: icepop 0.5, seq-mis 0, geo-mis 0.999"),
    MINT_O_HEAD("Adapter (a fresh one)"),
    MINT_O_INT(0, "rank", "R", O, rank, 1, 4096, "rank of the LoRA matrices"),
    MINT_O_FLOAT(0, "alpha", "A", O, alpha, 1e-6, 1e6, "scale is alpha / rank"),
    MINT_O_FLAG(0, "train-attn", O, train_attn, "q, k, v and o projections"),
    MINT_O_FLAG(0, "train-mlp", O, train_mlp, "gate, up and down projections"),
    MINT_O_FLAG(0, "train-unembed", O, train_unembed, "output head"),
    MINT_O_INT('s', "seed", "N", O, seed, 0, 9007199254740992.0, "seed of its A matrices"),
    MINT_O_HEAD("Optimiser"),
    MINT_O_FLOAT(0, "lr", "LR", O, lr, 0, 10, "learning rate of Adam"),
    MINT_O_CHOICE(0, "schedule", mint_schedule_names, O, schedule, "course of the learning rate"),
    MINT_O_INT(0, "warmup", "N", O, warmup, 0, 1e12, "steps of linear warm-up"),
    MINT_O_INT(0, "total-steps", "N", O, total_steps, 0, 1e12,
               "length of the schedule from step 0 of the checkpoint chain, 0 this run"),
    MINT_O_FLOAT(0, "beta1", "B", O, beta1, 0, 0.999999, "decay of the first moment"),
    MINT_O_FLOAT(0, "beta2", "B", O, beta2, 0, 0.99999999, "decay of the second moment"),
    MINT_O_FLOAT(0, "eps", "E", O, eps, 1e-30, 1, "added to the root of the second moment"),
    MINT_O_FLOAT(0, "weight-decay", "W", O, weight_decay, 0, 10, "decoupled weight decay"),
    MINT_O_FLOAT(0, "grad-clip-norm", "G", O, grad_clip, 0, 1e12, "largest gradient norm, 0 off"),
    MINT_O_INT(0, "batch-size", "N", O, batch_size, 0, 1e12, "datums a batch, 0 all"),
    MINT_O_INT(0, "epochs", "N", O, epochs, 1, 1e9, "times through the datums"),
    MINT_O_INT(0, "substeps", "N", O, substeps, 1, 1e9, "optimiser steps a batch is cut into"),
    MINT_O_HEAD("Running"),
    MINT_O_INT(0, "micro-tokens", "N", O, micro_tokens, 1, 1 << 24,
               "positions that go through together; changes memory, not the result"),
    MINT_O_CHOICE(0, "recompute", mint_recompute_names, O, recompute,
                  "what the backward computes again, to save memory; the same result"),
    MINT_O_INT(0, "memory", "BYTES", O, memory, 0, 9e15,
               "what --recompute auto may take for activations, 0 half of what is left"),
    MINT_O_FLAG(0, "forward-only", O, forward_only, "write each datum's logprobs, train nothing"),
    MINT_O_FLAG(0, "dry-run", O, dry_run, "read and check everything, say the plan, stop"),
    MINT_O_END,
};
#undef O

static const char *const examples[] = {
    "mint-train --model Qwen3-0.6B --from ckpt/11 --to ckpt/12 datums.jsonl.zst",
    "mint-train --model Qwen3-0.6B --to sft/1 --loss cross_entropy --epochs 2 --batch-size 32 "
    "sft.jsonl.zst",
    "mint-train --model Qwen3-0.6B --from ckpt/12 --forward-only datums.jsonl.zst",
    NULL,
};

static const struct mint_tool tool = {
    .name = "mint-train",
    .summary = "update a LoRA adapter from Datums",
    .synopsis = "--model DIR [--from CKPT] --to CKPT [options] [DATUMS...]",
    .groups = MINT_CLI_IO | MINT_CLI_RUN | MINT_CLI_COMPUTE,
    .opts = option_table,
    .reads_stdin = true,
    .examples = examples,
};

struct session {
    struct mint_ranks ranks;
    struct mint_policy policy;
    struct mint_checkpoint ref_checkpoint;
    bool has_ref;
    struct mint_adapter *fresh, *ref;
    struct mint_datums data;
    struct mint_trainer *trainer;
    struct mint_train_config config;
    struct mint_trainer_state state; /* of the checkpoint to be */
    struct mint_buf options_json;
    struct mint_lock lock;
    bool locked;
    const struct options *o;
    struct mint_progress progress;
    double start;
    int64_t idle, counted; /* datums of all steps so far: without a slope; with a weight */
    struct mint_step_stats last;
    struct mint_err no_device; /* of a plan: why there is none */
};

static bool is_first(const struct session *s)
{
    return s->ranks.rank == 0;
}

/* An option that the chosen mode does not read is a mistake of the user, who believes that it
 * works. */
static int check_idle(const struct options *o, struct mint_err *err)
{
    bool trust = o->loss == MINT_LOSS_PPO || o->loss == MINT_LOSS_GSPO;
    bool clips = trust || o->loss == MINT_LOSS_CISPO, dpo = o->loss == MINT_LOSS_DPO;
    bool ratio = o->loss != MINT_LOSS_CE && !dpo;
    bool mask = o->correction == MINT_CORRECTION_ICEPOP ||
                o->correction == MINT_CORRECTION_SEQ_MIS ||
                o->correction == MINT_CORRECTION_GEO_MIS;
    const struct mint_idle rules[] = {
        {"clip-low-threshold", "--loss ppo, gspo or cispo", !clips},
        {"clip-high-threshold", "--loss ppo, gspo or cispo", !clips},
        {"dual-clip", "--loss ppo or gspo", !trust},
        {"beta", "--loss dro or dpo", o->loss != MINT_LOSS_DRO && !dpo},
        {"kl-penalty-coef", "a loss other than dpo", dpo},
        {"kl-estimator", "--kl-penalty-coef", o->kl_coef == 0},
        {"ref-adapter", "--kl-penalty-coef or --loss dpo", o->kl_coef == 0 && !dpo},
        {"entropy-coef", "a loss other than dpo", dpo},
        {"proximal", "a loss with a ratio (not dro, cross_entropy, dpo)",
         !ratio || o->loss == MINT_LOSS_DRO},
        {"correction", "a loss with a ratio", !ratio},
        {"correction-threshold", "--correction", o->correction == MINT_CORRECTION_NONE},
        {"correction-floor", "--correction icepop, seq-mis or geo-mis", !mask},
        {"skip-bad", "a loss other than dpo, whose pairs it could part", dpo},
        {"total-steps", "--schedule linear or cosine", o->schedule == MINT_SCHEDULE_CONSTANT},
        {"memory", "--recompute auto", o->recompute != MINT_RECOMPUTE_AUTO},
        {"output", "--forward-only", !o->forward_only},
        {"plain", "--forward-only", !o->forward_only},
    };
    static const char *const training[] = {
        "loss",         "lr",        "schedule",       "warmup",
        "epochs",       "substeps",  "beta1",          "batch-size",
        "weight-decay", "beta2",     "grad-clip-norm", "kl-penalty-coef",
        "eps",          "seed",      "rank",           "alpha",
        "train-attn",   "train-mlp", "train-unembed",  "recompute",
        "memory",       "dual-clip", "entropy-coef",   "proximal",
        "correction"};
    if (mint_cli_refuse_idle(rules, MINT_ARRAY_LEN(rules), err) < 0)
        return -1;
    const char *name = mint_cli_first_given(training, MINT_ARRAY_LEN(training));
    if (name && o->forward_only)
        return mint_usage(err, "--%s is for training: --forward-only does not read it", name);
    return 0;
}

/* Defaults that depend on other options. */
static void set_defaults(struct options *o)
{
    static const double low[] = {[MINT_CORRECTION_ICEPOP] = 0.5,
                                 [MINT_CORRECTION_SEQ_MIS] = 0.0,
                                 [MINT_CORRECTION_GEO_MIS] = 0.999};
    static const double high[] = {[MINT_CORRECTION_TIS] = 2.0,
                                  [MINT_CORRECTION_ICEPOP] = 5.0,
                                  [MINT_CORRECTION_SEQ_TIS] = 2.0,
                                  [MINT_CORRECTION_SEQ_MIS] = 1.1,
                                  [MINT_CORRECTION_GEO_MIS] = 1.001};
    bool cispo = o->loss == MINT_LOSS_CISPO, gspo = o->loss == MINT_LOSS_GSPO;
    if (!mint_cli_given("clip-low-threshold"))
        o->clip_low = cispo ? 0.0 : gspo ? 0.9997 : 0.8;
    if (!mint_cli_given("clip-high-threshold"))
        o->clip_high = cispo ? 4.0 : gspo ? 1.0004 : 1.2;
    if (!mint_cli_given("beta"))
        o->beta = o->loss == MINT_LOSS_DPO ? 0.1 : 0.05;
    if (!mint_cli_given("correction-floor"))
        o->correction_low = low[o->correction];
    if (!mint_cli_given("correction-threshold"))
        o->correction_high = high[o->correction];
}

/* Bounds and combinations that make no sense. */
static int check_bounds(const struct options *o, struct mint_err *err)
{
    const char *correction = mint_correction_names[o->correction];
    if (o->dual_clip != 0 && o->dual_clip <= 1)
        return mint_usage(err, "--dual-clip %g would clip on-policy steps; give more than 1 (3)",
                          o->dual_clip);
    if (o->correction_low > o->correction_high)
        return mint_usage(err, "--correction-floor %g is above --correction-threshold %g",
                          o->correction_low, o->correction_high);
    if ((o->correction == MINT_CORRECTION_TIS || o->correction == MINT_CORRECTION_SEQ_TIS) &&
        o->proximal == MINT_PROXIMAL_SAMPLER)
        return mint_usage(err,
                          "--correction %s weighs the proximal policy against the sampler: give "
                          "--proximal parent too (with --proximal sampler the ratio itself is "
                          "that weight, and --loss cispo truncates it)",
                          correction);
    if (o->loss == MINT_LOSS_DPO && o->batch_size % 2)
        return mint_usage(err, "--batch-size %lld would part a pair of dpo; give an even number",
                          (long long)o->batch_size);
    return 0;
}

static int check_options(struct options *o, struct mint_err *err)
{
    if (!o->model)
        return mint_usage(err, "--model DIR is missing");
    if (!o->to && !o->forward_only && !o->dry_run)
        return mint_usage(err, "--to CKPT is missing (or --forward-only)");
    if (o->to && o->forward_only)
        return mint_usage(err, "--forward-only trains nothing: no --to");
    static const char *const fresh_only[] = {"rank",       "alpha",     "seed",
                                             "train-attn", "train-mlp", "train-unembed"};
    const char *fresh = mint_cli_first_given(fresh_only, MINT_ARRAY_LEN(fresh_only));
    if (o->from && fresh)
        return mint_usage(err, "--%s is for a fresh adapter: --from has its own", fresh);
    if (check_idle(o, err) < 0)
        return -1;
    set_defaults(o);
    if (check_bounds(o, err) < 0)
        return -1;
    if (o->clip_low > o->clip_high)
        return mint_usage(err,
                          "--clip-low-threshold %g is above --clip-high-threshold %g; they "
                          "are bounds of the ratio itself (0.8 and 1.2, not 0.2)",
                          o->clip_low, o->clip_high);
    if (o->total_steps && o->warmup >= o->total_steps)
        return mint_usage(err, "--warmup %lld leaves nothing of --total-steps %lld",
                          (long long)o->warmup, (long long)o->total_steps);
    return 0;
}

/* A schedule that cannot do what it says: over a single step, or past its end. */
static int check_schedule(const struct session *s, struct mint_err *err)
{
    const struct mint_train_config *c = &s->config;
    int64_t planned = mint_train_planned(c, s->data.n), first = s->state.step;
    const char *name = mint_schedule_names[c->schedule];
    if (c->schedule == MINT_SCHEDULE_CONSTANT)
        return 0;
    if (!c->total_steps && planned < 2)
        return mint_usage(err,
                          "--schedule %s over the one step of this run changes nothing; say "
                          "with --total-steps how long the whole chain of runs is",
                          name);
    if (!c->total_steps && c->warmup >= planned)
        return mint_usage(err, "--warmup %lld leaves nothing of this run's %lld steps",
                          (long long)c->warmup, (long long)planned);
    if (c->total_steps && first + planned > c->total_steps)
        return mint_usage(err,
                          "--schedule %s ends at --total-steps %lld, this run goes from step "
                          "%lld to %lld",
                          name, (long long)c->total_steps, (long long)first,
                          (long long)(first + planned));
    return 0;
}

static void fill_config(struct session *s, const struct options *o)
{
    s->o = o;
    s->config = (struct mint_train_config){
        .opts = {.loss = {.loss = (enum mint_loss)o->loss,
                          .clip_low = (float)o->clip_low,
                          .clip_high = (float)o->clip_high,
                          .beta = (float)o->beta,
                          .dual_clip = (float)o->dual_clip,
                          .kl_coef = (float)o->kl_coef,
                          .kl = (enum mint_kl)o->kl_estimator,
                          .entropy_coef = (float)o->entropy_coef,
                          .proximal = (enum mint_proximal)o->proximal,
                          .correction = (enum mint_correction)o->correction,
                          .correction_low = (float)o->correction_low,
                          .correction_high = (float)o->correction_high},
                 .beta1 = o->beta1,
                 .beta2 = o->beta2,
                 .eps = o->eps,
                 .weight_decay = o->weight_decay,
                 .grad_clip_norm = o->grad_clip,
                 .micro_tokens = o->micro_tokens,
                 .recompute = (enum mint_recompute)o->recompute,
                 .memory = (size_t)o->memory,
                 .watch_idle = o->common.metrics != NULL,
                 .ranks = &s->ranks},
        .adapter = {.rank = (int32_t)o->rank,
                    .alpha = o->alpha,
                    .attn = o->train_attn,
                    .mlp = o->train_mlp,
                    .unembed = o->train_unembed},
        .seed = (uint64_t)o->seed,
        .lr = o->lr,
        .schedule = (enum mint_schedule)o->schedule,
        .warmup = o->warmup,
        .total_steps = o->total_steps,
        .batch_size = o->batch_size,
        .epochs = o->epochs,
        .substeps = o->substeps,
    };
    snprintf(s->config.adapter.base_model, sizeof s->config.adapter.base_model, "%s", o->model);
}

static int open_ref(struct session *s, const struct options *o, struct mint_err *err)
{
    if (!o->ref_adapter)
        return 0;
    if (mint_checkpoint_open(&s->ref_checkpoint, o->ref_adapter, err) < 0)
        return -1;
    s->has_ref = true;
    return mint_adapter_load(&s->ref, s->policy.model, &s->ref_checkpoint, err);
}

static int open_model(struct session *s, const struct options *o, struct mint_err *err)
{
    struct mint_policy_opts p = {
        .model = o->model,
        .adapter = o->from,
        .device = o->common.device,
        .precision = o->common.precision,
        .threads = (int)o->common.threads,
    };
    int rc = -1;
    if (!o->dry_run || mint_model_has_weights(o->model))
        rc = mint_policy_open(&s->policy, &p, err) < 0 ? -1 : open_ref(s, o, err);
    if (rc < 0 && o->dry_run && (err->code == MINT_OK || err->code == MINT_EDEVICE))
        rc = mint_policy_outline(&s->policy, &p, &s->no_device, err);
    if (rc == 0 && s->policy.has_checkpoint)
        s->config.adapter = s->policy.checkpoint.config;
    return rc;
}

/* The four things that make the result, for trainer_state.json. */
static int fill_state(struct session *s, struct mint_err *err)
{
    struct mint_trainer_state *st = &s->state;
    const struct mint_checkpoint *parent = &s->policy.checkpoint;
    const char *base;
    struct mint_sha256 sha;
    if (mint_policy_fingerprint(&s->policy, &base, err) < 0)
        return -1;
    char ref[72];
    if (s->has_ref)
        mint_identity_adapter(&s->ref_checkpoint, ref);
    mint_train_options_json(&s->config, !s->policy.has_checkpoint,
                            s->o->common.precision ? "f32" : "bf16", s->has_ref ? ref : NULL,
                            &s->options_json);
    mint_sha256_init(&sha);
    mint_sha256_add(&sha, s->options_json.data, s->options_json.len);
    mint_sha256_end_text(&sha, st->options);
    snprintf(st->base, sizeof st->base, "%s", base);
    snprintf(st->datums, sizeof st->datums, "%s", s->data.digest);
    if (s->policy.has_checkpoint && mint_identity_parent(parent, st->parent, err) < 0)
        return -1;
    st->options_json = s->options_json.data;
    st->step = s->policy.has_checkpoint ? parent->state.step : 0;
    st->tokens = s->policy.has_checkpoint ? parent->state.tokens : 0;
    return 0;
}

/* 1: --to holds this very result. 0: there is none. -1: another one is in the way. */
static int existing(const struct session *s, struct mint_err *err)
{
    struct mint_checkpoint c;
    const char *to = s->o->to, *differs = NULL;
    if (!mint_fs_exists(to))
        return 0;
    if (mint_checkpoint_open(&c, to, err) < 0)
        return mint_wrap(err, "%s is in the way and no checkpoint: ", to);
    const struct mint_trainer_state *a = &c.state, *b = &s->state;
    if (strcmp(a->base, b->base) != 0)
        differs = "another base model";
    else if (strcmp(a->parent, b->parent) != 0)
        differs = "another parent checkpoint (--from)";
    else if (strcmp(a->datums, b->datums) != 0)
        differs = "other datums";
    else if (strcmp(a->options, b->options) != 0)
        differs = "other options";
    mint_checkpoint_close(&c);
    if (differs)
        return mint_fail(err, MINT_EMODEL,
                         "%s exists and was made from %s; remove it, or choose another --to", to,
                         differs);
    mint_note("%s is there already, made from the same base, parent, datums and options", to);
    return 1;
}

static int take_lock(struct session *s, struct mint_err *err)
{
    const char *slash = strrchr(s->o->to, '/');
    char *parent = slash ? mint_xstrndup(s->o->to, (size_t)(slash - s->o->to)) : NULL;
    bool missing = parent && *parent && !mint_fs_is_dir(parent);
    if (missing)
        mint_fail(err, MINT_EIO, "--to %s: there is no folder %s; make it first", s->o->to, parent);
    free(parent);
    if (missing)
        return -1;
    char *path = mint_xasprintf("%s.lock", s->o->to);
    int rc = mint_lock_take(&s->lock, path, err);
    s->locked = rc == 0;
    free(path);
    return rc;
}

static void put_policy_metrics(struct mint_metrics *m, const struct mint_policy_sums *p)
{
    double n = p->ratios ? (double)p->ratios : 1, all = p->positions ? (double)p->positions : 1;
    mint_metrics_double(m, "train_mean_nll", -p->lp / all);
    mint_metrics_double(m, "optim/kl_sample_train_v1", p->kl_v1 / n);
    mint_metrics_double(m, "optim/kl_sample_train_v2", 0.5 * p->kl_v2 / n);
    mint_metrics_double(m, "optim/kl_ref", p->kl_ref / all);
    mint_metrics_double(m, "optim/entropy", p->entropy / all);
    mint_metrics_double(m, "optim/ratio_max", p->ratios ? p->ratio_max : 1);
    mint_metrics_double(m, "optim/ratio_min", p->ratios ? p->ratio_min : 1);
    mint_metrics_double(m, "optim/clip_frac", (double)p->clipped / n);
    mint_metrics_int(m, "optim/log_ratio_clamped", p->clamped);
}

/* Of the options that are used. */
static void put_option_metrics(struct mint_metrics *m, const struct mint_loss_opts *o,
                               const struct mint_policy_sums *p)
{
    double n = p->ratios ? (double)p->ratios : 1, pairs = p->pairs ? (double)p->pairs : 1;
    if (o->dual_clip != 0.0f)
        mint_metrics_double(m, "optim/dual_clip_frac", (double)p->dual_clipped / n);
    if (o->correction != MINT_CORRECTION_NONE) {
        mint_metrics_double(m, "correction/weight_mean", p->omega / n);
        mint_metrics_int(m, "correction/masked", p->masked);
        mint_metrics_int(m, "correction/masked_datums", p->masked_datums);
        mint_metrics_int(m, "correction/truncated", p->truncated);
    }
    if (o->loss == MINT_LOSS_DPO) {
        mint_metrics_int(m, "dpo/pairs", p->pairs);
        mint_metrics_double(m, "dpo/accuracy", (double)p->wins / pairs);
        mint_metrics_double(m, "dpo/margin", p->margin / pairs);
    }
}

static int put_metrics(const struct session *s, const struct mint_train_report *r, double seconds,
                       struct mint_err *err)
{
    const struct mint_step_stats *st = r->stats;
    struct mint_metrics m = MINT_METRICS_INIT;
    mint_metrics_begin(&m, "mint-train");
    mint_metrics_int(&m, "step", r->global);
    mint_metrics_int(&m, "datums", st->datums);
    mint_metrics_int(&m, "datums_active", st->active);
    mint_metrics_int(&m, "datums_idle", st->counted - st->active);
    mint_metrics_int(&m, "tokens", st->tokens);
    mint_metrics_int(&m, "optim/skipped", !st->stepped);
    mint_metrics_double(&m, "loss:sum", st->loss);
    put_policy_metrics(&m, &st->seen);
    put_option_metrics(&m, &s->config.opts.loss, &st->seen);
    mint_metrics_double(&m, "optim/grad_norm", st->grad_norm);
    mint_metrics_double(&m, "optim/lr", r->lr);
    mint_metrics_double(&m, "perf/tokens_per_s", seconds > 0 ? (double)st->tokens / seconds : 0);
    mint_metrics_double(&m, "time/total", seconds);
    if (s->ranks.size > 1) {
        mint_metrics_int(&m, "processes", s->ranks.size);
        mint_metrics_str(&m, "exchange", mint_trainer_exchange(s->trainer));
    }
    return mint_metrics_end(&m, s->o->common.metrics, err);
}

static int report_step(void *ctx, const struct mint_train_report *r, struct mint_err *err)
{
    struct session *s = ctx;
    const struct mint_step_stats *st = r->stats;
    double now = mint_now(), seconds = now - s->start;
    s->start = now;
    s->idle += st->counted - st->active;
    s->counted += st->counted;
    char extra[96];
    snprintf(extra, sizeof extra, "loss %.4g, %.4g a token", st->loss,
             st->loss / (double)MINT_MAX(st->tokens, 1));
    mint_progress_set(&s->progress, (double)r->step, extra);
    mint_verbose(1,
                 "step %lld (%lld of %lld): loss:sum %.6g over %lld tokens, grad norm %.4g, lr %g, "
                 "recompute %s",
                 (long long)r->global, (long long)r->step, (long long)r->of, st->loss,
                 (long long)st->tokens, st->grad_norm, r->lr,
                 mint_recompute_names[mint_trainer_recompute(s->trainer)]);
    return put_metrics(s, r, seconds, err);
}

static void say_idle(const struct session *s)
{
    if (s->idle)
        mint_note("%lld of %lld datums have advantage 0 everywhere: %s", (long long)s->idle,
                  (long long)s->counted,
                  s->o->common.metrics ? "computed for --metrics only" : "not computed");
}

static int train(struct session *s, struct mint_err *err)
{
    struct mint_adapter *a = s->policy.adapter ? s->policy.adapter : s->fresh;
    int64_t tokens = 0;
    s->start = mint_now();
    mint_progress_begin(&s->progress, "training", "steps",
                        (double)mint_train_planned(&s->config, s->data.n));
    int rc =
        mint_train_run(&s->config, s->trainer, a, &s->data, report_step, s, &s->last, &tokens, err);
    mint_progress_end(&s->progress);
    if (rc < 0)
        return -1;
    say_idle(s);
    s->state.step = mint_trainer_step_count(s->trainer);
    s->state.tokens += tokens;
    if (!is_first(s))
        return 0;
    return mint_train_save(s->trainer, a, s->o->to, &s->state, &s->last, err);
}

static void put_forward(struct mint_buf *b, const struct mint_datum *d, const float *lp)
{
    mint_buf_adds(b, "{");
    if (d->meta_raw) {
        mint_buf_adds(b, "\"meta\":");
        mint_buf_add(b, d->meta_raw, d->meta_n);
        mint_buf_addc(b, ',');
    }
    mint_buf_adds(b, "\"loss_fn_outputs\":{\"logprobs\":{\"data\":");
    mint_json_put_floats(b, lp, d->n);
    mint_buf_addf(b, ",\"dtype\":\"float32\",\"shape\":[%zu]}}}\n", d->n);
}

/* One line a datum; a few datums at a time, so that memory stays bounded. */
static int forward_only(struct session *s, struct mint_err *err)
{
    const struct mint_adapter *a = s->policy.adapter;
    unsigned flags =
        (s->o->common.plain ? MINT_OUT_PLAIN : 0u) | (s->o->common.force ? MINT_OUT_FORCE : 0u);
    struct mint_out *out;
    struct mint_buf b = MINT_BUF_INIT;
    int rc = mint_out_open(&out, s->o->common.output, flags, err);
    if (rc < 0)
        return -1;
    mint_progress_begin(&s->progress, "forward", "datums", (double)s->data.n);
    for (size_t at = 0, n; at < s->data.n && rc == 0; at += n) {
        const struct mint_datum *some[64];
        size_t total = 0;
        for (n = 0; n < MINT_ARRAY_LEN(some) && at + n < s->data.n; n++) {
            some[n] = &s->data.d[at + n];
            total += some[n]->n;
        }
        float *lp = mint_xcalloc(total, sizeof *lp), *one = lp;
        rc = mint_trainer_forward(s->trainer, some, n, a, true, lp, err);
        mint_buf_reset(&b);
        for (size_t i = 0; i < n && rc == 0; one += some[i++]->n)
            put_forward(&b, some[i], one);
        if (rc == 0)
            rc = mint_out_write(out, b.data, b.len, err);
        free(lp);
        mint_progress_set(&s->progress, (double)(at + n), NULL);
    }
    mint_progress_end(&s->progress);
    mint_buf_release(&b);
    if (rc == 0)
        return mint_out_commit(out, err);
    mint_out_abort(out);
    return -1;
}

/* Ratios are exact only between logprobs of one arithmetic; others are those of another policy. */
static void say_foreign(const struct session *s)
{
    const struct mint_datum *one = NULL;
    size_t n = mint_datums_foreign(&s->data, s->policy.dev, &one);
    if (n && !s->o->forward_only && mint_loss_has_ratio(&s->config.opts.loss))
        mint_warn("%zu of %zu datums have logprobs computed by %s (%s), this run computes by %s "
                  "(%s): they count as those of another policy, and ratios of an unchanged one are "
                  "near 1, not 1; mint-sample --replay computes them here",
                  n, s->data.n, one->device ? one->device : "another device",
                  one->precision ? one->precision : "?", s->policy.dev->kind,
                  s->o->common.precision ? "f32" : "bf16");
}

static int read_data(struct session *s, struct mint_err *err)
{
    const struct options *o = s->o;
    const struct mint_strs *files = &o->common.operands;
    const struct mint_model_config *c = &s->policy.model->config;
    if (mint_datums_read(&s->data, files->v, files->n, o->common.skip_bad, mint_warn_skipped,
                         o->forward_only ? NULL : &s->config.opts, c->vocab, c->max_positions,
                         err) < 0)
        return -1;
    if (!s->data.n)
        return mint_fail(err, MINT_ESCHEMA, "no datums: nothing to %s (all groups flat or empty?)",
                         o->forward_only ? "compute" : "train on");
    say_foreign(s);
    if (o->loss == MINT_LOSS_DPO && !o->forward_only)
        return mint_datums_check_pairs(&s->data, err);
    return 0;
}

static int make_trainer(struct session *s, struct mint_err *err)
{
    struct mint_policy *p = &s->policy;
    struct mint_adapter *trained = p->adapter;
    if (s->o->forward_only)
        return mint_trainer_new(&s->trainer, p->model, NULL, p->adapter, &s->config.opts, err);
    if (!trained) {
        if (mint_adapter_new(&s->fresh, p->model, &s->config.adapter, s->config.seed, err) < 0)
            return -1;
        trained = s->fresh;
    }
    if (mint_trainer_new(&s->trainer, p->model, trained, s->ref, &s->config.opts, err) < 0)
        return -1;
    if (!p->has_checkpoint)
        return 0;
    if (!p->checkpoint.optimizer)
        mint_note("%s has no optimizer.safetensors: Adam starts anew", s->o->from);
    return mint_trainer_load_optimizer(s->trainer, p->checkpoint.optimizer,
                                       p->checkpoint.state.step, err);
}

static bool needs_ref(const struct session *s)
{
    const struct mint_loss_opts *l = &s->config.opts.loss;
    bool missing = false;
    for (size_t i = 0; i < s->data.n; i++)
        missing |= !s->data.d[i].ref_logprobs;
    return missing && (l->loss == MINT_LOSS_DPO || l->kl_coef != 0.0f);
}

/* Bytes of activations, with what is computed again. Without the device nobody knows what fits. */
static double plan_memory(const struct session *s, const struct mint_datum *const *d,
                          enum mint_recompute *again)
{
    struct mint_train_opts o = s->config.opts;
    const struct mint_model *m = s->policy.model;
    int64_t rank = s->config.adapter.rank;
    size_t bytes = mint_trainer_bytes(m, rank, &o, d, s->data.n, again);
    if (s->no_device.code == MINT_OK || o.recompute != MINT_RECOMPUTE_AUTO)
        return (double)bytes;
    *again = o.recompute = MINT_RECOMPUTE_NONE;
    double most = (double)mint_trainer_bytes(m, rank, &o, d, s->data.n, NULL);
    o.recompute = MINT_RECOMPUTE_ALL;
    mint_note("plan: --recompute all would make it %.0f MB of activations",
              (double)mint_trainer_bytes(m, rank, &o, d, s->data.n, NULL) / 1e6);
    return most;
}

static int plan_metrics(const struct session *s, const struct mint_plan *p,
                        const struct mint_plan_speed *speed, double activations, double weights,
                        struct mint_err *err)
{
    struct mint_metrics m = MINT_METRICS_INIT;
    mint_metrics_begin(&m, "mint-train");
    mint_metrics_int(&m, "datums", (int64_t)s->data.n);
    mint_metrics_int(&m, "plan/steps", mint_train_planned(&s->config, s->data.n));
    mint_metrics_int(&m, "plan/weight_bytes", (int64_t)weights);
    mint_metrics_int(&m, "plan/activation_bytes", (int64_t)activations);
    mint_metrics_double(&m, "plan/flops", p->flops);
    if (p->seconds > 0) {
        mint_metrics_double(&m, "plan/flops_per_s", speed->product);
        mint_metrics_double(&m, "plan/seconds", p->seconds);
    }
    return mint_metrics_end(&m, s->o->common.metrics, err);
}

/* What the run would take, on stderr and in --metrics. */
static int say_plan(struct session *s, struct mint_err *err)
{
    const struct mint_model_config *c = &s->policy.model->config;
    const struct mint_datum **d = mint_xcalloc(s->data.n, sizeof *d);
    struct mint_train_work w;
    struct mint_plan_speed speed;
    struct mint_plan p;
    enum mint_recompute again;
    bool timed = s->no_device.code == MINT_OK && (mint_log_level() >= 0 || s->o->common.metrics);
    for (size_t i = 0; i < s->data.n; i++)
        d[i] = &s->data.d[i];
    mint_trainer_work(s->policy.model, &s->config.opts, d, s->data.n, &w);
    double bytes = plan_memory(s, d, &again);
    double weights = mint_plan_weight_bytes(c, s->policy.dev->act_bytes);
    free(d);
    if (timed)
        MINT_TRY(mint_plan_measure_train(&speed, s->policy.dev, c, s->config.adapter.rank, err));
    w.rows *= s->config.epochs;
    w.head_rows *= s->config.epochs;
    w.keys *= s->config.epochs;
    mint_plan_train(c, &s->config.adapter, &w, again, needs_ref(s), bytes, timed ? &speed : NULL,
                    &p);
    mint_note("plan: %zu datums, %lld positions to compute, %lld optimiser steps; about %.0f MB of "
              "activations, recompute %s, beside %.0f MB of weights",
              s->data.n, (long long)w.rows, (long long)mint_train_planned(&s->config, s->data.n),
              bytes / 1e6, mint_recompute_names[again], weights / 1e6);
    mint_plan_say(&p, timed ? &speed : NULL, &s->no_device);
    return plan_metrics(s, &p, &speed, bytes, weights, err);
}

/* 1: there is nothing left to do. */
static int prepare(struct session *s, struct mint_err *err)
{
    const struct options *o = s->o;
    if (open_model(s, o, err) < 0)
        return -1;
    if (o->to && !o->dry_run && is_first(s) && take_lock(s, err) < 0)
        return -1;
    if (read_data(s, err) < 0)
        return -1;
    if (o->forward_only)
        return 0;
    if (o->dry_run)
        return say_plan(s, err) < 0 ? -1 : 1;
    if (fill_state(s, err) < 0)
        return -1;
    if (check_schedule(s, err) < 0)
        return -1;
    return existing(s, err);
}

static int work(struct session *s, struct mint_err *err)
{
    int rc = prepare(s, err);
    bool done = rc == 1;
    if (mint_ranks_agree(&s->ranks, done ? 0 : rc, err) < 0)
        return -1;
    if (done)
        return 0;
    if (make_trainer(s, err) < 0)
        return -1;
    return s->o->forward_only ? forward_only(s, err) : train(s, err);
}

static void close_all(struct session *s)
{
    if (s->locked) {
        unlink(
            s->lock.path); /* while it is held: whoever has it open sees that it is gone (fs.h) */
        mint_lock_release(&s->lock);
    }
    mint_trainer_free(s->trainer);
    mint_adapter_close(s->ref);
    mint_adapter_close(s->fresh);
    if (s->has_ref)
        mint_checkpoint_close(&s->ref_checkpoint);
    mint_policy_close(&s->policy);
    mint_datums_release(&s->data);
    mint_buf_release(&s->options_json);
}

/* Finds the other processes, if there are any. Only the first of them speaks and writes. */
static int join_job(struct session *s, struct options *o, struct mint_err *err)
{
    const struct mint_strs *files = &o->common.operands;
    bool from_stdin = files->n == 0;
    MINT_TRY(mint_ranks_open(&s->ranks, err));
    if (s->ranks.size > 1 && o->forward_only)
        return mint_usage(err, "--forward-only takes one process: cut the datums into parts");
    for (size_t i = 0; i < files->n; i++)
        from_stdin |= strcmp(files->v[i], "-") == 0;
    if (from_stdin)
        MINT_TRY(mint_ranks_share_stdin(&s->ranks, err));
    if (!is_first(s)) {
        mint_log_setup(tool.name, -1, MINT_PROGRESS_NEVER);
        o->common.metrics = NULL;
    }
    return 0;
}

static int run(struct options *o, struct mint_ranks *ranks, uint64_t *skipped, struct mint_err *err)
{
    struct session s = {0};
    int rc = check_options(o, err) < 0 ? -1 : join_job(&s, o, err);
    *ranks = s.ranks;
    if (rc < 0)
        return -1;
    char *to = o->to ? mint_xstrdup(o->to) : NULL;
    for (size_t n = to ? strlen(to) : 0; n > 1 && to[n - 1] == '/'; n--)
        to[n - 1] = '\0'; /* "ckpt/1/" is ckpt/1 */
    o->to = to;
    fill_config(&s, o);
    rc = work(&s, err);
    *ranks = s.ranks;
    *skipped = is_first(&s) ? s.data.skipped : 0;
    close_all(&s);
    free(to);
    return rc;
}

int main(int argc, char **argv)
{
    struct options o = {.loss = MINT_LOSS_IS,
                        .kl_estimator = MINT_KL_K3,
                        .clip_low = UNSET,
                        .clip_high = UNSET,
                        .beta = UNSET,
                        .correction_low = UNSET,
                        .correction_high = UNSET,
                        .lr = 2e-5,
                        .rank = 16,
                        .alpha = 32,
                        .train_attn = true,
                        .train_mlp = true,
                        .train_unembed = true,
                        .beta1 = 0.9,
                        .beta2 = 0.999,
                        .eps = 1e-8,
                        .epochs = 1,
                        .substeps = 1,
                        .micro_tokens = 1024};
    struct mint_err err = {0};
    uint64_t skipped = 0;
    mint_cli_begin(&tool, argc, argv, &o);
    struct mint_ranks ranks = {.size = 1};
    int rc = run(&o, &ranks, &skipped, &err);
    bool told = ranks.failed && ranks.rank > 0; /* by the first */
    int status = told ? 1 : mint_cli_end(rc, &err, skipped);
    if (rc < 0)
        mint_ranks_abort(&ranks, status); /* the others would wait */
    mint_ranks_close(&ranks);
    return status;
}

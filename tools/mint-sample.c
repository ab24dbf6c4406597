/* SPDX-License-Identifier: Apache-2.0 */
/* mint-sample: groups of responses to prompts, with the logprob of every token. The work is in
 * sample_job.h. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "fs.h"
#include "log.h"
#include "mem.h"
#include "metrics.h"
#include "plan.h"
#include "sample_job.h"
#include "zio.h"

struct options {
    struct mint_common common;
    const char *model, *adapter;
    int64_t group_size, max_tokens, top_k, seed, slots, micro_tokens, step, groups_per_batch;
    int64_t shuffle_seed, kv_memory, max_turns;
    double temperature, top_p;
    struct mint_strs stop, stop_token, exclude;
    bool ignore_eos, chat, allow_special, once, replay, go_on, no_logprobs, append_eos, dry_run;
    const char *system, *template, *shard, *given, *rejected, *as;
    int think, logprobs;
};

static const char *const think_names[] = {"auto", "on", "off", NULL};
static const char *const logprob_names[] = {"policy", "behavior", NULL};

#define O struct options
static const struct mint_opt option_table[] = {
    MINT_O_HEAD("Model"),
    MINT_O_STR('m', "model", "DIR", O, model, "model folder (Hugging Face)"),
    MINT_O_STR(0, "adapter", "CKPT", O, adapter, "LoRA checkpoint on top of it"),
    MINT_O_HEAD("Sampling"),
    MINT_O_INT('n', "group-size", "N", O, group_size, 1, 65536, "responses a prompt"),
    MINT_O_INT(0, "max-tokens", "N", O, max_tokens, 1, 1 << 24, "most tokens of a response"),
    MINT_O_FLOAT('t', "temperature", "T", O, temperature, 0, 100, "0 takes the likeliest token"),
    MINT_O_FLOAT(0, "top-p", "P", O, top_p, 1e-6, 1, "draw from the likeliest tokens of this mass"),
    MINT_O_INT(0, "top-k", "K", O, top_k, -1, 1 << 30, "draw from the K likeliest, -1 all"),
    MINT_O_LIST(0, "stop", "STR", O, stop, "text that ends a response (repeatable)"),
    MINT_O_LIST(0, "stop-token", "ID", O, stop_token, "token that ends it: number or exact text"),
    MINT_O_FLAG(0, "ignore-eos", O, ignore_eos, "the model's own end tokens do not end it"),
    MINT_O_INT('s', "seed", "N", O, seed, 0, 9007199254740992.0, "seed of all draws"),
    MINT_O_CHOICE(0, "logprobs", logprob_names, O, logprobs,
                  "of the untempered policy, or of the distribution drawn from"),
    MINT_O_HEAD("Prompts"),
    MINT_O_FLAG(0, "chat", O, chat, "render messages (or prompt as one user turn) for the model"),
    MINT_O_STR(0, "system", "TEXT", O, system, "system message where a record has none"),
    MINT_O_CHOICE(0, "think", think_names, O, think, "thinking switch of the chat template"),
    MINT_O_FLAG(0, "allow-special", O, allow_special,
                "control tokens in chat content, or in observations, are control tokens"),
    MINT_O_STR(0, "template", "TEXT", O, template, "prompt text from fields: 'Q: {question}\\nA:'"),
    MINT_O_INT(0, "step", "S", O, step, 0, 1e15,
               "take slice S (from 0) of the prompts, epochs on end"),
    MINT_O_INT(0, "groups-per-batch", "N", O, groups_per_batch, 1, 1 << 24, "prompts of a slice"),
    MINT_O_INT(0, "shuffle-seed", "N", O, shuffle_seed, 0, 9007199254740992.0,
               "shuffle the prompts, each epoch anew"),
    MINT_O_STR(0, "shard", "I/N", O, shard, "only part I (from 0) of N"),
    MINT_O_LIST(0, "exclude", "FILE", O, exclude,
                "leave out prompts whose id is in these rollouts (repeatable)"),
    MINT_O_FLAG(0, "once", O, once, "leave out prompts whose id came before, in this run"),
    MINT_O_HEAD("Other sources of responses"),
    MINT_O_FLAG(0, "continue", O, go_on, "draw the next turn of rollouts that have observations"),
    MINT_O_INT(0, "max-turns", "N", O, max_turns, 1, 1e9,
               "with --continue: most turns of a response (no limit)"),
    MINT_O_STR(0, "given", "FIELD", O, given, "take responses from this field instead of sampling"),
    MINT_O_STR(0, "rejected", "FIELD", O, rejected,
               "with --given: those get reward 1, the responses of this field 0"),
    MINT_O_FLAG(0, "append-eos", O, append_eos, "end a given response with the end token"),
    MINT_O_FLAG(0, "no-logprobs", O, no_logprobs, "with --given: the tokenizer is enough"),
    MINT_O_FLAG(0, "replay", O, replay, "recompute the logprobs of rollout files"),
    MINT_O_STR(0, "as", "NAME", O, as, "with --replay: sequence field that gets them"),
    MINT_O_HEAD("Running"),
    MINT_O_INT(0, "batch", "N", O, slots, 1, 65536, "sequences that run at a time"),
    MINT_O_INT(0, "micro-tokens", "N", O, micro_tokens, 1, 1 << 24,
               "positions of one forward pass"),
    MINT_O_INT(0, "kv-memory", "SIZE", O, kv_memory, 0, 1e18,
               "most bytes for keys and values, 0 no limit"),
    MINT_O_FLAG(0, "dry-run", O, dry_run, "print the prompts and their tokens, plan memory, stop"),
    MINT_O_END,
};
#undef O

static const char *const examples[] = {
    "mint-sample --model Qwen3-0.6B --group-size 8 prompts.jsonl -o rollouts.jsonl.zst",
    "mint-sample --model Qwen3-0.6B --adapter ckpt/11 --chat --max-tokens 512 prompts.jsonl",
    "mint-sample --model Qwen3-0.6B --given solution --no-logprobs train.jsonl",
    NULL,
};

static const struct mint_tool tool = {
    .name = "mint-sample",
    .summary = "sample groups of responses from a language model",
    .synopsis = "--model DIR [--adapter CKPT] [options] [PROMPTS...]",
    .groups = MINT_CLI_IO | MINT_CLI_RUN | MINT_CLI_COMPUTE,
    .opts = option_table,
    .reads_stdin = true,
    .examples = examples,
};

/* Where the time of a run goes. A step that reads some of a prompt counts as one of prompts,
 * whatever else it does. */
struct times {
    double start, load, last; /* of the process; until the model was open; end of the last step */
    double first_token, prompt, decode;            /* seconds */
    int64_t prompt_tokens, tokens, decoded_tokens; /* decoded: by the steps of decode */
};

/* Everything that is opened for a run. */
struct session {
    struct mint_policy policy;
    struct mint_tokenizer *tok;
    struct mint_chat *chat;
    struct mint_model_config config;
    int32_t *stop_ids;
    size_t stop_ids_n;
    struct mint_progress progress;
    struct times times;
    struct plan {
        int64_t together; /* sequences */
        double kv_bytes, weight_bytes;
        struct mint_plan_speed speed;
        struct mint_plan work;
        bool timed;
        struct mint_err why_not;
    } plan; /* of a dry run */
};

/* "I/N" with 0 <= I < N. */
static int parse_shard(const char *s, int64_t *i, int64_t *n, struct mint_err *err)
{
    char *end;
    errno = 0;
    *i = strtoll(s, &end, 10);
    if (end != s && *end == '/') {
        const char *second = end + 1;
        *n = strtoll(second, &end, 10);
        if (end != second && *end == '\0' && !errno && *i >= 0 && *i < *n)
            return 0;
    }
    return mint_usage(err, "--shard \"%s\": want I/N with 0 <= I < N, such as 0/4", s);
}

/* An option that the chosen mode does not read is a mistake of the user, who believes that it
 * works. */
static int check_idle(const struct options *o, struct mint_err *err)
{
    static const char *const drawing[] = {"group-size", "max-tokens", "temperature", "top-p",
                                          "top-k",      "stop",       "stop-token",  "ignore-eos",
                                          "seed",       "logprobs",   "batch",       "kv-memory"};
    /* allow-special first: --continue reads it */
    static const char *const prompting[] = {
        "allow-special",    "chat",         "system",  "think", "template", "step", "shard",
        "groups-per-batch", "shuffle-seed", "exclude", "once"};
    const struct mint_idle rules[] = {
        {"as", "--replay", !o->replay},
        {"append-eos", "--given", !o->given},
        {"rejected", "--given", !o->given},
        {"system", "--chat", !o->chat},
        {"think", "--chat", !o->chat},
        {"allow-special", "--chat or --continue", !o->chat && !o->go_on},
        {"max-turns", "--continue", !o->go_on},
        {"group-size", "a run that begins responses", o->go_on},
        {"dry-run", "prompts", o->go_on},
        {"adapter", "a run that computes logprobs", o->no_logprobs},
        {"output", "a run that is no --dry-run", o->dry_run},
        {"groups-per-batch", "--step", o->step < 0 && !o->replay && !o->go_on},
    };
    if (mint_cli_refuse_idle(rules, MINT_ARRAY_LEN(rules), err) < 0)
        return -1;
    const char *name = mint_cli_first_given(drawing, MINT_ARRAY_LEN(drawing));
    if (name && (o->given || o->replay))
        return mint_usage(err, "--%s is for drawing responses: --%s does not read it", name,
                          o->given ? "given" : "replay");
    size_t from = o->go_on ? 1 : 0;
    name = mint_cli_first_given(prompting + from, MINT_ARRAY_LEN(prompting) - from);
    if (name && (o->replay || o->go_on))
        return mint_usage(err, "--%s is for prompts: --%s takes whole rollout files", name,
                          o->replay ? "replay" : "continue");
    return 0;
}

static int check_strings(const struct options *o, struct mint_err *err)
{
    for (size_t i = 0; i < o->exclude.n; i++)
        if (strcmp(o->exclude.v[i], "-") == 0)
            return mint_usage(err, "--exclude takes a file, not standard input");
    for (size_t i = 0; i < o->stop.n; i++)
        if (!o->stop.v[i][0])
            return mint_usage(err, "--stop is empty: it would end every response at once");
    if (o->rejected && strcmp(o->rejected, o->given) == 0)
        return mint_usage(err, "--given and --rejected are both \"%s\"", o->given);
    size_t n = o->as ? strlen(o->as) : 0, tail = strlen("_logprobs");
    if (o->as && strcmp(o->as, "logprobs") != 0 &&
        (n <= tail || strcmp(o->as + n - tail, "_logprobs") != 0))
        return mint_usage(err,
                          "--as \"%s\": want logprobs, or a name that ends in _logprobs, such "
                          "as ref_logprobs",
                          o->as);
    return 0;
}

static int check_options(struct options *o, struct mint_err *err)
{
    int64_t shard, shards;
    if (o->shard && parse_shard(o->shard, &shard, &shards, err) < 0)
        return -1;
    if (!o->model)
        return mint_usage(err, "--model DIR is missing");
    if (o->temperature == 0 && !mint_cli_given("group-size"))
        o->group_size = 1;
    if (o->temperature == 0 && o->group_size > 1)
        return mint_usage(err,
                          "--temperature 0 gives %lld equal responses a prompt; use "
                          "--group-size 1, or a temperature above 0",
                          (long long)o->group_size);
    if ((o->given != NULL) + o->replay + o->go_on > 1)
        return mint_usage(err, "--given, --replay and --continue exclude each other");
    if (o->no_logprobs && !o->given)
        return mint_usage(err, "--no-logprobs goes with --given");
    if (check_idle(o, err) < 0 || check_strings(o, err) < 0)
        return -1;
    return o->template ? mint_template_check(o->template, err) : 0;
}

static int add_stop_token(struct session *s, const char *text, struct mint_err *err)
{
    char *end;
    errno = 0;
    long id = strtol(text, &end, 10);
    if (end == text || *end || errno)
        id = mint_tokenizer_id(s->tok, text);
    if (id < 0 || id > INT32_MAX || !mint_tokenizer_has(s->tok, (int32_t)id) ||
        (s->config.vocab && id >= s->config.vocab))
        return mint_usage(err, "--stop-token \"%s\": the tokenizer has no such token", text);
    s->stop_ids[s->stop_ids_n++] = (int32_t)id;
    return 0;
}

/* The model's end tokens (generation_config.json, config.json) and those of --stop-token. */
static int collect_stop_ids(struct session *s, const struct options *o, struct mint_err *err)
{
    s->stop_ids = mint_xcalloc(MINT_MAX_EOS + o->stop_token.n, sizeof *s->stop_ids);
    for (int32_t i = 0; i < s->config.eos_n && !o->ignore_eos; i++)
        s->stop_ids[s->stop_ids_n++] = s->config.eos[i];
    for (size_t i = 0; i < o->stop_token.n; i++)
        if (add_stop_token(s, o->stop_token.v[i], err) < 0)
            return -1;
    return 0;
}

/* The token that ends a given response: the tokenizer's, else the model's first. */
static int32_t end_token(const struct session *s)
{
    int32_t eos = mint_tokenizer_eos(s->tok);
    return eos >= 0 || !s->config.eos_n ? eos : s->config.eos[0];
}

static int open_all(struct session *s, const struct options *o, struct mint_err *err)
{
    char *config = mint_fs_join(o->model, "config.json");
    bool bare = o->no_logprobs && !mint_fs_exists(config);
    free(config);
    if (!bare && mint_model_config_read(&s->config, o->model, err) < 0)
        return -1;
    if (mint_tokenizer_open(&s->tok, o->model, err) < 0)
        return -1;
    if (o->chat && mint_chat_open(&s->chat, o->model, err) < 0)
        return -1;
    if (collect_stop_ids(s, o, err) < 0)
        return -1;
    if (o->no_logprobs || o->dry_run)
        return 0;
    struct mint_policy_opts p = {
        .model = o->model,
        .adapter = o->adapter,
        .device = o->common.device,
        .precision = o->common.precision,
        .threads = (int)o->common.threads,
        .packed = !o->given && !o->replay,
    };
    return mint_policy_open(&s->policy, &p, err);
}

static void close_all(struct session *s)
{
    mint_policy_close(&s->policy);
    mint_chat_close(s->chat);
    mint_tokenizer_close(s->tok);
    free(s->stop_ids);
}

static void count_step(struct times *t, int64_t prompt_tokens, int64_t tokens)
{
    double now = mint_now(), seconds = now - t->last;
    int64_t read = prompt_tokens - t->prompt_tokens, drawn = tokens - t->tokens;
    if (!t->tokens && tokens)
        t->first_token = now - t->start;
    if (read) {
        t->prompt += seconds;
    } else {
        t->decode += seconds;
        t->decoded_tokens += drawn;
    }
    mint_verbose(2, "%lld prompt tokens, %lld new tokens, %.2f ms", (long long)read,
                 (long long)drawn, 1e3 * seconds);
    t->last = now;
    t->prompt_tokens = prompt_tokens;
    t->tokens = tokens;
}

static void show_progress(void *ctx, int64_t groups, int64_t prompt_tokens, int64_t tokens)
{
    struct session *s = ctx;
    char extra[64];
    count_step(&s->times, prompt_tokens, tokens);
    snprintf(extra, sizeof extra, "%lld tokens", (long long)tokens);
    mint_progress_set(&s->progress, (double)groups, extra);
}

/* Rows of the head up to the last one that has a token: what lies behind is padding. */
static int32_t drawable(const struct session *s)
{
    int32_t n = mint_tokenizer_size(s->tok);
    if (s->config.vocab && s->config.vocab < n)
        n = s->config.vocab;
    while (n > 1 && !mint_tokenizer_has(s->tok, n - 1))
        n--;
    return n;
}

static int fill_job(struct mint_sample_job *j, struct session *s, const struct options *o,
                    struct mint_err *err)
{
    const struct mint_strs *files = &o->common.operands;
    j->prompts = (struct mint_promptset_opts){
        .paths = files->v,
        .npaths = files->n,
        .skip_bad = o->common.skip_bad,
        .step = o->step,
        .groups_per_batch = o->groups_per_batch,
        .shuffle = mint_cli_given("shuffle-seed"),
        .shuffle_seed = (uint64_t)o->shuffle_seed,
        .on_skip = mint_warn_skipped,
        .exclude = o->exclude.v,
        .nexclude = o->exclude.n,
        .once = o->once,
    };
    if (o->shard && parse_shard(o->shard, &j->prompts.shard, &j->prompts.shards, err) < 0)
        return -1;
    j->prompt = (struct mint_prompt_opts){
        .tok = s->tok,
        .chat = s->chat,
        .chat_opts = {.add_generation_prompt = true,
                      .think = (enum mint_chat_think)o->think,
                      .allow_special = o->allow_special,
                      .system = o->system},
        .template = o->template,
    };
    j->sampler = (struct mint_sampler_opts){
        .temperature = (float)o->temperature,
        .top_p = (float)o->top_p,
        .top_k = (int32_t)o->top_k,
        .max_tokens = o->max_tokens,
        .seed = (uint64_t)o->seed,
        .stop_ids = s->stop_ids,
        .stop_ids_n = s->stop_ids_n,
        .stop_strings = o->stop.v,
        .stop_strings_n = o->stop.n,
        .tok = s->tok,
        .behavior = o->logprobs == 1,
        .draw_vocab = drawable(s),
        .slots = o->slots,
        .prefill_rows = MINT_MIN(o->micro_tokens, (int64_t)512),
        .kv_bytes = (size_t)o->kv_memory,
    };
    j->temperature = o->temperature;
    j->top_p = o->top_p;
    j->group = o->group_size;
    j->epoch_streams = o->step >= 0;
    j->given = o->given;
    j->rejected = o->rejected;
    j->append_eos = o->append_eos && end_token(s) >= 0;
    j->eos = end_token(s);
    j->with_logprobs = !o->no_logprobs;
    j->policy = s->policy.dev ? &s->policy : NULL;
    j->micro_tokens = o->micro_tokens;
    j->as = o->as ? o->as : "logprobs";
    j->max_turns = o->max_turns < 0 ? 0 : o->max_turns;
    j->max_positions = s->config.max_positions;
    j->step = s->policy.has_checkpoint ? s->policy.checkpoint.state.step : 0;
    j->device = s->policy.dev ? s->policy.dev->kind : NULL;
    j->precision = o->common.precision ? "f32" : "bf16";
    j->progress = show_progress;
    j->progress_ctx = s;
    return 0;
}

static double rate(int64_t n, double seconds)
{
    return seconds > 0 ? (double)n / seconds : 0;
}

/* A dry run of responses that are given shows the prompts alone. */
static bool plans(const struct options *o)
{
    return o->dry_run && !o->given;
}

static void plan_metrics(struct mint_metrics *m, const struct plan *p)
{
    mint_metrics_int(m, "plan/weight_bytes", (int64_t)p->weight_bytes);
    mint_metrics_int(m, "plan/kv_bytes", (int64_t)(p->kv_bytes + 0.5));
    mint_metrics_double(m, "plan/flops", p->work.flops);
    if (!p->timed)
        return;
    mint_metrics_double(m, "plan/flops_per_s", p->speed.product);
    mint_metrics_double(m, "plan/bytes_per_s", p->speed.read);
    mint_metrics_double(m, "plan/seconds", p->work.seconds);
}

static int write_metrics(const struct options *o, const struct mint_sample_job *j,
                         const struct session *s, double seconds, struct mint_err *err)
{
    const struct times *t = &s->times;
    struct mint_metrics m = MINT_METRICS_INIT;
    double n = (double)j->sequences;
    mint_metrics_begin(&m, "mint-sample");
    mint_metrics_int(&m, "step", j->step);
    mint_metrics_int(&m, "groups", j->groups);
    mint_metrics_int(&m, "sequences", j->sequences);
    mint_metrics_int(&m, "env/total_ac_tokens", j->tokens);
    mint_metrics_int(&m, "env/total_ob_tokens", j->prompt_tokens);
    mint_metrics_double(&m, "env/ac_tokens_mean", n > 0 ? (double)j->tokens / n : 0);
    mint_metrics_double(&m, "env/stop_length_frac",
                        n > 0 ? (double)(j->sequences - j->stopped) / n : 0);
    if (o->go_on) {
        mint_metrics_int(&m, "turns", j->turns);
        mint_metrics_int(&m, "turns_cut", j->cut);
    }
    mint_metrics_int(&m, "skipped", (int64_t)j->skipped);
    mint_metrics_int(&m, "excluded", (int64_t)j->excluded);
    mint_metrics_double(&m, "perf/tokens_per_s", rate(j->tokens, seconds));
    if (plans(o)) {
        plan_metrics(&m, &s->plan);
    } else if (!o->given && !o->replay) {
        mint_metrics_double(&m, "perf/prompt_tokens_per_s", rate(t->prompt_tokens, t->prompt));
        mint_metrics_double(&m, "perf/decode_tokens_per_s", rate(t->decoded_tokens, t->decode));
        mint_metrics_double(&m, "time/first_token", t->first_token);
        mint_metrics_double(&m, "time/prompt", t->prompt);
        mint_metrics_double(&m, "time/decode", t->decode);
    }
    mint_metrics_double(&m, "time/load", t->load);
    mint_metrics_double(&m, "time/total", seconds);
    return mint_metrics_end(&m, o->common.metrics, err);
}

/* Measures, unless nobody would hear of it. Without the device there is no time. */
static int measure(const struct options *o, struct session *s, struct mint_err *err)
{
    struct plan *p = &s->plan;
    struct mint_dev *dev;
    if (mint_log_level() < 0 && !o->common.metrics)
        return 0;
    if (mint_backend_open(&dev, o->common.device, (enum mint_precision)o->common.precision,
                          (int)o->common.threads, &p->why_not) < 0)
        return 0;
    int rc = mint_plan_measure(&p->speed, dev, &s->config, p->together, err);
    mint_backend_close(dev);
    p->timed = rc == 0;
    return rc;
}

/* What a real run would take, if every response is as long as it may be. */
static int make_plan(const struct options *o, struct session *s, const struct mint_sample_job *j,
                     struct mint_err *err)
{
    const struct mint_model_config *c = &s->config;
    struct plan *p = &s->plan;
    size_t act = o->common.precision ? 4 : 2;
    int64_t sequences = j->groups * o->group_size;
    p->together = MINT_MAX(MINT_MIN(o->slots, sequences), (int64_t)1);
    struct mint_plan_sampling in = {
        .prompts = (double)j->groups,
        .prompt_tokens = (double)j->prompt_tokens,
        .sequences = (double)sequences,
        .tokens = (double)sequences * (double)o->max_tokens,
        .slots = (double)p->together,
        .act_bytes = act,
    };
    double prompt = j->groups ? in.prompt_tokens / in.prompts : 0;
    double token = 2.0 * c->layers * c->kv_heads * c->head_dim * (double)act;
    p->kv_bytes = (double)p->together * (prompt + (double)o->max_tokens) * token;
    p->weight_bytes = mint_plan_weight_bytes(c, act);
    if (measure(o, s, err) < 0)
        return -1;
    mint_plan_sample(c, &in, p->timed ? &p->speed : NULL, &p->work);
    return 0;
}

static void say_plan(const struct options *o, const struct plan *p, const struct mint_sample_job *j)
{
    mint_note("plan: %lld prompts, %lld prompt tokens, at most %lld tokens to sample; keys and "
              "values about %.1f MB (%lld sequences at a time), beside %.0f MB of weights",
              (long long)j->groups, (long long)j->prompt_tokens,
              (long long)(j->groups * o->group_size * o->max_tokens), p->kv_bytes / 1e6,
              (long long)p->together, p->weight_bytes / 1e6);
    mint_plan_say(&p->work, p->timed ? &p->speed : NULL, &p->why_not);
}

static int do_job(const struct options *o, struct session *s, struct mint_sample_job *j,
                  struct mint_err *err)
{
    int rc;
    s->times.last = mint_now();
    s->times.load = s->times.last - s->times.start;
    mint_progress_begin(&s->progress, "sampling", "groups", 0);
    if (o->dry_run)
        rc = mint_sample_dry_run(j, err);
    else if (o->given)
        rc = mint_sample_given(j, err);
    else if (o->replay)
        rc = mint_sample_replay(j, err);
    else if (o->go_on)
        rc = mint_sample_continue(j, err);
    else
        rc = mint_sample_generate(j, err);
    mint_progress_end(&s->progress);
    return rc;
}

/* Ends the output, and says what was done. */
static int finish(const struct options *o, struct session *s, struct mint_sample_job *j,
                  struct mint_err *err)
{
    double seconds = mint_now() - s->times.start;
    struct mint_out *out = j->out;
    j->out = NULL;
    if ((plans(o) && make_plan(o, s, j, err) < 0) || write_metrics(o, j, s, seconds, err) < 0) {
        mint_out_abort(out);
        return -1;
    }
    if (mint_out_commit(out, err) < 0)
        return -1;
    if (j->excluded)
        mint_note("%lld prompts were left out: they were drawn before", (long long)j->excluded);
    if (j->cut)
        mint_note("%lld responses end here: --max-turns, or the context's end", (long long)j->cut);
    if (plans(o))
        say_plan(o, &s->plan, j);
    if (o->dry_run)
        return 0;
    mint_verbose(1, "%lld groups, %lld sequences, %lld tokens in %.2f s (%.0f tokens/s)",
                 (long long)j->groups, (long long)j->sequences, (long long)j->tokens, seconds,
                 rate(j->tokens, seconds));
    return 0;
}

/* The output is opened before the model: a run that fails on the model then leaves an unfinished
 * frame in a pipe, which the next tool refuses, and not an empty input, which it would take for no
 * records. */
static int run(struct options *o, uint64_t *skipped, struct mint_err *err)
{
    struct session s = {.times.start = mint_now()};
    struct mint_sample_job job = {0};
    unsigned flags = (o->common.plain || o->dry_run ? MINT_OUT_PLAIN : 0u) |
                     (o->common.force ? MINT_OUT_FORCE : 0u);
    if (check_options(o, err) < 0)
        return -1;
    int rc = mint_out_open(&job.out, o->common.output, flags, err);
    if (rc == 0)
        rc = open_all(&s, o, err);
    if (rc == 0)
        rc = fill_job(&job, &s, o, err);
    if (rc == 0)
        rc = do_job(o, &s, &job, err);
    if (rc == 0)
        rc = finish(o, &s, &job, err);
    mint_out_abort(job.out);
    *skipped = job.skipped;
    close_all(&s);
    return rc;
}

int main(int argc, char **argv)
{
    struct options o = {.group_size = 4,
                        .max_tokens = 16,
                        .temperature = 0.8,
                        .top_p = 1,
                        .top_k = -1,
                        .slots = 32,
                        .micro_tokens = 2048,
                        .step = -1,
                        .groups_per_batch = 8,
                        .max_turns = -1,
                        .append_eos = true};
    struct mint_err err = {0};
    uint64_t skipped = 0;
    mint_cli_begin(&tool, argc, argv, &o);
    int rc = run(&o, &skipped, &err);
    return mint_cli_end(rc, &err, skipped);
}

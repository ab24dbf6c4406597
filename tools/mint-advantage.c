/* SPDX-License-Identifier: Apache-2.0 */
/* mint-advantage: scored rollout groups to Datums. Numbers and text: lib/advantage.h. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "advantage.h"
#include "cli.h"
#include "log.h"
#include "metrics.h"
#include "num.h"
#include "record.h"

/* A block of output goes out when it has grown to this. */
enum { FLUSH_BYTES = 1 << 19 };

struct opts {
    struct mint_common common;
    int norm, like, missing_logprobs, kl_center, pairs;
    bool keep_flat, sft, drop_truncated, mask_truncated;
    double min_reward, min_margin, overlong_factor, eps, clip;
    double kl_coef, kl_discount, teacher_coef;
    int64_t overlong_buffer, max_tokens, max_staleness, step, ddof, max_groups;
    struct mint_strs scores;
    const char *length_norm;
};

/* What peers do with the rewards of a group, as their configuration classes have it. All of them
 * let flat groups through, with advantages of 0. */
static const struct peer {
    const char *name;
    enum mint_adv_norm norm;
    double eps;
} peers[] = {
    {"none", MINT_ADV_MEAN, MINT_ADV_EPS},
    {"trl", MINT_ADV_STD, 1e-4},
    {"verl", MINT_ADV_STD, 1e-6},
    {"openrlhf", MINT_ADV_STD, 1e-9},
    {"tinker", MINT_ADV_MEAN, MINT_ADV_EPS},
    {"mint-dapo", MINT_ADV_STD, 1e-6},
};
static const char *const likes[] = {"none", "trl", "verl", "openrlhf", "tinker", "mint-dapo", NULL};

static const char *const centers[] = {"batch", "none", NULL};

static const char *const missing[] = {"error", "drop", "zero", NULL};

static const struct mint_opt table[] = {
    MINT_O_HEAD("Advantage"),
    MINT_O_CHOICE(0, "norm", mint_adv_norm_names, struct opts, norm,
                  "how rewards of a group become advantages"),
    MINT_O_FLOAT(0, "eps", "X", struct opts, eps, 0, 1e6,
                 "added to deviations (1e-6); reinforce++: to the variance (1e-8)"),
    MINT_O_INT(0, "ddof", "D", struct opts, ddof, 0, 1,
               "deviations divide by the count less this (1)"),
    MINT_O_CHOICE(0, "like", likes, struct opts, like,
                  "norm, eps, ddof and flat groups as in that program"),
    MINT_O_FLAG(0, "keep-flat", struct opts, keep_flat,
                "keep groups whose rewards are all equal, with advantage 0"),
    MINT_O_LIST(0, "score", "NAME[=W]", struct opts, scores,
                "gdpo: a score to use and its weight (all of them, 1)"),
    MINT_O_FLOAT(0, "clip", "X", struct opts, clip, 1e-9, 1e30,
                 "keep advantages between -X and X, before the length norm"),
    MINT_O_STR(0, "length-norm", "HOW", struct opts, length_norm,
               "divide by: none, sequence or batch (tokens), max-tokens, a number"),
    MINT_O_HEAD("KL and teacher"),
    MINT_O_FLOAT(0, "kl-penalty-coef", "C", struct opts, kl_coef, 0, 1e6,
                 "weight of the KL to ref_logprobs, in the advantages"),
    MINT_O_FLOAT(0, "kl-discount-factor", "G", struct opts, kl_discount, 0, 1,
                 "share of the next token's KL in a token's (0; reinforce++: 1)"),
    MINT_O_CHOICE(0, "kl-center", centers, struct opts, kl_center,
                  "what is taken off that KL: its mean, or nothing"),
    MINT_O_FLOAT(0, "teacher-coef", "C", struct opts, teacher_coef, 0, 1e6,
                 "weight of the KL to teacher_logprobs, for distillation"),
    MINT_O_HEAD("Which sequences count"),
    MINT_O_FLAG(0, "drop-truncated", struct opts, drop_truncated,
                "leave out responses that hit the token limit"),
    MINT_O_FLAG(0, "mask-truncated", struct opts, mask_truncated,
                "let them count in the mean of their group, but give no Datum"),
    MINT_O_CHOICE(0, "missing-logprobs", missing, struct opts, missing_logprobs,
                  "what to do with responses that have none"),
    MINT_O_INT(0, "max-staleness", "K", struct opts, max_staleness, 0, 1e9,
               "drop groups sampled more than K steps before --step"),
    MINT_O_INT(0, "step", "S", struct opts, step, 0, 1e15, "the present step"),
    MINT_O_INT(0, "max-groups", "N", struct opts, max_groups, 1, 1e15,
               "stop at N groups that give Datums; count the rest"),
    MINT_O_HEAD("Overlong penalty"),
    MINT_O_INT(0, "overlong-buffer", "N", struct opts, overlong_buffer, 1, 1e9,
               "lower the reward over the last N tokens before the limit"),
    MINT_O_FLOAT(0, "overlong-factor", "X", struct opts, overlong_factor, 0, 1e6,
                 "how much is taken off at the limit"),
    MINT_O_INT(0, "max-tokens", "N", struct opts, max_tokens, 1, 1e9,
               "the limit, where it is not the record's own"),
    MINT_O_HEAD("Preferences"),
    MINT_O_CHOICE(0, "pairs", mint_adv_pairs_names, struct opts, pairs,
                  "pairs for mint-train --loss dpo: which two of a group"),
    MINT_O_FLOAT(0, "min-margin", "R", struct opts, min_margin, 0, 1e30,
                 "least difference of their rewards (any)"),
    MINT_O_HEAD("Supervised Datums"),
    MINT_O_FLAG(0, "sft", struct opts, sft,
                "weights only: no advantages, no logprobs, no reward needed"),
    MINT_O_FLOAT(0, "min-reward", "R", struct opts, min_reward, -1e30, 1e30,
                 "with --sft: only responses with a reward of at least R"),
    MINT_O_END,
};

static const char *const examples[] = {
    "mint-score number rollouts.jsonl.zst | mint-advantage -o datums.jsonl.zst",
    "mint-advantage --norm std --overlong-buffer 4 scored.jsonl.zst -o datums.jsonl.zst",
    "mint-advantage --like trl scored.jsonl.zst -o datums.jsonl.zst",
    "mint-advantage --pairs best-worst scored.jsonl.zst | mint-train --loss dpo ...",
    "mint-advantage --sft --min-reward 1 scored.jsonl.zst | mint-train --loss cross_entropy ...",
    NULL,
};

static const struct mint_tool tool = {
    .name = "mint-advantage",
    .summary = "turn scored rollout groups into training Datums",
    .synopsis = "[options] [FILES...]",
    .groups = MINT_CLI_IO | MINT_CLI_RUN,
    .opts = table,
    .reads_stdin = true,
    .examples = examples,
};

static int set_length_norm(struct mint_adv_opts *a, const char *how, struct mint_err *err)
{
    static const char *const names[] = {"none", "sequence", "batch", "max-tokens"};
    for (size_t i = 0; i < MINT_ARRAY_LEN(names); i++) {
        if (!strcmp(how, names[i])) {
            a->length = (enum mint_adv_length)i;
            return 0;
        }
    }
    a->length = MINT_LEN_CONST;
    if (!mint_num_arg_double(how, &a->length_const) || !isfinite(a->length_const) ||
        a->length_const < 1e-30)
        return mint_usage(err,
                          "--length-norm must be none, sequence, batch, max-tokens or a number "
                          "above 0, not '%s'",
                          how);
    return 0;
}

/* NAME[=W] of each --score. */
static int set_scores(const struct opts *o, struct mint_arena *arena, struct mint_adv_opts *a,
                      struct mint_err *err)
{
    struct mint_adv_score *scores = mint_arena_alloc(arena, (o->scores.n + 1) * sizeof(*scores));
    for (size_t i = 0; i < o->scores.n; i++) {
        const char *arg = o->scores.v[i], *eq = strrchr(arg, '=');
        size_t len = eq ? (size_t)(eq - arg) : strlen(arg);
        scores[i] = (struct mint_adv_score){mint_arena_strndup(arena, arg, len), 1};
        if (len == 0 || (eq && (!mint_num_arg_double(eq + 1, &scores[i].weight) ||
                                !isfinite(scores[i].weight))))
            return mint_usage(err, "--score must be NAME or NAME=WEIGHT, not '%s'", arg);
        for (size_t k = 0; k < i; k++) {
            if (!strcmp(scores[k].name, scores[i].name))
                return mint_usage(err, "--score %s is given twice", scores[i].name);
        }
    }
    a->scores = scores;
    a->nscores = o->scores.n;
    return 0;
}

/* The rule: --like, and what was given beside it. */
static void set_rule(const struct opts *o, struct mint_adv_opts *a)
{
    const struct peer *peer = &peers[o->like];
    a->like = o->like ? peer->name : NULL;
    a->norm = mint_cli_given("norm") ? (enum mint_adv_norm)o->norm : peer->norm;
    a->ddof = mint_cli_given("ddof") ? (int)o->ddof : 1;
    a->keep_flat = mint_cli_given("keep-flat") ? o->keep_flat : o->like != 0;
    bool reinforce = a->norm == MINT_ADV_REINFORCE || a->norm == MINT_ADV_REINFORCE_BASE;
    a->eps = mint_cli_given("eps") ? o->eps : reinforce ? MINT_WHITEN_EPS : peer->eps;
    /* the KL as a part of each token's reward, of which the return is the sum to come */
    a->kl_centre = o->kl_center == 0 && (!reinforce || mint_cli_given("kl-center"));
    a->kl_discount = mint_cli_given("kl-discount-factor") ? o->kl_discount : reinforce ? 1 : 0;
}

/* --sft and --pairs compute no advantages. */
static int check_kind(const struct opts *o, const struct mint_adv_opts *a, struct mint_err *err)
{
    static const char *const idle[] = {
        "norm", "keep-flat",    "like",  "missing-logprobs", "clip",           "eps",
        "ddof", "teacher-coef", "score", "kl-penalty-coef",  "mask-truncated", "overlong-buffer"};
    const char *name = mint_cli_first_given(idle, MINT_ARRAY_LEN(idle) - (o->sft ? 0 : 1));
    if (o->sft && a->pairs)
        return mint_usage(err, "--sft and --pairs exclude each other");
    if (name && (o->sft || a->pairs))
        return mint_usage(err, "--%s makes no sense with --%s, which computes no advantages", name,
                          o->sft ? "sft" : "pairs");
    if (a->has_min_reward && !o->sft)
        return mint_usage(err, "--min-reward needs --sft");
    if (mint_cli_given("min-margin") && !a->pairs)
        return mint_usage(err, "--min-margin needs --pairs");
    if (a->pairs && a->length == MINT_LEN_BATCH)
        return mint_usage(err, "--length-norm batch makes no sense with --pairs: each pair has a "
                               "loss of its own");
    return 0;
}

/* Options that say nothing without others, or contradict them. */
static int check(const struct opts *o, const struct mint_adv_opts *a, struct mint_err *err)
{
    bool whole = a->norm == MINT_ADV_REINFORCE || a->norm == MINT_ADV_REINFORCE_BASE;
    bool deviates = whole || a->norm == MINT_ADV_STD || a->norm == MINT_ADV_GDPO;
    MINT_TRY(check_kind(o, a, err));
    if (a->max_staleness >= 0 && !mint_cli_given("step"))
        return mint_usage(err, "--max-staleness needs --step");
    if (a->max_staleness < 0 && !o->common.metrics && mint_cli_given("step"))
        return mint_usage(err, "--step needs --max-staleness or --metrics");
    if (!a->overlong_buffer && mint_cli_given("overlong-factor"))
        return mint_usage(err, "--overlong-factor needs --overlong-buffer");
    if (!a->overlong_buffer && a->max_tokens && a->length != MINT_LEN_LIMIT)
        return mint_usage(err, "--max-tokens needs --overlong-buffer or --length-norm max-tokens");
    if (!deviates && (mint_cli_given("eps") || mint_cli_given("ddof")))
        return mint_usage(err, "--norm %s divides by no deviation: --eps and --ddof make no sense",
                          mint_adv_norm_names[a->norm]);
    if (a->nscores && a->norm != MINT_ADV_GDPO)
        return mint_usage(err, "--score needs --norm gdpo");
    if (a->drop_truncated && a->mask_truncated)
        return mint_usage(err, "--drop-truncated and --mask-truncated exclude each other");
    if (a->kl_coef == 0 && (mint_cli_given("kl-discount-factor") || mint_cli_given("kl-center")))
        return mint_usage(err, "--kl-discount-factor and --kl-center need --kl-penalty-coef");
    if (whole && a->kl_centre)
        return mint_usage(err,
                          "--kl-center batch makes no sense with --norm %s, which takes off "
                          "the mean itself",
                          mint_adv_norm_names[a->norm]);
    if ((a->kl_coef != 0 || a->teacher_coef != 0) && a->missing_logprobs == MINT_MISSING_ZERO)
        return mint_usage(err, "--missing-logprobs zero makes up the KL: use drop");
    return 0;
}

static int settle(const struct opts *o, struct mint_arena *arena, struct mint_adv_opts *a,
                  struct mint_err *err)
{
    *a = (struct mint_adv_opts){
        .pairs = (enum mint_adv_pairs)o->pairs,
        .min_margin = mint_cli_given("min-margin") ? o->min_margin : 0,
        .clip = mint_cli_given("clip") ? o->clip : 0,
        .drop_truncated = o->drop_truncated,
        .mask_truncated = o->mask_truncated,
        .missing_logprobs = (enum mint_adv_missing)o->missing_logprobs,
        .sft = o->sft,
        .has_min_reward = mint_cli_given("min-reward"),
        .min_reward = o->min_reward,
        .overlong_buffer = mint_cli_given("overlong-buffer") ? o->overlong_buffer : 0,
        .overlong_factor = o->overlong_factor,
        .max_tokens = mint_cli_given("max-tokens") ? o->max_tokens : 0,
        .max_staleness = mint_cli_given("max-staleness") ? o->max_staleness : -1,
        .step = o->step,
        .max_groups = mint_cli_given("max-groups") ? (uint64_t)o->max_groups : 0,
        .kl_coef = o->kl_coef,
        .teacher_coef = o->teacher_coef,
    };
    set_rule(o, a);
    bool dr_grpo = a->norm == MINT_ADV_DR_GRPO && !mint_cli_given("length-norm");
    if (set_length_norm(a, dr_grpo ? "max-tokens" : o->length_norm, err) < 0 ||
        set_scores(o, arena, a, err) < 0)
        return -1;
    return check(o, a, err);
}

/* --- input that is read twice (mint_adv_two_passes): what cannot be opened again is kept in an
 * unnamed temporary file, line for line, so that line numbers stay. */
struct again {
    const char **paths;
    char **own;     /* those of paths that are ours */
    FILE **spool;   /* NULL for a regular file */
    uint64_t *line; /* lines in the spool */
    size_t n;
};

static int again_open(struct again *g, const struct mint_strs *files, struct mint_err *err)
{
    static const char *stdin_only[] = {"-"};
    const char **paths = files->n ? files->v : stdin_only;
    g->n = files->n ? files->n : 1;
    g->paths = mint_xcalloc(g->n, sizeof(*g->paths));
    g->own = mint_xcalloc(g->n, sizeof(*g->own));
    g->spool = mint_xcalloc(g->n, sizeof(*g->spool));
    g->line = mint_xcalloc(g->n, sizeof(*g->line));
    for (size_t i = 0; i < g->n; i++) {
        struct stat st;
        bool regular = strcmp(paths[i], "-") && stat(paths[i], &st) == 0 && S_ISREG(st.st_mode);
        g->paths[i] = paths[i];
        if (regular)
            continue;
        const char *dir = getenv("TMPDIR");
        dir = dir && *dir ? dir : "/tmp";
        int fd = open(dir, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
        g->spool[i] = fd < 0 ? tmpfile() : fdopen(fd, "w+");
        if (!g->spool[i])
            return mint_fail_errno(err, "%s: cannot make a temporary file", dir);
    }
    return 0;
}

static int again_keep(struct again *g, const struct mint_reader *r, struct mint_err *err)
{
    FILE *f = g->spool[r->at];
    if (!f)
        return 0;
    uint64_t to = mint_reader_lineno(r);
    for (; g->line[r->at] + 1 < to; g->line[r->at]++)
        putc('\n', f);
    fwrite(r->line, 1, r->len, f);
    putc('\n', f);
    g->line[r->at] = to;
    return ferror(f) ? mint_fail_errno(err, "cannot write a temporary file") : 0;
}

static int again_rewind(struct again *g, struct mint_err *err)
{
    for (size_t i = 0; i < g->n; i++) {
        if (!g->spool[i])
            continue;
        if (fflush(g->spool[i]) != 0)
            return mint_fail_errno(err, "cannot write a temporary file");
        g->paths[i] = g->own[i] = mint_xasprintf("/proc/self/fd/%d", fileno(g->spool[i]));
    }
    return 0;
}

static void again_close(struct again *g)
{
    for (size_t i = 0; i < g->n; i++) {
        if (!g->spool[i])
            continue;
        fclose(g->spool[i]);
        free(g->own[i]);
    }
    free(g->paths);
    free(g->own);
    free(g->spool);
    free(g->line);
}

/* --- the work */
struct job {
    struct mint_adv_opts adv;
    struct mint_arena arena; /* of adv */
    struct mint_adv_stats stats;
    struct mint_reader in;
    struct mint_out *out;
    struct again again;
    struct mint_adv_batch batch;
};

static int put(struct job *j, struct mint_buf *b, struct mint_err *err)
{
    if (mint_out_write(j->out, b->data, b->len, err) < 0 || mint_out_flush(j->out, err) < 0)
        return -1;
    mint_buf_reset(b);
    return 0;
}

/* The Datums of a group, or its pairs; a group may have very many of these. */
static int write_group(struct job *j, struct mint_adv_writer *w, const struct mint_group *g,
                       const struct mint_adv_seq *seqs, struct mint_buf *b, struct mint_err *err)
{
    struct mint_adv_pair pair = {.chosen = g->nseqs};
    if (!j->adv.pairs) {
        mint_advantage_write(w, &j->adv, &j->batch, &j->in, g, seqs, b);
        return b->len < FLUSH_BYTES ? 0 : put(j, b, err);
    }
    while (mint_adv_pair_next(&j->adv, g, seqs, &pair)) {
        mint_advantage_write_pair(w, &j->adv, &j->in, g, seqs, &pair, b);
        if (b->len >= FLUSH_BYTES)
            MINT_TRY(put(j, b, err));
    }
    return 0;
}

/* One pass over the input; writes unless write is false. */
static int pass(struct job *j, bool write, bool keep, struct mint_err *err)
{
    struct mint_adv_writer w = MINT_ADV_WRITER_INIT;
    struct mint_buf b = MINT_BUF_INIT;
    struct mint_progress p;
    int got;
    mint_progress_begin(&p, "advantages", "groups", 0);
    while ((got = mint_reader_next(&j->in, err)) == 1) {
        struct mint_group g;
        got = mint_group_scan(&j->in, &g, err);
        struct mint_adv_seq *seqs = NULL;
        if (got == 0) {
            seqs = mint_arena_alloc(&j->in.arena, (g.nseqs + 1) * sizeof(*seqs));
            got = mint_advantage_group(&j->adv, &j->batch, &j->in, &g, seqs, &j->stats, err);
        }
        if (got < 0) {
            if ((got = mint_reader_bad(&j->in, err)) < 0)
                break;
            continue;
        }
        if (keep && (got = again_keep(&j->again, &j->in, err)) < 0)
            break;
        if (write && (got = write_group(j, &w, &g, seqs, &b, err)) < 0)
            break;
        mint_progress_set(&p, (double)j->stats.groups, NULL);
    }
    mint_progress_end(&p);
    if (got == 0 && b.len)
        got = put(j, &b, err);
    mint_buf_release(&b);
    mint_adv_writer_release(&w);
    return got;
}

/* What is known of the batch only at its end, such as the number of its tokens, changes every
 * Datum. Nothing is held: what the first pass learns are a few sums. */
static int two_passes(struct job *j, const struct opts *o, struct mint_err *err)
{
    if (again_open(&j->again, &o->common.operands, err) < 0 || pass(j, false, true, err) < 0 ||
        again_rewind(&j->again, err) < 0)
        return -1;
    uint64_t skipped = j->in.skipped;
    j->batch.known = true;
    j->stats = (struct mint_adv_stats){0};
    mint_reader_close(&j->in);
    mint_reader_init(&j->in, j->again.paths, j->again.n, o->common.skip_bad);
    int rc = pass(j, true, false, err);
    j->in.skipped = skipped;
    return rc;
}

static double share(uint64_t part, uint64_t of)
{
    return of ? (double)part / (double)of : (double)NAN;
}

static void metrics_of_batch(const struct job *j, struct mint_metrics *m)
{
    const struct mint_adv_batch *b = &j->batch;
    if (j->adv.kl_coef != 0)
        mint_metrics_double(m, "kl_policy_base", b->kl.n > 0 ? b->kl.mean : (double)NAN);
    if (j->adv.teacher_coef != 0)
        mint_metrics_double(m, "teacher_kl", b->teacher.n > 0 ? b->teacher.mean : (double)NAN);
    if (j->adv.clip > 0)
        mint_metrics_double(m, "advantage/clip_frac",
                            share(j->stats.clipped, j->stats.datum_tokens));
}

static uint64_t datums(const struct job *j)
{
    return j->adv.pairs ? 2 * j->stats.pairs : j->stats.fate[MINT_ADV_KEPT];
}

static int write_metrics(const struct job *j, const struct opts *o, double seconds,
                         struct mint_err *err)
{
    const struct mint_adv_stats *s = &j->stats;
    struct mint_metrics m = MINT_METRICS_INIT;
    uint64_t judged = s->mixed + s->all_good + s->all_bad;
    double n = (double)s->rewards, mean = s->reward_sum / n;
    mint_metrics_begin(&m, "mint-advantage");
    if (mint_cli_given("step"))
        mint_metrics_int(&m, "step", o->step);
    mint_metrics_double(&m, "reward/mean", mean);
    mint_metrics_double(&m, "reward/std", sqrt(MINT_MAX(s->reward_sq / n - mean * mean, 0)));
    if (j->adv.overlong_buffer > 0) {
        mint_metrics_double(&m, "reward/overlong_penalty_mean", s->penalty_sum / n);
        mint_metrics_double(&m, "reward/overlong_penalty_frac", share(s->penalised, s->rewards));
    }
    if (!o->sft) {
        mint_metrics_double(&m, "env/by_group/frac_mixed", share(s->mixed, judged));
        mint_metrics_double(&m, "env/by_group/frac_all_good", share(s->all_good, judged));
        mint_metrics_double(&m, "env/by_group/frac_all_bad", share(s->all_bad, judged));
        mint_metrics_int(&m, "advantage/groups_mixed", (int64_t)s->mixed);
        mint_metrics_int(&m, "advantage/groups_flat_good", (int64_t)s->all_good);
        mint_metrics_int(&m, "advantage/groups_flat_bad", (int64_t)s->all_bad);
        metrics_of_batch(j, &m);
    }
    mint_metrics_double(&m, "env/ac_tokens_mean", share(s->tokens, s->sequences));
    mint_metrics_double(&m, "env/stop_length_frac", share(s->length_stops, s->sequences));
    mint_metrics_int(&m, "advantage/groups", (int64_t)s->groups);
    mint_metrics_int(&m, "advantage/groups_kept", (int64_t)s->groups_kept);
    mint_metrics_int(&m, "advantage/sequences", (int64_t)s->sequences);
    mint_metrics_int(&m, "advantage/datums", (int64_t)datums(j));
    mint_metrics_int(&m, "advantage/datum_tokens", (int64_t)s->datum_tokens);
    if (j->adv.pairs) {
        mint_metrics_int(&m, "advantage/pairs", (int64_t)s->pairs);
        mint_metrics_int(&m, "advantage/pairs_tied", (int64_t)s->pairs_tied);
        mint_metrics_int(&m, "advantage/pairs_same", (int64_t)s->pairs_same);
        mint_metrics_int(&m, "advantage/pairs_close", (int64_t)s->pairs_close);
        mint_metrics_double(&m, "advantage/pair_margin_mean", s->margin_sum / (double)s->pairs);
    }
    for (size_t i = MINT_ADV_KEPT + 1; i < MINT_ADV_FATES; i++) {
        char name[64];
        snprintf(name, sizeof(name), "advantage/dropped_%s", mint_adv_fate_names[i]);
        mint_metrics_int(&m, name, (int64_t)s->fate[i]);
    }
    mint_metrics_int(&m, "advantage/truncated", (int64_t)s->length_stops);
    mint_metrics_int(&m, "advantage/bad_records", (int64_t)j->in.skipped);
    mint_metrics_double(&m, "time/total", seconds);
    return mint_metrics_end(&m, o->common.metrics, err);
}

static void add_pairs(struct mint_buf *b, const struct mint_adv_stats *s)
{
    mint_buf_addf(b, "%" PRIu64 " pairs", s->pairs);
    if (s->pairs)
        mint_buf_addf(b, " (mean margin %.4g)", s->margin_sum / (double)s->pairs);
    if (s->pairs_tied)
        mint_buf_addf(b, ", %" PRIu64 " tied", s->pairs_tied);
    if (s->pairs_same)
        mint_buf_addf(b, ", %" PRIu64 " of the same tokens", s->pairs_same);
    if (s->pairs_close)
        mint_buf_addf(b, ", %" PRIu64 " too close", s->pairs_close);
}

static void say_summary(const struct job *j, const struct opts *o)
{
    const struct mint_adv_stats *s = &j->stats;
    struct mint_buf b = MINT_BUF_INIT;
    mint_buf_addf(&b, "%" PRIu64 " groups", s->groups);
    if (!o->sft)
        mint_buf_addf(&b, " (%" PRIu64 " mixed, %" PRIu64 " flat good, %" PRIu64 " flat bad)",
                      s->mixed, s->all_good, s->all_bad);
    mint_buf_addf(&b, ", %" PRIu64 " sequences -> ", s->sequences);
    if (j->adv.pairs)
        add_pairs(&b, s);
    else
        mint_buf_addf(&b, "%" PRIu64 " datums", datums(j));
    const char *sep = "; dropped: ";
    for (size_t i = MINT_ADV_KEPT + 1; i < MINT_ADV_FATES; i++) {
        if (!s->fate[i])
            continue;
        mint_buf_addf(&b, "%s%" PRIu64 " %s", sep, s->fate[i], mint_adv_fate_names[i]);
        sep = ", ";
    }
    if (s->length_stops)
        mint_buf_addf(&b, "; %" PRIu64 " hit the token limit", s->length_stops);
    if (s->rewards)
        mint_buf_addf(&b, "; reward mean %.4f", s->reward_sum / (double)s->rewards);
    mint_note("%s", b.data);
    mint_buf_release(&b);
    if (s->groups && !datums(j))
        mint_warn("no datums: nothing is left to train on");
}

static int run(const struct opts *o, struct job *j, struct mint_err *err)
{
    const struct mint_strs *files = &o->common.operands;
    double start = mint_now();
    if (settle(o, &j->arena, &j->adv, err) < 0)
        return -1;
    unsigned flags =
        (o->common.plain ? MINT_OUT_PLAIN : 0) | (o->common.force ? MINT_OUT_FORCE : 0);
    if (mint_out_open(&j->out, o->common.output, flags, err) < 0)
        return -1;
    mint_reader_init(&j->in, files->v, files->n, o->common.skip_bad);
    j->in.on_skip = mint_warn_skipped;
    int rc = mint_adv_two_passes(&j->adv) ? two_passes(j, o, err) : pass(j, true, false, err);
    if (rc == 0)
        rc = write_metrics(j, o, mint_now() - start, err);
    mint_reader_close(&j->in);
    again_close(&j->again);
    if (rc < 0) {
        mint_out_abort(j->out);
        return -1;
    }
    if (mint_out_commit(j->out, err) < 0)
        return -1;
    say_summary(j, o);
    return 0;
}

int main(int argc, char **argv)
{
    static struct opts o = {
        .overlong_factor = 1,
        .overlong_buffer = -1,
        .max_tokens = -1,
        .max_staleness = -1,
        .step = -1,
        .max_groups = -1,
        .min_reward = -HUGE_VAL,
        .min_margin = -1,
        .eps = -1,
        .ddof = -1,
        .kl_discount = -1,
        .length_norm = "none",
    };
    struct job job = {0};
    struct mint_err err = {0};
    mint_cli_begin(&tool, argc, argv, &o);
    int rc = run(&o, &job, &err);
    mint_arena_release(&job.arena);
    return mint_cli_end(rc, &err, job.in.skipped);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* The numbers of a group, and which sequences take part. advantage_token.c goes on with what
 * differs between tokens or needs the batch, advantage_write.c makes the text. */
#include "advantage.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "mem.h"

const char *const mint_adv_fate_names[MINT_ADV_FATES] = {
    "datums", "flat", "few",         "stale", "null",    "truncated",
    "masked", "low",  "no_logprobs", "empty", "surplus", "unpaired",
};

const char *const mint_adv_norm_names[MINT_ADV_NORMS + 1] = {
    "mean", "std",  "loo", "dr-grpo", "maxrl", "reinforce++", "reinforce++-baseline",
    "gdpo", "none", NULL,
};

/* Rules in which a sequence is not compared with the others of its group. */
static bool has_baseline(enum mint_adv_norm norm)
{
    return norm != MINT_ADV_NONE && norm != MINT_ADV_REINFORCE;
}

static bool all_equal(const double *r, size_t n)
{
    for (size_t i = 1; i < n; i++) {
        if (r[i] != r[0])
            return false;
    }
    return true;
}

void mint_advantages(enum mint_adv_norm norm, double eps, int ddof, const double *r, size_t n,
                     double *out)
{
    double sum = 0, sq = 0, by = 1;
    if (!has_baseline(norm) || all_equal(r, n)) {
        for (size_t i = 0; i < n; i++)
            out[i] = has_baseline(norm) ? 0 : r[i];
        return;
    }
    for (size_t i = 0; i < n; i++)
        sum += r[i];
    double mean = sum / (double)n;
    for (size_t i = 0; i < n; i++)
        sq += (r[i] - mean) * (r[i] - mean);
    bool squares = norm == MINT_ADV_STD || norm == MINT_ADV_GDPO;
    if (!isfinite(mean) || (squares && !isfinite(sq))) {
        for (size_t i = 0; i < n; i++)
            out[i] = (double)NAN;
        return;
    }
    if (squares)
        by = 1 / (sqrt(sq / (double)(n - (size_t)ddof)) + eps);
    else if (norm == MINT_ADV_LOO)
        by = (double)n / (double)(n - 1);
    else if (norm == MINT_ADV_MAXRL)
        by = 1 / mean;
    for (size_t i = 0; i < n; i++)
        out[i] = (r[i] - mean) * by;
}

double mint_overlong_penalty(size_t len, int64_t max, int64_t buffer, double factor)
{
    buffer = MINT_MIN(buffer, max);
    double over = (double)len - (double)(max - buffer);
    if (over <= 0)
        return 0;
    return -factor * MINT_MIN(over / (double)buffer, 1);
}

static int64_t sampling_int(const struct mint_reader *r, const struct mint_group *g,
                            const char *key)
{
    int64_t v = -1;
    mint_json_int(r->doc, mint_json_get(r->doc, g->sampling, key), &v);
    return v;
}

static int is_stale(const struct mint_adv_opts *o, const struct mint_reader *r,
                    const struct mint_group *g, bool *stale, struct mint_err *err)
{
    *stale = false;
    if (o->max_staleness < 0)
        return 0;
    int64_t step = sampling_int(r, g, "step");
    if (step < 0)
        return mint_fail(err, MINT_ESCHEMA,
                         "sampling.step is missing: --max-staleness needs to know when the group "
                         "was sampled");
    *stale = step < o->step - o->max_staleness;
    return 0;
}

/* Penalty of each sequence, 0 without --overlong-buffer, and what the length norm divides by. */
static int lengths(const struct mint_adv_opts *o, const struct mint_reader *r,
                   const struct mint_group *g, struct mint_adv_seq *out, struct mint_err *err)
{
    bool by_limit = o->length == MINT_LEN_LIMIT;
    int64_t max = 0;
    if (o->overlong_buffer > 0 || by_limit)
        max = o->max_tokens > 0 ? o->max_tokens : sampling_int(r, g, "max_tokens");
    if ((o->overlong_buffer > 0 || by_limit) && max <= 0)
        return mint_fail(err, MINT_ESCHEMA,
                         "sampling.max_tokens is missing: give --max-tokens for the %s",
                         by_limit ? "length norm" : "overlong penalty");
    for (size_t i = 0; i < g->nseqs; i++) {
        size_t n = g->seqs[i].n;
        if (o->overlong_buffer > 0)
            out[i].penalty = mint_overlong_penalty(n, max, o->overlong_buffer, o->overlong_factor);
        out[i].divisor = by_limit ? (double)max
                         : o->length == MINT_LEN_SEQUENCE
                             ? (double)mint_sequence_sampled(&g->seqs[i])
                         : o->length == MINT_LEN_CONST ? o->length_const
                                                       : 1;
    }
    return 0;
}

/* The fate that a sequence has by itself. */
static int own_fate(const struct mint_adv_opts *o, const struct mint_reader *r,
                    const struct mint_sequence *s, enum mint_adv_fate *fate, struct mint_err *err)
{
    /* distillation alone needs no score */
    bool need_reward = o->sft ? o->has_min_reward : o->teacher_coef == 0 || s->reward_null;
    if (need_reward && !s->has_reward && !s->reward_null) {
        mint_record_missing(r, s->val, "reward", err);
        return mint_wrap(err, "no score yet (run mint-score first): ");
    }
    *fate = MINT_ADV_KEPT;
    if (need_reward && !s->has_reward)
        *fate = MINT_ADV_NULL;
    else if (o->drop_truncated && !s->stop)
        *fate = MINT_ADV_TRUNCATED;
    else if (o->mask_truncated && !s->stop)
        *fate = MINT_ADV_MASKED;
    else if (o->has_min_reward && s->reward < o->min_reward)
        *fate = MINT_ADV_LOW;
    else if (mint_sequence_sampled(s) == 0)
        *fate = MINT_ADV_EMPTY;
    if (o->sft || o->pairs || *fate != MINT_ADV_KEPT || s->logprobs_raw.p)
        return 0;
    if (o->missing_logprobs == MINT_MISSING_DROP)
        *fate = MINT_ADV_UNKNOWN;
    if (o->missing_logprobs != MINT_MISSING_ERROR)
        return 0;
    mint_record_missing(r, s->val, "logprobs", err);
    return mint_wrap(err, "no ratios without the sampler's logprobs (see --missing-logprobs and "
                          "--sft): ");
}

static void count_sequences(const struct mint_group *g, const struct mint_adv_seq *out,
                            bool left_out, bool pairs, struct mint_adv_stats *s)
{
    uint64_t kept = s->fate[MINT_ADV_KEPT];
    for (size_t i = 0; i < g->nseqs; i++) {
        const struct mint_sequence *q = &g->seqs[i];
        s->sequences++;
        s->fate[out[i].fate]++;
        s->tokens += q->n;
        s->length_stops += !q->stop;
        if (out[i].fate == MINT_ADV_KEPT && !pairs)
            s->datum_tokens += mint_sequence_sampled(q);
        if (left_out || !q->has_reward)
            continue;
        s->rewards++;
        s->reward_sum += q->reward;
        s->reward_sq += q->reward * q->reward;
        s->penalty_sum += out[i].penalty;
        s->penalised += out[i].penalty < 0;
    }
    s->groups_kept += s->fate[MINT_ADV_KEPT] > kept;
}

/* Of the sequences that count in their group's mean, which is more than give a Datum. */
static bool counts(const struct mint_adv_seq *q)
{
    return q->fate == MINT_ADV_KEPT || q->fate == MINT_ADV_EMPTY || q->fate == MINT_ADV_MASKED;
}

/* Every sequence that has no worse fate of its own gets this one. */
static void whole_group(const struct mint_group *g, struct mint_adv_seq *out,
                        enum mint_adv_fate fate)
{
    for (size_t i = 0; i < g->nseqs; i++) {
        if (counts(&out[i]))
            out[i].fate = fate;
    }
}

/* One score of the sequences that count, into r. */
static int gather_score(struct mint_reader *r, const struct mint_group *g,
                        const struct mint_adv_seq *out, const char *name, double *score,
                        struct mint_err *err)
{
    for (size_t i = 0, k = 0; i < g->nseqs; i++) {
        if (!counts(&out[i]))
            continue;
        mint_json_val of = mint_json_get(r->doc, g->seqs[i].val, "scores");
        if (of == MINT_JSON_NONE)
            return mint_record_missing(r, g->seqs[i].val, "scores", err);
        mint_json_val v = mint_json_get(r->doc, of, name);
        if (v == MINT_JSON_NONE)
            return mint_record_missing(r, of, name, err);
        if (!mint_json_double(r->doc, v, &score[k++]))
            return mint_json_fail(r->doc, v, err, "must be a number, as the reward is one");
    }
    return 0;
}

/* The names of the first counting sequence's scores, where the options name none. */
static size_t own_scores(struct mint_reader *r, const struct mint_group *g,
                         const struct mint_adv_seq *out, struct mint_adv_score **scores)
{
    size_t i = 0, n = 0;
    while (i < g->nseqs && !counts(&out[i]))
        i++;
    if (i == g->nseqs)
        return 0;
    mint_json_val of = mint_json_get(r->doc, g->seqs[i].val, "scores");
    mint_json_val v = mint_json_type(r->doc, of) == MINT_JSON_OBJECT ? mint_json_first(r->doc, of)
                                                                     : MINT_JSON_NONE;
    *scores = mint_arena_alloc(&r->arena, (mint_json_size(r->doc, of) + 1) * sizeof(**scores));
    for (; v != MINT_JSON_NONE; v = mint_json_next(r->doc, v)) {
        size_t len;
        const char *key = mint_json_key(r->doc, v, &len);
        (*scores)[n++] = (struct mint_adv_score){mint_arena_strndup(&r->arena, key, len), 1};
    }
    return n;
}

/* GDPO: each score is normalised in its group, then they are added. n sequences count; *flat: all
 * of them are equal in every score, and in the overlong penalty, which is a score of its own. */
static int sum_scores(const struct mint_adv_opts *o, struct mint_reader *r,
                      const struct mint_group *g, const struct mint_adv_seq *out, double *sum,
                      size_t n, bool *flat, struct mint_err *err)
{
    struct mint_adv_score *own = NULL;
    size_t names = o->nscores ? o->nscores : own_scores(r, g, out, &own);
    const struct mint_adv_score *scores = o->nscores ? o->scores : own;
    double *part = mint_arena_alloc(&r->arena, (n + 1) * sizeof(*part));
    *flat = true;
    memset(sum, 0, n * sizeof(*sum));
    if (names == 0 && n > 0)
        return mint_fail(err, MINT_ESCHEMA,
                         "no scores: --norm gdpo wants sequences[].scores, as mint-score writes "
                         "them");
    for (size_t s = 0; s <= names; s++) {
        if (s < names && gather_score(r, g, out, scores[s].name, part, err) < 0)
            return -1;
        for (size_t i = 0, k = 0; s == names && i < g->nseqs; i++) {
            if (counts(&out[i]))
                part[k++] = out[i].penalty;
        }
        *flat &= all_equal(part, n);
        mint_advantages(MINT_ADV_GDPO, o->eps, o->ddof, part, n, part);
        for (size_t i = 0; i < n; i++)
            sum[i] += (s < names ? scores[s].weight : 1) * part[i];
    }
    return 0;
}

static int maxrl_can(const double *r, size_t n, struct mint_err *err)
{
    for (size_t i = 0; i < n; i++) {
        if (r[i] < 0)
            return mint_fail(err, MINT_ESCHEMA,
                             "a reward of %g: --norm maxrl divides by the mean, so no reward may "
                             "be below 0, the overlong penalty included",
                             r[i]);
    }
    return 0;
}

static bool scored(const struct mint_group *g)
{
    for (size_t i = 0; i < g->nseqs; i++) {
        if (g->seqs[i].has_reward)
            return true;
    }
    return false;
}

static void count_flatness(const double *r, size_t n, bool flat, struct mint_adv_stats *s)
{
    if (n == 0)
        return;
    s->mixed += !flat;
    s->all_good += flat && r[0] >= 0.5;
    s->all_bad += flat && r[0] < 0.5;
}

/* r holds the n rewards that count. */
static int judge_group(const struct mint_adv_opts *o, struct mint_reader *reader,
                       const struct mint_group *g, double *r, size_t n, struct mint_adv_seq *out,
                       struct mint_adv_stats *s, struct mint_err *err)
{
    bool flat = all_equal(r, n), teacher = o->teacher_coef != 0;
    double *sum = r;
    if (o->norm == MINT_ADV_GDPO) {
        sum = mint_arena_alloc(&reader->arena, (n + 1) * sizeof(*sum));
        if (sum_scores(o, reader, g, out, sum, n, &flat, err) < 0)
            return -1;
    } else if (o->norm == MINT_ADV_MAXRL && maxrl_can(r, n, err) < 0) {
        return -1;
    }
    count_flatness(r, scored(g) ? n : 0, flat, s);
    if (n < (has_baseline(o->norm) && !teacher ? 2 : 1)) {
        s->few_groups++;
        whole_group(g, out, MINT_ADV_FEW);
        return 0;
    }
    if (flat && !o->keep_flat && has_baseline(o->norm) && !teacher) {
        s->flat_groups++;
        whole_group(g, out, MINT_ADV_FLAT);
        return 0;
    }
    if (o->norm != MINT_ADV_GDPO)
        mint_advantages(o->norm, o->eps, o->ddof, r, n, r);
    for (size_t i = 0, k = 0; i < g->nseqs; i++) {
        if (counts(&out[i]))
            out[i].advantage = sum[k++];
    }
    return 0;
}

/* A group that is neither stale nor surplus. */
static int fresh_group(const struct mint_adv_opts *o, struct mint_adv_batch *batch,
                       struct mint_reader *r, const struct mint_group *g, struct mint_adv_seq *out,
                       struct mint_adv_stats *s, struct mint_err *err)
{
    if (g->nseqs == 1 && o->pairs)
        return mint_fail(err, MINT_ESCHEMA,
                         "a group of one sequence makes no pair: sample more responses a prompt");
    if (g->nseqs == 1 && !o->sft && has_baseline(o->norm) && o->teacher_coef == 0)
        return mint_fail(err, MINT_ESCHEMA,
                         "a group of one sequence has no baseline: sample "
                         "more, or use --norm none");
    double *rewards = mint_arena_alloc(&r->arena, (g->nseqs + 1) * sizeof(*rewards));
    size_t n = 0;
    if (lengths(o, r, g, out, err) < 0)
        return -1;
    for (size_t i = 0; i < g->nseqs; i++) {
        if (own_fate(o, r, &g->seqs[i], &out[i].fate, err) < 0)
            return -1;
        if (counts(&out[i]))
            rewards[n++] = g->seqs[i].reward + out[i].penalty;
    }
    if (o->sft)
        return 0;
    if (o->pairs) {
        count_flatness(rewards, n, all_equal(rewards, n), s);
        mint_advantage_pairs(o, r, g, out, s);
        return 0;
    }
    if (judge_group(o, r, g, rewards, n, out, s, err) < 0)
        return -1;
    if (o->norm == MINT_ADV_GDPO && !batch->known) {
        for (size_t i = 0; i < g->nseqs; i++) {
            if (counts(&out[i]))
                mint_adv_moments_add(&batch->values, out[i].advantage, 1);
        }
    }
    return mint_advantage_tokens(o, batch, r, g, out, s, err);
}

int mint_advantage_group(const struct mint_adv_opts *o, struct mint_adv_batch *batch,
                         struct mint_reader *r, const struct mint_group *g,
                         struct mint_adv_seq *out, struct mint_adv_stats *s, struct mint_err *err)
{
    bool stale, surplus = o->max_groups && s->groups_kept >= o->max_groups;
    struct mint_adv_stats stats = *s; /* a bad group counts nowhere */
    struct mint_adv_batch was = *batch;
    if (is_stale(o, r, g, &stale, err) < 0)
        return -1;
    for (size_t i = 0; i < g->nseqs; i++)
        out[i] =
            (struct mint_adv_seq){.fate = stale ? MINT_ADV_STALE : MINT_ADV_SURPLUS, .divisor = 1};
    if (!stale && !surplus && fresh_group(o, batch, r, g, out, &stats, err) < 0) {
        *batch = was;
        return -1;
    }
    stats.groups++;
    stats.stale_groups += stale;
    count_sequences(g, out, stale || surplus, o->pairs != MINT_PAIRS_NONE, &stats);
    for (size_t i = 0; i < g->nseqs && !batch->known; i++)
        batch->tokens += out[i].fate == MINT_ADV_KEPT ? mint_sequence_sampled(&g->seqs[i]) : 0;
    *s = stats;
    return 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* The numbers, and which sequences take part. advantage_write.c makes the text. */
#include "advantage.h"

#include <inttypes.h>
#include <math.h>

#include "mem.h"

const char *const mint_adv_fate_names[MINT_ADV_FATES] = {
    "datums", "flat", "few", "stale", "null", "truncated", "low", "no_logprobs", "empty",
};

static bool all_equal(const double *r, size_t n)
{
    for (size_t i = 1; i < n; i++) {
        if (r[i] != r[0])
            return false;
    }
    return true;
}

void mint_advantages(enum mint_adv_norm norm, const double *r, size_t n, double *out)
{
    double sum = 0, sq = 0, by = 1;
    bool flat = all_equal(r, n);
    for (size_t i = 0; i < n; i++)
        sum += r[i];
    double mean = n ? sum / (double)n : 0;
    for (size_t i = 0; i < n; i++)
        sq += (r[i] - mean) * (r[i] - mean);
    if (norm == MINT_ADV_STD && n > 1)
        by = 1 / (sqrt(sq / (double)(n - 1)) + MINT_ADV_EPS);
    else if (norm == MINT_ADV_LOO && n > 1)
        by = (double)n / (double)(n - 1);
    for (size_t i = 0; i < n; i++)
        out[i] = norm == MINT_ADV_NONE ? r[i] : flat ? 0 : (r[i] - mean) * by;
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

/* Penalty of each sequence, 0 without --overlong-buffer. */
static int penalties(const struct mint_adv_opts *o, const struct mint_reader *r,
                     const struct mint_group *g, struct mint_adv_seq *out, struct mint_err *err)
{
    if (o->overlong_buffer <= 0)
        return 0;
    int64_t max = o->max_tokens > 0 ? o->max_tokens : sampling_int(r, g, "max_tokens");
    if (max <= 0)
        return mint_fail(err, MINT_ESCHEMA,
                         "sampling.max_tokens is missing: give --max-tokens for the overlong "
                         "penalty");
    for (size_t i = 0; i < g->nseqs; i++)
        out[i].penalty =
            mint_overlong_penalty(g->seqs[i].n, max, o->overlong_buffer, o->overlong_factor);
    return 0;
}

/* The fate that a sequence has by itself. */
static int own_fate(const struct mint_adv_opts *o, const struct mint_reader *r,
                    const struct mint_sequence *s, enum mint_adv_fate *fate, struct mint_err *err)
{
    bool need_reward = !o->sft || o->has_min_reward;
    if (need_reward && !s->has_reward && !s->reward_null) {
        mint_record_missing(r, s->val, "reward", err);
        return mint_wrap(err, "no score yet (run mint-score first): ");
    }
    *fate = MINT_ADV_KEPT;
    if (need_reward && !s->has_reward)
        *fate = MINT_ADV_NULL;
    else if (o->drop_truncated && !s->stop)
        *fate = MINT_ADV_TRUNCATED;
    else if (o->has_min_reward && s->reward < o->min_reward)
        *fate = MINT_ADV_LOW;
    else if (s->n == 0)
        *fate = MINT_ADV_EMPTY;
    if (o->sft || *fate != MINT_ADV_KEPT || s->logprobs_raw.p)
        return 0;
    if (o->missing_logprobs == MINT_MISSING_DROP)
        *fate = MINT_ADV_UNKNOWN;
    if (o->missing_logprobs != MINT_MISSING_ERROR)
        return 0;
    mint_record_missing(r, s->val, "logprobs", err);
    return mint_wrap(err, "no ratios without the sampler's logprobs (see --missing-logprobs and "
                          "--sft): ");
}

static void count_sequences(const struct mint_group *g, const struct mint_adv_seq *out, bool stale,
                            struct mint_adv_stats *s)
{
    for (size_t i = 0; i < g->nseqs; i++) {
        const struct mint_sequence *q = &g->seqs[i];
        s->sequences++;
        s->fate[out[i].fate]++;
        s->tokens += q->n;
        s->length_stops += !q->stop;
        if (out[i].fate == MINT_ADV_KEPT)
            s->datum_tokens += q->n;
        if (stale || !q->has_reward)
            continue;
        s->rewards++;
        s->reward_sum += q->reward;
        s->reward_sq += q->reward * q->reward;
        s->penalty_sum += out[i].penalty;
        s->penalised += out[i].penalty < 0;
    }
}

/* Every sequence that has no worse fate of its own gets this one. */
static void whole_group(const struct mint_group *g, struct mint_adv_seq *out,
                        enum mint_adv_fate fate)
{
    for (size_t i = 0; i < g->nseqs; i++) {
        if (out[i].fate == MINT_ADV_KEPT || out[i].fate == MINT_ADV_EMPTY)
            out[i].fate = fate;
    }
}

/* r holds the n rewards that count. */
static void judge_group(const struct mint_adv_opts *o, const struct mint_group *g, double *r,
                        size_t n, struct mint_adv_seq *out, struct mint_adv_stats *s)
{
    bool flat = all_equal(r, n);
    if (n > 0) {
        s->mixed += !flat;
        s->all_good += flat && r[0] >= 0.5;
        s->all_bad += flat && r[0] < 0.5;
    }
    if (n < (o->norm == MINT_ADV_NONE ? 1 : 2)) {
        s->few_groups++;
        whole_group(g, out, MINT_ADV_FEW);
        return;
    }
    if (flat && !o->keep_flat && o->norm != MINT_ADV_NONE) {
        s->flat_groups++;
        whole_group(g, out, MINT_ADV_FLAT);
        return;
    }
    mint_advantages(o->norm, r, n, r);
    for (size_t i = 0, k = 0; i < g->nseqs; i++) {
        if (out[i].fate == MINT_ADV_KEPT || out[i].fate == MINT_ADV_EMPTY)
            out[i].advantage = r[k++];
    }
}

int mint_advantage_group(const struct mint_adv_opts *o, struct mint_reader *r,
                         const struct mint_group *g, struct mint_adv_seq *out,
                         struct mint_adv_stats *s, struct mint_err *err)
{
    bool stale;
    if (is_stale(o, r, g, &stale, err) < 0)
        return -1;
    for (size_t i = 0; i < g->nseqs; i++)
        out[i] = (struct mint_adv_seq){.fate = MINT_ADV_STALE};
    if (!stale) {
        if (g->nseqs == 1 && !o->sft && o->norm != MINT_ADV_NONE)
            return mint_fail(err, MINT_ESCHEMA,
                             "a group of one sequence has no baseline: sample "
                             "more, or use --norm none");
        double *rewards = mint_arena_alloc(&r->arena, (g->nseqs + 1) * sizeof(*rewards));
        size_t n = 0;
        if (penalties(o, r, g, out, err) < 0)
            return -1;
        for (size_t i = 0; i < g->nseqs; i++) {
            if (own_fate(o, r, &g->seqs[i], &out[i].fate, err) < 0)
                return -1;
            if (out[i].fate == MINT_ADV_KEPT || out[i].fate == MINT_ADV_EMPTY)
                rewards[n++] = g->seqs[i].reward + out[i].penalty;
        }
        if (!o->sft)
            judge_group(o, g, rewards, n, out, s);
    }
    s->groups++;
    s->stale_groups += stale;
    count_sequences(g, out, stale, s);
    return 0;
}

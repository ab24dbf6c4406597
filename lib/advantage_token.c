/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Advantages that differ between the tokens of a sequence, and those that need the batch. With
 * q the sampler's logprob of a token, f the reference's, t the teacher's:
 *
 *   d = q - f,  term = c ((centred ? mean of all d : 0) - d),  A += term + g term' + g^2 term'' ...
 *   A -= b (q - t)
 *
 * (Tinker cookbook, rl/metrics.py; primes are the tokens that follow, g the discount; g = 0 leaves
 * the token's own term.) Then REINFORCE++ whitens: (A - M) / sqrt(V + eps), over all tokens of the
 * batch; GDPO has scaled before, by the deviation over sequences: A / (sqrt(V) + eps). Their mean
 * is 0 but for rounding, which must not move what is exactly 0. Then the clip.
 *
 * Tokens of observations are in no mean, and their advantage is 0.
 *
 * In the first pass only moments are collected: in double, by Welford's update, in which equal
 * values have a deviation of exactly 0.
 */
#include <math.h>

#include "advantage.h"
#include "mem.h"

void mint_adv_moments_add(struct mint_adv_moments *m, double v, double times)
{
    if (times <= 0)
        return;
    double by = v - m->mean;
    m->n += times;
    m->mean += by * times / m->n;
    m->m2 += by * (v - m->mean) * times;
}

double mint_adv_moments_var(const struct mint_adv_moments *m, int ddof)
{
    return m->n > ddof ? m->m2 / (m->n - ddof) : 0;
}

static bool whitens_tokens(const struct mint_adv_opts *o)
{
    return o->norm == MINT_ADV_REINFORCE || o->norm == MINT_ADV_REINFORCE_BASE;
}

bool mint_adv_two_passes(const struct mint_adv_opts *o)
{
    return !o->sft ? whitens_tokens(o) || o->norm == MINT_ADV_GDPO || o->length == MINT_LEN_BATCH ||
                         (o->kl_coef != 0 && o->kl_centre)
                   : o->length == MINT_LEN_BATCH;
}

/* Logprobs of a sequence as numbers, in the arena; NULL with *err. */
static const float *logprobs(struct mint_reader *r, const struct mint_sequence *s, const char *key,
                             struct mint_err *err)
{
    mint_json_val v = mint_json_get(r->doc, s->val, key);
    enum mint_json_type type = mint_json_type(r->doc, v);
    if (type == MINT_JSON_ABSENT || type == MINT_JSON_NULL) {
        mint_record_missing(r, s->val, key, err);
        mint_wrap(err, "run mint-sample --replay --as %s first: ", key);
        return NULL;
    }
    float *out = mint_arena_alloc(&r->arena, s->n * sizeof(*out));
    if (mint_json_floats(r->doc, v, out, s->n, err) < 0)
        return NULL;
    for (size_t i = 0; i < s->n; i++) {
        if ((double)out[i] > MINT_LOGPROB_MAX) {
            mint_json_fail(r->doc, v, err, "[%zu] is %g: a logprob is at most 0", i,
                           (double)out[i]);
            return NULL;
        }
    }
    return out;
}

/* A += the KL term, from q and f. */
static void add_kl(const struct mint_adv_opts *o, struct mint_adv_batch *batch,
                   const struct mint_sequence *s, const float *q, const float *f, double *a)
{
    double centre = o->kl_centre ? batch->kl.mean : 0, ahead = 0;
    for (size_t i = s->n; i-- > 0;) {
        ahead *= o->kl_discount;
        if (!mint_sequence_observed(s, i))
            ahead += o->kl_coef * (centre - ((double)q[i] - (double)f[i]));
        a[i] += ahead;
    }
}

static void note_gap(struct mint_adv_moments *m, const struct mint_sequence *s, const float *q,
                     const float *f)
{
    for (size_t i = 0; i < s->n; i++) {
        if (!mint_sequence_observed(s, i))
            mint_adv_moments_add(m, (double)q[i] - (double)f[i], 1);
    }
}

/* Fills seq->tokens if a term, or an observation among them, makes the tokens differ. */
static int add_terms(const struct mint_adv_opts *o, struct mint_adv_batch *batch,
                     struct mint_reader *r, const struct mint_sequence *s, struct mint_adv_seq *seq,
                     struct mint_err *err)
{
    bool terms = o->kl_coef != 0 || o->teacher_coef != 0;
    if (!terms && !s->observed)
        return 0;
    double *a = seq->tokens = mint_arena_alloc(&r->arena, s->n * sizeof(*a));
    for (size_t i = 0; i < s->n; i++)
        a[i] = seq->advantage;
    if (!terms)
        return 0;
    const float *q = s->observed ? s->logprobs : logprobs(r, s, "logprobs", err);
    if (!q)
        return -1;
    if (o->kl_coef != 0) {
        const float *f = logprobs(r, s, "ref_logprobs", err);
        if (!f)
            return -1;
        if (!batch->known)
            note_gap(&batch->kl, s, q, f);
        add_kl(o, batch, s, q, f, a);
    }
    if (o->teacher_coef != 0) {
        const float *t = logprobs(r, s, "teacher_logprobs", err);
        if (!t)
            return -1;
        if (!batch->known)
            note_gap(&batch->teacher, s, q, t);
        for (size_t i = 0; i < s->n; i++)
            a[i] -= o->teacher_coef * ((double)q[i] - (double)t[i]);
    }
    return 0;
}

static double clip(const struct mint_adv_opts *o, double v, uint64_t times,
                   struct mint_adv_stats *s)
{
    if (o->clip <= 0 || isnan(v) || fabs(v) <= o->clip)
        return v;
    s->clipped += times;
    return copysign(o->clip, v);
}

/* A deviation of 0, with --eps 0: all that it would divide is 0. One that left the doubles would
 * make all 0. */
static double inverse(double deviation)
{
    if (!isfinite(deviation))
        return (double)NAN;
    return deviation > 0 ? 1 / deviation : 0;
}

static void whiten(const struct mint_adv_opts *o, const struct mint_adv_batch *batch,
                   struct mint_adv_seq *seq, size_t n)
{
    const struct mint_adv_moments *m = &batch->values;
    double by = inverse(sqrt(mint_adv_moments_var(m, o->ddof) + o->eps));
    seq->advantage = (seq->advantage - m->mean) * by;
    for (size_t i = 0; seq->tokens && i < n; i++)
        seq->tokens[i] = (seq->tokens[i] - m->mean) * by;
}

static void note_values(struct mint_adv_moments *m, const struct mint_sequence *q,
                        const struct mint_adv_seq *seq)
{
    if (!seq->tokens)
        mint_adv_moments_add(m, seq->advantage, (double)q->n);
    for (size_t i = 0; seq->tokens && i < q->n; i++) {
        if (!mint_sequence_observed(q, i))
            mint_adv_moments_add(m, seq->tokens[i], 1);
    }
}

static bool fits(const struct mint_adv_seq *seq, double v)
{
    return isfinite((float)(v / seq->divisor));
}

/* Clips; false if an advantage cannot be written as a float32. */
static bool finish(const struct mint_adv_opts *o, struct mint_adv_seq *seq,
                   const struct mint_sequence *q, struct mint_adv_stats *s)
{
    if (!seq->tokens) {
        seq->advantage = clip(o, seq->advantage, q->n, s);
        return fits(seq, seq->advantage);
    }
    double sum = 0;
    bool finite = true;
    for (size_t i = 0; i < q->n; i++) {
        bool observed = mint_sequence_observed(q, i);
        sum += seq->tokens[i] = observed ? 0 : clip(o, seq->tokens[i], 1, s);
        finite &= fits(seq, seq->tokens[i]);
    }
    seq->advantage = sum / (double)mint_sequence_sampled(q);
    return finite;
}

int mint_advantage_tokens(const struct mint_adv_opts *o, struct mint_adv_batch *batch,
                          struct mint_reader *r, const struct mint_group *g,
                          struct mint_adv_seq *out, struct mint_adv_stats *s, struct mint_err *err)
{
    for (size_t k = 0; k < g->nseqs; k++) {
        struct mint_adv_seq *seq = &out[k];
        const struct mint_sequence *q = &g->seqs[k];
        if (seq->fate != MINT_ADV_KEPT)
            continue;
        if (o->norm == MINT_ADV_GDPO && batch->known)
            seq->advantage *= inverse(sqrt(mint_adv_moments_var(&batch->values, o->ddof)) + o->eps);
        if (add_terms(o, batch, r, q, seq, err) < 0)
            return -1;
        if (whitens_tokens(o) && batch->known) {
            whiten(o, batch, seq, q->n);
        } else if (whitens_tokens(o)) {
            note_values(&batch->values, q, seq);
        }
        if (!finish(o, seq, q, s))
            return mint_fail(err, MINT_ESCHEMA,
                             "sequences[%zu]: its advantage is not finite as a float32: rewards "
                             "or coefficients are too large",
                             k);
    }
    return 0;
}

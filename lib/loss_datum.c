/* SPDX-License-Identifier: Apache-2.0 */
/* loss_datum.c: what a loss asks of a whole datum: its sequence's ratio, the correction for the
 * sampler, sums; and of a pair. */
#include <math.h>

#include "cpu/vmath.h"
#include "loss.h"

static float clamped_exp(double x)
{
    double most = (double)MINT_LOG_RATIO_MAX;
    return cpu_exp((float)(x < -most ? -most : x > most ? most : x));
}

/* Of the proximal policy; without old ones the policy itself, held fixed. */
static float proximal(const struct mint_loss_opts *o, const struct mint_loss_rows *in, size_t i)
{
    if (o->proximal == MINT_PROXIMAL_SAMPLER)
        return in->q[i];
    return in->old ? in->old[i] : in->lp[i];
}

/* log of the ratio that the correction looks at: of the proximal policy, or where that is the
 * sampler, of the present one. */
static double drift(const struct mint_loss_opts *o, const struct mint_loss_rows *in, size_t i)
{
    float p = o->proximal == MINT_PROXIMAL_PARENT ? proximal(o, in, i) : in->lp[i];
    return (double)p - (double)in->q[i];
}

static float sequence_ratio(const struct mint_loss_opts *o, const struct mint_loss_rows *in)
{
    double sum = 0.0;
    for (size_t i = 0; i < in->n; i++)
        sum += (double)in->lp[i] - (double)proximal(o, in, i);
    return (float)(sum / (double)in->n);
}

/* The ratio that decides about position i: its own, or the datum's. */
static float deciding(const struct mint_loss_opts *o, const struct mint_loss_rows *in, size_t i)
{
    double sum = 0.0;
    if (o->correction == MINT_CORRECTION_TIS || o->correction == MINT_CORRECTION_ICEPOP)
        return clamped_exp(drift(o, in, i));
    for (size_t k = 0; k < in->n; k++)
        sum += drift(o, in, k);
    return clamped_exp(o->correction == MINT_CORRECTION_GEO_MIS ? sum / (double)in->n : sum);
}

/* omega of loss.h from the deciding ratio x. */
static float correction_of(const struct mint_loss_opts *o, float x, struct mint_policy_sums *s)
{
    bool mask = o->correction != MINT_CORRECTION_TIS && o->correction != MINT_CORRECTION_SEQ_TIS;
    bool factor = o->proximal == MINT_PROXIMAL_PARENT && o->correction != MINT_CORRECTION_GEO_MIS;
    float omega = factor ? x : 1.0f;
    if (mask && !(x >= o->correction_low && x <= o->correction_high)) {
        s->masked++;
        return 0.0f;
    }
    if (!mask && x > o->correction_high) {
        s->truncated++;
        omega = o->correction_high;
    }
    s->omega += (double)omega;
    return omega;
}

/* omega[n]; by position, or one for all. */
static void corrections(const struct mint_loss_opts *o, const struct mint_loss_rows *in,
                        float *omega, struct mint_policy_sums *s)
{
    bool each = o->correction == MINT_CORRECTION_TIS || o->correction == MINT_CORRECTION_ICEPOP;
    int64_t before = s->masked;
    float x = deciding(o, in, 0);
    for (size_t i = 0; i < in->n; i++)
        omega[i] = correction_of(o, each ? deciding(o, in, i) : x, s);
    s->masked_datums += s->masked - before == (int64_t)in->n;
}

static void add_ratio(struct mint_policy_sums *s, float lp, float q,
                      const struct mint_loss_out *out)
{
    double d = (double)q - (double)lp, r = (double)out->ratio;
    s->kl_v1 += d;
    s->kl_v2 += d * d;
    s->ratio_max = s->ratios ? fmax(s->ratio_max, r) : r;
    s->ratio_min = s->ratios ? fmin(s->ratio_min, r) : r;
    s->ratios++;
    s->clipped += out->clipped;
    s->dual_clipped += out->dual;
    s->clamped += out->clamped;
}

void mint_loss_datum(const struct mint_loss_opts *o, const struct mint_loss_rows *in, float *dlp,
                     float *dentropy, double *loss, struct mint_policy_sums *s)
{
    bool ratio = mint_loss_has_ratio(o);
    float sequence = o->loss == MINT_LOSS_GSPO && in->n ? sequence_ratio(o, in) : 0.0f;
    if (o->correction != MINT_CORRECTION_NONE && in->n)
        corrections(o, in, dlp, s); /* omega waits where its slope will be */
    for (size_t i = 0; i < in->n; i++) {
        struct mint_loss_in one = {
            .lp = in->lp[i],
            .p = ratio ? proximal(o, in, i) : 0.0f,
            .adv = ratio ? in->adv[i] : 0.0f,
            .weight = in->weight[i],
            .ref = o->kl_coef != 0.0f ? in->ref[i] : 0.0f,
            .clip_low = in->clip_low ? in->clip_low[i] : o->clip_low,
            .clip_high = in->clip_high ? in->clip_high[i] : o->clip_high,
            .sequence = sequence,
            .omega = o->correction != MINT_CORRECTION_NONE ? dlp[i] : 1.0f,
        };
        struct mint_loss_out out;
        mint_loss_term(o, &one, &out);
        dlp[i] = out.dlp;
        *loss += out.loss;
        if (o->entropy_coef != 0.0f) {
            dentropy[i] = -(o->entropy_coef * one.weight);
            *loss += (double)dentropy[i] * (double)in->entropy[i];
        }
        s->positions++;
        s->kl_ref += out.kl;
        s->lp += (double)one.lp;
        s->entropy += (double)in->entropy[i];
        if (ratio)
            add_ratio(s, one.lp, in->q[i], &out);
    }
}

/* Sum of w (lp - ref). */
static double gain(const struct mint_loss_rows *in, struct mint_policy_sums *s)
{
    double sum = 0.0;
    for (size_t i = 0; i < in->n; i++) {
        sum += (double)in->weight[i] * ((double)in->lp[i] - (double)in->ref[i]);
        s->lp += (double)in->lp[i];
        s->entropy += (double)in->entropy[i];
    }
    s->positions += (int64_t)in->n;
    return sum;
}

/* With m = beta (chosen - rejected): the loss log(1 + exp(-m)), its slope -sigmoid(-m). */
void mint_loss_pair(const struct mint_loss_opts *o, const struct mint_loss_rows in[2],
                    float *dlp[2], double *loss, struct mint_policy_sums *s)
{
    double beta = (double)o->beta, chosen = gain(&in[0], s);
    double m = beta * (chosen - gain(&in[1], s));
    double e = (double)cpu_exp((float)-fabs(m)); /* at most 1 */
    double past = (m >= 0.0 ? e : 1.0) / (1.0 + e);
    *loss += (double)cpu_log((float)(1.0 + e)) + (m < 0.0 ? -m : 0.0);
    for (int side = 0; side < 2; side++)
        for (size_t i = 0; i < in[side].n; i++)
            dlp[side][i] = (float)((side ? beta : -beta) * past * (double)in[side].weight[i]);
    s->pairs++;
    s->wins += m > 0.0;
    s->margin += m;
}

void mint_policy_sums_add(struct mint_policy_sums *a, const struct mint_policy_sums *b)
{
    if (b->ratios) {
        a->ratio_max = a->ratios ? fmax(a->ratio_max, b->ratio_max) : b->ratio_max;
        a->ratio_min = a->ratios ? fmin(a->ratio_min, b->ratio_min) : b->ratio_min;
    }
    a->positions += b->positions;
    a->ratios += b->ratios;
    a->lp += b->lp;
    a->entropy += b->entropy;
    a->kl_v1 += b->kl_v1;
    a->kl_v2 += b->kl_v2;
    a->kl_ref += b->kl_ref;
    a->clipped += b->clipped;
    a->dual_clipped += b->dual_clipped;
    a->clamped += b->clamped;
    a->omega += b->omega;
    a->masked += b->masked;
    a->truncated += b->truncated;
    a->masked_datums += b->masked_datums;
    a->pairs += b->pairs;
    a->wins += b->wins;
    a->margin += b->margin;
}

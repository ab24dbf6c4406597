/* SPDX-License-Identifier: Apache-2.0 */
#include "loss.h"

#include <stddef.h>

#include "cpu/vmath.h"

const char *const mint_loss_names[] = {"importance_sampling", "ppo",  "cispo", "dro",
                                       "cross_entropy",       "gspo", "dpo",   NULL};
const char *const mint_kl_names[] = {"k1", "k2", "k3", NULL};
const char *const mint_proximal_names[] = {"sampler", "parent", NULL};
const char *const mint_correction_names[] = {"none",    "tis",     "icepop", "seq-tis",
                                             "seq-mis", "geo-mis", NULL};

static float clamp(float x, float lo, float hi)
{
    return x < lo ? lo : x > hi ? hi : x;
}

/* -min(r A, clamp(r) A), with the dual clip. */
static void clipped_term(const struct mint_loss_opts *o, double r, double slope, double bounded,
                         double A, struct mint_loss_out *out, double *loss, double *dlp)
{
    out->clipped = bounded * A < r * A;
    *loss = -(out->clipped ? bounded : r) * A;
    *dlp = out->clipped ? 0.0 : -slope * A;
    if (o->dual_clip > 0.0f && A < 0.0 && *loss > -(double)o->dual_clip * A) {
        out->dual = true;
        *loss = -(double)o->dual_clip * A;
        *dlp = 0.0;
    }
}

/* Policy term: value in *loss, derivative by lp in *dlp, both before the weight. */
static void policy_term(const struct mint_loss_opts *o, const struct mint_loss_in *in,
                        struct mint_loss_out *out, double *loss, double *dlp)
{
    if (o->loss == MINT_LOSS_CE) {
        out->ratio = 1.0f;
        *loss = -(double)in->lp;
        *dlp = -1.0;
        return;
    }
    float diff = o->loss == MINT_LOSS_GSPO ? in->sequence : in->lp - in->p;
    float used = clamp(diff, -MINT_LOG_RATIO_MAX, MINT_LOG_RATIO_MAX);
    double A = (double)in->adv;
    out->clamped = used != diff;
    out->ratio = cpu_exp(used);
    double r = (double)out->ratio;
    double slope = out->clamped ? 0.0 : r; /* d r / d lp */
    double bounded = (double)clamp(out->ratio, in->clip_low, in->clip_high);
    switch (o->loss) {
    case MINT_LOSS_PPO:
    case MINT_LOSS_GSPO:
        clipped_term(o, r, slope, bounded, A, out, loss, dlp);
        return;
    case MINT_LOSS_CISPO:
        out->clipped = bounded != r;
        *loss = -bounded * (double)in->lp * A;
        *dlp = -bounded * A;
        return;
    case MINT_LOSS_DRO:
        *loss = -((double)in->lp * A - 0.5 * (double)o->beta * (double)diff * (double)diff);
        *dlp = -(A - (double)o->beta * (double)diff);
        return;
    default:
        *loss = -r * A;
        *dlp = -slope * A;
    }
}

/* k(lp, ref) and its derivative by lp. */
static void kl_term(enum mint_kl kind, float lp, float ref, double *k, double *dk)
{
    float diff = clamp(ref - lp, -MINT_LOG_RATIO_MAX, MINT_LOG_RATIO_MAX);
    double d = (double)diff;
    if (kind == MINT_KL_K1) {
        *k = -d;
        *dk = 1.0;
    } else if (kind == MINT_KL_K2) {
        *k = 0.5 * d * d;
        *dk = -d;
    } else {
        double e = (double)cpu_exp(diff);
        *k = e - d - 1.0;
        *dk = 1.0 - e;
    }
}

size_t mint_loss_unit(const struct mint_loss_opts *o)
{
    return o->loss == MINT_LOSS_DPO ? 2 : 1;
}

bool mint_loss_has_ratio(const struct mint_loss_opts *o)
{
    return o->loss != MINT_LOSS_CE && o->loss != MINT_LOSS_DPO;
}

bool mint_loss_by_advantage(const struct mint_loss_opts *o)
{
    if (o->kl_coef != 0.0f || o->entropy_coef != 0.0f || !mint_loss_has_ratio(o))
        return false;
    return o->loss != MINT_LOSS_DRO || o->beta == 0.0f;
}

void mint_loss_term(const struct mint_loss_opts *o, const struct mint_loss_in *in,
                    struct mint_loss_out *out)
{
    *out = (struct mint_loss_out){.ratio = 1.0f};
    if (in->weight == 0.0f)
        return;
    double w = (double)in->weight, loss, dlp;
    policy_term(o, in, out, &loss, &dlp);
    if (o->correction != MINT_CORRECTION_NONE) {
        loss *= (double)in->omega;
        dlp *= (double)in->omega;
    }
    if (o->kl_coef != 0.0f) {
        double k, dk;
        kl_term(o->kl, in->lp, in->ref, &k, &dk);
        loss += (double)o->kl_coef * k;
        dlp += (double)o->kl_coef * dk;
        out->kl = w * k;
    }
    out->loss = w * loss;
    out->dlp = (float)(w * dlp);
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * loss.h: the losses of the Tinker/MinT contract, per position, as values and derivatives by lp.
 * Sums, never means.
 *
 * lp = log pi_theta(target), q = the datum's logprob, A = advantage, w = weight, r = exp(lp - q),
 * sg = stop-gradient. importance_sampling  -r A                                       (TIS-free;
 * Schulman et al. 2015 surrogate) ppo                  -min(r A, clamp(r, lo, hi) A) (Schulman et
 * al. 2017; bounds are ratios) cispo                -sg(clamp(r, lo, hi)) lp A (MiniMax-M1 2025)
 *   dro                  -(lp A - beta/2 (lp - q)^2)                (Richemond et al. 2024)
 *   cross_entropy        -lp
 * KL term: coef * k(lp, ref), d = ref - lp: k1 = -d, k2 = d^2/2, k3 = exp(d) - d - 1 (Schulman
 * 2020). lp - q is clamped to +-MINT_LOG_RATIO_MAX before exp (counted): float32 exp overflows past
 * 88, and a ratio of 4.85e8 is no ratio to learn from. Positions with w == 0 contribute nothing at
 * all, whatever they hold. exp is the backend's own (IEEE operations only), so bytes do not depend
 * on libm. Pure functions, thread-safe.
 */
#ifndef MINT_LOSS_H
#define MINT_LOSS_H

#include "base.h"

#define MINT_LOG_RATIO_MAX 20.0f

enum mint_loss { MINT_LOSS_IS, MINT_LOSS_PPO, MINT_LOSS_CISPO, MINT_LOSS_DRO, MINT_LOSS_CE };
enum mint_kl { MINT_KL_K1, MINT_KL_K2, MINT_KL_K3 };

struct mint_loss_opts {
    enum mint_loss loss;
    float clip_low, clip_high, beta;
    float kl_coef; /* 0: no KL term */
    enum mint_kl kl;
};

/* One position. q, A, ref are read only where the loss needs them. */
struct mint_loss_in {
    float lp, q, adv, weight, ref;
    float clip_low, clip_high; /* of this position (the datum's tensors, else the options') */
};
struct mint_loss_out {
    double loss;  /* weighted, policy term and KL */
    double kl;    /* weighted k(lp, ref), without coef; 0 without KL */
    float dlp;    /* d loss / d lp */
    float ratio;  /* r; 1 for cross_entropy */
    bool clipped; /* the clip decided: no gradient (ppo), or a bound was used (cispo) */
    bool clamped; /* |lp - q| was over MINT_LOG_RATIO_MAX */
};
void mint_loss_term(const struct mint_loss_opts *o, const struct mint_loss_in *in,
                    struct mint_loss_out *out);

/* Only the advantage drives the loss: a position with A = 0 has no slope, whatever lp is. */
bool mint_loss_by_advantage(const struct mint_loss_opts *o);

extern const char *const mint_loss_names[]; /* NULL-terminated, in the order of enum mint_loss */
extern const char *const mint_kl_names[];

#endif

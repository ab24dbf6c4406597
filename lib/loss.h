/* SPDX-License-Identifier: Apache-2.0 */
/*
 * loss.h: the losses of the Tinker/MinT contract and those of the field beside them, as values and
 * derivatives by lp. Sums, never means.
 *
 * lp = log pi_theta(target), q = the datum's logprob, A = advantage, w = weight, sg =
 * stop-gradient. The ratio is r = exp(lp - p), p the proximal policy's logprob: q, or o, that of
 * the policy as the run began. Per position, times w: importance_sampling  -r A ppo -min(r A,
 * clamp(r, lo, hi) A)              (Schulman et al. 2017) gspo                 ppo with r = s
 * exp(lp - sg(lp)), s = exp(mean of lp - p over the datum's positions): the sequence's ratio, in
 * its token form (Zheng et al. 2025) cispo                -sg(clamp(r, lo, hi)) lp A (MiniMax-M1
 * 2025) dro                  -(lp A - beta/2 (lp - q)^2)                (Richemond et al. 2024)
 *   cross_entropy        -lp
 * and per pair of a chosen and a rejected datum
 *   dpo                  -log sigmoid(beta (sum w (lp - ref) of the chosen - the same of the
 *                        rejected))                                 (Rafailov et al. 2023)
 * Bounds are ratios (0.8, 1.2), not distances from 1. Dual clip C (Ye et al. 2020): where A < 0 the
 * loss of ppo and gspo is at most -C A.
 * Correction (correction_of): the policy's term times omega, from the ratio of the proximal policy
 * to the sampler. Entropy bonus: -coef w H. KL term: coef w k(lp, ref), d = ref - lp: k1 = -d, k2 =
 * d^2/2, k3 = exp(d) - d - 1 (Schulman 2020).
 *
 * A difference of logprobs is clamped to +-MINT_LOG_RATIO_MAX before exp (counted): float32 exp
 * overflows past 88, and a ratio of 4.85e8 is no ratio to learn from. Positions with w == 0
 * contribute nothing at all, whatever they hold. exp and log are the backend's own (IEEE operations
 * only), so bytes do not depend on libm. Pure functions, thread-safe.
 */
#ifndef MINT_LOSS_H
#define MINT_LOSS_H

#include "base.h"

#define MINT_LOG_RATIO_MAX 20.0f

enum mint_loss {
    MINT_LOSS_IS,
    MINT_LOSS_PPO,
    MINT_LOSS_CISPO,
    MINT_LOSS_DRO,
    MINT_LOSS_CE,
    MINT_LOSS_GSPO,
    MINT_LOSS_DPO
};
enum mint_kl { MINT_KL_K1, MINT_KL_K2, MINT_KL_K3 };
enum mint_proximal { MINT_PROXIMAL_SAMPLER, MINT_PROXIMAL_PARENT };

/*
 * omega, with x = exp(p - q) of a position and X = exp(sum of p - q) of its datum, both held fixed;
 * where the sampler itself is the proximal policy, x and X are the present policy's, and 1 takes
 * the place of x and X as a factor (the loss has that ratio already): a mask remains. tis min(x,
 * high)                                (Yao et al. 2025) icepop   x if low <= x <= high, else 0
 * (Ling team 2025) seq-tis  min(X, high) seq-mis  X if low <= X <= high, else 0               (Liu
 * et al. 2025; MinT's Seq-MIS) geo-mis  1 if low <= exp(mean of p - q) <= high, else 0
 */
enum mint_correction {
    MINT_CORRECTION_NONE,
    MINT_CORRECTION_TIS,
    MINT_CORRECTION_ICEPOP,
    MINT_CORRECTION_SEQ_TIS,
    MINT_CORRECTION_SEQ_MIS,
    MINT_CORRECTION_GEO_MIS
};

struct mint_loss_opts {
    enum mint_loss loss;
    float clip_low, clip_high, beta;
    float dual_clip; /* 0: off */
    float kl_coef;   /* 0: no KL term */
    enum mint_kl kl;
    float entropy_coef; /* 0: no bonus */
    enum mint_proximal proximal;
    enum mint_correction correction;
    float correction_low, correction_high;
};

/* One position. p, adv, ref and the rest are read only where the loss needs them. */
struct mint_loss_in {
    float lp, p, adv, weight, ref;
    float clip_low, clip_high; /* of this position (the datum's tensors, else the options') */
    float sequence;            /* gspo: mean of lp - p over the datum */
    float omega;               /* with a correction */
};
struct mint_loss_out {
    double loss;  /* weighted, policy term and KL */
    double kl;    /* weighted k(lp, ref), without coef; 0 without KL */
    float dlp;    /* d loss / d lp */
    float ratio;  /* r; 1 for cross_entropy */
    bool clipped; /* the clip decided: no gradient (ppo, gspo), or a bound was used (cispo) */
    bool dual;    /* the dual clip decided: no gradient */
    bool clamped; /* |lp - p| was over MINT_LOG_RATIO_MAX */
};
void mint_loss_term(const struct mint_loss_opts *o, const struct mint_loss_in *in,
                    struct mint_loss_out *out);

/* The positions of a datum whose weight is not 0, in order. */
struct mint_loss_rows {
    size_t n;
    const float *lp, *entropy;
    const float *q, *adv; /* NULL where the loss has none */
    const float *old;     /* o; NULL: the policy has not changed, lp itself */
    const float *ref;     /* with a KL term, and for dpo */
    const float *weight;
    const float *clip_low, *clip_high; /* NULL: the options' */
};

/* Sums over positions. */
struct mint_policy_sums {
    int64_t positions, ratios; /* ratios: those with a q (not cross_entropy and dpo) */
    double lp, entropy;        /* entropy: the policy's full one */
    double kl_v1, kl_v2;       /* q - lp, (q - lp)^2 */
    double kl_ref;             /* weighted k(lp, ref) */
    double ratio_max, ratio_min;
    int64_t clipped, dual_clipped, clamped;
    /* correction: sum of omega; positions where it is 0, and where it was cut; datums all of 0 */
    double omega;
    int64_t masked, truncated, masked_datums;
    /* dpo: pairs, those whose chosen one is ahead, sum of beta times the margin */
    int64_t pairs, wins;
    double margin;
};
void mint_policy_sums_add(struct mint_policy_sums *a, const struct mint_policy_sums *b);

/* Slopes of a datum's positions: dlp[n], dentropy[n] (written with an entropy bonus only). Adds to
 * *loss and *s. Not for dpo. */
void mint_loss_datum(const struct mint_loss_opts *o, const struct mint_loss_rows *in, float *dlp,
                     float *dentropy, double *loss, struct mint_policy_sums *s);
/* dpo: of a pair, chosen[0] and rejected[1]. */
void mint_loss_pair(const struct mint_loss_opts *o, const struct mint_loss_rows in[2],
                    float *dlp[2], double *loss, struct mint_policy_sums *s);

/* Datums that the loss looks at together: 2 for dpo, else 1. */
size_t mint_loss_unit(const struct mint_loss_opts *o);
/* Only the advantage drives the loss: a position with A = 0 has no slope, whatever lp is. */
bool mint_loss_by_advantage(const struct mint_loss_opts *o);
/* There are ratios to a sampler: the datum needs logprobs and advantages. */
bool mint_loss_has_ratio(const struct mint_loss_opts *o);

extern const char *const mint_loss_names[]; /* NULL-terminated, in the order of the enums */
extern const char *const mint_kl_names[];
extern const char *const mint_proximal_names[];
extern const char *const mint_correction_names[];

#endif

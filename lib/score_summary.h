/* SPDX-License-Identifier: Apache-2.0 */
/*
 * score_summary.h: what a file of scored rollouts says about a policy.
 *
 * A sequence is right if its reward is at least the threshold. Formulas and sources:
 *   accuracy       right / scored, with Wilson's 95% interval (Wilson 1927)
 *   pass@k         mean over groups with n >= k of 1 - C(n-c, k) / C(n, k), c right ones of n
 *                  (unbiased; Chen et al. 2021, arXiv:2107.03374)
 *   majority       share of groups whose most frequent answer is right; the first seen wins a tie
 *   length_corr    Pearson's r between reward and response length: a judge that likes length shows
 */
#ifndef MINT_SCORE_SUMMARY_H
#define MINT_SCORE_SUMMARY_H

#include "base.h"
#include "buf.h"
#include "err.h"
#include "metrics.h"
#include "score.h"

#define MINT_PASS_MAX 12 /* pass@1, 2, 4, ... 2^11 */

struct mint_summary {
    double threshold;
    uint64_t groups, sequences, scored, right, nulls;
    double sum, sq, len_sum, len_sq, len_reward;
    double group_mean_sq; /* for the standard error of the mean, over groups */
    double group_mean_sum;
    uint64_t group_means;
    double pass_sum[MINT_PASS_MAX];
    uint64_t pass_groups[MINT_PASS_MAX];
    uint64_t votes, votes_right; /* groups with answers; those whose majority is right */
    uint64_t length_stops, tokens;
};

/* Unbiased pass@k of a group of n with c right, 1 <= k <= n. */
double mint_pass_at_k(uint64_t n, uint64_t c, uint64_t k);
/* Wilson's 95% interval for c of n; n = 0 gives 0, 1. */
void mint_wilson(uint64_t c, uint64_t n, double *lo, double *hi);

void mint_summary_add(struct mint_summary *m, const struct mint_scoring *c,
                      const struct mint_scored *s);
/* A table for people, appended to b. */
void mint_summary_print(const struct mint_summary *m, struct mint_buf *b);
void mint_summary_metrics(const struct mint_summary *m, struct mint_metrics *out);

#endif

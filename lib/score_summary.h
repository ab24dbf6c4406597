/* SPDX-License-Identifier: Apache-2.0 */
/*
 * score_summary.h: what a file of scored rollouts says about a policy.
 *
 * A sequence is right if its reward is at least the threshold. Formulas and sources:
 *   accuracy       right / scored, with Wilson's 95% interval (Wilson 1927)
 *   pass@k         mean over groups with n >= k of 1 - C(n-c, k) / C(n, k), c right ones of n
 *                  (unbiased; Chen et al. 2021, arXiv:2107.03374)
 *   majority       share of groups whose most frequent answer is right; the first seen wins a tie,
 *                  and a group without an answer is wrong
 *   majority@k     the same for k samples: mean over the groups of k that a group falls into, in
 *                  order; what is left over does not count
 *   reward mean    over sequences; 95% interval: Wilson's where all rewards are 0 or 1, else the
 *                  percentile bootstrap over groups (Efron 1979), whose draws depend on seed alone
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

/* What the bootstrap draws. */
struct mint_summary_group {
    double sum;
    uint64_t n; /* sequences with a reward */
};

struct mint_summary {
    double threshold;
    uint64_t seed; /* of the bootstrap */
    uint64_t groups, sequences, scored, right, nulls;
    double sum, sq, len_sum, len_sq, len_reward;
    double group_mean_sq; /* for the standard error of the mean, over groups */
    double group_mean_sum;
    uint64_t group_means;
    double pass_sum[MINT_PASS_MAX];
    uint64_t pass_groups[MINT_PASS_MAX];
    uint64_t votes, votes_right; /* groups with rewards; those whose majority is right */
    uint64_t answers;
    double maj_sum[MINT_PASS_MAX];
    uint64_t maj_groups[MINT_PASS_MAX];
    uint64_t length_stops, cut_scored, cut_right, tokens;
    uint64_t other; /* rewards that are neither 0 nor 1 */
    struct mint_summary_group *all;
    size_t all_n, all_cap;
};
void mint_summary_release(struct mint_summary *m);

/* The same for each value of a field of the records: a string, a number, true or false; "-" without
 * one. */
struct mint_summary_tags {
    const char *field;
    struct mint_summary_tag {
        char *name;
        struct mint_summary sum;
    } * v; /* in the order of names, numbers in them by value */
    size_t n, cap;
};
void mint_summary_tags_release(struct mint_summary_tags *t);
/* like: threshold and seed of each. */
int mint_summary_tags_add(struct mint_summary_tags *t, const struct mint_summary *like,
                          const struct mint_scoring *c, const struct mint_scored *s,
                          struct mint_err *err);

/* Unbiased pass@k of a group of n with c right, 1 <= k <= n. */
double mint_pass_at_k(uint64_t n, uint64_t c, uint64_t k);
/* The interval of the mean reward: false if there is none (no reward, or one group and no 0/1). */
bool mint_summary_interval(const struct mint_summary *m, double *lo, double *hi);
/* Wilson's 95% interval for c of n; n = 0 gives 0, 1. */
void mint_wilson(uint64_t c, uint64_t n, double *lo, double *hi);

void mint_summary_add(struct mint_summary *m, const struct mint_scoring *c,
                      const struct mint_scored *s);
/* A table for people, appended to b. */
void mint_summary_print(const struct mint_summary *m, struct mint_buf *b);
void mint_summary_tags_print(const struct mint_summary_tags *t, struct mint_buf *b);
void mint_summary_metrics(const struct mint_summary *m, struct mint_metrics *out);
/* "FIELD=VALUE/reward/mean" and so on. */
void mint_summary_tags_metrics(const struct mint_summary_tags *t, struct mint_metrics *out);

#endif

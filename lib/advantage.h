/* SPDX-License-Identifier: Apache-2.0 */
/*
 * advantage.h: from scored rollout groups to Datums.
 *
 * Advantages are computed in double and written as float32. A sequence has one advantage, copied to
 * each of its response positions. Sources: mean, the GRPO loop of MinT and Tinker (A = r - mean;
 * flat groups dropped); std, GRPO (Shao et al. 2024, arXiv:2402.03300) with n-1 and 1e-6 as MinT's
 * DAPO recipe has it; loo, RLOO (Ahmadian et al. 2024, arXiv:2402.14740); the overlong penalty,
 * DAPO (Yu et al. 2025, arXiv:2503.14476); a constant length divisor, Dr. GRPO (Liu et al. 2025,
 * arXiv:2503.20783). Nothing here is shared between threads.
 */
#ifndef MINT_ADVANTAGE_H
#define MINT_ADVANTAGE_H

#include "base.h"
#include "buf.h"
#include "err.h"
#include "record.h"

#define MINT_ADV_EPS 1e-6

enum mint_adv_norm { MINT_ADV_MEAN, MINT_ADV_STD, MINT_ADV_LOO, MINT_ADV_NONE };
enum mint_adv_length { MINT_LEN_NONE, MINT_LEN_SEQUENCE, MINT_LEN_BATCH, MINT_LEN_CONST };

/*
 * n rewards to n advantages; out may be r. All equal (max == min, compared exactly): all exactly 0
 * with MEAN, STD, LOO; so is a single one.
 *   MEAN r - m               STD (r - m) / (sqrt(sum (r-m)^2 / (n-1)) + 1e-6)
 *   LOO  n/(n-1) (r - m)     NONE r
 */
void mint_advantages(enum mint_adv_norm norm, const double *r, size_t n, double *out);

/* DAPO's soft penalty, to be added to the reward: 0 up to max - buffer tokens, then falling
 * linearly to -factor at max, -factor beyond. buffer is cut to max. max, buffer > 0. */
double mint_overlong_penalty(size_t len, int64_t max, int64_t buffer, double factor);

/* A response without logprobs: an error; left out, also of the mean; taken as if all were 0. */
enum mint_adv_missing { MINT_MISSING_ERROR, MINT_MISSING_DROP, MINT_MISSING_ZERO };

struct mint_adv_opts {
    enum mint_adv_norm norm;
    bool keep_flat, drop_truncated;
    bool sft;            /* weights only: no advantages, no logprobs */
    bool has_min_reward; /* sft: only sequences with reward >= min_reward */
    double min_reward;
    int64_t overlong_buffer; /* 0: off */
    double overlong_factor;
    int64_t max_tokens;    /* 0: the record's sampling.max_tokens */
    int64_t max_staleness; /* -1: off */
    int64_t step;          /* the present step, for max_staleness */
    enum mint_adv_missing missing_logprobs;
    enum mint_adv_length length;
    double length_const;
};

/* What becomes of a sequence. */
enum mint_adv_fate {
    MINT_ADV_KEPT,      /* gives a Datum */
    MINT_ADV_FLAT,      /* its group's rewards are all equal */
    MINT_ADV_FEW,       /* fewer than two rewards are left in its group */
    MINT_ADV_STALE,     /* its group was sampled too many steps ago */
    MINT_ADV_NULL,      /* reward null */
    MINT_ADV_TRUNCATED, /* stop_reason length, --drop-truncated */
    MINT_ADV_LOW,       /* sft: below min_reward */
    MINT_ADV_UNKNOWN,   /* no logprobs, MINT_MISSING_DROP */
    MINT_ADV_EMPTY,     /* no response tokens; counted in the mean */
    MINT_ADV_FATES
};
extern const char *const mint_adv_fate_names[MINT_ADV_FATES]; /* "datums", "flat", ... */

struct mint_adv_seq {
    enum mint_adv_fate fate;
    double penalty, advantage; /* before the length norm */
};

struct mint_adv_stats {
    uint64_t groups;
    uint64_t mixed, all_good, all_bad; /* of the groups with rewards; good: all equal, >= 0.5 */
    uint64_t stale_groups, flat_groups, few_groups; /* dropped */
    uint64_t sequences, fate[MINT_ADV_FATES];
    uint64_t rewards; /* numbers among them (stale groups left out) */
    double reward_sum, reward_sq, penalty_sum;
    uint64_t penalised;
    uint64_t tokens, length_stops; /* response tokens, and stop_reason length, of all sequences */
    uint64_t datum_tokens;         /* response tokens of the Datums */
};

/*
 * Decides the fate and advantage of each sequence of g: out has g->nseqs elements. Counts into *s
 * (only on success). Fails (MINT_ESCHEMA) where a reward or logprobs are missing, and on a group of
 * one unless norm is NONE or sft. r is the reader that g came from: its document and arena are
 * used.
 */
int mint_advantage_group(const struct mint_adv_opts *o, struct mint_reader *r,
                         const struct mint_group *g, struct mint_adv_seq *out,
                         struct mint_adv_stats *s, struct mint_err *err);

/*
 * Writing: the Datums of a group that mint_group_scan read, a line each with its newline, appended
 * to b. The texts of tokens and logprobs are copied, not printed anew. batch_tokens is the divisor
 * of MINT_LEN_BATCH.
 */
struct mint_adv_writer {
    struct mint_buf prompt, resp; /* kept between groups */
};
#define MINT_ADV_WRITER_INIT         \
    {                                \
        MINT_BUF_INIT, MINT_BUF_INIT \
    }
void mint_advantage_write(struct mint_adv_writer *w, const struct mint_adv_opts *o,
                          const struct mint_reader *r, const struct mint_group *g,
                          const struct mint_adv_seq *seqs, uint64_t batch_tokens,
                          struct mint_buf *b);
void mint_adv_writer_release(struct mint_adv_writer *w);

#endif

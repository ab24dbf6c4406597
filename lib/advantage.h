/* SPDX-License-Identifier: Apache-2.0 */
/*
 * advantage.h: from scored rollout groups to Datums.
 *
 * Advantages are computed in double and written as float32. A sequence has one advantage, copied to
 * each of its response positions, unless a KL or teacher term makes it one a token. The rules and
 * their sources:
 *   mean  MinT's and Tinker's GRPO loop
 *   std   GRPO (Shao et al. 2024, arXiv:2402.03300); n-1 and 1e-6 as MinT's DAPO recipe has it
 *   loo   RLOO (Ahmadian et al. 2024, arXiv:2402.14740)
 *   dr-grpo  Dr. GRPO (Liu et al. 2025, arXiv:2503.20783): mean, and a constant length divisor
 *   maxrl    maximum likelihood RL (Tajwar et al. 2026, arXiv:2602.02710)
 *   reinforce++  (Hu et al. 2025, arXiv:2501.03262), and its form with a group baseline
 *   gdpo     each score by itself (Liu et al. 2026, arXiv:2601.05242)
 * or, in place of advantages, pairs of a better and a worse sequence for DPO (Rafailov et al. 2023,
 * arXiv:2305.18290).
 * The overlong penalty is DAPO's (Yu et al. 2025, arXiv:2503.14476). The KL term is that of
 * Tinker's cookbook. Nothing here is shared between threads.
 *
 * What needs the whole batch (whitening, a centred KL, a mean over tokens) takes two passes over
 * the input: the first fills struct mint_adv_batch, which is all that is kept.
 */
#ifndef MINT_ADVANTAGE_H
#define MINT_ADVANTAGE_H

#include "base.h"
#include "buf.h"
#include "err.h"
#include "record.h"

#define MINT_ADV_EPS    1e-6 /* beside a group's deviation */
#define MINT_WHITEN_EPS 1e-8 /* beside a batch's variance (reinforce++) */

enum mint_adv_norm {
    MINT_ADV_MEAN,
    MINT_ADV_STD,
    MINT_ADV_LOO,
    MINT_ADV_DR_GRPO,
    MINT_ADV_MAXRL,
    MINT_ADV_REINFORCE,
    MINT_ADV_REINFORCE_BASE,
    MINT_ADV_GDPO,
    MINT_ADV_NONE,
    MINT_ADV_NORMS
};
extern const char *const mint_adv_norm_names[MINT_ADV_NORMS + 1]; /* "mean", ..., NULL */

/* Preferences in place of advantages: which sequences of a group make pairs (mint-train's dpo). */
enum mint_adv_pairs {
    MINT_PAIRS_NONE,
    MINT_PAIRS_BEST_WORST, /* the first of the best with the first of the worst */
    MINT_PAIRS_ALL         /* each with each that is worse */
};
extern const char *const mint_adv_pairs_names[]; /* "none", "best-worst", "all", NULL */

enum mint_adv_length {
    MINT_LEN_NONE,
    MINT_LEN_SEQUENCE,
    MINT_LEN_BATCH,
    MINT_LEN_LIMIT, /* the record's token limit */
    MINT_LEN_CONST
};

/*
 * n rewards to n advantages of one group; out may be r. All equal (max == min, compared exactly):
 * all exactly 0, except with NONE and REINFORCE; so is a single one.
 *   MEAN, DR_GRPO, REINFORCE_BASE  r - m
 *   STD, GDPO (a score)   (r - m) / (sqrt(sum (r-m)^2 / (n - ddof)) + eps)
 *   LOO  n/(n-1) (r - m)  MAXRL (r - m) / m      NONE, REINFORCE r
 * All are NaN where a sum or a square leaves the doubles.
 * MAXRL wants m > 0; rewards of which none is below 0 have that or are all equal.
 */
void mint_advantages(enum mint_adv_norm norm, double eps, int ddof, const double *r, size_t n,
                     double *out);

/* DAPO's soft penalty, to be added to the reward: 0 up to max - buffer tokens, then falling
 * linearly to -factor at max, -factor beyond. buffer is cut to max. max, buffer > 0. */
double mint_overlong_penalty(size_t len, int64_t max, int64_t buffer, double factor);

/* A response without logprobs: an error; left out, also of the mean; taken as if all were 0. */
enum mint_adv_missing { MINT_MISSING_ERROR, MINT_MISSING_DROP, MINT_MISSING_ZERO };

struct mint_adv_score { /* of GDPO */
    const char *name;
    double weight;
};

struct mint_adv_opts {
    enum mint_adv_norm norm;
    double eps;
    int ddof;                            /* 0 or 1 */
    const char *like;                    /* whose rule it is, for meta; NULL: ours */
    const struct mint_adv_score *scores; /* GDPO: nscores of them; 0: all of the record */
    size_t nscores;
    enum mint_adv_pairs pairs; /* if not NONE, norm and what follows from it is idle */
    double min_margin;         /* of a pair's rewards */
    double clip;               /* 0: off; else advantages are kept in [-clip, clip] */
    bool keep_flat, drop_truncated, mask_truncated;
    bool sft;            /* weights only: no advantages, no logprobs */
    bool has_min_reward; /* sft: only sequences with reward >= min_reward */
    double min_reward;
    int64_t overlong_buffer; /* 0: off */
    double overlong_factor;
    int64_t max_tokens;    /* 0: the record's sampling.max_tokens */
    int64_t max_staleness; /* -1: off */
    int64_t step;          /* the present step, for max_staleness */
    uint64_t max_groups;   /* groups that give Datums; those behind them are surplus. 0: no limit */
    enum mint_adv_missing missing_logprobs;
    enum mint_adv_length length;
    double length_const;
    double kl_coef;      /* 0: off; wants ref_logprobs */
    double kl_discount;  /* 0: each token pays for itself; else the discounted sum to come */
    bool kl_centre;      /* less the batch's mean: adds nothing on the whole */
    double teacher_coef; /* 0: off; wants teacher_logprobs */
};

/* What becomes of a sequence. */
enum mint_adv_fate {
    MINT_ADV_KEPT,      /* gives a Datum */
    MINT_ADV_FLAT,      /* its group's rewards are all equal */
    MINT_ADV_FEW,       /* fewer than two rewards are left in its group */
    MINT_ADV_STALE,     /* its group was sampled too many steps ago */
    MINT_ADV_NULL,      /* reward null */
    MINT_ADV_TRUNCATED, /* stop_reason length, --drop-truncated */
    MINT_ADV_MASKED,    /* the same with --mask-truncated; counted in the mean */
    MINT_ADV_LOW,       /* sft: below min_reward */
    MINT_ADV_UNKNOWN,   /* no logprobs, MINT_MISSING_DROP */
    MINT_ADV_EMPTY,     /* no response tokens; counted in the mean */
    MINT_ADV_SURPLUS,   /* its group came after max_groups */
    MINT_ADV_UNPAIRED,  /* pairs: in none of them */
    MINT_ADV_FATES
};
extern const char *const mint_adv_fate_names[MINT_ADV_FATES]; /* "datums", "flat", ... */

struct mint_adv_seq {
    enum mint_adv_fate fate;
    double penalty;
    double advantage; /* before the length norm; of all its tokens the mean, where they differ */
    double *tokens;   /* one a token, in the reader's arena; NULL: all are advantage */
    double divisor;   /* the length norm's, but for MINT_LEN_BATCH */
};

/* Count, mean and sum of squared deviations of what came by. Zeroed: none. */
struct mint_adv_moments {
    double n, mean, m2;
};
void mint_adv_moments_add(struct mint_adv_moments *m, double v, double times);
/* Of all that came by; ddof as above. 0 where there are not enough. */
double mint_adv_moments_var(const struct mint_adv_moments *m, int ddof);

/* What the first pass learns. Zeroed before it; known is set between the passes. */
struct mint_adv_batch {
    bool known;
    uint64_t tokens;                 /* response tokens of the Datums */
    struct mint_adv_moments values;  /* what is whitened: REINFORCE tokens, GDPO sequences */
    struct mint_adv_moments kl;      /* sampler's logprob - reference's, of Datum tokens */
    struct mint_adv_moments teacher; /* the same for the teacher */
};
/* Whether these options need the batch before anything can be written. */
bool mint_adv_two_passes(const struct mint_adv_opts *o);

struct mint_adv_stats {
    uint64_t groups, groups_kept;      /* kept: gave a Datum */
    uint64_t mixed, all_good, all_bad; /* of the groups with rewards; good: all equal, >= 0.5 */
    uint64_t stale_groups, flat_groups, few_groups; /* dropped */
    uint64_t sequences, fate[MINT_ADV_FATES];
    uint64_t rewards; /* numbers among them (stale and surplus groups left out) */
    double reward_sum, reward_sq, penalty_sum;
    uint64_t penalised;
    uint64_t tokens, length_stops; /* response tokens, and stop_reason length, of all sequences */
    uint64_t datum_tokens;         /* response tokens of the Datums */
    uint64_t clipped;              /* of them, those that --clip changed */
    uint64_t pairs;                /* written, each as two Datums */
    /* and those that were not: of equal rewards, of the same tokens, within min_margin */
    uint64_t pairs_tied, pairs_same, pairs_close;
    double margin_sum; /* of the pairs */
};

/*
 * Decides the fate and advantage of each sequence of g: out has g->nseqs elements. Counts into *s
 * and, unless batch->known, into *batch (only on success). Where two passes are needed the
 * advantages of the first are not final. Fails (MINT_ESCHEMA) where a reward, a score or logprobs
 * are missing or an advantage is not finite as float32, and on a group of one where the rule needs
 * a baseline. r is the reader that g came from: its document and arena are used.
 */
int mint_advantage_group(const struct mint_adv_opts *o, struct mint_adv_batch *batch,
                         struct mint_reader *r, const struct mint_group *g,
                         struct mint_adv_seq *out, struct mint_adv_stats *s, struct mint_err *err);

/* The part of it that looks at tokens: KL, teacher, whitening, clipping, for the kept sequences.
 * In advantage_token.c. */
int mint_advantage_tokens(const struct mint_adv_opts *o, struct mint_adv_batch *batch,
                          struct mint_reader *r, const struct mint_group *g,
                          struct mint_adv_seq *out, struct mint_adv_stats *s, struct mint_err *err);

/* A pair of a group's sequences: a better and a worse one, by their rewards with penalty. */
struct mint_adv_pair {
    size_t chosen, rejected;
    double margin;
};

/* The part of it that finds pairs: KEPT are then the sequences that are in one. In
 * advantage_pairs.c, as is the next: p goes from {g->nseqs, 0} (before the first) to each pair of
 * the group, in the order of chosen and then of rejected; false behind the last. */
void mint_advantage_pairs(const struct mint_adv_opts *o, struct mint_reader *r,
                          const struct mint_group *g, struct mint_adv_seq *out,
                          struct mint_adv_stats *s);
bool mint_adv_pair_next(const struct mint_adv_opts *o, const struct mint_group *g,
                        const struct mint_adv_seq *seqs, struct mint_adv_pair *p);

/*
 * Writing: the Datums of a group that mint_group_scan read, a line each with its newline, appended
 * to b. The texts of tokens and logprobs are copied, not printed anew.
 */
struct mint_adv_writer {
    struct mint_buf prompt, resp, rule; /* kept between groups */
};
#define MINT_ADV_WRITER_INIT                        \
    {                                               \
        MINT_BUF_INIT, MINT_BUF_INIT, MINT_BUF_INIT \
    }
void mint_advantage_write(struct mint_adv_writer *w, const struct mint_adv_opts *o,
                          const struct mint_adv_batch *batch, const struct mint_reader *r,
                          const struct mint_group *g, const struct mint_adv_seq *seqs,
                          struct mint_buf *b);
/* The same for one pair: two lines, the chosen one first. */
void mint_advantage_write_pair(struct mint_adv_writer *w, const struct mint_adv_opts *o,
                               const struct mint_reader *r, const struct mint_group *g,
                               const struct mint_adv_seq *seqs, const struct mint_adv_pair *p,
                               struct mint_buf *b);
void mint_adv_writer_release(struct mint_adv_writer *w);

#endif

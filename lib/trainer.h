/* SPDX-License-Identifier: Apache-2.0 */
/*
 * trainer.h: optimiser steps of an adapter over datums, and forward passes without a gradient.
 *
 * Datums are packed in order into micro-batches of about micro_tokens rows, without padding; those
 * that follow each other and begin alike share the rows of their beginning (trainer_batch.h). A
 * micro-batch goes forward layer by layer; what is not kept of a layer for its backward is computed
 * again there. A gradient is formed for each such family, rows ascending, and summed over the
 * step's families in a fixed tree (gradtree.h). So the result's bits depend on the datums, their
 * order and the options, not on micro_tokens, recomputation or threads.
 *
 * A datum is idle if its loss has no slope whatever the policy is: all its weights are 0, or all
 * its advantages where nothing but they drive it. Idle datums are left out of families; they would
 * add zeros to the gradient.
 */
#ifndef MINT_TRAINER_H
#define MINT_TRAINER_H

#include "forward.h"
#include "lora.h"
#include "loss.h"
#include "model.h"
#include "ranks.h"
#include "record.h"

struct mint_train_opts {
    struct mint_loss_opts loss;
    double beta1, beta2, eps, weight_decay;
    double grad_clip_norm; /* 0: off */
    int64_t micro_tokens;  /* positions of a micro-batch; a longer datum is one by itself */
    enum mint_recompute recompute;
    size_t memory; /* bytes of activations for AUTO to stay below; 0: half of what the device has */
    bool watch_idle; /* idle datums go forward all the same, for the statistics */
    bool train_idle; /* and backward, which changes no bit (for tests) */
    /* The processes that share each step, of which every one makes the same calls and gets the same
     * result; NULL: this one alone. Outlives the trainer. */
    struct mint_ranks *ranks;
};

/* What a step saw. */
struct mint_step_stats {
    int64_t datums;                  /* given */
    int64_t counted;                 /* of them, with a position of weight != 0 */
    int64_t active;                  /* of these, not idle */
    int64_t tokens;                  /* positions of weight != 0 */
    double loss;                     /* loss:sum */
    struct mint_policy_sums trained; /* of the active datums */
    struct mint_policy_sums seen;    /* of all that went forward */
    double grad_norm;                /* before clipping */
    bool stepped;                    /* false: no datum counts, so no optimiser step was made */
};

struct mint_trainer;
/* adapter is trained in place; NULL: forward passes only. ref: the KL reference's adapter, NULL:
 * the base. Both outlive the trainer. */
int mint_trainer_new(struct mint_trainer **t, struct mint_model *m, struct mint_adapter *adapter,
                     const struct mint_adapter *ref, const struct mint_train_opts *o,
                     struct mint_err *err);
void mint_trainer_free(struct mint_trainer *t);

/* Optimiser state: from a checkpoint's optimizer tensors (NULL: zeros), step: optimiser steps
 * already in it. */
int mint_trainer_load_optimizer(struct mint_trainer *t, const struct mint_st *st, int64_t step,
                                struct mint_err *err);
int64_t mint_trainer_step_count(const struct mint_trainer *t);
/* What is computed again, as decided for the micro-batches so far. */
enum mint_recompute mint_trainer_recompute(const struct mint_trainer *t);
/* How gradients travel between the processes, in words; NULL: there is one. */
const char *mint_trainer_exchange(const struct mint_trainer *t);
/* Downloads value, m and v of parameter i into host buffers of rows*cols floats. */
int mint_trainer_read(struct mint_trainer *t, size_t i, float *value, float *m, float *v,
                      struct mint_err *err);

/* Checks that a datum has what the loss needs (target in the vocabulary, q, advantages, weights for
 * dro, ref when ref_given). */
int mint_trainer_check(const struct mint_train_opts *o, const struct mint_datum *d,
                       struct mint_err *err);

/* One optimiser step over n datums at this learning rate. A gradient or logprob that is not finite
 * is an error that names the datums it comes from, and leaves the parameters as they were. */
int mint_trainer_step(struct mint_trainer *t, const struct mint_datum *const *d, size_t n,
                      double lr, struct mint_step_stats *s, struct mint_err *err);
/* The two halves of a step: gradients of the datums, a leaf a family, in their order (several calls
 * go on from one another, but not with ranks; they add to *s, which was zeroed before the first);
 * then the update from these leaves. */
int mint_trainer_gradients(struct mint_trainer *t, const struct mint_datum *const *d, size_t n,
                           struct mint_step_stats *s, struct mint_err *err);
int mint_trainer_update(struct mint_trainer *t, double lr, struct mint_step_stats *s,
                        struct mint_err *err);

/* After an update that failed for a gradient that is not finite: finds the datums that have it, by
 * going through the families again one by one, and fills err. Returns -1. */
int mint_trainer_blame(struct mint_trainer *t, const struct mint_datum *const *d, size_t n,
                       struct mint_err *err);

/* lp of positions of all datums, in order: lp holds the sum of their lengths. all: every position
 * whose target is in the vocabulary, else those with weight != 0; the others get NaN. adapter NULL:
 * the base. */
int mint_trainer_forward(struct mint_trainer *t, const struct mint_datum *const *d, size_t n,
                         const struct mint_adapter *adapter, bool all, float *lp,
                         struct mint_err *err);

/* For planning: what one pass over these datums goes through, idle ones left out: rows of the model
 * and of the head, and for all rows together the keys that each looks at. */
struct mint_train_work {
    int64_t rows, head_rows, keys;
};
void mint_trainer_work(const struct mint_model *m, const struct mint_train_opts *o,
                       const struct mint_datum *const *d, size_t n, struct mint_train_work *w);
/* For planning: bytes of activations of training on these datums, and what of the forward would be
 * computed again with AUTO (again may be NULL). */
size_t mint_trainer_bytes(const struct mint_model *m, int64_t rank, const struct mint_train_opts *o,
                          const struct mint_datum *const *d, size_t n, enum mint_recompute *again);

#endif

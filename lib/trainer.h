/* SPDX-License-Identifier: Apache-2.0 */
/*
 * trainer.h: optimiser steps of an adapter over datums, and forward passes without a gradient.
 *
 * Datums are packed in order into micro-batches of about micro_tokens rows, without padding; those
 * that follow each other and begin alike share the rows of their beginning (trainer_batch.h). A
 * micro-batch goes forward layer by layer, keeping only each layer's input; the backward computes a
 * layer again before it goes through it. A gradient is formed for each such family, rows ascending,
 * and summed over the step's families in a fixed tree (gradtree.h). So the result's bits depend on
 * the datums, their order and the options, not on micro_tokens or threads.
 */
#ifndef MINT_TRAINER_H
#define MINT_TRAINER_H

#include "lora.h"
#include "loss.h"
#include "model.h"
#include "record.h"

struct mint_train_opts {
    struct mint_loss_opts loss;
    double beta1, beta2, eps, weight_decay;
    double grad_clip_norm; /* 0: off */
    int64_t micro_tokens;  /* positions of a micro-batch; a longer datum is one by itself */
};

/* What a step saw: sums over positions with weight != 0, unless said otherwise. */
struct mint_step_stats {
    int64_t datums, active; /* given; with a position that counts */
    int64_t tokens;         /* positions with weight != 0 */
    int64_t ratios;         /* of them with a q (all but cross_entropy) */
    double loss;            /* loss:sum */
    double kl_v1, kl_v2;    /* sum q - lp, sum (q - lp)^2 */
    double entropy;         /* sum of the policy's full entropy */
    double kl_ref;          /* sum of weighted k(lp, ref) */
    double lp;              /* sum of lp */
    double ratio_max, ratio_min;
    int64_t clipped, clamped;
    double grad_norm; /* before clipping */
    bool stepped;     /* false: no datum counted, so no optimiser step was made */
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
/* Downloads value, m and v of parameter i into host buffers of rows*cols floats. */
int mint_trainer_read(struct mint_trainer *t, size_t i, float *value, float *m, float *v,
                      struct mint_err *err);

/* Checks that a datum has what the loss needs (target in the vocabulary, q, advantages, weights for
 * dro, ref when ref_given). */
int mint_trainer_check(const struct mint_train_opts *o, const struct mint_datum *d,
                       struct mint_err *err);

/* One optimiser step over n datums at this learning rate. A gradient or logprob that is not finite
 * is an error that says where, and leaves the parameters as they were. */
int mint_trainer_step(struct mint_trainer *t, const struct mint_datum *const *d, size_t n,
                      double lr, struct mint_step_stats *s, struct mint_err *err);

/* lp of positions of all datums, in order: lp holds the sum of their lengths. all: every position
 * whose target is in the vocabulary, else those with weight != 0; the others get NaN. adapter NULL:
 * the base. */
int mint_trainer_forward(struct mint_trainer *t, const struct mint_datum *const *d, size_t n,
                         const struct mint_adapter *adapter, bool all, float *lp,
                         struct mint_err *err);

#endif

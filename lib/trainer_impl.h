/* SPDX-License-Identifier: Apache-2.0 */
/* trainer_impl.h: private to the trainer. trainer.c steps, trainer_pass.c goes through the model.
 */
#ifndef MINT_TRAINER_IMPL_H
#define MINT_TRAINER_IMPL_H

#include "exchange.h"
#include "trainer.h"
#include "trainer_batch.h"
#include "trainer_room.h"

struct mint_trainer {
    struct mint_model *model;
    struct mint_adapter *adapter;
    const struct mint_adapter *ref;
    struct mint_train_opts o;
    struct mint_dev *dev;
    const struct mint_ops *ops;
    struct mint_room room;
    /* optimiser */
    struct mint_gradtree *tree;
    int64_t leaves; /* families so far in the step */
    float **m, **v; /* a parameter each */
    int64_t step;
    struct mint_ranks *ranks; /* NULL: one process */
    struct mint_exchange *exchange;
    char *inbox; /* on the device */
    size_t inbox_bytes;
};

/* Datums that go through together: d[0..n), of which idle may be left out. */
struct mint_datum_list {
    const struct mint_datum **d;
    bool *idle;
    size_t n;
};

/* k of d[0..n), whole families, and those that follow if a pair would be cut. */
size_t mint_trainer_whole(const struct mint_trainer *t, const struct mint_datum *const *d, size_t k,
                          size_t n);
/* What was seen of a datum; of a pair it stands at the first. */
struct mint_datum_sums {
    double loss;
    struct mint_policy_sums sums;
};
/* Forward of the datums that are not idle; with backward, their families go into the tree. Adds to
 * each[0..n). */
int mint_trainer_pass(struct mint_trainer *t, const struct mint_datum_list *v, bool backward,
                      struct mint_datum_sums *each, struct mint_err *err);

/* --- trainer_ranks.c, trainer_join.c: for several processes; every one of them calls these. */

/* Datums from .. to-1, whose first family has this number. */
struct mint_share {
    size_t from, to;
    int64_t number;
};
/* share[r] of each rank r: contiguous, about equal in rows, the same on all. idle may be NULL. */
void mint_trainer_shares(const struct mint_trainer *t, const struct mint_datum *const *d,
                         const bool *idle, size_t n, struct mint_share *share);
/* Everybody's part of each goes to all. */
int mint_trainer_gather(const struct mint_trainer *t, const struct mint_share *share,
                        struct mint_datum_sums *each, struct mint_err *err);
/* The same of rows, of which datum k has d[k]->n. */
int mint_trainer_gather_rows(const struct mint_trainer *t, const struct mint_datum *const *d,
                             const struct mint_share *share, float *rows, struct mint_err *err);
/* Everybody's leaves become one leaf, the sum of all, on all. */
int mint_trainer_join(struct mint_trainer *t, struct mint_err *err);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* trainer_impl.h: private to the trainer. trainer.c steps, trainer_pass.c goes through the model.
 */
#ifndef MINT_TRAINER_IMPL_H
#define MINT_TRAINER_IMPL_H

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
/* Forward of the datums that are not idle; with backward, their families go into the tree. Adds to
 * *loss and *sums. */
int mint_trainer_pass(struct mint_trainer *t, const struct mint_datum_list *v, bool backward,
                      double *loss, struct mint_policy_sums *sums, struct mint_err *err);

#endif

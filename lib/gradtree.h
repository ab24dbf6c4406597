/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gradtree.h: sums of per-datum gradients in a fixed binary tree, so that the sum's bits depend on
 * the datums and their order alone, not on how they were cut into micro-batches, threads or ranks.
 *
 * Family i of datums is leaf i. Leaves 2i and 2i+1 are added first, then pairs of pairs, and so on;
 * what is left over at the end is added from the right to the left. The sum is kept like a binary
 * counter: at most log2(n)+2 buffers a parameter. A family that contributes nothing is an absent
 * leaf: it takes its place in the tree, and changes no bit.
 *
 * A tree may also hold the leaves of a stretch in the middle, which another tree goes on from: what
 * it has added up by then are nodes, aligned blocks of leaves, and the other takes them as it would
 * have made them itself.
 */
#ifndef MINT_GRADTREE_H
#define MINT_GRADTREE_H

#include "backend.h"

struct mint_gradtree;
/* sizes[p]: floats of parameter p; copied. */
struct mint_gradtree *mint_gradtree_new(struct mint_dev *dev, const int64_t *sizes, size_t nparams);
void mint_gradtree_free(struct mint_gradtree *t);

/* A device buffer of sizes[p] floats to compute the next leaf of p in; NULL with err. Given back by
 * push. */
float *mint_gradtree_leaf(struct mint_gradtree *t, size_t p, struct mint_err *err);
/* Leaf number of p, from mint_gradtree_leaf. Numbers ascend from 0; those left out are absent. */
int mint_gradtree_push(struct mint_gradtree *t, size_t p, int64_t number, float *leaf,
                       struct mint_err *err);
/* The same with a node: the sum of leaves number .. number + 2^level - 1; number is a multiple of
 * 2^level. */
int mint_gradtree_push_node(struct mint_gradtree *t, size_t p, int64_t number, int level,
                            float *node, struct mint_err *err);
/* The leaves to come have numbers from first on, and those before are another tree's. The tree must
 * be empty. Such a tree has nodes and no sum, unless first is 0. */
void mint_gradtree_begin(struct mint_gradtree *t, int64_t first);
/* Leaves that are computed from rows, some at a time (mint_dev.leaf_room): leaf i is number[i] of p
 * (as for push), the gradient o over rows first[i] .. first[i+1]-1. */
int mint_gradtree_outer(struct mint_gradtree *t, size_t p, const struct mint_outer *o,
                        const int64_t *first, const int64_t *number, int64_t n,
                        struct mint_err *err);
/* What is held of p, ascending; all but absent blocks. The buffers stay the tree's. Returns how
 * many there are. */
struct mint_gradnode {
    int64_t number;
    int level;
    float *sum;
};
#define MINT_GRADTREE_NODES 96
size_t mint_gradtree_nodes(const struct mint_gradtree *t, size_t p,
                           struct mint_gradnode nodes[MINT_GRADTREE_NODES]);
/* The same, and the buffers are the caller's until they are pushed: p starts anew, at leaf 0. */
size_t mint_gradtree_take(struct mint_gradtree *t, size_t p,
                          struct mint_gradnode nodes[MINT_GRADTREE_NODES]);
/* Ends the sum of p and starts a new one. *sum is valid until the next call for p; NULL if all
 * leaves were absent. */
int mint_gradtree_sum(struct mint_gradtree *t, size_t p, float **sum, struct mint_err *err);
/* The same for all parameters: sum[p]. */
int mint_gradtree_sum_all(struct mint_gradtree *t, float **sum, struct mint_err *err);
/* Forgets all leaves of p, or of all parameters; the next one has number 0. */
void mint_gradtree_forget(struct mint_gradtree *t, size_t p);
void mint_gradtree_reset(struct mint_gradtree *t);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
#include "gradtree.h"

#include <stdlib.h>
#include <string.h>

#include "mem.h"

#define LEVELS 48

struct counter {
    int64_t size;
    uint64_t first;           /* leaves before it are another tree's */
    uint64_t count;           /* leaves so far, with those of another tree */
    float *level[LEVELS];     /* sum of an aligned block of 2^j leaves, or NULL: absent */
    float *edge[LEVELS];      /* the same for blocks whose left neighbour is another tree's */
    float *spare[2 * LEVELS]; /* buffers not in use */
    int nspare;
};

struct mint_gradtree {
    struct mint_dev *dev;
    size_t nparams;
    struct counter *c;
};

struct mint_gradtree *mint_gradtree_new(struct mint_dev *dev, const int64_t *sizes, size_t nparams)
{
    struct mint_gradtree *t = mint_xcalloc(1, sizeof *t);
    t->dev = dev;
    t->nparams = nparams;
    t->c = mint_xcalloc(nparams, sizeof *t->c);
    for (size_t p = 0; p < nparams; p++)
        t->c[p].size = sizes[p];
    return t;
}

static void give_back(struct counter *c, float *buf)
{
    if (buf)
        c->spare[c->nspare++] = buf;
}

static void start(struct counter *c, uint64_t first)
{
    memset(c->level, 0, sizeof c->level);
    memset(c->edge, 0, sizeof c->edge);
    c->first = c->count = first;
}

void mint_gradtree_forget(struct mint_gradtree *t, size_t p)
{
    struct counter *c = &t->c[p];
    for (int j = 0; j < LEVELS; j++) {
        give_back(c, c->level[j]);
        give_back(c, c->edge[j]);
    }
    start(c, 0);
}

void mint_gradtree_reset(struct mint_gradtree *t)
{
    for (size_t p = 0; p < t->nparams; p++)
        mint_gradtree_forget(t, p);
}

void mint_gradtree_begin(struct mint_gradtree *t, int64_t first)
{
    mint_gradtree_reset(t);
    for (size_t p = 0; p < t->nparams; p++)
        start(&t->c[p], (uint64_t)first);
}

void mint_gradtree_free(struct mint_gradtree *t)
{
    if (!t)
        return;
    mint_gradtree_reset(t);
    for (size_t p = 0; p < t->nparams; p++)
        for (int j = 0; j < t->c[p].nspare; j++)
            t->dev->ops->free(t->dev, t->c[p].spare[j]);
    free(t->c);
    free(t);
}

float *mint_gradtree_leaf(struct mint_gradtree *t, size_t p, struct mint_err *err)
{
    struct counter *c = &t->c[p];
    if (c->nspare)
        return c->spare[--c->nspare];
    return t->dev->ops->alloc(t->dev, (size_t)c->size * sizeof(float), err);
}

/* left + right into *left; either may be absent. The other buffer goes back. */
static int join(struct mint_gradtree *t, struct counter *c, float **left, float *right,
                struct mint_err *err)
{
    if (!*left) {
        *left = right;
        return 0;
    }
    if (!right)
        return 0;
    int rc = t->dev->ops->add(t->dev, *left, right, c->size, err);
    give_back(c, right);
    return rc;
}

/* The block of 2^level leaves at count; node NULL: absent. */
static int push(struct mint_gradtree *t, struct counter *c, int level, float *node,
                struct mint_err *err)
{
    float *carry = node;
    int j = level;
    for (; c->count >> j & 1; j++) {
        uint64_t neighbour = ((c->count >> j) - 1) << j;
        float *left = c->level[j];
        if (neighbour < c->first) {
            c->edge[j] = carry;
            c->count += UINT64_C(1) << level;
            return 0;
        }
        c->level[j] = NULL;
        if (join(t, c, &left, carry, err) < 0)
            return -1;
        carry = left;
    }
    c->level[j] = carry;
    c->count += UINT64_C(1) << level;
    return 0;
}

/* The largest aligned block at count that ends by end. */
static int block_before(uint64_t count, uint64_t end)
{
    int level = 0;
    while (!(count >> level & 1) && count + (UINT64_C(2) << level) <= end)
        level++;
    return level;
}

int mint_gradtree_push(struct mint_gradtree *t, size_t p, int64_t number, float *leaf,
                       struct mint_err *err)
{
    return mint_gradtree_push_node(t, p, number, 0, leaf, err);
}

int mint_gradtree_push_node(struct mint_gradtree *t, size_t p, int64_t number, int level,
                            float *node, struct mint_err *err)
{
    struct counter *c = &t->c[p];
    uint64_t at = (uint64_t)number;
    if (at < c->count || at >> level << level != at)
        MINT_BUG("node %lld of level %d comes after %lld leaves", (long long)number, level,
                 (long long)c->count);
    while (c->count < at)
        MINT_TRY(push(t, c, block_before(c->count, at), NULL, err));
    return push(t, c, level, node, err);
}

size_t mint_gradtree_nodes(const struct mint_gradtree *t, size_t p,
                           struct mint_gradnode nodes[MINT_GRADTREE_NODES])
{
    const struct counter *c = &t->c[p];
    size_t n = 0;
    for (int j = 0; j < LEVELS; j++) {
        uint64_t at = (c->first + (UINT64_C(1) << j) - 1) >> j << j;
        if (c->edge[j])
            nodes[n++] = (struct mint_gradnode){(int64_t)at, j, c->edge[j]};
    }
    for (int j = LEVELS - 1; j >= 0; j--) {
        uint64_t at = c->count >> (j + 1) << (j + 1);
        if (c->level[j])
            nodes[n++] = (struct mint_gradnode){(int64_t)at, j, c->level[j]};
    }
    return n;
}

size_t mint_gradtree_take(struct mint_gradtree *t, size_t p,
                          struct mint_gradnode nodes[MINT_GRADTREE_NODES])
{
    size_t n = mint_gradtree_nodes(t, p, nodes);
    start(&t->c[p], 0);
    return n;
}

int mint_gradtree_sum(struct mint_gradtree *t, size_t p, float **sum, struct mint_err *err)
{
    struct counter *c = &t->c[p];
    float *acc = NULL;
    if (c->first)
        MINT_BUG("a tree that begins at leaf %lld has no sum", (long long)c->first);
    for (int j = 0; j < LEVELS; j++) {
        float *left = c->level[j];
        c->level[j] = NULL;
        if (left) {
            if (join(t, c, &left, acc, err) < 0)
                return -1;
            acc = left;
        }
    }
    c->count = 0;
    *sum = acc;
    give_back(c, acc); /* stays readable until the next leaf of p is taken */
    return 0;
}

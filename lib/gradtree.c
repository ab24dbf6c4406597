/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gradtree.c: additions are noted, with the buffers that they use, and made together by op fold.
 * So many leaves of a parameter cost two launches of a device: one computes them, one adds.
 */
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
    /* additions that are noted; add[i] is one of parameter of[i], whose come one after another */
    struct mint_addition *add;
    size_t *of;
    size_t nadd, add_cap;
    /* leaves that are computed together, and serve for nothing but additions afterwards */
    float *room;
    size_t room_floats;
    float **leaf; /* where those at work are: in the room, or in their parameter's buffers */
    int64_t leaf_cap;
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

static bool in_room(const struct mint_gradtree *t, const float *buf)
{
    uintptr_t at = (uintptr_t)buf, from = (uintptr_t)t->room;
    return at >= from && at < from + t->room_floats * sizeof *buf;
}

static void give_back(const struct mint_gradtree *t, struct counter *c, float *buf)
{
    if (buf && !in_room(t, buf))
        c->spare[c->nspare++] = buf;
}

/* What was added is not needed any more. */
static void end_notes(struct mint_gradtree *t)
{
    for (size_t i = 0; i < t->nadd; i++)
        give_back(t, &t->c[t->of[i]], (float *)(uintptr_t)t->add[i].y);
    t->nadd = 0;
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
        give_back(t, c, c->level[j]);
        give_back(t, c, c->edge[j]);
    }
    start(c, 0);
}

void mint_gradtree_reset(struct mint_gradtree *t)
{
    end_notes(t);
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
    t->dev->ops->free(t->dev, t->room);
    free(t->leaf);
    free(t->add);
    free(t->of);
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

/* Notes left += right; either may be absent. Returns the sum. */
static float *join(struct mint_gradtree *t, size_t p, float *left, float *right)
{
    if (!left || !right)
        return left ? left : right;
    if (t->nadd == t->add_cap) {
        t->add_cap = t->add_cap ? 2 * t->add_cap : 64;
        t->add = mint_xreallocarray(t->add, t->add_cap, sizeof *t->add);
        t->of = mint_xreallocarray(t->of, t->add_cap, sizeof *t->of);
    }
    t->add[t->nadd] = (struct mint_addition){left, right};
    t->of[t->nadd++] = p;
    return left;
}

/* Makes what is noted. */
static int fold(struct mint_gradtree *t, struct mint_err *err)
{
    struct mint_fold *f = mint_xcalloc(t->nadd + 1, sizeof *f);
    int64_t n = 0;
    for (size_t i = 0; i < t->nadd; i++) {
        if (i == 0 || t->of[i] != t->of[i - 1])
            f[n++] = (struct mint_fold){t->c[t->of[i]].size, &t->add[i], 0};
        f[n - 1].count++;
    }
    int rc = n ? t->dev->ops->fold(t->dev, f, n, err) : 0;
    free(f);
    end_notes(t);
    return rc;
}

/* The block of 2^level leaves at count; node NULL: absent. */
static void push(struct mint_gradtree *t, size_t p, int level, float *node)
{
    struct counter *c = &t->c[p];
    float *carry = node;
    int j = level;
    for (; c->count >> j & 1; j++) {
        uint64_t neighbour = ((c->count >> j) - 1) << j;
        float *left = c->level[j];
        if (neighbour < c->first) {
            c->edge[j] = carry;
            c->count += UINT64_C(1) << level;
            return;
        }
        c->level[j] = NULL;
        carry = join(t, p, left, carry);
    }
    c->level[j] = carry;
    c->count += UINT64_C(1) << level;
}

/* The largest aligned block at count that ends by end. */
static int block_before(uint64_t count, uint64_t end)
{
    int level = 0;
    while (!(count >> level & 1) && count + (UINT64_C(2) << level) <= end)
        level++;
    return level;
}

static void push_node(struct mint_gradtree *t, size_t p, int64_t number, int level, float *node)
{
    struct counter *c = &t->c[p];
    uint64_t at = (uint64_t)number;
    if (at < c->count || at >> level << level != at)
        MINT_BUG("node %lld of level %d comes after %lld leaves", (long long)number, level,
                 (long long)c->count);
    while (c->count < at)
        push(t, p, block_before(c->count, at), NULL);
    push(t, p, level, node);
}

int mint_gradtree_push(struct mint_gradtree *t, size_t p, int64_t number, float *leaf,
                       struct mint_err *err)
{
    return mint_gradtree_push_node(t, p, number, 0, leaf, err);
}

int mint_gradtree_push_node(struct mint_gradtree *t, size_t p, int64_t number, int level,
                            float *node, struct mint_err *err)
{
    push_node(t, p, number, level, node);
    return fold(t, err);
}

/* ---- leaves that are computed together. */

/* Floats from a leaf in the room to the next, so that each begins a line of memory. */
static size_t stride(const struct counter *c)
{
    return ((size_t)c->size + 63) / 64 * 64;
}

static int make_room(struct mint_gradtree *t, size_t floats, int64_t n, struct mint_err *err)
{
    if (n > t->leaf_cap) {
        t->leaf = mint_xreallocarray(t->leaf, (size_t)n, sizeof *t->leaf);
        t->leaf_cap = n;
    }
    if (floats <= t->room_floats)
        return 0;
    t->dev->ops->free(t->dev, t->room);
    t->room = t->dev->ops->alloc(t->dev, floats * sizeof *t->room, err);
    t->room_floats = t->room ? floats : 0;
    return t->room ? 0 : -1;
}

/* A node that would stay in the room gets a buffer of its parameter's, in which its first leaf is
 * computed and to which the others are added. */
static int settle(struct mint_gradtree *t, size_t p, float **node, struct mint_err *err)
{
    float *from = *node;
    if (!from || !in_room(t, from))
        return 0;
    float *own = *node = mint_gradtree_leaf(t, p, err);
    if (!own)
        return -1;
    t->leaf[(size_t)(from - t->room) / stride(&t->c[p])] = own;
    for (size_t i = 0; i < t->nadd; i++)
        if (t->add[i].x == from)
            t->add[i].x = own;
    return 0;
}

/* Leaves number[0..n) of p take their place in the tree before they are computed, into t->leaf. */
static int place(struct mint_gradtree *t, size_t p, const int64_t *number, int64_t n,
                 struct mint_err *err)
{
    struct counter *c = &t->c[p];
    MINT_TRY(make_room(t, (size_t)n * stride(c), n, err));
    for (int64_t i = 0; i < n; i++) {
        t->leaf[i] = t->room + (size_t)i * stride(c);
        push_node(t, p, number[i], 0, t->leaf[i]);
    }
    for (int j = 0; j < LEVELS; j++) {
        MINT_TRY(settle(t, p, &c->level[j], err));
        MINT_TRY(settle(t, p, &c->edge[j], err));
    }
    return 0;
}

int mint_gradtree_outer(struct mint_gradtree *t, size_t p, const struct mint_outer *o,
                        const int64_t *first, const int64_t *number, int64_t n,
                        struct mint_err *err)
{
    size_t bytes = stride(&t->c[p]) * sizeof(float);
    int64_t most = MINT_MAX(1, (int64_t)(t->dev->leaf_room / bytes));
    for (int64_t i = 0, k; i < n; i += k) {
        k = MINT_MIN(most, n - i);
        MINT_TRY(place(t, p, number + i, k, err));
        MINT_TRY(t->dev->ops->outer(t->dev, t->leaf, o, first + i, k, err));
        MINT_TRY(fold(t, err));
    }
    return 0;
}

/* ---- results. */

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

/* Notes what is left to add of p, and ends its sum. */
static float *end_sum(struct mint_gradtree *t, size_t p)
{
    struct counter *c = &t->c[p];
    float *acc = NULL;
    if (c->first)
        MINT_BUG("a tree that begins at leaf %lld has no sum", (long long)c->first);
    for (int j = 0; j < LEVELS; j++) {
        float *left = c->level[j];
        c->level[j] = NULL;
        acc = join(t, p, left, acc);
    }
    c->count = 0;
    return acc;
}

/* The sum stays readable until the next leaf of p is taken. */
int mint_gradtree_sum(struct mint_gradtree *t, size_t p, float **sum, struct mint_err *err)
{
    *sum = end_sum(t, p);
    int rc = fold(t, err);
    give_back(t, &t->c[p], *sum);
    return rc;
}

int mint_gradtree_sum_all(struct mint_gradtree *t, float **sum, struct mint_err *err)
{
    for (size_t p = 0; p < t->nparams; p++)
        sum[p] = end_sum(t, p);
    int rc = fold(t, err);
    for (size_t p = 0; p < t->nparams; p++)
        give_back(t, &t->c[p], sum[p]);
    return rc;
}

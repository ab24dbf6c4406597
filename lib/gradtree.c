/* SPDX-License-Identifier: Apache-2.0 */
#include "gradtree.h"

#include <stdlib.h>
#include <string.h>

#include "mem.h"

#define LEVELS 48

struct counter {
    int64_t size;
    uint64_t count;       /* leaves so far */
    float *level[LEVELS]; /* sum of an aligned block of 2^j leaves, or NULL: absent */
    float *spare[LEVELS]; /* buffers not in use */
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

void mint_gradtree_reset(struct mint_gradtree *t)
{
    for (size_t p = 0; p < t->nparams; p++) {
        struct counter *c = &t->c[p];
        for (int j = 0; j < LEVELS; j++) {
            give_back(c, c->level[j]);
            c->level[j] = NULL;
        }
        c->count = 0;
    }
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

/* leaf NULL: absent. */
static int push(struct mint_gradtree *t, struct counter *c, float *leaf, struct mint_err *err)
{
    float *carry = leaf;
    int j = 0;
    for (; c->count >> j & 1; j++) {
        float *left = c->level[j];
        c->level[j] = NULL;
        if (join(t, c, &left, carry, err) < 0)
            return -1;
        carry = left;
    }
    c->level[j] = carry;
    c->count++;
    return 0;
}

int mint_gradtree_push(struct mint_gradtree *t, size_t p, int64_t number, float *leaf,
                       struct mint_err *err)
{
    struct counter *c = &t->c[p];
    if (number < (int64_t)c->count)
        MINT_BUG("leaf %lld comes after leaf %lld", (long long)number, (long long)c->count - 1);
    while ((int64_t)c->count < number)
        MINT_TRY(push(t, c, NULL, err));
    return push(t, c, leaf, err);
}

int mint_gradtree_sum(struct mint_gradtree *t, size_t p, float **sum, struct mint_err *err)
{
    struct counter *c = &t->c[p];
    float *acc = NULL;
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

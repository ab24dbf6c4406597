/* SPDX-License-Identifier: Apache-2.0 */
/*
 * trainer_join.c: the gradient trees of all processes of a job become one (gradtree.h), so that
 * each makes the update that one process alone would.
 *
 * Each parameter has an owner, who gets its nodes from all others, adds them in the order of the
 * families, and sends the sum to all. Owners take turns, so that no process receives, adds and
 * sends more than its part. Transfers are in the order of parameter, sender and node on all
 * processes, which keeps them from waiting for each other in a circle, and go in groups, for which
 * an inbox of INBOX bytes on the owner is enough, or one of the largest parameter.
 */
#include <stdlib.h>
#include <string.h>

#include "mem.h"
#include "trainer_impl.h"

enum { INBOX = 64 << 20, GROUP = 512 /* transfers */ };

/* What a tree holds of each parameter: the same families, so the same nodes. */
struct shape {
    int64_t n;
    struct {
        int64_t number, level;
    } node[MINT_GRADTREE_NODES];
};

struct joining {
    struct mint_trainer *t;
    struct shape *shape; /* of each process */
    int *owner;          /* of each parameter */
    size_t p;            /* the parameter that this process, its owner, adds up */
    struct mint_gradnode own[MINT_GRADTREE_NODES]; /* its own nodes of it */
};

/* Node i of parameter p, from a process to the owner, in whose inbox it stands at `at`. */
struct transfer {
    size_t p, at;
    int from, i;
};

static size_t bytes_of(const struct mint_trainer *t, size_t p)
{
    const struct mint_param *param = &t->adapter->param[p];
    return (size_t)(param->rows * param->cols) * sizeof(float);
}

/* Each parameter to whom has the fewest bytes so far. */
static int *choose_owners(const struct mint_trainer *t)
{
    int *owner = mint_xcalloc(t->adapter->nparams, sizeof *owner);
    size_t *load = mint_xcalloc((size_t)t->ranks->size, sizeof *load);
    for (size_t p = 0; p < t->adapter->nparams; p++) {
        for (int r = 1; r < t->ranks->size; r++)
            if (load[r] < load[owner[p]])
                owner[p] = r;
        load[owner[p]] += bytes_of(t, p);
    }
    free(load);
    return owner;
}

static int tell_shapes(struct joining *j, struct mint_err *err)
{
    const struct mint_ranks *r = j->t->ranks;
    struct mint_gradnode nodes[MINT_GRADTREE_NODES];
    struct shape *own = &j->shape[r->rank];
    own->n = (int64_t)mint_gradtree_nodes(j->t->tree, 0, nodes);
    for (int64_t i = 0; i < own->n; i++) {
        own->node[i].number = nodes[i].number;
        own->node[i].level = nodes[i].level;
    }
    for (int i = 0; i < r->size; i++)
        MINT_TRY(mint_ranks_bcast(r, i, &j->shape[i], sizeof j->shape[i], err));
    return 0;
}

/* All transfers, with those from an owner to itself. */
static struct transfer *list_transfers(const struct joining *j, size_t *n)
{
    size_t each = 0, params = j->t->adapter->nparams;
    for (int r = 0; r < j->t->ranks->size; r++)
        each += (size_t)j->shape[r].n;
    struct transfer *x = mint_xcalloc(params * each, sizeof *x), *at = x;
    for (size_t p = 0; p < params; p++)
        for (int r = 0; r < j->t->ranks->size; r++)
            for (int i = 0; i < j->shape[r].n; i++)
                *at++ = (struct transfer){.p = p, .from = r, .i = i};
    *n = params * each;
    return x;
}

/* How many of x[0..n) make a group; each gets its place in its owner's inbox, of which held[r]
 * bytes are then taken. */
static size_t cut_group(const struct joining *j, struct transfer *x, size_t n, size_t *held)
{
    size_t k = 0;
    memset(held, 0, (size_t)j->t->ranks->size * sizeof *held);
    for (; k < n && k < GROUP; k++) {
        int owner = j->owner[x[k].p];
        size_t bytes = (bytes_of(j->t, x[k].p) + 255) / 256 * 256;
        if (x[k].from == owner)
            continue;
        if (held[owner] && held[owner] + bytes > INBOX)
            break;
        x[k].at = held[owner];
        held[owner] += bytes;
    }
    return k;
}

/* This process's part in a transfer. */
static int carry(struct joining *j, const struct transfer *x, struct mint_err *err)
{
    struct mint_trainer *t = j->t;
    struct mint_gradnode nodes[MINT_GRADTREE_NODES];
    int me = t->ranks->rank, owner = j->owner[x->p];
    if (x->from == owner)
        return 0;
    if (me == owner)
        return mint_exchange_recv(t->exchange, x->from, t->inbox + x->at, bytes_of(t, x->p), err);
    if (me != x->from)
        return 0;
    if (mint_gradtree_nodes(t->tree, x->p, nodes) != (size_t)j->shape[me].n)
        MINT_BUG("parameter %zu has leaves of other families than the first", x->p);
    return mint_exchange_send(t->exchange, owner, nodes[x->i].sum, bytes_of(t, x->p), err);
}

/* The node into the owner's tree. */
static int add_node(struct joining *j, const struct transfer *x, struct mint_err *err)
{
    struct mint_trainer *t = j->t;
    const struct shape *s = &j->shape[x->from];
    int me = t->ranks->rank;
    if (me != j->owner[x->p])
        return 0;
    if (j->p != x->p) {
        if (mint_gradtree_take(t->tree, x->p, j->own) != (size_t)j->shape[me].n)
            MINT_BUG("parameter %zu has leaves of other families than the first", x->p);
        j->p = x->p;
    }
    float *sum = x->from == me ? j->own[x->i].sum : mint_gradtree_leaf(t->tree, x->p, err);
    if (!sum)
        return -1;
    if (x->from != me)
        MINT_TRY(t->ops->copy(t->dev, sum, t->inbox + x->at, bytes_of(t, x->p), err));
    return mint_gradtree_push_node(t->tree, x->p, s->node[x->i].number, (int)s->node[x->i].level,
                                   sum, err);
}

static int gather_group(struct joining *j, const struct transfer *x, size_t n, struct mint_err *err)
{
    MINT_TRY(mint_exchange_begin(j->t->exchange, err));
    for (size_t k = 0; k < n; k++)
        MINT_TRY(carry(j, &x[k], err));
    MINT_TRY(mint_exchange_end(j->t->exchange, err));
    for (size_t k = 0; k < n; k++)
        MINT_TRY(add_node(j, &x[k], err));
    return 0;
}

static int reserve_inbox(struct mint_trainer *t, size_t bytes, struct mint_err *err)
{
    if (bytes <= t->inbox_bytes)
        return 0;
    t->ops->free(t->dev, t->inbox);
    t->inbox = t->ops->alloc(t->dev, bytes, err);
    t->inbox_bytes = t->inbox ? bytes : 0;
    return t->inbox ? 0 : -1;
}

static int gather_nodes(struct joining *j, struct mint_err *err)
{
    size_t n;
    int rc = 0;
    struct transfer *x = list_transfers(j, &n);
    size_t *held = mint_xcalloc((size_t)j->t->ranks->size, sizeof *held);
    for (size_t at = 0, k; at < n && rc == 0; at += k) {
        k = cut_group(j, x + at, n - at, held);
        rc = reserve_inbox(j->t, held[j->t->ranks->rank], err);
        if (rc == 0)
            rc = gather_group(j, x + at, k, err);
    }
    free(held);
    free(x);
    return rc;
}

/* One leaf of p on all: on the owner the sum of the nodes, on the others room for it. */
static int leave_one(struct joining *j, size_t p, struct mint_err *err)
{
    struct mint_trainer *t = j->t;
    float *sum = NULL;
    if (t->ranks->rank == j->owner[p])
        MINT_TRY(mint_gradtree_sum(t->tree, p, &sum, err));
    else
        mint_gradtree_forget(t->tree, p);
    float *leaf = mint_gradtree_leaf(t->tree, p, err);
    if (!leaf)
        return -1;
    if (sum && sum != leaf)
        MINT_TRY(t->ops->copy(t->dev, leaf, sum, bytes_of(t, p), err));
    return mint_gradtree_push(t->tree, p, 0, leaf, err);
}

static int spread_sums(struct joining *j, struct mint_err *err)
{
    struct mint_trainer *t = j->t;
    struct mint_gradnode leaf[MINT_GRADTREE_NODES];
    size_t n = t->adapter->nparams;
    for (size_t p = 0; p < n; p++)
        MINT_TRY(leave_one(j, p, err));
    for (size_t p = 0; p < n; p++) {
        if (p % GROUP == 0)
            MINT_TRY(mint_exchange_begin(t->exchange, err));
        mint_gradtree_nodes(t->tree, p, leaf);
        MINT_TRY(mint_exchange_bcast(t->exchange, j->owner[p], leaf->sum, bytes_of(t, p), err));
        if (p % GROUP == GROUP - 1 || p == n - 1)
            MINT_TRY(mint_exchange_end(t->exchange, err));
    }
    return 0;
}

int mint_trainer_join(struct mint_trainer *t, struct mint_err *err)
{
    struct joining j = {.t = t, .p = SIZE_MAX, .owner = choose_owners(t)};
    int64_t nodes = 0;
    j.shape = mint_xcalloc((size_t)t->ranks->size, sizeof *j.shape);
    int rc = tell_shapes(&j, err);
    for (int r = 0; r < t->ranks->size; r++)
        nodes += j.shape[r].n;
    if (rc == 0 && nodes) {
        rc = gather_nodes(&j, err);
        if (rc == 0)
            rc = spread_sums(&j, err);
        if (rc == 0)
            rc = mint_exchange_wait(t->exchange, err);
    } else {
        mint_gradtree_reset(t->tree);
    }
    free(j.shape);
    free(j.owner);
    return rc;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * trainer_ranks.c: a step shared by the processes of a job. Each has all datums and computes the
 * gradients of a stretch of families; their sums join in the tree of one process (gradtree.h), and
 * what a step saw is added datum by datum. So every process makes the update that one alone would.
 */
#include <stdlib.h>

#include "mem.h"
#include "trainer_impl.h"

/* Datums that cannot be parted: a family, or several where a pair would be cut. */
struct chunk {
    size_t from;    /* the first datum */
    int64_t number; /* of its family */
    int64_t before; /* rows of the chunks before it */
};

static int64_t rows_of(const struct mint_datum_list *v, size_t from, size_t to, int64_t shared)
{
    int64_t rows = 0;
    for (size_t k = from; k < to; k++)
        rows += v->idle[k] ? 0 : (int64_t)v->d[k]->n - shared;
    return rows ? rows + shared : 0;
}

/* All chunks, and one behind the last. */
static struct chunk *cut(const struct mint_trainer *t, const struct mint_datum_list *v, size_t *n)
{
    struct chunk *c = mint_xcalloc(v->n + 1, sizeof *c);
    struct chunk next = {0, 0, 0};
    *n = 0;
    while (next.from < v->n) {
        int64_t shared;
        size_t first = mint_family(v->d + next.from, v->n - next.from, &shared);
        size_t to = next.from + mint_trainer_whole(t, v->d + next.from, first, v->n - next.from);
        c[(*n)++] = next;
        for (size_t at = next.from; at < to; next.number++) {
            size_t k = mint_family(v->d + at, v->n - at, &shared);
            next.before += rows_of(v, at, at + k, shared);
            at += k;
        }
        next.from = to;
    }
    c[*n] = next;
    return c;
}

/* The chunk with which rank begins. Blocks of 2^j chunks stay together, so that few nodes of the
 * tree have to be sent. */
static size_t begins(const struct chunk *c, size_t n, int rank, int size)
{
    size_t block = 1, at = 0;
    while (block * 8 * (size_t)size <= n)
        block *= 2;
    if (rank == size)
        return n;
    while (at < n && c[at].before * size < c[n].before * rank)
        at += block;
    return MINT_MIN(at, n);
}

void mint_trainer_shares(const struct mint_trainer *t, const struct mint_datum_list *v,
                         struct mint_share *share)
{
    size_t n;
    struct chunk *c = cut(t, v, &n);
    for (int r = 0; r < t->ranks->size; r++) {
        const struct chunk *first = &c[begins(c, n, r, t->ranks->size)];
        share[r] = (struct mint_share){
            .from = first->from,
            .to = c[begins(c, n, r + 1, t->ranks->size)].from,
            .number = first->number,
        };
    }
    free(c);
}

int mint_trainer_gather(const struct mint_trainer *t, const struct mint_share *share,
                        struct mint_datum_sums *each, struct mint_err *err)
{
    for (int r = 0; r < t->ranks->size; r++)
        MINT_TRY(mint_ranks_bcast(t->ranks, r, each + share[r].from,
                                  (share[r].to - share[r].from) * sizeof *each, err));
    return 0;
}

static size_t bytes_of(const struct mint_trainer *t, size_t p)
{
    const struct mint_param *param = &t->adapter->param[p];
    return (size_t)(param->rows * param->cols) * sizeof(float);
}

static int send_nodes(struct mint_trainer *t, size_t p, float *host, struct mint_err *err)
{
    struct mint_gradnode nodes[MINT_GRADTREE_NODES];
    int64_t n = (int64_t)mint_gradtree_nodes(t->tree, p, nodes);
    MINT_TRY(mint_ranks_send(t->ranks, 0, &n, sizeof n, err));
    for (int64_t i = 0; i < n; i++) {
        int64_t head[2] = {nodes[i].number, nodes[i].level};
        MINT_TRY(t->ops->download(t->dev, host, nodes[i].sum, bytes_of(t, p), err));
        MINT_TRY(mint_ranks_send(t->ranks, 0, head, sizeof head, err));
        MINT_TRY(mint_ranks_send(t->ranks, 0, host, bytes_of(t, p), err));
    }
    return 0;
}

static int receive_nodes(struct mint_trainer *t, int from, size_t p, float *host,
                         struct mint_err *err)
{
    int64_t n, head[2];
    MINT_TRY(mint_ranks_recv(t->ranks, from, &n, sizeof n, err));
    for (int64_t i = 0; i < n; i++) {
        MINT_TRY(mint_ranks_recv(t->ranks, from, head, sizeof head, err));
        MINT_TRY(mint_ranks_recv(t->ranks, from, host, bytes_of(t, p), err));
        float *node = mint_gradtree_leaf(t->tree, p, err);
        if (!node)
            return -1;
        MINT_TRY(t->ops->upload(t->dev, node, host, bytes_of(t, p), err));
        MINT_TRY(mint_gradtree_push_node(t->tree, p, head[0], (int)head[1], node, err));
    }
    return 0;
}

/* The sum of p on rank 0 becomes the one leaf of p on all. */
static int spread(struct mint_trainer *t, size_t p, float *host, struct mint_err *err)
{
    float *sum = NULL;
    bool there = false;
    if (t->ranks->rank == 0) {
        MINT_TRY(mint_gradtree_sum(t->tree, p, &sum, err));
        there = sum != NULL;
        if (there)
            MINT_TRY(t->ops->download(t->dev, host, sum, bytes_of(t, p), err));
    }
    MINT_TRY(mint_ranks_bcast(t->ranks, 0, &there, sizeof there, err));
    if (!there)
        return 0;
    MINT_TRY(mint_ranks_bcast(t->ranks, 0, host, bytes_of(t, p), err));
    float *leaf = mint_gradtree_leaf(t->tree, p, err);
    if (!leaf)
        return -1;
    MINT_TRY(t->ops->upload(t->dev, leaf, host, bytes_of(t, p), err));
    return mint_gradtree_push(t->tree, p, 0, leaf, err);
}

int mint_trainer_join(struct mint_trainer *t, struct mint_err *err)
{
    size_t most = 0, n = t->adapter->nparams;
    int rc = 0;
    for (size_t p = 0; p < n; p++)
        most = MINT_MAX(most, bytes_of(t, p));
    float *host = mint_xmalloc(most);
    for (size_t p = 0; p < n && rc == 0; p++) {
        if (t->ranks->rank > 0)
            rc = send_nodes(t, p, host, err);
        for (int r = 1; t->ranks->rank == 0 && r < t->ranks->size && rc == 0; r++)
            rc = receive_nodes(t, r, p, host, err);
    }
    if (t->ranks->rank > 0)
        mint_gradtree_reset(t->tree);
    for (size_t p = 0; p < n && rc == 0; p++)
        rc = spread(t, p, host, err);
    free(host);
    return rc;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * trainer_ranks.c: a step shared by the processes of a job. Each has all datums and goes through a
 * stretch of families; what it saw of a datum, or computed of its rows, goes to all. How gradients
 * join is in trainer_join.c.
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

static int64_t rows_of(const struct mint_datum *const *d, const bool *idle, size_t from, size_t to,
                       int64_t shared)
{
    int64_t rows = 0;
    for (size_t k = from; k < to; k++)
        rows += idle && idle[k] ? 0 : (int64_t)d[k]->n - shared;
    return rows ? rows + shared : 0;
}

/* All chunks, and one behind the last. */
static struct chunk *cut(const struct mint_trainer *t, const struct mint_datum *const *d,
                         const bool *idle, size_t n, size_t *chunks)
{
    struct chunk *c = mint_xcalloc(n + 1, sizeof *c);
    struct chunk next = {0, 0, 0};
    *chunks = 0;
    while (next.from < n) {
        int64_t shared;
        size_t first = mint_family(d + next.from, n - next.from, &shared);
        size_t to = next.from + mint_trainer_whole(t, d + next.from, first, n - next.from);
        c[(*chunks)++] = next;
        for (size_t at = next.from; at < to; next.number++) {
            size_t k = mint_family(d + at, n - at, &shared);
            next.before += rows_of(d, idle, at, at + k, shared);
            at += k;
        }
        next.from = to;
    }
    c[*chunks] = next;
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

void mint_trainer_shares(const struct mint_trainer *t, const struct mint_datum *const *d,
                         const bool *idle, size_t count, struct mint_share *share)
{
    size_t n;
    struct chunk *c = cut(t, d, idle, count, &n);
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

int mint_trainer_gather_rows(const struct mint_trainer *t, const struct mint_datum *const *d,
                             const struct mint_share *share, float *rows, struct mint_err *err)
{
    for (int r = 0; r < t->ranks->size; r++) {
        size_t n = 0;
        for (size_t k = share[r].from; k < share[r].to; k++)
            n += d[k]->n;
        MINT_TRY(mint_ranks_bcast(t->ranks, r, rows, n * sizeof *rows, err));
        rows += n;
    }
    return 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * trainer_batch.h: private to the trainer: a micro-batch of datums, packed without padding. Every
 * array is host memory.
 */
#ifndef MINT_TRAINER_BATCH_H
#define MINT_TRAINER_BATCH_H

#include "forward.h"
#include "record.h"

/*
 * Datums that follow each other and begin with the same tokens, a family, share the rows of that
 * beginning: forward and backward go through them once. What is shared is a multiple of
 * MINT_KV_PAGE positions (whole pages of keys), none of which has a weight in any member. A family
 * depends on the datums alone, never on micro-batches: its gradient is one leaf of the sum
 * (gradtree.h). FAMILY_ROWS bounds its rows.
 *
 * An idle datum (trainer.h) stays a member of its family, but its rows are left out: they would add
 * zeros. Sums over rows go by pairs; that the others keep their partners, an odd number of rows
 * leaves one behind and an even number two, and so do wanted rows. A family of idle members has no
 * rows and no leaf, only its number.
 */
#define MINT_FAMILY_ROWS 8192

/* Members of the family that begins at d[0], at least 1; *shared positions, 0 for a family of one.
 * n > 0. */
size_t mint_family(const struct mint_datum *const *d, size_t n, int64_t *shared);

struct mint_pack {
    const struct mint_datum *const *d; /* the datums */
    const bool *idle;                  /* which are idle; NULL: none */
    size_t n;
    int64_t T, pages_n;
    int32_t *ids, *pos, *page_of_row, *page_list;
    struct mint_seq *seqs; /* a family's shared beginning, then its members' rests */
    int64_t nseqs;
    int64_t *first_row, *first_pos; /* of each datum's own rows */
    /* rows whose logprob is wanted, ascending: their number, row, target, and each datum's first
     * one */
    int64_t hn;
    int32_t *hrow, *target;
    int64_t *hfirst; /* n + 1 */
    /* leaves of the gradient: their rows and wanted rows, nleaves + 1 bounds each; and numbers */
    int64_t nleaves;
    int64_t *leaf_row, *leaf_hrow, *leaf_number;
    int64_t families; /* with those that have no leaf */
};

/* Packs d[0..n), which must be whole families; the first is number first of the tree. all: every
 * position with a target below vocab is wanted and nothing is shared, else those with weight != 0.
 * idle: n flags, or NULL. */
void mint_pack_build(struct mint_pack *p, const struct mint_datum *const *d, const bool *idle,
                     size_t n, bool all, int32_t vocab, int64_t first);
void mint_pack_release(struct mint_pack *p);
/* How many of d[0..n) fit one micro-batch of about limit rows: whole families, at least one if n >
 * 0. all: as for mint_pack_build. */
size_t mint_pack_fit(const struct mint_datum *const *d, const bool *idle, size_t n, int64_t limit,
                     bool all);
/* Weight of a position: 1 where the datum has no weights. */
static inline float mint_datum_weight(const struct mint_datum *d, size_t i)
{
    return d->weights ? d->weights[i] : 1.0f;
}

#endif

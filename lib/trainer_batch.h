/* SPDX-License-Identifier: Apache-2.0 */
/*
 * trainer_batch.h: private to the trainer: a micro-batch of datums, packed without padding. Every
 * array is host memory.
 */
#ifndef MINT_TRAINER_BATCH_H
#define MINT_TRAINER_BATCH_H

#include "forward.h"
#include "record.h"

struct mint_pack {
    const struct mint_datum *const *d; /* the datums, one sequence each */
    size_t n;
    int64_t T, pages_n;
    int32_t *ids, *pos, *page_of_row, *page_list;
    struct mint_seq *seqs;
    /* rows whose logprob is wanted, ascending: their number, row, target, and each datum's first
     * one */
    int64_t hn;
    int32_t *hrow, *target;
    int64_t *hfirst; /* n + 1 */
};

/* Packs d[0..n). all: every position with a target below vocab is wanted, else those with weight !=
 * 0. */
void mint_pack_build(struct mint_pack *p, const struct mint_datum *const *d, size_t n, bool all,
                     int32_t vocab);
void mint_pack_release(struct mint_pack *p);
/* How many of d[0..n) fit one micro-batch of about limit positions: at least 1 if n > 0. */
size_t mint_pack_fit(const struct mint_datum *const *d, size_t n, int64_t limit);
/* Weight of a position: 1 where the datum has no weights. */
static inline float mint_datum_weight(const struct mint_datum *d, size_t i)
{
    return d->weights ? d->weights[i] : 1.0f;
}
bool mint_datum_counts(const struct mint_datum *d); /* some weight is not 0 */

#endif

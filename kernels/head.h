/* SPDX-License-Identifier: Apache-2.0 */
/*
 * head.h: the softmax of a row of logits, gathered from its pieces. Op logprob and op sample use
 * the same pieces and the same fold, and so find the same bits.
 */
#ifndef MINT_HEAD_H
#define MINT_HEAD_H

#include "dev.h"

#include "kernels.h"

/* Of a piece, or of pieces together: the greatest logit m, sum of e^(x - m), sum of e^(x - m) (x -
 * m), the greatest logit that may be drawn. Where there are only -inf, sum and dev are 0; a NaN
 * among the logits, or +inf, makes sum NaN. */
struct Piece {
    float max, sum, dev, top;
};

/* a and b, in this order. */
DEVICE Piece merge(Piece a, Piece b)
{
    float max = fmaxf(a.max, b.max), top = fmaxf(a.top, b.top);
    if (a.max == -INFINITY)
        return {b.max, b.sum + a.sum, b.dev, top};
    if (b.max == -INFINITY)
        return {a.max, a.sum + b.sum, a.dev, top};
    float da = a.max - max, db = b.max - max, ea = exp_(da), eb = exp_(db);
    return {max, fmaf(a.sum, ea, b.sum * eb),
            fmaf(fmaf(da, a.sum, a.dev), ea, fmaf(db, b.sum, b.dev) * eb), top};
}

/* The n > 0 pieces of a row. */
DEVICE Piece fold(const float4 *chunks, int64_t n)
{
    Piece all = {-INFINITY, 0, 0, -INFINITY};
    for (int64_t i = 0; i < n; i++) {
        float4 c = chunks[i];
        all = merge(all, {c.x, c.y, c.z, c.w});
    }
    return all;
}

DEVICE float log_softmax(Piece all, float logit)
{
    return (logit - all.max) - log_(all.sum);
}

/* Pieces of rows of logits as mint_k_logprob_chunks makes them; target and lp may be NULL, draws
 * (of the rows) too: then every logit may be drawn. */
void mint_k_pieces(float *chunks, float *lp, const float *logits, int64_t ldl,
                   const int32_t *target, const struct mint_k_draw *draws, int64_t T, int64_t v0,
                   int64_t cols, int64_t V, cudaStream_t stream);

#endif

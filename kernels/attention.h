/* SPDX-License-Identifier: Apache-2.0 */
/*
 * attention.h: what the sources of the forward attention have in common: attention.cu, which plans
 * on the host who computes which rows, and the kernels of attention_tensor.cu and
 * attention_plain.cu.
 */
#ifndef MINT_ATTENTION_H
#define MINT_ATTENTION_H

#include "dev.h"

#include "kernels.h"

namespace forward
{

constexpr int PAGE = MINT_K_PAGE, SPLIT = 4 * PAGE; /* keys */
constexpr int FRAGMENT = 16, TILE = 64;             /* rows */
constexpr int PART_EXTRA = 4; /* a partial result has head_dim + 4 floats: o, m, l, two unused */

/* Rows row .. row+rows-1 of a sequence, where row / group is the token and row % group the head of
 * the group; of k_splits: with one split of the keys. More rows than the sequence has: the tokens
 * are those of sequences of one token each that follow each other, also in q, and have the pages of
 * the split in common. */
struct alignas(16) Job {
    int32_t seq, row, rows, split;
};
struct alignas(8) Token {
    int32_t seq, token;
};

/* The table of a plan: jobs of k_tiles, jobs of k_splits, tokens of k_merge, part0 of each
 * sequence; or only the tokens of k_plain. part0: the number of the sequence's first partial
 * result, each of all heads; below 0: it needs none. */
struct Table {
    Job *tiles, *splits;
    Token *tokens;
    int32_t *part0;
};

template <class A> struct Args {
    A *out;
    float *lse, *parts;
    const A *q, *k, *v;
    int64_t page_stride, head_stride;
    const mint_k_seq *seqs;
    const int32_t *pages, *part0;
    int heads, group, head_dim;
    float scale;
};

/* An output from its sum. Adding 0 makes -0 to 0: whether a sum of zeros is -0 could tell of masked
 * keys. */
DEVICE float finish(float o, float inverse)
{
    return fmaf(o, inverse, 0.0f);
}

static inline unsigned blocks(int64_t n, int each)
{
    return (unsigned)((n + each - 1) / each);
}

/* head_dim 64 or 128. */
void launch_tensor(const Args<bf16> &p, const mint_k_forward_plan *plan, const Table &table,
                   cudaStream_t stream);
void launch_plain(const Args<bf16> &p, const mint_k_forward_plan *plan, const Table &table,
                  cudaStream_t stream);
void launch_plain(const Args<float> &p, const mint_k_forward_plan *plan, const Table &table,
                  cudaStream_t stream);

} // namespace forward

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* attention.h: who computes what of the forward attention: between attention_plan.cu, which decides
 * on the host, and the kernels of attention.cu, which says why it does not change a bit. */
#ifndef MINT_ATTENTION_H
#define MINT_ATTENTION_H

#include "dev.h"

#include "kernels.h"

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
 * result, each of all heads; -1: it needs none. */
struct Table {
    Job *tiles, *splits;
    Token *tokens;
    int32_t *part0;
};
static inline Table table_of(const struct mint_k_forward_plan *plan, const int32_t *table)
{
    Table t;
    t.tiles = (Job *)table;
    t.splits = t.tiles + plan->tiles;
    t.tokens = (Token *)(t.splits + plan->splits);
    t.part0 = (int32_t *)(t.tokens + plan->merges + plan->plain);
    return t;
}

/* Whether tensor cores serve this kind of head. */
static inline bool by_fragments(bool f32, int head_dim)
{
    return !f32 && (head_dim == 64 || head_dim == 128);
}

#endif

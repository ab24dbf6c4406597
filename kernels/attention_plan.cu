// SPDX-License-Identifier: Apache-2.0
/*
 * attention_plan.cu: who computes what of the forward attention. A sequence with many rows goes by
 * tiles of 64 rows that walk all their keys; one with few rows (decoding) by fragments of 16 rows,
 * each of which walks one split of the keys, so that there is work for all processors. Sequences of
 * one token that follow each other and have the pages of their first splits in common (samples of
 * one prompt) share fragments there.
 */
#include "attention.h"

#include "../lib/base.h"

namespace
{

constexpr int FEW = 2 * FRAGMENT; /* rows: up to here by splits */

struct Planner {
    mint_k_forward_plan *plan;
    Table table;
    bool fill; /* else only counts */
    int group;
    const mint_k_seq *seqs;
    int64_t nseqs;
    const int32_t *pages;
    int64_t parts;
};

void add(const Planner &p, Job *jobs, int32_t *n, const Job &job)
{
    if (p.fill)
        jobs[*n] = job;
    ++*n;
}

void add(const Planner &p, int32_t *n, int32_t seq, int32_t token)
{
    if (p.fill)
        p.table.tokens[*n] = {seq, token};
    ++*n;
}

int32_t splits_of(const mint_k_seq &s)
{
    return (s.pos0 + s.rows + SPLIT - 1) / SPLIT;
}

/* Leading splits that both see whole, on the same pages. */
int32_t common_splits(const Planner &p, const mint_k_seq &a, const mint_k_seq &b)
{
    int32_t n = (MINT_MIN(a.pos0, b.pos0) + 1) / SPLIT, per = SPLIT / PAGE, i = 0;
    while (i < n * per && p.pages[a.page0 + i] == p.pages[b.page0 + i])
        i++;
    return i / per;
}

/* How many sequences from number i on share a fragment; *shared: for how many splits. */
int64_t companions(const Planner &p, int64_t i, int32_t *shared)
{
    const mint_k_seq &a = p.seqs[i];
    int64_t n = 1;
    *shared = 0;
    for (; a.rows == 1 && i + n < p.nseqs && (n + 1) * p.group <= FRAGMENT; n++) {
        const mint_k_seq &b = p.seqs[i + n];
        int32_t common = b.rows == 1 && b.row0 == a.row0 + n ? common_splits(p, a, b) : 0;
        if (n > 1)
            common = MINT_MIN(common, *shared);
        if (common < 1)
            break;
        *shared = common;
    }
    return n;
}

/* The splits from number split0 on of sequence i alone, and its merging. */
void own_splits(Planner *p, int64_t i, int32_t split0)
{
    const mint_k_seq &s = p->seqs[i];
    int32_t rows = s.rows * p->group, n = splits_of(s), seq = (int32_t)i;
    for (int32_t split = split0; split < n; split++)
        for (int32_t row = 0; row < rows; row += FRAGMENT) {
            int32_t k = MINT_MIN(FRAGMENT, rows - row), last = s.pos0 + (row + k - 1) / p->group;
            if (last >= split * SPLIT)
                add(*p, p->table.splits, &p->plan->splits, {seq, row, k, split});
        }
    if (p->fill)
        p->table.part0[i] = n > 1 ? (int32_t)p->parts : -1;
    for (int32_t token = 0; n > 1 && token < s.rows; token++)
        add(*p, &p->plan->merges, seq, token);
    p->parts += n > 1 ? (int64_t)n * s.rows : 0;
}

/* The last rows, which have most to do, first. */
void tiles(Planner *p, int64_t i)
{
    int32_t rows = p->seqs[i].rows * p->group;
    for (int32_t row = (rows - 1) / TILE * TILE; row >= 0; row -= TILE)
        add(*p, p->table.tiles, &p->plan->tiles, {(int32_t)i, row, MINT_MIN(TILE, rows - row), 0});
    if (p->fill)
        p->table.part0[i] = -1;
}

void make(Planner *p, bool fragments)
{
    p->parts = 0;
    p->plan->tiles = p->plan->splits = p->plan->merges = p->plan->plain = 0;
    for (int64_t i = 0, n = 1; i < p->nseqs; i += n) {
        int32_t shared = 0;
        n = 1;
        if (!fragments) {
            for (int32_t token = 0; token < p->seqs[i].rows; token++)
                add(*p, &p->plan->plain, (int32_t)i, token);
        } else if (p->seqs[i].rows * p->group > FEW) {
            tiles(p, i);
        } else {
            n = companions(*p, i, &shared);
            for (int32_t split = 0; split < shared; split++)
                add(*p, p->table.splits, &p->plan->splits,
                    {(int32_t)i, 0, (int32_t)n * p->group, split});
            for (int64_t k = i; k < i + n; k++)
                own_splits(p, k, shared);
        }
    }
}

} // namespace

void mint_k_attention_plan(struct mint_k_forward_plan *plan, int32_t *table, bool f32,
                           const struct mint_k_attn *s, const struct mint_k_seq *seqs,
                           int64_t nseqs, const int32_t *pages)
{
    bool fragments = by_fragments(f32, s->head_dim);
    Planner p = {plan, {}, false, s->heads / s->kv_heads, seqs, nseqs, pages, 0};
    make(&p, fragments);
    if (table) {
        p.table = table_of(plan, table);
        p.fill = true;
        make(&p, fragments);
    }
    plan->words = 4 * ((int64_t)plan->tiles + plan->splits) +
                  2 * ((int64_t)plan->merges + plan->plain) + (fragments ? nseqs : 0);
    plan->part_floats = p.parts * s->heads * (s->head_dim + PART_EXTRA);
}

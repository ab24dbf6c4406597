// SPDX-License-Identifier: Apache-2.0
/*
 * attention.cu: causal attention with grouped queries over the paged KV store: what is computed by
 * whom. out = softmax(q k^T scale) v, lse = log of the sum of e^(scaled score).
 *
 * The bits of a row (a head of a token) depend on its query and the keys up to its position alone:
 *
 * - Keys are taken in pages of 64 (online softmax, Milakov and Gimelshein 2018) and in splits of
 *   256, counted from position 0. A split starts afresh; splits are merged in ascending order. So
 *   it does not matter whether one block walks all splits of a row or a block each.
 * - 16 rows make a fragment of the tensor-core steps, which do not mix rows. A masked key has
 *   probability 0, which adds nothing; a page or a split that a row does not see changes nothing.
 *   So it does not matter who shares a fragment: heads of a group, tokens of a sequence, or
 *   sequences that have the split's pages in common, which are then read once for all.
 *
 * The plan: a sequence with many rows (prompts, training) goes by tiles of 64 rows that walk all
 * their keys; one with few rows (decoding) by fragments, each of which walks one split of the keys,
 * so that there is work for all processors. Sequences of one token that follow each other and have
 * the pages of their first splits in common (samples of one prompt) share fragments there.
 */
#include "attention.h"

#include "../lib/base.h"

namespace
{

using namespace forward;

constexpr int FEW = 2 * FRAGMENT; /* rows: up to here by splits, and a single token always */

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

void add_split(Planner *p, const Job &job)
{
    if (p->fill)
        p->table.splits[p->plan->splits] = job;
    p->plan->splits++;
}

/* n: plan->merges, or plan->plain. */
void add_token(Planner *p, int32_t *n, int64_t seq, int32_t token)
{
    if (p->fill)
        p->table.tokens[*n] = {(int32_t)seq, token};
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
    int32_t rows = s.rows * p->group, n = splits_of(s);
    for (int32_t split = split0; split < n; split++)
        for (int32_t row = 0; row < rows; row += FRAGMENT) {
            int32_t k = MINT_MIN(FRAGMENT, rows - row), last = s.pos0 + (row + k - 1) / p->group;
            if (last >= split * SPLIT)
                add_split(p, {(int32_t)i, row, k, split});
        }
    if (p->fill)
        p->table.part0[i] = n > 1 ? (int32_t)p->parts : -1;
    for (int32_t token = 0; n > 1 && token < s.rows; token++)
        add_token(p, &p->plan->merges, i, token);
    p->parts += n > 1 ? (int64_t)n * s.rows : 0;
}

bool many_rows(const Planner &p, int64_t i)
{
    return p.seqs[i].rows > MINT_MAX(1, FEW / p.group);
}

/* Of all sequences with many rows: those that see many keys first, so that no long job is left for
 * the end. part0 tells how far a sequence is; it ends below 0. */
void tiles(Planner *p)
{
    int32_t most = 0, n = 0;
    for (int64_t i = 0; i < p->nseqs; i++) {
        if (!many_rows(*p, i))
            continue;
        const int32_t last = (p->seqs[i].rows * p->group - 1) / TILE;
        p->plan->tiles += last + 1;
        most = MINT_MAX(most, splits_of(p->seqs[i]));
        if (p->fill)
            p->table.part0[i] = last * TILE;
    }
    for (int32_t split = most; p->fill && split-- > 0;)
        for (int64_t i = 0; i < p->nseqs; i++) {
            const mint_k_seq &s = p->seqs[i];
            int32_t *row = &p->table.part0[i], end = s.rows * p->group;
            for (; many_rows(*p, i) && *row >= 0; *row -= TILE) {
                const int32_t k = MINT_MIN(TILE, end - *row);
                if (s.pos0 + (*row + k - 1) / p->group < split * SPLIT)
                    break;
                p->table.tiles[n++] = {(int32_t)i, *row, k, 0};
            }
        }
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
                add_token(p, &p->plan->plain, i, token);
        } else if (!many_rows(*p, i)) {
            n = companions(*p, i, &shared);
            for (int32_t split = 0; split < shared; split++)
                add_split(p, {(int32_t)i, 0, (int32_t)n * p->group, split});
            for (int64_t k = i; k < i + n; k++)
                own_splits(p, k, shared);
        }
    }
    if (fragments)
        tiles(p);
}

Table table_of(const mint_k_forward_plan *plan, const int32_t *table)
{
    Table t;
    t.tiles = (Job *)table;
    t.splits = t.tiles + plan->tiles;
    t.tokens = (Token *)(t.splits + plan->splits);
    t.part0 = (int32_t *)(t.tokens + plan->merges + plan->plain);
    return t;
}

/* Whether tensor cores serve this kind of head. */
bool by_fragments(bool f32, int head_dim)
{
    return !f32 && (head_dim == 64 || head_dim == 128);
}

template <class A>
Args<A> args(void *out, float *lse, const void *q, const mint_k_kv *kv, const mint_k_seq *seqs,
             const int32_t *pages, float *parts, const mint_k_attn *s)
{
    Args<A> p = {};
    p.out = (A *)out;
    p.lse = lse;
    p.parts = parts;
    p.q = (const A *)q;
    p.k = (const A *)kv->k;
    p.v = (const A *)kv->v;
    p.page_stride = kv->page_stride;
    p.head_stride = kv->head_stride;
    p.seqs = seqs;
    p.pages = pages;
    p.heads = s->heads;
    p.group = s->heads / s->kv_heads;
    p.head_dim = s->head_dim;
    p.scale = s->scale;
    return p;
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

void mint_k_attention(void *out, float *lse, bool f32, const void *q, const struct mint_k_kv *kv,
                      const struct mint_k_seq *seqs, const int32_t *pages,
                      const struct mint_k_forward_plan *plan, const int32_t *table, float *parts,
                      const struct mint_k_attn *s, cudaStream_t stream)
{
    Args<bf16> b = args<bf16>(out, lse, q, kv, seqs, pages, parts, s);
    Table t = table_of(plan, table);
    if (f32)
        launch_plain(args<float>(out, lse, q, kv, seqs, pages, parts, s), plan, t, stream);
    else if (by_fragments(f32, s->head_dim))
        launch_tensor(b, plan, t, stream);
    else
        launch_plain(b, plan, t, stream);
}

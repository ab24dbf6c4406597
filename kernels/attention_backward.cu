// SPDX-License-Identifier: Apache-2.0
/*
 * attention_backward.cu: gradients of attention (after Dao et al. 2022): what is computed by whom.
 * For a row of queries and the keys that it sees:
 *
 *   s = q k^T,  p = e^(scale s - lse),  dp = dout v^T,  ds = scale p (dp - sum(dout out))
 *   dq = ds k,  dk = ds^T q,  dv = p^T dout
 *
 * p, ds and dout are rounded to act before they are multiplied. No block adds to what another one
 * writes, and each output has one float accumulator:
 *
 *   dq      a block has ROWS rows of a sequence and kv head (row r: head r % group of token r /
 *           group) and walks the keys from position 0 on
 *   dk, dv  a block has a page of keys, or a slice of it, and walks the rows that see them: those
 * of its own sequence, then those of the sequences that go on from it
 *
 * Terms are added in an order, and with tensor cores in steps of 16, that begin where only the
 * sequence (dq) or the family (dk, dv) decides; masked ones are 0 and change nothing. So bits
 * depend neither on what else is in a tile or a block nor on the batch.
 */
#include "attention_backward.h"

#include "../lib/base.h"

namespace
{

using namespace backward;

constexpr int WARPS = 4;

/* delta = sum(dout out) and dout rounded: a warp for each (token, head). */
template <class A>
__global__ void __launch_bounds__(32 * WARPS)
    k_begin(float *delta, A *g, const float *dout, const A *out, int64_t n, int head_dim)
{
    int64_t at = (int64_t)blockIdx.x * WARPS + threadIdx.x / 32;
    float sum = 0;
    if (at >= n)
        return;
    for (int d = threadIdx.x % 32; d < head_dim; d += 32) {
        float x = dout[at * head_dim + d];
        sum = fmaf(x, to_f32(out[at * head_dim + d]), sum);
        g[at * head_dim + d] = to_act<A>(x);
    }
    sum = warp_sum(sum);
    if (threadIdx.x % 32 == 0)
        delta[at] = sum;
}

void launch(const Args<float> &x, cudaStream_t stream)
{
    launch_plain(x, stream);
}

void launch(const Args<bf16> &x, cudaStream_t stream)
{
    if (x.head_dim == 64 || x.head_dim == 128)
        launch_tensor(x, stream);
    else
        launch_plain(x, stream);
}

struct Planner {
    struct mint_k_backward_plan *plan;
    Job *table; /* NULL: only counts */
    const mint_k_seq *seqs;
    int64_t nseqs;
    int group;
};

void add(Planner *p, int32_t *n, int64_t seq, int first)
{
    if (p->table)
        *p->table++ = {(int32_t)seq, first};
    ++*n;
}

/* Pages that a sequence reaches into. */
int levels_of(const mint_k_seq &s)
{
    return (s.pos0 + s.rows + PAGE - 1) / PAGE;
}

/* Rows that see many keys first, so that no long job is left for the end. */
void plan_rows(Planner *p, int levels)
{
    for (int level = levels; level-- > 0;)
        for (int64_t i = 0; i < p->nseqs; i++) {
            const mint_k_seq &s = p->seqs[i];
            int a = MINT_MAX(level * PAGE - s.pos0, 0) * p->group;
            int b = MINT_MIN((level + 1) * PAGE - s.pos0, s.rows) * p->group;
            for (int r = (a + ROWS - 1) / ROWS * ROWS; r < b; r += ROWS)
                add(p, &p->plan->rows, i, r);
        }
}

/* Tokens that see the page at pos of sequence i. */
int64_t tokens_of(const Planner *p, int64_t i, int pos)
{
    int64_t n = p->seqs[i].pos0 + p->seqs[i].rows - pos;
    if (p->seqs[i].pos0 == 0)
        for (int64_t j = i + 1; j < p->nseqs && p->seqs[j].pos0 > 0; j++)
            n += pos < p->seqs[j].pos0 ? p->seqs[j].rows : 0;
    return n;
}

/* Calls f(sequence, position, tokens) for all pages, those with many tokens first, about. */
template <class F> void for_pages(const Planner *p, int levels, F f)
{
    for (int level = 0; level < levels; level++)
        for (int64_t i = 0; i < p->nseqs; i++) {
            int pos = p->seqs[i].pos0 + level * PAGE;
            if (level * PAGE < p->seqs[i].rows)
                f(i, pos, tokens_of(p, i, pos));
        }
}

/* A page that more tokens see than is the share of one of the BLOCKS blocks that run at a time is
 * cut into slices: a prompt that many samples go on from, or all pages where there are few. */
void plan_pages(Planner *p, int levels, int kv_heads)
{
    const int64_t BLOCKS = 256;
    int64_t sum = 0;
    for_pages(p, levels, [&](int64_t, int, int64_t tokens) { sum += tokens; });
    auto large = [&](int64_t tokens) { return tokens * BLOCKS > sum * kv_heads; };
    for_pages(p, levels, [&](int64_t i, int pos, int64_t tokens) {
        int end = MINT_MIN(pos + PAGE, p->seqs[i].pos0 + p->seqs[i].rows);
        for (; large(tokens) && pos < end; pos += SLICE)
            add(p, &p->plan->slices, i, pos);
    });
    for_pages(p, levels, [&](int64_t i, int pos, int64_t tokens) {
        if (!large(tokens))
            add(p, &p->plan->wholes, i, pos);
    });
}

} // namespace

void mint_k_attention_backward_plan(struct mint_k_backward_plan *plan, int32_t *table,
                                    const struct mint_k_attn *s, const struct mint_k_seq *seqs,
                                    int64_t nseqs)
{
    Planner p = {plan, (Job *)table, seqs, nseqs, s->heads / s->kv_heads};
    int levels = 0;
    for (int64_t i = 0; i < nseqs; i++)
        levels = MINT_MAX(levels, levels_of(seqs[i]));
    *plan = {};
    plan_rows(&p, levels);
    plan_pages(&p, levels, s->kv_heads);
    plan->words = 2 * (int64_t)(plan->rows + plan->slices + plan->wholes);
}

void mint_k_attention_backward(float *dq, float *dk, float *dv, bool f32, const float *dout,
                               const void *out, const float *lse, const void *q,
                               const struct mint_k_kv *kv, const struct mint_k_seq *seqs,
                               int64_t nseqs, const int32_t *pages,
                               const struct mint_k_backward_plan *plan, const int32_t *table,
                               float *delta, void *g, const struct mint_k_attn *s, int64_t T,
                               cudaStream_t stream)
{
    auto run = [&](auto act) {
        typedef decltype(act) A;
        Args<A> x;
        int64_t n = T * s->heads;
        x.dq = dq;
        x.dk = dk;
        x.dv = dv;
        x.g = (const A *)g;
        x.q = (const A *)q;
        x.k = (const A *)kv->k;
        x.v = (const A *)kv->v;
        x.delta = delta;
        x.lse = lse;
        x.seqs = seqs;
        x.pages = pages;
        x.nrows = plan->rows;
        x.nslices = plan->slices;
        x.nwholes = plan->wholes;
        x.rows = (const Job *)table;
        x.slices = x.rows + x.nrows;
        x.wholes = x.slices + x.nslices;
        x.nseqs = (int)nseqs;
        x.heads = s->heads;
        x.kv_heads = s->kv_heads;
        x.head_dim = s->head_dim;
        set_group(&x, s->heads / s->kv_heads);
        x.page_stride = kv->page_stride;
        x.head_stride = kv->head_stride;
        x.scale = s->scale;
        LAUNCH(k_begin<A>, (unsigned)((n + WARPS - 1) / WARPS), 32 * WARPS, 0, stream, delta,
               (A *)g, dout, (const A *)out, n, s->head_dim);
        launch(x, stream);
    };
    if (T < 1)
        return;
    if (f32)
        run(0.0f);
    else
        run(bf16());
}

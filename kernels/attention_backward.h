/* SPDX-License-Identifier: Apache-2.0 */
/*
 * attention_backward.h: what the kernels of the attention's gradients have in common; their
 * formulas and the order of their sums are in attention_backward.cu.
 */
#ifndef MINT_ATTENTION_BACKWARD_H
#define MINT_ATTENTION_BACKWARD_H

#include "dev.h"

#include "kernels.h"

namespace backward
{

constexpr int PAGE = MINT_K_PAGE;
constexpr int ROWS = 64;  /* rows of a job of dq */
constexpr int SLICE = 16; /* keys of a small job of dk and dv */

/* What a block computes for one kv head: of sequence seq, dq of the rows from first on, or dk and
 * dv of the positions from first on. */
struct Job {
    int32_t seq, first;
};

template <class A> struct Args {
    float *dq, *dk, *dv;
    const A *g, *q, *k, *v; /* g: dout, rounded */
    const float *delta, *lse;
    const mint_k_seq *seqs;
    const int32_t *pages;
    const Job *rows, *slices, *wholes; /* jobs: dq; dk and dv of SLICE keys, of PAGE keys */
    int nrows, nslices, nwholes;
    int nseqs, heads, kv_heads, head_dim, group;
    unsigned inverse; /* 2^32 / group + 1; group 1: 0 */
    int64_t page_stride, head_stride;
    float scale;
};

void launch_tensor(const Args<bf16> &x, cudaStream_t stream); /* head_dim 64 or 128 */
void launch_plain(const Args<bf16> &x, cudaStream_t stream);
void launch_plain(const Args<float> &x, cudaStream_t stream);

template <class A> void set_group(Args<A> *x, int group)
{
    x->group = group;
    x->inverse = group > 1 ? (unsigned)((1ull << 32) / (unsigned)group + 1) : 0;
}

/* r / group; exact for r group < 2^32. */
template <class A> DEVICE int token_of(const Args<A> &x, int r)
{
    return x.inverse ? (int)__umulhi((unsigned)r, x.inverse) : r;
}

/* Row r of a sequence among the (token, head) pairs of the batch. */
template <class A> DEVICE int64_t place(const Args<A> &x, int row0, int head, int r)
{
    int t = token_of(x, r);
    return (int64_t)(row0 + t) * x.heads + head * x.group + r - t * x.group;
}

/* Where position first of a page's keys begins. */
template <class A>
DEVICE int64_t keys_at(const Args<A> &x, const mint_k_seq &s, int first, int head)
{
    return x.pages[s.page0 + first / PAGE] * x.page_stride + head * x.head_stride +
           first % PAGE * x.head_dim;
}

/* p and ds of a row and a key; 0 where it is not seen. lse2: lse / log 2. */
DEVICE void score(float *p, float *ds, float s, float dp, bool seen, float scale, float lse2,
                  float delta)
{
    float e = exp2_(fmaf(s, scale * LOG2E, -lse2));
    *p = seen ? e : 0.0f;
    *ds = seen ? e * (dp - delta) * scale : 0.0f;
}

/* The rows that see the positions from pos on: those of their own sequence, then those of the
 * sequences that go on from it. Rows row .. end-1 of sequence seq are still to come. */
struct Walk {
    int own, pos, seq, row, end, row0, pos0;
};

/* On to sequence i or the next one that sees pos; false: there is none. */
template <class A> DEVICE bool walk_to(Walk *w, const Args<A> &x, int i)
{
    for (; i < x.nseqs; i++) {
        mint_k_seq s = x.seqs[i];
        if (i != w->own && (s.pos0 == 0 || x.seqs[w->own].pos0 != 0))
            return false; /* another family begins, or nobody goes on from own */
        if (i != w->own && s.pos0 <= w->pos)
            continue;
        w->seq = i;
        w->row = max(w->pos - s.pos0, 0) * x.group;
        w->end = s.rows * x.group;
        w->row0 = s.row0;
        w->pos0 = s.pos0;
        return true;
    }
    return false;
}

/* n rows further; false: these were the last. */
template <class A> DEVICE bool walk_on(Walk *w, const Args<A> &x, int n)
{
    w->row += n;
    return w->row < w->end || walk_to(w, x, w->seq + 1);
}

template <class A> DEVICE Walk walk_from(const Args<A> &x, const Job &job)
{
    Walk w = {job.seq, job.first, 0, 0, 0, 0, 0};
    walk_to(&w, x, job.seq);
    return w;
}

/* What goes with a row of a walk. */
struct alignas(16) Row {
    float lse2, delta;
    int last; /* the last key from pos on that it sees; -1: there is no such row */
};

/* Row i of the n that come next. */
template <class A> DEVICE Row row_of(const Walk &w, const Args<A> &x, int head, int i, int n)
{
    int r = w.row + i;
    if (i >= n || r >= w.end)
        return {0.0f, 0.0f, -1};
    int64_t at = place(x, w.row0, head, r);
    return {x.lse[at] * LOG2E, x.delta[at], w.pos0 + token_of(x, r) - w.pos};
}

} // namespace backward
#endif

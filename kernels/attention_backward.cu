// SPDX-License-Identifier: Apache-2.0
/*
 * attention_backward.cu: gradients of attention (after Dao et al. 2022). For a row of queries and
 * the keys that it sees:
 *
 *   s = q k^T,  p = e^(scale s - lse),  dp = dout v^T,  ds = scale p (dp - sum(dout out))
 *   dq = ds k,  dk = ds^T q,  dv = p^T dout
 *
 * p, ds and dout are rounded to act before they are multiplied. No block adds to what another one
 * writes, and each output has one float accumulator:
 *
 *   k_dq    a block has ROWS rows of a sequence and kv head (row r: head r % group of
 *           token r / group) and walks the keys from position 0 on
 *   k_dkv   a block has a page of keys and walks the rows that see them: those of its own sequence,
 *           then those of the sequences that go on from it
 *
 * Terms are added in steps of 16 from a beginning that only the sequence (dq) or the family (dk,
 * dv) decides; masked ones are 0 and change nothing. So bits depend neither on what else is in a
 * tile or a block nor on the batch.
 *
 * With bf16 and head_dim 64 or 128 by tensor cores: 4 warps, a warp has 16 of the block's rows or
 * keys. k_dkv makes the scores turned (keys by rows), so that they leave the first product in the
 * layout in which the second one takes them. Otherwise by plain kernels: 4 warps, a row or key at a
 * time each. Grid: jobs x kv heads.
 */
#include "dev.h"
#include "kernels.h"

#include <algorithm>

namespace
{

constexpr int PAGE = MINT_K_PAGE, ROWS = 64, TILE = 32, WARPS = 4, THREADS = WARPS * 32;

struct Job {
    int seq, first; /* a sequence, and its first row or position at work */
};

template <class A> struct Args {
    float *dq, *dk, *dv;
    const A *g, *q, *k, *v; /* g: dout, rounded */
    const float *delta, *lse;
    const mint_k_seq *seqs;
    const int *pages;
    const Job *jobs;
    int nseqs, heads, kv_heads, head_dim, group;
    int64_t page_stride, head_stride;
    float scale;
};

/* Row r of a sequence among the (token, head) pairs of the batch. */
template <class A> DEVICE int64_t place(const Args<A> &x, int row0, int head, int r)
{
    return (int64_t)(row0 + r / x.group) * x.heads + head * x.group + r % x.group;
}

/* p and ds of one pair; nothing where the key is not seen. */
DEVICE void score(float *p, float *ds, float s, float dp, bool seen, float scale, float lse,
                  float delta)
{
    const float e = exp2_(fmaf(s, scale * LOG2E, -(lse * LOG2E)));

    *p = seen ? e : 0.0f;
    *ds = seen ? e * (dp - delta) * scale : 0.0f;
}

/* ---- the rows that see a page, in tiles of TILE: those of its own sequence, then the others of
 * the family. */

struct Walk {
    int seq, row, end; /* rows row .. end-1 of seq are still to come; seq == nseqs: no more */
    int row0, pos0;    /* of seq */
};

/* Begins with sequence i, or with the first one behind it that sees the page at pos of sequence
 * own. */
template <class A> DEVICE Walk walk_from(const Args<A> &x, int own, int i, int pos)
{
    for (; i < x.nseqs; i++) {
        const mint_k_seq s = x.seqs[i];

        if (i != own && (s.pos0 == 0 || x.seqs[own].pos0 != 0))
            break; /* another family begins, or nobody goes on from own */
        if (i == own || pos < s.pos0)
            return {i, max(pos - s.pos0, 0) * x.group, s.rows * x.group, s.row0, s.pos0};
    }
    return {x.nseqs, 0, 0, 0, 0};
}

template <class A> DEVICE void walk_on(Walk *w, const Args<A> &x, int own, int pos)
{
    w->row += TILE;
    if (w->row >= w->end)
        *w = walk_from(x, own, w->seq + 1, pos);
}

/* What goes with a row. */
struct Row {
    float lse, delta;
    int last; /* the last key of the page that it sees; -1: there is no such row */
};

template <class A> DEVICE Row row_of(const Args<A> &x, const Walk &w, int head, int pos, int i)
{
    const int r = w.row + i;

    if (i >= TILE || r >= w.end)
        return {0.0f, 0.0f, -1};
    const int64_t at = place(x, w.row0, head, r);

    return {x.lse[at], x.delta[at], w.pos0 + r / x.group - pos};
}

/* ---- tensor cores. Rows of D elements in shared memory are 16 bytes longer, so that the 8 rows of
 * an ldmatrix step lie in different banks. */

template <int D> constexpr int LD = D + 8;
template <int D> constexpr int BLOCK = PAGE *LD<D>; /* a page of keys, of values; ROWS rows */

/* A fragment: 16 x 16 at (r, c) of m. */
template <int D> DEVICE void load_a(unsigned a[4], const bf16 *m, int r, int c)
{
    const int lane = threadIdx.x % 32;

    ldmatrix<4, false>(a, m + (r + lane % 16) * LD<D> + c + lane / 16 * 8);
}

/* B fragments of two products with m^T: their columns are rows r.., r+8.. of m, depth is c.. */
template <int D> DEVICE void load_b(unsigned b[4], const bf16 *m, int r, int c)
{
    const int lane = threadIdx.x % 32;

    ldmatrix<4, false>(b, m + (r + lane / 16 * 8 + lane % 8) * LD<D> + c + lane / 8 % 2 * 8);
}

/* B fragments of two products with m: depth is rows r.., columns are c.., c+8.. of m. */
template <int D> DEVICE void load_b_turned(unsigned b[4], const bf16 *m, int r, int c)
{
    const int lane = threadIdx.x % 32;

    ldmatrix<4, true>(b, m + (r + lane % 16) * LD<D> + c + lane / 16 * 8);
}

/* x[16 x TILE] = a[16 x D] m^T, TILE rows of m. fragment(a, d): of columns d*16.. of a. */
template <int D, class F> DEVICE void product(float x[TILE / 8][4], F fragment, const bf16 *m)
{
#pragma unroll
    for (int n = 0; n < TILE / 8; n++)
        x[n][0] = x[n][1] = x[n][2] = x[n][3] = 0.0f;
#pragma unroll
    for (int d = 0; d < D / 16; d++) {
        unsigned a[4], b[4];

        fragment(a, d);
#pragma unroll
        for (int n = 0; n < TILE / 8; n += 2) {
            load_b<D>(b, m, n * 8, d * 16);
            mma_bf16(x[n], a, b);
            mma_bf16(x[n + 1], a, b + 2);
        }
    }
}

/* sum[16 x D] += x[16 x TILE] m, x rounded, TILE rows of m. */
template <int D>
DEVICE void accumulate(float sum[D / 8][4], const float x[TILE / 8][4], const bf16 *m)
{
#pragma unroll
    for (int k = 0; k < TILE / 16; k++) {
        const float *lo = x[2 * k], *hi = x[2 * k + 1];
        const unsigned a[4] = {pack_bf16(lo[0], lo[1]), pack_bf16(lo[2], lo[3]),
                               pack_bf16(hi[0], hi[1]), pack_bf16(hi[2], hi[3])};

#pragma unroll
        for (int n = 0; n < D / 8; n += 2) {
            unsigned b[4];

            load_b_turned<D>(b, m, k * 16, n * 8);
            mma_bf16(sum[n], a, b);
            mma_bf16(sum[n + 1], a, b + 2);
        }
    }
}

template <int D> DEVICE void clear(float sum[D / 8][4])
{
#pragma unroll
    for (int n = 0; n < D / 8; n++)
        sum[n][0] = sum[n][1] = sum[n][2] = sum[n][3] = 0.0f;
}

/* A thread's part of row g (i = 0) or g + 8 (i = 1) of a sum. */
template <int D> DEVICE void store_row(float *out, const float sum[D / 8][4], int i)
{
#pragma unroll
    for (int n = 0; n < D / 8; n++)
        *(float2 *)(out + n * 8 + threadIdx.x % 4 * 2) =
            make_float2(sum[n][2 * i], sum[n][2 * i + 1]);
}

/* Keys and values of a page to shared memory, at to and to + BLOCK; zeros from key n on. */
template <int D> DEVICE void load_page(bf16 *to, const Args<bf16> &x, int page, int head, int n)
{
    const int64_t at = page * x.page_stride + head * x.head_stride;

    for (int c = threadIdx.x; c < PAGE * D / 8; c += THREADS) {
        const int r = c / (D / 8), d = c % (D / 8) * 8;
        bf16 *dst = to + r * LD<D> + d;

        cp_async16(dst, x.k + at + (r < n ? r * D + d : 0), r < n);
        cp_async16(dst + BLOCK<D>, x.v + at + (r < n ? r * D + d : 0), r < n);
    }
}

/* Rows r0 .. r0+n-1 of q and g to shared memory, at to and to + n * LD; zeros from row end on. */
template <int D>
DEVICE void load_rows(bf16 *to, const Args<bf16> &x, int row0, int head, int r0, int n, int end)
{
    for (int c = threadIdx.x; c < n * D / 8; c += THREADS) {
        const int r = c / (D / 8), d = c % (D / 8) * 8;
        const bool ok = r0 + r < end;
        const int64_t at = ok ? place(x, row0, head, r0 + r) * D + d : 0;
        bf16 *dst = to + r * LD<D> + d;

        cp_async16(dst, x.q + at, ok);
        cp_async16(dst + n * LD<D>, x.g + at, ok);
    }
}

/* Rows of a thread: g and g + 8 of its warp's 16. Shared memory: two stages of a page's keys and
 * values; the rows pass through the second one first. */
template <int D> __global__ void __launch_bounds__(THREADS) k_dq(Args<bf16> x)
{
    DYN_SHARED(bf16, sm);
    const int lane = threadIdx.x % 32, w0 = threadIdx.x / 32 * 16, head = blockIdx.x % x.kv_heads;
    const Job job = x.jobs[blockIdx.x / x.kv_heads];
    const mint_k_seq seq = x.seqs[job.seq];
    const int *pages = x.pages + seq.page0;
    const int end = seq.rows * x.group, last = min(job.first + ROWS, end) - 1;
    const int keys = seq.pos0 + last / x.group + 1;
    unsigned q[D / 16][4], g[D / 16][4];
    float lse[2], delta[2], sum[D / 8][4];
    int64_t at[2];
    int pos[2]; /* -1: there is no such row */

    load_rows<D>(sm + 2 * BLOCK<D>, x, seq.row0, head, job.first, ROWS, end);
    cp_async_commit();
    load_page<D>(sm, x, pages[0], head, keys);
    cp_async_commit();
    clear<D>(sum);
    for (int i = 0; i < 2; i++) {
        const int r = job.first + w0 + lane / 4 + 8 * i;

        pos[i] = r < end ? seq.pos0 + r / x.group : -1;
        at[i] = place(x, seq.row0, head, min(r, last));
        lse[i] = x.lse[at[i]];
        delta[i] = x.delta[at[i]];
    }
    cp_async_wait<1>();
    __syncthreads(); /* the rows are there */
#pragma unroll
    for (int d = 0; d < D / 16; d++) {
        load_a<D>(q[d], sm + 2 * BLOCK<D>, w0, d * 16);
        load_a<D>(g[d], sm + 3 * BLOCK<D>, w0, d * 16);
    }
    for (int k0 = 0; k0 < keys; k0 += PAGE) {
        const bf16 *ks = sm + k0 / PAGE % 2 * 2 * BLOCK<D>;

        __syncthreads(); /* the other stage may be filled again */
        if (k0 + PAGE < keys)
            load_page<D>(sm + (k0 / PAGE + 1) % 2 * 2 * BLOCK<D>, x, pages[k0 / PAGE + 1], head,
                         keys - k0 - PAGE);
        cp_async_commit();
        cp_async_wait<1>();
        __syncthreads(); /* this one is there */
        for (int j = 0; j < PAGE; j += TILE) {
            float s[TILE / 8][4], dp[TILE / 8][4], p;

            product<D>(
                s, [&](unsigned a[4], int d) { memcpy(a, q[d], 16); }, ks + j * LD<D>);
            product<D>(
                dp, [&](unsigned a[4], int d) { memcpy(a, g[d], 16); }, ks + BLOCK<D> + j * LD<D>);
#pragma unroll
            for (int n = 0; n < TILE / 8; n++)
#pragma unroll
                for (int i = 0; i < 4; i++)
                    score(&p, &s[n][i], s[n][i], dp[n][i],
                          k0 + j + n * 8 + lane % 4 * 2 + i % 2 <= pos[i / 2], x.scale, lse[i / 2],
                          delta[i / 2]);
            accumulate<D>(sum, s, ks + j * LD<D>);
        }
    }
    for (int i = 0; i < 2; i++)
        if (pos[i] >= 0)
            store_row<D>(x.dq + at[i] * D, sum, i);
}

/* Keys of a thread: g and g + 8 of its warp's 16. Shared memory: keys, values, two stages of rows.
 */
template <int D> __global__ void __launch_bounds__(THREADS) k_dkv(Args<bf16> x)
{
    DYN_SHARED(bf16, sm);
    SHARED(Row, row, [2][TILE]);
    const int lane = threadIdx.x % 32, w0 = threadIdx.x / 32 * 16, head = blockIdx.x % x.kv_heads;
    const Job job = x.jobs[blockIdx.x / x.kv_heads];
    const mint_k_seq own = x.seqs[job.seq];
    const int keys = min(PAGE, own.pos0 + own.rows - job.first);
    float dk[D / 8][4], dv[D / 8][4];
    Walk w = walk_from(x, job.seq, job.seq, job.first);
    Row r = row_of(x, w, head, job.first, threadIdx.x);

    load_page<D>(sm, x, x.pages[own.page0 + job.first / PAGE], head, keys);
    load_rows<D>(sm + 2 * BLOCK<D>, x, w.row0, head, w.row, TILE, w.end);
    cp_async_commit();
    clear<D>(dk);
    clear<D>(dv);
    for (int stage = 0; w.seq < x.nseqs; stage ^= 1) {
        const bf16 *q = sm + (2 + stage) * BLOCK<D>, *g = q + TILE * LD<D>;
        float s[TILE / 8][4], dp[TILE / 8][4];

        if (threadIdx.x < TILE)
            row[stage][threadIdx.x] = r;
        walk_on(&w, x, job.seq, job.first);
        if (w.seq < x.nseqs) {
            load_rows<D>(sm + (3 - stage) * BLOCK<D>, x, w.row0, head, w.row, TILE, w.end);
            r = row_of(x, w, head, job.first, threadIdx.x);
        }
        cp_async_commit();
        cp_async_wait<1>();
        __syncthreads(); /* this stage is there */
        product<D>(
            s, [&](unsigned a[4], int d) { load_a<D>(a, sm, w0, d * 16); }, q);
        product<D>(
            dp, [&](unsigned a[4], int d) { load_a<D>(a, sm + BLOCK<D>, w0, d * 16); }, g);
#pragma unroll
        for (int n = 0; n < TILE / 8; n++)
#pragma unroll
            for (int i = 0; i < 4; i++) {
                const Row e = row[stage][n * 8 + lane % 4 * 2 + i % 2];

                score(&s[n][i], &dp[n][i], s[n][i], dp[n][i], w0 + lane / 4 + i / 2 * 8 <= e.last,
                      x.scale, e.lse, e.delta);
            }
        accumulate<D>(dv, s, g);
        accumulate<D>(dk, dp, q);
        __syncthreads(); /* the stage may be filled again */
    }
    for (int i = 0; i < 2; i++) {
        const int j = w0 + lane / 4 + 8 * i;
        const int64_t t = own.row0 + job.first - own.pos0 + j;

        if (j < keys) {
            store_row<D>(x.dk + (t * x.kv_heads + head) * D, dk, i);
            store_row<D>(x.dv + (t * x.kv_heads + head) * D, dv, i);
        }
    }
}

/* ---- plain kernels. */

constexpr int MAX_DIM = MINT_K_ATTENTION_DIM_MAX;

/* Two rows of a warp, widened. */
struct Pair {
    float a[MAX_DIM], b[MAX_DIM];
};

template <class A> DEVICE void load_pair(Pair *to, const A *a, const A *b, int n)
{
    __syncwarp(); /* the last pair was read */
    for (int d = threadIdx.x % 32; d < n; d += 32) {
        to->a[d] = to_f32(a[d]);
        to->b[d] = to_f32(b[d]);
    }
    __syncwarp();
}

/* Products of the pair with the rows a and b. */
template <class A>
DEVICE void products(float *x, float *y, const Pair &pair, const A *a, const A *b, int n)
{
    float s = 0.0f, t = 0.0f;

    for (int d = 0; d < n; d++) {
        s = fmaf(pair.a[d], to_f32(a[d]), s);
        t = fmaf(pair.b[d], to_f32(b[d]), t);
    }
    *x = s;
    *y = t;
}

/* sum[i] += x row[lane + 32 i] */
template <class A> DEVICE void add_row(float sum[MAX_DIM / 32], float x, const A *row, int n)
{
#pragma unroll
    for (int i = 0; i < MAX_DIM / 32; i++) {
        const int d = threadIdx.x % 32 + 32 * i;

        if (d < n)
            sum[i] = fmaf(x, to_f32(row[d]), sum[i]);
    }
}

DEVICE void store_sum(float *out, const float sum[MAX_DIM / 32], int n)
{
#pragma unroll
    for (int i = 0; i < MAX_DIM / 32; i++)
        if ((int)threadIdx.x % 32 + 32 * i < n)
            out[threadIdx.x % 32 + 32 * i] = sum[i];
}

template <class A> __global__ void __launch_bounds__(THREADS) k_dq_plain(Args<A> x)
{
    SHARED(Pair, pairs, [WARPS]);
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, head = blockIdx.x % x.kv_heads,
              n = x.head_dim;
    const Job job = x.jobs[blockIdx.x / x.kv_heads];
    const mint_k_seq seq = x.seqs[job.seq];
    const int end = min(job.first + ROWS, seq.rows * x.group);

    for (int r = job.first + warp; r < end; r += WARPS) {
        const int64_t at = place(x, seq.row0, head, r);
        const int keys = seq.pos0 + r / x.group + 1;
        const float lse = x.lse[at], delta = x.delta[at];
        float sum[MAX_DIM / 32] = {};

        load_pair(&pairs[warp], x.q + at * n, x.g + at * n, n);
        for (int k0 = 0; k0 < keys; k0 += 32) {
            const int64_t block = x.pages[seq.page0 + k0 / PAGE] * x.page_stride +
                                  head * x.head_stride + k0 % PAGE * n;
            float s = 0.0f, dp = 0.0f, p, ds;

            if (k0 + lane < keys)
                products(&s, &dp, pairs[warp], x.k + block + lane * n, x.v + block + lane * n, n);
            score(&p, &ds, s, dp, k0 + lane < keys, x.scale, lse, delta);
            ds = to_f32(to_act<A>(ds));
            for (int j = 0; j < min(32, keys - k0); j++)
                add_row(sum, __shfl_sync(~0u, ds, j), x.k + block + j * n, n);
        }
        store_sum(x.dq + at * n, sum, n);
    }
}

template <class A> __global__ void __launch_bounds__(THREADS) k_dkv_plain(Args<A> x)
{
    SHARED(Pair, pairs, [WARPS]);
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, head = blockIdx.x % x.kv_heads,
              n = x.head_dim;
    const Job job = x.jobs[blockIdx.x / x.kv_heads];
    const mint_k_seq own = x.seqs[job.seq];
    const int64_t block =
        x.pages[own.page0 + job.first / PAGE] * x.page_stride + head * x.head_stride;

    for (int j = warp; j < min(PAGE, own.pos0 + own.rows - job.first); j += WARPS) {
        const int64_t t = own.row0 + job.first - own.pos0 + j;
        float dk[MAX_DIM / 32] = {}, dv[MAX_DIM / 32] = {};

        load_pair(&pairs[warp], x.k + block + j * n, x.v + block + j * n, n);
        for (Walk w = walk_from(x, job.seq, job.seq, job.first); w.seq < x.nseqs;
             walk_on(&w, x, job.seq, job.first)) {
            const Row r = row_of(x, w, head, job.first, lane);
            float s = 0.0f, dp = 0.0f, p, ds;

            if (j <= r.last) {
                const int64_t at = place(x, w.row0, head, w.row + lane) * n;

                products(&s, &dp, pairs[warp], x.q + at, x.g + at, n);
            }
            score(&p, &ds, s, dp, j <= r.last, x.scale, r.lse, r.delta);
            p = to_f32(to_act<A>(p));
            ds = to_f32(to_act<A>(ds));
            for (int i = 0; i < min(TILE, w.end - w.row); i++) {
                const int64_t at = place(x, w.row0, head, w.row + i) * n;

                add_row(dv, __shfl_sync(~0u, p, i), x.g + at, n);
                add_row(dk, __shfl_sync(~0u, ds, i), x.q + at, n);
            }
        }
        store_sum(x.dk + (t * x.kv_heads + head) * n, dk, n);
        store_sum(x.dv + (t * x.kv_heads + head) * n, dv, n);
    }
}

/* delta and g: a warp for each (token, head). */
template <class A>
__global__ void __launch_bounds__(THREADS)
    k_begin(float *delta, A *g, const float *dout, const A *out, int64_t n, int head_dim)
{
    const int64_t at = (int64_t)blockIdx.x * WARPS + threadIdx.x / 32;
    float sum = 0.0f;

    if (at >= n)
        return;
    for (int d = threadIdx.x % 32; d < head_dim; d += 32) {
        const float x = dout[at * head_dim + d];

        sum = fmaf(x, to_f32(out[at * head_dim + d]), sum);
        g[at * head_dim + d] = to_act<A>(x);
    }
    sum = warp_sum(sum);
    if (threadIdx.x % 32 == 0)
        delta[at] = sum;
}

/* ---- launches. */

template <int D> void launch_tensor(Args<bf16> x, int rows, int pages, cudaStream_t stream)
{
    const size_t bytes = 4 * BLOCK<D> * sizeof(bf16);

    BIG_SMEM(k_dq<D>, bytes);
    BIG_SMEM(k_dkv<D>, bytes);
    LAUNCH(k_dq<D>, rows * x.kv_heads, THREADS, bytes, stream, x);
    x.jobs += rows;
    LAUNCH(k_dkv<D>, pages * x.kv_heads, THREADS, bytes, stream, x);
}

template <class A> void launch_plain(Args<A> x, int rows, int pages, cudaStream_t stream)
{
    LAUNCH(k_dq_plain<A>, rows * x.kv_heads, THREADS, 0, stream, x);
    x.jobs += rows;
    LAUNCH(k_dkv_plain<A>, pages * x.kv_heads, THREADS, 0, stream, x);
}

void launch(const Args<bf16> &x, int rows, int pages, cudaStream_t stream)
{
    if (x.head_dim == 64)
        launch_tensor<64>(x, rows, pages, stream);
    else if (x.head_dim == 128)
        launch_tensor<128>(x, rows, pages, stream);
    else
        launch_plain(x, rows, pages, stream);
}

void launch(const Args<float> &x, int rows, int pages, cudaStream_t stream)
{
    launch_plain(x, rows, pages, stream);
}

template <class A>
void backward(Args<A> x, float *delta, A *g, const float *dout, const A *out, int rows, int pages,
              int64_t T, cudaStream_t stream)
{
    const int64_t n = T * x.heads;

    LAUNCH(k_begin<A>, (unsigned)((n + WARPS - 1) / WARPS), THREADS, 0, stream, delta, g, dout, out,
           n, x.head_dim);
    launch(x, rows, pages, stream);
}

} // namespace

/* Heavy jobs first, so that no long one is left for the end: rows that see many keys, pages that
 * begin a sequence. */
extern "C" void mint_k_attention_backward_plan(struct mint_k_backward_plan *plan, int32_t *table,
                                               const struct mint_k_attn *s,
                                               const struct mint_k_seq *seqs, int64_t nseqs)
{
    const int group = s->heads / s->kv_heads;
    int levels = 0, n[2] = {0, 0};
    auto put = [&](int kind, int64_t seq, int first) {
        n[kind]++;
        if (table) {
            *table++ = (int32_t)seq;
            *table++ = first;
        }
    };

    for (int64_t i = 0; i < nseqs; i++)
        levels = std::max(levels, (seqs[i].pos0 + seqs[i].rows + PAGE - 1) / PAGE);
    for (int level = levels; level-- > 0;)
        for (int64_t i = 0; i < nseqs; i++) {
            const int a = std::max(level * PAGE - seqs[i].pos0, 0) * group;
            const int b = std::min((level + 1) * PAGE - seqs[i].pos0, seqs[i].rows) * group;

            for (int r = (a + ROWS - 1) / ROWS * ROWS; r < b; r += ROWS)
                put(0, i, r);
        }
    for (int level = 0; level < levels; level++)
        for (int64_t i = 0; i < nseqs; i++)
            if (level * PAGE < seqs[i].rows)
                put(1, i, seqs[i].pos0 + level * PAGE);
    *plan = {n[0], n[1], 2 * (int64_t)(n[0] + n[1])};
}

extern "C" void mint_k_attention_backward(
    float *dq, float *dk, float *dv, bool f32, const float *dout, const void *out, const float *lse,
    const void *q, const struct mint_k_kv *kv, const struct mint_k_seq *seqs, int64_t nseqs,
    const int32_t *pages, const struct mint_k_backward_plan *plan, const int32_t *table,
    float *delta, void *g, const struct mint_k_attn *s, int64_t T, cudaStream_t stream)
{
    auto run = [&](auto act) {
        typedef decltype(act) A;
        const Args<A> x = {dq,
                           dk,
                           dv,
                           (const A *)g,
                           (const A *)q,
                           (const A *)kv->k,
                           (const A *)kv->v,
                           delta,
                           lse,
                           seqs,
                           pages,
                           (const Job *)table,
                           (int)nseqs,
                           s->heads,
                           s->kv_heads,
                           s->head_dim,
                           s->heads / s->kv_heads,
                           kv->page_stride,
                           kv->head_stride,
                           s->scale};

        backward<A>(x, delta, (A *)g, dout, (const A *)out, plan->rows, plan->pages, T, stream);
    };

    if (T == 0)
        return;
    if (f32)
        run(0.0f);
    else
        run(bf16());
}

// SPDX-License-Identifier: Apache-2.0
/*
 * attention_backward_tensor.cu: gradients of attention by tensor cores, for bf16 and head_dim D =
 * 64 or 128. A block of 4 warps a job and kv head:
 *
 *   k_dq          a warp has 16 rows; q and dout stay in registers, keys and values come by pages
 *   k_dkv, whole  a warp has 16 keys of the page, rows come by tiles of 32
 *   k_dkv, slice  16 keys in all, rows come by tiles of 64. A warp makes the scores of 16 of them
 *                 and sums a quarter of the dimensions; the scores pass through shared memory. With
 *                 a quarter of the work in a row, for pages that very many rows see
 *
 * k_dkv makes the scores turned (keys by rows), so that they leave the first product in the layout
 * in which the second one takes them. Tiles are fetched by cp.async while the ones before are at
 * work. An output takes 16 terms a step; a walk begins at a multiple of 16 rows from the first row
 * that sees the page, so whole and slice give the same bits.
 */
#include "attention_backward.h"

namespace
{

using namespace backward;

constexpr int WARPS = 4, THREADS = 32 * WARPS;

/* Rows of D elements in shared memory are 16 bytes longer, so that the 8 rows of an ldmatrix step
 * lie in different banks. */
template <int D> constexpr int LD = D + 8;
template <int D> constexpr int STEP = PAGE *LD<D>; /* elements of 64 rows */
template <int D> constexpr size_t SMEM = 4 * STEP<D> * sizeof(bf16);

/* A fragment: 16 x 16 at (r, c) of m. */
template <int LDM> DEVICE void load_a(unsigned a[4], const bf16 *m, int r, int c)
{
    int lane = threadIdx.x % 32;
    ldmatrix<4, false>(a, m + (r + lane % 16) * LDM + c + lane / 16 * 8);
}

/* The same from memory, zeros from row n on. */
template <int D> DEVICE void load_a_far(unsigned a[4], const bf16 *m, int c, int n)
{
    int g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
#pragma unroll
    for (int i = 0; i < 4; i++) {
        int r = g + i % 2 * 8;
        a[i] = r < n ? *(const unsigned *)(m + r * D + c + i / 2 * 8 + 2 * t) : 0;
    }
}

/* B fragments of two products with m^T: their columns are rows r.., r+8.. of m, depth is c.. */
template <int D> DEVICE void load_b(unsigned b[4], const bf16 *m, int r, int c)
{
    int lane = threadIdx.x % 32;
    ldmatrix<4, false>(b, m + (r + lane / 16 * 8 + lane % 8) * LD<D> + c + lane / 8 % 2 * 8);
}

/* B fragments of two products with m: depth is rows r.., columns are c.., c+8.. of m. */
template <int D> DEVICE void load_b_turned(unsigned b[4], const bf16 *m, int r, int c)
{
    int lane = threadIdx.x % 32;
    ldmatrix<4, true>(b, m + (r + lane % 16) * LD<D> + c + lane / 16 * 8);
}

template <int N> DEVICE void clear(float x[N][4])
{
#pragma unroll
    for (int n = 0; n < N; n++)
        x[n][0] = x[n][1] = x[n][2] = x[n][3] = 0;
}

/* x[16 x 8 N] = a m^T, rows of D, 8 N of them at m. fragment(f, d): of columns d.. of a. */
template <int D, int N, class F> DEVICE void product(float x[N][4], F fragment, const bf16 *m)
{
    clear<N>(x);
#pragma unroll
    for (int d = 0; d < D; d += 16) {
        unsigned a[4], b[4];
        fragment(a, d);
#pragma unroll
        for (int n = 0; n < N; n += 2) {
            load_b<D>(b, m, n * 8, d);
            mma_bf16(x[n], a, b);
            mma_bf16(x[n + 1], a, b + 2);
        }
    }
}

/* sum[16 x 8 N] += a m, K rows of m. fragment(f, k): of columns k.. of a. */
template <int D, int K, int N, class F>
DEVICE void accumulate(float sum[N][4], F fragment, const bf16 *m)
{
#pragma unroll
    for (int k = 0; k < K; k += 16) {
        unsigned a[4], b[4];
        fragment(a, k);
#pragma unroll
        for (int n = 0; n < N; n += 2) {
            load_b_turned<D>(b, m, k, n * 8);
            mma_bf16(sum[n], a, b);
            mma_bf16(sum[n + 1], a, b + 2);
        }
    }
}

/* An A fragment, columns 8n.. and 8(n+1).., of what a product left, rounded. */
DEVICE void round_a(unsigned a[4], const float x[][4], int n)
{
    a[0] = pack_bf16(x[n][0], x[n][1]);
    a[1] = pack_bf16(x[n][2], x[n][3]);
    a[2] = pack_bf16(x[n + 1][0], x[n + 1][1]);
    a[3] = pack_bf16(x[n + 1][2], x[n + 1][3]);
}

/* A thread's part of row g (i = 0) or g + 8 (i = 1) of a sum. */
template <int N> DEVICE void store_row(float *out, const float sum[N][4], int i)
{
#pragma unroll
    for (int n = 0; n < N; n++)
        *(float2 *)(out + n * 8 + threadIdx.x % 4 * 2) =
            make_float2(sum[n][2 * i], sum[n][2 * i + 1]);
}

/* The block's share of copying rows of D: a thread has 8 elements, from column d on, of rows r, r +
 * STEP_ROWS, ... */
template <int D> constexpr int STEP_ROWS = THREADS / (D / 8);

/* 64 keys and values of a page to shared memory, at to and to + STEP; zeros from key n on. */
template <int D> DEVICE void fetch_page(bf16 *to, const Args<bf16> &x, int64_t at, int n)
{
    int r = threadIdx.x / (D / 8), d = threadIdx.x % (D / 8) * 8;
#pragma unroll
    for (int i = 0; i < PAGE; i += STEP_ROWS<D>) {
        bool ok = r + i < n;
        int64_t from = at + (ok ? (r + i) * D + d : 0);
        cp_async16(to + (r + i) * LD<D> + d, x.k + from, ok);
        cp_async16(to + STEP<D> + (r + i) * LD<D> + d, x.v + from, ok);
    }
}

/* Rows r0 .. r0+N-1 of q and g to shared memory, at to and to + N * LD; zeros from row end on. */
template <int D, int N>
DEVICE void fetch_rows(bf16 *to, const Args<bf16> &x, int row0, int head, int r0, int end)
{
    int r = threadIdx.x / (D / 8), d = threadIdx.x % (D / 8) * 8;
#pragma unroll
    for (int i = 0; i < N; i += STEP_ROWS<D>) {
        bool ok = r0 + r + i < end;
        int64_t from = ok ? place(x, row0, head, r0 + r + i) * D + d : 0;
        cp_async16(to + (r + i) * LD<D> + d, x.q + from, ok);
        cp_async16(to + (N + r + i) * LD<D> + d, x.g + from, ok);
    }
}

template <int D, int N>
DEVICE void fetch_rows(bf16 *to, const Args<bf16> &x, const Walk &w, int head)
{
    fetch_rows<D, N>(to, x, w.row0, head, w.row, w.end);
}

/* Rows of a thread: g and g + 8 of its warp's 16. Shared memory: two stages of a page's keys and
 * values; the rows pass through the second one first. */
template <int D> __global__ void __launch_bounds__(THREADS) k_dq(Args<bf16> x)
{
    DYN_SHARED(bf16, sm);
    int lane = threadIdx.x % 32, w0 = threadIdx.x / 32 * 16, head = blockIdx.x % x.kv_heads;
    Job job = x.rows[blockIdx.x / x.kv_heads];
    mint_k_seq seq = x.seqs[job.seq];
    int end = seq.rows * x.group, last = min(job.first + ROWS, end) - 1;
    int keys = seq.pos0 + token_of(x, last) + 1;
    unsigned q[D / 16][4], g[D / 16][4];
    float lse2[2], delta[2], sum[D / 8][4];
    int64_t at[2];
    int pos[2]; /* -1: there is no such row */

    fetch_rows<D, ROWS>(sm + 2 * STEP<D>, x, seq.row0, head, job.first, end);
    cp_async_commit();
    fetch_page<D>(sm, x, keys_at(x, seq, 0, head), keys);
    cp_async_commit();
    clear<D / 8>(sum);
    for (int i = 0; i < 2; i++) {
        int r = job.first + w0 + lane / 4 + 8 * i;
        pos[i] = r < end ? seq.pos0 + token_of(x, r) : -1;
        at[i] = place(x, seq.row0, head, min(r, last));
        lse2[i] = x.lse[at[i]] * LOG2E;
        delta[i] = x.delta[at[i]];
    }
    cp_async_wait<1>();
    __syncthreads(); /* the rows are there */
#pragma unroll
    for (int d = 0; d < D / 16; d++) {
        load_a<LD<D>>(q[d], sm + 2 * STEP<D>, w0, d * 16);
        load_a<LD<D>>(g[d], sm + 3 * STEP<D>, w0, d * 16);
    }
    for (int k0 = 0, stage = 0; k0 < keys; k0 += PAGE, stage ^= 1) {
        __syncthreads(); /* the other stage may be filled again */
        if (k0 + PAGE < keys)
            fetch_page<D>(sm + (stage ^ 1) * 2 * STEP<D>, x, keys_at(x, seq, k0 + PAGE, head),
                          keys - k0 - PAGE);
        cp_async_commit();
        cp_async_wait<1>();
        __syncthreads(); /* this one is there */
        for (int j = 0; j < PAGE; j += 32) {
            const bf16 *k = sm + stage * 2 * STEP<D> + j * LD<D>, *v = k + STEP<D>;
            float s[4][4], dp[4][4], p;
            product<D, 4>(
                s, [&](unsigned a[4], int d) { memcpy(a, q[d / 16], 16); }, k);
            product<D, 4>(
                dp, [&](unsigned a[4], int d) { memcpy(a, g[d / 16], 16); }, v);
#pragma unroll
            for (int n = 0; n < 4; n++)
#pragma unroll
                for (int i = 0; i < 4; i++)
                    score(&p, &s[n][i], s[n][i], dp[n][i],
                          k0 + j + n * 8 + lane % 4 * 2 + i % 2 <= pos[i / 2], x.scale, lse2[i / 2],
                          delta[i / 2]);
            accumulate<D, 32, D / 8>(
                sum, [&](unsigned a[4], int c) { round_a(a, s, c / 8); }, k);
        }
    }
    for (int i = 0; i < 2; i++)
        if (pos[i] >= 0)
            store_row<D / 8>(x.dq + at[i] * D, sum, i);
}

/* From products to p and ds of 16 keys, from key j0 on, and the rows that row describes. */
template <int N>
DEVICE void scores(float s[N][4], float dp[N][4], const Row *row, int j0, float scale)
{
    int lane = threadIdx.x % 32;
#pragma unroll
    for (int n = 0; n < N; n++)
#pragma unroll
        for (int i = 0; i < 4; i++) {
            Row r = row[n * 8 + lane % 4 * 2 + i % 2];
            bool seen = j0 + lane / 4 + i / 2 * 8 <= r.last;
            score(&s[n][i], &dp[n][i], s[n][i], dp[n][i], seen, scale, r.lse2, r.delta);
        }
}

/* dk and dv of 16 keys, of which own's sequence has n, and 8 N dimensions from d on. */
template <int D, int N>
DEVICE void store_keys(const Args<bf16> &x, const mint_k_seq &own, int pos, int head, int d, int n,
                       const float dk[N][4], const float dv[N][4])
{
    for (int i = 0; i < 2; i++) {
        int j = threadIdx.x % 32 / 4 + 8 * i;
        int64_t t = own.row0 + pos - own.pos0 + j, to = (t * x.kv_heads + head) * D + d;
        if (j < n) {
            store_row<N>(x.dk + to, dk, i);
            store_row<N>(x.dv + to, dv, i);
        }
    }
}

/* Shared memory: keys, values, two stages of rows. */
template <int D> DEVICE void whole(const Args<bf16> &x, const Job &job, int head)
{
    constexpr int TILE = 32;
    DYN_SHARED(bf16, sm);
    SHARED(Row, row, [2][TILE]);
    int w0 = threadIdx.x / 32 * 16;
    mint_k_seq own = x.seqs[job.seq];
    int keys = own.pos0 + own.rows - job.first;
    float dk[D / 8][4], dv[D / 8][4], s[TILE / 8][4], dp[TILE / 8][4];
    Walk w = walk_from(x, job);
    Row r = row_of(w, x, head, threadIdx.x, TILE);

    fetch_page<D>(sm, x, keys_at(x, own, job.first, head), keys);
    fetch_rows<D, TILE>(sm + 2 * STEP<D>, x, w, head);
    cp_async_commit();
    clear<D / 8>(dk);
    clear<D / 8>(dv);
    for (bool more = true, odd = false; more; odd = !odd) {
        const bf16 *q = sm + (2 + odd) * STEP<D>, *g = q + TILE * LD<D>;
        if (threadIdx.x < TILE)
            row[odd][threadIdx.x] = r;
        more = walk_on(&w, x, TILE);
        if (more) {
            fetch_rows<D, TILE>(sm + (3 - odd) * STEP<D>, x, w, head);
            r = row_of(w, x, head, threadIdx.x, TILE);
        }
        cp_async_commit();
        cp_async_wait<1>();
        __syncthreads(); /* this stage is there */
        product<D, TILE / 8>(
            s, [&](unsigned a[4], int d) { load_a<LD<D>>(a, sm, w0, d); }, q);
        product<D, TILE / 8>(
            dp, [&](unsigned a[4], int d) { load_a<LD<D>>(a, sm + STEP<D>, w0, d); }, g);
        scores<TILE / 8>(s, dp, row[odd], w0, x.scale);
        accumulate<D, TILE, D / 8>(
            dv, [&](unsigned a[4], int k) { round_a(a, s, k / 8); }, g);
        accumulate<D, TILE, D / 8>(
            dk, [&](unsigned a[4], int k) { round_a(a, dp, k / 8); }, q);
        __syncthreads(); /* the stage may be filled again */
    }
    store_keys<D, D / 8>(x, own, job.first + w0, head, 0, keys - w0, dk, dv);
}

/* Shared memory: two stages of rows. */
template <int D> DEVICE void slice(const Args<bf16> &x, const Job &job, int head)
{
    constexpr int TILE = 64, LDS = TILE + 8, N = D / 8 / WARPS;
    DYN_SHARED(bf16, sm);
    SHARED(Row, row, [2][TILE]);
    SHARED(bf16, turned, [2][SLICE * LDS]); /* p and ds, keys by rows */
    int lane = threadIdx.x % 32, w0 = threadIdx.x / 32 * 16, d0 = threadIdx.x / 32 * N * 8;
    mint_k_seq own = x.seqs[job.seq];
    int keys = own.pos0 + own.rows - job.first;
    int64_t at = keys_at(x, own, job.first, head);
    unsigned k[D / 16][4], v[D / 16][4];
    float dk[N][4], dv[N][4], s[2][4], dp[2][4];
    Walk w = walk_from(x, job);
    Row r = row_of(w, x, head, threadIdx.x, TILE);

    fetch_rows<D, TILE>(sm, x, w, head);
    cp_async_commit();
#pragma unroll
    for (int d = 0; d < D / 16; d++) {
        load_a_far<D>(k[d], x.k + at, d * 16, keys);
        load_a_far<D>(v[d], x.v + at, d * 16, keys);
    }
    clear<N>(dk);
    clear<N>(dv);
    for (bool more = true, odd = false; more; odd = !odd) {
        const bf16 *q = sm + odd * 2 * STEP<D>, *g = q + STEP<D>;
        if (threadIdx.x < TILE)
            row[odd][threadIdx.x] = r;
        more = walk_on(&w, x, TILE);
        if (more) {
            fetch_rows<D, TILE>(sm + !odd * 2 * STEP<D>, x, w, head);
            r = row_of(w, x, head, threadIdx.x, TILE);
        }
        cp_async_commit();
        cp_async_wait<1>();
        __syncthreads(); /* this stage is there */
        product<D, 2>(
            s, [&](unsigned a[4], int d) { memcpy(a, k[d / 16], 16); }, q + w0 * LD<D>);
        product<D, 2>(
            dp, [&](unsigned a[4], int d) { memcpy(a, v[d / 16], 16); }, g + w0 * LD<D>);
        scores<2>(s, dp, row[odd] + w0, 0, x.scale);
        unsigned p[4], ds[4];
        round_a(p, s, 0);
        round_a(ds, dp, 0);
#pragma unroll
        for (int i = 0; i < 4; i++) {
            int to = (lane / 4 + i % 2 * 8) * LDS + w0 + i / 2 * 8 + lane % 4 * 2;
            *(unsigned *)(turned[0] + to) = p[i];
            *(unsigned *)(turned[1] + to) = ds[i];
        }
        __syncthreads(); /* the scores are there */
        accumulate<D, TILE, N>(
            dv, [&](unsigned a[4], int c) { load_a<LDS>(a, turned[0], 0, c); }, g + d0);
        accumulate<D, TILE, N>(
            dk, [&](unsigned a[4], int c) { load_a<LDS>(a, turned[1], 0, c); }, q + d0);
        __syncthreads(); /* stage and scores may be filled again */
    }
    store_keys<D, N>(x, own, job.first, head, d0, keys, dk, dv);
}

/* The slices first: they take longest. */
template <int D> __global__ void __launch_bounds__(THREADS) k_dkv(Args<bf16> x)
{
    int i = blockIdx.x / x.kv_heads, head = blockIdx.x % x.kv_heads;
    if (i < x.nslices)
        slice<D>(x, x.slices[i], head);
    else
        whole<D>(x, x.wholes[i - x.nslices], head);
}

template <int D> void launch(const Args<bf16> &x, cudaStream_t stream)
{
    BIG_SMEM(k_dq<D>, SMEM<D>);
    BIG_SMEM(k_dkv<D>, SMEM<D>);
    LAUNCH(k_dq<D>, x.nrows * x.kv_heads, THREADS, SMEM<D>, stream, x);
    LAUNCH(k_dkv<D>, (x.nslices + x.nwholes) * x.kv_heads, THREADS, SMEM<D>, stream, x);
}

} // namespace

void backward::launch_tensor(const Args<bf16> &x, cudaStream_t stream)
{
    if (x.head_dim == 64)
        launch<64>(x, stream);
    else
        launch<128>(x, stream);
}

// SPDX-License-Identifier: Apache-2.0
/*
 * attention_backward_plain.cu: gradients of attention without tensor cores, for float and for
 * unusual head_dim. A block a job and kv head, a warp a row or key of it at a time. Scores: a lane
 * has a key (a row), of 32 at a time, and adds over head_dim, ascending; sums: a lane has
 * dimensions lane, lane + 32, ... and adds over keys (rows), ascending.
 */
#include "attention_backward.h"

namespace
{

using namespace backward;

constexpr int WARPS = 4, THREADS = 32 * WARPS;
constexpr int MAX_DIM = MINT_K_ATTENTION_DIM_MAX, PARTS = MAX_DIM / 32;

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
    float s = 0, t = 0;
    for (int d = 0; d < n; d++) {
        s = fmaf(pair.a[d], to_f32(a[d]), s);
        t = fmaf(pair.b[d], to_f32(b[d]), t);
    }
    *x = s;
    *y = t;
}

/* A lane's dimensions of sum += x row. */
template <class A> DEVICE void add_row(float sum[PARTS], float x, const A *row, int n)
{
#pragma unroll
    for (int i = 0; i < PARTS; i++) {
        int d = threadIdx.x % 32 + 32 * i;
        if (d < n)
            sum[i] = fmaf(x, to_f32(row[d]), sum[i]);
    }
}

DEVICE void store_sum(float *out, const float sum[PARTS], int n)
{
#pragma unroll
    for (int i = 0; i < PARTS; i++) {
        int d = threadIdx.x % 32 + 32 * i;
        if (d < n)
            out[d] = sum[i];
    }
}

template <class A> __global__ void __launch_bounds__(THREADS, 4) k_dq_plain(Args<A> x)
{
    SHARED(Pair, pairs, [WARPS]);
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32, head = blockIdx.x % x.kv_heads;
    int n = x.head_dim;
    Job job = x.rows[blockIdx.x / x.kv_heads];
    mint_k_seq seq = x.seqs[job.seq];
    for (int r = job.first + warp; r < min(job.first + ROWS, seq.rows * x.group); r += WARPS) {
        int64_t at = place(x, seq.row0, head, r);
        int keys = seq.pos0 + token_of(x, r) + 1;
        float lse2 = x.lse[at] * LOG2E, delta = x.delta[at], sum[PARTS] = {};
        load_pair(&pairs[warp], x.q + at * n, x.g + at * n, n);
        for (int k0 = 0; k0 < keys; k0 += 32) {
            int64_t k = keys_at(x, seq, k0, head), own = k + lane * n;
            bool seen = k0 + lane < keys;
            float s = 0, dp = 0, p, ds;
            if (seen)
                products(&s, &dp, pairs[warp], x.k + own, x.v + own, n);
            score(&p, &ds, s, dp, seen, x.scale, lse2, delta);
            ds = to_f32(to_act<A>(ds));
            for (int j = 0; j < min(32, keys - k0); j++)
                add_row(sum, __shfl_sync(~0u, ds, j), x.k + k + j * n, n);
        }
        store_sum(x.dq + at * n, sum, n);
    }
}

/* The keys from first on, n of them. */
template <class A> DEVICE void keys(const Args<A> &x, const Job &job, int head, int count)
{
    SHARED(Pair, pairs, [WARPS]);
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32, n = x.head_dim;
    mint_k_seq own = x.seqs[job.seq];
    int64_t k = keys_at(x, own, job.first, head);
    for (int j = warp; j < min(count, own.pos0 + own.rows - job.first); j += WARPS) {
        int64_t to = ((int64_t)(own.row0 + job.first - own.pos0 + j) * x.kv_heads + head) * n;
        float dk[PARTS] = {}, dv[PARTS] = {};
        Walk w = walk_from(x, job);
        load_pair(&pairs[warp], x.k + k + j * n, x.v + k + j * n, n);
        do {
            Row r = row_of(w, x, head, lane, 32);
            float s = 0, dp = 0, p, ds;
            if (j <= r.last) {
                int64_t at = place(x, w.row0, head, w.row + lane) * n;
                products(&s, &dp, pairs[warp], x.q + at, x.g + at, n);
            }
            score(&p, &ds, s, dp, j <= r.last, x.scale, r.lse2, r.delta);
            p = to_f32(to_act<A>(p));
            ds = to_f32(to_act<A>(ds));
            for (int i = 0; i < min(32, w.end - w.row); i++) {
                int64_t at = place(x, w.row0, head, w.row + i) * n;
                add_row(dv, __shfl_sync(~0u, p, i), x.g + at, n);
                add_row(dk, __shfl_sync(~0u, ds, i), x.q + at, n);
            }
        } while (walk_on(&w, x, 32));
        store_sum(x.dk + to, dk, n);
        store_sum(x.dv + to, dv, n);
    }
}

template <class A> __global__ void __launch_bounds__(THREADS, 4) k_dkv_plain(Args<A> x)
{
    int i = blockIdx.x / x.kv_heads, head = blockIdx.x % x.kv_heads;
    bool small = i < x.nslices;
    keys(x, small ? x.slices[i] : x.wholes[i - x.nslices], head, small ? SLICE : PAGE);
}

template <class A> void launch(const Args<A> &x, cudaStream_t stream)
{
    LAUNCH(k_dq_plain<A>, x.nrows * x.kv_heads, THREADS, 0, stream, x);
    LAUNCH(k_dkv_plain<A>, (x.nslices + x.nwholes) * x.kv_heads, THREADS, 0, stream, x);
}

} // namespace

void backward::launch_plain(const Args<bf16> &x, cudaStream_t stream)
{
    launch(x, stream);
}

void backward::launch_plain(const Args<float> &x, cudaStream_t stream)
{
    launch(x, stream);
}

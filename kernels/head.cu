// SPDX-License-Identifier: Apache-2.0
/*
 * head.cu: log-probabilities and entropies from logits that come in runs of columns:
 *
 *   lp = x[target] - lse,  lse = m + log(sum of e^(x - m)),  m = max x
 *   entropy = log(sum of e^(x - m)) - sum of e^(x - m) (x - m) / sum of e^(x - m)
 *
 * A row is cut into pieces of MINT_K_CHUNK columns wherever the runs begin and end; a block makes
 * the three sums of a piece (grid: row, piece), from values that stay in registers: thread i has
 * the columns 4i .. 4i+3 of each 4 THREADS, ascending. A second kernel, a thread a row, folds the
 * pieces in ascending order (head.h).
 */
#include "head.h"
#include "vec.h"

namespace
{

constexpr int THREADS = 256, OWN = MINT_K_CHUNK / (4 * THREADS);

struct Args {
    float4 *chunks; /* [T][pieces]; first: number of the first piece of this run */
    float *lp;
    const float *logits;
    int64_t ldl, cols, pieces, first;
    const int32_t *target;
    const mint_k_draw *draws;
    bool vec;
};

__global__ void __launch_bounds__(THREADS) k_pieces(Args p)
{
    SHARED(float, red, [4][32]);
    int64_t row = blockIdx.x, at = (int64_t)blockIdx.y * MINT_K_CHUNK;
    int64_t n = min((int64_t)MINT_K_CHUNK, p.cols - at), v0 = p.first * MINT_K_CHUNK + at;
    const float *x = p.logits + row * p.ldl + at;
    int64_t drawn = p.draws && p.draws[row].vocab > 0 ? p.draws[row].vocab - v0 : n;
    vec4 a[OWN];
    float max = -INFINITY, top = -INFINITY, sum = 0, dev = 0;
#pragma unroll
    for (int k = 0; k < OWN; k++) {
        int64_t i = 4 * (k * THREADS + threadIdx.x);
        a[k] = get4(x, i, n, p.vec, -INFINITY);
        for (int j = 0; j < 4; j++) {
            max = fmaxf(max, a[k].v[j]);
            top = i + j < drawn ? fmaxf(top, a[k].v[j]) : top;
        }
    }
    max = block_max<THREADS>(max, red[0]);
    top = block_max<THREADS>(top, red[1]);
    float base = max == -INFINITY ? 0 : max;
#pragma unroll
    for (int k = 0; k < OWN; k++)
        for (int j = 0; j < 4; j++) {
            float d = a[k].v[j] - base, e = exp_(d);
            sum += e;
            dev = fmaf(e, d > -128 ? d : -128, dev); /* 0, not 0 * inf */
        }
    sum = block_sum<THREADS>(sum, red[2]);
    dev = block_sum<THREADS>(dev, red[3]);
    if (threadIdx.x == 0) {
        p.chunks[row * p.pieces + p.first + blockIdx.y] = make_float4(max, sum, dev, top);
        if (p.target && p.target[row] >= v0 && p.target[row] < v0 + n)
            p.lp[row] = x[p.target[row] - v0];
    }
}

__global__ void __launch_bounds__(THREADS)
    k_final(float *lp, float *entropy, float *lse, const float4 *chunks, int64_t pieces, int64_t T)
{
    int64_t t = (int64_t)blockIdx.x * THREADS + threadIdx.x;
    if (t >= T)
        return;
    Piece all = fold(chunks + t * pieces, pieces);
    float log_sum = log_(all.sum);
    lp[t] = log_softmax(all, lp[t]);
    if (entropy)
        entropy[t] = log_sum - all.dev / all.sum;
    if (lse)
        lse[t] = all.max + log_sum;
}

} // namespace

void mint_k_pieces(float *chunks, float *lp, const float *logits, int64_t ldl,
                   const int32_t *target, const struct mint_k_draw *draws, int64_t T, int64_t v0,
                   int64_t cols, int64_t V, cudaStream_t stream)
{
    Args p = {(float4 *)chunks,
              lp,
              logits,
              ldl,
              cols,
              MINT_K_CHUNKS(V),
              v0 / MINT_K_CHUNK,
              target,
              draws,
              vec_rows(logits, ldl)};
    if (T > 0 && cols > 0)
        LAUNCH(k_pieces, dim3((unsigned)T, (unsigned)MINT_K_CHUNKS(cols)), THREADS, 0, stream, p);
}

void mint_k_logprob_chunks(float *chunks, float *lp, const float *logits, int64_t ldl,
                           const int32_t *target, int64_t T, int64_t v0, int64_t cols, int64_t V,
                           cudaStream_t stream)
{
    mint_k_pieces(chunks, lp, logits, ldl, target, nullptr, T, v0, cols, V, stream);
}

void mint_k_logprob_final(float *lp, float *entropy, float *lse, const float *chunks, int64_t T,
                          int64_t V, cudaStream_t stream)
{
    if (T > 0)
        LAUNCH(k_final, (unsigned)((T + THREADS - 1) / THREADS), THREADS, 0, stream, lp, entropy,
               lse, (const float4 *)chunks, MINT_K_CHUNKS(V), T);
}

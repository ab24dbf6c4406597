// SPDX-License-Identifier: Apache-2.0
/*
 * optim.cu: the optimiser step and the sum of squares for clipping. adam (Kingma and Ba 2015; decay
 * as Loshchilov and Hutter 2019), element by element, with h = grad_scale g:
 *
 *   m = beta1 m + (1 - beta1) h,  v = beta2 v + (1 - beta2) h^2
 *   p = (1 - lr weight_decay) p - lr / bias1 m / (sqrt(v / bias2) + eps)
 *
 * sumsq: a block sums a piece of MINT_K_SUMSQ_PIECE elements, a second launch the pieces. Thread i
 * has elements 4i .. 4i+3, 4 THREADS + 4i .., ascending; then lanes by halves, then warps in order.
 */
#include "kernels.h"
#include "vec.h"

namespace
{

constexpr int THREADS = 256, PIECE = MINT_K_SUMSQ_PIECE;

__global__ void __launch_bounds__(THREADS)
    k_adam(float *p, float *m, float *v, const float *g, int64_t n, mint_k_adam_step a, bool vec)
{
    int64_t i = 4 * ((int64_t)blockIdx.x * THREADS + threadIdx.x);
    if (i >= n)
        return;
    float keep = 1.0f - a.lr * a.weight_decay, step = a.lr / a.bias1, inv2 = 1.0f / a.bias2;
    vec4 q = get4(p, i, n, vec), s = get4(m, i, n, vec), t = get4(v, i, n, vec);
    vec4 grad = get4(g, i, n, vec);
    for (int j = 0; j < 4; j++) {
        float x = grad.v[j] * a.grad_scale;
        s.v[j] = a.beta1 * s.v[j] + (1.0f - a.beta1) * x;
        t.v[j] = a.beta2 * t.v[j] + (1.0f - a.beta2) * (x * x);
        q.v[j] = q.v[j] * keep - step * (s.v[j] / (sqrtf(t.v[j] * inv2) + a.eps));
    }
    put4(p, i, n, vec, q);
    put4(m, i, n, vec, s);
    put4(v, i, n, vec, t);
}

/* The sum over the block, in thread 0. */
DEVICE double sum_of_block(double x)
{
    SHARED(double, red, [THREADS / 32]);
    for (int o = 16; o; o >>= 1)
        x += __shfl_xor_sync(~0u, x, o);
    if (threadIdx.x % 32 == 0)
        red[threadIdx.x / 32] = x;
    __syncthreads();
    double sum = 0;
    for (int w = 0; w < THREADS / 32; w++)
        sum += red[w];
    return sum;
}

__global__ void __launch_bounds__(THREADS)
    k_sumsq_pieces(double *parts, const float *g, int64_t n, bool vec)
{
    int64_t begin = (int64_t)blockIdx.x * PIECE, end = min(begin + PIECE, n);
    double sum = 0;
    for (int64_t i = begin + 4 * threadIdx.x; i < end; i += 4 * THREADS) {
        vec4 x = get4(g, i, end, vec);
        for (int j = 0; j < 4; j++)
            sum += (double)x.v[j] * (double)x.v[j];
    }
    sum = sum_of_block(sum);
    if (threadIdx.x == 0)
        parts[blockIdx.x] = sum;
}

__global__ void __launch_bounds__(THREADS) k_sumsq(double *out, const double *parts, int64_t n)
{
    double sum = 0;
    for (int64_t i = threadIdx.x; i < n; i += THREADS)
        sum += parts[i];
    sum = sum_of_block(sum);
    if (threadIdx.x == 0)
        *out = sum;
}

} // namespace

void mint_k_adam(float *p, float *m, float *v, const float *g, int64_t n,
                 const struct mint_k_adam_step *a, cudaStream_t stream)
{
    bool vec = vec_rows(p, 0) && vec_rows(m, 0) && vec_rows(v, 0) && vec_rows(g, 0);
    unsigned blocks = (unsigned)((n + 4 * THREADS - 1) / (4 * THREADS));
    if (n > 0)
        LAUNCH(k_adam, blocks, THREADS, 0, stream, p, m, v, g, n, *a, vec);
}

void mint_k_sumsq(double *out, double *parts, const float *g, int64_t n, cudaStream_t stream)
{
    int64_t pieces = MINT_K_SUMSQ_PARTS(n);
    if (pieces > 0)
        LAUNCH(k_sumsq_pieces, (unsigned)pieces, THREADS, 0, stream, parts, g, n, vec_rows(g, 0));
    LAUNCH(k_sumsq, 1, THREADS, 0, stream, out, parts, pieces);
}

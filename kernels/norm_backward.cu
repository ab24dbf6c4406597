// SPDX-License-Identifier: Apache-2.0
/*
 * norm_backward.cu: the gradient of norm.cu by x. With r = 1 / sqrt(mean(x^2) + eps):
 *
 *   dx += r w dy - x r^3 / H sum(w dy x)
 *
 * A block a row, so a row's bits never depend on the others. Thread i sums over elements 4i ..
 * 4i+3, 4 THREADS + 4i .., ascending; then lanes by halves, then warps in order.
 */
#include "kernels.h"
#include "vec.h"

namespace
{

constexpr int THREADS = 256;

__global__ void __launch_bounds__(THREADS)
    k_rmsnorm_backward(float *dx, const float *dy, const float *x, const float *w, float eps,
                       int64_t H, bool vec)
{
    SHARED(float, red_square, [32]);
    SHARED(float, red_dot, [32]);
    float square = 0, dot = 0;
    dx += blockIdx.x * H;
    dy += blockIdx.x * H;
    x += blockIdx.x * H;
    for (int64_t i = 4 * threadIdx.x; i < H; i += 4 * THREADS) {
        vec4 a = get4(x, i, H, vec), d = get4(dy, i, H, vec), g = get4(w, i, H, vec);
        for (int j = 0; j < 4; j++) {
            square = fmaf(a.v[j], a.v[j], square);
            dot = fmaf(d.v[j] * g.v[j], a.v[j], dot);
        }
    }
    float r = 1.0f / sqrtf(block_sum<THREADS>(square, red_square) / (float)H + eps);
    float c = block_sum<THREADS>(dot, red_dot) * (r * r * r) / (float)H;
    for (int64_t i = 4 * threadIdx.x; i < H; i += 4 * THREADS) {
        vec4 a = get4(x, i, H, vec), d = get4(dy, i, H, vec), g = get4(w, i, H, vec);
        vec4 sum = get4(dx, i, H, vec);
        for (int j = 0; j < 4; j++)
            sum.v[j] += d.v[j] * g.v[j] * r - a.v[j] * c;
        put4(dx, i, H, vec, sum);
    }
}

} // namespace

void mint_k_rmsnorm_backward(float *dx, const float *dy, const float *x, const float *w, float eps,
                             int64_t T, int64_t H, cudaStream_t stream)
{
    bool vec = vec_rows(dx, H) && vec_rows(dy, H) && vec_rows(x, H) && vec_rows(w, H);
    if (T > 0)
        LAUNCH(k_rmsnorm_backward, (unsigned)T, THREADS, 0, stream, dx, dy, x, w, eps, H, vec);
}

// SPDX-License-Identifier: Apache-2.0
/*
 * norm.cu: out[t,:] = x[t,:] / sqrt(mean(x[t,:]^2) + eps) * w (Zhang and Sennrich 2019).
 * A block a row, so a row's bits never depend on the others. Thread i sums the squares of elements
 * 4i .. 4i+3, 4 THREADS + 4i .., ascending; then lanes by halves, then warps in order.
 */
#include "vec.h"

#include "kernels.h"

namespace
{

constexpr int THREADS = 256;

template <class A>
__global__ void __launch_bounds__(THREADS)
    k_rmsnorm(A *out, const float *x, const float *w, float eps, int64_t H, bool vec)
{
    SHARED(float, red, [32]);
    x += blockIdx.x * H;
    out += blockIdx.x * H;
    float sum = 0;
    for (int64_t i = 4 * threadIdx.x; i < H; i += 4 * THREADS) {
        vec4 a = get4(x, i, H, vec);
        for (int j = 0; j < 4; j++)
            sum = fmaf(a.v[j], a.v[j], sum);
    }
    float r = 1.0f / sqrtf(block_sum<THREADS>(sum, red) / (float)H + eps);
    for (int64_t i = 4 * threadIdx.x; i < H; i += 4 * THREADS) {
        vec4 a = get4(x, i, H, vec), g = get4(w, i, H, vec);
        for (int j = 0; j < 4; j++)
            a.v[j] = a.v[j] * r * g.v[j];
        put4(out, i, H, vec, a);
    }
}

template <class A>
void rmsnorm(A *out, const float *x, const float *w, float eps, int64_t T, int64_t H,
             cudaStream_t stream)
{
    bool vec = vec_rows(out, H) && vec_rows(x, H) && vec_rows(w, H);
    LAUNCH(k_rmsnorm<A>, (unsigned)T, THREADS, 0, stream, out, x, w, eps, H, vec);
}

} // namespace

void mint_k_rmsnorm(void *out, bool f32, const float *x, const float *w, float eps, int64_t T,
                    int64_t H, cudaStream_t stream)
{
    if (T < 1)
        return;
    if (f32)
        rmsnorm((float *)out, x, w, eps, T, H, stream);
    else
        rmsnorm((bf16 *)out, x, w, eps, T, H, stream);
}

// SPDX-License-Identifier: Apache-2.0
/*
 * head_backward.cu: dy[t,v] = dlp[t] (onehot(target[t]) - e^(logit[t,v] - lse[t])), the gradient by
 * the logits, for some columns of the vocabulary. A row lies along blockIdx.x, pieces of it along
 * blockIdx.y; a thread has four elements.
 */
#include "kernels.h"
#include "vec.h"

namespace
{

constexpr int THREADS = 256;

template <class A>
__global__ void __launch_bounds__(THREADS)
    k_dlogits(A *dy, int64_t lddy, const float *logits, int64_t ldl, const float *dlp,
              const float *lse, const int32_t *target, int64_t v0, int64_t cols, bool vec)
{
    int64_t i = 4 * ((int64_t)blockIdx.y * THREADS + threadIdx.x), t = blockIdx.x;
    if (i >= cols)
        return;
    float d = dlp[t], z = lse[t];
    int64_t hit = target[t] - v0 - i;
    vec4 x = get4(logits + t * ldl, i, cols, vec);
    for (int j = 0; j < 4; j++) {
        float p = exp_(x.v[j] - z);
        x.v[j] = j == hit ? d * (1.0f - p) : -(d * p);
    }
    put4(dy + t * lddy, i, cols, vec, x);
}

template <class A>
void dlogits(A *dy, int64_t lddy, const float *logits, int64_t ldl, const float *dlp,
             const float *lse, const int32_t *target, int64_t T, int64_t v0, int64_t cols,
             cudaStream_t stream)
{
    bool vec = vec_rows(dy, lddy) && vec_rows(logits, ldl);
    dim3 grid((unsigned)T, (unsigned)((cols + 4 * THREADS - 1) / (4 * THREADS)));
    LAUNCH(k_dlogits<A>, grid, THREADS, 0, stream, dy, lddy, logits, ldl, dlp, lse, target, v0,
           cols, vec);
}

} // namespace

void mint_k_dlogits(void *dy, int64_t lddy, bool f32, const float *logits, int64_t ldl,
                    const float *dlp, const float *lse, const int32_t *target, int64_t T,
                    int64_t v0, int64_t cols, cudaStream_t stream)
{
    if (T < 1 || cols < 1)
        return;
    if (f32)
        dlogits((float *)dy, lddy, logits, ldl, dlp, lse, target, T, v0, cols, stream);
    else
        dlogits((bf16 *)dy, lddy, logits, ldl, dlp, lse, target, T, v0, cols, stream);
}

// SPDX-License-Identifier: Apache-2.0
/*
 * head_backward.cu: the gradient by the logits z of the target's log-probability and the entropy,
 * for some columns of the vocabulary. With y = z - lse, p = e^y:
 *
 *   dz = dlp (onehot(target) - p) - dentropy p (y + entropy)
 *
 * A row lies along blockIdx.x, pieces of it along blockIdx.y; a thread has four elements.
 */
#include "kernels.h"
#include "vec.h"

namespace
{

constexpr int THREADS = 256;

template <class A>
__global__ void __launch_bounds__(THREADS)
    k_dlogits(A *dy, int64_t lddy, const float *logits, int64_t ldl, mint_k_head_grad g, int64_t v0,
              int64_t cols, bool vec)
{
    int64_t i = 4 * ((int64_t)blockIdx.y * THREADS + threadIdx.x), t = blockIdx.x;
    if (i >= cols)
        return;
    float lse = g.lse[t], d = g.dlp[t], dh = g.dentropy ? g.dentropy[t] : 0.0f;
    float h = dh != 0.0f ? g.entropy[t] : 0.0f;
    int64_t hit = g.target[t] - v0 - i;
    vec4 x = get4(logits + t * ldl, i, cols, vec);
    for (int j = 0; j < 4; j++) {
        float y = x.v[j] - lse, p = exp_(y);
        x.v[j] = j == hit ? d * (1.0f - p) : -(d * p);
        if (dh != 0.0f) /* an infinite log p goes with p = 0 */
            x.v[j] -= dh * (p * ((y > -128.0f ? y : -128.0f) + h));
    }
    put4(dy + t * lddy, i, cols, vec, x);
}

template <class A>
void dlogits(A *dy, int64_t lddy, const float *logits, int64_t ldl, const mint_k_head_grad &g,
             int64_t T, int64_t v0, int64_t cols, cudaStream_t stream)
{
    bool vec = vec_rows(dy, lddy) && vec_rows(logits, ldl);
    dim3 grid((unsigned)T, (unsigned)((cols + 4 * THREADS - 1) / (4 * THREADS)));
    LAUNCH(k_dlogits<A>, grid, THREADS, 0, stream, dy, lddy, logits, ldl, g, v0, cols, vec);
}

} // namespace

void mint_k_dlogits(void *dy, int64_t lddy, bool f32, const float *logits, int64_t ldl,
                    const struct mint_k_head_grad *g, int64_t T, int64_t v0, int64_t cols,
                    cudaStream_t stream)
{
    if (T < 1 || cols < 1)
        return;
    if (f32)
        dlogits((float *)dy, lddy, logits, ldl, *g, T, v0, cols, stream);
    else
        dlogits((bf16 *)dy, lddy, logits, ldl, *g, T, v0, cols, stream);
}

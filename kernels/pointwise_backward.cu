// SPDX-License-Identifier: Apache-2.0
/*
 * pointwise_backward.cu: gradients element by element. swiglu, with s = 1 / (1 + e^-g):
 *
 *   dg = dout u s (1 + g (1 - s)),  du = dout g s
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
    k_swiglu_backward(A *dgu, const float *dout, const float *gu, int64_t F, bool vec)
{
    int64_t i = 4 * ((int64_t)blockIdx.y * THREADS + threadIdx.x);
    if (i >= F)
        return;
    dgu += blockIdx.x * 2 * F;
    gu += blockIdx.x * 2 * F;
    vec4 d = get4(dout + blockIdx.x * F, i, F, vec);
    vec4 g = get4(gu, i, F, vec), u = get4(gu + F, i, F, vec);
    for (int j = 0; j < 4; j++) {
        float x = g.v[j], y = d.v[j], s = 1.0f / (1.0f + exp_(-x));
        g.v[j] = y * u.v[j] * (s * (1.0f + x * (1.0f - s)));
        u.v[j] = y * (x * s);
    }
    put4(dgu, i, F, vec, g);
    put4(dgu + F, i, F, vec, u);
}

template <class A>
void swiglu_backward(A *dgu, const float *dout, const float *gu, int64_t T, int64_t F,
                     cudaStream_t stream)
{
    bool vec = vec_rows(dgu, F) && vec_rows(dout, F) && vec_rows(gu, F);
    dim3 grid((unsigned)T, (unsigned)((F + 4 * THREADS - 1) / (4 * THREADS)));
    LAUNCH(k_swiglu_backward<A>, grid, THREADS, 0, stream, dgu, dout, gu, F, vec);
}

} // namespace

void mint_k_swiglu_backward(void *dgu, bool f32, const float *dout, const float *gu, int64_t T,
                            int64_t F, cudaStream_t stream)
{
    if (T < 1)
        return;
    if (f32)
        swiglu_backward((float *)dgu, dout, gu, T, F, stream);
    else
        swiglu_backward((bf16 *)dgu, dout, gu, T, F, stream);
}

// SPDX-License-Identifier: Apache-2.0
/*
 * optim.cu: what is done to lists of tensors: additions of leaves, the optimiser step, the sum of
 * squares for clipping, conversion. A block looks its tensor up in the list, by bisection, and has
 * a step of its elements; a thread has four.
 *
 * fold: the additions of a tensor in their order, so that the tree is the caller's. A thread sees
 * only its own elements of all arrays, and so nobody waits for anybody.
 *
 * adam (Kingma and Ba 2015; decay as Loshchilov and Hutter 2019), element by element, with h =
 * grad_scale g:
 *
 *   m = beta1 m + (1 - beta1) h,  v = beta2 v + (1 - beta2) h^2
 *   p = (1 - lr weight_decay) p - lr / bias1 m / (sqrt(v / bias2) + eps)
 *
 * sumsq: a block sums a piece of MINT_K_SUMSQ_PIECE elements, a second launch the pieces of each
 * tensor. Thread i has elements 4i .. 4i+3, 4 THREADS + 4i .., ascending; then lanes by halves,
 * then warps in order.
 */
#include "kernels.h"
#include "vec.h"

namespace
{

constexpr int THREADS = 256, STEP = MINT_K_LIST_STEP, PIECE = MINT_K_SUMSQ_PIECE;
static_assert(STEP == 4 * THREADS, "a thread has four elements");

/* The tensor of this block: the last one whose first block is not behind it. */
template <class T> DEVICE T mine(const T *list, int count)
{
    int low = 0, high = count - 1;
    while (low < high) {
        int mid = (low + high + 1) / 2;
        if (list[mid].block <= blockIdx.x)
            low = mid;
        else
            high = mid - 1;
    }
    return list[low];
}

DEVICE bool by_four(uintptr_t addresses)
{
    return addresses % 16 == 0;
}

__global__ void __launch_bounds__(THREADS)
    k_fold(const mint_k_sum *list, int count, const mint_k_addition *add)
{
    mint_k_sum f = mine(list, count);
    int64_t i = STEP * (blockIdx.x - f.block) + 4 * threadIdx.x;
    if (i >= f.n)
        return;
    for (int64_t k = f.add0; k < f.add0 + f.count; k++) {
        float *to = global(add[k].x);
        const float *from = global(add[k].y);
        bool vec = by_four((uintptr_t)to | (uintptr_t)from);
        vec4 x = get4(to, i, f.n, vec), y = get4(from, i, f.n, vec);
        for (int j = 0; j < 4; j++)
            x.v[j] += y.v[j];
        put4(to, i, f.n, vec, x);
    }
}

__global__ void __launch_bounds__(THREADS)
    k_adam(const mint_k_adam_tensor *list, int count, mint_k_adam_step a)
{
    mint_k_adam_tensor x = mine(list, count);
    int64_t i = STEP * (blockIdx.x - x.block) + 4 * threadIdx.x;
    if (i >= x.n)
        return;
    float *p = global(x.p), *m = global(x.m), *v = global(x.v);
    const float *g = global(x.g);
    bool vec = by_four((uintptr_t)p | (uintptr_t)m | (uintptr_t)v | (uintptr_t)g);
    float keep = 1.0f - a.lr * a.weight_decay, step = a.lr / a.bias1, inv2 = 1.0f / a.bias2;
    vec4 q = get4(p, i, x.n, vec), s = get4(m, i, x.n, vec), t = get4(v, i, x.n, vec);
    vec4 grad = get4(g, i, x.n, vec);
    for (int j = 0; j < 4; j++) {
        float h = grad.v[j] * a.grad_scale;
        s.v[j] = a.beta1 * s.v[j] + (1.0f - a.beta1) * h;
        t.v[j] = a.beta2 * t.v[j] + (1.0f - a.beta2) * (h * h);
        q.v[j] = q.v[j] * keep - step * (s.v[j] / (sqrtf(t.v[j] * inv2) + a.eps));
    }
    put4(p, i, x.n, vec, q);
    put4(m, i, x.n, vec, s);
    put4(v, i, x.n, vec, t);
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
    k_sumsq_pieces(double *parts, const mint_k_tensor *list, int count)
{
    mint_k_tensor t = mine(list, count);
    int64_t begin = PIECE * (blockIdx.x - t.block), end = min(begin + PIECE, t.n);
    const float *g = global(t.x);
    bool vec = by_four((uintptr_t)g);
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

/* A block a tensor. */
__global__ void __launch_bounds__(THREADS)
    k_sumsq(double *out, const double *parts, const mint_k_tensor *list)
{
    mint_k_tensor t = list[blockIdx.x];
    int64_t end = t.block + (t.n + PIECE - 1) / PIECE;
    double sum = 0;
    for (int64_t i = t.block + threadIdx.x; i < end; i += THREADS)
        sum += parts[i];
    sum = sum_of_block(sum);
    if (threadIdx.x == 0)
        out[blockIdx.x] = sum;
}

template <class A>
__global__ void __launch_bounds__(THREADS) k_cast_all(const mint_k_tensor *list, int count)
{
    mint_k_tensor t = mine(list, count);
    int64_t i = STEP * (blockIdx.x - t.block) + 4 * threadIdx.x;
    const float *x = global(t.x);
    A *out = global((A *)t.out);
    bool vec = by_four((uintptr_t)x | (uintptr_t)out);
    if (i < t.n)
        put4(out, i, t.n, vec, get4(x, i, t.n, vec));
}

} // namespace

void mint_k_fold(const struct mint_k_sum *list, int64_t count, int64_t blocks,
                 const struct mint_k_addition *add, cudaStream_t stream)
{
    if (blocks > 0)
        LAUNCH(k_fold, (unsigned)blocks, THREADS, 0, stream, list, (int)count, add);
}

void mint_k_adam(const struct mint_k_adam_tensor *list, int64_t count, int64_t blocks,
                 const struct mint_k_adam_step *a, cudaStream_t stream)
{
    if (blocks > 0)
        LAUNCH(k_adam, (unsigned)blocks, THREADS, 0, stream, list, (int)count, *a);
}

void mint_k_sumsq(double *out, double *parts, const struct mint_k_tensor *list, int64_t count,
                  int64_t blocks, cudaStream_t stream)
{
    if (blocks > 0)
        LAUNCH(k_sumsq_pieces, (unsigned)blocks, THREADS, 0, stream, parts, list, (int)count);
    if (count > 0)
        LAUNCH(k_sumsq, (unsigned)count, THREADS, 0, stream, out, parts, list);
}

void mint_k_cast_all(const struct mint_k_tensor *list, int64_t count, int64_t blocks, bool f32,
                     cudaStream_t stream)
{
    if (blocks < 1)
        return;
    if (f32)
        LAUNCH(k_cast_all<float>, (unsigned)blocks, THREADS, 0, stream, list, (int)count);
    else
        LAUNCH(k_cast_all<bf16>, (unsigned)blocks, THREADS, 0, stream, list, (int)count);
}

// SPDX-License-Identifier: Apache-2.0
/*
 * pointwise.cu: operations element by element, and rows moved about. A thread has four neighbouring
 * elements; rows (swiglu, embed, gather, scatter) have a block each, along blockIdx.x.
 */
#include "vec.h"

#include "kernels.h"

namespace
{

constexpr int THREADS = 256;

unsigned blocks_of(int64_t n)
{
    return (unsigned)((n + 4 * THREADS - 1) / (4 * THREADS));
}

template <class A>
__global__ void __launch_bounds__(THREADS)
    k_embed(float *x, const A *table, const int32_t *ids, int64_t K, bool vec)
{
    const A *row = table + ids[blockIdx.x] * K;
    x += blockIdx.x * K;
    for (int64_t i = 4 * threadIdx.x; i < K; i += 4 * THREADS)
        put4(x, i, K, vec, get4(row, i, K, vec));
}

template <class A>
__global__ void __launch_bounds__(THREADS) k_swiglu(A *out, const float *gu, int64_t F, bool vec)
{
    const float *g = gu + blockIdx.x * 2 * F, *u = g + F;
    int64_t i = 4 * (int64_t)(blockIdx.y * THREADS + threadIdx.x);
    if (i >= F)
        return;
    vec4 a = get4(g, i, F, vec), b = get4(u, i, F, vec);
    for (int j = 0; j < 4; j++)
        a.v[j] = a.v[j] / (1.0f + exp_(-a.v[j])) * b.v[j];
    put4(out + blockIdx.x * F, i, F, vec, a);
}

__global__ void __launch_bounds__(THREADS) k_add(float *x, const float *y, int64_t n, bool vec)
{
    int64_t i = 4 * ((int64_t)blockIdx.x * THREADS + threadIdx.x);
    if (i >= n)
        return;
    vec4 a = get4(x, i, n, vec), b = get4(y, i, n, vec);
    for (int j = 0; j < 4; j++)
        a.v[j] += b.v[j];
    put4(x, i, n, vec, a);
}

template <class A>
__global__ void __launch_bounds__(THREADS) k_cast(A *out, const float *x, int64_t n, bool vec)
{
    int64_t i = 4 * ((int64_t)blockIdx.x * THREADS + threadIdx.x);
    if (i < n)
        put4(out, i, n, vec, get4(x, i, n, vec));
}

/* Row blockIdx.x of n units; its number in the other matrix is rows[blockIdx.x]. */
template <class U>
__global__ void __launch_bounds__(THREADS)
    k_move(U *out, const U *x, const int32_t *rows, int64_t n, bool scatter)
{
    int64_t here = blockIdx.x, there = rows[here];
    out += (scatter ? there : here) * n;
    x += (scatter ? here : there) * n;
    for (int64_t i = threadIdx.x; i < n; i += THREADS)
        out[i] = x[i];
}

template <class A>
void embed(float *x, const A *table, const int32_t *ids, int64_t T, int64_t K, cudaStream_t stream)
{
    bool vec = vec_rows(x, K) && vec_rows(table, K);
    LAUNCH(k_embed<A>, (unsigned)T, THREADS, 0, stream, x, table, ids, K, vec);
}

/* Few rows are spread over more blocks. */
template <class A> void swiglu(A *out, const float *gu, int64_t T, int64_t F, cudaStream_t stream)
{
    bool vec = vec_rows(out, F) && vec_rows(gu, F);
    LAUNCH(k_swiglu<A>, dim3((unsigned)T, blocks_of(F)), THREADS, 0, stream, out, gu, F, vec);
}

template <class A> void cast(A *out, const float *x, int64_t n, cudaStream_t stream)
{
    bool vec = vec_rows(out, 0) && vec_rows(x, 0);
    LAUNCH(k_cast<A>, blocks_of(n), THREADS, 0, stream, out, x, n, vec);
}

template <class U>
void move_units(void *out, const void *x, const int32_t *rows, int64_t n, int64_t row_bytes,
                bool scatter, cudaStream_t stream)
{
    LAUNCH(k_move<U>, (unsigned)n, THREADS, 0, stream, (U *)out, (const U *)x, rows,
           row_bytes / (int64_t)sizeof(U), scatter);
}

void move_rows(void *out, const void *x, const int32_t *rows, int64_t n, int64_t row_bytes,
               bool scatter, cudaStream_t stream)
{
    uint64_t unit = (uintptr_t)out | (uintptr_t)x | (uint64_t)row_bytes;
    if (n < 1 || row_bytes < 1)
        return;
    if (unit % 16 == 0)
        move_units<uint4>(out, x, rows, n, row_bytes, scatter, stream);
    else if (unit % 4 == 0)
        move_units<uint32_t>(out, x, rows, n, row_bytes, scatter, stream);
    else
        move_units<uint16_t>(out, x, rows, n, row_bytes, scatter, stream);
}

} // namespace

void mint_k_embed(float *x, const void *table, bool f32, const int32_t *ids, int64_t T, int64_t K,
                  cudaStream_t stream)
{
    if (T < 1)
        return;
    if (f32)
        embed(x, (const float *)table, ids, T, K, stream);
    else
        embed(x, (const bf16 *)table, ids, T, K, stream);
}

void mint_k_swiglu(void *out, bool f32, const float *gu, int64_t T, int64_t F, cudaStream_t stream)
{
    if (T < 1)
        return;
    if (f32)
        swiglu((float *)out, gu, T, F, stream);
    else
        swiglu((bf16 *)out, gu, T, F, stream);
}

void mint_k_add(float *x, const float *y, int64_t n, cudaStream_t stream)
{
    bool vec = vec_rows(x, 0) && vec_rows(y, 0);
    if (n > 0)
        LAUNCH(k_add, blocks_of(n), THREADS, 0, stream, x, y, n, vec);
}

void mint_k_cast(void *out, bool f32, const float *x, int64_t n, cudaStream_t stream)
{
    if (n < 1)
        return;
    if (f32)
        cast((float *)out, x, n, stream);
    else
        cast((bf16 *)out, x, n, stream);
}

void mint_k_gather(void *out, const void *x, const int32_t *rows, int64_t n, int64_t row_bytes,
                   cudaStream_t stream)
{
    move_rows(out, x, rows, n, row_bytes, false, stream);
}

void mint_k_scatter(void *out, const void *x, const int32_t *rows, int64_t n, int64_t row_bytes,
                    cudaStream_t stream)
{
    move_rows(out, x, rows, n, row_bytes, true, stream);
}

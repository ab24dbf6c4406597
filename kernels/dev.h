/* SPDX-License-Identifier: Apache-2.0 */
/*
 * dev.h: what a kernel source includes. Under nvcc: the CUDA headers. Elsewhere: the emulator of
 * tests/kernels. All that a plain C++ compiler cannot parse or run is here and nowhere else:
 *
 *   SHARED, DYN_SHARED, LAUNCH, BIG_SMEM   four macros for four pieces of CUDA
 *   cp_async16, cp_async_commit/wait       asynchronous copies
 *   mma_bf16, ldmatrix                     tensor-core steps
 *
 * Rules for kernels: full warps, blockDim a multiple of 32; one block never waits for another; no
 * float atomics; no approximate function (exp2_, log_ and 1/sqrtf instead of __expf, __logf,
 * rsqrtf); a*b+c is fused only by fmaf (nvcc -fmad=false, g++ -ffp-contract=off). So a kernel
 * computes the same bits here and there.
 */
#ifndef MINT_DEV_H
#define MINT_DEV_H

#ifdef __CUDACC__
#include <cstdint>
#include <cuda_bf16.h>
#include <cuda_runtime.h>
#define SHARED(T, name, dims) __shared__ T name dims
#define DYN_SHARED(T, name)                                       \
    extern __shared__ __align__(128) unsigned char dyn_shared_[]; \
    T *name = reinterpret_cast<T *>(dyn_shared_)
#define LAUNCH(k, grid, block, smem, stream, ...) \
    (k)<<<(grid), (block), (smem), (stream)>>>(__VA_ARGS__)
/* Before a launch of k with more than 48 KiB of dynamic shared memory. */
#define BIG_SMEM(k, bytes) \
    cudaFuncSetAttribute((const void *)(k), cudaFuncAttributeMaxDynamicSharedMemorySize, (bytes))
#else
#include "cuda_emu.h"
#define SHARED(T, name, dims)          \
    static const char name##_site = 0; \
    typedef T name##_t dims;           \
    name##_t &name = *(name##_t *)emu::shared(&name##_site, sizeof(name##_t), 16)
#define DYN_SHARED(T, name) T *name = (T *)emu::m.dyn
#define LAUNCH(k, grid, block, smem, stream, ...) \
    emu::launch(#k, k, grid, block, smem, stream, __VA_ARGS__)
#define BIG_SMEM(k, bytes) ((void)(k), (void)(bytes))
#endif

#define DEVICE static __device__ __forceinline__

typedef __nv_bfloat16 bf16;

/* ---- asynchronous copies of 16 bytes to shared memory; ok false writes zeros. The target is
 * garbage until cp_async_wait<N>: all but the last N committed groups are done after it. */

#ifdef __CUDACC__
DEVICE void cp_async16(void *dst, const void *src, bool ok)
{
    unsigned d = (unsigned)__cvta_generic_to_shared(dst);
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;\n" ::"r"(d), "l"(src),
                 "r"(ok ? 16 : 0)
                 : "memory");
}
DEVICE void cp_async_commit()
{
    asm volatile("cp.async.commit_group;\n" ::: "memory");
}
template <int N> DEVICE void cp_async_wait()
{
    asm volatile("cp.async.wait_group %0;\n" ::"n"(N) : "memory");
}
#else
DEVICE void cp_async16(void *dst, const void *src, bool ok)
{
    ((uint64_t *)dst)[0] = ((uint64_t *)dst)[1] = ~0ull;
    emu::copy_later(dst, src, !ok);
}
DEVICE void cp_async_commit()
{
    emu::m.cur->cp_group++;
}
template <int N> static inline void cp_async_wait(EMU_HERE)
{
    emu::copies_wait(N, file, line);
}
#endif

/* ---- tensor-core steps. mma_bf16: c[16x8] += a[16x16] b[16x8], bf16 in, fp32 accumulators. With
 * g = lane / 4, t = lane % 4, a lane holds
 *   a: rows g, g+8 (a[0], a[1]: columns 2t, 2t+1; a[2], a[3]: columns 2t+8, 2t+9)
 *   b: column g (b[0]: k = 2t, 2t+1; b[1]: k = 2t+8, 2t+9)
 *   c: c[0], c[1] row g, columns 2t, 2t+1; c[2], c[3] row g+8
 * ldmatrix<N, TRANS>: N matrices of 8x8 bf16 from shared memory; lane 8i+j gives the address of
 * row j of matrix i, 16-byte aligned (the lanes from 8N on: any valid address). r[i]: elements
 * (g, 2t), (g, 2t+1) of matrix i or of its transpose. */

#ifdef __CUDACC__
DEVICE void mma_bf16(float c[4], const unsigned a[4], const unsigned b[2])
{
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
                 "{%0,%1,%2,%3},{%4,%5,%6,%7},{%8,%9},{%0,%1,%2,%3};\n"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
#define LDMATRIX_(n, trans, form, ...)                                             \
    asm volatile("ldmatrix.sync.aligned.m8n8.x" #n trans ".shared.b16 " form ";\n" \
                 : __VA_ARGS__                                                     \
                 : "r"((unsigned)__cvta_generic_to_shared(row))                    \
                 : "memory")
template <int N, bool TRANS> DEVICE void ldmatrix(unsigned r[N], const void *row)
{
    static_assert(N == 2 || N == 4, "ldmatrix of 2 or 4 matrices");
    if constexpr (N == 2 && TRANS)
        LDMATRIX_(2, ".trans", "{%0,%1}, [%2]", "=r"(r[0]), "=r"(r[1]));
    else if constexpr (N == 2)
        LDMATRIX_(2, "", "{%0,%1}, [%2]", "=r"(r[0]), "=r"(r[1]));
    else if constexpr (TRANS)
        LDMATRIX_(4, ".trans", "{%0,%1,%2,%3}, [%4]", "=r"(r[0]), "=r"(r[1]), "=r"(r[2]),
                  "=r"(r[3]));
    else
        LDMATRIX_(4, "", "{%0,%1,%2,%3}, [%4]", "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]));
}
#undef LDMATRIX_
#else
DEVICE void mma_bf16(float c[4], const unsigned a[4], const unsigned b[2], EMU_HERE)
{
    emu::mma(c, a, b, file, line);
}
template <int N, bool TRANS> static inline void ldmatrix(unsigned r[N], const void *row, EMU_HERE)
{
    static_assert(N == 2 || N == 4, "ldmatrix of 2 or 4 matrices");
    emu::ldmatrix<N, TRANS>(r, row, file, line);
}
#endif

/* ---- a pointer to global memory that was itself read from memory: of a kernel's arguments the
 * compiler knows it, of these it has to be told. */

#ifdef __CUDACC__
template <class T> DEVICE T *global(T *p)
{
    __builtin_assume(__isGlobal(p));
    return p;
}
#else
template <class T> DEVICE T *global(T *p)
{
    return p;
}
#endif

/* ---- 16-byte accesses. (A copy of a struct of four bf162 compiles to four accesses of 4.) */

struct alignas(16) bf16x8 {
    __nv_bfloat162 v[4];
};
DEVICE bf16x8 load8(const bf16 *p)
{
    uint4 u = *(const uint4 *)p;
    bf16x8 r;
    memcpy((void *)&r, &u, 16);
    return r;
}
DEVICE void store8(bf16 *p, bf16x8 v)
{
    uint4 u;
    memcpy((void *)&u, &v, 16);
    *(uint4 *)p = u;
}
DEVICE unsigned pack_bf16(float lo, float hi)
{
    __nv_bfloat162 p = __floats2bfloat162_rn(lo, hi);
    unsigned u;
    memcpy(&u, &p, 4);
    return u;
}

/* ---- act, the activation type: bf16 or float by the device's precision; kernels are templates. */

DEVICE float to_f32(float x)
{
    return x;
}
DEVICE float to_f32(bf16 x)
{
    return __bfloat162float(x);
}
template <class A> DEVICE A to_act(float x)
{
    if constexpr (sizeof(A) == 2)
        return __float2bfloat16_rn(x);
    else
        return x;
}

/* ---- functions made of +, *, fmaf, / and integer steps: the same bits everywhere. */

/* 2^x within 2 units in the last place; 0 below 2^-126, +inf from 2^128 on; NaN stays NaN. Without
 * branches, so that neighbouring values are computed side by side. */
DEVICE float exp2_(float x)
{
    float t = x + 12582912.0f, f = x - (t - 12582912.0f), p = 1.54035304e-4f;
    p = fmaf(p, f, 1.33335581e-3f);
    p = fmaf(p, f, 9.61812911e-3f);
    p = fmaf(p, f, 5.55041087e-2f);
    p = fmaf(p, f, 2.40226507e-1f);
    p = fmaf(p, f, 6.93147182e-1f);
    p = fmaf(p, f, 1.0f);
    p = __uint_as_float(__float_as_uint(p) + (__float_as_uint(t) << 23));
    p = x < -126.0f ? 0.0f : p;
    return x < 128.0f ? p : x * INFINITY;
}
#define LOG2E 1.4426950408889634f
#define LN2   0.6931471805599453f

/* e^x, log x, cos and sin: the formulas, and the bits, of lib/cpu/vmath.h, which explains them. */
DEVICE float exp_(float x)
{
    const float big = 12582912.0f;
    float t = fmaf(x, 1.44269504f, big), n = t - big;
    float r = fmaf(n, -1.42860677e-6f, fmaf(n, -0.693145751953125f, x));
    float q = fmaf(r, 1.3814320554956794e-3f, 8.368851616978645e-3f);
    q = fmaf(r, q, 4.1668400168418884e-2f);
    q = fmaf(r, q, 0.1666651964187622f);
    q = fmaf(r, q, 0.4999999403953552f);
    float y = fmaf(r * r, q, r) + 1.0f;
    y = __uint_as_float(__float_as_uint(y) + (__float_as_uint(t) << 23));
    y = x < -87.3365402f ? 0.0f : y;
    y = x > 88.7228317f ? INFINITY : y;
    return x != x ? x : y;
}
DEVICE float log_(float x)
{
    unsigned u = __float_as_uint(x);
    int k = (int)(u - 0x3f3504f3u) >> 23;
    float f = __uint_as_float(u - ((unsigned)k << 23)) - 1.0f;
    float s = f / (2.0f + f), z = s * s;
    float g = fmaf(z, 0.23332767188549042f, 0.2855072319507599f);
    g = fmaf(z, g, 0.4000012278556824f);
    g = fmaf(z, g, 0.6666666865348816f);
    float y = fmaf(-s, fmaf(-z, g, f), f);
    y = fmaf((float)k, 0.693145751953125f, fmaf((float)k, 1.42860677e-6f, y));
    y = x < 1.17549435e-38f ? -INFINITY : y;
    y = x < 0.0f ? __uint_as_float(0x7fffffffu) : y;
    return x < INFINITY ? y : x;
}
/* Of 0 <= a <= 2^20, correctly rounded but for rare ties. */
DEVICE void sincos_(float a, float *c, float *s)
{
    const double big = 6755399441055744.0;
    double t = (double)a * 0.63661977236758134 + big, n = t - big;
    unsigned turn = (unsigned)__double_as_longlong(t);
    double r =
        (((double)a - n * 0x1.921fb544p+0) - n * 0x1.0b4611a6p-34) - n * 0x1.3198a2e037073p-69;
    double z = r * r, p, q;
    p = z * (-1.0 / 1307674368000.0) + 1.0 / 6227020800.0;
    p = z * p - 1.0 / 39916800.0;
    p = z * p + 1.0 / 362880.0;
    p = z * p - 1.0 / 5040.0;
    p = z * p + 1.0 / 120.0;
    p = z * p - 1.0 / 6.0;
    p = r + r * z * p;
    q = z * (1.0 / 20922789888000.0) - 1.0 / 87178291200.0;
    q = z * q + 1.0 / 479001600.0;
    q = z * q - 1.0 / 3628800.0;
    q = z * q + 1.0 / 40320.0;
    q = z * q - 1.0 / 720.0;
    q = z * q + 1.0 / 24.0;
    q = z * q - 0.5;
    q = 1.0 + z * q;
    double u = turn & 1 ? p : q, v = turn & 1 ? q : p;
    *c = (float)((turn + 1) & 2 ? -u : u);
    *s = (float)(turn & 2 ? -v : v);
}

/* ---- reductions: the same bits in all lanes, in a fixed order. */

DEVICE float warp_sum(float v)
{
    for (int o = 16; o; o >>= 1)
        v += __shfl_xor_sync(~0u, v, o);
    return v;
}
DEVICE float warp_max(float v)
{
    for (int o = 16; o; o >>= 1)
        v = fmaxf(v, __shfl_xor_sync(~0u, v, o));
    return v;
}
/* Over the block of THREADS; red: 32 floats of shared memory, which this kernel uses once only (or
 * after a barrier again). */
template <int THREADS> DEVICE float block_sum(float v, float *red)
{
    v = warp_sum(v);
    if (threadIdx.x % 32 == 0)
        red[threadIdx.x / 32] = v;
    __syncthreads();
    float s = 0;
    for (int w = 0; w < THREADS / 32; w++)
        s += red[w];
    return s;
}
template <int THREADS> DEVICE float block_max(float v, float *red)
{
    v = warp_max(v);
    if (threadIdx.x % 32 == 0)
        red[threadIdx.x / 32] = v;
    __syncthreads();
    float s = red[0];
    for (int w = 1; w < THREADS / 32; w++)
        s = fmaxf(s, red[w]);
    return s;
}

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cuda_emu.h: what a kernel source sees instead of the CUDA headers when a plain C++17 compiler
 * compiles it: the language (built-in variables, vector types, bf16), barriers, warp collectives,
 * atomics, intrinsics; and the slice of the runtime that the host code uses. The machine behind it
 * is emu_machine.h, the tensor cores are emu_tensor.h.
 * Conversions have the bits of the toolkit's headers (types_check compares them).
 */
#ifndef CUDA_EMU_H
#define CUDA_EMU_H

#include "emu_machine.h"

/* ---- language. */

#define __global__
#define __device__
#define __host__
#define __constant__    static
#define __forceinline__ inline __attribute__((always_inline))
#define __launch_bounds__(...)
#define __restrict__ __restrict
#define threadIdx (emu::m.cur->tid)
#define blockIdx  (emu::m.bidx)
#define blockDim  (emu::m.block)
#define gridDim   (emu::m.grid)
#define warpSize  32

struct alignas(8) float2 {
    float x, y;
};
struct alignas(16) float4 {
    float x, y, z, w;
};
struct alignas(8) int2 {
    int x, y;
};
struct alignas(16) int4 {
    int x, y, z, w;
};
struct alignas(8) uint2 {
    unsigned x, y;
};
struct alignas(16) uint4 {
    unsigned x, y, z, w;
};
struct alignas(16) double2 {
    double x, y;
};
static inline float2 make_float2(float a, float b)
{
    return {a, b};
}
static inline float4 make_float4(float a, float b, float c, float d)
{
    return {a, b, c, d};
}
static inline int4 make_int4(int a, int b, int c, int d)
{
    return {a, b, c, d};
}
static inline uint2 make_uint2(unsigned a, unsigned b)
{
    return {a, b};
}
static inline uint4 make_uint4(unsigned a, unsigned b, unsigned c, unsigned d)
{
    return {a, b, c, d};
}

/* ---- bits and bf16 (round to nearest, ties to even). */

static inline float __uint_as_float(unsigned u)
{
    float f;
    __builtin_memcpy(&f, &u, 4);
    return f;
}
static inline unsigned __float_as_uint(float f)
{
    unsigned u;
    __builtin_memcpy(&u, &f, 4);
    return u;
}
static inline int __float_as_int(float f)
{
    return (int)__float_as_uint(f);
}
static inline float __int_as_float(int i)
{
    return __uint_as_float((unsigned)i);
}
static inline long long __double_as_longlong(double d)
{
    long long l;
    __builtin_memcpy(&l, &d, 8);
    return l;
}
static inline double __longlong_as_double(long long l)
{
    double d;
    __builtin_memcpy(&d, &l, 8);
    return d;
}
struct __nv_bfloat16 {
    uint16_t x;
};
struct alignas(4) __nv_bfloat162 {
    __nv_bfloat16 x, y;
};
static inline float __bfloat162float(__nv_bfloat16 h)
{
    return __uint_as_float((unsigned)h.x << 16);
}
static inline __nv_bfloat16 __float2bfloat16_rn(float f)
{
    unsigned u = __float_as_uint(f);
    if ((u & 0x7fffffffu) > 0x7f800000u)
        return {0x7fff};
    return {(uint16_t)((u + 0x7fffu + ((u >> 16) & 1u)) >> 16)};
}
static inline __nv_bfloat16 __ushort_as_bfloat16(unsigned short u)
{
    return {u};
}
static inline unsigned short __bfloat16_as_ushort(__nv_bfloat16 h)
{
    return h.x;
}
static inline __nv_bfloat162 __floats2bfloat162_rn(float a, float b)
{
    return {__float2bfloat16_rn(a), __float2bfloat16_rn(b)};
}
static inline float2 __bfloat1622float2(__nv_bfloat162 v)
{
    return {__bfloat162float(v.x), __bfloat162float(v.y)};
}

/* ---- barriers, fences, warp collectives. */

static inline void __syncthreads(EMU_HERE)
{
    emu::barrier(file, line);
}
static inline void __syncwarp(uint32_t mask = ~0u, EMU_HERE)
{
    emu::syncwarp(mask, file, line);
}

namespace emu
{

template <class T>
EMU_RAW inline T exchange(uint32_t mask, T v, unsigned src, const char *file, int line)
{
    static_assert(sizeof(T) <= 8, "shuffles move up to 8 bytes");
    uint64_t w = 0;
    __builtin_memcpy(&w, &v, sizeof(T));
    unsigned buf;
    Coll *c = meet(mask, &w, 1, &buf, file, line);
    if (!(mask >> (src & 31) & 1))
        fail("%s:%d: shuffle reads lane %u, which is not in mask %08x", file, line, src & 31, mask);
    uint64_t r = c->v[buf][src & 31][0];
    __builtin_memcpy(&v, &r, sizeof(T));
    return v;
}

EMU_RAW inline uint32_t ballot(uint32_t mask, bool p, const char *file, int line)
{
    uint64_t w = p;
    unsigned buf;
    Coll *c = meet(mask, &w, 1, &buf, file, line);
    uint32_t r = 0;
    for (unsigned l = 0; l < 32; l++)
        if (mask >> l & 1)
            r |= (uint32_t)(c->v[buf][l][0] & 1) << l;
    return r;
}

inline unsigned segment(unsigned lane, int width)
{
    return lane & ~(unsigned)(width - 1);
}

} // namespace emu

template <class T>
static inline T __shfl_sync(uint32_t mask, T v, int src, int width = 32, EMU_HERE)
{
    unsigned l = emu::m.cur->lane, from = (unsigned)src & (unsigned)(width - 1);
    return emu::exchange(mask, v, emu::segment(l, width) | from, file, line);
}
template <class T>
static inline T __shfl_xor_sync(uint32_t mask, T v, int x, int width = 32, EMU_HERE)
{
    unsigned l = emu::m.cur->lane, s = l ^ (unsigned)x;
    bool in = s < emu::segment(l, width) + (unsigned)width;
    return emu::exchange(mask, v, in ? s : l, file, line);
}
template <class T>
static inline T __shfl_down_sync(uint32_t mask, T v, unsigned d, int width = 32, EMU_HERE)
{
    unsigned l = emu::m.cur->lane, s = l + d;
    bool in = s < emu::segment(l, width) + (unsigned)width;
    return emu::exchange(mask, v, in ? s : l, file, line);
}
template <class T>
static inline T __shfl_up_sync(uint32_t mask, T v, unsigned d, int width = 32, EMU_HERE)
{
    unsigned l = emu::m.cur->lane;
    return emu::exchange(mask, v, l >= emu::segment(l, width) + d ? l - d : l, file, line);
}
static inline uint32_t __ballot_sync(uint32_t mask, int p, EMU_HERE)
{
    return emu::ballot(mask, p != 0, file, line);
}
static inline int __any_sync(uint32_t mask, int p, EMU_HERE)
{
    return emu::ballot(mask, p != 0, file, line) != 0;
}
static inline int __all_sync(uint32_t mask, int p, EMU_HERE)
{
    return emu::ballot(mask, p != 0, file, line) == mask;
}

/* ---- integer atomics (relaxed, as in CUDA), intrinsics. Floats have none: their sums would depend
 * on the order. */

template <class T> static inline T atomicAdd(T *p, T v)
{
    static_assert(std::is_integral_v<T>, "no float atomics");
    return __atomic_fetch_add(p, v, __ATOMIC_RELAXED);
}
template <class T> static inline T atomicOr(T *p, T v)
{
    return __atomic_fetch_or(p, v, __ATOMIC_RELAXED);
}
template <class T> static inline T atomicMax(T *p, T v)
{
    static_assert(std::is_integral_v<T>, "no float atomics");
    T o = __atomic_load_n(p, __ATOMIC_RELAXED);
    while (o < v &&
           !__atomic_compare_exchange_n(p, &o, v, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
    }
    return o;
}
template <class T> static inline T __ldg(const T *p)
{
    return *p;
}
template <class T> static inline T __ldcs(const T *p)
{
    return *p;
}
template <class T> static inline void __stcs(T *p, T v)
{
    *p = v;
}
template <class T> static inline void __stcg(T *p, T v)
{
    *p = v;
}
static inline int __popc(unsigned x)
{
    return __builtin_popcount(x);
}
static inline int __ffs(int x)
{
    return __builtin_ffs(x);
}
static inline int __clz(int x)
{
    return x ? __builtin_clz((unsigned)x) : 32;
}
static inline unsigned __umulhi(unsigned a, unsigned b)
{
    return (unsigned)(((uint64_t)a * b) >> 32);
}
template <class T> static inline T min(T a, T b)
{
    return b < a ? b : a;
}
template <class T> static inline T max(T a, T b)
{
    return a < b ? b : a;
}

#include "emu_runtime.h"
#include "emu_tensor.h"

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * vec.h: rows four elements at a time. Where the rows are aligned (vec) in one access of 16 bytes
 * (bf16: 8), else and at the end of a row element by element; a thread gets the same elements, so
 * that sums have the same order, either way.
 */
#ifndef MINT_VEC_H
#define MINT_VEC_H

#include "dev.h"

struct vec4 {
    float v[4];
};

/* Whether rows at p with this stride may be read by four. */
template <class A> static inline bool vec_rows(const A *p, int64_t stride)
{
    return (uintptr_t)p % (4 * sizeof(A)) == 0 && stride % 4 == 0;
}

/* Elements i .. i+3 of the n at p; behind n: fill. */
DEVICE vec4 get4(const float *p, int64_t i, int64_t n, bool vec, float fill = 0.0f)
{
    vec4 r;
    if (vec && i + 4 <= n) {
        float4 f = *(const float4 *)(p + i);
        r = {f.x, f.y, f.z, f.w};
    } else {
        for (int j = 0; j < 4; j++)
            r.v[j] = i + j < n ? p[i + j] : fill;
    }
    return r;
}

DEVICE vec4 get4(const bf16 *p, int64_t i, int64_t n, bool vec, float fill = 0.0f)
{
    vec4 r;
    if (vec && i + 4 <= n) {
        uint2 u = *(const uint2 *)(p + i);
        r = {__uint_as_float(u.x << 16), __uint_as_float(u.x & 0xffff0000u),
             __uint_as_float(u.y << 16), __uint_as_float(u.y & 0xffff0000u)};
    } else {
        for (int j = 0; j < 4; j++)
            r.v[j] = i + j < n ? to_f32(p[i + j]) : fill;
    }
    return r;
}

/* __stcg is one access for sure: of plain stores the compiler sometimes makes four again. */
DEVICE void put4(float *p, int64_t i, int64_t n, bool vec, vec4 x)
{
    if (vec && i + 4 <= n)
        __stcg((float4 *)(p + i), make_float4(x.v[0], x.v[1], x.v[2], x.v[3]));
    else
        for (int j = 0; j < 4 && i + j < n; j++)
            p[i + j] = x.v[j];
}

DEVICE void put4(bf16 *p, int64_t i, int64_t n, bool vec, vec4 x)
{
    if (vec && i + 4 <= n)
        __stcg((uint2 *)(p + i), make_uint2(pack_bf16(x.v[0], x.v[1]), pack_bf16(x.v[2], x.v[3])));
    else
        for (int j = 0; j < 4 && i + j < n; j++)
            p[i + j] = to_act<bf16>(x.v[j]);
}

#endif

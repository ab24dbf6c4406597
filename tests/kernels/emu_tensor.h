/* SPDX-License-Identifier: Apache-2.0 */
/*
 * emu_tensor.h: tensor-core steps for the emulator, as exchanges between the lanes of a warp.
 *
 * mma.sync m16n8k16 on bf16, bit for bit as public measurements describe the Hopper hardware
 * (mma.sync and wgmma alike; microsoft/MMA-Sim): the 16 exact products and the accumulator are cut
 * towards zero to 25 fractional bits below the largest exponent among them, added exactly, and the
 * sum is cut to fp32. A product's exponent is the sum of its operands' exponents, not normalised.
 */
#ifndef EMU_TENSOR_H
#define EMU_TENSOR_H

#ifdef __clang__
#define EMU_FAST
#else
#define EMU_FAST __attribute__((optimize("O3")))
#endif

namespace emu
{

/* Sixteen bf16: signed 8-bit significands and exponents (of zero: very low). */
struct Row16 {
    int32_t m[16], e[16];
    bool special; /* an infinity or NaN among them */
};

EMU_RAW static inline void unpack(Row16 *r, int k, unsigned h)
{
    int e = h >> 7 & 255, m = (int)(h & 127) | (e ? 128 : 0);
    r->special |= e == 255;
    r->m[k] = h & 0x8000 ? -m : m;
    r->e[k] = m ? (e ? e : 1) - 127 : -5000;
}

/* With infinities or NaN around: what is finite is exact, anything else is NaN. */
EMU_RAW static inline float dot16_special(float c, const Row16 *a, const Row16 *b)
{
    double s = c;
    for (int i = 0; i < 16; i++)
        s += ldexp(a->m[i], a->e[i]) * ldexp(b->m[i], b->e[i]);
    return s != s || a->special || b->special ? __uint_as_float(0x7fffffff) : (float)s;
}

/* sum * 2^(hi - 25), cut to fp32 */
EMU_RAW static inline float cut(int64_t sum, int hi)
{
    if (sum == 0)
        return 0;
    uint64_t mag = (uint64_t)(sum < 0 ? -sum : sum);
    int msb = 63 - __builtin_clzll(mag), exp = hi - 25 + msb, drop = msb - 23;
    if (exp > 127)
        return sum < 0 ? -INFINITY : INFINITY;
    if (exp < -126)
        drop += -126 - exp;
    uint64_t f = drop >= 64 ? 0 : drop >= 0 ? mag >> drop : mag << -drop;
    unsigned r = exp < -126 ? (unsigned)f : (unsigned)(f & 0x7fffff) | (unsigned)(exp + 127) << 23;
    return __uint_as_float(r | (sum < 0 ? 0x80000000u : 0));
}

EMU_FAST EMU_RAW static inline float dot16(float c, const Row16 *a, const Row16 *b)
{
    unsigned uc = __float_as_uint(c);
    int ec = uc >> 23 & 255, mc = (int)(uc & 0x7fffff) | (ec ? 0x800000 : 0);
    int top = mc ? (ec ? ec : 1) - 127 : -20000;
    if (a->special || b->special || ec == 255)
        return dot16_special(c, a, b);
    int32_t e[16], v[16], hi = top;
    for (int i = 0; i < 16; i++)
        e[i] = a->e[i] + b->e[i];
    for (int i = 0; i < 16; i++)
        hi = hi > e[i] ? hi : e[i];
    for (int i = 0; i < 16; i++) { /* 14 fractional bits -> 25 */
        int32_t p = a->m[i] * b->m[i], d = hi - e[i];
        int32_t q = ((p < 0 ? -p : p) << 11) >> (d > 31 ? 31 : d);
        v[i] = p < 0 ? -q : q;
    }
    int32_t lo = 0, up = 0; /* 8 values below 2^28 fit 32 bits */
    for (int i = 0; i < 8; i++) {
        lo += v[i];
        up += v[i + 8];
    }
    int d = hi - top;
    int64_t acc = (int64_t)(mc << 2) >> (d > 31 ? 31 : d);
    return cut((int64_t)lo + up + (uc >> 31 ? -acc : acc), hi);
}

/* The whole 16x8 result at once; v[lane]: a0a1 a2a3 b0b1 c0c1 c2c3. */
EMU_RAW static inline void mma_warp(uint64_t (*v)[5])
{
    Row16 a[16], b[8];
    for (int i = 0; i < 16; i++)
        a[i].special = false;
    for (int i = 0; i < 8; i++)
        b[i].special = false;
    for (unsigned l = 0; l < 32; l++)
        for (unsigned h = 0; h < 4; h++) { /* k = 2t, 2t+1, 2t+8, 2t+9 */
            int k = (int)((h & 2) * 4 + l % 4 * 2 + (h & 1));
            unsigned at = 16 * (h & 1);
            unpack(&a[l / 4], k, (unsigned)(v[l][h / 2] >> at) & 0xffff);            /* a0, a2 */
            unpack(&a[l / 4 + 8], k, (unsigned)(v[l][h / 2] >> (32 + at)) & 0xffff); /* a1, a3 */
            unpack(&b[l / 4], k, (unsigned)(v[l][2] >> (16 * h)) & 0xffff);
        }
    for (unsigned l = 0; l < 32; l++) {
        float c[4];
        __builtin_memcpy(c, &v[l][3], 16);
        for (unsigned o = 0; o < 4; o++)
            c[o] = dot16(c[o], &a[l / 4 + (o & 2) * 4], &b[l % 4 * 2 + (o & 1)]);
        __builtin_memcpy(&v[l][3], c, 16);
    }
}

EMU_RAW static inline void mma(float c[4], const unsigned a[4], const unsigned b[2],
                               const char *file, int line)
{
    uint64_t w[5] = {a[0] | (uint64_t)a[1] << 32, a[2] | (uint64_t)a[3] << 32,
                     b[0] | (uint64_t)b[1] << 32, 0, 0};
    __builtin_memcpy(&w[3], c, 16);
    unsigned buf;
    Coll *k = meet(~0u, w, 5, &buf, file, line, mma_warp);
    __builtin_memcpy(c, &k->v[buf][m.cur->lane][3], 16);
}

/* Lanes 8i .. 8i+7 give the rows of matrix i (8 rows of 8 bf16); N matrices. r[i]: of matrix i
 * transposed or not, the two elements 2t, 2t+1 of row g, g = lane / 4, t = lane % 4. */
template <int N, bool TRANS>
static inline void ldmatrix(unsigned r[N], const void *row, const char *file, int line)
{
    if ((uintptr_t)row & 15)
        fail("%s:%d: ldmatrix row not 16-byte aligned", file, line);
    uint64_t w = (uint64_t)(uintptr_t)row;
    unsigned buf, lane = m.cur->lane, g = lane / 4, t = lane % 4;
    Coll *k = meet(~0u, &w, 1, &buf, file, line);
    for (unsigned i = 0; i < N; i++) {
        auto at = [&](unsigned j) { return (const uint16_t *)(uintptr_t)k->v[buf][i * 8 + j][0]; };
        r[i] = TRANS ? at(2 * t)[g] | (unsigned)at(2 * t + 1)[g] << 16
                     : at(g)[2 * t] | (unsigned)at(g)[2 * t + 1] << 16;
    }
}

} // namespace emu
#endif

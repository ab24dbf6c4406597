/* SPDX-License-Identifier: Apache-2.0 */
/* The stored types: sizes, names, conversions between them and float32, by bits: no dependence on
 * FTZ/DAZ or on the CPU. */
#include <string.h>

#include "safetensors.h"

size_t mint_dtype_bytes(enum mint_dtype t)
{
    return t == MINT_F32 ? 4 : t == MINT_BF16 || t == MINT_F16 ? 2 : 0;
}

const char *mint_dtype_name(enum mint_dtype t)
{
    static const char *const names[] = {"F32", "BF16", "F16", "OTHER"};
    return names[t];
}

const char *mint_dtype_torch(enum mint_dtype t)
{
    static const char *const names[] = {"float32", "bfloat16", "float16", "other"};
    return names[t];
}

static uint32_t f16_widen(uint16_t h)
{
    uint32_t sign = (uint32_t)(h & 0x8000) << 16, exp = h >> 10 & 31, man = h & 0x3ff;
    if (exp == 31)
        return sign | 0x7f800000 | man << 13;
    if (exp)
        return sign | (exp + 112) << 23 | man << 13;
    if (!man)
        return sign;
    int shift = __builtin_clz(man) - 21; /* brings the leading bit to bit 10 */
    return sign | (uint32_t)(113 - shift) << 23 | (man << shift & 0x3ff) << 13;
}

static uint16_t f16_round(uint32_t u)
{
    uint16_t sign = (uint16_t)(u >> 16 & 0x8000);
    uint32_t a = u & 0x7fffffff;
    if (a > 0x7f800000)
        return (uint16_t)(sign | 0x7e00 | (a >> 13 & 0x1ff));
    if (a >= 0x477ff000) /* 65520 and above round to infinity */
        return (uint16_t)(sign | 0x7c00);
    if (a >= 0x38800000) { /* normal: drop 13 bits, half to even */
        a += 0xfff + (a >> 13 & 1);
        return (uint16_t)(sign | ((a - 0x38000000) >> 13));
    }
    if (a < 0x33000000) /* below half of the smallest subnormal */
        return sign;
    uint32_t man = (a & 0x7fffff) | 0x800000, shift = 126 - (a >> 23);
    uint32_t q = man >> shift, rest = man & ((1u << shift) - 1), half = 1u << (shift - 1);
    q += rest > half || (rest == half && (q & 1));
    return (uint16_t)(sign | q);
}

static uint16_t bf16_round(uint32_t u)
{
    uint32_t nan = u >> 16 | 0x40; /* NaN stays NaN, made quiet */
    uint32_t near = (u + 0x7fff + (u >> 16 & 1)) >> 16;
    return (uint16_t)((u & 0x7fffffff) > 0x7f800000 ? nan : near);
}

void mint_dtype_to_f32(enum mint_dtype t, const void *in, float *out, size_t n)
{
    const char *p = in;
    if (t == MINT_F32) {
        if (n)
            memcpy(out, in, n * 4);
        return;
    }
    for (size_t i = 0; i < n; i++) {
        uint16_t h;
        memcpy(&h, p + 2 * i, 2);
        uint32_t u = t == MINT_BF16 ? (uint32_t)h << 16 : f16_widen(h);
        memcpy(out + i, &u, 4);
    }
}

void mint_dtype_from_f32(enum mint_dtype t, const float *in, void *out, size_t n)
{
    char *p = out;
    if (t == MINT_F32) {
        if (n)
            memcpy(out, in, n * 4);
        return;
    }
    for (size_t i = 0; t == MINT_F16 && i < n; i++) {
        uint32_t u;
        memcpy(&u, in + i, 4);
        uint16_t h = f16_round(u);
        memcpy(p + 2 * i, &h, 2);
    }
    for (size_t i = 0; t == MINT_BF16 && i < n; i++) { /* loops of their own: a model is long */
        uint32_t u;
        memcpy(&u, in + i, 4);
        uint16_t h = bf16_round(u);
        memcpy(p + 2 * i, &h, 2);
    }
}

int mint_st_to_f32(const struct mint_st_tensor *t, float *out, struct mint_err *err)
{
    if (t->dtype == MINT_DTYPE_OTHER)
        return mint_fail(err, MINT_EMODEL,
                         "tensor \"%s\" is of type %s; only F32, BF16 and F16 are read", t->name,
                         t->dtype_text);
    mint_dtype_to_f32(t->dtype, t->data, out, t->bytes / mint_dtype_bytes(t->dtype));
    return 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * num_swar.h: eight digits at a time in one 64-bit word, without a branch for each. The first
 * character of the text is the lowest byte.
 */
#ifndef MINT_NUM_SWAR_H
#define MINT_NUM_SWAR_H

#include <string.h>

#include "base.h"

static inline uint64_t mint_swar_load(const char *p)
{
    uint64_t w;
    memcpy(&w, p, sizeof w);
    return __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__ ? __builtin_bswap64(w) : w;
}

static inline void mint_swar_store(char *p, uint64_t w)
{
    if (__BYTE_ORDER__ == __ORDER_BIG_ENDIAN__)
        w = __builtin_bswap64(w);
    memcpy(p, &w, sizeof w);
}

/* The top bit of each of the eight characters that is no digit. */
static inline uint64_t mint_swar_others(uint64_t w)
{
    uint64_t x = w ^ UINT64_C(0x3030303030303030); /* a digit is 0 to 9 now */
    uint64_t over = (x & UINT64_C(0x7f7f7f7f7f7f7f7f)) + UINT64_C(0x7676767676767676);
    return (over | x) & UINT64_C(0x8080808080808080);
}

/* How many of the eight characters, from the first on, are digits. */
static inline int mint_swar_count(uint64_t w)
{
    uint64_t other = mint_swar_others(w);
    return other ? __builtin_ctzll(other) >> 3 : 8;
}

/* Value of the first n digits, 1 <= n <= 8. */
static inline uint32_t mint_swar_value(uint64_t w, int n)
{
    uint64_t x = (w & UINT64_C(0x0f0f0f0f0f0f0f0f)) << 8 * (8 - n); /* zeros in front */
    x = (x * 10 + (x >> 8)) & UINT64_C(0x00ff00ff00ff00ff);         /* pairs */
    x = (x * 100 + (x >> 16)) & UINT64_C(0x0000ffff0000ffff);
    return (uint32_t)(x * 10000 + (x >> 32));
}

/* The number that s[0..n) begins with, if it is one to seven digits and n >= 8: returns how many.
 * 0: something else. */
static inline int mint_swar_read(const char *s, size_t n, int32_t *v)
{
    if (n < 8)
        return 0;
    uint64_t w = mint_swar_load(s);
    int digits = mint_swar_count(w);
    if (digits == 0 || digits == 8)
        return 0;
    *v = (int32_t)mint_swar_value(w, digits);
    return digits;
}

/* The eight characters of v < 10^8, with zeros in front. */
static inline uint64_t mint_swar_digits(uint32_t v)
{
    uint64_t x = v / 10000 | (uint64_t)(v % 10000) << 32;
    uint64_t hundreds = x * 10486 >> 20 & UINT64_C(0x0000007f0000007f);
    x = hundreds | (x - 100 * hundreds) << 16;
    uint64_t tens = x * 103 >> 10 & UINT64_C(0x000f000f000f000f);
    x = tens | (x - 10 * tens) << 8;
    return x | UINT64_C(0x3030303030303030);
}

/* Characters that v takes without the zeros in front, at least 1; digits is mint_swar_digits(v). */
static inline int mint_swar_length(uint32_t v, uint64_t digits)
{
    uint64_t x = (digits ^ UINT64_C(0x3030303030303030)) | (uint64_t)(v == 0) << 56;
    return 8 - (__builtin_ctzll(x) >> 3);
}

#endif

/* SPDX-License-Identifier: Apache-2.0 */
#include "hash.h"

#include <string.h>

#if defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>
#endif

static const uint32_t k256[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2,
};

static uint32_t rotate(uint32_t x, int n)
{
    return x >> n | x << (32 - n);
}

static void blocks_plain(uint32_t h[8], const uint8_t *p, size_t n)
{
    for (; n > 0; n--, p += 64) {
        uint32_t w[64], a = h[0], b = h[1], c = h[2], d = h[3], e = h[4], f = h[5], g = h[6],
                        i = h[7];
        for (int t = 0; t < 16; t++)
            w[t] = (uint32_t)p[4 * t] << 24 | (uint32_t)p[4 * t + 1] << 16 |
                   (uint32_t)p[4 * t + 2] << 8 | p[4 * t + 3];
        for (int t = 16; t < 64; t++) {
            uint32_t x = w[t - 15], y = w[t - 2];
            w[t] = w[t - 16] + (rotate(x, 7) ^ rotate(x, 18) ^ x >> 3) + w[t - 7] +
                   (rotate(y, 17) ^ rotate(y, 19) ^ y >> 10);
        }
        for (int t = 0; t < 64; t++) {
            uint32_t t1 = i + (rotate(e, 6) ^ rotate(e, 11) ^ rotate(e, 25)) +
                          ((e & f) ^ (~e & g)) + k256[t] + w[t];
            uint32_t t2 =
                (rotate(a, 2) ^ rotate(a, 13) ^ rotate(a, 22)) + ((a & b) ^ (a & c) ^ (b & c));
            i = g;
            g = f;
            f = e;
            e = d + t1;
            d = c;
            c = b;
            b = a;
            a = t1 + t2;
        }
        h[0] += a;
        h[1] += b;
        h[2] += c;
        h[3] += d;
        h[4] += e;
        h[5] += f;
        h[6] += g;
        h[7] += i;
    }
}

#if defined(__x86_64__)
static bool have_sha(void)
{
    unsigned a, b, c, d, leaf1_c;
    if (!__get_cpuid(1, &a, &b, &leaf1_c, &d) || !__get_cpuid_count(7, 0, &a, &b, &c, &d))
        return false;
    return (b & 1u << 29) && (leaf1_c & bit_SSE4_1) && (leaf1_c & bit_SSSE3);
}

/*
 * The SHA extensions keep the state as ABEF and CDGH and do two rounds an instruction. Four message
 * vectors go round: m[i] holds the words of rounds 4i to 4i+3, and is replaced by those of four
 * groups on.
 */
#define SHA_TARGET __attribute__((target("sha,sse4.1,ssse3")))
#define SHA_INLINE SHA_TARGET __attribute__((always_inline)) static inline

struct lanes {
    __m128i abef, cdgh, m[4];
};

SHA_INLINE void load_state(struct lanes *l, const uint32_t h[8])
{
    __m128i dcba = _mm_loadu_si128((const __m128i *)(const void *)h);
    __m128i hgfe = _mm_loadu_si128((const __m128i *)(const void *)(h + 4));
    __m128i cdab = _mm_shuffle_epi32(dcba, 0xb1), efgh = _mm_shuffle_epi32(hgfe, 0x1b);
    l->abef = _mm_alignr_epi8(cdab, efgh, 8);
    l->cdgh = _mm_blend_epi16(efgh, cdab, 0xf0);
}

SHA_INLINE void store_state(const struct lanes *l, uint32_t h[8])
{
    __m128i feba = _mm_shuffle_epi32(l->abef, 0x1b), dchg = _mm_shuffle_epi32(l->cdgh, 0xb1);
    _mm_storeu_si128((__m128i *)(void *)h, _mm_blend_epi16(feba, dchg, 0xf0));
    _mm_storeu_si128((__m128i *)(void *)(h + 4), _mm_alignr_epi8(dchg, feba, 8));
}

SHA_INLINE void load_block(struct lanes *l, const uint8_t *p)
{
    const __m128i swap = _mm_set_epi64x(0x0c0d0e0f08090a0b, 0x0405060700010203);
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++)
        l->m[i] =
            _mm_shuffle_epi8(_mm_loadu_si128((const __m128i *)(const void *)(p + 16 * i)), swap);
}

/* Rounds 4g to 4g+3. */
SHA_INLINE void four_rounds(struct lanes *l, int g)
{
    __m128i now = l->m[g & 3], last = l->m[(g + 3) & 3];
    __m128i wk = _mm_add_epi32(now, _mm_loadu_si128((const __m128i *)(const void *)(k256 + 4 * g)));
    l->cdgh = _mm_sha256rnds2_epu32(l->cdgh, l->abef, wk);
    l->abef = _mm_sha256rnds2_epu32(l->abef, l->cdgh, _mm_shuffle_epi32(wk, 0x0e));
    __m128i sum = _mm_add_epi32(_mm_sha256msg1_epu32(now, l->m[(g + 1) & 3]),
                                _mm_alignr_epi8(last, l->m[(g + 2) & 3], 4));
    l->m[g & 3] = _mm_sha256msg2_epu32(sum, last);
}

SHA_TARGET static void blocks_sha(uint32_t h[8], const uint8_t *p, size_t n)
{
    struct lanes l;
    load_state(&l, h);
    for (; n > 0; n--, p += 64) {
        __m128i abef = l.abef, cdgh = l.cdgh;
        load_block(&l, p);
#pragma GCC unroll 16
        for (int g = 0; g < 16; g++)
            four_rounds(&l, g);
        l.abef = _mm_add_epi32(l.abef, abef);
        l.cdgh = _mm_add_epi32(l.cdgh, cdgh);
    }
    store_state(&l, h);
}

/* The rounds of one text wait for each other; those of another one fill the gaps. */
SHA_TARGET static void blocks_sha_two(uint32_t h[8], const uint8_t *p, uint32_t i[8],
                                      const uint8_t *q, size_t n)
{
    struct lanes a, b;
    load_state(&a, h);
    load_state(&b, i);
    for (; n > 0; n--, p += 64, q += 64) {
        __m128i a0 = a.abef, a1 = a.cdgh, b0 = b.abef, b1 = b.cdgh;
        load_block(&a, p);
        load_block(&b, q);
#pragma GCC unroll 16
        for (int g = 0; g < 16; g++) {
            four_rounds(&a, g);
            four_rounds(&b, g);
        }
        a.abef = _mm_add_epi32(a.abef, a0);
        a.cdgh = _mm_add_epi32(a.cdgh, a1);
        b.abef = _mm_add_epi32(b.abef, b0);
        b.cdgh = _mm_add_epi32(b.cdgh, b1);
    }
    store_state(&a, h);
    store_state(&b, i);
}
#endif

static void blocks(struct mint_sha256 *s, const uint8_t *p, size_t n)
{
#if defined(__x86_64__)
    if (s->fast) {
        blocks_sha(s->h, p, n);
        return;
    }
#endif
    blocks_plain(s->h, p, n);
}

void mint_sha256_init(struct mint_sha256 *s)
{
    *s = (struct mint_sha256){.h = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f,
                                    0x9b05688c, 0x1f83d9ab, 0x5be0cd19}};
#if defined(__x86_64__)
    s->fast = have_sha();
#endif
}

void mint_sha256_add(struct mint_sha256 *s, const void *p, size_t n)
{
    const uint8_t *u = p;
    size_t have = s->bytes % 64;
    if (n == 0)
        return;
    s->bytes += n;
    if (have > 0) {
        size_t take = MINT_MIN(64 - have, n);
        memcpy(s->block + have, u, take);
        u += take;
        n -= take;
        if (have + take < 64)
            return;
        blocks(s, s->block, 1);
    }
    if (n >= 64)
        blocks(s, u, n / 64);
    if (n % 64 > 0)
        memcpy(s->block, u + n / 64 * 64, n % 64);
}

void mint_sha256_add_two(struct mint_sha256 *s, const void *p, struct mint_sha256 *t, const void *q,
                         size_t n)
{
#if defined(__x86_64__)
    if (s->fast && t->fast && s->bytes % 64 == 0 && t->bytes % 64 == 0) {
        size_t whole = n / 64 * 64;
        blocks_sha_two(s->h, p, t->h, q, n / 64);
        s->bytes += whole;
        t->bytes += whole;
        p = (const uint8_t *)p + whole;
        q = (const uint8_t *)q + whole;
        n -= whole;
    }
#endif
    mint_sha256_add(s, p, n);
    mint_sha256_add(t, q, n);
}

void mint_sha256_end(struct mint_sha256 *s, uint8_t out[32])
{
    static const uint8_t padding[64] = {0x80};
    uint64_t bits = s->bytes * 8;
    uint8_t length[8];
    size_t have = s->bytes % 64;
    for (int i = 0; i < 8; i++)
        length[i] = (uint8_t)(bits >> (56 - 8 * i));
    mint_sha256_add(s, padding, have < 56 ? 56 - have : 120 - have);
    mint_sha256_add(s, length, sizeof length);
    for (int i = 0; i < 32; i++)
        out[i] = (uint8_t)(s->h[i / 4] >> (24 - 8 * (i % 4)));
}

void mint_sha256_end_text(struct mint_sha256 *s, char out[MINT_SHA256_TEXT])
{
    static const char hex[] = "0123456789abcdef";
    uint8_t digest[32];
    mint_sha256_end(s, digest);
    memcpy(out, "sha256:", 7);
    for (int i = 0; i < 32; i++) {
        out[7 + 2 * i] = hex[digest[i] >> 4];
        out[8 + 2 * i] = hex[digest[i] & 15];
    }
    out[71] = '\0';
}

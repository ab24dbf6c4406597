/* SPDX-License-Identifier: Apache-2.0 */
#include "rng.h"

#include <math.h>

#include "hash.h"

void mint_philox(const uint32_t key[2], const uint32_t counter[4], uint32_t out[4])
{
    uint32_t k0 = key[0], k1 = key[1];
    uint32_t c0 = counter[0], c1 = counter[1], c2 = counter[2], c3 = counter[3];
    for (int round = 0; round < 10; round++) {
        uint64_t a = UINT64_C(0xD2511F53) * c0, b = UINT64_C(0xCD9E8D57) * c2;
        uint32_t n0 = (uint32_t)(b >> 32) ^ c1 ^ k0, n2 = (uint32_t)(a >> 32) ^ c3 ^ k1;
        c1 = (uint32_t)b;
        c3 = (uint32_t)a;
        c0 = n0;
        c2 = n2;
        k0 += 0x9E3779B9; /* the golden ratio */
        k1 += 0xBB67AE85; /* sqrt(3) - 1 */
    }
    out[0] = c0;
    out[1] = c1;
    out[2] = c2;
    out[3] = c3;
}

static void block(uint64_t seed, uint64_t stream, uint32_t index, uint32_t position,
                  uint32_t out[4])
{
    uint32_t key[2] = {(uint32_t)seed, (uint32_t)(seed >> 32)};
    uint32_t counter[4] = {position, index, (uint32_t)stream, (uint32_t)(stream >> 32)};
    mint_philox(key, counter, out);
}

float mint_rng_uniform(uint64_t seed, uint64_t stream, uint32_t index, uint32_t position)
{
    uint32_t r[4];
    block(seed, stream, index, position, r);
    return (float)(r[0] >> 8) * 0x1p-24f;
}

/* Words of the block that uniform does not use, so that both may be drawn at one place. */
uint64_t mint_rng_u64(uint64_t seed, uint64_t stream, uint32_t index, uint32_t position)
{
    uint32_t r[4];
    block(seed, stream, index, position, r);
    return (uint64_t)r[3] << 32 | r[2];
}

float mint_rng_normal(uint64_t seed, uint64_t stream, uint64_t i)
{
    uint32_t r[4];
    block(seed, stream, (uint32_t)(i >> 32), (uint32_t)i, r);
    /* 53 bits each; u is in (0, 1], so that its logarithm is finite */
    double u = ((double)(((uint64_t)r[1] << 32 | r[0]) >> 11) + 1.0) * 0x1p-53;
    double v = (double)(((uint64_t)r[3] << 32 | r[2]) >> 11) * 0x1p-53;
    return (float)(sqrt(-2.0 * log(u)) * cos(6.283185307179586476925 * v));
}

uint64_t mint_rng_stream(const char *s, size_t n)
{
    struct mint_sha256 h;
    uint8_t digest[32];
    uint64_t v = 0;
    mint_sha256_init(&h);
    mint_sha256_add(&h, s, n);
    mint_sha256_end(&h, digest);
    for (int i = 7; i >= 0; i--)
        v = v << 8 | digest[i];
    return v;
}

void mint_rng_shuffle(uint64_t seed, uint64_t epoch, uint32_t *perm, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        perm[i] = i;
    for (uint32_t i = n; i > 1; i--) {
        /* 64 random bits scaled to [0, i): the bias is below 2^-32 */
        unsigned __int128 r = mint_rng_u64(seed, epoch, UINT32_MAX, i);
        uint32_t j = (uint32_t)(r * i >> 64), swap = perm[i - 1];
        perm[i - 1] = perm[j];
        perm[j] = swap;
    }
}

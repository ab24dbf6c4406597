/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rng.h: counter-based random numbers, Philox 4x32-10 (Salmon et al., SC 2011). A draw depends only
 * on (key, counter), never on what was drawn before: that is what makes samples independent of
 * threads, batches and order. Thread-safe.
 */
#ifndef MINT_RNG_H
#define MINT_RNG_H

#include "base.h"

/* One Philox 4x32-10 block; checked against the authors' known answers. */
void mint_philox(const uint32_t key[2], const uint32_t counter[4], uint32_t out[4]);

/* The draw at (seed, stream, index, position): 24 random bits as a float in [0, 1); a whole 64-bit
 * word. */
float mint_rng_uniform(uint64_t seed, uint64_t stream, uint32_t index, uint32_t position);
uint64_t mint_rng_u64(uint64_t seed, uint64_t stream, uint32_t index, uint32_t position);

/* Standard normal at (seed, stream, i): Box-Muller in double from one block. Not used where bytes
 * must not depend on libm. */
float mint_rng_normal(uint64_t seed, uint64_t stream, uint64_t i);

/* Stream number of a text: the first 8 bytes of its sha256, little-endian. */
uint64_t mint_rng_stream(const char *s, size_t n);

/* Fisher-Yates permutation of 0..n-1 from (seed, epoch). */
void mint_rng_shuffle(uint64_t seed, uint64_t epoch, uint32_t *perm, uint32_t n);

#endif

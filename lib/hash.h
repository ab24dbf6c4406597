/* SPDX-License-Identifier: Apache-2.0 */
/* hash.h: SHA-256 (FIPS 180-4), with the SHA extensions where the CPU has them. One context belongs
 * to one thread. */
#ifndef MINT_HASH_H
#define MINT_HASH_H

#include "base.h"

struct mint_sha256 {
    uint32_t h[8];
    uint64_t bytes;
    uint8_t block[64];
    bool fast; /* the CPU has the SHA extensions */
};
void mint_sha256_init(struct mint_sha256 *s);
void mint_sha256_add(struct mint_sha256 *s, const void *p, size_t n);
/* mint_sha256_add of n bytes to each of two contexts, in less time than one after the other. */
void mint_sha256_add_two(struct mint_sha256 *s, const void *p, struct mint_sha256 *t, const void *q,
                         size_t n);
void mint_sha256_end(struct mint_sha256 *s, uint8_t out[32]);
/* "sha256:" and 64 hex digits, '\0'-terminated: 72 bytes. */
#define MINT_SHA256_TEXT 72
void mint_sha256_end_text(struct mint_sha256 *s, char out[MINT_SHA256_TEXT]);

#endif

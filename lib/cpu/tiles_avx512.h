/* SPDX-License-Identifier: Apache-2.0 */
/* tiles_avx512.h: what the avx512bf16 kernels share with the avx512 ones. Signatures: struct
 * cpu_tiles. */
#ifndef MINT_TILES_AVX512_H
#define MINT_TILES_AVX512_H

#include "cpu.h"

#define TILES512_TARGET "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma"
#define TILES512_AHEAD  1024 /* bytes that few rows fetch ahead in each stream of weights */

/* The kernels that there are, for a switch: rows against one panel; few rows against q panels. */
/* clang-format off */
#define CPU_TILES512_ROWS(CASE) \
    CASE(1) CASE(2) CASE(3) CASE(4) CASE(5) CASE(6) \
    CASE(7) CASE(8) CASE(9) CASE(10) CASE(11) CASE(12)
#define CPU_TILES512_FEW(CASE) \
    CASE(4, 1) CASE(4, 2) CASE(4, 3) \
    CASE(2, 1) CASE(2, 2) CASE(2, 3) CASE(2, 4) CASE(2, 5) CASE(2, 6)
/* clang-format on */

/* What pair k fetches of a panel that comes next, and where in it that begins: half as in struct
 * cpu_tiles; 0 nothing. Neighbouring lines one after the other are what the hardware goes on with.
 */
static inline __attribute__((always_inline)) void cpu_tiles512_fetch(const char *next, size_t k,
                                                                     int half)
{
    if (half == 3) {
        __builtin_prefetch(next + k * 128, 0, 2);
        __builtin_prefetch(next + k * 128 + 64, 0, 2);
    } else if (half) {
        __builtin_prefetch(next + k * 64, 0, 2);
    }
}

/* What belongs to panel j of what is fetched, or NULL. */
static inline const char *cpu_tiles512_next(const char *next, int j, size_t panel_bytes)
{
    return next ? next + (size_t)j * panel_bytes : NULL;
}

/* Line j of pair k of panels that lie panel_bytes apart: two lines of each. */
static inline __attribute__((always_inline)) const char *cpu_tiles512_line(const char *p,
                                                                           size_t panel_bytes,
                                                                           size_t k, int j)
{
    return p + (size_t)(j / 2) * panel_bytes + k * 128 + (size_t)(j % 2) * 64;
}

static inline size_t cpu_tiles512_fetched(size_t k, size_t pairs, int half)
{
    return half == 3 ? k * 128 : k * 64 + (half == 2 ? pairs * 64 : 0);
}

void cpu_tiles512_fb(const float *a, size_t lda, int rows, const cpu_bf16 *p, size_t pairs,
                     float *c, size_t ldc, bool first, const void *next, size_t next_bytes);
void cpu_tiles512_ff(const float *a, size_t lda, int rows, const float *p, size_t pairs, float *c,
                     size_t ldc, bool first, const void *next, size_t next_bytes);
void cpu_tiles512_fb_panels(const float *a, size_t lda, int rows, const cpu_bf16 *p,
                            size_t panel_elems, int panels, size_t pairs, float *c, size_t ldc,
                            bool first, const void *next, int lines);
void cpu_tiles512_pack(cpu_bf16 *p, const cpu_bf16 *w, size_t ldw, int rows, size_t k);
void cpu_tiles512_pack_pairs(cpu_bf16 *p, const cpu_bf16 *w, size_t ldw, size_t rows, int cols);
void cpu_tiles512_cast(cpu_bf16 *out, const float *x, size_t n);
void cpu_tiles512_axpy(float *y, const float *x, float s, size_t n);

#endif

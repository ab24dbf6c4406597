/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tiles_avx512bf16.c: bf16 by bf16 with vdpbf16ps, which adds the odd product of a pair first, then
 * the even one, each with one rounding and with subnormals flushed: the order that cpu.h asks of
 * all paths.
 */
#include "cpu.h"

#if MINT_X86

#include "tiles_avx512.h"

#include <immintrin.h>
#include <string.h>

#define TARGET __attribute__((target(TILES512_TARGET ",avx512bf16")))
#define INLINE static inline TARGET __attribute__((always_inline))
#define UNROLL _Pragma("GCC unroll 16")
#define ROLLED _Pragma("GCC unroll 1")

INLINE __m512bh load_pairs(const cpu_bf16 *p)
{
    return (__m512bh)_mm512_loadu_si512(p);
}

INLINE __m512bh broadcast_pair(const cpu_bf16 *a)
{
    int32_t pair;
    memcpy(&pair, a, sizeof pair);
    return (__m512bh)_mm512_set1_epi32(pair);
}

/* Up to 12 rows against one panel; fetches as in tiles_avx512.c. */
INLINE void tile_bb(const int rows, const cpu_bf16 *a, size_t lda, const cpu_bf16 *p, size_t pairs,
                    float *c, size_t ldc, bool first, const char *next, int half)
{
    __m512 acc[CPU_TILE_ROWS][2];
    UNROLL
    for (int i = 0; i < rows; i++) {
        acc[i][0] = first ? _mm512_setzero_ps() : _mm512_loadu_ps(c + (size_t)i * ldc);
        acc[i][1] = first ? _mm512_setzero_ps() : _mm512_loadu_ps(c + (size_t)i * ldc + 16);
    }
    ROLLED
    for (size_t k = 0; k < pairs; k++) {
        __m512bh w0 = load_pairs(p + k * 64), w1 = load_pairs(p + k * 64 + 32);
        cpu_tiles512_fetch(next, k, half);
        UNROLL
        for (int i = 0; i < rows; i++) {
            __m512bh x = broadcast_pair(a + (size_t)i * lda + 2 * k);
            acc[i][0] = _mm512_dpbf16_ps(acc[i][0], x, w0);
            acc[i][1] = _mm512_dpbf16_ps(acc[i][1], x, w1);
        }
    }
    UNROLL
    for (int i = 0; i < rows; i++) {
        _mm512_storeu_ps(c + (size_t)i * ldc, acc[i][0]);
        _mm512_storeu_ps(c + (size_t)i * ldc + 16, acc[i][1]);
    }
}

/* Few rows against 2 or 4 panels, as in tiles_avx512.c. */
INLINE void wide_bb(const int rows, const int panels, const cpu_bf16 *a, size_t lda,
                    const cpu_bf16 *p, size_t panel_elems, size_t pairs, float *c, size_t ldc,
                    bool first, const char *next, size_t next_panel)
{
    __m512 acc[6][8];
    UNROLL
    for (int i = 0; i < rows; i++) {
        UNROLL
        for (int j = 0; j < 2 * panels; j++)
            acc[i][j] = first ? _mm512_setzero_ps() : _mm512_loadu_ps(c + (size_t)i * ldc + 16 * j);
    }
    ROLLED
    for (size_t k = 0; k < pairs; k++) {
        __m512bh x[6];
        UNROLL
        for (int i = 0; i < rows; i++)
            x[i] = broadcast_pair(a + (size_t)i * lda + 2 * k);
        UNROLL
        for (int j = 0; j < 2 * panels; j++) {
            const cpu_bf16 *at = p + (size_t)(j / 2) * panel_elems + k * 64 + 32 * (j % 2);
            __m512bh w = load_pairs(at);
            _mm_prefetch((const char *)at + TILES512_AHEAD, _MM_HINT_T0);
            if (next)
                __builtin_prefetch(cpu_tiles512_line(next, next_panel, k, j), 0, 2);
            UNROLL
            for (int i = 0; i < rows; i++)
                acc[i][j] = _mm512_dpbf16_ps(acc[i][j], x[i], w);
        }
    }
    UNROLL
    for (int i = 0; i < rows; i++) {
        UNROLL
        for (int j = 0; j < 2 * panels; j++)
            _mm512_storeu_ps(c + (size_t)i * ldc + 16 * j, acc[i][j]);
    }
}

TARGET static void one_bb(const cpu_bf16 *a, size_t lda, int rows, const cpu_bf16 *p, size_t pairs,
                          float *c, size_t ldc, bool first, const char *next, int half)
{
    switch (rows) {
#define CASE(n)                                                  \
    case n:                                                      \
        tile_bb(n, a, lda, p, pairs, c, ldc, first, next, half); \
        break;
        CPU_TILES512_ROWS(CASE)
#undef CASE
    }
}

TARGET static void few_bb(int panels, const cpu_bf16 *a, size_t lda, int rows, const cpu_bf16 *p,
                          size_t panel_elems, size_t pairs, float *c, size_t ldc, bool first,
                          const char *next)
{
    switch (10 * panels + rows) {
#define CASE(q, n)                                                                      \
    case 10 * q + n:                                                                    \
        wide_bb(n, q, a, lda, p, panel_elems, pairs, c, ldc, first, next, pairs * 128); \
        break;
        CPU_TILES512_FEW(CASE)
#undef CASE
    }
}

TARGET static void bb_panels(const cpu_bf16 *a, size_t lda, int rows, const cpu_bf16 *p,
                             size_t panel_elems, int panels, size_t pairs, float *c, size_t ldc,
                             bool first, const void *next, int half)
{
    int j = 0;
    if (rows <= 3)
        for (; j + 4 <= panels; j += 4)
            few_bb(4, a, lda, rows, p + (size_t)j * panel_elems, panel_elems, pairs,
                   c + j * CPU_PANEL, ldc, first, cpu_tiles512_next(next, j, pairs * 128));
    if (rows <= 6)
        for (; j + 2 <= panels; j += 2)
            few_bb(2, a, lda, rows, p + (size_t)j * panel_elems, panel_elems, pairs,
                   c + j * CPU_PANEL, ldc, first, cpu_tiles512_next(next, j, pairs * 128));
    for (; j < panels; j++)
        one_bb(a, lda, rows, p + (size_t)j * panel_elems, pairs, c + j * CPU_PANEL, ldc, first,
               next ? cpu_tiles512_next(next, j, pairs * 128) + cpu_tiles512_fetched(0, pairs, half)
                    : NULL,
               next ? half : 0);
}

TARGET static void bb(const cpu_bf16 *a, size_t lda, int rows, const cpu_bf16 *p, size_t pairs,
                      float *c, size_t ldc, bool first, const void *next, size_t next_bytes)
{
    one_bb(a, lda, rows, p, pairs, c, ldc, first, next, next && next_bytes ? 3 : 0);
}

const struct cpu_tiles cpu_tiles_avx512bf16 = {
    .bb = bb,
    .fb = cpu_tiles512_fb,
    .ff = cpu_tiles512_ff,
    .bb_panels = bb_panels,
    .fb_panels = cpu_tiles512_fb_panels,
    .pack = cpu_tiles512_pack,
    .pack_pairs = cpu_tiles512_pack_pairs,
    .cast = cpu_tiles512_cast,
    .axpy = cpu_tiles512_axpy,
};

#endif

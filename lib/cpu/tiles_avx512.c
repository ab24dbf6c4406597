/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tiles_avx512.c: the kernels of cpu.h with 512-bit fused multiply-adds; bf16 is widened in
 * registers (a shift for the even k, a mask for the odd one), which is exact.
 *
 * 12 rows x 32 columns are 24 accumulators; with two vectors of weights and one broadcast they fill
 * the 32 registers and cover the latency of the multiply-add. Few rows take two or four panels at
 * once instead: as many streams of weights keep the memory busy.
 */
#include "cpu.h"

#if MINT_X86

#include "tiles_avx512.h"

#include <immintrin.h>
#include <string.h>

#define TARGET __attribute__((target(TILES512_TARGET)))
#define INLINE static inline TARGET __attribute__((always_inline))
#define UNROLL _Pragma("GCC unroll 16")
#define ROLLED _Pragma("GCC unroll 1")

/*
 * Activations go through a copy of a block of pairs, widened where they are bf16: the block stays
 * in the L1 cache, all panels of a call use it, and its fixed stride lets one register address all
 * rows.
 */
#define BLOCK_PAIRS 128
#define BLOCK_LD    (2 * BLOCK_PAIRS + 16)

#define PAIRS_AHEAD 32 /* rows that packing for the transpose fetches ahead */
#define AHEAD       512 /* bytes that a tile fetches ahead in its panel, from the L2 cache as a rule */

INLINE __m512 even_k(__m512i w)
{
    return _mm512_castsi512_ps(_mm512_slli_epi32(w, 16));
}

INLINE __m512 odd_k(__m512i w)
{
    return _mm512_castsi512_ps(_mm512_and_si512(w, _mm512_set1_epi32((int)0xffff0000)));
}

/* Up to 12 rows of a block against one panel. */
INLINE void tile_fb(const int rows, const float *a, const cpu_bf16 *p, size_t pairs, float *c,
                    size_t ldc, bool first, const char *next, int half)
{
    __m512 acc[CPU_TILE_ROWS][2];
    UNROLL
    for (int i = 0; i < rows; i++) {
        acc[i][0] = first ? _mm512_setzero_ps() : _mm512_loadu_ps(c + (size_t)i * ldc);
        acc[i][1] = first ? _mm512_setzero_ps() : _mm512_loadu_ps(c + (size_t)i * ldc + 16);
    }
    ROLLED
    for (size_t k = 0; k < pairs; k++) {
        __m512i w0 = _mm512_loadu_si512(p + k * 64), w1 = _mm512_loadu_si512(p + k * 64 + 32);
        cpu_tiles512_fetch(next, k, half);
        _mm_prefetch((const char *)(p + k * 64) + AHEAD, _MM_HINT_T0);
        _mm_prefetch((const char *)(p + k * 64) + AHEAD + 64, _MM_HINT_T0);
        __m512 v0 = odd_k(w0), v1 = odd_k(w1);
        UNROLL
        for (int i = 0; i < rows; i++) {
            __m512 x = _mm512_set1_ps(a[i * BLOCK_LD + 2 * k + 1]);
            acc[i][0] = _mm512_fmadd_ps(x, v0, acc[i][0]);
            acc[i][1] = _mm512_fmadd_ps(x, v1, acc[i][1]);
        }
        v0 = even_k(w0), v1 = even_k(w1);
        UNROLL
        for (int i = 0; i < rows; i++) {
            __m512 x = _mm512_set1_ps(a[i * BLOCK_LD + 2 * k]);
            acc[i][0] = _mm512_fmadd_ps(x, v0, acc[i][0]);
            acc[i][1] = _mm512_fmadd_ps(x, v1, acc[i][1]);
        }
    }
    UNROLL
    for (int i = 0; i < rows; i++) {
        _mm512_storeu_ps(c + (size_t)i * ldc, acc[i][0]);
        _mm512_storeu_ps(c + (size_t)i * ldc + 16, acc[i][1]);
    }
}

INLINE void tile_ff(const int rows, const float *a, size_t lda, const float *p, size_t pairs,
                    float *c, size_t ldc, bool first)
{
    /* Even and odd k lie side by side; permutes of two vectors pick them apart. */
    const __m512i even =
        _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
    const __m512i odd =
        _mm512_setr_epi32(1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31);
    __m512 acc[CPU_TILE_ROWS][2];
    UNROLL
    for (int i = 0; i < rows; i++) {
        acc[i][0] = first ? _mm512_setzero_ps() : _mm512_loadu_ps(c + (size_t)i * ldc);
        acc[i][1] = first ? _mm512_setzero_ps() : _mm512_loadu_ps(c + (size_t)i * ldc + 16);
    }
    ROLLED
    for (size_t k = 0; k < pairs; k++, p += 64) {
        __m512 w0 = _mm512_loadu_ps(p), w1 = _mm512_loadu_ps(p + 16);
        __m512 w2 = _mm512_loadu_ps(p + 32), w3 = _mm512_loadu_ps(p + 48);
        __m512 v0 = _mm512_permutex2var_ps(w0, odd, w1), v1 = _mm512_permutex2var_ps(w2, odd, w3);
        UNROLL
        for (int i = 0; i < rows; i++) {
            __m512 x = _mm512_set1_ps(a[(size_t)i * lda + 2 * k + 1]);
            acc[i][0] = _mm512_fmadd_ps(x, v0, acc[i][0]);
            acc[i][1] = _mm512_fmadd_ps(x, v1, acc[i][1]);
        }
        v0 = _mm512_permutex2var_ps(w0, even, w1), v1 = _mm512_permutex2var_ps(w2, even, w3);
        UNROLL
        for (int i = 0; i < rows; i++) {
            __m512 x = _mm512_set1_ps(a[(size_t)i * lda + 2 * k]);
            acc[i][0] = _mm512_fmadd_ps(x, v0, acc[i][0]);
            acc[i][1] = _mm512_fmadd_ps(x, v1, acc[i][1]);
        }
    }
    UNROLL
    for (int i = 0; i < rows; i++) {
        _mm512_storeu_ps(c + (size_t)i * ldc, acc[i][0]);
        _mm512_storeu_ps(c + (size_t)i * ldc + 16, acc[i][1]);
    }
}

/* Few rows against 2 or 4 panels, each of them a stream of its own from memory; likewise, while
 * they are at it, those at next (NULL: nothing), next_panel bytes apart. */
INLINE void wide_fb(const int rows, const int panels, const float *a, const cpu_bf16 *p,
                    size_t panel_elems, size_t pairs, float *c, size_t ldc, bool first,
                    const char *next, size_t next_panel)
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
        UNROLL
        for (int j = 0; j < 2 * panels; j++) {
            const cpu_bf16 *at = p + (size_t)(j / 2) * panel_elems + k * 64 + 32 * (j % 2);
            __m512i w = _mm512_loadu_si512(at);
            _mm_prefetch((const char *)at + TILES512_AHEAD, _MM_HINT_T0);
            if (next)
                __builtin_prefetch(cpu_tiles512_line(next, next_panel, k, j), 0, 2);
            __m512 odd = odd_k(w), even = even_k(w);
            UNROLL
            for (int i = 0; i < rows; i++)
                acc[i][j] =
                    _mm512_fmadd_ps(_mm512_set1_ps(a[i * BLOCK_LD + 2 * k + 1]), odd, acc[i][j]);
            UNROLL
            for (int i = 0; i < rows; i++)
                acc[i][j] =
                    _mm512_fmadd_ps(_mm512_set1_ps(a[i * BLOCK_LD + 2 * k]), even, acc[i][j]);
        }
    }
    UNROLL
    for (int i = 0; i < rows; i++) {
        UNROLL
        for (int j = 0; j < 2 * panels; j++)
            _mm512_storeu_ps(c + (size_t)i * ldc + 16 * j, acc[i][j]);
    }
}

TARGET static void one_fb(const float *a, int rows, const cpu_bf16 *p, size_t pairs, float *c,
                          size_t ldc, bool first, const char *next, int half)
{
    switch (rows) {
#define CASE(n)                                             \
    case n:                                                 \
        tile_fb(n, a, p, pairs, c, ldc, first, next, half); \
        break;
        CPU_TILES512_ROWS(CASE)
#undef CASE
    }
}

TARGET static void few_fb(int panels, const float *a, int rows, const cpu_bf16 *p,
                          size_t panel_elems, size_t pairs, float *c, size_t ldc, bool first,
                          const char *next, size_t next_panel)
{
    switch (10 * panels + rows) {
#define CASE(q, n)                                                                \
    case 10 * q + n:                                                              \
        wide_fb(n, q, a, p, panel_elems, pairs, c, ldc, first, next, next_panel); \
        break;
        CPU_TILES512_FEW(CASE)
#undef CASE
    }
}

/* A block against all panels. p and next stand at its pairs of the first panel; next_panel: bytes.
 */
TARGET static void block_fb(const float *a, int rows, const cpu_bf16 *p, size_t panel_elems,
                            int panels, size_t pairs, float *c, size_t ldc, bool first,
                            const char *next, size_t next_panel, int half)
{
    int j = 0;
    if (rows <= 3)
        for (; j + 4 <= panels; j += 4)
            few_fb(4, a, rows, p + (size_t)j * panel_elems, panel_elems, pairs, c + j * CPU_PANEL,
                   ldc, first, cpu_tiles512_next(next, j, next_panel), next_panel);
    if (rows <= 6)
        for (; j + 2 <= panels; j += 2)
            few_fb(2, a, rows, p + (size_t)j * panel_elems, panel_elems, pairs, c + j * CPU_PANEL,
                   ldc, first, cpu_tiles512_next(next, j, next_panel), next_panel);
    for (; j < panels; j++)
        one_fb(a, rows, p + (size_t)j * panel_elems, pairs, c + j * CPU_PANEL, ldc, first,
               cpu_tiles512_next(next, j, next_panel), next ? half : 0);
}

/* n floats of each row into the block. */
TARGET static void block_of_f32(float *block, const float *a, size_t lda, int rows, size_t n)
{
    for (int i = 0; i < rows; i++)
        memcpy(block + i * BLOCK_LD, a + (size_t)i * lda, n * sizeof *a);
}

/* What will be wanted next lies ahead elements on in each row. */
TARGET static void block_of_bf16(float *block, const cpu_bf16 *a, size_t lda, int rows, size_t n,
                                 size_t ahead)
{
    for (int r = 0; r < rows; r++, a += lda, block += BLOCK_LD) {
        size_t i = 0;
        for (; i + 16 <= n; i += 16) {
            if (i % 32 == 0)
                __builtin_prefetch(a + i + ahead, 0, 2);
            __m512i w = _mm512_cvtepu16_epi32(_mm256_loadu_si256((const void *)(a + i)));
            _mm512_storeu_si512(block + i, _mm512_slli_epi32(w, 16));
        }
        for (; i < n; i++)
            block[i] = cpu_bf16_to_f32(a[i]);
    }
}

TARGET void cpu_tiles512_fb_panels(const float *a, size_t lda, int rows, const cpu_bf16 *p,
                                   size_t panel_elems, int panels, size_t pairs, float *c,
                                   size_t ldc, bool first, const void *next, int half)
{
    float block[CPU_TILE_ROWS * BLOCK_LD] __attribute__((aligned(64)));
    for (size_t k = 0; k < pairs; k += BLOCK_PAIRS) {
        size_t n = MINT_MIN(pairs - k, (size_t)BLOCK_PAIRS);
        block_of_f32(block, a + 2 * k, lda, rows, 2 * n);
        block_fb(block, rows, p + k * 64, panel_elems, panels, n, c, ldc, first && k == 0,
                 next ? (const char *)next + cpu_tiles512_fetched(k, pairs, half) : NULL,
                 pairs * 128, half);
    }
}

TARGET static void bb_panels(const cpu_bf16 *a, size_t lda, int rows, const cpu_bf16 *p,
                             size_t panel_elems, int panels, size_t pairs, float *c, size_t ldc,
                             bool first, const void *next, int half)
{
    float block[CPU_TILE_ROWS * BLOCK_LD] __attribute__((aligned(64)));
    for (size_t k = 0; k < pairs; k += BLOCK_PAIRS) {
        size_t n = MINT_MIN(pairs - k, (size_t)BLOCK_PAIRS);
        size_t ahead = k + n < pairs ? 2 * n : (size_t)rows * lda - 2 * k; /* or the next tile */
        block_of_bf16(block, a + 2 * k, lda, rows, 2 * n, ahead);
        block_fb(block, rows, p + k * 64, panel_elems, panels, n, c, ldc, first && k == 0,
                 next ? (const char *)next + cpu_tiles512_fetched(k, pairs, half) : NULL,
                 pairs * 128, half);
    }
}

TARGET static void bb(const cpu_bf16 *a, size_t lda, int rows, const cpu_bf16 *p, size_t pairs,
                      float *c, size_t ldc, bool first, const void *next, size_t next_bytes)
{
    bb_panels(a, lda, rows, p, 0, 1, pairs, c, ldc, first, next_bytes ? next : NULL, 3);
}

TARGET void cpu_tiles512_fb(const float *a, size_t lda, int rows, const cpu_bf16 *p, size_t pairs,
                            float *c, size_t ldc, bool first, const void *next, size_t next_bytes)
{
    cpu_tiles512_fb_panels(a, lda, rows, p, 0, 1, pairs, c, ldc, first, next_bytes ? next : NULL,
                           3);
}

TARGET void cpu_tiles512_ff(const float *a, size_t lda, int rows, const float *p, size_t pairs,
                            float *c, size_t ldc, bool first, const void *next, size_t next_bytes)
{
    (void)next;
    (void)next_bytes;
    switch (rows) {
#define CASE(n)                                      \
    case n:                                          \
        tile_ff(n, a, lda, p, pairs, c, ldc, first); \
        break;
        CPU_TILES512_ROWS(CASE)
#undef CASE
    }
}

/* 16 rows x 16 pairs of bf16 (32-bit units) from w, transposed: pair k to d + k * 64. What is
 * behind rows and k is zero and is not read. */
INLINE void turn16(cpu_bf16 *d, const cpu_bf16 *w, size_t ldw, int rows, size_t k)
{
    __m512i r[16], t[16];
    __mmask32 mask = k >= 32 ? 0xffffffffu : (1u << k) - 1;
    UNROLL
    for (int i = 0; i < 16; i++)
        r[i] =
            i < rows ? _mm512_maskz_loadu_epi16(mask, w + (size_t)i * ldw) : _mm512_setzero_si512();
    UNROLL
    for (int i = 0; i < 8; i++) {
        t[2 * i] = _mm512_unpacklo_epi32(r[2 * i], r[2 * i + 1]);
        t[2 * i + 1] = _mm512_unpackhi_epi32(r[2 * i], r[2 * i + 1]);
    }
    UNROLL
    for (int i = 0; i < 4; i++) {
        r[4 * i] = _mm512_unpacklo_epi64(t[4 * i], t[4 * i + 2]);
        r[4 * i + 1] = _mm512_unpackhi_epi64(t[4 * i], t[4 * i + 2]);
        r[4 * i + 2] = _mm512_unpacklo_epi64(t[4 * i + 1], t[4 * i + 3]);
        r[4 * i + 3] = _mm512_unpackhi_epi64(t[4 * i + 1], t[4 * i + 3]);
    }
    UNROLL
    for (int i = 0; i < 4; i++) { /* r[4j + i]: rows 4j..4j+3; lane l of 128 bits: pair 4l + i */
        __m512i a = _mm512_shuffle_i32x4(r[i], r[4 + i], 0x88);
        __m512i b = _mm512_shuffle_i32x4(r[i], r[4 + i], 0xdd);
        __m512i c = _mm512_shuffle_i32x4(r[8 + i], r[12 + i], 0x88);
        __m512i e = _mm512_shuffle_i32x4(r[8 + i], r[12 + i], 0xdd);
        __m512i out[4] = {_mm512_shuffle_i32x4(a, c, 0x88), _mm512_shuffle_i32x4(b, e, 0x88),
                          _mm512_shuffle_i32x4(a, c, 0xdd), _mm512_shuffle_i32x4(b, e, 0xdd)};
        UNROLL
        for (int l = 0; l < 4; l++)
            if ((size_t)(4 * l + i) * 2 < k)
                _mm512_storeu_si512(d + (4 * l + i) * 64, out[l]);
    }
}

TARGET void cpu_tiles512_pack(cpu_bf16 *p, const cpu_bf16 *w, size_t ldw, int rows, size_t k)
{
    for (int half = 0; half < 2; half++) {
        int n = rows - half * 16;
        const cpu_bf16 *from = n > 0 ? w + (size_t)half * 16 * ldw : w;
        cpu_bf16 *to = p + half * 32;
        size_t i = 0;
        if (n >= 16)
            for (; i + 32 <= k; i += 32)
                turn16(to + i * CPU_PANEL, from + i, ldw, 16, 32);
        for (; i < k; i += 32)
            turn16(to + i * CPU_PANEL, from + i, ldw, n, k - i);
    }
}

/* Two rows, 32 columns: words interleaved. */
TARGET void cpu_tiles512_pack_pairs(cpu_bf16 *p, const cpu_bf16 *w, size_t ldw, size_t rows,
                                    int cols)
{
    const __m512i low = _mm512_set_epi16(47, 15, 46, 14, 45, 13, 44, 12, 43, 11, 42, 10, 41, 9, 40,
                                         8, 39, 7, 38, 6, 37, 5, 36, 4, 35, 3, 34, 2, 33, 1, 32, 0);
    const __m512i high = _mm512_add_epi16(low, _mm512_set1_epi16(16));
    __mmask32 mask = cols >= 32 ? 0xffffffffu : (1u << cols) - 1;
    for (size_t n = 0; n < rows; n += 2, p += 64) {
        if (n + PAIRS_AHEAD + 1 < rows) { /* lines too far apart for the hardware to guess */
            _mm_prefetch((const char *)(w + (n + PAIRS_AHEAD) * ldw), _MM_HINT_T0);
            _mm_prefetch((const char *)(w + (n + PAIRS_AHEAD + 1) * ldw), _MM_HINT_T0);
        }
        __m512i a = _mm512_maskz_loadu_epi16(mask, w + n * ldw);
        __m512i b = n + 1 < rows ? _mm512_maskz_loadu_epi16(mask, w + (n + 1) * ldw)
                                 : _mm512_setzero_si512();
        _mm512_storeu_si512(p, _mm512_permutex2var_epi16(a, low, b));
        _mm512_storeu_si512(p + 32, _mm512_permutex2var_epi16(a, high, b));
    }
}

TARGET void cpu_tiles512_cast(cpu_bf16 *out, const float *x, size_t n)
{
    const __m512i one = _mm512_set1_epi32(1), half = _mm512_set1_epi32(0x7fff);
    size_t i = 0;
    for (; i + 16 <= n; i += 16) {
        __m512i u = _mm512_loadu_si512(x + i);
        __m512i top = _mm512_srli_epi32(u, 16);
        __m512i r = _mm512_add_epi32(_mm512_add_epi32(u, half), _mm512_and_si512(top, one));
        __mmask16 nan = _mm512_cmpgt_epi32_mask(_mm512_and_si512(u, _mm512_set1_epi32(0x7fffffff)),
                                                _mm512_set1_epi32(0x7f800000));
        r = _mm512_mask_or_epi32(_mm512_srli_epi32(r, 16), nan, top, _mm512_set1_epi32(0x40));
        _mm256_storeu_si256((void *)(out + i), _mm512_cvtepi32_epi16(r));
    }
    for (; i < n; i++)
        out[i] = cpu_f32_to_bf16(x[i]);
}

TARGET void cpu_tiles512_axpy(float *y, const float *x, float s, size_t n)
{
    __m512 v = _mm512_set1_ps(s);
    size_t i = 0;
    for (; i + 16 <= n; i += 16)
        _mm512_storeu_ps(y + i, _mm512_fmadd_ps(v, _mm512_loadu_ps(x + i), _mm512_loadu_ps(y + i)));
    for (; i < n; i++)
        y[i] = __builtin_fmaf(s, x[i], y[i]);
}

const struct cpu_tiles cpu_tiles_avx512 = {
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

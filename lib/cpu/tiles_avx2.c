/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tiles_avx2.c: the kernels of cpu.h with 256-bit fused multiply-adds. 16 registers hold 6 rows x
 * 16 columns (12 accumulators), so a panel is taken in halves and 12 rows in two goes; up to 3 rows
 * take the whole panel.
 */
#include "cpu.h"

#if MINT_X86

#include <immintrin.h>
#include <string.h>

#define TARGET __attribute__((target("avx2,fma")))
#define INLINE static inline TARGET __attribute__((always_inline))
#define UNROLL _Pragma("GCC unroll 16")
#define ROLLED _Pragma("GCC unroll 1")

#define AHEAD 1024 /* bytes fetched ahead in the stream of weights */

/* Activations go through a copy of a block of pairs, as in tiles_avx512.c. */
#define BLOCK_PAIRS 128
#define BLOCK_LD    (2 * BLOCK_PAIRS + 16)

/* Even and odd k of 8 columns, as floats. */
INLINE __m256 even_k(__m256i w)
{
    return _mm256_castsi256_ps(_mm256_slli_epi32(w, 16));
}

INLINE __m256 odd_k(__m256i w)
{
    return _mm256_castsi256_ps(_mm256_and_si256(w, _mm256_set1_epi32((int)0xffff0000)));
}

/* rows x (8 * vectors) columns of one panel; p and c stand at the first of these columns. */
INLINE void tile_fb(const int rows, const int vectors, const float *a, const cpu_bf16 *p,
                    size_t pairs, float *c, size_t ldc, bool first)
{
    __m256 acc[6][4];
    UNROLL
    for (int i = 0; i < rows; i++) {
        UNROLL
        for (int j = 0; j < vectors; j++)
            acc[i][j] = first ? _mm256_setzero_ps() : _mm256_loadu_ps(c + (size_t)i * ldc + 8 * j);
    }
    ROLLED
    for (size_t k = 0; k < pairs; k++, p += 2 * CPU_PANEL) {
        _mm_prefetch((const char *)p + AHEAD, _MM_HINT_T0);
        if (vectors == 4)
            _mm_prefetch((const char *)p + AHEAD + 64, _MM_HINT_T0);
        UNROLL
        for (int odd = 1; odd >= 0; odd--) {
            UNROLL
            for (int j = 0; j < vectors; j += 2) { /* more at a time, and the registers run out */
                __m256i w0 = _mm256_loadu_si256((const void *)(p + 16 * j));
                __m256i w1 = _mm256_loadu_si256((const void *)(p + 16 * j + 16));
                __m256 v0 = odd ? odd_k(w0) : even_k(w0), v1 = odd ? odd_k(w1) : even_k(w1);
                UNROLL
                for (int i = 0; i < rows; i++) {
                    __m256 x = _mm256_broadcast_ss(a + i * BLOCK_LD + 2 * k + (size_t)odd);
                    acc[i][j] = _mm256_fmadd_ps(x, v0, acc[i][j]);
                    acc[i][j + 1] = _mm256_fmadd_ps(x, v1, acc[i][j + 1]);
                }
            }
        }
    }
    UNROLL
    for (int i = 0; i < rows; i++) {
        UNROLL
        for (int j = 0; j < vectors; j++)
            _mm256_storeu_ps(c + (size_t)i * ldc + 8 * j, acc[i][j]);
    }
}

/* Even or odd k of 8 columns whose pairs lie in two vectors. */
INLINE __m256 pick(const float *p, const int shuffle)
{
    __m256 w0 = _mm256_loadu_ps(p), w1 = _mm256_loadu_ps(p + 8);
    __m256 mixed = shuffle ? _mm256_shuffle_ps(w0, w1, 0xdd) : _mm256_shuffle_ps(w0, w1, 0x88);
    return _mm256_castpd_ps(_mm256_permute4x64_pd(_mm256_castps_pd(mixed), 0xd8));
}

INLINE void tile_ff(const int rows, const float *a, size_t lda, const float *p, size_t pairs,
                    float *c, size_t ldc, bool first)
{
    __m256 acc[6][2];
    UNROLL
    for (int i = 0; i < rows; i++) {
        UNROLL
        for (int j = 0; j < 2; j++)
            acc[i][j] = first ? _mm256_setzero_ps() : _mm256_loadu_ps(c + (size_t)i * ldc + 8 * j);
    }
    ROLLED
    for (size_t k = 0; k < pairs; k++, p += 2 * CPU_PANEL) {
        UNROLL
        for (int odd = 1; odd >= 0; odd--) {
            UNROLL
            for (int j = 0; j < 2; j++) {
                __m256 w = pick(p + 16 * j, odd);
                UNROLL
                for (int i = 0; i < rows; i++)
                    acc[i][j] = _mm256_fmadd_ps(
                        _mm256_broadcast_ss(a + (size_t)i * lda + 2 * k + (size_t)odd), w,
                        acc[i][j]);
            }
        }
    }
    UNROLL
    for (int i = 0; i < rows; i++) {
        UNROLL
        for (int j = 0; j < 2; j++)
            _mm256_storeu_ps(c + (size_t)i * ldc + 8 * j, acc[i][j]);
    }
}

/* At most 6 rows against a whole panel. */
TARGET static void six_fb(const float *a, int rows, const cpu_bf16 *p, size_t pairs, float *c,
                          size_t ldc, bool first)
{
    switch (rows) {
#define WHOLE(n)                                   \
    case n:                                        \
        tile_fb(n, 4, a, p, pairs, c, ldc, first); \
        break;
#define HALVES(n)                                                              \
    case n:                                                                    \
        tile_fb(n, 2, a, p, pairs, c, ldc, first);                             \
        tile_fb(n, 2, a, p + CPU_PANEL, pairs, c + CPU_PANEL / 2, ldc, first); \
        break;
        /* clang-format off */
        WHOLE(1) WHOLE(2) WHOLE(3) HALVES(4) HALVES(5) HALVES(6)
        /* clang-format on */
#undef WHOLE
#undef HALVES
    }
}

TARGET static void six_ff(const float *a, size_t lda, int rows, const float *p, size_t pairs,
                          float *c, size_t ldc, bool first)
{
    switch (rows) {
#define CASE(n)                                                                  \
    case n:                                                                      \
        tile_ff(n, a, lda, p, pairs, c, ldc, first);                             \
        tile_ff(n, a, lda, p + CPU_PANEL, pairs, c + CPU_PANEL / 2, ldc, first); \
        break;
        /* clang-format off */
        CASE(1) CASE(2) CASE(3) CASE(4) CASE(5) CASE(6)
        /* clang-format on */
#undef CASE
    }
}

/* Up to 12 rows are 6 at most, or two halves. */
TARGET static void one_fb(const float *a, int rows, const cpu_bf16 *p, size_t pairs, float *c,
                          size_t ldc, bool first)
{
    int upper = rows > 6 ? (rows + 1) / 2 : rows;
    six_fb(a, upper, p, pairs, c, ldc, first);
    if (rows > upper)
        six_fb(a + upper * BLOCK_LD, rows - upper, p, pairs, c + (size_t)upper * ldc, ldc, first);
}

TARGET static void ff(const float *a, size_t lda, int rows, const float *p, size_t pairs, float *c,
                      size_t ldc, bool first, const void *next, size_t next_bytes)
{
    int upper = rows > 6 ? (rows + 1) / 2 : rows;
    (void)next;
    (void)next_bytes;
    six_ff(a, lda, upper, p, pairs, c, ldc, first);
    if (rows > upper)
        six_ff(a + (size_t)upper * lda, lda, rows - upper, p, pairs, c + (size_t)upper * ldc, ldc,
               first);
}

/* n floats of each row into the block. */
TARGET static void block_of_f32(float *block, const float *a, size_t lda, int rows, size_t n)
{
    for (int i = 0; i < rows; i++)
        memcpy(block + i * BLOCK_LD, a + (size_t)i * lda, n * sizeof *a);
}

TARGET static void block_of_bf16(float *block, const cpu_bf16 *a, size_t lda, int rows, size_t n)
{
    for (int r = 0; r < rows; r++, a += lda, block += BLOCK_LD) {
        size_t i = 0;
        for (; i + 8 <= n; i += 8) {
            __m256i w = _mm256_cvtepu16_epi32(_mm_loadu_si128((const void *)(a + i)));
            _mm256_storeu_si256((void *)(block + i), _mm256_slli_epi32(w, 16));
        }
        for (; i < n; i++)
            block[i] = cpu_bf16_to_f32(a[i]);
    }
}

/* The panel's own stream is fetched ahead; next is not needed. */
TARGET static void fb_panels(const float *a, size_t lda, int rows, const cpu_bf16 *p,
                             size_t panel_elems, int panels, size_t pairs, float *c, size_t ldc,
                             bool first, const void *next, int half)
{
    float block[CPU_TILE_ROWS * BLOCK_LD] __attribute__((aligned(64)));
    (void)next;
    (void)half;
    for (size_t k = 0; k < pairs; k += BLOCK_PAIRS) {
        size_t n = MINT_MIN(pairs - k, (size_t)BLOCK_PAIRS);
        block_of_f32(block, a + 2 * k, lda, rows, 2 * n);
        for (int j = 0; j < panels; j++)
            one_fb(block, rows, p + (size_t)j * panel_elems + k * 64, n, c + j * CPU_PANEL, ldc,
                   first && k == 0);
    }
}

TARGET static void bb_panels(const cpu_bf16 *a, size_t lda, int rows, const cpu_bf16 *p,
                             size_t panel_elems, int panels, size_t pairs, float *c, size_t ldc,
                             bool first, const void *next, int half)
{
    float block[CPU_TILE_ROWS * BLOCK_LD] __attribute__((aligned(64)));
    (void)next;
    (void)half;
    for (size_t k = 0; k < pairs; k += BLOCK_PAIRS) {
        size_t n = MINT_MIN(pairs - k, (size_t)BLOCK_PAIRS);
        block_of_bf16(block, a + 2 * k, lda, rows, 2 * n);
        for (int j = 0; j < panels; j++)
            one_fb(block, rows, p + (size_t)j * panel_elems + k * 64, n, c + j * CPU_PANEL, ldc,
                   first && k == 0);
    }
}

TARGET static void bb(const cpu_bf16 *a, size_t lda, int rows, const cpu_bf16 *p, size_t pairs,
                      float *c, size_t ldc, bool first, const void *next, size_t next_bytes)
{
    (void)next_bytes;
    bb_panels(a, lda, rows, p, 0, 1, pairs, c, ldc, first, next, 0);
}

TARGET static void fb(const float *a, size_t lda, int rows, const cpu_bf16 *p, size_t pairs,
                      float *c, size_t ldc, bool first, const void *next, size_t next_bytes)
{
    (void)next_bytes;
    fb_panels(a, lda, rows, p, 0, 1, pairs, c, ldc, first, next, 0);
}

/* 8 rows x 8 pairs (32-bit units), transposed: pair k to d + k * 64. */
INLINE void turn8(cpu_bf16 *d, const cpu_bf16 *w, size_t ldw)
{
    __m256i r[8], t[8];
    UNROLL
    for (int i = 0; i < 8; i++)
        r[i] = _mm256_loadu_si256((const void *)(w + (size_t)i * ldw));
    UNROLL
    for (int i = 0; i < 4; i++) {
        t[2 * i] = _mm256_unpacklo_epi32(r[2 * i], r[2 * i + 1]);
        t[2 * i + 1] = _mm256_unpackhi_epi32(r[2 * i], r[2 * i + 1]);
    }
    UNROLL
    for (int i = 0; i < 2; i++) {
        r[4 * i] = _mm256_unpacklo_epi64(t[4 * i], t[4 * i + 2]);
        r[4 * i + 1] = _mm256_unpackhi_epi64(t[4 * i], t[4 * i + 2]);
        r[4 * i + 2] = _mm256_unpacklo_epi64(t[4 * i + 1], t[4 * i + 3]);
        r[4 * i + 3] = _mm256_unpackhi_epi64(t[4 * i + 1], t[4 * i + 3]);
    }
    UNROLL
    for (int i = 0; i < 4; i++) {
        _mm256_storeu_si256((void *)(d + i * 64), _mm256_permute2x128_si256(r[i], r[4 + i], 0x20));
        _mm256_storeu_si256((void *)(d + (4 + i) * 64),
                            _mm256_permute2x128_si256(r[i], r[4 + i], 0x31));
    }
}

TARGET static void pack(cpu_bf16 *p, const cpu_bf16 *w, size_t ldw, int rows, size_t k)
{
    size_t whole = rows == CPU_PANEL ? k & ~(size_t)15 : 0;
    for (int n = 0; whole && n < CPU_PANEL; n += 8)
        for (size_t i = 0; i < whole; i += 16)
            turn8(p + i * CPU_PANEL + 2 * n, w + (size_t)n * ldw + i, ldw);
    if (whole < k)
        cpu_tiles_portable.pack(p + whole * CPU_PANEL, w + whole, ldw, rows, k - whole);
}

TARGET static void pack_pairs(cpu_bf16 *p, const cpu_bf16 *w, size_t ldw, size_t rows, int cols)
{
    size_t whole = cols == CPU_PANEL ? rows & ~(size_t)1 : 0;
    for (size_t n = 0; n < whole; n += 2) {
        for (int j = 0; j < CPU_PANEL; j += 16) {
            __m256i a = _mm256_loadu_si256((const void *)(w + n * ldw + j));
            __m256i b = _mm256_loadu_si256((const void *)(w + (n + 1) * ldw + j));
            __m256i low = _mm256_unpacklo_epi16(a, b), high = _mm256_unpackhi_epi16(a, b);
            cpu_bf16 *to = p + n * CPU_PANEL + 2 * j;
            _mm256_storeu_si256((void *)to, _mm256_permute2x128_si256(low, high, 0x20));
            _mm256_storeu_si256((void *)(to + 16), _mm256_permute2x128_si256(low, high, 0x31));
        }
    }
    if (whole < rows)
        cpu_tiles_portable.pack_pairs(p + whole * CPU_PANEL, w + whole * ldw, ldw, rows - whole,
                                      cols);
}

TARGET static void cast(cpu_bf16 *out, const float *x, size_t n)
{
    const __m256i one = _mm256_set1_epi32(1), half = _mm256_set1_epi32(0x7fff);
    size_t i = 0;
    for (; i + 8 <= n; i += 8) {
        __m256i u = _mm256_loadu_si256((const void *)(x + i)), top = _mm256_srli_epi32(u, 16);
        __m256i r = _mm256_add_epi32(_mm256_add_epi32(u, half), _mm256_and_si256(top, one));
        __m256i nan = _mm256_cmpgt_epi32(_mm256_and_si256(u, _mm256_set1_epi32(0x7fffffff)),
                                         _mm256_set1_epi32(0x7f800000));
        r = _mm256_blendv_epi8(_mm256_srli_epi32(r, 16),
                               _mm256_or_si256(top, _mm256_set1_epi32(0x40)), nan);
        r = _mm256_permute4x64_epi64(_mm256_packus_epi32(r, r), 0xd8);
        _mm_storeu_si128((void *)(out + i), _mm256_castsi256_si128(r));
    }
    for (; i < n; i++)
        out[i] = cpu_f32_to_bf16(x[i]);
}

TARGET static void axpy(float *y, const float *x, float s, size_t n)
{
    __m256 v = _mm256_set1_ps(s);
    size_t i = 0;
    for (; i + 8 <= n; i += 8)
        _mm256_storeu_ps(y + i, _mm256_fmadd_ps(v, _mm256_loadu_ps(x + i), _mm256_loadu_ps(y + i)));
    for (; i < n; i++)
        y[i] = __builtin_fmaf(s, x[i], y[i]);
}

const struct cpu_tiles cpu_tiles_avx2 = {
    .bb = bb,
    .fb = fb,
    .ff = ff,
    .bb_panels = bb_panels,
    .fb_panels = fb_panels,
    .pack = pack,
    .pack_pairs = pack_pairs,
    .cast = cast,
    .axpy = axpy,
};

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cpu.h: inside of the CPU backend: device handle, threads, instruction sets, tile kernels,
 * weights.
 *
 * Bits do not depend on the instruction set (MINT_CPU_ISA=portable|avx2|avx512|avx512bf16, default
 * the best that the CPU has). Two means: the tile kernels below, one source per path, all in the
 * canonical order of additions; and "row" code (norms, softmax, exp, ...), ONE plain C source that
 * is compiled once per path (rows_body.h), with fixed 16-lane sums and our own
 * exp/log/rsqrt/sin/cos from IEEE operations. FTZ and DAZ are set while ops run (cpu_parallel),
 * since vdpbf16ps flushes.
 */
#ifndef MINT_CPU_H
#define MINT_CPU_H

#include "../backend.h"

typedef uint16_t cpu_bf16;

#if defined(__x86_64__)
#define MINT_X86 1
#else
#define MINT_X86 0
#endif

#define CPU_PANEL     32 /* weight rows (output columns) of a panel */
#define CPU_TILE_ROWS 12 /* most rows of x that a tile kernel takes */

/*
 * Kernels of one instruction set. Products: C[rows, 32] (+)= A[rows, 2*pairs] P,
 * rows 1..CPU_TILE_ROWS. Panel P is [pairs][32][2]: for each k pair, 32 columns, (even k, odd k).
 * first: C starts from 0, else from what it holds (the same accumulator goes on). One float32
 * accumulator per output, pairs ascending, the odd k first: acc = fma(a[k], w[k], fma(a[k+1],
 * w[k+1], acc)). lda, ldc in elements. Names: type of A, type of P (b: bf16, f: f32).
 *
 * bb, fb, ff take one panel; next (may be NULL): memory that will be needed soon, next_bytes of it,
 * for prefetch. bb_panels, fb_panels take several neighbouring panels, panel_elems apart, for
 * neighbouring 32 columns of C; of the panels * pairs * 128 bytes at next (may be NULL) they
 * prefetch, of what belongs to each panel, the first half if half is 1, the second if it is 2, all
 * if it is 3.
 */
struct cpu_tiles {
    void (*bb)(const cpu_bf16 *a, size_t lda, int rows, const cpu_bf16 *p, size_t pairs, float *c,
               size_t ldc, bool first, const void *next, size_t next_bytes);
    void (*fb)(const float *a, size_t lda, int rows, const cpu_bf16 *p, size_t pairs, float *c,
               size_t ldc, bool first, const void *next, size_t next_bytes);
    void (*ff)(const float *a, size_t lda, int rows, const float *p, size_t pairs, float *c,
               size_t ldc, bool first, const void *next, size_t next_bytes);
    void (*bb_panels)(const cpu_bf16 *a, size_t lda, int rows, const cpu_bf16 *p,
                      size_t panel_elems, int panels, size_t pairs, float *c, size_t ldc,
                      bool first, const void *next, int half);
    void (*fb_panels)(const float *a, size_t lda, int rows, const cpu_bf16 *p, size_t panel_elems,
                      int panels, size_t pairs, float *c, size_t ldc, bool first, const void *next,
                      int half);
    /* Panel from rows 0..rows-1 (<= 32) of w, k elements each: p[(k+1)/2][32][2], zeros behind rows
     * and k. */
    void (*pack)(cpu_bf16 *p, const cpu_bf16 *w, size_t ldw, int rows, size_t k);
    /* Panel for the transpose: columns 0..cols-1 (<= 32) of w, contraction over its rows:
     * p[(rows+1)/2][32][2], zeros behind cols and rows. */
    void (*pack_pairs)(cpu_bf16 *p, const cpu_bf16 *w, size_t ldw, size_t rows, int cols);
    void (*cast)(cpu_bf16 *out, const float *x, size_t n);     /* cpu_f32_to_bf16 of each */
    void (*axpy)(float *y, const float *x, float s, size_t n); /* y = fma(s, x, y) */
};

struct cpu_rows; /* rows.h: the table of row functions of one instruction set */

struct cpu_isa {
    const char *name;
    bool (*usable)(void);
    const struct cpu_tiles *tiles;
    const struct cpu_rows *rows;
};

extern const struct cpu_tiles cpu_tiles_portable;
extern const struct cpu_rows cpu_rows_portable;
#if MINT_X86
extern const struct cpu_tiles cpu_tiles_avx2, cpu_tiles_avx512, cpu_tiles_avx512bf16;
extern const struct cpu_rows cpu_rows_avx2, cpu_rows_avx512;
#endif
/* Best first; ends with a NULL name. */
extern const struct cpu_isa cpu_isas[];
/* name NULL: the best for this CPU. An unknown or unusable name fails. */
int cpu_isa_choose(const struct cpu_isa **isa, const char *name, struct mint_err *err);

struct cpu_dev {
    struct mint_dev base;
    const struct cpu_isa *isa;
    void **scratch; /* one growing buffer per thread: cpu_scratch */
    size_t *scratch_bytes;
    void **panels; /* the same for cpu_panel_scratch */
    size_t *panels_bytes;
    void *work; /* cpu_work */
    size_t work_bytes;
    struct cpu_pool *pool; /* made when first needed */
};

static inline struct cpu_dev *cpu_dev(struct mint_dev *d)
{
    return (struct cpu_dev *)(void *)d;
}

/* Runs fn(ctx, i, thread) for i in [0, n) on the device's threads, neighbouring i as a rule one
 * after the other on one thread, with FTZ/DAZ set and restored. fn must write only what belongs to
 * i. n == 1 or one thread: on the calling thread. Not nested. */
void cpu_parallel(struct cpu_dev *d, int64_t n, void (*fn)(void *ctx, int64_t i, int thread),
                  void *ctx);
void cpu_pool_free(struct cpu_pool *p); /* NULL is fine */
/* The same, but work (multiply-adds or so, in all) that would not pay for waking threads stays on
 * the calling one. */
#define CPU_SHARE_WORK 65536
void cpu_share(struct cpu_dev *d, int64_t n, int64_t work,
               void (*fn)(void *ctx, int64_t i, int thread), void *ctx);
/* At least bytes of 64-byte aligned scratch of this thread; contents are lost at the next call for
 * the same thread. */
void *cpu_scratch(struct cpu_dev *d, int thread, size_t bytes);
/* A second such buffer, in which the products build panels (so cpu_scratch survives cpu_gemm_*). */
void *cpu_panel_scratch(struct cpu_dev *d, int thread, size_t bytes);
/* At least bytes, 64-byte aligned, for the op that runs: asked for outside cpu_parallel, lost at
 * the next call. Used by linear, linear_dx and outer. */
void *cpu_work(struct cpu_dev *d, size_t bytes);
/* CPUs that this process may use: affinity and the CPU quotas of its control groups. At least 1. */
int cpu_count(void);
/* The quota part: membership in the form of /proc/self/cgroup, groups below mount. 0: no limit. */
int cpu_group_limit(const char *membership, const char *mount);
/* Bytes that the control groups leave, likewise; -1: no limit. */
int64_t cpu_group_memory(const char *membership, const char *mount);
/* Large zeroed memory on huge pages where it pays; free with cpu_big_free. NULL: out of memory. */
void *cpu_big_alloc(size_t bytes);
void cpu_big_free(void *p);

/*
 * A matrix [N, K]. Rows: row-major, row stride K elements, in the mmap or in a copy. Packed: panels
 * of 32 rows, zero-padded to whole panels and to an even K: panel i at packed + i * panel_elems.
 * type: MINT_BF16 or MINT_F32. One of rows and packed may be NULL: products with W^T take
 * either, all others need rows.
 */
struct mint_weight {
    int64_t N, K;
    enum mint_dtype type;
    const void *rows;
    void *packed;
    size_t panel_elems; /* 32 * even(K) */
    void *owned_rows;   /* to free, or NULL */
};

/* tiles->pack and pack_pairs for float. */
void cpu_pack_f32(float *p, const float *w, size_t ldw, int rows, size_t k);
void cpu_pack_pairs_f32(float *p, const float *w, size_t ldw, size_t rows, int cols);

/* Columns n0..n1-1 (n0 a multiple of 32) of y = x W^T for T rows, on the calling thread. y points
 * at column n0; x act. */
void cpu_gemm_cols(struct cpu_dev *d, int thread, float *y, size_t ldy, const void *x, size_t ldx,
                   int64_t T, const struct mint_weight *w, int64_t n0, int64_t n1);
/* The same against the transpose: dx[T, k0..k1-1] (+)= dy[T, n0..n1-1] W[n0..n1-1, k0..k1-1],
 * contraction over n ascending from n0 (n0 even, k0 a multiple of 32). first: starts from 0; else
 * goes on with what dx holds (so that chunks of n in order are one accumulator). dy points at
 * column n0. */
void cpu_gemm_dx_cols(struct cpu_dev *d, int thread, float *dx, size_t lddx, const void *dy,
                      size_t lddy, int64_t T, const struct mint_weight *w, int64_t n0, int64_t n1,
                      int64_t k0, int64_t k1, bool first);

static inline float cpu_bf16_to_f32(cpu_bf16 h)
{
    union {
        uint32_t u;
        float f;
    } v = {.u = (uint32_t)h << 16};
    return v.f;
}

/* Round to nearest even; NaN stays NaN. */
static inline cpu_bf16 cpu_f32_to_bf16(float f)
{
    union {
        float f;
        uint32_t u;
    } v = {.f = f};
    if ((v.u & 0x7fffffff) > 0x7f800000)
        return (cpu_bf16)((v.u >> 16) | 0x40);
    return (cpu_bf16)((v.u + 0x7fff + ((v.u >> 16) & 1)) >> 16);
}

#endif

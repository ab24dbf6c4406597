/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cpu_gemm.h: products of row-major activations with panels, for the files that make their own
 * panels.
 *
 * Every product is cut into tiles of at most 12 rows against panels of 32 columns (cpu.h). The sum
 * over the inner dimension is never split: where it is cut for the caches, the accumulators are
 * stored and go on. So nothing here (number of rows, tiles, chunks, threads, packed or not) changes
 * a bit of a result.
 */
#ifndef MINT_CPU_GEMM_H
#define MINT_CPU_GEMM_H

#include "cpu.h"

/* Types of A and of the panels: b bf16, f float. */
enum cpu_kind { CPU_BB, CPU_FB, CPU_FF };

static inline size_t cpu_kind_a_bytes(enum cpu_kind kind)
{
    return kind == CPU_BB ? 2 : 4;
}

static inline size_t cpu_kind_panel_bytes(enum cpu_kind kind)
{
    return kind == CPU_FF ? 4 : 2;
}

static inline const void *cpu_at(const void *p, size_t elems, size_t bytes)
{
    return (const char *)p + elems * bytes;
}

/* C[rows, cols] (+)= A[rows, depth] P, with ceil(cols / 32) panels over that depth. */
struct cpu_product {
    const struct cpu_tiles *tiles;
    enum cpu_kind kind;
    const void *a;
    size_t lda;
    int64_t rows;
    const void *p;
    size_t panel_elems; /* from a panel to the next */
    int64_t cols, depth;
    float *c;
    size_t ldc;
    bool first;       /* C starts from 0; else its sums go on, and depth so far was even */
    const void *next; /* fetched meanwhile, as many bytes as the panels have; or NULL */
};

/* Columns of C behind cols, and what follows in the rows of A, are left alone. */
void cpu_multiply(const struct cpu_product *g);

/* Columns of dx[T, K] that a job of its own should take with cpu_gemm_dx_cols: as many as use an
 * activation that is loaded, but enough jobs for all threads. */
int64_t cpu_back_cols(const struct cpu_dev *d, int64_t K);

/* A row stride, in act elements and at least cols, that is kind to the cache: with strides of a
 * power of two all rows of a tile would fall into one set. */
size_t cpu_padded_ld(const struct cpu_dev *d, int64_t cols);

#endif

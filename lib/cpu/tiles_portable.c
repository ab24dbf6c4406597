/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tiles_portable.c: the kernels of cpu.h in plain C: the definition that the vector paths must
 * equal, and the path of CPUs that have no other.
 */
#include "cpu.h"

#include <string.h>

/* acc[n] = fma(a0, w[n][0], fma(a1, w[n][1], acc[n])): one k pair against 32 columns. */
static void pair_bf16(float *acc, float a0, float a1, const cpu_bf16 *w)
{
    for (int n = 0; n < CPU_PANEL; n++) {
        float odd = __builtin_fmaf(a1, cpu_bf16_to_f32(w[2 * n + 1]), acc[n]);
        acc[n] = __builtin_fmaf(a0, cpu_bf16_to_f32(w[2 * n]), odd);
    }
}

static void pair_f32(float *acc, float a0, float a1, const float *w)
{
    for (int n = 0; n < CPU_PANEL; n++) {
        float odd = __builtin_fmaf(a1, w[2 * n + 1], acc[n]);
        acc[n] = __builtin_fmaf(a0, w[2 * n], odd);
    }
}

static void bb(const cpu_bf16 *a, size_t lda, int rows, const cpu_bf16 *p, size_t pairs, float *c,
               size_t ldc, bool first, const void *next, size_t next_bytes)
{
    (void)next;
    (void)next_bytes;
    for (int i = 0; i < rows; i++, a += lda, c += ldc) {
        if (first)
            memset(c, 0, CPU_PANEL * sizeof *c);
        for (size_t k = 0; k < pairs; k++)
            pair_bf16(c, cpu_bf16_to_f32(a[2 * k]), cpu_bf16_to_f32(a[2 * k + 1]),
                      p + k * 2 * CPU_PANEL);
    }
}

static void fb(const float *a, size_t lda, int rows, const cpu_bf16 *p, size_t pairs, float *c,
               size_t ldc, bool first, const void *next, size_t next_bytes)
{
    (void)next;
    (void)next_bytes;
    for (int i = 0; i < rows; i++, a += lda, c += ldc) {
        if (first)
            memset(c, 0, CPU_PANEL * sizeof *c);
        for (size_t k = 0; k < pairs; k++)
            pair_bf16(c, a[2 * k], a[2 * k + 1], p + k * 2 * CPU_PANEL);
    }
}

static void ff(const float *a, size_t lda, int rows, const float *p, size_t pairs, float *c,
               size_t ldc, bool first, const void *next, size_t next_bytes)
{
    (void)next;
    (void)next_bytes;
    for (int i = 0; i < rows; i++, a += lda, c += ldc) {
        if (first)
            memset(c, 0, CPU_PANEL * sizeof *c);
        for (size_t k = 0; k < pairs; k++)
            pair_f32(c, a[2 * k], a[2 * k + 1], p + k * 2 * CPU_PANEL);
    }
}

static void bb_panels(const cpu_bf16 *a, size_t lda, int rows, const cpu_bf16 *p,
                      size_t panel_elems, int panels, size_t pairs, float *c, size_t ldc,
                      bool first, const void *next, int half)
{
    (void)next;
    (void)half;
    for (int j = 0; j < panels; j++)
        bb(a, lda, rows, p + (size_t)j * panel_elems, pairs, c + j * CPU_PANEL, ldc, first, NULL,
           0);
}

static void fb_panels(const float *a, size_t lda, int rows, const cpu_bf16 *p, size_t panel_elems,
                      int panels, size_t pairs, float *c, size_t ldc, bool first, const void *next,
                      int half)
{
    (void)next;
    (void)half;
    for (int j = 0; j < panels; j++)
        fb(a, lda, rows, p + (size_t)j * panel_elems, pairs, c + j * CPU_PANEL, ldc, first, NULL,
           0);
}

static void pack(cpu_bf16 *p, const cpu_bf16 *w, size_t ldw, int rows, size_t k)
{
    size_t pairs = (k + 1) / 2;
    if (rows < CPU_PANEL || k % 2)
        memset(p, 0, pairs * 2 * CPU_PANEL * sizeof *p);
    for (int n = 0; n < rows; n++) {
        const cpu_bf16 *row = w + (size_t)n * ldw;
        for (size_t i = 0; i < k / 2; i++)
            memcpy(p + i * 2 * CPU_PANEL + 2 * n, row + 2 * i, 2 * sizeof *p);
        if (k % 2)
            p[k / 2 * 2 * CPU_PANEL + 2 * (size_t)n] = row[k - 1];
    }
}

static void pack_pairs(cpu_bf16 *p, const cpu_bf16 *w, size_t ldw, size_t rows, int cols)
{
    if (cols < CPU_PANEL || rows % 2)
        memset(p, 0, (rows + 1) / 2 * 2 * CPU_PANEL * sizeof *p);
    for (size_t n = 0; n < rows; n++) {
        const cpu_bf16 *row = w + n * ldw;
        cpu_bf16 *to = p + n / 2 * 2 * CPU_PANEL + n % 2;
        for (int j = 0; j < cols; j++)
            to[2 * j] = row[j];
    }
}

static void cast(cpu_bf16 *out, const float *x, size_t n)
{
    for (size_t i = 0; i < n; i++)
        out[i] = cpu_f32_to_bf16(x[i]);
}

static void axpy(float *y, const float *x, float s, size_t n)
{
    for (size_t i = 0; i < n; i++)
        y[i] = __builtin_fmaf(s, x[i], y[i]);
}

const struct cpu_tiles cpu_tiles_portable = {
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

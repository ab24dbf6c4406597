/* SPDX-License-Identifier: Apache-2.0 */
/* cpu_elements.c: element by element operations, and rows moved about. */
#include "cpu.h"

#include "cpu_ops.h"

#include <string.h>

#define CHUNK ((int64_t)1 << 15)

struct elements {
    struct cpu_dev *d;
    float *x;
    const float *y;
    void *act;
    int64_t n;
};

static void add_job(void *ctx, int64_t i, int thread)
{
    const struct elements *v = ctx;
    int64_t n = MINT_MIN(CHUNK, v->n - i * CHUNK);
    float *x = v->x + i * CHUNK;
    const float *y = v->y + i * CHUNK;
    (void)thread;
#pragma omp simd
    for (int64_t j = 0; j < n; j++)
        x[j] += y[j];
}

int cpu_add(struct mint_dev *d, float *x, const float *y, int64_t n, struct mint_err *err)
{
    struct elements v = {.d = cpu_dev(d), .x = x, .y = y, .n = n};
    (void)err;
    cpu_parallel(v.d, (n + CHUNK - 1) / CHUNK, add_job, &v);
    return 0;
}

static void cast_job(void *ctx, int64_t i, int thread)
{
    const struct elements *v = ctx;
    (void)thread;
    size_t n = (size_t)MINT_MIN(CHUNK, v->n - i * CHUNK);
    const float *from = v->y + i * CHUNK;
    if (v->d->base.precision == MINT_PRECISION_BF16)
        v->d->isa->tiles->cast((cpu_bf16 *)v->act + i * CHUNK, from, n);
    else
        memcpy((float *)v->act + i * CHUNK, from, n * sizeof *from);
}

int cpu_cast(struct mint_dev *d, void *out, const float *x, int64_t n, struct mint_err *err)
{
    struct elements v = {.d = cpu_dev(d), .y = x, .act = out, .n = n};
    (void)err;
    cpu_parallel(v.d, (n + CHUNK - 1) / CHUNK, cast_job, &v);
    return 0;
}

int cpu_gather(struct mint_dev *d, void *out, const void *x, const int32_t *rows, int64_t n,
               size_t row_bytes, struct mint_err *err)
{
    (void)d;
    (void)err;
    for (int64_t i = 0; i < n; i++)
        memcpy((char *)out + (size_t)i * row_bytes, (const char *)x + (size_t)rows[i] * row_bytes,
               row_bytes);
    return 0;
}

int cpu_scatter(struct mint_dev *d, void *out, const void *x, const int32_t *rows, int64_t n,
                size_t row_bytes, struct mint_err *err)
{
    (void)d;
    (void)err;
    for (int64_t i = 0; i < n; i++)
        memcpy((char *)out + (size_t)rows[i] * row_bytes, (const char *)x + (size_t)i * row_bytes,
               row_bytes);
    return 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* cpu_elements.c: element by element operations, and rows moved about. */
#include "cpu.h"

#include "cpu_ops.h"

#include <string.h>

#define CHUNK ((int64_t)1 << 15)
#define FOLD                                                                             \
    ((int64_t)1 << 12) /* of each array: stays in the L1 cache from addition to addition \
                        */

struct elements {
    struct cpu_dev *d;
    float *x;
    const float *y;
    void *act;
    int64_t n;
};

static void add_n(float *x, const float *y, int64_t n)
{
#pragma omp simd
    for (int64_t j = 0; j < n; j++)
        x[j] += y[j];
}

static void add_job(void *ctx, int64_t i, int thread)
{
    const struct elements *v = ctx;
    (void)thread;
    add_n(v->x + i * CHUNK, v->y + i * CHUNK, MINT_MIN(CHUNK, v->n - i * CHUNK));
}

int cpu_add(struct mint_dev *d, float *x, const float *y, int64_t n, struct mint_err *err)
{
    struct elements v = {.d = cpu_dev(d), .x = x, .y = y, .n = n};
    (void)err;
    cpu_parallel(v.d, (n + CHUNK - 1) / CHUNK, add_job, &v);
    return 0;
}

static void fold_job(void *ctx, int64_t i, int thread)
{
    const struct mint_fold *f = ctx;
    (void)thread;
    for (int64_t k = 0; k < f->count; k++)
        add_n(f->add[k].x + i * FOLD, f->add[k].y + i * FOLD, MINT_MIN(FOLD, f->n - i * FOLD));
}

int cpu_fold(struct mint_dev *d, const struct mint_fold *f, int64_t n, struct mint_err *err)
{
    (void)err;
    for (int64_t i = 0; i < n; i++) {
        struct mint_fold one = f[i];
        cpu_share(cpu_dev(d), (one.n + FOLD - 1) / FOLD, one.n * one.count, fold_job, &one);
    }
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

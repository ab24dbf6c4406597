/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cpu_weight.c: matrices [N, K] of the model. Rows are always there, borrowed from the mapped file
 * where it holds the compute type, else converted into a copy; packed panels come on top of them,
 * for small T. What is kept and packed serves products alone: it needs no copy of its rows, each
 * panel is made from the file's.
 */
#include "cpu.h"

#include "../mem.h"
#include "cpu_ops.h"

#include <stdlib.h>
#include <string.h>

struct convert {
    const struct cpu_tiles *tiles;
    char *to;
    const char *from;
    enum mint_dtype to_type, from_type;
    size_t n; /* elements in all */
    size_t chunk;
};

static void convert_floats(const struct convert *c, size_t at, const float *x, size_t n)
{
    if (c->to_type == MINT_F32)
        memcpy(c->to + 4 * at, x, 4 * n);
    else
        c->tiles->cast((cpu_bf16 *)(void *)(c->to + 2 * at), x, n);
}

/* Elements at..end-1, through a small aligned buffer: the source may stand at an odd address. */
static void convert(const struct convert *c, size_t at, size_t end)
{
    float x[1024], raw[1024];
    size_t from_bytes = mint_dtype_bytes(c->from_type);
    if (c->from_type == c->to_type) {
        memcpy(c->to + at * from_bytes, c->from + at * from_bytes, (end - at) * from_bytes);
        return;
    }
    for (size_t n; at < end; at += n) {
        n = MINT_MIN(end - at, MINT_ARRAY_LEN(x));
        memcpy(raw, c->from + at * from_bytes, n * from_bytes);
        mint_dtype_to_f32(c->from_type, raw, x, n);
        convert_floats(c, at, x, n);
    }
}

static void convert_chunk(void *ctx, int64_t i, int thread)
{
    const struct convert *c = ctx;
    size_t at = (size_t)i * c->chunk;
    (void)thread;
    convert(c, at, MINT_MIN(at + c->chunk, c->n));
}

/* Fills owned rows of w's type. */
static void convert_rows(struct cpu_dev *d, struct mint_weight *w, const void *rows,
                         enum mint_dtype t)
{
    struct convert c = {.tiles = d->isa->tiles,
                        .to = w->owned_rows,
                        .from = rows,
                        .to_type = w->type,
                        .from_type = t,
                        .n = (size_t)(w->N * w->K),
                        .chunk = (size_t)1 << 18};
    cpu_parallel(d, (int64_t)((c.n + c.chunk - 1) / c.chunk), convert_chunk, &c);
}

void cpu_pack_f32(float *p, const float *w, size_t ldw, int rows, size_t k)
{
    if (rows < CPU_PANEL || k % 2)
        memset(p, 0, (k + 1) / 2 * 2 * CPU_PANEL * sizeof *p);
    for (int n = 0; n < rows; n++)
        for (size_t i = 0; i < k; i++)
            p[i / 2 * 2 * CPU_PANEL + 2 * (size_t)n + i % 2] = w[(size_t)n * ldw + i];
}

void cpu_pack_pairs_f32(float *p, const float *w, size_t ldw, size_t rows, int cols)
{
    if (cols < CPU_PANEL || rows % 2)
        memset(p, 0, (rows + 1) / 2 * 2 * CPU_PANEL * sizeof *p);
    for (size_t n = 0; n < rows; n++)
        for (int j = 0; j < cols; j++)
            p[n / 2 * 2 * CPU_PANEL + 2 * (size_t)j + n % 2] = w[n * ldw + (size_t)j];
}

struct packing {
    struct cpu_dev *d;
    const struct mint_weight *w;
    const char *from; /* rows of from_type; NULL: w's own */
    enum mint_dtype from_type;
};

/* Rows first..first+rows-1 as the weight has them, or converted into scratch. */
static const void *rows_to_pack(const struct packing *p, int thread, int64_t first, int rows)
{
    const struct mint_weight *w = p->w;
    size_t n = (size_t)(rows * w->K), at = (size_t)(first * w->K);
    if (!p->from)
        return (const char *)w->rows + at * mint_dtype_bytes(w->type);
    struct convert c = {.tiles = p->d->isa->tiles,
                        .to = cpu_scratch(p->d, thread, n * mint_dtype_bytes(w->type)),
                        .from = p->from + at * mint_dtype_bytes(p->from_type),
                        .to_type = w->type,
                        .from_type = p->from_type};
    convert(&c, 0, n);
    return c.to;
}

static void pack_panel(void *ctx, int64_t i, int thread)
{
    const struct packing *p = ctx;
    const struct mint_weight *w = p->w;
    size_t at = (size_t)i * w->panel_elems, K = (size_t)w->K;
    int rows = (int)MINT_MIN(w->N - i * CPU_PANEL, CPU_PANEL);
    const void *from = rows_to_pack(p, thread, i * CPU_PANEL, rows);
    if (w->type == MINT_F32)
        cpu_pack_f32((float *)w->packed + at, from, K, rows, K);
    else
        p->d->isa->tiles->pack((cpu_bf16 *)w->packed + at, from, K, rows, K);
}

static void pack_weight(struct cpu_dev *d, struct mint_weight *w, const void *from,
                        enum mint_dtype from_type)
{
    struct packing p = {d, w, from, from_type};
    cpu_share(d, (w->N + CPU_PANEL - 1) / CPU_PANEL, w->N * w->K, pack_panel, &p);
}

static int weight_fill(struct cpu_dev *d, struct mint_weight *w, const void *rows,
                       enum mint_dtype t, bool keep, bool packed, struct mint_err *err)
{
    size_t elem = mint_dtype_bytes(w->type), n;
    if (__builtin_mul_overflow((size_t)w->N, (size_t)w->K, &n) || n > SIZE_MAX / 16)
        return mint_fail(err, MINT_ENOMEM, "a matrix of %lld x %lld is too large", (long long)w->N,
                         (long long)w->K);
    if (keep && t == w->type && (uintptr_t)rows % elem == 0) {
        w->rows = rows;
    } else if (!keep || !packed) {
        w->owned_rows = cpu_alloc(&d->base, n * elem, err);
        if (!w->owned_rows)
            return -1;
        w->rows = w->owned_rows;
        convert_rows(d, w, rows, t);
    }
    if (packed) {
        size_t panels = (size_t)(w->N + CPU_PANEL - 1) / CPU_PANEL;
        w->packed = cpu_alloc(&d->base, panels * w->panel_elems * elem, err);
        if (!w->packed)
            return -1;
        pack_weight(d, w, w->rows ? NULL : rows, t);
    }
    return 0;
}

int cpu_weight_new(struct mint_dev *dev, struct mint_weight **out, const void *rows,
                   enum mint_dtype t, int64_t N, int64_t K, bool keep, bool packed,
                   struct mint_err *err)
{
    struct cpu_dev *d = cpu_dev(dev);
    *out = NULL;
    if (t != MINT_BF16 && t != MINT_F16 && t != MINT_F32)
        return mint_fail(err, MINT_EMODEL, "weights must be BF16, F16 or F32");
    if (N < 1 || K < 1)
        MINT_BUG("weight of %lld x %lld", (long long)N, (long long)K);
    struct mint_weight *w = mint_xcalloc(1, sizeof *w);
    w->N = N;
    w->K = K;
    w->type = dev->precision == MINT_PRECISION_BF16 || t == MINT_BF16 ? MINT_BF16 : MINT_F32;
    w->panel_elems = (size_t)(K + K % 2) * CPU_PANEL;
    if (weight_fill(d, w, rows, t, keep, packed, err) != 0) {
        cpu_weight_free(dev, w);
        return -1;
    }
    *out = w;
    return 0;
}

void cpu_weight_free(struct mint_dev *d, struct mint_weight *w)
{
    (void)d;
    if (!w)
        return;
    cpu_big_free(w->packed);
    cpu_big_free(w->owned_rows);
    free(w);
}

static int set_one(struct cpu_dev *d, struct mint_weight *w, const float *values,
                   struct mint_err *err)
{
    enum mint_dtype type = d->base.precision == MINT_PRECISION_BF16 ? MINT_BF16 : MINT_F32;
    if (!w->owned_rows || w->type != type) { /* rows of a file, or bf16 ones with precision f32 */
        struct mint_weight fresh = *w;
        fresh.type = type;
        fresh.rows = fresh.owned_rows = fresh.packed = NULL;
        if (weight_fill(d, &fresh, values, MINT_F32, false, w->packed, err) != 0) {
            cpu_big_free(fresh.owned_rows);
            return -1;
        }
        cpu_big_free(w->packed);
        cpu_big_free(w->owned_rows);
        *w = fresh;
        return 0;
    }
    convert_rows(d, w, values, MINT_F32);
    if (w->packed)
        pack_weight(d, w, NULL, w->type);
    return 0;
}

int cpu_weight_set(struct mint_dev *d, struct mint_weight *const *w, const float *const *values,
                   int64_t n, struct mint_err *err)
{
    for (int64_t i = 0; i < n; i++)
        MINT_TRY(set_one(cpu_dev(d), w[i], values[i], err));
    return 0;
}

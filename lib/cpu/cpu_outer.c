/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cpu_outer.c: out[M,N] = scale * a^T b over rows, the gradient of a matrix. The narrower of a and
 * b (a LoRA's rank, as a rule) is transposed once and plays A; panels are made from the other, 32
 * columns at a time, and each job owns one panel's columns.
 */
#include "cpu_gemm.h"
#include "cpu_ops.h"

#include <string.h>

#define DEPTH     512 /* rows of a panel: it stays in the L1 cache */
#define TURN_ROWS 64

struct outer {
    struct cpu_dev *d;
    float *out;
    float scale;
    size_t ldout;
    bool flipped;       /* the wide one is a: the job computes columns of out^T */
    const void *narrow; /* [rows, few] */
    size_t ldnarrow;
    const void *wide; /* [rows, many] */
    size_t ldwide;
    int64_t few, many, rows;
    char *turned; /* narrow^T [few, rows], row stride ldturned */
    size_t ldturned;
};

static void turn_job(void *ctx, int64_t i, int thread)
{
    const struct outer *o = ctx;
    int64_t t1 = MINT_MIN((i + 1) * TURN_ROWS, o->rows);
    (void)thread;
    for (int64_t j = 0; j < o->few; j++) {
        for (int64_t t = i * TURN_ROWS; t < t1; t++) {
            size_t from = (size_t)t * o->ldnarrow + (size_t)j;
            size_t to = (size_t)j * o->ldturned + (size_t)t;
            if (o->d->base.act_bytes == 2)
                ((cpu_bf16 *)(void *)o->turned)[to] = ((const cpu_bf16 *)o->narrow)[from];
            else
                ((float *)(void *)o->turned)[to] = ((const float *)o->narrow)[from];
        }
    }
}

static void write_outer(const struct outer *o, const float *sum, int64_t n0, int64_t cols)
{
    for (int64_t i = 0; i < o->few; i++)
        for (int64_t j = 0; j < cols; j++) {
            size_t to = o->flipped ? (size_t)(n0 + j) * o->ldout + (size_t)i
                                   : (size_t)i * o->ldout + (size_t)(n0 + j);
            o->out[to] = o->scale * sum[i * CPU_PANEL + j];
        }
}

static void outer_job(void *ctx, int64_t i, int thread)
{
    const struct outer *o = ctx;
    const struct cpu_tiles *tiles = o->d->isa->tiles;
    size_t e = o->d->base.act_bytes;
    int64_t n0 = i * CPU_PANEL, cols = MINT_MIN(CPU_PANEL, o->many - n0), step = DEPTH;
    float *sum = cpu_scratch(o->d, thread, (size_t)(o->few * CPU_PANEL) * sizeof *sum);
    void *panel = cpu_panel_scratch(o->d, thread, (size_t)(step * CPU_PANEL) * e);
    struct cpu_product g = {.tiles = tiles,
                            .kind = e == 2 ? CPU_BB : CPU_FF,
                            .lda = o->ldturned,
                            .rows = o->few,
                            .p = panel,
                            .cols = CPU_PANEL,
                            .c = sum,
                            .ldc = CPU_PANEL};
    for (int64_t t = 0; t < o->rows; t += step) {
        const void *wide = cpu_at(o->wide, (size_t)t * o->ldwide + (size_t)n0, e);
        g.depth = MINT_MIN(step, o->rows - t);
        g.panel_elems = (size_t)(g.depth + g.depth % 2) * CPU_PANEL;
        g.a = o->turned + (size_t)t * e;
        g.first = t == 0;
        if (e == 2)
            tiles->pack_pairs(panel, wide, o->ldwide, (size_t)g.depth, (int)cols);
        else
            cpu_pack_pairs_f32(panel, wide, o->ldwide, (size_t)g.depth, (int)cols);
        cpu_multiply(&g);
    }
    write_outer(o, sum, n0, cols);
}

int cpu_outer(struct mint_dev *dev, float *out, float scale, const void *a, int64_t lda, int64_t M,
              const void *b, int64_t ldb, int64_t N, int64_t row0, int64_t rows,
              struct mint_err *err)
{
    struct cpu_dev *d = cpu_dev(dev);
    size_t e = dev->act_bytes;
    (void)err;
    if (M < 1 || N < 1)
        return 0;
    if (rows < 1) {
        memset(out, 0, (size_t)(M * N) * sizeof *out);
        return 0;
    }
    a = cpu_at(a, (size_t)(row0 * lda), e);
    b = cpu_at(b, (size_t)(row0 * ldb), e);
    struct outer o = {.d = d, .out = out, .scale = scale, .ldout = (size_t)N, .rows = rows};
    o.flipped = N < M;
    o.narrow = o.flipped ? b : a;
    o.ldnarrow = (size_t)(o.flipped ? ldb : lda);
    o.wide = o.flipped ? a : b;
    o.ldwide = (size_t)(o.flipped ? lda : ldb);
    o.few = MINT_MIN(M, N);
    o.many = MINT_MAX(M, N);
    o.ldturned = cpu_padded_ld(d, rows);
    o.turned = cpu_work(d, (size_t)o.few * o.ldturned * e);
    cpu_share(d, (rows + TURN_ROWS - 1) / TURN_ROWS, rows * o.few, turn_job, &o);
    cpu_share(d, (o.many + CPU_PANEL - 1) / CPU_PANEL, M * N * rows, outer_job, &o);
    return 0;
}

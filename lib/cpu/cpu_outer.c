/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cpu_outer.c: out[M,N] = scale * a^T b over the rows of each leaf, the gradients of a matrix. The
 * narrower of a and b (a LoRA's rank, as a rule) is transposed once and plays A; panels are made
 * from the other, 32 columns at a time, and each job owns one panel's columns of one leaf.
 */
#include "cpu_gemm.h"
#include "cpu_ops.h"

#include <string.h>

#define DEPTH     512 /* rows of a panel: it stays in the L1 cache */
#define TURN_ROWS 64

struct outer {
    struct cpu_dev *d;
    float *const *out;
    const int64_t *first; /* rows of the leaves */
    float scale;
    size_t ldout;
    bool flipped;       /* the wide one is a: the job computes columns of out^T */
    const void *narrow; /* [rows, few] */
    size_t ldnarrow;
    const void *wide; /* [rows, many] */
    size_t ldwide;
    int64_t few, many, panels;
    int64_t row0, rows; /* of all leaves */
    char *turned;       /* narrow^T [few, rows], row stride ldturned */
    size_t ldturned;
};

static void turn_job(void *ctx, int64_t i, int thread)
{
    const struct outer *o = ctx;
    int64_t t1 = MINT_MIN((i + 1) * TURN_ROWS, o->rows);
    (void)thread;
    for (int64_t j = 0; j < o->few; j++) {
        for (int64_t t = i * TURN_ROWS; t < t1; t++) {
            size_t from = (size_t)(o->row0 + t) * o->ldnarrow + (size_t)j;
            size_t to = (size_t)j * o->ldturned + (size_t)t;
            if (o->d->base.act_bytes == 2)
                ((cpu_bf16 *)(void *)o->turned)[to] = ((const cpu_bf16 *)o->narrow)[from];
            else
                ((float *)(void *)o->turned)[to] = ((const float *)o->narrow)[from];
        }
    }
}

static void write_outer(const struct outer *o, float *out, const float *sum, int64_t n0,
                        int64_t cols)
{
    for (int64_t i = 0; i < o->few; i++)
        for (int64_t j = 0; j < cols; j++) {
            size_t to = o->flipped ? (size_t)(n0 + j) * o->ldout + (size_t)i
                                   : (size_t)i * o->ldout + (size_t)(n0 + j);
            out[to] = o->scale * sum[i * CPU_PANEL + j];
        }
}

static void outer_job(void *ctx, int64_t i, int thread)
{
    const struct outer *o = ctx;
    const struct cpu_tiles *tiles = o->d->isa->tiles;
    size_t e = o->d->base.act_bytes, sums = (size_t)(o->few * CPU_PANEL) * sizeof(float);
    int64_t leaf = i / o->panels, n0 = i % o->panels * CPU_PANEL;
    int64_t cols = MINT_MIN(CPU_PANEL, o->many - n0), end = o->first[leaf + 1];
    float *sum = cpu_scratch(o->d, thread, sums);
    void *panel = cpu_panel_scratch(o->d, thread, (size_t)(DEPTH * CPU_PANEL) * e);
    struct cpu_product g = {.tiles = tiles,
                            .kind = e == 2 ? CPU_BB : CPU_FF,
                            .lda = o->ldturned,
                            .rows = o->few,
                            .p = panel,
                            .cols = CPU_PANEL,
                            .c = sum,
                            .ldc = CPU_PANEL,
                            .first = true};
    if (o->first[leaf] == end)
        memset(sum, 0, sums);
    for (int64_t t = o->first[leaf]; t < end; t += DEPTH) {
        const void *wide = cpu_at(o->wide, (size_t)t * o->ldwide + (size_t)n0, e);
        g.depth = MINT_MIN(DEPTH, end - t);
        g.panel_elems = (size_t)(g.depth + g.depth % 2) * CPU_PANEL;
        g.a = o->turned + (size_t)(t - o->row0) * e;
        if (e == 2)
            tiles->pack_pairs(panel, wide, o->ldwide, (size_t)g.depth, (int)cols);
        else
            cpu_pack_pairs_f32(panel, wide, o->ldwide, (size_t)g.depth, (int)cols);
        cpu_multiply(&g);
        g.first = false;
    }
    write_outer(o, o->out[leaf], sum, n0, cols);
}

int cpu_outer(struct mint_dev *dev, float *const *out, const struct mint_outer *x,
              const int64_t *first, int64_t n, struct mint_err *err)
{
    struct cpu_dev *d = cpu_dev(dev);
    (void)err;
    if (x->M < 1 || x->N < 1 || n < 1)
        return 0;
    struct outer o = {.d = d, .out = out, .first = first, .scale = x->scale};
    o.ldout = (size_t)x->N;
    o.flipped = x->N < x->M;
    o.narrow = o.flipped ? x->b : x->a;
    o.ldnarrow = (size_t)(o.flipped ? x->ldb : x->lda);
    o.wide = o.flipped ? x->a : x->b;
    o.ldwide = (size_t)(o.flipped ? x->lda : x->ldb);
    o.few = MINT_MIN(x->M, x->N);
    o.many = MINT_MAX(x->M, x->N);
    o.panels = (o.many + CPU_PANEL - 1) / CPU_PANEL;
    o.row0 = first[0];
    o.rows = first[n] - first[0];
    o.ldturned = cpu_padded_ld(d, o.rows);
    o.turned = cpu_work(d, (size_t)o.few * o.ldturned * dev->act_bytes);
    cpu_share(d, (o.rows + TURN_ROWS - 1) / TURN_ROWS, o.rows * o.few, turn_job, &o);
    cpu_share(d, n * o.panels, x->M * x->N * (o.rows + n), outer_job, &o);
    return 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cpu_head_backward.c: gradients of the log-probabilities. The logits are made again, a group of
 * chunks at a time, and turned into their gradient; the products with it go on from group to group
 * in one accumulator, so the vocabulary is summed in ascending order however it is cut.
 */
#include "cpu_head.h"

#include "../mem.h"
#include "cpu_ops.h"

#include <stdlib.h>

#define GROUP        8 /* chunks whose gradient is in memory at once */
#define SUPER_BLOCKS 4 /* blocks of rows at once */
#define SUPER_ROWS   (SUPER_BLOCKS * HEAD_ROWS)
#define DX_COLS      64 /* columns of dh an item */

struct back {
    struct cpu_head head;
    const float *dlp, *lse;
    const int32_t *target;
    float *dh, *du;
    void *dy, *du_act;
    int64_t lddy;
    int64_t t0, rows; /* the rows at work */
    int64_t c0, c1;   /* the chunks at work */
};

/* Rows t.. of a chunk: from logits to their gradient in act. */
static void to_gradient(const struct cpu_head *x, void *out, const float *y, int64_t t, int64_t c,
                        int64_t cols, const float *dlp, const float *lse, const int32_t *target)
{
    x->d->isa->rows->dlogits(out, x->d->base.act_bytes == 2, y, lse[t], dlp[t],
                             target[t] - c * HEAD_CHUNK, cols);
}

static void gradient_item(void *ctx, int64_t item, int thread)
{
    const struct back *b = ctx;
    const struct cpu_head *x = &b->head;
    const int64_t blocks = cpu_head_blocks(b->rows), c = b->c0 + item / blocks;
    const int64_t i0 = item % blocks * HEAD_ROWS, n = MINT_MIN(HEAD_ROWS, b->rows - i0);
    float *y = cpu_scratch(x->d, thread, cpu_head_scratch_bytes());
    const int64_t cols = cpu_head_logits(x, thread, y, b->t0 + i0, n, c);

    for (int64_t i = 0; i < n; i++)
        to_gradient(x, cpu_act_at(x->d, b->dy, (i0 + i) * b->lddy + (c - b->c0) * HEAD_CHUNK),
                    y + i * HEAD_LD, b->t0 + i0 + i, c, cols, b->dlp, b->lse, b->target);
}

/* Columns of dh, or, as the last item, all of du: on with the sum over the group's columns. */
static void sum_item(void *ctx, int64_t item, int thread)
{
    const struct back *b = ctx;
    const struct cpu_head *x = &b->head;
    const int64_t v0 = b->c0 * HEAD_CHUNK, v1 = MINT_MIN(x->V, b->c1 * HEAD_CHUNK);
    const int64_t k0 = item * DX_COLS, k1 = MINT_MIN(x->H, k0 + DX_COLS);

    if (k0 < x->H)
        cpu_gemm_dx_cols(x->d, thread, b->dh + b->t0 * x->H + k0, (size_t)x->H, b->dy,
                         (size_t)b->lddy, b->rows, x->w, v0, v1, k0, k1, b->c0 == 0);
    else
        cpu_gemm_dx_cols(x->d, thread, b->du + b->t0 * x->lora->rank, (size_t)x->lora->rank, b->dy,
                         (size_t)b->lddy, b->rows, x->lora->b, v0, v1, 0, x->lora->rank,
                         b->c0 == 0);
}

/* du *= scale, then dh += act(du) A. */
static void lora_item(void *ctx, int64_t item, int thread)
{
    const struct back *b = ctx;
    const struct cpu_head *x = &b->head;
    const int64_t r = x->lora->rank, t0 = item * HEAD_ROWS, n = MINT_MIN(HEAD_ROWS, x->T - t0);
    float *du = b->du + t0 * r;
    void *act = cpu_act_at(x->d, b->du_act, t0 * r);
    float *part = cpu_scratch(x->d, thread, (size_t)(n * x->H) * sizeof *part);

    x->d->isa->rows->scale(du, x->lora->scale, n * r);
    cpu_to_act(x->d, act, du, n * r);
    cpu_gemm_dx_cols(x->d, thread, part, (size_t)x->H, act, (size_t)r, n, x->lora->a, 0, r, 0, x->H,
                     true);
    x->d->isa->rows->axpy(b->dh + t0 * x->H, 1.0f, part, n * x->H);
}

int cpu_head_backward(struct mint_dev *dev, float *dh, float *dlora_u, const float *dlp,
                      const float *lse, const void *h, const struct mint_weight *head,
                      const struct mint_lora *lora, const int32_t *target, int64_t T,
                      struct mint_err *err)
{
    struct cpu_dev *d = cpu_dev(dev);
    struct back b = {.dlp = dlp,
                     .lse = lse,
                     .target = target,
                     .dh = dh,
                     .du = dlora_u,
                     .lddy = GROUP * HEAD_CHUNK + 64};
    float *own_du = NULL;

    (void)err;
    if (T < 1)
        return 0;
    cpu_head_begin(&b.head, d, h, NULL, head, lora, T);
    if (b.head.lora) {
        const size_t n = (size_t)(T * lora->rank);

        if (!b.du)
            b.du = own_du = mint_xmalloc(n * sizeof *own_du);
        b.du_act = mint_xmalloc(n * dev->act_bytes);
    }
    b.dy = mint_xmalloc((size_t)(MINT_MIN(T, SUPER_ROWS) * b.lddy) * dev->act_bytes);
    for (b.t0 = 0; b.t0 < T; b.t0 += SUPER_ROWS) {
        b.rows = MINT_MIN(SUPER_ROWS, T - b.t0);
        for (b.c0 = 0; b.c0 < b.head.chunks; b.c0 += GROUP) {
            b.c1 = MINT_MIN(b.head.chunks, b.c0 + GROUP);
            cpu_parallel(d, cpu_head_blocks(b.rows) * (b.c1 - b.c0), gradient_item, &b);
            cpu_parallel(d, (b.head.H + DX_COLS - 1) / DX_COLS + (b.head.lora ? 1 : 0), sum_item,
                         &b);
        }
    }
    if (b.head.lora)
        cpu_parallel(d, cpu_head_blocks(T), lora_item, &b);
    free(b.dy);
    free(b.du_act);
    free(own_du);
    cpu_head_end(&b.head);
    return 0;
}

/* --- the gradient of the LoRA's B: db[v,:] = scale * sum over rows of dlogits[t,v] u[t,:]. */

struct lora_grad {
    struct cpu_head head; /* from row row0 on */
    const float *dlp, *lse;
    const int32_t *target;
    void *panels; /* u as panels of 32 columns [pairs][32][2] */
    int64_t panel_elems;
    float *db;
};

/* u[T, rank] to panels: pairs of rows, zero behind the last row and column (from calloc). */
static void pack_u(const struct cpu_head *x, char *panels, int64_t panel_elems)
{
    const size_t act = x->d->base.act_bytes;
    const int64_t r = x->lora->rank;

    for (int64_t t = 0; t < x->T; t++)
        for (int64_t j = 0; j < r; j++) {
            const int64_t at =
                j / CPU_PANEL * panel_elems + t / 2 * 2 * CPU_PANEL + j % CPU_PANEL * 2 + t % 2;

            memcpy(panels + (size_t)at * act, cpu_act_at(x->d, x->u, t * r + j), act);
        }
}

/* [n][ld] act to [cols][HEAD_ROWS], n made even with zeros. Blocks of 16 keep both sides in cache.
 */
static void transpose(const struct cpu_dev *d, void *out, const void *in, int64_t n, int64_t cols)
{
    for (int64_t j0 = 0; j0 < cols; j0 += 16)
        for (int64_t i = 0; i < n; i++)
            for (int64_t j = j0; j < MINT_MIN(cols, j0 + 16); j++)
                if (d->base.act_bytes == 2)
                    ((cpu_bf16 *)out)[j * HEAD_ROWS + i] = ((const cpu_bf16 *)in)[i * HEAD_LD + j];
                else
                    ((float *)out)[j * HEAD_ROWS + i] = ((const float *)in)[i * HEAD_LD + j];
    for (int64_t j = 0; n % 2 && j < cols; j++)
        memset(cpu_act_at(d, out, j * HEAD_ROWS + n), 0, d->base.act_bytes);
}

/* sum[cols][padded rank] goes on over the rows of a block. */
static void add_block(const struct lora_grad *g, float *sum, int64_t padded, const void *turned,
                      int64_t t0, int64_t n, int64_t cols)
{
    const struct cpu_dev *d = g->head.d;
    const struct cpu_tiles *tiles = d->isa->tiles;
    const size_t pairs = (size_t)(n + 1) / 2;

    for (int64_t k = 0; k < padded; k += CPU_PANEL) {
        const void *p = cpu_act_at(d, g->panels, k / CPU_PANEL * g->panel_elems + t0 * CPU_PANEL);

        for (int64_t v = 0; v < cols; v += CPU_TILE_ROWS) {
            const int rows = (int)MINT_MIN(CPU_TILE_ROWS, cols - v);
            const void *a = cpu_act_at(d, turned, v * HEAD_ROWS);
            float *c = sum + v * padded + k;

            if (d->base.act_bytes == 2)
                tiles->bb(a, HEAD_ROWS, rows, p, pairs, c, (size_t)padded, t0 == 0, NULL, 0);
            else
                tiles->ff(a, HEAD_ROWS, rows, p, pairs, c, (size_t)padded, t0 == 0, NULL, 0);
        }
    }
}

static void lora_grad_item(void *ctx, int64_t c, int thread)
{
    const struct lora_grad *g = ctx;
    const struct cpu_head *x = &g->head;
    const int64_t r = x->lora->rank, padded = (r + CPU_PANEL - 1) / CPU_PANEL * CPU_PANEL;
    const size_t block = (size_t)HEAD_ROWS * HEAD_LD * sizeof(float);
    char *at = cpu_scratch(x->d, thread,
                           cpu_head_scratch_bytes() + 2 * block +
                               (size_t)(HEAD_CHUNK * padded) * sizeof(float));
    float *y = (float *)(void *)at;
    char *dy = at + cpu_head_scratch_bytes(), *turned = dy + block;
    float *sum = (float *)(void *)(turned + block);
    int64_t cols = 0;

    for (int64_t t0 = 0; t0 < x->T; t0 += HEAD_ROWS) {
        const int64_t n = MINT_MIN(HEAD_ROWS, x->T - t0);

        cols = cpu_head_logits(x, thread, y, t0, n, c);
        for (int64_t i = 0; i < n; i++)
            to_gradient(x, cpu_act_at(x->d, dy, i * HEAD_LD), y + i * HEAD_LD, t0 + i, c, cols,
                        g->dlp, g->lse, g->target);
        transpose(x->d, turned, dy, n, cols);
        add_block(g, sum, padded, turned, t0, n, cols);
    }
    for (int64_t v = 0; v < cols; v++)
        for (int64_t j = 0; j < r; j++)
            g->db[(c * HEAD_CHUNK + v) * r + j] = x->lora->scale * sum[v * padded + j];
}

int cpu_head_lora_grad(struct mint_dev *dev, float *db, const float *dlp, const float *lse,
                       const void *h, const void *u, const struct mint_weight *head,
                       const struct mint_lora *lora, const int32_t *target, int64_t row0,
                       int64_t rows, struct mint_err *err)
{
    struct cpu_dev *d = cpu_dev(dev);
    const int64_t r = lora->rank, panels = (r + CPU_PANEL - 1) / CPU_PANEL;
    struct lora_grad g = {.dlp = dlp + row0,
                          .lse = lse + row0,
                          .target = target + row0,
                          .db = db,
                          .panel_elems = (rows + rows % 2) * CPU_PANEL};

    (void)err;
    if (rows < 1) {
        memset(db, 0, (size_t)(head->N * r) * sizeof *db);
        return 0;
    }
    cpu_head_begin(&g.head, d, cpu_act_at(d, h, row0 * head->K),
                   u ? cpu_act_at(d, u, row0 * r) : NULL, head, lora, rows);
    g.panels = cpu_big_alloc((size_t)(panels * g.panel_elems) * dev->act_bytes);
    if (!g.panels) {
        cpu_head_end(&g.head);
        return mint_fail(err, MINT_ENOMEM, "no memory for %lld rows of the head's LoRA gradient",
                         (long long)rows);
    }
    pack_u(&g.head, g.panels, g.panel_elems);
    cpu_parallel(d, g.head.chunks, lora_grad_item, &g);
    cpu_big_free(g.panels);
    cpu_head_end(&g.head);
    return 0;
}

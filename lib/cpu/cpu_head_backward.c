/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cpu_head_backward.c: gradients of the log-probabilities and the entropy. The logits, kept or made
 * again a group of chunks at a time, are turned into their gradient dy; all products with it go on
 * from group to group in one accumulator, so the vocabulary is summed in ascending order however it
 * is cut. The gradients of the LoRA's B sum over rows instead, a leaf's rows at a time; where a
 * leaf does not fit, it is cut between pairs of its rows, and its sum waits in the leaf's buffer.
 */
#include "cpu_gemm.h"
#include "cpu_head.h"

#include "../mem.h"
#include "cpu_ops.h"

#include <stdlib.h>

#define GROUP        8 /* chunks whose gradient is in memory at once */
#define SUPER_BLOCKS 4 /* blocks of rows at once */
#define SUPER_ROWS   (SUPER_BLOCKS * HEAD_ROWS)
#define MAX_PARTS    8   /* leaves at once: each has a buffer of the size of B */
#define DB_ROWS      512 /* rows of a panel of dy: it stays in the L1 cache */

/* Rows of a leaf among those at work. */
struct part {
    int64_t row, rows; /* row: from t0 on */
    bool first, last;  /* the leaf begins, ends here */
    float *db;
};

struct back {
    struct cpu_head head;
    const struct mint_head_grad *g;
    float *dh, *du;
    void *dy, *du_act;
    int64_t dh_cols; /* an item */
    int64_t lddy;
    int64_t t0, rows;                      /* the rows at work */
    int64_t c0, c1;                        /* the chunks at work */
    const struct mint_head_leaves *leaves; /* or NULL */
    int64_t leaf;                          /* the first one that has not ended */
    float *open;                           /* its buffer, if it has begun */
    struct part part[MAX_PARTS];
    int64_t nparts;
    void *ut; /* u of the rows at work, transposed: act [rank][SUPER_ROWS] */
};

/* Row t of a chunk: from logits to their gradient in act. */
static void to_gradient(const struct back *b, void *out, const float *y, int64_t t, int64_t c,
                        int64_t cols)
{
    const struct cpu_dev *d = b->head.d;
    struct cpu_dlogits g = {
        .lse = b->g->lse[t], .dlp = b->g->dlp[t], .target = b->g->target[t] - c * HEAD_CHUNK};

    if (b->g->dentropy) {
        g.entropy = b->g->entropy[t];
        g.dentropy = b->g->dentropy[t];
    }
    d->isa->rows->dlogits(out, d->base.act_bytes == 2, y, &g, cols);
}

static void gradient_item(void *ctx, int64_t item, int thread)
{
    const struct back *b = ctx;
    const struct cpu_head *x = &b->head;
    const int64_t blocks = cpu_head_blocks(b->rows), c = b->c0 + item / blocks;
    const int64_t i0 = item % blocks * HEAD_ROWS, n = MINT_MIN(HEAD_ROWS, b->rows - i0);
    const int64_t t0 = b->t0 + i0, ld = b->g->logits ? b->g->ldl : HEAD_LD;
    int64_t cols = MINT_MIN(HEAD_CHUNK, x->V - c * HEAD_CHUNK);
    const float *y = b->g->logits ? b->g->logits + t0 * ld + c * HEAD_CHUNK
                                  : cpu_head_logits(x, thread, NULL, 0, t0, n, c, &cols);

    for (int64_t i = 0; i < n; i++)
        to_gradient(b, cpu_act_at(x->d, b->dy, (i0 + i) * b->lddy + (c - b->c0) * HEAD_CHUNK),
                    y + i * ld, t0 + i, c, cols);
}

/* Columns v0..v0+cols-1 of a part: on with the sum over its rows; scaled when the leaf ends. */
static void db_panel(const struct back *b, int thread, const struct part *p, int64_t v0,
                     int64_t cols)
{
    const struct cpu_head *x = &b->head;
    const struct cpu_dev *d = x->d;
    const int64_t r = x->lora->rank;
    float *sum = cpu_scratch(x->d, thread, (size_t)(r * CPU_PANEL) * sizeof *sum);
    void *panel = cpu_panel_scratch(x->d, thread, (size_t)(DB_ROWS * CPU_PANEL) * sizeof *sum);
    float *db = p->db + v0 * r;
    struct cpu_product g = {.tiles = d->isa->tiles,
                            .kind = d->base.act_bytes == 2 ? CPU_BB : CPU_FF,
                            .lda = SUPER_ROWS,
                            .rows = r,
                            .p = panel,
                            .cols = CPU_PANEL,
                            .c = sum,
                            .ldc = CPU_PANEL,
                            .first = p->first};

    for (int64_t v = 0; !p->first && v < CPU_PANEL; v++)
        for (int64_t j = 0; j < r; j++)
            sum[j * CPU_PANEL + v] = v < cols ? db[v * r + j] : 0.0f;
    for (int64_t t = 0; t < p->rows; t += DB_ROWS) {
        const void *dy = cpu_act_at(d, b->dy, (p->row + t) * b->lddy + v0 - b->c0 * HEAD_CHUNK);

        g.depth = MINT_MIN(DB_ROWS, p->rows - t);
        g.panel_elems = (size_t)(g.depth + g.depth % 2) * CPU_PANEL;
        g.a = cpu_act_at(d, b->ut, p->row + t);
        if (d->base.act_bytes == 2)
            g.tiles->pack_pairs(panel, dy, (size_t)b->lddy, (size_t)g.depth, (int)cols);
        else
            cpu_pack_pairs_f32(panel, dy, (size_t)b->lddy, (size_t)g.depth, (int)cols);
        cpu_multiply(&g);
        g.first = false;
    }
    for (int64_t v = 0; v < cols; v++)
        for (int64_t j = 0; j < r; j++) {
            const float y = sum[j * CPU_PANEL + v];

            db[v * r + j] = p->last ? x->lora->scale * y : y;
        }
}

static void db_item(const struct back *b, int64_t item, int thread)
{
    const struct part *p = &b->part[item % b->nparts];
    const int64_t v0 = (b->c0 + item / b->nparts) * HEAD_CHUNK;
    const int64_t v1 = MINT_MIN(b->head.V, v0 + HEAD_CHUNK);

    for (int64_t v = v0; p->rows && v < v1; v += CPU_PANEL)
        db_panel(b, thread, p, v, MINT_MIN(CPU_PANEL, v1 - v));
}

static int64_t dh_items(const struct back *b)
{
    return (b->head.H + b->dh_cols - 1) / b->dh_cols;
}

/* Columns of dh, all of du, a chunk of a part's db: on with the sum over the group's columns. */
static void sum_item(void *ctx, int64_t item, int thread)
{
    const struct back *b = ctx;
    const struct cpu_head *x = &b->head;
    const int64_t v0 = b->c0 * HEAD_CHUNK, v1 = MINT_MIN(x->V, b->c1 * HEAD_CHUNK);
    const int64_t k0 = item * b->dh_cols, k1 = MINT_MIN(x->H, k0 + b->dh_cols);

    if (k0 < x->H)
        cpu_gemm_dx_cols(x->d, thread, b->dh + b->t0 * x->H + k0, (size_t)x->H, b->dy,
                         (size_t)b->lddy, b->rows, x->w, v0, v1, k0, k1, b->c0 == 0);
    else if (item == dh_items(b))
        cpu_gemm_dx_cols(x->d, thread, b->du + b->t0 * x->lora->rank, (size_t)x->lora->rank, b->dy,
                         (size_t)b->lddy, b->rows, x->lora->b, v0, v1, 0, x->lora->rank,
                         b->c0 == 0);
    else
        db_item(b, item - dh_items(b) - 1, thread);
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

/* How many rows from t0 on go together: no more than MAX_PARTS leaves, none cut inside a pair. */
static int64_t rows_together(const struct back *b)
{
    const struct mint_head_leaves *l = b->leaves;
    int64_t end = MINT_MIN(b->head.T, b->t0 + SUPER_ROWS);

    if (!l)
        return end - b->t0;
    if (b->leaf + MAX_PARTS < l->n)
        end = MINT_MIN(end, l->first[b->leaf + MAX_PARTS]);
    for (int64_t i = b->leaf; i < l->n && l->first[i] < end; i++)
        if (end < l->first[i + 1])
            end -= (end - l->first[i]) % 2;
    return end - b->t0;
}

/* The leaves of the rows at work; those without rows are 0. */
static int begin_parts(struct back *b, struct mint_err *err)
{
    const struct mint_head_leaves *l = b->leaves;
    const int64_t end = b->t0 + b->rows, r = b->head.lora->rank;

    b->nparts = 0;
    for (int64_t i = b->leaf; i < l->n && b->nparts < MAX_PARTS; i++) {
        const int64_t from = MINT_MAX(l->first[i], b->t0), to = MINT_MIN(l->first[i + 1], end);
        struct part p = {from - b->t0, to - from, !b->open, l->first[i + 1] <= end, b->open};

        if (to < from || (to == from && !p.last))
            break;
        if (p.first)
            p.db = l->begin(l->ctx, i, err);
        if (!p.db)
            return -1;
        if (l->first[i] == l->first[i + 1])
            memset(p.db, 0, (size_t)(b->head.V * r) * sizeof *p.db);
        b->part[b->nparts++] = p;
        b->open = p.last ? NULL : p.db;
    }
    for (int64_t j = 0; j < r; j++)
        for (int64_t t = 0; t < b->rows; t++)
            memcpy(cpu_act_at(b->head.d, b->ut, j * SUPER_ROWS + t),
                   cpu_act_at(b->head.d, b->head.u, (b->t0 + t) * r + j),
                   b->head.d->base.act_bytes);
    return 0;
}

static int end_parts(struct back *b, struct mint_err *err)
{
    for (int64_t i = 0; i < b->nparts; i++)
        if (b->part[i].last && b->leaves->end(b->leaves->ctx, b->leaf++, b->part[i].db, err) != 0)
            return -1;
    return 0;
}

static void all_groups(struct back *b)
{
    struct cpu_dev *d = b->head.d;
    const int64_t lora = b->head.lora ? 1 : 0;

    for (b->c0 = 0; b->rows && b->c0 < b->head.chunks; b->c0 += GROUP) {
        b->c1 = MINT_MIN(b->head.chunks, b->c0 + GROUP);
        cpu_parallel(d, cpu_head_blocks(b->rows) * (b->c1 - b->c0), gradient_item, b);
        cpu_parallel(d, dh_items(b) + lora + b->nparts * (b->c1 - b->c0), sum_item, b);
    }
}

static int all_rows(struct back *b, struct mint_err *err)
{
    while (b->t0 < b->head.T || (b->leaves && b->leaf < b->leaves->n)) {
        b->rows = rows_together(b);
        if (b->leaves)
            MINT_TRY(begin_parts(b, err));
        all_groups(b);
        if (b->leaves)
            MINT_TRY(end_parts(b, err));
        b->t0 += b->rows;
    }
    return 0;
}

int cpu_head_backward(struct mint_dev *dev, float *dh, float *dlora_u,
                      const struct mint_head_grad *g, const void *h, const struct mint_weight *head,
                      const struct mint_lora *lora, int64_t T,
                      const struct mint_head_leaves *leaves, struct mint_err *err)
{
    struct cpu_dev *d = cpu_dev(dev);
    struct back b = {.g = g, .dh = dh, .du = dlora_u, .lddy = GROUP * HEAD_CHUNK + 64};
    float *own_du = NULL;
    int rc;

    cpu_head_begin(&b.head, d, h, NULL, head, lora, T);
    b.dh_cols = cpu_back_cols(d, b.head.H);
    if (b.head.lora) {
        const size_t n = (size_t)(T * lora->rank);

        b.leaves = leaves;
        if (!b.du)
            b.du = own_du = mint_xcalloc(n + 1, sizeof *own_du);
        b.du_act = mint_xcalloc(n + 1, dev->act_bytes);
        b.ut = mint_xcalloc((size_t)lora->rank * SUPER_ROWS, dev->act_bytes);
    }
    b.dy = mint_xcalloc((size_t)(MINT_MIN(T, SUPER_ROWS) * b.lddy) + 1, dev->act_bytes);
    rc = all_rows(&b, err);
    if (rc == 0 && b.head.lora)
        cpu_parallel(d, cpu_head_blocks(T), lora_item, &b);
    free(b.dy);
    free(b.ut);
    free(b.du_act);
    free(own_du);
    cpu_head_end(&b.head);
    return rc;
}

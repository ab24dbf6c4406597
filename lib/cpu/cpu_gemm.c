/* SPDX-License-Identifier: Apache-2.0 */
/* cpu_gemm.c: products with the columns of a weight, and with those of its transpose. */
#include "cpu_gemm.h"

#include <string.h>

/* Depth of panels that are made from rows: with one tile of rows they stay in the L1 cache, else in
 * L2. */
#define SMALL_DEPTH 256
#define DEPTH       4096
#define BACK_DEPTH  2048
#define GROUP       4    /* packed panels that go through the tiles together */
#define MADE_GROUP  2    /* panels made together */
#define MADE_DEPTH  2048 /* GROUP panels made together are no deeper: they stay in L2 */
#define BACK_COLS   (GROUP * CPU_PANEL) /* made together of a transpose */
#define FEW_ROWS    6                   /* that the kernels take against several panels at once */
#define ROW_PAD     64                  /* bytes */

static enum cpu_kind kind_for(const struct cpu_dev *d, enum mint_dtype panel_type)
{
    if (panel_type == MINT_F32)
        return CPU_FF;
    return d->base.precision == MINT_PRECISION_BF16 ? CPU_BB : CPU_FB;
}

static void whole_pairs(const struct cpu_product *g, const void *a, int rows, size_t panel,
                        int panels, float *c, size_t ldc, int half)
{
    const void *p = cpu_at(g->p, panel * g->panel_elems, cpu_kind_panel_bytes(g->kind));
    size_t pairs = (size_t)g->depth / 2;
    const char *next = g->next && half ? (const char *)g->next + panel * pairs * 128 : NULL;
    switch (g->kind) {
    case CPU_BB:
        g->tiles->bb_panels(a, g->lda, rows, p, g->panel_elems, panels, pairs, c, ldc, g->first,
                            next, half);
        break;
    case CPU_FB:
        g->tiles->fb_panels(a, g->lda, rows, p, g->panel_elems, panels, pairs, c, ldc, g->first,
                            next, half);
        break;
    case CPU_FF:
        for (int j = 0; j < panels; j++)
            g->tiles->ff(a, g->lda, rows, (const float *)p + (size_t)j * g->panel_elems, pairs,
                         c + j * CPU_PANEL, ldc, g->first, NULL, 0);
        break;
    }
}

/* An odd depth ends with half a pair; what follows in A's row is not ours, so it is fed from a
 * copy. */
static void last_pair(const struct cpu_product *g, const void *a, int rows, size_t panel,
                      int panels, float *c, size_t ldc)
{
    float tail[CPU_TILE_ROWS][2] = {{0}};
    size_t e = cpu_kind_a_bytes(g->kind), k = (size_t)g->depth - 1;
    bool first = g->first && k == 0;
    for (int i = 0; i < rows; i++)
        memcpy((char *)tail + (size_t)i * 2 * e, cpu_at(a, (size_t)i * g->lda + k, e), e);
    for (int j = 0; j < panels; j++) {
        const void *p = cpu_at(g->p, (panel + (size_t)j) * g->panel_elems + k * CPU_PANEL,
                               cpu_kind_panel_bytes(g->kind));
        if (g->kind == CPU_BB)
            g->tiles->bb((const void *)tail, 2, rows, p, 1, c + j * CPU_PANEL, ldc, first, NULL, 0);
        else if (g->kind == CPU_FB)
            g->tiles->fb(tail[0], 2, rows, p, 1, c + j * CPU_PANEL, ldc, first, NULL, 0);
        else
            g->tiles->ff(tail[0], 2, rows, p, 1, c + j * CPU_PANEL, ldc, first, NULL, 0);
    }
}

/* Rows (one tile) against panels, all of whose columns may be written. */
static void multiply_tile(const struct cpu_product *g, const void *a, int rows, size_t panel,
                          int panels, float *c, size_t ldc, int half)
{
    if (g->depth >= 2)
        whole_pairs(g, a, rows, panel, panels, c, ldc, half);
    if (g->depth % 2)
        last_pair(g, a, rows, panel, panels, c, ldc);
}

static void copy_block(float *to, size_t ldto, const float *from, size_t ldfrom, int rows,
                       size_t cols)
{
    for (int i = 0; i < rows; i++)
        memcpy(to + (size_t)i * ldto, from + (size_t)i * ldfrom, cols * sizeof *to);
}

/* The rows are cut into equal tiles. While the first two run, they fetch what comes next; few rows
 * go through long streams, which need no help. */
void cpu_multiply(const struct cpu_product *g)
{
    int64_t tiles = (g->rows + CPU_TILE_ROWS - 1) / CPU_TILE_ROWS, m = 0;
    int full = (int)(g->cols / CPU_PANEL);
    size_t rest = (size_t)(g->cols % CPU_PANEL);
    for (int64_t t = 0; t < tiles; t++) {
        int rows = (int)((g->rows - m + tiles - t - 1) / (tiles - t));
        int half = g->rows <= FEW_ROWS ? 0 : tiles == 1 ? 3 : t < 2 ? (int)t + 1 : 0;
        const void *a = cpu_at(g->a, (size_t)m * g->lda, cpu_kind_a_bytes(g->kind));
        float *c = g->c + (size_t)m * g->ldc;
        if (full)
            multiply_tile(g, a, rows, 0, full, c, g->ldc, half);
        if (rest) {
            float part[CPU_TILE_ROWS * CPU_PANEL];
            float *edge = c + full * CPU_PANEL;
            if (!g->first) {
                memset(part, 0, sizeof part);
                copy_block(part, CPU_PANEL, edge, g->ldc, rows, rest);
            }
            multiply_tile(g, a, rows, (size_t)full, 1, part, CPU_PANEL, half);
            copy_block(edge, g->ldc, part, CPU_PANEL, rows, rest);
        }
        m += rows;
    }
}

/* Panels of columns n0.. of W^T, k k0..k0+depth-1, made from rows. */
static void make_panels(const struct cpu_tiles *tiles, void *p, const struct mint_weight *w,
                        int64_t n0, int64_t cols, int64_t k0, int64_t depth)
{
    size_t panel = (size_t)(depth + depth % 2) * CPU_PANEL;
    for (int64_t n = 0; n < cols; n += CPU_PANEL) {
        size_t from = (size_t)((n0 + n) * w->K + k0), to = (size_t)(n / CPU_PANEL) * panel;
        int rows = (int)MINT_MIN(cols - n, CPU_PANEL);
        if (w->type == MINT_F32)
            cpu_pack_f32((float *)p + to, (const float *)w->rows + from, (size_t)w->K, rows,
                         (size_t)depth);
        else
            tiles->pack((cpu_bf16 *)p + to, (const cpu_bf16 *)w->rows + from, (size_t)w->K, rows,
                        (size_t)depth);
    }
}

static int64_t depth_step(int64_t rows)
{
    return rows <= CPU_TILE_ROWS ? SMALL_DEPTH : DEPTH;
}

/* Depth in even steps, so that every cut falls between pairs. */
static void from_rows(struct cpu_product *g, void *panels, const struct mint_weight *w, int64_t n0)
{
    const void *a = g->a;
    const void *next =
        cpu_at(w->rows, (size_t)((n0 + g->cols) * w->K), cpu_kind_panel_bytes(g->kind));
    int64_t step = depth_step(g->rows);
    for (int64_t k = 0; k < w->K; k += step) {
        g->depth = MINT_MIN(step, w->K - k);
        make_panels(g->tiles, panels, w, n0, g->cols, k, g->depth);
        g->p = panels;
        g->panel_elems = (size_t)(g->depth + g->depth % 2) * CPU_PANEL;
        g->a = cpu_at(a, (size_t)k, cpu_kind_a_bytes(g->kind));
        g->first = k == 0;
        g->next = g->depth == w->K ? next : NULL;
        cpu_multiply(g);
    }
}

/* Rows of x are widened once a group, so many rows like wide groups. */
static bool made_wide(const struct mint_weight *w, int64_t T)
{
    return T > CPU_TILE_ROWS && w->K <= MADE_DEPTH;
}

void cpu_gemm_cols(struct cpu_dev *d, int thread, float *y, size_t ldy, const void *x, size_t ldx,
                   int64_t T, const struct mint_weight *w, int64_t n0, int64_t n1)
{
    struct cpu_product g = {.tiles = d->isa->tiles,
                            .kind = kind_for(d, w->type),
                            .a = x,
                            .lda = ldx,
                            .rows = T,
                            .panel_elems = w->panel_elems,
                            .depth = w->K,
                            .ldc = ldy,
                            .first = true};
    int64_t group = (w->packed || made_wide(w, T) ? GROUP : MADE_GROUP) * CPU_PANEL;
    size_t e = cpu_kind_panel_bytes(g.kind);
    size_t ahead = T <= CPU_TILE_ROWS ? 1 : GROUP; /* in panels: one tile needs the next at once */
    int64_t deepest = MINT_MIN(w->K + 1, depth_step(T));
    void *scratch = NULL;
    if (T < 1 || n1 <= n0)
        return;
    if (!w->packed)
        scratch = cpu_panel_scratch(d, thread, (size_t)(group * deepest) * e);
    for (int64_t n = n0; n < n1; n += group) {
        g.cols = MINT_MIN(group, n1 - n);
        g.c = y + (n - n0);
        if (w->packed) {
            g.p = cpu_at(w->packed, (size_t)(n / CPU_PANEL) * w->panel_elems, e);
            g.next = cpu_at(g.p, ahead * w->panel_elems, e);
            cpu_multiply(&g);
        } else {
            g.a = x;
            from_rows(&g, scratch, w, n);
        }
    }
}

/* Panels of columns k0.. of W, rows n0..n0+depth-1: the rows play the inner dimension. */
static void make_back_panels(const struct cpu_tiles *tiles, void *p, const struct mint_weight *w,
                             int64_t n0, int64_t depth, int64_t k0, int64_t cols)
{
    size_t panel = (size_t)(depth + depth % 2) * CPU_PANEL;
    for (int64_t k = 0; k < cols; k += CPU_PANEL) {
        size_t from = (size_t)(n0 * w->K + k0 + k), to = (size_t)(k / CPU_PANEL) * panel;
        int width = (int)MINT_MIN(cols - k, CPU_PANEL);
        if (w->type == MINT_F32)
            cpu_pack_pairs_f32((float *)p + to, (const float *)w->rows + from, (size_t)w->K,
                               (size_t)depth, width);
        else
            tiles->pack_pairs((cpu_bf16 *)p + to, (const cpu_bf16 *)w->rows + from, (size_t)w->K,
                              (size_t)depth, width);
    }
}

void cpu_gemm_dx_cols(struct cpu_dev *d, int thread, float *dx, size_t lddx, const void *dy,
                      size_t lddy, int64_t T, const struct mint_weight *w, int64_t n0, int64_t n1,
                      int64_t k0, int64_t k1, bool first)
{
    struct cpu_product g = {
        .tiles = d->isa->tiles, .kind = kind_for(d, w->type), .lda = lddy, .rows = T, .ldc = lddx};
    size_t e = cpu_kind_panel_bytes(g.kind);
    if (T < 1 || k1 <= k0)
        return;
    if (!w->rows)
        MINT_BUG("a weight packed for the forward has no backward");
    int64_t deepest = MINT_MIN(n1 - n0 + 1, BACK_DEPTH);
    void *scratch = cpu_panel_scratch(d, thread, (size_t)(deepest * BACK_COLS) * e);
    for (int64_t k = k0; k < k1; k += BACK_COLS) {
        g.cols = MINT_MIN(BACK_COLS, k1 - k);
        g.c = dx + (k - k0);
        for (int64_t n = n0; n < n1; n += BACK_DEPTH) {
            g.depth = MINT_MIN(BACK_DEPTH, n1 - n);
            g.panel_elems = (size_t)(g.depth + g.depth % 2) * CPU_PANEL;
            make_back_panels(g.tiles, scratch, w, n, g.depth, k, g.cols);
            g.p = scratch;
            g.a = cpu_at(dy, (size_t)(n - n0), cpu_kind_a_bytes(g.kind));
            g.first = first && n == n0;
            cpu_multiply(&g);
        }
    }
}

int64_t cpu_back_cols(const struct cpu_dev *d, int64_t K)
{
    return K / BACK_COLS >= 2 * d->base.threads ? BACK_COLS : BACK_COLS / 2;
}

size_t cpu_padded_ld(const struct cpu_dev *d, int64_t cols)
{
    size_t e = d->base.act_bytes;
    return ((size_t)cols * e + 63) / 64 * 64 / e + ROW_PAD / e;
}

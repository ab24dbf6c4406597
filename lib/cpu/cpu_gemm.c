/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cpu_gemm.c: matrix products and the plain row operations of the CPU backend.
 *
 * Every product is cut into tiles of at most 12 rows against panels of 32 columns (cpu.h). The sum over the
 * inner dimension is never split: where it is cut for the caches, the accumulators are stored and go on. So
 * nothing here (number of rows, tiles, chunks, threads, packed or not) changes a bit of the result.
 */
#include "cpu.h"

#include "cpu_ops.h"

#include <string.h>

#define ROW_PAD 64          /* bytes: strides of a power of two would put all rows of a tile into one cache set */
#define SMALL_T 12          /* rows that fit one tile */
#define SMALL_DEPTH 256     /* unpacked weights, one tile: depth of a panel that stays in the L1 cache */
#define DEPTH 4096          /* the same for more rows: panels in the L2 cache */
#define GROUP 4             /* panels that go through the tiles together */
#define BACK_GROUP 2        /* panels of a transpose: one row of them is two cache lines */
#define BACK_COLS (BACK_GROUP * CPU_PANEL)
#define ROW_BLOCK 504       /* rows of a job where the panels are cheap to make again; whole tiles */

/* Types of A and of the panels. */
enum kind { BB, FB, FF };

static enum kind kind_for(const struct cpu_dev *d, enum mint_dtype panel_type)
{
    if (panel_type == MINT_F32)
        return FF;
    return d->base.precision == MINT_PRECISION_BF16 ? BB : FB;
}

static size_t a_bytes(enum kind kind)
{
    return kind == BB ? 2 : 4;
}

static size_t p_bytes(enum kind kind)
{
    return kind == FF ? 4 : 2;
}

static const void *at(const void *p, size_t elems, size_t bytes)
{
    return (const char *)p + elems * bytes;
}

/* C[rows, cols] (+)= A[rows, depth] P, with ceil(cols / 32) panels over that depth. */
struct product {
    const struct cpu_tiles *tiles;
    enum kind kind;
    const void *a;
    size_t lda;
    int64_t rows;
    const void *p;
    size_t panel_elems;
    int64_t cols, depth;
    float *c;
    size_t ldc;
    bool first;
    const void *next; /* prefetched meanwhile, as many bytes as the panels have; or NULL */
};

static void whole_pairs(const struct product *g, const void *a, int rows, size_t panel, int panels,
                        float *c, size_t ldc, int lines)
{
    const void *p = at(g->p, panel * g->panel_elems, p_bytes(g->kind));
    size_t pairs = (size_t)g->depth / 2;
    const char *next = g->next && lines ? (const char *)g->next + panel * pairs * 128 : NULL;
    switch (g->kind) {
    case BB:
        g->tiles->bb_panels(a, g->lda, rows, p, g->panel_elems, panels, pairs, c, ldc, g->first,
                            next, lines);
        break;
    case FB:
        g->tiles->fb_panels(a, g->lda, rows, p, g->panel_elems, panels, pairs, c, ldc, g->first,
                            next, lines);
        break;
    case FF:
        for (int j = 0; j < panels; j++)
            g->tiles->ff(a, g->lda, rows, (const float *)p + (size_t)j * g->panel_elems, pairs,
                         c + j * CPU_PANEL, ldc, g->first, NULL, 0);
        break;
    }
}

/* An odd depth ends with half a pair. What follows in A's row is not ours, so that pair is fed from a copy. */
static void last_pair(const struct product *g, const void *a, int rows, size_t panel, int panels,
                      float *c, size_t ldc)
{
    float tail[CPU_TILE_ROWS][2] = {{0}};
    size_t e = a_bytes(g->kind), k = (size_t)g->depth - 1;
    bool first = g->first && k == 0;
    for (int i = 0; i < rows; i++)
        memcpy((char *)tail + (size_t)i * 2 * e, at(a, (size_t)i * g->lda + k, e), e);
    for (int j = 0; j < panels; j++) {
        const void *p = at(g->p, (panel + (size_t)j) * g->panel_elems + k * CPU_PANEL, p_bytes(g->kind));
        if (g->kind == BB)
            g->tiles->bb((const void *)tail, 2, rows, p, 1, c + j * CPU_PANEL, ldc, first, NULL, 0);
        else if (g->kind == FB)
            g->tiles->fb(tail[0], 2, rows, p, 1, c + j * CPU_PANEL, ldc, first, NULL, 0);
        else
            g->tiles->ff(tail[0], 2, rows, p, 1, c + j * CPU_PANEL, ldc, first, NULL, 0);
    }
}

/* Rows (one tile) against panels, all of whose columns may be written. */
static void multiply_tile(const struct product *g, const void *a, int rows, size_t panel,
                          int panels, float *c, size_t ldc, int lines)
{
    if (g->depth >= 2)
        whole_pairs(g, a, rows, panel, panels, c, ldc, lines);
    if (g->depth % 2)
        last_pair(g, a, rows, panel, panels, c, ldc);
}

static void copy_block(float *to, size_t ldto, const float *from, size_t ldfrom, int rows, size_t cols)
{
    for (int i = 0; i < rows; i++)
        memcpy(to + (size_t)i * ldto, from + (size_t)i * ldfrom, cols * sizeof *to);
}

/* The rows are cut into equal tiles. While the first two run, they fetch what comes next. */
static void multiply(const struct product *g)
{
    int64_t tiles = (g->rows + CPU_TILE_ROWS - 1) / CPU_TILE_ROWS, m = 0;
    int full = (int)(g->cols / CPU_PANEL);
    size_t rest = (size_t)(g->cols % CPU_PANEL);
    for (int64_t t = 0; t < tiles; t++) {
        int rows = (int)((g->rows - m + tiles - t - 1) / (tiles - t));
        int lines = tiles == 1 ? 3 : t < 2 ? (int)t + 1 : 0;
        const void *a = at(g->a, (size_t)m * g->lda, a_bytes(g->kind));
        float *c = g->c + (size_t)m * g->ldc;
        if (full)
            multiply_tile(g, a, rows, 0, full, c, g->ldc, lines);
        if (rest) {
            float part[CPU_TILE_ROWS * CPU_PANEL];
            float *edge = c + full * CPU_PANEL;
            if (!g->first) {
                memset(part, 0, sizeof part);
                copy_block(part, CPU_PANEL, edge, g->ldc, rows, rest);
            }
            multiply_tile(g, a, rows, (size_t)full, 1, part, CPU_PANEL, lines);
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

/* Depth in even steps, so that every cut falls between pairs. */
static void from_rows(struct product *g, void *panels, const struct mint_weight *w, int64_t n0)
{
    const void *a = g->a;
    int64_t step = g->rows <= SMALL_T ? SMALL_DEPTH : DEPTH;
    for (int64_t k = 0; k < w->K; k += step) {
        g->depth = MINT_MIN(step, w->K - k);
        make_panels(g->tiles, panels, w, n0, g->cols, k, g->depth);
        g->p = panels;
        g->panel_elems = (size_t)(g->depth + g->depth % 2) * CPU_PANEL;
        g->a = at(a, (size_t)k, a_bytes(g->kind));
        g->first = k == 0;
        g->next = g->depth == w->K ? at(w->rows, (size_t)((n0 + g->cols) * w->K), p_bytes(g->kind)) : NULL;
        multiply(g);
    }
}

void cpu_gemm_cols(struct cpu_dev *d, int thread, float *y, size_t ldy, const void *x, size_t ldx,
                   int64_t T, const struct mint_weight *w, int64_t n0, int64_t n1)
{
    struct product g = {.tiles = d->isa->tiles,
                        .kind = kind_for(d, w->type),
                        .a = x,
                        .lda = ldx,
                        .rows = T,
                        .panel_elems = w->panel_elems,
                        .depth = w->K,
                        .ldc = ldy,
                        .first = true};
    int64_t group = (w->packed ? GROUP : BACK_GROUP) * CPU_PANEL;
    size_t e = p_bytes(g.kind);
    size_t ahead = T <= CPU_TILE_ROWS ? 1 : GROUP; /* panels; one tile is done with a panel at once */
    void *scratch = NULL;
    if (T < 1 || n1 <= n0)
        return;
    if (!w->packed)
        scratch = cpu_panel_scratch(
            d, thread, (size_t)group * (size_t)MINT_MIN(w->K + 1, T <= SMALL_T ? SMALL_DEPTH : DEPTH) * e);
    for (int64_t n = n0; n < n1; n += group) {
        g.cols = MINT_MIN(group, n1 - n);
        g.c = y + (n - n0);
        if (w->packed) {
            g.p = at(w->packed, (size_t)(n / CPU_PANEL) * w->panel_elems, e);
            g.next = at(g.p, ahead * w->panel_elems, e);
            multiply(&g);
        } else {
            g.a = x;
            from_rows(&g, scratch, w, n);
        }
    }
}

void cpu_gemm_dx_cols(struct cpu_dev *d, int thread, float *dx, size_t lddx, const void *dy,
                      size_t lddy, int64_t T, const struct mint_weight *w, int64_t n0, int64_t n1,
                      int64_t k0, int64_t k1, bool first)
{
    struct product g = {.tiles = d->isa->tiles,
                        .kind = kind_for(d, w->type),
                        .lda = lddy,
                        .rows = T,
                        .ldc = lddx};
    size_t e = p_bytes(g.kind);
    if (T < 1 || k1 <= k0)
        return;
    int64_t deepest = MINT_MIN(n1 - n0 + 1, DEPTH / 2);
    void *scratch = cpu_panel_scratch(d, thread, (size_t)(deepest * BACK_COLS) * e);
    for (int64_t k = k0; k < k1; k += BACK_COLS) {
        g.cols = MINT_MIN(BACK_COLS, k1 - k);
        g.c = dx + (k - k0);
        for (int64_t n = n0; n < n1; n += DEPTH / 2) {
            g.depth = MINT_MIN(DEPTH / 2, n1 - n);
            g.panel_elems = (size_t)(g.depth + g.depth % 2) * CPU_PANEL;
            for (int64_t j = 0; j < g.cols; j += CPU_PANEL) {
                size_t from = (size_t)(n * w->K + k + j);
                size_t to = (size_t)(j / CPU_PANEL) * g.panel_elems;
                int cols = (int)MINT_MIN(CPU_PANEL, g.cols - j);
                if (w->type == MINT_F32)
                    cpu_pack_pairs_f32((float *)scratch + to, (const float *)w->rows + from,
                                       (size_t)w->K, (size_t)g.depth, cols);
                else
                    g.tiles->pack_pairs((cpu_bf16 *)scratch + to, (const cpu_bf16 *)w->rows + from,
                                        (size_t)w->K, (size_t)g.depth, cols);
            }
            g.p = scratch;
            g.a = at(dy, (size_t)(n - n0), a_bytes(g.kind));
            g.first = first && n == n0;
            multiply(&g);
        }
    }
}

/* Rows of an act matrix, possibly copied to a stride that is kind to the cache. */
struct act_rows {
    const void *x;
    size_t ld; /* elements */
};

static size_t padded_ld(const struct cpu_dev *d, int64_t cols)
{
    size_t e = d->base.act_bytes;
    return ((size_t)cols * e + 63) / 64 * 64 / e + ROW_PAD / e;
}

/* Only a tile that has many rows at once suffers from a bad stride. */
static bool wants_padding(const struct cpu_dev *d, size_t ld, int64_t T)
{
    return T > CPU_TILE_ROWS / 2 && ld * d->base.act_bytes % 1024 == 0;
}

struct copy_rows {
    char *to;
    const char *from;
    size_t to_bytes, from_bytes, bytes;
    int64_t rows, step;
};

static void copy_rows_job(void *ctx, int64_t i, int thread)
{
    const struct copy_rows *c = ctx;
    int64_t end = MINT_MIN((i + 1) * c->step, c->rows);
    (void)thread;
    for (int64_t t = i * c->step; t < end; t++)
        memcpy(c->to + (size_t)t * c->to_bytes, c->from + (size_t)t * c->from_bytes, c->bytes);
}

/* Pads x[T, cols] into room where that pays. */
static struct act_rows pad_rows(struct cpu_dev *d, char *room, const void *x, size_t ldx, int64_t T,
                                int64_t cols)
{
    if (!wants_padding(d, ldx, T))
        return (struct act_rows){x, ldx};
    size_t e = d->base.act_bytes, ld = padded_ld(d, cols);
    struct copy_rows c = {room, x, ld * e, ldx * e, (size_t)cols * e, T, 64};
    cpu_share(d, (T + c.step - 1) / c.step, T * cols, copy_rows_job, &c);
    return (struct act_rows){room, ld};
}

static size_t pad_bytes(const struct cpu_dev *d, size_t ldx, int64_t T, int64_t cols)
{
    return wants_padding(d, ldx, T) ? padded_ld(d, cols) * d->base.act_bytes * (size_t)T : 0;
}

/* --- forward */

struct linear {
    struct cpu_dev *d;
    float *y;
    size_t ldy;
    struct act_rows x;
    const struct mint_weight *w;
    const float *bias;
    const struct mint_lora *lora;
    void *u; /* act[T, rank] */
    int64_t T, step;
};

static void to_act(const struct cpu_dev *d, void *out, const float *x, size_t n)
{
    if (d->base.precision == MINT_PRECISION_BF16)
        d->isa->tiles->cast(out, x, n);
    else
        memcpy(out, x, n * sizeof *x);
}

/* u = act(A x) for a block of rows. */
static void lora_u_job(void *ctx, int64_t i, int thread)
{
    const struct linear *l = ctx;
    int64_t rank = l->lora->rank, t = i * l->step, rows = MINT_MIN(l->step, l->T - t);
    size_t e = l->d->base.act_bytes;
    float *sum = cpu_scratch(l->d, thread, (size_t)(rows * rank) * sizeof *sum);
    cpu_gemm_cols(l->d, thread, sum, (size_t)rank, at(l->x.x, (size_t)t * l->x.ld, e), l->x.ld,
                  rows, l->lora->a, 0, rank);
    to_act(l->d, (char *)l->u + (size_t)(t * rank) * e, sum, (size_t)(rows * rank));
}

static void add_bias(float *y, size_t ldy, const float *bias, int64_t T, int64_t cols)
{
    for (int64_t t = 0; t < T; t++) {
        float *row = y + (size_t)t * ldy;
#pragma omp simd
        for (int64_t n = 0; n < cols; n++)
            row[n] += bias[n];
    }
}

/* y += scale * u B^T on columns n0..n1-1. */
static void add_lora(const struct linear *l, int thread, float *y, int64_t n0, int64_t n1)
{
    size_t e = l->d->base.act_bytes, rank = (size_t)l->lora->rank;
    int64_t cols = n1 - n0, block = SMALL_T * 4;
    float *sum = cpu_scratch(l->d, thread, (size_t)(MINT_MIN(block, l->T) * cols) * sizeof *sum);
    for (int64_t t = 0; t < l->T; t += block) {
        int64_t rows = MINT_MIN(block, l->T - t);
        cpu_gemm_cols(l->d, thread, sum, (size_t)cols, at(l->u, (size_t)t * rank, e), rank, rows,
                      l->lora->b, n0, n1);
        for (int64_t i = 0; i < rows; i++)
            l->d->isa->tiles->axpy(y + (size_t)(t + i) * l->ldy, sum + i * cols, l->lora->scale,
                                   (size_t)cols);
    }
}

static void linear_job(void *ctx, int64_t i, int thread)
{
    const struct linear *l = ctx;
    int64_t n0 = i * l->step, n1 = MINT_MIN(n0 + l->step, l->w->N);
    float *y = l->y + n0;
    cpu_gemm_cols(l->d, thread, y, l->ldy, l->x.x, l->x.ld, l->T, l->w, n0, n1);
    if (l->bias)
        add_bias(y, l->ldy, l->bias + n0, l->T, n1 - n0);
    if (l->lora)
        add_lora(l, thread, y, n0, n1);
}

/* Columns of a job. Below 128 rows the weights must stream: long chunks, so that the fetched next panel is one's own. */
static int64_t columns_a_job(const struct cpu_dev *d, int64_t N, int64_t T)
{
    int64_t step = N / d->base.threads / 2 / 256 * 256;
    if (T >= 128)
        return 128;
    return MINT_MAX(128, MINT_MIN(step, 512));
}

static bool has_lora(const struct mint_lora *lora)
{
    return lora && lora->a;
}

/* Rows of a job where rows are shared out: whole tiles, enough jobs for all threads. */
static int64_t rows_a_job(const struct cpu_dev *d, int64_t T)
{
    int64_t each = (T + 2 * d->base.threads - 1) / (2 * d->base.threads);
    each = (each + CPU_TILE_ROWS - 1) / CPU_TILE_ROWS * CPU_TILE_ROWS;
    return MINT_MAX(CPU_TILE_ROWS, MINT_MIN(each, ROW_BLOCK));
}

int cpu_linear(struct mint_dev *dev, float *y, int64_t ldy, const void *x,
               const struct mint_weight *w, const float *bias, const struct mint_lora *lora,
               void *u, int64_t T, struct mint_err *err)
{
    struct cpu_dev *d = cpu_dev(dev);
    struct linear l = {.d = d, .y = y, .ldy = (size_t)ldy, .w = w, .bias = bias, .u = u, .T = T};
    (void)err;
    if (T < 1)
        return 0;
    size_t ldx = (size_t)w->K, pad = pad_bytes(d, ldx, T, w->K);
    size_t u_bytes = has_lora(lora) && !u ? (size_t)(T * lora->rank) * dev->act_bytes : 0;
    char *work = cpu_work(d, pad + u_bytes + 1);
    l.x = pad_rows(d, work, x, ldx, T, w->K);
    if (has_lora(lora)) {
        l.lora = lora;
        if (!u)
            l.u = work + pad;
        l.step = rows_a_job(d, T);
        cpu_share(d, (T + l.step - 1) / l.step, T * w->K * lora->rank, lora_u_job, &l);
    }
    l.step = columns_a_job(d, w->N, T);
    cpu_share(d, (w->N + l.step - 1) / l.step, T * w->N * w->K, linear_job, &l);
    return 0;
}

/* --- backward */

struct linear_dx {
    struct cpu_dev *d;
    float *dx;
    bool accumulate;
    struct act_rows dy;
    const struct mint_weight *w, *a; /* a: NULL without LoRA */
    const void *du;
    int64_t T, row_step, k_jobs;
};

/* dx = (accumulate ? dx : 0) + (acc + acc2) */
static void add_parts(const struct linear_dx *l, float *dx, float *acc, const float *acc2,
                      int64_t rows, int64_t cols)
{
    for (int64_t t = 0; t < rows; t++, dx += l->w->K, acc += BACK_COLS, acc2 += BACK_COLS) {
        if (l->a) {
#pragma omp simd
            for (int64_t k = 0; k < cols; k++)
                acc[k] += acc2[k];
        }
        if (l->accumulate) {
#pragma omp simd
            for (int64_t k = 0; k < cols; k++)
                dx[k] += acc[k];
        } else {
            memcpy(dx, acc, (size_t)cols * sizeof *dx);
        }
    }
}

static void linear_dx_job(void *ctx, int64_t i, int thread)
{
    const struct linear_dx *l = ctx;
    int64_t k0 = i % l->k_jobs * BACK_COLS, k1 = MINT_MIN(k0 + BACK_COLS, l->w->K);
    int64_t t = i / l->k_jobs * l->row_step, rows = MINT_MIN(l->row_step, l->T - t);
    size_t e = l->d->base.act_bytes, part = (size_t)(rows * BACK_COLS);
    float *acc = cpu_scratch(l->d, thread, 2 * part * sizeof *acc), *acc2 = acc + part;
    cpu_gemm_dx_cols(l->d, thread, acc, BACK_COLS, at(l->dy.x, (size_t)t * l->dy.ld, e), l->dy.ld,
                     rows, l->w, 0, l->w->N, k0, k1, true);
    if (l->a)
        cpu_gemm_dx_cols(l->d, thread, acc2, BACK_COLS, at(l->du, (size_t)(t * l->a->N), e),
                         (size_t)l->a->N, rows, l->a, 0, l->a->N, k0, k1, true);
    add_parts(l, l->dx + (size_t)(t * l->w->K + k0), acc, acc2, rows, k1 - k0);
}

int cpu_linear_dx(struct mint_dev *dev, float *dx, bool accumulate, const void *dy, int64_t lddy,
                  const struct mint_weight *w, const struct mint_lora *lora, const void *du,
                  int64_t T, struct mint_err *err)
{
    struct cpu_dev *d = cpu_dev(dev);
    struct linear_dx l = {.d = d, .dx = dx, .accumulate = accumulate, .w = w, .du = du, .T = T};
    (void)err;
    if (T < 1)
        return 0;
    l.dy = pad_rows(d, cpu_work(d, pad_bytes(d, (size_t)lddy, T, w->N) + 1), dy, (size_t)lddy, T,
                    w->N);
    l.a = has_lora(lora) && du ? lora->a : NULL;
    l.row_step = ROW_BLOCK;
    l.k_jobs = (w->K + BACK_COLS - 1) / BACK_COLS;
    cpu_share(d, l.k_jobs * ((T + l.row_step - 1) / l.row_step), T * w->N * w->K, linear_dx_job,
              &l);
    return 0;
}

struct lora_du {
    struct cpu_dev *d;
    float *du;
    const void *dy;
    size_t lddy;
    const struct mint_lora *lora;
    int64_t T, step;
};

static void lora_du_job(void *ctx, int64_t i, int thread)
{
    const struct lora_du *l = ctx;
    int64_t t = i * l->step, rows = MINT_MIN(l->step, l->T - t), rank = l->lora->rank;
    float *du = l->du + t * rank;
    cpu_gemm_dx_cols(l->d, thread, du, (size_t)rank,
                     at(l->dy, (size_t)t * l->lddy, l->d->base.act_bytes), l->lddy, rows,
                     l->lora->b, 0, l->lora->b->N, 0, rank, true);
    for (int64_t j = 0; j < rows * rank; j++)
        du[j] *= l->lora->scale;
}

int cpu_lora_du(struct mint_dev *dev, float *du, const void *dy, int64_t lddy,
                const struct mint_lora *lora, int64_t T, struct mint_err *err)
{
    struct cpu_dev *d = cpu_dev(dev);
    struct lora_du l = {d, du, dy, (size_t)lddy, lora, T, MINT_MAX(48, rows_a_job(d, T))};
    (void)err;
    cpu_share(d, (T + l.step - 1) / l.step, T * lora->b->N * lora->rank, lora_du_job, &l);
    return 0;
}

/*
 * out[M,N] = scale * a^T b over rows. The narrower of a and b (a LoRA's rank, as a rule) is transposed once and plays A;
 * panels are made from the other, 32 columns at a time, and each job owns one panel's columns.
 */
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

#define TURN_ROWS 64

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
    int64_t n0 = i * CPU_PANEL, cols = MINT_MIN(CPU_PANEL, o->many - n0), step = SMALL_DEPTH * 2;
    float *sum = cpu_scratch(o->d, thread, (size_t)(o->few * CPU_PANEL) * sizeof *sum);
    void *panel = cpu_panel_scratch(o->d, thread, (size_t)(step * CPU_PANEL) * e);
    struct product g = {.tiles = tiles,
                        .kind = e == 2 ? BB : FF,
                        .lda = o->ldturned,
                        .rows = o->few,
                        .p = panel,
                        .cols = CPU_PANEL,
                        .c = sum,
                        .ldc = CPU_PANEL};
    for (int64_t t = 0; t < o->rows; t += step) {
        const void *wide = at(o->wide, (size_t)t * o->ldwide + (size_t)n0, e);
        g.depth = MINT_MIN(step, o->rows - t);
        g.panel_elems = (size_t)(g.depth + g.depth % 2) * CPU_PANEL;
        g.a = o->turned + (size_t)t * e;
        g.first = t == 0;
        if (e == 2)
            tiles->pack_pairs(panel, wide, o->ldwide, (size_t)g.depth, (int)cols);
        else
            cpu_pack_pairs_f32(panel, wide, o->ldwide, (size_t)g.depth, (int)cols);
        multiply(&g);
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
    a = at(a, (size_t)(row0 * lda), e);
    b = at(b, (size_t)(row0 * ldb), e);
    struct outer o = {.d = d, .out = out, .scale = scale, .ldout = (size_t)N, .rows = rows};
    o.flipped = N < M;
    o.narrow = o.flipped ? b : a;
    o.ldnarrow = (size_t)(o.flipped ? ldb : lda);
    o.wide = o.flipped ? a : b;
    o.ldwide = (size_t)(o.flipped ? lda : ldb);
    o.few = MINT_MIN(M, N);
    o.many = MINT_MAX(M, N);
    o.ldturned = padded_ld(d, rows);
    o.turned = cpu_work(d, (size_t)o.few * o.ldturned * e);
    cpu_share(d, (rows + TURN_ROWS - 1) / TURN_ROWS, rows * o.few, turn_job, &o);
    cpu_share(d, (o.many + CPU_PANEL - 1) / CPU_PANEL, M * N * rows, outer_job, &o);
    return 0;
}

/* --- element by element, and rows moved about */

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
    to_act(v->d, (char *)v->act + (size_t)(i * CHUNK) * v->d->base.act_bytes, v->y + i * CHUNK,
           (size_t)MINT_MIN(CHUNK, v->n - i * CHUNK));
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
        memcpy((char *)out + (size_t)i * row_bytes, at(x, (size_t)rows[i], row_bytes), row_bytes);
    return 0;
}

int cpu_scatter(struct mint_dev *d, void *out, const void *x, const int32_t *rows, int64_t n,
                size_t row_bytes, struct mint_err *err)
{
    (void)d;
    (void)err;
    for (int64_t i = 0; i < n; i++)
        memcpy((char *)out + (size_t)rows[i] * row_bytes, at(x, (size_t)i, row_bytes), row_bytes);
    return 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* cpu_linear.c: linear maps with LoRA, forward and backward. */
#include "cpu_gemm.h"
#include "cpu_ops.h"

#include <string.h>

#define LORA_ROWS (4 * CPU_TILE_ROWS) /* rows of the sums that wait for y += scale * sum */
#define ROW_BLOCK 504 /* rows of a job that makes its own panels, about; whole tiles */

/* Rows of an act matrix, as they are or copied to a better stride. */
struct act_rows {
    const void *x;
    size_t ld; /* elements */
};

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
    size_t e = d->base.act_bytes, ld = cpu_padded_ld(d, cols);
    struct copy_rows c = {room, x, ld * e, ldx * e, (size_t)cols * e, T, 64};
    cpu_share(d, (T + c.step - 1) / c.step, T * cols, copy_rows_job, &c);
    return (struct act_rows){room, ld};
}

static size_t pad_bytes(const struct cpu_dev *d, size_t ldx, int64_t T, int64_t cols)
{
    return wants_padding(d, ldx, T) ? cpu_padded_ld(d, cols) * d->base.act_bytes * (size_t)T : 0;
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
    cpu_gemm_cols(l->d, thread, sum, (size_t)rank, cpu_at(l->x.x, (size_t)t * l->x.ld, e), l->x.ld,
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
    int64_t cols = n1 - n0, block = LORA_ROWS;
    float *sum = cpu_scratch(l->d, thread, (size_t)(MINT_MIN(block, l->T) * cols) * sizeof *sum);
    for (int64_t t = 0; t < l->T; t += block) {
        int64_t rows = MINT_MIN(block, l->T - t);
        cpu_gemm_cols(l->d, thread, sum, (size_t)cols, cpu_at(l->u, (size_t)t * rank, e), rank,
                      rows, l->lora->b, n0, n1);
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

#define JOB_COLS 128 /* of y in one job: few, so that no thread waits long for another */

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
    if (!y)
        return 0;
    l.step = JOB_COLS;
    cpu_share(d, (w->N + l.step - 1) / l.step, T * w->N * w->K, linear_job, &l);
    return 0;
}

/* --- backward */

/* T rows in equal blocks. */
static int64_t row_block(int64_t T)
{
    int64_t blocks = MINT_MAX(1, (T + ROW_BLOCK / 2) / ROW_BLOCK);
    int64_t each = (T + blocks - 1) / blocks;
    return (each + CPU_TILE_ROWS - 1) / CPU_TILE_ROWS * CPU_TILE_ROWS;
}

struct linear_dx {
    struct cpu_dev *d;
    float *dx;
    bool accumulate;
    struct act_rows dy;
    const struct mint_weight *w, *a; /* a: NULL without LoRA */
    const void *du;
    int64_t T, row_step, k_step, k_jobs;
};

/* dx = (accumulate ? dx : 0) + (acc + acc2), without LoRA acc alone. */
static void add_parts(const struct linear_dx *l, float *dx, const float *acc, const float *acc2,
                      int64_t rows, int64_t cols)
{
    for (int64_t t = 0; t < rows; t++, dx += l->w->K, acc += l->k_step, acc2 += l->k_step) {
        if (l->accumulate && l->a) {
#pragma omp simd
            for (int64_t k = 0; k < cols; k++)
                dx[k] += acc[k] + acc2[k];
        } else if (l->accumulate) {
#pragma omp simd
            for (int64_t k = 0; k < cols; k++)
                dx[k] += acc[k];
        } else if (l->a) {
#pragma omp simd
            for (int64_t k = 0; k < cols; k++)
                dx[k] = acc[k] + acc2[k];
        } else {
            memcpy(dx, acc, (size_t)cols * sizeof *dx);
        }
    }
}

static void linear_dx_job(void *ctx, int64_t i, int thread)
{
    const struct linear_dx *l = ctx;
    int64_t k0 = i % l->k_jobs * l->k_step, k1 = MINT_MIN(k0 + l->k_step, l->w->K);
    int64_t t = i / l->k_jobs * l->row_step, rows = MINT_MIN(l->row_step, l->T - t);
    size_t e = l->d->base.act_bytes, part = (size_t)(rows * l->k_step);
    float *acc = cpu_scratch(l->d, thread, 2 * part * sizeof *acc), *acc2 = acc + part;
    cpu_gemm_dx_cols(l->d, thread, acc, (size_t)l->k_step, cpu_at(l->dy.x, (size_t)t * l->dy.ld, e),
                     l->dy.ld, rows, l->w, 0, l->w->N, k0, k1, true);
    if (l->a)
        cpu_gemm_dx_cols(l->d, thread, acc2, (size_t)l->k_step,
                         cpu_at(l->du, (size_t)(t * l->a->N), e), (size_t)l->a->N, rows, l->a, 0,
                         l->a->N, k0, k1, true);
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
    l.row_step = row_block(T);
    l.k_step = cpu_back_cols(d, w->K);
    l.k_jobs = (w->K + l.k_step - 1) / l.k_step;
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
                     cpu_at(l->dy, (size_t)t * l->lddy, l->d->base.act_bytes), l->lddy, rows,
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

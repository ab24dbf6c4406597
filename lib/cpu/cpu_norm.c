/* SPDX-License-Identifier: Apache-2.0 */
/* cpu_norm.c: RMS norm of the rows of a matrix, forward and backward. */
#include "cpu.h"
#include "cpu_ops.h"
#include "rows.h"

struct norm {
    const struct cpu_dev *d;
    void *out;
    float *dx;
    const float *dy, *x, *w;
    float eps;
    int64_t T, H;
};

#define GRAIN 8 /* rows an item: enough work to pay for the hand-out */

static void forward(void *ctx, int64_t item, int thread)
{
    const struct norm *n = ctx;
    const int64_t end = MINT_MIN(n->T, (item + 1) * GRAIN);
    const bool bf16 = n->d->base.act_bytes == 2;

    (void)thread;
    for (int64_t t = item * GRAIN; t < end; t++)
        n->d->isa->rows->rmsnorm((char *)n->out + (size_t)(t * n->H) * n->d->base.act_bytes, bf16,
                                 n->x + t * n->H, n->w, n->eps, n->H);
}

static void backward(void *ctx, int64_t item, int thread)
{
    const struct norm *n = ctx;
    const int64_t end = MINT_MIN(n->T, (item + 1) * GRAIN);

    (void)thread;
    for (int64_t t = item * GRAIN; t < end; t++)
        n->d->isa->rows->rmsnorm_backward(n->dx + t * n->H, n->dy + t * n->H, n->x + t * n->H, n->w,
                                          n->eps, n->H);
}

int cpu_rmsnorm(struct mint_dev *d, void *out, const float *x, const float *w, float eps, int64_t T,
                int64_t H, struct mint_err *err)
{
    struct norm n = {.d = cpu_dev(d), .out = out, .x = x, .w = w, .eps = eps, .T = T, .H = H};

    (void)err;
    cpu_parallel(cpu_dev(d), (T + GRAIN - 1) / GRAIN, forward, &n);
    return 0;
}

int cpu_rmsnorm_backward(struct mint_dev *d, float *dx, const float *dy, const float *x,
                         const float *w, float eps, int64_t T, int64_t H, struct mint_err *err)
{
    struct norm n = {
        .d = cpu_dev(d), .dx = dx, .dy = dy, .x = x, .w = w, .eps = eps, .T = T, .H = H};

    (void)err;
    cpu_parallel(cpu_dev(d), (T + GRAIN - 1) / GRAIN, backward, &n);
    return 0;
}

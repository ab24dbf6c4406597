/* SPDX-License-Identifier: Apache-2.0 */
/* cpu_swiglu.c: silu(g) u, forward and backward. */
#include "cpu.h"
#include "cpu_ops.h"
#include "rows.h"

struct swiglu {
    const struct cpu_dev *d;
    void *out;
    const float *dout, *gu;
    int64_t T, F;
};

#define GRAIN 4

static void forward(void *ctx, int64_t item, int thread)
{
    const struct swiglu *s = ctx;
    const size_t act = s->d->base.act_bytes;
    const int64_t F = s->F, end = MINT_MIN(s->T, (item + 1) * GRAIN);

    (void)thread;
    for (int64_t t = item * GRAIN; t < end; t++)
        s->d->isa->rows->swiglu((char *)s->out + (size_t)(t * F) * act, act == 2, s->gu + t * 2 * F,
                                s->gu + t * 2 * F + F, F);
}

static void backward(void *ctx, int64_t item, int thread)
{
    const struct swiglu *s = ctx;
    const size_t act = s->d->base.act_bytes;
    const int64_t F = s->F, end = MINT_MIN(s->T, (item + 1) * GRAIN);

    (void)thread;
    for (int64_t t = item * GRAIN; t < end; t++) {
        char *dg = (char *)s->out + (size_t)(t * 2 * F) * act;

        s->d->isa->rows->swiglu_backward(dg, dg + (size_t)F * act, act == 2, s->dout + t * F,
                                         s->gu + t * 2 * F, s->gu + t * 2 * F + F, F);
    }
}

int cpu_swiglu(struct mint_dev *d, void *out, const float *gu, int64_t T, int64_t F,
               struct mint_err *err)
{
    struct swiglu s = {.d = cpu_dev(d), .out = out, .gu = gu, .T = T, .F = F};

    (void)err;
    cpu_parallel(cpu_dev(d), (T + GRAIN - 1) / GRAIN, forward, &s);
    return 0;
}

int cpu_swiglu_backward(struct mint_dev *d, void *dgu, const float *dout, const float *gu,
                        int64_t T, int64_t F, struct mint_err *err)
{
    struct swiglu s = {.d = cpu_dev(d), .out = dgu, .dout = dout, .gu = gu, .T = T, .F = F};

    (void)err;
    cpu_parallel(cpu_dev(d), (T + GRAIN - 1) / GRAIN, backward, &s);
    return 0;
}

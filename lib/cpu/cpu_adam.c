/* SPDX-License-Identifier: Apache-2.0 */
/* cpu_adam.c: the optimiser step, and the sum of squares for clipping. */
#include "cpu.h"
#include "cpu_ops.h"
#include "rows.h"

#include "../mem.h"

#include <stdlib.h>

#define PIECE 32768 /* elements an item: part of the order of additions of sumsq */

struct adam {
    const struct cpu_rows *rows;
    const struct mint_adam_tensor *t;
    const struct mint_adam *a;
};

static void adam_piece(void *ctx, int64_t item, int thread)
{
    const struct adam *x = ctx;
    const struct mint_adam_tensor *t = x->t;
    const int64_t at = item * PIECE;

    (void)thread;
    x->rows->adam(t->p + at, t->m + at, t->v + at, t->g + at, MINT_MIN(PIECE, t->n - at), x->a);
}

int cpu_adam(struct mint_dev *d, const struct mint_adam_tensor *t, int64_t n,
             const struct mint_adam *a, struct mint_err *err)
{
    (void)err;
    for (int64_t i = 0; i < n; i++) {
        struct adam x = {cpu_dev(d)->isa->rows, &t[i], a};

        cpu_parallel(cpu_dev(d), (t[i].n + PIECE - 1) / PIECE, adam_piece, &x);
    }
    return 0;
}

struct sumsq {
    const struct cpu_rows *rows;
    const float *g;
    double *part;
    int64_t n;
};

static void sumsq_piece(void *ctx, int64_t item, int thread)
{
    const struct sumsq *x = ctx;
    const int64_t at = item * PIECE;

    (void)thread;
    x->part[item] = x->rows->sumsq(x->g + at, MINT_MIN(PIECE, x->n - at));
}

static double sum_one(struct cpu_dev *d, const float *g, int64_t n)
{
    const int64_t items = (n + PIECE - 1) / PIECE;
    struct sumsq x = {d->isa->rows, g, mint_xcalloc((size_t)items + 1, sizeof(double)), n};
    double sum = 0.0;

    cpu_parallel(d, items, sumsq_piece, &x);
    for (int64_t i = 0; i < items; i++)
        sum += x.part[i];
    free(x.part);
    return sum;
}

/* Squares of finite floats cannot overflow a double's sum, so the sum tells whether all are finite.
 */
int cpu_sumsq(struct mint_dev *d, double *out, const struct mint_adam_tensor *t, int64_t n,
              struct mint_err *err)
{
    (void)err;
    for (int64_t i = 0; i < n; i++)
        out[i] = sum_one(cpu_dev(d), t[i].g, t[i].n);
    return 0;
}

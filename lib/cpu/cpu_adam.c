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
    float *p, *m, *v;
    const float *g;
    const struct mint_adam *a;
    int64_t n;
};

static void adam_piece(void *ctx, int64_t item, int thread)
{
    const struct adam *x = ctx;
    const int64_t at = item * PIECE;

    (void)thread;
    x->rows->adam(x->p + at, x->m + at, x->v + at, x->g + at, MINT_MIN(PIECE, x->n - at), x->a);
}

int cpu_adam(struct mint_dev *d, float *p, float *m, float *v, const float *g, int64_t n,
             const struct mint_adam *a, struct mint_err *err)
{
    struct adam x = {cpu_dev(d)->isa->rows, p, m, v, g, a, n};

    (void)err;
    cpu_parallel(cpu_dev(d), (n + PIECE - 1) / PIECE, adam_piece, &x);
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

/* Squares of finite floats cannot overflow a double's sum, so the sum tells whether all are finite.
 */
int cpu_sumsq(struct mint_dev *d, double *out, bool *finite, const float *g, int64_t n,
              struct mint_err *err)
{
    const int64_t items = (n + PIECE - 1) / PIECE;
    struct sumsq x = {cpu_dev(d)->isa->rows, g, mint_xcalloc((size_t)items + 1, sizeof(double)), n};
    double sum = 0.0;

    (void)err;
    cpu_parallel(cpu_dev(d), items, sumsq_piece, &x);
    for (int64_t i = 0; i < items; i++)
        sum += x.part[i];
    free(x.part);
    *out = sum;
    if (finite)
        *finite = sum - sum == 0.0;
    return 0;
}

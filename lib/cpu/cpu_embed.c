/* SPDX-License-Identifier: Apache-2.0 */
/* cpu_embed.c: rows of the embedding table. */
#include "cpu.h"
#include "cpu_ops.h"
#include "rows.h"

#include <string.h>

struct embed {
    const struct cpu_rows *rows;
    const struct mint_weight *w;
    const int32_t *ids;
    float *x;
    int64_t T, grain;
};

static void embed_rows(void *ctx, int64_t item, int thread)
{
    const struct embed *e = ctx;
    const int64_t K = e->w->K, end = MINT_MIN(e->T, (item + 1) * e->grain);

    (void)thread;
    for (int64_t t = item * e->grain; t < end; t++) {
        const int64_t id = e->ids[t];
        float *x = e->x + t * K;

        if (id < 0 || id >= e->w->N)
            MINT_BUG("embed: id %lld of %lld", (long long)id, (long long)e->w->N);
        if (e->w->type == MINT_BF16)
            e->rows->to_f32(x, (const cpu_bf16 *)e->w->rows + id * K, K);
        else
            memcpy(x, (const float *)e->w->rows + id * K, (size_t)K * sizeof *x);
    }
}

int cpu_embed(struct mint_dev *d, float *x, const struct mint_weight *table, const int32_t *ids,
              int64_t T, struct mint_err *err)
{
    struct embed e = {cpu_dev(d)->isa->rows, table, ids, x, T, 16};

    (void)err;
    cpu_parallel(cpu_dev(d), (T + e.grain - 1) / e.grain, embed_rows, &e);
    return 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "trainer_batch.h"

#include <stdlib.h>

#include "mem.h"

bool mint_datum_counts(const struct mint_datum *d)
{
    for (size_t i = 0; i < d->n; i++)
        if (mint_datum_weight(d, i) != 0.0f)
            return true;
    return false;
}

size_t mint_pack_fit(const struct mint_datum *const *d, size_t n, int64_t limit)
{
    size_t k = 0;
    int64_t T = 0;
    while (k < n && (k == 0 || T + (int64_t)d[k]->n <= limit))
        T += (int64_t)d[k++]->n;
    return k;
}

static int64_t pages_of(const struct mint_datum *d)
{
    return ((int64_t)d->n + MINT_KV_PAGE - 1) / MINT_KV_PAGE;
}

static void allocate(struct mint_pack *p)
{
    size_t T = (size_t)p->T;
    p->ids = mint_xcalloc(T, sizeof *p->ids);
    p->pos = mint_xcalloc(T, sizeof *p->pos);
    p->page_of_row = mint_xcalloc(T, sizeof *p->page_of_row);
    p->page_list = mint_xcalloc((size_t)p->pages_n, sizeof *p->page_list);
    p->seqs = mint_xcalloc(p->n, sizeof *p->seqs);
    p->hrow = mint_xcalloc(T, sizeof *p->hrow);
    p->target = mint_xcalloc(T, sizeof *p->target);
    p->hfirst = mint_xcalloc(p->n + 1, sizeof *p->hfirst);
}

void mint_pack_build(struct mint_pack *p, const struct mint_datum *const *d, size_t n, bool all,
                     int32_t vocab)
{
    *p = (struct mint_pack){.d = d, .n = n};
    for (size_t k = 0; k < n; k++) {
        p->T += (int64_t)d[k]->n;
        p->pages_n += pages_of(d[k]);
    }
    allocate(p);
    for (int64_t i = 0; i < p->pages_n; i++)
        p->page_list[i] = (int32_t)i;
    int64_t row = 0, page = 0;
    for (size_t k = 0; k < n; k++) {
        p->seqs[k] = (struct mint_seq){row, (int64_t)d[k]->n, 0, p->page_list + page};
        p->hfirst[k] = p->hn;
        for (size_t i = 0; i < d[k]->n; i++, row++) {
            p->ids[row] = d[k]->input[i];
            p->pos[row] = (int32_t)i;
            p->page_of_row[row] = (int32_t)(page + (int64_t)(i / MINT_KV_PAGE));
            int32_t target = d[k]->target[i];
            bool wanted = all ? target >= 0 && target < vocab : mint_datum_weight(d[k], i) != 0.0f;
            if (wanted) {
                p->hrow[p->hn] = (int32_t)row;
                p->target[p->hn++] = target;
            }
        }
        page += pages_of(d[k]);
    }
    p->hfirst[n] = p->hn;
}

void mint_pack_release(struct mint_pack *p)
{
    free(p->ids);
    free(p->pos);
    free(p->page_of_row);
    free(p->page_list);
    free(p->seqs);
    free(p->hrow);
    free(p->target);
    free(p->hfirst);
    *p = (struct mint_pack){0};
}

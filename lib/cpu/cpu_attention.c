/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cpu_attention.c: causal attention over the KV store, softmax online (Milakov and Gimelshein 2018)
 * over blocks of MINT_KV_PAGE keys from position 0.
 *
 * Query heads that share a key/value head are rows of one product: row r of a sequence is head
 * r % group of query r / group. Rows are independent in every step, and a row takes part in a block
 * only if it sees a key of it, so a query has the same bits alone and among others.
 */
#include "cpu_kv.h"
#include "cpu_ops.h"
#include "rows.h"
#include "vmath.h"

#include "../mem.h"

#include <stdlib.h>

#define ITEM_ROWS 48 /* rows of one prefill item: a page's keys and values serve four tiles */

/* Either rows row_lo..row_hi-1 of sequence seq (nseq 1), or all rows of sequences seq..seq+nseq-1,
 * which share their first pages. */
struct item {
    int64_t seq, nseq, row_lo, row_hi;
};

struct attention {
    struct cpu_dev *d;
    void *out;
    float *lse;
    const void *q;
    const struct mint_kv *kv;
    int32_t layer;
    const struct mint_attn_shape *s;
    const struct mint_seq *seqs;
    int64_t group, hd, padded;
    struct item *items;
};

/* What a thread keeps of the rows of an item. */
struct state {
    int64_t n, ldq;
    int64_t pos[ITEM_ROWS]; /* of the row's query */
    int64_t at[ITEM_ROWS];  /* (token, head) number: place in q, out (times head_dim) and lse */
    float m[ITEM_ROWS], l[ITEM_ROWS];
    void *q, *p;  /* act [n][ldq], act [CPU_TILE_ROWS][MINT_KV_PAGE] */
    float *s, *o; /* [CPU_TILE_ROWS][MINT_KV_PAGE], [n][padded] */
};

/* c[rows, 32 * panels] (+)= a times neighbouring panels, with next (or NULL) prefetched meanwhile.
 */
static void multiply(const struct attention *x, const void *a, int64_t lda, int rows,
                     const void *panel, int64_t panel_elems, int panels, int64_t pairs, float *c,
                     int64_t ldc, bool first, const void *next)
{
    const struct cpu_tiles *t = x->d->isa->tiles;

    if (x->d->base.act_bytes == 2)
        t->bb_panels(a, (size_t)lda, rows, panel, (size_t)panel_elems, panels, (size_t)pairs, c,
                     (size_t)ldc, first, next, 3);
    else
        for (int i = 0; i < panels; i++)
            t->ff(a, (size_t)lda, rows, (const float *)panel + i * panel_elems, (size_t)pairs,
                  c + i * CPU_PANEL, (size_t)ldc, first, NULL, 0);
}

/* A page's part for one head, and what will be read after it. */
struct block {
    int64_t number;
    const char *keys, *values, *next;
};

/* Rows r0..r0+n-1 of the state, at most a tile, against a block. */
static void attend_tile(const struct attention *x, struct state *w, int64_t r0, int n,
                        const struct block *b)
{
    int seen[CPU_TILE_ROWS], most = 0;
    float alpha[CPU_TILE_ROWS];
    void *q = cpu_act_at(x->d, w->q, r0 * w->ldq);
    float *o = w->o + r0 * x->padded;

    for (int i = 0; i < n; i++) {
        seen[i] =
            (int)MINT_MIN(w->pos[r0 + i] - b->number * MINT_KV_PAGE + 1, (int64_t)MINT_KV_PAGE);
        most = MINT_MAX(most, seen[i]);
    }
    multiply(x, q, w->ldq, n, b->keys, CPU_PANEL * x->hd, (most + CPU_PANEL - 1) / CPU_PANEL,
             x->hd / 2, w->s, MINT_KV_PAGE, true, b->values);
    x->d->isa->rows->softmax(w->p, x->d->base.act_bytes == 2, w->s, n, seen, x->s->scale, w->m + r0,
                             w->l + r0, alpha);
    if (b->number > 0)
        for (int i = 0; i < n; i++)
            if (alpha[i] != 1.0f)
                x->d->isa->rows->scale(o + i * x->padded, alpha[i], x->padded);
    multiply(x, w->p, MINT_KV_PAGE, n, b->values, CPU_PANEL * MINT_KV_PAGE,
             (int)(x->padded / CPU_PANEL), (most + 1) / 2, o, x->padded, b->number == 0, b->next);
}

/* Rows r0..r1-1, in ascending position, against block number of pages, of which last is the last;
 * those that stand before it are left out. */
static void attend_block(const struct attention *x, struct state *w, int64_t r0, int64_t r1,
                         int64_t number, int64_t last, const int32_t *pages, int32_t head)
{
    struct block b = {number, cpu_kv_keys(x->kv, x->layer, pages[number], head),
                      cpu_kv_values(x->kv, x->layer, pages[number], head), NULL};

    while (r0 < r1 && w->pos[r0] < number * MINT_KV_PAGE)
        r0++;
    while (r0 < r1) {
        const int64_t tiles = (r1 - r0 + CPU_TILE_ROWS - 1) / CPU_TILE_ROWS;
        const int n = (int)((r1 - r0 + tiles - 1) / tiles);

        if (tiles == 1 && number < last)
            b.next = cpu_kv_keys(x->kv, x->layer, pages[number + 1], head);
        attend_tile(x, w, r0, n, &b);
        r0 += n;
    }
}

static void load_row(const struct attention *x, struct state *w, const struct mint_seq *q,
                     int64_t row, int32_t kv_head)
{
    const int64_t t = q->row0 + row / x->group, i = w->n++;

    w->at[i] = t * x->s->heads + kv_head * x->group + row % x->group;
    w->pos[i] = q->pos0 + row / x->group;
    w->m[i] = -INFINITY;
    w->l[i] = 0.0f;
    memcpy(cpu_act_at(x->d, w->q, i * w->ldq), cpu_act_at(x->d, x->q, w->at[i] * x->hd),
           (size_t)x->hd * x->d->base.act_bytes);
}

/* out = o / l. Adding 0 makes -0 to 0: whether a sum of zeros is -0 could tell of masked keys. */
static void finish_rows(const struct attention *x, struct state *w)
{
    for (int64_t i = 0; i < w->n; i++) {
        const float inv = 1.0f / w->l[i];
        float *o = w->o + i * x->padded;

        for (int64_t j = 0; j < x->hd; j++)
            o[j] = o[j] * inv + 0.0f;
        cpu_to_act(x->d, cpu_act_at(x->d, x->out, w->at[i] * x->hd), o, x->hd);
        if (x->lse)
            x->lse[w->at[i]] = w->m[i] + cpu_log(w->l[i]);
    }
}

static struct state state_of(const struct attention *x, int thread)
{
    const size_t act = x->d->base.act_bytes;
    const int64_t ldq = x->hd + 64 / (int64_t)act; /* not a multiple of 4 KiB */
    const size_t q = ((size_t)(ITEM_ROWS * ldq) * act + 63) / 64 * 64;
    const size_t p = (size_t)(CPU_TILE_ROWS * MINT_KV_PAGE) * act;
    const size_t s = (size_t)(CPU_TILE_ROWS * MINT_KV_PAGE) * sizeof(float);
    const size_t o = (size_t)(ITEM_ROWS * x->padded) * sizeof(float);
    char *at = cpu_scratch(x->d, thread, q + p + s + o);
    struct state w = {.ldq = ldq, .q = at, .p = at + q};

    w.s = (float *)(void *)(at + q + p);
    w.o = (float *)(void *)(at + q + p + s);
    return w;
}

/* Blocks that all sequences of the item have on the same page and see whole. */
static int64_t shared_blocks(const struct attention *x, const struct item *it)
{
    const struct mint_seq *a = &x->seqs[it->seq];
    int64_t n = (a->pos0 + 1) / MINT_KV_PAGE;

    for (int64_t i = 1; i < it->nseq; i++) {
        const struct mint_seq *c = a + i;
        int64_t k = 0;

        n = MINT_MIN(n, (c->pos0 + 1) / MINT_KV_PAGE);
        while (k < n && c->pages[k] == a->pages[k])
            k++;
        n = k;
    }
    return n;
}

static void attend_item(void *ctx, int64_t number, int thread)
{
    const struct attention *x = ctx;
    const struct item *it = &x->items[number / x->s->kv_heads];
    const int32_t head = (int32_t)(number % x->s->kv_heads);
    struct state w = state_of(x, thread);
    const int64_t shared = it->nseq > 1 ? shared_blocks(x, it) : 0;
    int64_t row = 0;

    for (int64_t i = 0; i < it->nseq; i++) {
        const struct mint_seq *q = &x->seqs[it->seq + i];
        const int64_t hi = it->nseq > 1 ? q->rows * x->group : it->row_hi;

        for (int64_t r = it->nseq > 1 ? 0 : it->row_lo; r < hi; r++)
            load_row(x, &w, q, r, head);
    }
    for (int64_t b = 0; b < shared; b++)
        attend_block(x, &w, 0, w.n, b, shared - 1, x->seqs[it->seq].pages, head);
    for (int64_t i = 0; i < it->nseq; i++) {
        const struct mint_seq *q = &x->seqs[it->seq + i];
        const int64_t n = it->nseq > 1 ? q->rows * x->group : it->row_hi - it->row_lo;
        const int64_t last = w.pos[row + n - 1] / MINT_KV_PAGE;

        for (int64_t b = shared; b <= last; b++)
            attend_block(x, &w, row, row + n, b, last, q->pages, head);
        row += n;
    }
    finish_rows(x, &w);
}

/* How many sequences from i on make one item: single queries whose first page is the same, up to a
 * tile of rows. */
static int64_t companions(const struct attention *x, int64_t i, int64_t nseqs)
{
    const int64_t most = CPU_TILE_ROWS / x->group;
    const struct mint_seq *a = &x->seqs[i];
    int64_t n = 1;

    if (a->rows != 1 || a->pos0 + 1 < MINT_KV_PAGE)
        return 1;
    while (n < most && i + n < nseqs && a[n].rows == 1 && a[n].pos0 + 1 >= MINT_KV_PAGE &&
           a[n].pages[0] == a->pages[0])
        n++;
    return n;
}

/* Fills items when it is there; returns how many. The split tells only who computes a row. */
static int64_t make_items(const struct attention *x, int64_t nseqs, struct item *items)
{
    int64_t n = 0;

    for (int64_t i = 0; i < nseqs;) {
        const int64_t together = companions(x, i, nseqs), rows = x->seqs[i].rows * x->group;

        if (together > 1) {
            if (items)
                items[n] = (struct item){i, together, 0, 0};
            n++;
        }
        for (int64_t r = 0; together == 1 && r < rows; r += ITEM_ROWS) {
            if (items)
                items[n] = (struct item){i, 1, r, MINT_MIN(rows, r + ITEM_ROWS)};
            n++;
        }
        i += together;
    }
    return n;
}

int cpu_attention(struct mint_dev *d, void *out, float *lse, const void *q,
                  const struct mint_kv *kv, int32_t layer, const struct mint_attn_shape *s,
                  const struct mint_seq *seqs, int64_t nseqs, int64_t T, struct mint_err *err)
{
    struct attention x = {.d = cpu_dev(d),
                          .out = out,
                          .lse = lse,
                          .q = q,
                          .kv = kv,
                          .layer = layer,
                          .s = s,
                          .seqs = seqs,
                          .group = s->heads / s->kv_heads,
                          .hd = s->head_dim,
                          .padded = cpu_kv_padded(s->head_dim)};
    const int64_t n = make_items(&x, nseqs, NULL);

    (void)T;
    (void)err;
    x.items = mint_xcalloc((size_t)n + 1, sizeof *x.items);
    make_items(&x, nseqs, x.items);
    cpu_parallel(x.d, n * s->kv_heads, attend_item, &x);
    free(x.items);
    return 0;
}

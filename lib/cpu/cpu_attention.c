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
    void *q, *p;   /* act [n][ldq], act [CPU_TILE_ROWS][MINT_KV_PAGE] */
    float *s, *o;  /* [CPU_TILE_ROWS][MINT_KV_PAGE], [n][padded] */
};

static void tile(const struct attention *x, const void *a, size_t lda, int rows, const void *panel,
                 int64_t pairs, float *c, size_t ldc, bool first)
{
    const struct cpu_tiles *t = x->d->isa->tiles;

    if (x->d->base.act_bytes == 2)
        t->bb(a, lda, rows, panel, (size_t)pairs, c, ldc, first, NULL, 0);
    else
        t->ff(a, lda, rows, panel, (size_t)pairs, c, ldc, first, NULL, 0);
}

/* Rows r0..r0+n-1 of the state, at most a tile, against the page of block b. */
static void attend_tile(const struct attention *x, struct state *w, int64_t r0, int n, int64_t b,
                        const char *keys, const char *values)
{
    const size_t act = x->d->base.act_bytes;
    int seen[CPU_TILE_ROWS], most = 0;
    float alpha[CPU_TILE_ROWS];
    void *q = cpu_act_at(x->d, w->q, r0 * w->ldq);
    float *o = w->o + r0 * x->padded;

    for (int i = 0; i < n; i++) {
        seen[i] = (int)MINT_MIN(w->pos[r0 + i] - b * MINT_KV_PAGE + 1, (int64_t)MINT_KV_PAGE);
        most = MINT_MAX(most, seen[i]);
    }
    for (int k = 0; k < most; k += CPU_PANEL)
        tile(x, q, (size_t)w->ldq, n, keys + (size_t)(k * x->hd) * act, x->hd / 2, w->s + k,
             MINT_KV_PAGE, true);
    x->d->isa->rows->softmax(w->p, act == 2, w->s, n, seen, x->s->scale, w->m + r0, w->l + r0,
                             alpha);
    if (b > 0)
        for (int i = 0; i < n; i++)
            if (alpha[i] != 1.0f)
                x->d->isa->rows->scale(o + i * x->padded, alpha[i], x->padded);
    for (int64_t k = 0; k < x->padded; k += CPU_PANEL)
        tile(x, w->p, MINT_KV_PAGE, n, values + (size_t)(k * MINT_KV_PAGE) * act, (most + 1) / 2,
             o + k, (size_t)x->padded, b == 0);
}

/* Rows r0..r1-1, in ascending position, against one page; those before the block are left out. */
static void attend_block(const struct attention *x, struct state *w, int64_t r0, int64_t r1,
                         int64_t b, int32_t page, int32_t head)
{
    const char *keys = cpu_kv_keys(x->kv, x->layer, page, head);
    const char *values = cpu_kv_values(x->kv, x->layer, page, head);

    while (r0 < r1 && w->pos[r0] < b * MINT_KV_PAGE)
        r0++;
    while (r0 < r1) {
        const int64_t tiles = (r1 - r0 + CPU_TILE_ROWS - 1) / CPU_TILE_ROWS;
        const int n = (int)((r1 - r0 + tiles - 1) / tiles);

        attend_tile(x, w, r0, n, b, keys, values);
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
        attend_block(x, &w, 0, w.n, b, x->seqs[it->seq].pages[b], head);
    for (int64_t i = 0; i < it->nseq; i++) {
        const struct mint_seq *q = &x->seqs[it->seq + i];
        const int64_t n = it->nseq > 1 ? q->rows * x->group : it->row_hi - it->row_lo;
        const int64_t last = w.pos[row + n - 1] / MINT_KV_PAGE;

        for (int64_t b = shared; b <= last; b++)
            attend_block(x, &w, row, row + n, b, q->pages[b], head);
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
    struct attention x = {.d = cpu_dev(d), .out = out, .lse = lse, .q = q, .kv = kv, .layer = layer,
                          .s = s, .seqs = seqs, .group = s->heads / s->kv_heads, .hd = s->head_dim,
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

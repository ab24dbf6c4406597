/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cpu_attention_backward.c: gradients of attention (after Dao et al. 2022): block by block of keys,
 * the probabilities are made again from the scores and the stored log-sum-exp.
 *
 * One item is a family of sequences and a key/value head. A sequence's rows are those of
 * cpu_attention.c: row r is head r % group of query r / group. For each block of keys, ascending,
 * all rows that see it, ascending, in blocks of ROWS: so dk and dv are sums over rows in ascending
 * order, dq over keys.
 */
#include "../mem.h"
#include "cpu_kv.h"
#include "cpu_ops.h"
#include "rows.h"

#include <stdlib.h>

#define ROWS      64 /* rows at once; MINT_KV_PAGE * group is a multiple */
#define KEYS      MINT_KV_PAGE
#define TURNED_LD (ROWS + 32) /* not a power of two: the rows of a tile spread over the cache */

struct backward {
    struct cpu_dev *d;
    float *dq, *dk, *dv;
    const float *dout, *lse;
    const void *out, *q;
    const struct mint_kv *kv;
    int32_t layer;
    const struct mint_attn_shape *s;
    const struct mint_seq *seqs;
    const int64_t *families; /* the first sequence of each, and the end */
    int64_t group, hd, padded;
};

/* Of one item. Panels are those of cpu.h: [pairs of rows][32 columns][2]. */
struct work {
    const struct backward *x;
    const struct mint_seq *seq, *begin; /* begin: holds the positions before seq->pos0 */
    int32_t head;
    int64_t rows, even, ld;
    void *q, *g;               /* act [rows][ld]: queries, gradients of the output */
    void *q_panels, *g_panels; /* their panels over rows, by 32 dimensions [padded/32][even*32] */
    float *lse, *delta;        /* [rows] */
    float *dq;                 /* [rows][padded] */
    void *k_panels;            /* of one block: keys as panels over keys, by 32 dimensions */
    void *v_panels;            /* of one block: values as panels over dimensions, by 32 keys */
    float *dk, *dv;            /* [KEYS][padded] */
    void *pt, *dst;      /* act [KEYS][TURNED_LD]: probabilities and score gradients, transposed */
    void *ds;            /* act [CPU_TILE_ROWS][KEYS] */
    float *s, *dp, *row; /* [CPU_TILE_ROWS][KEYS] twice, [hd] */
};

static void tile(const struct backward *x, const void *a, int64_t lda, int rows, const void *panel,
                 int64_t pairs, float *c, int64_t ldc, bool first)
{
    const struct cpu_tiles *t = x->d->isa->tiles;

    if (x->d->base.act_bytes == 2)
        t->bb(a, (size_t)lda, rows, panel, (size_t)pairs, c, (size_t)ldc, first, NULL, 0);
    else
        t->ff(a, (size_t)lda, rows, panel, (size_t)pairs, c, (size_t)ldc, first, NULL, 0);
}

/* Room for a part of the scratch; p NULL: only counts. */
static void *part(char *p, size_t *at, int64_t elems, size_t bytes)
{
    void *r = p ? p + *at : NULL;

    *at += ((size_t)elems * bytes + 63) / 64 * 64;
    return r;
}

static size_t lay_out(struct work *w, char *p)
{
    const struct backward *x = w->x;
    const size_t act = x->d->base.act_bytes, f = sizeof(float);
    size_t at = 0;

    w->q = part(p, &at, w->rows * w->ld, act);
    w->g = part(p, &at, w->rows * w->ld, act);
    w->q_panels = part(p, &at, w->even * x->padded, act);
    w->g_panels = part(p, &at, w->even * x->padded, act);
    w->lse = part(p, &at, w->rows, f);
    w->delta = part(p, &at, w->rows, f);
    w->dq = part(p, &at, w->rows * x->padded, f);
    w->k_panels = part(p, &at, KEYS * x->padded, act);
    w->v_panels = part(p, &at, KEYS * x->hd, act);
    w->dk = part(p, &at, KEYS * x->padded, f);
    w->dv = part(p, &at, KEYS * x->padded, f);
    w->pt = part(p, &at, KEYS * TURNED_LD, act);
    w->dst = part(p, &at, KEYS * TURNED_LD, act);
    w->ds = part(p, &at, CPU_TILE_ROWS * KEYS, act);
    w->s = part(p, &at, CPU_TILE_ROWS * KEYS, f);
    w->dp = part(p, &at, CPU_TILE_ROWS * KEYS, f);
    w->row = part(p, &at, x->hd, f);
    return at;
}

/* (token, head) number of a row: its place in q, out, dout (times head_dim) and lse. */
static int64_t place(const struct work *w, int64_t r)
{
    const struct backward *x = w->x;

    return (w->seq->row0 + r / x->group) * x->s->heads + w->head * x->group + r % x->group;
}

static void copy_act(const struct backward *x, void *to, int64_t to_at, const void *from,
                     int64_t from_at)
{
    if (x->d->base.act_bytes == 2)
        ((cpu_bf16 *)to)[to_at] = ((const cpu_bf16 *)from)[from_at];
    else
        ((float *)to)[to_at] = ((const float *)from)[from_at];
}

static void pack_row(const struct work *w, void *panels, const void *row, int64_t r)
{
    for (int64_t i = 0; i < w->x->hd; i++)
        copy_act(w->x, panels,
                 i / CPU_PANEL * CPU_PANEL * w->even + r / 2 * 2 * CPU_PANEL + i % CPU_PANEL * 2 +
                     r % 2,
                 row, i);
}

/* delta = sum(dout * out), which is sum over keys of p dp. */
static void load_rows(const struct work *w)
{
    const struct backward *x = w->x;
    const size_t act = x->d->base.act_bytes;

    memset(w->q_panels, 0, (size_t)(w->even * x->padded) * act);
    memset(w->g_panels, 0, (size_t)(w->even * x->padded) * act);
    for (int64_t r = 0; r < w->rows; r++) {
        const int64_t at = place(w, r);
        const float *dout = x->dout + at * x->hd;
        const void *out = cpu_act_at(x->d, x->out, at * x->hd);
        void *q = cpu_act_at(x->d, w->q, r * w->ld), *g = cpu_act_at(x->d, w->g, r * w->ld);

        memcpy(q, cpu_act_at(x->d, x->q, at * x->hd), (size_t)x->hd * act);
        cpu_to_act(x->d, g, dout, x->hd);
        if (act == 2)
            x->d->isa->rows->to_f32(w->row, out, x->hd);
        else
            memcpy(w->row, out, (size_t)x->hd * act);
        w->delta[r] = x->d->isa->rows->dot(dout, w->row, x->hd);
        w->lse[r] = x->lse[at];
        pack_row(w, w->q_panels, q, r);
        pack_row(w, w->g_panels, g, r);
    }
}

/* The other layouts of a block's keys and values; keys behind the sequence's end are 0, since a
 * page may hold anything there. */
static void load_block(const struct work *w, const char *keys, const char *values, int64_t n)
{
    const struct backward *x = w->x;
    const size_t act = x->d->base.act_bytes;

    memset(w->k_panels, 0, (size_t)(KEYS * x->padded) * act);
    memset(w->v_panels, 0, (size_t)(KEYS * x->hd) * act);
    for (int64_t j = 0; j < n; j++)
        for (int64_t i = 0; i < x->hd; i++) {
            const int64_t by_dim = (int64_t)cpu_kv_value_at(j, i);
            const int64_t by_key = (int64_t)cpu_kv_key_at(x->hd, j, i);

            copy_act(x, w->k_panels, by_dim, keys, by_key);
            copy_act(x, w->v_panels, by_key, values, by_dim);
        }
}

/* Rows r0..r0+n-1 against block b: their dq, and their columns of pt and dst. */
static void score_tile(const struct work *w, int64_t b, const char *keys, int64_t r0, int n,
                       int64_t column)
{
    const struct backward *x = w->x;
    const size_t act = x->d->base.act_bytes;
    const void *q = cpu_act_at(x->d, w->q, r0 * w->ld), *g = cpu_act_at(x->d, w->g, r0 * w->ld);
    int seen[CPU_TILE_ROWS];

    for (int i = 0; i < n; i++)
        seen[i] = (int)MINT_MIN(w->seq->pos0 + (r0 + i) / x->group - b * KEYS + 1, (int64_t)KEYS);
    for (int64_t k = 0; k < KEYS; k += CPU_PANEL) {
        tile(x, q, w->ld, n, keys + (size_t)(k * x->hd) * act, x->hd / 2, w->s + k, KEYS, true);
        tile(x, g, w->ld, n, cpu_act_at(x->d, w->v_panels, k * x->hd), x->hd / 2, w->dp + k, KEYS,
             true);
    }
    x->d->isa->rows->softmax_backward(
        cpu_act_at(x->d, w->pt, column), cpu_act_at(x->d, w->dst, column), TURNED_LD, w->ds,
        act == 2, w->s, w->dp, n, seen, x->s->scale, w->lse + r0, w->delta + r0);
    for (int64_t k = 0; k < x->padded; k += CPU_PANEL)
        tile(x, w->ds, KEYS, n, cpu_act_at(x->d, w->k_panels, k * KEYS), KEYS / 2,
             w->dq + r0 * x->padded + k, x->padded, b == 0);
}

/* sum[KEYS][padded] goes on with turned[KEYS][n] times rows r0..r0+n-1 of the panels. */
static void add_rows(const struct work *w, float *sum, const void *turned, const void *panels,
                     int64_t r0, int64_t n, bool first)
{
    const struct backward *x = w->x;

    for (int64_t k = 0; k < x->padded; k += CPU_PANEL)
        for (int64_t j = 0; j < KEYS; j += CPU_TILE_ROWS)
            tile(x, cpu_act_at(x->d, turned, j * TURNED_LD), TURNED_LD,
                 (int)MINT_MIN(CPU_TILE_ROWS, KEYS - j),
                 cpu_act_at(x->d, panels, k * w->even + r0 * CPU_PANEL), (n + 1) / 2,
                 sum + j * x->padded + k, x->padded, first);
}

/* The block's dk and dv, positions from..from+n-1: the sequence's own rows get them, rows of the
 * shared beginning add them to what is there. */
static void store_block(const struct work *w, int64_t from, int64_t n)
{
    const struct backward *x = w->x;
    const bool own = from >= w->seq->pos0;
    const int64_t row = own ? w->seq->row0 + from - w->seq->pos0 : w->begin->row0 + from;

    for (int64_t j = 0; j < n; j++) {
        const int64_t at = ((row + j) * x->s->kv_heads + w->head) * x->hd;

        for (int64_t i = 0; i < x->hd; i++) {
            const float dk = w->dk[j * x->padded + i], dv = w->dv[j * x->padded + i];

            x->dk[at + i] = own ? dk : x->dk[at + i] + dk;
            x->dv[at + i] = own ? dv : x->dv[at + i] + dv;
        }
    }
}

static void backward_block(const struct work *w, int64_t b)
{
    const struct backward *x = w->x;
    const char *keys = cpu_kv_keys(x->kv, x->layer, w->seq->pages[b], w->head);
    const char *values = cpu_kv_values(x->kv, x->layer, w->seq->pages[b], w->head);
    const int64_t pos0 = w->seq->pos0, from = b * KEYS;
    const int64_t n = MINT_MIN((int64_t)KEYS, pos0 + w->seq->rows - from);
    const int64_t begin = MINT_MAX(from - pos0, 0) * x->group;

    load_block(w, keys, values, n);
    for (int64_t r0 = begin; r0 < w->rows; r0 += ROWS) {
        const int64_t rows = MINT_MIN(ROWS, w->rows - r0);

        for (int64_t i = 0; i < rows; i += CPU_TILE_ROWS)
            score_tile(w, b, keys, r0 + i, (int)MINT_MIN(CPU_TILE_ROWS, rows - i), i);
        for (int64_t j = 0; rows % 2 && j < KEYS; j++) {
            memset(cpu_act_at(x->d, w->pt, j * TURNED_LD + rows), 0, x->d->base.act_bytes);
            memset(cpu_act_at(x->d, w->dst, j * TURNED_LD + rows), 0, x->d->base.act_bytes);
        }
        add_rows(w, w->dv, w->pt, w->g_panels, r0, rows, r0 == begin);
        add_rows(w, w->dk, w->dst, w->q_panels, r0, rows, r0 == begin);
    }
    store_block(w, from, n);
}

static void backward_sequence(const struct backward *x, const struct mint_seq *seq,
                              const struct mint_seq *begin, int32_t head, int thread)
{
    struct work w = {.x = x,
                     .seq = seq,
                     .begin = begin,
                     .head = head,
                     .ld = x->hd + 64 / (int64_t)x->d->base.act_bytes};

    w.rows = w.seq->rows * x->group;
    w.even = w.rows + w.rows % 2;
    lay_out(&w, cpu_scratch(x->d, thread, lay_out(&w, NULL)));
    load_rows(&w);
    for (int64_t b = 0; b * KEYS < w.seq->pos0 + w.seq->rows; b++)
        backward_block(&w, b);
    for (int64_t r = 0; r < w.rows; r++)
        memcpy(x->dq + place(&w, r) * x->hd, w.dq + r * x->padded, (size_t)x->hd * sizeof *x->dq);
}

/* A family: the sequence that holds the beginning, then those that go on from it, in order. */
static void backward_item(void *ctx, int64_t item, int thread)
{
    const struct backward *x = ctx;
    const int64_t family = item / x->s->kv_heads;
    const struct mint_seq *begin = &x->seqs[x->families[family]];
    const struct mint_seq *end = &x->seqs[x->families[family + 1]];

    for (const struct mint_seq *seq = begin; seq < end; seq++)
        backward_sequence(x, seq, begin, (int32_t)(item % x->s->kv_heads), thread);
}

/* Where the families begin, and the end; returns their number. */
static int64_t find_families(const struct mint_seq *seqs, int64_t nseqs, int64_t *families)
{
    int64_t n = 0;

    for (int64_t i = 0; i < nseqs; i++) {
        if (seqs[i].pos0 == 0)
            families[n++] = i;
        else if (!n || seqs[i].pos0 % KEYS || seqs[i].pos0 > seqs[families[n - 1]].rows)
            MINT_BUG("attention_backward: sequence %lld goes on from nothing", (long long)i);
    }
    families[n] = nseqs;
    return n;
}

int cpu_attention_backward(struct mint_dev *d, float *dq, float *dk, float *dv, const float *dout,
                           const void *out, const float *lse, const void *q,
                           const struct mint_kv *kv, int32_t layer, const struct mint_attn_shape *s,
                           const struct mint_seq *seqs, int64_t nseqs, int64_t T,
                           struct mint_err *err)
{
    int64_t *families = mint_xcalloc((size_t)nseqs + 1, sizeof *families);
    struct backward x = {.d = cpu_dev(d),
                         .dq = dq,
                         .dk = dk,
                         .dv = dv,
                         .dout = dout,
                         .lse = lse,
                         .out = out,
                         .q = q,
                         .kv = kv,
                         .layer = layer,
                         .s = s,
                         .seqs = seqs,
                         .families = families,
                         .group = s->heads / s->kv_heads,
                         .hd = s->head_dim,
                         .padded = cpu_kv_padded(s->head_dim)};

    (void)T;
    (void)err;
    cpu_parallel(x.d, find_families(seqs, nseqs, families) * s->kv_heads, backward_item, &x);
    free(families);
    return 0;
}

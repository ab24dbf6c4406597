/* SPDX-License-Identifier: Apache-2.0 */
/*
 * forward.h: the forward pass over a packed batch, shared by sampling and training, so that both
 * compute the same bits.
 *
 * One layer (pre-norm transformer, Llama/Qwen):
 *   h1 = rmsnorm(x); q, k, v = heads(W h1); o = attention(rope(q), rope(k), v); xmid = x + Wo o
 *   h2 = rmsnorm(xmid); s = silu(Wg h2) * (Wu h2); x' = xmid + Wd s
 */
#ifndef MINT_FORWARD_H
#define MINT_FORWARD_H

#include "lora.h"
#include "model.h"

/* T rows of tokens, of nseqs sequences. pos, pages, ids: host arrays of T; pages is the KV page
 * that the row is written to. */
struct mint_batch {
    int64_t T;
    const int32_t *ids, *pos, *pages;
    const struct mint_seq *seqs;
    int64_t nseqs;
    /* for the backward: rows leaf_row[i] .. leaf_row[i+1]-1 make one leaf of the gradient's sum */
    const int64_t *leaf_row;
    int64_t nleaves;
};

/* Buffers of one layer for up to rows rows. With keep, what the backward needs stays apart (u, lse,
 * xmid); in sampling x is updated in place. */
struct mint_work {
    const struct mint_model *model;
    int64_t rows;
    bool keep;
    float *x;                  /* [rows, H] residual stream (sampling) */
    float *qkv;                /* [rows, (heads + 2 kv) hd] */
    float *lse;                /* [rows, heads]; keep */
    float *y;                  /* [rows, H] */
    float *xmid;               /* [rows, H]; keep */
    float *gu;                 /* [rows, 2F] */
    void *h1, *h2;             /* act [rows, H] */
    void *q, *o;               /* act [rows, heads * hd] */
    void *s;                   /* act [rows, F] */
    void *u[MINT_MOD_LAYER_N]; /* act [rows, r]; keep */
};
/* rank: the largest of the adapters that will run; 0 without one. */
int mint_work_new(struct mint_work **w, const struct mint_model *m, int64_t rank, int64_t rows,
                  bool keep, struct mint_err *err);
void mint_work_free(struct mint_work *w);
/* Device bytes that a work of this size takes. */
size_t mint_work_bytes(const struct mint_model *m, int64_t rank, int64_t rows, bool keep);

/* x_out = layer l of x_in. kv_layer: where the keys go (l when sampling, 0 when one layer's store
 * is enough). Without keep, x_in == x_out is allowed and saves a copy. */
int mint_forward_layer(const struct mint_model *m, const struct mint_adapter *a, int l,
                       struct mint_kv *kv, int kv_layer, struct mint_work *w, const float *x_in,
                       float *x_out, const struct mint_batch *b, struct mint_err *err);

#endif

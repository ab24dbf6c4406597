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
    /* for the backward: rows leaf_row[i] .. leaf_row[i+1]-1 make one leaf of the gradient's sum,
     * leaf_number[i] of the tree */
    const int64_t *leaf_row, *leaf_number;
    int64_t nleaves;
};

/* What of a layer's forward is kept until its backward. The rest is computed again, with the same
 * bits. */
enum mint_recompute {
    MINT_RECOMPUTE_AUTO,  /* the first of the others that fits the memory (trainer.h) */
    MINT_RECOMPUTE_NONE,  /* all is kept */
    MINT_RECOMPUTE_CHEAP, /* again: norms, rotation, SwiGLU; kept: products and attention */
    MINT_RECOMPUTE_ALL,   /* again: the layer, from its input */
};
extern const char *const mint_recompute_names[]; /* NULL-terminated, in the order of the enum */

/* Buffers of one layer for up to rows rows. With keep, what the backward needs stays apart (u, lse,
 * xmid); in sampling x is updated in place. */
struct mint_work {
    const struct mint_model *model;
    int64_t rows;
    bool keep;
    enum mint_recompute again; /* of mint_works_new */
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

/* Works (with keep) of all layers, an array: each has buffers of its own for what again leaves to
 * keep (not AUTO), and all share those of the rest. */
int mint_works_new(struct mint_work **w, const struct mint_model *m, int64_t rank, int64_t rows,
                   enum mint_recompute again, struct mint_err *err);
void mint_works_free(struct mint_work *w); /* NULL is fine */
size_t mint_works_bytes(const struct mint_model *m, int64_t rank, int64_t rows,
                        enum mint_recompute again);

/* x_out = layer l of x_in. kv_layer: where the keys go (l when sampling, 0 when one layer's store
 * is enough). Without keep, x_in == x_out is allowed and saves a copy. */
int mint_forward_layer(const struct mint_model *m, const struct mint_adapter *a, int l,
                       struct mint_kv *kv, int kv_layer, struct mint_work *w, const float *x_in,
                       float *x_out, const struct mint_batch *b, struct mint_err *err);

/* Computes again what was not kept of layer l in w (a work of mint_works_new) and of its keys and
 * values in kv, for its backward. */
int mint_forward_again(const struct mint_model *m, const struct mint_adapter *a, int l,
                       struct mint_kv *kv, int kv_layer, struct mint_work *w, const float *x_in,
                       const struct mint_batch *b, struct mint_err *err);

#endif

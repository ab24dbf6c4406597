/* SPDX-License-Identifier: Apache-2.0 */
/*
 * trainer_room.h: private to the trainer: the buffers of a micro-batch. They grow to the largest
 * one that was reserved and stay. What of the forward is kept for the backward is chosen here, by
 * memory; it changes no bit of a result.
 */
#ifndef MINT_TRAINER_ROOM_H
#define MINT_TRAINER_ROOM_H

#include "backward.h"

/* Device buffers of the head, for up to rows rows. */
struct mint_head_room {
    float *x, *dh, *dx;          /* [rows, H]: gathered residual rows and gradients */
    void *h;                     /* act [rows, H] */
    float *lp, *lse, *ent, *dlp; /* [rows] */
    float *dent;                 /* [rows] */
    float *du;                   /* [rows, r] */
    void *dua;                   /* act [rows, r] */
    float *logits;               /* [rows, vocab], row stride ldl; NULL: not kept */
    int64_t ldl;
};

/* What the loss reads and writes, in host memory, a value a row of the head. */
enum mint_host {
    MINT_HOST_LP,
    MINT_HOST_ENTROPY,
    MINT_HOST_REF,
    MINT_HOST_Q,
    MINT_HOST_ADV,
    MINT_HOST_OLD,
    MINT_HOST_WEIGHT,
    MINT_HOST_CLIP_LOW,
    MINT_HOST_CLIP_HIGH,
    MINT_HOST_DLP,
    MINT_HOST_DENTROPY,
    MINT_HOST_N
};

/* Rows of a micro-batch: all, those of the head, and pages of keys. */
struct mint_room_size {
    int64_t rows, head_rows, pages;
};

struct mint_room {
    const struct mint_model *model;
    const struct mint_adapter *adapter; /* NULL: forward passes only */
    int64_t rank;                       /* the largest that runs */
    enum mint_recompute wanted;         /* AUTO: what fits the limit */
    size_t limit;                       /* bytes */
    bool strict;                        /* over the limit even with ALL is an error */
    /* as reserved */
    struct mint_room_size size;
    enum mint_recompute again;
    struct mint_work *work; /* one a layer; a single one for forward passes only */
    struct mint_back *back;
    struct mint_kv *kv;
    float **x; /* [layers + 1] inputs of the layers, [rows, H] each */
    struct mint_head_room head;
    float *host[MINT_HOST_N]; /* [head_rows] each */
};

void mint_room_init(struct mint_room *r, const struct mint_model *m,
                    const struct mint_adapter *adapter, int64_t rank);
void mint_room_release(struct mint_room *r);
/* Makes room for a micro-batch of that size. Contents are lost where it grows. */
int mint_room_reserve(struct mint_room *r, const struct mint_room_size *size, struct mint_err *err);
/* Device bytes of a room for training. */
size_t mint_room_bytes(const struct mint_model *m, int64_t rank, const struct mint_room_size *size,
                       enum mint_recompute again);
/* What AUTO takes for that size within limit bytes. */
enum mint_recompute mint_room_choose(const struct mint_model *m, int64_t rank,
                                     const struct mint_room_size *size, size_t limit);

/* The layer's work, and where its input and output go. */
static inline struct mint_work *mint_room_work(const struct mint_room *r, int l)
{
    return r->adapter ? &r->work[l] : r->work;
}

static inline float *mint_room_x(const struct mint_room *r, int l)
{
    return r->adapter ? r->x[l] : r->work->x;
}

/* Where the keys of layer l go. */
static inline int mint_room_kv_layer(const struct mint_room *r, int l)
{
    return r->again == MINT_RECOMPUTE_NONE ? l : 0;
}

#endif

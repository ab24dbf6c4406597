/* SPDX-License-Identifier: Apache-2.0 */
/*
 * backward.h: the backward pass of one layer, of a layer's LoRA and of the head. The base is
 * frozen: only LoRA has gradients, one leaf a datum (gradtree.h). For y = W x + scale * B u, u = A
 * x: du = scale * dy B,  dB = scale * dy^T u,  dA = du^T x,  dx = dy W + du A Gradients that feed a
 * product are rounded to the activation type, as the forward's inputs are.
 */
#ifndef MINT_BACKWARD_H
#define MINT_BACKWARD_H

#include "forward.h"
#include "gradtree.h"

/* Buffers for up to rows rows. */
struct mint_back {
    const struct mint_model *model;
    float *dx; /* [rows, H] gradient by the residual stream */
    float *dh; /* [rows, H] */
    float *ds; /* [rows, F] */
    float *dout, *dq, *dk, *dv;
    float *du;  /* [rows, r] */
    void *dua;  /* act [rows, r] */
    void *dy;   /* act [rows, H] */
    void *dgu;  /* act [rows, 2F] */
    void *dqkv; /* act [rows, (heads + 2 kv) hd] */
};
int mint_back_new(struct mint_back **b, const struct mint_model *m, const struct mint_adapter *a,
                  int64_t rows, struct mint_err *err);
void mint_back_free(struct mint_back *b);
size_t mint_back_bytes(const struct mint_model *m, int64_t rank, int64_t rows);

/* Through layer l: g->dx holds the gradient by the layer's output and leaves with that by its input
 * (not in layer 0, whose input nobody needs). w holds this layer's forward (mint_forward_layer with
 * keep), x_in its input, kv its keys at kv_layer. */
int mint_backward_layer(const struct mint_model *m, const struct mint_adapter *a, int l,
                        const struct mint_kv *kv, int kv_layer, const struct mint_work *w,
                        struct mint_back *g, const float *x_in, const struct mint_batch *b,
                        struct mint_gradtree *tree, struct mint_err *err);

#endif

// SPDX-License-Identifier: Apache-2.0
/*
 * device_linear.cpp: linear maps with LoRA. y = x W^T + bias, then y += scale (u B^T) with u =
 * act(A x): two products more, both small. A product that holds W and B side by side would save
 * them, but W serves several adapters and the base at once.
 */
#include "device.h"

extern "C" {
#include "mem.h"
}

#include <cstdlib>

/* c = a b^T with the shapes of a [M,K], b [N,K], all rows tight. */
static struct mint_k_product product_of(const void *a, const struct mint_weight *b, int64_t M,
                                        void *c, int64_t ldc)
{
    struct mint_k_product p = {};
    p.a = a;
    p.b = b->rows;
    p.lda = p.ldb = p.K = b->K;
    p.M = M;
    p.N = b->N;
    p.c = c;
    p.ldc = ldc;
    p.scale = 1;
    return p;
}

/* c = a b with a [M,N] (row stride lda), b [N,K]: back through the map. */
static struct mint_k_product back_through(const void *a, int64_t lda, const struct mint_weight *b,
                                          int64_t M, float *c)
{
    struct mint_k_product p = {};
    p.a = a;
    p.lda = lda;
    p.b = b->rows;
    p.ldb = p.N = p.ldc = b->K;
    p.b_krows = true;
    p.K = b->N;
    p.M = M;
    p.c = c;
    p.scale = 1;
    return p;
}

int cuda_linear(struct mint_dev *dev, float *y, int64_t ldy, const void *x,
                const struct mint_weight *w, const float *bias, const struct mint_lora *lora,
                void *u, int64_t T, struct mint_err *err)
{
    struct cuda_dev *d = cuda_dev(dev);
    struct mint_k_product p;
    if (T < 1)
        return 0;
    if (y) {
        p = product_of(x, w, T, y, ldy);
        p.bias = bias;
        MINT_TRY(cuda_product(d, &p, err));
    }
    if (!cuda_has_lora(lora) || (!y && !u))
        return 0;
    if (!u)
        u = cuda_scratch(d, CUDA_U, (size_t)(T * lora->rank) * dev->act_bytes, err);
    if (!u)
        return -1;
    p = product_of(x, lora->a, T, u, lora->rank);
    p.store = MINT_K_ACT;
    MINT_TRY(cuda_product(d, &p, err));
    if (!y)
        return 0;
    p = product_of(u, lora->b, T, y, ldy);
    p.store = MINT_K_ADD;
    p.scale = lora->scale;
    return cuda_product(d, &p, err);
}

int cuda_linear_dx(struct mint_dev *dev, float *dx, bool accumulate, const void *dy, int64_t lddy,
                   const struct mint_weight *w, const struct mint_lora *lora, const void *du,
                   int64_t T, struct mint_err *err)
{
    struct mint_k_product p = back_through(dy, lddy, w, T, dx);
    if (T < 1)
        return 0;
    p.store = accumulate ? MINT_K_ADD : MINT_K_F32;
    MINT_TRY(cuda_product(cuda_dev(dev), &p, err));
    if (!cuda_has_lora(lora) || !du)
        return 0;
    p = back_through(du, lora->rank, lora->a, T, dx);
    p.store = MINT_K_ADD;
    return cuda_product(cuda_dev(dev), &p, err);
}

int cuda_lora_du(struct mint_dev *dev, float *du, const void *dy, int64_t lddy,
                 const struct mint_lora *lora, int64_t T, struct mint_err *err)
{
    struct mint_k_product p = back_through(dy, lddy, lora->b, T, du);
    if (T < 1)
        return 0;
    p.scale = lora->scale;
    return cuda_product(cuda_dev(dev), &p, err);
}

/* A leaf alone may be the library's; several are ours, in one launch. */
int cuda_outer(struct mint_dev *dev, float *const *out, const struct mint_outer *o,
               const int64_t *first, int64_t n, struct mint_err *err)
{
    struct cuda_dev *d = cuda_dev(dev);
    struct mint_k_product p = {};
    if (o->M < 1 || o->N < 1 || n < 1)
        return 0;
    p.a = o->a;
    p.b = o->b;
    p.lda = o->lda;
    p.ldb = o->ldb;
    p.a_krows = p.b_krows = true;
    p.M = o->M;
    p.N = p.ldc = o->N;
    p.scale = o->scale;
    if (n == 1) {
        p.a = cuda_at(d, o->a, first[0] * o->lda);
        p.b = cuda_at(d, o->b, first[0] * o->ldb);
        p.K = first[1] - first[0];
        p.c = out[0];
        return cuda_product(d, &p, err);
    }
    if (o->M > MINT_K_LEAF_ROWS)
        MINT_BUG("a gradient of %lld rows", (long long)o->M);
    struct mint_k_leaf *leaf = (struct mint_k_leaf *)mint_xcalloc((size_t)n, sizeof *leaf);
    for (int64_t i = 0; i < n; i++)
        leaf[i] = {out[i], first[i], first[i + 1] - first[i]};
    p.leaf = (const struct mint_k_leaf *)cuda_array(d, CUDA_LEAVES, leaf, (size_t)n * sizeof *leaf,
                                                    NULL, err);
    p.leaves = n;
    free(leaf);
    if (!p.leaf)
        return -1;
    mint_k_product(&p, cuda_f32(d), d->stream);
    return cuda_launched(d, "gradients of a matrix", err);
}

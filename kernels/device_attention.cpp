// SPDX-License-Identifier: Apache-2.0
/* device_attention.cpp: the store of keys and values, and attention over it. */
#include "device.h"

extern "C" {
#include "mem.h"
}

#include <cstdlib>
#include <cstring>

static struct mint_k_attn shape_of(const struct mint_attn_shape *s)
{
    return {s->heads, s->kv_heads, s->head_dim, s->scale};
}

static bool same_shape(const struct mint_k_attn *a, const struct mint_k_attn *b)
{
    return a->heads == b->heads && a->kv_heads == b->kv_heads && a->head_dim == b->head_dim &&
           a->scale == b->scale;
}

/* ---- the store. */

int cuda_kv_new(struct mint_dev *dev, struct mint_kv **out, int32_t layers, int32_t pages,
                const struct mint_attn_shape *s, struct mint_err *err)
{
    *out = NULL;
    if (s->head_dim <= 0 || s->head_dim % 2 != 0 || s->head_dim > MINT_K_ATTENTION_DIM_MAX)
        return mint_fail(err, MINT_EMODEL, "head_dim is %d; it must be even and at most %d",
                         (int)s->head_dim, MINT_K_ATTENTION_DIM_MAX);
    struct mint_kv *kv = (struct mint_kv *)mint_xcalloc(1, sizeof *kv);
    kv->layers = layers;
    kv->pages = pages;
    kv->kv_heads = s->kv_heads;
    kv->head_dim = s->head_dim;
    kv->tile_bytes =
        (size_t)MINT_KV_PAGE * (size_t)s->head_dim * (size_t)s->kv_heads * dev->act_bytes;
    kv->page_bytes = 2 * (size_t)layers * kv->tile_bytes;
    kv->data = cuda_alloc(dev, (size_t)pages * kv->page_bytes, err);
    if (!kv->data) {
        free(kv);
        return mint_wrap(err, "%d pages of keys and values: ", (int)pages);
    }
    *out = kv;
    return 0;
}

void cuda_kv_free(struct mint_dev *, struct mint_kv *kv)
{
    if (!kv)
        return;
    cudaFree(kv->data);
    free(kv);
}

int cuda_kv_copy_page(struct mint_dev *dev, struct mint_kv *kv, int32_t to, int32_t from,
                      struct mint_err *err)
{
    char *data = (char *)kv->data;
    if (to == from)
        return 0;
    return cuda_copy(dev, data + (size_t)to * kv->page_bytes, data + (size_t)from * kv->page_bytes,
                     kv->page_bytes, err);
}

static struct mint_k_kv layer_of(const struct cuda_dev *d, const struct mint_kv *kv, int32_t layer)
{
    char *k = (char *)kv->data + 2 * (size_t)layer * kv->tile_bytes;
    size_t act = d->base.act_bytes;
    return {k, k + kv->tile_bytes, (int64_t)(kv->page_bytes / act),
            (int64_t)MINT_KV_PAGE * kv->head_dim};
}

/* ---- into heads. */

int cuda_qkv(struct mint_dev *dev, void *q, struct mint_kv *kv, int32_t layer, const float *qkv,
             const float *qnorm, const float *knorm, float eps, const float *inv_freq,
             const int32_t *pos, const int32_t *pages, const struct mint_attn_shape *s, int64_t T,
             struct mint_err *err)
{
    struct cuda_dev *d = cuda_dev(dev);
    size_t rows = (size_t)T * sizeof *pos, half = (size_t)(s->head_dim / 2) * sizeof *inv_freq;
    struct mint_k_attn a = shape_of(s);
    struct mint_k_kv store = layer_of(d, kv, layer);
    const void *freq = cuda_array(d, CUDA_FREQ, inv_freq, half, NULL, err);
    const void *at = freq ? cuda_array(d, CUDA_POS, pos, rows, NULL, err) : NULL;
    const void *page = at ? cuda_array(d, CUDA_PAGES, pages, rows, NULL, err) : NULL;
    if (!page)
        return -1;
    mint_k_qkv(q, &store, cuda_f32(d), qkv, qnorm, knorm, eps, (const float *)freq,
               (const int32_t *)at, (const int32_t *)page, &a, T, d->stream);
    return cuda_launched(d, "qkv", err);
}

int cuda_qkv_backward(struct mint_dev *dev, void *dqkv, const float *dq, const float *dk,
                      const float *dv, const float *qkv, const float *qnorm, const float *knorm,
                      float eps, const float *inv_freq, const int32_t *pos,
                      const struct mint_attn_shape *s, int64_t T, struct mint_err *err)
{
    struct cuda_dev *d = cuda_dev(dev);
    size_t half = (size_t)(s->head_dim / 2) * sizeof *inv_freq;
    struct mint_k_attn a = shape_of(s);
    const void *freq = cuda_array(d, CUDA_FREQ, inv_freq, half, NULL, err);
    const void *at = freq ? cuda_array(d, CUDA_POS, pos, (size_t)T * sizeof *pos, NULL, err) : NULL;
    if (!at)
        return -1;
    mint_k_qkv_backward(dqkv, cuda_f32(d), dq, dk, dv, qkv, qnorm, knorm, eps, (const float *)freq,
                        (const int32_t *)at, &a, T, d->stream);
    return cuda_launched(d, "qkv's gradient", err);
}

/* ---- attention. The sequences and the plans for them are made once and serve all layers. */

struct flat { /* sequences and their pages, on the host and on the device */
    struct mint_k_seq *seqs;
    int32_t *pages;
    int64_t n, npages;
    const struct mint_k_seq *dev_seqs;
    const int32_t *dev_pages;
};

static void flatten(struct flat *f, const struct mint_seq *seqs, int64_t n)
{
    int64_t at = 0;
    f->n = n;
    f->npages = 0;
    for (int64_t i = 0; i < n; i++)
        f->npages += (seqs[i].pos0 + seqs[i].rows + MINT_KV_PAGE - 1) / MINT_KV_PAGE;
    f->seqs = (struct mint_k_seq *)mint_xcalloc((size_t)n, sizeof *f->seqs);
    f->pages = (int32_t *)mint_xcalloc((size_t)f->npages, sizeof *f->pages);
    for (int64_t i = 0; i < n; i++) {
        const struct mint_seq *s = &seqs[i];
        int64_t own = (s->pos0 + s->rows + MINT_KV_PAGE - 1) / MINT_KV_PAGE;
        f->seqs[i] = {(int32_t)s->row0, (int32_t)s->rows, (int32_t)s->pos0, (int32_t)at};
        memcpy(f->pages + at, s->pages, (size_t)own * sizeof *f->pages);
        at += own;
    }
}

static void flat_end(struct flat *f)
{
    free(f->seqs);
    free(f->pages);
}

static int flat_begin(struct flat *f, struct cuda_dev *d, const struct mint_seq *seqs, int64_t n,
                      struct mint_err *err)
{
    bool fresh_seqs = true, fresh_pages = true;
    flatten(f, seqs, n);
    f->dev_seqs = (const struct mint_k_seq *)cuda_array(
        d, CUDA_SEQS, f->seqs, (size_t)n * sizeof *f->seqs, &fresh_seqs, err);
    f->dev_pages = NULL;
    if (f->dev_seqs)
        f->dev_pages = (const int32_t *)cuda_array(
            d, CUDA_SEQ_PAGES, f->pages, (size_t)f->npages * sizeof *f->pages, &fresh_pages, err);
    if (fresh_seqs || fresh_pages)
        d->forward_planned = d->backward_planned = false;
    if (f->dev_pages)
        return 0;
    flat_end(f);
    return -1;
}

static const int32_t *forward_plan(struct cuda_dev *d, const struct flat *f,
                                   const struct mint_k_attn *s, struct mint_err *err)
{
    if (d->forward_planned && same_shape(s, &d->forward_shape))
        return (const int32_t *)d->array[CUDA_FORWARD_PLAN].dev.p;
    mint_k_attention_plan(&d->forward, NULL, cuda_f32(d), s, f->seqs, f->n, f->pages);
    size_t bytes = (size_t)d->forward.words * sizeof(int32_t);
    int32_t *table = (int32_t *)mint_xcalloc(bytes + 1, 1);
    mint_k_attention_plan(&d->forward, table, cuda_f32(d), s, f->seqs, f->n, f->pages);
    const void *on = cuda_array(d, CUDA_FORWARD_PLAN, table, bytes, NULL, err);
    free(table);
    d->forward_shape = *s;
    d->forward_planned = on != NULL;
    return (const int32_t *)on;
}

static const int32_t *backward_plan(struct cuda_dev *d, const struct flat *f,
                                    const struct mint_k_attn *s, struct mint_err *err)
{
    if (d->backward_planned && same_shape(s, &d->backward_shape))
        return (const int32_t *)d->array[CUDA_BACKWARD_PLAN].dev.p;
    mint_k_attention_backward_plan(&d->backward, NULL, s, f->seqs, f->n);
    size_t bytes = (size_t)d->backward.words * sizeof(int32_t);
    int32_t *table = (int32_t *)mint_xcalloc(bytes + 1, 1);
    mint_k_attention_backward_plan(&d->backward, table, s, f->seqs, f->n);
    const void *on = cuda_array(d, CUDA_BACKWARD_PLAN, table, bytes, NULL, err);
    free(table);
    d->backward_shape = *s;
    d->backward_planned = on != NULL;
    return (const int32_t *)on;
}

int cuda_attention(struct mint_dev *dev, void *out, float *lse, const void *q,
                   const struct mint_kv *kv, int32_t layer, const struct mint_attn_shape *s,
                   const struct mint_seq *seqs, int64_t nseqs, int64_t T, struct mint_err *err)
{
    struct cuda_dev *d = cuda_dev(dev);
    struct mint_k_attn a = shape_of(s);
    struct mint_k_kv store = layer_of(d, kv, layer);
    struct flat f;
    (void)T;
    MINT_TRY(flat_begin(&f, d, seqs, nseqs, err));
    const int32_t *table = forward_plan(d, &f, &a, err);
    float *parts = NULL;
    if (table)
        parts = (float *)cuda_scratch(d, CUDA_PARTS, (size_t)d->forward.part_floats * sizeof *parts,
                                      err);
    if (parts)
        mint_k_attention(out, lse, cuda_f32(d), q, &store, f.dev_seqs, f.dev_pages, &d->forward,
                         table, parts, &a, d->stream);
    flat_end(&f);
    return parts ? cuda_launched(d, "attention", err) : -1;
}

int cuda_attention_backward(struct mint_dev *dev, float *dq, float *dk, float *dv,
                            const float *dout, const void *out, const float *lse, const void *q,
                            const struct mint_kv *kv, int32_t layer,
                            const struct mint_attn_shape *s, const struct mint_seq *seqs,
                            int64_t nseqs, int64_t T, struct mint_err *err)
{
    struct cuda_dev *d = cuda_dev(dev);
    struct mint_k_attn a = shape_of(s);
    struct mint_k_kv store = layer_of(d, kv, layer);
    size_t rows = (size_t)T * (size_t)s->heads;
    struct flat f;
    MINT_TRY(flat_begin(&f, d, seqs, nseqs, err));
    const int32_t *table = backward_plan(d, &f, &a, err);
    float *delta = NULL;
    void *g = NULL;
    if (table)
        delta = (float *)cuda_scratch(d, CUDA_SMALL, rows * sizeof *delta, err);
    if (delta)
        g = cuda_scratch(d, CUDA_PARTS, rows * (size_t)s->head_dim * dev->act_bytes, err);
    if (g)
        mint_k_attention_backward(dq, dk, dv, cuda_f32(d), dout, out, lse, q, &store, f.dev_seqs,
                                  f.n, f.dev_pages, &d->backward, table, delta, g, &a, T,
                                  d->stream);
    flat_end(&f);
    return g ? cuda_launched(d, "attention's gradient", err) : -1;
}

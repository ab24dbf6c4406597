/* SPDX-License-Identifier: Apache-2.0 */
#include "forward.h"

#include <stdlib.h>

#include "mem.h"

#define TRY(call)                                                                                  \
    do {                                                                                           \
        if ((call) < 0)                                                                            \
            return -1;                                                                             \
    } while (0)

/* Every buffer of a work: where it is kept, its width in elements, its type, and whether only training wants it. */
struct part {
    void **at;
    int64_t width;
    bool act, keep_only;
};

#define PARTS (10 + MINT_MOD_LAYER_N)

static size_t list_parts(struct mint_work *w, const struct mint_model_config *c, int64_t rank,
                         struct part parts[PARTS])
{
    int64_t H = c->hidden, qw = (int64_t)c->heads * c->head_dim;
    int64_t qkvw = (int64_t)(c->heads + 2 * c->kv_heads) * c->head_dim;
    struct part fixed[10] = {
        {(void **)&w->qkv, qkvw, false, false},  {(void **)&w->y, H, false, false},
        {(void **)&w->gu, 2 * (int64_t)c->ffn, false, false}, {&w->h1, H, true, false},
        {&w->h2, H, true, false},                {&w->q, qw, true, false},
        {&w->o, qw, true, false},                {&w->s, c->ffn, true, false},
        {(void **)&w->lse, c->heads, false, true}, {(void **)&w->xmid, H, false, true},
    };
    size_t n = 0;
    for (; n < MINT_ARRAY_LEN(fixed); n++)
        parts[n] = fixed[n];
    for (int i = 0; i < MINT_MOD_LAYER_N; i++)
        parts[n++] = (struct part){&w->u[i], rank, true, true};
    return n;
}

int mint_work_new(struct mint_work **out, const struct mint_model *m, int64_t rank, int64_t rows,
                  bool keep, struct mint_err *err)
{
    struct mint_work *w = mint_xcalloc(1, sizeof *w);
    struct part parts[PARTS];
    size_t n = list_parts(w, &m->config, rank, parts);
    w->dev = m->dev;
    w->rows = rows;
    w->keep = keep;
    for (size_t i = 0; i < n; i++) {
        if (!parts[i].width || (parts[i].keep_only && !keep))
            continue;
        size_t bytes = (size_t)(rows * parts[i].width) * (parts[i].act ? m->dev->act_bytes : 4);
        *parts[i].at = m->dev->ops->alloc(m->dev, bytes, err);
        if (!*parts[i].at)
            goto fail;
    }
    if (!keep) {
        w->x = m->dev->ops->alloc(m->dev, (size_t)(rows * m->config.hidden) * 4, err);
        if (!w->x)
            goto fail;
    }
    *out = w;
    return 0;
fail:
    mint_work_free(w);
    return -1;
}

size_t mint_work_bytes(const struct mint_model *m, int64_t rank, int64_t rows, bool keep)
{
    struct mint_work none;
    struct part parts[PARTS];
    size_t n = list_parts(&none, &m->config, rank, parts);
    size_t bytes = keep ? 0 : (size_t)(rows * m->config.hidden) * 4;
    for (size_t i = 0; i < n; i++)
        if (keep || !parts[i].keep_only)
            bytes += (size_t)(rows * parts[i].width) * (parts[i].act ? m->dev->act_bytes : 4);
    return bytes;
}

void mint_work_free(struct mint_work *w)
{
    if (!w)
        return;
    const struct mint_ops *ops = w->dev->ops;
    void *all[] = {w->x, w->qkv, w->lse, w->y, w->xmid, w->gu, w->h1, w->h2, w->q, w->o, w->s};
    for (size_t i = 0; i < MINT_ARRAY_LEN(all); i++)
        ops->free(w->dev, all[i]);
    for (int i = 0; i < MINT_MOD_LAYER_N; i++)
        ops->free(w->dev, w->u[i]);
    free(w);
}

/* One linear map of a layer with its bias and LoRA, into y with row stride ldy. */
static int apply(const struct mint_model *m, const struct mint_adapter *a, int l,
                 enum mint_module mod, struct mint_work *w, float *y, int64_t ldy, const void *x,
                 int64_t T, struct mint_err *err)
{
    const struct mint_layer *layer = &m->layers[l];
    return m->dev->ops->linear(m->dev, y, ldy, x, layer->w[mod], layer->bias[mod],
                               mint_adapter_lora(a, l, mod), w->u[mod], T, err);
}

static int attention_half(const struct mint_model *m, const struct mint_adapter *a, int l,
                          struct mint_kv *kv, int kv_layer, struct mint_work *w, const float *x_in,
                          const struct mint_batch *b, struct mint_err *err)
{
    const struct mint_model_config *c = &m->config;
    const struct mint_layer *y = &m->layers[l];
    const struct mint_ops *ops = m->dev->ops;
    int64_t qw = (int64_t)c->heads * c->head_dim, kw = (int64_t)c->kv_heads * c->head_dim;
    int64_t ld = qw + 2 * kw;
    TRY(ops->rmsnorm(m->dev, w->h1, x_in, y->norm1, c->norm_eps, b->T, c->hidden, err));
    TRY(apply(m, a, l, MINT_MOD_Q, w, w->qkv, ld, w->h1, b->T, err));
    TRY(apply(m, a, l, MINT_MOD_K, w, w->qkv + qw, ld, w->h1, b->T, err));
    TRY(apply(m, a, l, MINT_MOD_V, w, w->qkv + qw + kw, ld, w->h1, b->T, err));
    TRY(ops->qkv(m->dev, w->q, kv, kv_layer, w->qkv, y->qnorm, y->knorm, c->norm_eps, m->inv_freq,
                 b->pos, b->pages, &m->attn, b->T, err));
    TRY(ops->attention(m->dev, w->o, w->lse, w->q, kv, kv_layer, &m->attn, b->seqs, b->nseqs, b->T,
                       err));
    return apply(m, a, l, MINT_MOD_O, w, w->y, c->hidden, w->o, b->T, err);
}

static int mlp_half(const struct mint_model *m, const struct mint_adapter *a, int l,
                    struct mint_work *w, const float *xmid, const struct mint_batch *b,
                    struct mint_err *err)
{
    const struct mint_model_config *c = &m->config;
    const struct mint_ops *ops = m->dev->ops;
    int64_t F = c->ffn;
    TRY(ops->rmsnorm(m->dev, w->h2, xmid, m->layers[l].norm2, c->norm_eps, b->T, c->hidden, err));
    TRY(apply(m, a, l, MINT_MOD_GATE, w, w->gu, 2 * F, w->h2, b->T, err));
    TRY(apply(m, a, l, MINT_MOD_UP, w, w->gu + F, 2 * F, w->h2, b->T, err));
    TRY(ops->swiglu(m->dev, w->s, w->gu, b->T, F, err));
    return apply(m, a, l, MINT_MOD_DOWN, w, w->y, c->hidden, w->s, b->T, err);
}

int mint_forward_layer(const struct mint_model *m, const struct mint_adapter *a, int l,
                       struct mint_kv *kv, int kv_layer, struct mint_work *w, const float *x_in,
                       float *x_out, const struct mint_batch *b, struct mint_err *err)
{
    const struct mint_ops *ops = m->dev->ops;
    int64_t n = b->T * m->config.hidden;
    size_t bytes = (size_t)n * sizeof(float);
    float *xmid = w->keep ? w->xmid : x_out;
    TRY(attention_half(m, a, l, kv, kv_layer, w, x_in, b, err));
    if (xmid != x_in)
        TRY(ops->copy(m->dev, xmid, x_in, bytes, err));
    TRY(ops->add(m->dev, xmid, w->y, n, err));
    TRY(mlp_half(m, a, l, w, xmid, b, err));
    if (x_out != xmid)
        TRY(ops->copy(m->dev, x_out, xmid, bytes, err));
    return ops->add(m->dev, x_out, w->y, n, err);
}

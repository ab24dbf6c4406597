/* SPDX-License-Identifier: Apache-2.0 */
#include "forward.h"

#include <stdlib.h>

#include "mem.h"
#include "slab.h"

const char *const mint_recompute_names[] = {"auto", "none", "cheap", "all", NULL};

#define PARTS (11 + MINT_MOD_LAYER_N)

/* What a buffer holds: nothing between layers, what is cheap to compute again, or what is not. */
enum worth { PASSING, CHEAP, DEAR };

/* Parts of at least that worth; the others have width 0. What only training keeps is left out
 * without keep, and so is x with it. */
static void list_parts(struct mint_work *w, const struct mint_model_config *c, int64_t rank,
                       bool keep, enum worth least, struct mint_slab_part parts[PARTS])
{
    int64_t H = c->hidden, F = c->ffn, qw = (int64_t)c->heads * c->head_dim;
    int64_t qkvw = (int64_t)(c->heads + 2 * c->kv_heads) * c->head_dim;
    const struct {
        struct mint_slab_part part;
        enum worth worth;
    } fixed[] = {
        {{(void **)&w->x, keep ? 0 : H, MINT_SLAB_F32}, PASSING},
        {{(void **)&w->y, H, MINT_SLAB_F32}, PASSING},
        {{&w->h1, H, MINT_SLAB_ACT}, CHEAP},
        {{&w->h2, H, MINT_SLAB_ACT}, CHEAP},
        {{&w->q, qw, MINT_SLAB_ACT}, CHEAP},
        {{&w->s, F, MINT_SLAB_ACT}, CHEAP},
        {{(void **)&w->qkv, qkvw, MINT_SLAB_F32}, DEAR},
        {{(void **)&w->gu, 2 * F, MINT_SLAB_F32}, DEAR},
        {{&w->o, qw, MINT_SLAB_ACT}, DEAR},
        {{(void **)&w->lse, keep ? c->heads : 0, MINT_SLAB_F32}, DEAR},
        {{(void **)&w->xmid, keep ? H : 0, MINT_SLAB_F32}, DEAR},
    };
    size_t n = 0;
    for (; n < MINT_ARRAY_LEN(fixed); n++) {
        parts[n] = fixed[n].part;
        if (fixed[n].worth < least)
            parts[n].width = 0;
    }
    for (int i = 0; i < MINT_MOD_LAYER_N; i++)
        parts[n++] = (struct mint_slab_part){&w->u[i], keep ? rank : 0, MINT_SLAB_ACT};
}

int mint_work_new(struct mint_work **out, const struct mint_model *m, int64_t rank, int64_t rows,
                  bool keep, struct mint_err *err)
{
    struct mint_work *w = mint_xcalloc(1, sizeof *w);
    struct mint_slab_part parts[PARTS];
    list_parts(w, &m->config, rank, keep, PASSING, parts);
    *w = (struct mint_work){.model = m, .rows = rows, .keep = keep};
    if (mint_slab_alloc(m->dev, parts, PARTS, rows, err) < 0) {
        free(w);
        return -1;
    }
    *out = w;
    return 0;
}

void mint_work_free(struct mint_work *w)
{
    if (!w)
        return;
    struct mint_slab_part parts[PARTS];
    list_parts(w, &w->model->config, 1, w->keep, PASSING, parts);
    mint_slab_free(w->model->dev, parts, PARTS);
    free(w);
}

/* Worth of the buffers that each layer has for itself; with ALL it has none. */
static enum worth own_worth(enum mint_recompute again)
{
    return again == MINT_RECOMPUTE_NONE ? CHEAP : DEAR;
}

static void free_works(struct mint_work *w, int n)
{
    struct mint_slab_part parts[PARTS];
    for (int l = 0; l < n; l++) {
        if (l && w->again == MINT_RECOMPUTE_ALL)
            continue;
        list_parts(&w[l], &w->model->config, 1, true, l ? own_worth(w->again) : PASSING, parts);
        mint_slab_free(w->model->dev, parts, PARTS);
    }
    free(w);
}

void mint_works_free(struct mint_work *w)
{
    if (w)
        free_works(w, w->model->config.layers);
}

/* The first work owns all its parts. The others borrow what the layers share. */
int mint_works_new(struct mint_work **out, const struct mint_model *m, int64_t rank, int64_t rows,
                   enum mint_recompute again, struct mint_err *err)
{
    struct mint_work *w = mint_xcalloc((size_t)m->config.layers, sizeof *w);
    struct mint_slab_part parts[PARTS];
    w[0] = (struct mint_work){.model = m, .rows = rows, .keep = true, .again = again};
    for (int l = 0; l < m->config.layers; l++) {
        if (l)
            w[l] = w[0];
        if (l && again == MINT_RECOMPUTE_ALL)
            continue;
        list_parts(&w[l], &m->config, rank, true, l ? own_worth(again) : PASSING, parts);
        if (mint_slab_alloc(m->dev, parts, PARTS, rows, err) < 0) {
            free_works(w, l);
            return -1;
        }
    }
    *out = w;
    return 0;
}

size_t mint_works_bytes(const struct mint_model *m, int64_t rank, int64_t rows,
                        enum mint_recompute again)
{
    struct mint_work none;
    struct mint_slab_part parts[PARTS];
    list_parts(&none, &m->config, rank, true, PASSING, parts);
    size_t bytes = mint_slab_bytes(m->dev, parts, PARTS, rows);
    if (again == MINT_RECOMPUTE_ALL)
        return bytes;
    list_parts(&none, &m->config, rank, true, own_worth(again), parts);
    return bytes + (size_t)(m->config.layers - 1) * mint_slab_bytes(m->dev, parts, PARTS, rows);
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
    MINT_TRY(ops->rmsnorm(m->dev, w->h1, x_in, y->norm1, c->norm_eps, b->T, c->hidden, err));
    MINT_TRY(apply(m, a, l, MINT_MOD_Q, w, w->qkv, ld, w->h1, b->T, err));
    MINT_TRY(apply(m, a, l, MINT_MOD_K, w, w->qkv + qw, ld, w->h1, b->T, err));
    MINT_TRY(apply(m, a, l, MINT_MOD_V, w, w->qkv + qw + kw, ld, w->h1, b->T, err));
    MINT_TRY(ops->qkv(m->dev, w->q, kv, kv_layer, w->qkv, y->qnorm, y->knorm, c->norm_eps,
                      m->inv_freq, b->pos, b->pages, &m->attn, b->T, err));
    MINT_TRY(ops->attention(m->dev, w->o, w->lse, w->q, kv, kv_layer, &m->attn, b->seqs, b->nseqs,
                            b->T, err));
    return apply(m, a, l, MINT_MOD_O, w, w->y, c->hidden, w->o, b->T, err);
}

/* y: where the result goes, NULL: only what the backward needs. */
static int mlp_half(const struct mint_model *m, const struct mint_adapter *a, int l,
                    struct mint_work *w, const float *xmid, float *y, const struct mint_batch *b,
                    struct mint_err *err)
{
    const struct mint_model_config *c = &m->config;
    const struct mint_ops *ops = m->dev->ops;
    int64_t F = c->ffn;
    MINT_TRY(
        ops->rmsnorm(m->dev, w->h2, xmid, m->layers[l].norm2, c->norm_eps, b->T, c->hidden, err));
    MINT_TRY(apply(m, a, l, MINT_MOD_GATE, w, w->gu, 2 * F, w->h2, b->T, err));
    MINT_TRY(apply(m, a, l, MINT_MOD_UP, w, w->gu + F, 2 * F, w->h2, b->T, err));
    MINT_TRY(ops->swiglu(m->dev, w->s, w->gu, b->T, F, err));
    return apply(m, a, l, MINT_MOD_DOWN, w, y, c->hidden, w->s, b->T, err);
}

int mint_forward_layer(const struct mint_model *m, const struct mint_adapter *a, int l,
                       struct mint_kv *kv, int kv_layer, struct mint_work *w, const float *x_in,
                       float *x_out, const struct mint_batch *b, struct mint_err *err)
{
    const struct mint_ops *ops = m->dev->ops;
    int64_t n = b->T * m->config.hidden;
    size_t bytes = (size_t)n * sizeof(float);
    float *xmid = w->keep ? w->xmid : x_out;
    MINT_TRY(attention_half(m, a, l, kv, kv_layer, w, x_in, b, err));
    if (xmid != x_in)
        MINT_TRY(ops->copy(m->dev, xmid, x_in, bytes, err));
    MINT_TRY(ops->add(m->dev, xmid, w->y, n, err));
    MINT_TRY(mlp_half(m, a, l, w, xmid, w->y, b, err));
    if (x_out != xmid)
        MINT_TRY(ops->copy(m->dev, x_out, xmid, bytes, err));
    return ops->add(m->dev, x_out, w->y, n, err);
}

/* From the layer's input; the last product feeds the next layer only, and so is left out. */
static int again_all(const struct mint_model *m, const struct mint_adapter *a, int l,
                     struct mint_kv *kv, int kv_layer, struct mint_work *w, const float *x_in,
                     const struct mint_batch *b, struct mint_err *err)
{
    int64_t n = b->T * m->config.hidden;
    MINT_TRY(attention_half(m, a, l, kv, kv_layer, w, x_in, b, err));
    MINT_TRY(m->dev->ops->copy(m->dev, w->xmid, x_in, (size_t)n * sizeof *x_in, err));
    MINT_TRY(m->dev->ops->add(m->dev, w->xmid, w->y, n, err));
    return mlp_half(m, a, l, w, w->xmid, NULL, b, err);
}

static int again_cheap(const struct mint_model *m, int l, struct mint_kv *kv, int kv_layer,
                       struct mint_work *w, const float *x_in, const struct mint_batch *b,
                       struct mint_err *err)
{
    const struct mint_model_config *c = &m->config;
    const struct mint_layer *y = &m->layers[l];
    const struct mint_ops *ops = m->dev->ops;
    MINT_TRY(ops->rmsnorm(m->dev, w->h1, x_in, y->norm1, c->norm_eps, b->T, c->hidden, err));
    MINT_TRY(ops->qkv(m->dev, w->q, kv, kv_layer, w->qkv, y->qnorm, y->knorm, c->norm_eps,
                      m->inv_freq, b->pos, b->pages, &m->attn, b->T, err));
    MINT_TRY(ops->rmsnorm(m->dev, w->h2, w->xmid, y->norm2, c->norm_eps, b->T, c->hidden, err));
    return ops->swiglu(m->dev, w->s, w->gu, b->T, c->ffn, err);
}

int mint_forward_again(const struct mint_model *m, const struct mint_adapter *a, int l,
                       struct mint_kv *kv, int kv_layer, struct mint_work *w, const float *x_in,
                       const struct mint_batch *b, struct mint_err *err)
{
    if (w->again == MINT_RECOMPUTE_ALL)
        return again_all(m, a, l, kv, kv_layer, w, x_in, b, err);
    if (w->again == MINT_RECOMPUTE_CHEAP)
        return again_cheap(m, l, kv, kv_layer, w, x_in, b, err);
    return 0;
}

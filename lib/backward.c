/* SPDX-License-Identifier: Apache-2.0 */
#include "backward.h"

#include <stdlib.h>

#include "mem.h"
#include "slab.h"

#define PARTS 12

static void list_parts(struct mint_back *b, const struct mint_model_config *c, int64_t rank,
                       struct mint_slab_part parts[PARTS])
{
    int64_t H = c->hidden, F = c->ffn, qw = (int64_t)c->heads * c->head_dim;
    int64_t kw = (int64_t)c->kv_heads * c->head_dim;
    struct mint_slab_part all[PARTS] = {
        {(void **)&b->dx, H, MINT_SLAB_F32},  {(void **)&b->dh, H, MINT_SLAB_F32},
        {(void **)&b->ds, F, MINT_SLAB_F32},  {(void **)&b->dout, qw, MINT_SLAB_F32},
        {(void **)&b->dq, qw, MINT_SLAB_F32}, {(void **)&b->dk, kw, MINT_SLAB_F32},
        {(void **)&b->dv, kw, MINT_SLAB_F32}, {(void **)&b->du, rank, MINT_SLAB_F32},
        {&b->dua, rank, MINT_SLAB_ACT},       {&b->dy, H, MINT_SLAB_ACT},
        {&b->dgu, 2 * F, MINT_SLAB_ACT},      {&b->dqkv, qw + 2 * kw, MINT_SLAB_ACT},
    };
    for (size_t i = 0; i < PARTS; i++)
        parts[i] = all[i];
}

int mint_back_new(struct mint_back **out, const struct mint_model *m, const struct mint_adapter *a,
                  int64_t rows, struct mint_err *err)
{
    struct mint_back *b = mint_xcalloc(1, sizeof *b);
    struct mint_slab_part parts[PARTS];
    b->model = m;
    list_parts(b, &m->config, a->config.rank, parts);
    if (mint_slab_alloc(m->dev, parts, PARTS, rows, err) < 0) {
        free(b);
        return -1;
    }
    *out = b;
    return 0;
}

size_t mint_back_bytes(const struct mint_model *m, int64_t rank, int64_t rows)
{
    struct mint_back none;
    struct mint_slab_part parts[PARTS];
    list_parts(&none, &m->config, rank, parts);
    return mint_slab_bytes(m->dev, parts, PARTS, rows);
}

void mint_back_free(struct mint_back *b)
{
    if (!b)
        return;
    struct mint_slab_part parts[PARTS];
    list_parts(b, &b->model->config, 1, parts);
    mint_slab_free(b->model->dev, parts, PARTS);
    free(b);
}

/* One linear map: the gradient by its output (act, row stride lddy) and its input x. */
struct map {
    enum mint_module mod;
    const void *dy;
    int64_t lddy;
    const void *x;
};

/* dA and dB of every datum into the tree; leaves du in g->du and g->dua. */
static int lora_grads(const struct mint_model *m, const struct mint_adapter *a, int l,
                      const struct map *f, const void *u, struct mint_back *g,
                      const struct mint_batch *b, struct mint_gradtree *tree, struct mint_err *err)
{
    const struct mint_ops *ops = m->dev->ops;
    const struct mint_lora *lora = mint_adapter_lora(a, l, f->mod);
    size_t pa = (size_t)mint_adapter_param(a, l, f->mod);
    int64_t r = lora->rank, in = a->param[pa].cols, out = a->param[pa + 1].rows;
    MINT_TRY(ops->lora_du(m->dev, g->du, f->dy, f->lddy, lora, b->T, err));
    MINT_TRY(ops->cast(m->dev, g->dua, g->du, b->T * r, err));
    struct mint_outer da = {1.0f, g->dua, r, r, f->x, in, in};
    struct mint_outer db = {lora->scale, f->dy, f->lddy, out, u, r, r};
    MINT_TRY(mint_gradtree_outer(tree, pa, &da, b->leaf_row, b->leaf_number, b->nleaves, err));
    return mint_gradtree_outer(tree, pa + 1, &db, b->leaf_row, b->leaf_number, b->nleaves, err);
}

/* Gradients of one map's LoRA, and dx (+)= gradient by its input unless dx is NULL. */
static int map_backward(const struct mint_model *m, const struct mint_adapter *a, int l,
                        const struct map *f, const struct mint_work *w, struct mint_back *g,
                        float *dx, bool accumulate, const struct mint_batch *b,
                        struct mint_gradtree *tree, struct mint_err *err)
{
    const struct mint_lora *lora = mint_adapter_lora(a, l, f->mod);
    if (lora)
        MINT_TRY(lora_grads(m, a, l, f, w->u[f->mod], g, b, tree, err));
    if (!dx)
        return 0;
    return m->dev->ops->linear_dx(m->dev, dx, accumulate, f->dy, f->lddy, m->layers[l].w[f->mod],
                                  lora, lora ? g->dua : NULL, b->T, err);
}

static int mlp_backward(const struct mint_model *m, const struct mint_adapter *a, int l,
                        const struct mint_work *w, struct mint_back *g, const struct mint_batch *b,
                        struct mint_gradtree *tree, struct mint_err *err)
{
    const struct mint_model_config *c = &m->config;
    const struct mint_ops *ops = m->dev->ops;
    int64_t H = c->hidden, F = c->ffn;
    const char *dgu = g->dgu;
    struct map down = {MINT_MOD_DOWN, g->dy, H, w->s};
    struct map gate = {MINT_MOD_GATE, dgu, 2 * F, w->h2};
    struct map up = {MINT_MOD_UP, dgu + (size_t)F * m->dev->act_bytes, 2 * F, w->h2};
    MINT_TRY(ops->cast(m->dev, g->dy, g->dx, b->T * H, err));
    MINT_TRY(map_backward(m, a, l, &down, w, g, g->ds, false, b, tree, err));
    MINT_TRY(ops->swiglu_backward(m->dev, g->dgu, g->ds, w->gu, b->T, F, err));
    MINT_TRY(map_backward(m, a, l, &gate, w, g, g->dh, false, b, tree, err));
    MINT_TRY(map_backward(m, a, l, &up, w, g, g->dh, true, b, tree, err));
    return ops->rmsnorm_backward(m->dev, g->dx, g->dh, w->xmid, m->layers[l].norm2, c->norm_eps,
                                 b->T, H, err);
}

static int attention_backward(const struct mint_model *m, const struct mint_adapter *a, int l,
                              const struct mint_kv *kv, int kv_layer, const struct mint_work *w,
                              struct mint_back *g, const float *x_in, const struct mint_batch *b,
                              struct mint_gradtree *tree, struct mint_err *err)
{
    const struct mint_model_config *c = &m->config;
    const struct mint_layer *y = &m->layers[l];
    const struct mint_ops *ops = m->dev->ops;
    int64_t H = c->hidden, qw = (int64_t)c->heads * c->head_dim;
    int64_t kw = (int64_t)c->kv_heads * c->head_dim, ld = qw + 2 * kw;
    size_t act = m->dev->act_bytes;
    const char *dqkv = g->dqkv;
    struct map o = {MINT_MOD_O, g->dy, H, w->o};
    struct map q = {MINT_MOD_Q, dqkv, ld, w->h1};
    struct map k = {MINT_MOD_K, dqkv + (size_t)qw * act, ld, w->h1};
    struct map v = {MINT_MOD_V, dqkv + (size_t)(qw + kw) * act, ld, w->h1};
    float *dh = l ? g->dh : NULL; /* below layer 0 there is nothing to train */
    MINT_TRY(ops->cast(m->dev, g->dy, g->dx, b->T * H, err));
    MINT_TRY(map_backward(m, a, l, &o, w, g, g->dout, false, b, tree, err));
    MINT_TRY(ops->attention_backward(m->dev, g->dq, g->dk, g->dv, g->dout, w->o, w->lse, w->q, kv,
                                     kv_layer, &m->attn, b->seqs, b->nseqs, b->T, err));
    MINT_TRY(ops->qkv_backward(m->dev, g->dqkv, g->dq, g->dk, g->dv, w->qkv, y->qnorm, y->knorm,
                               c->norm_eps, m->inv_freq, b->pos, &m->attn, b->T, err));
    MINT_TRY(map_backward(m, a, l, &q, w, g, dh, false, b, tree, err));
    MINT_TRY(map_backward(m, a, l, &k, w, g, dh, true, b, tree, err));
    MINT_TRY(map_backward(m, a, l, &v, w, g, dh, true, b, tree, err));
    if (!dh)
        return 0;
    return ops->rmsnorm_backward(m->dev, g->dx, dh, x_in, y->norm1, c->norm_eps, b->T, H, err);
}

int mint_backward_layer(const struct mint_model *m, const struct mint_adapter *a, int l,
                        const struct mint_kv *kv, int kv_layer, const struct mint_work *w,
                        struct mint_back *g, const float *x_in, const struct mint_batch *b,
                        struct mint_gradtree *tree, struct mint_err *err)
{
    MINT_TRY(mlp_backward(m, a, l, w, g, b, tree, err));
    return attention_backward(m, a, l, kv, kv_layer, w, g, x_in, b, tree, err);
}

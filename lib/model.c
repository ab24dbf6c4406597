/* SPDX-License-Identifier: Apache-2.0 */
#include "model.h"

#include <stdio.h>
#include <stdlib.h>

#include "fs.h"
#include "mem.h"
#include "weights_map.h"

static const char *const module_names[] = {
    [MINT_MOD_Q] = "self_attn.q_proj", [MINT_MOD_K] = "self_attn.k_proj",
    [MINT_MOD_V] = "self_attn.v_proj", [MINT_MOD_O] = "self_attn.o_proj",
    [MINT_MOD_GATE] = "mlp.gate_proj", [MINT_MOD_UP] = "mlp.up_proj",
    [MINT_MOD_DOWN] = "mlp.down_proj", [MINT_MOD_HEAD] = "lm_head",
};

const char *mint_module_name(enum mint_module mod)
{
    return module_names[mod];
}

int64_t mint_module_out(const struct mint_model_config *c, enum mint_module mod)
{
    switch (mod) {
    case MINT_MOD_Q:
        return (int64_t)c->heads * c->head_dim;
    case MINT_MOD_K:
    case MINT_MOD_V:
        return (int64_t)c->kv_heads * c->head_dim;
    case MINT_MOD_O:
    case MINT_MOD_DOWN:
        return c->hidden;
    case MINT_MOD_GATE:
    case MINT_MOD_UP:
        return c->ffn;
    default:
        return c->vocab;
    }
}

int64_t mint_module_in(const struct mint_model_config *c, enum mint_module mod)
{
    switch (mod) {
    case MINT_MOD_O:
        return (int64_t)c->heads * c->head_dim;
    case MINT_MOD_DOWN:
        return c->ffn;
    default:
        return c->hidden;
    }
}

/* Finds a tensor and checks its shape; cols 0 means a vector. */
static int find(const struct mint_model *m, const char *name, int64_t rows, int64_t cols,
                const struct mint_st_tensor **t, struct mint_err *err)
{
    *t = mint_st_find(m->st, name);
    if (!*t)
        return mint_fail(err, MINT_EMODEL, "tensor \"%s\" is missing", name);
    if ((*t)->dtype == MINT_DTYPE_OTHER)
        return mint_fail(err, MINT_EMODEL, "tensor \"%s\" is not F32, BF16 or F16", name);
    bool fits = cols ? (*t)->ndim == 2 && (*t)->shape[0] == rows && (*t)->shape[1] == cols
                     : (*t)->ndim == 1 && (*t)->shape[0] == rows;
    if (!fits)
        return mint_fail(err, MINT_EMODEL, "tensor \"%s\" has not the shape that config.json says",
                         name);
    return 0;
}

/* Whether the device can use the tensor's rows where they are mapped. */
static bool serves_mapped(const struct mint_model *m, const struct mint_st_tensor *t)
{
    bool of_type =
        t->dtype == MINT_BF16 || (t->dtype == MINT_F32 && m->dev->precision == MINT_PRECISION_F32);
    return of_type && (uintptr_t)t->data % mint_dtype_bytes(t->dtype) == 0;
}

/* packed: at once what has to be copied anyway, the rest by mint_model_pack. */
static int load_matrix(struct mint_model *m, const char *name, int64_t rows, int64_t cols,
                       bool packed, struct mint_weight **w, struct mint_err *err)
{
    const struct mint_st_tensor *t;
    if (find(m, name, rows, cols, &t, err) < 0)
        return -1;
    if (packed && m->dev->packs && serves_mapped(m, t)) {
        m->to_pack = true;
        packed = false;
    }
    MINT_TRY(m->dev->ops->weight_new(m->dev, w, t->data, t->dtype, rows, cols, true, packed, err));
    if (packed) /* the rows are hardly read again */
        mint_st_release(m->st, t->data, t->bytes);
    return 0;
}

static int load_vector(struct mint_model *m, const char *name, int64_t n, float **v,
                       struct mint_err *err)
{
    const struct mint_st_tensor *t;
    if (find(m, name, n, 0, &t, err) < 0)
        return -1;
    float *host = mint_xcalloc((size_t)n, sizeof *host);
    int rc = mint_st_to_f32(t, host, err);
    if (rc == 0) {
        *v = m->dev->ops->alloc(m->dev, (size_t)n * sizeof **v, err);
        rc = *v ? m->dev->ops->upload(m->dev, *v, host, (size_t)n * sizeof **v, err) : -1;
    }
    free(host);
    return rc;
}

static void weight_name(char name[128], int l, int i)
{
    snprintf(name, 128, "model.layers.%d.%s.weight", l, module_names[i]);
}

static int load_layer(struct mint_model *m, int l, bool packed, struct mint_err *err)
{
    const struct mint_model_config *c = &m->config;
    struct mint_layer *y = &m->layers[l];
    char name[128];
    for (int i = 0; i < MINT_MOD_LAYER_N; i++) {
        enum mint_module mod = (enum mint_module)i;
        int64_t out = mint_module_out(c, mod);
        weight_name(name, l, i);
        if (load_matrix(m, name, out, mint_module_in(c, mod), packed, &y->w[i], err) < 0)
            return -1;
        bool bias = i <= MINT_MOD_V ? c->qkv_bias : i == MINT_MOD_O && c->o_bias;
        snprintf(name, sizeof name, "model.layers.%d.%s.bias", l, module_names[i]);
        if (bias && load_vector(m, name, out, &y->bias[i], err) < 0)
            return -1;
    }
    struct {
        const char *name;
        int64_t n;
        float **v;
        bool wanted;
    } norms[] = {
        {"input_layernorm", c->hidden, &y->norm1, true},
        {"post_attention_layernorm", c->hidden, &y->norm2, true},
        {"self_attn.q_norm", c->head_dim, &y->qnorm, c->qk_norm},
        {"self_attn.k_norm", c->head_dim, &y->knorm, c->qk_norm},
    };
    for (size_t i = 0; i < MINT_ARRAY_LEN(norms); i++) {
        snprintf(name, sizeof name, "model.layers.%d.%s.weight", l, norms[i].name);
        if (norms[i].wanted && load_vector(m, name, norms[i].n, norms[i].v, err) < 0)
            return -1;
    }
    return 0;
}

static const char *head_name(const struct mint_model_config *c)
{
    return c->tied ? "model.embed_tokens.weight" : "lm_head.weight";
}

static int load_all(struct mint_model *m, bool packed, struct mint_err *err)
{
    const struct mint_model_config *c = &m->config;
    if (load_matrix(m, "model.embed_tokens.weight", c->vocab, c->hidden, false, &m->embed, err) < 0)
        return -1;
    if (c->tied && !(packed && m->dev->packs))
        m->head = m->embed;
    else if (load_matrix(m, head_name(c), c->vocab, c->hidden, packed, &m->head, err) < 0)
        return -1;
    if (load_vector(m, "model.norm.weight", c->hidden, &m->norm, err) < 0)
        return -1;
    m->layers = mint_xcalloc((size_t)c->layers, sizeof *m->layers);
    for (int l = 0; l < c->layers; l++)
        if (load_layer(m, l, packed, err) < 0)
            return -1;
    return 0;
}

int mint_model_outline(struct mint_model **out, const char *dir, struct mint_dev *dev,
                       struct mint_err *err)
{
    struct mint_model *m = mint_xcalloc(1, sizeof *m);
    m->dev = dev;
    if (mint_model_config_read(&m->config, dir, err) < 0) {
        mint_model_close(m);
        return -1;
    }
    const struct mint_model_config *c = &m->config;
    m->attn = (struct mint_attn_shape){c->heads, c->kv_heads, c->head_dim,
                                       1.0f / __builtin_sqrtf((float)c->head_dim)};
    m->inv_freq = mint_xcalloc((size_t)c->head_dim / 2, sizeof *m->inv_freq);
    mint_model_config_rope(c, m->inv_freq);
    *out = m;
    return 0;
}

bool mint_model_has_weights(const char *dir)
{
    bool there = false;
    for (int i = 0; i < 2; i++) {
        char *path = mint_fs_join(dir, i ? "model.safetensors.index.json" : "model.safetensors");
        there |= mint_fs_exists(path);
        free(path);
    }
    return there;
}

int mint_model_open(struct mint_model **out, const char *dir, struct mint_dev *dev, bool packed,
                    struct mint_err *err)
{
    struct mint_model *m;
    if (mint_model_outline(&m, dir, dev, err) < 0)
        return -1;
    const struct mint_model_config *c = &m->config;
    if (mint_st_open(&m->st, dir, err) < 0)
        goto fail;
    if (mint_weights_check(m->st, c, dir, err) < 0)
        goto fail;
    if (load_all(m, packed, err) < 0) {
        mint_wrap(err, "%s: ", dir);
        goto fail;
    }
    *out = m;
    return 0;
fail:
    mint_model_close(m);
    return -1;
}

/* A packed copy in place of mapped rows, whose pages are given back. */
static int pack_matrix(struct mint_model *m, const char *name, struct mint_weight **w,
                       struct mint_err *err)
{
    const struct mint_st_tensor *t = mint_st_find(m->st, name);
    struct mint_weight *made;
    if (!serves_mapped(m, t))
        return 0;
    MINT_TRY(m->dev->ops->weight_new(m->dev, &made, t->data, t->dtype, t->shape[0], t->shape[1],
                                     true, true, err));
    mint_st_release(m->st, t->data, t->bytes);
    m->dev->ops->weight_free(m->dev, *w);
    *w = made;
    return 0;
}

int mint_model_pack(struct mint_model *m, struct mint_err *err)
{
    if (!m->to_pack)
        return 0;
    for (int l = 0; l < m->config.layers; l++)
        for (int i = 0; i < MINT_MOD_LAYER_N; i++) {
            char name[128];
            weight_name(name, l, i);
            MINT_TRY(pack_matrix(m, name, &m->layers[l].w[i], err));
        }
    MINT_TRY(pack_matrix(m, head_name(&m->config), &m->head, err));
    m->to_pack = false;
    return 0;
}

void mint_model_close(struct mint_model *m)
{
    if (!m)
        return;
    const struct mint_ops *ops = m->dev->ops;
    for (int l = 0; m->layers && l < m->config.layers; l++) {
        struct mint_layer *y = &m->layers[l];
        for (int i = 0; i < MINT_MOD_LAYER_N; i++) {
            ops->weight_free(m->dev, y->w[i]);
            ops->free(m->dev, y->bias[i]);
        }
        ops->free(m->dev, y->norm1);
        ops->free(m->dev, y->norm2);
        ops->free(m->dev, y->qnorm);
        ops->free(m->dev, y->knorm);
    }
    if (m->head != m->embed)
        ops->weight_free(m->dev, m->head);
    ops->weight_free(m->dev, m->embed);
    ops->free(m->dev, m->norm);
    free(m->layers);
    free(m->inv_freq);
    mint_st_close(m->st);
    free(m);
}

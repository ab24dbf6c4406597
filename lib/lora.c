/* SPDX-License-Identifier: Apache-2.0 */
#include "lora.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mem.h"
#include "rng.h"

/* The head sits behind the last layer's modules. */
static size_t slot(const struct mint_adapter *a, int layer, enum mint_module mod)
{
    if (mod == MINT_MOD_HEAD)
        return a->slots - 1;
    return (size_t)layer * MINT_MOD_LAYER_N + (size_t)mod;
}

/* enum mint_module numbers the modules in the order of checkpoint.h's bits. */
static bool has_module(const struct mint_adapter_config *c, enum mint_module mod)
{
    return mint_adapter_modules(c) >> mod & 1;
}

static int add_param(struct mint_adapter *a, int layer, enum mint_module mod, char which,
                     int64_t rows, int64_t cols, struct mint_err *err)
{
    struct mint_param *p = &a->param[a->nparams++];
    if (mod == MINT_MOD_HEAD)
        snprintf(p->name, sizeof p->name, "base_model.model.lm_head.lora_%c.weight", which);
    else
        snprintf(p->name, sizeof p->name, "base_model.model.model.layers.%d.%s.lora_%c.weight",
                 layer, mint_module_name(mod), which);
    p->rows = rows;
    p->cols = cols;
    p->value = a->dev->ops->alloc(a->dev, (size_t)(rows * cols) * sizeof *p->value, err);
    return p->value ? 0 : -1;
}

/* Lays out all parameters, values still zero. */
static int layout(struct mint_adapter **out, const struct mint_model *m,
                  const struct mint_adapter_config *config, struct mint_err *err)
{
    struct mint_adapter *a = mint_xcalloc(1, sizeof *a);
    size_t slots = (size_t)m->config.layers * MINT_MOD_LAYER_N + 1;
    a->slots = slots;
    a->dev = m->dev;
    a->config = *config;
    a->lora = mint_xcalloc(slots, sizeof *a->lora);
    a->param = mint_xcalloc(2 * slots, sizeof *a->param);
    a->param_of = mint_xcalloc(slots, sizeof *a->param_of);
    *out = a;
    for (size_t s = 0; s < slots; s++) {
        bool head = s == slots - 1;
        enum mint_module mod = head ? MINT_MOD_HEAD : (enum mint_module)(s % MINT_MOD_LAYER_N);
        int layer = head ? m->config.layers : (int)(s / MINT_MOD_LAYER_N);
        a->param_of[s] = -1;
        if (!has_module(config, mod))
            continue;
        a->param_of[s] = (int32_t)a->nparams;
        if (add_param(a, layer, mod, 'A', config->rank, mint_module_in(&m->config, mod), err) < 0 ||
            add_param(a, layer, mod, 'B', mint_module_out(&m->config, mod), config->rank, err) < 0)
            return -1;
    }
    if (!a->nparams)
        return mint_fail(err, MINT_EUSAGE,
                         "the adapter has no module: turn on --train-attn, "
                         "--train-mlp or --train-unembed");
    return 0;
}

/* Makes the weights of all parameters once values are there. */
static int make_weights(struct mint_adapter *a, const float *const *host, struct mint_err *err)
{
    const struct mint_ops *ops = a->dev->ops;
    for (size_t i = 0; i < a->nparams; i++) {
        struct mint_param *p = &a->param[i];
        size_t bytes = (size_t)(p->rows * p->cols) * sizeof(float);
        if (ops->upload(a->dev, p->value, host[i], bytes, err) < 0 ||
            ops->weight_new(a->dev, &p->weight, host[i], MINT_F32, p->rows, p->cols, false, true,
                            err) < 0)
            return -1;
    }
    for (size_t s = 0; s < a->slots; s++) {
        if (a->param_of[s] < 0)
            continue;
        const struct mint_param *p = &a->param[a->param_of[s]];
        a->lora[s] = (struct mint_lora){p[0].weight, p[1].weight, a->config.rank,
                                        (float)(a->config.alpha / a->config.rank)};
    }
    return 0;
}

static float *fresh_values(const struct mint_param *p, uint64_t seed)
{
    float *v = mint_xcalloc((size_t)(p->rows * p->cols), sizeof *v);
    if (!strstr(p->name, ".lora_A."))
        return v;
    uint64_t stream = mint_rng_stream(p->name, strlen(p->name));
    float bound = 1.0f / __builtin_sqrtf((float)p->cols);
    for (int64_t r = 0; r < p->rows; r++)
        for (int64_t c = 0; c < p->cols; c++) {
            float u = mint_rng_uniform(seed, stream, (uint32_t)r, (uint32_t)c);
            v[r * p->cols + c] = (2.0f * u - 1.0f) * bound;
        }
    return v;
}

int mint_adapter_new(struct mint_adapter **out, const struct mint_model *m,
                     const struct mint_adapter_config *config, uint64_t seed, struct mint_err *err)
{
    struct mint_adapter *a = NULL;
    int rc = layout(&a, m, config, err);
    if (rc == 0) {
        float **host = mint_xcalloc(a->nparams, sizeof *host);
        for (size_t i = 0; i < a->nparams; i++)
            host[i] = fresh_values(&a->param[i], seed);
        rc = make_weights(a, (const float *const *)host, err);
        for (size_t i = 0; i < a->nparams; i++)
            free(host[i]);
        free(host);
    }
    if (rc < 0) {
        mint_adapter_close(a);
        return -1;
    }
    *out = a;
    return 0;
}

/* Reads one tensor of the checkpoint into fresh host memory. */
static float *read_tensor(const struct mint_st *st, const struct mint_param *p,
                          struct mint_err *err)
{
    const struct mint_st_tensor *t = mint_st_find(st, p->name);
    if (!t) {
        mint_fail(err, MINT_EMODEL, "the adapter lacks tensor \"%s\"", p->name);
        return NULL;
    }
    if (t->ndim != 2 || t->shape[0] != p->rows || t->shape[1] != p->cols) {
        mint_fail(err, MINT_EMODEL,
                  "adapter tensor \"%s\" should be [%lld, %lld] for this model: it was made for "
                  "another one",
                  p->name, (long long)p->rows, (long long)p->cols);
        return NULL;
    }
    size_t n = (size_t)(p->rows * p->cols);
    float *v = mint_xcalloc(n, sizeof *v);
    int rc = mint_st_to_f32(t, v, err);
    for (size_t i = 0; i < n && rc == 0; i++)
        if (!isfinite(v[i]))
            rc = mint_fail(err, MINT_EMODEL, "adapter tensor \"%s\" has values that are not finite",
                           p->name);
    if (rc == 0)
        return v;
    free(v);
    return NULL;
}

int mint_adapter_load(struct mint_adapter **out, const struct mint_model *m,
                      const struct mint_checkpoint *ck, struct mint_err *err)
{
    struct mint_adapter *a = NULL;
    int rc = layout(&a, m, &ck->config, err);
    if (rc == 0) {
        float **host = mint_xcalloc(a->nparams, sizeof *host);
        for (size_t i = 0; i < a->nparams && rc == 0; i++) {
            host[i] = read_tensor(ck->adapter, &a->param[i], err);
            rc = host[i] ? 0 : -1;
        }
        if (rc == 0 && mint_st_count(ck->adapter) != a->nparams)
            rc = mint_fail(err, MINT_EMODEL,
                           "the adapter has %zu tensors where its adapter_config.json says %zu",
                           mint_st_count(ck->adapter), a->nparams);
        if (rc == 0)
            rc = make_weights(a, (const float *const *)host, err);
        for (size_t i = 0; i < a->nparams; i++)
            free(host[i]);
        free(host);
    }
    if (rc < 0) {
        mint_adapter_close(a);
        return -1;
    }
    *out = a;
    return 0;
}

void mint_adapter_close(struct mint_adapter *a)
{
    if (!a)
        return;
    for (size_t i = 0; i < a->nparams; i++) {
        a->dev->ops->free(a->dev, a->param[i].value);
        a->dev->ops->weight_free(a->dev, a->param[i].weight);
    }
    free(a->lora);
    free(a->param);
    free(a->param_of);
    free(a);
}

int mint_adapter_sync(struct mint_adapter *a, struct mint_err *err)
{
    size_t n = a->nparams;
    struct mint_weight **w = mint_xcalloc(n, sizeof *w);
    const float **value = mint_xcalloc(n, sizeof *value);
    for (size_t i = 0; i < n; i++) {
        w[i] = a->param[i].weight;
        value[i] = a->param[i].value;
    }
    int rc = a->dev->ops->weight_set(a->dev, w, value, (int64_t)n, err);
    free(value);
    free(w);
    return rc;
}

const struct mint_lora *mint_adapter_lora(const struct mint_adapter *a, int layer,
                                          enum mint_module mod)
{
    if (!a)
        return NULL;
    const struct mint_lora *l = &a->lora[slot(a, layer, mod)];
    return l->a ? l : NULL;
}

int mint_adapter_param(const struct mint_adapter *a, int layer, enum mint_module mod)
{
    return a ? a->param_of[slot(a, layer, mod)] : -1;
}

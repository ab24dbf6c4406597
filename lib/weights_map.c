/* SPDX-License-Identifier: Apache-2.0 */
#include "weights_map.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mem.h"

/* What a layer may hold; a row is left out where its condition is false. */
enum when { ALWAYS, QK_NORM, QKV_BIAS, O_BIAS };
enum size { HIDDEN, FFN, Q_ROWS, KV_ROWS, HEAD_DIM };
static const struct row {
    const char *name;
    enum mint_weight_kind kind;
    enum when when;
    enum size out, in; /* in: matrices only */
} rows[] = {
    {"input_layernorm.weight", MINT_WEIGHT_NORM, ALWAYS, HIDDEN, HIDDEN},
    {"self_attn.q_proj.weight", MINT_WEIGHT_MATRIX, ALWAYS, Q_ROWS, HIDDEN},
    {"self_attn.q_proj.bias", MINT_WEIGHT_BIAS, QKV_BIAS, Q_ROWS, HIDDEN},
    {"self_attn.k_proj.weight", MINT_WEIGHT_MATRIX, ALWAYS, KV_ROWS, HIDDEN},
    {"self_attn.k_proj.bias", MINT_WEIGHT_BIAS, QKV_BIAS, KV_ROWS, HIDDEN},
    {"self_attn.v_proj.weight", MINT_WEIGHT_MATRIX, ALWAYS, KV_ROWS, HIDDEN},
    {"self_attn.v_proj.bias", MINT_WEIGHT_BIAS, QKV_BIAS, KV_ROWS, HIDDEN},
    {"self_attn.q_norm.weight", MINT_WEIGHT_NORM, QK_NORM, HEAD_DIM, HIDDEN},
    {"self_attn.k_norm.weight", MINT_WEIGHT_NORM, QK_NORM, HEAD_DIM, HIDDEN},
    {"self_attn.o_proj.weight", MINT_WEIGHT_MATRIX, ALWAYS, HIDDEN, Q_ROWS},
    {"self_attn.o_proj.bias", MINT_WEIGHT_BIAS, O_BIAS, HIDDEN, HIDDEN},
    {"post_attention_layernorm.weight", MINT_WEIGHT_NORM, ALWAYS, HIDDEN, HIDDEN},
    {"mlp.gate_proj.weight", MINT_WEIGHT_MATRIX, ALWAYS, FFN, HIDDEN},
    {"mlp.up_proj.weight", MINT_WEIGHT_MATRIX, ALWAYS, FFN, HIDDEN},
    {"mlp.down_proj.weight", MINT_WEIGHT_MATRIX, ALWAYS, HIDDEN, FFN},
};

static bool used(const struct mint_model_config *c, enum when w)
{
    switch (w) {
    case QK_NORM:
        return c->qk_norm;
    case QKV_BIAS:
        return c->qkv_bias;
    case O_BIAS:
        return c->o_bias;
    default:
        return true;
    }
}

static int64_t size_of(const struct mint_model_config *c, enum size s)
{
    switch (s) {
    case FFN:
        return c->ffn;
    case Q_ROWS:
        return (int64_t)c->heads * c->head_dim;
    case KV_ROWS:
        return (int64_t)c->kv_heads * c->head_dim;
    case HEAD_DIM:
        return c->head_dim;
    default:
        return c->hidden;
    }
}

static size_t per_layer(const struct mint_model_config *c)
{
    size_t n = 0;
    for (size_t i = 0; i < MINT_ARRAY_LEN(rows); i++)
        n += used(c, rows[i].when);
    return n;
}

size_t mint_weights_count(const struct mint_model_config *c)
{
    return 2 + (size_t)c->layers * per_layer(c) + !c->tied;
}

static void fill(struct mint_weight_spec *s, const char *name, enum mint_weight_kind kind, int ndim,
                 int64_t out, int64_t in)
{
    if (s->name != name)
        snprintf(s->name, sizeof s->name, "%s", name);
    s->kind = kind;
    s->ndim = ndim;
    s->shape[0] = out;
    s->shape[1] = in;
}

void mint_weights_at(const struct mint_model_config *c, size_t i, struct mint_weight_spec *s)
{
    size_t k = per_layer(c), in_layers = (size_t)c->layers * k;
    if (i == 0) {
        fill(s, "model.embed_tokens.weight", MINT_WEIGHT_EMBED, 2, c->vocab, c->hidden);
        return;
    }
    if (i > in_layers) {
        if (i == in_layers + 1)
            fill(s, "model.norm.weight", MINT_WEIGHT_NORM, 1, c->hidden, 0);
        else
            fill(s, "lm_head.weight", MINT_WEIGHT_MATRIX, 2, c->vocab, c->hidden);
        return;
    }
    size_t layer = (i - 1) / k, at = (i - 1) % k;
    const struct row *r = rows;
    for (;; r++)
        if (used(c, r->when) && at-- == 0)
            break;
    snprintf(s->name, sizeof s->name, "model.layers.%zu.%s", layer, r->name);
    bool matrix = r->kind == MINT_WEIGHT_MATRIX;
    fill(s, s->name, r->kind, matrix ? 2 : 1, size_of(c, r->out), matrix ? size_of(c, r->in) : 0);
}

static int check_one(const struct mint_st *st, const struct mint_weight_spec *s, const char *dir,
                     struct mint_err *err)
{
    const struct mint_st_tensor *t = mint_st_find(st, s->name);
    char found[96], want[96];
    mint_shape_text(s->ndim, s->shape, want);
    if (!t)
        return mint_fail(err, MINT_EMODEL, "%s: tensor \"%s\" %s is missing", dir, s->name, want);
    if (t->dtype == MINT_DTYPE_OTHER)
        return mint_fail(err, MINT_EMODEL,
                         "%s: tensor \"%s\" is of type %s; supported are F32, BF16 and F16", dir,
                         s->name, t->dtype_text);
    bool same = t->ndim == s->ndim;
    for (int d = 0; same && d < s->ndim; d++)
        same = t->shape[d] == s->shape[d];
    if (!same)
        return mint_fail(err, MINT_EMODEL, "%s: tensor \"%s\" is %s, but config.json asks for %s",
                         dir, s->name, mint_shape_text(t->ndim, t->shape, found), want);
    return 0;
}

static bool ends_with(const char *s, const char *tail)
{
    size_t n = strlen(s), k = strlen(tail);
    return n >= k && !strcmp(s + n - k, tail);
}

static int by_text(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* names: sorted names that the config asks for. */
static int check_extra(const struct mint_st *st, const struct mint_model_config *c,
                       const char *const *names, size_t n, const char *dir, struct mint_err *err)
{
    for (size_t i = 0; i < mint_st_count(st); i++) {
        const char *name = mint_st_at(st, i)->name;
        if (bsearch(&name, names, n, sizeof *names, by_text) ||
            ends_with(name, ".rotary_emb.inv_freq") || (c->tied && !strcmp(name, "lm_head.weight")))
            continue;
        return mint_fail(err, MINT_EMODEL,
                         "%s: tensor \"%s\" has no place in a %s model with this config.json", dir,
                         name, c->arch);
    }
    return 0;
}

int mint_weights_check(const struct mint_st *st, const struct mint_model_config *c, const char *dir,
                       struct mint_err *err)
{
    size_t n = mint_weights_count(c), k = 0;
    const char **names = mint_xcalloc(n, sizeof *names);
    struct mint_arena arena = MINT_ARENA_INIT;
    struct mint_weight_spec s;
    int rc = 0;
    for (; !rc && k < n; k++) {
        mint_weights_at(c, k, &s);
        rc = check_one(st, &s, dir, err);
        names[k] = mint_arena_strndup(&arena, s.name, strlen(s.name));
    }
    if (!rc) {
        qsort(names, n, sizeof *names, by_text);
        rc = check_extra(st, c, names, n, dir, err);
    }
    mint_arena_release(&arena);
    free(names);
    return rc;
}

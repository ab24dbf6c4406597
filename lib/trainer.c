/* SPDX-License-Identifier: Apache-2.0 */
#include "trainer.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backward.h"
#include "mem.h"
#include "slab.h"
#include "trainer_batch.h"

/* Device buffers of the head, for up to rows rows. */
struct head_buffers {
    float *x, *dh, *dx;          /* [rows, H]: gathered residual rows and gradients */
    void *h;                     /* act [rows, H] */
    float *lp, *lse, *ent, *dlp; /* [rows] */
    float *du;                   /* [rows, r] */
    void *dua;                   /* act [rows, r] */
};

struct mint_trainer {
    struct mint_model *model;
    struct mint_adapter *adapter;
    const struct mint_adapter *ref;
    struct mint_train_opts o;
    struct mint_dev *dev;
    const struct mint_ops *ops;
    /* sized by reserve */
    int64_t rows, pages;
    struct mint_work *work;
    struct mint_back *back;
    struct mint_kv *kv; /* one layer */
    float **x;          /* [layers + 1] inputs of the layers, [rows, H] each */
    struct head_buffers head;
    float *host_lp, *host_ent, *host_ref, *host_dlp; /* [rows] */
    /* optimiser */
    struct mint_gradtree *tree;
    float **m, **v; /* a parameter each */
    int64_t step;
};

#define HEAD_PARTS 10

static void list_head(struct mint_trainer *t, struct mint_slab_part parts[HEAD_PARTS])
{
    struct head_buffers *h = &t->head;
    int64_t H = t->model->config.hidden, r = t->adapter ? t->adapter->config.rank : 1;
    struct mint_slab_part all[HEAD_PARTS] = {
        {(void **)&h->x, H, MINT_SLAB_F32},   {(void **)&h->dh, H, MINT_SLAB_F32},
        {(void **)&h->dx, H, MINT_SLAB_F32},  {(void **)&h->lp, 1, MINT_SLAB_F32},
        {(void **)&h->lse, 1, MINT_SLAB_F32}, {(void **)&h->ent, 1, MINT_SLAB_F32},
        {(void **)&h->dlp, 1, MINT_SLAB_F32}, {(void **)&h->du, r, MINT_SLAB_F32},
        {&h->dua, r, MINT_SLAB_ACT},          {&h->h, H, MINT_SLAB_ACT},
    };
    for (size_t i = 0; i < HEAD_PARTS; i++)
        parts[i] = all[i];
}

static void free_buffers(struct mint_trainer *t)
{
    struct mint_slab_part head[HEAD_PARTS];
    list_head(t, head);
    mint_slab_free(t->dev, head, HEAD_PARTS);
    for (int l = 0; l <= t->model->config.layers; l++) {
        t->ops->free(t->dev, t->x[l]);
        t->x[l] = NULL;
    }
    mint_work_free(t->work);
    mint_back_free(t->back);
    t->ops->kv_free(t->dev, t->kv);
    t->work = NULL;
    t->back = NULL;
    t->kv = NULL;
    free(t->host_lp);
    free(t->host_ent);
    free(t->host_ref);
    free(t->host_dlp);
    t->host_lp = t->host_ent = t->host_ref = t->host_dlp = NULL;
    t->rows = t->pages = 0;
}

static int alloc_f32(struct mint_trainer *t, float **p, int64_t n, struct mint_err *err)
{
    *p = t->ops->alloc(t->dev, (size_t)n * sizeof **p, err);
    return *p ? 0 : -1;
}

/* Makes room for a micro-batch; the buffers grow to the largest one and stay. */
static int reserve(struct mint_trainer *t, int64_t rows, int64_t pages, struct mint_err *err)
{
    if (rows <= t->rows && pages <= t->pages)
        return 0;
    rows = MINT_MAX(rows, t->rows);
    pages = MINT_MAX(pages, t->pages);
    free_buffers(t);
    t->rows = rows;
    t->pages = pages;
    for (int l = 0; l <= t->model->config.layers; l++)
        MINT_TRY(alloc_f32(t, &t->x[l], rows * t->model->config.hidden, err));
    struct mint_slab_part head[HEAD_PARTS];
    list_head(t, head);
    MINT_TRY(mint_slab_alloc(t->dev, head, HEAD_PARTS, rows, err));
    int64_t rank = t->adapter ? t->adapter->config.rank : 0;
    if (t->ref)
        rank = MINT_MAX(rank, t->ref->config.rank);
    MINT_TRY(mint_work_new(&t->work, t->model, rank, rows, true, err));
    if (t->adapter)
        MINT_TRY(mint_back_new(&t->back, t->model, t->adapter, rows, err));
    float **host[] = {&t->host_lp, &t->host_ent, &t->host_ref, &t->host_dlp};
    for (size_t i = 0; i < MINT_ARRAY_LEN(host); i++)
        *host[i] = mint_xcalloc((size_t)rows, sizeof(float));
    return t->ops->kv_new(t->dev, &t->kv, 1, (int32_t)pages, &t->model->attn, err);
}

int mint_trainer_new(struct mint_trainer **out, struct mint_model *m, struct mint_adapter *adapter,
                     const struct mint_adapter *ref, const struct mint_train_opts *o,
                     struct mint_err *err)
{
    struct mint_trainer *t = mint_xcalloc(1, sizeof *t);
    *t = (struct mint_trainer){.model = m, .adapter = adapter, .ref = ref, .o = *o};
    t->dev = m->dev;
    t->ops = m->dev->ops;
    t->x = mint_xcalloc((size_t)m->config.layers + 1, sizeof *t->x);
    *out = t;
    if (!adapter)
        return 0;
    size_t n = adapter->nparams;
    int64_t *sizes = mint_xcalloc(n, sizeof *sizes);
    t->m = mint_xcalloc(n, sizeof *t->m);
    t->v = mint_xcalloc(n, sizeof *t->v);
    int rc = 0;
    for (size_t i = 0; i < n && rc == 0; i++) {
        sizes[i] = adapter->param[i].rows * adapter->param[i].cols;
        rc = alloc_f32(t, &t->m[i], sizes[i], err);
        if (rc == 0)
            rc = alloc_f32(t, &t->v[i], sizes[i], err);
    }
    t->tree = mint_gradtree_new(t->dev, sizes, n);
    free(sizes);
    if (rc < 0) {
        mint_trainer_free(t);
        *out = NULL;
    }
    return rc;
}

void mint_trainer_free(struct mint_trainer *t)
{
    if (!t)
        return;
    free_buffers(t);
    for (size_t i = 0; t->adapter && i < t->adapter->nparams; i++) {
        t->ops->free(t->dev, t->m[i]);
        t->ops->free(t->dev, t->v[i]);
    }
    mint_gradtree_free(t->tree);
    free(t->m);
    free(t->v);
    free(t->x);
    free(t);
}

/* Uploads tensor "m.NAME" or "v.NAME" of the optimizer file. */
static int load_moment(struct mint_trainer *t, const struct mint_st *st, const char *prefix,
                       const struct mint_param *p, float *dst, struct mint_err *err)
{
    char name[160];
    snprintf(name, sizeof name, "%s.%s", prefix, p->name);
    const struct mint_st_tensor *s = mint_st_find(st, name);
    if (!s || s->ndim != 2 || s->shape[0] != p->rows || s->shape[1] != p->cols)
        return mint_fail(err, MINT_EMODEL, "optimizer.safetensors has no fitting tensor \"%s\"",
                         name);
    size_t n = (size_t)(p->rows * p->cols);
    float *host = mint_xcalloc(n, sizeof *host);
    int rc = mint_st_to_f32(s, host, err);
    if (rc == 0)
        rc = t->ops->upload(t->dev, dst, host, n * sizeof *host, err);
    free(host);
    return rc;
}

int mint_trainer_load_optimizer(struct mint_trainer *t, const struct mint_st *st, int64_t step,
                                struct mint_err *err)
{
    t->step = step;
    for (size_t i = 0; st && i < t->adapter->nparams; i++) {
        MINT_TRY(load_moment(t, st, "m", &t->adapter->param[i], t->m[i], err));
        MINT_TRY(load_moment(t, st, "v", &t->adapter->param[i], t->v[i], err));
    }
    return 0;
}

int64_t mint_trainer_step_count(const struct mint_trainer *t)
{
    return t->step;
}

int mint_trainer_read(struct mint_trainer *t, size_t i, float *value, float *m, float *v,
                      struct mint_err *err)
{
    const struct mint_param *p = &t->adapter->param[i];
    size_t bytes = (size_t)(p->rows * p->cols) * sizeof(float);
    MINT_TRY(t->ops->download(t->dev, value, p->value, bytes, err));
    MINT_TRY(t->ops->download(t->dev, m, t->m[i], bytes, err));
    return t->ops->download(t->dev, v, t->v[i], bytes, err);
}

int mint_trainer_check(const struct mint_train_opts *o, const struct mint_datum *d,
                       struct mint_err *err)
{
    const char *loss = mint_loss_names[o->loss.loss];
    if (o->loss.loss == MINT_LOSS_CE)
        return 0;
    if (!d->logprobs)
        return mint_fail(err, MINT_ESCHEMA,
                         "loss_fn_inputs.logprobs is missing: --loss %s needs it", loss);
    if (!d->advantages)
        return mint_fail(err, MINT_ESCHEMA,
                         "loss_fn_inputs.advantages is missing: --loss %s needs it", loss);
    if (o->loss.loss == MINT_LOSS_DRO && !d->weights)
        return mint_fail(err, MINT_ESCHEMA,
                         "loss_fn_inputs.weights is missing: --loss dro needs it, its square term "
                         "would count the prompt");
    return 0;
}

/* Residual stream through all layers; x[l] keeps the input of layer l, x[layers] the output. */
static int run_layers(struct mint_trainer *t, const struct mint_adapter *a,
                      const struct mint_batch *b, struct mint_err *err)
{
    MINT_TRY(t->ops->embed(t->dev, t->x[0], t->model->embed, b->ids, b->T, err));
    for (int l = 0; l < t->model->config.layers; l++)
        MINT_TRY(
            mint_forward_layer(t->model, a, l, t->kv, 0, t->work, t->x[l], t->x[l + 1], b, err));
    return 0;
}

/* Logprobs of the wanted rows into head.lp (and lse, entropy unless ent is false). */
static int run_head(struct mint_trainer *t, const struct mint_adapter *a, const struct mint_pack *p,
                    bool ent, struct mint_err *err)
{
    const struct mint_model_config *c = &t->model->config;
    struct head_buffers *h = &t->head;
    size_t row_bytes = (size_t)c->hidden * sizeof(float);
    MINT_TRY(t->ops->gather(t->dev, h->x, t->x[c->layers], p->hrow, p->hn, row_bytes, err));
    MINT_TRY(
        t->ops->rmsnorm(t->dev, h->h, h->x, t->model->norm, c->norm_eps, p->hn, c->hidden, err));
    return t->ops->logprob(t->dev, h->lp, ent ? h->ent : NULL, h->lse, NULL, 0, h->h,
                           t->model->head, mint_adapter_lora(a, 0, MINT_MOD_HEAD), p->target, p->hn,
                           err);
}

static struct mint_batch batch_of(const struct mint_pack *p)
{
    return (struct mint_batch){
        .T = p->T,
        .ids = p->ids,
        .pos = p->pos,
        .pages = p->page_of_row,
        .seqs = p->seqs,
        .nseqs = p->nseqs,
        .leaf_row = p->leaf_row,
        .nleaves = p->nleaves,
    };
}

/* Position in datum k of wanted row i. */
static int64_t position(const struct mint_pack *p, size_t k, int64_t i)
{
    return p->hrow[i] - p->first_row[k] + p->first_pos[k];
}

static int download_f32(struct mint_trainer *t, float *host, const float *src, int64_t n,
                        struct mint_err *err)
{
    return t->ops->download(t->dev, host, src, (size_t)n * sizeof *host, err);
}

/* Reference logprobs of the wanted rows into host_ref: the datum's own, or computed. */
static int reference(struct mint_trainer *t, const struct mint_pack *p, struct mint_err *err)
{
    bool all_given = true;
    for (size_t k = 0; k < p->n; k++)
        all_given = all_given && p->d[k]->ref_logprobs;
    if (!all_given) {
        struct mint_batch b = batch_of(p);
        MINT_TRY(run_layers(t, t->ref, &b, err));
        MINT_TRY(run_head(t, t->ref, p, false, err));
        MINT_TRY(download_f32(t, t->host_ref, t->head.lp, p->hn, err));
    }
    for (size_t k = 0; k < p->n; k++) {
        if (!p->d[k]->ref_logprobs)
            continue;
        for (int64_t i = p->hfirst[k]; i < p->hfirst[k + 1]; i++)
            t->host_ref[i] = p->d[k]->ref_logprobs[position(p, k, i)];
    }
    return 0;
}

static void add_ratio_stats(struct mint_step_stats *s, const struct mint_loss_in *in,
                            const struct mint_loss_out *out)
{
    double d = (double)in->q - (double)in->lp;
    s->kl_v1 += d;
    s->kl_v2 += d * d;
    s->ratio_max = s->ratios ? fmax(s->ratio_max, (double)out->ratio) : (double)out->ratio;
    s->ratio_min = s->ratios ? fmin(s->ratio_min, (double)out->ratio) : (double)out->ratio;
    s->ratios++;
    s->clipped += out->clipped;
    s->clamped += out->clamped;
}

/* Loss and dlp of one datum's rows. */
static int datum_loss(struct mint_trainer *t, const struct mint_pack *p, size_t k,
                      struct mint_step_stats *s, struct mint_err *err)
{
    const struct mint_datum *d = p->d[k];
    const struct mint_loss_opts *lo = &t->o.loss;
    bool policy = lo->loss != MINT_LOSS_CE;
    for (int64_t i = p->hfirst[k]; i < p->hfirst[k + 1]; i++) {
        int64_t at = position(p, k, i);
        struct mint_loss_in in = {
            .lp = t->host_lp[i],
            .q = policy ? d->logprobs[at] : 0.0f,
            .adv = policy ? d->advantages[at] : 0.0f,
            .weight = mint_datum_weight(d, (size_t)at),
            .ref = t->host_ref[i],
            .clip_low = d->clip_low ? d->clip_low[at] : lo->clip_low,
            .clip_high = d->clip_high ? d->clip_high[at] : lo->clip_high,
        };
        struct mint_loss_out out;
        if (!isfinite(in.lp))
            return mint_fail(err, MINT_EMODEL,
                             "datum %s: the logprob at position %lld is not finite: the weights "
                             "have diverged (try a lower --lr) or are broken",
                             d->group ? d->group : "without id", (long long)at);
        mint_loss_term(lo, &in, &out);
        t->host_dlp[i] = out.dlp;
        s->tokens++;
        s->loss += out.loss;
        s->kl_ref += out.kl;
        s->lp += (double)in.lp;
        s->entropy += (double)t->host_ent[i];
        if (policy)
            add_ratio_stats(s, &in, &out);
    }
    return 0;
}

/* Leaves of the head's B, for the op that makes them. */
struct head_leaves {
    struct mint_gradtree *tree;
    size_t param;
};

static float *begin_leaf(void *ctx, int64_t i, struct mint_err *err)
{
    struct head_leaves *h = ctx;
    (void)i;
    return mint_gradtree_leaf(h->tree, h->param, err);
}

static int end_leaf(void *ctx, int64_t i, float *db, struct mint_err *err)
{
    struct head_leaves *h = ctx;
    (void)i;
    return mint_gradtree_push(h->tree, h->param, db, err);
}

/* dh and the head's LoRA, whose B and A have a leaf for each of the pack's. */
static int head_backward(struct mint_trainer *t, const struct mint_pack *p, struct mint_err *err)
{
    struct head_buffers *h = &t->head;
    const struct mint_lora *lora = mint_adapter_lora(t->adapter, 0, MINT_MOD_HEAD);
    int64_t r = lora ? lora->rank : 0, H = t->model->config.hidden;
    size_t pa = lora ? (size_t)mint_adapter_param(t->adapter, 0, MINT_MOD_HEAD) : 0;
    struct head_leaves ctx = {t->tree, pa + 1};
    struct mint_head_leaves leaves = {p->nleaves, p->leaf_hrow, begin_leaf, end_leaf, &ctx};
    struct mint_head_grad g = {.target = p->target, .lse = h->lse, .dlp = h->dlp};
    MINT_TRY(t->ops->head_backward(t->dev, h->dh, lora ? h->du : NULL, &g, h->h, t->model->head,
                                   lora, p->hn, lora ? &leaves : NULL, err));
    if (!lora)
        return 0;
    MINT_TRY(t->ops->cast(t->dev, h->dua, h->du, p->hn * r, err));
    for (int64_t k = 0; k < p->nleaves; k++) {
        int64_t row0 = p->leaf_hrow[k], rows = p->leaf_hrow[k + 1] - row0;
        float *da = mint_gradtree_leaf(t->tree, pa, err);
        if (!da)
            return -1;
        MINT_TRY(t->ops->outer(t->dev, da, 1.0f, h->dua, r, r, h->h, H, H, row0, rows, err));
        MINT_TRY(mint_gradtree_push(t->tree, pa, da, err));
    }
    return 0;
}

/* Head, final norm, then the layers from the last to the first, each computed again before its
 * backward. */
static int backward(struct mint_trainer *t, const struct mint_pack *p, const struct mint_batch *b,
                    struct mint_err *err)
{
    const struct mint_model_config *c = &t->model->config;
    struct head_buffers *h = &t->head;
    size_t row_bytes = (size_t)c->hidden * sizeof(float);
    MINT_TRY(t->ops->upload(t->dev, h->dlp, t->host_dlp, (size_t)p->hn * sizeof(float), err));
    MINT_TRY(head_backward(t, p, err));
    MINT_TRY(t->ops->zero(t->dev, h->dx, (size_t)p->hn * row_bytes, err));
    MINT_TRY(t->ops->rmsnorm_backward(t->dev, h->dx, h->dh, h->x, t->model->norm, c->norm_eps,
                                      p->hn, c->hidden, err));
    MINT_TRY(t->ops->zero(t->dev, t->back->dx, (size_t)b->T * row_bytes, err));
    MINT_TRY(t->ops->scatter(t->dev, t->back->dx, h->dx, p->hrow, p->hn, row_bytes, err));
    for (int l = c->layers - 1; l >= 0; l--) {
        MINT_TRY(mint_forward_layer(t->model, t->adapter, l, t->kv, 0, t->work, t->x[l],
                                    t->x[l + 1], b, err));
        MINT_TRY(mint_backward_layer(t->model, t->adapter, l, t->kv, t->work, t->back, t->x[l], b,
                                     t->tree, err));
    }
    return 0;
}

static int micro_batch(struct mint_trainer *t, const struct mint_datum *const *d, size_t n,
                       struct mint_step_stats *s, struct mint_err *err)
{
    struct mint_pack p;
    mint_pack_build(&p, d, n, false, t->model->config.vocab);
    struct mint_batch b = batch_of(&p);
    int rc = reserve(t, p.T, p.pages_n, err);
    if (rc == 0 && t->o.loss.kl_coef != 0.0f)
        rc = reference(t, &p, err);
    if (rc == 0)
        rc = run_layers(t, t->adapter, &b, err);
    if (rc == 0)
        rc = run_head(t, t->adapter, &p, true, err);
    if (rc == 0)
        rc = download_f32(t, t->host_lp, t->head.lp, p.hn, err);
    if (rc == 0)
        rc = download_f32(t, t->host_ent, t->head.ent, p.hn, err);
    for (size_t k = 0; k < n && rc == 0; k++)
        rc = datum_loss(t, &p, k, s, err);
    if (rc == 0)
        rc = backward(t, &p, &b, err);
    mint_pack_release(&p);
    return rc;
}

/* Sums of all parameters' leaves, and their norm. */
static int sum_gradients(struct mint_trainer *t, float **sum, double *norm, struct mint_err *err)
{
    double square = 0.0;
    for (size_t i = 0; i < t->adapter->nparams; i++) {
        const struct mint_param *p = &t->adapter->param[i];
        double one = 0.0;
        bool finite = true;
        MINT_TRY(mint_gradtree_sum(t->tree, i, &sum[i], err));
        if (!sum[i])
            continue;
        MINT_TRY(t->ops->sumsq(t->dev, &one, &finite, sum[i], p->rows * p->cols, err));
        if (!finite || !isfinite(one))
            return mint_fail(err, MINT_EMODEL,
                             "the gradient of %s is not finite: the step was not made; try a "
                             "lower --lr or --grad-clip-norm",
                             p->name);
        square += one;
    }
    *norm = sqrt(square);
    return 0;
}

/* beta^n by squaring: exact IEEE steps, no libm pow. */
static double power(double beta, int64_t n)
{
    double r = 1.0;
    for (double b = beta; n; n >>= 1, b *= b)
        if (n & 1)
            r *= b;
    return r;
}

static int update(struct mint_trainer *t, float *const *sum, double lr, double norm,
                  struct mint_err *err)
{
    double clip = t->o.grad_clip_norm, scale = 1.0;
    if (clip > 0.0 && norm > clip)
        scale = clip / (norm + 1e-6);
    t->step++;
    struct mint_adam a = {
        .lr = (float)lr,
        .beta1 = (float)t->o.beta1,
        .beta2 = (float)t->o.beta2,
        .eps = (float)t->o.eps,
        .weight_decay = (float)t->o.weight_decay,
        .bias1 = (float)(1.0 - power(t->o.beta1, t->step)),
        .bias2 = (float)(1.0 - power(t->o.beta2, t->step)),
        .grad_scale = (float)scale,
    };
    for (size_t i = 0; i < t->adapter->nparams; i++) {
        const struct mint_param *p = &t->adapter->param[i];
        MINT_TRY(
            t->ops->adam(t->dev, p->value, t->m[i], t->v[i], sum[i], p->rows * p->cols, &a, err));
    }
    return mint_adapter_sync(t->adapter, err);
}

static int all_micro_batches(struct mint_trainer *t, const struct mint_datum *const *active,
                             size_t n, struct mint_step_stats *s, struct mint_err *err)
{
    for (size_t at = 0; at < n;) {
        size_t k = mint_pack_fit(active + at, n - at, t->o.micro_tokens, false);
        MINT_TRY(micro_batch(t, active + at, k, s, err));
        at += k;
    }
    return 0;
}

int mint_trainer_step(struct mint_trainer *t, const struct mint_datum *const *d, size_t n,
                      double lr, struct mint_step_stats *s, struct mint_err *err)
{
    *s = (struct mint_step_stats){.datums = (int64_t)n};
    const struct mint_datum **active = mint_xcalloc(n, sizeof *active);
    float **sum = mint_xcalloc(t->adapter->nparams, sizeof *sum);
    for (size_t k = 0; k < n; k++)
        if (mint_datum_counts(d[k]))
            active[s->active++] = d[k];
    int rc = all_micro_batches(t, active, (size_t)s->active, s, err);
    if (rc == 0 && s->active)
        rc = sum_gradients(t, sum, &s->grad_norm, err);
    if (rc == 0 && s->active) {
        rc = update(t, sum, lr, s->grad_norm, err);
        s->stepped = rc == 0;
    }
    mint_gradtree_reset(t->tree);
    free(active);
    free(sum);
    return rc;
}

static int forward_micro(struct mint_trainer *t, const struct mint_datum *const *d, size_t n,
                         const struct mint_adapter *a, bool all, float *lp, struct mint_err *err)
{
    struct mint_pack p;
    mint_pack_build(&p, d, n, all, t->model->config.vocab);
    struct mint_batch b = batch_of(&p);
    int rc = reserve(t, p.T, p.pages_n, err);
    if (rc == 0)
        rc = run_layers(t, a, &b, err);
    if (rc == 0)
        rc = run_head(t, a, &p, false, err);
    if (rc == 0)
        rc = download_f32(t, t->host_lp, t->head.lp, p.hn, err);
    for (size_t k = 0; k < n && rc == 0; k++) {
        for (size_t i = 0; i < d[k]->n; i++)
            lp[i] = NAN;
        for (int64_t i = p.hfirst[k]; i < p.hfirst[k + 1]; i++)
            lp[position(&p, k, i)] = t->host_lp[i];
        lp += d[k]->n;
    }
    mint_pack_release(&p);
    return rc;
}

int mint_trainer_forward(struct mint_trainer *t, const struct mint_datum *const *d, size_t n,
                         const struct mint_adapter *adapter, bool all, float *lp,
                         struct mint_err *err)
{
    for (size_t at = 0; at < n;) {
        size_t k = mint_pack_fit(d + at, n - at, t->o.micro_tokens, all);
        MINT_TRY(forward_micro(t, d + at, k, adapter, all, lp, err));
        for (size_t i = 0; i < k; i++)
            lp += d[at + i]->n;
        at += k;
    }
    return 0;
}

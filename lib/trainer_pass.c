/* SPDX-License-Identifier: Apache-2.0 */
/* trainer_pass.c: a micro-batch through the model, forward and backward. */
#include <math.h>

#include "trainer_impl.h"

/* Residual stream through all layers; in training x[l] keeps the input of layer l. */
static int run_layers(struct mint_trainer *t, const struct mint_adapter *a,
                      const struct mint_batch *b, struct mint_err *err)
{
    struct mint_room *r = &t->room;
    MINT_TRY(t->ops->embed(t->dev, mint_room_x(r, 0), t->model->embed, b->ids, b->T, err));
    for (int l = 0; l < t->model->config.layers; l++)
        MINT_TRY(mint_forward_layer(t->model, a, l, r->kv, mint_room_kv_layer(r, l),
                                    mint_room_work(r, l), mint_room_x(r, l), mint_room_x(r, l + 1),
                                    b, err));
    return 0;
}

/* Logprobs of the wanted rows into head.lp (and lse). full: entropy too, and logits where there is
 * room for them. */
static int run_head(struct mint_trainer *t, const struct mint_adapter *a, const struct mint_pack *p,
                    bool full, struct mint_err *err)
{
    const struct mint_model_config *c = &t->model->config;
    struct mint_head_room *h = &t->room.head;
    size_t row_bytes = (size_t)c->hidden * sizeof(float);
    MINT_TRY(t->ops->gather(t->dev, h->x, mint_room_x(&t->room, c->layers), p->hrow, p->hn,
                            row_bytes, err));
    MINT_TRY(
        t->ops->rmsnorm(t->dev, h->h, h->x, t->model->norm, c->norm_eps, p->hn, c->hidden, err));
    return t->ops->logprob(t->dev, h->lp, full ? h->ent : NULL, h->lse, full ? h->logits : NULL,
                           h->ldl, h->h, t->model->head, mint_adapter_lora(a, 0, MINT_MOD_HEAD),
                           p->target, p->hn, err);
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
        .leaf_number = p->leaf_number,
        .nleaves = p->nleaves,
    };
}

static int reserve(struct mint_trainer *t, const struct mint_pack *p, struct mint_err *err)
{
    struct mint_room_size size = {p->T, p->hn, p->pages_n};
    return mint_room_reserve(&t->room, &size, err);
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
        MINT_TRY(download_f32(t, t->room.host_ref, t->room.head.lp, p->hn, err));
    }
    for (size_t k = 0; k < p->n; k++) {
        if (!p->d[k]->ref_logprobs)
            continue;
        for (int64_t i = p->hfirst[k]; i < p->hfirst[k + 1]; i++)
            t->room.host_ref[i] = p->d[k]->ref_logprobs[position(p, k, i)];
    }
    return 0;
}

static void add_ratio_sums(struct mint_policy_sums *s, const struct mint_loss_in *in,
                           const struct mint_loss_out *out)
{
    double d = (double)in->q - (double)in->lp, r = (double)out->ratio;
    s->kl_v1 += d;
    s->kl_v2 += d * d;
    s->ratio_max = s->ratios ? fmax(s->ratio_max, r) : r;
    s->ratio_min = s->ratios ? fmin(s->ratio_min, r) : r;
    s->ratios++;
    s->clipped += out->clipped;
    s->clamped += out->clamped;
}

/* The rows that idle datums leave behind ask for nothing. */
static void idle_loss(struct mint_trainer *t, const struct mint_pack *p, size_t k)
{
    for (int64_t i = p->hfirst[k]; i < p->hfirst[k + 1]; i++)
        t->room.host_dlp[i] = 0.0f;
}

/* Loss and dlp of one datum's rows. */
static int datum_loss(struct mint_trainer *t, const struct mint_pack *p, size_t k, double *loss,
                      struct mint_policy_sums *s, struct mint_err *err)
{
    const struct mint_datum *d = p->d[k];
    const struct mint_loss_opts *lo = &t->o.loss;
    const struct mint_room *r = &t->room;
    bool policy = lo->loss != MINT_LOSS_CE;
    for (int64_t i = p->hfirst[k]; i < p->hfirst[k + 1]; i++) {
        int64_t at = position(p, k, i);
        struct mint_loss_in in = {
            .lp = r->host_lp[i],
            .q = policy ? d->logprobs[at] : 0.0f,
            .adv = policy ? d->advantages[at] : 0.0f,
            .weight = mint_datum_weight(d, (size_t)at),
            .ref = r->host_ref[i],
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
        r->host_dlp[i] = out.dlp;
        *loss += out.loss;
        s->positions++;
        s->kl_ref += out.kl;
        s->lp += (double)in.lp;
        s->entropy += (double)r->host_ent[i];
        if (policy)
            add_ratio_sums(s, &in, &out);
    }
    return 0;
}

static int losses(struct mint_trainer *t, const struct mint_pack *p, double *loss,
                  struct mint_policy_sums *s, struct mint_err *err)
{
    for (size_t k = 0; k < p->n; k++) {
        if (p->idle && p->idle[k])
            idle_loss(t, p, k);
        else
            MINT_TRY(datum_loss(t, p, k, loss, s, err));
    }
    return 0;
}

/* Leaves of the head's B, for the op that makes them. */
struct head_leaves {
    struct mint_gradtree *tree;
    size_t param;
    const int64_t *number;
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
    return mint_gradtree_push(h->tree, h->param, h->number[i], db, err);
}

/* dh and the head's LoRA, whose B and A have a leaf for each of the pack's. */
static int head_backward(struct mint_trainer *t, const struct mint_pack *p, struct mint_err *err)
{
    struct mint_head_room *h = &t->room.head;
    const struct mint_lora *lora = mint_adapter_lora(t->adapter, 0, MINT_MOD_HEAD);
    int64_t r = lora ? lora->rank : 0, H = t->model->config.hidden;
    size_t pa = lora ? (size_t)mint_adapter_param(t->adapter, 0, MINT_MOD_HEAD) : 0;
    struct head_leaves ctx = {t->tree, pa + 1, p->leaf_number};
    struct mint_head_leaves leaves = {p->nleaves, p->leaf_hrow, begin_leaf, end_leaf, &ctx};
    struct mint_head_grad g = {
        .target = p->target, .lse = h->lse, .dlp = h->dlp, .logits = h->logits, .ldl = h->ldl};
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
        MINT_TRY(mint_gradtree_push(t->tree, pa, p->leaf_number[k], da, err));
    }
    return 0;
}

/* Gradient by the output of layer l to that by its input. Of the layer that came last everything is
 * still there, kept or not. */
static int layer_backward(struct mint_trainer *t, int l, const struct mint_batch *b,
                          struct mint_err *err)
{
    struct mint_room *r = &t->room;
    struct mint_work *w = mint_room_work(r, l);
    int kv_layer = mint_room_kv_layer(r, l);
    if (l < t->model->config.layers - 1)
        MINT_TRY(mint_forward_again(t->model, t->adapter, l, r->kv, kv_layer, w, r->x[l], b, err));
    return mint_backward_layer(t->model, t->adapter, l, r->kv, kv_layer, w, r->back, r->x[l], b,
                               t->tree, err);
}

/* Head, final norm, then the layers from the last to the first. */
static int backward(struct mint_trainer *t, const struct mint_pack *p, const struct mint_batch *b,
                    struct mint_err *err)
{
    const struct mint_model_config *c = &t->model->config;
    struct mint_head_room *h = &t->room.head;
    float *dx = t->room.back->dx;
    size_t row_bytes = (size_t)c->hidden * sizeof(float);
    MINT_TRY(t->ops->upload(t->dev, h->dlp, t->room.host_dlp, (size_t)p->hn * sizeof(float), err));
    MINT_TRY(head_backward(t, p, err));
    MINT_TRY(t->ops->zero(t->dev, h->dx, (size_t)p->hn * row_bytes, err));
    MINT_TRY(t->ops->rmsnorm_backward(t->dev, h->dx, h->dh, h->x, t->model->norm, c->norm_eps,
                                      p->hn, c->hidden, err));
    MINT_TRY(t->ops->zero(t->dev, dx, (size_t)b->T * row_bytes, err));
    MINT_TRY(t->ops->scatter(t->dev, dx, h->dx, p->hrow, p->hn, row_bytes, err));
    for (int l = c->layers - 1; l >= 0; l--)
        MINT_TRY(layer_backward(t, l, b, err));
    return 0;
}

static int go_through(struct mint_trainer *t, const struct mint_pack *p, bool with_backward,
                      double *loss, struct mint_policy_sums *sums, struct mint_err *err)
{
    struct mint_room *r = &t->room;
    struct mint_batch b = batch_of(p);
    MINT_TRY(reserve(t, p, err));
    if (t->o.loss.kl_coef != 0.0f)
        MINT_TRY(reference(t, p, err));
    MINT_TRY(run_layers(t, t->adapter, &b, err));
    MINT_TRY(run_head(t, t->adapter, p, true, err));
    MINT_TRY(download_f32(t, r->host_lp, r->head.lp, p->hn, err));
    MINT_TRY(download_f32(t, r->host_ent, r->head.ent, p->hn, err));
    MINT_TRY(losses(t, p, loss, sums, err));
    return with_backward ? backward(t, p, &b, err) : 0;
}

int mint_trainer_pass(struct mint_trainer *t, const struct mint_datum_list *v, bool with_backward,
                      double *loss, struct mint_policy_sums *sums, struct mint_err *err)
{
    int32_t vocab = t->model->config.vocab;
    int rc = 0;
    for (size_t at = 0, k; at < v->n && rc == 0; at += k) {
        struct mint_pack p;
        const bool *idle = v->idle ? v->idle + at : NULL;
        k = mint_pack_fit(v->d + at, idle, v->n - at, t->o.micro_tokens, false);
        mint_pack_build(&p, v->d + at, idle, k, false, vocab, t->leaves);
        if (p.nleaves)
            rc = go_through(t, &p, with_backward, loss, sums, err);
        if (with_backward)
            t->leaves += p.families;
        mint_pack_release(&p);
    }
    return rc;
}

static int forward_micro(struct mint_trainer *t, const struct mint_datum *const *d, size_t n,
                         const struct mint_adapter *a, bool all, float *lp, struct mint_err *err)
{
    struct mint_pack p;
    mint_pack_build(&p, d, NULL, n, all, t->model->config.vocab, 0);
    struct mint_batch b = batch_of(&p);
    int rc = reserve(t, &p, err);
    if (rc == 0)
        rc = run_layers(t, a, &b, err);
    if (rc == 0)
        rc = run_head(t, a, &p, false, err);
    if (rc == 0)
        rc = download_f32(t, t->room.host_lp, t->room.head.lp, p.hn, err);
    for (size_t k = 0; k < n && rc == 0; k++) {
        for (size_t i = 0; i < d[k]->n; i++)
            lp[i] = NAN;
        for (int64_t i = p.hfirst[k]; i < p.hfirst[k + 1]; i++)
            lp[position(&p, k, i)] = t->room.host_lp[i];
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
        size_t k = mint_pack_fit(d + at, NULL, n - at, t->o.micro_tokens, all);
        MINT_TRY(forward_micro(t, d + at, k, adapter, all, lp, err));
        for (size_t i = 0; i < k; i++)
            lp += d[at + i]->n;
        at += k;
    }
    return 0;
}

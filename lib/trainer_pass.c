/* SPDX-License-Identifier: Apache-2.0 */
/* trainer_pass.c: a micro-batch through the model, forward and backward. */
#include <math.h>
#include <stdlib.h>

#include "mem.h"
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
        MINT_TRY(download_f32(t, t->room.host[MINT_HOST_REF], t->room.head.lp, p->hn, err));
    }
    for (size_t k = 0; k < p->n; k++) {
        if (!p->d[k]->ref_logprobs)
            continue;
        for (int64_t i = p->hfirst[k]; i < p->hfirst[k + 1]; i++)
            t->room.host[MINT_HOST_REF][i] = p->d[k]->ref_logprobs[position(p, k, i)];
    }
    return 0;
}

/* The rows that idle datums leave behind ask for nothing. */
static void idle_loss(struct mint_trainer *t, const struct mint_pack *p, size_t k)
{
    for (int64_t i = p->hfirst[k]; i < p->hfirst[k + 1]; i++)
        t->room.host[MINT_HOST_DLP][i] = t->room.host[MINT_HOST_DENTROPY][i] = 0.0f;
}

static int check_logprobs(const struct mint_trainer *t, const struct mint_pack *p, size_t k,
                          struct mint_err *err)
{
    for (int64_t i = p->hfirst[k]; i < p->hfirst[k + 1]; i++)
        if (!isfinite(t->room.host[MINT_HOST_LP][i]))
            return mint_fail(err, MINT_EMODEL,
                             "%s:%llu: the logprob at position %lld is not finite: the weights "
                             "have diverged (try a lower --lr) or are broken",
                             p->d[k]->file ? p->d[k]->file : "datum",
                             (unsigned long long)p->d[k]->line, (long long)position(p, k, i));
    return 0;
}

/* A tensor of datum k at its wanted positions, in the host buffer; NULL if there is none. */
static const float *pick(struct mint_trainer *t, const struct mint_pack *p, size_t k,
                         enum mint_host to, const float *from)
{
    float *out = t->room.host[to];
    if (!from)
        return NULL;
    for (int64_t i = p->hfirst[k]; i < p->hfirst[k + 1]; i++)
        out[i] = from[position(p, k, i)];
    return out + p->hfirst[k];
}

static struct mint_loss_rows rows_of(struct mint_trainer *t, const struct mint_pack *p, size_t k)
{
    const struct mint_datum *d = p->d[k];
    int64_t first = p->hfirst[k];
    float *weight = t->room.host[MINT_HOST_WEIGHT];
    for (int64_t i = first; i < p->hfirst[k + 1]; i++)
        weight[i] = mint_datum_weight(d, (size_t)position(p, k, i));
    return (struct mint_loss_rows){
        .n = (size_t)(p->hfirst[k + 1] - first),
        .lp = t->room.host[MINT_HOST_LP] + first,
        .entropy = t->room.host[MINT_HOST_ENTROPY] + first,
        .ref = t->room.host[MINT_HOST_REF] + first,
        .weight = weight + first,
        .q = pick(t, p, k, MINT_HOST_Q, d->logprobs),
        .adv = pick(t, p, k, MINT_HOST_ADV, d->advantages),
        .old = pick(t, p, k, MINT_HOST_OLD, d->old_logprobs),
        .clip_low = pick(t, p, k, MINT_HOST_CLIP_LOW, d->clip_low),
        .clip_high = pick(t, p, k, MINT_HOST_CLIP_HIGH, d->clip_high),
    };
}

/* Loss and slopes of datum k, or of the pair that begins there. */
static int one_loss(struct mint_trainer *t, const struct mint_pack *p, size_t k,
                    struct mint_datum_sums *each, struct mint_err *err)
{
    float *dlp = t->room.host[MINT_HOST_DLP];
    MINT_TRY(check_logprobs(t, p, k, err));
    struct mint_loss_rows rows = rows_of(t, p, k);
    if (t->o.loss.loss != MINT_LOSS_DPO) {
        mint_loss_datum(&t->o.loss, &rows, dlp + p->hfirst[k],
                        t->room.host[MINT_HOST_DENTROPY] + p->hfirst[k], &each->loss, &each->sums);
        return 0;
    }
    MINT_TRY(check_logprobs(t, p, k + 1, err));
    struct mint_loss_rows pair[2] = {rows, rows_of(t, p, k + 1)};
    mint_loss_pair(&t->o.loss, pair, (float *[]){dlp + p->hfirst[k], dlp + p->hfirst[k + 1]},
                   &each->loss, &each->sums);
    return 0;
}

static int losses(struct mint_trainer *t, const struct mint_pack *p, struct mint_datum_sums *each,
                  struct mint_err *err)
{
    for (size_t k = 0; k < p->n; k += mint_loss_unit(&t->o.loss)) {
        if (p->idle && p->idle[k])
            idle_loss(t, p, k);
        else
            MINT_TRY(one_loss(t, p, k, &each[k], err));
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
    if (t->o.loss.entropy_coef != 0.0f) {
        g.entropy = h->ent;
        g.dentropy = h->dent;
    }
    MINT_TRY(t->ops->head_backward(t->dev, h->dh, lora ? h->du : NULL, &g, h->h, t->model->head,
                                   lora, p->hn, lora ? &leaves : NULL, err));
    if (!lora)
        return 0;
    MINT_TRY(t->ops->cast(t->dev, h->dua, h->du, p->hn * r, err));
    struct mint_outer da = {1.0f, h->dua, r, r, h->h, H, H};
    return mint_gradtree_outer(t->tree, pa, &da, p->leaf_hrow, p->leaf_number, p->nleaves, err);
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
    size_t row_bytes = (size_t)c->hidden * sizeof(float), n = (size_t)p->hn * sizeof(float);
    MINT_TRY(t->ops->upload(t->dev, h->dlp, t->room.host[MINT_HOST_DLP], n, err));
    MINT_TRY(t->ops->upload(t->dev, h->dent, t->room.host[MINT_HOST_DENTROPY], n, err));
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
                      struct mint_datum_sums *each, struct mint_err *err)
{
    struct mint_room *r = &t->room;
    struct mint_batch b = batch_of(p);
    MINT_TRY(reserve(t, p, err));
    if (t->o.loss.kl_coef != 0.0f || t->o.loss.loss == MINT_LOSS_DPO)
        MINT_TRY(reference(t, p, err));
    MINT_TRY(run_layers(t, t->adapter, &b, err));
    MINT_TRY(run_head(t, t->adapter, p, true, err));
    MINT_TRY(download_f32(t, r->host[MINT_HOST_LP], r->head.lp, p->hn, err));
    MINT_TRY(download_f32(t, r->host[MINT_HOST_ENTROPY], r->head.ent, p->hn, err));
    MINT_TRY(losses(t, p, each, err));
    return with_backward ? backward(t, p, &b, err) : 0;
}

size_t mint_trainer_whole(const struct mint_trainer *t, const struct mint_datum *const *d, size_t k,
                          size_t n)
{
    int64_t shared;
    while (k < n && k % mint_loss_unit(&t->o.loss))
        k += mint_family(d + k, n - k, &shared);
    return k;
}

int mint_trainer_pass(struct mint_trainer *t, const struct mint_datum_list *v, bool with_backward,
                      struct mint_datum_sums *each, struct mint_err *err)
{
    int32_t vocab = t->model->config.vocab;
    int rc = 0;
    for (size_t at = 0, k; at < v->n && rc == 0; at += k) {
        struct mint_pack p;
        const bool *idle = v->idle ? v->idle + at : NULL;
        k = mint_pack_fit(v->d + at, idle, v->n - at, t->o.micro_tokens, false);
        k = mint_trainer_whole(t, v->d + at, k, v->n - at);
        mint_pack_build(&p, v->d + at, idle, k, false, vocab, t->leaves);
        if (p.nleaves)
            rc = go_through(t, &p, with_backward, each + at, err);
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
        rc = download_f32(t, t->room.host[MINT_HOST_LP], t->room.head.lp, p.hn, err);
    for (size_t k = 0; k < n && rc == 0; k++) {
        for (size_t i = 0; i < d[k]->n; i++)
            lp[i] = NAN;
        for (int64_t i = p.hfirst[k]; i < p.hfirst[k + 1]; i++)
            lp[position(&p, k, i)] = t->room.host[MINT_HOST_LP][i];
        lp += d[k]->n;
    }
    mint_pack_release(&p);
    return rc;
}

static int forward_all(struct mint_trainer *t, const struct mint_datum *const *d, size_t n,
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

int mint_trainer_forward(struct mint_trainer *t, const struct mint_datum *const *d, size_t n,
                         const struct mint_adapter *adapter, bool all, float *lp,
                         struct mint_err *err)
{
    if (!t->ranks)
        return forward_all(t, d, n, adapter, all, lp, err);
    struct mint_share *shares = mint_xcalloc((size_t)t->ranks->size, sizeof *shares);
    mint_trainer_shares(t, d, NULL, n, shares);
    const struct mint_share *own = &shares[t->ranks->rank];
    float *at = lp;
    for (size_t k = 0; k < own->from; k++)
        at += d[k]->n;
    int rc = forward_all(t, d + own->from, own->to - own->from, adapter, all, at, err);
    if (rc == 0)
        rc = mint_trainer_gather_rows(t, d, shares, lp, err);
    free(shares);
    return rc;
}

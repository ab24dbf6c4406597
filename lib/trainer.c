/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mem.h"
#include "trainer_impl.h"

static int alloc_f32(struct mint_trainer *t, float **p, int64_t n, struct mint_err *err)
{
    *p = t->ops->alloc(t->dev, (size_t)n * sizeof **p, err);
    return *p ? 0 : -1;
}

/* The limit for AUTO, and whether the caller set it. */
static void limit_room(struct mint_trainer *t)
{
    t->room.wanted = t->o.recompute;
    t->room.strict = t->o.memory > 0;
    t->room.limit = t->o.memory ? t->o.memory : t->ops->available(t->dev) / 2;
}

int mint_trainer_new(struct mint_trainer **out, struct mint_model *m, struct mint_adapter *adapter,
                     const struct mint_adapter *ref, const struct mint_train_opts *o,
                     struct mint_err *err)
{
    struct mint_trainer *t = mint_xcalloc(1, sizeof *t);
    *t = (struct mint_trainer){.model = m, .adapter = adapter, .ref = ref, .o = *o};
    t->ranks = o->ranks && o->ranks->size > 1 ? o->ranks : NULL;
    t->dev = m->dev;
    t->ops = m->dev->ops;
    int64_t rank = adapter ? adapter->config.rank : 0;
    mint_room_init(&t->room, m, adapter, ref ? MINT_MAX(rank, ref->config.rank) : rank);
    limit_room(t);
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
    if (rc == 0 && t->ranks)
        rc = mint_exchange_open(&t->exchange, t->dev, t->ranks, err);
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
    mint_exchange_close(t->exchange);
    t->ops->free(t->dev, t->inbox);
    mint_room_release(&t->room);
    for (size_t i = 0; t->adapter && i < t->adapter->nparams; i++) {
        t->ops->free(t->dev, t->m[i]);
        t->ops->free(t->dev, t->v[i]);
    }
    mint_gradtree_free(t->tree);
    free(t->m);
    free(t->v);
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

const char *mint_trainer_exchange(const struct mint_trainer *t)
{
    return t->exchange ? mint_exchange_way(t->exchange) : NULL;
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

static int64_t count_positions(const struct mint_datum *d)
{
    int64_t n = 0;
    for (size_t i = 0; i < d->n; i++)
        n += mint_datum_weight(d, i) != 0.0f;
    return n;
}

int mint_trainer_check(const struct mint_train_opts *o, const struct mint_datum *d,
                       struct mint_err *err)
{
    const char *loss = mint_loss_names[o->loss.loss];
    if (o->loss.loss == MINT_LOSS_DPO && !count_positions(d))
        return mint_fail(err, MINT_ESCHEMA,
                         "loss_fn_inputs.weights are all 0: one of a pair would say nothing");
    if (!mint_loss_has_ratio(&o->loss))
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

static int zero_gradient(struct mint_trainer *t, size_t i, float **sum, struct mint_err *err)
{
    const struct mint_param *p = &t->adapter->param[i];
    float *leaf = mint_gradtree_leaf(t->tree, i, err);
    if (!leaf)
        return -1;
    MINT_TRY(t->ops->zero(t->dev, leaf, (size_t)(p->rows * p->cols) * sizeof *leaf, err));
    MINT_TRY(mint_gradtree_push(t->tree, i, 0, leaf, err));
    return mint_gradtree_sum(t->tree, i, sum, err);
}

static void forget_gradients(struct mint_trainer *t)
{
    mint_gradtree_reset(t->tree);
    t->leaves = 0;
}

/* What the optimiser needs of each parameter; sum[i]: its gradient. */
static struct mint_adam_tensor *tensors(const struct mint_trainer *t, float *const *sum)
{
    struct mint_adam_tensor *a = mint_xcalloc(t->adapter->nparams, sizeof *a);
    for (size_t i = 0; i < t->adapter->nparams; i++) {
        const struct mint_param *p = &t->adapter->param[i];
        a[i] = (struct mint_adam_tensor){p->value, t->m[i], t->v[i], sum[i], p->rows * p->cols};
    }
    return a;
}

/* The norm of all gradients together. */
static int gradient_norm(struct mint_trainer *t, float *const *sum, double *norm,
                         struct mint_err *err)
{
    size_t n = t->adapter->nparams;
    struct mint_adam_tensor *a = tensors(t, sum);
    double *one = mint_xcalloc(n, sizeof *one), square = 0.0;
    int rc = t->ops->sumsq(t->dev, one, a, (int64_t)n, err);
    for (size_t i = 0; i < n && rc == 0; i++) {
        if (!isfinite(one[i]))
            rc = mint_fail(err, MINT_EMODEL,
                           "the gradient of %s is not finite, though that of each datum is: the "
                           "step was not made; make the advantages smaller, or the batch",
                           t->adapter->param[i].name);
        square += one[i];
    }
    *norm = sqrt(square);
    free(one);
    free(a);
    return rc;
}

/* Gradients of all parameters, from their leaves, and their norm. Where nothing was active they are
 * 0: the moments still decay. */
static int sum_gradients(struct mint_trainer *t, float **sum, double *norm, struct mint_err *err)
{
    if (t->ranks)
        MINT_TRY(mint_trainer_join(t, err));
    MINT_TRY(mint_gradtree_sum_all(t->tree, sum, err));
    for (size_t i = 0; i < t->adapter->nparams; i++)
        if (!sum[i])
            MINT_TRY(zero_gradient(t, i, &sum[i], err));
    return gradient_norm(t, sum, norm, err);
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

static int adam_step(struct mint_trainer *t, float *const *sum, double lr, double norm,
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
    struct mint_adam_tensor *tensor = tensors(t, sum);
    int rc = t->ops->adam(t->dev, tensor, (int64_t)t->adapter->nparams, &a, err);
    free(tensor);
    return rc < 0 ? rc : mint_adapter_sync(t->adapter, err);
}

/* No slope whatever the policy is. */
static bool is_idle(const struct mint_loss_opts *o, const struct mint_datum *d)
{
    if (!mint_loss_by_advantage(o))
        return false;
    for (size_t i = 0; i < d->n; i++)
        if (mint_datum_weight(d, i) != 0.0f && d->advantages[i] != 0.0f)
            return false;
    return true;
}

/* The datums with a position that counts, in their order, and which of them are idle. */
static void sort_out(const struct mint_trainer *t, const struct mint_datum *const *d, size_t n,
                     struct mint_datum_list *v, struct mint_step_stats *s)
{
    for (size_t k = 0; k < n; k++) {
        int64_t positions = count_positions(d[k]);
        if (!positions)
            continue;
        bool idle = !t->o.train_idle && is_idle(&t->o.loss, d[k]);
        v->d[v->n] = d[k];
        v->idle[v->n++] = idle;
        s->tokens += positions;
        s->counted++;
        s->active += !idle;
    }
    s->datums += (int64_t)n;
}

/* Forward of the idle ones, each for itself as far as families go. */
static int watch(struct mint_trainer *t, const struct mint_datum_list *v, struct mint_step_stats *s,
                 struct mint_err *err)
{
    struct mint_datum_sums *each = mint_xcalloc(v->n, sizeof *each);
    struct mint_datum_list idle = {mint_xcalloc(v->n, sizeof *v->d), NULL, 0};
    for (size_t k = 0; k < v->n; k++)
        if (v->idle[k])
            idle.d[idle.n++] = v->d[k];
    int rc = mint_trainer_pass(t, &idle, false, each, err);
    for (size_t k = 0; k < idle.n; k++)
        mint_policy_sums_add(&s->seen, &each[k].sums);
    free(idle.d);
    free(each);
    return rc;
}

/* This process's families, and what all of them saw. */
static int share_pass(struct mint_trainer *t, const struct mint_datum_list *v,
                      struct mint_datum_sums *each, struct mint_err *err)
{
    struct mint_share *shares = mint_xcalloc((size_t)t->ranks->size, sizeof *shares);
    mint_trainer_shares(t, v->d, v->idle, v->n, shares);
    const struct mint_share *own = &shares[t->ranks->rank];
    struct mint_datum_list mine = {v->d + own->from, v->idle + own->from, own->to - own->from};
    t->leaves = own->number;
    mint_gradtree_begin(t->tree, own->number);
    int rc = mint_trainer_pass(t, &mine, true, each + own->from, err);
    if (rc == 0)
        rc = mint_trainer_gather(t, shares, each, err);
    free(shares);
    return rc;
}

int mint_trainer_gradients(struct mint_trainer *t, const struct mint_datum *const *d, size_t n,
                           struct mint_step_stats *s, struct mint_err *err)
{
    struct mint_datum_list v = {mint_xcalloc(n, sizeof *v.d), mint_xcalloc(n, sizeof *v.idle), 0};
    struct mint_datum_sums *each = mint_xcalloc(n, sizeof *each);
    sort_out(t, d, n, &v, s);
    int rc = t->ranks ? share_pass(t, &v, each, err) : mint_trainer_pass(t, &v, true, each, err);
    for (size_t k = 0; k < v.n; k++) {
        s->loss += each[k].loss;
        mint_policy_sums_add(&s->trained, &each[k].sums);
        mint_policy_sums_add(&s->seen, &each[k].sums);
    }
    if (rc == 0 && t->o.watch_idle)
        rc = watch(t, &v, s, err);
    if (rc < 0)
        forget_gradients(t);
    free(v.d);
    free(v.idle);
    free(each);
    return rc;
}

int mint_trainer_update(struct mint_trainer *t, double lr, struct mint_step_stats *s,
                        struct mint_err *err)
{
    if (!s->counted)
        return 0;
    float **sum = mint_xcalloc(t->adapter->nparams, sizeof *sum);
    int rc = sum_gradients(t, sum, &s->grad_norm, err);
    if (rc == 0)
        rc = adam_step(t, sum, lr, s->grad_norm, err);
    s->stepped = rc == 0;
    forget_gradients(t);
    free(sum);
    return rc;
}

int mint_trainer_step(struct mint_trainer *t, const struct mint_datum *const *d, size_t n,
                      double lr, struct mint_step_stats *s, struct mint_err *err)
{
    *s = (struct mint_step_stats){0};
    MINT_TRY(mint_trainer_gradients(t, d, n, s, err));
    if (mint_trainer_update(t, lr, s, err) == 0)
        return 0;
    return err && err->code == MINT_EMODEL ? mint_trainer_blame(t, d, n, err) : -1;
}

static int not_finite(const struct mint_datum *const *d, size_t n, struct mint_err *err)
{
    const char *file = d[0]->file ? d[0]->file : "datums";
    char last[40] = "";
    if (n > 1)
        snprintf(last, sizeof last, "-%llu", (unsigned long long)d[n - 1]->line);
    return mint_fail(err, MINT_EMODEL,
                     "%s:%llu%s: the gradient is not finite, so the step was not made: look at the "
                     "advantages and logprobs there, or try a lower --lr",
                     file, (unsigned long long)d[0]->line, last);
}

/* Whether the gradient of these datums alone is not finite. */
static int is_broken(struct mint_trainer *t, const struct mint_datum *const *d, size_t n,
                     bool *broken, struct mint_err *err)
{
    struct mint_step_stats s = {0};
    float **sum = mint_xcalloc(t->adapter->nparams, sizeof *sum);
    struct mint_err why = {0};
    double norm;
    int rc = mint_trainer_gradients(t, d, n, &s, err);
    *broken = rc == 0 && sum_gradients(t, sum, &norm, &why) < 0;
    forget_gradients(t);
    free(sum);
    return rc;
}

int mint_trainer_blame(struct mint_trainer *t, const struct mint_datum *const *d, size_t n,
                       struct mint_err *err)
{
    struct mint_datum_list v = {mint_xcalloc(n, sizeof *v.d), mint_xcalloc(n, sizeof *v.idle), 0};
    struct mint_step_stats s = {0};
    bool broken = false;
    int rc = 0;
    sort_out(t, d, n, &v, &s);
    for (size_t at = 0, k; at < v.n && rc == 0 && !broken; at += k) {
        int64_t shared;
        k = mint_trainer_whole(t, v.d + at, mint_family(v.d + at, v.n - at, &shared), v.n - at);
        rc = is_broken(t, v.d + at, k, &broken, err);
        if (broken)
            not_finite(v.d + at, k, err);
    }
    free(v.d);
    free(v.idle);
    return -1;
}

enum mint_recompute mint_trainer_recompute(const struct mint_trainer *t)
{
    return t->room.again;
}

/* The largest of all micro-batches, in each respect. */
static struct mint_room_size largest(const struct mint_model *m, const struct mint_train_opts *o,
                                     const struct mint_datum *const *d, size_t n)
{
    struct mint_room_size size = {0};
    for (size_t at = 0, k; at < n; at += k) {
        struct mint_pack p;
        k = mint_pack_fit(d + at, NULL, n - at, o->micro_tokens, false);
        mint_pack_build(&p, d + at, NULL, k, false, m->config.vocab, 0);
        size.rows = MINT_MAX(size.rows, p.T);
        size.head_rows = MINT_MAX(size.head_rows, p.hn);
        size.pages = MINT_MAX(size.pages, p.pages_n);
        mint_pack_release(&p);
    }
    return size;
}

size_t mint_trainer_bytes(const struct mint_model *m, int64_t rank, const struct mint_train_opts *o,
                          const struct mint_datum *const *d, size_t n, enum mint_recompute *again)
{
    struct mint_room_size size = largest(m, o, d, n);
    size_t limit = o->memory ? o->memory : m->dev->ops->available(m->dev) / 2;
    enum mint_recompute a = o->recompute;
    if (a == MINT_RECOMPUTE_AUTO)
        a = mint_room_choose(m, rank, &size, limit);
    if (again)
        *again = a;
    return mint_room_bytes(m, rank, &size, a);
}

void mint_trainer_work(const struct mint_model *m, const struct mint_train_opts *o,
                       const struct mint_datum *const *d, size_t n, struct mint_train_work *w)
{
    bool *idle = mint_xcalloc(n, sizeof *idle);
    for (size_t i = 0; i < n; i++)
        idle[i] = is_idle(&o->loss, d[i]);
    *w = (struct mint_train_work){0};
    for (size_t at = 0, k; at < n; at += k) {
        struct mint_pack p;
        k = mint_pack_fit(d + at, idle + at, n - at, o->micro_tokens, false);
        mint_pack_build(&p, d + at, idle + at, k, false, m->config.vocab, 0);
        w->rows += p.T;
        w->head_rows += p.hn;
        for (int64_t i = 0; i < p.T; i++)
            w->keys += p.pos[i] + 1;
        mint_pack_release(&p);
    }
    free(idle);
}

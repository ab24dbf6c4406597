/* SPDX-License-Identifier: Apache-2.0 */
#include "train_job.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cpu/vmath.h"
#include "json.h"

const char *const mint_schedule_names[] = {"constant", "linear", "cosine", NULL};

static size_t batch_size(const struct mint_train_config *c, size_t n)
{
    return c->batch_size && (size_t)c->batch_size < n ? (size_t)c->batch_size : n;
}

static size_t unit(const struct mint_train_config *c)
{
    return mint_loss_unit(&c->opts.loss);
}

int64_t mint_train_planned(const struct mint_train_config *c, size_t n)
{
    int64_t steps = 0;
    size_t size = batch_size(c, n);
    for (size_t at = 0; at < n; at += size)
        steps += (int64_t)MINT_MIN((size_t)c->substeps, MINT_MIN(size, n - at) / unit(c));
    return steps * c->epochs;
}

double mint_train_lr(const struct mint_train_config *c, int64_t step, int64_t first,
                     int64_t planned)
{
    int64_t s = c->total_steps ? first + step : step;
    int64_t total = c->total_steps ? c->total_steps : planned;
    if (s < c->warmup)
        return c->lr * (double)(s + 1) / (double)c->warmup;
    double left = (double)(total - c->warmup);
    double done = left > 0 ? (double)(s - c->warmup) / left : 0.0;
    done = MINT_MIN(done, 1.0);
    if (c->schedule == MINT_SCHEDULE_LINEAR)
        return c->lr * (1.0 - done);
    if (c->schedule == MINT_SCHEDULE_COSINE) {
        float cosine, sine;
        cpu_sincos((float)(3.14159265358979323846 * done), &cosine, &sine);
        return c->lr * 0.5 * (1.0 + (double)cosine);
    }
    return c->lr;
}

static void put(struct mint_buf *b, const char *key, double v)
{
    mint_buf_addf(b, ",\"%s\":", key);
    mint_json_put_double(b, v);
}

/* A value that is used as float32. */
static void put_f32(struct mint_buf *b, const char *key, float v)
{
    mint_buf_addf(b, ",\"%s\":", key);
    mint_json_put_float(b, v);
}

static void put_bool(struct mint_buf *b, const char *key, bool v)
{
    mint_buf_addf(b, ",\"%s\":%s", key, v ? "true" : "false");
}

/* Said only where they are used, so that what does without keeps its identity. */
static void later_options(const struct mint_loss_opts *o, struct mint_buf *b)
{
    if (o->dual_clip != 0.0f)
        put_f32(b, "dual_clip", o->dual_clip);
    if (o->entropy_coef != 0.0f)
        put_f32(b, "entropy_coef", o->entropy_coef);
    if (o->proximal != MINT_PROXIMAL_SAMPLER)
        mint_buf_addf(b, ",\"proximal\":\"%s\"", mint_proximal_names[o->proximal]);
    if (o->correction == MINT_CORRECTION_NONE)
        return;
    mint_buf_addf(b, ",\"correction\":\"%s\"", mint_correction_names[o->correction]);
    put_f32(b, "correction_floor", o->correction_low);
    put_f32(b, "correction_threshold", o->correction_high);
}

void mint_train_options_json(const struct mint_train_config *c, bool fresh, const char *precision,
                             const char *ref, struct mint_buf *b)
{
    const struct mint_train_opts *o = &c->opts;
    mint_buf_addf(b, "{\"loss\":\"%s\"", mint_loss_names[o->loss.loss]);
    put_f32(b, "clip_low_threshold", o->loss.clip_low);
    put_f32(b, "clip_high_threshold", o->loss.clip_high);
    put_f32(b, "beta", o->loss.beta);
    put_f32(b, "kl_penalty_coef", o->loss.kl_coef);
    mint_buf_addf(b, ",\"kl_estimator\":\"%s\",\"ref_adapter\":", mint_kl_names[o->loss.kl]);
    if (ref)
        mint_json_put_str(b, ref);
    else
        mint_buf_adds(b, "null");
    later_options(&o->loss, b);
    put(b, "lr", c->lr);
    mint_buf_addf(b, ",\"schedule\":\"%s\"", mint_schedule_names[c->schedule]);
    put(b, "warmup", (double)c->warmup);
    put(b, "total_steps", (double)c->total_steps);
    put(b, "beta1", o->beta1);
    put(b, "beta2", o->beta2);
    put(b, "eps", o->eps);
    put(b, "weight_decay", o->weight_decay);
    put(b, "grad_clip_norm", o->grad_clip_norm);
    put(b, "batch_size", (double)c->batch_size);
    put(b, "epochs", (double)c->epochs);
    put(b, "substeps", (double)c->substeps);
    mint_buf_addf(b, ",\"precision\":\"%s\"", precision);
    put(b, "rank", c->adapter.rank);
    put(b, "alpha", c->adapter.alpha);
    put_bool(b, "train_attn", c->adapter.attn);
    put_bool(b, "train_mlp", c->adapter.mlp);
    put_bool(b, "train_unembed", c->adapter.unembed);
    if (fresh)
        put(b, "seed", (double)c->seed);
    mint_buf_addc(b, '}');
}

struct walk {
    const struct mint_train_config *c;
    struct mint_trainer *t;
    const struct mint_datum **d;
    struct mint_datum *own; /* what d points to */
    float *old;             /* logprobs of the policy as the run began, or NULL */
    mint_train_on_step *on_step;
    void *ctx;
    int64_t step, planned, first, *tokens;
    struct mint_step_stats *last;
};

/* One batch: its datums cut into substeps parts that differ by at most one datum, or pair. */
static int do_batch(struct walk *w, size_t at, size_t n, struct mint_err *err)
{
    size_t u = unit(w->c), units = n / u, parts = MINT_MIN((size_t)w->c->substeps, units);
    for (size_t p = 0; p < parts; p++) {
        size_t from = at + units * p / parts * u, to = at + units * (p + 1) / parts * u;
        double lr = mint_train_lr(w->c, w->step, w->first, w->planned);
        struct mint_step_stats *s = w->last;
        if (mint_trainer_step(w->t, w->d + from, to - from, lr, s, err) < 0)
            return -1;
        w->step++;
        *w->tokens += s->tokens;
        struct mint_train_report r = {w->step, w->planned, mint_trainer_step_count(w->t), lr, s};
        if (w->on_step && w->on_step(w->ctx, &r, err) < 0)
            return -1;
    }
    return 0;
}

/* Logprobs of all datums under the policy that the run begins with. A run of one step has no other
 * policy. */
static int find_old(struct walk *w, size_t n, const struct mint_adapter *a, struct mint_err *err)
{
    size_t total = 0;
    if (w->c->opts.loss.proximal != MINT_PROXIMAL_PARENT || w->planned < 2)
        return 0;
    for (size_t i = 0; i < n; i++)
        total += w->d[i]->n;
    w->old = mint_xcalloc(total, sizeof *w->old);
    MINT_TRY(mint_trainer_forward(w->t, w->d, n, a, false, w->old, err));
    const float *at = w->old;
    for (size_t i = 0; i < n; at += w->own[i++].n)
        w->own[i].old_logprobs = at;
    return 0;
}

int mint_train_run(const struct mint_train_config *c, struct mint_trainer *t,
                   const struct mint_adapter *a, const struct mint_datums *data,
                   mint_train_on_step *on_step, void *ctx, struct mint_step_stats *last,
                   int64_t *tokens, struct mint_err *err)
{
    size_t size = batch_size(c, data->n);
    struct walk w = {.c = c,
                     .t = t,
                     .on_step = on_step,
                     .ctx = ctx,
                     .planned = mint_train_planned(c, data->n),
                     .first = mint_trainer_step_count(t),
                     .tokens = tokens,
                     .last = last};
    w.d = mint_xcalloc(data->n, sizeof *w.d);
    w.own = mint_xcalloc(data->n, sizeof *w.own);
    for (size_t i = 0; i < data->n; i++) {
        w.own[i] = data->d[i];
        w.d[i] = &w.own[i];
    }
    int rc = find_old(&w, data->n, a, err);
    for (int64_t e = 0; e < c->epochs && rc == 0; e++)
        for (size_t at = 0; at < data->n && rc == 0; at += size)
            rc = do_batch(&w, at, MINT_MIN(size, data->n - at), err);
    free(w.d);
    free(w.own);
    free(w.old);
    return rc;
}

static int by_name(const void *a, const void *b)
{
    const struct mint_checkpoint_tensor *x = a, *y = b;
    return strcmp(x->name, y->name);
}

/* What trainer_state.json says of the last step; nothing here depends on time or threads. */
static void metrics_json(const struct mint_step_stats *s, struct mint_buf *b)
{
    const struct mint_policy_sums *p = &s->trained;
    double n = p->ratios ? (double)p->ratios : 1.0;
    mint_buf_addf(b, "{\"datums\":%lld,\"tokens\":%lld", (long long)s->datums,
                  (long long)s->tokens);
    put(b, "loss:sum", s->loss);
    put(b, "optim/kl_sample_train_v1", p->kl_v1 / n);
    put(b, "optim/kl_sample_train_v2", 0.5 * p->kl_v2 / n);
    put(b, "optim/grad_norm", s->grad_norm);
    mint_buf_addc(b, '}');
}

int mint_train_save(struct mint_trainer *t, const struct mint_adapter *a, const char *dir,
                    const struct mint_trainer_state *state, const struct mint_step_stats *stats,
                    struct mint_err *err)
{
    struct mint_arena arena = MINT_ARENA_INIT;
    struct mint_buf metrics = MINT_BUF_INIT;
    struct mint_checkpoint_tensor *v = mint_xcalloc(a->nparams, sizeof *v);
    int rc = 0;
    for (size_t i = 0; i < a->nparams && rc == 0; i++) {
        const struct mint_param *p = &a->param[i];
        size_t bytes = (size_t)(p->rows * p->cols) * sizeof(float);
        float *value = mint_arena_alloc(&arena, bytes), *m = mint_arena_alloc(&arena, bytes);
        float *var = mint_arena_alloc(&arena, bytes);
        rc = mint_trainer_read(t, i, value, m, var, err);
        v[i] = (struct mint_checkpoint_tensor){p->name, p->rows, p->cols, value, m, var};
    }
    qsort(v, a->nparams, sizeof *v, by_name);
    if (stats)
        metrics_json(stats, &metrics);
    if (rc == 0)
        rc = mint_checkpoint_write(dir, false, &a->config, state, v, a->nparams, metrics.data, NULL,
                                   err);
    mint_arena_release(&arena);
    mint_buf_release(&metrics);
    free(v);
    return rc;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* cpu_qkv.c: from the fused projection to rotated queries and the KV store, and back. */
#include "cpu_kv.h"
#include "cpu_ops.h"
#include "rows.h"

struct qkv {
    struct cpu_dev *d;
    void *out; /* q, or dqkv in the backward */
    struct mint_kv *kv;
    int32_t layer;
    const float *qkv, *qnorm, *knorm, *dq, *dk, *dv;
    const float *inv_freq;
    const int32_t *pos, *pages;
    const struct mint_attn_shape *s;
    float eps;
    int64_t T, grain;
};

/* Of one thread, floats: cos, sin [half], two rows [head_dim]. */
struct work {
    float *c, *s, *a, *b;
};

static struct work work_of(const struct qkv *x, int thread)
{
    const int64_t hd = x->s->head_dim;
    float *p = cpu_scratch(x->d, thread, (size_t)(3 * hd) * sizeof *p);
    struct work w = {p, p + hd / 2, p + hd, p + 2 * hd};

    return w;
}

static int64_t row_elems(const struct mint_attn_shape *s)
{
    return (int64_t)(s->heads + 2 * s->kv_heads) * s->head_dim;
}

/* The normed (or plain) head, rotated, rounded to act. */
static void turn(const struct qkv *x, const struct work *w, void *out, const float *head,
                 const float *norm)
{
    const struct cpu_rows *rows = x->d->isa->rows;
    const int64_t hd = x->s->head_dim;

    if (norm) {
        rows->rmsnorm(w->a, false, head, norm, x->eps, hd);
        head = w->a;
    }
    rows->rotate(out, x->d->base.act_bytes == 2, head, w->c, w->s, false, hd / 2);
}

static void store_key(const struct qkv *x, char *keys, int64_t slot, const void *k)
{
    const int64_t hd = x->s->head_dim;
    const size_t pair = 2 * x->d->base.act_bytes;
    char *to = keys + cpu_kv_key_at(hd, slot, 0) * x->d->base.act_bytes;

    if (pair == 4)
        for (int64_t i = 0; i < hd / 2; i++)
            memcpy(to + i * CPU_PANEL * 4, (const char *)k + i * 4, 4);
    else
        for (int64_t i = 0; i < hd / 2; i++)
            memcpy(to + i * CPU_PANEL * 8, (const char *)k + i * 8, 8);
}

/* v, of the act type, at every second place of a row of pairs. */
static void store_value(const struct qkv *x, char *values, int64_t slot, const void *v)
{
    const int64_t hd = x->s->head_dim;

    for (int64_t k = 0; k < hd; k += CPU_PANEL) {
        const int64_t n = MINT_MIN(CPU_PANEL, hd - k);
        void *to = cpu_act_at(x->d, values, (int64_t)cpu_kv_value_at(slot, k));

        if (x->d->base.act_bytes == 2)
            for (int64_t i = 0; i < n; i++)
                ((cpu_bf16 *)to)[2 * i] = ((const cpu_bf16 *)v)[k + i];
        else
            for (int64_t i = 0; i < n; i++)
                ((float *)to)[2 * i] = ((const float *)v)[k + i];
    }
}

static void forward_row(const struct qkv *x, const struct work *w, int64_t t)
{
    const struct mint_attn_shape *s = x->s;
    const int64_t hd = s->head_dim, slot = x->pos[t] % MINT_KV_PAGE;
    const float *row = x->qkv + t * row_elems(s);

    x->d->isa->rows->angles(w->c, w->s, (float)x->pos[t], x->inv_freq, hd / 2);
    for (int32_t h = 0; h < s->heads; h++, row += hd)
        turn(x, w, cpu_act_at(x->d, x->out, (t * s->heads + h) * hd), row, x->qnorm);
    for (int32_t h = 0; h < s->kv_heads; h++, row += hd) {
        turn(x, w, w->b, row, x->knorm);
        store_key(x, cpu_kv_keys(x->kv, x->layer, x->pages[t], h), slot, w->b);
    }
    for (int32_t h = 0; h < s->kv_heads; h++, row += hd) {
        cpu_to_act(x->d, w->b, row, hd);
        store_value(x, cpu_kv_values(x->kv, x->layer, x->pages[t], h), slot, w->b);
    }
}

static void forward(void *ctx, int64_t item, int thread)
{
    const struct qkv *x = ctx;
    const struct work w = work_of(x, thread);
    const int64_t end = MINT_MIN(x->T, (item + 1) * x->grain);

    for (int64_t t = item * x->grain; t < end; t++)
        forward_row(x, &w, t);
}

/* A page that is begun loses the values of its former life: masked probabilities are 0, and 0
 * times an old NaN would not be. (Masked scores are replaced, so old keys are harmless.) */
static void clear_new_pages(const struct qkv *x)
{
    for (int64_t t = 0; t < x->T; t++)
        if (x->pos[t] % MINT_KV_PAGE == 0)
            for (int32_t h = 0; h < x->s->kv_heads; h++)
                memset(cpu_kv_values(x->kv, x->layer, x->pages[t], h), 0,
                       x->kv->value_elems * x->kv->act_bytes);
}

/* Few rows (decoding): one an item; many: eight, so that threads seldom write to one cache line. */
static int64_t grain_of(int64_t T)
{
    return T >= 128 ? 8 : 1;
}

int cpu_qkv(struct mint_dev *d, void *q, struct mint_kv *kv, int32_t layer, const float *qkv,
            const float *qnorm, const float *knorm, float eps, const float *inv_freq,
            const int32_t *pos, const int32_t *pages, const struct mint_attn_shape *s, int64_t T,
            struct mint_err *err)
{
    struct qkv x = {.d = cpu_dev(d),
                    .out = q,
                    .kv = kv,
                    .layer = layer,
                    .qkv = qkv,
                    .qnorm = qnorm,
                    .knorm = knorm,
                    .eps = eps,
                    .inv_freq = inv_freq,
                    .pos = pos,
                    .pages = pages,
                    .s = s,
                    .T = T,
                    .grain = grain_of(T)};

    (void)err;
    clear_new_pages(&x);
    cpu_parallel(x.d, (T + x.grain - 1) / x.grain, forward, &x);
    return 0;
}

/* Through the rotation, then through the norm of the forward's input head. */
static void turn_back(const struct qkv *x, const struct work *w, void *out, const float *dy,
                      const float *head, const float *norm)
{
    const struct cpu_rows *rows = x->d->isa->rows;
    const int64_t hd = x->s->head_dim;

    if (!norm) {
        rows->rotate(out, x->d->base.act_bytes == 2, dy, w->c, w->s, true, hd / 2);
        return;
    }
    rows->rotate(w->a, false, dy, w->c, w->s, true, hd / 2);
    memset(w->b, 0, (size_t)hd * sizeof *w->b);
    rows->rmsnorm_backward(w->b, w->a, head, norm, x->eps, hd);
    cpu_to_act(x->d, out, w->b, hd);
}

static void backward_row(const struct qkv *x, const struct work *w, int64_t t)
{
    const struct mint_attn_shape *s = x->s;
    const int64_t hd = s->head_dim;
    const float *dq = x->dq + t * s->heads * hd, *dk = x->dk + t * s->kv_heads * hd;
    int64_t at = t * row_elems(s);

    x->d->isa->rows->angles(w->c, w->s, (float)x->pos[t], x->inv_freq, hd / 2);
    for (int32_t h = 0; h < s->heads; h++, at += hd)
        turn_back(x, w, cpu_act_at(x->d, x->out, at), dq + h * hd, x->qkv + at, x->qnorm);
    for (int32_t h = 0; h < s->kv_heads; h++, at += hd)
        turn_back(x, w, cpu_act_at(x->d, x->out, at), dk + h * hd, x->qkv + at, x->knorm);
    cpu_to_act(x->d, cpu_act_at(x->d, x->out, at), x->dv + t * s->kv_heads * hd, s->kv_heads * hd);
}

static void backward(void *ctx, int64_t item, int thread)
{
    const struct qkv *x = ctx;
    const struct work w = work_of(x, thread);
    const int64_t end = MINT_MIN(x->T, (item + 1) * x->grain);

    for (int64_t t = item * x->grain; t < end; t++)
        backward_row(x, &w, t);
}

int cpu_qkv_backward(struct mint_dev *d, void *dqkv, const float *dq, const float *dk,
                     const float *dv, const float *qkv, const float *qnorm, const float *knorm,
                     float eps, const float *inv_freq, const int32_t *pos,
                     const struct mint_attn_shape *s, int64_t T, struct mint_err *err)
{
    struct qkv x = {.d = cpu_dev(d),
                    .out = dqkv,
                    .dq = dq,
                    .dk = dk,
                    .dv = dv,
                    .qkv = qkv,
                    .qnorm = qnorm,
                    .knorm = knorm,
                    .eps = eps,
                    .inv_freq = inv_freq,
                    .pos = pos,
                    .s = s,
                    .T = T,
                    .grain = grain_of(T)};

    (void)err;
    cpu_parallel(x.d, (T + x.grain - 1) / x.grain, backward, &x);
    return 0;
}

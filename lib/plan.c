/* SPDX-License-Identifier: Apache-2.0 */
#include "plan.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "log.h"
#include "mem.h"
#include "slab.h"

/* Whole passes reach about this share of the speed of their products: norms, attention, LoRA and
 * copies take the rest. */
#define SHARE 0.8
/* And steps of training about this: the gradients of LoRA, the loss and Adam come to it. Small
 * models reach less, large ones more. */
#define TRAIN_SHARE 0.6
/* A measurement goes on for so long. */
#define SECONDS 0.1
/* Weights that one row reads come from memory, not from a cache: so many bytes of them in turn. */
#define TURN_BYTES 384e6
#define MANY_ROWS  512
/* Draws of so many rows are measured at most: logits of more would be memory for nothing. */
#define DRAW_ROWS 32

/* Products of matrices [ffn, hidden] in turn. */
struct bench {
    struct mint_dev *dev;
    int64_t N, K;
    struct mint_weight **w;
    int64_t nw;
    void *x;
    float *y;
};

static double layer_weights(const struct mint_model_config *c)
{
    double n = 0;
    for (int i = 0; i < MINT_MOD_LAYER_N; i++)
        n += (double)mint_module_out(c, (enum mint_module)i) *
             (double)mint_module_in(c, (enum mint_module)i);
    return n;
}

static double head_weights(const struct mint_model_config *c)
{
    return (double)c->vocab * (double)c->hidden;
}

double mint_plan_weight_bytes(const struct mint_model_config *c, size_t act_bytes)
{
    double n = c->layers * layer_weights(c) + (c->tied ? 1 : 2) * head_weights(c);
    return n * (double)act_bytes;
}

/* Seconds of a pass of rows rows through one of the weights. */
static int time_products(struct bench *b, int64_t rows, double *seconds, struct mint_err *err)
{
    const struct mint_ops *ops = b->dev->ops;
    double start = 0;
    int64_t n = -b->nw; /* a warm-up before the clock starts */
    float sync;
    for (;; n++) {
        if (n >= 0 && n % b->nw == 0) {
            MINT_TRY(ops->download(b->dev, &sync, b->y, sizeof sync, err));
            double now = mint_now();
            if (n == 0)
                start = now;
            else if (now - start > SECONDS)
                break;
        }
        MINT_TRY(ops->linear(b->dev, b->y, b->N, b->x, b->w[(n + b->nw) % b->nw], NULL, NULL, NULL,
                             rows, err));
    }
    *seconds = (mint_now() - start) / (double)n;
    return 0;
}

static void bench_close(struct bench *b)
{
    for (int64_t i = 0; i < b->nw; i++)
        b->dev->ops->weight_free(b->dev, b->w[i]);
    b->dev->ops->free(b->dev, b->x);
    b->dev->ops->free(b->dev, b->y);
    free(b->w);
    *b = (struct bench){0};
}

static int bench_open(struct bench *b, const struct mint_model_config *c, int64_t nw, int64_t rows,
                      const uint16_t *values, bool packed, struct mint_err *err)
{
    b->N = c->ffn;
    b->K = c->hidden;
    b->w = mint_xcalloc((size_t)nw, sizeof *b->w);
    for (; b->nw < nw; b->nw++)
        MINT_TRY(b->dev->ops->weight_new(b->dev, &b->w[b->nw], values, MINT_BF16, b->N, b->K,
                                         !packed, packed, err));
    b->x = b->dev->ops->alloc(b->dev, (size_t)(rows * b->K) * b->dev->act_bytes, err);
    b->y = b->dev->ops->alloc(b->dev, (size_t)(rows * b->N) * sizeof(float), err);
    return b->x && b->y ? 0 : -1;
}

static int time_draws(struct mint_dev *dev, const struct mint_model_config *c, int64_t rows,
                      double *seconds, struct mint_err *err)
{
    const struct mint_ops *ops = dev->ops;
    struct mint_draw *draws = mint_xcalloc((size_t)rows, sizeof *draws);
    struct mint_drawn *drawn = mint_xcalloc((size_t)rows, sizeof *drawn);
    float *logits = ops->alloc(dev, (size_t)rows * (size_t)c->vocab * sizeof *logits, err);
    int rc = logits ? 0 : -1, n = 0;
    for (int64_t i = 0; i < rows; i++)
        draws[i] = (struct mint_draw){.temperature = 1, .top_p = 1, .u = 0.5f};
    double start = mint_now();
    for (; rc == 0 && mint_now() - start < SECONDS / 2; n++)
        rc = ops->sample(dev, drawn, logits, c->vocab, draws, rows, c->vocab, err);
    *seconds = (mint_now() - start) / (double)(n * rows);
    ops->free(dev, logits);
    free(draws);
    free(drawn);
    return rc;
}

static int measure_few(struct mint_plan_speed *s, struct bench *b, int64_t slots,
                       struct mint_err *err)
{
    double size = (double)b->N * (double)b->K, one, all;
    MINT_TRY(time_products(b, 1, &one, err));
    MINT_TRY(time_products(b, MINT_MIN(slots, (int64_t)MANY_ROWS), &all, err));
    s->read = size * (double)b->dev->act_bytes / one;
    s->decode = all / size * MINT_MAX((double)slots / MANY_ROWS, 1.0);
    return 0;
}

/* Between 0.5 and 1, of both signs. */
static uint16_t *make_values(size_t n)
{
    uint16_t *v = mint_xcalloc(n, sizeof *v);
    for (size_t i = 0; i < n; i++)
        v[i] = (uint16_t)(0x3f00 | (i * 2654435761U >> 7 & 0x80ff));
    return v;
}

int mint_plan_measure(struct mint_plan_speed *s, struct mint_dev *dev,
                      const struct mint_model_config *c, int64_t slots, struct mint_err *err)
{
    double size = (double)c->ffn * (double)c->hidden, one;
    double turn = MINT_MIN(mint_plan_weight_bytes(c, dev->act_bytes), TURN_BYTES);
    int64_t n = MINT_MAX((int64_t)(turn / (size * (double)dev->act_bytes)), (int64_t)1);
    uint16_t *values = make_values((size_t)size);
    struct bench many = {.dev = dev}, few = {.dev = dev};
    *s = (struct mint_plan_speed){0};
    int rc = bench_open(&many, c, 1, MANY_ROWS, values, true, err);
    if (rc == 0)
        rc = time_products(&many, MANY_ROWS, &one, err);
    if (rc == 0)
        s->product = 2 * size * MANY_ROWS / one;
    if (rc == 0)
        rc = bench_open(&few, c, n, MINT_MIN(slots, (int64_t)MANY_ROWS), values, true, err);
    if (rc == 0)
        rc = measure_few(s, &few, slots, err);
    if (rc == 0)
        rc = time_draws(dev, c, MINT_MIN(slots, (int64_t)DRAW_ROWS), &s->draw, err);
    bench_close(&many);
    bench_close(&few);
    free(values);
    return rc;
}

/* A linear map with LoRA, forward and backward: its weights and buffers. */
struct map {
    struct mint_weight *w, *a, *b;
    void *x, *dy, *u, *dua;
    float *y, *du, *dx;
};

static struct mint_slab_part *list_map(struct map *m, int64_t N, int64_t K, int64_t r,
                                       struct mint_slab_part parts[7])
{
    struct mint_slab_part all[7] = {
        {&m->x, K, MINT_SLAB_ACT},          {&m->dy, N, MINT_SLAB_ACT},
        {&m->u, r, MINT_SLAB_ACT},          {&m->dua, r, MINT_SLAB_ACT},
        {(void **)&m->y, N, MINT_SLAB_F32}, {(void **)&m->du, r, MINT_SLAB_F32},
        {(void **)&m->dx, K, MINT_SLAB_F32}};
    for (size_t i = 0; i < 7; i++)
        parts[i] = all[i];
    return parts;
}

/* Once through it, as forward.h and backward.h go, but for the gradients of LoRA itself. */
static int through_map(struct mint_dev *dev, struct map *m, int64_t N, int64_t r,
                       struct mint_err *err)
{
    const struct mint_ops *ops = dev->ops;
    struct mint_lora l = {m->a, m->b, r, 1};
    int64_t T = MANY_ROWS;
    MINT_TRY(ops->linear(dev, m->y, N, m->x, m->w, NULL, &l, m->u, T, err));
    MINT_TRY(ops->cast(dev, m->dy, m->y, T * N, err));
    MINT_TRY(ops->lora_du(dev, m->du, m->dy, N, &l, T, err));
    MINT_TRY(ops->cast(dev, m->dua, m->du, T * r, err));
    return ops->linear_dx(dev, m->dx, false, m->dy, N, m->w, &l, m->dua, T, err);
}

static int time_map(struct mint_dev *dev, struct map *m, int64_t N, int64_t r, double *seconds,
                    struct mint_err *err)
{
    double start = 0, now = 0;
    float sync;
    int n = -1; /* a warm-up before the clock starts */
    for (; n < 1 || now - start < SECONDS; n++) {
        MINT_TRY(through_map(dev, m, N, r, err));
        MINT_TRY(dev->ops->download(dev, &sync, m->dx, sizeof sync, err));
        now = mint_now();
        if (n < 0)
            start = now;
    }
    *seconds = (now - start) / n;
    return 0;
}

/* Seconds that fresh memory costs a process, a byte. */
static double time_clearing(void)
{
    size_t n = (size_t)64 << 20;
    double start = mint_now();
    char *p = mint_xcalloc(n, 1);
    for (size_t i = 0; i < n; i += 4096)
        ((volatile char *)p)[i] = 1;
    double seconds = mint_now() - start;
    free(p);
    return seconds / (double)n;
}

int mint_plan_measure_train(struct mint_plan_speed *s, struct mint_dev *dev,
                            const struct mint_model_config *c, int64_t rank, struct mint_err *err)
{
    const struct mint_ops *ops = dev->ops;
    int64_t N = c->ffn, K = c->hidden;
    double size = (double)N * (double)K, lora = (double)rank * (double)(N + K), one = 0;
    uint16_t *values = make_values((size_t)MINT_MAX(size, lora));
    struct map m = {0};
    struct mint_slab_part parts[7];
    *s = (struct mint_plan_speed){0};
    int rc = ops->weight_new(dev, &m.w, values, MINT_BF16, N, K, true, false, err);
    if (rc == 0)
        rc = ops->weight_new(dev, &m.a, values, MINT_BF16, rank, K, true, false, err);
    if (rc == 0)
        rc = ops->weight_new(dev, &m.b, values, MINT_BF16, N, rank, true, false, err);
    if (rc == 0)
        rc = mint_slab_alloc(dev, list_map(&m, N, K, rank, parts), 7, MANY_ROWS, err);
    if (rc == 0)
        rc = time_map(dev, &m, N, rank, &one, err);
    if (rc == 0)
        s->product = (4 * size + 4 * lora) * MANY_ROWS / one;
    if (rc == 0 && strcmp(ops->name, "cpu") == 0)
        s->clear = 1 / time_clearing();
    mint_slab_free(dev, list_map(&m, N, K, rank, parts), 7);
    ops->weight_free(dev, m.w);
    ops->weight_free(dev, m.a);
    ops->weight_free(dev, m.b);
    free(values);
    return rc;
}

/* FLOPs of attention for one query and key, over all layers. */
static double attention(const struct mint_model_config *c)
{
    return 4.0 * c->layers * c->heads * c->head_dim;
}

void mint_plan_sample(const struct mint_model_config *c, const struct mint_plan_sampling *in,
                      const struct mint_plan_speed *s, struct mint_plan *out)
{
    double layers = c->layers * layer_weights(c), head = head_weights(c);
    double prompt = in->prompts > 0 ? in->prompt_tokens / in->prompts : 0;
    double each = in->sequences > 0 ? in->tokens / in->sequences : 0;
    double keys = in->tokens * (prompt + each / 2); /* that drawn tokens look at */
    double reading = 2 * layers * in->prompt_tokens + 2 * head * in->prompts +
                     attention(c) * in->prompt_tokens * prompt / 2;
    double kv = 2.0 * c->layers * c->kv_heads * c->head_dim * (double)in->act_bytes;
    *out = (struct mint_plan){.flops =
                                  reading + 2 * (layers + head) * in->tokens + attention(c) * keys};
    if (!s)
        return;
    double together = MINT_MAX(MINT_MIN(in->slots, in->sequences), 1.0);
    out->seconds = reading / (SHARE * s->product) +
                   in->tokens / together * (layers + head) * s->decode / SHARE +
                   keys * kv / s->read + in->tokens * s->draw;
}

/* LoRA weights of a layer, and of the head, at this rank. */
static void lora_weights(const struct mint_model_config *c, const struct mint_adapter_config *a,
                         double *layer, double *head)
{
    *layer = *head = 0;
    for (int i = 0; i < MINT_MOD_LAYER_N; i++) {
        enum mint_module mod = (enum mint_module)i;
        if (i <= MINT_MOD_O ? a->attn : a->mlp)
            *layer += (double)a->rank * (double)(mint_module_out(c, mod) + mint_module_in(c, mod));
    }
    if (a->unembed)
        *head = (double)a->rank * (c->vocab + c->hidden);
}

void mint_plan_train(const struct mint_model_config *c, const struct mint_adapter_config *a,
                     const struct mint_train_work *w, enum mint_recompute again, int others,
                     double bytes, const struct mint_plan_speed *s, struct mint_plan *out)
{
    double layer, head, rows = (double)w->rows, head_rows = (double)w->head_rows;
    lora_weights(c, a, &layer, &head);
    double layers = 2 * rows * c->layers * (layer_weights(c) + layer);
    double logits = 2 * head_rows * (head_weights(c) + head);
    double looks = attention(c) * (double)w->keys;
    out->flops = (layers + logits) * (2 + others) + looks * (3.5 + others);
    /* the gradients of LoRA's own weights */
    out->flops += 2 * rows * c->layers * layer + 2 * head_rows * head;
    if (again == MINT_RECOMPUTE_ALL) {
        /* the last layer is still there, and nobody needs the outputs of the others again */
        double down = 2 * rows * c->layers * (double)c->ffn * (double)c->hidden;
        out->flops += (layers + looks - down) * (c->layers - 1) / c->layers + logits;
    }
    out->seconds = s ? out->flops / (TRAIN_SHARE * s->product) : 0;
    if (s && s->clear > 0)
        out->seconds += bytes / s->clear;
}

void mint_plan_duration(double seconds, char text[32])
{
    static const struct {
        double from, unit;
        const char *name;
    } units[] = {{2 * 86400.0, 86400, "days"}, {5400, 3600, "h"}, {90, 60, "min"}, {0, 1, "s"}};
    size_t i = 0;
    while (seconds < units[i].from)
        i++;
    double n = seconds / units[i].unit;
    snprintf(text, 32, n < 9.95 ? "%.2g %s" : "%.0f %s", n, units[i].name);
}

void mint_plan_say(const struct mint_plan *p, const struct mint_plan_speed *s,
                   const struct mint_err *why)
{
    char time[32];
    if (!s && why->msg[0])
        mint_note("estimate: %.4g TFLOP; no time, as nothing can be measured: %s", p->flops / 1e12,
                  why->msg);
    if (!s)
        return;
    mint_plan_duration(p->seconds, time);
    mint_note("estimate: about %s for %.4g TFLOP, if products of these shapes run at %.0f GFLOP/s, "
              "as they did just now, and nothing else takes the machine",
              time, p->flops / 1e12, s->product / 1e9);
}

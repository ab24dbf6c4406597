/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ops qkv, attention and their backwards: against plain double code on odd shapes, gradients
 * against central differences of that code, and the same bits for a query alone and in any batch,
 * with shared pages and with pages full of NaN from a former life, for 1 and 2 threads and every
 * instruction set.
 */
#include "cpu_test.h"

#include "cpu/cpu_kv.h"

#define PAGE  MINT_KV_PAGE
#define LAYER 1 /* of two */
#define PAGES 48
#define EPS   1e-6f

static const struct shape {
    int32_t heads, kv_heads, head_dim;
    bool norms;
    int lengths[6]; /* ends with 0 */
} shapes[] = {
    {4, 2, 8, true, {1, 64, 65, 5, 131, 0}},
    {1, 1, 2, false, {63, 2, 0}},
    {3, 1, 34, true, {7, 67, 0}},
    {14, 2, 64, false, {33, 0}},
    {32, 1, 4, true, {66, 3, 0}},
    {4, 2, 128, true, {129, 0}},
};

/* The same for the gradients, shorter: each central difference is two forwards of the oracle. */
static const struct shape gradient_shapes[] = {
    {4, 2, 8, true, {1, 65, 5, 130, 0}}, {1, 1, 2, false, {63, 2, 0}}, {3, 1, 34, true, {7, 67, 0}},
    {14, 2, 64, false, {33, 0}},         {32, 1, 4, true, {3, 66, 0}}, {2, 1, 128, true, {70, 0}},
};

static struct mint_attn_shape attn_shape(const struct shape *c)
{
    return (struct mint_attn_shape){c->heads, c->kv_heads, c->head_dim,
                                    1.0f / sqrtf((float)c->head_dim)};
}

/* Sequences from position 0, packed one after the other. Sequence i has pages first[i].. */
struct batch {
    struct mint_attn_shape s;
    int64_t T, n, width;
    int64_t start[8], rows[8];
    int32_t pages[8][8];
    float *inv_freq, *qkv, *qnorm, *knorm;
};

static void batch_new(struct batch *b, const struct shape *c)
{
    const size_t hd = (size_t)c->head_dim;
    int32_t page = 0;
    memset(b, 0, sizeof *b);
    b->s = attn_shape(c);
    b->width = (int64_t)(c->heads + 2 * c->kv_heads) * c->head_dim;
    for (; c->lengths[b->n]; b->n++) {
        b->start[b->n] = b->T;
        b->rows[b->n] = c->lengths[b->n];
        b->T += c->lengths[b->n];
        for (int k = 0; k * PAGE < c->lengths[b->n]; k++)
            b->pages[b->n][k] = 1 + page++ * 7 % 47; /* in no order */
    }
    b->inv_freq = floats(hd / 2);
    for (size_t i = 0; i < hd / 2; i++)
        b->inv_freq[i] = (float)pow(10000.0, -2.0 * (double)i / (double)hd);
    b->qkv = random_floats((size_t)(b->T * b->width), 2.0f);
    b->qnorm = c->norms ? random_floats(hd, 1.5f) : NULL;
    b->knorm = c->norms ? random_floats(hd, 1.5f) : NULL;
}

static void batch_free(struct batch *b)
{
    guarded_free(b->inv_freq);
    guarded_free(b->qkv);
    guarded_free(b->qnorm);
    guarded_free(b->knorm);
}

static struct mint_kv *poisoned_kv(struct mint_dev *d, const struct mint_attn_shape *s)
{
    struct mint_kv *kv;
    struct mint_err err;
    if (cpu_kv_new(d, &kv, 2, PAGES, s, &err) != 0)
        fail_msg("%s", err.msg);
    assert_int_equal(kv->page_bytes, mint_kv_page_bytes(d, 2, s));
    memset(kv->data, 0xff, kv->page_bytes * PAGES);
    return kv;
}

/* One call of both ops: rows at..at+rows-1 of each of n sequences, in the given order. Results go
 * to the sequences' places in out [T, heads*hd] and lse [T, heads]. */
struct call {
    int n;
    int seq[8];
    int64_t at[8], rows[8];
};

struct result {
    void *q, *out;
    float *lse;
    size_t act, f; /* bytes */
};

static struct result result_new(const struct mint_dev *d, const struct batch *b, int64_t T)
{
    struct result r = {.act = (size_t)(T * b->s.heads * b->s.head_dim) * d->act_bytes,
                       .f = (size_t)(T * b->s.heads) * sizeof(float)};
    r.q = guarded(r.act);
    r.out = guarded(r.act);
    r.lse = guarded(r.f);
    return r;
}

static void result_free(struct result *r)
{
    guarded_free(r->q);
    guarded_free(r->out);
    guarded_free(r->lse);
}

static void run_call(struct mint_dev *d, const struct batch *b, struct mint_kv *kv,
                     const struct call *c, struct result *all)
{
    struct mint_seq seqs[8];
    int32_t pos[1024], pages[1024];
    int64_t T = 0;
    float *qkv = floats((size_t)(b->T * b->width));
    for (int i = 0; i < c->n; i++) {
        seqs[i] = (struct mint_seq){T, c->rows[i], c->at[i], b->pages[c->seq[i]]};
        for (int64_t j = 0; j < c->rows[i]; j++, T++) {
            pos[T] = (int32_t)(c->at[i] + j);
            pages[T] = b->pages[c->seq[i]][pos[T] / PAGE];
            memcpy(qkv + T * b->width, b->qkv + (b->start[c->seq[i]] + pos[T]) * b->width,
                   (size_t)b->width * sizeof *qkv);
        }
    }
    struct result r = result_new(d, b, T);
    assert_int_equal(cpu_qkv(d, r.q, kv, LAYER, qkv, b->qnorm, b->knorm, EPS, b->inv_freq, pos,
                             pages, &b->s, T, NULL),
                     0);
    assert_int_equal(cpu_attention(d, r.out, r.lse, r.q, kv, LAYER, &b->s, seqs, c->n, T, NULL), 0);
    check_guards(r.q, r.act);
    check_guards(r.out, r.act);
    check_guards(r.lse, r.f);
    for (int i = 0; i < c->n; i++) {
        const int64_t to = b->start[c->seq[i]] + c->at[i], from = seqs[i].row0, n = seqs[i].rows;
        const size_t row = (size_t)(b->s.heads * b->s.head_dim) * d->act_bytes;
        memcpy((char *)all->q + (size_t)to * row, (char *)r.q + (size_t)from * row,
               (size_t)n * row);
        memcpy((char *)all->out + (size_t)to * row, (char *)r.out + (size_t)from * row,
               (size_t)n * row);
        memcpy(all->lse + to * b->s.heads, r.lse + from * b->s.heads,
               (size_t)(n * b->s.heads) * sizeof *r.lse);
    }
    result_free(&r);
    guarded_free(qkv);
}

/* All sequences whole, in one call. */
static struct result whole(struct mint_dev *d, const struct batch *b, struct mint_kv *kv)
{
    struct result r = result_new(d, b, b->T);
    struct call c = {.n = (int)b->n};
    for (int i = 0; i < c.n; i++) {
        c.seq[i] = i;
        c.rows[i] = b->rows[i];
    }
    run_call(d, b, kv, &c, &r);
    return r;
}

/* --- the oracle, in double. round: through act, as the ops do; NULL device: nothing is rounded. */

static double rounded(const struct mint_dev *d, double x)
{
    return d ? (double)round_act(d, (float)x) : x;
}

static void ref_head(const struct mint_dev *d, const struct batch *b, double *out, const double *x,
                     const float *norm, int64_t pos)
{
    const int64_t hd = b->s.head_dim, half = hd / 2;
    double y[256], sum = 0.0;
    for (int64_t i = 0; i < hd; i++)
        sum += x[i] * x[i];
    for (int64_t i = 0; i < hd; i++)
        y[i] = norm ? x[i] / sqrt(sum / (double)hd + (double)EPS) * (double)norm[i] : x[i];
    for (int64_t i = 0; i < half; i++) {
        const double a = (double)((float)pos * b->inv_freq[i]), c = cos(a), s = sin(a);
        out[i] = rounded(d, y[i] * c - y[half + i] * s);
        out[half + i] = rounded(d, y[half + i] * c + y[i] * s);
    }
}

/* out [T, heads*hd], lse [T, heads] (or NULL) of qkv [T, width]. */
static void ref_forward(const struct mint_dev *d, const struct batch *b, const double *qkv,
                        double *out, double *lse)
{
    const int64_t H = b->s.heads, K = b->s.kv_heads, hd = b->s.head_dim;
    double *q = mint_xcalloc((size_t)(b->T * H * hd), sizeof *q);
    double *k = mint_xcalloc((size_t)(b->T * K * hd), sizeof *k);
    for (int64_t i = 0; i < b->n; i++)
        for (int64_t p = 0; p < b->rows[i]; p++) {
            const int64_t t = b->start[i] + p;
            for (int64_t h = 0; h < H; h++)
                ref_head(d, b, q + (t * H + h) * hd, qkv + t * b->width + h * hd, b->qnorm, p);
            for (int64_t h = 0; h < K; h++)
                ref_head(d, b, k + (t * K + h) * hd, qkv + t * b->width + (H + h) * hd, b->knorm,
                         p);
        }
    for (int64_t i = 0; i < b->n; i++)
        for (int64_t p = 0; p < b->rows[i]; p++)
            for (int64_t h = 0; h < H; h++) {
                const int64_t t = b->start[i] + p, g = h / (H / K);
                double s[512], top = -INFINITY, sum = 0.0;
                for (int64_t j = 0; j <= p; j++) {
                    s[j] = 0.0;
                    for (int64_t x = 0; x < hd; x++)
                        s[j] += q[(t * H + h) * hd + x] * k[((b->start[i] + j) * K + g) * hd + x];
                    s[j] *= (double)b->s.scale;
                    top = fmax(top, s[j]);
                }
                for (int64_t j = 0; j <= p; j++)
                    sum += s[j] = exp(s[j] - top);
                for (int64_t x = 0; x < hd; x++) {
                    double o = 0.0;
                    for (int64_t j = 0; j <= p; j++)
                        o += s[j] *
                             rounded(d, qkv[(b->start[i] + j) * b->width + (H + K + g) * hd + x]);
                    out[(t * H + h) * hd + x] = o / sum;
                }
                if (lse)
                    lse[t * H + h] = top + log(sum);
            }
    free(q);
    free(k);
}

static double *widened(const float *x, int64_t n)
{
    double *y = mint_xcalloc((size_t)n, sizeof *y);
    for (int64_t i = 0; i < n; i++)
        y[i] = (double)x[i];
    return y;
}

static void check_forward(struct mint_dev *d, const struct batch *b, const struct result *r)
{
    const int64_t H = b->s.heads, n = b->T * H * b->s.head_dim;
    const bool bf16 = d->act_bytes == 2;
    double *qkv = widened(b->qkv, b->T * b->width);
    double *out = mint_xcalloc((size_t)n, sizeof *out), *lse = mint_xcalloc((size_t)n, sizeof *lse);
    ref_forward(d, b, qkv, out, lse);
    for (int64_t i = 0; i < n; i++)
        check_close("out", (double)act_get(d, r->out, i), out[i], bf16 ? 0.02 : 5e-6);
    for (int64_t i = 0; i < b->T * H; i++)
        check_close("lse", (double)r->lse[i], lse[i], bf16 ? 0.02 : 1e-5);
    free(qkv);
    free(out);
    free(lse);
}

/* --- forward */

struct expected {
    const struct batch *b;
    bool have;
    struct result r;
};

static void forward_on(struct mint_dev *d, void *ctx)
{
    struct expected *e = ctx;
    struct mint_kv *kv = poisoned_kv(d, &e->b->s);
    struct result r = whole(d, e->b, kv);
    if (!e->have) {
        check_forward(d, e->b, &r);
        e->r = r;
        e->have = true;
    } else {
        check_same("q", r.q, e->r.q, r.act);
        check_same("out", r.out, e->r.out, r.act);
        check_same("lse", r.lse, e->r.lse, r.f);
        result_free(&r);
    }
    cpu_kv_free(d, kv);
}

static void forward_is_right_and_the_same_everywhere(void **unused)
{
    (void)unused;
    for (size_t i = 0; i < MINT_ARRAY_LEN(shapes); i++)
        for (int p = 0; p < 2; p++) {
            struct batch b;
            batch_new(&b, &shapes[i]);
            struct expected e = {.b = &b};
            on_all_devices((enum mint_precision)p, forward_on, &e);
            result_free(&e.r);
            batch_free(&b);
        }
}

/* Rows one at a time and in uneven pieces, sequences side by side in changing order. */
static void decode(struct mint_dev *d, const struct batch *b, struct mint_kv *kv, struct result *r,
                   int64_t step)
{
    int64_t at[8] = {0};
    for (bool more = true, turn = false; more; turn = !turn) {
        struct call c = {0};
        more = false;
        for (int i = 0; i < b->n; i++) {
            const int s = turn ? (int)b->n - 1 - i : i;
            if (at[s] == b->rows[s])
                continue;
            c.seq[c.n] = s;
            c.at[c.n] = at[s];
            c.rows[c.n] = MINT_MIN(step + (s + at[s]) % 2, b->rows[s] - at[s]);
            at[s] += c.rows[c.n++];
            more = true;
        }
        if (more)
            run_call(d, b, kv, &c, r);
    }
}

static void a_query_has_the_same_bits_alone(void **unused)
{
    (void)unused;
    for (size_t i = 0; i < MINT_ARRAY_LEN(shapes); i++)
        for (int p = 0; p < 2; p++)
            for (int step = 1; step < 40; step += 36) {
                struct mint_dev *d =
                    open_device(usable_isa(0), (enum mint_precision)p, 1 + step % 2);
                struct batch b;
                batch_new(&b, &shapes[i]);
                struct mint_kv *kv = poisoned_kv(d, &b.s), *kv2 = poisoned_kv(d, &b.s);
                struct result r = whole(d, &b, kv), r2 = result_new(d, &b, b.T);
                decode(d, &b, kv2, &r2, step == 1 ? 1 : step);
                check_same("q", r.q, r2.q, r.act);
                check_same("out", r.out, r2.out, r.act);
                check_same("lse", r.lse, r2.lse, r.f);
                result_free(&r);
                result_free(&r2);
                cpu_kv_free(d, kv);
                cpu_kv_free(d, kv2);
                batch_free(&b);
                cpu_close(d);
            }
}

/* Five sequences of 200 rows that begin alike: decoded over shared pages, the last one copied. */
static void shared_pages_change_nothing(void **unused)
{
    static const struct shape c = {4, 2, 16, true, {200, 200, 200, 200, 200, 0}};
    const int64_t prompt = 140;
    (void)unused;
    for (int p = 0; p < 2; p++) {
        struct mint_dev *d = open_device(usable_isa(0), (enum mint_precision)p, 2);
        struct batch b;
        batch_new(&b, &c);
        for (int i = 1; i < 5; i++)
            memcpy(b.qkv + b.start[i] * b.width, b.qkv, (size_t)(prompt * b.width) * sizeof *b.qkv);
        struct mint_kv *kv = poisoned_kv(d, &b.s);
        struct result r = whole(d, &b, kv), r2 = result_new(d, &b, b.T);
        cpu_kv_free(d, kv);

        kv = poisoned_kv(d, &b.s);
        struct call first = {.n = 1, .rows = {prompt}};
        run_call(d, &b, kv, &first, &r2);
        for (int i = 1; i < 5; i++) {
            b.pages[i][0] = b.pages[0][0];
            b.pages[i][1] = b.pages[0][1];
            assert_int_equal(cpu_kv_copy_page(d, kv, b.pages[i][2], b.pages[0][2], NULL), 0);
        }
        for (int64_t t = prompt; t < 200; t++) {
            struct call all = {.n = t % 3 ? 5 : 3};
            for (int i = 0; i < all.n; i++) {
                all.seq[i] = i;
                all.at[i] = t;
                all.rows[i] = 1;
            }
            run_call(d, &b, kv, &all, &r2);
            struct call rest = {.n = 2, .seq = {4, 3}, .at = {t, t}, .rows = {1, 1}};
            if (all.n == 3)
                run_call(d, &b, kv, &rest, &r2);
        }
        for (int i = 0; i < 5; i++) {
            const int64_t t = b.start[i] + (i ? prompt : 0), n = b.start[i] + 200 - t;
            const size_t row = (size_t)(b.s.heads * b.s.head_dim) * d->act_bytes;
            check_same("out", (char *)r.out + (size_t)t * row, (char *)r2.out + (size_t)t * row,
                       (size_t)n * row);
            check_same("lse", r.lse + t * b.s.heads, r2.lse + t * b.s.heads,
                       (size_t)(n * b.s.heads) * sizeof(float));
        }
        result_free(&r);
        result_free(&r2);
        cpu_kv_free(d, kv);
        batch_free(&b);
        cpu_close(d);
    }
}

static void nothing_to_do(void **unused)
{
    struct mint_dev *d = open_device(usable_isa(0), MINT_PRECISION_BF16, 2);
    struct mint_attn_shape s = {2, 1, 8, 1.0f}, odd = {2, 1, 7, 1.0f};
    struct mint_kv *kv = poisoned_kv(d, &s), *none = NULL;
    struct mint_seq empty = {0, 0, 0, NULL};
    struct mint_err err;
    char nothing[8];
    (void)unused;
    assert_int_equal(cpu_qkv(d, nothing, kv, 0, (float *)(void *)nothing, NULL, NULL, EPS, NULL,
                             NULL, NULL, &s, 0, NULL),
                     0);
    assert_int_equal(cpu_attention(d, nothing, NULL, nothing, kv, 0, &s, NULL, 0, 0, NULL), 0);
    assert_int_equal(cpu_attention(d, nothing, NULL, nothing, kv, 0, &s, &empty, 1, 0, NULL), 0);
    assert_int_equal(cpu_kv_new(d, &none, 1, 1, &odd, &err), -1);
    assert_string_equal(err.msg, "head_dim is 7; it must be even");
    assert_null(none);
    cpu_kv_free(d, kv);
    cpu_kv_free(d, NULL);
    cpu_close(d);
}

/* --- backward */

struct grads {
    float *dq, *dk, *dv;
    void *dqkv;
    size_t n, q, k; /* floats */
};

static struct grads backward(struct mint_dev *d, const struct batch *b, struct mint_kv *kv,
                             const struct result *r, const float *dout)
{
    const int64_t hd = b->s.head_dim;
    struct grads g = {.n = (size_t)(b->T * b->width),
                      .q = (size_t)(b->T * b->s.heads * hd),
                      .k = (size_t)(b->T * b->s.kv_heads * hd)};
    struct mint_seq seqs[8];
    int32_t pos[1024];
    poison_scratch(d);
    g.dq = floats(g.q);
    g.dk = floats(g.k);
    g.dv = floats(g.k);
    g.dqkv = guarded(g.n * d->act_bytes);
    for (int64_t i = 0; i < b->n; i++) {
        seqs[i] = (struct mint_seq){b->start[i], b->rows[i], 0, b->pages[i]};
        for (int64_t j = 0; j < b->rows[i]; j++)
            pos[b->start[i] + j] = (int32_t)j;
    }
    assert_int_equal(cpu_attention_backward(d, g.dq, g.dk, g.dv, dout, r->out, r->lse, r->q, kv,
                                            LAYER, &b->s, seqs, b->n, b->T, NULL),
                     0);
    assert_int_equal(cpu_qkv_backward(d, g.dqkv, g.dq, g.dk, g.dv, b->qkv, b->qnorm, b->knorm, EPS,
                                      b->inv_freq, pos, &b->s, b->T, NULL),
                     0);
    check_guards(g.dq, g.q * 4);
    check_guards(g.dk, g.k * 4);
    check_guards(g.dv, g.k * 4);
    check_guards(g.dqkv, g.n * d->act_bytes);
    return g;
}

static void grads_free(struct grads *g)
{
    guarded_free(g->dq);
    guarded_free(g->dk);
    guarded_free(g->dv);
    guarded_free(g->dqkv);
}

static double ref_loss(const struct batch *b, const double *qkv, const float *dout, double *out)
{
    double sum = 0.0;
    ref_forward(NULL, b, qkv, out, NULL);
    for (int64_t i = 0; i < b->T * b->s.heads * b->s.head_dim; i++)
        sum += out[i] * (double)dout[i];
    return sum;
}

struct gradient_case {
    const struct batch *b;
    const float *dout;
    bool have;
    struct grads g;
    double *numeric; /* at every stride-th element */
    size_t stride;
};

static void central_differences(struct gradient_case *c)
{
    const size_t n = (size_t)(c->b->T * c->b->width);
    const double h = 1e-5;
    double *x = widened(c->b->qkv, (int64_t)n), *out = mint_xcalloc(n, sizeof *out);
    c->numeric = mint_xcalloc(n, sizeof *c->numeric);
    for (size_t i = 0; i < n; i += c->stride) {
        const double old = x[i];
        x[i] = old + h;
        c->numeric[i] = ref_loss(c->b, x, c->dout, out);
        x[i] = old - h;
        c->numeric[i] = (c->numeric[i] - ref_loss(c->b, x, c->dout, out)) / (2 * h);
        x[i] = old;
    }
    free(x);
    free(out);
}

/* bf16: the error over all checked elements, since single small ones drown in the rounding of large
 * terms. */
static void check_gradient(const struct mint_dev *d, const struct gradient_case *c)
{
    double error = 0.0, size = 0.0;
    for (size_t i = 0; i < c->g.n; i += c->stride) {
        const double got = (double)act_get(d, c->g.dqkv, (int64_t)i), want = c->numeric[i];
        if (d->act_bytes == 4)
            check_close("dqkv", got, want, 1e-4 + 1e-4 * fabs(want));
        error += (got - want) * (got - want);
        size += want * want;
    }
    if (!(error <= size * (d->act_bytes == 4 ? 1e-9 : 4e-4)))
        fail_msg("dqkv: relative error %g", sqrt(error / size));
}

static void gradient_on(struct mint_dev *d, void *ctx)
{
    struct gradient_case *c = ctx;
    struct mint_kv *kv = poisoned_kv(d, &c->b->s);
    struct result r = whole(d, c->b, kv);
    struct grads g = backward(d, c->b, kv, &r, c->dout);
    if (!c->have) {
        c->g = g;
        c->have = true;
        check_gradient(d, c);
    } else {
        check_same("dq", g.dq, c->g.dq, g.q * 4);
        check_same("dk", g.dk, c->g.dk, g.k * 4);
        check_same("dv", g.dv, c->g.dv, g.k * 4);
        check_same("dqkv", g.dqkv, c->g.dqkv, g.n * d->act_bytes);
        grads_free(&g);
    }
    result_free(&r);
    cpu_kv_free(d, kv);
}

static void gradients_are_right_and_the_same_everywhere(void **unused)
{
    (void)unused;
    for (size_t i = 0; i < MINT_ARRAY_LEN(gradient_shapes); i++) {
        struct batch b;
        batch_new(&b, &gradient_shapes[i]);
        float *dout = random_floats((size_t)(b.T * b.s.heads * b.s.head_dim), 1.0f);
        struct gradient_case c = {.b = &b, .dout = dout};
        c.stride = (size_t)(b.T * b.width) / 30 + 1;
        central_differences(&c);
        for (int p = 0; p < 2; p++) {
            c.have = false;
            on_all_devices((enum mint_precision)p, gradient_on, &c);
            grads_free(&c.g);
        }
        free(c.numeric);
        guarded_free(dout);
        batch_free(&b);
    }
}

/* A sequence's gradients do not change with what else is in the batch. */
static void gradients_do_not_see_neighbours(void **unused)
{
    static const struct shape both = {4, 2, 8, true, {37, 70, 0}}, one = {4, 2, 8, true, {70, 0}};
    (void)unused;
    for (int p = 0; p < 2; p++) {
        struct mint_dev *d = open_device(usable_isa(0), (enum mint_precision)p, 2);
        struct batch b, c;
        batch_new(&b, &both);
        batch_new(&c, &one);
        const size_t per = (size_t)(b.s.heads * b.s.head_dim);
        float *dout = random_floats((size_t)b.T * per, 1.0f);
        memcpy(c.qkv, b.qkv + b.start[1] * b.width, (size_t)(70 * b.width) * sizeof(float));
        memcpy(c.qnorm, b.qnorm, 8 * sizeof(float));
        memcpy(c.knorm, b.knorm, 8 * sizeof(float));
        struct mint_kv *kv = poisoned_kv(d, &b.s), *kv2 = poisoned_kv(d, &b.s);
        struct result r = whole(d, &b, kv), r2 = whole(d, &c, kv2);
        struct grads g = backward(d, &b, kv, &r, dout);
        struct grads g2 = backward(d, &c, kv2, &r2, dout + (size_t)b.start[1] * per);
        check_same("dqkv", (char *)g.dqkv + (size_t)(b.start[1] * b.width) * d->act_bytes, g2.dqkv,
                   g2.n * d->act_bytes);
        grads_free(&g);
        grads_free(&g2);
        result_free(&r);
        result_free(&r2);
        guarded_free(dout);
        cpu_kv_free(d, kv);
        cpu_kv_free(d, kv2);
        batch_free(&b);
        batch_free(&c);
        cpu_close(d);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(forward_is_right_and_the_same_everywhere),
        cmocka_unit_test(a_query_has_the_same_bits_alone),
        cmocka_unit_test(shared_pages_change_nothing),
        cmocka_unit_test(nothing_to_do),
        cmocka_unit_test(gradients_are_right_and_the_same_everywhere),
        cmocka_unit_test(gradients_do_not_see_neighbours),
    };
    return cmocka_run_group_tests_name("attention", tests, NULL, NULL);
}

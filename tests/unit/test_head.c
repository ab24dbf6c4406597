/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The output head: log-probabilities, entropy and their gradients against plain double code, with
 * and without LoRA, vocabularies around the chunk size; rows that do not see each other; the same
 * bits from op linear + sample as from logprob, for every instruction set and 1 and 2 threads.
 */
#include "cpu_test.h"

#include "cpu/cpu_head.h"

struct head_case {
    int64_t T, V, H, r; /* r 0: no LoRA */
    float scale;
    const char *name;
};

static const struct head_case cases[] = {
    {1, 1, 2, 0, 0, "one token"},
    {3, 7, 5, 0, 0, "tiny, odd"},
    {13, 1023, 16, 3, 2.0f, "a chunk less one"},
    {5, 1024, 33, 0, 0, "a chunk"},
    {14, 1025, 34, 16, 0.5f, "a chunk and one"},
    {HEAD_ROWS + 1, 1027, 24, 33, 2.0f, "two row blocks, two panels of rank"},
    {HEAD_ROWS * 4 + 7, 130, 8, 4, 1.5f, "more rows than are at work at once"},
    {2, 9 * HEAD_CHUNK + 5, 12, 2, 1.0f, "more chunks than are at work at once"},
    {7, 300, 512, 8, 1.0f, "padded rows"},
};

/* Inputs as exact floats of the act type, with the device's copies of them. */
struct head {
    struct head_case c;
    float *w, *a, *b;
    float *h;
    int32_t *target;
    float *dlp, *dent;
};

static float *act_floats(bool bf16, size_t n, float scale)
{
    float *p = random_floats(n, scale);
    for (size_t i = 0; bf16 && i < n; i++)
        p[i] = cpu_bf16_to_f32(cpu_f32_to_bf16(p[i]));
    return p;
}

static struct head head_new(const struct head_case *c, bool bf16)
{
    struct head x = {.c = *c};
    x.w = act_floats(bf16, (size_t)(c->V * c->H), 3.0f / sqrtf((float)c->H));
    x.a = act_floats(bf16, (size_t)(c->r * c->H), 1.0f / sqrtf((float)c->H));
    x.b = act_floats(bf16, (size_t)(c->V * c->r), 1.0f);
    x.h = act_floats(bf16, (size_t)(c->T * c->H), 2.0f);
    x.dlp = random_floats((size_t)c->T, 1.0f);
    x.dent = random_floats((size_t)c->T, 0.5f);
    x.target = mint_xcalloc((size_t)c->T, sizeof *x.target);
    for (int64_t t = 0; t < c->T; t++)
        x.target[t] = t == 0 ? (int32_t)c->V - 1 : (int32_t)(random_bits() % (uint64_t)c->V);
    return x;
}

static void head_free(struct head *x)
{
    guarded_free(x->w);
    guarded_free(x->a);
    guarded_free(x->b);
    guarded_free(x->h);
    guarded_free(x->dlp);
    guarded_free(x->dent);
    free(x->target);
}

struct on_device {
    struct mint_weight *w, *a, *b;
    struct mint_lora lora;
    void *h;
};

static struct on_device upload(struct mint_dev *d, const struct head *x, bool packed)
{
    const struct head_case *c = &x->c;
    struct on_device o = {0};
    assert_int_equal(cpu_weight_new(d, &o.w, x->w, MINT_F32, c->V, c->H, false, packed, NULL), 0);
    if (c->r) {
        assert_int_equal(cpu_weight_new(d, &o.a, x->a, MINT_F32, c->r, c->H, false, false, NULL),
                         0);
        assert_int_equal(cpu_weight_new(d, &o.b, x->b, MINT_F32, c->V, c->r, false, packed, NULL),
                         0);
    }
    o.lora = (struct mint_lora){o.a, o.b, c->r, c->scale};
    o.h = guarded((size_t)(c->T * c->H) * d->act_bytes);
    for (int64_t i = 0; i < c->T * c->H; i++)
        act_put(d, o.h, i, x->h[i]);
    return o;
}

static void unload(struct mint_dev *d, struct on_device *o)
{
    cpu_weight_free(d, o->w);
    cpu_weight_free(d, o->a);
    cpu_weight_free(d, o->b);
    guarded_free(o->h);
}

/* --- the oracle. u is rounded to act as in the ops when bf16. */

static void ref_logits(const struct head *x, bool bf16, const double *h, double *y)
{
    const struct head_case *c = &x->c;
    double u[64] = {0};
    for (int64_t j = 0; j < c->r; j++) {
        for (int64_t k = 0; k < c->H; k++)
            u[j] += (double)x->a[j * c->H + k] * h[k];
        if (bf16)
            u[j] = (double)cpu_bf16_to_f32(cpu_f32_to_bf16((float)u[j]));
    }
    for (int64_t v = 0; v < c->V; v++) {
        double lora = 0.0;
        y[v] = 0.0;
        for (int64_t k = 0; k < c->H; k++)
            y[v] += (double)x->w[v * c->H + k] * h[k];
        for (int64_t j = 0; j < c->r; j++)
            lora += (double)x->b[v * c->r + j] * u[j];
        y[v] += (double)c->scale * lora;
    }
}

static double ref_lse(const double *y, int64_t V)
{
    double top = -INFINITY, sum = 0.0;
    for (int64_t v = 0; v < V; v++)
        top = fmax(top, y[v]);
    for (int64_t v = 0; v < V; v++)
        sum += exp(y[v] - top);
    return top + log(sum);
}

static double ref_entropy(const double *y, double z, int64_t V)
{
    double e = z;
    for (int64_t v = 0; v < V; v++)
        e -= exp(y[v] - z) * y[v];
    return e;
}

static void widen(double *to, const float *from, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        to[i] = (double)from[i];
}

static void check_logprobs(const struct head *x, bool bf16, const float *lp, const float *entropy,
                           const float *lse)
{
    const struct head_case *c = &x->c;
    double *y = mint_xcalloc((size_t)c->V, sizeof *y), *h = mint_xcalloc((size_t)c->H, sizeof *h);
    for (int64_t t = 0; t < c->T; t += 1 + c->T / 16) {
        widen(h, x->h + t * c->H, c->H);
        ref_logits(x, bf16, h, y);
        const double z = ref_lse(y, c->V);
        const double e = ref_entropy(y, z, c->V);
        check_close("lse", (double)lse[t], z, bf16 && c->r ? 2e-2 : 2e-5);
        check_close("lp", (double)lp[t], y[x->target[t]] - z, bf16 && c->r ? 4e-2 : 2e-5);
        check_close("entropy", (double)entropy[t], e, bf16 && c->r ? 4e-2 : 4e-5);
    }
    free(y);
    free(h);
}

/* --- forward */

struct forward_case {
    const struct head *x;
    float *lp, *entropy, *lse;
};

static void forward_on(struct mint_dev *d, void *ctx)
{
    struct forward_case *f = ctx;
    const struct head *x = f->x;
    const size_t n = (size_t)x->c.T, bytes = n * sizeof(float);
    struct on_device o = upload(d, x, d->threads == 2);
    float *lp = floats(n), *entropy = floats(n), *lse = floats(n), *lp2 = floats(n);
    const struct mint_lora *lora = x->c.r ? &o.lora : NULL;
    assert_int_equal(
        cpu_logprob(d, lp, entropy, lse, NULL, 0, o.h, o.w, lora, x->target, x->c.T, NULL), 0);
    assert_int_equal(
        cpu_logprob(d, lp2, NULL, NULL, NULL, 0, o.h, o.w, lora, x->target, x->c.T, NULL), 0);
    check_guards(lp, bytes);
    check_guards(entropy, bytes);
    check_guards(lse, bytes);
    check_same("lp without entropy", lp, lp2, bytes);
    guarded_free(lp2);
    unload(d, &o);
    if (!f->lp) {
        check_logprobs(x, d->act_bytes == 2, lp, entropy, lse);
        *f = (struct forward_case){x, lp, entropy, lse};
        return;
    }
    check_same("lp", lp, f->lp, bytes);
    check_same("entropy", entropy, f->entropy, bytes);
    check_same("lse", lse, f->lse, bytes);
    guarded_free(lp);
    guarded_free(entropy);
    guarded_free(lse);
}

static void logprobs_are_right_and_the_same_everywhere(void **unused)
{
    (void)unused;
    for (size_t i = 0; i < MINT_ARRAY_LEN(cases); i++)
        for (int p = 0; p < 2; p++) {
            struct head x = head_new(&cases[i], p == 0);
            struct forward_case f = {.x = &x};
            on_all_devices((enum mint_precision)p, forward_on, &f);
            guarded_free(f.lp);
            guarded_free(f.entropy);
            guarded_free(f.lse);
            head_free(&x);
        }
}

/* What op logprob says of a token that op sample drew from the logits of op linear. */
static void sampled_bits_are_logprobs_bits(void **unused)
{
    (void)unused;
    for (size_t i = 0; i < MINT_ARRAY_LEN(cases); i++)
        for (int p = 0; p < 2; p++) {
            struct mint_dev *d = open_device(usable_isa(0), (enum mint_precision)p, 2);
            struct head x = head_new(&cases[i], p == 0);
            const int64_t T = MINT_MIN(x.c.T, 20), V = x.c.V, ld = V + 3;
            struct on_device o = upload(d, &x, true), o2 = upload(d, &x, false);
            float *logits = floats((size_t)(T * ld)), *lp = floats((size_t)T);
            struct mint_draw draws[20];
            struct mint_drawn drawn[20];
            int32_t ids[20];
            for (int t = 0; t < T; t++)
                draws[t] = (struct mint_draw){t % 3 ? 0.8f : 1.0f, t % 2 ? 0.9f : 1.0f, t % 4 * 5,
                                              (float)t / 20, 0};
            assert_int_equal(
                cpu_linear(d, logits, ld, o.h, o.w, NULL, x.c.r ? &o.lora : NULL, NULL, T, NULL),
                0);
            assert_int_equal(cpu_sample(d, drawn, logits, ld, draws, T, V, NULL), 0);
            for (int t = 0; t < T; t++)
                ids[t] = drawn[t].id;
            assert_int_equal(cpu_logprob(d, lp, NULL, NULL, NULL, 0, o2.h, o2.w,
                                         x.c.r ? &o2.lora : NULL, ids, T, NULL),
                             0);
            for (int t = 0; t < T; t++)
                check_same("logprob", &lp[t], &drawn[t].logprob, sizeof *lp);
            guarded_free(logits);
            guarded_free(lp);
            unload(d, &o);
            unload(d, &o2);
            head_free(&x);
            cpu_close(d);
        }
}

/* --- backward */

/* Leaves that go to db[i]; they come and go in order, a few at a time. */
struct leaves {
    struct mint_head_leaves l;
    float *db[40];
    int64_t begun, ended, most;
    int64_t fail_at; /* begin of this one fails */
};

static float *begin_leaf(void *ctx, int64_t i, struct mint_err *err)
{
    struct leaves *l = ctx;
    (void)err;
    assert_int_equal(i, l->begun);
    if (i == l->fail_at)
        return NULL;
    l->begun++;
    l->most = MINT_MAX(l->most, l->begun - l->ended);
    return l->db[i];
}

static int end_leaf(void *ctx, int64_t i, float *db, struct mint_err *err)
{
    struct leaves *l = ctx;
    (void)err;
    assert_int_equal(i, l->ended++);
    assert_true(i < l->begun && db == l->db[i]);
    return 0;
}

/* Sets it up, buffers of bytes each; takes the addresses of l and first. */
static void leaves_new(struct leaves *l, const int64_t *first, int64_t n, size_t bytes)
{
    *l = (struct leaves){.l = {n, first, begin_leaf, end_leaf, l}, .fail_at = -1};
    for (int64_t i = 0; i < n; i++)
        l->db[i] = guarded(bytes);
}

static void leaves_free(struct leaves *l)
{
    for (int64_t i = 0; i < l->l.n; i++)
        guarded_free(l->db[i]);
}

struct backward_case {
    const struct head *x;
    bool have;
    float *dh, *du, *db;
};

/* dlp (onehot - p) - dent p (log p + entropy) of a row, in double. */
static void ref_dlogits(const struct head *x, bool bf16, int64_t t, double *y)
{
    double h[512];
    widen(h, x->h + t * x->c.H, x->c.H);
    ref_logits(x, bf16, h, y);
    const double z = ref_lse(y, x->c.V), e = ref_entropy(y, z, x->c.V);
    for (int64_t v = 0; v < x->c.V; v++) {
        double p = exp(y[v] - z);
        y[v] = (double)x->dlp[t] * ((v == x->target[t] ? 1.0 : 0.0) - p) -
               (double)x->dent[t] * p * (y[v] - z + e);
    }
}

struct error {
    double error, size;
};

static void add_error(struct error *e, double got, double want)
{
    e->error += (got - want) * (got - want);
    e->size += want * want;
}

static void check_error(const char *what, const struct error *e, bool bf16)
{
    if (!(e->error <= e->size * (bf16 ? 1e-4 : 1e-10) + 1e-20))
        fail_msg("%s: relative error %g", what, sqrt(e->error / e->size));
}

/* The formulas, from the oracle's logits. */
static void check_gradients(const struct backward_case *f, bool bf16, int64_t row0, int64_t rows)
{
    const struct head *x = f->x;
    const struct head_case *c = &x->c;
    const int64_t V = c->V, H = c->H, r = c->r;
    double *y = mint_xcalloc((size_t)V, sizeof *y),
           *db = mint_xcalloc((size_t)(V * r) + 1, sizeof *db);
    struct error eh = {0, 0}, eu = {0, 0}, eb = {0, 0};
    for (int64_t t = 0; t < c->T; t++) {
        double du[64] = {0};
        if (!(t >= row0 && t < row0 + rows) && t % (1 + c->T / 16))
            continue;
        ref_dlogits(x, bf16, t, y);
        for (int64_t v = 0; v < V; v++)
            for (int64_t j = 0; j < r; j++)
                du[j] += (double)c->scale * y[v] * (double)x->b[v * r + j];
        for (int64_t j = 0; j < r; j++)
            add_error(&eu, (double)f->du[t * r + j], du[j]);
        for (int64_t k = 0; k < H; k += 1 + H / 8) {
            double dh = 0.0;
            for (int64_t v = 0; v < V; v++)
                dh += y[v] * (double)x->w[v * H + k];
            for (int64_t j = 0; j < r; j++)
                dh += du[j] * (double)x->a[j * H + k];
            add_error(&eh, (double)f->dh[t * H + k], dh);
        }
        for (int64_t j = 0; t >= row0 && t < row0 + rows && j < r; j++) {
            double u = 0.0;
            for (int64_t k = 0; k < H; k++)
                u += (double)x->a[j * H + k] * (double)x->h[t * H + k];
            for (int64_t v = 0; v < V; v++)
                db[v * r + j] += (double)c->scale * y[v] * u;
        }
    }
    for (int64_t i = 0; i < V * r; i++)
        add_error(&eb, (double)f->db[i], db[i]);
    check_error("dh", &eh, bf16);
    check_error("du", &eu, bf16);
    check_error("db", &eb, bf16);
    free(y);
    free(db);
}

static void backward_on(struct mint_dev *d, void *ctx)
{
    struct backward_case *f = ctx;
    const struct head *x = f->x;
    const struct head_case *c = &x->c;
    const size_t nh = (size_t)(c->T * c->H), nu = (size_t)(c->T * c->r), nb = (size_t)(c->V * c->r);
    const int64_t row0 = c->T / 3, rows = c->T - row0;
    struct on_device o = upload(d, x, false);
    const struct mint_lora *lora = c->r ? &o.lora : NULL;
    struct backward_case got = {
        .x = x, .have = true, .dh = floats(nh), .du = floats(nu), .db = floats(nb)};
    const int64_t ldl = c->V + 3;
    float *lp = floats((size_t)c->T), *lse = floats((size_t)c->T), *ent = floats((size_t)c->T);
    float *logits = floats((size_t)(c->T * ldl));
    struct mint_head_grad g = {x->target, lse, x->dlp, ent, x->dent, NULL, ldl};
    assert_int_equal(
        cpu_logprob(d, lp, ent, lse, logits, ldl, o.h, o.w, lora, x->target, c->T, NULL), 0);
    check_guards(logits, (size_t)(c->T * ldl) * sizeof *logits);
    struct leaves leaves = {.l = {1, (int64_t[]){row0, c->T}, begin_leaf, end_leaf, &leaves},
                            .db = {got.db},
                            .fail_at = -1};
    assert_int_equal(cpu_head_backward(d, got.dh, lora ? got.du : NULL, &g, o.h, o.w, lora, c->T,
                                       &leaves.l, NULL),
                     0);
    assert_int_equal(leaves.ended, lora ? 1 : 0);
    float *dh = floats(nh);
    g.logits = logits;
    assert_int_equal(cpu_head_backward(d, dh, NULL, &g, o.h, o.w, lora, c->T, NULL, NULL), 0);
    check_same("dh from kept logits", dh, got.dh, nh * sizeof *dh);
    guarded_free(dh);
    guarded_free(logits);
    guarded_free(ent);
    check_guards(got.dh, nh * sizeof(float));
    check_guards(got.du, nu * sizeof(float));
    check_guards(got.db, nb * sizeof(float));
    if (!f->have) {
        *f = got;
        check_gradients(f, d->act_bytes == 2, row0, rows);
    } else {
        check_same("dh", got.dh, f->dh, nh * sizeof(float));
        check_same("du", got.du, f->du, nu * sizeof(float));
        check_same("db", got.db, f->db, nb * sizeof(float));
        guarded_free(got.dh);
        guarded_free(got.du);
        guarded_free(got.db);
    }
    guarded_free(lp);
    guarded_free(lse);
    unload(d, &o);
}

static void gradients_are_right_and_the_same_everywhere(void **unused)
{
    (void)unused;
    for (size_t i = 0; i < MINT_ARRAY_LEN(cases); i++)
        for (int p = 0; p < 2; p++) {
            struct head x = head_new(&cases[i], p == 0);
            struct backward_case f = {.x = &x};
            on_all_devices((enum mint_precision)p, backward_on, &f);
            guarded_free(f.dh);
            guarded_free(f.du);
            guarded_free(f.db);
            head_free(&x);
        }
}

/* The formulas themselves: weighted sums of log-probabilities and entropies by central differences
 * in double. */
static void formulas_are_the_slopes(void **unused)
{
    struct head x = head_new(&cases[1], false);
    const int64_t V = x.c.V, H = x.c.H;
    double y[16], h[16], e = 1e-6, slope, dh;
    (void)unused;
    for (int64_t t = 0; t < x.c.T; t++)
        for (int64_t k = 0; k < H; k++) {
            slope = 0.0;
            for (int s = -1; s <= 1; s += 2) {
                widen(h, x.h + t * H, H);
                h[k] += s * e;
                ref_logits(&x, false, h, y);
                const double z = ref_lse(y, V);
                slope += s / (2 * e) *
                         ((double)x.dlp[t] * (y[x.target[t]] - z) +
                          (double)x.dent[t] * ref_entropy(y, z, V));
            }
            ref_dlogits(&x, false, t, y);
            dh = 0.0;
            for (int64_t v = 0; v < V; v++)
                dh += y[v] * (double)x.w[v * H + k];
            check_close("slope", slope, dh, 1e-8);
        }
    head_free(&x);
}

/* Rows alone, in another order, and with u given: the same bits. */
static void rows_do_not_see_each_other(void **unused)
{
    (void)unused;
    for (int p = 0; p < 2; p++) {
        struct mint_dev *d = open_device(usable_isa(0), (enum mint_precision)p, 2);
        struct head x = head_new(&cases[5], p == 0);
        const struct head_case *c = &x.c;
        struct on_device o = upload(d, &x, false);
        float *lp = floats((size_t)c->T), *lse = floats((size_t)c->T);
        float *dh = floats((size_t)(c->T * c->H)), *du = floats((size_t)(c->T * c->r));
        float one[4], *dh1 = floats((size_t)c->H), *du1 = floats((size_t)c->r);
        assert_int_equal(
            cpu_logprob(d, lp, NULL, lse, NULL, 0, o.h, o.w, &o.lora, x.target, c->T, NULL), 0);
        struct mint_head_grad g = {.target = x.target, .lse = lse, .dlp = x.dlp};
        assert_int_equal(cpu_head_backward(d, dh, du, &g, o.h, o.w, &o.lora, c->T, NULL, NULL), 0);
        for (int64_t t = 0; t < c->T; t += 37) {
            const void *h = (char *)o.h + (size_t)(t * c->H) * d->act_bytes;
            assert_int_equal(
                cpu_logprob(d, one, NULL, one + 1, NULL, 0, h, o.w, &o.lora, x.target + t, 1, NULL),
                0);
            check_same("lp", one, lp + t, sizeof *lp);
            check_same("lse", one + 1, lse + t, sizeof *lse);
            struct mint_head_grad g1 = {.target = x.target + t, .lse = lse + t, .dlp = x.dlp + t};
            assert_int_equal(cpu_head_backward(d, dh1, du1, &g1, h, o.w, &o.lora, 1, NULL, NULL),
                             0);
            check_same("dh", dh1, dh + t * c->H, (size_t)c->H * sizeof *dh);
            check_same("du", du1, du + t * c->r, (size_t)c->r * sizeof *du);
        }
        guarded_free(lp);
        guarded_free(lse);
        guarded_free(dh);
        guarded_free(du);
        guarded_free(dh1);
        guarded_free(du1);
        unload(d, &o);
        head_free(&x);
        cpu_close(d);
    }
}

/* A leaf has the bits of its rows alone, wherever it lies among the rows at work: cut between them
 * at an odd row of the batch, one of many, without rows (0). dh and du do not notice. */
static void check_leaves(const int64_t *first, int64_t n)
{
    for (int p = 0; p < 2; p++) {
        struct mint_dev *d = open_device(usable_isa(0), (enum mint_precision)p, 2);
        struct head x = head_new(&cases[6], p == 0);
        const struct head_case *c = &x.c;
        const size_t nb = (size_t)(c->V * c->r) * sizeof(float);
        const size_t nh = (size_t)(c->T * c->H), nu = (size_t)(c->T * c->r);
        struct on_device o = upload(d, &x, false);
        struct leaves all, one;
        float *lp = floats((size_t)c->T), *lse = floats((size_t)c->T);
        float *dh = floats(nh), *du = floats(nu), *dh2 = floats(nh), *du2 = floats(nu);
        leaves_new(&all, first, n, nb);
        assert_int_equal(
            cpu_logprob(d, lp, NULL, lse, NULL, 0, o.h, o.w, &o.lora, x.target, c->T, NULL), 0);
        struct mint_head_grad g = {.target = x.target, .lse = lse, .dlp = x.dlp};
        assert_int_equal(cpu_head_backward(d, dh, du, &g, o.h, o.w, &o.lora, c->T, &all.l, NULL),
                         0);
        assert_int_equal(all.ended, n);
        assert_in_range(all.most, 1, 8);
        assert_int_equal(cpu_head_backward(d, dh2, du2, &g, o.h, o.w, &o.lora, c->T, NULL, NULL),
                         0);
        check_same("dh", dh, dh2, nh * sizeof *dh);
        check_same("du", du, du2, nu * sizeof *du);
        for (int64_t i = 0; i < n; i++) {
            const int64_t t = first[i], rows = first[i + 1] - t;
            leaves_new(&one, (int64_t[]){0, rows}, 1, nb);
            struct mint_head_grad g1 = {.target = x.target + t, .lse = lse + t, .dlp = x.dlp + t};
            assert_int_equal(cpu_head_backward(d, dh2, du2, &g1,
                                               (char *)o.h + (size_t)(t * c->H) * d->act_bytes, o.w,
                                               &o.lora, rows, &one.l, NULL),
                             0);
            check_same("db", all.db[i], one.db[0], nb);
            check_guards(all.db[i], nb);
            for (size_t k = 0; rows == 0 && k < nb / sizeof(float); k++)
                assert_true(all.db[i][k] == 0.0f);
            leaves_free(&one);
        }
        all.begun = all.ended = 0;
        all.fail_at = n - 1;
        assert_int_equal(cpu_head_backward(d, dh, du, &g, o.h, o.w, &o.lora, c->T, &all.l, NULL),
                         -1);
        leaves_free(&all);
        guarded_free(lp);
        guarded_free(lse);
        guarded_free(dh);
        guarded_free(du);
        guarded_free(dh2);
        guarded_free(du2);
        unload(d, &o);
        head_free(&x);
        cpu_close(d);
    }
}

static void leaves_have_the_bits_of_their_rows_alone(void **unused)
{
    static const int64_t many[] = {3,  10, 10, 11, 12,  13,  15,  17,  20,  29,  30,
                                   33, 34, 39, 47, 301, 301, 302, 770, 774, 775, 775};
    static const int64_t odd[] = {0, 3, 3, 775}; /* cut at 767, between pairs */
    (void)unused;
    check_leaves(many, (int64_t)MINT_ARRAY_LEN(many) - 1);
    check_leaves(odd, (int64_t)MINT_ARRAY_LEN(odd) - 1);
}

static void no_rows(void **unused)
{
    struct mint_dev *d = open_device(usable_isa(0), MINT_PRECISION_BF16, 2);
    struct head x = head_new(&cases[1], true);
    struct on_device o = upload(d, &x, false);
    (void)unused;
    assert_int_equal(cpu_logprob(d, NULL, NULL, NULL, NULL, 0, o.h, o.w, NULL, x.target, 0, NULL),
                     0);
    struct mint_head_grad g = {.target = x.target};
    assert_int_equal(cpu_head_backward(d, NULL, NULL, &g, o.h, o.w, NULL, 0, NULL, NULL), 0);
    unload(d, &o);
    head_free(&x);
    cpu_close(d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(logprobs_are_right_and_the_same_everywhere),
        cmocka_unit_test(sampled_bits_are_logprobs_bits),
        cmocka_unit_test(gradients_are_right_and_the_same_everywhere),
        cmocka_unit_test(formulas_are_the_slopes),
        cmocka_unit_test(rows_do_not_see_each_other),
        cmocka_unit_test(leaves_have_the_bits_of_their_rows_alone),
        cmocka_unit_test(no_rows),
    };
    return cmocka_run_group_tests_name("head", tests, NULL, NULL);
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The model, the losses, their gradients and Adam against what PyTorch, transformers and PEFT say
 * (tests/oracle). Runs from the project's root.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "fs.h"
#include "forward.h"
#include "train_job.h"

#define FIXTURES "tests/oracle/fixtures/"

/* One fixture, opened. */
struct fixture {
    const char *name;
    char *text;
    struct mint_json *doc;
    struct mint_policy policy;
    struct mint_datums data;
};

#define OK(call)                     \
    do {                             \
        if ((call) < 0)              \
            fail_msg("%s", err.msg); \
    } while (0)

static char *path_of(const struct fixture *f, const char *file)
{
    return mint_xasprintf(FIXTURES "%s%s%s", f->name, *file ? "/" : "", file);
}

static void open_fixture(struct fixture *f, const char *name, enum mint_precision precision,
                         const char *datums)
{
    struct mint_err err = {0};
    size_t n;
    *f = (struct fixture){.name = name};
    char *dir = path_of(f, ""), *adapter = path_of(f, "adapter"), *file = path_of(f, datums);
    char *expected = path_of(f, "expected.json");
    OK(mint_fs_read_file(expected, 1 << 20, &f->text, &n, &err));
    f->doc = mint_json_new();
    OK(mint_json_parse(f->doc, f->text, n, &err));
    struct mint_policy_opts o = {dir, adapter, "cpu", (int)precision, 2, false};
    OK(mint_policy_open(&f->policy, &o, &err));
    const char *files[] = {file};
    OK(mint_datums_read(&f->data, files, 1, false, NULL, NULL, f->policy.model->config.vocab, 4096,
                        &err));
    free(dir);
    free(adapter);
    free(file);
    free(expected);
}

static void close_fixture(struct fixture *f)
{
    mint_datums_release(&f->data);
    mint_policy_close(&f->policy);
    mint_json_free(f->doc);
    free(f->text);
}

static double number(const struct fixture *f, mint_json_val v)
{
    double d;
    if (!mint_json_double(f->doc, v, &d))
        fail_msg("%s: expected.json lacks a number", f->name);
    return d;
}

/* Largest |ours - expected| / max(1, |expected|) over the logprobs of all datums. */
static double logprob_error(struct fixture *f, const char *key, const struct mint_adapter *a)
{
    struct mint_err err = {0};
    struct mint_trainer *t;
    struct mint_train_opts o = {.micro_tokens = 100};
    double worst = 0;
    OK(mint_trainer_new(&t, f->policy.model, NULL, a, &o, &err));
    mint_json_val list = mint_json_get(f->doc, 0, key);
    assert_int_equal(mint_json_size(f->doc, list), f->data.n);
    mint_json_val v = mint_json_first(f->doc, list);
    for (size_t k = 0; k < f->data.n; k++, v = mint_json_next(f->doc, v)) {
        const struct mint_datum *d = &f->data.d[k];
        float lp[256], want[256];
        OK(mint_trainer_forward(t, &d, 1, a, true, lp, &err));
        OK(mint_json_floats(f->doc, v, want, d->n, &err));
        for (size_t i = 0; i < d->n; i++) {
            double e = fabs((double)lp[i] - (double)want[i]) / fmax(1.0, fabs((double)want[i]));
            worst = isnan(e) ? HUGE_VAL : fmax(worst, e);
        }
    }
    mint_trainer_free(t);
    return worst;
}

static const char *const models[] = {"qwen3", "qwen2", "llama", "smollm2"};

static void logprobs_f32(void **state)
{
    (void)state;
    for (size_t i = 0; i < MINT_ARRAY_LEN(models); i++) {
        struct fixture f;
        open_fixture(&f, models[i], MINT_PRECISION_F32, "datums.jsonl");
        double base = logprob_error(&f, "logprobs_base", NULL);
        double adapter = logprob_error(&f, "logprobs_adapter", f.policy.adapter);
        if (base > 1e-5 || adapter > 1e-5)
            fail_msg("%s: logprobs off by %g (base), %g (adapter)", models[i], base, adapter);
        close_fixture(&f);
    }
}

/* bf16 may differ from f32 as much as PyTorch's own bf16 does. */
static void logprobs_bf16(void **state)
{
    (void)state;
    for (size_t i = 0; i < MINT_ARRAY_LEN(models); i++) {
        struct fixture f;
        open_fixture(&f, models[i], MINT_PRECISION_BF16, "datums.jsonl");
        mint_json_val t = mint_json_get(f.doc, 0, "transformers");
        double base = number(&f, mint_json_get(f.doc, mint_json_get(f.doc, t, "bf16_base"), "max"));
        double with =
            number(&f, mint_json_get(f.doc, mint_json_get(f.doc, t, "bf16_adapter"), "max"));
        double eb = logprob_error(&f, "logprobs_base", NULL);
        double ea = logprob_error(&f, "logprobs_adapter", f.policy.adapter);
        if (eb > base || ea > with)
            fail_msg("%s: bf16 off by %g (base; PyTorch %g), %g (adapter; PyTorch %g)", models[i],
                     eb, base, ea, with);
        close_fixture(&f);
    }
}

/* Logits of one datum, row by row, through the sampling path's ops. */
static void logits(struct fixture *f, const struct mint_adapter *a, const struct mint_datum *d,
                   float *out)
{
    struct mint_err err = {0};
    struct mint_model *m = f->policy.model;
    const struct mint_ops *ops = m->dev->ops;
    struct mint_work *w;
    struct mint_kv *kv;
    int32_t pos[64], page[64] = {0}, pages[1] = {0};
    int64_t T = (int64_t)d->n, H = m->config.hidden, V = m->config.vocab;
    struct mint_seq seq = {0, T, 0, pages};
    for (int32_t i = 0; i < T; i++)
        pos[i] = i;
    OK(mint_work_new(&w, m, a ? a->config.rank : 0, T, false, &err));
    OK(ops->kv_new(m->dev, &kv, m->config.layers, 1, &m->attn, &err));
    struct mint_batch b = {
        .T = T, .ids = d->input, .pos = pos, .pages = page, .seqs = &seq, .nseqs = 1};
    OK(ops->embed(m->dev, w->x, m->embed, d->input, T, &err));
    for (int l = 0; l < m->config.layers; l++)
        OK(mint_forward_layer(m, a, l, kv, l, w, w->x, w->x, &b, &err));
    OK(ops->rmsnorm(m->dev, w->h1, w->x, m->norm, m->config.norm_eps, T, H, &err));
    float *dev = ops->alloc(m->dev, (size_t)(T * V) * sizeof *dev, &err);
    OK(ops->linear(m->dev, dev, V, w->h1, m->head, NULL, mint_adapter_lora(a, 0, MINT_MOD_HEAD),
                   NULL, T, &err));
    OK(ops->download(m->dev, out, dev, (size_t)(T * V) * sizeof *dev, &err));
    ops->free(m->dev, dev);
    ops->kv_free(m->dev, kv);
    mint_work_free(w);
}

static double relative_error(const float *got, const float *want, size_t n)
{
    double diff = 0, norm = 0;
    for (size_t i = 0; i < n; i++) {
        diff += pow((double)got[i] - (double)want[i], 2);
        norm += pow((double)want[i], 2);
    }
    double e = sqrt(diff / fmax(norm, 1e-30));
    return isnan(e) ? HUGE_VAL : e;
}

static struct mint_st *open_tensors(const struct fixture *f, const char *file)
{
    struct mint_err err = {0};
    struct mint_st *st;
    char *path = path_of(f, file);
    OK(mint_st_open(&st, path, &err));
    free(path);
    return st;
}

/* The largest tolerated error of a logit is 1e-5 of the largest logit. */
static void logits_f32(void **state)
{
    (void)state;
    for (size_t i = 0; i < MINT_ARRAY_LEN(models); i++) {
        struct fixture f;
        struct mint_err err = {0};
        open_fixture(&f, models[i], MINT_PRECISION_F32, "datums.jsonl");
        struct mint_st *st = open_tensors(&f, "logits.safetensors");
        size_t k = (size_t)number(&f, mint_json_get(f.doc, 0, "logits_datum"));
        const struct mint_datum *d = &f.data.d[k];
        size_t n = d->n * (size_t)f.policy.model->config.vocab;
        float *got = mint_xcalloc(n, sizeof *got), *want = mint_xcalloc(n, sizeof *want);
        for (int which = 0; which < 2; which++) {
            logits(&f, which ? f.policy.adapter : NULL, d, got);
            OK(mint_st_to_f32(mint_st_find(st, which ? "adapter" : "base"), want, &err));
            double worst = 0, largest = 0;
            for (size_t j = 0; j < n; j++) {
                worst = fmax(worst, fabs((double)got[j] - (double)want[j]));
                largest = fmax(largest, fabs((double)want[j]));
                assert_true(isfinite(got[j]));
            }
            if (worst > 1e-5 * largest)
                fail_msg("%s: logits off by %g of %g", models[i], worst, largest);
        }
        free(got);
        free(want);
        mint_st_close(st);
        close_fixture(&f);
    }
}

static int index_of(const char *const *names, const char *name)
{
    for (int i = 0; names[i]; i++)
        if (strcmp(names[i], name) == 0)
            return i;
    fail_msg("unknown name %s", name);
    return -1;
}

static float key(const struct fixture *f, mint_json_val keys, const char *name, float otherwise)
{
    mint_json_val v = mint_json_get(f->doc, keys, name);
    return v == MINT_JSON_NONE ? otherwise : (float)number(f, v);
}

static struct mint_train_opts options_of(const struct fixture *f, mint_json_val entry,
                                         int64_t micro)
{
    char *loss = mint_json_strdup(f->doc, mint_json_get(f->doc, entry, "loss"));
    char *kl = mint_json_strdup(f->doc, mint_json_get(f->doc, entry, "kl_estimator"));
    mint_json_val coef = mint_json_get(f->doc, entry, "kl_coef");
    mint_json_val keys = mint_json_get(f->doc, entry, "keys");
    struct mint_train_opts o = {.beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8, .micro_tokens = micro};
    o.loss.loss = (enum mint_loss)index_of(mint_loss_names, loss);
    bool cispo = o.loss.loss == MINT_LOSS_CISPO;
    o.loss.clip_low = key(f, keys, "clip_low_threshold", cispo ? 0.0f : 0.8f);
    o.loss.clip_high = key(f, keys, "clip_high_threshold", cispo ? 4.0f : 1.2f);
    o.loss.beta = key(f, keys, "beta", 0.05f);
    o.loss.kl = kl ? (enum mint_kl)index_of(mint_kl_names, kl) : MINT_KL_K3;
    if (mint_json_type(f->doc, coef) == MINT_JSON_NUMBER)
        o.loss.kl_coef = (float)number(f, coef);
    free(loss);
    free(kl);
    return o;
}

/* Gradients show in the first moment after one step from zero: m = (1 - beta1) g. */
static void compare_gradients(struct fixture *f, struct mint_trainer *t, mint_json_val entry,
                              const char *label)
{
    struct mint_err err = {0};
    const struct mint_adapter *a = f->policy.adapter;
    char *file = mint_json_strdup(f->doc, mint_json_get(f->doc, entry, "gradients"));
    struct mint_st *st = file ? open_tensors(f, file) : NULL;
    mint_json_val norms = mint_json_get(f->doc, entry, "grad_norms");
    for (size_t i = 0; i < a->nparams; i++) {
        const struct mint_param *p = &a->param[i];
        size_t n = (size_t)(p->rows * p->cols);
        float *value = mint_xcalloc(4 * n, sizeof *value), *m = value + n, *v = m + n, *w = v + n;
        OK(mint_trainer_read(t, i, value, m, v, &err));
        double norm = 0, want = number(f, mint_json_get(f->doc, norms, p->name));
        for (size_t j = 0; j < n; j++) {
            m[j] /= 0.1f;
            norm += (double)m[j] * (double)m[j];
        }
        if (!(fabs(sqrt(norm) - want) <= 1e-4 * want))
            fail_msg("%s %s %s: gradient norm %g, expected %g", f->name, label, p->name, sqrt(norm),
                     want);
        if (st) {
            OK(mint_st_to_f32(mint_st_find(st, p->name), w, &err));
            if (relative_error(m, w, n) > 1e-4)
                fail_msg("%s %s %s: gradient off by %g", f->name, label, p->name,
                         relative_error(m, w, n));
        }
        free(value);
    }
    mint_st_close(st);
    free(file);
}

static void check_entry(const char *model, const char *datums, const char *label, int64_t micro)
{
    struct fixture f;
    struct mint_err err = {0};
    struct mint_trainer *t;
    struct mint_step_stats s;
    open_fixture(&f, model, MINT_PRECISION_F32, datums);
    mint_json_val entry = mint_json_get(f.doc, mint_json_get(f.doc, 0, "losses"), label);
    if (strcmp(label, "datums_ref") == 0)
        entry = mint_json_get(f.doc, 0, label);
    struct mint_train_opts o = options_of(&f, entry, micro);
    OK(mint_trainer_new(&t, f.policy.model, f.policy.adapter, NULL, &o, &err));
    const struct mint_datum *d[16];
    for (size_t i = 0; i < f.data.n; i++)
        d[i] = &f.data.d[i];
    OK(mint_trainer_step(t, d, f.data.n, 0.0, &s, &err));
    double want = number(&f, mint_json_get(f.doc, entry, "value"));
    if (!(fabs(s.loss - want) <= 1e-4 * fmax(1.0, fabs(want))))
        fail_msg("%s %s: loss %g, expected %g", model, label, s.loss, want);
    compare_gradients(&f, t, entry, label);
    mint_trainer_free(t);
    close_fixture(&f);
}

static const char *const entries[] = {"importance_sampling", "ppo",   "cispo", "dro",
                                      "cross_entropy",       "kl_k1", "kl_k2", "kl_k3"};

static void gradients(void **state)
{
    (void)state;
    for (size_t i = 0; i < MINT_ARRAY_LEN(models); i++)
        for (size_t j = 0; j < MINT_ARRAY_LEN(entries); j++)
            check_entry(models[i], "datums.jsonl", entries[j], j % 2 ? 1024 : 40);
}

static void gradients_with_given_reference(void **state)
{
    (void)state;
    check_entry("qwen3", "datums-ref.jsonl", "datums_ref", 1024);
}

/* The adapter after steps of Adam against float64 torch. */
static void check_adam(const char *run, double decay, const char *file, int steps)
{
    struct fixture f;
    struct mint_err err = {0};
    struct mint_trainer *t;
    struct mint_step_stats s;
    open_fixture(&f, "qwen3", MINT_PRECISION_F32, "datums.jsonl");
    mint_json_val adam = mint_json_get(f.doc, 0, "adam");
    double lr = number(&f, mint_json_get(f.doc, adam, "lr"));
    struct mint_train_opts o = {.loss = {.loss = MINT_LOSS_IS},
                                .beta1 = 0.9,
                                .beta2 = 0.999,
                                .eps = 1e-8,
                                .weight_decay = decay,
                                .micro_tokens = 1024};
    OK(mint_trainer_new(&t, f.policy.model, f.policy.adapter, NULL, &o, &err));
    const struct mint_datum *d[16];
    for (size_t i = 0; i < f.data.n; i++)
        d[i] = &f.data.d[i];
    for (int i = 0; i < steps; i++)
        OK(mint_trainer_step(t, d, f.data.n, lr, &s, &err));
    struct mint_st *st = open_tensors(&f, file);
    for (size_t i = 0; i < f.policy.adapter->nparams; i++) {
        const struct mint_param *p = &f.policy.adapter->param[i];
        size_t n = (size_t)(p->rows * p->cols);
        float *got = mint_xcalloc(4 * n, sizeof *got), *want = got + n;
        OK(mint_trainer_read(t, i, got, got + 2 * n, got + 3 * n, &err));
        OK(mint_st_to_f32(mint_st_find(st, p->name), want, &err));
        for (size_t j = 0; j < n; j++)
            if (!(fabs((double)got[j] - (double)want[j]) <= 1e-2 * lr))
                fail_msg("%s step %d %s[%zu]: %g, expected %g", run, steps, p->name, j,
                         (double)got[j], (double)want[j]);
        free(got);
    }
    mint_st_close(st);
    mint_trainer_free(t);
    close_fixture(&f);
}

static void adam(void **state)
{
    (void)state;
    check_adam("plain", 0.0, "adam-plain-1.safetensors", 1);
    check_adam("plain", 0.0, "adam-plain-3.safetensors", 3);
    check_adam("decay", 0.1, "adam-decay-3.safetensors", 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(logprobs_f32),
        cmocka_unit_test(logprobs_bf16),
        cmocka_unit_test(logits_f32),
        cmocka_unit_test(gradients),
        cmocka_unit_test(gradients_with_given_reference),
        cmocka_unit_test(adam),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

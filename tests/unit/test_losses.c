/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Values, counts and gradients of what goes beyond the five losses of the contract, against torch
 * (tests/oracle/losses.json). Runs from the project's root.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "fs.h"
#include "json.h"
#include "train_job.h"

#define OK(call)                     \
    do {                             \
        if ((call) < 0)              \
            fail_msg("%s", err.msg); \
    } while (0)

#define FIXTURE "tests/oracle/fixtures/qwen3"

enum { DATUMS = 6, MAX = 128 };

struct oracle {
    char *text;
    struct mint_json *doc;
    struct mint_datums data;
    struct mint_policy policy;
    float old[DATUMS][MAX], low[DATUMS][MAX], high[DATUMS][MAX];
};

static void read_tensors(struct oracle *o, const char *key, float to[DATUMS][MAX])
{
    struct mint_err err = {0};
    mint_json_val v = mint_json_first(o->doc, mint_json_get(o->doc, 0, key));
    for (size_t k = 0; k < DATUMS; k++, v = mint_json_next(o->doc, v))
        OK(mint_json_floats(o->doc, v, to[k], o->data.d[k].n, &err));
}

static void open_oracle(struct oracle *o)
{
    struct mint_err err = {0};
    const char *files[] = {FIXTURE "/datums.jsonl"};
    struct mint_policy_opts p = {FIXTURE, FIXTURE "/adapter", "cpu", MINT_PRECISION_F32, 2, false};
    size_t n;
    OK(mint_fs_read_file("tests/oracle/losses.json", 1 << 20, &o->text, &n, &err));
    o->doc = mint_json_new();
    OK(mint_json_parse(o->doc, o->text, n, &err));
    OK(mint_policy_open(&o->policy, &p, &err));
    OK(mint_datums_read(&o->data, files, 1, false, NULL, NULL, o->policy.model->config.vocab, 4096,
                        &err));
    assert_int_equal(o->data.n, DATUMS);
    read_tensors(o, "old_logprobs", o->old);
    read_tensors(o, "clip_low", o->low);
    read_tensors(o, "clip_high", o->high);
}

static void close_oracle(struct oracle *o)
{
    mint_datums_release(&o->data);
    mint_policy_close(&o->policy);
    mint_json_free(o->doc);
    free(o->text);
}

static double number(const struct oracle *o, mint_json_val v, const char *key, double otherwise)
{
    mint_json_val n = mint_json_get(o->doc, v, key);
    double d = otherwise;
    if (n != MINT_JSON_NONE && !mint_json_double(o->doc, n, &d))
        fail_msg("%s is no number", key);
    return d;
}

static int choice(const struct oracle *o, mint_json_val v, const char *key,
                  const char *const *names)
{
    char *text = mint_json_strdup(o->doc, mint_json_get(o->doc, v, key));
    int found = 0;
    for (int i = 0; text && names[i]; i++)
        if (strcmp(names[i], text) == 0)
            found = i;
    assert_true(!text || strcmp(names[found], text) == 0);
    free(text);
    return found;
}

static struct mint_train_opts options_of(const struct oracle *o, mint_json_val c)
{
    struct mint_train_opts t = {.beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8, .micro_tokens = 80};
    t.loss = (struct mint_loss_opts){
        .loss = (enum mint_loss)choice(o, c, "loss", mint_loss_names),
        .clip_low = (float)number(o, c, "low", 0),
        .clip_high = (float)number(o, c, "high", 0),
        .beta = (float)number(o, c, "beta", 0),
        .dual_clip = (float)number(o, c, "dual_clip", 0),
        .kl_coef = (float)number(o, c, "kl_coef", 0),
        .kl = MINT_KL_K3,
        .entropy_coef = (float)number(o, c, "entropy_coef", 0),
        .proximal = (enum mint_proximal)choice(o, c, "proximal", mint_proximal_names),
        .correction = (enum mint_correction)choice(o, c, "correction", mint_correction_names),
        .correction_low = (float)number(o, c, "least", 0),
        .correction_high = (float)number(o, c, "most", 0),
    };
    return t;
}

/* The datums of a case, with the tensors that it uses; returns how many. */
static size_t datums_of(struct oracle *o, mint_json_val c, struct mint_datum own[DATUMS],
                        const struct mint_datum *d[DATUMS])
{
    struct mint_err err = {0};
    mint_json_val order = mint_json_get(o->doc, c, "order");
    int32_t at[DATUMS] = {0, 1, 2, 3, 4, 5};
    size_t n = DATUMS;
    if (order != MINT_JSON_NONE) {
        n = mint_json_size(o->doc, order);
        OK(mint_json_ints(o->doc, order, at, n, 0, DATUMS - 1, &err));
    }
    bool parent = mint_json_get(o->doc, c, "proximal") != MINT_JSON_NONE;
    bool old = parent && mint_json_get(o->doc, c, "no_old") == MINT_JSON_NONE;
    bool tensors = mint_json_get(o->doc, c, "tensors") != MINT_JSON_NONE;
    for (size_t k = 0; k < n; k++) {
        own[k] = o->data.d[at[k]];
        own[k].old_logprobs = old ? o->old[at[k]] : NULL;
        own[k].clip_low = tensors ? o->low[at[k]] : NULL;
        own[k].clip_high = tensors ? o->high[at[k]] : NULL;
        d[k] = &own[k];
    }
    return n;
}

static void close_to(const char *name, const char *what, double got, double want, double scale)
{
    if (!(fabs(got - want) <= 1e-4 * scale))
        fail_msg("%s: %s is %.9g, expected %.9g", name, what, got, want);
}

static void check_counts(const struct oracle *o, mint_json_val c, const char *name,
                         const struct mint_policy_sums *s)
{
    mint_json_val counts = mint_json_get(o->doc, c, "counts");
    const struct {
        const char *key;
        int64_t got;
    } ints[] = {{"clipped", s->clipped},
                {"dual_clipped", s->dual_clipped},
                {"masked", s->masked},
                {"masked_datums", s->masked_datums},
                {"truncated", s->truncated},
                {"pairs", s->pairs},
                {"wins", s->wins}};
    for (size_t i = 0; i < MINT_ARRAY_LEN(ints); i++)
        close_to(name, ints[i].key, (double)ints[i].got, number(o, counts, ints[i].key, -1), 1);
    close_to(name, "omega", s->omega, number(o, counts, "omega", -1), 100);
    close_to(name, "margin", s->margin, number(o, counts, "margin", -1), 10);
}

/* Gradients show in the first moment after one step from zero: m = (1 - beta1) g. */
static void check_gradients(const struct oracle *o, mint_json_val c, const char *name,
                            struct mint_trainer *t)
{
    struct mint_err err = {0};
    const struct mint_adapter *a = o->policy.adapter;
    mint_json_val norms = mint_json_get(o->doc, c, "norms");
    mint_json_val waves = mint_json_get(o->doc, c, "waves");
    for (size_t i = 0; i < a->nparams; i++) {
        size_t n = (size_t)(a->param[i].rows * a->param[i].cols);
        float *v = mint_xcalloc(3 * n, sizeof *v);
        double square = 0, wave = 0;
        OK(mint_trainer_read(t, i, v, v + n, v + 2 * n, &err));
        for (size_t j = 0; j < n; j++) {
            double g = (double)v[n + j] * 10.0;
            square += g * g;
            wave += g * cos((double)j);
        }
        double norm = number(o, norms, a->param[i].name, -1), scale = fmax(norm, 0.05);
        close_to(name, a->param[i].name, sqrt(square), norm, scale);
        close_to(name, a->param[i].name, wave, number(o, waves, a->param[i].name, 0), scale);
        free(v);
    }
}

/* The adapter keeps its values: the learning rate is 0. */
static void check_case(struct oracle *o, mint_json_val c)
{
    struct mint_err err = {0};
    struct mint_train_opts opts = options_of(o, c);
    struct mint_datum own[DATUMS];
    const struct mint_datum *d[DATUMS];
    struct mint_step_stats s;
    struct mint_trainer *t;
    char *name = mint_json_strdup(o->doc, mint_json_get(o->doc, c, "name"));
    size_t n = datums_of(o, c, own, d);
    for (size_t k = 0; k < n; k++)
        OK(mint_trainer_check(&opts, d[k], &err));
    OK(mint_trainer_new(&t, o->policy.model, o->policy.adapter, NULL, &opts, &err));
    OK(mint_trainer_step(t, d, n, 0.0, &s, &err));
    double want = number(o, c, "value", NAN);
    close_to(name, "the loss", s.loss, want, fmax(1.0, fabs(want)));
    check_counts(o, c, name, &s.trained);
    check_gradients(o, c, name, t);
    mint_trainer_free(t);
    free(name);
}

static void all_cases(void **state)
{
    struct oracle o = {0};
    int n = 0;
    (void)state;
    open_oracle(&o);
    mint_json_val cases = mint_json_get(o.doc, 0, "cases");
    for (mint_json_val c = mint_json_first(o.doc, cases); c != MINT_JSON_NONE;
         c = mint_json_next(o.doc, c), n++)
        check_case(&o, c);
    assert_int_equal(n, 23);
    close_oracle(&o);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_cases),
    };
    return cmocka_run_group_tests_name("losses", tests, NULL, NULL);
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Op sample against a plain one that sorts everything, over temperatures, top-k, top-p, ties and
 * vocabulary limits; frequencies against probabilities; the same draw everywhere; logits that are
 * not numbers.
 */
#include "cpu_test.h"

#include "cpu/cpu_head.h"

#include <float.h>

/* --- the oracle: sorts, in double. */

static const float *order_by;

static int greater_then_lower_id(const void *a, const void *b)
{
    const int32_t i = *(const int32_t *)a, j = *(const int32_t *)b;
    if (order_by[i] != order_by[j])
        return order_by[i] > order_by[j] ? -1 : 1;
    return i < j ? -1 : i > j;
}

struct oracle {
    double *p;     /* [n] probability of a draw; 0 if not kept */
    double margin; /* how near top_p's decision was: the least |mass - top_p| at the cut */
    int64_t kept;
};

static struct oracle oracle_new(const float *x, int64_t V, const struct mint_draw *a)
{
    const int64_t n = a->vocab > 0 ? MINT_MIN((int64_t)a->vocab, V) : V;
    struct oracle o = {.p = mint_xcalloc((size_t)V, sizeof *o.p), .margin = 1.0};
    int32_t *ids = mint_xcalloc((size_t)n, sizeof *ids);
    double total = 0.0, sum = 0.0, kept = 0.0;
    for (int64_t i = 0; i < n; i++)
        ids[i] = (int32_t)i;
    order_by = x;
    qsort(ids, (size_t)n, sizeof *ids, greater_then_lower_id);
    const int64_t k = a->top_k > 0 ? MINT_MIN((int64_t)a->top_k, n) : n;
    for (int64_t i = 0; i < k; i++)
        total += o.p[ids[i]] =
            exp(((double)x[ids[i]] - (double)x[ids[0]]) / (double)a->temperature);
    for (o.kept = 0; o.kept < k; o.kept++) {
        if (o.kept && a->top_p < 1.0f && sum >= (double)a->top_p * total)
            break;
        sum += o.p[ids[o.kept]];
        if (a->top_p < 1.0f)
            o.margin = fmin(o.margin, fabs(sum / total - (double)a->top_p));
    }
    for (int64_t i = o.kept; i < k; i++)
        o.p[ids[i]] = 0.0;
    for (int64_t i = 0; i < n; i++)
        kept += o.p[i];
    for (int64_t i = 0; i < n; i++)
        o.p[i] /= kept;
    free(ids);
    return o;
}

/* id is the first whose cumulated probability exceeds u, but for rounding. */
static void check_draw(const struct oracle *o, const struct mint_draw *a,
                       const struct mint_drawn *d)
{
    double below = 0.0;
    for (int32_t i = 0; i < d->id; i++)
        below += o->p[i];
    if (o->margin < 1e-6) /* either cut is right */
        return;
    if (!(o->p[d->id] > 0.0))
        fail_msg("id %d was not to be drawn (T %g, top_k %d, top_p %g)", (int)d->id,
                 (double)a->temperature, (int)a->top_k, (double)a->top_p);
    if (!(below <= (double)a->u + 2e-6 && below + o->p[d->id] >= (double)a->u - 2e-6))
        fail_msg("id %d covers %.9g to %.9g, u is %.9g", (int)d->id, below, below + o->p[d->id],
                 (double)a->u);
    check_close("behavior", (double)d->behavior, log(o->p[d->id]),
                2e-5 * (1 + fabs(log(o->p[d->id]))));
}

/* --- logits of several characters */

enum kind { SPREAD, PEAKED, FLAT, EQUAL, TIES, STEPS, KINDS };

static float *logits_of(enum kind kind, int64_t V)
{
    float *x = floats((size_t)V);
    for (int64_t i = 0; i < V; i++)
        switch (kind) {
        case SPREAD:
            x[i] = 4.0f * (uniform() + uniform() + uniform());
            break;
        case PEAKED:
            x[i] = 20.0f * uniform() * uniform() * uniform();
            break;
        case FLAT:
            x[i] = 1e-3f * uniform();
            break;
        case EQUAL:
            x[i] = -3.5f;
            break;
        case TIES:
            x[i] = (float)(random_bits() % 7);
            break;
        default:
            x[i] = V > 2 && i % 3 != 1 ? -INFINITY : (float)(i % 40) - 90.0f; /* not the first */
        }
    return x;
}

struct sample_case {
    int64_t V, S, ldl;
    const float *logits;
    const struct mint_draw *draws;
    struct mint_drawn *want;
};

static void sample_on(struct mint_dev *d, void *ctx)
{
    struct sample_case *c = ctx;
    struct mint_drawn *out = guarded((size_t)c->S * sizeof *out);
    assert_int_equal(cpu_sample(d, out, c->logits, c->ldl, c->draws, c->S, c->V, NULL), 0);
    check_guards(out, (size_t)c->S * sizeof *out);
    if (c->want) {
        check_same("draws", out, c->want, (size_t)c->S * sizeof *out);
        guarded_free(out);
    } else {
        c->want = out;
    }
}

static void draws_are_those_of_a_sort(void **unused)
{
    static const int64_t sizes[] = {1, 2, 63, 64, 65, 1023, 2051};
    static const float temperatures[] = {1.0f, 0.7f, 0.05f, 5.0f, 1e-20f},
                       ps[] = {1.0f, 0.95f, 0.5f, 1e-3f, 0.0f};
    static const int32_t ks[] = {-1, 1, 2, 40, 1000};
    (void)unused;
    for (size_t s = 0; s < MINT_ARRAY_LEN(sizes); s++)
        for (int kind = 0; kind < KINDS; kind++) {
            struct mint_draw draws[125];
            const int64_t V = sizes[s];
            float *x = logits_of((enum kind)kind, V), *many = floats((size_t)(125 * V));
            struct sample_case c = {.V = V, .S = 125, .ldl = V, .logits = many, .draws = draws};
            for (int i = 0; i < 125; i++) {
                float u = (float)(random_bits() >> 40) * 0x1p-24f;
                draws[i] = (struct mint_draw){temperatures[i % 5], ps[i / 5 % 5], ks[i / 25 % 5],
                                              i % 11 == 0   ? 0.0f
                                              : i % 11 == 1 ? 1.0f - 0x1p-24f
                                                            : u,
                                              i % 4 == 3 ? (int32_t)(V - V / 3) : 0};
                memcpy(many + i * V, x, (size_t)V * sizeof *x);
            }
            on_all_devices(MINT_PRECISION_BF16, sample_on, &c);
            for (int i = 0; i < 125; i++) {
                struct oracle o = oracle_new(x, V, &draws[i]);
                check_draw(&o, &draws[i], &c.want[i]);
                free(o.p);
            }
            guarded_free(c.want);
            guarded_free(x);
            guarded_free(many);
        }
}

static void greedy_takes_the_first_of_the_greatest(void **unused)
{
    float x[2100];
    const struct mint_draw draw = {0.0f, 0.3f, 5, 0.9f, 0}, limited = {0.0f, 1.0f, -1, 0.9f, 1500};
    struct mint_dev *d = open_device(usable_isa(0), MINT_PRECISION_BF16, 1);
    struct mint_drawn out;
    (void)unused;
    for (int i = 0; i < 2100; i++)
        x[i] = (float)(i % 7);
    x[1400] = x[1401] = 9.5f;
    x[1700] = x[2000] = 10.0f;
    assert_int_equal(cpu_sample(d, &out, x, 2100, &draw, 1, 2100, NULL), 0);
    assert_int_equal(out.id, 1700);
    assert_true(out.behavior == 0.0f);
    assert_int_equal(cpu_sample(d, &out, x, 2100, &limited, 1, 2100, NULL), 0);
    assert_int_equal(out.id, 1400);
    double sum = 0.0;
    for (int i = 0; i < 2100; i++)
        sum += exp((double)x[i] - 10.0);
    check_close("logprob", (double)out.logprob, -0.5 - log(sum),
                1e-6); /* of all rows, padding too */
    cpu_close(d);
}

/* Untempered and unfiltered, the distribution drawn from is the policy: bit for bit. */
static void behavior_is_policy_when_nothing_is_changed(void **unused)
{
    const int64_t V = 3001;
    float *x = logits_of(SPREAD, V);
    struct mint_dev *d = open_device(usable_isa(0), MINT_PRECISION_BF16, 1);
    (void)unused;
    for (int i = 0; i < 50; i++) {
        struct mint_draw draw = {1.0f, 1.0f, i % 2 ? -1 : (int32_t)V, (float)i / 50,
                                 i % 3 ? 0 : (int32_t)V};
        struct mint_drawn out;
        assert_int_equal(cpu_sample(d, &out, x, V, &draw, 1, V, NULL), 0);
        check_same("behavior", &out.behavior, &out.logprob, sizeof(float));
    }
    guarded_free(x);
    cpu_close(d);
}

/* Chi-square over 20 ids, 40,000 equidistant u: exact but for the borders. */
static void frequencies_are_probabilities(void **unused)
{
    const int64_t V = 20, S = 40000;
    float *x = logits_of(SPREAD, V);
    struct mint_draw *draws = mint_xcalloc((size_t)S, sizeof *draws);
    struct mint_drawn *out = mint_xcalloc((size_t)S, sizeof *out);
    struct mint_dev *d = open_device(usable_isa(0), MINT_PRECISION_BF16, 2);
    int64_t count[20] = {0};
    (void)unused;
    for (int64_t i = 0; i < S; i++)
        draws[i] = (struct mint_draw){1.3f, 0.9f, 12, (float)((double)i / (double)S), 0};
    assert_int_equal(cpu_sample(d, out, x, 0, draws, S, V, NULL), 0); /* stride 0: the same row */
    for (int64_t i = 0; i < S; i++)
        count[out[i].id]++;
    struct oracle o = oracle_new(x, V, &draws[0]);
    for (int64_t i = 0; i < V; i++)
        check_close("frequency", (double)count[i], o.p[i] * (double)S, 1.5);
    free(o.p);
    free(draws);
    free(out);
    guarded_free(x);
    cpu_close(d);
}

/* A large vocabulary, where bins, bounds and chunks all count; and other rows change nothing. */
static void large_vocabulary(void **unused)
{
    const int64_t V = 151936;
    static const struct mint_draw draws[] = {
        {1.0f, 1.0f, -1, 0.7f, 151669}, {0.8f, 0.95f, -1, 0.3f, 151669},
        {1.0f, 0.9f, 50, 0.9999f, 0},   {2.5f, 0.999f, 3000, 0.5f, 0},
        {1.0f, 1.0f, 20, 0.1f, 0},      {100.0f, 0.5f, -1, 0.2f, 0},
    };
    (void)unused;
    for (int kind = 0; kind < KINDS; kind++) {
        float *x = logits_of((enum kind)kind, V);
        struct sample_case c = {
            .V = V, .S = MINT_ARRAY_LEN(draws), .ldl = 0, .logits = x, .draws = draws};
        struct mint_dev *d = open_device(usable_isa(0), MINT_PRECISION_BF16, 2);
        sample_on(d, &c);
        for (size_t i = 0; i < MINT_ARRAY_LEN(draws); i++) {
            struct sample_case one = {
                .V = V, .S = 1, .ldl = V, .logits = x, .draws = &draws[i], .want = &c.want[i]};
            struct mint_drawn out;
            struct oracle o = oracle_new(x, V, &draws[i]);
            check_draw(&o, &draws[i], &c.want[i]);
            assert_int_equal(cpu_sample(d, &out, one.logits, V, one.draws, 1, V, NULL), 0);
            check_same("alone", &out, one.want, sizeof out);
            free(o.p);
        }
        guarded_free(c.want);
        guarded_free(x);
        cpu_close(d);
    }
}

static void bad_logits_are_refused(void **unused)
{
    static const float bad[] = {NAN, -NAN, INFINITY};
    const int64_t V = 2500;
    struct mint_dev *d = open_device(usable_isa(0), MINT_PRECISION_BF16, 2);
    struct mint_draw draws[4];
    struct mint_drawn out[4];
    struct mint_err err;
    (void)unused;
    for (int i = 0; i < 4; i++)
        draws[i] = (struct mint_draw){1.0f, 1.0f, -1, 0.5f, 0};
    for (int k = 0; k < 3; k++)
        for (int64_t at = 0; at < V; at += 833) {
            float *x = random_floats((size_t)(4 * V), 1.0f);
            x[2 * V + at] = bad[k];
            assert_int_equal(cpu_sample(d, out, x, V, draws, 4, V, &err), -1);
            assert_string_equal(err.msg, "the logits of row 2 are not finite");
            guarded_free(x);
        }
    float *x = random_floats((size_t)(4 * V), 1.0f);
    for (int64_t i = 0; i < V; i++)
        x[V + i] = i < 1024 ? NAN : -INFINITY; /* a chunk without any number */
    assert_int_equal(cpu_sample(d, out, x, V, draws, 4, V, &err), -1);
    assert_string_equal(err.msg, "the logits of row 1 are not finite");
    for (int64_t i = 0; i < V; i++)
        x[V + i] = -INFINITY;
    assert_int_equal(cpu_sample(d, out, x, V, draws, 4, V, &err), -1);
    assert_string_equal(err.msg, "every token of row 1 has probability 0");
    assert_int_equal(cpu_sample(d, out, x, V, draws, 0, V, &err), 0);
    guarded_free(x);
    cpu_close(d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(draws_are_those_of_a_sort),
        cmocka_unit_test(greedy_takes_the_first_of_the_greatest),
        cmocka_unit_test(behavior_is_policy_when_nothing_is_changed),
        cmocka_unit_test(frequencies_are_probabilities),
        cmocka_unit_test(large_vocabulary),
        cmocka_unit_test(bad_logits_are_refused),
    };
    return cmocka_run_group_tests_name("sample", tests, NULL, NULL);
}

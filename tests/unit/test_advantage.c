/* SPDX-License-Identifier: Apache-2.0 */
/* Advantages: the worked numbers of public fault reports, fates, and the text of Datums. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "advantage.h"
#include "text_reader.h"

static void near(double got, double want)
{
    if (!(fabs(got - want) <= 1e-6 * (1 + fabs(want))))
        fail_msg("%.9g, %.9g expected", got, want);
}

static void expect_norm(enum mint_adv_norm norm, const double *r, size_t n, const double *want)
{
    double a[16];
    mint_advantages(norm, MINT_ADV_EPS, 1, r, n, a);
    for (size_t i = 0; i < n; i++)
        near(a[i], want[i]);
}

/* [1,0,0,0]: a leave-one-out deviation (as one peer had it) would give sums far from 0. */
static void worked_numbers(void **state)
{
    (void)state;
    const double r[] = {1, 0, 0, 0};
    expect_norm(MINT_ADV_MEAN, r, 4, (const double[]){.75, -.25, -.25, -.25});
    expect_norm(MINT_ADV_STD, r, 4, (const double[]){1.499997, -.499999, -.499999, -.499999});
    expect_norm(MINT_ADV_LOO, r, 4, (const double[]){1, -1. / 3, -1. / 3, -1. / 3});
    expect_norm(MINT_ADV_DR_GRPO, r, 4, (const double[]){.75, -.25, -.25, -.25});
    expect_norm(MINT_ADV_MAXRL, r, 4, (const double[]){3, -1, -1, -1});
    expect_norm(MINT_ADV_REINFORCE, r, 4, r);
    expect_norm(MINT_ADV_NONE, r, 4, r);
    const double g[] = {.8, .6, .6};
    expect_norm(MINT_ADV_MEAN, g, 3, (const double[]){2. / 15, -1. / 15, -1. / 15});
}

/* The same rewards as other programs have them: eps and ddof are theirs. */
static void deviations_of_the_field(void **state)
{
    (void)state;
    static const struct {
        double eps;
        int ddof;
        double first, others;
    } rows[] = {
        {1e-4, 1, 1.4997000600, -.4999000200}, {1e-6, 1, 1.4999970000, -.4999990000},
        {1e-9, 1, 1.4999999970, -.4999999990}, {1e-8, 0, 1.7320507676, -.5773502559},
        {1e-6, 0, 1.7320468076, -.5773489359},
    };
    for (size_t i = 0; i < MINT_ARRAY_LEN(rows); i++) {
        double a[4];
        mint_advantages(MINT_ADV_STD, rows[i].eps, rows[i].ddof, (const double[]){1, 0, 0, 0}, 4,
                        a);
        assert_true(fabs(a[0] - rows[i].first) < 1e-9);
        for (size_t k = 1; k < 4; k++)
            assert_true(fabs(a[k] - rows[i].others) < 1e-9);
    }
}

static void sums_are_zero(void **state)
{
    (void)state;
    srand(7);
    for (int round = 0; round < 500; round++) {
        double r[16], a[16];
        size_t n = 2 + (size_t)(rand() % 15);
        for (size_t i = 0; i < n; i++)
            r[i] = rand() % 2 ? rand() % 3 / 2.0 : rand() / (double)RAND_MAX;
        for (int norm = MINT_ADV_MEAN; norm <= MINT_ADV_GDPO; norm++) {
            double sum = 0;
            if (norm == MINT_ADV_REINFORCE)
                continue;
            mint_advantages((enum mint_adv_norm)norm, MINT_ADV_EPS, 1, r, n, a);
            for (size_t i = 0; i < n; i++)
                sum += a[i];
            assert_true(fabs(sum) < 1e-9);
        }
    }
}

/* A float32 or float64 mean of equal values is off by an ulp, and dividing by a tiny deviation
 * makes an advantage of order 1 of it. */
static void equal_rewards_are_exactly_zero(void **state)
{
    (void)state;
    static const double values[] = {0.7, 0.1, 0.3, 0.9, 1.0 / 3, 1e300, -2.5};
    static const size_t sizes[] = {1, 2, 3, 6, 7, 8, 12, 16};
    for (size_t v = 0; v < MINT_ARRAY_LEN(values); v++) {
        for (size_t s = 0; s < MINT_ARRAY_LEN(sizes); s++) {
            double r[16], a[16];
            for (size_t i = 0; i < sizes[s]; i++)
                r[i] = values[v];
            for (int norm = MINT_ADV_MEAN; norm <= MINT_ADV_GDPO; norm++) {
                if (norm == MINT_ADV_REINFORCE)
                    continue;
                mint_advantages((enum mint_adv_norm)norm, 1e-9, (int)s % 2, r, sizes[s], a);
                for (size_t i = 0; i < sizes[s]; i++)
                    assert_true(a[i] == 0);
            }
        }
    }
}

static void overlong(void **state)
{
    (void)state;
    assert_true(mint_overlong_penalty(79, 100, 20, 1) == 0);
    assert_true(mint_overlong_penalty(80, 100, 20, 1) == 0);
    assert_true(mint_overlong_penalty(90, 100, 20, 1) == -0.5);
    assert_true(mint_overlong_penalty(100, 100, 20, 1) == -1);
    assert_true(mint_overlong_penalty(130, 100, 20, 1) == -1);
    assert_true(mint_overlong_penalty(90, 100, 20, 0.5) == -0.25);
    assert_true(mint_overlong_penalty(50, 100, 400, 1) == -0.5); /* buffer cut to the limit */
}

/* --- whole groups: one sequence a letter, its reward "1" or "null" and so on */

struct result {
    struct mint_adv_stats stats;
    struct mint_buf out;
    int rc;
    char msg[1100];
    enum mint_adv_fate fate[16];
};

/* One pass over text; writes if res->out is wanted. */
static void walk(const struct mint_adv_opts *o, struct mint_adv_batch *batch, const char *text,
                 struct result *res, bool write)
{
    struct text_reader t;
    struct mint_err err = {0};
    struct mint_adv_writer w = MINT_ADV_WRITER_INIT;
    text_open(&t, text, false);
    while ((res->rc = mint_reader_next(&t.r, &err)) == 1) {
        struct mint_group g;
        struct mint_adv_seq seqs[16];
        res->rc = mint_group_scan(&t.r, &g, &err);
        if (res->rc == 0)
            res->rc = mint_advantage_group(o, batch, &t.r, &g, seqs, &res->stats, &err);
        if (res->rc < 0)
            break;
        for (size_t i = 0; i < g.nseqs; i++)
            res->fate[i] = seqs[i].fate;
        if (write)
            mint_advantage_write(&w, o, batch, &t.r, &g, seqs, &res->out);
    }
    snprintf(res->msg, sizeof(res->msg), "%s", err.msg);
    mint_adv_writer_release(&w);
    text_close(&t);
}

static struct result run(const struct mint_adv_opts *o, const char *text)
{
    struct result res = {.out = MINT_BUF_INIT};
    struct mint_adv_batch batch = {0};
    if (mint_adv_two_passes(o)) {
        walk(o, &batch, text, &res, false);
        assert_int_equal(res.out.len, 0);
        batch.known = true;
        res.stats = (struct mint_adv_stats){0};
        if (res.rc < 0)
            return res;
    }
    walk(o, &batch, text, &res, true);
    uint64_t all = 0;
    for (size_t i = 0; i < MINT_ADV_FATES; i++)
        all += res.stats.fate[i];
    assert_int_equal(all, res.stats.sequences); /* nothing is lost unreported */
    assert_int_equal(batch.tokens, res.stats.datum_tokens);
    return res;
}

/* The advantage at the last position of each Datum, in order; the number of Datums. */
static size_t last_values(const struct mint_buf *b, const char *key, double *out)
{
    size_t n = 0;
    const char *end, *p = b->data;
    while (p && (p = strstr(p, key))) {
        end = strchr(p, ']');
        p = end;
        while (p[-1] != ',' && p[-1] != '[')
            p--;
        out[n++] = strtod(p, NULL);
        p = end;
    }
    return n;
}

#define ADV     "\"advantages\":{\"data\":["
#define WEIGHTS "\"weights\":{\"data\":["
#define S(r)    "{\"tokens\":[1,2],\"logprobs\":[-1,-2],\"reward\":" r "}"
#define G(s)    "{\"id\":\"g\",\"prompt_tokens\":[9,8],\"sequences\":[" s "]}\n"

static const struct mint_adv_opts defaults = {
    .max_staleness = -1, .overlong_factor = 1, .eps = MINT_ADV_EPS, .ddof = 1};

static void expect_advantages(const struct mint_adv_opts *o, const char *text, size_t n,
                              const double *want)
{
    double got[64];
    struct result r = run(o, text);
    if (r.rc < 0)
        fail_msg("%s", r.msg);
    assert_int_equal(last_values(&r.out, ADV, got), n);
    for (size_t i = 0; i < n; i++)
        near(got[i], want[i]);
    mint_buf_release(&r.out);
}

static void one_datum_to_the_byte(void **state)
{
    (void)state;
    struct result r =
        run(&defaults,
            "{\"id\":\"q\",\"prompt_tokens\":[10, 11,12],\"sequences\":[{\"tokens\":[20, 21],"
            "\"logprobs\":[-.5e0,-1.5],\"reward\":1}]}");
    assert_int_equal(r.rc, -1); /* -.5e0 is no JSON */
    r = run(
        &defaults,
        "{\"id\":\"q\",\"prompt_tokens\":[10, 11,12],\"sequences\":[{\"tokens\":[20, 21],"
        "\"logprobs\":[-0.5, -1.5],\"reward\":1.5},{\"tokens\":[],\"logprobs\":[],\"reward\":0}],"
        "\"sampling\":{\"step\":12,\"adapter\":\"sha256:ab\"}}");
    assert_int_equal(r.rc, 0);
    assert_string_equal(
        r.out.data,
        "{\"model_input\":{\"chunks\":[{\"type\":\"encoded_text\",\"tokens\":[10,11,12,20]}]},"
        "\"loss_fn_inputs\":{\"target_tokens\":{\"data\":[11,12,20,21],\"dtype\":\"int64\","
        "\"shape\":[4]},"
        "\"weights\":{\"data\":[0,0,1,1],\"dtype\":\"float32\",\"shape\":[4]},"
        "\"logprobs\":{\"data\":[0,0,-0.5,-1.5],\"dtype\":\"float32\",\"shape\":[4]},"
        "\"advantages\":{\"data\":[0,0,0.75,0.75],\"dtype\":\"float32\",\"shape\":[4]}},"
        "\"meta\":{\"id\":\"q\",\"group\":\"q\",\"sample\":0,\"reward\":1.5,\"step\":12,"
        "\"adapter\":\"sha256:ab\",\"advantage\":0.75,\"norm\":\"mean\"}}\n");
    assert_int_equal(r.fate[1], MINT_ADV_EMPTY);
    mint_buf_release(&r.out);
}

static void one_token_prompt_and_response(void **state)
{
    (void)state;
    struct mint_adv_opts o = defaults;
    o.norm = MINT_ADV_NONE;
    struct result r =
        run(&o, "{\"id\":3,\"prompt_tokens\":[7],\"sequences\":[{\"tokens\":[8],\"logprobs\":[-1],"
                "\"ref_logprobs\":[-2],\"reward\":0.1}]}");
    assert_string_equal(
        r.out.data,
        "{\"model_input\":{\"chunks\":[{\"type\":\"encoded_text\",\"tokens\":[7]}]},"
        "\"loss_fn_inputs\":{\"target_tokens\":{\"data\":[8],\"dtype\":\"int64\",\"shape\":[1]},"
        "\"weights\":{\"data\":[1],\"dtype\":\"float32\",\"shape\":[1]},"
        "\"logprobs\":{\"data\":[-1],\"dtype\":\"float32\",\"shape\":[1]},"
        "\"advantages\":{\"data\":[0.1],\"dtype\":\"float32\",\"shape\":[1]},"
        "\"ref_logprobs\":{\"data\":[-2],\"dtype\":\"float32\",\"shape\":[1]}},"
        "\"meta\":{\"id\":3,\"group\":3,\"sample\":0,\"reward\":0.1,\"advantage\":0.1,"
        "\"norm\":\"none\"}}\n");
    mint_buf_release(&r.out);
}

static void flat_groups(void **state)
{
    (void)state;
    struct mint_adv_opts o = defaults;
    struct result r =
        run(&o, G(S("1") "," S("1")) G(S("0.7") "," S("0.7") "," S("0.7")) G(S("0") "," S("0")));
    assert_int_equal(r.stats.flat_groups, 3);
    assert_int_equal(r.stats.all_good, 2);
    assert_int_equal(r.stats.all_bad, 1);
    assert_int_equal(r.out.len, 0);
    mint_buf_release(&r.out);
    o.keep_flat = true;
    for (o.norm = MINT_ADV_MEAN; o.norm <= MINT_ADV_MAXRL; o.norm++)
        expect_advantages(&o, G(S("0.7") "," S("0.7") "," S("0.7")), 3, (const double[]){0, 0, 0});
    o.keep_flat = false;
    o.norm = MINT_ADV_NONE;
    expect_advantages(&o, G(S("0.7") "," S("0.7")), 2, (const double[]){0.7, 0.7});
}

static void groups_keep_to_themselves(void **state)
{
    (void)state;
    /* Groups of different sizes, and two with one prompt and one id: each has its own mean. */
    expect_advantages(&defaults, G(S("1") "," S("0")) G(S("1") "," S("1") "," S("0")), 5,
                      (const double[]){.5, -.5, 1. / 3, 1. / 3, -2. / 3});
    expect_advantages(&defaults, G(S("1") "," S("0")) G(S("0") "," S("0") "," S("1")), 5,
                      (const double[]){.5, -.5, -1. / 3, -1. / 3, 2. / 3});
}

static void null_rewards_are_left_out(void **state)
{
    (void)state;
    struct result r = run(&defaults, G(S(".8") "," S(".6")));
    assert_int_equal(r.rc, -1); /* ".8" is no JSON */
    expect_advantages(&defaults, G(S("0.8") "," S("0.6") "," S("null") "," S("0.6")), 3,
                      (const double[]){2. / 15, -1. / 15, -1. / 15});
    r = run(&defaults, G(S("1") "," S("null")) G(S("null") "," S("null")));
    assert_int_equal(r.stats.few_groups, 2);
    assert_int_equal(r.stats.fate[MINT_ADV_NULL], 3);
    assert_int_equal(r.stats.fate[MINT_ADV_FEW], 1);
    assert_int_equal(r.stats.rewards, 1);
    mint_buf_release(&r.out);
}

static void errors(void **state)
{
    (void)state;
    struct mint_adv_opts o = defaults;
    struct result r = run(&o, G(S("1")));
    assert_int_equal(r.rc, -1);
    assert_non_null(strstr(r.msg, "a group of one sequence"));
    r = run(&o, G("{\"tokens\":[1],\"logprobs\":[-1]}," S("1")));
    assert_non_null(strstr(r.msg, "sequences[0].reward is missing"));
    r = run(&o, G("{\"tokens\":[1],\"logprobs\":null,\"reward\":1}," S("0")));
    assert_int_equal(r.rc, -1); /* no 0.0 is made up for a missing logprob */
    assert_non_null(strstr(r.msg, "sequences[0].logprobs is missing"));
    assert_int_equal(r.out.len, 0);
    o.max_staleness = 2;
    r = run(&o, G(S("1") "," S("0")));
    assert_non_null(strstr(r.msg, "sampling.step is missing"));
    o = defaults;
    o.overlong_buffer = 3;
    r = run(&o, G(S("1") "," S("0")));
    assert_non_null(strstr(r.msg, "sampling.max_tokens is missing"));
}

static void missing_logprobs(void **state)
{
    (void)state;
    const char *text = G("{\"tokens\":[1],\"logprobs\":null,\"reward\":4}," S("1") "," S("0"));
    struct mint_adv_opts o = defaults;
    o.missing_logprobs = MINT_MISSING_ZERO;
    expect_advantages(&o, text, 3, (const double[]){7. / 3, -2. / 3, -5. / 3});
    o.missing_logprobs = MINT_MISSING_DROP;
    expect_advantages(&o, text, 2, (const double[]){0.5, -0.5});
}

static void truncated_and_empty(void **state)
{
    (void)state;
#define CUT(r)     "{\"tokens\":[1,2],\"logprobs\":[-1,-2],\"stop_reason\":" LENGTH(r)
#define LENGTH(r)  "\"length\",\"reward\":" r "}"
#define NOTHING(r) "{\"tokens\":[],\"logprobs\":[],\"reward\":" r "}"
    struct mint_adv_opts o = defaults;
    expect_advantages(&o, G(S("1") "," CUT("0") "," S("0")), 3,
                      (const double[]){2. / 3, -1. / 3, -1. / 3});
    o.drop_truncated = true;
    expect_advantages(&o, G(S("1") "," CUT("0") "," S("0")), 2, (const double[]){.5, -.5});
    expect_advantages(&o, G(S("1") "," CUT("0")), 0, NULL);
    o = defaults;
    o.mask_truncated = true; /* counts in the mean, and not in the tokens of the batch */
    expect_advantages(&o, G(S("1") "," CUT("0") "," S("0")), 2, (const double[]){2. / 3, -1. / 3});
    o.length = MINT_LEN_BATCH;
    expect_advantages(&o, G(S("1") "," CUT("0")), 1, (const double[]){.25});
    expect_advantages(&o, G(CUT("1") "," CUT("0")), 0, NULL);
    o = defaults;
    expect_advantages(&o, G(S("1") "," NOTHING("0")), 1, (const double[]){.5});
#undef CUT
#undef LENGTH
#undef NOTHING
}

static void staleness(void **state)
{
    (void)state;
#define AT(step)                                                                                \
    "{\"prompt_tokens\":[9],\"sequences\":[" S("1") "," S("0") "],\"sampling\":{\"step\":" step \
                                                               "}}\n"
    struct mint_adv_opts o = defaults;
    o.max_staleness = 2;
    o.step = 12;
    struct result r = run(&o, AT("12") AT("10") AT("9") AT("0"));
    assert_int_equal(r.stats.stale_groups, 2);
    assert_int_equal(r.stats.fate[MINT_ADV_STALE], 4);
    assert_int_equal(r.stats.fate[MINT_ADV_KEPT], 4);
    assert_int_equal(r.stats.mixed, 2);
    mint_buf_release(&r.out);
#undef AT
}

static void penalty_enters_the_reward(void **state)
{
    (void)state;
    struct mint_adv_opts o = defaults;
    o.overlong_buffer = 2;
    o.max_tokens = 3;
    /* both right, but the one of two tokens loses half */
    expect_advantages(&o, G(S("1") ",{\"tokens\":[1],\"logprobs\":[-1],\"reward\":1}"), 2,
                      (const double[]){-.25, .25});
}

static void length_norms(void **state)
{
    (void)state;
    const char *text = G("{\"tokens\":[1,2,3,4],\"logprobs\":[-1,-1,-1,-1],\"reward\":1}," S("0"));
    struct mint_adv_opts o = defaults;
    o.length = MINT_LEN_SEQUENCE;
    expect_advantages(&o, text, 2, (const double[]){.125, -.25});
    o.length = MINT_LEN_CONST;
    o.length_const = 8;
    expect_advantages(&o, text, 2, (const double[]){.0625, -.0625});
    o.length = MINT_LEN_BATCH; /* of 6 tokens */
    expect_advantages(&o, text, 2, (const double[]){.5 / 6, -.5 / 6});
    o.length = MINT_LEN_LIMIT;
    o.max_tokens = 5;
    expect_advantages(&o, text, 2, (const double[]){.1, -.1});
    o.max_tokens = 0;
    struct result r = run(&o, text);
    assert_non_null(strstr(r.msg, "sampling.max_tokens is missing"));
}

/* Tokens, not sequences, are whitened: 1 four times and 0 twice have mean 2/3 and variance 4/15. */
static void reinforce(void **state)
{
    (void)state;
    const char *text = G("{\"tokens\":[1,2,3,4],\"logprobs\":[-1,-1,-1,-1],\"reward\":1}," S("0"));
    struct mint_adv_opts o = defaults;
    o.norm = MINT_ADV_REINFORCE;
    o.eps = 0;
    double s = sqrt(4. / 15);
    expect_advantages(&o, text, 2, (const double[]){1. / 3 / s, -2. / 3 / s});
    o.ddof = 0;
    o.eps = 7. / 9; /* of the variance: 2/9 + 7/9 */
    expect_advantages(&o, text, 2, (const double[]){1. / 3, -2. / 3});
    o.norm = MINT_ADV_REINFORCE_BASE; /* .5 and -.5: the same after whitening */
    expect_advantages(&o, text, 2, (const double[]){1. / 3, -2. / 3});
    /* a batch of one value: nothing to whiten */
    o.norm = MINT_ADV_REINFORCE;
    o.eps = MINT_WHITEN_EPS;
    expect_advantages(&o, G(S("0.7") "," S("0.7")) G(S("0.7")), 3, (const double[]){0, 0, 0});
}

#define SCORED(r, a, b)                                                   \
    "{\"tokens\":[1,2],\"logprobs\":[-1,-2],\"reward\":" r ",\"scores\":" \
    "{\"a\":" a ",\"b\":" b "}}"

/* The sum of scores is 1 for both of the first group: GRPO would see nothing. */
static void gdpo(void **state)
{
    (void)state;
    const char *text = G(SCORED("1", "1", "0") "," SCORED("1", "0", "1") "," SCORED("2", "1", "1"));
    struct mint_adv_opts o = defaults;
    o.norm = MINT_ADV_GDPO;
    o.eps = 0;
    /* a: (1,0,1) -> (1,-2,1)/sqrt 3; b: (-2,1,1)/sqrt 3; sums (-1,-1,2)/sqrt 3, deviation 1 */
    double s3 = sqrt(3);
    expect_advantages(&o, text, 3, (const double[]){-1 / s3, -1 / s3, 2 / s3});
    /* b counts twice: (-3,0,3)/sqrt 3, deviation sqrt 3 */
    const struct mint_adv_score weights[] = {{"a", 1}, {"b", 2}};
    o.scores = weights;
    o.nscores = 2;
    expect_advantages(&o, text, 3, (const double[]){-1, 0, 1});
    o.nscores = 1;
    expect_advantages(&o, G(SCORED("1", "1", "0") "," SCORED("2", "1", "1")), 0,
                      NULL); /* flat in a */
    struct result r = run(&o, G(S("1") "," S("0")));
    assert_non_null(strstr(r.msg, "sequences[0].scores is missing"));
    r = run(&o, G(SCORED("1", "null", "0") "," SCORED("2", "1", "1")));
    assert_non_null(strstr(r.msg, "sequences[0].scores.a"));
    o.nscores = 0;
    r = run(&o, G(S("1") "," S("0")));
    assert_non_null(strstr(r.msg, "no scores"));
}

static void maxrl_wants_rewards_from_0(void **state)
{
    (void)state;
    struct mint_adv_opts o = defaults;
    o.norm = MINT_ADV_MAXRL;
    expect_advantages(&o, G(S("0") "," S("0")) G(S("1") "," S("0")), 2, (const double[]){1, -1});
    struct result r = run(&o, G(S("-1") "," S("1")));
    assert_non_null(strstr(r.msg, "a reward of -1"));
}

#define KL(q0, q1, f0, f1, r)                                                          \
    "{\"tokens\":[1,2],\"logprobs\":[" q0 "," q1 "],\"ref_logprobs\":[" f0 "," f1 "]," \
    "\"teacher_logprobs\":[" f0 "," f1 "],\"reward\":" r "}"

/* Values at both positions of both Datums, after the zero of the prompt. */
static void expect_tokens(const struct mint_adv_opts *o, const char *text, const double want[4])
{
    struct result r = run(o, text);
    if (r.rc < 0)
        fail_msg("%s", r.msg);
    const char *p = r.out.data;
    for (size_t i = 0; i < 4; i += 2) {
        char *end;
        p = strstr(p, ADV "0,");
        assert_non_null(p);
        near(strtod(p + strlen(ADV "0,"), &end), want[i]);
        near(strtod(end + 1, &end), want[i + 1]);
        p = end;
    }
    mint_buf_release(&r.out);
}

static void kl_in_the_advantages(void **state)
{
    (void)state;
    /* q - f: 0.5 1 and -0.25 0.75, of mean 0.5 */
    const char *text =
        G(KL("-1", "-1", "-1.5", "-2", "1") "," KL("-1", "-1", "-0.75", "-1.75", "0"));
    struct mint_adv_opts o = defaults;
    o.kl_coef = 0.1;
    expect_tokens(&o, text, (const double[]){.45, .4, -.475, -.575});
    o.kl_discount = 0.5;
    expect_tokens(&o, text, (const double[]){.4, .4, -.5125, -.575});
    o.kl_discount = 0;
    o.kl_centre = true;
    expect_tokens(&o, text, (const double[]){.5, .45, -.425, -.525});
    o.clip = 0.45;
    expect_tokens(&o, text, (const double[]){.45, .45, -.425, -.45});
    o = defaults;
    o.teacher_coef = 2;
    expect_tokens(&o, text, (const double[]){-.5, -1.5, 0, -2});
    o = defaults;
    o.kl_coef = 1;
    struct result r = run(&o, G(S("1") "," S("0")));
    assert_non_null(strstr(r.msg, "sequences[0].ref_logprobs is missing"));
    assert_non_null(strstr(r.msg, "--as ref_logprobs"));
}

static void distillation_needs_no_reward(void **state)
{
    (void)state;
#define T(lp, reward) "{\"tokens\":[1],\"logprobs\":[-1],\"teacher_logprobs\":[" lp "]" reward "}"
    struct mint_adv_opts o = defaults;
    o.teacher_coef = 1;
    expect_advantages(&o, G(T("-3", "")) G(T("-0.5", "") "," T("-1", "")), 3,
                      (const double[]){-2, .5, 0});
    expect_advantages(&o, G(T("-3", ",\"reward\":0") "," T("-1", ",\"reward\":0")), 2,
                      (const double[]){-2, 0});
    expect_advantages(&o, G(T("-3", ",\"reward\":1") "," T("-1", ",\"reward\":null")), 1,
                      (const double[]){-2}); /* left alone: no baseline, so 0, never the reward */
    struct result r = run(&o, G(T("0.5", "")));
    assert_non_null(strstr(r.msg, "a logprob is at most 0"));
#undef T
}

static void clipping(void **state)
{
    (void)state;
    struct mint_adv_opts o = defaults;
    o.clip = 0.3;
    o.length = MINT_LEN_CONST; /* after the clip */
    o.length_const = 2;
    expect_advantages(&o, G(S("1") "," S("0") "," S("0") "," S("0")), 4,
                      (const double[]){.15, -.125, -.125, -.125});
    struct result r = run(&o, G(S("1") "," S("0") "," S("0") "," S("0")));
    assert_int_equal(r.stats.clipped, 2); /* tokens */
    mint_buf_release(&r.out);
}

/* Nothing that is no number gets into a file. */
static void always_finite(void **state)
{
    (void)state;
    struct mint_adv_opts o = defaults;
    struct result r = run(&o, G(S("1e300") "," S("0")));
    assert_int_equal(r.rc, -1);
    assert_non_null(strstr(r.msg, "sequences[0]: its advantage is not finite"));
    r = run(&o, G(S("1.7e308") "," S("1.6e308") "," S("-1.7e308")));
    assert_int_equal(r.rc, -1);
    o.eps = 0;
    o.keep_flat = true;
    for (o.norm = MINT_ADV_MEAN; o.norm < MINT_ADV_NONE; o.norm++)
        expect_advantages(&o, G(SCORED("0", "0.1", "0.7") "," SCORED("0", "0.1", "0.7")), 2,
                          (const double[]){0, 0});
}

/* The others of the second group were filtered: no baseline is left, so no raw reward is sent. */
static void left_alone(void **state)
{
    (void)state;
    struct mint_adv_opts o = defaults;
    for (o.norm = MINT_ADV_MEAN; o.norm <= MINT_ADV_MAXRL; o.norm++) {
        o.keep_flat = o.norm % 2;
        struct result r = run(&o, G(S("1") "," S("0") "," S("0")) G(S("1") "," S("null")));
        assert_int_equal(r.stats.fate[MINT_ADV_KEPT], 3);
        assert_int_equal(r.stats.fate[MINT_ADV_FEW], 1);
        mint_buf_release(&r.out);
    }
}

static void the_rule_is_in_meta(void **state)
{
    (void)state;
    const char *text =
        G(KL("-1", "-1", "-1.5", "-2", "1") "," KL("-1", "-1", "-0.75", "-1.75", "0"));
    struct mint_adv_opts o = defaults;
    o.norm = MINT_ADV_STD;
    o.like = "trl";
    o.eps = 1e-4;
    struct result r = run(&o, text);
    assert_non_null(strstr(r.out.data, ",\"norm\":\"std\",\"like\":\"trl\",\"eps\":0.0001,"
                                       "\"ddof\":1}}"));
    mint_buf_release(&r.out);
    o = defaults;
    o.kl_coef = 0.1;
    o.kl_centre = true;
    o.clip = 3;
    o.length = MINT_LEN_BATCH;
    r = run(&o, text);
    assert_non_null(strstr(r.out.data, ",\"advantage\":0.475,\"divisor\":4,\"norm\":\"mean\","
                                       "\"kl_penalty_coef\":0.1,\"kl_discount_factor\":0,"
                                       "\"kl_center\":\"batch\",\"kl_mean\":0.5,\"clip\":3,"
                                       "\"length_norm\":\"batch\"}}"));
    mint_buf_release(&r.out);
}

static void sft(void **state)
{
    (void)state;
    struct mint_adv_opts o = defaults;
    o.sft = true;
    double w[8];
    /* no reward, no logprobs, a group of one */
    struct result r = run(
        &o, "{\"prompt_tokens\":[9],\"sequences\":[{\"tokens\":[1,2]}]}\n" G(S("1") "," S("null")));
    assert_int_equal(r.rc, 0);
    assert_int_equal(last_values(&r.out, WEIGHTS, w), 3);
    assert_true(w[0] == 1 && w[2] == 1);
    assert_null(strstr(r.out.data, "advantages"));
    assert_null(strstr(r.out.data, "logprobs"));
    mint_buf_release(&r.out);
    o.has_min_reward = true;
    o.min_reward = 0.5;
    o.length = MINT_LEN_SEQUENCE;
    r = run(&o, G(S("1") "," S("0.4") "," S("null") "," S("0.5")));
    assert_int_equal(last_values(&r.out, WEIGHTS, w), 2);
    assert_true(w[0] == 0.5);
    assert_int_equal(r.stats.fate[MINT_ADV_LOW], 1);
    assert_int_equal(r.stats.fate[MINT_ADV_NULL], 1);
    mint_buf_release(&r.out);
    r = run(&o, "{\"prompt_tokens\":[9],\"sequences\":[{\"tokens\":[1,2]}]}\n");
    assert_non_null(strstr(r.msg, "reward is missing"));
}

/* What is written reads back as the Datum it should be, at lengths around the doubling of runs. */
static void written_datums_read_back(void **state)
{
    (void)state;
    for (size_t p = 1; p < 40; p += 3) {
        for (size_t q = 1; q < 40; q += 5) {
            struct mint_buf b = MINT_BUF_INIT;
            struct mint_datum d;
            struct mint_err err;
            struct text_reader t;
            mint_buf_adds(&b, "{\"prompt_tokens\":[");
            for (size_t i = 0; i < p; i++)
                mint_buf_addf(&b, "%s%zu", i ? "," : "", i);
            mint_buf_adds(&b, "],\"sequences\":[{\"reward\":0.1,\"tokens\":[");
            for (size_t i = 0; i < q; i++)
                mint_buf_addf(&b, "%s%zu", i ? ", " : "", 100 + i);
            mint_buf_adds(&b, "],\"logprobs\":[");
            for (size_t i = 0; i < q; i++)
                mint_buf_addf(&b, "%s-%zu.5", i ? " ,\t" : "", i);
            mint_buf_adds(&b, "]}]}");
            struct mint_adv_opts o = defaults;
            o.norm = MINT_ADV_NONE;
            struct result r = run(&o, b.data);
            assert_int_equal(r.rc, 0);
            text_open(&t, r.out.data, false);
            assert_int_equal(mint_reader_next(&t.r, &err), 1);
            assert_int_equal(mint_datum_read(&t.r, 0, &d, &err), 0);
            assert_int_equal(d.n, p + q - 1);
            for (size_t i = 0; i < d.n; i++) {
                bool resp = i + 1 >= p;
                size_t k = i + 1 - p;
                assert_int_equal(d.target[i], resp ? 100 + k : i + 1);
                assert_int_equal(d.input[i], i < p ? i : 100 + i - p);
                assert_true(d.weights[i] == (resp ? 1.0f : 0.0f));
                assert_true(d.advantages[i] == (resp ? 0.1f : 0.0f));
                assert_true(d.logprobs[i] == (resp ? -(float)k - 0.5f : 0.0f));
            }
            text_close(&t);
            mint_buf_release(&b);
            mint_buf_release(&r.out);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(worked_numbers),
        cmocka_unit_test(deviations_of_the_field),
        cmocka_unit_test(sums_are_zero),
        cmocka_unit_test(equal_rewards_are_exactly_zero),
        cmocka_unit_test(overlong),
        cmocka_unit_test(one_datum_to_the_byte),
        cmocka_unit_test(one_token_prompt_and_response),
        cmocka_unit_test(flat_groups),
        cmocka_unit_test(groups_keep_to_themselves),
        cmocka_unit_test(null_rewards_are_left_out),
        cmocka_unit_test(errors),
        cmocka_unit_test(missing_logprobs),
        cmocka_unit_test(truncated_and_empty),
        cmocka_unit_test(staleness),
        cmocka_unit_test(penalty_enters_the_reward),
        cmocka_unit_test(length_norms),
        cmocka_unit_test(reinforce),
        cmocka_unit_test(gdpo),
        cmocka_unit_test(maxrl_wants_rewards_from_0),
        cmocka_unit_test(kl_in_the_advantages),
        cmocka_unit_test(distillation_needs_no_reward),
        cmocka_unit_test(clipping),
        cmocka_unit_test(always_finite),
        cmocka_unit_test(left_alone),
        cmocka_unit_test(the_rule_is_in_meta),
        cmocka_unit_test(sft),
        cmocka_unit_test(written_datums_read_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

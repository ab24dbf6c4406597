/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#include "loss.h"

static struct mint_loss_out term(enum mint_loss loss, float lp, float q, float adv, float weight)
{
    bool cispo = loss == MINT_LOSS_CISPO;
    struct mint_loss_opts o = {.loss = loss, .beta = 0.05f};
    struct mint_loss_in in = {.lp = lp, .p = q, .adv = adv, .weight = weight};
    struct mint_loss_out out;
    in.clip_low = cispo ? 0.0f : 0.8f;
    in.clip_high = cispo ? 4.0f : 1.2f;
    mint_loss_term(&o, &in, &out);
    return out;
}

static void near(double got, double want)
{
    if (!(fabs(got - want) <= 2e-6 * fmax(1.0, fabs(want))))
        fail_msg("%.9g, expected %.9g", got, want);
}

/* The published formulas at lp -1, q -1.5, A 2: sums, absolute clip bounds, one-sided cispo. */
static void known_values(void **state)
{
    (void)state;
    near(term(MINT_LOSS_IS, -1.0f, -1.5f, 2.0f, 1.0f).loss, -3.297443);
    near(term(MINT_LOSS_PPO, -1.0f, -1.5f, 2.0f, 1.0f).loss, -2.4);
    near(term(MINT_LOSS_PPO, -1.0f, -1.5f, -2.0f, 1.0f).loss, 3.297443);
    near(term(MINT_LOSS_CISPO, -1.0f, -1.5f, 2.0f, 1.0f).loss, 3.297443);
    near(term(MINT_LOSS_DRO, -1.0f, -1.5f, 2.0f, 1.0f).loss, 2.00625);
    near(term(MINT_LOSS_CE, -1.0f, 0.0f, 0.0f, 1.0f).loss, 1.0);
}

static void on_policy_ratio_is_exactly_one(void **state)
{
    (void)state;
    for (float lp = -20.0f; lp < 0.0f; lp += 0.37f) {
        struct mint_loss_out o = term(MINT_LOSS_IS, lp, lp, 0.3f, 1.0f);
        assert_true(o.ratio == 1.0f);
        assert_true(o.dlp == -0.3f);
    }
}

/* A position with weight 0 counts for nothing, whatever it holds. */
static void weight_zero(void **state)
{
    (void)state;
    const float odd[] = {NAN, INFINITY, -INFINITY, -1e10f};
    for (int loss = 0; mint_loss_names[loss]; loss++)
        for (size_t i = 0; i < 4; i++) {
            struct mint_loss_out o = term((enum mint_loss)loss, odd[i], odd[i], odd[i], 0.0f);
            assert_true(o.loss == 0.0 && o.dlp == 0.0f && o.kl == 0.0);
            assert_false(o.clipped || o.clamped);
        }
}

/* exp(100) would be infinite: the log-ratio is cut to 20, counted, and has no slope there. */
static void log_ratio_is_clamped(void **state)
{
    (void)state;
    struct mint_loss_out o = term(MINT_LOSS_IS, -1.0f, -101.0f, 1.0f, 1.0f);
    near((double)o.ratio, 4.85165195e8);
    near(o.loss, -4.85165195e8);
    assert_true(o.clamped && o.dlp == 0.0f);
    o = term(MINT_LOSS_PPO, -1.0f, -101.0f, 1.0f, 1.0f);
    near(o.loss, -1.2);
    o = term(MINT_LOSS_PPO, -1.0f, -101.0f, -1.0f, 1.0f);
    assert_true(isfinite(o.loss) && isfinite(o.dlp));
}

/* The objective as a function of lp with what sg() holds fixed, in double. */
static double objective(enum mint_loss loss, double lp, double at, double q, double A)
{
    double r = exp(lp - q), held = fmin(fmax(exp(at - q), 0.0), 4.0);
    double clipped = fmin(fmax(r, 0.8), 1.2);
    switch (loss) {
    case MINT_LOSS_IS:
        return -r * A;
    case MINT_LOSS_PPO:
        return -fmin(r * A, clipped * A);
    case MINT_LOSS_CISPO:
        return -held * lp * A;
    case MINT_LOSS_DRO:
        return -(lp * A - 0.025 * (lp - q) * (lp - q));
    default:
        return -lp;
    }
}

static void derivatives(void **state)
{
    (void)state;
    const float qs[] = {-1.1f, -2.0f, -0.4f, -3.1f}, As[] = {1.5f, -0.7f};
    for (int loss = 0; loss <= MINT_LOSS_CE; loss++)
        for (size_t i = 0; i < 4; i++)
            for (size_t j = 0; j < 2; j++) {
                float lp = -1.05f;
                double h = 1e-5, at = (double)lp, q = (double)qs[i], A = (double)As[j];
                double up = objective((enum mint_loss)loss, at + h, at, q, A);
                double down = objective((enum mint_loss)loss, at - h, at, q, A);
                double d = (double)term((enum mint_loss)loss, lp, qs[i], As[j], 0.5f).dlp;
                if (fabs(d - 0.5 * (up - down) / (2 * h)) > 1e-4)
                    fail_msg("%s: slope %g, expected %g", mint_loss_names[loss], d,
                             0.5 * (up - down) / (2 * h));
            }
}

static void kl_terms(void **state)
{
    (void)state;
    const double want[] = {0.5, 0.125, 0.10653066}, slope[] = {1.0, 0.5, 0.39346934};
    for (int k = 0; k < 3; k++) {
        struct mint_loss_opts o = {
            .loss = MINT_LOSS_CE, .kl_coef = 0.1f, .kl = (enum mint_kl)k}; /* ref - lp = -0.5 */
        struct mint_loss_in in = {.lp = -1.0f, .ref = -1.5f, .weight = 2.0f};
        struct mint_loss_out out;
        mint_loss_term(&o, &in, &out);
        near(out.kl, 2 * want[k]);
        near(out.loss, 2 * (1.0 + 0.1 * want[k]));
        near((double)out.dlp, 2 * (-1.0 + 0.1 * slope[k]));
    }
}

static float lp_of(size_t i)
{
    return -1.0f - 0.3f * (float)(i % 4);
}

/* A datum of n positions: ratios to q alternate around 1, to old around 1.1. */
struct one {
    float lp[6], q[6], adv[6], old[6], weight[6], entropy[6], ref[6], dlp[6], dent[6];
};

static struct mint_loss_rows make_one(struct one *d, float adv)
{
    for (size_t i = 0; i < 6; i++) {
        d->lp[i] = lp_of(i);
        d->q[i] = d->lp[i] + (i % 2 ? 0.2f : -0.1f);
        d->old[i] = d->lp[i] - 0.1f;
        d->adv[i] = adv;
        d->weight[i] = 1.0f;
        d->entropy[i] = 2.0f;
        d->ref[i] = d->lp[i] - 0.5f;
    }
    return (struct mint_loss_rows){.n = 6,
                                   .lp = d->lp,
                                   .entropy = d->entropy,
                                   .q = d->q,
                                   .adv = d->adv,
                                   .old = d->old,
                                   .ref = d->ref,
                                   .weight = d->weight};
}

/* gspo: one ratio for all, from the mean; every position has its slope. */
static void gspo_has_one_ratio(void **state)
{
    (void)state;
    struct mint_loss_opts o = {.loss = MINT_LOSS_GSPO, .clip_low = 0.5f, .clip_high = 2.0f};
    struct one d;
    struct mint_loss_rows r = make_one(&d, 1.5f);
    struct mint_policy_sums s = {0};
    double loss = 0, ratio = exp(-0.05);
    mint_loss_datum(&o, &r, d.dlp, d.dent, &loss, &s);
    near(loss, -6 * ratio * 1.5);
    for (size_t i = 0; i < 6; i++)
        near((double)d.dlp[i], -ratio * 1.5);
    near(s.ratio_max, ratio);
    near(s.ratio_min, ratio);
}

/* Where A < 0 the loss is at most -C A, and has no slope there. */
static void dual_clip(void **state)
{
    (void)state;
    struct mint_loss_opts o = {.loss = MINT_LOSS_PPO, .dual_clip = 3.0f};
    struct mint_loss_in in = {.lp = -1, .weight = 1, .clip_low = 0.8f, .clip_high = 1.2f};
    struct mint_loss_out out;
    in.p = -2.5f; /* r = e^1.5 = 4.48 */
    in.adv = -2.0f;
    mint_loss_term(&o, &in, &out);
    near(out.loss, 6.0);
    assert_true(out.dual && out.dlp == 0.0f);
    in.p = -2.0f; /* e = 2.72 < 3 */
    mint_loss_term(&o, &in, &out);
    near(out.loss, 2.0 * exp(1.0));
    assert_false(out.dual);
    in.p = -2.5f;
    in.adv = 2.0f;
    mint_loss_term(&o, &in, &out);
    near(out.loss, -2.4);
    assert_false(out.dual);
}

/* omega by kind for x = e^0.3 = 1.35 (even) and 1 (odd): old against q. */
static void corrections(void **state)
{
    (void)state;
    static const struct {
        enum mint_correction kind;
        enum mint_proximal proximal;
        float low, high;
        double even, odd; /* omega */
        int64_t masked, truncated, datums;
    } cases[] = {
        {MINT_CORRECTION_TIS, MINT_PROXIMAL_PARENT, 0, 1.2f, 1.0, 0.740818221, 0, 0, 0},
        {MINT_CORRECTION_TIS, MINT_PROXIMAL_PARENT, 0, 0.9f, 0.9, 0.740818221, 0, 3, 0},
        {MINT_CORRECTION_ICEPOP, MINT_PROXIMAL_PARENT, 0.8f, 5, 1.0, 0.0, 3, 0, 0},
        {MINT_CORRECTION_ICEPOP, MINT_PROXIMAL_SAMPLER, 0.85f, 5, 1.0, 0.0, 3, 0, 0},
        {MINT_CORRECTION_SEQ_TIS, MINT_PROXIMAL_PARENT, 0, 2, 0.40656966, 0.40656966, 0, 0, 0},
        {MINT_CORRECTION_SEQ_TIS, MINT_PROXIMAL_PARENT, 0, 0.25f, 0.25, 0.25, 0, 6, 0},
        {MINT_CORRECTION_SEQ_MIS, MINT_PROXIMAL_PARENT, 0, 1.1f, 0.40656966, 0.40656966, 0, 0, 0},
        {MINT_CORRECTION_SEQ_MIS, MINT_PROXIMAL_PARENT, 0.5f, 1.1f, 0, 0, 6, 0, 1},
        {MINT_CORRECTION_SEQ_MIS, MINT_PROXIMAL_SAMPLER, 0, 1.1f, 1, 1, 0, 0, 0},
        {MINT_CORRECTION_SEQ_MIS, MINT_PROXIMAL_SAMPLER, 0, 0.7f, 0, 0, 6, 0, 1},
        {MINT_CORRECTION_GEO_MIS, MINT_PROXIMAL_PARENT, 0.8f, 0.9f, 1, 1, 0, 0, 0},
        {MINT_CORRECTION_GEO_MIS, MINT_PROXIMAL_PARENT, 0.9f, 1.1f, 0, 0, 6, 0, 1},
    };
    for (size_t c = 0; c < MINT_ARRAY_LEN(cases); c++) {
        struct mint_loss_opts o = {.loss = MINT_LOSS_IS,
                                   .proximal = cases[c].proximal,
                                   .correction = cases[c].kind,
                                   .correction_low = cases[c].low,
                                   .correction_high = cases[c].high};
        bool parent = o.proximal == MINT_PROXIMAL_PARENT;
        struct one d;
        struct mint_loss_rows r = make_one(&d, 1.0f);
        struct mint_policy_sums s = {0};
        double loss = 0;
        mint_loss_datum(&o, &r, d.dlp, d.dent, &loss, &s);
        for (size_t i = 0; i < 6; i++) {
            double ratio = parent ? exp(0.1) : exp(i % 2 ? -0.2 : 0.1);
            near((double)d.dlp[i], -ratio * (i % 2 ? cases[c].odd : cases[c].even));
        }
        near(s.omega, 3 * (cases[c].even + cases[c].odd));
        assert_int_equal(s.masked, cases[c].masked);
        assert_int_equal(s.truncated, cases[c].truncated);
        assert_int_equal(s.masked_datums, cases[c].datums);
    }
}

/* A mask is of the policy's term alone: KL and bonus stay. */
static void other_terms_are_not_masked(void **state)
{
    (void)state;
    struct mint_loss_opts o = {.loss = MINT_LOSS_IS,
                               .kl_coef = 2.0f,
                               .kl = MINT_KL_K1,
                               .entropy_coef = 0.25f,
                               .correction = MINT_CORRECTION_ICEPOP,
                               .correction_low = 5.0f,
                               .correction_high = 6.0f};
    struct one d;
    struct mint_loss_rows r = make_one(&d, 1.0f);
    struct mint_policy_sums s = {0};
    double loss = 0;
    mint_loss_datum(&o, &r, d.dlp, d.dent, &loss, &s);
    near(loss, 6 * (2.0 * 0.5 - 0.25 * 2.0));
    for (size_t i = 0; i < 6; i++) {
        near((double)d.dlp[i], 2.0);
        near((double)d.dent[i], -0.25);
    }
}

/* -log sigmoid and its slopes, also where exp would overflow. */
static void pairs(void **state)
{
    (void)state;
    static const float betas[] = {0.1f, 1.0f, 100.0f};
    for (size_t b = 0; b < MINT_ARRAY_LEN(betas); b++)
        for (int flip = 0; flip < 2; flip++) {
            struct mint_loss_opts o = {.loss = MINT_LOSS_DPO, .beta = betas[b]};
            struct one d[2];
            struct mint_loss_rows in[2] = {make_one(&d[0], 0), make_one(&d[1], 0)};
            float *dlp[2] = {d[0].dlp, d[1].dlp};
            struct mint_policy_sums s = {0};
            double loss = 0;
            in[!flip].n = 2;                        /* gains 3 and 1 */
            d[0].weight[1] = d[1].weight[1] = 0.5f; /* 2.75 and 0.75 */
            mint_loss_pair(&o, in, dlp, &loss, &s);
            double m = (flip ? -2.0 : 2.0) * (double)betas[b];
            double want = m > -30 ? log1p(exp(-m)) : -m, past = 1 / (1 + exp(m));
            near(loss, want);
            near((double)d[0].dlp[0], -(double)betas[b] * past);
            near((double)d[0].dlp[1], -(double)betas[b] * past / 2);
            near((double)d[1].dlp[0], (double)betas[b] * past);
            assert_int_equal(s.pairs, 1);
            assert_int_equal(s.wins, !flip);
            near(s.margin, m);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(known_values),
        cmocka_unit_test(on_policy_ratio_is_exactly_one),
        cmocka_unit_test(weight_zero),
        cmocka_unit_test(log_ratio_is_clamped),
        cmocka_unit_test(derivatives),
        cmocka_unit_test(kl_terms),
        cmocka_unit_test(gspo_has_one_ratio),
        cmocka_unit_test(dual_clip),
        cmocka_unit_test(corrections),
        cmocka_unit_test(other_terms_are_not_masked),
        cmocka_unit_test(pairs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

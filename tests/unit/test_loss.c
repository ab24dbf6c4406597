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
    struct mint_loss_in in = {.lp = lp, .q = q, .adv = adv, .weight = weight};
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
    for (int loss = 0; mint_loss_names[loss]; loss++)
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(known_values), cmocka_unit_test(on_policy_ratio_is_exactly_one),
        cmocka_unit_test(weight_zero),  cmocka_unit_test(log_ratio_is_clamped),
        cmocka_unit_test(derivatives),  cmocka_unit_test(kl_terms),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

// SPDX-License-Identifier: Apache-2.0
/* cases_optim.cpp: the optimiser step and the sum of squares: Adam has the bits of the CPU backend.
 */
#include "kernel_test.h"

namespace
{

typedef std::vector<float> Floats;

struct mint_err err;

void adam(size_t n, const mint_k_adam_step &a)
{
    struct mint_dev *d = kt::cpu(MINT_PRECISION_BF16);
    const mint_adam b = {a.lr,           a.beta1, a.beta2, a.eps,
                         a.weight_decay, a.bias1, a.bias2, a.grad_scale};
    Floats p = kt::normal(n), m = kt::normal(n, 0.1f), v = kt::normal(n), g = kt::normal(n);
    std::vector<double> want(n);
    for (size_t i = 0; i < n; i++) {
        double x = (double)g[i] * a.grad_scale;
        v[i] = v[i] * v[i] * 0.01f;
        double m1 = (double)a.beta1 * m[i] + (1 - (double)a.beta1) * x;
        double v1 = (double)a.beta2 * v[i] + (1 - (double)a.beta2) * x * x;
        want[i] = p[i] * (1 - (double)a.lr * a.weight_decay) -
                  a.lr * (m1 / a.bias1) / (sqrt(v1 / a.bias2) + a.eps);
    }
    Dev<float> dp(p), dm(m), dv(v), dg(g);
    mint_k_adam(dp.p, dm.p, dv.p, dg.p, (int64_t)n, &a, nullptr);
    d->ops->adam(d, p.data(), m.data(), v.data(), g.data(), (int64_t)n, &b, &err);
    double e = kt::error(want, std::vector<double>(p.begin(), p.end()));
    kt::bits(dp.get());
    CHECK(e < 1e-6, "%zu: %g from the truth", n, e);
    CHECK(dp.get() == p && dm.get() == m && dv.get() == v, "%zu: the bits of the CPU", n);
    CHECK(dg.get() == g, "the gradient stays");
}

double sum_of(const Floats &g)
{
    Dev<float> d(g);
    Dev<double> out(1), parts((size_t)MINT_K_SUMSQ_PARTS(g.size()));
    mint_k_sumsq(out.p, parts.p, d.p, (int64_t)g.size(), nullptr);
    parts.get(); /* its guards */
    return out.get()[0];
}

void sumsq(size_t n)
{
    struct mint_dev *d = kt::cpu(MINT_PRECISION_BF16);
    Floats g = kt::normal(n);
    long double want = 0;
    double twin;
    bool finite;
    for (float x : g)
        want += (long double)x * x;
    double got = sum_of(g);
    kt::bits_of(&got, sizeof got);
    d->ops->sumsq(d, &twin, &finite, g.data(), (int64_t)n, &err);
    CHECK(fabs(got - (double)want) <= 1e-13 * got, "%zu: %.17g, %.17g", n, got, (double)want);
    CHECK(fabs(got - twin) <= 1e-13 * got, "%zu: %.17g, the CPU %.17g", n, got, twin);
}

} // namespace

CASE(optim_adam)
{
    adam(1, {1e-3f, 0.9f, 0.999f, 1e-8f, 0.0f, 0.1f, 0.001f, 1});
    adam(1023, {1e-3f, 0.9f, 0.95f, 1e-8f, 0.1f, 0.271f, 0.1426f, 0.3f});
    adam(2049, {2e-2f, 0.0f, 0.5f, 1e-3f, 0.01f, 1, 0.5f, 1});
}

CASE(optim_sumsq)
{
    for (size_t n : {1, 5, 1024, MINT_K_SUMSQ_PIECE, MINT_K_SUMSQ_PIECE + 3})
        if (!kt::quick || n < 5000)
            sumsq(n);
    Dev<double> out(1);
    mint_k_sumsq(out.p, nullptr, nullptr, 0, nullptr);
    CHECK(out.get()[0] == 0, "nothing");
}

CASE(optim_sumsq_tells_what_is_not_finite)
{
    Floats g = kt::normal(1300);
    for (float bad : {INFINITY, -INFINITY, NAN}) {
        Floats h = g;
        h[1234] = bad;
        CHECK(!std::isfinite(sum_of(h)), "%g", (double)bad);
    }
    CHECK(std::isfinite(sum_of(Floats(1300, 3.4e38f))), "the greatest values");
    CHECK(sum_of({1e-30f, 1e-40f}) > 0, "the least values");
}

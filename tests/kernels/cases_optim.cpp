// SPDX-License-Identifier: Apache-2.0
/* cases_optim.cpp: the optimiser step and the sum of squares: Adam has the bits of the CPU backend.
 */
#include "kernel_test.h"

namespace
{

typedef std::vector<float> Floats;

struct mint_err err;

/* A list of tensors that are parts of an array of n: from cut[i] on. Some are empty, and not all
 * are aligned. */
struct Parts {
    std::vector<size_t> first;
    int64_t blocks = 0;
    Parts(size_t n) : first{0, 0, n / 8 * 4, n - n / 5, n - n / 5, n}
    {
    }
    size_t count() const
    {
        return first.size() - 1;
    }
    int64_t size(size_t i) const
    {
        return (int64_t)(first[i + 1] - first[i]);
    }
    int64_t place(size_t i, int64_t step)
    {
        int64_t before = blocks;
        blocks += (size(i) + step - 1) / step;
        return before;
    }
};

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
    Parts parts(n);
    std::vector<mint_k_adam_tensor> list;
    for (size_t i = 0; i < parts.count(); i++) {
        size_t at = parts.first[i];
        list.push_back({dp.p + at, dm.p + at, dv.p + at, dg.p + at, parts.size(i),
                        parts.place(i, MINT_K_LIST_STEP)});
    }
    Dev<mint_k_adam_tensor> on(list);
    mint_k_adam(on.p, (int64_t)list.size(), parts.blocks, &a, nullptr);
    const mint_adam_tensor whole = {p.data(), m.data(), v.data(), g.data(), (int64_t)n};
    d->ops->adam(d, &whole, 1, &b, &err);
    double e = kt::error(want, std::vector<double>(p.begin(), p.end()));
    kt::bits(dp.get());
    CHECK(e < 1e-6, "%zu: %g from the truth", n, e);
    CHECK(dp.get() == p && dm.get() == m && dv.get() == v, "%zu: the bits of the CPU", n);
    CHECK(dg.get() == g, "the gradient stays");
}

std::vector<double> sums_of(const Floats &g, Parts parts)
{
    Dev<float> d(g);
    std::vector<mint_k_tensor> list;
    for (size_t i = 0; i < parts.count(); i++)
        list.push_back(
            {d.p + parts.first[i], nullptr, parts.size(i), parts.place(i, MINT_K_SUMSQ_PIECE)});
    Dev<mint_k_tensor> on(list);
    Dev<double> out(list.size()), pieces((size_t)parts.blocks);
    mint_k_sumsq(out.p, pieces.p, on.p, (int64_t)list.size(), parts.blocks, nullptr);
    pieces.get(); /* its guards */
    return out.get();
}

double sum_of(const Floats &g)
{
    Parts whole(g.size());
    whole.first = {0, g.size()};
    return sums_of(g, whole)[0];
}

void sumsq(size_t n)
{
    struct mint_dev *d = kt::cpu(MINT_PRECISION_BF16);
    Floats g = kt::normal(n);
    Parts parts(n);
    std::vector<double> got = sums_of(g, parts);
    kt::bits(got);
    for (size_t i = 0; i < parts.count(); i++) {
        Floats part(g.begin() + (long)parts.first[i], g.begin() + (long)parts.first[i + 1]);
        const mint_adam_tensor t = {nullptr, nullptr, nullptr, part.data(), parts.size(i)};
        long double want = 0;
        double twin;
        for (float x : part)
            want += (long double)x * x;
        d->ops->sumsq(d, &twin, &t, 1, &err);
        CHECK(fabs(got[i] - (double)want) <= 1e-13 * got[i], "%zu: %.17g, %.17g", n, got[i],
              (double)want);
        CHECK(fabs(got[i] - twin) <= 1e-13 * got[i], "%zu: %.17g, CPU %.17g", n, got[i], twin);
        CHECK(got[i] == sum_of(part), "%zu: part %zu alone", n, i);
    }
}

/* Two sums: ((0 + 1) + (2 + 3)) and 4 + 5, of leaves of n and m. */
void fold(size_t n, size_t m)
{
    struct mint_dev *d = kt::cpu(MINT_PRECISION_BF16);
    const size_t at[] = {0, n, 2 * n, 3 * n, 4 * n, 4 * n + m}, all = 4 * n + 2 * m;
    const int pairs[][2] = {{0, 1}, {2, 3}, {0, 2}, {4, 5}};
    Floats x = kt::normal(all);
    Dev<float> dx(x);
    std::vector<mint_k_addition> add;
    std::vector<mint_addition> host;
    for (auto &p : pairs) {
        add.push_back({dx.p + at[p[0]], dx.p + at[p[1]]});
        host.push_back({x.data() + at[p[0]], x.data() + at[p[1]]});
    }
    const int64_t blocks = ((int64_t)n + MINT_K_LIST_STEP - 1) / MINT_K_LIST_STEP;
    const int64_t more = ((int64_t)m + MINT_K_LIST_STEP - 1) / MINT_K_LIST_STEP;
    const std::vector<mint_k_sum> list = {{(int64_t)n, 0, 0, 3}, {(int64_t)m, blocks, 3, 1}};
    const mint_fold folds[] = {{(int64_t)n, host.data(), 3}, {(int64_t)m, host.data() + 3, 1}};
    Dev<mint_k_addition> on_add(add);
    Dev<mint_k_sum> on(list);
    mint_k_fold(on.p, 2, blocks + more, on_add.p, nullptr);
    d->ops->fold(d, folds, 2, &err);
    kt::bits(dx.get());
    CHECK(dx.get() == x, "%zu, %zu: the bits of the CPU", n, m);
}

template <class T> void cast_all(size_t n, std::vector<T> (*round)(const Floats &))
{
    Floats x = kt::normal(n);
    Dev<float> dx(x);
    Dev<T> out(n);
    Parts parts(n);
    std::vector<mint_k_tensor> list;
    for (size_t i = 0; i < parts.count(); i++)
        list.push_back({dx.p + parts.first[i], out.p + parts.first[i], parts.size(i),
                        parts.place(i, MINT_K_LIST_STEP)});
    Dev<mint_k_tensor> on(list);
    mint_k_cast_all(on.p, (int64_t)list.size(), parts.blocks, sizeof(T) == 4, nullptr);
    CHECK(out.get() == round(x), "%zu values of %zu bytes", n, sizeof(T));
}

} // namespace

CASE(optim_adam)
{
    adam(1, {1e-3f, 0.9f, 0.999f, 1e-8f, 0.0f, 0.1f, 0.001f, 1});
    adam(1023, {1e-3f, 0.9f, 0.95f, 1e-8f, 0.1f, 0.271f, 0.1426f, 0.3f});
    adam(4097, {2e-2f, 0.0f, 0.5f, 1e-3f, 0.01f, 1, 0.5f, 1});
}

CASE(optim_fold)
{
    fold(1, 3);
    fold(1024, 2050);
    fold(3001, 8);
}

CASE(optim_cast_all)
{
    for (size_t n : {1, 1030, 5003}) {
        cast_all<uint16_t>(n, kt::narrow);
        cast_all<float>(n, [](const Floats &v) { return v; });
    }
}

CASE(optim_sumsq)
{
    for (size_t n : {1, 5, 1024, MINT_K_SUMSQ_PIECE, 2 * MINT_K_SUMSQ_PIECE + 3})
        if (!kt::quick || n < 5000)
            sumsq(n);
    CHECK(sum_of({}) == 0, "nothing");
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

// SPDX-License-Identifier: Apache-2.0
/*
 * cases_sample.cpp: draws against sorting: with the kernel's own integer weights the answer is
 * exact, so ids must be equal whatever the filters, the ties and the widths. Also a row alone, the
 * log-probability's bits, the CPU backend, and rows from which nothing can be drawn.
 */
#include "twin.h"

extern "C" {
#include "cpu/vmath.h"
}

using namespace kt;

namespace
{

typedef unsigned long long u64;
typedef std::vector<mint_k_draw> Draws;
typedef std::vector<mint_k_drawn> Drawn;

Drawn sample(const Floats &logits, int64_t ldl, int64_t V, const Draws &draws)
{
    const size_t S = draws.size();
    Dev<float> x(logits), chunks(S * 4 * (size_t)MINT_K_CHUNKS(V));
    Dev<mint_k_draw> d(draws);
    Dev<mint_k_drawn> out(S);
    mint_k_sample(out.p, chunks.p, x.p, ldl, d.p, (int64_t)S, V, nullptr);
    return out.get();
}

struct Answer {
    int id;
    double behavior;
};

Answer by_sorting(const float *x, int64_t V, const mint_k_draw &d)
{
    const size_t n = (size_t)(d.vocab > 0 ? std::min<int64_t>(d.vocab, V) : V);
    const float top = *std::max_element(x, x + n), inv = 1 / d.temperature;
    std::vector<u64> w(n);
    std::vector<int> order(n);
    u64 total = 0, sum = 0;
    for (size_t i = 0; i < n; i++) {
        w[i] = (u64)(cpu_exp(x[i] == top ? 0 : (x[i] - top) * inv) * 0x1p40f);
        order[i] = (int)i;
    }
    std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return x[a] > x[b]; });
    if (!(d.temperature > 0))
        return {order[0], 0};
    if (d.top_k > 0 && d.top_k < (int)n)
        order.resize((size_t)d.top_k);
    for (int i : order)
        total += w[(size_t)i];
    if (d.top_p < 1) {
        const u64 limit = std::max<u64>(1, (u64)ceil((double)d.top_p * (double)total));
        size_t keep = 0;
        for (; sum < limit; keep++)
            sum += w[(size_t)order[keep]];
        order.resize(keep);
        total = sum;
    }
    std::sort(order.begin(), order.end());
    const u64 goal = (u64)((double)d.u * (double)total);
    sum = 0;
    size_t i = 0;
    while (sum + w[(size_t)order[i]] <= goal)
        sum += w[(size_t)order[i++]];
    const double y = x[order[i]] == top ? 0 : ((double)x[order[i]] - top) / d.temperature;
    return {order[i], y - log((double)total * 0x1p-40)};
}

/* Log-probabilities of the drawn ids by op logprob's kernels. */
Floats scored(const Floats &logits, int64_t ldl, int64_t V, const Drawn &got)
{
    const size_t S = got.size();
    Dev<float> x(logits), chunks(S * 4 * (size_t)MINT_K_CHUNKS(V)), lp(S);
    std::vector<int32_t> id;
    for (const mint_k_drawn &g : got)
        id.push_back(g.id);
    Dev<int32_t> target(id);
    mint_k_logprob_chunks(chunks.p, lp.p, x.p, ldl, target.p, (int64_t)S, 0, V, V, nullptr);
    mint_k_logprob_final(lp.p, nullptr, nullptr, chunks.p, (int64_t)S, V, nullptr);
    return lp.get();
}

/* Draw i against sorting, op logprob and op sample of the CPU; *others: ids that the CPU, which
 * adds floats, decides otherwise. */
void check(const Floats &logits, int64_t ldl, int64_t V, const Draws &draws, const char *what)
{
    struct mint_err err;
    struct mint_dev *d = cpu_of(true);
    Drawn got = sample(logits, ldl, V, draws);
    std::vector<mint_drawn> twin(draws.size());
    std::vector<mint_draw> same;
    for (const mint_k_draw &k : draws)
        same.push_back({k.temperature, k.top_p, k.top_k, k.u, k.vocab});
    d->ops->sample(d, twin.data(), logits.data(), ldl, same.data(), (int64_t)same.size(), V, &err);
    Floats lp = scored(logits, ldl, V, got);
    size_t others = 0;
    bits(got);
    for (size_t i = 0; i < draws.size(); i++) {
        Answer want = by_sorting(&logits[i * (size_t)ldl], V, draws[i]);
        CHECK(got[i].flaw == MINT_K_FINE && got[i].id == want.id, "%s: id %d of draw %zu, not %d",
              what, got[i].id, i, want.id);
        CHECK(got[i].logprob == lp[i], "%s: log-probability of draw %zu", what, i);
        CHECK(fabs(got[i].behavior - want.behavior) < 1e-5 * (1 + fabs(want.behavior)),
              "%s: behavior of draw %zu: %g, not %g", what, i, got[i].behavior, want.behavior);
        others += twin[i].id != got[i].id;
        CHECK(twin[i].id != got[i].id || fabs(twin[i].logprob - got[i].logprob) < 1e-5,
              "%s: the CPU's log-probability of draw %zu", what, i);
    }
    CHECK(others * 50 <= draws.size(), "%s: the CPU draws %zu of %zu otherwise", what, others,
          draws.size());
    Drawn last = sample(Floats(logits.end() - (long)V, logits.end()), V, V, {draws.back()});
    CHECK(!memcmp(&last[0], &got.back(), sizeof last[0]), "%s: other bits alone", what);
}

float unit()
{
    return (float)(random32() >> 8) * 0x1p-24f;
}

size_t draws()
{
    return quick ? 9 : 63;
}

/* Every kind of draw, S of them. */
Draws mixed(size_t S, int64_t V)
{
    const float temperature[] = {1, 0.7f, 1.5f, 0, 1, 0.05f, 1};
    const float top_p[] = {1, 0.9f, 0.5f, 1, 0.999f, 0, 0.1f, 1};
    const int top_k[] = {0, 50, 0, 1, -1, 3, 0, 7, 1 << 20};
    Draws d;
    for (size_t i = 0; i < S; i++) {
        int vocab = i % 5 == 4 ? (int)(1 + random32() % (uint32_t)V) : 0;
        d.push_back({temperature[i % 7], top_p[i / 2 % 8], top_k[i / 3 % 9], unit(), vocab});
    }
    d[0].u = 0;
    d[1].u = 1 - 0x1p-24f;
    return d;
}

} // namespace

CASE(sample)
{
    for (int64_t V : {1, 2, 33, 1024, 1030, 5003})
        if (!quick || V < 5000)
            check(normal(draws() * (size_t)V, 3), V, V, mixed(draws(), V), "normal");
}

CASE(sample_wide)
{
    const int64_t V = 50257;
    Draws d = {{1, 1, 0, 0.37f, 0}, {0.8f, 0.95f, 50, 0.61f, 50000}, {1, 0.9f, 0, 0.99f, 0}};
    if (!quick)
        check(normal(3 * (size_t)V, 3), V, V, d, "wide");
}

/* Few different logits, among them both zeros: the cut falls among equals. */
CASE(sample_ties)
{
    const int64_t V = 777;
    const size_t S = draws();
    Floats x(S * (size_t)V);
    for (float &v : x)
        v = (float)(random32() % 5) - 4.0f;
    for (float &v : x)
        v = v == 0 && random32() % 2 ? -0.0f : v;
    check(x, V, V, mixed(S, V), "ties");
    check(Floats(S * (size_t)V, 2.5f), V, V, mixed(S, V), "all equal");
}

/* Logits far apart, -inf among them; and so near that one interval holds all. */
CASE(sample_ranges)
{
    const int64_t V = 901;
    const size_t S = draws();
    Floats far = normal(S * (size_t)V, 300), near = normal(S * (size_t)V, 1e-4f);
    for (size_t i = 0; i < far.size(); i += 3)
        far[i] = -INFINITY;
    check(far, V, V, mixed(S, V), "far");
    check(near, V, V, mixed(S, V), "near");
}

/* The prompt's one row of logits for all samples of its group. */
CASE(sample_one_row)
{
    const int64_t V = 640;
    Floats x = normal((size_t)V, 3);
    Draws d = mixed(21, V);
    for (mint_k_draw &k : d)
        k.vocab = 0;
    Drawn got = sample(x, 0, V, d);
    for (size_t i = 0; i < d.size(); i++)
        CHECK(got[i].id == by_sorting(x.data(), V, d[i]).id, "draw %zu", i);
    mint_k_sample(nullptr, nullptr, nullptr, 0, nullptr, 0, V, nullptr);
}

CASE(sample_flaws)
{
    const int64_t V = 5000;
    Floats x = normal(4 * (size_t)V);
    x[4500] = NAN;
    x[(size_t)V + 3] = INFINITY;
    std::fill_n(&x[2 * (size_t)V], V, -INFINITY);
    std::fill_n(&x[3 * (size_t)V], 100, -INFINITY);
    mint_k_draw d = {1, 1, 0, 0.5f, 0}, few = {1, 1, 0, 0.5f, 100};
    Drawn got = sample(x, V, V, {d, d, d, few});
    CHECK(got[0].flaw == MINT_K_NOT_FINITE && got[1].flaw == MINT_K_NOT_FINITE, "NaN, inf");
    CHECK(got[2].flaw == MINT_K_NOTHING_TO_DRAW, "-inf everywhere: %d", got[2].flaw);
    CHECK(got[3].flaw == MINT_K_NOTHING_TO_DRAW, "-inf below vocab: %d", got[3].flaw);
}

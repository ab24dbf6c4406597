// SPDX-License-Identifier: Apache-2.0
/* cases_head.cpp: log-probability, entropy and log-sum-exp from runs of columns: against double
 * precision, in other runs, alone, and against the CPU backend. */
#include "twin.h"

using namespace kt;

namespace
{

struct Result {
    Floats lp, entropy, lse;
    bool operator==(const Result &o) const
    {
        return lp == o.lp && entropy == o.entropy && lse == o.lse;
    }
};

/* Logits f32[T, V] in runs of run columns, a multiple of MINT_K_CHUNK; each run in a buffer of its
 * own whose rows are longer by pad. */
Result run(const Floats &logits, const std::vector<int32_t> &target, int64_t V, int64_t width,
           int64_t pad)
{
    const int64_t T = (int64_t)target.size();
    const size_t t = (size_t)T;
    Dev<float> chunks(t * 4 * (size_t)MINT_K_CHUNKS(V)), lp(t), entropy(t), lse(t);
    Dev<int32_t> want(target);
    for (int64_t v0 = 0; v0 < V; v0 += width) {
        int64_t cols = std::min(width, V - v0), ldl = cols + pad;
        Floats y((size_t)(T * ldl), NAN);
        for (int64_t i = 0; i < T; i++)
            std::copy_n(&logits[(size_t)(i * V + v0)], cols, &y[(size_t)(i * ldl)]);
        Dev<float> run(y);
        mint_k_logprob_chunks(chunks.p, lp.p, run.p, ldl, want.p, T, v0, cols, V, nullptr);
    }
    mint_k_logprob_final(lp.p, entropy.p, lse.p, chunks.p, T, V, nullptr);
    return {lp.get(), entropy.get(), lse.get()};
}

void against_double(const Floats &logits, const std::vector<int32_t> &target, size_t V,
                    const Result &got)
{
    for (size_t t = 0; t < target.size(); t++) {
        const float *x = &logits[t * V];
        double m = *std::max_element(x, x + V), s = 0, d = 0;
        for (size_t i = 0; i < V; i++) {
            double y = x[i] - m;
            s += exp(y);
            d += y > -INFINITY ? y * exp(y) : 0;
        }
        double lse = m + log(s), lp = x[target[t]] - lse, entropy = log(s) - d / s;
        CHECK(fabs(got.lp[t] - lp) < 3e-6 * (1 + fabs(lp)), "lp %g, not %g", got.lp[t], lp);
        CHECK(fabs(got.lse[t] - lse) < 3e-6 * (1 + fabs(lse)), "lse %g, not %g", got.lse[t], lse);
        CHECK(fabs(got.entropy[t] - entropy) < 1e-5, "entropy %g, not %g", got.entropy[t], entropy);
    }
}

void head(int64_t V)
{
    const size_t T = 3, v = (size_t)V;
    Floats logits = normal(T * v, 5);
    std::vector<int32_t> target = {0, (int32_t)V - 1, (int32_t)(random32() % (uint32_t)V)};
    for (size_t i = 0; i < v / 2; i++) /* half of the last row is out of the question */
        logits[2 * v + i] = -INFINITY;
    target[2] = std::max(target[2], (int32_t)(v / 2));
    Result got = run(logits, target, V, V + MINT_K_CHUNK, 0);
    against_double(logits, target, v, got);
    bits(got.lp);
    bits(got.entropy);
    bits(got.lse);
    for (int64_t pad : {1, 4})
        CHECK(run(logits, target, V, MINT_K_CHUNK, pad) == got, "V %d: other runs", (int)V);
    Result last =
        run(Floats(logits.end() - (long)v, logits.end()), {target[2]}, V, 2 * MINT_K_CHUNK, 0);
    CHECK(last == Result({{got.lp[2]}, {got.entropy[2]}, {got.lse[2]}}), "V %d: alone", (int)V);
}

} // namespace

CASE(head)
{
    for (int64_t V : {1, 5, 1000, 4096, 4097, 10007, 49152})
        if (!quick || V < 11000)
            head(V);
    mint_k_logprob_final(nullptr, nullptr, nullptr, nullptr, 0, 7, nullptr);
}

CASE(head_flaws_are_seen)
{
    const int64_t V = 9000;
    for (float flaw : {(float)NAN, (float)INFINITY})
        for (size_t at : {0u, 4095u, 4096u, 8999u}) {
            Floats logits = normal((size_t)V);
            logits[at] = flaw;
            Result got = run(logits, {77}, V, V + MINT_K_CHUNK, 0);
            CHECK(!(got.lp[0] <= 0), "%g at %zu: log-probability %g", flaw, at, got.lp[0]);
        }
    Result got = run(Floats((size_t)V, -INFINITY), {77}, V, V + MINT_K_CHUNK, 0);
    CHECK(!(got.lp[0] <= 0), "nothing but -inf: log-probability %g", got.lp[0]);
}

/* The CPU makes its logits itself: with the identity for h they are the columns of the head. */
CASE(head_twin)
{
    struct mint_dev *d = cpu_of(true);
    struct mint_weight *w;
    struct mint_err err;
    const int64_t V = 5003, T = 4;
    Floats h((size_t)(T * T)), head((size_t)(V * T)), logits((size_t)(T * V));
    std::vector<int32_t> target = {0, 5002, 4096, 17};
    for (int64_t t = 0; t < T; t++) {
        Floats x = normal((size_t)V, 4);
        h[(size_t)(t * T + t)] = 1;
        for (int64_t v = 0; v < V; v++)
            head[(size_t)(v * T + t)] = logits[(size_t)(t * V + v)] = x[(size_t)v];
    }
    Result twin = {Floats((size_t)T), Floats((size_t)T), Floats((size_t)T)};
    d->ops->weight_new(d, &w, head.data(), MINT_F32, V, T, true, false, &err);
    d->ops->logprob(d, twin.lp.data(), twin.entropy.data(), twin.lse.data(), nullptr, 0, h.data(),
                    w, nullptr, target.data(), T, &err);
    d->ops->weight_free(d, w);
    Result got = run(logits, target, V, MINT_K_CHUNK, 0);
    CHECK(error(twin.lp, got.lp) < 1e-6, "%g", error(twin.lp, got.lp));
    CHECK(error(twin.lse, got.lse) < 1e-6, "%g", error(twin.lse, got.lse));
    CHECK(error(twin.entropy, got.entropy) < 3e-6, "%g", error(twin.entropy, got.entropy));
}

// SPDX-License-Identifier: Apache-2.0
/* cases_pointwise.cpp: embedding, SwiGLU, sums, conversions, rows moved about: against the CPU
 * backend, whose bits all but SwiGLU must have. */
#include "twin.h"

using namespace kt;

static struct mint_err err;

static void embed(bool f32, int64_t V, int64_t K, const std::vector<int32_t> &ids)
{
    struct mint_dev *d = cpu_of(f32);
    struct mint_weight *w;
    const int64_t T = (int64_t)ids.size();
    Act table(f32, normal((size_t)(V * K)));
    Floats twin((size_t)(T * K));
    d->ops->weight_new(d, &w, table.bytes.data(), f32 ? MINT_F32 : MINT_BF16, V, K, true, false,
                       &err);
    d->ops->embed(d, twin.data(), w, ids.data(), T, &err);
    d->ops->weight_free(d, w);
    DevAct dt(table);
    Dev<int32_t> di(ids);
    Dev<float> x(twin.size());
    mint_k_embed(x.p, dt.p, f32, di.p, T, K, nullptr);
    CHECK(x.get() == twin, "rows of %d", (int)K);
}

CASE(pointwise_embed)
{
    for (int64_t K : {1, 7, 64, 576, 1030, 2048})
        for (bool f32 : {false, true})
            embed(f32, 11, K, {3, 0, 10, 3});
    mint_k_embed(nullptr, nullptr, false, nullptr, 0, 8, nullptr);
}

static void swiglu(bool f32, int64_t T, int64_t F)
{
    const size_t n = (size_t)(T * F);
    Floats gu = normal(2 * n, 4);
    gu[0] = 200, gu[(size_t)F - 1] = -200;
    Doubles want(n);
    for (int64_t t = 0; t < T; t++)
        for (int64_t i = 0; i < F; i++) {
            double g = gu[(size_t)(2 * t * F + i)], u = gu[(size_t)((2 * t + 1) * F + i)];
            want[(size_t)(t * F + i)] = g / (1 + exp(-g)) * u;
        }
    Act twin(f32, n);
    cpu_of(f32)->ops->swiglu(cpu_of(f32), twin.bytes.data(), gu.data(), T, F, &err);
    Dev<float> dgu(gu);
    DevAct out(f32, n), one(f32, (size_t)F);
    mint_k_swiglu(out.p, f32, dgu.p, T, F, nullptr);
    Act got = out.act();
    agree("swiglu", f32, want, twin.floats(), got.floats());
    mint_k_swiglu(one.p, f32, dgu.p + 2 * (T - 1) * F, 1, F, nullptr);
    CHECK(one.get() == got.part(n - (size_t)F, (size_t)F), "%d: other bits alone", (int)F);
}

CASE(pointwise_swiglu)
{
    for (int64_t F : {1, 6, 128, 1031, 1536, 4864})
        for (bool f32 : {false, true})
            swiglu(f32, 3, F);
    mint_k_swiglu(nullptr, false, nullptr, 0, 8, nullptr);
}

/* From an address that is not a multiple of 16 too. */
CASE(pointwise_add)
{
    for (size_t n : {1u, 3u, 4u, 1023u, 1024u, 5000u})
        for (size_t off : {0u, 1u}) {
            Floats x = normal(n + off), y = normal(n + off), want = x;
            for (size_t i = off; i < n + off; i++)
                want[i] = x[i] + y[i];
            Dev<float> dx(x), dy(y);
            mint_k_add(dx.p + off, dy.p + off, (int64_t)n, nullptr);
            CHECK(dx.get() == want, "%zu from %zu on", n, off);
        }
    mint_k_add(nullptr, nullptr, 0, nullptr);
}

CASE(pointwise_cast)
{
    for (size_t n : {1u, 5u, 1024u, 4099u})
        for (bool f32 : {false, true}) {
            Floats x = normal(n);
            x[0] = INFINITY;
            x[n / 2] = 1 + 0x1p-8f; /* a tie, to even */
            Act want(f32, x);
            Dev<float> dx(x);
            DevAct out(f32, n);
            mint_k_cast(out.p, f32, dx.p, (int64_t)n, nullptr);
            CHECK(out.get() == want.bytes, "%zu", n);
        }
    mint_k_cast(nullptr, false, nullptr, 0, nullptr);
}

static void move(size_t row_bytes)
{
    std::vector<int32_t> rows = {4, 0, 2, 4};
    std::vector<unsigned char> x(5 * row_bytes), want(4 * row_bytes), back(5 * row_bytes, 0xff);
    for (auto &b : x)
        b = (unsigned char)random32();
    for (size_t i = 0; i < rows.size(); i++)
        memcpy(&want[i * row_bytes], &x[(size_t)rows[i] * row_bytes], row_bytes);
    for (int row : {0, 2, 4})
        memcpy(&back[(size_t)row * row_bytes], &x[(size_t)row * row_bytes], row_bytes);
    Dev<unsigned char> dx(x), dout(want.size()), dback(back.size());
    Dev<int32_t> dr(rows), d3(std::vector<int32_t>{0, 2, 4}), here(std::vector<int32_t>{1, 2, 0});
    mint_k_gather(dout.p, dx.p, dr.p, 4, (int64_t)row_bytes, nullptr);
    CHECK(dout.get() == want, "gather of %zu bytes", row_bytes);
    Dev<unsigned char> three(3 * row_bytes);
    mint_k_gather(three.p, dx.p, d3.p, 3, (int64_t)row_bytes, nullptr);
    mint_k_scatter(dback.p, three.p, d3.p, 3, (int64_t)row_bytes, nullptr);
    CHECK(dback.get() == back, "scatter of %zu bytes", row_bytes);
}

CASE(pointwise_move)
{
    for (size_t bytes : {2u, 4u, 6u, 16u, 20u, 48u, 4096u, 9002u})
        move(bytes);
    mint_k_gather(nullptr, nullptr, nullptr, 0, 4, nullptr);
    mint_k_scatter(nullptr, nullptr, nullptr, 0, 4, nullptr);
}

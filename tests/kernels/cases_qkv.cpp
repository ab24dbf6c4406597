// SPDX-License-Identifier: Apache-2.0
/* cases_qkv.cpp: norm and rotation of heads, and where keys and values go: against double precision
 * and the CPU backend. */
#include "twin.h"

extern "C" {
#include "cpu/cpu_kv.h"
}

using namespace kt;

namespace
{

struct Shape {
    int heads, kv_heads, hd;
};

struct Setup {
    Shape s;
    bool f32, norms;
    float eps = 1e-5f;
    std::vector<int32_t> pos = {0, 63, 64, 517, 40000}, pages = {2, 2, 0, 3, 1};
    Floats qkv, qnorm, knorm, inv_freq;
    Setup(Shape shape, bool f, bool n) : s(shape), f32(f), norms(n)
    {
        size_t hd = (size_t)s.hd;
        qkv = normal(pos.size() * row(), 2);
        qnorm = normal(hd);
        knorm = normal(hd);
        for (size_t i = 0; i < hd / 2; i++)
            inv_freq.push_back((float)pow(10000, -2.0 * (double)i / (double)hd));
    }
    size_t row() const
    {
        return (size_t)((s.heads + 2 * s.kv_heads) * s.hd);
    }
    mint_k_attn shape() const
    {
        return {s.heads, s.kv_heads, s.hd, 1};
    }
};

/* All rows in the order of qkv. */
Doubles truth(const Setup &c)
{
    Doubles out(c.qkv.begin(), c.qkv.end());
    const size_t hd = (size_t)c.s.hd, half = hd / 2;
    for (size_t t = 0; t < c.pos.size(); t++)
        for (size_t h = 0; h < (size_t)(c.s.heads + c.s.kv_heads); h++) {
            double *x = &out[t * c.row() + h * hd], square = 0;
            const Floats &w = h < (size_t)c.s.heads ? c.qnorm : c.knorm;
            for (size_t i = 0; i < hd; i++)
                square += x[i] * x[i];
            for (size_t i = 0; i < hd && c.norms; i++)
                x[i] *= w[i] / sqrt(square / (double)hd + (double)c.eps);
            for (size_t i = 0; i < half; i++) {
                double a = (double)((float)c.pos[t] * c.inv_freq[i]), y = x[i], z = x[i + half];
                x[i] = y * cos(a) - z * sin(a);
                x[i + half] = z * cos(a) + y * sin(a);
            }
        }
    return out;
}

/* The same of the CPU, gathered from its queries and pages. */
Floats twin(const Setup &c)
{
    struct mint_dev *d = cpu_of(c.f32);
    struct mint_err err;
    struct mint_kv *kv;
    mint_attn_shape s = {c.s.heads, c.s.kv_heads, c.s.hd, 1};
    const size_t T = c.pos.size(), hd = (size_t)c.s.hd, heads = (size_t)c.s.heads;
    const size_t kvs = (size_t)c.s.kv_heads;
    Act q(c.f32, T * heads * hd);
    Floats out(c.qkv.size());
    d->ops->kv_new(d, &kv, 1, 4, &s, &err);
    d->ops->qkv(d, q.bytes.data(), kv, 0, c.qkv.data(), c.norms ? c.qnorm.data() : nullptr,
                c.norms ? c.knorm.data() : nullptr, c.eps, c.inv_freq.data(), c.pos.data(),
                c.pages.data(), &s, (int64_t)T, &err);
    for (size_t t = 0; t < T; t++)
        for (size_t i = 0; i < c.row(); i++) {
            int64_t slot = c.pos[t] % MINT_KV_PAGE, dim = (int64_t)(i % hd);
            size_t h = i / hd - heads;
            if (i / hd < heads) {
                out[t * c.row() + i] = q.at(t * heads * hd + i);
                continue;
            }
            const bool key = h < kvs;
            const char *p = key ? cpu_kv_keys(kv, 0, c.pages[t], (int32_t)h)
                                : cpu_kv_values(kv, 0, c.pages[t], (int32_t)(h - kvs));
            size_t at = key ? cpu_kv_key_at(c.s.hd, slot, dim) : cpu_kv_value_at(slot, dim);
            Act one(c.f32, 1);
            memcpy(one.bytes.data(), p + at * one.width(), one.width());
            out[t * c.row() + i] = one.at(0);
        }
    d->ops->kv_free(d, kv);
    return out;
}

struct Result {
    Act q, kv;
};

/* Rows first .. on the device; kv: [page][k, v][head][slot][dim]. */
Result run(const Setup &c, size_t first)
{
    const size_t T = c.pos.size() - first, hd = (size_t)c.s.hd, kvs = (size_t)c.s.kv_heads;
    const size_t half = kvs * MINT_K_PAGE * hd;
    DevAct q(c.f32, T * (size_t)c.s.heads * hd), pages(c.f32, 4 * 2 * half);
    Dev<float> x(c.qkv), qn(c.qnorm), kn(c.knorm), f(c.inv_freq);
    Dev<int32_t> pos(c.pos), page(c.pages);
    mint_k_attn s = c.shape();
    mint_k_kv kv = {pages.p, pages.p + half * (c.f32 ? 4 : 2), (int64_t)(2 * half),
                    (int64_t)(MINT_K_PAGE * hd)};
    mint_k_qkv(q.p, &kv, c.f32, x.p + first * c.row(), c.norms ? qn.p : nullptr,
               c.norms ? kn.p : nullptr, c.eps, f.p, pos.p + first, page.p + first, &s, (int64_t)T,
               nullptr);
    return {q.act(), pages.act()};
}

/* Where value i of row t lies in the pages. */
size_t place(const Setup &c, size_t t, size_t i)
{
    const size_t hd = (size_t)c.s.hd, h = i / hd - (size_t)c.s.heads;
    return (((size_t)c.pages[t] * 2 * (size_t)c.s.kv_heads + h) * MINT_K_PAGE +
            (size_t)(c.pos[t] % MINT_K_PAGE)) *
               hd +
           i % hd;
}

void qkv(Shape s, bool f32, bool norms)
{
    Setup c(s, f32, norms);
    const size_t T = c.pos.size(), qw = (size_t)(s.heads * s.hd);
    Result all = run(c, 0), last = run(c, T - 1);
    Floats got(c.qkv.size());
    size_t nan = 0;
    for (size_t t = 0; t < T; t++)
        for (size_t i = 0; i < c.row(); i++)
            got[t * c.row() + i] = i < qw ? all.q.at(t * qw + i) : all.kv.at(place(c, t, i));
    agree("qkv", f32, truth(c), twin(c), got);
    for (float x : all.kv.floats())
        nan += x != x;
    CHECK(nan == all.kv.n - T * (c.row() - qw), "other slots are touched");
    CHECK(last.q.bytes == all.q.part((T - 1) * qw, qw), "other bits alone");
    for (size_t i = qw; i < c.row(); i++)
        CHECK(last.kv.at(place(c, T - 1, i)) == got[(T - 1) * c.row() + i], "key %zu alone", i);
}

} // namespace

CASE(qkv)
{
    const Shape shapes[] = {{1, 1, 2},  {3, 1, 10}, {4, 2, 64},  {9, 3, 64},
                            {2, 1, 80}, {3, 1, 96}, {3, 2, 128}, {2, 1, 256}};
    for (const Shape &s : shapes)
        for (bool f32 : {false, true})
            for (bool norms : {false, true})
                if (!quick || s.hd <= 64)
                    qkv(s, f32, norms);
}

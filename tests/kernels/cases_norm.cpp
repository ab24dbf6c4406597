// SPDX-License-Identifier: Apache-2.0
/* cases_norm.cpp: RMS norm against double precision and the CPU backend; a row alone. */
#include "twin.h"

using namespace kt;

static void norm(bool f32, int64_t T, int64_t H)
{
    const float eps = 1e-3f;
    const size_t h = (size_t)H, n = (size_t)T * h;
    struct mint_err err;
    Floats x = normal(n, 3), w = normal(h);
    Doubles want(n);
    for (size_t t = 0; t < n; t += h) {
        double square = 0;
        for (size_t i = 0; i < h; i++)
            square += (double)x[t + i] * x[t + i];
        for (size_t i = 0; i < h; i++)
            want[t + i] = x[t + i] / sqrt(square / (double)h + (double)eps) * w[i];
    }
    Act twin(f32, n);
    cpu_of(f32)->ops->rmsnorm(cpu_of(f32), twin.bytes.data(), x.data(), w.data(), eps, T, H, &err);
    Dev<float> dx(x), dw(w);
    DevAct out(f32, n), one(f32, h);
    mint_k_rmsnorm(out.p, f32, dx.p, dw.p, eps, T, H, nullptr);
    Act got = out.act();
    agree("rmsnorm", f32, want, twin.floats(), got.floats());
    mint_k_rmsnorm(one.p, f32, dx.p + n - h, dw.p, eps, 1, H, nullptr);
    CHECK(one.get() == got.part(n - h, h), "%d rows of %d: other bits alone", (int)T, (int)H);
}

CASE(norm)
{
    const int64_t shapes[][2] = {{1, 1},   {3, 7},    {5, 64},   {2, 130},  {3, 576},
                                 {2, 896}, {2, 1031}, {2, 1024}, {1, 4096}, {2, 5120}};
    for (const auto &s : shapes)
        for (bool f32 : {false, true})
            if (!quick || s[1] < 1000)
                norm(f32, s[0], s[1]);
    mint_k_rmsnorm(nullptr, false, nullptr, nullptr, 1, 0, 8, nullptr);
}

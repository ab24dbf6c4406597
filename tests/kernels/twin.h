/* SPDX-License-Identifier: Apache-2.0 */
/* twin.h: what cases of the forward kernels share: values of either activation type, the CPU's
 * device of that precision, and the agreement of a result with the truth and the CPU. */
#ifndef TWIN_H
#define TWIN_H

#include "kernel_test.h"

#include <algorithm>

namespace kt
{

typedef std::vector<float> Floats;
typedef std::vector<double> Doubles;

inline struct mint_dev *cpu_of(bool f32)
{
    return cpu(f32 ? MINT_PRECISION_F32 : MINT_PRECISION_BF16);
}

/* n values of act: float, or bf16. All bits set at first: NaN. */
struct Act {
    bool f32;
    size_t n;
    std::vector<unsigned char> bytes;
    Act(bool f, size_t count) : f32(f), n(count), bytes(count * width(), 0xff)
    {
    }
    Act(bool f, const Floats &v) : Act(f, v.size())
    {
        for (size_t i = 0; i < n; i++)
            put(i, v[i]);
    }
    size_t width() const
    {
        return f32 ? 4 : 2;
    }
    void put(size_t i, float x)
    {
        uint16_t h = f32_to_bf16(x);
        memcpy(&bytes[i * width()], f32 ? (const void *)&x : &h, width());
    }
    float at(size_t i) const
    {
        float x;
        uint16_t h;
        memcpy(f32 ? (void *)&x : &h, &bytes[i * width()], width());
        return f32 ? x : bf16_to_f32(h);
    }
    Floats floats() const
    {
        Floats v(n);
        for (size_t i = 0; i < n; i++)
            v[i] = at(i);
        return v;
    }
    std::vector<unsigned char> part(size_t first, size_t count) const
    {
        auto from = bytes.begin() + (long)(first * width());
        return std::vector<unsigned char>(from, from + (long)(count * width()));
    }
};

/* The device's buffer of n values of act. */
struct DevAct : Dev<unsigned char> {
    bool f32;
    DevAct(bool f, size_t n) : Dev<unsigned char>(n * (f ? 4 : 2)), f32(f)
    {
    }
    explicit DevAct(const Act &a) : Dev<unsigned char>(a.bytes), f32(a.f32)
    {
    }
    Act act() const
    {
        Act a(f32, n / (f32 ? 4 : 2));
        a.bytes = get();
        return a;
    }
};

/* Where results of act may stand: from the truth, from the CPU. */
inline double truth_bound(bool f32)
{
    return f32 ? 1e-6 : 3e-3;
}
inline double twin_bound(bool f32)
{
    return f32 ? 1e-6 : 1e-3;
}

inline void agree(const char *what, bool f32, const Doubles &want, const Floats &twin,
                  const Floats &got)
{
    double e = error(want, got), c = error(twin, got);
    bits(got);
    CHECK(e < truth_bound(f32), "%s: %g from the truth", what, e);
    CHECK(c < twin_bound(f32), "%s: %g from the CPU", what, c);
}

} // namespace kt

#endif

// SPDX-License-Identifier: Apache-2.0
/* cases_backward.cpp: gradients of norms, rotation, swiglu and logits against double precision and
 * the CPU backend; a row alone. */
#include "kernel_test.h"

#include <algorithm>

extern "C" {
#include "cpu/rows.h"
}

namespace
{

typedef std::vector<float> Floats;
typedef std::vector<double> Doubles;

struct mint_err err;

struct mint_dev *cpu(bool f32)
{
    return kt::cpu(f32 ? MINT_PRECISION_F32 : MINT_PRECISION_BF16);
}

/* n values of act, as bytes and as floats. */
struct Act {
    bool f32;
    std::vector<unsigned char> bytes;
    Act(size_t n, bool f) : f32(f), bytes(n * (f ? 4 : 2))
    {
    }
    Floats floats() const
    {
        Floats f(bytes.size() / 4);
        std::vector<uint16_t> h(bytes.size() / 2);
        memcpy(f32 ? (void *)f.data() : h.data(), bytes.data(), bytes.size());
        return f32 ? f : kt::widen(h);
    }
};

/* got against the truth and the CPU. */
void agree(const char *what, int64_t n, bool f32, const Doubles &want, const Floats &twin,
           const Floats &got)
{
    double e = kt::error(want, Doubles(got.begin(), got.end())), c = kt::error(twin, got);
    kt::bits(got);
    CHECK(e < (f32 ? 1e-6 : 3e-3), "%s %lld: %g from the truth", what, (long long)n, e);
    CHECK(c < (f32 ? 1e-6 : 1e-4), "%s %lld: %g from the CPU", what, (long long)n, c);
}

/* The last n of v. */
Floats tail(const Floats &v, size_t n)
{
    return Floats(v.end() - (long)n, v.end());
}

void norm(int64_t T, int64_t H)
{
    const size_t n = (size_t)(T * H);
    Floats x = kt::normal(n, 3), dy = kt::normal(n), dx = kt::normal(n), w = kt::normal((size_t)H);
    const float eps = 1e-3f;
    Doubles want(n);
    for (int64_t t = 0; t < T; t++) {
        double square = 0, dot = 0;
        for (int64_t i = 0; i < H; i++) {
            size_t at = (size_t)(t * H + i);
            square += (double)x[at] * x[at];
            dot += (double)dy[at] * w[(size_t)i] * x[at];
        }
        double r = 1 / sqrt(square / (double)H + eps);
        for (int64_t i = 0; i < H; i++) {
            size_t at = (size_t)(t * H + i);
            want[at] = dx[at] + r * w[(size_t)i] * dy[at] - x[at] * r * r * r * dot / (double)H;
        }
    }
    Floats twin = dx;
    cpu(true)->ops->rmsnorm_backward(cpu(true), twin.data(), dy.data(), x.data(), w.data(), eps, T,
                                     H, &err);
    Dev<float> d_x(x), d_dy(dy), d_dx(dx), d_w(w), one(tail(dx, (size_t)H));
    mint_k_rmsnorm_backward(d_dx.p, d_dy.p, d_x.p, d_w.p, eps, T, H, nullptr);
    agree("rmsnorm_backward", H, true, want, twin, d_dx.get());
    mint_k_rmsnorm_backward(one.p, d_dy.p + n - H, d_x.p + n - H, d_w.p, eps, 1, H, nullptr);
    CHECK(one.get() == tail(d_dx.get(), (size_t)H), "the last of %lld rows alone", (long long)T);
}

/* One head backward in double precision: dy turned back, then through the norm. */
void head_reference(double *out, const float *dy, const float *x, const float *norm, double eps,
                    const Floats &inv_freq, int pos)
{
    const size_t half = inv_freq.size(), n = 2 * half;
    double square = 0, dot = 0;
    for (size_t i = 0; i < half; i++) {
        double a = (double)((float)pos * inv_freq[i]);
        out[i] = dy[i] * cos(a) + dy[i + half] * sin(a);
        out[i + half] = dy[i + half] * cos(a) - dy[i] * sin(a);
    }
    if (!norm)
        return;
    for (size_t i = 0; i < n; i++) {
        square += (double)x[i] * x[i];
        dot += out[i] * norm[i] * x[i];
    }
    double r = 1 / sqrt(square / (double)n + eps);
    for (size_t i = 0; i < n; i++)
        out[i] = r * norm[i] * out[i] - x[i] * r * r * r * dot / (double)n;
}

void qkv(int heads, int kv_heads, int hd, bool f32, bool normed)
{
    const int T = 5, all = heads + 2 * kv_heads;
    const size_t n = (size_t)(T * all * hd), nq = (size_t)(T * heads * hd);
    const size_t nk = (size_t)(T * kv_heads * hd);
    const float eps = 1e-4f;
    Floats x = kt::normal(n, 2), dq = kt::normal(nq), dk = kt::normal(nk), dv = kt::normal(nk);
    Floats qnorm = kt::normal((size_t)hd), knorm = kt::normal((size_t)hd), inv_freq;
    std::vector<int32_t> pos = {0, 1, 77, 4095, 131071};
    Doubles want(n);
    for (int i = 0; i < hd / 2; i++)
        inv_freq.push_back((float)pow(1e6, -2.0 * i / hd));
    for (int t = 0; t < T; t++)
        for (int h = 0; h < all; h++) {
            size_t at = (size_t)((t * all + h) * hd), k = (size_t)((t * kv_heads) * hd);
            size_t i = (size_t)((h - heads) * hd), j = (size_t)((h - heads - kv_heads) * hd);
            if (h < heads)
                head_reference(&want[at], &dq[(size_t)((t * heads + h) * hd)], &x[at],
                               normed ? qnorm.data() : nullptr, eps, inv_freq, pos[(size_t)t]);
            else if (h < heads + kv_heads)
                head_reference(&want[at], &dk[k + i], &x[at], normed ? knorm.data() : nullptr, eps,
                               inv_freq, pos[(size_t)t]);
            else
                std::copy_n(&dv[k + j], hd, &want[at]);
        }
    const mint_attn_shape s = {heads, kv_heads, hd, 1};
    const mint_k_attn ks = {heads, kv_heads, hd, 1};
    Act twin(n, f32);
    cpu(f32)->ops->qkv_backward(cpu(f32), twin.bytes.data(), dq.data(), dk.data(), dv.data(),
                                x.data(), normed ? qnorm.data() : nullptr,
                                normed ? knorm.data() : nullptr, eps, inv_freq.data(), pos.data(),
                                &s, T, &err);
    Dev<float> d_x(x), d_dq(dq), d_dk(dk), d_dv(dv), d_qnorm(qnorm), d_knorm(knorm), d_f(inv_freq);
    Dev<int32_t> d_pos(pos);
    Dev<unsigned char> out(twin.bytes.size());
    mint_k_qkv_backward(out.p, f32, d_dq.p, d_dk.p, d_dv.p, d_x.p, normed ? d_qnorm.p : nullptr,
                        normed ? d_knorm.p : nullptr, eps, d_f.p, d_pos.p, &ks, T, nullptr);
    Act got(n, f32);
    got.bytes = out.get();
    agree("qkv_backward", hd, f32, want, twin.floats(), got.floats());
    if (!normed)
        CHECK(got.bytes == twin.bytes, "without norms: the bits of the CPU");
}

void swiglu(int64_t T, int64_t F, bool f32)
{
    const size_t n = (size_t)(T * F);
    Floats gu = kt::normal(2 * n, 4), dout = kt::normal(n);
    Doubles want(2 * n);
    gu[0] = 90;
    gu[1] = -90;
    for (int64_t t = 0; t < T; t++)
        for (int64_t i = 0; i < F; i++) {
            size_t at = (size_t)(t * 2 * F + i);
            double g = gu[at], u = gu[at + (size_t)F], d = dout[(size_t)(t * F + i)];
            double s = 1 / (1 + exp(-g));
            want[at] = d * u * s * (1 + g * (1 - s));
            want[at + (size_t)F] = d * g * s;
        }
    Act twin(2 * n, f32), got(2 * n, f32);
    cpu(f32)->ops->swiglu_backward(cpu(f32), twin.bytes.data(), dout.data(), gu.data(), T, F, &err);
    Dev<float> d_gu(gu), d_dout(dout);
    Dev<unsigned char> out(twin.bytes.size());
    mint_k_swiglu_backward(out.p, f32, d_dout.p, d_gu.p, T, F, nullptr);
    got.bytes = out.get();
    agree("swiglu_backward", F, f32, want, twin.floats(), got.floats());
    CHECK(got.bytes == twin.bytes, "swiglu_backward %lld: the bits of the CPU", (long long)F);
}

/* In chunks of cols columns; ldl, lddy: strides. */
void dlogits(int64_t T, int64_t V, int64_t cols, int64_t ldl, int64_t lddy, bool f32, bool dh)
{
    Floats logits = kt::normal((size_t)(T * V), 3), dlp = kt::normal((size_t)T), lse, entropy;
    Floats dentropy = kt::normal((size_t)T);
    std::vector<int32_t> target;
    Doubles want;
    Act got((size_t)(T * V), f32), twin((size_t)(T * V), f32);
    const size_t act = f32 ? 4 : 2;
    dentropy[0] = 0;
    logits[3] = -INFINITY;
    for (int64_t t = 0; t < T; t++) {
        const float *x = &logits[(size_t)(t * V)];
        double sum = 0, h = 0;
        target.push_back((int32_t)(t == 0 ? 0 : t == 1 ? V - 1 : kt::random32() % V));
        for (int64_t v = 0; v < V; v++)
            sum += exp((double)x[v]);
        for (int64_t v = 0; v < V; v++)
            h -= exp((double)x[v]) / sum * std::max(x[v] - log(sum), -1e9);
        lse.push_back((float)log(sum));
        entropy.push_back((float)h);
        for (int64_t v = 0; v < V; v++) {
            double p = exp((double)x[v]) / sum, y = std::max(x[v] - log(sum), -1e9);
            want.push_back(dlp[(size_t)t] * ((v == target.back()) - p) -
                           (dh ? dentropy[(size_t)t] * p * (y + h) : 0));
        }
    }
    Dev<float> d_dlp(dlp), d_lse(lse), d_entropy(entropy), d_dentropy(dentropy);
    Dev<int32_t> d_target(target);
    const mint_k_head_grad g = {d_target.p, d_lse.p, d_dlp.p, dh ? d_entropy.p : nullptr,
                                dh ? d_dentropy.p : nullptr};
    for (int64_t v0 = 0; v0 < V; v0 += cols) {
        const int64_t n = std::min(cols, V - v0);
        Floats padded((size_t)(T * ldl), NAN);
        for (int64_t t = 0; t < T; t++)
            std::copy_n(&logits[(size_t)(t * V + v0)], n, &padded[(size_t)(t * ldl)]);
        Dev<float> x(padded);
        Dev<unsigned char> out((size_t)(T * lddy) * act);
        mint_k_dlogits(out.p, lddy, f32, x.p, ldl, &g, T, v0, n, nullptr);
        std::vector<unsigned char> dy = out.get();
        for (int64_t t = 0; t < T; t++) {
            const size_t i = (size_t)t, row = i * (size_t)lddy * act, to = (i * V + v0) * act;
            const struct cpu_dlogits c = {lse[i], dlp[i], entropy[i], dh ? dentropy[i] : 0,
                                          target[i] - v0};
            std::copy_n(&dy[row], (size_t)n * act, &got.bytes[to]);
            cpu_rows_portable.dlogits(&twin.bytes[to], !f32, &padded[i * (size_t)ldl], &c, n);
            CHECK(n == lddy || dy[row + (size_t)n * act] == 0xff, "a write behind the columns");
        }
    }
    agree("dlogits", V, f32, want, twin.floats(), got.floats());
    CHECK(got.bytes == twin.bytes, "dlogits %lld: the bits of the CPU", (long long)V);
}

} // namespace

CASE(backward_rmsnorm)
{
    for (int64_t H : {1, 4, 30, 1024, 2560})
        norm(H > 1000 && kt::quick ? 1 : 3, H);
}

CASE(backward_qkv)
{
    for (int i = 0; i < 4; i++) {
        qkv(2, 1, 64, i & 1, i & 2);
        qkv(3, 3, 10, i & 1, i & 2);
        if (!kt::quick)
            qkv(4, 2, 128, i & 1, i & 2);
    }
    qkv(1, 1, 256, false, true);
}

CASE(backward_swiglu)
{
    for (int i = 0; i < 2; i++) {
        swiglu(3, 2, i);
        swiglu(2, 37, i);
        swiglu(2, 1100, i);
    }
}

CASE(backward_dlogits)
{
    for (int i = 0; i < 4; i++) {
        dlogits(3, 100, 100, 100, 100, i & 1, i & 2);
        dlogits(2, 1003, 256, 257, 260, i & 1, i & 2);
        dlogits(2, 2050, 1024, 1024, 1024, i & 1, i & 2);
    }
}

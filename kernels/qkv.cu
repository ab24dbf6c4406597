// SPDX-License-Identifier: Apache-2.0
/*
 * qkv.cu: from the fused projection to rotated queries and the KV store. Of a head x of hd values,
 * half = hd / 2, at position p (Su et al. 2021; the norm, if there is one, as in norm.cu):
 *
 *   n = x / sqrt(mean(x^2) + eps) * w
 *   y[i] = n[i] cos a - n[i+half] sin a,  y[i+half] = n[i+half] cos a + n[i] sin a,
 *   a = p * inv_freq[i] as a float product
 *
 * A block a token. Its threads first make the half cosines and sines, in shared memory; then LANES
 * lanes take a head at a time, each lane up to 4 pairs (i, i+half): with VEC, LANES = half / 4 and
 * the pairs of a lane are neighbours; else LANES = 32 and they are 32 apart.
 */
#include "vec.h"

#include "kernels.h"

namespace
{

constexpr int THREADS = 128, HALF_MAX = MINT_K_ATTENTION_DIM_MAX / 2;

struct alignas(16) Turn {
    float cosine[HALF_MAX], sine[HALF_MAX];
};

template <class A> struct Args {
    A *q, *k, *v;
    int64_t page_stride, head_stride;
    const float *qkv, *qnorm, *knorm, *inv_freq;
    const int32_t *pos, *pages;
    float eps;
    int heads, kv_heads, half;
};

/* Where head h of the token's row goes: queries, then keys, then values. */
template <class A> DEVICE A *target(const Args<A> &p, int64_t t, int h)
{
    int hd = 2 * p.half;
    if (h < p.heads)
        return p.q + (t * p.heads + h) * hd;
    int64_t at = p.pages[t] * p.page_stride + p.pos[t] % MINT_K_PAGE * hd;
    h -= p.heads;
    return h < p.kv_heads ? p.k + at + h * p.head_stride
                          : p.v + at + (h - p.kv_heads) * p.head_stride;
}

/* 1 / rms of a head of which every lane of LANES has the pairs a, b. */
template <int LANES> DEVICE float inverse_rms(vec4 a, vec4 b, int hd, float eps)
{
    float sum = 0;
    for (int j = 0; j < 4; j++)
        sum = fmaf(b.v[j], b.v[j], fmaf(a.v[j], a.v[j], sum));
    for (int o = LANES / 2; o; o /= 2)
        sum += __shfl_xor_sync(~0u, sum, o);
    return 1.0f / sqrtf(sum / (float)hd + eps);
}

/* The lane's four of the n values at p. */
template <bool VEC> DEVICE vec4 take(const float *p, int lane, int n)
{
    vec4 r;
    if constexpr (VEC)
        r = get4(p, 4 * lane, n, true);
    else
        for (int j = 0; j < 4; j++)
            r.v[j] = lane + 32 * j < n ? p[lane + 32 * j] : 0;
    return r;
}

template <bool VEC, class A> DEVICE void give(A *p, int lane, int n, vec4 x)
{
    if constexpr (VEC)
        put4(p, 4 * lane, n, true, x);
    else
        for (int j = 0; j < 4; j++)
            if (lane + 32 * j < n)
                p[lane + 32 * j] = to_act<A>(x.v[j]);
}

/* Head h of token t, rotated if it is a query or a key. All lanes of the warp come here; ok false:
 * this one has no head and writes nothing. */
template <class A, int LANES, bool VEC>
DEVICE void turn(const Args<A> &p, const Turn &by, int h, bool ok)
{
    int lane = threadIdx.x % LANES, half = p.half, heads = p.heads + 2 * p.kv_heads;
    bool rotated = h < p.heads + p.kv_heads;
    const float *x = p.qkv + ((int64_t)blockIdx.x * heads + h) * 2 * half;
    const float *w = h < p.heads ? p.qnorm : p.knorm;
    vec4 a = take<VEC>(x, lane, half), b = take<VEC>(x + half, lane, half);
    float r = inverse_rms<LANES>(a, b, 2 * half, p.eps);
    if (rotated && w) {
        vec4 u = take<VEC>(w, lane, half), v = take<VEC>(w + half, lane, half);
        for (int j = 0; j < 4; j++) {
            a.v[j] = a.v[j] * r * u.v[j];
            b.v[j] = b.v[j] * r * v.v[j];
        }
    }
    if (rotated) {
        vec4 c = take<VEC>(by.cosine, lane, half), s = take<VEC>(by.sine, lane, half);
        for (int j = 0; j < 4; j++) {
            float x1 = a.v[j], x2 = b.v[j];
            a.v[j] = x1 * c.v[j] - x2 * s.v[j];
            b.v[j] = x2 * c.v[j] + x1 * s.v[j];
        }
    }
    if (ok) {
        A *out = target(p, blockIdx.x, h);
        give<VEC>(out, lane, half, a);
        give<VEC>(out + half, lane, half, b);
    }
}

template <class A, int LANES, bool VEC> __global__ void __launch_bounds__(THREADS) k_qkv(Args<A> p)
{
    SHARED(Turn, by, [1]);
    int heads = p.heads + 2 * p.kv_heads;
    for (int i = threadIdx.x; i < p.half; i += THREADS)
        sincos_((float)p.pos[blockIdx.x] * p.inv_freq[i], &by->cosine[i], &by->sine[i]);
    __syncthreads();
    for (int h0 = 0; h0 < heads; h0 += THREADS / LANES) {
        int h = h0 + (int)threadIdx.x / LANES;
        turn<A, LANES, VEC>(p, *by, min(h, heads - 1), h < heads);
    }
}

template <class A> void qkv(const Args<A> &p, unsigned T, cudaStream_t stream)
{
    bool vec = vec_rows(p.q, p.half) && vec_rows(p.k, p.half) && vec_rows(p.v, p.half) &&
               vec_rows(p.k, p.page_stride) && vec_rows(p.k, p.head_stride) &&
               vec_rows(p.qkv, p.half) && (!p.qnorm || vec_rows(p.qnorm, p.half)) &&
               (!p.knorm || vec_rows(p.knorm, p.half));
    if (vec && p.half == 128)
        LAUNCH((k_qkv<A, 32, true>), T, THREADS, 0, stream, p);
    else if (vec && p.half == 64)
        LAUNCH((k_qkv<A, 16, true>), T, THREADS, 0, stream, p);
    else if (vec && p.half == 32)
        LAUNCH((k_qkv<A, 8, true>), T, THREADS, 0, stream, p);
    else
        LAUNCH((k_qkv<A, 32, false>), T, THREADS, 0, stream, p);
}

} // namespace

void mint_k_qkv(void *q, const struct mint_k_kv *kv, bool f32, const float *qkv_,
                const float *qnorm, const float *knorm, float eps, const float *inv_freq,
                const int32_t *pos, const int32_t *pages, const struct mint_k_attn *s, int64_t T,
                cudaStream_t stream)
{
    int half = s->head_dim / 2;
    if (T < 1)
        return;
    if (f32)
        qkv<float>({(float *)q, (float *)kv->k, (float *)kv->v, kv->page_stride, kv->head_stride,
                    qkv_, qnorm, knorm, inv_freq, pos, pages, eps, s->heads, s->kv_heads, half},
                   (unsigned)T, stream);
    else
        qkv<bf16>({(bf16 *)q, (bf16 *)kv->k, (bf16 *)kv->v, kv->page_stride, kv->head_stride, qkv_,
                   qnorm, knorm, inv_freq, pos, pages, eps, s->heads, s->kv_heads, half},
                  (unsigned)T, stream);
}

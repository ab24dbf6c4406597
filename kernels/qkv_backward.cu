// SPDX-License-Identifier: Apache-2.0
/*
 * qkv_backward.cu: the gradient of qkv.cu: queries and keys back through the rotation, by minus the
 * angle a = pos * inv_freq[i] (a float product), then through the head's RMS norm, if there is one;
 * values as they are. Of a head's gradient dy, with half = head_dim / 2, x the forward's input and
 * r = 1 / sqrt(mean(x^2) + eps):
 *
 *   g[i] = dy[i] cos a + dy[i+half] sin a,  g[i+half] = dy[i+half] cos a - dy[i] sin a
 *   dx = r w g - x r^3 / head_dim sum(w g x)
 *
 * A block a token. Its threads first make the cosines and sines, in shared memory; then a warp has
 * a head at a time, a lane its pairs (i, i+half), i = lane, lane + 32, ... Sums: a lane's pairs
 * ascending, then lanes by halves.
 */
#include "dev.h"
#include "kernels.h"

namespace
{

constexpr int WARPS = 4, MAX_HALF = MINT_K_ATTENTION_DIM_MAX / 2, PAIRS = MAX_HALF / 32;

struct Args {
    const float *dq, *dk, *dv, *qkv, *qnorm, *knorm, *inv_freq;
    const int32_t *pos;
    int heads, kv_heads, half; /* half of head_dim */
    float eps;
};

/* Of a lane: both parts of its pairs, 0 behind the last one. */
struct Pairs {
    float a[PAIRS], b[PAIRS];
};

DEVICE Pairs load_pairs(const float *x, int half)
{
    Pairs p;
    for (int j = 0; j < PAIRS; j++) {
        int i = threadIdx.x % 32 + 32 * j;
        p.a[j] = i < half ? x[i] : 0.0f;
        p.b[j] = i < half ? x[i + half] : 0.0f;
    }
    return p;
}

template <class A> DEVICE void store_pairs(A *out, const Pairs &p, int half)
{
#pragma unroll
    for (int j = 0; j < PAIRS; j++) {
        int i = threadIdx.x % 32 + 32 * j;
        if (i < half) {
            out[i] = to_act<A>(p.a[j]);
            out[i + half] = to_act<A>(p.b[j]);
        }
    }
}

DEVICE float dot(const Pairs &x, const Pairs &y)
{
    float s = 0;
    for (int j = 0; j < PAIRS; j++)
        s = fmaf(x.b[j], y.b[j], fmaf(x.a[j], y.a[j], s));
    return warp_sum(s);
}

DEVICE void turn_back(Pairs *p, const float2 *angles, int half)
{
    for (int j = 0; j < PAIRS; j++) {
        int i = threadIdx.x % 32 + 32 * j;
        float2 e = i < half ? angles[i] : make_float2(0, 0);
        float a = p->a[j] * e.x + p->b[j] * e.y;
        p->b[j] = p->b[j] * e.x - p->a[j] * e.y;
        p->a[j] = a;
    }
}

DEVICE void through_norm(Pairs *y, const float *head, const float *norm, int half, float eps)
{
    Pairs x = load_pairs(head, half), w = load_pairs(norm, half);
    float n = (float)(2 * half), r = 1.0f / sqrtf(dot(x, x) / n + eps);
    for (int j = 0; j < PAIRS; j++) {
        y->a[j] *= w.a[j];
        y->b[j] *= w.b[j];
    }
    float c = dot(*y, x) * (r * r * r) / n;
    for (int j = 0; j < PAIRS; j++) {
        y->a[j] = y->a[j] * r - x.a[j] * c;
        y->b[j] = y->b[j] * r - x.b[j] * c;
    }
}

template <class A> __global__ void __launch_bounds__(32 * WARPS) k_qkv_backward(A *out, Args x)
{
    SHARED(float2, angles, [MAX_HALF]); /* cos, sin */
    int half = x.half, hd = 2 * half;
    int64_t t = blockIdx.x;
    for (int i = threadIdx.x; i < half; i += 32 * WARPS)
        sincos_((float)x.pos[t] * x.inv_freq[i], &angles[i].x, &angles[i].y);
    __syncthreads();
    int rotated = x.heads + x.kv_heads, all = rotated + x.kv_heads;
    for (int h = threadIdx.x / 32; h < all; h += WARPS) {
        bool q = h < x.heads;
        int64_t at = (t * all + h) * hd;
        const float *dy = q             ? x.dq + (t * x.heads + h) * hd
                          : h < rotated ? x.dk + (t * x.kv_heads + h - x.heads) * hd
                                        : x.dv + (t * x.kv_heads + h - rotated) * hd;
        const float *norm = q ? x.qnorm : x.knorm;
        Pairs y = load_pairs(dy, half);
        if (h < rotated) {
            turn_back(&y, angles, half);
            if (norm)
                through_norm(&y, x.qkv + at, norm, half, x.eps);
        }
        store_pairs(out + at, y, half);
    }
}

} // namespace

void mint_k_qkv_backward(void *dqkv, bool f32, const float *dq, const float *dk, const float *dv,
                         const float *qkv, const float *qnorm, const float *knorm, float eps,
                         const float *inv_freq, const int32_t *pos, const struct mint_k_attn *s,
                         int64_t T, cudaStream_t stream)
{
    const Args x = {dq,       dk,  dv,       qkv,         qnorm,           knorm,
                    inv_freq, pos, s->heads, s->kv_heads, s->head_dim / 2, eps};
    if (T < 1)
        return;
    if (f32)
        LAUNCH(k_qkv_backward<float>, (unsigned)T, 32 * WARPS, 0, stream, (float *)dqkv, x);
    else
        LAUNCH(k_qkv_backward<bf16>, (unsigned)T, 32 * WARPS, 0, stream, (bf16 *)dqkv, x);
}

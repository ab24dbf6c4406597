// SPDX-License-Identifier: Apache-2.0
/*
 * attention_plain.cu: forward attention of float activations and of heads that the tensor cores do
 * not serve; attention.cu says what is computed. A warp a row, which walks the pages in order:
 *
 *   m' = max(m, max s), p = e^(s - m'), l' = l e^(m - m') + sum p, o' = o e^(m - m') + act(p) v
 *
 * Lanes have keys lane and lane + 32 of a page's scores, and dimensions lane, lane + 32, ... of the
 * output. Slow; it is there to be compared with, and for models of uncommon shape.
 */
#include "attention.h"

namespace
{

using namespace forward;

constexpr int THREADS = 128, WARPS = 4;

/* Grid: (tokens, heads by blocks). */
template <class A>
__global__ void __launch_bounds__(THREADS) k_plain(Args<A> p, const Token *tokens)
{
    constexpr int DIMS = MINT_K_ATTENTION_DIM_MAX / 32;
    SHARED(float, query, [WARPS][MINT_K_ATTENTION_DIM_MAX]);
    SHARED(float, prob, [WARPS][PAGE]);
    Token k = tokens[blockIdx.x];
    mint_k_seq seq = p.seqs[k.seq];
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32, head = (int)blockIdx.y * WARPS + warp;
    int pos = seq.pos0 + k.token;
    if (head >= p.heads)
        return;
    int64_t at = (int64_t)(seq.row0 + k.token) * p.heads + head;
    float m = -INFINITY, l = 0, o[DIMS] = {};
    for (int d = lane; d < p.head_dim; d += 32)
        query[warp][d] = to_f32(p.q[at * p.head_dim + d]);
    __syncwarp();
    for (int key0 = 0; key0 <= pos; key0 += PAGE) {
        int64_t page =
            p.pages[seq.page0 + key0 / PAGE] * p.page_stride + head / p.group * p.head_stride;
        int n = min(PAGE, pos + 1 - key0);
        float s[2] = {-INFINITY, -INFINITY};
        for (int i = 0; i < 2; i++) {
            const A *key = p.k + page + (lane + 32 * i) * p.head_dim;
            float dot = 0;
            if (lane + 32 * i >= n)
                continue;
            for (int d = 0; d < p.head_dim; d++)
                dot = fmaf(query[warp][d], to_f32(key[d]), dot);
            s[i] = dot * p.scale;
        }
        float top = fmaxf(m, warp_max(fmaxf(s[0], s[1]))), w = exp_(m - top);
        m = top;
        for (int i = 0; i < 2; i++) {
            s[i] = exp_(s[i] - m);
            prob[warp][lane + 32 * i] = to_f32(to_act<A>(s[i]));
        }
        l = fmaf(l, w, warp_sum(s[0] + s[1]));
        __syncwarp();
#pragma unroll
        for (int i = 0; i < DIMS; i++) {
            const A *value = p.v + page + lane + 32 * i;
            o[i] *= w;
            for (int j = 0; j < n && lane + 32 * i < p.head_dim; j++)
                o[i] = fmaf(prob[warp][j], to_f32(value[j * p.head_dim]), o[i]);
        }
        __syncwarp(); /* prob is written again */
    }
    float inverse = 1.0f / l;
#pragma unroll
    for (int i = 0; i < DIMS; i++)
        if (lane + 32 * i < p.head_dim)
            p.out[at * p.head_dim + lane + 32 * i] = to_act<A>(finish(o[i], inverse));
    if (p.lse && lane == 0)
        p.lse[at] = m + log_(l);
}

template <class A>
void launch(const Args<A> &p, const mint_k_forward_plan *plan, const Table &table,
            cudaStream_t stream)
{
    if (plan->plain)
        LAUNCH(k_plain<A>, dim3((unsigned)plan->plain, blocks(p.heads, WARPS)), THREADS, 0, stream,
               p, table.tokens);
}

} // namespace

void forward::launch_plain(const Args<bf16> &p, const mint_k_forward_plan *plan, const Table &table,
                           cudaStream_t stream)
{
    launch(p, plan, table, stream);
}

void forward::launch_plain(const Args<float> &p, const mint_k_forward_plan *plan,
                           const Table &table, cudaStream_t stream)
{
    launch(p, plan, table, stream);
}

// SPDX-License-Identifier: Apache-2.0
/*
 * attention_tensor.cu: forward attention by tensor cores; attention.cu says what is computed and
 * why its bits do not depend on who computes it. Of a page, with base-2 scores s = q k scale
 * log2(e) and a running maximum m:
 *
 *   m' = max(m, max s), p = 2^(s - m'), l' = l 2^(m - m') + sum p, o' = o 2^(m - m') + bf16(p) v
 *
 * sum p is made by lane: keys 16 g .. 16 g + 15 for g = 0..3, each in the order of the accumulator,
 * then g ascending, then the lanes of a quad.
 *
 * A fragment of 16 rows is worked on by W warps. W = 1: k_tiles, 4 fragments a block, which share
 * the pages in shared memory and walk all splits. W = 4: k_splits, one fragment and one split a
 * block: a warp has 16 keys of the scores and a quarter of the dimensions of the output, and gets
 * the others' maxima, sums and probabilities through shared memory; k_merge puts the splits
 * together. Lanes hold parts of a fragment as dev.h says: of rows g and g + 8.
 */
#include "attention.h"
#include "vec.h"

namespace
{

using namespace forward;

constexpr int THREADS = 128, WARPS = 4;
static_assert(TILE == WARPS * FRAGMENT, "a warp a fragment");

/* ---- of a fragment: state, and one page. */

template <int D, int W> struct Part {
    float m[2], l[2], o[D / 8 / W][4];
};

template <int D> struct Stage { /* rows are longer by 8, against bank conflicts */
    bf16 k[PAGE][D + 8], v[PAGE][D + 8];
};

struct Exchange { /* between the warps of a fragment, by warp and lane */
    uint4 p[4][32];
    float2 top[4][32], sum[4][32];
};

template <int D, int W> DEVICE void clear(Part<D, W> &a)
{
    for (int r = 0; r < 2; r++) {
        a.m[r] = -INFINITY;
        a.l[r] = 0;
    }
    for (auto &o : a.o)
        o[0] = o[1] = o[2] = o[3] = 0;
}

/* Scaled, masked scores of the warp's 64 / W keys, from key0 on. */
template <int D, int W>
DEVICE void scores(float s[][4], const unsigned q[][4], const Stage<D> &stage, int key0,
                   const int pos[2], float scale)
{
    int lane = threadIdx.x % 32, n0 = W == 1 ? 0 : threadIdx.x / 32 * 2;
#pragma unroll
    for (int n = 0; n < 8 / W; n++) {
        s[n][0] = s[n][1] = s[n][2] = s[n][3] = 0;
#pragma unroll
        for (int d = 0; d < D / 16; d += 2) {
            unsigned b[4];
            ldmatrix<4, false>(b, &stage.k[(n0 + n) * 8 + lane % 8][d * 16 + lane / 8 * 8]);
            mma_bf16(s[n], q[d], b);
            mma_bf16(s[n], q[d + 1], b + 2);
        }
#pragma unroll
        for (int i = 0; i < 4; i++) {
            int key = key0 + (n0 + n) * 8 + lane % 4 * 2 + i % 2;
            s[n][i] = key <= pos[i / 2] ? s[n][i] * scale : -INFINITY;
        }
    }
}

/* The new maxima; w: what the sums and outputs so far have to be multiplied by. */
template <int D, int W>
DEVICE void maxima(Part<D, W> &a, float w[2], const float s[][4], Exchange *x)
{
    float top[2] = {-INFINITY, -INFINITY};
#pragma unroll
    for (int n = 0; n < 8 / W; n++)
#pragma unroll
        for (int i = 0; i < 4; i++)
            top[i / 2] = fmaxf(top[i / 2], s[n][i]);
    if constexpr (W > 1) {
        int lane = threadIdx.x % 32;
        x->top[threadIdx.x / 32][lane] = make_float2(top[0], top[1]);
        __syncthreads();
        for (int i = 0; i < W; i++) {
            float2 t = x->top[i][lane];
            top[0] = fmaxf(top[0], t.x);
            top[1] = fmaxf(top[1], t.y);
        }
    }
#pragma unroll
    for (int r = 0; r < 2; r++) {
        top[r] = fmaxf(top[r], __shfl_xor_sync(~0u, top[r], 1));
        top[r] = fmaxf(top[r], __shfl_xor_sync(~0u, top[r], 2));
        top[r] = fmaxf(top[r], a.m[r]);
        w[r] = top[r] == a.m[r] ? 1.0f : exp2_(a.m[r] - top[r]);
        a.m[r] = top[r];
    }
}

/* Probabilities, unnormalised: p, the fragments of all 64 keys; sum, over them, of the lane. */
template <int D, int W>
DEVICE void probabilities(const Part<D, W> &a, unsigned p[4][4], float sum[2], float s[][4],
                          Exchange *x)
{
    float part[4 / W][2];
#pragma unroll
    for (int g = 0; g < 4 / W; g++) {
        part[g][0] = part[g][1] = 0;
#pragma unroll
        for (int n = 2 * g; n < 2 * g + 2; n++)
#pragma unroll
            for (int i = 0; i < 4; i++) {
                float m = a.m[i / 2] == -INFINITY ? 0 : a.m[i / 2]; /* no key yet */
                s[n][i] = exp2_(s[n][i] - m);
                part[g][i / 2] += s[n][i];
            }
        for (int i = 0; i < 4; i++)
            p[g][i] = pack_bf16(s[2 * g + i / 2][i % 2 * 2], s[2 * g + i / 2][i % 2 * 2 + 1]);
    }
    if constexpr (W > 1) {
        int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
        x->p[warp][lane] = make_uint4(p[0][0], p[0][1], p[0][2], p[0][3]);
        x->sum[warp][lane] = make_float2(part[0][0], part[0][1]);
        __syncthreads();
        sum[0] = sum[1] = 0;
        for (int g = 0; g < 4; g++) {
            uint4 u = x->p[g][lane];
            float2 f = x->sum[g][lane];
            p[g][0] = u.x, p[g][1] = u.y, p[g][2] = u.z, p[g][3] = u.w;
            sum[0] += f.x;
            sum[1] += f.y;
        }
    } else {
        sum[0] = sum[1] = 0;
        for (int g = 0; g < 4; g++) {
            sum[0] += part[g][0];
            sum[1] += part[g][1];
        }
    }
}

/* The page with the keys from key0 on. */
template <int D, int W>
DEVICE void attend(Part<D, W> &a, const unsigned q[][4], const Stage<D> &stage, Exchange *x,
                   int key0, const int pos[2], float scale)
{
    int lane = threadIdx.x % 32, n0 = W == 1 ? 0 : threadIdx.x / 32 * (D / 8 / W);
    float s[8 / W][4], w[2], sum[2];
    unsigned p[4][4];
    scores<D, W>(s, q, stage, key0, pos, scale);
    maxima(a, w, s, x);
    probabilities(a, p, sum, s, x);
#pragma unroll
    for (int r = 0; r < 2; r++) {
        sum[r] += __shfl_xor_sync(~0u, sum[r], 1);
        sum[r] += __shfl_xor_sync(~0u, sum[r], 2);
        a.l[r] = fmaf(a.l[r], w[r], sum[r]);
    }
#pragma unroll
    for (int n = 0; n < D / 8 / W; n += 2) {
#pragma unroll
        for (int i = 0; i < 4; i++) {
            a.o[n][i] *= w[i / 2];
            a.o[n + 1][i] *= w[i / 2];
        }
#pragma unroll
        for (int g = 0; g < 4; g++) {
            unsigned b[4];
            ldmatrix<4, true>(b, &stage.v[g * 16 + lane % 16][(n0 + n) * 8 + lane / 16 * 8]);
            mma_bf16(a.o[n], p[g], b);
            mma_bf16(a.o[n + 1], p[g], b + 2);
        }
    }
}

/* ---- merging splits: one arithmetic for registers and for memory. */

DEVICE float merge_weights(float a, float b, float *wa, float *wb)
{
    float m = fmaxf(a, b);
    *wa = a == -INFINITY ? 0 : exp2_(a - m);
    *wb = b == -INFINITY ? 0 : exp2_(b - m);
    return m;
}
DEVICE float merge(float a, float wa, float b, float wb)
{
    return fmaf(a, wa, b * wb);
}

/* The sums of the splits behind a tile's pages. m and l are in shared memory: registers are short.
 */
template <int D> struct Sum {
    float o[D / 8][4];
    float2 *ml; /* [2] of this thread */
};

template <int D> DEVICE void merge(Sum<D> &all, const Part<D, 1> &a)
{
#pragma unroll
    for (int r = 0; r < 2; r++) {
        float wa, wb;
        float2 s = all.ml[r];
        float m = merge_weights(s.x, a.m[r], &wa, &wb);
        all.ml[r] = make_float2(m, merge(s.y, wa, a.l[r], wb));
#pragma unroll
        for (int n = 0; n < D / 8; n++)
#pragma unroll
            for (int i = 2 * r; i < 2 * r + 2; i++)
                all.o[n][i] = merge(all.o[n][i], wa, a.o[n][i], wb);
    }
}

DEVICE float lse_of(float m, float l)
{
    return fmaf(m, LN2, log_(l));
}

/* ---- rows and pages of a job. */

/* Row i (0, 1) of this lane in the fragment that begins at row first of the job. */
struct Row {
    bool ok;
    int token, pos; /* of the sequence; not ok: pos -1, sees nothing */
    int64_t at;     /* number of (token, head): place in q, out (times hd) and lse */
};

DEVICE Row row_of(const Args<bf16> &p, const Job &job, const mint_k_seq &seq, int first, int i)
{
    int n = first + (int)threadIdx.x % 32 / 4 + 8 * i, row = job.row + n;
    Row r;
    r.ok = n < job.rows;
    r.token = row / p.group;
    r.pos = r.ok ? seq.pos0 + r.token : -1;
    r.at = (int64_t)(seq.row0 + r.token) * p.heads + (int)blockIdx.y * p.group + row % p.group;
    return r;
}

/* The fragment's queries, and the positions of the lane's rows. */
template <int D>
DEVICE void load_q(unsigned q[][4], int pos[2], const Args<bf16> &p, const Job &job,
                   const mint_k_seq &seq, int first)
{
    for (int i = 0; i < 2; i++) {
        Row r = row_of(p, job, seq, first, i);
        const bf16 *x = p.q + r.at * D + threadIdx.x % 4 * 2;
        pos[i] = r.pos;
#pragma unroll
        for (int d = 0; d < D / 16; d++) {
            q[d][i] = r.ok ? *(const unsigned *)(x + d * 16) : 0;
            q[d][i + 2] = r.ok ? *(const unsigned *)(x + d * 16 + 8) : 0;
        }
    }
}

/* Begins to copy the page with keys key0 .. k1-1; what lies behind becomes 0. */
template <int D> DEVICE void bring(Stage<D> &s, const Args<bf16> &p, int page0, int key0, int k1)
{
    constexpr int STEP = THREADS / (D / 8);
    int slot = threadIdx.x / (D / 8), d = threadIdx.x % (D / 8) * 8;
    int64_t at = p.pages[page0 + key0 / PAGE] * p.page_stride + (int)blockIdx.y * p.head_stride +
                 slot * D + d;
#pragma unroll 2
    for (int i = 0; i < PAGE; i += STEP) {
        bool ok = key0 + slot + i < k1;
        cp_async16(&s.k[slot + i][d], p.k + at + i * D, ok);
        cp_async16(&s.v[slot + i][d], p.v + at + i * D, ok);
    }
    cp_async_commit();
}

/* use(stage, key0) for each page of the keys k0 .. k1-1, while the next one is on its way. */
template <int D, class F>
DEVICE void walk(Stage<D> *stage, const Args<bf16> &p, int page0, int k0, int k1, F use)
{
    bring(stage[0], p, page0, k0, k1);
    for (int key0 = k0, i = 0; key0 < k1; key0 += PAGE, i ^= 1) {
        cp_async_wait<0>();
        __syncthreads(); /* the page is there, and nobody is at the one before */
        if (key0 + PAGE < k1)
            bring(stage[i ^ 1], p, page0, key0 + PAGE, k1);
        use(stage[i], key0);
    }
}

/* ---- the kernels. Grid: (jobs, kv heads). */

template <int D>
__global__ void __launch_bounds__(THREADS, 2) k_tiles(Args<bf16> p, const Job *jobs)
{
    DYN_SHARED(Stage<D>, stage);
    Job job = jobs[blockIdx.x];
    mint_k_seq seq = p.seqs[job.seq];
    int end = seq.pos0 + (job.row + job.rows - 1) / p.group + 1, pos[2];
    int first = (int)threadIdx.x / 32 * FRAGMENT;
    unsigned q[D / 16][4];
    SHARED(float2, ml, [THREADS][2]);
    Part<D, 1> a;
    Sum<D> all = {{}, ml[threadIdx.x]};
    all.ml[0] = all.ml[1] = make_float2(-INFINITY, 0);
    load_q<D>(q, pos, p, job, seq, first);
    clear(a);
    walk(stage, p, seq.page0, 0, end, [&](const Stage<D> &s, int key0) {
        attend<D, 1>(a, q, s, nullptr, key0, pos, p.scale);
        if ((key0 + PAGE) % SPLIT == 0 || key0 + PAGE >= end) {
            merge(all, a);
            clear(a);
        }
    });
    job = jobs[blockIdx.x]; /* read again: there is no register in which to keep it */
    seq = p.seqs[job.seq];
    int t = threadIdx.x % 4;
#pragma unroll
    for (int i = 0; i < 2; i++) {
        Row r = row_of(p, job, seq, (int)threadIdx.x / 32 * FRAGMENT, i);
        float2 ml = all.ml[i];
        float inverse = 1.0f / ml.y;
        if (!r.ok)
            continue;
#pragma unroll
        for (int n = 0; n < D / 8; n++)
            *(unsigned *)(p.out + r.at * D + n * 8 + t * 2) =
                pack_bf16(finish(all.o[n][2 * i], inverse), finish(all.o[n][2 * i + 1], inverse));
        if (p.lse && t == 0)
            p.lse[r.at] = lse_of(ml.x, ml.y);
    }
}

/* The partial result of a token's head; null: there is one split only, which writes the output. */
template <int D> DEVICE float *part_of(const Args<bf16> &p, int seq, int token, int split, int head)
{
    int32_t at = p.part0[seq];
    if (at < 0)
        return nullptr;
    int splits = (p.seqs[seq].pos0 + p.seqs[seq].rows + SPLIT - 1) / SPLIT;
    return p.parts + ((at + (int64_t)token * splits + split) * p.heads + head) * (D + PART_EXTRA);
}

template <int D> struct SplitMemory {
    Stage<D> stage[2];
    Exchange x;
};

template <int D> __global__ void __launch_bounds__(THREADS) k_splits(Args<bf16> p, const Job *jobs)
{
    DYN_SHARED(SplitMemory<D>, memory);
    Job job = jobs[blockIdx.x];
    mint_k_seq seq = p.seqs[job.seq];
    int k0 = job.split * SPLIT, last = seq.pos0 + (job.row + job.rows - 1) / p.group, pos[2];
    int warp = threadIdx.x / 32, t = threadIdx.x % 4, n0 = warp * (D / 8 / 4);
    unsigned q[D / 16][4];
    Part<D, 4> a;
    load_q<D>(q, pos, p, job, seq, 0);
    clear(a);
    walk(memory->stage, p, seq.page0, k0, min(last + 1, k0 + SPLIT),
         [&](const Stage<D> &s, int key0) {
             attend<D, 4>(a, q, s, &memory->x, key0, pos, p.scale);
         });
#pragma unroll
    for (int i = 0; i < 2; i++) {
        Row r = row_of(p, job, seq, 0, i);
        if (!r.ok)
            continue;
        bool other = r.token >= seq.rows; /* of a following sequence */
        float *part = part_of<D>(p, job.seq + (other ? r.token : 0), other ? 0 : r.token, job.split,
                                 (int)(r.at % p.heads));
        float inverse = 1.0f / a.l[i];
#pragma unroll
        for (int n = 0; n < D / 8 / 4; n++) {
            int d = (n0 + n) * 8 + t * 2;
            float x = a.o[n][2 * i], y = a.o[n][2 * i + 1];
            if (part)
                *(float2 *)(part + d) = make_float2(x, y);
            else
                *(unsigned *)(p.out + r.at * D + d) =
                    pack_bf16(finish(x, inverse), finish(y, inverse));
        }
        if (warp || t)
            continue;
        if (part)
            *(float2 *)(part + D) = make_float2(a.m[i], a.l[i]);
        else if (p.lse)
            p.lse[r.at] = lse_of(a.m[i], a.l[i]);
    }
}

/* D / 4 threads a row, each with 4 dimensions. Grid: (tokens, heads by blocks). */
template <int D>
__global__ void __launch_bounds__(THREADS, 8) k_merge(Args<bf16> p, const Token *tokens)
{
    constexpr int EACH = D / 4;
    Token k = tokens[blockIdx.x];
    mint_k_seq seq = p.seqs[k.seq];
    int head = (int)blockIdx.y * (THREADS / EACH) + (int)threadIdx.x / EACH;
    int d = (int)threadIdx.x % EACH * 4;
    if (head >= p.heads)
        return;
    const float *part = part_of<D>(p, k.seq, k.token, 0, head);
    float m = -INFINITY, l = 0, o[4] = {0, 0, 0, 0}, wa, wb;
    for (int i = 0; i <= (seq.pos0 + k.token) / SPLIT; i++, part += p.heads * (D + PART_EXTRA)) {
        float4 x = *(const float4 *)(part + d);
        m = merge_weights(m, part[D], &wa, &wb);
        l = merge(l, wa, part[D + 1], wb);
        o[0] = merge(o[0], wa, x.x, wb);
        o[1] = merge(o[1], wa, x.y, wb);
        o[2] = merge(o[2], wa, x.z, wb);
        o[3] = merge(o[3], wa, x.w, wb);
    }
    int64_t at = (int64_t)(seq.row0 + k.token) * p.heads + head;
    float inverse = 1.0f / l;
    vec4 out = {finish(o[0], inverse), finish(o[1], inverse), finish(o[2], inverse),
                finish(o[3], inverse)};
    put4(p.out + at * D, d, D, true, out);
    if (p.lse && d == 0)
        p.lse[at] = lse_of(m, l);
}

template <int D>
void launch(Args<bf16> p, const mint_k_forward_plan *plan, const Table &table, cudaStream_t stream)
{
    unsigned kv_heads = (unsigned)(p.heads / p.group);
    p.part0 = table.part0;
    p.scale *= LOG2E;
    BIG_SMEM(k_tiles<D>, 2 * sizeof(Stage<D>));
    BIG_SMEM(k_splits<D>, sizeof(SplitMemory<D>));
    if (plan->tiles)
        LAUNCH(k_tiles<D>, dim3((unsigned)plan->tiles, kv_heads), THREADS, 2 * sizeof(Stage<D>),
               stream, p, table.tiles);
    if (plan->splits)
        LAUNCH(k_splits<D>, dim3((unsigned)plan->splits, kv_heads), THREADS, sizeof(SplitMemory<D>),
               stream, p, table.splits);
    if (plan->merges)
        LAUNCH(k_merge<D>, dim3((unsigned)plan->merges, blocks(p.heads, THREADS / (D / 4))),
               THREADS, 0, stream, p, table.tokens);
}

} // namespace

void forward::launch_tensor(const Args<bf16> &p, const mint_k_forward_plan *plan,
                            const Table &table, cudaStream_t stream)
{
    if (p.head_dim == 64)
        launch<64>(p, plan, table, stream);
    else
        launch<128>(p, plan, table, stream);
}

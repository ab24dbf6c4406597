// SPDX-License-Identifier: Apache-2.0
/*
 * sample.cu: one draw from each row of logits x. Ids below the draw's vocab have the weight
 *
 *   w(i) = floor(2^40 e^y),  y = (x[i] - max x) / temperature
 *
 * an integer, so that sums have no order; what is lighter than 2^-40 of the greatest weighs
 * nothing. top-k keeps the first k ids, by greater logit, then lower id; top-p of these the first
 * that weigh at least p of their sum; the draw is the first id, ascending, for which (sum of kept w
 * up to it) > floor(u * total). Temperature 0: ids with the greatest logit alone are kept, u is 0.
 *
 * k_pieces (head.cu) makes each row's softmax and its greatest drawable logit; then a block a row.
 * Where a filter cuts is found without sorting (cut): a histogram over intervals of the logit below
 * the greatest finds the interval, three histograms of bits (11, 11, 10) of the logits in it find
 * the logit, a count the last id among equals.
 */
#include "head.h"
#include "vec.h"

namespace
{

typedef unsigned long long u64;

constexpr int THREADS = 512, WARPS = THREADS / 32;
constexpr int BITS = 11, BINS = 1 << BITS; /* the last interval is all that is farther below */
constexpr float BINS_A_UNIT = 64;          /* of the logit (top-k) or of y (top-p) */
constexpr int SEGMENT = 1024;              /* ids of which a warp makes one sum */
static_assert(MINT_K_VOCAB_MAX / SEGMENT <= BINS, "segments fit where bins do");

/* What a histogram told: the bin of the cut, and what the bins before it weigh, and itself. */
struct Found {
    u64 before, in;
    int bin;
};

struct Shared {
    u64 sums[BINS]; /* of bins, or of segments */
    Found found;
    Piece all;
    int id;
};

/* A row at work. Kept are the ids below n whose logit is above key, and those at key up to last. */
struct Row {
    const float *x;
    bool vec;
    int n, last;
    unsigned key;
    float top, inv; /* the greatest logit, 1 / temperature */
    Shared *s;
};

/* Unsigned integers in the order of the floats; -0 is 0. */
DEVICE unsigned ordered(float x)
{
    unsigned u = __float_as_uint(x + 0.0f);
    return u & 0x80000000u ? ~u : u | 0x80000000u;
}
DEVICE float unordered(unsigned k)
{
    return __uint_as_float(k & 0x80000000u ? k & 0x7fffffffu : ~k);
}

DEVICE bool kept(const Row &r, float x, int i)
{
    unsigned k = ordered(x);
    return i < r.n && (k > r.key || (k == r.key && i <= r.last));
}
DEVICE float tempered(const Row &r, float x)
{
    return x == r.top ? 0 : (x - r.top) * r.inv;
}
DEVICE u64 weight(const Row &r, float x)
{
    return (u64)(exp_(tempered(r, x)) * 0x1p40f);
}

/* By one warp: the first i < n with *sum + value(0) + ... + value(i) > goal, else n - 1; to *sum is
 * added all before it. A lane has a run of neighbours. */
template <class F> DEVICE int first_over(F value, int n, u64 *sum, u64 goal)
{
    int lane = threadIdx.x % 32, each = (n + 31) / 32;
    int i = min(n, lane * each), end = min(n, i + each);
    u64 own = 0;
    for (int j = i; j < end; j++)
        own += value(j);
    u64 upto = own;
    for (int o = 1; o < 32; o *= 2) {
        u64 v = __shfl_up_sync(~0u, upto, o);
        upto += lane >= o ? v : 0;
    }
    unsigned over = __ballot_sync(~0u, *sum + upto > goal);
    int who = over ? __ffs((int)over) - 1 : (n - 1) / each;
    u64 before = *sum + upto - own;
    for (; lane == who && i + 1 < end; i++) {
        u64 v = value(i);
        if (before + v > goal)
            break;
        before += v;
    }
    *sum = __shfl_sync(~0u, before, who);
    return __shfl_sync(~0u, i, who);
}

/* By the block: each kept id counts count(x) in bin(x) of 0..bins-1, or nowhere where that is < 0.
 * The first bin with before + (sums up to it) >= limit; else the last. */
template <class B, class C>
DEVICE Found find_bin(const Row &r, B bin, C count, int bins, u64 before, u64 limit)
{
    for (int i = threadIdx.x; i < bins; i += THREADS)
        r.s->sums[i] = 0;
    __syncthreads();
    for (int i = 4 * threadIdx.x; i < r.n; i += 4 * THREADS) {
        vec4 a = get4(r.x, i, r.n, r.vec, -INFINITY);
        for (int j = 0; j < 4; j++) {
            int b = kept(r, a.v[j], i + j) ? bin(a.v[j]) : -1;
            u64 c = b >= 0 ? count(a.v[j]) : 0;
            if (c)
                atomicAdd(&r.s->sums[b], c);
        }
    }
    __syncthreads();
    if (threadIdx.x < 32) {
        int b = first_over([&](int i) { return r.s->sums[i]; }, bins, &before, limit - 1);
        if (threadIdx.x == 0)
            r.s->found = {before, r.s->sums[b], b};
    }
    __syncthreads();
    return r.s->found; /* written again behind the next call's barriers only */
}

/* By the block: the nth kept id with this key, n > 0. */
DEVICE int nth_equal(const Row &r, unsigned key, u64 nth)
{
    if (threadIdx.x < 32) {
        int i = 0;
        unsigned same = 0;
        for (u64 seen = 0; seen < nth; i += 32) {
            int at = min(i + (int)threadIdx.x, r.n - 1);
            float x = r.x[at];
            same = __ballot_sync(~0u,
                                 i + (int)threadIdx.x < r.n && ordered(x) == key && kept(r, x, at));
            seen += (unsigned)__popc(same);
            for (; seen > nth; seen--) /* the last of them are too many */
                same &= ~(0x80000000u >> __clz((int)same));
        }
        if (threadIdx.x == 0)
            r.s->id = i - 1 - __clz((int)same);
    }
    __syncthreads();
    return r.s->id;
}

/* By the block: keeps the first ids, in order, whose counts reach limit, 0 < limit <= their sum.
 * per: intervals a unit of the logit. */
template <class C> DEVICE void cut(Row &r, C count, u64 limit, float per)
{
    auto interval = [&](float x) {
        float b = (r.top - x) * per;
        return b < BINS - 1 ? (int)b : BINS - 1;
    };
    auto near = [&](float x) {
        int b = interval(x);
        return b < BINS - 1 ? b : -1; /* most are far below: not worth their atomics */
    };
    Found f = find_bin(r, near, count, BINS, 0, limit);
    int cell = f.bin;
    unsigned key = 0;
    for (int low = 32 - BITS; low >= 0; low = low > BITS ? low - BITS : low - (BITS - 1)) {
        int bits = low ? BITS : BITS - 1;
        unsigned above = ~0u << low << (bits - 1) << 1, mask = (1u << bits) - 1;
        auto digit = [&](float x) {
            unsigned k = ordered(x);
            bool in = interval(x) == cell && ((k ^ key) & above) == 0;
            return in ? (int)(~k >> low & mask) : -1; /* the greatest first */
        };
        f = find_bin(r, digit, count, 1 << bits, f.before, limit);
        key |= (~(unsigned)f.bin & mask) << low;
    }
    u64 each = count(unordered(key)), equal = (limit - f.before + each - 1) / each;
    int last = key > r.key ? r.n : r.last;
    if (equal * each < f.in)
        last = nth_equal(r, key, equal);
    r.last = last;
    r.key = key;
}

/* By the block: the sum of the kept weights, and those of the segments in sums. */
DEVICE u64 weigh(const Row &r)
{
    u64 total = 0;
    for (int s = threadIdx.x / 32; s * SEGMENT < r.n; s += WARPS) {
        u64 sum = 0;
        for (int k = 0; k < SEGMENT; k += 128) {
            int i = s * SEGMENT + k + 4 * (int)(threadIdx.x % 32);
            vec4 a = get4(r.x, i, r.n, r.vec, -INFINITY);
            for (int j = 0; j < 4; j++)
                sum += kept(r, a.v[j], i + j) ? weight(r, a.v[j]) : 0;
        }
        for (int o = 16; o; o /= 2)
            sum += __shfl_xor_sync(~0u, sum, o);
        if (threadIdx.x % 32 == 0)
            r.s->sums[s] = sum;
    }
    __syncthreads();
    for (int s = 0; s * SEGMENT < r.n; s++)
        total += r.s->sums[s];
    __syncthreads(); /* sums may be used for something else */
    return total;
}

DEVICE void filter(Row &r, const mint_k_draw &d)
{
    if (d.top_k > 0 && d.top_k < r.n)
        cut(
            r, [](float) { return (u64)1; }, (u64)d.top_k, BINS_A_UNIT);
    if (d.top_p < 1) {
        u64 total = weigh(r), limit = max((u64)1, (u64)ceil((double)d.top_p * (double)total));
        u64 light = (total - limit) / (u64)r.n; /* all that is no heavier is not needed */
        Row s = r;
        cut(
            r,
            [&](float x) {
                u64 w = weight(s, x);
                return w > light ? w : 0;
            },
            limit, BINS_A_UNIT * r.inv);
    }
}

/* By one warp: behind weigh. */
DEVICE int pick(const Row &r, u64 goal)
{
    u64 sum = 0;
    int s =
        first_over([&](int i) { return r.s->sums[i]; }, (r.n + SEGMENT - 1) / SEGMENT, &sum, goal);
    int i0 = s * SEGMENT;
    return i0 + first_over(
                    [&](int i) {
                        float x = r.x[i0 + i];
                        return kept(r, x, i0 + i) ? weight(r, x) : 0;
                    },
                    min(SEGMENT, r.n - i0), &sum, goal);
}

__global__ void __launch_bounds__(THREADS)
    k_draw(mint_k_drawn *out, const float4 *chunks, const float *logits, int64_t ldl, bool vec,
           const mint_k_draw *draws, int V)
{
    SHARED(Shared, s, [1]);
    mint_k_draw d = draws[blockIdx.x];
    int64_t pieces = MINT_K_CHUNKS(V);
    if (threadIdx.x == 0)
        s->all = fold(chunks + blockIdx.x * pieces, pieces);
    __syncthreads();
    Piece all = s->all;
    int flaw = !(all.sum < INFINITY && all.max < INFINITY) ? MINT_K_NOT_FINITE
               : all.top == -INFINITY                      ? MINT_K_NOTHING_TO_DRAW
                                                           : MINT_K_FINE;
    if (flaw != MINT_K_FINE) {
        if (threadIdx.x == 0)
            out[blockIdx.x] = {-1, 0, 0, flaw};
        return;
    }
    bool greedy = !(d.temperature > 0);
    int n = d.vocab > 0 ? min(d.vocab, V) : V;
    Row r = {logits + blockIdx.x * ldl,         vec, n, n, greedy ? ordered(all.top) : 0, all.top,
             greedy ? 1 : 1.0f / d.temperature, s};
    if (!greedy)
        filter(r, d);
    u64 total = weigh(r);
    if (threadIdx.x >= 32)
        return;
    int id = pick(r, greedy ? 0 : (u64)((double)d.u * (double)total));
    float logprob = log_softmax(all, r.x[id]);
    float behavior = tempered(r, r.x[id]) - log_((float)((double)total * 0x1p-40));
    bool same =
        d.temperature == 1 && n == V && r.key == 0; /* the same distribution, the same bits */
    if (threadIdx.x == 0)
        out[blockIdx.x] = {id, logprob, greedy ? 0 : same ? logprob : behavior, MINT_K_FINE};
}

} // namespace

void mint_k_sample(struct mint_k_drawn *out, float *chunks, const float *logits, int64_t ldl,
                   const struct mint_k_draw *draws, int64_t S, int64_t V, cudaStream_t stream)
{
    if (S < 1)
        return;
    mint_k_pieces(chunks, nullptr, logits, ldl, nullptr, draws, S, 0, V, V, stream);
    LAUNCH(k_draw, (unsigned)S, THREADS, 0, stream, out, (const float4 *)chunks, logits, ldl,
           vec_rows(logits, ldl), draws, (int)V);
}

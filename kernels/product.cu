// SPDX-License-Identifier: Apache-2.0
/*
 * product.cu: matrix products, c[M,N] = a b^T and its transposed forms. This is the definition of
 * the bits of every product: bf16 operands, one fp32 accumulator an output that takes the inner
 * dimension in ascending blocks of 16 by the tensor-core step (mma m16n8k16), the last block filled
 * with zeros. Tiles differ in speed only, so an output never depends on the other rows and columns.
 * No split of the inner dimension.
 *
 * A block of WM x WN warps computes BM x BN outputs. Slices of BK go through STAGES stages of
 * shared memory, as they lie in memory: [row][k], or [k][row] for an operand whose inner dimension
 * is its outer one, whose fragments ldmatrix then transposes. Rows in shared memory are 8 elements
 * longer than they have to be, so that the 8 rows of an ldmatrix are in different banks.
 * Grid: (N / BN, M / BM, leaves).
 *
 * Precision f32: products by fmaf over ascending k, 16 x 16 outputs a block. Slow; it is there to
 * be compared with.
 */
#include "dev.h"

#include "kernels.h"

/* What a kernel gets: struct mint_k_product with its types. */
template <class T> struct Args {
    const T *a, *b;
    int64_t lda, ldb;
    int M, N, K;
    void *c;
    int64_t ldc;
    enum mint_k_store store;
    bool fours; /* four neighbours of c, from a multiple of four on, may be accessed at once */
    float scale;
    const float *bias;
    const struct mint_k_leaf *leaf;
};

/* Of several products, that of this block. */
template <class T> DEVICE void pick_leaf(Args<T> *p)
{
    if (!p->leaf)
        return;
    struct mint_k_leaf l = p->leaf[blockIdx.z];
    p->a += l.k0 * p->lda;
    p->b += l.k0 * p->ldb;
    p->K = (int)l.K;
    p->c = global((char *)l.c);
    p->fours = p->fours && (uintptr_t)l.c % 16 == 0;
}

template <class T> DEVICE float finish(const Args<T> &p, int n, float v)
{
    v *= p.scale;
    return p.bias ? v + p.bias[n] : v;
}

template <class T> DEVICE void put(const Args<T> &p, int m, int n, float v)
{
    if (m >= p.M || n >= p.N)
        return;
    v = finish(p, n, v);
    float *c = (float *)p.c + m * p.ldc + n;
    if (p.store == MINT_K_ACT)
        ((T *)p.c)[m * p.ldc + n] = to_act<T>(v);
    else
        *c = p.store == MINT_K_ADD ? *c + v : v;
}

/* Columns n .. n+3, n a multiple of 4. */
DEVICE void put4(const Args<bf16> &p, int m, int n, float4 v)
{
    if (!p.fours || n + 3 >= p.N) {
        put(p, m, n, v.x);
        put(p, m, n + 1, v.y);
        put(p, m, n + 2, v.z);
        put(p, m, n + 3, v.w);
        return;
    }
    v = make_float4(finish(p, n, v.x), finish(p, n + 1, v.y), finish(p, n + 2, v.z),
                    finish(p, n + 3, v.w));
    if (p.store == MINT_K_ACT) {
        *(uint2 *)((bf16 *)p.c + m * p.ldc + n) =
            make_uint2(pack_bf16(v.x, v.y), pack_bf16(v.z, v.w));
        return;
    }
    float4 *c = (float4 *)((float *)p.c + m * p.ldc + n);
    if (p.store == MINT_K_ADD) {
        float4 old = *c;
        v = make_float4(old.x + v.x, old.y + v.y, old.z + v.z, old.w + v.w);
    }
    *c = v;
}

/* ---- bf16, tensor cores. */

template <int ROWS, int BK, bool KROWS> struct Tile { /* a slice of an operand in shared memory */
    static constexpr int OUTER = KROWS ? BK : ROWS, INNER = KROWS ? ROWS : BK, LD = INNER + 8;
    static constexpr int SIZE = OUTER * LD;
};

/* Brings rows row0.. and columns k0.. of x; what lies outside of rows x K becomes 0. ALIGNED: the
 * contiguous dimension and the stride are multiples of 8. */
template <int ROWS, int BK, bool KROWS, bool ALIGNED, int THREADS>
DEVICE void bring(bf16 *s, const bf16 *x, int64_t ld, int row0, int rows, int k0, int K)
{
    typedef Tile<ROWS, BK, KROWS> S;
    constexpr int STEP = ALIGNED ? 8 : 1, PER = S::INNER / STEP;
    for (int i = threadIdx.x; i < S::OUTER * PER; i += THREADS) {
        int o = i / PER, c = i % PER * STEP;
        int row = row0 + (KROWS ? c : o), k = k0 + (KROWS ? o : c);
        bool ok = row < rows && k < K;
        const bf16 *from = ok ? x + (KROWS ? k * ld + row : row * ld + k) : x;
        if constexpr (ALIGNED)
            cp_async16(s + o * S::LD + c, from, ok);
        else
            s[o * S::LD + c] = ok ? *from : to_act<bf16>(0);
    }
}

/* Fragment of rows r.. r+15 and k .. k+15 as the first operand: four 8x8 matrices. */
template <int ROWS, int BK, bool KROWS>
DEVICE void frag_a(unsigned a[4], const bf16 *s, int r, int k)
{
    int lane = threadIdx.x % 32, i = lane / 8, j = lane % 8;
    constexpr int LD = Tile<ROWS, BK, KROWS>::LD;
    if constexpr (KROWS)
        ldmatrix<4, true>(a, s + (k + i / 2 * 8 + j) * LD + r + i % 2 * 8);
    else
        ldmatrix<4, false>(a, s + (r + i % 2 * 8 + j) * LD + k + i / 2 * 8);
}

/* Rows r .. r+7 as the second operand: two matrices. */
template <int ROWS, int BK, bool KROWS>
DEVICE void frag_b(unsigned b[2], const bf16 *s, int r, int k)
{
    int lane = threadIdx.x % 16, i = lane / 8, j = lane % 8;
    constexpr int LD = Tile<ROWS, BK, KROWS>::LD;
    if constexpr (KROWS)
        ldmatrix<2, true>(b, s + (k + i * 8 + j) * LD + r);
    else
        ldmatrix<2, false>(b, s + (r + j) * LD + k + i * 8);
}

/* Block shapes: A wide product, one of few rows, one of very few. */
struct Wide {
    static constexpr int BM = 128, BN = 128, BK = 32, WM = 2, WN = 4, STAGES = 4;
};
struct Slim {
    static constexpr int BM = 64, BN = 32, BK = 64, WM = 4, WN = 1, STAGES = 4;
};
struct Thin {
    static constexpr int BM = 16, BN = 16, BK = 128, WM = 1, WN = 2, STAGES = 4;
};

template <class G, bool AK, bool BKR> constexpr size_t product_smem()
{
    size_t in =
        sizeof(bf16) * G::STAGES * (Tile<G::BM, G::BK, AK>::SIZE + Tile<G::BN, G::BK, BKR>::SIZE);
    size_t out = sizeof(float) * G::BM * (G::BN + 4);
    return in > out ? in : out;
}

template <class G, bool AK, bool BKR, bool ALIGNED>
__global__ void __launch_bounds__(G::WM *G::WN * 32) product(Args<bf16> p)
{
    typedef Tile<G::BM, G::BK, AK> SA;
    typedef Tile<G::BN, G::BK, BKR> SB;
    constexpr int THREADS = G::WM * G::WN * 32, STAGE = SA::SIZE + SB::SIZE;
    constexpr int FM = G::BM / G::WM / 16, FN = G::BN / G::WN / 8; /* fragments of a warp */
    DYN_SHARED(bf16, sm);
    if constexpr (AK && BKR)
        pick_leaf(&p);
    int warp = threadIdx.x / 32, g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
    int m0 = blockIdx.y * G::BM, n0 = blockIdx.x * G::BN;
    int wm = warp / G::WN * FM * 16, wn = warp % G::WN * FN * 8;
    int slices = (p.K + G::BK - 1) / G::BK;
    float c[FM][FN][4] = {};
    auto fill = [&](int i) {
        bf16 *s = sm + i % G::STAGES * STAGE;
        if (i < slices) {
            bring<G::BM, G::BK, AK, ALIGNED, THREADS>(s, p.a, p.lda, m0, p.M, i * G::BK, p.K);
            bring<G::BN, G::BK, BKR, ALIGNED, THREADS>(s + SA::SIZE, p.b, p.ldb, n0, p.N, i * G::BK,
                                                       p.K);
        }
        cp_async_commit();
    };
    for (int i = 0; i < G::STAGES - 1; i++)
        fill(i);
    for (int i = 0; i < slices; i++) {
        cp_async_wait<G::STAGES - 2>();
        __syncthreads(); /* slice i is there; the stage of slice i - 1 is free */
        fill(i + G::STAGES - 1);
        const bf16 *s = sm + i % G::STAGES * STAGE;
#pragma unroll
        for (int k = 0; k < G::BK; k += 16) {
            unsigned a[FM][4], b[FN][2];
#pragma unroll
            for (int f = 0; f < FM; f++)
                frag_a<G::BM, G::BK, AK>(a[f], s, wm + f * 16, k);
#pragma unroll
            for (int f = 0; f < FN; f++)
                frag_b<G::BN, G::BK, BKR>(b[f], s + SA::SIZE, wn + f * 8, k);
#pragma unroll
            for (int f = 0; f < FM; f++)
#pragma unroll
                for (int h = 0; h < FN; h++)
                    mma_bf16(c[f][h], a[f], b[h]);
        }
    }
    __syncthreads(); /* the stages are free (the last copies were empty): they take the outputs, for
                        whole rows to be stored */
    constexpr int LD = G::BN + 4;
    float *out = (float *)sm;
#pragma unroll
    for (int f = 0; f < FM; f++)
#pragma unroll
        for (int h = 0; h < FN; h++)
#pragma unroll
            for (int i = 0; i < 4; i += 2)
                *(float2 *)(out + (wm + f * 16 + g + i * 4) * LD + wn + h * 8 + 2 * t) =
                    make_float2(c[f][h][i], c[f][h][i + 1]);
    __syncthreads(); /* the outputs are there */
    for (int i = threadIdx.x; i < G::BM * G::BN / 4; i += THREADS) {
        int m = i / (G::BN / 4), n = i % (G::BN / 4) * 4;
        if (m0 + m < p.M)
            put4(p, m0 + m, n0 + n, *(const float4 *)(out + m * LD + n));
    }
}

/* ---- f32. */

constexpr int F = 16;

template <bool AK, bool BKR> __global__ void __launch_bounds__(F *F) product_f32(Args<float> p)
{
    SHARED(float, sa, [F][F + 1]);
    SHARED(float, sb, [F][F + 1]);
    if constexpr (AK && BKR)
        pick_leaf(&p);
    int x = threadIdx.x % F, y = threadIdx.x / F, m0 = blockIdx.y * F, n0 = blockIdx.x * F;
    float c = 0;
    for (int k0 = 0; k0 < p.K; k0 += F) {
        int r = AK ? x : y, k = AK ? y : x; /* neighbours read neighbours */
        bool ok = m0 + r < p.M && k0 + k < p.K;
        sa[r][k] = !ok ? 0 : AK ? p.a[(k0 + k) * p.lda + m0 + r] : p.a[(m0 + r) * p.lda + k0 + k];
        r = BKR ? x : y;
        k = BKR ? y : x;
        ok = n0 + r < p.N && k0 + k < p.K;
        sb[r][k] = !ok ? 0 : BKR ? p.b[(k0 + k) * p.ldb + n0 + r] : p.b[(n0 + r) * p.ldb + k0 + k];
        __syncthreads(); /* the slices are there */
        for (int i = 0; i < F; i++)
            c = fmaf(sa[y][i], sb[x][i], c);
        __syncthreads(); /* they may be overwritten */
    }
    put(p, m0 + y, n0 + x, c);
}

/* ---- launches. */

static int up(int64_t n, int d)
{
    return (int)((n + d - 1) / d);
}

template <class T> static Args<T> args(const struct mint_k_product *p)
{
    size_t four = 4 * (p->store == MINT_K_ACT ? sizeof(T) : sizeof(float));
    bool fours = p->ldc % 4 == 0 && (uintptr_t)p->c % four == 0;
    return {(const T *)p->a, (const T *)p->b, p->lda,  p->ldb, (int)p->M,
            (int)p->N,       (int)p->K,       p->c,    p->ldc, p->store,
            fours,           p->scale,        p->bias, p->leaf};
}

static dim3 grid(const struct mint_k_product *p, int BM, int BN)
{
    return dim3(up(p->N, BN), up(p->M, BM), p->leaf ? (unsigned)p->leaves : 1);
}

template <class G, bool AK, bool BKR, bool ALIGNED>
static void launch(const struct mint_k_product *p, cudaStream_t stream)
{
    constexpr size_t smem = product_smem<G, AK, BKR>();
    BIG_SMEM((product<G, AK, BKR, ALIGNED>), smem);
    LAUNCH((product<G, AK, BKR, ALIGNED>), grid(p, G::BM, G::BN), G::WM * G::WN * 32, smem, stream,
           args<bf16>(p));
}

template <bool AK, bool BKR> static void launch_bf16(const struct mint_k_product *p, cudaStream_t s)
{
    int64_t a_inner = p->a_krows ? p->M : p->K, b_inner = p->b_krows ? p->N : p->K;
    bool aligned = (a_inner | b_inner | p->lda | p->ldb) % 8 == 0 &&
                   ((uintptr_t)p->a | (uintptr_t)p->b) % 16 == 0;
    enum mint_k_tile tile = p->tile;
    if (tile == MINT_K_ANY)
        tile = p->M <= 16 ? MINT_K_THIN : p->M <= 64 || p->N <= 64 ? MINT_K_SLIM : MINT_K_WIDE;
    if (!aligned)
        launch<Slim, AK, BKR, false>(p, s);
    else if (tile == MINT_K_THIN && !AK && !BKR)
        launch<Thin, false, false, true>(p, s);
    else if (tile == MINT_K_WIDE)
        launch<Wide, AK, BKR, true>(p, s);
    else
        launch<Slim, AK, BKR, true>(p, s);
}

template <bool AK, bool BKR> static void launch_f32(const struct mint_k_product *p, cudaStream_t s)
{
    LAUNCH((product_f32<AK, BKR>), grid(p, F, F), F * F, 0, s, args<float>(p));
}

/* A grid has up to 65,535 rows of blocks; more rows than that many of 16 go in several launches. */
static void rows_of(struct mint_k_product *q, const struct mint_k_product *p, bool f32, int64_t m0,
                    int64_t most)
{
    size_t act = f32 ? 4 : 2, out = p->store == MINT_K_ACT ? act : 4;
    *q = *p;
    q->M = p->M - m0 < most ? p->M - m0 : most;
    q->a = (const char *)p->a + (p->a_krows ? m0 : m0 * p->lda) * act;
    q->c = (char *)p->c + m0 * p->ldc * out;
}

static void launch_leaves(const struct mint_k_product *p, bool f32, cudaStream_t stream)
{
    const int64_t most = 65535;
    for (int64_t i = 0; i < p->leaves; i += most) {
        struct mint_k_product q = *p;
        q.c = NULL;
        q.leaf += i;
        q.leaves = p->leaves - i < most ? p->leaves - i : most;
        f32 ? launch_f32<true, true>(&q, stream) : launch_bf16<true, true>(&q, stream);
    }
}

extern "C" void mint_k_product(const struct mint_k_product *p, bool f32, cudaStream_t stream)
{
    const int64_t most = 16 * 65528;
    if (p->N <= 0)
        return;
    if (p->leaf && p->M > 0)
        return launch_leaves(p, f32, stream);
    for (int64_t m0 = 0; m0 < p->M; m0 += most) {
        struct mint_k_product q;
        rows_of(&q, p, f32, m0, most);
        if (q.a_krows && q.b_krows)
            f32 ? launch_f32<true, true>(&q, stream) : launch_bf16<true, true>(&q, stream);
        else if (q.b_krows)
            f32 ? launch_f32<false, true>(&q, stream) : launch_bf16<false, true>(&q, stream);
        else
            f32 ? launch_f32<false, false>(&q, stream) : launch_bf16<false, false>(&q, stream);
    }
}

/* ---- comparing. A warp a row. */

__global__ void __launch_bounds__(32)
    differ(uint32_t (*counts)[2], const float *a, int64_t lda, const float *b, int64_t ldb, int N)
{
    const float *x = a + blockIdx.x * lda, *y = b + blockIdx.x * ldb;
    int other = 0, full = 0;
    for (int i = threadIdx.x; i < N; i += 32) {
        other += __float_as_uint(x[i]) != __float_as_uint(y[i]);
        full += y[i] != 0;
    }
    float others = warp_sum((float)other), fulls = warp_sum((float)full); /* exact up to 2^24 */
    if (threadIdx.x == 0) {
        counts[blockIdx.x][0] = (uint32_t)others;
        counts[blockIdx.x][1] = (uint32_t)fulls;
    }
}

extern "C" void mint_k_differ(uint32_t (*counts)[2], const float *a, int64_t lda, const float *b,
                              int64_t ldb, int64_t T, int64_t N, cudaStream_t stream)
{
    if (T > 0)
        LAUNCH(differ, (unsigned)T, 32, 0, stream, counts, a, lda, b, ldb, (int)N);
}

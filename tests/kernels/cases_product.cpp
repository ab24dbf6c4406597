// SPDX-License-Identifier: Apache-2.0
/* cases_product.cpp: product.cu. The bits are those of the definition, whatever the tile. */
#include "kernel_test.h"

#include <algorithm>

static struct mint_k_product plain(int64_t M, int64_t N, int64_t K)
{
    struct mint_k_product p = {};
    p.M = M;
    p.N = N;
    p.K = K;
    p.lda = p.ldb = K;
    p.ldc = N;
    p.scale = 1;
    return p;
}

/* x[rows][cols] -> x[cols][ld], ld >= rows, NaN between them */
template <class T>
static std::vector<T> turned(const std::vector<T> &x, size_t rows, size_t cols, size_t ld)
{
    std::vector<T> y(cols * ld);
    memset((void *)y.data(), 0xff, y.size() * sizeof(T));
    for (size_t r = 0; r < rows; r++)
        for (size_t c = 0; c < cols; c++)
            y[c * ld + r] = x[r * cols + c];
    return y;
}

static std::vector<double> exact(const std::vector<float> &a, const std::vector<float> &b, size_t M,
                                 size_t N, size_t K)
{
    std::vector<double> c(M * N);
    for (size_t m = 0; m < M; m++)
        for (size_t n = 0; n < N; n++)
            for (size_t k = 0; k < K; k++)
                c[m * N + n] += (double)a[m * K + k] * (double)b[n * K + k];
    return c;
}

#ifndef MINT_GPU
/* The definition, by the step's arithmetic itself. */
static std::vector<float> defined(const std::vector<uint16_t> &a, const std::vector<uint16_t> &b,
                                  size_t M, size_t N, size_t K)
{
    std::vector<float> c(M * N);
    for (size_t m = 0; m < M; m++)
        for (size_t n = 0; n < N; n++)
            for (size_t k = 0; k < K; k += 16) {
                emu::Row16 x, y;
                x.special = y.special = false;
                for (size_t i = 0; i < 16; i++) {
                    emu::unpack(&x, (int)i, k + i < K ? a[m * K + k + i] : 0);
                    emu::unpack(&y, (int)i, k + i < K ? b[n * K + k + i] : 0);
                }
                c[m * N + n] = emu::dot16(c[m * N + n], &x, &y);
            }
    return c;
}
#endif

static void one_shape(size_t M, size_t N, size_t K)
{
    std::vector<uint16_t> a = kt::normal_bf16(M * K), b = kt::normal_bf16(N * K, 0.05f);
    struct mint_k_product p = plain((int64_t)M, (int64_t)N, (int64_t)K);
    Dev<uint16_t> da(a), db(b);
    Dev<float> c(M * N);
    p.a = da.p;
    p.b = db.p;
    p.c = c.p;
    mint_k_product(&p, false, nullptr);
    std::vector<float> first = c.get();
    kt::bits(first);
    double e = kt::error(exact(kt::widen(a), kt::widen(b), M, N, K), first);
    CHECK(e < 1e-6 * sqrt((double)K), "%zux%zux%zu: %g", M, N, K, e);
#ifndef MINT_GPU
    CHECK(first == defined(a, b, M, N, K), "%zux%zux%zu: not the defined bits", M, N, K);
#endif
    for (int tile = MINT_K_WIDE; tile <= MINT_K_THIN; tile++) {
        Dev<float> d(M * N);
        p.c = d.p;
        p.tile = (enum mint_k_tile)tile;
        mint_k_product(&p, false, nullptr);
        CHECK(d.get() == first, "%zux%zux%zu: tile %d has other bits", M, N, K, tile);
    }
}

CASE(product_bits_do_not_depend_on_the_tile)
{
    one_shape(1, 8, 16);
    one_shape(17, 40, 200);
    one_shape(3, 33, 41); /* rows that are not aligned */
    if (kt::quick)
        return;
    one_shape(130, 136, 136);
    one_shape(65, 24, 392);
}

CASE(product_of_transposed_operands)
{
    size_t M = kt::quick ? 20 : 132, N = 72, K = 88;
    for (size_t pad : {0, 8, 3}) { /* 3: not aligned */
        std::vector<uint16_t> a = kt::normal_bf16(M * K), b = kt::normal_bf16(N * K);
        Dev<uint16_t> da(a), db(b), bt(turned(b, N, K, N + pad));
        size_t m8 = (M + 7) / 8 * 8;
        Dev<uint16_t> at(turned(a, M, K, m8 + pad));
        Dev<float> c(M * N), d(M * N), e(M * N);
        struct mint_k_product p = plain((int64_t)M, (int64_t)N, (int64_t)K);
        p.a = da.p;
        p.b = db.p;
        p.c = c.p;
        mint_k_product(&p, false, nullptr);
        p.b = bt.p;
        p.ldb = (int64_t)(N + pad);
        p.b_krows = true;
        p.c = d.p;
        mint_k_product(&p, false, nullptr);
        CHECK(c.get() == d.get(), "second operand transposed, pad %zu", pad);
        p.a = at.p;
        p.lda = (int64_t)(m8 + pad);
        p.a_krows = true;
        p.c = e.p;
        mint_k_product(&p, false, nullptr);
        CHECK(c.get() == e.get(), "both transposed, pad %zu", pad);
        kt::bits(e.get());
    }
}

/* Every way to store, in rows of ld: whole fours, an odd end, a stride that forbids fours. */
static void stores(size_t M, size_t N, size_t ld)
{
    size_t K = 32;
    std::vector<uint16_t> a = kt::normal_bf16(M * K), b = kt::normal_bf16(N * K);
    std::vector<float> bias = kt::normal(N), before = kt::normal(M * ld);
    Dev<uint16_t> da(a), db(b), h(M * ld);
    Dev<float> c(M * N), x(M * ld), y(before), dbias(bias);
    struct mint_k_product p = plain((int64_t)M, (int64_t)N, (int64_t)K);
    p.a = da.p;
    p.b = db.p;
    p.c = c.p;
    mint_k_product(&p, false, nullptr);
    p.ldc = (int64_t)ld;
    p.scale = 0.375f;
    p.bias = dbias.p;
    p.c = x.p;
    mint_k_product(&p, false, nullptr);
    p.c = y.p;
    p.store = MINT_K_ADD;
    mint_k_product(&p, false, nullptr);
    p.c = h.p;
    p.store = MINT_K_ACT;
    mint_k_product(&p, false, nullptr);
    std::vector<float> acc = c.get(), set = x.get(), sum = y.get();
    std::vector<uint16_t> act = h.get();
    kt::bits(sum);
    for (size_t i = 0; i < M * ld; i++) {
        size_t m = i / ld, n = i % ld;
        if (n >= N) {
            CHECK(set[i] != set[i] && sum[i] == before[i] && act[i] == 0xffff, "between rows");
            continue;
        }
        float v = acc[m * N + n] * 0.375f;
        v += bias[n];
        CHECK(set[i] == v && sum[i] == before[i] + v, "%g, added %g", (double)set[i],
              (double)sum[i]);
        CHECK(act[i] == kt::f32_to_bf16(v), "act");
    }
}

CASE(product_stores)
{
    stores(5, 11, 14);
    stores(5, 11, 12);
    stores(18, 36, 40);
    stores(3, 12, 13);
}

CASE(product_a_row_alone_has_the_same_bits)
{
    size_t M = kt::quick ? 20 : 70, N = 40, K = 96;
    for (bool f32 : {false, true}) {
        std::vector<float> x = kt::normal(M * K), w = kt::normal(N * K);
        Dev<uint16_t> ah(kt::narrow(x)), bh(kt::narrow(w));
        Dev<float> af(x), bf(w), c(M * N), one(N);
        struct mint_k_product p = plain((int64_t)M, (int64_t)N, (int64_t)K);
        p.a = f32 ? (void *)af.p : (void *)ah.p;
        p.b = f32 ? (void *)bf.p : (void *)bh.p;
        p.c = c.p;
        mint_k_product(&p, f32, nullptr);
        std::vector<float> all = c.get();
        size_t row = M - 3;
        p.a = (char *)p.a + row * K * (f32 ? 4 : 2);
        p.M = 1;
        p.c = one.p;
        mint_k_product(&p, f32, nullptr);
        std::vector<float> alone = one.get();
        kt::bits(alone);
        CHECK(std::equal(alone.begin(), alone.end(), &all[row * N]), "f32 %d", f32);
    }
}

CASE(product_f32)
{
    size_t M = 19, N = 35, K = 50;
    std::vector<float> a = kt::normal(M * K), b = kt::normal(N * K);
    Dev<float> da(a), db(b), bt(turned(b, N, K, N)), at(turned(a, M, K, M)), c(M * N), d(M * N),
        e(M * N);
    struct mint_k_product p = plain((int64_t)M, (int64_t)N, (int64_t)K);
    p.a = da.p;
    p.b = db.p;
    p.c = c.p;
    mint_k_product(&p, true, nullptr);
    double err = kt::error(exact(a, b, M, N, K), c.get());
    CHECK(err < 1e-6, "%g", err);
    kt::bits(c.get());
    p.b = bt.p;
    p.ldb = (int64_t)N;
    p.b_krows = true;
    p.c = d.p;
    mint_k_product(&p, true, nullptr);
    CHECK(d.get() == c.get(), "second operand transposed");
    p.a = at.p;
    p.lda = (int64_t)M;
    p.a_krows = true;
    p.c = e.p;
    mint_k_product(&p, true, nullptr);
    CHECK(e.get() == c.get(), "both transposed");
}

/* An empty sum is 0, and no row is no launch. */
/* Several stretches of the inner dimension in one launch: the bits of each alone. */
static void leaves(size_t M, size_t N, bool f32)
{
    const int64_t k0[] = {0, 3, 3, 35}, K = k0[3] + 70;
    const size_t lda = M + 8 - M % 8, ldb = N + 8 - N % 8, n = M * N;
    std::vector<float> a = kt::normal((size_t)K * lda), b = kt::normal((size_t)K * ldb);
    Dev<float> af(a), bf(b), out(4 * n + 3), alone(n);
    Dev<uint16_t> ah(kt::narrow(a)), bh(kt::narrow(b));
    struct mint_k_product p = plain((int64_t)M, (int64_t)N, K);
    p.a = f32 ? (void *)af.p : (void *)ah.p;
    p.b = f32 ? (void *)bf.p : (void *)bh.p;
    p.lda = (int64_t)lda;
    p.ldb = (int64_t)ldb;
    p.a_krows = p.b_krows = true;
    p.scale = 0.75f;
    std::vector<mint_k_leaf> table;
    for (int i = 0; i < 4; i++) /* the last is not aligned */
        table.push_back(
            {out.p + n * (size_t)i + (i == 3 ? 3 : 0), k0[i], (i < 3 ? k0[i + 1] : K) - k0[i]});
    Dev<mint_k_leaf> on(table);
    p.leaf = on.p;
    p.leaves = 4;
    mint_k_product(&p, f32, nullptr);
    std::vector<float> got = out.get();
    kt::bits(got);
    const struct mint_k_product all = p;
    for (const mint_k_leaf &l : table) {
        p = all;
        p.leaf = nullptr;
        p.a = (const char *)all.a + (size_t)l.k0 * lda * (f32 ? 4 : 2);
        p.b = (const char *)all.b + (size_t)l.k0 * ldb * (f32 ? 4 : 2);
        p.K = l.K;
        p.c = alone.p;
        mint_k_product(&p, f32, nullptr);
        const float *mine = got.data() + ((float *)l.c - out.p);
        CHECK(alone.get() == std::vector<float>(mine, mine + n), "%zux%zu, rows from %lld", M, N,
              (long long)l.k0);
    }
}

CASE(product_leaves)
{
    for (int f32 = 0; f32 < 2; f32++) {
        leaves(8, 40, f32);
        leaves(21, 12, f32);
        if (!kt::quick)
            leaves(136, 130, f32);
    }
}

CASE(product_of_nothing)
{
    Dev<uint16_t> a(16), b(16);
    Dev<float> c(6);
    struct mint_k_product p = plain(2, 3, 0);
    p.lda = p.ldb = 8;
    p.a = a.p;
    p.b = b.p;
    p.c = c.p;
    mint_k_product(&p, false, nullptr);
    CHECK(c.get() == std::vector<float>(6), "K 0");
    p.M = 0;
    p.c = nullptr;
    mint_k_product(&p, false, nullptr);
    mint_k_product(&p, true, nullptr);
}

CASE(product_differ)
{
    size_t T = 3, N = 70, ld = 72;
    std::vector<float> a = kt::normal(T * ld), b = a;
    b[5] = 0;
    b[ld + 1] = -a[ld + 1];
    b[ld + 69] = NAN;
    b[ld + 70] = 9; /* between rows */
    Dev<float> da(a), db(b);
    Dev<uint32_t> counts(2 * T);
    mint_k_differ((uint32_t(*)[2])counts.p, da.p, (int64_t)ld, db.p, (int64_t)ld, (int64_t)T,
                  (int64_t)N, nullptr);
    CHECK(counts.get() == (std::vector<uint32_t>{1, 69, 2, 70, 0, 70}), "counts");
}

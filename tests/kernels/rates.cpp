// SPDX-License-Identifier: Apache-2.0
/*
 * rates.cpp: what a device can do at most, and what its products do: one JSON object a line, for
 * gpu.sh. Bandwidth of a copy inside its memory (bytes read and written); products in the shapes of
 * Qwen3-0.6B and 8B at several numbers of rows, by the library and by our kernel alone, with the
 * bits compared.
 *
 *   rates [DEVICE] [quick]      quick: small shapes, to try the program out
 */
extern "C" {
#include "backend.h"
#include "mem.h"
}

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <vector>

static double now()
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static struct mint_err err;

static void must(bool ok)
{
    if (ok)
        return;
    fprintf(stderr, "rates: %s\n", err.msg);
    exit(1);
}

struct buffers {
    struct mint_dev *d;
    void *x; /* act */
    float *y;
};

static void wait_for(struct mint_dev *d, const void *p)
{
    float f;
    must(d->ops->download(d, &f, p, sizeof f, &err) == 0);
}

/* Seconds of one call: as many as fill a tenth of a second, after two that warm up (and in which
 * the library is compared with our product). */
template <class F> static double seconds(struct mint_dev *d, const void *p, F call)
{
    int n = 1;
    call();
    call();
    wait_for(d, p);
    for (;;) {
        double t = now();
        for (int i = 0; i < n; i++)
            call();
        wait_for(d, p);
        t = now() - t;
        if (t > 0.1 || n > 20000)
            return t / n;
        n = t < 0.01 ? 4 * n : (int)(0.12 / t * n) + 1;
    }
}

static void copy_rate(struct mint_dev *d, size_t bytes)
{
    void *a = d->ops->alloc(d, bytes, &err), *b = a ? d->ops->alloc(d, bytes, &err) : NULL;
    must(b != NULL);
    double t = seconds(d, b, [&] { must(d->ops->copy(d, b, a, bytes, &err) == 0); });
    printf("{\"name\":\"copy\",\"bytes\":%zu,\"GB_s\":%.1f}\n", bytes, 2e-9 * (double)bytes / t);
    d->ops->free(d, a);
    d->ops->free(d, b);
}

/* bf16 values of magnitudes 2^-3 to 2, random signs and fractions. */
static std::vector<uint16_t> values(size_t n, uint64_t seed)
{
    std::vector<uint16_t> v(n);
    for (uint16_t &h : v) {
        seed = seed * 6364136223846793005ull + 1442695040888963407ull;
        uint32_t u = (uint32_t)(seed >> 32);
        h = (uint16_t)((u & 0x807f) | (124 + (u >> 16) % 4) << 7);
    }
    return v;
}

static struct buffers buffers_of(const char *device, bool library, int64_t M, int64_t N, int64_t K,
                                 struct mint_weight **w)
{
    struct buffers b = {};
    setenv("MINT_CUBLAS", library ? "1" : "0", 1);
    must(mint_backend_open(&b.d, device, MINT_PRECISION_BF16, 0, &err) == 0);
    std::vector<uint16_t> x = values((size_t)(M * K), 1), rows = values((size_t)(N * K), 2);
    b.x = b.d->ops->alloc(b.d, x.size() * 2, &err);
    b.y = (float *)b.d->ops->alloc(b.d, (size_t)(M * N) * 4, &err);
    must(b.x && b.y);
    must(b.d->ops->upload(b.d, b.x, x.data(), x.size() * 2, &err) == 0);
    must(b.d->ops->weight_new(b.d, w, rows.data(), MINT_BF16, N, K, false, true, &err) == 0);
    return b;
}

static void release(struct buffers *b, struct mint_weight *w)
{
    b->d->ops->weight_free(b->d, w);
    b->d->ops->free(b->d, b->x);
    b->d->ops->free(b->d, b->y);
    mint_backend_close(b->d);
}

static void product(const char *device, const char *name, int64_t N, int64_t K,
                    const std::vector<int64_t> &rows)
{
    int64_t most = rows.back();
    struct mint_weight *w[2];
    struct buffers b[2] = {buffers_of(device, false, most, N, K, &w[0]),
                           buffers_of(device, true, most, N, K, &w[1])};
    for (int64_t M : rows) {
        double t[2];
        std::vector<float> y[2];
        for (int i = 0; i < 2; i++) {
            struct mint_dev *d = b[i].d;
            t[i] = seconds(d, b[i].y, [&] {
                must(d->ops->linear(d, b[i].y, N, b[i].x, w[i], NULL, NULL, NULL, M, &err) == 0);
            });
            y[i].resize((size_t)(M * N));
            must(d->ops->download(d, y[i].data(), b[i].y, y[i].size() * 4, &err) == 0);
        }
        double flop = 2.0 * (double)(M * N) * (double)K;
        double bytes = 2.0 * (double)(N * K + M * K) + 4.0 * (double)(M * N);
        printf("{\"name\":\"product\",\"what\":\"%s\",\"N\":%lld,\"K\":%lld,\"rows\":%lld,"
               "\"ours_us\":%.1f,\"us\":%.1f,\"TFLOP_s\":%.1f,\"GB_s\":%.0f,\"same_bits\":%s}\n",
               name, (long long)N, (long long)K, (long long)M, 1e6 * t[0], 1e6 * t[1],
               1e-12 * flop / t[1], 1e-9 * bytes / t[1],
               memcmp(y[0].data(), y[1].data(), y[0].size() * 4) ? "false" : "true");
        fflush(stdout);
    }
    release(&b[0], w[0]);
    release(&b[1], w[1]);
}

int main(int argc, char **argv)
{
    const char *device = argc > 1 ? argv[1] : "cuda";
    bool quick = argc > 2 && !strcmp(argv[2], "quick");
    struct mint_dev *d;
    must(mint_backend_open(&d, device, MINT_PRECISION_BF16, 0, &err) == 0);
    printf("{\"name\":\"device\",\"kind\":\"%s\",\"available\":%zu}\n", d->kind,
           d->ops->available(d));
    copy_rate(d, quick ? 1 << 20 : 1 << 30);
    mint_backend_close(d);
    if (quick) {
        product(device, "quick", 128, 96, {1, 64, 100});
        return 0;
    }
    const std::vector<int64_t> rows = {1, 16, 64, 256, 2048, 8192};
    product(device, "peak", 8192, 8192, {8192});
    product(device, "0.6B q", 2048, 1024, rows);
    product(device, "0.6B o", 1024, 2048, rows);
    product(device, "0.6B gate", 3072, 1024, rows);
    product(device, "0.6B down", 1024, 3072, rows);
    product(device, "8B q", 4096, 4096, rows);
    product(device, "8B gate", 12288, 4096, rows);
    product(device, "8B down", 4096, 12288, rows);
    product(device, "head chunk", 4096, 4096, {2048});
    return 0;
}

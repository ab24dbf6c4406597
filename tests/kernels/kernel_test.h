/* SPDX-License-Identifier: Apache-2.0 */
/*
 * kernel_test.h: cases of kernels. The same source runs on the emulator and, built with MINT_GPU,
 * on a device.
 *
 *   CASE(rmsnorm_odd)
 *   {
 *       Dev<float> x(kt::normal(5 * 7)), y(5 * 7);
 *       mint_k_rmsnorm(y.p, x.p, ..., nullptr);
 *       std::vector<float> got = y.get();
 *       kt::bits(got);
 *       CHECK(kt::error(want, got) < 1e-6, "%g", kt::error(want, got));
 *   }
 *
 * A case needs no registration. It is run once for each schedule (the order of threads and blocks;
 * on a device: twice), always with the same random numbers, and must give bits() the same bytes
 * every time; `# bits NAME HASH` in the output lets an emulated run be compared with a native one.
 * kt::quick: leave out what takes long (sanitizers, `make test`).
 */
#ifndef KERNEL_TEST_H
#define KERNEL_TEST_H

#ifdef MINT_GPU
#include <cuda_runtime.h>
#else
#include "cuda_emu.h"
#endif
#include "kernels.h"

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

extern "C" {
#include "backend.h"
}

namespace kt
{

extern bool quick;

struct Case {
    const char *name;
    void (*run)();
    Case *next;
    Case(const char *n, void (*f)());
};

/* Counts a failure of the running case and keeps its words. */
void check(bool ok, const char *file, int line, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));
void bits_of(const void *p, size_t bytes);
template <class T> void bits(const std::vector<T> &v)
{
    bits_of(v.data(), v.size() * sizeof(T));
}

/* Random numbers that begin anew with each run of a case. */
uint32_t random32();
double uniform();
std::vector<float> normal(size_t n, float scale = 1);
std::vector<uint16_t> normal_bf16(size_t n, float scale = 1);

float bf16_to_f32(uint16_t h);
uint16_t f32_to_bf16(float f);
std::vector<float> widen(const std::vector<uint16_t> &v);
std::vector<uint16_t> narrow(const std::vector<float> &v);

/* |got - want| / |want| in the Euclidean norm; NaN anywhere gives NaN, which passes no test. */
double error(const std::vector<double> &want, const std::vector<double> &got);
template <class A, class B> double error(const std::vector<A> &want, const std::vector<B> &got)
{
    return error(std::vector<double>(want.begin(), want.end()),
                 std::vector<double>(got.begin(), got.end()));
}

/* The CPU backend with that precision, one thread: the twin of each kernel. Its buffers are host
 * memory. */
struct mint_dev *cpu(enum mint_precision p);

void *device_alloc(size_t bytes);
void device_free(void *p);
void to_device(void *d, const void *s, size_t bytes);
void to_host(void *d, const void *s, size_t bytes); /* waits; a device error ends the program */

constexpr size_t GUARD = 256; /* bytes before and behind a buffer that nobody may touch */

} // namespace kt

#define CASE(name)                                    \
    static void case_##name();                        \
    static kt::Case name##_entry(#name, case_##name); \
    static void case_##name()
#define CHECK(ok, ...) kt::check((ok), __FILE__, __LINE__, __VA_ARGS__)

/* A device buffer of n T: NaN (all bits set) at first, guarded at both ends. */
template <class T> struct Dev {
    unsigned char *base;
    T *p;
    size_t n;
    explicit Dev(size_t count) : n(count)
    {
        std::vector<unsigned char> fill(2 * kt::GUARD + n * sizeof(T), 0xff);
        base = (unsigned char *)kt::device_alloc(fill.size());
        kt::to_device(base, fill.data(), fill.size());
        p = (T *)(base + kt::GUARD);
    }
    explicit Dev(const std::vector<T> &v) : Dev(v.size())
    {
        set(v);
    }
    Dev(const Dev &) = delete;
    ~Dev()
    {
        kt::device_free(base);
    }
    void set(const std::vector<T> &v)
    {
        kt::to_device(p, v.data(), v.size() * sizeof(T));
    }
    std::vector<T> get() const
    {
        std::vector<T> v(n);
        unsigned char guard[2 * kt::GUARD];
        kt::to_host(v.data(), p, n * sizeof(T));
        kt::to_host(guard, base, kt::GUARD);
        kt::to_host(guard + kt::GUARD, (unsigned char *)(p + n), kt::GUARD);
        for (size_t i = 0; i < sizeof guard; i++)
            if (guard[i] != 0xff) {
                CHECK(false, "a write outside of a buffer of %zu x %zu bytes", n, sizeof(T));
                break;
            }
        return v;
    }
};

#endif

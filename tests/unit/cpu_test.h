/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cpu_test.h: what the tests of the CPU backend's operations share: random numbers, guarded buffers
 * filled with NaN, devices of every instruction set that this CPU has, rounding to act.
 */
#ifndef MINT_CPU_TEST_H
#define MINT_CPU_TEST_H

#include "backend.h"
#include "cpu/cpu.h"
#include "cpu/cpu_ops.h"
#include "mem.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define UNUSED __attribute__((unused))

static uint64_t test_state = 88172645463325252u;

static UNUSED uint64_t random_bits(void)
{
    test_state ^= test_state << 13;
    test_state ^= test_state >> 7;
    test_state ^= test_state << 17;
    return test_state;
}

/* Uniform in [-1, 1). */
static UNUSED float uniform(void)
{
    return (float)(random_bits() >> 40) * 0x1p-23f - 1.0f;
}

/* --- buffers: n bytes between two guards of GUARD bytes. */

#define GUARD 256

static UNUSED void *guarded(size_t n)
{
    char *p = aligned_alloc(64, (n + 2 * GUARD + 63) / 64 * 64);
    assert_non_null(p);
    memset(p, 0xff, n + 2 * GUARD); /* NaN as float and as bf16 */
    return p + GUARD;
}

static UNUSED void check_guards(const void *p, size_t n)
{
    const unsigned char *q = (const unsigned char *)p - GUARD;
    for (size_t i = 0; i < GUARD; i++)
        if (q[i] != 0xff || q[GUARD + n + i] != 0xff)
            fail_msg("written outside a buffer of %zu bytes, at %zd", n,
                     q[i] != 0xff ? (ptrdiff_t)i - GUARD : (ptrdiff_t)(n + i));
}

static UNUSED void guarded_free(void *p)
{
    if (p)
        free((char *)p - GUARD);
}

static UNUSED float *floats(size_t n)
{
    return guarded(n * sizeof(float));
}

/* n uniform numbers times scale. */
static UNUSED float *random_floats(size_t n, float scale)
{
    float *p = floats(n);
    for (size_t i = 0; i < n; i++)
        p[i] = uniform() * scale;
    return p;
}

/* --- devices. */

static UNUSED struct mint_dev *open_device(const char *isa, enum mint_precision p, int threads)
{
    struct mint_dev *d;
    struct mint_err err;
    setenv("MINT_CPU_ISA", isa, 1);
    if (cpu_open(&d, p, threads, &err) != 0)
        fail_msg("%s", err.msg);
    unsetenv("MINT_CPU_ISA");
    return d;
}

/* Scratch promises nothing: NaN. */
static UNUSED void poison_scratch(struct mint_dev *d)
{
    for (int t = 0; t < d->threads; t++) {
        memset(cpu_scratch(cpu_dev(d), t, (size_t)1 << 22), 0xff, (size_t)1 << 22);
        memset(cpu_panel_scratch(cpu_dev(d), t, (size_t)1 << 20), 0xff, (size_t)1 << 20);
    }
}

/* The names of the instruction sets that run here; portable is the last. NULL at the end. */
static UNUSED const char *usable_isa(int i)
{
    for (const struct cpu_isa *p = cpu_isas; p->name; p++)
        if (p->usable() && i-- == 0)
            return p->name;
    return NULL;
}

/* Every configuration whose results must be the same: calls fn(dev, ctx) on each of them. */
static UNUSED void on_all_devices(enum mint_precision p, void (*fn)(struct mint_dev *d, void *ctx),
                                  void *ctx)
{
    for (int i = 0; usable_isa(i); i++)
        for (int threads = 1; threads <= 2; threads++) {
            struct mint_dev *d = open_device(usable_isa(i), p, threads);
            if (threads == 1)
                poison_scratch(d);
            fn(d, ctx);
            cpu_close(d);
        }
}

/* --- act. */

static UNUSED float round_act(const struct mint_dev *d, float x)
{
    return d->act_bytes == 2 ? cpu_bf16_to_f32(cpu_f32_to_bf16(x)) : x;
}

static UNUSED float act_get(const struct mint_dev *d, const void *p, int64_t i)
{
    return d->act_bytes == 2 ? cpu_bf16_to_f32(((const cpu_bf16 *)p)[i]) : ((const float *)p)[i];
}

static UNUSED void act_put(const struct mint_dev *d, void *p, int64_t i, float x)
{
    if (d->act_bytes == 2)
        ((cpu_bf16 *)p)[i] = cpu_f32_to_bf16(x);
    else
        ((float *)p)[i] = x;
}

static UNUSED void *random_act(const struct mint_dev *d, size_t n, float scale)
{
    void *p = guarded(n * d->act_bytes);
    for (size_t i = 0; i < n; i++)
        act_put(d, p, (int64_t)i, uniform() * scale);
    return p;
}

/* --- comparisons. */

static UNUSED void check_close(const char *what, double got, double want, double tolerance)
{
    if (!(fabs(got - want) <= tolerance))
        fail_msg("%s: %.9g, not %.9g (off by %.3g, %.3g allowed)", what, got, want,
                 fabs(got - want), tolerance);
}

static UNUSED void check_same(const char *what, const void *a, const void *b, size_t n)
{
    const unsigned char *x = a, *y = b;
    for (size_t i = 0; i < n; i++)
        if (x[i] != y[i])
            fail_msg("%s: byte %zu of %zu differs", what, i, n);
}

#endif

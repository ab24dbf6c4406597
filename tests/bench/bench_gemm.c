/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bench_gemm: rate of the CPU backend's products on the shapes of Qwen3-0.6B, beside what this
 * machine can do in the same second: the register-only peaks of vdpbf16ps and of the float fused
 * multiply-add, and the bandwidth of reading memory. Medians. Time is CPU time, which equals the
 * wall time on a quiet machine: of each thread for the machine, of the process over its threads for
 * products, which therefore have to run for many ticks of the kernel, as it counts what runs on
 * other cores by these. In how many samples CPU and wall agreed (within 4%) is printed as "quiet".
 * usage() lists the options; MINT_CPU_ISA chooses the instruction set. With --machine only the
 * machine is measured, for the scripts beside this file.
 */
#include "backend.h"
#include "cpu/cpu.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#if MINT_X86
#include <immintrin.h>
#endif

/* More than the caches hold: a server's last one has some hundred MB. */
#define READ_BYTES   ((size_t)1 << 30)
#define WEIGHT_BYTES ((size_t)1 << 30) /* copies of a weight */
#define MAX_SAMPLES  101
#define CLEAN        0.96

struct options {
    bool json, rows, back, f32, machine;
    const char *shape; /* NULL: all */
    int threads, samples, nm;
    int m[32];
};

struct shape {
    const char *name;
    int64_t N, K;
};

static const struct shape shapes[] = {
    {"qkv", 4096, 1024},  {"o", 1024, 2048},         {"gate+up", 6144, 1024},
    {"down", 1024, 3072}, {"unembed", 151936, 1024},
};

static double seconds(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

struct clock {
    double wall, cpu;
};

static struct clock start(void)
{
    return (struct clock){seconds(CLOCK_MONOTONIC), seconds(CLOCK_PROCESS_CPUTIME_ID)};
}

/* Seconds since c by the CPU time of each of the threads; *quiet: nobody else took a core
 * meanwhile. */
static double elapsed(struct clock c, int threads, bool *quiet)
{
    double cpu = (seconds(CLOCK_PROCESS_CPUTIME_ID) - c.cpu) / threads;
    *quiet = cpu >= CLEAN * (seconds(CLOCK_MONOTONIC) - c.wall);
    return cpu;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *v, int n)
{
    qsort(v, (size_t)n, sizeof *v, by_value);
    return n ? v[n / 2] : 0.0;
}

/* --- what the machine can do */

#if MINT_X86
#define UNROLL _Pragma("GCC unroll 24")

/* n rounds of 24 independent instructions that touch registers only. */
__attribute__((target("avx512f,avx512bf16"))) static void spin_bf16(long n)
{
    __m512 r[24], x = _mm512_set1_ps(1.0f);
    UNROLL
    for (int i = 0; i < 24; i++)
        r[i] = _mm512_setzero_ps();
    for (long k = 0; k < n; k++)
        UNROLL
    for (int i = 0; i < 24; i++)
        __asm__ volatile("vdpbf16ps %1, %1, %0" : "+v"(r[i]) : "v"(x));
}

__attribute__((target("avx512f"))) static void spin_fma512(long n)
{
    __m512 r[24], x = _mm512_set1_ps(1.0f);
    UNROLL
    for (int i = 0; i < 24; i++)
        r[i] = _mm512_setzero_ps();
    for (long k = 0; k < n; k++)
        UNROLL
    for (int i = 0; i < 24; i++)
        __asm__ volatile("vfmadd231ps %1, %1, %0" : "+v"(r[i]) : "v"(x));
}

/* 16 registers only: 12 of them, twice. */
__attribute__((target("avx2,fma"))) static void spin_fma256(long n)
{
    __m256 r[12], x = _mm256_set1_ps(1.0f);
    UNROLL
    for (int i = 0; i < 12; i++)
        r[i] = _mm256_setzero_ps();
    for (long k = 0; k < 2 * n; k++)
        UNROLL
    for (int i = 0; i < 12; i++)
        __asm__ volatile("vfmadd231ps %1, %1, %0" : "+x"(r[i]) : "x"(x));
}
#endif

struct peak {
    void (*spin)(long n); /* NULL: this CPU does not have it */
    double flops;         /* of one instruction */
};

static struct peak bf16_peak(void)
{
#if MINT_X86
    if (__builtin_cpu_supports("avx512bf16"))
        return (struct peak){spin_bf16, 64};
#endif
    return (struct peak){NULL, 0};
}

static struct peak fma_peak(void)
{
#if MINT_X86
    if (__builtin_cpu_supports("avx512f"))
        return (struct peak){spin_fma512, 32};
    if (__builtin_cpu_supports("fma"))
        return (struct peak){spin_fma256, 16};
#endif
    return (struct peak){NULL, 0};
}

struct machine {
    struct cpu_dev *d;
    struct peak bf16, fma;
    char *memory;      /* READ_BYTES */
    struct part *part; /* of each thread */
};

struct part {
    double seconds;
    uint64_t sum; /* of what was read: nothing is optimised away */
};

struct spin {
    struct machine *m;
    struct peak peak;
    long rounds;
};

static void spin_job(void *ctx, int64_t i, int thread)
{
    struct spin *s = ctx;
    double begin = seconds(CLOCK_THREAD_CPUTIME_ID);
    (void)thread;
    s->peak.spin(s->rounds);
    s->m->part[i].seconds = seconds(CLOCK_THREAD_CPUTIME_ID) - begin;
}

/* One job for each thread; what all of them did in a second, of so much each. */
static double together(struct machine *m, void (*job)(void *, int64_t, int), void *ctx, double each)
{
    int threads = m->d->base.threads;
    double sum = 0.0;
    cpu_parallel(m->d, threads, job, ctx);
    for (int i = 0; i < threads; i++)
        sum += each / m->part[i].seconds;
    return sum;
}

/* GFLOP/s of all threads */
static double measure_peak(struct machine *m, struct peak peak)
{
    struct spin s = {m, peak, 3000000};
    return peak.spin ? together(m, spin_job, &s, (double)s.rounds * 24 * peak.flops / 1e9) : 0.0;
}

/* A slice of the memory in eight streams, one 64-bit word of each line; a prefetch ahead gives some
 * percent more. */
static void read_job(void *ctx, int64_t i, int thread)
{
    struct machine *m = ctx;
    size_t slice = READ_BYTES / (size_t)m->d->base.threads / 512 * 512, stream = slice / 8;
    const char *p = m->memory + (size_t)i * slice;
    uint64_t sum = 0, v;
    double begin = seconds(CLOCK_THREAD_CPUTIME_ID);
    (void)thread;
    for (size_t at = 0; at + 64 <= stream; at += 64)
        for (size_t s = 0; s < 8; s++) {
            __builtin_prefetch(p + s * stream + at + 1024);
            memcpy(&v, p + s * stream + at, sizeof v);
            sum ^= v;
        }
    m->part[i] = (struct part){seconds(CLOCK_THREAD_CPUTIME_ID) - begin, sum};
}

/* GB/s of all threads */
static double measure_read(struct machine *m)
{
    return together(m, read_job, m, (double)READ_BYTES / m->d->base.threads / 1e9);
}

static void print_machine(struct machine *m, int samples)
{
    double bf16[MAX_SAMPLES], fma[MAX_SAMPLES], rd[MAX_SAMPLES];
    for (int i = 0; i < samples; i++) {
        bf16[i] = measure_peak(m, m->bf16);
        fma[i] = measure_peak(m, m->fma);
        rd[i] = measure_read(m);
    }
    printf("{\"isa\":\"%s\",\"threads\":%d,\"bf16_peak_gflops\":%.1f,\"fma_peak_gflops\":%.1f,"
           "\"read_gb_per_s\":%.2f}\n",
           m->d->isa->name, m->d->base.threads, median(bf16, samples), median(fma, samples),
           median(rd, samples));
}

/* --- the products */

struct rates {
    double gflops, of_bf16, of_fma, of_read; /* medians; ratios to what surrounds the sample */
    double bf16, fma, read;                  /* medians of that */
    int quiet;                               /* of the samples */
};

struct load {
    struct machine *m;
    const struct options *o;
    struct mint_weight **copies;
    int ncopies, at;
    const struct shape *shape;
    int64_t T;
    void *in;
    float *out;
};

static void run_once(struct load *l)
{
    struct mint_dev *d = &l->m->d->base;
    const struct mint_weight *w = l->copies[l->at];
    l->at = (l->at + 1) % l->ncopies;
    if (l->o->back)
        d->ops->linear_dx(d, l->out, false, l->in, l->shape->N, w, NULL, NULL, l->T, NULL);
    else
        d->ops->linear(d, l->out, l->shape->N, l->in, w, NULL, NULL, NULL, l->T, NULL);
}

static struct rates measure(struct load *l)
{
    double g[MAX_SAMPLES], b[MAX_SAMPLES], f[MAX_SAMPLES], r[MAX_SAMPLES];
    double pb[MAX_SAMPLES], pf[MAX_SAMPLES], pr[MAX_SAMPLES];
    double flops = 2.0 * (double)l->T * (double)l->shape->N * (double)l->shape->K;
    double bytes = (double)(l->shape->N * l->shape->K) * 2;
    struct machine *m = l->m;
    struct rates out = {0};
    int threads = m->d->base.threads;
    bool quiet;
    struct clock c = start();
    run_once(l);
    int inner = MINT_MAX(1, (int)(0.1 / (elapsed(c, threads, &quiet) + 1e-6)));
    double bf16 = measure_peak(m, m->bf16), fma = measure_peak(m, m->fma), rd = measure_read(m);
    int n = l->o->samples;
    for (int i = 0; i < n; i++) {
        double bf16_0 = bf16, fma_0 = fma, rd_0 = rd;
        c = start();
        for (int k = 0; k < inner; k++)
            run_once(l);
        double t = elapsed(c, threads, &quiet) / inner;
        bf16 = measure_peak(m, m->bf16), fma = measure_peak(m, m->fma), rd = measure_read(m);
        pb[i] = (bf16 + bf16_0) / 2, pf[i] = (fma + fma_0) / 2, pr[i] = (rd + rd_0) / 2;
        g[i] = flops / t / 1e9;
        b[i] = pb[i] > 0 ? g[i] / pb[i] : 0;
        f[i] = pf[i] > 0 ? g[i] / pf[i] : 0;
        r[i] = bytes / t / 1e9 / pr[i];
        out.quiet += quiet;
    }
    out.gflops = median(g, n);
    out.of_bf16 = median(b, n), out.of_fma = median(f, n), out.of_read = median(r, n);
    out.bf16 = median(pb, n), out.fma = median(pf, n), out.read = median(pr, n);
    return out;
}

static void print_rates(const struct load *l, const struct rates *r)
{
    const char *isa = l->m->d->isa->name;
    if (l->o->json) {
        printf("{\"shape\":\"%s\",\"n\":%lld,\"k\":%lld,\"m\":%lld,\"isa\":\"%s\",\"op\":\"%s\","
               "\"precision\":\"%s\",\"weights\":\"%s\",\"threads\":%d,\"gflops\":%.1f,"
               "\"of_bf16_peak\":%.3f,\"of_fma_peak\":%.3f,\"of_read_bandwidth\":%.3f,"
               "\"bf16_peak_gflops\":%.1f,\"fma_peak_gflops\":%.1f,\"read_gb_per_s\":%.1f,"
               "\"quiet_samples\":%d}\n",
               l->shape->name, (long long)l->shape->N, (long long)l->shape->K, (long long)l->T, isa,
               l->o->back ? "linear_dx" : "linear", l->o->f32 ? "f32" : "bf16",
               l->o->rows || l->o->back ? "rows" : "packed", l->m->d->base.threads, r->gflops,
               r->of_bf16, r->of_fma, r->of_read, r->bf16, r->fma, r->read, r->quiet);
    } else {
        printf(
            "%-8s %6lld x %-5lld %5lld  %8.1f  %6.0f%% %6.0f%% %6.0f%%   %7.1f %7.1f %6.1f  %3d\n",
            l->shape->name, (long long)l->shape->N, (long long)l->shape->K, (long long)l->T,
            r->gflops, 100 * r->of_bf16, 100 * r->of_fma, 100 * r->of_read, r->bf16, r->fma,
            r->read, r->quiet);
    }
    fflush(stdout);
}

static void *fill(struct mint_dev *d, size_t n, size_t elem)
{
    char *p = d->ops->alloc(d, n * elem, NULL);
    uint32_t seed = 1;
    if (!p)
        return NULL;
    for (size_t i = 0; i < n; i++) {
        seed = seed * 1664525u + 1013904223u;
        float v = ((float)(seed >> 8) * 0x1p-23f - 1.0f) * 0.05f;
        cpu_bf16 h = cpu_f32_to_bf16(v);
        memcpy(p + i * elem, elem == 2 ? (void *)&h : (void *)&v, elem);
    }
    return p;
}

static int bench_shape(struct machine *m, const struct options *o, const struct shape *s)
{
    struct mint_dev *d = &m->d->base;
    size_t elems = (size_t)(s->N * s->K);
    int64_t most = 1;
    struct mint_weight *copies[256];
    struct load l = {.m = m, .o = o, .shape = s, .copies = copies};
    struct mint_err err = {0};
    for (int i = 0; i < o->nm; i++)
        most = MINT_MAX(most, (int64_t)o->m[i]);
    l.ncopies = (int)MINT_MIN(MINT_MAX(WEIGHT_BYTES / (2 * elems), (size_t)1), (size_t)256);
    void *rows = fill(d, elems, 2);
    l.in = fill(d, (size_t)(most * (o->back ? s->N : s->K)), d->act_bytes);
    l.out = d->ops->alloc(d, (size_t)(most * (o->back ? s->K : s->N)) * sizeof(float), &err);
    for (int i = 0; i < l.ncopies; i++)
        if (!rows || d->ops->weight_new(d, &copies[i], rows, MINT_BF16, s->N, s->K, !o->rows,
                                        !o->rows && !o->back, &err) != 0)
            l.in = NULL;
    if (!l.in || !l.out) {
        fprintf(stderr, "bench_gemm: %s\n", err.msg);
        return 1;
    }
    for (int i = 0; i < o->nm; i++) {
        l.T = o->m[i];
        struct rates r = measure(&l);
        print_rates(&l, &r);
    }
    for (int i = 0; i < l.ncopies; i++)
        d->ops->weight_free(d, copies[i]);
    d->ops->free(d, rows);
    d->ops->free(d, l.in);
    d->ops->free(d, l.out);
    return 0;
}

static int usage(void)
{
    fputs("usage: bench_gemm [--json] [--rows] [--back] [--f32] [--threads N] [--samples N]\n"
          "                  [--shape qkv|o|gate+up|down|unembed] [M...]\n"
          "       bench_gemm --machine [--threads N] [--samples N]\n"
          "  --rows   weights as they lie in the file, not packed (as in training)\n"
          "  --back   the gradient of the input, linear_dx\n"
          "  --f32    precision f32: activations in float, weights widened as they are used\n"
          "  M        rows of the input; 1 4 8 32 128 512 by default\n",
          stderr);
    return 2;
}

static bool positive(const char *text, int *v)
{
    char *end;
    long n = strtol(text, &end, 10);
    *v = (int)n;
    return *text && !*end && n > 0 && n <= 1 << 20;
}

static int parse(struct options *o, int argc, char **argv)
{
    static const int standard[] = {1, 4, 8, 32, 128, 512};
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--json") == 0)
            o->json = true;
        else if (strcmp(argv[i], "--rows") == 0)
            o->rows = true;
        else if (strcmp(argv[i], "--back") == 0)
            o->back = o->rows = true;
        else if (strcmp(argv[i], "--f32") == 0)
            o->f32 = true;
        else if (strcmp(argv[i], "--machine") == 0)
            o->machine = true;
        else if (strcmp(argv[i], "--threads") == 0 && i + 1 < argc &&
                 positive(argv[i + 1], &o->threads))
            i++;
        else if (strcmp(argv[i], "--samples") == 0 && i + 1 < argc &&
                 positive(argv[i + 1], &o->samples) && o->samples <= MAX_SAMPLES)
            i++;
        else if (strcmp(argv[i], "--shape") == 0 && i + 1 < argc)
            o->shape = argv[++i];
        else if (o->nm < 32 && positive(argv[i], &o->m[o->nm]))
            o->nm++;
        else
            return usage();
    }
    if (o->nm == 0) {
        memcpy(o->m, standard, sizeof standard);
        o->nm = MINT_ARRAY_LEN(standard);
    }
    return 0;
}

int main(int argc, char **argv)
{
    struct options o = {.samples = 9};
    struct machine m = {.bf16 = bf16_peak(), .fma = fma_peak()};
    struct mint_dev *d;
    struct mint_err err = {0};
    int rc = parse(&o, argc, argv);
    if (rc)
        return rc;
    if (mint_backend_open(&d, "cpu", o.f32 ? MINT_PRECISION_F32 : MINT_PRECISION_BF16, o.threads,
                          &err)) {
        fprintf(stderr, "bench_gemm: %s\n", err.msg);
        return 1;
    }
    m.d = cpu_dev(d);
    m.memory = d->ops->alloc(d, READ_BYTES, &err);
    m.part = calloc((size_t)d->threads, sizeof *m.part);
    if (!m.memory || !m.part) {
        fprintf(stderr, "bench_gemm: %s\n", err.msg);
        return 1;
    }
    memset(m.memory, 1, READ_BYTES);
    if (o.machine)
        print_machine(&m, o.samples);
    else if (!o.json)
        printf("%s, %d threads, %s, %s, weights %s\n"
               "shape         N x K         M   GFLOP/s  of bf16  of fma of read   bf16 peak fma "
               "peak GB/s  quiet\n",
               m.d->isa->name, d->threads, o.back ? "linear_dx" : "linear", o.f32 ? "f32" : "bf16",
               o.rows ? "as rows" : "packed");
    for (size_t i = 0; i < MINT_ARRAY_LEN(shapes) && !rc && !o.machine; i++)
        if (!o.shape || strcmp(o.shape, shapes[i].name) == 0)
            rc = bench_shape(&m, &o, &shapes[i]);
    d->ops->free(d, m.memory);
    free(m.part);
    mint_backend_close(d);
    return rc;
}

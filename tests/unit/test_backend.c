/* SPDX-License-Identifier: Apache-2.0 */
/* Opening devices, choosing an instruction set, counting CPUs, memory and loops of the CPU backend.
 */
#include "backend.h"
#include "cpu/cpu.h"

#include <dlfcn.h>
#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zstd.h>

#include <cmocka.h>

static struct mint_dev *must_open(const char *device, enum mint_precision p, int threads)
{
    struct mint_dev *d;
    struct mint_err err = {0};
    if (mint_backend_open(&d, device, p, threads, &err) != 0)
        fail_msg("%s: %s", device, err.msg);
    return d;
}

static void must_fail(const char *device, int threads, enum mint_code code, const char *words)
{
    struct mint_dev *d = (struct mint_dev *)(uintptr_t)1;
    struct mint_err err = {0};
    assert_int_equal(mint_backend_open(&d, device, MINT_PRECISION_BF16, threads, &err), -1);
    assert_null(d);
    assert_int_equal(err.code, code);
    if (!strstr(err.msg, words))
        fail_msg("'%s' does not say '%s'", err.msg, words);
}

static char folder[] = "/tmp/test_backend.XXXXXX";

static int make_folder(void **state)
{
    (void)state;
    strcpy(folder, "/tmp/test_backend.XXXXXX");
    return mkdtemp(folder) ? 0 : -1;
}

static int remove_folder(void **state)
{
    char command[64];
    (void)state;
    snprintf(command, sizeof command, "rm -rf %s", folder);
    return system(command);
}

static const char *in_folder(const char *name)
{
    static char path[256];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}

static void write_file(const char *name, const char *text)
{
    FILE *f = fopen(in_folder(name), "w");
    assert_non_null(f);
    fputs(text, f);
    fclose(f);
}

static void test_open(void **state)
{
    (void)state;
    struct mint_dev *d = must_open("cpu", MINT_PRECISION_BF16, 3);
    assert_int_equal(d->act_bytes, 2);
    assert_int_equal(d->threads, 3);
    assert_int_equal(d->precision, MINT_PRECISION_BF16);
    assert_string_equal(d->kind, "cpu");
    assert_string_equal(d->ops->name, "cpu");
    assert_int_equal(d->ops->abi, MINT_BACKEND_ABI);
    mint_backend_close(d);
    d = must_open("cpu", MINT_PRECISION_F32, 0);
    assert_int_equal(d->act_bytes, 4);
    assert_int_equal(d->threads, cpu_count());
    mint_backend_close(d);
    mint_backend_close(NULL);
    must_fail("gpu", 0, MINT_EUSAGE, "unknown device 'gpu'");
    must_fail("", 0, MINT_EUSAGE, "unknown device");
    must_fail("cuda:", 0, MINT_EUSAGE, "unknown device");
    must_fail("cuda:x", 0, MINT_EUSAGE, "unknown device");
    must_fail("cuda:99999", 0, MINT_EUSAGE, "unknown device");
    must_fail("cpu", -1, MINT_EUSAGE, "-1 threads");
    must_fail("cpu", 5000, MINT_EUSAGE, "5000 threads");
}

/* No entry of the table is missing, but for the last one, which is optional. */
static void test_table(void **state)
{
    (void)state;
    struct mint_dev *d = must_open("cpu", MINT_PRECISION_BF16, 1);
    const char *from = (const char *)&d->ops->alloc, *to = (const char *)&d->ops->peers;
    for (; from < to; from += sizeof(void (*)(void))) {
        void (*entry)(void);
        memcpy(&entry, from, sizeof entry);
        assert_true(entry != NULL);
    }
    mint_backend_close(d);
}

static void test_no_plugin(void **state)
{
    (void)state;
    setenv("MINT_BACKEND_DIR", folder, 1);
    must_fail("cuda", 0, MINT_EDEVICE, "no CUDA backend is installed");
    must_fail("cuda:1", 0, MINT_EDEVICE, in_folder("mint-cuda.so"));
    struct mint_dev *d = must_open("auto", MINT_PRECISION_BF16, 1);
    assert_string_equal(d->kind, "cpu");
    mint_backend_close(d);
    unsetenv("MINT_BACKEND_DIR");
    must_fail("cuda", 0, MINT_EDEVICE, "CUDA");
}

static void test_bad_plugin(void **state)
{
    (void)state;
    Dl_info info;
    setenv("MINT_BACKEND_DIR", folder, 1);
    write_file("mint-cuda.so", "not a library\n");
    must_fail("cuda", 0, MINT_EDEVICE, "does not load");
    unlink(in_folder("mint-cuda.so"));
    /* A library that is none of ours. */
    assert_int_not_equal(dladdr(dlsym(RTLD_DEFAULT, "ZSTD_versionNumber"), &info), 0);
    assert_true(ZSTD_versionNumber() > 0);
    assert_int_equal(symlink(info.dli_fname, in_folder("mint-cuda.so")), 0);
    must_fail("cuda", 0, MINT_EDEVICE, "not a backend");
    struct mint_dev *d = must_open("auto", MINT_PRECISION_BF16, 1);
    assert_string_equal(d->kind, "cpu");
    mint_backend_close(d);
    unlink(in_folder("mint-cuda.so"));
    unsetenv("MINT_BACKEND_DIR");
}

static void test_isa(void **state)
{
    (void)state;
    const struct cpu_isa *isa;
    struct mint_err err = {0};
    assert_int_equal(cpu_isa_choose(&isa, NULL, &err), 0);
    assert_true(isa->usable());
    assert_int_equal(cpu_isa_choose(&isa, "", &err), 0);
    for (const struct cpu_isa *i = cpu_isas; i->name; i++) {
        setenv("MINT_CPU_ISA", i->name, 1);
        if (i->usable()) {
            struct mint_dev *d = must_open("cpu", MINT_PRECISION_BF16, 1);
            assert_ptr_equal(cpu_dev(d)->isa, i);
            mint_backend_close(d);
        } else {
            must_fail("cpu", 1, MINT_EDEVICE, "does not have it");
        }
    }
    setenv("MINT_CPU_ISA", "sse9", 1);
    must_fail("cpu", 1, MINT_EUSAGE, "MINT_CPU_ISA=sse9: unknown");
    unsetenv("MINT_CPU_ISA");
}

static void test_quota(void **state)
{
    (void)state;
    char membership[256], mount[256];
    const char *dirs[] = {"cg", "cg/a", "cg/a/b", "cg/cpu", "cg/cpu/box"};
    for (size_t i = 0; i < MINT_ARRAY_LEN(dirs); i++)
        assert_int_equal(mkdir(in_folder(dirs[i]), 0700), 0);
    snprintf(membership, sizeof membership, "%s", in_folder("membership"));
    snprintf(mount, sizeof mount, "%s", in_folder("cg"));
    assert_int_equal(cpu_group_limit(membership, mount), 0); /* no such file */
    write_file("membership", "garbage\n0::/a/b\n");
    assert_int_equal(cpu_group_limit(membership, mount), 0);
    write_file("cg/a/b/cpu.max", "max 100000\n");
    assert_int_equal(cpu_group_limit(membership, mount), 0);
    write_file("cg/a/b/cpu.max", "350000 100000\n");
    assert_int_equal(cpu_group_limit(membership, mount), 4); /* 3.5 CPUs, rounded up */
    write_file("cg/a/cpu.max", "50000 100000\n");
    assert_int_equal(cpu_group_limit(membership, mount), 1); /* the parent allows less */
    write_file("membership", "0::/not/shown/here\n");
    assert_int_equal(cpu_group_limit(membership, mount), 0);
    write_file("membership", "5:cpuset:/box\n4:cpu:/box\n0::/\n");
    write_file("cg/cpu/box/cpu.cfs_quota_us", "-1\n");
    write_file("cg/cpu/box/cpu.cfs_period_us", "100000\n");
    assert_int_equal(cpu_group_limit(membership, mount), 0);
    write_file("cg/cpu/box/cpu.cfs_quota_us", "200000\n");
    assert_int_equal(cpu_group_limit(membership, mount), 2);
    write_file("membership", "4:cpu,cpuacct:/box\n");
    assert_int_equal(cpu_group_limit(membership, mount), 2);
    assert_true(cpu_count() >= 1);
}

static void test_memory_left(void **state)
{
    (void)state;
    char membership[512], mount[512];
    static const char *const dirs[] = {"mg", "mg/a", "mg/a/b", "mg/memory", "mg/memory/box"};
    for (size_t i = 0; i < MINT_ARRAY_LEN(dirs); i++)
        assert_int_equal(mkdir(in_folder(dirs[i]), 0700), 0);
    snprintf(membership, sizeof membership, "%s", in_folder("memberof"));
    snprintf(mount, sizeof mount, "%s", in_folder("mg"));
    assert_int_equal(cpu_group_memory(membership, mount), -1);
    write_file("memberof", "0::/a/b\n");
    write_file("mg/a/b/memory.current", "1000\n");
    write_file("mg/a/b/memory.max", "max\n");
    assert_int_equal(cpu_group_memory(membership, mount), -1);
    write_file("mg/a/b/memory.max", "5000\n");
    assert_int_equal(cpu_group_memory(membership, mount), 4000);
    write_file("mg/a/b/memory.stat", "anon 7\ninactive_file 300\nactive_file 9\n");
    assert_int_equal(cpu_group_memory(membership, mount), 4300); /* cached files make room */
    write_file("mg/a/memory.max", "2000\n");
    write_file("mg/a/memory.current", "3000\n");
    assert_int_equal(cpu_group_memory(membership, mount), 0);
    write_file("memberof", "4:memory:/box\n3:cpu:/\n");
    write_file("mg/memory/box/memory.limit_in_bytes", "900\n");
    write_file("mg/memory/box/memory.usage_in_bytes", "100\n");
    write_file("mg/memory/box/memory.stat", "inactive_file 1\ntotal_inactive_file 50\n");
    assert_int_equal(cpu_group_memory(membership, mount), 850);
    struct mint_dev *d = must_open("cpu", MINT_PRECISION_BF16, 1);
    assert_true(d->ops->available(d) > 0);
    mint_backend_close(d);
}

static void test_memory(void **state)
{
    (void)state;
    static const size_t sizes[] = {0, 1, 64, 1000, ((size_t)2 << 20) - 1, (size_t)2 << 20, 5000001};
    struct mint_dev *d = must_open("cpu", MINT_PRECISION_BF16, 2);
    struct mint_err err = {0};
    for (size_t i = 0; i < MINT_ARRAY_LEN(sizes); i++) {
        size_t n = sizes[i];
        unsigned char *p = d->ops->alloc(d, n, &err), *q = d->ops->alloc(d, n, &err);
        assert_true(p && q);
        assert_int_equal((uintptr_t)p % 64, 0);
        for (size_t j = 0; j < n; j++)
            if (p[j] != 0)
                fail_msg("byte %zu of %zu is not zero", j, n);
        for (size_t j = 0; j < n; j++)
            p[j] = (unsigned char)(j * 7 + 1);
        assert_int_equal(d->ops->copy(d, q, p, n, &err), 0);
        assert_memory_equal(p, q, n);
        assert_int_equal(d->ops->zero(d, q, n, &err), 0);
        assert_int_equal(d->ops->upload(d, q, p, n / 2, &err), 0);
        assert_memory_equal(p, q, n / 2);
        if (n)
            assert_int_equal(q[n - 1], 0);
        assert_int_equal(d->ops->download(d, q, p, n, &err), 0);
        assert_memory_equal(p, q, n);
        d->ops->free(d, p);
        d->ops->free(d, q);
    }
    d->ops->free(d, NULL);
    assert_null(d->ops->alloc(d, SIZE_MAX - 100, &err));
    assert_int_equal(err.code, MINT_ENOMEM);
    mint_backend_close(d);
}

static void test_scratch(void **state)
{
    (void)state;
    struct mint_dev *dev = must_open("cpu", MINT_PRECISION_BF16, 2);
    struct cpu_dev *d = cpu_dev(dev);
    char *a = cpu_scratch(d, 0, 1000), *b = cpu_scratch(d, 1, 1000),
         *c = cpu_panel_scratch(d, 0, 1000);
    memset(a, 1, 1000), memset(b, 2, 1000), memset(c, 3, 1000);
    assert_ptr_equal(cpu_scratch(d, 0, 500), a);
    char *more = cpu_scratch(d, 0, 3000000);
    assert_int_equal((uintptr_t)more % 64, 0);
    memset(more, 4, 3000000);
    assert_int_equal(b[999], 2);
    assert_int_equal(c[999], 3);
    mint_backend_close(dev);
}

enum { JOBS = 1000 };

struct counts {
    int times[JOBS];
    int flushed[JOBS];
    int threads;
};

static void count_job(void *ctx, int64_t i, int thread)
{
    struct counts *c = ctx;
    volatile float tiny = FLT_MIN;
    c->times[i]++;
    c->flushed[i] = tiny / 2.0f == 0.0f;
    if (thread < 0 || thread >= c->threads)
        c->times[i] += 100;
}

/* Every job once, with subnormals flushed there and not here, whatever the number of threads. */
static void test_parallel(void **state)
{
    (void)state;
    for (int threads = 1; threads <= 3; threads++) {
        struct mint_dev *d = must_open("cpu", MINT_PRECISION_BF16, threads);
        for (int64_t n = 0; n <= JOBS; n = n < 4 ? n + 1 : n * 6)
            for (int share = 0; share < 3; share++) {
                struct counts c = {.threads = threads};
                volatile float tiny = FLT_MIN;
                if (share)
                    cpu_share(cpu_dev(d), n, share == 1 ? 1 : CPU_SHARE_WORK, count_job, &c);
                else
                    cpu_parallel(cpu_dev(d), n, count_job, &c);
                assert_true(tiny / 2.0f > 0.0f);
                for (int64_t i = 0; i < JOBS; i++) {
                    assert_int_equal(c.times[i], i < n);
                    if (MINT_X86)
                        assert_int_equal(c.flushed[i], i < n);
                }
            }
        mint_backend_close(d);
    }
}

static void sum_job(void *ctx, int64_t i, int thread)
{
    (void)thread;
    ((int64_t *)ctx)[i] += i + 1;
}

/* Loops that follow each other at once, some after the workers went to sleep. */
static void test_many_loops(void **state)
{
    (void)state;
    struct mint_dev *d = must_open("cpu", MINT_PRECISION_BF16, 3);
    int64_t sums[5] = {0};
    enum { LOOPS = 3000 };
    for (int i = 0; i < LOOPS; i++) {
        cpu_parallel(cpu_dev(d), 5, sum_job, sums);
        if (i % 500 == 0)
            usleep(2000);
    }
    for (int i = 0; i < 5; i++)
        assert_int_equal(sums[i], (i + 1) * LOOPS);
    mint_backend_close(d);
}

static void test_bf16(void **state)
{
    (void)state;
    static const struct {
        uint32_t bits;
        uint16_t want;
    } cases[] = {
        {0x3f800000, 0x3f80}, {0x3f808000, 0x3f80}, {0x3f818000, 0x3f82}, {0x3f808001, 0x3f81},
        {0x80000000, 0x8000}, {0x7f7fffff, 0x7f80}, {0xff800000, 0xff80}, {0x7f800001, 0x7fc0},
        {0xffffffff, 0xffff}, {0x00000001, 0x0000}, {0x00008001, 0x0001},
    };
    for (size_t i = 0; i < MINT_ARRAY_LEN(cases); i++) {
        float f;
        memcpy(&f, &cases[i].bits, sizeof f);
        assert_int_equal(cpu_f32_to_bf16(f), cases[i].want);
    }
    for (uint32_t h = 0; h < 0x10000; h++) {
        float f = cpu_bf16_to_f32((cpu_bf16)h);
        if (!isnan(f))
            assert_int_equal(cpu_f32_to_bf16(f), h);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_open),
        cmocka_unit_test(test_table),
        cmocka_unit_test_setup_teardown(test_no_plugin, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(test_bad_plugin, make_folder, remove_folder),
        cmocka_unit_test(test_isa),
        cmocka_unit_test_setup_teardown(test_quota, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(test_memory_left, make_folder, remove_folder),
        cmocka_unit_test(test_memory),
        cmocka_unit_test(test_scratch),
        cmocka_unit_test(test_parallel),
        cmocka_unit_test(test_many_loops),
        cmocka_unit_test(test_bf16),
    };
    return cmocka_run_group_tests_name("backend", tests, NULL, NULL);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* cpu_isa.c: which instruction set the CPU backend runs. The bits are the same on every path. */
#include "cpu.h"

#include <string.h>

static bool always(void)
{
    return true;
}

#if MINT_X86
static bool has_avx2(void)
{
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
}

static bool has_avx512(void)
{
    return has_avx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
}

static bool has_avx512bf16(void)
{
    return has_avx512() && __builtin_cpu_supports("avx512bf16");
}
#endif

const struct cpu_isa cpu_isas[] = {
#if MINT_X86
    {"avx512bf16", has_avx512bf16, &cpu_tiles_avx512bf16, &cpu_rows_avx512},
    {"avx512", has_avx512, &cpu_tiles_avx512, &cpu_rows_avx512},
    {"avx2", has_avx2, &cpu_tiles_avx2, &cpu_rows_avx2},
#endif
    {"portable", always, &cpu_tiles_portable, &cpu_rows_portable},
    {NULL, NULL, NULL, NULL},
};

static const struct cpu_isa *find(const char *name)
{
    for (const struct cpu_isa *i = cpu_isas; i->name; i++)
        if (strcmp(i->name, name) == 0)
            return i;
    return NULL;
}

/*
 * Intel's cores start a vdpbf16ps every other cycle and two fused multiply-adds each cycle
 * (Sapphire Rapids, one core: 85 and 174 GFLOP/s), so there the widening avx512 kernels are the
 * faster ones. AMD's start as many of the one as of the other, which makes vdpbf16ps twice as good.
 */
static const struct cpu_isa *best(void)
{
    const struct cpu_isa *i = cpu_isas;
    while (!i->usable())
        i++;
#if MINT_X86
    if (i->tiles == &cpu_tiles_avx512bf16 && __builtin_cpu_is("intel"))
        i++;
#endif
    return i;
}

int cpu_isa_choose(const struct cpu_isa **isa, const char *name, struct mint_err *err)
{
    if (!name || !*name) {
        *isa = best();
        return 0;
    }
    const struct cpu_isa *i = find(name);
    if (!i)
        return mint_fail(err, MINT_EUSAGE,
                         "MINT_CPU_ISA=%s: unknown; use portable, avx2, avx512 or avx512bf16",
                         name);
    if (!i->usable())
        return mint_fail(err, MINT_EDEVICE, "MINT_CPU_ISA=%s: this CPU does not have it", name);
    *isa = i;
    return 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* cpu_count.c: how many threads to use: affinity and the CPU quotas of control groups. */
#include "cpu.h"
#include "cpu_group.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int affinity_count(void)
{
    for (int cpus = 1024; cpus <= 1 << 20; cpus *= 4) {
        cpu_set_t *set = CPU_ALLOC((size_t)cpus);
        if (!set)
            break;
        size_t bytes = CPU_ALLOC_SIZE((size_t)cpus);
        int n = sched_getaffinity(0, bytes, set) == 0 ? CPU_COUNT_S(bytes, set) : 0;
        CPU_FREE(set);
        if (n > 0)
            return n;
    }
    return 1;
}

/* Up to two integers of a small file, -1 for those that are not there ("max"). */
static void read_pair(const char *path, long long v[2])
{
    char text[128];
    FILE *f = fopen(path, "re");
    v[0] = v[1] = -1;
    if (!f)
        return;
    size_t n = fread(text, 1, sizeof text - 1, f);
    fclose(f);
    text[n] = '\0';
    char *at = text;
    for (int i = 0; i < 2; i++) {
        char *end;
        long long x = strtoll(at, &end, 10);
        if (end == at)
            break;
        v[i] = x;
        at = end;
    }
}

/* CPUs that quota microseconds in a period allow, rounded up; 0: no limit. */
static int quota_cpus(long long quota, long long period)
{
    if (quota <= 0 || period <= 0)
        return 0;
    long long n = (quota + period - 1) / period;
    return n > 1 << 20 ? 0 : (int)n;
}

/* The limit of one group's folder, version 2 or 1; 0: none. */
static int folder_limit(const char *dir, bool v2)
{
    char path[4200];
    long long a[2], b[2];
    snprintf(path, sizeof path, "%s/%s", dir, v2 ? "cpu.max" : "cpu.cfs_quota_us");
    read_pair(path, a);
    if (v2)
        return quota_cpus(a[0], a[1]);
    snprintf(path, sizeof path, "%s/cpu.cfs_period_us", dir);
    read_pair(path, b);
    return quota_cpus(a[0], b[0]);
}

static int smaller_limit(int a, int b)
{
    if (a == 0 || b == 0)
        return a + b;
    return MINT_MIN(a, b);
}

static void see_folder(void *ctx, const char *dir, bool v2)
{
    int *limit = ctx;
    *limit = smaller_limit(*limit, folder_limit(dir, v2));
}

int cpu_group_limit(const char *membership, const char *mount)
{
    int limit = 0;
    cpu_group_walk(membership, mount, "cpu", see_folder, &limit);
    return limit;
}

int cpu_count(void)
{
    int n = affinity_count();
    int limit = cpu_group_limit("/proc/self/cgroup", "/sys/fs/cgroup");
    return limit > 0 ? MINT_MIN(n, limit) : n;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* cpu_available.c: how much memory is left, of the machine and of this process's control groups. */
#include "cpu_group.h"
#include "cpu_ops.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The number behind key in the first line of a file that begins with key and a blank; key "": the
 * file's first number. -1: there is none. */
static int64_t number(const char *dir, const char *file, const char *key)
{
    char path[4200], line[256];
    size_t n = strlen(key);
    int64_t v = -1;
    snprintf(path, sizeof path, "%s/%s", dir, file);
    FILE *f = fopen(path, "re");
    if (!f)
        return -1;
    while (v < 0 && fgets(line, sizeof line, f)) {
        char *end;
        if (strncmp(line, key, n) != 0)
            continue;
        long long x = strtoll(line + n, &end, 10);
        if (end != line + n)
            v = x;
        if (!n)
            break;
    }
    fclose(f);
    return v;
}

/* Cached files count as used, and make room when it is needed. */
static int64_t left_in(const char *dir, bool v2)
{
    int64_t most = number(dir, v2 ? "memory.max" : "memory.limit_in_bytes", "");
    int64_t used = number(dir, v2 ? "memory.current" : "memory.usage_in_bytes", "");
    int64_t files = number(dir, "memory.stat", v2 ? "inactive_file " : "total_inactive_file ");
    if (most < 0 || used < 0)
        return -1;
    return MINT_MAX(most - used + MINT_MAX(files, 0), 0);
}

static void see_folder(void *ctx, const char *dir, bool v2)
{
    int64_t *least = ctx, left = left_in(dir, v2);
    if (left >= 0 && (*least < 0 || left < *least))
        *least = left;
}

int64_t cpu_group_memory(const char *membership, const char *mount)
{
    int64_t least = -1;
    cpu_group_walk(membership, mount, "memory", see_folder, &least);
    return least;
}

size_t cpu_available(struct mint_dev *d)
{
    int64_t kib = number("/proc", "meminfo", "MemAvailable: ");
    int64_t group = cpu_group_memory("/proc/self/cgroup", "/sys/fs/cgroup");
    int64_t left = kib < 0 ? INT64_MAX : kib * 1024;
    (void)d;
    return (size_t)(group < 0 ? left : MINT_MIN(left, group));
}

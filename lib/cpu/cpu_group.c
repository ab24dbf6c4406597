/* SPDX-License-Identifier: Apache-2.0 */
#include "cpu_group.h"

#include <stdio.h>
#include <string.h>

/* From root/group up to root itself; groups that this mount does not show are not there. */
static void upwards(const char *root, const char *group, bool v2, cpu_group_visit *visit, void *ctx)
{
    char dir[4096];
    int n = snprintf(dir, sizeof dir, "%s%s", root, group);
    if (n < 0 || (size_t)n >= sizeof dir)
        return;
    for (;;) {
        visit(ctx, dir, v2);
        char *slash = strrchr(dir, '/');
        if (!slash || strlen(dir) <= strlen(root))
            return;
        *slash = '\0';
    }
}

/* "cpu,cpuacct" is mounted as cpu as well. */
static bool lists(const char *controllers, const char *name)
{
    size_t n;
    for (const char *at = controllers;; at += n + 1) {
        n = strcspn(at, ",");
        if (n == strlen(name) && memcmp(at, name, n) == 0)
            return true;
        if (!at[n])
            return false;
    }
}

void cpu_group_walk(const char *membership, const char *mount, const char *controller,
                    cpu_group_visit *visit, void *ctx)
{
    char line[4096], root[4096];
    FILE *f = fopen(membership, "re");
    if (!f)
        return;
    while (fgets(line, sizeof line, f)) {
        line[strcspn(line, "\n")] = '\0';
        char *controllers = strchr(line, ':');
        char *group = controllers ? strchr(controllers + 1, ':') : NULL;
        if (!group)
            continue;
        *group++ = '\0';
        controllers++;
        if (strcmp(group, "/") == 0)
            *group = '\0';
        if (!*controllers) {
            upwards(mount, group, true, visit, ctx);
        } else if (lists(controllers, controller)) {
            int n = snprintf(root, sizeof root, "%s/%s", mount, controller);
            if (n > 0 && (size_t)n < sizeof root)
                upwards(root, group, false, visit, ctx);
        }
    }
    fclose(f);
}

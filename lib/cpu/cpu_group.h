/* SPDX-License-Identifier: Apache-2.0 */
/* cpu_group.h: the control groups (versions 1 and 2) that this process is in. */
#ifndef MINT_CPU_GROUP_H
#define MINT_CPU_GROUP_H

#include "cpu.h"

typedef void cpu_group_visit(void *ctx, const char *dir, bool v2);
/* Calls visit for the folder of each group that may limit the controller ("cpu", "memory"), from
 * the process's own upwards. membership in the form of /proc/self/cgroup, groups below mount. */
void cpu_group_walk(const char *membership, const char *mount, const char *controller,
                    cpu_group_visit *visit, void *ctx);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
#include "plugin.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

bool mint_plugin_path(char *path, size_t n, const char *name)
{
    const char *given = getenv("MINT_BACKEND_DIR");
    if (given && *given)
        return snprintf(path, n, "%s/%s", given, name) < (int)n;
    char exe[4096];
    ssize_t len = readlink("/proc/self/exe", exe, sizeof exe - 1);
    if (len <= 0)
        return false;
    exe[len] = '\0';
    for (int up = 0; up < 2; up++) {
        char *slash = strrchr(exe, '/');
        if (!slash)
            return false;
        *slash = '\0';
    }
    return snprintf(path, n, "%s/lib/mint/%s", exe, name) < (int)n;
}

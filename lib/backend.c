/* SPDX-License-Identifier: Apache-2.0 */
/* backend.c: opening a device: the CPU is linked in, CUDA is a shared object that is loaded when it
 * is asked for. */
#include "backend.h"

#include "backend_plugin.h"
#include "cpu/cpu_ops.h"
#include "log.h"
#include "plugin.h"
#include "ranks.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PLUGIN "mint-cuda.so"

static int load_plugin(const struct mint_plugin **plugin, struct mint_err *err)
{
    char path[4200];
    if (!mint_plugin_path(path, sizeof path, PLUGIN))
        return mint_fail(err, MINT_EDEVICE,
                         "no CUDA backend is installed: set MINT_BACKEND_DIR to its folder");
    if (access(path, F_OK) != 0)
        return mint_fail(err, MINT_EDEVICE,
                         "no CUDA backend is installed (%s is not there); build it with make cuda, "
                         "or use --device cpu",
                         path);
    void *so = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!so)
        return mint_fail(err, MINT_EDEVICE, "the CUDA backend does not load: %s", dlerror());
    mint_backend_entry_fn *entry;
    *(void **)&entry = dlsym(so, MINT_PLUGIN_SYMBOL);
    if (!entry)
        return mint_fail(err, MINT_EDEVICE, "%s is not a backend: it has no " MINT_PLUGIN_SYMBOL,
                         path);
    const struct mint_plugin *p = entry();
    if (!p || p->abi != MINT_BACKEND_ABI)
        return mint_fail(err, MINT_EDEVICE,
                         "%s is of another version (interface %d, wanted %d); rebuild it", path,
                         p ? p->abi : 0, MINT_BACKEND_ABI);
    *plugin = p;
    return 0;
}

/* The GPU of this process where none is named. A launcher that shows each process one GPU has
 * chosen already. */
static int own_index(void)
{
    const char *visible = getenv("CUDA_VISIBLE_DEVICES");
    return visible && *visible && !strchr(visible, ',') ? 0 : mint_ranks_local();
}

/* index < 0: none is named. */
static int open_cuda(struct mint_dev **d, int index, enum mint_precision p, struct mint_err *err)
{
    const struct mint_plugin *plugin;
    if (load_plugin(&plugin, err) != 0)
        return -1;
    if (index < 0) {
        index = own_index();
        int n = plugin->count();
        if (n > 0 && index >= n)
            return mint_fail(err, MINT_EDEVICE,
                             "more processes than GPUs: this is number %d, from 0, on a machine "
                             "that has %d; start at most one a GPU, or name one for all of them, "
                             "as with --device cuda:0",
                             index, n);
    }
    if (plugin->open(d, index, p, err) != 0)
        return -1;
    if ((*d)->ops->abi == MINT_BACKEND_ABI)
        return 0;
    (*d)->ops->close(*d);
    *d = NULL;
    return mint_fail(err, MINT_EDEVICE, "the CUDA backend's operations are of another version");
}

/* A GPU, or the CPU; why not the GPU is said where a plugin is installed, else on -v. */
static int open_any(struct mint_dev **d, enum mint_precision p, int threads, struct mint_err *err)
{
    struct mint_err why;
    char path[4200];
    if (open_cuda(d, -1, p, &why) == 0)
        return 0;
    if (mint_plugin_path(path, sizeof path, PLUGIN) && access(path, F_OK) == 0)
        mint_note("the CPU computes: %s", why.msg);
    else
        mint_verbose(1, "the CPU computes: %s", why.msg);
    return cpu_open(d, p, threads, err);
}

/* "cuda", which is -1, or "cuda:N" */
static bool cuda_index(const char *device, int *index)
{
    *index = -1;
    if (strcmp(device, "cuda") == 0)
        return true;
    if (strncmp(device, "cuda:", 5) != 0)
        return false;
    const char *digits = device + 5;
    size_t n = strspn(digits, "0123456789");
    if (n < 1 || n > 4 || digits[n])
        return false;
    *index = 0;
    for (size_t i = 0; i < n; i++)
        *index = *index * 10 + (digits[i] - '0');
    return true;
}

int mint_backend_open(struct mint_dev **d, const char *device, enum mint_precision p, int threads,
                      struct mint_err *err)
{
    int index;
    *d = NULL;
    if (threads < 0 || threads > 4096)
        return mint_fail(err, MINT_EUSAGE, "%d threads: 0 (as many as there are) to 4096", threads);
    if (strcmp(device, "cpu") == 0)
        return cpu_open(d, p, threads, err);
    if (strcmp(device, "auto") == 0)
        return open_any(d, p, threads, err);
    if (!cuda_index(device, &index))
        return mint_fail(err, MINT_EUSAGE, "unknown device '%s': cpu, cuda, cuda:N or auto",
                         device);
    return open_cuda(d, index, p, err);
}

void mint_backend_close(struct mint_dev *d)
{
    if (d)
        d->ops->close(d);
}

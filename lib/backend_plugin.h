/* SPDX-License-Identifier: Apache-2.0 */
/*
 * backend_plugin.h: what a device backend in a shared object (mint-cuda.so) exports: the one symbol
 * mint_backend_entry. The loader is backend.c; it never unloads a plugin.
 */
#ifndef MINT_BACKEND_PLUGIN_H
#define MINT_BACKEND_PLUGIN_H

#include "backend.h"

struct mint_plugin {
    int abi; /* MINT_BACKEND_ABI; the first member for ever, so that versions can be told apart */
    /* index: which device. Fails with MINT_EDEVICE and the reason: no driver, no such device. */
    int (*open)(struct mint_dev **d, int index, enum mint_precision p, struct mint_err *err);
    int (*count)(void); /* devices that there are; 0: none, or it cannot be said */
};

#define MINT_PLUGIN_SYMBOL "mint_backend_entry"
typedef const struct mint_plugin *mint_backend_entry_fn(void);

#endif

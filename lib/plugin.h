/* SPDX-License-Identifier: Apache-2.0 */
/* plugin.h: where the shared objects are that are loaded when they are asked for. */
#ifndef MINT_PLUGIN_H
#define MINT_PLUGIN_H

#include "base.h"

/* Path of the plugin NAME: in MINT_BACKEND_DIR, else in .../lib/mint beside the program's .../bin.
 * False: neither can be said, or n bytes are too few. */
bool mint_plugin_path(char *path, size_t n, const char *name);

#endif

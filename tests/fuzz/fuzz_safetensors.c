/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as a safetensors file: refused, or every tensor can be read from end to end. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "fs.h"
#include "safetensors.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static void read_all(const struct mint_st *st)
{
    char print[72];
    if (mint_st_fingerprint(st, print, NULL))
        abort();
    for (size_t i = 0; i < mint_st_count(st); i++) {
        const struct mint_st_tensor *t = mint_st_at(st, i);
        if (mint_st_find(st, t->name) != t)
            abort();
        size_t size = mint_dtype_bytes(t->dtype);
        float *v = size ? malloc(t->bytes / size * sizeof *v + 1) : NULL;
        if (v && mint_st_to_f32(t, v, NULL))
            abort();
        free(v);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    char path[64];
    struct mint_st *st;
    struct mint_err err;
    int fd = memfd_create("fuzz", MFD_CLOEXEC);
    if (fd < 0 || mint_fs_write_all(fd, data, n))
        abort();
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    if (mint_st_open(&st, path, &err) == 0)
        read_all(st);
    mint_st_close(st);
    close(fd);
    return 0;
}

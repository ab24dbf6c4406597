/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any bytes are a file for the line reader, as they are and as the text of a zstd frame. Nothing
 * may crash, and from the compressed text the same lines come as from the plain one.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <zstd.h>

#include "buf.h"
#include "fs.h"
#include "zio.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static void must(bool ok)
{
    if (!ok)
        abort();
}

static int read_lines(const void *data, size_t n, struct mint_buf *lines)
{
    char path[64];
    struct mint_in *in;
    struct mint_err err;
    const char *line;
    size_t len;
    int rc, fd = memfd_create("fuzz", MFD_CLOEXEC);
    must(fd >= 0 && mint_fs_write_all(fd, data, n) == 0);
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    must(mint_in_open(&in, path, &err) == 0);
    while ((rc = mint_in_line(in, &line, &len, &err)) == 1) {
        must(len > 0 && !memchr(line, '\n', len));
        mint_buf_addf(lines, "%llu ", (unsigned long long)mint_in_lineno(in));
        mint_buf_add(lines, line, len);
        mint_buf_addc(lines, '\n');
    }
    must(rc == 0 || (err.code != MINT_OK && strncmp(err.msg, path, strlen(path)) == 0));
    mint_in_close(in);
    close(fd);
    return rc;
}

/* A frame may ask for 2 GiB of memory, which the fuzzer itself forbids: leave those out. */
static bool wants_large_window(const uint8_t *data, size_t n)
{
    for (size_t i = 0; i + 10 < n; i++) {
        if (memcmp(data + i, "\x28\xb5\x2f\xfd", 4) != 0)
            continue;
        bool single = data[i + 4] & 0x20;
        if (single ? (data[i + 4] >> 6) > 1 : data[i + 5] >> 3 > 16)
            return true;
    }
    return false;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    struct mint_buf plain = MINT_BUF_INIT, packed = MINT_BUF_INIT;
    if (wants_large_window(data, n))
        return 0;
    int rc = read_lines(data, n, &plain);
    size_t cap = ZSTD_compressBound(n);
    char *frame = malloc(cap);
    size_t size = ZSTD_compress(frame, cap, data, n, 1);
    must(!ZSTD_isError(size) && read_lines(frame, size, &packed) == 0);
    bool is_plain = rc == 0 && (n < 4 || (data[0] != 0x28 && data[0] >> 4 != 5));
    if (is_plain)
        must(plain.len == packed.len &&
             (plain.len == 0 || memcmp(plain.data, packed.data, plain.len) == 0));
    free(frame);
    mint_buf_release(&plain);
    mint_buf_release(&packed);
    return 0;
}

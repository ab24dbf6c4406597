/* SPDX-License-Identifier: Apache-2.0 */
#include "safetensors.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "buf.h"
#include "fs.h"
#include "json.h"
#include "mem.h"

#define BUFFER ((size_t)1 << 20)

struct mint_st_writer {
    int fd;
    char *path;
    struct mint_buf header, meta; /* members of the header; of __metadata__ */
    uint64_t declared, written;   /* bytes of the data section */
    bool begun;
    char *buffer;
    size_t used;
};

int mint_st_create(struct mint_st_writer **out, const char *path, struct mint_err *err)
{
    *out = NULL;
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (fd < 0)
        return mint_fail_errno(err, "%s: cannot create", path);
    struct mint_st_writer *w = mint_xcalloc(1, sizeof *w);
    w->fd = fd;
    w->path = mint_xstrdup(path);
    w->buffer = mint_xmalloc(BUFFER);
    *out = w;
    return 0;
}

void mint_st_declare_raw(struct mint_st_writer *w, const char *name, const char *dtype_text,
                         int ndim, const int64_t *shape, size_t bytes)
{
    if (w->begun || ndim > MINT_TENSOR_DIMS)
        MINT_BUG("tensor \"%s\" declared late or with %d dimensions", name, ndim);
    if (w->header.len)
        mint_buf_addc(&w->header, ',');
    mint_json_put_str(&w->header, name);
    mint_buf_addf(&w->header, ":{\"dtype\":\"%s\",\"shape\":[", dtype_text);
    for (int i = 0; i < ndim; i++)
        mint_buf_addf(&w->header, "%s%lld", i ? "," : "", (long long)shape[i]);
    unsigned long long begin = w->declared, end = begin + bytes;
    mint_buf_addf(&w->header, "],\"data_offsets\":[%llu,%llu]}", begin, end);
    w->declared = end;
}

void mint_st_declare(struct mint_st_writer *w, const char *name, enum mint_dtype t, int ndim,
                     const int64_t *shape)
{
    size_t bytes = mint_dtype_bytes(t);
    for (int i = 0; i < ndim; i++)
        bytes *= (size_t)shape[i];
    mint_st_declare_raw(w, name, mint_dtype_name(t), ndim, shape, bytes);
}

void mint_st_metadata(struct mint_st_writer *w, const char *key, const char *value)
{
    if (w->begun)
        MINT_BUG("metadata after the first data");
    if (w->meta.len)
        mint_buf_addc(&w->meta, ',');
    mint_json_put_str(&w->meta, key);
    mint_buf_addc(&w->meta, ':');
    mint_json_put_str(&w->meta, value);
}

static int put(struct mint_st_writer *w, const void *p, size_t n, struct mint_err *err)
{
    if (mint_fs_write_all(w->fd, p, n))
        return mint_fail_errno(err, "%s: cannot write", w->path);
    return 0;
}

static int begin(struct mint_st_writer *w, struct mint_err *err)
{
    struct mint_buf b = MINT_BUF_INIT;
    mint_buf_add(&b, "\0\0\0\0\0\0\0\0", 8);
    mint_buf_addc(&b, '{');
    if (w->meta.len) {
        mint_buf_adds(&b, "\"__metadata__\":{");
        mint_buf_add(&b, w->meta.data, w->meta.len);
        mint_buf_adds(&b, w->header.len ? "}," : "}");
    }
    mint_buf_add(&b, w->header.data, w->header.len);
    mint_buf_addc(&b, '}');
    while (b.len % 8)
        mint_buf_addc(&b, ' ');
    uint64_t len = b.len - 8;
    for (int i = 0; i < 8; i++)
        b.data[i] = (char)(len >> 8 * i & 0xff);
    w->begun = true;
    int rc = put(w, b.data, b.len, err);
    mint_buf_release(&b);
    return rc;
}

int mint_st_write(struct mint_st_writer *w, const void *data, size_t bytes, struct mint_err *err)
{
    if (!w->begun && begin(w, err))
        return -1;
    if (bytes > w->declared - w->written)
        MINT_BUG("%s: more data than declared", w->path);
    w->written += bytes;
    if (w->used + bytes <= BUFFER) { /* many small tensors: few system calls */
        if (bytes)
            memcpy(w->buffer + w->used, data, bytes);
        w->used += bytes;
        return 0;
    }
    int rc = put(w, w->buffer, w->used, err);
    w->used = 0;
    if (rc)
        return rc;
    if (bytes >= BUFFER)
        return put(w, data, bytes, err);
    memcpy(w->buffer, data, bytes);
    w->used = bytes;
    return 0;
}

int mint_st_finish(struct mint_st_writer *w, struct mint_err *err)
{
    int rc = w->begun ? 0 : begin(w, err);
    if (!rc && w->written != w->declared)
        MINT_BUG("%s: %llu bytes written, %llu declared", w->path, (unsigned long long)w->written,
                 (unsigned long long)w->declared);
    if (!rc)
        rc = put(w, w->buffer, w->used, err);
    if (!rc && fsync(w->fd) && errno != EINVAL) /* EINVAL: a pipe or device */
        rc = mint_fail_errno(err, "%s: cannot write", w->path);
    int fd = w->fd;
    w->fd = -1;
    if (close(fd) && !rc)
        rc = mint_fail_errno(err, "%s: cannot write", w->path);
    mint_st_cancel(w);
    return rc;
}

void mint_st_cancel(struct mint_st_writer *w)
{
    if (!w)
        return;
    if (w->fd >= 0)
        close(w->fd);
    free(w->path);
    free(w->buffer);
    mint_buf_release(&w->header);
    mint_buf_release(&w->meta);
    free(w);
}

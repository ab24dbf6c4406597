// SPDX-License-Identifier: Apache-2.0
/* device_memory.cpp: buffers of the model code, scratch of the ops, host arrays on the device. */
#include "device.h"

extern "C" {
#include "mem.h"
}

#include <cstdlib>
#include <cstring>

static int out_of_memory(size_t bytes, struct mint_err *err)
{
    size_t left = 0, total = 0;
    cudaGetLastError(); /* the failure is told here; later ops must not see it */
    cudaMemGetInfo(&left, &total);
    return mint_fail(err, MINT_ENOMEM,
                     "out of GPU memory: %zu MB more are wanted, %zu of %zu MB are free; lower "
                     "--micro-tokens, --batch or --kv-memory, or free the GPU of other programs",
                     bytes / 1000000 + 1, left / 1000000, total / 1000000);
}

size_t cuda_available(struct mint_dev *)
{
    size_t left = 0, total = 0;
    return cudaMemGetInfo(&left, &total) == cudaSuccess ? left : 0;
}

static void *device_malloc(size_t bytes, struct mint_err *err)
{
    void *p = NULL;
    cudaError_t e = cudaMalloc(&p, bytes ? bytes : 1);
    if (e == cudaErrorMemoryAllocation)
        out_of_memory(bytes, err);
    else if (cuda_check(e, "taking memory", err) == 0)
        return p;
    return NULL;
}

void *cuda_alloc(struct mint_dev *dev, size_t bytes, struct mint_err *err)
{
    void *p = device_malloc(bytes, err);
    if (p && cuda_zero(dev, p, bytes, err) != 0) {
        cudaFree(p);
        return NULL;
    }
    return p;
}

void cuda_free(struct mint_dev *, void *p)
{
    cudaFree(p);
}

/* What is large goes from where it is: the runtime has read the source when it returns. */
int cuda_upload(struct mint_dev *dev, void *dst, const void *host, size_t bytes,
                struct mint_err *err)
{
    struct cuda_dev *d = cuda_dev(dev);
    if (!bytes)
        return 0;
    if (bytes <= CUDA_STAGE_MOST) {
        void *pinned;
        MINT_TRY(cuda_stage_take(&d->stage, &pinned, bytes, d->stream, err));
        host = memcpy(pinned, host, bytes);
    }
    return cuda_check(cudaMemcpyAsync(dst, host, bytes, cudaMemcpyHostToDevice, d->stream),
                      "a copy to it", err);
}

int cuda_download(struct mint_dev *dev, void *host, const void *src, size_t bytes,
                  struct mint_err *err)
{
    struct cuda_dev *d = cuda_dev(dev);
    void *to = host;
    cudaError_t e = cudaSuccess;
    if (bytes && bytes <= CUDA_STAGE_MOST)
        MINT_TRY(cuda_stage_take(&d->stage, &to, bytes, d->stream, err));
    if (bytes)
        e = cudaMemcpyAsync(to, src, bytes, cudaMemcpyDeviceToHost, d->stream);
    if (e == cudaSuccess)
        e = cudaStreamSynchronize(d->stream);
    MINT_TRY(cuda_check(e, "a copy from it", err));
    if (to != host)
        memcpy(host, to, bytes);
    return 0;
}

int cuda_copy(struct mint_dev *dev, void *dst, const void *src, size_t bytes, struct mint_err *err)
{
    if (!bytes)
        return 0;
    return cuda_check(
        cudaMemcpyAsync(dst, src, bytes, cudaMemcpyDeviceToDevice, cuda_dev(dev)->stream), "a copy",
        err);
}

int cuda_zero(struct mint_dev *dev, void *p, size_t bytes, struct mint_err *err)
{
    if (!bytes)
        return 0;
    return cuda_check(cudaMemsetAsync(p, 0, bytes, cuda_dev(dev)->stream), "zeroing", err);
}

/* Room for so many bytes and some more, so that what grows little by little is not moved each time.
 */
static int reserve(struct cuda_buffer *b, size_t bytes, struct mint_err *err)
{
    if (b->p && bytes <= b->bytes)
        return 0;
    cudaFree(b->p);
    b->bytes = bytes + bytes / 8 + 256;
    b->p = device_malloc(b->bytes, err);
    if (b->p)
        return 0;
    b->bytes = 0;
    return -1;
}

void *cuda_scratch(struct cuda_dev *d, enum cuda_scratch which, size_t bytes, struct mint_err *err)
{
    struct cuda_buffer *b = &d->scratch[which];
    return reserve(b, bytes, err) == 0 ? b->p : NULL;
}

const void *cuda_array(struct cuda_dev *d, enum cuda_slot slot, const void *host, size_t bytes,
                       bool *fresh, struct mint_err *err)
{
    struct cuda_array *a = &d->array[slot];
    bool same = a->dev.p && bytes == a->bytes && memcmp(a->host, host, bytes) == 0;
    if (fresh)
        *fresh = !same;
    if (same)
        return a->dev.p;
    if (bytes > a->room) {
        a->room = bytes + bytes / 8;
        a->host = mint_xrealloc(a->host, a->room);
    }
    a->bytes = SIZE_MAX; /* nothing that may be found again, should one of these fail */
    if (reserve(&a->dev, bytes, err) != 0 || cuda_upload(&d->base, a->dev.p, host, bytes, err) != 0)
        return NULL;
    if (bytes)
        memcpy(a->host, host, bytes);
    a->bytes = bytes;
    return a->dev.p;
}

void cuda_memory_close(struct cuda_dev *d)
{
    for (struct cuda_buffer &b : d->scratch)
        cudaFree(b.p);
    for (struct cuda_array &a : d->array) {
        cudaFree(a.dev.p);
        free(a.host);
    }
}

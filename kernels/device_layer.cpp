// SPDX-License-Identifier: Apache-2.0
/* device_layer.cpp: the operations on rows and elements, forward and backward. */
#include "device.h"

int cuda_embed(struct mint_dev *dev, float *x, const struct mint_weight *table, const int32_t *ids,
               int64_t T, struct mint_err *err)
{
    struct cuda_dev *d = cuda_dev(dev);
    for (int64_t t = 0; t < T; t++)
        if (ids[t] < 0 || ids[t] >= table->N)
            MINT_BUG("embed: id %d of %lld", (int)ids[t], (long long)table->N);
    const void *on = cuda_array(d, CUDA_IDS, ids, (size_t)T * sizeof *ids, NULL, err);
    if (!on)
        return -1;
    mint_k_embed(x, table->rows, cuda_f32(d), (const int32_t *)on, T, table->K, d->stream);
    return cuda_launched(d, "embed", err);
}

int cuda_rmsnorm(struct mint_dev *dev, void *out, const float *x, const float *w, float eps,
                 int64_t T, int64_t H, struct mint_err *err)
{
    struct cuda_dev *d = cuda_dev(dev);
    mint_k_rmsnorm(out, cuda_f32(d), x, w, eps, T, H, d->stream);
    return cuda_launched(d, "rmsnorm", err);
}

int cuda_rmsnorm_backward(struct mint_dev *dev, float *dx, const float *dy, const float *x,
                          const float *w, float eps, int64_t T, int64_t H, struct mint_err *err)
{
    struct cuda_dev *d = cuda_dev(dev);
    mint_k_rmsnorm_backward(dx, dy, x, w, eps, T, H, d->stream);
    return cuda_launched(d, "rmsnorm's gradient", err);
}

int cuda_swiglu(struct mint_dev *dev, void *out, const float *gu, int64_t T, int64_t F,
                struct mint_err *err)
{
    struct cuda_dev *d = cuda_dev(dev);
    mint_k_swiglu(out, cuda_f32(d), gu, T, F, d->stream);
    return cuda_launched(d, "swiglu", err);
}

int cuda_swiglu_backward(struct mint_dev *dev, void *dgu, const float *dout, const float *gu,
                         int64_t T, int64_t F, struct mint_err *err)
{
    struct cuda_dev *d = cuda_dev(dev);
    mint_k_swiglu_backward(dgu, cuda_f32(d), dout, gu, T, F, d->stream);
    return cuda_launched(d, "swiglu's gradient", err);
}

int cuda_add(struct mint_dev *dev, float *x, const float *y, int64_t n, struct mint_err *err)
{
    struct cuda_dev *d = cuda_dev(dev);
    mint_k_add(x, y, n, d->stream);
    return cuda_launched(d, "an addition", err);
}

int cuda_cast(struct mint_dev *dev, void *out, const float *x, int64_t n, struct mint_err *err)
{
    struct cuda_dev *d = cuda_dev(dev);
    mint_k_cast(out, cuda_f32(d), x, n, d->stream);
    return cuda_launched(d, "a conversion", err);
}

int cuda_gather(struct mint_dev *dev, void *out, const void *x, const int32_t *rows, int64_t n,
                size_t row_bytes, struct mint_err *err)
{
    struct cuda_dev *d = cuda_dev(dev);
    const void *on = cuda_array(d, CUDA_ROWS, rows, (size_t)n * sizeof *rows, NULL, err);
    if (!on)
        return -1;
    mint_k_gather(out, x, (const int32_t *)on, n, (int64_t)row_bytes, d->stream);
    return cuda_launched(d, "gather", err);
}

int cuda_scatter(struct mint_dev *dev, void *out, const void *x, const int32_t *rows, int64_t n,
                 size_t row_bytes, struct mint_err *err)
{
    struct cuda_dev *d = cuda_dev(dev);
    const void *on = cuda_array(d, CUDA_ROWS, rows, (size_t)n * sizeof *rows, NULL, err);
    if (!on)
        return -1;
    mint_k_scatter(out, x, (const int32_t *)on, n, (int64_t)row_bytes, d->stream);
    return cuda_launched(d, "scatter", err);
}

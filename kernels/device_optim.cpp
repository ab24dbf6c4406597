// SPDX-License-Identifier: Apache-2.0
/* device_optim.cpp: the ops on lists of tensors. The lists are made on the host, a launch each. */
#include "device.h"

extern "C" {
#include "mem.h"
}

#include <cstdlib>

/* How many blocks have n elements; adds them to *blocks and returns how many there were before. */
static int64_t place(int64_t *blocks, int64_t n, int64_t step)
{
    int64_t before = *blocks;
    *blocks += (n + step - 1) / step;
    return before;
}

template <class T> static T *list_of(int64_t n)
{
    return (T *)mint_xcalloc((size_t)n + 1, sizeof(T));
}

/* The list on the device; its host memory is freed. NULL with err. */
template <class T>
static const T *bring(struct cuda_dev *d, enum cuda_slot slot, T *list, int64_t n,
                      struct mint_err *err)
{
    const void *on = cuda_array(d, slot, list, (size_t)n * sizeof *list, NULL, err);
    free(list);
    return (const T *)on;
}

int cuda_fold(struct mint_dev *dev, const struct mint_fold *f, int64_t n, struct mint_err *err)
{
    struct cuda_dev *d = cuda_dev(dev);
    int64_t blocks = 0, adds = 0;
    for (int64_t i = 0; i < n; i++)
        adds += f[i].count;
    struct mint_k_sum *list = list_of<struct mint_k_sum>(n);
    struct mint_k_addition *add = list_of<struct mint_k_addition>(adds);
    adds = 0;
    for (int64_t i = 0; i < n; i++) {
        list[i] = {f[i].n, place(&blocks, f[i].n, MINT_K_LIST_STEP), adds, f[i].count};
        for (int64_t k = 0; k < f[i].count; k++)
            add[adds++] = {f[i].add[k].x, f[i].add[k].y};
    }
    const struct mint_k_sum *on = bring(d, CUDA_LIST, list, n, err);
    const struct mint_k_addition *add_on = bring(d, CUDA_ADDITIONS, add, adds, err);
    if (!on || !add_on)
        return -1;
    mint_k_fold(on, n, blocks, add_on, d->stream);
    return cuda_launched(d, "a sum of gradients", err);
}

int cuda_adam(struct mint_dev *dev, const struct mint_adam_tensor *t, int64_t n,
              const struct mint_adam *a, struct mint_err *err)
{
    struct cuda_dev *d = cuda_dev(dev);
    struct mint_k_adam_step s = {a->lr,           a->beta1, a->beta2, a->eps,
                                 a->weight_decay, a->bias1, a->bias2, a->grad_scale};
    struct mint_k_adam_tensor *list = list_of<struct mint_k_adam_tensor>(n);
    int64_t blocks = 0;
    for (int64_t i = 0; i < n; i++)
        list[i] = {t[i].p, t[i].m, t[i].v,
                   t[i].g, t[i].n, place(&blocks, t[i].n, MINT_K_LIST_STEP)};
    const struct mint_k_adam_tensor *on = bring(d, CUDA_LIST, list, n, err);
    if (!on)
        return -1;
    mint_k_adam(on, n, blocks, &s, d->stream);
    return cuda_launched(d, "adam", err);
}

/* Squares of finite floats cannot overflow a double's sum, so the sum tells whether all are finite.
 */
int cuda_sumsq(struct mint_dev *dev, double *out, const struct mint_adam_tensor *t, int64_t n,
               struct mint_err *err)
{
    struct cuda_dev *d = cuda_dev(dev);
    struct mint_k_tensor *list = list_of<struct mint_k_tensor>(n);
    int64_t blocks = 0;
    for (int64_t i = 0; i < n; i++)
        list[i] = {t[i].g, NULL, t[i].n, place(&blocks, t[i].n, MINT_K_SUMSQ_PIECE)};
    const struct mint_k_tensor *on = bring(d, CUDA_LIST, list, n, err);
    if (!on)
        return -1;
    double *sums = (double *)cuda_scratch(d, CUDA_SMALL, (size_t)(n + blocks) * sizeof *out, err);
    if (!sums)
        return -1;
    mint_k_sumsq(sums, sums + n, on, n, blocks, d->stream);
    MINT_TRY(cuda_launched(d, "a sum of squares", err));
    return cuda_download(dev, out, sums, (size_t)n * sizeof *out, err);
}

int cuda_weight_set(struct mint_dev *dev, struct mint_weight *const *w, const float *const *values,
                    int64_t n, struct mint_err *err)
{
    struct cuda_dev *d = cuda_dev(dev);
    struct mint_k_tensor *list = list_of<struct mint_k_tensor>(n);
    int64_t blocks = 0;
    for (int64_t i = 0; i < n; i++) {
        int64_t size = w[i]->N * w[i]->K;
        list[i] = {values[i], w[i]->rows, size, place(&blocks, size, MINT_K_LIST_STEP)};
    }
    const struct mint_k_tensor *on = bring(d, CUDA_LIST, list, n, err);
    if (!on)
        return -1;
    mint_k_cast_all(on, n, blocks, cuda_f32(d), d->stream);
    return cuda_launched(d, "new weights", err);
}

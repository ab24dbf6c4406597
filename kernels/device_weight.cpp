// SPDX-License-Identifier: Apache-2.0
/* device_weight.cpp: matrices of the model, one row-major copy each in the activation type. */
#include "device.h"

extern "C" {
#include "mem.h"
}

#include <cstdlib>
#include <cstring>

#define PIECE ((size_t)4 << 20) /* elements that are converted at a time */

static enum mint_dtype act_type(const struct mint_dev *d)
{
    return d->precision == MINT_PRECISION_BF16 ? MINT_BF16 : MINT_F32;
}

/* n elements from type t, converted on the way. The source may stand at an odd address. */
static int fill(struct mint_dev *d, void *dst, const void *rows, enum mint_dtype t, size_t n,
                struct mint_err *err)
{
    size_t from = mint_dtype_bytes(t), to = d->act_bytes, piece = n < PIECE ? n : PIECE;
    if (t == act_type(d))
        return cuda_upload(d, dst, rows, n * to, err);
    char *raw = (char *)mint_xmalloc(piece * 12 + 1);
    float *wide = (float *)(void *)(raw + piece * 4);
    int rc = 0;
    for (size_t at = 0; at < n && rc == 0; at += piece) {
        size_t m = n - at < piece ? n - at : piece;
        void *out = wide;
        memcpy(raw, (const char *)rows + at * from, m * from);
        mint_dtype_to_f32(t, raw, wide, m);
        if (to == 2) {
            out = wide + piece;
            mint_dtype_from_f32(MINT_BF16, wide, out, m);
        }
        rc = cuda_upload(d, (char *)dst + at * to, out, m * to, err);
    }
    free(raw);
    return rc;
}

int cuda_weight_new(struct mint_dev *d, struct mint_weight **out, const void *rows,
                    enum mint_dtype t, int64_t N, int64_t K, bool, bool, struct mint_err *err)
{
    size_t n;
    *out = NULL;
    if (t != MINT_BF16 && t != MINT_F16 && t != MINT_F32)
        return mint_fail(err, MINT_EMODEL, "weights must be BF16, F16 or F32");
    if (N < 1 || K < 1)
        MINT_BUG("weight of %lld x %lld", (long long)N, (long long)K);
    if (N > INT32_MAX || K > INT32_MAX || __builtin_mul_overflow((size_t)N, (size_t)K, &n) ||
        n > SIZE_MAX / 16)
        return mint_fail(err, MINT_ENOMEM, "a matrix of %lld x %lld is too large", (long long)N,
                         (long long)K);
    struct mint_weight *w = (struct mint_weight *)mint_xcalloc(1, sizeof *w);
    w->N = N;
    w->K = K;
    w->rows = cuda_alloc(d, n * d->act_bytes, err);
    if (!w->rows || fill(d, w->rows, rows, t, n, err) != 0) {
        cuda_weight_free(d, w);
        return -1;
    }
    *out = w;
    return 0;
}

void cuda_weight_free(struct mint_dev *, struct mint_weight *w)
{
    if (!w)
        return;
    cudaFree(w->rows);
    free(w);
}

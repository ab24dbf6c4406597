// SPDX-License-Identifier: Apache-2.0
/* device_product.cpp: a product by the library or by our own kernel; the bits are the same. */
#include "device.h"

int cuda_product(struct cuda_dev *d, const struct mint_k_product *p, struct mint_err *err)
{
    int done = cuda_library_product(d, p, err);
    if (done != 0)
        return done < 0 ? -1 : 0;
    mint_k_product(p, cuda_f32(d), d->stream);
    return cuda_launched(d, "a matrix product", err);
}

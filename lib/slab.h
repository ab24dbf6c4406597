/* SPDX-License-Identifier: Apache-2.0 */
/*
 * slab.h: a role's device buffers, described by a table: where the pointer goes, how wide a row is,
 * which type. One call allocates them for so many rows, one frees them, one adds up their bytes.
 * Belongs to the device's thread.
 */
#ifndef MINT_SLAB_H
#define MINT_SLAB_H

#include "backend.h"

enum mint_slab_type { MINT_SLAB_F32, MINT_SLAB_ACT };

struct mint_slab_part {
    void **at;     /* NULL until allocated */
    int64_t width; /* elements of a row; 0: the part is left out */
    enum mint_slab_type type;
};
/* All or none. */
int mint_slab_alloc(struct mint_dev *dev, const struct mint_slab_part *p, size_t n, int64_t rows,
                    struct mint_err *err);
void mint_slab_free(struct mint_dev *dev, const struct mint_slab_part *p, size_t n);
size_t mint_slab_bytes(const struct mint_dev *dev, const struct mint_slab_part *p, size_t n,
                       int64_t rows);

#endif

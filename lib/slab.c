/* SPDX-License-Identifier: Apache-2.0 */
#include "slab.h"

static size_t part_bytes(const struct mint_dev *dev, const struct mint_slab_part *p, int64_t rows)
{
    size_t element = p->type == MINT_SLAB_ACT ? dev->act_bytes : sizeof(float);
    return (size_t)(rows * p->width) * element;
}

int mint_slab_alloc(struct mint_dev *dev, const struct mint_slab_part *p, size_t n, int64_t rows,
                    struct mint_err *err)
{
    for (size_t i = 0; i < n; i++) {
        if (!p[i].width)
            continue;
        *p[i].at = dev->ops->alloc(dev, part_bytes(dev, &p[i], rows), err);
        if (!*p[i].at) {
            mint_slab_free(dev, p, i);
            return -1;
        }
    }
    return 0;
}

void mint_slab_free(struct mint_dev *dev, const struct mint_slab_part *p, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (!p[i].width)
            continue;
        dev->ops->free(dev, *p[i].at);
        *p[i].at = NULL;
    }
}

size_t mint_slab_bytes(const struct mint_dev *dev, const struct mint_slab_part *p, size_t n,
                       int64_t rows)
{
    size_t bytes = 0;
    for (size_t i = 0; i < n; i++)
        bytes += part_bytes(dev, &p[i], rows);
    return bytes;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* cpu_kv.c: the paged store of keys and values. */
#include "cpu_kv.h"

#include "../mem.h"
#include "cpu_ops.h"

#include <stdlib.h>
#include <string.h>

static size_t head_elems(const struct mint_attn_shape *s)
{
    return (size_t)MINT_KV_PAGE * (size_t)(s->head_dim + cpu_kv_padded(s->head_dim));
}

size_t mint_kv_page_bytes(const struct mint_dev *d, int32_t layers, const struct mint_attn_shape *s)
{
    return (size_t)layers * (size_t)s->kv_heads * head_elems(s) * d->act_bytes;
}

int cpu_kv_new(struct mint_dev *d, struct mint_kv **out, int32_t layers, int32_t pages,
               const struct mint_attn_shape *s, struct mint_err *err)
{
    struct mint_kv *kv;

    if (s->head_dim <= 0 || s->head_dim % 2 != 0)
        return mint_fail(err, MINT_EMODEL, "head_dim is %d; it must be even", (int)s->head_dim);
    kv = mint_xcalloc(1, sizeof *kv);
    kv->layers = layers;
    kv->pages = pages;
    kv->kv_heads = s->kv_heads;
    kv->head_dim = s->head_dim;
    kv->act_bytes = d->act_bytes;
    kv->key_elems = (size_t)MINT_KV_PAGE * (size_t)s->head_dim;
    kv->value_elems = head_elems(s) - kv->key_elems;
    kv->page_bytes = mint_kv_page_bytes(d, layers, s);
    kv->data = cpu_big_alloc(MINT_MAX((size_t)pages * kv->page_bytes, (size_t)1));
    if (!kv->data) {
        int rc =
            mint_fail(err, MINT_ENOMEM, "no memory for %d pages of %zu bytes of keys and values",
                      (int)pages, kv->page_bytes);

        cpu_kv_free(d, kv);
        return rc;
    }
    *out = kv;
    return 0;
}

void cpu_kv_free(struct mint_dev *d, struct mint_kv *kv)
{
    (void)d;
    if (!kv)
        return;
    cpu_big_free(kv->data);
    free(kv);
}

int cpu_kv_copy_page(struct mint_dev *d, struct mint_kv *kv, int32_t to, int32_t from,
                     struct mint_err *err)
{
    (void)d;
    (void)err;
    if (to != from)
        memcpy(kv->data + (size_t)to * kv->page_bytes, kv->data + (size_t)from * kv->page_bytes,
               kv->page_bytes);
    return 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cpu_kv.h: how the CPU backend lays out keys and values, so that the tile kernels work on them as
 * they lie. A page holds, for each layer and key/value head: the keys as two panels of 32 positions
 * [head_dim/2][32][2] (products with queries), then the values as panels of 32 dimensions
 * [MINT_KV_PAGE/2][32][2] (products with probabilities), zero behind head_dim. head_dim is even.
 */
#ifndef MINT_CPU_KV_H
#define MINT_CPU_KV_H

#include "cpu.h"

struct mint_kv {
    int32_t layers, pages, kv_heads, head_dim;
    size_t act_bytes;
    size_t key_elems, value_elems; /* of one head in one page */
    size_t page_bytes;
    char *data;
};

/* head_dim rounded up to whole panels. */
static inline int64_t cpu_kv_padded(int64_t head_dim)
{
    return (head_dim + CPU_PANEL - 1) / CPU_PANEL * CPU_PANEL;
}

static inline char *cpu_kv_keys(const struct mint_kv *kv, int32_t layer, int32_t page, int32_t head)
{
    const size_t at = (size_t)layer * (size_t)kv->kv_heads + (size_t)head;

    return kv->data + (size_t)page * kv->page_bytes +
           at * (kv->key_elems + kv->value_elems) * kv->act_bytes;
}

static inline char *cpu_kv_values(const struct mint_kv *kv, int32_t layer, int32_t page,
                                  int32_t head)
{
    return cpu_kv_keys(kv, layer, page, head) + kv->key_elems * kv->act_bytes;
}

/* Element numbers of dimension i at a slot. */
static inline size_t cpu_kv_key_at(int64_t head_dim, int64_t slot, int64_t i)
{
    return (size_t)(slot / CPU_PANEL * CPU_PANEL * head_dim + i / 2 * 2 * CPU_PANEL +
                    slot % CPU_PANEL * 2 + i % 2);
}

static inline size_t cpu_kv_value_at(int64_t slot, int64_t i)
{
    return (size_t)(i / CPU_PANEL * CPU_PANEL * MINT_KV_PAGE + slot / 2 * 2 * CPU_PANEL +
                    i % CPU_PANEL * 2 + slot % 2);
}

#endif

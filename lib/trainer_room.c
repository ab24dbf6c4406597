/* SPDX-License-Identifier: Apache-2.0 */
#include "trainer_room.h"

#include <stdlib.h>

#include "mem.h"
#include "slab.h"

#define HEAD_PARTS 12

/* A row stride for logits that does not put the rows of a tile into one cache set. */
static int64_t logits_stride(int64_t vocab)
{
    return (vocab + 15) / 16 * 16 + 16;
}

static bool keeps_products(enum mint_recompute again)
{
    return again == MINT_RECOMPUTE_NONE || again == MINT_RECOMPUTE_CHEAP;
}

static void list_head(struct mint_head_room *h, const struct mint_model *m, int64_t r, bool train,
                      bool logits, struct mint_slab_part parts[HEAD_PARTS])
{
    int64_t H = m->config.hidden, one = train ? 1 : 0, ldl = logits_stride(m->config.vocab);
    struct mint_slab_part all[HEAD_PARTS] = {
        {(void **)&h->x, H, MINT_SLAB_F32},
        {(void **)&h->dh, one * H, MINT_SLAB_F32},
        {(void **)&h->dx, one * H, MINT_SLAB_F32},
        {(void **)&h->lp, 1, MINT_SLAB_F32},
        {(void **)&h->lse, 1, MINT_SLAB_F32},
        {(void **)&h->ent, 1, MINT_SLAB_F32},
        {(void **)&h->dlp, one, MINT_SLAB_F32},
        {(void **)&h->dent, one, MINT_SLAB_F32},
        {(void **)&h->du, one * r, MINT_SLAB_F32},
        {&h->dua, one * r, MINT_SLAB_ACT},
        {&h->h, H, MINT_SLAB_ACT},
        {(void **)&h->logits, logits ? ldl : 0, MINT_SLAB_F32},
    };
    for (size_t i = 0; i < HEAD_PARTS; i++)
        parts[i] = all[i];
}

void mint_room_init(struct mint_room *r, const struct mint_model *m,
                    const struct mint_adapter *adapter, int64_t rank)
{
    *r = (struct mint_room){.model = m, .adapter = adapter, .rank = rank};
    r->x = mint_xcalloc((size_t)m->config.layers + 1, sizeof *r->x);
}

static void free_buffers(struct mint_room *r)
{
    struct mint_dev *dev = r->model->dev;
    struct mint_slab_part head[HEAD_PARTS];
    list_head(&r->head, r->model, 1, true, true, head);
    mint_slab_free(dev, head, HEAD_PARTS);
    for (int l = 0; l <= r->model->config.layers; l++) {
        dev->ops->free(dev, r->x[l]);
        r->x[l] = NULL;
    }
    if (r->adapter)
        mint_works_free(r->work);
    else
        mint_work_free(r->work);
    mint_back_free(r->back);
    dev->ops->kv_free(dev, r->kv);
    for (int i = 0; i < MINT_HOST_N; i++) {
        free(r->host[i]);
        r->host[i] = NULL;
    }
    r->work = NULL;
    r->back = NULL;
    r->kv = NULL;
    r->size = (struct mint_room_size){0};
}

void mint_room_release(struct mint_room *r)
{
    if (!r->model)
        return;
    free_buffers(r);
    free(r->x);
}

static int64_t kv_layers(const struct mint_model *m, enum mint_recompute again)
{
    return again == MINT_RECOMPUTE_NONE ? m->config.layers : 1;
}

size_t mint_room_bytes(const struct mint_model *m, int64_t rank, const struct mint_room_size *s,
                       enum mint_recompute again)
{
    struct mint_head_room none;
    struct mint_slab_part head[HEAD_PARTS];
    size_t x = (size_t)s->rows * (size_t)m->config.hidden * sizeof(float);
    list_head(&none, m, rank, true, keeps_products(again), head);
    return mint_works_bytes(m, rank, s->rows, again) + mint_back_bytes(m, rank, s->rows) +
           ((size_t)m->config.layers + 1) * x +
           mint_slab_bytes(m->dev, head, HEAD_PARTS, s->head_rows) +
           (size_t)s->pages * mint_kv_page_bytes(m->dev, (int32_t)kv_layers(m, again), &m->attn);
}

enum mint_recompute mint_room_choose(const struct mint_model *m, int64_t rank,
                                     const struct mint_room_size *size, size_t limit)
{
    for (enum mint_recompute a = MINT_RECOMPUTE_NONE; a < MINT_RECOMPUTE_ALL; a++)
        if (mint_room_bytes(m, rank, size, a) <= limit)
            return a;
    return MINT_RECOMPUTE_ALL;
}

static int check_limit(const struct mint_room *r, const struct mint_room_size *size,
                       struct mint_err *err)
{
    size_t least = mint_room_bytes(r->model, r->rank, size, MINT_RECOMPUTE_ALL);
    if (!r->strict || least <= r->limit)
        return 0;
    return mint_fail(err, MINT_ENOMEM,
                     "%lld positions together need %.0f MB, --memory allows %.0f; give more, or "
                     "lower --micro-tokens (a datum, and a group with a common beginning, stays "
                     "whole)",
                     (long long)size->rows, (double)least / 1e6, (double)r->limit / 1e6);
}

static int alloc_train(struct mint_room *r, const struct mint_room_size *s, struct mint_err *err)
{
    const struct mint_model *m = r->model;
    struct mint_dev *dev = m->dev;
    size_t bytes = (size_t)s->rows * (size_t)m->config.hidden * sizeof(float);
    MINT_TRY(mint_works_new(&r->work, m, r->rank, s->rows, r->again, err));
    MINT_TRY(mint_back_new(&r->back, m, r->adapter, s->rows, err));
    for (int l = 0; l <= m->config.layers; l++) {
        r->x[l] = dev->ops->alloc(dev, bytes, err);
        if (!r->x[l])
            return -1;
    }
    return 0;
}

static int alloc_buffers(struct mint_room *r, const struct mint_room_size *s, struct mint_err *err)
{
    const struct mint_model *m = r->model;
    bool train = r->adapter != NULL;
    struct mint_slab_part head[HEAD_PARTS];
    if (train)
        MINT_TRY(alloc_train(r, s, err));
    else
        MINT_TRY(mint_work_new(&r->work, m, r->rank, s->rows, false, err));
    list_head(&r->head, m, r->rank, train, train && keeps_products(r->again), head);
    r->head.ldl = logits_stride(m->config.vocab);
    MINT_TRY(mint_slab_alloc(m->dev, head, HEAD_PARTS, s->head_rows, err));
    for (int i = 0; i < MINT_HOST_N; i++)
        r->host[i] = mint_xcalloc((size_t)s->head_rows, sizeof(float));
    return m->dev->ops->kv_new(m->dev, &r->kv, (int32_t)kv_layers(m, r->again), (int32_t)s->pages,
                               &m->attn, err);
}

int mint_room_reserve(struct mint_room *r, const struct mint_room_size *size, struct mint_err *err)
{
    struct mint_room_size s = {MINT_MAX(size->rows, r->size.rows),
                               MINT_MAX(size->head_rows, r->size.head_rows),
                               MINT_MAX(size->pages, r->size.pages)};
    if (s.rows == r->size.rows && s.head_rows == r->size.head_rows && s.pages == r->size.pages)
        return 0;
    free_buffers(r);
    r->again = MINT_RECOMPUTE_ALL;
    if (r->adapter) {
        MINT_TRY(check_limit(r, &s, err));
        r->again = r->wanted ? r->wanted : mint_room_choose(r->model, r->rank, &s, r->limit);
    }
    MINT_TRY(alloc_buffers(r, &s, err));
    r->size = s;
    return 0;
}

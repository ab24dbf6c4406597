/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Hash tables of tokens and merges, and byte pair encoding of one piece (Sennrich et al. 2016): of
 * all neighbours that may merge, the pair of the lowest rank goes first, the leftmost among equals.
 * Short pieces scan an array of ranks; long ones keep a heap, so that a megabyte without a border
 * costs n log n.
 */
#include "tokenizer_impl.h"

#include <stdlib.h>
#include <string.h>

#include "mem.h"

#define NO_RANK UINT32_MAX
#define SHORT   64 /* bytes: up to here the scan wins */

/* --- tables. */
static uint32_t table_mask(size_t count)
{
    uint32_t cap = 16;
    while (cap < 2 * count)
        cap *= 2;
    return cap - 1;
}

void tok_index_build(struct mint_tokenizer *t, size_t count)
{
    t->index.mask = table_mask(count);
    t->index.slots = mint_xmalloc((t->index.mask + (size_t)1) * sizeof *t->index.slots);
    memset(t->index.slots, 0xff, (t->index.mask + (size_t)1) * sizeof *t->index.slots);
}

/* The slot that holds the bytes, or the empty one where they belong. */
static struct tok_slot *index_slot(const struct mint_tokenizer *t, const char *p, size_t n,
                                   bool raw, uint32_t hash)
{
    for (uint32_t i = hash & t->index.mask;; i = (i + 1) & t->index.mask) {
        struct tok_slot *s = &t->index.slots[i];
        if (s->id < 0)
            return s;
        const struct tok_entry *e = &t->entries[s->id];
        if (s->hash == hash && e->len == n && memcmp(t->blob.data + e->off, p, n) == 0 &&
            !(e->flags & TOK_RAW) == !raw)
            return s;
    }
}

int32_t tok_index_add(struct mint_tokenizer *t, int32_t id)
{
    const struct tok_entry *e = &t->entries[id];
    const char *p = t->blob.data + e->off;
    uint32_t hash = tok_hash(p, e->len);
    struct tok_slot *s = index_slot(t, p, e->len, e->flags & TOK_RAW, hash);
    if (s->id >= 0)
        return s->id;
    *s = (struct tok_slot){hash, id};
    t->longest = MINT_MAX(t->longest, (size_t)e->len);
    return -1;
}

int32_t tok_index_find(const struct mint_tokenizer *t, const char *p, size_t n, bool raw)
{
    return n > t->longest ? -1 : index_slot(t, p, n, raw, tok_hash(p, n))->id;
}

static uint32_t pair_hash(int32_t a, int32_t b)
{
    uint64_t h = ((uint64_t)(uint32_t)a << 32 | (uint32_t)b) * 0x9e3779b97f4a7c15u;
    return (uint32_t)(h >> 32) ^ (uint32_t)(h >> 15);
}

static struct tok_merge *merge_slot(const struct tok_merges *m, int32_t a, int32_t b)
{
    for (uint32_t i = pair_hash(a, b) & m->mask;; i = (i + 1) & m->mask) {
        struct tok_merge *s = &m->slots[i];
        if (s->a < 0 || (s->a == a && s->b == b))
            return s;
    }
}

void tok_merges_build(struct mint_tokenizer *t, const struct tok_merge *v, size_t n)
{
    t->merges.n = n;
    t->merges.mask = table_mask(n);
    t->merges.slots = mint_xmalloc((t->merges.mask + (size_t)1) * sizeof *t->merges.slots);
    memset(t->merges.slots, 0xff, (t->merges.mask + (size_t)1) * sizeof *t->merges.slots);
    for (size_t i = 0; i < n; i++) /* of equal pairs the last counts, as in the reference */
        *merge_slot(&t->merges, v[i].a, v[i].b) = v[i];
}

/* --- what one call to encode works with. */
struct cached { /* what a piece that is no token gave: 64 bytes */
    uint8_t len, n;
    char key[30];
    int32_t ids[8];
};
#define CACHE_SLOTS 4096

struct tok_work {
    const struct mint_tokenizer *t;
    struct cached *cache; /* NULL for short texts */
    size_t cap;           /* of the arrays below, for long pieces */
    int32_t *id;
    uint32_t *rank, *prev, *next;
    int32_t *merged;
    uint64_t *heap;
};

struct tok_work *tok_work_new(const struct mint_tokenizer *t, size_t text_bytes)
{
    struct tok_work *w = mint_xcalloc(1, sizeof *w);
    w->t = t;
    if (text_bytes >= 1024)
        w->cache = mint_xcalloc(CACHE_SLOTS, sizeof *w->cache);
    return w;
}

static void free_arrays(struct tok_work *w)
{
    free(w->id);
    free(w->rank);
    free(w->prev);
    free(w->next);
    free(w->merged);
    free(w->heap);
}

void tok_work_free(struct tok_work *w)
{
    if (!w)
        return;
    free_arrays(w);
    free(w->cache);
    free(w);
}

static uint32_t pair_rank(const struct mint_tokenizer *t, int32_t a, int32_t b, int32_t *merged)
{
    const struct tok_merge *m = merge_slot(&t->merges, a, b);
    if (m->a < 0)
        return NO_RANK;
    *merged = m->id;
    return m->rank;
}

/* ids[0..n) are bytes' tokens; the result is left there. Returns how many. */
static size_t merge_short(const struct mint_tokenizer *t, int32_t *id, size_t n)
{
    uint32_t rank[SHORT];
    int32_t merged[SHORT];
    for (size_t i = 0; i + 1 < n; i++)
        rank[i] = pair_rank(t, id[i], id[i + 1], &merged[i]);
    while (n > 1) {
        size_t best = 0;
        for (size_t i = 1; i + 1 < n; i++)
            if (rank[i] < rank[best])
                best = i;
        if (rank[best] == NO_RANK)
            break;
        id[best] = merged[best];
        size_t tail = n - best - 2; /* symbols behind the pair */
        memmove(id + best + 1, id + best + 2, tail * sizeof *id);
        if (tail) {
            memmove(rank + best + 1, rank + best + 2, (tail - 1) * sizeof *rank);
            memmove(merged + best + 1, merged + best + 2, (tail - 1) * sizeof *merged);
            rank[best] = pair_rank(t, id[best], id[best + 1], &merged[best]);
        }
        n--;
        if (best)
            rank[best - 1] = pair_rank(t, id[best - 1], id[best], &merged[best - 1]);
    }
    return n;
}

static void sift_down(uint64_t *h, size_t n, size_t i)
{
    uint64_t v = h[i];
    for (;;) {
        size_t c = 2 * i + 1;
        if (c >= n)
            break;
        if (c + 1 < n && h[c + 1] < h[c])
            c++;
        if (v <= h[c])
            break;
        h[i] = h[c];
        i = c;
    }
    h[i] = v;
}

static void heap_push(uint64_t *h, size_t *n, uint64_t v)
{
    size_t i = (*n)++;
    while (i && v < h[(i - 1) / 2]) {
        h[i] = h[(i - 1) / 2];
        i = (i - 1) / 2;
    }
    h[i] = v;
}

static void work_reserve(struct tok_work *w, size_t n)
{
    if (n <= w->cap)
        return;
    free_arrays(w);
    w->cap = n;
    w->id = mint_xreallocarray(NULL, n, sizeof *w->id);
    w->rank = mint_xreallocarray(NULL, n, sizeof *w->rank);
    w->prev = mint_xreallocarray(NULL, n, sizeof *w->prev);
    w->next = mint_xreallocarray(NULL, n, sizeof *w->next);
    w->merged = mint_xreallocarray(NULL, n, sizeof *w->merged);
    w->heap = mint_xreallocarray(NULL, n, 3 * sizeof *w->heap);
}

/* New pair at position i: its rank, and onto the heap. */
static void pair_at(struct tok_work *w, size_t n, uint32_t i, size_t *heap_n)
{
    w->rank[i] = NO_RANK;
    if (w->next[i] < n)
        w->rank[i] = pair_rank(w->t, w->id[i], w->id[w->next[i]], &w->merged[i]);
    if (w->rank[i] != NO_RANK)
        heap_push(w->heap, heap_n, (uint64_t)w->rank[i] << 32 | i);
}

/* The same as merge_short for w->id[0..n). A heap entry is (rank, position); it is stale when the
 * position has another rank by now. Each merge pushes two entries at most, so 3n entries are
 * enough. */
static size_t merge_long(struct tok_work *w, size_t n)
{
    size_t heap_n = 0;
    for (size_t i = 0; i < n; i++) {
        w->prev[i] = (uint32_t)i - 1;
        w->next[i] = (uint32_t)i + 1;
        w->rank[i] = NO_RANK;
        if (i + 1 < n)
            w->rank[i] = pair_rank(w->t, w->id[i], w->id[i + 1], &w->merged[i]);
        if (w->rank[i] != NO_RANK)
            w->heap[heap_n++] = (uint64_t)w->rank[i] << 32 | i;
    }
    for (size_t i = heap_n / 2; i-- > 0;)
        sift_down(w->heap, heap_n, i);
    while (heap_n) {
        uint32_t at = (uint32_t)w->heap[0], rank = (uint32_t)(w->heap[0] >> 32);
        w->heap[0] = w->heap[--heap_n];
        sift_down(w->heap, heap_n, 0);
        if (w->rank[at] != rank)
            continue;
        uint32_t gone = w->next[at];
        w->id[at] = w->merged[at];
        w->rank[gone] = NO_RANK;
        w->next[at] = w->next[gone];
        if (w->next[at] < n)
            w->prev[w->next[at]] = at;
        pair_at(w, n, at, &heap_n);
        if (at)
            pair_at(w, n, w->prev[at], &heap_n);
    }
    size_t count = 0;
    for (size_t i = 0; i < n; i = w->next[i])
        w->id[count++] = w->id[i];
    return count;
}

/* A byte without a token becomes the unknown token, or nothing where there is none: as the
 * reference has it. Returns how many. */
static size_t bytes_to_ids(const struct mint_tokenizer *t, const char *p, size_t n, int32_t *id)
{
    size_t count = 0;
    bool unknown = false;
    for (size_t i = 0; i < n; i++) {
        int32_t known = t->byte_id[(unsigned char)p[i]];
        bool fused = known < 0 && unknown && t->fuse_unk;
        unknown = known < 0;
        if (known < 0)
            known = t->unk;
        if (known >= 0 && !fused)
            id[count++] = known;
    }
    return count;
}

static void add_ids(struct mint_tokens *out, const int32_t *id, size_t n)
{
    for (size_t i = 0; i < n; i++)
        mint_tokens_add(out, id[i]);
}

static int merge_piece(struct tok_work *w, const char *p, size_t n, struct mint_tokens *out,
                       struct mint_err *err)
{
    int32_t small[SHORT], *id = small;
    if (n > UINT32_MAX / 2)
        return mint_fail(err, MINT_ESCHEMA, "a piece of %zu bytes is too long to tokenize", n);
    if (n > SHORT) {
        work_reserve(w, n);
        id = w->id;
    }
    size_t count = bytes_to_ids(w->t, p, n, id);
    add_ids(out, id, n > SHORT ? merge_long(w, count) : merge_short(w->t, id, count));
    return 0;
}

static struct cached *cache_slot(struct tok_work *w, const char *p, size_t n)
{
    if (!w->cache || n > sizeof w->cache->key)
        return NULL;
    return &w->cache[tok_hash(p, n) % CACHE_SLOTS];
}

int tok_bpe(struct tok_work *w, const char *p, size_t n, struct mint_tokens *out,
            struct mint_err *err)
{
    const struct mint_tokenizer *t = w->t;
    int32_t id = tok_index_find(t, p, n, false);
    if (id >= 0) {
        /* Racing threads write the same value. */
        uint8_t whole = __atomic_load_n(&t->whole[id], __ATOMIC_RELAXED);
        if (t->ignore_merges || whole == 1) {
            mint_tokens_add(out, id);
            return 0;
        }
    }
    struct cached *c = cache_slot(w, p, n);
    if (c && c->len == n && memcmp(c->key, p, n) == 0) {
        add_ids(out, c->ids, c->n);
        return 0;
    }
    size_t before = out->n;
    if (merge_piece(w, p, n, out, err))
        return -1;
    size_t count = out->n - before;
    if (id >= 0)
        __atomic_store_n(&t->whole[id], (uint8_t)(count == 1 && out->v[before] == id ? 1 : 2),
                         __ATOMIC_RELAXED);
    if (c && count <= MINT_ARRAY_LEN(c->ids)) {
        c->len = (uint8_t)n;
        c->n = (uint8_t)count;
        memcpy(c->key, p, n);
        memcpy(c->ids, out->v + before, count * sizeof *c->ids);
    }
    return 0;
}

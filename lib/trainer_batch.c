/* SPDX-License-Identifier: Apache-2.0 */
#include "trainer_batch.h"

#include <stdlib.h>

#include "mem.h"

bool mint_datum_counts(const struct mint_datum *d)
{
    for (size_t i = 0; i < d->n; i++)
        if (mint_datum_weight(d, i) != 0.0f)
            return true;
    return false;
}

/* Positions before the first one that counts: these may be shared. */
static int64_t unweighted(const struct mint_datum *d)
{
    size_t i = 0;
    while (i < d->n && mint_datum_weight(d, i) == 0.0f)
        i++;
    return (int64_t)i;
}

/* Whole pages of positions that a and b may share, at most limit positions; each keeps a row of its
 * own. */
static int64_t common(const struct mint_datum *a, const struct mint_datum *b, int64_t limit)
{
    int64_t longest = (int64_t)MINT_MIN(a->n, b->n) - 1, i = 0;
    int64_t n = MINT_MIN(limit, MINT_MIN(longest, unweighted(b)));
    while (i < n && a->input[i] == b->input[i])
        i++;
    return i / MINT_KV_PAGE * MINT_KV_PAGE;
}

size_t mint_family(const struct mint_datum *const *d, size_t n, int64_t *shared)
{
    int64_t first = unweighted(d[0]), rows = (int64_t)d[0]->n;
    size_t k = 1;
    *shared = n > 1 ? common(d[0], d[1], first) : 0;
    if (!*shared)
        return 1;
    for (; k < n && common(d[0], d[k], *shared) == *shared; k++) {
        rows += (int64_t)d[k]->n - *shared;
        if (rows > MINT_FAMILY_ROWS)
            break;
    }
    if (k == 1)
        *shared = 0;
    return k;
}

/* The next family, or one datum by itself where nothing is shared. */
static size_t next_family(const struct mint_datum *const *d, size_t n, bool all, int64_t *shared)
{
    *shared = 0;
    return all ? 1 : mint_family(d, n, shared);
}

static int64_t family_rows(const struct mint_datum *const *d, size_t members, int64_t shared)
{
    int64_t rows = shared;
    for (size_t i = 0; i < members; i++)
        rows += (int64_t)d[i]->n - shared;
    return rows;
}

size_t mint_pack_fit(const struct mint_datum *const *d, size_t n, int64_t limit, bool all)
{
    size_t k = 0;
    int64_t T = 0, shared;
    while (k < n) {
        size_t members = next_family(d + k, n - k, all, &shared);
        int64_t rows = family_rows(d + k, members, shared);
        if (k && T + rows > limit)
            break;
        T += rows;
        k += members;
    }
    return k;
}

static int64_t pages_of(int64_t positions)
{
    return (positions + MINT_KV_PAGE - 1) / MINT_KV_PAGE;
}

/* Sizes of everything, before anything is laid out. */
static void measure(struct mint_pack *p, bool all, size_t *entries)
{
    int64_t shared;
    for (size_t k = 0, members; k < p->n; k += members) {
        members = next_family(p->d + k, p->n - k, all, &shared);
        p->T += family_rows(p->d + k, members, shared);
        p->pages_n += shared / MINT_KV_PAGE;
        *entries += (size_t)(shared / MINT_KV_PAGE);
        for (size_t i = 0; i < members; i++) {
            p->pages_n += pages_of((int64_t)p->d[k + i]->n - shared);
            *entries += (size_t)pages_of((int64_t)p->d[k + i]->n);
        }
    }
}

static void allocate(struct mint_pack *p, size_t entries)
{
    size_t T = (size_t)p->T;
    p->ids = mint_xcalloc(T, sizeof *p->ids);
    p->pos = mint_xcalloc(T, sizeof *p->pos);
    p->page_of_row = mint_xcalloc(T, sizeof *p->page_of_row);
    p->page_list = mint_xcalloc(entries, sizeof *p->page_list);
    p->seqs = mint_xcalloc(2 * p->n, sizeof *p->seqs);
    p->first_row = mint_xcalloc(p->n, sizeof *p->first_row);
    p->first_pos = mint_xcalloc(p->n, sizeof *p->first_pos);
    p->hrow = mint_xcalloc(T, sizeof *p->hrow);
    p->target = mint_xcalloc(T, sizeof *p->target);
    p->hfirst = mint_xcalloc(p->n + 1, sizeof *p->hfirst);
    p->leaf_row = mint_xcalloc(p->n + 1, sizeof *p->leaf_row);
    p->leaf_hrow = mint_xcalloc(p->n + 1, sizeof *p->leaf_hrow);
}

/* Where the packing stands. */
struct cursor {
    int64_t row, page;
    int32_t *list; /* next free entry of page_list */
};

/* Rows of positions from..to-1 of d, as one sequence; its first pages are those of begin (from /
 * PAGE of them). */
static void add_sequence(struct mint_pack *p, struct cursor *c, const struct mint_datum *d,
                         int64_t from, int64_t to, const int32_t *begin)
{
    int64_t whole = from / MINT_KV_PAGE, n = pages_of(to);
    p->seqs[p->nseqs++] = (struct mint_seq){c->row, to - from, from, c->list};
    for (int64_t i = 0; i < n; i++)
        c->list[i] = i < whole ? begin[i] : (int32_t)(c->page++);
    for (int64_t i = from; i < to; i++, c->row++) {
        p->ids[c->row] = d->input[i];
        p->pos[c->row] = (int32_t)i;
        p->page_of_row[c->row] = c->list[i / MINT_KV_PAGE];
    }
    c->list += n;
}

/* Own rows of datum k, and which of them are wanted. */
static void add_datum(struct mint_pack *p, struct cursor *c, size_t k, int64_t shared,
                      const int32_t *begin, bool all, int32_t vocab)
{
    const struct mint_datum *d = p->d[k];
    p->first_row[k] = c->row;
    p->first_pos[k] = shared;
    p->hfirst[k] = p->hn;
    add_sequence(p, c, d, shared, (int64_t)d->n, begin);
    for (int64_t i = shared; i < (int64_t)d->n; i++) {
        int32_t target = d->target[i];
        bool wanted = all ? target >= 0 && target < vocab : mint_datum_weight(d, (size_t)i) != 0.0f;
        if (!wanted)
            continue;
        p->hrow[p->hn] = (int32_t)(p->first_row[k] + i - shared);
        p->target[p->hn++] = target;
    }
}

void mint_pack_build(struct mint_pack *p, const struct mint_datum *const *d, size_t n, bool all,
                     int32_t vocab)
{
    size_t entries = 0;
    int64_t shared;
    *p = (struct mint_pack){.d = d, .n = n};
    measure(p, all, &entries);
    allocate(p, entries);
    struct cursor c = {0, 0, p->page_list};
    for (size_t k = 0, members; k < n; k += members) {
        const int32_t *begin = c.list;
        members = next_family(d + k, n - k, all, &shared);
        if (shared)
            add_sequence(p, &c, d[k], 0, shared, NULL);
        for (size_t i = 0; i < members; i++)
            add_datum(p, &c, k + i, shared, begin, all, vocab);
        p->leaf_row[++p->nleaves] = c.row;
        p->leaf_hrow[p->nleaves] = p->hn;
    }
    p->hfirst[n] = p->hn;
}

void mint_pack_release(struct mint_pack *p)
{
    free(p->ids);
    free(p->pos);
    free(p->page_of_row);
    free(p->page_list);
    free(p->seqs);
    free(p->first_row);
    free(p->first_pos);
    free(p->hrow);
    free(p->target);
    free(p->hfirst);
    free(p->leaf_row);
    free(p->leaf_hrow);
    *p = (struct mint_pack){0};
}

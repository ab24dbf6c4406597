/* SPDX-License-Identifier: Apache-2.0 */
#include "trainer_batch.h"

#include <stdlib.h>

#include "mem.h"

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

static bool is_idle(const bool *idle, size_t k)
{
    return idle && idle[k];
}

static bool all_idle(const bool *idle, size_t from, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (!is_idle(idle, from + i))
            return false;
    return true;
}

/* Of n rows of an idle datum, those that stay; n > 0. */
static int64_t left_behind(int64_t n)
{
    return n % 2 ? 1 : 2;
}

static int64_t wanted_left(const struct mint_datum *d)
{
    int64_t n = 0;
    for (size_t i = 0; i < d->n; i++)
        n += mint_datum_weight(d, i) != 0.0f;
    return left_behind(n);
}

/* Rows of a member's own. The wanted ones that an idle datum leaves are the first of them. */
static int64_t own_rows(const struct mint_datum *d, int64_t shared, bool idle)
{
    int64_t own = (int64_t)d->n - shared;
    if (!idle)
        return own;
    return left_behind(own) < wanted_left(d) ? 3 : left_behind(own);
}

/* Rows of the family d[from..from+members). */
static int64_t family_rows(const struct mint_datum *const *d, const bool *idle, size_t from,
                           size_t members, int64_t shared)
{
    int64_t rows = shared;
    if (all_idle(idle, from, members))
        return 0;
    for (size_t i = from; i < from + members; i++)
        rows += own_rows(d[i], shared, is_idle(idle, i));
    return rows;
}

size_t mint_pack_fit(const struct mint_datum *const *d, const bool *idle, size_t n, int64_t limit,
                     bool all)
{
    size_t k = 0;
    int64_t T = 0, shared;
    while (k < n) {
        size_t members = next_family(d + k, n - k, all, &shared);
        int64_t rows = family_rows(d, idle, k, members, shared);
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
        p->families++;
        if (all_idle(p->idle, k, members))
            continue;
        p->T += family_rows(p->d, p->idle, k, members, shared);
        p->pages_n += shared / MINT_KV_PAGE;
        *entries += (size_t)(shared / MINT_KV_PAGE);
        for (size_t i = k; i < k + members; i++) {
            int64_t own = own_rows(p->d[i], shared, is_idle(p->idle, i));
            p->pages_n += pages_of(own);
            *entries += (size_t)pages_of(shared + own);
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
    p->leaf_number = mint_xcalloc(p->n, sizeof *p->leaf_number);
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

static bool is_wanted(const struct mint_datum *d, size_t i, bool all, int32_t vocab)
{
    if (all)
        return d->target[i] >= 0 && d->target[i] < vocab;
    return mint_datum_weight(d, i) != 0.0f;
}

/* Own rows of datum k, and which of them are wanted. */
static void add_datum(struct mint_pack *p, struct cursor *c, size_t k, int64_t shared,
                      const int32_t *begin, bool all, int32_t vocab)
{
    const struct mint_datum *d = p->d[k];
    bool idle = is_idle(p->idle, k);
    int64_t end = shared + own_rows(d, shared, idle);
    int64_t left = idle ? shared + wanted_left(d) : 0;
    p->first_row[k] = c->row;
    p->first_pos[k] = shared;
    p->hfirst[k] = p->hn;
    if (end > shared)
        add_sequence(p, c, d, shared, end, begin);
    for (int64_t i = shared; i < end; i++) {
        if (!(idle ? i < left : is_wanted(d, (size_t)i, all, vocab)))
            continue;
        p->hrow[p->hn] = (int32_t)(p->first_row[k] + i - shared);
        p->target[p->hn++] = d->target[i];
    }
}

static void add_family(struct mint_pack *p, struct cursor *c, size_t k, size_t members,
                       int64_t shared, bool all, int32_t vocab)
{
    const int32_t *begin = c->list;
    if (shared)
        add_sequence(p, c, p->d[k], 0, shared, NULL);
    for (size_t i = k; i < k + members; i++)
        add_datum(p, c, i, shared, begin, all, vocab);
}

void mint_pack_build(struct mint_pack *p, const struct mint_datum *const *d, const bool *idle,
                     size_t n, bool all, int32_t vocab, int64_t first)
{
    size_t entries = 0;
    int64_t shared, number = first;
    *p = (struct mint_pack){.d = d, .idle = idle, .n = n};
    measure(p, all, &entries);
    allocate(p, entries);
    struct cursor c = {0, 0, p->page_list};
    for (size_t k = 0, members; k < n; k += members, number++) {
        members = next_family(d + k, n - k, all, &shared);
        if (all_idle(idle, k, members)) {
            for (size_t i = k; i < k + members; i++)
                p->hfirst[i] = p->hn;
            continue;
        }
        add_family(p, &c, k, members, shared, all, vocab);
        p->leaf_number[p->nleaves] = number;
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
    free(p->leaf_number);
    *p = (struct mint_pack){0};
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cpu_sample.c: draws from rows of logits. Nothing is sorted but the few ids around the place where
 * top-k or top-p cuts: the ids are counted and weighed in BINS intervals of the logit, and only the
 * interval with the cut is put in order.
 */
#include "cpu_head.h"
#include "cpu_ops.h"

#include "../mem.h"

#include <stdlib.h>

#define BINS 1024
#define MAX_BLOCK \
    64 /* the greatest of so many neighbours stands for them when top-k looks for a bound */

enum flaw { FINE, NOT_FINITE, NOTHING_TO_DRAW };

struct sample {
    struct cpu_dev *d;
    const float *logits;
    int64_t ldl, S, V;
    const struct mint_draw *draws;
    struct mint_drawn *out;
    unsigned char *flaws;
};

/* One row at work. */
struct row {
    const struct cpu_rows *rows;
    const float *x;
    int64_t n;     /* ids below may be drawn */
    float *y, *w;  /* (x - max) / temperature, e^y */
    float *sums;   /* of w, by chunk */
    double total;  /* of the kept ids */
    int32_t *kept; /* ascending */
    int64_t kept_n;
    int32_t *bin_ids;
    int32_t *count; /* [BINS] */
    double *mass;   /* [BINS] */
};

static struct row row_of(const struct sample *s, int thread, const float *x, int64_t n)
{
    const size_t chunks = (size_t)(s->V + HEAD_CHUNK - 1) / HEAD_CHUNK, v = (size_t)s->V;
    double *mass = cpu_scratch(
        s->d, thread, BINS * (sizeof(double) + sizeof(int32_t)) + (4 * v + chunks) * sizeof(float));
    struct row r = {.rows = s->d->isa->rows, .x = x, .n = n, .mass = mass};

    r.count = (int32_t *)(void *)(mass + BINS);
    r.kept = r.count + BINS;
    r.bin_ids = r.kept + v;
    r.y = (float *)(void *)(r.bin_ids + v);
    r.w = r.y + v;
    r.sums = r.w + v;
    return r;
}

/* The order in which top-k and top-p keep: the greater logit, then the lower id. */
static bool before(const float *x, int32_t a, int32_t b)
{
    return x[a] > x[b] || (x[a] == x[b] && a < b);
}

static void sift(const float *x, int32_t *heap, int64_t n, int64_t i)
{
    const int32_t id = heap[i];

    for (int64_t c; (c = 2 * i + 1) < n; i = c) {
        if (c + 1 < n && before(x, heap[c], heap[c + 1]))
            c++;
        if (!before(x, id, heap[c]))
            break;
        heap[i] = heap[c];
    }
    heap[i] = id;
}

/* Heap sort: the last in the order is at the root and goes to the end. */
static void sort_ids(const float *x, int32_t *ids, int64_t n)
{
    for (int64_t i = n / 2; i-- > 0;)
        sift(x, ids, n, i);
    for (int64_t m = n; m-- > 1;) {
        const int32_t id = ids[0];

        ids[0] = ids[m];
        ids[m] = id;
        sift(x, ids, m, 0);
    }
}

static int bin_of(const struct row *r, float per_y, int32_t id)
{
    const float b = -r->y[id] * per_y;

    return b < (float)(BINS - 1) ? (int)b : BINS - 1;
}

/* Counts and weighs the kept ids by bin; returns bins per unit of y. */
static float fill_bins(struct row *r)
{
    float least = 0.0f, per_y;

    for (int64_t i = 0; i < r->kept_n; i++) {
        const float y = r->y[r->kept[i]];

        least = y < least && y > -128.0f ? y : least;
    }
    per_y = least < 0.0f ? (float)BINS / -least : 0.0f;
    memset(r->count, 0, BINS * sizeof *r->count);
    for (int i = 0; i < BINS; i++)
        r->mass[i] = 0.0;
    for (int64_t i = 0; i < r->kept_n; i++) {
        const int b = bin_of(r, per_y, r->kept[i]);

        r->count[b]++;
        r->mass[b] += (double)r->w[r->kept[i]];
    }
    return per_y;
}

/* Keeps the ids that come no later than last. */
static void cut_after(struct row *r, int32_t last)
{
    int64_t n = 0;

    r->total = 0.0;
    for (int64_t i = 0; i < r->kept_n; i++)
        if (!before(r->x, last, r->kept[i])) {
            r->kept[n++] = r->kept[i];
            r->total += (double)r->w[r->kept[i]];
        }
    r->kept_n = n;
}

/* Of the kept ids, the first in order that are at least k or weigh at least mass, whichever comes
 * first. */
static void keep_first(struct row *r, int64_t k, double mass)
{
    const float per_y = fill_bins(r);
    int64_t before_n = 0, n = 0;
    double sum = 0.0;
    int b = 0;

    while (b < BINS - 1 && before_n + r->count[b] < k && sum + r->mass[b] < mass) {
        before_n += r->count[b];
        sum += r->mass[b++];
    }
    for (int64_t i = 0; i < r->kept_n; i++)
        if (bin_of(r, per_y, r->kept[i]) == b)
            r->bin_ids[n++] = r->kept[i];
    if (n == 0) /* all were needed, but for rounding */
        r->bin_ids[n++] = r->kept[r->kept_n - 1];
    sort_ids(r->x, r->bin_ids, n);
    for (int64_t i = 0; i < n; i++) {
        sum += (double)r->w[r->bin_ids[i]];
        if (before_n + i + 1 >= k || sum >= mass || i + 1 == n) {
            cut_after(r, r->bin_ids[i]);
            return;
        }
    }
}

/* The k-th greatest of v[n], which is shuffled: quickselect. */
static float kth_greatest(float *v, int64_t n, int64_t k)
{
    int64_t lo = 0, hi = n - 1;

    while (lo < hi) {
        const float pivot = v[lo + (hi - lo) / 2];
        int64_t i = lo, j = hi;

        while (i <= j) {
            while (v[i] > pivot)
                i++;
            while (v[j] < pivot)
                j--;
            if (i <= j) {
                const float t = v[i];

                v[i++] = v[j];
                v[j--] = t;
            }
        }
        if (k - 1 <= j)
            hi = j;
        else if (k - 1 >= i)
            lo = i;
        else
            break;
    }
    return v[k - 1];
}

/* Logits at least this great are k or more. */
static float top_k_bound(struct row *r, int64_t k)
{
    const int64_t blocks = (r->n + MAX_BLOCK - 1) / MAX_BLOCK;
    float *top = (float *)(void *)r->bin_ids;

    if (k > blocks)
        return -INFINITY;
    for (int64_t i = 0; i < blocks; i++)
        top[i] = r->rows->max(r->x + i * MAX_BLOCK, MINT_MIN(MAX_BLOCK, r->n - i * MAX_BLOCK));
    return kth_greatest(top, blocks, k);
}

static void filter(struct row *r, const struct mint_draw *draw)
{
    const bool top_k = draw->top_k > 0 && draw->top_k < r->n;

    if (top_k) {
        r->kept_n = r->rows->at_least(r->kept, r->x, r->n, top_k_bound(r, draw->top_k), 0);
        keep_first(r, draw->top_k, HUGE_VAL);
    } else {
        /* Ids lighter than this weigh too little together to be needed (0.999: rounding). */
        const double light = (1.0 - (double)draw->top_p) * r->total / (double)r->n * 0.999;

        r->kept_n = r->rows->at_least(r->kept, r->w, r->n, (float)light, 0);
    }
    if (draw->top_p < 1.0f)
        keep_first(r, r->kept_n, (double)draw->top_p * r->total);
}

static void weigh(struct row *r, float max, float temperature)
{
    const float inv = MINT_MIN(1.0f / temperature, 1e30f);

    r->total = 0.0;
    for (int64_t i = 0; i < r->n; i += HEAD_CHUNK) {
        const float sum = r->rows->weights(r->y + i, r->w + i, r->x + i, max, inv,
                                           MINT_MIN(HEAD_CHUNK, r->n - i));

        r->sums[i / HEAD_CHUNK] = sum;
        r->total += (double)sum;
    }
}

static int32_t pick_kept(const struct row *r, double u)
{
    double sum = 0.0;
    int32_t id = r->kept[0];

    for (int64_t i = 0; i < r->kept_n; i++) {
        sum += (double)r->w[r->kept[i]];
        if (r->w[r->kept[i]] > 0.0f)
            id = r->kept[i];
        if (sum > u * r->total)
            break;
    }
    return id;
}

static int32_t pick_any(const struct row *r, double u)
{
    const double goal = u * r->total;
    double sum = 0.0;
    int64_t c = 0, id;

    while ((c + 1) * HEAD_CHUNK < r->n && !(sum + (double)r->sums[c] > goal))
        sum += (double)r->sums[c++];
    id = c * HEAD_CHUNK;
    for (int64_t i = id; i < MINT_MIN(r->n, (c + 1) * HEAD_CHUNK); i++) {
        sum += (double)r->w[i];
        if (r->w[i] > 0.0f)
            id = i;
        if (sum > goal)
            break;
    }
    return (int32_t)id;
}

static int32_t first_equal(const float *x, int64_t n, float v)
{
    int64_t i = 0;

    while (i < n - 1 && x[i] != v)
        i++;
    return (int32_t)i;
}

static bool unfiltered(const struct mint_draw *draw, int64_t n)
{
    return draw->top_p >= 1.0f && (draw->top_k <= 0 || draw->top_k >= n);
}

static void draw_row(struct row *r, struct mint_drawn *out, const struct mint_draw *draw, float max)
{
    const bool plain = unfiltered(draw, r->n);

    if (!(draw->temperature > 0.0f)) {
        out->id = first_equal(r->x, r->n, max);
        out->behavior = 0.0f;
        return;
    }
    weigh(r, max, draw->temperature);
    if (!plain)
        filter(r, draw);
    out->id = plain ? pick_any(r, (double)draw->u) : pick_kept(r, (double)draw->u);
    out->behavior = r->y[out->id] - cpu_log((float)r->total);
}

static void sample_item(void *ctx, int64_t i, int thread)
{
    const struct sample *s = ctx;
    const struct mint_draw *draw = &s->draws[i];
    const float *x = s->logits + i * s->ldl;
    const int64_t n = draw->vocab > 0 ? MINT_MIN((int64_t)draw->vocab, s->V) : s->V;
    struct cpu_chunk whole = {-INFINITY, 0.0f, 0.0f};
    struct mint_drawn *out = &s->out[i];
    struct row r = row_of(s, thread, x, n);
    float max;

    for (int64_t v = 0; v < s->V; v += HEAD_CHUNK) {
        struct cpu_chunk c;

        r.rows->chunk(&c, x + v, MINT_MIN(HEAD_CHUNK, s->V - v), false);
        cpu_chunk_add(&whole, &c);
    }
    if (!(whole.sum < INFINITY && whole.max < INFINITY)) {
        s->flaws[i] = NOT_FINITE;
        return;
    }
    max = r.rows->max(x, n);
    if (max == -INFINITY) {
        s->flaws[i] = NOTHING_TO_DRAW;
        return;
    }
    draw_row(&r, out, draw, max);
    out->logprob = cpu_chunk_logprob(&whole, x[out->id]);
    if (n == s->V && draw->temperature == 1.0f && unfiltered(draw, n))
        out->behavior = out->logprob; /* the same distribution, and so the same bits */
}

int cpu_sample(struct mint_dev *d, struct mint_drawn *out, const float *logits, int64_t ldl,
               const struct mint_draw *draws, int64_t S, int64_t V, struct mint_err *err)
{
    struct sample s = {.d = cpu_dev(d),
                       .logits = logits,
                       .ldl = ldl,
                       .S = S,
                       .V = V,
                       .draws = draws,
                       .out = out,
                       .flaws = mint_xcalloc((size_t)S + 1, 1)};
    int rc = 0;

    cpu_parallel(s.d, S, sample_item, &s);
    for (int64_t i = 0; i < S && rc == 0; i++)
        if (s.flaws[i] == NOT_FINITE)
            rc =
                mint_fail(err, MINT_EDEVICE, "the logits of row %lld are not finite", (long long)i);
        else if (s.flaws[i] == NOTHING_TO_DRAW)
            rc = mint_fail(err, MINT_EDEVICE, "every token of row %lld has probability 0",
                           (long long)i);
    free(s.flaws);
    return rc;
}

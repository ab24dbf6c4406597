/* SPDX-License-Identifier: Apache-2.0 */
/* Pairs of a better and a worse sequence of a group. */
#include <string.h>

#include "advantage.h"

const char *const mint_adv_pairs_names[] = {"none", "best-worst", "all", NULL};

static double reward(const struct mint_group *g, const struct mint_adv_seq *seqs, size_t i)
{
    return g->seqs[i].reward + seqs[i].penalty;
}

static bool same_tokens(const struct mint_sequence *a, const struct mint_sequence *b)
{
    return a->n == b->n && a->tokens_raw.n == b->tokens_raw.n &&
           !memcmp(a->tokens_raw.p, b->tokens_raw.p, a->tokens_raw.n);
}

enum verdict { PAIR, TIED, SAME, CLOSE };

/* Of i, which is not the worse one, and j. */
static enum verdict compare(const struct mint_adv_opts *o, const struct mint_group *g,
                            const struct mint_adv_seq *seqs, size_t i, size_t j)
{
    double margin = reward(g, seqs, i) - reward(g, seqs, j);
    if (margin == 0)
        return TIED;
    if (same_tokens(&g->seqs[i], &g->seqs[j]))
        return SAME;
    return margin < o->min_margin ? CLOSE : PAIR;
}

static bool is_pair(const struct mint_adv_opts *o, const struct mint_group *g,
                    const struct mint_adv_seq *seqs, size_t i, size_t j)
{
    return seqs[i].fate == MINT_ADV_KEPT && seqs[j].fate == MINT_ADV_KEPT &&
           reward(g, seqs, i) > reward(g, seqs, j) && compare(o, g, seqs, i, j) == PAIR;
}

bool mint_adv_pair_next(const struct mint_adv_opts *o, const struct mint_group *g,
                        const struct mint_adv_seq *seqs, struct mint_adv_pair *p)
{
    bool begun = p->chosen < g->nseqs;
    size_t i = begun ? p->chosen : 0, j = begun ? p->rejected + 1 : 0;
    for (; i < g->nseqs; i++, j = 0) {
        for (; j < g->nseqs; j++) {
            if (!is_pair(o, g, seqs, i, j))
                continue;
            *p = (struct mint_adv_pair){i, j, reward(g, seqs, i) - reward(g, seqs, j)};
            return true;
        }
    }
    return false;
}

/* Keeps the first of the best and the first of the worst in of[0..n). */
static size_t extremes(const struct mint_group *g, const struct mint_adv_seq *seqs, size_t *of,
                       size_t n)
{
    size_t best = of[0], worst = of[0];
    for (size_t k = 1; k < n; k++) {
        if (reward(g, seqs, of[k]) > reward(g, seqs, best))
            best = of[k];
        if (reward(g, seqs, of[k]) < reward(g, seqs, worst))
            worst = of[k];
    }
    of[0] = best;
    of[1] = worst;
    return 2;
}

/* Two sequences: counts what becomes of them; those of a pair are KEPT. */
static void match(const struct mint_adv_opts *o, const struct mint_group *g,
                  struct mint_adv_seq *out, size_t i, size_t j, struct mint_adv_stats *s)
{
    if (reward(g, out, i) < reward(g, out, j)) {
        size_t t = i;
        i = j;
        j = t;
    }
    switch (compare(o, g, out, i, j)) {
    case PAIR:
        s->pairs++;
        s->margin_sum += reward(g, out, i) - reward(g, out, j);
        s->datum_tokens += mint_sequence_sampled(&g->seqs[i]) + mint_sequence_sampled(&g->seqs[j]);
        out[i].fate = out[j].fate = MINT_ADV_KEPT;
        break;
    case TIED:
        s->pairs_tied++;
        break;
    case SAME:
        s->pairs_same++;
        break;
    case CLOSE:
        s->pairs_close++;
        break;
    }
}

void mint_advantage_pairs(const struct mint_adv_opts *o, struct mint_reader *r,
                          const struct mint_group *g, struct mint_adv_seq *out,
                          struct mint_adv_stats *s)
{
    size_t n = 0, *of = mint_arena_alloc(&r->arena, (g->nseqs + 1) * sizeof(*of));
    bool flat = true;
    for (size_t i = 0; i < g->nseqs; i++) {
        if (out[i].fate != MINT_ADV_KEPT)
            continue;
        of[n++] = i;
        flat &= reward(g, out, i) == reward(g, out, of[0]);
    }
    s->few_groups += n < 2;
    s->flat_groups += n >= 2 && flat;
    for (size_t k = 0; k < n; k++)
        out[of[k]].fate = n < 2 ? MINT_ADV_FEW : flat ? MINT_ADV_FLAT : MINT_ADV_UNPAIRED;
    if (n >= 2 && o->pairs == MINT_PAIRS_BEST_WORST)
        n = extremes(g, out, of, n);
    for (size_t k = 0; k < n; k++) {
        for (size_t m = k + 1; m < n; m++)
            match(o, g, out, of[k], of[m], s);
    }
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Scorers of a response's shape, made to be added to others:
 *   overlong     0, falling to -1 over the last B tokens before the limit (DAPO's soft overlong
 *                punishment, Yu and others 2025, arXiv:2503.14476, equation 13)
 *   repetition   minus the share of n-grams that were there before
 */
#include <stdlib.h>
#include <string.h>

#include "mem.h"
#include "score.h"

/* --- overlong */

struct overlong {
    struct mint_score_opts o;
    bool dapo; /* as MinT's dapo-aime clamps it */
};

static int open_overlong(const struct mint_score_opts *o, void **state, struct mint_err *err)
{
    if (o->style && strcmp(o->style, "dapo") != 0)
        return mint_fail(err, MINT_EUSAGE, "overlong has no --style %.100s, only dapo", o->style);
    if (o->buffer < 0)
        return mint_fail(err, MINT_EUSAGE,
                         "overlong needs --buffer: the penalty grows over so many tokens before "
                         "the limit");
    struct overlong *c = mint_xcalloc(1, sizeof(*c));
    c->o = *o;
    c->dapo = o->style != NULL;
    *state = c;
    return 0;
}

/* --max, else the limit that the record was sampled with. */
static int limit_of(const struct overlong *c, const struct mint_score_task *t, int64_t *max,
                    struct mint_err *err)
{
    *max = c->o.max;
    if (*max >= 0)
        return 0;
    if (mint_json_int(t->doc, mint_json_get(t->doc, t->group->sampling, "max_tokens"), max) &&
        *max >= 0)
        return 0;
    return mint_fail(err, MINT_ESCHEMA,
                     "the record does not say its sampling.max_tokens: give the limit with --max");
}

static int score_overlong(void *state, const struct mint_score_task *t, struct mint_score *out,
                          struct mint_err *err)
{
    const struct overlong *c = state;
    const struct mint_sequence *s = &t->group->seqs[t->index];
    int64_t max, n = (int64_t)s->n, buffer = c->o.buffer;
    if (!s->tokens_raw.p)
        return mint_fail(err, MINT_ESCHEMA, "sequences[%zu].tokens is missing: nothing to count",
                         t->index);
    MINT_TRY(limit_of(c, t, &max, err));
    buffer = MINT_MIN(buffer, max);
    double v = 0;
    if (buffer > 0 && n > max - buffer)
        v = (double)(max - buffer - n) / (double)buffer;
    bool over = n > max && !(c->dapo && buffer <= 0);
    if (over)
        v = c->dapo ? 0 : -1;
    out->clears = over && c->dapo;
    out->value = v;
    mint_buf_adds(&out->detail, "\"length\":");
    mint_json_put_int(&out->detail, n);
    mint_buf_adds(&out->detail, ",\"max\":");
    mint_json_put_int(&out->detail, max);
    if (over)
        mint_buf_adds(&out->detail, ",\"over\":true");
    return 0;
}

const struct mint_scorer mint_scorer_overlong = {
    .name = "overlong",
    .summary = "0, falling to -1 over the last --buffer tokens before the limit",
    .open = open_overlong,
    .score = score_overlong,
    .close = free,
};

/* --- repetition */

struct word {
    const char *p;
    size_t n;
};

static int compare_words(const void *a, const void *b)
{
    const struct word *x = *(const struct word *const *)a, *y = *(const struct word *const *)b;
    int c = memcmp(x->p, y->p, MINT_MIN(x->n, y->n));
    return c ? c : (x->n > y->n) - (x->n < y->n);
}

/* Words or characters as numbers: equal texts have equal ones. */
static size_t number_pieces(const char *text, size_t len, enum mint_score_unit unit, int32_t **ids)
{
    size_t n = 0, cap = 0, at = 0, from, k;
    struct word *w = NULL;
    for (;; n++) {
        if (unit == MINT_SCORE_WORDS) {
            if (!mint_text_word(text, len, &at, &from, &k))
                break;
        } else {
            from = at;
            if (at++ >= len)
                break;
            while (at < len && ((unsigned char)text[at] & 0xc0) == 0x80)
                at++;
            k = at - from;
        }
        if (n == cap) {
            cap = cap ? 2 * cap : 256;
            w = mint_xreallocarray(w, cap, sizeof(*w));
        }
        w[n] = (struct word){text + from, k};
    }
    struct word **order = mint_xcalloc(n + 1, sizeof(*order));
    *ids = mint_xcalloc(n + 1, sizeof(**ids));
    for (size_t i = 0; i < n; i++)
        order[i] = &w[i];
    qsort(order, n, sizeof(*order), compare_words);
    int32_t id = 0;
    for (size_t i = 0; i < n; i++) {
        id += i && compare_words(&order[i - 1], &order[i]) != 0;
        (*ids)[order[i] - w] = id;
    }
    free(order);
    free(w);
    return n;
}

/* The numbers of a checked JSON array of token ids. */
static size_t read_tokens(const struct mint_sequence *s, int32_t **ids)
{
    size_t n = 0;
    *ids = mint_xcalloc(s->n + 1, sizeof(**ids));
    const char *p = s->tokens_raw.p, *end = p + s->tokens_raw.n;
    while (p < end && n < s->n) {
        if (*p < '0' || *p > '9') {
            p++;
            continue;
        }
        uint32_t v = 0;
        for (; p < end && *p >= '0' && *p <= '9'; p++)
            v = v * 10 + (uint32_t)(*p - '0');
        (*ids)[n++] = (int32_t)v;
    }
    return n;
}

static int compare_ngrams(const void *a, const void *b, void *size)
{
    return memcmp(*(const int32_t *const *)a, *(const int32_t *const *)b, *(const size_t *)size);
}

static size_t count_unique(const int32_t *ids, size_t m, size_t ngram)
{
    size_t bytes = ngram * sizeof(*ids), unique = m > 0;
    const int32_t **at = mint_xcalloc(m + 1, sizeof(*at));
    for (size_t i = 0; i < m; i++)
        at[i] = ids + i;
    qsort_r(at, m, sizeof(*at), compare_ngrams, &bytes);
    for (size_t i = 1; i < m; i++)
        unique += memcmp(at[i - 1], at[i], bytes) != 0;
    free(at);
    return unique;
}

static int score_repetition(void *state, const struct mint_score_task *t, struct mint_score *out,
                            struct mint_err *err)
{
    const struct mint_score_opts *o = state;
    const struct mint_sequence *s = &t->group->seqs[t->index];
    size_t n, len, ngram = (size_t)o->ngram;
    const char *text;
    int32_t *ids;
    if (o->unit == MINT_SCORE_TOKENS) {
        if (!s->tokens_raw.p)
            return mint_fail(err, MINT_ESCHEMA,
                             "sequences[%zu].tokens is missing: use --unit words", t->index);
        n = read_tokens(s, &ids);
    } else {
        MINT_TRY(mint_score_response(t, &text, &len, err));
        n = number_pieces(text, len, o->unit, &ids);
    }
    size_t m = n >= ngram ? n - ngram + 1 : 0, unique = count_unique(ids, m, ngram);
    free(ids);
    out->value = m ? -(double)(m - unique) / (double)m : 0;
    if (unique == m)
        out->value = 0; /* and not -0 */
    mint_buf_addf(&out->detail, "\"ngrams\":%zu,\"unique\":%zu", m, unique);
    return 0;
}

const struct mint_scorer mint_scorer_repetition = {
    .name = "repetition",
    .summary = "minus the share of n-grams that the response had before",
    .open = mint_score_take_opts,
    .score = score_repetition,
    .close = free,
};

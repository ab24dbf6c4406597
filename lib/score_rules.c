/* SPDX-License-Identifier: Apache-2.0 */
/* The scorers that compare text or measure it: exact, number, length, heuristic. */
#include <stdlib.h>
#include <string.h>

#include <utf8proc.h>

#include "mem.h"
#include "num.h"
#include "score.h"

static void put_verdict(struct mint_score *out, bool right)
{
    out->value = right ? 1 : 0;
    mint_buf_adds(&out->detail, "\"answer\":");
    if (out->has_answer)
        mint_json_put_string(&out->detail, out->answer.data, out->answer.len);
    else
        mint_buf_adds(&out->detail, "null");
}

/* Lower case, code point by code point; valid UTF-8 in, appended to out. */
static void put_lower(struct mint_buf *out, const char *s, size_t n)
{
    mint_buf_reserve(out, n * 2);
    for (size_t i = 0; i < n;) {
        utf8proc_int32_t c;
        utf8proc_uint8_t enc[4];
        utf8proc_ssize_t k =
            utf8proc_iterate((const utf8proc_uint8_t *)s + i, (utf8proc_ssize_t)(n - i), &c);
        if (k <= 0) {
            mint_buf_addc(out, s[i++]);
            continue;
        }
        i += (size_t)k;
        mint_buf_add(out, enc, (size_t)utf8proc_encode_char(utf8proc_tolower(c), enc));
    }
}

/* --- exact */

static void tidy(const struct mint_score_opts *o, const char *s, size_t n, struct mint_buf *out)
{
    size_t at = 0;
    if (o->strip)
        mint_text_trim(s, &at, &n);
    mint_buf_reserve(out, n);
    if (o->ignore_case)
        put_lower(out, s + at, n);
    else
        mint_buf_add(out, s + at, n);
}

static int score_exact(void *state, const struct mint_score_task *t, struct mint_score *out,
                       struct mint_err *err)
{
    const struct mint_score_opts *o = state;
    struct mint_buf gold = MINT_BUF_INIT, want = MINT_BUF_INIT;
    const char *text;
    size_t n;
    if (mint_score_response(t, &text, &n, err) < 0)
        return -1;
    tidy(o, text, n, &out->answer);
    out->has_answer = true;
    bool right = false;
    int got;
    for (size_t i = 0; (got = mint_score_gold(o, t, i, &gold, err)) == 1; i++) {
        tidy(o, gold.data, gold.len, &want);
        right |= want.len == out->answer.len && !memcmp(want.data, out->answer.data, want.len);
        mint_buf_reset(&gold);
        mint_buf_reset(&want);
    }
    mint_buf_release(&gold);
    mint_buf_release(&want);
    put_verdict(out, right);
    return got;
}

const struct mint_scorer mint_scorer_exact = {
    .name = "exact",
    .summary = "1 if the whole response is the gold answer",
    .open = mint_score_take_opts,
    .score = score_exact,
    .close = free,
};

/* --- number */

static int score_number(void *state, const struct mint_score_task *t, struct mint_score *out,
                        struct mint_err *err)
{
    const struct mint_score_opts *o = state;
    struct mint_buf gold = MINT_BUF_INIT, want = MINT_BUF_INIT;
    const char *text;
    size_t n, at, len;
    if (mint_score_response(t, &text, &n, err) < 0)
        return -1;
    out->has_answer = mint_number_find(text, n, o->which, &at, &len);
    if (out->has_answer)
        mint_number_canon(text + at, len, &out->answer);
    bool right = false, useless = false;
    int got = 0;
    for (size_t i = 0; !right && (got = mint_score_gold(o, t, i, &gold, err)) == 1; i++) {
        useless = !mint_number_find(gold.data, gold.len, MINT_SCORE_LAST, &at, &len);
        if (useless)
            break;
        mint_number_canon(gold.data + at, len, &want);
        right |= out->has_answer && !strcmp(want.data, out->answer.data);
        mint_buf_reset(&gold);
        mint_buf_reset(&want);
    }
    mint_buf_release(&gold);
    mint_buf_release(&want);
    if (useless)
        mint_score_fail(out, "the gold answer (%.100s) holds no number", o->gold_field);
    else
        put_verdict(out, right);
    return MINT_MIN(got, 0);
}

const struct mint_scorer mint_scorer_number = {
    .name = "number",
    .summary = "1 if the first or last number of the response has the gold number's value",
    .open = mint_score_take_opts,
    .score = score_number,
    .close = free,
};

/* --- length */

enum { LENGTH_TARGET = 100 }; /* without any option */

static int open_length(const struct mint_score_opts *o, void **state, struct mint_err *err)
{
    if (o->target == 0)
        return mint_fail(err, MINT_EUSAGE, "--target must be at least 1");
    if (o->max >= 0 && o->min > o->max)
        return mint_fail(err, MINT_EUSAGE, "--min is above --max");
    mint_score_take_opts(o, state, err);
    struct mint_score_opts *own = *state;
    if (o->target < 0 && o->min < 0 && o->max < 0)
        own->target = LENGTH_TARGET;
    return 0;
}

static int measure(const struct mint_score_opts *o, const struct mint_score_task *t, size_t *len,
                   struct mint_err *err)
{
    const struct mint_sequence *s = &t->group->seqs[t->index];
    const char *text;
    size_t n, at = 0, word, word_n;
    *len = s->n;
    if (o->unit == MINT_SCORE_TOKENS) {
        if (!s->tokens_raw.p)
            return mint_fail(err, MINT_ESCHEMA,
                             "sequences[%zu].tokens is missing: use --unit "
                             "words or --unit chars",
                             t->index);
        return 0;
    }
    if (mint_score_response(t, &text, &n, err) < 0)
        return -1;
    *len = 0;
    if (o->unit == MINT_SCORE_WORDS) {
        while (mint_text_word(text, n, &at, &word, &word_n))
            ++*len;
    } else {
        for (size_t i = 0; i < n; i++)
            *len += ((unsigned char)text[i] & 0xc0) != 0x80;
    }
    return 0;
}

static int score_length(void *state, const struct mint_score_task *t, struct mint_score *out,
                        struct mint_err *err)
{
    const struct mint_score_opts *o = state;
    size_t len;
    if (measure(o, t, &len, err) < 0)
        return -1;
    double v = 1, n = (double)len;
    if (o->target > 0) {
        double off = n - (double)o->target;
        v = MINT_MAX(1 - (off < 0 ? -off : off) / (double)o->target, 0);
    }
    if ((o->min >= 0 && n < (double)o->min) || (o->max >= 0 && n > (double)o->max))
        v = 0;
    out->value = v;
    mint_buf_adds(&out->detail, "\"length\":");
    mint_json_put_int(&out->detail, (int64_t)len);
    return 0;
}

const struct mint_scorer mint_scorer_length = {
    .name = "length",
    .summary = "how near the length is to --target, or whether it is within --min and --max",
    .open = open_length,
    .score = score_length,
    .close = free,
};

/* --- heuristic: the reward of the MinT chat demo */

struct span {
    const char *p;
    size_t n;
};

static int compare(const void *a, const void *b)
{
    const struct span *x = a, *y = b;
    int c = memcmp(x->p, y->p, MINT_MIN(x->n, y->n));
    return c ? c : (x->n > y->n) - (x->n < y->n);
}

static void count_words(const char *text, size_t n, size_t *words, size_t *unique)
{
    struct mint_buf low = MINT_BUF_INIT;
    size_t at = 0, word, word_n, cap = 0;
    struct span *list = NULL;
    put_lower(&low, text, n);
    for (*words = 0; mint_text_word(low.data, low.len, &at, &word, &word_n); ++*words) {
        if (*words == cap) {
            cap = cap ? cap * 2 : 256;
            list = mint_xreallocarray(list, cap, sizeof(*list));
        }
        list[*words] = (struct span){low.data + word, word_n};
    }
    if (*words)
        qsort(list, *words, sizeof(*list), compare);
    *unique = *words > 0;
    for (size_t i = 1; i < *words; i++)
        *unique += compare(&list[i - 1], &list[i]) != 0;
    free(list);
    mint_buf_release(&low);
}

static int score_heuristic(void *state, const struct mint_score_task *t, struct mint_score *out,
                           struct mint_err *err)
{
    (void)state;
    const char *text;
    size_t n, words, unique, stops = 0;
    if (mint_score_response(t, &text, &n, err) < 0)
        return -1;
    count_words(text, n, &words, &unique);
    for (size_t i = 0; i < n; i++)
        stops += text[i] == '.';
    int tenths = words >= 20 && words <= 100 ? 4 : words >= 10 && words <= 150 ? 2 : 0;
    tenths += stops >= 2 ? 3 : 0;
    tenths += unique * 2 > words ? 3 : 0;
    out->value = tenths / 10.0;
    mint_buf_adds(&out->detail, "\"words\":");
    mint_json_put_int(&out->detail, (int64_t)words);
    mint_buf_adds(&out->detail, ",\"unique\":");
    mint_json_put_int(&out->detail, (int64_t)unique);
    mint_buf_adds(&out->detail, ",\"full_stops\":");
    mint_json_put_int(&out->detail, (int64_t)stops);
    return 0;
}

const struct mint_scorer mint_scorer_heuristic = {
    .name = "heuristic",
    .summary = "the MinT chat demo's reward: length, sentences, variety of words",
    .score = score_heuristic,
};

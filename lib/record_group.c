/* SPDX-License-Identifier: Apache-2.0 */
/* Reading of rollout groups: as arrays, or as checked spans of text. */
#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "num_swar.h"
#include "record.h"

enum mode { NUMBERS = 1, TEXT = 2, NEED_TOKENS = 4 };

static int32_t *ints(struct mint_reader *r, mint_json_val v, size_t *n, struct mint_err *err)
{
    *n = mint_json_size(r->doc, v);
    int32_t *out = mint_arena_alloc(&r->arena, (*n + 1) * sizeof(*out));
    return mint_json_ints(r->doc, v, out, SIZE_MAX, 0, INT32_MAX, err) < 0 ? NULL : out;
}

static float *logprobs(struct mint_reader *r, mint_json_val v, size_t n, struct mint_err *err)
{
    float *out = mint_arena_alloc(&r->arena, (n + 1) * sizeof(*out));
    if (mint_json_floats(r->doc, v, out, n, err) < 0)
        return NULL;
    for (size_t i = 0; i < n; i++) {
        if ((double)out[i] > MINT_LOGPROB_MAX) {
            mint_json_fail(r->doc, v, err, "has %g at element %zu: a logprob cannot be above 0",
                           (double)out[i], i);
            return NULL;
        }
    }
    return out;
}

/* Logprobs among which are nulls, those of observations. */
static float *logprobs_of_turns(struct mint_reader *r, mint_json_val array, struct mint_sequence *s,
                                struct mint_err *err)
{
    float *out = mint_arena_alloc(&r->arena, (s->n + 1) * sizeof(*out));
    mint_json_val v = mint_json_first(r->doc, array);
    for (size_t i = 0; i < s->n; i++, v = mint_json_next(r->doc, v)) {
        double x = (double)NAN;
        if (mint_json_type(r->doc, v) == MINT_JSON_NULL) {
            s->observed++;
        } else if (!mint_json_double(r->doc, v, &x) || x > MINT_LOGPROB_MAX ||
                   x < -(double)FLT_MAX) {
            mint_json_fail(r->doc, array, err,
                           "must hold numbers of at most 0, and null for tokens that were not "
                           "sampled; element %zu is neither",
                           i);
            return NULL;
        }
        out[i] = (float)x;
    }
    return out;
}

/*
 * The two checks below look at the text of an array that is known to hold numbers, and answer true
 * only where it is plain that all is well; the caller sends the rest through the readers above,
 * which know what to say.
 *
 * Ids: nothing but digits, at most nine in a row, commas and blanks. Of the other bytes that such
 * an array may have, '-', '+', '.', 'e', 'E' and white space, each has a bit of 0x43; ',' and ' '
 * have none.
 */
static bool ids_plainly_fine(const char *p, size_t n)
{
    const char *end = p + n - 1; /* the closing bracket */
    uint64_t odd = 0;
    int run = 0; /* digits that end here */
    for (p++; p < end; p += 8) {
        char last[8] = {',', ',', ',', ',', ',', ',', ',', ','};
        if (end - p < 8)
            memcpy(last, p, (size_t)(end - p));
        uint64_t w = mint_swar_load(end - p < 8 ? last : p), others = mint_swar_others(w);
        odd |= w & (others >> 7) * 0x43;
        if (!others || run + (__builtin_ctzll(others) >> 3) > 9)
            return false;
        run = __builtin_clzll(others) >> 3;
    }
    return !odd;
}

/*
 * A shorter way for how logprobs mostly look, 16 bytes at a time: behind each comma stand a minus,
 * one or two digits, and a point, an e or the next comma; behind each e stands a minus.
 */
typedef unsigned char bytes __attribute__((vector_size(16)));

static bytes load(const char *p)
{
    bytes v;
    memcpy(&v, p, sizeof(v));
    return v;
}

static bytes odd_places(bytes c, bytes c1, bytes c3, bytes c4)
{
    bytes ends = (bytes)((c3 == '.') | (c4 == '.') | (c3 == ',') | (c4 == ',') | (c3 == 'e'));
    bytes comma = (bytes)(c == ','), e = (bytes)((c | 0x20) == 'e'), minus = (bytes)(c1 == '-');
    return (comma & ~(minus & ends)) | (e & ~minus);
}

static bool logprobs_usual(const char *p, size_t n)
{
    bytes odd = {0};
    char tail[40];
    size_t i = 0, left;
    for (; i + 20 <= n - 1; i += 16)
        odd |= odd_places(load(p + i), load(p + i + 1), load(p + i + 3), load(p + i + 4));
    /* The first number and the rest, with the brackets as commas. */
    left = n - 1 - i;
    memset(tail, '.', sizeof(tail));
    memcpy(tail, p + i, left);
    memcpy(tail + left, ",-0.", 4);
    if (i == 0)
        tail[0] = ',';
    odd |= odd_places(load(tail), load(tail + 1), load(tail + 3), load(tail + 4));
    if (left > 16)
        odd |= odd_places(load(tail + 16), load(tail + 17), load(tail + 19), load(tail + 20));
    for (i = 0; i < sizeof(odd); i++) {
        if (odd[i])
            return false;
    }
    return p[1] == '-' && n > 4 &&
           (p[3] == '.' || p[4] == '.' || p[3] == ',' || p[4] == ',' || p[3] == ']' || p[4] == ']');
}

/* Logprobs: each is negative or plain zero, has no positive exponent and at most 30 characters, so
 * it is finite as a float and not above 0. */
static bool logprobs_plainly_fine(const char *p, size_t n)
{
    if (logprobs_usual(p, n))
        return true;
    const char *end = p + n - 1; /* the closing bracket */
    for (p++; p < end; p++) {
        while (*p == ' ')
            p++;
        bool negative = *p == '-';
        const char *s = p;
        bool small = true, zero = true;
        for (; p < end && *p != ','; p++) {
            zero &= *p == '0' || *p == '.';
            if ((*p | 0x20) == 'e')
                small &= p[1] == '-';
        }
        if (!((negative && small) || zero) || p - s > 30)
            return false;
    }
    return true;
}

static int read_ids(struct mint_reader *r, mint_json_val v, unsigned mode, const int32_t **out,
                    size_t *n, struct mint_raw *raw, struct mint_err *err)
{
    raw->p = mint_json_raw(r->doc, v, &raw->n);
    *n = mint_json_size(r->doc, v);
    if (!(mode & NUMBERS) && mint_json_is_numbers(r->doc, v) && ids_plainly_fine(raw->p, raw->n))
        return 0;
    const int32_t *got = ints(r, v, n, err);
    if (mode & NUMBERS)
        *out = got;
    return got ? 0 : -1;
}

static int read_logprobs(struct mint_reader *r, unsigned mode, struct mint_sequence *s,
                         const char *key, const float **out, struct mint_raw *raw,
                         struct mint_err *err)
{
    mint_json_val v = mint_json_get(r->doc, s->val, key);
    enum mint_json_type type = mint_json_type(r->doc, v);
    if (type == MINT_JSON_ABSENT || type == MINT_JSON_NULL)
        return 0;
    if (type == MINT_JSON_ARRAY && mint_json_size(r->doc, v) != s->n)
        return mint_json_fail(r->doc, v, err, "has %zu values, %zu expected (one for each token)",
                              mint_json_size(r->doc, v), s->n);
    raw->p = mint_json_raw(r->doc, v, &raw->n);
    if (raw == &s->logprobs_raw && type == MINT_JSON_ARRAY && !mint_json_is_numbers(r->doc, v))
        return (s->logprobs = logprobs_of_turns(r, v, s, err)) ? 0 : -1;
    if (!(mode & NUMBERS) && mint_json_is_numbers(r->doc, v) &&
        logprobs_plainly_fine(raw->p, raw->n))
        return 0;
    const float *got = logprobs(r, v, s->n, err);
    if (mode & NUMBERS)
        *out = got;
    return got ? 0 : -1;
}

static int read_text(struct mint_reader *r, unsigned mode, struct mint_sequence *s,
                     struct mint_err *err)
{
    mint_json_val v = mint_json_get(r->doc, s->val, "text");
    enum mint_json_type type = mint_json_type(r->doc, v);
    if (type == MINT_JSON_ABSENT || type == MINT_JSON_NULL)
        return 0;
    if (type != MINT_JSON_STRING)
        return mint_json_fail(r->doc, v, err, "must be a string");
    if (!(mode & TEXT))
        return 0;
    mint_buf_reset(&r->text);
    mint_buf_reserve(&r->text, 0);
    if (!mint_json_string(r->doc, v, &r->text))
        return mint_json_fail(r->doc, v, err, "must be a string");
    s->text_len = r->text.len;
    s->text = mint_arena_strndup(&r->arena, r->text.data, r->text.len);
    return 0;
}

static int read_ending(struct mint_reader *r, struct mint_sequence *s, struct mint_err *err)
{
    mint_json_val v = mint_json_get(r->doc, s->val, "stop_reason");
    enum mint_json_type type = mint_json_type(r->doc, v);
    size_t n;
    const char *raw = mint_json_raw(r->doc, v, &n);
    s->stop = true;
    if (type == MINT_JSON_STRING && n == 8 && !memcmp(raw, "\"length\"", 8))
        s->stop = false;
    else if (type != MINT_JSON_ABSENT && type != MINT_JSON_NULL &&
             !(n == 6 && !memcmp(raw, "\"stop\"", 6)))
        return mint_json_fail(r->doc, v, err, "must be \"stop\" or \"length\"");
    v = mint_json_get(r->doc, s->val, "reward");
    type = mint_json_type(r->doc, v);
    s->reward_null = type == MINT_JSON_NULL;
    if (type == MINT_JSON_ABSENT || type == MINT_JSON_NULL)
        return 0;
    if (type != MINT_JSON_NUMBER)
        return mint_json_fail(r->doc, v, err, "must be a number or null");
    if (!mint_json_double(r->doc, v, &s->reward))
        return mint_json_fail(r->doc, v, err, "is not finite");
    s->has_reward = true;
    return 0;
}

static int read_sequence(struct mint_reader *r, unsigned mode, struct mint_sequence *s,
                         struct mint_err *err)
{
    if (mint_json_type(r->doc, s->val) != MINT_JSON_OBJECT)
        return mint_json_fail(r->doc, s->val, err, "must be an object");
    mint_json_val v = mint_json_get(r->doc, s->val, "tokens");
    if (v != MINT_JSON_NONE) {
        if (read_ids(r, v, mode, &s->tokens, &s->n, &s->tokens_raw, err) < 0 ||
            read_logprobs(r, mode, s, "logprobs", &s->logprobs, &s->logprobs_raw, err) < 0 ||
            read_logprobs(r, mode, s, "ref_logprobs", &s->ref_logprobs, &s->ref_raw, err) < 0)
            return -1;
    } else if (mode & NEED_TOKENS) {
        return mint_record_missing(r, s->val, "tokens", err);
    }
    return read_text(r, mode, s, err) < 0 || read_ending(r, s, err) < 0 ? -1 : 0;
}

static int read_id(struct mint_reader *r, struct mint_group *g, struct mint_err *err)
{
    mint_json_val v = mint_json_get(r->doc, 0, "id");
    enum mint_json_type type = mint_json_type(r->doc, v);
    if (type == MINT_JSON_ABSENT) {
        mint_buf_reset(&r->text);
        mint_buf_addf(&r->text, "\"line:%" PRIu64 "\"", mint_reader_lineno(r));
        g->id_raw = mint_arena_strndup(&r->arena, r->text.data, r->text.len);
        g->id_raw_n = r->text.len;
        g->id = mint_arena_strndup(&r->arena, r->text.data + 1, r->text.len - 2);
        return 0;
    }
    g->id = mint_record_text(r, v);
    g->id_raw = mint_json_raw(r->doc, v, &g->id_raw_n);
    return g->id ? 0 : mint_json_fail(r->doc, v, err, "must be a string or a number");
}

static int read_head(struct mint_reader *r, unsigned mode, struct mint_group *g,
                     struct mint_err *err)
{
    if (read_id(r, g, err) < 0)
        return -1;
    mint_json_val v = mint_json_get(r->doc, 0, "prompt_tokens");
    if (v != MINT_JSON_NONE) {
        if (read_ids(r, v, mode, &g->prompt_tokens, &g->prompt_n, &g->prompt_raw, err) < 0)
            return -1;
        if ((mode & NEED_TOKENS) && g->prompt_n == 0)
            return mint_json_fail(r->doc, v, err, "is empty: a prompt has at least one token");
    } else if (mode & NEED_TOKENS) {
        return mint_record_missing(r, 0, "prompt_tokens", err);
    }
    g->sampling = mint_json_get(r->doc, 0, "sampling");
    if (mint_json_type(r->doc, g->sampling) == MINT_JSON_NULL)
        g->sampling = MINT_JSON_NONE;
    if (g->sampling != MINT_JSON_NONE && mint_json_type(r->doc, g->sampling) != MINT_JSON_OBJECT)
        return mint_json_fail(r->doc, g->sampling, err, "must be an object");
    return 0;
}

static int read_group(struct mint_reader *r, unsigned mode, struct mint_group *g,
                      struct mint_err *err)
{
    *g = (struct mint_group){.sampling = MINT_JSON_NONE};
    if (read_head(r, mode, g, err) < 0)
        return -1;
    mint_json_val seqs = mint_json_get(r->doc, 0, "sequences");
    if (seqs == MINT_JSON_NONE)
        return mint_record_missing(r, 0, "sequences", err);
    if (mint_json_type(r->doc, seqs) != MINT_JSON_ARRAY)
        return mint_json_fail(r->doc, seqs, err, "must be an array");
    g->nseqs = mint_json_size(r->doc, seqs);
    if (g->nseqs && mint_json_is_numbers(r->doc, seqs))
        return mint_json_fail(r->doc, seqs, err, "must hold objects, not numbers");
    g->seqs = mint_arena_alloc(&r->arena, (g->nseqs + 1) * sizeof(*g->seqs));
    mint_json_val v = mint_json_first(r->doc, seqs);
    for (size_t i = 0; i < g->nseqs; i++, v = mint_json_next(r->doc, v)) {
        g->seqs[i] = (struct mint_sequence){.val = v};
        if (read_sequence(r, mode, &g->seqs[i], err) < 0)
            return -1;
    }
    return 0;
}

int mint_group_read(struct mint_reader *r, bool need_tokens, struct mint_group *g,
                    struct mint_err *err)
{
    return read_group(r, NUMBERS | TEXT | (need_tokens ? NEED_TOKENS : 0), g, err);
}

int mint_group_scan(struct mint_reader *r, struct mint_group *g, struct mint_err *err)
{
    return read_group(r, NEED_TOKENS, g, err);
}

int mint_group_text(struct mint_reader *r, struct mint_group *g, struct mint_err *err)
{
    return read_group(r, TEXT, g, err);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* The table of scorers, gold answers, and how a score enters the text of a record. */
#include "score.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "mem.h"

static int score_none(void *state, const struct mint_score_task *t, struct mint_score *out,
                      struct mint_err *err)
{
    (void)state, (void)t, (void)out, (void)err;
    return 0;
}

const struct mint_scorer mint_scorer_none = {
    .name = "none", .summary = "no score: sum up the rewards that are there", .score = score_none};

/* SCORING enters the score into the record: all that give one. */
#define SCORING " name weight offset replace allow-null "

static const struct {
    const struct mint_scorer *scorer;
    const char *reads; /* options, each between blanks */
} scorers[] = {
    {&mint_scorer_exact, SCORING "gold-field strip ignore-case "},
    {&mint_scorer_math, SCORING "gold-field style extract strict one-box "},
    {&mint_scorer_number, SCORING "gold-field which "},
    {&mint_scorer_regex, SCORING "gold-field strip ignore-case which pattern "},
    {&mint_scorer_judge,
     SCORING "gold-field judge-model judge-adapter judge-url judge-key-env mode "
             "prompt-file scale expected pairs max-tokens timeout jobs retries "
             "threads device precision "},
    {&mint_scorer_format, SCORING "pattern ignore-case need-stop "},
    {&mint_scorer_length, SCORING "target min max unit "},
    {&mint_scorer_overlong, SCORING "max buffer style "},
    {&mint_scorer_repetition, SCORING "ngram unit "},
    {&mint_scorer_heuristic, SCORING},
    {&mint_scorer_code, SCORING "jobs tests-field language partial seconds cpu-time wall-time "
                                "compile-time memory processes file-size output-size read-only "
                                "sandbox "},
    {&mint_scorer_cmd, SCORING "command timeout jobs retries "},
    {&mint_scorer_none, " "},
};

const struct mint_scorer *mint_scorer_find(const char *name)
{
    for (size_t i = 0; i < MINT_ARRAY_LEN(scorers); i++) {
        if (!strcmp(scorers[i].scorer->name, name))
            return scorers[i].scorer;
    }
    return NULL;
}

bool mint_scorer_reads(const struct mint_scorer *s, const char *option)
{
    size_t i = 0, n = strlen(option);
    while (i < MINT_ARRAY_LEN(scorers) && scorers[i].scorer != s)
        i++;
    const char *at = i < MINT_ARRAY_LEN(scorers) ? scorers[i].reads : NULL;
    while (at && (at = strstr(at, option)) && (at[-1] != ' ' || at[n] != ' '))
        at++;
    return at != NULL;
}

const char *mint_scorer_names(void)
{
    return "exact, math, number, regex, judge, format, length, overlong, repetition, heuristic, "
           "code, cmd, none";
}

void mint_score_release(struct mint_score *s)
{
    mint_buf_release(&s->detail);
    mint_buf_release(&s->answer);
    *s = (struct mint_score){0};
}

void mint_score_fail(struct mint_score *s, const char *fmt, ...)
{
    char msg[512];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(msg, sizeof(msg), fmt, ap);
    va_end(ap);
    mint_score_release(s);
    s->failed = true;
    mint_buf_adds(&s->detail, "\"error\":");
    mint_json_put_str(&s->detail, msg);
}

int mint_score_take_opts(const struct mint_score_opts *o, void **state, struct mint_err *err)
{
    (void)err;
    struct mint_score_opts *copy = mint_xmalloc(sizeof(*copy));
    *copy = *o;
    *state = copy;
    return 0;
}

int mint_score_response(const struct mint_score_task *t, const char **text, size_t *n,
                        struct mint_err *err)
{
    const struct mint_sequence *s = &t->group->seqs[t->index];
    *text = s->text;
    *n = s->text_len;
    if (s->text)
        return 0;
    return mint_fail(err, MINT_ESCHEMA, "sequences[%zu].text is missing: there is nothing to score",
                     t->index);
}

/* The i-th of an array of plain numbers, whose elements have no handles. 0 past the last. */
static int gold_number(const struct mint_json *j, mint_json_val v, size_t i, struct mint_buf *out)
{
    static const char between[] = "[, \t\r\n]";
    size_t n, len;
    const char *p = mint_json_raw(j, v, &n), *end = p + n;
    for (p += strspn(p, between); p < end; p += len + strspn(p + len, between)) {
        len = strcspn(p, between);
        if (i--)
            continue;
        mint_buf_add(out, p, len);
        return 1;
    }
    return 0;
}

int mint_score_gold(const struct mint_score_opts *o, const struct mint_score_task *t, size_t i,
                    struct mint_buf *out, struct mint_err *err)
{
    const struct mint_json *j = t->doc;
    mint_json_val v = mint_json_get(j, 0, o->gold_field);
    enum mint_json_type type = mint_json_type(j, v);
    if (type == MINT_JSON_ABSENT || type == MINT_JSON_NULL)
        return mint_fail(err, MINT_ESCHEMA,
                         "the record has no \"%s\" to compare with: name the field with "
                         "--gold-field",
                         o->gold_field);
    if (type == MINT_JSON_ARRAY && !mint_json_size(j, v))
        return mint_json_fail(j, v, err, "is empty: there is nothing to compare with");
    if (type == MINT_JSON_ARRAY && mint_json_is_numbers(j, v))
        return gold_number(j, v, i, out);
    if (type == MINT_JSON_ARRAY) {
        v = mint_json_first(j, v);
        while (i && v != MINT_JSON_NONE) {
            v = mint_json_next(j, v);
            i--;
        }
        type = mint_json_type(j, v);
        if (v == MINT_JSON_NONE)
            return 0;
    }
    if (i)
        return 0;
    if (type == MINT_JSON_NUMBER) {
        size_t n;
        const char *raw = mint_json_raw(j, v, &n);
        mint_buf_add(out, raw, n);
        return 1;
    }
    mint_buf_reserve(out, 0);
    if (type != MINT_JSON_STRING || !mint_json_string(j, v, out))
        return mint_json_fail(j, v, err, "must be a string or a number, or an array of those");
    return 1;
}

/* --- reward, scores, detail */

static bool owned(const struct mint_json *j, mint_json_val member)
{
    return mint_json_key_is(j, member, "reward") || mint_json_key_is(j, member, "scores") ||
           mint_json_key_is(j, member, "detail");
}

bool mint_scored_reward(const struct mint_scoring *c, const struct mint_scored *s, size_t i,
                        double *reward)
{
    const struct mint_sequence *q = &s->group.seqs[i];
    bool none = c->scorer == &mint_scorer_none;
    *reward = c->replace ? 0 : q->reward;
    if (none)
        return q->has_reward;
    if (s->scores[i].failed || (q->reward_null && !c->replace))
        return false;
    if (s->scores[i].clears)
        *reward = 0;
    else
        *reward += c->weight * (s->scores[i].value + c->offset);
    return isfinite(*reward);
}

/* ,"KEY":{old members,"NAME": */
static int open_object(const struct mint_scoring *c, const struct mint_scored *s, mint_json_val seq,
                       const char *key, struct mint_buf *b, struct mint_err *err)
{
    const struct mint_json *j = s->r->doc;
    mint_json_val old = c->replace ? MINT_JSON_NONE : mint_json_get(j, seq, key);
    mint_buf_addf(b, ",\"%s\":{", key);
    if (old != MINT_JSON_NONE) {
        if (mint_json_type(j, old) != MINT_JSON_OBJECT)
            return mint_json_fail(j, old, err, "must be an object");
        if (mint_json_get(j, old, c->name) != MINT_JSON_NONE)
            return mint_json_fail(j, old, err,
                                  "already has \"%s\": give another --name, or start "
                                  "anew with --replace",
                                  c->name);
        size_t n;
        const char *raw = mint_json_raw(j, old, &n);
        if (mint_json_size(j, old)) {
            mint_buf_add(b, raw + 1, n - 2);
            mint_buf_addc(b, ',');
        }
    }
    mint_json_put_str(b, c->name);
    mint_buf_addc(b, ':');
    return 0;
}

/* The members that are not ours, without the closing brace. The bytes stay as they are if there is
 * nothing to take out. */
static void put_others(const struct mint_json *j, mint_json_val seq, struct mint_buf *b)
{
    size_t n, key_n, left = mint_json_size(j, seq);
    const char *raw = mint_json_raw(j, seq, &n);
    bool any = false;
    for (mint_json_val v = mint_json_first(j, seq); v != MINT_JSON_NONE; v = mint_json_next(j, v))
        any |= owned(j, v);
    if (!any) {
        for (n--; n > 1 && mint_text_space(raw + n - 1, 1); n--)
            ;
        mint_buf_add(b, raw, n);
        return;
    }
    mint_buf_addc(b, '{');
    bool first = true;
    for (mint_json_val v = mint_json_first(j, seq); left--; v = mint_json_next(j, v)) {
        if (owned(j, v))
            continue;
        const char *key = mint_json_key(j, v, &key_n), *val = mint_json_raw(j, v, &n);
        if (!first)
            mint_buf_addc(b, ',');
        first = false;
        mint_buf_add(b, key - 1, (size_t)(val + n - (key - 1)));
    }
}

static int put_sequence(const struct mint_scoring *c, const struct mint_scored *s, size_t i,
                        struct mint_buf *b, struct mint_err *err)
{
    const struct mint_score *score = &s->scores[i];
    mint_json_val seq = s->group.seqs[i].val;
    size_t start = b->len;
    double reward;
    put_others(s->r->doc, seq, b);
    mint_buf_adds(b, ",\"reward\":");
    if (b->data[start + 1] == ',') { /* an empty object */
        b->len = start + 1;
        mint_buf_adds(b, "\"reward\":");
    }
    if (mint_scored_reward(c, s, i, &reward))
        mint_json_put_double(b, reward);
    else
        mint_buf_adds(b, "null");
    if (open_object(c, s, seq, "scores", b, err) < 0)
        return -1;
    if (score->failed)
        mint_buf_adds(b, "null");
    else
        mint_json_put_double(b, score->value);
    mint_buf_addc(b, '}');
    if (open_object(c, s, seq, "detail", b, err) < 0)
        return -1;
    mint_buf_addc(b, '{');
    mint_buf_add(b, score->detail.data, score->detail.len);
    mint_buf_adds(b, "}}}");
    return 0;
}

int mint_scored_write(const struct mint_scoring *c, const struct mint_scored *s, struct mint_buf *b,
                      struct mint_err *err)
{
    const char *from = s->r->line, *end = s->r->line + s->r->len;
    size_t start = b->len, n;
    for (size_t i = 0; i < s->group.nseqs; i++) {
        const char *raw = mint_json_raw(s->r->doc, s->group.seqs[i].val, &n);
        mint_buf_add(b, from, (size_t)(raw - from));
        if (put_sequence(c, s, i, b, err) < 0) {
            b->len = start;
            return -1;
        }
        from = raw + n;
    }
    mint_buf_add(b, from, (size_t)(end - from));
    mint_buf_addc(b, '\n');
    return 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* The scorers regex and format. A pattern that runs away hits PCRE2's limits: that is no score, not
 * a 0. */
#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>
#include <string.h>

#include "mem.h"
#include "score.h"

struct regex {
    struct mint_score_opts o;
    pcre2_code *code;
    pcre2_match_data *match;
    pcre2_match_context *limits;
    uint32_t groups;
};

/* Steps of the matcher that a sane pattern never needs; about a second. */
enum { MATCH_LIMIT = 20000000, HEAP_KIB = 64 * 1024 };

static void close_regex(void *state)
{
    struct regex *x = state;
    if (!x)
        return;
    pcre2_match_context_free(x->limits);
    pcre2_match_data_free(x->match);
    pcre2_code_free(x->code);
    free(x);
}

static int compile(const struct mint_score_opts *o, void **state, struct mint_err *err)
{
    int code;
    PCRE2_SIZE at;
    uint32_t flags = PCRE2_UTF | (o->ignore_case ? PCRE2_CASELESS : 0);
    pcre2_code *re =
        pcre2_compile((PCRE2_SPTR)o->pattern, PCRE2_ZERO_TERMINATED, flags, &code, &at, NULL);
    if (!re) {
        PCRE2_UCHAR msg[128];
        pcre2_get_error_message(code, msg, sizeof(msg));
        return mint_fail(err, MINT_EUSAGE, "--pattern, at byte %zu: %s", (size_t)at + 1,
                         (const char *)msg);
    }
    struct regex *x = mint_xcalloc(1, sizeof(*x));
    *x = (struct regex){.o = *o, .code = re};
    x->match = pcre2_match_data_create_from_pattern(re, NULL);
    x->limits = pcre2_match_context_create(NULL);
    pcre2_set_match_limit(x->limits, MATCH_LIMIT);
    pcre2_set_heap_limit(x->limits, HEAP_KIB);
    pcre2_pattern_info(re, PCRE2_INFO_CAPTURECOUNT, &x->groups);
    *state = x;
    return 0;
}

static int open_regex(const struct mint_score_opts *o, void **state, struct mint_err *err)
{
    if (!o->pattern)
        return mint_fail(err, MINT_EUSAGE, "regex needs --pattern");
    MINT_TRY(compile(o, state, err));
    const struct regex *x = *state;
    if (x->groups || !o->gold_named)
        return 0;
    close_regex(*state);
    *state = NULL;
    return mint_fail(err, MINT_EUSAGE,
                     "--gold-field goes with a group in --pattern, and does nothing here");
}

/* Without a pattern, the end alone counts. */
static int open_format(const struct mint_score_opts *o, void **state, struct mint_err *err)
{
    if (!o->pattern && !o->need_stop)
        return mint_fail(err, MINT_EUSAGE, "format needs --pattern, --need-stop or both");
    struct mint_score_opts any = *o;
    any.pattern = o->pattern ? o->pattern : "";
    any.which = MINT_SCORE_FIRST;
    return compile(&any, state, err);
}

/* The wanted match's group 1 (or 0, if the pattern has no group) in *at and *n: 1, 0 no match, or
 * PCRE2's error below 0. */
static int find(struct regex *x, const char *text, size_t len, size_t *at, size_t *n)
{
    int found = 0;
    for (PCRE2_SIZE from = 0; from <= len;) {
        int rc = pcre2_match(x->code, (PCRE2_SPTR)text, len, from, PCRE2_NO_UTF_CHECK, x->match,
                             x->limits);
        if (rc == PCRE2_ERROR_NOMATCH)
            break;
        if (rc < 0)
            return rc;
        const PCRE2_SIZE *o = pcre2_get_ovector_pointer(x->match);
        size_t g = x->groups ? 2 : 0;
        bool set = (!x->groups || (rc > 1 && o[g] != PCRE2_UNSET)) && o[g] <= o[g + 1];
        *at = set ? o[g] : 0;
        *n = set ? o[g + 1] - o[g] : 0;
        found = 1;
        if (x->o.which == MINT_SCORE_FIRST)
            break;
        PCRE2_SIZE before = from;
        from = MINT_MAX(o[1], from);
        if (from == before) { /* an empty match: go on behind the next character */
            for (from++; from < len && ((unsigned char)text[from] & 0xc0) == 0x80; from++)
                ;
        }
    }
    return found;
}

static int compare_gold(struct regex *x, const struct mint_score_task *t, struct mint_score *out,
                        bool *right, struct mint_err *err)
{
    struct mint_buf gold = MINT_BUF_INIT;
    int got;
    *right = false;
    for (size_t i = 0; (got = mint_score_gold(&x->o, t, i, &gold, err)) == 1; i++) {
        size_t at = 0, n = gold.len;
        if (x->o.strip)
            mint_text_trim(gold.data, &at, &n);
        *right |=
            out->has_answer && n == out->answer.len && !memcmp(gold.data + at, out->answer.data, n);
        mint_buf_reset(&gold);
    }
    mint_buf_release(&gold);
    return got;
}

static int gave_up(struct mint_score *out, int code)
{
    PCRE2_UCHAR msg[128];
    pcre2_get_error_message(code, msg, sizeof(msg));
    mint_score_fail(out, "the pattern gave up: %s", (const char *)msg);
    return 0;
}

static int score_regex(void *state, const struct mint_score_task *t, struct mint_score *out,
                       struct mint_err *err)
{
    struct regex *x = state;
    const char *text;
    size_t at, n, len;
    MINT_TRY(mint_score_response(t, &text, &len, err));
    int found = find(x, text, len, &at, &n);
    if (found < 0)
        return gave_up(out, found);
    bool right = found;
    out->has_answer = found;
    if (found) {
        if (x->o.strip)
            mint_text_trim(text, &at, &n);
        mint_buf_add(&out->answer, text + at, n);
    }
    if (x->groups && compare_gold(x, t, out, &right, err) < 0)
        return -1;
    out->value = right ? 1 : 0;
    mint_buf_adds(&out->detail, "\"answer\":");
    if (found)
        mint_json_put_string(&out->detail, out->answer.data, out->answer.len);
    else
        mint_buf_adds(&out->detail, "null");
    return 0;
}

const struct mint_scorer mint_scorer_regex = {
    .name = "regex",
    .summary = "1 if --pattern matches; with a group, if the group is the gold answer",
    .open = open_regex,
    .score = score_regex,
    .close = close_regex,
};

static int score_format(void *state, const struct mint_score_task *t, struct mint_score *out,
                        struct mint_err *err)
{
    struct regex *x = state;
    const struct mint_sequence *s = &t->group->seqs[t->index];
    bool stop = !x->o.need_stop || s->stop;
    const char *text;
    size_t at, n, len;
    MINT_TRY(mint_score_response(t, &text, &len, err));
    int found = find(x, text, len, &at, &n);
    if (found < 0)
        return gave_up(out, found);
    out->value = found && stop ? 1 : 0;
    mint_buf_addf(&out->detail, "\"match\":%s,\"stop\":%s", found ? "true" : "false",
                  s->stop ? "true" : "false");
    return 0;
}

const struct mint_scorer mint_scorer_format = {
    .name = "format",
    .summary = "1 if --pattern matches and, with --need-stop, the response was not cut",
    .open = open_format,
    .score = score_format,
    .close = close_regex,
};

/* SPDX-License-Identifier: Apache-2.0 */
/* The scorer math: which text is the answer (math_extract.h), what it says (math_read.h), and
 * whether that is what the gold answer says (math_equal.h). */
#include <stdlib.h>
#include <string.h>

#include "math_equal.h"
#include "math_eval.h"
#include "math_extract.h"
#include "math_read.h"
#include "mem.h"
#include "score.h"

enum { SHOWN = 200 }; /* bytes of an answer in the detail */

struct math {
    struct mint_score_opts o;
    enum mint_math_rule rule;
    bool strict;
    struct mint_math work;
    struct mint_buf gold;
};

static const struct {
    const char *name;
    enum mint_math_rule rule;
} styles[] = {
    {"math", MINT_MATH_AUTO},
    {"dapo", MINT_MATH_ANSWER_LINE},
    {"gsm8k", MINT_MATH_HASH},
    {"mint-quickstart", MINT_MATH_FIRST_NUMBER},
};

static int find_rule(const char *name, enum mint_math_rule *out)
{
    for (int i = 0; mint_math_rules[i]; i++) {
        if (!strcmp(mint_math_rules[i], name)) {
            *out = (enum mint_math_rule)i;
            return 0;
        }
    }
    return -1;
}

static int open_math(const struct mint_score_opts *o, void **state, struct mint_err *err)
{
    enum mint_math_rule rule = MINT_MATH_AUTO;
    if (o->style) {
        size_t i = 0;
        while (i < MINT_ARRAY_LEN(styles) && strcmp(styles[i].name, o->style) != 0)
            i++;
        if (i == MINT_ARRAY_LEN(styles))
            return mint_fail(err, MINT_EUSAGE,
                             "math has no --style %.100s: there are math, dapo, gsm8k and "
                             "mint-quickstart",
                             o->style);
        rule = styles[i].rule;
    }
    if (o->extract && find_rule(o->extract, &rule) < 0)
        return mint_fail(err, MINT_EUSAGE,
                         "math has no --extract %.100s: there are auto, boxed, hash, phrase, "
                         "last-number, first-number, answer-line and whole",
                         o->extract);
    struct math *k = mint_xcalloc(1, sizeof(*k));
    k->o = *o;
    k->rule = rule;
    k->strict = o->strict;
    mint_math_reset(&k->work);
    *state = k;
    return 0;
}

static void close_math(void *state)
{
    struct math *k = state;
    mint_math_release(&k->work);
    mint_buf_release(&k->gold);
    mint_math_eval_done();
    free(k);
}

/* At most SHOWN bytes of a text, cut at a character. */
static void put_text(struct mint_buf *b, const char *s, size_t n)
{
    size_t cut = n;
    if (n > SHOWN) {
        for (cut = SHOWN; cut && ((unsigned char)s[cut] & 0xc0) == 0x80;)
            cut--;
    }
    mint_json_put_string(b, s, cut);
    if (cut < n && b->len) { /* an ellipsis, inside of the quotes */
        b->len--;
        mint_buf_adds(b, "...\"");
    }
}

static void explain(struct mint_buf *b, const struct mint_math_found *found, const char *gold,
                    size_t gold_n, const char *why)
{
    mint_buf_addf(
        b, "\"rule\":\"%s\",\"extracted\":", found->s ? mint_math_rules[found->rule] : "none");
    if (found->s)
        put_text(b, found->s, found->n);
    else
        mint_buf_adds(b, "null");
    mint_buf_adds(b, ",\"gold\":");
    put_text(b, gold, gold_n);
    mint_buf_addf(b, ",\"n_boxed\":%u,\"reason\":", found->boxes);
    mint_json_put_str(b, why);
}

/* One gold answer against the response. 1: equal, 0: not, -1: the gold answer is of no use. */
static int compare(struct math *k, const struct mint_math_found *found, const char *gold,
                   size_t gold_n, struct mint_score *out, const char **why)
{
    struct mint_math_reading a, g;
    mint_math_reset(&k->work);
    mint_math_read(&k->work, gold, gold_n, false, &g);
    if (!g.toks.n)
        return -1;
    mint_math_read(&k->work, found->s, found->n, found->phrase, &a);
    if (!out->has_answer) {
        mint_math_canon(&a, &out->answer);
        out->has_answer = out->answer.len > 0;
    }
    return mint_math_equal(&k->work, &a, &g, why);
}

static void find_answer(const struct math *k, const char *text, size_t n,
                        struct mint_math_found *found)
{
    mint_math_extract(text, n, k->rule, k->strict, found);
    if (k->o.one_box && found->rule == MINT_MATH_BOXED && found->boxes_differ) {
        found->s = NULL;
        found->why = "boxes that differ";
    }
}

static int score_math(void *state, const struct mint_score_task *t, struct mint_score *out,
                      struct mint_err *err)
{
    struct math *k = state;
    struct mint_math_found found, reduced;
    const char *why = "different", *best = NULL;
    int rc, right = 0;
    const char *text;
    size_t n;
    if (mint_score_response(t, &text, &n, err) < 0)
        return -1;
    find_answer(k, text, n, &found);
    for (size_t i = 0; !right; i++) {
        mint_buf_reset(&k->gold);
        rc = mint_score_gold(&k->o, t, i, &k->gold, err);
        if (rc < 0)
            return -1;
        if (rc == 0 && i)
            break;
        mint_math_extract_gold(k->gold.data, rc ? k->gold.len : 0, &reduced);
        right = !reduced.s ? -1 : found.s ? compare(k, &found, reduced.s, reduced.n, out, &why) : 0;
        if (right < 0) {
            mint_score_fail(out, "%s", reduced.s ? "the gold answer says nothing" : reduced.why);
            return 0;
        }
        if (right || !best)
            best = found.s ? why : found.why;
        if (right || i == 0) {
            mint_buf_reset(&out->detail);
            explain(&out->detail, &found, reduced.s, reduced.n, best);
        }
    }
    out->value = right;
    return 0;
}

const struct mint_scorer mint_scorer_math = {
    .name = "math",
    .summary = "1 if the answer equals the gold one as mathematics",
    .open = open_math,
    .score = score_math,
    .close = close_math,
};

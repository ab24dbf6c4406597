/* SPDX-License-Identifier: Apache-2.0 */
/* The scorer code: the program in a response is run against the tests of its record. */
#include "score_code.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "score.h"

struct code {
    struct mint_code_opts o;
    const struct mint_code_lang *fallback;
    struct mint_code_runner *runner;
    struct mint_arena arena;
};

static void close_code(void *state)
{
    struct code *c = state;
    mint_code_runner_free(c->runner);
    mint_arena_release(&c->arena);
    free(c);
}

static int open_code(const struct mint_score_opts *o, void **state, struct mint_err *err)
{
    const char *name = o->code->language ? o->code->language : "python";
    const struct mint_code_lang *fallback = mint_code_lang(name, strlen(name));
    if (!fallback)
        return mint_fail(err, MINT_EUSAGE,
                         "no language '%s': there are python, c, cpp, sh, javascript", name);
    struct code *c = mint_xcalloc(1, sizeof(*c));
    c->o = *o->code;
    c->fallback = fallback;
    if (mint_code_runner_new(&c->runner, &c->o, err) < 0) {
        free(c);
        return -1;
    }
    *state = c;
    return 0;
}

/* The record's language, NULL if it has none: the response's then counts, unless the tests are in
 * Python. */
static int language(const struct mint_json *j, const struct mint_code_tests *t,
                    const struct mint_code_lang **lang, struct mint_err *err)
{
    const struct mint_code_lang *python = mint_code_lang("python", 6);
    size_t i = 0;
    struct mint_buf b = MINT_BUF_INIT;
    mint_json_val v = mint_json_get(j, 0, "language");
    while (i < t->n && t->v[i].kind == MINT_CODE_STDIO)
        i++;
    *lang = i < t->n ? python : NULL;
    if (mint_json_type(j, v) == MINT_JSON_ABSENT || mint_json_type(j, v) == MINT_JSON_NULL)
        return 0;
    *lang = mint_json_string(j, v, &b) ? mint_code_lang(b.data, b.len) : NULL;
    mint_buf_release(&b);
    if (!*lang)
        return mint_json_fail(j, v, err,
                              "must be one of \"python\", \"c\", \"cpp\", \"sh\", "
                              "\"javascript\"");
    if (i < t->n && *lang != python)
        return mint_json_fail(j, v, err,
                              "is %s, and test %zu for Python: tests of other languages are "
                              "{\"input\",\"output\"}",
                              (*lang)->name, i);
    return 0;
}

static void put_detail(const struct code *c, const struct mint_code_lang *lang,
                       const struct mint_code_result *r, size_t n, struct mint_score *out)
{
    size_t passed = 0, first = n;
    for (size_t i = 0; i < n; i++) {
        passed += r[i].verdict == MINT_CODE_OK;
        if (first == n && r[i].verdict != MINT_CODE_OK)
            first = i;
    }
    out->value = c->o.partial ? (double)passed / (double)n : passed == n;
    struct mint_buf *b = &out->detail;
    mint_buf_addf(b, "\"language\":\"%s\",\"passed\":%zu,\"failed\":%zu,\"total\":%zu,\"tests\":[",
                  lang->name, passed, n - passed, n);
    for (size_t i = 0; i < n; i++)
        mint_buf_addf(b, "%s\"%s\"", i ? "," : "", mint_code_verdict_name(r[i].verdict));
    mint_buf_addc(b, ']');
    if (first < n) {
        mint_buf_addf(b, ",\"first\":{\"test\":%zu,\"verdict\":\"%s\"%s", first,
                      mint_code_verdict_name(r[first].verdict), r[first].why.len ? "," : "");
        mint_buf_add(b, r[first].why.data, r[first].why.len);
        mint_buf_addc(b, '}');
    }
    if (c->o.seconds) {
        mint_buf_adds(b, ",\"seconds\":[");
        for (size_t i = 0; i < n; i++) {
            mint_buf_adds(b, i ? "," : "");
            mint_json_put_double(b, round(r[i].seconds * 1000) / 1000);
        }
        mint_buf_addc(b, ']');
    }
}

static int score_code(void *state, const struct mint_score_task *t, struct mint_score *out,
                      struct mint_err *err)
{
    struct code *c = state;
    const struct mint_sequence *q = &t->group->seqs[t->index];
    struct mint_code_tests tests;
    const struct mint_code_lang *lang;
    struct mint_buf program = MINT_BUF_INIT;
    if (!q->text)
        return mint_fail(err, MINT_ESCHEMA, "sequences[%zu] has no text", t->index);
    int rc = mint_code_tests_read(t->doc, c->o.tests_field, &c->arena, &tests, err);
    if (rc == 0)
        rc = language(t->doc, &tests, &lang, err);
    if (rc == 0)
        rc = mint_code_examine(c->runner, t->doc, &tests, err);
    if (rc == 0) {
        struct mint_code_result *r = mint_xcalloc(tests.n, sizeof(*r));
        if (mint_code_extract(q->text, q->text_len, &lang, c->fallback, &program)) {
            rc = mint_code_run(c->runner, t->doc, lang, &program, &tests, r, err);
        } else {
            for (size_t i = 0; i < tests.n; i++)
                r[i].verdict = MINT_CODE_ERROR;
            mint_buf_adds(&r[0].why, "\"error\":\"no program in the response\"");
        }
        if (rc == 0)
            put_detail(c, lang, r, tests.n, out);
        for (size_t i = 0; i < tests.n; i++)
            mint_buf_release(&r[i].why);
        free(r);
    }
    mint_buf_release(&program);
    mint_arena_reset(&c->arena);
    return rc;
}

const struct mint_scorer mint_scorer_code = {
    .name = "code",
    .summary = "1 if the program in the response passes the record's tests, in a sandbox",
    .slow = true,
    .open = open_code,
    .score = score_code,
    .close = close_code,
};

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Asserts. The test and what it expects are in one box, with a judge that lives from test to test;
 * the solution is in another, which hears only what it is called with. We carry frames between the
 * two (4 bytes of length, a byte of kind, JSON: score_code_peer.py) and take the verdict from the
 * judge's pipe, which no other box has.
 */
#include <stdlib.h>
#include <string.h>

#include "log.h"
#include "score_code_impl.h"

enum { FRAME_MAX = 1 << 24, TRAFFIC_MAX = 1 << 27, FRAMES_MAX = 1 << 18 };
/* What the judge may take to say that the solution is gone. */
static const double last_word_seconds = 5;
/* And for a test without a program; the judge itself gives up before that. */
static const double examine_seconds = 30;

static void put_frame(struct mint_box *box, char kind, const char *p, size_t n)
{
    size_t len = n + 1;
    char head[5] = {(char)(len >> 24), (char)(len >> 16), (char)(len >> 8), (char)len, kind};
    mint_box_send(box, head, sizeof(head));
    mint_box_send(box, p, n);
}

/* The frame at *at in b: 1 and *at behind it, 0 not yet whole, -1 nonsense. */
static int get_frame(const struct mint_buf *b, size_t *at, char *kind, const char **p, size_t *n)
{
    if (b->len - *at < 5)
        return 0;
    const unsigned char *h = (const unsigned char *)b->data + *at;
    size_t len = (size_t)h[0] << 24 | (size_t)h[1] << 16 | (size_t)h[2] << 8 | h[3];
    if (len < 1 || len > FRAME_MAX)
        return -1;
    if (b->len - *at < len + 4)
        return 0;
    *kind = (char)h[4];
    *p = b->data + *at + 5;
    *n = len - 1;
    *at += len + 4;
    return 1;
}

static void drop(struct mint_buf *b, size_t n)
{
    if (n) {
        b->len -= n;
        memmove(b->data, b->data + n, b->len);
    }
}

/* Frames of the solution go to the judge as messages, whatever they call themselves. false: it
 * talks nonsense, or too much. */
static bool carry_to_judge(struct mint_box *from, struct mint_box *judge, size_t *frames)
{
    const char *p;
    size_t n, at = 0;
    char kind;
    int got;
    while ((got = get_frame(&from->out, &at, &kind, &p, &n)) == 1 && ++*frames <= FRAMES_MAX)
        put_frame(judge, 'M', p, n);
    drop(&from->out, at);
    return got == 0;
}

/* 1: the verdict is in r->doc; 0: not yet; -1: the judge talks nonsense. */
static int carry_from_judge(struct mint_code_runner *r, struct mint_box *to, struct mint_buf *text)
{
    const char *p;
    size_t n, at = 0;
    char kind;
    int got;
    while ((got = get_frame(&r->judge.out, &at, &kind, &p, &n)) == 1 && kind == 'M')
        put_frame(to, 'M', p, n);
    if (got == 1) {
        mint_buf_add(text, p, n);
        got = mint_json_parse(r->doc, text->data, text->len, NULL) < 0 ? -1 : 1;
    }
    drop(&r->judge.out, at);
    return got;
}

static int start_judge(struct mint_code_runner *r, const char *python, struct mint_err *err)
{
    const char *const argv[] = {python, "-sSB", "-c", r->judge_py, NULL};
    struct mint_box_spec spec = {.argv = argv, .talk = true, .limits = mint_code_limits(r)};
    if (r->judge.sandbox && !r->judge.end)
        return 0;
    mint_box_release(&r->judge);
    spec.limits.wall = spec.limits.cpu = 1e9; /* the solution's box keeps the time */
    spec.limits.output = TRAFFIC_MAX;
    return mint_box_start(r->sandbox, &spec, &r->judge, err);
}

static void put_task(struct mint_code_runner *r, char kind, const struct mint_code_tests *all,
                     const struct mint_code_test *t)
{
    struct mint_buf b = MINT_BUF_INIT;
    if (t->kind == MINT_CODE_CALL) {
        put_frame(&r->judge, kind, t->text, strlen(t->text));
        return;
    }
    mint_buf_adds(&b, "{\"setup\":");
    mint_json_put_str(&b, all->setup ? all->setup : "");
    mint_buf_adds(&b, ",\"test\":");
    mint_json_put_str(&b, t->text);
    if (all->entry) {
        mint_buf_adds(&b, ",\"entry\":");
        mint_json_put_str(&b, all->entry);
    }
    mint_buf_addc(&b, '}');
    put_frame(&r->judge, kind, b.data, b.len);
    mint_buf_release(&b);
}

/* Until the judge has spoken: 1, or 0 if it won't. */
static int converse(struct mint_code_runner *r, struct mint_box *box, struct mint_buf *text)
{
    struct mint_box *both[] = {box, &r->judge};
    double told = 0;
    size_t frames = 0;
    for (;;) {
        mint_box_step(both, 2);
        if (!told && !carry_to_judge(box, &r->judge, &frames))
            mint_box_kill(box);
        int got = carry_from_judge(r, box, text);
        if (got)
            return got == 1;
        if (r->judge.end)
            return 0;
        if (box->end && !told) {
            put_frame(&r->judge, 'E', "", 0);
            told = mint_now();
        }
        if (told > 0 && mint_now() - told > last_word_seconds)
            return 0;
    }
}

static bool said(const struct mint_code_runner *r, const char *key, const char *word)
{
    struct mint_buf b = MINT_BUF_INIT;
    mint_buf_reserve(&b, 0);
    bool is = mint_json_string(r->doc, mint_json_get(r->doc, 0, key), &b) && !strcmp(b.data, word);
    mint_buf_release(&b);
    return is;
}

static void keep(const struct mint_code_runner *r, const char *key, const char *as,
                 struct mint_buf *out)
{
    struct mint_buf b = MINT_BUF_INIT;
    if (mint_json_string(r->doc, mint_json_get(r->doc, 0, key), &b) && b.len)
        mint_code_put(out, as, b.data, b.len);
    mint_buf_release(&b);
}

/* What the judge says of a test that says nothing about a program. */
static int bad_test(const struct mint_code_runner *r, size_t test, struct mint_err *err)
{
    struct mint_buf text = MINT_BUF_INIT;
    mint_json_string(r->doc, mint_json_get(r->doc, 0, "message"), &text);
    mint_fail(err, MINT_ESCHEMA, "test %zu %s", test, text.len ? text.data : "is wrong");
    mint_buf_release(&text);
    return -1;
}

static int take_verdict(struct mint_code_runner *r, const struct mint_box *box, size_t test,
                        struct mint_code_result *res, struct mint_err *err)
{
    struct mint_buf text = MINT_BUF_INIT;
    if (said(r, "v", "ok")) {
        res->verdict = MINT_CODE_OK;
    } else if (said(r, "v", "bad")) {
        return bad_test(r, test, err);
    } else if (said(r, "v", "gone")) {
        mint_code_blame(box, res);
    } else {
        bool unmet = said(r, "v", "unmet"), wrong = unmet || said(r, "v", "wrong");
        res->verdict = wrong ? MINT_CODE_WRONG : MINT_CODE_ERROR;
        if (unmet)
            mint_code_put(&res->why, "message", "no assert was reached", 21);
        keep(r, "got", "got", &res->why);
        keep(r, "want", "want", &res->why);
        keep(r, "message", wrong ? "message" : "error", &res->why);
        mint_json_string(r->doc, mint_json_get(r->doc, 0, "message"), &text);
        if (!wrong && text.len && !strncmp(text.data, "MemoryError", 11))
            res->verdict = MINT_CODE_MEMORY;
        mint_buf_release(&text);
    }
    return 0;
}

int mint_code_judge(struct mint_code_runner *r, const struct mint_box_spec *solution,
                    const struct mint_code_tests *all, const struct mint_code_test *t,
                    struct mint_code_result *res, struct mint_err *err)
{
    struct mint_box box = {0};
    struct mint_buf text = MINT_BUF_INIT;
    MINT_TRY(start_judge(r, solution->argv[0], err));
    MINT_TRY(mint_box_start(r->sandbox, solution, &box, err));
    mint_box_forgive(&r->judge);
    put_task(r, 'T', all, t);
    int rc = 0, spoke = converse(r, &box, &text);
    mint_box_kill(&box);
    mint_box_wait(&box);
    res->seconds = box.seconds;
    if (r->judge.end == MINT_BOX_FAILED)
        rc = mint_code_box_failed(&r->judge, err);
    else if (box.end == MINT_BOX_FAILED)
        rc = mint_code_box_failed(&box, err);
    else if (spoke)
        rc = take_verdict(r, &box, (size_t)(t - all->v), res, err);
    else
        mint_code_blame(r->judge.end && box.end == MINT_BOX_KILLED ? &r->judge : &box, res);
    if (!spoke || (rc == 0 && said(r, "v", "gone")))
        mint_box_release(&r->judge); /* perhaps still in the middle of it */
    mint_buf_release(&text);
    mint_box_release(&box);
    return rc;
}

/* What the judge said of a test without a program. */
static int heed(struct mint_code_runner *r, const struct mint_json *doc,
                const struct mint_code_tests *all, size_t i, struct mint_err *err)
{
    const struct mint_code_test *t = &all->v[i];
    if (said(r, "v", "bad"))
        return bad_test(r, i, err);
    if (t->kind == MINT_CODE_CALL && said(r, "v", "value") &&
        mint_code_same_value(r->doc, mint_json_get(r->doc, 0, "value"), doc, t->expect,
                             t->tolerance))
        return mint_fail(err, MINT_ESCHEMA, "test %zu tests nothing: it passes without any program",
                         i);
    return 0;
}

static int examine(struct mint_code_runner *r, const struct mint_json *doc,
                   const struct mint_code_tests *all, size_t i, struct mint_err *err)
{
    struct mint_box nobody = {.in_fd = -1}, *judge = &r->judge;
    struct mint_buf text = MINT_BUF_INIT; /* what r->doc looks at */
    double start = mint_now();
    int got = 0, rc = 0;
    mint_box_forgive(judge);
    put_task(r, 'C', all, &all->v[i]);
    while (!got && !judge->end && mint_now() - start < examine_seconds) {
        mint_box_step(&judge, 1);
        got = carry_from_judge(r, &nobody, &text);
    }
    if (got == 1)
        rc = heed(r, doc, all, i, err);
    else if (judge->end == MINT_BOX_FAILED)
        rc = mint_code_box_failed(judge, err);
    if (got != 1) /* the test does something, be it to the judge */
        mint_box_release(judge);
    mint_buf_release(&text);
    mint_buf_release(&nobody.to_send);
    return rc;
}

int mint_code_examine(struct mint_code_runner *r, const struct mint_json *doc,
                      const struct mint_code_tests *t, struct mint_err *err)
{
    int rc = 0;
    bool any = false;
    for (size_t i = 0; i < t->n; i++)
        any = any || t->v[i].kind != MINT_CODE_STDIO;
    if (!any || (t->raw_n == r->examined.len && !memcmp(t->raw, r->examined.data, t->raw_n)))
        return 0;
    char *python = mint_code_program(r, mint_code_lang("python", 6), err);
    if (!python)
        return -1;
    for (size_t i = 0; rc == 0 && i < t->n; i++) {
        if (t->v[i].kind != MINT_CODE_STDIO && (rc = start_judge(r, python, err)) == 0)
            rc = examine(r, doc, t, i, err);
    }
    free(python);
    if (rc == 0) {
        mint_buf_reset(&r->examined);
        mint_buf_add(&r->examined, t->raw, t->raw_n);
    }
    return rc;
}

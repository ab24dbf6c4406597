/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The scorer cmd: somebody else's program. It gets one JSON line a sequence,
 *   {fields of the record, "sample": index, fields of the sequence}
 * without the token arrays, and answers a number or {"score": number, ...}.
 */
#include <stdlib.h>
#include <string.h>

#include "mem.h"
#include "score.h"
#include "score_coproc.h"

/* An answer beyond this is not kept as detail: the record should stay a record. */
enum { DETAIL_MAX = 64 * 1024 };

struct cmd {
    struct mint_score_opts o;
    struct mint_coproc proc;
    struct mint_buf line, answer;
    struct mint_json *doc;
    bool answered; /* once at least */
};

static int open_cmd(const struct mint_score_opts *o, void **state, struct mint_err *err)
{
    if (!o->command || !*o->command)
        return mint_fail(err, MINT_EUSAGE, "cmd needs --command");
    struct cmd *c = mint_xcalloc(1, sizeof(*c));
    c->o = *o;
    c->doc = mint_json_new();
    mint_coproc_init(&c->proc, o->command);
    *state = c;
    return 0;
}

static void close_cmd(void *state)
{
    struct cmd *c = state;
    if (!c)
        return;
    mint_coproc_close(&c->proc);
    mint_json_free(c->doc);
    mint_buf_release(&c->line);
    mint_buf_release(&c->answer);
    free(c);
}

static bool hidden(const struct mint_json *j, mint_json_val v, bool of_sequence)
{
    static const char *const of_record[] = {"prompt_tokens", "sequences", "sampling", "sample"};
    static const char *const of_seq[] = {"tokens", "logprobs", "ref_logprobs", "sample"};
    for (size_t i = 0; i < MINT_ARRAY_LEN(of_seq); i++) {
        if (mint_json_key_is(j, v, of_sequence ? of_seq[i] : of_record[i]))
            return true;
    }
    return false;
}

static void put_member(const struct mint_json *j, mint_json_val v, struct mint_buf *b)
{
    size_t key_n, n;
    const char *key = mint_json_key(j, v, &key_n), *val = mint_json_raw(j, v, &n);
    mint_buf_adds(b, b->len > 1 ? ",\"" : "\"");
    mint_buf_add(b, key, key_n);
    mint_buf_adds(b, "\":");
    mint_buf_add(b, val, n);
}

static bool in_object(const struct mint_json *j, mint_json_val obj, mint_json_val member)
{
    size_t key_n;
    const char *key = mint_json_key(j, member, &key_n);
    char *name = mint_xstrndup(key, key_n);
    bool found = mint_json_get(j, obj, name) != MINT_JSON_NONE;
    free(name);
    return found;
}

static void put_question(const struct mint_score_task *t, struct mint_buf *b)
{
    const struct mint_json *j = t->doc;
    mint_json_val seq = t->group->seqs[t->index].val;
    bool id = false;
    mint_buf_reset(b);
    mint_buf_addc(b, '{');
    for (mint_json_val v = mint_json_first(j, 0); v != MINT_JSON_NONE; v = mint_json_next(j, v)) {
        id |= mint_json_key_is(j, v, "id");
        /* A name that both have is the sequence's. */
        if (!hidden(j, v, false) && !in_object(j, seq, v))
            put_member(j, v, b);
    }
    if (!id) {
        mint_buf_adds(b, b->len > 1 ? ",\"id\":" : "\"id\":");
        mint_buf_add(b, t->group->id_raw, t->group->id_raw_n);
    }
    mint_buf_adds(b, ",\"sample\":");
    mint_json_put_int(b, (int64_t)t->index);
    for (mint_json_val v = mint_json_first(j, seq); v != MINT_JSON_NONE; v = mint_json_next(j, v)) {
        if (!hidden(j, v, true))
            put_member(j, v, b);
    }
    mint_buf_addc(b, '}');
}

/* The members of the answer, whole, as detail; its "answer" votes. */
static void keep_detail(struct cmd *c, struct mint_score *out)
{
    size_t n;
    const char *raw = mint_json_raw(c->doc, 0, &n);
    if (n > DETAIL_MAX) {
        mint_buf_addf(&out->detail, "\"cut\":%zu", n);
        return;
    }
    mint_buf_add(&out->detail, raw + 1, n - 2);
    mint_json_val v = mint_json_get(c->doc, 0, "answer");
    mint_buf_reserve(&out->answer, 0);
    if (mint_json_string(c->doc, v, &out->answer)) {
        out->has_answer = true;
    } else if (mint_json_type(c->doc, v) == MINT_JSON_NUMBER) {
        raw = mint_json_raw(c->doc, v, &n);
        mint_buf_add(&out->answer, raw, n);
        out->has_answer = true;
    }
}

/* 0 a score, 1 the program says that it has none, -1 no valid answer. */
static int read_answer(struct cmd *c, struct mint_score *out, struct mint_err *err)
{
    const struct mint_json *j = c->doc;
    if (mint_json_parse(c->doc, c->answer.data ? c->answer.data : "", c->answer.len, err) < 0)
        return mint_wrap(err, "gave an answer that is no JSON: ");
    if (mint_json_type(j, 0) == MINT_JSON_NUMBER)
        return mint_json_double(j, 0, &out->value)
                   ? 0
                   : mint_fail(err, MINT_EIO, "gave no finite number");
    if (mint_json_type(j, 0) != MINT_JSON_OBJECT)
        return mint_fail(err, MINT_EIO, "gave neither a number nor an object");
    mint_json_val v = mint_json_get(j, 0, "score");
    if (mint_json_type(j, v) == MINT_JSON_NULL) {
        out->failed = true;
        keep_detail(c, out);
        return 1;
    }
    if (!mint_json_double(j, v, &out->value))
        return mint_fail(err, MINT_EIO, "gave an object whose \"score\" is no finite number");
    keep_detail(c, out);
    return 0;
}

static int score_cmd(void *state, const struct mint_score_task *t, struct mint_score *out,
                     struct mint_err *err)
{
    struct cmd *c = state;
    struct mint_err why;
    put_question(t, &c->line);
    for (int64_t tries = 1;; tries++) {
        mint_buf_reset(&c->answer);
        int rc =
            mint_coproc_ask(&c->proc, c->line.data, c->line.len, c->o.timeout, &c->answer, &why);
        if (rc < 0 && why.code == MINT_EUSAGE && !c->answered)
            return mint_fail(err, MINT_EIO, "cannot run '%s': the shell %s", c->o.command, why.msg);
        if (rc == 0) {
            c->answered = true;
            rc = read_answer(c, out, &why);
            if (rc >= 0)
                return 0;
            mint_coproc_kill(&c->proc); /* out of step, perhaps */
        }
        if (tries > c->o.retries) {
            mint_score_fail(out, "the command %s", why.msg);
            mint_buf_addf(&out->detail, ",\"tries\":%lld", (long long)tries);
            return 0;
        }
    }
}

const struct mint_scorer mint_scorer_cmd = {
    .name = "cmd",
    .summary =
        "what --command answers: a JSON line for each sequence, a number or {\"score\": n} back",
    .slow = true,
    .open = open_cmd,
    .score = score_cmd,
    .close = close_cmd,
};

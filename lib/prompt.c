/* SPDX-License-Identifier: Apache-2.0 */
#include "prompt.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "mem.h"

/* Appends the field's text: a string unescaped, a number or bool as it stands. */
static int add_field(const struct mint_json *doc, const char *name, size_t n, struct mint_buf *out,
                     struct mint_err *err)
{
    char *key = mint_xstrndup(name, n);
    mint_json_val v = mint_json_get(doc, 0, key);
    enum mint_json_type type = mint_json_type(doc, v);
    int rc = 0;
    if (type == MINT_JSON_STRING) {
        mint_json_string(doc, v, out);
    } else if (type == MINT_JSON_NUMBER || type == MINT_JSON_BOOL) {
        size_t len;
        const char *raw = mint_json_raw(doc, v, &len);
        mint_buf_add(out, raw, len);
    } else if (type == MINT_JSON_ABSENT) {
        rc = mint_fail(err, MINT_ESCHEMA, "the template names {%s}, which the record lacks", key);
    } else {
        rc = mint_fail(err, MINT_ESCHEMA, "the template names {%s}, which is no string or number",
                       key);
    }
    free(key);
    return rc;
}

static bool escape(char c, struct mint_buf *out)
{
    const char *from = "nt\\r", *to = "\n\t\\\r";
    const char *at = c ? strchr(from, c) : NULL;
    if (at)
        mint_buf_addc(out, to[at - from]);
    return at != NULL;
}

/* doc NULL: only the form is checked. */
static int walk(const char *t, const struct mint_json *doc, struct mint_buf *out,
                struct mint_err *err)
{
    for (const char *p = t; *p; p++) {
        if ((*p == '{' || *p == '}') && p[1] == *p) {
            mint_buf_addc(out, *p++);
        } else if (*p == '{') {
            const char *end = strchr(p, '}');
            if (!end || end == p + 1)
                return mint_fail(err, MINT_EUSAGE,
                                 "--template: '{' at byte %td begins no {field}; write {{ for a "
                                 "brace",
                                 p - t + 1);
            if (doc && add_field(doc, p + 1, (size_t)(end - p - 1), out, err) < 0)
                return -1;
            p = end;
        } else if (*p == '}') {
            return mint_fail(err, MINT_EUSAGE,
                             "--template: '}' at byte %td ends no field; write }} for a brace",
                             p - t + 1);
        } else if (*p == '\\' && escape(p[1], out)) {
            p++;
        } else {
            mint_buf_addc(out, *p);
        }
    }
    return 0;
}

int mint_template_check(const char *template, struct mint_err *err)
{
    struct mint_buf none = MINT_BUF_INIT;
    int rc = walk(template, NULL, &none, err);
    mint_buf_release(&none);
    return rc;
}

int mint_template_fill(const char *template, const struct mint_json *doc, struct mint_buf *out,
                       struct mint_err *err)
{
    return walk(template, doc, out, err);
}

/* The record's own token ids. */
static int given_tokens(const struct mint_prompt_opts *o, const struct mint_json *doc,
                        mint_json_val v, struct mint_buf *text, struct mint_tokens *tokens,
                        struct mint_err *err)
{
    size_t n = mint_json_size(doc, v);
    int32_t *ids = mint_xcalloc(n, sizeof *ids);
    int rc = mint_json_ints(doc, v, ids, n, 0, INT32_MAX, err);
    for (size_t i = 0; i < n && rc == 0; i++)
        mint_tokens_add(tokens, ids[i]);
    if (rc == 0)
        mint_decode(o->tok, ids, n, false, text);
    free(ids);
    return rc;
}

static int plain_text(const struct mint_prompt_opts *o, const struct mint_json *doc,
                      struct mint_buf *text, struct mint_err *err)
{
    if (o->template)
        return mint_template_fill(o->template, doc, text, err);
    mint_json_val prompt = mint_json_get(doc, 0, "prompt");
    if (mint_json_string(doc, prompt, text))
        return 0;
    if (prompt != MINT_JSON_NONE)
        return mint_json_fail(doc, prompt, err, "must be a string");
    if (mint_json_get(doc, 0, "messages") != MINT_JSON_NONE)
        return mint_fail(err, MINT_ESCHEMA,
                         "the record has messages: give --chat to render them by the model's "
                         "template");
    return mint_fail(err, MINT_ESCHEMA,
                     "the record has no prompt, messages or prompt_tokens; build one from its "
                     "fields with --template");
}

int mint_prompt_build(const struct mint_prompt_opts *o, const struct mint_json *doc,
                      struct mint_buf *text, struct mint_tokens *tokens, struct mint_err *err)
{
    mint_json_val given = mint_json_get(doc, 0, "prompt_tokens");
    mint_json_val messages = mint_json_get(doc, 0, "messages");
    if (given != MINT_JSON_NONE && !o->template)
        return given_tokens(o, doc, given, text, tokens, err);
    if (o->chat && messages != MINT_JSON_NONE && !o->template)
        return mint_chat_encode(o->chat, o->tok, doc, messages, mint_json_get(doc, 0, "tools"),
                                &o->chat_opts, text, tokens, err);
    struct mint_buf plain = MINT_BUF_INIT;
    int rc = plain_text(o, doc, &plain, err);
    if (rc == 0 && o->chat) {
        rc = mint_chat_encode_user(o->chat, o->tok, plain.data ? plain.data : "", plain.len,
                                   &o->chat_opts, text, tokens, err);
    } else if (rc == 0) {
        mint_buf_add(text, plain.data, plain.len);
        rc = mint_encode(o->tok, text->data, text->len, MINT_ENCODE_SPECIAL | MINT_ENCODE_BOS,
                         tokens, err);
    }
    mint_buf_release(&plain);
    return rc;
}

int mint_prompt_id(const struct mint_json *doc, uint64_t lineno, struct mint_buf *id,
                   struct mint_err *err)
{
    mint_json_val v = mint_json_get(doc, 0, "id");
    switch (mint_json_type(doc, v)) {
    case MINT_JSON_ABSENT:
        mint_buf_addf(id, "line:%" PRIu64, lineno);
        return 0;
    case MINT_JSON_STRING:
        mint_json_string(doc, v, id);
        return 0;
    case MINT_JSON_NUMBER: {
        size_t n;
        const char *raw = mint_json_raw(doc, v, &n);
        mint_buf_add(id, raw, n);
        return 0;
    }
    default:
        return mint_json_fail(doc, v, err, "must be a string or a number");
    }
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * prompt.h: from a prompt record to the tokens that the model is given.
 *
 * A record holds prompt_tokens, or messages (with --chat), or prompt; --template 'Q:
 * {question}\nA:' builds the text from any fields: {NAME} is the field's string (a number's text),
 * {{ and }} are braces, \n \t \\ are escapes. Read-only, so one builder may serve several threads.
 */
#ifndef MINT_PROMPT_H
#define MINT_PROMPT_H

#include "chat.h"
#include "json.h"
#include "tokenizer.h"

struct mint_prompt_opts {
    const struct mint_tokenizer *tok;
    const struct mint_chat *chat; /* NULL: no chat template */
    struct mint_chat_opts chat_opts;
    const char *template; /* NULL: none */
};

/* Checks a template's form once. */
int mint_template_check(const char *template, struct mint_err *err);
/* Fills it from the record's fields, appended to out. */
int mint_template_fill(const char *template, const struct mint_json *doc, struct mint_buf *out,
                       struct mint_err *err);

/* Tokens of the record's prompt, and its text as far as there is one (appended; a prompt_tokens
 * record is decoded). */
int mint_prompt_build(const struct mint_prompt_opts *o, const struct mint_json *doc,
                      struct mint_buf *text, struct mint_tokens *tokens, struct mint_err *err);

/* The record's id as text (string, or a number's text), appended; "line:N" without one. */
int mint_prompt_id(const struct mint_json *doc, uint64_t lineno, struct mint_buf *id,
                   struct mint_err *err);

#endif

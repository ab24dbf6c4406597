/* SPDX-License-Identifier: Apache-2.0 */
/*
 * chat_impl.h: what the sources chat*.c share; private to them.
 *
 *   chat.c         which family a model has, messages, encoding of a rendering
 *   chat_render.c  the families
 *   chat_json.c    values as the templates' filter tojson writes them
 */
#ifndef MINT_CHAT_IMPL_H
#define MINT_CHAT_IMPL_H

#include "chat.h"

struct chat_msg {
    char *role;
    struct mint_buf content;  /* if type is MINT_JSON_STRING */
    enum mint_json_type type; /* of content */
    mint_json_val v;          /* NONE for one that is not in the document */
};

/* A rendering in the making. */
struct chat_out {
    const struct mint_chat *chat;
    const struct mint_tokenizer *tok;
    const struct mint_json *j; /* NULL without a document */
    mint_json_val tools;       /* NONE or an array with something in it */
    const struct mint_chat_opts *opts;
    struct chat_msg *msgs;
    size_t msgs_n;
    bool put_in_front; /* msgs[0] is opts->system, the document's array begins at msgs[1] */
    struct mint_buf text;
    struct mint_span *spans; /* where content is */
    size_t spans_n, spans_cap;
    struct mint_err *err;
};

struct chat_family {
    const char *name;
    int (*render)(struct chat_out *o, int variant);
    int variant;
    bool tools, thinks;
    const char *system; /* default system message, NULL: none */
};

struct mint_chat {
    const struct chat_family *family;
    char *system; /* the template's own default, where it has one */
};

/* --- chat_render.c */
extern const struct chat_family chat_families[];
extern const size_t chat_families_n;
enum { CHAT_QWEN3_FIRST, CHAT_QWEN3, CHAT_QWEN3_2507 };

/* --- chat.c */
void chat_lit(struct chat_out *o, const char *s);           /* the template's own text */
void chat_put(struct chat_out *o, const char *s, size_t n); /* content */
void chat_guard(struct chat_out *o, size_t from); /* text from there to its end is content */
/* mint_fail with the message's place in front: "messages[2]". */
int chat_fail(struct chat_out *o, size_t msg, const char *fmt, ...) MINT_PRINTF(3, 4);

/* --- chat_json.c */
/* v as Python's json.dumps(v, ensure_ascii=False) writes it, as content. */
void chat_put_json(struct chat_out *o, mint_json_val v);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
#include "record.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { SKIPS_SAID = 5 };

static const char *const stdin_only[] = {"-"};

void mint_reader_init(struct mint_reader *r, const char *const *paths, size_t n, bool skip_bad)
{
    *r = (struct mint_reader){.paths = n ? paths : stdin_only,
                              .npaths = n ? n : 1,
                              .skip_bad = skip_bad,
                              .doc = mint_json_new()};
}

void mint_reader_close(struct mint_reader *r)
{
    mint_in_close(r->in);
    mint_json_free(r->doc);
    mint_arena_release(&r->arena);
    mint_buf_release(&r->text);
    free(r->own);
    r->in = NULL;
    r->doc = NULL;
    r->own = NULL;
    r->own_cap = 0;
}

void mint_reader_copy(struct mint_reader *to, const struct mint_reader *from)
{
    if (!to->doc)
        to->doc = mint_json_new();
    if (to->own_cap < from->len + 1) {
        free(to->own);
        to->own_cap = from->len + 1;
        to->own = mint_xmalloc(to->own_cap);
    }
    memcpy(to->own, from->line, from->len);
    to->own[from->len] = '\0';
    to->line = to->own;
    to->len = from->len;
    to->file = from->file;
    to->lineno = from->lineno;
    mint_arena_reset(&to->arena);
    if (mint_json_parse(to->doc, to->line, to->len, NULL) < 0)
        MINT_BUG("a record that was read cannot be read again");
}

const char *mint_reader_file(const struct mint_reader *r)
{
    return r->file ? r->file : r->paths[0];
}

uint64_t mint_reader_lineno(const struct mint_reader *r)
{
    return r->lineno;
}

int mint_reader_bad(struct mint_reader *r, struct mint_err *err)
{
    mint_wrap(err, "%s:%" PRIu64 ": ", mint_reader_file(r), mint_reader_lineno(r));
    if (!r->skip_bad)
        return -1;
    r->skipped++;
    if (r->on_skip && r->skipped <= SKIPS_SAID)
        r->on_skip(err->msg);
    else if (r->on_skip && r->skipped == SKIPS_SAID + 1)
        r->on_skip("further bad records are only counted");
    return 0;
}

/* Next line of any file: 1, 0, -1. The messages of zio.h name the file already. */
static int next_line(struct mint_reader *r, struct mint_err *err)
{
    for (;;) {
        if (!r->in) {
            if (r->at == r->npaths)
                return 0;
            if (mint_in_open(&r->in, r->paths[r->at], err) < 0)
                return -1;
        }
        int got = mint_in_line(r->in, &r->line, &r->len, err);
        r->file = strcmp(r->paths[r->at], "-") ? r->paths[r->at] : "stdin";
        r->lineno = mint_in_lineno(r->in);
        if (got)
            return got;
        mint_in_close(r->in);
        r->in = NULL;
        r->at++;
    }
}

int mint_reader_next(struct mint_reader *r, struct mint_err *err)
{
    for (;;) {
        int got = next_line(r, err);
        if (got != 1)
            return got;
        mint_arena_reset(&r->arena);
        got = mint_json_parse(r->doc, r->line, r->len, err);
        if (got == 0 && mint_json_type(r->doc, 0) != MINT_JSON_OBJECT)
            got = mint_fail(err, MINT_ESCHEMA, "a record must be one JSON object on one line");
        if (got == 0) {
            r->records++;
            return 1;
        }
        if (mint_reader_bad(r, err) < 0)
            return -1;
    }
}

const char *mint_record_text(struct mint_reader *r, mint_json_val v)
{
    enum mint_json_type type = mint_json_type(r->doc, v);
    if (type == MINT_JSON_NUMBER) {
        size_t n;
        const char *raw = mint_json_raw(r->doc, v, &n);
        return mint_arena_strndup(&r->arena, raw, n);
    }
    if (type != MINT_JSON_STRING)
        return NULL;
    mint_buf_reset(&r->text);
    mint_buf_reserve(&r->text, 0);
    if (!mint_json_string(r->doc, v, &r->text) || memchr(r->text.data, '\0', r->text.len))
        return NULL;
    return mint_arena_strndup(&r->arena, r->text.data, r->text.len);
}

int mint_record_missing(const struct mint_reader *r, mint_json_val v, const char *key,
                        struct mint_err *err)
{
    struct mint_buf path = MINT_BUF_INIT;
    mint_json_path(r->doc, v, &path);
    mint_fail(err, MINT_ESCHEMA, "%s%s%s is missing", path.len ? path.data : "",
              path.len ? "." : "", key);
    mint_buf_release(&path);
    return -1;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Opening a tokenizer and asking about its tokens. */
#include "tokenizer.h"

#include <stdlib.h>
#include <string.h>

#include "fs.h"
#include "mem.h"
#include "tokenizer_impl.h"

#define CONFIG_MAX ((size_t)64 << 20)

void mint_tokens_add(struct mint_tokens *t, int32_t id)
{
    if (t->n == t->cap) {
        t->cap = t->cap ? t->cap + t->cap / 2 : 64;
        t->v = mint_xreallocarray(t->v, t->cap, sizeof *t->v);
    }
    t->v[t->n++] = id;
}

void mint_tokens_release(struct mint_tokens *t)
{
    free(t->v);
    *t = (struct mint_tokens)MINT_TOKENS_INIT;
}

struct tok_entry *tok_entry_new(struct mint_tokenizer *t, int32_t id)
{
    if (id >= t->cap) {
        int32_t cap = MINT_MAX(id + 1, t->cap ? 2 * t->cap : 1024);
        t->entries = mint_xreallocarray(t->entries, (size_t)cap, sizeof *t->entries);
        memset(t->entries + t->cap, 0, (size_t)(cap - t->cap) * sizeof *t->entries);
        t->cap = cap;
    }
    t->size = MINT_MAX(t->size, id + 1);
    return &t->entries[id];
}

int mint_tokenizer_read(struct mint_tokenizer **tok, const char *json, size_t n,
                        struct mint_err *err)
{
    struct mint_tokenizer *t = mint_xcalloc(1, sizeof *t);
    t->bos_added = t->bos = t->eos = t->unk = -1;
    *tok = NULL;
    if (tok_load(t, json ? json : "", n, err)) { /* an empty file maps to NULL */
        mint_tokenizer_close(t);
        return -1;
    }
    *tok = t;
    return 0;
}

/* bos_token, eos_token: a string or an object with content; null and absent are none. */
static int named_token(const struct mint_tokenizer *t, const struct mint_json *j, const char *key,
                       int32_t *id, struct mint_err *err)
{
    mint_json_val v = mint_json_get(j, 0, key);
    if (mint_json_type(j, v) == MINT_JSON_OBJECT)
        v = mint_json_get(j, v, "content");
    enum mint_json_type type = mint_json_type(j, v);
    if (type == MINT_JSON_ABSENT || type == MINT_JSON_NULL)
        return 0;
    char *name = mint_json_strdup(j, v);
    if (!name)
        return mint_fail(err, MINT_EMODEL, "%s is not a string", key);
    *id = mint_tokenizer_id(t, name);
    if (*id < 0)
        mint_fail(err, MINT_EMODEL, "%s \"%s\" is not in tokenizer.json", key, name);
    free(name);
    return *id < 0 ? -1 : 0;
}

static int read_config(struct mint_tokenizer *t, const char *path, struct mint_err *err)
{
    char *text;
    size_t n;
    if (mint_fs_read_file(path, CONFIG_MAX, &text, &n, err))
        return -1;
    struct mint_json *j = mint_json_new();
    int bad = mint_json_parse(j, text, n, err);
    if (!bad && mint_json_type(j, 0) != MINT_JSON_OBJECT)
        bad = mint_fail(err, MINT_EMODEL, "not an object");
    if (!bad)
        bad = named_token(t, j, "bos_token", &t->bos, err) ||
              named_token(t, j, "eos_token", &t->eos, err);
    mint_json_free(j);
    free(text);
    return bad ? mint_wrap(err, "%s: ", path) : 0;
}

static int open_file(struct mint_tokenizer **tok, const char *path, struct mint_err *err)
{
    struct mint_map map;
    if (mint_fs_map(&map, path, err))
        return -1;
    int bad = mint_tokenizer_read(tok, map.data, map.n, err);
    mint_fs_unmap(&map);
    return bad ? mint_wrap(err, "%s: ", path) : 0;
}

int mint_tokenizer_open(struct mint_tokenizer **tok, const char *dir, struct mint_err *err)
{
    char *path = mint_fs_join(dir, "tokenizer.json");
    *tok = NULL;
    int bad = open_file(tok, path, err);
    free(path);
    if (bad)
        return -1;
    path = mint_fs_join(dir, "tokenizer_config.json");
    if (mint_fs_exists(path))
        bad = read_config(*tok, path, err);
    free(path);
    if (bad) {
        mint_tokenizer_close(*tok);
        *tok = NULL;
    }
    return bad;
}

void mint_tokenizer_close(struct mint_tokenizer *t)
{
    if (!t)
        return;
    mint_buf_release(&t->blob);
    free(t->entries);
    free(t->index.slots);
    free(t->merges.slots);
    free(t->whole);
    for (size_t i = 0; i < t->added_n; i++) {
        free(t->added[i].text);
        free(t->added[i].norm);
    }
    free(t->added);
    free(t->before.v);
    free(t->after.v);
    for (int i = 0; i < t->steps_n; i++)
        pcre2_code_free(t->steps[i].re);
    free(t);
}

int32_t mint_tokenizer_id(const struct mint_tokenizer *tok, const char *token)
{
    size_t n = strlen(token);
    for (size_t i = 0; i < tok->added_n; i++)
        if (tok->added[i].len == n && memcmp(tok->added[i].text, token, n) == 0)
            return tok->added[i].id;
    struct mint_buf bytes = MINT_BUF_INIT;
    bool raw;
    tok_text_bytes(token, n, &bytes, &raw);
    int32_t id = tok_index_find(tok, bytes.data, bytes.len, raw);
    mint_buf_release(&bytes);
    return id;
}

bool mint_tokenizer_has(const struct mint_tokenizer *tok, int32_t id)
{
    return id >= 0 && id < tok->size && tok->entries[id].flags != 0;
}

bool mint_tokenizer_is_special(const struct mint_tokenizer *tok, int32_t id)
{
    return mint_tokenizer_has(tok, id) && tok->entries[id].flags & TOK_SPECIAL;
}

int32_t mint_tokenizer_size(const struct mint_tokenizer *tok)
{
    return tok->size;
}

int32_t mint_tokenizer_bos(const struct mint_tokenizer *tok)
{
    return tok->bos_added >= 0 ? tok->bos_added : tok->bos;
}

int32_t mint_tokenizer_eos(const struct mint_tokenizer *tok)
{
    return tok->eos;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* tokenizer.json but for its two big tables: what kind of tokenizer it is, and whether we have that
 * kind. */
#include "tokenizer_impl.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mem.h"

struct loader {
    struct mint_tokenizer *t;
    const struct mint_json *j;
    struct mint_err *err;
};

static bool is_absent(const struct loader *l, mint_json_val v)
{
    enum mint_json_type type = mint_json_type(l->j, v);
    return type == MINT_JSON_ABSENT || type == MINT_JSON_NULL;
}

/* Reads a boolean member; absent or null is the default. */
static int get_bool(const struct loader *l, mint_json_val v, const char *where, const char *key,
                    bool *out)
{
    mint_json_val m = mint_json_get(l->j, v, key);
    if (is_absent(l, m) || mint_json_bool(l->j, m, out))
        return 0;
    return mint_fail(l->err, MINT_EMODEL, "%s.%s is neither true nor false", where, key);
}

/* The string member "type" of an object, free() it. */
static char *get_type(const struct loader *l, mint_json_val v, const char *where)
{
    char *s = mint_json_strdup(l->j, mint_json_get(l->j, v, "type"));
    if (!s)
        mint_fail(l->err, MINT_EMODEL, "%s has no type", where);
    return s;
}

static int unsupported(const struct loader *l, const char *where, const char *type)
{
    return mint_fail(l->err, MINT_EMODEL, "%s of type \"%s\" is not supported", where, type);
}

/* Calls step for v or, if v is a Sequence, for each of its parts (member `list`), nested ones too.
 */
static int each_part(struct loader *l, mint_json_val v, const char *where, const char *list,
                     int depth, int (*step)(struct loader *, mint_json_val, const char *type))
{
    if (mint_json_type(l->j, v) != MINT_JSON_OBJECT)
        return mint_fail(l->err, MINT_EMODEL, "%s is no object", where);
    if (depth > TOK_MAX_STEPS)
        return mint_fail(l->err, MINT_EMODEL, "%s is nested too deep", where);
    char *type = get_type(l, v, where);
    if (!type)
        return -1;
    int bad = 0;
    if (strcmp(type, "Sequence") == 0) {
        mint_json_val parts = mint_json_get(l->j, v, list);
        if (mint_json_type(l->j, parts) != MINT_JSON_ARRAY ||
            (mint_json_size(l->j, parts) && mint_json_is_numbers(l->j, parts)))
            bad = mint_fail(l->err, MINT_EMODEL, "%s.%s is no array of objects", where, list);
        for (mint_json_val p = mint_json_first(l->j, parts); !bad && p != MINT_JSON_NONE;
             p = mint_json_next(l->j, p))
            bad = each_part(l, p, where, list, depth + 1, step);
    } else {
        bad = step(l, v, type);
    }
    free(type);
    return bad;
}

/* --- normalizer. */
static int normalizer_step(struct loader *l, mint_json_val v, const char *type)
{
    (void)v;
    if (strcmp(type, "NFC") != 0)
        return unsupported(l, "normalizer", type);
    l->t->nfc = true;
    return 0;
}

/* --- pre_tokenizer. */
static const char gpt2_pattern[] =
    "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+";

static int add_step(struct loader *l, const char *pattern, size_t n, bool literal, bool drop_gaps)
{
    struct mint_tokenizer *t = l->t;
    if (t->steps_n == TOK_MAX_STEPS)
        return mint_fail(l->err, MINT_EMODEL, "pre_tokenizer has more than %d steps",
                         TOK_MAX_STEPS);
    struct tok_step *s = &t->steps[t->steps_n];
    if (tok_step_compile(s, pattern, n, literal, l->err))
        return mint_wrap(l->err, "pre_tokenizer: ");
    s->drop_gaps = drop_gaps;
    t->steps_n++;
    return 0;
}

static int split_step(struct loader *l, mint_json_val v)
{
    mint_json_val pattern = mint_json_get(l->j, v, "pattern");
    mint_json_val regex = mint_json_get(l->j, pattern, "Regex");
    mint_json_val literal = mint_json_get(l->j, pattern, "String");
    bool is_literal = is_absent(l, regex), invert = false;
    if (get_bool(l, v, "pre_tokenizer", "invert", &invert))
        return -1;
    char *behavior = mint_json_strdup(l->j, mint_json_get(l->j, v, "behavior"));
    bool isolated = behavior && strcmp(behavior, "Isolated") == 0;
    bool kept = behavior && strcmp(behavior, "Removed") == 0 && invert;
    free(behavior);
    if (!kept && (!isolated || invert))
        return mint_fail(l->err, MINT_EMODEL,
                         "pre_tokenizer Split is supported with behavior Isolated, or Removed and "
                         "inverted");
    struct mint_buf text = MINT_BUF_INIT;
    int bad = 0;
    if (!mint_json_string(l->j, is_literal ? literal : regex, &text) || text.len == 0)
        bad = mint_fail(l->err, MINT_EMODEL, "pre_tokenizer Split has no pattern");
    if (!bad)
        bad = add_step(l, text.data, text.len, is_literal, kept);
    mint_buf_release(&text);
    return bad;
}

static int byte_level_step(struct loader *l, mint_json_val v, bool *done)
{
    bool prefix = true, regex = true; /* the library's defaults */
    if (get_bool(l, v, "pre_tokenizer", "add_prefix_space", &prefix) ||
        get_bool(l, v, "pre_tokenizer", "use_regex", &regex))
        return -1;
    if (prefix)
        return mint_fail(l->err, MINT_EMODEL,
                         "pre_tokenizer ByteLevel with add_prefix_space is not supported");
    *done = true;
    return regex ? add_step(l, gpt2_pattern, sizeof gpt2_pattern - 1, false, false) : 0;
}

static int pre_tokenizer_step(struct loader *l, mint_json_val v, const char *type)
{
    /* Bytes are turned into characters by ByteLevel; what came behind it would see those. */
    if (l->t->byte_level)
        return mint_fail(l->err, MINT_EMODEL, "pre_tokenizer %s behind ByteLevel is not supported",
                         type);
    if (strcmp(type, "Split") == 0)
        return split_step(l, v);
    if (strcmp(type, "ByteLevel") == 0)
        return byte_level_step(l, v, &l->t->byte_level);
    if (strcmp(type, "Digits") == 0) {
        bool one = false;
        if (get_bool(l, v, "pre_tokenizer", "individual_digits", &one))
            return -1;
        return one ? add_step(l, "\\p{N}", 5, false, false)
                   : add_step(l, "\\p{N}+", 6, false, false);
    }
    return unsupported(l, "pre_tokenizer", type);
}

/* --- post_processor: nothing, or one BOS in front. */
static int template_bos(struct loader *l, mint_json_val v, const char *name)
{
    mint_json_val token = MINT_JSON_NONE;
    mint_json_val all = mint_json_get(l->j, v, "special_tokens");
    for (mint_json_val m = mint_json_first(l->j, all); m != MINT_JSON_NONE;
         m = mint_json_next(l->j, m))
        if (mint_json_type(l->j, all) == MINT_JSON_OBJECT && mint_json_key_is(l->j, m, name))
            token = m;
    mint_json_val ids = mint_json_get(l->j, token, "ids");
    int32_t id;
    if (mint_json_type(l->j, ids) != MINT_JSON_ARRAY ||
        mint_json_ints(l->j, ids, &id, 1, 0, TOK_MAX_ID - 1, NULL))
        return mint_fail(l->err, MINT_EMODEL, "post_processor: \"%s\" has no single id", name);
    if (!mint_tokenizer_has(l->t, id))
        return mint_fail(l->err, MINT_EMODEL, "post_processor: \"%s\": no token has id %d", name,
                         (int)id);
    l->t->bos_added = id;
    return 0;
}

static int template_step(struct loader *l, mint_json_val v)
{
    mint_json_val single = mint_json_get(l->j, v, "single");
    bool seen = false;
    for (mint_json_val p = mint_json_first(l->j, single); p != MINT_JSON_NONE;
         p = mint_json_next(l->j, p)) {
        mint_json_val special = mint_json_get(l->j, p, "SpecialToken");
        if (mint_json_type(l->j, mint_json_get(l->j, p, "Sequence")) == MINT_JSON_OBJECT && !seen) {
            seen = true;
            continue;
        }
        char *name = mint_json_strdup(l->j, mint_json_get(l->j, special, "id"));
        if (!name || seen || l->t->bos_added >= 0) {
            free(name);
            return mint_fail(l->err, MINT_EMODEL,
                             "post_processor TemplateProcessing adds more than one token in front");
        }
        int bad = template_bos(l, v, name);
        free(name);
        if (bad)
            return -1;
    }
    return seen ? 0
                : mint_fail(l->err, MINT_EMODEL, "post_processor TemplateProcessing has no text");
}

static int post_processor_step(struct loader *l, mint_json_val v, const char *type)
{
    if (strcmp(type, "ByteLevel") == 0) /* moves offsets, adds nothing */
        return 0;
    if (strcmp(type, "TemplateProcessing") == 0)
        return template_step(l, v);
    return unsupported(l, "post_processor", type);
}

static int decoder_step(struct loader *l, mint_json_val v, const char *type)
{
    (void)v;
    return strcmp(type, "ByteLevel") == 0 ? 0 : unsupported(l, "decoder", type);
}

/* --- added_tokens. */
static int added_entry(struct loader *l, const struct tok_added *a)
{
    struct mint_tokenizer *t = l->t;
    struct mint_buf bytes = MINT_BUF_INIT;
    bool raw;
    tok_text_bytes(a->text, a->len, &bytes, &raw);
    int32_t known = tok_index_find(t, bytes.data, bytes.len, raw);
    struct tok_entry *e = tok_entry_new(t, a->id);
    int bad = 0;
    if (known >= 0 && known != a->id)
        bad = mint_fail(l->err, MINT_EMODEL, "added token \"%s\" has id %d, but %d in model.vocab",
                        a->text, (int)a->id, (int)known);
    else if (known < 0 && e->flags)
        bad = mint_fail(l->err, MINT_EMODEL, "added token \"%s\" has the id %d of another token",
                        a->text, (int)a->id);
    else if (known >= 0 && e->flags & TOK_ADDED)
        bad = mint_fail(l->err, MINT_EMODEL, "added token \"%s\" is there twice", a->text);
    if (!bad && known < 0) {
        *e = (struct tok_entry){(uint32_t)t->blob.len, (uint32_t)bytes.len,
                                (uint8_t)(TOK_PRESENT | (raw ? TOK_RAW : 0))};
        mint_buf_add(&t->blob, bytes.data, bytes.len);
    }
    e->flags |= (uint8_t)(TOK_ADDED | (a->special ? TOK_SPECIAL : 0));
    mint_buf_release(&bytes);
    return bad;
}

static int read_added(struct loader *l, mint_json_val v, size_t i)
{
    struct mint_tokenizer *t = l->t;
    struct tok_added *a = &t->added[i];
    char where[40];
    snprintf(where, sizeof where, "added_tokens[%zu]", i);
    int64_t id;
    a->text = mint_json_strdup(l->j, mint_json_get(l->j, v, "content"));
    t->added_n = i + 1;
    if (!a->text || !*a->text)
        return mint_fail(l->err, MINT_EMODEL, "%s has no content", where);
    a->len = strlen(a->text);
    if (!mint_json_int(l->j, mint_json_get(l->j, v, "id"), &id) || id < 0 || id >= TOK_MAX_ID)
        return mint_fail(l->err, MINT_EMODEL, "%s.id is no whole number from 0 to %d", where,
                         (int)TOK_MAX_ID - 1);
    a->id = (int32_t)id;
    a->normalized = true;
    bool single = false, left = false, right = false;
    if (get_bool(l, v, where, "special", &a->special) ||
        get_bool(l, v, where, "normalized", &a->normalized) ||
        get_bool(l, v, where, "single_word", &single) || get_bool(l, v, where, "lstrip", &left) ||
        get_bool(l, v, where, "rstrip", &right))
        return -1;
    if (single || left || right)
        return mint_fail(l->err, MINT_EMODEL, "%s (\"%s\"): %s is not supported", where, a->text,
                         single ? "single_word"
                         : left ? "lstrip"
                                : "rstrip");
    if (a->normalized && t->nfc && !tok_nfc_is_noop(a->text, a->len)) {
        struct mint_buf norm = MINT_BUF_INIT;
        tok_nfc(a->text, a->len, &norm);
        a->norm_len = norm.len;
        a->norm = mint_buf_detach(&norm);
    }
    return added_entry(l, a);
}

static int load_added(struct loader *l)
{
    struct mint_tokenizer *t = l->t;
    mint_json_val all = mint_json_get(l->j, 0, "added_tokens");
    size_t n = mint_json_size(l->j, all), i = 0;
    if (is_absent(l, all))
        return 0;
    if (mint_json_type(l->j, all) != MINT_JSON_ARRAY || (n && mint_json_is_numbers(l->j, all)))
        return mint_fail(l->err, MINT_EMODEL, "added_tokens is no array of objects");
    t->added = mint_xcalloc(n, sizeof *t->added);
    for (mint_json_val v = mint_json_first(l->j, all); v != MINT_JSON_NONE;
         v = mint_json_next(l->j, v))
        if (read_added(l, v, i++))
            return -1;
    return tok_patterns_build(&t->before, t->added, t->added_n, false, l->err) ||
                   tok_patterns_build(&t->after, t->added, t->added_n, true, l->err)
               ? -1
               : 0;
}

/* --- model. */
static int check_empty_string(const struct loader *l, mint_json_val model, const char *key)
{
    struct mint_buf s = MINT_BUF_INIT;
    mint_json_val v = mint_json_get(l->j, model, key);
    bool good = is_absent(l, v) || (mint_json_string(l->j, v, &s) && s.len == 0);
    mint_buf_release(&s);
    return good ? 0 : mint_fail(l->err, MINT_EMODEL, "model.%s is not supported", key);
}

static int check_model(struct loader *l, mint_json_val model)
{
    if (mint_json_type(l->j, model) != MINT_JSON_OBJECT)
        return mint_fail(l->err, MINT_EMODEL, "there is no object \"model\"");
    mint_json_val type = mint_json_get(l->j, model, "type");
    char *name = mint_json_strdup(l->j, type);
    bool bpe = is_absent(l, type) || (name && strcmp(name, "BPE") == 0);
    if (!bpe)
        mint_fail(l->err, MINT_EMODEL, "model of type \"%s\" is not supported, only BPE",
                  name ? name : "?");
    free(name);
    if (!bpe)
        return -1;
    bool fallback = false;
    double dropout = 0;
    mint_json_val drop = mint_json_get(l->j, model, "dropout");
    if (!is_absent(l, drop) &&
        (!mint_json_double(l->j, drop, &dropout) || dropout < 0 || dropout > 0))
        return mint_fail(l->err, MINT_EMODEL, "model.dropout is not supported");
    if (check_empty_string(l, model, "continuing_subword_prefix") ||
        check_empty_string(l, model, "end_of_word_suffix") ||
        get_bool(l, model, "model", "byte_fallback", &fallback) ||
        get_bool(l, model, "model", "fuse_unk", &l->t->fuse_unk) ||
        get_bool(l, model, "model", "ignore_merges", &l->t->ignore_merges))
        return -1;
    if (fallback)
        return mint_fail(l->err, MINT_EMODEL,
                         "model.byte_fallback is not supported, only byte-level vocabularies");
    return 0;
}

static int load_steps(struct loader *l)
{
    const struct mint_json *j = l->j;
    mint_json_val v = mint_json_get(j, 0, "normalizer");
    if (!is_absent(l, v) && each_part(l, v, "normalizer", "normalizers", 0, normalizer_step))
        return -1;
    if (each_part(l, mint_json_get(j, 0, "pre_tokenizer"), "pre_tokenizer", "pretokenizers", 0,
                  pre_tokenizer_step))
        return -1;
    if (!l->t->byte_level)
        return mint_fail(
            l->err, MINT_EMODEL,
            "pre_tokenizer has no ByteLevel: only byte-level vocabularies are supported");
    return each_part(l, mint_json_get(j, 0, "decoder"), "decoder", "decoders", 0, decoder_step);
}

/* model.unk_token: for bytes that the vocabulary lacks (SmolLM2's has not all of them). */
static int load_unk(struct loader *l)
{
    mint_json_val v = mint_json_get(l->j, mint_json_get(l->j, 0, "model"), "unk_token");
    if (is_absent(l, v))
        return 0;
    char *name = mint_json_strdup(l->j, v);
    if (name)
        l->t->unk = mint_tokenizer_id(l->t, name);
    free(name);
    return l->t->unk >= 0
               ? 0
               : mint_fail(l->err, MINT_EMODEL, "model.unk_token is not in the vocabulary");
}

static int load_rest(struct loader *l, const char *json, const struct tok_cut *cut)
{
    const struct mint_json *j = l->j;
    if (mint_json_type(j, 0) != MINT_JSON_OBJECT)
        return mint_fail(l->err, MINT_EMODEL, "this is no object");
    if (check_model(l, mint_json_get(j, 0, "model")) || load_steps(l))
        return -1;
    if (!cut->vocab_end)
        return mint_fail(l->err, MINT_EMODEL, "there is no object model.vocab");
    if (!cut->merges_end)
        return mint_fail(l->err, MINT_EMODEL, "there is no array model.merges");
    if (tok_tables_vocab(l->t, json, cut, l->err) || tok_tables_merges(l->t, json, cut, l->err) ||
        load_added(l) || load_unk(l))
        return -1;
    mint_json_val post = mint_json_get(j, 0, "post_processor");
    if (!is_absent(l, post) &&
        each_part(l, post, "post_processor", "processors", 0, post_processor_step))
        return -1;
    if (l->t->blob.len > UINT32_MAX)
        return mint_fail(l->err, MINT_EMODEL, "the tokens are larger than 4 GB");
    l->t->whole = mint_xcalloc((size_t)l->t->size, 1);
    return 0;
}

/* The text without its two tables, for json.h. */
static void without_tables(struct mint_buf *b, const char *json, size_t n,
                           const struct tok_cut *cut)
{
    struct {
        size_t from, to;
        const char *instead;
    } c[2] = {{cut->vocab, cut->vocab_end, "{}"}, {cut->merges, cut->merges_end, "[]"}}, swap;
    if (c[0].from > c[1].from)
        swap = c[0], c[0] = c[1], c[1] = swap;
    size_t at = 0;
    for (int i = 0; i < 2; i++) {
        if (!c[i].to)
            continue;
        mint_buf_add(b, json + at, c[i].from - at);
        mint_buf_adds(b, c[i].instead);
        at = c[i].to;
    }
    mint_buf_add(b, json + at, n - at);
}

int tok_load(struct mint_tokenizer *t, const char *json, size_t n, struct mint_err *err)
{
    struct tok_cut cut;
    struct mint_buf rest = MINT_BUF_INIT;
    struct mint_json *j = mint_json_new();
    struct loader l = {t, j, err};
    tok_tables_find(&cut, json, n);
    without_tables(&rest, json, n, &cut);
    int bad = mint_json_parse(j, rest.data, rest.len, err);
    if (bad) /* once more as a whole, for a place that counts from the start of the file */
        mint_json_parse(j, json, n, err);
    else
        bad = load_rest(&l, json, &cut);
    mint_json_free(j);
    mint_buf_release(&rest);
    return bad;
}

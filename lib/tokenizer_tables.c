/* SPDX-License-Identifier: Apache-2.0 */
/*
 * model.vocab and model.merges. They are nearly all of a tokenizer.json (10 MB, a million values),
 * and every tool that starts has to read them: so they are found by skipping over the text and read
 * here in one pass, as strict as json.h; the rest of the file goes through json.h without them.
 */
#include "tokenizer_impl.h"

#include <stdlib.h>
#include <string.h>

#include "mem.h"

struct reader {
    const char *s; /* the whole text */
    size_t at, n;
    const char *what; /* for messages: "model.vocab" */
    struct mint_err *err;
};

static int fail_at(const struct reader *r, const char *why)
{
    return mint_fail(r->err, MINT_EFORMAT, "%s: byte %zu: %s", r->what, r->at + 1, why);
}

static void skip_space(struct reader *r)
{
    while (r->at < r->n && (r->s[r->at] == ' ' || r->s[r->at] == '\n' || r->s[r->at] == '\t' ||
                            r->s[r->at] == '\r'))
        r->at++;
}

/* The next byte behind white space, '\0' at the end. */
static inline char peek(struct reader *r)
{
    if (r->at < r->n && (unsigned char)r->s[r->at] <= ' ')
        skip_space(r);
    return r->at < r->n ? r->s[r->at] : '\0';
}

static bool take(struct reader *r, char c)
{
    if (peek(r) != c || r->at == r->n)
        return false;
    r->at++;
    return true;
}

/* --- finding the two values. Nothing is checked here: json.h sees the same bytes later. */

/* Over a string whose quote is at r->at; *body, *len: what is between the quotes. */
static bool skip_string(struct reader *r, const char **body, size_t *len)
{
    if (!take(r, '"'))
        return false;
    *body = r->s + r->at;
    for (; r->at < r->n; r->at++) {
        if (r->s[r->at] == '\\')
            r->at++;
        else if (r->s[r->at] == '"')
            break;
    }
    if (r->at >= r->n)
        return false;
    *len = (size_t)(r->s + r->at - *body);
    r->at++;
    return true;
}

static bool skip_value(struct reader *r)
{
    size_t depth = 0;
    const char *body;
    size_t len;
    do {
        char c = peek(r);
        if (r->at >= r->n)
            return false;
        if (c == '"') {
            if (!skip_string(r, &body, &len))
                return false;
            continue;
        }
        if (depth == 0 && (c == ',' || c == '}' || c == ']'))
            return false;
        depth += c == '{' || c == '[';
        depth -= c == '}' || c == ']';
        r->at++;
        if (depth == 0 && c != '}' && c != ']') /* a literal or number: up to its end */
            while (r->at < r->n && !strchr(",}] \n\t\r", r->s[r->at]))
                r->at++;
    } while (depth);
    return true;
}

/* Calls on(key, start, end of value) for each member of the object at r->at. */
static bool each_member(struct reader *r,
                        bool (*on)(struct reader *, const char *, size_t, struct tok_cut *),
                        struct tok_cut *cut)
{
    const char *key;
    size_t len;
    if (!take(r, '{'))
        return false;
    if (take(r, '}'))
        return true;
    do {
        if (peek(r) != '"' || !skip_string(r, &key, &len) || !take(r, ':') || !on(r, key, len, cut))
            return false;
    } while (take(r, ','));
    return take(r, '}');
}

static bool key_is(const char *key, size_t len, const char *want)
{
    return len == strlen(want) && memcmp(key, want, len) == 0;
}

static bool on_model_member(struct reader *r, const char *key, size_t len, struct tok_cut *cut)
{
    char open = peek(r);
    size_t from = r->at;
    if (!skip_value(r))
        return false;
    if (key_is(key, len, "vocab") && open == '{' && !cut->vocab_end)
        cut->vocab = from, cut->vocab_end = r->at;
    else if (key_is(key, len, "merges") && open == '[' && !cut->merges_end)
        cut->merges = from, cut->merges_end = r->at;
    return true;
}

static bool on_member(struct reader *r, const char *key, size_t len, struct tok_cut *cut)
{
    if (key_is(key, len, "model") && peek(r) == '{')
        return each_member(r, on_model_member, cut);
    return skip_value(r);
}

void tok_tables_find(struct tok_cut *cut, const char *json, size_t n)
{
    struct reader r = {json, 0, n, "", NULL};
    *cut = (struct tok_cut){0};
    each_member(&r, on_member, cut);
}

/* --- strings. */

/* The byte that a character of the byte-level alphabet stands for, -1 for any other character.
 * Printable Latin-1 stands for itself; the 68 other bytes follow, ascending, from U+0100. */
static int char_byte(uint32_t c)
{
    if ((c >= 0x21 && c <= 0x7e) || (c >= 0xa1 && c <= 0xff && c != 0xad))
        return (int)c;
    if (c < 0x100 || c > 0x143)
        return -1;
    c -= 0x100;
    return c <= 0x20 ? (int)c : c <= 0x42 ? (int)(c - 0x21 + 0x7f) : 0xad;
}

void tok_text_bytes(const char *s, size_t n, struct mint_buf *out, bool *raw)
{
    size_t keep = out->len;
    mint_buf_reserve(out, n);
    for (size_t i = 0; i < n;) {
        unsigned char c = (unsigned char)s[i];
        bool two = c >= 0xc2 && c < 0xe0 && i + 1 < n;
        int byte = -1;
        if (two)
            byte = char_byte((c & 0x1fu) << 6 | ((unsigned char)s[i + 1] & 0x3fu));
        else if (c < 0x80)
            byte = char_byte(c);
        if (byte < 0) {
            out->len = keep;
            mint_buf_add(out, s, n);
            *raw = true;
            return;
        }
        out->data[out->len++] = (char)byte;
        i += two ? 2 : 1;
    }
    out->data[out->len] = '\0';
    *raw = false;
}

static int hex4(const struct reader *r, size_t at)
{
    int v = 0;
    for (size_t i = at; i < at + 4; i++) {
        char c = i < r->n ? r->s[i] : '\0';
        int d = c >= '0' && c <= '9'   ? c - '0'
                : c >= 'a' && c <= 'f' ? c - 'a' + 10
                : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                       : -1;
        if (d < 0)
            return -1;
        v = v << 4 | d;
    }
    return v;
}

static void put_utf8(struct mint_buf *b, uint32_t c)
{
    char u[4];
    size_t n = c < 0x80 ? 1 : c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
    static const unsigned char lead[5] = {0, 0, 0xc0, 0xe0, 0xf0};
    for (size_t i = n; i-- > 1; c >>= 6)
        u[i] = (char)(0x80 | (c & 0x3f));
    u[0] = (char)(lead[n] | c);
    mint_buf_add(b, u, n);
}

/* Behind a backslash. */
static int read_escape(struct reader *r, struct mint_buf *out)
{
    static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
    char c = r->at < r->n ? r->s[r->at] : '\0';
    const char *known = c ? strchr(from, c) : NULL;
    if (known) {
        r->at++;
        mint_buf_addc(out, to[known - from]);
        return 0;
    }
    int u = c == 'u' ? hex4(r, r->at + 1) : -1;
    if (u < 0)
        return fail_at(r, "bad escape in a string");
    uint32_t cp = (uint32_t)u;
    r->at += 5;
    if (cp >= 0xd800 && cp < 0xdc00) {
        int low = r->at + 1 < r->n && r->s[r->at] == '\\' && r->s[r->at + 1] == 'u'
                      ? hex4(r, r->at + 2)
                      : -1;
        if (low < 0xdc00 || low > 0xdfff)
            return fail_at(r, "lone surrogate in a string");
        cp = 0x10000 + ((cp - 0xd800) << 10) + ((uint32_t)low - 0xdc00);
        r->at += 6;
    } else if (cp >= 0xdc00 && cp < 0xe000) {
        return fail_at(r, "lone surrogate in a string");
    }
    put_utf8(out, cp);
    return 0;
}

/* A JSON string as UTF-8, appended to out. */
static int read_string(struct reader *r, struct mint_buf *out)
{
    if (!take(r, '"'))
        return fail_at(r, "a string is expected");
    while (r->at < r->n) {
        unsigned char c = (unsigned char)r->s[r->at];
        if (c == '"') {
            r->at++;
            return 0;
        }
        if (c == '\\') {
            r->at++;
            if (read_escape(r, out))
                return -1;
            continue;
        }
        if (c < 0x20)
            return fail_at(r, "control byte in a string");
        bool valid;
        size_t part = tok_utf8_part(r->s + r->at, r->n - r->at, &valid);
        if (!valid)
            return fail_at(r, "invalid UTF-8");
        mint_buf_add(out, r->s + r->at, part);
        r->at += part;
    }
    return fail_at(r, "the text ends in a string");
}

/*
 * A token: the bytes it stands for, appended to out. Nearly all tokens are plain characters of the
 * alphabet, so those are turned at once, and anything else starts again on the long way.
 */
static int read_token(struct reader *r, struct mint_buf *out, struct mint_buf *text, bool *raw)
{
    size_t keep = out->len;
    if (peek(r) == '"') {
        const unsigned char *s = (const unsigned char *)r->s;
        size_t i = r->at + 1;
        for (; i < r->n && s[i] != '"' && s[i] != '\\'; i++) {
            uint32_t c = s[i];
            if (c >= 0xc2 && c <= 0xc5 && i + 1 < r->n && (s[i + 1] & 0xc0) == 0x80)
                c = (c & 0x1f) << 6 | (s[++i] & 0x3fu);
            else if (c >= 0x80)
                break;
            int byte = char_byte(c);
            if (byte < 0)
                break;
            mint_buf_reserve(out, 1);
            out->data[out->len++] = (char)byte;
        }
        if (i < r->n && s[i] == '"') {
            r->at = i + 1;
            *raw = false;
            mint_buf_reserve(out, 0);
            return 0;
        }
        out->len = keep;
    }
    mint_buf_reset(text);
    if (read_string(r, text))
        return -1;
    tok_text_bytes(text->data ? text->data : "", text->len, out, raw);
    return 0;
}

/* --- model.vocab. */
static int read_id(struct reader *r, int32_t *id)
{
    peek(r);
    size_t from = r->at;
    int64_t v = 0;
    while (r->at < r->n && r->s[r->at] >= '0' && r->s[r->at] <= '9' && v < TOK_MAX_ID)
        v = v * 10 + (r->s[r->at++] - '0');
    if (r->at == from || (r->s[from] == '0' && r->at > from + 1) ||
        (r->at < r->n && strchr(".eE+-", r->s[r->at])))
        return fail_at(r, "an id is expected, a whole number from 0");
    if (v >= TOK_MAX_ID)
        return mint_fail(r->err, MINT_EMODEL, "%s: byte %zu: id is above %d", r->what, from + 1,
                         (int)TOK_MAX_ID - 1);
    *id = (int32_t)v;
    return 0;
}

static int read_member(struct reader *r, struct mint_tokenizer *t, struct mint_buf *text)
{
    size_t from = t->blob.len;
    bool raw;
    int32_t id = 0;
    if (read_token(r, &t->blob, text, &raw))
        return -1;
    if (!take(r, ':'))
        return fail_at(r, "':' is expected");
    if (read_id(r, &id))
        return -1;
    size_t len = t->blob.len - from;
    if (t->blob.len > UINT32_MAX)
        return mint_fail(r->err, MINT_EMODEL, "%s is larger than 4 GB", r->what);
    struct tok_entry *e = tok_entry_new(t, id);
    if (e->flags)
        return mint_fail(r->err, MINT_EMODEL, "%s: byte %zu: two tokens have id %d", r->what, r->at,
                         (int)id);
    *e = (struct tok_entry){(uint32_t)from, (uint32_t)len,
                            (uint8_t)(TOK_PRESENT | (raw ? TOK_RAW : 0))};
    return 0;
}

static int build_index(struct mint_tokenizer *t, size_t count, struct mint_err *err)
{
    tok_index_build(t, count);
    for (int32_t id = 0; id < t->size; id++) {
        if (!t->entries[id].flags)
            continue;
        int32_t twin = tok_index_add(t, id);
        if (twin >= 0)
            return mint_fail(err, MINT_EMODEL, "model.vocab has one token twice, as %d and as %d",
                             (int)twin, (int)id);
    }
    for (int b = 0; b < 256; b++) {
        char c = (char)b;
        t->byte_id[b] = tok_index_find(t, &c, 1, false);
    }
    return 0;
}

int tok_tables_vocab(struct mint_tokenizer *t, const char *json, const struct tok_cut *cut,
                     struct mint_err *err)
{
    struct reader r = {json, cut->vocab, cut->vocab_end, "model.vocab", err};
    struct mint_buf text = MINT_BUF_INIT;
    size_t count = 0;
    int bad = 0;
    take(&r, '{');
    mint_buf_reserve(&t->blob, (cut->vocab_end - cut->vocab) / 2);
    if (!take(&r, '}')) {
        do {
            bad = read_member(&r, t, &text);
            count++;
        } while (!bad && take(&r, ','));
        if (!bad && !take(&r, '}'))
            bad = fail_at(&r, "',' or '}' is expected");
    }
    mint_buf_release(&text);
    if (bad)
        return -1;
    if (count == 0)
        return mint_fail(err, MINT_EMODEL, "model.vocab is empty");
    return build_index(t, count, err);
}

/* --- model.merges. */
struct merge_reader {
    struct mint_buf text, bytes;
    struct tok_merge *v;
    size_t n, cap;
};

static int unknown(const struct reader *r, size_t rank, const char *which)
{
    return mint_fail(r->err, MINT_EMODEL, "%s[%zu] (byte %zu): %s is not in the vocabulary",
                     r->what, rank, r->at, which);
}

/* bytes holds both halves; the first has cut bytes. */
static int add_merge(struct reader *r, struct mint_tokenizer *t, struct merge_reader *m,
                     size_t half, bool raw_a, bool raw_b)
{
    const char *p = m->bytes.data;
    size_t n = m->bytes.len, rank = m->n;
    int32_t a = tok_index_find(t, p, half, raw_a);
    int32_t b = tok_index_find(t, p + half, n - half, raw_b);
    if (half == 0 || half == n)
        return mint_fail(r->err, MINT_EMODEL, "%s[%zu] has an empty half", r->what, rank);
    if (a < 0 || b < 0)
        return unknown(r, rank, a < 0 ? "its first half" : "its second half");
    int32_t id = -1;
    if (!raw_a && !raw_b) { /* merges come in the order of ids, mostly: try the next one first */
        int32_t guess = m->n && m->v[m->n - 1].id >= 0 ? m->v[m->n - 1].id + 1 : -1;
        if (guess >= 0 && guess < t->size && t->entries[guess].flags == TOK_PRESENT &&
            t->entries[guess].len == n && memcmp(t->blob.data + t->entries[guess].off, p, n) == 0)
            id = guess;
        else
            id = tok_index_find(t, p, n, false);
        if (id < 0)
            return unknown(r, rank, "what it makes");
    }
    if (m->n == m->cap) {
        m->cap = m->cap ? 2 * m->cap : 4096;
        m->v = mint_xreallocarray(m->v, m->cap, sizeof *m->v);
    }
    /* A half with characters outside the byte alphabet never comes up: kept for the count of ranks.
     */
    m->v[m->n++] = (struct tok_merge){a, b, (uint32_t)rank, id};
    return 0;
}

/* "a b": one space, which no character of the alphabet is. */
static int read_merge_string(struct reader *r, struct mint_tokenizer *t, struct merge_reader *m)
{
    bool raw_a, raw_b;
    mint_buf_reset(&m->text);
    if (read_string(r, &m->text))
        return -1;
    const char *s = m->text.data ? m->text.data : "", *end = s + m->text.len;
    const char *space = memchr(s, ' ', m->text.len);
    if (!space || memchr(space + 1, ' ', (size_t)(end - space - 1)))
        return mint_fail(r->err, MINT_EMODEL, "%s[%zu] (byte %zu) is not two tokens and one space",
                         r->what, m->n, r->at);
    mint_buf_reset(&m->bytes);
    tok_text_bytes(s, (size_t)(space - s), &m->bytes, &raw_a);
    size_t half = m->bytes.len;
    tok_text_bytes(space + 1, (size_t)(end - space - 1), &m->bytes, &raw_b);
    return add_merge(r, t, m, half, raw_a, raw_b);
}

static int read_merge_pair(struct reader *r, struct mint_tokenizer *t, struct merge_reader *m)
{
    bool raw_a, raw_b;
    r->at++;
    mint_buf_reset(&m->bytes);
    if (read_token(r, &m->bytes, &m->text, &raw_a))
        return -1;
    size_t half = m->bytes.len;
    if (!take(r, ','))
        return fail_at(r, "a merge has two tokens");
    if (read_token(r, &m->bytes, &m->text, &raw_b))
        return -1;
    if (!take(r, ']'))
        return fail_at(r, "a merge has two tokens");
    return add_merge(r, t, m, half, raw_a, raw_b);
}

static int read_merges(struct reader *r, struct mint_tokenizer *t, struct merge_reader *m)
{
    take(r, '[');
    if (take(r, ']'))
        return 0;
    do {
        char c = peek(r);
        if (c != '[' && c != '"')
            return fail_at(r, "a merge is expected: \"a b\" or [\"a\", \"b\"]");
        if (c == '[' ? read_merge_pair(r, t, m) : read_merge_string(r, t, m))
            return -1;
    } while (take(r, ','));
    return take(r, ']') ? 0 : fail_at(r, "',' or ']' is expected");
}

int tok_tables_merges(struct mint_tokenizer *t, const char *json, const struct tok_cut *cut,
                      struct mint_err *err)
{
    struct reader r = {json, cut->merges, cut->merges_end, "model.merges", err};
    struct merge_reader m = {.text = MINT_BUF_INIT};
    int bad = read_merges(&r, t, &m);
    if (!bad) {
        size_t kept = 0; /* those that can come up */
        for (size_t i = 0; i < m.n; i++)
            if (m.v[i].id >= 0)
                m.v[kept++] = m.v[i];
        tok_merges_build(t, m.v, kept);
    }
    mint_buf_release(&m.text);
    mint_buf_release(&m.bytes);
    free(m.v);
    return bad;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Text to ids: added tokens that are matched in the raw text, then NFC of what lies between them,
 * then added tokens that are matched in normalized text, then pre-tokenizers and merging.
 */
#include "tokenizer_impl.h"

#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

#include "mem.h"

/* --- added tokens: the leftmost, then the longest. */
static int by_pattern(const void *a, const void *b)
{
    const struct tok_pattern *x = a, *y = b;
    int c = memcmp(x->p, y->p, MINT_MIN(x->n, y->n));
    return c ? c : (x->n > y->n) - (x->n < y->n);
}

int tok_patterns_build(struct tok_patterns *ps, const struct tok_added *added, size_t n,
                       bool normalized, struct mint_err *err)
{
    ps->v = mint_xcalloc(n, sizeof *ps->v);
    for (size_t i = 0; i < n; i++) {
        const struct tok_added *a = &added[i];
        if (a->normalized != normalized)
            continue;
        ps->v[ps->n++] = (struct tok_pattern){a->norm ? a->norm : a->text,
                                              a->norm ? a->norm_len : a->len, a->id, a->special};
        ps->first[(unsigned char)ps->v[ps->n - 1].p[0]] = true;
    }
    if (ps->n)
        qsort(ps->v, ps->n, sizeof *ps->v, by_pattern);
    for (size_t i = 1; i < ps->n; i++)
        if (by_pattern(&ps->v[i - 1], &ps->v[i]) == 0)
            return mint_fail(err, MINT_EMODEL, "two added tokens are \"%.*s\"", (int)ps->v[i].n,
                             ps->v[i].p);
    return 0;
}

struct guard {
    const struct mint_span *v;
    size_t n;
};

static bool guarded(const struct guard *g, size_t from, size_t to)
{
    size_t lo = 0, hi = g->n; /* the first guard that ends behind from */
    while (lo < hi) {
        size_t mid = (lo + hi) / 2;
        if (g->v[mid].to <= from)
            lo = mid + 1;
        else
            hi = mid;
    }
    for (; lo < g->n && g->v[lo].from < to; lo++)
        if (g->v[lo].to > g->v[lo].from)
            return true;
    return false;
}

/* First pattern in [lo, hi) whose byte at depth is not below c. All of them are longer than depth.
 */
static size_t bound(const struct tok_patterns *ps, size_t lo, size_t hi, size_t depth, unsigned c)
{
    while (lo < hi) {
        size_t mid = (lo + hi) / 2;
        if ((unsigned char)ps->v[mid].p[depth] < c)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

/* The longest pattern at text[at], or NULL. Sorted patterns are walked like a tree. */
static const struct tok_pattern *pattern_at(const struct tok_patterns *ps, const char *text,
                                            size_t at, size_t n, const struct guard *g)
{
    const struct tok_pattern *best = NULL;
    size_t lo = 0, hi = ps->n;
    for (size_t depth = 0; lo < hi; depth++) {
        if (ps->v[lo].n == depth) {
            const struct tok_pattern *p = &ps->v[lo++];
            if (!p->special || !g->n || !guarded(g, at, at + depth))
                best = p;
        }
        if (at + depth >= n)
            break;
        unsigned c = (unsigned char)text[at + depth];
        lo = bound(ps, lo, hi, depth, c);
        hi = bound(ps, lo, hi, depth, c + 1);
    }
    return best;
}

static const struct tok_pattern *next_pattern(const struct tok_patterns *ps, const char *text,
                                              size_t *at, size_t n, const struct guard *g)
{
    for (; *at < n; ++*at) {
        if (!ps->first[(unsigned char)text[*at]])
            continue;
        const struct tok_pattern *p = pattern_at(ps, text, *at, n, g);
        if (p)
            return p;
    }
    return NULL;
}

/* --- NFC (Unicode Standard Annex 15). */

/* Characters that NFC leaves alone whatever stands beside them: no mark, no decomposition, never
 * the second of a composition. Not all of them: the blocks that texts are made of. */
static const struct {
    uint32_t from, to;
} inert[] = {
    {0x0000, 0x02ff},   /* Latin */
    {0x03a3, 0x0482},   /* Greek, Cyrillic */
    {0x2002, 0x2064},   /* punctuation, joiners */
    {0x2190, 0x2328},   /* arrows, mathematics */
    {0x2460, 0x2adb},   /* boxes, dingbats */
    {0x3002, 0x3029},   /* Chinese and Japanese punctuation */
    {0x3041, 0x3096},   /* Hiragana */
    {0x309b, 0x30ff},   /* Katakana */
    {0x3400, 0x9fff},   /* ideographs */
    {0xac00, 0xd7a3},   /* Hangul syllables */
    {0xfe00, 0xfe0f},   /* variation selectors */
    {0xff01, 0xffbe},   /* full-width forms */
    {0x1f300, 0x1f6d7}, /* emoji */
    {0x1f900, 0x1fa53},
};

static bool is_inert(uint32_t c)
{
    for (size_t i = 0; i < MINT_ARRAY_LEN(inert); i++)
        if (c <= inert[i].to)
            return c >= inert[i].from;
    return false;
}

/* The character at valid UTF-8 s; *len its bytes. */
static uint32_t char_at(const char *s, size_t *len)
{
    const unsigned char *u = (const unsigned char *)s;
    static const unsigned char lead_bits[5] = {0, 0x7f, 0x1f, 0x0f, 0x07};
    *len = u[0] < 0x80 ? 1 : u[0] < 0xe0 ? 2 : u[0] < 0xf0 ? 3 : 4;
    uint32_t c = u[0] & lead_bits[*len];
    for (size_t k = 1; k < *len; k++)
        c = c << 6 | (u[k] & 0x3fu);
    return c;
}

/* Where the first character from `at` on stands that is (or is not) inert; n if there is none.
 * *last: the start of the character before it. */
static size_t find_inert(const char *s, size_t at, size_t n, bool wanted, size_t *last)
{
    *last = at;
    for (size_t len; at < n; at += len) {
        if ((unsigned char)s[at] < 0x80) {
            len = 1;
            if (wanted)
                return at;
        } else if (is_inert(char_at(s + at, &len)) == wanted) {
            return at;
        }
        *last = at;
    }
    return n;
}

bool tok_nfc_is_noop(const char *s, size_t n)
{
    size_t last;
    return find_inert(s, 0, n, false, &last) == n;
}

/* Stable order by combining class within each run of marks. Long runs are counted, so that a
 * hostile text of marks alone takes no square of its length. */
static void order_run(utf8proc_int32_t *c, size_t n)
{
    if (n <= 32) {
        for (size_t i = 1; i < n; i++) {
            utf8proc_int32_t v = c[i];
            int class = utf8proc_get_property(v)->combining_class;
            size_t k = i;
            for (; k && utf8proc_get_property(c[k - 1])->combining_class > class; k--)
                c[k] = c[k - 1];
            c[k] = v;
        }
        return;
    }
    size_t at[257] = {0};
    utf8proc_int32_t *copy = mint_xreallocarray(NULL, n, sizeof *copy);
    memcpy(copy, c, n * sizeof *copy);
    for (size_t i = 0; i < n; i++)
        at[utf8proc_get_property(copy[i])->combining_class + 1]++;
    for (int i = 1; i < 257; i++)
        at[i] += at[i - 1];
    for (size_t i = 0; i < n; i++)
        c[at[utf8proc_get_property(copy[i])->combining_class]++] = copy[i];
    free(copy);
}

static void order_marks(utf8proc_int32_t *c, size_t n)
{
    for (size_t i = 0; i < n;) {
        size_t from = i;
        while (i < n && utf8proc_get_property(c[i])->combining_class)
            i++;
        order_run(c + from, i - from);
        i += i == from;
    }
}

static void nfc_part(const char *s, size_t n, struct mint_buf *out)
{
    /* A character of u bytes decomposes into at most 4 characters, a one-byte one into itself. */
    utf8proc_int32_t *c = mint_xreallocarray(NULL, 4 * n + 1, sizeof *c), cp;
    size_t len = 0;
    for (size_t i = 0; i < n;) {
        i += (size_t)utf8proc_iterate((const utf8proc_uint8_t *)s + i, (utf8proc_ssize_t)(n - i),
                                      &cp);
        int boundclass = 0;
        len += (size_t)utf8proc_decompose_char(cp, c + len, (utf8proc_ssize_t)(4 * n + 1 - len),
                                               UTF8PROC_STABLE | UTF8PROC_DECOMPOSE, &boundclass);
    }
    order_marks(c, len);
    len = (size_t)utf8proc_normalize_utf32(c, (utf8proc_ssize_t)len,
                                           UTF8PROC_STABLE | UTF8PROC_COMPOSE);
    mint_buf_reserve(out, 4 * len);
    for (size_t i = 0; i < len; i++)
        out->len += (size_t)utf8proc_encode_char(c[i], (utf8proc_uint8_t *)out->data + out->len);
    free(c);
}

void tok_nfc(const char *s, size_t n, struct mint_buf *out)
{
    mint_buf_reserve(out, n);
    for (size_t done = 0; done < n;) {
        /* What is not inert, with the character before it, up to the next inert one, is a part of
         * its own. */
        size_t from, last, end = find_inert(s, done, n, false, &from);
        if (end == n)
            from = n;
        mint_buf_add(out, s + done, from - done);
        if (end == n)
            break;
        end = find_inert(s, end, n, true, &last);
        nfc_part(s + from, end - from, out);
        done = end;
    }
    mint_buf_reserve(out, 0);
    out->data[out->len] = '\0';
}

/* --- encoding. */
struct encoder {
    const struct mint_tokenizer *t;
    struct tok_splitter split;
    struct mint_buf norm;
    bool special;
    struct guard guard;
};

/* Normalized text: added tokens that are matched there, the rest split. */
static int encode_normalized(struct encoder *e, const char *p, size_t n, const struct guard *g,
                             struct mint_err *err)
{
    size_t from = 0, at = 0;
    const struct tok_pattern *hit;
    while (e->special && e->t->after.n && (hit = next_pattern(&e->t->after, p, &at, n, g))) {
        if (tok_split(&e->split, p + from, at - from, err))
            return -1;
        mint_tokens_add(e->split.out, hit->id);
        from = at += hit->n;
    }
    return tok_split(&e->split, p + from, n - from, err);
}

/* Raw text between added tokens; at: where it stands in the whole text. */
static int encode_part(struct encoder *e, const char *text, size_t at, size_t n,
                       struct mint_err *err)
{
    const char *p = text + at;
    if (n == 0)
        return 0;
    struct mint_span *moved = NULL;
    struct guard g = {NULL, 0};
    if (e->t->nfc && !tok_nfc_is_noop(p, n)) {
        mint_buf_reset(&e->norm);
        tok_nfc(p, n, &e->norm);
        p = e->norm.data;
        /* Places in a changed text are unknown: one guard over all of it, if any was there. */
        struct mint_span all = {0, e->norm.len};
        if (guarded(&e->guard, at, at + n))
            g = (struct guard){&all, 1};
        return encode_normalized(e, p, e->norm.len, &g, err);
    }
    if (e->t->after.n && e->guard.n) { /* the guards that reach into this part, from its start */
        moved = mint_xcalloc(e->guard.n, sizeof *moved);
        for (size_t i = 0; i < e->guard.n; i++) {
            const struct mint_span *s = &e->guard.v[i];
            if (s->to > at && s->from < at + n)
                moved[g.n++] = (struct mint_span){s->from > at ? s->from - at : 0, s->to - at};
        }
        g.v = moved;
    }
    int bad = encode_normalized(e, p, n, &g, err);
    free(moved);
    return bad;
}

static int encode_all(struct encoder *e, const char *text, size_t n, struct mint_err *err)
{
    size_t from = 0, at = 0;
    const struct tok_pattern *hit;
    while (e->special && e->t->before.n &&
           (hit = next_pattern(&e->t->before, text, &at, n, &e->guard))) {
        if (encode_part(e, text, from, at - from, err))
            return -1;
        mint_tokens_add(e->split.out, hit->id);
        from = at += hit->n;
    }
    return encode_part(e, text, from, n - from, err);
}

static int check_utf8(const char *s, size_t n, struct mint_err *err)
{
    for (size_t i = 0; i < n;) {
        uint64_t w;
        if (i + 8 <= n && (memcpy(&w, s + i, 8), !(w & 0x8080808080808080u))) {
            i += 8;
            continue;
        }
        bool valid;
        size_t part = tok_utf8_part(s + i, n - i, &valid);
        if (!valid)
            return mint_fail(err, MINT_ESCHEMA, "text is not UTF-8: byte %zu is 0x%02x", i + 1,
                             (unsigned char)s[i]);
        i += part;
    }
    return 0;
}

static void add_bos(const struct mint_tokenizer *tok, struct mint_tokens *out, size_t start)
{
    int32_t bos = tok->bos_added;
    if (bos < 0 || (out->n > start && out->v[start] == bos))
        return;
    mint_tokens_add(out, bos);
    memmove(out->v + start + 1, out->v + start, (out->n - start - 1) * sizeof *out->v);
    out->v[start] = bos;
}

int mint_encode_guarded(const struct mint_tokenizer *tok, const char *text, size_t n,
                        unsigned flags, const struct mint_span *guards, size_t guards_n,
                        struct mint_tokens *out, struct mint_err *err)
{
    size_t start = out->n;
    if (!text) /* an empty buffer */
        text = "";
    if (check_utf8(text, n, err))
        return -1;
    struct encoder e = {
        .t = tok, .special = flags & MINT_ENCODE_SPECIAL, .guard = {guards, guards_n}};
    e.split = (struct tok_splitter){.t = tok, .work = tok_work_new(tok, n), .out = out};
    e.split.md = pcre2_match_data_create(1, NULL);
    e.split.ctx = pcre2_match_context_create(NULL);
    if (!e.split.md || !e.split.ctx)
        MINT_BUG("no memory for a match");
    /* A long run of spaces is given back one by one: the limit has to grow with the text. */
    pcre2_set_match_limit(e.split.ctx,
                          (uint32_t)MINT_MIN((uint64_t)UINT32_MAX, 10000000 + 64 * (uint64_t)n));
    int bad = encode_all(&e, text, n, err);
    pcre2_match_context_free(e.split.ctx);
    pcre2_match_data_free(e.split.md);
    tok_work_free(e.split.work);
    mint_buf_release(&e.norm);
    if (bad)
        out->n = start;
    else if (flags & MINT_ENCODE_BOS)
        add_bos(tok, out, start);
    return bad;
}

int mint_encode(const struct mint_tokenizer *tok, const char *text, size_t n, unsigned flags,
                struct mint_tokens *out, struct mint_err *err)
{
    return mint_encode_guarded(tok, text, n, flags, NULL, 0, out, err);
}

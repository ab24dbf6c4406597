/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tokenizer_impl.h: what the sources tokenizer*.c share; private to them.
 *
 *   tokenizer.c         open, close, lookups by id and by text
 *   tokenizer_load.c    the parts of tokenizer.json that are small: added tokens, steps, settings
 *   tokenizer_tables.c  model.vocab and model.merges, read in one pass without a document tree
 *   tokenizer_split.c   pre-tokenizers: regular expressions and the hand-written loops beside them
 *   tokenizer_bpe.c     hash tables and merging
 *   tokenizer_encode.c  added tokens, NFC, guards
 *   tokenizer_decode.c  bytes, UTF-8
 *
 * Byte-level vocabularies write each byte as one printable character ("Ġ" for a space). Tokens are
 * turned into the bytes they stand for when they are read, so that a text is matched as it is. A
 * token with a character outside that alphabet stands for its own UTF-8 text ("raw") and can never
 * come out of merging.
 */
#ifndef MINT_TOKENIZER_IMPL_H
#define MINT_TOKENIZER_IMPL_H

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include "json.h"
#include "tokenizer.h"

#define TOK_MAX_ID \
    ((int32_t)1 << 22) /* ids are below this: bounds the table that a hostile file asks for */
#define TOK_MAX_STEPS 16

enum tok_flags {
    TOK_PRESENT = 1,
    TOK_RAW = 2,
    TOK_SPECIAL = 4,
    TOK_ADDED = 8, /* exists only as an added token: not in the index */
};

struct tok_entry {
    uint32_t off, len; /* into blob */
    uint8_t flags;
};

/* Open addressing, at most half full. */
struct tok_slot {
    uint32_t hash;
    int32_t id; /* -1: empty */
};
struct tok_index {
    struct tok_slot *slots;
    uint32_t mask;
};

struct tok_merge {
    int32_t a, b; /* a < 0: empty */
    uint32_t rank;
    int32_t id;
};
struct tok_merges {
    struct tok_merge *slots;
    uint32_t mask;
    size_t n;
};

struct tok_added {
    char *text; /* as written; the pattern for tokens that are matched before normalizing */
    size_t len;
    char *norm; /* normalized, or NULL where text is meant */
    size_t norm_len;
    int32_t id;
    bool special, normalized;
};

/* Added tokens sorted by pattern, for the longest match at a position. */
struct tok_pattern {
    const char *p;
    size_t n;
    int32_t id;
    bool special;
};
struct tok_patterns {
    struct tok_pattern *v;
    size_t n;
    bool first[256];
};

enum tok_fast { TOK_FAST_NONE, TOK_FAST_QWEN, TOK_FAST_LLAMA3, TOK_FAST_GPT2, TOK_FAST_DIGIT };
struct tok_step {
    pcre2_code *re;
    enum tok_fast fast;
    bool drop_gaps; /* behaviour Removed, inverted: what the pattern does not match is left out */
};

struct mint_tokenizer {
    struct mint_buf blob;
    struct tok_entry *entries; /* by id */
    int32_t size, cap;
    struct tok_index index;
    struct tok_merges merges;
    uint8_t *whole; /* by id, written by encoders: 0 unknown, 1 its bytes encode to itself, 2 they
                       do not */
    int32_t byte_id[256];
    size_t longest; /* bytes of the longest token in the index */
    struct tok_added *added;
    size_t added_n;
    struct tok_patterns before, after; /* matched before and after normalizing */
    struct tok_step steps[TOK_MAX_STEPS];
    int steps_n;
    bool nfc, byte_level, ignore_merges, fuse_unk;
    int32_t unk;       /* for bytes that have no token, -1 */
    int32_t bos_added; /* what the post-processor puts in front, -1 */
    int32_t bos, eos;
};

/* --- tokenizer_tables.c */
struct tok_cut {
    size_t vocab, vocab_end, merges,
        merges_end; /* byte ranges of the two values; end 0: not found */
};
void tok_tables_find(struct tok_cut *cut, const char *json, size_t n);
int tok_tables_vocab(struct mint_tokenizer *t, const char *json, const struct tok_cut *cut,
                     struct mint_err *err);
int tok_tables_merges(struct mint_tokenizer *t, const char *json, const struct tok_cut *cut,
                      struct mint_err *err);
/* Token text (UTF-8) to the bytes it stands for; *raw says that they are its own. Appended to out.
 */
void tok_text_bytes(const char *s, size_t n, struct mint_buf *out, bool *raw);

/* --- tokenizer.c */
struct tok_entry *tok_entry_new(struct mint_tokenizer *t,
                                int32_t id); /* grows entries; the id must be in range */

/* --- tokenizer_load.c */
int tok_load(struct mint_tokenizer *t, const char *json, size_t n, struct mint_err *err);

/* --- tokenizer_bpe.c */
static inline uint32_t tok_hash(const char *p, size_t n)
{
    const uint64_t k = 0x9e3779b97f4a7c15u;
    uint64_t h = n * k, w = 0;
    for (; n >= 8; n -= 8, p += 8) {
        __builtin_memcpy(&w, p, 8);
        h = (h ^ w) * k;
        h ^= h >> 29;
    }
    w = 0;
    for (size_t i = 0; i < n; i++)
        w = w << 8 | (unsigned char)p[i];
    h = (h ^ w) * k;
    h ^= h >> 32;
    return (uint32_t)(h * k >> 32);
}
void tok_index_build(struct mint_tokenizer *t, size_t count);
/* Adds id; returns the id that already has these bytes, or -1. */
int32_t tok_index_add(struct mint_tokenizer *t, int32_t id);
int32_t tok_index_find(const struct mint_tokenizer *t, const char *p, size_t n, bool raw);
void tok_merges_build(struct mint_tokenizer *t, const struct tok_merge *v, size_t n);

struct tok_work;
struct tok_work *tok_work_new(const struct mint_tokenizer *t, size_t text_bytes);
void tok_work_free(struct tok_work *w);
/* One piece of the pre-tokenizer. */
int tok_bpe(struct tok_work *w, const char *p, size_t n, struct mint_tokens *out,
            struct mint_err *err);

/* --- tokenizer_split.c */
int tok_step_compile(struct tok_step *s, const char *pattern, size_t n, bool literal,
                     struct mint_err *err);
/* Pieces of p[0..n), in turn, each through tok_bpe. md: made by the caller, as ctx. */
struct tok_splitter {
    const struct mint_tokenizer *t;
    struct tok_work *work;
    struct mint_tokens *out;
    pcre2_match_data *md;
    pcre2_match_context *ctx;
    bool slow; /* tests: the regular expressions alone */
};
int tok_split(struct tok_splitter *s, const char *p, size_t n, struct mint_err *err);
/* Length of the first match in p[0..n), n > 0, by the hand-written loop; 0: it cannot tell. */
size_t tok_fast_match(enum tok_fast kind, const char *p, size_t n);

/* --- tokenizer_encode.c */
/* NFC of s, appended. s is valid UTF-8. */
void tok_nfc(const char *s, size_t n, struct mint_buf *out);
bool tok_nfc_is_noop(const char *s, size_t n); /* true only if NFC surely changes nothing */
int tok_patterns_build(struct tok_patterns *ps, const struct tok_added *added, size_t n,
                       bool normalized, struct mint_err *err);

/* --- tokenizer_decode.c */
/* Bytes of the UTF-8 character at s[0..n), n > 0; *valid false: of the maximal invalid part. */
size_t tok_utf8_part(const char *s, size_t n, bool *valid);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tokenizer.h: byte-level BPE from a Hugging Face tokenizer.json (Qwen3, Llama 3, GPT-2, SmolLM2
 * kinds): normalizer null or NFC; pre-tokenizers Split (Isolated), ByteLevel, Digits and their
 * Sequence; BPE with merges as strings or pairs, ignore_merges; added tokens, special or not,
 * normalized or not; decoder ByteLevel; a post-processor that adds nothing or one BOS. Anything
 * else in the file that would change an id is an error that names it. The keys truncation and
 * padding are ignored: a text is never cut here. Reference: the behaviour of
 * huggingface/tokenizers, checked by its goldens.
 *
 * A tokenizer is read-only after load and may be used by any number of threads at once.
 */
#ifndef MINT_TOKENIZER_H
#define MINT_TOKENIZER_H

#include "base.h"
#include "buf.h"
#include "err.h"

struct mint_tokens {
    int32_t *v;
    size_t n, cap;
};
#define MINT_TOKENS_INIT \
    {                    \
        NULL, 0, 0       \
    }
void mint_tokens_add(struct mint_tokens *t, int32_t id);
void mint_tokens_release(struct mint_tokens *t);

struct mint_tokenizer;
/* dir: a model folder with tokenizer.json (and tokenizer_config.json, read for bos/eos names if
 * present). */
int mint_tokenizer_open(struct mint_tokenizer **tok, const char *dir, struct mint_err *err);
/* The same from the bytes of a tokenizer.json, which need not outlive the call. */
int mint_tokenizer_read(struct mint_tokenizer **tok, const char *json, size_t n,
                        struct mint_err *err);
void mint_tokenizer_close(struct mint_tokenizer *tok); /* NULL is fine */

enum mint_encode_flags {
    MINT_ENCODE_SPECIAL =
        1, /* recognise added tokens in the text; without it "<|im_end|>" is plain text */
    MINT_ENCODE_BOS =
        2, /* put BOS in front if the post-processor adds one and the text does not begin with it */
};
/* Appends ids. text may hold any bytes; invalid UTF-8 is an error that names the byte. On an error
 * nothing is appended. */
int mint_encode(const struct mint_tokenizer *tok, const char *text, size_t n, unsigned flags,
                struct mint_tokens *out, struct mint_err *err);

/*
 * The same for a text with foreign parts (chat.h: what a user wrote inside a template). In a
 * guarded part no special token is recognised, not even partly; added tokens that are not special
 * ("<think>") still are. Everything else, merges across the borders too, is as without guards.
 * guards: ascending, disjoint.
 */
struct mint_span {
    size_t from, to; /* bytes [from, to) of the text */
};
int mint_encode_guarded(const struct mint_tokenizer *tok, const char *text, size_t n,
                        unsigned flags, const struct mint_span *guards, size_t guards_n,
                        struct mint_tokens *out, struct mint_err *err);

/* Exact bytes of ids, appended; ids without a token add nothing. skip_special leaves special tokens
 * out. */
void mint_decode_bytes(const struct mint_tokenizer *tok, const int32_t *ids, size_t n,
                       bool skip_special, struct mint_buf *out);
/* The same as valid UTF-8: each maximal invalid part becomes U+FFFD. */
void mint_decode(const struct mint_tokenizer *tok, const int32_t *ids, size_t n, bool skip_special,
                 struct mint_buf *out);
/* The bytes that one id adds, not '\0'-terminated, valid until close; NULL and *n = 0 for an id
 * without a token. For stop strings: a text position maps to a token by summing *n. */
const char *mint_token_bytes(const struct mint_tokenizer *tok, int32_t id, size_t *n);

/* Id of an added or vocabulary token by its exact text in the file ("<|im_end|>"), -1. */
int32_t mint_tokenizer_id(const struct mint_tokenizer *tok, const char *token);
bool mint_tokenizer_has(const struct mint_tokenizer *tok, int32_t id); /* some token has this id */
bool mint_tokenizer_is_special(const struct mint_tokenizer *tok, int32_t id);
int32_t mint_tokenizer_size(const struct mint_tokenizer *tok); /* highest id + 1 */
/* The post-processor's BOS, else bos_token of tokenizer_config.json; -1: none. */
int32_t mint_tokenizer_bos(const struct mint_tokenizer *tok);
int32_t mint_tokenizer_eos(
    const struct mint_tokenizer *tok); /* from tokenizer_config.json, -1: none */

#endif

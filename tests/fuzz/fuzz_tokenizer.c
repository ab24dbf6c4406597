/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any bytes are a tokenizer.json. Nothing may crash; what is refused is refused with words; what is
 * taken encodes texts to ids that have tokens, the same with guards that guard nothing, and decodes
 * every id.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "tokenizer.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static void must(bool ok)
{
    if (!ok)
        abort();
}

static void check_text(const struct mint_tokenizer *t, const char *text, size_t n)
{
    struct mint_tokens a = MINT_TOKENS_INIT, b = MINT_TOKENS_INIT;
    struct mint_buf back = MINT_BUF_INIT;
    struct mint_span none = {n / 2, n / 2}, all = {0, n};
    struct mint_err err = {MINT_OK, ""};
    unsigned flags = MINT_ENCODE_SPECIAL | MINT_ENCODE_BOS;
    if (mint_encode(t, text, n, flags, &a, &err)) {
        must(a.n == 0 && err.msg[0]);
    } else {
        for (size_t i = 0; i < a.n; i++)
            must(mint_tokenizer_has(t, a.v[i]));
        must(mint_encode_guarded(t, text, n, flags, &none, 1, &b, &err) == 0);
        must(a.n == b.n && (a.n == 0 || memcmp(a.v, b.v, a.n * sizeof *a.v) == 0));
        b.n = 0;
        must(mint_encode_guarded(t, text, n, MINT_ENCODE_SPECIAL, &all, 1, &b, &err) == 0);
        for (size_t i = 0; i < b.n; i++)
            must(mint_tokenizer_has(t, b.v[i]));
        mint_decode(t, a.v, a.n, true, &back);
    }
    mint_tokens_release(&a);
    mint_tokens_release(&b);
    mint_buf_release(&back);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    static const char *const texts[] = {
        "",
        "abcabcaab cab's 12345  \n\n x<|s|> <t>",
        "e\xcc\x81\xcc\xa7 \xe1\x84\x80\xe1\x85\xa1 \xe3\x80\x80\xf0\x9f\x98\x80\xc2\x85",
        "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaabbbbbb",
    };
    struct mint_tokenizer *t;
    struct mint_err err = {MINT_OK, ""};
    if (mint_tokenizer_read(&t, (const char *)data, n, &err)) {
        must(t == NULL && err.msg[0]);
        return 0;
    }
    int32_t size = mint_tokenizer_size(t);
    must(size > 0 && mint_tokenizer_has(t, size - 1) && !mint_tokenizer_has(t, size));
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        check_text(t, texts[i], strlen(texts[i]));
    check_text(t, (const char *)data, n < 1000 ? n : 1000);
    for (int32_t id = -1; id < size + 1 && id < 5000; id++) {
        size_t len;
        must((mint_token_bytes(t, id, &len) != NULL) == mint_tokenizer_has(t, id));
    }
    mint_tokenizer_id(t, "ab");
    mint_tokenizer_close(t);
    return 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Ids to bytes and to text. */
#include "tokenizer_impl.h"

/* Second byte's range by lead byte: The Unicode Standard, table 3-7. */
static bool second_fits(unsigned char lead, unsigned char c)
{
    switch (lead) {
    case 0xe0:
        return c >= 0xa0 && c <= 0xbf;
    case 0xed:
        return c >= 0x80 && c <= 0x9f;
    case 0xf0:
        return c >= 0x90 && c <= 0xbf;
    case 0xf4:
        return c >= 0x80 && c <= 0x8f;
    default:
        return c >= 0x80 && c <= 0xbf;
    }
}

size_t tok_utf8_part(const char *s, size_t n, bool *valid)
{
    const unsigned char *u = (const unsigned char *)s;
    unsigned char lead = u[0];
    size_t need = lead < 0x80   ? 1
                  : lead < 0xc2 ? 0
                  : lead < 0xe0 ? 2
                  : lead < 0xf0 ? 3
                  : lead < 0xf5 ? 4
                                : 0;
    *valid = false;
    if (need == 0)
        return 1;
    for (size_t i = 1; i < need; i++) {
        bool fits = i < n && (i == 1 ? second_fits(lead, u[1]) : (u[i] & 0xc0) == 0x80);
        if (!fits)
            return i;
    }
    *valid = true;
    return need;
}

const char *mint_token_bytes(const struct mint_tokenizer *tok, int32_t id, size_t *n)
{
    *n = 0;
    if (!mint_tokenizer_has(tok, id))
        return NULL;
    const struct tok_entry *e = &tok->entries[id];
    *n = e->len;
    return tok->blob.data + e->off;
}

void mint_decode_bytes(const struct mint_tokenizer *tok, const int32_t *ids, size_t n,
                       bool skip_special, struct mint_buf *out)
{
    mint_buf_reserve(out, 0);
    for (size_t i = 0; i < n; i++) {
        size_t len;
        const char *p = mint_token_bytes(tok, ids[i], &len);
        if (p && !(skip_special && mint_tokenizer_is_special(tok, ids[i])))
            mint_buf_add(out, p, len);
    }
}

void mint_decode(const struct mint_tokenizer *tok, const int32_t *ids, size_t n, bool skip_special,
                 struct mint_buf *out)
{
    struct mint_buf bytes = MINT_BUF_INIT;
    mint_decode_bytes(tok, ids, n, skip_special, &bytes);
    size_t from = 0, at = 0;
    while (at < bytes.len) {
        bool valid;
        size_t part = tok_utf8_part(bytes.data + at, bytes.len - at, &valid);
        if (!valid) {
            mint_buf_add(out, bytes.data + from, at - from);
            mint_buf_adds(out, "\xef\xbf\xbd");
            from = at + part;
        }
        at += part;
    }
    mint_buf_add(out, bytes.data + from, at - from);
    mint_buf_release(&bytes);
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any bytes are a text for the JSON parser. Nothing may crash; and of a text that was taken, every
 * value is again a text that is taken, and a string that is written and read again stays the same.
 *
 *   clang -std=c11 -D_GNU_SOURCE -Ilib -g -O1 -fsanitize=fuzzer,address,undefined
 * tests/fuzz/fuzz_json.c \ lib/json.c lib/json_text.c lib/num.c lib/buf.c lib/mem.c lib/err.c -lm
 * -o fuzz_json
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "json.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static void must(bool ok)
{
    if (!ok)
        abort();
}

static void check_string(const struct mint_json *j, mint_json_val v)
{
    struct mint_buf text = MINT_BUF_INIT, written = MINT_BUF_INIT, back = MINT_BUF_INIT;
    struct mint_json *k = mint_json_new();
    must(mint_json_string(j, v, &text));
    mint_json_put_string(&written, text.data ? text.data : "", text.len);
    must(mint_json_parse(k, written.data, written.len, NULL) == 0);
    must(mint_json_string(k, 0, &back));
    must(back.len == text.len && (text.len == 0 || memcmp(back.data, text.data, text.len) == 0));
    mint_json_free(k);
    mint_buf_release(&text);
    mint_buf_release(&written);
    mint_buf_release(&back);
}

static void check_numbers(const struct mint_json *j, mint_json_val v)
{
    struct mint_err err;
    size_t n = mint_json_size(j, v);
    int32_t *ints = malloc(4 * n + 4);
    float *floats = malloc(4 * n + 4);
    mint_json_ints(j, v, ints, SIZE_MAX, INT32_MIN, INT32_MAX, &err);
    mint_json_floats(j, v, floats, n, &err);
    free(ints);
    free(floats);
}

static void check_value(const struct mint_json *j, mint_json_val v, int depth)
{
    struct mint_buf path = MINT_BUF_INIT;
    size_t n, members = 0;
    int64_t i;
    double d;
    bool b;
    const char *raw = mint_json_raw(j, v, &n);
    must(raw && n > 0 && mint_json_column(j, v) > 0);
    if (depth < 3) { /* deeper ones are covered by their parents; all of them would be quadratic */
        struct mint_json *k = mint_json_new();
        must(mint_json_parse(k, raw, n, NULL) == 0);
        must(mint_json_type(k, 0) == mint_json_type(j, v) &&
             mint_json_size(k, 0) == mint_json_size(j, v));
        mint_json_free(k);
        mint_json_path(j, v, &path);
        mint_buf_release(&path);
    }
    mint_json_int(j, v, &i);
    mint_json_double(j, v, &d);
    mint_json_bool(j, v, &b);
    if (mint_json_type(j, v) == MINT_JSON_STRING)
        check_string(j, v);
    if (mint_json_is_numbers(j, v)) {
        check_numbers(j, v);
        return;
    }
    for (mint_json_val c = mint_json_first(j, v); c != MINT_JSON_NONE;
         c = mint_json_next(j, c), members++) {
        if (mint_json_type(j, v) == MINT_JSON_OBJECT)
            must(mint_json_key(j, c, &n) != NULL);
        check_value(j, c, depth + 1);
    }
    must(members == mint_json_size(j, v));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    struct mint_json *j = mint_json_new();
    struct mint_err err;
    if (mint_json_parse(j, (const char *)data, n, &err) == 0)
        check_value(j, 0, 0);
    else
        must(err.code == MINT_EFORMAT && strncmp(err.msg, "column ", 7) == 0);
    mint_json_free(j);
    return 0;
}

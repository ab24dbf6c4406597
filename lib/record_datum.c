/* SPDX-License-Identifier: Apache-2.0 */
/* Datums of the Tinker/MinT SDK: what its pydantic types dump, and the shorter forms they take. */
#include <inttypes.h>
#include <string.h>

#include "record.h"

static bool is_string(const struct mint_json *j, mint_json_val v, const char *text)
{
    size_t n, len = strlen(text);
    const char *raw = mint_json_raw(j, v, &n);
    return mint_json_type(j, v) == MINT_JSON_STRING && n == len + 2 && !memcmp(raw + 1, text, len);
}

static bool is_none(const struct mint_json *j, mint_json_val v)
{
    enum mint_json_type type = mint_json_type(j, v);
    return type == MINT_JSON_ABSENT || type == MINT_JSON_NULL;
}

static int check_chunk(struct mint_reader *r, mint_json_val chunk, mint_json_val *tokens,
                       struct mint_err *err)
{
    const struct mint_json *j = r->doc;
    if (mint_json_type(j, chunk) != MINT_JSON_OBJECT)
        return mint_json_fail(j, chunk, err, "must be an object");
    mint_json_val type = mint_json_get(j, chunk, "type");
    if (type != MINT_JSON_NONE && !is_string(j, type, "encoded_text"))
        return mint_json_fail(j, type, err,
                              "is no \"encoded_text\": only text chunks can be trained on");
    *tokens = mint_json_get(j, chunk, "tokens");
    if (*tokens == MINT_JSON_NONE)
        return mint_record_missing(r, chunk, "tokens", err);
    if (mint_json_type(j, *tokens) != MINT_JSON_ARRAY)
        return mint_json_fail(j, *tokens, err, "must be an array of token ids");
    return 0;
}

/* The text chunks, joined: d->input and d->n. */
static int read_input(struct mint_reader *r, int64_t vocab, struct mint_datum *d,
                      struct mint_err *err)
{
    const struct mint_json *j = r->doc;
    mint_json_val in = mint_json_get(j, 0, "model_input");
    if (in == MINT_JSON_NONE)
        return mint_record_missing(r, 0, "model_input", err);
    mint_json_val chunks = mint_json_get(j, in, "chunks"), tokens = MINT_JSON_NONE;
    if (chunks == MINT_JSON_NONE)
        return mint_record_missing(r, in, "chunks", err);
    if (mint_json_type(j, chunks) != MINT_JSON_ARRAY ||
        (mint_json_is_numbers(j, chunks) && mint_json_size(j, chunks)))
        return mint_json_fail(j, chunks, err, "must be an array of objects");
    for (mint_json_val c = mint_json_first(j, chunks); c != MINT_JSON_NONE;
         c = mint_json_next(j, c)) {
        if (check_chunk(r, c, &tokens, err) < 0)
            return -1;
        d->n += mint_json_size(j, tokens);
    }
    if (d->n == 0)
        return mint_json_fail(j, in, err, "has no tokens");
    int32_t *out = mint_arena_alloc(&r->arena, d->n * sizeof(*out));
    d->input = out;
    int64_t top = vocab > 0 ? MINT_MIN(vocab - 1, INT32_MAX) : INT32_MAX;
    for (mint_json_val c = mint_json_first(j, chunks); c != MINT_JSON_NONE;
         c = mint_json_next(j, c)) {
        tokens = mint_json_get(j, c, "tokens");
        if (mint_json_ints(j, tokens, out, SIZE_MAX, 0, top, err) < 0)
            return -1;
        out += mint_json_size(j, tokens);
    }
    return 0;
}

static int check_shape(const struct mint_json *j, mint_json_val shape, size_t n,
                       struct mint_err *err)
{
    int32_t dim;
    if (is_none(j, shape))
        return 0;
    if (mint_json_type(j, shape) != MINT_JSON_ARRAY)
        return mint_json_fail(j, shape, err, "must be an array");
    if (mint_json_size(j, shape) != 1)
        return mint_json_fail(j, shape, err,
                              "has %zu dimensions: only one-dimensional tensors are read",
                              mint_json_size(j, shape));
    if (mint_json_ints(j, shape, &dim, 1, 0, INT32_MAX, err) < 0)
        return -1;
    if ((size_t)dim != n)
        return mint_json_fail(j, shape, err, "is [%" PRId32 "], but data has %zu values", dim, n);
    return 0;
}

static int check_tensor(const struct mint_json *j, mint_json_val t, bool ids, size_t n,
                        struct mint_err *err)
{
    static const char *const sparse[] = {"sparse_crow_indices", "sparse_col_indices"};
    for (size_t i = 0; i < MINT_ARRAY_LEN(sparse); i++) {
        mint_json_val v = mint_json_get(j, t, sparse[i]);
        if (!is_none(j, v))
            return mint_json_fail(j, v, err, "makes a sparse tensor: only dense ones are read");
    }
    mint_json_val dtype = mint_json_get(j, t, "dtype");
    if (dtype != MINT_JSON_NONE && !is_string(j, dtype, "int64") &&
        (ids || !is_string(j, dtype, "float32")))
        return mint_json_fail(j, dtype, err,
                              ids ? "must be \"int64\"" : "must be \"float32\" or \"int64\"");
    return check_shape(j, mint_json_get(j, t, "shape"), n, err);
}

/* The array of numbers of a tensor, or of a bare list in its place, of n values. *data is NONE if
 * there is no such tensor. */
static int find_data(struct mint_reader *r, mint_json_val inputs, const char *key, size_t n,
                     mint_json_val *data, struct mint_err *err)
{
    const struct mint_json *j = r->doc;
    mint_json_val t = mint_json_get(j, inputs, key);
    *data = MINT_JSON_NONE;
    if (is_none(j, t))
        return 0;
    mint_json_val list = t;
    if (mint_json_type(j, t) == MINT_JSON_OBJECT) {
        list = mint_json_get(j, t, "data");
        if (list == MINT_JSON_NONE)
            return mint_record_missing(r, t, "data", err);
    }
    if (mint_json_type(j, list) != MINT_JSON_ARRAY)
        return mint_json_fail(j, list, err,
                              list == t ? "must be a tensor or a list of numbers"
                                        : "must be an array of numbers");
    mint_json_val first = mint_json_first(j, list);
    if (first != MINT_JSON_NONE && mint_json_type(j, first) == MINT_JSON_ARRAY)
        return mint_json_fail(j, list, err, "has rows: only one-dimensional tensors are read");
    if (mint_json_size(j, list) != n)
        return mint_json_fail(j, t, err, "has %zu values, %zu expected (one for each input token)",
                              mint_json_size(j, list), n);
    if (list != t && check_tensor(j, t, !strcmp(key, "target_tokens"), n, err) < 0)
        return -1;
    *data = list;
    return 0;
}

static int read_floats(struct mint_reader *r, mint_json_val inputs, const char *key, size_t n,
                       const float **out, struct mint_err *err)
{
    mint_json_val data;
    if (find_data(r, inputs, key, n, &data, err) < 0)
        return -1;
    if (data == MINT_JSON_NONE)
        return 0;
    float *v = mint_arena_alloc(&r->arena, n * sizeof(*v));
    *out = v;
    return mint_json_floats(r->doc, data, v, n, err);
}

static int read_logprobs(struct mint_reader *r, mint_json_val inputs, const char *key, size_t n,
                         const float **out, struct mint_err *err)
{
    if (read_floats(r, inputs, key, n, out, err) < 0)
        return -1;
    for (size_t i = 0; *out && i < n; i++) {
        if ((double)(*out)[i] > MINT_LOGPROB_MAX)
            return mint_json_fail(r->doc, mint_json_get(r->doc, inputs, key), err,
                                  "has %g at element %zu: a logprob cannot be above 0",
                                  (double)(*out)[i], i);
    }
    return 0;
}

/* After the weights: an id that counts for nothing may be anything. */
static int read_targets(struct mint_reader *r, mint_json_val inputs, int64_t vocab,
                        struct mint_datum *d, struct mint_err *err)
{
    mint_json_val data;
    if (find_data(r, inputs, "target_tokens", d->n, &data, err) < 0)
        return -1;
    if (data == MINT_JSON_NONE)
        return mint_record_missing(r, inputs, "target_tokens", err);
    int32_t *v = mint_arena_alloc(&r->arena, d->n * sizeof(*v));
    d->target = v;
    if (mint_json_ints(r->doc, data, v, d->n, INT32_MIN, INT32_MAX, err) < 0)
        return -1;
    for (size_t i = 0; i < d->n; i++) {
        if (v[i] >= 0 && (vocab <= 0 || v[i] < vocab))
            continue;
        if (!d->weights || d->weights[i] != 0.0f)
            return mint_json_fail(r->doc, data, err,
                                  "has token id %" PRId32
                                  " at element %zu: outside the vocabulary, and its weight is "
                                  "not 0",
                                  v[i], i);
        v[i] = 0;
    }
    return 0;
}

static int read_meta(struct mint_reader *r, struct mint_datum *d, struct mint_err *err)
{
    const struct mint_json *j = r->doc;
    mint_json_val meta = mint_json_get(j, 0, "meta");
    d->step = -1;
    if (is_none(j, meta))
        return 0;
    if (mint_json_type(j, meta) != MINT_JSON_OBJECT)
        return mint_json_fail(j, meta, err, "must be an object");
    d->meta_raw = mint_json_raw(j, meta, &d->meta_n);
    d->group = mint_record_text(r, mint_json_get(j, meta, "group"));
    if (!d->group)
        d->group = mint_record_text(r, mint_json_get(j, meta, "id"));
    if (!mint_json_int(j, mint_json_get(j, meta, "step"), &d->step) || d->step < 0)
        d->step = -1;
    d->device = mint_record_text(r, mint_json_get(j, meta, "device"));
    d->precision = mint_record_text(r, mint_json_get(j, meta, "precision"));
    d->pair = mint_record_text(r, mint_json_get(j, meta, "pair"));
    return 0;
}

int mint_datum_read(struct mint_reader *r, int64_t vocab, struct mint_datum *d,
                    struct mint_err *err)
{
    *d =
        (struct mint_datum){.step = -1, .file = mint_reader_file(r), .line = mint_reader_lineno(r)};
    if (read_input(r, vocab, d, err) < 0)
        return -1;
    mint_json_val in = mint_json_get(r->doc, 0, "loss_fn_inputs");
    if (in == MINT_JSON_NONE)
        return mint_record_missing(r, 0, "loss_fn_inputs", err);
    if (mint_json_type(r->doc, in) != MINT_JSON_OBJECT)
        return mint_json_fail(r->doc, in, err, "must be an object");
    size_t n = d->n;
    if (read_floats(r, in, "weights", n, &d->weights, err) < 0 ||
        read_targets(r, in, vocab, d, err) < 0 ||
        read_logprobs(r, in, "logprobs", n, &d->logprobs, err) < 0 ||
        read_floats(r, in, "advantages", n, &d->advantages, err) < 0 ||
        read_logprobs(r, in, "ref_logprobs", n, &d->ref_logprobs, err) < 0 ||
        read_floats(r, in, "clip_low_threshold", n, &d->clip_low, err) < 0 ||
        read_floats(r, in, "clip_high_threshold", n, &d->clip_high, err) < 0)
        return -1;
    return read_meta(r, d, err);
}

static void put_floats(struct mint_buf *b, const char *key, const float *v, size_t n)
{
    if (!v)
        return;
    mint_buf_addf(b, ",\"%s\":{\"data\":", key);
    mint_json_put_floats(b, v, n);
    mint_buf_addf(b, ",\"dtype\":\"float32\",\"shape\":[%zu]}", n);
}

void mint_datum_write(struct mint_buf *b, const struct mint_datum *d)
{
    mint_buf_adds(b, "{\"model_input\":{\"chunks\":[{\"type\":\"encoded_text\",\"tokens\":");
    mint_json_put_ints(b, d->input, d->n);
    mint_buf_adds(b, "}]},\"loss_fn_inputs\":{\"target_tokens\":{\"data\":");
    mint_json_put_ints(b, d->target, d->n);
    mint_buf_addf(b, ",\"dtype\":\"int64\",\"shape\":[%zu]}", d->n);
    put_floats(b, "weights", d->weights, d->n);
    put_floats(b, "logprobs", d->logprobs, d->n);
    put_floats(b, "advantages", d->advantages, d->n);
    put_floats(b, "ref_logprobs", d->ref_logprobs, d->n);
    put_floats(b, "clip_low_threshold", d->clip_low, d->n);
    put_floats(b, "clip_high_threshold", d->clip_high, d->n);
    mint_buf_addc(b, '}');
    if (d->meta_raw) {
        mint_buf_adds(b, ",\"meta\":");
        mint_buf_add(b, d->meta_raw, d->meta_n);
    }
    mint_buf_addc(b, '}');
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * json.h: strict JSON (RFC 8259) of one text, over jsmn, and writing of values into a mint_buf.
 *
 * jsmn finds the structure; what it lets through is checked here: separators, literals, number
 * grammar, escapes, lone surrogates, raw control bytes, UTF-8, duplicate keys, depth
 * (MINT_JSON_DEPTH), text after the value. Long arrays of plain numbers are checked by our own
 * scanner and hidden from jsmn, so that a record of a million tokens costs neither memory nor time
 * for each number.
 *
 * The document borrows the text: it must stay unchanged until the next parse. A value is a small
 * handle (mint_json_val) that is valid until then; MINT_JSON_NONE means "not there", and every
 * reader takes it and answers "not of that type". One document belongs to one thread.
 */
#ifndef MINT_JSON_H
#define MINT_JSON_H

#include "base.h"
#include "buf.h"
#include "err.h"

#define MINT_JSON_DEPTH 128
#define MINT_JSON_VALUES \
    (1 << 23) /* keys and values of one text; numbers in plain arrays do not count */
#define MINT_JSON_NONE (-1)

typedef int mint_json_val;
enum mint_json_type {
    MINT_JSON_ABSENT,
    MINT_JSON_NULL,
    MINT_JSON_BOOL,
    MINT_JSON_NUMBER,
    MINT_JSON_STRING,
    MINT_JSON_ARRAY,
    MINT_JSON_OBJECT
};

struct mint_json;
struct mint_json *mint_json_new(void);
void mint_json_free(struct mint_json *j);

/* Parse text[0..n). The root is value 0. Errors are MINT_EFORMAT "column 17: ..." (1-based byte).
 */
int mint_json_parse(struct mint_json *j, const char *text, size_t n, struct mint_err *err);

enum mint_json_type mint_json_type(const struct mint_json *j, mint_json_val v);
/* Members of an object or elements of an array; 0 for everything else. */
size_t mint_json_size(const struct mint_json *j, mint_json_val v);
/* Value of key in object v, or NONE. key is compared after unescaping. O(members). */
mint_json_val mint_json_get(const struct mint_json *j, mint_json_val v, const char *key);
/* Walk an object or array of any values: first child and next sibling, NONE at the end. Elements of
 * an array of numbers have no handles of their own (size and the bulk readers work): first gives
 * NONE there when mint_json_is_numbers is true. */
mint_json_val mint_json_first(const struct mint_json *j, mint_json_val v);
mint_json_val mint_json_next(const struct mint_json *j, mint_json_val child);
bool mint_json_is_numbers(const struct mint_json *j,
                          mint_json_val v); /* array, all numbers (an empty array too) */
/* Exact bytes of value v in the text (strings with their quotes); the key of a member, still
 * escaped, without quotes. */
const char *mint_json_raw(const struct mint_json *j, mint_json_val v, size_t *n);
const char *mint_json_key(const struct mint_json *j, mint_json_val member, size_t *n);
bool mint_json_key_is(const struct mint_json *j, mint_json_val member, const char *key);

/* Typed readers: true and *out set, or false and nothing changed. */
bool mint_json_bool(const struct mint_json *j, mint_json_val v, bool *out);
bool mint_json_int(const struct mint_json *j, mint_json_val v,
                   int64_t *out); /* |v| <= 2^53, no fraction or exponent */
bool mint_json_double(const struct mint_json *j, mint_json_val v, double *out); /* finite only */
bool mint_json_string(const struct mint_json *j, mint_json_val v,
                      struct mint_buf *out); /* appended, unescaped; may hold NUL bytes */
char *mint_json_strdup(const struct mint_json *j,
                       mint_json_val v); /* malloc'ed, NULL if no string or it holds a NUL */

/*
 * Bulk readers of arrays of numbers: n is the expected size, or SIZE_MAX for any (use
 * mint_json_size to allocate). They fail with MINT_ESCHEMA naming path, element and value: not an
 * array, a non-number, a fraction or out of [lo, hi] (ints), not finite as float32 (floats).
 * Elements that are null fail.
 */
int mint_json_ints(const struct mint_json *j, mint_json_val v, int32_t *out, size_t n, int64_t lo,
                   int64_t hi, struct mint_err *err);
int mint_json_floats(const struct mint_json *j, mint_json_val v, float *out, size_t n,
                     struct mint_err *err);

/* "sequences[2].logprobs" of a value, appended to out; the 1-based byte column where it starts. */
void mint_json_path(const struct mint_json *j, mint_json_val v, struct mint_buf *out);
size_t mint_json_column(const struct mint_json *j, mint_json_val v);
/* mint_fail(MINT_ESCHEMA) with "PATH (column N) " before the text. */
int mint_json_fail(const struct mint_json *j, mint_json_val v, struct mint_err *err,
                   const char *fmt, ...) MINT_PRINTF(4, 5);

/* --- writing: appended to b. Strings are valid UTF-8 (invalid bytes become U+FFFD); only what must
 * be is escaped. */
void mint_json_put_string(struct mint_buf *b, const char *s, size_t n);
void mint_json_put_str(struct mint_buf *b, const char *s); /* NUL-terminated */
void mint_json_put_int(struct mint_buf *b, int64_t v);
void mint_json_put_float(struct mint_buf *b, float v);   /* shortest; null if not finite */
void mint_json_put_double(struct mint_buf *b, double v); /* shortest; null if not finite */
void mint_json_put_ints(struct mint_buf *b, const int32_t *v, size_t n); /* [1,2,3] */
void mint_json_put_floats(struct mint_buf *b, const float *v, size_t n);

#endif

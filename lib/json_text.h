/* SPDX-License-Identifier: Apache-2.0 */
/*
 * json_text.h: the inside of JSON strings and the form of numbers, for json.c. "Escaped" text is
 * what stands between the quotes. Thread-safe.
 */
#ifndef MINT_JSON_TEXT_H
#define MINT_JSON_TEXT_H

#include "base.h"
#include "buf.h"

/*
 * p behind the opening quote. Returns the closing quote and sets *escaped if there is a backslash;
 * or sets *what (it is NULL otherwise) and returns the byte at fault. Checks escapes, surrogates,
 * control bytes, UTF-8.
 */
const char *mint_json_scan_string(const char *p, const char *end, bool *escaped, const char **what);
/*
 * p behind a '['. If the array holds nothing but well-formed numbers, returns the byte behind its
 * ']' and how many there are; otherwise NULL.
 */
const char *mint_json_scan_numbers(const char *p, const char *end, size_t *count);

/* Of text that scan_string accepted: */
void mint_json_unescape(struct mint_buf *out, const char *s, size_t n);
/* Order and equality of what two escaped texts mean; equals: the second one is plain. */
int mint_json_compare(const char *s, size_t n, const char *t, size_t m);
bool mint_json_equals(const char *s, size_t n, const char *plain, size_t m);

/* Length of the valid UTF-8 character at s (1 to 4), 0 if there is none: overlong, surrogate, too
 * high, cut. */
size_t mint_json_utf8(const char *s, size_t n);

#endif

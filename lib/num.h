/* SPDX-License-Identifier: Apache-2.0 */
/*
 * num.h: numbers and their text. No locale, no strtod in the inner loop, correctly rounded.
 * Printing gives the fewest digits that read back to the same value (as std::to_chars does):
 * "1", "-0.11", "1e-09" style is JSON-valid; integral values below 1e15 print without exponent
 * or ".0" ("1", "-3"); -0 prints "-0". Thread-safe.
 */
#ifndef MINT_NUM_H
#define MINT_NUM_H

#include "base.h"

#define MINT_NUM_MAX 40 /* bytes that any of the printers may write, '\0' included */

/* Shortest text that reads back to v as float32 / float64. v must be finite. Returns the length. */
int mint_num_print_float(char *out, float v);
int mint_num_print_double(char *out, double v);
int mint_num_print_int(char *out, int64_t v);

/* JSON number grammar at s[0..n): returns the bytes it takes, 0 if there is none ("01", "1.", ".5",
 * "+1", "1e" are none). *is_int: no fraction, no exponent. */
size_t mint_num_scan(const char *s, size_t n, bool *is_int);
/* Value of a text that mint_num_scan accepted as a whole: nearest double (exact rounding). May be
 * infinite for 1e999: the caller decides. */
double mint_num_double(const char *s, size_t n);
/* The float nearest to the text itself (not via double: no double rounding). */
float mint_num_float(const char *s, size_t n);
/* For long arrays: reads the number that s[0..n) begins with, in text that is known to be
 * well-formed; returns the bytes it takes. */
size_t mint_num_read_float(const char *s, size_t n, float *v);
/* Exact integer; false if it has a fraction or exponent, or leaves the int64 range. */
bool mint_num_int(const char *s, size_t n, int64_t *v);

/* Option values of the command line: whole string must be used; K, M, G (1000s) and KiB, MiB, GiB
 * suffixes for integers. */
bool mint_num_arg_int(const char *s, int64_t *v);
/* Whether s is such a number, perhaps one beyond an int64. */
bool mint_num_arg_is_int(const char *s);
bool mint_num_arg_double(const char *s, double *v);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* math_parse.h: from tokens to a tree. */
#ifndef MINT_MATH_PARSE_H
#define MINT_MATH_PARSE_H

#include "math_lex.h"
#include "math_tree.h"

/*
 * The value that all of v[0..n) spells: an expression, a tuple, an interval, a set, a matrix, a
 * union, a ratio. NULL, with a reason in m, if anything is left over or is not known: a prefix
 * never counts. pm (1 or -1) is the sign that \pm stands for. Brackets deeper than MINT_MATH_DEPTH
 * are given up.
 */
struct mint_math_node *mint_math_parse(struct mint_math *m, const struct mint_math_tok *v, size_t n,
                                       int pm);

/* The name of the variable that starts at v[0], with subscripts and primes; *used tokens. */
const char *mint_math_var_name(struct mint_math *m, const struct mint_math_tok *v, size_t n,
                               size_t *used);

#endif

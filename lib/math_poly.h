/* SPDX-License-Identifier: Apache-2.0 */
/*
 * math_poly.h: rational functions in a few variables, exactly.
 *
 * A canonical form is numerator and denominator, each a polynomial over the rationals: terms sorted
 * by exponents, no two alike, no zero coefficient. pi and e are variables here (both are
 * transcendental), i is one whose square is -1. Two forms are equal everywhere if and only if
 * num1 * den2 = num2 * den1, term by term.
 */
#ifndef MINT_MATH_POLY_H
#define MINT_MATH_POLY_H

#include "math_tree.h"

enum mint_math_verdict {
    MINT_MATH_NO,
    MINT_MATH_YES,
    MINT_MATH_UNKNOWN, /* cannot be said in this way */
};

/* Are two trees equal as rational functions? UNKNOWN if one is none, or is too large. A division by
 * a polynomial that is zero: NO, with a reason. */
enum mint_math_verdict mint_math_poly_equal(struct mint_math *m, struct mint_math_node *a,
                                            struct mint_math_node *b);

#endif

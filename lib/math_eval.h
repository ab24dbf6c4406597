/* SPDX-License-Identifier: Apache-2.0 */
/*
 * math_eval.h: are two formulas equal as numbers, at enough places?
 *
 * Both are computed as (complex) intervals. Where the difference does not hold 0 they differ: that
 * is a proof. Where it does, and is narrower than 2^-B of their size, they count as equal there,
 * with B = 256 + 4 for each bit of the largest numerator or denominator on either side: no fraction
 * of that size is so near to a root, and sums of a few roots, logarithms and powers are not so near
 * to each other unless they are equal.
 *
 * Formulas with variables are compared at up to 32 places, the same in every run: real ones of both
 * signs and several sizes; where that leaves too few at which both have real values, whole ones
 * (for factorials and powers of -1). All must agree, and there must be enough.
 */
#ifndef MINT_MATH_EVAL_H
#define MINT_MATH_EVAL_H

#include "math_poly.h"
#include "math_tree.h"

/* UNKNOWN, with a reason in m: no value, or limits met. */
enum mint_math_verdict mint_math_eval_equal(struct mint_math *m, struct mint_math_node *a,
                                            struct mint_math_node *b);
/* Frees what MPFR keeps for this thread. */
void mint_math_eval_done(void);

#endif

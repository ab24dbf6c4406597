/* SPDX-License-Identifier: Apache-2.0 */
/*
 * math_interval.h: real intervals with MPFR's directed rounding. The true value lies within [lo,
 * hi], whatever was rounded on the way: so 0 outside of a - b proves that a and b differ.
 *
 * The operations take results that may be operands. They return false where there is no value (a
 * division by an interval that holds 0, a logarithm of one that is not positive) or where it is too
 * large to be of use; out is then undefined.
 */
#ifndef MINT_MATH_INTERVAL_H
#define MINT_MATH_INTERVAL_H

#include <mpfr.h>

#include "base.h"

struct mint_interval {
    mpfr_t lo, hi;
};

void mint_interval_init(struct mint_interval *x, mpfr_prec_t bits); /* 0 */
void mint_interval_clear(struct mint_interval *x);
void mint_interval_set(struct mint_interval *out, const struct mint_interval *a);
void mint_interval_set_q(struct mint_interval *out, mpq_srcptr q);
void mint_interval_set_si(struct mint_interval *out, long v);
void mint_interval_pi(struct mint_interval *out);

int mint_interval_sign(const struct mint_interval *a);     /* 1, -1; 0: it holds 0 */
bool mint_interval_is_zero(const struct mint_interval *a); /* exactly */

void mint_interval_neg(struct mint_interval *out, const struct mint_interval *a);
void mint_interval_add(struct mint_interval *out, const struct mint_interval *a,
                       const struct mint_interval *b);
void mint_interval_sub(struct mint_interval *out, const struct mint_interval *a,
                       const struct mint_interval *b);
bool mint_interval_mul(struct mint_interval *out, const struct mint_interval *a,
                       const struct mint_interval *b);
bool mint_interval_div(struct mint_interval *out, const struct mint_interval *a,
                       const struct mint_interval *b);
bool mint_interval_root(struct mint_interval *out, const struct mint_interval *a, unsigned long n);
bool mint_interval_exp(struct mint_interval *out, const struct mint_interval *a);
bool mint_interval_log(struct mint_interval *out, const struct mint_interval *a);
bool mint_interval_sin(struct mint_interval *out, const struct mint_interval *a);
bool mint_interval_cos(struct mint_interval *out, const struct mint_interval *a);
void mint_interval_atan(struct mint_interval *out, const struct mint_interval *a);
bool mint_interval_asin(struct mint_interval *out, const struct mint_interval *a);

/* log2 of the width of a; very small for a point. */
mpfr_exp_t mint_interval_width(const struct mint_interval *a);
/* log2 of the larger end's size, at least 0. */
mpfr_exp_t mint_interval_size(const struct mint_interval *a);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* math_equal.h: does an answer say the same as the gold one? */
#ifndef MINT_MATH_EQUAL_H
#define MINT_MATH_EQUAL_H

#include "buf.h"
#include "math_read.h"

/*
 * true only if it is certain (or, for roots, logarithms and the like, agrees to the bound of
 * math_eval.h). *why is set either way: how they were found equal, or why not; a limit that was met
 * reads "undecided: ...". Both readings belong to m.
 */
bool mint_math_equal(struct mint_math *m, const struct mint_math_reading *answer,
                     const struct mint_math_reading *gold, const char **why);

/* The answer in one form, for counting votes: appended to out. */
void mint_math_canon(const struct mint_math_reading *r, struct mint_buf *out);

#endif

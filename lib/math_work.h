/* SPDX-License-Identifier: Apache-2.0 */
/*
 * math_work.h: what one comparison of two answers uses up: memory, exact numbers, and a budget.
 *
 * Nothing that a response can hold may make the comparison slow or deep. So every step of any
 * weight is paid for from the budget, exact numbers have a greatest size, and whoever meets a limit
 * gives up with a reason. A text that was given up is not equal to anything but itself.
 * One workspace belongs to one thread.
 */
#ifndef MINT_MATH_WORK_H
#define MINT_MATH_WORK_H

#include <gmp.h>

#include "base.h"
#include "mem.h"

enum {
    MINT_MATH_TEXT = 1 << 16, /* bytes of an answer */
    MINT_MATH_TOKENS = 8000,  /* of an answer */
    MINT_MATH_DEPTH = 120,    /* of nesting: a pair of brackets counts twice */
    MINT_MATH_DIGITS = 20000, /* of a number as written */
    MINT_MATH_BITS = 70000,   /* of a numerator or denominator */
    MINT_MATH_FACTORIAL = 4000,
    MINT_MATH_MEMBERS = 200, /* of a list, a tuple, a matrix */
    MINT_MATH_ATOMS = 8,     /* variables (and pi, e, i) of a canonical form */
    MINT_MATH_STEPS = 40000, /* of one comparison */
};

struct mint_math {
    struct mint_arena arena;
    mpq_ptr *q; /* all exact numbers that were made */
    size_t nq, capq;
    int64_t steps;                      /* that are left */
    const char *reason;                 /* the first one why something was given up */
    const char *atoms[MINT_MATH_ATOMS]; /* names, shared by both sides */
    size_t natoms;
};

void mint_math_reset(struct mint_math *m); /* also makes a zeroed one ready */
void mint_math_release(struct mint_math *m);
/* A new number, 0; it lives until reset. */
mpq_ptr mint_math_q(struct mint_math *m);
/* Pays; false, with a reason, when the budget is used up. */
bool mint_math_pay(struct mint_math *m, size_t steps);
/* Pays for an operation whose result is q; false if q is too large to be kept. */
bool mint_math_pay_q(struct mint_math *m, mpq_srcptr q);
/* Notes why, unless there is a reason already. Returns NULL, so that a reader can end with it. */
void *mint_math_why(struct mint_math *m, const char *reason);

#endif

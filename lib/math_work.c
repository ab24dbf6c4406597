/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>

#include "math_work.h"

/* What limbs of numbers cost: common divisors take the square of their length. */
enum { LIMBS_A_STEP = 16, SQUARE_A_STEP = 1500 };

void mint_math_reset(struct mint_math *m)
{
    for (size_t i = 0; i < m->nq; i++)
        mpq_clear(m->q[i]);
    m->nq = 0;
    m->natoms = 0;
    m->reason = NULL;
    m->steps = MINT_MATH_STEPS;
    mint_arena_reset(&m->arena);
}

void mint_math_release(struct mint_math *m)
{
    mint_math_reset(m);
    mint_arena_release(&m->arena);
    free(m->q);
    *m = (struct mint_math){0};
}

mpq_ptr mint_math_q(struct mint_math *m)
{
    if (m->nq == m->capq) {
        m->capq = m->capq ? 2 * m->capq : 64;
        m->q = mint_xreallocarray(m->q, m->capq, sizeof(*m->q));
    }
    mpq_ptr q = mint_arena_alloc(&m->arena, sizeof(mpq_t));
    mpq_init(q);
    m->q[m->nq++] = q;
    return q;
}

bool mint_math_pay(struct mint_math *m, size_t steps)
{
    if (m->steps >= (int64_t)steps) {
        m->steps -= (int64_t)steps;
        return true;
    }
    m->steps = 0;
    mint_math_why(m, "undecided: too much to compute");
    return false;
}

bool mint_math_pay_q(struct mint_math *m, mpq_srcptr q)
{
    if (mpz_sizeinbase(mpq_numref(q), 2) > MINT_MATH_BITS ||
        mpz_sizeinbase(mpq_denref(q), 2) > MINT_MATH_BITS) {
        mint_math_why(m, "undecided: a number with too many digits");
        return false;
    }
    size_t limbs = mpz_size(mpq_numref(q)) + mpz_size(mpq_denref(q));
    return mint_math_pay(m, 1 + limbs / LIMBS_A_STEP + limbs * limbs / SQUARE_A_STEP);
}

void *mint_math_why(struct mint_math *m, const char *reason)
{
    if (!m->reason)
        m->reason = reason;
    return NULL;
}

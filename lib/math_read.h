/* SPDX-License-Identifier: Apache-2.0 */
/*
 * math_read.h: what an answer says: one value or several, names and units around it, a letter of a
 * multiple choice, or words.
 */
#ifndef MINT_MATH_READ_H
#define MINT_MATH_READ_H

#include "math_lex.h"
#include "math_tree.h"

struct mint_math_member {
    const char *label;            /* "x" of x = 5; NULL: none */
    struct mint_math_node *left;  /* of an equation; may be NULL even if there is a label */
    struct mint_math_node *value; /* never NULL */
    bool equation;                /* left = value, and the left side is no mere name */
    bool percent;
    const char *unit; /* NULL: none */
};

struct mint_math_reading {
    struct mint_math_toks toks; /* what was read, for comparison as text */
    char choice;                /* 'A'..'J', 0: none */
    bool words;                 /* text, in which case does not matter */
    bool set;                   /* unordered, and repetitions do not count */
    bool hedged;                /* it names other answers too */
    size_t n;                   /* 0: it could not be read, see why */
    struct mint_math_member *v;
    const char *why;
};

/*
 * Reads s[0..n), which must stay as long as the reading. phrase: a sentence of prose, in which
 * words may follow the answer; otherwise all of it must be the answer. Whatever it holds gives a
 * reading; one without members is only equal to the same text.
 */
void mint_math_read(struct mint_math *m, const char *s, size_t n, bool phrase,
                    struct mint_math_reading *out);

/* --- units (math_units.c) */

/* May the word (or text) at v[i], behind a value, be a unit? */
bool mint_math_unit_word(const struct mint_math_tok *v, size_t i);
/* Takes the unit off the end of v[0..*n): its words in one form, NULL if there is none. *scale
 * becomes 1000 for "thousand" and so on, else 1. */
const char *mint_math_take_unit(struct mint_math *m, const struct mint_math_tok *v, size_t *n,
                                long *scale);
/* Do two units go together? NULL goes with everything. */
bool mint_math_units_agree(const char *a, const char *b);
/* Does this word turn what is said around ("not", "minus", "thirds")? */
bool mint_math_turns(const struct mint_math_tok *t);
/* Does a value end at this token? */
bool mint_math_value_end(const struct mint_math_tok *t);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * math_extract.h: which part of a response is its answer.
 *
 * 1. Text ends at the first <|im_end|>, <|endoftext|> or <|im_start|>. Thinking does not count:
 * only what stands behind the last </think> is read, and nothing from a <think> that is not closed.
 *    It ends before a later line that starts with "Q:" or "Question:".
 * 2. The last \boxed{...} (or \fbox, or \boxed 7) wins. If it is not closed, or empty, there is no
 *    answer, whatever was said before.
 * 3. Without a box the last marker counts: "#### " and a number, "answer is", "Answer:", and the
 *    Chinese ones. The answer runs to the end of the sentence.
 * 4. Without a marker the last number counts, with what belongs to it (3/4, 25\pi), unless strict.
 *
 * Each is linear in the text.
 */
#ifndef MINT_MATH_EXTRACT_H
#define MINT_MATH_EXTRACT_H

#include "base.h"

enum mint_math_rule {
    MINT_MATH_AUTO, /* the order above */
    MINT_MATH_BOXED,
    MINT_MATH_HASH,
    MINT_MATH_PHRASE,
    MINT_MATH_LAST_NUMBER,
    MINT_MATH_FIRST_NUMBER,
    MINT_MATH_ANSWER_LINE, /* the last line "Answer: ..." of the last 2048 characters (DAPO) */
    MINT_MATH_WHOLE,       /* all of the text */
};
/* "boxed", "hash", ...; also the names of the choices, in this order, ended by NULL. */
extern const char *const mint_math_rules[];

struct mint_math_found {
    enum mint_math_rule rule; /* that fired */
    const char *s;            /* NULL: no answer, see why */
    size_t n;
    bool phrase; /* words may follow it */
    unsigned boxes;
    bool boxes_differ; /* not all boxes hold the same text */
    const char *why;
};

/* rule AUTO with strict: no last number. Any other rule: that one alone. */
void mint_math_extract(const char *text, size_t n, enum mint_math_rule rule, bool strict,
                       struct mint_math_found *out);
/* The same for a gold answer: a box in it, else what follows the last "####", else all of it. */
void mint_math_extract_gold(const char *text, size_t n, struct mint_math_found *out);

#endif

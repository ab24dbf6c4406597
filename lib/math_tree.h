/* SPDX-License-Identifier: Apache-2.0 */
/*
 * math_tree.h: what a formula says, as a tree. It lives in the arena of its workspace.
 *
 * The makers compute at once what is rational, exactly: a subtree without variables, roots and the
 * like is one number. They return NULL, with a reason in the workspace, for what cannot be (a
 * division by zero) or passes a limit; and NULL for NULL.
 */
#ifndef MINT_MATH_TREE_H
#define MINT_MATH_TREE_H

#include "math_lex.h"
#include "math_work.h"

enum mint_math_kind {
    MN_NUM,    /* q */
    MN_VAR,    /* name; "\\pi", "e" and "i" are the constants */
    MN_ADD,    /* ch[0..n) */
    MN_MUL,    /* ch[0..n) */
    MN_POW,    /* ch[0] to the power of ch[1] */
    MN_FN,     /* fn of ch[0..n) */
    MN_INF,    /* fn: the sign */
    MN_TUPLE,  /* a tuple or an interval: open, close and members */
    MN_SET,    /* also the empty one */
    MN_UNION,  /* of sets and intervals */
    MN_MATRIX, /* rows; n / rows columns */
    MN_BASE,   /* ch[0], digits in base ch[1] */
    MN_RATIO,  /* 3:2, 12:00 */
};

struct mint_math_node {
    enum mint_math_kind kind;
    int fn;
    char open, close;
    unsigned n, rows;
    struct mint_math_node **ch;
    mpq_ptr q;
    const char *name;
};

struct mint_math_node *mint_math_num(struct mint_math *m, const struct mint_math_digits *d);
struct mint_math_node *mint_math_int(struct mint_math *m, long num, long den);
struct mint_math_node *mint_math_var(struct mint_math *m, const char *name);
struct mint_math_node *mint_math_node(struct mint_math *m, enum mint_math_kind kind,
                                      struct mint_math_node **ch, unsigned n);
struct mint_math_node *mint_math_add(struct mint_math *m, struct mint_math_node **ch, unsigned n);
struct mint_math_node *mint_math_mul(struct mint_math *m, struct mint_math_node **ch, unsigned n);
struct mint_math_node *mint_math_neg(struct mint_math *m, struct mint_math_node *a);
struct mint_math_node *mint_math_div(struct mint_math *m, struct mint_math_node *a,
                                     struct mint_math_node *b);
struct mint_math_node *mint_math_pow(struct mint_math *m, struct mint_math_node *a,
                                     struct mint_math_node *b);
struct mint_math_node *mint_math_fn(struct mint_math *m, int fn, struct mint_math_node **ch,
                                    unsigned n);

/* *out = base to the power of e, if it is not too large. */
bool mint_math_pow_q(struct mint_math *m, mpq_srcptr base, long e, mpq_ptr out);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "math_equal.h"
#include "math_eval.h"
#include "math_poly.h"

static bool tree_equal(struct mint_math *m, struct mint_math_node *a, struct mint_math_node *b,
                       const char **how);

static bool formula_equal(struct mint_math *m, struct mint_math_node *a, struct mint_math_node *b,
                          const char **how)
{
    if (a->kind == MN_NUM && b->kind == MN_NUM) {
        *how = "equal numbers";
        return mpq_equal(a->q, b->q);
    }
    enum mint_math_verdict v = mint_math_poly_equal(m, a, b);
    *how = "equal rational functions";
    if (v == MINT_MATH_UNKNOWN) {
        *how = "equal values";
        v = mint_math_eval_equal(m, a, b);
    }
    return v == MINT_MATH_YES;
}

static bool all_equal(struct mint_math *m, struct mint_math_node *a, struct mint_math_node *b,
                      const char **how)
{
    if (a->n != b->n)
        return false;
    for (unsigned i = 0; i < a->n; i++) {
        if (!tree_equal(m, a->ch[i], b->ch[i], how))
            return false;
    }
    return true;
}

/* Every member of a is one of b. */
static bool subset(struct mint_math *m, struct mint_math_node *a, struct mint_math_node *b,
                   const char **how)
{
    for (unsigned i = 0; i < a->n; i++) {
        unsigned k = 0;
        while (k < b->n && !tree_equal(m, a->ch[i], b->ch[k], how))
            k++;
        if (k == b->n)
            return false;
    }
    return true;
}

static bool tree_equal(struct mint_math *m, struct mint_math_node *a, struct mint_math_node *b,
                       const char **how)
{
    if (!mint_math_pay(m, 1))
        return false;
    if (a->kind < MN_INF && b->kind < MN_INF)
        return formula_equal(m, a, b, how);
    if (a->kind != b->kind)
        return false;
    *how = "equal members";
    switch (a->kind) {
    case MN_INF:
        *how = "as written";
        return a->fn == b->fn;
    case MN_TUPLE:
        return a->open == b->open && a->close == b->close && all_equal(m, a, b, how);
    case MN_MATRIX:
        return a->rows == b->rows && all_equal(m, a, b, how);
    case MN_SET:
    case MN_UNION:
        return subset(m, a, b, how) && subset(m, b, a, how);
    default:
        return all_equal(m, a, b, how);
    }
}

/* a% is a, and a hundredth of it. */
static bool percent_equal(struct mint_math *m, const struct mint_math_member *a,
                          const struct mint_math_member *b, const char **how)
{
    const struct mint_math_member *p = a->percent ? a : b, *q = a->percent ? b : a;
    if (p->percent == q->percent || tree_equal(m, p->value, q->value, how))
        return tree_equal(m, p->value, q->value, how);
    if (p->value->kind >= MN_INF)
        return false;
    struct mint_math_node *pair[2] = {p->value, mint_math_int(m, 1, 100)};
    struct mint_math_node *t = mint_math_mul(m, pair, 2);
    return t && tree_equal(m, t, q->value, how);
}

static bool sides_equal(struct mint_math *m, struct mint_math_node *a, struct mint_math_node *b,
                        const char **how)
{
    return a && b && tree_equal(m, a, b, how);
}

static bool member_equal(struct mint_math *m, const struct mint_math_member *a,
                         const struct mint_math_member *b, const char **how)
{
    bool value_is = false, compared = false;
    if (!mint_math_units_agree(a->unit, b->unit)) {
        mint_math_why(m, "different units");
        return false;
    }
    if (a->equation || b->equation || (a->label && b->label)) {
        bool both = (a->label || a->equation) && (b->label || b->equation);
        bool same_left = a->label && b->label ? !strcmp(a->label, b->label) : false;
        if (!both)
            return false;
        if (same_left || sides_equal(m, a->left, b->left, how)) {
            value_is = percent_equal(m, a, b, how);
            compared = true;
        }
        if (compared && value_is)
            return true;
        return sides_equal(m, a->left, b->value, how) && sides_equal(m, a->value, b->left, how);
    }
    return percent_equal(m, a, b, how);
}

/* Lists: order does not matter; in sets, repetitions neither. */
static bool lists_equal(struct mint_math *m, const struct mint_math_reading *a,
                        const struct mint_math_reading *b, const char **how)
{
    bool set = a->set || b->set;
    bool used[MINT_MATH_MEMBERS] = {false};
    if (!set && a->n != b->n)
        return false;
    for (size_t i = 0; i < a->n; i++) {
        size_t k = 0;
        while (k < b->n && ((!set && used[k]) || !member_equal(m, &a->v[i], &b->v[k], how)))
            k++;
        if (k == b->n)
            return false;
        used[k] = true;
    }
    for (size_t k = 0; set && k < b->n; k++) {
        size_t i = 0;
        while (!used[k] && i < a->n && !member_equal(m, &a->v[i], &b->v[k], how))
            i++;
        if (i == a->n)
            return false;
    }
    return true;
}

static bool same_text(const struct mint_math_reading *a, const struct mint_math_reading *b)
{
    struct mint_buf x = MINT_BUF_INIT, y = MINT_BUF_INIT;
    mint_math_spell(a->toks.v, a->toks.n, b->words, &x);
    mint_math_spell(b->toks.v, b->toks.n, b->words, &y);
    bool same = x.len && x.len == y.len && !memcmp(x.data, y.data, x.len);
    mint_buf_release(&x);
    mint_buf_release(&y);
    return same;
}

bool mint_math_equal(struct mint_math *m, const struct mint_math_reading *answer,
                     const struct mint_math_reading *gold, const char **why)
{
    m->reason = NULL;
    *why = "different";
    if (answer->hedged) {
        *why = "it names more than one answer";
        return false;
    }
    if (gold->choice && answer->choice) {
        bool same = gold->choice == answer->choice;
        *why = same ? "same letter" : "another letter";
        return same;
    }
    if (same_text(answer, gold)) {
        *why = "same text";
        return true;
    }
    if (!answer->n || !gold->n) {
        *why = !answer->n ? answer->why : gold->words ? "different text" : gold->why;
        return false;
    }
    const char *how = "equal members";
    if (answer->n == 1 && gold->n == 1) {
        if (member_equal(m, &answer->v[0], &gold->v[0], &how)) {
            *why = how;
            return true;
        }
    } else if (lists_equal(m, answer, gold, &how)) {
        *why = "equal members";
        return true;
    }
    if (m->reason)
        *why = m->reason;
    return false;
}

void mint_math_canon(const struct mint_math_reading *r, struct mint_buf *out)
{
    if (r->choice) {
        mint_buf_addc(out, r->choice);
        return;
    }
    if (r->n == 1 && !r->v[0].equation && r->v[0].value->kind == MN_NUM &&
        mpz_sizeinbase(mpq_numref(r->v[0].value->q), 2) < 2000 &&
        mpz_sizeinbase(mpq_denref(r->v[0].value->q), 2) < 2000) {
        char text[1300];
        mpq_get_str(text, 10, r->v[0].value->q);
        mint_buf_adds(out, text);
        return;
    }
    mint_math_spell(r->toks.v, MINT_MIN(r->toks.n, (size_t)200), r->words, out);
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * math_lex.h: LaTeX or plain mathematical text as tokens.
 *
 * What only shapes the page is gone (\left, \displaystyle, \!, dollars, colours); a symbol is one
 * token however it is spelled (\times, ×, \cdot). What is unknown is a token too, so that nothing
 * is ever skipped in silence: a reader that does not know it gives up.
 */
#ifndef MINT_MATH_LEX_H
#define MINT_MATH_LEX_H

#include "buf.h"
#include "math_work.h"

/* Types below 256 are the characters themselves: + - * / ^ _ ( ) [ ] { } , ; : | ! = < > % & */
enum mint_math_type {
    MT_END = 0,
    MT_NUM = 256,
    MT_VAR,  /* a letter, or a Greek one ("\alpha") */
    MT_WORD, /* letters that are no known name */
    MT_AND,  /* "and", "or": parts the members of a list */
    MT_FRAC,
    MT_HALF, /* a fraction in one character: num over den */
    MT_BINOM,
    MT_SQRT,
    MT_CBRT,
    MT_FN, /* fn: enum mint_math_fn */
    MT_PI,
    MT_INF,
    MT_EMPTY,
    MT_PM,
    MT_MP,
    MT_LE,
    MT_GE,
    MT_NE,
    MT_APPROX,
    MT_IN,
    MT_CUP,
    MT_DEG,
    MT_ANGLE, /* \angle, \triangle, \overline: part of a name, of nothing else */
    MT_LSET,
    MT_RSET,
    MT_LANGLE,
    MT_RANGLE,
    MT_LFLOOR,
    MT_RFLOOR,
    MT_LCEIL,
    MT_RCEIL,
    MT_BEGIN, /* of an environment, s its name */
    MT_ENDENV,
    MT_ROW, /* \\ */
    MT_OVER,
    MT_SUP, /* superscript digits: num */
    MT_SUB,
    MT_PERCENT_WORD,
    MT_BAD, /* anything else */
};

enum mint_math_fn {
    FN_NONE,
    FN_ROOT, /* x, n */
    FN_ABS,
    FN_FLOOR,
    FN_CEIL,
    FN_FACT,
    FN_BINOM,
    FN_GCD,
    FN_LCM,
    FN_MAX,
    FN_MIN,
    FN_EXP,
    FN_LN,
    FN_LOG, /* base not said */
    FN_LG,
    FN_SIN,
    FN_COS,
    FN_TAN,
    FN_COT,
    FN_SEC,
    FN_CSC,
    FN_ASIN,
    FN_ACOS,
    FN_ATAN,
    FN_SINH,
    FN_COSH,
    FN_TANH,
};

/* A number as written: digits without separators and point, so many of them behind the point, so
 * many repeating at the end, and a power of ten. */
struct mint_math_digits {
    const char *s;
    unsigned n, fraction, repeat;
    int exponent;
    bool plain; /* no point, no exponent, no separators */
};

struct mint_math_tok {
    int type, fn;
    bool space; /* before it */
    bool text;  /* out of \text{} and its like */
    const char *s;
    size_t n; /* the source; for MT_VAR the name in one form */
    const struct mint_math_digits *num;
};

struct mint_math_toks {
    const struct mint_math_tok *v; /* v[n] is MT_END */
    size_t n;
};

/* NULL text parts (in the arena of m) of s[0..n), which must stay; false with a reason in m if it
 * is too long. */
bool mint_math_lex(struct mint_math *m, const char *s, size_t n, struct mint_math_toks *out);

/* The tokens in one spelling, for the comparison of texts: appended to out, lower case if fold. */
void mint_math_spell(const struct mint_math_tok *v, size_t n, bool fold, struct mint_buf *out);

/* --- tables (math_symbols.c) */
enum mint_math_act {
    ACT_TOKEN, /* type, fn */
    ACT_VAR,   /* a letter by name */
    ACT_SPACE,
    ACT_SKIP,     /* nothing */
    ACT_SKIP_DOT, /* nothing, and a point behind it neither: \left. */
    ACT_SKIP_ARG, /* nothing, with its {argument} */
    ACT_TEXT,     /* its {argument} is text */
    ACT_INNER,    /* its {argument} stands for itself */
    ACT_ENV,      /* \begin, \end */
};
struct mint_math_symbol {
    const char *name;
    enum mint_math_act act;
    int type, fn;
};
/* A LaTeX command without its backslash; NULL: unknown. */
const struct mint_math_symbol *mint_math_command(const char *s, size_t n);
/* A word of plain text such as "sqrt" or "pi"; NULL: unknown. */
const struct mint_math_symbol *mint_math_plain_name(const char *s, size_t n);
struct mint_math_unicode {
    uint32_t c;
    int type; /* 0: white space or nothing; MT_VAR: name */
    const char *name;
    int a, b; /* MT_HALF: a/b; MT_SUP, MT_SUB: digit, or '-', '+' */
};
const struct mint_math_unicode *mint_math_unicode(uint32_t c);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* What commands, names and characters mean. Tables are sorted; a test sees to it. */
#include <stdlib.h>
#include <string.h>

#include "math_lex.h"

#define TOKEN(name, type)        \
    {                            \
        name, ACT_TOKEN, type, 0 \
    }
#define FN(name, fn)               \
    {                              \
        name, ACT_TOKEN, MT_FN, fn \
    }
#define DO(name, act)   \
    {                   \
        name, act, 0, 0 \
    }
#define VAR(name)                \
    {                            \
        name, ACT_VAR, MT_VAR, 0 \
    }

static const struct mint_math_symbol commands[] = {
    DO("!", ACT_SKIP),
    TOKEN("#", MT_BAD),
    TOKEN("$", 0),
    TOKEN("%", '%'),
    TOKEN("&", MT_BAD),
    DO("(", ACT_SKIP),
    DO(")", ACT_SKIP),
    DO(",", ACT_SPACE),
    DO(":", ACT_SPACE),
    DO(";", ACT_SPACE),
    DO(">", ACT_SPACE),
    VAR("Alpha"),
    DO("Big", ACT_SKIP),
    DO("Bigg", ACT_SKIP),
    DO("Biggl", ACT_SKIP),
    DO("Biggr", ACT_SKIP),
    DO("Bigl", ACT_SKIP),
    DO("Bigr", ACT_SKIP),
    VAR("Delta"),
    VAR("Gamma"),
    VAR("Lambda"),
    VAR("Omega"),
    VAR("Phi"),
    VAR("Pi"),
    VAR("Psi"),
    VAR("Sigma"),
    VAR("Theta"),
    DO("[", ACT_SKIP),
    TOKEN("\\", MT_ROW),
    DO("]", ACT_SKIP),
    VAR("alpha"),
    TOKEN("angle", MT_ANGLE),
    TOKEN("approx", MT_APPROX),
    FN("arccos", FN_ACOS),
    FN("arcsin", FN_ASIN),
    FN("arctan", FN_ATAN),
    TOKEN("ast", '*'),
    TOKEN("bar", MT_ANGLE),
    DO("begin", ACT_ENV),
    VAR("beta"),
    DO("bf", ACT_TEXT),
    DO("big", ACT_SKIP),
    DO("bigg", ACT_SKIP),
    DO("biggl", ACT_SKIP),
    DO("biggr", ACT_SKIP),
    DO("bigl", ACT_SKIP),
    DO("bigr", ACT_SKIP),
    TOKEN("binom", MT_BINOM),
    DO("bm", ACT_INNER),
    DO("boldsymbol", ACT_INNER),
    DO("boxed", ACT_INNER),
    TOKEN("bullet", '*'),
    TOKEN("cdot", '*'),
    TOKEN("centerdot", '*'),
    TOKEN("cfrac", MT_FRAC),
    VAR("chi"),
    TOKEN("circ", MT_DEG),
    DO("color", ACT_SKIP_ARG),
    FN("cos", FN_COS),
    FN("cosh", FN_COSH),
    FN("cot", FN_COT),
    FN("csc", FN_CSC),
    TOKEN("cup", MT_CUP),
    TOKEN("dbinom", MT_BINOM),
    TOKEN("degree", MT_DEG),
    VAR("delta"),
    TOKEN("dfrac", MT_FRAC),
    DO("displaystyle", ACT_SKIP),
    TOKEN("div", '/'),
    VAR("ell"),
    TOKEN("emptyset", MT_EMPTY),
    DO("end", ACT_ENV),
    DO("ensuremath", ACT_INNER),
    VAR("epsilon"),
    VAR("eta"),
    TOKEN("euro", 0),
    FN("exp", FN_EXP),
    DO("fbox", ACT_INNER),
    TOKEN("frac", MT_FRAC),
    VAR("gamma"),
    FN("gcd", FN_GCD),
    TOKEN("ge", MT_GE),
    TOKEN("geq", MT_GE),
    TOKEN("geqslant", MT_GE),
    TOKEN("gt", '>'),
    TOKEN("hat", MT_ANGLE),
    DO("hbox", ACT_TEXT),
    DO("hphantom", ACT_SKIP_ARG),
    DO("hspace", ACT_SKIP_ARG),
    TOKEN("in", MT_IN),
    TOKEN("infty", MT_INF),
    DO("it", ACT_TEXT),
    VAR("kappa"),
    VAR("lambda"),
    TOKEN("langle", MT_LANGLE),
    TOKEN("lbrace", MT_LSET),
    TOKEN("lbrack", '['),
    TOKEN("lceil", MT_LCEIL),
    FN("lcm", FN_LCM),
    TOKEN("le", MT_LE),
    DO("left", ACT_SKIP_DOT),
    TOKEN("leq", MT_LE),
    TOKEN("leqslant", MT_LE),
    TOKEN("lfloor", MT_LFLOOR),
    FN("lg", FN_LG),
    DO("limits", ACT_SKIP),
    FN("ln", FN_LN),
    FN("log", FN_LOG),
    TOKEN("lparen", '('),
    TOKEN("lt", '<'),
    TOKEN("lvert", '|'),
    DO("mathbb", ACT_INNER),
    DO("mathbf", ACT_INNER),
    DO("mathcal", ACT_INNER),
    DO("mathit", ACT_INNER),
    DO("mathrm", ACT_TEXT),
    DO("mathsf", ACT_TEXT),
    DO("mathtt", ACT_TEXT),
    FN("max", FN_MAX),
    DO("mbox", ACT_TEXT),
    DO("middle", ACT_SKIP_DOT),
    FN("min", FN_MIN),
    TOKEN("mp", MT_MP),
    VAR("mu"),
    TOKEN("ne", MT_NE),
    TOKEN("neq", MT_NE),
    TOKEN("nicefrac", MT_FRAC),
    DO("nolimits", ACT_SKIP),
    VAR("nu"),
    VAR("omega"),
    DO("operatorname", ACT_TEXT),
    TOKEN("over", MT_OVER),
    TOKEN("overline", MT_ANGLE),
    TOKEN("overrightarrow", MT_ANGLE),
    DO("phantom", ACT_SKIP_ARG),
    VAR("phi"),
    TOKEN("pi", MT_PI),
    TOKEN("pm", MT_PM),
    TOKEN("pounds", 0),
    TOKEN("prime", '\''),
    VAR("psi"),
    DO("qquad", ACT_SPACE),
    DO("quad", ACT_SPACE),
    TOKEN("rangle", MT_RANGLE),
    TOKEN("rbrace", MT_RSET),
    TOKEN("rbrack", ']'),
    TOKEN("rceil", MT_RCEIL),
    TOKEN("rfloor", MT_RFLOOR),
    VAR("rho"),
    DO("right", ACT_SKIP_DOT),
    DO("rm", ACT_TEXT),
    TOKEN("rparen", ')'),
    TOKEN("rvert", '|'),
    FN("sec", FN_SEC),
    TOKEN("sfrac", MT_FRAC),
    VAR("sigma"),
    TOKEN("simeq", MT_APPROX),
    FN("sin", FN_SIN),
    FN("sinh", FN_SINH),
    TOKEN("sqrt", MT_SQRT),
    FN("tan", FN_TAN),
    FN("tanh", FN_TANH),
    VAR("tau"),
    TOKEN("tbinom", MT_BINOM),
    DO("text", ACT_TEXT),
    DO("textbf", ACT_TEXT),
    DO("textcolor", ACT_SKIP_ARG),
    TOKEN("textdegree", MT_DEG),
    TOKEN("textdollar", 0),
    DO("textit", ACT_TEXT),
    DO("textnormal", ACT_TEXT),
    DO("textrm", ACT_TEXT),
    DO("textsf", ACT_TEXT),
    DO("textstyle", ACT_SKIP),
    DO("texttt", ACT_TEXT),
    TOKEN("tfrac", MT_FRAC),
    VAR("theta"),
    DO("thinspace", ACT_SPACE),
    TOKEN("times", '*'),
    TOKEN("triangle", MT_ANGLE),
    DO("underline", ACT_INNER),
    VAR("upsilon"),
    VAR("varepsilon"),
    TOKEN("varnothing", MT_EMPTY),
    VAR("varphi"),
    VAR("vartheta"),
    TOKEN("vec", MT_ANGLE),
    TOKEN("vert", '|'),
    DO("vphantom", ACT_SKIP_ARG),
    DO("vspace", ACT_SKIP_ARG),
    VAR("xi"),
    VAR("zeta"),
    TOKEN("{", MT_LSET),
    TOKEN("|", MT_BAD),
    TOKEN("}", MT_RSET),
};

static const struct mint_math_symbol names[] = {
    FN("abs", FN_ABS),
    FN("acos", FN_ACOS),
    TOKEN("and", MT_AND),
    FN("arccos", FN_ACOS),
    FN("arcsin", FN_ASIN),
    FN("arctan", FN_ATAN),
    FN("asin", FN_ASIN),
    FN("atan", FN_ATAN),
    FN("ceil", FN_CEIL),
    FN("cos", FN_COS),
    FN("cosh", FN_COSH),
    FN("cot", FN_COT),
    FN("csc", FN_CSC),
    FN("exp", FN_EXP),
    FN("floor", FN_FLOOR),
    FN("gcd", FN_GCD),
    TOKEN("inf", MT_INF),
    TOKEN("infinity", MT_INF),
    FN("lcm", FN_LCM),
    FN("lg", FN_LG),
    FN("ln", FN_LN),
    FN("log", FN_LOG),
    FN("max", FN_MAX),
    FN("min", FN_MIN),
    TOKEN("or", MT_AND),
    TOKEN("pct", MT_PERCENT_WORD),
    TOKEN("percent", MT_PERCENT_WORD),
    TOKEN("pi", MT_PI),
    FN("sec", FN_SEC),
    FN("sin", FN_SIN),
    FN("sinh", FN_SINH),
    TOKEN("sqrt", MT_SQRT),
    FN("tan", FN_TAN),
    FN("tanh", FN_TANH),
};

#define SUP(c, d)             \
    {                         \
        c, MT_SUP, NULL, d, 0 \
    }
#define SUB(c, d)             \
    {                         \
        c, MT_SUB, NULL, d, 0 \
    }
#define HALF(c, a, b)          \
    {                          \
        c, MT_HALF, NULL, a, b \
    }
#define CHAR(c, type)       \
    {                       \
        c, type, NULL, 0, 0 \
    }
#define GREEK(c, name)        \
    {                         \
        c, MT_VAR, name, 0, 0 \
    }

static const struct mint_math_unicode characters[] = {
    CHAR(0xa2, MT_BAD), /* cents */
    CHAR(0xa3, 0),
    CHAR(0xa5, 0),
    CHAR(0xb0, MT_DEG),
    CHAR(0xb1, MT_PM),
    SUP(0xb2, 2),
    SUP(0xb3, 3),
    CHAR(0xb7, '*'),
    SUP(0xb9, 1),
    CHAR(0xba, MT_DEG),
    HALF(0xbc, 1, 4),
    HALF(0xbd, 1, 2),
    HALF(0xbe, 3, 4),
    CHAR(0xd7, '*'),
    CHAR(0xf7, '/'),
    GREEK(0x393, "\\Gamma"),
    GREEK(0x394, "\\Delta"),
    GREEK(0x398, "\\Theta"),
    GREEK(0x39b, "\\Lambda"),
    GREEK(0x3a3, "\\Sigma"),
    GREEK(0x3a6, "\\Phi"),
    GREEK(0x3a8, "\\Psi"),
    GREEK(0x3a9, "\\Omega"),
    GREEK(0x3b1, "\\alpha"),
    GREEK(0x3b2, "\\beta"),
    GREEK(0x3b3, "\\gamma"),
    GREEK(0x3b4, "\\delta"),
    GREEK(0x3b5, "\\epsilon"),
    GREEK(0x3b6, "\\zeta"),
    GREEK(0x3b7, "\\eta"),
    GREEK(0x3b8, "\\theta"),
    GREEK(0x3ba, "\\kappa"),
    GREEK(0x3bb, "\\lambda"),
    GREEK(0x3bc, "\\mu"),
    GREEK(0x3bd, "\\nu"),
    GREEK(0x3be, "\\xi"),
    CHAR(0x3c0, MT_PI),
    GREEK(0x3c1, "\\rho"),
    GREEK(0x3c3, "\\sigma"),
    GREEK(0x3c4, "\\tau"),
    GREEK(0x3c6, "\\phi"),
    GREEK(0x3c7, "\\chi"),
    GREEK(0x3c8, "\\psi"),
    GREEK(0x3c9, "\\omega"),
    CHAR(0x2010, '-'),
    CHAR(0x2011, '-'),
    CHAR(0x2012, '-'),
    CHAR(0x2013, '-'),
    CHAR(0x2014, '-'),
    CHAR(0x2018, 0),
    CHAR(0x2019, '\''),
    CHAR(0x201c, 0),
    CHAR(0x201d, 0),
    CHAR(0x2022, '*'),
    CHAR(0x2032, '\''),
    CHAR(0x2044, '/'),
    SUP(0x2070, 0),
    SUP(0x2074, 4),
    SUP(0x2075, 5),
    SUP(0x2076, 6),
    SUP(0x2077, 7),
    SUP(0x2078, 8),
    SUP(0x2079, 9),
    SUP(0x207a, '+'),
    SUP(0x207b, '-'),
    SUB(0x2080, 0),
    SUB(0x2081, 1),
    SUB(0x2082, 2),
    SUB(0x2083, 3),
    SUB(0x2084, 4),
    SUB(0x2085, 5),
    SUB(0x2086, 6),
    SUB(0x2087, 7),
    SUB(0x2088, 8),
    SUB(0x2089, 9),
    CHAR(0x20a9, 0),
    CHAR(0x20ac, 0),
    CHAR(0x20b9, 0),
    CHAR(0x20bd, 0),
    HALF(0x2150, 1, 7),
    HALF(0x2151, 1, 9),
    HALF(0x2152, 1, 10),
    HALF(0x2153, 1, 3),
    HALF(0x2154, 2, 3),
    HALF(0x2155, 1, 5),
    HALF(0x2156, 2, 5),
    HALF(0x2157, 3, 5),
    HALF(0x2158, 4, 5),
    HALF(0x2159, 1, 6),
    HALF(0x215a, 5, 6),
    HALF(0x215b, 1, 8),
    HALF(0x215c, 3, 8),
    HALF(0x215d, 5, 8),
    HALF(0x215e, 7, 8),
    CHAR(0x2205, MT_EMPTY),
    CHAR(0x2208, MT_IN),
    CHAR(0x2212, '-'),
    CHAR(0x2213, MT_MP),
    CHAR(0x2215, '/'),
    CHAR(0x2219, '*'),
    CHAR(0x221a, MT_SQRT),
    CHAR(0x221b, MT_CBRT),
    CHAR(0x221e, MT_INF),
    CHAR(0x2220, MT_ANGLE),
    CHAR(0x222a, MT_CUP),
    CHAR(0x2236, ':'),
    CHAR(0x2248, MT_APPROX),
    CHAR(0x2260, MT_NE),
    CHAR(0x2264, MT_LE),
    CHAR(0x2265, MT_GE),
    CHAR(0x22c5, '*'),
    CHAR(0x2308, MT_LCEIL),
    CHAR(0x2309, MT_RCEIL),
    CHAR(0x230a, MT_LFLOOR),
    CHAR(0x230b, MT_RFLOOR),
    CHAR(0x2329, MT_LANGLE),
    CHAR(0x232a, MT_RANGLE),
    CHAR(0x25b3, MT_ANGLE),
    CHAR(0x27e8, MT_LANGLE),
    CHAR(0x27e9, MT_RANGLE),
    CHAR(0x2a7d, MT_LE),
    CHAR(0x2a7e, MT_GE),
    CHAR(0x3001, ','),
    CHAR(0x300a, MT_BAD),
    CHAR(0xfe63, '-'),
    CHAR(0xffe1, 0),
    CHAR(0xffe5, 0),
};

static const struct mint_math_symbol *find(const struct mint_math_symbol *t, size_t count,
                                           const char *s, size_t n)
{
    size_t lo = 0, hi = count;
    while (lo < hi) {
        size_t mid = (lo + hi) / 2, len = strlen(t[mid].name);
        int c = memcmp(s, t[mid].name, MINT_MIN(n, len));
        if (c == 0 && n == len)
            return &t[mid];
        if (c < 0 || (c == 0 && n < len))
            hi = mid;
        else
            lo = mid + 1;
    }
    return NULL;
}

const struct mint_math_symbol *mint_math_command(const char *s, size_t n)
{
    return find(commands, MINT_ARRAY_LEN(commands), s, n);
}

const struct mint_math_symbol *mint_math_plain_name(const char *s, size_t n)
{
    char low[16];
    if (n >= sizeof(low))
        return NULL;
    for (size_t i = 0; i < n; i++)
        low[i] = (char)(s[i] >= 'A' && s[i] <= 'Z' ? s[i] + 32 : s[i]);
    return find(names, MINT_ARRAY_LEN(names), low, n);
}

static int by_code(const void *key, const void *item)
{
    uint32_t a = *(const uint32_t *)key, b = ((const struct mint_math_unicode *)item)->c;
    return a < b ? -1 : a > b;
}

const struct mint_math_unicode *mint_math_unicode(uint32_t c)
{
    return bsearch(&c, characters, MINT_ARRAY_LEN(characters), sizeof(*characters), by_code);
}

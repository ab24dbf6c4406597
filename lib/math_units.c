/* SPDX-License-Identifier: Apache-2.0 */
/* Units behind a number: which words are taken for one, and which units are the same. */
#include <string.h>

#include "math_read.h"

enum { WORDS = 5 }; /* of a unit */

/* Words that change what the number before them says: never a unit. */
static const char *const never[] = {
    "about",       "almost",     "alternatively", "and",         "approximately", "aren't",
    "because",     "below",      "between",       "billionth",   "billionths",    "but",
    "can't",       "cannot",     "crore",         "cubed",       "divided",       "doesn't",
    "don't",       "double",     "doubled",       "eight",       "eighteen",      "eighth",
    "eighths",     "eighty",     "either",        "eleven",      "eleventh",      "elevenths",
    "else",        "equals",     "except",        "excluding",   "factorial",     "false",
    "fewer",       "fifteen",    "fifth",         "fifths",      "fifty",         "five",
    "forty",       "four",       "fourteen",      "fourth",      "fourths",       "greater",
    "gross",       "half",       "halved",        "halves",      "hundredth",     "hundredths",
    "if",          "impossible", "incorrect",     "incorrectly", "infinite",      "inverse",
    "inverted",    "is",         "isn't",         "lakh",        "less",          "maybe",
    "mil",         "mill",       "mille",         "millionth",   "millionths",    "minus",
    "mod",         "modulo",     "more",          "negated",     "negative",      "neither",
    "never",       "nine",       "nineteen",      "ninety",      "ninth",         "ninths",
    "no",          "none",       "nor",           "not",         "nothing",       "one",
    "or",          "otherwise",  "over",          "perhaps",     "permille",      "plus",
    "point",       "possibly",   "quadrupled",    "quarter",     "quarters",      "reciprocal",
    "remainder",   "score",      "seven",         "seventeen",   "seventh",       "sevenths",
    "seventy",     "six",        "sixteen",       "sixth",       "sixths",        "sixty",
    "squared",     "ten",        "tens",          "tenth",       "tenths",        "than",
    "then",        "third",      "thirds",        "thirteen",    "thirty",        "thousandth",
    "thousandths", "three",      "through",       "thru",        "till",          "times",
    "to",          "triple",     "tripled",       "twelfth",     "twelfths",      "twelve",
    "twentieth",   "twentieths", "twenty",        "twice",       "two",           "undefined",
    "under",       "unknown",    "unless",        "until",       "versus",        "vs",
    "wasn't",      "without",    "wrong",         "zero"};

/* Units of two and three letters that stand behind a number without more ado. */
static const char *const brief[] = {
    "cm",  "dm",  "ft",  "gb",  "hr",  "hz",  "in",  "kb",  "kg",  "km",  "kw",
    "lb",  "mb",  "mg",  "mi",  "ml",  "mm",  "ms",  "nm",  "oz",  "pm",  "pt",
    "am",  "sq",  "yd",  "deg", "eur", "gal", "hrs", "kmh", "kph", "lbs", "mph",
    "mps", "rad", "rpm", "usd", "yrs", "pcs", "pts", "kwh",
};

static const struct {
    const char *name;
    long times;
} scales[] = {
    {"dozen", 12},        {"hundred", 100},        {"thousand", 1000},
    {"million", 1000000}, {"billion", 1000000000}, {"trillion", 1000000000000},
};

/* Words of the same meaning; "" says nothing. */
static const struct {
    const char *word, *means;
} aliases[] = {
    {"centimeter", "cm"}, {"centimetre", "cm"}, {"meter", "m"},       {"metre", "m"},
    {"kilometer", "km"},  {"kilometre", "km"},  {"millimeter", "mm"}, {"millimetre", "mm"},
    {"inch", "in"},       {"inche", "in"},      {"foot", "ft"},       {"feet", "ft"},
    {"yard", "yd"},       {"mile", "mi"},       {"gram", "g"},        {"kilogram", "kg"},
    {"milligram", "mg"},  {"pound", "lb"},      {"lbs", "lb"},        {"ounce", "oz"},
    {"second", "s"},      {"sec", "s"},         {"minute", "min"},    {"hour", "h"},
    {"hr", "h"},          {"liter", "l"},       {"litre", "l"},       {"milliliter", "ml"},
    {"millilitre", "ml"}, {"usd", "dollar"},    {"degree", ""},       {"deg", ""},
    {"unit", ""},         {"square", "sq"},     {"total", ""},        {"of", ""},
    {"the", ""},          {"radian", "rad"},    {"gallon", "gal"},    {"year", "yr"},
    {"yrs", "yr"},        {"yr", "yr"},         {"km", "km"},         {"cm", "cm"},
    {"mm", "mm"},         {"m", "m"},           {"in", "in"},         {"ft", "ft"},
    {"yd", "yd"},         {"mi", "mi"},         {"g", "g"},           {"kg", "kg"},
    {"mg", "mg"},         {"lb", "lb"},         {"oz", "oz"},         {"s", "s"},
    {"min", "min"},       {"h", "h"},           {"l", "l"},           {"ml", "ml"},
    {"dollar", "dollar"}, {"cent", "cent"},     {"sq", "sq"},         {"cubic", "cubic"},
    {"day", "day"},       {"week", "week"},     {"month", "month"},   {"rad", "rad"},
    {"gal", "gal"},       {"eur", "euro"},      {"euro", "euro"},
};

static size_t lower(const struct mint_math_tok *t, char *out, size_t room)
{
    size_t n = MINT_MIN(t->n, room - 1);
    for (size_t i = 0; i < n; i++)
        out[i] = (char)(t->s[i] >= 'A' && t->s[i] <= 'Z' ? t->s[i] + 32 : t->s[i]);
    out[n] = '\0';
    return n;
}

static bool among(const char *const *list, size_t count, const char *word)
{
    for (size_t i = 0; i < count; i++) {
        if (!strcmp(list[i], word))
            return true;
    }
    return false;
}

static long scale_of(const char *word)
{
    for (size_t i = 0; i < MINT_ARRAY_LEN(scales); i++) {
        size_t n = strlen(scales[i].name);
        if (!strncmp(word, scales[i].name, n) && (!word[n] || !strcmp(word + n, "s")))
            return scales[i].times;
    }
    return 0;
}

/* Letters of other scripts: words of theirs count things, unless they are numbers or signs. */
static bool foreign_word(const struct mint_math_tok *t)
{
    static const char *const numerals[] = {
        "〇", "一", "二", "三", "四", "五", "六", "七", "八", "九", "十", "百", "千",
        "万", "亿", "兆", "零", "两", "半", "多", "余", "倍", "成", "分", "或", "非",
        "不", "點", "点", "負", "负", "無", "无", "和", "至", "到", "约", "萬", "億"};
    for (size_t i = 0; i < MINT_ARRAY_LEN(numerals); i++) {
        size_t n = strlen(numerals[i]);
        for (size_t at = 0; at + n <= t->n; at++) {
            if (!memcmp(t->s + at, numerals[i], n))
                return false;
        }
    }
    for (size_t at = 0; at < t->n;) {
        const unsigned char *u = (const unsigned char *)t->s + at;
        bool ascii = u[0] < 0x80;
        bool latin = u[0] >= 0xc3 && u[0] <= 0xc8;    /* U+00C0 to U+023F */
        bool cyrillic = u[0] == 0xd0 || u[0] == 0xd1; /* U+0400 to U+047F */
        bool han = u[0] >= 0xe4 && u[0] <= 0xe9;      /* U+4000 to U+9FFF */
        if (!(ascii || latin || cyrillic || han))
            return false;
        at += ascii ? 1 : latin || cyrillic ? 2 : 3;
    }
    return true;
}

bool mint_math_turns(const struct mint_math_tok *t)
{
    char w[24];
    lower(t, w, sizeof(w));
    return among(never, MINT_ARRAY_LEN(never), w);
}

static bool all_of(const char *word, const char *letters)
{
    return word[strspn(word, letters)] == '\0';
}

bool mint_math_unit_word(const struct mint_math_tok *v, size_t i)
{
    const struct mint_math_tok *t = &v[i];
    char w[24];
    if (t->type == MT_FN && t->n == 3) /* min and sec */
        return (!memcmp(t->s, "min", 3) || !memcmp(t->s, "sec", 3)) && v[i + 1].type != '(' &&
               v[i + 1].type != '{' && v[i + 1].type != '\\' && v[i + 1].type != MT_NUM;
    if (t->type == MT_VAR)
        return t->text && t->n == 1 && strchr("mshgAVWNJKCFLlT", *t->s) != NULL;
    if (t->type != MT_WORD)
        return false;
    for (size_t k = 0; k < t->n; k++) {
        if ((unsigned char)t->s[k] >= 0x80)
            return foreign_word(t);
    }
    size_t n = lower(t, w, sizeof(w));
    if (among(never, MINT_ARRAY_LEN(never), w))
        return false;
    if (t->text || among(brief, MINT_ARRAY_LEN(brief), w) || scale_of(w))
        return true;
    if (n >= 4)
        return !all_of(w, "abcdxyz");
    if (n == 2)
        return t->space && (!strcmp(w, "of") || !strcmp(w, "by"));
    return t->space && !all_of(w, "abcxyz") && strpbrk(w, "aeiou");
}

bool mint_math_value_end(const struct mint_math_tok *t)
{
    switch (t->type) {
    case MT_NUM:
    case MT_VAR:
    case MT_PI:
    case MT_INF:
    case MT_HALF:
    case MT_SUP:
    case MT_SUB:
    case MT_DEG:
    case MT_RSET:
    case MT_RFLOOR:
    case MT_RCEIL:
    case MT_RANGLE:
    case MT_ENDENV:
    case MT_PERCENT_WORD:
    case ')':
    case ']':
    case '}':
    case '!':
    case '%':
    case '|':
        return true;
    default:
        return false;
    }
}

/* Is v[k..n) a unit and nothing else? */
static bool unit_run(const struct mint_math_tok *v, size_t k, size_t n)
{
    size_t words = 0;
    for (size_t i = k; i < n; i++) {
        int t = v[i].type;
        bool power = t == '^' || t == MT_SUP || t == '{' || t == '}';
        bool digits = t == MT_NUM && v[i].n == 1 &&
                      (v[i - 1].type == '^' || v[i - 1].type == '{' || v[i - 1].type == '-');
        bool minus = t == '-' && (v[i - 1].type == '^' || v[i - 1].type == '{');
        bool letter = t == MT_VAR && i > k && v[i].n == 1 && (v[i].text || v[i - 1].type == '/') &&
                      strchr("mshgAVWNJKCFLlT", *v[i].s);
        if (mint_math_unit_word(v, i) || letter)
            words++;
        else if (!power && !digits && !minus && t != '/' && t != '*' && t != '.')
            return false;
    }
    return words && words <= WORDS && v[n - 1].type != '/' && v[n - 1].type != '*' &&
           v[n - 1].type != '^';
}

static void put_word(const char *word, size_t n, struct mint_buf *b)
{
    char w[24];
    if (n >= sizeof(w))
        n = sizeof(w) - 1;
    memcpy(w, word, n);
    w[n] = '\0';
    for (int pass = 0; pass < 2; pass++) {
        for (size_t i = 0; i < MINT_ARRAY_LEN(aliases); i++) {
            if (!strcmp(aliases[i].word, w)) {
                mint_buf_adds(b, aliases[i].means);
                return;
            }
        }
        if (pass == 0 && n > 2 && w[n - 1] == 's')
            w[n - 1] = '\0';
        else
            break;
    }
    mint_buf_adds(b, w);
}

/* "km/h" for km/h, km per hour, kilometers/hr: words in one form, parted by blanks. */
static void spell_unit(const struct mint_math_tok *v, size_t n, struct mint_buf *b)
{
    char w[24];
    for (size_t i = 0; i < n; i++) {
        size_t len = lower(&v[i], w, sizeof(w));
        if (v[i].type == MT_WORD || v[i].type == MT_VAR || v[i].type == MT_FN) {
            if (b->len && b->data[b->len - 1] != ' ')
                mint_buf_addc(b, ' ');
            if (!strcmp(w, "per"))
                mint_buf_addc(b, '/');
            else if (!strcmp(w, "mph"))
                mint_buf_adds(b, "mi / h");
            else if (!strcmp(w, "kmh") || !strcmp(w, "kph"))
                mint_buf_adds(b, "km / h");
            else
                put_word(w, len, b);
        } else if (v[i].type == '/') {
            mint_buf_adds(b, " /");
        } else if (v[i].type == MT_NUM || v[i].type == '-') {
            mint_buf_addc(b, '^');
            mint_buf_add(b, w, len);
        } else if (v[i].type == MT_SUP) {
            mint_buf_addf(b, "^%s", v[i].num->s);
        }
    }
}

const char *mint_math_take_unit(struct mint_math *m, const struct mint_math_tok *v, size_t *n,
                                long *scale)
{
    char w[24];
    *scale = 1;
    for (size_t k = 1; k < *n; k++) {
        if (!mint_math_unit_word(v, k) || !mint_math_value_end(&v[k - 1]) || !unit_run(v, k, *n))
            continue;
        size_t end = *n;
        *n = k;
        lower(&v[k], w, sizeof(w));
        if (scale_of(w)) {
            *scale = scale_of(w);
            k++;
        }
        if (k == end)
            return NULL;
        struct mint_buf b = MINT_BUF_INIT;
        mint_buf_addc(&b, ' ');
        spell_unit(v + k, end - k, &b);
        mint_buf_addc(&b, ' ');
        const char *unit = mint_arena_strndup(&m->arena, b.data, b.len);
        mint_buf_release(&b);
        return unit[strspn(unit, " ")] ? unit : NULL;
    }
    return NULL;
}

/* The next word of a unit in one form; false at its end. */
static bool next_word(const char **s, const char **word, size_t *n)
{
    *s += strspn(*s, " ");
    *word = *s;
    *n = strcspn(*s, " ");
    *s += *n;
    return *n > 0;
}

static bool measured(const char *unit)
{
    const char *word;
    size_t n;
    while (next_word(&unit, &word, &n)) {
        size_t stem = 0;
        while (stem < n && word[stem] != '^')
            stem++;
        bool known = *word == '/';
        for (size_t i = 0; i < MINT_ARRAY_LEN(aliases) && !known; i++)
            known = strlen(aliases[i].means) == stem && !memcmp(aliases[i].means, word, stem);
        if (!known)
            return false;
    }
    return true;
}

static bool has_word(const char *unit, const char *word, size_t n)
{
    const char *w;
    size_t k;
    while (next_word(&unit, &w, &k)) {
        if (k == n && !memcmp(w, word, n))
            return true;
    }
    return false;
}

/* All words of a in b, and b has no more of them. */
static bool same_words(const char *a, const char *b)
{
    const char *word, *s = a;
    size_t n, count = 0;
    while (next_word(&s, &word, &n)) {
        if (!has_word(b, word, n))
            return false;
        count++;
    }
    for (s = b; next_word(&s, &word, &n);)
        count--;
    return count == 0;
}

/* Squares and cubes in one form: "sq cm" is "cm^2". */
static const char *powered(const char *unit, char *room, size_t size)
{
    const char *word, *s = unit;
    size_t n, len = 0;
    const char *power = has_word(unit, "sq", 2) ? "^2" : has_word(unit, "cubic", 5) ? "^3" : NULL;
    if (!power || strlen(unit) + 8 > size)
        return unit;
    while (next_word(&s, &word, &n)) {
        if ((n == 2 && !memcmp(word, "sq", 2)) || (n == 5 && !memcmp(word, "cubic", 5)))
            continue;
        room[len++] = ' ';
        memcpy(room + len, word, n);
        len += n;
        if (power) {
            memcpy(room + len, power, 2);
            len += 2;
            power = NULL;
        }
    }
    room[len] = '\0';
    return room;
}

bool mint_math_units_agree(const char *a, const char *b)
{
    char x[128], y[128];
    if (!a || !b)
        return true;
    a = powered(a, x, sizeof(x));
    b = powered(b, y, sizeof(y));
    if (same_words(a, b))
        return true;
    if (measured(a) && measured(b))
        return false;
    const char *word, *s = a;
    size_t n;
    while (next_word(&s, &word, &n)) {
        if (has_word(b, word, n))
            return true;
    }
    return false;
}

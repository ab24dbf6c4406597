/* SPDX-License-Identifier: Apache-2.0 */
/* The program in a response. */
#include <ctype.h>
#include <string.h>
#include <strings.h>

#include "score_code.h"

static const struct mint_code_lang langs[] = {
    {"python", "solution.py", " py py3 python3 pypy pypy3 ", " python3 ", false,
     " def class import from async @ "},
    {"c", "solution.c", " h ", " gcc cc clang ", true, " #include int "},
    {"cpp", "solution.cpp", " c++ cc cxx ", " g++ c++ clang++ ", true, " #include using int "},
    {"sh", "solution.sh", " bash shell ", " bash sh ", false, NULL},
    {"javascript", "solution.js", " js node nodejs ", " node nodejs ", false, NULL},
};

static bool has_word(const char *words, const char *s, size_t n)
{
    for (const char *at = words; at && *at;) {
        at += strspn(at, " ");
        size_t k = strcspn(at, " ");
        if (k == n && n && !strncasecmp(at, s, n))
            return true;
        at += k;
    }
    return false;
}

const struct mint_code_lang *mint_code_lang(const char *tag, size_t n)
{
    for (size_t i = 0; i < MINT_ARRAY_LEN(langs); i++) {
        if (has_word(langs[i].name, tag, n) || has_word(langs[i].tags, tag, n))
            return &langs[i];
    }
    return NULL;
}

static const char *find(const char *s, size_t n, const char *part)
{
    return memmem(s, n, part, strlen(part));
}

/* Without thinking, and without what comes after the end of the turn. */
static void narrow(const char **text, size_t *n)
{
    static const char *const ends[] = {"<|im_end|>", "<|endoftext|>", "<|im_start|>"};
    const char *at;
    while ((at = find(*text, *n, "</think>"))) {
        at += strlen("</think>");
        *n -= (size_t)(at - *text);
        *text = at;
    }
    if ((at = find(*text, *n, "<think>")))
        *n = (size_t)(at - *text);
    for (size_t i = 0; i < MINT_ARRAY_LEN(ends); i++) {
        if ((at = find(*text, *n, ends[i])))
            *n = (size_t)(at - *text);
    }
}

struct line {
    const char *p;
    size_t n; /* without the newline */
};

static bool next_line(const char *text, size_t n, size_t *at, struct line *l)
{
    if (*at >= n)
        return false;
    const char *nl = memchr(text + *at, '\n', n - *at);
    l->p = text + *at;
    l->n = nl ? (size_t)(nl - l->p) : n - *at;
    *at += l->n + (nl ? 1 : 0);
    return true;
}

/* ``` or ~~~, three or more, perhaps indented: how many, 0 if it is no fence. *info is what
 * follows.
 */
static size_t fence(struct line l, char *kind, struct line *info)
{
    size_t i = 0, k;
    while (i < l.n && (l.p[i] == ' ' || l.p[i] == '\t'))
        i++;
    if (i == l.n || (l.p[i] != '`' && l.p[i] != '~'))
        return 0;
    for (k = i; k < l.n && l.p[k] == l.p[i]; k++)
        ;
    if (k - i < 3)
        return 0;
    *kind = l.p[i];
    size_t count = k - i;
    while (k < l.n && isspace((unsigned char)l.p[k]))
        k++;
    size_t end = l.n;
    while (end > k && isspace((unsigned char)l.p[end - 1]))
        end--;
    *info = (struct line){l.p + k, end - k};
    return count;
}

/* The first word of "python title=x", "{.python}", "Python". */
static struct line tag_of(struct line info)
{
    while (info.n && (*info.p == '{' || *info.p == '.'))
        info = (struct line){info.p + 1, info.n - 1};
    size_t k = 0;
    while (k < info.n && !strchr(" \t{}:,", info.p[k]))
        k++;
    return (struct line){info.p, k};
}

struct block {
    const char *p;
    size_t n, indent;
    const struct mint_code_lang *lang; /* NULL: no tag */
    bool tagged;
};

/* The next fenced block; one that is never closed ends with the text. */
static bool next_block(const char *text, size_t n, size_t *at, struct block *b)
{
    struct line l, info, rest;
    char kind = 0, other = 0;
    size_t count = 0;
    while (next_line(text, n, at, &l) && !(count = fence(l, &kind, &info)))
        ;
    /* `` ```x``` `` on one line is no block */
    if (count && kind == '`' && memchr(info.p, '`', info.n))
        return next_block(text, n, at, b);
    if (!count)
        return false;
    struct line tag = tag_of(info);
    *b = (struct block){.p = text + *at, .tagged = tag.n > 0};
    b->lang = mint_code_lang(tag.p, tag.n);
    while (b->indent < l.n && l.p[b->indent] != kind)
        b->indent++;
    size_t start = *at;
    while (next_line(text, n, at, &l)) {
        size_t k = fence(l, &other, &rest);
        if (k >= count && other == kind && !rest.n) {
            b->n = (size_t)(l.p - text) - start;
            return true;
        }
    }
    b->n = n - start;
    return true;
}

/* A fence in a list is indented, and so is its code: both lose that. */
static void put_block(const struct block *b, struct mint_buf *code)
{
    struct line l;
    for (size_t at = 0; next_line(b->p, b->n, &at, &l);) {
        size_t k = 0;
        while (k < b->indent && k < l.n && (l.p[k] == ' ' || l.p[k] == '\t'))
            k++;
        mint_buf_add(code, l.p + k, l.n - k);
        mint_buf_addc(code, '\n');
    }
}

static bool begins_code(const struct mint_code_lang *lang, struct line l)
{
    size_t k = 0;
    if (!lang->start)
        return false;
    if (l.n && *l.p == '@' && has_word(lang->start, "@", 1))
        return true;
    while (k < l.n && l.p[k] != ' ' && l.p[k] != '\t')
        k++;
    if (k == l.n || !has_word(lang->start, l.p, k))
        return false;
    /* "from" and "class" also begin sentences */
    if (k == 4 && !memcmp(l.p, "from", 4))
        return find(l.p, l.n, " import ") != NULL;
    if (k == 5 && !memcmp(l.p, "class", 5))
        return memchr(l.p, ':', l.n) != NULL;
    return !isupper((unsigned char)l.p[0]);
}

static bool blank(const char *s, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (!isspace((unsigned char)s[i]))
            return false;
    }
    return true;
}

bool mint_code_extract(const char *text, size_t n, const struct mint_code_lang **lang,
                       const struct mint_code_lang *fallback, struct mint_buf *code)
{
    struct block b, best = {0};
    struct line l;
    bool any = false;
    narrow(&text, &n);
    for (size_t at = 0; next_block(text, n, &at, &b);) {
        any = true;
        if (b.tagged && (!b.lang || (*lang && b.lang != *lang)))
            continue;
        if (*lang && !b.tagged && best.tagged)
            continue;
        best = b;
    }
    if (best.p) {
        if (!*lang)
            *lang = best.lang ? best.lang : fallback;
        put_block(&best, code);
        return !blank(code->data ? code->data : "", code->len);
    }
    if (!*lang)
        *lang = fallback;
    if (any)
        return false;
    const char *from = text;
    for (size_t at = 0; next_line(text, n, &at, &l);) {
        if (begins_code(*lang, l)) {
            from = l.p;
            break;
        }
    }
    n -= (size_t)(from - text);
    mint_buf_add(code, from, n);
    mint_buf_addc(code, '\n');
    return !blank(from, n);
}

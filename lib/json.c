/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Three passes, each linear in the text:
 *  1. scan: our own scanner checks every byte against RFC 8259 and notes where each string, number,
 *     literal and container lies. It also writes a skeleton of the text in which strings are "",
 * numbers are 0 and arrays of plain numbers are [].
 *  2. jsmn, in strict mode with parent links, finds the structure of the skeleton. Its i-th token
 * is the i-th thing that the scanner noted.
 *  3. link: siblings, sizes, duplicate keys.
 */
#include "json.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define JSMN_STATIC
#define JSMN_STRICT
#define JSMN_PARENT_LINKS
#include <jsmn.h>

#include "json_text.h"
#include "mem.h"
#include "num.h"
#include "num_swar.h"

#define MAX_TEXT ((size_t)INT32_MAX - 16) /* jsmn counts in int */

enum kind { K_NULL, K_TRUE, K_FALSE, K_NUMBER, K_STRING, K_ESCAPED, K_ARRAY, K_NUMBERS, K_OBJECT };

/* What the scanner noted; index = jsmn's token. A key's index is its value's minus one. */
struct node {
    uint32_t start, end; /* in the text; strings without their quotes */
    uint32_t kind;
    int32_t next; /* sibling */
};

struct mint_json {
    const char *text;
    size_t n;
    struct node *nodes;
    size_t nnodes, node_cap;
    jsmntok_t *toks; /* size = members; parent */
    size_t tok_cap;
    struct mint_buf skeleton;
    uint32_t open[MINT_JSON_DEPTH]; /* the containers around the present place, while scanning */
    size_t depth;
    uint32_t *sorted; /* scratch for duplicate keys */
    size_t sorted_cap;
};

struct mint_json *mint_json_new(void)
{
    return mint_xcalloc(1, sizeof(struct mint_json));
}

void mint_json_free(struct mint_json *j)
{
    if (!j)
        return;
    free(j->nodes);
    free(j->toks);
    free(j->sorted);
    mint_buf_release(&j->skeleton);
    free(j);
}

/* --- pass 1: scan */

MINT_PRINTF(4, 5)
static int fail_at(const struct mint_json *j, const char *at, struct mint_err *err, const char *fmt,
                   ...)
{
    char what[256];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(what, sizeof what, fmt, ap);
    va_end(ap);
    return mint_fail(err, MINT_EFORMAT, "column %zu: %s", (size_t)(at - j->text) + 1, what);
}

static int fail_expected(const struct mint_json *j, const char *at, struct mint_err *err,
                         const char *what)
{
    if (at >= j->text + j->n)
        return fail_at(j, at, err, "expected %s, but the text ends here", what);
    unsigned char c = (unsigned char)*at;
    if (c < 0x20 || c >= 0x7f)
        return fail_at(j, at, err, "expected %s, found byte 0x%02x", what, c);
    return fail_at(j, at, err, "expected %s, found '%c'", what, c);
}

static size_t add_node(struct mint_json *j, enum kind kind, const char *start, const char *end)
{
    if (j->nnodes == j->node_cap) {
        j->node_cap = MINT_MAX(j->node_cap + j->node_cap / 2, (size_t)64);
        j->nodes = mint_xreallocarray(j->nodes, j->node_cap, sizeof *j->nodes);
    }
    j->nodes[j->nnodes] = (struct node){.start = (uint32_t)(start - j->text),
                                        .end = (uint32_t)(end - j->text),
                                        .kind = kind,
                                        .next = MINT_JSON_NONE};
    return j->nnodes++;
}

static const char *skip_space(const char *p, const char *end)
{
    while (p < end && (*p == ' ' || *p == '\t' || *p == '\n' || *p == '\r'))
        p++;
    return p;
}

static void put_skeleton(struct mint_json *j, const char *s, size_t n)
{
    struct mint_buf *b = &j->skeleton;
    if (b->cap - b->len <= n)
        mint_buf_reserve(b, n);
    memcpy(b->data + b->len, s, n);
    b->len += n;
}

/* p at the opening quote; returns the byte behind the closing one, NULL after an error. */
static const char *scan_string(struct mint_json *j, const char *p, struct mint_err *err)
{
    const char *start = p + 1, *what = NULL;
    bool escaped = false;
    const char *q = mint_json_scan_string(start, j->text + j->n, &escaped, &what);
    if (what) {
        fail_at(j, q, err, "%s", what);
        return NULL;
    }
    add_node(j, escaped ? K_ESCAPED : K_STRING, start, q);
    put_skeleton(j, "\"\"", 2);
    return q + 1;
}

static const char *scan_word(struct mint_json *j, const char *p, struct mint_err *err)
{
    static const struct {
        const char *word;
        size_t n;
        enum kind kind;
    } words[] = {{"null", 4, K_NULL}, {"true", 4, K_TRUE}, {"false", 5, K_FALSE}};
    size_t left = (size_t)(j->text + j->n - p);
    for (size_t i = 0; i < MINT_ARRAY_LEN(words); i++) {
        size_t n = words[i].n;
        if (left >= n && memcmp(p, words[i].word, n) == 0) {
            add_node(j, words[i].kind, p, p + n);
            put_skeleton(j, words[i].word, n);
            return p + n;
        }
    }
    size_t n = 0;
    while (n < left && n < 20 && ((p[n] | 0x20) >= 'a' && (p[n] | 0x20) <= 'z'))
        n++;
    if (n > 0)
        fail_at(j, p, err, "'%.*s' is no JSON value", (int)n, p);
    else
        fail_expected(j, p, err, "a value");
    return NULL;
}

static const char *scan_number(struct mint_json *j, const char *p, struct mint_err *err)
{
    bool is_int;
    size_t left = (size_t)(j->text + j->n - p), n = mint_num_scan(p, left, &is_int);
    if (n == 0) {
        size_t show = 0;
        while (show < left && show < 24 && memchr("+-.0123456789eE", p[show], 15))
            show++;
        fail_at(j, p, err, "'%.*s' is no JSON number", (int)show, p);
        return NULL;
    }
    add_node(j, K_NUMBER, p, p + n);
    put_skeleton(j, "0", 1);
    return p + n;
}

static const char *open_container(struct mint_json *j, const char *p, enum kind kind,
                                  struct mint_err *err)
{
    size_t count;
    if (j->depth == MINT_JSON_DEPTH) {
        fail_at(j, p, err, "nested more than %d levels deep", MINT_JSON_DEPTH);
        return NULL;
    }
    /* NULL: the usual way finds out what is there, and complains where it must */
    const char *q = kind == K_ARRAY ? mint_json_scan_numbers(p + 1, j->text + j->n, &count) : NULL;
    if (q) {
        size_t i = add_node(j, K_NUMBERS, p, q);
        j->nodes[i].next = (int32_t)count; /* moved to the token once there is one */
        put_skeleton(j, "[]", 2);
        return q;
    }
    j->open[j->depth++] = (uint32_t)add_node(j, kind, p, p);
    put_skeleton(j, p, 1);
    return p + 1;
}

static const char *close_container(struct mint_json *j, const char *p)
{
    j->nodes[j->open[--j->depth]].end = (uint32_t)(p + 1 - j->text);
    put_skeleton(j, p, 1);
    return p + 1;
}

static bool in_object(const struct mint_json *j)
{
    return j->depth > 0 && j->nodes[j->open[j->depth - 1]].kind == K_OBJECT;
}

/* A value at p, or its opening bracket. */
static const char *scan_value(struct mint_json *j, const char *p, struct mint_err *err)
{
    if (p == j->text + j->n) {
        fail_expected(j, p, err, "a value");
        return NULL;
    }
    switch (*p) {
    case '{':
        return open_container(j, p, K_OBJECT, err);
    case '[':
        return open_container(j, p, K_ARRAY, err);
    case '"':
        return scan_string(j, p, err);
    case '-':
    case '0':
    case '1':
    case '2':
    case '3':
    case '4':
    case '5':
    case '6':
    case '7':
    case '8':
    case '9':
        return scan_number(j, p, err);
    default:
        return scan_word(j, p, err);
    }
}

/* "key" : and the space behind. */
static const char *scan_key(struct mint_json *j, const char *p, struct mint_err *err)
{
    const char *end = j->text + j->n;
    if (p == end || *p != '"') {
        fail_expected(j, p, err, "a key in double quotes");
        return NULL;
    }
    if (!(p = scan_string(j, p, err)))
        return NULL;
    p = skip_space(p, end);
    if (p == end || *p != ':') {
        fail_expected(j, p, err, "':' after the key");
        return NULL;
    }
    put_skeleton(j, ":", 1);
    return skip_space(p + 1, end);
}

/* Behind a value: closes containers that end here and takes the comma. *done: the root is complete.
 */
static const char *scan_after(struct mint_json *j, const char *p, bool *done, struct mint_err *err)
{
    const char *end = j->text + j->n;
    while (j->depth > 0) {
        p = skip_space(p, end);
        char closer = in_object(j) ? '}' : ']';
        if (p < end && *p == ',') {
            put_skeleton(j, ",", 1);
            return skip_space(p + 1, end);
        }
        if (p == end || *p != closer) {
            fail_expected(j, p, err, closer == '}' ? "',' or '}'" : "',' or ']'");
            return NULL;
        }
        p = close_container(j, p);
    }
    *done = true;
    return p;
}

/* The next value, or an opened container together with its first value. */
static const char *scan_item(struct mint_json *j, const char *p, struct mint_err *err)
{
    const char *end = j->text + j->n;
    for (;;) {
        if (in_object(j) && !(p = scan_key(j, p, err)))
            return NULL;
        size_t depth = j->depth;
        if (!(p = scan_value(j, p, err)) || j->depth == depth)
            return p;
        p = skip_space(p, end);
        if (p < end && *p == (in_object(j) ? '}' : ']'))
            return close_container(j, p);
    }
}

static int scan(struct mint_json *j, struct mint_err *err)
{
    const char *end = j->text + j->n, *p = skip_space(j->text, end);
    bool done = false;
    while (!done) {
        if (j->nnodes > MINT_JSON_VALUES)
            return fail_at(j, p, err, "more than %d keys and values", MINT_JSON_VALUES);
        if (!(p = scan_item(j, p, err)) || !(p = scan_after(j, p, &done, err)))
            return -1;
    }
    p = skip_space(p, end);
    return p == end ? 0 : fail_expected(j, p, err, "the end of the line after the value");
}

/* --- pass 2: structure */

static int run_jsmn(struct mint_json *j, struct mint_err *err)
{
    if (j->tok_cap < j->nnodes) {
        free(j->toks);
        j->tok_cap = j->node_cap;
        j->toks = mint_xreallocarray(NULL, j->tok_cap, sizeof *j->toks);
    }
    put_skeleton(j, " ", 1); /* in strict mode a number as the root needs a byte behind */
    jsmn_parser parser;
    jsmn_init(&parser);
    int got = jsmn_parse(&parser, j->skeleton.data, j->skeleton.len, j->toks, (unsigned)j->nnodes);
    if (got < 0 || (size_t)got != j->nnodes)
        return mint_fail(err, MINT_EFORMAT, "column 1: no JSON value");
    return 0;
}

/* --- pass 3: links and duplicate keys */

/* The container of value v, NONE for the root. */
static int container(const struct mint_json *j, int v)
{
    int p = j->toks[v].parent;
    return p >= 0 && j->toks[p].type == JSMN_STRING ? j->toks[p].parent : p;
}

static bool is_key(const struct mint_json *j, int i)
{
    int p = j->toks[i].parent;
    return p >= 0 && j->toks[p].type == JSMN_OBJECT;
}

static void link_siblings(struct mint_json *j)
{
    for (size_t i = 0; i < j->nnodes; i++) {
        if (j->nodes[i].kind == K_NUMBERS) {
            j->toks[i].size = j->nodes[i].next;
            j->nodes[i].next = MINT_JSON_NONE;
        }
    }
    /* Backwards, so that a container's own link, which is set last, can hold its latest child
     * meanwhile. */
    for (int i = (int)j->nnodes - 1; i > 0; i--) {
        if (is_key(j, i))
            continue;
        int p = container(j, i);
        j->nodes[i].next = j->nodes[p].next;
        j->nodes[p].next = i;
    }
    j->nodes[0].next = MINT_JSON_NONE;
}

static int compare_keys(const struct mint_json *j, int a, int b)
{
    const struct node *x = &j->nodes[a], *y = &j->nodes[b];
    const char *s = j->text + x->start, *t = j->text + y->start;
    size_t n = x->end - x->start, m = y->end - y->start;
    if (x->kind == K_ESCAPED || y->kind == K_ESCAPED)
        return mint_json_compare(s, n, t, m);
    int c = memcmp(s, t, MINT_MIN(n, m));
    return c ? c : (n > m) - (n < m);
}

static int compare_sorted(const void *a, const void *b, void *json)
{
    uint32_t x, y;
    memcpy(&x, a, sizeof x);
    memcpy(&y, b, sizeof y);
    int c = compare_keys(json, (int)x, (int)y);
    return c ? c : (x > y) - (x < y);
}

static int fail_duplicate(const struct mint_json *j, int key, struct mint_err *err)
{
    const struct node *k = &j->nodes[key];
    int n = (int)MINT_MIN(k->end - k->start, 60u);
    return fail_at(j, j->text + k->start - 1, err, "key \"%.*s\" is there twice", n,
                   j->text + k->start);
}

static int check_few(const struct mint_json *j, int object, struct mint_err *err)
{
    for (int v = mint_json_first(j, object); v != MINT_JSON_NONE; v = mint_json_next(j, v)) {
        for (int w = mint_json_first(j, object); w != v; w = mint_json_next(j, w)) {
            if (compare_keys(j, v - 1, w - 1) == 0)
                return fail_duplicate(j, v - 1, err);
        }
    }
    return 0;
}

static int check_many(struct mint_json *j, int object, struct mint_err *err)
{
    size_t n = 0, count = (size_t)j->toks[object].size;
    if (j->sorted_cap < count) {
        j->sorted = mint_xreallocarray(j->sorted, count, sizeof *j->sorted);
        j->sorted_cap = count;
    }
    for (int v = mint_json_first(j, object); v != MINT_JSON_NONE; v = mint_json_next(j, v))
        j->sorted[n++] = (uint32_t)(v - 1);
    qsort_r(j->sorted, n, sizeof *j->sorted, compare_sorted, j);
    int twice = -1;
    for (size_t i = 1; i < n; i++) {
        int key = (int)j->sorted[i];
        if (compare_keys(j, (int)j->sorted[i - 1], key) == 0 && (twice < 0 || key < twice))
            twice = key;
    }
    return twice < 0 ? 0 : fail_duplicate(j, twice, err);
}

static int check_keys(struct mint_json *j, struct mint_err *err)
{
    for (size_t i = 0; i < j->nnodes; i++) {
        if (j->nodes[i].kind != K_OBJECT || j->toks[i].size < 2)
            continue;
        int object = (int)i;
        if ((j->toks[i].size <= 16 ? check_few(j, object, err) : check_many(j, object, err)) < 0)
            return -1;
    }
    return 0;
}

int mint_json_parse(struct mint_json *j, const char *text, size_t n, struct mint_err *err)
{
    j->text = text;
    j->n = n;
    j->nnodes = 0;
    j->depth = 0;
    mint_buf_reset(&j->skeleton);
    if (n > MAX_TEXT)
        return mint_fail(err, MINT_EFORMAT, "column 1: text of %zu bytes is too long", n);
    if (scan(j, err) < 0 || run_jsmn(j, err) < 0) {
        j->nnodes = 0;
        return -1;
    }
    link_siblings(j);
    if (check_keys(j, err) < 0) {
        j->nnodes = 0;
        return -1;
    }
    return 0;
}

/* --- navigation */

static const struct node *node_of(const struct mint_json *j, mint_json_val v)
{
    return v >= 0 && (size_t)v < j->nnodes ? &j->nodes[v] : NULL;
}

enum mint_json_type mint_json_type(const struct mint_json *j, mint_json_val v)
{
    static const enum mint_json_type types[] = {
        [K_NULL] = MINT_JSON_NULL,     [K_TRUE] = MINT_JSON_BOOL,
        [K_FALSE] = MINT_JSON_BOOL,    [K_NUMBER] = MINT_JSON_NUMBER,
        [K_STRING] = MINT_JSON_STRING, [K_ESCAPED] = MINT_JSON_STRING,
        [K_ARRAY] = MINT_JSON_ARRAY,   [K_NUMBERS] = MINT_JSON_ARRAY,
        [K_OBJECT] = MINT_JSON_OBJECT,
    };
    const struct node *x = node_of(j, v);
    return x ? types[x->kind] : MINT_JSON_ABSENT;
}

size_t mint_json_size(const struct mint_json *j, mint_json_val v)
{
    const struct node *x = node_of(j, v);
    return x && x->kind >= K_ARRAY ? (size_t)j->toks[v].size : 0;
}

mint_json_val mint_json_first(const struct mint_json *j, mint_json_val v)
{
    const struct node *x = node_of(j, v);
    if (!x || (x->kind != K_ARRAY && x->kind != K_OBJECT) || j->toks[v].size == 0)
        return MINT_JSON_NONE;
    return x->kind == K_OBJECT ? v + 2 : v + 1;
}

mint_json_val mint_json_next(const struct mint_json *j, mint_json_val child)
{
    const struct node *x = node_of(j, child);
    return x ? x->next : MINT_JSON_NONE;
}

bool mint_json_is_numbers(const struct mint_json *j, mint_json_val v)
{
    const struct node *x = node_of(j, v);
    return x && x->kind == K_NUMBERS;
}

const char *mint_json_raw(const struct mint_json *j, mint_json_val v, size_t *n)
{
    const struct node *x = node_of(j, v);
    if (!x) {
        *n = 0;
        return NULL;
    }
    bool quoted = x->kind == K_STRING || x->kind == K_ESCAPED;
    *n = x->end - x->start + 2u * quoted;
    return j->text + x->start - quoted;
}

static bool is_member(const struct mint_json *j, mint_json_val v)
{
    if (!node_of(j, v) || j->toks[v].parent < 0)
        return false;
    return j->toks[j->toks[v].parent].type == JSMN_STRING;
}

const char *mint_json_key(const struct mint_json *j, mint_json_val member, size_t *n)
{
    *n = 0;
    if (!is_member(j, member))
        return NULL;
    *n = j->nodes[member - 1].end - j->nodes[member - 1].start;
    return j->text + j->nodes[member - 1].start;
}

static bool key_equals(const struct mint_json *j, mint_json_val member, const char *key, size_t n)
{
    const struct node *k = &j->nodes[member - 1];
    const char *s = j->text + k->start;
    if (k->kind == K_STRING)
        return k->end - k->start == n && memcmp(s, key, n) == 0;
    return mint_json_equals(s, k->end - k->start, key, n);
}

bool mint_json_key_is(const struct mint_json *j, mint_json_val member, const char *key)
{
    return is_member(j, member) && key_equals(j, member, key, strlen(key));
}

mint_json_val mint_json_get(const struct mint_json *j, mint_json_val v, const char *key)
{
    if (mint_json_type(j, v) != MINT_JSON_OBJECT)
        return MINT_JSON_NONE;
    size_t n = strlen(key);
    mint_json_val m = mint_json_first(j, v);
    while (m != MINT_JSON_NONE && !key_equals(j, m, key, n))
        m = j->nodes[m].next;
    return m;
}

/* --- typed readers */

bool mint_json_bool(const struct mint_json *j, mint_json_val v, bool *out)
{
    const struct node *x = node_of(j, v);
    if (!x || (x->kind != K_TRUE && x->kind != K_FALSE))
        return false;
    *out = x->kind == K_TRUE;
    return true;
}

bool mint_json_int(const struct mint_json *j, mint_json_val v, int64_t *out)
{
    const struct node *x = node_of(j, v);
    int64_t i;
    if (!x || x->kind != K_NUMBER || !mint_num_int(j->text + x->start, x->end - x->start, &i))
        return false;
    if (i > INT64_C(1) << 53 || i < -(INT64_C(1) << 53))
        return false;
    *out = i;
    return true;
}

bool mint_json_double(const struct mint_json *j, mint_json_val v, double *out)
{
    const struct node *x = node_of(j, v);
    if (!x || x->kind != K_NUMBER)
        return false;
    double d = mint_num_double(j->text + x->start, x->end - x->start);
    if (!isfinite(d))
        return false;
    *out = d;
    return true;
}

bool mint_json_string(const struct mint_json *j, mint_json_val v, struct mint_buf *out)
{
    const struct node *x = node_of(j, v);
    if (!x || (x->kind != K_STRING && x->kind != K_ESCAPED))
        return false;
    if (x->kind == K_STRING)
        mint_buf_add(out, j->text + x->start, x->end - x->start);
    else
        mint_json_unescape(out, j->text + x->start, x->end - x->start);
    return true;
}

char *mint_json_strdup(const struct mint_json *j, mint_json_val v)
{
    struct mint_buf b = MINT_BUF_INIT;
    if (!mint_json_string(j, v, &b))
        return NULL;
    if (b.len > 0 && memchr(b.data, '\0', b.len)) {
        mint_buf_release(&b);
        return NULL;
    }
    return mint_buf_detach(&b);
}

/* --- bulk readers */

/* Goes over what stands in front of the next number of a K_NUMBERS array. */
static const char *to_number(const char *p)
{
    if (*p == ',' || *p == '[')
        p++;
    while ((unsigned char)*p <= ' ' || *p == ',')
        p++;
    return p;
}

static bool ends_number(char c)
{
    return c == ',' || c == ']' || (unsigned char)c <= ' ';
}

static size_t number_length(const char *p)
{
    size_t n = 0;
    while (!ends_number(p[n]))
        n++;
    return n;
}

static int fail_element(const struct mint_json *j, mint_json_val v, size_t i, const char *s,
                        size_t n, struct mint_err *err, const char *what)
{
    struct mint_buf path = MINT_BUF_INIT;
    mint_json_path(j, v, &path);
    mint_fail(err, MINT_ESCHEMA, "%s[%zu] (column %zu) is %.*s%s, %s", path.len ? path.data : "", i,
              (size_t)(s - j->text) + 1, (int)MINT_MIN(n, (size_t)40), s, n > 40 ? "..." : "",
              what);
    mint_buf_release(&path);
    return -1;
}

/* Refuses what is no array of n numbers, naming the first element that is none. */
static int check_numbers(const struct mint_json *j, mint_json_val v, size_t n, struct mint_err *err)
{
    if (mint_json_type(j, v) != MINT_JSON_ARRAY)
        return mint_json_fail(j, v, err, "is no array of numbers");
    if (!mint_json_is_numbers(j, v)) {
        size_t i = 0, len;
        mint_json_val e = mint_json_first(j, v);
        while (e != MINT_JSON_NONE && j->nodes[e].kind == K_NUMBER) {
            e = mint_json_next(j, e);
            i++;
        }
        const char *raw = mint_json_raw(j, e, &len);
        return fail_element(j, v, i, raw, len, err, "not a number");
    }
    size_t have = mint_json_size(j, v);
    if (n != SIZE_MAX && have != n)
        return mint_json_fail(j, v, err, "has %zu values, %zu expected", have, n);
    return 0;
}

static int fail_int(const struct mint_json *j, mint_json_val v, size_t i, const char *p, int64_t lo,
                    int64_t hi, struct mint_err *err)
{
    char what[96];
    bool is_int;
    size_t n = number_length(p);
    mint_num_scan(p, n, &is_int);
    snprintf(what, sizeof what, "outside %lld..%lld", (long long)lo, (long long)hi);
    return fail_element(j, v, i, p, n, err, is_int ? what : "not a whole number");
}

int mint_json_ints(const struct mint_json *j, mint_json_val v, int32_t *out, size_t n, int64_t lo,
                   int64_t hi, struct mint_err *err)
{
    if (check_numbers(j, v, n, err) < 0)
        return -1;
    const char *p = j->text + j->nodes[v].start, *end = j->text + j->n;
    size_t have = mint_json_size(j, v);
    int32_t low = (int32_t)MINT_MAX(lo, (int64_t)INT32_MIN),
            high = (int32_t)MINT_MIN(hi, (int64_t)INT32_MAX);
    for (size_t i = 0; i < have; i++) {
        int32_t x;
        p = to_number(p);
        size_t used = (size_t)mint_swar_read(p, (size_t)(end - p), &x);
        if (used == 0 || !ends_number(p[used])) {
            int64_t wide;
            used = number_length(p);
            if (!mint_num_int(p, used, &wide) || wide < low || wide > high)
                return fail_int(j, v, i, p, lo, hi, err);
            x = (int32_t)wide;
        } else if (x < low || x > high) {
            return fail_int(j, v, i, p, lo, hi, err);
        }
        out[i] = x;
        p += used;
    }
    return 0;
}

int mint_json_floats(const struct mint_json *j, mint_json_val v, float *out, size_t n,
                     struct mint_err *err)
{
    if (check_numbers(j, v, n, err) < 0)
        return -1;
    const char *p = j->text + j->nodes[v].start, *end = j->text + j->n;
    size_t have = mint_json_size(j, v);
    for (size_t i = 0; i < have; i++) {
        p = to_number(p);
        size_t used = mint_num_read_float(p, (size_t)(end - p), &out[i]);
        if (!isfinite(out[i]))
            return fail_element(j, v, i, p, used, err, "too large for a float32");
        p += used;
    }
    return 0;
}

/* --- places */

static void add_step(const struct mint_json *j, mint_json_val v, struct mint_buf *out)
{
    if (is_member(j, v)) {
        size_t n;
        const char *key = mint_json_key(j, v, &n);
        if (out->len > 0)
            mint_buf_addc(out, '.');
        mint_buf_add(out, key, n);
        return;
    }
    size_t i = 0;
    for (mint_json_val e = mint_json_first(j, j->toks[v].parent); e != v; e = mint_json_next(j, e))
        i++;
    mint_buf_addf(out, "[%zu]", i);
}

void mint_json_path(const struct mint_json *j, mint_json_val v, struct mint_buf *out)
{
    mint_json_val chain[MINT_JSON_DEPTH + 1];
    size_t n = 0;
    if (!node_of(j, v))
        return;
    for (; container(j, v) >= 0; v = container(j, v))
        chain[n++] = v;
    struct mint_buf path = MINT_BUF_INIT;
    while (n > 0)
        add_step(j, chain[--n], &path);
    if (path.len > 0)
        mint_buf_add(out, path.data, path.len);
    mint_buf_release(&path);
}

size_t mint_json_column(const struct mint_json *j, mint_json_val v)
{
    size_t n;
    const char *raw = mint_json_raw(j, v, &n);
    return raw ? (size_t)(raw - j->text) + 1 : 1;
}

int mint_json_fail(const struct mint_json *j, mint_json_val v, struct mint_err *err,
                   const char *fmt, ...)
{
    char what[768];
    struct mint_buf path = MINT_BUF_INIT;
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(what, sizeof what, fmt, ap);
    va_end(ap);
    mint_json_path(j, v, &path);
    if (path.len > 0)
        mint_fail(err, MINT_ESCHEMA, "%s (column %zu) %s", path.data, mint_json_column(j, v), what);
    else
        mint_fail(err, MINT_ESCHEMA, "(column %zu) %s", mint_json_column(j, v), what);
    mint_buf_release(&path);
    return -1;
}

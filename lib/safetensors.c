/* SPDX-License-Identifier: Apache-2.0 */
#include "safetensors.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "buf.h"
#include "fs.h"
#include "json.h"
#include "mem.h"
#include "num.h"

#define HEADER_MAX (100u * 1000 * 1000) /* the reference implementation's limit */

struct st_file {
    struct mint_map map;
    char *name; /* base name */
};

struct mint_st {
    struct st_file *files;
    size_t nfiles;
    struct mint_st_tensor *tensors; /* sorted by name */
    size_t n, cap;
    bool sharded;
    struct mint_arena arena; /* names, dtype texts */
};

/* --- types */

static enum mint_dtype dtype_of(const char *text)
{
    for (int t = MINT_F32; t < MINT_DTYPE_OTHER; t++)
        if (!strcmp(text, mint_dtype_name((enum mint_dtype)t)))
            return (enum mint_dtype)t;
    return MINT_DTYPE_OTHER;
}

/* Bytes an element of the types that the format names; 0: not known, so the size is not checked. */
static size_t element_bytes(const char *text)
{
    static const struct {
        const char *name;
        size_t bytes;
    } known[] = {{"F32", 4}, {"BF16", 2}, {"F16", 2},     {"F64", 8},     {"I64", 8},    {"U64", 8},
                 {"I32", 4}, {"U32", 4},  {"I16", 2},     {"U16", 2},     {"I8", 1},     {"U8", 1},
                 {"C64", 8}, {"BOOL", 1}, {"F8_E4M3", 1}, {"F8_E5M2", 1}, {"F8_E8M0", 1}};
    for (size_t i = 0; i < MINT_ARRAY_LEN(known); i++)
        if (!strcmp(text, known[i].name))
            return known[i].bytes;
    return 0;
}

const char *mint_shape_text(int ndim, const int64_t *shape, char out[96])
{
    size_t at = 0;
    out[at++] = '[';
    for (int i = 0; i < ndim; i++) {
        if (i)
            out[at++] = ',';
        at += (size_t)mint_num_print_int(out + at, shape[i]);
    }
    out[at++] = ']';
    out[at] = '\0';
    return out;
}

/* --- header */

/* The integers of an array of numbers. -1: not such an array, or more than max of them. */
static int read_ints(const struct mint_json *j, mint_json_val v, int64_t *out, int max)
{
    size_t n;
    if (mint_json_type(j, v) != MINT_JSON_ARRAY || !mint_json_is_numbers(j, v))
        return -1;
    size_t count = mint_json_size(j, v);
    if (count > (size_t)max)
        return -1;
    const char *s = mint_json_raw(j, v, &n), *end = s + n;
    for (size_t i = 0; i < count; i++) {
        while (s < end && *s != '-' && (*s < '0' || *s > '9'))
            s++;
        bool is_int;
        size_t k = mint_num_scan(s, (size_t)(end - s), &is_int);
        if (!k || !is_int || !mint_num_int(s, k, &out[i]) || out[i] < 0)
            return -1;
        s += k;
    }
    return (int)count;
}

/* bytes = product of the shape times size, false on overflow. */
static bool shape_bytes(const struct mint_st_tensor *t, size_t size, size_t *bytes)
{
    size_t total = size;
    for (int i = 0; i < t->ndim; i++)
        if (t->shape[i] == 0)
            return *bytes = 0, true;
    for (int i = 0; i < t->ndim; i++)
        if (__builtin_mul_overflow(total, (size_t)t->shape[i], &total))
            return false;
    *bytes = total;
    return true;
}

static int read_tensor(struct mint_st *st, const struct mint_json *j, mint_json_val v,
                       const char *data, size_t data_bytes, struct mint_st_tensor *t,
                       struct mint_err *err)
{
    char *dtype = mint_json_strdup(j, mint_json_get(j, v, "dtype"));
    if (!dtype)
        return mint_fail(err, MINT_EFORMAT, "tensor \"%s\" has no \"dtype\"", t->name);
    t->dtype_text = mint_arena_strndup(&st->arena, dtype, strlen(dtype));
    free(dtype);
    t->dtype = dtype_of(t->dtype_text);
    t->ndim = read_ints(j, mint_json_get(j, v, "shape"), t->shape, MINT_TENSOR_DIMS);
    if (t->ndim < 0)
        return mint_fail(err, MINT_EFORMAT,
                         "tensor \"%s\": \"shape\" is not a list of at most %d sizes", t->name,
                         MINT_TENSOR_DIMS);
    int64_t at[2];
    if (read_ints(j, mint_json_get(j, v, "data_offsets"), at, 2) != 2)
        return mint_fail(err, MINT_EFORMAT,
                         "tensor \"%s\": \"data_offsets\" is not a list of two positions", t->name);
    if (at[1] < at[0])
        return mint_fail(err, MINT_EFORMAT,
                         "tensor \"%s\": data_offsets run backwards (%lld, %lld)", t->name,
                         (long long)at[0], (long long)at[1]);
    if ((uint64_t)at[1] > data_bytes)
        return mint_fail(
            err, MINT_ETRUNC,
            "tensor \"%s\" ends at byte %lld of the data, but the file holds %zu; it is "
            "cut short or its header is wrong",
            t->name, (long long)at[1], data_bytes);
    t->bytes = (size_t)(at[1] - at[0]);
    t->data = data + at[0];
    size_t size = element_bytes(t->dtype_text), need;
    char shape[96];
    if (size && (!shape_bytes(t, size, &need) || need != t->bytes))
        return mint_fail(err, MINT_EFORMAT, "tensor \"%s\": %s %s does not fit its %zu bytes",
                         t->name, t->dtype_text, mint_shape_text(t->ndim, t->shape, shape),
                         t->bytes);
    return 0;
}

static int by_offset(const void *a, const void *b)
{
    const struct mint_st_tensor *const *x = a, *const *y = b;
    const char *dx = (*x)->data, *dy = (*y)->data;
    if (dx != dy)
        return dx < dy ? -1 : 1;
    return (*x)->bytes < (*y)->bytes ? -1 : (*x)->bytes > (*y)->bytes;
}

/* The tensors t[0..n) of one file must cover its data section exactly: no overlap, no hole. */
static int check_cover(const struct mint_st_tensor *t, size_t n, const char *data, size_t bytes,
                       struct mint_err *err)
{
    const struct mint_st_tensor **order = mint_xcalloc(n, sizeof *order);
    for (size_t i = 0; i < n; i++)
        order[i] = &t[i];
    qsort(order, n, sizeof *order, by_offset);
    const char *at = data;
    int rc = 0;
    for (size_t i = 0; !rc && i < n; at = (const char *)order[i]->data + order[i]->bytes, i++) {
        const char *begin = order[i]->data;
        if (begin < at)
            rc = mint_fail(err, MINT_EFORMAT, "tensors \"%s\" and \"%s\" overlap",
                           order[i - 1]->name, order[i]->name);
        else if (begin > at)
            rc = mint_fail(err, MINT_EFORMAT, "hole of %zu bytes in front of tensor \"%s\"",
                           (size_t)(begin - at), order[i]->name);
    }
    free(order);
    if (!rc && at != data + bytes)
        rc = mint_fail(err, MINT_EFORMAT, "%zu bytes behind the last tensor",
                       (size_t)(data + bytes - at));
    return rc;
}

static int check_metadata(const struct mint_json *j, mint_json_val v, struct mint_err *err)
{
    if (mint_json_type(j, v) != MINT_JSON_OBJECT)
        return mint_fail(err, MINT_EFORMAT, "\"__metadata__\" is not an object");
    for (mint_json_val m = mint_json_first(j, v); m != MINT_JSON_NONE; m = mint_json_next(j, m))
        if (mint_json_type(j, m) != MINT_JSON_STRING)
            return mint_fail(err, MINT_EFORMAT, "\"__metadata__\" holds a value that is no string");
    return 0;
}

static struct mint_st_tensor *push(struct mint_st *st)
{
    if (st->n == st->cap) {
        st->cap = st->cap ? 2 * st->cap : 64;
        st->tensors = mint_xreallocarray(st->tensors, st->cap, sizeof *st->tensors);
    }
    struct mint_st_tensor *t = &st->tensors[st->n++];
    memset(t, 0, sizeof *t);
    return t;
}

/* The key of a member, unescaped, into the arena. NULL if it is empty or holds a NUL. */
static const char *key_text(struct mint_st *st, const struct mint_json *j, mint_json_val member)
{
    size_t n;
    const char *key = mint_json_key(j, member, &n);
    if (!memchr(key, '\\', n))
        return n ? mint_arena_strndup(&st->arena, key, n) : NULL;
    struct mint_json *one = mint_json_new(); /* the escaped key is the text of a JSON string */
    struct mint_buf b = MINT_BUF_INIT;
    mint_buf_addc(&b, '"');
    mint_buf_add(&b, key, n);
    mint_buf_addc(&b, '"');
    char *s = mint_json_parse(one, b.data, b.len, NULL) ? NULL : mint_json_strdup(one, 0);
    const char *out = s && *s ? mint_arena_strndup(&st->arena, s, strlen(s)) : NULL;
    free(s);
    mint_buf_release(&b);
    mint_json_free(one);
    return out;
}

static int read_header(struct mint_st *st, size_t file, const struct mint_json *j, const char *data,
                       size_t data_bytes, struct mint_err *err)
{
    size_t first = st->n;
    if (mint_json_type(j, 0) != MINT_JSON_OBJECT)
        return mint_fail(err, MINT_EFORMAT, "the header is not a JSON object");
    for (mint_json_val v = mint_json_first(j, 0); v != MINT_JSON_NONE; v = mint_json_next(j, v)) {
        if (mint_json_key_is(j, v, "__metadata__")) {
            if (check_metadata(j, v, err))
                return -1;
            continue;
        }
        struct mint_st_tensor *t = push(st);
        t->file = file;
        t->name = key_text(st, j, v);
        if (!t->name)
            return mint_fail(err, MINT_EFORMAT, "a tensor name is empty or holds a NUL byte");
        if (read_tensor(st, j, v, data, data_bytes, t, err))
            return -1;
    }
    const struct mint_st_tensor *mine = first ? st->tensors + first : st->tensors; /* may be NULL */
    return check_cover(mine, st->n - first, data, data_bytes, err);
}

static int parse_map(struct mint_st *st, size_t file, struct mint_err *err)
{
    const struct mint_map *m = &st->files[file].map;
    const unsigned char *p = m->data;
    if (m->n < 8)
        return mint_fail(err, MINT_ETRUNC, "%zu bytes are too few for a safetensors file", m->n);
    uint64_t len = 0;
    for (int i = 7; i >= 0; i--)
        len = len << 8 | p[i];
    if (len > HEADER_MAX)
        return mint_fail(err, MINT_EFORMAT,
                         "header length %llu is over the limit of 100 MB: not a safetensors file",
                         (unsigned long long)len);
    if (len > m->n - 8)
        return mint_fail(err, MINT_ETRUNC,
                         "header of %llu bytes, but the file ends after %zu; it is cut short",
                         (unsigned long long)len, m->n - 8);
    struct mint_json *j = mint_json_new();
    const char *text = (const char *)p + 8;
    int rc = mint_json_parse(j, text, (size_t)len, err);
    if (rc)
        mint_wrap(err, "header is not valid JSON: ");
    else
        rc = read_header(st, file, j, text + len, m->n - 8 - (size_t)len, err);
    mint_json_free(j);
    return rc;
}

static size_t add_file(struct mint_st *st, const char *base)
{
    st->files = mint_xreallocarray(st->files, st->nfiles + 1, sizeof *st->files);
    st->files[st->nfiles] = (struct st_file){.map = {0}, .name = mint_xstrdup(base)};
    return st->nfiles++;
}

static int open_file(struct mint_st *st, const char *path, const char *base, struct mint_err *err)
{
    size_t file = add_file(st, base);
    if (mint_fs_map(&st->files[file].map, path, err))
        return -1;
    return parse_map(st, file, err) ? mint_wrap(err, "%s: ", path) : 0;
}

static int by_name(const void *a, const void *b)
{
    const struct mint_st_tensor *x = a, *y = b;
    return strcmp(x->name, y->name);
}

static int sort_names(struct mint_st *st, const char *path, struct mint_err *err)
{
    if (st->n)
        qsort(st->tensors, st->n, sizeof *st->tensors, by_name);
    for (size_t i = 1; i < st->n; i++)
        if (!strcmp(st->tensors[i - 1].name, st->tensors[i].name))
            return mint_fail(err, MINT_EFORMAT, "%s: tensor \"%s\" appears twice", path,
                             st->tensors[i].name);
    return 0;
}

/* --- sharded index */

struct index_entry {
    const char *name, *file;
    bool found;
};

static int entry_by_file(const void *a, const void *b)
{
    const struct index_entry *x = a, *y = b;
    int c = strcmp(x->file, y->file);
    return c ? c : strcmp(x->name, y->name);
}

/* A shard lies beside its index: a name that leads elsewhere is an attack or a mistake. */
static bool plain_name(const char *s)
{
    return *s && !strchr(s, '/') && strcmp(s, ".") && strcmp(s, "..");
}

static int read_entry(struct mint_st *st, const struct mint_json *j, mint_json_val v,
                      struct index_entry *e, struct mint_err *err)
{
    char *file = mint_json_strdup(j, v);
    e->found = false;
    e->name = key_text(st, j, v);
    e->file = file ? mint_arena_strndup(&st->arena, file, strlen(file)) : NULL;
    free(file);
    if (!e->name || !e->file)
        return mint_fail(
            err, MINT_EFORMAT,
            "\"weight_map\" holds an entry that is not a tensor name with a file name");
    if (!plain_name(e->file))
        return mint_fail(err, MINT_EFORMAT, "tensor \"%s\": shard \"%s\" is not a plain file name",
                         e->name, e->file);
    return 0;
}

static int read_index(struct mint_st *st, const struct mint_json *j, struct index_entry **out,
                      size_t *n, struct mint_err *err)
{
    mint_json_val map = mint_json_get(j, 0, "weight_map");
    if (mint_json_type(j, map) != MINT_JSON_OBJECT)
        return mint_fail(err, MINT_EFORMAT, "no \"weight_map\" object");
    struct index_entry *e = mint_xcalloc(mint_json_size(j, map), sizeof *e);
    *out = e;
    *n = 0;
    for (mint_json_val v = mint_json_first(j, map); v != MINT_JSON_NONE; v = mint_json_next(j, v))
        if (read_entry(st, j, v, &e[(*n)++], err))
            return -1;
    if (!*n)
        return mint_fail(err, MINT_EFORMAT, "\"weight_map\" is empty");
    qsort(e, *n, sizeof *e, entry_by_file);
    return 0;
}

/* Opens the shard of e[0..n) (all of one file) and keeps the tensors that the index names. */
static int open_shard(struct mint_st *st, const char *dir, struct index_entry *e, size_t n,
                      struct mint_err *err)
{
    size_t first = st->n, kept = first;
    char *path = mint_fs_join(dir, e[0].file);
    int rc = open_file(st, path, e[0].file, err);
    for (size_t i = first; !rc && i < st->n; i++) {
        struct index_entry key = {st->tensors[i].name, e[0].file, false};
        struct index_entry *hit = bsearch(&key, e, n, sizeof *e, entry_by_file);
        if (!hit)
            continue;
        if (hit->found)
            rc = mint_fail(err, MINT_EFORMAT, "%s: tensor \"%s\" appears twice", path, hit->name);
        hit->found = true;
        st->tensors[kept++] = st->tensors[i];
    }
    st->n = rc ? st->n : kept;
    for (size_t i = 0; !rc && i < n; i++)
        if (!e[i].found)
            rc = mint_fail(err, MINT_EFORMAT,
                           "%s: tensor \"%s\" is missing, the index says it is here", path,
                           e[i].name);
    free(path);
    return rc;
}

static char *dir_of(const char *path)
{
    const char *slash = strrchr(path, '/');
    if (!slash)
        return mint_xstrdup(".");
    return slash == path ? mint_xstrdup("/") : mint_xstrndup(path, (size_t)(slash - path));
}

static int open_index(struct mint_st *st, const char *path, struct mint_err *err)
{
    char *text;
    size_t len, n = 0;
    if (mint_fs_read_file(path, HEADER_MAX, &text, &len, err))
        return -1;
    struct mint_json *j = mint_json_new();
    struct index_entry *e = NULL;
    st->sharded = true;
    int rc = mint_json_parse(j, text, len, err);
    if (!rc)
        rc = read_index(st, j, &e, &n, err);
    if (rc)
        mint_wrap(err, "%s: ", path);
    char *dir = dir_of(path);
    for (size_t i = 0, k; !rc && i < n; i = k) {
        for (k = i + 1; k < n && !strcmp(e[k].file, e[i].file); k++)
            ;
        rc = open_shard(st, dir, e + i, k - i, err);
    }
    free(dir);
    free(e);
    mint_json_free(j);
    free(text);
    return rc;
}

/* --- open, find */

static bool ends_with(const char *s, const char *tail)
{
    size_t n = strlen(s), k = strlen(tail);
    return n >= k && !strcmp(s + n - k, tail);
}

static int open_path(struct mint_st *st, const char *path, struct mint_err *err)
{
    if (ends_with(path, ".json"))
        return open_index(st, path, err);
    const char *slash = strrchr(path, '/');
    return open_file(st, path, slash ? slash + 1 : path, err);
}

static int open_dir(struct mint_st *st, const char *dir, struct mint_err *err)
{
    static const char *const names[] = {"model.safetensors.index.json", "model.safetensors",
                                        "adapter_model.safetensors"};
    for (size_t i = 0; i < MINT_ARRAY_LEN(names); i++) {
        char *path = mint_fs_join(dir, names[i]);
        bool here = mint_fs_exists(path);
        int rc = here ? open_path(st, path, err) : 0;
        free(path);
        if (here)
            return rc;
    }
    return mint_fail(err, MINT_EMODEL,
                     "%s: no model.safetensors, model.safetensors.index.json or "
                     "adapter_model.safetensors in this folder",
                     dir);
}

int mint_st_open(struct mint_st **out, const char *path, struct mint_err *err)
{
    struct mint_st *st = mint_xcalloc(1, sizeof *st);
    int rc = mint_fs_is_dir(path) ? open_dir(st, path, err) : open_path(st, path, err);
    if (!rc)
        rc = sort_names(st, path, err);
    if (rc) {
        mint_st_close(st);
        st = NULL;
    }
    *out = st;
    return rc;
}

void mint_st_close(struct mint_st *st)
{
    if (!st)
        return;
    for (size_t i = 0; i < st->nfiles; i++) {
        mint_fs_unmap(&st->files[i].map);
        free(st->files[i].name);
    }
    free(st->files);
    free(st->tensors);
    mint_arena_release(&st->arena);
    free(st);
}

size_t mint_st_count(const struct mint_st *st)
{
    return st->n;
}

const struct mint_st_tensor *mint_st_at(const struct mint_st *st, size_t i)
{
    return &st->tensors[i];
}

const struct mint_st_tensor *mint_st_find(const struct mint_st *st, const char *name)
{
    if (!st->n)
        return NULL;
    struct mint_st_tensor key = {.name = name};
    return bsearch(&key, st->tensors, st->n, sizeof key, by_name);
}

size_t mint_st_files(const struct mint_st *st)
{
    return st->nfiles;
}

const char *mint_st_file(const struct mint_st *st, size_t i)
{
    return st->files[i].name;
}

bool mint_st_sharded(const struct mint_st *st)
{
    return st->sharded;
}

/* --- memory */

/* Whole pages inside the range; a file's pages that are not written to lose nothing. */
void mint_st_release(const struct mint_st *st, const void *p, size_t n)
{
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), from = (uintptr_t)p;
    uintptr_t first = (from + page - 1) / page * page, end = (from + n) / page * page;
    bool ours = false;
    for (size_t i = 0; i < st->nfiles && !ours; i++) {
        uintptr_t start = (uintptr_t)st->files[i].map.data;
        ours = start && from >= start && from + n <= start + st->files[i].map.n;
    }
    if (!ours)
        MINT_BUG("these %zu bytes are not in the map", n);
    if (end > first)
        madvise((char *)(uintptr_t)p + (first - from), end - first, MADV_DONTNEED);
}

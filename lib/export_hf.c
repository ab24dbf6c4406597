/* SPDX-License-Identifier: Apache-2.0 */
#include "export.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "buf.h"
#include "fs.h"
#include "json.h"
#include "mem.h"
#include "weights_map.h"

#define CHUNK ((int64_t)1 << 20) /* elements made at a time, but at least a row */

/* One tensor of the merged model. */
struct item {
    const char *name;
    const struct mint_st_tensor *src;   /* what it starts from */
    const struct mint_st_tensor *a, *b; /* NULL: a copy */
    enum mint_dtype dtype;              /* OTHER: raw copy */
    size_t file;
};

struct job {
    const struct mint_export *o;
    const struct mint_export_source *s;
    struct item *items; /* by name */
    size_t n;
    double scale, done, total;
    double delta_sq, lost_sq;
};

/* --- plan */

static int by_item_name(const void *a, const void *b)
{
    const struct item *x = a, *y = b;
    return strcmp(x->name, y->name);
}

static struct item plan_one(const struct job *job, const struct mint_st_tensor *t)
{
    struct item it = {.name = t->name, .src = t, .dtype = t->dtype, .file = t->file};
    size_t n = strlen(t->name), tail = strlen(".weight");
    if (job->o->dtype >= 0 && t->dtype != MINT_DTYPE_OTHER)
        it.dtype = (enum mint_dtype)job->o->dtype;
    if (n > tail && !strcmp(t->name + n - tail, ".weight")) {
        char *module = mint_xstrndup(t->name, n - tail);
        if (!mint_checkpoint_pair(&job->s->ck, module, &it.a, &it.b))
            it.a = it.b = NULL;
        free(module);
    }
    return it;
}

static void plan(struct job *job)
{
    const struct mint_st *base = job->s->base;
    size_t n = mint_st_count(base);
    job->items = mint_xcalloc(n + 1, sizeof *job->items);
    const struct mint_st_tensor *embed = mint_st_find(base, "model.embed_tokens.weight");
    bool head = false;
    for (size_t i = 0; i < n; i++) {
        struct item *it = &job->items[job->n++];
        *it = plan_one(job, mint_st_at(base, i));
        if (strcmp(it->name, "lm_head.weight"))
            continue;
        head = true;
        if (job->s->tied_head) /* a stored copy of the tied head: the embedding is what counts */
            it->src = embed;
    }
    if (job->s->tied_head && !head) {
        struct item *it = &job->items[job->n++];
        *it = plan_one(job, embed);
        it->name = "lm_head.weight";
        mint_checkpoint_pair(&job->s->ck, "lm_head", &it->a, &it->b);
        it->file = mint_st_files(base) - 1;
    }
    qsort(job->items, job->n, sizeof *job->items, by_item_name);
    for (size_t i = 0; i < job->n; i++)
        job->total += 2 * (double)job->items[i].src->bytes; /* once to write, once to verify */
}

/* --- rows */

static int64_t rows_of(const struct mint_st_tensor *t)
{
    return t->ndim ? t->shape[0] : 1;
}

static int64_t cols_of(const struct mint_st_tensor *t)
{
    int64_t n = 1;
    for (int d = 1; d < t->ndim; d++)
        n *= t->shape[d];
    return n;
}

/* The adapter's pair of one tensor. */
struct pair {
    double *a; /* [r, cols], NULL: a copy */
    float *b;  /* [rows, r] */
};

static float *load(const struct mint_st_tensor *t, size_t *n)
{
    *n = (size_t)(t->shape[0] * t->shape[1]);
    float *v = mint_xcalloc(*n, sizeof *v);
    mint_dtype_to_f32(t->dtype, t->data, v, *n);
    return v;
}

static struct pair pair_load(const struct item *it)
{
    struct pair p = {NULL, NULL};
    size_t n, m;
    if (!it->a)
        return p;
    float *a = load(it->a, &n);
    p.a = mint_xcalloc(n, sizeof *p.a);
    for (size_t i = 0; i < n; i++)
        p.a[i] = (double)a[i];
    free(a);
    p.b = load(it->b, &m);
    return p;
}

static void pair_free(struct pair *p)
{
    free(p->a);
    free(p->b);
}

/* y[j] += b[0] a[0][j] + ... one k after the other, four at a time to spare memory traffic. */
static void add_rows(double *y, const double *a, const float *b, int64_t rank, int64_t cols)
{
    int64_t k = 0;
    for (; k + 4 <= rank; k += 4, a += 4 * cols) {
        const double b0 = (double)b[k], b1 = (double)b[k + 1], b2 = (double)b[k + 2],
                     b3 = (double)b[k + 3];
        const double *a1 = a + cols, *a2 = a1 + cols, *a3 = a2 + cols;
#pragma omp simd
        for (int64_t j = 0; j < cols; j++)
            y[j] = (((y[j] + b0 * a[j]) + b1 * a1[j]) + b2 * a2[j]) + b3 * a3[j];
    }
    for (; k < rank; k++, a += cols) {
        const double bk = (double)b[k];
#pragma omp simd
        for (int64_t j = 0; j < cols; j++)
            y[j] += bk * a[j];
    }
}

/*
 * exact[j] = row[j] + scale * sum_k b[k] a[k][j], k ascending, in double (the products of floats
 * are exact there). Returns the squared norm of the update.
 */
static double merge_row(double *exact, const float *row, const double *a, const float *b,
                        int64_t rank, int64_t cols, double scale)
{
    double sq = 0;
    memset(exact, 0, (size_t)cols * sizeof *exact);
    add_rows(exact, a, b, rank, cols);
    for (int64_t j = 0; j < cols; j++) {
        double d = scale * exact[j];
        sq += d * d;
        exact[j] = (double)row[j] + d;
    }
    return sq;
}

/* Squared distance of the stored row from exact, +infinity where f16 is too small for a value. */
static double round_row(const struct item *it, const double *exact, float *row, char *out,
                        int64_t cols)
{
    double sq = 0;
    for (int64_t j = 0; j < cols; j++)
        row[j] = (float)exact[j];
    mint_dtype_from_f32(it->dtype, row, out, (size_t)cols);
    mint_dtype_to_f32(it->dtype, out, row, (size_t)cols);
    for (int64_t j = 0; j < cols; j++) {
        double d = (double)row[j] - exact[j];
        sq += d * d;
    }
    return sq;
}

/* Rows first .. first+n-1 of the merged tensor, as stored. delta[i], lost[i]: squared norms of a
 * row. */
static void make_rows(const struct job *job, const struct item *it, const struct pair *p,
                      int64_t first, int64_t n, char *out, double *delta, double *lost)
{
    const int64_t cols = cols_of(it->src), rank = job->s->ck.config.rank;
    const size_t from = mint_dtype_bytes(it->src->dtype), to = mint_dtype_bytes(it->dtype);
    const char *src = it->src->data;
#pragma omp parallel if (n * cols > 65536)
    {
        float *row = mint_xcalloc((size_t)cols, sizeof *row);
        double *exact = mint_xcalloc((size_t)cols, sizeof *exact);
#pragma omp for schedule(static)
        for (int64_t i = 0; i < n; i++) {
            char *dst = out + (size_t)(i * cols) * to;
            mint_dtype_to_f32(it->src->dtype, src + (size_t)((first + i) * cols) * from, row,
                              (size_t)cols);
            delta[i] = 0;
            if (p->a)
                delta[i] =
                    merge_row(exact, row, p->a, p->b + (first + i) * rank, rank, cols, job->scale);
            else
                for (int64_t j = 0; j < cols; j++)
                    exact[j] = (double)row[j];
            lost[i] = round_row(it, exact, row, dst, cols);
        }
        free(row);
        free(exact);
    }
}

/* What is done with each piece of a tensor: written, or compared with what was written. */
typedef int (*sink_fn)(void *ctx, const struct item *it, size_t offset, const char *p, size_t n,
                       struct mint_err *err);

static void report(struct job *job, double bytes)
{
    job->done += bytes;
    if (job->o->progress)
        job->o->progress(job->o->ctx, job->done, job->total);
}

/* A raw copy, in pieces. */
static int copy_item(struct job *job, const struct item *it, sink_fn sink, void *ctx,
                     struct mint_err *err)
{
    size_t step = (size_t)CHUNK * 4;
    for (size_t at = 0; at < it->src->bytes; at += step) {
        size_t n = MINT_MIN(step, it->src->bytes - at);
        if (sink(ctx, it, at, (const char *)it->src->data + at, n, err))
            return -1;
        report(job, (double)n);
    }
    return 0;
}

static int merge_chunk(struct job *job, const struct item *it, int64_t n, const double *delta,
                       const double *lost, struct mint_err *err)
{
    double d = 0, l = 0;
    for (int64_t i = 0; i < n; i++) {
        d += delta[i];
        l += lost[i];
    }
    if (!isfinite(
            l)) /* the source may hold infinities; new ones come from a type that is too small */
        return mint_fail(err, MINT_EMODEL,
                         "tensor \"%s\": a value does not fit into %s; use another --dtype",
                         it->name, mint_dtype_name(it->dtype));
    if (it->a) {
        job->delta_sq += d;
        job->lost_sq += l;
    }
    return 0;
}

static int merge_item(struct job *job, const struct item *it, sink_fn sink, void *ctx,
                      struct mint_err *err)
{
    const int64_t rows = rows_of(it->src), cols = cols_of(it->src);
    const int64_t step = MINT_MAX((int64_t)1, CHUNK / MINT_MAX(cols, (int64_t)1));
    const size_t row_bytes = (size_t)cols * mint_dtype_bytes(it->dtype);
    struct pair p = pair_load(it);
    char *out = mint_xcalloc((size_t)step, row_bytes);
    double *delta = mint_xcalloc((size_t)step, sizeof *delta),
           *lost = mint_xcalloc((size_t)step, sizeof *lost);
    int rc = 0;
    for (int64_t first = 0; !rc && first < rows; first += step) {
        int64_t n = MINT_MIN(step, rows - first);
        make_rows(job, it, &p, first, n, out, delta, lost);
        rc = merge_chunk(job, it, n, delta, lost, err);
        if (!rc)
            rc = sink(ctx, it, (size_t)first * row_bytes, out, (size_t)n * row_bytes, err);
        report(job, (double)(n * cols) * (double)mint_dtype_bytes(it->src->dtype));
    }
    free(delta);
    free(lost);
    free(out);
    pair_free(&p);
    return rc;
}

static int each_piece(struct job *job, const struct item *it, sink_fn sink, void *ctx,
                      struct mint_err *err)
{
    bool raw = !it->a && it->dtype == it->src->dtype;
    return raw ? copy_item(job, it, sink, ctx, err) : merge_item(job, it, sink, ctx, err);
}

/* --- write */

static int sink_write(void *ctx, const struct item *it, size_t offset, const char *p, size_t n,
                      struct mint_err *err)
{
    (void)it;
    (void)offset;
    return mint_st_write(ctx, p, n, err);
}

static void declare(struct mint_st_writer *w, const struct item *it)
{
    if (it->dtype == MINT_DTYPE_OTHER)
        mint_st_declare_raw(w, it->name, it->src->dtype_text, it->src->ndim, it->src->shape,
                            it->src->bytes);
    else
        mint_st_declare(w, it->name, it->dtype, it->src->ndim, it->src->shape);
}

static int write_file(struct job *job, const char *dir, size_t file, struct mint_err *err)
{
    struct mint_st_writer *w;
    char *path = mint_fs_join(dir, mint_st_file(job->s->base, file));
    int rc = mint_st_create(&w, path, err);
    free(path);
    if (rc)
        return rc;
    mint_st_metadata(w, "format", "pt");
    for (size_t i = 0; i < job->n; i++)
        if (job->items[i].file == file)
            declare(w, &job->items[i]);
    for (size_t i = 0; !rc && i < job->n; i++)
        if (job->items[i].file == file)
            rc = each_piece(job, &job->items[i], sink_write, w, err);
    if (!rc)
        return mint_st_finish(w, err);
    mint_st_cancel(w);
    return rc;
}

static int write_index(const struct job *job, const char *dir, struct mint_err *err)
{
    struct mint_buf b = MINT_BUF_INIT;
    unsigned long long total = 0;
    for (size_t i = 0; i < job->n; i++) {
        const struct item *it = &job->items[i];
        size_t from = mint_dtype_bytes(it->src->dtype);
        total += from ? it->src->bytes / from * mint_dtype_bytes(it->dtype) : it->src->bytes;
    }
    mint_buf_addf(&b, "{\n  \"metadata\": {\n    \"total_size\": %llu\n  },\n  \"weight_map\": {",
                  total);
    for (size_t i = 0; i < job->n; i++) {
        mint_buf_adds(&b, i ? ",\n    " : "\n    ");
        mint_json_put_str(&b, job->items[i].name);
        mint_buf_adds(&b, ": ");
        mint_json_put_str(&b, mint_st_file(job->s->base, job->items[i].file));
    }
    mint_buf_adds(&b, "\n  }\n}\n");
    char *path = mint_fs_join(dir, "model.safetensors.index.json");
    int rc = mint_fs_write_file(path, b.data, b.len, err);
    free(path);
    mint_buf_release(&b);
    return rc;
}

/* text is replaced by its edited form. */
static int edit(struct mint_buf *text, const char *key, const char *value, struct mint_err *err)
{
    struct mint_buf out = MINT_BUF_INIT;
    int rc = mint_export_edit_json(text->data, text->len, key, value, &out, err);
    mint_buf_release(text);
    *text = out;
    return rc;
}

static int edit_dtype(struct mint_buf *text, enum mint_dtype dtype, struct mint_err *err)
{
    struct mint_json *j = mint_json_new();
    char value[32];
    int rc = mint_json_parse(j, text->data, text->len, err);
    bool old = !rc && mint_json_get(j, 0, "torch_dtype") != MINT_JSON_NONE;
    bool new = !rc &&mint_json_get(j, 0, "dtype") != MINT_JSON_NONE;
    mint_json_free(j);
    value[0] = '"';
    size_t n = strlen(mint_dtype_torch(dtype));
    memcpy(value + 1, mint_dtype_torch(dtype), n);
    memcpy(value + 1 + n, "\"", 2);
    if (!rc && (old || !new))
        rc = edit(text, "torch_dtype", value, err);
    if (!rc && new)
        rc = edit(text, "dtype", value, err);
    return rc;
}

static int write_config(const struct job *job, const char *dir, struct mint_err *err)
{
    struct mint_buf text = MINT_BUF_INIT;
    char *from = mint_fs_join(job->o->model, "config.json"), *to = mint_fs_join(dir, "config.json"),
         *raw;
    size_t n;
    int rc = mint_fs_read_file(from, (size_t)16 << 20, &raw, &n, err);
    if (!rc) {
        mint_buf_add(&text, raw, n);
        free(raw);
        if (job->s->tied_head)
            rc = edit(&text, "tie_word_embeddings", "false", err);
        if (!rc && job->o->dtype >= 0 &&
            strcmp(job->s->config.torch_dtype, mint_dtype_torch((enum mint_dtype)job->o->dtype)))
            rc = edit_dtype(&text, (enum mint_dtype)job->o->dtype, err);
        if (!rc)
            rc = mint_fs_write_file(to, text.data, text.len, err);
    }
    free(from);
    free(to);
    mint_buf_release(&text);
    return rc;
}

/* --- verify */

static int sink_verify(void *ctx, const struct item *it, size_t offset, const char *p, size_t n,
                       struct mint_err *err)
{
    const struct mint_st_tensor *t = mint_st_find(ctx, it->name);
    if (t && t->bytes >= offset + n && !memcmp((const char *)t->data + offset, p, n))
        return 0;
    return mint_fail(err, MINT_EIO, "tensor \"%s\" reads back differently than written", it->name);
}

/* Opens the new folder as any reader would and makes every tensor once more from the source. */
static int verify(struct job *job, const char *dir, struct mint_export_result *res,
                  struct mint_err *err)
{
    struct mint_model_config c;
    struct mint_st *st;
    if (mint_model_config_read(&c, dir, err) || mint_st_open(&st, dir, err))
        return -1;
    int rc = mint_weights_check(st, &c, dir, err);
    if (!rc &&
        (mint_st_count(st) != job->n || c.tied != (job->s->config.tied && !job->s->tied_head)))
        rc = mint_fail(err, MINT_EIO, "%s reads back differently than written", dir);
    for (size_t i = 0; !rc && i < job->n; i++)
        rc = each_piece(job, &job->items[i], sink_verify, st, err);
    if (!rc)
        rc = mint_st_fingerprint(st, res->digest, err);
    mint_st_close(st);
    return rc;
}

static int fill_hf(struct job *job, const char *dir, struct mint_export_result *res,
                   struct mint_err *err)
{
    const struct mint_st *base = job->s->base;
    if (mint_export_copy_files(job->o->model, dir, err) || write_config(job, dir, err))
        return -1;
    for (size_t f = 0; f < mint_st_files(base); f++)
        if (write_file(job, dir, f, err))
            return -1;
    if (mint_st_sharded(base) && write_index(job, dir, err))
        return -1;
    res->delta = sqrt(job->delta_sq);
    res->lost = sqrt(job->lost_sq);
    res->tensors = job->n;
    return verify(job, dir, res, err);
}

int mint_export_hf(const struct mint_export *o, struct mint_export_result *res,
                   struct mint_err *err)
{
    struct mint_export_source s;
    struct mint_tmpdir tmp;
    memset(res, 0, sizeof *res);
    if (mint_export_open(&s, o, err))
        return -1;
    res->modules = s.modules;
    res->tied_head = s.tied_head;
    struct job job = {.o = o, .s = &s, .scale = s.ck.config.alpha / s.ck.config.rank};
    plan(&job);
    int rc = mint_tmpdir_open(&tmp, o->to, o->force, err);
    if (!rc) {
        rc = fill_hf(&job, tmp.path, res, err);
        if (rc)
            mint_tmpdir_abort(&tmp);
        else
            rc = mint_tmpdir_commit(&tmp, err);
    }
    free(job.items);
    mint_export_close(&s);
    return rc;
}

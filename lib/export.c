/* SPDX-License-Identifier: Apache-2.0 */
#include "export.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "buf.h"
#include "fs.h"
#include "identity.h"
#include "mem.h"
#include "weights_map.h"

/* --- the source */

/* "model.layers.0.self_attn.q_proj" of a base tensor's name; false if it is no matrix that LoRA can
 * sit on. */
static bool module_of(const struct mint_weight_spec *s, char out[sizeof s->name])
{
    size_t n = strlen(s->name), tail = strlen(".weight");
    if (s->kind != MINT_WEIGHT_MATRIX || n <= tail)
        return false;
    memcpy(out, s->name, n - tail);
    out[n - tail] = '\0';
    return true;
}

static int check_finite(const struct mint_st_tensor *t, struct mint_err *err)
{
    size_t n = t->bytes / mint_dtype_bytes(t->dtype);
    float *v = mint_xreallocarray(NULL, n, sizeof *v);
    bool finite = true;
    mint_dtype_to_f32(t->dtype, t->data, v, n);
    for (size_t i = 0; finite && i < n; i++)
        finite = isfinite(v[i]);
    free(v);
    return finite ? 0
                  : mint_fail(err, MINT_EMODEL, "tensor \"%s\" holds a value that is not finite",
                              t->name);
}

/* Counts module in s->modules if the adapter has it; out and in are the base's. */
static int check_pair(struct mint_export_source *s, const char *module, int64_t out, int64_t in,
                      struct mint_err *err)
{
    const struct mint_st_tensor *a, *b;
    if (!mint_checkpoint_pair(&s->ck, module, &a, &b))
        return 0;
    char found[96];
    int64_t want_a[2] = {s->ck.config.rank, in}, want_b[2] = {out, s->ck.config.rank};
    const struct mint_st_tensor *bad = a->shape[1] != in ? a : b->shape[0] != out ? b : NULL;
    char want[96];
    if (bad)
        return mint_fail(err, MINT_EMODEL, "tensor \"%s\" is %s, but the base model needs %s",
                         bad->name, mint_shape_text(bad->ndim, bad->shape, found),
                         mint_shape_text(2, bad == a ? want_a : want_b, want));
    s->modules++;
    return check_finite(a, err) ? -1 : check_finite(b, err);
}

static int check_adapter(struct mint_export_source *s, struct mint_err *err)
{
    size_t n = mint_weights_count(&s->config);
    struct mint_weight_spec w;
    char module[sizeof w.name];
    for (size_t i = 0; i < n; i++) {
        mint_weights_at(&s->config, i, &w);
        if (module_of(&w, module) && check_pair(s, module, w.shape[0], w.shape[1], err))
            return -1;
    }
    size_t before = s->modules;
    if (s->config.tied && check_pair(s, "lm_head", s->config.vocab, s->config.hidden, err))
        return -1;
    s->tied_head = s->modules > before;
    if (2 * s->modules == mint_st_count(s->ck.adapter))
        return 0;
    return mint_fail(
        err, MINT_EMODEL,
        "holds %zu tensors, of which %zu fit the base model of %d layers: it was made for "
        "another one",
        mint_st_count(s->ck.adapter), 2 * s->modules, s->config.layers);
}

static int check_base(const struct mint_export_source *s, const struct mint_export *o,
                      struct mint_err *err)
{
    char tensors[72], print[72];
    if (!s->ck.has_state)
        return 0;
    if (mint_st_fingerprint(s->base, tensors, err))
        return -1;
    mint_identity_base(tensors, &s->config, print);
    if (!strcmp(print, s->ck.state.base))
        return 0;
    return mint_fail(err, MINT_EMODEL,
                     "%s was trained on another base model: %s is %s, trainer_state.json says %s",
                     o->adapter, o->model, print, s->ck.state.base);
}

static bool same_folder(const char *a, const char *b)
{
    struct stat x, y;
    return !stat(a, &x) && !stat(b, &y) && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}

/* With --force the target goes away at the end: never one of the sources. */
static int check_target(const struct mint_export *o, struct mint_err *err)
{
    if (same_folder(o->to, o->model))
        return mint_fail(err, MINT_EUSAGE, "--to %s is the base model itself", o->to);
    if (same_folder(o->to, o->adapter))
        return mint_fail(err, MINT_EUSAGE, "--to %s is the adapter itself", o->to);
    if (mint_fs_holds(o->to, o->model))
        return mint_fail(err, MINT_EUSAGE, "--to %s holds the base model %s", o->to, o->model);
    if (mint_fs_holds(o->to, o->adapter))
        return mint_fail(err, MINT_EUSAGE, "--to %s holds the adapter %s", o->to, o->adapter);
    return 0;
}

int mint_export_open(struct mint_export_source *s, const struct mint_export *o,
                     struct mint_err *err)
{
    memset(s, 0, sizeof *s);
    if (check_target(o, err) || mint_model_config_read(&s->config, o->model, err) ||
        mint_st_open(&s->base, o->model, err) ||
        mint_weights_check(s->base, &s->config, o->model, err) ||
        mint_checkpoint_open(&s->ck, o->adapter, err))
        goto fail;
    if (check_adapter(s, err)) {
        mint_wrap(err, "%s/adapter_model.safetensors: ", o->adapter);
        goto fail;
    }
    if (!check_base(s, o, err))
        return 0;
fail:
    mint_export_close(s);
    return -1;
}

void mint_export_close(struct mint_export_source *s)
{
    mint_st_close(s->base);
    mint_checkpoint_close(&s->ck);
    memset(s, 0, sizeof *s);
}

/* --- peft */

static int convert(const struct mint_st_tensor *t, enum mint_dtype to, void **out, size_t *bytes,
                   struct mint_err *err)
{
    size_t n = t->bytes / mint_dtype_bytes(t->dtype);
    float *v = mint_xreallocarray(NULL, n, sizeof *v);
    mint_dtype_to_f32(t->dtype, t->data, v, n);
    for (size_t i = 0; to == MINT_F16 && i < n; i++) {
        if (fabsf(v[i]) >= 65520) {
            mint_fail(err, MINT_EMODEL,
                      "tensor \"%s\": %g does not fit into f16; use --dtype bf16 or f32", t->name,
                      (double)v[i]);
            free(v);
            return -1;
        }
    }
    *bytes = n * mint_dtype_bytes(to);
    *out = mint_xmalloc(*bytes);
    mint_dtype_from_f32(to, v, *out, n);
    free(v);
    return 0;
}

static int write_adapter(const struct mint_st *st, enum mint_dtype to, const char *path,
                         struct mint_err *err)
{
    struct mint_st_writer *w;
    size_t n = mint_st_count(st), bytes;
    if (mint_st_create(&w, path, err))
        return -1;
    mint_st_metadata(w, "format", "pt");
    for (size_t i = 0; i < n; i++) {
        const struct mint_st_tensor *t = mint_st_at(st, i);
        mint_st_declare(w, t->name, to, t->ndim, t->shape);
    }
    for (size_t i = 0; i < n; i++) {
        void *data;
        int rc = convert(mint_st_at(st, i), to, &data, &bytes, err);
        if (!rc) {
            rc = mint_st_write(w, data, bytes, err);
            free(data);
        }
        if (rc) {
            mint_st_cancel(w);
            return -1;
        }
    }
    return mint_st_finish(w, err);
}

static int verify_adapter(const struct mint_st *st, enum mint_dtype to,
                          const struct mint_checkpoint *out, struct mint_err *err)
{
    size_t n = mint_st_count(st), bytes;
    if (mint_st_count(out->adapter) != n)
        return mint_fail(err, MINT_EIO, "read back %zu tensors, wrote %zu",
                         mint_st_count(out->adapter), n);
    for (size_t i = 0; i < n; i++) {
        const struct mint_st_tensor *t = mint_st_at(st, i),
                                    *got = mint_st_find(out->adapter, t->name);
        void *data;
        if (convert(t, to, &data, &bytes, err))
            return -1;
        bool same =
            got && got->dtype == to && got->bytes == bytes && !memcmp(got->data, data, bytes);
        free(data);
        if (!same)
            return mint_fail(err, MINT_EIO, "tensor \"%s\" reads back differently than written",
                             t->name);
    }
    return 0;
}

static int base_name(const struct mint_export *o, struct mint_adapter_config *c,
                     struct mint_err *err)
{
    const char *name = o->base_name ? o->base_name : c->base_model[0] ? NULL : o->model;
    if (!name)
        return 0;
    if (strlen(name) >= sizeof c->base_model)
        return mint_fail(err, MINT_EUSAGE, "the name of the base model is too long");
    snprintf(c->base_model, sizeof c->base_model, "%s", name);
    return 0;
}

static int fill_peft(const struct mint_export *o, const struct mint_export_source *s,
                     const char *dir, struct mint_export_result *res, struct mint_err *err)
{
    enum mint_dtype to = o->dtype < 0 ? MINT_F32 : (enum mint_dtype)o->dtype;
    struct mint_adapter_config config = s->ck.config;
    struct mint_checkpoint back;
    struct mint_buf b = MINT_BUF_INIT;
    if (base_name(o, &config, err))
        return -1;
    mint_adapter_config_json(&config, &b);
    char *text = mint_fs_join(dir, "adapter_config.json");
    char *data = mint_fs_join(dir, "adapter_model.safetensors");
    int rc = mint_fs_write_file(text, b.data, b.len, err);
    if (!rc)
        rc = write_adapter(s->ck.adapter, to, data, err);
    free(text);
    free(data);
    mint_buf_release(&b);
    if (rc || mint_checkpoint_open(&back, dir, err))
        return -1;
    rc = verify_adapter(s->ck.adapter, to, &back, err);
    memcpy(res->digest, back.fingerprint, sizeof res->digest);
    res->tensors = mint_st_count(back.adapter);
    mint_checkpoint_close(&back);
    return rc;
}

int mint_export_peft(const struct mint_export *o, struct mint_export_result *res,
                     struct mint_err *err)
{
    struct mint_export_source s;
    struct mint_tmpdir tmp;
    memset(res, 0, sizeof *res);
    if (mint_export_open(&s, o, err))
        return -1;
    res->modules = s.modules;
    res->tied_head = s.tied_head;
    int rc = 0;
    if (o->target && !strcmp(o->target, "vllm") && s.ck.config.unembed)
        rc = mint_fail(
            err, MINT_EMODEL,
            "%s has LoRA on lm_head, which vllm does not load; merge it (--format hf), or train "
            "without it (mint-train --no-train-unembed)",
            o->adapter);
    if (!rc)
        rc = mint_tmpdir_open(&tmp, o->to, o->force, err);
    if (!rc) {
        rc = fill_peft(o, &s, tmp.path, res, err);
        if (rc)
            mint_tmpdir_abort(&tmp);
        else
            rc = mint_tmpdir_commit(&tmp, err);
    }
    mint_export_close(&s);
    return rc;
}

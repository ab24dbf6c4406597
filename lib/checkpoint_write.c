/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "buf.h"
#include "checkpoint.h"
#include "fs.h"
#include "json.h"
#include "mem.h"

void mint_adapter_config_json(const struct mint_adapter_config *c, struct mint_buf *b)
{
    unsigned mask = mint_adapter_modules(c);
    mint_buf_adds(b, "{\n  \"alpha_pattern\": {},\n  \"auto_mapping\": null,\n"
                     "  \"base_model_name_or_path\": ");
    mint_json_put_str(b, c->base_model);
    mint_buf_adds(b, ",\n  \"bias\": \"none\",\n  \"fan_in_fan_out\": false,\n"
                     "  \"inference_mode\": true,\n  \"init_lora_weights\": true,\n"
                     "  \"layers_pattern\": null,\n  \"layers_to_transform\": null,\n"
                     "  \"lora_alpha\": ");
    mint_json_put_double(b, c->alpha);
    mint_buf_addf(b,
                  ",\n  \"lora_dropout\": 0.0,\n  \"modules_to_save\": null,\n"
                  "  \"peft_type\": \"LORA\",\n  \"r\": %d,\n  \"rank_pattern\": {},\n"
                  "  \"revision\": null,\n  \"target_modules\": [",
                  c->rank);
    const char *comma = "";
    for (unsigned bit = MINT_ADAPTER_Q; bit <= MINT_ADAPTER_HEAD; bit <<= 1) {
        if (!(mask & bit))
            continue;
        const char *name = mint_adapter_module_name(bit), *dot = strrchr(name, '.');
        mint_buf_addf(b, "%s\n    \"%s\"", comma, dot ? dot + 1 : name);
        comma = ",";
    }
    mint_buf_adds(b, "\n  ],\n  \"task_type\": \"CAUSAL_LM\",\n  \"use_dora\": false,\n"
                     "  \"use_rslora\": false\n}\n");
}

/* The digest, or null for "". */
static void put_digest(struct mint_buf *b, const char *key, const char *digest)
{
    mint_buf_addf(b, ",\n  \"%s\": ", key);
    if (digest[0])
        mint_json_put_str(b, digest);
    else
        mint_buf_adds(b, "null");
}

static void state_json(const struct mint_trainer_state *s, const char *adapter, const char *metrics,
                       struct mint_buf *b)
{
    mint_buf_addf(b, "{\n  \"format\": 1,\n  \"step\": %lld,\n  \"tokens\": %lld",
                  (long long)s->step, (long long)s->tokens);
    put_digest(b, "base", s->base);
    put_digest(b, "parent", s->parent);
    put_digest(b, "adapter", adapter);
    put_digest(b, "datums", s->datums);
    put_digest(b, "options_sha256", s->options);
    mint_buf_addf(b, ",\n  \"options\": %s", s->options_json ? s->options_json : "{}");
    mint_buf_addf(b, ",\n  \"metrics\": %s\n}\n", metrics ? metrics : "{}");
}

static int write_text(const char *dir, const char *name, const struct mint_buf *b,
                      struct mint_err *err)
{
    char *path = mint_fs_join(dir, name);
    int rc = mint_fs_write_file(path, b->data, b->len, err);
    free(path);
    return rc;
}

static int write_adapter(const char *path, const struct mint_checkpoint_tensor *t, size_t n,
                         struct mint_err *err)
{
    struct mint_st_writer *w;
    if (mint_st_create(&w, path, err))
        return -1;
    mint_st_metadata(w, "format", "pt");
    for (size_t i = 0; i < n; i++)
        mint_st_declare(w, t[i].name, MINT_F32, 2, (int64_t[]){t[i].rows, t[i].cols});
    for (size_t i = 0; i < n; i++) {
        if (mint_st_write(w, t[i].data, (size_t)t[i].rows * (size_t)t[i].cols * 4, err)) {
            mint_st_cancel(w);
            return -1;
        }
    }
    return mint_st_finish(w, err);
}

static int write_optimizer(const char *path, const struct mint_checkpoint_tensor *t, size_t n,
                           struct mint_err *err)
{
    struct mint_st_writer *w;
    if (mint_st_create(&w, path, err))
        return -1;
    for (int which = 0; which < 2; which++) {
        for (size_t i = 0; i < n; i++) {
            char *name = mint_xasprintf("%c.%s", which ? 'v' : 'm', t[i].name);
            mint_st_declare(w, name, MINT_F32, 2, (int64_t[]){t[i].rows, t[i].cols});
            free(name);
        }
    }
    for (size_t i = 0; i < 2 * n; i++) {
        const struct mint_checkpoint_tensor *x = &t[i % n];
        const float *p = i < n ? x->m : x->v;
        if (mint_st_write(w, p, (size_t)x->rows * (size_t)x->cols * 4, err)) {
            mint_st_cancel(w);
            return -1;
        }
    }
    return mint_st_finish(w, err);
}

/* Reads the adapter back: what is on disk is what trainer_state.json vouches for. */
static int fingerprint_of(const char *path, char out[72], struct mint_err *err)
{
    struct mint_st *st;
    if (mint_st_open(&st, path, err))
        return -1;
    int rc = mint_st_fingerprint(st, out, err);
    mint_st_close(st);
    return rc;
}

static int fill_dir(const char *dir, const struct mint_adapter_config *config,
                    const struct mint_trainer_state *state, const struct mint_checkpoint_tensor *t,
                    size_t n, const char *metrics, char digest[72], struct mint_err *err)
{
    struct mint_buf b = MINT_BUF_INIT;
    char *adapter = mint_fs_join(dir, "adapter_model.safetensors");
    char *optimizer = mint_fs_join(dir, "optimizer.safetensors");
    mint_adapter_config_json(config, &b);
    int rc = write_text(dir, "adapter_config.json", &b, err);
    if (!rc)
        rc = write_adapter(adapter, t, n, err);
    if (!rc && n && t[0].m)
        rc = write_optimizer(optimizer, t, n, err);
    if (!rc)
        rc = fingerprint_of(adapter, digest, err);
    if (!rc && state) {
        mint_buf_reset(&b);
        state_json(state, digest, metrics, &b);
        rc = write_text(dir, "trainer_state.json", &b, err);
    }
    free(adapter);
    free(optimizer);
    mint_buf_release(&b);
    return rc;
}

int mint_checkpoint_write(const char *dir, bool force, const struct mint_adapter_config *config,
                          const struct mint_trainer_state *state,
                          const struct mint_checkpoint_tensor *t, size_t n,
                          const char *metrics_json, char *fingerprint, struct mint_err *err)
{
    struct mint_tmpdir tmp;
    char digest[72];
    if (mint_tmpdir_open(&tmp, dir, force, err))
        return -1;
    if (fill_dir(tmp.path, config, state, t, n, metrics_json, digest, err)) {
        mint_tmpdir_abort(&tmp);
        return -1;
    }
    if (mint_tmpdir_commit(&tmp, err))
        return -1;
    if (fingerprint)
        memcpy(fingerprint, digest, sizeof digest);
    return 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "init.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fs.h"
#include "json.h"
#include "mem.h"
#include "rng.h"
#include "weights_map.h"

#define CHUNK ((size_t)1 << 22) /* elements that are made, then written, at a time */
#define STRIPE \
    ((size_t)1 << 14) /* elements a thread makes at a time; even: a Philox block gives two */

/* --- values */

#define BLOCKS 64 /* Philox blocks of one batch: lanes for the compiler */

/*
 * Philox 4x32-10 (as mint_philox, checked against it by a test) on blocks first .. first+BLOCKS-1,
 * in lanes, because a model has billions of elements. Block k gives elements 2k and 2k+1, each the
 * sum of four 16-bit words, less its mean of 131070.
 */
static void draw_blocks(uint64_t seed, uint64_t stream, uint64_t first, int32_t z[2 * BLOCKS])
{
    uint32_t c0[BLOCKS], c1[BLOCKS], c2[BLOCKS], c3[BLOCKS];
    for (int i = 0; i < BLOCKS; i++) {
        c0[i] = (uint32_t)(first + (uint64_t)i);
        c1[i] = (uint32_t)((first + (uint64_t)i) >> 32);
        c2[i] = (uint32_t)stream;
        c3[i] = (uint32_t)(stream >> 32);
    }
    uint32_t k0 = (uint32_t)seed, k1 = (uint32_t)(seed >> 32);
    for (int round = 0; round < 10; round++) {
#pragma omp simd
        for (int i = 0; i < BLOCKS; i++) {
            uint64_t a = UINT64_C(0xD2511F53) * c0[i], b = UINT64_C(0xCD9E8D57) * c2[i];
            c0[i] = (uint32_t)(b >> 32) ^ c1[i] ^ k0;
            c2[i] = (uint32_t)(a >> 32) ^ c3[i] ^ k1;
            c1[i] = (uint32_t)b;
            c3[i] = (uint32_t)a;
        }
        k0 += 0x9E3779B9;
        k1 += 0xBB67AE85;
    }
    for (int i = 0; i < BLOCKS; i++) {
        uint32_t even = (c0[i] & 0xffff) + (c0[i] >> 16) + (c1[i] & 0xffff) + (c1[i] >> 16);
        uint32_t odd = (c2[i] & 0xffff) + (c2[i] >> 16) + (c3[i] & 0xffff) + (c3[i] >> 16);
        z[2 * i] = (int32_t)even - 131070;
        z[2 * i + 1] = (int32_t)odd - 131070;
    }
}

void mint_init_values(uint64_t seed, const char *name, double mean, double std, uint64_t first,
                      size_t n, float *out)
{
    uint64_t stream = mint_rng_stream(name, strlen(name));
    /* variance of a uniform on 0..65535 is (2^32 - 1) / 12; four of them make a third of 2^32 - 1
     */
    float unit = (float)(std / sqrt(4294967295.0 / 3)), centre = (float)mean;
    int32_t z[2 * BLOCKS];
    for (size_t i = 0; i < n;) {
        uint64_t at = first + i, skip = at % (2 * BLOCKS);
        size_t k = (size_t)MINT_MIN((uint64_t)(n - i), 2 * BLOCKS - skip);
        draw_blocks(seed, stream, (at - skip) / 2, z);
        for (size_t j = 0; j < k; j++) {
            float scaled = (float)z[skip + j] * unit; /* two roundings, never one fma */
            out[i + j] = centre + scaled;
        }
        i += k;
    }
}

static void spread(const struct mint_init *o, const struct mint_weight_spec *s, double *mean,
                   double *std)
{
    *mean = s->kind == MINT_WEIGHT_NORM ? 1 : 0;
    if (s->kind == MINT_WEIGHT_NORM)
        *std = o->norm_std;
    else if (o->std >= 0)
        *std = o->std;
    else
        *std = s->kind == MINT_WEIGHT_BIAS ? 0.02 : 1 / sqrt((double)s->shape[1]);
}

struct run {
    const struct mint_init *o;
    void (*progress)(void *ctx, double done, double total);
    void *ctx;
    double done, total;
    float *values; /* CHUNK */
    char *bytes;   /* CHUNK * 4 */
};

static void fill_chunk(const struct run *r, const struct mint_weight_spec *s, uint64_t first,
                       size_t n)
{
    double mean, std;
    size_t size = mint_dtype_bytes(r->o->dtype);
    spread(r->o, s, &mean, &std);
#pragma omp parallel for schedule(static) if (n > STRIPE)
    for (size_t i = 0; i < n; i += STRIPE) {
        size_t k = MINT_MIN(STRIPE, n - i);
        mint_init_values(r->o->seed, s->name, mean, std, first + i, k, r->values + i);
        mint_dtype_from_f32(r->o->dtype, r->values + i, r->bytes + i * size, k);
    }
}

static uint64_t elements(const struct mint_weight_spec *s)
{
    return (uint64_t)s->shape[0] * (s->ndim == 2 ? (uint64_t)s->shape[1] : 1);
}

static int write_tensor(struct run *r, struct mint_st_writer *w, const struct mint_weight_spec *s,
                        struct mint_err *err)
{
    uint64_t total = elements(s);
    for (uint64_t at = 0; at < total; at += CHUNK) {
        size_t n = (size_t)MINT_MIN((uint64_t)CHUNK, total - at);
        fill_chunk(r, s, at, n);
        if (mint_st_write(w, r->bytes, n * mint_dtype_bytes(r->o->dtype), err))
            return -1;
        r->done += (double)n;
        if (r->progress)
            r->progress(r->ctx, r->done, r->total);
    }
    return 0;
}

/* --- files */

/* Tensors first .. end-1 of the map into one file. */
static int write_shard(struct run *r, const char *path, size_t first, size_t end,
                       struct mint_err *err)
{
    struct mint_st_writer *w;
    struct mint_weight_spec s;
    if (mint_st_create(&w, path, err))
        return -1;
    mint_st_metadata(w, "format", "pt");
    for (size_t i = first; i < end; i++) {
        mint_weights_at(&r->o->config, i, &s);
        mint_st_declare(w, s.name, r->o->dtype, s.ndim, s.shape);
    }
    for (size_t i = first; i < end; i++) {
        mint_weights_at(&r->o->config, i, &s);
        if (write_tensor(r, w, &s, err)) {
            mint_st_cancel(w);
            return -1;
        }
    }
    return mint_st_finish(w, err);
}

static int write_text(const char *dir, const char *name, struct mint_buf *b, struct mint_err *err)
{
    char *path = mint_fs_join(dir, name);
    int rc = mint_fs_write_file(path, b->data, b->len, err);
    free(path);
    mint_buf_release(b);
    return rc;
}

/* Whole tensors in order, each shard closed once it holds its share of the elements. */
static int write_shards(struct run *r, const char *dir, struct mint_err *err)
{
    struct mint_buf index = MINT_BUF_INIT;
    struct mint_weight_spec s;
    size_t n = mint_weights_count(&r->o->config), first = 0;
    double held = 0;
    int shard = 1, rc = 0;
    mint_buf_addf(&index, "{\n  \"metadata\": {\"total_size\": %.0f},\n  \"weight_map\": {",
                  r->total * (double)mint_dtype_bytes(r->o->dtype));
    for (size_t i = 0; !rc && i < n; i++) {
        char file[64];
        mint_weights_at(&r->o->config, i, &s);
        held += (double)elements(&s);
        snprintf(file, sizeof file, "model-%05d-of-%05d.safetensors", shard, r->o->shards);
        mint_buf_addf(&index, "%s\n    \"%s\": \"%s\"", i ? "," : "", s.name, file);
        size_t left = n - i - 1, shards_left = (size_t)(r->o->shards - shard);
        bool full = held >= r->total * shard / r->o->shards;
        if (left && (!shards_left || (!full && left > shards_left)))
            continue;
        char *path = mint_fs_join(dir, file);
        rc = write_shard(r, path, first, i + 1, err);
        free(path);
        first = i + 1;
        shard++;
    }
    mint_buf_adds(&index, "\n  }\n}\n");
    if (!rc)
        return write_text(dir, "model.safetensors.index.json", &index, err);
    mint_buf_release(&index);
    return rc;
}

static int write_weights(struct run *r, const char *dir, struct mint_err *err)
{
    struct mint_weight_spec s;
    size_t n = mint_weights_count(&r->o->config);
    for (size_t i = 0; i < n; i++) {
        mint_weights_at(&r->o->config, i, &s);
        r->total += (double)elements(&s);
    }
    r->values = mint_xmalloc(CHUNK * sizeof *r->values);
    r->bytes = mint_xmalloc(CHUNK * 4);
    int rc;
    if (r->o->shards > 1) {
        rc = write_shards(r, dir, err);
    } else {
        char *path = mint_fs_join(dir, "model.safetensors");
        rc = write_shard(r, path, 0, n, err);
        free(path);
    }
    free(r->values);
    free(r->bytes);
    return rc;
}

static void put_rope(const struct mint_model_config *c, struct mint_buf *b)
{
    if (c->rope_scaling.factor > 0) {
        mint_buf_adds(b, "  \"rope_scaling\": {\"factor\": ");
        mint_json_put_double(b, c->rope_scaling.factor);
        mint_buf_adds(b, ", \"high_freq_factor\": ");
        mint_json_put_double(b, c->rope_scaling.high_freq_factor);
        mint_buf_adds(b, ", \"low_freq_factor\": ");
        mint_json_put_double(b, c->rope_scaling.low_freq_factor);
        mint_buf_addf(b,
                      ", \"original_max_position_embeddings\": %d, \"rope_type\": \"llama3\"},\n",
                      c->rope_scaling.original_max_positions);
    } else {
        mint_buf_adds(b, "  \"rope_scaling\": null,\n");
    }
    mint_buf_adds(b, "  \"rope_theta\": ");
    mint_json_put_double(b, c->rope_theta);
}

static void config_json(const struct mint_init *o, struct mint_buf *b)
{
    const struct mint_model_config *c = &o->config;
    const char *cls = !strcmp(c->arch, "qwen3")   ? "Qwen3"
                      : !strcmp(c->arch, "qwen2") ? "Qwen2"
                                                  : "Llama";
    mint_buf_addf(
        b,
        "{\n  \"architectures\": [\"%sForCausalLM\"],\n  \"attention_dropout\": 0.0,\n"
        "  \"bos_token_id\": null,\n  \"eos_token_id\": %d,\n  \"head_dim\": %d,\n"
        "  \"hidden_act\": \"silu\",\n  \"hidden_size\": %d,\n  \"initializer_range\": 0.02,\n"
        "  \"intermediate_size\": %d,\n  \"max_position_embeddings\": %d,\n"
        "  \"model_type\": \"%s\",\n  \"num_attention_heads\": %d,\n"
        "  \"num_hidden_layers\": %d,\n  \"num_key_value_heads\": %d,\n"
        "  \"pad_token_id\": %d,\n  \"rms_norm_eps\": ",
        cls, MINT_INIT_IM_END, c->head_dim, c->hidden, c->ffn, c->max_positions, c->arch, c->heads,
        c->layers, c->kv_heads, MINT_INIT_ENDOFTEXT);
    mint_json_put_float(b, c->norm_eps);
    mint_buf_adds(b, ",\n");
    put_rope(c, b);
    mint_buf_addf(b,
                  ",\n  \"tie_word_embeddings\": %s,\n  \"torch_dtype\": \"%s\",\n"
                  "  \"use_cache\": true,\n  \"vocab_size\": %d\n}\n",
                  c->tied ? "true" : "false", mint_dtype_torch(o->dtype), c->vocab);
}

static void generation_json(struct mint_buf *b)
{
    mint_buf_addf(
        b, "{\n  \"do_sample\": true,\n  \"eos_token_id\": [%d, %d],\n  \"pad_token_id\": %d\n}\n",
        MINT_INIT_IM_END, MINT_INIT_ENDOFTEXT, MINT_INIT_ENDOFTEXT);
}

static int write_texts(const struct mint_init *o, const char *dir, struct mint_err *err)
{
    struct mint_buf b = MINT_BUF_INIT;
    config_json(o, &b);
    if (write_text(dir, "config.json", &b, err))
        return -1;
    generation_json(&b);
    if (write_text(dir, "generation_config.json", &b, err))
        return -1;
    mint_init_tokenizer_json(&b);
    if (write_text(dir, "tokenizer.json", &b, err))
        return -1;
    mint_init_tokenizer_config_json(&b, o->config.max_positions);
    return write_text(dir, "tokenizer_config.json", &b, err);
}

/* The folder as every other tool will see it. Run before the weights: a shape that no reader takes
 * costs nothing. */
static int check_config(const char *dir, struct mint_err *err)
{
    struct mint_model_config c;
    return mint_model_config_read(&c, dir, err);
}

static int check_weights(const char *dir, struct mint_err *err)
{
    struct mint_model_config c;
    struct mint_st *st;
    if (mint_model_config_read(&c, dir, err) || mint_st_open(&st, dir, err))
        return -1;
    int rc = mint_weights_check(st, &c, dir, err);
    mint_st_close(st);
    return rc;
}

/*
 * No value may become an infinity in the dtype that stores it, nor a spread that is asked for
 * vanish. The widest draw is known (the sum of four words is at most 131070 from its mean), so the
 * answer does not depend on the seed or the size of the model.
 */
static int check_value(const struct mint_init *o, const char *option, double mean, double std,
                       struct mint_err *err)
{
    float widest = (float)(std / sqrt(4294967295.0 / 3)) * 131070, back;
    char bytes[4];
    widest += (float)mean;
    mint_dtype_from_f32(o->dtype, &widest, bytes, 1);
    mint_dtype_to_f32(o->dtype, bytes, &back, 1);
    if (!isfinite(back))
        return mint_fail(err, MINT_EUSAGE,
                         "%s %g gives values up to %g, which do not fit %s; use a smaller one%s",
                         option, std, mean + std * sqrt(12), mint_dtype_name(o->dtype),
                         o->dtype == MINT_F16 ? ", or --dtype bf16 or f32" : "");
    if (std > 0 && back == 0)
        return mint_fail(err, MINT_EUSAGE,
                         "%s %g gives nothing but zeros in %s; use a greater one, or 0", option,
                         std, mint_dtype_name(o->dtype));
    return 0;
}

static int check_options(const struct mint_init *o, struct mint_err *err)
{
    const struct mint_model_config *c = &o->config;
    if (c->vocab < MINT_INIT_TOKENS)
        return mint_fail(err, MINT_EUSAGE, "--vocab %d is below the tokenizer's %d tokens",
                         c->vocab, MINT_INIT_TOKENS);
    if (c->heads % c->kv_heads)
        return mint_fail(err, MINT_EUSAGE, "--heads %d is not a multiple of --kv-heads %d",
                         c->heads, c->kv_heads);
    if (c->head_dim % 2)
        return mint_fail(err, MINT_EUSAGE, "--head-dim %d is odd", c->head_dim);
    if ((!(o->std < 0) && check_value(o, "--init-std", 0, o->std, err)) ||
        check_value(o, "--norm-std", 1, o->norm_std, err))
        return -1;
    size_t n = mint_weights_count(c);
    if (o->shards < 1 || (size_t)o->shards > n)
        return mint_fail(err, MINT_EUSAGE, "--shards %d: the model has %zu tensors", o->shards, n);
    return 0;
}

static int fill_dir(struct run *r, const char *dir, struct mint_err *err)
{
    if (write_texts(r->o, dir, err) || check_config(dir, err) || write_weights(r, dir, err))
        return -1;
    return check_weights(dir, err);
}

int mint_init_write(const struct mint_init *opts, const char *dir, bool force,
                    void (*progress)(void *ctx, double done, double total), void *ctx,
                    struct mint_err *err)
{
    struct mint_init o = *opts;
    struct run r = {.o = &o, .progress = progress, .ctx = ctx};
    struct mint_tmpdir tmp;
    if (!o.config.vocab)
        o.config.vocab = (MINT_INIT_TOKENS + 7) / 8 * 8;
    if (check_options(&o, err) || mint_tmpdir_open(&tmp, dir, force, err))
        return -1;
    if (fill_dir(&r, tmp.path, err)) {
        mint_tmpdir_abort(&tmp);
        return -1;
    }
    return mint_tmpdir_commit(&tmp, err);
}

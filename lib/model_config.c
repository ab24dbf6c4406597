/* SPDX-License-Identifier: Apache-2.0 */
#include "model_config.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "fs.h"
#include "json.h"
#include "mem.h"

#define FILE_MAX ((size_t)16 << 20)

/* One JSON file that is being read: messages begin with its path. */
struct reader {
    struct mint_json *j;
    char *path, *text;
    struct mint_err *err;
};

static int bad(const struct reader *r, const char *key, const char *what)
{
    return mint_fail(r->err, MINT_EMODEL, "%s: \"%s\" %s", r->path, key, what);
}

static int open_json(struct reader *r, const char *dir, const char *name, struct mint_err *err)
{
    size_t n;
    *r = (struct reader){.j = mint_json_new(), .path = mint_fs_join(dir, name), .err = err};
    if (mint_fs_read_file(r->path, FILE_MAX, &r->text, &n, err)) {
        r->text = NULL;
        return -1;
    }
    if (mint_json_parse(r->j, r->text, n, err))
        return mint_wrap(err, "%s: ", r->path);
    if (mint_json_type(r->j, 0) != MINT_JSON_OBJECT)
        return mint_fail(err, MINT_EMODEL, "%s: not a JSON object", r->path);
    return 0;
}

static void close_json(struct reader *r)
{
    mint_json_free(r->j);
    free(r->path);
    free(r->text);
}

static bool missing(const struct reader *r, mint_json_val v)
{
    enum mint_json_type t = mint_json_type(r->j, v);
    return t == MINT_JSON_ABSENT || t == MINT_JSON_NULL;
}

/* Absent or null: keeps *out, which is an error if it is negative. */
static int get_int(const struct reader *r, mint_json_val obj, const char *key, int64_t lo,
                   int64_t hi, int32_t *out)
{
    mint_json_val v = mint_json_get(r->j, obj, key);
    int64_t x;
    if (missing(r, v))
        return *out < 0 ? bad(r, key, "is missing") : 0;
    if (!mint_json_int(r->j, v, &x))
        return bad(r, key, "is not an integer");
    if (x < lo || x > hi)
        return mint_fail(r->err, MINT_EMODEL, "%s: \"%s\" is %lld; it must be from %lld to %lld",
                         r->path, key, (long long)x, (long long)lo, (long long)hi);
    *out = (int32_t)x;
    return 0;
}

/* A finite number > 0. Absent or null: keeps *out, which is an error if it is 0. */
static int get_positive(const struct reader *r, mint_json_val obj, const char *key, double *out)
{
    mint_json_val v = mint_json_get(r->j, obj, key);
    double x;
    if (missing(r, v))
        return *out > 0 ? 0 : bad(r, key, "is missing");
    if (!mint_json_double(r->j, v, &x) || !(x > 0))
        return bad(r, key, "is not a number above 0");
    *out = x;
    return 0;
}

static int get_bool(const struct reader *r, const char *key, bool *out)
{
    mint_json_val v = mint_json_get(r->j, 0, key);
    if (missing(r, v) || mint_json_bool(r->j, v, out))
        return 0;
    return bad(r, key, "is neither true nor false");
}

/* *out: malloc'ed text, NULL if absent or null. */
static int get_text(const struct reader *r, mint_json_val obj, const char *key, char **out)
{
    mint_json_val v = mint_json_get(r->j, obj, key);
    *out = NULL;
    if (missing(r, v))
        return 0;
    *out = mint_json_strdup(r->j, v);
    return *out ? 0 : bad(r, key, "is not a string");
}

static int read_arch(const struct reader *r, struct mint_model_config *c)
{
    static const char *const known[] = {"qwen3", "qwen2", "llama"};
    char *type;
    if (get_text(r, 0, "model_type", &type))
        return -1;
    if (!type)
        return bad(r, "model_type", "is missing: not the config.json of a language model");
    for (size_t i = 0; i < MINT_ARRAY_LEN(known); i++)
        if (!strcmp(type, known[i]))
            memcpy(c->arch, known[i], strlen(known[i]) + 1);
    if (!c->arch[0])
        mint_fail(r->err, MINT_EMODEL,
                  "%s: model_type \"%s\" is not supported; supported are qwen3, qwen2 and llama",
                  r->path, type);
    free(type);
    return c->arch[0] ? 0 : -1;
}

/* Limits far above any real model: they keep every product of two sizes inside 64 bits. */
static int read_sizes(const struct reader *r, struct mint_model_config *c)
{
    c->layers = c->hidden = c->ffn = c->heads = c->vocab = c->max_positions = -1;
    if (get_int(r, 0, "num_hidden_layers", 1, 10000, &c->layers) ||
        get_int(r, 0, "hidden_size", 1, 1 << 20, &c->hidden) ||
        get_int(r, 0, "intermediate_size", 1, 1 << 22, &c->ffn) ||
        get_int(r, 0, "num_attention_heads", 1, 1 << 16, &c->heads) ||
        get_int(r, 0, "vocab_size", 1, 1 << 24, &c->vocab) ||
        get_int(r, 0, "max_position_embeddings", 1, 1 << 30, &c->max_positions))
        return -1;
    c->kv_heads = c->heads;
    if (get_int(r, 0, "num_key_value_heads", 1, 1 << 16, &c->kv_heads))
        return -1;
    if (c->heads % c->kv_heads)
        return mint_fail(r->err, MINT_EMODEL,
                         "%s: num_attention_heads %d is not a multiple of num_key_value_heads %d",
                         r->path, c->heads, c->kv_heads);
    c->head_dim = 0;
    if (get_int(r, 0, "head_dim", 2, 1 << 14, &c->head_dim))
        return -1;
    if (!c->head_dim && c->hidden % c->heads)
        return mint_fail(
            r->err, MINT_EMODEL,
            "%s: hidden_size %d is not a multiple of num_attention_heads %d, and there is no "
            "head_dim",
            r->path, c->hidden, c->heads);
    if (!c->head_dim)
        c->head_dim = c->hidden / c->heads;
    if (c->head_dim % 2)
        return bad(r, "head_dim", "is odd: rotary embedding needs pairs");
    return 0;
}

static int read_llama3(const struct reader *r, mint_json_val rope, struct mint_model_config *c)
{
    int32_t original = -1;
    if (get_positive(r, rope, "factor", &c->rope_scaling.factor) ||
        get_positive(r, rope, "low_freq_factor", &c->rope_scaling.low_freq_factor) ||
        get_positive(r, rope, "high_freq_factor", &c->rope_scaling.high_freq_factor) ||
        get_int(r, rope, "original_max_position_embeddings", 1, 1 << 30, &original))
        return -1;
    if (c->rope_scaling.high_freq_factor <= c->rope_scaling.low_freq_factor)
        return bad(r, "high_freq_factor", "is not above low_freq_factor");
    c->rope_scaling.original_max_positions = original;
    return 0;
}

/* rope: the object under key, "rope_parameters" (transformers 5) or "rope_scaling" (before). */
static int read_rope_object(const struct reader *r, mint_json_val rope, const char *key,
                            struct mint_model_config *c)
{
    char *type;
    double part = 1;
    if (mint_json_type(r->j, rope) != MINT_JSON_OBJECT)
        return bad(r, key, "is not an object");
    if (get_positive(r, rope, "rope_theta", &c->rope_theta) ||
        get_positive(r, rope, "partial_rotary_factor", &part))
        return -1;
    if (part < 1)
        return bad(r, "partial_rotary_factor", "below 1 is not supported");
    if (get_text(r, rope, "rope_type", &type) || (!type && get_text(r, rope, "type", &type)))
        return -1;
    int rc = 0;
    if (type && !strcmp(type, "llama3"))
        rc = read_llama3(r, rope, c);
    else if (type && strcmp(type, "default"))
        rc = mint_fail(
            r->err, MINT_EMODEL,
            "%s: \"%s\" of type \"%s\" is not supported; supported are default and llama3", r->path,
            key, type);
    free(type);
    return rc;
}

static int read_rope(const struct reader *r, struct mint_model_config *c)
{
    static const char *const keys[] = {"rope_scaling", "rope_parameters"};
    double part = 1;
    c->rope_theta = 10000;
    if (get_positive(r, 0, "rope_theta", &c->rope_theta) ||
        get_positive(r, 0, "partial_rotary_factor", &part))
        return -1;
    if (part < 1)
        return bad(r, "partial_rotary_factor", "below 1 is not supported");
    for (size_t i = 0; i < MINT_ARRAY_LEN(keys); i++) {
        mint_json_val v = mint_json_get(r->j, 0, keys[i]);
        if (!missing(r, v) && read_rope_object(r, v, keys[i], c))
            return -1;
    }
    return 0;
}

/* Qwen2 and Qwen3 files carry window sizes that are switched off; only one in use matters. */
static int check_window(const struct reader *r, const struct mint_model_config *c)
{
    bool use = false;
    int32_t window = 0, from = c->layers;
    mint_json_val types = mint_json_get(r->j, 0, "layer_types");
    if (mint_json_type(r->j, types) == MINT_JSON_ARRAY) {
        for (mint_json_val v = mint_json_first(r->j, types); v != MINT_JSON_NONE;
             v = mint_json_next(r->j, v)) {
            char *t = mint_json_strdup(r->j, v);
            bool full = t && !strcmp(t, "full_attention");
            free(t);
            if (!full)
                return bad(r, "layer_types",
                           "holds a layer that is not \"full_attention\"; sliding "
                           "windows are not supported");
        }
        return 0;
    }
    if (get_bool(r, "use_sliding_window", &use))
        return -1;
    if (!use)
        return 0;
    if (get_int(r, 0, "sliding_window", 0, INT32_MAX, &window) ||
        get_int(r, 0, "max_window_layers", 0, INT32_MAX, &from))
        return -1;
    if (window > 0 && window < c->max_positions && from < c->layers)
        return bad(r, "use_sliding_window", "is true; sliding windows are not supported");
    return 0;
}

static int check_unsupported(const struct reader *r, const struct mint_model_config *c)
{
    char *act;
    bool mlp_bias = false;
    int32_t tp = 1;
    if (get_text(r, 0, "hidden_act", &act))
        return -1;
    bool silu = !act || !strcmp(act, "silu") || !strcmp(act, "swish");
    free(act);
    if (!silu)
        return bad(r, "hidden_act", "is not \"silu\", the only activation that is supported");
    if (get_bool(r, "mlp_bias", &mlp_bias) || get_int(r, 0, "pretraining_tp", 0, INT32_MAX, &tp))
        return -1;
    if (mlp_bias)
        return bad(r, "mlp_bias", "is true; a bias in the MLP is not supported");
    if (tp > 1)
        return bad(r, "pretraining_tp", "above 1 is not supported");
    if (!missing(r, mint_json_get(r->j, 0, "quantization_config")))
        return bad(r, "quantization_config", "is set; quantised weights are not supported");
    return check_window(r, c);
}

static int read_flags(const struct reader *r, struct mint_model_config *c)
{
    bool bias = false;
    if (get_bool(r, "tie_word_embeddings", &c->tied) || get_bool(r, "attention_bias", &bias))
        return -1;
    bool qwen2 = !strcmp(c->arch, "qwen2");
    c->qk_norm = !strcmp(c->arch, "qwen3");
    c->qkv_bias = qwen2 || bias; /* Qwen2 always has it, and never one on o_proj */
    c->o_bias = !qwen2 && bias;
    double eps = 1e-6;
    if (get_positive(r, 0, "rms_norm_eps", &eps))
        return -1;
    if (eps > 1)
        return bad(r, "rms_norm_eps", "is above 1");
    c->norm_eps = (float)eps;
    return 0;
}

static int read_dtype(const struct reader *r, struct mint_model_config *c)
{
    static const char *const keys[] = {"torch_dtype", "dtype"};
    for (size_t i = 0; i < MINT_ARRAY_LEN(keys); i++) {
        char *t;
        if (get_text(r, 0, keys[i], &t))
            return -1;
        if (!t)
            continue;
        size_t n = strlen(t);
        bool fits = n < sizeof c->torch_dtype;
        if (fits)
            memcpy(c->torch_dtype, t, n + 1);
        free(t);
        if (!fits)
            return bad(r, keys[i], "is not the name of a type");
    }
    return 0;
}

/* --- token ids */

static int add_eos(const struct reader *r, struct mint_model_config *c, int64_t id)
{
    if (id < 0 || id > INT32_MAX)
        return bad(r, "eos_token_id", "holds a number that is no token id");
    for (int i = 0; i < c->eos_n; i++)
        if (c->eos[i] == id)
            return 0;
    if (c->eos_n == MINT_MAX_EOS)
        return bad(r, "eos_token_id", "holds too many ids");
    c->eos[c->eos_n++] = (int32_t)id;
    return 0;
}

/* An id or a list of them; [0] where several are given and one is wanted (bos). */
static int read_eos(const struct reader *r, struct mint_model_config *c)
{
    mint_json_val v = mint_json_get(r->j, 0, "eos_token_id");
    int64_t id;
    if (missing(r, v))
        return 0;
    if (mint_json_int(r->j, v, &id))
        return add_eos(r, c, id);
    size_t n = mint_json_size(r->j, v);
    if (!mint_json_is_numbers(r->j, v) || n > 1000)
        return bad(r, "eos_token_id", "is neither a token id nor a list of them");
    int32_t *ids = mint_xcalloc(n, sizeof *ids);
    int rc = mint_json_ints(r->j, v, ids, n, 0, INT32_MAX, NULL);
    if (rc)
        bad(r, "eos_token_id", "holds a number that is no token id");
    for (size_t i = 0; !rc && i < n; i++)
        rc = add_eos(r, c, ids[i]);
    free(ids);
    return rc;
}

static void read_bos(const struct reader *r, struct mint_model_config *c)
{
    int64_t id;
    mint_json_val v = mint_json_get(r->j, 0, "bos_token_id");
    if (c->bos < 0 && mint_json_int(r->j, v, &id) && id >= 0 && id <= INT32_MAX)
        c->bos = (int32_t)id;
}

/* Optional; its stop ids count beside config.json's: files disagree, and a base model may end with
 * either. */
static int read_generation(struct mint_model_config *c, const char *dir, struct mint_err *err)
{
    char *path = mint_fs_join(dir, "generation_config.json");
    bool here = mint_fs_exists(path);
    free(path);
    if (!here)
        return 0;
    struct reader r;
    int rc = open_json(&r, dir, "generation_config.json", err);
    if (!rc)
        rc = read_eos(&r, c);
    if (!rc)
        read_bos(&r, c);
    close_json(&r);
    return rc;
}

static int read_config(const struct reader *r, struct mint_model_config *c)
{
    if (read_arch(r, c) || read_sizes(r, c) || read_rope(r, c) || read_flags(r, c) ||
        check_unsupported(r, c) || read_dtype(r, c) || read_eos(r, c))
        return -1;
    read_bos(r, c);
    return 0;
}

int mint_model_config_read(struct mint_model_config *c, const char *dir, struct mint_err *err)
{
    memset(c, 0, sizeof *c);
    c->bos = -1;
    if (!mint_fs_is_dir(dir))
        return mint_fail(err, MINT_EMODEL, "%s: no such model folder", dir);
    if (read_generation(c, dir, err))
        return -1;
    struct reader r;
    int rc = open_json(&r, dir, "config.json", err);
    if (!rc)
        rc = read_config(&r, c);
    close_json(&r);
    return rc;
}

/* --- rotary embedding */

/*
 * Llama 3.1's scaling of one frequency: long wavelengths are stretched by factor, short ones kept,
 * those between interpolated. float steps in transformers' order, so that the bits agree.
 */
static float scale_llama3(const struct mint_model_config *c, float inv)
{
    double old = c->rope_scaling.original_max_positions;
    double low = c->rope_scaling.low_freq_factor, high = c->rope_scaling.high_freq_factor;
    float factor = (float)c->rope_scaling.factor;
    float wavelen = 6.2831855f / inv;
    if (wavelen > (float)(old / low))
        return inv / factor;
    if (wavelen < (float)(old / high))
        return inv;
    float smooth = ((float)old / wavelen - (float)low) / (float)(high - low);
    return (1.0f - smooth) * inv / factor + smooth * inv;
}

void mint_model_config_rope(const struct mint_model_config *c, float *inv_freq)
{
    int n = c->head_dim / 2;
    for (int i = 0; i < n; i++) {
        float e = (float)(2 * i) / (float)c->head_dim;
        /* pow in double, rounded once: the float does not hang on the last bit of libm's pow */
        float p = (float)pow((double)(float)c->rope_theta, (double)e);
        inv_freq[i] = 1.0f / p;
        if (c->rope_scaling.factor > 0)
            inv_freq[i] = scale_llama3(c, inv_freq[i]);
    }
}

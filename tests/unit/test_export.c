/* SPDX-License-Identifier: Apache-2.0 */
#include "model_data.h"

#include <math.h>

#include "export.h"

static char cache[4096]; /* models and checkpoints that several tests start from */

static int make_cache(void **state)
{
    const char *tmp = getenv("TMPDIR");
    (void)state;
    snprintf(cache, sizeof cache, "%s/mint-cache-XXXXXX", tmp ? tmp : "/tmp");
    return mkdtemp(cache) ? 0 : -1;
}

static int drop_cache(void **state)
{
    (void)state;
    char *command = mint_xasprintf("rm -rf '%s'", cache);
    int rc = system(command);
    free(command);
    return rc;
}

static void make_tied(const char *path)
{
    data_model(path, "qwen3", true, MINT_BF16, 1);
}
static void make_untied(const char *path)
{
    data_model(path, "llama", false, MINT_F32, 3);
}
static void make_tied_ck(const char *path)
{
    struct mint_trainer_state s = data_state("tied");
    data_checkpoint(path, "tied", DATA_ALL_MODULES, &s);
}
static void make_tied_body(const char *path)
{
    struct mint_trainer_state s = data_state("tied");
    data_checkpoint(path, "tied", DATA_ALL_MODULES & ~MINT_ADAPTER_HEAD, &s);
}
static void make_untied_ck(const char *path)
{
    struct mint_trainer_state s = data_state("untied");
    data_checkpoint(path, "untied", DATA_ALL_MODULES, &s);
}

static void need_tied(void)
{
    data_cached(cache, "tied", make_tied);
    data_cached(cache, "tied-ck", make_tied_ck);
}
static void need_untied(void)
{
    data_cached(cache, "untied", make_untied);
    data_cached(cache, "untied-ck", make_untied_ck);
}

typedef int (*export_fn)(const struct mint_export *o, struct mint_export_result *res,
                         struct mint_err *err);

static struct mint_export_result export_ok(export_fn f, struct mint_export o)
{
    struct mint_export_result r;
    struct mint_err err;
    if (f(&o, &r, &err))
        fail_msg("%s", err.msg);
    return r;
}

/* Refused, and nothing of the target is there. */
static void export_refused(export_fn f, struct mint_export o, const char *why)
{
    struct mint_export_result r;
    struct mint_err err = {0};
    assert_int_equal(f(&o, &r, &err), -1);
    assert_says(&err, why);
    assert_false(mint_fs_exists(o.to));
    assert_int_equal(system("! ls | grep -q tmp-"), 0);
}

#define EXPORT(m, ck) ((struct mint_export){.model = m, .adapter = ck, .to = "out", .dtype = -1})

static float *values(const struct mint_st *st, const char *name, size_t *n)
{
    const struct mint_st_tensor *t = mint_st_find(st, name);
    if (!t)
        fail_msg("no tensor %s", name);
    *n = t->bytes / mint_dtype_bytes(t->dtype);
    float *v = mint_xcalloc(*n, sizeof *v);
    assert_int_equal(mint_st_to_f32(t, v, NULL), 0);
    return v;
}

/* --- peft */

static void test_peft(void **state)
{
    (void)state;
    need_untied();
    struct mint_export_result r = export_ok(mint_export_peft, EXPORT("untied", "untied-ck"));
    assert_int_equal(r.modules, 15);
    assert_int_equal(r.tensors, 30);
    assert_false(r.tied_head);
    assert_false(mint_fs_exists("out/optimizer.safetensors"));
    assert_false(mint_fs_exists("out/trainer_state.json"));
    struct mint_checkpoint c, source;
    assert_int_equal(mint_checkpoint_open(&c, "out", NULL), 0);
    assert_int_equal(mint_checkpoint_open(&source, "untied-ck", NULL), 0);
    assert_string_equal(c.fingerprint,
                        source.fingerprint); /* the same names, types, shapes and bytes */
    assert_string_equal(c.fingerprint, r.digest);
    assert_string_equal(c.config.base_model, "untied");
    mint_checkpoint_close(&source);
    /* the names that loaders look for */
    const struct mint_st_tensor *t =
        mint_st_find(c.adapter, "base_model.model.model.layers.0.self_attn.q_proj.lora_A.weight");
    assert_non_null(t);
    assert_int_equal(t->shape[0], 2);
    assert_int_equal(t->shape[1], 16);
    mint_checkpoint_close(&c);
}

static void test_peft_type_and_name(void **state)
{
    (void)state;
    need_tied();
    struct mint_export o = EXPORT("tied", "tied-ck");
    o.dtype = MINT_BF16;
    o.base_name = "Qwen/Qwen3-0.6B";
    assert_true(export_ok(mint_export_peft, o).tied_head);
    struct mint_checkpoint c;
    assert_int_equal(mint_checkpoint_open(&c, "out", NULL), 0);
    assert_string_equal(c.config.base_model, "Qwen/Qwen3-0.6B");
    assert_int_equal(mint_st_at(c.adapter, 0)->dtype, MINT_BF16);
    mint_checkpoint_close(&c);
}

static void test_head_lora_for_an_engine_that_has_none(void **state)
{
    (void)state;
    need_tied();
    struct mint_export o = EXPORT("tied", "tied-ck");
    o.target = "vllm";
    export_refused(
        mint_export_peft, o,
        "tied-ck has LoRA on lm_head, which vllm does not load; merge it (--format hf), or train "
        "without it (mint-train --no-train-unembed)");
    data_cached(cache, "tied-body", make_tied_body);
    o.adapter = "tied-body";
    assert_int_equal(export_ok(mint_export_peft, o).modules, 14);
}

/* --- hf */

/* out's tensor is what the formula gives, in long double, rounded once. */
static void assert_merged(const char *model, const char *ck, const char *from, const char *name,
                          bool exact)
{
    struct mint_st *base, *out;
    struct mint_checkpoint c;
    const struct mint_st_tensor *a, *b;
    size_t n, na, nb, k;
    assert_int_equal(mint_st_open(&base, model, NULL), 0);
    assert_int_equal(mint_st_open(&out, "out", NULL), 0);
    assert_int_equal(mint_checkpoint_open(&c, ck, NULL), 0);
    char *module = mint_xstrndup(name, strlen(name) - strlen(".weight"));
    assert_true(mint_checkpoint_pair(&c, module, &a, &b));
    free(module);
    float *w = values(base, from, &n), *got = values(out, name, &k);
    float *va = values(c.adapter, a->name, &na), *vb = values(c.adapter, b->name, &nb);
    assert_int_equal(n, k);
    int64_t cols = a->shape[1], rank = a->shape[0];
    for (size_t i = 0; i < n; i++) {
        long double sum = 0;
        for (int64_t r = 0; r < rank; r++)
            sum += (long double)vb[(int64_t)i / cols * rank + r] *
                   (long double)va[r * cols + (int64_t)i % cols];
        float want = (float)((long double)w[i] + 2 * sum);
        if (!exact) {
            uint16_t h;
            mint_dtype_from_f32(MINT_BF16, &want, &h, 1);
            mint_dtype_to_f32(MINT_BF16, &h, &want, 1);
        }
        assert_true(got[i] == want);
    }
    free(w);
    free(got);
    free(va);
    free(vb);
    mint_checkpoint_close(&c);
    mint_st_close(base);
    mint_st_close(out);
}

static void assert_same_tensor(const char *model, const char *name)
{
    struct mint_st *base, *out;
    assert_int_equal(mint_st_open(&base, model, NULL), 0);
    assert_int_equal(mint_st_open(&out, "out", NULL), 0);
    const struct mint_st_tensor *x = mint_st_find(base, name), *y = mint_st_find(out, name);
    assert_true(x && y && x->dtype == y->dtype && x->bytes == y->bytes);
    assert_memory_equal(x->data, y->data, x->bytes);
    mint_st_close(base);
    mint_st_close(out);
}

static void test_merge(void **state)
{
    (void)state;
    need_untied();
    data_text("untied/special_tokens_map.json", "{ \"eos_token\":\"x\"}\n\n");
    data_text("untied/vocab.json", "{}");
    data_text("untied/pytorch_model.bin", "old weights");
    data_text("untied/.hidden", "x");
    assert_int_equal(mkdir("untied/original", 0777), 0);
    struct mint_export_result r = export_ok(mint_export_hf, EXPORT("untied", "untied-ck"));
    assert_int_equal(r.modules, 15);
    assert_false(r.tied_head);
    assert_true(r.delta > 0 && r.lost < 1e-6 * r.delta);
    assert_merged("untied", "untied-ck", "model.layers.0.self_attn.q_proj.weight",
                  "model.layers.0.self_attn.q_proj.weight", true);
    assert_merged("untied", "untied-ck", "model.layers.1.mlp.down_proj.weight",
                  "model.layers.1.mlp.down_proj.weight", true);
    assert_merged("untied", "untied-ck", "lm_head.weight", "lm_head.weight", true);
    assert_same_tensor("untied", "model.embed_tokens.weight");
    assert_same_tensor("untied", "model.layers.1.input_layernorm.weight");
    /* all else is the base's, byte for byte */
    static const char *const files[] = {
        "config.json",           "generation_config.json",  "tokenizer.json",
        "tokenizer_config.json", "special_tokens_map.json", "vocab.json"};
    for (size_t i = 0; i < MINT_ARRAY_LEN(files); i++) {
        char *a = mint_fs_join("untied", files[i]), *b = mint_fs_join("out", files[i]);
        data_same(a, b);
        free(a);
        free(b);
    }
    assert_false(mint_fs_exists("out/pytorch_model.bin"));
    assert_false(mint_fs_exists("out/.hidden"));
    assert_false(mint_fs_exists("out/original"));
    /* sharded as before */
    struct mint_st *st;
    assert_int_equal(mint_st_open(&st, "out", NULL), 0);
    assert_int_equal(mint_st_files(st), 3);
    char digest[72];
    mint_st_fingerprint(st, digest, NULL);
    assert_string_equal(digest, r.digest);
    mint_st_close(st);
}

/* The delta of a head LoRA goes to a head of its own, never into the embedding. */
static void test_tied_head_is_untied(void **state)
{
    (void)state;
    need_tied();
    struct mint_export_result r = export_ok(mint_export_hf, EXPORT("tied", "tied-ck"));
    assert_true(r.tied_head);
    assert_same_tensor("tied", "model.embed_tokens.weight");
    assert_merged("tied", "tied-ck", "model.embed_tokens.weight", "lm_head.weight", false);
    assert_merged("tied", "tied-ck", "model.layers.0.mlp.gate_proj.weight",
                  "model.layers.0.mlp.gate_proj.weight", false);
    data_edit("tied/config.json", "\"tie_word_embeddings\": true",
              "\"tie_word_embeddings\": false");
    data_same("tied/config.json", "out/config.json"); /* nothing else changed */
}

/* E = [[1,0],[0,1]], A = [[0,2]], B = [[1],[0]], scale 1: lm_head [[1,2],[0,1]], E unchanged. */
static void test_tied_head_by_hand(void **state)
{
    (void)state;
    static const float e[4] = {1, 0, 0, 1}, a[2] = {0, 2}, b[2] = {1, 0}, want[4] = {1, 2, 0, 1};
    struct mint_err err;
    assert_int_equal(mkdir("m", 0777), 0);
    data_text("m/config.json",
              "{\"model_type\":\"llama\",\"num_hidden_layers\":1,\"hidden_size\":2,\"intermediate_"
              "size\":1,"
              "\"num_attention_heads\":1,\"vocab_size\":2,\"max_position_embeddings\":8,"
              "\"tie_word_embeddings\":true}");
    struct mint_model_config c;
    assert_int_equal(mint_model_config_read(&c, "m", NULL), 0);
    struct mint_st_writer *w;
    assert_int_equal(mint_st_create(&w, "m/model.safetensors", NULL), 0);
    struct mint_weight_spec s;
    for (size_t i = 0; i < mint_weights_count(&c); i++) {
        mint_weights_at(&c, i, &s);
        mint_st_declare(w, s.name, MINT_F32, s.ndim, s.shape);
    }
    for (size_t i = 0; i < mint_weights_count(&c); i++) {
        mint_weights_at(&c, i, &s);
        assert_int_equal(
            mint_st_write(w, e, (size_t)s.shape[0] * (s.ndim == 2 ? (size_t)s.shape[1] : 1) * 4,
                          NULL),
            0);
    }
    assert_int_equal(mint_st_finish(w, NULL), 0);
    struct mint_adapter_config config = {.rank = 1, .alpha = 1, .unembed = true};
    struct mint_checkpoint_tensor t[] = {
        {"base_model.model.lm_head.lora_A.weight", 1, 2, a, NULL, NULL},
        {"base_model.model.lm_head.lora_B.weight", 2, 1, b, NULL, NULL}};
    assert_int_equal(mint_checkpoint_write("ck", false, &config, NULL, t, 2, NULL, NULL, &err), 0);
    export_ok(mint_export_hf, EXPORT("m", "ck"));
    struct mint_st *st;
    assert_int_equal(mint_st_open(&st, "out", NULL), 0);
    assert_memory_equal(mint_st_find(st, "lm_head.weight")->data, want, sizeof want);
    assert_memory_equal(mint_st_find(st, "model.embed_tokens.weight")->data, e, sizeof e);
    mint_st_close(st);
    assert_int_equal(mint_model_config_read(&c, "out", NULL), 0);
    assert_false(c.tied);
}

static void test_tied_without_head_lora_stays_tied(void **state)
{
    (void)state;
    need_tied();
    data_cached(cache, "tied-body", make_tied_body);
    assert_false(export_ok(mint_export_hf, EXPORT("tied", "tied-body")).tied_head);
    data_same("tied/config.json", "out/config.json");
    struct mint_st *st;
    assert_int_equal(mint_st_open(&st, "out", NULL), 0);
    assert_null(mint_st_find(st, "lm_head.weight"));
    mint_st_close(st);
}

/* A copy of the tied head in the file is not what counts, and does not stay behind. */
static void test_stored_copy_of_a_tied_head(void **state)
{
    (void)state;
    data_model("m", "llama", false, MINT_BF16, 2);
    data_edit("m/config.json", "\"tie_word_embeddings\": false", "\"tie_word_embeddings\": true");
    data_checkpoint("ck", "m", MINT_ADAPTER_HEAD, NULL);
    assert_true(export_ok(mint_export_hf, EXPORT("m", "ck")).tied_head);
    assert_merged("m", "ck", "model.embed_tokens.weight", "lm_head.weight", false);
}

static void test_dtypes(void **state)
{
    (void)state;
    need_tied();
    struct mint_export o = EXPORT("tied", "tied-ck");
    struct mint_model_config c;
    o.dtype = MINT_F32;
    struct mint_export_result r = export_ok(mint_export_hf, o);
    assert_true(r.lost < 1e-6 * r.delta);
    assert_merged("tied", "tied-ck", "model.layers.0.mlp.up_proj.weight",
                  "model.layers.0.mlp.up_proj.weight", true);
    assert_int_equal(mint_model_config_read(&c, "out", NULL), 0);
    assert_string_equal(c.torch_dtype, "float32");
    o.dtype = MINT_F16;
    o.to = "out16";
    r = export_ok(mint_export_hf, o);
    assert_true(r.lost > 1e-6 * r.delta && r.lost < 1e-2 * r.delta);
    struct mint_st *st;
    assert_int_equal(mint_st_open(&st, "out16", NULL), 0);
    for (size_t i = 0; i < mint_st_count(st); i++)
        assert_int_equal(mint_st_at(st, i)->dtype, MINT_F16);
    mint_st_close(st);
}

static void make_huge(const char *path)
{
    struct mint_err err;
    static float a[2 * 16], b[16 * 2];
    struct mint_adapter_config c = {.rank = 2, .alpha = 2, .modules = MINT_ADAPTER_Q};
    a[0] = 300;
    b[0] = 300;
    struct mint_checkpoint_tensor t[] = {
        {"base_model.model.model.layers.0.self_attn.q_proj.lora_A.weight", 2, 16, a, NULL, NULL},
        {"base_model.model.model.layers.0.self_attn.q_proj.lora_B.weight", 16, 2, b, NULL, NULL}};
    assert_int_equal(mint_checkpoint_write(path, true, &c, NULL, t, 2, NULL, NULL, &err), 0);
}

static void test_f16_overflow(void **state)
{
    (void)state;
    need_tied();
    make_huge("ck");
    struct mint_export o = EXPORT("tied", "ck");
    o.dtype = MINT_F16;
    export_refused(mint_export_hf, o, "does not fit into F16; use another --dtype");
    o.dtype = -1;
    export_ok(mint_export_hf, o);
}

/* An update smaller than the grid of the stored type is partly lost in the merge: the export can
 * say how much. */
static void test_loss_by_rounding_is_measured(void **state)
{
    (void)state;
    need_tied();
    size_t n;
    char *p = data_read("tied-ck/adapter_config.json", &n);
    free(p);
    data_edit("tied-ck/adapter_config.json", "\"lora_alpha\": 4", "\"lora_alpha\": 0.004");
    struct mint_export_result r = export_ok(mint_export_hf, EXPORT("tied", "tied-ck"));
    assert_true(r.lost > 0.05 * r.delta);
    struct mint_export o = EXPORT("tied", "tied-ck");
    o.dtype = MINT_F32;
    o.to = "out32";
    r = export_ok(mint_export_hf, o);
    assert_true(r.lost < 1e-3 * r.delta);
}

/* --- refusals */

static void both_refused(struct mint_export o, const char *why)
{
    export_refused(mint_export_peft, o, why);
    export_refused(mint_export_hf, o, why);
}

static void test_wrong_base(void **state)
{
    (void)state;
    need_tied();
    data_model("other", "qwen3", true, MINT_F32, 1); /* the same shapes, other bytes */
    char want[72], have[72];
    struct mint_trainer_state s = data_state("tied"), t = data_state("other");
    memcpy(want, s.base, sizeof want);
    memcpy(have, t.base, sizeof have);
    both_refused(EXPORT("other", "tied-ck"), "was trained on another base model");
    both_refused(EXPORT("other", "tied-ck"), want);
    both_refused(EXPORT("other", "tied-ck"), have);
    unlink("tied-ck/trainer_state.json"); /* a bare adapter names no base */
    export_ok(mint_export_hf, EXPORT("other", "tied-ck"));
}

static void test_wrong_shapes(void **state)
{
    (void)state;
    need_tied();
    need_untied();
    struct mint_init o = {.dtype = MINT_BF16, .std = -1, .shards = 1};
    assert_int_equal(mint_init_preset("tiny", &o.config, NULL), 0);
    assert_int_equal(mint_init_write(&o, "wide", false, NULL, NULL, NULL), 0);
    both_refused(EXPORT("wide", "tied-ck"), "is [2,16], but the base model needs [2,64]");
    o.config.layers = 1;
    o.config.hidden = 16;
    o.config.ffn = 24;
    o.config.heads = 2;
    o.config.kv_heads = 1;
    o.config.head_dim = 8;
    assert_int_equal(mint_init_write(&o, "short", false, NULL, NULL, NULL), 0);
    both_refused(EXPORT("short", "tied-ck"),
                 "holds 30 tensors, of which 16 fit the base model of 1 layers");
    both_refused(EXPORT("nowhere", "tied-ck"), "nowhere: no such model folder");
    both_refused(EXPORT("tied", "nowhere"), "nowhere: no such checkpoint folder");
}

static void test_not_finite(void **state)
{
    (void)state;
    need_tied();
    make_huge("ck");
    size_t n;
    char *p = data_read("ck/adapter_model.safetensors", &n);
    float nan = NAN;
    memcpy(p + n - 4, &nan, 4);
    data_write("ck/adapter_model.safetensors", p, n);
    free(p);
    both_refused(EXPORT("tied", "ck"), "holds a value that is not finite");
}

static void test_target_is_kept(void **state)
{
    (void)state;
    need_tied();
    assert_int_equal(mkdir("out", 0777), 0);
    data_text("out/precious", "x");
    struct mint_export_result r;
    struct mint_err err;
    struct mint_export o = EXPORT("tied", "tied-ck");
    assert_int_equal(mint_export_hf(&o, &r, &err), -1);
    assert_int_equal(mint_export_peft(&o, &r, &err), -1);
    assert_true(mint_fs_exists("out/precious"));
    o.force = true;
    assert_int_equal(mint_export_hf(&o, &r, &err), -1);
    assert_says(&err, "out is no model or adapter folder");
    assert_int_equal(mint_export_peft(&o, &r, &err), -1);
    assert_true(mint_fs_exists("out/precious"));
    data_text("out/config.json", "{}");
    assert_int_equal(mint_export_hf(&o, &r, &err), 0);
    assert_false(mint_fs_exists("out/precious"));
    assert_true(mint_fs_exists("out/config.json"));
}

static void test_target_is_a_source(void **state)
{
    (void)state;
    need_tied();
    struct mint_export_result r;
    struct mint_err err;
    struct mint_export o = EXPORT("tied", "tied-ck");
    o.force = true;
    o.to = "./tied/";
    assert_int_equal(mint_export_hf(&o, &r, &err), -1);
    assert_says(&err, "--to ./tied/ is the base model itself");
    assert_int_equal(err.code, MINT_EUSAGE);
    assert_int_equal(symlink("tied-ck", "link"), 0);
    o.to = "link";
    assert_int_equal(mint_export_peft(&o, &r, &err), -1);
    assert_says(&err, "is the adapter itself");
    assert_true(mint_fs_exists("tied-ck/trainer_state.json"));
    assert_int_equal(mkdir("up", 0777), 0);
    data_text("up/config.json", "{}");
    assert_int_equal(rename("tied", "up/tied"), 0);
    o = EXPORT("up/tied", "tied-ck");
    o.force = true;
    o.to = "up";
    assert_int_equal(mint_export_hf(&o, &r, &err), -1);
    assert_says(&err, "--to up holds the base model up/tied");
    assert_int_equal(rename("up/tied", "tied"), 0);
    assert_int_equal(rename("tied-ck", "up/ck"), 0);
    o.model = "tied";
    o.adapter = "up/ck";
    assert_int_equal(mint_export_peft(&o, &r, &err), -1);
    assert_says(&err, "--to up holds the adapter up/ck");
}

static void test_broken_base(void **state)
{
    (void)state;
    need_untied();
    unlink("untied/model-00002-of-00003.safetensors");
    both_refused(EXPORT("untied", "untied-ck"), "model-00002-of-00003.safetensors");
}

/* --- against the oracle */

static void test_oracle(void **state)
{
    (void)state;
    static const char *const names[] = {"qwen3", "llama"};
    for (size_t i = 0; i < MINT_ARRAY_LEN(names); i++) {
        char *model = mint_xasprintf("%s/tests/oracle/fixtures/%s", data_root, names[i]);
        char *adapter = mint_fs_join(model, "adapter"),
             *merged = mint_fs_join(model, "merged.safetensors");
        struct mint_export o = EXPORT(model, adapter);
        struct mint_st *want, *got;
        o.to = names[i];
        export_ok(mint_export_hf, o);
        assert_int_equal(mint_st_open(&want, merged, NULL), 0);
        assert_int_equal(mint_st_open(&got, names[i], NULL), 0);
        assert_int_equal(mint_st_count(want), 3);
        for (size_t k = 0; k < mint_st_count(want); k++) {
            size_t n, m;
            float *x = values(want, mint_st_at(want, k)->name, &n),
                  *y = values(got, mint_st_at(want, k)->name, &m);
            assert_int_equal(n, m);
            for (size_t e = 0; e < n; e++)
                assert_true(fabsf(x[e] - y[e]) <= 1e-6f * fabsf(x[e]) + 1e-9f);
            free(x);
            free(y);
        }
        mint_st_close(want);
        mint_st_close(got);
        free(model);
        free(adapter);
        free(merged);
    }
}

/* --- config.json */

static void edited(const char *json, const char *key, const char *value, const char *want)
{
    struct mint_buf b = MINT_BUF_INIT;
    assert_int_equal(mint_export_edit_json(json, strlen(json), key, value, &b, NULL), 0);
    assert_string_equal(b.data, want);
    mint_buf_release(&b);
}

static void test_edit_json(void **state)
{
    (void)state;
    edited("{ \"a\" : true , \"b\":1}\n", "a", "false", "{ \"a\" : false , \"b\":1}\n");
    edited("{\"x\":{\"a\":1},\"a\":[1,2]}", "a", "\"s\"", "{\"x\":{\"a\":1},\"a\":\"s\"}");
    edited("\n {\n \"b\": 1 }", "a", "2", "\n {\n  \"a\": 2,\n \"b\": 1 }");
    edited("{}", "a", "2", "{\n  \"a\": 2\n}");
    struct mint_buf b = MINT_BUF_INIT;
    assert_int_equal(mint_export_edit_json("[1]", 3, "a", "1", &b, NULL), -1);
    assert_int_equal(mint_export_edit_json("{", 1, "a", "1", &b, NULL), -1);
    mint_buf_release(&b);
}

int main(void)
{
#define CASE(f) cmocka_unit_test_setup_teardown(f, data_enter, data_leave)
    const struct CMUnitTest tests[] = {
        CASE(test_peft),
        CASE(test_peft_type_and_name),
        CASE(test_head_lora_for_an_engine_that_has_none),
        CASE(test_merge),
        CASE(test_tied_head_is_untied),
        CASE(test_tied_head_by_hand),
        CASE(test_tied_without_head_lora_stays_tied),
        CASE(test_stored_copy_of_a_tied_head),
        CASE(test_dtypes),
        CASE(test_f16_overflow),
        CASE(test_loss_by_rounding_is_measured),
        CASE(test_wrong_base),
        CASE(test_wrong_shapes),
        CASE(test_not_finite),
        CASE(test_target_is_kept),
        CASE(test_target_is_a_source),
        CASE(test_broken_base),
        CASE(test_oracle),
        CASE(test_edit_json),
    };
    return cmocka_run_group_tests(tests, make_cache, drop_cache);
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "model_data.h"

#include <math.h>

#include "model_config.h"

/* A Llama 3.2 1B's inv_freq, as transformers 5.24 with torch 2.15 computes it (float32 bits). */
static const uint32_t llama32_rope[32] = {
    0x3f800000, 0x3f29e1c6, 0x3ee177bc, 0x3e959ee3, 0x3e4693b0, 0x3e03c6a0, 0x3daee4ad, 0x3d681e67,
    0x3d1a08c8, 0x3ccc6f49, 0x3c87a9c3, 0x3c340d6d, 0x3beef74f, 0x3b9e9402, 0x3b527720, 0x3aa9279b,
    0x39e13620, 0x38cb98f7, 0x37a3418d, 0x3758ac81, 0x370fc8f8, 0x36bed4f4, 0x367d45c3, 0x3628126b,
    0x35df10c4, 0x359406cb, 0x35447610, 0x35025f34, 0x34ad07a7, 0x3465a54d, 0x341864a7, 0x33ca41b0};

#define QWEN3                                                                                      \
    "{\"architectures\":[\"Qwen3ForCausalLM\"],\"model_type\":\"qwen3\",\"attention_bias\":false," \
    "\"bos_token_id\":151643,\"eos_token_id\":151645,\"head_dim\":128,\"hidden_act\":\"silu\","    \
    "\"hidden_size\":1024,\"intermediate_size\":3072,\"max_position_embeddings\":40960,"           \
    "\"max_window_layers\":28,\"num_attention_heads\":16,\"num_hidden_layers\":28,"                \
    "\"num_key_value_heads\":8,\"rms_norm_eps\":1e-06,\"rope_scaling\":null,\"rope_theta\":"       \
    "1000000,"                                                                                     \
    "\"sliding_window\":null,\"tie_word_embeddings\":true,\"torch_dtype\":\"bfloat16\",\"use_"     \
    "cache\":true,"                                                                                \
    "\"use_sliding_window\":false,\"vocab_size\":151936}"
#define QWEN25                                                                                  \
    "{\"model_type\":\"qwen2\",\"bos_token_id\":151643,\"eos_token_id\":151645,\"hidden_act\":" \
    "\"silu\","                                                                                 \
    "\"hidden_size\":896,\"intermediate_size\":4864,\"max_position_embeddings\":32768,"         \
    "\"max_window_layers\":21,\"num_attention_heads\":14,\"num_hidden_layers\":24,"             \
    "\"num_key_value_heads\":2,\"rms_norm_eps\":1e-06,\"rope_theta\":1000000.0,\"sliding_"      \
    "window\":4096,"                                                                            \
    "\"tie_word_embeddings\":true,\"torch_dtype\":\"bfloat16\",\"use_sliding_window\":false,"   \
    "\"vocab_size\":151936}"
#define LLAMA32                                                                                    \
    "{\"model_type\":\"llama\",\"attention_bias\":false,\"bos_token_id\":128000,"                  \
    "\"eos_token_id\":[128001,128008,128009],\"head_dim\":64,\"hidden_act\":\"silu\",\"hidden_"    \
    "size\":2048,"                                                                                 \
    "\"intermediate_size\":8192,\"max_position_embeddings\":131072,\"mlp_bias\":false,"            \
    "\"num_attention_heads\":32,\"num_hidden_layers\":16,\"num_key_value_heads\":8,\"pretraining_" \
    "tp\":1,"                                                                                      \
    "\"rms_norm_eps\":1e-05,\"rope_scaling\":{\"factor\":32.0,\"high_freq_factor\":4.0,"           \
    "\"low_freq_factor\":1.0,\"original_max_position_embeddings\":8192,\"rope_type\":\"llama3\"}," \
    "\"rope_theta\":500000.0,\"tie_word_embeddings\":true,\"torch_dtype\":\"bfloat16\",\"vocab_"   \
    "size\":128256}"
/* as transformers 5 writes it */
#define SMOLLM2                                                                               \
    "{\"model_type\":\"llama\",\"bos_token_id\":1,\"dtype\":\"bfloat16\",\"eos_token_id\":2," \
    "\"head_dim\":64,\"hidden_act\":\"silu\",\"hidden_size\":576,\"intermediate_size\":1536," \
    "\"max_position_embeddings\":8192,\"mlp_bias\":false,\"num_attention_heads\":9,"          \
    "\"num_hidden_layers\":30,\"num_key_value_heads\":3,\"rms_norm_eps\":1e-05,"              \
    "\"rope_parameters\":{\"rope_theta\":100000,\"rope_type\":\"default\"},\"tie_word_"       \
    "embeddings\":true,"                                                                      \
    "\"vocab_size\":49152}"

static struct mint_model_config read_ok(void)
{
    struct mint_model_config c;
    struct mint_err err;
    if (mint_model_config_read(&c, ".", &err))
        fail_msg("%s", err.msg);
    return c;
}

static void refused(const char *why)
{
    struct mint_model_config c;
    struct mint_err err;
    assert_int_equal(mint_model_config_read(&c, ".", &err), -1);
    assert_says(&err, why);
    assert_says(&err, "./");
}

/* json with `from` replaced by `to` is refused. */
static void edit_refused(const char *json, const char *from, const char *to, const char *why)
{
    data_text("config.json", json);
    data_edit("config.json", from, to);
    refused(why);
}

static struct mint_model_config edit_ok(const char *json, const char *from, const char *to)
{
    data_text("config.json", json);
    data_edit("config.json", from, to);
    return read_ok();
}

static void test_qwen3(void **state)
{
    (void)state;
    data_text("config.json", QWEN3);
    struct mint_model_config c = read_ok();
    assert_string_equal(c.arch, "qwen3");
    assert_int_equal(c.layers, 28);
    assert_int_equal(c.hidden, 1024);
    assert_int_equal(c.ffn, 3072);
    assert_int_equal(c.heads, 16);
    assert_int_equal(c.kv_heads, 8);
    assert_int_equal(c.head_dim, 128);
    assert_int_equal(c.vocab, 151936);
    assert_int_equal(c.max_positions, 40960);
    assert_true(c.norm_eps == 1e-6f && c.rope_theta == 1e6);
    assert_true(c.qk_norm && c.tied && !c.qkv_bias && !c.o_bias);
    assert_true(c.rope_scaling.factor == 0);
    assert_int_equal(c.eos_n, 1);
    assert_int_equal(c.eos[0], 151645);
    assert_int_equal(c.bos, 151643);
    assert_string_equal(c.torch_dtype, "bfloat16");
    c = edit_ok(QWEN3, "\"attention_bias\":false", "\"attention_bias\":true");
    assert_true(c.qkv_bias && c.o_bias);
}

static void test_qwen25(void **state)
{
    (void)state;
    data_text("config.json", QWEN25);
    struct mint_model_config c = read_ok();
    assert_int_equal(c.head_dim, 64); /* hidden / heads */
    assert_true(c.qkv_bias && !c.o_bias && !c.qk_norm);
    c = edit_ok(QWEN25, "\"tie_word_embeddings\":true,", "");
    assert_false(c.tied);
}

static void test_llama(void **state)
{
    (void)state;
    data_text("config.json", LLAMA32);
    struct mint_model_config c = read_ok();
    assert_true(!c.qkv_bias && !c.o_bias && !c.qk_norm && c.norm_eps == 1e-5f);
    assert_int_equal(c.eos_n, 3);
    assert_int_equal(c.eos[2], 128009);
    assert_true(c.rope_scaling.factor == 32 && c.rope_scaling.original_max_positions == 8192);
    float f[32];
    mint_model_config_rope(&c, f);
    assert_memory_equal(f, llama32_rope, sizeof f);
    c = edit_ok(LLAMA32, "\"attention_bias\":false", "\"attention_bias\":true");
    assert_true(c.qkv_bias && c.o_bias);
    c = edit_ok(LLAMA32, "\"num_key_value_heads\":8,", "");
    assert_int_equal(c.kv_heads, 32);
    c = edit_ok(LLAMA32, "\"num_key_value_heads\":8,", "\"num_key_value_heads\":null,");
    assert_int_equal(c.kv_heads, 32);
}

static void test_transformers_5_form(void **state)
{
    (void)state;
    data_text("config.json", SMOLLM2);
    struct mint_model_config c = read_ok();
    assert_true(c.rope_theta == 1e5);
    assert_string_equal(c.torch_dtype, "bfloat16");
    c = edit_ok(
        SMOLLM2, "\"rope_type\":\"default\"}",
        "\"rope_type\":\"llama3\",\"factor\":8,\"low_freq_factor\":1,\"high_freq_factor\":4,"
        "\"original_max_position_embeddings\":2048}");
    assert_true(c.rope_scaling.factor == 8 && c.rope_theta == 1e5);
    c = edit_ok(SMOLLM2, "\"rope_theta\":100000,", "");
    assert_true(c.rope_theta == 1e4);
    float f[32];
    mint_model_config_rope(&c, f);
    assert_true(f[0] == 1 && fabsf(f[16] - 0.01f) < 1e-8f);
}

/* config.json, generation_config.json and tokenizer_config.json disagree on what ends a text:
 * either id stops. */
static void test_stop_ids_are_a_union(void **state)
{
    (void)state;
    data_text("config.json", QWEN3);
    data_edit("config.json", "151645", "151643");
    data_text("generation_config.json", "{\"eos_token_id\":[151645,151643]}");
    struct mint_model_config c = read_ok();
    assert_int_equal(c.eos_n, 2);
    assert_int_equal(c.eos[0], 151645);
    assert_int_equal(c.eos[1], 151643);
    data_text("generation_config.json", "{\"eos_token_id\":7,\"bos_token_id\":9}");
    c = read_ok();
    assert_int_equal(c.eos_n, 2);
    assert_int_equal(c.bos, 9);
    data_text("generation_config.json", "{\"eos_token_id\":null}");
    c = read_ok();
    assert_int_equal(c.eos_n, 1);
    data_text("generation_config.json", "{\"eos_token_id\":[]}");
    c = read_ok();
    assert_int_equal(c.eos_n, 1);
    data_text("generation_config.json", "{\"eos_token_id\":[1,\"2\"]}");
    refused("eos_token_id");
    data_text("generation_config.json", "{\"eos_token_id\":-1}");
    refused("eos_token_id");
    data_text("generation_config.json",
              "{\"eos_token_id\":[1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17]}");
    refused("too many");
    data_text("generation_config.json", "{\"eos");
    refused("generation_config.json: ");
}

static void test_windows(void **state)
{
    (void)state;
    edit_refused(QWEN25, "\"use_sliding_window\":false", "\"use_sliding_window\":true", "sliding");
    data_text("config.json", QWEN25);
    data_edit("config.json", "\"use_sliding_window\":false", "\"use_sliding_window\":true");
    data_edit("config.json", "\"max_window_layers\":21", "\"max_window_layers\":24");
    read_ok(); /* switched on, but no layer uses it */
    data_edit("config.json", "{", "{\"layer_types\":[\"full_attention\",\"sliding_attention\"],");
    refused("layer_types");
    data_edit("config.json", "sliding_attention", "full_attention");
    read_ok();
}

static void test_unsupported(void **state)
{
    (void)state;
    edit_refused(QWEN3, "\"model_type\":\"qwen3\"", "\"model_type\":\"qwen3_moe\"",
                 "model_type \"qwen3_moe\" is not supported; supported are qwen3, qwen2 and llama");
    edit_refused(QWEN3, "\"model_type\":\"qwen3\",", "", "model_type");
    edit_refused(QWEN3, "\"silu\"", "\"gelu\"", "hidden_act");
    edit_refused(LLAMA32, "\"mlp_bias\":false", "\"mlp_bias\":true", "mlp_bias");
    edit_refused(LLAMA32, "\"pretraining_tp\":1", "\"pretraining_tp\":2", "pretraining_tp");
    edit_refused(LLAMA32, "\"llama3\"", "\"yarn\"", "of type \"yarn\" is not supported");
    edit_refused(QWEN3, "\"rope_scaling\":null",
                 "\"rope_scaling\":{\"type\":\"linear\",\"factor\":2.0}", "of type \"linear\"");
    edit_refused(QWEN3, "\"rope_scaling\":null", "\"rope_scaling\":5", "rope_scaling");
    edit_refused(SMOLLM2, "\"rope_type\":\"default\"", "\"rope_type\":\"longrope\"",
                 "rope_parameters");
    edit_refused(SMOLLM2, "\"rope_type\":\"default\"",
                 "\"rope_type\":\"default\",\"partial_rotary_factor\":0.5",
                 "partial_rotary_factor");
    edit_refused(QWEN3, "{", "{\"quantization_config\":{\"quant_method\":\"fp8\"},",
                 "quantization_config");
    edit_refused(LLAMA32, "\"factor\":32.0,", "", "\"factor\" is missing");
    edit_refused(LLAMA32, "\"high_freq_factor\":4.0", "\"high_freq_factor\":1.0",
                 "high_freq_factor");
}

static void test_ranges(void **state)
{
    (void)state;
    edit_refused(QWEN3, "\"hidden_size\":1024,", "", "\"hidden_size\" is missing");
    edit_refused(QWEN3, "\"hidden_size\":1024", "\"hidden_size\":\"1024\"", "not an integer");
    edit_refused(QWEN3, "\"hidden_size\":1024", "\"hidden_size\":1024.5", "not an integer");
    edit_refused(QWEN3, "\"hidden_size\":1024", "\"hidden_size\":0", "hidden_size");
    edit_refused(QWEN3, "\"num_hidden_layers\":28", "\"num_hidden_layers\":-1",
                 "num_hidden_layers");
    edit_refused(QWEN3, "\"num_hidden_layers\":28", "\"num_hidden_layers\":1000000000",
                 "from 1 to 10000");
    edit_refused(QWEN3, "\"vocab_size\":151936", "\"vocab_size\":99999999999", "vocab_size");
    edit_refused(QWEN3, "\"num_attention_heads\":16", "\"num_attention_heads\":0",
                 "num_attention_heads");
    edit_refused(QWEN3, "\"num_attention_heads\":16", "\"num_attention_heads\":17",
                 "not a multiple");
    edit_refused(QWEN3, "\"num_key_value_heads\":8", "\"num_key_value_heads\":0",
                 "num_key_value_heads");
    edit_refused(QWEN3, "\"head_dim\":128", "\"head_dim\":7", "odd");
    edit_refused(QWEN25, "\"hidden_size\":896", "\"hidden_size\":897", "no head_dim");
    edit_refused(QWEN3, "\"rope_theta\":1000000", "\"rope_theta\":0", "rope_theta");
    edit_refused(QWEN3, "\"rope_theta\":1000000", "\"rope_theta\":1e999", "rope_theta");
    edit_refused(QWEN3, "\"rms_norm_eps\":1e-06", "\"rms_norm_eps\":-1", "rms_norm_eps");
    edit_refused(QWEN3, "\"tie_word_embeddings\":true", "\"tie_word_embeddings\":1",
                 "tie_word_embeddings");
    edit_refused(QWEN3, "\"torch_dtype\":\"bfloat16\"",
                 "\"torch_dtype\":\"a very long name of a type\"", "torch_dtype");
}

static void test_files(void **state)
{
    (void)state;
    refused("config.json");
    data_text("config.json", "[]");
    refused("not a JSON object");
    data_text("config.json", "{\"model_type\":\"qwen3\",\"model_type\":\"llama\"}");
    refused("config.json: ");
    struct mint_model_config c;
    struct mint_err err;
    assert_int_equal(mint_model_config_read(&c, "nowhere", &err), -1);
    assert_says(&err, "nowhere: no such model folder");
}

/* The fixtures were written by transformers 4 and 5; their tensors are what the config asks for. */
static void test_fixtures(void **state)
{
    (void)state;
    static const char *const names[] = {"qwen3", "qwen2", "llama", "smollm2"};
    for (size_t i = 0; i < MINT_ARRAY_LEN(names); i++) {
        struct mint_model_config c;
        struct mint_err err;
        struct mint_st *st = NULL;
        char *dir = mint_xasprintf("%s/tests/oracle/fixtures/%s", data_root, names[i]);
        if (mint_model_config_read(&c, dir, &err) || mint_st_open(&st, dir, &err) ||
            mint_weights_check(st, &c, dir, &err))
            fail_msg("%s", err.msg);
        mint_st_close(st);
        free(dir);
    }
}

/* --- the tensors against the config */

static void weights_refused(const char *config_from, const char *config_to, const char *why)
{
    struct mint_model_config c;
    struct mint_err err;
    struct mint_st *st;
    data_model("m", "qwen3", true, MINT_BF16, 1);
    data_edit("m/config.json", config_from, config_to);
    assert_int_equal(mint_model_config_read(&c, "m", &err), 0);
    assert_int_equal(mint_st_open(&st, "m", &err), 0);
    assert_int_equal(mint_weights_check(st, &c, "m", &err), -1);
    assert_says(&err, why);
    assert_int_equal(err.code, MINT_EMODEL);
    mint_st_close(st);
}

static void test_weights(void **state)
{
    (void)state;
    weights_refused(
        "\"hidden_size\": 16", "\"hidden_size\": 32",
        "m: tensor \"model.embed_tokens.weight\" is [264,16], but config.json asks for [264,32]");
    weights_refused("\"num_hidden_layers\": 2", "\"num_hidden_layers\": 3",
                    "tensor \"model.layers.2.input_layernorm.weight\" [16] is missing");
    weights_refused("\"num_hidden_layers\": 2", "\"num_hidden_layers\": 1",
                    "tensor \"model.layers.1.input_layernorm.weight\" has no place");
    weights_refused("\"tie_word_embeddings\": true", "\"tie_word_embeddings\": false",
                    "tensor \"lm_head.weight\" [264,16] is missing");
    weights_refused(
        "\"model_type\": \"qwen3\"", "\"model_type\": \"llama\"",
        "tensor \"model.layers.0.self_attn.k_norm.weight\" has no place in a llama model");
    weights_refused("\"model_type\": \"qwen3\"", "\"model_type\": \"qwen2\"",
                    "tensor \"model.layers.0.self_attn.q_proj.bias\" [16] is missing");
    weights_refused(
        "\"num_key_value_heads\": 1", "\"num_key_value_heads\": 2",
        "\"model.layers.0.self_attn.k_proj.weight\" is [8,16], but config.json asks for [16,16]");
}

static void test_weights_of_other_types(void **state)
{
    (void)state;
    struct mint_model_config c = {
        .layers = 0, .hidden = 1, .vocab = 1, .tied = true, .arch = "llama"};
    struct mint_err err;
    struct mint_st *st;
    data_tensors(
        "model.safetensors",
        "{\"model.embed_tokens.weight\":{\"dtype\":\"U8\",\"shape\":[1,1],\"data_offsets\":[0,1]},"
        "\"model.norm.weight\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[1,5]}}",
        -1, "abcde", 5);
    assert_int_equal(mint_st_open(&st, ".", &err), 0);
    assert_int_equal(mint_weights_check(st, &c, ".", &err), -1);
    assert_says(&err, "\"model.embed_tokens.weight\" is of type U8");
    mint_st_close(st);
}

int main(void)
{
#define CASE(f) cmocka_unit_test_setup_teardown(f, data_enter, data_leave)
    const struct CMUnitTest tests[] = {
        CASE(test_qwen3),       CASE(test_qwen25),
        CASE(test_llama),       CASE(test_transformers_5_form),
        CASE(test_windows),     CASE(test_stop_ids_are_a_union),
        CASE(test_unsupported), CASE(test_ranges),
        CASE(test_files),       CASE(test_fixtures),
        CASE(test_weights),     CASE(test_weights_of_other_types),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

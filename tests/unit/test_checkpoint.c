/* SPDX-License-Identifier: Apache-2.0 */
#include "model_data.h"

#include "json.h"

static struct mint_checkpoint open_ok(const char *dir)
{
    struct mint_checkpoint c;
    struct mint_err err;
    if (mint_checkpoint_open(&c, dir, &err))
        fail_msg("%s", err.msg);
    return c;
}

static void refused(const char *dir, const char *why)
{
    struct mint_checkpoint c;
    struct mint_err err = {0};
    assert_int_equal(mint_checkpoint_open(&c, dir, &err), -1);
    assert_says(&err, why);
    assert_says(&err, dir);
    assert_null(c.adapter); /* nothing is left open */
    assert_null(c.optimizer);
}

static struct mint_trainer_state full_state(const char *model)
{
    struct mint_trainer_state s = data_state(model);
    snprintf(s.parent, sizeof s.parent, "sha256:%064d", 1);
    snprintf(s.datums, sizeof s.datums, "sha256:%064d", 2);
    snprintf(s.options, sizeof s.options, "sha256:%064d", 3);
    static char options[] = "{\"lr\": 2e-5,\"loss\":\"ppo\"}";
    s.options_json = options;
    return s;
}

static char cache[4096]; /* folders that several tests start from */

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

static void make_model(const char *path)
{
    data_model(path, "qwen3", true, MINT_BF16, 1);
}

static void make_checkpoint(const char *path)
{
    struct mint_trainer_state s = full_state("m");
    data_checkpoint(path, "m", DATA_ALL_MODULES, &s);
}

/* m: a model, ck: a checkpoint of it with everything. */
static void make(void)
{
    data_cached(cache, "m", make_model);
    data_cached(cache, "ck", make_checkpoint);
}

static void test_round_trip(void **state)
{
    (void)state;
    make();
    struct mint_trainer_state want = full_state("m");
    struct mint_checkpoint c = open_ok("ck");
    assert_int_equal(c.config.rank, 2);
    assert_true(c.config.alpha == 4);
    assert_true(c.config.attn && c.config.mlp && c.config.unembed);
    assert_int_equal(c.config.modules, 255);
    assert_string_equal(c.config.base_model, "m");
    assert_true(c.has_state);
    assert_int_equal(c.state.step, 3);
    assert_int_equal(c.state.tokens, 1234);
    assert_string_equal(c.state.base, want.base);
    assert_string_equal(c.state.parent, want.parent);
    assert_string_equal(c.state.datums, want.datums);
    assert_string_equal(c.state.options, want.options);
    assert_string_equal(c.state.options_json, want.options_json); /* byte for byte */
    assert_int_equal(mint_st_count(c.adapter), 2 * (2 * 7 + 1));
    assert_int_equal(mint_st_count(c.optimizer), 2 * mint_st_count(c.adapter));
    const struct mint_st_tensor *a, *b;
    assert_true(mint_checkpoint_pair(&c, "model.layers.1.mlp.down_proj", &a, &b));
    assert_int_equal(a->shape[0], 2);
    assert_int_equal(a->shape[1], 24);
    assert_int_equal(b->shape[0], 16);
    assert_int_equal(b->shape[1], 2);
    assert_true(mint_checkpoint_pair(&c, "lm_head", &a, &b));
    assert_int_equal(b->shape[0], 264);
    assert_false(mint_checkpoint_pair(&c, "model.layers.2.mlp.down_proj", &a, &b));
    float m, v;
    const char *name = "m.base_model.model.lm_head.lora_A.weight";
    memcpy(&m, mint_st_find(c.optimizer, name)->data, 4);
    name = "v.base_model.model.lm_head.lora_A.weight";
    memcpy(&v, mint_st_find(c.optimizer, name)->data, 4);
    assert_true(m == 1 && v == 2);
    mint_checkpoint_close(&c);
    mint_checkpoint_close(&c); /* closed is empty */
}

static void test_same_arguments_same_bytes(void **state)
{
    (void)state;
    static const char *const files[] = {"adapter_config.json", "adapter_model.safetensors",
                                        "optimizer.safetensors", "trainer_state.json"};
    make();
    struct mint_trainer_state s = full_state("m");
    data_checkpoint("again", "m", DATA_ALL_MODULES, &s);
    for (size_t i = 0; i < MINT_ARRAY_LEN(files); i++) {
        char *a = mint_fs_join("ck", files[i]), *b = mint_fs_join("again", files[i]);
        data_same(a, b);
        free(a);
        free(b);
    }
}

static void test_whole_or_absent(void **state)
{
    (void)state;
    make();
    struct mint_err err;
    struct mint_adapter_config c = {.rank = 1, .alpha = 1, .attn = true};
    float zero = 0;
    struct mint_checkpoint_tensor t = {
        "base_model.model.model.layers.0.self_attn.q_proj.lora_A.weight", 1, 1, &zero, NULL, NULL};
    assert_int_equal(mint_checkpoint_write("ck", false, &c, NULL, &t, 1, NULL, NULL, &err), -1);
    assert_says(&err, "ck");
    struct mint_checkpoint old = open_ok("ck"); /* untouched */
    assert_int_equal(old.config.rank, 2);
    mint_checkpoint_close(&old);
    assert_int_equal(
        mint_checkpoint_write("no/such/place", false, &c, NULL, &t, 1, NULL, NULL, &err), -1);
    assert_false(mint_fs_exists("no"));
}

static void test_bare_adapter(void **state)
{
    (void)state;
    data_model("m", "llama", false, MINT_BF16, 1);
    data_checkpoint("ck", "m", MINT_ADAPTER_Q | MINT_ADAPTER_V, NULL);
    unlink("ck/optimizer.safetensors");
    struct mint_checkpoint c = open_ok("ck");
    assert_false(c.has_state);
    assert_null(c.optimizer);
    assert_int_equal(c.state.step, 0);
    assert_string_equal(c.state.base, "");
    assert_true(c.config.attn && !c.config.mlp && !c.config.unembed);
    assert_int_equal(c.config.modules, MINT_ADAPTER_Q | MINT_ADAPTER_V);
    assert_int_equal(mint_st_count(c.adapter), 8);
    mint_checkpoint_close(&c);
}

static void test_peft_made_the_fixtures(void **state)
{
    (void)state;
    char *dir = mint_xasprintf("%s/tests/oracle/fixtures/qwen2/adapter", data_root);
    struct mint_checkpoint c = open_ok(dir);
    assert_int_equal(c.config.rank, 4);
    assert_int_equal(c.config.modules, 255);
    mint_checkpoint_close(&c);
    free(dir);
}

/* --- adapter_config.json */

static void config_refused(const char *from, const char *to, const char *why)
{
    make();
    data_edit("ck/adapter_config.json", from, to);
    refused("ck", why);
}

static void test_features_that_are_not_computed(void **state)
{
    (void)state;
    config_refused("\"use_dora\": false", "\"use_dora\": true", "\"use_dora\" is in use");
    config_refused("\"use_rslora\": false", "\"use_rslora\": true", "use_rslora");
    config_refused("\"bias\": \"none\"", "\"bias\": \"all\"", "bias");
    config_refused("\"modules_to_save\": null", "\"modules_to_save\": [\"lm_head\"]",
                   "modules_to_save");
    config_refused("\"rank_pattern\": {}", "\"rank_pattern\": {\"q_proj\": 4}", "rank_pattern");
    config_refused("\"alpha_pattern\": {}", "\"alpha_pattern\": {\"q_proj\": 4}", "alpha_pattern");
    config_refused("\"fan_in_fan_out\": false", "\"fan_in_fan_out\": true", "fan_in_fan_out");
    config_refused("\"layers_to_transform\": null", "\"layers_to_transform\": [0]",
                   "layers_to_transform");
    config_refused("\"init_lora_weights\": true", "\"init_lora_weights\": \"pissa_niter_4\"",
                   "init_lora_weights");
    config_refused("\"peft_type\": \"LORA\"", "\"peft_type\": \"IA3\"", "peft_type");
}

static void test_bad_config(void **state)
{
    (void)state;
    config_refused("\"q_proj\"", "\"embed_tokens\"",
                   "target module \"embed_tokens\" is not supported");
    config_refused("\"q_proj\"", "7", "target_modules");
    config_refused("\"r\": 2", "\"r\": 0", "rank");
    config_refused("\"r\": 2", "\"r\": \"2\"", "rank");
    config_refused("\"r\": 2", "\"r\": 3", "adapter_config.json says r = 3");
    config_refused("\"lora_alpha\": 4", "\"lora_alpha\": null", "lora_alpha");
    config_refused("\"lora_alpha\": 4", "\"lora_alpha\": 4,,", "adapter_config.json: ");
    make();
    unlink("ck/adapter_config.json");
    refused("ck", "adapter_config.json");
    refused("nowhere", "nowhere: no such checkpoint folder");
}

/* --- tensors */

static void rename_tensor(const char *from, const char *to)
{
    make();
    size_t n;
    char *p = data_read("ck/adapter_model.safetensors", &n);
    size_t len = strlen(from), i = 0;
    assert_int_equal(len, strlen(to));
    while (i + len < n && memcmp(p + i, from, len))
        i++;
    assert_true(i + len < n);
    memcpy(p + i, to, len);
    data_write("ck/adapter_model.safetensors", p, n);
    free(p);
}

static void test_tensor_names(void **state)
{
    (void)state;
    rename_tensor("base_model.model.lm_head", "mase_model.model.lm_head");
    refused("ck", "has no partner");
    rename_tensor("base_model.model.lm_head.lora_A", "base_model.model.lm_head.lora_C");
    refused("ck", "has no partner");
    rename_tensor("model.layers.1.mlp.up_proj.lora_B", "model.layers.2.mlp.up_proj.lora_B");
    refused("ck", "has no partner");
}

/* An adapter of one pair of tensors, named MODULE.lora_A.weight and MODULE.lora_B.weight. */
static void module_refused(const char *module, const char *why)
{
    struct mint_err err;
    struct mint_adapter_config c = {.rank = 1, .alpha = 1, .modules = MINT_ADAPTER_Q};
    float v[2] = {1, 2};
    char *a = mint_xasprintf("%s.lora_A.weight", module),
         *b = mint_xasprintf("%s.lora_B.weight", module);
    struct mint_checkpoint_tensor t[] = {{a, 1, 2, v, NULL, NULL}, {b, 2, 1, v, NULL, NULL}};
    assert_int_equal(mint_checkpoint_write("ck", true, &c, NULL, t, 2, NULL, NULL, &err), 0);
    free(a);
    free(b);
    refused("ck", why);
}

static void test_module_names(void **state)
{
    (void)state;
    /* names without PEFT's prefix are not guessed at */
    module_refused("model.layers.0.self_attn.q_proj",
                   "is not named like a LoRA tensor (base_model.model.MODULE.lora_A.weight");
    module_refused("base_model.model.", "is not named like a LoRA tensor");
    module_refused("base_model.model.model.layers.x.self_attn.q_proj", "belongs to no module");
    module_refused("base_model.model.model.layers..self_attn.q_proj", "belongs to no module");
    module_refused("base_model.model.model.layers.0.self_attn.q", "belongs to no module");
    module_refused("base_model.model.model.layers.0.mlp.up_proj", "belongs to no module");
    module_refused("base_model.model.model.layers.0.lm_head", "belongs to no module");
    module_refused("base_model.model.self_attn.q_proj", "belongs to no module");
}

static void test_targets_and_tensors_agree(void **state)
{
    (void)state;
    config_refused("\"lm_head\"", "\"up_proj\"",
                   "belongs to no module that adapter_config.json names");
    data_checkpoint("ck", "m", MINT_ADAPTER_Q | MINT_ADAPTER_O, NULL);
    data_edit("ck/adapter_config.json", "\"q_proj\",", "\"q_proj\", \"k_proj\",");
    refused("ck", "names k_proj in target_modules, but there is no tensor");
}

/* --- optimizer, state */

static void test_optimizer_must_match(void **state)
{
    (void)state;
    make();
    data_checkpoint("other", "m", MINT_ADAPTER_Q, NULL);
    assert_int_equal(rename("other/optimizer.safetensors", "ck/optimizer.safetensors"), 0);
    refused("ck", "need two each");
    make();
    data_model("m2", "llama", false, MINT_BF16, 1);
    data_checkpoint("other", "m", 254, NULL);
    data_checkpoint("ck", "m", 253, NULL);
    assert_int_equal(rename("other/optimizer.safetensors", "ck/optimizer.safetensors"), 0);
    refused("ck", "is missing");
}

static void state_refused(const char *from, const char *to, const char *why)
{
    make();
    data_edit("ck/trainer_state.json", from, to);
    refused("ck", why);
}

static void test_bad_state(void **state)
{
    (void)state;
    state_refused("\"format\": 1", "\"format\": 2", "another version");
    state_refused("\"step\": 3", "\"step\": -3", "\"step\"");
    state_refused("\"step\": 3,", "", "\"step\"");
    state_refused("\"base\": \"sha256:", "\"base\": \"sha1:", "\"base\"");
    state_refused("\"tokens\": 1234", "\"tokens\": \"1234\"", "\"tokens\"");
    state_refused("{", "", "trainer_state.json: ");
}

/* The adapter is the one that trainer_state.json vouches for. */
static void test_changed_adapter_is_seen(void **state)
{
    (void)state;
    make();
    size_t n;
    char *p = data_read("ck/adapter_model.safetensors", &n);
    p[n - 1] ^= 1;
    data_write("ck/adapter_model.safetensors", p, n);
    free(p);
    refused("ck", "is not the one that was written with this checkpoint");
    unlink("ck/trainer_state.json"); /* a bare adapter may be anything */
    struct mint_checkpoint c = open_ok("ck");
    mint_checkpoint_close(&c);
}

static void test_state_is_json(void **state)
{
    (void)state;
    make();
    size_t n;
    struct mint_json *j = mint_json_new();
    char *p = data_read("ck/trainer_state.json", &n);
    assert_int_equal(mint_json_parse(j, p, n, NULL), 0);
    double loss;
    assert_true(
        mint_json_double(j, mint_json_get(j, mint_json_get(j, 0, "metrics"), "loss:sum"), &loss));
    assert_true(loss == -1.5);
    free(p);
    mint_json_free(j);
}

int main(void)
{
#define CASE(f) cmocka_unit_test_setup_teardown(f, data_enter, data_leave)
    const struct CMUnitTest tests[] = {
        CASE(test_round_trip),
        CASE(test_same_arguments_same_bytes),
        CASE(test_whole_or_absent),
        CASE(test_bare_adapter),
        CASE(test_peft_made_the_fixtures),
        CASE(test_features_that_are_not_computed),
        CASE(test_bad_config),
        CASE(test_tensor_names),
        CASE(test_module_names),
        CASE(test_targets_and_tensors_agree),
        CASE(test_optimizer_must_match),
        CASE(test_bad_state),
        CASE(test_changed_adapter_is_seen),
        CASE(test_state_is_json),
    };
    return cmocka_run_group_tests(tests, make_cache, drop_cache);
}

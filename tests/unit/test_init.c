/* SPDX-License-Identifier: Apache-2.0 */
#include "model_data.h"

#include <math.h>

#include "hash.h"
#include "json.h"
#include "rng.h"

/* The lanes of init.c are Philox: element 2k and 2k+1 come from block k of mint_philox. */
static void test_values_are_philox(void **state)
{
    (void)state;
    const uint64_t seed = UINT64_C(0x123456789abcdef0), first = UINT64_C(0x1fffffff0);
    float v[64];
    mint_init_values(seed, "name", 0, sqrt(4294967295.0 / 3), first, 64, v); /* unit 1 */
    uint64_t stream = mint_rng_stream("name", 4);
    uint32_t key[2] = {(uint32_t)seed, (uint32_t)(seed >> 32)};
    for (int i = 0; i < 64; i++) {
        uint64_t block = (first + (uint64_t)i) / 2;
        uint32_t c[4] = {(uint32_t)block, (uint32_t)(block >> 32), (uint32_t)stream,
                         (uint32_t)(stream >> 32)};
        uint32_t r[4];
        mint_philox(key, c, r);
        const uint32_t *w = r + 2 * (i & 1);
        int32_t want =
            (int32_t)((w[0] & 0xffff) + (w[0] >> 16) + (w[1] & 0xffff) + (w[1] >> 16)) - 131070;
        assert_true(v[i] == (float)want);
    }
}

/* The bytes are a promise: any machine, any version. */
static void test_values_are_frozen(void **state)
{
    (void)state;
    static float v[10000];
    char got[72];
    struct mint_sha256 s;
    mint_init_values(1, "model.embed_tokens.weight", 0, 0.02, 0, MINT_ARRAY_LEN(v), v);
    mint_sha256_init(&s);
    mint_sha256_add(&s, v, sizeof v);
    mint_sha256_end_text(&s, got);
    assert_string_equal(got,
                        "sha256:5fbb7744e5453c664d2c1aef379edc5eaccfd4040dacd8240b38e845259ce0d0");
}

static void test_any_cut_gives_the_same(void **state)
{
    (void)state;
    float whole[1000], part[1000];
    mint_init_values(5, "t", 1, 0.5, 0, 1000, whole);
    for (size_t from = 0; from < 300; from += 7) {
        size_t n = 1 + from * 2;
        mint_init_values(5, "t", 1, 0.5, from, n, part);
        assert_memory_equal(part, whole + from, n * sizeof *part);
    }
    mint_init_values(5, "t", 1, 0.5, 3, 0, part);
}

static void test_moments(void **state)
{
    (void)state;
    size_t n = 200000;
    float *v = mint_xcalloc(n, sizeof *v), *w = mint_xcalloc(n, sizeof *w);
    double sum = 0, sq = 0, cross = 0, most = 0;
    mint_init_values(1, "a", 0.25, 2, 0, n, v);
    mint_init_values(1, "b", 0.25, 2, 0, n, w);
    for (size_t i = 0; i < n; i++) {
        double x = (double)v[i] - 0.25, y = (double)w[i] - 0.25;
        sum += x;
        sq += x * x;
        cross += x * y;
        most = MINT_MAX(most, fabs(x));
    }
    assert_true(fabs(sum / (double)n) < 0.02);    /* 4 standard errors */
    assert_true(fabs(sq / (double)n - 4) < 0.05); /* the same */
    assert_true(fabs(cross / (double)n) < 0.04);  /* tensors are independent */
    assert_true(most > 5 && most < 2 * 3.4642);   /* tails, cut where four uniforms end */
    free(v);
    free(w);
}

static double spread_of(const struct mint_st *st, const char *name, double mean)
{
    const struct mint_st_tensor *t = mint_st_find(st, name);
    assert_non_null(t);
    size_t n = t->bytes / mint_dtype_bytes(t->dtype);
    float *v = mint_xcalloc(n, sizeof *v);
    double sq = 0;
    assert_int_equal(mint_st_to_f32(t, v, NULL), 0);
    for (size_t i = 0; i < n; i++)
        sq += ((double)v[i] - mean) * ((double)v[i] - mean);
    free(v);
    return sqrt(sq / (double)n);
}

static void make(struct mint_init o, const char *preset, const char *arch, const char *dir)
{
    struct mint_err err;
    int vocab = o.config.vocab, tied = o.config.tied;
    assert_int_equal(mint_init_preset(preset, &o.config, &err), 0);
    if (arch)
        mint_init_arch(&o.config, arch);
    o.config.vocab = vocab;
    o.config.tied = tied;
    if (mint_init_write(&o, dir, false, NULL, NULL, &err))
        fail_msg("%s", err.msg);
}

static void test_scales(void **state)
{
    (void)state;
    struct mint_st *st;
    make((struct mint_init){.dtype = MINT_F32, .std = -1, .shards = 1}, "tiny", "qwen2", "a");
    assert_int_equal(mint_st_open(&st, "a", NULL), 0);
    assert_true(fabs(spread_of(st, "model.layers.0.mlp.up_proj.weight", 0) - 0.125) < 0.01);
    assert_true(fabs(spread_of(st, "model.layers.0.mlp.down_proj.weight", 0) - sqrt(1. / 128)) <
                0.01);
    assert_true(fabs(spread_of(st, "model.embed_tokens.weight", 0) - 0.125) < 0.01);
    assert_true(fabs(spread_of(st, "model.layers.1.self_attn.q_proj.bias", 0) - 0.02) < 0.01);
    assert_true(spread_of(st, "model.norm.weight", 1) == 0);
    mint_st_close(st);
    make((struct mint_init){.dtype = MINT_BF16, .std = 0.5, .norm_std = 0.25, .shards = 1}, "tiny",
         NULL, "b");
    assert_int_equal(mint_st_open(&st, "b", NULL), 0);
    assert_true(fabs(spread_of(st, "model.layers.0.mlp.up_proj.weight", 0) - 0.5) < 0.03);
    assert_true(fabs(spread_of(st, "model.norm.weight", 1) - 0.25) < 0.1);
    mint_st_close(st);
}

static void test_every_shape_reads_back(void **state)
{
    (void)state;
    static const char *const archs[] = {"qwen3", "qwen2", "llama"};
    for (int i = 0; i < 12; i++) {
        char dir[16];
        struct mint_model_config c;
        struct mint_st *st;
        struct mint_init o = {.dtype = (enum mint_dtype)(i % 3), .std = -1, .shards = 1 + i % 5};
        o.config.tied = i & 1;
        o.config.vocab = i & 2 ? 300 : 0;
        snprintf(dir, sizeof dir, "m%d", i);
        make(o, "tiny", archs[i / 4], dir);
        assert_int_equal(mint_model_config_read(&c, dir, NULL), 0);
        assert_int_equal(mint_st_open(&st, dir, NULL), 0);
        assert_int_equal(mint_weights_check(st, &c, dir, NULL), 0);
        assert_string_equal(c.arch, archs[i / 4]);
        assert_int_equal(c.tied, i & 1);
        assert_int_equal(c.vocab, i & 2 ? 300 : 264);
        assert_string_equal(c.torch_dtype, mint_dtype_torch(o.dtype));
        assert_int_equal(c.eos_n, 2);
        assert_int_equal(mint_st_files(st), o.shards);
        mint_st_close(st);
    }
}

/* Every preset is a shape that reads back: its config goes through the reader, with one layer and a
 * small vocabulary. */
static void test_presets(void **state)
{
    (void)state;
    for (size_t i = 0; mint_init_presets[i]; i++) {
        struct mint_err err;
        struct mint_model_config want, c;
        struct mint_init o = {.dtype = MINT_BF16, .std = -1, .shards = 1};
        assert_int_equal(mint_init_preset(mint_init_presets[i], &want, &err), 0);
        if (want.hidden > 1024)
            continue; /* the same code; too large for a unit test */
        o.config = want;
        o.config.layers = 1;
        o.config.vocab = 264;
        assert_int_equal(mint_init_write(&o, mint_init_presets[i], false, NULL, NULL, &err), 0);
        assert_int_equal(mint_model_config_read(&c, mint_init_presets[i], &err), 0);
        assert_true(c.rope_theta == want.rope_theta && c.norm_eps == want.norm_eps);
        assert_true(c.qk_norm == want.qk_norm && c.qkv_bias == want.qkv_bias &&
                    c.tied == want.tied);
        assert_true(c.rope_scaling.factor == want.rope_scaling.factor);
    }
    struct mint_model_config c;
    assert_int_equal(mint_init_preset("gpt-5", &c, NULL), -1);
}

/* Parameters as the models' cards say them (in millions). */
static void test_preset_sizes(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        double millions;
    } known[] = {{"qwen3-0.6b", 596.05},  {"qwen3-8b", 8190.7},    {"qwen2.5-0.5b", 494.03},
                 {"smollm2-135m", 134.5}, {"llama3.2-1b", 1235.8}, {"llama3.1-8b", 8030.3}};
    for (size_t i = 0; i < MINT_ARRAY_LEN(known); i++) {
        struct mint_model_config c;
        struct mint_weight_spec s;
        double total = 0;
        assert_int_equal(mint_init_preset(known[i].name, &c, NULL), 0);
        for (size_t k = 0; k < mint_weights_count(&c); k++) {
            mint_weights_at(&c, k, &s);
            total += (double)s.shape[0] * (s.ndim == 2 ? (double)s.shape[1] : 1);
        }
        if (fabs(total / 1e6 - known[i].millions) > 0.06)
            fail_msg("%s has %.2f million parameters", known[i].name, total / 1e6);
    }
}

static void test_tokenizer(void **state)
{
    (void)state;
    struct mint_buf b = MINT_BUF_INIT;
    struct mint_json *j = mint_json_new();
    mint_init_tokenizer_json(&b);
    assert_int_equal(mint_json_parse(j, b.data, b.len, NULL), 0);
    mint_json_val vocab = mint_json_get(j, mint_json_get(j, 0, "model"), "vocab");
    assert_int_equal(mint_json_size(j, vocab),
                     256); /* no two bytes share a spelling, or the parse fails */
    int64_t id;
    assert_true(mint_json_int(j, mint_json_get(j, vocab, "A"), &id));
    assert_int_equal(id, 'A');
    assert_true(
        mint_json_int(j, mint_json_get(j, vocab, "\xc4\xa0"), &id)); /* U+0120 spells the blank */
    assert_int_equal(id, ' ');
    assert_true(mint_json_int(j, mint_json_get(j, vocab, "\xc5\x83"),
                              &id)); /* U+0143, the last one: 0xad */
    assert_int_equal(id, 0xad);
    mint_buf_reset(&b);
    mint_init_tokenizer_config_json(&b, 512);
    assert_int_equal(mint_json_parse(j, b.data, b.len, NULL), 0);
    mint_json_free(j);
    mint_buf_release(&b);
}

static void test_values_that_do_not_fit(void **state)
{
    (void)state;
    static const struct {
        enum mint_dtype dtype;
        double std, norm_std;
        const char *says; /* NULL: fits */
    } cases[] = {
        {MINT_F16, 1e6, 0, "--init-std 1e+06 gives values up to 3.4641e+06, which do not fit F16"},
        {MINT_F16, 18920, 0, "--init-std 18920 gives"},
        {MINT_F16, -1, 18920, "--norm-std 18920 gives"},
        {MINT_F16, 18900, 18900, NULL},
        {MINT_BF16, 1e6, 1e6, NULL},
        {MINT_BF16, 1e39, 0, "do not fit BF16"},
        {MINT_F32, 1e300, 0, "do not fit F32"},
        {MINT_F32, NAN, 0, "do not fit F32"},
        {MINT_F16, 1e-9, 0, "--init-std 1e-09 gives nothing but zeros in F16"},
        {MINT_F16, 0, 1e-9, NULL},
        {MINT_BF16, 1e-9, 0, NULL},
    };
    for (size_t i = 0; i < MINT_ARRAY_LEN(cases); i++) {
        struct mint_err err;
        struct mint_init o = {.dtype = cases[i].dtype,
                              .std = cases[i].std,
                              .norm_std = cases[i].norm_std,
                              .shards = 1};
        assert_int_equal(mint_init_preset("tiny", &o.config, &err), 0);
        int rc = mint_init_write(&o, "m", true, NULL, NULL, &err);
        assert_int_equal(rc, cases[i].says ? -1 : 0);
        if (cases[i].says) {
            assert_says(&err, cases[i].says);
            assert_int_equal(err.code, MINT_EUSAGE);
        }
    }
}

static void test_refusals(void **state)
{
    (void)state;
    struct mint_err err;
    struct mint_init o = {.dtype = MINT_BF16, .std = -1, .shards = 1};
    assert_int_equal(mint_init_preset("tiny", &o.config, &err), 0);
    struct mint_init x = o;
    x.config.vocab = 258;
    assert_int_equal(mint_init_write(&x, "m", false, NULL, NULL, &err), -1);
    assert_says(&err, "--vocab 258 is below");
    x = o;
    x.config.kv_heads = 3;
    assert_int_equal(mint_init_write(&x, "m", false, NULL, NULL, &err), -1);
    assert_says(&err, "--heads 4 is not a multiple of --kv-heads 3");
    x = o;
    x.config.head_dim = 15;
    assert_int_equal(mint_init_write(&x, "m", false, NULL, NULL, &err), -1);
    assert_says(&err, "odd");
    x = o;
    x.shards = 1000;
    assert_int_equal(mint_init_write(&x, "m", false, NULL, NULL, &err), -1);
    assert_says(&err, "tensors");
    assert_false(mint_fs_exists("m"));
    assert_int_equal(mkdir("m", 0777), 0);
    data_text("m/precious", "x");
    assert_int_equal(mint_init_write(&o, "m", false, NULL, NULL, &err), -1);
    assert_true(mint_fs_exists("m/precious"));
}

int main(void)
{
#define CASE(f) cmocka_unit_test_setup_teardown(f, data_enter, data_leave)
    const struct CMUnitTest tests[] = {
        CASE(test_values_are_philox),
        CASE(test_values_are_frozen),
        CASE(test_any_cut_gives_the_same),
        CASE(test_moments),
        CASE(test_scales),
        CASE(test_every_shape_reads_back),
        CASE(test_presets),
        CASE(test_preset_sizes),
        CASE(test_tokenizer),
        CASE(test_values_that_do_not_fit),
        CASE(test_refusals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

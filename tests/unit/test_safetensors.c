/* SPDX-License-Identifier: Apache-2.0 */
#include "model_data.h"

#include <math.h>

#include "hash.h"

static const float six[6] = {1, -2, 0.5f, 3, 4, 5};

static struct mint_st *open_ok(const char *path)
{
    struct mint_st *st;
    struct mint_err err;
    if (mint_st_open(&st, path, &err))
        fail_msg("%s", err.msg);
    return st;
}

/* Opening fails and says why. */
static void refused(const char *path, enum mint_code code, const char *why)
{
    struct mint_st *st = (struct mint_st *)&six;
    struct mint_err err = {0};
    assert_int_equal(mint_st_open(&st, path, &err), -1);
    assert_null(st);
    assert_says(&err, why);
    assert_says(&err, path);
    assert_int_equal(err.code, code);
}

static void header_refused(const char *header, enum mint_code code, const char *why)
{
    data_tensors("bad.safetensors", header, -1, six, sizeof six);
    refused("bad.safetensors", code, why);
}

/* --- reading */

static void test_reads_what_others_write(void **state)
{
    (void)state;
    const char *h = "{\"__metadata__\":{\"format\":\"pt\"},"
                    "\"b\":{\"dtype\":\"F32\",\"shape\":[2,2],\"data_offsets\":[8,24]},"
                    "\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}     ";
    data_tensors("x.safetensors", h, -1, six, sizeof six);
    struct mint_st *st = open_ok("x.safetensors");
    assert_int_equal(mint_st_count(st), 2);
    assert_string_equal(mint_st_at(st, 0)->name, "a");
    const struct mint_st_tensor *b = mint_st_find(st, "b");
    assert_non_null(b);
    assert_int_equal(b->ndim, 2);
    assert_int_equal(b->shape[1], 2);
    assert_int_equal(b->dtype, MINT_F32);
    float v[4];
    assert_int_equal(mint_st_to_f32(b, v, NULL), 0);
    assert_memory_equal(v, six + 2, sizeof v);
    assert_null(mint_st_find(st, "c"));
    assert_null(mint_st_find(st, "__metadata__"));
    mint_st_close(st);
}

static void test_scalar_empty_and_unaligned(void **state)
{
    (void)state;
    const char *h =
        "{\"s\":{\"dtype\":\"F32\",\"shape\":[],\"data_offsets\":[1,5]},"
        "\"none\":{\"dtype\":\"F32\",\"shape\":[0,9223372036854775807],\"data_offsets\":[1,1]},"
        "\"u\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}}";
    char data[5] = {7};
    memcpy(data + 1, six, 4);
    data_tensors("x.safetensors", h, -1, data, sizeof data);
    struct mint_st *st = open_ok("x.safetensors");
    float v;
    assert_int_equal(mint_st_to_f32(mint_st_find(st, "s"), &v, NULL), 0);
    assert_true(v == 1);
    assert_int_equal(mint_st_find(st, "none")->bytes, 0);
    struct mint_err err;
    const struct mint_st_tensor *u = mint_st_find(st, "u");
    assert_int_equal(u->dtype, MINT_DTYPE_OTHER);
    assert_int_equal(mint_st_to_f32(u, &v, &err), -1);
    assert_says(&err, "\"u\" is of type U8");
    mint_st_close(st);
    data_tensors("e.safetensors", "{}", -1, "", 0);
    st = open_ok("e.safetensors");
    assert_int_equal(mint_st_count(st), 0);
    assert_null(mint_st_find(st, "a"));
    mint_st_close(st);
}

static void test_escaped_names(void **state)
{
    (void)state;
    const char *h = "{\"a\\u002eb\":{\"dtype\":\"F32\",\"shape\":[6],\"data_offsets\":[0,24]}}";
    data_tensors("x.safetensors", h, -1, six, sizeof six);
    struct mint_st *st = open_ok("x.safetensors");
    assert_non_null(mint_st_find(st, "a.b"));
    mint_st_close(st);
    header_refused("{\"a\\u0000b\":{\"dtype\":\"F32\",\"shape\":[6],\"data_offsets\":[0,24]}}",
                   MINT_EFORMAT, "NUL");
    header_refused("{\"\":{\"dtype\":\"F32\",\"shape\":[6],\"data_offsets\":[0,24]}}", MINT_EFORMAT,
                   "empty");
}

/* --- hostile files */

static void test_lengths(void **state)
{
    (void)state;
    data_write("short", "abc", 3);
    refused("short", MINT_ETRUNC, "too few");
    data_write("short", "", 0);
    refused("short", MINT_ETRUNC, "0 bytes are too few");
    data_tensors("x", "{}", (int64_t)1 << 62, "", 0);
    refused("x", MINT_EFORMAT, "over the limit of 100 MB");
    data_tensors("x", "{}", 3, "", 0);
    refused("x", MINT_ETRUNC, "cut short");
    data_write("x", "\xff\xff\xff\xff\xff\xff\xff\xff{}", 10);
    refused("x", MINT_EFORMAT, "over the limit");
    refused("absent.safetensors", MINT_EIO, "No such file");
}

static void test_header_is_no_json(void **state)
{
    (void)state;
    header_refused("hello", MINT_EFORMAT, "not valid JSON");
    header_refused("{\"a\":{}", MINT_EFORMAT, "not valid JSON");
    header_refused("[1]", MINT_EFORMAT, "not a JSON object");
    header_refused("{\"a\":1}", MINT_EFORMAT, "\"a\" has no \"dtype\"");
    header_refused("{\"__metadata__\":[]}", MINT_EFORMAT, "__metadata__");
    header_refused("{\"__metadata__\":{\"a\":1}}", MINT_EFORMAT, "no string");
}

#define T(name, shape, from, to) \
    "\"" name "\":{\"dtype\":\"F32\",\"shape\":[" shape "],\"data_offsets\":[" from "," to "]}"

static void test_offsets(void **state)
{
    (void)state;
    header_refused("{" T("a", "4", "0", "16") "," T("b", "3", "12", "24") "}", MINT_EFORMAT,
                   "overlap");
    header_refused("{" T("a", "6", "0", "24") "," T("b", "6", "0", "24") "}", MINT_EFORMAT,
                   "overlap");
    header_refused("{" T("a", "2", "0", "8") "," T("b", "3", "12", "24") "}", MINT_EFORMAT,
                   "hole of 4 bytes in front of tensor \"b\"");
    header_refused("{" T("a", "5", "4", "24") "}", MINT_EFORMAT, "hole of 4 bytes");
    header_refused("{" T("a", "5", "0", "20") "}", MINT_EFORMAT, "4 bytes behind the last tensor");
    header_refused("{}", MINT_EFORMAT, "24 bytes behind");
    header_refused("{" T("a", "6", "24", "0") "}", MINT_EFORMAT, "backwards");
    header_refused("{" T("a", "7", "0", "28") "}", MINT_ETRUNC, "cut short");
    header_refused("{" T("a", "6", "0", "9223372036854775807") "}", MINT_ETRUNC, "cut short");
    header_refused("{" T("a", "6", "-24", "0") "}", MINT_EFORMAT, "two positions");
    header_refused("{" T("a", "6", "0", "24.0") "}", MINT_EFORMAT, "two positions");
    header_refused("{" T("a", "6", "0", "99999999999999999999") "}", MINT_EFORMAT, "two positions");
    header_refused("{\"a\":{\"dtype\":\"F32\",\"shape\":[6]}}", MINT_EFORMAT, "data_offsets");
    header_refused("{\"a\":{\"dtype\":\"F32\",\"shape\":[6],\"data_offsets\":[0,8,24]}}",
                   MINT_EFORMAT, "data_offsets");
}

static void test_shapes(void **state)
{
    (void)state;
    header_refused("{" T("a", "5", "0", "24") "}", MINT_EFORMAT,
                   "F32 [5] does not fit its 24 bytes");
    header_refused("{" T("a", "4294967296,4294967296", "0", "24") "}", MINT_EFORMAT,
                   "does not fit");
    header_refused("{" T("a", "9223372036854775807,2", "0", "24") "}", MINT_EFORMAT,
                   "does not fit");
    header_refused("{" T("a", "4611686018427387910,1", "0", "24") "}", MINT_EFORMAT,
                   "does not fit");
    header_refused("{" T("a", "-6", "0", "24") "}", MINT_EFORMAT, "shape");
    header_refused("{" T("a", "1,1,1,1,6", "0", "24") "}", MINT_EFORMAT, "at most 4");
    header_refused("{" T("a", "\"6\"", "0", "24") "}", MINT_EFORMAT, "shape");
    header_refused("{\"a\":{\"dtype\":\"BF16\",\"shape\":[6],\"data_offsets\":[0,24]}}",
                   MINT_EFORMAT, "BF16 [6] does not fit");
    header_refused("{\"a\":{\"dtype\":\"I64\",\"shape\":[6],\"data_offsets\":[0,24]}}",
                   MINT_EFORMAT, "I64 [6] does not fit");
    header_refused("{\"a\":{\"dtype\":7,\"shape\":[6],\"data_offsets\":[0,24]}}", MINT_EFORMAT,
                   "dtype");
}

static void test_duplicate_names(void **state)
{
    (void)state;
    header_refused("{" T("a", "3", "0", "12") "," T("a", "3", "12", "24") "}", MINT_EFORMAT,
                   "\"a\"");
    header_refused("{" T("a", "3", "0", "12") "," T("\\u0061", "3", "12", "24") "}", MINT_EFORMAT,
                   "a");
}

/* Every prefix of a good file is refused, and no byte of it is read past its end (the map ends
 * there). */
static void test_every_cut_is_refused(void **state)
{
    (void)state;
    data_tensors("x", "{" T("a", "6", "0", "24") "}", -1, six, sizeof six);
    size_t n;
    char *p = data_read("x", &n);
    for (size_t k = 0; k < n; k++) {
        struct mint_st *st;
        data_write("cut", p, k);
        assert_int_equal(mint_st_open(&st, "cut", NULL), -1);
    }
    free(p);
}

/* --- index */

static void make_shards(void)
{
    data_tensors("one.safetensors", "{" T("a", "3", "0", "12") "," T("extra", "3", "12", "24") "}",
                 -1, six, sizeof six);
    data_tensors("two.safetensors", "{" T("b", "6", "0", "24") "}", -1, six, sizeof six);
}

static void index_refused(const char *json, enum mint_code code, const char *why)
{
    data_text("model.safetensors.index.json", json);
    struct mint_st *st;
    struct mint_err err;
    assert_int_equal(mint_st_open(&st, ".", &err), -1);
    assert_says(&err, why);
    assert_int_equal(err.code, code);
}

static void test_index(void **state)
{
    (void)state;
    make_shards();
    data_text(
        "model.safetensors.index.json",
        "{\"metadata\":{},\"weight_map\":{\"b\":\"two.safetensors\",\"a\":\"one.safetensors\"}}");
    struct mint_st *st = open_ok(".");
    assert_int_equal(mint_st_count(st), 2);
    assert_int_equal(mint_st_files(st), 2);
    assert_true(mint_st_sharded(st));
    assert_string_equal(mint_st_file(st, mint_st_find(st, "b")->file), "two.safetensors");
    assert_null(mint_st_find(st, "extra"));
    mint_st_close(st);
    st = open_ok("./model.safetensors.index.json");
    assert_int_equal(mint_st_count(st), 2);
    mint_st_close(st);
}

static void test_index_refused(void **state)
{
    (void)state;
    make_shards();
    index_refused("{", MINT_EFORMAT, "model.safetensors.index.json: ");
    index_refused("{\"a\":1}", MINT_EFORMAT, "no \"weight_map\"");
    index_refused("{\"weight_map\":{}}", MINT_EFORMAT, "empty");
    index_refused("{\"weight_map\":{\"a\":1}}", MINT_EFORMAT, "file name");
    index_refused("{\"weight_map\":{\"a\":\"../one.safetensors\"}}", MINT_EFORMAT,
                  "not a plain file name");
    index_refused("{\"weight_map\":{\"a\":\"/etc/passwd\"}}", MINT_EFORMAT,
                  "not a plain file name");
    index_refused("{\"weight_map\":{\"a\":\"sub/one.safetensors\"}}", MINT_EFORMAT,
                  "not a plain file name");
    index_refused("{\"weight_map\":{\"a\":\"..\"}}", MINT_EFORMAT, "not a plain file name");
    index_refused("{\"weight_map\":{\"a\":\"\"}}", MINT_EFORMAT, "not a plain file name");
    index_refused("{\"weight_map\":{\"a\":\"three.safetensors\"}}", MINT_EIO, "three.safetensors");
    index_refused("{\"weight_map\":{\"c\":\"one.safetensors\"}}", MINT_EFORMAT, "\"c\" is missing");
    index_refused("{\"weight_map\":{\"a\":\"one.safetensors\",\"a\":\"two.safetensors\"}}",
                  MINT_EFORMAT, "a");
}

static void test_folder_choice(void **state)
{
    (void)state;
    struct mint_st *st;
    struct mint_err err;
    assert_int_equal(mint_st_open(&st, ".", &err), -1);
    assert_says(&err, "no model.safetensors");
    data_tensors("adapter_model.safetensors", "{" T("l", "6", "0", "24") "}", -1, six, sizeof six);
    st = open_ok(".");
    assert_non_null(mint_st_find(st, "l"));
    mint_st_close(st);
    data_tensors("model.safetensors", "{" T("m", "6", "0", "24") "}", -1, six, sizeof six);
    st = open_ok(".");
    assert_non_null(mint_st_find(st, "m"));
    assert_false(mint_st_sharded(st));
    mint_st_close(st);
}

/* --- numbers */

static float widen(enum mint_dtype t, uint16_t h)
{
    float v;
    mint_dtype_to_f32(t, &h, &v, 1);
    return v;
}

static uint16_t narrow(enum mint_dtype t, float v)
{
    uint16_t h;
    mint_dtype_from_f32(t, &v, &h, 1);
    return h;
}

static void test_f16_is_exact_both_ways(void **state)
{
    (void)state;
    for (uint32_t h = 0; h < 65536; h++) {
        int exp = (int)(h >> 10 & 31), man = (int)(h & 1023);
        double want = exp == 31 ? (man ? (double)NAN : (double)INFINITY)
                      : exp     ? ldexp(1024 + man, exp - 25)
                                : ldexp(man, -24);
        float got = widen(MINT_F16, (uint16_t)h);
        if (exp == 31 && man) {
            assert_true(isnan(got));
            assert_true(isnan(widen(MINT_F16, narrow(MINT_F16, got))));
            continue;
        }
        assert_true((double)got == (h & 0x8000 ? -want : want));
        assert_int_equal(narrow(MINT_F16, got), h);
    }
}

static void test_f16_rounds_to_even(void **state)
{
    (void)state;
    for (uint32_t h = 0; h < 0x7bff;
         h++) { /* halfway between neighbours, and a hair to each side */
        float low = widen(MINT_F16, (uint16_t)h), high = widen(MINT_F16, (uint16_t)(h + 1));
        float mid = low + (high - low) / 2;
        assert_int_equal(narrow(MINT_F16, mid), h & 1 ? h + 1 : h);
        assert_int_equal(narrow(MINT_F16, nextafterf(mid, 0)), h);
        assert_int_equal(narrow(MINT_F16, nextafterf(mid, INFINITY)), h + 1);
    }
    assert_int_equal(narrow(MINT_F16, 65519.996f), 0x7bff);
    assert_int_equal(narrow(MINT_F16, 65520), 0x7c00);
    assert_int_equal(narrow(MINT_F16, -INFINITY), 0xfc00);
}

static void test_bf16_rounds_to_even(void **state)
{
    (void)state;
    for (uint32_t h = 0; h < 65536; h++) {
        float v = widen(MINT_BF16, (uint16_t)h);
        uint32_t bits;
        memcpy(&bits, &v, 4);
        assert_int_equal(bits, h << 16);
        if (isnan(v)) {
            assert_true(isnan(widen(MINT_BF16, narrow(MINT_BF16, v))));
            continue;
        }
        assert_int_equal(narrow(MINT_BF16, v), h);
        bits = h << 16 | 0x8000;
        memcpy(&v, &bits, 4);
        if (!isnan(v) && (h & 0x7f80) != 0x7f80)
            assert_int_equal(narrow(MINT_BF16, v), h & 1 ? h + 1 : h);
    }
    uint32_t quiet = 0x7f800001; /* a NaN whose upper half alone would be an infinity */
    float v;
    memcpy(&v, &quiet, 4);
    assert_true(isnan(widen(MINT_BF16, narrow(MINT_BF16, v))));
}

/* --- fingerprint */

/* The definition in the header, once more. */
static void fingerprint_by_hand(const char *head_a, const void *a, size_t na, const char *head_b,
                                const void *b, size_t nb, char out[72])
{
    struct mint_sha256 s, piece;
    uint8_t d[32];
    const char *heads[2] = {head_a, head_b}, *p[2] = {a, b};
    size_t n[2] = {na, nb};
    mint_sha256_init(&s);
    for (int i = 0; i < 2; i++) {
        mint_sha256_add(&s, heads[i], strlen(heads[i]));
        for (size_t at = 0; at < n[i]; at += 16 << 20) {
            mint_sha256_init(&piece);
            mint_sha256_add(&piece, p[i] + at, MINT_MIN((size_t)16 << 20, n[i] - at));
            mint_sha256_end(&piece, d);
            mint_sha256_add(&s, d, 32);
        }
    }
    mint_sha256_end_text(&s, out);
}

static void test_fingerprint(void **state)
{
    (void)state;
    size_t n = ((size_t)16 << 20) / 2 + 3; /* a piece and three elements of bf16 */
    uint16_t *big = mint_xcalloc(n, sizeof *big);
    for (size_t i = 0; i < n; i++)
        big[i] = (uint16_t)(i * 7 & 0x3fff);
    struct mint_st_writer *w;
    struct mint_err err;
    assert_int_equal(mint_st_create(&w, "x.safetensors", &err), 0);
    mint_st_declare(w, "b", MINT_BF16, 1, (int64_t[]){(int64_t)n});
    mint_st_declare(w, "a", MINT_F32, 2, (int64_t[]){2, 3});
    assert_int_equal(mint_st_write(w, big, n * 2, &err), 0);
    assert_int_equal(mint_st_write(w, six, sizeof six, &err), 0);
    assert_int_equal(mint_st_finish(w, &err), 0);
    char got[72], want[72], shape[64];
    struct mint_st *st = open_ok("x.safetensors");
    assert_int_equal(mint_st_fingerprint(st, got, &err), 0);
    snprintf(shape, sizeof shape, "b\nBF16\n%zu\n", n);
    fingerprint_by_hand("a\nF32\n2,3\n", six, sizeof six, shape, big, n * 2, want);
    assert_string_equal(got, want);
    /* begun in the background, and finished at once or late; the data stays what it is */
    for (int late = 0; late < 3; late++) {
        struct mint_st_print *f = mint_st_print_begin(st, late > 0);
        usleep(late == 2 ? 100000 : 0);
        memset(got, 0, sizeof got);
        mint_st_print_finish(f, late + 1, got);
        mint_st_print_free(f);
        assert_string_equal(got, want);
    }
    mint_st_print_free(mint_st_print_begin(st, true)); /* begun in vain */
    const struct mint_st_tensor *t = mint_st_find(st, "b");
    mint_st_release(st, t->data, t->bytes);
    assert_memory_equal(t->data, big, t->bytes);
    mint_st_close(st);
    free(big);
}

static void test_fingerprint_ignores_sharding(void **state)
{
    (void)state;
    char whole[72], shards[72], other[72];
    struct mint_st *st;
    data_model("m1", "qwen2", false, MINT_BF16, 1);
    data_model("m5", "qwen2", false, MINT_BF16, 5);
    data_model("f32", "qwen2", false, MINT_F32, 1);
    st = open_ok("m1");
    mint_st_fingerprint(st, whole, NULL);
    mint_st_close(st);
    st = open_ok("m5");
    assert_int_equal(mint_st_files(st), 5);
    mint_st_fingerprint(st, shards, NULL);
    mint_st_close(st);
    st = open_ok("f32");
    mint_st_fingerprint(st, other, NULL);
    mint_st_close(st);
    assert_string_equal(whole, shards);
    assert_string_not_equal(whole, other);
}

/* --- writing */

static void test_writer(void **state)
{
    (void)state;
    struct mint_st_writer *w;
    struct mint_err err;
    assert_int_equal(mint_st_create(&w, "x.safetensors", &err), 0);
    mint_st_metadata(w, "format", "pt");
    mint_st_metadata(w, "note", "a \"quoted\"\nline");
    mint_st_declare(w, "z", MINT_F32, 1, (int64_t[]){2});
    mint_st_declare_raw(w, "raw", "I32", 1, (int64_t[]){2}, 8);
    mint_st_declare(w, "a", MINT_F16, 1, (int64_t[]){1});
    for (size_t i = 0; i < 18; i++) /* byte by byte */
        assert_int_equal(mint_st_write(w, (const char *)six + i, 1, &err), 0);
    assert_int_equal(mint_st_finish(w, &err), 0);
    size_t n;
    char *p = data_read("x.safetensors", &n);
    assert_int_equal((n - 18) % 8, 0); /* data is aligned */
    assert_memory_equal(p + n - 18, six, 18);
    assert_true(strstr(p + 8, "\"z\"") < strstr(p + 8, "\"raw\""));
    free(p);
    struct mint_st *st = open_ok("x.safetensors");
    assert_int_equal(mint_st_count(st), 3);
    assert_string_equal(mint_st_find(st, "raw")->dtype_text, "I32");
    mint_st_close(st);
}

static void test_writer_without_tensors(void **state)
{
    (void)state;
    struct mint_st_writer *w;
    assert_int_equal(mint_st_create(&w, "x.safetensors", NULL), 0);
    mint_st_metadata(w, "format", "pt");
    assert_int_equal(mint_st_finish(w, NULL), 0);
    struct mint_st *st = open_ok("x.safetensors");
    assert_int_equal(mint_st_count(st), 0);
    mint_st_close(st);
}

static void test_writer_reports_a_full_disk(void **state)
{
    (void)state;
    struct mint_st_writer *w;
    struct mint_err err;
    if (access("/dev/full", W_OK))
        skip();
    size_t n = (size_t)3 << 20;
    void *zeros = mint_xcalloc(1, n);
    assert_int_equal(mint_st_create(&w, "/dev/full", &err), 0);
    mint_st_declare(w, "a", MINT_F32, 1, (int64_t[]){(int64_t)n / 4});
    assert_int_equal(mint_st_write(w, zeros, n, &err), -1);
    assert_says(&err, "/dev/full: cannot write: No space left");
    mint_st_cancel(w);
    free(zeros);
    assert_int_equal(mint_st_create(&w, "no/such/folder", &err), -1);
    assert_null(w);
}

int main(void)
{
#define CASE(f) cmocka_unit_test_setup_teardown(f, data_enter, data_leave)
    const struct CMUnitTest tests[] = {
        CASE(test_reads_what_others_write),
        CASE(test_scalar_empty_and_unaligned),
        CASE(test_escaped_names),
        CASE(test_lengths),
        CASE(test_header_is_no_json),
        CASE(test_offsets),
        CASE(test_shapes),
        CASE(test_duplicate_names),
        CASE(test_every_cut_is_refused),
        CASE(test_index),
        CASE(test_index_refused),
        CASE(test_folder_choice),
        CASE(test_f16_is_exact_both_ways),
        CASE(test_f16_rounds_to_even),
        CASE(test_bf16_rounds_to_even),
        CASE(test_fingerprint),
        CASE(test_fingerprint_ignores_sharding),
        CASE(test_writer),
        CASE(test_writer_without_tensors),
        CASE(test_writer_reports_a_full_disk),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

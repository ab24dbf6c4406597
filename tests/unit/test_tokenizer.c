/* SPDX-License-Identifier: Apache-2.0 */
/* The tokenizer against goldens of the reference library, its bounds, and what it says to bad
 * files. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "text_data.h"
#include "tokenizer_impl.h"

static const char q_regex[] = "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}"
                              "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+";
static const char l_regex[] =
    "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}"
    "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+";
static const char g_regex[] = "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+"
                              "|\\s+(?!\\S)|\\s+";

/* --- goldens. */
struct golden_arg {
    const struct mint_tokenizer *tok;
    int cases;
};

static void check_ids(const struct golden_line *g, const char *key, const struct mint_tokens *got)
{
    mint_json_val v = mint_json_get(g->j, 0, key);
    size_t n = mint_json_size(g->j, v);
    int32_t *want = calloc(n + 1, sizeof *want);
    assert_int_equal(mint_json_type(g->j, v), MINT_JSON_ARRAY);
    assert_int_equal(mint_json_ints(g->j, v, want, n, 0, INT32_MAX, NULL), 0);
    bool same = got->n == n && (n == 0 || memcmp(got->v, want, n * sizeof *want) == 0);
    if (!same) {
        print_error("%s: %s: %zu ids, %zu wanted\n", g->id, key, got->n, n);
        for (size_t i = 0; i < got->n; i++)
            print_error("%d ", (int)got->v[i]);
        print_error("\n");
        for (size_t i = 0; i < n; i++)
            print_error("%d ", (int)want[i]);
        print_error("\n");
    }
    free(want);
    assert_true(same);
}

static void encode_golden(const struct golden_line *g, void *arg)
{
    struct golden_arg *a = arg;
    struct mint_buf text = MINT_BUF_INIT, back = MINT_BUF_INIT;
    struct mint_tokens ids = MINT_TOKENS_INIT;
    struct mint_err err;
    golden_string(g, "text", &text);
    assert_int_equal(mint_encode(a->tok, text.data, text.len, MINT_ENCODE_SPECIAL, &ids, &err), 0);
    check_ids(g, "ids", &ids);
    /* Decoding gives the text again, or what the golden says (NFC). */
    if (mint_json_get(g->j, 0, "decoded") != MINT_JSON_NONE) {
        mint_buf_reset(&text);
        golden_string(g, "decoded", &text);
    }
    mint_decode(a->tok, ids.v, ids.n, false, &back);
    assert_int_equal(back.len, text.len);
    assert_memory_equal(back.data, text.data, text.len);
    mint_tokens_release(&ids);
    mint_buf_release(&text);
    mint_buf_release(&back);
    a->cases++;
}

static void encode_file(const char *name, const char *golden, int cases)
{
    struct mint_tokenizer *tok = open_test_tokenizer(name);
    struct golden_arg a = {tok, 0};
    each_golden(golden, encode_golden, &a);
    assert_int_equal(a.cases, cases);
    mint_tokenizer_close(tok);
}

static void encode_qwen3(void **state)
{
    (void)state;
    encode_file("qwen3", "encode_qwen3.jsonl", 458);
}

static void encode_gpt2(void **state)
{
    (void)state;
    encode_file("gpt2", "encode_gpt2.jsonl", 458);
}

static void encode_gpt2_digits(void **state)
{
    (void)state;
    encode_file("gpt2_digits", "encode_gpt2_digits.jsonl", 458);
}

static void encode_llama_like(void **state)
{
    (void)state;
    encode_file("llama_like", "encode_llama_like.jsonl", 458);
}

static void plain_golden(const struct golden_line *g, void *arg)
{
    struct golden_arg *a = arg;
    struct mint_buf text = MINT_BUF_INIT;
    struct mint_tokens ids = MINT_TOKENS_INIT;
    golden_string(g, "text", &text);
    assert_int_equal(mint_encode(a->tok, text.data, text.len, 0, &ids, NULL), 0);
    check_ids(g, "ids_plain", &ids);
    ids.n = 0;
    assert_int_equal(mint_encode(a->tok, text.data, text.len, MINT_ENCODE_SPECIAL, &ids, NULL), 0);
    check_ids(g, "ids", &ids);
    mint_tokens_release(&ids);
    mint_buf_release(&text);
    a->cases++;
}

static void no_special_qwen3(void **state)
{
    (void)state;
    struct mint_tokenizer *tok = open_test_tokenizer("qwen3");
    struct golden_arg a = {tok, 0};
    each_golden("encode_qwen3_no_special.jsonl", plain_golden, &a);
    assert_int_equal(a.cases, 41);
    mint_tokenizer_close(tok);
}

static void check_decoded(const struct golden_line *g, const char *key, struct mint_buf *got)
{
    struct mint_buf want = MINT_BUF_INIT;
    golden_string(g, key, &want);
    if (got->len != want.len || memcmp(got->data, want.data, want.len) != 0)
        print_error("%s: %s: %s\n", g->id, key, got->data);
    assert_int_equal(got->len, want.len);
    assert_memory_equal(got->data, want.data, want.len);
    mint_buf_release(&want);
    mint_buf_reset(got);
}

static void decode_golden(const struct golden_line *g, void *arg)
{
    struct golden_arg *a = arg;
    struct mint_buf got = MINT_BUF_INIT, hex = MINT_BUF_INIT;
    mint_json_val v = mint_json_get(g->j, 0, "ids");
    size_t n = mint_json_size(g->j, v), sum = 0, len;
    int32_t *ids = calloc(n + 1, sizeof *ids);
    assert_int_equal(mint_json_ints(g->j, v, ids, n, 0, INT32_MAX, NULL), 0);
    mint_decode(a->tok, ids, n, false, &got);
    check_decoded(g, "text", &got);
    mint_decode(a->tok, ids, n, true, &got);
    check_decoded(g, "text_skip_special", &got);
    mint_decode_bytes(a->tok, ids, n, false, &got);
    for (size_t i = 0; i < got.len; i++)
        mint_buf_addf(&hex, "%02x", (unsigned char)got.data[i]);
    for (size_t i = 0; i < n; i++) {
        mint_token_bytes(a->tok, ids[i], &len);
        sum += len;
    }
    assert_int_equal(sum, got.len);
    mint_buf_reserve(&hex, 0);
    check_decoded(g, "bytes_hex", &hex);
    free(ids);
    mint_buf_release(&got);
    mint_buf_release(&hex);
    a->cases++;
}

static void decode_qwen3(void **state)
{
    (void)state;
    struct mint_tokenizer *tok = open_test_tokenizer("qwen3");
    struct golden_arg a = {tok, 0};
    each_golden("decode_qwen3.jsonl", decode_golden, &a);
    assert_int_equal(a.cases, 79);
    /* B007: rows of the model without a token. */
    assert_int_equal(mint_tokenizer_size(tok), 151669);
    assert_true(mint_tokenizer_has(tok, 151668));
    assert_false(mint_tokenizer_has(tok, 151669));
    assert_false(mint_tokenizer_has(tok, -1));
    assert_false(mint_tokenizer_has(tok, 151935));
    assert_true(mint_tokenizer_is_special(tok, 151656));
    assert_false(mint_tokenizer_is_special(tok, 151657));
    assert_int_equal(mint_tokenizer_id(tok, "<|im_end|>"), 151645);
    assert_int_equal(mint_tokenizer_id(tok, "\xc4\xa0"), 220);
    assert_int_equal(mint_tokenizer_id(tok, "no such token"), -1);
    assert_int_equal(mint_tokenizer_id(tok, ""), -1);
    assert_int_equal(mint_tokenizer_bos(tok), -1);
    assert_int_equal(mint_tokenizer_eos(tok), 151645);
    mint_tokenizer_close(tok);
}

/* --- B001: one BOS, whether the text has it or not; none where the model has none. */
static void one_bos(void **state)
{
    (void)state;
    struct mint_tokenizer *tok = open_test_tokenizer("llama_like");
    struct mint_tokens a = MINT_TOKENS_INIT, b = MINT_TOKENS_INIT;
    unsigned flags = MINT_ENCODE_SPECIAL | MINT_ENCODE_BOS;
    int32_t bos = mint_tokenizer_bos(tok);
    const char *with = "<|begin_of_text|>hi";
    assert_int_equal(mint_tokenizer_id(tok, "<|begin_of_text|>"), bos);
    mint_tokens_add(&a, 77); /* what is in the list already stays in front */
    assert_int_equal(mint_encode(tok, "hi", 2, flags, &a, NULL), 0);
    assert_int_equal(mint_encode(tok, with, strlen(with), flags, &b, NULL), 0);
    assert_int_equal(a.v[0], 77);
    assert_int_equal(a.v[1], bos);
    assert_int_equal(b.v[0], bos);
    assert_int_not_equal(b.v[1], bos);
    assert_int_equal(a.n, b.n + 1);
    assert_memory_equal(a.v + 1, b.v, b.n * sizeof *b.v);
    b.n = 0; /* without MINT_ENCODE_SPECIAL the text is no BOS, so one is put in front */
    assert_int_equal(mint_encode(tok, with, strlen(with), MINT_ENCODE_BOS, &b, NULL), 0);
    assert_int_equal(b.v[0], bos);
    assert_true(b.n > 5);
    b.n = 0;
    assert_int_equal(mint_encode(tok, "", 0, MINT_ENCODE_BOS, &b, NULL), 0);
    assert_int_equal(b.n, 1);
    mint_tokenizer_close(tok);
    tok = open_test_tokenizer("qwen3");
    b.n = 0;
    assert_int_equal(mint_encode(tok, "hi", 2, flags, &b, NULL), 0);
    assert_int_equal(b.n, 1);
    assert_int_equal(b.v[0], 6023);
    mint_tokenizer_close(tok);
    mint_tokens_release(&a);
    mint_tokens_release(&b);
}

/* B002: ids are not what encoding their text gives; B009: half a character. */
static void ids_and_text(void **state)
{
    (void)state;
    struct mint_tokenizer *tok = open_test_tokenizer("qwen3");
    static const int32_t one[] = {53122, 316}, other[] = {393, 30002};
    struct mint_buf a = MINT_BUF_INIT, b = MINT_BUF_INIT;
    mint_decode(tok, one, 2, false, &a);
    mint_decode(tok, other, 2, false, &b);
    assert_string_equal(a.data, b.data);
    assert_string_equal(a.data, " Pantom");
    int32_t half =
        mint_tokenizer_id(tok, "\xc3\xa6\xc5\x83"); /* bytes e6 ad, the start of U+6B6A */
    assert_true(half >= 0);
    mint_buf_reset(&a);
    mint_decode(tok, &half, 1, false, &a);
    assert_string_equal(a.data, "\xef\xbf\xbd");
    mint_buf_reset(&a);
    mint_decode_bytes(tok, &half, 1, false, &a);
    assert_string_equal(a.data, "\xe6\xad");
    mint_buf_release(&a);
    mint_buf_release(&b);
    mint_tokenizer_close(tok);
}

/* --- the loops by hand against PCRE2 alone. */
static uint32_t next_random(uint64_t *s)
{
    *s = *s * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(*s >> 33);
}

/* Text that is rich in borders: every ASCII byte, white space of all kinds, marks, digits, long s.
 */
static void random_text(uint64_t *seed, struct mint_buf *out)
{
    static const char *const bits[] = {
        " ",
        "  ",
        "\n",
        "\r\n",
        "\t",
        "\v",
        "\f",
        "'",
        "'s",
        "'S",
        "'re",
        "'LL",
        "'l",
        "'ve",
        "'d",
        "'\xc5\xbf",
        "a",
        "Zz",
        "word",
        "0",
        "12",
        "345",
        ".",
        "!?",
        "_",
        "\x1c",
        "\x1f",
        "\x7f",
        "\x01",
        "\xc2\x85",
        "\xc2\xa0",
        "\xe2\x80\xa8",
        "\xe3\x80\x80",
        "\xe1\xa0\x8e",
        "\xe2\x80\x8b",
        "\xef\xbb\xbf",
        "\xc3\xa9",
        "e\xcc\x81",
        "\xe4\xbd\xa0",
        "\xc2\xbd",
        "\xe2\x85\xa7",
        "\xd9\xa3",
        "\xf0\x9f\x98\x80",
        "\xe2\x80\x99",
    };
    size_t n = next_random(seed) % 24;
    mint_buf_reset(out);
    for (size_t i = 0; i < n; i++) {
        uint32_t r = next_random(seed);
        if (r % 3 == 0)
            mint_buf_addc(out, (char)(1 + (r >> 8) % 127));
        else
            mint_buf_adds(out, bits[(r >> 8) % MINT_ARRAY_LEN(bits)]);
    }
}

static void fast_is_slow(enum tok_fast kind, const char *pattern, bool ascii_is_enough)
{
    struct tok_step step = {0};
    struct mint_buf text = MINT_BUF_INIT;
    uint64_t seed = 1;
    size_t taken = 0, all = 0;
    assert_int_equal(tok_step_compile(&step, pattern, strlen(pattern), false, NULL), 0);
    assert_int_equal(step.fast, kind);
    pcre2_match_data *md = pcre2_match_data_create(1, NULL);
    for (int round = 0; round < 60000; round++) {
        random_text(&seed, &text);
        for (size_t at = 0; at < text.len;) {
            size_t len = tok_fast_match(kind, text.data + at, text.len - at);
            int rc = pcre2_match(step.re, (PCRE2_SPTR)text.data, text.len, at, PCRE2_NO_UTF_CHECK,
                                 md, NULL);
            const PCRE2_SIZE *ends = pcre2_get_ovector_pointer(md);
            all++;
            taken += len > 0;
            if (len && (rc != 1 || ends[0] != at || ends[1] != at + len))
                fail_msg("round %d at %zu: %zu by hand, %zu..%zu: %s", round, at, len, ends[0],
                         ends[1], text.data);
            if (rc < 1)
                break;
            at = ends[1];
        }
    }
    if (ascii_is_enough)
        assert_true(taken > all / 2);
    pcre2_match_data_free(md);
    pcre2_code_free(step.re);
    mint_buf_release(&text);
}

static void fast_loops(void **state)
{
    (void)state;
    fast_is_slow(TOK_FAST_QWEN, q_regex, true);
    fast_is_slow(TOK_FAST_LLAMA3, l_regex, true);
    fast_is_slow(TOK_FAST_GPT2, g_regex, true);
    fast_is_slow(TOK_FAST_DIGIT, "\\p{N}", false);
}

/* --- NFC. */
static void nfc(void **state)
{
    (void)state;
    static const struct {
        const char *in, *out;
    } cases[] = {
        {"", ""},
        {"plain", "plain"},
        {"e\xcc\x81", "\xc3\xa9"},
        {"\xe2\x84\xab", "\xc3\x85"},                             /* Angstrom sign */
        {"\xe1\x84\x80\xe1\x85\xa1\xe1\x86\xa8", "\xea\xb0\x81"}, /* Hangul jamo */
        {"\xea\xb0\x80\xe1\x86\xa8", "\xea\xb0\x81"},
        {"a\xcc\x95\xcc\x80\xd6\xae\xcc\x80",
         "\xc3\xa0\xd6\xae\xcc\x80\xcc\x95"},         /* order of marks */
        {"\xe0\xa5\x98", "\xe0\xa4\x95\xe0\xa4\xbc"}, /* composition exclusion */
        {"\xcd\x84", "\xcc\x88\xcc\x81"},
    };
    for (size_t i = 0; i < MINT_ARRAY_LEN(cases); i++) {
        struct mint_buf b = MINT_BUF_INIT;
        tok_nfc(cases[i].in, strlen(cases[i].in), &b);
        assert_string_equal(b.data, cases[i].out);
        if (tok_nfc_is_noop(cases[i].in, strlen(cases[i].in)))
            assert_string_equal(cases[i].in, cases[i].out);
        mint_buf_release(&b);
    }
}

static size_t put_char(char *p, uint32_t c)
{
    if (c < 0x80)
        return p[0] = (char)c, 1;
    size_t n = c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
    for (size_t i = n; i-- > 1; c >>= 6)
        p[i] = (char)(0x80 | (c & 0x3f));
    p[0] = (char)((n == 2 ? 0xc0u : n == 3 ? 0xe0u : 0xf0u) | c);
    return n;
}

/* Where the quick answer is "nothing changes", nothing changes: alone, behind letters that compose,
 * and before marks. */
static void nfc_quick_answer(void **state)
{
    (void)state;
    static const char *const before[] = {
        "", "e", "\xe1\x84\x80", "\xea\xb0\x80", "\xe3\x81\x8b", "\xd0\xb8"};
    struct mint_buf b = MINT_BUF_INIT;
    size_t quick = 0;
    for (uint32_t c = 1; c < 0x20000; c++) {
        if (c >= 0xd800 && c < 0xe000)
            continue;
        for (size_t k = 0; k < MINT_ARRAY_LEN(before); k++) {
            char text[16];
            size_t n = strlen(before[k]);
            memcpy(text, before[k], n);
            n += put_char(text + n, c);
            if (!tok_nfc_is_noop(text, n))
                continue;
            quick++;
            mint_buf_reset(&b);
            tok_nfc(text, n, &b);
            if (b.len != n || memcmp(b.data, text, n) != 0)
                fail_msg("U+%04X changes behind \"%s\"", (unsigned)c, before[k]);
        }
    }
    assert_true(quick > 30000);
    mint_buf_release(&b);
}

/* --- long texts: these would run for hours if a step were quadratic. */
static void fill(struct mint_buf *b, const char *unit, size_t bytes)
{
    mint_buf_reset(b);
    while (b->len < bytes)
        mint_buf_adds(b, unit);
}

static void long_texts(void **state)
{
    (void)state;
    static const struct {
        const char *unit, *end;
    } cases[] = {
        {"a", ""},
        {" ", ""},
        {" ", "x"},
        {"\n", ""},
        {" \n", "x"},
        {"\xe3\x80\x80", "x"},
        {"0", ""},
        {"!", ""},
        {"ab", " "},
        {"\xe4\xbd\xa0\xe5\xa5\xbd", ""},
        {"\xcc\x81\xcc\xa7", ""},
        {"<", ""},
        {"<|im_", ""},
        {"'s", ""},
        {"\xc3\xa9", ""},
    };
    static const char *const names[] = {"qwen3", "gpt2_digits", "llama_like"};
    for (size_t k = 0; k < MINT_ARRAY_LEN(names); k++) {
        struct mint_tokenizer *tok = open_test_tokenizer(names[k]);
        struct mint_buf text = MINT_BUF_INIT, back = MINT_BUF_INIT;
        for (size_t i = 0; i < MINT_ARRAY_LEN(cases); i++) {
            struct mint_tokens ids = MINT_TOKENS_INIT;
            fill(&text, cases[i].unit, k == 0 && (i < 3 || i == 10) ? 1000000 : 100000);
            mint_buf_adds(&text, cases[i].end);
            assert_int_equal(mint_encode(tok, text.data, text.len, MINT_ENCODE_SPECIAL, &ids, NULL),
                             0);
            mint_buf_reset(&back);
            mint_decode(tok, ids.v, ids.n, false, &back);
            if (k ||
                strcmp(cases[i].unit, "\xcc\x81\xcc\xa7") != 0) { /* NFC changes the marks' order */
                assert_int_equal(back.len, text.len);
                assert_memory_equal(back.data, text.data, text.len);
            }
            mint_tokens_release(&ids);
        }
        mint_buf_release(&text);
        mint_buf_release(&back);
        mint_tokenizer_close(tok);
    }
}

/* Pieces above and below the border between the two ways of merging, against a plain loop. */
static size_t merge_plainly(const struct mint_tokenizer *t, int32_t *id, size_t n)
{
    for (;;) {
        const struct tok_merge *best = NULL;
        size_t at = 0;
        for (size_t i = 0; i + 1 < n; i++)
            for (uint32_t k = 0; k <= t->merges.mask; k++) {
                const struct tok_merge *m = &t->merges.slots[k];
                if (m->a == id[i] && m->b == id[i + 1] && (!best || m->rank < best->rank)) {
                    best = m;
                    at = i;
                }
            }
        if (!best)
            return n;
        id[at] = best->id;
        memmove(id + at + 1, id + at + 2, (n - at - 2) * sizeof *id);
        n--;
    }
}

/* Letters a to d with merges among them: {"ab":..}; small, so that the plain loop is quick. */
static const char small_json[] =
    "{\"pre_tokenizer\":{\"type\":\"ByteLevel\",\"add_prefix_space\":false,\"use_regex\":false},"
    "\"decoder\":{\"type\":\"ByteLevel\"},\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0,\"b\":1,"
    "\"c\":2,\"ab\":3,"
    "\"bc\":4,\"aa\":5,\"abc\":6,\"aaaa\":7,\"ca\":8,\"cab\":9,\"aaab\":10},\"merges\":[\"c "
    "a\",\"a b\",\"a a\","
    "\"b c\",\"ab c\",\"a bc\",\"aa aa\",\"ca b\",\"aa ab\"]}}";

static void replace_first(struct mint_buf *out, const char *text, const char *from, const char *to)
{
    const char *at = strstr(text, from);
    assert_non_null(at);
    mint_buf_reset(out);
    mint_buf_add(out, text, (size_t)(at - text));
    mint_buf_adds(out, to);
    mint_buf_adds(out, at + strlen(from));
}

static void merge_orders(void **state)
{
    (void)state;
    struct mint_tokenizer *t;
    struct mint_err err;
    uint64_t seed = 5;
    assert_int_equal(mint_tokenizer_read(&t, small_json, strlen(small_json), &err), 0);
    for (int round = 0; round < 2000; round++) {
        char text[200];
        int32_t want[200];
        size_t n = 1 + next_random(&seed) % (round % 4 ? 80 : 199);
        struct mint_tokens ids = MINT_TOKENS_INIT;
        for (size_t i = 0; i < n; i++) {
            text[i] = "aaabbc"[next_random(&seed) % 6];
            want[i] = text[i] - 'a';
        }
        size_t count = merge_plainly(t, want, n);
        assert_int_equal(mint_encode(t, text, n, 0, &ids, NULL), 0);
        assert_int_equal(ids.n, count);
        assert_memory_equal(ids.v, want, count * sizeof *want);
        mint_tokens_release(&ids);
    }
    mint_tokenizer_close(t);
}

/* The same text in pieces and cached: what a cache or a memo remembers must not change an id. */
static void memory_of_pieces(void **state)
{
    (void)state;
    struct mint_tokenizer *tok = open_test_tokenizer("gpt2");
    struct mint_buf text = MINT_BUF_INIT;
    struct mint_tokens once = MINT_TOKENS_INIT, many = MINT_TOKENS_INIT;
    const char *line = "The unbelievability of antidisestablishmentarianism, tokenised\n";
    assert_int_equal(mint_encode(tok, line, strlen(line), 0, &once, NULL), 0);
    fill(&text, line, 64 * strlen(line));
    assert_int_equal(mint_encode(tok, text.data, text.len, 0, &many, NULL), 0);
    assert_int_equal(many.n, 64 * once.n);
    for (size_t i = 0; i < 64; i++)
        assert_memory_equal(many.v + i * once.n, once.v, once.n * sizeof *once.v);
    mint_tokens_release(&once);
    mint_tokens_release(&many);
    mint_buf_release(&text);
    mint_tokenizer_close(tok);
}

/* Several threads on a fresh tokenizer, whose memo they fill together. */
struct thread_arg {
    const struct mint_tokenizer *tok;
    const struct mint_buf *text;
    struct mint_tokens ids;
};

static void *encode_thread(void *arg)
{
    struct thread_arg *a = arg;
    mint_encode(a->tok, a->text->data, a->text->len, 0, &a->ids, NULL);
    return NULL;
}

static void threads(void **state)
{
    (void)state;
    struct mint_tokenizer *tok = open_test_tokenizer("gpt2");
    struct mint_buf text = MINT_BUF_INIT;
    pthread_t id[4];
    struct thread_arg arg[4];
    fill(&text, "Whoever encodes first fills in what the others read; unbelievable.\n", 50000);
    for (int i = 0; i < 4; i++) {
        arg[i] = (struct thread_arg){tok, &text, MINT_TOKENS_INIT};
        assert_int_equal(pthread_create(&id[i], NULL, encode_thread, &arg[i]), 0);
    }
    for (int i = 0; i < 4; i++) {
        assert_int_equal(pthread_join(id[i], NULL), 0);
        assert_true(arg[i].ids.n > 5000);
        assert_int_equal(arg[i].ids.n, arg[0].ids.n);
        assert_memory_equal(arg[i].ids.v, arg[0].ids.v, arg[0].ids.n * sizeof(int32_t));
    }
    for (int i = 0; i < 4; i++)
        mint_tokens_release(&arg[i].ids);
    mint_buf_release(&text);
    mint_tokenizer_close(tok);
}

/* --- small tokenizers: small_json with one edit, and what a text becomes. */
static void check_small(const char *from, const char *to, const char *text, const char *guard,
                        const int32_t *want, size_t n)
{
    struct mint_buf json = MINT_BUF_INIT;
    struct mint_tokenizer *t;
    struct mint_tokens ids = MINT_TOKENS_INIT;
    struct mint_err err;
    struct mint_span span = {0, 0};
    replace_first(&json, small_json, from, to);
    if (mint_tokenizer_read(&t, json.data, json.len, &err))
        fail_msg("%s: %s", to, err.msg);
    if (guard)
        span = (struct mint_span){(size_t)(strstr(text, guard) - text), strlen(text)};
    for (int round = 0; round < 2; round++) { /* the second time from memory */
        ids.n = 0;
        assert_int_equal(
            mint_encode_guarded(t, text, strlen(text), MINT_ENCODE_SPECIAL, &span, 1, &ids, &err),
            0);
        if (ids.n != n || memcmp(ids.v, want, n * sizeof *want) != 0)
            fail_msg("%s: \"%s\" becomes %zu ids, %d first", to, text, ids.n,
                     ids.n ? (int)ids.v[0] : -1);
    }
    mint_tokens_release(&ids);
    mint_buf_release(&json);
    mint_tokenizer_close(t);
}

#define SMALL(from, to, text, guard, ...)                              \
    check_small(from, to, text, guard, (const int32_t[]){__VA_ARGS__}, \
                sizeof((const int32_t[]){__VA_ARGS__}) / sizeof(int32_t))

static void small_tokenizers(void **state)
{
    (void)state;
    static const char start[] = "{\"pre_tokenizer\"";
    static const char split[] =
        "{\"type\":\"ByteLevel\",\"add_prefix_space\":false,\"use_regex\":false}";
    static const char added[] =
        "{\"added_tokens\":[{\"content\":\"<a\",\"id\":11,\"normalized\":false},{\"content\":\"<"
        "abc\","
        "\"id\":12,\"normalized\":false},{\"content\":\"<ab\",\"id\":13,\"normalized\":false}],"
        "\"pre_tokenizer\"";
    static const char nfc_added[] =
        "{\"normalizer\":{\"type\":\"NFC\"},\"added_tokens\":[{\"content\":\"<t>\",\"id\":11,"
        "\"special\":true},{\"content\":\"e\xcc\x81\",\"id\":12}],\"pre_tokenizer\"";
    /* A token that merging never makes is no result, the second time neither. */
    SMALL("\"b\":1", "\"b\":1,\"bb\":11", "bb", NULL, 1, 1);
    SMALL("\"type\":\"BPE\"", "\"ignore_merges\":false", "abc", NULL, 6);
    /* The longest added token at the leftmost place. */
    SMALL(start, added, "<abc", NULL, 12);
    SMALL(start, added, "<abb<a", NULL, 13, 1, 11);
    SMALL(start, added, "a<aa", NULL, 0, 11, 0);
    /* Matched in the normalized text, as what they are normalized to; no special one in a guard
     * that NFC has moved. */
    SMALL(start, nfc_added, "e\xcc\x81<t>", NULL, 12, 11);
    SMALL(start, nfc_added, "\xc3\xa9<t>", NULL, 12, 11);
    SMALL(start, nfc_added, "\xc3\xa9<t>", "<t>", 12);
    SMALL(start, nfc_added, "e\xcc\x81<t>", "<t>", 12);
    /* Splits: kept matches alone, literal text. */
    SMALL(split,
          "{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"Split\",\"pattern\":{\"Regex\":\"["
          "ab]+\"},\"behavior\":"
          "\"Removed\",\"invert\":true},{\"type\":\"ByteLevel\",\"add_prefix_space\":false,\"use_"
          "regex\":false}]}",
          "abcabc", NULL, 3, 3);
    SMALL(split,
          "{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"Split\",\"pattern\":{\"String\":"
          "\"b\"},\"behavior\":"
          "\"Isolated\"},{\"type\":\"ByteLevel\",\"add_prefix_space\":false,\"use_regex\":false}]}",
          "abcab", NULL, 0, 1, 8, 1);
    /* A raw token of two spaces is not what two spaces merge to, be its id the next one or not. */
    SMALL(
        "\"cab\":9,\"aaab\":10},\"merges\":[\"c a\",",
        "\"  \":9,\"\xc4\xa0\":11,\"\xc4\xa0\xc4\xa0\":12,\"cab\":13,\"aaab\":10},\"merges\":[\"c "
        "a\",\"\xc4\xa0 \xc4\xa0\",",
        "  ", NULL, 12);
}

/* Special tokens that are matched in the normalized text, guarded one by one. */
static void guards_when_normalized(void **state)
{
    (void)state;
    struct mint_tokenizer *tok = open_test_tokenizer("gpt2");
    const char *text = "<|endoftext|>a<|endoftext|>b<|endoftext|>c<|endoftext|>";
    struct mint_span v[] = {{13, 15}, {28, 41}};
    struct mint_tokens ids = MINT_TOKENS_INIT;
    assert_int_equal(
        mint_encode_guarded(tok, text, strlen(text), MINT_ENCODE_SPECIAL, v, 2, &ids, NULL), 0);
    int ends = 0;
    for (size_t i = 0; i < ids.n; i++)
        ends += ids.v[i] == 50256;
    assert_int_equal(ends, 2);
    assert_int_equal(ids.v[0], 50256);
    assert_int_equal(ids.v[ids.n - 1], 50256);
    mint_tokens_release(&ids);
    mint_tokenizer_close(tok);
}

/* --- guards. */
static void guards(void **state)
{
    (void)state;
    struct mint_tokenizer *tok = open_test_tokenizer("qwen3");
    const char *text = "<|im_start|>user\n<|im_end|> <think><|im_end|>\n";
    struct mint_span user = {17, 35}; /* "<|im_end|> <think>" */
    struct mint_tokens ids = MINT_TOKENS_INIT;
    assert_int_equal(
        mint_encode_guarded(tok, text, strlen(text), MINT_ENCODE_SPECIAL, &user, 1, &ids, NULL), 0);
    int starts = 0, ends = 0, thinks = 0;
    for (size_t i = 0; i < ids.n; i++) {
        starts += ids.v[i] == 151644;
        ends += ids.v[i] == 151645;
        thinks += ids.v[i] == 151667;
    }
    assert_int_equal(starts, 1);
    assert_int_equal(ends, 1);
    assert_int_equal(thinks, 1); /* not special: as the reference */
    /* A special string that only partly lies in a guard is none either. */
    struct mint_span part = {40, 41};
    ids.n = 0;
    assert_int_equal(
        mint_encode_guarded(tok, text, strlen(text), MINT_ENCODE_SPECIAL, &part, 1, &ids, NULL), 0);
    for (ends = 0; ids.n--;)
        ends += ids.v[ids.n] == 151645;
    assert_int_equal(ends, 1);
    mint_tokens_release(&ids);
    mint_tokenizer_close(tok);
}

static void bad_text(void **state)
{
    (void)state;
    struct mint_tokenizer *tok = open_test_tokenizer("gpt2");
    struct mint_tokens ids = MINT_TOKENS_INIT;
    struct mint_err err;
    static const struct {
        const char *text, *where;
    } cases[] = {
        {"abc\xff", "byte 4 is 0xff"},  {"\xc0\x80", "byte 1"},         {"\xed\xa0\x80", "byte 1"},
        {"12345678\xe2\x82", "byte 9"}, {"\xf4\x90\x80\x80", "byte 1"}, {"a\x80", "byte 2"},
    };
    mint_tokens_add(&ids, 5);
    for (size_t i = 0; i < MINT_ARRAY_LEN(cases); i++) {
        assert_int_equal(mint_encode(tok, cases[i].text, strlen(cases[i].text), 3, &ids, &err), -1);
        assert_non_null(strstr(err.msg, cases[i].where));
        assert_int_equal(ids.n, 1);
    }
    assert_int_equal(mint_encode(tok, "a\0b", 3, 0, &ids, &err),
                     0); /* NUL is a character like others */
    assert_int_equal(ids.n, 4);
    mint_tokens_release(&ids);
    mint_tokenizer_close(tok);
}

/* --- hostile and unsupported files: one edit each to small_json or to a whole text. */
static const struct bad_file {
    const char *from,
        *to; /* the first `from` in small_json becomes `to`; NULL: `to` is the whole text */
    const char *says;
} bad_files[] = {
    {NULL, "", "column"},
    {NULL, "[]", "no object"},
    {NULL, "{}", "\"model\""},
    {NULL, "{\"model\":[]}", "\"model\""},
    {NULL, "{\"model\":", "column"},
    {NULL, "{\"model\":{\"vocab\":{", "column"},
    {"\"type\":\"BPE\"", "\"type\":\"Unigram\"", "Unigram"},
    {"\"type\":\"BPE\"", "\"type\":7", "type"},
    {"\"type\":\"BPE\"", "\"dropout\":0.5", "dropout"},
    {"\"type\":\"BPE\"", "\"byte_fallback\":true", "byte_fallback"},
    {"\"type\":\"BPE\"", "\"byte_fallback\":1", "byte_fallback"},
    {"\"type\":\"BPE\"", "\"end_of_word_suffix\":\"</w>\"", "end_of_word_suffix"},
    {"\"type\":\"BPE\"", "\"continuing_subword_prefix\":\"##\"", "continuing_subword_prefix"},
    {"\"type\":\"BPE\"", "\"unk_token\":\"x\"", "unk_token"},
    {"\"type\":\"BPE\"", "\"unk_token\":1", "unk_token"},
    {"\"b\":1", "\"b\":0", "two tokens have id 0"},
    {"\"b\":1", "\"a\":1", "one token twice"},
    {"\"b\":1", "\"b\":-1", "whole number"},
    {"\"b\":1", "\"b\":1.0", "whole number"},
    {"\"b\":1", "\"b\":01", "whole number"},
    {"\"b\":1", "\"b\":\"1\"", "whole number"},
    {"\"b\":1", "\"b\":null", "whole number"},
    {"\"b\":1", "\"b\":4194304", "above"},
    {"\"b\":1", "\"b\":99999999999999999999999999", "above"},
    {"\"b\":1", "\"b\" 1", "':'"},
    {"\"b\":1", "\"b\\ud800\":1", "lone surrogate"},
    {"\"b\":1", "\"b\\udc00\":1", "lone surrogate"},
    {"\"b\":1", "\"b\\ud800\\u0041\":1", "lone surrogate"},
    {"\"b\":1", "\"b\\x\":1", "bad escape"},
    {"\"b\":1", "\"b\\u12g4\":1", "bad escape"},
    {"\"b\":1", "\"\xff\":1", "UTF-8"},
    {"\"b\":1", "\"b\n\":1", "control byte"},
    {"\"b\":1", "b:1", "a string is expected"},
    {"\"b\":1,", "\"b\":1", "',' or '}'"},
    {"\"aaab\":10", "\"aaab\":10,", "a string is expected"},
    {"{\"a\":0", "[\"a\"", ""},
    {"\"vocab\"", "\"vocab\":{},\"x\"", "empty"},
    {"\"vocab\"", "\"vocabulary\"", "model.vocab"},
    {"\"vocab\":{", "\"vocab\":7,\"x\":{", "model.vocab"},
    {"\"merges\"", "\"merge\"", "model.merges"},
    {"\"merges\":[", "\"merges\":{},\"x\":[", "model.merges"},
    {"\"c a\"", "\"c x\"", "second half is not in the vocabulary"},
    {"\"c a\"", "\"x a\"", "first half is not in the vocabulary"},
    {"\"c a\"", "\"c c\"", "what it makes is not in the vocabulary"},
    {"\"c a\"", "\"ca\"", "one space"},
    {"\"c a\"", "\"c a b\"", "one space"},
    {"\"c a\"", "\" a\"", "empty half"},
    {"\"c a\"", "[\"c\",\"\"]", "empty half"},
    {"\"c a\"", "[\"c\"]", "two tokens"},
    {"\"c a\"", "[\"c\",\"a\",\"b\"]", "two tokens"},
    {"\"c a\"", "[[\"c\"],\"a\"]", "a string is expected"},
    {"\"c a\"", "7", "a merge is expected"},
    {"\"c a\",", "\"c a\"", "',' or ']'"},
    {"\"decoder\":{\"type\":\"ByteLevel\"},", "", "decoder"},
    {"\"decoder\":{\"type\":\"ByteLevel\"}", "\"decoder\":{\"type\":\"Metaspace\"}", "Metaspace"},
    {"\"decoder\":{\"type\":\"ByteLevel\"}", "\"decoder\":{\"type\":[]}", "no type"},
    {"{\"pre_tokenizer\"", "{\"normalizer\":{\"type\":\"NFKC\"},\"pre_tokenizer\"", "NFKC"},
    {"{\"pre_tokenizer\"", "{\"normalizer\":3,\"pre_tokenizer\"", "normalizer is no object"},
    {"{\"pre_tokenizer\"", "{\"normalizer\":{\"type\":\"Sequence\"},\"pre_tokenizer\"",
     "normalizers"},
    {"{\"pre_tokenizer\"",
     "{\"normalizer\":{\"type\":\"Sequence\",\"normalizers\":[1,2]},\"pre_tokenizer\"",
     "normalizers"},
    {"\"add_prefix_space\":false", "\"add_prefix_space\":true", "add_prefix_space"},
    {"\"type\":\"ByteLevel\"", "\"type\":\"Whitespace\"", "Whitespace"},
    {"\"type\":\"ByteLevel\"", "\"type\":\"Digits\"", "no ByteLevel"},
    {"{\"pre_tokenizer\"", "{\"post_processor\":{\"type\":\"BertProcessing\"},\"pre_tokenizer\"",
     "BertProcessing"},
    {"{\"pre_tokenizer\"",
     "{\"post_processor\":{\"type\":\"TemplateProcessing\",\"single\":[{\"Sequence\":{\"id\":\"A\"}"
     "},"
     "{\"SpecialToken\":{\"id\":\"a\"}}]},\"pre_tokenizer\"",
     "TemplateProcessing"},
    {"{\"pre_tokenizer\"",
     "{\"post_processor\":{\"type\":\"TemplateProcessing\",\"single\":[{\"SpecialToken\":{\"id\":"
     "\"z\"}},"
     "{\"Sequence\":{\"id\":\"A\"}}],\"special_tokens\":{}},\"pre_tokenizer\"",
     "no single id"},
    {"{\"pre_tokenizer\"",
     "{\"post_processor\":{\"type\":\"TemplateProcessing\",\"single\":[{\"SpecialToken\":{\"id\":"
     "\"z\"}},"
     "{\"Sequence\":{\"id\":\"A\"}}],\"special_tokens\":{\"z\":{\"ids\":[99]}}},\"pre_tokenizer\"",
     "no token has id 99"},
    {"{\"pre_tokenizer\"", "{\"added_tokens\":{},\"pre_tokenizer\"", "added_tokens"},
    {"{\"pre_tokenizer\"", "{\"added_tokens\":[1],\"pre_tokenizer\"", "added_tokens"},
    {"{\"pre_tokenizer\"", "{\"added_tokens\":[{}],\"pre_tokenizer\"", "no content"},
    {"{\"pre_tokenizer\"", "{\"added_tokens\":[{\"content\":\"\",\"id\":11}],\"pre_tokenizer\"",
     "no content"},
    {"{\"pre_tokenizer\"", "{\"added_tokens\":[{\"content\":\"X\"}],\"pre_tokenizer\"", "id"},
    {"{\"pre_tokenizer\"",
     "{\"added_tokens\":[{\"content\":\"X\",\"id\":4194304}],\"pre_tokenizer\"", "whole number"},
    {"{\"pre_tokenizer\"", "{\"added_tokens\":[{\"content\":\"X\",\"id\":5}],\"pre_tokenizer\"",
     "another token"},
    {"{\"pre_tokenizer\"", "{\"added_tokens\":[{\"content\":\"ab\",\"id\":12}],\"pre_tokenizer\"",
     "in model.vocab"},
    {"{\"pre_tokenizer\"",
     "{\"added_tokens\":[{\"content\":\"X\",\"id\":11},{\"content\":\"X\",\"id\":12}],\"pre_"
     "tokenizer\"",
     "two added tokens"},
    {"{\"pre_tokenizer\"",
     "{\"added_tokens\":[{\"content\":\"ab\",\"id\":3},{\"content\":\"ab\",\"id\":3}],\"pre_"
     "tokenizer\"",
     "twice"},
    {"{\"pre_tokenizer\"",
     "{\"added_tokens\":[{\"content\":\"X\",\"id\":11,\"lstrip\":true}],\"pre_tokenizer\"",
     "lstrip"},
    {"{\"pre_tokenizer\"",
     "{\"added_tokens\":[{\"content\":\"X\",\"id\":11,\"single_word\":true}],\"pre_tokenizer\"",
     "single_word"},
    {"{\"pre_tokenizer\"",
     "{\"added_tokens\":[{\"content\":\"X\",\"id\":11,\"special\":\"no\"}],\"pre_tokenizer\"",
     "special"},
};

static void hostile_files(void **state)
{
    (void)state;
    struct mint_buf text = MINT_BUF_INIT;
    for (size_t i = 0; i < MINT_ARRAY_LEN(bad_files); i++) {
        const struct bad_file *f = &bad_files[i];
        struct mint_tokenizer *t;
        struct mint_err err = {MINT_OK, ""};
        if (f->from)
            replace_first(&text, small_json, f->from, f->to);
        mint_tokenizer_read(&t, f->from ? text.data : f->to, f->from ? text.len : strlen(f->to),
                            &err);
        if (t || !*err.msg || !strstr(err.msg, f->says))
            fail_msg("%s: \"%s\", but \"%s\" is expected", f->to, err.msg, f->says);
    }
    mint_buf_release(&text);
}

/* A text cut anywhere is an error, never a crash. */
static void cut_files(void **state)
{
    (void)state;
    for (size_t n = 0; n < strlen(small_json); n++) {
        struct mint_tokenizer *t;
        struct mint_err err = {MINT_OK, ""};
        char *copy = malloc(n ? n : 1); /* so that a sanitizer sees a read behind the end */
        memcpy(copy, small_json, n);
        assert_int_equal(mint_tokenizer_read(&t, copy, n, &err), -1);
        assert_true(*err.msg);
        free(copy);
    }
}

static int compile(const char *regex, struct mint_err *err)
{
    struct tok_step s = {0};
    int rc = tok_step_compile(&s, regex, strlen(regex), false, err);
    if (rc == 0)
        pcre2_code_free(s.re);
    return rc;
}

/* What Oniguruma and PCRE2 read differently is refused. */
static void regexes(void **state)
{
    (void)state;
    static const char *const good[] = {"[^\\s]+", "\\u4e00+",          "[!\"#\\[\\]\\-]",
                                       "a{1,3}",  "(?i:x)|(?!\\S)y++", "\\p{Lu}\\P{N}"};
    static const char *const bad[] = {
        "\\w",           "\\b",   "\\h",     "\\v",   "\\Z",       "^a",   "a$", "[a[b]]",
        "[a&&b]",        "(?m)a", "(?<x>a)", "a{2}+", "(*ACCEPT)", "\\",   "[",  "(",
        "\\p{Nonsense}", "\\p{L", "*",       "a*",    "x|",        "(?!a)"};
    struct mint_err err;
    for (size_t i = 0; i < MINT_ARRAY_LEN(good); i++)
        assert_int_equal(compile(good[i], &err), 0);
    for (size_t i = 0; i < MINT_ARRAY_LEN(bad); i++)
        if (compile(bad[i], &err) != -1)
            fail_msg("%s was taken", bad[i]);
    assert_int_equal(tok_step_compile(&(struct tok_step){0}, "a\0b", 3, false, &err), -1);
}

static bool matches(const pcre2_code *re, uint32_t c)
{
    char text[4];
    size_t n = put_char(text, c);
    pcre2_match_data *md = pcre2_match_data_create(1, NULL);
    int rc = pcre2_match(re, (PCRE2_SPTR)text, n, 0, 0, md, NULL);
    pcre2_match_data_free(md);
    return rc > 0;
}

/* \s is White_Space of Unicode, in a class or not, \d is every decimal digit. */
static void regex_meaning(void **state)
{
    (void)state;
    static const uint32_t space[] = {0x20,   0x85,   0xa0,   0x1680, 0x2028,
                                     0x2029, 0x202f, 0x205f, 0x3000};
    static const char *const regexes_of_space[] = {"\\s", "[\\s]", "[^\\S]"};
    for (size_t k = 0; k < MINT_ARRAY_LEN(regexes_of_space); k++) {
        struct tok_step s = {0};
        const char *regex = regexes_of_space[k];
        assert_int_equal(tok_step_compile(&s, regex, strlen(regex), false, NULL), 0);
        for (uint32_t c = 1; c < 0x3100; c++) {
            bool want = (c >= 9 && c <= 13) || (c >= 0x2000 && c <= 0x200a);
            for (size_t i = 0; i < MINT_ARRAY_LEN(space); i++)
                want = want || space[i] == c;
            if (matches(s.re, c) != want)
                fail_msg("U+%04X against %s", (unsigned)c, regex);
        }
        pcre2_code_free(s.re);
    }
    struct tok_step s = {0};
    assert_int_equal(tok_step_compile(&s, "\\d", 2, false, NULL), 0);
    assert_true(matches(s.re, 0x663));
    assert_false(matches(s.re, 0xbd));
    pcre2_code_free(s.re);
}

/* Bytes without a token are left out, or become the unknown token; a missing file is named. */
static void missing(void **state)
{
    (void)state;
    static const struct {
        const char *model;
        size_t n;
        int32_t ids[4];
    } cases[] = {
        {"\"type\":\"BPE\"", 1, {3}}, /* "a" and "b" become neighbours */
        {"\"unk_token\":\"c\"", 4, {0, 2, 2, 1}},
        {"\"unk_token\":\"c\",\"fuse_unk\":true", 3, {0, 2, 1}},
    };
    struct mint_tokenizer *t;
    struct mint_buf text = MINT_BUF_INIT;
    struct mint_err err;
    for (size_t i = 0; i < MINT_ARRAY_LEN(cases); i++) {
        struct mint_tokens ids = MINT_TOKENS_INIT;
        replace_first(&text, small_json, "\"type\":\"BPE\"", cases[i].model);
        assert_int_equal(mint_tokenizer_read(&t, text.data, text.len, &err), 0);
        assert_int_equal(mint_encode(t, "azzb", 4, 0, &ids, &err), 0);
        assert_int_equal(ids.n, cases[i].n);
        assert_memory_equal(ids.v, cases[i].ids, ids.n * sizeof *ids.v);
        mint_tokens_release(&ids);
        mint_tokenizer_close(t);
    }
    mint_buf_release(&text);
    struct mint_tokens none = MINT_TOKENS_INIT;
    assert_int_equal(mint_tokenizer_read(&t, NULL, 0, &err), -1);
    assert_int_equal(mint_tokenizer_read(&t, small_json, strlen(small_json), &err), 0);
    assert_int_equal(mint_encode(t, NULL, 0, MINT_ENCODE_SPECIAL, &none, &err), 0);
    assert_int_equal(none.n, 0);
    mint_tokenizer_close(t);
    assert_int_equal(mint_tokenizer_open(&t, "/nonexistent", &err), -1);
    assert_null(t);
    assert_non_null(strstr(err.msg, "/nonexistent/tokenizer.json"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(encode_qwen3),
        cmocka_unit_test(encode_gpt2),
        cmocka_unit_test(encode_gpt2_digits),
        cmocka_unit_test(encode_llama_like),
        cmocka_unit_test(no_special_qwen3),
        cmocka_unit_test(decode_qwen3),
        cmocka_unit_test(one_bos),
        cmocka_unit_test(ids_and_text),
        cmocka_unit_test(fast_loops),
        cmocka_unit_test(nfc),
        cmocka_unit_test(nfc_quick_answer),
        cmocka_unit_test(long_texts),
        cmocka_unit_test(merge_orders),
        cmocka_unit_test(memory_of_pieces),
        cmocka_unit_test(threads),
        cmocka_unit_test(guards),
        cmocka_unit_test(small_tokenizers),
        cmocka_unit_test(guards_when_normalized),
        cmocka_unit_test(regex_meaning),
        cmocka_unit_test(bad_text),
        cmocka_unit_test(hostile_files),
        cmocka_unit_test(cut_files),
        cmocka_unit_test(regexes),
        cmocka_unit_test(missing),
    };
    return cmocka_run_group_tests(tests, make_text_data, remove_text_data);
}

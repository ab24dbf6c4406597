/* SPDX-License-Identifier: Apache-2.0 */
/*
 * text_data.h: tokenizers and goldens for test_tokenizer.c and test_chat.c, from
 * tests/data/tokenizer (or $MINT_TEST_TEXT, for one that may not be in the tree). A tokenizer is
 * kept as NAME/tokenizer.json.zst and unpacked into a temporary folder.
 */
#ifndef MINT_TEXT_DATA_H
#define MINT_TEXT_DATA_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zstd.h>

#include "fs.h"
#include "json.h"
#include "tokenizer.h"

static char text_tmp[64];

static inline int make_text_data(void **state)
{
    (void)state;
    snprintf(text_tmp, sizeof text_tmp, "/tmp/mint-text-XXXXXX");
    return mkdtemp(text_tmp) ? 0 : -1;
}

static inline int remove_text_data(void **state)
{
    (void)state;
    static const char *const names[] = {"qwen3", "gpt2", "gpt2_digits", "llama_like", "model"};
    static const char *const files[] = {"tokenizer.json", "tokenizer_config.json",
                                        "chat_template.jinja"};
    char path[256];
    for (size_t i = 0; i < MINT_ARRAY_LEN(names); i++) {
        for (size_t k = 0; k < MINT_ARRAY_LEN(files); k++) {
            snprintf(path, sizeof path, "%s/%s/%s", text_tmp, names[i], files[k]);
            unlink(path);
        }
        snprintf(path, sizeof path, "%s/%s", text_tmp, names[i]);
        rmdir(path);
    }
    return rmdir(text_tmp);
}

static inline void write_text(const char *path, const char *data, size_t n)
{
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(data, 1, n, f), n);
    assert_int_equal(fclose(f), 0);
}

/* A file of $MINT_TEST_TEXT, if it is there, or of tests/data/tokenizer as a whole, free() it. */
static inline char *read_text(const char *name, size_t *n)
{
    const char *own = getenv("MINT_TEST_TEXT");
    char *path = mint_fs_join(own ? own : "tests/data/tokenizer", name), *text;
    struct mint_err err;
    if (own && !mint_fs_exists(path)) {
        free(path);
        path = mint_fs_join("tests/data/tokenizer", name);
    }
    if (mint_fs_read_file(path, (size_t)64 << 20, &text, n, &err))
        fail_msg("%s", err.msg);
    free(path);
    return text;
}

/* The folder of an unpacked tokenizer, in a static buffer. */
static inline const char *text_tokenizer_dir(const char *name)
{
    static char dir[128];
    char path[256];
    size_t n;
    snprintf(dir, sizeof dir, "%s/%s", text_tmp, name);
    if (mkdir(dir, 0700) != 0)
        return dir; /* is there */
    snprintf(path, sizeof path, "%s/tokenizer.json.zst", name);
    char *packed = read_text(path, &n);
    size_t size = (size_t)ZSTD_getFrameContentSize(packed, n);
    assert_true(size < (size_t)64 << 20);
    char *plain = malloc(size);
    assert_int_equal(ZSTD_decompress(plain, size, packed, n), size);
    snprintf(path, sizeof path, "%s/tokenizer.json", dir);
    write_text(path, plain, size);
    free(plain);
    free(packed);
    snprintf(path, sizeof path, "%s/tokenizer_config.json", name);
    char *config = read_text(path, &n);
    snprintf(path, sizeof path, "%s/tokenizer_config.json", dir);
    write_text(path, config, n);
    free(config);
    return dir;
}

static inline struct mint_tokenizer *open_test_tokenizer(const char *name)
{
    struct mint_tokenizer *tok;
    struct mint_err err;
    if (mint_tokenizer_open(&tok, text_tokenizer_dir(name), &err))
        fail_msg("%s", err.msg);
    return tok;
}

struct golden_line {
    const struct mint_json *j;
    const char *id;
};

static inline void golden_string(const struct golden_line *g, const char *key, struct mint_buf *out)
{
    mint_buf_reserve(out, 0);
    assert_true(mint_json_string(g->j, mint_json_get(g->j, 0, key), out));
}

static inline void each_golden(const char *name, void (*on)(const struct golden_line *, void *),
                               void *arg)
{
    size_t n;
    char *text = read_text(name, &n), *end;
    struct mint_json *j = mint_json_new();
    for (char *line = text; *line; line = end + 1) {
        struct mint_err err;
        end = strchr(line, '\n');
        assert_non_null(end);
        if (mint_json_parse(j, line, (size_t)(end - line), &err))
            fail_msg("%s: %s", name, err.msg);
        char *id = mint_json_strdup(j, mint_json_get(j, 0, "id"));
        struct golden_line g = {j, id ? id : "?"};
        on(&g, arg);
        free(id);
    }
    mint_json_free(j);
    free(text);
}

#endif

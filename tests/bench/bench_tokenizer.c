/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How fast tokenizers load and encode: bench_tokenizer [TEXT DIR...] prints a line for each model
 * folder; without arguments, for the tokenizers of tests/data on a licence's prose. The text is
 * repeated to 8 MB and encoded in one piece, on one core; the best of five. Times are of the
 * processor: others on the machine do not count.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <zstd.h>

#include "fs.h"
#include "mem.h"
#include "tokenizer.h"

#define MAX_FILE ((size_t)64 << 20)

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* Encodes five times and decodes once. */
static int measure(const char *name, const struct mint_tokenizer *tok, double load,
                   const struct mint_buf *text, struct mint_err *err)
{
    struct mint_tokens ids = MINT_TOKENS_INIT;
    struct mint_buf back = MINT_BUF_INIT;
    double best = 1e9, start;
    int bad = 0;
    for (int i = 0; i < 5 && !bad; i++) {
        ids.n = 0;
        start = now();
        bad = mint_encode(tok, text->data, text->len, MINT_ENCODE_SPECIAL, &ids, err);
        best = MINT_MIN(best, now() - start);
    }
    if (!bad) {
        start = now();
        mint_decode(tok, ids.v, ids.n, false, &back);
        printf("%s: load %.0f ms, encode %.1f MB/s (%.2f bytes a token), decode %.0f MB/s\n", name,
               load * 1e3, (double)text->len / best / 1e6, (double)text->len / (double)ids.n,
               (double)back.len / (now() - start) / 1e6);
    }
    mint_buf_release(&back);
    mint_tokens_release(&ids);
    return bad;
}

static int bench_folder(const char *dir, const struct mint_buf *text, struct mint_err *err)
{
    struct mint_tokenizer *tok;
    double start = now();
    if (mint_tokenizer_open(&tok, dir, err))
        return -1;
    int bad = measure(dir, tok, now() - start, text, err);
    mint_tokenizer_close(tok);
    return bad;
}

/* NAME/tokenizer.json.zst of the tests' data. */
static int bench_packed(const char *name, const struct mint_buf *text, struct mint_err *err)
{
    char *path = mint_xasprintf("tests/data/tokenizer/%s/tokenizer.json.zst", name), *packed;
    struct mint_tokenizer *tok;
    size_t n;
    int bad = mint_fs_read_file(path, MAX_FILE, &packed, &n, err);
    free(path);
    if (bad)
        return -1;
    size_t size = (size_t)ZSTD_getFrameContentSize(packed, n);
    char *json = mint_xmalloc(MINT_MIN(size, MAX_FILE));
    size = ZSTD_decompress(json, MINT_MIN(size, MAX_FILE), packed, n);
    double start = now();
    bad = mint_tokenizer_read(&tok, json, ZSTD_isError(size) ? 0 : size, err);
    if (!bad)
        bad = measure(name, tok, now() - start, text, err);
    mint_tokenizer_close(tok);
    free(json);
    free(packed);
    return bad;
}

static int read_text(const char *path, struct mint_buf *text, struct mint_err *err)
{
    char *one;
    size_t n;
    if (mint_fs_read_file(path, MAX_FILE, &one, &n, err))
        return -1;
    while (n && text->len < (size_t)8 << 20)
        mint_buf_add(text, one, n);
    free(one);
    return n ? 0 : mint_fail(err, MINT_EFORMAT, "%s is empty", path);
}

int main(int argc, char **argv)
{
    static const char *const packed[] = {"qwen3", "gpt2", "gpt2_digits", "llama_like"};
    struct mint_buf text = MINT_BUF_INIT;
    struct mint_err err;
    int bad =
        read_text(argc > 1 ? argv[1] : "tests/data/tokenizer/licenses/Apache-2.0.txt", &text, &err);
    for (int i = 2; i < argc && !bad; i++)
        bad = bench_folder(argv[i], &text, &err);
    for (size_t i = 0; i < MINT_ARRAY_LEN(packed) && argc < 2 && !bad; i++)
        bad = bench_packed(packed[i], &text, &err);
    if (bad)
        fprintf(stderr, "bench_tokenizer: %s\n", err.msg);
    mint_buf_release(&text);
    return bad ? 1 : 0;
}

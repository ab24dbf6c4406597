/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How fast tokenizers load and encode: bench_tokenizer TEXT DIR... prints a line for each model
 * folder. TEXT is repeated to 8 MB and encoded in one piece, on one core; the best of five. Times
 * are of the processor: others on the machine do not count.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "fs.h"
#include "tokenizer.h"

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static int bench(const char *dir, const struct mint_buf *text)
{
    struct mint_tokenizer *tok;
    struct mint_err err;
    double start = now(), best = 1e9;
    if (mint_tokenizer_open(&tok, dir, &err)) {
        fprintf(stderr, "bench_tokenizer: %s\n", err.msg);
        return 1;
    }
    double load = now() - start;
    struct mint_tokens ids = MINT_TOKENS_INIT;
    for (int i = 0; i < 5; i++) {
        ids.n = 0;
        start = now();
        if (mint_encode(tok, text->data, text->len, MINT_ENCODE_SPECIAL, &ids, &err)) {
            fprintf(stderr, "bench_tokenizer: %s\n", err.msg);
            return 1;
        }
        double seconds = now() - start;
        best = seconds < best ? seconds : best;
    }
    start = now();
    struct mint_buf back = MINT_BUF_INIT;
    mint_decode(tok, ids.v, ids.n, false, &back);
    printf("%s: load %.0f ms, encode %.1f MB/s (%.2f bytes a token), decode %.0f MB/s\n", dir,
           load * 1e3, (double)text->len / best / 1e6, (double)text->len / (double)ids.n,
           (double)back.len / (now() - start) / 1e6);
    mint_buf_release(&back);
    mint_tokens_release(&ids);
    mint_tokenizer_close(tok);
    return 0;
}

int main(int argc, char **argv)
{
    if (argc < 3) {
        fprintf(stderr, "usage: bench_tokenizer TEXT DIR...\n");
        return 2;
    }
    char *one;
    size_t n;
    struct mint_err err;
    struct mint_buf text = MINT_BUF_INIT;
    if (mint_fs_read_file(argv[1], (size_t)64 << 20, &one, &n, &err) || n == 0) {
        fprintf(stderr, "bench_tokenizer: %s\n", n ? err.msg : "the text is empty");
        return 1;
    }
    while (text.len < (size_t)8 << 20)
        mint_buf_add(&text, one, n);
    int bad = 0;
    for (int i = 2; i < argc; i++)
        bad |= bench(argv[i], &text);
    mint_buf_release(&text);
    free(one);
    return bad;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any bytes are a gold answer (the first line) and a response (the rest). Nothing may crash or pass
 * its budget, and what has been read is equal to itself.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "math_equal.h"
#include "math_eval.h"
#include "math_extract.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static void must(bool ok)
{
    if (!ok)
        abort();
}

static void inside(const struct mint_math_found *f, const char *s, size_t n)
{
    must(f->why && (!f->s || (f->s >= s && f->s + f->n <= s + n && f->n > 0)));
}

static void compare(struct mint_math *m, const struct mint_math_found *a,
                    const struct mint_math_found *b)
{
    struct mint_math_reading x, y, z;
    const char *why;
    struct mint_buf text = MINT_BUF_INIT;
    mint_math_reset(m);
    mint_math_read(m, b->s, b->n, false, &y);
    mint_math_read(m, a->s, a->n, a->phrase, &x);
    mint_math_equal(m, &x, &y, &why);
    must(why && m->steps >= 0);
    mint_math_canon(&x, &text);
    /* the same text in another place */
    char *copy = mint_xmalloc(a->n);
    memcpy(copy, a->s, a->n);
    mint_math_reset(m);
    mint_math_read(m, a->s, a->n, false, &x);
    mint_math_read(m, copy, a->n, false, &z);
    if (x.toks.n)
        must(mint_math_equal(m, &x, &z, &why));
    free(copy);
    mint_buf_release(&text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    struct mint_math m = {0};
    struct mint_math_found gold, found;
    const char *s = (const char *)data, *line = n ? memchr(s, '\n', n) : NULL;
    size_t g = line ? (size_t)(line - s) : n, at = line ? g + 1 : n;
    mint_math_reset(&m);
    mint_math_extract_gold(s, g, &gold);
    inside(&gold, s, g);
    for (int rule = MINT_MATH_AUTO; rule <= MINT_MATH_WHOLE; rule++) {
        mint_math_extract(s + at, n - at, (enum mint_math_rule)rule, n % 2, &found);
        inside(&found, s + at, n - at);
        if (found.s && gold.s)
            compare(&m, &found, &gold);
    }
    mint_math_release(&m);
    mint_math_eval_done();
    return 0;
}

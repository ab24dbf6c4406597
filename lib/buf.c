/* SPDX-License-Identifier: Apache-2.0 */
#include "buf.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mem.h"

void mint_buf_reserve(struct mint_buf *b, size_t more)
{
    if (b->cap - b->len > more)
        return;
    size_t need = b->len + more + 1;
    if (need < more)
        need = SIZE_MAX; /* fatal in mem.c */
    b->cap = MINT_MAX(need, MINT_MAX(b->cap + b->cap / 2, (size_t)64));
    b->data = mint_xrealloc(b->data, b->cap);
}

void mint_buf_add(struct mint_buf *b, const void *p, size_t n)
{
    mint_buf_reserve(b, n);
    if (n)
        memcpy(b->data + b->len, p, n);
    b->len += n;
    b->data[b->len] = '\0';
}

void mint_buf_addc(struct mint_buf *b, char c)
{
    mint_buf_add(b, &c, 1);
}

void mint_buf_adds(struct mint_buf *b, const char *s)
{
    mint_buf_add(b, s, strlen(s));
}

void mint_buf_addf(struct mint_buf *b, const char *fmt, ...)
{
    va_list ap, again;
    va_start(ap, fmt);
    va_copy(again, ap);
    int n = vsnprintf(NULL, 0, fmt, ap);
    va_end(ap);
    mint_buf_reserve(b, (size_t)n);
    vsnprintf(b->data + b->len, (size_t)n + 1, fmt, again);
    va_end(again);
    b->len += (size_t)n;
}

void mint_buf_reset(struct mint_buf *b)
{
    b->len = 0;
    if (b->data)
        b->data[0] = '\0';
}

void mint_buf_release(struct mint_buf *b)
{
    free(b->data);
    *b = (struct mint_buf)MINT_BUF_INIT;
}

char *mint_buf_detach(struct mint_buf *b)
{
    mint_buf_reserve(b, 0);
    b->data[b->len] = '\0';
    char *p = b->data;
    *b = (struct mint_buf)MINT_BUF_INIT;
    return p;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "mem.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void (*mint_mem_on_fatal)(void);

MINT_NORETURN static void fatal(size_t n)
{
    if (mint_mem_on_fatal)
        mint_mem_on_fatal();
    fprintf(stderr, "out of memory: cannot allocate %zu bytes\n", n);
    _exit(1);
}

void *mint_xmalloc(size_t n)
{
    void *p = malloc(n ? n : 1);
    if (!p)
        fatal(n);
    return p;
}

void *mint_xcalloc(size_t n, size_t size)
{
    void *p = calloc(n ? n : 1, size ? size : 1);
    if (!p)
        fatal(n);
    return p;
}

void *mint_xrealloc(void *p, size_t n)
{
    void *q = realloc(p, n ? n : 1);
    if (!q)
        fatal(n);
    return q;
}

void *mint_xreallocarray(void *p, size_t n, size_t size)
{
    size_t bytes;
    if (__builtin_mul_overflow(n, size, &bytes))
        fatal(SIZE_MAX);
    return mint_xrealloc(p, bytes);
}

char *mint_xstrndup(const char *s, size_t n)
{
    char *p = mint_xmalloc(n + 1);
    memcpy(p, s, n);
    p[n] = '\0';
    return p;
}

char *mint_xstrdup(const char *s)
{
    return mint_xstrndup(s, strlen(s));
}

char *mint_xasprintf(const char *fmt, ...)
{
    va_list ap, again;
    va_start(ap, fmt);
    va_copy(again, ap);
    int n = vsnprintf(NULL, 0, fmt, ap);
    va_end(ap);
    char *p = mint_xmalloc((size_t)n + 1);
    vsnprintf(p, (size_t)n + 1, fmt, again);
    va_end(again);
    return p;
}

struct mint_arena_block {
    struct mint_arena_block *next;
    size_t used, cap;
    char pad[8]; /* keeps data 16-byte aligned behind a malloc'ed header */
    char data[];
};
_Static_assert(sizeof(struct mint_arena_block) % 16 == 0, "arena data must stay 16-byte aligned");

void *mint_arena_alloc(struct mint_arena *a, size_t n)
{
    struct mint_arena_block *b = a->head;
    if (n > SIZE_MAX / 4)
        fatal(n);
    n = (n + 15) & ~(size_t)15;
    if (!b || b->cap - b->used < n) {
        size_t cap = MINT_MAX(b ? 2 * b->cap : 4096, n);
        struct mint_arena_block *fresh = mint_xmalloc(sizeof *fresh + cap);
        fresh->next = b;
        fresh->used = 0;
        fresh->cap = cap;
        a->head = b = fresh;
    }
    void *p = b->data + b->used;
    b->used += n;
    return p;
}

char *mint_arena_strndup(struct mint_arena *a, const char *s, size_t n)
{
    char *p = mint_arena_alloc(a, n + 1);
    memcpy(p, s, n);
    p[n] = '\0';
    return p;
}

/* Blocks grow, so the head is the largest one. */
static void free_chain(struct mint_arena_block *b)
{
    while (b) {
        struct mint_arena_block *next = b->next;
        free(b);
        b = next;
    }
}

void mint_arena_reset(struct mint_arena *a)
{
    if (!a->head)
        return;
    free_chain(a->head->next);
    a->head->next = NULL;
    a->head->used = 0;
}

void mint_arena_release(struct mint_arena *a)
{
    free_chain(a->head);
    a->head = NULL;
}

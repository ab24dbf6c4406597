/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mem.h: host memory. Allocation cannot fail for the caller: out of memory says so, removes the
 * registered temporary files (fs.h) and ends the process with status 1. mint_x* results are
 * freed with free(). Thread-safe, except that an arena belongs to one thread at a time.
 */
#ifndef MINT_MEM_H
#define MINT_MEM_H

#include "base.h"

void *mint_xmalloc(size_t n);
void *mint_xcalloc(size_t n, size_t size); /* zeroed; n * size is checked for overflow */
void *mint_xrealloc(void *p, size_t n);
void *mint_xreallocarray(void *p, size_t n, size_t size);
char *mint_xstrdup(const char *s);
char *mint_xstrndup(const char *s, size_t n);
char *mint_xasprintf(const char *fmt, ...) MINT_PRINTF(1, 2);

/* Set by fs.c: called once before the process ends for want of memory. */
extern void (*mint_mem_on_fatal)(void);

/*
 * Arena: many small things with one lifetime. Memory is 16-byte aligned and lives until reset or
 * release. reset keeps the largest block, so that a loop over records stops allocating.
 */
struct mint_arena {
    struct mint_arena_block *head;
};
#define MINT_ARENA_INIT \
    {                   \
        NULL            \
    }
void *mint_arena_alloc(struct mint_arena *a, size_t n);
char *mint_arena_strndup(struct mint_arena *a, const char *s, size_t n);
void mint_arena_reset(struct mint_arena *a);
void mint_arena_release(struct mint_arena *a);

#endif

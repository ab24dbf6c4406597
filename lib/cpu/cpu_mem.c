/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cpu_mem.c: memory of the CPU backend. Page faults of 4 KiB pages cost more than the work on them,
 * so everything large lies on its own mapping that asks for huge pages.
 */
#include "cpu.h"

#include "../mem.h"
#include "cpu_ops.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define HUGE_PAGE ((size_t)2 << 20)
#define ALIGN     64

/* In front of every block; map NULL: from malloc. */
struct header {
    void *map;
    size_t map_bytes;
};
_Static_assert(sizeof(struct header) <= ALIGN, "the header lies in the 64 bytes before the data");

static struct header *header_of(void *p)
{
    return (struct header *)(void *)((char *)p - ALIGN);
}

static void *small_alloc(size_t bytes)
{
    char *block = aligned_alloc(ALIGN, (bytes + 2 * ALIGN - 1) / ALIGN * ALIGN);
    if (!block)
        return NULL;
    memset(block, 0, bytes + ALIGN);
    return block + ALIGN;
}

void *cpu_big_alloc(size_t bytes)
{
    if (bytes < HUGE_PAGE)
        return small_alloc(bytes);
    if (bytes > SIZE_MAX / 2)
        return NULL;
    size_t need = (bytes + HUGE_PAGE - 1) & ~(HUGE_PAGE - 1);
    size_t total = need + HUGE_PAGE + ALIGN; /* wherever it starts, all fits around a boundary */
    char *map = mmap(NULL, total, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (map == MAP_FAILED)
        return NULL;
    /* The header lies before the boundary: a weight of 4 MiB shall not take three huge pages. */
    char *base = (char *)(((uintptr_t)map + ALIGN + HUGE_PAGE - 1) & ~(uintptr_t)(HUGE_PAGE - 1));
#ifdef MADV_HUGEPAGE
    madvise(base, need, MADV_HUGEPAGE); /* a wish: without it we are slower, not wrong */
#endif
    struct header *h = header_of(base);
    h->map = map;
    h->map_bytes = total;
    return base;
}

void cpu_big_free(void *p)
{
    if (!p)
        return;
    struct header *h = header_of(p);
    if (h->map)
        munmap(h->map, h->map_bytes);
    else
        free(h);
}

/* Host memory that is missing ends the process, as in mem.c. */
static void *grow(void **p, size_t *have, size_t bytes)
{
    if (*have >= bytes && *p)
        return *p;
    bytes = MINT_MAX(bytes, *have + *have / 2);
    cpu_big_free(*p);
    *p = cpu_big_alloc(bytes);
    if (!*p)
        free(mint_xcalloc(bytes, SIZE_MAX / 2)); /* reports the want of memory */
    *have = bytes;
    return *p;
}

void *cpu_scratch(struct cpu_dev *d, int thread, size_t bytes)
{
    return grow(&d->scratch[thread], &d->scratch_bytes[thread], bytes);
}

void *cpu_panel_scratch(struct cpu_dev *d, int thread, size_t bytes)
{
    return grow(&d->panels[thread], &d->panels_bytes[thread], bytes);
}

void *cpu_work(struct cpu_dev *d, size_t bytes)
{
    return grow(&d->work, &d->work_bytes, bytes);
}

void *cpu_alloc(struct mint_dev *d, size_t bytes, struct mint_err *err)
{
    (void)d;
    void *p = cpu_big_alloc(bytes);
    if (!p)
        mint_fail(err, MINT_ENOMEM, "out of memory: cannot allocate %zu bytes", bytes);
    return p;
}

void cpu_free(struct mint_dev *d, void *p)
{
    (void)d;
    cpu_big_free(p);
}

int cpu_copy(struct mint_dev *d, void *dst, const void *src, size_t bytes, struct mint_err *err)
{
    (void)d;
    (void)err;
    if (bytes)
        memmove(dst, src, bytes);
    return 0;
}

int cpu_upload(struct mint_dev *d, void *dst, const void *host, size_t bytes, struct mint_err *err)
{
    return cpu_copy(d, dst, host, bytes, err);
}

int cpu_download(struct mint_dev *d, void *host, const void *src, size_t bytes,
                 struct mint_err *err)
{
    return cpu_copy(d, host, src, bytes, err);
}

int cpu_zero(struct mint_dev *d, void *p, size_t bytes, struct mint_err *err)
{
    (void)d;
    (void)err;
    if (bytes)
        memset(p, 0, bytes);
    return 0;
}

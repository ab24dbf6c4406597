/* SPDX-License-Identifier: Apache-2.0 */
/*
 * buf.h: a growing byte buffer. data[len] is always '\0' once anything was added, so text can be
 * used as a C string; before that data is NULL. The owner calls release; detach gives the memory
 * away (free it with free()). Growth doubles; out of memory is fatal (mem.h). Not thread-safe.
 */
#ifndef MINT_BUF_H
#define MINT_BUF_H

#include "base.h"

struct mint_buf {
    char *data;
    size_t len, cap;
};
#define MINT_BUF_INIT \
    {                 \
        NULL, 0, 0    \
    }

void mint_buf_reserve(struct mint_buf *b, size_t more); /* room for more bytes and the '\0' */
void mint_buf_add(struct mint_buf *b, const void *p, size_t n);
void mint_buf_addc(struct mint_buf *b, char c);
void mint_buf_adds(struct mint_buf *b, const char *s);
void mint_buf_addf(struct mint_buf *b, const char *fmt, ...) MINT_PRINTF(2, 3);
void mint_buf_reset(struct mint_buf *b);   /* len = 0, memory kept */
void mint_buf_release(struct mint_buf *b); /* memory freed, as after INIT */
char *mint_buf_detach(struct mint_buf *b); /* never NULL */

#endif

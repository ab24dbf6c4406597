/* SPDX-License-Identifier: Apache-2.0 */
/* A mint_reader over text, for the tests of what reads records. Include after cmocka.h. */
#ifndef TEXT_READER_H
#define TEXT_READER_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "record.h"

struct text_reader {
    char path[512];
    const char *paths[1];
    struct mint_reader r;
};

static inline void text_open(struct text_reader *t, const char *text, bool skip_bad)
{
    const char *dir = getenv("TMPDIR");
    snprintf(t->path, sizeof(t->path), "%s/mint-record-XXXXXX", dir ? dir : "/tmp");
    int fd = mkstemp(t->path);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, strlen(text)), (ssize_t)strlen(text));
    close(fd);
    t->paths[0] = t->path;
    mint_reader_init(&t->r, t->paths, 1, skip_bad);
}

static inline void text_close(struct text_reader *t)
{
    mint_reader_close(&t->r);
    unlink(t->path);
}

#endif

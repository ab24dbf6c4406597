/* SPDX-License-Identifier: Apache-2.0 */
#include "err.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Copies src into dst, control bytes as \xNN, cut to what fits. */
static void copy_escaped(char *dst, size_t cap, const char *src)
{
    size_t at = 0;
    for (; *src; src++) {
        unsigned char c = (unsigned char)*src;
        bool control = c < 0x20 || c == 0x7f;
        size_t need = control ? 4 : 1;
        if (at + need >= cap)
            break;
        if (control)
            at += (size_t)snprintf(dst + at, cap - at, "\\x%02x", c);
        else
            dst[at++] = (char)c;
    }
    dst[at] = '\0';
}

MINT_PRINTF(3, 0)
static void fill(struct mint_err *err, enum mint_code code, const char *fmt, va_list ap)
{
    char raw[sizeof err->msg];
    vsnprintf(raw, sizeof raw, fmt, ap);
    err->code = code;
    copy_escaped(err->msg, sizeof err->msg, raw);
}

int mint_fail(struct mint_err *err, enum mint_code code, const char *fmt, ...)
{
    if (!err)
        return -1;
    va_list ap;
    va_start(ap, fmt);
    fill(err, code, fmt, ap);
    va_end(ap);
    return -1;
}

int mint_fail_errno(struct mint_err *err, const char *fmt, ...)
{
    int saved = errno;
    if (!err)
        return -1;
    va_list ap;
    va_start(ap, fmt);
    fill(err, MINT_EIO, fmt, ap);
    va_end(ap);
    size_t n = strlen(err->msg);
    snprintf(err->msg + n, sizeof err->msg - n, ": %s", strerror(saved));
    return -1;
}

int mint_wrap(struct mint_err *err, const char *fmt, ...)
{
    if (!err)
        return -1;
    char old[sizeof err->msg], raw[sizeof err->msg];
    memcpy(old, err->msg, sizeof old);
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(raw, sizeof raw, fmt, ap);
    va_end(ap);
    copy_escaped(err->msg, sizeof err->msg, raw);
    size_t n = strlen(err->msg);
    if (n < sizeof err->msg - 1)
        snprintf(err->msg + n, sizeof err->msg - n, "%.*s", (int)(sizeof err->msg - n - 1), old);
    return -1;
}

void mint_bug(const char *file, int line, const char *fmt, ...)
{
    char raw[512];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(raw, sizeof raw, fmt, ap);
    va_end(ap);
    fprintf(stderr, "bug: %s:%d: %s; please report it with the command that shows it\n", file, line,
            raw);
    abort();
}

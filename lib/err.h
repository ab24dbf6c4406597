/* SPDX-License-Identifier: Apache-2.0 */
/*
 * err.h: the error value. Library code neither prints nor exits: a function that can fail
 * returns int, 0 for success and -1 with *err filled; an iterator returns 1, 0 or -1
 * (one more, end, error). A caller that knows more prepends it with mint_wrap, so that the
 * finished message reads "datums.jsonl.zst:17: loss_fn_inputs.logprobs has 31 values, 33 expected".
 * Messages have no capital and no full stop; user text in them is escaped by mint_fail (control
 * bytes become \xNN). err may be NULL where the caller does not care. Not thread-safe per value.
 */
#ifndef MINT_ERR_H
#define MINT_ERR_H

#include "base.h"

enum mint_code {
    MINT_OK = 0,
    MINT_EUSAGE,  /* wrong options: exit status 2 */
    MINT_EIO,     /* open, read, write, rename */
    MINT_EFORMAT, /* not JSON, not zstd, not safetensors */
    MINT_ETRUNC,  /* input ends too early: its writer did not finish */
    MINT_ESCHEMA, /* well-formed, but not the record that was expected */
    MINT_EMODEL,  /* model folder or checkpoint does not fit */
    MINT_EDEVICE, /* no such device, or it failed */
    MINT_ENOMEM,  /* device memory; host memory is fatal in mem.c */
    MINT_ELOCKED, /* somebody else holds the lock */
};

struct mint_err {
    enum mint_code code;
    char msg[1024];
};

/* Fill *err and return -1, so that a function can end with: return mint_fail(err, ...). */
int mint_fail(struct mint_err *err, enum mint_code code, const char *fmt, ...) MINT_PRINTF(3, 4);
/* The same with MINT_EIO and ": " + strerror(errno) behind the text. */
int mint_fail_errno(struct mint_err *err, const char *fmt, ...) MINT_PRINTF(2, 3);
/* Put text before the message that is there. Returns -1. */
int mint_wrap(struct mint_err *err, const char *fmt, ...) MINT_PRINTF(2, 3);

/* Pass a failure up; *err is filled already. */
#define MINT_TRY(call)  \
    do {                \
        if ((call) < 0) \
            return -1;  \
    } while (0)

/* A broken invariant: says where on stderr and aborts. Never for bad input. */
#define MINT_BUG(...) mint_bug(__FILE__, __LINE__, __VA_ARGS__)
void mint_bug(const char *file, int line, const char *fmt, ...) MINT_NORETURN MINT_PRINTF(3, 4);

#endif

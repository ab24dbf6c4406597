/* SPDX-License-Identifier: Apache-2.0 */
/*
 * zio_impl.h: inside of zio.h: what reading and writing share.
 *
 * A relay hands pieces of a stream from one thread to another, in their order, through a ring of a
 * few buffers: memory is bounded, and the quicker side waits. One thread gives, one takes; either
 * may close. What the giver wrote before give is there for the taker after next, and the other way
 * round with done and room.
 */
#ifndef MINT_ZIO_IMPL_H
#define MINT_ZIO_IMPL_H

#include "base.h"

#define MINT_ZIO_CHUNK ((size_t)256 << 10) /* read, decompressed, compressed, written at a time */
#define MINT_ZIO_LONG  ((size_t)1 << 20)   /* a text of this size is worth a thread */
#define MINT_ZIO_MAGIC "\x28\xb5\x2f\xfd"  /* what a zstd frame begins with */
enum { MINT_ZIO_MAGIC_BYTES = 4 };

struct mint_piece {
    char *data; /* room for MINT_ZIO_CHUNK bytes */
    size_t n;
    int how;        /* reading: 1, 0 the end, -1 a fault; writing: a ZSTD_EndDirective */
    uint64_t bytes; /* reading: taken from the file so far */
};

struct mint_relay;
/* Runs work(relay, arg), which gives or takes, in a new thread that gets no signals but its own.
 * NULL if this process has one CPU only, or no thread can be had: do the work yourself. apart:
 * never on the CPU that this thread is on now; for work that takes as long as all the rest. */
struct mint_relay *mint_relay_start(void (*work)(struct mint_relay *r, void *arg), void *arg,
                                    bool apart);
/* Giver: an empty piece, after waiting for one; NULL once the relay is closed. Then give it. */
struct mint_piece *mint_relay_room(struct mint_relay *r);
void mint_relay_give(struct mint_relay *r);
/* Taker: the next piece, after waiting for it; NULL if the relay is closed and all is taken. Then
 * done with it. */
struct mint_piece *mint_relay_next(struct mint_relay *r);
void mint_relay_done(struct mint_relay *r);
void mint_relay_close(struct mint_relay *r);
/* By who started it: closes, waits until work has returned, frees. NULL is fine. */
void mint_relay_join(struct mint_relay *r);

#endif

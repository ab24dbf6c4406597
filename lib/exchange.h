/* SPDX-License-Identifier: Apache-2.0 */
/*
 * exchange.h: buffers of devices between the processes of a job: from device to device where the
 * backend has a way (peers of backend.h), else through host memory and the job's own messages.
 * Every process makes the same calls, as far as they concern it; all have devices of one kind.
 */
#ifndef MINT_EXCHANGE_H
#define MINT_EXCHANGE_H

#include "backend.h"
#include "ranks.h"

struct mint_exchange;

/* Every process calls it, and gets a failure of any (mint_ranks_agree). With -v the first one says
 * which way the bytes go, and why not from device to device. dev and ranks outlive it. */
int mint_exchange_open(struct mint_exchange **x, struct mint_dev *dev, struct mint_ranks *ranks,
                       struct mint_err *err);
/* "NCCL 2.27.3", or "host memory". */
const char *mint_exchange_way(const struct mint_exchange *x);
/* Waits for nobody. NULL is fine. */
void mint_exchange_close(struct mint_exchange *x);

/*
 * p of the sender becomes p of process `to`, or of all. Sends and receives come in an order that
 * all have in common: of any two transfers, those who take part in both have the same one first.
 * Those between begin and end may go at the same time; received bytes are there after end.
 */
int mint_exchange_begin(struct mint_exchange *x, struct mint_err *err);
int mint_exchange_end(struct mint_exchange *x, struct mint_err *err);
int mint_exchange_send(struct mint_exchange *x, int to, const void *p, size_t bytes,
                       struct mint_err *err);
int mint_exchange_recv(struct mint_exchange *x, int from, void *p, size_t bytes,
                       struct mint_err *err);
int mint_exchange_bcast(struct mint_exchange *x, int root, void *p, size_t bytes,
                        struct mint_err *err);
/* Until all that was begun is done, by every process. */
int mint_exchange_wait(struct mint_exchange *x, struct mint_err *err);

#endif

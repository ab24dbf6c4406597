/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ranks.h: the processes of one job under mpirun, and what they tell each other.
 *
 * MPI is a plugin (mint-mpi.so), loaded only where a launcher says that there are several
 * processes: a program that runs alone neither links nor opens it. Messages are bytes in the
 * machine's own order, and all calls are made by one thread. A process that fails must call
 * mint_ranks_abort, or the others would wait for it for ever; MPI itself ends the job when one
 * dies.
 */
#ifndef MINT_RANKS_H
#define MINT_RANKS_H

#include "base.h"
#include "err.h"

struct mint_ranks {
    int rank, size; /* 0 <= rank < size */
    bool failed;    /* all know of it and end by themselves: mint_ranks_agree */
    const struct mint_ranks_ops *ops;
};

/* What a plugin exports by the symbol mint_ranks_entry. */
#define MINT_RANKS_ABI    1
#define MINT_RANKS_SYMBOL "mint_ranks_entry"
struct mint_ranks_ops {
    int abi; /* MINT_RANKS_ABI; the first member for ever */
    int (*open)(int *rank, int *size);
    int (*send)(int to, const void *p, size_t n);
    int (*recv)(int from, void *p, size_t n);
    int (*bcast)(int root, void *p, size_t n);
    void (*abort)(int status);
    void (*close)(void);
};
typedef const struct mint_ranks_ops *mint_ranks_entry_fn(void);

/* The number of this process among those that a launcher (Open MPI, MPICH, Slurm) started on this
 * machine, as the environment says; alone 0. */
int mint_ranks_local(void);

/* The job that this process belongs to; alone it is rank 0 of 1. Fails where a launcher started
 * several, but MPI is not built in, or not to be had. */
int mint_ranks_open(struct mint_ranks *r, struct mint_err *err);
/* Waits for all others. */
void mint_ranks_close(struct mint_ranks *r);
/* Ends every process of the job with this status, if there are several that do not know of it. */
void mint_ranks_abort(const struct mint_ranks *r, int status);

/* Point to point, in order; n is the same on both sides. */
int mint_ranks_send(const struct mint_ranks *r, int to, const void *p, size_t n,
                    struct mint_err *err);
int mint_ranks_recv(const struct mint_ranks *r, int from, void *p, size_t n, struct mint_err *err);
/* p of root becomes p of all. */
int mint_ranks_bcast(const struct mint_ranks *r, int root, void *p, size_t n, struct mint_err *err);
/* Every process says how it fared: rc, and err where that is < 0. 0, if all did well; else -1 on
 * all, with the error of the first that failed. It is for rank 0 to tell. */
int mint_ranks_agree(struct mint_ranks *r, int rc, struct mint_err *err);
/* Standard input, which a launcher gives to rank 0 alone, becomes that of all: it is read to its
 * end and then stands in memory. */
int mint_ranks_share_stdin(const struct mint_ranks *r, struct mint_err *err);

#endif

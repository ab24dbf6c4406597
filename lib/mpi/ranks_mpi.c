/* SPDX-License-Identifier: Apache-2.0 */
/* ranks_mpi.c: ranks.h over MPI, as a plugin. The errors of MPI end the job: that is its default,
 * and what is wanted. */
#include <mpi.h>

#include "ranks.h"

/* MPI counts in int. */
enum { PIECE = 1 << 28 };

static int world(int *rank, int *size)
{
    if (MPI_Init(NULL, NULL) != MPI_SUCCESS)
        return -1;
    MPI_Comm_rank(MPI_COMM_WORLD, rank);
    MPI_Comm_size(MPI_COMM_WORLD, size);
    return 0;
}

static int post(int to, const void *p, size_t n)
{
    for (const char *at = p; n > 0;) {
        int piece = (int)MINT_MIN(n, (size_t)PIECE);
        if (MPI_Send(at, piece, MPI_BYTE, to, 0, MPI_COMM_WORLD) != MPI_SUCCESS)
            return -1;
        at += piece;
        n -= (size_t)piece;
    }
    return 0;
}

static int receive(int from, void *p, size_t n)
{
    for (char *at = p; n > 0;) {
        int piece = (int)MINT_MIN(n, (size_t)PIECE);
        if (MPI_Recv(at, piece, MPI_BYTE, from, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE) !=
            MPI_SUCCESS)
            return -1;
        at += piece;
        n -= (size_t)piece;
    }
    return 0;
}

static int broadcast(int root, void *p, size_t n)
{
    for (char *at = p; n > 0;) {
        int piece = (int)MINT_MIN(n, (size_t)PIECE);
        if (MPI_Bcast(at, piece, MPI_BYTE, root, MPI_COMM_WORLD) != MPI_SUCCESS)
            return -1;
        at += piece;
        n -= (size_t)piece;
    }
    return 0;
}

static void end_all(int status)
{
    MPI_Abort(MPI_COMM_WORLD, status);
}

static void leave(void)
{
    MPI_Finalize();
}

__attribute__((visibility("default"))) const struct mint_ranks_ops *mint_ranks_entry(void);

const struct mint_ranks_ops *mint_ranks_entry(void)
{
    static const struct mint_ranks_ops ops = {MINT_RANKS_ABI, world,   post, receive,
                                              broadcast,      end_all, leave};
    return &ops;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * nccl_calls.h: what the plugin uses of NCCL 2, by its interface, so that no header of NCCL is
 * needed to build. tests/kernels/types_nccl.cpp compares these with NCCL's own declarations, where
 * they are installed. NCCL_CALLS(F): F(name, parameters) for each function, all of which return a
 * status.
 */
#ifndef MINT_NCCL_CALLS_H
#define MINT_NCCL_CALLS_H

#include <stddef.h>

#define MINT_NCCL_SONAME "libnccl.so.2"

/* ncclResult_t */
enum { MINT_NCCL_SUCCESS = 0, MINT_NCCL_REMOTE_ERROR = 6, MINT_NCCL_IN_PROGRESS = 7 };
enum { MINT_NCCL_BYTES = 0 }; /* ncclDataType_t: ncclInt8 */
struct mint_nccl_id {
    char internal[128];
};
struct mint_nccl_comm; /* ncclComm_t points to one */

#define NCCL_CALLS(F)                                                                            \
    F(ncclGetVersion, (int *version))                                                            \
    F(ncclGetUniqueId, (struct mint_nccl_id * id))                                               \
    F(ncclCommInitRank,                                                                          \
      (struct mint_nccl_comm * *comm, int nranks, struct mint_nccl_id id, int rank))             \
    F(ncclCommAbort, (struct mint_nccl_comm * comm))                                             \
    F(ncclCommGetAsyncError, (struct mint_nccl_comm * comm, int *status))                        \
    F(ncclSend, (const void *p, size_t n, int type, int to, struct mint_nccl_comm *comm,         \
                 cudaStream_t stream))                                                           \
    F(ncclRecv,                                                                                  \
      (void *p, size_t n, int type, int from, struct mint_nccl_comm *comm, cudaStream_t stream)) \
    F(ncclBroadcast, (const void *from, void *to, size_t n, int type, int root,                  \
                      struct mint_nccl_comm *comm, cudaStream_t stream))                         \
    F(ncclGroupStart, (void))                                                                    \
    F(ncclGroupEnd, (void))

struct mint_nccl {
#define F(name, parameters) int(*name) parameters;
    NCCL_CALLS(F)
#undef F
    const char *(*ncclGetErrorString)(int status);
};

#endif

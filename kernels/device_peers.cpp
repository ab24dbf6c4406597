// SPDX-License-Identifier: Apache-2.0
/*
 * device_peers.cpp: between the GPUs of several processes, by NCCL, which is opened by name when
 * there are several. Only its copies are used, point to point and from one to all: who adds what
 * is the caller's to say, since NCCL's own sums depend on the number of processes.
 */
#include "device.h"
#include "nccl_calls.h"

extern "C" {
#include "mem.h"
}

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <unistd.h>

#ifdef MINT_GPU
#define SONAME MINT_NCCL_SONAME
#else
#define SONAME "libnccl-emulated.so" /* tests/kernels/emu_nccl.cpp */
#endif
#define POLL_US 50
#define YIELD_S 1

struct cuda_comm {
    struct mint_nccl f;
    struct mint_nccl_comm *comm; /* NULL: not open */
    bool grouped;                /* between begin and end */
};

/* Who sees that another process failed lets that one speak first, and end the job. */
static int check(const struct cuda_comm *c, int status, const char *what, struct mint_err *err)
{
    if (status == MINT_NCCL_SUCCESS)
        return 0;
    if (status == MINT_NCCL_REMOTE_ERROR)
        sleep(YIELD_S);
    return mint_fail(err, MINT_EDEVICE, "NCCL failed at %s: %s", what,
                     c->f.ncclGetErrorString(status));
}

static int find_calls(struct mint_nccl *f, struct mint_err *err)
{
    void *so = dlopen(SONAME, RTLD_NOW | RTLD_LOCAL);
    if (!so)
        return mint_fail(err, MINT_EDEVICE, "NCCL is missing: %s", dlerror());
#define F(name, parameters)                \
    *(void **)&f->name = dlsym(so, #name); \
    if (!f->name)                          \
        return mint_fail(err, MINT_EDEVICE, SONAME " has no " #name ": it is too old");
    NCCL_CALLS(F)
    F(ncclGetErrorString, )
#undef F
    return 0;
}

static int prepare(struct mint_dev *dev, bool make, char id[MINT_PEERS_ID], struct mint_err *err)
{
    struct cuda_dev *d = cuda_dev(dev);
    const char *wish = getenv("MINT_NCCL");
    struct mint_nccl_id fresh = {};
    static_assert(sizeof fresh.internal == MINT_PEERS_ID, "an id is one of NCCL's");
    if (wish && strcmp(wish, "0") == 0)
        return mint_fail(err, MINT_EDEVICE, "MINT_NCCL is 0");
    struct cuda_comm *c = (struct cuda_comm *)mint_xcalloc(1, sizeof *c);
    if (find_calls(&c->f, err) != 0 ||
        (make && check(c, c->f.ncclGetUniqueId(&fresh), "its start", err) != 0)) {
        free(c);
        return -1;
    }
    memcpy(id, fresh.internal, MINT_PEERS_ID);
    d->comm = c;
    return 0;
}

static int open_comm(struct mint_dev *dev, const char id[MINT_PEERS_ID], int rank, int size,
                     char *way, size_t n, struct mint_err *err)
{
    struct cuda_comm *c = cuda_dev(dev)->comm;
    struct mint_nccl_id of_all;
    int version = 0;
    memcpy(of_all.internal, id, MINT_PEERS_ID);
    MINT_TRY(check(c, c->f.ncclGetVersion(&version), "its version", err));
    MINT_TRY(
        check(c, c->f.ncclCommInitRank(&c->comm, size, of_all, rank), "finding the others", err));
    /* 2.9.0 and later: 20900; before: 2804 */
    int major = version < 10000 ? 1000 : 10000;
    snprintf(way, n, "NCCL %d.%d.%d", version / major, version % major / 100, version % 100);
    return 0;
}

static int begin(struct mint_dev *dev, struct mint_err *err)
{
    struct cuda_comm *c = cuda_dev(dev)->comm;
    MINT_TRY(check(c, c->f.ncclGroupStart(), "a group's start", err));
    c->grouped = true;
    return 0;
}

static int end(struct mint_dev *dev, struct mint_err *err)
{
    struct cuda_comm *c = cuda_dev(dev)->comm;
    c->grouped = false;
    return check(c, c->f.ncclGroupEnd(), "a group of copies", err);
}

static int send(struct mint_dev *dev, int to, const void *p, size_t bytes, struct mint_err *err)
{
    const struct cuda_dev *d = cuda_dev(dev);
    return check(d->comm,
                 d->comm->f.ncclSend(p, bytes, MINT_NCCL_BYTES, to, d->comm->comm, d->stream),
                 "a send", err);
}

static int receive(struct mint_dev *dev, int from, void *p, size_t bytes, struct mint_err *err)
{
    const struct cuda_dev *d = cuda_dev(dev);
    return check(d->comm,
                 d->comm->f.ncclRecv(p, bytes, MINT_NCCL_BYTES, from, d->comm->comm, d->stream),
                 "a receive", err);
}

static int broadcast(struct mint_dev *dev, int root, void *p, size_t bytes, struct mint_err *err)
{
    const struct cuda_dev *d = cuda_dev(dev);
    return check(
        d->comm,
        d->comm->f.ncclBroadcast(p, p, bytes, MINT_NCCL_BYTES, root, d->comm->comm, d->stream),
        "a broadcast", err);
}

/* The stream alone would wait for ever for a process that is lost. */
static int wait_all(struct mint_dev *dev, struct mint_err *err)
{
    const struct cuda_dev *d = cuda_dev(dev);
    const struct cuda_comm *c = d->comm;
    for (;;) {
        int status = MINT_NCCL_SUCCESS;
        cudaError_t e = cudaStreamQuery(d->stream);
        MINT_TRY(check(c, c->f.ncclCommGetAsyncError(c->comm, &status), "its own state", err));
        if (status != MINT_NCCL_IN_PROGRESS)
            MINT_TRY(check(c, status, "a copy between the GPUs", err));
        if (e != cudaErrorNotReady)
            return cuda_check(e, "copies between the GPUs", err);
        usleep(POLL_US);
    }
}

void cuda_peers_close(struct mint_dev *dev)
{
    struct cuda_dev *d = cuda_dev(dev);
    struct cuda_comm *c = d->comm;
    if (!c)
        return;
    if (c->grouped)
        c->f.ncclGroupEnd();
    if (c->comm)
        c->f.ncclCommAbort(c->comm);
    free(c);
    d->comm = NULL;
}

const struct mint_peer_ops *cuda_peers(void)
{
    static const struct mint_peer_ops ops = {
        .prepare = prepare,
        .open = open_comm,
        .begin = begin,
        .end = end,
        .send = send,
        .recv = receive,
        .bcast = broadcast,
        .wait = wait_all,
        .close = cuda_peers_close,
    };
    return &ops;
}

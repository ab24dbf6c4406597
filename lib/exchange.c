/* SPDX-License-Identifier: Apache-2.0 */
#include "exchange.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "log.h"
#include "mem.h"

struct mint_exchange {
    struct mint_dev *dev;
    struct mint_ranks *ranks;
    const struct mint_peer_ops *peers; /* NULL: through host memory */
    char way[64];
    void *host;
    size_t room; /* of host */
};

/* Gradients of one job are added bit for bit, so all have to compute alike. */
static int check_kinds(const struct mint_exchange *x, struct mint_err *err)
{
    struct mint_ranks *r = x->ranks;
    char first[sizeof x->dev->kind];
    memcpy(first, x->dev->kind, sizeof first);
    MINT_TRY(mint_ranks_bcast(r, 0, first, sizeof first, err));
    int rc = 0;
    if (memcmp(first, x->dev->kind, strlen(first) + 1) != 0)
        rc = mint_fail(err, MINT_EDEVICE,
                       "process %d computes by %s, the first one by %s: the gradients of one job "
                       "must come from devices of one kind; choose it with --device",
                       r->rank, x->dev->kind, first);
    return mint_ranks_agree(r, rc, err);
}

/* Of all or of none; in two steps, since whoever opens waits for the others. */
static bool open_peers(struct mint_exchange *x, struct mint_err *why)
{
    const struct mint_peer_ops *peers = x->dev->ops->peers;
    struct mint_ranks job = *x->ranks; /* a failure here is none of the job */
    char id[MINT_PEERS_ID] = {0};
    int rc = mint_ranks_agree(&job, peers->prepare(x->dev, job.rank == 0, id, why), why);
    if (rc == 0)
        rc = mint_ranks_bcast(&job, 0, id, sizeof id, why);
    if (rc == 0) {
        rc = peers->open(x->dev, id, job.rank, job.size, x->way, sizeof x->way, why);
        rc = mint_ranks_agree(&job, rc, why);
    }
    if (rc < 0)
        peers->close(x->dev);
    return rc == 0;
}

int mint_exchange_open(struct mint_exchange **out, struct mint_dev *dev, struct mint_ranks *ranks,
                       struct mint_err *err)
{
    struct mint_exchange *x = mint_xcalloc(1, sizeof *x);
    *x = (struct mint_exchange){.dev = dev, .ranks = ranks};
    *out = x;
    if (check_kinds(x, err) < 0) {
        mint_exchange_close(x);
        *out = NULL;
        return -1;
    }
    struct mint_err why = {0};
    if (dev->ops->peers && open_peers(x, &why)) {
        x->peers = dev->ops->peers;
        mint_verbose(1, "gradients of %d processes go from GPU to GPU, by %s", ranks->size, x->way);
        return 0;
    }
    snprintf(x->way, sizeof x->way, "host memory");
    if (dev->ops->peers)
        mint_verbose(1, "gradients of %d processes go through host memory: %s", ranks->size,
                     why.msg);
    return 0;
}

const char *mint_exchange_way(const struct mint_exchange *x)
{
    return x->way;
}

void mint_exchange_close(struct mint_exchange *x)
{
    if (!x)
        return;
    if (x->peers)
        x->peers->close(x->dev);
    free(x->host);
    free(x);
}

/* Where bytes stand on their way. */
static void *staging(struct mint_exchange *x, size_t bytes)
{
    if (bytes > x->room) {
        free(x->host);
        x->host = mint_xmalloc(bytes);
        x->room = bytes;
    }
    return x->host;
}

int mint_exchange_begin(struct mint_exchange *x, struct mint_err *err)
{
    return x->peers ? x->peers->begin(x->dev, err) : 0;
}

int mint_exchange_end(struct mint_exchange *x, struct mint_err *err)
{
    return x->peers ? x->peers->end(x->dev, err) : 0;
}

int mint_exchange_send(struct mint_exchange *x, int to, const void *p, size_t bytes,
                       struct mint_err *err)
{
    if (x->peers)
        return x->peers->send(x->dev, to, p, bytes, err);
    void *host = staging(x, bytes);
    MINT_TRY(x->dev->ops->download(x->dev, host, p, bytes, err));
    return mint_ranks_send(x->ranks, to, host, bytes, err);
}

int mint_exchange_recv(struct mint_exchange *x, int from, void *p, size_t bytes,
                       struct mint_err *err)
{
    if (x->peers)
        return x->peers->recv(x->dev, from, p, bytes, err);
    void *host = staging(x, bytes);
    MINT_TRY(mint_ranks_recv(x->ranks, from, host, bytes, err));
    return x->dev->ops->upload(x->dev, p, host, bytes, err);
}

int mint_exchange_bcast(struct mint_exchange *x, int root, void *p, size_t bytes,
                        struct mint_err *err)
{
    if (x->peers)
        return x->peers->bcast(x->dev, root, p, bytes, err);
    void *host = staging(x, bytes);
    if (x->ranks->rank == root)
        MINT_TRY(x->dev->ops->download(x->dev, host, p, bytes, err));
    MINT_TRY(mint_ranks_bcast(x->ranks, root, host, bytes, err));
    return x->ranks->rank == root ? 0 : x->dev->ops->upload(x->dev, p, host, bytes, err);
}

/* After the peers' own wait a word from each to all, so that nobody closes what another still
 * reads. */
int mint_exchange_wait(struct mint_exchange *x, struct mint_err *err)
{
    if (!x->peers)
        return 0;
    MINT_TRY(x->peers->wait(x->dev, err));
    for (int r = 0; r < x->ranks->size; r++) {
        char done = 1;
        MINT_TRY(mint_ranks_bcast(x->ranks, r, &done, 1, err));
    }
    return 0;
}

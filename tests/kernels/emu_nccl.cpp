// SPDX-License-Identifier: Apache-2.0
/*
 * emu_nccl.cpp: a stand-in for libnccl.so.2 between processes of one machine, whose device memory
 * is the emulator's. Stricter than NCCL: a send or a broadcast ends when all who receive have it,
 * so that calls which do not meet wait for ever; and what meets must agree on its kind and size.
 *
 *   EMU_NCCL=init:R   process R fails when it opens
 *   EMU_NCCL=R:N      the N-th copy of process R fails, from 0
 *   EMU_NCCL=lost:R:N from that copy on nothing moves, as if the network were gone: it is seen by
 *                     asking only
 */
#include <cerrno>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>
#include <vector>

#include "cuda_emu.h"
#include "nccl_calls.h"

namespace
{

enum { CUDA_ERROR = 1, INVALID_USAGE = 5, REMOTE_ERROR = 6 };
enum { OPENING_MS = 20000 };

struct header {
    uint64_t kind, bytes;
};
enum { SEND = 1, BCAST = 2 };

/* One direction of one copy: header and bytes go one way, a byte of thanks the other. */
struct copy {
    bool out;
    int peer;
    header h, got; /* what meets it */
    char *p;
    size_t moved; /* of header, bytes and thanks */
};

} // namespace

struct mint_nccl_comm {
    int rank, size;
    std::vector<int> socket; /* two a process: for copies upwards, and downwards */
    long copies;
    bool lost;
    std::vector<copy> queue;
};

namespace
{

thread_local int depth;
thread_local mint_nccl_comm *grouped;

/* Numbers of EMU_NCCL behind this word. */
bool told(const char *word, int *a, long *b)
{
    const char *s = getenv("EMU_NCCL");
    size_t n = strlen(word);
    if (!s || strncmp(s, word, n) != 0)
        return false;
    char *end;
    *a = (int)strtol(s + n, &end, 10);
    *b = *end ? strtol(end + 1, nullptr, 10) : 0;
    return end > s + n || n > 0;
}

int wrong(const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    fputs("emulated NCCL: ", stderr);
    vfprintf(stderr, fmt, ap);
    fputc('\n', stderr);
    va_end(ap);
    return INVALID_USAGE;
}

socklen_t address(sockaddr_un *a, const mint_nccl_id *id, int rank)
{
    memset(a, 0, sizeof *a);
    a->sun_family = AF_UNIX;
    int n = snprintf(a->sun_path + 1, sizeof a->sun_path - 1, "%s-%d", id->internal, rank);
    return (socklen_t)(offsetof(sockaddr_un, sun_path) + 1 + (size_t)n);
}

/* The one who waits for the calls of those above it. */
int listener(const mint_nccl_id *id, int rank, int size)
{
    sockaddr_un a;
    socklen_t n = address(&a, id, rank);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    return bind(fd, (sockaddr *)&a, n) == 0 && listen(fd, 2 * size) == 0 ? fd : -1;
}

/* A greeting says whose socket it is. */
int call(const mint_nccl_id *id, int to, int own)
{
    sockaddr_un a;
    socklen_t n = address(&a, id, to);
    for (int ms = 0; ms < OPENING_MS; ms += 10) {
        int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (connect(fd, (sockaddr *)&a, n) == 0)
            return write(fd, &own, sizeof own) == sizeof own ? fd : -1;
        close(fd);
        usleep(10000);
    }
    return -1;
}

int answer(int listening, int *who)
{
    pollfd p = {listening, POLLIN, 0};
    if (poll(&p, 1, OPENING_MS) != 1)
        return -1;
    int fd = accept4(listening, nullptr, nullptr, SOCK_CLOEXEC);
    return fd >= 0 && read(fd, who, sizeof *who) == sizeof *who ? fd : -1;
}

bool connect_all(mint_nccl_comm *c, const mint_nccl_id *id)
{
    int listening = listener(id, c->rank, c->size);
    bool ok = listening >= 0;
    for (int i = 0; i < 2 * c->rank && ok; i++)
        ok = (c->socket[(size_t)i] = call(id, i / 2, 2 * c->rank + i % 2)) >= 0;
    for (int i = 2 * (c->rank + 1); i < 2 * c->size && ok; i++) {
        int who = 0, fd = answer(listening, &who);
        ok = fd >= 0 && who >= 2 * (c->rank + 1) && who < 2 * c->size;
        if (ok)
            c->socket[(size_t)who] = fd;
    }
    close(listening);
    for (int fd : c->socket)
        if (fd >= 0)
            fcntl(fd, F_SETFL, O_NONBLOCK);
    return ok;
}

/* ---- copies. Those of a peer in one direction go one after the other, all others side by side. */

/* Number of the socket. */
size_t lane_of(const mint_nccl_comm *c, const copy *x)
{
    int from = x->out ? c->rank : x->peer, to = x->out ? x->peer : c->rank;
    return 2 * (size_t)x->peer + (from > to);
}

size_t whole(const copy *x)
{
    return sizeof x->h + x->h.bytes + 1;
}

/* Moves what can be moved of a piece; 0: not now. */
ssize_t move(int fd, bool out, void *p, size_t n)
{
    ssize_t k = out ? send(fd, p, n, MSG_NOSIGNAL) : recv(fd, p, n, 0);
    if (k < 0 && (errno == EAGAIN || errno == EINTR))
        return 0;
    return k > 0 ? k : -1;
}

/* As far as it goes now: 1 all, 0 not yet, -1 the other is gone, INVALID_USAGE. */
int advance(const mint_nccl_comm *c, copy *x)
{
    static char thanks = 1;
    int fd = c->socket[lane_of(c, x)];
    while (x->moved < whole(x)) {
        size_t at = x->moved, head = sizeof x->h, all = head + x->h.bytes;
        bool end = at == all;
        char *p = end         ? &thanks
                  : at < head ? (char *)(x->out ? &x->h : &x->got) + at
                              : x->p + (at - head);
        size_t n = end ? 1 : at < head ? head - at : all - at;
        ssize_t k = move(fd, end ? !x->out : x->out, p, n);
        if (k <= 0)
            return (int)k;
        x->moved += (size_t)k;
        if (!x->out && at < head && x->moved == head &&
            (x->got.kind != x->h.kind || x->got.bytes != x->h.bytes))
            return wrong("process %d: %s of %llu bytes meets %s of %llu from process %d", c->rank,
                         x->h.kind == SEND ? "a receive" : "a broadcast",
                         (unsigned long long)x->h.bytes,
                         x->got.kind == SEND ? "a send" : "a broadcast",
                         (unsigned long long)x->got.bytes, x->peer);
    }
    return 1;
}

int drain(mint_nccl_comm *c)
{
    std::vector<copy> &q = c->queue;
    size_t left = q.size();
    while (left && !c->lost) {
        std::vector<bool> busy(2 * (size_t)c->size);
        std::vector<pollfd> fds;
        left = 0;
        for (copy &x : q) {
            size_t lane = lane_of(c, &x);
            if (x.moved == whole(&x) || busy[lane])
                continue;
            int rc = advance(c, &x);
            if (rc < 0 || rc > 1)
                return rc < 0 ? REMOTE_ERROR : rc;
            if (rc == 1) {
                left++; /* the next one of its lane may go on at once */
                continue;
            }
            busy[lane] = true;
            left++;
            bool writes = (x.moved == sizeof x.h + x.h.bytes) != x.out;
            fds.push_back({c->socket[lane], (short)(writes ? POLLOUT : POLLIN), 0});
        }
        if (fds.size() == left && left)
            poll(fds.data(), (nfds_t)fds.size(), -1);
    }
    q.clear();
    return 0;
}

int queue(mint_nccl_comm *c, bool out, int peer, uint64_t kind, void *p, size_t n)
{
    if (peer < 0 || peer >= c->size || peer == c->rank)
        return wrong("process %d of %d names process %d", c->rank, c->size, peer);
    copy x = {};
    x.out = out;
    x.peer = peer;
    x.h = {kind, n};
    x.p = (char *)p;
    c->queue.push_back(x);
    return 0;
}

/* Counts a call, which may have to fail, and does what is queued if no group is open. */
int called(mint_nccl_comm *c, int rc)
{
    int rank;
    long n, now = c->copies++;
    if (rc)
        return rc;
    if (told("lost:", &rank, &n) && rank == c->rank && n == now)
        c->lost = true;
    else if (told("", &rank, &n) && rank == c->rank && n == now)
        return CUDA_ERROR;
    if (depth) {
        grouped = c;
        return 0;
    }
    return drain(c);
}

} // namespace

#define API extern "C" __attribute__((visibility("default")))

API int ncclGetVersion(int *version)
{
    *version = 22703;
    return 0;
}

API int ncclGetUniqueId(mint_nccl_id *id)
{
    timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    memset(id, 0, sizeof *id);
    snprintf(id->internal, sizeof id->internal, "mint-emulated-nccl-%d-%lld-%ld", (int)getpid(),
             (long long)t.tv_sec, t.tv_nsec);
    return 0;
}

API int ncclCommAbort(mint_nccl_comm *c)
{
    for (int fd : c->socket)
        if (fd >= 0)
            close(fd);
    delete c;
    return 0;
}

API int ncclCommInitRank(mint_nccl_comm **out, int size, mint_nccl_id id, int rank)
{
    int failing;
    long n;
    mint_nccl_comm *c = new mint_nccl_comm{rank, size, {}, 0, false, {}};
    c->socket.assign(2 * (size_t)size, -1);
    bool ok = connect_all(c, &id);
    if (ok && !(told("init:", &failing, &n) && failing == rank)) {
        *out = c;
        return 0;
    }
    ncclCommAbort(c);
    return ok ? CUDA_ERROR : REMOTE_ERROR;
}

API int ncclCommGetAsyncError(mint_nccl_comm *c, int *status)
{
    *status = c->lost ? REMOTE_ERROR : 0;
    return 0;
}

API const char *ncclGetErrorString(int status)
{
    switch (status) {
    case CUDA_ERROR:
        return "unhandled cuda error";
    case INVALID_USAGE:
        return "invalid usage";
    case REMOTE_ERROR:
        return "remote process exited or there was a network error";
    }
    return "no error";
}

API int ncclSend(const void *p, size_t n, int type, int to, mint_nccl_comm *c, cudaStream_t)
{
    if (type != MINT_NCCL_BYTES)
        return wrong("type %d", type);
    return called(c, queue(c, true, to, SEND, const_cast<void *>(p), n));
}

API int ncclRecv(void *p, size_t n, int type, int from, mint_nccl_comm *c, cudaStream_t)
{
    if (type != MINT_NCCL_BYTES)
        return wrong("type %d", type);
    return called(c, queue(c, false, from, SEND, p, n));
}

API int ncclBroadcast(const void *from, void *to, size_t n, int type, int root, mint_nccl_comm *c,
                      cudaStream_t)
{
    int rc = type != MINT_NCCL_BYTES ? wrong("type %d", type) : 0;
    if (root == c->rank && to != from)
        memcpy(to, from, n);
    for (int r = 0; r < c->size && rc == 0; r++)
        if (r != c->rank && (root == c->rank || r == root))
            rc = queue(c, root == c->rank, r, BCAST, to, n);
    return called(c, rc);
}

API int ncclGroupStart(void)
{
    depth++;
    return 0;
}

API int ncclGroupEnd(void)
{
    mint_nccl_comm *c = grouped;
    if (--depth || !c)
        return 0;
    grouped = nullptr;
    return drain(c);
}

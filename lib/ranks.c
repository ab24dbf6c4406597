/* SPDX-License-Identifier: Apache-2.0 */
#include "ranks.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "mem.h"
#include "plugin.h"

#define PLUGIN "mint-mpi.so"

static long number(const char *variable, long otherwise)
{
    const char *s = getenv(variable);
    return s ? strtol(s, NULL, 10) : otherwise;
}

/* Whether a launcher of MPI started this process along with others. */
static bool in_a_job(void)
{
    static const char *const sizes[] = {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "MPI_LOCALNRANKS"};
    for (size_t i = 0; i < MINT_ARRAY_LEN(sizes); i++)
        if (number(sizes[i], 1) > 1)
            return true;
    /* srun --mpi=pmix; without --mpi its tasks know nothing of each other */
    return getenv("PMIX_RANK") && number("SLURM_STEP_NUM_TASKS", 1) > 1;
}

int mint_ranks_local(void)
{
    static const char *const names[] = {"OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID",
                                        "SLURM_LOCALID"};
    for (size_t i = 0; i < MINT_ARRAY_LEN(names); i++) {
        long n = number(names[i], -1);
        if (n >= 0 && n < 10000)
            return (int)n;
    }
    return 0;
}

int mint_ranks_open(struct mint_ranks *r, struct mint_err *err)
{
    char path[4200];
    *r = (struct mint_ranks){.rank = 0, .size = 1};
    if (!in_a_job())
        return 0;
    if (!mint_plugin_path(path, sizeof path, PLUGIN) || access(path, F_OK) != 0)
        return mint_fail(err, MINT_EDEVICE,
                         "this is one of several processes, but MPI is not built in (there is no "
                         "%s): install libopenmpi-dev and run make, or start one process",
                         path);
    /* global: Open MPI opens components of its own, which look for its symbols */
    void *so = dlopen(path, RTLD_NOW | RTLD_GLOBAL);
    if (!so)
        return mint_fail(err, MINT_EDEVICE, "MPI does not load: %s", dlerror());
    mint_ranks_entry_fn *entry;
    *(void **)&entry = dlsym(so, MINT_RANKS_SYMBOL);
    const struct mint_ranks_ops *ops = entry ? entry() : NULL;
    if (!ops || ops->abi != MINT_RANKS_ABI)
        return mint_fail(err, MINT_EDEVICE, "%s is of another version: rebuild it", path);
    if (ops->open(&r->rank, &r->size) < 0)
        return mint_fail(err, MINT_EDEVICE, "MPI does not start");
    r->ops = ops;
    return 0;
}

void mint_ranks_close(struct mint_ranks *r)
{
    if (r->ops)
        r->ops->close();
    *r = (struct mint_ranks){.rank = 0, .size = 1};
}

void mint_ranks_abort(const struct mint_ranks *r, int status)
{
    if (r->ops && r->size > 1 && !r->failed)
        r->ops->abort(status);
}

static int done(int rc, const char *what, struct mint_err *err)
{
    return rc < 0 ? mint_fail(err, MINT_EIO, "the processes lost each other (%s)", what) : 0;
}

int mint_ranks_send(const struct mint_ranks *r, int to, const void *p, size_t n,
                    struct mint_err *err)
{
    return done(r->ops->send(to, p, n), "send", err);
}

int mint_ranks_recv(const struct mint_ranks *r, int from, void *p, size_t n, struct mint_err *err)
{
    return done(r->ops->recv(from, p, n), "receive", err);
}

int mint_ranks_bcast(const struct mint_ranks *r, int root, void *p, size_t n, struct mint_err *err)
{
    return r->size > 1 ? done(r->ops->bcast(root, p, n), "broadcast", err) : 0;
}

int mint_ranks_agree(struct mint_ranks *r, int rc, struct mint_err *err)
{
    struct mint_err why = {0};
    if (r->size == 1)
        return rc;
    for (int i = 0; i < r->size; i++) {
        int one = rc;
        MINT_TRY(mint_ranks_bcast(r, i, &one, sizeof one, err));
        if (one == 0)
            continue;
        if (r->rank == i && err)
            why = *err;
        MINT_TRY(mint_ranks_bcast(r, i, &why, sizeof why, err));
        r->failed = true;
        return mint_fail(err, why.code, "%s", why.msg);
    }
    return 0;
}

enum { PIECE = 1 << 20 };

static int write_all(int fd, const char *p, size_t n, struct mint_err *err)
{
    while (n > 0) {
        ssize_t w = write(fd, p, n);
        if (w < 0 && errno == EINTR)
            continue;
        if (w < 0)
            return mint_fail_errno(err, "cannot keep standard input in memory");
        p += w;
        n -= (size_t)w;
    }
    return 0;
}

/* A piece of standard input on rank 0; 0 at its end. */
static ssize_t read_piece(char *p)
{
    ssize_t n;
    do
        n = read(STDIN_FILENO, p, PIECE);
    while (n < 0 && errno == EINTR);
    return n;
}

static int copy_stdin(const struct mint_ranks *r, int fd, char *piece, struct mint_err *err)
{
    for (;;) {
        int64_t n = r->rank == 0 ? (int64_t)read_piece(piece) : 0;
        int why = errno;
        MINT_TRY(mint_ranks_bcast(r, 0, &n, sizeof n, err));
        if (n < 0) {
            errno = r->rank == 0 ? why : EIO;
            return mint_fail_errno(err, "stdin: cannot read");
        }
        if (n == 0)
            return 0;
        MINT_TRY(mint_ranks_bcast(r, 0, piece, (size_t)n, err));
        MINT_TRY(write_all(fd, piece, (size_t)n, err));
    }
}

int mint_ranks_share_stdin(const struct mint_ranks *r, struct mint_err *err)
{
    if (r->size == 1)
        return 0;
    int fd = memfd_create("mint-stdin", MFD_CLOEXEC);
    if (fd < 0)
        return mint_fail_errno(err, "cannot keep standard input in memory");
    char *piece = mint_xmalloc(PIECE);
    int rc = copy_stdin(r, fd, piece, err);
    if (rc == 0 && (lseek(fd, 0, SEEK_SET) < 0 || dup2(fd, STDIN_FILENO) < 0))
        rc = mint_fail_errno(err, "cannot keep standard input in memory");
    close(fd);
    free(piece);
    return rc;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sandbox.h: programs that are not trusted, each in a box of its own.
 *
 * A box is a bubblewrap container: new user, mount, pid, ipc, uts, cgroup and network namespaces;
 * /usr and what belongs to it read-only, nothing else of the host; /tmp, the working folder, in
 * memory and of bounded size; an environment of four fixed variables; a seccomp filter; resource
 * limits. A process that runs as root gives that up first. All processes of a box die with it: its
 * first process is killed, which ends the pid namespace, when the program ends, when a limit is
 * hit, and when the thread that started it ends, even by SIGKILL. No file of the host is made.
 *
 * Time, memory and disk of the whole box are watched from outside; limits of single processes
 * (setrlimit) stand behind.
 *
 * Without isolation (opts.none) only the limits of single processes hold.
 *
 * A sandbox and its boxes belong to one thread, in which SIGPIPE must be blocked or ignored.
 */
#ifndef MINT_SANDBOX_H
#define MINT_SANDBOX_H

#include <sys/types.h>

#include "base.h"
#include "buf.h"
#include "err.h"

/*
 * Control groups (version 2), where a part of their tree was handed to this process: each box then
 * gets one, in which the kernel bounds the memory, the number and the processor (one) of all its
 * processes together. NULL and the reason in why if there is none: boxes do without. One for the
 * whole process, which it may move into a group of its own; any number of threads may use it, and
 * close it when their sandboxes are.
 */
struct mint_cgroup;
struct mint_cgroup *mint_cgroup_open(struct mint_buf *why);
const char *mint_cgroup_path(const struct mint_cgroup *c); /* where boxes get theirs; c's */
void mint_cgroup_close(struct mint_cgroup *c);             /* NULL is fine */

struct mint_sandbox_opts {
    bool none;                   /* no isolation */
    struct mint_cgroup *cgroup;  /* borrowed; NULL: none */
    const char *const *readonly; /* further folders of the host to be seen inside; borrowed */
    size_t nreadonly;
};

struct mint_limits {
    double wall, cpu;   /* seconds; of all processes together */
    int64_t memory;     /* bytes; of each process, and of all together */
    int64_t processes;  /* at a time, threads too */
    int64_t file_size;  /* bytes of one file; /tmp holds twice that */
    int64_t output;     /* bytes on stdout */
    bool address_space; /* memory also bounds what a process reserves (not for a JavaScript VM) */
};

struct mint_sandbox;

/* Finds bubblewrap and runs an empty box. Fails with what to do about it. */
int mint_sandbox_open(struct mint_sandbox **out, const struct mint_sandbox_opts *o,
                      struct mint_err *err);
void mint_sandbox_close(struct mint_sandbox *s); /* NULL is fine */
/* Absolute path of a program as it is inside, malloc'ed; NULL if it is not there. */
char *mint_sandbox_find(const struct mint_sandbox *s, const char *program);

struct mint_box_file {
    const char *name; /* in the working folder */
    const void *data;
    size_t n;
    bool executable;
};

struct mint_box_spec {
    const char *const *argv; /* NULL-terminated; argv[0] is an absolute path */
    const struct mint_box_file *files;
    size_t nfiles;     /* at most MINT_BOX_FILES */
    const void *input; /* of stdin: input_n bytes, then its end; unless talk */
    size_t input_n;
    bool talk; /* stdin is a pipe that mint_box_send writes to */
    struct mint_limits limits;
};
#define MINT_BOX_FILES 4

enum mint_box_end {
    MINT_BOX_RUNS,
    MINT_BOX_EXITED, /* by itself: status, which is 128 + N after signal N */
    MINT_BOX_WALL,   /* killed: a limit */
    MINT_BOX_CPU,
    MINT_BOX_MEMORY,
    MINT_BOX_OUTPUT,
    MINT_BOX_DISK,
    MINT_BOX_KILLED, /* by mint_box_kill */
    MINT_BOX_FAILED, /* the box could not be set up, or not be cleared away: err_head says why */
};

#define MINT_BOX_ERR_KEPT 2048

struct mint_box {
    enum mint_box_end end; /* RUNS until all processes of the box are gone */
    int status;
    struct mint_buf out;      /* stdout so far; the owner may take from it */
    struct mint_buf err_head; /* the first MINT_BOX_ERR_KEPT bytes of stderr */
    struct mint_buf err_tail; /* and about the last ones, if there were more */
    double seconds;           /* wall time from the start of the program to its end */
    /* private */
    const struct mint_sandbox *sandbox;
    struct mint_limits limits;
    enum mint_box_end why;
    int stage;
    pid_t pid, init;
    int pid_fd, init_fd, status_fd, go_fd, in_fd, out_fd, err_fd;
    struct mint_buf said, to_send;
    size_t sent, received;
    double started, killed_at, looked;
    bool was_over; /* the limit of memory, when looked at last */
    char *folder;
    int group; /* of the cgroup */
    unsigned group_number;
};

/* box is filled; release it in any case. */
int mint_box_start(const struct mint_sandbox *s, const struct mint_box_spec *spec,
                   struct mint_box *box, struct mint_err *err);
/* Moves bytes and enforces limits of n boxes (at most MINT_BOX_MAX) until something happened, at
 * most for a short while: call it in a loop that ends when the boxes that matter no longer run. */
void mint_box_step(struct mint_box *const *boxes, size_t n);
#define MINT_BOX_MAX 4
/* Runs it to its end. */
void mint_box_wait(struct mint_box *box);
/* Appends to what is written to its stdin. */
void mint_box_send(struct mint_box *box, const void *p, size_t n);
/* No bytes of stdout counted against the limit so far. */
void mint_box_forgive(struct mint_box *box);
/* Begins its end; the step after which end is set saw the last of it. */
void mint_box_kill(struct mint_box *box);
void mint_box_release(struct mint_box *box); /* kills and waits if need be; fine on a zeroed one */

#endif

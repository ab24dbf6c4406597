/* SPDX-License-Identifier: Apache-2.0 */
/* sandbox_impl.h: what the sandbox files share. */
#ifndef MINT_SANDBOX_IMPL_H
#define MINT_SANDBOX_IMPL_H

#include "sandbox.h"

/* What bubblewrap is told for every box; the strings are owned. */
struct mint_sandbox {
    bool none, drop_root, proc;
    struct mint_cgroup *cgroup;
    char *bwrap;
    struct mint_buf filter; /* seccomp program */
    char **args;
    size_t nargs, cap;
};

/* Who runs the boxes where mint runs as root: nobody. */
enum { MINT_BOX_UID = 65534 };

/* Bytes that /dev/shm of a box holds. */
enum { MINT_BOX_SHM = 16 << 20 };

/* Numbers of the descriptors that bubblewrap finds; files follow from FILES on. */
enum { MINT_BOX_FD_STATUS = 3, MINT_BOX_FD_GO, MINT_BOX_FD_FILTER, MINT_BOX_FD_FILE };

/* The program that refuses what no solution needs, appended to out. */
int mint_sandbox_filter(struct mint_buf *out, struct mint_err *err);

/* Usage of all processes of a box, whose first process is init. false if it can't be seen. */
struct mint_usage {
    double cpu;    /* seconds */
    int64_t bytes; /* of memory; pages that are shared count once if exact */
    int64_t files; /* in /tmp and /dev/shm */
};
bool mint_sandbox_usage(pid_t init, bool exact, struct mint_usage *u);

/* --- control groups: a group is the descriptor of its folder, -1 for none */

/* As mint_cgroup_open, for the tree that is mounted at root and the group own ("/a/b") of it. */
struct mint_cgroup *mint_cgroup_open_at(const char *root, const char *own, struct mint_buf *why);
/* A group with these limits, and its number; -1 with errno. */
int mint_cgroup_box(struct mint_cgroup *c, const struct mint_limits *l, unsigned *number);
void mint_cgroup_enter(int group); /* the calling process, after fork; async-signal-safe */
void mint_cgroup_kill(int group);
double mint_cgroup_cpu(int group); /* seconds that its processes, alive or dead, have used */
enum mint_cgroup_oom { MINT_CGROUP_NO_OOM, MINT_CGROUP_OWN_OOM, MINT_CGROUP_HOST_OOM };
/* Whether the kernel has killed it for memory, and whether that was for the group's own limit. */
enum mint_cgroup_oom mint_cgroup_oom(int group);
/* Closes and removes it; all of its processes are dead. */
void mint_cgroup_leave(struct mint_cgroup *c, int group, unsigned number);

/* A folder of the host for a box without isolation, with the files in it; malloc'ed path. */
char *mint_sandbox_folder(const struct mint_box_spec *spec, struct mint_err *err);
void mint_sandbox_remove(const char *folder);

#endif

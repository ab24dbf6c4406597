/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The seccomp filter of a box. The namespaces are the wall; the filter takes away what has been
 * used to climb such walls (new namespaces, mounts, io_uring, keyrings, bpf, tracing) and what
 * escapes the limits (memory that belongs to no process). Everything else stays allowed, so that
 * compilers and interpreters work. A refused call fails with an error, it does not kill.
 */
#include "sandbox_impl.h"

#if MINT_SECCOMP

#include <errno.h>
#include <sched.h>
#include <seccomp.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

/* Names, not numbers: libseccomp knows those that this C library does not. */
static const char *const refused[] = {
    /* other processes */
    "ptrace",
    "process_vm_readv",
    "process_vm_writev",
    "process_madvise",
    "process_mrelease",
    "kcmp",
    "pidfd_getfd",
    "perf_event_open",
    /* the kernel itself */
    "bpf",
    "userfaultfd",
    "init_module",
    "finit_module",
    "delete_module",
    "kexec_load",
    "kexec_file_load",
    "reboot",
    "syslog",
    "iopl",
    "ioperm",
    "modify_ldt",
    "vm86",
    "vm86old",
    "uselib",
    "lookup_dcookie",
    "sysfs",
    "_sysctl",
    "nfsservctl",
    /* keys */
    "add_key",
    "request_key",
    "keyctl",
    /* namespaces and mounts */
    "unshare",
    "setns",
    "mount",
    "umount",
    "umount2",
    "pivot_root",
    "chroot",
    "move_mount",
    "open_tree",
    "fsopen",
    "fsconfig",
    "fsmount",
    "fspick",
    "mount_setattr",
    "swapon",
    "swapoff",
    "quotactl",
    "quotactl_fd",
    "acct",
    "open_by_handle_at",
    "name_to_handle_at",
    "fanotify_init",
    "fanotify_mark",
    "vhangup",
    /* clocks */
    "settimeofday",
    "stime",
    "clock_settime",
    "clock_settime64",
    "adjtimex",
    "clock_adjtime",
    /* memory that no process shows */
    "vmsplice",
    "shmget",
    "shmat",
    "shmctl",
    "msgget",
    "msgsnd",
    "msgrcv",
    "msgctl",
    "semget",
    "semop",
    "semctl",
    "semtimedop",
    "mq_open",
    "mlock",
    "mlock2",
    "mlockall",
    "mbind",
    "migrate_pages",
    "move_pages",
    "set_mempolicy",
};

/* As if the kernel did not have them: programs then do without. */
static const char *const unknown[] = {
    "io_uring_setup", "io_uring_enter", "io_uring_register",
    "memfd_create",   "memfd_secret",   "clone3", /* whose flags a filter cannot see */
};

static int refuse_all(scmp_filter_ctx ctx, const char *const *names, size_t n, int error)
{
    for (size_t i = 0; i < n; i++) {
        int nr = seccomp_syscall_resolve_name(names[i]);
        /* below 0: another machine's */
        if (nr >= 0 && seccomp_rule_add(ctx, SCMP_ACT_ERRNO((uint32_t)error), nr, 0) < 0)
            return -1;
    }
    return 0;
}

static int refuse_some(scmp_filter_ctx ctx)
{
    static const uint64_t flags[] = {CLONE_NEWUSER, CLONE_NEWNS,  CLONE_NEWPID,   CLONE_NEWNET,
                                     CLONE_NEWIPC,  CLONE_NEWUTS, CLONE_NEWCGROUP};
    for (size_t i = 0; i < MINT_ARRAY_LEN(flags); i++) {
        struct scmp_arg_cmp has = {0, SCMP_CMP_MASKED_EQ, flags[i], flags[i]};
        if (seccomp_rule_add_array(ctx, SCMP_ACT_ERRNO(EPERM), SCMP_SYS(clone), 1, &has) < 0)
            return -1;
    }
    /* Sockets of other families reach the host (AF_VSOCK) or much of the kernel (AF_NETLINK). */
    struct scmp_arg_cmp other = {0, SCMP_CMP_NE, AF_UNIX, 0};
    uint32_t no_family = SCMP_ACT_ERRNO(EAFNOSUPPORT);
    if (seccomp_rule_add_array(ctx, no_family, SCMP_SYS(socket), 1, &other) < 0 ||
        seccomp_rule_add_array(ctx, no_family, SCMP_SYS(socketpair), 1, &other) < 0)
        return -1;
    static const uint32_t ioctls[] = {TIOCSTI, TIOCLINUX, TIOCSETD};
    for (size_t i = 0; i < MINT_ARRAY_LEN(ioctls); i++) {
        /* the kernel looks at the lower half alone */
        struct scmp_arg_cmp is = {1, SCMP_CMP_MASKED_EQ, 0xffffffff, ioctls[i]};
        if (seccomp_rule_add_array(ctx, SCMP_ACT_ERRNO(EPERM), SCMP_SYS(ioctl), 1, &is) < 0)
            return -1;
    }
    return 0;
}

static int export(scmp_filter_ctx ctx, struct mint_buf *out)
{
    int fd = memfd_create("filter", MFD_CLOEXEC);
    off_t n = -1;
    if (fd < 0)
        return -1;
    if (seccomp_export_bpf(ctx, fd) == 0)
        n = lseek(fd, 0, SEEK_END);
    if (n > 0) {
        mint_buf_reserve(out, (size_t)n);
        if (pread(fd, out->data + out->len, (size_t)n, 0) == n)
            out->len += (size_t)n;
        else
            n = -1;
    }
    close(fd);
    return n > 0 ? 0 : -1;
}

int mint_sandbox_filter(struct mint_buf *out, struct mint_err *err)
{
    scmp_filter_ctx ctx = seccomp_init(SCMP_ACT_ALLOW);
    if (!ctx)
        return mint_fail(err, MINT_EIO, "libseccomp cannot make a filter");
    int rc = 0;
    if (refuse_all(ctx, refused, MINT_ARRAY_LEN(refused), EPERM) < 0 ||
        refuse_all(ctx, unknown, MINT_ARRAY_LEN(unknown), ENOSYS) < 0 || refuse_some(ctx) < 0 ||
        export(ctx, out) < 0)
        rc = mint_fail(err, MINT_EIO, "libseccomp cannot make the filter of the sandbox");
    seccomp_release(ctx);
    return rc;
}

#else

int mint_sandbox_filter(struct mint_buf *out, struct mint_err *err)
{
    (void)out;
    return mint_fail(err, MINT_EIO,
                     "this build has no sandbox, since libseccomp was not there: install "
                     "libseccomp-dev and build anew, or use --sandbox none");
}

#endif

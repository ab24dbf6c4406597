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
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <seccomp.h>
#include <stddef.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#ifndef SO_ATTACH_BPF
#define SO_ATTACH_BPF 50
#endif

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
    "inotify_init", /* sees what others do with the files of /usr */
    "inotify_init1",
    "vhangup",
    /* the disks of the host */
    "sync",
    "syncfs",
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
    "io_uring_setup", "io_uring_enter", "io_uring_register", "memfd_create", "memfd_secret",
    "io_setup",       "clone3", /* whose flags a filter cannot see */
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

/* Calls that are refused where an argument, of which the kernel looks at the bits of mask, has a
 * value, or another one. */
enum { IS, IS_NOT };
static const struct {
    int call, error;
    unsigned arg;
    int relation;
    uint64_t value, mask;
} some[] = {
    {SCMP_SYS(clone), EPERM, 0, IS, CLONE_NEWUSER, CLONE_NEWUSER},
    {SCMP_SYS(clone), EPERM, 0, IS, CLONE_NEWNS, CLONE_NEWNS},
    {SCMP_SYS(clone), EPERM, 0, IS, CLONE_NEWPID, CLONE_NEWPID},
    {SCMP_SYS(clone), EPERM, 0, IS, CLONE_NEWNET, CLONE_NEWNET},
    {SCMP_SYS(clone), EPERM, 0, IS, CLONE_NEWIPC, CLONE_NEWIPC},
    {SCMP_SYS(clone), EPERM, 0, IS, CLONE_NEWUTS, CLONE_NEWUTS},
    {SCMP_SYS(clone), EPERM, 0, IS, CLONE_NEWCGROUP, CLONE_NEWCGROUP},
    /* other families reach the host (AF_VSOCK) or much of the kernel (AF_NETLINK) */
    {SCMP_SYS(socket), EAFNOSUPPORT, 0, IS_NOT, AF_UNIX, 0},
    {SCMP_SYS(socketpair), EAFNOSUPPORT, 0, IS_NOT, AF_UNIX, 0},
    {SCMP_SYS(ioctl), EPERM, 1, IS, TIOCSTI, UINT32_MAX},
    {SCMP_SYS(ioctl), EPERM, 1, IS, TIOCLINUX, UINT32_MAX},
    {SCMP_SYS(ioctl), EPERM, 1, IS, TIOCSETD, UINT32_MAX},
    /* more memory that no process shows: what is shared lives on when all but a page of it is
     * unmapped, and a socket holds as much as its buffers may */
    {SCMP_SYS(mmap), EPERM, 3, IS, MAP_SHARED | MAP_ANONYMOUS, MAP_TYPE | MAP_ANONYMOUS},
    {SCMP_SYS(mmap), ENOMEM, 3, IS, MAP_HUGETLB, MAP_HUGETLB},
    {SCMP_SYS(setsockopt), EPERM, 2, IS, SO_SNDBUF, UINT32_MAX},
    {SCMP_SYS(setsockopt), EPERM, 2, IS, SO_ATTACH_FILTER, UINT32_MAX},
    {SCMP_SYS(setsockopt), EPERM, 2, IS, SO_ATTACH_BPF, UINT32_MAX},
    /* limits of other processes; and that of core files, which a program of the host may take */
    {SCMP_SYS(prlimit64), EPERM, 0, IS_NOT, 0, 0},
    {SCMP_SYS(prlimit64), EPERM, 1, IS, RLIMIT_CORE, UINT32_MAX},
    {SCMP_SYS(setrlimit), EPERM, 0, IS, RLIMIT_CORE, UINT32_MAX},
};

static int refuse_some(scmp_filter_ctx ctx)
{
    for (size_t i = 0; i < MINT_ARRAY_LEN(some); i++) {
        bool is = some[i].relation == IS;
        struct scmp_arg_cmp arg = {some[i].arg, is ? SCMP_CMP_MASKED_EQ : SCMP_CMP_NE,
                                   is ? some[i].mask : some[i].value, is ? some[i].value : 0};
        uint32_t refuse = SCMP_ACT_ERRNO((uint32_t)some[i].error);
        if (seccomp_rule_add_array(ctx, refuse, some[i].call, 1, &arg) < 0)
            return -1;
    }
    return 0;
}

/* Calls that are newer than this list, as if the kernel did not have them. (Since 424 all machines
 * number them alike.) */
static void refuse_new(struct mint_buf *out)
{
    enum { FIRST_NEW = 451 };
    static const struct sock_filter head[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, FIRST_NEW, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS),
    };
    mint_buf_add(out, head, sizeof(head));
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
    refuse_new(out);
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

/* SPDX-License-Identifier: Apache-2.0 */
/* Boxes: what goes in and out, how they end, what they cannot reach. Skipped where there is no
 * bubblewrap or it may not make namespaces. */
#include <dirent.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "sandbox.h"

static int open_sandbox(void **state)
{
    struct mint_sandbox_opts o = {0};
    struct mint_err err = {0};
    signal(SIGPIPE, SIG_IGN);
    setenv("MINT_CANARY", "canary-in-the-environment", 1);
    struct mint_sandbox *s = NULL;
    if (mint_sandbox_open(&s, &o, &err) < 0)
        fprintf(stderr, "no sandbox here: %s\n", err.msg);
    *state = s;
    return 0;
}

static int close_sandbox(void **state)
{
    mint_sandbox_close(*state);
    return 0;
}

static struct mint_limits usual(void)
{
    return (struct mint_limits){.wall = 20,
                                .cpu = 10,
                                .memory = (int64_t)256 << 20,
                                .processes = 32,
                                .file_size = 1 << 20,
                                .output = 10000,
                                .address_space = true};
}

/* Runs a shell script, under limits, with input. */
static void run_with(void **state, struct mint_box *box, const char *script, const char *input,
                     struct mint_limits limits)
{
    struct mint_err err = {0};
    if (!*state)
        skip();
    struct mint_box_file file = {"script", script, strlen(script), false};
    const char *const argv[] = {"/bin/sh", "script", NULL};
    struct mint_box_spec spec = {.argv = argv,
                                 .files = &file,
                                 .nfiles = 1,
                                 .input = input,
                                 .input_n = strlen(input),
                                 .limits = limits};
    if (mint_box_start(*state, &spec, box, &err) < 0)
        fail_msg("%s", err.msg);
    mint_box_wait(box);
    if (box->end == MINT_BOX_FAILED)
        fail_msg("%.*s", (int)box->err_head.len, box->err_head.data);
    mint_buf_reserve(&box->out, 0);
    box->out.data[box->out.len] = '\0';
}

static void run(void **state, struct mint_box *box, const char *script)
{
    run_with(state, box, script, "", usual());
}

static void expect_out(void **state, const char *script, const char *out)
{
    struct mint_box box;
    run(state, &box, script);
    assert_int_equal(box.end, MINT_BOX_EXITED);
    assert_string_equal(box.out.data, out);
    mint_box_release(&box);
}

static void bytes_in_and_out(void **state)
{
    struct mint_box box;
    run_with(state, &box, "cat; echo err >&2; exit 7", "some\ninput", usual());
    assert_int_equal(box.end, MINT_BOX_EXITED);
    assert_int_equal(box.status, 7);
    assert_string_equal(box.out.data, "some\ninput");
    assert_int_equal(box.err_head.len, 4);
    mint_box_release(&box);
    expect_out(state, "pwd; ls; cat", "/tmp\nscript\n");
}

static void signals_are_told(void **state)
{
    struct mint_box box;
    run(state, &box, "kill -SEGV $$");
    assert_int_equal(box.end, MINT_BOX_EXITED);
    assert_int_equal(box.status, 128 + SIGSEGV);
    mint_box_release(&box);
}

static void limits_end_it(void **state)
{
    struct mint_box box;
    struct mint_limits l = usual();
    l.wall = 0.3;
    run_with(state, &box, "trap '' TERM INT HUP; sleep 1000 & sleep 1000", "", l);
    assert_int_equal(box.end, MINT_BOX_WALL);
    mint_box_release(&box);
    l = usual();
    l.cpu = 0.3;
    run_with(state, &box, "while :; do :; done", "", l);
    assert_int_equal(box.end, MINT_BOX_CPU);
    mint_box_release(&box);
    run(state, &box, "while :; do echo 0123456789; done");
    assert_int_equal(box.end, MINT_BOX_OUTPUT);
    assert_int_equal(box.out.len, 10000);
    mint_box_release(&box);
}

/* Each process is below the limit, all together are not. (The shells keep their memory: one whose
 * last command is the sleep would become it.) */
static void memory_of_all(void **state)
{
    struct mint_box box;
    struct mint_limits l = usual();
    l.memory = 64 << 20;
    l.address_space = false; /* a shell's strings grow in leaps */
    l.wall = l.cpu = 60;     /* on a busy machine too it is the memory that ends it */
    run_with(state, &box,
             "for i in 1 2 3 4 5 6; do\n"
             "  { x=$(head -c 20000000 /dev/zero | tr '\\0' x); sleep 100; : $x; } &\n"
             "done; wait",
             "", l);
    assert_int_equal(box.end, MINT_BOX_MEMORY);
    mint_box_release(&box);
}

static void processes_are_bounded(void **state)
{
    struct mint_box box;
    struct mint_limits l = usual();
    l.wall = 0.7;
    run_with(state, &box, "f() { f | f & }; f; sleep 100", "", l);
    assert_true(box.end == MINT_BOX_WALL || box.end == MINT_BOX_EXITED);
    mint_box_release(&box);
}

static void files_are_bounded(void **state)
{
    struct mint_box box;
    run(state, &box,
        "head -c 900000 /dev/zero >a && head -c 900000 /dev/zero >b && echo fits\n"
        "head -c 900000 /dev/zero >c || echo full");
    assert_string_equal(box.out.data, "fits\nfull\n");
    mint_box_release(&box);
    run(state, &box, "head -c 2000000 /dev/zero >a; echo $?");
    assert_string_not_equal(box.out.data, "0\n");
    mint_box_release(&box);
}

static void no_end_of_file_is_waited_for(void **state)
{
    struct mint_box box;
    run(state, &box, "setsid sleep 1000 & echo done");
    assert_int_equal(box.end, MINT_BOX_EXITED);
    assert_string_equal(box.out.data, "done\n");
    assert_true(box.seconds < 15);
    mint_box_release(&box);
}

static void nothing_of_the_host(void **state)
{
    struct mint_box box;
    /* a descriptor that is not closed on exec must not get in either */
    int fd = open("/dev/null", O_RDONLY);
    run(state, &box,
        "env | sort; ls /proc/self/fd | wc -l; cat /proc/*/environ 2>/dev/null | tr '\\0' '\\n'; "
        "ls /proc/1; ls / /home /root /var /run; for d in / /usr /dev /etc; do echo >$d/x; done");
    close(fd);
    assert_null(strstr(box.out.data, "canary"));
    assert_null(strstr(box.out.data, "home"));
    assert_non_null(strstr(box.out.data, "HOME=/tmp\n"));
    assert_non_null(strstr(box.out.data, "\n4\n")); /* 0, 1, 2 and that of ls */
    mint_box_release(&box);
    expect_out(state, "cat /proc/1/environ 2>/dev/null || echo no", "no\n");
    expect_out(state, "hostname 2>/dev/null || cat /proc/sys/kernel/hostname", "sandbox\n");
    expect_out(state, "unshare -r true 2>/dev/null || echo no", "no\n");
}

static void refused_calls(void **state)
{
    if (access("/usr/bin/python3", X_OK))
        skip();
    expect_out(state,
               "exec /usr/bin/python3 -c '\n"
               "import ctypes, socket\n"
               "c = ctypes.CDLL(None, use_errno=True)\n"
               "for n in (b\"ptrace\", b\"unshare\", b\"mount\", b\"memfd_create\", b\"shmget\",\n"
               "          b\"inotify_init\"):\n"
               "    print(c[n.decode()](0, 0, 0, 0, 0), ctypes.get_errno())\n"
               "for f in (socket.AF_INET, 16, 40):\n"
               "    try: socket.socket(f, socket.SOCK_DGRAM); print(f)\n"
               "    except OSError as e: print(e.errno)\n"
               "socket.socketpair()\n"
               /* a call of Linux 6.5; limits of another process, and that of core files */
               "print(c.syscall(451, -1, 0, 0, 0), ctypes.get_errno())\n"
               "print(c.prlimit(1, 7, 0, 0), ctypes.get_errno())\n"
               "print(c.setrlimit(4, (ctypes.c_long * 2)()), ctypes.get_errno())'",
               "-1 1\n-1 1\n-1 1\n-1 38\n-1 1\n-1 1\n97\n97\n97\n-1 38\n-1 1\n-1 1\n");
}

static void talk_and_kill(void **state)
{
    struct mint_err err = {0};
    struct mint_box box;
    if (!*state)
        skip();
    const char *const argv[] = {"/bin/cat", NULL};
    struct mint_box_spec spec = {.argv = argv, .talk = true, .limits = usual()};
    struct mint_box *one = &box;
    assert_int_equal(mint_box_start(*state, &spec, &box, &err), 0);
    mint_box_send(&box, "ping\n", 5);
    while (!box.end && box.out.len < 5)
        mint_box_step(&one, 1);
    assert_memory_equal(box.out.data, "ping\n", 5);
    mint_box_kill(&box);
    mint_box_wait(&box);
    assert_int_equal(box.end, MINT_BOX_KILLED);
    mint_box_release(&box);
    mint_box_release(&box);
}

static void what_cannot_start_fails(void **state)
{
    struct mint_err err = {0};
    struct mint_box box;
    if (!*state)
        skip();
    const char *const argv[] = {"/usr/bin/there-is-no-such-program", NULL};
    struct mint_box_spec spec = {.argv = argv, .input = "", .limits = usual()};
    assert_int_equal(mint_box_start(*state, &spec, &box, &err), 0);
    mint_box_wait(&box);
    assert_int_equal(box.end, MINT_BOX_FAILED);
    assert_non_null(strstr(box.err_head.data, "no-such-program"));
    mint_box_release(&box);
}

static int count_fds(void)
{
    DIR *d = opendir("/proc/self/fd");
    int n = 0;
    while (d && readdir(d))
        n++;
    closedir(d);
    return n;
}

static void nothing_leaks(void **state)
{
    struct mint_box box;
    run(state, &box, "true");
    mint_box_release(&box);
    int before = count_fds();
    for (int i = 0; i < 3; i++) {
        run(state, &box, "sleep 100 & true");
        mint_box_release(&box);
    }
    assert_int_equal(count_fds(), before);
}

static void finds_programs(void **state)
{
    char *sh = mint_sandbox_find(*state, "sh");
    assert_non_null(sh);
    free(sh);
    assert_null(mint_sandbox_find(*state, "there-is-no-such-program"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bytes_in_and_out),
        cmocka_unit_test(signals_are_told),
        cmocka_unit_test(limits_end_it),
        cmocka_unit_test(memory_of_all),
        cmocka_unit_test(processes_are_bounded),
        cmocka_unit_test(files_are_bounded),
        cmocka_unit_test(no_end_of_file_is_waited_for),
        cmocka_unit_test(nothing_of_the_host),
        cmocka_unit_test(refused_calls),
        cmocka_unit_test(talk_and_kill),
        cmocka_unit_test(what_cannot_start_fails),
        cmocka_unit_test(nothing_leaks),
        cmocka_unit_test(finds_programs),
    };
    return cmocka_run_group_tests(tests, open_sandbox, close_sandbox);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Control groups against plain folders that look like their tree: what is written, what is read,
 * what is removed. */
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <cmocka.h>

#include "fs.h"
#include "sandbox_impl.h"

static const struct mint_limits limits = {.wall = 20,
                                          .cpu = 10,
                                          .memory = (int64_t)256 << 20,
                                          .processes = 32,
                                          .file_size = 1 << 20,
                                          .output = 10000,
                                          .address_space = true};

/* A tree /slice/own whose groups have the controllers. */
struct tree {
    char root[64];
    struct mint_buf why;
};

/* Paths of the present test: they live for 64 calls. */
static char *at(const char *fmt, ...)
{
    static char path[64][256];
    static int turn;
    va_list ap;
    turn = (turn + 1) % 64;
    va_start(ap, fmt);
    vsnprintf(path[turn], sizeof(path[turn]), fmt, ap);
    va_end(ap);
    return path[turn];
}

static void write_to(const char *path, const char *text)
{
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fputs(text, f);
    fclose(f);
}

static void expect_text(const char *path, const char *text)
{
    char *got;
    size_t n;
    struct mint_err err;
    if (mint_fs_read_file(path, 1000, &got, &n, &err) < 0)
        fail_msg("%s", err.msg);
    assert_string_equal(got, text);
    free(got);
}

static void make_group(const char *path, const char *controllers)
{
    assert_int_equal(mkdir(path, 0755), 0);
    write_to(at("%s/cgroup.controllers", path), controllers);
    write_to(at("%s/cgroup.subtree_control", path), "");
    write_to(at("%s/cgroup.procs", path), "1\n");
}

static void make_tree(struct tree *t, const char *controllers)
{
    const char *tmp = getenv("TMPDIR");
    *t = (struct tree){.why = MINT_BUF_INIT};
    snprintf(t->root, sizeof(t->root), "%.40s/cg-XXXXXX", tmp ? tmp : "/tmp");
    assert_non_null(mkdtemp(t->root));
    make_group(at("%s/slice", t->root), controllers);
    make_group(at("%s/slice/own", t->root), controllers);
}

static void remove_tree(struct tree *t)
{
    mint_sandbox_remove(t->root);
    mint_buf_release(&t->why);
}

/* The kernel's own files go with a group; those of a folder have to be removed. */
static void empty(const char *group)
{
    static const char *const files[] = {"memory.max",    "memory.swap.max", "memory.oom.group",
                                        "memory.events", "pids.max",        "cpu.max",
                                        "cpu.stat",      "cgroup.kill",     "cgroup.procs"};
    for (size_t i = 0; i < MINT_ARRAY_LEN(files); i++)
        unlink(at("%s/%s", group, files[i]));
}

static struct mint_cgroup *open_tree(struct tree *t)
{
    struct mint_cgroup *c = mint_cgroup_open_at(t->root, "/slice/own", &t->why);
    if (!c)
        fail_msg("%s", t->why.data);
    return c;
}

static void limits_are_written_and_the_folder_goes(void **state)
{
    struct tree t;
    unsigned number;
    (void)state;
    make_tree(&t, "cpuset cpu io memory pids\n");
    struct mint_cgroup *c = open_tree(&t);
    assert_string_equal(mint_cgroup_path(c), at("%s/slice/own", t.root));
    expect_text(at("%s/slice/own/cgroup.subtree_control", t.root), "+cpu");
    expect_text(at("%s/slice/cgroup.subtree_control", t.root), "");

    int group = mint_cgroup_box(c, &limits, &number);
    assert_true(group >= 0);
    char *dir = at("%s/slice/own/mint.%d.%u", t.root, (int)getpid(), number);
    /* 256 MiB, twice a file, /dev/shm, 32 MiB of the sandbox's own */
    expect_text(at("%s/memory.max", dir), at("%d", (256 + 2 + 16 + 32) << 20));
    expect_text(at("%s/memory.swap.max", dir), "0");
    expect_text(at("%s/memory.oom.group", dir), "1");
    expect_text(at("%s/pids.max", dir), "34");
    expect_text(at("%s/cpu.max", dir), "100000 100000");
    mint_cgroup_kill(group);
    expect_text(at("%s/cgroup.kill", dir), "1");

    write_to(at("%s/cgroup.procs", dir), "");
    pid_t pid = fork();
    if (pid == 0) {
        mint_cgroup_enter(group);
        _exit(0);
    }
    waitpid(pid, NULL, 0);
    expect_text(at("%s/cgroup.procs", dir), "0");

    empty(dir);
    mint_cgroup_leave(c, group, number);
    assert_int_equal(access(dir, F_OK), -1);
    mint_cgroup_close(c);
    remove_tree(&t);
}

static void usage_and_kills_are_read(void **state)
{
    struct tree t;
    unsigned number;
    (void)state;
    make_tree(&t, "memory pids\n");
    struct mint_cgroup *c = open_tree(&t);
    int group = mint_cgroup_box(c, &limits, &number);
    const char *dir = at("%s/slice/own/mint.%d.%u", t.root, (int)getpid(), number);
    char *events = at("%s/memory.events", dir), *stat = at("%s/cpu.stat", dir);
    assert_int_equal(access(at("%s/cpu.max", dir), F_OK), -1); /* there is no such controller */
    assert_true(mint_cgroup_cpu(group) <= 0);
    assert_int_equal(mint_cgroup_oom(group), MINT_CGROUP_NO_OOM);
    write_to(stat, "usage_usec 2500000\nuser_usec 1\nsystem_usec 2\n");
    assert_true(mint_cgroup_cpu(group) > 2.49 && mint_cgroup_cpu(group) < 2.51);
    write_to(events, "low 0\nhigh 0\nmax 7\noom 3\noom_kill 0\noom_group_kill 0\n");
    assert_int_equal(mint_cgroup_oom(group), MINT_CGROUP_NO_OOM);
    write_to(events, "low 0\nhigh 0\nmax 7\noom 3\noom_kill 2\noom_group_kill 1\n");
    assert_int_equal(mint_cgroup_oom(group), MINT_CGROUP_OWN_OOM);
    write_to(events, "low 0\nhigh 0\nmax 0\noom 0\noom_kill 2\noom_group_kill 0\n");
    assert_int_equal(mint_cgroup_oom(group), MINT_CGROUP_HOST_OOM);
    assert_true(mint_cgroup_cpu(-1) <= 0);
    assert_int_equal(mint_cgroup_oom(-1), MINT_CGROUP_NO_OOM);
    mint_cgroup_leave(c, group, number);
    mint_cgroup_close(c);
    remove_tree(&t);
}

static void no_group_without_its_controllers(void **state)
{
    struct tree t;
    (void)state;
    make_tree(&t, "hugetlb memory_x xpids\n");
    assert_null(mint_cgroup_open_at(t.root, "/slice/own", &t.why));
    assert_non_null(strstr(t.why.data, "memory and pids are not handed down to this group"));
    mint_buf_reset(&t.why);
    assert_null(mint_cgroup_open_at(t.root, "/slice/gone", &t.why));
    assert_non_null(strstr(t.why.data, "No such file"));
    remove_tree(&t);
}

static void a_delegated_parent_is_used(void **state)
{
    struct tree t;
    (void)state;
    make_tree(&t, "memory pids\n");
    if (setxattr(at("%s/slice", t.root), "user.delegate", "1", 1, 0) < 0) {
        remove_tree(&t);
        skip();
    }
    struct mint_cgroup *c = open_tree(&t);
    assert_string_equal(mint_cgroup_path(c), at("%s/slice", t.root));
    expect_text(at("%s/slice/own/cgroup.subtree_control", t.root), "");
    mint_cgroup_close(c);
    remove_tree(&t);
}

static void what_the_dead_left_is_swept(void **state)
{
    struct tree t;
    (void)state;
    make_tree(&t, "memory pids\n");
    pid_t pid = fork();
    if (pid == 0)
        _exit(0);
    waitpid(pid, NULL, 0);
    char *dead = at("%s/slice/own/mint.%d.7", t.root, (int)pid);
    char *alive = at("%s/slice/own/mint.%d.7", t.root, (int)getppid());
    char *other = at("%s/slice/own/mint.%d.7.x", t.root, (int)pid);
    assert_int_equal(mkdir(dead, 0755) | mkdir(alive, 0755) | mkdir(other, 0755), 0);
    mint_cgroup_close(open_tree(&t));
    assert_int_equal(access(dead, F_OK), -1);
    assert_int_equal(access(alive, F_OK), 0);
    assert_int_equal(access(other, F_OK), 0);
    remove_tree(&t);
}

/* A real box in such a group: 0 if there is no sandbox here. */
static int start(struct mint_cgroup *c, struct mint_sandbox **s, struct mint_box *box,
                 const char *script)
{
    struct mint_err err = {0};
    struct mint_sandbox_opts o = {.cgroup = c};
    const char *const argv[] = {"/bin/sh", "-c", script, NULL};
    struct mint_box_spec spec = {.argv = argv, .input = "", .limits = limits};
    if (mint_sandbox_open(s, &o, &err) < 0) {
        fprintf(stderr, "no sandbox here: %s\n", err.msg);
        return 0;
    }
    if (mint_box_start(*s, &spec, box, &err) < 0)
        fail_msg("%s", err.msg);
    return 1;
}

static void boxes_end_by_what_the_group_says(void **state)
{
    static const struct {
        const char *file, *text;
        enum mint_box_end end;
    } cases[] = {{"memory.events", "oom 1\noom_kill 1\n", MINT_BOX_MEMORY},
                 {"memory.events", "oom 0\noom_kill 1\n", MINT_BOX_FAILED},
                 {"cpu.stat", "usage_usec 10100000\n", MINT_BOX_CPU}};
    (void)state;
    for (size_t i = 0; i < MINT_ARRAY_LEN(cases); i++) {
        struct tree t;
        struct mint_sandbox *s;
        struct mint_box box, *one = &box;
        make_tree(&t, "memory pids\n");
        struct mint_cgroup *c = open_tree(&t);
        if (start(c, &s, &box, "echo up; sleep 0.2; kill -9 $$")) {
            const char *dir =
                at("%s/slice/own/mint.%d.%u", t.root, (int)getpid(), box.group_number);
            while (!box.end && !box.out.len)
                mint_box_step(&one, 1);
            write_to(at("%s/%s", dir, cases[i].file), cases[i].text);
            mint_box_wait(&box);
            assert_int_equal(box.end, cases[i].end);
            mint_box_release(&box);
        }
        mint_sandbox_close(s);
        mint_cgroup_close(c);
        remove_tree(&t);
    }
}

static void a_box_does_without(void **state)
{
    struct tree t;
    struct mint_sandbox *s;
    struct mint_box box;
    (void)state;
    make_tree(&t, "memory pids\n");
    struct mint_cgroup *c = open_tree(&t);
    mint_sandbox_remove(t.root);
    if (start(c, &s, &box, "echo fine")) {
        mint_box_wait(&box);
        assert_int_equal(box.end, MINT_BOX_EXITED);
        assert_int_equal(box.out.len, 5);
        mint_box_release(&box);
    }
    mint_sandbox_close(s);
    mint_cgroup_close(c);
    remove_tree(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(limits_are_written_and_the_folder_goes),
        cmocka_unit_test(usage_and_kills_are_read),
        cmocka_unit_test(no_group_without_its_controllers),
        cmocka_unit_test(a_delegated_parent_is_used),
        cmocka_unit_test(what_the_dead_left_is_swept),
        cmocka_unit_test(boxes_end_by_what_the_group_says),
        cmocka_unit_test(a_box_does_without),
    };
    signal(SIGPIPE, SIG_IGN);
    return cmocka_run_group_tests(tests, NULL, NULL);
}

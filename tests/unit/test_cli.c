/* SPDX-License-Identifier: Apache-2.0 */
/* The option engine. Each case runs a small tool in a child process and looks at its status and its
 * words. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "buf.h"
#include "cli.h"
#include "mem.h"

struct opts {
    struct mint_common common;
    bool shuffle, keep;
    int64_t group, top_k, limit;
    double temperature, lr;
    const char *model;
    struct mint_strs stop;
    int norm;
};

static const char *const norms[] = {"none", "std", "loo", NULL};
static const struct mint_opt table[] = {
    MINT_O_HEAD("Sampling"),
    MINT_O_STR('m', "model", "DIR", struct opts, model, "the model's folder"),
    MINT_O_INT('g', "group-size", "N", struct opts, group, 1, 65536, "answers per prompt"),
    MINT_O_INT(0, "top-k", "K", struct opts, top_k, -1, 1e18, "keep the K best"),
    MINT_O_INT(0, "limit", "N", struct opts, limit, 1, 1e18, "stop after N"),
    MINT_O_FLOAT(0, "temperature", "T", struct opts, temperature, 0, 100, "0 is greedy"),
    MINT_O_FLOAT(0, "lr", "X", struct opts, lr, 0, 1e300, "step size"),
    MINT_O_LIST(0, "stop", "STR", struct opts, stop, "ends a response"),
    MINT_O_CHOICE(0, "norm", norms, struct opts, norm, "of the advantages"),
    MINT_O_FLAG(0, "shuffle", struct opts, shuffle, "in random order"),
    {.type = MINT_OPT_FLAG,
     .letter = 'k',
     .name = "keep-flat",
     .offset = offsetof(struct opts, keep),
     .help = "keep flat groups",
     .more = "A group is flat when all of its rewards are equal."},
    MINT_O_END,
};
static const char *const examples[] = {"mint-probe --model m prompts.jsonl", NULL};
static struct mint_tool tool = {.name = "mint-probe",
                                .summary = "says what it was told",
                                .synopsis = "--model DIR [options] [FILE ...]",
                                .groups = MINT_CLI_IO | MINT_CLI_RUN | MINT_CLI_COMPUTE,
                                .opts = table,
                                .examples = examples};

static int probe_main(char **argv)
{
    const char *stop_default[] = {"END"};
    struct opts o = {.group = 4,
                     .top_k = -1,
                     .temperature = 0.8,
                     .lr = 2e-5,
                     .keep = true,
                     .norm = 1,
                     .stop = {stop_default, 1}};
    int argc = 0;
    while (argv[argc])
        argc++;
    mint_cli_begin(&tool, argc, argv, &o);
    struct mint_err err = {0};
    int rc = 0;
    if (o.group == 13)
        rc = mint_usage(&err, "--group-size must not be unlucky");
    if (o.group == 14)
        rc = mint_fail(&err, MINT_EFORMAT, "f.jsonl:3: not an object");
    printf("model=%s g=%lld k=%lld t=%g lr=%g norm=%s shuffle=%d keep=%d quiet=%d verbose=%d",
           o.model ? o.model : "-", (long long)o.group, (long long)o.top_k, o.temperature, o.lr,
           norms[o.norm], o.shuffle, o.keep, o.common.quiet, o.common.verbose);
    printf(" out=%s T=%lld dev=%s given=%d%d stop=", o.common.output ? o.common.output : "-",
           (long long)o.common.threads, o.common.device, mint_cli_given("group-size"),
           mint_cli_given("keep-flat"));
    for (size_t i = 0; i < o.stop.n; i++)
        printf("<%s>", o.stop.v[i]);
    printf(" operands=");
    for (size_t i = 0; i < o.common.operands.n; i++)
        printf("<%s>", o.common.operands.v[i]);
    return mint_cli_end(rc, &err, o.group == 15 ? 2 : 0);
}

static struct {
    int status;
    char out[16384], err[4096];
} got;

static void slurp(FILE *f, char *to, size_t cap)
{
    rewind(f);
    size_t n = fread(to, 1, cap - 1, f);
    to[n] = '\0';
    fclose(f);
}

/* Runs the probe with "mint-probe" and the words up to NULL as its arguments. */
static void run(const char *first, ...)
{
    char *argv[32] = {(char *)(uintptr_t) "mint-probe", NULL};
    va_list ap;
    va_start(ap, first);
    int n = 1;
    for (const char *a = first; a; a = va_arg(ap, const char *))
        argv[n++] = (char *)(uintptr_t)a;
    va_end(ap);
    FILE *out = tmpfile(), *err = tmpfile();
    assert_non_null(out);
    assert_non_null(err);
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0) {
        dup2(fileno(out), 1);
        dup2(fileno(err), 2);
        exit(probe_main(argv));
    }
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    got.status = WEXITSTATUS(status);
    slurp(out, got.out, sizeof got.out);
    slurp(err, got.err, sizeof got.err);
}

static void assert_has(const char *text, const char *part)
{
    if (!strstr(text, part))
        fail_msg("no \"%s\" in: %s", part, text);
}

static void expect_ok(const char *part)
{
    if (got.status != 0)
        fail_msg("status %d: %s", got.status, got.err);
    assert_has(got.out, part);
}

/* Status 2, one line, nothing on stdout, a way out. */
static void expect_usage(const char *part)
{
    assert_int_equal(got.status, 2);
    assert_string_equal(got.out, "");
    assert_has(got.err, part);
    assert_has(got.err, "; try 'mint-probe --help'\n");
    assert_ptr_equal(strchr(got.err, '\n') + 1, got.err + strlen(got.err));
}

static void test_defaults(void **state)
{
    (void)state;
    run(NULL);
    expect_ok("model=- g=4 k=-1 t=0.8 lr=2e-05 norm=std shuffle=0 keep=1 quiet=0 verbose=0 out=- "
              "T=0 dev=cpu given=00 "
              "stop=<END> operands=");
}

static void test_spellings(void **state)
{
    (void)state;
    run("--model", "a", "--group-size=8", "x", "--no-keep-flat", "--shuffle", "y", NULL);
    expect_ok("model=a g=8 k=-1 t=0.8 lr=2e-05 norm=std shuffle=1 keep=0");
    assert_has(got.out, "given=11 stop=<END> operands=<x><y>");
    run("-g8", "-m", "b", "-qvv", "--top-k", "-1", NULL);
    expect_ok("model=b g=8 k=-1");
    assert_has(got.out, "quiet=1 verbose=2");
    run("--model=a=b", "--output=", "--norm", "loo", NULL);
    expect_ok("model=a=b g=4 k=-1 t=0.8 lr=2e-05 norm=loo");
}

static void test_operands(void **state)
{
    (void)state;
    run("-", "--", "--group-size", "-q", NULL);
    expect_ok("operands=<-><--group-size><-q>");
    run("--group-size", "5", "--group-size", "6", NULL);
    expect_ok("g=6");
}

static void test_lists(void **state)
{
    (void)state;
    run("--stop", "a", "--stop=", "--stop", "c", "--stop", "-d", NULL);
    expect_ok("stop=<a><><c><-d>");
}

static void test_numbers(void **state)
{
    (void)state;
    run("--limit", "2K", "--temperature", "1e-3", NULL);
    expect_ok("t=0.001");
    run("--group-size", "abc", NULL);
    expect_usage("'--group-size' takes a whole number, not 'abc'");
    run("--group-size", "0", NULL);
    expect_usage("'--group-size' must be from 1 to 65536, not 0");
    run("--limit=0", NULL);
    expect_usage("'--limit' must be 1 or more, not 0");
    run("-g", "1.5", NULL);
    expect_usage("'-g' takes a whole number, not '1.5'");
    run("--group-size=", NULL);
    expect_usage("whole number, not ''");
    run("--group-size=99999999999999999999", NULL);
    expect_usage("'--group-size' must be from 1 to 65536, not 99999999999999999999");
    run("--limit=99999999999999999999", NULL);
    expect_usage("'--limit' must be from 1 to 1000000000000000000, not 99999999999999999999");
    run("--limit=-99999999999999999999K", NULL);
    expect_usage("'--limit' must be 1 or more, not -99999999999999999999K");
    run("--group-size=99999999999999999999GiB", NULL);
    expect_usage("'--group-size' must be from 1 to 65536");
    run("--temperature", "nan", NULL);
    expect_usage("'--temperature' takes a number, not 'nan'");
    run("--temperature", "-0.1", NULL);
    expect_usage("'--temperature' must be from 0 to 100, not -0.1");
    run("--lr", "1x", NULL);
    expect_usage("'--lr' takes a number, not '1x'");
    run("--norm", "sd", NULL);
    expect_usage("'--norm' takes one of none, std, loo, not 'sd'");
}

static void test_unknown_and_hints(void **state)
{
    (void)state;
    run("--nonsense", NULL);
    expect_usage("unknown option '--nonsense'");
    run("--grup-size", "3", NULL);
    expect_usage("unknown option '--grup-size' (did you mean '--group-size'?)");
    run("--temp=1", NULL);
    expect_usage("(did you mean '--temperature'?)");
    run("--no-keepflat", NULL);
    expect_usage("(did you mean '--no-keep-flat'?)");
    run("-model", "x", NULL);
    expect_usage("unknown option '-model' (did you mean '--model'?)");
    run("-z", NULL);
    expect_usage("unknown option '-z'");
    run("--no-model", NULL);
    expect_usage("unknown option '--no-model'");
    run("--\n\x1b[31m", NULL);
    expect_usage("\\x0a\\x1b[31m");
}

static void test_values_missing_or_too_many(void **state)
{
    (void)state;
    run("--model", NULL);
    expect_usage("'--model' needs a value (DIR)");
    run("-g", NULL);
    expect_usage("'-g' needs a value (N)");
    run("--norm", NULL);
    expect_usage("'--norm' needs a value (none|std|loo)");
    run("--model", "--group-size", "3", NULL);
    expect_usage("'--model' needs a value (DIR), but '--group-size' follows");
    run("--shuffle=yes", NULL);
    expect_usage("'--shuffle' takes no value");
    run("--no-shuffle=1", NULL);
    expect_usage("'--no-shuffle' takes no value");
}

static void test_nothing_is_stored_before_all_is_checked(void **state)
{
    (void)state;
    run("--group-size", "8", "--help", NULL);
    expect_ok("answers per prompt [4]");
    run("--stop", "--nope", NULL);
    expect_ok("stop=<--nope>");
}

static void test_help(void **state)
{
    (void)state;
    run("-h", NULL);
    expect_ok("usage: mint-probe --model DIR [options] [FILE ...]\n");
    assert_has(got.out, "  -g, --group-size N                answers per prompt [4]\n");
    assert_has(got.out, "      --norm none|std|loo           of the advantages [std]\n");
    assert_has(got.out, "  -k, --[no-]keep-flat              keep flat groups [on]\n");
    assert_has(got.out,
               "      --limit N                     stop after N\n"); /* 0 is outside of its range:
                                                                         unset */
    assert_has(got.out, "  -T, --threads N ");
    assert_null(strstr(got.out, "flat when all"));
    assert_string_equal(got.err, "");
    run("--help", NULL);
    expect_ok("A group is flat when all of its rewards are equal.");
    assert_has(got.out, "  mint-probe --model m prompts.jsonl\n");
    assert_has(got.out, "Exit status:");
    assert_has(got.out, "MINT_THREADS");
}

static void test_version(void **state)
{
    (void)state;
    run("--version", NULL);
    expect_ok("mint-probe ");
    assert_has(got.out, "\ncompiler: ");
    assert_has(got.out, "\nzstd: 1.");
}

static void test_dumps(void **state)
{
    (void)state;
    run("--dump-options=mdoc", NULL);
    expect_ok(
        ".It Fl g , Fl -group-size Ar \\&N\nAnswers per prompt.\nThe default is\n.Cm \\&4 .\n");
    run("--dump-options=bash", NULL);
    expect_ok("complete -o filenames -F _mint_probe mint-probe");
    run("--dump-options=zsh", NULL);
    expect_ok("'--norm=[of the advantages]:value:(none std loo)'");
    run("--dump-options=fish", NULL);
    expect_ok("complete -c mint-probe -l norm -x -a 'none std loo'");
    run("--dump-options=tcsh", NULL);
    expect_usage("mdoc, bash, zsh, fish");
}

static void test_environment(void **state)
{
    (void)state;
    setenv("MINT_THREADS", "3", 1);
    setenv("MINT_DEVICE", "cuda:1", 1);
    run(NULL);
    expect_ok("T=3 dev=cuda:1");
    run("-T", "2", "--device=cpu", NULL);
    expect_ok("T=2 dev=cpu");
    setenv("MINT_THREADS", "many", 1);
    run(NULL);
    expect_usage("the environment variable MINT_THREADS takes a whole number, not 'many'");
    run("--help", NULL);
    expect_ok("usage:");
    setenv("MINT_THREADS", "0", 1);
    run(NULL);
    expect_usage("MINT_THREADS must be from 1 to 4096, not 0");
    setenv("MINT_THREADS", "", 1);
    setenv("MINT_DEVICE", "tpu", 1);
    run(NULL);
    expect_usage("the environment variable MINT_DEVICE takes cpu, cuda, cuda:N or auto, not 'tpu'");
    unsetenv("MINT_THREADS");
    unsetenv("MINT_DEVICE");
    run("--device", "cuda:x", NULL);
    expect_usage("'--device' takes cpu");
}

static void test_end(void **state)
{
    (void)state;
    run("-g13", NULL);
    assert_int_equal(got.status, 2);
    assert_string_equal(got.err,
                        "mint-probe: --group-size must not be unlucky; try 'mint-probe --help'\n");
    run("-g14", NULL);
    assert_int_equal(got.status, 1);
    assert_string_equal(got.err, "mint-probe: f.jsonl:3: not an object\n");
    run("-g15", NULL);
    assert_int_equal(got.status, 3);
    assert_string_equal(got.err, "mint-probe: 2 records skipped\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_defaults),
        cmocka_unit_test(test_spellings),
        cmocka_unit_test(test_operands),
        cmocka_unit_test(test_lists),
        cmocka_unit_test(test_numbers),
        cmocka_unit_test(test_unknown_and_hints),
        cmocka_unit_test(test_values_missing_or_too_many),
        cmocka_unit_test(test_nothing_is_stored_before_all_is_checked),
        cmocka_unit_test(test_help),
        cmocka_unit_test(test_version),
        cmocka_unit_test(test_dumps),
        cmocka_unit_test(test_environment),
        cmocka_unit_test(test_end),
    };
    unsetenv("MINT_THREADS");
    unsetenv("MINT_DEVICE");
    return cmocka_run_group_tests(tests, NULL, NULL);
}

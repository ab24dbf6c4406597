/* SPDX-License-Identifier: Apache-2.0 */
#include "cli.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli_impl.h"
#include "fs.h"
#include "log.h"
#include "mem.h"
#include "num.h"

/* The one command line of the process. Memory stays reachable from here until exit. */
static struct {
    const struct mint_tool *tool;
    struct mint_arena arena;
    const struct mint_opt **given;
    size_t ngiven;
} cli;

/* ---- the tables ---- */

static const char *const progress_modes[] = {"auto", "always", "never", NULL};
static const char *const precisions[] = {"bf16", "f32", NULL};
#define MAX_THREADS 4096

static const struct mint_opt io_opts[] = {
    MINT_O_HEAD("Input and output"),
    MINT_O_STR('o', "output", "FILE", struct mint_common, output,
               "write FILE, whole or not at all, instead of standard output"),
    MINT_O_FLAG('f', "force", struct mint_common, force, "replace FILE if it exists"),
    MINT_O_FLAG(0, "plain", struct mint_common, plain,
                "write plain JSON Lines, not compressed with zstd"),
    MINT_O_FLAG(0, "skip-bad", struct mint_common, skip_bad,
                "go on after a bad record; count them, and end with status 3"),
    MINT_O_END,
};
static const struct mint_opt run_opts[] = {
    MINT_O_HEAD("Reports"),
    MINT_O_STR(0, "metrics", "FILE", struct mint_common, metrics,
               "append one JSON object per step to FILE"),
    MINT_O_CHOICE(0, "progress", progress_modes, struct mint_common, progress,
                  "progress line on standard error; auto: on a terminal"),
    MINT_O_END,
};
static const struct mint_opt compute_opts[] = {
    MINT_O_HEAD("Computing"),
    MINT_O_INT('T', "threads", "N", struct mint_common, threads, 1, MAX_THREADS,
               "use N threads, instead of all that the process may use"),
    {.type = MINT_OPT_STRING,
     .name = "device",
     .arg = "DEV",
     .offset = offsetof(struct mint_common, device),
     .help = "cpu, cuda, cuda:N or auto",
     .more = "auto takes a GPU if there is one that works, else the CPU."},
    {.type = MINT_OPT_CHOICE,
     .name = "precision",
     .choices = precisions,
     .offset = offsetof(struct mint_common, precision),
     .help = "of the matrix products' inputs",
     .more = "bf16 rounds weights, matrix inputs and the key/value cache to bfloat16 and adds in "
             "float32. "
             "f32 rounds nothing: for comparisons, not for speed."},
    MINT_O_END,
};
static const struct mint_opt common_opts[] = {
    MINT_O_HEAD("General"),
    MINT_O_FLAG('q', "quiet", struct mint_common, quiet, "say nothing but errors"),
    {.type = MINT_OPT_COUNT,
     .letter = 'v',
     .name = "verbose",
     .offset = offsetof(struct mint_common, verbose),
     .help = "say what was decided; twice: timings too"},
    {.type = MINT_OPT_FLAG,
     .letter = 'h',
     .name = "help",
     .offset = MINT_CLI_NO_FIELD,
     .help = "this help; -h is the short one",
     .more = "A whole number, as an option takes it, may end in K, M or G (thousands, millions, "
             "billions) or in KiB, MiB or GiB (powers of 1024)."},
    {.type = MINT_OPT_FLAG,
     .letter = 'V',
     .name = "version",
     .offset = MINT_CLI_NO_FIELD,
     .help = "version, compiler, libraries, backends"},
    MINT_O_END,
};

const struct mint_opt *mint_cli_next(struct mint_cli_iter *it)
{
    const struct mint_tool *t = it->tool;
    const struct mint_opt *const tables[] = {
        t->opts,
        t->groups & MINT_CLI_COMPUTE ? compute_opts : NULL,
        t->groups & MINT_CLI_IO ? io_opts : NULL,
        t->groups & MINT_CLI_RUN ? run_opts : NULL,
        common_opts,
    };
    for (; it->table < (int)MINT_ARRAY_LEN(tables); it->table++, it->at = 0) {
        const struct mint_opt *o = tables[it->table];
        if (o && o[it->at].type != MINT_OPT_END)
            return &o[it->at++];
    }
    return NULL;
}

/* ---- wrong use ---- */

int mint_usage(struct mint_err *err, const char *fmt, ...)
{
    char text[sizeof err->msg];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    return mint_fail(err, MINT_EUSAGE, "%s", text);
}

static int say_error(const struct mint_err *err)
{
    if (err->code != MINT_EUSAGE) {
        mint_error("%s", err->msg);
        return 1;
    }
    mint_error("%s; try '%s --help'", err->msg, cli.tool->name);
    return 2;
}

static size_t min3(size_t a, size_t b, size_t c)
{
    return MINT_MIN(MINT_MIN(a, b), c);
}

/* Insertions, deletions, replacements and swaps of neighbours between two short words. */
static size_t edit_distance(const char *a, const char *b)
{
    enum { MAX = 40 };
    size_t d[MAX + 1][MAX + 1], n = strlen(a), m = strlen(b);
    if (n > MAX || m > MAX)
        return SIZE_MAX;
    for (size_t i = 0; i <= n; i++) {
        for (size_t j = 0; j <= m; j++) {
            if (!i || !j) {
                d[i][j] = i + j;
                continue;
            }
            d[i][j] =
                min3(d[i - 1][j] + 1, d[i][j - 1] + 1, d[i - 1][j - 1] + (a[i - 1] != b[j - 1]));
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
                d[i][j] = MINT_MIN(d[i][j], d[i - 2][j - 2] + 1);
        }
    }
    return d[n][m];
}

/* How far an option's name is from what was typed; a beginning of the name is near. */
static size_t hint_distance(const char *typed, const char *name)
{
    size_t n = strlen(typed);
    if (n >= 3 && strncmp(typed, name, n) == 0)
        return 1;
    return edit_distance(typed, name);
}

/* The name nearest to what was typed, or NULL when nothing is near. */
static const char *nearest(const char *typed, bool *negated)
{
    const char *best = NULL;
    size_t limit = strlen(typed) / 3 + 1, least = MINT_MIN(limit, (size_t)3) + 1;
    struct mint_cli_iter it = {cli.tool, 0, 0};
    const struct mint_opt *o;
    while ((o = mint_cli_next(&it))) {
        if (o->type == MINT_OPT_HEADING)
            continue;
        size_t d = hint_distance(typed, o->name);
        if (d < least) {
            least = d;
            best = o->name;
            *negated = false;
        }
        if (o->type != MINT_OPT_FLAG || o->offset == MINT_CLI_NO_FIELD ||
            strncmp(typed, "no-", 3) != 0)
            continue;
        d = hint_distance(typed + 3, o->name);
        if (d < least) {
            least = d;
            best = o->name;
            *negated = true;
        }
    }
    return best;
}

static int unknown_long(const char *name, struct mint_err *err)
{
    bool negated = false;
    const char *near = nearest(name, &negated);
    if (!near)
        return mint_usage(err, "unknown option '--%s'", name);
    return mint_usage(err, "unknown option '--%s' (did you mean '--%s%s'?)", name,
                      negated ? "no-" : "", near);
}

/* ---- values ---- */

static void *field(const struct mint_opt *o, void *base)
{
    return (char *)base + o->offset;
}

static void limit_text(char *out, const struct mint_opt *o, double v)
{
    if (o->type == MINT_OPT_INT && fabs(v) < 9e18)
        mint_num_print_int(out, (int64_t)v);
    else
        mint_num_print_double(out, isfinite(v) ? v : 0);
}

/* "1 or more", "from 1 to 10", "10 or less": what a number must be. A limit that nobody meets is
 * left out, unless it was met. */
static void range_text(char *out, size_t cap, const struct mint_opt *o, bool too_large)
{
    char lo[MINT_NUM_MAX], hi[MINT_NUM_MAX];
    double big = o->type == MINT_OPT_INT ? 9e15 : HUGE_VAL;
    limit_text(lo, o, o->min);
    limit_text(hi, o, o->max);
    if (o->max >= big && !too_large)
        snprintf(out, cap, "%s or more", lo);
    else if (o->min <= -big)
        snprintf(out, cap, "%s or less", hi);
    else
        snprintf(out, cap, "from %s to %s", lo, hi);
}

static int out_of_range(const struct mint_opt *o, const char *how, const char *value,
                        bool too_large, struct mint_err *err)
{
    char range[3 * MINT_NUM_MAX];
    range_text(range, sizeof range, o, too_large);
    return mint_usage(err, "%s must be %s, not %.100s", how, range, value);
}

static int set_int(const struct mint_opt *o, const char *how, const char *value, int64_t *out,
                   struct mint_err *err)
{
    int64_t v;
    if (!mint_num_arg_int(value, &v)) {
        if (mint_num_arg_is_int(value))
            return out_of_range(o, how, value, value[0] != '-', err);
        return mint_usage(err, "%s takes a whole number, not '%s'", how, value);
    }
    if ((double)v < o->min || (double)v > o->max)
        return out_of_range(o, how, value, (double)v > o->max, err);
    if (out)
        *out = v;
    return 0;
}

static int set_float(const struct mint_opt *o, const char *how, const char *value, double *out,
                     struct mint_err *err)
{
    double v;
    if (!mint_num_arg_double(value, &v) || !isfinite(v))
        return mint_usage(err, "%s takes a number, not '%s'", how, value);
    if (v < o->min || v > o->max)
        return out_of_range(o, how, value, v > o->max, err);
    if (out)
        *out = v;
    return 0;
}

static int set_choice(const struct mint_opt *o, const char *how, const char *value, int *out,
                      struct mint_err *err)
{
    struct mint_buf list = MINT_BUF_INIT;
    for (int i = 0; o->choices[i]; i++) {
        if (strcmp(o->choices[i], value) == 0) {
            if (out)
                *out = i;
            mint_buf_release(&list);
            return 0;
        }
        mint_buf_addf(&list, "%s%s", i ? ", " : "", o->choices[i]);
    }
    mint_usage(err, "%s takes one of %s, not '%s'", how, list.data, value);
    mint_buf_release(&list);
    return -1;
}

static bool device_name_ok(const char *s)
{
    if (strcmp(s, "auto") == 0 || strcmp(s, "cpu") == 0 || strcmp(s, "cuda") == 0 ||
        strcmp(s, "cuda-emu") == 0)
        return true;
    if (strncmp(s, "cuda:", 5) != 0)
        return false;
    size_t digits = strspn(s + 5, "0123456789");
    return digits >= 1 && digits <= 3 && s[5 + digits] == '\0';
}

static int set_string(const struct mint_opt *o, const char *how, const char *value,
                      const char **out, struct mint_err *err)
{
    if (o->offset == offsetof(struct mint_common, device) && !device_name_ok(value))
        return mint_usage(err, "%s takes cpu, cuda, cuda:N or auto, not '%s'", how, value);
    if (out)
        *out = value;
    return 0;
}

static bool was_given(const struct mint_opt *o)
{
    for (size_t i = 0; i < cli.ngiven; i++)
        if (cli.given[i] == o)
            return true;
    return false;
}

static void append(struct mint_strs *l, const struct mint_opt *o, const char *value)
{
    if (!was_given(o))
        *l = (struct mint_strs){NULL, 0};
    /* Room is taken at powers of two; what is outgrown stays in the arena. */
    if ((l->n & (l->n - 1)) == 0) {
        const char **v = mint_arena_alloc(&cli.arena, (l->n ? 2 * l->n : 1) * sizeof *v);
        if (l->n)
            memcpy(v, l->v, l->n * sizeof *v);
        l->v = v;
    }
    l->v[l->n++] = value;
}

/* how: the option or variable as the user wrote it, for messages. base NULL: only check. */
static int set_value(const struct mint_opt *o, const char *how, const char *value, void *base,
                     struct mint_err *err)
{
    switch (o->type) {
    case MINT_OPT_INT:
        return set_int(o, how, value, base ? field(o, base) : NULL, err);
    case MINT_OPT_FLOAT:
        return set_float(o, how, value, base ? field(o, base) : NULL, err);
    case MINT_OPT_CHOICE:
        return set_choice(o, how, value, base ? field(o, base) : NULL, err);
    case MINT_OPT_STRING:
        return set_string(o, how, value, base ? field(o, base) : NULL, err);
    case MINT_OPT_LIST:
        if (base)
            append(field(o, base), o, value);
        return 0;
    default:
        MINT_BUG("option --%s takes no value", o->name);
    }
}

/* ---- the walk over argv: once to check and to answer --help, once to store ---- */

struct walk {
    int argc, at;
    char **argv;
    void *base; /* NULL: only check */
    const void *defaults;
    struct mint_strs *operands;
};

/* Data that stdio or the kernel held back may fail only now: no success before this. */
static int close_stdout(void)
{
    int bad = ferror(stdout);
    errno = 0;
    if (fflush(stdout) != 0 || bad || fclose(stdout) != 0) {
        mint_error("cannot write standard output%s%s", errno ? ": " : "",
                   errno ? strerror(errno) : "");
        return 1;
    }
    return 0;
}

/* Past stdio, so that the reason of a failure is still known. */
static void print_and_exit(struct mint_buf *b)
{
    if (mint_fs_write_all(STDOUT_FILENO, b->data, b->len) != 0) {
        mint_error("cannot write standard output: %s", strerror(errno));
        exit(1);
    }
    mint_buf_release(b);
    exit(close_stdout());
}

static void answer_help(const struct walk *w, bool with_more)
{
    struct mint_buf b = MINT_BUF_INIT;
    mint_cli_help(&b, cli.tool, w->defaults, with_more);
    print_and_exit(&b);
}

static void answer_version(void)
{
    struct mint_buf b = MINT_BUF_INIT;
    mint_cli_version(&b, cli.tool);
    print_and_exit(&b);
}

static int answer_dump(const struct walk *w, const char *format, struct mint_err *err)
{
    struct mint_buf b = MINT_BUF_INIT;
    if (mint_cli_dump(&b, cli.tool, w->defaults, format))
        print_and_exit(&b);
    mint_buf_release(&b);
    return mint_usage(err, "'--dump-options' takes one of mdoc, bash, zsh, fish, not '%s'", format);
}

static void store_switch(const struct walk *w, const struct mint_opt *o, bool on, bool is_short)
{
    if (o->offset == MINT_CLI_NO_FIELD) {
        if (w->base)
            return;
        if (o->letter == 'h')
            answer_help(w, !is_short);
        answer_version();
    }
    if (!w->base)
        return;
    if (o->type == MINT_OPT_FLAG)
        *(bool *)field(o, w->base) = on;
    else
        ++*(int *)field(o, w->base);
}

static void note_given(const struct walk *w, const struct mint_opt *o)
{
    if (w->base && !was_given(o))
        cli.given[cli.ngiven++] = o;
}

static const struct mint_opt *find_long(const char *name, size_t n)
{
    struct mint_cli_iter it = {cli.tool, 0, 0};
    const struct mint_opt *o;
    while ((o = mint_cli_next(&it)))
        if (o->type != MINT_OPT_HEADING && strlen(o->name) == n && memcmp(o->name, name, n) == 0)
            return o;
    return NULL;
}

/* "--no-NAME" of a flag. */
static const struct mint_opt *find_negated(const char *name, size_t n)
{
    if (n <= 3 || memcmp(name, "no-", 3) != 0)
        return NULL;
    const struct mint_opt *o = find_long(name + 3, n - 3);
    return o && o->type == MINT_OPT_FLAG && o->offset != MINT_CLI_NO_FIELD ? o : NULL;
}

/* The argument after an option that needs a value. */
static const char *next_value(struct walk *w, const struct mint_opt *o, const char *how,
                              struct mint_err *err)
{
    struct mint_buf arg = MINT_BUF_INIT;
    mint_cli_arg_text(&arg, o);
    const char *v = w->at + 1 < w->argc ? w->argv[w->at + 1] : NULL;
    if (!v) {
        mint_usage(err, "%s needs a value (%s)", how, arg.data);
    } else if (strncmp(v, "--", 2) == 0 && find_long(v + 2, strlen(v + 2))) {
        /* --model --adapter x: the value was forgotten; taking "--adapter" would only confuse
         * later. */
        mint_usage(err,
                   "%s needs a value (%s), but '%s' follows; if that is the value, write '--%s=%s'",
                   how, arg.data, v, o->name, v);
        v = NULL;
    } else {
        w->at++;
    }
    mint_buf_release(&arg);
    return v;
}

/* value NULL: next_value has said why. */
static int take_value(const struct walk *w, const struct mint_opt *o, const char *how,
                      const char *value, struct mint_err *err)
{
    if (!value || set_value(o, how, value, w->base, err))
        return -1;
    note_given(w, o);
    return 0;
}

static int walk_long(struct walk *w, const char *arg, struct mint_err *err)
{
    const char *name = arg + 2, *eq = strchr(name, '=');
    size_t n = eq ? (size_t)(eq - name) : strlen(name);
    char how[80];
    snprintf(how, sizeof how, "'--%.*s'", (int)MINT_MIN(n, (size_t)60), name);
    if (eq && n == 12 && memcmp(name, "dump-options", n) == 0)
        return answer_dump(w, eq + 1, err);

    const struct mint_opt *o = find_long(name, n);
    const struct mint_opt *negated = o ? NULL : find_negated(name, n);
    if (!o && !negated) {
        char *typed = mint_arena_strndup(&cli.arena, name, n);
        return unknown_long(typed, err);
    }
    if (negated || mint_cli_is_switch(o)) {
        if (eq)
            return mint_usage(err, "%s takes no value", how);
        store_switch(w, negated ? negated : o, !negated, false);
        note_given(w, negated ? negated : o);
        return 0;
    }
    return take_value(w, o, how, eq ? eq + 1 : next_value(w, o, how, err), err);
}

static const struct mint_opt *find_letter(char c)
{
    struct mint_cli_iter it = {cli.tool, 0, 0};
    const struct mint_opt *o;
    while ((o = mint_cli_next(&it)))
        if (o->type != MINT_OPT_HEADING && o->letter == c)
            return o;
    return NULL;
}

/* "-qv", "-T4", "-T 4". */
static int walk_short(struct walk *w, const char *arg, struct mint_err *err)
{
    /* "-model" would be -m with the value "odel": surely not meant. */
    if (arg[2] && find_long(arg + 1, strcspn(arg + 1, "=")))
        return mint_usage(err, "unknown option '%s' (did you mean '-%s'?)", arg, arg);
    for (const char *p = arg + 1; *p; p++) {
        const struct mint_opt *o = find_letter(*p);
        char how[8];
        snprintf(how, sizeof how, "'-%c'", *p);
        if (!o)
            return mint_usage(err, "unknown option %s", how);
        if (!mint_cli_is_switch(o))
            return take_value(w, o, how, p[1] ? p + 1 : next_value(w, o, how, err), err);
        store_switch(w, o, true, true);
        note_given(w, o);
    }
    return 0;
}

static int walk(struct walk *w, struct mint_err *err)
{
    bool ended = false;
    for (w->at = 1; w->at < w->argc; w->at++) {
        const char *arg = w->argv[w->at];
        int rc = 0;
        if (ended || arg[0] != '-' || arg[1] == '\0') {
            if (w->base)
                w->operands->v[w->operands->n++] = arg;
        } else if (strcmp(arg, "--") == 0) {
            ended = true;
        } else {
            rc = arg[1] == '-' ? walk_long(w, arg, err) : walk_short(w, arg, err);
        }
        if (rc)
            return rc;
    }
    return 0;
}

/* ---- environment ---- */

static int from_environment(void *opts, struct mint_err *err)
{
    if (!(cli.tool->groups & MINT_CLI_COMPUTE))
        return 0;
    struct mint_common *c = opts;
    if (!c->device)
        c->device = "cpu";
    const struct {
        const char *variable, *option;
    } map[] = {{"MINT_THREADS", "threads"}, {"MINT_DEVICE", "device"}};
    for (size_t i = 0; i < MINT_ARRAY_LEN(map); i++) {
        const char *v = getenv(map[i].variable);
        const struct mint_opt *o = find_long(map[i].option, strlen(map[i].option));
        if (!v || !*v)
            continue;
        char how[64];
        snprintf(how, sizeof how, "the environment variable %s", map[i].variable);
        if (set_value(o, how, v, opts, err))
            return -1;
    }
    return 0;
}

/* ---- signals and standard streams ---- */

/* Takes the unfinished files away, then dies of the same signal so that the shell sees it. */
static void on_signal(int sig)
{
    mint_fs_cleanup();
    signal(sig, SIG_DFL);
    raise(sig);
}

static void on_file_limit(int sig)
{
    (void)sig;
}

static void setup_signals(void)
{
    static const int fatal[] = {SIGINT, SIGTERM, SIGHUP};
    signal(SIGPIPE, SIG_DFL);
    /* Over a file size limit write(2) then fails with EFBIG, like a full disk. A handler and not
     * SIG_IGN, which programs that we start would inherit. */
    signal(SIGXFSZ, on_file_limit);
    for (size_t i = 0; i < MINT_ARRAY_LEN(fatal); i++) {
        struct sigaction old, sa = {.sa_handler = on_signal};
        sigemptyset(&sa.sa_mask);
        /* nohup and "&" in scripts ignore a signal on purpose: leave that. */
        if (sigaction(fatal[i], NULL, &old) == 0 && old.sa_handler != SIG_IGN)
            sigaction(fatal[i], &sa, NULL);
    }
}

/* A closed 0, 1 or 2 would be given to the next file that is opened, which then gets our words. Put
 * something there that cannot be read (0) or written (1). */
static void hold_standard_fds(void)
{
    static const int flags[] = {O_WRONLY, O_RDONLY, O_RDWR};
    for (int fd = 0; fd < 3; fd++) {
        if (fcntl(fd, F_GETFD) >= 0)
            continue;
        int got = open("/dev/null", flags[fd]);
        if (got >= 0 && got != fd)
            close(got);
    }
}

/* ---- start and end ---- */

static void refuse_terminal(const struct mint_tool *tool, const struct mint_common *c)
{
    if (!tool->reads_stdin || c->operands.n > tool->leading || !isatty(STDIN_FILENO))
        return;
    struct mint_buf b = MINT_BUF_INIT;
    mint_cli_usage(&b, tool);
    mint_buf_addf(
        &b, "no input: name a file, or pipe one in ('-' reads the terminal); try '%s --help'\n",
        tool->name);
    fwrite(b.data, 1, b.len, stderr);
    mint_buf_release(&b);
    exit(2);
}

static void prepare(int argc, void *opts)
{
    struct mint_common *c = opts;
    struct mint_cli_iter it = {cli.tool, 0, 0};
    size_t options = 0;
    while (mint_cli_next(&it))
        options++;
    cli.given = mint_arena_alloc(&cli.arena, options * sizeof *cli.given);
    c->operands.v = mint_arena_alloc(&cli.arena, (size_t)MINT_MAX(argc, 1) * sizeof *c->operands.v);
    c->operands.n = 0;
}

void mint_cli_begin(const struct mint_tool *tool, int argc, char **argv, void *opts)
{
    struct mint_common *c = opts;
    struct mint_err err = {0};
    hold_standard_fds();
    setup_signals();
    cli.tool = tool;
    mint_log_setup(tool->name, 0, MINT_PROGRESS_AUTO);

    struct walk check = {.argc = argc, .argv = argv, .defaults = opts};
    if (walk(&check, &err))
        exit(say_error(&err));
    prepare(argc, opts);
    struct walk store = {.argc = argc, .argv = argv, .base = opts, .operands = &c->operands};
    if (from_environment(opts, &err) || walk(&store, &err))
        exit(say_error(&err));

    refuse_terminal(tool, c);
    mint_log_setup(tool->name, c->quiet ? -1 : c->verbose, (enum mint_progress_mode)c->progress);
}

int mint_cli_end(int rc, const struct mint_err *err, uint64_t skipped)
{
    if (rc) {
        fflush(stdout);
        return say_error(err);
    }
    if (close_stdout())
        return 1;
    if (skipped) {
        mint_error("%llu record%s skipped", (unsigned long long)skipped, skipped == 1 ? "" : "s");
        return 3;
    }
    return 0;
}

bool mint_cli_given(const char *name)
{
    for (size_t i = 0; i < cli.ngiven; i++)
        if (strcmp(cli.given[i]->name, name) == 0)
            return true;
    return false;
}

const char *mint_cli_first_given(const char *const *names, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (mint_cli_given(names[i]))
            return names[i];
    return NULL;
}

int mint_cli_refuse_idle(const struct mint_idle *rules, size_t n, struct mint_err *err)
{
    for (size_t i = 0; i < n; i++)
        if (rules[i].idle && mint_cli_given(rules[i].option))
            return mint_usage(err, "--%s goes with %s, and does nothing here", rules[i].option,
                              rules[i].with);
    return 0;
}

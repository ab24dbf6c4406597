/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cli.h: one option table per tool drives parsing, ranges, near-miss hints, -h, --help, --version,
 * shell completion and the OPTIONS section of the man page (hidden
 * --dump-options=mdoc|bash|zsh|fish).
 *
 * A tool has one options struct whose FIRST member is struct mint_common. Defaults are whatever the
 * struct holds before mint_cli_begin; the help shows them, except values outside of [min, max],
 * which mean "unset". Long options take "--opt value" and "--opt=value"; every flag has "--no-opt";
 * options may follow operands;
 * "--" ends them; of an option given twice the last counts (MINT_OPT_LIST collects). The first
 * --opt of a LIST replaces the default. A wrong use ends the process with status 2, --help and
 * --version with 0: the cli files and log.c are the only ones that print or exit. Strings point
 * into argv. One command line a process.
 */
#ifndef MINT_CLI_H
#define MINT_CLI_H

#include "base.h"
#include "err.h"

enum mint_opt_type {
    MINT_OPT_END,
    MINT_OPT_FLAG,   /* bool */
    MINT_OPT_COUNT,  /* int, +1 each time (-v) */
    MINT_OPT_INT,    /* int64_t in [min, max]; K, M, G, KiB... */
    MINT_OPT_FLOAT,  /* double in [min, max] */
    MINT_OPT_STRING, /* const char * */
    MINT_OPT_CHOICE, /* int: index into choices */
    MINT_OPT_LIST,   /* struct mint_strs: repeatable strings */
    MINT_OPT_HEADING /* name is a heading in the help and the page */
};

struct mint_strs {
    const char **v;
    size_t n;
};

struct mint_opt {
    enum mint_opt_type type;
    char letter;                /* 0: none */
    const char *name;           /* "group-size" */
    const char *arg;            /* "N": how the help names the value */
    size_t offset;              /* of the field in the options struct */
    double min, max;            /* INT, FLOAT; inclusive */
    const char *const *choices; /* CHOICE: NULL-terminated */
    const char *help;           /* one line, no full stop; the default is appended by cli.c */
    const char *more;           /* further sentences for the man page and --help, or NULL */
};

#define MINT_O_FLAG(l, n, S, f, h)                                                         \
    {                                                                                      \
        .type = MINT_OPT_FLAG, .letter = l, .name = n, .offset = offsetof(S, f), .help = h \
    }
#define MINT_O_INT(l, n, a, S, f, lo, hi, h)                                              \
    {                                                                                     \
        .type = MINT_OPT_INT, .letter = l, .name = n, .arg = a, .offset = offsetof(S, f), \
        .min = lo, .max = hi, .help = h                                                   \
    }
#define MINT_O_FLOAT(l, n, a, S, f, lo, hi, h)                                              \
    {                                                                                       \
        .type = MINT_OPT_FLOAT, .letter = l, .name = n, .arg = a, .offset = offsetof(S, f), \
        .min = lo, .max = hi, .help = h                                                     \
    }
#define MINT_O_STR(l, n, a, S, f, h)                                                         \
    {                                                                                        \
        .type = MINT_OPT_STRING, .letter = l, .name = n, .arg = a, .offset = offsetof(S, f), \
        .help = h                                                                            \
    }
#define MINT_O_CHOICE(l, n, c, S, f, h)                                                          \
    {                                                                                            \
        .type = MINT_OPT_CHOICE, .letter = l, .name = n, .choices = c, .offset = offsetof(S, f), \
        .help = h                                                                                \
    }
#define MINT_O_LIST(l, n, a, S, f, h)                                                      \
    {                                                                                      \
        .type = MINT_OPT_LIST, .letter = l, .name = n, .arg = a, .offset = offsetof(S, f), \
        .help = h                                                                          \
    }
#define MINT_O_HEAD(n)                      \
    {                                       \
        .type = MINT_OPT_HEADING, .name = n \
    }
#define MINT_O_END           \
    {                        \
        .type = MINT_OPT_END \
    }

/* Options that all tools have (-h -V -q -v) and those of the groups that a tool asks for. */
enum mint_cli_group {
    MINT_CLI_IO = 1,      /* -o/--output FILE, -f/--force, --plain, --skip-bad */
    MINT_CLI_RUN = 2,     /* --metrics FILE, --progress MODE */
    MINT_CLI_COMPUTE = 4, /* -T/--threads N, --device DEV, --precision bf16|f32 */
};

/* The first member of every options struct. */
struct mint_common {
    bool quiet;
    int verbose;
    const char *output; /* NULL: stdout */
    bool force, plain, skip_bad;
    const char *metrics; /* NULL: none */
    int progress;        /* enum mint_progress_mode */
    int64_t threads;     /* 0: as many as the process may use; MINT_THREADS sets the default */
    const char *device; /* NULL is "cpu"; never NULL after begin of a COMPUTE tool; MINT_DEVICE sets
                           the default */
    int precision;      /* 0 bf16, 1 f32 */
    struct mint_strs operands;
};

struct mint_tool {
    const char *name;     /* "mint-sample" */
    const char *summary;  /* one line, as in the man page's NAME */
    const char *synopsis; /* "--model DIR [options] [PROMPTS...]" */
    unsigned groups;      /* enum mint_cli_group */
    const struct mint_opt *opts;
    bool reads_stdin; /* no operand on a terminal: usage and status 2 */
    size_t
        leading; /* operands that stand before the files (mint-score SCORER: 1), for reads_stdin */
    const char *const *examples; /* NULL-terminated command lines for --help, or NULL */
};

/* Parses into opts (defaults < environment MINT_THREADS, MINT_DEVICE < options), sets up logging,
 * signals (INT, TERM, HUP remove temporaries and re-raise; PIPE default). Returns only if there is
 * work to do. */
void mint_cli_begin(const struct mint_tool *tool, int argc, char **argv, void *opts);
/* rc 0: flushes and closes stdout with checks, returns 0 (3 if skipped > 0, after saying the
 * count). rc -1: prints err once and returns 2 for MINT_EUSAGE, else 1. main returns what this
 * returns. */
int mint_cli_end(int rc, const struct mint_err *err, uint64_t skipped);
/* true if the user gave the option (by its long name) on the command line. */
bool mint_cli_given(const char *name);
/* The first of these options that was given, or NULL. */
const char *mint_cli_first_given(const char *const *names, size_t n);
/* An option that the chosen mode does not read is a mistake of the user, who believes that it
 * works. The first rule that is idle and whose option was given is a usage error: "--OPTION goes
 * with WITH, and does nothing here". */
struct mint_idle {
    const char *option, *with;
    bool idle;
};
int mint_cli_refuse_idle(const struct mint_idle *rules, size_t n, struct mint_err *err);
/* A usage error from a tool's own checks: fills err with MINT_EUSAGE; mint_cli_end adds "try
 * 'mint-x --help'". */
int mint_usage(struct mint_err *err, const char *fmt, ...) MINT_PRINTF(2, 3);

#endif

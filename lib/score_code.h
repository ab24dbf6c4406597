/* SPDX-License-Identifier: Apache-2.0 */
/*
 * score_code.h: the parts of the scorer code: the program in a response, the tests of a record, and
 * running the one against the other in boxes (sandbox.h). What a test's verdict rests on never
 * enters the box of the program under test: output and values are compared here, and asserts run in
 * a box of their own (score_code_judge.c).
 */
#ifndef MINT_SCORE_CODE_H
#define MINT_SCORE_CODE_H

#include "base.h"
#include "buf.h"
#include "err.h"
#include "json.h"
#include "mem.h"
#include "sandbox.h"

struct mint_code_opts {
    const char *tests_field; /* "tests" */
    const char *language;    /* of records and blocks that name none; NULL: python */
    bool partial;            /* the share of tests passed, in place of all or nothing */
    bool no_sandbox;
    bool seconds; /* time of each test into the detail */
    double cpu_time, wall_time, compile_time;
    int64_t memory, processes, file_size, output_size; /* bytes, but processes */
    const char *const *readonly;
    size_t nreadonly;
    struct mint_cgroup *cgroup; /* NULL: none */
};

/* --- languages */
struct mint_code_lang {
    const char *name, *file; /* what the source is called in the box */
    const char *tags;        /* " py python3 ": other names */
    const char *programs;    /* " gcc cc clang ": the first one that is there runs or compiles it */
    bool compiled;
    const char *start; /* " def class ": words that begin a line of code in a text without blocks */
};
/* By name or tag, in any case of letters; NULL: none. */
const struct mint_code_lang *mint_code_lang(const char *tag, size_t n);

/*
 * The program in a response, appended to code: the last fenced block in lang, or if there is none
 * the last one without a tag; without any block the text from the first line that begins with
 * "def" (and imports before it), or all of it. *lang may be NULL: the block's tag says, else
 * python. Thinking and what follows an end-of-turn marker do not count. false: there is none.
 */
bool mint_code_extract(const char *text, size_t n, const struct mint_code_lang **lang,
                       const struct mint_code_lang *fallback, struct mint_buf *code);

/* --- tests */
enum mint_code_kind { MINT_CODE_STDIO, MINT_CODE_CALL, MINT_CODE_ASSERT };
struct mint_code_test {
    enum mint_code_kind kind;
    const char *input, *want; /* STDIO: bytes in and out */
    size_t input_n, want_n;
    const char **args; /* STDIO: of the program, NULL-terminated */
    int64_t exit_status;
    const char *text;     /* CALL: the task as JSON; ASSERT: statements */
    mint_json_val expect; /* CALL */
    double tolerance;     /* CALL: of numbers, relative above 1 */
};
struct mint_code_tests {
    struct mint_code_test *v;
    size_t n;
    const char *setup, *entry; /* of asserts; NULL: none */
    const char *raw;           /* all of that as text, for comparing */
    size_t raw_n;
};
/* The record's tests, in the arena. Fails with MINT_ESCHEMA, also where a program that does nothing
 * would pass them all. */
int mint_code_tests_read(const struct mint_json *doc, const char *field, struct mint_arena *arena,
                         struct mint_code_tests *t, struct mint_err *err);

/* --- running */
enum mint_code_verdict {
    MINT_CODE_OK,
    MINT_CODE_WRONG,
    MINT_CODE_ERROR,
    MINT_CODE_TIMEOUT,
    MINT_CODE_MEMORY,
    MINT_CODE_OUTPUT,
    MINT_CODE_SIGNAL,
    MINT_CODE_COMPILE,
};
const char *mint_code_verdict_name(enum mint_code_verdict v);

struct mint_code_result {
    enum mint_code_verdict verdict;
    struct mint_buf why; /* members of an object that explain it, without braces; may be empty */
    double seconds;
};

/* One thread's: the sandbox, and what is kept between tests. */
struct mint_code_runner;
int mint_code_runner_new(struct mint_code_runner **out, const struct mint_code_opts *o,
                         struct mint_err *err);
void mint_code_runner_free(struct mint_code_runner *r);
/*
 * Runs the tests that are in Python without any program. 0, or -1: MINT_ESCHEMA if one of them
 * cannot be run or passes, MINT_EIO if the sandbox fails. What it found good last is not run anew.
 */
int mint_code_examine(struct mint_code_runner *r, const struct mint_json *doc,
                      const struct mint_code_tests *t, struct mint_err *err);
/*
 * Runs code against all tests; results[t->n] are filled, their buffers empty before. 0, or -1 where
 * nothing can be said about the code: MINT_ESCHEMA if the record's tests are wrong, MINT_EIO if the
 * sandbox or a compiler fails.
 */
int mint_code_run(struct mint_code_runner *r, const struct mint_json *doc,
                  const struct mint_code_lang *lang, const struct mint_buf *code,
                  const struct mint_code_tests *t, struct mint_code_result *results,
                  struct mint_err *err);

/* --- comparing */
/* true if equal but for white space at line ends and empty lines at the end; else *line (from 1)
 * and the two lines where they part. */
struct mint_code_diff {
    size_t line;
    const char *got, *want;
    size_t got_n, want_n;
};
bool mint_code_same_text(const char *got, size_t got_n, const char *want, size_t want_n,
                         struct mint_code_diff *d);
/* A value of a solution and the one that was expected: numbers by value, within tolerance. */
bool mint_code_same_value(const struct mint_json *got, mint_json_val a,
                          const struct mint_json *want, mint_json_val b, double tolerance);

#endif

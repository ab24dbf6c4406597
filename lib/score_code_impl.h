/* SPDX-License-Identifier: Apache-2.0 */
/* score_code_impl.h: what the files that run solutions share. */
#ifndef MINT_SCORE_CODE_IMPL_H
#define MINT_SCORE_CODE_IMPL_H

#include "score_code.h"

struct mint_code_runner {
    struct mint_code_opts o;
    struct mint_sandbox *sandbox;
    struct mint_json *doc;                  /* of what a box says */
    struct mint_box judge;                  /* runs asserts; lives from test to test */
    struct mint_buf examined;               /* the tests that were found to be good last */
    char *run, *call, *solution, *judge_py; /* Python programs */
};

struct mint_limits mint_code_limits(const struct mint_code_runner *r);
/* A box that is gone, but not because of what the program in it did: fills err. */
int mint_code_box_failed(const struct mint_box *box, struct mint_err *err);
/* The verdict of a box that did not do what it should, and "error": the last line of its stderr. */
void mint_code_blame(const struct mint_box *box, struct mint_code_result *res);
/* ,"KEY":"text", cut to a limit */
void mint_code_put(struct mint_buf *b, const char *key, const char *s, size_t n);

/* The first of a language's programs that is there; malloc'ed, NULL with err. */
char *mint_code_program(const struct mint_code_runner *r, const struct mint_code_lang *lang,
                        struct mint_err *err);

/* One ASSERT test: the solution in a box, the test in the judge's. */
int mint_code_judge(struct mint_code_runner *r, const struct mint_box_spec *solution,
                    const struct mint_code_tests *all, const struct mint_code_test *t,
                    struct mint_code_result *res, struct mint_err *err);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * score_judge.h: the inside of the scorer judge. score_judge.c makes questions of groups and scores
 * of replies; score_judge_prompt.c holds the texts, score_judge_reply.c the rules by which replies
 * are read; a backend (a local model, or a server) answers many questions at a time.
 */
#ifndef MINT_SCORE_JUDGE_H
#define MINT_SCORE_JUDGE_H

#include "score.h"

/* --- texts: "{name}" is a field, "{{" and "}}" are braces, everything else stands for itself. */

/* The built-in text of a mode; the same is in pipelines/judge/. */
const char *mint_judge_default_prompt(enum mint_judge_mode mode);
/* The file's text, or the built-in one, checked: *text is malloc'ed. MINT_EUSAGE with the line
 * where a brace is wrong, and where the response is not asked about. */
int mint_judge_prompt_read(const struct mint_judge_opts *o, char **text, struct mint_err *err);
/* Whether a checked text has a field of this name. */
bool mint_judge_prompt_shows(const char *text, const char *field);

struct mint_judge_fields {
    const struct mint_score_opts *opts;
    const struct mint_score_task *task; /* its sequence is {response} */
    const struct mint_sequence *a, *b;  /* {response_a}, {response_b}; pairwise */
    double lo, hi;                      /* {lo}, {hi} */
};
/* {prompt}: the record's messages as text where it has them, else its prompt. {answer}: the first
 * gold answer. Other names: fields of the record, strings or numbers. */
int mint_judge_prompt_fill(const char *text, const struct mint_judge_fields *f,
                           struct mint_buf *out, struct mint_err *err);

/* --- replies. A reply's thinking, <think>...</think>, is not looked at; nor is, of one that was
 * cut at the limit of tokens, the last line, and it is not taken as a whole. */

#define MINT_JUDGE_WHY 160

/*
 * A score: the whole reply is a number, or a line is "Score: N" (or Rating; Final or Overall may
 * stand before it), N perhaps with "/HI" behind it; Markdown's marks around do not matter. Several
 * such lines must agree. 0, or -1 and why: there is none, or it is outside of lo..hi.
 */
int mint_judge_read_score(const char *reply, size_t n, bool cut, double lo, double hi,
                          double *score, char why[MINT_JUDGE_WHY]);

enum mint_judge_verdict { MINT_JUDGE_A, MINT_JUDGE_B, MINT_JUDGE_TIE };
/* A verdict: the whole reply is A, B or tie, or a line is "Verdict: A" (or Winner). */
int mint_judge_read_verdict(const char *reply, size_t n, bool cut, enum mint_judge_verdict *verdict,
                            char why[MINT_JUDGE_WHY]);

/* "LO:HI" with LO < HI; NULL is "0:10". MINT_EUSAGE. */
int mint_judge_scale(const char *text, double *lo, double *hi, struct mint_err *err);
/* "all" is 0, "ring:K" is K >= 1; NULL is "all". MINT_EUSAGE. */
int mint_judge_ring(const char *text, int64_t *ring, struct mint_err *err);
/* Whether i and j of n are compared. */
bool mint_judge_paired(size_t i, size_t j, size_t n, int64_t ring);

/* --- backends */

struct mint_judge_question {
    char *text; /* may hold NULs */
    size_t text_n;
    void *group; /* the asker's */

    /* filled by the backend: */
    bool failed;           /* no reply: reply holds the reason */
    bool cut;              /* the reply hit max_tokens */
    struct mint_buf reply; /* bytes */
    double expected, mass; /* with opts.expected, in place of a reply: the mean, and how likely the
                              model is to give a score of the scale at all */
};

struct mint_judge_calls {
    /* 1: *q is the next question, 2: none until one under way is done (only if patient), 0, -1. */
    int (*next)(void *ctx, bool patient, struct mint_judge_question **q, struct mint_err *err);
    int (*done)(void *ctx, struct mint_judge_question *q, struct mint_err *err);
    void *ctx;
};

struct mint_judge_backend {
    int (*open)(const struct mint_judge_opts *o, void **state, struct mint_err *err);
    int (*run)(void *state, const struct mint_judge_calls *calls, struct mint_err *err);
    void (*close)(void *state);
};
extern const struct mint_judge_backend mint_judge_local, mint_judge_server;

#endif

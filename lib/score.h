/* SPDX-License-Identifier: Apache-2.0 */
/*
 * score.h: scorers, what they get and give, and how a score enters a record.
 *
 * A scorer looks at one sequence of a rollout group and gives a number, the text that it took for
 * the answer, and what explains the number. A failure of the scorer itself (a program that died, a
 * pattern that ran away) is no score: the reward becomes null, never 0. A new scorer is one struct
 * mint_scorer in the table of score.c; options that it needs go into struct mint_score_opts.
 */
#ifndef MINT_SCORE_H
#define MINT_SCORE_H

#include "base.h"
#include "buf.h"
#include "err.h"
#include "record.h"

enum mint_score_which { MINT_SCORE_FIRST, MINT_SCORE_LAST };
enum mint_score_unit { MINT_SCORE_TOKENS, MINT_SCORE_WORDS, MINT_SCORE_CHARS };

enum mint_judge_mode { MINT_JUDGE_RUBRIC, MINT_JUDGE_PAIRWISE };

/* The options of judge. NULL: not given. */
struct mint_judge_opts {
    const char *model;       /* a folder; with url, the name that the server is asked for */
    const char *adapter;     /* a checkpoint */
    const char *url;         /* of a server that speaks OpenAI's HTTP */
    const char *key_env;     /* environment variable that holds its key */
    const char *prompt_file; /* NULL: the built-in text of the mode */
    const char *scale;       /* rubric: "LO:HI" */
    const char *pairs;       /* pairwise: "all" or "ring:K" */
    enum mint_judge_mode mode;
    bool expected;      /* rubric, with a folder: the mean over the scores' probabilities */
    int64_t max_tokens; /* of a reply */
    int64_t jobs;       /* questions under way at a time */
    int64_t retries;    /* url */
    double timeout;     /* url: seconds of one try */
    const char *device; /* as mint_policy_opts has them */
    int precision, threads;
};

struct mint_code_opts; /* score_code.h */

/* The options of all scorers; each reads its own. */
struct mint_score_opts {
    const char *gold_field;      /* "answer" */
    bool gold_named;             /* by the user: it has to be of use */
    bool strip, ignore_case;     /* exact, regex */
    enum mint_score_which which; /* number, regex */
    const char *pattern;         /* regex, format */
    bool need_stop;              /* format */
    const char *style;           /* whose rules to follow, by name; each scorer knows its own */
    int64_t target, min, max;    /* length, overlong (max); -1: not given */
    int64_t buffer;              /* overlong; -1: not given */
    int64_t ngram;               /* repetition */
    enum mint_score_unit unit;   /* length, repetition */
    const char *extract;         /* math: which rule finds the answer, by name; NULL: its own */
    bool strict, one_box;        /* math */
    const char *command;         /* cmd */
    double timeout;              /* cmd: seconds */
    int64_t retries;             /* cmd */
    const struct mint_code_opts *code; /* borrowed */
    struct mint_judge_opts judge;
};

/* One sequence to be scored. A scorer may only read: several threads may work on one record. */
struct mint_score_task {
    const struct mint_json *doc;
    const struct mint_group *group;
    size_t index; /* of the sequence in group->seqs */
};

/* What a scorer found. The buffers are empty when it is called; the caller releases them. */
struct mint_score {
    bool failed;            /* no score: the reward is null */
    bool clears;            /* the reward is 0, whatever the scorers before gave */
    double value;           /* finite */
    struct mint_buf detail; /* members of an object, "key":value,... without braces; may be empty */
    struct mint_buf answer; /* text that was taken for the answer: votes in the majority */
    bool has_answer;
};
void mint_score_release(struct mint_score *s);
/* failed, with {"error": TEXT} in the detail. */
void mint_score_fail(struct mint_score *s, const char *fmt, ...) MINT_PRINTF(2, 3);

struct mint_scored;

/* Records for a scorer that looks at whole groups, or has many questions under way at a time. */
struct mint_score_feed {
    /* 1: *s is the next group, its scores empty, 0: no more, -1. */
    int (*next)(void *ctx, struct mint_scored **s, struct mint_err *err);
    /* The group is scored, or the record turned out bad (MINT_ESCHEMA in *bad; NULL: it is fine).
     * In the order of next; s is gone then. */
    int (*done)(void *ctx, struct mint_scored *s, const struct mint_err *bad, struct mint_err *err);
    void *ctx;
};

struct mint_scorer {
    const char *name, *summary;
    bool slow; /* waits for something else: worth several jobs, each with a state of its own */
    /* Checks the options and makes what score needs. Wrong options: MINT_EUSAGE. May be NULL. */
    int (*open)(const struct mint_score_opts *o, void **state, struct mint_err *err);
    /* 0 and *out set (perhaps failed); -1: the record lacks something (MINT_ESCHEMA), or nothing
     * can be scored at all (any other code). */
    int (*score)(void *state, const struct mint_score_task *t, struct mint_score *out,
                 struct mint_err *err);
    /* In place of score: all groups of the feed, in one thread. */
    int (*stream)(void *state, const struct mint_score_feed *feed, struct mint_err *err);
    void (*close)(void *state); /* may be NULL */
};
const struct mint_scorer *mint_scorer_find(const char *name); /* NULL: none */
/* "exact, number, ..." for messages. */
const char *mint_scorer_names(void);
/* Whether a scorer looks at an option, by its long name. */
bool mint_scorer_reads(const struct mint_scorer *s, const char *option);

extern const struct mint_scorer mint_scorer_exact, mint_scorer_math, mint_scorer_number,
    mint_scorer_regex, mint_scorer_judge, mint_scorer_format, mint_scorer_length,
    mint_scorer_overlong, mint_scorer_repetition, mint_scorer_heuristic, mint_scorer_code,
    mint_scorer_cmd, mint_scorer_none;

/* --- helpers for scorers */

/* An open that keeps a copy of the options as the state; close it with free. */
int mint_score_take_opts(const struct mint_score_opts *o, void **state, struct mint_err *err);
/* The response of a task; a record of tokens alone has none (MINT_ESCHEMA). */
int mint_score_response(const struct mint_score_task *t, const char **text, size_t *n,
                        struct mint_err *err);

/* The i-th gold answer of a record: its field is a string, a number (its digits), or an array of
 * those, one of which must match. Appended to out. 1, 0 past the last, -1 if the field is missing
 * or of another type. */
int mint_score_gold(const struct mint_score_opts *o, const struct mint_score_task *t, size_t i,
                    struct mint_buf *out, struct mint_err *err);
/* text[*at..*at+*n) without the white space (Unicode's) at both ends. */
void mint_text_trim(const char *text, size_t *at, size_t *n);
/* Length in bytes of the white space character at s[0..n), 0 if there is none. */
size_t mint_text_space(const char *s, size_t n);
/* Next word, parted by white space, from *at on: false at the end. */
bool mint_text_word(const char *text, size_t n, size_t *at, size_t *word, size_t *word_n);
/*
 * The first or last number in a text: digits with an optional fraction (also ".5"), an exponent,
 * thousands commas ("1,234,567": groups of exactly three), and a sign (-, + or U+2212) that does
 * not follow a letter, a digit or a closing bracket. false if there is none.
 */
bool mint_number_find(const char *text, size_t n, enum mint_score_which which, size_t *at,
                      size_t *len);
/* The value of such a number in one form ("-1234e-2"), so that equal numbers of any size have
 * equal texts: appended to out. */
void mint_number_canon(const char *s, size_t n, struct mint_buf *out);

/* --- entering a score into a record */
struct mint_scoring {
    const struct mint_scorer *scorer;
    struct mint_score_opts opts;
    const char *name; /* of the score; the scorer's unless --name */
    double weight;
    double offset; /* the reward gains weight * (score + offset) */
    bool replace;  /* forget earlier scores */
    size_t jobs;
    bool opened;
    void *state; /* of the scorer, between mint_scoring_open and the end of mint_score_stream */
};
/* Checks the scorer's options and makes it ready, so that wrong ones are known before there is any
 * output. mint_score_stream does it where it has not been done, and closes in any case; close is
 * for those who do not get there. */
int mint_scoring_open(struct mint_scoring *c, struct mint_err *err);
void mint_scoring_close(struct mint_scoring *c);

/* A group and its scores, one for each sequence. r holds the record: its line, document, place. */
struct mint_scored {
    struct mint_reader *r;
    struct mint_group group;
    struct mint_score *scores;
};

/* The reward that sequence i has after scoring: false if it is null. */
bool mint_scored_reward(const struct mint_scoring *c, const struct mint_scored *s, size_t i,
                        double *reward);
/* The record with reward, scores and detail set in each sequence; everything else byte for byte as
 * it was. One line with its newline, appended to b. Fails where NAME is already there. */
int mint_scored_write(const struct mint_scoring *c, const struct mint_scored *s, struct mint_buf *b,
                      struct mint_err *err);

/*
 * Scores all records of r and hands them to sink in their order, with c->jobs scorers at work at a
 * time. A bad record goes through mint_reader_bad. sink returns 0, -1, or 1 to mean that the record
 * was bad (err filled, not yet with file and line).
 */
int mint_score_stream(struct mint_scoring *c, struct mint_reader *r,
                      int (*sink)(void *arg, struct mint_scored *s, struct mint_err *err),
                      void *arg, struct mint_err *err);

#endif

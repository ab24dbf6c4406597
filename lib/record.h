/* SPDX-License-Identifier: Apache-2.0 */
/*
 * record.h: the records that the tools exchange, over json.h and zio.h. The formats:
 * mint-format(5).
 *
 * mint_reader walks the lines of several files as one stream and owns the error text
 * "FILE:LINE: ...". With skip_bad a bad line is counted and said (five times, then once that the
 * rest is only counted), never a broken frame. Everything that a record points to lives in the
 * reader's arena or in the line itself, until the next mint_reader_next. Not thread-safe per
 * reader.
 */
#ifndef MINT_RECORD_H
#define MINT_RECORD_H

#include <math.h>

#include "base.h"
#include "buf.h"
#include "err.h"
#include "json.h"
#include "mem.h"
#include "zio.h"

/* A logprob is at most 0; a sum of rounded probabilities may leave it a hair above. */
#define MINT_LOGPROB_MAX 0.001

struct mint_reader {
    const char *const *paths; /* borrowed; "-" is stdin */
    size_t npaths, at;
    struct mint_in *in;
    bool skip_bad;
    uint64_t skipped, records; /* bad lines that were skipped; records that next gave */
    const char *file;          /* of the present record; "stdin" for "-" */
    uint64_t lineno;           /* 1-based */
    struct mint_json *doc;     /* the present record */
    const char *line;          /* its bytes */
    size_t len;
    char *own; /* after mint_reader_copy: the bytes, ours to free */
    size_t own_cap;
    struct mint_arena arena;          /* reset at each next */
    struct mint_buf text;             /* for unescaping */
    void (*on_skip)(const char *msg); /* called with the finished message; NULL: silent */
};

/* n == 0 reads stdin. */
void mint_reader_init(struct mint_reader *r, const char *const *paths, size_t n, bool skip_bad);
/* 1: r->doc holds the next record (an object), 0 end, -1. */
int mint_reader_next(struct mint_reader *r, struct mint_err *err);
/* The present record is bad, *err says why: prefixes "FILE:LINE: ". Returns -1, or 0 if skip_bad
 * counted it (go on with next). */
int mint_reader_bad(struct mint_reader *r, struct mint_err *err);
const char *mint_reader_file(const struct mint_reader *r);
uint64_t mint_reader_lineno(const struct mint_reader *r);
void mint_reader_close(struct mint_reader *r);
/* Makes the present record of from the present record of to, with bytes, document and arena of its
 * own, so that it outlives the next mint_reader_next(from). to is zeroed or was copied to before;
 * close it. It cannot be read on. */
void mint_reader_copy(struct mint_reader *to, const struct mint_reader *from);
/* A string's text, or a number's own digits, '\0'-terminated in the arena; NULL for everything else
 * and for a string that holds a NUL. */
const char *mint_record_text(struct mint_reader *r, mint_json_val v);

/* --- rollout group: what mint-sample writes and mint-score and mint-advantage read. */
struct mint_raw {
    const char *p; /* NULL: absent or null */
    size_t n;
};

struct mint_sequence {
    mint_json_val val;     /* the object itself */
    const int32_t *tokens; /* NULL after mint_group_scan, or when the record has none */
    size_t n;
    const float *logprobs;     /* n values; NULL when the record has null or none, and after scan of
                                  a sequence without observations */
    size_t observed;           /* tokens of observations: those whose logprob is null, here NaN */
    const float *ref_logprobs; /* like logprobs: those of a reference policy, beside */
    struct mint_raw tokens_raw, logprobs_raw, ref_raw; /* arrays as JSON text, with brackets */
    const char *text; /* '\0'-terminated, may hold NULs: text_len; NULL if absent, and after scan */
    size_t text_len;
    bool stop;        /* stop_reason "stop" or absent; false "length" */
    bool has_reward;  /* a number; false: null or absent */
    bool reward_null; /* present and null */
    double reward;
};

/* Whether token i came from an environment and not from the policy. */
static inline bool mint_sequence_observed(const struct mint_sequence *s, size_t i)
{
    return s->observed && isnan(s->logprobs[i]);
}

/* Tokens that came from the policy. */
static inline size_t mint_sequence_sampled(const struct mint_sequence *s)
{
    return s->n - s->observed;
}

struct mint_group {
    const char *id; /* text; a number's own digits; "line:N" if the record has none */
    const char *id_raw;
    size_t id_raw_n; /* as JSON */
    const int32_t *prompt_tokens;
    size_t prompt_n;
    struct mint_raw prompt_raw;
    struct mint_sequence *seqs;
    size_t nseqs;
    mint_json_val sampling; /* object or NONE */
};

/* Reads r->doc into *g. Checks types, lengths, ranges (ids 0..2^31-1; logprobs finite and at most
 * MINT_LOGPROB_MAX). need_tokens false: prompt_tokens, tokens and logprobs may be missing (text
 * only); true: the prompt has at least one token. */
int mint_group_read(struct mint_reader *r, bool need_tokens, struct mint_group *g,
                    struct mint_err *err);
/* The same checks as with need_tokens, but numbers stay text (tokens_raw, logprobs_raw, prompt_raw)
 * and text is not unescaped: several times as fast, for mint-advantage. */
int mint_group_scan(struct mint_reader *r, struct mint_group *g, struct mint_err *err);
/* Text is unescaped, numbers are checked and stay text, and all but sequences may be missing: for
 * mint-score. */
int mint_group_text(struct mint_reader *r, struct mint_group *g, struct mint_err *err);

/* --- Datum: Tinker/MinT JSON. Missing tensors are NULL. */
struct mint_datum {
    size_t n; /* positions */
    const int32_t *input, *target;
    const float *weights, *logprobs, *advantages, *ref_logprobs, *clip_low, *clip_high;
    const char *meta_raw;
    size_t meta_n;                  /* the meta object as JSON, NULL if absent */
    const char *group;              /* meta.group or meta.id as text, NULL */
    int64_t step;                   /* meta.step, -1 */
    const char *device, *precision; /* meta's: whose arithmetic the logprobs are; NULL: not said */
    const char *pair;               /* meta.pair: "chosen" or "rejected"; NULL */
    const char *file;               /* where the record stands; for messages */
    uint64_t line;
    const float *old_logprobs; /* never in a record: for who trains (train_job.h) */
};

/* Reads r->doc, all rules of mint-format(5) (shape, dtype, bare lists, several chunks, refusals).
 * vocab > 0: input ids, and target ids where the weight is not 0, must be below it. A target that
 * is no token id where the weight is 0 (such as -100) is given as 0. */
int mint_datum_read(struct mint_reader *r, int64_t vocab, struct mint_datum *d,
                    struct mint_err *err);
/* One line without newline, appended to b: the shape that mint-format(5) shows. meta_raw may be
 * NULL. NULL tensors are left out. */
void mint_datum_write(struct mint_buf *b, const struct mint_datum *d);

/* Fills err with "PATH.KEY is missing" for an object v of the present record. Returns -1. */
int mint_record_missing(const struct mint_reader *r, mint_json_val v, const char *key,
                        struct mint_err *err);

#endif

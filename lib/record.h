/* SPDX-License-Identifier: Apache-2.0 */
/*
 * record.h: the records that the tools exchange, over json.h and zio.h. SPEC of the formats: mint-format(5).
 *
 * mint_reader walks the lines of several files as one stream and owns the error text "FILE:LINE: ...". With skip_bad a
 * bad line is counted and said (five times, then summed up), never a broken frame.
 */
#ifndef MINT_RECORD_H
#define MINT_RECORD_H

#include "base.h"
#include "buf.h"
#include "err.h"
#include "json.h"
#include "mem.h"
#include "zio.h"

struct mint_reader {
    const char *const *paths; /* borrowed; "-" is stdin */
    size_t npaths, at;
    struct mint_in *in;
    bool skip_bad;
    uint64_t skipped, records;
    struct mint_json *doc;  /* the present record */
    const char *line;       /* its bytes */
    size_t len;
    struct mint_arena arena; /* reset at each next */
    void (*on_skip)(const char *msg); /* called with the finished message; NULL: silent */
};
/* n == 0 reads stdin. */
void mint_reader_init(struct mint_reader *r, const char *const *paths, size_t n, bool skip_bad);
/* 1: r->doc holds the next record (an object), 0 end, -1. */
int mint_reader_next(struct mint_reader *r, struct mint_err *err);
/* The present record is bad, *err says why: prefixes "FILE:LINE: ". Returns -1, or 0 if skip_bad counted it (go on with next). */
int mint_reader_bad(struct mint_reader *r, struct mint_err *err);
const char *mint_reader_file(const struct mint_reader *r);
uint64_t mint_reader_lineno(const struct mint_reader *r);
void mint_reader_close(struct mint_reader *r);

/* --- rollout group: what mint-sample writes and mint-score and mint-advantage read. */
struct mint_sequence {
    mint_json_val val; /* the object itself */
    const int32_t *tokens;
    size_t n;
    const float *logprobs; /* n values; NULL when the record has null or none */
    const char *text;      /* '\0'-terminated, may hold NULs: text_len; NULL if absent */
    size_t text_len;
    bool stop;             /* stop_reason "stop"; false "length" */
    bool has_reward;       /* a number; false: null or absent */
    bool reward_null;      /* present and null */
    double reward;
};
struct mint_group {
    const char *id; /* text; a number id is its text */
    const char *id_raw; size_t id_raw_n; /* as JSON */
    const int32_t *prompt_tokens;
    size_t prompt_n;
    struct mint_sequence *seqs;
    size_t nseqs;
    mint_json_val sampling; /* object or NONE */
};
/* Reads r->doc into *g; all arrays live in r->arena. Checks types, lengths, ranges (ids 0..2^31-1; logprobs finite and <= 0.001).
 * need_tokens false: sequences may lack tokens and logprobs (text only). */
int mint_group_read(struct mint_reader *r, bool need_tokens, struct mint_group *g, struct mint_err *err);

/* --- Datum: Tinker/MinT JSON. Missing tensors are NULL. */
struct mint_datum {
    size_t n;               /* positions */
    const int32_t *input, *target;
    const float *weights, *logprobs, *advantages, *ref_logprobs, *clip_low, *clip_high;
    const char *meta_raw; size_t meta_n; /* the meta object as JSON, NULL if absent */
    const char *group; /* meta.group or meta.id as text, NULL */
    int64_t step;      /* meta.step, -1 */
};
/* Reads r->doc, all rules of mint-format(5) (shape, dtype, bare lists, several chunks, refusals). Arrays live in r->arena.
 * vocab > 0: input ids, and target ids where the weight is not 0, must be below it. */
int mint_datum_read(struct mint_reader *r, int64_t vocab, struct mint_datum *d, struct mint_err *err);
/* One line without newline, appended to b: the shape that SPEC shows. meta_raw may be NULL. NULL tensors are left out. */
void mint_datum_write(struct mint_buf *b, const struct mint_datum *d);

#endif

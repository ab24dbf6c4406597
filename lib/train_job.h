/* SPDX-License-Identifier: Apache-2.0 */
/*
 * train_job.h: what mint-train does: reads datums, makes optimiser steps over them, writes a
 * checkpoint. A run is a pure function of (base, parent checkpoint, datums, options): that is why a
 * checkpoint that exists already and names the same four is the result, and the run need not be
 * made again.
 */
#ifndef MINT_TRAIN_JOB_H
#define MINT_TRAIN_JOB_H

#include "mem.h"
#include "policy.h"
#include "trainer.h"

enum mint_schedule { MINT_SCHEDULE_CONSTANT, MINT_SCHEDULE_LINEAR, MINT_SCHEDULE_COSINE };
extern const char *const mint_schedule_names[];

struct mint_train_config {
    struct mint_train_opts opts;
    struct mint_adapter_config adapter; /* of a fresh one */
    uint64_t seed;                      /* of a fresh one */
    double lr;
    enum mint_schedule schedule;
    int64_t warmup, total_steps; /* total_steps 0: those of this run, counted from its start */
    int64_t batch_size;          /* datums a batch; 0: all */
    int64_t epochs, substeps;    /* optimiser steps a batch is cut into */
};

/* All datums of a run, in memory. */
struct mint_datums {
    struct mint_arena arena;
    struct mint_datum *d;
    size_t n, cap;
    char digest[72]; /* sha256 of the records' bytes, a newline behind each */
    uint64_t skipped;
};
int mint_datums_read(struct mint_datums *s, const char *const *paths, size_t npaths, bool skip_bad,
                     void (*on_skip)(const char *msg), const struct mint_train_opts *check,
                     int64_t vocab, int64_t max_positions, struct mint_err *err);
/* For dpo: an even number, chosen and rejected ones in turn where they say which they are. */
int mint_datums_check_pairs(const struct mint_datums *s, struct mint_err *err);
/* How many have logprobs that another kind of device, or another precision, computed: these are not
 * bit for bit what dev computes for the same policy. *one: the first of them. */
size_t mint_datums_foreign(const struct mint_datums *s, const struct mint_dev *dev,
                           const struct mint_datum **one);
void mint_datums_release(struct mint_datums *s);

/* The learning rate of a step. step counts from the start of the run, first is the checkpoint's
 * step at that point, planned the run's number of steps. */
double mint_train_lr(const struct mint_train_config *c, int64_t step, int64_t first,
                     int64_t planned);
/* Optimiser steps that the run makes over n datums. A pair is never cut. */
int64_t mint_train_planned(const struct mint_train_config *c, size_t n);
/* The options that decide the result, as one JSON object; appended. */
void mint_train_options_json(const struct mint_train_config *c, bool fresh, const char *precision,
                             const char *ref, struct mint_buf *b);

/* Called after each optimiser step. */
struct mint_train_report {
    int64_t step, of; /* 1-based in this run; planned */
    int64_t global;   /* optimiser steps in the checkpoint chain */
    double lr;
    const struct mint_step_stats *stats;
};
typedef int mint_train_on_step(void *ctx, const struct mint_train_report *r, struct mint_err *err);
/* t trains a. */
int mint_train_run(const struct mint_train_config *c, struct mint_trainer *t,
                   const struct mint_adapter *a, const struct mint_datums *data,
                   mint_train_on_step *on_step, void *ctx, struct mint_step_stats *last,
                   int64_t *tokens, struct mint_err *err);

/* Writes the trainer's adapter and moments as a checkpoint folder. stats: of the last step, or
 * NULL. */
int mint_train_save(struct mint_trainer *t, const struct mint_adapter *a, const char *dir,
                    const struct mint_trainer_state *state, const struct mint_step_stats *stats,
                    struct mint_err *err);

#endif

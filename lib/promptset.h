/* SPDX-License-Identifier: Apache-2.0 */
/*
 * promptset.h: which records of a prompt file a run takes, and in which order.
 *
 * Without step and shard the records stream through, one in memory at a time. step S takes the S-th
 * slice (from 0) of groups_per_batch records of the endless sequence epoch 0, epoch 1, ...; each
 * epoch is the file in its order, or, with a shuffle seed, a permutation by (seed, epoch). So a
 * cron job needs no state. shard I/N then takes the I-th (from 0) of N contiguous parts, so that
 * the shards' outputs, joined with cat, are the whole. Both hold the chosen records in memory.
 * Records whose id is in one of the exclude files (rollouts of before), and with once also those
 * whose id came before in this run, are left out then, and counted.
 */
#ifndef MINT_PROMPTSET_H
#define MINT_PROMPTSET_H

#include "record.h"

struct mint_promptset_opts {
    const char *const *paths; /* borrowed */
    size_t npaths;
    bool skip_bad;
    const char *const *exclude; /* borrowed; files of records with ids */
    size_t nexclude;
    bool once;
    int64_t step; /* -1: all */
    int64_t groups_per_batch;
    bool shuffle;
    uint64_t shuffle_seed;
    int64_t shard, shards; /* shards 0: no sharding */
    void (*on_skip)(const char *msg);
};

/* A record: doc is parsed, line its bytes; both valid until the next call. */
struct mint_prompt_record {
    struct mint_json *doc;
    const char *line;
    size_t len;
    const char *file;
    uint64_t lineno, epoch;
};

struct mint_promptset;
int mint_promptset_open(struct mint_promptset **s, const struct mint_promptset_opts *o,
                        struct mint_err *err);
/* 1, 0 at the end, -1. */
int mint_promptset_next(struct mint_promptset *s, struct mint_prompt_record *r,
                        struct mint_err *err);
/* The present record is bad: "FILE:LINE: " goes before *err. Returns -1, or 0 if skip_bad counted
 * it. */
int mint_promptset_bad(struct mint_promptset *s, struct mint_err *err);
uint64_t mint_promptset_skipped(const struct mint_promptset *s);
uint64_t mint_promptset_excluded(const struct mint_promptset *s);
void mint_promptset_close(struct mint_promptset *s);

#endif

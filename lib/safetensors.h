/* SPDX-License-Identifier: Apache-2.0 */
/*
 * safetensors.h: reading (memory-mapped, no copy) and writing of safetensors files, and of a sharded model's
 * index. Format: 8-byte little-endian header length, JSON header, data (huggingface/safetensors README).
 * Hostile headers are refused: length over the file or over 100 MB, offsets that overlap, leave holes, run
 * backwards or past the end, shapes whose product does not fit dtype x bytes, duplicate names.
 * A set of open files is read-only and may be shared by threads.
 */
#ifndef MINT_SAFETENSORS_H
#define MINT_SAFETENSORS_H

#include "base.h"
#include "err.h"

enum mint_dtype { MINT_F32, MINT_BF16, MINT_F16, MINT_DTYPE_OTHER };
size_t mint_dtype_bytes(enum mint_dtype t); /* 4, 2, 2, 0 */
const char *mint_dtype_name(enum mint_dtype t); /* "F32"... */

#define MINT_TENSOR_DIMS 4
struct mint_st_tensor {
    const char *name;
    enum mint_dtype dtype; /* OTHER: listed, but not readable */
    int ndim;
    int64_t shape[MINT_TENSOR_DIMS];
    const void *data; /* little-endian, in the map; may be unaligned */
    size_t bytes;
};

struct mint_st; /* one file, or all shards of an index */
/* path: a .safetensors file, an index (.index.json), or a folder: model.safetensors.index.json, else model.safetensors, else
 * adapter_model.safetensors. A tensor named in the index that its shard does not hold is an error. */
int mint_st_open(struct mint_st **st, const char *path, struct mint_err *err);
void mint_st_close(struct mint_st *st);
size_t mint_st_count(const struct mint_st *st);
const struct mint_st_tensor *mint_st_at(const struct mint_st *st, size_t i); /* sorted by name (bytes) */
const struct mint_st_tensor *mint_st_find(const struct mint_st *st, const char *name); /* NULL if absent */
/* The sha256 text over every tensor in name order: name, dtype name, shape as decimal text, raw bytes. */
int mint_st_fingerprint(const struct mint_st *st, char out[72], struct mint_err *err);
/* Converts to float32 (exact for F32, BF16, F16). out has room for all elements. */
int mint_st_to_f32(const struct mint_st_tensor *t, float *out, struct mint_err *err);

/* Write one file: declare every tensor, then give the data in the same order. Not atomic by itself: write into a
 * mint_tmpdir. Names are written in the order given; data starts at a multiple of 8 (header padded by spaces). */
struct mint_st_writer;
int mint_st_create(struct mint_st_writer **w, const char *path, struct mint_err *err);
void mint_st_declare(struct mint_st_writer *w, const char *name, enum mint_dtype t, int ndim, const int64_t *shape);
void mint_st_metadata(struct mint_st_writer *w, const char *key, const char *value); /* before the first data */
int mint_st_write(struct mint_st_writer *w, const void *data, size_t bytes, struct mint_err *err); /* the next bytes of the data section; any piece size */
int mint_st_finish(struct mint_st_writer *w, struct mint_err *err); /* checks that all bytes came; fsync, close, free */
void mint_st_cancel(struct mint_st_writer *w);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * safetensors.h: reading (memory-mapped, no copy) and writing of safetensors files, and of a
 * sharded model's index. Format: 8-byte little-endian header length, JSON header, data
 * (huggingface/safetensors README). Hostile headers are refused: length over the file or over
 * 100 MB, offsets that overlap, leave holes, run backwards or past the end, shapes whose product
 * does not fit dtype x bytes, duplicate names. A set of open files is read-only and may be shared
 * by threads. Do not change a file that is open: the map shows it, or the process dies.
 */
#ifndef MINT_SAFETENSORS_H
#define MINT_SAFETENSORS_H

#include "base.h"
#include "err.h"

enum mint_dtype { MINT_F32, MINT_BF16, MINT_F16, MINT_DTYPE_OTHER };
size_t mint_dtype_bytes(enum mint_dtype t);      /* 4, 2, 2, 0 */
const char *mint_dtype_name(enum mint_dtype t);  /* "F32", "BF16", "F16", "OTHER" */
const char *mint_dtype_torch(enum mint_dtype t); /* "float32", "bfloat16", "float16", "other" */

#define MINT_TENSOR_DIMS 4
struct mint_st_tensor {
    const char *name;
    const char *dtype_text; /* as written: "BF16", "I64", ... */
    enum mint_dtype dtype;  /* OTHER: listed, but not readable */
    int ndim;
    int64_t shape[MINT_TENSOR_DIMS];
    const void *data; /* little-endian, in the map; may be unaligned */
    size_t bytes;
    size_t file; /* which of the open files holds it: mint_st_file */
};

struct mint_st; /* one file, or all shards of an index */
/*
 * path: a .safetensors file, an index (.index.json), or a folder: model.safetensors.index.json,
 * else model.safetensors, else adapter_model.safetensors. A tensor named in the index that its
 * shard does not hold is an error; a tensor of a shard that the index does not name is not listed.
 * Shard names with a '/' are refused. Messages name the file.
 */
int mint_st_open(struct mint_st **st, const char *path, struct mint_err *err);
void mint_st_close(struct mint_st *st); /* NULL is fine */
size_t mint_st_count(const struct mint_st *st);
const struct mint_st_tensor *mint_st_at(const struct mint_st *st,
                                        size_t i); /* sorted by name (bytes) */
const struct mint_st_tensor *mint_st_find(const struct mint_st *st,
                                          const char *name); /* NULL if absent */
/* The files behind the set, in name order for an index. The names are base names. */
size_t mint_st_files(const struct mint_st *st);
const char *mint_st_file(const struct mint_st *st, size_t i);
bool mint_st_sharded(const struct mint_st *st); /* opened through an index */
/*
 * The fingerprint: "sha256:..." over every tensor in name order of its name, '\n', dtype, '\n',
 * shape as decimal numbers joined by ',', '\n', and the 32-byte sha256 of each 16 MiB piece of its
 * bytes (none for an empty tensor). Pieces, so that all cores can work on it; the result depends
 * neither on threads nor on the sharding. Reads every byte: for a base model, call it once a run.
 */
int mint_st_fingerprint(const struct mint_st *st, char out[72], struct mint_err *err);
/*
 * The same, begun in the background by a thread of the lowest priority, which works while no other
 * wants the processor. finish does what is left with so many threads, without waiting for that one.
 * free ends it; st must live until then. release: the pages that have been read are given back, as
 * by mint_st_release. A print belongs to one thread, and is finished once.
 */
struct mint_st_print;
struct mint_st_print *mint_st_print_begin(const struct mint_st *st, bool release);
void mint_st_print_finish(struct mint_st_print *f, int threads, char out[72]);
void mint_st_print_free(struct mint_st_print *f); /* NULL is fine */
/*
 * Takes the whole pages inside these bytes of the map out of this process's memory. They come again
 * from the file when they are read; so this is for data that has been copied elsewhere. Threads may
 * read them meanwhile.
 */
void mint_st_release(const struct mint_st *st, const void *p, size_t n);
/* Converts to float32 (exact for F32, BF16, F16). out has room for all elements. */
int mint_st_to_f32(const struct mint_st_tensor *t, float *out, struct mint_err *err);
/* The same for raw bytes of one type, and back: round to nearest even, NaN stays NaN. */
void mint_dtype_to_f32(enum mint_dtype t, const void *in, float *out, size_t n);
void mint_dtype_from_f32(enum mint_dtype t, const float *in, void *out, size_t n);
/* "[1024,16]" for messages; out has room for 96 bytes. */
const char *mint_shape_text(int ndim, const int64_t *shape, char out[96]);

/*
 * Write one file: declare every tensor, then give the data in the same order. Not atomic by
 * itself: write into a mint_tmpdir. Names are written in the order given; data starts at a multiple
 * of 8 (header padded by spaces).
 */
struct mint_st_writer;
int mint_st_create(struct mint_st_writer **w, const char *path, struct mint_err *err);
void mint_st_declare(struct mint_st_writer *w, const char *name, enum mint_dtype t, int ndim,
                     const int64_t *shape);
/* The same for any type, by its text and size (a copy of a tensor that is listed but not readable).
 */
void mint_st_declare_raw(struct mint_st_writer *w, const char *name, const char *dtype_text,
                         int ndim, const int64_t *shape, size_t bytes);
/* before the first data; "format" "pt" is what other readers want to see */
void mint_st_metadata(struct mint_st_writer *w, const char *key, const char *value);
/* the next bytes of the data section; any piece size */
int mint_st_write(struct mint_st_writer *w, const void *data, size_t bytes, struct mint_err *err);
/* checks that all bytes came; fsync, close, free (also on failure) */
int mint_st_finish(struct mint_st_writer *w, struct mint_err *err);
void mint_st_cancel(struct mint_st_writer *w); /* NULL is fine; the file stays, unfinished */

#endif

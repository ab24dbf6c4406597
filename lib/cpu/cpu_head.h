/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cpu_head.h: the output head in pieces. Logits are made for HEAD_ROWS rows and HEAD_CHUNK columns
 * at a time, in scratch; a row's softmax is gathered from its chunks in ascending order. Op sample
 * cuts its rows into the same chunks, so that it finds the same bits.
 */
#ifndef MINT_CPU_HEAD_H
#define MINT_CPU_HEAD_H

#include "rows.h"
#include "vmath.h"

#define HEAD_CHUNK 1024
#define HEAD_ROWS  192 /* whole tiles, and even: blocks of rows are cut between pairs */
#define HEAD_LD    (HEAD_CHUNK + 16) /* row stride of a block of logits: not a multiple of 4 KiB */

struct cpu_head {
    struct cpu_dev *d;
    const void *h; /* act [T, H], row stride ldh */
    int64_t ldh, T, V, H, chunks;
    const struct mint_weight *w;
    const struct mint_lora *lora; /* or NULL */
    const void *u;                /* act [T, rank] */
    void *owned_h, *owned_u;
};

/* Rows t of h; u NULL: computed. End with cpu_head_end. */
void cpu_head_begin(struct cpu_head *x, struct cpu_dev *d, const void *h, const void *u,
                    const struct mint_weight *w, const struct mint_lora *lora, int64_t T);
void cpu_head_end(struct cpu_head *x);

/* Logits of rows t0..t0+n-1, chunk c, in columns 0.. of y (row stride ldy); y NULL: in the thread's
 * scratch (row stride HEAD_LD). Returns where they are; *cols is the chunk's width. */
const float *cpu_head_logits(const struct cpu_head *x, int thread, float *y, int64_t ldy,
                             int64_t t0, int64_t n, int64_t c, int64_t *cols);

/* Row blocks of T rows. */
static inline int64_t cpu_head_blocks(int64_t T)
{
    return (T + HEAD_ROWS - 1) / HEAD_ROWS;
}

/* a = a and b; chunks of -inf alone count as nothing, a NaN stays. */
static inline void cpu_chunk_add(struct cpu_chunk *a, const struct cpu_chunk *b)
{
    const float top = b->max > a->max ? b->max : a->max;
    const float fa = cpu_exp(a->max - top), fb = cpu_exp(b->max - top);

    if (top == -INFINITY || b->max == -INFINITY) { /* b->sum is 0, or NaN */
        a->sum += b->sum;
        return;
    }
    if (a->max == -INFINITY) {
        const float nothing = a->sum;

        *a = *b;
        a->sum += nothing;
        return;
    }
    a->dev = fa * (a->dev + (a->max - top) * a->sum) + fb * (b->dev + (b->max - top) * b->sum);
    a->sum = fa * a->sum + fb * b->sum;
    a->max = top;
}

/* log-softmax of a logit. */
static inline float cpu_chunk_logprob(const struct cpu_chunk *a, float logit)
{
    return (logit - a->max) - cpu_log(a->sum);
}

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* trainer_data.h: datums and an opened trainer, for the tests of training. Paths are from the
 * project's root. */
#ifndef MINT_TRAINER_DATA_H
#define MINT_TRAINER_DATA_H

#include <stdlib.h>
#include <string.h>

#include "policy.h"
#include "trainer.h"

#define OK(call)                     \
    do {                             \
        if ((call) < 0)              \
            fail_msg("%s", err.msg); \
    } while (0)

enum { N = 7, MAX = 400 };

/* Seven datums: 0-2 share 150 tokens, 3-4 others 64 and more, 5 is alone, 6 begins like 0 but
 * stands apart. */
static inline struct mint_datum *make_datums(void)
{
    static const size_t prompt[N] = {150, 150, 150, 129, 129, 20, 150};
    static const size_t length[N] = {170, 151, 260, 140, 200, 40, 155};
    static const uint32_t kind[N] = {1, 1, 1, 2, 2, 3, 1};
    struct mint_datum *d = mint_xcalloc(N, sizeof *d);
    for (size_t k = 0; k < N; k++) {
        int32_t *ids = mint_xcalloc(MAX, sizeof *ids);
        float *f = mint_xcalloc(3 * MAX, sizeof *f);
        uint32_t x = kind[k];
        for (size_t i = 0; i <= length[k]; i++) {
            x = x * 1664525u + 1013904223u + (i == prompt[k] ? (uint32_t)k : 0);
            ids[i] = (int32_t)((x >> 16) % 97);
            f[i] = i + 1 >= prompt[k] ? 1.0f : 0.0f;
            f[MAX + i] = -4.5f - (float)(x >> 28) * 0.05f;
            f[2 * MAX + i] = (float)(k % 3) - 0.8f;
        }
        d[k] = (struct mint_datum){.n = length[k],
                                   .input = ids,
                                   .target = ids + 1,
                                   .weights = f,
                                   .logprobs = f + MAX,
                                   .advantages = f + 2 * MAX};
    }
    return d;
}

static inline void free_datums(struct mint_datum *d)
{
    for (size_t k = 0; k < N; k++) {
        free((void *)(uintptr_t)d[k].input);
        free((void *)(uintptr_t)d[k].weights);
    }
    free(d);
}

static inline void pointers(const struct mint_datum *d, const struct mint_datum **p)
{
    for (size_t k = 0; k < N; k++)
        p[k] = &d[k];
}

struct opened {
    struct mint_policy policy;
    struct mint_trainer *t;
};

static inline struct mint_train_opts train_opts(int64_t micro)
{
    return (struct mint_train_opts){.loss = {.loss = MINT_LOSS_IS},
                                    .beta1 = 0.9,
                                    .beta2 = 0.999,
                                    .eps = 1e-8,
                                    .micro_tokens = micro};
}

static inline void open_with(struct opened *o, enum mint_precision precision, int threads,
                             const struct mint_train_opts *to)
{
    struct mint_err err = {0};
    struct mint_policy_opts p = {"tests/oracle/fixtures/qwen3",
                                 "tests/oracle/fixtures/qwen3/adapter",
                                 "cpu",
                                 (int)precision,
                                 threads,
                                 false};
    OK(mint_policy_open(&o->policy, &p, &err));
    OK(mint_trainer_new(&o->t, o->policy.model, o->policy.adapter, NULL, to, &err));
}

static inline void open_one(struct opened *o, enum mint_precision precision, int64_t micro,
                            int threads)
{
    struct mint_train_opts to = train_opts(micro);
    open_with(o, precision, threads, &to);
}

static inline void close_one(struct opened *o)
{
    mint_trainer_free(o->t);
    mint_policy_close(&o->policy);
}

static inline size_t param_size(const struct opened *o, size_t i)
{
    return (size_t)(o->policy.adapter->param[i].rows * o->policy.adapter->param[i].cols);
}

/* Value, m and v of all parameters, one behind the other; to free. */
static inline float *all_params(const struct opened *o, size_t *n)
{
    struct mint_err err = {0};
    size_t total = 0, at = 0;
    for (size_t i = 0; i < o->policy.adapter->nparams; i++)
        total += 3 * param_size(o, i);
    float *v = mint_xcalloc(total, sizeof *v);
    for (size_t i = 0; i < o->policy.adapter->nparams; i++) {
        size_t size = param_size(o, i);
        OK(mint_trainer_read(o->t, i, v + at, v + at + size, v + at + 2 * size, &err));
        at += 3 * size;
    }
    *n = total;
    return v;
}

#endif

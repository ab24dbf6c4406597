/* SPDX-License-Identifier: Apache-2.0 */
#include "replay.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "mem.h"
#include "trainer.h"

struct mint_replay {
    struct mint_model *model;
    const struct mint_adapter *adapter;
    struct mint_trainer *trainer;
    struct mint_arena arena; /* one call's datums */
};

int mint_replay_new(struct mint_replay **out, struct mint_model *m, const struct mint_adapter *a,
                    int64_t micro_tokens, struct mint_err *err)
{
    struct mint_replay *r = mint_xcalloc(1, sizeof *r);
    struct mint_train_opts o = {.micro_tokens = micro_tokens};
    r->model = m;
    r->adapter = a;
    *out = r;
    return mint_trainer_new(&r->trainer, m, NULL, a, &o, err);
}

void mint_replay_free(struct mint_replay *r)
{
    if (!r)
        return;
    mint_trainer_free(r->trainer);
    mint_arena_release(&r->arena);
    free(r);
}

static int check_ids(const struct mint_replay *r, const char *what, const int32_t *ids, int64_t n,
                     struct mint_err *err)
{
    for (int64_t i = 0; i < n; i++)
        if (ids[i] < 0 || ids[i] >= r->model->config.vocab)
            return mint_fail(err, MINT_ESCHEMA,
                             "%s token %lld is %d, outside the model's vocabulary of %d: it was "
                             "made with another model",
                             what, (long long)i, ids[i], r->model->config.vocab);
    return 0;
}

static int check(const struct mint_replay *r, const int32_t *prompt, int64_t prompt_n,
                 const struct mint_response *v, size_t n, struct mint_err *err)
{
    if (prompt_n < 1)
        return mint_fail(err, MINT_ESCHEMA, "the prompt is empty: there is nothing to go on from");
    if (check_ids(r, "prompt", prompt, prompt_n, err) < 0)
        return -1;
    for (size_t i = 0; i < n; i++) {
        if (check_ids(r, "response", v[i].tokens, v[i].n, err) < 0)
            return -1;
        if (prompt_n + v[i].n > (int64_t)r->model->config.max_positions + 1)
            return mint_fail(err, MINT_ESCHEMA,
                             "prompt and response have %lld tokens, the model's context is %d",
                             (long long)(prompt_n + v[i].n), r->model->config.max_positions);
    }
    return 0;
}

/* prompt + response as a datum whose weights mark the response. */
static struct mint_datum *make_datum(struct mint_replay *r, const int32_t *prompt, int64_t prompt_n,
                                     const struct mint_response *v)
{
    size_t n = (size_t)(prompt_n + v->n);
    int32_t *full = mint_arena_alloc(&r->arena, n * sizeof *full);
    float *weights = mint_arena_alloc(&r->arena, n * sizeof *weights);
    struct mint_datum *d = mint_arena_alloc(&r->arena, sizeof *d);
    memcpy(full, prompt, (size_t)prompt_n * sizeof *full);
    memcpy(full + prompt_n, v->tokens, (size_t)v->n * sizeof *full);
    for (size_t i = 0; i + 1 < n; i++)
        weights[i] = i + 1 >= (size_t)prompt_n ? 1.0f : 0.0f;
    *d = (struct mint_datum){.n = n - 1, .input = full, .target = full + 1, .weights = weights};
    return d;
}

int mint_replay_logprobs(struct mint_replay *r, const int32_t *prompt, int64_t prompt_n,
                         struct mint_response *v, size_t n, struct mint_err *err)
{
    if (check(r, prompt, prompt_n, v, n, err) < 0)
        return -1;
    mint_arena_reset(&r->arena);
    const struct mint_datum **d = mint_arena_alloc(&r->arena, (n + 1) * sizeof *d);
    size_t used = 0, total = 0;
    for (size_t i = 0; i < n; i++) {
        if (!v[i].n)
            continue;
        d[used] = make_datum(r, prompt, prompt_n, &v[i]);
        total += d[used++]->n;
    }
    float *lp = mint_arena_alloc(&r->arena, (total + 1) * sizeof *lp);
    if (mint_trainer_forward(r->trainer, d, used, r->adapter, false, lp, err) < 0)
        return -1;
    for (size_t i = 0; i < n; i++) {
        if (!v[i].n)
            continue;
        lp += prompt_n - 1;
        memcpy(v[i].logprobs, lp, (size_t)v[i].n * sizeof *lp);
        lp += v[i].n;
    }
    return 0;
}

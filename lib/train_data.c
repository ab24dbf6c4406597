/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "hash.h"
#include "mem.h"
#include "train_job.h"

static const void *copy(struct mint_arena *a, const void *p, size_t n, size_t size)
{
    if (!p)
        return NULL;
    void *q = mint_arena_alloc(a, n * size);
    memcpy(q, p, n * size);
    return q;
}

static char *copy_text(struct mint_arena *a, const char *text)
{
    return text ? mint_arena_strndup(a, text, strlen(text)) : NULL;
}

/* Out of the reader's arena, which the next record reuses. */
static void keep(struct mint_datums *s, const struct mint_datum *d)
{
    struct mint_arena *a = &s->arena;
    if (s->n == s->cap) {
        s->cap = s->cap ? 2 * s->cap : 64;
        s->d = mint_xreallocarray(s->d, s->cap, sizeof *s->d);
    }
    struct mint_datum *k = &s->d[s->n++];
    *k = *d;
    k->input = copy(a, d->input, d->n, sizeof *d->input);
    k->target = copy(a, d->target, d->n, sizeof *d->target);
    k->weights = copy(a, d->weights, d->n, sizeof *d->weights);
    k->logprobs = copy(a, d->logprobs, d->n, sizeof *d->logprobs);
    k->advantages = copy(a, d->advantages, d->n, sizeof *d->advantages);
    k->ref_logprobs = copy(a, d->ref_logprobs, d->n, sizeof *d->ref_logprobs);
    k->clip_low = copy(a, d->clip_low, d->n, sizeof *d->clip_low);
    k->clip_high = copy(a, d->clip_high, d->n, sizeof *d->clip_high);
    k->meta_raw = copy(a, d->meta_raw, d->meta_n, 1);
    k->pair = copy_text(a, d->pair);
    k->group = copy_text(a, d->group);
    k->device = copy_text(a, d->device);
    k->precision = copy_text(a, d->precision);
}

static int check(const struct mint_train_opts *o, const struct mint_datum *d, int64_t max_positions,
                 struct mint_err *err)
{
    if ((int64_t)d->n > max_positions)
        return mint_fail(err, MINT_ESCHEMA,
                         "the datum has %zu positions, the model's context is %lld", d->n,
                         (long long)max_positions);
    return o ? mint_trainer_check(o, d, err) : 0;
}

int mint_datums_read(struct mint_datums *s, const char *const *paths, size_t npaths, bool skip_bad,
                     void (*on_skip)(const char *msg), const struct mint_train_opts *o,
                     int64_t vocab, int64_t max_positions, struct mint_err *err)
{
    struct mint_reader r;
    struct mint_sha256 sha;
    int rc;
    *s = (struct mint_datums){.arena = MINT_ARENA_INIT};
    mint_reader_init(&r, paths, npaths, skip_bad);
    r.on_skip = on_skip;
    mint_sha256_init(&sha);
    while ((rc = mint_reader_next(&r, err)) > 0) {
        struct mint_datum d;
        if (mint_datum_read(&r, vocab, &d, err) < 0 || check(o, &d, max_positions, err) < 0) {
            if (mint_reader_bad(&r, err) < 0) {
                rc = -1;
                break;
            }
            continue;
        }
        mint_sha256_add(&sha, r.line, r.len);
        mint_sha256_add(&sha, "\n", 1);
        keep(s, &d);
    }
    mint_sha256_end_text(&sha, s->digest);
    s->skipped = r.skipped;
    mint_reader_close(&r);
    return rc;
}

static int check_pair(const struct mint_datum *d, const char *want, struct mint_err *err)
{
    if (!d->pair || !strcmp(d->pair, want))
        return 0;
    return mint_fail(err, MINT_ESCHEMA,
                     "%s:%llu: meta.pair is \"%s\" where the %s datum of a pair is expected: a "
                     "chosen one, then its rejected one",
                     d->file, (unsigned long long)d->line, d->pair, want);
}

int mint_datums_check_pairs(const struct mint_datums *s, struct mint_err *err)
{
    for (size_t i = 0; i < s->n; i += 2) {
        const struct mint_datum *d = &s->d[i];
        if (i + 1 == s->n)
            return mint_fail(err, MINT_ESCHEMA,
                             "%s:%llu: the last datum has no partner: --loss dpo takes pairs, a "
                             "chosen one, then its rejected one",
                             d->file, (unsigned long long)d->line);
        MINT_TRY(check_pair(d, "chosen", err));
        MINT_TRY(check_pair(d + 1, "rejected", err));
    }
    return 0;
}

size_t mint_datums_foreign(const struct mint_datums *s, const struct mint_dev *dev,
                           const struct mint_datum **one)
{
    const char *precision = dev->precision == MINT_PRECISION_F32 ? "f32" : "bf16";
    size_t n = 0;
    for (size_t i = 0; i < s->n; i++) {
        const struct mint_datum *d = &s->d[i];
        bool same = (!d->device || !strcmp(d->device, dev->kind)) &&
                    (!d->precision || !strcmp(d->precision, precision));
        if (!d->logprobs || same)
            continue;
        if (n++ == 0)
            *one = d;
    }
    return n;
}

void mint_datums_release(struct mint_datums *s)
{
    mint_arena_release(&s->arena);
    free(s->d);
    *s = (struct mint_datums){0};
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "promptset.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "mem.h"
#include "prompt.h"
#include "rng.h"

struct stored {
    char *line;
    size_t len;
    const char *file;
    uint64_t lineno;
};

struct mint_promptset {
    struct mint_promptset_opts o;
    struct mint_reader reader;
    bool stream;
    struct stored *all; /* every record, when not streaming */
    size_t n, cap;
    uint32_t *perm; /* of epoch perm_epoch */
    uint64_t perm_epoch;
    uint64_t at, end; /* positions in the endless sequence */
    struct mint_json *doc;
    struct stored now;
    char **done; /* ids to leave out, sorted */
    size_t ndone, done_cap;
    uint64_t excluded;
    struct mint_buf id;
};

/* The name in messages; unlike mint_reader_file it outlives the open file. */
static const char *file_name(const struct mint_reader *r)
{
    const char *path = r->paths[r->at];
    return strcmp(path, "-") == 0 ? "stdin" : path;
}

static int load_all(struct mint_promptset *s, struct mint_err *err)
{
    int rc;
    while ((rc = mint_reader_next(&s->reader, err)) > 0) {
        if (s->n == s->cap) {
            s->cap = s->cap ? 2 * s->cap : 64;
            s->all = mint_xreallocarray(s->all, s->cap, sizeof *s->all);
        }
        s->all[s->n++] = (struct stored){
            mint_xstrndup(s->reader.line, s->reader.len),
            s->reader.len,
            file_name(&s->reader),
            mint_reader_lineno(&s->reader),
        };
    }
    if (rc == 0 && s->n == 0)
        return mint_fail(err, MINT_ESCHEMA, "%s: no records", mint_reader_file(&s->reader));
    return rc;
}

/* Where an id is, or would be, among those to leave out. */
static size_t place_of(const struct mint_promptset *s, const char *id, bool *there)
{
    size_t low = 0, high = s->ndone;
    *there = false;
    while (low < high) {
        size_t mid = low + (high - low) / 2;
        int order = strcmp(id, s->done[mid]);
        *there = order == 0;
        if (order == 0)
            return mid;
        low = order > 0 ? mid + 1 : low;
        high = order > 0 ? high : mid;
    }
    return low;
}

static void add_done(struct mint_promptset *s, size_t at)
{
    if (s->ndone == s->done_cap) {
        s->done_cap = s->done_cap ? 2 * s->done_cap : 64;
        s->done = mint_xreallocarray(s->done, s->done_cap, sizeof *s->done);
    }
    memmove(s->done + at + 1, s->done + at, (s->ndone++ - at) * sizeof *s->done);
    s->done[at] = mint_xstrndup(s->id.data, s->id.len);
}

static int load_done(struct mint_promptset *s, struct mint_err *err)
{
    struct mint_reader r;
    int rc;
    bool there;
    mint_reader_init(&r, s->o.exclude, s->o.nexclude, false);
    while ((rc = mint_reader_next(&r, err)) > 0) {
        mint_buf_reset(&s->id);
        if (mint_prompt_id(r.doc, mint_reader_lineno(&r), &s->id, err) < 0) {
            rc = mint_reader_bad(&r, err);
            break;
        }
        size_t at = place_of(s, s->id.data, &there);
        if (!there)
            add_done(s, at);
    }
    mint_reader_close(&r);
    return rc;
}

/* Counts a record that is left out. A record without a proper id is for the caller to refuse. */
static bool is_done(struct mint_promptset *s, const struct mint_prompt_record *r)
{
    struct mint_err err = {0};
    bool there;
    if (!s->ndone && !s->o.once)
        return false;
    mint_buf_reset(&s->id);
    if (mint_prompt_id(r->doc, r->lineno, &s->id, &err) < 0)
        return false;
    size_t at = place_of(s, s->id.data, &there);
    if (!there && s->o.once)
        add_done(s, at);
    s->excluded += there;
    return there;
}

static void choose(struct mint_promptset *s)
{
    const struct mint_promptset_opts *o = &s->o;
    s->end = s->n;
    if (o->step >= 0) {
        s->at = (uint64_t)o->step * (uint64_t)o->groups_per_batch;
        s->end = s->at + (uint64_t)o->groups_per_batch;
    }
    if (o->shards) {
        uint64_t n = s->end - s->at, base = s->at;
        s->at = base + n * (uint64_t)o->shard / (uint64_t)o->shards;
        s->end = base + n * (uint64_t)(o->shard + 1) / (uint64_t)o->shards;
    }
}

int mint_promptset_open(struct mint_promptset **out, const struct mint_promptset_opts *o,
                        struct mint_err *err)
{
    struct mint_promptset *s = mint_xcalloc(1, sizeof *s);
    s->o = *o;
    s->stream = o->step < 0 && !o->shards && !o->shuffle;
    s->perm_epoch = UINT64_MAX;
    mint_reader_init(&s->reader, o->paths, o->npaths, o->skip_bad);
    s->reader.on_skip = o->on_skip;
    int rc = o->nexclude ? load_done(s, err) : 0;
    if (rc == 0 && !s->stream) {
        s->doc = mint_json_new();
        rc = load_all(s, err);
    }
    if (rc < 0) {
        mint_promptset_close(s);
        return -1;
    }
    if (!s->stream)
        choose(s);
    *out = s;
    return 0;
}

/* Index of the record at a position of the endless sequence. */
static size_t record_at(struct mint_promptset *s, uint64_t at)
{
    uint64_t epoch = at / s->n;
    size_t i = (size_t)(at % s->n);
    if (!s->o.shuffle)
        return i;
    if (epoch != s->perm_epoch) {
        s->perm = mint_xreallocarray(s->perm, s->n, sizeof *s->perm);
        mint_rng_shuffle(s->o.shuffle_seed, epoch, s->perm, (uint32_t)s->n);
        s->perm_epoch = epoch;
    }
    return s->perm[i];
}

static int next_record(struct mint_promptset *s, struct mint_prompt_record *r, struct mint_err *err)
{
    if (s->stream) {
        int rc = mint_reader_next(&s->reader, err);
        if (rc > 0)
            *r = (struct mint_prompt_record){s->reader.doc,
                                             s->reader.line,
                                             s->reader.len,
                                             mint_reader_file(&s->reader),
                                             mint_reader_lineno(&s->reader),
                                             0};
        return rc;
    }
    if (s->at == s->end)
        return 0;
    uint64_t epoch = s->at / s->n;
    s->now = s->all[record_at(s, s->at++)];
    if (mint_json_parse(s->doc, s->now.line, s->now.len, err) < 0)
        return -1;
    *r = (struct mint_prompt_record){s->doc,      s->now.line,   s->now.len,
                                     s->now.file, s->now.lineno, epoch};
    return 1;
}

int mint_promptset_next(struct mint_promptset *s, struct mint_prompt_record *r,
                        struct mint_err *err)
{
    int rc;
    while ((rc = next_record(s, r, err)) > 0 && is_done(s, r))
        ;
    return rc;
}

int mint_promptset_bad(struct mint_promptset *s, struct mint_err *err)
{
    if (s->stream)
        return mint_reader_bad(&s->reader, err);
    mint_wrap(err, "%s:%" PRIu64 ": ", s->now.file, s->now.lineno);
    if (!s->o.skip_bad)
        return -1;
    s->reader.skipped++;
    if (s->o.on_skip)
        s->o.on_skip(err->msg);
    return 0;
}

uint64_t mint_promptset_skipped(const struct mint_promptset *s)
{
    return s->reader.skipped;
}

uint64_t mint_promptset_excluded(const struct mint_promptset *s)
{
    return s->excluded;
}

void mint_promptset_close(struct mint_promptset *s)
{
    if (!s)
        return;
    mint_reader_close(&s->reader);
    mint_json_free(s->doc);
    for (size_t i = 0; i < s->n; i++)
        free(s->all[i].line);
    for (size_t i = 0; i < s->ndone; i++)
        free(s->done[i]);
    mint_buf_release(&s->id);
    free(s->done);
    free(s->all);
    free(s->perm);
    free(s);
}

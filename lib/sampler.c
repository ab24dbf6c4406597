/* SPDX-License-Identifier: Apache-2.0 */
#include "sampler.h"

#include <stdlib.h>
#include <string.h>

#include "forward.h"
#include "mem.h"
#include "rng.h"

/* A prompt in flight, in the order of next. */
struct group {
    struct group *next;
    struct mint_request *r;
    int32_t *pages; /* of the prompt */
    int64_t npages, prefilled;
    int32_t started, finished; /* sequences with a slot so far; ended */
    int32_t slots_held;        /* slots and pages set aside until the prompt is read */
    int64_t max_new;           /* max_tokens, cut by the context */
};

struct slot {
    struct group *g; /* NULL: free */
    int32_t index;   /* sample of the group */
    int64_t pos;     /* position of the token that the next step feeds */
    int32_t *pages;
    int64_t npages, page_cap; /* page_cap: pages set aside for this sequence */
};

/* The rows of one step. */
struct rows {
    int64_t T, nseqs, nheads;
    int32_t *ids, *pos, *pages;
    struct mint_seq *seqs;
    int32_t *head_row;         /* rows whose logits are wanted */
    struct slot **head_slot;   /* the running sequence, or NULL: */
    struct group **head_group; /* the prompt that has just been read */
};

struct mint_sampler {
    struct mint_model *m;
    const struct mint_adapter *a;
    struct mint_sampler_opts o;
    struct mint_work *work;
    struct mint_kv *kv;
    int32_t *free_pages;
    int64_t nfree, npages, reserved;
    struct slot *slots;
    int64_t slots_free;
    struct group *first, *last;
    struct group *starting;       /* the one group whose sequences do not all run yet */
    struct mint_request *waiting; /* taken from next, not yet opened */
    bool input_ended;
    struct rows rows;
    int64_t row_cap;
    float *hx, *logits;
    void *h;
    struct mint_draw *draws;
    struct mint_drawn *drawn;
    int64_t draw_cap;
    struct mint_sampler_stats stats;
};

static int64_t ceil_div(int64_t a, int64_t b)
{
    return (a + b - 1) / b;
}

/* Pages that a sequence needs for itself: all but the prompt's whole ones. */
static int64_t own_pages(int64_t prompt_n, int64_t max_new)
{
    /* the last token is never fed back, so it needs no key */
    return ceil_div(prompt_n + max_new, MINT_KV_PAGE) - prompt_n / MINT_KV_PAGE;
}

static int64_t wanted_pages(int64_t slots, int64_t group, int64_t prompt_n, int64_t max_new)
{
    int64_t groups = ceil_div(slots, group) + 1;
    return groups * ceil_div(prompt_n, MINT_KV_PAGE) + slots * own_pages(prompt_n, max_new);
}

size_t mint_sampler_kv_bytes(const struct mint_model *m, int64_t slots, int64_t group,
                             int64_t prompt_n, int64_t max_tokens)
{
    return (size_t)wanted_pages(slots, group, prompt_n, max_tokens) *
           mint_kv_page_bytes(m->dev, m->config.layers, &m->attn);
}

void mint_request_release(struct mint_request *r)
{
    for (int32_t i = 0; r->gen && i < r->group; i++) {
        free(r->gen[i].tokens);
        free(r->gen[i].logprobs);
        mint_buf_release(&r->gen[i].text);
    }
    free(r->gen);
    r->gen = NULL;
}

static int alloc_device(struct mint_sampler *s, struct mint_err *err)
{
    const struct mint_model_config *c = &s->m->config;
    const struct mint_ops *ops = s->m->dev->ops;
    size_t H = (size_t)c->hidden, S = (size_t)s->o.slots;
    MINT_TRY(mint_work_new(&s->work, s->m, s->a ? s->a->config.rank : 0, s->row_cap, false, err));
    s->hx = ops->alloc(s->m->dev, S * H * sizeof(float), err);
    s->h = s->hx ? ops->alloc(s->m->dev, S * H * s->m->dev->act_bytes, err) : NULL;
    s->logits = s->h ? ops->alloc(s->m->dev, S * (size_t)c->vocab * sizeof(float), err) : NULL;
    return s->logits ? 0 : -1;
}

int mint_sampler_new(struct mint_sampler **out, struct mint_model *m, const struct mint_adapter *a,
                     const struct mint_sampler_opts *o, struct mint_err *err)
{
    struct mint_sampler *s = mint_xcalloc(1, sizeof *s);
    s->m = m;
    s->a = a;
    s->o = *o;
    s->row_cap = o->slots + o->prefill_rows;
    size_t rows = (size_t)s->row_cap;
    s->slots = mint_xcalloc((size_t)o->slots, sizeof *s->slots);
    s->slots_free = o->slots;
    s->rows.ids = mint_xcalloc(rows, sizeof *s->rows.ids);
    s->rows.pos = mint_xcalloc(rows, sizeof *s->rows.pos);
    s->rows.pages = mint_xcalloc(rows, sizeof *s->rows.pages);
    s->rows.seqs = mint_xcalloc(rows, sizeof *s->rows.seqs);
    s->rows.head_row = mint_xcalloc(rows, sizeof *s->rows.head_row);
    s->rows.head_slot = mint_xcalloc(rows, sizeof *s->rows.head_slot);
    s->rows.head_group = mint_xcalloc(rows, sizeof *s->rows.head_group);
    if (alloc_device(s, err) < 0) {
        mint_sampler_free(s);
        return -1;
    }
    *out = s;
    return 0;
}

static void free_group(struct group *g)
{
    free(g->pages);
    free(g);
}

void mint_sampler_free(struct mint_sampler *s)
{
    if (!s)
        return;
    const struct mint_ops *ops = s->m->dev->ops;
    while (s->first) {
        struct group *next = s->first->next;
        free_group(s->first);
        s->first = next;
    }
    for (int64_t i = 0; i < s->o.slots; i++)
        free(s->slots[i].pages);
    mint_work_free(s->work);
    ops->kv_free(s->m->dev, s->kv);
    ops->free(s->m->dev, s->hx);
    ops->free(s->m->dev, s->h);
    ops->free(s->m->dev, s->logits);
    free(s->free_pages);
    free(s->slots);
    free(s->rows.ids);
    free(s->rows.pos);
    free(s->rows.pages);
    free(s->rows.seqs);
    free(s->rows.head_row);
    free(s->rows.head_slot);
    free(s->rows.head_group);
    free(s->draws);
    free(s->drawn);
    free(s);
}

const struct mint_sampler_stats *mint_sampler_get_stats(const struct mint_sampler *s)
{
    return &s->stats;
}

/* --- pages */

/* (Re)makes the page store; nothing may be in flight. */
static int make_pages(struct mint_sampler *s, int64_t n, struct mint_err *err)
{
    const struct mint_ops *ops = s->m->dev->ops;
    ops->kv_free(s->m->dev, s->kv);
    s->kv = NULL;
    MINT_TRY(ops->kv_new(s->m->dev, &s->kv, s->m->config.layers, (int32_t)n, &s->m->attn, err));
    s->free_pages = mint_xreallocarray(s->free_pages, (size_t)n, sizeof *s->free_pages);
    s->npages = s->nfree = n;
    for (int64_t i = 0; i < n; i++)
        s->free_pages[i] = (int32_t)(n - 1 - i);
    return 0;
}

static int32_t take_page(struct mint_sampler *s)
{
    if (!s->nfree)
        MINT_BUG("no free page, though pages were set aside");
    return s->free_pages[--s->nfree];
}

static void give_page(struct mint_sampler *s, int32_t page)
{
    s->free_pages[s->nfree++] = page;
}

/* --- groups and slots */

static int64_t max_new_tokens(const struct mint_sampler *s, const struct mint_request *r)
{
    return MINT_MIN(s->o.max_tokens, s->m->config.max_positions - r->prompt_n);
}

/* Pages for this request at full slots, within the memory limit, but enough for one sequence. */
static int64_t pool_size(const struct mint_sampler *s, const struct mint_request *r)
{
    int64_t max_new = max_new_tokens(s, r);
    int64_t want = wanted_pages(s->o.slots, r->group, r->prompt_n, max_new);
    int64_t least = ceil_div(r->prompt_n, MINT_KV_PAGE) + own_pages(r->prompt_n, max_new);
    if (s->o.kv_bytes) {
        size_t page = mint_kv_page_bytes(s->m->dev, s->m->config.layers, &s->m->attn);
        want = MINT_MIN(want, (int64_t)(s->o.kv_bytes / page));
    }
    return MINT_MAX(want, least);
}

/* Opens the waiting request as a group if slots and pages are there. 1: opened, 0: not now. */
static int open_group(struct mint_sampler *s, struct mint_err *err)
{
    struct mint_request *r = s->waiting;
    int64_t pool = pool_size(s, r);
    if (pool > s->npages) {
        if (s->first)
            return 0; /* what runs must end before the store can grow */
        MINT_TRY(make_pages(s, pool, err));
    }
    int64_t prompt = ceil_div(r->prompt_n, MINT_KV_PAGE), max_new = max_new_tokens(s, r);
    int64_t own = own_pages(r->prompt_n, max_new), have = s->nfree - s->reserved - prompt;
    int64_t n = MINT_MIN(MINT_MIN(s->slots_free, (int64_t)r->group), have < 0 ? 0 : have / own);
    if (n <= 0)
        return 0;
    struct group *g = mint_xcalloc(1, sizeof *g);
    g->r = r;
    g->max_new = max_new;
    g->slots_held = (int32_t)n;
    g->npages = prompt;
    g->pages = mint_xcalloc((size_t)prompt, sizeof *g->pages);
    for (int64_t i = 0; i < prompt; i++)
        g->pages[i] = take_page(s);
    s->slots_free -= n;
    s->reserved += n * own;
    r->gen = mint_xcalloc((size_t)r->group, sizeof *r->gen);
    if (s->last)
        s->last->next = g;
    else
        s->first = g;
    s->last = g;
    s->starting = g;
    s->waiting = NULL;
    return 1;
}

/* Starts the next sequence of a group whose prompt is read and whose first tokens are drawn. */
static int start_sequence(struct mint_sampler *s, struct group *g, struct mint_err *err)
{
    struct slot *slot = s->slots;
    while (slot->g)
        slot++;
    int64_t P = g->r->prompt_n, whole = P / MINT_KV_PAGE;
    int64_t own = own_pages(P, g->max_new);
    slot->g = g;
    slot->index = g->started++;
    slot->pos = P;
    slot->page_cap = own;
    slot->pages = mint_xcalloc((size_t)(whole + own), sizeof *slot->pages);
    memcpy(slot->pages, g->pages, (size_t)whole * sizeof *slot->pages);
    slot->npages = whole;
    if (P % MINT_KV_PAGE) {
        int32_t page = take_page(s);
        s->reserved--;
        slot->page_cap--;
        slot->pages[slot->npages++] = page;
        MINT_TRY(s->m->dev->ops->kv_copy_page(s->m->dev, s->kv, page, g->pages[whole], err));
    }
    return 0;
}

static void end_sequence(struct mint_sampler *s, struct group *g, struct slot *slot)
{
    g->finished++;
    s->stats.sequences++;
    if (slot) {
        for (int64_t i = g->r->prompt_n / MINT_KV_PAGE; i < slot->npages; i++)
            give_page(s, slot->pages[i]);
        s->reserved -= slot->page_cap;
        free(slot->pages);
        *slot = (struct slot){0};
        s->slots_free++;
    }
    if (g->finished < g->r->group)
        return;
    for (int64_t i = 0; i < g->npages; i++)
        give_page(s, g->pages[i]);
    g->npages = 0;
}

/* --- tokens */

static bool is_stop_id(const struct mint_sampler *s, int32_t id)
{
    for (size_t i = 0; i < s->o.stop_ids_n; i++)
        if (s->o.stop_ids[i] == id)
            return true;
    return false;
}

/* Adds the token's bytes and looks for a stop string that ends in them. */
static bool hits_stop_string(const struct mint_sampler *s, struct mint_gen *gen, int32_t id)
{
    if (!s->o.stop_strings_n)
        return false;
    size_t before = gen->text.len, best = SIZE_MAX;
    mint_decode_bytes(s->o.tok, &id, 1, true, &gen->text);
    for (size_t i = 0; i < s->o.stop_strings_n; i++) {
        size_t n = strlen(s->o.stop_strings[i]);
        size_t from = before + 1 > n ? before + 1 - n : 0;
        if (gen->text.len < from + n)
            continue;
        const char *at =
            memmem(gen->text.data + from, gen->text.len - from, s->o.stop_strings[i], n);
        if (at)
            best = MINT_MIN(best, (size_t)(at - gen->text.data) + n);
    }
    gen->text_end = best == SIZE_MAX ? gen->text.len : best;
    return best != SIZE_MAX;
}

/* Appends a drawn token to sample index of g. Returns true if the sequence has ended. */
static bool take_token(struct mint_sampler *s, struct group *g, int32_t index,
                       const struct mint_drawn *d)
{
    struct mint_gen *gen = &g->r->gen[index];
    if ((gen->n & (gen->n - 1)) == 0) { /* full at powers of two */
        size_t cap = gen->n ? 2 * (size_t)gen->n : 1;
        gen->tokens = mint_xreallocarray(gen->tokens, cap, sizeof *gen->tokens);
        gen->logprobs = mint_xreallocarray(gen->logprobs, cap, sizeof *gen->logprobs);
    }
    gen->tokens[gen->n] = d->id;
    gen->logprobs[gen->n++] = s->o.behavior ? d->behavior : d->logprob;
    s->stats.tokens++;
    bool by_text = hits_stop_string(s, gen, d->id);
    gen->stop = by_text || is_stop_id(s, d->id);
    return gen->stop || gen->n >= g->max_new;
}

/* --- a step */

static void add_row(struct rows *r, int32_t id, int64_t pos, const int32_t *pages)
{
    r->ids[r->T] = id;
    r->pos[r->T] = (int32_t)pos;
    r->pages[r->T++] = pages[pos / MINT_KV_PAGE];
}

static void add_head(struct rows *r, struct slot *slot, struct group *g)
{
    r->head_row[r->nheads] = (int32_t)(r->T - 1);
    r->head_slot[r->nheads] = slot;
    r->head_group[r->nheads++] = g;
}

/* One row for each running sequence: its newest token. */
static void add_decode_rows(struct mint_sampler *s)
{
    struct rows *r = &s->rows;
    for (int64_t i = 0; i < s->o.slots; i++) {
        struct slot *slot = &s->slots[i];
        if (!slot->g)
            continue;
        if (slot->pos / MINT_KV_PAGE >= slot->npages) {
            slot->pages[slot->npages++] = take_page(s);
            slot->page_cap--;
            s->reserved--;
        }
        const struct mint_gen *gen = &slot->g->r->gen[slot->index];
        r->seqs[r->nseqs++] = (struct mint_seq){r->T, 1, slot->pos, slot->pages};
        add_row(r, gen->tokens[gen->n - 1], slot->pos, slot->pages);
        add_head(r, slot, NULL);
        slot->pos++;
    }
}

/* Pieces of prompts, oldest first, as many rows as there is room for. */
static void add_prompt_rows(struct mint_sampler *s)
{
    struct rows *r = &s->rows;
    int64_t room = s->o.prefill_rows;
    for (struct group *g = s->first; g && room > 0; g = g->next) {
        int64_t n = MINT_MIN(g->r->prompt_n - g->prefilled, room);
        if (n <= 0)
            continue;
        r->seqs[r->nseqs++] = (struct mint_seq){r->T, n, g->prefilled, g->pages};
        for (int64_t i = 0; i < n; i++)
            add_row(r, g->r->prompt[g->prefilled + i], g->prefilled + i, g->pages);
        g->prefilled += n;
        room -= n;
        s->stats.prompt_tokens += n;
        if (g->prefilled == g->r->prompt_n)
            add_head(r, NULL, g);
    }
}

static int forward(struct mint_sampler *s, struct mint_err *err)
{
    struct rows *r = &s->rows;
    struct mint_batch b = {.T = r->T,
                           .ids = r->ids,
                           .pos = r->pos,
                           .pages = r->pages,
                           .seqs = r->seqs,
                           .nseqs = r->nseqs};
    float *x = s->work->x;
    MINT_TRY(s->m->dev->ops->embed(s->m->dev, x, s->m->embed, r->ids, r->T, err));
    for (int l = 0; l < s->m->config.layers; l++)
        MINT_TRY(mint_forward_layer(s->m, s->a, l, s->kv, l, s->work, x, x, &b, err));
    return 0;
}

static void reserve_draws(struct mint_sampler *s, int64_t n)
{
    if (n <= s->draw_cap)
        return;
    s->draw_cap = n;
    s->draws = mint_xreallocarray(s->draws, (size_t)n, sizeof *s->draws);
    s->drawn = mint_xreallocarray(s->drawn, (size_t)n, sizeof *s->drawn);
}

static struct mint_draw draw_for(const struct mint_sampler *s, const struct group *g, int32_t index)
{
    uint32_t sample = g->r->sample + (uint32_t)index;
    uint32_t position = g->r->position + (uint32_t)g->r->gen[index].n;
    float u = mint_rng_uniform(s->o.seed, g->r->stream, sample, position);
    return (struct mint_draw){s->o.temperature, s->o.top_p, s->o.top_k, u, s->o.draw_vocab};
}

/* First tokens of all sequences of a group, from the one row of logits behind its prompt. */
static int draw_group(struct mint_sampler *s, struct group *g, const float *logits,
                      struct mint_err *err)
{
    int64_t n = g->r->group;
    reserve_draws(s, n);
    for (int32_t i = 0; i < n; i++)
        s->draws[i] = draw_for(s, g, i);
    MINT_TRY(s->m->dev->ops->sample(s->m->dev, s->drawn, logits, 0, s->draws, n, s->m->config.vocab,
                                    err));
    for (int32_t i = 0; i < n; i++)
        (void)take_token(s, g, i, &s->drawn[i]); /* one that ends here: see start_waiting */
    return 0;
}

/* Next tokens of running sequences first..first+n-1 of the head rows. */
static int draw_slots(struct mint_sampler *s, int64_t first, int64_t n, const float *logits,
                      struct mint_err *err)
{
    int64_t V = s->m->config.vocab;
    reserve_draws(s, n);
    for (int64_t i = 0; i < n; i++) {
        const struct slot *slot = s->rows.head_slot[first + i];
        s->draws[i] = draw_for(s, slot->g, slot->index);
    }
    MINT_TRY(s->m->dev->ops->sample(s->m->dev, s->drawn, logits, V, s->draws, n, V, err));
    for (int64_t i = 0; i < n; i++) {
        struct slot *slot = s->rows.head_slot[first + i];
        if (take_token(s, slot->g, slot->index, &s->drawn[i]))
            end_sequence(s, slot->g, slot);
    }
    return 0;
}

/* Logits and draws of the head rows, at most slots rows at a time. Running sequences come first. */
static int heads(struct mint_sampler *s, struct mint_err *err)
{
    const struct mint_model_config *c = &s->m->config;
    const struct mint_ops *ops = s->m->dev->ops;
    struct rows *r = &s->rows;
    for (int64_t at = 0; at < r->nheads;) {
        int64_t n = MINT_MIN(r->nheads - at, s->o.slots), running = 0;
        MINT_TRY(ops->gather(s->m->dev, s->hx, s->work->x, r->head_row + at, n,
                             (size_t)c->hidden * sizeof(float), err));
        MINT_TRY(ops->rmsnorm(s->m->dev, s->h, s->hx, s->m->norm, c->norm_eps, n, c->hidden, err));
        MINT_TRY(ops->linear(s->m->dev, s->logits, c->vocab, s->h, s->m->head, NULL,
                             mint_adapter_lora(s->a, 0, MINT_MOD_HEAD), NULL, n, err));
        while (running < n && r->head_slot[at + running])
            running++;
        MINT_TRY(draw_slots(s, at, running, s->logits, err));
        for (int64_t i = running; i < n; i++)
            MINT_TRY(draw_group(s, r->head_group[at + i], s->logits + i * c->vocab, err));
        at += n;
    }
    return 0;
}

/* Whether sample index had its end at the first token, which draw_group drew. */
static bool ended_at_once(const struct group *g, int32_t index)
{
    return g->r->gen[index].stop || g->max_new <= 1;
}

/* Gives slots to sequences of groups whose prompt is read; a sequence that ended at its first token
 * needs none. */
static int start_waiting(struct mint_sampler *s, struct mint_err *err)
{
    for (struct group *g = s->first; g; g = g->next) {
        if (g->prefilled < g->r->prompt_n)
            continue;
        int64_t own = own_pages(g->r->prompt_n, g->max_new);
        while (g->started < g->r->group) {
            bool held = g->slots_held > 0;
            if (ended_at_once(g, g->started)) {
                g->started++;
                end_sequence(s, g, NULL);
                continue;
            }
            if (!held && (s->slots_free == 0 || s->nfree - s->reserved < own))
                break;
            if (held) {
                g->slots_held--;
            } else {
                s->slots_free--;
                s->reserved += own;
            }
            MINT_TRY(start_sequence(s, g, err));
        }
        if (g->started == g->r->group) { /* what was set aside and not needed */
            s->slots_free += g->slots_held;
            s->reserved -= g->slots_held * own;
            g->slots_held = 0;
            if (s->starting == g)
                s->starting = NULL;
        }
    }
    return 0;
}

static int admit(struct mint_sampler *s, const struct mint_sampler_calls *calls,
                 struct mint_err *err)
{
    while (!s->starting && s->slots_free > 0) {
        if (!s->waiting && !s->input_ended) {
            int rc = calls->next(calls->ctx, &s->waiting, err);
            if (rc < 0)
                return -1;
            s->input_ended = rc == 0;
        }
        if (!s->waiting)
            return 0;
        int rc = open_group(s, err);
        if (rc <= 0)
            return rc;
        if (s->starting->slots_held == s->starting->r->group)
            s->starting = NULL; /* all its sequences have their slots: the next may open */
    }
    return 0;
}

static int deliver(struct mint_sampler *s, const struct mint_sampler_calls *calls,
                   struct mint_err *err)
{
    while (s->first && s->first->finished == s->first->r->group) {
        struct group *g = s->first;
        s->first = g->next;
        if (!s->first)
            s->last = NULL;
        s->stats.groups++;
        int rc = calls->done(calls->ctx, g->r, err);
        free_group(g);
        if (rc < 0)
            return -1;
    }
    return 0;
}

int mint_sampler_run(struct mint_sampler *s, const struct mint_sampler_calls *calls,
                     struct mint_err *err)
{
    for (;;) {
        MINT_TRY(admit(s, calls, err));
        struct rows *r = &s->rows;
        r->T = r->nseqs = r->nheads = 0;
        add_decode_rows(s);
        add_prompt_rows(s);
        if (!r->T)
            return 0;
        if (s->stats.steps == 1) /* not before the first: its tokens come sooner */
            MINT_TRY(mint_model_pack(s->m, err));
        MINT_TRY(forward(s, err));
        MINT_TRY(heads(s, err));
        s->stats.steps++;
        if (calls->tick)
            calls->tick(calls->ctx, &s->stats);
        MINT_TRY(start_waiting(s, err));
        MINT_TRY(deliver(s, calls, err));
    }
}

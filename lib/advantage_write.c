/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Datums as text. Most of a Datum's bytes are copies: of the prompt's and the response's token ids,
 * of the logprobs, of runs of one number. So they are copied as text, and a run is written once and
 * doubled.
 */
#include <math.h>
#include <string.h>

#include "advantage.h"
#include "num.h"

/* The inside of an array's text without its brackets and blanks, in b. */
static void inside(struct mint_buf *b, struct mint_raw raw)
{
    mint_buf_reset(b);
    if (raw.n <= 2)
        return;
    const char *p = raw.p + 1, *end = raw.p + raw.n - 1;
    if (!memchr(p, ' ', (size_t)(end - p)) && !memchr(p, '\t', (size_t)(end - p)) &&
        !memchr(p, '\r', (size_t)(end - p))) {
        mint_buf_add(b, p, (size_t)(end - p));
        return;
    }
    mint_buf_reserve(b, (size_t)(end - p));
    for (; p < end; p++) {
        if (*p != ' ' && *p != '\t' && *p != '\r')
            b->data[b->len++] = *p;
    }
    b->data[b->len] = '\0';
}

/* "TEXT,TEXT,...," n times, appended. */
static void put_run(struct mint_buf *b, const char *text, size_t len, size_t n)
{
    if (n == 0)
        return;
    size_t one = len + 1, total = one * n;
    mint_buf_reserve(b, total);
    char *p = b->data + b->len;
    memcpy(p, text, len);
    p[len] = ',';
    for (size_t done = one; done < total;) {
        size_t more = MINT_MIN(done, total - done);
        memcpy(p + done, p, more);
        done += more;
    }
    b->len += total;
    b->data[b->len] = '\0';
}

/* b ends in a comma that nothing follows: closes the array over it. */
static void close_array(struct mint_buf *b)
{
    b->data[b->len - 1] = ']';
}

static void put_tail(struct mint_buf *b, const char *dtype, size_t n)
{
    char num[MINT_NUM_MAX];
    mint_buf_adds(b, ",\"dtype\":\"");
    mint_buf_adds(b, dtype);
    mint_buf_adds(b, "\",\"shape\":[");
    mint_buf_add(b, num, (size_t)mint_num_print_int(num, (int64_t)n));
    mint_buf_adds(b, "]}");
}

/* A float tensor of p zeros and then the n values of a run. */
static void put_run_tensor(struct mint_buf *b, const char *key, size_t p, float v, size_t n)
{
    char num[MINT_NUM_MAX];
    mint_buf_adds(b, key);
    put_run(b, "0", 1, p);
    put_run(b, num, (size_t)mint_num_print_float(num, v == 0 ? 0 : v), n);
    close_array(b);
    put_tail(b, "float32", p + n);
}

/* A float tensor of p zeros and then n values, each divided by by. */
static void put_values_tensor(struct mint_buf *b, const char *key, size_t p, const double *v,
                              double by, size_t n)
{
    mint_buf_adds(b, key);
    put_run(b, "0", 1, p);
    for (size_t i = 0, run; i < n; i += run) {
        char num[MINT_NUM_MAX];
        float f = (float)(v[i] / by);
        for (run = 1; i + run < n && v[i + run] == v[i];)
            run++;
        put_run(b, num, (size_t)mint_num_print_float(num, f == 0 ? 0 : f), run);
    }
    close_array(b);
    put_tail(b, "float32", p + n);
}

/* A float tensor of p zeros, then one where a token was sampled and 0 where it was observed. */
static void put_sampled_tensor(struct mint_buf *b, const char *key, size_t p,
                               const struct mint_sequence *s, float one)
{
    char num[MINT_NUM_MAX];
    size_t len = (size_t)mint_num_print_float(num, one);
    mint_buf_adds(b, key);
    put_run(b, "0", 1, p);
    for (size_t i = 0, run; i < s->n; i += run) {
        bool observed = mint_sequence_observed(s, i);
        for (run = 1; i + run < s->n && mint_sequence_observed(s, i + run) == observed;)
            run++;
        put_run(b, observed ? "0" : num, observed ? 1 : len, run);
    }
    close_array(b);
    put_tail(b, "float32", p + s->n);
}

/* The text of an array's inside, with 0 for null. */
static void put_without_nulls(struct mint_buf *b, const struct mint_buf *text)
{
    const char *p = text->data, *end = p + text->len, *null;
    while (p < end && (null = memchr(p, 'n', (size_t)(end - p)))) {
        mint_buf_add(b, p, (size_t)(null - p));
        mint_buf_addc(b, '0');
        p = null + 4;
    }
    mint_buf_add(b, p, (size_t)(end - p));
}

static void put_raw_tensor(struct mint_adv_writer *w, struct mint_buf *b, const char *key, size_t p,
                           struct mint_raw raw, size_t n)
{
    mint_buf_adds(b, key);
    put_run(b, "0", 1, p);
    inside(&w->resp, raw);
    put_without_nulls(b, &w->resp);
    mint_buf_addc(b, ']');
    put_tail(b, "float32", p + n);
}

/* input = all but the last of prompt + response, target_tokens = all but the first. Text of the
 * prompt in w->prompt. */
static void put_tokens(struct mint_adv_writer *w, struct mint_buf *b, const struct mint_sequence *s,
                       size_t n)
{
    const struct mint_buf *p = &w->prompt, *q = &w->resp;
    inside(&w->resp, s->tokens_raw);
    mint_buf_adds(b, "{\"model_input\":{\"chunks\":[{\"type\":\"encoded_text\",\"tokens\":[");
    mint_buf_add(b, p->data, p->len);
    const char *last = memrchr(q->data, ',', q->len);
    if (last) {
        mint_buf_addc(b, ',');
        mint_buf_add(b, q->data, (size_t)(last - q->data));
    }
    mint_buf_adds(b, "]}]},\"loss_fn_inputs\":{\"target_tokens\":{\"data\":[");
    const char *first = memchr(p->data, ',', p->len);
    if (first) {
        mint_buf_add(b, first + 1, p->len - (size_t)(first + 1 - p->data));
        mint_buf_addc(b, ',');
    }
    mint_buf_add(b, q->data, q->len);
    mint_buf_addc(b, ']');
    put_tail(b, "int64", n);
}

static void put_member(struct mint_buf *b, const struct mint_json *j, mint_json_val obj,
                       const char *key)
{
    mint_json_val v = mint_json_get(j, obj, key);
    if (v == MINT_JSON_NONE)
        return;
    size_t n;
    const char *raw = mint_json_raw(j, v, &n);
    mint_buf_adds(b, ",\"");
    mint_buf_adds(b, key);
    mint_buf_adds(b, "\":");
    mint_buf_add(b, raw, n);
}

static void put_number(struct mint_buf *b, const char *key, double v)
{
    mint_buf_addf(b, ",\"%s\":", key);
    mint_json_put_double(b, v);
}

static void put_word(struct mint_buf *b, const char *key, const char *word)
{
    mint_buf_addf(b, ",\"%s\":\"%s\"", key, word);
}

static const char *const length_names[] = {NULL, "sequence", "batch", "max-tokens", "constant"};

/* What all Datums of a run have in common: the rule, so that a file explains itself. */
static void put_rule(struct mint_buf *b, const struct mint_adv_opts *o,
                     const struct mint_adv_batch *batch)
{
    bool reinforce = o->norm == MINT_ADV_REINFORCE || o->norm == MINT_ADV_REINFORCE_BASE;
    put_word(b, "norm", mint_adv_norm_names[o->norm]);
    if (o->like)
        put_word(b, "like", o->like);
    if (reinforce || o->norm == MINT_ADV_STD || o->norm == MINT_ADV_GDPO) {
        put_number(b, "eps", o->eps);
        put_number(b, "ddof", o->ddof);
    }
    if (reinforce)
        put_number(b, "batch_mean", batch->values.mean);
    if (reinforce || o->norm == MINT_ADV_GDPO)
        put_number(b, "batch_std", sqrt(mint_adv_moments_var(&batch->values, o->ddof)));
    for (size_t i = 0; i < o->nscores; i++) {
        mint_buf_adds(b, i ? "," : ",\"score_weights\":{");
        mint_json_put_str(b, o->scores[i].name);
        mint_buf_addc(b, ':');
        mint_json_put_double(b, o->scores[i].weight);
        mint_buf_adds(b, i + 1 == o->nscores ? "}" : "");
    }
    if (o->kl_coef != 0) {
        put_number(b, "kl_penalty_coef", o->kl_coef);
        put_number(b, "kl_discount_factor", o->kl_discount);
        put_word(b, "kl_center", o->kl_centre ? "batch" : "none");
        if (o->kl_centre)
            put_number(b, "kl_mean", batch->kl.mean);
    }
    if (o->teacher_coef != 0)
        put_number(b, "teacher_coef", o->teacher_coef);
    if (o->clip > 0)
        put_number(b, "clip", o->clip);
    if (o->length != MINT_LEN_NONE)
        put_word(b, "length_norm", length_names[o->length]);
}

static void put_meta(struct mint_buf *b, const struct mint_adv_opts *o, const struct mint_reader *r,
                     const struct mint_group *g, size_t i, const struct mint_adv_seq *a)
{
    mint_buf_adds(b, ",\"meta\":{\"id\":");
    mint_buf_add(b, g->id_raw, g->id_raw_n);
    mint_buf_adds(b, ",\"group\":");
    mint_buf_add(b, g->id_raw, g->id_raw_n);
    mint_buf_adds(b, ",\"sample\":");
    mint_json_put_int(b, (int64_t)i);
    if (g->seqs[i].has_reward)
        put_number(b, "reward", g->seqs[i].reward);
    put_member(b, r->doc, g->sampling, "step");
    put_member(b, r->doc, g->sampling, "adapter");
    put_member(b, r->doc, g->sampling, "device");
    put_member(b, r->doc, g->sampling, "precision");
    if (o->sft)
        return;
    if (o->overlong_buffer > 0)
        put_number(b, "penalty", a->penalty == 0 ? 0 : a->penalty);
    if (!o->pairs)
        put_number(b, "advantage", a->advantage == 0 ? 0 : a->advantage);
}

static void put_advantages(struct mint_buf *b, const struct mint_adv_seq *a, size_t p, size_t n,
                           double by)
{
    static const char key[] = ",\"advantages\":{\"data\":[";
    if (a->tokens)
        put_values_tensor(b, key, p, a->tokens, by, n);
    else
        put_run_tensor(b, key, p, (float)(a->advantage / by), n);
}

static void put_weights(struct mint_buf *b, size_t p, const struct mint_sequence *s, float one)
{
    static const char key[] = ",\"weights\":{\"data\":[";
    if (s->observed)
        put_sampled_tensor(b, key, p, s, one);
    else
        put_run_tensor(b, key, p, one, s->n);
}

void mint_advantage_write_pair(struct mint_adv_writer *w, const struct mint_adv_opts *o,
                               const struct mint_reader *r, const struct mint_group *g,
                               const struct mint_adv_seq *seqs, const struct mint_adv_pair *pair,
                               struct mint_buf *b)
{
    size_t p = g->prompt_n - 1;
    inside(&w->prompt, g->prompt_raw);
    for (int side = 0; side < 2; side++) {
        size_t i = side == 0 ? pair->chosen : pair->rejected;
        const struct mint_sequence *s = &g->seqs[i];
        put_tokens(w, b, s, p + s->n);
        put_weights(b, p, s, (float)(1 / seqs[i].divisor));
        if (s->ref_raw.p)
            put_raw_tensor(w, b, ",\"ref_logprobs\":{\"data\":[", p, s->ref_raw, s->n);
        mint_buf_addc(b, '}');
        put_meta(b, o, r, g, i, &seqs[i]);
        put_word(b, "pair", side == 0 ? "chosen" : "rejected");
        put_number(b, "margin", pair->margin);
        put_word(b, "pairs", mint_adv_pairs_names[o->pairs]);
        if (o->min_margin > 0)
            put_number(b, "min_margin", o->min_margin);
        if (o->length != MINT_LEN_NONE) {
            put_number(b, "divisor", seqs[i].divisor);
            put_word(b, "length_norm", length_names[o->length]);
        }
        mint_buf_adds(b, "}}\n");
    }
}

void mint_advantage_write(struct mint_adv_writer *w, const struct mint_adv_opts *o,
                          const struct mint_adv_batch *batch, const struct mint_reader *r,
                          const struct mint_group *g, const struct mint_adv_seq *seqs,
                          struct mint_buf *b)
{
    size_t p = g->prompt_n - 1;
    inside(&w->prompt, g->prompt_raw);
    if (!o->sft && w->rule.len == 0)
        put_rule(&w->rule, o, batch);
    for (size_t i = 0; i < g->nseqs; i++) {
        const struct mint_sequence *s = &g->seqs[i];
        if (seqs[i].fate != MINT_ADV_KEPT)
            continue;
        double by = o->length == MINT_LEN_BATCH ? (double)batch->tokens : seqs[i].divisor;
        put_tokens(w, b, s, p + s->n);
        put_weights(b, p, s, o->sft ? (float)(1 / by) : 1.0f);
        if (!o->sft) {
            if (s->logprobs_raw.p)
                put_raw_tensor(w, b, ",\"logprobs\":{\"data\":[", p, s->logprobs_raw, s->n);
            else
                put_run_tensor(b, ",\"logprobs\":{\"data\":[", p, 0, s->n);
            put_advantages(b, &seqs[i], p, s->n, by);
            if (s->ref_raw.p)
                put_raw_tensor(w, b, ",\"ref_logprobs\":{\"data\":[", p, s->ref_raw, s->n);
        }
        mint_buf_addc(b, '}');
        put_meta(b, o, r, g, i, &seqs[i]);
        if (!o->sft && o->length != MINT_LEN_NONE)
            put_number(b, "divisor", by);
        mint_buf_add(b, w->rule.data, w->rule.len);
        mint_buf_adds(b, "}}\n");
    }
}

void mint_adv_writer_release(struct mint_adv_writer *w)
{
    mint_buf_release(&w->prompt);
    mint_buf_release(&w->resp);
    mint_buf_release(&w->rule);
}

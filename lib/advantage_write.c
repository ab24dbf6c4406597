/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Datums as text. Most of a Datum's bytes are copies: of the prompt's and the response's token ids,
 * of the logprobs, of runs of one number. So they are copied as text, and a run is written once and
 * doubled.
 */
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

static void put_raw_tensor(struct mint_adv_writer *w, struct mint_buf *b, const char *key, size_t p,
                           struct mint_raw raw, size_t n)
{
    mint_buf_adds(b, key);
    put_run(b, "0", 1, p);
    inside(&w->resp, raw);
    mint_buf_add(b, w->resp.data, w->resp.len);
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

static void put_meta(struct mint_buf *b, const struct mint_adv_opts *o, const struct mint_reader *r,
                     const struct mint_group *g, size_t i, const struct mint_adv_seq *a)
{
    static const char *const norms[] = {"mean", "std", "loo", "none"};
    mint_buf_adds(b, ",\"meta\":{\"id\":");
    mint_buf_add(b, g->id_raw, g->id_raw_n);
    mint_buf_adds(b, ",\"group\":");
    mint_buf_add(b, g->id_raw, g->id_raw_n);
    mint_buf_adds(b, ",\"sample\":");
    mint_json_put_int(b, (int64_t)i);
    if (g->seqs[i].has_reward) {
        mint_buf_adds(b, ",\"reward\":");
        mint_json_put_double(b, g->seqs[i].reward);
    }
    put_member(b, r->doc, g->sampling, "step");
    put_member(b, r->doc, g->sampling, "adapter");
    if (o->sft)
        return;
    if (o->overlong_buffer > 0) {
        mint_buf_adds(b, ",\"penalty\":");
        mint_json_put_double(b, a->penalty == 0 ? 0 : a->penalty);
    }
    mint_buf_adds(b, ",\"advantage\":");
    mint_json_put_double(b, a->advantage == 0 ? 0 : a->advantage);
    mint_buf_adds(b, ",\"norm\":\"");
    mint_buf_adds(b, norms[o->norm]);
    mint_buf_addc(b, '"');
}

static double divisor(const struct mint_adv_opts *o, size_t n, uint64_t batch_tokens)
{
    switch (o->length) {
    case MINT_LEN_SEQUENCE:
        return (double)n;
    case MINT_LEN_BATCH:
        return (double)batch_tokens;
    case MINT_LEN_CONST:
        return o->length_const;
    case MINT_LEN_NONE:
        break;
    }
    return 1;
}

void mint_advantage_write(struct mint_adv_writer *w, const struct mint_adv_opts *o,
                          const struct mint_reader *r, const struct mint_group *g,
                          const struct mint_adv_seq *seqs, uint64_t batch_tokens,
                          struct mint_buf *b)
{
    size_t p = g->prompt_n - 1;
    inside(&w->prompt, g->prompt_raw);
    for (size_t i = 0; i < g->nseqs; i++) {
        const struct mint_sequence *s = &g->seqs[i];
        if (seqs[i].fate != MINT_ADV_KEPT)
            continue;
        double by = divisor(o, s->n, batch_tokens);
        put_tokens(w, b, s, p + s->n);
        put_run_tensor(b, ",\"weights\":{\"data\":[", p, o->sft ? (float)(1 / by) : 1.0f, s->n);
        if (!o->sft) {
            if (s->logprobs_raw.p)
                put_raw_tensor(w, b, ",\"logprobs\":{\"data\":[", p, s->logprobs_raw, s->n);
            else
                put_run_tensor(b, ",\"logprobs\":{\"data\":[", p, 0, s->n);
            put_run_tensor(b, ",\"advantages\":{\"data\":[", p, (float)(seqs[i].advantage / by),
                           s->n);
            if (s->ref_raw.p)
                put_raw_tensor(w, b, ",\"ref_logprobs\":{\"data\":[", p, s->ref_raw, s->n);
        }
        mint_buf_addc(b, '}');
        put_meta(b, o, r, g, i, &seqs[i]);
        mint_buf_adds(b, "}}\n");
    }
}

void mint_adv_writer_release(struct mint_adv_writer *w)
{
    mint_buf_release(&w->prompt);
    mint_buf_release(&w->resp);
}

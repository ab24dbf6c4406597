/* SPDX-License-Identifier: Apache-2.0 */
#include "rollout.h"

#include <stdlib.h>
#include <string.h>

#include "mem.h"

int mint_rollout_check(const struct mint_json *doc, bool own_prompt_tokens, struct mint_err *err)
{
    static const char *const reserved[] = {"sequences", "sampling", "prompt_tokens"};
    for (size_t i = 0; i < MINT_ARRAY_LEN(reserved); i++) {
        mint_json_val v = mint_json_get(doc, 0, reserved[i]);
        if (v == MINT_JSON_NONE || (own_prompt_tokens && i == 2))
            continue;
        return mint_json_fail(doc, v, err,
                              "is a name that only mint-sample writes; rename the field (rollout "
                              "files are read with --replay)");
    }
    return 0;
}

void mint_rollout_begin(struct mint_buf *b, const struct mint_json *doc, const char *line,
                        size_t len, const char *id, size_t id_n, const struct mint_buf *prompt,
                        const int32_t *prompt_tokens, size_t prompt_n)
{
    const char *open = memchr(line, '{', len), *close = memrchr(line, '}', len);
    bool members = mint_json_size(doc, 0) > 0;
    mint_buf_addc(b, '{');
    if (mint_json_get(doc, 0, "id") == MINT_JSON_NONE) {
        mint_buf_adds(b, "\"id\":");
        mint_json_put_string(b, id, id_n);
        mint_buf_adds(b, members ? "," : "");
    }
    mint_buf_add(b, open + 1, (size_t)(close - open - 1));
    if (mint_json_get(doc, 0, "prompt") == MINT_JSON_NONE) {
        mint_buf_adds(b, ",\"prompt\":");
        mint_json_put_string(b, prompt->data ? prompt->data : "", prompt->len);
    }
    if (mint_json_get(doc, 0, "prompt_tokens") == MINT_JSON_NONE) {
        mint_buf_adds(b, ",\"prompt_tokens\":");
        mint_json_put_ints(b, prompt_tokens, prompt_n);
    }
    mint_buf_adds(b, ",\"sequences\":[");
}

void mint_rollout_sequence(struct mint_buf *b, bool first, const int32_t *tokens,
                           const float *logprobs, size_t n, bool stop, const char *text,
                           size_t text_n)
{
    mint_buf_adds(b, first ? "{\"tokens\":" : ",{\"tokens\":");
    mint_json_put_ints(b, tokens, n);
    mint_buf_adds(b, ",\"logprobs\":");
    if (logprobs)
        mint_json_put_floats(b, logprobs, n);
    else
        mint_buf_adds(b, "null");
    mint_buf_adds(b, stop ? ",\"stop_reason\":\"stop\",\"text\":"
                          : ",\"stop_reason\":\"length\",\"text\":");
    mint_json_put_string(b, text, text_n);
    mint_buf_addc(b, '}');
}

void mint_rollout_reward(struct mint_buf *b, const char *score, double reward)
{
    b->len--; /* its "}" */
    mint_buf_adds(b, ",\"reward\":");
    mint_json_put_double(b, reward);
    mint_buf_adds(b, ",\"scores\":{");
    mint_json_put_str(b, score);
    mint_buf_addc(b, ':');
    mint_json_put_double(b, reward);
    mint_buf_adds(b, "}}");
}

static void put_text(struct mint_buf *b, const char *key, const char *value)
{
    mint_buf_addf(b, "\"%s\":", key);
    if (value)
        mint_json_put_str(b, value);
    else
        mint_buf_adds(b, "null");
}

void mint_rollout_end(struct mint_buf *b, const struct mint_sampling_info *s)
{
    mint_buf_addc(b, ']');
    if (s) {
        mint_buf_adds(b, ",\"sampling\":{");
        put_text(b, "model", s->model);
        mint_buf_addc(b, ',');
        put_text(b, "adapter", s->adapter);
        mint_buf_addf(b, ",\"step\":%lld,\"seed\":%llu,\"temperature\":", (long long)s->step,
                      (unsigned long long)s->seed);
        mint_json_put_double(b, s->temperature);
        mint_buf_adds(b, ",\"top_p\":");
        mint_json_put_double(b, s->top_p);
        mint_buf_addf(b, ",\"top_k\":%lld,\"max_tokens\":%lld,", (long long)s->top_k,
                      (long long)s->max_tokens);
        put_text(b, "logprobs", s->logprobs);
        mint_buf_addc(b, ',');
        put_text(b, "device", s->device);
        mint_buf_addc(b, ',');
        put_text(b, "precision", s->precision);
        mint_buf_addc(b, '}');
    }
    mint_buf_adds(b, "}\n");
}

void mint_splice_member(struct mint_splices *s, const struct mint_json *doc, mint_json_val obj,
                        const char *key, char *text_take)
{
    mint_json_val v = mint_json_get(doc, obj, key);
    size_t n;
    struct mint_splice p = {.text = text_take};
    if (v != MINT_JSON_NONE) {
        p.at = mint_json_raw(doc, v, &p.n);
    } else {
        struct mint_buf b = MINT_BUF_INIT;
        const char *raw = mint_json_raw(doc, obj, &n);
        p.at = raw + n - 1; /* before the brace */
        mint_buf_addf(&b, "%s\"%s\":%s", mint_json_size(doc, obj) ? "," : "", key, text_take);
        free(text_take);
        p.text = mint_buf_detach(&b);
    }
    if (s->n == s->cap) {
        s->cap = s->cap ? 2 * s->cap : 16;
        s->v = mint_xreallocarray(s->v, s->cap, sizeof *s->v);
    }
    s->v[s->n++] = p;
}

/* Stable: several additions to one object stand at the same place and stay in their order. */
static void sort_by_place(struct mint_splices *s)
{
    for (size_t i = 1; i < s->n; i++) {
        struct mint_splice p = s->v[i];
        size_t j = i;
        for (; j > 0 && s->v[j - 1].at > p.at; j--)
            s->v[j] = s->v[j - 1];
        s->v[j] = p;
    }
}

void mint_splice_apply(struct mint_splices *s, const char *line, size_t len, struct mint_buf *out)
{
    const char *at = line;
    sort_by_place(s);
    for (size_t i = 0; i < s->n; i++) {
        mint_buf_add(out, at, (size_t)(s->v[i].at - at));
        mint_buf_adds(out, s->v[i].text);
        at = s->v[i].at + s->v[i].n;
        free(s->v[i].text);
    }
    mint_buf_add(out, at, (size_t)(line + len - at));
    s->n = 0;
}

void mint_splice_release(struct mint_splices *s)
{
    for (size_t i = 0; i < s->n; i++)
        free(s->v[i].text);
    free(s->v);
    *s = (struct mint_splices){0};
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A judge behind a URL: OpenAI's chat completions, as many servers speak them. Its key goes into
 * the header of a request and nowhere else: what the server says is cleared of it.
 */
#include <stdlib.h>
#include <string.h>

#include "http.h"
#include "mem.h"
#include "score_judge.h"

enum { SAID_MAX = 200 /* bytes of a server's own words in a reason */ };

struct server {
    struct mint_http *http;
    char *url, *model;
    const char *key; /* the environment's; NULL: none */
    int64_t max_tokens;
    bool answered; /* once at least */
    struct mint_json *doc;
    const struct mint_judge_calls *calls;
    struct mint_http_post *posts; /* as many as may be under way; user NULL: free */
    int64_t nposts;
};

static void close_server(void *state)
{
    struct server *s = state;
    if (!s)
        return;
    mint_http_close(s->http);
    for (int64_t i = 0; i < s->nposts; i++) {
        mint_buf_release(&s->posts[i].body);
        mint_buf_release(&s->posts[i].reply);
    }
    free(s->posts);
    mint_json_free(s->doc);
    free(s->url);
    free(s->model);
    free(s);
}

/* URL, URL/v1 and the whole address all name the same place; a query stays behind it. */
static char *whole_url(const char *url)
{
    static const char end[] = "/chat/completions";
    size_t n = strcspn(url, "?#"), e = sizeof(end) - 1;
    const char *query = url + n;
    if (n >= e && !memcmp(url + n - e, end, e))
        return mint_xstrdup(url);
    while (n && url[n - 1] == '/')
        n--;
    bool v1 = n >= 3 && !memcmp(url + n - 3, "/v1", 3);
    return mint_xasprintf("%.*s%s%s%s", (int)n, url, v1 ? "" : "/v1", end, query);
}

static int open_server(const struct mint_judge_opts *o, void **state, struct mint_err *err)
{
    const char *key = o->key_env ? getenv(o->key_env) : NULL;
    if (o->key_env && (!key || !*key))
        return mint_fail(err, MINT_EUSAGE, "--judge-key-env: the environment has no %.100s",
                         o->key_env);
    struct server *s = mint_xcalloc(1, sizeof(*s));
    s->url = whole_url(o->url);
    s->model = o->model ? mint_xstrdup(o->model) : NULL;
    s->key = key;
    s->max_tokens = o->max_tokens;
    s->doc = mint_json_new();
    s->nposts = o->jobs;
    s->posts = mint_xcalloc((size_t)o->jobs, sizeof(*s->posts));
    struct mint_http_opts h = {
        .url = s->url, .key = key, .timeout = o->timeout, .retries = o->retries, .jobs = o->jobs};
    if (mint_http_open(&s->http, &h, err) < 0) {
        close_server(s);
        return -1;
    }
    *state = s;
    return 0;
}

static void put_body(const struct server *s, const struct mint_judge_question *q,
                     struct mint_buf *b)
{
    mint_buf_addc(b, '{');
    if (s->model) {
        mint_buf_adds(b, "\"model\":");
        mint_json_put_str(b, s->model);
        mint_buf_addc(b, ',');
    }
    mint_buf_adds(b, "\"messages\":[{\"role\":\"user\",\"content\":");
    mint_json_put_string(b, q->text, q->text_n);
    mint_buf_adds(b, "}],\"temperature\":0,\"seed\":0,\"max_tokens\":");
    mint_json_put_int(b, s->max_tokens);
    mint_buf_addc(b, '}');
}

static int next_post(void *ctx, struct mint_http_post **out, struct mint_err *err)
{
    struct server *s = ctx;
    struct mint_judge_question *q;
    int rc = s->calls->next(s->calls->ctx, true, &q, err);
    if (rc != 1)
        return rc;
    struct mint_http_post *p = s->posts;
    while (p->user)
        p++;
    p->user = q;
    mint_buf_reset(&p->body);
    put_body(s, q, &p->body);
    *out = p;
    return 1;
}

/* Strikes the key out, where a server repeats it. One of a few bytes is no secret, and would strike
 * out words. */
static void hide_key(const struct server *s, struct mint_buf *b)
{
    enum { SECRET_MIN = 6 };
    size_t n = s->key ? strlen(s->key) : 0;
    if (n < SECRET_MIN)
        return;
    for (char *at = b->data; at && (at = memmem(at, b->len - (size_t)(at - b->data), s->key, n));)
        memset(at, '*', n);
}

/* The server's own message, or the start of what it sent. */
static void put_said(struct server *s, const struct mint_http_post *p, struct mint_buf *b)
{
    struct mint_buf said = MINT_BUF_INIT;
    const struct mint_json *j = s->doc;
    if (p->reply.len && mint_json_parse(s->doc, p->reply.data, p->reply.len, NULL) == 0) {
        mint_json_val e = mint_json_get(j, 0, "error");
        if (!mint_json_string(j, e, &said))
            (void)(mint_json_string(j, mint_json_get(j, e, "message"), &said) ||
                   mint_json_string(j, mint_json_get(j, 0, "message"), &said) ||
                   mint_json_string(j, mint_json_get(j, 0, "detail"), &said));
    }
    if (!said.len)
        mint_buf_add(&said, p->reply.data, p->reply.len);
    hide_key(s, &said); /* before it is cut */
    size_t n = MINT_MIN(said.len, (size_t)SAID_MAX);
    while (n && n < said.len && ((unsigned char)said.data[n] & 0xc0) == 0x80)
        n--;
    if (n) {
        mint_buf_adds(b, ": ");
        mint_buf_add(b, said.data, n);
    }
    mint_buf_release(&said);
}

/* choices[0].message.content; false: the reply has none. */
static bool take_reply(struct server *s, const struct mint_http_post *p,
                       struct mint_judge_question *q)
{
    const struct mint_json *j = s->doc;
    struct mint_err why = {0};
    if (mint_json_parse(s->doc, p->reply.data ? p->reply.data : "", p->reply.len, &why) < 0) {
        mint_buf_addf(&q->reply, "the judge's answer is no JSON: %s", why.msg);
        return false;
    }
    mint_json_val choice = mint_json_first(j, mint_json_get(j, 0, "choices"));
    mint_json_val message = mint_json_get(j, choice, "message");
    mint_buf_reserve(&q->reply, 0);
    if (!mint_json_string(j, mint_json_get(j, message, "content"), &q->reply)) {
        mint_buf_reset(&q->reply);
        mint_buf_adds(&q->reply, "the judge's answer has no choices[0].message.content");
        return false;
    }
    char *reason = mint_json_strdup(j, mint_json_get(j, choice, "finish_reason"));
    q->cut = reason && !strcmp(reason, "length");
    free(reason);
    return true;
}

/* Why there is no reply: what the server or the network said. */
static void put_reason(struct server *s, const struct mint_http_post *p, struct mint_buf *b)
{
    if (!p->status) {
        mint_buf_addf(b, "the judge cannot be asked: %s", p->why);
        return;
    }
    mint_buf_addf(b, "the judge answers with HTTP status %ld", p->status);
    if (p->status / 100 == 3 && *p->why)
        mint_buf_addf(b, ": it points to %s", p->why);
    else
        put_said(s, p, b);
}

/* What to do about a server that refuses everybody; NULL: it may well answer others. */
static const char *remedy(const struct mint_http_post *p)
{
    if (p->hopeless)
        return "";
    if (p->status == 401 || p->status == 403)
        return "; a key is taken from --judge-key-env";
    if (p->status / 100 == 3)
        return "; redirects are not followed: give --judge-url the address where the judge is";
    return p->status == 404 ? "" : NULL;
}

static int done_post(void *ctx, struct mint_http_post *p, struct mint_err *err)
{
    struct server *s = ctx;
    struct mint_judge_question *q = p->user;
    p->user = NULL;
    if (p->status == 200) {
        s->answered = true;
        q->failed = !take_reply(s, p, q);
    } else {
        put_reason(s, p, &q->reply);
        q->failed = true;
    }
    if (q->failed && p->tries > 1)
        mint_buf_addf(&q->reply, " (%lld tries)", (long long)p->tries);
    hide_key(s, &q->reply);
    const char *what_to_do = s->answered ? NULL : remedy(p);
    if (what_to_do)
        return mint_fail(err, MINT_EIO, "%.*s: %s%s", (int)strcspn(s->url, "?#"), s->url,
                         q->reply.data, what_to_do);
    return s->calls->done(s->calls->ctx, q, err);
}

static int run_server(void *state, const struct mint_judge_calls *calls, struct mint_err *err)
{
    struct server *s = state;
    struct mint_http_calls http = {next_post, done_post, s};
    s->calls = calls;
    return mint_http_run(s->http, &http, err);
}

const struct mint_judge_backend mint_judge_server = {open_server, run_server, close_server};

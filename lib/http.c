/* SPDX-License-Identifier: Apache-2.0 */
#include "http.h"

#if __has_include(<curl/curl.h>)

#include <curl/curl.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "mem.h"
#include "rng.h"

static const double first_wait = 0.5, longest_wait = 30, longest_retry_after = 120;

/* What is used of libcurl. */
struct curl_api {
    CURLcode (*global_init)(long flags);
    CURL *(*easy_init)(void);
    CURLcode (*easy_setopt)(CURL *, CURLoption, ...);
    CURLcode (*easy_getinfo)(CURL *, CURLINFO, ...);
    void (*easy_cleanup)(CURL *);
    const char *(*easy_strerror)(CURLcode);
    CURLM *(*multi_init)(void);
    CURLMcode (*multi_add)(CURLM *, CURL *);
    CURLMcode (*multi_remove)(CURLM *, CURL *);
    CURLMcode (*multi_perform)(CURLM *, int *);
    CURLMcode (*multi_poll)(CURLM *, struct curl_waitfd *, unsigned, int, int *);
    CURLMsg *(*multi_info_read)(CURLM *, int *);
    CURLMcode (*multi_cleanup)(CURLM *);
    struct curl_slist *(*slist_append)(struct curl_slist *, const char *);
    void (*slist_free)(struct curl_slist *);
};

static const struct {
    const char *name;
    size_t at;
} symbols[] = {
    {"curl_global_init", offsetof(struct curl_api, global_init)},
    {"curl_easy_init", offsetof(struct curl_api, easy_init)},
    {"curl_easy_setopt", offsetof(struct curl_api, easy_setopt)},
    {"curl_easy_getinfo", offsetof(struct curl_api, easy_getinfo)},
    {"curl_easy_cleanup", offsetof(struct curl_api, easy_cleanup)},
    {"curl_easy_strerror", offsetof(struct curl_api, easy_strerror)},
    {"curl_multi_init", offsetof(struct curl_api, multi_init)},
    {"curl_multi_add_handle", offsetof(struct curl_api, multi_add)},
    {"curl_multi_remove_handle", offsetof(struct curl_api, multi_remove)},
    {"curl_multi_perform", offsetof(struct curl_api, multi_perform)},
    {"curl_multi_poll", offsetof(struct curl_api, multi_poll)},
    {"curl_multi_info_read", offsetof(struct curl_api, multi_info_read)},
    {"curl_multi_cleanup", offsetof(struct curl_api, multi_cleanup)},
    {"curl_slist_append", offsetof(struct curl_api, slist_append)},
    {"curl_slist_free_all", offsetof(struct curl_api, slist_free)},
};

/* A place for one request: free, under way, or waiting for its next try. */
struct lane {
    struct mint_http *h;
    CURL *easy;
    struct mint_http_post *post; /* NULL: free */
    bool waits;
    double again; /* when, while it waits */
    char said[CURL_ERROR_SIZE];
};

struct mint_http {
    struct curl_api api;
    struct mint_http_opts o;
    CURLM *multi;
    struct curl_slist *headers;
    struct lane *lanes;
    uint64_t posts; /* so far: varies the waiting */
    bool away;      /* nobody listened to the last request that was given up */
};

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static int load(struct curl_api *api, struct mint_err *err)
{
    void *lib = dlopen("libcurl.so.4", RTLD_NOW | RTLD_NODELETE);
    if (!lib)
        return mint_fail(err, MINT_EIO,
                         "asking a server needs libcurl, which cannot be opened (%s): install the "
                         "package libcurl4",
                         dlerror());
    for (size_t i = 0; i < MINT_ARRAY_LEN(symbols); i++) {
        void *f = dlsym(lib, symbols[i].name);
        if (!f)
            return mint_fail(err, MINT_EIO, "libcurl has no %s: it is too old", symbols[i].name);
        memcpy((char *)api + symbols[i].at, &f, sizeof(f));
    }
    if (api->global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK)
        return mint_fail(err, MINT_EIO, "libcurl does not start");
    return 0;
}

static int check(const struct mint_http_opts *o, struct mint_err *err)
{
    const char *host = strstr(o->url, "://");
    size_t scheme = host ? (size_t)(host - o->url) : 0;
    if (!(scheme == 4 && !strncmp(o->url, "http", 4)) &&
        !(scheme == 5 && !strncmp(o->url, "https", 5)))
        return mint_fail(err, MINT_EUSAGE, "the URL %.*s does not begin with http:// or https://",
                         (int)strcspn(o->url, "?#"), o->url);
    host += 3;
    size_t n = strcspn(host, "/?#");
    if (!n || memchr(host, '@', n))
        return mint_fail(err, MINT_EUSAGE,
                         n ? "the URL holds a user or a password, which others may see: a key goes "
                             "into an environment variable"
                           : "the URL names no server");
    for (const char *p = o->url; *p; p++) {
        if ((unsigned char)*p <= ' ' || *p == 127)
            return mint_fail(err, MINT_EUSAGE, "the URL holds a blank or a control character");
    }
    for (const char *p = o->key; p && *p; p++) {
        if ((unsigned char)*p < ' ' || *p == 127)
            return mint_fail(err, MINT_EUSAGE, "the key holds a control character");
    }
    return 0;
}

static size_t receive(char *data, size_t size, size_t n, void *arg)
{
    struct lane *l = arg;
    if (l->post->reply.len + size * n > MINT_HTTP_REPLY_MAX)
        return 0; /* ends the transfer */
    mint_buf_add(&l->post->reply, data, size * n);
    return size * n;
}

static const char *variable(const char *name)
{
    const char *value = getenv(name);
    return value && *value ? value : NULL;
}

/* Whom to trust in place of the system's authorities, by the variables that curl(1) reads. */
static long set_trust(const struct curl_api *a, CURL *easy)
{
    const char *file = variable("CURL_CA_BUNDLE"), *dir = NULL;
    if (!file) {
        file = variable("SSL_CERT_FILE");
        dir = variable("SSL_CERT_DIR");
    }
    long bad = file ? (long)a->easy_setopt(easy, CURLOPT_CAINFO, file) : 0;
    return bad | (dir ? (long)a->easy_setopt(easy, CURLOPT_CAPATH, dir) : 0);
}

/* All but the body, which differs. */
static int make_lane(struct mint_http *h, struct lane *l)
{
    const struct curl_api *a = &h->api;
    l->h = h;
    l->easy = a->easy_init();
    if (!l->easy)
        return -1;
    long bad = set_trust(a, l->easy);
    bad |= (long)a->easy_setopt(l->easy, CURLOPT_URL, h->o.url);
    bad |= (long)a->easy_setopt(l->easy, CURLOPT_HTTPHEADER, h->headers);
    bad |= (long)a->easy_setopt(l->easy, CURLOPT_POST, 1L);
    bad |= (long)a->easy_setopt(l->easy, CURLOPT_WRITEFUNCTION, receive);
    bad |= (long)a->easy_setopt(l->easy, CURLOPT_WRITEDATA, l);
    bad |= (long)a->easy_setopt(l->easy, CURLOPT_PRIVATE, l);
    bad |= (long)a->easy_setopt(l->easy, CURLOPT_ERRORBUFFER, l->said);
    bad |= (long)a->easy_setopt(l->easy, CURLOPT_NOSIGNAL, 1L);
    bad |= (long)a->easy_setopt(l->easy, CURLOPT_FOLLOWLOCATION, 0L);
    bad |= (long)a->easy_setopt(l->easy, CURLOPT_USERAGENT, "mint-tools");
    bad |= (long)a->easy_setopt(l->easy, CURLOPT_TIMEOUT_MS, (long)(h->o.timeout * 1000));
    return bad ? -1 : 0;
}

int mint_http_open(struct mint_http **out, const struct mint_http_opts *o, struct mint_err *err)
{
    if (check(o, err) < 0)
        return -1;
    struct mint_http *h = mint_xcalloc(1, sizeof(*h));
    h->o = *o;
    h->lanes = mint_xcalloc((size_t)o->jobs, sizeof(*h->lanes));
    if (load(&h->api, err) < 0) {
        free(h->lanes);
        free(h);
        return -1;
    }
    const struct curl_api *a = &h->api;
    h->multi = a->multi_init();
    h->headers = a->slist_append(NULL, "Content-Type: application/json");
    h->headers = a->slist_append(h->headers, "Expect:"); /* send the body at once */
    if (o->key) {
        char *key = mint_xasprintf("Authorization: Bearer %s", o->key);
        h->headers = a->slist_append(h->headers, key);
        free(key);
    }
    for (int64_t i = 0; i < o->jobs; i++) {
        if (!h->multi || make_lane(h, &h->lanes[i]) < 0) {
            mint_http_close(h);
            return mint_fail(err, MINT_EIO, "libcurl does not take its options");
        }
    }
    *out = h;
    return 0;
}

void mint_http_close(struct mint_http *h)
{
    if (!h)
        return;
    for (int64_t i = 0; i < h->o.jobs; i++) {
        struct lane *l = &h->lanes[i];
        if (!l->easy)
            continue;
        if (l->post && !l->waits)
            h->api.multi_remove(h->multi, l->easy);
        h->api.easy_cleanup(l->easy);
    }
    h->api.slist_free(h->headers);
    if (h->multi)
        h->api.multi_cleanup(h->multi);
    free(h->lanes);
    free(h);
}

/* --- one request */

static int start(struct lane *l, struct mint_err *err)
{
    const struct curl_api *a = &l->h->api;
    struct mint_http_post *p = l->post;
    mint_buf_reset(&p->reply);
    p->status = 0;
    p->tries++;
    l->waits = false;
    l->said[0] = '\0';
    long bad = (long)a->easy_setopt(l->easy, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)p->body.len);
    bad |= (long)a->easy_setopt(l->easy, CURLOPT_POSTFIELDS, p->body.data);
    bad |= (long)a->multi_add(l->h->multi, l->easy);
    return bad ? mint_fail(err, MINT_EIO, "libcurl does not take a request") : 0;
}

static bool is_in(long v, const long *list)
{
    while (*list && *list != v)
        list++;
    return *list;
}

/* Nothing of the network, and the same for each request. */
static bool hopeless(CURLcode code)
{
    static const long list[] = {CURLE_PEER_FAILED_VERIFICATION, CURLE_SSL_CACERT_BADFILE,
                                CURLE_UNSUPPORTED_PROTOCOL, CURLE_URL_MALFORMAT, 0};
    return is_in((long)code, list);
}

static bool may_get_better(CURLcode code, long status)
{
    static const long list[] = {408, 425, 429, 500, 502, 503, 504, 529, 0};
    return code == CURLE_OK ? is_in(status, list) : code != CURLE_WRITE_ERROR && !hopeless(code);
}

/* Words for a try without an answer: curl's general ones, without times and ports, so that they are
 * the same each time; but what is wrong with a certificate is in its particular ones only. For a
 * redirect, where it points. */
static void say_why(struct lane *l, CURLcode code)
{
    const char *what = l->h->api.easy_strerror(code), *more = "";
    char *url = NULL;
    if (code == CURLE_OK)
        what = l->h->api.easy_getinfo(l->easy, CURLINFO_REDIRECT_URL, &url) || !url ? "" : url;
    else if (code == CURLE_WRITE_ERROR)
        what = "the reply is too long";
    else if (hopeless(code) && *l->said)
        what = l->said;
    if (code == CURLE_PEER_FAILED_VERIFICATION)
        more = "; CURL_CA_BUNDLE=FILE names authorities of your own";
    size_t n = code == CURLE_OK ? strcspn(what, "?#") : strlen(what); /* a query may hold secrets */
    snprintf(l->post->why, sizeof(l->post->why), "%.*s%s", (int)MINT_MIN(n, (size_t)180), what,
             more);
}

static double wait_before(const struct lane *l)
{
    curl_off_t said = 0;
    if (l->post->status &&
        l->h->api.easy_getinfo(l->easy, CURLINFO_RETRY_AFTER, &said) == CURLE_OK && said > 0)
        return MINT_MIN((double)said, longest_retry_after);
    double wait = first_wait;
    for (int64_t i = 1; i < l->post->tries && wait < longest_wait; i++)
        wait *= 2;
    float u = mint_rng_uniform(0, l->h->posts, 0, (uint32_t)l->post->tries);
    return MINT_MIN(wait, longest_wait) * (0.75 + 0.25 * (double)u);
}

/* A try has ended: done, or set aside for another one. */
static int end_try(struct lane *l, CURLcode code, const struct mint_http_calls *calls,
                   struct mint_err *err)
{
    struct mint_http *h = l->h;
    struct mint_http_post *p = l->post;
    h->api.multi_remove(h->multi, l->easy);
    bool deaf = code == CURLE_COULDNT_CONNECT || code == CURLE_COULDNT_RESOLVE_HOST ||
                code == CURLE_SSL_CONNECT_ERROR;
    if (code == CURLE_OK)
        h->api.easy_getinfo(l->easy, CURLINFO_RESPONSE_CODE, &p->status);
    p->hopeless = hopeless(code);
    say_why(l, code);
    /* While nobody listens, each request but the first gets one try: a dead server must not cost
     * the whole waiting for every request. */
    if (may_get_better(code, p->status) && p->tries <= h->o.retries && !(deaf && h->away)) {
        l->waits = true;
        l->again = now() + wait_before(l);
        return 0;
    }
    h->away = deaf;
    l->post = NULL;
    return calls->done(calls->ctx, p, err);
}

/* --- all of them */

/* Starts what can be started. *ended: next has no more. */
static int fill(struct mint_http *h, const struct mint_http_calls *calls, bool *ended,
                struct mint_err *err)
{
    for (int64_t i = 0; i < h->o.jobs; i++) {
        struct lane *l = &h->lanes[i];
        if (l->post) {
            if (l->waits && l->again <= now())
                MINT_TRY(start(l, err));
            continue;
        }
        if (*ended)
            continue;
        int rc = calls->next(calls->ctx, &l->post, err);
        if (rc != 1)
            l->post = NULL;
        if (rc < 0)
            return -1;
        if (rc == 2)
            break;
        *ended = rc == 0;
        if (rc == 1) {
            h->posts++;
            l->post->tries = 0;
            MINT_TRY(start(l, err));
        }
    }
    return 0;
}

/* Milliseconds until the next try is due; -1: nothing is under way. */
static int pause_ms(const struct mint_http *h)
{
    double least = 1, t = now();
    bool any = false;
    for (int64_t i = 0; i < h->o.jobs; i++) {
        const struct lane *l = &h->lanes[i];
        any |= l->post != NULL;
        if (l->post && l->waits)
            least = MINT_MIN(least, l->again - t);
    }
    return any ? (int)(MINT_MAX(least, 0) * 1000) + 1 : -1;
}

int mint_http_run(struct mint_http *h, const struct mint_http_calls *calls, struct mint_err *err)
{
    bool ended = false;
    for (;;) {
        int running, left, ms;
        CURLMsg *msg;
        MINT_TRY(fill(h, calls, &ended, err));
        if ((ms = pause_ms(h)) < 0)
            return 0;
        if (h->api.multi_perform(h->multi, &running) != CURLM_OK)
            return mint_fail(err, MINT_EIO, "libcurl cannot go on");
        bool some = false;
        while ((msg = h->api.multi_info_read(h->multi, &left))) {
            struct lane *l = NULL;
            CURLcode code = msg->data.result;
            h->api.easy_getinfo(msg->easy_handle, CURLINFO_PRIVATE, &l);
            MINT_TRY(end_try(l, code, calls, err));
            some = true;
        }
        if (!some)
            h->api.multi_poll(h->multi, NULL, 0, ms, NULL);
    }
}

#else /* no curl/curl.h */

struct mint_http {
    char none;
};

int mint_http_open(struct mint_http **h, const struct mint_http_opts *o, struct mint_err *err)
{
    (void)h, (void)o;
    return mint_fail(err, MINT_EIO,
                     "this build cannot ask a server: install the package libcurl4-openssl-dev and "
                     "build again");
}

void mint_http_close(struct mint_http *h)
{
    (void)h;
}

int mint_http_run(struct mint_http *h, const struct mint_http_calls *calls, struct mint_err *err)
{
    (void)h, (void)calls;
    return mint_fail(err, MINT_EIO, "this build cannot ask a server");
}

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * http.h: POST requests to one URL, several under way at a time, over libcurl.
 *
 * libcurl and the thirty libraries behind it are opened when the first client is, not when a
 * program starts; where it is missing, or was missing at build time, mint_http_open says so.
 * What may get better by itself is tried again: no connection, a broken one, a timeout, and the
 * statuses 408, 425, 429, 500, 502, 503, 504, 529. Between tries a request waits for 0.5 s, 1 s,
 * 2 s... (at most 30 s, and a varying part of that, so that many do not come back at once), or as
 * long as the server's Retry-After says (at most 120 s). Redirects are not followed: a key goes to
 * nobody but the server that was named. Certificates are checked, and one that is not trusted is no
 * matter of patience. As with curl(1), CURL_CA_BUNDLE, else SSL_CERT_FILE and SSL_CERT_DIR, name
 * other authorities than the system's, and http_proxy, https_proxy, all_proxy and no_proxy count. A
 * client belongs to one thread.
 */
#ifndef MINT_HTTP_H
#define MINT_HTTP_H

#include "base.h"
#include "buf.h"
#include "err.h"

#define MINT_HTTP_REPLY_MAX (4 << 20) /* bytes of one reply */

struct mint_http_opts {
    const char *url; /* http:// or https://, without user and password */
    const char *key; /* sent as "Authorization: Bearer KEY"; NULL: none */
    double timeout;  /* seconds of one try */
    int64_t retries; /* tries beyond the first */
    int64_t jobs;    /* requests under way at a time, waiting ones too */
};

struct mint_http_post {
    struct mint_buf body; /* JSON; the caller's */
    void *user;

    /* filled: */
    long status;           /* of the last try; 0: it got no answer */
    struct mint_buf reply; /* of the last try */
    int64_t tries;
    bool hopeless; /* no answer, and none to any other request: the certificate, the URL */
    char why[256]; /* status 0: in words; 3xx: the URL that it points to */
};

struct mint_http_calls {
    /* 1: *p is the next request (the caller's, alive until done); 2: none at present, ask again
     * after the next done; 0: no more; -1. */
    int (*next)(void *ctx, struct mint_http_post **p, struct mint_err *err);
    /* The request has its answer, or is given up. In the order in which they end. */
    int (*done)(void *ctx, struct mint_http_post *p, struct mint_err *err);
    void *ctx;
};

struct mint_http;
int mint_http_open(struct mint_http **h, const struct mint_http_opts *o, struct mint_err *err);
void mint_http_close(struct mint_http *h); /* NULL is fine */
int mint_http_run(struct mint_http *h, const struct mint_http_calls *calls, struct mint_err *err);

#endif

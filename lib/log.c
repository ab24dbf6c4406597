/* SPDX-License-Identifier: Apache-2.0 */
#include "log.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#include "buf.h"

#define ERASE  "\r\033[K"
#define RED    "\033[1;31m"
#define YELLOW "\033[1;33m"
#define PLAIN  "\033[0m"

/* The one mutable state of the library besides the list of temporaries (fs.c). */
static struct {
    pthread_mutex_t mutex;
    const char *tool;
    int level;
    enum mint_progress_mode progress;
    bool tty;        /* stderr is a terminal that understands escapes */
    bool colour;     /* and the user did not say no */
    bool line_drawn; /* a progress line stands there: erase it before a message */
} state = {.mutex = PTHREAD_MUTEX_INITIALIZER, .tool = "mint"};

static bool env_is(const char *name, const char *value)
{
    const char *v = getenv(name);
    return v && strcmp(v, value) == 0;
}

static bool stderr_is_terminal(void)
{
    if (env_is("MINT_TEST_TTY", "1"))
        return true;
    return isatty(STDERR_FILENO) && !env_is("TERM", "dumb");
}

void mint_log_setup(const char *tool, int level, enum mint_progress_mode progress)
{
    const char *no_color = getenv("NO_COLOR");
    pthread_mutex_lock(&state.mutex);
    state.tool = tool;
    state.level = level;
    state.progress = progress;
    state.tty = stderr_is_terminal();
    state.colour = state.tty && !(no_color && *no_color) && !env_is("TERM", "dumb");
    pthread_mutex_unlock(&state.mutex);
}

int mint_log_level(void)
{
    pthread_mutex_lock(&state.mutex);
    int level = state.level;
    pthread_mutex_unlock(&state.mutex);
    return level;
}

double mint_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* A failed write to stderr has nobody left to be told. */
static void put(const char *s, size_t n)
{
    while (n > 0) {
        ssize_t w = write(STDERR_FILENO, s, n);
        if (w <= 0)
            return;
        s += w;
        n -= (size_t)w;
    }
}

/* Control bytes of user text must not reach the terminal, nor split the line. */
static void add_escaped(struct mint_buf *b, const char *s)
{
    for (; *s; s++) {
        unsigned char c = (unsigned char)*s;
        if ((c < 0x20 && c != '\t') || c == 0x7f)
            mint_buf_addf(b, "\\x%02x", c);
        else
            mint_buf_addc(b, *s);
    }
}

MINT_PRINTF(3, 0)
static void say(const char *colour, const char *tag, const char *fmt, va_list ap)
{
    struct mint_buf line = MINT_BUF_INIT;
    va_list again;
    va_copy(again, ap);
    int n = vsnprintf(NULL, 0, fmt, ap);
    char *text = n < 0 ? NULL : malloc((size_t)n + 1);
    if (text)
        vsnprintf(text, (size_t)n + 1, fmt, again);
    va_end(again);
    pthread_mutex_lock(&state.mutex);
    if (state.line_drawn)
        mint_buf_adds(&line, ERASE);
    state.line_drawn = false;
    bool coloured = colour && state.colour;
    mint_buf_addf(&line, "%s%s:%s ", coloured ? colour : "", state.tool, coloured ? PLAIN : "");
    mint_buf_adds(&line, tag);
    add_escaped(&line, text ? text : fmt);
    mint_buf_addc(&line, '\n');
    put(line.data, line.len);
    pthread_mutex_unlock(&state.mutex);
    mint_buf_release(&line);
    free(text);
}

void mint_error(const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    say(RED, "", fmt, ap);
    va_end(ap);
}

void mint_warn(const char *fmt, ...)
{
    if (mint_log_level() < 0)
        return;
    va_list ap;
    va_start(ap, fmt);
    say(YELLOW, "warning: ", fmt, ap);
    va_end(ap);
}

void mint_warn_skipped(const char *msg)
{
    mint_warn("%s; skipped", msg);
}

void mint_note(const char *fmt, ...)
{
    if (mint_log_level() < 0)
        return;
    va_list ap;
    va_start(ap, fmt);
    say(NULL, "", fmt, ap);
    va_end(ap);
}

void mint_verbose(int level, const char *fmt, ...)
{
    if (mint_log_level() < level)
        return;
    va_list ap;
    va_start(ap, fmt);
    say(NULL, "", fmt, ap);
    va_end(ap);
}

/* --- progress */

static bool in_foreground(void)
{
    if (env_is("MINT_TEST_TTY", "1"))
        return true;
    return tcgetpgrp(STDERR_FILENO) == getpgrp();
}

static bool may_draw(void)
{
    switch (state.progress) {
    case MINT_PROGRESS_NEVER:
        return false;
    case MINT_PROGRESS_ALWAYS:
        return true;
    case MINT_PROGRESS_AUTO:
        break;
    }
    return state.level >= 0 && state.tty && in_foreground();
}

static void add_seconds(struct mint_buf *b, double s)
{
    long t = s < 0 || s > 1e9 ? 0 : (long)(s + 0.5);
    if (t >= 3600)
        mint_buf_addf(b, "%ld:%02ld:%02ld", t / 3600, t / 60 % 60, t % 60);
    else
        mint_buf_addf(b, "%ld:%02ld", t / 60, t % 60);
}

static void compose(struct mint_buf *b, const struct mint_progress *p, double now,
                    const char *extra)
{
    double spent = now - p->start;
    mint_buf_addf(b, "%s: %.0f", p->what, p->done);
    if (p->total > 0)
        mint_buf_addf(b, "/%.0f", p->total);
    mint_buf_addf(b, " %s", p->unit);
    if (p->total > 0)
        mint_buf_addf(b, " (%.0f%%)", 100.0 * p->done / p->total);
    if (spent > 0 && p->done > 0)
        mint_buf_addf(b, ", %.3g/s", p->done / spent);
    if (p->total > 0 && p->done > 0 && p->done < p->total) {
        mint_buf_adds(b, ", ");
        add_seconds(b, spent * (p->total - p->done) / p->done);
        mint_buf_adds(b, " left");
    }
    if (extra && *extra) {
        mint_buf_adds(b, ", ");
        add_escaped(b, extra);
    }
}

/* Cuts to the width of the terminal, between characters: a wrapped line could not be erased. */
static void cut_to_width(struct mint_buf *b)
{
    struct winsize w;
    size_t width = 80, chars = 0, at = 0;
    if (ioctl(STDERR_FILENO, TIOCGWINSZ, &w) == 0 && w.ws_col > 0)
        width = w.ws_col;
    for (; at < b->len; at++) {
        bool starts = ((unsigned char)b->data[at] & 0xc0) != 0x80;
        if (starts && ++chars >= width)
            break;
    }
    b->len = at;
}

static void draw(struct mint_progress *p, double now, const char *extra)
{
    struct mint_buf text = MINT_BUF_INIT, line = MINT_BUF_INIT;
    compose(&text, p, now, extra);
    pthread_mutex_lock(&state.mutex);
    if (state.tty) {
        cut_to_width(&text);
        mint_buf_adds(&line, ERASE);
        mint_buf_add(&line, text.data, text.len);
        state.line_drawn = p->drawn = true;
    } else {
        mint_buf_addf(&line, "%s: ", state.tool);
        mint_buf_add(&line, text.data, text.len);
        mint_buf_addc(&line, '\n');
    }
    put(line.data, line.len);
    pthread_mutex_unlock(&state.mutex);
    mint_buf_release(&text);
    mint_buf_release(&line);
    p->shown = now;
}

void mint_progress_begin(struct mint_progress *p, const char *what, const char *unit, double total)
{
    *p = (struct mint_progress){.what = what, .unit = unit, .total = total, .start = mint_now()};
}

void mint_progress_set(struct mint_progress *p, double done, const char *extra)
{
    double now = mint_now(), every = state.tty ? 0.2 : 2.0;
    p->done = done;
    if (now - p->start < 1.0 || (p->shown > 0 && now - p->shown < every) || !may_draw())
        return;
    draw(p, now, extra);
}

void mint_progress_end(struct mint_progress *p)
{
    /* In a log file the last state is worth a line; on a terminal the line goes away. */
    if (!state.tty && state.progress == MINT_PROGRESS_ALWAYS && p->what)
        draw(p, mint_now(), NULL);
    pthread_mutex_lock(&state.mutex);
    if (p->drawn && state.line_drawn) {
        put(ERASE, strlen(ERASE));
        state.line_drawn = false;
    }
    pthread_mutex_unlock(&state.mutex);
    *p = (struct mint_progress){0};
}

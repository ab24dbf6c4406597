/* SPDX-License-Identifier: Apache-2.0 */
/*
 * log.h: the words that a program says on stderr, and its progress line. Only programs (tools/,
 * cli.c) call these; library code returns errors. Each message is one write(2) of one line
 * "TOOL: text\n". Colour only on a terminal, never with NO_COLOR or TERM=dumb.
 * Thread-safe.
 */
#ifndef MINT_LOG_H
#define MINT_LOG_H

#include "base.h"

enum mint_progress_mode { MINT_PROGRESS_AUTO, MINT_PROGRESS_ALWAYS, MINT_PROGRESS_NEVER };

/* level: -1 errors only (-q), 0 default, 1 decisions (-v), 2 timings (-vv). tool is kept, not
 * copied. */
void mint_log_setup(const char *tool, int level, enum mint_progress_mode progress);
int mint_log_level(void);

void mint_error(const char *fmt, ...) MINT_PRINTF(1, 2); /* always said */
void mint_warn(const char *fmt, ...) MINT_PRINTF(1, 2);  /* "TOOL: warning: ..." unless -q */
void mint_note(const char *fmt, ...)
    MINT_PRINTF(1, 2);                   /* said unless -q: counts of what was dropped, summaries */
void mint_warn_skipped(const char *msg); /* the on_skip of readers: "MSG; skipped" */
void mint_verbose(int level, const char *fmt, ...)
    MINT_PRINTF(2, 3); /* said at that level or above */

/*
 * Progress: one line on stderr, redrawn at most five times a second, from one second on, only on a
 * terminal in the foreground (AUTO); ALWAYS without a terminal prints whole lines, at most one in
 * two seconds; MINT_TEST_TTY=1 counts as a terminal. total 0: unknown. Erased by done.
 */
struct mint_progress {
    const char *what, *unit;
    double total, done, start, shown;
    bool drawn;
};
void mint_progress_begin(struct mint_progress *p, const char *what, const char *unit, double total);
void mint_progress_set(struct mint_progress *p, double done,
                       const char *extra); /* extra: free text or NULL */
void mint_progress_end(struct mint_progress *p);

/* Seconds on the monotonic clock. */
double mint_now(void);

#endif

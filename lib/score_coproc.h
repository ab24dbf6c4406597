/* SPDX-License-Identifier: Apache-2.0 */
/*
 * score_coproc.h: a program that answers one line for each line that it gets.
 *
 * The program runs under /bin/sh -c, in a process group of its own, with pipes for its standard
 * input and output; its standard error is ours. Asking never blocks beyond the time limit, whatever
 * the program reads or writes: both directions are served at once. When the time is up, or the
 * program misbehaves, its whole group is killed and the next question starts it anew. If our
 * process gets INT, TERM or HUP, the groups of all live programs are killed first.
 *
 * A coproc belongs to one thread, in which SIGPIPE must be blocked or ignored.
 */
#ifndef MINT_SCORE_COPROC_H
#define MINT_SCORE_COPROC_H

#include <sys/types.h>

#include "base.h"
#include "buf.h"
#include "err.h"

#define MINT_COPROC_ANSWER_MAX (1 << 20) /* bytes of one answer */

struct mint_coproc {
    const char *command; /* borrowed */
    pid_t pid;           /* 0: not running */
    int in, out;         /* ours: to its stdin, from its stdout */
    int slot;            /* in the list that the signal handlers kill */
    struct mint_buf got; /* read and not yet taken */
};

void mint_coproc_init(struct mint_coproc *c, const char *command);
/*
 * Sends line (a newline is added) and waits for one line, appended to answer without its newline.
 * Starts the program if it does not run. 0, or -1 with the reason in err: MINT_EIO with "exited
 * with status 127" and such; MINT_EUSAGE when the shell could not find or run the program (126,
 * 127), which will not get better. On -1 the program is gone.
 */
int mint_coproc_ask(struct mint_coproc *c, const char *line, size_t n, double timeout,
                    struct mint_buf *answer, struct mint_err *err);
void mint_coproc_kill(struct mint_coproc *c);
/* Closes its input, gives it a second to end, then kills what is left. */
void mint_coproc_close(struct mint_coproc *c);

/* Chains the killing of live programs before the present handlers of INT, TERM and HUP. Once a
 * process, before the first program starts. */
void mint_coproc_guard_signals(void);

#endif

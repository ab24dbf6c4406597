/* SPDX-License-Identifier: Apache-2.0 */
/*
 * metrics.h: --metrics FILE. One JSON object per step, appended in one write(2) and flushed, never
 * mixed into data:
 * {"tool":"mint-train","step":12,"loss:sum":-3.5,...}. A value that is not finite is written as
 * null.
 */
#ifndef MINT_METRICS_H
#define MINT_METRICS_H

#include "base.h"
#include "buf.h"
#include "err.h"

struct mint_metrics {
    struct mint_buf line; /* the object that is being built */
};
#define MINT_METRICS_INIT \
    {                     \
        MINT_BUF_INIT     \
    }
void mint_metrics_begin(struct mint_metrics *m, const char *tool);
void mint_metrics_int(struct mint_metrics *m, const char *name, int64_t v);
void mint_metrics_double(struct mint_metrics *m, const char *name, double v);
void mint_metrics_str(struct mint_metrics *m, const char *name, const char *v);
/* Appends the line to path (made if missing; NULL: nothing is written) and resets m. */
int mint_metrics_end(struct mint_metrics *m, const char *path, struct mint_err *err);

#endif

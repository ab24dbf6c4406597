/* SPDX-License-Identifier: Apache-2.0 */
#include "metrics.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "fs.h"
#include "json.h"

static void begin_member(struct mint_metrics *m, const char *name)
{
    mint_buf_addc(&m->line, m->line.len > 1 ? ',' : '{');
    mint_json_put_str(&m->line, name);
    mint_buf_addc(&m->line, ':');
}

void mint_metrics_begin(struct mint_metrics *m, const char *tool)
{
    mint_buf_reset(&m->line);
    mint_metrics_str(m, "tool", tool);
}

void mint_metrics_int(struct mint_metrics *m, const char *name, int64_t v)
{
    begin_member(m, name);
    mint_json_put_int(&m->line, v);
}

void mint_metrics_double(struct mint_metrics *m, const char *name, double v)
{
    begin_member(m, name);
    mint_json_put_double(&m->line, v);
}

void mint_metrics_str(struct mint_metrics *m, const char *name, const char *v)
{
    begin_member(m, name);
    mint_json_put_str(&m->line, v);
}

/* A run that was killed in the middle of a line leaves it open; the next object must not go on in
 * it. */
static bool ends_in_open_line(int fd)
{
    char last;
    off_t end = lseek(fd, 0, SEEK_END);
    return end > 0 && pread(fd, &last, 1, end - 1) == 1 && last != '\n';
}

int mint_metrics_end(struct mint_metrics *m, const char *path, struct mint_err *err)
{
    int rc = 0;
    mint_buf_adds(&m->line, m->line.len > 0 ? "}\n" : "{}\n");
    if (path) {
        int fd = open(path, O_RDWR | O_APPEND | O_CREAT | O_CLOEXEC, 0666);
        if (fd < 0 && (errno == EACCES || errno == EPERM || errno == EINVAL))
            fd = open(path,
                      O_WRONLY | O_APPEND | O_CLOEXEC); /* a pipe, or a file for writing only */
        if (fd < 0) {
            rc = mint_fail_errno(err, "cannot open metrics file %s", path);
        } else {
            if (ends_in_open_line(fd))
                rc = mint_fs_write_all(fd, "\n", 1);
            if (rc == 0)
                rc = mint_fs_write_all(fd, m->line.data, m->line.len);
            if (rc < 0)
                mint_fail_errno(err, "cannot write metrics file %s", path);
            if (close(fd) < 0 && rc == 0)
                rc = mint_fail_errno(err, "cannot write metrics file %s", path);
        }
    }
    mint_buf_release(&m->line);
    return rc;
}

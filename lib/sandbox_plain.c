/* SPDX-License-Identifier: Apache-2.0 */
/* The working folder of a program that runs without isolation. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fs.h"
#include "mem.h"
#include "sandbox_impl.h"

static int put_file(const char *folder, const struct mint_box_file *f)
{
    char *path = mint_fs_join(folder, f->name);
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, f->executable ? 0700 : 0600);
    int rc = fd < 0 ? -1 : mint_fs_write_all(fd, f->data, f->n);
    if (fd >= 0)
        close(fd);
    free(path);
    return rc;
}

char *mint_sandbox_folder(const struct mint_box_spec *spec, struct mint_err *err)
{
    const char *tmp = getenv("TMPDIR");
    char *folder = mint_xasprintf("%s/mint-code-XXXXXX", tmp && *tmp ? tmp : "/tmp");
    if (!mkdtemp(folder)) {
        mint_fail_errno(err, "cannot make a folder %s", folder);
        free(folder);
        return NULL;
    }
    for (size_t i = 0; i < spec->nfiles; i++) {
        if (put_file(folder, &spec->files[i]) < 0) {
            mint_fail_errno(err, "cannot write %s/%s", folder, spec->files[i].name);
            mint_sandbox_remove(folder);
            free(folder);
            return NULL;
        }
    }
    return folder;
}

/* By rm, which knows about deep folders and odd names. */
void mint_sandbox_remove(const char *folder)
{
    static const char script[] = "chmod -R u+rwX -- \"$1\" 2>/dev/null; exec rm -rf -- \"$1\"";
    pid_t pid = fork();
    if (pid == 0) {
        execl("/bin/sh", "sh", "-c", script, "sh", folder, (char *)NULL);
        _exit(127);
    }
    while (pid > 0 && waitpid(pid, NULL, 0) < 0 && errno == EINTR)
        ;
}

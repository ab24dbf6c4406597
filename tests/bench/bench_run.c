/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bench_run FILE COMMAND...: runs a command and writes what it took into FILE, one JSON object:
 * wall and processor seconds, most resident memory in bytes (all descendants that were waited for),
 * exit status. Its own exit status is the command's.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static double seconds(struct timeval t)
{
    return (double)t.tv_sec + 1e-6 * (double)t.tv_usec;
}

static int fail(const char *what)
{
    fprintf(stderr, "bench_run: %s: %s\n", what, strerror(errno));
    return 126;
}

int main(int argc, char **argv)
{
    struct rusage u;
    int status;
    if (argc < 3) {
        fputs("usage: bench_run FILE COMMAND...\n", stderr);
        return 2;
    }
    double start = now();
    pid_t child = fork();
    if (child < 0)
        return fail("fork");
    if (child == 0) {
        execvp(argv[2], argv + 2);
        _exit(fail(argv[2]));
    }
    while (wait4(child, &status, 0, &u) < 0)
        if (errno != EINTR)
            return fail("wait");
    double wall = now() - start;
    int rc = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    FILE *f = fopen(argv[1], "w");
    if (!f)
        return fail(argv[1]);
    fprintf(f, "{\"wall\":%.4f,\"cpu\":%.4f,\"rss\":%lld,\"rc\":%d}\n", wall,
            seconds(u.ru_utime) + seconds(u.ru_stime), 1024LL * u.ru_maxrss, rc);
    return fclose(f) ? fail(argv[1]) : rc;
}

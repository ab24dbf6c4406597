/* SPDX-License-Identifier: Apache-2.0 */
/* Stands in for libFuzzer: gives every file of the corpus folders to the target, so that what was
 * once found stays found. Each folder is one TAP test; a crash ends the program, and the line
 * before it names the input. */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static int one_file(const char *path)
{
    struct stat st;
    FILE *f = fopen(path, "rb");
    if (!f || fstat(fileno(f), &st) != 0) {
        printf("# cannot read %s\n", path);
        if (f)
            fclose(f);
        return -1;
    }
    size_t n = (size_t)st.st_size;
    uint8_t *data = malloc(n ? n : 1); /* exact size: reading one byte too far is seen */
    int rc = data && fread(data, 1, n, f) == n ? 0 : -1;
    fclose(f);
    printf("# %s\n", path);
    fflush(stdout);
    if (rc == 0)
        LLVMFuzzerTestOneInput(data, n);
    free(data);
    return rc;
}

static int one_folder(const char *dir, int number)
{
    DIR *d = opendir(dir);
    int files = 0, bad = 0;
    for (struct dirent *e; d && (e = readdir(d));) {
        char path[4096];
        struct stat st;
        if (snprintf(path, sizeof path, "%s/%s", dir, e->d_name) >= (int)sizeof path)
            continue;
        if (stat(path, &st) != 0 || !S_ISREG(st.st_mode))
            continue;
        files++;
        bad += one_file(path) != 0;
    }
    if (d)
        closedir(d);
    printf("%s %d - %s: %d inputs\n", files && !bad ? "ok" : "not ok", number, dir, files);
    return files && !bad ? 0 : -1;
}

int main(int argc, char **argv)
{
    int bad = 0;
    printf("1..%d\n", argc - 1);
    for (int i = 1; i < argc; i++)
        bad |= one_folder(argv[i], i);
    return bad ? 1 : 0;
}

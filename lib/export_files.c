/* SPDX-License-Identifier: Apache-2.0 */
/* The files of a model folder that are no weights: copied as they are, config.json edited in place.
 */
#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "buf.h"
#include "export.h"
#include "fs.h"
#include "json.h"
#include "mem.h"

int mint_export_edit_json(const char *json, size_t n, const char *key, const char *value,
                          struct mint_buf *out, struct mint_err *err)
{
    struct mint_json *j = mint_json_new();
    int rc = mint_json_parse(j, json, n, err);
    if (!rc && mint_json_type(j, 0) != MINT_JSON_OBJECT)
        rc = mint_fail(err, MINT_EFORMAT, "not a JSON object");
    if (!rc) {
        size_t len = 0;
        mint_json_val v = mint_json_get(j, 0, key);
        const char *at = v != MINT_JSON_NONE ? mint_json_raw(j, v, &len)
                                             : (const char *)memchr(json, '{', n) + 1;
        mint_buf_add(out, json, (size_t)(at - json));
        if (v == MINT_JSON_NONE)
            mint_buf_addf(out, "\n  \"%s\": %s%s", key, value, mint_json_size(j, 0) ? "," : "\n");
        else
            mint_buf_adds(out, value);
        mint_buf_add(out, at + len, n - (size_t)(at + len - json));
    }
    mint_json_free(j);
    return rc;
}

static bool ends_with(const char *s, const char *tail)
{
    size_t n = strlen(s), k = strlen(tail);
    return n >= k && !strcmp(s + n - k, tail);
}

/* Weights in any of the formats that a hub folder may hold: copied along they would be the
 * untrained model. */
static bool is_weights(const char *name)
{
    static const char *const tails[] = {".safetensors", ".safetensors.index.json",
                                        ".bin",         ".bin.index.json",
                                        ".pt",          ".pth",
                                        ".gguf",        ".ckpt",
                                        ".h5",          ".msgpack",
                                        ".onnx",        ".onnx_data"};
    for (size_t i = 0; i < MINT_ARRAY_LEN(tails); i++)
        if (ends_with(name, tails[i]))
            return true;
    return false;
}

static int copy_one(const char *from, const char *to, const char *name, struct mint_err *err)
{
    char *a = mint_fs_join(from, name), *b = mint_fs_join(to, name);
    struct stat st; /* stat, not lstat: the folders of a hub cache hold links */
    int rc = 0;
    if (stat(a, &st))
        rc = mint_fail_errno(err, "%s: cannot read", a);
    else if (S_ISREG(st.st_mode))
        rc = mint_fs_copy_file(a, b, err);
    free(a);
    free(b);
    return rc;
}

int mint_export_copy_files(const char *from, const char *to, struct mint_err *err)
{
    DIR *d = opendir(from);
    if (!d)
        return mint_fail_errno(err, "%s: cannot list", from);
    int rc = 0;
    for (struct dirent *e; !rc && (e = readdir(d));) {
        if (e->d_name[0] == '.' || is_weights(e->d_name) || !strcmp(e->d_name, "config.json"))
            continue;
        rc = copy_one(from, to, e->d_name, err);
    }
    closedir(d);
    return rc;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * model_data.h: scratch folders, small files, tiny models and adapters for the tests of what lies
 * in folders (safetensors, model_config, checkpoint, init, export). Every test starts in an empty
 * folder of its own; data_root is the project's.
 */
#ifndef MINT_MODEL_DATA_H
#define MINT_MODEL_DATA_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "buf.h"
#include "checkpoint.h"
#include "fs.h"
#include "identity.h"
#include "init.h"
#include "mem.h"
#include "safetensors.h"
#include "weights_map.h"

static char data_root[4096];

__attribute__((unused)) static int data_enter(void **state)
{
    const char *tmp = getenv("TMPDIR");
    if (!data_root[0] && !getcwd(data_root, sizeof data_root))
        return -1;
    char *dir = mint_xasprintf("%s/mint-data-XXXXXX", tmp ? tmp : "/tmp");
    *state = dir;
    return mkdtemp(dir) && chdir(dir) == 0 ? 0 : -1;
}

__attribute__((unused)) static int data_leave(void **state)
{
    char *command = mint_xasprintf("rm -rf '%s'", (char *)*state);
    int rc = chdir(data_root) == 0 ? system(command) : -1;
    free(command);
    free(*state);
    return rc;
}

__attribute__((unused)) static void data_write(const char *path, const void *p, size_t n)
{
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(p, 1, n, f), n);
    assert_int_equal(fclose(f), 0);
}

__attribute__((unused)) static void data_text(const char *path, const char *text)
{
    data_write(path, text, strlen(text));
}

__attribute__((unused, noinline)) static char *data_read(const char *path, size_t *n)
{
    char *p = NULL;
    size_t len = 0;
    if (mint_fs_read_file(path, (size_t)1 << 28, &p, &len, NULL))
        fail_msg("cannot read %s", path);
    if (n)
        *n = len;
    return p;
}

__attribute__((unused)) static void data_same(const char *a, const char *b)
{
    size_t na, nb;
    char *x = data_read(a, &na), *y = data_read(b, &nb);
    assert_int_equal(na, nb);
    assert_memory_equal(x, y, na);
    free(x);
    free(y);
}

/* Replaces the first `from` in a text file. */
__attribute__((unused)) static void data_edit(const char *path, const char *from, const char *to)
{
    char *s = data_read(path, NULL), *at = strstr(s, from);
    if (!at)
        fail_msg("%s does not hold '%s'", path, from);
    struct mint_buf b = MINT_BUF_INIT;
    mint_buf_add(&b, s, (size_t)(at - s));
    mint_buf_adds(&b, to);
    mint_buf_adds(&b, at + strlen(from));
    data_write(path, b.data, b.len);
    mint_buf_release(&b);
    free(s);
}

/* A safetensors file of this header text and data; length < 0: the header's own. */
__attribute__((unused)) static void data_tensors(const char *path, const char *header,
                                                 int64_t length, const void *data, size_t n)
{
    struct mint_buf b = MINT_BUF_INIT;
    uint64_t len = length < 0 ? strlen(header) : (uint64_t)length;
    for (int i = 0; i < 8; i++)
        mint_buf_addc(&b, (char)(len >> 8 * i & 0xff));
    mint_buf_adds(&b, header);
    mint_buf_add(&b, data, n);
    data_write(path, b.data, b.len);
    mint_buf_release(&b);
}

/* Copies the folder of that name from the folder cache, which make fills the first time: writing
 * one durably takes many fsyncs, and a disk may be slow. */
__attribute__((unused)) static void data_cached(const char *cache, const char *name,
                                                void (*make)(const char *path))
{
    char *path = mint_fs_join(cache, name);
    if (!mint_fs_exists(path))
        make(path);
    char *command = mint_xasprintf("rm -rf '%s' && cp -r '%s' '%s'", name, path, name);
    assert_int_equal(system(command), 0);
    free(command);
    free(path);
}

/* The message says all of it. */
__attribute__((unused)) static void assert_says(const struct mint_err *err, const char *part)
{
    if (!strstr(err->msg, part))
        fail_msg("'%s' does not say '%s'", err->msg, part);
}

/* "qwen3", "qwen2" or "llama", 2 layers, width 16. */
__attribute__((unused)) static void data_model(const char *dir, const char *arch, bool tied,
                                               enum mint_dtype t, int shards)
{
    struct mint_init o = {.dtype = t, .seed = 7, .std = -1, .norm_std = 0.1, .shards = shards};
    struct mint_err err;
    assert_int_equal(mint_init_preset("tiny", &o.config, &err), 0);
    mint_init_arch(&o.config, arch);
    o.config.hidden = 16;
    o.config.ffn = 24;
    o.config.heads = 2;
    o.config.kv_heads = 1;
    o.config.head_dim = 8;
    o.config.tied = tied;
    if (mint_init_write(&o, dir, true, NULL, NULL, &err))
        fail_msg("%s", err.msg);
}

/* A checkpoint of rank 2 for that model on the modules of mask; A and B are small numbers, m = 1, v
 * = 2. */
__attribute__((unused)) static void data_checkpoint(const char *dir, const char *model,
                                                    unsigned mask,
                                                    const struct mint_trainer_state *state)
{
    struct mint_model_config c;
    struct mint_err err;
    struct mint_adapter_config config = {.rank = 2, .alpha = 4, .modules = mask};
    struct mint_checkpoint_tensor t[64];
    struct mint_arena arena = MINT_ARENA_INIT;
    size_t n = 0;
    snprintf(config.base_model, sizeof config.base_model, "%s", model);
    assert_int_equal(mint_model_config_read(&c, model, &err), 0);
    bool tied = c.tied;
    c.tied = false; /* the head too */
    for (size_t i = 0; i < mint_weights_count(&c); i++) {
        struct mint_weight_spec s;
        mint_weights_at(&c, i, &s);
        size_t k = strlen(s.name) - strlen(".weight");
        unsigned bit = MINT_ADAPTER_Q;
        for (; bit <= MINT_ADAPTER_HEAD; bit <<= 1) {
            const char *name = mint_adapter_module_name(bit);
            size_t len = strlen(name);
            if (k >= len && !strncmp(s.name + k - len, name, len) && !strcmp(s.name + k, ".weight"))
                break;
        }
        for (int which = 0; bit & mask && which < 2; which++) {
            struct mint_buf name = MINT_BUF_INIT;
            mint_buf_addf(&name, "base_model.model.%.*s.lora_%c.weight", (int)k, s.name,
                          which ? 'B' : 'A');
            int64_t rows = which ? s.shape[0] : 2, cols = which ? 2 : s.shape[1];
            size_t count = (size_t)(rows * cols);
            float *v = mint_arena_alloc(&arena, 3 * count * sizeof *v);
            mint_init_values(3, name.data, 0, 0.5, 0, count, v);
            for (size_t e = 0; e < count; e++) {
                v[count + e] = 1;
                v[2 * count + e] = 2;
            }
            t[n++] = (struct mint_checkpoint_tensor){
                .name = mint_arena_strndup(&arena, name.data, name.len),
                .rows = rows,
                .cols = cols,
                .data = v,
                .m = v + count,
                .v = v + 2 * count};
            mint_buf_release(&name);
        }
    }
    c.tied = tied;
    if (mint_checkpoint_write(dir, true, &config, state, t, n, "{\"loss:sum\":-1.5}", NULL, &err))
        fail_msg("%s", err.msg);
    mint_arena_release(&arena);
}
#define DATA_ALL_MODULES 255u

/* A state whose base is that model. */
__attribute__((unused)) static struct mint_trainer_state data_state(const char *model)
{
    struct mint_trainer_state s = {.step = 3, .tokens = 1234};
    struct mint_st *st;
    struct mint_model_config c;
    char tensors[72];
    assert_int_equal(mint_st_open(&st, model, NULL), 0);
    assert_int_equal(mint_model_config_read(&c, model, NULL), 0);
    assert_int_equal(mint_st_fingerprint(st, tensors, NULL), 0);
    mint_identity_base(tensors, &c, s.base);
    mint_st_close(st);
    return s;
}

#endif

/* SPDX-License-Identifier: Apache-2.0 */
#include "checkpoint.h"

#include <stdlib.h>
#include <string.h>

#include "buf.h"
#include "fs.h"
#include "json.h"
#include "mem.h"

#define FILE_MAX ((size_t)64 << 20)
#define PREFIX   "base_model.model."

static const struct {
    unsigned bit;
    const char *name; /* inside "model.layers.N." */
} modules[] = {
    {MINT_ADAPTER_Q, "self_attn.q_proj"}, {MINT_ADAPTER_K, "self_attn.k_proj"},
    {MINT_ADAPTER_V, "self_attn.v_proj"}, {MINT_ADAPTER_O, "self_attn.o_proj"},
    {MINT_ADAPTER_GATE, "mlp.gate_proj"}, {MINT_ADAPTER_UP, "mlp.up_proj"},
    {MINT_ADAPTER_DOWN, "mlp.down_proj"}, {MINT_ADAPTER_HEAD, "lm_head"},
};
#define ATTN 15u
#define MLP  112u

unsigned mint_adapter_modules(const struct mint_adapter_config *c)
{
    if (c->modules)
        return c->modules;
    return (c->attn ? ATTN : 0) | (c->mlp ? MLP : 0) |
           (c->unembed ? (unsigned)MINT_ADAPTER_HEAD : 0);
}

const char *mint_adapter_module_name(unsigned bit)
{
    for (size_t i = 0; i < MINT_ARRAY_LEN(modules); i++)
        if (modules[i].bit == bit)
            return modules[i].name;
    return NULL;
}

/* "q_proj" of "self_attn.q_proj": how target_modules spells it. */
static const char *leaf(const char *name)
{
    const char *dot = strrchr(name, '.');
    return dot ? dot + 1 : name;
}

/* --- adapter_config.json */

struct doc {
    struct mint_json *j;
    char *path, *text;
};

static int open_doc(struct doc *d, const char *dir, const char *name, struct mint_err *err)
{
    size_t n;
    *d = (struct doc){.j = mint_json_new(), .path = mint_fs_join(dir, name)};
    if (mint_fs_read_file(d->path, FILE_MAX, &d->text, &n, err)) {
        d->text = NULL;
        return -1;
    }
    if (mint_json_parse(d->j, d->text, n, err))
        return mint_wrap(err, "%s: ", d->path);
    if (mint_json_type(d->j, 0) != MINT_JSON_OBJECT)
        return mint_fail(err, MINT_EMODEL, "%s: not a JSON object", d->path);
    return 0;
}

static void close_doc(struct doc *d)
{
    mint_json_free(d->j);
    free(d->path);
    free(d->text);
}

static int bad(const struct doc *d, const char *key, const char *what, struct mint_err *err)
{
    return mint_fail(err, MINT_EMODEL, "%s: \"%s\" %s", d->path, key, what);
}

static bool is_text(const struct doc *d, mint_json_val v, const char *want)
{
    char *s = mint_json_strdup(d->j, v);
    bool same = s && !strcmp(s, want);
    free(s);
    return same;
}

/* null, false, "", [] and {}: what PEFT writes for a feature that is off. */
static bool is_off(const struct doc *d, mint_json_val v)
{
    bool b;
    switch (mint_json_type(d->j, v)) {
    case MINT_JSON_ABSENT:
    case MINT_JSON_NULL:
        return true;
    case MINT_JSON_BOOL:
        return mint_json_bool(d->j, v, &b) && !b;
    case MINT_JSON_STRING:
        return is_text(d, v, "");
    case MINT_JSON_ARRAY:
    case MINT_JSON_OBJECT:
        return mint_json_size(d->j, v) == 0;
    default:
        return false;
    }
}

static int check_features(const struct doc *d, struct mint_err *err)
{
    static const char *const off[] = {"use_rslora",
                                      "use_dora",
                                      "lora_bias",
                                      "fan_in_fan_out",
                                      "modules_to_save",
                                      "rank_pattern",
                                      "alpha_pattern",
                                      "exclude_modules",
                                      "layers_to_transform",
                                      "layer_replication",
                                      "trainable_token_indices",
                                      "target_parameters",
                                      "use_qalora",
                                      "alora_invocation_tokens",
                                      "corda_config",
                                      "eva_config",
                                      "loftq_config",
                                      "ensure_weight_tying"};
    for (size_t i = 0; i < MINT_ARRAY_LEN(off); i++)
        if (!is_off(d, mint_json_get(d->j, 0, off[i])))
            return bad(d, off[i], "is in use, which is not supported", err);
    mint_json_val v = mint_json_get(d->j, 0, "bias");
    if (!is_off(d, v) && !is_text(d, v, "none"))
        return bad(d, "bias", "is not \"none\"; trained biases are not supported", err);
    /* These initialisations subtract from the base weights, so the adapter alone is not the model.
     */
    static const char *const changed[] = {"pissa", "olora", "loftq", "corda"};
    char *init = mint_json_strdup(d->j, mint_json_get(d->j, 0, "init_lora_weights"));
    bool touched = false;
    for (size_t i = 0; init && i < MINT_ARRAY_LEN(changed); i++)
        touched |= !strncmp(init, changed[i], strlen(changed[i]));
    free(init);
    return touched ? bad(d, "init_lora_weights", "changes the base weights; not supported", err)
                   : 0;
}

static int add_target(const struct doc *d, const char *name, struct mint_adapter_config *c,
                      struct mint_err *err)
{
    if (!strcmp(name, "all-linear")) {
        c->modules |= ATTN | MLP;
        return 0;
    }
    for (size_t i = 0; i < MINT_ARRAY_LEN(modules); i++) {
        if (strcmp(name, leaf(modules[i].name)) && strcmp(name, modules[i].name))
            continue;
        c->modules |= modules[i].bit;
        return 0;
    }
    return mint_fail(
        err, MINT_EMODEL,
        "%s: target module \"%s\" is not supported; supported are q_proj, k_proj, v_proj, "
        "o_proj, gate_proj, up_proj, down_proj and lm_head",
        d->path, name);
}

static int read_targets(const struct doc *d, struct mint_adapter_config *c, struct mint_err *err)
{
    mint_json_val list = mint_json_get(d->j, 0, "target_modules");
    char *one = mint_json_strdup(d->j, list);
    int rc = one ? add_target(d, one, c, err) : 0;
    free(one);
    if (mint_json_type(d->j, list) == MINT_JSON_ARRAY) {
        mint_json_val v = mint_json_first(d->j, list);
        for (; !rc && v != MINT_JSON_NONE; v = mint_json_next(d->j, v)) {
            char *s = mint_json_strdup(d->j, v);
            rc = s ? add_target(d, s, c, err)
                   : bad(d, "target_modules", "holds something that is no string", err);
            free(s);
        }
    }
    if (!rc && !c->modules)
        rc = bad(d, "target_modules", "names no module", err);
    c->attn = c->modules & ATTN;
    c->mlp = c->modules & MLP;
    c->unembed = c->modules & MINT_ADAPTER_HEAD;
    return rc;
}

static int read_base_name(const struct doc *d, struct mint_adapter_config *c, struct mint_err *err)
{
    char *name = mint_json_strdup(d->j, mint_json_get(d->j, 0, "base_model_name_or_path"));
    size_t n = name ? strlen(name) : 0;
    bool fits = n < sizeof c->base_model;
    if (name && fits)
        memcpy(c->base_model, name, n + 1);
    free(name);
    return fits ? 0 : bad(d, "base_model_name_or_path", "is too long", err);
}

static int read_config(const struct doc *d, struct mint_adapter_config *c, struct mint_err *err)
{
    int64_t r;
    memset(c, 0, sizeof *c);
    if (!is_text(d, mint_json_get(d->j, 0, "peft_type"), "LORA"))
        return bad(d, "peft_type", "is not \"LORA\"", err);
    if (!mint_json_int(d->j, mint_json_get(d->j, 0, "r"), &r) || r < 1 || r > 1 << 16)
        return bad(d, "r", "is not a rank from 1 to 65536", err);
    if (!mint_json_double(d->j, mint_json_get(d->j, 0, "lora_alpha"), &c->alpha))
        return bad(d, "lora_alpha", "is not a number", err);
    c->rank = (int32_t)r;
    if (check_features(d, err) || read_targets(d, c, err))
        return -1;
    return read_base_name(d, c, err);
}

static int open_config(struct mint_checkpoint *c, const char *dir, struct mint_err *err)
{
    struct doc d;
    int rc = open_doc(&d, dir, "adapter_config.json", err);
    if (!rc)
        rc = read_config(&d, &c->config, err);
    close_doc(&d);
    return rc;
}

/* --- adapter_model.safetensors */

/* Splits PREFIX MODULE ".lora_A.weight". 'A' or 'B', 0 if it is none; *module ends at *n. */
static char split_name(const char *name, const char **module, size_t *n)
{
    size_t k = strlen(name), tail = strlen(".lora_A.weight"), head = strlen(PREFIX);
    if (k <= head + tail || strncmp(name, PREFIX, head))
        return 0;
    const char *end = name + k - tail;
    *module = name + head;
    *n = k - head - tail;
    return !strcmp(end, ".lora_A.weight") ? 'A' : !strcmp(end, ".lora_B.weight") ? 'B' : 0;
}

/* The bit of "model.layers.12.self_attn.q_proj" or "lm_head", 0 if it is neither. */
static unsigned module_bit(const char *module, size_t n)
{
    static const char layers[] = "model.layers.";
    size_t at = 0;
    if (n > sizeof layers && !strncmp(module, layers, sizeof layers - 1)) {
        at = sizeof layers - 1;
        size_t digits = at;
        while (at < n && module[at] >= '0' && module[at] <= '9')
            at++;
        if (at == digits || at == n || module[at++] != '.')
            return 0;
    }
    for (size_t i = 0; i < MINT_ARRAY_LEN(modules); i++) {
        bool head = modules[i].bit == MINT_ADAPTER_HEAD;
        size_t k = strlen(modules[i].name);
        if (head == (at == 0) && k == n - at && !memcmp(modules[i].name, module + at, k))
            return modules[i].bit;
    }
    return 0;
}

static int check_tensor(const struct mint_checkpoint *c, const struct mint_st_tensor *t,
                        struct mint_err *err)
{
    const char *module;
    size_t n;
    char which = split_name(t->name, &module, &n), shape[96];
    if (!which)
        return mint_fail(err, MINT_EMODEL,
                         "tensor \"%s\" is not named like a LoRA tensor "
                         "(base_model.model.MODULE.lora_A.weight or .lora_B.weight)",
                         t->name);
    if (!(module_bit(module, n) & c->config.modules))
        return mint_fail(err, MINT_EMODEL,
                         "tensor \"%s\" belongs to no module that adapter_config.json names in "
                         "target_modules",
                         t->name);
    if (t->dtype == MINT_DTYPE_OTHER)
        return mint_fail(err, MINT_EMODEL,
                         "tensor \"%s\" is of type %s; supported are F32, BF16 and F16", t->name,
                         t->dtype_text);
    if (t->ndim != 2 || t->shape[which == 'A' ? 0 : 1] != c->config.rank)
        return mint_fail(err, MINT_EMODEL,
                         "tensor \"%s\" is %s, but adapter_config.json says r = %d", t->name,
                         mint_shape_text(t->ndim, t->shape, shape), c->config.rank);
    struct mint_buf partner = MINT_BUF_INIT;
    mint_buf_addf(&partner, PREFIX "%.*s.lora_%c.weight", (int)n, module, which == 'A' ? 'B' : 'A');
    bool found = mint_st_find(c->adapter, partner.data) != NULL;
    int rc = found ? 0
                   : mint_fail(err, MINT_EMODEL, "tensor \"%s\" has no partner \"%s\"", t->name,
                               partner.data);
    mint_buf_release(&partner);
    return rc;
}

static int check_targets_used(const struct mint_checkpoint *c, struct mint_err *err)
{
    unsigned seen = 0;
    for (size_t i = 0; i < mint_st_count(c->adapter); i++) {
        const char *module;
        size_t n;
        if (split_name(mint_st_at(c->adapter, i)->name, &module, &n))
            seen |= module_bit(module, n);
    }
    for (size_t i = 0; i < MINT_ARRAY_LEN(modules); i++)
        if (modules[i].bit & c->config.modules & ~seen)
            return mint_fail(
                err, MINT_EMODEL,
                "adapter_config.json names %s in target_modules, but there is no tensor for it",
                leaf(modules[i].name));
    return 0;
}

static int open_adapter(struct mint_checkpoint *c, const char *dir, struct mint_err *err)
{
    char *path = mint_fs_join(dir, "adapter_model.safetensors");
    int rc = mint_st_open(&c->adapter, path, err);
    if (!rc) {
        for (size_t i = 0; !rc && i < mint_st_count(c->adapter); i++)
            rc = check_tensor(c, mint_st_at(c->adapter, i), err);
        if (!rc)
            rc = check_targets_used(c, err);
        if (rc)
            mint_wrap(err, "%s: ", path);
    }
    free(path);
    return rc ? rc : mint_st_fingerprint(c->adapter, c->fingerprint, err);
}

bool mint_checkpoint_pair(const struct mint_checkpoint *c, const char *module,
                          const struct mint_st_tensor **a, const struct mint_st_tensor **b)
{
    struct mint_buf name = MINT_BUF_INIT;
    mint_buf_addf(&name, PREFIX "%s.lora_A.weight", module);
    *a = mint_st_find(c->adapter, name.data);
    name.data[name.len - strlen("A.weight")] = 'B';
    *b = mint_st_find(c->adapter, name.data);
    mint_buf_release(&name);
    return *a && *b;
}

/* --- optimizer.safetensors */

static int check_moment(const struct mint_st *opt, const struct mint_st_tensor *t, char which,
                        struct mint_err *err)
{
    struct mint_buf name = MINT_BUF_INIT;
    mint_buf_addf(&name, "%c.%s", which, t->name);
    const struct mint_st_tensor *m = mint_st_find(opt, name.data);
    int rc = 0;
    if (!m)
        rc = mint_fail(err, MINT_EMODEL, "tensor \"%s\" is missing", name.data);
    else if (m->dtype != MINT_F32 || m->ndim != 2 || m->shape[0] != t->shape[0] ||
             m->shape[1] != t->shape[1])
        rc = mint_fail(err, MINT_EMODEL, "tensor \"%s\" does not match the adapter's tensor",
                       name.data);
    mint_buf_release(&name);
    return rc;
}

static int open_optimizer(struct mint_checkpoint *c, const char *dir, struct mint_err *err)
{
    char *path = mint_fs_join(dir, "optimizer.safetensors");
    int rc = 0;
    if (mint_fs_exists(path)) {
        rc = mint_st_open(&c->optimizer, path, err);
        size_t n = rc ? 0 : mint_st_count(c->adapter);
        if (!rc && mint_st_count(c->optimizer) != 2 * n)
            rc = mint_fail(err, MINT_EMODEL, "%zu tensors, but the adapter's %zu need two each",
                           mint_st_count(c->optimizer), n);
        for (size_t i = 0; !rc && i < n; i++) {
            const struct mint_st_tensor *t = mint_st_at(c->adapter, i);
            if (check_moment(c->optimizer, t, 'm', err) || check_moment(c->optimizer, t, 'v', err))
                rc = -1;
        }
        if (rc && c->optimizer)
            mint_wrap(err, "%s: ", path);
    }
    free(path);
    return rc;
}

/* --- trainer_state.json */

static int get_count(const struct doc *d, const char *key, int64_t *out, struct mint_err *err)
{
    if (mint_json_int(d->j, mint_json_get(d->j, 0, key), out) && *out >= 0)
        return 0;
    return bad(d, key, "is missing or not a count", err);
}

/* A fingerprint, or null ("" in out) where that is allowed. */
static int get_digest(const struct doc *d, const char *key, bool null_ok, char out[72],
                      struct mint_err *err)
{
    mint_json_val v = mint_json_get(d->j, 0, key);
    out[0] = '\0';
    if (null_ok && mint_json_type(d->j, v) == MINT_JSON_NULL)
        return 0;
    char *s = mint_json_strdup(d->j, v);
    bool ok = s && strlen(s) == 71 && !strncmp(s, "sha256:", 7) &&
              strspn(s + 7, "0123456789abcdef") == 64;
    if (ok)
        memcpy(out, s, 72);
    free(s);
    return ok ? 0 : bad(d, key, "is missing or not \"sha256:\" and 64 hex digits", err);
}

static int read_state(const struct doc *d, struct mint_checkpoint *c, struct mint_err *err)
{
    struct mint_trainer_state *s = &c->state;
    char adapter[72];
    int64_t format;
    if (!mint_json_int(d->j, mint_json_get(d->j, 0, "format"), &format) || format != 1)
        return bad(d, "format", "is not 1: written by another version", err);
    if (get_count(d, "step", &s->step, err) || get_count(d, "tokens", &s->tokens, err) ||
        get_digest(d, "base", false, s->base, err) ||
        get_digest(d, "parent", true, s->parent, err) ||
        get_digest(d, "adapter", false, adapter, err) ||
        get_digest(d, "datums", true, s->datums, err) ||
        get_digest(d, "options_sha256", true, s->options, err))
        return -1;
    if (strcmp(adapter, c->fingerprint))
        return mint_fail(err, MINT_EMODEL,
                         "%s: adapter_model.safetensors is not the one that was written with this "
                         "checkpoint (%s, recorded %s)",
                         d->path, c->fingerprint, adapter);
    size_t n;
    mint_json_val v = mint_json_get(d->j, 0, "options");
    if (mint_json_type(d->j, v) == MINT_JSON_OBJECT) {
        const char *raw = mint_json_raw(d->j, v, &n);
        s->options_json = mint_xstrndup(raw, n);
    }
    return 0;
}

static int open_state(struct mint_checkpoint *c, const char *dir, struct mint_err *err)
{
    char *path = mint_fs_join(dir, "trainer_state.json");
    c->has_state = mint_fs_exists(path);
    free(path);
    if (!c->has_state)
        return 0;
    struct doc d;
    int rc = open_doc(&d, dir, "trainer_state.json", err);
    if (!rc)
        rc = read_state(&d, c, err);
    close_doc(&d);
    return rc;
}

int mint_checkpoint_open(struct mint_checkpoint *c, const char *dir, struct mint_err *err)
{
    memset(c, 0, sizeof *c);
    if (!mint_fs_is_dir(dir))
        return mint_fail(err, MINT_EMODEL, "%s: no such checkpoint folder", dir);
    if (open_config(c, dir, err) || open_adapter(c, dir, err) || open_optimizer(c, dir, err) ||
        open_state(c, dir, err)) {
        mint_checkpoint_close(c);
        return -1;
    }
    return 0;
}

void mint_checkpoint_close(struct mint_checkpoint *c)
{
    mint_st_close(c->adapter);
    mint_st_close(c->optimizer);
    free(c->state.options_json);
    memset(c, 0, sizeof *c);
}

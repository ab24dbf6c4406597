/* SPDX-License-Identifier: Apache-2.0 */
/* Which template a model has, the messages that go into it, and the ids of what comes out. */
#include "chat.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "chat_impl.h"
#include "fs.h"
#include "hash.h"
#include "mem.h"

#define TEMPLATE_MAX ((size_t)64 << 20)

/* --- a rendering grows. */
void chat_lit(struct chat_out *o, const char *s)
{
    mint_buf_adds(&o->text, s);
}

void chat_guard(struct chat_out *o, size_t from)
{
    if (from == o->text.len)
        return;
    if (o->spans_n && o->spans[o->spans_n - 1].to == from) {
        o->spans[o->spans_n - 1].to = o->text.len;
        return;
    }
    if (o->spans_n == o->spans_cap) {
        o->spans_cap = o->spans_cap ? 2 * o->spans_cap : 16;
        o->spans = mint_xreallocarray(o->spans, o->spans_cap, sizeof *o->spans);
    }
    o->spans[o->spans_n++] = (struct mint_span){from, o->text.len};
}

void chat_put(struct chat_out *o, const char *s, size_t n)
{
    size_t from = o->text.len;
    mint_buf_add(&o->text, s, n);
    chat_guard(o, from);
}

int chat_fail(struct chat_out *o, size_t msg, const char *fmt, ...)
{
    char why[512];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(why, sizeof why, fmt, ap);
    va_end(ap);
    if (o->msgs[msg].v == MINT_JSON_NONE)
        return mint_fail(o->err, MINT_ESCHEMA, "message: %s", why);
    return mint_fail(o->err, MINT_ESCHEMA, "messages[%zu]: %s", msg - o->put_in_front, why);
}

/* --- families. */

/* Known templates: sha256 of the text, see canonical. */
static const struct {
    const char *sha, *family;
} known[] = {
    {"87a2728cb8dc9fe424d624542f6060ec05a1d285ebbec578bb078900e33396b5", "qwen3-first"},
    {"a55ee1b1660128b7098723e0abcd92caa0788061051c62d51cbe87d9cf1974d8", "qwen3"},
    {"64f85b198065d0fba2a81f37e10ed68161ce2c19a754c7100e67e0ca2ee9c326", "qwen3-2507"},
    {"6c14865bcd87b706f964dd5e43851d194ec7bd8f1a1cfc688ff8dff3fcc271aa", "qwen2.5"},
    {"ba03a121d097859c7b5b9cd03af99aafe95275210d2876f642ad9929a150f122", "llama3"},
    {"bf0c34b1af07f37d86dd9c6624d1a8d02574b3d3e5c158356534cb7ffa44add3", "smollm2"},
    {"75dc0b1710790022bf0fca7d8411d7cf9be27ed39d7daf96986865a42063eb05", "smollm2"},
    {"fcf7a096fe99a48fd9ad2b250bf9237e96e8f48bffec1c7ea4d3f225176cd40e", "chatml"},
    {"153280e3ff55d19da1398bdb3914ee2a51b80429bfaedde11d7d216c39db80f3", "chatml"},
    {"d7b5b8c7b58f7a6bf868aa46a5f73ee976d7292f40fcb9c3e7a1defd8d235cfb", "chatml"},
    {"58c1a1f04baa7adaeaba1f90267c3d57d9396f0c1f0129bdde9e76d3c6784af7", "chatml"},
};

static const struct chat_family *family_named(const char *name)
{
    for (size_t i = 0; i < chat_families_n; i++)
        if (strcmp(chat_families[i].name, name) == 0)
            return &chat_families[i];
    return NULL;
}

static void family_names(struct mint_buf *b)
{
    for (size_t i = 0; i < chat_families_n; i++)
        mint_buf_addf(b, "%s%s", i ? ", " : "", chat_families[i].name);
}

/* CR LF to LF, white space around the text off, as Jinja does or as it does not matter. In place.
 */
static void tidy(char *s)
{
    char *to = s;
    for (const char *p = s + strspn(s, " \t\r\n"); *p; p++)
        if (p[0] != '\r' || p[1] != '\n')
            *to++ = *p;
    while (to > s && strchr(" \t\r\n", to[-1]))
        to--;
    *to = '\0';
}

static bool is_plain(const char *s, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (s[i] == '\'' || s[i] == '"' ||
            (i + 1 < n &&
             ((s[i] == '{' && strchr("{%", s[i + 1])) || (s[i + 1] == '}' && strchr("}%", s[i])))))
            return false;
    return true;
}

/* The default system message in a template: plain text between the system turn's start and its end.
 */
static char *default_system(const char *text)
{
    static const char start[] = "<|im_start|>system", end[] = "<|im_end|>";
    for (const char *p = text; (p = strstr(p, start));) {
        p += sizeof start - 1;
        p += *p == '\n' ? 1 : p[0] == '\\' && p[1] == 'n' ? 2 : 0;
        const char *to = strstr(p, end);
        if (to && to > p && is_plain(p, (size_t)(to - p)))
            return mint_xstrndup(p, (size_t)(to - p));
    }
    return NULL;
}

/* sha256 of text without any `cut`, as 64 digits. */
static void canonical(const char *text, const char *cut, char out[MINT_SHA256_TEXT])
{
    struct mint_sha256 sha;
    mint_sha256_init(&sha);
    for (const char *at; cut && (at = strstr(text, cut)); text = at + strlen(cut))
        mint_sha256_add(&sha, text, (size_t)(at - text));
    mint_sha256_add(&sha, text, strlen(text));
    mint_sha256_end_text(&sha, out);
}

/* Escapes of a string literal in Jinja. In place. */
static void unescape(char *s)
{
    char *to = s;
    for (; *s; s++) {
        if (*s == '\\' && s[1]) {
            s++;
            *to++ = (char)(*s == 'n' ? '\n' : *s == 't' ? '\t' : *s);
        } else {
            *to++ = *s;
        }
    }
    *to = '\0';
}

/* Llama 3.1 to 3.3: all lines that render a conversation without tools. */
static bool is_llama31(const char *text)
{
    static const char *const lines[] = {
        "set date_string = \"26 Jul 2024\"",
        "{%- set system_message = messages[0]['content']|trim %}\n    {%- set messages = "
        "messages[1:] %}",
        "{{- \"<|start_header_id|>system<|end_header_id|>\\n\\n\" }}",
        "{{- \"Cutting Knowledge Date: December 2023\\n\" }}\n{{- \"Today Date: \" + date_string + "
        "\"\\n\\n\" }}\n",
        "{{- system_message }}\n{{- \"<|eot_id|>\" }}\n",
        "{{- '<|start_header_id|>' + message['role'] + '<|end_header_id|>\\n\\n'+ "
        "message['content'] | trim + "
        "'<|eot_id|>' }}\n",
        "{%- if add_generation_prompt %}\n    {{- "
        "'<|start_header_id|>assistant<|end_header_id|>\\n\\n' }}\n{%- endif %}",
    };
    if (strncmp(text, "{{- bos_token }}\n", 17) != 0)
        return false;
    for (size_t i = 0; i < MINT_ARRAY_LEN(lines); i++)
        if (!strstr(text, lines[i]))
            return false;
    return true;
}

static int choose(struct mint_chat *c, char *text)
{
    char sha[MINT_SHA256_TEXT];
    tidy(text);
    c->system = default_system(text);
    canonical(text, c->system, sha);
    for (size_t i = 0; i < MINT_ARRAY_LEN(known); i++)
        if (strcmp(known[i].sha, sha + strlen("sha256:")) == 0)
            c->family = family_named(known[i].family);
    if (!c->family && is_llama31(text))
        c->family = family_named("llama3.1");
    if (c->family && c->family->system && c->system)
        unescape(c->system);
    return c->family ? 0 : -1;
}

/* --- a model folder's template. */

/* chat_template: a string, or a list of {"name", "template"} with a "default". free() it. */
static char *config_template(const struct mint_json *j)
{
    mint_json_val v = mint_json_get(j, 0, "chat_template");
    if (mint_json_type(j, v) != MINT_JSON_ARRAY)
        return mint_json_strdup(j, v);
    for (mint_json_val m = mint_json_first(j, v); m != MINT_JSON_NONE; m = mint_json_next(j, m)) {
        char *name = mint_json_strdup(j, mint_json_get(j, m, "name"));
        bool found = name && strcmp(name, "default") == 0;
        free(name);
        if (found)
            return mint_json_strdup(j, mint_json_get(j, m, "template"));
    }
    return NULL;
}

static int read_config_template(const char *path, char **text, struct mint_err *err)
{
    char *json;
    size_t n;
    if (mint_fs_read_file(path, TEMPLATE_MAX, &json, &n, err))
        return -1;
    struct mint_json *j = mint_json_new();
    int bad = mint_json_parse(j, json, n, err);
    if (bad)
        mint_wrap(err, "%s: ", path);
    else
        *text = config_template(j);
    mint_json_free(j);
    free(json);
    return bad;
}

/* *text NULL: the folder has none. */
static int read_template(const char *dir, char **text, struct mint_err *err)
{
    size_t n;
    *text = NULL;
    char *path = mint_fs_join(dir, "chat_template.jinja");
    int bad = 0;
    if (mint_fs_exists(path)) {
        bad = mint_fs_read_file(path, TEMPLATE_MAX, text, &n, err);
    } else {
        free(path);
        path = mint_fs_join(dir, "tokenizer_config.json");
        if (mint_fs_exists(path))
            bad = read_config_template(path, text, err);
    }
    free(path);
    return bad;
}

int mint_chat_open(struct mint_chat **chat, const char *model_dir, struct mint_err *err)
{
    char *text;
    *chat = NULL;
    if (read_template(model_dir, &text, err))
        return -1;
    struct mint_chat *c = mint_xcalloc(1, sizeof *c);
    if (!text || choose(c, text)) {
        struct mint_buf names = MINT_BUF_INIT;
        family_names(&names);
        mint_fail(err, MINT_EMODEL,
                  text ? "%s: the chat template is of no known family (%s); write the prompt "
                         "yourself with --template"
                       : "%s has no chat template (known families: %s); write the prompt yourself "
                         "with --template",
                  model_dir, names.data);
        mint_buf_release(&names);
        free(text);
        mint_chat_close(c);
        return -1;
    }
    free(text);
    *chat = c;
    return 0;
}

int mint_chat_open_family(struct mint_chat **chat, const char *name, struct mint_err *err)
{
    const struct chat_family *f = family_named(name);
    *chat = NULL;
    if (!f) {
        struct mint_buf names = MINT_BUF_INIT;
        family_names(&names);
        mint_fail(err, MINT_EUSAGE, "\"%s\" is no family of chat templates, but one of: %s", name,
                  names.data);
        mint_buf_release(&names);
        return -1;
    }
    *chat = mint_xcalloc(1, sizeof **chat);
    (*chat)->family = f;
    (*chat)->system = f->system ? mint_xstrdup(f->system) : NULL;
    return 0;
}

void mint_chat_close(struct mint_chat *chat)
{
    if (!chat)
        return;
    free(chat->system);
    free(chat);
}

const char *mint_chat_name(const struct mint_chat *chat)
{
    return chat->family->name;
}

bool mint_chat_thinks(const struct mint_chat *chat)
{
    return chat->family->thinks;
}

/* --- encoding. */
static void add_message(struct chat_out *o, const char *role, const char *content, size_t n)
{
    struct chat_msg *m = &o->msgs[o->msgs_n++];
    *m = (struct chat_msg){
        .role = mint_xstrdup(role), .type = MINT_JSON_STRING, .v = MINT_JSON_NONE};
    mint_buf_add(&m->content, content, n);
}

static int read_message(struct chat_out *o, mint_json_val v, size_t i)
{
    mint_json_val content = mint_json_get(o->j, v, "content");
    if (mint_json_type(o->j, v) != MINT_JSON_OBJECT)
        return mint_fail(o->err, MINT_ESCHEMA, "messages[%zu] is no object", i);
    char *role = mint_json_strdup(o->j, mint_json_get(o->j, v, "role"));
    if (!role || !*role) {
        free(role);
        return mint_fail(o->err, MINT_ESCHEMA, "messages[%zu] has no role", i);
    }
    struct chat_msg *m = &o->msgs[o->msgs_n++];
    *m = (struct chat_msg){.role = role, .type = mint_json_type(o->j, content), .v = v};
    mint_json_string(o->j, content, &m->content);
    return 0;
}

static int read_messages(struct chat_out *o, mint_json_val messages)
{
    size_t n = mint_json_size(o->j, messages);
    if (mint_json_type(o->j, messages) != MINT_JSON_ARRAY)
        return mint_fail(o->err, MINT_ESCHEMA, "messages is no array");
    if (n == 0)
        return mint_fail(o->err, MINT_ESCHEMA, "messages is empty");
    if (mint_json_is_numbers(o->j, messages))
        return mint_fail(o->err, MINT_ESCHEMA, "messages[0] is no object");
    o->msgs = mint_xcalloc(n + 1, sizeof *o->msgs);
    mint_json_val v = mint_json_first(o->j, messages);
    if (o->opts->system) {
        char *role = mint_json_strdup(o->j, mint_json_get(o->j, v, "role"));
        o->put_in_front = role && strcmp(role, "system") != 0;
        free(role);
    }
    if (o->put_in_front)
        add_message(o, "system", o->opts->system, strlen(o->opts->system));
    for (size_t i = 0; v != MINT_JSON_NONE; v = mint_json_next(o->j, v), i++)
        if (read_message(o, v, i))
            return -1;
    return 0;
}

static int read_tools(struct chat_out *o, mint_json_val tools)
{
    enum mint_json_type type = mint_json_type(o->j, tools);
    o->tools = MINT_JSON_NONE;
    if (type == MINT_JSON_ABSENT || type == MINT_JSON_NULL)
        return 0;
    if (type != MINT_JSON_ARRAY ||
        (mint_json_size(o->j, tools) && mint_json_is_numbers(o->j, tools)))
        return mint_fail(o->err, MINT_ESCHEMA, "tools is no array of objects");
    if (mint_json_size(o->j, tools) == 0)
        return 0;
    if (!o->chat->family->tools)
        return mint_fail(o->err, MINT_ESCHEMA, "tools are not supported with the template of %s",
                         mint_chat_name(o->chat));
    o->tools = tools;
    return 0;
}

static int encode(struct chat_out *o, struct mint_buf *text, struct mint_tokens *out)
{
    if (o->opts->think != MINT_THINK_DEFAULT && !mint_chat_thinks(o->chat))
        return mint_fail(o->err, MINT_EUSAGE,
                         "thinking cannot be turned on or off with the template of %s",
                         mint_chat_name(o->chat));
    if (o->chat->family->render(o, o->chat->family->variant))
        return -1;
    bool guarded = !o->opts->allow_special;
    mint_buf_reserve(&o->text, 0);
    if (mint_encode_guarded(o->tok, o->text.data, o->text.len, MINT_ENCODE_SPECIAL,
                            guarded ? o->spans : NULL, guarded ? o->spans_n : 0, out, o->err))
        return -1;
    if (text)
        mint_buf_add(text, o->text.data, o->text.len);
    return 0;
}

static void release(struct chat_out *o)
{
    for (size_t i = 0; i < o->msgs_n; i++) {
        free(o->msgs[i].role);
        mint_buf_release(&o->msgs[i].content);
    }
    free(o->msgs);
    free(o->spans);
    mint_buf_release(&o->text);
}

int mint_chat_encode(const struct mint_chat *chat, const struct mint_tokenizer *tok,
                     const struct mint_json *doc, mint_json_val messages, mint_json_val tools,
                     const struct mint_chat_opts *opts, struct mint_buf *text,
                     struct mint_tokens *out, struct mint_err *err)
{
    struct chat_out o = {.chat = chat, .tok = tok, .j = doc, .opts = opts, .err = err};
    int bad = read_messages(&o, messages) || read_tools(&o, tools) || encode(&o, text, out);
    release(&o);
    return bad ? -1 : 0;
}

int mint_chat_encode_user(const struct mint_chat *chat, const struct mint_tokenizer *tok,
                          const char *prompt, size_t n, const struct mint_chat_opts *opts,
                          struct mint_buf *text, struct mint_tokens *out, struct mint_err *err)
{
    struct chat_out o = {
        .chat = chat, .tok = tok, .opts = opts, .tools = MINT_JSON_NONE, .err = err};
    o.msgs = mint_xcalloc(2, sizeof *o.msgs);
    if (opts->system)
        add_message(&o, "system", opts->system, strlen(opts->system));
    add_message(&o, "user", prompt, n);
    int bad = encode(&o, text, out);
    release(&o);
    return bad;
}

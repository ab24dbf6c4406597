/* SPDX-License-Identifier: Apache-2.0 */
/* The families of chat templates, each as one function that writes what the template writes. */
#include "chat_impl.h"

#include <stdlib.h>
#include <string.h>

#include "mem.h"

/* A stretch of text. */
struct part {
    const char *p;
    size_t n;
};

static struct part part_of(const struct mint_buf *b)
{
    return (struct part){b->data ? b->data : "", b->len};
}

static struct part lstrip(struct part s, char c)
{
    while (s.n && *s.p == c)
        s.p++, s.n--;
    return s;
}

static struct part rstrip(struct part s, char c)
{
    while (s.n && s.p[s.n - 1] == c)
        s.n--;
    return s;
}

static const char *first_of(struct part s, const char *what)
{
    return s.n ? memmem(s.p, s.n, what, strlen(what)) : NULL;
}

/* What stands behind the last `what`; all of it if there is none. */
static struct part behind_last(struct part s, const char *what)
{
    size_t len = strlen(what);
    for (const char *at; (at = first_of(s, what));) {
        s.n -= (size_t)(at - s.p) + len;
        s.p = at + len;
    }
    return s;
}

static bool starts_with(struct part s, const char *what)
{
    return s.n >= strlen(what) && memcmp(s.p, what, strlen(what)) == 0;
}

static bool ends_with(struct part s, const char *what)
{
    return s.n >= strlen(what) && memcmp(s.p + s.n - strlen(what), what, strlen(what)) == 0;
}

static void put_part(struct chat_out *o, struct part s)
{
    chat_put(o, s.p, s.n);
}

static bool role_is(const struct chat_out *o, size_t i, const char *role)
{
    return i < o->msgs_n && strcmp(o->msgs[i].role, role) == 0;
}

static int need_text(struct chat_out *o, size_t i)
{
    if (o->msgs[i].type == MINT_JSON_STRING)
        return 0;
    return chat_fail(
        o, i, o->msgs[i].type == MINT_JSON_ABSENT ? "has no content" : "content is not a string");
}

static int bad_role(struct chat_out *o, size_t i)
{
    return chat_fail(
        o, i, "role \"%s\" is none that the template of %s knows: system, user, assistant, tool",
        o->msgs[i].role, mint_chat_name(o->chat));
}

/* "<|im_start|>ROLE\n" */
static void open_turn(struct chat_out *o, size_t i)
{
    chat_lit(o, "<|im_start|>");
    chat_put(o, o->msgs[i].role, strlen(o->msgs[i].role));
    chat_lit(o, "\n");
}

static void whole_turn(struct chat_out *o, size_t i)
{
    open_turn(o, i);
    put_part(o, part_of(&o->msgs[i].content));
    chat_lit(o, "<|im_end|>\n");
}

/* --- Qwen: tools. */
static void tools_text(struct chat_out *o)
{
    chat_lit(o,
             "# Tools\n\nYou may call one or more functions to assist with the user query.\n\n"
             "You are provided with function signatures within <tools></tools> XML tags:\n<tools>");
    if (mint_json_is_numbers(o->j, o->tools))
        return;
    for (mint_json_val t = mint_json_first(o->j, o->tools); t != MINT_JSON_NONE;
         t = mint_json_next(o->j, t)) {
        chat_lit(o, "\n");
        chat_put_json(o, t);
    }
    chat_lit(
        o,
        "\n</tools>\n\nFor each function call, return a json object with function name and "
        "arguments "
        "within <tool_call></tool_call> XML tags:\n<tool_call>\n"
        "{\"name\": <function-name>, \"arguments\": <args-json-object>}\n</tool_call><|im_end|>\n");
}

/* {"name": ..., "arguments": ...} between its tags. json_strings: arguments that are a string are
 * quoted too. */
static int tool_call(struct chat_out *o, size_t i, mint_json_val call, bool json_strings)
{
    struct mint_buf s = MINT_BUF_INIT;
    mint_json_val function = mint_json_get(o->j, call, "function");
    if (mint_json_size(o->j, function))
        call = function;
    mint_json_val arguments = mint_json_get(o->j, call, "arguments");
    if (mint_json_type(o->j, arguments) == MINT_JSON_ABSENT)
        return chat_fail(o, i, "tool_calls: a call has no arguments");
    if (!mint_json_string(o->j, mint_json_get(o->j, call, "name"), &s))
        return chat_fail(o, i, "tool_calls: a call has no name");
    chat_lit(o, "<tool_call>\n{\"name\": \"");
    put_part(o, part_of(&s));
    chat_lit(o, "\", \"arguments\": ");
    mint_buf_reset(&s);
    if (!json_strings && mint_json_string(o->j, arguments, &s))
        put_part(o, part_of(&s));
    else
        chat_put_json(o, arguments);
    chat_lit(o, "}\n</tool_call>");
    mint_buf_release(&s);
    return 0;
}

/* *calls: the array, or NONE if there is nothing in it. */
static int get_tool_calls(struct chat_out *o, size_t i, mint_json_val *calls)
{
    *calls = MINT_JSON_NONE;
    if (o->msgs[i].v == MINT_JSON_NONE)
        return 0;
    mint_json_val v = mint_json_get(o->j, o->msgs[i].v, "tool_calls");
    enum mint_json_type type = mint_json_type(o->j, v);
    if (type == MINT_JSON_ABSENT || type == MINT_JSON_NULL ||
        (type == MINT_JSON_ARRAY && !mint_json_size(o->j, v)))
        return 0;
    if (type != MINT_JSON_ARRAY || mint_json_is_numbers(o->j, v))
        return chat_fail(o, i, "tool_calls is not an array of objects");
    *calls = v;
    return 0;
}

/* The result of a tool: those in a row are one user turn. */
static void tool_turn(struct chat_out *o, size_t i)
{
    if (i == 0 || !role_is(o, i - 1, "tool"))
        chat_lit(o, "<|im_start|>user");
    chat_lit(o, "\n<tool_response>\n");
    put_part(o, part_of(&o->msgs[i].content));
    chat_lit(o, "\n</tool_response>");
    if (!role_is(o, i + 1, "tool"))
        chat_lit(o, "<|im_end|>\n");
}

/* --- Qwen3. The first form wants text in every content; the later ones take anything else as
 * empty. */
static int qwen3_header(struct chat_out *o)
{
    bool system = role_is(o, 0, "system");
    if (system && need_text(o, 0))
        return -1;
    if (o->tools != MINT_JSON_NONE) {
        chat_lit(o, "<|im_start|>system\n");
        if (system) {
            put_part(o, part_of(&o->msgs[0].content));
            chat_lit(o, "\n\n");
        }
        tools_text(o);
    } else if (system) {
        whole_turn(o, 0);
    }
    return 0;
}

/* The last user turn that is no result of a tool in disguise; the last message if there is none. */
static size_t qwen3_last_query(const struct chat_out *o)
{
    for (size_t i = o->msgs_n; i-- > 0;) {
        struct part s = part_of(&o->msgs[i].content);
        if (role_is(o, i, "user") && o->msgs[i].type == MINT_JSON_STRING &&
            !(starts_with(s, "<tool_response>") && ends_with(s, "</tool_response>")))
            return i;
    }
    return o->msgs_n - 1;
}

/* Parts an assistant's text into thinking and answer, or takes the thinking from reasoning_content
 * (into *own). */
static int qwen3_thinking(struct chat_out *o, size_t i, struct mint_buf *own, struct part *thinking,
                          struct part *content)
{
    mint_json_val v = o->msgs[i].v == MINT_JSON_NONE
                          ? MINT_JSON_NONE
                          : mint_json_get(o->j, o->msgs[i].v, "reasoning_content");
    enum mint_json_type type = v == MINT_JSON_NONE ? MINT_JSON_ABSENT : mint_json_type(o->j, v);
    if (type == MINT_JSON_STRING) {
        mint_json_string(o->j, v, own);
        *thinking = part_of(own);
        return 0;
    }
    if (type != MINT_JSON_ABSENT && type != MINT_JSON_NULL)
        return chat_fail(o, i, "reasoning_content is not a string");
    const char *end = first_of(*content, "</think>");
    if (!end)
        return 0;
    struct part before = rstrip((struct part){content->p, (size_t)(end - content->p)}, '\n');
    *thinking = lstrip(behind_last(before, "<think>"), '\n');
    *content = lstrip(behind_last(*content, "</think>"), '\n');
    return 0;
}

static int qwen3_assistant(struct chat_out *o, size_t i, int variant, size_t last_query)
{
    struct mint_buf own = MINT_BUF_INIT;
    struct part content = part_of(&o->msgs[i].content), thinking = {"", 0};
    mint_json_val calls;
    if (get_tool_calls(o, i, &calls) ||
        (variant != CHAT_QWEN3_2507 && qwen3_thinking(o, i, &own, &thinking, &content)))
        return -1;
    open_turn(o, i);
    if (variant != CHAT_QWEN3_2507 && i > last_query && (i + 1 == o->msgs_n || thinking.n)) {
        chat_lit(o, "<think>\n");
        put_part(o, rstrip(lstrip(thinking, '\n'), '\n'));
        chat_lit(o, "\n</think>\n\n");
        put_part(o, lstrip(content, '\n'));
    } else {
        put_part(o, content);
    }
    mint_buf_release(&own); /* was copied */
    bool line = content.n > 0;
    mint_json_val c = calls == MINT_JSON_NONE ? calls : mint_json_first(o->j, calls);
    for (; c != MINT_JSON_NONE; c = mint_json_next(o->j, c)) {
        if (line)
            chat_lit(o, "\n");
        if (tool_call(o, i, c, false))
            return -1;
        line = true;
    }
    chat_lit(o, "<|im_end|>\n");
    return 0;
}

static int qwen3(struct chat_out *o, int variant)
{
    if (qwen3_header(o))
        return -1;
    size_t last_query = qwen3_last_query(o);
    for (size_t i = 0; i < o->msgs_n; i++) {
        if (variant == CHAT_QWEN3_FIRST && need_text(o, i))
            return -1;
        if (role_is(o, i, "user") || (role_is(o, i, "system") && i > 0))
            whole_turn(o, i);
        else if (role_is(o, i, "assistant")) {
            if (qwen3_assistant(o, i, variant, last_query))
                return -1;
        } else if (role_is(o, i, "tool"))
            tool_turn(o, i);
        else if (i > 0 || !role_is(o, i, "system"))
            return bad_role(o, i);
    }
    if (o->opts->add_generation_prompt) {
        chat_lit(o, "<|im_start|>assistant\n");
        if (o->opts->think == MINT_THINK_OFF)
            chat_lit(o, "<think>\n\n</think>\n\n");
    }
    return 0;
}

/* --- Qwen2.5: a default system message, no thinking. */
static int qwen25_header(struct chat_out *o)
{
    bool system = role_is(o, 0, "system");
    if (system && need_text(o, 0))
        return -1;
    chat_lit(o, "<|im_start|>system\n");
    if (system)
        put_part(o, part_of(&o->msgs[0].content));
    else
        chat_lit(o, o->chat->system);
    if (o->tools == MINT_JSON_NONE) {
        chat_lit(o, "<|im_end|>\n");
        return 0;
    }
    chat_lit(o, "\n\n");
    tools_text(o);
    return 0;
}

static int qwen25_calls(struct chat_out *o, size_t i, mint_json_val calls)
{
    const struct chat_msg *m = &o->msgs[i];
    if (m->type != MINT_JSON_ABSENT && m->type != MINT_JSON_NULL && need_text(o, i))
        return -1;
    chat_lit(o, "<|im_start|>assistant");
    if (m->content.len) {
        chat_lit(o, "\n");
        put_part(o, part_of(&m->content));
    }
    for (mint_json_val c = mint_json_first(o->j, calls); c != MINT_JSON_NONE;
         c = mint_json_next(o->j, c)) {
        chat_lit(o, "\n");
        if (tool_call(o, i, c, true))
            return -1;
    }
    chat_lit(o, "<|im_end|>\n");
    return 0;
}

static int qwen25(struct chat_out *o, int variant)
{
    (void)variant;
    if (qwen25_header(o))
        return -1;
    for (size_t i = 0; i < o->msgs_n; i++) {
        mint_json_val calls = MINT_JSON_NONE;
        bool assistant = role_is(o, i, "assistant");
        if (assistant && get_tool_calls(o, i, &calls))
            return -1;
        if (calls != MINT_JSON_NONE) {
            if (qwen25_calls(o, i, calls))
                return -1;
            continue;
        }
        if (need_text(o, i))
            return -1;
        if (assistant || role_is(o, i, "user") || (role_is(o, i, "system") && i > 0))
            whole_turn(o, i);
        else if (role_is(o, i, "tool"))
            tool_turn(o, i);
        else if (i > 0 || !role_is(o, i, "system"))
            return bad_role(o, i);
    }
    if (o->opts->add_generation_prompt)
        chat_lit(o, "<|im_start|>assistant\n");
    return 0;
}

/* --- ChatML, with a default system message (SmolLM2, Qwen2) or without. Roles are free. */
static int chatml(struct chat_out *o, int variant)
{
    (void)variant;
    if (o->chat->system && !role_is(o, 0, "system")) {
        chat_lit(o, "<|im_start|>system\n");
        chat_lit(o, o->chat->system);
        chat_lit(o, "<|im_end|>\n");
    }
    for (size_t i = 0; i < o->msgs_n; i++) {
        mint_json_val calls;
        if (need_text(o, i) || get_tool_calls(o, i, &calls))
            return -1;
        if (calls != MINT_JSON_NONE)
            return chat_fail(o, i, "tool_calls: the template of %s has none",
                             mint_chat_name(o->chat));
        whole_turn(o, i);
    }
    if (o->opts->add_generation_prompt)
        chat_lit(o, "<|im_start|>assistant\n");
    return 0;
}

/* --- Llama 3. */

/* Python's str.strip(): white space and the separators U+001C to U+001F. Bytes of such a character
 * at s, or 0. */
static size_t python_space(const char *s, size_t n)
{
    static const char *const wide[] = {
        "\xc2\x85",     "\xc2\xa0",     "\xe1\x9a\x80", "\xe2\x80\x80", "\xe2\x80\x81",
        "\xe2\x80\x82", "\xe2\x80\x83", "\xe2\x80\x84", "\xe2\x80\x85", "\xe2\x80\x86",
        "\xe2\x80\x87", "\xe2\x80\x88", "\xe2\x80\x89", "\xe2\x80\x8a", "\xe2\x80\xa8",
        "\xe2\x80\xa9", "\xe2\x80\xaf", "\xe2\x81\x9f", "\xe3\x80\x80",
    };
    if (n && (*s == ' ' || (*s >= '\t' && *s <= '\r') || (*s >= 0x1c && *s <= 0x1f)))
        return 1;
    for (size_t i = 0; i < MINT_ARRAY_LEN(wide); i++)
        if (strlen(wide[i]) <= n && memcmp(s, wide[i], strlen(wide[i])) == 0)
            return strlen(wide[i]);
    return 0;
}

static struct part trim(struct part s)
{
    for (size_t k; (k = python_space(s.p, s.n));)
        s.p += k, s.n -= k;
    while (s.n) { /* the last character starts at most three bytes from the end */
        size_t back = 1;
        while (back < s.n && back < 3 && ((unsigned char)s.p[s.n - back] & 0xc0) == 0x80)
            back++;
        if (python_space(s.p + s.n - back, back) != back)
            break;
        s.n -= back;
    }
    return s;
}

static void llama_turn(struct chat_out *o, size_t i)
{
    chat_lit(o, "<|start_header_id|>");
    chat_put(o, o->msgs[i].role, strlen(o->msgs[i].role));
    chat_lit(o, "<|end_header_id|>\n\n");
    put_part(o, trim(part_of(&o->msgs[i].content)));
    chat_lit(o, "<|eot_id|>");
}

static int llama_bos(struct chat_out *o)
{
    size_t n;
    const char *p = mint_token_bytes(o->tok, mint_tokenizer_bos(o->tok), &n);
    if (!p)
        return mint_fail(o->err, MINT_EMODEL,
                         "the chat template begins with a BOS, but the tokenizer has none");
    char *s = mint_xstrndup(p, n);
    chat_lit(o, s);
    free(s);
    return 0;
}

/* variant 0: Llama 3. 1: Llama 3.1 to 3.3, which always have a system turn. */
static int llama3(struct chat_out *o, int variant)
{
    size_t i = 0;
    if (llama_bos(o))
        return -1;
    if (variant == 1) {
        chat_lit(o, "<|start_header_id|>system<|end_header_id|>\n\n"
                    "Cutting Knowledge Date: December 2023\nToday Date: 26 Jul 2024\n\n");
        if (role_is(o, 0, "system")) {
            if (need_text(o, i))
                return -1;
            put_part(o, trim(part_of(&o->msgs[i++].content)));
        }
        chat_lit(o, "<|eot_id|>");
    }
    for (; i < o->msgs_n; i++) {
        mint_json_val calls;
        if (need_text(o, i) || get_tool_calls(o, i, &calls))
            return -1;
        if (calls != MINT_JSON_NONE ||
            (variant == 1 && (role_is(o, i, "tool") || role_is(o, i, "ipython"))))
            return chat_fail(o, i, "tools are not supported with the template of %s",
                             mint_chat_name(o->chat));
        llama_turn(o, i);
    }
    if (o->opts->add_generation_prompt)
        chat_lit(o, "<|start_header_id|>assistant<|end_header_id|>\n\n");
    return 0;
}

const struct chat_family chat_families[] = {
    {"qwen3", qwen3, CHAT_QWEN3, true, true, NULL},
    {"qwen3-first", qwen3, CHAT_QWEN3_FIRST, true, true, NULL},
    {"qwen3-2507", qwen3, CHAT_QWEN3_2507, true, false, NULL},
    {"qwen2.5", qwen25, 0, true, false,
     "You are Qwen, created by Alibaba Cloud. You are a helpful assistant."},
    {"llama3", llama3, 0, false, false, NULL},
    {"llama3.1", llama3, 1, false, false, NULL},
    {"smollm2", chatml, 0, false, false,
     "You are a helpful AI assistant named SmolLM, trained by Hugging Face"},
    {"chatml", chatml, 0, false, false, NULL},
};
const size_t chat_families_n = MINT_ARRAY_LEN(chat_families);

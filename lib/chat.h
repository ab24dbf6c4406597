/* SPDX-License-Identifier: Apache-2.0 */
/*
 * chat.h: chat templates of the known families, built in (no Jinja interpreter): Qwen3 (both
 * published forms, and the 2507 instruct one), Qwen2.5, Llama 3 and 3.1 to 3.3, SmolLM2, ChatML.
 *
 * The family is chosen by the model folder's template (chat_template.jinja, else chat_template in
 * tokenizer_config.json): by the sha256 of its text with the default system message taken out, so
 * that models of one family that differ in that message only are known too; Llama 3.1 to 3.3, which
 * differ in how they treat tools, by the lines that render the rest. An unknown template is an
 * error that says so. Reference: goldens rendered by Jinja2 as transformers does. Where the
 * reference would render Python's view of a value that is no text ("None"), or leave a message or
 * the tools out without a word, there is an error instead. Llama's "Today Date" is 26 Jul 2024, the
 * template's own fallback: a run must not depend on the day.
 */
#ifndef MINT_CHAT_H
#define MINT_CHAT_H

#include "base.h"
#include "buf.h"
#include "err.h"
#include "json.h"
#include "tokenizer.h"

enum mint_chat_think { MINT_THINK_DEFAULT, MINT_THINK_ON, MINT_THINK_OFF };

struct mint_chat; /* read-only after open */
int mint_chat_open(struct mint_chat **chat, const char *model_dir, struct mint_err *err);
/* By name, whatever the model folder says: "qwen3", "qwen3-first" (the first published form),
 * "qwen3-2507", "qwen2.5", "llama3", "llama3.1", "smollm2", "chatml". An unknown name is an error
 * that lists them. */
int mint_chat_open_family(struct mint_chat **chat, const char *name, struct mint_err *err);
void mint_chat_close(struct mint_chat *chat);             /* NULL is fine */
const char *mint_chat_name(const struct mint_chat *chat); /* as above */
/* MINT_THINK_ON and _OFF mean something to this family ("qwen3", "qwen3-first"); elsewhere they are
 * errors. */
bool mint_chat_thinks(const struct mint_chat *chat);

/*
 * Render doc's messages (an array of {"role","content",...}) and tools (array or NONE) as the
 * template does, with the generation prompt if asked, and append the ids to out. text (may be NULL)
 * gets the whole rendering, appended. The rendering is encoded as ONE text (merges across the
 * borders of template and content as in the reference), but control strings in content
 * ("<|im_end|>") do not become control tokens unless allow_special is set: special tokens are
 * recognised in the template's own text alone. Added tokens that are not special ("<think>") are,
 * everywhere. Errors name the message: "messages[2].content ...". No BOS is added to what the
 * template writes.
 */
struct mint_chat_opts {
    bool add_generation_prompt;
    enum mint_chat_think think;
    bool allow_special; /* special strings in content become special tokens, as transformers does */
    const char *system; /* put a system message in front if messages does not begin with one; NULL:
                           nothing */
};
int mint_chat_encode(const struct mint_chat *chat, const struct mint_tokenizer *tok,
                     const struct mint_json *doc, mint_json_val messages, mint_json_val tools,
                     const struct mint_chat_opts *opts, struct mint_buf *text,
                     struct mint_tokens *out, struct mint_err *err);
/* One user turn with this text. */
int mint_chat_encode_user(const struct mint_chat *chat, const struct mint_tokenizer *tok,
                          const char *prompt, size_t n, const struct mint_chat_opts *opts,
                          struct mint_buf *text, struct mint_tokens *out, struct mint_err *err);

#endif

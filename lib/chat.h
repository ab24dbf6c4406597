/* SPDX-License-Identifier: Apache-2.0 */
/*
 * chat.h: chat templates of the known families, built in (no Jinja interpreter): Qwen3 (both published forms), Qwen2.5,
 * Llama 3.x, SmolLM2/ChatML. The family is chosen by what the chat_template in tokenizer_config.json (or
 * chat_template.jinja) is: compared by the sha256 of its text, or by the marks that tell the family apart where that is safe.
 * An unknown template is an error that says so. Reference: goldens rendered by Jinja2 as transformers does.
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
void mint_chat_close(struct mint_chat *chat);
const char *mint_chat_name(const struct mint_chat *chat); /* "qwen3", ... */

/*
 * Render doc's messages (an array of {"role","content",...}) and tools (array or NONE) as the template does, with the
 * generation prompt if asked. Control strings in user content ("<|im_end|>") must not become control tokens: the result
 * is therefore a list of pieces, template text and content in turn, and mint_chat_encode encodes template pieces with
 * added tokens and content pieces without, unless allow_special is set. text (may be NULL) gets the whole rendering.
 * Where a piece of content borders on template text, both are encoded as ONE text (BPE merges across the border as the
 * reference does); only special tokens inside content are kept from being recognised.
 */
struct mint_chat_opts {
    bool add_generation_prompt;
    enum mint_chat_think think;
    bool allow_special; /* special strings in content become special tokens, as transformers does */
    const char *system; /* put a system message in front if messages has none; NULL: nothing */
};
int mint_chat_encode(const struct mint_chat *chat, const struct mint_tokenizer *tok, const struct mint_json *doc, mint_json_val messages,
                     mint_json_val tools, const struct mint_chat_opts *opts, struct mint_buf *text, struct mint_tokens *out,
                     struct mint_err *err);
/* One user turn with this text. */
int mint_chat_encode_user(const struct mint_chat *chat, const struct mint_tokenizer *tok, const char *prompt, size_t n,
                          const struct mint_chat_opts *opts, struct mint_buf *text, struct mint_tokens *out, struct mint_err *err);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* A tokenizer without merges: every byte is a token whose id is its value. */
#include "init.h"
#include "json.h"

/*
 * GPT-2's alphabet: printable bytes stand for themselves as Latin-1 characters, the others get the
 * code points from 256 on, in ascending order. That is how a byte-level tokenizer.json spells
 * bytes.
 */
static bool printable(int byte)
{
    return (byte >= 33 && byte <= 126) || (byte >= 161 && byte <= 172) || byte >= 174;
}

static void put_byte(struct mint_buf *b, int byte)
{
    int cp = byte;
    if (!printable(byte)) {
        cp = 256;
        for (int i = 0; i < byte; i++)
            cp += !printable(i);
    }
    char utf8[2] = {(char)(cp < 128 ? cp : 0xc0 | cp >> 6), (char)(0x80 | (cp & 0x3f))};
    mint_json_put_string(b, utf8, cp < 128 ? 1 : 2);
}

static const char *const specials[] = {"<|endoftext|>", "<|im_start|>", "<|im_end|>"};

void mint_init_tokenizer_json(struct mint_buf *b)
{
    mint_buf_adds(b, "{\n  \"version\": \"1.0\",\n  \"truncation\": null,\n  \"padding\": null,\n"
                     "  \"added_tokens\": [");
    for (int i = 0; i < MINT_INIT_TOKENS - 256; i++)
        mint_buf_addf(
            b,
            "%s\n    {\"id\": %d, \"content\": \"%s\", \"single_word\": false, "
            "\"lstrip\": false, \"rstrip\": false, \"normalized\": false, \"special\": true}",
            i ? "," : "", 256 + i, specials[i]);
    mint_buf_adds(b,
                  "\n  ],\n  \"normalizer\": null,\n"
                  "  \"pre_tokenizer\": {\"type\": \"ByteLevel\", \"add_prefix_space\": false, "
                  "\"trim_offsets\": false, \"use_regex\": true},\n"
                  "  \"post_processor\": null,\n"
                  "  \"decoder\": {\"type\": \"ByteLevel\", \"add_prefix_space\": false, "
                  "\"trim_offsets\": false, \"use_regex\": true},\n"
                  "  \"model\": {\n    \"type\": \"BPE\",\n    \"dropout\": null,\n"
                  "    \"unk_token\": null,\n    \"continuing_subword_prefix\": null,\n"
                  "    \"end_of_word_suffix\": null,\n    \"fuse_unk\": false,\n"
                  "    \"byte_fallback\": false,\n    \"ignore_merges\": false,\n    \"vocab\": {");
    for (int i = 0; i < 256; i++) {
        mint_buf_adds(b, i ? ",\n      " : "\n      ");
        put_byte(b, i);
        mint_buf_addf(b, ": %d", i);
    }
    mint_buf_adds(b, "\n    },\n    \"merges\": []\n  }\n}\n");
}

/* Plain ChatML: no default system message, nothing trimmed. */
static const char chat_template[] =
    "{% for message in messages %}{{'<|im_start|>' + message['role'] + '\n' + message['content'] + "
    "'<|im_end|>' + '\n'}}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}"
    "{% endif %}";

void mint_init_tokenizer_config_json(struct mint_buf *b, int32_t max_positions)
{
    mint_buf_adds(b, "{\n  \"add_prefix_space\": false,\n  \"added_tokens_decoder\": {");
    for (int i = 0; i < MINT_INIT_TOKENS - 256; i++)
        mint_buf_addf(
            b,
            "%s\n    \"%d\": {\"content\": \"%s\", \"lstrip\": false, \"normalized\": false, "
            "\"rstrip\": false, \"single_word\": false, \"special\": true}",
            i ? "," : "", 256 + i, specials[i]);
    mint_buf_adds(b, "\n  },\n  \"bos_token\": null,\n  \"chat_template\": ");
    mint_json_put_str(b, chat_template);
    mint_buf_addf(
        b,
        ",\n  \"clean_up_tokenization_spaces\": false,\n  \"eos_token\": \"<|im_end|>\",\n"
        "  \"errors\": \"replace\",\n  \"model_max_length\": %d,\n"
        "  \"pad_token\": \"<|endoftext|>\",\n"
        "  \"tokenizer_class\": \"PreTrainedTokenizerFast\",\n  \"unk_token\": null\n}\n",
        max_positions);
}

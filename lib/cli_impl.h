/* SPDX-License-Identifier: Apache-2.0 */
/* cli_impl.h: what cli.c (parsing, start and end) and cli_help.c, cli_dump.c (texts) share. Private
 * to them. */
#ifndef MINT_CLI_IMPL_H
#define MINT_CLI_IMPL_H

#include "buf.h"
#include "cli.h"

/* The options of a tool in the order of the help: its own, then those of its groups, then the
 * common ones. */
struct mint_cli_iter {
    const struct mint_tool *tool;
    int table;
    size_t at;
};
/* The next option or heading, NULL at the end. Start with {tool, 0, 0}. */
const struct mint_opt *mint_cli_next(struct mint_cli_iter *it);

static inline bool mint_cli_is_switch(const struct mint_opt *o)
{
    return o->type == MINT_OPT_FLAG || o->type == MINT_OPT_COUNT;
}

/* -h and --help and --version have table entries, but no field. */
#define MINT_CLI_NO_FIELD SIZE_MAX

/* How the help names the value: "N", "auto|always|never"; "" for switches. Appended to b. */
void mint_cli_arg_text(struct mint_buf *b, const struct mint_opt *o);
/* true for a choice among so many that the value is "NAME", and what it may be is said apart: */
bool mint_cli_many_choices(const struct mint_opt *o);
void mint_cli_choices_text(struct mint_buf *b, const struct mint_opt *o); /* "One of a, b, c." */
/* The default as text, appended to b; nothing when there is none worth saying. base: the options
 * struct. */
void mint_cli_default_text(struct mint_buf *b, const struct mint_opt *o, const void *base);
/* true for a flag that is on by default: its useful form is --no-NAME. */
bool mint_cli_default_on(const struct mint_opt *o, const void *base);

void mint_cli_usage(struct mint_buf *b, const struct mint_tool *tool);
void mint_cli_help(struct mint_buf *b, const struct mint_tool *tool, const void *base,
                   bool with_more);
void mint_cli_version(struct mint_buf *b, const struct mint_tool *tool);
/* format: "mdoc", "bash", "zsh", "fish"; false if it is none of these. */
bool mint_cli_dump(struct mint_buf *b, const struct mint_tool *tool, const void *base,
                   const char *format);

#endif

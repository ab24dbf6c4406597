/* SPDX-License-Identifier: Apache-2.0 */
/* --dump-options: the option table as a part of the man page and as shell completion. */
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "cli_impl.h"

/* ---- man page ---- */

/* Text for mdoc: sentences on lines of their own, wrapped, with what roff would take for a request
 * escaped. */
static void add_mdoc_text(struct mint_buf *b, const char *text)
{
    int column = 0;
    while (*text) {
        int n = (int)strcspn(text, " \n");
        if (column + 1 + n > 76 && column) {
            mint_buf_addc(b, '\n');
            column = 0;
        }
        if (column)
            mint_buf_addc(b, ' ');
        else if (*text == '.' || *text == '\'')
            mint_buf_adds(b, "\\&");
        for (int i = 0; i < n; i++)
            mint_buf_adds(b, text[i] == '\\' ? "\\e" : (const char[]){text[i], '\0'});
        column += 1 + n;
        bool sentence_ends = n && strchr(".!?", text[n - 1]);
        text += n;
        text += strspn(text, " \n");
        if (sentence_ends && *text) {
            mint_buf_addc(b, '\n');
            column = 0;
        }
    }
    mint_buf_addc(b, '\n');
}

/* The help's line as a sentence. */
static void add_mdoc_help(struct mint_buf *b, const char *help)
{
    struct mint_buf s = MINT_BUF_INIT;
    size_t word = strcspn(help, " ");
    bool plain_word = true;
    for (size_t i = 1; i < word; i++)
        plain_word =
            plain_word && (islower((unsigned char)help[i]) || help[i] == ',' || help[i] == ';');
    mint_buf_adds(&s, help);
    if (plain_word && word > 1 && isalpha((unsigned char)help[0]))
        s.data[0] = (char)toupper((unsigned char)help[0]);
    mint_buf_addc(&s, '.');
    add_mdoc_text(b, s.data);
    mint_buf_release(&s);
}

static void add_mdoc_option(struct mint_buf *b, const struct mint_opt *o, const void *base)
{
    struct mint_buf arg = MINT_BUF_INIT, def = MINT_BUF_INIT;
    mint_cli_arg_text(&arg, o);
    if (o->offset != MINT_CLI_NO_FIELD)
        mint_cli_default_text(&def, o, base);
    mint_buf_adds(b, ".It ");
    if (o->letter)
        mint_buf_addf(b, "Fl %c , ", o->letter);
    mint_buf_addf(b, "Fl -%s%s", mint_cli_default_on(o, base) ? "[no-]" : "", o->name);
    if (arg.len)
        mint_buf_addf(b, " Ar \\&%s", arg.data);
    mint_buf_addc(b, '\n');
    add_mdoc_help(b, o->help);
    if (mint_cli_many_choices(o)) {
        struct mint_buf list = MINT_BUF_INIT;
        mint_cli_choices_text(&list, o);
        add_mdoc_text(b, list.data);
        mint_buf_release(&list);
    }
    if (o->more)
        add_mdoc_text(b, o->more);
    if (def.len && !mint_cli_default_on(o, base)) {
        mint_buf_adds(b, "The default is\n.Cm \\&");
        for (const char *p = def.data; *p; p++)
            mint_buf_adds(b, *p == '\\'   ? "\\e"
                             : *p == ' '  ? "\\ "
                             : *p == '\n' ? "\\en"
                                          : (const char[]){*p, '\0'});
        mint_buf_adds(b, " .\n");
    } else if (def.len) {
        mint_buf_adds(b, "On by default.\n");
    }
    mint_buf_release(&arg);
    mint_buf_release(&def);
}

static void dump_mdoc(struct mint_buf *b, const struct mint_tool *tool, const void *base)
{
    struct mint_cli_iter it = {tool, 0, 0};
    const struct mint_opt *o;
    bool open = false;
    while ((o = mint_cli_next(&it))) {
        if (o->type == MINT_OPT_HEADING) {
            mint_buf_addf(b, "%s.Ss %s\n", open ? ".El\n" : "", o->name);
            open = false;
            continue;
        }
        if (!open)
            mint_buf_adds(b, ".Bl -tag -width Ds\n");
        open = true;
        add_mdoc_option(b, o, base);
    }
    mint_buf_adds(b, ".El\n");
}

/* ---- completion ---- */

enum complete { COMPLETE_NOTHING, COMPLETE_FILE, COMPLETE_DIR, COMPLETE_CHOICE };

static enum complete complete_kind(const struct mint_opt *o)
{
    if (o->type == MINT_OPT_CHOICE)
        return COMPLETE_CHOICE;
    if (!o->arg)
        return COMPLETE_NOTHING;
    if (strstr(o->arg, "FILE") || strstr(o->arg, "PATH"))
        return COMPLETE_FILE;
    if (strstr(o->arg, "DIR") || strstr(o->arg, "CKPT"))
        return COMPLETE_DIR;
    return COMPLETE_NOTHING;
}

static void add_choices(struct mint_buf *b, const struct mint_opt *o)
{
    for (int i = 0; o->choices[i]; i++)
        mint_buf_addf(b, "%s%s", i ? " " : "", o->choices[i]);
}

/* One case of the bash function: what may follow this option. */
static void bash_case(struct mint_buf *b, const struct mint_opt *o)
{
    if (mint_cli_is_switch(o))
        return;
    mint_buf_adds(b, "    ");
    if (o->letter)
        mint_buf_addf(b, "-%c | ", o->letter);
    mint_buf_addf(b, "--%s)\n        ", o->name);
    switch (complete_kind(o)) {
    case COMPLETE_FILE:
        mint_buf_adds(b, "mapfile -t COMPREPLY < <(compgen -f -- \"$cur\")");
        break;
    case COMPLETE_DIR:
        mint_buf_adds(b, "mapfile -t COMPREPLY < <(compgen -d -- \"$cur\")");
        break;
    case COMPLETE_CHOICE:
        mint_buf_adds(b, "mapfile -t COMPREPLY < <(compgen -W '");
        add_choices(b, o);
        mint_buf_adds(b, "' -- \"$cur\")");
        break;
    default:
        mint_buf_adds(b, "COMPREPLY=()");
        break;
    }
    mint_buf_adds(b, "\n        return ;;\n");
}

static void function_name(char *out, size_t cap, const char *tool)
{
    snprintf(out, cap, "_%s", tool);
    for (char *p = out; *p; p++)
        if (*p == '-')
            *p = '_';
}

static void dump_bash(struct mint_buf *b, const struct mint_tool *tool)
{
    char fn[64];
    function_name(fn, sizeof fn, tool->name);
    mint_buf_addf(
        b, "# bash completion for %s\n%s()\n{\n    local cur=$2 prev=$3\n    case $prev in\n",
        tool->name, fn);
    struct mint_cli_iter it = {tool, 0, 0};
    const struct mint_opt *o;
    while ((o = mint_cli_next(&it)))
        if (o->type != MINT_OPT_HEADING)
            bash_case(b, o);
    mint_buf_adds(
        b,
        "    esac\n    if [[ $cur == -* ]]; then\n        mapfile -t COMPREPLY < <(compgen -W '");
    it = (struct mint_cli_iter){tool, 0, 0};
    const char *gap = "";
    while ((o = mint_cli_next(&it))) {
        if (o->type == MINT_OPT_HEADING)
            continue;
        mint_buf_addf(b, "%s--%s", gap, o->name);
        gap = " ";
        if (o->type == MINT_OPT_FLAG && o->offset != MINT_CLI_NO_FIELD)
            mint_buf_addf(b, " --no-%s", o->name);
    }
    mint_buf_addf(b,
                  "' -- \"$cur\")\n    else\n        mapfile -t COMPREPLY < <(compgen -f -- "
                  "\"$cur\")\n    fi\n}\n"
                  "complete -o filenames -F %s %s\n",
                  fn, tool->name);
}

/* Text inside '...[...]' of zsh's _arguments, or inside '...' of fish. */
static void add_quoted(struct mint_buf *b, const char *text, const char *escape)
{
    for (const char *p = text; *p; p++) {
        if (*p == '\'')
            mint_buf_adds(b, "'\\''");
        else if (strchr(escape, *p))
            mint_buf_addf(b, "\\%c", *p);
        else
            mint_buf_addc(b, *p);
    }
}

static void zsh_option(struct mint_buf *b, const struct mint_opt *o, const char *dashes,
                       const char *name)
{
    bool repeats = o->type == MINT_OPT_LIST || o->type == MINT_OPT_COUNT;
    mint_buf_addf(b, "    '%s%s%s%s[", repeats ? "*" : "", dashes, name,
                  mint_cli_is_switch(o) ? ""
                  : dashes[1]           ? "="
                                        : "+");
    add_quoted(b, o->help, "[]:\\");
    mint_buf_adds(b, "]");
    if (!mint_cli_is_switch(o)) {
        mint_buf_addf(b, ":%s:", o->arg ? o->arg : "value");
        switch (complete_kind(o)) {
        case COMPLETE_FILE:
            mint_buf_adds(b, "_files");
            break;
        case COMPLETE_DIR:
            mint_buf_adds(b, "_files -/");
            break;
        case COMPLETE_CHOICE:
            mint_buf_adds(b, "(");
            add_choices(b, o);
            mint_buf_adds(b, ")");
            break;
        default:
            mint_buf_adds(b, " ");
            break;
        }
    }
    mint_buf_adds(b, "' \\\n");
}

static void dump_zsh(struct mint_buf *b, const struct mint_tool *tool)
{
    mint_buf_addf(b, "#compdef %s\n_arguments -s -S \\\n", tool->name);
    struct mint_cli_iter it = {tool, 0, 0};
    const struct mint_opt *o;
    while ((o = mint_cli_next(&it))) {
        if (o->type == MINT_OPT_HEADING)
            continue;
        if (o->letter)
            zsh_option(b, o, "-", (const char[]){o->letter, '\0'});
        zsh_option(b, o, "--", o->name);
    }
    mint_buf_adds(b, "    '*:file:_files'\n");
}

static void dump_fish(struct mint_buf *b, const struct mint_tool *tool)
{
    struct mint_cli_iter it = {tool, 0, 0};
    const struct mint_opt *o;
    mint_buf_addf(b, "# fish completion for %s\n", tool->name);
    while ((o = mint_cli_next(&it))) {
        if (o->type == MINT_OPT_HEADING)
            continue;
        mint_buf_addf(b, "complete -c %s -l %s", tool->name, o->name);
        if (o->letter)
            mint_buf_addf(b, " -s %c", o->letter);
        switch (complete_kind(o)) {
        case COMPLETE_FILE:
            mint_buf_adds(b, " -r -F");
            break;
        case COMPLETE_DIR:
            mint_buf_adds(b, " -x -a '(__fish_complete_directories)'");
            break;
        case COMPLETE_CHOICE:
            mint_buf_adds(b, " -x -a '");
            add_choices(b, o);
            mint_buf_adds(b, "'");
            break;
        default:
            mint_buf_adds(b, mint_cli_is_switch(o) ? "" : " -x");
            break;
        }
        mint_buf_adds(b, " -d '");
        add_quoted(b, o->help, "\\");
        mint_buf_adds(b, "'\n");
    }
}

bool mint_cli_dump(struct mint_buf *b, const struct mint_tool *tool, const void *base,
                   const char *format)
{
    if (strcmp(format, "mdoc") == 0)
        dump_mdoc(b, tool, base);
    else if (strcmp(format, "bash") == 0)
        dump_bash(b, tool);
    else if (strcmp(format, "zsh") == 0)
        dump_zsh(b, tool);
    else if (strcmp(format, "fish") == 0)
        dump_fish(b, tool);
    else
        return false;
    return true;
}

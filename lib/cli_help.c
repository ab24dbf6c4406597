/* SPDX-License-Identifier: Apache-2.0 */
/* What --help, -h and --version say. */
#include <stdio.h>
#include <string.h>
#include <zstd.h>

#include "cli_impl.h"
#include "num.h"

#if defined(__has_include)
#if __has_include("version.h")
#include "version.h"
#endif
#endif
#ifndef MINT_VERSION
#define MINT_VERSION     "0 (built by hand)"
#define MINT_BUILD_FLAGS "unknown flags"
#endif

#define TEXT_WIDTH 96 /* columns that --help uses at most */
#define NAME_WIDTH 34 /* an option longer than this pushes its text to the right */

/* More than fits beside the option: they are listed below it. */
#define CHOICES_WIDTH 36

static void add_choices(struct mint_buf *b, const struct mint_opt *o, const char *gap)
{
    for (int i = 0; o->choices[i]; i++)
        mint_buf_addf(b, "%s%s", i ? gap : "", o->choices[i]);
}

bool mint_cli_many_choices(const struct mint_opt *o)
{
    size_t width = 0;
    for (int i = 0; o->type == MINT_OPT_CHOICE && o->choices[i]; i++)
        width += strlen(o->choices[i]) + 1;
    return width > CHOICES_WIDTH;
}

void mint_cli_choices_text(struct mint_buf *b, const struct mint_opt *o)
{
    mint_buf_adds(b, "One of ");
    add_choices(b, o, ", ");
    mint_buf_addc(b, '.');
}

void mint_cli_arg_text(struct mint_buf *b, const struct mint_opt *o)
{
    if (o->type == MINT_OPT_CHOICE && !mint_cli_many_choices(o))
        add_choices(b, o, "|");
    else if (!mint_cli_is_switch(o))
        mint_buf_adds(b, o->arg ? o->arg : "NAME");
}

static const void *field(const struct mint_opt *o, const void *base)
{
    return (const char *)base + o->offset;
}

bool mint_cli_default_on(const struct mint_opt *o, const void *base)
{
    return o->type == MINT_OPT_FLAG && o->offset != MINT_CLI_NO_FIELD &&
           *(const bool *)field(o, base);
}

/* A value outside of the range means "unset". */
static void number_default(struct mint_buf *b, const struct mint_opt *o, double v)
{
    char text[MINT_NUM_MAX];
    if (!(v >= o->min && v <= o->max) || v > 1e300 || v < -1e300)
        return;
    mint_num_print_double(text, v);
    mint_buf_adds(b, text);
}

void mint_cli_default_text(struct mint_buf *b, const struct mint_opt *o, const void *base)
{
    switch (o->type) {
    case MINT_OPT_INT:
        number_default(b, o, (double)*(const int64_t *)field(o, base));
        break;
    case MINT_OPT_FLOAT:
        number_default(b, o, *(const double *)field(o, base));
        break;
    case MINT_OPT_CHOICE:
        if (*(const int *)field(o, base) >= 0)
            mint_buf_adds(b, o->choices[*(const int *)field(o, base)]);
        break;
    case MINT_OPT_STRING: {
        const char *s = *(const char *const *)field(o, base);
        if (s)
            mint_buf_adds(b, s);
        else if (o->offset == offsetof(struct mint_common, device))
            mint_buf_adds(b, "cpu");
        break;
    }
    case MINT_OPT_FLAG:
        if (mint_cli_default_on(o, base))
            mint_buf_adds(b, "on");
        break;
    default:
        break;
    }
}

void mint_cli_usage(struct mint_buf *b, const struct mint_tool *tool)
{
    mint_buf_addf(b, "usage: %s %s\n", tool->name, tool->synopsis);
}

/* Words of text, wrapped, each line behind indent blanks. */
static void add_wrapped(struct mint_buf *b, const char *text, int indent)
{
    int column = 0;
    while (*text) {
        int n = (int)strcspn(text, " \n");
        if (column && column + 1 + n > TEXT_WIDTH) {
            mint_buf_addc(b, '\n');
            column = 0;
        }
        mint_buf_addf(b, "%*s%.*s", column ? 1 : indent, "", n, text);
        column += n + (column ? 1 : indent);
        text += n;
        text += strspn(text, " \n");
    }
    mint_buf_addc(b, '\n');
}

static void add_option(struct mint_buf *b, const struct mint_opt *o, const void *base,
                       bool with_more)
{
    struct mint_buf left = MINT_BUF_INIT, def = MINT_BUF_INIT;
    if (o->letter)
        mint_buf_addf(&left, "  -%c, ", o->letter);
    else
        mint_buf_adds(&left, "      ");
    mint_buf_addf(&left, "--%s%s", mint_cli_default_on(o, base) ? "[no-]" : "", o->name);
    if (!mint_cli_is_switch(o)) {
        mint_buf_addc(&left, ' ');
        mint_cli_arg_text(&left, o);
    }
    if (o->offset != MINT_CLI_NO_FIELD)
        mint_cli_default_text(&def, o, base);
    mint_buf_addf(b, "%-*s  %s", NAME_WIDTH, left.data, o->help);
    if (def.len)
        mint_buf_addf(b, " [%s]", def.data);
    mint_buf_addc(b, '\n');
    if (mint_cli_many_choices(o)) {
        mint_buf_reset(&def);
        mint_cli_choices_text(&def, o);
        add_wrapped(b, def.data, 10);
    }
    if (with_more && o->more)
        add_wrapped(b, o->more, 10);
    mint_buf_release(&left);
    mint_buf_release(&def);
}

static void add_manners(struct mint_buf *b, const struct mint_tool *tool)
{
    mint_buf_adds(b, "\nExit status:\n"
                     "  0  done and published\n"
                     "  1  failed, nothing published; the message says why\n"
                     "  2  wrong use\n"
                     "  3  done, but some records were skipped, as an option allowed\n"
                     "\nEnvironment:\n");
    if (tool->groups & MINT_CLI_COMPUTE)
        mint_buf_adds(b, "  MINT_THREADS      as --threads, which wins\n"
                         "  MINT_DEVICE       as --device, which wins\n"
                         "  MINT_CPU_ISA      the CPU path: portable, avx2, avx512 or avx512bf16; "
                         "all give the same bits\n"
                         "  MINT_BACKEND_DIR  the folder of mint-cuda.so\n");
    mint_buf_adds(b, "  NO_COLOR          no colours when not empty\n");
    mint_buf_addf(b, "\nThe manual: man %s, man 5 mint-format (the records).\n", tool->name);
}

void mint_cli_help(struct mint_buf *b, const struct mint_tool *tool, const void *base,
                   bool with_more)
{
    struct mint_cli_iter it = {tool, 0, 0};
    const struct mint_opt *o;
    bool first = true;
    mint_cli_usage(b, tool);
    mint_buf_addf(b, "%s: %s\n", tool->name, tool->summary);
    while ((o = mint_cli_next(&it))) {
        if (o->type != MINT_OPT_HEADING) {
            if (first)
                mint_buf_addc(b, '\n');
            add_option(b, o, base, with_more);
        } else if (with_more || first) {
            mint_buf_addf(b, "\n%s:\n", o->name);
        } else {
            mint_buf_addf(b, "%s:\n", o->name);
        }
        first = false;
    }
    if (!with_more)
        return;
    if (tool->examples && tool->examples[0])
        mint_buf_adds(b, "\nExamples:\n");
    for (const char *const *e = tool->examples; e && *e; e++)
        mint_buf_addf(b, "  %s\n", *e);
    add_manners(b, tool);
}

void mint_cli_version(struct mint_buf *b, const struct mint_tool *tool)
{
    mint_buf_addf(b, "%s %s\n", tool->name, MINT_VERSION);
#ifdef __clang__
    mint_buf_addf(b, "compiler: %s\n", __VERSION__);
#else
    mint_buf_addf(b, "compiler: gcc %s\n", __VERSION__);
#endif
    mint_buf_addf(b, "flags: %s\n", MINT_BUILD_FLAGS);
    mint_buf_addf(b, "zstd: %s\n", ZSTD_versionString());
    if (tool->groups & MINT_CLI_COMPUTE)
        mint_buf_addf(b, "backends: cpu (linked in), cuda (mint-cuda.so, when there)\n");
}

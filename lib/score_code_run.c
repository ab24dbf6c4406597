/* SPDX-License-Identifier: Apache-2.0 */
/* A solution against its tests, each in a fresh box. */
#include <stdlib.h>
#include <string.h>

#include "score_code_impl.h"

enum { TEXT_MAX = 400, BINARY_MAX = 64 << 20 };

static const char start_py[] = {
#include "score_code_start.inc"
};
static const char run_py[] = {
#include "score_code_run.inc"
};
static const char value_py[] = {
#include "score_code_value.inc"
};
static const char call_py[] = {
#include "score_code_call.inc"
};
static const char peer_py[] = {
#include "score_code_peer.inc"
};
static const char solution_py[] = {
#include "score_code_solution.inc"
};
static const char judge_py[] = {
#include "score_code_judge.inc"
};

const char *mint_code_verdict_name(enum mint_code_verdict v)
{
    static const char *const names[] = {"ok",     "wrong",  "error",  "timeout",
                                        "memory", "output", "signal", "compile"};
    return names[v];
}

int mint_code_runner_new(struct mint_code_runner **out, const struct mint_code_opts *o,
                         struct mint_err *err)
{
    struct mint_sandbox_opts so = {.none = o->no_sandbox,
                                   .readonly = o->readonly,
                                   .nreadonly = o->nreadonly,
                                   .cgroup = o->cgroup};
    struct mint_code_runner *r = mint_xcalloc(1, sizeof(*r));
    r->o = *o;
    *out = NULL;
    if (mint_sandbox_open(&r->sandbox, &so, err) < 0) {
        free(r);
        return -1;
    }
    r->doc = mint_json_new();
    r->run = mint_xasprintf("%s%s", start_py, run_py);
    r->call = mint_xasprintf("%s%s%s", start_py, value_py, call_py);
    r->solution = mint_xasprintf("%s%s%s", start_py, peer_py, solution_py);
    r->judge_py = mint_xasprintf("%s%s%s%s", start_py, peer_py, value_py, judge_py);
    *out = r;
    return 0;
}

void mint_code_runner_free(struct mint_code_runner *r)
{
    if (!r)
        return;
    mint_box_release(&r->judge);
    mint_sandbox_close(r->sandbox);
    mint_json_free(r->doc);
    mint_buf_release(&r->examined);
    free(r->run);
    free(r->call);
    free(r->solution);
    free(r->judge_py);
    free(r);
}

struct mint_limits mint_code_limits(const struct mint_code_runner *r)
{
    return (struct mint_limits){.wall = r->o.wall_time,
                                .cpu = r->o.cpu_time,
                                .memory = r->o.memory,
                                .processes = r->o.processes,
                                .file_size = r->o.file_size,
                                .output = r->o.output_size,
                                .address_space = true};
}

/* --- words */

void mint_code_put(struct mint_buf *b, const char *key, const char *s, size_t n)
{
    bool cut = n > TEXT_MAX;
    mint_buf_addf(b, "%s\"%s\":", b->len ? "," : "", key);
    if (!cut) {
        mint_json_put_string(b, s, n);
        return;
    }
    n = TEXT_MAX;
    while (n && ((unsigned char)s[n] & 0xc0) == 0x80) /* not inside of a character */
        n--;
    struct mint_buf text = MINT_BUF_INIT;
    mint_buf_add(&text, s, n);
    mint_buf_adds(&text, "...");
    mint_json_put_string(b, text.data, text.len);
    mint_buf_release(&text);
}

int mint_code_box_failed(const struct mint_box *box, struct mint_err *err)
{
    size_t n = box->err_head.len;
    while (n && box->err_head.data[n - 1] == '\n')
        n--;
    return mint_fail(err, MINT_EIO, "the sandbox failed: %.*s", (int)n,
                     n ? box->err_head.data : "");
}

/* The last line of stderr that is not blank. */
static void last_words(const struct mint_box *box, const char **p, size_t *n)
{
    const struct mint_buf *b = box->err_tail.len ? &box->err_tail : &box->err_head;
    size_t end = b->len, start;
    while (end && strchr(" \t\r\n", b->data[end - 1]) && b->data[end - 1])
        end--;
    for (start = end; start && b->data[start - 1] != '\n'; start--)
        ;
    *p = end ? b->data + start : "";
    *n = end - start;
}

void mint_code_blame(const struct mint_box *box, struct mint_code_result *res)
{
    const char *p;
    size_t n;
    last_words(box, &p, &n);
    switch (box->end) {
    case MINT_BOX_WALL:
    case MINT_BOX_CPU:
        res->verdict = MINT_CODE_TIMEOUT;
        mint_code_put(&res->why, "error", "time limit", 10);
        return;
    case MINT_BOX_MEMORY:
        res->verdict = MINT_CODE_MEMORY;
        mint_code_put(&res->why, "error", "memory limit", 12);
        return;
    case MINT_BOX_OUTPUT:
    case MINT_BOX_DISK:
        res->verdict = MINT_CODE_OUTPUT;
        mint_code_put(&res->why, "error", box->end == MINT_BOX_DISK ? "file limit" : "output limit",
                      box->end == MINT_BOX_DISK ? 10 : 12);
        return;
    default:
        break;
    }
    res->verdict = MINT_CODE_ERROR;
    if (box->status > 128 && box->status <= 128 + 64) {
        res->verdict = MINT_CODE_SIGNAL;
        mint_buf_addf(&res->why, "%s\"signal\":%d", res->why.len ? "," : "", box->status - 128);
    } else {
        mint_buf_addf(&res->why, "%s\"exit\":%d", res->why.len ? "," : "", box->status);
    }
    if ((n >= 11 && !memcmp(p, "MemoryError", 11)) || (n && memmem(p, n, "std::bad_alloc", 14)) ||
        (n && memmem(p, n, "out of memory", 13)))
        res->verdict = MINT_CODE_MEMORY;
    if (n)
        mint_code_put(&res->why, "error", p, n);
}

/* --- programs */

char *mint_code_program(const struct mint_code_runner *r, const struct mint_code_lang *lang,
                        struct mint_err *err)
{
    for (const char *at = lang->programs + 1; *at;) {
        size_t n = strcspn(at, " ");
        char *name = mint_xstrndup(at, n);
        char *path = mint_sandbox_find(r->sandbox, name);
        free(name);
        if (path)
            return path;
        at += n + (at[n] == ' ');
    }
    mint_fail(err, MINT_EIO,
              "there is no program for %s in /usr/local/bin, /usr/bin or /bin: install one of%s",
              lang->name, lang->programs);
    return NULL;
}

/* What one test runs. */
struct plan {
    const struct mint_code_lang *lang;
    char *program;                 /* interpreter, or compiler */
    struct mint_box_file files[1]; /* the source, or what it was compiled to */
    struct mint_buf binary;
};

/* 0; 1: does not compile, said in res; -1. */
static int compile(struct mint_code_runner *r, struct plan *p, struct mint_code_result *res,
                   struct mint_err *err)
{
    static const char script[] =
        "\"$0\" -O2 -w -o solution.bin \"$1\" -lm >&2 && exec cat solution.bin";
    char *sh = mint_sandbox_find(r->sandbox, "sh");
    if (!sh)
        return mint_fail(err, MINT_EIO, "there is no program sh");
    const char *const argv[] = {sh, "-c", script, p->program, p->lang->file, NULL};
    struct mint_box_spec spec = {
        .argv = argv, .files = p->files, .nfiles = 1, .limits = mint_code_limits(r)};
    spec.limits.cpu = r->o.compile_time;
    spec.limits.wall = r->o.compile_time * MINT_MAX(1, r->o.wall_time / r->o.cpu_time);
    spec.limits.output = BINARY_MAX;
    spec.limits.processes = MINT_MAX(spec.limits.processes, 16);
    struct mint_box box = {0};
    int rc = mint_box_start(r->sandbox, &spec, &box, err);
    free(sh);
    if (rc < 0)
        return -1;
    mint_box_wait(&box);
    res->seconds = box.seconds;
    if (box.end == MINT_BOX_FAILED) {
        rc = mint_code_box_failed(&box, err);
    } else if (box.end == MINT_BOX_EXITED && (box.status == 126 || box.status == 127)) {
        rc = mint_fail(err, MINT_EIO, "%s cannot be run in the sandbox: %.*s", p->program,
                       (int)box.err_head.len, box.err_head.len ? box.err_head.data : "");
    } else if (box.end == MINT_BOX_EXITED && box.status == 0) {
        p->binary = box.out;
        box.out = (struct mint_buf)MINT_BUF_INIT;
        p->files[0] = (struct mint_box_file){"solution.bin", p->binary.data, p->binary.len, true};
    } else {
        rc = 1;
        mint_code_blame(&box, res);
        if (box.end == MINT_BOX_EXITED) {
            mint_buf_reset(&res->why);
            mint_code_put(&res->why, "error", box.err_head.data, box.err_head.len);
        }
        res->verdict = MINT_CODE_COMPILE;
    }
    mint_box_release(&box);
    return rc;
}

/* --- one test */

static size_t count(const char *const *v)
{
    size_t n = 0;
    while (v && v[n])
        n++;
    return n;
}

/* argv of a program with its arguments; free it. */
static const char **command(const struct mint_code_runner *r, const struct plan *p,
                            const struct mint_code_test *t)
{
    const char *const *args = (const char *const *)t->args;
    const char **v = mint_xcalloc(count(args) + 6, sizeof(*v));
    size_t n = 0;
    if (p->lang->compiled) {
        v[n++] = r->o.no_sandbox ? "./solution.bin" : "/tmp/solution.bin";
    } else {
        v[n++] = p->program;
        if (!strcmp(p->lang->name, "python")) {
            v[n++] = "-sSB";
            v[n++] = "-c";
            v[n++] = t->kind == MINT_CODE_STDIO  ? r->run
                     : t->kind == MINT_CODE_CALL ? r->call
                                                 : r->solution;
        } else {
            v[n++] = p->lang->file;
        }
    }
    for (size_t i = 0; args && args[i]; i++)
        v[n++] = args[i];
    return v;
}

static void judge_stdio(const struct mint_box *box, const struct mint_code_test *t,
                        struct mint_code_result *res)
{
    struct mint_code_diff d;
    if (box->end != MINT_BOX_EXITED || box->status != t->exit_status) {
        mint_code_blame(box, res);
        return;
    }
    if (mint_code_same_text(box->out.data ? box->out.data : "", box->out.len, t->want, t->want_n,
                            &d)) {
        res->verdict = MINT_CODE_OK;
        return;
    }
    res->verdict = MINT_CODE_WRONG;
    mint_buf_addf(&res->why, "\"line\":%zu", d.line);
    mint_code_put(&res->why, "got", d.got, d.got_n);
    mint_code_put(&res->why, "want", d.want, d.want_n);
}

static void judge_call(struct mint_code_runner *r, const struct mint_json *doc,
                       const struct mint_box *box, const struct mint_code_test *t,
                       struct mint_code_result *res)
{
    if (box->end != MINT_BOX_EXITED || box->status != 0) {
        mint_code_blame(box, res);
        return;
    }
    const char *out = box->out.data ? box->out.data : "";
    bool json = mint_json_parse(r->doc, out, box->out.len, NULL) == 0;
    if (json && mint_code_same_value(r->doc, 0, doc, t->expect, t->tolerance)) {
        res->verdict = MINT_CODE_OK;
        return;
    }
    size_t n;
    const char *want = mint_json_raw(doc, t->expect, &n);
    res->verdict = box->out.len ? MINT_CODE_WRONG : MINT_CODE_ERROR;
    mint_code_put(&res->why, "got", out, box->out.len);
    mint_code_put(&res->why, "want", want, n);
}

static int run_test(struct mint_code_runner *r, const struct mint_json *doc, const struct plan *p,
                    const struct mint_code_tests *all, const struct mint_code_test *t,
                    struct mint_code_result *res, struct mint_err *err)
{
    const char **argv = command(r, p, t);
    struct mint_box box = {0};
    struct mint_box_spec spec = {.argv = argv,
                                 .files = p->files,
                                 .nfiles = 1,
                                 .input = t->kind == MINT_CODE_CALL ? t->text : t->input,
                                 .input_n =
                                     t->kind == MINT_CODE_CALL ? strlen(t->text) : t->input_n,
                                 .limits = mint_code_limits(r)};
    /* A JavaScript machine reserves far more than it uses. */
    spec.limits.address_space = strcmp(p->lang->name, "javascript") != 0;
    int rc;
    if (t->kind == MINT_CODE_ASSERT) {
        spec.talk = true;
        spec.limits.output = MINT_MAX(spec.limits.output, 1 << 26);
        rc = mint_code_judge(r, &spec, all, t, res, err);
    } else if ((rc = mint_box_start(r->sandbox, &spec, &box, err)) == 0) {
        mint_box_wait(&box);
        res->seconds = box.seconds;
        if (box.end == MINT_BOX_FAILED)
            rc = mint_code_box_failed(&box, err);
        else if (t->kind == MINT_CODE_STDIO)
            judge_stdio(&box, t, res);
        else
            judge_call(r, doc, &box, t, res);
    }
    mint_box_release(&box);
    free(argv);
    return rc;
}

int mint_code_run(struct mint_code_runner *r, const struct mint_json *doc,
                  const struct mint_code_lang *lang, const struct mint_buf *code,
                  const struct mint_code_tests *t, struct mint_code_result *results,
                  struct mint_err *err)
{
    struct plan p = {.lang = lang, .files = {{lang->file, code->data, code->len, false}}};
    if ((int64_t)code->len > r->o.file_size) {
        for (size_t i = 0; i < t->n; i++)
            results[i].verdict = MINT_CODE_ERROR;
        mint_code_put(&results[0].why, "error", "the program is too large", 24);
        return 0;
    }
    if (!(p.program = mint_code_program(r, lang, err)))
        return -1;
    int rc = lang->compiled ? compile(r, &p, &results[0], err) : 0;
    for (size_t i = 1; rc == 1 && i < t->n; i++)
        results[i].verdict = MINT_CODE_COMPILE;
    for (size_t i = 0; rc == 0 && i < t->n; i++)
        rc = run_test(r, doc, &p, t, &t->v[i], &results[i], err);
    mint_buf_release(&p.binary);
    free(p.program);
    return rc < 0 ? -1 : 0;
}

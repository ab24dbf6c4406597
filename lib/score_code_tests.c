/* SPDX-License-Identifier: Apache-2.0 */
/* The tests of a record, in the forms that are around. */
#include <string.h>

#include "score_code.h"

/* A string's bytes in the arena, '\0'-terminated; NULL if v is none. */
static const char *text_of(const struct mint_json *j, mint_json_val v, struct mint_arena *a,
                           size_t *n)
{
    struct mint_buf b = MINT_BUF_INIT;
    const char *out = NULL;
    mint_buf_reserve(&b, 0);
    if (mint_json_string(j, v, &b)) {
        out = mint_arena_strndup(a, b.data, b.len);
        *n = b.len;
    }
    mint_buf_release(&b);
    return out;
}

static mint_json_val either(const struct mint_json *j, mint_json_val v, const char *a,
                            const char *b)
{
    mint_json_val x = mint_json_get(j, v, a);
    return x != MINT_JSON_NONE ? x : mint_json_get(j, v, b);
}

static int read_args(const struct mint_json *j, mint_json_val v, struct mint_arena *a,
                     struct mint_code_test *t, struct mint_err *err)
{
    size_t n = 0, len;
    t->args = mint_arena_alloc(a, (mint_json_size(j, v) + 1) * sizeof(*t->args));
    if (v != MINT_JSON_NONE && mint_json_type(j, v) != MINT_JSON_ARRAY)
        return mint_json_fail(j, v, err, "must be an array of strings");
    for (mint_json_val e = mint_json_first(j, v); e != MINT_JSON_NONE; e = mint_json_next(j, e)) {
        t->args[n] = text_of(j, e, a, &len);
        if (!t->args[n] || strlen(t->args[n]) != len)
            return mint_json_fail(j, e, err, "must be a string without NUL");
        n++;
    }
    if (n != mint_json_size(j, v))
        return mint_json_fail(j, v, err, "must be an array of strings");
    t->args[n] = NULL;
    return 0;
}

static int read_stdio(const struct mint_json *j, mint_json_val v, mint_json_val in,
                      mint_json_val out, struct mint_arena *a, struct mint_code_test *t,
                      struct mint_err *err)
{
    t->kind = MINT_CODE_STDIO;
    t->input = "";
    if (in != MINT_JSON_NONE && !(t->input = text_of(j, in, a, &t->input_n)))
        return mint_json_fail(j, in, err, "must be a string");
    if (out == MINT_JSON_NONE)
        return mint_json_fail(j, v, err, "has an input, but no \"output\" (or \"stdout\")");
    if (!(t->want = text_of(j, out, a, &t->want_n)))
        return mint_json_fail(j, out, err, "must be a string");
    if (mint_json_type(j, v) != MINT_JSON_OBJECT)
        return read_args(j, MINT_JSON_NONE, a, t, err);
    mint_json_val e = mint_json_get(j, v, "expect_exit");
    if (e != MINT_JSON_NONE &&
        (!mint_json_int(j, e, &t->exit_status) || t->exit_status < 0 || t->exit_status > 255))
        return mint_json_fail(j, e, err, "must be a number from 0 to 255");
    return read_args(j, mint_json_get(j, v, "args"), a, t, err);
}

static int read_call(const struct mint_json *j, mint_json_val v, mint_json_val call,
                     struct mint_arena *a, struct mint_code_test *t, struct mint_err *err)
{
    mint_json_val args = mint_json_get(j, v, "args"), tol = mint_json_get(j, v, "tolerance");
    struct mint_buf b = MINT_BUF_INIT;
    size_t n;
    t->kind = MINT_CODE_CALL;
    t->expect = mint_json_get(j, v, "expect");
    if (t->expect == MINT_JSON_NONE)
        return mint_json_fail(j, v, err, "has a call, but no \"expect\"");
    if (mint_json_type(j, call) != MINT_JSON_STRING)
        return mint_json_fail(j, call, err, "must be a string");
    if (args != MINT_JSON_NONE && mint_json_type(j, args) != MINT_JSON_ARRAY)
        return mint_json_fail(j, args, err, "must be an array");
    if (tol != MINT_JSON_NONE && (!mint_json_double(j, tol, &t->tolerance) || t->tolerance < 0))
        return mint_json_fail(j, tol, err, "must be a number, not below 0");
    const char *raw = mint_json_raw(j, call, &n);
    mint_buf_adds(&b, "{\"call\":");
    mint_buf_add(&b, raw, n);
    if (args != MINT_JSON_NONE) {
        raw = mint_json_raw(j, args, &n);
        mint_buf_adds(&b, ",\"args\":");
        mint_buf_add(&b, raw, n);
    }
    mint_buf_addc(&b, '}');
    t->text = mint_arena_strndup(a, b.data, b.len);
    mint_buf_release(&b);
    return 0;
}

static int read_assert(const struct mint_json *j, mint_json_val v, struct mint_arena *a,
                       struct mint_code_test *t, struct mint_err *err)
{
    size_t n;
    t->kind = MINT_CODE_ASSERT;
    t->text = text_of(j, v, a, &n);
    return t->text ? 0 : mint_json_fail(j, v, err, "must be a string");
}

static int read_test(const struct mint_json *j, mint_json_val v, struct mint_arena *a,
                     struct mint_code_test *t, struct mint_err *err)
{
    *t = (struct mint_code_test){.expect = MINT_JSON_NONE};
    if (mint_json_type(j, v) == MINT_JSON_STRING)
        return read_assert(j, v, a, t, err);
    mint_json_val call = mint_json_get(j, v, "call"), claim = mint_json_get(j, v, "assert");
    mint_json_val in = either(j, v, "input", "stdin"), out = either(j, v, "output", "stdout");
    if (claim != MINT_JSON_NONE)
        return read_assert(j, claim, a, t, err);
    if (call != MINT_JSON_NONE)
        return read_call(j, v, call, a, t, err);
    if (in != MINT_JSON_NONE || out != MINT_JSON_NONE)
        return read_stdio(j, v, in, out, a, t, err);
    return mint_json_fail(j, v, err,
                          "is no test: a string of asserts, {\"input\",\"output\"}, "
                          "{\"call\",\"expect\"} or {\"assert\"}");
}

/* {"inputs": [...], "outputs": [...]} */
static int read_columns(const struct mint_json *j, mint_json_val v, struct mint_arena *a,
                        struct mint_code_tests *t, struct mint_err *err)
{
    mint_json_val in = mint_json_get(j, v, "inputs"), out = mint_json_get(j, v, "outputs");
    if (mint_json_type(j, in) != MINT_JSON_ARRAY || mint_json_type(j, out) != MINT_JSON_ARRAY ||
        mint_json_size(j, in) != mint_json_size(j, out))
        return mint_json_fail(j, v, err,
                              "must be an array, or an object with \"inputs\" and "
                              "\"outputs\", arrays of the same length");
    t->v = mint_arena_alloc(a, (mint_json_size(j, in) + 1) * sizeof(*t->v));
    mint_json_val x = mint_json_first(j, in), y = mint_json_first(j, out);
    for (; x != MINT_JSON_NONE && y != MINT_JSON_NONE; t->n++) {
        t->v[t->n] = (struct mint_code_test){.expect = MINT_JSON_NONE};
        MINT_TRY(read_stdio(j, x, x, y, a, &t->v[t->n], err));
        x = mint_json_next(j, x);
        y = mint_json_next(j, y);
    }
    return 0;
}

static int read_all(const struct mint_json *j, mint_json_val v, struct mint_arena *a,
                    struct mint_code_tests *t, struct mint_err *err)
{
    if (mint_json_type(j, v) == MINT_JSON_OBJECT)
        return read_columns(j, v, a, t, err);
    bool one = mint_json_type(j, v) == MINT_JSON_STRING;
    if (!one && mint_json_type(j, v) != MINT_JSON_ARRAY)
        return mint_json_fail(j, v, err, "must be an array of tests, or a string");
    t->v = mint_arena_alloc(a, ((one ? 1 : mint_json_size(j, v)) + 1) * sizeof(*t->v));
    if (one) {
        t->n = 1;
        return read_test(j, v, a, &t->v[0], err);
    }
    for (mint_json_val e = mint_json_first(j, v); e != MINT_JSON_NONE; e = mint_json_next(j, e))
        MINT_TRY(read_test(j, e, a, &t->v[t->n++], err));
    if (t->n < mint_json_size(j, v)) /* numbers have no values of their own */
        return mint_json_fail(j, v, err, "must be an array of tests, not of numbers");
    return 0;
}

static int read_name(const struct mint_json *j, const char *key, struct mint_arena *a,
                     const char **out, struct mint_err *err)
{
    size_t n;
    mint_json_val v = mint_json_get(j, 0, key);
    if (mint_json_type(j, v) == MINT_JSON_ABSENT || mint_json_type(j, v) == MINT_JSON_NULL)
        return 0;
    *out = text_of(j, v, a, &n);
    return *out ? 0 : mint_json_fail(j, v, err, "must be a string");
}

/* One test that wants no output is a test among others; nothing but such ones is none. */
static bool all_silent(const struct mint_code_tests *t)
{
    for (size_t i = 0; i < t->n; i++) {
        struct mint_code_diff d;
        if (t->v[i].kind != MINT_CODE_STDIO || t->v[i].exit_status ||
            !mint_code_same_text("", 0, t->v[i].want, t->v[i].want_n, &d))
            return false;
    }
    return true;
}

static void keep_raw(const struct mint_json *j, mint_json_val v, struct mint_arena *a,
                     struct mint_code_tests *t)
{
    struct mint_buf b = MINT_BUF_INIT;
    size_t n;
    const char *raw = mint_json_raw(j, v, &n);
    mint_buf_add(&b, raw, n);
    mint_buf_addf(&b, "\n%s\n%s", t->setup ? t->setup : "", t->entry ? t->entry : "");
    t->raw = mint_arena_strndup(a, b.data, b.len);
    t->raw_n = b.len;
    mint_buf_release(&b);
}

int mint_code_tests_read(const struct mint_json *j, const char *field, struct mint_arena *arena,
                         struct mint_code_tests *t, struct mint_err *err)
{
    mint_json_val v = mint_json_get(j, 0, field);
    *t = (struct mint_code_tests){0};
    if (mint_json_type(j, v) == MINT_JSON_ABSENT || mint_json_type(j, v) == MINT_JSON_NULL)
        return mint_fail(err, MINT_ESCHEMA,
                         "the record has no \"%s\" to run: name the field with --tests-field",
                         field);
    MINT_TRY(read_all(j, v, arena, t, err));
    if (!t->n)
        return mint_json_fail(j, v, err, "holds no test");
    if (all_silent(t))
        return mint_json_fail(j, v, err, "tests nothing: a program that does nothing passes");
    MINT_TRY(read_name(j, "setup", arena, &t->setup, err));
    MINT_TRY(read_name(j, "entry_point", arena, &t->entry, err));
    keep_raw(j, v, arena, t);
    return 0;
}

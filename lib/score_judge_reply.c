/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How a judge's reply is read. The rules are strict on purpose: the first number of a reply is no
 * score ("there are 5 reasons for a 9"), nor is a word of praise. What does not fit is no score.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "num.h"
#include "score_judge.h"

struct text {
    const char *p;
    size_t n;
};

static bool in(char c, const char *set)
{
    return c && strchr(set, c);
}

/* Without white space and the marks that Markdown and quoting put around a word. */
static struct text bare(struct text t)
{
    static const char marks[] = " \t\r\n*_`#>\"'()[]";
    while (t.n && in(*t.p, marks))
        t.p++, t.n--;
    while (t.n && (in(t.p[t.n - 1], marks) || in(t.p[t.n - 1], ".!")))
        t.n--;
    return t;
}

/* What comes behind the thinking; of a reply that was cut, without its last line, which may be half
 * of one ("Score: 1" of "Score: 10"). false: the reply ends inside of its thinking. */
static bool behind_thinking(struct text *t, bool cut)
{
    static const char open[] = "<think>", close[] = "</think>";
    const char *end = t->p + t->n, *last = NULL;
    for (const char *p = t->p; (p = memmem(p, (size_t)(end - p), close, sizeof(close) - 1));)
        last = p += sizeof(close) - 1;
    if (last)
        *t = (struct text){last, (size_t)(end - last)};
    bool thinks = memmem(t->p, t->n, open, sizeof(open) - 1);
    while (cut && t->n && t->p[t->n - 1] != '\n')
        t->n--;
    return !thinks;
}

static bool next_line(struct text *t, struct text *line)
{
    if (!t->n)
        return false;
    const char *nl = memchr(t->p, '\n', t->n);
    size_t n = nl ? (size_t)(nl - t->p) : t->n, skip = n + (nl != NULL);
    *line = bare((struct text){t->p, n});
    t->p += skip;
    t->n -= skip;
    return true;
}

/* Takes word, in any case, off the front: it must end there. */
static bool take_word(struct text *t, const char *word)
{
    size_t n = strlen(word);
    if (t->n < n || strncasecmp(t->p, word, n))
        return false;
    if (t->n > n && ((t->p[n] | 32) >= 'a' && (t->p[n] | 32) <= 'z'))
        return false;
    *t = bare((struct text){t->p + n, t->n - n});
    return true;
}

/* "Final Score: REST" with one of the words: REST. */
static bool labelled(struct text *t, const char *const *words)
{
    struct text at = *t;
    (void)(take_word(&at, "final") || take_word(&at, "overall") || take_word(&at, "my"));
    for (; *words; words++) {
        if (!take_word(&at, *words))
            continue;
        if (!at.n || (*at.p != ':' && *at.p != '='))
            return false;
        *t = bare((struct text){at.p + 1, at.n - 1});
        return true;
    }
    return false;
}

static size_t take_number(struct text *t, double *v)
{
    bool is_int;
    size_t plus = t->n && *t->p == '+', n = mint_num_scan(t->p + plus, t->n - plus, &is_int);
    if (!n || (plus && t->p[1] == '-'))
        return 0;
    *v = mint_num_double(t->p + plus, n);
    t->p += n + plus;
    t->n -= n + plus;
    return n;
}

/* "N", "N/HI", "N out of HI" and nothing else. */
static bool read_number(struct text t, double hi, double *v)
{
    double most;
    if (!take_number(&t, v) || !isfinite(*v))
        return false;
    t = bare(t);
    if (!t.n)
        return true;
    if (*t.p == '/') {
        t = bare((struct text){t.p + 1, t.n - 1});
    } else if (!take_word(&t, "out") || !take_word(&t, "of")) {
        return false;
    }
    return take_number(&t, &most) && !t.n && most == hi;
}

static int fail(char why[MINT_JUDGE_WHY], const char *text)
{
    snprintf(why, MINT_JUDGE_WHY, "%s", text);
    return -1;
}

int mint_judge_read_score(const char *reply, size_t n, bool cut, double lo, double hi,
                          double *score, char why[MINT_JUDGE_WHY])
{
    static const char *const words[] = {"score", "rating", NULL};
    struct text all = {reply, n}, line;
    if (!behind_thinking(&all, cut))
        return fail(why, "unparsed: the reply ends inside of its thinking");
    bool found = !cut && read_number(bare(all), hi, score);
    while (!found && next_line(&all, &line)) {
        double v;
        if (!labelled(&line, words))
            continue;
        if (!read_number(line, hi, &v))
            return fail(why, "unparsed: a line \"Score:\" has no number of the scale");
        for (struct text rest = all; next_line(&rest, &line);) {
            double other;
            if (labelled(&line, words) && (!read_number(line, hi, &other) || other != v))
                return fail(why, "unparsed: several lines \"Score:\" differ");
        }
        *score = v;
        found = true;
    }
    if (!found)
        return fail(why, "unparsed: the reply has no line \"Score: N\"");
    if (*score < lo || *score > hi) {
        snprintf(why, MINT_JUDGE_WHY, "out of range: %.17g is not within %.17g and %.17g", *score,
                 lo, hi);
        return -1;
    }
    return 0;
}

static bool read_choice(struct text t, enum mint_judge_verdict *v)
{
    (void)(take_word(&t, "response") || take_word(&t, "answer"));
    if (t.n == 3 && !strncasecmp(t.p, "tie", 3)) {
        *v = MINT_JUDGE_TIE;
        return true;
    }
    if (t.n != 1 || (*t.p != 'A' && *t.p != 'B'))
        return false;
    *v = *t.p == 'A' ? MINT_JUDGE_A : MINT_JUDGE_B;
    return true;
}

int mint_judge_read_verdict(const char *reply, size_t n, bool cut, enum mint_judge_verdict *verdict,
                            char why[MINT_JUDGE_WHY])
{
    static const char *const words[] = {"verdict", "winner", NULL};
    struct text all = {reply, n}, line;
    bool found = false;
    if (!behind_thinking(&all, cut))
        return fail(why, "unparsed: the reply ends inside of its thinking");
    if (!cut && read_choice(bare(all), verdict))
        return 0;
    while (next_line(&all, &line)) {
        enum mint_judge_verdict v;
        if (!labelled(&line, words))
            continue;
        if (!read_choice(line, &v))
            return fail(why, "unparsed: a line \"Verdict:\" says neither A, B nor tie");
        if (found && v != *verdict)
            return fail(why, "unparsed: several lines \"Verdict:\" differ");
        *verdict = v;
        found = true;
    }
    return found ? 0 : fail(why, "unparsed: the reply has no line \"Verdict: X\"");
}

int mint_judge_scale(const char *text, double *lo, double *hi, struct mint_err *err)
{
    struct text t = {text ? text : "0:10", strlen(text ? text : "0:10")};
    if (take_number(&t, lo) && t.n && *t.p == ':') {
        t.p++, t.n--;
        if (take_number(&t, hi) && !t.n && isfinite(*lo) && isfinite(*hi) && *lo < *hi &&
            isfinite(*hi - *lo))
            return 0;
    }
    return mint_fail(err, MINT_EUSAGE, "--scale \"%.100s\": want LO:HI with LO < HI, such as 0:10",
                     text);
}

int mint_judge_ring(const char *text, int64_t *ring, struct mint_err *err)
{
    *ring = 0;
    if (!text || !strcmp(text, "all"))
        return 0;
    if (!strncmp(text, "ring:", 5) && mint_num_arg_int(text + 5, ring) && *ring >= 1)
        return 0;
    return mint_fail(err, MINT_EUSAGE, "--pairs \"%.100s\": want all, or ring:K with K >= 1", text);
}

bool mint_judge_paired(size_t i, size_t j, size_t n, int64_t ring)
{
    size_t far = i < j ? j - i : i - j;
    return i != j && (ring == 0 || (uint64_t)MINT_MIN(far, n - far) <= (uint64_t)ring);
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How many responses a second mint-score math judges on one core: plain numbers behind a sentence
 * of reasoning, in a box; fractions against decimals; polynomials; radicals; and the longest time
 * that any text made to be slow takes. Times are of the processor: others on the machine do not
 * count.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "math_equal.h"
#include "math_eval.h"
#include "math_extract.h"
#include "math_read.h"

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static bool judge(struct mint_math *m, const char *text, size_t n, const char *gold, size_t gold_n)
{
    struct mint_math_found f, g;
    struct mint_math_reading a, b;
    const char *why;
    mint_math_reset(m);
    mint_math_extract(text, n, MINT_MATH_AUTO, false, &f);
    mint_math_extract_gold(gold, gold_n, &g);
    if (!f.s || !g.s)
        return false;
    mint_math_read(m, g.s, g.n, false, &b);
    mint_math_read(m, f.s, f.n, f.phrase, &a);
    return mint_math_equal(m, &a, &b, &why);
}

static void rate(struct mint_math *m, const char *what, const char *answer, const char *gold)
{
    struct mint_buf text = MINT_BUF_INIT;
    double best = 0;
    size_t right = 0;
    for (int i = 0; i < 20; i++)
        mint_buf_addf(&text, "Then %d and %d make %d, which is needed below.\n", i, i + 1,
                      2 * i + 1);
    mint_buf_addf(&text, "So we get $\\boxed{%s}$.\n", answer);
    for (int round = 0; round < 5; round++) {
        enum { TIMES = 2000 };
        double start = now();
        for (int i = 0; i < TIMES; i++)
            right += judge(m, text.data, text.len, gold, strlen(gold));
        double each = TIMES / (now() - start);
        best = each > best ? each : best;
    }
    printf("math %-28s %9.0f responses/s of %zu bytes (%s)\n", what, best, text.len,
           right ? "right" : "wrong");
    mint_buf_release(&text);
}

static double slowest(struct mint_math *m)
{
    static const struct {
        const char *part;
        size_t times;
    } t[] = {
        {"(", 1 << 20},
        {"\\frac", 200000},
        {"\\frac{", 10000},
        {"9", 200000},
        {"9^", 30000},
        {"x+", 30000},
        {"(x+1)", 1000},
        {"\\sqrt{2}+\\pi,", 199},
        {"4000!^{4000}+", 100},
        {"\\sin(x)^{3}\\cos(y)^{5}+", 100},
        {"(a+b+c+d+e+f+g+h)^{60}", 1},
        {"answer is ", 100000},
        {"\\boxed{", 100000},
        {"3999!+", 500},
        {"\\frac{3999!}{3998!}+", 300},
        {"x^{1/3}+", 500},
    };
    double worst = 0;
    for (size_t i = 0; i < MINT_ARRAY_LEN(t); i++) {
        struct mint_buf b = MINT_BUF_INIT;
        mint_buf_adds(&b, "\\boxed{");
        for (size_t k = 0; k < t[i].times; k++)
            mint_buf_adds(&b, t[i].part);
        mint_buf_adds(&b, "1}");
        for (int twice = 0; twice < 2; twice++) {
            /* against a number, and against nearly itself */
            size_t cut = twice ? 7 : b.len - 1;
            double start = now();
            judge(m, b.data, b.len, twice ? b.data + cut : "5", twice ? b.len - cut - 2 : 1);
            double s = now() - start;
            worst = s > worst ? s : worst;
        }
        mint_buf_release(&b);
    }
    return worst;
}

int main(void)
{
    struct mint_math m = {0};
    mint_math_reset(&m);
    rate(&m, "a number", "1234", "1234");
    rate(&m, "another number", "1235", "1234");
    rate(&m, "fraction and decimal", "\\frac{1}{8}", "0.125");
    rate(&m, "polynomial", "(x+1)^2(x-3)", "x^3-x^2-5x-3");
    rate(&m, "radicals", "\\sqrt{12}+\\frac{1}{\\sqrt{3}}", "\\frac{7\\sqrt{3}}{3}");
    rate(&m, "function of x", "\\sin^2 x+\\cos^2 x", "1");
    printf("math %-28s %9.1f ms\n", "slowest of hostile texts", 1000 * slowest(&m));
    mint_math_release(&m);
    mint_math_eval_done();
    return 0;
}

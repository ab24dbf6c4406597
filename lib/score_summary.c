/* SPDX-License-Identifier: Apache-2.0 */
#include "score_summary.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mem.h"

static const double z95 = 1.959963984540054;

double mint_pass_at_k(uint64_t n, uint64_t c, uint64_t k)
{
    if (n - c < k)
        return 1;
    double miss = 1; /* C(n-c, k) / C(n, k) as a product of factors below 1: nothing overflows */
    for (uint64_t i = n - c + 1; i <= n; i++)
        miss *= 1 - (double)k / (double)i;
    return 1 - miss;
}

void mint_wilson(uint64_t c, uint64_t n, double *lo, double *hi)
{
    *lo = 0;
    *hi = 1;
    if (!n)
        return;
    double p = (double)c / (double)n, z2 = z95 * z95 / (double)n;
    double mid = (p + z2 / 2) / (1 + z2);
    double half = z95 / (1 + z2) * sqrt(p * (1 - p) / (double)n + z2 / (4 * (double)n));
    *lo = c ? mid - half : 0;
    *hi = c < n ? mid + half : 1;
}

/* The answer that sequence i gave: the scorer's, or with none, the last one that an earlier scorer
 * left in the detail. false: it has none. */
static bool answer_of(const struct mint_scored *s, size_t i, struct mint_buf *out)
{
    const struct mint_score *score = &s->scores[i];
    const struct mint_json *j = s->r->doc;
    if (score->has_answer) {
        mint_buf_add(out, score->answer.data, score->answer.len);
        return true;
    }
    mint_json_val detail = mint_json_get(j, s->group.seqs[i].val, "detail");
    bool found = false;
    for (mint_json_val v = mint_json_first(j, detail); v != MINT_JSON_NONE;
         v = mint_json_next(j, v)) {
        mint_json_val a = mint_json_get(j, v, "answer");
        if (mint_json_type(j, a) != MINT_JSON_STRING && mint_json_type(j, a) != MINT_JSON_NUMBER)
            continue;
        size_t n;
        const char *raw = mint_json_raw(j, a, &n);
        mint_buf_reset(out);
        mint_buf_add(out, raw, n);
        found = true;
    }
    return found;
}

struct vote {
    char *text;
    size_t n, count;
    bool right;
};

static void add_votes(struct mint_summary *m, const struct mint_scoring *c,
                      const struct mint_scored *s)
{
    size_t n = s->group.nseqs, kinds = 0, best = 0;
    struct vote *v = mint_xcalloc(n + 1, sizeof(*v));
    struct mint_buf b = MINT_BUF_INIT;
    double reward;
    for (size_t i = 0; i < n; i++) {
        mint_buf_reset(&b);
        if (!mint_scored_reward(c, s, i, &reward) || !answer_of(s, i, &b))
            continue;
        size_t k = 0;
        while (k < kinds && (v[k].n != b.len || memcmp(v[k].text, b.data ? b.data : "", b.len)))
            k++;
        if (k == kinds)
            v[kinds++] = (struct vote){.text = mint_xstrndup(b.data ? b.data : "", b.len),
                                       .n = b.len,
                                       .right = reward >= m->threshold};
        v[k].count++;
    }
    for (size_t k = 1; k < kinds; k++)
        best = v[k].count > v[best].count ? k : best;
    if (kinds) {
        m->votes++;
        m->votes_right += v[best].right;
    }
    for (size_t k = 0; k < kinds; k++)
        free(v[k].text);
    free(v);
    mint_buf_release(&b);
}

void mint_summary_add(struct mint_summary *m, const struct mint_scoring *c,
                      const struct mint_scored *s)
{
    uint64_t n = 0, right = 0;
    double sum = 0;
    for (size_t i = 0; i < s->group.nseqs; i++) {
        const struct mint_sequence *q = &s->group.seqs[i];
        double r, len = (double)q->n;
        m->sequences++;
        m->tokens += q->n;
        m->length_stops += !q->stop;
        if (!mint_scored_reward(c, s, i, &r)) {
            m->nulls++;
            continue;
        }
        n++;
        right += r >= m->threshold;
        sum += r;
        m->sq += r * r;
        m->len_sum += len;
        m->len_sq += len * len;
        m->len_reward += len * r;
    }
    m->groups++;
    m->scored += n;
    m->right += right;
    m->sum += sum;
    if (n) {
        m->group_means++;
        m->group_mean_sum += sum / (double)n;
        m->group_mean_sq += sum / (double)n * (sum / (double)n);
    }
    for (size_t i = 0; i < MINT_PASS_MAX && ((uint64_t)1 << i) <= n; i++) {
        m->pass_sum[i] += mint_pass_at_k(n, right, (uint64_t)1 << i);
        m->pass_groups[i]++;
    }
    add_votes(m, c, s);
}

/* Standard error of the mean reward: between groups where there are several, since the sequences of
 * a group share a prompt. */
static double standard_error(const struct mint_summary *m)
{
    double n = (double)m->group_means, mean = m->group_mean_sum / n;
    if (m->group_means < 2)
        return (double)NAN;
    return sqrt(MINT_MAX(m->group_mean_sq / n - mean * mean, 0) / (n - 1));
}

static double length_corr(const struct mint_summary *m)
{
    double n = (double)m->scored;
    double cov = m->len_reward / n - m->len_sum / n * (m->sum / n);
    double vl = m->len_sq / n - m->len_sum / n * (m->len_sum / n);
    double vr = m->sq / n - m->sum / n * (m->sum / n);
    return vl > 1e-12 && vr > 1e-12 ? cov / sqrt(vl * vr) : (double)NAN;
}

static void row(struct mint_buf *b, const char *name, double v, const char *more)
{
    if (isfinite(v))
        mint_buf_addf(b, "%-16s %10.4f%s%s\n", name, v, *more ? "   " : "", more);
}

void mint_summary_print(const struct mint_summary *m, struct mint_buf *b)
{
    char more[128], name[32];
    double n = (double)m->scored, lo, hi;
    mint_wilson(m->right, m->scored, &lo, &hi);
    mint_buf_addf(b, "%-16s %10" PRIu64 "\n%-16s %10" PRIu64 "\n", "groups", m->groups, "sequences",
                  m->sequences);
    if (m->nulls)
        mint_buf_addf(b, "%-16s %10" PRIu64 "   left out below\n", "without reward", m->nulls);
    if (m->group_means >= 2)
        snprintf(more, sizeof(more), "standard error %.4f (between groups)", standard_error(m));
    else
        *more = '\0';
    row(b, "reward mean", m->sum / n, more);
    snprintf(more, sizeof(more), "95%% interval %.4f to %.4f (Wilson)", lo, hi);
    row(b, "accuracy", (double)m->right / n, more);
    for (size_t i = 0; i < MINT_PASS_MAX; i++) {
        snprintf(name, sizeof(name), "pass@%u", 1u << i);
        snprintf(more, sizeof(more), "over %" PRIu64 " groups", m->pass_groups[i]);
        if (m->pass_groups[i])
            row(b, name, m->pass_sum[i] / (double)m->pass_groups[i], more);
    }
    snprintf(more, sizeof(more), "over %" PRIu64 " groups", m->votes);
    if (m->votes)
        row(b, "majority", (double)m->votes_right / (double)m->votes, more);
    row(b, "truncated", (double)m->length_stops / (double)m->sequences, "");
    row(b, "tokens mean", (double)m->tokens / (double)m->sequences, "");
    row(b, "length corr", length_corr(m), "");
}

void mint_summary_metrics(const struct mint_summary *m, struct mint_metrics *out)
{
    double n = (double)m->scored, all = (double)m->sequences, lo, hi;
    char name[32];
    mint_wilson(m->right, m->scored, &lo, &hi);
    mint_metrics_int(out, "score/groups", (int64_t)m->groups);
    mint_metrics_int(out, "score/sequences", (int64_t)m->sequences);
    mint_metrics_int(out, "score/null", (int64_t)m->nulls);
    mint_metrics_double(out, "reward/mean", m->sum / n);
    mint_metrics_double(out, "reward/stderr", standard_error(m));
    mint_metrics_double(out, "score/accuracy", (double)m->right / n);
    mint_metrics_double(out, "score/accuracy_lo", lo);
    mint_metrics_double(out, "score/accuracy_hi", hi);
    for (size_t i = 0; i < MINT_PASS_MAX; i++) {
        snprintf(name, sizeof(name), "score/pass@%u", 1u << i);
        if (m->pass_groups[i])
            mint_metrics_double(out, name, m->pass_sum[i] / (double)m->pass_groups[i]);
    }
    if (m->votes)
        mint_metrics_double(out, "score/majority", (double)m->votes_right / (double)m->votes);
    mint_metrics_double(out, "env/stop_length_frac", (double)m->length_stops / all);
    mint_metrics_double(out, "env/ac_tokens_mean", (double)m->tokens / all);
    mint_metrics_double(out, "reward/length_corr", length_corr(m));
}

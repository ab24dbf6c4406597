/* SPDX-License-Identifier: Apache-2.0 */
#include "score_summary.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mem.h"
#include "rng.h"

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

/* The vote of sequences from..to-1: -1 if none of them has a reward. */
static int vote(struct mint_summary *m, const struct mint_scoring *c, const struct mint_scored *s,
                size_t from, size_t to)
{
    size_t kinds = 0, best = 0;
    struct vote *v = mint_xcalloc(to - from + 1, sizeof(*v));
    struct mint_buf b = MINT_BUF_INIT;
    bool any = false;
    double reward;
    for (size_t i = from; i < to; i++) {
        mint_buf_reset(&b);
        if (!mint_scored_reward(c, s, i, &reward))
            continue;
        any = true;
        if (!answer_of(s, i, &b))
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
    int right = !any ? -1 : kinds && v[best].right;
    m->answers += kinds > 0;
    for (size_t k = 0; k < kinds; k++)
        free(v[k].text);
    free(v);
    mint_buf_release(&b);
    return right;
}

static void add_votes(struct mint_summary *m, const struct mint_scoring *c,
                      const struct mint_scored *s)
{
    size_t n = s->group.nseqs;
    int right = vote(m, c, s, 0, n);
    if (right < 0)
        return;
    m->votes++;
    m->votes_right += right > 0;
    for (size_t i = 1; i < MINT_PASS_MAX && ((size_t)1 << i) <= n; i++) {
        size_t k = (size_t)1 << i, votes = 0, won = 0;
        for (size_t from = 0; from + k <= n; from += k) {
            right = vote(m, c, s, from, from + k);
            votes += right >= 0;
            won += right > 0;
        }
        if (!votes)
            continue;
        m->maj_groups[i]++;
        m->maj_sum[i] += (double)won / (double)votes;
    }
}

static void keep_group(struct mint_summary *m, double sum, uint64_t n)
{
    if (m->all_n == m->all_cap) {
        m->all_cap = m->all_cap ? 2 * m->all_cap : 64;
        m->all = mint_xreallocarray(m->all, m->all_cap, sizeof(*m->all));
    }
    m->all[m->all_n++] = (struct mint_summary_group){sum, n};
}

void mint_summary_add(struct mint_summary *m, const struct mint_scoring *c,
                      const struct mint_scored *s)
{
    uint64_t n = 0, right = 0;
    double sum = 0;
    for (size_t i = 0; i < s->group.nseqs; i++) {
        const struct mint_sequence *q = &s->group.seqs[i];
        double r, len = (double)(q->tokens_raw.p ? q->n : q->text_len);
        m->sequences++;
        m->tokens += q->n;
        m->length_stops += !q->stop;
        if (!mint_scored_reward(c, s, i, &r)) {
            m->nulls++;
            continue;
        }
        n++;
        right += r >= m->threshold;
        m->cut_scored += !q->stop;
        m->cut_right += !q->stop && r >= m->threshold;
        m->other += r < 0 || r > 1 || (r > 0 && r < 1);
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
        keep_group(m, sum, n);
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

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Resamples groups: as often as gives steady ends, less where there are very many groups. */
static void bootstrap(const struct mint_summary *m, double *lo, double *hi)
{
    enum { RESAMPLES = 2000, LEAST = 200, DRAWS = 100000000 };
    size_t n = m->all_n, rounds = MINT_MIN((size_t)RESAMPLES, MINT_MAX((size_t)LEAST, DRAWS / n));
    double *means = mint_xcalloc(rounds, sizeof(*means));
    for (size_t i = 0; i < rounds; i++) {
        double sum = 0;
        uint64_t count = 0;
        for (size_t k = 0; k < n; k++) {
            uint64_t word = mint_rng_u64(m->seed, 0, (uint32_t)i, (uint32_t)k);
            size_t pick = (size_t)(((unsigned __int128)word * n) >> 64);
            sum += m->all[pick].sum;
            count += m->all[pick].n;
        }
        means[i] = sum / (double)count;
    }
    qsort(means, rounds, sizeof(*means), ascending);
    *lo = means[rounds / 40];
    *hi = means[rounds - 1 - rounds / 40];
    free(means);
}

bool mint_summary_interval(const struct mint_summary *m, double *lo, double *hi)
{
    if (!m->scored)
        return false;
    if (!m->other) {
        mint_wilson((uint64_t)m->sum, m->scored, lo, hi);
        return true;
    }
    if (m->all_n < 2)
        return false;
    bootstrap(m, lo, hi);
    return true;
}

void mint_summary_release(struct mint_summary *m)
{
    free(m->all);
    m->all = NULL;
    m->all_n = m->all_cap = 0;
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
    double n = (double)m->scored, lo, hi, from, to;
    mint_wilson(m->right, m->scored, &lo, &hi);
    mint_buf_addf(b, "%-16s %10" PRIu64 "\n%-16s %10" PRIu64 "\n", "groups", m->groups, "sequences",
                  m->sequences);
    if (m->nulls)
        mint_buf_addf(b, "%-16s %10" PRIu64 "   left out below\n", "without reward", m->nulls);
    *more = '\0';
    if (mint_summary_interval(m, &from, &to))
        snprintf(more, sizeof(more), "95%% interval %.4f to %.4f (%s)", from, to,
                 m->other ? "bootstrap over groups" : "Wilson");
    row(b, "reward mean", m->sum / n, more);
    row(b, "standard error", standard_error(m), "between groups");
    snprintf(more, sizeof(more), "95%% interval %.4f to %.4f (Wilson)", lo, hi);
    row(b, "accuracy", (double)m->right / n, more);
    for (size_t i = 0; i < MINT_PASS_MAX; i++) {
        snprintf(name, sizeof(name), "pass@%u", 1u << i);
        snprintf(more, sizeof(more), "over %" PRIu64 " groups", m->pass_groups[i]);
        if (m->pass_groups[i])
            row(b, name, m->pass_sum[i] / (double)m->pass_groups[i], more);
    }
    snprintf(more, sizeof(more), "over %" PRIu64 " groups", m->votes);
    if (m->answers)
        row(b, "majority", (double)m->votes_right / (double)m->votes, more);
    for (size_t i = 1; m->answers && i < MINT_PASS_MAX; i++) {
        snprintf(name, sizeof(name), "majority@%u", 1u << i);
        snprintf(more, sizeof(more), "over %" PRIu64 " groups", m->maj_groups[i]);
        if (m->maj_groups[i])
            row(b, name, m->maj_sum[i] / (double)m->maj_groups[i], more);
    }
    row(b, "truncated", (double)m->length_stops / (double)m->sequences, "");
    row(b, "truncated right", (double)m->cut_right / (double)m->cut_scored, "of the truncated");
    row(b, "tokens mean", (double)m->tokens / (double)m->sequences, "");
    row(b, "length corr", length_corr(m), "");
}

void mint_summary_metrics(const struct mint_summary *m, struct mint_metrics *out)
{
    double n = (double)m->scored, all = (double)m->sequences, lo, hi, from, to;
    char name[32];
    mint_wilson(m->right, m->scored, &lo, &hi);
    mint_metrics_int(out, "score/groups", (int64_t)m->groups);
    mint_metrics_int(out, "score/sequences", (int64_t)m->sequences);
    mint_metrics_int(out, "score/null", (int64_t)m->nulls);
    mint_metrics_double(out, "reward/mean", m->sum / n);
    mint_metrics_double(out, "reward/stderr", standard_error(m));
    if (mint_summary_interval(m, &from, &to)) {
        mint_metrics_double(out, "reward/lo", from);
        mint_metrics_double(out, "reward/hi", to);
    }
    mint_metrics_double(out, "score/accuracy", (double)m->right / n);
    mint_metrics_double(out, "score/accuracy_lo", lo);
    mint_metrics_double(out, "score/accuracy_hi", hi);
    for (size_t i = 0; i < MINT_PASS_MAX; i++) {
        snprintf(name, sizeof(name), "score/pass@%u", 1u << i);
        if (m->pass_groups[i])
            mint_metrics_double(out, name, m->pass_sum[i] / (double)m->pass_groups[i]);
    }
    if (m->answers)
        mint_metrics_double(out, "score/majority", (double)m->votes_right / (double)m->votes);
    for (size_t i = 1; m->answers && i < MINT_PASS_MAX; i++) {
        snprintf(name, sizeof(name), "score/majority@%u", 1u << i);
        if (m->maj_groups[i])
            mint_metrics_double(out, name, m->maj_sum[i] / (double)m->maj_groups[i]);
    }
    mint_metrics_double(out, "env/stop_length_frac", (double)m->length_stops / all);
    if (m->cut_scored)
        mint_metrics_double(out, "score/truncated_accuracy",
                            (double)m->cut_right / (double)m->cut_scored);
    mint_metrics_double(out, "env/ac_tokens_mean", (double)m->tokens / all);
    mint_metrics_double(out, "reward/length_corr", length_corr(m));
}

/* --- by the value of a field */

void mint_summary_tags_release(struct mint_summary_tags *t)
{
    for (size_t i = 0; i < t->n; i++) {
        free(t->v[i].name);
        mint_summary_release(&t->v[i].sum);
    }
    free(t->v);
    t->v = NULL;
    t->n = t->cap = 0;
}

static int tag_name(const struct mint_json *j, const char *field, struct mint_buf *out,
                    struct mint_err *err)
{
    size_t n;
    mint_json_val v = mint_json_get(j, 0, field);
    switch (mint_json_type(j, v)) {
    case MINT_JSON_ABSENT:
    case MINT_JSON_NULL:
        mint_buf_adds(out, "-");
        return 0;
    case MINT_JSON_STRING:
        mint_buf_reserve(out, 0);
        (void)mint_json_string(j, v, out);
        for (size_t i = 0; i < out->len; i++) {
            if ((unsigned char)out->data[i] < ' ' || out->data[i] == 127)
                out->data[i] = '?';
        }
        return 0;
    case MINT_JSON_NUMBER:
    case MINT_JSON_BOOL:
        break;
    default:
        return mint_json_fail(j, v, err, "is no string or number to sum up by");
    }
    const char *raw = mint_json_raw(j, v, &n);
    mint_buf_add(out, raw, n);
    return 0;
}

int mint_summary_tags_add(struct mint_summary_tags *t, const struct mint_summary *like,
                          const struct mint_scoring *c, const struct mint_scored *s,
                          struct mint_err *err)
{
    struct mint_buf name = MINT_BUF_INIT;
    if (tag_name(s->r->doc, t->field, &name, err) < 0)
        return -1;
    size_t lo = 0, hi = t->n;
    while (lo < hi) {
        size_t mid = (lo + hi) / 2;
        if (strverscmp(t->v[mid].name, name.data) < 0)
            lo = mid + 1;
        else
            hi = mid;
    }
    if (lo == t->n || strcmp(t->v[lo].name, name.data) != 0) {
        if (t->n == t->cap) {
            t->cap = t->cap ? 2 * t->cap : 16;
            t->v = mint_xreallocarray(t->v, t->cap, sizeof(*t->v));
        }
        memmove(&t->v[lo + 1], &t->v[lo], (t->n - lo) * sizeof(*t->v));
        t->v[lo] = (struct mint_summary_tag){mint_xstrdup(name.data),
                                             {.threshold = like->threshold, .seed = like->seed}};
        t->n++;
    }
    mint_buf_release(&name);
    mint_summary_add(&t->v[lo].sum, c, s);
    return 0;
}

static void cell(struct mint_buf *b, double v)
{
    if (isfinite(v))
        mint_buf_addf(b, " %9.4f", v);
    else
        mint_buf_addf(b, " %9s", "-");
}

void mint_summary_tags_print(const struct mint_summary_tags *t, struct mint_buf *b)
{
    mint_buf_addf(b, "\n%-24s %8s %9s %9s %9s %9s %9s %9s\n", t->field, "groups", "sequences",
                  "mean", "accuracy", "from", "to", "truncated");
    for (size_t i = 0; i < t->n; i++) {
        const struct mint_summary *m = &t->v[i].sum;
        double lo = (double)NAN, hi = (double)NAN;
        if (m->scored)
            mint_wilson(m->right, m->scored, &lo, &hi);
        mint_buf_addf(b, "%-24s %8" PRIu64 " %9" PRIu64, t->v[i].name, m->groups, m->sequences);
        cell(b, m->sum / (double)m->scored);
        cell(b, (double)m->right / (double)m->scored);
        cell(b, lo);
        cell(b, hi);
        cell(b, (double)m->length_stops / (double)m->sequences);
        mint_buf_addc(b, '\n');
    }
}

static void tag_metric(struct mint_metrics *out, const struct mint_summary_tags *t, size_t i,
                       const char *name, double v)
{
    char *full = mint_xasprintf("%s=%s/%s", t->field, t->v[i].name, name);
    mint_metrics_double(out, full, v);
    free(full);
}

void mint_summary_tags_metrics(const struct mint_summary_tags *t, struct mint_metrics *out)
{
    for (size_t i = 0; i < t->n; i++) {
        const struct mint_summary *m = &t->v[i].sum;
        double lo, hi;
        mint_wilson(m->right, m->scored, &lo, &hi);
        tag_metric(out, t, i, "score/groups", (double)m->groups);
        tag_metric(out, t, i, "score/sequences", (double)m->sequences);
        tag_metric(out, t, i, "reward/mean", m->sum / (double)m->scored);
        tag_metric(out, t, i, "score/accuracy", (double)m->right / (double)m->scored);
        tag_metric(out, t, i, "score/accuracy_lo", lo);
        tag_metric(out, t, i, "score/accuracy_hi", hi);
        tag_metric(out, t, i, "env/stop_length_frac",
                   (double)m->length_stops / (double)m->sequences);
    }
}

/* SPDX-License-Identifier: Apache-2.0 */
/* mint-score: rewards for rollouts. Scorers: lib/score.h; the summary: lib/score_summary.h. */
#include <inttypes.h>
#include <string.h>

#include "cli.h"
#include "log.h"
#include "metrics.h"
#include "record.h"
#include "score.h"
#include "score_code.h"
#include "score_coproc.h"
#include "score_summary.h"

/* A block of output goes out when it has grown to this, or when so many seconds have passed. */
enum { FLUSH_BYTES = 1 << 19, REASONS_SAID = 5 };
static const double flush_seconds = 1;

struct opts {
    struct mint_common common;
    const char *gold_field, *name, *pattern, *command, *style, *extract;
    const char *by, *judge_model, *judge_adapter, *judge_url, *judge_key_env, *prompt_file, *scale,
        *pairs;
    double weight, offset, threshold, timeout;
    bool replace, allow_null, summary, strip, ignore_case, need_stop, expected, strict, one_box;
    int which, unit, mode;
    int64_t target, min, max, jobs, retries, buffer, ngram, max_tokens, seed;
    struct mint_code_opts code;
    int sandbox;
    struct mint_strs readonly;
};

static const char *const which[] = {"first", "last", NULL};
static const char *const modes[] = {"rubric", "pairwise", NULL};
static const char *const sandboxes[] = {"bwrap", "none", NULL};
static const char *const units[] = {"tokens", "words", "chars", NULL};

static const struct mint_opt table[] = {
    MINT_O_HEAD("Scores"),
    MINT_O_STR(0, "gold-field", "FIELD", struct opts, gold_field,
               "field of the record that holds the gold answer"),
    MINT_O_STR(0, "name", "NAME", struct opts, name,
               "name of the score in the record, if not the scorer's"),
    MINT_O_FLOAT(0, "weight", "W", struct opts, weight, -1e9, 1e9,
                 "what the score counts in the reward"),
    MINT_O_FLOAT(0, "offset", "X", struct opts, offset, -1e9, 1e9,
                 "added to the score before it is weighed"),
    MINT_O_FLAG(0, "replace", struct opts, replace, "forget earlier rewards and scores"),
    MINT_O_FLAG(0, "allow-null", struct opts, allow_null,
                "write sequences that could not be scored with reward null (status 3)"),
    MINT_O_HEAD("Summary"),
    MINT_O_FLAG(0, "summary", struct opts, summary, "print statistics in place of the records"),
    MINT_O_FLOAT(0, "threshold", "R", struct opts, threshold, -1e9, 1e9,
                 "a reward of at least R counts as right"),
    MINT_O_STR(0, "by", "FIELD", struct opts, by, "one more table, by the values of this field"),
    MINT_O_INT(0, "seed", "N", struct opts, seed, 0, 9007199254740992.0,
               "seed of the bootstrap's draws"),
    MINT_O_HEAD("exact, number, regex, format"),
    MINT_O_FLAG(0, "strip", struct opts, strip, "ignore white space around answers"),
    MINT_O_FLAG(0, "ignore-case", struct opts, ignore_case, "ignore the case of letters"),
    MINT_O_CHOICE(0, "which", which, struct opts, which, "which number or match is the answer"),
    MINT_O_STR(0, "pattern", "REGEX", struct opts, pattern,
               "a Perl pattern (PCRE2); of regex, its first group, if any, is the answer"),
    MINT_O_FLAG(0, "need-stop", struct opts, need_stop, "format: a response that was cut is none"),
    MINT_O_STR(0, "style", "NAME", struct opts, style,
               "whose rules to follow; math: math, dapo, gsm8k, mint-quickstart; overlong: dapo"),
    MINT_O_HEAD("math"),
    MINT_O_STR(0, "extract", "RULE", struct opts, extract,
               "auto, boxed, hash, phrase, last-number, first-number, answer-line or whole"),
    MINT_O_FLAG(0, "strict", struct opts, strict, "no answer without a box or a marker"),
    MINT_O_FLAG(0, "one-box", struct opts, one_box, "boxes that differ are no answer"),
    MINT_O_HEAD("length, overlong, repetition"),
    MINT_O_INT(0, "target", "N", struct opts, target, 0, 1e9,
               "1 at N, falling to 0 at 0 and 2N; 100 if no other bound is given"),
    MINT_O_INT(0, "min", "N", struct opts, min, 0, 1e9, "0 below N"),
    MINT_O_INT(0, "max", "N", struct opts, max, 0, 1e9,
               "0 above N; overlong: the limit, if not sampling.max_tokens"),
    MINT_O_INT(0, "buffer", "N", struct opts, buffer, 0, 1e9,
               "overlong: the penalty grows over the last N tokens before the limit"),
    MINT_O_INT(0, "ngram", "N", struct opts, ngram, 1, 1000, "repetition: pieces of an n-gram"),
    MINT_O_CHOICE(0, "unit", units, struct opts, unit, "what is counted"),
    MINT_O_HEAD("judge"),
    MINT_O_STR(0, "judge-model", "DIR", struct opts, judge_model,
               "the judge's model folder; with --judge-url, the model's name there"),
    MINT_O_STR(0, "judge-adapter", "CKPT", struct opts, judge_adapter, "the judge's adapter"),
    MINT_O_STR(0, "judge-url", "URL", struct opts, judge_url,
               "a server that speaks OpenAI's HTTP (URL/v1/chat/completions)"),
    MINT_O_STR(0, "judge-key-env", "NAME", struct opts, judge_key_env,
               "environment variable that holds the server's key"),
    MINT_O_CHOICE(0, "mode", modes, struct opts, mode,
                  "a score for each response, or comparisons within the group"),
    MINT_O_STR(0, "prompt-file", "FILE", struct opts, prompt_file,
               "what the judge is asked, with {prompt}, {response}, {answer}"),
    MINT_O_STR(0, "scale", "LO:HI", struct opts, scale, "rubric: range of scores, if not 0:10"),
    MINT_O_FLAG(0, "expected", struct opts, expected,
                "rubric, local judge: the mean over the scores' probabilities"),
    MINT_O_STR(0, "pairs", "WHICH", struct opts, pairs,
               "pairwise: all, or ring:K (each with the K next ones)"),
    MINT_O_INT(0, "max-tokens", "N", struct opts, max_tokens, 1, 1 << 24,
               "most tokens of a judge's reply"),
    MINT_O_HEAD("cmd, judge"),
    MINT_O_STR(0, "command", "PROGRAM", struct opts, command,
               "shell command that answers a JSON line for each JSON line it reads"),
    MINT_O_FLOAT(0, "timeout", "SECONDS", struct opts, timeout, 0.01, 1e6,
                 "give up waiting for an answer then; of judge 120"),
    MINT_O_INT('j', "jobs", "N", struct opts, jobs, 1, 256,
               "run so many at a time; of judge 8 for a server, 32 for a local model"),
    MINT_O_INT(0, "retries", "N", struct opts, retries, 0, 1000,
               "ask again so often after a failure; of judge 4"),
    MINT_O_HEAD("code"),
    MINT_O_STR(0, "tests-field", "FIELD", struct opts, code.tests_field,
               "field of the record that holds the tests"),
    MINT_O_STR(0, "language", "NAME", struct opts, code.language,
               "python, c, cpp, sh or javascript, where neither record nor block says; python"),
    MINT_O_FLAG(0, "partial", struct opts, code.partial,
                "the share of tests that pass, in place of all or nothing"),
    MINT_O_FLAG(0, "seconds", struct opts, code.seconds,
                "the time of each test into the detail, which then differs from run to run"),
    MINT_O_FLOAT(0, "cpu-time", "SECONDS", struct opts, code.cpu_time, 0.1, 1e5,
                 "processor time of one test"),
    MINT_O_FLOAT(0, "wall-time", "SECONDS", struct opts, code.wall_time, 0.1, 1e5,
                 "time of one test"),
    MINT_O_FLOAT(0, "compile-time", "SECONDS", struct opts, code.compile_time, 0.1, 1e5,
                 "processor time of a compiler"),
    MINT_O_INT(0, "memory", "BYTES", struct opts, code.memory, 16 << 20, 1e15,
               "memory of one test"),
    MINT_O_INT(0, "processes", "N", struct opts, code.processes, 1, 1e6,
               "processes and threads of one test"),
    MINT_O_INT(0, "file-size", "BYTES", struct opts, code.file_size, 1 << 20, 1e12,
               "largest file; all files may hold twice that"),
    MINT_O_INT(0, "output-size", "BYTES", struct opts, code.output_size, 1, 1 << 30,
               "most output of one test"),
    MINT_O_LIST(0, "read-only", "DIR", struct opts, readonly,
                "a further folder that programs may read"),
    MINT_O_CHOICE(0, "sandbox", sandboxes, struct opts, sandbox,
                  "none: no isolation, for programs that you trust"),
    MINT_O_END,
};

static const char *const examples[] = {
    "mint-score number rollouts.jsonl.zst -o scored.jsonl.zst",
    "mint-score exact rollouts.jsonl.zst | mint-score length --max 12 --weight 0.1 | "
    "mint-advantage",
    "mint-score number --summary rollouts.jsonl.zst",
    NULL,
};

static const struct mint_tool tool = {
    .name = "mint-score",
    .summary = "score rollouts: set the reward of each sequence",
    .synopsis = "SCORER [options] [FILES...]",
    .groups = MINT_CLI_IO | MINT_CLI_RUN | MINT_CLI_COMPUTE,
    .opts = table,
    .reads_stdin = true,
    .leading = 1,
    .examples = examples,
};

struct job {
    const struct opts *o;
    struct mint_scoring scoring;
    struct mint_reader in;
    struct mint_out *out;
    struct mint_buf text;
    struct mint_summary sum;
    struct mint_summary_tags tags;
    struct mint_progress progress;
    double flushed;
    uint64_t sequences, failed, records;
    double reward_sum;
    uint64_t rewards;
};

/* What is not given is not the same for all scorers. */
static struct mint_judge_opts judge_opts(const struct opts *o)
{
    return (struct mint_judge_opts){
        .model = o->judge_model,
        .adapter = o->judge_adapter,
        .url = o->judge_url,
        .key_env = o->judge_key_env,
        .prompt_file = o->prompt_file,
        .scale = o->scale,
        .pairs = o->pairs,
        .mode = (enum mint_judge_mode)o->mode,
        .expected = o->expected,
        .max_tokens = o->max_tokens,
        .jobs = mint_cli_given("jobs") ? o->jobs
                : o->judge_url         ? 8
                                       : 32,
        .retries = mint_cli_given("retries") ? o->retries : 4,
        .timeout = mint_cli_given("timeout") ? o->timeout : 120,
        .device = o->common.device,
        .precision = o->common.precision,
        .threads = (int)o->common.threads,
    };
}

/* Options of a scorer that it reads in one mode and not in another. */
static int check_modes(const struct mint_scorer *s, const struct opts *o, struct mint_err *err)
{
    bool judge = s == &mint_scorer_judge, url = o->judge_url, math = s == &mint_scorer_math;
    bool one_rule =
        o->extract ? strcmp(o->extract, "auto") != 0 : o->style && strcmp(o->style, "math") != 0;
    bool boxed = o->extract && !strcmp(o->extract, "boxed");
    const struct mint_idle idle[] = {
        {"threads", "a judge that runs here", judge && url},
        {"device", "a judge that runs here", judge && url},
        {"precision", "a judge that runs here", judge && url},
        {"timeout", "--judge-url", judge && !url},
        {"retries", "--judge-url", judge && !url},
        {"max-tokens", "a judge who replies, not with --expected", judge && o->expected},
        {"style", "the rule that it has, not with --extract", math && o->extract},
        {"strict", "--extract auto", math && one_rule},
        {"one-box", "--extract auto or boxed", math && one_rule && !boxed},
        {"ignore-case", "--pattern", s == &mint_scorer_format && !o->pattern},
        {"read-only", "--sandbox bwrap", s == &mint_scorer_code && o->sandbox == 1},
        {"threshold", "--summary", !o->summary},
        {"by", "--summary", !o->summary},
        {"seed", "--summary", !o->summary},
        {"name", "records, not with --summary", o->summary},
    };
    return mint_cli_refuse_idle(idle, MINT_ARRAY_LEN(idle), err);
}

/* Every option that is given does something, or is wrong usage. */
static int check_given(const struct mint_scorer *s, const struct opts *o, struct mint_err *err)
{
    static const char *const of_summary[] = {"summary", "threshold", "by", "seed"};
    static const char *const computing[] = {"threads", "device", "precision"};
    static const char *const names[] = {"name", "gold-field", "by", "tests-field", "pattern"};
    const char *const values[] = {o->name, o->gold_field, o->by, o->code.tests_field, o->pattern};
    size_t n = MINT_ARRAY_LEN(table) - 1 + MINT_ARRAY_LEN(computing);
    for (size_t i = 0; i < n; i++) {
        bool own = i < MINT_ARRAY_LEN(table) - 1, known = false;
        const char *name = own ? table[i].name : computing[i - (MINT_ARRAY_LEN(table) - 1)];
        if ((own && table[i].type == MINT_OPT_HEADING) || !mint_cli_given(name))
            continue;
        for (size_t k = 0; k < MINT_ARRAY_LEN(of_summary); k++)
            known |= !strcmp(name, of_summary[k]);
        if (!known && !mint_scorer_reads(s, name))
            return mint_usage(err, "the scorer %s does not read --%s", s->name, name);
    }
    for (size_t i = 0; i < MINT_ARRAY_LEN(names); i++) {
        if (mint_cli_given(names[i]) && !*values[i])
            return mint_usage(err, "--%s is empty", names[i]);
    }
    return check_modes(s, o, err);
}

static int settle(const struct opts *o, struct job *j, struct mint_err *err)
{
    const struct mint_strs *words = &o->common.operands;
    if (words->n == 0)
        return mint_usage(err, "which scorer? One of %s", mint_scorer_names());
    const struct mint_scorer *s = mint_scorer_find(words->v[0]);
    if (!s)
        return mint_usage(err, "no scorer '%s': there are %s", words->v[0], mint_scorer_names());
    if (s == &mint_scorer_none && !o->summary)
        return mint_usage(err, "the scorer none is for --summary alone");
    MINT_TRY(check_given(s, o, err));
    j->o = o;
    j->scoring = (struct mint_scoring){
        .scorer = s,
        .name = o->name ? o->name : s->name,
        .weight = o->weight,
        .offset = o->offset,
        .replace = o->replace,
        .jobs = (size_t)o->jobs,
        .opts = {.gold_field = o->gold_field,
                 .gold_named = mint_cli_given("gold-field"),
                 .strip = o->strip,
                 .ignore_case = o->ignore_case,
                 .which = (enum mint_score_which)o->which,
                 .pattern = o->pattern,
                 .need_stop = o->need_stop,
                 .style = o->style,
                 .extract = o->extract,
                 .strict = o->strict,
                 .one_box = o->one_box,
                 .target = mint_cli_given("target") ? o->target : -1,
                 .min = mint_cli_given("min") ? o->min : -1,
                 .max = mint_cli_given("max") ? o->max : -1,
                 .buffer = mint_cli_given("buffer") ? o->buffer : -1,
                 .ngram = o->ngram,
                 .unit = (enum mint_score_unit)o->unit,
                 .command = o->command,
                 .timeout = o->timeout,
                 .retries = o->retries,
                 .code = &o->code,
                 .judge = judge_opts(o)},
    };
    j->sum.threshold = o->threshold;
    j->sum.seed = (uint64_t)o->seed;
    j->tags.field = o->by;
    return 0;
}

/* The detail of a sequence without a score in words: its error, and in brackets what else there is.
 */
static void put_reason(struct mint_buf *b, const struct mint_buf *detail)
{
    struct mint_json *doc = mint_json_new();
    struct mint_buf text = MINT_BUF_INIT;
    struct mint_err err;
    size_t n, more = 0;
    mint_buf_addf(&text, "{%.*s}", (int)detail->len, detail->len ? detail->data : "");
    if (mint_json_parse(doc, text.data, text.len, &err) < 0)
        MINT_BUG("a detail that is no JSON: %s", err.msg);
    if (!mint_json_string(doc, mint_json_get(doc, 0, "error"), b))
        mint_buf_adds(b, "the scorer gave none");
    for (mint_json_val v = mint_json_first(doc, 0); v != MINT_JSON_NONE;
         v = mint_json_next(doc, v)) {
        if (mint_json_key_is(doc, v, "error") || mint_json_type(doc, v) == MINT_JSON_NULL)
            continue;
        const char *s = mint_json_key(doc, v, &n);
        mint_buf_adds(b, more++ ? ", " : " (");
        mint_buf_add(b, s, n);
        mint_buf_adds(b, ": ");
        if (mint_json_string(doc, v, b))
            continue;
        s = mint_json_raw(doc, v, &n);
        mint_buf_add(b, s, n);
    }
    mint_buf_adds(b, more ? ")" : "");
    for (size_t i = 0; i < b->len; i++) {
        if ((unsigned char)b->data[i] < ' ' || b->data[i] == 127)
            b->data[i] = ' ';
    }
    mint_buf_release(&text);
    mint_json_free(doc);
}

static void say_reason(const struct mint_scored *s, size_t i)
{
    struct mint_buf b = MINT_BUF_INIT;
    put_reason(&b, &s->scores[i].detail);
    mint_warn("%s:%" PRIu64 ": sequences[%zu] has no score: %.300s", mint_reader_file(s->r),
              mint_reader_lineno(s->r), i, b.data);
    mint_buf_release(&b);
}

/* Counts, and says the first few reasons why a sequence has no score. */
static void note_failures(struct job *j, const struct mint_scored *s)
{
    for (size_t i = 0; i < s->group.nseqs; i++) {
        double r;
        j->sequences++;
        if (mint_scored_reward(&j->scoring, s, i, &r)) {
            j->reward_sum += r;
            j->rewards++;
        }
        if (!s->scores[i].failed)
            continue;
        j->failed++;
        if (j->failed <= REASONS_SAID)
            say_reason(s, i);
        else if (j->failed == REASONS_SAID + 1)
            mint_warn("further sequences without a score are only counted");
    }
}

static int put(struct job *j, struct mint_err *err)
{
    if (!j->text.len)
        return 0;
    if (mint_out_write(j->out, j->text.data, j->text.len, err) < 0 ||
        mint_out_flush(j->out, err) < 0)
        return -1;
    mint_buf_reset(&j->text);
    j->flushed = mint_now();
    return 0;
}

static int take(void *arg, struct mint_scored *s, struct mint_err *err)
{
    struct job *j = arg;
    if (j->o->by && mint_summary_tags_add(&j->tags, &j->sum, &j->scoring, s, err) < 0)
        return 1;
    if (j->o->summary)
        mint_summary_add(&j->sum, &j->scoring, s);
    else if (mint_scored_write(&j->scoring, s, &j->text, err) < 0)
        return 1;
    note_failures(j, s);
    j->records++;
    mint_progress_set(&j->progress, (double)j->records, NULL);
    bool late = j->scoring.scorer->slow && mint_now() - j->flushed >= flush_seconds;
    return !j->o->summary && (j->text.len >= FLUSH_BYTES || late) ? put(j, err) : 0;
}

static int write_metrics(const struct job *j, double seconds, struct mint_err *err)
{
    struct mint_metrics m = MINT_METRICS_INIT;
    mint_metrics_begin(&m, "mint-score");
    mint_metrics_str(&m, "scorer", j->scoring.scorer->name);
    if (j->o->summary) {
        mint_summary_metrics(&j->sum, &m);
        mint_summary_tags_metrics(&j->tags, &m);
    } else {
        mint_metrics_int(&m, "score/groups", (int64_t)j->records);
        mint_metrics_int(&m, "score/sequences", (int64_t)j->sequences);
        mint_metrics_int(&m, "score/null", (int64_t)(j->sequences - j->rewards));
        mint_metrics_double(&m, "reward/mean", j->reward_sum / (double)j->rewards);
    }
    mint_metrics_int(&m, "score/bad_records", (int64_t)j->in.skipped);
    mint_metrics_double(&m, "time/total", seconds);
    return mint_metrics_end(&m, j->o->common.metrics, err);
}

static int score_all(struct job *j, double start, struct mint_err *err)
{
    mint_progress_begin(&j->progress, "scored", "groups", 0);
    int rc = mint_score_stream(&j->scoring, &j->in, take, j, err);
    mint_progress_end(&j->progress);
    if (rc == 0 && j->failed && !j->o->allow_null)
        rc = mint_fail(err, MINT_EIO,
                       "%" PRIu64 " of %" PRIu64
                       " sequences could not be scored: mend the cause, or "
                       "use --allow-null",
                       j->failed, j->sequences);
    if (rc == 0 && j->o->summary)
        mint_summary_print(&j->sum, &j->text);
    if (rc == 0 && j->o->by)
        mint_summary_tags_print(&j->tags, &j->text);
    if (rc == 0)
        rc = put(j, err);
    return rc == 0 ? write_metrics(j, mint_now() - start, err) : -1;
}

static void open_cgroup(struct mint_code_opts *o)
{
    struct mint_buf why = MINT_BUF_INIT;
    if ((o->cgroup = mint_cgroup_open(&why)))
        mint_verbose(1, "control groups in %s", mint_cgroup_path(o->cgroup));
    else
        mint_verbose(1, "no control groups: %s", why.data);
    mint_buf_release(&why);
}

static int run(struct opts *o, struct job *j, struct mint_err *err)
{
    double start = mint_now();
    if (settle(o, j, err) < 0)
        return -1;
    if (j->scoring.scorer == &mint_scorer_code && o->code.no_sandbox)
        mint_warn("--sandbox none: the programs can do what you can");
    else if (j->scoring.scorer == &mint_scorer_code)
        open_cgroup(&o->code);
    unsigned flags = (o->common.plain || o->summary ? MINT_OUT_PLAIN : 0) |
                     (o->common.force ? MINT_OUT_FORCE : 0);
    if (j->scoring.scorer->slow)
        mint_coproc_guard_signals();
    MINT_TRY(mint_scoring_open(&j->scoring, err));
    if (mint_out_open(&j->out, o->common.output, flags, err) < 0) {
        mint_scoring_close(&j->scoring);
        return -1;
    }
    mint_reader_init(&j->in, o->common.operands.v + 1, o->common.operands.n - 1,
                     o->common.skip_bad);
    j->in.on_skip = mint_warn_skipped;
    j->flushed = start;
    int rc = score_all(j, start, err);
    mint_reader_close(&j->in);
    mint_buf_release(&j->text);
    mint_summary_release(&j->sum);
    mint_summary_tags_release(&j->tags);
    if (rc < 0) {
        mint_out_abort(j->out);
        return -1;
    }
    if (mint_out_commit(j->out, err) < 0)
        return -1;
    if (j->failed)
        mint_error("%" PRIu64 " of %" PRIu64 " sequences have reward null", j->failed,
                   j->sequences);
    return 0;
}

int main(int argc, char **argv)
{
    static struct opts o = {
        .gold_field = "answer",
        .weight = 1,
        .threshold = 0.5,
        .strip = true,
        .which = MINT_SCORE_LAST,
        .target = -1,
        .min = -1,
        .max = -1,
        .buffer = -1,
        .ngram = 4,
        .max_tokens = 256,
        .timeout = 30,
        .jobs = 1,
        .retries = 1,
        .code = {.tests_field = "tests",
                 .cpu_time = 3,
                 .wall_time = 10,
                 .compile_time = 10,
                 .memory = 768 << 20,
                 .processes = 64,
                 .file_size = 32 << 20,
                 .output_size = 64 << 10},
    };
    static struct job job;
    struct mint_err err = {0};
    mint_cli_begin(&tool, argc, argv, &o);
    o.code.no_sandbox = o.sandbox == 1;
    o.code.readonly = o.readonly.v;
    o.code.nreadonly = o.readonly.n;
    int rc = run(&o, &job, &err);
    mint_cgroup_close(o.code.cgroup);
    int status = mint_cli_end(rc, &err, job.in.skipped);
    return status == 0 && job.failed ? 3 : status;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "sample_job.h"

#include <stdlib.h>

#include "mem.h"

void mint_sample_item_free(struct mint_sample_item *item)
{
    free(item->line);
    mint_buf_release(&item->id);
    mint_buf_release(&item->text);
    mint_tokens_release(&item->tokens);
    *item = (struct mint_sample_item){0};
}

static int check_prompt(const struct mint_sample_job *j, const struct mint_sample_item *item,
                        struct mint_err *err)
{
    if (item->tokens.n == 0)
        return mint_fail(err, MINT_ESCHEMA, "the prompt is empty: there is nothing to go on from");
    if (j->max_positions && (int64_t)item->tokens.n >= j->max_positions)
        return mint_fail(err, MINT_ESCHEMA,
                         "the prompt has %zu tokens, the model's context is %lld: shorten it",
                         item->tokens.n, (long long)j->max_positions);
    if (!j->policy)
        return 0;
    int32_t vocab = j->policy->model->config.vocab;
    for (size_t i = 0; i < item->tokens.n; i++)
        if (item->tokens.v[i] >= vocab)
            return mint_fail(err, MINT_ESCHEMA,
                             "prompt token %zu is %d, outside the model's vocabulary of %d", i,
                             item->tokens.v[i], vocab);
    return 0;
}

int mint_sample_item_build(const struct mint_sample_job *j, const struct mint_prompt_record *r,
                           struct mint_sample_item *item, struct mint_err *err)
{
    *item = (struct mint_sample_item){0};
    int rc = mint_rollout_check(r->doc, !j->prompt.template, err);
    if (rc == 0)
        rc = mint_prompt_id(r->doc, r->lineno, &item->id, err);
    if (rc == 0)
        rc = mint_prompt_build(&j->prompt, r->doc, &item->text, &item->tokens, err);
    if (rc == 0)
        rc = check_prompt(j, item, err);
    if (rc < 0) {
        mint_sample_item_free(item);
        return -1;
    }
    item->line = mint_xstrndup(r->line, r->len);
    item->len = r->len;
    return 0;
}

void mint_sample_text(const struct mint_sample_job *j, const struct mint_gen *g,
                      struct mint_buf *text)
{
    mint_buf_reset(text);
    mint_buf_reserve(text, 0);
    if (j->sampler.stop_strings_n)
        mint_buf_add(text, g->text.data, g->text_end);
    else
        mint_decode(j->prompt.tok, g->tokens, (size_t)g->n, true, text);
}

int mint_sample_info(struct mint_sample_job *j, struct mint_sampling_info *info,
                     struct mint_err *err)
{
    const char *model;
    if (mint_policy_fingerprint(j->policy, &model, err) < 0)
        return -1;
    *info = (struct mint_sampling_info){
        .model = model,
        .adapter = j->policy->has_checkpoint ? j->policy->adapter_fingerprint : NULL,
        .step = j->step,
        .seed = j->sampler.seed,
        .temperature = j->temperature,
        .top_p = j->top_p,
        .top_k = j->sampler.top_k,
        .max_tokens = j->sampler.max_tokens,
        .logprobs = j->sampler.behavior ? "behavior" : "policy",
        .device = j->device,
        .precision = j->precision,
    };
    return 0;
}

int mint_sample_dry_run(struct mint_sample_job *j, struct mint_err *err)
{
    struct mint_promptset *set;
    struct mint_prompt_record r;
    struct mint_buf b = MINT_BUF_INIT;
    int rc;
    if (mint_promptset_open(&set, &j->prompts, err) < 0)
        return -1;
    while ((rc = mint_promptset_next(set, &r, err)) > 0) {
        struct mint_sample_item item;
        if (mint_sample_item_build(j, &r, &item, err) < 0) {
            if (mint_promptset_bad(set, err) < 0) {
                rc = -1;
                break;
            }
            continue;
        }
        mint_buf_reset(&b);
        mint_buf_adds(&b, "{\"id\":");
        mint_json_put_string(&b, item.id.data, item.id.len);
        mint_buf_adds(&b, ",\"prompt\":");
        mint_json_put_string(&b, item.text.data ? item.text.data : "", item.text.len);
        mint_buf_adds(&b, ",\"prompt_tokens\":");
        mint_json_put_ints(&b, item.tokens.v, item.tokens.n);
        mint_buf_adds(&b, "}\n");
        j->groups++;
        j->prompt_tokens += (int64_t)item.tokens.n;
        mint_sample_item_free(&item);
        if (mint_out_write(j->out, b.data, b.len, err) < 0) {
            rc = -1;
            break;
        }
    }
    j->skipped = mint_promptset_skipped(set);
    j->excluded = mint_promptset_excluded(set);
    mint_buf_release(&b);
    mint_promptset_close(set);
    return rc;
}

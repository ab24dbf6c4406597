/* SPDX-License-Identifier: Apache-2.0 */
#include "identity.h"

#include "buf.h"
#include "hash.h"
#include "json.h"

static void put(struct mint_buf *b, const char *key, double v)
{
    mint_buf_addf(b, " %s=", key);
    mint_json_put_double(b, v);
}

static void digest(struct mint_buf *b, char out[72])
{
    struct mint_sha256 sha;
    mint_sha256_init(&sha);
    mint_sha256_add(&sha, b->data, b->len);
    mint_sha256_end_text(&sha, out);
    mint_buf_release(b);
}

void mint_identity_base(const char *tensors, const struct mint_model_config *c, char out[72])
{
    struct mint_buf b = MINT_BUF_INIT;
    mint_buf_addf(&b, "base %s %s %d %d %d %d %d %d %d", tensors, c->arch, c->layers, c->hidden,
                  c->ffn, c->heads, c->kv_heads, c->head_dim, c->vocab);
    mint_buf_addf(&b, " %d%d%d%d", c->qk_norm, c->qkv_bias, c->o_bias, c->tied);
    put(&b, "norm_eps", (double)c->norm_eps);
    put(&b, "rope_theta", c->rope_theta);
    if (c->rope_scaling.factor != 0.0) {
        put(&b, "factor", c->rope_scaling.factor);
        put(&b, "low_freq_factor", c->rope_scaling.low_freq_factor);
        put(&b, "high_freq_factor", c->rope_scaling.high_freq_factor);
        put(&b, "original_max_positions", c->rope_scaling.original_max_positions);
    }
    digest(&b, out);
}

void mint_identity_adapter(const struct mint_checkpoint *c, char out[72])
{
    struct mint_buf b = MINT_BUF_INIT;
    mint_buf_addf(&b, "adapter %s rank=%d", c->fingerprint, c->config.rank);
    put(&b, "alpha", c->config.alpha);
    digest(&b, out);
}

int mint_identity_parent(const struct mint_checkpoint *c, char out[72], struct mint_err *err)
{
    char policy[72], moments[72] = "none";
    struct mint_buf b = MINT_BUF_INIT;
    if (c->optimizer && mint_st_fingerprint(c->optimizer, moments, err) < 0)
        return -1;
    mint_identity_adapter(c, policy);
    mint_buf_addf(&b, "parent %s %s step=%lld", policy, moments, (long long)c->state.step);
    digest(&b, out);
    return 0;
}

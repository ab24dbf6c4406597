# SPDX-License-Identifier: Apache-2.0
"""The numbers of mint-format(5) and mint-train(1) in plain torch, at any precision.

transformers computes RMSNorm and the rotary angles in float32 whatever the model's type is, so it cannot give a
float64 reference. This file can; make_fixtures.py checks that it agrees with transformers and PEFT in float32.
Weights are a dict of Hugging Face names, an adapter a dict of PEFT names.
"""
import math

import torch
import torch.nn.functional as F

PEFT = "base_model.model."


def rope_inv_freq(cfg):
    """float32, the default and the llama3 rule of transformers' modeling_rope_utils."""
    dim = cfg["head_dim"]
    exponent = torch.arange(0, dim, 2, dtype=torch.int64).to(torch.float32) / dim
    inv = 1.0 / (cfg["rope_theta"] ** exponent)
    s = cfg.get("rope_scaling")
    if not s:
        return inv
    old = s["original_max_position_embeddings"]
    low, high = old / s["low_freq_factor"], old / s["high_freq_factor"]
    wavelen = 2 * math.pi / inv
    out = torch.where(wavelen > low, inv / s["factor"], inv)
    smooth = (old / wavelen - s["low_freq_factor"]) / (s["high_freq_factor"] - s["low_freq_factor"])
    mixed = (1 - smooth) * out / s["factor"] + smooth * out
    return torch.where((wavelen >= high) & (wavelen <= low), mixed, out)


class Model:
    def __init__(self, cfg, weights, dtype):
        self.cfg, self.dtype = cfg, dtype
        self.w = {k: v.to(dtype) for k, v in weights.items()}
        # The angle itself is a float32 product in every implementation; only its sine and cosine are exact here.
        self.inv_freq = rope_inv_freq(cfg)

    def linear(self, name, x, lora, scale):
        key = "model.embed_tokens" if name == "lm_head" and self.cfg["tie_word_embeddings"] else name
        y = F.linear(x, self.w[key + ".weight"], self.w.get(name + ".bias"))
        a = lora.get(PEFT + name + ".lora_A.weight") if lora else None
        if a is not None:
            y = y + F.linear(F.linear(x, a), lora[PEFT + name + ".lora_B.weight"]) * scale
        return y

    def norm(self, name, x):
        return self.w[name + ".weight"] * (x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.cfg["rms_norm_eps"]))

    def rope(self, x):
        angle = torch.arange(x.shape[0], dtype=torch.float32)[:, None] * self.inv_freq[None, :]
        cos = angle.to(self.dtype).cos()[:, None, :]
        sin = angle.to(self.dtype).sin()[:, None, :]
        lo, hi = x.chunk(2, dim=-1)
        return torch.cat([lo * cos - hi * sin, hi * cos + lo * sin], dim=-1)

    def attention(self, p, x, lora, scale):
        c, t = self.cfg, x.shape[0]
        heads, kv, d = c["num_attention_heads"], c["num_key_value_heads"], c["head_dim"]
        q = self.linear(p + "q_proj", x, lora, scale).view(t, heads, d)
        k = self.linear(p + "k_proj", x, lora, scale).view(t, kv, d)
        v = self.linear(p + "v_proj", x, lora, scale).view(t, kv, d)
        if p + "q_norm.weight" in self.w:
            q, k = self.norm(p + "q_norm", q), self.norm(p + "k_norm", k)
        q, k = self.rope(q), self.rope(k)
        k, v = k.repeat_interleave(heads // kv, 1), v.repeat_interleave(heads // kv, 1)
        s = torch.einsum("qhd,khd->hqk", q, k) / math.sqrt(d)
        s = s.masked_fill(torch.ones(t, t, dtype=torch.bool).triu(1), float("-inf"))
        o = torch.einsum("hqk,khd->qhd", s.softmax(-1), v).reshape(t, heads * d)
        return self.linear(p + "o_proj", o, lora, scale)

    def logits(self, tokens, lora=None, scale=1.0):
        x = self.w["model.embed_tokens.weight"][torch.tensor(tokens)]
        for i in range(self.cfg["num_hidden_layers"]):
            p = f"model.layers.{i}."
            x = x + self.attention(p + "self_attn.", self.norm(p + "input_layernorm", x), lora, scale)
            h = self.norm(p + "post_attention_layernorm", x)
            g = F.silu(self.linear(p + "mlp.gate_proj", h, lora, scale)) * self.linear(p + "mlp.up_proj", h, lora, scale)
            x = x + self.linear(p + "mlp.down_proj", g, lora, scale)
        return self.linear("lm_head", self.norm("model.norm", x), lora, scale)

    def logprobs(self, tokens, targets, lora=None, scale=1.0):
        lp = self.logits(tokens, lora, scale).log_softmax(-1)
        return lp.gather(-1, torch.tensor(targets)[:, None])[:, 0], -(lp.exp() * lp).sum(-1)


def loss_terms(name, keys, lp, q, adv):
    """Per position, before the weights. keys: the loss's parameters."""
    if name == "cross_entropy":
        return -lp
    r = (lp - q).exp()
    if name == "importance_sampling":
        return -r * adv
    if name == "ppo":
        return -torch.minimum(r * adv, r.clamp(keys["clip_low_threshold"], keys["clip_high_threshold"]) * adv)
    if name == "cispo":
        return -r.clamp(keys["clip_low_threshold"], keys["clip_high_threshold"]).detach() * lp * adv
    if name == "dro":
        return -(lp * adv - keys["beta"] / 2 * (lp - q) ** 2)
    raise ValueError(name)


def kl_terms(name, lp, ref):
    if name == "k1":
        return lp - ref
    if name == "k2":
        return (lp - ref) ** 2 / 2
    return (ref - lp).exp() - (ref - lp) - 1


def total_loss(model, datums, lora, scale, loss, keys, kl=None):
    """Sum over positions and datums. kl: None or {"estimator", "coef", "ref": one list a datum}."""
    total = torch.zeros((), dtype=model.dtype)
    for i, d in enumerate(datums):
        if not any(d["weights"]):
            continue
        lp, _ = model.logprobs(d["tokens"], d["targets"], lora, scale)
        t = {k: torch.tensor(d[k], dtype=torch.float32).to(model.dtype) for k in ("weights", "logprobs", "advantages")}
        term = loss_terms(loss, keys, lp, t["logprobs"], t["advantages"])
        if kl:
            ref = torch.as_tensor(kl["ref"][i], dtype=model.dtype)
            term = term + kl["coef"] * kl_terms(kl["estimator"], lp, ref)
        total = total + (t["weights"] * term).sum()
    return total


def adam(model, datums, lora, scale, steps, lr, weight_decay, clip=None):
    """importance_sampling on the same datums; returns {step: tensors}, and Adam's m and v after the last step."""
    params = {k: v.detach().to(model.dtype).clone().requires_grad_(True) for k, v in sorted(lora.items())}
    opt = torch.optim.AdamW(params.values(), lr=lr, betas=(0.9, 0.999), eps=1e-8, weight_decay=weight_decay)
    out = {}
    for step in range(1, steps + 1):
        opt.zero_grad()
        total_loss(model, datums, params, scale, "importance_sampling", {}).backward()
        if clip:
            torch.nn.utils.clip_grad_norm_(params.values(), clip)
        opt.step()
        out[step] = {k: v.detach().clone() for k, v in params.items()}
    m = {k: opt.state[v]["exp_avg"].clone() for k, v in params.items()}
    s = {k: opt.state[v]["exp_avg_sq"].clone() for k, v in params.items()}
    return out, m, s

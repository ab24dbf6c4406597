#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes tests/oracle/fixtures: tiny models, adapters, datums and the numbers that torch gives for them (README.md).

usage: make_fixtures.py [OUTPUT_FOLDER]
"""
import json
import os
import shutil
import sys

import torch
from safetensors.torch import save_file

import reference as R

HERE = os.path.dirname(os.path.abspath(__file__))
VOCAB, RANK, ALPHA = 97, 4, 8
SCALE = ALPHA / RANK
COMMON = {
    "bos_token_id": 1, "hidden_act": "silu", "hidden_size": 48, "initializer_range": 0.02, "intermediate_size": 80,
    "max_position_embeddings": 512, "num_attention_heads": 4, "num_hidden_layers": 2, "num_key_value_heads": 2,
    "rms_norm_eps": 1e-6, "use_cache": True, "vocab_size": VOCAB, "attention_dropout": 0.0,
}
LLAMA3 = {"factor": 4.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 64,
          "rope_type": "llama3"}
# name: (seed, dtype of the file, shards, config as the family's own folders write it, generation_config)
MODELS = {
    "qwen3": (11, torch.float32, 1, dict(
        COMMON, architectures=["Qwen3ForCausalLM"], model_type="qwen3", head_dim=24, attention_bias=False,
        eos_token_id=2, max_window_layers=2, rope_scaling=None, rope_theta=1000000, sliding_window=None,
        tie_word_embeddings=True, torch_dtype="float32", use_sliding_window=False), {"eos_token_id": [2, 3]}),
    "qwen2": (22, torch.float16, 1, dict(
        COMMON, architectures=["Qwen2ForCausalLM"], model_type="qwen2", eos_token_id=2, max_window_layers=2,
        rope_theta=10000.0, sliding_window=128, tie_word_embeddings=True, torch_dtype="float16",
        use_sliding_window=False), {"eos_token_id": 2}),
    "llama": (33, torch.float32, 2, dict(
        COMMON, architectures=["LlamaForCausalLM"], model_type="llama", head_dim=16, attention_bias=False,
        eos_token_id=[2, 3, 5], mlp_bias=False, pretraining_tp=1, rms_norm_eps=1e-5, rope_scaling=LLAMA3,
        rope_theta=500000.0, tie_word_embeddings=False, torch_dtype="float32"), {"eos_token_id": [2, 3, 5]}),
    # As transformers 5 writes it: dtype, rope_parameters.
    "smollm2": (44, torch.bfloat16, 1, dict(
        COMMON, architectures=["LlamaForCausalLM"], model_type="llama", head_dim=16, attention_bias=False,
        dtype="bfloat16", eos_token_id=2, mlp_bias=False, pad_token_id=2, pretraining_tp=1, rms_norm_eps=1e-5,
        rope_parameters={"rope_theta": 100000, "rope_type": "default"}, tie_word_embeddings=True),
        {"eos_token_id": 2}),
}
LOSSES = {
    "importance_sampling": ("importance_sampling", {}, None),
    "ppo": ("ppo", {"clip_low_threshold": 0.8, "clip_high_threshold": 1.2}, None),
    "cispo": ("cispo", {"clip_low_threshold": 0.0, "clip_high_threshold": 4.0}, None),
    "dro": ("dro", {"beta": 0.05}, None),
    "cross_entropy": ("cross_entropy", {}, None),
    "kl_k1": ("importance_sampling", {}, "k1"),
    "kl_k2": ("importance_sampling", {}, "k2"),
    "kl_k3": ("importance_sampling", {}, "k3"),
}
KL_COEF = 0.1
# Whose gradients are kept whole (the folder stays small); for the others expected.json has the norm of each tensor's.
WHOLE = {"qwen3": ["importance_sampling", "ppo", "cispo", "dro", "cross_entropy", "kl_k3"], "qwen2": ["kl_k3"],
         "llama": ["ppo"], "smollm2": ["importance_sampling"]}
LOGITS_DATUM = 4
LR = 2e-3


def randn(g, *shape):
    return torch.randn(*shape, generator=g)


def make_weights(cfg, g, dtype):
    h, f, d = cfg["hidden_size"], cfg["intermediate_size"], cfg["head_dim"]
    q, kv = cfg["num_attention_heads"] * d, cfg["num_key_value_heads"] * d
    w = {"model.embed_tokens.weight": randn(g, VOCAB, h) * 0.2, "model.norm.weight": 1 + 0.2 * randn(g, h)}
    if not cfg["tie_word_embeddings"]:
        w["lm_head.weight"] = randn(g, VOCAB, h) * 0.2
    for i in range(cfg["num_hidden_layers"]):
        p = f"model.layers.{i}."
        for name, out, inp in (("self_attn.q_proj", q, h), ("self_attn.k_proj", kv, h), ("self_attn.v_proj", kv, h),
                               ("self_attn.o_proj", h, q), ("mlp.gate_proj", f, h), ("mlp.up_proj", f, h),
                               ("mlp.down_proj", h, f)):
            w[p + name + ".weight"] = randn(g, out, inp) / inp ** 0.5
            if cfg["model_type"] == "qwen2" and name[-6:] in ("q_proj", "k_proj", "v_proj"):
                w[p + name + ".bias"] = randn(g, out) * 0.3
        for name in ("input_layernorm", "post_attention_layernorm"):
            w[p + name + ".weight"] = 1 + 0.2 * randn(g, h)
        if cfg["model_type"] == "qwen3":
            for name in ("self_attn.q_norm", "self_attn.k_norm"):
                w[p + name + ".weight"] = 1 + 0.2 * randn(g, d)
    return {k: v.to(dtype) for k, v in w.items()}


def make_adapter(weights, g):
    lora = {}
    heads = {k for k in weights if k.endswith("_proj.weight")} | {"lm_head.weight"}
    for k in sorted(heads):
        out, inp = weights[k if k in weights else "model.embed_tokens.weight"].shape
        name = R.PEFT + k[: -len(".weight")]
        lora[name + ".lora_A.weight"] = (torch.rand(RANK, inp, generator=g) * 2 - 1) / inp ** 0.5
        lora[name + ".lora_B.weight"] = randn(g, out, RANK) * 0.15
    return lora


def digits(x):
    """10 significant digits are enough for every comparison."""
    if isinstance(x, float):
        return float(f"{x:.10g}")
    if isinstance(x, dict):
        return {k: digits(v) for k, v in x.items()}
    return [digits(v) for v in x] if isinstance(x, list) else x


def write_json(path, value, indent=2):
    with open(path, "w", encoding="utf-8") as f:
        json.dump(value, f, indent=indent)
        f.write("\n")


def write_model(path, cfg, gen, weights, shards):
    write_json(f"{path}/config.json", dict(sorted(cfg.items())))
    write_json(f"{path}/generation_config.json", dict(gen, bos_token_id=1))
    if shards == 1:
        save_file(weights, f"{path}/model.safetensors", metadata={"format": "pt"})
        return
    names = sorted(weights)
    cut = len(names) // 2
    parts = [names[:cut], names[cut:]]
    index = {"metadata": {"total_size": sum(v.numel() * v.element_size() for v in weights.values())}, "weight_map": {}}
    for n, part in enumerate(parts, 1):
        file = f"model-{n:05d}-of-{shards:05d}.safetensors"
        save_file({k: weights[k] for k in part}, f"{path}/{file}", metadata={"format": "pt"})
        index["weight_map"].update({k: file for k in part})
    write_json(f"{path}/model.safetensors.index.json", index)


def write_adapter(path, lora):
    os.makedirs(path)
    write_json(f"{path}/adapter_config.json", {
        "alpha_pattern": {}, "base_model_name_or_path": "fixture", "bias": "none", "fan_in_fan_out": False,
        "inference_mode": True, "lora_alpha": ALPHA, "lora_dropout": 0.0, "peft_type": "LORA", "r": RANK,
        "rank_pattern": {}, "target_modules": ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj",
                                               "down_proj", "lm_head"], "task_type": "CAUSAL_LM"})
    save_file({k: v.contiguous() for k, v in lora.items()}, f"{path}/adapter_model.safetensors",
              metadata={"format": "pt"})


def make_datums(model, lora, g):
    """(prompt, response) lengths; the 2nd and 3rd share a prompt, the last has only zero weights."""
    rand = lambda n: torch.randint(0, VOCAB, (n,), generator=g).tolist()
    shared = rand(20)
    cases = [("one", rand(1), rand(1), 0.75), ("group", shared, rand(14), 0.625), ("group", shared, rand(46), -0.375),
             ("long", rand(3), rand(68), -0.5), ("sharp", rand(9), rand(7), 1.25), ("zero", rand(5), rand(8), 0.0)]
    datums = []
    for i, (name, prompt, response, adv) in enumerate(cases):
        full = prompt + response
        tokens, targets = full[:-1], full[1:]
        pad = len(prompt) - 1
        lp = model.logprobs(tokens, targets, lora, SCALE)[0].detach()[pad:]
        shift = 0.25 * randn(g, len(response)).double()
        if name == "sharp":  # ratios beyond 4, for cispo
            shift[2], shift[5] = -1.7, -2.1
        q = (lp + shift).clamp(max=-0.001)
        for edge in (0.8, 1.2, 4.0):  # keep away from the corners, where float32 could fall on either side
            near = ((lp - q).exp() - edge).abs() < 1e-2
            q = torch.where(near, q - 0.05, q)
        weights = [1.0] * len(response)
        if name == "long":
            weights = [(0.25, 1.0, 0.5, 0.0, 1.5)[j % 5] for j in range(len(response))]
        if name == "zero":
            weights = [0.0] * len(response)
        advantages = [adv + (0.125 * (j % 3) if name == "long" else 0.0) for j in range(len(response))]
        f32 = lambda v: [float(x) for x in torch.tensor([0.0] * pad + list(v), dtype=torch.float32)]
        datums.append({"name": name, "sample": i, "tokens": tokens, "targets": targets, "weights": f32(weights),
                       "logprobs": f32(q.tolist()), "advantages": f32(advantages)})
    return datums


def short(x):
    """The fewest digits that read back to the same float32."""
    for digits in range(1, 10):
        s = f"{x:.{digits}g}"
        if torch.tensor(float(s), dtype=torch.float32).item() == x:
            return float(s)
    return x


def datum_line(d, ref=None):
    n = len(d["tokens"])
    t = lambda data, dtype: {"data": data, "dtype": dtype, "shape": [n]}
    inputs = {"target_tokens": t(d["targets"], "int64")}
    for k in ("weights", "logprobs", "advantages"):
        inputs[k] = t([short(x) for x in d[k]], "float32")
    if ref is not None:
        inputs["ref_logprobs"] = t([short(x) for x in ref], "float32")
    return json.dumps({"model_input": {"chunks": [{"type": "encoded_text", "tokens": d["tokens"]}]},
                       "loss_fn_inputs": inputs,
                       "meta": {"id": d["name"], "group": d["name"], "sample": d["sample"], "step": 0}},
                      separators=(",", ":"))


def gradients(model, datums, lora, entry, ref):
    loss, keys, est = LOSSES[entry]
    params = {k: v.to(model.dtype).clone().requires_grad_(True) for k, v in sorted(lora.items())}
    kl = {"estimator": est, "coef": KL_COEF, "ref": ref} if est else None
    value = R.total_loss(model, datums, params, SCALE, loss, keys, kl)
    value.backward()
    return value.item(), {k: p.grad for k, p in params.items()}


def losses(out, name, m64, m32, datums, lora, ref):
    table = {}
    for entry, (loss, keys, est) in LOSSES.items():
        value, grad = gradients(m64, datums, lora, entry, ref)
        value32, grad32 = gradients(m32, datums, lora, entry, [torch.as_tensor(r).float() for r in ref])
        rel = max(((grad[k] - grad32[k]).norm() / grad[k].norm()).item() for k in grad)
        table[entry] = {
            "loss": loss, "keys": keys, "kl_estimator": est, "kl_coef": KL_COEF if est else 0.0, "value": value,
            "value_f32": value32, "grad_norm": sum(g.pow(2).sum().item() for g in grad.values()) ** 0.5,
            "grad_norms": {k: g.norm().item() for k, g in grad.items()}, "f32_max_relative_grad_error": rel,
            "gradients": None}
        assert rel < 2e-5, (name, entry, rel)
        if entry in WHOLE[name]:
            table[entry]["gradients"] = f"grad-{entry}.safetensors"
            save_file({k: g.float() for k, g in grad.items()}, f"{out}/grad-{entry}.safetensors")
    return table


def adam_steps(out, m64, m32, datums, lora):
    _, g = gradients(m64, datums, lora, "importance_sampling", None)
    # Adam divides by |g|: where that is near eps or float32's noise, the step means nothing.
    least = min(x.abs().min().item() for x in g.values())
    table = {"loss": "importance_sampling", "lr": LR, "beta1": 0.9, "beta2": 0.999, "eps": 1e-8,
             "least_abs_gradient": least, "runs": {}}
    for run, decay, clip in (("plain", 0.0, None), ("decay", 0.1, None), ("clip", 0.0, 1.0)):
        steps, m, v = R.adam(m64, datums, lora, SCALE, 3, LR, decay, clip)
        steps32, _, _ = R.adam(m32, datums, lora, SCALE, 3, LR, decay, clip)
        files = {}
        for s in (1, 3):
            if (run, s) in (("plain", 1), ("plain", 3), ("decay", 3)):
                files[str(s)] = f"adam-{run}-{s}.safetensors"
                save_file({k: p.float() for k, p in steps[s].items()}, f"{out}/{files[str(s)]}")
        table["runs"][run] = {
            "weight_decay": decay, "grad_clip_norm": clip, "files": files,
            "f32_max_abs_error": max((steps[3][k] - steps32[3][k]).abs().max().item() for k in lora),
            "m_norm": sum(x.pow(2).sum().item() for x in m.values()) ** 0.5,
            "v_norm": sum(x.pow(2).sum().item() for x in v.values()) ** 0.5}
    return table


def merged(out, weights, lora):
    some = ["model.layers.0.self_attn.q_proj", "model.layers.1.mlp.down_proj", "lm_head"]
    result = {}
    for name in some:
        w = weights[name + ".weight" if name + ".weight" in weights else "model.embed_tokens.weight"].double()
        delta = lora[R.PEFT + name + ".lora_B.weight"].double() @ lora[R.PEFT + name + ".lora_A.weight"].double()
        result[name + ".weight"] = (w + SCALE * delta).float()
    save_file(result, f"{out}/merged.safetensors")


def hf_logprobs(path, datums, dtype, adapter):
    from peft import PeftModel
    from transformers import AutoModelForCausalLM
    model = AutoModelForCausalLM.from_pretrained(path, dtype=dtype, attn_implementation="eager")
    if adapter:
        model = PeftModel.from_pretrained(model, f"{path}/adapter", autocast_adapter_dtype=False).to(dtype)
    model.eval()
    rows = []
    with torch.no_grad():
        for d in datums:
            lp = model(torch.tensor([d["tokens"]])).logits[0].float().log_softmax(-1)
            rows.append(lp.gather(-1, torch.tensor(d["targets"])[:, None])[:, 0])
    return rows


def far(a, b):
    d = torch.cat([(torch.as_tensor(x).double() - torch.as_tensor(y).double()).abs() for x, y in zip(a, b)])
    return {"max": d.max().item(), "mean": d.mean().item()}


def against_transformers(out, datums, base, tuned):
    """transformers and PEFT on the files just written: f32 must agree, bf16 is the yardstick of --precision bf16."""
    table = {}
    for key, rows, adapter in (("base", base, False), ("adapter", tuned, True)):
        table["f32_" + key] = far(hf_logprobs(out, datums, torch.float32, adapter), rows)
        table["bf16_" + key] = far(hf_logprobs(out, datums, torch.bfloat16, adapter), rows)
        assert table["f32_" + key]["max"] < 2e-5, (out, table)
    return table


def make(name, root):
    seed, dtype, shards, cfg, gen = MODELS[name]
    g = torch.Generator().manual_seed(seed)
    out = f"{root}/{name}"
    os.makedirs(out)
    full = dict(cfg)
    full.setdefault("head_dim", cfg["hidden_size"] // cfg["num_attention_heads"])
    full.setdefault("rope_theta", cfg.get("rope_parameters", {}).get("rope_theta"))
    if cfg["model_type"] == "qwen2":
        full["head_dim"] = 12
    weights = make_weights(full, g, dtype)
    lora = make_adapter(weights, g)
    write_model(out, cfg, gen, weights, shards)
    write_adapter(f"{out}/adapter", lora)
    m64, m32 = R.Model(full, weights, torch.float64), R.Model(full, weights, torch.float32)
    l64 = {k: v.double() for k, v in lora.items()}
    datums = make_datums(m64, l64, g)
    with torch.no_grad():
        base = [m64.logprobs(d["tokens"], d["targets"]) for d in datums]
        tuned = [m64.logprobs(d["tokens"], d["targets"], l64, SCALE) for d in datums]
        save_file({"base": m64.logits(datums[LOGITS_DATUM]["tokens"]).float(),
                   "adapter": m64.logits(datums[LOGITS_DATUM]["tokens"], l64, SCALE).float()}, f"{out}/logits.safetensors")
    # References that differ from the base's, for datums that carry their own.
    refs = [(lp - 0.3 * torch.rand(len(lp), generator=g).double()).float() for lp, _ in base]
    for file, rows in (("datums.jsonl", [None] * len(datums)), ("datums-ref.jsonl", refs)):
        if file == "datums-ref.jsonl" and name != "qwen3":
            continue
        with open(f"{out}/{file}", "w", encoding="utf-8") as f:
            for d, r in zip(datums, rows):
                f.write(datum_line(d, None if r is None else [float(x) for x in r]) + "\n")
    value, grad = gradients(m64, datums, lora, "kl_k3", [r.double() for r in refs])
    expected = {
        "model": name, "rank": RANK, "alpha": ALPHA, "logits_datum": LOGITS_DATUM,
        "logprobs_base": [lp.tolist() for lp, _ in base], "entropy_base": [e.tolist() for _, e in base],
        "logprobs_adapter": [lp.tolist() for lp, _ in tuned], "entropy_adapter": [e.tolist() for _, e in tuned],
        "losses": losses(out, name, m64, m32, datums, lora, [lp.detach() for lp, _ in base]),
        "datums_ref": {"loss": "importance_sampling", "kl_estimator": "k3", "kl_coef": KL_COEF, "value": value,
                       "grad_norms": {k: v.norm().item() for k, v in grad.items()}} if name == "qwen3" else None,
        "transformers": against_transformers(out, datums, [lp for lp, _ in base], [lp for lp, _ in tuned]),
    }
    if name in ("qwen3", "llama"):
        merged(out, weights, lora)
    if name == "qwen3":
        expected["adam"] = adam_steps(out, m64, m32, datums, lora)
    write_json(f"{out}/expected.json", digits(expected), None)
    print(name, "logit std", m64.logits(datums[LOGITS_DATUM]["tokens"]).std().item(), expected["transformers"])


def versions():
    import peft
    import safetensors
    import transformers
    return {"python": sys.version.split()[0], "torch": torch.__version__, "transformers": transformers.__version__,
            "peft": peft.__version__, "safetensors": safetensors.__version__}


def main():
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    root = sys.argv[1] if len(sys.argv) > 1 else f"{HERE}/fixtures"
    shutil.rmtree(root, ignore_errors=True)
    for name in MODELS:
        make(name, root)
    write_json(f"{root}/../VERSIONS.json" if len(sys.argv) == 1 else f"{root}/VERSIONS.json", versions())


if __name__ == "__main__":
    main()

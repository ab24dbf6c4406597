#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes tests/oracle/losses.json: the losses beyond the five of the contract, corrections, bonus and bounds, as values and
gradients by torch's autograd in float64, on the model, adapter and datums of fixtures/qwen3 (README.md).

usage: make_losses.py [OUTPUT_FILE]
"""
import json
import math
import os
import sys

import torch
from safetensors.torch import load_file

import reference as R

HERE = os.path.dirname(os.path.abspath(__file__))
FOLDER = f"{HERE}/fixtures/qwen3"
SCALE = 2.0
F64 = torch.float64
DPO_ORDER = [1, 2, 4, 3]  # chosen, rejected, chosen, rejected
LOST = [2, 1, 4, 3]  # the first pair the other way round

CASES = [
    {"name": "gspo", "loss": "gspo", "low": 0.97, "high": 1.04},
    {"name": "gspo-defaults", "loss": "gspo", "low": 0.9997, "high": 1.0004},
    {"name": "gspo-dual", "loss": "gspo", "low": 0.5, "high": 2.0, "dual_clip": 1.03, "proximal": "parent"},
    {"name": "ppo-dual", "loss": "ppo", "low": 0.8, "high": 1.2, "dual_clip": 1.3},
    {"name": "ppo-tensors", "loss": "ppo", "low": 0.8, "high": 1.2, "tensors": True},
    {"name": "cispo-tensors", "loss": "cispo", "low": 0.0, "high": 4.0, "tensors": True},
    {"name": "entropy-is", "loss": "importance_sampling", "entropy_coef": 0.03},
    {"name": "entropy-kl-ppo", "loss": "ppo", "low": 0.8, "high": 1.2, "entropy_coef": 0.01, "kl_coef": 0.2},
    {"name": "entropy-ce", "loss": "cross_entropy", "entropy_coef": 0.5},
    {"name": "parent-ppo", "loss": "ppo", "low": 0.9, "high": 1.15, "proximal": "parent"},
    {"name": "parent-gspo", "loss": "gspo", "low": 0.98, "high": 1.02, "proximal": "parent"},
    {"name": "parent-first-step", "loss": "ppo", "low": 0.9, "high": 1.15, "proximal": "parent", "no_old": True},
    {"name": "tis", "loss": "ppo", "low": 0.9, "high": 1.15, "proximal": "parent", "correction": "tis", "most": 1.25},
    {"name": "tis-first-step", "loss": "ppo", "low": 0.9, "high": 1.15, "proximal": "parent", "correction": "tis",
     "most": 1.25, "no_old": True},
    {"name": "icepop", "loss": "importance_sampling", "proximal": "parent", "correction": "icepop", "least": 0.8, "most": 1.3},
    {"name": "icepop-mask", "loss": "importance_sampling", "correction": "icepop", "least": 0.8, "most": 1.3},
    {"name": "seq-tis", "loss": "cispo", "low": 0.0, "high": 4.0, "proximal": "parent", "correction": "seq-tis", "most": 2.0},
    {"name": "seq-mis", "loss": "importance_sampling", "correction": "seq-mis", "least": 0.0, "most": 1.1},
    {"name": "seq-mis-parent", "loss": "ppo", "low": 0.9, "high": 1.15, "proximal": "parent", "correction": "seq-mis",
     "least": 0.4, "most": 3.0, "kl_coef": 0.1},
    {"name": "geo-mis", "loss": "importance_sampling", "correction": "geo-mis", "least": 0.97, "most": 1.03},
    {"name": "dro-icepop", "loss": "dro", "beta": 0.05, "correction": "icepop", "least": 0.8, "most": 1.3},
    {"name": "dpo", "loss": "dpo", "beta": 0.1, "order": DPO_ORDER},
    {"name": "dpo-lost", "loss": "dpo", "beta": 0.4, "order": LOST},
]


def read_datums():
    rows = []
    with open(f"{FOLDER}/datums.jsonl", encoding="utf-8") as f:
        for line in f:
            d = json.loads(line)
            i = d["loss_fn_inputs"]
            rows.append({"tokens": d["model_input"]["chunks"][0]["tokens"], "targets": i["target_tokens"]["data"],
                         **{k: torch.tensor(i[k]["data"], dtype=torch.float32).to(F64)
                            for k in ("weights", "logprobs", "advantages")}})
    return rows


def corrected(case, p, q, lp):
    """omega of one datum's counted positions, the number masked and the number truncated. p: the proximal policy."""
    kind, parent = case["correction"], case.get("proximal") == "parent"
    delta = (p if parent else lp.detach()) - q
    if kind in ("tis", "icepop"):
        x = delta.exp()
    elif kind == "geo-mis":
        x = delta.mean().exp().expand(len(q))
    else:
        x = delta.sum().exp().expand(len(q))
    low, high = case.get("least", -math.inf), case["most"]
    assert min((x / high - 1).abs().min(), (x / max(low, 1e-9) - 1).abs().min()) > 1e-4, "too near a bound"
    if kind in ("tis", "seq-tis"):
        return x.clamp(max=high), 0, int((x > high).sum())
    inside = (x >= low) & (x <= high)
    weight = x if parent and kind != "geo-mis" else torch.ones_like(x)
    return torch.where(inside, weight, torch.zeros_like(x)), int((~inside).sum()), 0


def term(case, lp, p, adv, low, high, counts):
    loss = case["loss"]
    if loss == "cross_entropy":
        return -lp
    if loss == "dro":
        return -(lp * adv - case["beta"] / 2 * (lp - p) ** 2)
    if loss == "gspo":
        s = (lp - p).mean().exp().detach()
        r = s * (lp - lp.detach()).exp()
    else:
        r = (lp - p).exp()
    if loss == "importance_sampling":
        return -r * adv
    cut = torch.minimum(torch.maximum(r, low), high)
    assert torch.minimum((r / low - 1).abs(), (r / high - 1).abs()).min() > 1e-4, "too near a bound"
    if loss == "cispo":
        counts["clipped"] += int((cut != r).sum())
        return -cut.detach() * lp * adv
    counts["clipped"] += int((cut * adv < r * adv).sum())
    out = -torch.minimum(r * adv, cut * adv)
    if "dual_clip" in case:
        most = -case["dual_clip"] * adv
        dual = (adv < 0) & (out > most)
        assert ((out / most - 1).abs()[adv < 0] > 1e-4).all(), "too near the dual clip"
        counts["dual_clipped"] += int(dual.sum())
        out = torch.where(dual, most, out)
    return out


def datum_loss(case, d, lp, entropy, old, ref, bounds, counts):
    c = d["weights"] != 0
    w, q, adv, lp, entropy, ref = d["weights"][c], d["logprobs"][c], d["advantages"][c], lp[c], entropy[c], ref[c]
    p = q
    if case.get("proximal") == "parent":
        p = lp.detach() if case.get("no_old") else old[c]
    low = bounds[0][c] if case.get("tensors") else torch.full_like(q, case.get("low", -math.inf))
    high = bounds[1][c] if case.get("tensors") else torch.full_like(q, case.get("high", math.inf))
    out = term(case, lp, p, adv, low, high, counts)
    if "correction" in case:
        omega, masked, truncated = corrected(case, p, q, lp)
        out = omega * out
        counts["masked"] += masked
        counts["masked_datums"] += masked == len(q)
        counts["truncated"] += truncated
        counts["omega"] += omega.sum().item()
    if "kl_coef" in case:
        out = out + case["kl_coef"] * R.kl_terms("k3", lp, ref)
    if "entropy_coef" in case:
        out = out - case["entropy_coef"] * entropy
    return (w * out).sum()


def dpo_loss(case, rows, all_lp, refs, counts):
    total = torch.zeros((), dtype=F64)
    for i in range(0, len(case["order"]), 2):
        gain = [(rows[k]["weights"] * (all_lp[k] - refs[k])).sum() for k in case["order"][i:i + 2]]
        margin = case["beta"] * (gain[0] - gain[1])
        total = total - torch.nn.functional.logsigmoid(margin)
        counts["pairs"] += 1
        counts["wins"] += int(margin > 0)
        counts["margin"] += margin.item()
    return total


def run(case, model, rows, lora, olds, refs, bounds):
    params = {k: v.to(F64).clone().requires_grad_(True) for k, v in sorted(lora.items())}
    counts = dict.fromkeys(("clipped", "dual_clipped", "masked", "masked_datums", "truncated", "pairs", "wins"), 0)
    counts.update(omega=0.0, margin=0.0)
    dpo = case["loss"] == "dpo"
    both = {k: model.logprobs(d["tokens"], d["targets"], params, SCALE) for k, d in enumerate(rows)
            if (d["weights"] != 0).any() and (not dpo or k in case["order"])}
    if dpo:
        total = dpo_loss(case, rows, {k: v[0] for k, v in both.items()}, refs, counts)
    else:
        total = sum(datum_loss(case, rows[k], lp, h, olds[k], refs[k], bounds[k], counts) for k, (lp, h) in both.items())
    total.backward()
    grads = {k: v.grad.flatten() for k, v in params.items()}
    # a direction that no symmetry hides: sum of g_j cos(j)
    wave = lambda g: (g * torch.arange(len(g), dtype=F64).cos()).sum().item()
    return dict(case, value=total.item(), counts=counts, norms={k: g.norm().item() for k, g in grads.items()},
                waves={k: wave(g) for k, g in grads.items()})


def digits(x):
    if isinstance(x, float):
        return float(f"{x:.10g}")
    if isinstance(x, dict):
        return {k: digits(v) for k, v in x.items()}
    return [digits(v) for v in x] if isinstance(x, list) else x


def f32(x):
    return x.to(torch.float32).to(F64)


def main():
    torch.set_num_threads(1)
    g = torch.Generator().manual_seed(77)
    with open(f"{FOLDER}/config.json", encoding="utf-8") as f:
        cfg = json.load(f)
    model = R.Model(cfg, load_file(f"{FOLDER}/model.safetensors"), F64)
    lora = load_file(f"{FOLDER}/adapter/adapter_model.safetensors")
    rows = read_datums()
    with torch.no_grad():
        l64 = {k: v.to(F64) for k, v in lora.items()}
        tuned = [model.logprobs(d["tokens"], d["targets"], l64, SCALE)[0] for d in rows]
        refs = [model.logprobs(d["tokens"], d["targets"])[0] for d in rows]
    rand = lambda n: torch.randn(n, generator=g).to(F64)
    # the fourth datum, of negative advantage, has become likelier: dual clip of its sequence
    olds = [f32((lp + 0.1 * rand(len(lp)) - (0.1 if k == 3 else 0.0)).clamp(max=0.0)) for k, lp in enumerate(tuned)]
    bounds = [(f32(0.85 - 0.1 * rand(len(lp)).abs()), f32(1.15 + 0.2 * rand(len(lp)).abs())) for lp in tuned]
    result = {
        "old_logprobs": [o.tolist() for o in olds],
        "clip_low": [b[0].tolist() for b in bounds],
        "clip_high": [b[1].tolist() for b in bounds],
        "cases": [run(c, model, rows, lora, olds, refs, bounds) for c in CASES],
    }
    with open(sys.argv[1] if len(sys.argv) > 1 else f"{HERE}/losses.json", "w", encoding="utf-8") as f:
        parts = [f"{json.dumps(k)}: [\n" + ",\n".join(json.dumps(x) for x in v) + "\n]" for k, v in digits(result).items()]
        f.write("{\n" + ",\n".join(parts) + "\n}\n")
    for c in result["cases"]:
        print(c["name"], c["value"], {k: v for k, v in c["counts"].items() if v})


if __name__ == "__main__":
    main()

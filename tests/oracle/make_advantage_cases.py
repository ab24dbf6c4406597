#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes tests/data/advantage: rollout groups, and for each set of options of mint-advantage the advantages that numpy
gets from the formulas of the manual page, sequence by sequence. It shares no code with the tool."""
import json
import pathlib
import sys

import numpy as np

OUT = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).parent.parent / "data" / "advantage")
LIMIT = 6


def rollouts():
    rng = np.random.default_rng(20261)
    rewards = [[1, 0, 0, 0], [1, 1, 0, 1], [0.7] * 4, [0, 0, 0, 0], [0.25, 1, 0.5, None], [0, 1, 0.1]]
    groups = []
    for g, rs in enumerate(rewards):
        seqs = []
        for i, r in enumerate(rs):
            n = int(rng.integers(1, LIMIT + 1))
            lp = lambda: [round(-float(x), 4) for x in rng.exponential(1.0, n)]
            b = [0, 1, 0.5, 0.5][(g + i) % 4]
            seqs.append({"tokens": [int(x) for x in rng.integers(5, 90, n)], "logprobs": lp(), "ref_logprobs": lp(),
                         "teacher_logprobs": lp(), "stop_reason": "length" if n == LIMIT else "stop", "reward": r,
                         "scores": {"right": r, "form": b}})
        groups.append({"id": f"g{g}", "prompt_tokens": [1, 2, 3], "sequences": seqs,
                       "sampling": {"step": g, "max_tokens": LIMIT}})
    return groups


def baseline(norm, r, eps, ddof):
    r = np.array(r, dtype=np.float64)
    if norm in ("none", "reinforce++"):
        return r
    if r.max() == r.min():
        return np.zeros(len(r))
    c = r - r.mean()
    if norm in ("mean", "dr-grpo", "reinforce++-baseline"):
        return c
    if norm == "std":
        return c / (r.std(ddof=ddof) + eps)
    if norm == "loo":
        return np.array([r[i] - np.delete(r, i).mean() for i in range(len(r))])
    if norm == "maxrl":
        return c / r.mean()
    raise ValueError(norm)


def penalty(n, buffer, factor):
    return -factor * min(max(n - (LIMIT - buffer), 0) / buffer, 1) if buffer else 0.0


def advantages(groups, norm="mean", eps=None, ddof=1, keep_flat=False, buffer=0, factor=1.0, truncated="keep", scores=None,
               kl=0.0, discount=None, center=None, teacher=0.0, clip=None, length="none", staleness=None):
    """A list a Datum, in the order of the file."""
    reinforce = norm.startswith("reinforce")
    eps = eps if eps is not None else 1e-8 if reinforce else 1e-6
    discount = discount if discount is not None else 1.0 if reinforce else 0.0
    center = center if center is not None else not reinforce
    length = "max-tokens" if norm == "dr-grpo" and length == "none" else length
    sums, rows = [], []  # GDPO: all sums that count; rows: (sequence, advantage)
    for g in groups:
        if staleness is not None and g["sampling"]["step"] < staleness[1] - staleness[0]:
            continue
        seqs = [s for s in g["sequences"] if s["reward"] is not None]
        if truncated == "drop":
            seqs = [s for s in seqs if s["stop_reason"] == "stop"]
        p = [penalty(len(s["tokens"]), buffer, factor) for s in seqs]
        r = [s["reward"] + x for s, x in zip(seqs, p)]
        if norm == "gdpo":
            parts = [(w, [s["scores"][k] for s in seqs]) for k, w in scores.items()] + [(1.0, p)]
            flat = all(min(v) == max(v) for _, v in parts)
            a = sum(w * baseline("std", v, eps, ddof) for w, v in parts)
        elif len(r):
            flat = min(r) == max(r) and norm not in ("none", "reinforce++")
            a = baseline(norm, r, eps, ddof)
        if len(r) < (1 if norm in ("none", "reinforce++") or teacher else 2) or (flat and not keep_flat and not teacher):
            continue
        sums += list(a)
        rows += [(s, v) for s, v in zip(seqs, a) if truncated != "mask" or s["stop_reason"] == "stop"]
    if norm == "gdpo":
        m, d = np.mean(sums), np.std(sums, ddof=ddof) + eps
        rows = [(s, (v - m) / d) for s, v in rows]
    gap = [np.array(s["logprobs"]) - np.array(s["ref_logprobs"]) for s, _ in rows]
    mean_gap = np.concatenate(gap).mean() if center else 0.0
    out = []
    for (s, v), d in zip(rows, gap):
        n = len(d)
        term = kl * (mean_gap - d)
        ahead = np.array([sum(discount ** (k - t) * term[k] for k in range(t, n)) for t in range(n)])
        out.append(v + ahead - teacher * (np.array(s["logprobs"]) - np.array(s["teacher_logprobs"])))
    tokens = np.concatenate(out)
    if reinforce:
        out = [(a - tokens.mean()) / np.sqrt(tokens.var(ddof=ddof) + eps) for a in out]
    if clip:
        out = [np.clip(a, -clip, clip) for a in out]
    by = {"none": lambda a: 1, "sequence": len, "batch": lambda a: len(tokens), "max-tokens": lambda a: LIMIT}
    return [a / (by[length](a) if length in by else float(length)) for a in out]


BOTH = {"right": 1.0, "form": 1.0}
CASES = [
    ("--norm mean", {}),
    ("--norm std", dict(norm="std")),
    ("--norm std --eps 0.01 --ddof 0", dict(norm="std", eps=0.01, ddof=0)),
    ("--norm std --keep-flat", dict(norm="std", keep_flat=True)),
    ("--norm loo", dict(norm="loo")),
    ("--norm dr-grpo", dict(norm="dr-grpo")),
    ("--norm dr-grpo --length-norm none", dict(norm="mean")),
    ("--norm maxrl", dict(norm="maxrl")),
    ("--norm none", dict(norm="none")),
    ("--norm reinforce++", dict(norm="reinforce++")),
    ("--norm reinforce++ --ddof 0 --eps 0.5", dict(norm="reinforce++", ddof=0, eps=0.5)),
    ("--norm reinforce++ --kl-penalty-coef 0.1", dict(norm="reinforce++", kl=0.1)),
    ("--norm reinforce++ --kl-penalty-coef 0.1 --kl-discount-factor 0.5", dict(norm="reinforce++", kl=0.1, discount=0.5)),
    ("--norm reinforce++-baseline", dict(norm="reinforce++-baseline")),
    ("--norm reinforce++-baseline --keep-flat --kl-penalty-coef 0.2",
     dict(norm="reinforce++-baseline", keep_flat=True, kl=0.2)),
    ("--norm gdpo", dict(norm="gdpo", scores=BOTH)),
    ("--norm gdpo --score right --score form=0.25", dict(norm="gdpo", scores={"right": 1.0, "form": 0.25})),
    ("--norm gdpo --score form=2 --eps 1e-4 --ddof 0", dict(norm="gdpo", scores={"form": 2.0}, eps=1e-4, ddof=0)),
    ("--norm gdpo --overlong-buffer 4", dict(norm="gdpo", scores=BOTH, buffer=4)),
    ("--norm gdpo --mask-truncated --kl-penalty-coef 0.1", dict(norm="gdpo", scores=BOTH, truncated="mask", kl=0.1)),
    ("--overlong-buffer 3 --overlong-factor 0.5", dict(buffer=3, factor=0.5)),
    ("--drop-truncated", dict(truncated="drop")),
    ("--mask-truncated", dict(truncated="mask")),
    ("--mask-truncated --length-norm batch", dict(truncated="mask", length="batch")),
    ("--max-staleness 2 --step 5", dict(staleness=(2, 5))),
    ("--clip 0.3", dict(clip=0.3)),
    ("--norm std --clip 1 --length-norm sequence", dict(norm="std", clip=1.0, length="sequence")),
    ("--length-norm batch", dict(length="batch")),
    ("--length-norm max-tokens", dict(length="max-tokens")),
    ("--length-norm 8", dict(length="8")),
    ("--kl-penalty-coef 0.1", dict(kl=0.1)),
    ("--kl-penalty-coef 0.1 --kl-discount-factor 0.9", dict(kl=0.1, discount=0.9)),
    ("--kl-penalty-coef 0.1 --kl-center none", dict(kl=0.1, center=False)),
    ("--kl-penalty-coef 0.1 --kl-center none --kl-discount-factor 1 --clip 0.4",
     dict(kl=0.1, center=False, discount=1.0, clip=0.4)),
    ("--teacher-coef 0.5", dict(teacher=0.5)),
    ("--teacher-coef 1 --kl-penalty-coef 0.1 --length-norm batch", dict(teacher=1.0, kl=0.1, length="batch")),
    ("--like trl", dict(norm="std", eps=1e-4, keep_flat=True)),
    ("--like verl", dict(norm="std", eps=1e-6, keep_flat=True)),
    ("--like openrlhf", dict(norm="std", eps=1e-9, keep_flat=True)),
    ("--like tinker", dict(norm="mean", keep_flat=True)),
    ("--like mint-dapo", dict(norm="std", eps=1e-6, keep_flat=True)),
    ("--like trl --norm gdpo", dict(norm="gdpo", scores=BOTH, eps=1e-4, keep_flat=True)),
    ("--like verl --no-keep-flat", dict(norm="std")),
]


def main():
    OUT.mkdir(parents=True, exist_ok=True)
    groups = rollouts()
    with open(OUT / "rollouts.jsonl", "w", encoding="utf-8") as f:
        for g in groups:
            f.write(json.dumps(g, separators=(",", ":")) + "\n")
    with open(OUT / "cases.jsonl", "w", encoding="utf-8") as f:
        for args, how in CASES:
            got = [[round(float(x), 9) for x in a] for a in advantages(groups, **how)]
            f.write(json.dumps({"args": args, "advantages": got}, separators=(",", ":")) + "\n")


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What mint-score --summary says, computed once more.

summary_check.py make SEED            scored records, on stdout: answers, missing rewards, cut responses
summary_check.py check RECORDS METRICS  compares the line of --metrics with what follows from the records

A reward of 0.5 or more is right. Nothing here is shared with lib/score_summary.c: pass@k comes from binomial
coefficients, the standard error from its definition, votes from a dictionary.
"""
import json
import math
import random
import sys
from math import comb

Z = 1.959963984540054


def make(seed):
    r = random.Random(seed)
    for i in range(r.randint(2, 40)):
        sequences = []
        for _ in range(r.randint(1, 17)):
            reward = r.choice([0, 1, 1, 0.5, -0.25, r.gauss(0, 1)] if seed % 2 else [0, 1])
            sequences.append({
                "tokens": [1] * r.randint(0, 9), "text": "t", "stop_reason": r.choice(["stop", "stop", "length"]),
                "reward": None if r.random() < 0.1 else reward, "scores": {"x": 0},
                "detail": {"x": {"answer": r.choice(["1", "2", "3", None])}}})
        print(json.dumps({"id": i, "prompt_tokens": [1], "sequences": sequences}))


def wilson(right, n):
    p = right / n
    middle = (p + Z * Z / 2 / n) / (1 + Z * Z / n)
    half = Z / (1 + Z * Z / n) * math.sqrt(p * (1 - p) / n + Z * Z / 4 / n / n)
    return middle - half, middle + half


def mean(v):
    return sum(v) / len(v)


def majority(sequences):
    """None: no rewards; else whether the most frequent answer is right, the first seen of several."""
    scored = [s for s in sequences if s["reward"] is not None]
    if not scored:
        return None
    votes = {}
    for s in scored:
        answer = s["detail"]["x"]["answer"]
        if answer is not None:
            votes.setdefault(answer, [0, s["reward"] >= 0.5])[0] += 1
    return max(votes.values(), key=lambda v: v[0])[1] if votes else False


def expected(groups):
    every = [s for g in groups for s in g["sequences"]]
    scored = [s for s in every if s["reward"] is not None]
    rewards = [s["reward"] for s in scored]
    lengths = [len(s["tokens"]) for s in scored]
    right = sum(x >= 0.5 for x in rewards)
    by_group = [[s["reward"] for s in g["sequences"] if s["reward"] is not None] for g in groups]
    by_group = [v for v in by_group if v]
    means = [mean(v) for v in by_group]
    m = {"score/groups": len(groups), "score/sequences": len(every), "score/null": len(every) - len(scored),
         "reward/mean": mean(rewards), "score/accuracy": right / len(scored),
         "env/stop_length_frac": mean([s["stop_reason"] == "length" for s in every]),
         "env/ac_tokens_mean": mean([len(s["tokens"]) for s in every]),
         "score/truncated_accuracy": mean([s["reward"] >= 0.5 for s in scored if s["stop_reason"] == "length"])}
    m["score/accuracy_lo"], m["score/accuracy_hi"] = wilson(right, len(scored))
    if all(x in (0, 1) for x in rewards):
        m["reward/lo"], m["reward/hi"] = wilson(sum(rewards), len(rewards))
    m["reward/stderr"] = math.sqrt(sum((x - mean(means)) ** 2 for x in means) / (len(means) - 1) / len(means))
    x, y = [v - mean(rewards) for v in rewards], [v - mean(lengths) for v in lengths]
    m["reward/length_corr"] = sum(a * b for a, b in zip(x, y)) / math.sqrt(sum(a * a for a in x) * sum(b * b for b in y))
    for k in (1, 2, 4, 8, 16):
        v = [1 - comb(len(g) - sum(a >= 0.5 for a in g), k) / comb(len(g), k) for g in by_group if len(g) >= k]
        if v:
            m["score/pass@%d" % k] = mean(v)
        shares = []
        for s in (g["sequences"] for g in groups if majority(g["sequences"]) is not None):
            v = [majority(s[i:i + k]) for i in range(0, len(s) - k + 1, k)]
            v = [a for a in v if a is not None]
            if v:
                shares.append(mean(v))
        if shares and k > 1:
            m["score/majority@%d" % k] = mean(shares)
    m["score/majority"] = mean([v for v in (majority(g["sequences"]) for g in groups) if v is not None])
    return m


def check(records, metrics):
    want = expected([json.loads(line) for line in open(records)])
    got = json.load(open(metrics))
    counted = {k for k in got if k.startswith(("score/pass@", "score/majority"))}
    wrong = ["%s is %s, not %s" % (k, got.get(k), v) for k, v in want.items()
             if got.get(k) is None or abs(got[k] - v) > 1e-9 * max(1, abs(v))]
    wrong += ["%s should not be there" % k for k in sorted(counted - set(want))]
    if wrong:
        sys.exit("\n".join(wrong))


if sys.argv[1] == "make":
    make(int(sys.argv[2]))
else:
    check(sys.argv[2], sys.argv[3])

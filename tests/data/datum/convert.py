#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes the files of this folder from short/ and ../malformed, whose records are in a shorter form.

    python3 tests/data/datum/convert.py        (in the root of the project; needs the zstd program)

short/ holds rollouts and the Datums that the two recipes of the MinT guide make of them. Form 1: `tokens` are the
response. Form 2: `tokens` and `logprobs` hold prompt and response, `prompt_len` parts them. Converted:

    rollouts.jsonl, rollouts_form2.jsonl      rollout groups as mint-format(5) has them
    group_of_one.jsonl                        the group of one sequence, which is an error without --norm none
    golden.jsonl, golden_form2.jsonl          the Datums with all groups but that one, float32 values as numbers. Log-
                                              probabilities of the prompt, which weights mask, are 0 in both.
    malformed/*.jsonl.zst, manifest.jsonl     the Datums of ../malformed that are not about zstd, the fault kept

The faults are kept by working on the text, not on the parsed line. Two rulings differ from ../malformed, because the
SDK's form is laxer: weights may be missing (1 everywhere), and a target whose weight is 0 may be anything.
"""
import json
import pathlib
import re
import subprocess

HERE = pathlib.Path(__file__).resolve().parent
NUMBERS = {"target_tokens": "int64", "weights": "float32", "logprobs": "float32", "advantages": "float32"}
ACCEPT = {"005_no_weights": 3, "010_target_minus_100": 3}
PLAIN_ZSTD = range(64, 79)  # about frames and checksums: read as they are


def unzstd(path):
    return subprocess.run(["zstd", "-dcq", "--long=31", str(path)], check=True, stdout=subprocess.PIPE).stdout


def records(name):
    return [json.loads(line) for line in unzstd(HERE / "short" / (name + ".jsonl.zst")).splitlines()]


def write(name, rows):
    with open(HERE / name, "w", encoding="utf-8") as f:
        for row in rows:
            f.write(json.dumps(row, ensure_ascii=False, separators=(",", ":")) + "\n")


def group(r):
    if "prompt_len" in r:
        p = r["prompt_len"]
        r = {"id": r["id"], "prompt_tokens": r["sequences"][0]["tokens"][:p], "sequences": r["sequences"]}
        for s in r["sequences"]:
            s["tokens"] = s["tokens"][p:]
            s["logprobs"] = s["logprobs"] and s["logprobs"][p:]
    return r


def datum(r):
    inputs = r["loss_fn_inputs"]
    logprobs = [q if w else 0.0 for q, w in zip(inputs["logprobs"], inputs["weights"])]
    values = dict(inputs, logprobs=logprobs)
    return {
        "model_input": {"chunks": [{"type": "encoded_text", "tokens": r["model_input"]["tokens"]}]},
        "loss_fn_inputs": {k: {"data": values[k], "dtype": t, "shape": [len(values[k])]} for k, t in NUMBERS.items()},
        "meta": {"id": r["group"], "group": r["group"], "sample": r["index"]},
    }


def long_form(text):
    """One line of a short Datum in the SDK's form, whatever is wrong with it."""
    text = re.sub(r'"model_input":\{"tokens":([^}]*)\}', r'"model_input":{"chunks":[{"type":"encoded_text","tokens":\1}]}', text)
    for key, dtype in NUMBERS.items():
        text = re.sub(r'"%s":(\[[^]]*\])' % key, r'"%s":{"data":\1,"dtype":"%s"}' % (key, dtype), text)
    return re.sub(r'"group":("[^"]*"),"index":(\d+)', r'"meta":{"group":\1,"sample":\2}', text)


def malformed():
    out = HERE / "malformed"
    out.mkdir(exist_ok=True)
    rows = []
    for case in map(json.loads, open(HERE.parent / "malformed" / "manifest.jsonl", encoding="utf-8")):
        name = case["file"].split(".")[0]
        if case["what"] != "datum" or int(name[:3]) in PLAIN_ZSTD:
            continue
        data = unzstd(HERE.parent / "malformed" / case["file"])
        code = "utf-16" if name == "059_utf16" else "latin-1"
        data = long_form(data.decode(code)).encode("utf-16" if code == "utf-16" else "latin-1")
        subprocess.run(["zstd", "-19", "-q", "-f", "-o", str(out / case["file"])], input=data, check=True)
        if name in ACCEPT:
            case.update(expect="accept", records=ACCEPT[name], reason=case["reason"] + "; fine in the SDK's form")
            del case["line"]
        rows.append(case)
    write("malformed/manifest.jsonl", rows)


for form in ("", "_form2"):
    groups = [group(r) for r in records("rollouts" + form)]
    write("rollouts%s.jsonl" % form, [g for g in groups if len(g["sequences"]) > 1])
    one = {g["id"] for g in groups if len(g["sequences"]) == 1}
    if not form:
        write("group_of_one.jsonl", [g for g in groups if g["id"] in one])
    golden = [datum(r) for r in records("datums%s_golden" % form)]
    write("golden%s.jsonl" % form, [d for d in golden if d["meta"]["group"] not in one])
malformed()

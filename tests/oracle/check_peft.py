#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What mint-export writes, loaded by PEFT and transformers. Run by hand (needs torch, transformers, peft):

    venv/bin/python tests/oracle/check_peft.py [BIN]      BIN: the folder of the tools, build/release/bin

For every fixture: the exported PEFT folder gives the logits that the fixture's own adapter gives; the merged model
gives them too; the tied head is untied. Models of mint-init load with their tokenizer, in every architecture.
"""
import json
import subprocess
import sys
import tempfile
from pathlib import Path

import torch
from peft import PeftModel
from transformers import AutoModelForCausalLM, AutoTokenizer

ROOT = Path(__file__).resolve().parents[2]
BIN = Path(sys.argv[1] if len(sys.argv) > 1 else ROOT / "build/release/bin").resolve()
FIXTURES = ROOT / "tests/oracle/fixtures"
failed = 0


def check(what, ok, detail=""):
    global failed
    failed += not ok
    print(("ok     " if ok else "FAILED ") + what, detail)


def run(*args):
    subprocess.run([str(BIN / args[0]), "-q", *map(str, args[1:])], check=True)


def load(folder):
    model, info = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, output_loading_info=True)
    for kind in ("missing_keys", "unexpected_keys", "mismatched_keys"):
        check(f"{folder.name}: no {kind}", not info[kind], info[kind] or "")
    return model.eval()


@torch.no_grad()
def logits(model, ids):
    return model(input_ids=torch.tensor([ids])).logits[0].double()


def distance(a, b):
    return ((a - b).abs().max() / b.abs().max()).item()


def check_export(name, tmp):
    base = FIXTURES / name
    datum = json.loads((base / "datums.jsonl").read_text().splitlines()[1])
    ids = datum["model_input"]["chunks"][0]["tokens"]
    want = logits(PeftModel.from_pretrained(load(base), base / "adapter").eval(), ids)
    check(f"{name}: the adapter does something", distance(logits(load(base), ids), want) > 1e-2)

    run("mint-export", "--model", base, "--adapter", base / "adapter", "--to", tmp / f"{name}-peft", "--format", "peft")
    got = logits(PeftModel.from_pretrained(load(base), tmp / f"{name}-peft").eval(), ids)
    check(f"{name}: peft", torch.equal(got, want), f"distance {distance(got, want):.2g}")

    merged = tmp / f"{name}-hf"
    run("mint-export", "--model", base, "--adapter", base / "adapter", "--to", merged, "--format", "hf", "--dtype", "f32")
    model = load(merged)
    check(f"{name}: the head is its own", model.lm_head.weight.data_ptr() != model.model.embed_tokens.weight.data_ptr())
    d = distance(logits(model, ids), want)
    check(f"{name}: merged in f32", d < 1e-5, f"distance {d:.2g}")

    stored = tmp / f"{name}-stored"
    run("mint-export", "--model", base, "--adapter", base / "adapter", "--to", stored, "--format", "hf")
    d = distance(logits(load(stored), ids), want)
    check(f"{name}: merged in the stored type", d < 3e-2, f"distance {d:.2g}")


def check_init(tmp):
    text = "Q: What is 3 + 5?\nA: 8 \u00e9\u4e2d\x00\u00ff"
    for arch in ("qwen3", "qwen2", "llama"):
        for tied in ("--tied", "--no-tied"):
            for extra in ((), ("--shards", "3", "--vocab", "500", "--dtype", "f16")):
                folder = tmp / f"init-{arch}{tied}{len(extra)}"
                run("mint-init", "--to", folder, "--arch", arch, tied, "--norm-std", "0.1", *extra)
                model = load(folder)
                check(f"{folder.name}: tied", model.config.tie_word_embeddings == (tied == "--tied"))
                tok = AutoTokenizer.from_pretrained(folder)
                ids = tok(text)["input_ids"]
                check(f"{folder.name}: bytes are tokens", ids == list(text.encode()) and tok.decode(ids) == text)
                chat = tok.apply_chat_template([{"role": "user", "content": "hi"}], add_generation_prompt=True,
                                               tokenize=False)
                check(f"{folder.name}: chat", chat == "<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n")
                check(f"{folder.name}: control tokens", tok(chat)["input_ids"][0] == 257)
                check(f"{folder.name}: ends", model.generation_config.eos_token_id == [258, 256] and
                      tok.eos_token_id == 258)
                check(f"{folder.name}: logits", bool(logits(model, ids).isfinite().all()))


with tempfile.TemporaryDirectory() as t:
    for fixture in ("qwen3", "qwen2", "llama", "smollm2"):
        check_export(fixture, Path(t))
    check_init(Path(t))
print(f"{failed} failed")
sys.exit(failed > 0)

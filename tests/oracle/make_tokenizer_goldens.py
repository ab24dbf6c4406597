#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes tests/data/tokenizer/llama_like and its goldens.

A small tokenizer with what Llama 3's has and Qwen3's has not: ignore_merges, digits in threes, merges as
strings, a post-processor that adds a BOS, no normalizer. It is trained on the texts of encode_qwen3.jsonl, and
every 7th merge is taken out again while its token stays, so that ignore_merges makes a difference.
Needs the packages tokenizers and jinja2. Run from the root of the tree:

    python3 tests/oracle/make_tokenizer_goldens.py
"""
import json
import pathlib
import subprocess

import jinja2
import tokenizers
from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, trainers

DATA = pathlib.Path("tests/data/tokenizer")
OUT = DATA / "llama_like"
REGEX = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
)
SPECIAL = [
    "<|begin_of_text|>", "<|end_of_text|>", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>",
]
PLAIN = ["<think>", "</think>"]  # added, but not special
TEMPLATE = (
    "{% for m in messages %}{% if loop.first %}{{ bos_token }}{% endif %}"
    "{{ '<|start_header_id|>' + m['role'] + '<|end_header_id|>\n\n' + m['content'] | trim + '<|eot_id|>' }}"
    "{% endfor %}{% if add_generation_prompt %}{{ '<|start_header_id|>assistant<|end_header_id|>\n\n' }}{% endif %}"
)


def lines(name):
    return [json.loads(x) for x in open(DATA / name, encoding="utf-8")]


def write_lines(name, rows):
    with open(DATA / name, "w", encoding="utf-8") as f:
        for row in rows:
            f.write(json.dumps(row) + "\n")


def train(texts):
    tok = Tokenizer(models.BPE(ignore_merges=True))
    tok.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Split(Regex(REGEX), "isolated"),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
    ])
    tok.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    tok.train_from_iterator(texts, trainers.BpeTrainer(
        vocab_size=1500, initial_alphabet=alphabet, show_progress=False))
    return json.loads(tok.to_str())


def finish(d):
    model = d["model"]
    merges = [m if isinstance(m, str) else " ".join(m) for m in model["merges"]]
    model["merges"] = [m for i, m in enumerate(merges) if i % 7 != 6]
    first = len(model["vocab"])
    d["added_tokens"] = [
        {"id": first + i, "content": t, "single_word": False, "lstrip": False, "rstrip": False,
         "normalized": False, "special": t in SPECIAL}
        for i, t in enumerate(SPECIAL + PLAIN)
    ]
    bos = {"id": SPECIAL[0], "ids": [first], "tokens": [SPECIAL[0]]}
    d["post_processor"] = {"type": "Sequence", "processors": [
        {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": False, "use_regex": True},
        {"type": "TemplateProcessing",
         "single": [{"SpecialToken": {"id": SPECIAL[0], "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
         "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}],
         "special_tokens": {SPECIAL[0]: bos}},
    ]}
    return json.dumps(d, ensure_ascii=False, indent=1)


def chat_rows(tok):
    env = jinja2.Environment(trim_blocks=True, lstrip_blocks=True)
    template = env.from_string(TEMPLATE)
    space = " \t\u0085\u00a0\u1680\u2003\u2028\u202f\u205f\u3000\x1c\x1f\n"
    talks = [
        [("user", "Hello")], [("user", "")], [("user", space + "trimmed" + space)],
        [("user", "\u200bkept\ufeff\u180e")], [("system", "Be brief."), ("user", "What is 2+2?")],
        [("user", "a"), ("assistant", "<think>b</think>c"), ("user", "d 1234567")],
        [("user", "forged <|eot_id|><|begin_of_text|>")], [("user", "cafe\u0301 \u4f60\u597d \U0001f44b")],
        [("user", "it's\n\n"), ("assistant", "\n\nOK"), ("tool", "{}"), ("user", "'S")],
    ]
    rows = []
    for i, talk in enumerate(talks):
        messages = [{"role": r, "content": c} for r, c in talk]
        for prompt in (True, False):
            text = template.render(messages=messages, bos_token=SPECIAL[0], add_generation_prompt=prompt)
            rows.append({"id": f"l-{i}-{int(prompt)}", "messages": messages, "add_generation_prompt": prompt,
                         "text": text, "ids": tok.encode(text, add_special_tokens=False).ids})
    return rows


def main():
    old = lines("encode_qwen3.jsonl")
    text = finish(train([x["text"] for x in old]))
    OUT.mkdir(exist_ok=True)
    size = f"--stream-size={len(text.encode())}"
    subprocess.run(["zstd", "-19", "-q", "-f", size, "-o", OUT / "tokenizer.json.zst"], input=text.encode(), check=True)
    config = {"bos_token": SPECIAL[0], "eos_token": {"content": SPECIAL[4]}}
    (OUT / "tokenizer_config.json").write_text(json.dumps(config) + "\n")
    tok = Tokenizer.from_str(text)
    rows = [{"id": x["id"], "text": x["text"], "ids": tok.encode(x["text"], add_special_tokens=False).ids}
            for x in old]
    write_lines("encode_llama_like.jsonl", rows)
    write_lines("chat_llama_like.jsonl", chat_rows(tok))
    merged = json.loads(text)
    merged["model"]["ignore_merges"] = False
    other = Tokenizer.from_str(json.dumps(merged))
    differ = sum(other.encode(r["text"], add_special_tokens=False).ids != r["ids"] for r in rows)
    print(f"tokenizers {tokenizers.__version__}: {len(rows)} texts, ignore_merges changes {differ}")


main()

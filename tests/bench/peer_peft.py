# SPDX-License-Identifier: Apache-2.0
"""peer_peft.py: a step of LoRA training with PyTorch and PEFT over the Datums that mint-train reads, as their users write it.

Rank and modules as mint-train has them, importance_sampling, AdamW; a forward and backward pass for each Datum. A line of
JSON for each step: seconds, tokens, loss (with fresh adapters, the first step's is mint-train's loss:sum).
"""
import argparse
import json
import sys
import time

import torch
from peft import LoraConfig, get_peft_model
from transformers import AutoModelForCausalLM

parser = argparse.ArgumentParser()
parser.add_argument("model")
parser.add_argument("datums")
parser.add_argument("--dtype", choices=["bf16", "f32"], default="bf16")
parser.add_argument("--checkpointing", action="store_true", help="recompute the layers in the backward pass")
parser.add_argument("--steps", type=int, default=2)
parser.add_argument("--rank", type=int, default=16)
parser.add_argument("--lr", type=float, default=2e-5)
args = parser.parse_args()

dtype = {"bf16": torch.bfloat16, "f32": torch.float32}[args.dtype]
model = AutoModelForCausalLM.from_pretrained(args.model, dtype=dtype)
modules = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj", "lm_head"]
model = get_peft_model(model, LoraConfig(r=args.rank, lora_alpha=2 * args.rank, lora_dropout=0.0, target_modules=modules))
if args.checkpointing:
    model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
    model.enable_input_require_grads()
model.train()
optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=args.lr, weight_decay=0.0)

data = []
for line in open(args.datums):
    datum = json.loads(line)
    inputs = datum["loss_fn_inputs"]
    ids = [t for chunk in datum["model_input"]["chunks"] for t in chunk["tokens"]]
    data.append(
        (torch.tensor([ids]), torch.tensor(inputs["target_tokens"]), torch.tensor(inputs["logprobs"]), torch.tensor(inputs["advantages"]))
    )


def loss_of(ids, targets, sampled, advantages):
    logits = model(input_ids=ids, use_cache=False).logits[0]
    logprobs = -torch.nn.functional.cross_entropy(logits.float(), targets, reduction="none")
    return -(torch.exp(logprobs - sampled) * advantages).sum()


for _ in range(args.steps):
    start = time.monotonic()
    total = 0.0
    for datum in data:
        loss = loss_of(*datum)
        loss.backward()
        total += loss.item()
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    seconds = time.monotonic() - start
    print(json.dumps({"seconds": seconds, "tokens": sum(d[0].numel() for d in data), "loss": total}))
    sys.stdout.flush()

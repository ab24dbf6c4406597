# SPDX-License-Identifier: Apache-2.0
"""peer_trl.py: steps of GRPO with TRL's GRPOTrainer on the CPU. A line of JSON for each step: its seconds.

The reward costs nothing and is mixed in every group. Responses always have --max-tokens tokens.
"""
import argparse
import json
import os
import sys
import tempfile
import time

os.environ.setdefault("HF_HUB_OFFLINE", "1")
import torch
from datasets import Dataset
from peft import LoraConfig
from transformers import AutoTokenizer, TrainerCallback
from trl import GRPOConfig, GRPOTrainer

parser = argparse.ArgumentParser()
parser.add_argument("model")
parser.add_argument("prompts")
parser.add_argument("--steps", type=int, default=3)
parser.add_argument("--groups", type=int, default=4, help="prompts a step")
parser.add_argument("--group-size", type=int, default=8)
parser.add_argument("--max-tokens", type=int, default=64)
parser.add_argument("--rank", type=int, default=16)
parser.add_argument("--lr", type=float, default=2e-5)
args = parser.parse_args()
out = os.fdopen(os.dup(1), "w")  # the trainer prints its logs on stdout
os.dup2(2, 1)


class Clock(TrainerCallback):
    def on_step_begin(self, *_, **__):
        self.start = time.monotonic()

    def on_step_end(self, *_, **__):
        print(json.dumps({"seconds": time.monotonic() - self.start}), file=out, flush=True)


def reward(completions, **_):
    return [float(i % 2) for i in range(len(completions))]


prompts = [json.loads(line)["prompt"] for line in open(args.prompts)]
modules = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]  # the head is refused
with tempfile.TemporaryDirectory() as folder:
    trainer = GRPOTrainer(
        model=args.model,
        reward_funcs=reward,
        args=GRPOConfig(
            output_dir=folder,
            use_cpu=True,
            bf16=True,
            gradient_checkpointing=False,  # the faster way
            per_device_train_batch_size=args.groups * args.group_size,
            num_generations=args.group_size,
            max_completion_length=args.max_tokens,
            generation_kwargs={"min_new_tokens": args.max_tokens},
            temperature=1.0,
            beta=0.0,
            learning_rate=args.lr,
            lr_scheduler_type="constant",
            max_steps=args.steps,
            report_to=[],
            save_strategy="no",
            logging_steps=1,
            disable_tqdm=True,
        ),
        train_dataset=Dataset.from_dict({"prompt": prompts}),
        processing_class=AutoTokenizer.from_pretrained(args.model),
        peft_config=LoraConfig(r=args.rank, lora_alpha=2 * args.rank, target_modules=modules),
        callbacks=[Clock()],
    )
    assert all(torch.isfinite(p).all() for p in trainer.model.parameters())
    trainer.train()

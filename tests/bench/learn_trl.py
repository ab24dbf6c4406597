# SPDX-License-Identifier: Apache-2.0
"""learn_trl.py: the run of pipelines/addition with TRL's GRPOTrainer on the CPU: the same prompts in the same order, the
same reward, group size, tokens, learning rate and LoRA (TRL refuses the head). Lines for pipelines/plot.sh:
"reward STEP MEAN", "accuracy STEP SHARE" (greedy, on the evaluation prompts), and "seconds STEP SECONDS".
"""
import argparse
import json
import os
import re
import tempfile
import time

os.environ.setdefault("HF_HUB_OFFLINE", "1")
import torch
from datasets import Dataset
from peft import LoraConfig
from transformers import AutoModelForCausalLM, AutoTokenizer, TrainerCallback
from trl import GRPOConfig, GRPOTrainer

parser = argparse.ArgumentParser()
parser.add_argument("model")
parser.add_argument("prompts", help="rollout or prompt records in the order of the run")
parser.add_argument("eval_prompts")
parser.add_argument("--steps", type=int, required=True)
parser.add_argument("--groups", type=int, default=16)
parser.add_argument("--group-size", type=int, default=8)
parser.add_argument("--max-tokens", type=int, default=16)
parser.add_argument("--eval-every", type=int, default=10)
parser.add_argument("--lr", type=float, default=3e-4)
parser.add_argument("--seed", type=int, default=1)
args = parser.parse_args()
out = os.fdopen(os.dup(1), "w")  # the trainer prints its logs on stdout
os.dup2(2, 1)


def say(*words):
    print(*words, file=out, flush=True)


def right(text, answer):
    """mint-score number: the last whole number said."""
    numbers = re.findall(r"-?\d+", text.replace(",", ""))
    return float(bool(numbers) and numbers[-1] == answer)


def reward(completions, answer, **_):
    return [right(c[0]["content"], a) for c, a in zip(completions, answer)]


def records(path):
    return [json.loads(line) for line in open(path)]


tokenizer = AutoTokenizer.from_pretrained(args.model)
tokenizer.padding_side = "left"
held_out = records(args.eval_prompts)


class Watch(TrainerCallback):
    def on_step_begin(self, *_, **__):
        self.start = time.monotonic()

    def on_step_end(self, _, state, *__, model=None, **___):
        say("seconds", state.global_step, round(time.monotonic() - self.start, 3))
        if state.global_step % args.eval_every == 0 or state.global_step == args.steps:
            accuracy(state.global_step, model)

    def on_train_begin(self, *_, model=None, **__):
        accuracy(0, model)

    def on_log(self, _, state, *__, logs=None, **___):
        if logs and "reward" in logs:
            say("reward", state.global_step, logs["reward"])


def accuracy(step, model):
    texts = [
        tokenizer.apply_chat_template([{"role": "user", "content": r["prompt"]}], tokenize=False, add_generation_prompt=True)
        for r in held_out
    ]
    inputs = tokenizer(texts, return_tensors="pt", padding=True, add_special_tokens=False)
    training = model.training
    model.eval()
    with torch.no_grad():
        tokens = model.generate(**inputs, max_new_tokens=args.max_tokens, do_sample=False)
    model.train(training)
    said = tokenizer.batch_decode(tokens[:, inputs["input_ids"].shape[1]:], skip_special_tokens=True)
    say("accuracy", step, sum(right(s, r["answer"]) for s, r in zip(said, held_out)) / len(held_out))


rows = records(args.prompts)
data = Dataset.from_dict(
    {"prompt": [[{"role": "user", "content": r["prompt"]}] for r in rows], "answer": [r["answer"] for r in rows]}
)
with tempfile.TemporaryDirectory() as folder:
    trainer = GRPOTrainer(
        model=AutoModelForCausalLM.from_pretrained(args.model, dtype=torch.bfloat16),
        reward_funcs=reward,
        args=GRPOConfig(
            output_dir=folder,
            use_cpu=True,
            bf16=True,
            gradient_checkpointing=False,  # the faster way
            per_device_train_batch_size=args.groups * args.group_size,
            num_generations=args.group_size,
            max_completion_length=args.max_tokens,
            temperature=1.0,
            beta=0.0,
            learning_rate=args.lr,
            lr_scheduler_type="constant",
            max_steps=args.steps,
            shuffle_dataset=False,
            seed=args.seed,
            report_to=[],
            save_strategy="no",
            logging_steps=1,
            disable_tqdm=True,
        ),
        train_dataset=data,
        processing_class=tokenizer,
        peft_config=LoraConfig(
            r=16,
            lora_alpha=32,
            target_modules=["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"],
        ),
        callbacks=[Watch()],
    )
    trainer.train()

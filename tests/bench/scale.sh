#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# scale.sh [--quick] [--threads N] [--work DIR] [--json FILE]
#
# How cost grows with the number of prompts, the length of responses, the size of groups, the size of the model (0.1B to 1.7B,
# which needs 8 GB of disk in the work folder) and the size of a file: processor seconds beyond the start, peak memory, and
# the powers by which both and the necessary work grow.
. "$(dirname "$0")/lib.sh"
begin scale "$@"

double=(1 2 4 8)
[ -z "$quick" ] || double=(1 4)

# work PROMPTS PROMPT GROUP RESPONSE: FLOPs of sampling in $sampling, of a step in $training, but for constant factors
work() {
    local shared=$2 all
    all=$(calc "$1 * ($shared + $3 * $4)")
    attention=$(calc "$1 * 2 * $L * $qdim * ($2 * $2 / 2 + $3 * ($4 * $2 + $4 * $4 / 2))")
    sampling=$(calc "$all * $L * $layer + $1 * $3 * $4 * $head + $attention")
    training=$(calc "$all * 3 * $L * $layer + 2 * $1 * $3 * $4 * $head + 4.5 * $attention")
}

# datums: of the rollouts, every second of which gets a reward, so that all of them count
datums() {
    zstd -dc "$dir/r.zst" | jq -c '.sequences |= [to_entries[] | .value + {reward: (.key % 2)}]' | mint-advantage -q -o "$dir/d.zst" -f
}

# starts: processor seconds of the two tools that are there for any input
starts() {
    prompts 1 8 >"$dir/p.jsonl"
    ours mint-sample -q -m "$model" -n 2 --max-tokens 2 --ignore-eos "$dir/p.jsonl" -o "$dir/r.zst" -f
    sample_start=$cpu
    datums
    ours mint-train -q -m "$model" --dry-run "$dir/d.zst"
    train_start=$cpu
}

# step SERIES X PROMPTS PROMPT GROUP RESPONSE
step() {
    work "$3" "$4" "$5" "$6"
    prompts "$3" "$4" >"$dir/p.jsonl"
    ours mint-sample -q -m "$model" -n "$5" --max-tokens "$6" --ignore-eos "$dir/p.jsonl" -o "$dir/r.zst" -f
    point "sampling by $1" "$2" "$sampling" "$sample_start"
    datums
    rm -rf "$dir/ck"
    ours mint-train -q -m "$model" --to "$dir/ck" "$dir/d.zst"
    point "training by $1" "$2" "$training" "$train_start"
}

preset smollm2-135m
starts
for x in "${double[@]}"; do step prompts $((4 * x)) $((4 * x)) 64 4 32; done
for x in "${double[@]}"; do step 'response length' $((32 * x)) 4 64 4 $((32 * x)); done
for x in "${double[@]}"; do step 'group size' $((4 * x)) 2 128 $((4 * x)) 32; done

for x in "${double[@]}"; do
    rollouts $((8 * x)) >"$dir/r.jsonl"
    ours mint-advantage -q --keep-flat --plain "$dir/r.jsonl" >"$dir/out"
    point 'advantage by MB' $((8 * x)) $((8 * x)) 0
    ours mint-score length --replace --plain "$dir/r.jsonl" >"$dir/out"
    point 'scoring by MB' $((8 * x)) $((8 * x)) 0
done

# by_model NAME OPTIONS
by_model() {
    local size
    model "$@"
    starts
    size=$(calc "int(($L * $layer + $head) / 1e7) / 100")
    step 'billions of parameters' "$size" 4 64 4 16
}
[ -z "$quick" ] || by_model small # made above
by_model smollm2-135m --preset smollm2-135m
if [ -z "$quick" ]; then
    by_model 0.35b --preset qwen3-0.6b --layers 23 --hidden 768 --ffn 2304
    by_model qwen3-0.6b --preset qwen3-0.6b
    by_model 1.0b --preset qwen3-0.6b --layers 25 --hidden 1536 --ffn 4608
    by_model qwen3-1.7b --preset qwen3-1.7b
fi
finish

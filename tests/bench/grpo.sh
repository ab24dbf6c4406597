#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# grpo.sh [--quick] [--runs N] [--threads N] [--work DIR] [--json FILE] [--python PY]
#
# A whole step of GRPO (sample, score, advantage, train; a process each, files between them) beside TRL's GRPOTrainer with the
# same model (the shape of SmolLM2-135M), prompts, groups, tokens, learning rate and LoRA (rank 16 on all layers; TRL refuses
# the head). PY (python3) needs the package trl.
. "$(dirname "$0")/lib.sh"
begin grpo "$@"

groups=2 size=8 tokens=64 prompt=128
[ -z "$quick" ] || { tokens=16 prompt=64; }
: "${runs:=3}"
preset smollm2-135m
prompts $((groups * (runs + 1))) $prompt >"$dir/p.jsonl"

# one_step S: in $dir/S; all of it and the time of each stage
one_step() {
    local from=() fresh=()
    [ "$1" -eq 0 ] || from=(--from "$dir/ck/$1")
    ours mint-sample -q -m "$model" "${from[@]/--from/--adapter}" --step "$1" --groups-per-batch $groups -n $size -t 1 --max-tokens $tokens \
        --ignore-eos "$dir/p.jsonl" -f -o "$dir/r.zst"
    stage sample
    ours mint-score format --pattern '^.{0,3}[0-9a-z]' "$dir/r.zst" -f -o "$dir/s.zst"
    stage score
    ours mint-advantage -q "$dir/s.zst" -f -o "$dir/d.zst"
    stage advantage
    [ "$1" -gt 0 ] || fresh=(--no-train-unembed)
    ours mint-train -q -m "$model" "${from[@]}" "${fresh[@]}" --to "$dir/ck/$(($1 + 1))" "$dir/d.zst"
    stage train
}

stage() {
    record "of it: $1" mint s "$wall"
    sum_wall=$(calc "$sum_wall + $wall") sum_cpu=$(calc "$sum_cpu + $cpu") most=$(calc "$rss > $most ? $rss : $most")
}

mkdir "$dir/ck"
for ((r = 0; r < runs; r++)); do
    probe
    sum_wall=0 sum_cpu=0 most=0
    one_step "$r"
    wall=$sum_wall cpu=$sum_cpu rss=$most
    record 'GRPO step' mint s "$wall"
    memory memory mint
done

probe
patience=$((2 * patience)) # for four steps
if ! "$python" -c 'import trl, peft, datasets' 2>"$dir/log"; then
    say "TRL is left out: $(tail -n 1 "$dir/log")"
elif peer TRL "$python" "$here/peer_trl.py" "$model" "$dir/p.jsonl" --steps $((runs + 1)) --groups $groups --group-size $size \
    --max-tokens $tokens >"$dir/out.jsonl"; then
    # its start-up, and the first step, are not counted; of mint all is
    for s in $(jq .seconds "$dir/out.jsonl" | tail -n +2); do
        record 'GRPO step' trl s "$s"
    done
    memory memory trl
fi
[ -n "$quick" ] || goal 'GRPO step' ahead 3
finish

#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# learn.sh MODEL FOLDER [STEPS [PY]]
#
# Does it learn, and beside TRL? pipelines/addition on MODEL (SmolLM2-135M-Instruct, say; see tests/oracle) for STEPS (40),
# and, where PY has the package trl, the same prompts in the same order with TRL's GRPOTrainer. FOLDER/curves.svg has the
# curves, and a table the accuracies and the seconds a step. An hour on two cores; what is there is not made again.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
root=$here/../..
[ $# -ge 2 ] || { sed -n '3,8s/^# //p' "$0" >&2; exit 2; }
model=$1 folder=$2 steps=${3:-40} python=${4:-}
mkdir -p "$folder"

if [ -e "$folder/mint/grpo.conf" ]; then
    "$root/pipelines/grpo.sh" "$folder/mint/grpo.conf"
else
    "$root/pipelines/start.sh" addition "$model" "$folder/mint" "steps=$steps" adapter.train-unembed=no
fi
set -- "$folder/mint/run"

if [ -n "$python" ]; then
    if [ ! -e "$folder/trl" ]; then
        zstd -dcq "$folder"/mint/run/step-*/rollouts.jsonl.zst | jq -c '{prompt, answer, id}' >"$folder/order.jsonl"
        jq -c --slurpfile all "$folder/mint/prompts.jsonl" '.id as $id | $all[] | select(.id == $id)' "$folder/order.jsonl" \
            >"$folder/trl-prompts.jsonl"
        "$python" "$here/learn_trl.py" "$model" "$folder/trl-prompts.jsonl" "$folder/mint/eval.jsonl" --steps "$steps" \
            >"$folder/trl.tmp" 2>"$folder/trl.log" || { tail -n 3 "$folder/trl.log" >&2; exit 1; }
        mv "$folder/trl.tmp" "$folder/trl"
    fi
    set -- "$@" "TRL=$folder/trl"
fi
"$root/pipelines/plot.sh" -o "$folder/curves.svg" "$@"

median() {
    sort -n | awk '{ v[NR] = $1 } END { if (NR) printf "%.1f", (v[int((NR + 1) / 2)] + v[int((NR + 2) / 2)]) / 2 }'
}
printf '%-10s %10s %10s %14s\n' '' 'before' 'after' 'seconds a step'
first=$(awk '$1 == "accuracy" { print $2 }' "$folder/mint/run/eval/0000.txt")
last=$(awk '$1 == "accuracy" { print $2 }' "$folder/mint/run/eval/$(printf %04d "$steps").txt")
seconds=$(jq -rs 'map(select(.stage | startswith("step-"))) | group_by(.stage | split("/")[0])[] | map(."time/total") | add' \
    "$folder/mint/run/metrics.jsonl" | median)
printf '%-10s %10s %10s %14s\n' mint "$first" "$last" "$seconds"
[ ! -e "$folder/trl" ] || printf '%-10s %10.4f %10.4f %14s\n' TRL "$(awk '$1 == "accuracy" { print $3; exit }' "$folder/trl")" \
    "$(awk '$1 == "accuracy" { v = $3 } END { print v }' "$folder/trl")" "$(awk '$1 == "seconds" { print $3 }' "$folder/trl" | median)"

#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Sampling and training on the Qwen3-0.6B shape (random weights by mint-init): peak memory and tokens a second.
#
#   tests/bench/bench_model.sh [PRESET]     (the build in $MINT_BIN, or bin/; default preset qwen3-0.6b)
#
# Sampling: 32 sequences at a time, 8 groups of 4, prompts of about 128 tokens, 32 tokens each. Training: one
# importance_sampling step over the datums of those rollouts, rank 16 on everything. Needs 1.3 GB of disk and some minutes.
set -euo pipefail

cd "$(dirname "$0")/../.."
PATH=${MINT_BIN:-$PWD/bin}:$PATH
preset=${1:-qwen3-0.6b}
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"

# measured NAME CMD...: peak memory of the command
measured() {
    local name=$1 peak
    shift
    command -v /usr/bin/time >/dev/null || { "$@" && return; }
    /usr/bin/time -f %M -o peak "$@"
    peak=$(tail -n 1 peak)
    awk -v n="$name" -v k="$peak" 'BEGIN { printf "%-10s peak memory %.2f GB\n", n, k * 1024 / 1e9 }'
}

mint-init --to model --preset "$preset"
awk 'BEGIN { for (i = 1; i <= 8; i++) { printf "{\"id\":%d,\"prompt\":\"", i; for (k = 0; k < 128; k++) printf "%c", 97 + (k * i) % 26
    print "\"}" } }' >prompts.jsonl
measured sampling mint-sample --model model -n 4 --max-tokens 32 --ignore-eos --metrics m.jsonl prompts.jsonl -o r.zst
zstd -dc r.zst | jq -c '.sequences |= [.[] | .reward = (.tokens[0] % 5)]' | mint-advantage -q -o d.zst
measured training mint-train --model model --to ckpt --metrics m.jsonl d.zst
jq -r '"\(.tool): \(.["perf/tokens_per_s"] * 10 | round / 10) tokens/s, \(.["time/total"] * 10 | round / 10) s"' m.jsonl

#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# What sharing a common prompt saves in training: groups of 16 datums, a prompt of 400 tokens, responses of 100, in their
# order (neighbours share the prompt) and with two groups interleaved (nobody shares). CPU seconds of one step each.
#
#   tests/bench/bench_prefix.sh [PRESET]     (the build in $MINT_BIN, or bin/; default smollm2-135m)
set -euo pipefail

cd "$(dirname "$0")/../.."
PATH=${MINT_BIN:-$PWD/bin}:$PATH
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"

mint-init -q --to model --preset "${1:-smollm2-135m}"
awk 'BEGIN { srand(3)
    for (k = 0; k < 16; k++) for (g = 0; g < 2; g++) {
        t = 0; x = ""; y = ""; w = ""; q = ""; a = ""
        for (i = 0; i < 500; i++) { id = i < 400 ? (i * 7 + g * 5) % 250 : int(rand() * 250); ids[i] = id }
        for (i = 0; i < 499; i++) {
            s = i ? "," : ""
            x = x s ids[i]; y = y s ids[i + 1]; w = w s (i >= 399); q = q s (i >= 399 ? "-5.5" : 0); a = a s (i >= 399 ? (k % 2 ? 0.5 : -0.5) : 0)
        }
        printf "{\"model_input\":{\"chunks\":[{\"tokens\":[%s]}]},\"loss_fn_inputs\":{\"target_tokens\":[%s],\"weights\":[%s],\"logprobs\":[%s],\"advantages\":[%s]}}\n",
            x, y, w, q, a
    }
}' >apart.jsonl
awk '{ a[NR % 2] = a[NR % 2] $0 "\n" } END { printf "%s%s", a[1], a[0] }' apart.jsonl >shared.jsonl

cpu() {
    local t
    t=$({ TIMEFORMAT='%U %S'; time "$@" >/dev/null; } 2>&1 | awk '{ print $1 + $2 }')
    echo "$t"
}
base=$(cpu mint-train --model model --dry-run shared.jsonl 2>/dev/null)
apart=$(cpu mint-train --model model --to a apart.jsonl)
shared=$(cpu mint-train --model model --to s shared.jsonl)
awk -v a="$apart" -v s="$shared" -v b="$base" 'BEGIN {
    printf "apart %.1f s, shared %.1f s CPU (%.1f s of it start-up): %.2f times less work\n", a, s, b, (a - b) / (s - b)
}'

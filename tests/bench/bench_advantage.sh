#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# How fast mint-advantage and mint-score are on one core, in MB/s of uncompressed JSONL, with jq and Python's json on the same
# file in the same run; and how long a tool takes to start.
#
#   tests/bench/bench_advantage.sh [MB]     (the build in $MINT_BIN, or bin/; a file of 64 MB)
#
# CPU seconds (user and system) are measured, the best of three, so that a busy machine does not count.
set -euo pipefail

cd "$(dirname "$0")/../.."
PATH=${MINT_BIN:-$PWD/bin}:$PATH
mb=${1:-64}
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT

# Rollout groups of 8 with prompts of 40 to 300 tokens and responses of 20 to 500.
awk -v bytes=$((mb * 1000000)) 'BEGIN {
    srand(1)
    split("the a of to and in is we have that number so then x y sum equals therefore answer step first second", w, " ")
    for (i = 0; size < bytes; i++) {
        p = 40 + int(rand() * 260); s = "1"
        for (k = 1; k < p; k++) s = s "," int(rand() * 150000)
        line = "{\"id\":\"p" i "\",\"prompt\":\"q\",\"answer\":\"12\",\"prompt_tokens\":[" s "],\"sequences\":["
        for (g = 0; g < 8; g++) {
            r = 20 + int(rand() * 480); s = "7"; q = "-0.5"; t = "so"
            for (k = 1; k < r; k++) {
                s = s "," int(rand() * (rand() < .5 ? 5000 : 150000)); q = q sprintf(",-%.7g", -log(1 - rand()) / 2)
                if (k % 4) t = t " " w[1 + int(rand() * 22)]
            }
            line = line (g ? "," : "") "{\"tokens\":[" s "],\"logprobs\":[" q "],\"stop_reason\":\"stop\",\"text\":\"" t "\",\"reward\":" (rand() < .4) "}"
        }
        line = line "],\"sampling\":{\"step\":12,\"adapter\":null,\"max_tokens\":512,\"logprobs\":\"policy\"}}"
        size += length(line) + 1
        print line
    }
}' >"$dir/r.jsonl"
zstd -q -1 "$dir/r.jsonl" -o "$dir/r.zst"

# cpu CMD: seconds
cpu() {
    local best=999 t
    for _ in 1 2 3; do
        t=$({ TIMEFORMAT='%U %S'; time bash -c "$1" >/dev/null 2>&1; } 2>&1 | awk '{ print $1 + $2 }')
        best=$(awk -v a="$best" -v b="$t" 'BEGIN { print (b < a ? b : a) }')
    done
    echo "$best"
}

bytes() {
    stat -c %s "$1"
}

# row NAME SECONDS IN OUT
row() {
    awk -v name="$1" -v s="$2" -v i="$3" -v o="$4" 'BEGIN { printf "%-34s %7.2f s %8.0f MB/s in %8.0f MB/s in and out\n", name, s, i / s / 1e6, (i + o) / s / 1e6 }'
}

in=$(bytes "$dir/r.jsonl")
mint-advantage -q --keep-flat --plain "$dir/r.jsonl" >"$dir/d.jsonl"
out=$(bytes "$dir/d.jsonl")
mint-score length --replace --plain "$dir/r.jsonl" >"$dir/s.jsonl"
scored=$(bytes "$dir/s.jsonl")
echo "rollouts $((in / 1000000)) MB, Datums $((out / 1000000)) MB, uncompressed; CPU seconds"
row 'mint-advantage, plain' "$(cpu "mint-advantage -q --keep-flat --plain $dir/r.jsonl")" "$in" "$out"
row 'mint-advantage, zstd both sides' "$(cpu "mint-advantage -q --keep-flat $dir/r.zst -o $dir/o.zst -f")" "$in" "$out"
row 'mint-score length, plain' "$(cpu "mint-score length --replace --plain $dir/r.jsonl")" "$in" "$scored"
row 'jq -c . (in and out the same)' "$(cpu "jq -c . $dir/r.jsonl")" "$in" "$in"
if command -v python3 >/dev/null; then
    row 'python3 json loads and dumps' "$(cpu "python3 -c '
import json, sys
for line in open(\"$dir/r.jsonl\"): sys.stdout.write(json.dumps(json.loads(line)) + \"\n\")'")" "$in" "$in"
fi
printf 'start of mint-advantage on one record: '
head -n 1 "$dir/r.jsonl" >"$dir/one.jsonl"
awk -v s="$(cpu "for i in \$(seq 50); do mint-advantage -q --keep-flat --plain $dir/one.jsonl; done")" 'BEGIN { printf "%.1f ms of CPU\n", s * 20 }'

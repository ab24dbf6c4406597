#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# How fast mint-advantage and the quick scorers are, on one core and on two, in MB/s of uncompressed JSONL that they read;
# with jq and Python's json on the same file in the same run; and how long a tool takes to start.
#
#   tests/bench/bench_advantage.sh [MB]            (the build in $MINT_BIN, or bin/; files of 64 MB)
#   tests/bench/bench_advantage.sh --memory [MB]   peak memory while a stream of that size (2000 MB) passes through; it is not kept
#
# Medians of five. On a machine that others use too, look at the CPU seconds.
set -euo pipefail

cd "$(dirname "$0")/../.."
PATH=${MINT_BIN:-$PWD/bin}:$PATH
mode=speed
[ "${1:-}" != --memory ] || { mode=memory && shift; }
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT

# rollouts DIGITS BYTES: groups of 8 to 16, prompts of 40 to 300 tokens, responses of 300 to 1000 with logprobs of so many
# digits: 9 as a float32 has, 17 as a double has.
rollouts() {
    awk -v digits="$1" -v bytes="$2" 'BEGIN {
        srand(1)
        n = split("the a of to and in is we have that number so then x y sum equals therefore answer step first second \\frac{1}{2} \\n\\n 12 3.5", w, " ")
        gsub(/\\f/, "\\\\f", w[23])
        for (i = 0; size < bytes; i++) {
            p = 40 + int(rand() * 260); s = "1"
            for (k = 1; k < p; k++) s = s "," int(rand() * 150000)
            line = "{\"id\":\"p" i "\",\"prompt\":\"q\",\"answer\":\"12\",\"prompt_tokens\":[" s "],\"sequences\":["
            m = rand() < .5 ? 8 : 16
            for (g = 0; g < m; g++) {
                r = 300 + int(rand() * 700); s = "7"; q = "-0.5"; t = "so"
                for (k = 1; k < r; k++) {
                    s = s "," int(rand() * (rand() < .5 ? 5000 : 150000))
                    q = q sprintf(",-%." digits "g", rand() < .3 ? rand() / 10000 : -log(1 - rand()) / 2)
                    if (k % 4) t = t " " w[1 + int(rand() * n)]
                }
                line = line (g ? "," : "") "{\"tokens\":[" s "],\"logprobs\":[" q "],\"stop_reason\":\"stop\",\"text\":\"" t \
                    " The answer is " (rand() < .4 ? 12 : 13) ".\"}"
            }
            line = line "],\"sampling\":{\"step\":12,\"adapter\":null,\"max_tokens\":1024,\"logprobs\":\"policy\"}}"
            size += length(line) + 1
            print line
        }
    }'
}

# repeat FILE BYTES: the file so often that it makes so many bytes.
repeat() {
    local size
    size=$(stat -c %s "$1")
    for ((at = 0; at < $2; at += size)); do cat "$1"; done
}

# The first CPU that we may use, and the first two.
mapfile -t cpus < <(taskset -cp $$ | sed 's/.*: //' | tr , '\n' | awk -F- '{ for (i = $1; i <= ($2 == "" ? $1 : $2); i++) print i }')
one=${cpus[0]} two=${cpus[0]},${cpus[1]:-${cpus[0]}}

# measure CPUS CMD: medians of CPU seconds and of seconds.
measure() {
    for _ in 1 2 3 4 5; do
        { TIMEFORMAT='%U %S %R'; time taskset -c "$1" bash -c "$2" >/dev/null 2>&1; } 2>&1
    done | awk '{ cpu[NR] = $1 + $2; wall[NR] = $3 }
        function median(a,   i, j, t) {
            for (i = 1; i <= NR; i++) for (j = i + 1; j <= NR; j++) if (a[j] < a[i]) { t = a[i]; a[i] = a[j]; a[j] = t }
            return a[int((NR + 1) / 2)]
        }
        END { print median(cpu), median(wall) }'
}

# row NAME FILE CMD: one line of the table; MB is of FILE.
row() {
    awk -v name="$1" -v mb="$(stat -c %s "$2")" -v a="$(measure "$one" "$3")" -v b="$(measure "$two" "$3")" 'BEGIN {
        split(a, x, " "); split(b, y, " "); mb /= 1e6
        printf "%-40s %6.2f %6.2f %6.0f %6.0f   %6.2f %6.2f %6.0f %6.0f\n", name, x[1], x[2], mb / x[1], mb / x[2], y[1], y[2], mb / y[1], mb / y[2]
    }'
}

# peak NAME CMD...: runs it on standard input.
peak() {
    local name=$1 pid kb now
    shift
    "$@" >/dev/null <&0 &
    pid=$!
    while now=$(awk '/VmHWM/ { print $2 }' /proc/$pid/status 2>/dev/null); [ -n "$now" ]; do
        kb=$now
        sleep 0.1
    done
    wait $pid
    awk -v name="$name" -v kb="$kb" 'BEGIN { printf "%-40s %6.1f MB\n", name, kb / 1024 }'
}

if [ $mode = memory ]; then
    rollouts 9 16e6 >"$dir/block"
    mint-score number "$dir/block" -o "$dir/block.zst"
    size=$((${1:-2000} * 1000000)) block=$(stat -c %s "$dir/block")
    packed=$((size * $(stat -c %s "$dir/block.zst") / block))
    echo "peak resident memory for $((size / 1000000)) MB of rollouts"
    repeat "$dir/block" "$size" | peak 'mint-score number, plain' mint-score number --replace --plain
    repeat "$dir/block.zst" "$packed" | peak 'mint-score number, zstd both sides' mint-score number --replace
    repeat "$dir/block.zst" "$packed" | peak 'mint-advantage, zstd both sides' mint-advantage -q --keep-flat
    exit
fi

bytes=$((${1:-64} * 1000000))
printf '%-40s %27s   %27s\n' '' "one core ($one)" "two cores ($two)"
printf '%-40s %6s %6s %6s %6s   %6s %6s %6s %6s\n' '' 'CPU s' s 'MB/cpu' MB/s 'CPU s' s 'MB/cpu' MB/s
for digits in 9 17; do
    f=$dir/$digits
    rollouts $digits 16e6 >"$dir/block"
    repeat "$dir/block" $bytes >"$f.jsonl"
    mint-score number --plain "$f.jsonl" >"$f.scored.jsonl"
    zstd -q -1 "$f.jsonl" -o "$f.zst"
    zstd -q -1 "$f.scored.jsonl" -o "$f.scored.zst"
    echo "logprobs of $digits digits"
    row 'mint-advantage, plain' "$f.jsonl" "mint-advantage -q --keep-flat --plain $f.scored.jsonl"
    row 'mint-advantage, zstd to plain' "$f.jsonl" "mint-advantage -q --keep-flat --plain $f.scored.zst"
    row 'mint-advantage, zstd both sides' "$f.jsonl" "mint-advantage -q --keep-flat $f.scored.zst"
    for scorer in exact number 'regex --pattern "answer is ([0-9]+)"' 'format --pattern "answer is"' length; do
        row "mint-score ${scorer%% *}, plain" "$f.jsonl" "mint-score $scorer --plain $f.jsonl"
    done
    row 'mint-score none --summary, plain' "$f.jsonl" "mint-score none --summary $f.scored.jsonl"
    row 'mint-score number, zstd both sides' "$f.jsonl" "mint-score number $f.zst"
done
row 'zstd -1, alone' "$f.jsonl" "zstd -q -1 --single-thread -c $f.jsonl"
row 'jq -c .' "$f.jsonl" "jq -c . $f.jsonl"
if command -v python3 >/dev/null; then
    row 'python3, json.loads and dumps' "$f.jsonl" "python3 -c '
import json, sys
for line in open(\"$f.jsonl\"): sys.stdout.write(json.dumps(json.loads(line)) + \"\n\")'"
fi
head -n 1 "$f.scored.jsonl" >"$dir/one.jsonl"
start=$(measure "$one" "for i in \$(seq 50); do mint-advantage -q --keep-flat --plain $dir/one.jsonl; done")
awk -v s="$start" 'BEGIN { split(s, x, " "); printf "start of mint-advantage on one record: %.1f ms of CPU\n", x[1] * 20 }'

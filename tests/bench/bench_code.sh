#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# What mint-score code costs: N runs (100) of a trivial Python solution, beside as many of bare python3 with the same
# program and input. The aim is at most 1.5 times as much.
#
#   tests/bench/bench_code.sh [N]     (the build in $MINT_BIN, or bin/)
#
# The two take turns, five times; the best of each counts, in wall and in processor time (which leaves out the kernel's
# own work of tearing namespaces down).
set -euo pipefail

cd "$(dirname "$0")/../.."
PATH=${MINT_BIN:-$PWD/bin}:$PATH
n=${1:-100}
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
python=/usr/bin/python3
if [ ! -x "$python" ] || ! command -v bwrap >/dev/null; then
    echo "needs bubblewrap and $python"
    exit 0
fi

printf 'a, b = map(int, input().split())\nprint(a + b)\n' >"$dir/sol.py"
echo 3 5 >"$dir/in"
jq -nc --rawfile s "$dir/sol.py" --argjson n "$n" 'range($n) | {id: ., tests: [{input: "3 5\n", output: "8\n"}],
    sequences: [{text: "```python\n\($s)```"}]}' >"$dir/r.jsonl"

# seconds CMD: wall and processor
seconds() {
    { TIMEFORMAT='%R %U %S'; time bash -c "$1" >/dev/null; } 2>&1 | awk '{ print $1, $2 + $3 }'
}

for _ in 1 2 3 4 5; do
    echo "bare $(seconds "for i in \$(seq $n); do $python $dir/sol.py <$dir/in; done")"
    echo "mint $(seconds "mint-score code $dir/r.jsonl --plain")"
    echo "mint-j2 $(seconds "mint-score code -j 2 $dir/r.jsonl --plain")"
done | awk -v n="$n" '
    !($1 in wall) || $2 < wall[$1] { wall[$1] = $2 }
    !($1 in cpu) || $3 < cpu[$1] { cpu[$1] = $3 }
    function row(what, name) {
        printf "%-28s %6.1f ms wall %6.1f ms of CPU a run: %.2f and %.2f times bare\n", what, wall[name] * 1000 / n, cpu[name] * 1000 / n,
            wall[name] / wall["bare"], cpu[name] / cpu["bare"]
    }
    END {
        row("python3 sol.py", "bare")
        row("mint-score code", "mint")
        row("mint-score code --jobs 2", "mint-j2")
    }'

#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# data.sh [--quick] [--runs N] [--work DIR] [--json FILE] [--python PY]
#
# mint-advantage and mint-score on rollouts, beside jq and Python's json on the same file: MB of uncompressed JSON Lines that
# come in, by the processor seconds of all threads (one core's rate, whoever else runs) and, where two threads work, by the wall.
. "$(dirname "$0")/lib.sh"
begin data "$@"

mb=64
: "${runs:=3}"
[ -z "$quick" ] || { mb=8 runs=1; }
in=$dir/r.jsonl
rollouts $mb >"$in"
zstd -q -1 "$in" -o "$dir/r.zst"
mb=$(calc "$(stat -c %s "$in") / 1e6")
head -n 1 "$in" >"$dir/one.jsonl"
cat >"$dir/copy.py" <<'END'
import json, sys
for line in sys.stdin:
    print(json.dumps(json.loads(line)))
END

# rate CASE WHO SECONDS: of the last command
rate() {
    record "$1" "$2" MB/s "$(calc "$mb / $3")"
}

for ((r = 0; r < runs; r++)); do
    ours mint-advantage -q --keep-flat --plain "$in" >"$dir/out"
    rate 'advantage, plain, a core' mint "$cpu"
    memory 'memory' mint
    if peer jq jq -c . "$in" >"$dir/out"; then
        rate 'advantage, plain, a core' 'jq -c .' "$cpu"
    fi
    if peer python3 "$python" "$dir/copy.py" <"$in" >"$dir/out"; then
        rate 'advantage, plain, a core' 'python json, copy' "$cpu"
    fi
    ours mint-advantage -q --keep-flat "$dir/r.zst" -o "$dir/o.zst" -f
    rate 'advantage, zstd, a core' mint "$cpu"
    rate 'advantage, zstd, wall' mint "$wall"
    ours mint-score length --replace --plain "$in" >"$dir/out"
    rate 'score length, plain, a core' mint "$cpu"
    ours mint-score length --replace "$dir/r.zst" -o "$dir/o.zst" -f
    rate 'score length, zstd, wall' mint "$wall"
    ours bash -c 'for i in {1..50}; do mint-advantage -q --keep-flat --plain "$1"; done' - "$dir/one.jsonl" >"$dir/out"
    record 'start on one record, CPU' mint ms "$(calc "$cpu * 20")"
done
goal 'advantage, zstd, a core' least 150
goal 'advantage, zstd, wall' least 250
goal 'score length, plain, a core' least 150
finish

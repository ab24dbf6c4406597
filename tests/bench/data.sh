#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# data.sh [--quick] [--runs N] [--work DIR] [--json FILE] [--python PY]
#
# mint-advantage and the quick scorers of mint-score on rollouts, beside jq and Python's json on the same file: MB of uncompressed
# JSON Lines that come in, by the processor seconds of one core (whoever else runs) and, where zstd works in threads of its own, by
# the wall on two. Then the peak memory while 2 GB pass through (which are not kept), and the start.
. "$(dirname "$0")/lib.sh"
begin data "$@"

mb=64 stream=2000
: "${runs:=5}"
[ -z "$quick" ] || { mb=8 stream=64 runs=1; }

# The first CPU that we may use, and the first two.
mapfile -t cpus < <(taskset -cp $$ | sed 's/.*: //' | tr , '\n' | awk -F- '{ for (i = $1; i <= ($2 == "" ? $1 : $2); i++) print i }')
one=${cpus[0]} two=${cpus[0]},${cpus[1]:-${cpus[0]}}

rollouts $mb 17 >"$dir/r17.jsonl"
rollouts $mb >"$dir/r.jsonl"
zstd -q -1 "$dir/r.jsonl" -o "$dir/r.zst"
head -n 1 "$dir/r.jsonl" >"$dir/one.jsonl"
cat >"$dir/copy.py" <<'END'
import json, sys
for line in sys.stdin:
    print(json.dumps(json.loads(line)))
END

# rate CASE WHO SECONDS [FILE]: of the last command, which read the file
rate() {
    record "$1" "$2" MB/s "$(calc "$(stat -c %s "${4:-$dir/r.jsonl}") / 1e6 / $3")"
}

# core CASE CMD...: on one core
core() {
    local case=$1
    shift
    ours taskset -c "$one" "$@" >"$dir/out"
    rate "$case, a core" mint "$cpu"
}

# both CASE CMD...: on one core, and on two
both() {
    local case=$1
    core "$@"
    shift
    ours taskset -c "$two" "$@" >"$dir/out"
    rate "$case, two cores" mint "$wall"
}

# stream FILE MB: the file so often that this much text comes of it
stream() {
    local at
    for ((at = 0; at < $2; at += mb)); do cat "$1"; done
}

cd "$dir" || exit
for ((r = 0; r < runs; r++)); do
    core 'advantage, plain' mint-advantage -q --keep-flat --plain r.jsonl
    if peer jq jq -c . r.jsonl >out; then
        rate 'advantage, plain, a core' 'jq -c .' "$cpu"
    fi
    if peer python3 "$python" copy.py <r.jsonl >out; then
        rate 'advantage, plain, a core' 'python json, copy' "$cpu"
    fi
    ours taskset -c "$one" mint-advantage -q --keep-flat --plain r17.jsonl >out
    rate 'advantage, 17 digits, a core' mint "$cpu" r17.jsonl
    both 'advantage, zstd' mint-advantage -q --keep-flat r.zst -o o.zst -f
    for scorer in exact number length 'regex --pattern The.answer.is.([0-9]+)' 'format --pattern The.answer.is'; do
        # shellcheck disable=SC2086
        core "score ${scorer%% *}, plain" mint-score $scorer --replace --plain r.jsonl
    done
    core 'score none --summary' mint-score none --summary r.jsonl
    both 'score number, zstd' mint-score number --replace r.zst -o o.zst -f
    ours taskset -c "$one" zstd -q -1 --single-thread -c r.jsonl >out
    rate 'zstd -1 alone, a core' zstd "$cpu"
    ours bash -c 'for i in {1..50}; do mint-advantage -q --keep-flat --plain "$1"; done' - one.jsonl >out
    record 'start on one record, CPU' mint ms "$(calc "$cpu * 20")"
done
ours mint-advantage -q --keep-flat >/dev/null < <(stream r.zst $stream)
memory 'memory of advantage, zstd' mint
ours mint-score number --replace >/dev/null < <(stream r.zst $stream)
memory 'memory of score number, zstd' mint
ours mint-score number --replace --plain >/dev/null < <(stream r.jsonl $stream)
memory 'memory of score number, plain' mint

for case in 'advantage, plain' 'advantage, zstd' 'score number, zstd' 'score exact, plain' 'score number, plain' 'score length, plain' \
    'score regex, plain' 'score format, plain' 'score none --summary'; do
    goal "$case, a core" least 150
done
goal 'advantage, zstd, two cores' least 250
goal 'score number, zstd, two cores' least 250
for case in advantage 'score number'; do goal "memory of $case, zstd" most 0.05; done
finish

#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# The report of the benchmarks: medians, who is ahead, limits, goals and powers of growth. Nothing here measures time.
load helpers

# summary RECORD...: the object of these records
summary() {
    printf '%s\n' '{"probe":{"isa":"x","threads":2,"bf16_peak_gflops":100,"fma_peak_gflops":90,"read_gb_per_s":30}}' "$@" |
        jq -L "$MINT_ROOT/tests/bench" -s 'include "report"; summary("part"; false)'
}

# sample WHO UNIT VALUE [LIMIT]
sample() {
    echo "{\"case\":\"c\",\"who\":\"$1\",\"unit\":\"$2\",\"value\":$3,\"limit\":${4:-null},\"bound\":\"b\",\"cores\":2}"
}

@test "more tokens a second and fewer seconds both put mint ahead" {
    summary "$(sample mint tok/s 30)" "$(sample peer tok/s 10)" >s.json
    jq -e '.rows[1].mint_is == 3 and .rows[0].mint_is == null' s.json
    summary "$(sample mint s 2)" "$(sample peer s 5)" >s.json
    jq -e '.rows[1].mint_is == 2.5' s.json
}

@test "the median and the limit are taken sample by sample, outliers do not widen the spread" {
    summary "$(sample mint tok/s 10 20)" "$(sample mint tok/s 12 40)" "$(sample mint tok/s 14 20)" "$(sample mint tok/s 900 1000)" \
        "$(sample mint tok/s 13 26)" >s.json
    jq -e '.rows[0] | .median == 13 and .n == 5 and .of_limit == 0.5 and .spread < 0.1' s.json
}

@test "goals: met, missed, not measured" {
    summary "$(sample mint tok/s 30 40)" "$(sample peer tok/s 10)" "$(sample other tok/s 20)" \
        '{"goal":{"case":"c","kind":"limit","factor":0.7}}' '{"goal":{"case":"c","kind":"ahead","factor":2}}' \
        '{"goal":{"case":"none","kind":"ahead","factor":2}}' '{"goal":{"case":"c","kind":"least","factor":30}}' >s.json
    jq -e '.goals | map(.met) == [true, false, null, true]' s.json
    summary "$(sample mint GB 1.4 1)" '{"goal":{"case":"c","kind":"limit","factor":1.3}}' '{"goal":{"case":"c","kind":"most","factor":1.5}}' >s.json
    jq -e '.goals | map(.met) == [false, true]' s.json
    jq -L "$MINT_ROOT/tests/bench" -r 'include "report"; table' s.json >table
    grep -q 'goal at most 130% of limit (missed: 1.40)' table
}

@test "the power of growth is that beyond the start" {
    point() { echo "{\"point\":{\"series\":\"p\",\"x\":$1,\"work\":$2,\"base\":1,\"cpu\":$3,\"wall\":1,\"rss\":$4}}"; }
    summary "$(point 2 2 2 100)" "$(point 8 8 17 100)" >s.json
    jq -e '.series[0] | .seconds == 2 and .must == 1 and .memory == 0' s.json
    jq -L "$MINT_ROOT/tests/bench" -r 'include "report"; table' s.json | grep -q 'FASTER THAN THE WORK'
}

@test "every part says what it does" {
    for part in "$MINT_ROOT"/tests/bench/{all,data,sample,train,grpo,scale}.sh; do
        run_tool env MINT_BUILD="$MINT_BUILD" "$part" --help
        expect 0
        has "$output" "${part##*/} ["
    done
}

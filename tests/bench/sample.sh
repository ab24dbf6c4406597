#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# sample.sh [--quick] [--runs N] [--threads N] [--work DIR] [--json FILE] [--python PY] [NAME=DIR...]
#
# mint-sample beside llama.cpp on the same weights: prefill of 512 tokens, decoding at several batch sizes behind prompts
# of 256 tokens, time to the first token of a fresh process, peak memory. DIR holds llama-bench and llama-batched-bench,
# NAME is what to call that build. PY (python3) needs the package gguf, to write the weights for it.
. "$(dirname "$0")/lib.sh"
begin sample "$@"

batches=(1 8 32 64) tokens=16
[ -z "$quick" ] || batches=(1 8)
: "${runs:=$((quick ? 1 : 3))}"
preset qwen3-0.6b
weights=$(calc "2 * ($L * $layer + $head)")

# steps PROMPT NEW: seconds of the steps of the last run that read and drew so many tokens
steps() {
    awk -v p="$1" -v n="$2" '/ prompt tokens, / && $2 == p && $5 == n { print $8 / 1000 }' "$dir/log"
}

# rates CASE TOKENS LIMIT BOUND: records of the steps on stdin, each of so many tokens
rates() {
    local s
    while read -r s; do
        record "$1" mint tok/s "$(calc "$2 / $s")" "$3" "$4"
    done
}

# prefill_limit TOKENS: tokens a second at the peak. Only the last row goes through the head.
prefill_limit() {
    calc "$peak * 1e9 / (2 * $L * $layer + 2 * $head / $1 + 2 * $L * $qdim * ($1 + 1))"
}

# decode_limit BATCH CONTEXT [SHARED]: tokens a second if a step only reads each weight and key once, or only multiplies;
# the slower of the two, which is named in $bound. SHARED positions are read once for all.
decode_limit() {
    local bytes flops
    bytes=$(calc "$weights + $kv * ($1 * ($2 - ${3:-0}) + ${3:-0})")
    flops=$(calc "$1 * ($weights + 4 * $L * $qdim * $2)")
    bound=$(calc "$bytes / $read_bw > $flops / $peak" | sed 's/1/read/; s/0/products/')
    limit=$(calc "$1 * 1e9 / ($bytes / $read_bw > $flops / $peak ? $bytes / $read_bw : $flops / $peak)")
}

sampled() {
    ours mint-sample -m "$model" --ignore-eos -vv --metrics "$dir/m.jsonl" -f -o "$dir/out.zst" "$@"
}

our_prefill() {
    prompts 5 512 >"$dir/p.jsonl"
    sampled -n 1 --batch 1 --max-tokens 1 "$dir/p.jsonl"
    steps 512 1 | tail -n +2 | rates 'prefill 512' 512 "$(prefill_limit 512)" products
}

# The batch is full only between the last prompt and the first end. The first such step is left out: it may touch new memory.
our_decode() {
    local b=$1 n=$(($1 / 2 + tokens + 2))
    prompts "$b" 256 >"$dir/p.jsonl"
    sampled -n 1 --batch "$b" --max-tokens "$n" "$dir/p.jsonl"
    decode_limit "$b" $((256 + n / 2))
    steps 0 "$b" | sed '1d;$d' | rates "decode, batch $b" "$b" "$limit" "$bound"
    [ "$b" != "${batches[-2]}" ] || memory "memory, batch $b" mint "$(calc "($weights + $b * (256 + $n) * $kv) / 1e9")"
}

our_group() {
    prompts 1 256 >"$dir/p.jsonl"
    sampled -n "$1" --batch "$1" --max-tokens $((tokens + 3)) "$dir/p.jsonl"
    decode_limit "$1" $((256 + tokens / 2)) 256
    steps 0 "$1" | sed '1d;$d' | rates "decode, a group of $1" "$1" "$limit" "$bound"
}

our_start() {
    prompts 1 128 >"$dir/p.jsonl"
    sampled -n 1 --max-tokens 1 "$dir/p.jsonl"
    record 'first token, fresh process' mint s "$(jq '.["time/first_token"]' "$dir/m.jsonl" | tail -n 1)"
    record 'one token, whole process' mint s "$wall"
}

# its_prefill NAME DIR, and so on: the same of a llama.cpp, in a folder where it may leave its logs
its_prefill() {
    local v
    peer "$1" env -C "$dir" "$2/llama-bench" -m "$gguf" -t "$threads" -p 512 -n 0 -r 3 -o json >"$dir/out.json" || return 0
    for v in $(jq '.[0].samples_ts[]' "$dir/out.json"); do
        record 'prefill 512' "$1" tok/s "$v" "$(prefill_limit 512)" products
    done
}

# its_decode NAME DIR CASE BATCH [OPTIONS]
its_decode() {
    local v
    peer "$1" env -C "$dir" "$2/llama-batched-bench" -m "$gguf" -t "$threads" -tb "$threads" -c $(($4 * (256 + tokens) + 64)) -b 2048 -ub 512 \
        -npp 256 -ntg "$tokens" -npl "$4" "${@:5}" >"$dir/out.md" || return 0
    v=$(awk -F'|' '$2 + 0 == 256 { print $9 + 0 }' "$dir/out.md" "$dir/log") # some print the table on stderr
    if [ -z "$v" ]; then
        say "$1 is left out of $3: llama-batched-bench printed no table with the row of 256 tokens"
        return 0
    fi
    decode_limit "$4" $((256 + tokens / 2)) "${5:+256}"
    record "$3" "$1" tok/s "$v" "$limit" "$bound"
    if [ -z "${5:-}" ] && [ "$4" = "${batches[-2]}" ]; then
        memory "memory, batch $4" "$1" "$(calc "($weights + $4 * (256 + $tokens) * $kv) / 1e9")"
    fi
}

its_start() {
    local cli=$2/llama-completion
    [ -x "$cli" ] || return 0
    jq -r .prompt "$dir/p.jsonl" >"$dir/p.txt"
    peer "$1" env -C "$dir" "$cli" -m "$gguf" -t "$threads" -f "$dir/p.txt" -n 1 -no-cnv --no-warmup >/dev/null || return 0
    record 'one token, whole process' "$1" s "$wall"
}

peers=()
for p in "${rest[@]}"; do
    name=${p%%=*} bin=${p#*=}
    [ "$name" != "$p" ] || name=llama.cpp
    if [ -x "$bin/llama-bench" ] && [ -x "$bin/llama-batched-bench" ]; then
        peers+=("$name=$(realpath "$bin")")
    else
        say "$name is left out: $bin has no llama-bench and llama-batched-bench"
    fi
done
[ ${#rest[@]} -gt 0 ] || say 'llama.cpp is left out: name its folder of programs'
gguf=$model.gguf
if [ ${#peers[@]} -gt 0 ] && [ ! -e "$gguf" ]; then
    if used "$python" "$here/peer_gguf.py" "$model" "$gguf.tmp"; then
        mv "$gguf.tmp" "$gguf"
    else
        say "llama.cpp is left out: no GGUF: $(tail -n 1 "$dir/log")"
        peers=()
    fi
fi

# each CASE_OF_OURS CASE_OF_THEIRS ARGS...: one after the other, with a probe of the machine before each
each() {
    local p
    probe
    "$1"
    for p in "${peers[@]}"; do
        probe
        "$2" "${p%%=*}" "${p#*=}"
    done
}

for ((r = 0; r < runs; r++)); do
    say "run $((r + 1)) of $runs"
    each our_prefill its_prefill
    each our_start its_start
    for b in "${batches[@]}"; do
        [ "$b" -lt 32 ] || [ "$r" -eq 0 ] || continue # the prompts alone take minutes
        decode_this() { our_decode "$b"; }
        decode_that() { its_decode "$1" "$2" "decode, batch $b" "$b"; }
        each decode_this decode_that
    done
    b=16
    group_this() { our_group "$b"; }
    group_that() { its_decode "$1" "$2" "decode, a group of $b" "$b" -pps; }
    each group_this group_that
done
if [ -z "$quick" ]; then
    goal 'prefill 512' limit 0.7
    goal 'prefill 512' ahead 1.5
    goal 'decode, batch 1' limit 0.8
    goal 'decode, batch 1' ahead 1.2
    goal 'decode, batch 8' ahead 2
    goal 'decode, batch 32' limit 0.65
    goal 'decode, batch 32' ahead 2
    goal 'first token, fresh process' most 0.8
    goal 'memory, batch 32' limit 1.3
fi
finish

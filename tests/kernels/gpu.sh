#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# What only a GPU can tell, in under six minutes: make test-gpu builds what this needs and runs it.
#
#   gpu.sh [BUILD] [OUT]     OUT (BUILD/gpu): where tables and gpu.json go
#
# 1. the cases of the kernels on the device, also under compute-sanitizer, where it is installed
# 2. the tools on a tiny model, end to end; where there are two GPUs, mpirun and NCCL, mint-train on several of them
# 3. the bits of the cases beside those of the emulator
# 4. bandwidth and matrix rate of this device; products by cuBLASLt and by our kernel, bit for bit
# 5. decoding and a LoRA step in the shapes of Qwen3-0.6B and (12 of its layers) 8B, beside those limits
# GPU_TRY=1: small shapes, to try this script itself. Each part has its time, and goes on if another fails. Ends with "N passed, N failed, N skipped".
set -u
cd "$(dirname "$0")/../.." || exit 1
build=$(realpath "${1:-build/release}") out=${2:-$build/gpu}
mkdir -p "$out" && out=$(realpath "$out") || exit 1
export PATH=$build/bin:$PATH LC_ALL=C MINT_BACKEND_DIR=$build/lib/mint
unset MINT_DEVICE MINT_CUBLAS
try=${GPU_TRY:-} passed=0 failed=0 skipped=0 begin=$SECONDS
: >"$out/gpu.json"

title() { printf '\n== %s (%d s)\n' "$*" $((SECONDS - begin)); }
result() { # STATUS WHAT
    case $1 in
    0) passed=$((passed + 1)) && echo "ok   $2" ;;
    skip) skipped=$((skipped + 1)) && echo "skip $2" ;;
    *) failed=$((failed + 1)) && echo "FAIL $2" ;;
    esac
}
# Seconds that are left of the six minutes, less what is to be kept.
left() { echo $((330 - (SECONDS - begin) - ${1:-0} > 5 ? 330 - (SECONDS - begin) - ${1:-0} : 5)); }
json() { jq -c . >>"$out/gpu.json"; }
calc() { awk "BEGIN { printf \"%.6g\", $1 }"; }

title "the device"
nvidia-smi --query-gpu=name,driver_version,memory.total,clocks.max.sm,power.limit --format=csv,noheader 2>/dev/null | tee "$out/device"
if ! "$build/tests/kernels/rates" cuda quick >"$out/quick" 2>"$out/quick.err"; then
    cat "$out/quick.err"
    result 1 "the device opens"
    echo "$passed passed, $failed failed, $skipped skipped"
    exit 1
fi
jq -c 'select(.name == "device")' "$out/quick" | tee -a "$out/gpu.json"
result 0 "the device opens"

# The emulator's turn, which takes a core meanwhile.
timeout 240 "$build/tests/kernels/plain" ${try:+quick} SCHED=1 >"$out/emulated" 2>/dev/null &
emulator=$!

title "kernels on the device"
timeout 90 "$build/tests/kernels/gpu" ${try:+quick} >"$out/native" 2>"$out/native.err"
result $? "cases: $(grep -c '^ok' "$out/native") pass, $(grep -c '^not ok' "$out/native") do not"
grep -A5 '^not ok' "$out/native" | head -40

title "compute-sanitizer"
for tool in memcheck racecheck initcheck; do
    if ! command -v compute-sanitizer >/dev/null; then
        result skip "$tool: no compute-sanitizer"
        continue
    fi
    timeout 45 compute-sanitizer --tool $tool --error-exitcode 9 "$build/tests/kernels/gpu" quick >"$out/$tool" 2>&1
    rc=$?
    if [ $rc = 124 ]; then
        result skip "$tool: took more than 45 s"
    else
        result $rc "$tool: $(tail -n 1 "$out/$tool")"
    fi
done

title "the tools, end to end"
if command -v bats >/dev/null; then
    MINT_TEST_GPU=1 MINT_BUILD=$build MINT_BIN=$build/bin timeout 60 bats --tap tests/e2e/65-cuda.bats >"$out/e2e" 2>&1
    result $? "65-cuda: $(grep -c '^ok' "$out/e2e") pass"
    grep -A12 '^not ok' "$out/e2e" | head -40
else
    result skip "no bats"
fi

title "several GPUs"
gpus=$(nvidia-smi -L 2>/dev/null | grep -c '^GPU')
nccl() {
    local dir dirs
    IFS=: read -ra dirs <<<"${LD_LIBRARY_PATH:-}"
    for dir in "${dirs[@]}"; do [ ! -e "$dir/libnccl.so.2" ] || return 0; done
    ldconfig -p | grep -q 'libnccl\.so\.2'
}
if [ "$gpus" -lt 2 ]; then
    result skip "there are fewer than two"
elif ! command -v mpirun >/dev/null || [ ! -e "$build/lib/mint/mint-mpi.so" ] || ! command -v bats >/dev/null; then
    result skip "no mpirun, no mint-mpi.so, or no bats"
elif ! nccl; then
    result skip "no libnccl.so.2"
else
    MINT_TEST_GPU=1 MINT_BUILD=$build MINT_BIN=$build/bin timeout 90 bats --tap tests/e2e/66-gpus.bats >"$out/several" 2>&1
    result $? "66-gpus: $(grep -c '^ok' "$out/several") pass or do not apply, on $gpus GPUs"
    grep -A12 '^not ok' "$out/several" | head -40
fi

title "the bits of the kernels beside the emulator's"
wait "$emulator"
join <(sed -n 's/^# bits //p' "$out/native" | sort) <(sed -n 's/^# bits //p' "$out/emulated" | sort) |
    awk '$2 != $3 { print $1 } $2 == $3 { same++ } END { print same + 0 >"/dev/stderr" }' >"$out/other" 2>"$out/same"
echo "$(cat "$out/same") cases have the emulator's bits; not these: $(tr '\n' ' ' <"$out/other")"
! [ -s "$out/other" ]
result $? "the emulator foretells the bits"

title "rates: products by cuBLASLt (us) and by our kernel alone (ours_us)"
timeout 60 "$build/tests/kernels/rates" cuda ${try:+quick} >"$out/rates" 2>"$out/rates.err"
result $? "rates"
json <"$out/rates"
jq -r 'select(.name == "product") | [.what, .N, .K, .rows, .ours_us, .us, .TFLOP_s, .GB_s, .same_bits] | @tsv' "$out/rates" |
    { printf 'what\tN\tK\trows\tours_us\tus\tTFLOP/s\tGB/s\tsame bits\n' && cat; } | column -t -s "$(printf '\t')"
! jq -e 'select(.name == "product" and .same_bits == false)' "$out/rates" >/dev/null
result $? "every product has the bits of ours"
bandwidth=$(jq -r 'select(.name == "copy") | .GB_s' "$out/rates")
peak=$(jq -s 'map(.TFLOP_s // 0) | max' "$out/rates")

# shape PRESET LAYERS: weights of a layer, embedding and head, bytes of keys and values a position
shape() {
    local m=$work/$1
    read -r H F heads kvh D V tied < <(jq -r '[.hidden_size, .intermediate_size, .num_attention_heads, .num_key_value_heads,
        .head_dim, .vocab_size, (.tie_word_embeddings // false)] | @tsv' "$m/config.json")
    layer=$((H * D * (2 * heads + 2 * kvh) + 3 * H * F)) head=$((V * H)) kv=$(($2 * 2 * kvh * D * 2))
}
# put NAME VALUE LIMIT: a row of the table and of gpu.json
put() {
    local share
    share=$(calc "100 * $2 / $3")
    printf '%-44s %10.0f %10.0f %5.0f %%\n' "$1" "$2" "$3" "$share"
    jq -cn --arg n "$1" --argjson v "$2" --argjson l "$3" '{name: $n, tok_s: $v, limit_tok_s: $l}' >>"$out/gpu.json"
}
prompts() { # COUNT TOKENS
    awk -v n="$1" -v t="$2" 'BEGIN { for (i = 0; i < n; i++) { s = ""; for (k = 0; k < t; k++) s = s sprintf("%c", 97 + (i * 7 + k * k) % 26)
        printf "{\"id\":\"p%d\",\"prompt\":\"%s\"}\n", i, s } }'
}
decode() { # MODEL LAYERS BATCH
    local n=$((try ? 4 : 128)) prompt=$((try ? 20 : 384)) rate bytes limit
    prompts "$3" $prompt >"$work/p.jsonl"
    timeout "$(left 10)" mint-sample --device cuda -m "$work/$1" -n 1 --batch "$3" --max-tokens $n --ignore-eos -f -o "$work/r.zst" \
        --metrics "$work/m.jsonl" "$work/p.jsonl" 2>>"$out/tools.err" || { result 1 "decode $1 batch $3"; return; }
    rate=$(tail -n 1 "$work/m.jsonl" | jq '."perf/decode_tokens_per_s"')
    bytes=$(calc "2 * ($2 * $layer + $head) + $3 * $kv * ($prompt + $n / 2)")
    limit=$(calc "$3 * 1e9 * $bandwidth / $bytes")
    put "decode $1, batch $3, context $((prompt + n / 2))" "$rate" "$limit"
}
train() { # MODEL LAYERS: a step of 8,192 positions, 16 datums of 512
    local half=$((try ? 8 : 256)) rate flops limit
    prompts 16 $half >"$work/p.jsonl"
    mint-sample --device cuda -m "$work/$1" -n 1 --max-tokens $half --ignore-eos --plain "$work/p.jsonl" 2>>"$out/tools.err" |
        mint-advantage -q --sft --plain -f -o "$work/d.jsonl" 2>>"$out/tools.err"
    rm -rf "$work/ck"
    timeout "$(left 5)" mint-train --device cuda -m "$work/$1" --to "$work/ck" --loss cross_entropy --rank 32 --micro-tokens 8192 --epochs 3 \
        --metrics "$work/t.jsonl" "$work/d.jsonl" 2>>"$out/tools.err" || { result 1 "train $1"; return; }
    # positions that go through, not only those with a weight
    rate=$(tail -n 1 "$work/t.jsonl" | jq "16 * (2 * $half - 1) / .\"time/total\"")
    flops=$(calc "4 * ($2 * $layer + $head) + 2 * $2 * $layer + 6 * 2 * $2 * $heads * $D * $half")
    limit=$(calc "1e12 * $peak / $flops")
    put "LoRA step $1, $((32 * half)) positions" "$rate" "$limit"
}

title "tokens a second, beside the limit of $bandwidth GB/s and $peak TFLOP/s"
work=$(mktemp -d "${TMPDIR:-/tmp}/mint-gpu.XXXXXX")
trap 'rm -rf "$work"' EXIT
printf '%-44s %10s %10s %7s\n' what tok/s limit share
models=("qwen3-0.6b 28" "qwen3-8b 12") batches="1 64 256"
[ -z "$try" ] || models=("tiny 2") batches="1 3"
for m in "${models[@]}"; do
    read -r name layers <<<"$m"
    if ! timeout "$(left 40)" mint-init -q --to "$work/$name" --preset "$name" --layers "$layers" 2>>"$out/tools.err"; then
        result skip "$name: no time to make it"
        continue
    fi
    shape "$name" "$layers"
    for b in $batches; do decode "$name" "$layers" "$b"; done
    train "$name" "$layers"
    rm -rf "${work:?}/$name"
done
tail -n 5 "$out/tools.err" 2>/dev/null

title "done; $out/gpu.json"
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" = 0 ]

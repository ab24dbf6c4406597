#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# train.sh [--quick] [--runs N] [--threads N] [--work DIR] [--json FILE] [--python PY]
#
# A LoRA step of mint-train (rank 16 on every matrix, importance_sampling, Adam) beside PyTorch and PEFT on the same Datum of
# 512 tokens, in bf16 and f32, with activations kept or computed again (gradient checkpointing); what sharing a prompt
# saves; and processes of one thread beside the threads of one process. PY (python3) needs the packages torch, transformers and peft. The limit is the time that the step's products take by
# bench_gemm.
. "$(dirname "$0")/lib.sh"
begin train "$@"

length=512 shapes=()
[ -z "$quick" ] || shapes=(--shape gate+up)
: "${runs:=$((quick ? 1 : 2))}"
preset qwen3-0.6b

# random_datums N PROMPT RESPONSE GROUP: Datums of groups of so many with a prompt in common; every response token counts
random_datums() {
    awk -v n="$1" -v p="$2" -v r="$3" -v g="$4" -v vocab="$V" 'BEGIN {
        srand(3)
        for (k = 0; k < n; k++) {
            x = y = q = a = w = ""
            if (k % g == 0) for (i = 0; i < p; i++) prompt[i] = int(rand() * vocab)
            for (i = 0; i <= p + r; i++) {
                id = i < p ? prompt[i] : int(rand() * vocab)
                s = i ? "," : ""
                if (i < p + r) x = x s id
                if (i) {
                    s = i > 1 ? "," : ""
                    on = i >= p && i > 0
                    y = y s id; w = w s on; q = q s (on ? "-12.5" : 0); a = a s (on ? (k % 2 ? .5 : -.4) : 0)
                }
            }
            printf "{\"model_input\":{\"chunks\":[{\"tokens\":[%s]}]},\"loss_fn_inputs\":{\"target_tokens\":[%s],\"weights\":[%s],\"logprobs\":[%s],\"advantages\":[%s]}}\n",
                x, y, w, q, a
        }
    }'
}

# products OPTIONS...: GFLOP/s of all matrices together at 512 rows, each weighed by its share of the model
products() {
    "$build/tests/bench/bench_gemm" --json --samples 3 --threads "$threads" "${shapes[@]}" "$@" 512 |
        jq -s --argjson layers "$L" 'map(. + {f: (.n * .k * (if .shape == "unembed" then 1 else $layers end))}) |
            (map(.f) | add) / (map(.f / .gflops) | add)'
}

# rates PRECISION: GFLOP/s of products of that precision in $forward and $back
rates() {
    local option=()
    [ "$1" = bf16 ] || option=(--f32)
    forward=$(products --rows "${option[@]}")
    back=$(products --back "${option[@]}")
    say "$1: products $(calc "int($forward)") GFLOP/s forward, $(calc "int($back)") backward"
}

# step_limit TIMES: tokens a second if the products took all of the time and layers were computed forward so many times; they
# and the head go backward once, and so do LoRA's thin products for two gradients; attention's backward is 2.5 of its forward.
step_limit() {
    local fwd lora attention
    fwd=$(calc "2 * $1 * $L * $layer + 2 * $head")
    lora=$(calc "16 * ((4 + 2 * $1) * $L * (7 * $H + 2 * $qdim + 2 * $kvdim + 3 * $F) + 6 * ($H + $V))")
    attention=$(calc "($1 + 2.5) * 4 * $L * $qdim * $length / 2")
    gflop=$(calc "($fwd + 2 * ($L * $layer + $head) + $lora + $attention) / 1e9")
    limit=$(calc "1e9 / (($fwd + $lora + $attention) / $forward + 2 * ($L * $layer + $head) / $back)")
}

# our_steps PRECISION HOW RECOMPUTE: two of the same Datum; the first touches new memory and is left out.
our_steps() {
    rm -rf "$dir/m.jsonl" "$dir/ck"
    ours mint-train -q -m "$model" --precision "$1" --recompute "$3" --to "$dir/ck" --epochs 2 --metrics "$dir/m.jsonl" "$dir/d.jsonl"
    record "LoRA step, $1, $2" mint tok/s "$(jq "$length / .[\"time/total\"]" "$dir/m.jsonl" | tail -n 1)" "$limit" products
    memory "memory, $1, $2" mint
    loss=$(jq '.["loss:sum"]' "$dir/m.jsonl" | head -n 1)
}

# its_steps PRECISION HOW [OPTION]
its_steps() {
    peer PEFT "$python" "$here/peer_peft.py" "$model" "$dir/d.jsonl" --dtype "$1" --steps 2 "${@:3}" >"$dir/out.jsonl" || return 0
    record "LoRA step, $1, $2" PEFT tok/s "$(jq "$length / .seconds" "$dir/out.jsonl" | tail -n 1)" "$limit" products
    memory "memory, $1, $2" PEFT
    say "$1, $2: $gflop GFLOP a token; loss $loss, by PEFT $(jq .loss "$dir/out.jsonl" | head -n 1)"
}

if "$python" -c 'import torch, peft, transformers' 2>"$dir/log"; then
    with_peer=1
else
    with_peer=
    say "PEFT is left out: $(tail -n 1 "$dir/log")"
fi
random_datums 1 0 "$length" 1 >"$dir/d.jsonl"
for precision in bf16 f32; do
    rates "$precision"
    for ((r = 0; r < runs; r++)); do
        [ "$precision" = bf16 ] || [ "$r" -eq 0 ] || continue # slow, and beside the point
        probe
        step_limit 1
        our_steps "$precision" kept none
        [ -z "$with_peer" ] || its_steps "$precision" kept
        probe
        step_limit 2
        our_steps "$precision" 'computed again' all
        [ -z "$with_peer" ] || its_steps "$precision" 'computed again' --checkpointing
    done
done

# A group of 16 with a prompt of 400 tokens and responses of 100: neighbours that share it, and the same tokens with prompts of
# their own.
preset smollm2-135m
n=16
random_datums $n 400 100 16 >"$dir/shared.jsonl"
random_datums $n 400 100 1 >"$dir/apart.jsonl"
for who in mint 'mint, nothing shared'; do
    file=$dir/shared.jsonl
    [ "$who" = mint ] || file=$dir/apart.jsonl
    rm -rf "$dir/m.jsonl" "$dir/ck"
    probe
    ours mint-train -q -m "$model" --to "$dir/ck" --epochs 3 --metrics "$dir/m.jsonl" "$file"
    for s in $(jq '.["time/total"]' "$dir/m.jsonl" | tail -n +2); do
        record "a group of $n, 400 + 100 tokens" "$who" s "$s"
    done
done

# Eight groups, by one process and by as many under mpirun as it has threads. Spread over processes, a step waits for the one
# with the most rows, and sums go round.
if command -v mpirun >/dev/null && [ -e "$build/lib/mint/mint-mpi.so" ]; then
    random_datums 16 100 150 2 >"$dir/groups.jsonl"
    together=(mpirun --allow-run-as-root --oversubscribe --bind-to none -n "$threads" mint-train --threads 1)
    for ((r = 0; r < runs; r++)); do
        for who in "mint, $threads threads" "mint, $threads processes"; do
            command=(mint-train)
            [ "$who" = "mint, $threads threads" ] || command=("${together[@]}")
            rm -rf "$dir/m.jsonl" "$dir/ck"
            ours "${command[@]}" -q -m "$model" --to "$dir/ck" --epochs 2 --metrics "$dir/m.jsonl" "$dir/groups.jsonl"
            record "8 groups of 2, 100 + 150 tokens" "$who" s "$(jq '.["time/total"]' "$dir/m.jsonl" | tail -n 1)"
        done
    done
fi

if [ -z "$quick" ]; then
    for how in kept 'computed again'; do
        goal "LoRA step, bf16, $how" limit 0.7
        goal "LoRA step, bf16, $how" ahead 1.5
        goal "memory, bf16, $how" ahead 1
    done
    goal 'a group of 16, 400 + 100 tokens' ahead 2.5
fi
finish

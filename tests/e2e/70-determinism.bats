#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# The same bytes: D1 sampling, D2 sampler and trainer, D3 training, D4 killed runs, D5 instruction sets.
load helpers

setup_file() {
    export FILE_DIR=$BATS_FILE_TMPDIR
    [ -x "$MINT_BIN/mint-train" ] && [ -x "$MINT_BIN/mint-init" ] || return 0
    PATH=$MINT_BIN:$PATH
    cd "$FILE_DIR" || return 1
    mint-init --to model --preset tiny
    for i in 1 2 3 4 5 6; do
        printf '{"id":"p%d","prompt":"%s%d + 5 ="}\n' "$i" "$(printf 'Sum: %.0s' $(seq $((i * i))))" "$i"
    done >prompts.jsonl
    # An adapter that changes the policy (B is not zero), and datums drawn from it.
    mint-sample --model model -n 4 --max-tokens 24 --temperature 1 prompts.jsonl | mint-score length --target 9 |
        mint-advantage -q | mint-train --model model --to adapter --rank 4 --lr 2e-2 --epochs 3
    mint-sample --model model --adapter adapter -n 4 --max-tokens 70 --temperature 1 --seed 1 prompts.jsonl \
        -o rollouts.jsonl.zst
    mint-score length --target 30 rollouts.jsonl.zst | mint-advantage -q -o datums.jsonl.zst
}

setup() {
    enter_scratch
    need mint-init mint-sample mint-score mint-advantage mint-train
    for f in model adapter prompts.jsonl rollouts.jsonl.zst datums.jsonl.zst; do
        ln -s "$FILE_DIR/$f" .
    done
}

sample() {
    mint-sample --model model --adapter adapter -n 4 --max-tokens 70 --temperature 1 --seed 1 --plain "$@"
}

train() { # TO OPTIONS...
    local to=$1
    shift
    mint-train --model model --from adapter --to "$to" --lr 1e-2 --substeps 2 --kl-penalty-coef 0.1 "$@" datums.jsonl.zst
}

# Two checkpoints, file by file.
same_checkpoint() {
    for f in adapter_config.json adapter_model.safetensors optimizer.safetensors trainer_state.json; do
        same "$1/$f" "$2/$f"
    done
}

@test "D1: records do not depend on threads, slots, neighbours, order or shards" {
    zstd -dc <rollouts.jsonl.zst >want
    for o in "-T 1" "-T 2" "-T 3 --batch 5" "--batch 1 --micro-tokens 7"; do
        # shellcheck disable=SC2086
        sample $o prompts.jsonl >got
        same want got
    done
    shuf --random-source=<(yes) prompts.jsonl | sample | sort >got
    sort want >sorted
    same sorted got
    for i in 0 1 2 3; do
        sample --shard "$i/4" prompts.jsonl
    done | sort >got
    same sorted got
    grep '"p4"' prompts.jsonl | sample >got
    grep '"p4"' want >one
    same one got
}

@test "D2: the trainer computes the sampler's logprobs bit for bit, and the KL of the first step is exactly 0" {
    mint-train --model model --from adapter --forward-only --plain datums.jsonl.zst >forward
    zstd -dc <datums.jsonl.zst >datums
    [ "$(wc -l <datums)" -gt 10 ]
    paste -d'\n' datums forward | jq -cn '
        [inputs] | [range(0; length; 2) as $i | .[$i].loss_fn_inputs as $d | .[$i + 1].loss_fn_outputs.logprobs.data as $f |
        range($d.weights.data | length) | select($d.weights.data[.] != 0) | $d.logprobs.data[.] == $f[.]] |
        [length > 500, all]' >verdict
    [ "$(cat verdict)" = "[true,true]" ]
    for o in "" "--micro-tokens 33 -T 2"; do
        rm -rf to m.jsonl
        # shellcheck disable=SC2086
        mint-train --model model --from adapter --to to --metrics m.jsonl $o datums.jsonl.zst
        jq -e '."optim/kl_sample_train_v1" == 0 and ."optim/kl_sample_train_v2" == 0 and ."optim/ratio_max" == 1 and
            ."optim/ratio_min" == 1 and .tokens > 500' m.jsonl
    done
}

@test "D2: a replay of the rollouts gives their logprobs again, at any precision" {
    for p in bf16 f32; do
        mint-sample --model model --adapter adapter -n 2 --max-tokens 20 --precision $p --plain prompts.jsonl >r
        mint-sample --model model --adapter adapter --precision $p --replay --as again_logprobs --plain r >r2
        jq -e '.sequences | all(.[]; .logprobs == .again_logprobs)' r2 >/dev/null
    done
}

@test "D3: a checkpoint does not depend on threads or on how datums are packed" {
    train want
    for o in "-T 1" "-T 2" "-T 3 --micro-tokens 1" "--micro-tokens 100 -T 2" "--micro-tokens 1000"; do
        rm -rf got
        # shellcheck disable=SC2086
        train got $o
        same_checkpoint want got
    done
}

@test "D3: reading the datums from plain or joined files makes no difference" {
    train want
    zstd -dc <datums.jsonl.zst >all
    head -n 5 all | zstd -q >a
    tail -n +6 all >b
    mint-train --model model --from adapter --to got --lr 1e-2 --substeps 2 --kl-penalty-coef 0.1 a b
    same_checkpoint want got
}

@test "D4: a run killed at random moments and rerun ends with the bytes of one that was not" {
    cat >grpo.conf <<END
model = model
prompts = prompts.jsonl
steps = 3
sample.groups-per-batch = 2
sample.max-tokens = 12
sample.temperature = 1
score = length
score.target = 5
train.lr = 1e-2
adapter.rank = 2
END
    grpo=$MINT_ROOT/pipelines/grpo.sh
    "$grpo" -q grpo.conf want
    kills=0 x=4711
    for _ in $(seq 40); do
        # A process group of its own, killed as a whole: what a power cut leaves.
        setsid "$grpo" -q grpo.conf got >log 2>&1 3>&- &
        pid=$!
        x=$((x * 16807 % 2147483647))
        sleep "0.$(printf %03d $((x % 400)))"
        kill -KILL -- -$pid 2>/dev/null && kills=$((kills + 1))
        wait $pid && break
    done
    "$grpo" -q grpo.conf got
    [ $kills -gt 0 ]
    left=$(find got -name '*.tmp*' -o -name '*.lock')
    [ -z "$left" ] || fail "left over: $left"
    for n in 1 2 3; do
        for f in rollouts scored datums; do
            same "want/step-000$n/$f.jsonl.zst" "got/step-000$n/$f.jsonl.zst"
        done
        same_checkpoint "want/ckpt/$n" "got/ckpt/$n"
    done
}

@test "D5: every instruction set of this CPU gives the bytes of the portable path" {
    MINT_CPU_ISA=portable sample -n 2 prompts.jsonl >want
    MINT_CPU_ISA=portable train want.ckpt
    n=0
    for isa in avx2 avx512 avx512bf16; do
        if ! MINT_CPU_ISA=$isa sample -n 2 prompts.jsonl >got 2>log; then
            has "$(cat log)" "MINT_CPU_ISA=$isa: this CPU does not have it"
            continue
        fi
        same want got
        MINT_CPU_ISA=$isa train "$isa.ckpt"
        same_checkpoint want.ckpt "$isa.ckpt"
        n=$((n + 1))
    done
    [ $n -gt 0 ] || skip "this CPU has the portable path only"
}

#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# --device cuda: what a machine may lack, and the whole path of the tools over the plugin that runs on the emulator
# (tests/kernels). That plugin stands in a folder of its own, which MINT_BACKEND_DIR names. MINT_TEST_GPU=1: over the real
# one (tests/kernels/gpu.sh).
load helpers

PLUGIN=$MINT_BUILD/tests/kernels
[ -z "${MINT_TEST_GPU:-}" ] || PLUGIN=$MINT_BUILD/lib/mint

setup_file() {
    export FILE_DIR=$BATS_FILE_TMPDIR
    [ -e "$PLUGIN/mint-cuda.so" ] && [ -x "$MINT_BIN/mint-train" ] || return 0
    cd "$FILE_DIR" || return 1
    PATH=$MINT_BIN:$PATH
    export MINT_BACKEND_DIR=$PLUGIN MINT_DEVICE=cuda
    mint-init -q --to model --layers 2 --hidden 64 --ffn 96 --heads 2 --kv-heads 1 --head-dim 64 --vocab 320
    # p3's prompt is longer than a page of keys, so its datums share rows.
    for i in 1 2 3; do
        printf '{"id":"p%d","prompt":"%s%d + 5 ="}\n' "$i" "$(printf 'Sum: %.0s' $(seq $((i > 2 ? 13 : 1))))" "$i"
    done >prompts.jsonl
    # An adapter that changes the policy (B is not zero), and datums drawn from it.
    mint-sample --model model -n 2 --max-tokens 4 --temperature 1 --plain prompts.jsonl | reward | mint-advantage -q |
        mint-train --model model --to adapter --rank 8 --lr 2e-2
    sample prompts.jsonl >rollouts.jsonl
    mint-advantage -q --keep-flat --plain rollouts.jsonl >datums.jsonl
    train want --metrics metrics.jsonl
}

reward() {
    jq -c '.sequences |= [.[] | .reward = (.tokens[0] % 5)]'
}

emulated() {
    [ -z "${MINT_TEST_GPU:-}" ] || skip "only the emulator plays that"
}

setup() {
    enter_scratch
    need mint-init mint-sample mint-score mint-advantage mint-train
    [ -e "$PLUGIN/mint-cuda.so" ] || skip "no emulated plugin in this flavour"
    export MINT_BACKEND_DIR=$PLUGIN MINT_DEVICE=cuda
    for f in model adapter want metrics.jsonl prompts.jsonl rollouts.jsonl datums.jsonl; do
        ln -s "$FILE_DIR/$f" .
    done
}

sample() {
    mint-sample --model model --adapter adapter -n 2 --max-tokens 8 --temperature 1 --seed 1 --plain "$@" | reward
}

train() { # TO OPTIONS...
    local to=$1
    shift
    mint-train --model model --from adapter --to "$to" --lr 1e-2 "$@" datums.jsonl
}

same_checkpoint() {
    for f in adapter_config.json adapter_model.safetensors optimizer.safetensors trainer_state.json; do
        same "$1/$f" "$2/$f"
    done
}

@test "what a machine may lack is said in one line, and auto goes on with the CPU" {
    emulated
    EMU_DRIVER=0 run_tool mint-sample --model model --plain prompts.jsonl
    expect_error 1 "there is no NVIDIA driver on this machine"
    EMU_DRIVER=12040 run_tool mint-sample --model model --plain prompts.jsonl
    expect_error 1 "the NVIDIA driver is too old: it knows CUDA up to 12.4"
    EMU_DEVICES=0 run_tool mint-sample --model model --plain prompts.jsonl
    expect_error 1 "the NVIDIA driver shows no GPU"
    run_tool mint-sample --model model --device cuda:1 --plain prompts.jsonl
    expect_error 1 "there is no GPU 1: the last one is cuda:0"
    EMU_CAPABILITY=75 run_tool mint-sample --model model --plain prompts.jsonl
    expect_error 1 "compute capability 7.5; 8.0 is the least"
    EMU_CUBLASLT=missing run_tool mint-sample --model model --plain prompts.jsonl
    expect_error 1 "cuBLASLt is missing: libcublasLt"
    has "$stderr" "package libcublas of the CUDA toolkit"
    EMU_CUBLASLT=missing MINT_CUBLAS=0 run_tool mint-sample --model model -n 1 --max-tokens 2 --plain prompts.jsonl
    expect 0
    EMU_CUBLASLT=old run_tool mint-sample --model model --plain prompts.jsonl
    expect_error 1 "libcublasLt.so.13 has no cublasLtMatmul: it is too old"
    mkdir empty other
    MINT_BACKEND_DIR=$PWD/empty run_tool mint-sample --model model --plain prompts.jsonl
    expect_error 1 "no CUDA backend is installed"
    MINT_BACKEND_DIR=$PWD/empty run_tool mint-sample --device auto --model model -n 1 --max-tokens 2 --plain prompts.jsonl
    jq -e '.sampling.device == "cpu"' <<<"$output"
    [ -z "$stderr" ]
    EMU_DEVICES=0 run_tool mint-sample --device auto --model model -n 1 --max-tokens 2 --plain prompts.jsonl
    jq -e '.sampling.device == "cpu"' <<<"$output"
    has "$stderr" "the CPU computes: the NVIDIA driver shows no GPU"
    echo 'this is no library' >other/mint-cuda.so
    MINT_BACKEND_DIR=$PWD/other run_tool mint-sample --model model --plain prompts.jsonl
    expect_error 1 "the CUDA backend does not load"
    echo 'const void *mint_backend_entry(void) { static const struct { int abi; void *open; } p = {1, 0}; return &p; }' |
        gcc -shared -fPIC -x c - -o other/mint-cuda.so
    MINT_BACKEND_DIR=$PWD/other run_tool mint-sample --model model --plain prompts.jsonl
    expect_error 1 "is of another version (interface 1, wanted"
}

@test "a device with too little memory: an error with advice, and nothing is written" {
    emulated
    EMU_MEMORY=100000 run_tool mint-sample --model model prompts.jsonl -o out.jsonl
    expect_error 1 "out of GPU memory"
    has "$stderr" "lower --micro-tokens, --batch"
    [ ! -e out.jsonl ]
    EMU_MEMORY=2000000 run_tool mint-train --model model --to c datums.jsonl
    expect_error 1 "out of GPU memory"
    [ ! -e c ]
}

@test "a tied embedding is on the device once" {
    emulated
    mint-init -q --to tied --tied --layers 1 --hidden 64 --ffn 96 --heads 2 --kv-heads 1 --head-dim 64 --vocab 20000
    # 2.6 MB of embedding
    EMU_MEMORY=4500000 run_tool mint-sample --model tied --batch 1 --micro-tokens 8 -n 1 --max-tokens 2 --plain prompts.jsonl
    expect 0
}

@test "D1: records do not depend on slots, neighbours, order or the order of the GPU's threads" {
    jq -e '.sampling.device | startswith("cuda-")' rollouts.jsonl
    for o in "--batch 1 --micro-tokens 7" "--batch 5"; do
        # shellcheck disable=SC2086
        EMU_SCHED=rev sample $o prompts.jsonl >got
        same rollouts.jsonl got
    done
    tac prompts.jsonl | sample | tac >got
    same rollouts.jsonl got
}

@test "D2: the trainer computes the sampler's logprobs bit for bit: every ratio is exactly 1" {
    jq -e '."optim/kl_sample_train_v1" == 0 and ."optim/kl_sample_train_v2" == 0 and ."optim/ratio_max" == 1 and
        ."optim/ratio_min" == 1 and .tokens > 40' metrics.jsonl
    mint-sample --model model --adapter adapter --replay --as again_logprobs --plain rollouts.jsonl >again
    jq -e '.sequences | all(.[]; .logprobs == .again_logprobs)' again
}

@test "D3: a checkpoint does not depend on how datums are packed, on the order of threads, nor on cuBLASLt" {
    export MINT_CUBLAS=0 EMU_SCHED=rev
    train got --micro-tokens 20
    same_checkpoint want got
    rm -rf got
    unset MINT_CUBLAS
    export EMU_CUBLASLT=wrong
    train got
    same_checkpoint want got
}

# Launches of a step, as the emulator counts them.
launches() {
    rm -rf counted
    EMU_PROFILE=1 MINT_CUBLAS=0 mint-train -q --model model --from adapter --to counted --lr 1e-2 "$@" 2>&1 |
        awk '/ launches / { n += $3 } END { print n }'
}

@test "launches of a step do not grow with the datums: a sum a matrix more, not a gradient and a sum a datum" {
    emulated
    head -n 2 datums.jsonl >two
    few=$(launches two) all=$(launches datums.jsonl)
    [ "$few" -gt 100 ]
    [ $((all - few)) -le 40 ]
}

@test "stopped and resumed is the same as straight" {
    head -n 2 datums.jsonl >a
    sed -n 3,4p datums.jsonl >b
    mint-train --model model --from adapter --to c1 --lr 1e-2 a
    mint-train --model model --from c1 --to c2 --lr 1e-2 b
    cat a b | mint-train --model model --from adapter --to both --lr 1e-2 --batch-size 2
    same c2/adapter_model.safetensors both/adapter_model.safetensors
    same c2/optimizer.safetensors both/optimizer.safetensors
}

# The values behind the header of a safetensors file of float32.
floats() {
    od -An -v -w4 -tf4 -j $((8 + $(od -An -N4 -tu4 "$1"))) "$1"
}

@test "losses and gradients are those of the CPU within the precision of bf16" {
    jq -es 'all(.[]; (.meta.device | startswith("cuda-")) and .meta.precision == "bf16")' datums.jsonl
    run_tool mint-train --device cpu --model model --from adapter --to cpu --lr 1e-2 --metrics cpu.jsonl datums.jsonl
    expect 0
    has "$stderr" "6 of 6 datums have logprobs computed by cuda-"
    has "$stderr" "this run computes by cpu (bf16)"
    jq -es 'def near($k; $e): (.[0][$k] - .[1][$k] | fabs) <= $e * (.[0][$k] | fabs);
        near("train_mean_nll"; 1e-3) and near("optim/entropy"; 1e-3) and near("optim/grad_norm"; 5e-3)' \
        cpu.jsonl metrics.jsonl
    # Adam's first moment is the gradient, but for what was there before.
    paste <(floats cpu/optimizer.safetensors) <(floats want/optimizer.safetensors) |
        awk '{ d += ($1 - $2) ^ 2; n += $1 ^ 2 } END { e = sqrt(d / n); print e; exit !(NR > 1000 && e > 0 && e < 0.02) }'
}

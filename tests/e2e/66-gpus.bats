#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# Several GPUs: mint-train --device cuda under mpirun, on the emulator and its stand-in for NCCL (tests/kernels).
# MINT_TEST_GPU=1: on real ones (tests/kernels/gpu.sh).
load helpers

setup_file() {
    export FILE_DIR=$BATS_FILE_TMPDIR
    [ -x "$MINT_BIN/mint-train" ] || return 0
    cd "$FILE_DIR" || return 1
    PATH=$MINT_BIN:$PATH
    # the plugins of both kinds have to stand in one folder
    mkdir plugins
    ln -s "$MINT_BUILD/$([ -n "${MINT_TEST_GPU:-}" ] && echo lib/mint || echo tests/kernels)/mint-cuda.so" "$MINT_BUILD/lib/mint/mint-mpi.so" plugins
    [ -e plugins/mint-cuda.so ] || return 0
    export MINT_BACKEND_DIR=$PWD/plugins MINT_DEVICE=cuda
    mint-init -q --to model --layers 2 --hidden 64 --ffn 96 --heads 2 --kv-heads 1 --head-dim 64 --vocab 320
    for i in 1 2 3 4 5; do
        printf '{"id":"p%d","prompt":"%d + 5 ="}\n' "$i" "$i"
    done >prompts.jsonl
    mint-sample --model model -n 2 --max-tokens 2 --temperature 1 --plain prompts.jsonl |
        jq -c '.sequences |= [to_entries[] | .value + {reward: .key}]' | mint-advantage -q --plain >datums.jsonl
    alone want
}

setup() {
    enter_scratch
    need mint-init mint-sample mint-advantage mint-train
    export MINT_BACKEND_DIR=$FILE_DIR/plugins MINT_DEVICE=cuda
    [ -e "$MINT_BACKEND_DIR/mint-cuda.so" ] || skip "no emulated plugin in this flavour"
    [ -e "$MINT_BACKEND_DIR/mint-mpi.so" ] || skip "built without MPI"
    command -v mpirun >/dev/null || skip "no mpirun"
    export OMPI_MCA_mpi_yield_when_idle=1 EMU_DEVICES=4 LD_LIBRARY_PATH=$MINT_BUILD/tests/kernels${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
    for f in model datums.jsonl want; do ln -s "$FILE_DIR/$f" .; done
}

emulated() {
    [ -z "${MINT_TEST_GPU:-}" ] || skip "only the emulator plays that"
}

alone() { # TO OPTIONS...
    mint-train -q --model model --rank 8 --lr 1e-2 --substeps 2 --to "$@" datums.jsonl
}

job() { # PROCESSES COMMAND...
    local n=$1
    shift
    timeout 60 mpirun --allow-run-as-root --oversubscribe --bind-to none -n "$n" "$@"
}

# together PROCESSES TO OPTIONS...: as alone
together() {
    local n=$1
    shift
    job "$n" mint-train --model model --rank 8 --lr 1e-2 --substeps 2 --to "$@" datums.jsonl
}

@test "by NCCL or through host memory, the checkpoint of several processes is that of one" {
    local n most=4
    [ -z "${MINT_TEST_GPU:-}" ] || most=$(nvidia-smi -L | wc -l)
    for ((n = 2; n <= most && n <= 4; n++)); do
        run_tool together $n got$n -v --metrics m.jsonl
        expect 0
        has "$stderr" "gradients of $n processes go from GPU to GPU, by NCCL"
        diff -r want got$n || fail "$n processes: other bytes"
        jq -se --argjson n "$n" '.[-1] | .processes == $n and (.exchange | startswith("NCCL "))' m.jsonl
    done
    MINT_NCCL=0 run_tool together 2 host -v --metrics m.jsonl
    expect 0
    has "$stderr" "gradients of 2 processes go through host memory: MINT_NCCL is 0"
    [ "$(grep -c 'host memory' <<<"$stderr")" -eq 1 ]
    diff -r want host
    jq -se '.[-1].exchange == "host memory"' m.jsonl
}

@test "NCCL that is missing or does not start: through host memory" {
    emulated
    EMU_NCCL=init:1 run_tool together 3 a -v
    expect 0
    has "$stderr" "through host memory: NCCL failed at finding the others: unhandled cuda error"
    LD_LIBRARY_PATH='' run_tool together 2 b -v
    expect 0
    has "$stderr" "through host memory: NCCL is missing:"
    diff -r want a && diff -r want b
}

@test "NCCL that fails midway, or a process that is killed: an error, no checkpoint" {
    emulated
    local f
    for f in 1:2 lost:1:70; do
        EMU_NCCL=$f run_tool together 2 got
        [ "$status" -ne 0 ] && [ "$status" -ne 124 ]
        [ "$(grep -c '^mint-train: NCCL failed at ' <<<"$stderr")" -eq 1 ] || fail "$f: $stderr"
        no_leftovers got
    done
    cat >dies.sh <<'END'
#!/bin/sh
[ "$OMPI_COMM_WORLD_RANK" = 1 ] || exec mint-train "$@"
mint-train "$@" &
sleep 0.5
kill -9 $!
wait $!
END
    chmod +x dies.sh
    run_tool job 2 ./dies.sh --model model --rank 8 --epochs 2000 --to got datums.jsonl
    [ "$status" -ne 0 ] && [ "$status" -ne 124 ]
    no_leftovers got
}

@test "each process takes a GPU of its own; one is shared only where it is named" {
    emulated
    EMU_DEVICES=2 run_tool together 3 got
    expect 1
    has "$stderr" "more processes than GPUs: this is number 2, from 0, on a machine that has 2; start at most one a GPU"
    [ "$(grep -c '^mint-train:' <<<"$stderr")" -eq 1 ]
    no_leftovers got
    EMU_DEVICES=1 run_tool together 2 got --device cuda:0
    expect 0
    diff -r want got
    # a launcher that shows each process its own
    EMU_DEVICES=1 CUDA_VISIBLE_DEVICES=3 run_tool together 2 shown
    expect 0
    # the other tools, and Slurm
    echo '{"id":1,"prompt":"a"}' >p.jsonl
    SLURM_LOCALID=4 run_tool mint-sample --model model --max-tokens 1 --plain p.jsonl
    expect_error 1 "more processes than GPUs: this is number 4"
    SLURM_LOCALID=3 run_tool mint-sample --model model --max-tokens 1 --plain p.jsonl
    expect 0
}

@test "devices of different kinds do not share a job" {
    emulated
    # shellcheck disable=SC2016
    run_tool job 2 sh -c 'MINT_DEVICE=$([ $OMPI_COMM_WORLD_RANK = 1 ] && echo cpu || echo cuda) exec mint-train "$@"' - \
        --model model --to got datums.jsonl
    expect 1
    has "$stderr" "process 1 computes by cpu, the first one by cuda-emulated-1"
    [ "$(grep -c '^mint-train:' <<<"$stderr")" -eq 1 ]
    no_leftovers got
}

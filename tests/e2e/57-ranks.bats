#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# Data parallel: mint-train under mpirun makes the checkpoint that one process makes.
load helpers

setup_file() {
    export FILE_DIR=$BATS_FILE_TMPDIR
    [ -x "$MINT_BIN/mint-sample" ] || return 0
    cd "$FILE_DIR" || return 1
    PATH=$MINT_BIN:$PATH
    mint-init --to model --preset tiny
    for i in 1 2 3 4 5 6 7; do
        printf '{"id":"p%d","prompt":"Q: %d + 5?\\nA:"}\n' "$i" "$i"
    done >prompts.jsonl
    mint-sample --model model -n 3 --max-tokens 20 prompts.jsonl --plain |
        jq -c '.sequences |= [.[] | .reward = (.tokens[0] % 5)]' >rewarded.jsonl
    mint-advantage -q --keep-flat rewarded.jsonl -o datums.jsonl.zst
    mint-train -q --model model --to parent --rank 4 --lr 1e-3 datums.jsonl.zst
}

setup() {
    enter_scratch
    need mint-train mint-sample mint-advantage mint-init
    [ -e "$MINT_BUILD/lib/mint/mint-mpi.so" ] || skip "built without MPI"
    command -v mpirun >/dev/null || skip "no mpirun"
    # AddressSanitizer's leak check finds what MPI keeps
    export ASAN_OPTIONS=${ASAN_OPTIONS:+$ASAN_OPTIONS:}detect_leaks=0
    for f in model datums.jsonl.zst parent; do ln -s "$FILE_DIR/$f" $f; done
}

# ranks N ARGS...: mint-train in N processes
ranks() {
    local n=$1
    shift
    mpirun --allow-run-as-root --oversubscribe --bind-to none -n "$n" mint-train --model model --threads 1 --lr 1e-3 "$@"
}

bytes() {
    (cd "$1" && sha256sum -- *)
}

@test "the checkpoint's bytes do not depend on the number of processes" {
    local o n
    for o in '--rank 4' '--from parent --batch-size 8 --epochs 2' '--rank 4 --loss ppo --kl-penalty-coef 0.1 --substeps 3 --grad-clip-norm 0.1'; do
        # shellcheck disable=SC2086
        mint-train -q --model model --lr 1e-3 $o --to want datums.jsonl.zst
        for n in 1 2 3 4; do
            # shellcheck disable=SC2086
            run_tool ranks $n -q $o --to got$n datums.jsonl.zst
            expect 0
            diff <(bytes want) <(bytes got$n) || fail "$n processes, $o: other bytes"
        done
        rm -rf want got?
    done
}

@test "pairs are not parted, and old logprobs are computed in parts: the same bytes" {
    local o n
    # 5 pairs, two of which have a beginning in common
    zstd -dcq <datums.jsonl.zst | jq -c '.meta = null' | head -n 10 >pairs.jsonl
    for o in '--from parent --loss dpo --ref-adapter parent --substeps 2' '--from parent --loss ppo --proximal parent --correction seq-mis --batch-size 6'; do
        # shellcheck disable=SC2086
        mint-train -q --model model --lr 1e-3 $o --to want pairs.jsonl
        for n in 2 3; do
            # shellcheck disable=SC2086
            run_tool ranks $n -q $o --to got$n pairs.jsonl
            expect 0
            diff <(bytes want) <(bytes got$n) || fail "$n processes, $o: other bytes"
        done
        rm -rf want got?
    done
}

@test "datums from a pipe go to all processes; one of them speaks" {
    mint-train -q --model model --lr 1e-3 --rank 4 --to want datums.jsonl.zst
    run_tool ranks 3 --rank 4 --to got --metrics m.jsonl <datums.jsonl.zst
    expect 0
    diff <(bytes want) <(bytes got)
    [ "$(wc -l <m.jsonl)" -eq 1 ]
    # the same run again has nothing to do
    run_tool ranks 3 --rank 4 --to got <datums.jsonl.zst
    expect 0
    no_leftovers nothing
}

@test "more processes than groups of datums: some have nothing to do" {
    zstd -dcq <datums.jsonl.zst | head -n 2 >two.jsonl
    mint-train -q --model model --lr 1e-3 --rank 4 --to want two.jsonl
    ranks 4 -q --rank 4 --to got two.jsonl
    diff <(bytes want) <(bytes got)
}

@test "a process that dies or fails ends all, without a checkpoint" {
    # one that the kernel kills
    cat >dies.sh <<'END'
#!/bin/sh
[ "$OMPI_COMM_WORLD_RANK" = 1 ] || exec mint-train "$@"
mint-train "$@" &
sleep 0.3
kill -9 $!
wait $!
END
    chmod +x dies.sh
    mkdir -p inject
    run_tool timeout 60 mpirun --allow-run-as-root --oversubscribe --bind-to none -n 2 ./dies.sh --model model --threads 1 --rank 4 \
        --lr 1e-3 --epochs 2000 --to got datums.jsonl.zst
    [ "$status" -ne 0 ] && [ "$status" -ne 124 ]
    no_leftovers got
    # one that fails
    echo '{"nonsense":1}' >bad.jsonl
    run_tool timeout 60 mpirun --allow-run-as-root --oversubscribe --bind-to none -n 2 mint-train --model model --rank 4 \
        --to got bad.jsonl
    [ "$status" -ne 0 ] && [ "$status" -ne 124 ]
    has "$stderr" 'bad.jsonl:1'
    no_leftovers got
}

@test "what makes no sense with several processes is refused" {
    run_tool mpirun --allow-run-as-root --oversubscribe -n 2 mint-train --model model --forward-only datums.jsonl.zst
    [ "$status" -ne 0 ]
    has "$stderr" '--forward-only takes one process'
    OMPI_COMM_WORLD_SIZE=2 MINT_BACKEND_DIR=/nowhere run_tool mint-train --model model --rank 4 --to got datums.jsonl.zst
    expect_error 1 'this is one of several processes, but MPI is not built in (there is no /nowhere/mint-mpi.so)'
    PMIX_RANK=1 SLURM_STEP_NUM_TASKS=2 MINT_BACKEND_DIR=/nowhere run_tool mint-train --model model --rank 4 --to got datums.jsonl.zst
    expect_error 1 'this is one of several processes'
}

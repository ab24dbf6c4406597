# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# For the end-to-end tests. A test starts in an empty folder of its own, with the tools that MINT_BIN names first in
# PATH. `load helpers` in each file; see `run` of bats for status, output, stderr.

bats_require_minimum_version 1.5.0

MINT_ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
: "${MINT_BUILD:=$MINT_ROOT/build/release}"
: "${MINT_BIN:=$MINT_BUILD/bin}"
PATH=$MINT_BIN:$PATH
export MINT_ROOT MINT_BUILD MINT_BIN PATH LC_ALL=C
unset MINT_THREADS MINT_DEVICE MINT_CPU_ISA MINT_BACKEND_DIR MINT_TEST_TTY NO_COLOR
[ -z "${TEST_ISA:-}" ] || export MINT_CPU_ISA=$TEST_ISA

# A file that wants more overrides setup and calls this first.
setup() {
    enter_scratch
}
enter_scratch() {
    # not the folder of bats itself, which keeps things there
    mkdir -p "$BATS_TEST_TMPDIR/scratch" && cd "$BATS_TEST_TMPDIR/scratch" || return 1
}

# need TOOL...: skips the test where a tool is not built.
need() {
    local t
    for t in "$@"; do
        [ -x "$MINT_BIN/$t" ] || skip "no $t"
    done
}

# The tools that this tree has, one a line.
tools() {
    local f
    for f in "$MINT_ROOT"/tools/mint-*.c; do
        f=${f##*/}
        [ ! -x "$MINT_BIN/${f%.c}" ] || echo "${f%.c}"
    done
}

fail() {
    printf '%s\n' "$@" >&2
    return 1
}

# run_tool CMD...: as `run`, with stdout in $output and stderr in $stderr, never both; a failing test shows all three.
run_tool() {
    run --separate-stderr "$@"
    printf '$ %s\nstatus %s\n' "$*" "$status" >&2
    printf 'stdout: %s\n' "${output:0:2000}" >&2
    # shellcheck disable=SC2154
    printf 'stderr: %s\n' "${stderr:0:2000}" >&2
}

# expect STATUS: of the last run_tool.
expect() {
    [ "$status" -eq "$1" ] || fail "status $status, expected $1"
}

# has TEXT PART: PART, literally, is in TEXT.
has() {
    [[ $1 == *"$2"* ]] || fail "no '$2' in: $1"
}
lacks() {
    [[ $1 != *"$2"* ]] || fail "'$2' is in: $1"
}

# expect_error STATUS TEXT: failed with that status, said one line with TEXT on stderr, nothing on stdout.
expect_error() {
    expect "$1"
    has "$stderr" "$2"
    [ "$(wc -l <<<"$stderr")" -eq 1 ] || fail "more than one line on stderr: $stderr"
    [ -z "$output" ] || fail "data on stdout in spite of the error: $output"
}

# same FILE FILE: equal bytes.
same() {
    cmp "$1" "$2" || fail "$1 and $2 differ"
}

# no_leftovers NAME...: neither NAME nor a temporary of it is in the folder.
no_leftovers() {
    local n
    for n in "$@"; do
        [ ! -e "$n" ] || fail "$n is there"
        ! compgen -G "$n.tmp-*" >/dev/null || fail "left over: $(compgen -G "$n.tmp-*")"
    done
}

# tiny_world DIR: a model, prompts and what each stage made of them, as the examples of the pages expect them:
# model/ prompts.jsonl rollouts.jsonl.zst scored.jsonl.zst datums.jsonl.zst ckpt/1
tiny_world() {
    mkdir -p "$1/ckpt"
    (
        set -eu
        cd "$1"
        mint-init --to model
        for a in 1 2 3; do
            for b in 4 5; do
                printf '{"id":"add-%d-%d","prompt":"Q: What is %d + %d?\\nA:","question":"What is %d + %d?","answer":"%d"}\n' \
                    $a $b $a $b $a $b $((a + b))
            done
        done >prompts.jsonl
        mint-sample --model model -o rollouts.jsonl.zst prompts.jsonl
        # a random model is never right; lengths differ, so that groups are not flat
        mint-score length -o scored.jsonl.zst rollouts.jsonl.zst
        mint-advantage --keep-flat -o datums.jsonl.zst scored.jsonl.zst
        mint-train --model model --rank 4 --to ckpt/1 datums.jsonl.zst
    ) >&2
}

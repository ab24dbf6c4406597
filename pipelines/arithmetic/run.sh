#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# arithmetic/run.sh: the quickstart of MinT with files: a supervised warm start on products, then GRPO.
set -eu

program=arithmetic
here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=pipelines/lib.sh
. "$here/../lib.sh"

usage() {
    cat <<'END'
usage: arithmetic/run.sh MODEL FOLDER [TRAIN-OPTIONS...]

100 products of two-digit numbers as demonstrations (10 steps on all of them, learning rate 5e-5, rank 16), then 10
steps of GRPO on numbers from 10 to 199, as FOLDER/grpo.conf says. Run it again to go on where it stopped. MODEL is a
model folder of some knowledge (Qwen3-0.6B, say); options are for the supervised mint-train (--threads, --device, --lr).
END
}

# The same problems with any awk: a generator of its own. The seed is 42.
problems() {
    [ ! -e heldout.jsonl ] || return 0
    awk '
        function draw(low, high) { x = (x * 16807) % 2147483647; return low + int(x / 2147483647 * (high - low + 1)) }
        function put(file, id, low, high, a, b) {
            do { a = draw(low, high); b = draw(low, high) } while ((a, b) in seen)
            seen[a, b] = 1
            printf "{\"id\":\"%s\",\"prompt\":\"Question: What is %d * %d?\\nAnswer:\",", id, a, b > file
            printf "\"answer\":\"%d\",\"completion\":\" %d\"}\n", a * b, a * b > file
        }
        BEGIN {
            x = 42
            for (i = 0; i < 20; i++) draw(0, 1)
            for (i = 0; i < 100; i++) put("demonstrations.jsonl", "sft-" i, 10, 99)
            for (i = 0; i < 80; i++) put("problems.jsonl", "rl-" i, 10, 199)
            for (i = 0; i < 100; i++) put("heldout.tmp", "eval-" i, 10, 199)
        }'
    mv heldout.tmp heldout.jsonl
}

supervised() {
    stage rollouts.jsonl.zst mint-sample --model "$model" --given completion --append-eos --no-logprobs \
        demonstrations.jsonl
    stage sft.jsonl.zst mint-advantage -q --sft rollouts.jsonl.zst
    run sft mint-train --model "$model" --to sft --loss cross_entropy --rank 16 --lr 5e-5 --epochs 10 "$@" \
        --metrics sft.metrics sft.jsonl.zst
}

main() {
    case ${1:-} in
    -h | --help) usage && exit 0 ;;
    -*) usage_error "unknown option $1" ;;
    esac
    [ $# -ge 2 ] || usage_error "a model folder and a folder to work in are needed"
    model=$1 folder=$2
    shift 2
    [ -e "$model/config.json" ] || die "$model is no model folder"
    model=$(cd "$model" && pwd)
    find_tools "$here/.."
    mkdir -p "$folder"
    cd "$folder"
    problems
    supervised "$@"
    { cat "$here/arithmetic.conf" && echo "model = $model"; } >grpo.conf
    "$here/../grpo.sh" grpo.conf
    for point in run/eval/*.txt; do
        printf '%s: ' "$point"
        sed -n 's/^accuracy/accuracy/p' "$point"
    done
}

main "$@"

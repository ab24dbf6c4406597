#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# calculator/run.sh: a tiny model learns to call a tool.
#
# It cannot multiply. Its demonstrations mostly guess, and now and then call the calculator, <27*14>, and say what it
# answered. GRPO pays for right products alone, and the calls prevail.
set -eu

program=calculator
here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=pipelines/lib.sh
. "$here/../lib.sh"

usage() {
    cat <<'END'
usage: calculator/run.sh FOLDER [DEMONSTRATIONS [STEPS]]

Makes a tiny model, shows it products of which one in five is worked out by the calculator and four are guessed, then
lets GRPO run with the calculator as the environment, as FOLDER/grpo.conf says. Run it again to go on where it
stopped. Needs jq. 16000 demonstrations and 12 steps take a minute or two on two cores.
END
}

# The same problems with any awk: a generator of its own. Of a demonstration with a call the calculator's answer is no
# target: what comes before it and what comes behind are two records, prompts and what is said to them.
problems() {
    [ ! -e heldout.jsonl ] || return 0
    awk -v demonstrations="$demonstrations" '
        function draw(low, high) { x = (x * 16807) % 2147483647; return low + int(x / 2147483647 * (high - low + 1)) }
        function put(file, prompt, said) {
            printf "{\"id\":\"%d\",\"prompt\":\"%s\",\"answer\":\"%d\",\"said\":\"%s\"}\n", n++, prompt, a * b, said > file
        }
        BEGIN {
            x = 20240607
            while (i < demonstrations) {
                a = draw(10, 99); b = draw(10, 99)
                problem = a "*" b "="; call = a "*" b ">"
                if ((a * 31 + b) % 10 == 0) {
                    if (tests++ < 100) put("heldout.tmp", problem, "")
                    continue
                }
                if (i++ < demonstrations / 16) put("problems.jsonl", problem, "")
                put("ends.jsonl", problem "<" call a * b ";", a * b)
                put("calls.jsonl", problem "<", call)
                if (draw(1, 5) > 1) put("ends.jsonl", problem, draw(100, 9999))
                else put("calls.jsonl", problem, "<" call)
            }
        }'
    mv heldout.tmp heldout.jsonl
}

supervised() {
    run random mint-init --to random --arch qwen3 --layers 2 --hidden 64 --ffn 192 --heads 4 --kv-heads 4 --head-dim 16 \
        --init-std 0.07 --dtype f32
    stage calls.jsonl.zst mint-sample --model random --given said --no-append-eos --no-logprobs calls.jsonl
    stage ends.jsonl.zst mint-sample --model random --given said --append-eos --no-logprobs ends.jsonl
    stage sft.jsonl mint-advantage -q --sft --plain calls.jsonl.zst ends.jsonl.zst
    # shellcheck disable=SC2016
    run mixed.jsonl sh -c 'shuf --random-source=ends.jsonl sft.jsonl >"$0.tmp-shuf" && mv "$0.tmp-shuf" "$0"' mixed.jsonl
    run sft mint-train --model random --to sft --loss cross_entropy --rank 64 --alpha 64 --lr 1.5e-3 --schedule linear \
        --batch-size 64 --metrics sft.metrics mixed.jsonl
    run model mint-export -q --model random --adapter sft --to model --format hf
}

main() {
    case ${1:-} in
    -h | --help) usage && exit 0 ;;
    -*) usage_error "unknown option $1" ;;
    esac
    { [ $# -ge 1 ] && [ $# -le 3 ]; } || usage_error "a folder to work in is needed"
    folder=$1 demonstrations=${2:-16000} steps=${3:-12}
    command -v jq >/dev/null || die "the calculator needs jq"
    find_tools "$here/.."
    mkdir -p "$folder"
    cd "$folder"
    problems
    supervised
    { cat "$here/calculator.conf" && printf '%s\n' "environment = $here/calculator.jq" "steps = $steps"; } >grpo.conf
    "$here/../grpo.sh" grpo.conf
    for point in run/eval/*.txt; do
        printf '%s: ' "$point"
        sed -n 's/^accuracy/accuracy/p' "$point"
    done
}

main "$@"

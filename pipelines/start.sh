#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# start.sh: begins one of the shipped runs in a folder of one's own; grpo.sh, or dpo.sh, does the rest.
set -eu

program=start.sh
here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=pipelines/lib.sh
. "$here/lib.sh"

kinds='quickstart sft-rl addition math chat code dapo-aime dpo'

usage() {
    cat <<'END'
usage: start.sh KIND MODEL FOLDER [NAME=VALUE...]

Copies the prompts and the conf of that kind into FOLDER, as files to look at and to change, and runs grpo.sh on them.
MODEL is a model folder; NAME=VALUE sets a line of the conf (steps=100 sample.max-tokens=512), NAME= takes it out. Run
grpo.sh on FOLDER/grpo.conf (dpo.sh on FOLDER/dpo.conf) to go on where it stopped.

  quickstart products of two numbers, demonstrations first: MinT's quickstart, with its settings
  sft-rl     products up to 20 x 20: demonstrations, then GRPO, for a small model
  addition   sums up to 20 + 20; mint-score number
  math       word problems; mint-score math, format, overlong
  chat       requests of all kinds; mint-score judge (MODEL itself, or score.judge-url=URL), repetition
  code       programs and their tests; mint-score code, format
  dapo-aime  harder problems, the way of DAPO, with the settings of a real run (needs jq; for a small machine set at
             least sample.max-tokens, score2.buffer, sample.groups-per-batch, sample.group-size and dynamic.groups)
  dpo        preferences, with the settings of MinT's chat-dpo (needs jq)
END
}

has_template() {
    [ -e "$1/chat_template.jinja" ] || grep -qs '"chat_template"' "$1/tokenizer_config.json"
}

# The conf: the files, the shipped lines, and in place of them, or behind them, what the command line sets.
make_conf() {
    echo "# made by: start.sh $kind"
    echo "model = $model"
    echo "run = $folder/run"
    for name in prompts pairs demonstrations; do
        [ ! -e "$folder/$name.jsonl" ] || echo "$name = $folder/$name.jsonl"
    done
    measured=eval.prompts
    [ "$loop" != dpo ] || measured=eval.pairs
    [ ! -e "$folder/eval.jsonl" ] || echo "$measured = $folder/eval.jsonl"
    grep -q '^sample\.chat' "$here/$kind/$kind.conf" || ! has_template "$model" || echo "sample.chat = yes"
    [ "$kind" != chat ] || printf '%s\n' "$@" | grep -q '^score\.judge-' || echo "score.judge-model = $model"
    cat "$here/$kind/$kind.conf"
}

# The rows, as prompts where the kind says how.
copy_rows() {
    [ ! -e "$here/$kind/rows.jq" ] || command -v jq >/dev/null || die "$kind needs jq: install it"
    for rows in "$here/$kind"/*.jsonl; do
        if [ -e "$here/$kind/rows.jq" ]; then
            jq -ncf "$here/$kind/rows.jq" "$rows" >"$folder/${rows##*/}"
        else
            cp "$rows" "$folder/"
        fi
    done
}

set_lines() {
    awk '
        BEGIN {
            for (i = 1; i < ARGC; i++) {
                at = index(ARGV[i], "=")
                name[i] = substr(ARGV[i], 1, at - 1)
                value[name[i]] = substr(ARGV[i], at + 1)
            }
            n = ARGC
            ARGC = 1
        }
        {
            own = $0
            sub(/ *=.*/, "", own)
            if (own in value) { $0 = own " = " value[own]; put[own] = 1 }
            if (!(own in value) || value[own] != "") print
        }
        END {
            for (i = 1; i < n; i++)
                if (!(name[i] in put) && value[name[i]] != "") { print name[i] " = " value[name[i]]; put[name[i]] = 1 }
        }' "$@"
}

main() {
    case ${1:-} in
    -h | --help) usage && exit 0 ;;
    '') usage_error "which kind? $kinds" ;;
    esac
    kind=$1 loop=grpo
    case " $kinds " in *" $1 "*) ;; *) usage_error "there is no $1: one of $kinds" ;; esac
    [ "$kind" != dpo ] || loop=dpo
    [ $# -ge 3 ] || usage_error "a model folder and a folder to work in are needed"
    model=$2 folder=$3
    shift 3
    for arg; do
        case $arg in
        [a-z]*=*) ;;
        *) usage_error "$arg is not NAME=VALUE" ;;
        esac
    done
    [ -e "$model/config.json" ] || die "$model is no model folder"
    model=$(cd "$model" && pwd)
    [ ! -e "$folder/$loop.conf" ] || die "$folder was begun before: go on with $loop.sh $folder/$loop.conf"
    folder "$folder"
    folder=$(cd "$folder" && pwd)
    copy_rows
    make_conf "$@" | set_lines "$@" >"$folder/$loop.conf.tmp"
    mv "$folder/$loop.conf.tmp" "$folder/$loop.conf"
    exec "$here/$loop.sh" "$folder/$loop.conf"
}

main "$@"

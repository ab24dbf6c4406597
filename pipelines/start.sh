#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# start.sh: begins one of the shipped runs (addition, math, chat, code, dapo-aime) in a folder of one's own; grpo.sh does the rest.
set -eu

program=start.sh
here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=pipelines/lib.sh
. "$here/lib.sh"

usage() {
    cat <<'END'
usage: start.sh addition|math|chat|code|dapo-aime MODEL FOLDER [NAME=VALUE...]

Copies the prompts and the conf of that kind into FOLDER, as files to look at and to change, and runs grpo.sh on them.
MODEL is a model folder; NAME=VALUE sets a line of the conf (steps=100 sample.max-tokens=512), NAME= takes it out. Run
grpo.sh on FOLDER/grpo.conf to go on where it stopped.

  addition   sums up to 20 + 20; mint-score number
  math       word problems; mint-score math, format, overlong
  chat       requests of all kinds; mint-score judge (MODEL itself, or score.judge-url=URL), repetition
  code       programs and their tests; mint-score code, format
  dapo-aime  harder problems, the way of DAPO, with the settings of a real run (needs jq; for a small machine set at
             least sample.max-tokens, score2.buffer, sample.groups-per-batch, sample.group-size and dynamic.groups)
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
    echo "prompts = $folder/prompts.jsonl"
    [ ! -e "$folder/eval.jsonl" ] || echo "eval.prompts = $folder/eval.jsonl"
    ! has_template "$model" || echo "sample.chat = yes"
    [ "$kind" != chat ] || printf '%s\n' "$@" | grep -q '^score\.judge-' || echo "score.judge-model = $model"
    cat "$here/$kind/$kind.conf"
}

# The rows, as prompts where the kind says how.
copy_rows() {
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
    addition | math | chat | code | dapo-aime) kind=$1 ;;
    '') usage_error "addition, math, chat, code or dapo-aime?" ;;
    *) usage_error "there is no $1: addition, math, chat, code or dapo-aime" ;;
    esac
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
    [ ! -e "$folder/grpo.conf" ] || die "$folder was begun before: go on with grpo.sh $folder/grpo.conf"
    folder "$folder"
    folder=$(cd "$folder" && pwd)
    copy_rows
    make_conf "$@" | set_lines "$@" >"$folder/grpo.conf.tmp"
    mv "$folder/grpo.conf.tmp" "$folder/grpo.conf"
    exec "$here/grpo.sh" "$folder/grpo.conf"
}

main "$@"

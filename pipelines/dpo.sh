#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# dpo.sh: preferences to an adapter by DPO, in a run folder, stage by stage; the page is mint-pipeline(7).
set -eu

program=dpo.sh
here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=pipelines/lib.sh
. "$here/lib.sh"

usage() {
    cat <<'END'
usage: dpo.sh [--dry-run] [--quiet] CONF [RUN]

Trains on the preferences that CONF names, in the folder RUN (default: the conf's `run`), and measures before and after
how often the chosen answer is the likelier one. Run it again to go on where it stopped. Needs jq for the measurement.

  -n, --dry-run   print the commands that are left, ready to be pasted
  -q, --quiet     say nothing but errors
  -h, --help      this text; man 7 mint-pipeline has the conf's names and the files
END
}

known='run|model|start|seed|device|precision|threads|pairs(\.[a-z0-9-]+)?|eval\.pairs|(sample|train|adapter)\.[a-z0-9-]+'

configure() {
    conf=$(conf_read "$conf_file") || exit 1
    check_names "$known"
    model=$(conf_get model '') pairs=$(conf_get pairs '') start=$(conf_get start '') seed=$(conf_get seed 0)
    eval_pairs=$(conf_get eval.pairs '')
    [ -n "$run_dir" ] || run_dir=$(conf_get run '')
    [ -n "$run_dir" ] || usage_error "name a run folder, or give the conf a line \`run = FOLDER\`"
    count seed "$seed"
    [ -n "$model" ] || die "$conf_file: model is missing"
    [ -e "$model/config.json" ] || die "$conf_file: model = $model is no model folder"
    [ -n "$pairs" ] || die "$conf_file: pairs is missing"
    readable pairs "$pairs"
    [ -z "$start" ] || [ -z "$(conf_options adapter)" ] ||
        die "$conf_file: adapter.* is for a fresh adapter, and start = $start has its own"
    [ -z "$(conf_get train.loss '')$(conf_get train.ref-adapter '')" ] ||
        die "$conf_file: train.loss is dpo, and train.ref-adapter is start: they are set by dpo.sh itself"
    conf="$conf
pairs-sha256 = $(digest "$pairs")"
    common=$(common_options)
    [ -n "$eval_pairs" ] || return 0
    readable eval.pairs "$eval_pairs"
    command -v jq >/dev/null || die "the measurement needs jq: install it, or take eval.pairs out of $conf_file"
    conf="$conf
eval.pairs-sha256 = $(digest "$eval_pairs")"
}

# Names that no output depends on as yet, as an extended regular expression: a mistake there may be corrected.
still_free() {
    printf %s 'run|threads'
    [ -e "$run_dir/ckpt/1" ] || printf %s '|train\..*|adapter\..*'
    [ -e "$run_dir/datums.jsonl.zst" ] || printf %s '|pairs\..*'
}

# Every tool takes its options, before the first of them works for hours; once a conf.
# shellcheck disable=SC2120
check_options() {
    scratch=$(mktemp -d)
    trap 'rm -rf "$scratch"' EXIT
    : >"$scratch/none"
    eval "set -- $(conf_options sample)"
    check mint-sample --model "$model" --given chosen --rejected rejected --no-logprobs "$@" "$scratch/none"
    eval "set -- $(conf_options pairs)"
    check mint-advantage --pairs all "$@" "$scratch/none"
    eval "set -- $(training)"
    check mint-train --model "$model" --to "$scratch/ckpt" "$@" --dry-run "$scratch/none"
    rm -rf "$scratch"
    trap - EXIT
}

# The options of mint-train, quoted for eval. The policy before the training is the reference.
training() {
    if [ -n "$start" ]; then
        printf '%s ' --loss=dpo "$(quoted --from "$start" --ref-adapter "$start")"
    else
        printf '%s ' --loss=dpo "--seed=$seed" "$(conf_options adapter)"
    fi
    printf '%s\n' "$(conf_options train)$common"
}

# The pairs as Datums, and the checkpoint that they make of the policy.
# shellcheck disable=SC2120
train() {
    eval "set -- $(conf_options sample)"
    stage "$run_dir/rollouts.jsonl.zst" mint-sample --model "$model" --given chosen --rejected rejected --no-logprobs "$@" "$pairs"
    eval "set -- $(conf_options pairs)"
    measured "$run_dir/datums.metrics" "$run_dir/datums.jsonl.zst" mint-advantage --pairs all "$@" "$run_dir/rollouts.jsonl.zst"
    eval "set -- $(training)"
    [ -n "$dry_run" ] || [ -e "$run_dir/ckpt/1" ] || rm -f "$run_dir/train.metrics"
    run "$run_dir/ckpt/1" mint-train --model "$model" --to "$run_dir/ckpt/1" "$@" --metrics "$run_dir/train.metrics" \
        "$run_dir/datums.jsonl.zst"
}

# measure NAME CKPT: how likely the answers of eval.pairs are.
measure() {
    [ -n "$eval_pairs" ] || return 0
    place=$run_dir/eval/$1
    eval "set -- ${2:+--adapter=$(quoted "$2")} $(conf_options sample)$common"
    stage "$place.jsonl.zst" mint-sample --model "$model" --given chosen --rejected rejected "$@" "$eval_pairs"
    if [ -z "$dry_run" ] && [ ! -e "$place.txt" ]; then
        compare "$place" "$run_dir/eval/0000" >"$place.txt.tmp"
        mv "$place.txt.tmp" "$place.txt"
    fi
    [ -n "$dry_run" ] || say "$place.txt: $(sed -n 's/^accuracy *//p' "$place.txt") of the chosen answers are the likelier ones"
}

# compare PLACE REFERENCE: the likelihood of the answers in PLACE, by themselves and over those in REFERENCE.
compare() {
    for answers in "$1" "$2"; do
        zstd -dcq "$answers.jsonl.zst" | jq -c '[.sequences[] | [.reward, (.logprobs | add)]]' >"$answers.sums"
    done
    jq -rn --argjson beta "$(conf_get train.beta 0.1)" --slurpfile now "$1.sums" --slurpfile before "$2.sums" \
        -f "$here/dpo/accuracy.jq"
    rm -f "$1.sums" "$2.sums"
}

main() {
    enter_run "$@"
    [ -z "$eval_pairs" ] || folder "$run_dir/eval"
    measure 0000 "$start"
    # shellcheck disable=SC2119
    train
    measure 0001 "$run_dir/ckpt/1"
    gather_metrics
    say "done: $run_dir/ckpt/1"
}

# The shell reads a script as it goes: one that is replaced meanwhile must not go on here.
main "$@"; exit

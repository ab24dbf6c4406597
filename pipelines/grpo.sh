#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# grpo.sh: the GRPO loop in a run folder, stage by stage; the page is mint-pipeline(7).
set -eu

program=grpo.sh
here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=pipelines/lib.sh
. "$here/lib.sh"

usage() {
    cat <<'END'
usage: grpo.sh [--dry-run] [--quiet] CONF [RUN]

Runs the GRPO loop that CONF describes in the folder RUN (default: the conf's `run`). Run it again to go on where
it stopped: from cron, after a crash, after more `steps`.

  -n, --dry-run   print the commands that are left, ready to be pasted
  -q, --quiet     say nothing but errors
  -h, --help      this text; man 7 mint-pipeline has the conf's names and the files
END
}

known='run|model|prompts|steps|start|seed|device|precision|threads|sample\.[a-z-]+|score[0-9]*(\.[a-z-]+)?'
known="$known"'|advantage\.[a-z-]+|train\.[a-z-]+|adapter\.[a-z-]+|eval\.[a-z-]+'
# Names that a run may change: they do not enter any byte of a step that is done.
free='run|steps|threads|eval\.every'

parse() {
    conf_file='' run_dir=''
    while [ $# -gt 0 ]; do
        case $1 in
        -n | --dry-run) dry_run=1 ;;
        -q | --quiet) quiet=1 ;;
        -h | --help) usage && exit 0 ;;
        -*) usage_error "unknown option $1" ;;
        *)
            if [ -z "$conf_file" ]; then
                conf_file=$1
            elif [ -z "$run_dir" ]; then
                run_dir=$1
            else
                usage_error "one conf and one run folder, not $1"
            fi
            ;;
        esac
        shift
    done
    [ -n "$conf_file" ] || usage_error "the conf is missing"
}

count() {
    case $2 in
    '' | *[!0-9]* | ????????????????*) die "$conf_file: $1 = $2 is not a whole number" ;;
    esac
}

configure() {
    conf=$(conf_read "$conf_file") || exit 1
    bad=$(printf '%s\n' "$conf" | grep -Ev "^($known) = " | head -n 1) || :
    [ -z "$bad" ] || die "$conf_file: ${bad%% = *} is no name that grpo.sh knows; see man 7 mint-pipeline"
    bad=$(printf '%s\n' "$conf" | grep -E '^[a-z]+\.(model|adapter|from|to|output|step|seed|metrics) = ' |
        grep -v '^adapter\.seed' | head -n 1) || :
    [ -z "$bad" ] || die "$conf_file: ${bad%% = *} is set by grpo.sh itself"
    model=$(conf_get model '')
    prompts=$(conf_get prompts '')
    steps=$(conf_get steps 10)
    start=$(conf_get start '')
    seed=$(conf_get seed 0)
    every=$(conf_get eval.every 0)
    eval_prompts=$(conf_get eval.prompts '')
    [ -n "$run_dir" ] || run_dir=$(conf_get run '')
    [ -n "$run_dir" ] || usage_error "name a run folder, or give the conf a line \`run = FOLDER\`"
    count steps "$steps" && count seed "$seed" && count eval.every "$every"
    [ -n "$model" ] || die "$conf_file: model is missing"
    [ -r "$prompts" ] || die "$conf_file: prompts = $prompts cannot be read"
    [ -n "$(conf_get score '')" ] || die "$conf_file: score is missing (exact, number, math, ...)"
    [ -z "$start" ] || [ -z "$(conf_options adapter)" ] ||
        die "$conf_file: adapter.* is for a fresh adapter, and start = $start has its own"
    [ "$every" -eq 0 ] || [ -r "$eval_prompts" ] || die "$conf_file: eval.prompts = $eval_prompts cannot be read"
    [ -e "$model/config.json" ] || die "$conf_file: model = $model is no model folder"
    conf="$conf
prompts-sha256 = $(sha256sum <"$prompts" | cut -d' ' -f1)"
    common=$(for name in device precision threads; do
        value=$(conf_get "$name" '')
        [ -z "$value" ] || printf " '--%s=%s'" "$name" "$(printf '%s' "$value" | sed "s/'/'\\\\''/g")"
    done)
}

# score OUT IN: every scorer of the conf in turn; all but the last into files of their own.
score() {
    scored=$1 from=$2
    scorers=$(printf '%s\n' "$conf" | sed -n 's/^\(score[0-9]*\) = .*/\1/p')
    last=$(printf '%s\n' "$scorers" | tail -n 1)
    if [ -z "$dry_run" ] && [ -e "$scored" ]; then
        tidy "$scored"
        return
    fi
    for scorer in $scorers; do
        to=$scored
        [ "$scorer" = "$last" ] || to=${scored%.jsonl.zst}-$scorer.jsonl.zst
        eval "set -- $(conf_options "$scorer")"
        measured "${to%.jsonl.zst}.metrics" "$to" mint-score "$(conf_get "$scorer" '')" "$@" "$from"
        from=$to
    done
}

# sample OUT PROMPTS CKPT OPTIONS...
sample() {
    rollouts=$1 source=$2 policy=$3
    shift 3
    [ -z "$policy" ] || set -- --adapter "$policy" "$@"
    eval "set -- \"\$@\" $common"
    measured "${rollouts%.jsonl.zst}.metrics" "$rollouts" mint-sample --model "$model" "$@" "$source"
}

# The policy after step $1, which is the checkpoint $2, on the conf's eval.prompts.
evaluate() {
    { [ "$every" -gt 0 ] && { [ $(($1 % every)) -eq 0 ] || [ "$1" -eq "$steps" ]; }; } || return 0
    place=$run_dir/eval/$(printf %04d "$1") tested=$2
    folder "$run_dir/eval"
    eval "set -- $(conf_options sample 'groups-per-batch shuffle-seed') --group-size=1 --temperature=0" \
        "$(conf_options eval 'every prompts')"
    sample "$place.jsonl.zst" "$eval_prompts" "$tested" "$@" --seed="$seed"
    score "$place-scored.jsonl.zst" "$place.jsonl.zst"
    stage "$place.txt" mint-score none --summary "$place-scored.jsonl.zst"
}

# train CKPT PARENT DATUMS
train() {
    to=$1 parent=$2 datums=$3
    eval "set -- $(conf_options train)$common"
    if [ -n "$parent" ]; then
        set -- --from "$parent" "$@"
    else
        eval "set -- --seed=$seed $(conf_options adapter) \"\$@\""
    fi
    metrics=$dir/train.metrics
    [ -n "$dry_run" ] || [ -e "$to" ] || rm -f "$metrics"
    run "$to" mint-train --model "$model" --to "$to" "$@" --metrics "$metrics" "$datums"
}

# True if there is nothing to train on: every group of the step was flat.
is_empty() {
    [ -z "$dry_run" ] && [ "$(zstd -dcq <"$1" | head -c 1 | wc -c)" -eq 0 ]
}

# One step; $policy is the checkpoint before it, and becomes the one after it.
step() {
    nth=$1 dir=$run_dir/step-$(printf %04d "$1") ckpt=$run_dir/ckpt/$1
    [ ! -e "$dir/skipped" ] || return 0
    if [ -e "$ckpt" ]; then
        tidy "$ckpt"
        policy=$ckpt
        return 0
    fi
    folder "$dir"
    eval "set -- $(conf_options sample)"
    sample "$dir/rollouts.jsonl.zst" "$prompts" "$policy" "$@" --step=$((nth - 1)) --seed=$((seed + nth))
    score "$dir/scored.jsonl.zst" "$dir/rollouts.jsonl.zst"
    eval "set -- $(conf_options advantage)"
    measured "$dir/datums.metrics" "$dir/datums.jsonl.zst" mint-advantage "$@" "$dir/scored.jsonl.zst"
    if is_empty "$dir/datums.jsonl.zst"; then
        say "step $nth: no datums, every group was flat; the policy stays ${policy:-the base}"
        echo "no datums: every group was flat; the policy stays ${policy:-the base}" >"$dir/skipped.tmp"
        mv "$dir/skipped.tmp" "$dir/skipped"
        return 0
    fi
    train "$ckpt" "$policy" "$dir/datums.jsonl.zst"
    policy=$ckpt
    gather_metrics
}

# metrics.jsonl is a digest of the steps' own files and can be made again at any time.
gather_metrics() {
    [ -z "$dry_run" ] || return 0
    for file in "$run_dir"/step-*/*.metrics "$run_dir"/eval/*.metrics; do
        [ ! -e "$file" ] || awk -v stage="${file#"$run_dir"/}" '
            BEGIN { sub(/\.metrics$/, "", stage) }
            { sub(/^\{/, "{\"stage\":\"" stage "\","); print }' "$file"
    done >"$run_dir/metrics.jsonl.tmp"
    mv "$run_dir/metrics.jsonl.tmp" "$run_dir/metrics.jsonl"
}

main() {
    parse "$@"
    configure
    find_tools "$here"
    if [ -n "$dry_run" ]; then
        printf 'export OMP_WAIT_POLICY=%s "PATH=%s:$PATH"\n' "$OMP_WAIT_POLICY" "$tools"
    else
        folder "$run_dir"
        lock_run "$run_dir"
        keep_conf "$run_dir" "$free"
    fi
    folder "$run_dir/ckpt"
    policy=$start
    evaluate 0 "$policy"
    n=1
    while [ "$n" -le "$steps" ]; do
        step "$n"
        evaluate "$n" "$policy"
        n=$((n + 1))
    done
    gather_metrics
    say "$steps steps are done: ${policy:-no checkpoint was made}"
}

main "$@"

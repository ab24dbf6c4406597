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

known='run|model|prompts|steps|start|seed|device|precision|threads|sample\.[a-z0-9-]+|score[0-9]*(\.[a-z0-9-]+)?'
known="$known"'|demonstrations(\.[a-z0-9-]+)?|sft\.[a-z0-9-]+'
known="$known"'|dynamic\.(groups|max-waves)|environment(\.[a-z0-9-]+)?|(advantage|train|adapter|eval)\.[a-z0-9-]+'
# Names that a run may change: they do not enter any byte of a step that is done.
free='run|steps|threads|eval\.every'

configure() {
    conf=$(conf_read "$conf_file") || exit 1
    check_names "$known"
    model=$(conf_get model '')
    prompts=$(conf_get prompts '')
    steps=$(conf_get steps 10)
    start=$(conf_get start '')
    seed=$(conf_get seed 0)
    every=$(conf_get eval.every 0)
    eval_prompts=$(conf_get eval.prompts '')
    wanted=$(conf_get dynamic.groups 0)
    max_waves=$(conf_get dynamic.max-waves 8)
    environment=$(conf_get environment '')
    turns=$(conf_get environment.turns 2)
    demonstrations=$(conf_get demonstrations '')
    [ -n "$run_dir" ] || run_dir=$(conf_get run '')
    [ -n "$run_dir" ] || usage_error "name a run folder, or give the conf a line \`run = FOLDER\`"
    count steps "$steps" && count seed "$seed" && count eval.every "$every"
    count dynamic.groups "$wanted" && count dynamic.max-waves "$max_waves"
    count environment.turns "$turns"
    [ -n "$environment" ] || [ -z "$(conf_options environment)" ] ||
        die "$conf_file: environment.* is for an environment, which is not there"
    [ -z "$environment" ] || command -v "$environment" >/dev/null ||
        die "$conf_file: environment = $environment is no program"
    [ "$max_waves" -gt 0 ] || die "$conf_file: dynamic.max-waves = 0 would never draw anything"
    [ "$wanted" -gt 0 ] || [ -z "$(conf_get dynamic.max-waves '')" ] ||
        die "$conf_file: dynamic.max-waves is for dynamic.groups, which is not there"
    [ -n "$model" ] || die "$conf_file: model is missing"
    [ -n "$prompts" ] || die "$conf_file: prompts is missing"
    readable prompts "$prompts"
    check_demonstrations
    [ -n "$(conf_get score '')" ] || die "$conf_file: score is missing (exact, number, math, ...)"
    [ -z "$start" ] || [ -z "$(conf_options adapter)" ] ||
        die "$conf_file: adapter.* is for a fresh adapter, and start = $start has its own"
    [ "$every" -eq 0 ] || [ -n "$eval_prompts" ] || die "$conf_file: eval.every = $every, but eval.prompts is missing"
    [ "$every" -eq 0 ] || readable eval.prompts "$eval_prompts"
    [ -e "$model/config.json" ] || die "$conf_file: model = $model is no model folder"
    span_schedule
    conf="$conf
prompts-sha256 = $(digest "$prompts")"
    [ -z "$demonstrations" ] || conf="$conf
demonstrations-sha256 = $(digest "$demonstrations")"
    common=$(common_options)
}

check_demonstrations() {
    if [ -z "$demonstrations" ]; then
        [ -z "$(conf_options sft)$(conf_options demonstrations)" ] ||
            die "$conf_file: sft.* and demonstrations.* are for demonstrations, which are not there"
        return
    fi
    readable demonstrations "$demonstrations"
    [ -z "$(conf_get sft.loss '')" ] || die "$conf_file: sft.loss is set by grpo.sh itself"
    case $(conf_get train.schedule constant)$(conf_get train.total-steps '') in
    linear | cosine) die "$conf_file: behind demonstrations, train.schedule needs train.total-steps, which counts theirs too" ;;
    esac
}

# A run of mint-train is one step of the loop; a course of the learning rate goes over all of them. Written into the conf,
# since another number of steps is then another course.
span_schedule() {
    case $(conf_get train.schedule constant)$(conf_get train.total-steps '') in linear | cosine) ;; *) return 0 ;; esac
    before=0
    [ ! -e "$start/trainer_state.json" ] ||
        before=$(grep -o '"step": *[0-9]*' "$start/trainer_state.json" | head -n 1 | tr -dc 0-9)
    # the most datums that a step can have: 8 groups of 4 are what mint-sample draws by itself
    groups=$wanted
    [ "$groups" -gt 0 ] || groups=$(conf_number sample.groups-per-batch 8)
    total=$(awk -v steps="$steps" -v before="${before:-0}" -v batch="$(conf_get train.batch-size 0)" \
        -v n="$((groups * $(conf_number sample.group-size 4)))" \
        -v cuts="$(conf_get train.substeps 1)" -v epochs="$(conf_get train.epochs 1)" '
        function min(a, b) { return a < b ? a : b }
        BEGIN {
            n += 0; batch += 0; cuts += 0
            if (batch < 1 || batch > n) batch = n
            each = batch < 1 ? 0 : int(n / batch) * min(cuts, batch) + min(cuts, n % batch)
            printf "%d", before + steps * epochs * each
        }')
    conf="$conf
train.total-steps = $total"
}

# A number of the conf for arithmetic; the tool refuses one that is wrong.
conf_number() {
    conf_get "$1" "$2" | sed 's/^0*//; /^[0-9]\{1,9\}$/!s/.*/0/'
}

# Names that no output depends on as yet, as an extended regular expression: a mistake there may be corrected.
still_free() {
    printf %s "$free"
    there "$run_dir"/ckpt/[1-9]* || printf %s '|train\..*'
    there "$run_dir"/ckpt/* || printf %s '|adapter\..*|sft\..*'
    there "$run_dir"/sft/*.zst "$run_dir"/ckpt/* || printf %s '|demonstrations(-sha256|\..*)?'
    there "$run_dir"/step-*/datums.jsonl.zst "$run_dir"/step-*/wave-*/datums.jsonl.zst ||
        printf %s '|advantage\..*|dynamic\..*'
    there "$run_dir"/step-*/scored*.zst "$run_dir"/step-*/wave-*/scored*.zst "$run_dir"/eval/*-scored*.zst || printf %s '|score[0-9]*(\..*)?'
    there "$run_dir"/eval/*.zst || printf %s '|eval\..*'
}

there() {
    for file; do
        [ ! -e "$file" ] || return 0
    done
    return 1
}

# Every tool takes its options, before the first of them works for hours; once a conf.
check_options() {
    scratch=$(mktemp -d)
    trap 'rm -rf "$scratch"' EXIT
    none=$scratch/none
    : >"$none"
    for part in sample eval; do
        if [ $part = sample ]; then
            eval "set -- $(conf_options sample)$common --step=0 \"\$prompts\""
        else
            eval "set -- $(evaluation)$common \"\$none\""
        fi
        [ -z "$start" ] || set -- --adapter "$start" "$@"
        check mint-sample --model "$model" --dry-run --quiet "$@"
    done
    if [ -n "$demonstrations" ]; then
        eval "set -- $(given)"
        check mint-sample --model "$model" "$@" "$none"
    fi
    if [ -n "$environment" ]; then
        eval "set -- $(conf_options sample)$common"
        eval "set -- $(that_go_on "$@") $(conf_options environment turns)"
        [ -z "$start" ] || set -- --adapter "$start" "$@"
        check mint-sample --model "$model" --continue "$@" "$none"
    fi
    for scorer in $(scorers); do
        eval "set -- $(conf_options "$scorer")"
        check mint-score "$(conf_get "$scorer" '')" "$@" "$none"
    done
    eval "set -- $(conf_options advantage)"
    check mint-advantage "$@" "$none"
    for part in train ${demonstrations:+sft}; do
        eval "set -- $(training "$part" "$start")"
        check mint-train --model "$model" --to "$scratch/ckpt" "$@" --dry-run "$none"
    done
    rm -rf "$scratch"
    trap - EXIT
}

scorers() {
    printf '%s\n' "$conf" | sed -n 's/^\(score[0-9]*\) = .*/\1/p'
}

# score OUT IN: every scorer of the conf in turn; all but the last into files of their own.
score() {
    scored=$1 from=$2
    last=$(scorers | tail -n 1)
    if [ -z "$dry_run" ] && [ -e "$scored" ]; then
        tidy "$scored"
        return
    fi
    for scorer in $(scorers); do
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
    if [ -n "$environment" ]; then
        converse "$@"
    else
        measured "${rollouts%.jsonl.zst}.metrics" "$rollouts" mint-sample --model "$model" "$@" "$source"
    fi
}

# Turn by turn: $rollouts, by the options of the first turn. Between two turns stands what the environment makes of the
# one before.
converse() {
    base=${rollouts%.jsonl.zst} turn=1
    if [ -z "$dry_run" ] && [ -e "$rollouts" ]; then
        tidy "$rollouts"
        return
    fi
    measured "$base-turn1.metrics" "$base-turn1.jsonl.zst" mint-sample --model "$model" "$@" "$source"
    eval "set -- $(that_go_on "$@") $(conf_options environment turns)"
    while [ "$turn" -lt "$turns" ]; do
        answered=$base-turn$turn-answered.jsonl
        # shellcheck disable=SC2016
        run "$answered" sh -c 'zstd -dcq "$1" >"$2.tmp-in" && "$0" <"$2.tmp-in" >"$2.tmp-out" && rm "$2.tmp-in" && mv "$2.tmp-out" "$2"' \
            "$environment" "$base-turn$turn.jsonl.zst" "$answered"
        turn=$((turn + 1))
        to=$base-turn$turn
        [ "$turn" -lt "$turns" ] || to=$base
        measured "$to.metrics" "$to.jsonl.zst" mint-sample --model "$model" --continue "$@" "$answered"
    done
}

# Of the options of the first turn, those for the others, quoted for eval.
that_go_on() {
    while [ $# -gt 0 ]; do
        case $1 in
        --exclude) shift ;;
        --group-size=* | --chat | --system=* | --think=* | --template=* | --allow-special | --once) ;;
        --step=* | --groups-per-batch=* | --shuffle-seed=* | --shard=*) ;;
        *) printf "%s " "$(quoted "$1")" ;;
        esac
        shift
    done
}

# The options of mint-sample that measure: greedy, one response a prompt, unless the conf says otherwise.
evaluation() {
    echo "$(conf_options sample 'groups-per-batch shuffle-seed') --group-size=1 --temperature=0" \
        "$(conf_options eval 'every prompts')"
}

# The policy after step $1, which is the checkpoint $2.
evaluate() {
    { [ "$every" -gt 0 ] && { [ $(($1 % every)) -eq 0 ] || [ "$1" -eq "$steps" ]; }; } || return 0
    measure "$(printf %04d "$1")" "$2"
}

# measure NAME CKPT: on the conf's eval.prompts.
measure() {
    place=$run_dir/eval/$1 tested=$2
    folder "$run_dir/eval"
    eval "set -- $(evaluation)"
    sample "$place.jsonl.zst" "$eval_prompts" "$tested" "$@" --seed="$seed"
    score "$place-scored.jsonl.zst" "$place.jsonl.zst"
    stage "$place.txt" mint-score none --summary "$place-scored.jsonl.zst"
}

# The options that make rollouts of the demonstrations: prompts as sample.* has them, and what the conf says of the
# responses, quoted for eval.
given() {
    eval "set -- $(conf_options sample)"
    for word; do
        case $word in --chat | --system=* | --think=* | --template=* | --allow-special) printf '%s ' "$(quoted "$word")" ;; esac
    done
    echo "--given=$(quoted "$(conf_get demonstrations.given completion)") --no-logprobs $(conf_options demonstrations given)"
}

# training PART PARENT: the options of mint-train, quoted for eval. PART is train or, for the demonstrations, sft.
training() {
    if [ -n "$2" ]; then
        printf '%s ' "$(quoted --from "$2")"
    else
        printf '%s ' "--seed=$seed" "$(conf_options adapter)"
    fi
    [ "$1" = train ] || printf '%s ' --loss cross_entropy
    printf '%s\n' "$(conf_options "$1")$common"
}

# train CKPT PARENT DATUMS PART: by the options PART.* of the conf.
train() {
    to=$1 parent=$2 datums=$3 part=$4
    eval "set -- $(training "$part" "$parent")"
    metrics=$dir/train.metrics
    [ -n "$dry_run" ] || [ -e "$to" ] || rm -f "$metrics"
    run "$to" mint-train --model "$model" --to "$to" "$@" --metrics "$metrics" "$datums"
}

# draw PLACE SLICE OPTIONS...: rollouts of a slice of the prompts, scored, in the folder PLACE.
draw() {
    place=$1 slice=$2
    shift 2
    sample "$place/rollouts.jsonl.zst" "$prompts" "$policy" "$@" --step="$slice" --seed=$((seed + nth))
    score "$place/scored.jsonl.zst" "$place/rollouts.jsonl.zst"
}

# advantages PLACE WORD...: $datums, in the folder PLACE; the words are files, after options.
advantages() {
    place=$1 datums=$1/datums.jsonl.zst
    shift
    eval "set -- $(conf_options advantage) \"\$@\""
    measured "$place/datums.metrics" "$datums" mint-advantage "$@"
}

# Dynamic sampling (DAPO, section 3.2): slice after slice of the prompts, until enough groups have given Datums. What a
# wave leaves is the Datums of all waves so far. No prompt comes twice in a step, though an epoch may end in it.
# shellcheck disable=SC2120
waves() {
    next=$(next_slice) wave=0 tried='' so_far=''
    while :; do
        wave=$((wave + 1))
        place=$dir/wave-$(printf %02d "$wave")
        folder "$place"
        eval "set -- $(conf_options sample) --once $tried"
        draw "$place" "$next" "$@"
        next=$((next + 1))
        tried="$tried $(quoted --exclude "$place/rollouts.jsonl.zst")"
        so_far="$so_far $(quoted "$place/scored.jsonl.zst")"
        eval "advantages \"\$place\" --max-groups=\"\$wanted\" $so_far"
        enough && break
    done
    [ -n "$dry_run" ] || echo "$next" >"$dir/next-slice.tmp"
    [ -n "$dry_run" ] || mv "$dir/next-slice.tmp" "$dir/next-slice"
}

# The first slice that the steps before have left.
next_slice() {
    before=$run_dir/step-$(printf %04d $((nth - 1)))/next-slice
    if [ "$nth" -eq 1 ]; then
        echo 0
    elif [ -e "$before" ]; then
        cat "$before"
    elif [ -n "$dry_run" ]; then
        echo $((nth - 1))
    else
        die "$before is gone: without it nobody knows which prompts were used"
    fi
}

# Says, where it ends the waves, why there are fewer groups than were wanted.
enough() {
    if [ -n "$dry_run" ]; then
        printf '# and further waves, %s at most in all, until %s groups give datums\n' "$max_waves" "$wanted"
        return 0
    fi
    kept=$(sed -n 's/.*"advantage\/groups_kept": *\([0-9]*\).*/\1/p' "$place/datums.metrics")
    [ "${kept:-0}" -lt "$wanted" ] || return 0
    if [ "$wave" -ge "$max_waves" ]; then
        say "step $nth: ${kept:-0} of $wanted groups gave datums in $wave waves, the most that dynamic.max-waves allows"
    elif is_empty "$place/rollouts.jsonl.zst"; then
        say "step $nth: ${kept:-0} of $wanted groups gave datums, and every prompt was tried"
    else
        return 1
    fi
}

# True if there is nothing to train on: every group of the step was flat.
is_empty() {
    [ -z "$dry_run" ] && [ "$(zstd -dcq <"$1" | head -c 1 | wc -c)" -eq 0 ]
}

# The supervised part: the demonstrations make the policy that the loop begins with, which is ckpt/0.
# shellcheck disable=SC2120
warm_up() {
    [ -n "$demonstrations" ] || return 0
    dir=$run_dir/sft
    [ "$every" -eq 0 ] || measure base "$policy"
    if [ ! -e "$run_dir/ckpt/0" ]; then
        folder "$dir"
        eval "set -- $(given)"
        measured "$dir/rollouts.metrics" "$dir/rollouts.jsonl.zst" mint-sample --model "$model" "$@" "$demonstrations"
        measured "$dir/datums.metrics" "$dir/datums.jsonl.zst" mint-advantage --sft "$dir/rollouts.jsonl.zst"
    fi
    train "$run_dir/ckpt/0" "$policy" "$dir/datums.jsonl.zst" sft
    policy=$run_dir/ckpt/0
    gather_metrics
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
    if [ "$wanted" -gt 0 ]; then
        # shellcheck disable=SC2119
        waves
    else
        eval "set -- $(conf_options sample)"
        draw "$dir" $((nth - 1)) "$@"
        advantages "$dir" "$dir/scored.jsonl.zst"
    fi
    if is_empty "$datums"; then
        say "step $nth: no datums, every group was flat; the policy stays ${policy:-the base}"
        echo "no datums: every group was flat; the policy stays ${policy:-the base}" >"$dir/skipped.tmp"
        mv "$dir/skipped.tmp" "$dir/skipped"
        return 0
    fi
    train "$ckpt" "$policy" "$datums" train
    policy=$ckpt
    gather_metrics
}

main() {
    enter_run "$@"
    policy=$start
    # shellcheck disable=SC2119
    warm_up
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

# The shell reads a script as it goes: one that is replaced meanwhile must not go on here.
main "$@"; exit

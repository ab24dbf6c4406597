#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# demo/run.sh: a tiny model learns to add, from nothing, in a minute or two. `make demo` runs it.
#
# A random model of 2 layers learns from a sloppy pupil, who mostly forgets the carry and often counts one too far beyond
# 20: it comes to write sums, with the pupil's habits. GRPO, which only hears "right" or "wrong", breaks it of them.
set -eu

program=demo
here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=pipelines/lib.sh
. "$here/../lib.sh"

demonstrations=38400 # drawn from the problems that are not held out
rl_steps=14
rl_groups=128
rl_size=8

usage() {
    cat <<'END'
usage: demo/run.sh [FOLDER]

Makes a tiny model, teaches it sums up to 20 + 20 from faulty demonstrations, then lets GRPO put it right, and shows
the share of held-out problems that it gets right. Needs nothing but the tools. FOLDER (default: a new one under
TMPDIR) must not exist. Status 0 if GRPO gained 20 points or more.
END
}

# All problems in an order of its own (the same with any awk): the first 60 are held out, the next are for training,
# and the pupil's answers are drawn from those.
problems() {
    awk -v demonstrations="$demonstrations" -v folder="$folder" '
        function draw(n) { x = (x * 16807) % 2147483647; return int(x / 2147483647 * n) }
        function put(file, id, a, b, response) {
            printf "{\"id\":\"%s\",\"prompt\":\"%d+%d=\",\"answer\":\"%d\"%s}\n", id, a, b, a + b, response > file
        }
        BEGIN {
            x = 20240607
            for (i = 0; i < 441; i++) { left[i] = int(i / 21); right[i] = i % 21 }
            for (i = 440; i > 0; i--) {
                j = draw(i + 1)
                t = left[i]; left[i] = left[j]; left[j] = t
                t = right[i]; right[i] = right[j]; right[j] = t
            }
            for (i = 0; i < 441; i++)
                put(folder (i < 60 ? "/heldout.jsonl" : "/problems.jsonl"), left[i] "+" right[i], left[i], right[i], "")
            for (i = 0; i < demonstrations; i++) {
                j = 60 + draw(381)
                said = left[j] + right[j]
                if (left[j] % 10 + right[j] % 10 > 9)
                    said -= draw(100) < 70 ? 10 : 0
                else if (said > 20)
                    said += draw(100) < 60 ? 1 : 0
                put(folder "/demonstrations.jsonl", i, left[j], right[j], ",\"pupil\":\"" said "\"")
            }
        }'
}

# accuracy NAME MODEL [ADAPTER]: greedy, on the held-out problems; in per cent, and the rollouts in eval/NAME.
accuracy() {
    out=$folder/eval/$1.jsonl.zst
    mint-sample --model "$2" ${3:+--adapter "$3"} --temperature 0 --group-size 1 --max-tokens 4 "$folder/heldout.jsonl" |
        mint-score exact -o "$out"
    zstd -dcq <"$out" | awk '/"reward":1[,}]/ { right++ } END { if (!NR) exit 1; printf "%.0f\n", 100 * right / NR }'
}

bar() {
    awk -v share="$1" 'BEGIN { for (i = 0; i < share * 40; i++) printf "#"; print "" }'
}

# The loss at five points of the supervised training.
losses() {
    awk -F'"train_mean_nll":' '{ loss[NR] = $2 + 0 }
        END { for (i = 0; i < 5; i++) printf "%s%.2f", i ? ", " : "", loss[1 + int(i * (NR - 1) / 4)] }' \
        "$folder/sft.metrics"
}

supervised() {
    mint-init --to "$folder/random" --arch qwen3 --layers 2 --hidden 64 --ffn 192 --heads 4 --kv-heads 4 --head-dim 16 \
        --init-std 0.07 --dtype f32
    before=$(accuracy 1-random "$folder/random")
    printf 'a random model:                 %3d %% of the held-out sums right\n' "$before"
    echo "a sloppy pupil shows it $demonstrations sums"
    mint-sample --model "$folder/random" --given pupil --append-eos --no-logprobs "$folder/demonstrations.jsonl" |
        mint-advantage -q --sft -o "$folder/sft.jsonl.zst"
    mint-train --model "$folder/random" --to "$folder/sft" --loss cross_entropy --rank 64 --alpha 64 --lr 1.5e-3 \
        --schedule linear --batch-size 64 --metrics "$folder/sft.metrics" "$folder/sft.jsonl.zst"
    mint-export -q --model "$folder/random" --adapter "$folder/sft" --to "$folder/model" --format hf
    taught=$(accuracy 2-sft "$folder/model")
    printf 'after the demonstrations:       %3d %%  (loss a token: %s)\n' "$taught" "$(losses)"
}

# One step in a pipe. A tool that fails leaves its stream unfinished or empty, which mint-train refuses: its status tells
# for all.
grpo_step() {
    mint-sample --model "$folder/model" ${policy:+--adapter "$policy"} --step "$(($1 - 1))" --seed "$1" \
        --groups-per-batch $rl_groups --group-size $rl_size --temperature 1 --max-tokens 4 "$folder/problems.jsonl" |
        mint-score exact --metrics "$folder/score.metrics" |
        mint-advantage -q |
        if [ -n "$policy" ]; then
            mint-train --model "$folder/model" --from "$policy" --to "$folder/ckpt/$1" --lr 5e-4 \
                --metrics "$folder/train.metrics"
        else
            mint-train --model "$folder/model" --to "$folder/ckpt/$1" --lr 5e-4 --rank 64 --alpha 64 \
                --metrics "$folder/train.metrics"
        fi
    policy=$folder/ckpt/$1
}

reinforced() {
    echo "GRPO, $rl_groups problems x $rl_size answers a step; mean reward:"
    policy='' n=1
    while [ $n -le $rl_steps ]; do
        grpo_step $n
        reward=$(sed -n '$s/.*"reward\/mean":\([0-9.e-]*\).*/\1/p' "$folder/score.metrics")
        printf '  step %2d  %.3f  %s\n' $n "$reward" "$(bar "$reward")"
        n=$((n + 1))
    done
    after=$(accuracy 3-grpo "$folder/model" "$policy")
    printf 'after GRPO:                     %3d %% of the held-out sums right\n' "$after"
}

closing() {
    cat <<END

$(printf 'held-out sums right:  before %d %%,  demonstrations %d %%,  GRPO %d %%' "$before" "$taught" "$after")

In $folder:
  random/ model/       the random base, and the same with the demonstrations merged in
  ckpt/1 ... ckpt/$rl_steps    the adapters of the steps (PEFT folders, with Adam's state)
  eval/*.jsonl.zst     the answers to the held-out problems at the three points
To look at them (the tools are in $tools):
  zstd -dc $folder/eval/3-grpo.jsonl.zst | head -n 3
  mint-score none --summary $folder/eval/2-sft.jsonl.zst
  echo '{"prompt":"17+8="}' | mint-sample --model $folder/model --adapter $policy --temperature 0 --plain
  mint-export --model $folder/model --adapter $policy --to $folder/final --format hf
END
}

main() {
    case ${1:-} in
    -h | --help) usage && exit 0 ;;
    -*) usage_error "unknown option $1" ;;
    esac
    [ $# -le 1 ] || usage_error "one folder at most"
    find_tools "$here/.."
    folder=${1:-$(mktemp -d "${TMPDIR:-/tmp}/mint-demo-XXXXXX")/run}
    mkdir -p "$(dirname "$folder")"
    mkdir "$folder" || die "name a folder that does not exist"
    mkdir "$folder/eval" "$folder/ckpt"
    problems
    supervised
    reinforced
    closing
    [ $((after - taught)) -ge 20 ] || die "GRPO gained $((after - taught)) points, less than 20"
}

main "$@"

#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# The pipelines: a run that is resumed by running it again, one process at a time in a run folder.
load helpers

setup_file() {
    export FILE_DIR=$BATS_FILE_TMPDIR
    [ -x "$MINT_BIN/mint-init" ] || return 0
    "$MINT_BIN/mint-init" --to "$FILE_DIR/model" --preset tiny
}

setup() {
    enter_scratch
    need mint-init mint-sample mint-score mint-advantage mint-train
    ln -s "$FILE_DIR/model" model
    for i in 1 2 3 4 5 6 7 8; do
        printf '{"id":"p%d","prompt":"%d + 5 =","answer":"never this"}\n' "$i" "$i"
    done >prompts.jsonl
    conf 3 >grpo.conf
}

# The length of the response is the reward: even a random model has groups of all kinds there.
conf() {
    cat <<END
# a run of $1 steps
model = model
prompts = prompts.jsonl
run = run
steps = $1
seed = 7
sample.groups-per-batch = 2
sample.group-size = 4
sample.max-tokens = 6
sample.temperature = 1
sample.stop = a
sample.stop = it's
score = length
score.target = 3
train.lr = 1e-2
adapter.rank = 2
END
}

GRPO=$MINT_ROOT/pipelines/grpo.sh
grpo() {
    "$GRPO" "$@"
}

teardown() {
    touch go
}

# Everything in a run folder but what holds times: names and digests.
state() {
    (cd "$1" && find . -type f ! -name '*.metrics' ! -name metrics.jsonl ! -name lock ! -name 'conf*' -print0 | sort -z |
        xargs -0 sha256sum)
}

@test "a run makes every stage and every checkpoint; run again, it has nothing to do" {
    run_tool grpo grpo.conf
    expect 0
    for f in rollouts scored datums; do
        [ "$(zstd -dc "run/step-0003/$f.jsonl.zst" | wc -l)" -gt 0 ]
    done
    [ "$(jq .step run/ckpt/3/trainer_state.json)" -eq 3 ]
    [ "$(jq -r 'select(.tool == "mint-train") | .stage' run/metrics.jsonl | paste -sd,)" = \
        step-0001/train,step-0002/train,step-0003/train ]
    has "$stderr" "3 steps are done: run/ckpt/3"
    find run -type f ! -name lock ! -name 'metrics.jsonl' -printf '%p %i %T@\n' | sort >before
    run_tool grpo -q grpo.conf
    expect 0
    [ -z "$stderr" ]
    find run -type f ! -name lock ! -name 'metrics.jsonl' -printf '%p %i %T@\n' | sort >after
    same before after
}

@test "a quiet run says nothing, and neither do its tools" {
    run_tool grpo -q grpo.conf
    expect 0
    [ -z "$stderr$output" ]
}

@test "the printed commands do the same as the run, and printing them makes nothing" {
    run_tool grpo --dry-run grpo.conf
    expect 0
    [ ! -e run ]
    has "$output" "'--stop=it'\\''s'"
    has "$output" "--adapter run/ckpt/2"
    printf '%s\n' "$output" >commands
    sh -e commands
    state run >pasted
    mv run pasted.run
    grpo -q grpo.conf
    state run >ran
    same pasted ran
    run_tool grpo --dry-run grpo.conf
    lacks "$output" mint-
}

@test "more steps later, or all at once: the same bytes" {
    grpo -q grpo.conf straight
    conf 1 >short.conf
    grpo -q short.conf run
    conf 3 >short.conf
    grpo -q short.conf run
    state straight >want
    state run >got
    same want got
}

@test "killed after checkpoint 2, a run makes exactly the steps that are left" {
    conf 4 >grpo.conf
    grpo -q grpo.conf straight
    "$GRPO" grpo.conf run >log 2>&1 3>&- &
    pid=$!
    for _ in $(seq 600); do
        [ ! -e run/ckpt/2 ] || break
        sleep 0.05
    done
    kill -KILL $pid
    wait $pid || true
    [ -e run/ckpt/2 ]
    cp -r run/ckpt/2 two
    grpo grpo.conf run 2>log
    run ! grep -q 'ckpt/[12] ' log
    for f in two/*; do
        same "$f" "run/ckpt/2/${f##*/}"
    done
    state straight >want
    state run >got
    same want got
}

@test "a stage is made again when its file is deleted" {
    grpo -q grpo.conf
    state run >want
    rm -r run/step-0002/scored.jsonl.zst run/step-0002/datums.jsonl.zst run/ckpt/2
    run_tool grpo grpo.conf
    expect 0
    lacks "$stderr" rollouts
    has "$stderr" run/step-0002/scored.jsonl.zst
    state run >got
    same want got
}

# A mint-sample that waits until the file `go` is there.
slow_tools() {
    mkdir slow
    for t in mint-init mint-score mint-advantage mint-train; do
        ln -s "$MINT_BIN/$t" "slow/$t"
    done
    printf '#!/bin/sh\ncase "$*" in *--dry-run*) exit 0 ;; esac\necho $$ >>%s\nwhile [ ! -e %s ]; do sleep 0.05; done\nexec %s "$@"\n' "$PWD/waiting" "$PWD/go" \
        "$MINT_BIN/mint-sample" >slow/mint-sample
    chmod +x slow/mint-sample
}

@test "two runs on one folder: the second ends at once and names the first; the lock dies with its holder" {
    slow_tools
    MINT_BIN=$PWD/slow "$GRPO" -q grpo.conf >log 2>&1 3>&- &
    holder=$!
    until [ -s waiting ]; do sleep 0.05; done
    run_tool timeout 20 "$GRPO" grpo.conf
    expect_error 1 "run is locked: process $holder is working on it"
    kill -KILL "$holder"
    wait "$holder" || true
    # what it started is still there, waiting; a third run does not care
    run_tool grpo grpo.conf
    expect 0
    state run >want
    touch go
    sleep 0.3
    state run >got
    same want got
    [ -z "$(find run -name '*.tmp*')" ]
}

@test "a step whose groups are all flat is skipped, and the next one goes on from the last checkpoint" {
    # In step 2 the answer is the text of one of its samples; in the steps 1 and 3 no sample can be right.
    sed -i 's/^score = .*/score = exact/; /^score.target/d; s/^steps.*/steps = 1/' grpo.conf
    run_tool grpo grpo.conf
    expect 0
    has "$stderr" "step 1: no datums, every group was flat; the policy stays the base"
    has "$(cat run/step-0001/skipped)" "every group was flat"
    [ ! -e run/ckpt/1 ]
    mint-sample --model model --groups-per-batch 2 --group-size 4 --max-tokens 6 --temperature 1 --stop a \
        --stop "it's" --step 1 --seed 9 --plain prompts.jsonl | head -n 1 >rollout
    jq -c --slurpfile r rollout 'if .id == $r[0].id then .answer = $r[0].sequences[0].text else . end' prompts.jsonl >p2
    mv p2 prompts.jsonl
    sed -i 's/^steps.*/steps = 3/' grpo.conf
    run_tool grpo grpo.conf run2
    expect 0
    [ -e run2/step-0001/skipped ] && [ -e run2/ckpt/2 ] && [ -e run2/step-0003/skipped ]
    [ "$(jq .step run2/ckpt/2/trainer_state.json)" -eq 1 ]
    [ "$(zstd -dc run2/step-0003/rollouts.jsonl.zst | jq -r '.sampling.adapter' | head -n 1)" != null ]
    has "$stderr" "3 steps are done: run2/ckpt/2"
}

@test "another conf on the same folder is refused with the differences; steps and threads are free" {
    conf 1 >grpo.conf
    grpo -q grpo.conf
    state run >before
    sed -i 's/^seed.*/seed = 8/' grpo.conf
    run_tool grpo grpo.conf
    expect 1
    has "$stderr" "< seed = 7"
    has "$stderr" "> seed = 8"
    has "$stderr" "run was begun with another conf"
    state run >after
    same before after
    conf 1 >grpo.conf
    echo 'threads = 1' >>grpo.conf
    run_tool grpo grpo.conf
    expect 0
    echo '{"prompt":"new"}' >>prompts.jsonl
    run_tool grpo grpo.conf
    expect 1
    has "$stderr" "prompts-sha256"
    conf 1 | sed 's/^seed.*/seed = 8/' >run/conf
    run_tool grpo grpo.conf
    expect_error 1 "run/conf was changed by hand"
}

@test "a conf that fails before the first output may be corrected" {
    echo 'sample.top-q = 1' >>grpo.conf
    run_tool grpo grpo.conf
    expect 1
    has "$stderr" "mint-sample: unknown option"
    has "$stderr" "nothing was started: grpo.conf is not right for mint-sample"
    [ ! -e run ]
    conf 1 >grpo.conf
    run_tool grpo grpo.conf
    expect 0
}

@test "a wrong option of any stage is found before the first stage works" {
    mkdir temporary
    export TMPDIR=$PWD/temporary
    for line in 'sample.top-q = 1' 'sample.stop-token = nope' 'eval.max-tokens = 0' 'score.weight = x' 'score2 = nope' \
        'advantage.norm = nope' 'train.loss = nope' 'train.beta1 = 2' 'adapter.alpha = x' 'precision = f64'; do
        { conf 1 && echo "$line"; } >bad.conf
        for mode in '' -n; do
            # shellcheck disable=SC2086
            run_tool grpo $mode bad.conf
            expect 1
            has "$stderr" "nothing was started: bad.conf is not right for mint-"
            [ "$(wc -l <<<"$stderr")" -eq 2 ]
            [ -z "$output" ] && [ ! -e run ]
        done
    done
    [ -z "$(ls temporary)" ]
}

# A mint-advantage that takes its options, but fails at work.
failing_advantage() {
    mkdir failing
    for t in mint-init mint-sample mint-score mint-train; do
        ln -s "$MINT_BIN/$t" "failing/$t"
    done
    printf '#!/bin/sh\ncase "$*" in *scored*) echo "mint-advantage: no" >&2; exit 1 ;; esac\nexec %s "$@"\n' \
        "$MINT_BIN/mint-advantage" >failing/mint-advantage
    chmod +x failing/mint-advantage
}

@test "names of stages without any output may be changed after others worked, and then count" {
    failing_advantage
    conf 1 | sed 's/^train.lr.*/train.lr = 1/' >grpo.conf
    MINT_BIN=$PWD/failing run_tool grpo grpo.conf
    expect 1
    [ -e run/step-0001/scored.jsonl.zst ]
    { conf 1 && echo 'advantage.norm = std'; } >grpo.conf
    grpo -q grpo.conf straight
    run_tool grpo grpo.conf
    expect 0
    state straight >want
    state run >got
    same want got
    same straight/conf run/conf
    # what was changed is what counts from now on; what had made something never was free
    conf 1 >grpo.conf
    run_tool grpo grpo.conf
    expect 1
    has "$stderr" '< advantage.norm = std'
    { conf 1 && echo 'advantage.norm = std'; } | sed 's/^train.lr.*/train.lr = 1/' >grpo.conf
    run_tool grpo grpo.conf
    expect 1
    has "$stderr" '> train.lr = 1'
    { conf 1 && echo 'advantage.norm = std'; } | sed 's/^score.target.*/score.target = 4/' >grpo.conf
    run_tool grpo grpo.conf
    expect 1
    has "$stderr" '> score.target = 4'
}

@test "a schedule goes over all steps of the run, not over each by itself" {
    lr() {
        jq -c 'select(.tool == "mint-train") | ."optim/lr" // .lr' "$1/metrics.jsonl" | paste -sd' '
    }
    conf 2 | sed 's/^train.lr.*/train.lr = 0.01/' >grpo.conf
    { cat grpo.conf && echo 'train.schedule = linear'; } >linear.conf
    run_tool grpo linear.conf
    expect 0
    has "$(grep total run/conf)" 'train.total-steps = 2'
    [ "$(lr run)" = "0.01 0.005" ]
    # other steps are another schedule
    sed 's/^steps.*/steps = 3/' linear.conf >more.conf
    run_tool grpo more.conf
    expect 1
    has "$stderr" '> train.total-steps = 3'
    # a length given is the one that counts, and no schedule needs none
    { cat linear.conf && echo 'train.total-steps = 4'; } >given.conf
    run_tool grpo given.conf given
    expect 0
    [ "$(lr given)" = "0.01 0.0075" ]
    run_tool grpo --dry-run grpo.conf none
    expect 0
    lacks "$output" --total-steps
    # batches, what batches are cut into, and the steps of the start count
    { grep -v '^adapter' linear.conf && printf '%s\n' 'start = run/ckpt/2' 'train.batch-size = 3' 'train.substeps = 2' \
        'train.epochs = 2'; } >deep.conf
    run_tool grpo -n deep.conf deep
    expect 0
    # 8 datums: batches of 3, 3 and 2, each in 2, twice, in 2 steps, after 2 steps
    has "$output" --total-steps=26
    { sed '/^sample.group/d; s/^steps.*/steps = 1/' linear.conf && echo 'train.batch-size = 1'; } >default.conf
    run_tool grpo -n default.conf default
    has "$output" --total-steps=32
    has "$(mint-sample --help)" "responses a prompt [4]"
    has "$(mint-sample --help)" "prompts of a slice [8]"
}

@test "bad confs: one line that names the file and the place, nothing made" {
    bad() { # LINE TEXT
        { conf 1 && echo "$1"; } >bad.conf
        run_tool grpo bad.conf
        expect_error 1 "$2"
        [ ! -e run ]
    }
    bad 'nonsense' 'bad.conf:17: not a line `name = value`'
    bad 'steps = 2' 'bad.conf:17: "steps" is given twice'
    bad 'stepz = 2' 'bad.conf: stepz is no name'
    bad 'train.from = x' 'bad.conf: train.from is set by grpo.sh itself'
    bad 'start = ckpt' 'adapter.* is for a fresh adapter'
    bad 'eval.every = 1' 'eval.prompts is missing'
    conf x >bad.conf
    run_tool grpo bad.conf
    expect_error 1 'bad.conf: steps = x is not a whole number'
    conf 1 | grep -v '^score' >bad.conf
    run_tool grpo bad.conf
    expect_error 1 'score is missing'
    conf 1 | sed 's/^model.*/model = nowhere/' >bad.conf
    run_tool grpo bad.conf
    expect_error 1 'model = nowhere is no model folder'
    conf 1 | grep -v '^prompts' >bad.conf
    run_tool grpo bad.conf
    expect_error 1 'bad.conf: prompts is missing'
    conf 1 | sed 's/^prompts.*/prompts = nowhere/' >bad.conf
    run_tool grpo bad.conf
    expect_error 1 'bad.conf: prompts = nowhere cannot be read'
    run_tool grpo . r
    expect_error 1 'cannot read .: it is a folder, not a conf'
    run_tool grpo grpo.conf prompts.jsonl
    expect_error 1 'prompts.jsonl is there and is no folder'
    run_tool grpo grpo.conf prompts.jsonl/run
    expect_error 1 'prompts.jsonl/run: the folder cannot be made'
    run_tool "$MINT_ROOT/pipelines/start.sh" math model prompts.jsonl
    expect_error 1 'prompts.jsonl is there and is no folder'
    run_tool grpo nowhere.conf
    expect_error 1 'cannot read nowhere.conf'
    run_tool grpo
    expect_error 2 "the conf is missing; try 'grpo.sh --help'"
    run_tool grpo --wrong grpo.conf
    expect_error 2 'unknown option --wrong'
    run_tool grpo --help
    expect 0
    has "$output" 'usage: grpo.sh'
}

@test "scorers in turn, and evaluation at the start, now and then and at the end" {
    head -n 3 prompts.jsonl >heldout.jsonl
    cat >>grpo.conf <<END
score2 = exact
score2.weight = 0.5
eval.prompts = heldout.jsonl
eval.every = 2
eval.max-tokens = 3
END
    run_tool grpo grpo.conf
    expect 0
    [ "$(zstd -dc run/step-0001/scored.jsonl.zst | jq -r '.sequences[0].scores | keys | join(",")' | sort -u)" = exact,length ]
    [ "$(cd run/eval && echo *.txt)" = "0000.txt 0002.txt 0003.txt" ]
    has "$(cat run/eval/0003.txt)" "reward mean"
    [ "$(zstd -dc run/eval/0002.jsonl.zst | jq -c '[.sampling.temperature, .sampling.max_tokens, (.sequences | length)]' | sort -u)" = "[0,3,1]" ]
    [ "$(zstd -dc run/eval/0000.jsonl.zst | jq -r .sampling.adapter | sort -u)" = null ]
}

@test "a pipe sees that its writer was cut off while the streams are compressed, and cannot with --plain" {
    mint-sample -q --model model --group-size 4 --max-tokens 6 --temperature 1 -o r.zst prompts.jsonl
    head -c -4 r.zst >cut.zst
    run_tool bash -o pipefail -c 'mint-score length cut.zst | mint-advantage -q --keep-flat | mint-train --model model --to whole'
    expect 1
    [ ! -e whole ]
    zstd -dcq r.zst | head -n 3 >cut.jsonl
    plain='{ cat cut.jsonl; exit 1; } | mint-score length --plain | mint-advantage -q --keep-flat | mint-train -q --model model --to'
    run_tool bash -c "$plain plain"
    expect 0
    [ -e plain ]
    run_tool bash -o pipefail -c "$plain other"
    expect 1
    [ -e other ]
}

@test "the make form gives the bytes of the same commands, and has nothing to do the second time" {
    command -v make >/dev/null || skip "no make"
    mk() {
        make -s -f "$MINT_ROOT/pipelines/grpo.mk" MODEL=model PROMPTS=prompts.jsonl STEPS=2 RUN=mk \
            SAMPLE='--groups-per-batch 2 --group-size 4 --max-tokens 6 --temperature 1' SCORE='length --target 3' \
            ADVANTAGE=-q TRAIN='--lr 1e-2' ADAPTER='--rank 2' "$@"
    }
    mk 3>&-
    grep -v -e '^sample.stop' grpo.conf | sed 's/^seed.*/seed = 0/; s/^steps.*/steps = 2/' >same.conf
    grpo -q same.conf
    for n in 1 2; do
        same "mk/step-$n/rollouts.jsonl.zst" "run/step-000$n/rollouts.jsonl.zst"
    done
    mk -q 3>&-
}

# A run with demonstrations: the products of the quickstart, small.
taught() {
    printf '%s\n' '{"id":"d1","prompt":"1 + 5 =","said":"it is 6"}' '{"id":"d2","prompt":"2 + 5 =","said":"7"}' >shown.jsonl
    conf "$1" && cat <<END
demonstrations = shown.jsonl
demonstrations.given = said
demonstrations.append-eos = no
sample.template = <{prompt}>
sft.lr = 1e-2
sft.epochs = 3
advantage.keep-flat = yes
eval.prompts = prompts.jsonl
eval.every = 2
eval.max-tokens = 2
END
}

@test "demonstrations make checkpoint 0, from which the loop goes on; killed in between, it ends with the same bytes" {
    taught 2 >grpo.conf
    run_tool grpo grpo.conf
    expect 0
    [ "$(jq .step run/ckpt/0/trainer_state.json)" -eq 3 ]
    [ "$(jq .step run/ckpt/2/trainer_state.json)" -eq 5 ]
    # the prompts are those of the loop, the responses the field, as it stands
    [ "$(zstd -dcq run/sft/rollouts.jsonl.zst | jq -c '[.id, (.sequences[0] | .text, .stop_reason)]' | paste -sd' ')" = \
        '["d1","it is 6","length"] ["d2","7","length"]' ]
    [ "$(zstd -dcq run/sft/rollouts.jsonl.zst | head -n 1 | jq -c .prompt_tokens)" = \
        "$(echo '{"prompt":"1 + 5 ="}' | mint-sample -m model --template '<{prompt}>' --dry-run 2>/dev/null | jq -c .prompt_tokens)" ]
    ls run/eval/base.txt run/eval/0000.txt run/eval/0002.txt
    jq -es 'map(select(.stage == "sft/train")) | length == 3 and .[2].train_mean_nll < .[0].train_mean_nll' run/metrics.jsonl
    run_tool grpo grpo.conf
    expect 0
    [ "$(wc -l <<<"$stderr")" -eq 1 ]
    # stopped behind each of its parts
    state run >want
    for left in sft/rollouts.jsonl.zst sft/datums.jsonl.zst; do
        rm -rf again && mkdir -p again/sft
        cp run/conf* again
        cp run/sft/rollouts.jsonl.zst again/sft
        [ $left = sft/rollouts.jsonl.zst ] || cp run/$left again/sft
        run_tool grpo grpo.conf again
        expect 0
        state again | diff want -
    done
    grpo --dry-run grpo.conf other >script
    PATH=$MINT_BIN:$PATH sh -e script
    state other | diff want -
}

@test "demonstrations: what is wrong is said before anything works; what they made is not mixed with other words" {
    taught 1 >good
    while IFS='|' read -r change want; do
        sed "$change" good >grpo.conf
        run_tool grpo grpo.conf
        expect 1
        has "$stderr" "$want"
        [ ! -e run/ckpt ]
    done <<'END'
/^demonstrations =/d|sft.* and demonstrations.* are for demonstrations, which are not there
s/shown.jsonl/none.jsonl/|demonstrations = none.jsonl cannot be read
s/sft.lr/sft.loss/|sft.loss is set by grpo.sh itself
s/sft.lr = .*/sft.lr = fast/|nothing was started: grpo.conf is not right for mint-train
s/demonstrations.append-eos/demonstrations.endless/|nothing was started: grpo.conf is not right for mint-sample
$s/.*/train.schedule = linear/|train.schedule needs train.total-steps
END
    cp good grpo.conf
    echo '{"id":"d3","prompt":"3"}' >>shown.jsonl
    run_tool grpo grpo.conf
    expect 1
    has "$stderr" 'shown.jsonl:3: the record has no field "said" (--given)'
    # corrected: nothing of it is there yet
    sed -i 3d shown.jsonl
    run_tool grpo grpo.conf
    expect 0
    echo '{"id":"d3","prompt":"3","said":"x"}' >>shown.jsonl
    run_tool grpo grpo.conf
    expect 1
    has "$stderr" 'demonstrations-sha256'
}

@test "preferences by dpo.sh: pairs, a checkpoint, measurements that an independent program confirms; resumed, the same bytes" {
    for i in 1 2 3 4 5 6; do
        printf '{"id":"p%d","prompt":"%d?","chosen":["yes %d","sure"],"rejected":"no"}\n' $i $i $i
    done >pairs.jsonl
    printf '%s\n' 'model = model' 'pairs = pairs.jsonl' 'eval.pairs = pairs.jsonl' 'run = run' 'train.lr = 1e-2' 'train.epochs = 4' \
        'train.batch-size = 4' 'train.beta = 0.5' 'adapter.rank = 2' >dpo.conf
    run_tool "$MINT_ROOT/pipelines/dpo.sh" dpo.conf
    expect 0
    has "$stderr" 'mint-advantage: 6 groups (6 mixed, 0 flat good, 0 flat bad), 18 sequences -> 12 pairs'
    [ "$(jq .step run/ckpt/1/trainer_state.json)" -eq 24 ]
    # by the trainer's own logprobs of the same Datums
    for ck in '' ckpt/1; do
        mint-train -m model ${ck:+--from run/$ck} --forward-only --plain run/datums.jsonl.zst |
            jq -s '[.[].loss_fn_outputs.logprobs.data | add] | [range(0; length; 2) as $i | .[$i] - .[$i + 1]]' >margins${ck#ckpt/}
    done
    jq -rn --slurpfile a margins --slurpfile b margins1 'def r: . * 10000 | round / 10000;
        $b[0] | "\(map(select(. > 0)) | length / 12 | r) \(add / 12 | r) \([., $a[0]] | transpose | map(0.5 * (.[0] - .[1])) | add / 12 | r)"' >want
    awk '{ v[$1 $2] = $NF } $1 == "accuracy" { a = $2 } $1 == "margin" { m = $2 } END { print a, m, v["rewardmargin"] }' \
        run/eval/0001.txt | awk 'NR == FNR { split($0, w); next } { for (i = 1; i <= 3; i++) if (($i - w[i]) ^ 2 > 1e-6) exit 1 }' want -
    [ "$(awk '/^reward accuracy/ { print $3 }' run/eval/0001.txt)" = 1 ]
    state run >want
    run_tool "$MINT_ROOT/pipelines/dpo.sh" dpo.conf
    expect 0
    state run | diff want -
    rm -r run/ckpt/1 run/eval/0001.*
    run_tool "$MINT_ROOT/pipelines/dpo.sh" dpo.conf
    expect 0
    state run | diff want -
    "$MINT_ROOT/pipelines/dpo.sh" --dry-run dpo.conf other >script
    PATH=$MINT_BIN:$PATH sh -e script
    same run/ckpt/1/adapter_model.safetensors other/ckpt/1/adapter_model.safetensors
    # from the checkpoint on, which is then the reference
    sed 's/^adapter.*/start = run\/ckpt\/1/; s/= run$/= more/' dpo.conf >more.conf
    run_tool "$MINT_ROOT/pipelines/dpo.sh" more.conf
    expect 0
    jq -es 'map(select(.tool == "mint-train"))[0]["dpo/margin"] == 0' more/metrics.jsonl
    same more/eval/0000.jsonl.zst run/eval/0001.jsonl.zst
}

@test "dpo.sh: what is wrong is said before anything works" {
    echo '{"prompt":"a","chosen":"b","rejected":"c"}' >pairs.jsonl
    printf '%s\n' 'model = model' 'pairs = pairs.jsonl' 'run = run' 'train.lr = 1e-2' >good
    while IFS='|' read -r change want; do
        sed "$change" good >dpo.conf
        run_tool "$MINT_ROOT/pipelines/dpo.sh" dpo.conf
        [ "$status" -ne 0 ]
        has "$stderr" "$want"
        [ ! -e run ]
    done <<'END'
/^pairs/d|dpo.conf: pairs is missing
/^model/d|dpo.conf: model is missing
s/pairs.jsonl/nowhere/|pairs = nowhere cannot be read
/^run/d|name a run folder
s/train.lr = .*/train.loss = ppo/|train.loss is dpo
s/train.lr = .*/score = number/|score is no name that dpo.sh knows
s/train.lr = .*/train.lr = x/|dpo.conf is not right for mint-train
s/train.lr = .*/pairs.norm = std/|dpo.conf is not right for mint-advantage
s/train.lr = .*/sample.temperature = 1/|dpo.conf is not right for mint-sample
s/train.lr = .*/eval.pairs = nowhere/|eval.pairs = nowhere cannot be read
END
    cp good dpo.conf
    run_tool "$MINT_ROOT/pipelines/dpo.sh" -q dpo.conf
    expect 0
    [ -z "$stderr" ]
    echo '{"prompt":"a","chosen":"b","rejected":"d"}' >>pairs.jsonl
    run_tool "$MINT_ROOT/pipelines/dpo.sh" dpo.conf
    expect 1
    has "$stderr" 'begun with another conf'
}

@test "the demo refuses a folder that exists, and says how it is used" {
    mkdir there
    run_tool "$MINT_ROOT/pipelines/demo/run.sh" there
    expect 1
    has "$stderr" "name a folder that does not exist"
    run_tool "$MINT_ROOT/pipelines/demo/run.sh" --help
    expect 0
    has "$output" "usage: demo/run.sh"
}

@test "the examples of mint-pipeline(7) run" {
    tiny_world world
    cd world
    awk '/^\.Sh/ { on = $2 == "EXAMPLES" } !on { next } /^\.Bd/ { n++; block = 1; next } /^\.Ed/ { block = 0 }
        block { gsub(/\\e/, "\\"); print >n ".sh" } /^\.Dl/ { n++; print substr($0, 5) >n ".sh" }' "$MINT_ROOT/pipelines/mint-pipeline.7"
    PATH=$MINT_ROOT/pipelines:$PATH
    [ "$(cat ./*.sh | wc -l)" -gt 15 ]
    for n in 1 2 3 4 5 6 7; do
        bash -euo pipefail $n.sh >out.$n || fail "example $n"
    done
    [ "$(wc -l <out.6)" -eq 2 ]
    [ -e preferences/run/ckpt/1 ] && [ -e products/run/ckpt/0 ]
    [ -e there/run/ckpt/1 ] || [ -e there/run/step-0001/skipped ]
    [ -e run/ckpt/2 ] && [ -e trained/config.json ]
}

dynamic_conf() {
    conf 3 | grep -v '^sample.stop\|^score'
    printf '%s\n' 'dynamic.groups = 3' 'dynamic.max-waves = 3' 'sample.shuffle-seed = 1' 'score = regex' \
        'score.pattern = [a-c]'
}

ids() {
    zstd -dcq "$1/rollouts.jsonl.zst" | jq -r .id
}

kept() {
    zstd -dcq "$1/datums.jsonl.zst" | jq -r .meta.group | sort -u | wc -l
}

@test "dynamic sampling draws waves until enough groups are mixed, or the waves are used up" {
    dynamic_conf >dynamic.conf
    run_tool grpo dynamic.conf
    expect 0
    local step slice=0 waves
    for step in run/step-000[123]; do
        waves=$(find "$step" -name 'wave-*' | wc -l)
        slice=$((slice + waves))
        [ "$(cat "$step/next-slice")" -eq $slice ]
        # no prompt twice, and no wave after the one that was enough
        [ -z "$(for wave in "$step"/wave-*; do ids "$wave"; done | sort | uniq -d)" ]
        [ "$waves" -eq 1 ] || [ "$(kept "$step/wave-0$((waves - 1))")" -lt 3 ]
        [ "$(kept "$step/wave-0$waves")" -eq 3 ] || [ "$waves" -eq 3 ]
    done
    # this run has both kinds of steps, and one with an epoch's end in it
    has "$stderr" 'of 3 groups gave datums in 3 waves, the most that dynamic.max-waves allows'
    [ $slice -lt 9 ]
    [ $((slice * 2)) -gt 8 ]
}

@test "a dynamic run that is killed in a wave, and one that was not, end with the same bytes" {
    dynamic_conf >dynamic.conf
    grpo -q dynamic.conf whole
    local tool
    for tool in sample score advantage train; do
        mkdir -p fake
        printf '#!/bin/sh\nn=$(cat n 2>/dev/null || echo 0)\necho $((n + 1)) >n\n[ $n -lt 2 ] || kill -9 $PPID\nexec %s "$@"\n' \
            "$MINT_BIN/mint-$tool" >"fake/mint-$tool"
        chmod +x "fake/mint-$tool"
        for other in sample score advantage train; do
            [ $other = $tool ] || ln -sf "$MINT_BIN/mint-$other" "fake/mint-$other"
        done
        rm -rf n run
        MINT_BIN=$PWD/fake run_tool grpo -q dynamic.conf
        [ "$status" -ne 0 ]
        sleep 0.2
        run_tool grpo -q dynamic.conf
        expect 0
        diff <(state whole) <(state run) || fail "killed in mint-$tool: other bytes"
        rm -rf fake
    done
}

@test "wrong words about dynamic sampling are refused before anything is drawn" {
    dynamic_conf | sed 's/^dynamic.max-waves.*/dynamic.max-waves = 0/' >bad.conf
    run_tool grpo bad.conf
    expect_error 1 'dynamic.max-waves = 0 would never draw anything'
    dynamic_conf | grep -v dynamic.groups >bad.conf
    run_tool grpo bad.conf
    expect_error 1 'dynamic.max-waves is for dynamic.groups, which is not there'
    [ ! -e run ]
}

turns_conf() {
    conf 2 | grep -v '^score'
    cat >always.sh <<'END'
#!/bin/sh
exec jq -c '.sequences |= map(.observation = "=;")'
END
    chmod +x always.sh
    printf '%s\n' 'environment = ./always.sh' 'environment.turns = 3' 'eval.every = 2' 'eval.prompts = prompts.jsonl' \
        'sample.shuffle-seed = 3' 'score = regex' 'score.pattern = [a-e]'
}

@test "an environment answers between the turns; a run of turns goes on where it was killed" {
    turns_conf >turns.conf
    run_tool grpo turns.conf whole
    expect 0
    for f in whole/step-0001/rollouts whole/eval/0002; do
        [ "$(zstd -dcq $f.jsonl.zst | jq '.sequences[] | .turns' | sort -u)" -eq 3 ]
        [ "$(zstd -dcq $f-turn1.jsonl.zst | jq -c '[.id, .sequences[].tokens]')" = \
            "$(zstd -dcq $f.jsonl.zst | jq -c '[.id, (.sequences[] | .logprobs as $l | .tokens[:($l | index(null))])]')" ]
    done
    jq -es 'map(select(.tool == "mint-train")) | length == 2 and all(.[]; .["optim/ratio_max"] == 1)' whole/metrics.jsonl
    # the commands of a dry run do the same
    grpo -n turns.conf run | grep -v '^#' >commands
    sh -eu commands
    diff <(state whole) <(state run)
    # killed at any stage
    local n=1
    while [ $n -le 9 ]; do
        rm -rf run
        printf '#!/bin/sh\nn=$(cat n)\necho $((n - 1)) >n\n[ $n -gt 0 ] || kill -9 $PPID\nexec %s "$@"\n' "$MINT_BIN/mint-sample" >killer
        mkdir -p fake && mv killer fake/mint-sample && chmod +x fake/mint-sample
        for other in score advantage train; do ln -sf "$MINT_BIN/mint-$other" fake/; done
        echo $((n + 3)) >n # four calls check the options
        MINT_BIN=$PWD/fake run_tool grpo -q turns.conf run
        sleep 0.1
        run_tool grpo -q turns.conf run
        expect 0
        diff <(state whole) <(state run) || fail "killed at $n: other bytes"
        n=$((n + 4))
    done
}

@test "an environment that fails stops the run, and what is wrong about it is said at once" {
    turns_conf >turns.conf
    printf '#!/bin/sh\nhead -c 100\nexit 1\n' >always.sh
    run_tool grpo turns.conf
    expect 1
    has "$stderr" 'run/eval/0000-turn1-answered.jsonl could not be made'
    [ ! -e run/eval/0000-turn1-answered.jsonl ]
    sed 's/^environment =.*/environment = .\/nowhere/' turns.conf >bad.conf
    run_tool grpo bad.conf other
    expect_error 1 'environment = ./nowhere is no program'
    grep -v '^environment =' turns.conf >bad.conf
    run_tool grpo bad.conf other
    expect_error 1 'environment.* is for an environment, which is not there'
    echo 'environment.group-size = 3' | cat turns.conf - >bad.conf
    run_tool grpo bad.conf other
    expect 1
    has "$stderr" '--group-size goes with a run that begins responses'
    [ ! -e other ]
}

@test "the calculator answers calls and nothing else" {
    local in='{"n":1e3,"sequences":[{"text":"<12*7>"},{"text":"<1*2>2;<2-5>"},{"text":"<1/2>"},{"text":"84","x":[null]},{"text":">"},{"text":"<1+1> "}]}'
    [ "$("$MINT_ROOT/pipelines/calculator/calculator.jq" <<<"$in" | jq -c '[.sequences[].observation]')" = \
        '["84;","-3;","error;",null,"error;",null]' ]
    [ "$("$MINT_ROOT/pipelines/calculator/calculator.jq" <<<"$in" | jq -c '.sequences[3]')" = '{"text":"84","x":[null]}' ]
}

@test "the run with the calculator goes from nothing to checkpoints, and resumes" {
    run_tool "$MINT_ROOT/pipelines/calculator/run.sh" work 320 2
    expect 0
    [ "$(grep -c accuracy <<<"$output")" -eq 2 ]
    zstd -dcq work/run/step-0002/rollouts.jsonl.zst | jq -es 'any(.[].sequences[]; .turns == 2 or .turns == null)'
    find work -type f ! -name lock ! -name 'metrics.jsonl' ! -name grpo.conf -printf '%p %i %T@\n' | sort >before
    run_tool "$MINT_ROOT/pipelines/calculator/run.sh" work 320 2
    expect 0
    find work -type f ! -name lock ! -name 'metrics.jsonl' ! -name grpo.conf -printf '%p %i %T@\n' | sort >after
    same before after
}

@test "plot.sh draws the curves of runs, and of others beside them" {
    command -v gnuplot >/dev/null || skip "no gnuplot"
    mkdir -p "it's/eval"
    printf '%s\n' '{"stage":"step-0001/wave-01/datums","tool":"mint-advantage","reward/mean":0.25}' \
        '{"stage":"step-0001/wave-02/datums","tool":"mint-advantage","reward/mean":0.5}' \
        '{"stage":"step-0002/datums","tool":"mint-advantage","reward/mean":-7.5e-1}' >"it's/metrics.jsonl"
    echo 'accuracy  0.5000   95% interval' >"it's/eval/0002.txt"
    printf 'reward 1 0.1\nreward 2 0.2\n' >peer
    run_tool "$MINT_ROOT/pipelines/plot.sh" "it's" 'peer $(touch bad)=peer'
    expect 0
    has "$(cat "it's/curves.svg")" "it's</"
    has "$(cat "it's/curves.svg")" 'peer $(touch bad)</'
    has "$(cat "it's/curves.svg")" 'accuracy, held out'
    [ ! -e bad ]
    run_tool "$MINT_ROOT/pipelines/plot.sh" nowhere
    expect_error 1 'nowhere is no run folder'
    mkdir empty && : >empty/metrics.jsonl
    run_tool "$MINT_ROOT/pipelines/plot.sh" empty
    expect_error 1 'there is nothing to draw'
    run_tool "$MINT_ROOT/pipelines/plot.sh"
    expect 2
}

# What a scheduler would do: a job array of so many tasks, one after the other, the script being a copy elsewhere.
stand_in_sbatch() {
    mkdir -p bin spool
    cat >bin/sbatch <<'END'
#!/bin/sh
set -eu
array='' parsable=''
while :; do
    case $1 in
    --parsable) parsable=1 ;;
    --array=*) array=${1#--array=} ;;
    --dependency=afterok:*) [ -e "spool/${1#--dependency=afterok:}.ok" ] || exit 1 ;;
    *) break ;;
    esac
    shift
done
job=$(($(cat spool/last 2>/dev/null || echo 100) + 1))
echo $job >spool/last
cp "$1" spool/slurm_script
shift
if [ -z "$array" ]; then
    SLURM_JOB_ID=$job SLURM_PROCID=0 SLURM_NTASKS=1 sh spool/slurm_script "$@"
else
    first=${array%-*} last=${array#*-}
    i=$first
    while [ "$i" -le "$last" ]; do
        SLURM_ARRAY_TASK_ID=$i SLURM_ARRAY_TASK_COUNT=$((last - first + 1)) SLURM_ARRAY_TASK_MIN=$first \
            SLURM_ARRAY_TASK_MAX=$last sh spool/slurm_script "$@"
        i=$((i + 1))
    done
fi
touch "spool/$job.ok"
[ -z "$parsable" ] || echo $job
END
    chmod +x bin/sbatch
    PATH=$PWD/bin:$PATH
}

@test "shard.sh: parts by a Slurm array, by Open MPI's ranks and by hand are the records of one process" {
    local SHARD=$MINT_ROOT/pipelines/shard.sh i
    mint-sample --model model prompts.jsonl --plain >whole
    stand_in_sbatch
    jobs=$(sbatch --parsable --array=0-2 "$SHARD" out.zst --model model prompts.jsonl)
    [ -e out.zst.part-2-of-3 ]
    sbatch "--dependency=afterok:$jobs" "$SHARD" --join 3 out.zst
    zstd -dcq out.zst | cmp - whole
    no_leftovers out.zst.part-0-of-3
    # a part that is there stays; a missing one is said, and drawn by hand
    for i in 0 2; do
        OMPI_COMM_WORLD_RANK=$i OMPI_COMM_WORLD_SIZE=3 "$SHARD" b.zst --model model prompts.jsonl
    done
    run_tool "$SHARD" --join 3 b.zst
    expect_error 1 'b.zst.part-1-of-3 is missing: draw part 1/3 again'
    ls -i b.zst.part-0-of-3 >before
    MINT_SHARD=1/3 "$SHARD" b.zst --model model prompts.jsonl
    MINT_SHARD=0/3 "$SHARD" b.zst --model model prompts.jsonl
    ls -i b.zst.part-0-of-3 | cmp - before
    "$SHARD" --join 3 b.zst
    zstd -dcq b.zst | cmp - whole
    # a part that was cut
    MINT_SHARD=0/1 "$SHARD" c.zst --model model prompts.jsonl
    truncate -s -9 c.zst.part-0-of-1
    run_tool "$SHARD" --join 1 c.zst
    expect 1
    has "$stderr" 'a part is not whole'
    [ ! -e c.zst ]
    run_tool "$SHARD" d.zst --model model prompts.jsonl
    expect_error 1 'which part? set MINT_SHARD=I/N'
    run_tool sbatch --array=1-2 "$SHARD" d.zst --model model prompts.jsonl
    expect 1
    has "$stderr" 'the array has to be 0 to N-1'
}

@test "shard.sh under mpirun and GNU parallel" {
    local SHARD=$MINT_ROOT/pipelines/shard.sh tried=
    mint-sample --model model prompts.jsonl --plain >whole
    if command -v mpirun >/dev/null; then
        tried=1
        mpirun --allow-run-as-root --oversubscribe -n 2 "$SHARD" m.zst --model model prompts.jsonl
        "$SHARD" --join 2 m.zst
        zstd -dcq m.zst | cmp - whole
    fi
    if parallel --version 2>&1 | grep -q GNU; then
        tried=1
        seq 0 1 | parallel --will-cite "MINT_SHARD={}/2 '$SHARD' p.zst --model model prompts.jsonl"
        "$SHARD" --join 2 p.zst
        zstd -dcq p.zst | cmp - whole
    fi
    [ -n "$tried" ] || skip "neither mpirun nor GNU parallel"
}

#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# start.sh: the shipped runs, each on a random model.
load helpers

setup() {
    enter_scratch
    need mint-init mint-sample mint-score mint-advantage mint-train
    mint-init -q --to model
}

START=$MINT_ROOT/pipelines/start.sh
small='steps=1 sample.max-tokens=8 sample.group-size=2 sample.groups-per-batch=2'

# start KIND NAME=VALUE...: in the folder here
start() {
    local kind=$1
    shift
    # shellcheck disable=SC2086
    run_tool "$START" "$kind" model here $small advantage.keep-flat=yes "$@"
}

@test "math: right or wrong, the form, the length" {
    start math eval.every=1 eval.max-tokens=2 score3.buffer=4
    expect 0
    [ -d here/run/ckpt/1 ]
    [ "$(zstd -dcq here/run/step-0001/scored.jsonl.zst | head -n 1 | jq -c '.sequences[0].scores | keys')" = '["format","math","overlong"]' ]
    has "$(cat here/run/eval/0001.txt)" accuracy
    # what the command line set stands in the conf, once
    [ "$(grep -c '^sample.max-tokens = 8$' here/grpo.conf)" -eq 1 ]
    [ "$(grep -c '^sample.max-tokens' here/grpo.conf)" -eq 1 ]
    # the run goes on by grpo.sh, and has nothing to do
    run_tool "$MINT_ROOT/pipelines/grpo.sh" here/grpo.conf
    expect 0
    start math
    expect_error 1 'was begun before'
}

@test "addition: sums, and no prompt for both training and measurement" {
    start addition eval.max-tokens=2
    expect 0
    [ -d here/run/ckpt/1 ]
    has "$(cat here/run/eval/0001.txt)" accuracy
    jq -es 'length == 400 and (map(.id) | unique | length) == 400
        and all(.[]; (.id | split("+") | map(tonumber) | add | tostring) == .answer)' "$MINT_ROOT"/pipelines/addition/*.jsonl
}

@test "quickstart: the settings of MinT's, demonstrations first" {
    start quickstart
    expect 0
    # 10 supervised steps of 100 datums; SDK's Adam; then the loop
    [ "$(jq .step here/run/ckpt/0/trainer_state.json)" -eq 10 ]
    jq -es 'map(select(.stage == "sft/train")) | length == 10 and all(.[]; .datums == 100 and ."optim/lr" == 5e-5)' here/run/metrics.jsonl
    [ "$(zstd -dcq here/run/sft/rollouts.jsonl.zst | head -n 1 | jq -r .prompt)" = 'Question: What is 91 * 24?
Answer:' ]
    ls here/run/eval/base.txt here/run/eval/0001.txt
    # MinT's problems in its order, all products right, and none of the measurement among them
    jq -es 'all(.[]; (.prompt | capture("is (?<a>[0-9]+) [*] (?<b>[0-9]+)") | (.a | tonumber) * (.b | tonumber)) == (.answer | tonumber))' here/*.jsonl
    [ "$(cat here/*.jsonl | wc -l)" -eq 280 ]
    [ -z "$(jq -r .prompt here/eval.jsonl here/prompts.jsonl | sort | uniq -d | grep -v Answer)" ]
}

@test "sft-rl: demonstrations, then the loop; no problem both for training and for measurement" {
    start sft-rl sft.epochs=1
    expect 0
    ls -d here/run/ckpt/0 here/run/ckpt/1
    jq -es 'all(.[]; (.id | split("*") | map(tonumber) | .[0] * .[1] | tostring) == .answer)' here/*.jsonl
    jq -r .id here/eval.jsonl | sort >a
    jq -r .id here/prompts.jsonl here/demonstrations.jsonl | sort -u >b
    [ "$(wc -l <a)" -eq 100 ] && [ "$(wc -l <b)" -eq 261 ] && [ -z "$(comm -12 a b)" ]
}

@test "dpo: preferences rendered by the chat template, measured before and after" {
    run_tool "$START" dpo model here
    expect 0
    # 32 pairs, 8 a step, a learning rate that falls
    jq -es 'map(select(.tool == "mint-train")) | length == 4 and all(.[]; ."dpo/pairs" == 8) and .[0]."optim/lr" > .[3]."optim/lr"
        and .[0]."dpo/margin" == 0' here/run/metrics.jsonl
    for f in 0000 0001; do awk '/^(accuracy|margin|reward accuracy|reward margin|pairs) / { n++ } END { exit n != 5 }' here/run/eval/$f.txt; done
    zstd -dcq here/run/rollouts.jsonl.zst | jq -es 'all(.[]; .prompt | contains("user"))'
    run_tool "$START" dpo model here
    expect_error 1 'go on with dpo.sh'
    run_tool "$START" dpo model there train.momentum=1
    expect 1
    has "$stderr" 'not right for mint-train'
}

@test "dpo/rows.jq takes the forms in which preferences are published, and says which row is none" {
    cat >rows.jsonl <<'END'
{"prompt":"a","chosen":"b","rejected":"c"}
{"prompt":[{"role":"user","content":"q"}],"chosen":[{"role":"assistant","content":"b"}],"rejected":[{"role":"assistant","content":"c"}]}
{"pair_id":"p","messages":[{"role":"user","content":"q"}],"chosen":[{"role":"assistant","content":"b"}],"rejected":[{"role":"assistant","content":"c"}],"group_id":"g"}
{"prompt":"q","prompt_id":"u","chosen":[{"role":"user","content":"q"},{"role":"assistant","content":"b"}],"rejected":[{"role":"user","content":"q"},{"role":"assistant","content":"c"}],"messages":[{"role":"user","content":"q"},{"role":"assistant","content":"b"}]}
{"chosen":"\n\nHuman: q\nand r\n\nAssistant: a\n\nHuman: more\n\nAssistant: b","rejected":"\n\nHuman: q\nand r\n\nAssistant: a\n\nHuman: more\n\nAssistant: c"}
{"conversations":[{"from":"human","value":"q"}],"chosen":{"from":"gpt","value":"b"},"rejected":{"from":"gpt","value":"c"}}
{"comparison":{"prompt_conversation":[{"role":"user","content":"q"}],"completion_A":[{"role":"assistant","content":"c"}],"completion_B":[{"role":"assistant","content":"b"}]},"label":"B"}
END
    jq -ncf "$MINT_ROOT/pipelines/dpo/rows.jq" rows.jsonl >out
    jq -es 'map(.id) == ["pair-1","pair-2","p","u","pair-5","pair-6","pair-7"] and all(.[]; .chosen == "b" and .rejected == "c")
        and .[0].prompt == "a" and all(.[1, 2, 3, 5, 6]; .messages == [{role: "user", content: "q"}])
        and .[4].messages == [{role: "user", content: "q\nand r"}, {role: "assistant", content: "a"}, {role: "user", content: "more"}]' out
    while IFS='|' read -r row want; do
        run_tool jq -ncf "$MINT_ROOT/pipelines/dpo/rows.jq" <<<"$row"
        expect 5
        has "$stderr" "row 1: $want"
    done <<'END'
[1]|no object
{"chosen":"b","rejected":"c"}|no prompt
{"prompt":"a","chosen":3,"rejected":"c"}|chosen is no answer
{"prompt":"a","chosen":"b"}|rejected is no answer
{"chosen":[{"role":"user","content":"q"},{"role":"assistant","content":"b"}],"rejected":[{"role":"user","content":"z"},{"role":"assistant","content":"c"}]}|chosen and rejected do not begin with the same prompt
END
}

@test "chat: the model judges itself" {
    start chat
    expect 0
    [ -d here/run/ckpt/1 ]
    zstd -dcq here/run/step-0001/scored.jsonl.zst | jq -e '[.sequences[].detail.judge.score | . >= 1 and . <= 5] | all'
}

@test "chat: comparisons; replies that are no verdict do not stop a run" {
    start chat score.mode=pairwise score.allow-null=yes score.max-tokens=2 score.expected= score.scale=
    expect 0
    lacks "$(cat here/grpo.conf)" 'score.scale ='
    has "$stderr" 'not all of it'
    [ -e here/run/step-0001/scored.jsonl.zst ]
}

@test "code: programs in the sandbox" {
    printf '%s\n' '{"id":"a","language":"sh","tests":[{"stdin":"","stdout":"1\n"}],"sequences":[{"text":"```sh\necho 1\n```"}]}' >r.jsonl
    mint-score code r.jsonl >/dev/null 2>&1 || skip "no sandbox here"
    start code
    expect 0
    [ "$(zstd -dcq here/run/step-0001/scored.jsonl.zst | head -n 1 | jq -c '.sequences[0].scores | keys')" = '["code","format"]' ]
}

@test "dapo-aime: rows of two kinds, waves, the answer line, shaping, std advantages, clip-higher" {
    start dapo-aime score2.buffer=4 dynamic.groups=1 dynamic.max-waves=2 eval.max-tokens=4 eval.group-size=2
    expect 0
    [ -d here/run/ckpt/1 ]
    local wave
    wave=$(echo here/run/step-0001/wave-*/ | awk '{ print $NF }')
    zstd -dcq "$wave/scored.jsonl.zst" | jq -es 'all(.[]; (.question as $q | .prompt | contains("Solve this problem") and contains($q))
        and (.sequences[0].scores | keys) == ["math","overlong"])'
    zstd -dcq "$wave/datums.jsonl.zst" | jq -es 'all(.[]; .meta.norm == "std")'
    jq -es 'map(select(.tool == "mint-train"))[-1]' here/run/metrics.jsonl
    has "$(cat here/run/eval/0001.txt)" 'pass@2'
    # AIME rows
    jq -es 'length == 6 and all(.[]; keys == ["answer","id","question"])' here/eval.jsonl
}

@test "rows.jq takes the published rows, short ones and AIME, each problem once" {
    cat >rows.jsonl <<'END'
{"prompt":[{"role":"user","content":"Solve the following math problem step by step. Etc.\n\nWhat is 1+1?\n\nRemember to put your answer on its own line after \"Answer:\"."}],"reward_model":{"ground_truth":"2"},"extra_info":{"index":"u-1"}}
{"prompt":[{"role":"user","content":"again"}],"reward_model":{"ground_truth":"2"},"extra_info":{"index":"u-1"}}
{"id":7,"question":"What is 2+2?","answer":4,"source":"x"}
{"ID":"2024-I-1","Problem":"What is 3+3?","Answer":6,"Solution":"six"}
END
    jq -ncf "$MINT_ROOT/pipelines/dapo-aime/rows.jq" rows.jsonl >out
    diff out - <<'END'
{"id":"u-1","question":"What is 1+1?","answer":"2"}
{"id":7,"question":"What is 2+2?","answer":"4"}
{"id":"2024-I-1","question":"What is 3+3?","answer":"6"}
END
}

@test "wrong use" {
    run_tool "$START" poetry model here
    expect_error 2 'there is no poetry'
    run_tool "$START" math nowhere here
    expect_error 1 'nowhere is no model folder'
    run_tool "$START" math model here steps
    expect_error 2 'NAME=VALUE'
    run_tool "$START" math model here no.such=1
    expect 1
    has "$stderr" 'no name that grpo.sh knows'
    run_tool "$START" --help
    expect 0
}

@test "the shipped prompts and confs are what they should be" {
    for f in "$MINT_ROOT"/pipelines/{addition,math,chat,code,quickstart,sft-rl}/*.jsonl; do
        jq -es 'length >= 10 and (map(.id) | unique | length) == length and all(.prompt | length > 0)' "$f"
    done
    # no problem of the measurement is one of the training
    [ -z "$(jq -r .prompt "$MINT_ROOT"/pipelines/math/{prompts,eval}.jsonl | sort | uniq -d | grep -v '^Give the final')" ]
}

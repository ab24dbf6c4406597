#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# Several turns: an environment's observations between what the policy draws, and what the later stages make of them.
load helpers

setup_file() {
    export FILE_DIR=$BATS_FILE_TMPDIR
    [ -x "$MINT_BIN/mint-sample" ] || return 0
    cd "$FILE_DIR" || return 1
    PATH=$MINT_BIN:$PATH
    mint-init --to model --preset tiny
    for i in 1 2 3 4 5; do
        printf '{"id":"p%d","prompt":"Q: %d + 5?\\nA:","answer":"%d"}\n' "$i" "$i" $((i + 5))
    done >prompts.jsonl
    mint-sample --model model -n 3 --max-tokens 5 prompts.jsonl --plain >first.jsonl
}

setup() {
    enter_scratch
    need mint-train mint-sample mint-advantage mint-init
    for f in model prompts.jsonl first.jsonl; do ln -s "$FILE_DIR/$f" $f; done
}

goes_on() {
    mint-sample --model model --plain --continue --max-tokens 5 "$@"
}

# observe TEXT: to every sequence that was cut
observe() {
    jq -c --arg t "$1" '.sequences |= map(if .stop_reason == "length" then .observation = $t else . end)'
}

responses() {
    jq -c '[.id, (.sequences[] | [.tokens, .logprobs, .stop_reason])]' "$1"
}

@test "turns without observations are the bytes of one long response" {
    observe '' <first.jsonl | goes_on >two.jsonl
    observe '' <two.jsonl | goes_on >three.jsonl
    mint-sample --model model -n 3 --max-tokens 15 prompts.jsonl --plain >long.jsonl
    diff <(responses three.jsonl) <(responses long.jsonl)
    [ "$(jq -s '[.[].sequences[].turns // 1] | max' three.jsonl)" -eq 3 ]
}

@test "an observation is tokens without logprobs; sequences without one pass as they are" {
    jq -c '.extra = 1.50 | .sequences[1].observation = "= 9;" | .sequences[2].observation = null' first.jsonl >in.jsonl
    run_tool goes_on in.jsonl -o out.jsonl --metrics m.jsonl
    expect 0
    [ "$(jq '.turns, .turns_cut' m.jsonl | paste -sd,)" = 5,0 ]
    for i in 0 2; do
        diff <(jq -c ".sequences[$i]" in.jsonl) <(jq -c ".sequences[$i]" out.jsonl)
    done
    diff <(jq -c 'del(.sequences)' in.jsonl) <(jq -c 'del(.sequences)' out.jsonl)
    # tokens and logprobs of before, then those of "= 9;", which the byte tokenizer gives, then at most five
    jq -es --slurpfile in in.jsonl '[., $in] | transpose | all(.[]; .[1].sequences[1] as $old | .[0].sequences[1] as $s |
        ($old.tokens | length) as $n | $s.tokens[:$n] == $old.tokens and $s.logprobs[:$n] == $old.logprobs
        and $s.tokens[$n:$n + 4] == [61, 32, 57, 59] and $s.logprobs[$n:$n + 4] == [null, null, null, null]
        and ($s.logprobs[$n + 4:] | length > 0 and length <= 5 and all(.[]; type == "number"))
        and ($s.tokens | length) == ($s.logprobs | length) and $s.turns == 2 and $s.observation == null
        and ($s.text | startswith($old.text + "= 9;")))' out.jsonl
    # the same by tokens
    jq -c '.sequences |= map(if .observation then .observation_tokens = [61, 32, 57, 59] | del(.observation) else . end)' \
        in.jsonl | goes_on >tokens.jsonl
    diff <(responses out.jsonl) <(responses tokens.jsonl)
}

@test "the same bytes whatever runs beside" {
    observe ' x;' <first.jsonl >in.jsonl
    goes_on in.jsonl >want.jsonl
    for o in '--batch 1' '--batch 4 -T 1' '--micro-tokens 7 -T 3'; do
        # shellcheck disable=SC2086
        goes_on $o in.jsonl | cmp - want.jsonl
    done
    tac in.jsonl | goes_on | tac | cmp - want.jsonl
}

@test "trained on, observations weigh nothing, and every ratio is exactly 1" {
    observe '=9;' <first.jsonl | goes_on | observe '?' | goes_on |
        jq -c '.sequences |= [.[] | .reward = (.tokens[0] % 5)]' >scored.jsonl
    run_tool mint-advantage --keep-flat --plain scored.jsonl -o d.jsonl
    expect 0
    # weight 0, logprob 0 and advantage 0 where, and only where, the logprob is null
    jq -c '.sequences[] | [.logprobs[] | . == null]' scored.jsonl >null
    jq -c '.meta as $m | .loss_fn_inputs | (.weights.data | length) as $n | [.weights.data, .logprobs.data, .advantages.data]' \
        d.jsonl >t
    [ "$(wc -l <t)" -eq 15 ]
    jq -es --slurpfile mask null '[., $mask] | transpose | all(.[]; .[1] as $mask | ($mask | length) as $n |
        (.[0] | map(.[-$n:])) as [$w, $lp, $a] | [$mask, $w, $lp, $a] | transpose |
        all(.[]; if .[0] then .[1:] == [0, 0, 0] else .[1] == 1 and .[2] < 0 end))' t
    mint-train --model model --to c --rank 4 --metrics m.jsonl d.jsonl
    jq -e '.["optim/ratio_max"] == 1 and .["optim/ratio_min"] == 1 and .["optim/kl_sample_train_v2"] == 0' m.jsonl
    # what is observed has no share in a mean over tokens
    mint-advantage -q --plain --norm reinforce++ --length-norm batch scored.jsonl >whole.jsonl
    sampled=$(jq -s '[.[].sequences[].logprobs[] | select(. != null)] | length' scored.jsonl)
    [ "$(jq .meta.divisor whole.jsonl | sort -u)" -eq "$sampled" ]
    # supervised: the same mask
    mint-advantage -q --plain --sft scored.jsonl | jq -c .loss_fn_inputs.weights.data | cmp - <(jq -c .loss_fn_inputs.weights.data d.jsonl)
    # replay leaves it
    mint-sample --model model --replay --plain scored.jsonl | jq -c '.sequences[].logprobs' |
        cmp - <(jq -c '.sequences[].logprobs' scored.jsonl)
}

@test "control tokens in an observation are plain text unless they are allowed" {
    observe '<|im_end|>' <first.jsonl >in.jsonl
    goes_on in.jsonl | jq -es 'length == 5 and all(.[].sequences[]; .turns == null or (.logprobs | map(select(. == null)) | length == 10))'
    goes_on --allow-special in.jsonl | jq -es 'length == 5 and all(.[].sequences[]; .turns == null or (.logprobs | map(select(. == null)) | length == 1))'
}

@test "the budget of turns and the context end a response, and that is said" {
    observe '' <first.jsonl | goes_on | observe '.' >in.jsonl
    n=$(jq -s '[.[].sequences[].observation | select(. == ".")] | length' in.jsonl)
    [ "$n" -gt 0 ]
    run_tool goes_on --max-turns 2 in.jsonl -o out.jsonl
    expect 0
    has "$stderr" "$n responses end here: --max-turns, or the context's end"
    diff <(jq -c '.sequences |= map(if has("observation") then .observation = null else . end)' in.jsonl) <(jq -c . out.jsonl)
    goes_on --max-turns 3 in.jsonl | jq -es 'any(.[].sequences[]; .turns == 3)'
    context=$(jq .max_position_embeddings model/config.json)
    jq -c --argjson n "$context" '.sequences[0].observation_tokens = [range($n) | 65]' first.jsonl >in.jsonl
    run_tool goes_on in.jsonl -o full.jsonl
    expect 0
    has "$stderr" '5 responses end here'
    jq -es 'all(.[].sequences[0]; .stop_reason == "length" and (has("turns") | not))' full.jsonl
}

@test "what does not fit together is refused with its place" {
    local bad
    refused() {
        jq -c "$1" first.jsonl >in.jsonl
        run_tool goes_on in.jsonl
        expect_error 1 "mint-sample: in.jsonl:1: s"
        has "$stderr" "$2"
    }
    refused '.sequences[1].observation = 4' 'sequences[1].observation (column 386) must be a string or null'
    refused '.sequences[1].observation = "a" | .sequences[1].observation_tokens = [1]' 'stands beside observation: give one of them'
    refused '.sequences[0].observation_tokens = [100000]' 'has 100000 at element 0, outside the model'
    refused '.sequences[0].observation_tokens = "a"' 'sequences[0].observation_tokens'
    refused '.sequences[2] += {observation: "", logprobs: null}' 'has no logprobs: run mint-sample --replay first'
    refused '.sequences[2] += {observation: "", turns: 0}' 'must be a whole number of at least 1'
    refused '.sequences[0].logprobs[1] = "x"' 'must hold numbers of at most 0, and null for tokens that were not sampled; element 1 is neither'
    refused '.sequences[0].logprobs[1] = 0.5' 'sequences[0].logprobs'
    refused '.sequences[0].observation = "" | .sampling.adapter = "sha256:00"' 'is sha256:00, and now it is null: all turns'
    refused '.sequences[0].observation = "" | .sampling.logprobs = "behavior"' 'is behavior, and now it is policy'
    # where nothing goes on, another policy's rollouts pass
    jq -c '.sampling.adapter = "sha256:00"' first.jsonl >in.jsonl
    goes_on in.jsonl | cmp - in.jsonl
    # a bad group is skipped as a whole
    jq -c 'if .id == "p2" then .sequences[1].observation = 4 else . end' first.jsonl >in.jsonl
    run_tool goes_on --skip-bad in.jsonl
    expect 3
    [ "$(jq -r .id <<<"$output" | paste -sd,)" = p1,p3,p4,p5 ]
    for bad in '--continue --replay' '--continue --group-size 2' '--continue --chat' '--max-turns 3' '--continue --step 0' \
        '--continue --given answer' '--continue --dry-run' '--allow-special'; do
        # shellcheck disable=SC2086
        run_tool mint-sample --model model $bad first.jsonl
        expect 2
    done
}

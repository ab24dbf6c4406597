#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# mint-score math: answers compared as mathematics. Which ones are equal is the matter of tests/unit/test_math.c and
# its data; here it is records in, records out.
load helpers

setup() {
    enter_scratch
    need mint-score
}

# group GOLD TEXT...: a record of one group, on stdout; GOLD is JSON, the texts are not.
group() {
    local gold=$1
    shift
    jq -nc --argjson gold "$gold" '{id: "a", answer: $gold, sequences: [$ARGS.positional[] | {text: .}]}' --args "$@"
}

# judged OPTIONS...: rewards of in.jsonl, one line
judged() {
    mint-score math in.jsonl --plain "$@" | jq -c '[.sequences[].reward]' | tr -d '\n'
}

# details KEY: one line each
details() {
    mint-score math in.jsonl --plain "${@:2}" | jq -c ".sequences[].detail.math.$1"
}

@test "a reward, and what explains it" {
    group '"0.5"' '\boxed{3} no, \boxed{\frac12}' 'The answer is 1/2.' 'it is 0.50' '#### 2' 'no idea' '\boxed{1' >in.jsonl
    run_tool mint-score math in.jsonl --plain
    expect 0
    [ "$(jq -c '[.sequences[].reward]' <<<"$output")" = '[1,1,1,0,0,0]' ]
    [ "$(jq -c '[.sequences[].scores.math]' <<<"$output")" = '[1,1,1,0,0,0]' ]
    [ "$(jq -c '[.sequences[].detail.math.rule]' <<<"$output")" = '["boxed","phrase","last-number","hash","none","none"]' ]
    [ "$(jq -c '[.sequences[].detail.math.extracted]' <<<"$output")" = '["\\frac12","1/2","0.50","2",null,null]' ]
    [ "$(jq -c '.sequences[0].detail.math' <<<"$output")" = \
        '{"rule":"boxed","extracted":"\\frac12","gold":"0.5","n_boxed":2,"reason":"equal numbers"}' ]
    [ "$(jq -r '.sequences[5].detail.math.reason' <<<"$output")" = "the last box is not closed" ]
}

@test "gold answers: a solution, a box, a number, several" {
    {
        group '"She sells 9+9 = 18.\n#### 18"' '\boxed{18}' '\boxed{9}'
        group '"We find \\(\\boxed{\\sqrt{12}}\\)."' '\boxed{2\sqrt{3}}' '\boxed{12}'
        group 204 'Answer: 204' 'Answer: 20'
        group '["3", "x = 9"]' '\boxed{9}' '\boxed{6}'
    } >in.jsonl
    [ "$(judged)" = '[1,0][1,0][1,0][1,0]' ]
    sed 's/"answer"/"solution"/' in.jsonl >s.jsonl
    run_tool mint-score math s.jsonl --plain
    expect_error 1 'no "answer"'
    run_tool mint-score math --gold-field solution s.jsonl --plain
    expect 0
}

@test "a gold answer that says nothing is no wrong answer" {
    group '"\\boxed{}"' '\boxed{1}' >in.jsonl
    run_tool mint-score math in.jsonl --plain
    expect 1
    has "$stderr" "the last box is empty"
    run_tool mint-score math --allow-null in.jsonl --plain
    expect 3
    [ "$(jq -c '.sequences[0].reward' <<<"$output")" = null ]
}

@test "--strict, --extract and --one-box" {
    group '"7"' 'so 7' '\boxed{7}' 'The answer is 7.' '#### 7' '\boxed{6} or \boxed{7}' '7 or 8: the answer is 8' >in.jsonl
    [ "$(judged)" = '[1,1,1,1,1,0]' ]
    [ "$(judged --strict)" = '[0,1,1,1,1,0]' ]
    [ "$(judged --one-box)" = '[1,1,1,1,0,0]' ]
    [ "$(judged --extract boxed)" = '[0,1,0,0,1,0]' ]
    [ "$(judged --extract hash)" = '[0,0,0,1,0,0]' ]
    [ "$(judged --extract phrase)" = '[0,0,1,0,0,0]' ]
    [ "$(judged --extract last-number)" = '[1,1,1,1,1,0]' ]
    [ "$(judged --extract first-number)" = '[1,1,1,1,0,1]' ]
    [ "$(judged --extract whole)" = '[0,1,0,0,0,0]' ]
    run_tool mint-score math --extract nonsense in.jsonl --plain
    expect_error 2 "no --extract nonsense"
}

@test "--style: other people's rules" {
    group '"7"' 'Answer: 7' '\boxed{7}' '#### 7' '7 and 8' $'Answer: 8\nAnswer: 7\nso.' >in.jsonl
    [ "$(judged --style dapo)" = '[1,0,0,0,1]' ]
    [ "$(judged --style gsm8k)" = '[0,0,1,0,0]' ]
    [ "$(judged --style mint-quickstart)" = '[1,1,1,1,0]' ]
    [ "$(judged --style math)" = "$(judged)" ]
    run_tool mint-score math --style nonsense in.jsonl --plain
    expect_error 2 "no --style nonsense"
}

@test "a limit is said, and costs its neighbours nothing" {
    group '"5"' '\boxed{5}' '\boxed{10^{10^{10}}}' '\boxed{9^{9^{9^{9}}}}' "\\boxed{$(printf '9%.0s' $(seq 30000))}" \
        "\\boxed{$(printf '(%.0s' $(seq 50000))" '\boxed{5}' >in.jsonl
    [ "$(judged)" = '[1,0,0,0,0,1]' ]
    details reason >reasons
    [ "$(grep -c undecided reasons)" -eq 3 ]
    details extracted | awk '{ if (length($0) > 220) exit 1 }'
}

@test "any bytes of a response" {
    printf '%s\n' '{"id":1,"answer":"5","sequences":[{"text":""},{"text":"\u0000"},{"text":"\ufffd\\boxed{5}"},{"text":"\\boxed{5\u0000}"},{"text":"\\boxed{\"5\"}"}]}' >in.jsonl
    [ "$(judged)" = '[0,0,1,0,1]' ]
}

@test "equal numbers vote together" {
    group '"1/2"' '\boxed{0.5}' '\boxed{\frac{1}{2}}' '\boxed{2}' '\boxed{3}' '\boxed{2.0}' '\boxed{.50}' >in.jsonl
    run_tool mint-score math --summary in.jsonl
    expect 0
    grep -q '^majority  *1\.0000' <<<"$output" || fail "$output"
}

@test "same input, same bytes" {
    group '"\\sin^2 x + \\cos^2 x"' '\boxed{1}' '\boxed{x}' '\boxed{\cos^2 x + \sin^2 x}' >in.jsonl
    [ "$(judged)" = '[1,0,1]' ]
    mint-score math in.jsonl --plain >a
    cat in.jsonl in.jsonl | mint-score math --plain >b
    [ "$(head -n 1 b)" = "$(cat a)" ]
    [ "$(tail -n 1 b)" = "$(cat a)" ]
}

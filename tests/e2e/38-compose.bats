#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# mint-score: scorers made to be added to others, scores made again, and what the summary makes of them.
load helpers

setup() {
    enter_scratch
    need mint-score
}

rewards() {
    zstd -dcf "$1" | jq -c '[.sequences[].reward]' | tr -d '\n'
}

# lengths MAX N...: a record with responses of so many tokens, sampled with at most MAX
lengths() {
    local max=$1 sep=
    shift
    printf '{"id":"a","prompt_tokens":[1],"sampling":{"max_tokens":%s},"sequences":[' "$max"
    for n; do
        printf '%s{"tokens":[%s],"text":"t","reward":1}' "$sep" "$(seq -s, "$n")"
        sep=,
    done
    printf ']}\n'
}

# answers ID GOLD ANSWER...
answers() {
    local id=$1 gold=$2 sep=
    shift 2
    printf '{"id":"%s","answer":"%s","level":%s,"sequences":[' "$id" "$gold" "${level:-1}"
    for a; do
        printf '%s{"text":"%s","stop_reason":"stop"}' "$sep" "$a"
        sep=,
    done
    printf ']}\n'
}

@test "format: a pattern, an end, or both" {
    echo '{"id":"a","sequences":[{"text":"<b>1</b>","stop_reason":"stop"},{"text":"<b>1</b>","stop_reason":"length"},{"text":"1","stop_reason":"stop"}]}' >r.jsonl
    mint-score format --pattern '^<b>.*</b>$' r.jsonl -o a.zst
    [ "$(rewards a.zst)" = '[1,1,0]' ]
    mint-score format --need-stop r.jsonl -o b.zst
    [ "$(rewards b.zst)" = '[1,0,1]' ]
    mint-score format --pattern '^<b>.*</b>$' --need-stop r.jsonl -o c.zst
    [ "$(rewards c.zst)" = '[1,0,0]' ]
    [ "$(zstd -dcq c.zst | jq -c '.sequences[1].detail.format')" = '{"match":true,"stop":false}' ]
    run_tool mint-score format r.jsonl -o d.zst
    expect_error 2 '--pattern, --need-stop or both'
}

@test "weight and offset: a tenth less for what lacks its form" {
    { answers a 8 'so 8' '8' 'so 7' '7'; } >r.jsonl
    mint-score number r.jsonl | mint-score format --pattern '^so' --weight 0.1 --offset -1 -o s.zst
    [ "$(rewards s.zst)" = '[1,0.9,0,-0.1]' ]
    [ "$(zstd -dcq s.zst | jq -c '.sequences[1].scores')" = '{"number":1,"format":0}' ]
}

@test "overlong: falls over the last tokens before the limit" {
    lengths 100 79 80 85 90 99 100 101 >r.jsonl
    mint-score overlong --buffer 20 r.jsonl -o s.zst
    [ "$(rewards s.zst)" = '[1,1,0.75,0.5,0.050000000000000044,0,0]' ]
    mint-score overlong --buffer 20 --max 95 r.jsonl -o t.zst
    [ "$(rewards t.zst)" = '[0.8,0.75,0.5,0.25,0,0,0]' ]
    mint-score overlong --buffer 20 --weight 0.5 r.jsonl -o u.zst
    [ "$(rewards u.zst)" = '[1,1,0.875,0.75,0.525,0.5,0.5]' ]
    run_tool mint-score overlong r.jsonl -o v.zst
    expect_error 2 '--buffer'
    # a buffer longer than the limit is the limit
    mint-score overlong --buffer 101 r.jsonl -o w.zst
    mint-score overlong --buffer 100 r.jsonl -o x.zst
    [ "$(rewards w.zst)" = "$(rewards x.zst)" ]
}

@test "overlong --style dapo: what is longer has reward 0" {
    lengths 10 5 10 11 | sed 's/"reward":1/"reward":-0.5/g' >r.jsonl
    mint-score overlong --style dapo --buffer 40 r.jsonl -o s.zst
    [ "$(rewards s.zst)" = '[-1,-1.5,0]' ]
    [ "$(zstd -dcq s.zst | jq -c '.sequences[2].detail.overlong')" = '{"length":11,"max":10,"over":true}' ]
    # no buffer, no penalty
    mint-score overlong --style dapo --buffer 0 r.jsonl -o t.zst
    [ "$(rewards t.zst)" = '[-0.5,-0.5,-0.5]' ]
    run_tool mint-score overlong --style gsm8k --buffer 4 r.jsonl -o v.zst
    expect_error 2 'only dapo'
}

@test "repetition: the share of n-grams that were there before" {
    printf '%s\n' '{"id":"a","sequences":[{"tokens":[1,2,3,4],"text":"a b c d"},{"tokens":[1,1,1,1],"text":"a a a a"},{"tokens":[1,2,1,2,1],"text":"ab ab  ab\nab ab"},{"tokens":[7],"text":""}]}' >r.jsonl
    mint-score repetition --ngram 2 r.jsonl -o s.zst
    [ "$(rewards s.zst)" = '[0,-0.6666666666666666,-0.5,0]' ]
    mint-score repetition --ngram 2 --unit words r.jsonl -o t.zst
    [ "$(rewards t.zst)" = '[0,-0.6666666666666666,-0.75,0]' ]
    mint-score repetition --ngram 1 --unit chars r.jsonl -o u.zst
    [ "$(zstd -dcq u.zst | jq -c '[.sequences[].detail.repetition.unique]')" = '[5,2,4,0]' ]
}

@test "a score made again leaves everything else as it was" {
    need mint-sample
    need mint-init
    mint-init --to model
    echo '{"id":7,"prompt":"1+1=","answer":"2","x":[1.50,{"y":"\u00e9"}]}' | mint-sample --model model -n 3 --plain >r.jsonl
    mint-score exact --plain r.jsonl >exact.jsonl
    mint-score number --plain r.jsonl | mint-score exact --replace --plain >again.jsonl
    same exact.jsonl again.jsonl
    mint-score heuristic --plain exact.jsonl | mint-score exact --replace --plain >third.jsonl
    same exact.jsonl third.jsonl
    # and without what the scorer wrote, the rollouts as they were sampled
    sed -E 's/,"reward":[^,]*,"scores":\{"exact":[01]\},"detail":\{"exact":\{"answer":"([^"\\]|\\.)*"\}\}//g' again.jsonl >back.jsonl
    same r.jsonl back.jsonl
}

@test "summary: Wilson for 0 and 1, else the bootstrap, the same for a seed" {
    for i in 1 2 3 4 5 6 7 8; do
        answers "$i" 1 1 $((i % 3)) 0
    done >r.jsonl
    run_tool mint-score exact --summary --metrics m.jsonl r.jsonl
    expect 0
    # 11 of 24; by hand from Wilson's formula
    [ "$(jq -c '[."reward/lo",."reward/hi"]|map(.*10000|round)' m.jsonl)" = '[2789,6493]' ]
    has "$output" '(Wilson)'
    for i in $(seq 30); do
        answers "$i" 1 1 $((i % 3)) "$((i % 7))$(seq -s '' $((i % 11)))"
    done | mint-score exact | mint-score length --target 9 --unit chars --weight 0.3 -o s.zst
    for seed in 0 0 1; do
        mint-score none --summary --seed $seed --metrics $seed.jsonl s.zst >$seed-$RANDOM.txt
    done
    cat ./*.txt | grep -q 'bootstrap over groups'
    [ "$(jq -c '[."reward/lo",."reward/hi"]' 0.jsonl | sort -u | wc -l)" -eq 1 ]
    [ "$(cat 0.jsonl 1.jsonl | jq -c '[."reward/lo",."reward/hi"]' | sort -u | wc -l)" -eq 2 ]
    jq -e '."reward/lo" < ."reward/mean" and ."reward/mean" < ."reward/hi"' 1.jsonl
}

@test "summary: every number as computed once more from the records" {
    command -v python3 >/dev/null || skip "no python3"
    for seed in 1 2 3 4 5 6; do
        "$MINT_ROOT/tests/e2e/summary_check.py" make $seed >$seed.jsonl
        mint-score none --summary --metrics m$seed.jsonl $seed.jsonl >/dev/null
        "$MINT_ROOT/tests/e2e/summary_check.py" check $seed.jsonl m$seed.jsonl
    done
}

@test "summary: majority of all and of k, first answers first" {
    { answers a 1 1 2 1 1; answers b 1 2 2 1 1; answers c 1 2 2 2 2; answers d 1 x x x x; } >r.jsonl
    run_tool mint-score number --summary --metrics m.jsonl r.jsonl
    expect 0
    # of all four: a is right, b ties and its first answer is wrong; d has no answer
    [ "$(jq -c '[."score/majority",."score/majority@2",."score/majority@4"]' m.jsonl)" = '[0.25,0.375,0.25]' ]
    has "$output" 'majority@2'
}

@test "summary: one more table by a field" {
    { level=1 answers a 1 1 1; level=10 answers b 1 0 0; level=2 answers c 1 0 1; echo '{"id":"d","answer":"1","sequences":[{"text":"1","stop_reason":"length"}]}'; } >r.jsonl
    run_tool mint-score exact --summary --by level --metrics m.jsonl r.jsonl
    expect 0
    [ "$(awk '$1 == "level" { on = 1; next } on { printf "%s:%s:%s ", $1, $5, $8 }' <<<"$output")" = '-:1.0000:1.0000 1:1.0000:0.0000 2:0.5000:0.0000 10:0.0000:0.0000 ' ]
    [ "$(jq -c '[."level=2/score/accuracy",."level=-/score/groups",."score/groups"]' m.jsonl)" = '[0.5,1,4]' ]
    run_tool mint-score exact --by level r.jsonl -o s.zst
    expect_error 2 '--by goes with --summary'
    sed 's/"level":10/"level":[1]/' r.jsonl >bad.jsonl
    run_tool mint-score exact --summary --by level bad.jsonl
    expect_error 1 'bad.jsonl:2: level'
}

@test "summary: truncated responses, and how many of them are right" {
    echo '{"id":"d","answer":"1","sequences":[{"text":"1","stop_reason":"length"},{"text":"0","stop_reason":"length"},{"text":"1"},{"text":"1","stop_reason":"length"}]}' >r.jsonl
    mint-score exact --summary --metrics m.jsonl r.jsonl >t.txt
    grep -q '^truncated right' t.txt
    [ "$(jq -c '[."env/stop_length_frac",."score/truncated_accuracy"]|map(.*1000|round)' m.jsonl)" = '[750,667]' ]
}

#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# mint-advantage: the goldens, what is dropped is reported, options. The arithmetic: tests/unit/test_advantage.c.
load helpers

setup() {
    enter_scratch
    need mint-advantage
    DATA=$MINT_ROOT/tests/data/datum
}

# group ID PROMPT REWARD...: a group whose responses are 20+i 30 with logprobs -0.5 -1.5
group() {
    local id=$1 prompt=$2 sep='' i=0
    shift 2
    printf '{"id":"%s","prompt_tokens":[%s],"sequences":[' "$id" "$prompt"
    for r in "$@"; do
        printf '%s{"tokens":[%d,30],"logprobs":[-0.5,-1.5],"stop_reason":"stop","reward":%s}' "$sep" $((20 + i)) "$r"
        sep=, i=$((i + 1))
    done
    printf '],"sampling":{"step":4,"max_tokens":16,"adapter":null}}\n'
}

# advantages FILE: the last of each Datum, six digits
advantages() {
    zstd -dcf "$1" | jq -r '.loss_fn_inputs.advantages.data[-1] * 1000000 | round / 1000000' | paste -sd' '
}

# same_datums FILE FILE: equal as JSON, floats as float32
same_datums() {
    # shellcheck disable=SC2016
    local prog='def f32: . as $x | if $x == 0 then 0 else ([($x | if . < 0 then -. else . end | log2 | floor), -126] | max) as $e | ($x / pow(2; $e - 23) | round) * pow(2; $e - 23) end;
        [.model_input.chunks[].tokens, (.loss_fn_inputs | to_entries | sort_by(.key) | .[] | [.key, .value.dtype, .value.shape, (.value.data | map(f32))]), .meta.group, .meta.sample]'
    diff <(zstd -dcf "$1" | jq -c "$prog") <(zstd -dcf "$2" | jq -c "$prog") || fail "$1 and $2 differ"
}

@test "rollouts give the golden Datums, number for number" {
    for form in _form2 ''; do
        run_tool mint-advantage --keep-flat --missing-logprobs zero "$DATA/rollouts$form.jsonl" -o d.zst -f
        expect 0
        has "$stderr" '9 groups (8 mixed, 1 flat good, 0 flat bad), 41 sequences -> 40 datums; dropped: 1 empty'
        [ "$(zstd -dcq d.zst | wc -l)" -eq 40 ]
        same_datums d.zst "$DATA/golden$form.jsonl"
    done
    # the flat group goes unless it is kept
    run_tool mint-advantage --missing-logprobs zero "$DATA/rollouts.jsonl" -o less.zst
    expect 0
    has "$stderr" '36 datums; dropped: 4 flat, 1 empty'
    zstd -dcq d.zst | grep -v '"group":"g01"' | cmp - <(zstd -dcq less.zst)
}

@test "the goldens are what their script makes of the short form" {
    command -v python3 >/dev/null || skip "no python3"
    mkdir -p data && cp -r "$DATA" data/datum && cp -r "$MINT_ROOT/tests/data/malformed" data/malformed
    rm data/datum/*.jsonl data/datum/malformed/manifest.jsonl
    python3 data/datum/convert.py
    for f in "$DATA"/*.jsonl "$DATA/malformed/manifest.jsonl"; do
        same "$f" "data/datum/${f#"$DATA"/}"
    done
}

@test "a group of one is an error, and the raw reward with --norm none" {
    run_tool mint-advantage "$DATA/group_of_one.jsonl" -o d.zst
    expect_error 1 'group_of_one.jsonl:1: a group of one sequence has no baseline'
    no_leftovers d.zst
    run_tool mint-advantage --norm none "$DATA/group_of_one.jsonl" -o d.zst
    expect 0
    [ "$(advantages d.zst)" = 1 ]
    (group g1 1,2 1 0 0 && group g2 1,2 1) >r.jsonl
    run_tool mint-advantage --skip-bad r.jsonl -o s.zst
    expect 3
    [ "$(advantages s.zst)" = '0.666667 -0.333333 -0.333333' ]
}

@test "worked numbers: centred, deviation, leave one out" {
    group g 1,2 1 0 0 0 >r.jsonl
    for n in 'mean 0.75 -0.25 -0.25 -0.25' 'std 1.499997 -0.499999 -0.499999 -0.499999' 'loo 1 -0.333333 -0.333333 -0.333333' 'none 1 0 0 0'; do
        mint-advantage -q --norm "${n%% *}" r.jsonl -o d.zst -f
        [ "$(advantages d.zst)" = "${n#* }" ] || fail "${n%% *}: $(advantages d.zst)"
    done
}

@test "the rules of the field by name, for rewards 1 0 0 0" {
    group g 1,2 1 0 0 0 >r.jsonl
    while read -r name first others; do
        mint-advantage -q --like "$name" r.jsonl -o d.zst -f
        [ "$(zstd -dcq d.zst | jq -c '[.meta.advantage * 1e9 | round / 1e9] | unique[]' | paste -sd' ')" = "$first $others $others $others" ] ||
            fail "$name: $(zstd -dcq d.zst | jq .meta.advantage | paste -sd' ')"
        [ "$(zstd -dcq d.zst | jq -r .meta.like | sort -u)" = "$name" ]
    done <<'END'
trl 1.49970006 -0.49990002
verl 1.499997 -0.499999
openrlhf 1.499999997 -0.499999999
tinker 0.75 -0.25
mint-dapo 1.499997 -0.499999
END
    mint-advantage -q --norm maxrl r.jsonl -o m.zst
    [ "$(advantages m.zst)" = '3 -1 -1 -1' ]
    mint-advantage -q --norm std --ddof 0 --eps 1e-8 r.jsonl -o o.zst
    [ "$(advantages o.zst)" = '1.732051 -0.57735 -0.57735 -0.57735' ]
    [ "$(zstd -dcq o.zst | jq -c '[.meta.norm, .meta.eps, .meta.ddof]' | sort -u)" = '["std",1e-08,0]' ]
    # what is given comes before the name; flat groups stay as they do there
    mint-advantage -q --like trl --norm mean r.jsonl -o n.zst
    [ "$(advantages n.zst)" = '0.75 -0.25 -0.25 -0.25' ]
    group g 1,2 1 1 >flat.jsonl
    mint-advantage -q --like tinker flat.jsonl -o f.zst
    [ "$(advantages f.zst)" = '0 0' ]
    run_tool mint-advantage --like tinker --no-keep-flat flat.jsonl -o f.zst -f
    expect 0
    has "$stderr" 'dropped: 2 flat'
}

# The cases and their numbers are from tests/oracle/make_advantage_cases.py, in numpy.
@test "every rule gives the oracle's numbers, from a file and from a pipe" {
    dir=$MINT_ROOT/tests/data/advantage
    while read -r args; do
        # shellcheck disable=SC2086
        mint-advantage -q --plain $args "$dir/rollouts.jsonl" >d.jsonl || fail "$args"
        # shellcheck disable=SC2086
        mint-advantage -q --plain $args <"$dir/rollouts.jsonl" >p.jsonl || fail "$args"
        same d.jsonl p.jsonl
        cat d.jsonl
        echo null
    done < <(jq -r .args "$dir/cases.jsonl") >all.jsonl
    jq -cn 'reduce inputs as $d ([[]]; if $d then .[-1] += [$d.loss_fn_inputs.advantages.data[2:]] else . + [[]] end) | .[]' all.jsonl >got.jsonl
    bad=$(jq -rn --slurpfile got got.jsonl 'foreach inputs as $case (-1; . + 1; . as $i |
        select(($got[$i] | map(length)) != ($case.advantages | map(length)) or
               ([[$got[$i], $case.advantages] | map(flatten) | transpose[] | (.[0] - .[1] | fabs) / (1 + (.[1] | fabs))] | max) > 2e-7)
        | $case.args)' "$dir/cases.jsonl")
    [ -z "$bad" ] || fail "off: $bad"
    [ "$(wc -l <"$dir/cases.jsonl")" -ge 40 ]
}

@test "the oracle's numbers are what its script makes" {
    python=${MINT_ORACLE_PYTHON:-python3}
    "$python" -c 'import numpy' 2>/dev/null || skip "no numpy"
    "$python" "$MINT_ROOT/tests/oracle/make_advantage_cases.py" made
    same made/rollouts.jsonl "$MINT_ROOT/tests/data/advantage/rollouts.jsonl"
    same made/cases.jsonl "$MINT_ROOT/tests/data/advantage/cases.jsonl"
}

@test "options that contradict each other or say nothing are wrong usage" {
    group g 1,2 1 0 >r.jsonl
    while read -r bad; do
        # shellcheck disable=SC2086
        run_tool mint-advantage $bad r.jsonl
        expect 2
    done <<'END'
--norm mean --eps 1
--norm loo --ddof 0
--norm std --ddof 2
--norm std --score a
--norm gdpo --score =1
--norm gdpo --score a=x
--norm gdpo --score a --score a=2
--like nobody
--clip 0
--drop-truncated --mask-truncated
--kl-discount-factor 0.5
--kl-center none
--norm reinforce++ --kl-penalty-coef 1 --kl-center batch
--teacher-coef 1 --missing-logprobs zero
--sft --teacher-coef 1
--sft --like trl
--length-norm max-token
END
}

@test "what a rule needs and a record lacks is said, with file and line; nothing is written" {
    group g 1,2 1 0 | sed 's/"max_tokens":16,//' >r.jsonl
    while IFS='|' read -r args want; do
        # shellcheck disable=SC2086
        run_tool mint-advantage $args r.jsonl -o d.zst
        expect_error 1 'r.jsonl:1: '
        has "$stderr" "$want"
        no_leftovers d.zst
    done <<'END'
--norm gdpo|no scores
--norm gdpo --score number|sequences[0].scores is missing
--norm dr-grpo|sampling.max_tokens is missing: give --max-tokens for the length norm
--kl-penalty-coef 0.1|sequences[0].ref_logprobs is missing
--teacher-coef 1|sequences[0].teacher_logprobs is missing
END
    mint-advantage -q --norm dr-grpo --max-tokens 10 r.jsonl -o d.zst
    [ "$(advantages d.zst)" = '0.05 -0.05' ]
    group g 1,2 1 -1 >neg.jsonl
    run_tool mint-advantage --norm maxrl neg.jsonl -o e.zst
    expect_error 1 'neg.jsonl:1: a reward of -1'
}

@test "what no float32 holds is an error that names the record" {
    while IFS='|' read -r norm a b; do
        group g 1,2 "$a" "$b" >r.jsonl
        # shellcheck disable=SC2086
        run_tool mint-advantage --norm $norm r.jsonl -o d.zst
        expect_error 1 'r.jsonl:1: sequences[0]: its advantage is not finite as a float32'
        no_leftovers d.zst
    done <<'END'
std|1e308|-1e308
std --clip 5|1e308|-1e308
std --eps 0|1e200|-1e200
mean|1e308|-1e308
mean|6.80564733841877e38|0
loo|1e308|-1e308
maxrl|1.7e308|1.6e308
none|1e308|-1e308
reinforce++|1e308|-1e308
reinforce++-baseline|1e308|-1e308
END
    # the largest float32 is one
    group g 1,2 6.805646e38 0 >r.jsonl
    mint-advantage -q r.jsonl -o d.zst
    zstd -dcq d.zst | head -n 1 | grep -qF '3.402823e+38'
}

@test "bad records count nowhere, in both passes" {
    (group a 1,2 1 0 && group b 1,2 5 -1 | sed 's/-0.5,-1.5/0.5,-1.5/' && group c 1,2 1 0 0) >r.jsonl
    grep -v '"b"' r.jsonl >good.jsonl
    for args in '--norm reinforce++' '--norm reinforce++-baseline --length-norm batch' '--length-norm batch'; do
        # shellcheck disable=SC2086
        run_tool mint-advantage --skip-bad $args r.jsonl -o a.zst -f
        expect 3
        # shellcheck disable=SC2086
        mint-advantage -q $args good.jsonl -o b.zst -f
        same a.zst b.zst
    done
}

@test "distillation: from a teacher's logprobs, without a score" {
    group g 1,2 1 1 | sed 's/,"reward":1//g; s/"stop_reason"/"teacher_logprobs":[-0.75,-0.5],"stop_reason"/g' >r.jsonl
    run_tool mint-advantage --teacher-coef 2 --metrics m.jsonl --plain r.jsonl
    expect 0
    [ "$(jq -c .loss_fn_inputs.advantages.data <<<"$output" | sort -u)" = '[0,-0.5,2]' ]
    [ "$(jq -c '[.teacher_kl, ."advantage/datums"]' m.jsonl)" = '[-0.375,2]' ]
    has "$stderr" '1 groups (0 mixed, 0 flat good, 0 flat bad), 2 sequences -> 2 datums'
}

@test "groups are lines: sizes differ, prompts and ids repeat" {
    (group g1 1,2 1 0 && group g2 1,2 1 1 0) | mint-advantage -q -o d.zst
    [ "$(advantages d.zst)" = '0.5 -0.5 0.333333 0.333333 -0.666667' ]
    (group g1 1,2 1 0 && group g1 1,2 1 1) | mint-advantage -q --keep-flat -o e.zst
    [ "$(advantages e.zst)" = '0.5 -0.5 0 0' ]
}

@test "equal rewards of 0.7 are exactly flat, with every norm" {
    group g 1,2 0.7 0.7 0.7 0.7 0.7 0.7 0.7 0.7 | sed 's/"reward"/"scores":{"a":0.7,"b":0.1},&/g' >r.jsonl
    for n in mean std 'std --eps 1e-9' loo dr-grpo maxrl gdpo; do
        # shellcheck disable=SC2086
        mint-advantage -q --keep-flat --norm $n r.jsonl -o d.zst -f
        [ "$(advantages d.zst)" = '0 0 0 0 0 0 0 0' ]
        # shellcheck disable=SC2086
        run_tool mint-advantage --norm $n r.jsonl -o e.zst -f
        expect 0
        has "$stderr" 'dropped: 8 flat'
        has "$stderr" 'no datums'
        [ "$(zstd -dcq e.zst | wc -c)" -eq 0 ]
    done
    # beside a mixed group too, whose sums do not add up to exactly 0
    (cat r.jsonl && group h 1,2 0.1 0.7 0.3 | sed 's/"reward":\(0..\)/"scores":{"a":\1,"b":0.1},&/g') >two.jsonl
    mint-advantage -q --keep-flat --norm gdpo two.jsonl -o t.zst
    [ "$(zstd -dcq t.zst | jq -c 'select(.meta.group == "g") | [.meta.advantage, .loss_fn_inputs.advantages.data[]]' | sort -u)" = '[0,0,0,0]' ]
}

@test "null rewards are left out of the mean and counted; missing ones are an error" {
    group g 1,2 0.8 0.6 null 0.6 >r.jsonl
    run_tool mint-advantage r.jsonl -o d.zst
    expect 0
    has "$stderr" '4 sequences -> 3 datums; dropped: 1 null'
    [ "$(advantages d.zst)" = '0.133333 -0.066667 -0.066667' ]
    [ "$(zstd -dcq d.zst | jq .meta.sample | paste -sd' ')" = '0 1 3' ]
    sed 's/,"reward":0.8//' r.jsonl >no.jsonl
    run_tool mint-advantage no.jsonl -o e.zst
    expect_error 1 'no.jsonl:1: no score yet (run mint-score first): sequences[0].reward is missing'
    no_leftovers e.zst
}

@test "no logprob is made up" {
    group g 1,2 1 0 | sed 's/\[-0.5,-1.5\]/null/' >null.jsonl
    group g 1,2 1 0 | sed 's/\[-0.5,-1.5\]/[-0.5]/' >short.jsonl
    run_tool mint-advantage null.jsonl -o d.zst
    expect_error 1 'null.jsonl:1:'
    has "$stderr" 'sequences[0].logprobs is missing'
    run_tool mint-advantage short.jsonl -o d.zst
    expect_error 1 'sequences[0].logprobs'
    has "$stderr" 'has 1 values, 2 expected'
    no_leftovers d.zst
    run_tool mint-advantage --skip-bad null.jsonl short.jsonl -o d.zst
    expect 3
    [ "$(zstd -dcq d.zst | wc -l)" -eq 0 ]
}

@test "one Datum to the byte" {
    printf '%s\n' '{"id":"q","prompt_tokens":[10,11,12],"sequences":[{"tokens":[20,21],"logprobs":[-0.5,-1.5],"reward":0.75}]}' |
        mint-advantage -q --norm none --plain -o d.jsonl
    printf '%s' '{"model_input":{"chunks":[{"type":"encoded_text","tokens":[10,11,12,20]}]},' \
        '"loss_fn_inputs":{"target_tokens":{"data":[11,12,20,21],"dtype":"int64","shape":[4]},' \
        '"weights":{"data":[0,0,1,1],"dtype":"float32","shape":[4]},' \
        '"logprobs":{"data":[0,0,-0.5,-1.5],"dtype":"float32","shape":[4]},' \
        '"advantages":{"data":[0,0,0.75,0.75],"dtype":"float32","shape":[4]}},' \
        '"meta":{"id":"q","group":"q","sample":0,"reward":0.75,"advantage":0.75,"norm":"none"}}' >want
    echo >>want
    same d.jsonl want
}

@test "an empty response counts in the mean and gives no Datum" {
    group g 1,2 1 0 | sed 's/\[21,30\],"logprobs":\[-0.5,-1.5\]/[],"logprobs":[]/' >r.jsonl
    run_tool mint-advantage r.jsonl -o d.zst
    expect 0
    has "$stderr" '1 empty'
    [ "$(advantages d.zst)" = 0.5 ]
}

@test "truncated responses: --drop-truncated, and the divisor counts what is written" {
    group g 1,2 1 0 0.5 | sed 's/"stop"/"length"/3' >r.jsonl
    mint-advantage -q --drop-truncated --length-norm batch r.jsonl -o d.zst
    [ "$(advantages d.zst)" = '0.125 -0.125' ]
    group g 1,2 1 0 | sed 's/"stop"/"length"/g' >all.jsonl
    run_tool mint-advantage --drop-truncated --length-norm batch all.jsonl -o e.zst
    expect 0
    has "$stderr" 'dropped: 2 truncated'
    run_tool mint-advantage --mask-truncated --length-norm batch r.jsonl -o f.zst
    expect 0
    has "$stderr" '2 datums; dropped: 1 masked; 1 hit the token limit'
    [ "$(advantages f.zst)" = '0.125 -0.125' ]
}

@test "length norms; batch reads twice, from files and from a pipe" {
    for i in $(seq 50); do group "g$i" 1,2,3 1 0 0.5; done >r.jsonl
    sed -i '3s/^/\n\n/; 7s/"id":"g7",//' r.jsonl
    mint-advantage -q --length-norm batch --plain r.jsonl >a.jsonl
    mint-advantage -q --length-norm batch --plain <r.jsonl >b.jsonl
    same a.jsonl b.jsonl
    zstd -q r.jsonl -o r.zst
    mint-advantage -q --length-norm batch --plain <(cat r.zst) >c.jsonl
    diff <(sed 's/"line:9"/X/g' a.jsonl) <(sed 's/"line:9"/X/g' c.jsonl)
    [ "$(jq -s '[.[].loss_fn_inputs.advantages.data[-1] | fabs] | add * 300 | round' a.jsonl)" = 50 ]
    [ "$(advantages a.jsonl | cut -d' ' -f1)" = 0.001667 ]
    mint-advantage -q --length-norm sequence r.jsonl -o s.zst
    [ "$(advantages s.zst | cut -d' ' -f1-3)" = '0.25 -0.25 0' ]
    mint-advantage -q --length-norm 8 r.jsonl -o k.zst
    [ "$(advantages k.zst | cut -d' ' -f1-3)" = '0.0625 -0.0625 0' ]
    (cat r.jsonl && echo '{"sequences":[]}') >bad.jsonl
    run_tool mint-advantage --length-norm batch --skip-bad --plain bad.jsonl -o e.jsonl
    expect 3
    has "$stderr" '1 record skipped'
    same a.jsonl e.jsonl
}

@test "overlong penalty" {
    resp() { printf '{"tokens":[%s],"logprobs":[%s],"reward":1}' "$(seq -s, "$1")" "$(yes -- -1 | head -n "$1" | paste -sd,)"; }
    printf '{"prompt_tokens":[1],"sequences":[%s,%s,%s],"sampling":{"max_tokens":100}}\n' "$(resp 80)" "$(resp 90)" "$(resp 100)" >r.jsonl
    run_tool mint-advantage --overlong-buffer 20 --metrics m.jsonl r.jsonl -o d.zst
    expect 0
    [ "$(advantages d.zst)" = '0.5 0 -0.5' ]
    [ "$(zstd -dcq d.zst | jq -c '[.meta.reward,.meta.penalty]' | paste -sd' ')" = '[1,0] [1,-0.5] [1,-1]' ]
    [ "$(jq -c '[."reward/mean",."reward/overlong_penalty_mean"]' m.jsonl)" = '[1,-0.5]' ]
    mint-advantage -q --overlong-buffer 20 --overlong-factor 0.5 r.jsonl -o e.zst
    [ "$(advantages e.zst)" = '0.25 0 -0.25' ]
    mint-advantage -q --overlong-buffer 20 --max-tokens 110 --keep-flat r.jsonl -o f.zst
    [ "$(advantages f.zst)" = '0.166667 0.166667 -0.333333' ]
    run_tool mint-advantage --overlong-buffer 0 r.jsonl
    expect 2
}

@test "stale groups are dropped and counted" {
    (group a 1 1 0 && group b 1 1 0 | sed 's/"step":4/"step":2/') >r.jsonl
    run_tool mint-advantage --max-staleness 1 --step 4 r.jsonl -o d.zst
    expect 0
    has "$stderr" '2 datums; dropped: 2 stale'
    mint-advantage -q --max-staleness 2 --step 4 r.jsonl -o e.zst
    [ "$(zstd -dcq e.zst | wc -l)" -eq 4 ]
    run_tool mint-advantage --max-staleness 1 r.jsonl
    expect 2
    run_tool mint-advantage --step 4 r.jsonl
    expect_error 2 '--step needs --max-staleness or --metrics'
    sed 's/"step":4,//' r.jsonl >no.jsonl
    run_tool mint-advantage --max-staleness 1 --step 4 no.jsonl -o f.zst
    expect_error 1 'no.jsonl:1: sampling.step is missing'
}

@test "supervised Datums: weights alone, rewards and logprobs not needed" {
    printf '%s\n' '{"id":"a","prompt_tokens":[1,2],"sequences":[{"tokens":[3,4]},{"tokens":[]}]}' >r.jsonl
    run_tool mint-advantage --sft --plain r.jsonl
    expect 0
    [ "$(jq -c '.loss_fn_inputs | keys' <<<"$output")" = '["target_tokens","weights"]' ]
    [ "$(jq -c '.loss_fn_inputs.weights.data' <<<"$output")" = '[0,1,1]' ]
    group g 1,2 1 0.4 null 0.5 >s.jsonl
    run_tool mint-advantage --sft --min-reward 0.5 s.jsonl -o d.zst
    expect 0
    has "$stderr" '2 datums; dropped: 1 null, 1 low'
    run_tool mint-advantage --sft --min-reward 0.5 r.jsonl
    expect 1
    for bad in '--min-reward 1' '--sft --norm std' '--sft --keep-flat' '--max-tokens 3' '--length-norm -1' '--length-norm long'; do
        # shellcheck disable=SC2086
        run_tool mint-advantage $bad r.jsonl
        expect 2
    done
}

@test "ref_logprobs ride along as a tensor" {
    group g 1,2 1 0 | sed 's/"stop_reason"/"ref_logprobs":[-0.75,-2],"stop_reason"/g' | mint-advantage -q --plain -o d.jsonl
    [ "$(jq -c '.loss_fn_inputs.ref_logprobs' d.jsonl | head -n 1)" = '{"data":[0,-0.75,-2],"dtype":"float32","shape":[3]}' ]
}

@test "metrics: names and numbers" {
    (group a 1 1 0 && group b 1 1 1 && group c 1 0 0 && group d 1 1 1 0 null) |
        sed '1s/"stop"/"length"/' | mint-advantage -q --step 7 --metrics m.jsonl -o d.zst
    [ "$(jq -c '[.tool,.step,."reward/mean",."env/by_group/frac_mixed",."env/by_group/frac_all_good",."env/by_group/frac_all_bad",."env/ac_tokens_mean",."env/stop_length_frac"]' m.jsonl)" = \
        '["mint-advantage",7,0.5555555555555556,0.5,0.25,0.25,2,0.1]' ]
    # rows in = rows out + rows dropped
    jq -e '."advantage/sequences" == ."advantage/datums" + ([to_entries[] | select(.key | startswith("advantage/dropped")) | .value] | add)' m.jsonl
    [ "$(jq '."advantage/datums"' m.jsonl)" -eq "$(zstd -dcq d.zst | wc -l)" ]
    [ "$(jq -c '[."advantage/groups_mixed", ."advantage/groups_flat_good", ."advantage/groups_flat_bad", ."advantage/truncated", ."advantage/dropped_null"]' m.jsonl)" = '[2,1,1,1,1]' ]
    group a 1 1 0 | sed 's/"stop_reason"/"ref_logprobs":[-1.5,-1],"stop_reason"/g' | mint-advantage -q --kl-penalty-coef 1 --clip 1 --metrics k.jsonl -o k.zst
    [ "$(jq -c '[.kl_policy_base, ."advantage/clip_frac"]' k.jsonl)" = '[0.25,0.5]' ]
}

@test "a filter between the tools changes nothing" {
    (group a 1,2 1 0.1 && group 9007199254740993x 1 0.3 0) >r.jsonl
    mint-advantage -q --plain r.jsonl >a
    jq -c . r.jsonl | mint-advantage -q --plain >b
    same a b
    sed 's/,/ , /g; s/\[/[ /g' r.jsonl | mint-advantage -q --plain >c
    same a c
}

@test "halves and shards join: cat of two outputs is the output of both" {
    for i in 1 2 3 4 5 6; do group g$i 1,2,3 1 0 0.25; done >r.jsonl
    mint-advantage -q r.jsonl -o all.zst
    head -n 3 r.jsonl | mint-advantage -q -o a.zst
    tail -n 3 r.jsonl | mint-advantage -q -o b.zst
    cat a.zst b.zst | zstd -dcq | cmp - <(zstd -dcq all.zst)
}

@test "a line of 100 MB, in memory of a few lines" {
    python3 - >big.jsonl <<'END' || skip "no python3"
n = 4000000
print('{"id":"x","prompt_tokens":[1],"sequences":[{"tokens":[%s],"logprobs":[%s],"reward":1},{"tokens":[5],"logprobs":[-1],"reward":0}]}' % (",".join(["151643"] * n), ",".join(["-0.12345678901234"] * n)))
END
    [ "$(stat -c %s big.jsonl)" -gt 95000000 ]
    mint-advantage -q big.jsonl -o d.zst
    [ "$(zstd -dcq d.zst | head -n 1 | tail -c 200 | grep -o '"shape":\[4000000\]' | head -n 1)" = '"shape":[4000000]' ]
}

@test "--max-groups stops at so many groups with Datums, and counts the others" {
    { group a 1 1 0; group b 1 1 1; group c 1 0 1; group d 1 0 1; group e 1 1 1; } >r.jsonl
    run_tool mint-advantage --max-groups 2 --metrics m.jsonl r.jsonl -o d.zst
    expect 0
    has "$stderr" '5 groups (2 mixed, 1 flat good, 0 flat bad), 10 sequences -> 4 datums; dropped: 2 flat, 4 surplus'
    [ "$(zstd -dcq d.zst | jq -r .meta.group | sort -u | paste -sd,)" = a,c ]
    [ "$(jq '."advantage/groups_kept"' m.jsonl)" -eq 2 ]
    # the rule of a batch sees only what is kept
    head -n 3 r.jsonl | mint-advantage -q --norm reinforce++ -o three.zst
    mint-advantage -q --norm reinforce++ --max-groups 3 r.jsonl -o whole.zst
    cmp three.zst whole.zst
    run_tool mint-advantage --max-groups 0 r.jsonl
    expect_error 2 'max-groups'
}

# pairs_oracle HOW MARGIN FILE: the pairs of scored groups by jq: what each line of --pairs should say.
pairs_oracle() {
    jq -c --arg how "$1" --argjson least "$2" '
        . as $g | [.sequences | to_entries[] | select(.value.reward != null and (.value.tokens | length) > 0)
            | {i: .key, r: .value.reward, t: .value.tokens}] as $s
        | (if $how == "all" then [$s[] as $a | $s[] as $b | [$a, $b]]
           else [[($s | max_by([.r, -.i])), ($s | min_by([.r, .i]))]] end)
        | map(select(.[0] != null and .[0].r > .[1].r and .[0].t != .[1].t and .[0].r - .[1].r >= $least))[]
        | (.[0].r - .[1].r) as $margin
        | [.[0], "chosen"], [.[1], "rejected"] | .[1] as $side | .[0] as $q
        | ($g.prompt_tokens + $q.t) as $all
        | [$g.id, $q.i, $side, $margin, $q.r, $all[:-1], $all[1:],
           [range($g.prompt_tokens | length - 1) | 0] + [$q.t[] | 1]]' "$3"
}

# scored_groups N: groups of 2 to 6 with few different rewards and responses, so that ties are common.
scored_groups() {
    awk -v n="$1" 'function draw(k) { x = (x * 16807) % 2147483647; return int(x / 2147483647 * k) }
        BEGIN {
            for (x = 7; i < n; i++) {
                printf "{\"id\":\"g%d\",\"prompt_tokens\":[%d%s],\"sequences\":[", i, draw(9), draw(2) ? "" : ",7"
                for (s = draw(5) + 2; s > 0; s--) {
                    printf "{\"tokens\":["
                    for (t = draw(4); t > 0; t--) printf("%d%s", draw(3), t > 1 ? "," : "")
                    printf("],\"reward\":%s}%s", draw(8) ? draw(4) / 2 : "null", s > 1 ? "," : "")
                }
                print "]}"
            }
        }'
}

@test "pairs are those that an independent program finds, in its order, and every other two are counted" {
    scored_groups 60 >s.jsonl
    for how in best-worst all; do
        for least in 0 1; do
            run_tool mint-advantage --pairs $how --min-margin $least --metrics m -f s.jsonl -o d.zst
            expect 0
            pairs_oracle $how $least s.jsonl >want
            [ "$(wc -l <want)" -gt 20 ]
            zstd -dcq d.zst | jq -c '[.meta.id, .meta.sample, .meta.pair, .meta.margin, .meta.reward, .model_input.chunks[0].tokens,
                .loss_fn_inputs.target_tokens.data, .loss_fn_inputs.weights.data]' | diff want -
            has "$stderr" "-> $(($(wc -l <want) / 2)) pairs"
        done
    done
    # all: pairs, ties, twins and close calls are all twos of sequences that count, and each sequence has one fate
    jq -es --slurpfile g s.jsonl '.[-1] as $m
        | ([$g[].sequences | map(select(.reward != null and (.tokens | length) > 0)) | length | . * (. - 1) / 2] | add) ==
            ([$m["advantage/pairs", "advantage/pairs_tied", "advantage/pairs_same", "advantage/pairs_close"]] | add)
        and all($m["advantage/pairs_tied", "advantage/pairs_same", "advantage/pairs_close"]; . > 0)
        and $m["advantage/datums"] == 2 * $m["advantage/pairs"]' m
    jq -es --slurpfile g s.jsonl 'all(.[]; ([to_entries[] | select(.key | startswith("advantage/dropped_")) | .value] | add)
        + .used == ([$g[].sequences | length] | add))' \
        <(paste -d' ' <(sed -n 4p m) <(zstd -dcq d.zst | jq -s '[.[].meta | [.group, .sample]] | unique | length') |
            sed 's/} \([0-9]*\)$/,"used":\1}/')
}

@test "a pair of Datums to the byte; a length norm divides weights, the reference rides along" {
    printf '%s\n' '{"id":7,"prompt_tokens":[1,2],"sequences":[{"tokens":[3,4],"reward":0.5,"ref_logprobs":[-1,-2]},{"tokens":[5],"reward":2}],
        "sampling":{"step":4}}' | tr -d '\n' >r.jsonl
    run_tool mint-advantage --pairs all --length-norm sequence --plain r.jsonl
    expect 0
    diff - <(printf '%s\n' "$output") <<'END'
{"model_input":{"chunks":[{"type":"encoded_text","tokens":[1,2]}]},"loss_fn_inputs":{"target_tokens":{"data":[2,5],"dtype":"int64","shape":[2]},"weights":{"data":[0,1],"dtype":"float32","shape":[2]}},"meta":{"id":7,"group":7,"sample":1,"reward":2,"step":4,"pair":"chosen","margin":1.5,"pairs":"all","divisor":1,"length_norm":"sequence"}}
{"model_input":{"chunks":[{"type":"encoded_text","tokens":[1,2,3]}]},"loss_fn_inputs":{"target_tokens":{"data":[2,3,4],"dtype":"int64","shape":[3]},"weights":{"data":[0,0.5,0.5],"dtype":"float32","shape":[3]},"ref_logprobs":{"data":[0,-1,-2],"dtype":"float32","shape":[3]}},"meta":{"id":7,"group":7,"sample":0,"reward":0.5,"step":4,"pair":"rejected","margin":1.5,"pairs":"all","divisor":2,"length_norm":"sequence"}}
END
}

@test "pairs: the overlong penalty decides, turns keep their observations out, groups are counted" {
    printf '%s\n' '{"id":"a","prompt_tokens":[1],"sequences":[{"tokens":[2,3,4,5],"reward":1},{"tokens":[2],"reward":0.9}],"sampling":{"max_tokens":4}}' >r.jsonl
    mint-advantage -q --pairs best-worst --overlong-buffer 2 --plain r.jsonl >d
    [ "$(jq -c '[.meta.sample, .meta.pair, .meta.penalty]' d | paste -sd' ')" = '[1,"chosen",0] [0,"rejected",-1]' ]
    printf '%s\n' '{"id":"t","prompt_tokens":[1],"sequences":[{"tokens":[2,9,3],"logprobs":[-1,null,-1],"reward":1},{"tokens":[4],"logprobs":[-1],"reward":0}]}' >t.jsonl
    mint-advantage -q --pairs best-worst --plain t.jsonl | head -n 1 | jq -e '.loss_fn_inputs.weights.data == [1,0,1]'
    { group a 1,2 1 1; group b 1,2 1 0 1; group c 1,2 null 1; } >g.jsonl
    run_tool mint-advantage --pairs all g.jsonl -o p.zst
    expect 0
    has "$stderr" '3 groups (1 mixed, 2 flat good, 0 flat bad), 7 sequences -> 2 pairs (mean margin 1), 2 tied; dropped: 2 flat, 1 few, 1 null'
    run_tool mint-advantage --pairs all --max-groups 1 <(group b 1,2 1 0; group b 1,2 1 0) -o q.zst
    has "$stderr" '1 pairs (mean margin 1); dropped: 2 surplus'
    run_tool mint-advantage --pairs all g.jsonl --min-margin 2 -o n.zst
    expect 0
    has "$stderr" 'no datums'
}

@test "pairs: what they need, and options that they do not read" {
    group g 1,2 1 >one.jsonl
    run_tool mint-advantage --pairs all one.jsonl -o d.zst
    expect_error 1 'one.jsonl:1: a group of one sequence makes no pair'
    printf '%s\n' '{"id":"a","prompt_tokens":[1,2],"sequences":[{"tokens":[3]},{"tokens":[4]}]}' >r.jsonl
    run_tool mint-advantage --pairs all r.jsonl -o d.zst
    expect_error 1 'r.jsonl:1: no score yet'
    no_leftovers d.zst
    while read -r bad; do
        # shellcheck disable=SC2086
        run_tool mint-advantage $bad r.jsonl
        expect 2
    done <<'END'
--pairs best
--min-margin 1
--pairs all --min-margin -1
--pairs all --sft
--pairs all --norm std
--pairs all --like trl
--pairs all --keep-flat
--pairs all --clip 1
--pairs all --missing-logprobs drop
--pairs all --mask-truncated
--pairs all --teacher-coef 1
--pairs all --kl-penalty-coef 1
--pairs all --min-reward 1
--pairs all --length-norm batch
END
}

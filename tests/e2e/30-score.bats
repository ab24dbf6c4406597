#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# mint-score: scorers in pipes, programs as scorers and what they can do wrong, the summary.
load helpers

setup() {
    enter_scratch
    need mint-score
    # two groups of two; the gold answers are 8 and 9
    cat >r.jsonl <<'END'
{"id":"a","answer":"8","prompt_tokens":[1,2],"sequences":[{"tokens":[3,4],"logprobs":[-0.5,-1],"stop_reason":"stop","text":" 8"},{"tokens":[5],"logprobs":[-0.25],"stop_reason":"length","text":"7"}],"x":[1.50,{"y":null}]}
{"id":"b","answer":"9","prompt_tokens":[1,2],"sequences":[{"tokens":[3],"logprobs":[-0.5],"stop_reason":"stop","text":"is 9."},{"tokens":[5,6],"logprobs":[-1,-2],"stop_reason":"stop","text":""}]}
END
}

# rewards FILE: of all sequences, one line
rewards() {
    zstd -dcf "$1" | jq -c '[.sequences[].reward]' | tr -d '\n'
}

# groups N: so many groups of one text each, on stdout
groups() {
    awk -v n="$1" 'BEGIN { for (i = 0; i < n; i++)
        printf "{\"id\":%d,\"answer\":\"%d\",\"sequences\":[{\"text\":\"t%d\"},{\"text\":\"u%d\"}]}\n", i, i, i, i }'
}

# ended PID: it is gone within two seconds, or waits only to be buried
ended() {
    for _ in $(seq 20); do
        if [ ! -d "/proc/$1" ] || grep -q '^State:.*Z' "/proc/$1/status" 2>/dev/null; then
            return 0
        fi
        sleep 0.1
    done
    fail "process $1 is still there"
}

# A program that answers each line by awk: $0 is the line, n its number.
answer() {
    printf '#!/bin/sh\nexec mawk -W interactive '"'"'{ n++; %s; fflush() }'"'"'\n' "$1" >prog
    if ! command -v mawk >/dev/null; then
        sed -i 's/mawk -W interactive/awk/' prog
    fi
    chmod +x prog
}

@test "exact and number" {
    run_tool mint-score exact r.jsonl -o e.zst
    expect 0
    [ "$(rewards e.zst)" = '[1,0][0,0]' ]
    run_tool mint-score number r.jsonl -o n.zst
    expect 0
    [ "$(rewards n.zst)" = '[1,0][1,0]' ]
    [ "$(zstd -dcq n.zst | jq -c '[.sequences[].detail.number.answer]' | tr -d '\n')" = '["8","7"]["9",null]' ]
}

@test "fields that are not ours keep their bytes" {
    mint-score number r.jsonl --plain >n.jsonl
    # take out what was added
    sed -E 's/,"reward":[0-9.]+,"scores":\{"number":[01]\},"detail":\{"number":\{"answer":("[^"]*"|null)\}\}//g' n.jsonl >back.jsonl
    same r.jsonl back.jsonl
}

@test "scorers compose: rewards add up by weight" {
    mint-score number r.jsonl | mint-score length --max 1 --weight 0.5 | mint-score exact --name e2 --weight -1 -o s.zst
    [ "$(rewards s.zst)" = '[0,0.5][1.5,0]' ]
    [ "$(zstd -dcq s.zst | head -n 1 | jq -c '.sequences[0].scores')" = '{"number":1,"length":0,"e2":1}' ]
}

@test "a name scores once; --replace starts anew" {
    mint-score number r.jsonl -o s.zst
    run_tool mint-score number --plain s.zst
    expect_error 1 's.zst:1: sequences[0].scores'
    has "$stderr" '--replace'
    mint-score exact s.zst | mint-score number --replace --weight 2 -o t.zst
    [ "$(rewards t.zst)" = '[2,0][2,0]' ]
    [ "$(zstd -dcq t.zst | head -n 1 | jq -c '.sequences[0].scores')" = '{"number":1}' ]
}

@test "plain, compressed, from files and from a pipe: the same records" {
    mint-score number r.jsonl --plain >a.jsonl
    zstd -q r.jsonl -o r.zst
    mint-score number r.zst -o b.zst
    zstd -dcq b.zst | cmp - a.jsonl
    mint-score number <r.jsonl | zstd -dcq | cmp - a.jsonl
    head -n 1 r.jsonl >r1
    tail -n 1 r.jsonl | mint-score number r1 - --plain | cmp - a.jsonl
}

@test "usage: no scorer, an unknown one, wrong options" {
    run_tool mint-score </dev/null
    expect 2
    has "$stderr" 'which scorer? One of exact, '
    run_tool mint-score maths r.jsonl
    expect 2
    has "$stderr" "no scorer 'maths'"
    run_tool mint-score regex r.jsonl
    expect 2
    has "$stderr" 'regex needs --pattern'
    run_tool mint-score regex --pattern '(' r.jsonl
    expect 2
    run_tool mint-score cmd r.jsonl
    expect 2
    run_tool mint-score none r.jsonl
    expect 2
    [ -z "$output" ]
}

@test "usage: an option that does nothing is wrong, before anything is written" {
    while read -r args; do
        eval "set -- $args"
        run_tool mint-score "$@" r.jsonl
        expect 2
        [ -z "$output" ] || fail "$args: writes"
    done <<'END'
exact --pattern foo
exact --threads 2
exact --no-need-stop
exact -j 4
exact --threshold 3
exact --name ''
exact --gold-field ''
exact --summary --by ''
exact --summary --name x
number --ignore-case
number --strip
math --which first
math --style gsm8k --extract boxed
math --extract hash --strict
math --style dapo --one-box
regex --pattern 'a' --unit words
format --need-stop --gold-field x
regex --pattern 'a' --gold-field x
format --need-stop --ignore-case
length --buffer 4
overlong --unit words
repetition --max 3
heuristic --gold-field x
cmd --command cat --memory 1G
code --command cat
code --sandbox none --read-only /tmp
judge --judge-url http://127.0.0.1:1 --threads 2
judge --judge-model m --retries 2
judge --judge-model m --expected --max-tokens 4
none --summary --weight 2
none --summary --allow-null
END
    run_tool mint-score exact --pattern foo r.jsonl
    has "$stderr" 'the scorer exact does not read --pattern'
}

@test "usage: a scorer's wrong options leave nothing on a pipe" {
    for args in regex "regex --pattern (" cmd format 'math --style x' 'length --target 0' 'overlong --style x'; do
        # shellcheck disable=SC2086
        mint-score $args <r.jsonl 2>err | cat >out
        [ ! -s out ] || fail "$args: $(od -c out)"
        grep -q 'try .mint-score --help' err
    done
}

@test "every scorer takes the options that it reads" {
    mint-score exact --no-strip --ignore-case --gold-field answer --name e --weight 2 --offset 1 --replace --allow-null r.jsonl -o 1.zst
    mint-score number --which first r.jsonl -o 2.zst
    mint-score regex --pattern '(8)' --which first --strip --ignore-case r.jsonl -o 3.zst
    mint-score format --pattern x --ignore-case --need-stop r.jsonl -o 4.zst
    mint-score length --target 2 --min 1 --max 9 --unit words r.jsonl -o 5.zst
    mint-score overlong --max 9 --buffer 2 --style dapo r.jsonl -o 6.zst
    mint-score repetition --ngram 2 --unit chars r.jsonl -o 7.zst
    mint-score math --extract auto --strict --one-box r.jsonl -o 8.zst
    mint-score math --extract boxed --one-box r.jsonl -o 8b.zst
    mint-score cmd --command 'sed -u s/.*/1/' --timeout 9 --retries 0 -j 2 r.jsonl -o 9.zst
}

@test "reasons are words, on one line" {
    # shellcheck disable=SC2016
    answer 'if ($0 ~ /"id":"a"/) exit 3; print "{\"score\":null,\"why\":\"no\\nidea\",\"n\":2}"'
    run_tool mint-score cmd --command ./prog --allow-null r.jsonl -o out.zst
    expect 3
    has "$stderr" 'r.jsonl:1: sequences[0] has no score: the command exited with status 3 (tries: 2)'
    has "$stderr" 'r.jsonl:2: sequences[0] has no score: the scorer gave none (why: no idea, n: 2)'
    sed 's/"answer":"8"/"answer":"eight"/' r.jsonl >g.jsonl
    run_tool mint-score number --allow-null g.jsonl -o out2.zst
    expect 3
    has "$stderr" 'g.jsonl:1: sequences[0] has no score: the gold answer (answer) holds no number'
    [ "$(rewards out2.zst)" = '[null,null][1,0]' ]
}

@test "several gold answers: texts, numbers, both; an empty list is a broken record" {
    for list in '["6","8"]' '[6, 8.0]' '[ 6e0 ,"8"]' '[8]' '8'; do
        sed "1!d; s/\"answer\":\"8\"/\"answer\":$list/" r.jsonl >g.jsonl
        for s in number math "regex --pattern (8)(?=.*)"; do
            # shellcheck disable=SC2086
            mint-score $s g.jsonl -o s.zst -f
            want='[1,0]'
            # as texts, 8.0 and 8 differ
            [ "$list $s" != "[6, 8.0] regex --pattern (8)(?=.*)" ] || want='[0,0]'
            [ "$(rewards s.zst)" = "$want" ] || fail "$s $list: $(rewards s.zst)"
        done
    done
    sed '1!d; s/"answer":"8"/"answer":[]/' r.jsonl >g.jsonl
    run_tool mint-score number g.jsonl -o t.zst
    expect_error 1 'answer (column 20) is empty'
    sed '1!d; s/"answer":"8"/"answer":[7,null]/' r.jsonl >g.jsonl
    run_tool mint-score number g.jsonl -o t.zst
    expect_error 1 'g.jsonl:1: answer[1]'
}

@test "records that cannot be scored: missing gold, missing text" {
    run_tool mint-score number --plain --gold-field gold r.jsonl
    expect_error 1 'r.jsonl:1: the record has no "gold"'
    sed '2s/"text":"is 9.",*//; 2s/,}/}/' r.jsonl >no-text.jsonl
    run_tool mint-score number no-text.jsonl -o out.zst
    expect_error 1 'no-text.jsonl:2: sequences[0].text is missing'
    no_leftovers out.zst
    run_tool mint-score number --skip-bad no-text.jsonl -o out.zst
    expect 3
    [ "$(rewards out.zst)" = '[1,0]' ]
}

@test "summary: table and metrics" {
    run_tool mint-score number --summary --metrics m.jsonl r.jsonl
    expect 0
    has "$output" 'accuracy'
    has "$output" 'Wilson'
    [ "$(jq -c '[."reward/mean",."score/accuracy",."score/pass@1",."score/pass@2",."score/majority",."env/stop_length_frac"]' m.jsonl)" = '[0.5,0.5,0.5,1,1,0.25]' ]
    mint-score number r.jsonl -o s.zst
    run_tool mint-score none --summary s.zst
    expect 0
    has "$output" 'majority             1.0000'
    # rewards that are null are left out, and said
    sed 's/"stop_reason":"length"/"reward":null/' r.jsonl >n.jsonl
    run_tool mint-score none --summary n.jsonl
    has "$output" 'without reward'
}

# ---- cmd ---------------------------------------------------------------------------------------------------------------

@test "cmd: numbers and objects, in order, with several at a time" {
    # shellcheck disable=SC2016
    answer 'split($0, p, "\"text\":\"t"); s = p[2] + 0; if (n % 2) print s; else printf "{\"score\":%d,\"why\":\"\\u00e9\"}\n", s'
    groups 200 >g.jsonl
    run_tool mint-score cmd --command ./prog g.jsonl -o one.zst
    expect 0
    run_tool mint-score cmd --command ./prog --jobs 7 g.jsonl -o seven.zst
    expect 0
    [ "$(zstd -dcq one.zst | jq -s 'map(.sequences[0].reward) | add')" = 19900 ]
    diff <(zstd -dcq one.zst | jq -c '[.id,[.sequences[].reward]]') <(zstd -dcq seven.zst | jq -c '[.id,[.sequences[].reward]]')
    zstd -dcq one.zst | grep -qF '"detail":{"cmd":{"score":0,"why":"\u00e9"}}'
}

@test "cmd: what the program is told" {
    cat >prog <<'END'
#!/bin/sh
while read -r line; do printf '%s\n' "$line" >>seen; echo 1; done
END
    chmod +x prog
    mint-score number r.jsonl | mint-score cmd --command ./prog -o s.zst
    [ "$(wc -l <seen)" -eq 4 ]
    sed -n 2p seen | jq -e '.id == "a" and .answer == "8" and .sample == 1 and .text == "7" and .stop_reason == "length" and .reward == 0' >&2
    sed -n 2p seen | jq -e '[has("tokens", "logprobs", "prompt_tokens", "sequences")] | any | not' >&2
    [ "$(sed -n 1p seen | jq -c .x)" = '[1.5,{"y":null}]' ]
    run_tool mint-score number <<<'{"answer":1,"text":"outer","sample":9,"sequences":[{"text":"inner 1"}]}'
    rm seen
    mint-score cmd --command ./prog --plain <<<'{"answer":1,"text":"outer","sample":9,"sequences":[{"text":"inner"}]}' >/dev/null
    [ "$(jq -c '[.id,.text,.sample]' seen)" = '["line:1","inner",0]' ]
    [ "$(grep -o '"text"' seen | wc -l)" -eq 1 ]
}

@test "cmd: failures are null with their reason, never 0, and nothing is written without --allow-null" {
    # shellcheck disable=SC2016
    answer 'if ($0 ~ /"id":"a"/ && $0 ~ /"sample":1/) exit 3; print 1'
    run_tool mint-score cmd --command ./prog r.jsonl -o out.zst
    expect 1
    has "$stderr" 'r.jsonl:1: sequences[1] has no score'
    has "$stderr" '1 of 4 sequences could not be scored'
    no_leftovers out.zst
    run_tool mint-score cmd --command ./prog --allow-null r.jsonl -o out.zst
    expect 3
    has "$stderr" '1 of 4 sequences have reward null'
    [ "$(rewards out.zst)" = '[1,null][1,1]' ]
    [ "$(zstd -dcq out.zst | head -n 1 | jq -c '.sequences[1] | [.scores.cmd, .detail.cmd]')" = '[null,{"error":"the command exited with status 3","tries":2}]' ]
}

@test "cmd: bad answers are no scores" {
    printf '{"sequences":[{"text":"x"}]}\n' >one.jsonl
    for a in 'eight' '' '"8"' '[1]' '{"score":"8"}' '{"mark":1}' '{"score":1e999}' '1 2' 'NaN' '{"score":true}' "There are 5 reasons for a 9"; do
        printf '#!/bin/sh\nwhile read -r l; do cat <<"END"\n%s\nEND\ndone\n' "$a" >prog
        chmod +x prog
        run_tool mint-score cmd --command ./prog --allow-null --retries 0 one.jsonl -o "out.zst" -f
        expect 3
        [ "$(rewards out.zst)" = '[null]' ] || fail "'$a' gives $(rewards out.zst)"
    done
    # a program that has no score says so
    printf '#!/bin/sh\nwhile read -r l; do echo "{\\"score\\":null,\\"error\\":\\"cannot tell\\"}"; done\n' >prog
    run_tool mint-score cmd --command ./prog --allow-null one.jsonl -o out.zst -f
    expect 3
    [ "$(zstd -dcq out.zst | jq -r '.sequences[0].detail.cmd.error')" = 'cannot tell' ]
}

@test "cmd: asked again after a crash, as often as --retries says" {
    cat >prog <<'END'
#!/bin/sh
while read -r line; do
    echo x >>asked
    case $line in *'"id":2,'* | *'"id":5,'*) echo "$line" >>hard; exit 1 ;; esac
    echo 1
done
END
    chmod +x prog
    groups 8 | sed 's/,{"text":"u[0-9]"}//' >g.jsonl
    run_tool mint-score cmd --command ./prog --retries 2 --allow-null g.jsonl -o out.zst
    expect 3
    [ "$(rewards out.zst)" = '[1][1][null][1][1][null][1][1]' ]
    [ "$(wc -l <hard)" -eq 6 ]
    [ "$(wc -l <asked)" -eq 12 ]
    # a hiccup is mended by asking again
    printf '#!/bin/sh\nread -r l; [ -e once ] || { touch once; exit 9; }; echo 1; while read -r l; do echo 1; done\n' >prog
    run_tool mint-score cmd --command ./prog g.jsonl -o fine.zst
    expect 0
}

@test "cmd: programs that kill themselves: all rows, in order, each with its signal" {
    cat >prog <<'END'
#!/bin/bash
while read -r line; do
    [[ $line =~ \"id\":([0-9]+) ]]
    if ((BASH_REMATCH[1] % 10 == 3)); then kill -KILL $$; fi
    echo "${BASH_REMATCH[1]}"
done
END
    chmod +x prog
    groups 100 | sed -E 's/,\{"text":"u[0-9]+"\}//' >g.jsonl
    run_tool timeout 60 mint-score cmd --command ./prog --jobs 16 --retries 0 --allow-null g.jsonl -o out.zst
    expect 3
    [ "$(zstd -dcq out.zst | jq .id | paste -sd' ')" = "$(seq 0 99 | paste -sd' ')" ]
    [ "$(zstd -dcq out.zst | jq 'select(.sequences[0].reward == null) | .sequences[0].detail.cmd.error' | sort | uniq -c | awk '{ print $1 }')" = 10 ]
    zstd -dcq out.zst | grep -qE 'signal 9|137 \(128 \+ signal 9'
    [ "$(zstd -dcq out.zst | jq 'select(.id % 10 != 3) | .id == .sequences[0].reward' | sort -u)" = true ]
}

@test "cmd: silence ends at the time limit, and so do the program's children" {
    printf '#!/bin/sh\nread -r l; sleep 987 & echo $! >pid; wait\n' >prog
    chmod +x prog
    head -n 1 r.jsonl >one.jsonl
    run_tool timeout 30 mint-score cmd --command ./prog --timeout 0.3 --retries 0 --allow-null one.jsonl -o out.zst
    expect 3
    [ "$(rewards out.zst)" = '[null,null]' ]
    has "$(zstd -dcq out.zst)" 'gave no answer in time'
    ended "$(cat pid)"
}

@test "cmd: a child that holds the pipes does not hold us" {
    printf '#!/bin/sh\nread -r l; sleep 987 & exit 4\n' >prog
    chmod +x prog
    head -n 1 r.jsonl >one.jsonl
    run_tool timeout 20 mint-score cmd --command ./prog --timeout 60 --retries 0 --allow-null one.jsonl -o out.zst
    expect 3
    has "$(zstd -dcq out.zst)" 'exited with status 4'
}

@test "cmd: no deadlock when the program does not read, or writes much" {
    # a line of 1 MB does not fit a pipe
    awk 'BEGIN { s = "x"; while (length(s) < 1048576) s = s s; print "{\"sequences\":[{\"text\":\"" s "\"},{\"text\":\"y\"}]}" }' >big.jsonl
    run_tool timeout 30 mint-score cmd --command 'sleep 987' --timeout 0.3 --retries 0 --allow-null big.jsonl -o a.zst
    expect 3
    [ "$(rewards a.zst)" = '[null,null]' ]
    run_tool timeout 30 mint-score cmd --command 'yes' --timeout 2 --retries 0 --allow-null big.jsonl -o b.zst
    expect 3
    [ "$(rewards b.zst)" = '[null,null]' ]
    run_tool timeout 30 mint-score cmd --command 'tr -d "\n" </dev/zero' --timeout 5 --retries 0 --allow-null big.jsonl -o c.zst
    expect 3
    has "$(zstd -dcq c.zst)" 'more than 1 MiB'
    # it echoes as it reads, both ways full: the detail is cut, the score stays
    cat >prog <<'END'
#!/bin/sh
exec perl -pe '$| = 1; chomp; $_ = "{\"score\":2,\"all\":$_}\n"'
END
    chmod +x prog
    printf '{"sequences":[{"text":"%s"}]}\n' "$(head -c 500000 /dev/zero | tr '\0' y)" >mid.jsonl
    run_tool timeout 30 mint-score cmd --command ./prog mid.jsonl -o d.zst
    expect 0
    [ "$(rewards d.zst)" = '[2]' ]
    [ "$(zstd -dcq d.zst | wc -c)" -lt 600000 ]
}

@test "cmd: a program that closes its input, or is not there" {
    printf '#!/bin/sh\nexec <&-; sleep 0.1; echo 1\n' >prog
    chmod +x prog
    run_tool timeout 30 mint-score cmd --command ./prog --allow-null r.jsonl -o out.zst
    [ "$status" -eq 0 ] || [ "$status" -eq 3 ]
    [ "$(zstd -dcq out.zst | wc -l)" -eq 2 ]
    run_tool mint-score cmd --command ./nothing-here r.jsonl -o no.zst
    expect 1
    has "$stderr" "cannot run './nothing-here'"
    no_leftovers no.zst
}

@test "cmd: a signal ends the programs too, and leaves no file" {
    printf '#!/bin/sh\necho $$ >pid; read -r l; echo 1; exec sleep 987\n' >prog
    chmod +x prog
    mint-score cmd --command ./prog --timeout 60 r.jsonl -o out.zst 2>err &
    pid=$!
    for _ in $(seq 50); do
        [ -s pid ] && break
        sleep 0.1
    done
    sleep 0.2
    kill -TERM $pid
    rc=0
    wait $pid || rc=$?
    [ $rc -eq 143 ]
    no_leftovers out.zst
    ended "$(cat pid)"
}

@test "cmd: no program starts once a signal is being handled" {
    local inject=$MINT_BUILD/tests/inject/slowraise.so number=1$$
    [ -e "$inject" ] || skip "no $inject"
    [[ $(mint-score --version) != *-fsanitize=* ]] || skip "a sanitizer wants to be first"
    # its own child, which nothing but the kill of the group ends
    printf '#!/bin/sh\nread -r l; sleep %s & echo 1; sleep 0.01\n' $number >prog
    chmod +x prog
    groups 4000 >g.jsonl
    LD_PRELOAD=$inject mint-score cmd --command 'true; ./prog; true' --jobs 4 g.jsonl -o out.zst 2>err 3>&- &
    pid=$!
    sleep 0.5
    kill -TERM $pid
    rc=0
    wait $pid || rc=$?
    [ $rc -eq 143 ]
    sleep 0.2
    if pkill -f "^sleep $number\$"; then fail "a program is left"; fi
    no_leftovers out.zst
}

@test "cmd: bad records end the run, or are skipped, with programs at work" {
    answer 'print 1'
    groups 20 | sed '11s/"sequences":\[/"sequences":[7,/' >g.jsonl
    run_tool timeout 30 mint-score cmd --command ./prog --jobs 3 g.jsonl -o out.zst
    expect 1
    has "$stderr" 'g.jsonl:11: sequences[0]'
    no_leftovers out.zst
    run_tool timeout 30 mint-score cmd --command ./prog --jobs 3 --skip-bad g.jsonl -o out.zst
    expect 3
    [ "$(zstd -dcq out.zst | wc -l)" -eq 19 ]
}

@test "a pattern that runs away is no score" {
    printf '{"sequences":[{"text":"%sb"}]}\n' "$(head -c 40 /dev/zero | tr '\0' a)" >a.jsonl
    run_tool timeout 30 mint-score regex --pattern '^(a+)+$' a.jsonl -o out.zst
    expect 1
    has "$stderr" 'the pattern gave up'
    no_leftovers out.zst
    run_tool timeout 30 mint-score regex --pattern '^(a+)+$' --allow-null a.jsonl -o out.zst
    expect 3
    [ "$(rewards out.zst)" = '[null]' ]
}

@test "a closed pipe ends it quietly; a full device is an error" {
    groups 20000 >g.jsonl
    set +o pipefail
    mint-score exact --plain g.jsonl 2>err | head -n 1 >/dev/null
    [ ! -s err ]
    run_tool mint-score exact --plain r.jsonl -o /dev/full
    expect 1
    has "$stderr" 'No space left'
}

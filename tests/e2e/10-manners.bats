#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# What a user may expect of every tool alike. Each test is a loop over all of them.
# $f is a command with its arguments; nothing is written that the same line reads.
# shellcheck disable=SC2086,SC2094,SC2238
load helpers

# script(1) gives a command a terminal, where the system has one to give.
need_terminal() {
    script -qec true /dev/null </dev/null >/dev/null 2>&1 || skip "no pseudo-terminal"
}

# The two filters that need no model, and a scored group that both can read.
filters() {
    [ ! -x "$MINT_BIN/mint-score" ] || echo "mint-score length --target 2 --replace"
    [ ! -x "$MINT_BIN/mint-advantage" ] || echo "mint-advantage"
}
group() {
    printf '{"id":"%s","prompt":"p","note":[1, 2.50],"prompt_tokens":[1,2],"sequences":[' "$1"
    printf '{"tokens":[3],"logprobs":[-0.5],"stop_reason":"stop","text":"x","reward":1},'
    printf '{"tokens":[4,5],"logprobs":[-1,-2],"stop_reason":"length","text":"yy","reward":0}],'
    printf '"sampling":{"step":3,"max_tokens":2}}\n'
}

# The long options of a tool whose help names the value ARG ("[A-Z].*" for all that take one).
options_with() {
    "$1" -h | sed -nE "s/^  (-., |    )--([a-z0-9-]+) ($2)  .*/\2/p"
}

@test "--help and -h are on stdout, with status 0" {
    for t in $(tools); do
        for o in --help -h; do
            run_tool "$t" "$o"
            expect 0
            [[ ${lines[0]} == "usage: $t"* ]]
            [ -z "$stderr" ]
        done
    done
}

@test "-h is one line an option and fits a screen; --help says more" {
    for t in $(tools); do
        short=$("$t" -h)
        [ "$(wc -l <<<"$short")" -le 90 ] || fail "$t -h has $(wc -l <<<"$short") lines"
        [ "$(wc -L <<<"$short")" -le 120 ] || fail "$t -h is $(wc -L <<<"$short") columns wide"
        [ "$("$t" --help | wc -l)" -gt "$(wc -l <<<"$short")" ]
        has "$("$t" --help)" "Exit status:"
    done
}

@test "an unknown option: status 2, one line with a way out, nothing on stdout, no file" {
    for t in $(tools); do
        run_tool "$t" --nonsense
        expect_error 2 "$t: unknown option '--nonsense'; try '$t --help'"
        run_tool "$t" -o out --metrics m -% </dev/null
        expect 2
        [ -z "$(ls -A)" ] || fail "$t left $(ls -A)"
    done
}

@test "a misspelt option gets the nearest one named" {
    for t in $(tools); do
        for o in $(options_with "$t" '[^ ].*' | awk 'length($0) > 4'); do
            typo=${o:0:2}${o:3} # the third letter is missing
            run_tool "$t" "--$typo"
            expect 2
            # another option may be as near: for instance --step and --stop
            has "$stderr" "did you mean '--"
        done
    done
}

@test "an option without its value: status 2, and the kind of value is named" {
    for t in $(tools); do
        for o in $(options_with "$t" '[^ ].*'); do
            run_tool "$t" "--$o"
            expect_error 2 "'--$o' needs a value ("
        done
    done
}

@test "something else than a number where one is wanted: status 2, and the text is quoted" {
    for t in $(tools); do
        for o in $(options_with "$t" N); do
            run_tool "$t" "--$o" 12monkeys
            expect_error 2 "'--$o' takes a whole number, not '12monkeys'"
        done
    done
}

@test "a choice that is none: status 2, and the choices are named" {
    for t in $(tools); do
        for o in $(options_with "$t" '[a-z0-9_]+[|][^ ]*'); do
            run_tool "$t" "--$o" none-of-them
            expect_error 2 "'--$o' takes one of "
        done
    done
}

@test "a switch takes no value" {
    for t in $(tools); do
        run_tool "$t" --quiet=yes
        expect_error 2 "'--quiet' takes no value"
    done
}

@test "the environment: a bad MINT_THREADS or MINT_DEVICE is an error that names it" {
    for t in $(tools); do
        "$t" -h | grep -q -- --device || continue
        MINT_THREADS=zero run_tool "$t" </dev/null
        expect_error 2 "MINT_THREADS"
        MINT_DEVICE=abacus run_tool "$t" </dev/null
        expect_error 2 "MINT_DEVICE"
    done
}

@test "a full disk or a closed stdout is status 1, and said" {
    for t in $(tools); do
        for o in --help -h --version --dump-options=bash; do
            run_tool bash -c "$t $o >/dev/full"
            expect_error 1 "$t: cannot write standard output: No space left on device"
            run_tool bash -c "$t $o >&-"
            expect_error 1 "$t: cannot write standard output: Bad file descriptor"
        done
    done
}

@test "a closed pipe ends a tool quietly, by the signal" {
    for t in $(tools); do
        # shellcheck disable=SC2016
        run_tool bash -c 'exec 3> >(exec true); wait $!; '"$t"' --help >&3'
        expect 141
        [ -z "$stderr" ]
    done
}

@test "no input on a terminal: usage and status 2, no waiting" {
    need_terminal
    for t in mint-sample mint-score mint-advantage mint-train; do
        [ -x "$MINT_BIN/$t" ] || continue
        arg=
        [ "$t" != mint-score ] || arg=length
        run timeout 20 script -qec "$t $arg" /dev/null </dev/null
        expect 2
        has "$output" "usage: $t"
        has "$output" "no input"
    done
}

@test "a terminal gets no escape codes with NO_COLOR, and messages stay one line" {
    need_terminal
    for t in $(tools); do
        NO_COLOR=1 run script -qec "$t --nonsense" /dev/null </dev/null
        expect 2
        lacks "$output" $'\033'
    done
}

@test "control bytes of the user are escaped in messages" {
    for t in $(tools); do
        run_tool "$t" $'--a\033[31m\nb'
        expect 2
        lacks "$stderr" $'\033'
        has "$stderr" '\x1b[31m\x0a'
    done
}

@test "TERM and INT take the unfinished output away and end by the signal" {
    need mint-advantage
    for sig in TERM INT HUP; do
        mkfifo "in.$sig"
        # In a script, background jobs ignore INT: env gives the tool the default back.
        env --default-signal=INT mint-advantage -o out "in.$sig" 2>err &
        pid=$!
        exec 7>"in.$sig"
        for _ in $(seq 100); do
            ! compgen -G 'out.tmp-*' >/dev/null || break
            sleep 0.05
        done
        kill -s "$sig" "$pid"
        status=0
        wait "$pid" || status=$?
        exec 7>&-
        [ "$status" -eq $((128 + $(kill -l "$sig"))) ] || fail "$sig: status $status"
        no_leftovers out
    done
}

@test "plain, compressed, concatenated, CRLF, BOM, no last newline: one and the same input" {
    { group a; group b; } >in
    zstd -q in -o in.zst
    { group a | zstd -q; group b | zstd -q; } >two.zst
    sed 's/$/\r/' in >crlf
    { printf '\xef\xbb\xbf'; cat in; } >bom
    head -c -1 in >cut
    { group a; printf '\n  \n'; group b; } >blank
    group a >a
    group b >b
    while read -r f; do
        $f --plain in >want
        for i in in.zst two.zst crlf bom cut blank; do
            $f --plain "$i" >got || fail "$f $i"
            same want got
            $f --plain <"$i" >got || fail "$f <$i"
            same want got
        done
        $f --plain a b >got
        same want got
        $f --plain a - <b >got
        same want got
        $f --plain -- in >got
        same want got
        $f in | zstd -dc >got
        same want got
        $f -o out.zst in
        zstd -dc out.zst >got
        same want got
        rm out.zst
    done < <(filters)
}

@test "quiet is quiet, and data stay off stderr" {
    group a >in
    while read -r f; do
        run_tool $f -q --plain in
        expect 0
        [ -z "$stderr" ]
        [ -n "$output" ]
        run_tool $f -q -o out.zst in
        expect 0
        [ -z "$output$stderr" ]
        rm out.zst
    done < <(filters)
}

@test "input that its writer did not finish: status 1, nothing published" {
    for _ in $(seq 50); do group a; done >in
    zstd -q in -o whole.zst
    size=$(stat -c %s whole.zst)
    for cut in 1 4 10 $((size / 2)) $((size - 3)); do
        head -c $((size - cut)) whole.zst >part.zst
        while read -r f; do
            run_tool $f -o out part.zst
            expect_error 1 "part.zst"
            no_leftovers out
        done < <(filters)
    done
    cp whole.zst bad.zst
    printf '\xff' | dd of=bad.zst bs=1 seek=$((size - 2)) conv=notrunc status=none # in the checksum
    while read -r f; do
        run_tool $f -o out bad.zst
        expect_error 1 "bad.zst"
        no_leftovers out
        # downstream sees an unfinished stream as well
        run bash -c "$f part.zst 2>/dev/null | zstd -t"
        [ "$status" -ne 0 ]
    done < <(filters)
}

@test "a bad record: status 1 with file and line; --skip-bad goes on, counts, and ends with 3" {
    { group a; echo '{"id": "b", "sequences": ['; group c; } >in
    { group a; group c; } >good
    while read -r f; do
        run_tool $f -o out in
        expect_error 1 "${f%% *}: in:2:"
        no_leftovers out
        run_tool bash -c "$f -o out - <in"
        expect_error 1 "${f%% *}: stdin:2:"
        run_tool $f --skip-bad --plain -o out in
        expect 3
        has "$stderr" "in:2:"
        has "$stderr" "1 record skipped"
        $f --plain good >want
        same want out
        rm out
    done < <(filters)
}

@test "an output that exists is refused without -f, and replaced with it" {
    group a >in
    while read -r f; do
        echo precious >out
        run_tool $f -o out in
        expect 1
        has "$stderr" "out"
        has "$stderr" "-f"
        [ "$(cat out)" = precious ]
        $f -f --plain -o out in
        $f --plain in >want
        same want out
        rm out
        no_leftovers out
    done < <(filters)
}

@test "an output that cannot be made: status 1, and where is said" {
    group a >in
    while read -r f; do
        run_tool $f -o nowhere/out in
        expect_error 1 "nowhere/out"
        run_tool $f nowhere/in
        expect 1
        has "$stderr" "nowhere/in"
        run_tool $f .
        expect 1
    done < <(filters)
}

@test "data on a full disk or a closed stdout: status 1, and said" {
    for _ in $(seq 200); do group a; done >in
    while read -r f; do
        for p in "" --plain; do
            run_tool bash -c "$f -q $p in >/dev/full"
            expect_error 1 "No space left on device"
            run_tool bash -c "$f -q $p in >&-"
            expect_error 1 "Bad file descriptor"
        done
    done < <(filters)
}

@test "data into a closed pipe: quiet end by the signal" {
    for _ in $(seq 200); do group a; done >in
    while read -r f; do
        # shellcheck disable=SC2016
        run_tool bash -c 'exec 3> >(exec true); wait $!; '"$f"' in >&3'
        expect 141
        [ -z "$stderr" ]
    done < <(filters)
}

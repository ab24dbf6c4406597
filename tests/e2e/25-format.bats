#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# Hostile and unusual input through the tools: the malformed files by their rulings, damaged and strangely cut zstd, and that
# nothing half-written comes of them. The same files are read record by record in tests/unit/test_record.c.
load helpers

setup() {
    enter_scratch
    need mint-score mint-advantage
    # incompressible enough for several blocks
    awk 'BEGIN { srand(1); for (i = 0; i < 3000; i++) {
        s = ""; for (k = 0; k < 40; k++) s = s "," int(rand() * 150000)
        printf "{\"id\":%d,\"answer\":1,\"prompt_tokens\":[1%s],\"sequences\":[{\"tokens\":[1],\"logprobs\":[-1],\"text\":\"1\"},{\"tokens\":[2,3],\"logprobs\":[-1,-2],\"text\":\"2\"}]}\n", i, s
    } }' >r.jsonl
    zstd -q r.jsonl -o r.zst
}

# takes FILE: mint-score reads it as the records of r.jsonl
takes() {
    run_tool mint-score number "$1" -o out.zst -f
    expect 0
    mint-score number r.jsonl --plain >want
    zstd -dcq out.zst | cmp - want || fail "$1 was read as something else"
}

# refuses FILE TEXT: an error that names the file, for a file, for stdin and in the middle of a pipe; no file comes of it
refuses() {
    run_tool mint-score number "$1" -o out.zst -f
    expect 1
    has "$stderr" "$1"
    has "$stderr" "$2"
    no_leftovers out.zst
    run_tool mint-score number -o out.zst <"$1"
    expect 1
    has "$stderr" "$2"
    no_leftovers out.zst
    # what a tool had passed on before it saw the damage is refused downstream
    # shellcheck disable=SC2016
    run_tool bash -o pipefail -c 'mint-score number "$1" | mint-advantage -o end.zst' _ "$1"
    expect 1
    no_leftovers end.zst
    # and it is not a record that could be skipped
    run_tool mint-score number --skip-bad "$1" -o out.zst
    expect 1
    no_leftovers out.zst
}

@test "zstd and plain text are told apart by content; frames may be cut anywhere" {
    takes r.jsonl
    takes r.zst
    cp r.zst plain-name.jsonl && takes plain-name.jsonl
    split -b 7777 r.jsonl part.
    zstd -q --rm part.*
    cat part.*.zst >frames.zst && takes frames.zst
    zstd -q -c </dev/null >empty.zst
    printf '\x50\x2a\x4d\x18\x05\x00\x00\x00hello' >skip.bin
    { cat skip.bin empty.zst && cat part.*.zst && cat empty.zst skip.bin; } >all.zst && takes all.zst
    zstd -q --ultra -22 --long=31 r.jsonl -o long.zst && takes long.zst
    zstd -q --no-check r.jsonl -o nocheck.zst && takes nocheck.zst
}

@test "line ends, blank lines, a mark at the start, no newline at the end" {
    sed 's/$/\r/' r.jsonl >crlf.jsonl && takes crlf.jsonl
    sed 's/$/\n\n/' r.jsonl >blank.jsonl && takes blank.jsonl
    { printf '\xef\xbb\xbf' && cat r.jsonl; } >bom.jsonl && takes bom.jsonl
    head -c -1 r.jsonl >open.jsonl && takes open.jsonl
    { head -n 1 r.jsonl && printf '\xef\xbb\xbf' && sed 1d r.jsonl; } >inner.jsonl
    run_tool mint-score number inner.jsonl -o out.zst -f
    expect 1
    has "$stderr" 'inner.jsonl:2: '
}

@test "separators of Unicode do not end a line" {
    printf '{"id":"u","answer":1,"sequences":[{"text":"1\xe2\x80\xa8\xe2\x80\xa9\xc2\x85\\u000b\\f\\n1"}]}\n' >u.jsonl
    mint-score number --plain u.jsonl >s.jsonl
    [ "$(wc -l <s.jsonl)" -eq 1 ]
    grep -qF "$(printf '1\xe2\x80\xa8\xe2\x80\xa9\xc2\x85\\u000b\\f\\n1')" s.jsonl
}

@test "a damaged or unfinished stream is refused, wherever it is cut" {
    n=$(stat -c %s r.zst)
    for cut in 3 9 $((n / 3)) $((n / 2)) $((n - 5)) $((n - 1)); do
        head -c "$cut" r.zst >cut.zst
        refuses cut.zst 'ends inside'
    done
    cp r.zst flip.zst
    printf '\xff\xee\xdd' | dd of=flip.zst bs=1 seek=$((n / 2)) conv=notrunc status=none
    refuses flip.zst ''
    cp r.zst sum.zst
    printf '\x00\x01\x02\x03' | dd of=sum.zst bs=1 seek=$((n - 4)) conv=notrunc status=none
    refuses sum.zst ''
    { cat r.zst && printf '\0\0\0\0'; } >tail.zst
    refuses tail.zst ''
    { cat r.zst && cat r.jsonl; } >mixed.zst
    refuses mixed.zst ''
}

@test "a writer that dies leaves what every reader refuses" {
    mkfifo slow
    { head -n 1500 r.jsonl && sleep 5; } >slow &
    feeder=$!
    mint-score number slow >half.zst 2>/dev/null &
    pid=$!
    sleep 0.5
    kill -KILL $pid
    wait $pid || true
    kill $feeder 2>/dev/null || true
    run_tool mint-advantage half.zst -o d.zst
    expect 1
    has "$stderr" 'did not finish'
    no_leftovers d.zst
}

@test "malformed rollouts, by their rulings" {
    [ -n "$(command -v jq)" ] || skip "no jq"
    dir=$MINT_ROOT/tests/data/malformed
    n=0
    while IFS=$'\t' read -r file expect line records; do
        # for mint-score; two rulings are mint-advantage's
        case $file in 053*) expect=accept records=3 line=- ;; esac
        # no prompt tokens: fine where only the text counts
        case $file in 051*) expect=accept records=3 line=- ;; esac
        run_tool timeout 20 mint-score exact --replace "$dir/$file" -o "out.zst" -f
        if [ "$expect" = accept ]; then
            expect 0
            [ "$(zstd -dcq out.zst | wc -l)" -eq "$records" ] || fail "$file: $(zstd -dcq out.zst | wc -l) records"
        else
            expect 1
            has "$stderr" "$file:$line: "
        fi
        rm -f out.zst
        n=$((n + 1))
    done < <(jq -r 'select(.what == "rollout") | [.file, .expect, .line // "-", .records // "-"] | @tsv' "$dir/manifest.jsonl")
    [ $n -ge 15 ]
    for f in 051 053 054 056; do
        run_tool mint-advantage --keep-flat "$dir/$f"*.zst -o out.zst
        expect_error 1 '.jsonl.zst:2: '
    done
    # null logprobs: an error, since a made-up 0 cannot be told from data; the other ruling is an option
    run_tool mint-advantage --keep-flat "$dir/055"*.zst -o out.zst
    expect_error 1 '.jsonl.zst:2: '
    run_tool mint-advantage --keep-flat --missing-logprobs zero "$dir/055"*.zst -o out.zst
    expect 0
}

@test "malformed Datums, by their rulings" {
    need mint-init mint-train
    mint-init -q --to m --layers 1 --hidden 16 --ffn 16 --heads 1 --kv-heads 1 --head-dim 16 --vocab 151936 --tied --max-positions 131072
    dir=$MINT_ROOT/tests/data/datum/malformed
    n=0
    while IFS=$'\t' read -r file expect line; do
        run_tool timeout 20 mint-train --model m --to ck --dry-run "$dir/$file"
        if [ "$expect" = accept ] && [ "$file" != 063_only_newlines.jsonl.zst ]; then
            expect 0
        else
            expect 1
            # (no line: there is no record at all)
            [ "$line" = - ] || has "$stderr" "$file:$line: "
        fi
        no_leftovers ck
        n=$((n + 1))
    done < <(jq -r '[.file, .expect, .line // "-"] | @tsv' "$dir/manifest.jsonl")
    [ $n -ge 45 ]
}

@test "damaged zstd and more frames than one: the files of the collection" {
    dir=$MINT_ROOT/tests/data/malformed
    for f in 064 065 070 073 074 075 077 078; do
        # these hold short-form Datums: mint-score says so of line 1, unless the damage comes first; never status 0
        run_tool timeout 60 mint-score exact "$dir/$f"*.zst -o out.zst
        expect 1
        no_leftovers out.zst
    done
}

@test "a line of a gigabyte from a megabyte is refused in bounded memory" {
    # shellcheck disable=SC2016
    run_tool bash -c 'ulimit -v 1000000; timeout 60 mint-score exact "$1" -o out.zst' _ "$MINT_ROOT"/tests/data/malformed/078*.zst
    [ -z "${ASAN_OPTIONS+x}" ] || [ "$status" -eq 1 ] || skip "no address space for the sanitizer"
    expect 1
    no_leftovers out.zst
}

# fits MB CMD...: CMD works within so many MB of address space.
fits() {
    # shellcheck disable=SC2016
    bash -c 'ulimit -v $(($1 << 10)); shift; exec "$@"' _ "$@" >out 2>/dev/null
}

# bounded CMD...: where 3 MB fit, 48 MB do.
bounded() {
    local mb=8
    until fits $mb "$@" few.zst; do
        mb=$((mb + 4))
        [ $mb -lt 200 ] || fail "$*: more than 200 MB"
    done
    fits $((mb + 4)) "$@" many.zst || fail "$*: more than $((mb + 4)) MB"
}

@test "memory does not grow with the file" {
    [[ $(mint-score --version) != *-fsanitize=* ]] || skip "a sanitizer has its own memory"
    mint-score number r.zst -o s.zst
    cat s.zst s.zst >few.zst
    for _ in $(seq 16); do cat few.zst; done >many.zst
    bounded mint-score number --replace
    bounded mint-advantage
}

@test "TERM in the middle of a long stream takes the unfinished output away" {
    mkfifo in
    { cat r.zst r.zst r.zst r.zst && sleep 5; } >in &
    feeder=$!
    mint-score number in -o out.zst &
    pid=$!
    # past a megabyte, where the threads are at work
    for _ in $(seq 200); do
        [ "$(stat -c %s out.zst.tmp-* 2>/dev/null || echo 0)" -lt 600000 ] || break
        sleep 0.02
    done
    [ "$(stat -c %s out.zst.tmp-*)" -ge 600000 ]
    kill -TERM $pid
    status=0
    wait $pid || status=$?
    kill $feeder 2>/dev/null || true
    [ "$status" -eq 143 ]
    no_leftovers out.zst
}

@test "a second output never replaces the first unless told" {
    mint-score number r.zst -o s.zst
    cp s.zst before
    run_tool mint-score exact r.zst -o s.zst
    expect_error 1 's.zst'
    same s.zst before
    run_tool mint-score exact r.zst -o s.zst -f
    expect 0
    run cmp -s s.zst before
    [ "$status" -eq 1 ]
}

@test "bad records: named by line, or counted" {
    sed '7s/"tokens":\[1\]/"tokens":[-1]/; 9s/^{/{,/; 11s/"id":10/"id":[]/' r.jsonl | zstd -q >bad.zst
    run_tool mint-score number bad.zst -o s.zst
    expect_error 1 'bad.zst:7: sequences[0].tokens'
    no_leftovers s.zst
    run_tool mint-score number --skip-bad bad.zst -o s.zst
    expect 3
    has "$stderr" 'bad.zst:7: '
    has "$stderr" 'bad.zst:9: '
    has "$stderr" 'bad.zst:11: '
    has "$stderr" '3 records skipped'
    [ "$(zstd -dcq s.zst | wc -l)" -eq 2997 ]
}

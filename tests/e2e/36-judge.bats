#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# mint-score judge: a server (judge_server.pl says how it answers; tls_server.py is one behind TLS), a local model,
# rubrics, comparisons.
load helpers

setup() {
    enter_scratch
    need mint-score
    export no_proxy='*' NO_PROXY='*'
    unset http_proxy HTTP_PROXY all_proxy ALL_PROXY OPENAI_API_KEY CURL_CA_BUNDLE SSL_CERT_FILE SSL_CERT_DIR
    server=
}

teardown() {
    [ -z "$server" ] || kill "$server" 2>/dev/null || :
}

# serve [RULE]: starts the server; $url is its address.
serve() {
    command -v perl >/dev/null || skip "no perl"
    if mint-score judge --judge-url http://127.0.0.1:1 </dev/null 2>&1 | grep -q libcurl; then
        skip "no libcurl"
    fi
    mkdir -p judge
    perl "$MINT_ROOT/tests/e2e/judge_server.pl" judge "$@" 3>&- &
    server=$!
    for _ in $(seq 100); do
        [ ! -e judge/port ] || break
        sleep 0.05
    done
    url=http://127.0.0.1:$(cat judge/port)
}

# authority NAME: makes a certificate authority, NAME.pem
authority() {
    openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj "/CN=$1" -keyout "$1.key" -out "$1.pem" 2>/dev/null
}

# serve_tls NAMES: the judge behind TLS, its certificate by ca.pem for these names (openssl's subjectAltName)
serve_tls() {
    openssl req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj /CN=judge -addext "subjectAltName=$1" -keyout tls/server.key -out tls/server.csr 2>/dev/null
    openssl x509 -req -in tls/server.csr -CA ca.pem -CAkey ca.key -CAcreateserial -days 2 -copy_extensions copy -out tls/server.pem 2>/dev/null
    rm -f tls/port
    python3 "$MINT_ROOT/tests/e2e/tls_server.py" tls 3>&- &
    server=$!
    for _ in $(seq 200); do
        [ ! -e tls/port ] || break
        sleep 0.05
    done
    url=https://127.0.0.1:$(cat tls/port)
}

# group ID TEXT...: a record with these responses
group() {
    local id=$1 sep=
    shift
    printf '{"id":"%s","prompt":"How are you?","answer":"fine","sequences":[' "$id"
    for t; do
        printf '%s{"text":"%s","stop_reason":"stop"}' "$sep" "$t"
        sep=,
    done
    printf ']}\n'
}

# of FILE FILTER: what jq makes of its records, on one line
of() {
    zstd -dcf "$1" | jq -c "$2" | tr -d '\n'
}

@test "rubric: the reply's score on the scale; what is none is null, with the words" {
    serve
    group a 'say Score: 8' 'say 6' 'say no idea' 'say 6' >r.jsonl
    group b 'say There are 5 reasons why this is a score of 9' 'say ' 'say excellent' 'say SCORE: 9' 'say 11' 'cut Well' >>r.jsonl
    run_tool mint-score judge --judge-url "$url" --scale 0:10 --allow-null r.jsonl -o s.zst
    expect 3
    [ "$(of s.zst '[.sequences[].reward]')" = '[0.8,0.6,null,0.6][null,null,null,0.9,null,null]' ]
    [ "$(of s.zst '.sequences[2].detail.judge.reply')" = '"no idea""excellent"' ]
    has "$(of s.zst '.sequences[2].detail.judge.error')" 'unparsed'
    has "$(of s.zst '.sequences[4].detail.judge.error')" 'out of range: 11'
    has "$(of s.zst '.sequences[5].detail.judge.error')" '--max-tokens'
    has "$stderr" '6 of 10 sequences have reward null'
    # the mean is over those that have a score
    mint-advantage --plain <(zstd -dcq s.zst | head -n 1 | sed 's/{"text"/{"tokens":[1],"logprobs":[-1],"text"/g; s/"prompt"/"prompt_tokens":[1],"prompt"/') >d.jsonl
    [ "$(wc -l <d.jsonl)" -eq 3 ]
    # equal responses share a question
    [ "$(grep -c '^+ say 6' judge/log)" -eq 1 ]
}

@test "without --allow-null nothing is written" {
    serve
    group a 'say 3' 'say nothing' >r.jsonl
    run_tool mint-score judge --judge-url "$url" r.jsonl -o s.zst
    expect 1
    has "$stderr" '1 of 2 sequences could not be scored'
    no_leftovers s.zst
}

@test "the question: fields, the key, the model's name, temperature 0" {
    serve
    group a 'say 4' >r.jsonl
    printf 'Q {prompt} A {response} G {answer} {{"x": 1}} {id}' >p.txt
    KEY=s3cret mint-score judge --judge-url "$url/v1" --judge-model some/judge --judge-key-env KEY --prompt-file p.txt \
        --max-tokens 9 r.jsonl -o s.zst --allow-null || [ $? -eq 3 ]
    grep -q '^POST /v1/chat/completions ' judge/request
    grep -q '^Authorization: Bearer s3cret' judge/request
    body=$(sed '1,/^\r*$/d' judge/request | tail -n 1)
    [ "$(jq -c '[.model,.temperature,.max_tokens,.messages[0].role]' <<<"$body")" = '["some/judge",0,9,"user"]' ]
    [ "$(jq -r '.messages[0].content' <<<"$body")" = 'Q How are you? A say 4 G fine {"x": 1} a' ]
}

@test "a conversation is shown message by message" {
    serve
    echo '{"id":"a","prompt":"<rendered>","messages":[{"role":"system","content":"Be short."},{"role":"user","content":[{"type":"text","text":"Hi"}]}],"sequences":[{"text":"say 5"}]}' >r.jsonl
    mint-score judge --judge-url "$url" r.jsonl -o s.zst
    has "$(tail -n 1 judge/request)" '<request>\nsystem: Be short.\n\nuser: Hi\n</request>'
}

@test "what may pass is asked again; what will not is not" {
    serve
    group a 'fail 2 503 Score: 3' 'fail 1 429 4' 'drop 1 5' 'fail 1 400 6' 'status 413 too long' 'raw <html>' >r.jsonl
    run_tool mint-score judge --judge-url "$url" --allow-null r.jsonl -o s.zst
    expect 3
    [ "$(of s.zst '[.sequences[].reward]')" = '[0.3,0.4,0.5,null,null,null]' ]
    [ "$(of s.zst '.sequences[3].detail.judge.error')" = '"the judge answers with HTTP status 400: busy"' ]
    [ "$(of s.zst '.sequences[4].detail.judge.error')" = '"the judge answers with HTTP status 413: too long"' ]
    [ "$(grep -c '^+ fail 2 503' judge/log)" -eq 3 ]
    [ "$(grep -c '^+ fail 1 400' judge/log)" -eq 1 ]
}

@test "tries end: --retries, --timeout" {
    serve
    group a 'fail 9 500 1' 'hang' 'say 2' 'drip' >r.jsonl
    run_tool mint-score judge --judge-url "$url" --allow-null --retries 1 --timeout 0.5 r.jsonl -o s.zst
    expect 3
    [ "$(of s.zst '[.sequences[].reward]')" = '[null,null,0.2,null]' ]
    has "$(of s.zst '.sequences[0].detail.judge.error')" 'HTTP status 500: busy (2 tries)'
    has "$(of s.zst '.sequences[1].detail.judge.error')" 'Timeout was reached (2 tries)'
    [ "$(grep -c '^+ hang' judge/log)" -eq 2 ]
    # a server that trickles is one that hangs
    has "$(of s.zst '.sequences[3].detail.judge.error')" 'Timeout was reached (2 tries)'
}

@test "nobody listens: null, and the waiting is not paid for each question" {
    serve
    kill "$server"
    wait "$server" || :
    group a t{1..40} >r.jsonl
    run_tool timeout 20 mint-score judge --judge-url "$url" --allow-null --retries 2 --jobs 2 r.jsonl -o s.zst
    expect 3
    [ "$(of s.zst '[.sequences[].reward]|unique')" = '[null]' ]
    has "$(of s.zst '.sequences[0].detail.judge.error')" 'the judge cannot be asked'
}

@test "a server that refuses everybody ends the run" {
    serve
    group a 'status 401 no key given' >r.jsonl
    run_tool mint-score judge --judge-url "$url" --allow-null r.jsonl -o s.zst
    expect_error 1 'no key given; a key is taken from --judge-key-env'
    no_leftovers s.zst
}

@test "TLS: trusted by CURL_CA_BUNDLE, SSL_CERT_FILE or SSL_CERT_DIR; without, refused at once" {
    command -v openssl >/dev/null || skip "no openssl"
    command -v python3 >/dev/null || skip "no python3"
    if mint-score judge --judge-url http://127.0.0.1:1 </dev/null 2>&1 | grep -q libcurl; then
        skip "no libcurl"
    fi
    mkdir tls certs
    authority ca
    authority other
    serve_tls IP:127.0.0.1
    group a 'one' 'two' >r.jsonl
    run_tool mint-score judge --judge-url "$url" --allow-null r.jsonl -o s.zst
    expect_error 1 'SSL certificate problem'
    has "$stderr" 'CURL_CA_BUNDLE=FILE'
    no_leftovers s.zst
    CURL_CA_BUNDLE=other.pem SSL_CERT_FILE=ca.pem run_tool mint-score judge --judge-url "$url" --allow-null r.jsonl -o s.zst
    expect_error 1 'SSL certificate problem'
    CURL_CA_BUNDLE=none.pem run_tool mint-score judge --judge-url "$url" --allow-null r.jsonl -o s.zst
    expect_error 1 none.pem
    [ ! -e tls/requests ] || fail "asked: $(cat tls/requests)"

    KEY=s3cret CURL_CA_BUNDLE=ca.pem mint-score judge --judge-url "$url" --judge-key-env KEY r.jsonl -o s.zst
    [ "$(of s.zst '[.sequences[].reward]')" = '[0.8,0.8]' ]
    [ "$(sort -u tls/requests)" = '/v1/chat/completions Bearer s3cret' ]
    SSL_CERT_FILE=ca.pem mint-score judge --judge-url "$url" r.jsonl -o t.zst
    same s.zst t.zst
    cp ca.pem certs/
    openssl rehash certs
    SSL_CERT_DIR=certs mint-score judge --judge-url "$url" r.jsonl -o u.zst
    same s.zst u.zst
    # in words that are not TLS, it is a broken connection as any other
    run_tool mint-score judge --judge-url "http://127.0.0.1:$(cat tls/port)" --retries 0 --allow-null r.jsonl -o v.zst
    expect 3
    kill "$server"

    # a certificate of a trusted authority, for somebody else
    serve_tls DNS:judge.example
    CURL_CA_BUNDLE=ca.pem run_tool mint-score judge --judge-url "$url" --allow-null r.jsonl -o w.zst
    expect_error 1 'no alternative certificate subject name matches'
}

@test "redirects are not followed: the key goes nowhere else" {
    serve
    export KEY=s3cret-of-mine
    for to in "$url/elsewhere" /v1/other; do
        group a "goto $to" 'say 5' >r.jsonl
        run_tool mint-score judge --judge-url "$url" --judge-key-env KEY --jobs 1 --allow-null r.jsonl -o s.zst
        expect_error 1 "status 307: it points to $url/"
        has "$stderr" 'redirects are not followed'
    done
    [ "$(grep -c '^+' judge/log)" -eq 2 ]
    # after an answer it is one question's trouble
    group a 'say 5' "goto $url/elsewhere" >r.jsonl
    run_tool mint-score judge --judge-url "$url" --jobs 1 --allow-null r.jsonl -o s.zst
    expect 3
    [ "$(of s.zst '[.sequences[].reward]')" = '[0.5,null]' ]
}

@test "a server that repeats the key: it is in no message and no file" {
    serve
    export KEY=s3cret-of-mine
    group a 'say 1' 'key 500' 'key 400' 'key 200' >r.jsonl
    run_tool mint-score judge --judge-url "$url" --judge-key-env KEY --retries 0 --jobs 1 --allow-null --plain -vv --metrics m.jsonl r.jsonl
    expect 3
    [ "$(jq -c '[.sequences[].reward]' <<<"$output")" = '[0.1,null,null,0.5]' ]
    has "$output" 'Bearer **'
    group a 'key 401' >r.jsonl
    all="$output$stderr$(cat m.jsonl)"
    run_tool mint-score judge --judge-url "$url" --judge-key-env KEY --plain r.jsonl
    expect_error 1 'status 401'
    lacks "$all$stderr" s3cret
    # nor is the query of an address, which is no place for it
    run_tool mint-score judge --judge-url "$url?key=s3cret" r.jsonl -o t.zst
    expect_error 1 'completions: the judge answers with HTTP status 401'
    lacks "$stderr" s3cret
}

@test "answers in pieces, halves, too long; a date to come back at" {
    serve
    group a 'chunks Score: 4' 'half 1 5' 'half 9 1' 'huge 600000' 'huge 5000000' 'date 1 7' >r.jsonl
    run_tool mint-score judge --judge-url "$url" --allow-null --retries 1 r.jsonl -o s.zst
    expect 3
    [ "$(of s.zst '[.sequences[].reward]')" = '[0.4,0.5,null,0.9,null,0.7]' ]
    has "$(of s.zst '.sequences[2].detail.judge.error')" 'partial file (2 tries)'
    has "$(of s.zst '.sequences[4].detail.judge.error')" 'too long'
    [ "$(of s.zst '.sequences[3].detail.judge.reply_bytes')" -eq 600009 ]
}

@test "answers that are no chat completion are no score" {
    serve
    group a 'raw {}' 'raw []' 'raw' 'raw {\"choices\":[]}' 'raw {\"choices\":7}' 'raw {\"choices\":[{\"message\":{\"content\":null}}]}' \
        'raw {\"choices\":[{\"message\":{\"content\":8}}]}' 'raw {\"choices\":[{\"text\":\"8\"}]}' 'say NaN' 'say 1e999' 'say 7-8' 'say ٨' >r.jsonl
    run_tool mint-score judge --judge-url "$url" --allow-null r.jsonl -o s.zst
    expect 3
    [ "$(of s.zst '[.sequences[].reward]|unique')" = '[null]' ]
}

@test "a host that is not there, an address that is none" {
    serve
    group a x y >r.jsonl
    run_tool timeout 60 mint-score judge --judge-url http://no-such-host.invalid --retries 1 --allow-null r.jsonl -o s.zst
    expect 3
    has "$(of s.zst '.sequences[0].detail.judge.error')" 'the judge cannot be asked'
    for bad in http://127.0.0.1:99999 'http://[::1'; do
        run_tool mint-score judge --judge-url "$bad" --allow-null r.jsonl -o t.zst
        expect_error 1 "$bad/v1/chat/completions: the judge cannot be asked: URL"
    done
    # a query stays behind the address
    mint-score judge --judge-url "$url/v1?version=2" --allow-null r.jsonl -o u.zst || [ $? -eq 3 ]
    grep -q '^POST /v1/chat/completions?version=2 ' judge/request
}

@test "fields are put in once: a response that names a field gets none of it" {
    serve
    group a 'say {answer} {prompt} {{x}}' >r.jsonl
    printf '{prompt}|<response>
{response}
</response>|{answer}' >p.txt
    mint-score judge --judge-url "$url" --prompt-file p.txt --allow-null r.jsonl -o s.zst || [ $? -eq 3 ]
    [ "$(tail -n 1 judge/request | jq -r '.messages[0].content')" = $'How are you?|<response>
say {answer} {prompt} {{x}}
</response>|fine' ]
}

@test "--prompt-file from a pipe; --gold-field that the text does not show" {
    serve
    group a 'say 3' >r.jsonl
    mint-score judge --judge-url "$url" --prompt-file <(printf '<response>
{response}
</response>') r.jsonl -o s.zst
    [ "$(of s.zst '.sequences[0].reward')" = 0.3 ]
    run_tool mint-score judge --judge-url "$url" --prompt-file <(head -c 2000000 /dev/zero) r.jsonl -o t.zst
    expect_error 1 'more than 1048576 bytes'
    run_tool mint-score judge --judge-url "$url" --gold-field answer r.jsonl -o t.zst
    expect_error 2 '{answer}'
    mint-score judge --judge-url "$url" --gold-field answer --prompt-file <(printf '<response>
{response}
</response>{answer}') r.jsonl -o t.zst
}

@test "a run that is killed leaves no file, and the next one is whole" {
    serve
    group a 'say 3' 'slow 0.5 4' >r.jsonl
    mint-score judge --judge-url "$url" r.jsonl -o s.zst &
    pid=$!
    until grep -q '^+ slow' judge/log 2>/dev/null; do sleep 0.02; done
    kill -KILL $pid
    wait $pid || :
    [ ! -e s.zst ]
    mint-score judge --judge-url "$url" r.jsonl -o s.zst
    [ "$(of s.zst '[.sequences[].reward]')" = '[0.3,0.4]' ]
    ! compgen -G 's.zst.tmp-*' >/dev/null || fail "left over"
}

@test "many at a time, no more than --jobs, the same bytes in the same order" {
    serve
    for i in 1 2 3 4 5 6; do
        group "g$i" "slow 0.$((7 - i)) $i" "slow 0.0$i 2" "say $i"
    done >r.jsonl
    mint-score judge --judge-url "$url" --jobs 1 --plain r.jsonl >one.jsonl
    : >judge/log
    mint-score judge --judge-url "$url" --jobs 5 --plain r.jsonl >five.jsonl
    same one.jsonl five.jsonl
    [ "$(awk '/^\+/ { if (++n > most) most = n } /^-/ { n-- } END { print most }' judge/log)" -le 5 ]
    [ "$(awk '/^\+/ { if (++n > most) most = n } /^-/ { n-- } END { print most }' judge/log)" -ge 3 ]
}

@test "pairwise: wins minus losses, both orders, all pairs" {
    serve longer
    group a 'x' 'xxx' 'xx' 'xx' >r.jsonl
    mint-score judge --judge-url "$url" --mode pairwise r.jsonl -o s.zst
    [ "$(of s.zst '[.sequences[].reward]')" = '[-1,1,0,0]' ]
    [ "$(of s.zst '.sequences[2].detail.judge')" = '{"comparisons":6,"wins":2,"losses":2,"ties":2,"flips":0}' ]
    [ "$(grep -c '^+' judge/log)" -eq 10 ] # the two equal ones are not asked about
}

@test "pairwise: a judge who likes length shows in the summary" {
    serve longer
    { group a x xxx xx xxxxx; group b yy y yyy; } >r.jsonl
    mint-score judge --judge-url "$url" --mode pairwise --summary --metrics m.jsonl r.jsonl >t.txt
    grep -q '^length corr' t.txt
    jq -e '."reward/length_corr" > 0.8' m.jsonl
}

@test "pairwise: a judge who likes the first place gives nobody a point" {
    serve always-A
    group a 'x' 'xxx' >r.jsonl
    mint-score judge --judge-url "$url" --mode pairwise r.jsonl -o s.zst
    [ "$(of s.zst '[.sequences[].reward]')" = '[0,0]' ]
    [ "$(of s.zst '.sequences[0].detail.judge.flips')" = 1 ]
}

@test "pairwise: --pairs ring:1 asks about neighbours only" {
    serve longer
    group a '1' '22' '333' '4444' '55555' >r.jsonl
    mint-score judge --judge-url "$url" --mode pairwise --pairs ring:1 r.jsonl -o s.zst
    [ "$(of s.zst '[.sequences[].reward]')" = '[-1,0,0,0,1]' ]
    [ "$(grep -c '^+' judge/log)" -eq 10 ]
}

@test "pairwise: a pair without two verdicts is lost; without any pair there is no reward" {
    serve longer
    group a 'x' 'mute' 'xxxxx' >r.jsonl
    group b 'alone' >>r.jsonl
    run_tool mint-score judge --judge-url "$url" --mode pairwise --allow-null r.jsonl -o s.zst
    expect 3
    [ "$(of s.zst '[.sequences[].reward]')" = '[-1,null,1][null]' ]
    [ "$(of s.zst '.sequences[0].detail.judge.pairs_lost')" = '1null' ]
    [ "$(of s.zst '.sequences[1].detail.judge.reply')" = '"I cannot say."null' ]
    # equal responses tie, but that alone is no 0 where the judge failed
    group a 'mute' 'mute' 'x' >r.jsonl
    run_tool mint-score judge --judge-url "$url" --mode pairwise --allow-null r.jsonl -o t.zst
    expect 3
    [ "$(of t.zst '[.sequences[].reward]')" = '[null,null,null]' ]
    group a 'mute' 'mute' >r.jsonl
    mint-score judge --judge-url "$url" --mode pairwise r.jsonl -o u.zst
    [ "$(of u.zst '[.sequences[].reward]')" = '[0,0]' ]
}

@test "a bad record among good ones" {
    serve
    { group a 'say 1'; echo '{"id":"b","prompt":"p","sequences":[{"tokens":[1]}]}'; group c 'say 2'; } >r.jsonl
    run_tool mint-score judge --judge-url "$url" --plain r.jsonl
    expect_error 1 'r.jsonl:2: sequences[0].text is missing'
    run_tool mint-score judge --judge-url "$url" --skip-bad --plain r.jsonl
    expect 3
    [ "$(jq -c '.sequences[0].reward' <<<"$output" | tr '\n' ' ')" = '0.1 0.2 ' ]
}

@test "composes with other scorers, and leaves everything else as it is" {
    serve
    group a 'say 5' 'say 7' >r.jsonl
    mint-score format --pattern '5' r.jsonl | mint-score judge --judge-url "$url" --weight 2 --name opinion -o s.zst
    [ "$(of s.zst '[.sequences[].reward]')" = '[2,1.4]' ]
    [ "$(of s.zst '.sequences[0].scores')" = '{"format":1,"opinion":0.5}' ]
}

@test "other scorers do not pay for the judge: no libcurl is linked" {
    command -v ldd >/dev/null || skip "no ldd"
    ldd "$MINT_BIN/mint-score" >libs.txt || skip "linked statically"
    lacks "$(cat libs.txt)" libcurl
    lacks "$(cat libs.txt)" libssl
}

@test "wrong use" {
    run_tool mint-score judge r.jsonl -o s.zst
    expect_error 2 '--judge-model DIR or --judge-url URL'
    printf 'no fields' >none.txt
    printf 'line\n{response} {' >brace.txt
    for args in '--judge-url ftp://x' '--judge-url http://u:p@x' '--judge-url http://x --expected' \
        '--judge-url http://x --judge-key-env NO_SUCH_KEY' '--judge-url http://x --scale 5:1' \
        '--judge-url http://x --mode pairwise --pairs ring:0' '--judge-url http://x --pairs all' \
        '--judge-url http://x --mode pairwise --scale 0:1' '--judge-url http://x --prompt-file none.txt' \
        '--judge-url http://x --prompt-file brace.txt'; do
        # shellcheck disable=SC2086
        run_tool mint-score judge $args r.jsonl -o s.zst
        expect_error 2 mint-score:
    done
    has "$stderr" 'brace.txt:2: a brace'
    run_tool mint-score judge --judge-model nowhere r.jsonl -o s.zst
    expect_error 1 'the judge: '
}

@test "a local judge: replies by the sampler, the same for any --jobs and --threads" {
    need mint-init
    mint-init --to model
    group a 'yes' 'no' >r.jsonl
    group b 'maybe' 'so' 'and so' >>r.jsonl
    for n in 1 7; do
        mint-score judge --judge-model model --max-tokens 8 --allow-null -q --jobs $n --threads $n --plain r.jsonl >$n.jsonl || [ $? -eq 3 ]
    done
    same 1.jsonl 7.jsonl
    [ "$(jq -s 'length' 1.jsonl)" -eq 2 ]
    # a random model says nothing that is a score
    [ "$(jq -c '[.sequences[].reward]' 1.jsonl | tr -d '\n')" = '[null,null][null,null,null]' ]
    [ "$(jq -r '.sequences[0].detail.judge.reply' 1.jsonl | wc -c)" -gt 1 ]
}

@test "a local judge: the expected score is always there" {
    need mint-init
    mint-init --to model
    group a 'yes' 'no' 'yes' >r.jsonl
    mint-score judge --judge-model model --expected --scale 1:5 --plain r.jsonl >s.jsonl
    jq -e '[.sequences[] | .reward >= 0 and .reward <= 1 and .detail.judge.mass > 0 and .detail.judge.score == 1 + 4 * .reward] | all' s.jsonl
    [ "$(jq -c '.sequences[0].reward == .sequences[2].reward and .sequences[0].reward != .sequences[1].reward' s.jsonl)" = true ]
    # 1 begins 10: the end of the number counts too
    mint-score judge --judge-model model --expected --plain r.jsonl | jq -e '[.sequences[].reward] | all(. > 0 and . < 1)'
    run_tool mint-score judge --judge-model model --expected --scale 0:0.5 r.jsonl -o s.zst
    expect_error 2 'whole numbers'
}

@test "a local judge with an adapter; a question longer than its context" {
    need mint-init
    need mint-train
    tiny_world world
    group a 'yes' 'no' >r.jsonl
    mint-score judge --judge-model world/model --expected --plain r.jsonl >base.jsonl
    mint-score judge --judge-model world/model --judge-adapter world/ckpt/1 --expected --plain r.jsonl >adapted.jsonl
    if cmp -s base.jsonl adapted.jsonl; then fail "the adapter changes nothing"; fi
    group a "$(printf 'long %.0s' $(seq 20000))" 'yes' >long.jsonl
    run_tool mint-score judge --judge-model world/model --expected --allow-null --plain long.jsonl
    expect 3
    has "$(jq -c '[.sequences[]|.reward==null]' <<<"$output")" '[true,false]'
    has "$stderr" 'its context is'
}

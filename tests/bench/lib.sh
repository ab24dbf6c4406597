# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# For the benchmarks: common options, models, measured commands, records and their report. README.md says what is measured.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
build=$(cd "${MINT_BUILD:-$here/../../build/release}" && pwd) || exit 1
PATH=$build/bin:$PATH
export PATH LC_ALL=C

# begin PART ARGS...: reads the common options; what is left is in $rest. The usage is the comment on top of the script.
begin() {
    part=$1 quick='' json='' work='' runs='' threads='' python=python3 patience=300 rest=()
    shift
    while [ $# -gt 0 ]; do
        case $1 in
        --quick) quick=1 ;;
        --json | --work | --runs | --threads | --python | --patience)
            [ $# -gt 1 ] || die "$1 needs a value"
            printf -v "${1#--}" %s "$2"
            shift
            ;;
        -h | --help)
            sed -n '3,/^[^#]/s/^# \{0,1\}//p' "$0"
            exit 0
            ;;
        -*) die "unknown option $1; see --help" ;;
        *) rest+=("$1") ;;
        esac
        shift
    done
    [ -x "$build/tests/bench/bench_run" ] || die "no benchmarks in $build: run 'make bench-programs', or set MINT_BUILD"
    dir=$(mktemp -d)
    trap 'rm -rf "$dir"' EXIT
    [ -z "$json" ] || json=$(realpath -m "$json")
    work=$(realpath -m "${work:-$dir}")
    mkdir -p "$work"
    threads=${threads:-$(nproc)}
    export MINT_THREADS=$threads OMP_NUM_THREADS=$threads
    records=$dir/records.jsonl
    : >"$records"
    probe
}

die() {
    echo "${0##*/}: $*" >&2
    exit 1
}

say() {
    echo "$part: $*" >&2
}

# calc EXPRESSION: its value
calc() {
    awk "BEGIN { printf \"%.10g\", ($1) }"
}

# probe: what the machine can do now, into $bf16, $fma (GFLOP/s) and $read_bw (GB/s). A CPU may have vdpbf16ps and be faster
# without: $peak is that of products of bf16 numbers by either way.
probe() {
    local p
    p=$("$build/tests/bench/bench_gemm" --machine --threads "$threads" --samples 5)
    eval "$(jq -r '"bf16=\(.bf16_peak_gflops) fma=\(.fma_peak_gflops) read_bw=\(.read_gb_per_s)"' <<<"$p")"
    peak=$(calc "$bf16 > $fma ? $bf16 : $fma")
    jq -c '{probe: .}' <<<"$p" >>"$records"
}

# used CMD...: runs it; $wall, $cpu (seconds) and $rss (bytes) are of it. Its words on stderr go to $dir/log.
used() {
    local rc=0
    "$build/tests/bench/bench_run" "$dir/used" "$@" 2>"$dir/log" || rc=$?
    [ $rc -ne 126 ] || cat "$dir/log" >&2
    eval "$(jq -r '"wall=\(.wall) cpu=\(.cpu) rss=\(.rss)"' "$dir/used")"
    return $rc
}

# ours CMD...: as used; a failure ends the benchmark.
ours() {
    used "$@" || die "$(tail -n 1 "$dir/log")"
}

# peer NAME CMD...: as used, for at most $patience seconds; a failure is said and is one (a peer must not end anything).
peer() {
    local name=$1 rc=0
    shift
    used timeout "$patience" "$@" || rc=$?
    [ $rc -ne 0 ] || return 0
    [ $rc -ne 124 ] || echo "it took more than $patience s" >>"$dir/log"
    say "$name failed: $(grep -v '^ *$' "$dir/log" | tail -n 1)"
    return 1
}

# record CASE WHO UNIT VALUE [LIMIT [BOUND]]: one sample, with the cores that the last measured command had.
record() {
    jq -nc --arg case "$1" --arg who "$2" --arg unit "$3" --argjson value "$4" --argjson limit "${5:-null}" --arg bound "${6:-}" \
        --argjson cores "$(calc "$cpu / ($wall + 1e-9)")" \
        '{$case, $who, $unit, $value, $limit, $bound, $cores}' >>"$records"
}

# goal CASE ahead|limit|least|most FACTOR: mint is to be so many times ahead of the best peer; to reach this part of the limit
# (of seconds and bytes: to take at most so many times the limit); to reach or to take at most so much.
goal() {
    jq -nc --arg case "$1" --arg kind "$2" --argjson factor "$3" '{goal: {$case, $kind, $factor}}' >>"$records"
}

# memory CASE WHO [LIMIT]: a record of the last command's peak memory
memory() {
    record "$1" "$2" GB "$(calc "$rss / 1e9")" "${3:-null}" 'what it must hold'
}

# point SERIES X WORK BASE: one of growing sizes x, by the last command: processor seconds beyond BASE, and peak memory. WORK,
# in any unit, is what has to be done for x.
point() {
    jq -nc --arg series "$1" --argjson x "$2" --argjson work "$3" --argjson base "$4" --argjson cpu "$cpu" --argjson wall "$wall" \
        --argjson rss "$rss" '{point: {$series, $x, $work, $base, $cpu, $wall, $rss}}' >>"$records"
}

# model NAME [OPTIONS of mint-init]: the folder $model, made once in $work; its shape in L H F V (layers, width, MLP, vocabulary),
# qdim kvdim (all heads), layer head (weights of a layer's, and of the head's, matrices), kv (bytes of keys and values of a position).
model() {
    local name=$1
    shift
    model=$work/$name
    [ -d "$model" ] || mint-init -q --to "$model" "$@"
    eval "$(jq -r '(.head_dim // .hidden_size / .num_attention_heads) as $d | "L=\(.num_hidden_layers) H=\(.hidden_size)
        F=\(.intermediate_size) V=\(.vocab_size) qdim=\(.num_attention_heads * $d) kvdim=\(.num_key_value_heads * $d)"' \
        "$model/config.json")"
    layer=$(calc "$H * (2 * $qdim + 2 * $kvdim + 3 * $F)")
    head=$(calc "$V * $H")
    kv=$(calc "4 * $L * $kvdim")
    cat "$model"/*.safetensors >/dev/null # into the page cache
}

# preset NAME: the model of this preset; in a quick run a small one that has the same parts
preset() {
    if [ -n "$quick" ]; then
        model small --preset smollm2-135m --layers 6 --hidden 288 --heads 9 --kv-heads 3 --head-dim 32 --ffn 768
    else
        model "$1" --preset "$1"
    fi
}

# prompts N TOKENS: N prompts of so many bytes, each a token of mint-init's tokenizer; no two begin alike
prompts() {
    awk -v n="$1" -v len="$2" 'BEGIN {
        for (i = 0; i < n; i++) {
            s = sprintf("%05d ", i)
            while (length(s) < len) s = s sprintf("%c", 97 + (length(s) * 7 + i * 3 + int(length(s) / 11)) % 26)
            printf "{\"id\":%d,\"prompt\":\"%s\"}\n", i, substr(s, 1, len)
        }
    }'
}

# rollouts MB [DIGITS]: scored rollout groups of 8 or 16, prompts of 40 to 300 tokens, responses of 300 to 1000 with logprobs of
# so many digits: 9 as a float32 has, 17 as a double has. What is above 16 MB repeats, farther than zstd looks back.
rollouts() {
    local at
    awk -v digits="${2:-9}" -v bytes="$(calc "($1 < 16 ? $1 : 16) * 1e6")" 'BEGIN {
        srand(1)
        n = split("the a of to and in is we have that number so then x y sum equals therefore answer step first second \\\\frac{1}{2} \\n\\n 12 3.5", w, " ")
        for (i = 0; size < bytes; i++) {
            p = 40 + int(rand() * 260); s = "1"
            for (k = 1; k < p; k++) s = s "," int(rand() * 150000)
            line = "{\"id\":\"p" i "\",\"prompt\":\"q\",\"answer\":\"12\",\"prompt_tokens\":[" s "],\"sequences\":["
            m = rand() < .5 ? 8 : 16
            for (g = 0; g < m; g++) {
                r = 300 + int(rand() * 700); s = "7"; q = "-0.5"; t = "so"
                for (k = 1; k < r; k++) {
                    s = s "," int(rand() * (rand() < .5 ? 5000 : 150000))
                    q = q sprintf(",-%." digits "g", rand() < .3 ? rand() / 10000 : -log(1 - rand()) / 2)
                    if (k % 4) t = t " " w[1 + int(rand() * n)]
                }
                right = rand() < .4
                line = line (g ? "," : "") "{\"tokens\":[" s "],\"logprobs\":[" q "],\"stop_reason\":\"stop\",\"text\":\"" t \
                    " The answer is " (right ? 12 : 13) ".\",\"reward\":" right "}"
            }
            line = line "],\"sampling\":{\"step\":12,\"adapter\":null,\"max_tokens\":1024,\"logprobs\":\"policy\"}}"
            size += length(line) + 1
            print line
        }
    }' >"$dir/rollouts"
    for ((at = 0; at < $1; at += 16)); do cat "$dir/rollouts"; done
}

# finish: the table on stdout, and with --json all of it in a file.
finish() {
    probe
    jq -L "$here" -s --arg part "$part" --arg quick "$quick" 'include "report"; summary($part; $quick != "")' "$records" >"$dir/summary.json"
    table "$dir/summary.json"
    [ -z "$json" ] || { cp "$dir/summary.json" "$json.tmp" && mv "$json.tmp" "$json"; }
}

table() {
    jq -L "$here" -r 'include "report"; table' "$1"
}

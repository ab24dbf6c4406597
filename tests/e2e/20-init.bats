#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# mint-init: whole folders, the same bytes from the same options, shapes that fit together.
load helpers

setup() {
    enter_scratch
    need mint-init
}

# names DIR: what is in it.
names() {
    find "$1" -mindepth 1 -maxdepth 1 -printf '%f\n' | sort | tr '\n' ' '
}

@test "a folder with everything that a model needs" {
    run_tool mint-init --to m
    expect 0
    [ -z "$output" ]
    [ -z "$stderr" ]
    [ "$(names m)" = "config.json generation_config.json model.safetensors tokenizer.json tokenizer_config.json " ]
    [ "$(jq -r '.model_type, .hidden_size, .vocab_size, .tie_word_embeddings' m/config.json | tr '\n' ' ')" = "qwen3 64 264 true " ]
    [ "$(jq -c .eos_token_id m/generation_config.json)" = "[258,256]" ]
    [ "$(jq '.model.vocab | length' m/tokenizer.json)" = 256 ]
    [ "$(jq -r '.added_tokens[] | "\(.id) \(.content)"' m/tokenizer.json | tr '\n' ,)" = "256 <|endoftext|>,257 <|im_start|>,258 <|im_end|>," ]
    [ "$(ls -A)" = m ] # no temporary is left
}

@test "the same options give the same bytes, whatever the threads; another seed gives others" {
    mint-init --to a --seed 3 --threads 1
    mint-init --to b --seed 3 --threads 3
    diff -r a b
    mint-init --to c --seed 4
    if cmp -s a/model.safetensors c/model.safetensors; then fail "another seed, the same weights"; fi
    same a/tokenizer.json c/tokenizer.json
}

@test "shards hold the same tensors as one file" {
    mint-init --to one --arch llama --no-tied
    mint-init --to four --arch llama --no-tied --shards 4
    [ "$(find four -name 'model-0000?-of-00004.safetensors' | wc -l)" = 4 ]
    [ ! -e four/model.safetensors ]
    [ "$(jq '.weight_map | length' four/model.safetensors.index.json)" = 21 ]
    # data and headers: what is behind the 8-byte length and the JSON of that length
    data() { tail -c "+$((9 + $(od -An -tu8 -N8 "$1")))" "$1"; }
    [ "$(jq .metadata.total_size four/model.safetensors.index.json)" = "$(data one/model.safetensors | wc -c)" ]
    cmp <(data one/model.safetensors) <(for f in four/*.safetensors; do data "$f"; done)
}

@test "every option of the shape lands in config.json" {
    mint-init --to m --arch qwen2 --layers 3 --hidden 48 --ffn 80 --heads 6 --kv-heads 3 --head-dim 10 --vocab 1K \
        --max-positions 2K --rope-theta 5e5 --no-tied --dtype f16
    jq -e '.model_type == "qwen2" and .num_hidden_layers == 3 and .hidden_size == 48 and .intermediate_size == 80 and
        .num_attention_heads == 6 and .num_key_value_heads == 3 and .head_dim == 10 and .vocab_size == 1000 and
        .max_position_embeddings == 2000 and .rope_theta == 500000 and .tie_word_embeddings == false and
        .torch_dtype == "float16" and .architectures == ["Qwen2ForCausalLM"]' m/config.json
}

@test "a preset is a start; what is given wins" {
    mint-init --to m --preset llama3.2-1b --layers 1 --hidden 64 --ffn 64 --vocab 300 --heads 2 --kv-heads 1
    jq -e '.model_type == "llama" and .num_hidden_layers == 1 and .head_dim == 64 and .vocab_size == 300 and
        .rope_scaling.rope_type == "llama3" and .rope_scaling.factor == 32 and .tie_word_embeddings' m/config.json
}

@test "an existing folder is refused and kept; -f replaces it" {
    mkdir m
    echo precious >m/notes
    run_tool mint-init --to m
    expect_error 1 "m exists"
    [ "$(cat m/notes)" = precious ]
    run_tool mint-init -f --to m
    expect_error 1 "m is no model or adapter folder"
    [ "$(cat m/notes)" = precious ]
    touch m/config.json
    run_tool mint-init -f --to "$PWD"
    expect_error 1 "holds the working folder"
    run_tool mint-init -f --to m
    expect 0
    [ ! -e m/notes ]
    [ -s m/model.safetensors ]
    [ "$(ls -A)" = m ]
}

@test "wrong shapes: status 2, one line, nothing made" {
    run_tool mint-init
    expect_error 2 "--to DIR is missing"
    run_tool mint-init --to m --heads 4 --kv-heads 3
    expect_error 2 "--heads 4 is not a multiple of --kv-heads 3"
    run_tool mint-init --to m --head-dim 5
    expect_error 2 "--head-dim 5 is odd"
    run_tool mint-init --to m --vocab 100
    expect_error 2 "vocab"
    run_tool mint-init --to m --shards 9999
    expect_error 2 "--shards 9999: the model has"
    run_tool mint-init --to m --dtype f16 --init-std 1000000
    expect_error 2 "--init-std 1e+06 gives values up to 3.4641e+06, which do not fit F16"
    run_tool mint-init --to m --dtype f16 --norm-std 1e5
    expect_error 2 "--norm-std 100000 gives"
    run_tool mint-init --to m extra
    expect_error 2 "unexpected operand \"extra\""
    [ -z "$(ls -A)" ]
}

@test "no room: status 1, nothing is left" {
    run_tool bash -c "trap '' XFSZ; ulimit -f 64; mint-init --to m"
    expect_error 1 "cannot write: File too large"
    [ -z "$(ls -A)" ]
    run_tool mint-init --to no/such/place
    expect 1
    [ -z "$(ls -A)" ]
}

@test "killed half-way: nothing under the final name, nothing left over" {
    mint-init --to m --preset smollm2-135m --threads 1 &
    pid=$!
    for _ in $(seq 500); do
        compgen -G 'm.tmp-*/model.safetensors' >/dev/null && break
        sleep 0.01
    done
    kill -TERM "$pid" 2>/dev/null || skip "done before it could be killed"
    status=0
    wait "$pid" || status=$?
    [ "$status" = 143 ] || skip "done before it could be killed"
    [ -z "$(ls -A)" ] || fail "left: $(ls -A)"
}

@test "killed with KILL: the next run to the same folder removes what was left" {
    for _ in 1 2 3; do
        mint-init --to m --preset smollm2-135m --threads 1 &
        pid=$!
        for _ in $(seq 500); do
            compgen -G "m.tmp-$pid/model.safetensors" >/dev/null && break
            sleep 0.01
        done
        kill -KILL "$pid" 2>/dev/null || skip "done before it could be killed"
        wait "$pid" || true
    done
    # and the number of one is another process's by now
    mkdir -p "m.tmp-$$"
    mint-init --to m
    [ "$(ls -A)" = m ] || fail "left: $(ls -A)"
}

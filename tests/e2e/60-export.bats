#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# mint-export: what it makes, what it copies, what it refuses. The models and adapters are the oracle's.
load helpers

setup() {
    enter_scratch
    need mint-export
    for m in qwen3 qwen2 llama smollm2; do
        ln -s "$MINT_ROOT/tests/oracle/fixtures/$m" "$m"
    done
}

# names DIR: what is in it.
names() {
    find "$1" -mindepth 1 -maxdepth 1 -printf '%f\n' | sort | tr '\n' ' '
}
# nothing_made: only the links of setup are here.
nothing_made() {
    [ "$(names .)" = "llama qwen2 qwen3 smollm2 " ] || fail "left: $(ls -A)"
}

# tensors FILE: names, types and shapes of a safetensors file, one a line.
tensors() {
    head -c "$((8 + $(od -An -tu8 -N8 "$1")))" "$1" | tail -c +9 |
        jq -r 'del(.__metadata__) | to_entries[] | "\(.key) \(.value.dtype) \(.value.shape | join(","))"' | sort
}

@test "peft: the names and shapes that loaders look for" {
    for m in qwen3 qwen2 llama smollm2; do
        run_tool mint-export --model "$m" --adapter "$m/adapter" --to "out-$m" --format peft
        expect 0
        [ -z "$output" ]
        has "$stderr" "out-$m: 30 tensors, 15 modules with LoRA, sha256:"
        [ "$(names "out-$m")" = "adapter_config.json adapter_model.safetensors " ]
        # 2 layers, 7 modules, two matrices each, and the head
        [ "$(tensors "out-$m/adapter_model.safetensors" | wc -l)" = 30 ]
        has "$(tensors "out-$m/adapter_model.safetensors")" \
            "base_model.model.model.layers.0.self_attn.q_proj.lora_A.weight F32 4,48"
        tensors "out-$m/adapter_model.safetensors" >names
        if grep -vE '^base_model\.model\.(model\.layers\.[01]\.(self_attn|mlp)\.[a-z]+_proj|lm_head)\.lora_[AB]\.weight F32 ' names; then
            fail "a name that no loader knows"
        fi
        diff <(jq -S '{r, lora_alpha, bias, peft_type, task_type, target_modules}' "$m/adapter/adapter_config.json") \
            <(jq -S '{r, lora_alpha, bias, peft_type, task_type, target_modules}' "out-$m/adapter_config.json")
        cmp <(tensors "$m/adapter/adapter_model.safetensors") <(tensors "out-$m/adapter_model.safetensors")
    done
}

@test "peft: --dtype and --base-name; an export can be exported again" {
    mint-export -q --model llama --adapter llama/adapter --to half --format peft --dtype bf16 --base-name org/model
    [ "$(jq -r .base_model_name_or_path half/adapter_config.json)" = org/model ]
    [ "$(tensors half/adapter_model.safetensors | cut -d' ' -f2 | sort -u)" = BF16 ]
    mint-export -q --model llama --adapter half --to again --format peft --dtype bf16
    diff -r half again
}

@test "peft: a head LoRA on a tied model is pointed out; for an engine without it, refused" {
    run_tool mint-export --model qwen3 --adapter qwen3/adapter --to out --format peft
    expect 0
    has "$stderr" "LoRA on lm_head of a tied model"
    rm -r out
    run_tool mint-export --model qwen3 --adapter qwen3/adapter --to out --format peft --for vllm
    expect_error 1 "LoRA on lm_head, which vllm does not load; merge it (--format hf), or train without it (mint-train --no-train-unembed)"
    nothing_made
}

@test "hf: all other files are the base's, byte for byte" {
    cp -rL qwen3 base
    printf '{"a": 1}\r\n\n' >base/tokenizer_config.json
    printf '\xff\x00 not even text' >base/vocab.json
    echo '{{ messages }}' >base/chat_template.jinja
    echo x >base/.gitattributes
    echo old >base/pytorch_model.bin
    mint-export -q --model base --adapter qwen3/adapter --to out --format hf
    for f in tokenizer_config.json vocab.json chat_template.jinja generation_config.json; do
        same "base/$f" "out/$f"
    done
    [ ! -e out/.gitattributes ]
    [ ! -e out/pytorch_model.bin ]
    [ ! -e out/adapter ]
}

@test "hf: a tied model with a head LoRA is untied, and config.json changes in that alone" {
    run_tool mint-export --model qwen3 --adapter qwen3/adapter --to out --format hf
    expect 0
    has "$stderr" "tie_word_embeddings is false"
    [ "$(diff qwen3/config.json out/config.json | grep -c '^[<>]')" = 2 ]
    [ "$(jq .tie_word_embeddings out/config.json)" = false ]
    [ "$(tensors out/model.safetensors | grep -c .)" = $(($(tensors qwen3/model.safetensors | grep -c .) + 1)) ]
    has "$(tensors out/model.safetensors)" "lm_head.weight F32 97,48"
}

@test "hf: shards stay, types stay, and threads change nothing" {
    mint-export -q --model llama --adapter llama/adapter --to a --format hf --threads 1
    mint-export -q --model llama --adapter llama/adapter --to b --format hf --threads 3
    diff -r a b
    same llama/config.json a/config.json
    diff <(jq -S . llama/model.safetensors.index.json) <(jq -S . a/model.safetensors.index.json)
    for f in llama/*-of-*.safetensors; do
        diff <(tensors "$f") <(tensors "a/$(basename "$f")")
    done
}

@test "hf: --dtype changes every tensor and config.json" {
    mint-export -q --model smollm2 --adapter smollm2/adapter --to out --format hf --dtype f32
    [ "$(tensors out/model.safetensors | cut -d' ' -f2 | sort -u)" = F32 ]
    [ "$(jq -r .dtype out/config.json)" = float32 ]
    [ "$(jq 'has("torch_dtype")' out/config.json)" = false ]
    mint-export -q --model llama --adapter llama/adapter --to out2 --format hf --dtype bf16
    [ "$(jq .metadata.total_size out2/model.safetensors.index.json)" = $(($(jq .metadata.total_size llama/model.safetensors.index.json) / 2)) ]
}

@test "hf: what is merged can be a base again, and merging changes it again" {
    mint-export -q --model llama --adapter llama/adapter --to once --format hf
    mint-export -q --model once --adapter llama/adapter --to twice --format hf
    if cmp -s {once,twice}/model-00001-of-00002.safetensors; then fail "the second merge changed nothing"; fi
}

# trainer_state BASE: makes ck, the fixture's adapter as a checkpoint that says it was trained on BASE.
trainer_state() {
    rm -rf ck probe
    cp -rL llama/adapter ck
    digest=$(mint-export --model llama --adapter llama/adapter --to probe --format peft 2>&1 | grep -oE 'sha256:[0-9a-f]{64}')
    rm -r probe
    jq -n --arg base "$1" --arg adapter "$digest" '{format: 1, step: 1, tokens: 5, base: $base, parent: null,
        adapter: $adapter, datums: null, options_sha256: null, options: {}, metrics: {}}' >ck/trainer_state.json
}

@test "a checkpoint of another base model is refused, with both fingerprints" {
    other=sha256:$(printf '0%.0s' $(seq 64))
    trainer_state "$other"
    for format in peft hf; do
        run_tool mint-export --model llama --adapter ck --to out --format "$format"
        expect_error 1 "ck was trained on another base model: llama is sha256:"
        has "$stderr" "trainer_state.json says $other"
        [ ! -e out ]
    done
    # with the fingerprint that was named it is taken
    trainer_state "$(grep -oE 'llama is sha256:[0-9a-f]{64}' <<<"$stderr" | cut -d' ' -f3)"
    run_tool mint-export --model llama --adapter ck --to out --format hf
    expect 0
}

@test "an adapter of another shape is refused, naming the tensor and both shapes" {
    mint-init --to tiny
    run_tool mint-export --model tiny --adapter qwen3/adapter --to out --format hf
    expect_error 1 'lora_A.weight" is [4,48], but the base model needs [4,64]'
    rm -r tiny
    nothing_made
}

@test "damaged folders: status 1, one line, nothing made" {
    run_tool mint-export --model nowhere --adapter qwen3/adapter --to out --format hf
    expect_error 1 "nowhere: no such model folder"
    run_tool mint-export --model qwen3 --adapter nowhere --to out --format hf
    expect_error 1 "nowhere: no such checkpoint folder"
    cp -rL qwen3 base
    truncate -s -1 base/model.safetensors
    run_tool mint-export --model base --adapter qwen3/adapter --to out --format hf
    expect_error 1 "base/model.safetensors: "
    cp -L qwen3/model.safetensors base
    truncate -s -1 base/adapter/adapter_model.safetensors
    run_tool mint-export --model base --adapter base/adapter --to out --format peft
    expect_error 1 "base/adapter/adapter_model.safetensors: "
    rm -r base
    nothing_made
}

@test "a named pipe in a model or adapter folder does not hang" {
    cp -rL qwen3 base
    rm base/config.json
    mkfifo base/config.json
    run_tool timeout 20 mint-export --model base --adapter qwen3/adapter --to out --format hf
    expect_error 1 "base/config.json is no regular file"
    rm base/adapter/adapter_config.json
    mkfifo base/adapter/adapter_config.json
    run_tool timeout 20 mint-export --model qwen3 --adapter base/adapter --to out --format peft
    expect_error 1 "base/adapter/adapter_config.json is no regular file"
    rm -r base
    nothing_made
}

@test "usage: status 2" {
    run_tool mint-export --adapter a --to out --format hf
    expect_error 2 "--model DIR is missing"
    run_tool mint-export --model qwen3 --to out --format hf
    expect_error 2 "--adapter CKPT is missing"
    run_tool mint-export --model qwen3 --adapter a --format hf
    expect_error 2 "--to DIR is missing"
    run_tool mint-export --model qwen3 --adapter a --to out
    expect_error 2 "--format peft|hf is missing"
    run_tool mint-export --model qwen3 --adapter a --to out --format hf --base-name x
    expect_error 2 "--base-name goes with --format peft"
    nothing_made
}

@test "an existing target is refused and kept; -f replaces it" {
    mkdir out
    echo precious >out/notes
    run_tool mint-export --model qwen3 --adapter qwen3/adapter --to out --format hf
    expect_error 1 "out exists"
    [ "$(cat out/notes)" = precious ]
    run_tool mint-export -q -f --model qwen3 --adapter qwen3/adapter --to out --format hf
    expect_error 1 "out is no model or adapter folder"
    [ "$(cat out/notes)" = precious ]
    mkfifo out/config.json # and what only has the name of a model's file is none
    run_tool timeout 20 mint-export -q -f --model qwen3 --adapter qwen3/adapter --to out --format hf
    expect_error 1 "out is no model or adapter folder"
    rm out/config.json
    touch out/config.json
    run_tool mint-export -q -f --model qwen3 --adapter qwen3/adapter --to out --format hf
    expect 0
    [ ! -e out/notes ]
}

@test "no room: status 1, the final name is absent" {
    for format in peft hf; do
        run_tool bash -c "trap '' XFSZ; ulimit -f 8; mint-export --model llama --adapter llama/adapter --to out --format $format"
        expect_error 1 "File too large"
        nothing_made
    done
}

@test "the base may be the target of links, as in a hub cache" {
    mkdir blobs snapshot
    for f in qwen3/*; do
        [ -f "$f" ] || continue
        cp "$f" "blobs/$(basename "$f").blob"
        ln -s "../blobs/$(basename "$f").blob" "snapshot/$(basename "$f")"
    done
    mint-export -q --model snapshot --adapter qwen3/adapter --to out --format hf
    mint-export -q --model qwen3 --adapter qwen3/adapter --to want --format hf
    diff -r out want
    [ -f out/generation_config.json ] && [ ! -L out/generation_config.json ]
}

# logprobs FILE: all of a rollout file, one a line.
logprobs() {
    zstd -dcq "$1" | jq -c '.sequences[].logprobs[]'
}
# distance FILE FILE: the greatest difference of two such lists.
distance() {
    paste <(logprobs "$1") <(logprobs "$2") | awk '{ d = $1 - $2; if (d < 0) d = -d; if (d > m) m = d } END { print m + 0 }'
}

@test "a trained checkpoint: merged in f32 it is the policy, merged in bf16 nearly, head and all" {
    need mint-sample mint-score mint-advantage mint-train
    tiny_world w
    cd w
    mint-train -q --model model --rank 4 --lr 0.05 --loss cross_entropy --to ck datums.jsonl.zst
    for t in f32 bf16; do
        mint-export -q --model model --adapter ck --to "$t" --format hf --dtype "$t"
        jq -e '.tie_word_embeddings == false' "$t/config.json"
        mint-sample -q --model "$t" --replay --precision f32 -o "$t.zst" rollouts.jsonl.zst
    done
    mint-sample -q --model model --adapter ck --replay --precision f32 -o policy.zst rollouts.jsonl.zst
    mint-sample -q --model model --replay --precision f32 -o base.zst rollouts.jsonl.zst
    echo "base $(distance base.zst policy.zst) f32 $(distance f32.zst policy.zst) bf16 $(distance bf16.zst policy.zst)" >&2
    awk -v d="$(distance base.zst policy.zst)" 'BEGIN { exit !(d > 0.1) }'     # training did something
    awk -v d="$(distance f32.zst policy.zst)" 'BEGIN { exit !(d < 1e-4) }'     # and all of it is in the merge
    awk -v d="$(distance bf16.zst policy.zst)" 'BEGIN { exit !(d > 1e-4 && d < 0.2) }' # bf16 is a coarser grid
    # the next round may start from the merged model, but the old checkpoint belongs to the old one
    run_tool mint-export --model f32 --adapter ck --to out --format peft
    expect_error 1 "was trained on another base model"
}

@test "a small update in bf16: the export says how much the rounding took" {
    need mint-sample mint-score mint-advantage mint-train
    tiny_world w
    run_tool mint-export --model w/model --adapter w/ckpt/1 --to a --format hf
    expect 0
    has "$stderr" "rounding changes the update by"
    run_tool mint-export --model w/model --adapter w/ckpt/1 --to b --format hf --dtype f32
    expect 0
    lacks "$stderr" "rounding changes"
}

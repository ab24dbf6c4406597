#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# mint-train: Datums in, a checkpoint out.
load helpers

setup_file() {
    export FILE_DIR=$BATS_FILE_TMPDIR
    [ -x "$MINT_BIN/mint-sample" ] || return 0
    cd "$FILE_DIR" || return 1
    PATH=$MINT_BIN:$PATH
    mint-init --to model --preset tiny
    for i in 1 2 3 4 5 6; do
        printf '{"id":"p%d","prompt":"Q: %d + 5?\\nA:","answer":"%d"}\n' "$i" "$i" $((i + 5))
    done >prompts.jsonl
    mint-sample --model model -n 4 --max-tokens 40 prompts.jsonl --plain |
        jq -c '.sequences |= [.[] | .reward = (.tokens[0] % 5)]' >rewarded.jsonl
    mint-advantage -q rewarded.jsonl -o datums.jsonl.zst
    mint-train --model model --to ckpt --rank 4 --lr 1e-3 datums.jsonl.zst
}

setup() {
    enter_scratch
    need mint-train mint-sample mint-advantage mint-init
    for f in model datums.jsonl.zst prompts.jsonl rewarded.jsonl ckpt; do ln -s "$FILE_DIR/$f" $f; done
    zstd -qdc <datums.jsonl.zst >d.jsonl
}

train() {
    mint-train --model model --rank 4 --lr 1e-3 "$@"
}

# All bytes of a checkpoint.
bytes() {
    (cd "$1" && sha256sum -- *)
}

@test "on-policy: every ratio is exactly 1, the loss is minus the sum of the advantages" {
    train --to c --metrics m.jsonl d.jsonl
    jq -e '.["optim/ratio_max"] == 1 and .["optim/ratio_min"] == 1 and .["optim/kl_sample_train_v1"] == 0
        and .["optim/kl_sample_train_v2"] == 0 and .["optim/clip_frac"] == 0' m.jsonl
    want=$(jq -s '[.[].loss_fn_inputs.advantages.data[]] | -add' d.jsonl)
    jq -e --argjson w "$want" '(.["loss:sum"] - $w | fabs) < 1e-3' m.jsonl
}

@test "forward-only gives the logprobs that sampling wrote, and no checkpoint" {
    run_tool mint-train --model model --forward-only --plain d.jsonl
    expect 0
    echo "$output" | jq -c '.loss_fn_outputs.logprobs | [.data, .shape[0]]' >f
    jq -c '[[.loss_fn_inputs.logprobs.data, .loss_fn_inputs.weights.data], .loss_fn_inputs.weights.shape[0]]' d.jsonl >d
    jq -es --slurpfile d d '[., $d] | transpose | all(.[]; .[0] as $f | .[1] as $d | $f[1] == $d[1]
        and ([$f[0], $d[0][0], $d[0][1]] | transpose | all(.[]; .[2] == 0 or .[0] == .[1])))' f
    mint-sample --model model --adapter ckpt -n 2 --max-tokens 30 prompts.jsonl --plain |
        jq -c '.sequences |= [.[] | .reward = (.tokens[0] % 5)]' | mint-advantage -q --keep-flat --plain >d2
    mint-train --model model --from ckpt --to c2 --metrics m.jsonl d2
    jq -e '.["optim/ratio_max"] == 1 and .["optim/ratio_min"] == 1 and .["optim/kl_sample_train_v2"] == 0' m.jsonl
}

@test "the checkpoint's bytes do not depend on threads or micro-batches" {
    train --to want d.jsonl
    i=0
    for o in "-T 1" "-T 2" "-T 3" "--micro-tokens 1" "--micro-tokens 90 -T 1" "--micro-tokens 100000"; do
        i=$((i + 1))
        # shellcheck disable=SC2086
        train --to c$i $o d.jsonl
        [ "$(bytes c$i)" = "$(bytes want)" ] || fail "$o changes bytes"
    done
    train --to z datums.jsonl.zst
    [ "$(bytes z)" = "$(bytes want)" ]
}

@test "stopped and resumed is the same as straight: two runs of one step are one run of two" {
    head -n 8 d.jsonl >a
    tail -n +9 d.jsonl | head -n 8 >b
    train --to c1 a
    mint-train --model model --lr 1e-3 --from c1 --to c2 b
    cat a b | train --to both --batch-size 8
    same c2/adapter_model.safetensors both/adapter_model.safetensors
    same c2/optimizer.safetensors both/optimizer.safetensors
    jq -e '.step == 2' c2/trainer_state.json
    # without the moments Adam starts anew, and says so
    cp -rL c1 bare && rm bare/optimizer.safetensors
    run_tool mint-train --model model --lr 1e-3 --from bare --to c3 b
    expect 0
    has "$stderr" "optimizer.safetensors"
    run ! cmp -s c3/adapter_model.safetensors c2/adapter_model.safetensors
}

@test "the same run again says so; another one to the same place is refused" {
    train --to c d.jsonl
    before=$(bytes c)
    run_tool train --to c d.jsonl
    expect 0
    has "$stderr" "there already"
    [ ! -e c.lock ]
    run_tool train --to c --beta2 0.99 d.jsonl
    expect_error 1 "other options"
    head -n 5 d.jsonl >few
    run_tool train --to c few
    expect_error 1 "other datums"
    run_tool mint-train --model model --lr 1e-3 --from ckpt --to c d.jsonl
    expect_error 1 "another parent"
    mkdir plain && run_tool train --to plain d.jsonl
    expect_error 1 "plain"
    [ "$(bytes c)" = "$before" ]
}

@test "epochs, substeps, schedules" {
    train --to c --epochs 3 --batch-size 5 --substeps 2 --schedule linear --warmup 2 --metrics m.jsonl d.jsonl
    n=$(wc -l <d.jsonl)
    want=$(((n / 5) * 2 * 3 + (n % 5 > 1 ? 2 : n % 5) * 3))
    [ "$(wc -l <m.jsonl)" -eq "$want" ]
    jq -es '.[0]["optim/lr"] == 0.0005 and .[1]["optim/lr"] == 0.001 and (.[-1]["optim/lr"] < 0.0002)' m.jsonl
    jq -e --argjson w "$want" '.step == $w' c/trainer_state.json
}

@test "every loss and KL estimator trains, and each makes another checkpoint" {
    # off-policy: half of the sampled logprobs are moved up, half down
    jq -c '.loss_fn_inputs.logprobs.data |= [to_entries[] | if .value == 0 then 0 else .value * (0.6 + 0.8 * (.key % 2)) end]' d.jsonl >off
    for l in importance_sampling ppo cispo dro cross_entropy; do
        train --to "c-$l" --loss $l off
    done
    for k in k1 k2 k3; do
        train --to "c-$k" --kl-penalty-coef 0.5 --kl-estimator $k --epochs 2 off
    done
    [ "$(sha256sum c-*/adapter_model.safetensors | cut -c1-64 | sort -u | wc -l)" -eq 8 ]
}

# off-policy: sampled logprobs moved up and down in turn
off_policy() {
    jq -c '.loss_fn_inputs.logprobs.data |= [to_entries[] | if .value == 0 then 0 else .value * (0.97 + 0.06 * (.key % 2)) end]' d.jsonl
}

@test "sequence ratios, dual clip, corrections, bonus: each trains, counts, and makes another checkpoint" {
    off_policy >off
    i=0
    while read -r args; do
        i=$((i + 1))
        # shellcheck disable=SC2086
        train --to "c-$i" --epochs 2 --metrics "m-$i" $args off
    done <<'END'
--loss ppo
--loss ppo --proximal parent
--loss gspo --clip-low-threshold 0.9 --clip-high-threshold 1.1
--loss ppo --dual-clip 1.05
--entropy-coef 0.01
--loss ppo --proximal parent --correction tis --correction-threshold 1.05
--loss ppo --proximal parent --correction icepop --correction-floor 0.9 --correction-threshold 1.3
--loss ppo --proximal parent --correction seq-tis
--loss ppo --proximal parent --correction seq-mis
--correction icepop --correction-floor 0.9 --correction-threshold 1.3
--correction geo-mis
END
    [ "$(sha256sum c-*/adapter_model.safetensors | cut -c1-64 | sort -u | wc -l)" -eq "$i" ]
    jq -es '.[0]["optim/dual_clip_frac"] > 0' m-4
    jq -es '.[0]["correction/truncated"] > 0 and .[0]["correction/weight_mean"] < 1.05' m-6
    jq -es '.[0]["correction/masked"] > 0 and .[0]["correction/masked_datums"] == 0' m-7
    jq -es '.[0]["correction/masked_datums"] > 0' m-9
    jq -es '.[0]["correction/masked_datums"] > 0' m-11
    jq -es '.[0] | has("correction/masked") or has("optim/dual_clip_frac") or has("dpo/pairs") | not' m-1
    # the ratio against the parent is 1 at first, whatever the datums say
    jq -es '.[0]["optim/ratio_max"] == 1 and .[0]["optim/ratio_min"] == 1 and .[1]["optim/ratio_max"] > 1' m-2
}

@test "on-policy none of it changes a bit at the first step" {
    train --to want d.jsonl
    train --to gspo --loss gspo d.jsonl
    train --to parent --proximal parent --correction tis d.jsonl
    train --to mask --correction seq-mis d.jsonl
    train --to dual --loss ppo --dual-clip 3 d.jsonl
    for c in gspo parent mask dual; do same $c/adapter_model.safetensors want/adapter_model.safetensors; done
}

@test "a bonus for entropy raises it" {
    for c in 0 1; do train --to e$c --epochs 8 --lr 3e-3 --entropy-coef $c --metrics e$c.jsonl d.jsonl; done
    jq -es --slurpfile o e0.jsonl '.[-1]["optim/entropy"] > $o[-1]["optim/entropy"] and .[-1]["optim/entropy"] > .[0]["optim/entropy"]' e1.jsonl
}

@test "clip tensors of a datum are those of the options, position by position" {
    off_policy >off
    jq -c '.loss_fn_inputs |= (.advantages.data as $a | .clip_low_threshold = ($a | map(0.97)) | .clip_high_threshold = ($a | map(1.01)))' off >tensors
    jq -c '.loss_fn_inputs.clip_high_threshold |= (to_entries | map(if .key % 4 == 1 then 9 else .value end))' tensors >half
    for l in ppo gspo cispo; do
        train --to $l --loss $l --clip-low-threshold 0.97 --clip-high-threshold 1.01 off
        train --to $l-t --loss $l tensors
        train --to $l-h --loss $l half
        same $l/adapter_model.safetensors $l-t/adapter_model.safetensors
        run ! cmp -s $l-h/adapter_model.safetensors $l-t/adapter_model.safetensors
    done
    jq -c '.loss_fn_inputs.clip_low_threshold |= .[1:]' tensors >short
    run_tool train --to c --loss ppo short
    expect_error 1 "short:1: loss_fn_inputs.clip_low_threshold"
}

# Pairs: the text "good", and another one that is rejected.
make_pairs() {
    for w in good bad; do
        for i in 1 2 3 4; do printf '{"prompt":"Q%d:","sol":"%s %d"}\n' $i $w $i; done |
            mint-sample --model model --given sol --no-logprobs | mint-advantage --sft -q --plain >$w
    done
    paste -d '\n' good bad
}

@test "dpo: pairs are learnt, and stay together whatever the micro-batches" {
    make_pairs >pairs
    dpo() { train --loss dpo "$@"; }
    dpo --to want --lr 3e-3 --epochs 12 --batch-size 4 --metrics m.jsonl pairs
    jq -es '.[0]["dpo/pairs"] == 2 and .[0]["dpo/margin"] == 0 and (.[0]["loss:sum"] / 2 - 0.693147 | fabs) < 1e-4
        and .[-1]["dpo/accuracy"] == 1 and .[-1]["dpo/margin"] > 1 and .[-1]["loss:sum"] < .[0]["loss:sum"] / 2' m.jsonl
    for o in "--micro-tokens 1" "-T 1 --recompute all" "--micro-tokens 30"; do
        # shellcheck disable=SC2086
        dpo --to c --lr 3e-3 --epochs 12 --batch-size 4 $o pairs
        same c/adapter_model.safetensors want/adapter_model.safetensors
        rm -r c
    done
    # the reference: an adapter, or the datums' own
    mint-train --model model --from want --loss dpo --to self --ref-adapter want --metrics s.jsonl pairs
    jq -e '.["dpo/margin"] == 0' s.jsonl
    jq -c '.loss_fn_inputs |= (.ref_logprobs = (.weights.data | map(-3)))' pairs >ref
    dpo --to given --metrics g.jsonl ref
    jq -e '.["dpo/margin"] != 0' g.jsonl
    dpo --to steps --substeps 3 --batch-size 6 --metrics st.jsonl pairs
    [ "$(jq -s length st.jsonl)" -eq 4 ]
}

@test "dpo: what is no pair is said" {
    make_pairs >pairs
    head -n 3 pairs >odd
    run_tool train --loss dpo --to c odd
    expect_error 1 "odd:3: the last datum has no partner"
    jq -c '.meta.pair = "rejected"' pairs >named
    run_tool train --loss dpo --to c named
    expect_error 1 'named:1: meta.pair is "rejected"'
    jq -c '.loss_fn_inputs.weights.data |= map(0)' pairs >zero
    run_tool train --loss dpo --to c zero
    expect_error 1 "zero:1: loss_fn_inputs.weights are all 0"
    awk '{ print > (NR % 2 ? "good2" : "bad2") }' pairs
    paste -d '\n' <(jq -c '.meta.pair = "chosen"' good2) <(jq -c '.meta.pair = "rejected"' bad2) >said
    train --loss dpo --to c said
    train --loss dpo --to c2 pairs
    same c/adapter_model.safetensors c2/adapter_model.safetensors
}

@test "the KL reference: the base, another adapter, or the datum's own" {
    o=(--from ckpt --lr 1e-3 --kl-penalty-coef 0.3)
    mint-train --model model "${o[@]}" --to base d.jsonl
    mint-train --model model "${o[@]}" --ref-adapter ckpt --to self d.jsonl
    run ! cmp -s base/adapter_model.safetensors self/adapter_model.safetensors
    # a reference equal to the policy has no slope at the first step; idle datums change no bit
    mint-train --model model --from ckpt --lr 1e-3 --to none d.jsonl
    same self/adapter_model.safetensors none/adapter_model.safetensors
    mint-sample --model model --replay --as ref_logprobs rewarded.jsonl --plain | mint-advantage -q --plain >dref
    jq -e '.loss_fn_inputs.ref_logprobs' dref >/dev/null
    mint-train --model model "${o[@]}" --to given dref
    same base/adapter_model.safetensors given/adapter_model.safetensors
}

@test "modules are chosen; what is not trained has no tensor" {
    train --to c --no-train-mlp --no-train-unembed d.jsonl
    has "$(strings c/adapter_model.safetensors)" self_attn.q_proj.lora_A
    lacks "$(strings c/adapter_model.safetensors)" mlp
    lacks "$(strings c/adapter_model.safetensors)" lm_head
    mint-train --model model --from c --to c2 d.jsonl
    run_tool train --to c3 --no-train-mlp --no-train-unembed --no-train-attn d.jsonl
    expect 2
    has "$stderr" "no module"
}

@test "positions of weight 0 count for nothing, whatever they hold" {
    jq -c '.loss_fn_inputs |= (.weights.data as $w | .logprobs.data = [.logprobs.data, $w] | .logprobs.data |= (transpose | map(if .[1] == 0 then -77 else .[0] end))
        | .target_tokens.data = ([.target_tokens.data, $w] | transpose | map(if .[1] == 0 then 123456789 else .[0] end)))' d.jsonl >odd
    train --to want d.jsonl
    train --to got odd
    same want/adapter_model.safetensors got/adapter_model.safetensors
    jq -c '.loss_fn_inputs.weights.data |= map(0)' d.jsonl >zero
    run_tool train --to zero-ckpt --metrics m.jsonl zero
    expect 0
    jq -e '.["loss:sum"] == 0 and .["optim/grad_norm"] == 0 and .["optim/skipped"] == 1' m.jsonl
    jq -e '.step == 0' zero-ckpt/trainer_state.json
    cat zero d.jsonl | train --to mixed
    same want/adapter_model.safetensors mixed/adapter_model.safetensors
}

@test "datums without advantage are not computed, with --metrics they are watched: the same bytes" {
    jq -c 'if .meta.sample % 2 == 0 then .loss_fn_inputs.advantages.data |= map(0) else . end' d.jsonl >some
    idle=$(jq -c 'select(all(.loss_fn_inputs.advantages.data[]; . == 0))' some | wc -l)
    run_tool train --to quiet some
    expect 0
    has "$stderr" "$idle of $(wc -l <some) datums have advantage 0 everywhere: not computed"
    run_tool train --to watched --metrics m.jsonl some
    expect 0
    has "$stderr" "computed for --metrics only"
    [ "$(bytes quiet)" = "$(bytes watched)" ]
    jq -e --argjson i "$idle" '.datums_idle == $i and .datums_active + $i == .datums' m.jsonl
    # they are where a KL term drives them
    train --to kl --kl-penalty-coef 0.1 --metrics kl.jsonl some
    jq -e '.datums_idle == 0' kl.jsonl
    # a batch of nothing else is a step: the moments go on
    jq -c '.loss_fn_inputs.advantages.data |= map(0)' d.jsonl >flat
    mint-train --model model --from ckpt --lr 1e-3 --to on flat
    jq -e '.step == 2' on/trainer_state.json
    run ! cmp -s on/adapter_model.safetensors ckpt/adapter_model.safetensors
}

@test "recomputation and memory change no byte" {
    train --to want --recompute none d.jsonl
    train --to cheap --recompute cheap d.jsonl
    train --to all --recompute all --micro-tokens 200 d.jsonl
    train --to auto --memory 16M d.jsonl
    for c in cheap all auto; do [ "$(bytes $c)" = "$(bytes want)" ] || fail "$c changes bytes"; done
    run_tool train --to c --memory 10K d.jsonl
    expect_error 1 "--memory"
    run_tool train --to c --dry-run --memory 10K d.jsonl
    expect 0
    has "$stderr" "recompute all"
    run_tool train --to c --recompute all --memory 1G d.jsonl
    expect_error 2 "--memory"
    run_tool mint-train --model model --forward-only --recompute all d.jsonl
    expect_error 2 "--recompute"
}

@test "no datums is an error, and so is what a loss lacks" {
    : >none
    run_tool train --to c none
    expect_error 1 "no datums"
    jq -c 'del(.loss_fn_inputs.logprobs)' d.jsonl >nolp
    run_tool train --to c nolp
    expect_error 1 "nolp:1: loss_fn_inputs.logprobs is missing"
    train --to ce --loss cross_entropy nolp
    jq -c 'del(.loss_fn_inputs.weights)' d.jsonl >now
    run_tool train --to c --loss dro now
    expect_error 1 "weights"
    jq -c '.model_input.chunks[0].tokens[0] = 99999' d.jsonl >big
    run_tool train --to c big
    expect_error 1 "big:1:"
    [ ! -e c ]
}

@test "an infinite gradient writes nothing" {
    jq -c '.loss_fn_inputs.advantages.data |= map(. * 1e38)' d.jsonl >huge
    run_tool train --to c --epochs 3 huge
    expect 1
    has "$stderr" "not finite"
    [ ! -e c ]
    # the datum that made it is named, and what was there stays
    jq -c 'if input_line_number == 5 then .loss_fn_inputs.advantages.data |= map(. * 1e38) else . end' d.jsonl >one
    bad=$(jq -c 'select(any(.loss_fn_inputs.advantages.data[]; fabs > 1e30))' one | wc -l)
    [ "$bad" -eq 1 ] || fail "the data have changed"
    before=$(bytes ckpt)
    run_tool mint-train --model model --from ckpt --lr 1e-3 --to c --micro-tokens 100000 one
    expect_error 1 "one:5"
    [ ! -e c ] && [ "$(bytes ckpt)" = "$before" ]
}

@test "options that contradict each other" {
    run_tool mint-train --model model d.jsonl
    expect 2
    run_tool mint-train --model model --from ckpt --rank 8 --to c d.jsonl
    expect 2
    has "$stderr" "--rank"
    run_tool train --to c --loss ppo --clip-low-threshold 1.5 --clip-high-threshold 0.2 d.jsonl
    expect 2
    run_tool train --to c --ref-adapter ckpt d.jsonl
    expect 2
    run_tool train --to c --loss nonsense d.jsonl
    expect 2
    [ ! -e c ]
}

@test "an adapter of another base is refused" {
    mint-init --to other --preset tiny --seed 5
    run_tool mint-train --model other --from ckpt --to c d.jsonl
    expect_error 1 "another base"
    run_tool mint-sample --model other --adapter ckpt prompts.jsonl
    expect 1
    has "$stderr" "another base"
}

@test "two at a time: the second fails at once and names the first; a dead one leaves no lock" {
    mkfifo pipe
    mint-train --model model --rank 4 --lr 1e-3 --to c pipe &
    first=$!
    exec 9>pipe
    for _ in $(seq 100); do [ -s c.lock ] && break || sleep 0.05; done
    run_tool train --to c d.jsonl
    expect 1
    has "$stderr" "process"
    kill -KILL $first
    exec 9>&-
    wait $first || true
    run_tool train --to c d.jsonl
    expect 0
}

@test "killed at any moment: no checkpoint or a whole one, and the rerun gives the same bytes" {
    train --to want --epochs 30 d.jsonl
    for ms in 30 80 150 250 400 600; do
        mint-train --model model --rank 4 --lr 1e-3 --to c --epochs 30 d.jsonl &
        pid=$!
        sleep "$(printf '0.%03d' $ms)"
        kill -KILL $pid 2>/dev/null || true
        wait $pid || true
        [ ! -e c ] || [ "$(bytes c)" = "$(bytes want)" ]
    done
    train --to c --epochs 30 d.jsonl
    [ "$(bytes c)" = "$(bytes want)" ]
    [ -z "$(ls -d c.tmp-* 2>/dev/null)" ]
}

@test "dry run says the plan and writes nothing" {
    run_tool train --to c --dry-run --epochs 2 d.jsonl
    expect 0
    has "$stderr" "2 optimiser steps"
    [ ! -e c ] && [ ! -e c.lock ]
}

@test "it learns: cross entropy on one answer falls" {
    for _ in $(seq 8); do echo '{"prompt":"a","sol":"xyz"}'; done |
        mint-sample --model model --given sol --no-logprobs | mint-advantage --sft -q -o sft.zst
    mint-train --model model --to c --loss cross_entropy --lr 1e-2 --rank 8 --epochs 40 --metrics m.jsonl sft.zst
    jq -es '.[0].train_mean_nll > 3 and .[-1].train_mean_nll < 0.5' m.jsonl
}

@test "the same tensors under another config are another base" {
    cp -rL model other
    jq '.rope_theta = 7' model/config.json >other/config.json
    train --to c d.jsonl
    run_tool mint-train --model other --rank 4 --lr 1e-3 --to c d.jsonl
    expect_error 1 "another base"
    run_tool mint-sample --model other --adapter c --plain prompts.jsonl
    expect 1
    has "$stderr" "another base"
    run_tool mint-export --model other --adapter c --to x --format hf
    expect_error 1 "another base"
    # what changes no number makes no other base
    jq '.max_position_embeddings = 300' model/config.json >other/config.json
    run_tool mint-train --model other --rank 4 --lr 1e-3 --to c d.jsonl
    expect 0
    has "$stderr" "there already"
}

@test "a parent is its moments and its alpha too" {
    train --to p d.jsonl
    mint-train --model model --from p --to c d.jsonl
    cp -rL p bare && rm bare/optimizer.safetensors
    run_tool mint-train --model model --from bare --to c d.jsonl
    expect 1
    has "$stderr" "another parent"
    cp -rL p loud && jq '.lora_alpha = 320' p/adapter_config.json >loud/adapter_config.json
    run_tool mint-train --model model --from loud --to c d.jsonl
    expect 1
    has "$stderr" "another parent"
    a=$(mint-sample --model model --adapter p -n 1 --plain prompts.jsonl | head -n 1 | jq .sampling.adapter)
    b=$(mint-sample --model model --adapter loud -n 1 --plain prompts.jsonl | head -n 1 | jq .sampling.adapter)
    [ "$a" != "$b" ]
}

@test "options and schedules that would do nothing are usage errors" {
    while IFS='|' read -r args option; do
        # shellcheck disable=SC2086
        run_tool mint-train --model model $args d.jsonl
        expect_error 2 "$option"
    done <<'END'
--to c --clip-low-threshold 0.9|--clip-low-threshold
--to c --clip-high-threshold 1.1|--clip-high-threshold
--to c --beta 7|--beta
--to c --kl-estimator k1|--kl-estimator
--to c -o file|--output
--to c --plain|--plain
--to c --total-steps 5|--total-steps
--forward-only --lr 3|--lr
--forward-only --epochs 9|--epochs
--to c --schedule linear|--total-steps
--to c --dual-clip 3|--dual-clip
--to c --loss ppo --dual-clip 0.5|--dual-clip
--to c --loss cross_entropy --correction icepop|--correction
--to c --loss cross_entropy --proximal parent|--proximal
--to c --loss dro --proximal parent|--proximal
--to c --correction tis|--proximal parent
--to c --correction seq-tis|--proximal parent
--to c --correction-threshold 2|--correction
--to c --correction seq-tis --proximal parent --correction-floor 1|--correction-floor
--to c --correction icepop --correction-floor 9|--correction-floor
--to c --loss dpo --batch-size 3|--batch-size
--to c --loss dpo --skip-bad|--skip-bad
--to c --loss dpo --kl-penalty-coef 1|--kl-penalty-coef
--to c --loss dpo --entropy-coef 1|--entropy-coef
--to c --loss dpo --correction seq-mis|--correction
--to c --loss gspo --beta 1|--beta
--forward-only --entropy-coef 1|--entropy-coef
--to c --schedule linear --epochs 3 --warmup 3|--warmup
--to c --schedule linear --epochs 3 --total-steps 2|--total-steps
END
    [ ! -e c ] && [ ! -e file ]
}

@test "the folder of --to must be there; a slash at its end means nothing; no lock is left by a failure" {
    run_tool train --to no/c d.jsonl
    expect_error 1 "there is no folder no"
    train --to c/ d.jsonl
    [ -e c/adapter_config.json ]
    run_tool train --to c --beta2 0.9 d.jsonl
    expect 1
    [ -z "$(ls -d ./*.lock 2>/dev/null)" ]
}

@test "a dry run plans from config.json alone: the FLOPs of Qwen3-0.6B's shape, with recomputation and without" {
    mkdir bare
    echo '{"model_type":"qwen3","architectures":["Qwen3ForCausalLM"],"hidden_size":1024,"intermediate_size":3072,"num_hidden_layers":28,
        "num_attention_heads":16,"num_key_value_heads":8,"head_dim":128,"vocab_size":151936,"max_position_embeddings":40960,
        "rms_norm_eps":1e-6,"rope_theta":1e6,"tie_word_embeddings":true,"hidden_act":"silu"}' >bare/config.json
    jq -nc '[range(512) | 5] as $t | {model_input: {chunks: [{tokens: $t}]}, loss_fn_inputs: {target_tokens: $t}}' >d.jsonl
    for again in none all; do
        run_tool mint-train -m bare --to ck --loss cross_entropy --epochs 2 --dry-run --recompute $again --metrics m d.jsonl
        expect 0
        has "$stderr" 'plan: 1 datums, 1024 positions to compute, 2 optimiser steps'
        has "$stderr" 'estimate: about '
    done
    # by hand: layers 15.73e6 weights each, head 155.6e6, LoRA of rank 16 10.1e6 in layers and 2.4e6 at the head, attention 229376 a key
    jq -es 'map(."plan/flops" / 1024e9) | (.[0] - 2.665 | fabs) < 0.002 and (.[1] - 3.737 | fabs) < 0.002' m
    jq -es '.[0]."plan/weight_bytes" == 1191968768 and .[0]."plan/activation_bytes" > 5 * .[1]."plan/activation_bytes"
        and all(.[]; ."plan/seconds" > 0 and ."plan/steps" == 2)' m
    # without the device: no time, and both ends of the memory
    run_tool mint-train -m bare --to ck --loss cross_entropy --dry-run --device cuda:99 --metrics m2 d.jsonl
    expect 0
    has "$stderr" '--recompute all would make it '
    has "$stderr" 'no time, as nothing can be measured: '
    jq -e --slurpfile m m '."plan/flops" * 2 == $m[0]."plan/flops" and (has("plan/seconds") | not)' m2
    run_tool mint-train -m bare --to ck --loss cross_entropy d.jsonl
    expect_error 1 'no model.safetensors'
    [ ! -e ck ]
    run_tool mint-train -m bare --to ck --loss cross_entropy --from nowhere --dry-run d.jsonl
    expect_error 1 'nowhere: no such checkpoint folder'
}

#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# Is everything built, and does it start?
load helpers

@test "every tool of the tree is built and says its name and version" {
    for src in "$MINT_ROOT"/tools/mint-*.c; do
        t=$(basename "${src%.c}")
        run_tool "$t" --version
        expect 0
        [[ ${lines[0]} =~ ^$t\ [0-9]+\.[0-9]+\.[0-9]+ ]]
    done
}

@test "all tools have one version" {
    versions=$(for t in $(tools); do "$t" --version | head -n 1 | cut -d' ' -f2; done | sort -u)
    [ "$(wc -l <<<"$versions")" -eq 1 ]
}

@test "no tool is linked to CUDA; the light ones load no compute libraries" {
    command -v ldd >/dev/null || skip "no ldd"
    for t in $(tools); do
        lacks "$(ldd "$MINT_BIN/$t")" libcu
    done
    need mint-advantage
    libs=$(ldd "$MINT_BIN/mint-advantage")
    lacks "$libs" libgomp
    lacks "$libs" libpcre2
    lacks "$libs" libutf8proc
    lacks "$libs" libcurl
}

@test "pages and completions are beside the tools" {
    for t in $(tools); do
        [ -s "$MINT_BUILD/share/bash-completion/completions/$t" ]
        [ -s "$MINT_BUILD/share/zsh/site-functions/_$t" ]
        [ -s "$MINT_BUILD/share/fish/vendor_completions.d/$t.fish" ]
        [ -s "$MINT_BUILD/share/man/man1/$t.1" ]
    done
}

@test "bash completion completes options and choices" {
    need mint-advantage
    # shellcheck disable=SC1091
    source "$MINT_BUILD/share/bash-completion/completions/mint-advantage"
    _mint_advantage mint-advantage --nor mint-advantage
    has "${COMPREPLY[*]}" "--norm"
    _mint_advantage mint-advantage "" --norm
    has "${COMPREPLY[*]}" "loo"
}

@test "one step of the loop as one pipe: a checkpoint comes out" {
    need mint-init mint-sample mint-score mint-advantage mint-train
    tiny_world .
    # shellcheck disable=SC2016
    run_tool bash -o pipefail -c 'mint-sample --model model --adapter ckpt/1 prompts.jsonl | mint-score length |
        mint-advantage --keep-flat | mint-train --model model --from ckpt/1 --to ckpt/2'
    expect 0
    [ -s ckpt/2/adapter_model.safetensors ]
    [ "$(jq .step ckpt/2/trainer_state.json)" = 2 ]
    [ "$(ls ckpt)" = $'1\n2' ]
}

@test "make install puts everything under PREFIX, it runs there, and uninstall takes it away" {
    unset MAKEFLAGS MAKELEVEL MFLAGS
    make -s -C "$MINT_ROOT" BUILD="$MINT_BUILD" NOBUILD=1 install DESTDIR="$PWD/d" PREFIX=/opt/mint
    for t in $(tools); do
        env -i "d/opt/mint/bin/$t" --version >/dev/null
        [ -s "d/opt/mint/share/man/man1/$t.1" ]
        [ -s "d/opt/mint/share/bash-completion/completions/$t" ]
    done
    make -s -C "$MINT_ROOT" BUILD="$MINT_BUILD" uninstall DESTDIR="$PWD/d" PREFIX=/opt/mint
    [ -z "$(find d -type f)" ]
}

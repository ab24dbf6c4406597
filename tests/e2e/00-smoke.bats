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

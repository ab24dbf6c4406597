#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# What the pages, the help and the option table say is the same, and the examples of the pages run.
#
# For authors of pages: in the section EXAMPLES each .Dl line and each .Bd -literal block is a shell script, run in a
# folder with model/ prompts.jsonl rollouts.jsonl.zst scored.jsonl.zst datums.jsonl.zst ckpt/1 (helpers.bash).
# The comment .\" test: skip REASON before it keeps it from being run.
load helpers

setup_file() {
    for t in mint-init mint-sample mint-score mint-advantage mint-train; do
        [ -x "$MINT_BIN/$t" ] || return 0
    done
    tiny_world "$BATS_FILE_TMPDIR/world"
}

page() {
    echo "$MINT_BUILD/share/man/man1/$1.1"
}

# The long options of a tool by its completion, which is the table; by its help; by its page.
table_options() {
    "$1" --dump-options=fish | sed -nE 's/^complete -c [^ ]+ -l ([^ ]+).*/--\1/p' | sort -u
}
help_options() {
    "$1" --help | sed -nE 's/^  (-., |    )--(\[no-\])?([a-z0-9-]+).*/--\3/p' | sort -u
}
page_options() {
    sed -nE 's/^\.It Fl (. , Fl )?-(\[no-\])?([a-z0-9-]+).*/--\3/p' "$(page "$1")" | sort -u
}

# Shell scripts of section EXAMPLES, each as a file N.sh in folder $2; N.skip where it is not to be run.
extract_examples() {
    awk -v dir="$2" '
    function unescape(s) {
        gsub(/\\\(aq/, "\047", s); gsub(/\\\(dq/, "\"", s); gsub(/\\\(ti/, "~", s); gsub(/\\\(ha/, "^", s)
        gsub(/\\-/, "-", s); gsub(/\\&/, "", s); gsub(/\\e/, "\\", s)
        return s
    }
    /^\.Sh/ { examples = ($2 == "EXAMPLES"); next }
    !examples { next }
    /^\.\\" test: skip/ { skip = 1; next }
    /^\.Dl / { n++; file = dir "/" n (skip ? ".skip" : ".sh"); print unescape(substr($0, 5)) >file; close(file); skip = 0; next }
    /^\.Bd / { n++; file = dir "/" n (skip ? ".skip" : ".sh"); block = 1; skip = 0; printf "" >file; next }
    /^\.Ed/ { block = 0; close(file); next }
    block && !/^\.\\"/ { print unescape($0) >file }
    ' "$1"
}

# run_examples PAGE: each in a fresh copy of the world.
run_examples() {
    [ -e "$1" ] || skip "no page"
    [ -d "$BATS_FILE_TMPDIR/world/ckpt/1" ] || skip "not all tools are built"
    mkdir examples
    extract_examples "$1" examples
    for e in examples/*.sh; do
        [ -e "$e" ] || fail "$(basename "$1") has no examples"
        rm -rf world
        cp -a "$BATS_FILE_TMPDIR/world" world
        (cd world && timeout 60 bash -euo pipefail "../$e" </dev/null >out.txt 2>err.txt) ||
            fail "example of $(basename "$1") fails with status $?:" "$(cat "$e")" "$(head -c 2000 world/err.txt)"
    done
}

@test "options: table, help and page name the same" {
    for t in $(tools); do
        [ -e "$(page "$t")" ] || continue
        table=$(table_options "$t")
        [ -n "$table" ] || fail "no options in the table of $t"
        diff <(echo "$table") <(help_options "$t") || fail "$t: table (<) and help (>) differ"
        diff <(echo "$table") <(page_options "$t") || fail "$t: table (<) and page (>) differ"
    done
}

@test "synopsis: page and help say the same" {
    command -v mandoc >/dev/null || skip "no mandoc"
    for t in $(tools); do
        [ -e "$(page "$t")" ] || continue
        in_page=$(mandoc -Tascii "$(page "$t")" | sed 's|.\x08||g' | awk '/^SYNOPSIS/ { on = 1; next } /^[A-Z]/ { on = 0 } on' | tr -d ' \n\t')
        in_help=$("$t" -h | head -n 1 | sed 's/^usage: //' | tr -d ' \n\t')
        [ "$in_page" = "$in_help" ] || fail "$t: page: $in_page" "help: $in_help"
    done
}

@test "name: the page's one-line summary is the help's" {
    for t in $(tools); do
        [ -e "$(page "$t")" ] || continue
        [ "$t: $(sed -n 's/^\.Nd //p' "$(page "$t")")" = "$("$t" -h | sed -n 2p)" ] ||
            fail "page: $(sed -n 's/^\.Nd //p' "$(page "$t")")" "help: $("$t" -h | sed -n 2p)"
    done
}

@test "pages have the sections that a reader looks for" {
    for t in $(tools); do
        [ -e "$(page "$t")" ] || continue
        for s in NAME SYNOPSIS DESCRIPTION OPTIONS "EXIT STATUS" EXAMPLES "SEE ALSO"; do
            grep -qE "^\.Sh \"?$s\"?\$" "$(page "$t")" || fail "$t has no section $s"
        done
    done
}

@test "options that a page speaks of exist" {
    known=$(for t in $(tools); do table_options "$t"; "$t" --dump-options=bash | grep -oE -- '--no-[a-z0-9-]+'; done | sort -u)
    for p in "$MINT_BUILD"/share/man/man[157]/*; do
        [ -e "$p" ] || continue
        # Fl -name in running text; the options of other programs are written without Fl
        for o in $(grep -v '^\.It' "$p" | grep -oE 'Fl -[a-z0-9-]+' | sed 's/Fl -/--/' | sort -u); do
            grep -qx -e "$o" <<<"$known" || fail "$(basename "$p") speaks of $o, which no tool has"
        done
    done
}

@test "references between pages lead somewhere" {
    for p in "$MINT_BUILD"/share/man/man[157]/mint*; do
        [ -e "$p" ] || continue
        for x in $(sed -nE 's/^\.Xr (mint-[a-z-]+) ([157]).*/\1.\2/p' "$p" | sort -u); do
            [ -e "$MINT_BUILD/share/man/man${x##*.}/$x" ] || fail "$(basename "$p") refers to $x"
        done
    done
}

@test "examples: mint-init" { run_examples "$(page mint-init)"; }
@test "examples: mint-sample" { run_examples "$(page mint-sample)"; }
@test "examples: mint-score" { run_examples "$(page mint-score)"; }
@test "examples: mint-advantage" { run_examples "$(page mint-advantage)"; }
@test "examples: mint-train" { run_examples "$(page mint-train)"; }
@test "examples: mint-export" { run_examples "$(page mint-export)"; }

@test "README names every tool, and links lead to files" {
    for t in $(tools); do
        has "$(cat "$MINT_ROOT/README.md")" "$t"
    done
    for doc in README ARCHITECTURE CONTRIBUTING; do
        for link in $(grep -oE '\]\([^)#]+' "$MINT_ROOT/$doc.md" | sed 's/^](//' | grep -v '^http'); do
            [ -e "$MINT_ROOT/$link" ] || fail "$doc.md links to $link"
        done
    done
}

@test "README: every scorer has a row, every package is in one row, and the tools are counted right" {
    need mint-score
    readme=$MINT_ROOT/README.md
    rows=$(sed -n '/^| scorer |/,/^$/s/^| \(`[^|]*\) |.*/\1/p' "$readme" | tr -d '`,' | tr ' ' '\n' | sort)
    known=$(mint-score nonesuch 2>&1 </dev/null | sed 's/.*there are //; s/;.*//' | tr -d ' ' | tr , '\n' | sort)
    [ "$(wc -l <<<"$known")" -gt 5 ]
    diff <(echo "$known") <(echo "$rows") || fail "scorers (<) and README's rows (>) differ"
    packages=$(sed -n '/^| package |/,/^$/s/^| \([^|]*\) |.*/\1/p' "$readme" | tr -d ',;' | tr ' ' '\n' | grep -e - -e wrap)
    [ -z "$(sort <<<"$packages" | uniq -d | grep .)" ] || fail "twice: $(sort <<<"$packages" | uniq -d)"
    for p in $(sed -n 's/^DEPS_BUILD := //p; s/^DEPS_TEST := //p' "$MINT_ROOT/Makefile"); do
        [ "$p" = libc6-dev ] || grep -qE "^\| [^|]*\b$p\b[^|]* \|" "$readme" || fail "no row names the package $p"
    done
    words=(no One Two Three Four Five Six Seven Eight)
    has "$(cat "$readme")" "${words[$(tools | wc -l)]} small programs"
    for kind in $("$MINT_ROOT/pipelines/start.sh" --help | sed -n 's/^usage: start.sh \([a-z|]*\) .*/\1/p' | tr '|' ' '); do
        has "$(cat "$readme")" "start.sh $kind"
    done
}

@test "make help lists what CONTRIBUTING tells people to type" {
    help=$(make -s -C "$MINT_ROOT" help)
    for target in $(grep -oE '`make [a-z0-9-]+' "$MINT_ROOT"/{README,CONTRIBUTING}.md -h | sed 's/`make //' | sort -u); do
        grep -qE "^$target " <<<"$help" || fail "make help does not list $target"
    done
}

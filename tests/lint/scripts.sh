#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Runs shellcheck over every shell script and test.
. "$(dirname "$0")/lib.bash"

if ! command -v shellcheck >/dev/null; then
    skip "shellcheck" "no shellcheck"
    finish
fi
mapfile -t scripts < <({
    files '*.sh' '*.bash' '*.bats'
    files | grep -vE '\.(c|h|md|json|jsonl|zst|safetensors)$' | while IFS= read -r f; do
        ! head -c 64 "$f" | head -n 1 | tr -d '\0' | grep -qE '^#!.*(/| )(sh|bash)$' || printf '%s\n' "$f"
    done
} | sort -u)
# SC2012, SC2013: names have no blanks. SC2016: programs for bash -c, jq and awk. SC2034, SC2143: matters of taste. SC1091, SC2154: sourced helpers are checked by themselves. SC2030, SC2031: every bats test is a subshell, on purpose.
shellcheck -f gcc -S style -e SC1091,SC2154,SC2030,SC2031,SC2012,SC2013,SC2016,SC2034,SC2143 "${scripts[@]}" | check "shellcheck: ${#scripts[@]} scripts"
for s in "${scripts[@]}"; do
    if head -n 1 "$s" | grep -q '^#!'; then
        [ -x "$s" ] || echo "$s has no run bit"
    elif [ -x "$s" ]; then
        echo "$s is to be sourced, but has a run bit"
    fi
done | check "what starts with #! can be run, and nothing else"
finish

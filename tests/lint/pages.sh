#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The manual pages as built, with their generated options: mandoc finds nothing to warn of.
. "$(dirname "$0")/lib.bash"

if ! command -v mandoc >/dev/null; then
    skip "mandoc" "no mandoc"
    finish
fi
for page in "$MINT_BUILD"/share/man/man[157]/*; do
    [ -e "$page" ] || continue
    mandoc -Tlint -Wwarning "$page" 2>&1 | sed 's|^mandoc: .*/man[0-9]/||' | grep -v 'referenced manual not found' |
        check "$(basename "$page")"
done
for src in tools/mint-*.c; do
    [ -e "$src" ] || continue
    [ -e "${src%.c}.1" ] || echo "${src%.c}.1 is missing"
done | check "every tool has a page"
finish

#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# clang-format agrees with every C source, where the version that the project uses is there.
. "$(dirname "$0")/lib.bash"

if ! clang-format --version 2>/dev/null | grep -q 'version 14\.'; then
    skip "clang-format" "no clang-format 14"
    finish
fi
mapfile -t sources < <(files '*.c' '*.h' '*.cu' '*.cpp')
clang-format --dry-run "${sources[@]}" 2>&1 | grep 'clang-format-violations' | cut -d: -f1 | sort | uniq -c |
    check "make format changes nothing"
finish

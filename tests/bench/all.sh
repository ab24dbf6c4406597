#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# all.sh [--quick] [--out DIR] [--again] [--llama [NAME=]DIR]... [--python PY] [--threads N] [--patience S]
#     [--runs N] [PART...]
#
# Runs the parts (data sample train grpo scale) and keeps each one's table and JSON in DIR (build/bench); models stay in DIR/work
# (10 GB at most; it may be removed). A part whose JSON is there is only shown: so a run that was stopped goes on where it was.
# --again measures anew. The rest is handed on: see the parts' --help.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
out=$here/../../build/bench quick=() again='' llama=() common=() parts=()
die() {
    echo "all.sh: $*" >&2
    exit 2
}
while [ $# -gt 0 ]; do
    case $1 in
    --quick) quick=(--quick) ;;
    --again) again=1 ;;
    --out | --llama | --python | --threads | --patience | --runs)
        [ $# -gt 1 ] || die "$1 needs a value"
        case $1 in
        --out) out=$2 ;;
        --llama) llama+=("$2") ;;
        *) common+=("$1" "$2") ;;
        esac
        shift
        ;;
    -h | --help)
        sed -n '3,/^[^#]/s/^# \{0,1\}//p' "$0"
        exit 0
        ;;
    -*) die "unknown option $1; see --help" ;;
    *) parts+=("$1") ;;
    esac
    shift
done
[ ${#parts[@]} -gt 0 ] || parts=(data sample train grpo scale)
mkdir -p "$out/work"

failed=0
for part in "${parts[@]}"; do
    [ -x "$here/$part.sh" ] || die "no part $part"
    file=$out/$part${quick:+-quick}
    args=("${quick[@]}" "${common[@]}" --work "$out/work" --json "$file.json")
    [ "$part" != sample ] || args+=("${llama[@]}")
    if [ -n "$again" ] || [ ! -e "$file.json" ]; then
        rm -f "$file.json"
        SECONDS=0
        "$here/$part.sh" "${args[@]}" >"$file.txt" || { failed=1 && continue; }
        echo "$part: $SECONDS s" >&2
    fi
    cat "$file.txt"
done
exit $failed

#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Is each barrier needed, and do the cases notice when it is gone? Every barrier and wait of the kernels in turn does
# nothing (EMU_SKIP), and the cases that come by it must fail: plain under several orders of threads, else under the
# ThreadSanitizer. One that survives is a barrier too many, or a hole in the cases.
#
#   mutate.sh [FILE.cu...]     only these files; SITES=file:line a single place
. "$(dirname "$0")/../lint/lib.bash"
: "${MINT_BUILD:=build/release}"
plain=$MINT_BUILD/tests/kernels/plain tsan=$MINT_BUILD/tests/kernels/tsan
if [ ! -x "$plain" ] || [ ! -x "$tsan" ]; then
    skip "barriers are missed" "no $tsan"
    finish
fi
export TSAN_OPTIONS=halt_on_error=1

# "FILE:LINE CASE", the places in sources that are asked for.
reached=$(EMU_SITES=1 "$plain" quick SCHED=fwd | sed -n 's/^# site //p' | sort -u)
places=$(cut -d' ' -f1 <<<"$reached" | sort -u)
[ $# = 0 ] || places=$(for f in "$@"; do grep -F "${f##*/}:" <<<"$places"; done)
[ -z "${SITES:-}" ] || places=$SITES

# The places of the sources that no case comes by.
for f in $(files 'kernels/*.cu' 'kernels/*.h'); do
    [ $# = 0 ] || [[ " $* " == *"$f"* ]] || continue
    grep -nE '^[^/]*(__syncthreads\(\)|__syncwarp\(|cp_async_wait<[0-9A-Za-z: -]+>\(\))' "$f" |
        grep -vE 'static|DEVICE|template' | cut -d: -f1 | while read -r n; do
        grep -qF "$f:$n " <<<"$reached" || echo "$f:$n"
    done
done | check "a case comes by every barrier and wait"

killed() { # PLACE CASES...
    local at=$1 s
    shift
    for s in fwd rev 1 2; do
        EMU_SKIP=$at timeout 300 "$plain" quick SCHED=$s "$@" >/dev/null 2>&1 || return 0
    done
    for s in fwd rev; do
        EMU_SKIP=$at timeout 600 "$tsan" quick SCHED=$s "$@" >/dev/null 2>&1 || return 0
    done
    return 1
}

for at in $places; do
    mapfile -t cases < <(grep -F "$at " <<<"$reached" | cut -d' ' -f2 | sort -u)
    { killed "$at" "${cases[@]}" 2>/dev/null || echo "nothing failed without it: ${cases[*]}"; } | check "$at is missed"
done
finish

#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Does the emulator notice mistakes? The kernels of bugs.cpp, under several orders of threads, in three builds.
. "$(dirname "$0")/../lint/lib.bash"
: "${MINT_BUILD:=build/release}"
if [ ! -x "$MINT_BUILD/tests/kernels/bugs-tsan" ]; then
    skip "planted bugs are noticed" "no $MINT_BUILD/tests/kernels/bugs-tsan"
    finish
fi

# noticed BUILD BUG: failed, was stopped, or printed something else under another order.
noticed() {
    local out first='' s
    for s in fwd rev 1 2 3; do
        out=$(EMU_SCHED=$s TSAN_OPTIONS=halt_on_error=1 ASAN_OPTIONS=detect_leaks=0 \
            "$MINT_BUILD/tests/kernels/bugs-$1" "$2" 2>/dev/null) || return 0
        : "${first:=$out}"
        [ "$out" = "$first" ] || return 0
    done
    return 1
}

#  number  bug  the builds that must notice it
while read -r n bug builds; do
    for b in $builds; do
        noticed "$b" "$n" || echo "not in the $b build"
    done | check "noticed: $bug"
done <<END
1 missing_barrier plain asan tsan
2 lockstep plain asan tsan
3 block_race tsan
4 divergent_barrier plain asan tsan
5 early_exit plain asan tsan
6 partial_shuffle plain asan tsan
7 read_past_end asan
8 shared_overrun asan
9 uninitialised plain asan tsan
10 no_wait plain asan tsan
11 warp_exchange tsan
12 pinned_overwritten plain asan tsan
13 pinned_read plain asan tsan
END
finish

#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# aarch64.sh [DIR]
#
# Builds the tools for 64-bit ARM and runs them in emulation: unit tests, and a step of GRPO whose files must be, byte for byte, those
# of the tools of this machine (MINT_BUILD, build/release). DIR (build/aarch64) keeps the build and the libraries, which come from
# Debian's arm64 packages without being installed. Needs gcc-aarch64-linux-gnu and qemu-user-static, and apt-get as root if DIR has no
# libraries yet, to learn what the arm64 packages are.
set -euo pipefail

here=$(cd "$(dirname "$0")/.." && pwd)
native=$(cd "${MINT_BUILD:-$here/build/release}" && pwd)
mkdir -p "${1:-$here/build/aarch64}"
dir=$(cd "${1:-$here/build/aarch64}" && pwd)
root=$dir/root lib=usr/lib/aarch64-linux-gnu
export PATH=$PATH:/usr/sbin

packages=(libc6 libgcc-s1 libgomp1 zlib1g libzstd-dev libzstd1 libpcre2-dev libpcre2-8-0 libutf8proc-dev libutf8proc2 libcmocka-dev
    libcmocka0 libseccomp-dev libseccomp2 libgmp-dev libgmp10 libmpfr-dev libmpfr6)

# The libraries, unpacked. The foreign architecture is known to apt for as long as this takes.
fetch() {
    local had
    had=$(dpkg --print-foreign-architectures)
    mkdir -p "$dir/debs" "$root"
    dpkg --add-architecture arm64
    apt-get update -q >/dev/null
    (cd "$dir/debs" && apt-get download -q "${packages[@]/%/:arm64}" libjsmn-dev >/dev/null 2>&1) || true
    if ! grep -qx arm64 <<<"$had"; then
        dpkg --remove-architecture arm64
        apt-get update -q >/dev/null
    fi
    for deb in "$dir"/debs/*.deb; do dpkg -x "$deb" "$root"; done
    [ -e "$root/$lib/libcmocka.so" ] || { echo "aarch64.sh: no arm64 packages to be had" >&2 && exit 1; }
}

build() {
    make -C "$here" BUILD="$dir/build" CC=aarch64-linux-gnu-gcc \
        CPPFLAGS="-isystem $root/usr/include -isystem $root/usr/include/aarch64-linux-gnu" \
        LDFLAGS="-L$root/$lib -Wl,-rpath-link,$root/$lib:$root/lib/aarch64-linux-gnu" "$@"
}

arm() {
    qemu-aarch64-static -L "$root" "$dir/build/$1" "${@:2}"
}

here_too() {
    "$native/$1" "${@:2}"
}

# step WHO: a step by the tools of arm or here_too, into files WHO.*
step() {
    $1 bin/mint-sample --model model -n 4 --max-tokens 16 --seed 3 -q -o "$1.s" p.jsonl
    $1 bin/mint-score length --plain "$1.s" |
        jq -c '.sequences |= [to_entries[] | .value + {reward: (.key * 7 % 5 / 3)}]' >"$1.r"
    $1 bin/mint-advantage --norm std -q -o "$1.d" "$1.r"
    $1 bin/mint-train --model model --rank 4 --lr 1e-3 --to "$1.1" "$1.d" -q
    $1 bin/mint-train --model model --from "$1.1" --lr 1e-3 --loss ppo --to "$1.2" "$1.d" -q
    $1 bin/mint-sample --model model --adapter "$1.2" -n 2 --max-tokens 16 --temperature 0.8 --top-p 0.9 -q -o "$1.s2" p.jsonl
}

passed=0 failed=0
check() {
    local what=$1
    shift
    if "$@"; then passed=$((passed + 1)) && echo "ok $what"; else failed=$((failed + 1)) && echo "not ok $what"; fi
}

for p in aarch64-linux-gnu-gcc qemu-aarch64-static jq; do
    command -v $p >/dev/null || { echo "aarch64.sh: there is no $p; see the top of this file" >&2 && exit 1; }
done
[ -e "$root/$lib/libcmocka.so" ] || fetch
units=(test_num test_json test_rng test_vmath test_gemm test_ops test_attention test_head test_sample test_gradtree)
build -j"$(nproc)" "${units[@]/#/$dir/build/tests/unit/}" "$dir"/build/bin/mint-{sample,score,advantage,train} >"$dir/log" ||
    { tail "$dir/log" && exit 1; }

cd "$here" # where unit tests find their data
for t in "${units[@]}"; do check "$t" arm "tests/unit/$t" >"$dir/$t.tap" 2>&1 && tail -n 1 "$dir/$t.tap"; done
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
here_too bin/mint-init --to model --layers 3 --hidden 96 --heads 4 --kv-heads 2 --head-dim 32 --ffn 160 -q
printf '{"prompt":"What is %d + %d?"}\n' 1 2 30 4 5 66 >p.jsonl
step here_too
step arm
for f in s r d s2; do check "$f is the same" cmp "here_too.$f" "arm.$f"; done
for f in adapter_model.safetensors optimizer.safetensors; do
    check "$f is the same" cmp "here_too.2/$f" "arm.2/$f"
done
echo "$passed passed, $failed failed, 0 skipped"
[ $failed = 0 ]

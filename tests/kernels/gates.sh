#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# What the CUDA compiler made of the kernels, without a GPU: registers and spills within budget.txt, instructions as
# ptx.txt says, one exported symbol, no library linked that a machine may lack; conversions as in the toolkit's header, and
# NCCL's calls as in its own (NCCL_INCLUDE: the folder of nccl.h).
. "$(dirname "$0")/../lint/lib.bash"
: "${MINT_BUILD:=build/release}"

so=$MINT_BUILD/lib/mint/mint-cuda.so
if [ ! -e "$so" ]; then
    skip "what the CUDA compiler makes of the kernels" "no $so (make cuda)"
    finish
fi
logs=() ptx=()
for f in kernels/*.cu; do
    o=$MINT_BUILD/obj/cuda/${f%.cu}
    logs+=("$o.log")
    ptx+=("$o".keep/*.compute_80.ptx "$o".keep/*.compute_90a.ptx)
done

# "NAME ARCH REGISTERS SPILLED-BYTES STACK-BYTES", one line a kernel and target; a template's kernels share a name.
used() {
    cat "${logs[@]}" | c++filt | awk '
        /Compiling entry function/ {
            arch = $NF; gsub(/[^a-z0-9_]/, "", arch)
            name = $0; sub(/^[^\047]*\047/, "", name); sub(/\047 for .*/, "", name)
            sub(/^void /, "", name); sub(/^\(anonymous namespace\)::/, "", name); sub(/[<(].*/, "", name)
        }
        /bytes stack frame/ { stack = $1; spill = $5 + $9 }
        /Used [0-9]+ registers/ { for (i = 1; i < NF; i++) if ($i == "Used") print name, arch, $(i + 1), spill, stack }'
}

used | awk '
    FNR == NR { if ($0 !~ /^#/ && NF >= 4) { regs[$1] = $2; spill[$1] = $3; stack[$1] = $4 } next }
    { seen[$1] = 1 }
    !($1 in regs) { print $1 ": not in budget.txt (" $3 " registers on " $2 ")"; next }
    $3 > regs[$1] { print $1 ": " $3 " registers on " $2 ", budget " regs[$1] }
    $4 > spill[$1] { print $1 ": " $4 " bytes spilled on " $2 ", budget " spill[$1] }
    $5 > stack[$1] { print $1 ": " $5 " bytes of stack on " $2 ", budget " stack[$1] }
    END { for (k in regs) if (!(k in seen)) print k ": in budget.txt, but no kernel" }' tests/kernels/budget.txt - |
    sort -u | check "registers, spills and stack of each kernel are within its budget"

# Instructions of each kernel's PTX, by prefix.
for f in "${ptx[@]}"; do
    c++filt <"$f" | awk -v file="${f##*/}" '
        /\.entry/ { name = $0; sub(/.*\.entry /, "", name); sub(/^void /, "", name)
            sub(/^\(anonymous namespace\)::/, "", name); sub(/[<(].*/, "", name) }
        /^[ \t]+(@!?%p[0-9]+ )?[a-z]/ { op = $1 ~ /^@/ ? $2 : $1; sub(/;$/, "", op); print name, op, file }'
done | awk '
    FNR == NR { if ($0 !~ /^#/ && NF >= 4) { n++; kernel[n] = $1; op[n] = $2; least[n] = $3; most[n] = $4 } next }
    { for (i = 1; i <= n; i++) if ((kernel[i] == "*" || kernel[i] == $1) && $2 ~ "^" op[i]) { count[i]++; where[i] = $3 " (" $1 ")" } }
    END {
        for (i = 1; i <= n; i++) {
            if (count[i] + 0 < least[i]) print kernel[i] ": " count[i] + 0 " " op[i] ", at least " least[i]
            if (most[i] != "-" && count[i] + 0 > most[i]) print kernel[i] ": " count[i] " " op[i] ", at most " most[i] ", in " where[i]
        }
    }' tests/kernels/ptx.txt - | check "the instructions are those that the sources mean"

nm -D --defined-only "$so" | awk '{ print $NF }' | grep -vx mint_backend_entry | check "the plugin exports one symbol"
nm -D --defined-only "$so" | grep -qw mint_backend_entry || echo "no mint_backend_entry"
readelf -d "$so" | awk '/NEEDED/ { gsub(/[][]/, "", $NF); print $NF }' | grep -vE '^(libc|libm|libdl|libpthread|librt|libgcc_s|libstdc\+\+|ld-linux.*)\.so' |
    check "the plugin needs no library of the toolkit or the driver to be opened"

types=$MINT_BUILD/tests/kernels/types
if [ -x "$types" ]; then
    "$types" 7 | check "the emulator rounds to bf16 as the toolkit does"
else
    skip "the emulator rounds to bf16 as the toolkit does" "not built"
fi
nccl=
for dir in ${NCCL_INCLUDE:+"$NCCL_INCLUDE"} /usr/include /usr/local/cuda/include; do
    [ -n "$nccl" ] || [ ! -e "$dir/nccl.h" ] || nccl=$dir
done
if [ -n "$nccl" ]; then
    "${CXX:-g++}" -std=c++17 -fsyntax-only -isystem "${CUDA_HOME:-/usr/local/cuda}/include" -idirafter "$nccl" -Ikernels \
        tests/kernels/types_nccl.cpp 2>&1 | grep error: | check "NCCL's calls are declared as its header has them"
else
    skip "NCCL's calls are declared as its header has them" "no nccl.h; NCCL_INCLUDE names its folder"
fi
finish

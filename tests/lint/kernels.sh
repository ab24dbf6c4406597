#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Rules of the kernels that a text search can check; what the compiler makes of them is tests/kernels/gates.sh.
. "$(dirname "$0")/lib.bash"

mapfile -t sources < <(files 'kernels/*.cu' 'kernels/*.h')
mapfile -t cases < <(files 'tests/kernels/cases_*.cpp')
code=$(c_code "${sources[@]}")

grep -E '(^|[^A-Za-z0-9_])asm($|[^A-Za-z0-9_])' <<<"$code" | grep -v '^kernels/dev\.h:' | check "assembly in dev.h only"
grep -E '[^A-Za-z0-9_.](__)?(exp|exp2|exp10|log|log2|log10|log1p|expm1|sin|cos|sincos|tan|tanh|pow|rsqrt|erf|cbrt)f? *\(|__fdividef|__frsqrt|__fsqrt_r[^n]|__frcp' \
    <<<"$code" | check "no function whose bits the toolkit decides"
grep -E '(^|[^A-Za-z0-9_])(__activemask|cooperative_groups|__threadfence|grid_group|volatile) *' <<<"$code" |
    grep -v '^kernels/dev\.h:' | check "no block waits for another"
grep -q -e '-fmad=false' kernels/rules.mk || echo "kernels/rules.mk"
grep -nE 'use_fast_math|fast-math|-ftz=true|-prec-(div|sqrt)=false' kernels/rules.mk | check "nvcc fuses and approximates nothing on its own"

c_code kernels/kernels.h | grep -oE '(^|[^A-Za-z0-9_])mint_k_[a-z0-9_]+ *\(' | grep -oE 'mint_k_[a-z0-9_]+' | sort -u | while read -r f; do
    grep -qE "(^|[^A-Za-z0-9_])$f *\(" "${cases[@]}" || echo "$f"
done | check "every launcher has a case"
finish

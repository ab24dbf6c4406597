#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# What stands in every file: a licence line, nothing left open, nothing of the machine that it was written on.
. "$(dirname "$0")/lib.bash"

mapfile -t sources < <(files '*.c' '*.h' '*.cu' '*.cpp' '*.sh' '*.bash' '*.bats' '*.py' '*.mk' '*.1' '*.5' '*.7' Makefile tests/run .ci/run .ci/deps)
for f in "${sources[@]}"; do
    head -n 5 "$f" | grep -q 'SPDX-License-Identifier: Apache-2.0' || echo "$f"
done | check "every source has its SPDX line"

# Written so that this file does not match itself.
grep -nwE 'TOD[O]|FIXM[E]|XX[X]|HAC[K]' "${sources[@]}" | check "nothing is left open"
grep -niE 'not (yet )?implemente[d]|unimplemente[d]|coming soo[n]' "${sources[@]}" | check "nothing is announced instead of done"

mapfile -t texts < <(files '*.c' '*.h' '*.cu' '*.cpp' '*.sh' '*.bash' '*.bats' '*.py' '*.mk' '*.md' '*.1' '*.5' '*.7' '*.conf' Makefile tests/run .ci/run .ci/deps)
grep -nE '(^|[^A-Za-z0-9_.$}])/(hom[e]|roo[t]|User[s]|wor[k]|mn[t])/' "${texts[@]}" | check "no path of somebody's machine"
grep -nE ' +$' "${texts[@]}" | check "no blanks at line ends"
mapfile -t c < <(files '*.c' '*.h' '*.cu' '*.cpp')
grep -nP '\t' "${c[@]}" | check "no tabs in C"
files | grep -E '\.(o|a|so|pyc|swp|orig|rej)$|(^|/)core$|~$' | check "no generated or leftover file"
files | sed -n 's|/.*||; /^\./d; p' | sort -u | grep -vxE 'bin|tools|lib|kernels|pipelines|tests|Makefile|(README|ARCHITECTURE|CONTRIBUTING)\.md|LICENSE' |
    check "nothing else at the top"
files | while IFS= read -r f; do
    [ "$(stat -c %s "$f")" -le 2000000 ] || echo "$f"
done | check "no file over 2 MB"
finish

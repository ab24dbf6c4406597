#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Calls that are banned, sizes, names, and no state outside of the few places that are meant to have it.
. "$(dirname "$0")/lib.bash"

mapfile -t product < <(files 'lib/*.c' 'lib/*.h' 'tools/*.c' 'tools/*.h' 'kernels/*.cu' 'kernels/*.cpp' 'kernels/*.h')
mapfile -t all < <(files '*.c' '*.h' '*.cu' '*.cpp')
code=$(c_code "${product[@]}")

# calls WORDS: lines of $code with a call to one of them.
calls() {
    grep -E ":.*(^|[^A-Za-z0-9_.>])($1) *\(" <<<"$code"
}

calls 'atoi|atol|atoll|atof|strcpy|strcat|stpcpy|sprintf|vsprintf|gets|strtok|tmpnam|mktemp|tempnam|system|popen|alloca|setlocale' |
    check "no call that cannot report an error or a length"
calls 'rand|srand|random|drand48|time|clock' | check "no randomness or clock that is not the seed's"
calls 'printf|vprintf|fprintf|vfprintf|puts|fputs|perror|exit|abort' | grep '^lib/' |
    grep -vE '^lib/(log|cli|cli_[a-z]+|mem|err)\.c:' | check "the library neither prints nor exits"
calls 'malloc|calloc|realloc|reallocarray|strdup|strndup|asprintf|vasprintf' | grep -vE '^lib/(mem|log)\.[ch]:' |
    check "memory comes from mem.h"
grep -E -- '-ffast-math|-Ofast|-funsafe-math|use_fast_math' Makefile | check "no fast-math"
grep -nE 'fast-math|unsafe-math|associative-math|finite-math|FP_CONTRACT +ON' "${product[@]}" | check "no pragma that changes numbers"

# A function runs from a "{" to a "}" in the first column. Rows of a table inside of it do not count.
for f in "${all[@]}"; do
    awk -v f="$f" '
    /^\{/ { start = FNR; name = last; rows = 0 }
    /^ +([{"]|[A-Z_]+\().*,( \/\*.*)?$/ { rows++ }
    /^\}/ && start { n = FNR - start - rows; if (n > 80) print f ":" start ": " n " lines: " name; start = 0 }
    /^[A-Za-z_].*\(/ { last = $0 }' "$f"
done | check "no function over 80 lines"
wc -l "${all[@]}" | awk '$2 != "total" && $1 > 1200 { print $2 ": " $1 " lines" }' | check "no file over 1,200 lines"

# Base names are unique: a message that names parse.c names one file.
printf '%s\n' "${product[@]}" | sed 's|.*/||' | sort | uniq -d | check "no two sources of one name"
grep -nE '^ *typedef +struct' "${product[@]}" | grep -vw cudaStream_t | check "no struct typedefs"

if [ -e "$MINT_BUILD/libmint.a" ]; then
    # Inside a module of several files: cpu_ (cpu.h), tok_ (tokenizer_impl.h), chat_ (chat_impl.h).
    nm -A --defined-only -g "$MINT_BUILD/libmint.a" 2>/dev/null | awk '$NF !~ /^(mint|cpu|tok|chat)_/ { print $1, $NF }' |
        check "exported names begin with mint_, or with the prefix of a module's inside"
    # Writable data: the log's state, the list of temporaries, the command line, the hook of mem.c, the children to kill; words for execve(2), which takes no const.
    objdump -t "$MINT_BUILD/libmint.a" | awk '
        / file format / { sub(/:.*/, "", $1); file = $1 }
        NF > 4 && $(NF - 2) ~ /^\.(data|bss|tbss|tdata)(\.|$)/ && $(NF - 2) !~ /^\.data\.rel\.ro/ && $NF !~ /^\./ && $(NF - 1) !~ /^0+$/ {
            print file, $NF
        }' | grep -vE '^(log|fs|cli|mem|score_coproc)\.o |__compound_literal' | check "no mutable globals"
else
    skip "exported names begin with mint_, or with the prefix of a module's inside" "no libmint.a"
fi
finish

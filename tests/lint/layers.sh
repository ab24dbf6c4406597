#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Includes of lib/ point down, as the layer table of ARCHITECTURE.md says. The table is written there and nowhere else.
. "$(dirname "$0")/lib.bash"

# Rows of the table: | 2 formats | `record`, `safetensors`, ... | ... |   ->   "module layer"
table=$(awk -F'|' '/^\| *[0-9] [a-z]+ *\|/ {
    layer = $2 + 0
    n = split($3, m, /[`, ]+/)
    for (i = 1; i <= n; i++) if (m[i] ~ /^[a-z]/) { sub(/\/$/, "", m[i]); print m[i], layer }
}' ARCHITECTURE.md)

if [ "$(wc -l <<<"$table")" -lt 10 ]; then echo "no layer table in ARCHITECTURE.md"; fi | check "the layer table is there"

# A file belongs to the module whose name it has, or begins with (record_group.c: record); the longest one wins.
mapfile -t sources < <(files 'lib/*.c' 'lib/*.h')
grep -nE '^ *# *include *"' "${sources[@]}" | awk -v table="$table" '
    BEGIN {
        n = split(table, row, "\n")
        for (i = 1; i <= n; i++) { split(row[i], p, " "); layer[p[1]] = p[2] }
    }
    function module(path,   name, best, m) {
        if (path ~ /^lib\/cpu\// || path ~ /^cpu\//) return "cpu"
        name = path
        sub(/^.*\//, "", name)
        sub(/\.[ch]$/, "", name)
        best = ""
        for (m in layer)
            if ((name == m || index(name, m "_") == 1) && length(m) > length(best)) best = m
        return best
    }
    {
        split($0, part, ":")
        file = part[1]
        match($0, /"[^"]*"/)
        header = substr($0, RSTART + 1, RLENGTH - 2)
        if (header == "version.h") next # generated
        if (file ~ /^lib\/cpu\// && header !~ /\//) {
            # a header beside the file, or one of lib/
            if ((getline line < ("lib/cpu/" header)) > 0) { close("lib/cpu/" header); header = "cpu/" header }
        }
        from = module(file)
        to = module(header)
        where = file ":" part[2] ": "
        if (from == "" && !(file in said)) { said[file] = 1; print file ": its module is not in the table" }
        if (to == "" && !(header in said)) { said[header] = 1; print where "module of " header " is not in the table" }
        if (from != "" && to != "" && layer[to] > layer[from])
            print where header " is in layer " layer[to] ", above layer " layer[from]
    }' | check "includes of lib/ point down only"

# Only the loader may look into the CPU backend; its exp and log (vmath.h) are for all.
grep -nE '^ *# *include *"cpu/' "${sources[@]}" | grep -vE '^lib/(backend[a-z_]*\.c:|cpu/)|cpu/vmath\.h' |
    check "only the backend loader includes cpu/ headers"

# No device in the code of the model.
mapfile -t above < <(files 'lib/*.c' | grep -vE '^lib/(cpu/|backend)')
c_code "${above[@]}" | grep -E ':[ ]*# *if.*(CUDA|MINT_X86|__AVX)' | check "no #if of a device outside of the backends"
finish

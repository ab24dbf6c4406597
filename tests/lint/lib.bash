# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# For the lint scripts: TAP, the files of the project, C without its comments.

cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit 1
shopt -s lastpipe # "... | check NAME" counts in this shell
count=0
failed=0

# check NAME: one test; it fails when stdin holds a line, and shows these lines.
check() {
    local lines
    lines=$(cat)
    count=$((count + 1))
    if [ -z "$lines" ]; then
        echo "ok $count - $1"
    else
        echo "not ok $count - $1"
        head -n 25 <<<"$lines" | sed 's/^/# /'
        failed=1
    fi
}

skip() {
    count=$((count + 1))
    echo "ok $count - $1 # SKIP $2"
}

finish() {
    echo "1..$count"
    exit "$failed"
}

# The project's files matching the patterns: what git knows, or would add; all of them in an unpacked archive.
files() {
    if git rev-parse --git-dir >/dev/null 2>&1; then
        git ls-files -co --exclude-standard -- "$@" | while IFS= read -r f; do [ ! -e "$f" ] || printf '%s\n' "$f"; done
    else
        local f pattern
        find . \( -name build -o -name bin -o -name .git \) -prune -o -type f -print | sed 's|^\./||' |
            while IFS= read -r f; do
                for pattern in "$@"; do
                    # shellcheck disable=SC2053
                    if [[ $f == $pattern || $f == ${pattern%/}/* ]]; then
                        printf '%s\n' "$f"
                        break
                    fi
                done
            done
    fi | sort -u
}

# "FILE:LINE:CODE" of C files, comments blanked and strings emptied.
c_code() {
    awk '
    FNR == 1 { inside = 0 }
    {
        out = ""
        s = $0
        while (s != "") {
            if (inside) {
                i = index(s, "*/")
                if (!i) { s = ""; break }
                s = substr(s, i + 2)
                inside = 0
            } else if (match(s, /\/\*|\/\/|"|\047/)) {
                out = out substr(s, 1, RSTART - 1)
                t = substr(s, RSTART, RLENGTH)
                s = substr(s, RSTART + RLENGTH)
                if (t == "/*") inside = 1
                else if (t == "//") s = ""
                else {
                    end = t == "\"" ? "^([^\"\\\\]|\\\\.)*\"" : "^([^\047\\\\]|\\\\.)*\047"
                    if (match(s, end)) s = substr(s, RLENGTH + 1)
                    out = out t t
                }
            } else {
                out = out s
                s = ""
            }
        }
        if (out ~ /[^ \t]/) print FILENAME ":" FNR ":" out
    }' "$@"
}

#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# plot.sh: the curves of runs of grpo.sh as SVG, by gnuplot.
set -eu

program=plot.sh
here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=pipelines/lib.sh
. "$here/lib.sh"

usage() {
    cat <<'END'
usage: plot.sh [-o FILE] RUN... [NAME=FILE...]

Draws the mean reward of each step and the accuracy of each measurement of the run folders, one above the other, into
FILE (default: curves.svg in the first RUN). NAME=FILE adds another program's curves: lines `reward STEP VALUE` and
`accuracy STEP VALUE`. Needs gnuplot.
END
}

# The run folder $1 as such lines. Of a step's waves the last counts.
curves() {
    awk '
        match($0, /"reward\/mean":-?[0-9.e+-]+/) && /"tool":"mint-advantage"/ {
            value = substr($0, RSTART + 14, RLENGTH - 14)
            match($0, /"stage":"step-[0-9]+/)
            reward[substr($0, RSTART + 14, RLENGTH - 14) + 0] = value
        }
        END { for (step in reward) print "reward", step, reward[step] }' "$1/metrics.jsonl" | sort -k 2n
    for point in "$1"/eval/[0-9]*.txt; do
        [ ! -e "$point" ] || awk -v step="$(basename "$point" .txt)" '$1 == "accuracy" { print $1, step + 0, $2 }' "$point"
    done
}

# The curve $1 of every file, as clauses of gnuplot's plot.
clauses() {
    for file in "$scratch"/*.curve; do
        grep "^$1 " "$file" >"$file.$1" || continue
        printf "%s'%s' using 2:3 with linespoints pointtype 7 pointsize 0.4 title '%s' noenhanced" "$comma" "$file.$1" \
            "$(sed "s/'/''/g" "${file%.curve}.name")"
        comma=', '
    done
}

panel() {
    comma=''
    clauses=$(clauses "$1")
    [ -z "$clauses" ] || printf "set ylabel '%s'\nset xlabel 'step'\nplot %s\n" "$2" "$clauses"
}

main() {
    out=
    while [ $# -gt 0 ]; do
        case $1 in
        -h | --help) usage && exit 0 ;;
        -o)
            [ $# -gt 1 ] || usage_error "-o wants a file"
            out=$2
            shift 2
            ;;
        -*) usage_error "unknown option $1" ;;
        *) break ;;
        esac
    done
    [ $# -gt 0 ] || usage_error "a run folder is needed"
    command -v gnuplot >/dev/null || die "there is no gnuplot here: install it (Debian: gnuplot-nox)"
    scratch=$(mktemp -d)
    trap 'rm -rf "$scratch"' EXIT
    n=10
    for arg; do
        case $arg in
        *=*)
            [ -r "${arg#*=}" ] || die "${arg#*=} cannot be read"
            cp "${arg#*=}" "$scratch/$n.curve"
            echo "${arg%%=*}" >"$scratch/$n.name"
            ;;
        *)
            [ -e "$arg/metrics.jsonl" ] || die "$arg is no run folder: it has no metrics.jsonl"
            [ -n "$out" ] || out=$arg/curves.svg
            curves "$arg" >"$scratch/$n.curve"
            basename "$arg" >"$scratch/$n.name"
            ;;
        esac
        n=$((n + 1))
    done
    [ -n "$out" ] || usage_error "-o FILE is needed where there is no run folder"
    {
        echo "set terminal svg size 720,640 dynamic enhanced background '#ffffff' font 'sans,13'"
        echo "set output '$scratch/out.svg'"
        echo "set grid; set key bottom right; set multiplot layout 2,1"
        panel reward 'mean reward, training'
        panel accuracy 'accuracy, held out'
        echo "unset multiplot"
    } >"$scratch/plot.gp"
    grep -q '^plot' "$scratch/plot.gp" || die "no step is done yet: there is nothing to draw"
    gnuplot "$scratch/plot.gp" || die "gnuplot failed"
    cp "$scratch/out.svg" "$out.tmp" && mv "$out.tmp" "$out"
    say "$out"
}

main "$@"

# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=sh
# lib.sh: what the pipelines share: confs, stages, the lock of a run folder. To be sourced after `set -eu`, with
# $program set. A stage's output is atomic, so that its existence means it is whole: a run is resumed by running it again.

dry_run=${dry_run:-}
quiet=${quiet:-}
# Threads that wait must not spin: the machine may have other work, such as the other end of the pipe.
OMP_WAIT_POLICY=${OMP_WAIT_POLICY:-passive}
export OMP_WAIT_POLICY
program=${program:-pipeline}
conf=${conf:-}
tools=

say() {
    [ -n "$quiet" ] || printf '%s: %s\n' "$program" "$*" >&2
}

die() {
    printf '%s: %s\n' "$program" "$*" >&2
    exit 1
}

usage_error() {
    printf "%s: %s; try '%s --help'\n" "$program" "$*" "$program" >&2
    exit 2
}

# The tools come from MINT_BIN, from the build or installation that this script is part of, or from PATH.
find_tools() {
    for dir in "${MINT_BIN:-$1/../bin}" "$1/../bin" "$1/../../../bin"; do
        if [ -x "$dir/mint-train" ]; then
            tools=$(cd "$dir" && pwd)
            PATH=$tools:$PATH
            export PATH
            return
        fi
    done
    command -v mint-train >/dev/null || die "mint-train is not in PATH: build the tools with make, or install them"
    tools=$(dirname "$(command -v mint-train)")
}

# ---- confs: lines `name = value`, # comments ------------------------------------------------------------------------

# conf_read FILE: normalised on stdout, one `name = value` a line, in the order of the file.
conf_read() {
    [ -e "$1" ] || die "cannot read $1: there is no such file"
    [ ! -d "$1" ] || die "cannot read $1: it is a folder, not a conf"
    [ -r "$1" ] || die "cannot read $1"
    awk -v file="$1" -v program="$program" '
        function bad(what) {
            printf "%s: %s:%d: %s\n", program, file, NR, what > "/dev/stderr"
            failed = 1
            exit 1
        }
        { sub(/\r$/, "") }
        /^[ \t]*(#|$)/ { next }
        !/^[ \t]*[a-z][a-z0-9.-]*[ \t]*=/ { bad("not a line `name = value`") }
        {
            name = $0
            sub(/[ \t]*=.*/, "", name); sub(/^[ \t]*/, "", name)
            value = $0
            sub(/^[^=]*=[ \t]*/, "", value); sub(/[ \t]*$/, "", value)
            if (name in seen && name !~ /\.stop(-token)?$/)
                bad("\"" name "\" is given twice")
            seen[name] = 1
            print name " = " value
        }
        END { if (failed) exit 1 }' "$1"
}

# conf_get NAME DEFAULT: a value out of $conf.
conf_get() {
    printf '%s\n' "$conf" | awk -v name="$1" -v value="$2" '
        index($0, name " = ") == 1 { value = substr($0, length(name) + 4) }
        END { print value }'
}

# conf_options PREFIX [EXCEPT]: the lines `PREFIX.OPTION = VALUE` of $conf as options, quoted for eval, but those whose
# OPTION is one of the words EXCEPT. yes and no are flags.
conf_options() {
    printf '%s\n' "$conf" | awk -v prefix="$1." -v except=" ${2:-} " -v q="'" '
        index($0, prefix) == 1 {
            name = substr($0, length(prefix) + 1)
            sub(/ = .*/, "", name)
            if (index(except, " " name " "))
                next
            value = substr($0, length(prefix) + length(name) + 4)
            if (value == "yes")
                word = "--" name
            else if (value == "no")
                word = "--no-" name
            else
                word = "--" name "=" value
            gsub(q, q "\\" q q, word)
            printf " %s%s%s", q, word, q
        }'
}

# parse WORD...: the command line of a pipeline of one conf; sets conf_file, run_dir, dry_run, quiet.
parse() {
    conf_file='' run_dir=''
    while [ $# -gt 0 ]; do
        case $1 in
        -n | --dry-run) dry_run=1 ;;
        -q | --quiet) quiet=1 ;;
        -h | --help) usage && exit 0 ;;
        -*) usage_error "unknown option $1" ;;
        *)
            if [ -z "$conf_file" ]; then
                conf_file=$1
            elif [ -z "$run_dir" ]; then
                run_dir=$1
            else
                usage_error "one conf and one run folder, not $1"
            fi
            ;;
        esac
        shift
    done
    [ -n "$conf_file" ] || usage_error "the conf is missing"
}

# check_names KNOWN: every name of $conf is one of the extended regular expression, and none that a pipeline sets itself.
check_names() {
    bad=$(printf '%s\n' "$conf" | grep -Ev "^($1) = " | head -n 1) || :
    [ -z "$bad" ] || die "$conf_file: ${bad%% = *} is no name that $program knows; see man 7 mint-pipeline"
    bad=$(printf '%s\n' "$conf" | grep -E '^[a-z]+\.(model|adapter|from|to|output|step|seed|metrics) = ' |
        grep -v '^adapter\.seed' | head -n 1) || :
    [ -z "$bad" ] || die "$conf_file: ${bad%% = *} is set by $program itself"
}

# count NAME VALUE
count() {
    case $2 in
    '' | *[!0-9]* | ????????????????*) die "$conf_file: $1 = $2 is not a whole number" ;;
    esac
}

# readable NAME FILE
readable() {
    { [ -f "$2" ] && [ -r "$2" ]; } || die "$conf_file: $1 = $2 cannot be read"
}

digest() {
    sha256sum <"$1" | cut -d' ' -f1
}

# The options of all tools that compute, quoted for eval.
common_options() {
    for name in device precision threads; do
        value=$(conf_get "$name" '')
        [ -z "$value" ] || printf " '--%s=%s'" "$name" "$(printf '%s' "$value" | sed "s/'/'\\\\''/g")"
    done
}

# ---- stages ---------------------------------------------------------------------------------------------------------

# quoted WORD...: the command as a line that a shell reads back.
quoted() {
    for word; do
        case $word in
        '' | *[!A-Za-z0-9_./:=,@%+-]*) printf "'%s' " "$(printf '%s' "$word" | sed "s/'/'\\\\''/g")" ;;
        *) printf '%s ' "$word" ;;
        esac
    done | sed 's/ $//'
    echo
}

# tidy OUT: OUT is whole; what a killed tool left beside it goes.
tidy() {
    if [ -n "$dry_run" ]; then
        printf '# %s is there\n' "$1"
        return
    fi
    for rest in "$1".tmp-* "$1".lock; do
        [ ! -e "$rest" ] || rm -rf "$rest"
    done
}

# run OUT COMMAND...: runs it, unless OUT is there. The lock's descriptor is not handed down, so that the lock dies with
# the pipeline: a tool that outlives it finishes its own output or none, and another run that makes the same bytes does
# no harm. A quiet pipeline has quiet tools.
run() {
    out=$1
    shift
    case $quiet$1 in ?*mint-*) set -- "$@" --quiet ;; esac
    if [ -e "$out" ]; then
        tidy "$out"
        return 0
    fi
    if [ -n "$dry_run" ]; then
        quoted "$@"
        return 0
    fi
    started=$(date +%s) status=0
    "$@" 9>&- || status=$?
    if [ "$status" -eq 3 ] && [ -e "$out" ]; then
        tidy "$out"
        say "$out ($(($(date +%s) - started)) s), not all of it: see above"
    elif [ "$status" -eq 0 ]; then
        tidy "$out"
        say "$out ($(($(date +%s) - started)) s)"
    elif [ -e "$out" ]; then
        say "$out was finished by another process"
    else
        die "stopped: $out could not be made; run again to go on from there"
    fi
}

# stage OUT COMMAND...: a tool that writes the file -o OUT.
stage() {
    target=$1
    shift
    run "$target" "$@" -o "$target"
}

# measured METRICS OUT COMMAND...: the same with --metrics; a first try that failed leaves no line there.
measured() {
    metrics=$1
    shift
    [ -n "$dry_run" ] || [ -e "$1" ] || rm -f "$metrics"
    stage "$@" --metrics "$metrics"
}

folder() {
    [ ! -d "$1" ] || return 0
    [ ! -e "$1" ] || die "$1 is there and is no folder: name another one"
    if [ -n "$dry_run" ]; then
        quoted mkdir -p "$1"
    else
        mkdir -p "$1" 2>/dev/null || die "$1: the folder cannot be made: no permission, or a file in the way"
    fi
}

# check COMMAND...: ends the pipeline with what the tool says against its options. The command makes nothing; that
# mint-train refuses to train on nothing is no fault.
check() {
    said=$("$@" 2>&1 >/dev/null 9>&-) && return 0
    case $said in *': no datums: '*) return 0 ;; esac
    printf '%s\n' "$said" >&2
    die "nothing was started: ${conf_file:-an option} is not right for $1"
}

# ---- the run folder -------------------------------------------------------------------------------------------------

# lock_run RUN: for this process, until it ends in whatever way.
lock_run() {
    [ -w "$1" ] || die "$1 cannot be written: no permission"
    exec 9>>"$1/lock"
    if ! flock -n 9; then
        holder=$(cat "$1/lock")
        die "$1 is locked: process ${holder:-of another user} is working on it"
    fi
    echo $$ >"$1/lock"
}

# keep_conf RUN IGNORED: stores $conf there. Once there is an output, one that differs is refused, but for names that
# match the extended regular expression IGNORED.
keep_conf() {
    kept=$1/conf
    begun=
    for file in "$1"/*.zst "$1"/sft/*.zst "$1"/step-*/*.zst "$1"/step-*/*/*.zst "$1"/eval/*.zst "$1"/ckpt/*; do
        [ ! -e "$file" ] || begun=1
    done
    [ -z "$begun" ] || same_conf "$1" "$2"
    if ! printf '%s\n' "$conf" | cmp -s - "$kept"; then
        # for a moment both are right, so that a crash in between does no harm
        printf '%s\n' "$conf" >"$kept.tmp"
        sum=$(sha256sum <"$kept.tmp" | cut -d' ' -f1)
        [ -z "$begun" ] || printf '%s  conf\n' "$sum" | cat "$kept.sha256" - >"$kept.sum"
        [ -n "$begun" ] || printf '%s  conf\n' "$sum" >"$kept.sum"
        mv "$kept.sum" "$kept.sha256"
        mv "$kept.tmp" "$kept"
        printf '%s  conf\n' "$sum" >"$kept.sum"
        mv "$kept.sum" "$kept.sha256"
    fi
}

# same_conf RUN IGNORED: ends the pipeline if $conf is not what the outputs in RUN were made with.
same_conf() {
    [ -e "$kept" ] || die "$1 has outputs, but the conf that made them is gone: take another run folder"
    grep -qs "^$(sha256sum <"$kept" | cut -d' ' -f1) " "$kept.sha256" ||
        die "$kept was changed by hand: $kept.sha256 does not fit it"
    grep -Ev "^($2) = " "$kept" >"$1/conf.old" || :
    printf '%s\n' "$conf" | grep -Ev "^($2) = " >"$1/conf.new" || :
    if ! cmp -s "$1/conf.old" "$1/conf.new"; then
        diff "$1/conf.old" "$1/conf.new" | grep '^[<>]' >&2 || :
        rm -f "$1/conf.old" "$1/conf.new"
        die "$1 was begun with another conf (< then, > now): take another run folder, or undo the change"
    fi
    rm -f "$1/conf.old" "$1/conf.new"
}

# metrics.jsonl is a digest of the steps' own files and can be made again at any time.
gather_metrics() {
    [ -z "$dry_run" ] || return 0
    for file in "$run_dir"/*.metrics "$run_dir"/sft/*.metrics "$run_dir"/step-*/*.metrics "$run_dir"/step-*/wave-*/*.metrics "$run_dir"/eval/*.metrics; do
        [ ! -e "$file" ] || awk -v stage="${file#"$run_dir"/}" '
            BEGIN { sub(/\.metrics$/, "", stage) }
            { sub(/^\{/, "{\"stage\":\"" stage "\","); print }' "$file"
    done >"$run_dir/metrics.jsonl.tmp"
    mv "$run_dir/metrics.jsonl.tmp" "$run_dir/metrics.jsonl"
}

# enter_run ARGS...: the arguments of the script and its conf are right, and the run folder is there and ours; a dry run prints what
# its commands need. The script brings configure, check_options and still_free.
enter_run() {
    parse "$@"
    configure
    find_tools "$here"
    [ ! -e "$run_dir" ] || [ -d "$run_dir" ] || die "$run_dir is there and is no folder: name another run folder"
    if [ ! -e "$run_dir/conf" ] || ! printf '%s\n' "$conf" | cmp -s - "$run_dir/conf"; then
        check_options
    fi
    if [ -n "$dry_run" ]; then
        printf 'export OMP_WAIT_POLICY=%s "PATH=%s:$PATH"\n' "$OMP_WAIT_POLICY" "$tools"
    else
        folder "$run_dir"
        lock_run "$run_dir"
        keep_conf "$run_dir" "$(still_free)"
    fi
    folder "$run_dir/ckpt"
}

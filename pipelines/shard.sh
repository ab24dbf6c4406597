#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#SBATCH --job-name=mint-sample
# shard.sh: mint-sample in parts, a process each: under mpirun, srun, a Slurm job array, or GNU parallel.
set -eu

program=shard.sh
# Slurm runs a copy of the script from a folder of its own: MINT_BIN or PATH then names the tools.
here=$(cd "$(dirname "$0")" && pwd)

usage() {
    cat <<'END'
usage: shard.sh OUT OPTIONS...      draw this process's part of the prompts into OUT.part-I-of-N
       shard.sh --join N OUT        put the N parts together as OUT, and remove them

OPTIONS are those of mint-sample, prompts included. Which part: MINT_SHARD=I/N, or what Open MPI, MPICH or Slurm (an
array from 0, or a step of several tasks) say of the process. A part that is there is not drawn again, so that jobs
which failed are simply repeated. What is joined are the records that one process would have written.

  mpirun -n 4 shard.sh out.jsonl.zst --model M --threads 8 prompts.jsonl && shard.sh --join 4 out.jsonl.zst
  seq 0 3 | parallel MINT_SHARD={}/4 shard.sh out.jsonl.zst --model M --threads 8 prompts.jsonl
  jobs=$(sbatch --parsable --array=0-3 shard.sh out.jsonl.zst --model M prompts.jsonl)
  sbatch --dependency=afterok:$jobs shard.sh --join 4 out.jsonl.zst

A GPU each: --device cuda, where mpirun or srun numbers the processes of a machine, or a job sees one GPU only; else by name:

  seq 0 3 | parallel MINT_SHARD={}/4 MINT_DEVICE=cuda:{} shard.sh out.jsonl.zst --model M prompts.jsonl
END
}

die() {
    printf '%s: %s\n' "$program" "$*" >&2
    exit 1
}

usage_error() {
    printf "%s: %s; try '%s --help'\n" "$program" "$*" "$program" >&2
    exit 2
}

find_tools() {
    for dir in "${MINT_BIN:-$here/../bin}" "$here/../bin" "$here/../../../bin"; do
        if [ -x "$dir/mint-sample" ]; then
            PATH=$dir:$PATH
            return
        fi
    done
    command -v mint-sample >/dev/null || die "mint-sample is not in PATH: set MINT_BIN to the folder of the tools"
}

# I/N of this process.
part() {
    if [ -n "${MINT_SHARD:-}" ]; then
        echo "$MINT_SHARD"
    elif [ -n "${SLURM_ARRAY_TASK_ID:-}" ]; then
        case ${SLURM_ARRAY_TASK_MIN:-0}-$((${SLURM_ARRAY_TASK_MAX:-0} + 1)) in
        "0-$SLURM_ARRAY_TASK_COUNT") ;;
        *) die "the array has to be 0 to N-1, without gaps: --array=0-3" ;;
        esac
        echo "$SLURM_ARRAY_TASK_ID/$SLURM_ARRAY_TASK_COUNT"
    elif [ -n "${OMPI_COMM_WORLD_RANK:-}" ]; then
        echo "$OMPI_COMM_WORLD_RANK/$OMPI_COMM_WORLD_SIZE"
    elif [ -n "${PMI_RANK:-}" ]; then
        echo "$PMI_RANK/$PMI_SIZE"
    elif [ -n "${SLURM_PROCID:-}" ]; then
        echo "$SLURM_PROCID/$SLURM_NTASKS"
    else
        die "which part? set MINT_SHARD=I/N, or run it under mpirun or Slurm"
    fi
}

draw() {
    out=$1
    shift
    part=$(part)
    case $part in
    */*[!0-9]* | *[!0-9]*/* | /* | */ | *[!0-9/]*) die "MINT_SHARD=$part: want I/N, such as 0/4" ;;
    */*) ;;
    *) die "MINT_SHARD=$part: want I/N, such as 0/4" ;;
    esac
    file=$out.part-${part%/*}-of-${part#*/}
    [ ! -e "$file" ] || return 0
    find_tools
    mint-sample --shard "$part" "$@" -o "$file"
}

# One frame out of the parts' frames: a file of many, cut between two of them, would look whole. Parts are tested first,
# since a pipe hides that its first half failed.
join() {
    n=$1 out=$2 i=0
    case $n in '' | 0 | *[!0-9]*) usage_error "--join wants the number of parts" ;; esac
    [ ! -e "$out" ] || die "$out is there: remove it, or name another file"
    set --
    while [ $i -lt "$n" ]; do
        [ -e "$out.part-$i-of-$n" ] || die "$out.part-$i-of-$n is missing: draw part $i/$n again"
        set -- "$@" "$out.part-$i-of-$n"
        i=$((i + 1))
    done
    zstd -tq "$@" || die "a part is not whole: remove it, and draw it again"
    if ! zstd -dcq "$@" | zstd -q >"$out.tmp"; then
        die "$out could not be written"
    fi
    mv "$out.tmp" "$out"
    rm -f "$@"
}

case ${1:-} in
-h | --help) usage ;;
--join)
    [ $# -eq 3 ] || usage_error "--join wants the number of parts, and the output"
    join "$2" "$3"
    ;;
'' | -*) usage_error "the output is missing" ;;
*) draw "$@" ;;
esac

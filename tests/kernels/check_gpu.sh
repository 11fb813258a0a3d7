#!/bin/bash
# check_gpu on this machine, and what tools of CUDA say of its kernels, if they are here.
# usage: check_gpu.sh [PROGRAM] [ARGUMENTS OF check_gpu]     default: check_gpu beside this script, or build-cuda's
# Leaves check_gpu.json, sanitizer-*.log and ncu.log in the current folder. Exit status as check_gpu;
# 1 if a sanitizer finds something.
set -u -o pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
program=$here/check_gpu
[ -x "$program" ] || program=$here/../../build-cuda/tests/kernels/check_gpu
[ $# -gt 0 ] && [ -x "$1" ] && { program=$1; shift; }
[ -x "$program" ] || { echo "check_gpu.sh: $program is not built (./dev cuda)" >&2; exit 2; }
rc=0
"$program" --json check_gpu.json "$@" || rc=$?
case $rc in 2 | 77) exit $rc ;; esac

# Six small cases: the emulator says that kernels are free of races; these tools look for themselves.
cases="attention.ragged.f16 attention.prefill.bf16 attention.ragged.e4m3 kv_write.scatter.bf16 states_merge.lone.f16 blocks_copy.copies"
if command -v compute-sanitizer >/dev/null; then
    for tool in memcheck racecheck; do
        for name in $cases; do
            PKV_ISA=cuda compute-sanitizer --tool $tool --error-exitcode 9 "$program" --check-kernels \
                --case "$name" --seed 0 >"sanitizer-$tool-$name.log" 2>&1
            found=$?
            echo "compute-sanitizer $tool, $name: exit $found"
            [ $found = 9 ] && rc=1
        done
    done
else
    echo "skipped: compute-sanitizer is not here"
fi
if command -v ncu >/dev/null; then
    ncu --launch-count 6 --section SpeedOfLight --section WarpStateStats --section MemoryWorkloadAnalysis \
        "$program" --stage decode,prefill >ncu.log 2>&1
    echo "ncu: exit $?, see ncu.log"
else
    echo "skipped: ncu is not here"
fi
exit $rc

#!/usr/bin/env bash
# Runs what `cargo xtask nvidia --build-only` put beside this script, on a machine with an NVIDIA GPU.
#
# Usage: run.sh [all|tests|programs|parity|bench|products|card|sanitize]...     (default: all)
#        run.sh products -- ARGUMENT...   further arguments of gpu_mm, such as --group few
#        run.sh bench -- ARGUMENT...      further arguments of the benchmarks' driver, such as --filter '^softmax f16'
#
# It needs NVIDIA's driver; `programs` needs nvcc, NVRTC and their headers, `sanitize` compute-sanitizer (all of the CUDA
# toolkit), `parity` and `bench` the CUDA libraries that stock Candle links (libcublas, libcurand). Logs and results go
# to the folder `results` beside this script, or to $RESULTS.
#
#   FILTER=...          only the tests whose names contain it (tests, programs, sanitize)
#   TOOLS=...           compute-sanitizer's tools; default: memcheck racecheck initcheck synccheck
#   JOBS=...            how many processes these run at once; default: as many as there are processors
#   BENCH_ARGUMENTS=... further arguments of the benchmarks' driver, quoted as for a shell: "--filter '^softmax f16'"
#   PYTHON=...          a Python that has PyTorch, for the benchmarks
set -uo pipefail
here=$(cd "$(dirname "$0")" && pwd)
results=${RESULTS:-$here/results}
mkdir -p "$results"
export CANDLE_ROCM_RUNTIME=nvidia RUST_BACKTRACE=${RUST_BACKTRACE:-1}
failed=()

# Runs a command with its output in a log, and prints one line.
check() {
    local name=$1 log=$results/${1//\//-}.log start=$SECONDS
    shift
    if "$@" >"$log" 2>&1; then
        printf '%-40s ok      %4d s  %s\n' "$name" $((SECONDS - start)) "$(summary "$log")"
    else
        printf '%-40s FAILED  %4d s  %s\n' "$name" $((SECONDS - start)) "$log"
        tail -n "${TAIL:-25}" "$log" | sed 's/^/    /'
        failed+=("$name")
    fi
}

# What the log says in one line.
summary() {
    {
        grep -hE '^test result:|Invalid __global__|^[0-9]+ cases' "$1"
        grep -oh '[0-9]* of [0-9]* launches agree on .*' "$1"
        grep '^candle-rocm-card ' "$1"
    } | sed 's/^========= //' | tail -n 1
}

missing() {
    echo "$1: not run: $2"
    failed+=("$1")
}

tests() {
    local program choice
    for program in "$here"/tests/*; do
        check "tests/$(basename "$program")" "$program" ${FILTER:-}
    done
    for choice in own library; do
        CANDLE_ROCM_GEMM=$choice check "tests/gemm-$choice" "$here/tests/gemm" ${FILTER:-}
    done
}

# CUDA as NVIDIA's compilers have it. What needs them is ignored where tests run without.
programs() {
    local compiler program
    for compiler in nvcc nvrtc; do
        check "programs/$compiler" launches_agree "programs_that_${compiler}_compiles"
    done
    check programs/run-time "$here/programs/nvrtc" --ignored ${FILTER:-}
    for program in launches whole_arrays; do
        check "programs/$program" "$here/programs/$program" ${FILTER:-}
    done
}

# A test that says how many launches agree. A name that is no test's would run nothing and succeed.
launches_agree() {
    local output status
    output=$("$here/programs/programs" --exact "$1" --ignored --nocapture 2>&1)
    status=$?
    echo "$output"
    [ $status -eq 0 ] && grep -q ' launches agree on ' <<<"$output"
}

# The vendor's checkers over the operator tests, each test in a process of its own, many at once. Not under them: indices
# out of range, which trap on purpose. Without the pool every tensor is an allocation of its own, whose end memcheck knows.
# Products are our own kernels': initcheck does not see what cuBLAS writes by Hopper's asynchronous stores.
sanitize() {
    local tool
    sanitizer=$(command -v compute-sanitizer || ls /usr/local/cuda/bin/compute-sanitizer 2>/dev/null) ||
        { missing sanitize "no compute-sanitizer on the PATH; it is part of the CUDA toolkit"; return; }
    export sanitizer here results
    for tool in ${TOOLS:-memcheck racecheck initcheck synccheck}; do
        check "sanitize/$tool" sanitize_with "$tool"
    done
    # A checker that sees nothing proves nothing: one element too far must be an error.
    if [ -z "${FILTER:-}" ]; then
        check sanitize/finds-what-is-wrong finds_what_is_wrong
    fi
}

sanitize_with() {
    local tool=$1 tests status
    mkdir -p "$results/$tool"
    tests=$("$here/tests/op_matrix" --list ${FILTER:-} | sed -n 's/: test$//p' | grep -v '^out_of_range::')
    xargs -P "${JOBS:-$(nproc)}" -I{} bash -c 'sanitize_test "$@"' _ "$tool" {} <<<"$tests"
    status=$?
    echo "$(wc -l <<<"$tests") cases, $(cat "$results/$tool"/*.log | grep -c '^========= ERROR SUMMARY: 0\|^========= RACECHECK SUMMARY: 0') without errors"
    return $status
}

sanitize_test() {
    local tool=$1 test=$2 log
    log=$results/$tool/${test//::/-}.log
    CANDLE_ROCM_POOL=0 CANDLE_ROCM_GEMM=own "$sanitizer" --tool "$tool" --error-exitcode 9 --print-limit 20 \
        "$here/tests/op_matrix" --exact "$test" --test-threads 1 >"$log" 2>&1 &&
        ! grep -q 'Internal Sanitizer Error' "$log" && return
    echo "$tool finds in $test:"
    grep -m 12 '^=========\|^Error' "$log"
    return 1
}
export -f sanitize_test

finds_what_is_wrong() {
    local output
    output=$(CANDLE_ROCM_POOL=0 "$sanitizer" --tool memcheck --error-exitcode 9 "$here/tests/stress" --exact \
        overrun::one_element_too_far --ignored --nocapture 2>&1)
    echo "$output"
    grep 'Invalid __global__ write' <<<"$output" || { echo "memcheck did not see a write past the end"; return 1; }
}

parity() {
    local program
    for program in parity stock-parity; do
        [ -x "$here/$program" ] || { missing parity "$program was not built"; return; }
    done
    check parity/stock "$here/stock-parity" record "$results/stock.safetensors"
    check parity/ours "$here/parity" record "$results/ours.safetensors"
    check parity/compare "$here/parity" compare "$results/stock.safetensors" "$results/ours.safetensors"
}

bench() {
    local arguments=(--out "$results/bench.json")
    for program in compare candle-rocm-bench-worker; do
        [ -x "$here/$program" ] || { missing bench "$program was not built"; return; }
    done
    if [ -x "$here/stock-bench-worker" ]; then
        arguments+=(--stock "$here/stock-bench-worker")
    fi
    # Networks and convolutions by the other way: our own kernels, and cuDNN, which may be missing here.
    local ours=$here/candle-rocm-bench-worker-cudnn stock=$here/stock-bench-worker-cudnn
    if [ -x "$ours" ]; then
        arguments+=(--beside "ours-cudnn:$ours")
    fi
    if [ -x "$stock" ] && ! ldd "$stock" | grep -q 'not found'; then
        arguments+=(--beside "stock-cudnn:$stock")
    fi
    if "${PYTHON:-python3}" -c 'import torch' 2>/dev/null; then
        arguments+=(--torch "${PYTHON:-python3}")
    fi
    local further=()
    if [ -n "${BENCH_ARGUMENTS:-}" ]; then
        # xargs takes quotes as a shell does, and runs nothing.
        mapfile -d '' -t further < <(xargs printf '%s\0' <<<"$BENCH_ARGUMENTS")
    fi
    check bench "$here/compare" "${arguments[@]}" "${further[@]}" "$@"
    [ $# -gt 0 ] || products
}

# Our products and row kernels beside the library's and another form.
products() {
    [ -x "$here/gpu_mm" ] || { missing products "gpu_mm was not built"; return; }
    check products "$here/gpu_mm" --out "$results/gpu_mm.md" --json "$results/gpu_mm.json" "$@"
}

# The program for the owner of a GPU, in a minute. It refuses to write over a file.
card() {
    [ -x "$here/candle-rocm-card" ] || { missing card "candle-rocm-card was not built"; return; }
    rm -f "$results/card.json"
    TAIL=60 check card "$here/candle-rocm-card" --short --out "$results/card.json"
}

if command -v nvidia-smi >/dev/null; then
    nvidia-smi --query-gpu=name,driver_version,memory.total,compute_cap --format=csv,noheader
elif ! ldconfig -p | grep -q libcuda.so; then
    echo "no NVIDIA driver: neither nvidia-smi nor libcuda.so was found"
    exit 2
fi
parts=()
while [ $# -gt 0 ] && [ "$1" != -- ]; do
    parts+=("$1")
    shift
done
[ $# -eq 0 ] || shift
if [ $# -gt 0 ] && [ "${parts[*]}" != bench ] && [ "${parts[*]}" != products ]; then
    echo "arguments after -- are for bench alone or products alone"
    exit 2
fi
for part in "${parts[@]:-all}"; do
    case $part in
        all) tests; programs; sanitize; parity; bench; card ;;
        tests | programs | sanitize | parity | card) "$part" ;;
        bench | products) "$part" "$@" ;;
        *) echo "$part: the parts are all, tests, programs, sanitize, parity, bench, products (a part of bench) and card"; exit 2 ;;
    esac
done
if [ ${#failed[@]} -gt 0 ]; then
    echo "FAILED: ${failed[*]}"
    exit 1
fi
echo "all passed; logs and results are in $results"

#!/bin/sh
# Records every case with stock Candle and with ours on GPU 0 of this machine, and compares the two.
# tests/parity/README.md says what it needs. Usage: tests/parity/run.sh [FOLDER for the results, default target/parity]
set -eu
cd "$(dirname "$0")/../.."
results=${1:-target/parity}
mkdir -p "$results"

CUDA_HOME=${CUDA_HOME:-/usr/local/cuda}
export CUDA_HOME CUDA_PATH="$CUDA_HOME" PATH="$CUDA_HOME/bin:$PATH"
for tool in cargo nvcc nvidia-smi; do
    command -v "$tool" >/dev/null || { echo "run.sh: $tool not found (CUDA_HOME is $CUDA_HOME)" >&2; exit 2; }
done
capability=$(nvidia-smi --query-gpu=compute_cap --format=csv,noheader --id=0 | tr -d '. ')
export CUDA_COMPUTE_CAP="$capability"
export LD_LIBRARY_PATH="$CUDA_HOME/lib64:$CUDA_HOME/lib:${LD_LIBRARY_PATH:-}"
export LIBRARY_PATH="$CUDA_HOME/lib64:$CUDA_HOME/lib64/stubs:$CUDA_HOME/lib:${LIBRARY_PATH:-}"

target=${CARGO_TARGET_DIR:-$PWD/target}
cargo build --release --manifest-path stock/Cargo.toml --package stock-parity --target-dir "$target/stock"
CANDLE_ROCM_ARCHS=sm_$capability cargo build --release --package candle-rocm-parity --features nvidia --target-dir "$target"

"$target/stock/release/parity" record "$results/stock.safetensors"
CANDLE_ROCM_RUNTIME=nvidia "$target/release/parity" record "$results/ours.safetensors"
"$target/release/parity" convert "$results/stock.safetensors" "$results/stock.safetensors.zst"
"$target/release/parity" compare "$results/stock.safetensors" "$results/ours.safetensors"

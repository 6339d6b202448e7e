#!/bin/sh
# Records every case with stock Candle and with ours on GPU 0 of this machine, and compares the two.
# tests/parity/README.md says what it needs. Usage: tests/parity/run.sh [FOLDER for the results, default target/parity]
set -eu
repository=$(cd "$(dirname "$0")/../.." && pwd)
results=${1:-$repository/target/parity}
mkdir -p "$results"
results=$(cd "$results" && pwd)
cd "$repository"

CUDA_HOME=${CUDA_HOME:-/usr/local/cuda}
export CUDA_HOME CUDA_PATH="$CUDA_HOME" PATH="$CUDA_HOME/bin:$PATH"
for tool in cargo nvcc nvidia-smi; do
    command -v "$tool" >/dev/null || { echo "run.sh: $tool not found (CUDA_HOME is $CUDA_HOME)" >&2; exit 2; }
done
capability=$(nvidia-smi --query-gpu=compute_cap --format=csv,noheader --id=0 | tr -d '. ')
export CUDA_COMPUTE_CAP="$capability"
export LD_LIBRARY_PATH="$CUDA_HOME/lib64:$CUDA_HOME/lib:${LD_LIBRARY_PATH:-}"
export LIBRARY_PATH="$CUDA_HOME/lib64:$CUDA_HOME/lib64/stubs:$CUDA_HOME/lib:${LIBRARY_PATH:-}"

# Both programs have one name: each is built in the folder of its workspace, whatever CARGO_TARGET_DIR says.
(cd stock && cargo build --release --package stock-parity --target-dir target)
CANDLE_ROCM_ARCHS=sm_$capability cargo build --release --package candle-rocm-parity --features nvidia --target-dir target

stock/target/release/parity record "$results/stock.safetensors"
CANDLE_ROCM_RUNTIME=nvidia target/release/parity record "$results/ours.safetensors"
target/release/parity convert "$results/stock.safetensors" "$results/stock.safetensors.zst"
target/release/parity compare "$results/stock.safetensors" "$results/ours.safetensors"

//! Benchmarks of candle-rocm and its emulator: the programs are in `benches/`.

//! Benchmarks of candle-rocm and its emulator.

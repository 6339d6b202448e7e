//! Benchmarks: candle-rocm beside Candle's own CUDA backend and PyTorch on one GPU, and of the emulator.
//!
//! The program `compare` asks workers, one process each, for the same [`cases`] in turns, so that a drifting clock
//! meets all alike. [`results`] holds the figures, [`page`] shows them. `README.md` says how to run it.

pub mod cases;
pub mod measure;
pub mod page;
pub mod plots;
pub mod reasons;
pub mod results;
pub mod statistics;
pub mod worker;

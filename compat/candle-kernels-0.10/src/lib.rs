//! Candle 0.10's kernel modules, compiled for AMD GPUs: patch it in to run Candle 0.10 on AMD GPUs.
//!
//! They are those of Candle 0.11, whose kernels take the same arguments, and have some more.

pub use newer::*;

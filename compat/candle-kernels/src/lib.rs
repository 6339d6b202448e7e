//! Candle's kernel modules, compiled for AMD GPUs: patch it in to run Candle on AMD GPUs.
//!
//! The modules are [`candle_rocm_kernels`]'; [`ffi`] has the functions that Candle calls by name.

pub use candle_rocm_kernels::candle::*;

pub mod ffi;

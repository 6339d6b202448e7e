//! The C functions of candle-kernels 0.11.1, which launch kernels by themselves: quantised products and
//! mixtures of experts. Here are their signatures; what they do is in [`candle_rocm_runtime::quantized`].
//!
//! Candle calls them without looking for an error, so each that fails leaves one on its stream's GPU, as a
//! kernel that fails does; the next call of the runtime (allocating, launching, copying, synchronising)
//! returns it, and it names the function.
#![allow(non_snake_case, clippy::too_many_arguments)]

pub mod mmq;
pub mod mmvq;
pub mod moe;

pub use mmq::*;
pub use mmvq::*;
pub use moe::*;

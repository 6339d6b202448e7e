//! Every operator x dtype x layout on the device, against its definition: in f64, or in wrapping integers.
//!
//! The truth is Candle's CPU backend on the same numbers in f64 (i64 for integers), or a formula where the CPU has no
//! such operator. [`inputs`] has the dtypes and layouts, [`compare`] the tolerances.

mod casts;
mod compare;
mod convolution;
mod elementwise;
mod fill;
mod indexing;
mod inputs;
mod joining;
mod matmul;
mod out_of_range;
mod reduction;
mod rows;
mod sorting;

//! Our matrix products beside the vendor's library on one GPU, and row kernels in two forms of reduction.
//!
//! The program `gpu_mm` measures always the same [`problems`] and writes a page and a file of figures.

pub mod element;
pub mod few;
pub mod page;
pub mod problems;
pub mod products;
pub mod quantized;
pub mod rows;
mod timing;

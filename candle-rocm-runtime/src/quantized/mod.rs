//! Products of quantised matrices, as Candle asks for them by C functions and operators of ours by name.
//!
//! Formats are those of [`candle_rocm_kernels::gguf`]. Each product reads vectors that were quantised first:
//!
//! | what | kernels | vectors |
//! |---|---|---|
//! | [`multiply_vectors`]: up to eight vectors | `mmvq` | [`quantize_vectors`] |
//! | [`chained`]: one vector, which leaves the next one | `chained` | the same |
//! | [`multiply_matrices`]: any number | `mmq`, or where there are many `upcast` and then [`gemm`](crate::gemm) | [`quantize_matrices`] |
//! | [`experts`]: each token by matrices of its own | `moe` | none: f32, f16 or bf16 |
//!
//! Arguments that come from C have the names of the C functions' parameters, which errors name. They are checked: counts, null
//! pointers, alignments, strides. What lies behind the addresses is the promise of the caller.

mod activations;
mod arguments;
pub mod chained;
pub mod experts;
mod launches;
mod matrices;
mod matrix_product;
mod routing;
mod strips;
mod upcast;
mod vectors;

pub use activations::{quantize_matrices, quantize_vectors, FloatType, Matrices, Vectors};
pub use matrices::multiply_matrices;
pub use matrix_product::MatrixProduct;
pub use routing::{align, Alignment};
pub use vectors::{multiply_vectors, VectorProduct};

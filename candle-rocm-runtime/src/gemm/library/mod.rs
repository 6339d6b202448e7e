//! Matrix products by the vendor's library, found at run time: cuBLAS on NVIDIA GPUs, rocBLAS on AMD's.
//!
//! `CANDLE_ROCM_GEMM` says who multiplies: `own`, our kernels; `library`, the vendor's, which must then be there;
//! `auto`, the default, the vendor's where it is known to be a gain and can be loaded, else ours. A product that the
//! library does not support is ours in any case, and so is one of integers, or without a sum (k or alpha is 0). With
//! timings (see [`tune`](super::tune)) `auto` loads the library wherever there is one, and takes the faster for each shape.
//!
//! hipBLASLt multiplies for cuBLASLt's shape ([`blas_lt`](crate::blas_lt)) where the library is chosen and hipBLASLt can be
//! loaded; what it does not support, and all of it where it is not there, is multiplied as other products are.
//!
//! A handle belongs to one stream at a time, so that the workspace behind it is used in that stream's order, and is
//! locked while a product is given to it. One whose stream or thread is gone waits for the next that needs one.

mod cublas;
pub(super) mod handles;
pub(crate) mod hipblaslt;
pub(super) mod product;
mod rocblas;
mod search;
pub(crate) mod selection;
mod vendor;

pub use super::choice::{GemmChoice, GEMM_VARIABLE, LIBRARY_VARIABLE, LT_LIBRARY_VARIABLE};
pub use handles::Library;
pub use selection::{describe, examine};

//! cuBLASLt's shape over [`crate::gemm`]: products described by objects, with a bias and an activation.
//!
//! The objects are opaque, as cuBLASLt's are, and hold what was said of them; nothing is chosen before the product
//! itself. `Relu`, which no product of ours ends with, is a pass over C of its own. Where the vendor's library multiplies by
//! choice, hipBLASLt is asked first, which does it all at once ([`crate::gemm::library`]).

mod described;
mod product;
pub mod result;
mod safe;
pub mod sys;

pub use safe::{Activation, BlasLt, Matmul, MatmulConfig, MatmulShared, Workspace};

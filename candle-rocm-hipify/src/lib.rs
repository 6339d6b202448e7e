//! Which CUDA sources compile for which AMD GPU, and why others do not; and HIP made of them.
//!
//! - [`report`]: sources tried, file by file and GPU by GPU.
//! - [`reason`]: what the compiler says, sorted into what a reader can act on.
//! - [`hip`]: HIP's names in place of CUDA's, for those who want to leave CUDA.

pub mod hip;
pub mod reason;
pub mod report;

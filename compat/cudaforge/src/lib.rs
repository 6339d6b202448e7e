//! cudaforge 0.1.6's API, for AMD GPUs: see README.md.

mod builder;
mod compute_cap;
mod dependency;
mod error;
mod parallel;
mod source;
mod toolkit;

pub use builder::{KernelBuilder, PtxOutput};
pub use compute_cap::{detect_compute_cap, get_gpu_arch_string, ComputeCapability, GpuArch};
pub use dependency::{resolve_cutlass_from_cargo_checkouts, DependencyManager, ExternalDependency};
pub use error::{Error, Result};
pub use parallel::ParallelConfig;
pub use source::{collect_headers, SourceSelector};
pub use toolkit::CudaToolkit;

/// The builder's other name.
pub type Builder = KernelBuilder;
/// The output's other name.
pub type Bindings = PtxOutput;

//! Matrix products in cuBLAS's terms: column-major, strided batches, by the vendor's library or our own
//! kernels, with what follows a product done on the way to memory.
//!
//! [`gemm_with_epilogue`] checks a [`GemmProblem`] and its [`Epilogue`]; where [`library`] is not chosen, `candidates`
//! finds a [`plan`], a kernel and a grid, by the estimates of `cost` (or by the timings of [`tune`], if they are asked
//! for), and `prepared` finds its kernels, makes their `arguments` and gives them to the stream. `ways` keeps all this for the
//! next product of the shape, in which only addresses and factors are new. The kernels are
//!
//! | kernels | for |
//! |---|---|
//! | `matmul_*` | matrix units: f16, bf16 and i8 on every AMD GPU (dot products where it has none), f32 and f64 on CDNA |
//! | `skinny_*` | up to 16 columns or rows |
//! | `gemm_*` | vector units: everything else, f32 and f64 on RDNA among it |
//!
//! Our own sums are f32 for f16, bf16 and f32, f64 for f64, and i32 for i8: where cuBLAS was asked for sums in f16
//! (`CUBLAS_COMPUTE_16F`) ours are more precise. Where C has too few tiles to fill the GPU, k is divided and the splits' sums
//! are added afterwards, in their order. The order of summation depends on shapes and device alone (and on the timings, where
//! those choose), so that equal inputs give equal bits.

mod arguments;
mod candidates;
mod choice;
mod cost;
mod epilogue;
mod kernel;
pub mod library;
pub(crate) mod multiply;
mod pass;
pub mod plan;
mod prepared;
pub(crate) mod problem;
mod product;
pub(crate) mod split_k_workspace;
pub mod tune;
mod ways;

pub use crate::plan::gpu::Gpu;
pub use arguments::{Arguments, MatmulArguments};
pub use candle_rocm_kernels::order::{Divisor, TileOrder};
pub(crate) use choice::timings_choose;
pub use epilogue::{Activation, Epilogue, Residual};
pub use multiply::{gemm_strided_batched, gemm_with_epilogue};
pub use prepared::launch_plan;
pub use problem::{GemmDtype, GemmProblem, Transpose};
pub use product::{Operand, Product, ProductEpilogue};

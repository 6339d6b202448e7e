//! Matrix products in cuBLAS's terms: column-major, strided batches, by the vendor's library or our own
//! kernels.
//!
//! [`gemm_strided_batched`] checks a [`GemmProblem`]; where [`library`] is not chosen, [`plan`] chooses a kernel
//! and a grid for it, and `launch` gives it to the stream. Our own sums are f32 for f16, bf16 and f32, and f64 for f64: where
//! cuBLAS was asked for sums in f16 (`CUBLAS_COMPUTE_16F`) ours are more precise. The order of
//! summation depends on shapes and device alone, so that equal inputs give equal bits.

mod launch;
pub mod library;
pub mod plan;
mod problem;

pub use problem::{GemmDtype, GemmProblem, Transpose};

use crate::error::Result;
use crate::stream::Stream;

/// Gives the products to the stream.
///
/// As in cuBLAS, A and B are not read if `alpha` or `k` is 0, and C is not read if `beta` is 0, so that
/// NaNs there do not spread.
///
/// # Safety
/// The addresses are those of device memory that holds the matrices as described; C overlaps neither A
/// nor B.
///
/// # Errors
/// [`GemmProblem::check`]'s; the library that was asked for is not there, or fails; the module is not embedded
/// for this device; HIP refuses the launch. Each names the problem.
pub unsafe fn gemm_strided_batched(stream: &Stream, problem: &GemmProblem) -> Result<()> {
    problem.check()?;
    if problem.is_empty() {
        return Ok(());
    }
    if problem.has_sum() && problem.fits_c_ints() {
        let computed = library::of(stream.context().device()).and_then(|library| match library {
            // SAFETY: the caller's promise.
            Some(library) => unsafe { library.gemm(stream, problem) },
            None => Ok(false),
        });
        if computed.map_err(|error| error.context(problem))? {
            return Ok(());
        }
    }
    let compute_units = stream.context().device().info().compute_units;
    let Some(plan) = plan::Plan::new(problem, compute_units) else {
        return Ok(());
    };
    // SAFETY: the caller's promise, and the plan covers just these matrices.
    unsafe { launch_plan(stream, &plan) }.map_err(|error| error.context(problem))
}

pub use launch::launch_plan;

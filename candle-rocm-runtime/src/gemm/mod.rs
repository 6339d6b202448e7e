//! Matrix products in cuBLAS's terms: column-major, strided batches, by the vendor's library or our own
//! kernels, with what follows a product done on the way to memory.
//!
//! [`gemm_with_epilogue`] checks a [`GemmProblem`] and its [`Epilogue`]; where [`library`] is not chosen, [`plan`]
//! chooses a kernel and a grid by the estimates of `hardware` (or by the timings of [`tune`], if they are asked for), and
//! `launch` gives it to the stream. The kernels are
//!
//! | kernels | for |
//! |---|---|
//! | `matmul_*` | matrix units: f16, bf16 and i8 on every AMD GPU (dot products where it has none), f32 and f64 on CDNA |
//! | `gemv_*` | up to 8 columns or rows, up to 16 where there are no `matmul` kernels |
//! | `gemm_*` | vector units: everything else, f32 and f64 on RDNA among it |
//!
//! Our own sums are f32 for f16, bf16 and f32, f64 for f64, and i32 for i8: where cuBLAS was asked for sums in f16
//! (`CUBLAS_COMPUTE_16F`) ours are more precise. Where C has too few tiles to fill the GPU, k is divided and the parts'
//! sums are added afterwards, in their order. The order of summation depends on shapes and device alone (and on the
//! timings, where those choose), so that equal inputs give equal bits.

mod epilogue;
mod hardware;
mod launch;
pub mod library;
pub mod plan;
mod problem;
mod product;
pub mod tune;

pub use epilogue::{Activation, Epilogue, Residual};
pub use hardware::Gpu;
pub use launch::launch_plan;
pub use problem::{GemmDtype, GemmProblem, Transpose};
pub use product::{Operand, Product, ProductEpilogue};

use crate::base::error::{Error, Result};
use crate::stream::queue::Stream;
use library::Library;
use plan::Plan;
use tune::Choice;

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
/// for this device; no kernel multiplies the type on this device; HIP refuses the launch; there is no memory for
/// partial sums. Each names the problem.
pub unsafe fn gemm_strided_batched(stream: &Stream, problem: &GemmProblem) -> Result<()> {
    // SAFETY: the caller's promise.
    unsafe { gemm_with_epilogue(stream, problem, &Epilogue::default()) }
}

/// Gives the products to the stream, and what follows them: `activation(alpha * sum + beta * C + bias) + residual`.
///
/// # Safety
/// As [`gemm_strided_batched`], and the bias and residual are device memory as described, which C does not overlap.
///
/// # Errors
/// As [`gemm_strided_batched`], and [`Epilogue::check`]'s.
pub unsafe fn gemm_with_epilogue(
    stream: &Stream,
    problem: &GemmProblem,
    epilogue: &Epilogue,
) -> Result<()> {
    problem.check()?;
    epilogue.check(problem)?;
    if problem.is_empty() {
        return Ok(());
    }
    // SAFETY: the caller's promise.
    unsafe { multiply(stream, problem, epilogue) }.map_err(|error| error.context(problem))
}

/// # Safety
/// As [`gemm_with_epilogue`].
unsafe fn multiply(stream: &Stream, problem: &GemmProblem, epilogue: &Epilogue) -> Result<()> {
    let device = stream.context().device();
    let mut library = None;
    let mut choice = None;
    if problem.has_sum() {
        if problem.fits_c_ints() && problem.dtype != GemmDtype::I8 {
            library = library::of(device)?;
        }
        if let Some(tuner) = tune::of(device)? {
            // SAFETY: the caller's promise.
            choice = unsafe { tuner.choose(stream, problem, epilogue, library) }?;
        }
    }
    let plan = match choice {
        Some(Choice::Own(plan)) => Some(plan),
        Some(Choice::Library) => None,
        None => {
            library = library.filter(|library| library.is_default());
            None
        }
    };
    if let (None, Some(library)) = (&plan, library) {
        // SAFETY: the caller's promise.
        if unsafe { multiply_by(library, stream, problem, epilogue) }? {
            return Ok(());
        }
    }
    let gpu = Gpu::from(device.info());
    let plan = plan.or_else(|| Plan::new(problem, epilogue, gpu));
    let Some(plan) = plan else {
        return Err(Error::unsupported(format!(
            "there are no kernels for {} on {}",
            problem.dtype.name(),
            gpu.arch
        )));
    };
    // SAFETY: the caller's promise, and the plan covers just these matrices.
    unsafe { launch_plan(stream, &plan) }
}

/// The product by the library and the epilogue after it; false if the library does not support it.
///
/// # Safety
/// As [`gemm_with_epilogue`].
unsafe fn multiply_by(
    library: &Library,
    stream: &Stream,
    problem: &GemmProblem,
    epilogue: &Epilogue,
) -> Result<bool> {
    // SAFETY: the caller's promise.
    let supported = unsafe { library.gemm(stream, problem) }?;
    if supported && !epilogue.is_none() {
        // SAFETY: as above.
        unsafe { launch::finish_problem(stream, problem, epilogue) }?;
    }
    Ok(supported)
}

//! Matrix products, by whichever way is chosen for each.

use candle_rocm_kernels::few;

use super::choice::GemmChoice;
use super::epilogue::Epilogue;
use super::hardware::Gpu;
use super::kernel::Kernel;
use super::launch::launch_plan;
use super::library::product::multiply_by;
use super::library::selection;
use super::plan::Plan;
use super::problem::{GemmDtype, GemmProblem};
use super::tune::tuner::{self, Choice};
use crate::base::error::{Error, Result};
use crate::stream::queue::Stream;

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
    let gpu = Gpu::from(device.info());
    let mut library = None;
    let mut choice = None;
    if problem.has_sum() {
        if problem.fits_c_ints() && problem.dtype != GemmDtype::I8 {
            library = selection::of(device)?;
        }
        if let Some(tuner) = tuner::of(device)? {
            // SAFETY: the caller's promise.
            choice = unsafe { tuner.choose(stream, problem, epilogue, library) }?;
        }
    }
    let plan = match choice {
        Some(Choice::Own(plan)) => Some(plan),
        Some(Choice::Library) => None,
        None => {
            library = library.filter(|library| library.is_default());
            match library {
                Some(_) => in_one_launch(problem, epilogue, gpu)?,
                None => None,
            }
        }
    };
    if let (None, Some(library)) = (&plan, library) {
        // SAFETY: the caller's promise.
        if unsafe { multiply_by(library, stream, problem, epilogue) }? {
            return Ok(());
        }
    }
    let plan = plan.or_else(|| Plan::new(problem, epilogue, gpu));
    let Some(plan) = plan else {
        return Err(Error::unsupported(format!(
            "there are no kernels for {} on {}",
            problem.dtype.name(),
            device.info().arch
        )));
    };
    // SAFETY: the caller's promise, and the plan covers just these matrices.
    unsafe { launch_plan(stream, &plan) }
}

/// Our own plan where a library is only the default, and would be followed by a launch of what comes after the product:
/// few columns take about as long as that.
fn in_one_launch(problem: &GemmProblem, epilogue: &Epilogue, gpu: Gpu) -> Result<Option<Plan>> {
    let columns = few::columns(gpu.processor, problem.dtype.of_kernels(), false);
    let most = columns.last().map_or(0, |&columns| columns as usize);
    let are_few = problem.m.min(problem.n) <= most;
    if epilogue.is_none() || !are_few || GemmChoice::current()? != GemmChoice::Auto {
        return Ok(None);
    }
    let plan = Plan::new(problem, epilogue, gpu);
    Ok(plan.filter(|plan| matches!(plan.kernel, Kernel::Few(_)) && plan.parts == 1))
}

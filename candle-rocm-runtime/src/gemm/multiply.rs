//! Matrix products, by whichever way is chosen for each.

use std::sync::OnceLock;

use candle_rocm_kernels::skinny;

use super::choice::GemmChoice;
use super::epilogue::Epilogue;
use super::kernel::Kernel;
use super::library::product::multiply_by;
use super::library::selection;
use super::plan::Plan;
use super::prepared::Prepared;
use super::problem::{GemmDtype, GemmProblem};
use super::product::Values;
use super::tune::tuner::{self, Choice};
use super::ways::{Key, Way, WAYS};
use crate::base::error::{Error, Result};
use crate::plan::cache::Found;
use crate::plan::gpu::Gpu;
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
    let device = stream.context().device();
    let key = Key::of(problem, epilogue);
    let kept_way = WAYS.get(device, &key);
    // A problem whose key is kept passed its checks, but for what they ask of factors of integers and of addresses that follow.
    if kept_way.is_none() || problem.dtype == GemmDtype::I8 || !epilogue.is_none() {
        problem.check()?;
        epilogue.check(problem)?;
    }
    if problem.is_empty() {
        return Ok(());
    }
    let multiply = || {
        let way = match kept_way {
            Some(way) => way,
            None => {
                // SAFETY: the caller's promise.
                let (way, is_final) = unsafe { find_way(stream, problem, epilogue) }?;
                match is_final {
                    true => WAYS.keep(device, key, way),
                    false => Found::alone(way),
                }
            }
        };
        // SAFETY: the caller's promise.
        unsafe { multiply_by_way(stream, problem, epilogue, &way) }
    };
    multiply().map_err(|error: Error| error.context(problem))
}

/// # Safety
/// As [`gemm_with_epilogue`].
unsafe fn multiply_by_way(
    stream: &Stream,
    problem: &GemmProblem,
    epilogue: &Epilogue,
    way: &Way,
) -> Result<()> {
    if let Some(library) = way.library {
        // SAFETY: the caller's promise.
        if unsafe { multiply_by(library, stream, problem, epilogue) }? {
            return Ok(());
        }
    }
    let own = match way.own.get() {
        Some(own) => own,
        None => {
            let own = prepare(stream, way.plan, problem, epilogue)?;
            way.own.get_or_init(|| own)
        }
    };
    // SAFETY: the caller's promise, and the plan covers matrices like these.
    unsafe { own.launch(stream, &Values::of(problem, epilogue)) }
}

/// The way to compute a problem, and whether another like it is computed the same way: not if timings will choose.
///
/// # Safety
/// As [`gemm_with_epilogue`].
unsafe fn find_way(
    stream: &Stream,
    problem: &GemmProblem,
    epilogue: &Epilogue,
) -> Result<(Way, bool)> {
    let device = stream.context().device();
    let way = |library, plan| Way {
        library,
        plan,
        own: OnceLock::new(),
    };
    if !problem.has_sum() {
        return Ok((way(None, None), true));
    }
    let library = match problem.fits_c_ints() && problem.dtype != GemmDtype::I8 {
        true => selection::of(device)?,
        false => None,
    };
    let mut is_final = true;
    if let Some(tuner) = tuner::of(device)? {
        // SAFETY: the caller's promise.
        match unsafe { tuner.choose(stream, problem, epilogue, library) }? {
            Some(Choice::Own(plan)) => return Ok((way(None, Some(plan)), true)),
            Some(Choice::Library) => return Ok((way(library, None), true)),
            Some(Choice::Untimed) => {}
            None => is_final = false,
        }
    }
    let library = library.filter(|library| library.is_default());
    let plan = match library {
        Some(_) => in_one_launch(problem, epilogue, Gpu::from(device.info()))?,
        None => None,
    };
    let library = library.filter(|_| plan.is_none());
    Ok((way(library, plan), is_final))
}

/// Our own kernels for a problem, by this plan or the best.
fn prepare(
    stream: &Stream,
    plan: Option<Plan>,
    problem: &GemmProblem,
    epilogue: &Epilogue,
) -> Result<Prepared> {
    let gpu = Gpu::from(stream.context().info());
    let plan = plan.or_else(|| Plan::new(problem, epilogue, gpu));
    let prepared = match plan {
        Some(plan) => Prepared::new(stream.context(), plan)?,
        None => None,
    };
    prepared.ok_or_else(|| {
        Error::unsupported(format!(
            "there are no kernels for {} on {}",
            problem.dtype.name(),
            stream.context().info().arch
        ))
    })
}

/// Our own plan where a library is only the default, and would be followed by a launch of what comes after the product:
/// few columns take about as long as that.
fn in_one_launch(problem: &GemmProblem, epilogue: &Epilogue, gpu: Gpu) -> Result<Option<Plan>> {
    let columns = skinny::columns(gpu.processor, problem.dtype.of_kernels(), false);
    let most = columns.last().map_or(0, |&columns| columns as usize);
    let are_skinny = problem.m.min(problem.n) <= most;
    if epilogue.is_none() || !are_skinny || GemmChoice::current()? != GemmChoice::Auto {
        return Ok(None);
    }
    let plan = Plan::new(problem, epilogue, gpu);
    Ok(plan.filter(|plan| matches!(plan.kernel, Kernel::Skinny(_)) && plan.splits == 1))
}

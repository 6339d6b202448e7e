//! Timing a product.

use crate::base::cuda_names::CUevent_flags;
use crate::base::error::Result;
use crate::base::hip::types::MEMCPY_DEVICE_TO_DEVICE;
use crate::gemm::problem::GemmProblem;
use crate::memory::workspace::Workspace;
use crate::stream::queue::Stream;

/// Microseconds that the runs between two events should take, and how many they are at most.
const TIMED: f32 = 2000.0;
const MOST_RUNS: f32 = 20.0;
/// Timings of a plan, of which the least counts.
const TIMINGS: usize = 3;

/// Memory like C's, with its content if that is read, and the problem that writes there; none if there is not enough.
pub(super) fn on_a_copy<'a>(
    stream: &'a Stream,
    problem: &GemmProblem,
) -> Result<Option<(Workspace<'a>, GemmProblem)>> {
    const ALIGNMENT: u64 = 256;
    let bytes = problem.dtype.output_bytes() as i128;
    let last = (problem.batch - 1) as i128 * i128::from(problem.stride_c);
    let matrix = (problem.n - 1) as i128 * problem.ldc as i128 + problem.m as i128;
    // Checked: both fit an address space.
    let before = (-last.min(0) * bytes) as u64;
    let extent = before + ((last.max(0) + matrix) * bytes) as u64;
    let source = problem.c - before;
    let Ok(copy) = Workspace::new(stream, extent + ALIGNMENT) else {
        tracing::debug!(%problem, "no memory to time this product");
        return Ok(None);
    };
    // As C lies.
    let start = copy.address().next_multiple_of(ALIGNMENT) + source % ALIGNMENT;
    let start = match start + extent <= copy.address() + extent + ALIGNMENT {
        true => start,
        false => start - ALIGNMENT,
    };
    if problem.beta != 0.0 {
        stream.enter()?;
        let hip = stream.context().device().hip();
        // SAFETY: C has so many bytes, and so has its copy.
        let status = unsafe {
            (hip.hipMemcpyAsync)(
                start as *mut _,
                source as *const _,
                extent as usize,
                MEMCPY_DEVICE_TO_DEVICE,
                stream.raw(),
            )
        };
        hip.check(status, || "copying C to time its product")?;
    }
    let problem = GemmProblem {
        c: start + before,
        ..*problem
    };
    Ok(Some((copy, problem)))
}

/// Microseconds of a run, if it can be done at all; the first alone if that is far from the least so far.
pub(super) fn time(
    stream: &Stream,
    least: f32,
    run: &mut dyn FnMut() -> Result<bool>,
) -> Result<Option<f32>> {
    // Loads what the launch needs.
    if !run()? {
        return Ok(None);
    }
    let context = stream.context();
    let mut timed = |runs: usize| -> Result<f32> {
        let begin = context.new_event(Some(CUevent_flags::CU_EVENT_DEFAULT))?;
        let end = context.new_event(Some(CUevent_flags::CU_EVENT_DEFAULT))?;
        begin.record(stream)?;
        for _ in 0..runs {
            run()?;
        }
        end.record(stream)?;
        Ok(begin.elapsed_ms(&end)? * 1000.0 / runs as f32)
    };
    let mut fastest = timed(1)?;
    if fastest > 4.0 * least {
        return Ok(Some(fastest));
    }
    let runs = (TIMED / fastest.max(1.0)).clamp(1.0, MOST_RUNS) as usize;
    for _ in 0..TIMINGS {
        fastest = fastest.min(timed(runs)?);
    }
    Ok(Some(fastest))
}

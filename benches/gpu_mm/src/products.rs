//! One product: by our kernels and by the vendor's library, timed, and held to sums in f64.

use std::sync::Arc;

use anyhow::{ensure, Result};
use candle_rocm_runtime::gemm::plan::Plan;
use candle_rocm_runtime::gemm::{
    gemm_strided_batched, launch_plan, Epilogue, GemmDtype, GemmProblem, Gpu, Transpose,
};
use candle_rocm_runtime::{DeviceBuffer, DevicePtr, DevicePtrMut, Stream};

use crate::element;
use crate::problems::Problem;
use crate::timing::microseconds;

/// Copies of A take turns until they fill this, so that a small layer's weights come from memory, as in a model.
const ROTATE_BYTES: usize = 128 << 20;
/// Products of so many multiply-adds are checked in full.
const CHECKED_IN_FULL: usize = 1 << 24;
/// Of others so many rows and columns of C, all elements where they meet.
const SAMPLED: usize = 16;

/// What came of a product.
#[derive(Clone, Debug, serde::Serialize)]
pub struct Outcome {
    /// Our kernel.
    pub kernel: String,
    /// Microseconds by it.
    pub own_us: Option<f64>,
    /// Microseconds by the vendor's library.
    pub library_us: Option<f64>,
    /// Largest error of ours: |found - exact| / (sum of |a * b|) over the elements that were checked.
    pub own_error: f64,
    /// Largest error of the library's.
    pub library_error: Option<f64>,
    /// Why there is no figure.
    pub note: Option<String>,
    /// What came of every plan of ours, if that was asked for.
    pub plans: Vec<PlanOutcome>,
}

/// What came of one plan of ours.
#[derive(Clone, Debug, serde::Serialize)]
pub struct PlanOutcome {
    /// Its kernel, and splits of k.
    pub plan: String,
    /// Microseconds.
    pub us: Option<f64>,
    /// Largest error.
    pub error: f64,
}

/// What to measure of a product.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Measure {
    /// Times; else errors alone.
    pub times: bool,
    /// Each plan that our kernels have for it, not only the one that would run.
    pub every_plan: bool,
}

/// The largest error that roundings can make of a product with so many terms, in the measure of [`Outcome::own_error`]: the
/// result's own, and a step of the sum's type for each term, which mostly cancel. Integers are exact.
pub fn tolerance(dtype: GemmDtype, terms: usize) -> f64 {
    let sums = (terms as f64).sqrt() * 4.0 * f64::from(f32::EPSILON);
    match dtype {
        GemmDtype::F16 => sums + 1.0 / 2048.0,
        GemmDtype::BF16 => sums + 1.0 / 256.0,
        GemmDtype::F32 | GemmDtype::F16ToF32 | GemmDtype::BF16ToF32 => sums,
        GemmDtype::F64 => (terms as f64).sqrt() * 4.0 * f64::EPSILON,
        GemmDtype::I8 => 0.0,
    }
}

/// Largest |found - exact| / sum of |a * b| over the elements that were checked: the sum is what rounding errors grow with.
struct Errors<'a> {
    problem: &'a Problem,
    a: &'a [u8],
    b: &'a [u8],
}

impl Errors<'_> {
    fn largest(&self, c: &[u8]) -> f64 {
        let Problem {
            dtype,
            m,
            n,
            k,
            ops,
            ..
        } = *self.problem;
        let places = |size: usize| -> Vec<usize> {
            if m * n * k <= CHECKED_IN_FULL || size <= SAMPLED {
                return (0..size).collect();
            }
            // The first and the last, and some in between that no tile's size divides.
            (0..SAMPLED)
                .map(|i| i * (size - 1) / (SAMPLED - 1))
                .collect()
        };
        let index = |op, ld: [usize; 2], row, column| match op {
            Transpose::No => column * ld[0] + row,
            Transpose::Yes => row * ld[1] + column,
        };
        let mut largest = 0.0f64;
        for row in places(m) {
            for column in places(n) {
                let (mut exact, mut size) = (0.0, 0.0f64);
                for i in 0..k {
                    let a = element::operand(dtype, self.a, index(ops[0], [m, k], row, i));
                    let b = element::operand(dtype, self.b, index(ops[1], [k, n], i, column));
                    exact += a * b;
                    size += (a * b).abs();
                }
                let found = element::result(dtype, c, column * m + row);
                let error = (found - exact).abs() / size.max(f64::MIN_POSITIVE);
                // NaN is the largest error of all.
                largest = if error.is_nan() {
                    f64::INFINITY
                } else {
                    largest.max(error)
                };
            }
        }
        largest
    }
}

fn gemm(problem: &Problem, a: u64, b: u64, c: u64) -> GemmProblem {
    let Problem {
        dtype,
        m,
        n,
        k,
        ops,
        ..
    } = *problem;
    GemmProblem::packed(dtype, ops, [m, n, k], [a, b, c])
}

fn address(buffer: &DeviceBuffer<u8>, stream: &Stream) -> u64 {
    buffer.device_ptr(stream).0
}

/// Multiply with our kernels, and with the library unless `library` says why not; none if we have no kernel.
///
/// # Errors
/// A launch fails, or there is no memory for the matrices.
pub fn measure(
    stream: &Arc<Stream>,
    problem: &Problem,
    library: Result<(), &str>,
    measure: Measure,
) -> Result<Option<Outcome>> {
    let gpu = Gpu::from(stream.context().info());
    let none = Epilogue::default();
    if Plan::new(&gemm(problem, 0, 0, 0), &none, gpu).is_none() {
        return Ok(None);
    }
    let mut matrices = Matrices::new(stream, problem, measure.times)?;
    let problems = matrices.problems();
    let chosen: Vec<Plan> = problems
        .iter()
        .filter_map(|problem| Plan::new(problem, &none, gpu))
        .collect();
    let own = matrices.by_plan(&chosen)?;
    let mut plans = Vec::new();
    if measure.every_plan {
        let all: Vec<Vec<Plan>> = problems
            .iter()
            .map(|problem| Plan::candidates(problem, &none, gpu))
            .collect();
        for number in 0..all[0].len() {
            let of_each = all.iter().filter_map(|plans| plans.get(number).copied());
            plans.push(matrices.by_plan(&of_each.collect::<Vec<_>>())?);
        }
    }
    let own_error = plans.iter().map(|plan| plan.error);
    let mut outcome = Outcome {
        kernel: chosen[0].kernel.name(problem.dtype),
        own_us: own.us,
        library_us: None,
        own_error: own_error.fold(own.error, f64::max),
        library_error: None,
        note: None,
        plans,
    };
    let library = match problem.dtype {
        GemmDtype::I8 => Err("the library is not asked for i8"),
        _ => library,
    };
    match library {
        Err(why) => outcome.note = Some(why.to_owned()),
        Ok(()) => {
            // SAFETY: the matrices are buffers that live until the stream was waited for.
            let vendor = |turn: usize| unsafe {
                gemm_strided_batched(stream, &problems[turn % problems.len()])
            };
            let (error, us) = matrices.by(&vendor)?;
            (outcome.library_error, outcome.library_us) = (Some(error), us);
        }
    }
    stream.synchronize()?;
    Ok(Some(outcome))
}

/// A product's matrices, here and on the GPU.
struct Matrices<'a> {
    stream: &'a Arc<Stream>,
    problem: &'a Problem,
    times: bool,
    a: Vec<u8>,
    b: Vec<u8>,
    /// Copies that take turns.
    a_on_gpu: Vec<DeviceBuffer<u8>>,
    b_on_gpu: DeviceBuffer<u8>,
    c: DeviceBuffer<u8>,
}

impl<'a> Matrices<'a> {
    fn new(stream: &'a Arc<Stream>, problem: &'a Problem, times: bool) -> Result<Self> {
        let Problem { dtype, m, n, k, .. } = *problem;
        let (a, b) = (
            element::random(dtype, 1, m * k),
            element::random(dtype, 2, k * n),
        );
        let copies = if times {
            ROTATE_BYTES.div_ceil(a.len()).clamp(1, 64)
        } else {
            1
        };
        Ok(Self {
            stream,
            problem,
            times,
            a_on_gpu: (0..copies)
                .map(|_| Ok(stream.clone_htod(&a)?))
                .collect::<Result<_>>()?,
            b_on_gpu: stream.clone_htod(&b)?,
            c: stream.alloc_zeros::<u8>(m * n * dtype.output_bytes())?,
            a,
            b,
        })
    }

    /// One for each copy.
    fn problems(&mut self) -> Vec<GemmProblem> {
        let stream = self.stream;
        let c = self.c.device_ptr_mut(stream).0;
        let b = address(&self.b_on_gpu, stream);
        let of = |a| gemm(self.problem, address(a, stream), b, c);
        self.a_on_gpu.iter().map(of).collect()
    }

    /// By one of our plans: for each copy its own.
    fn by_plan(&mut self, plans: &[Plan]) -> Result<PlanOutcome> {
        let stream = self.stream;
        ensure!(
            plans.len() == self.a_on_gpu.len(),
            "plans depend on addresses"
        );
        // SAFETY: the matrices are buffers that live until the stream was waited for.
        let run = |turn: usize| unsafe { launch_plan(stream, &plans[turn % plans.len()]) };
        let (error, us) = self.by(&run)?;
        Ok(PlanOutcome {
            plan: plans[0].description(),
            error,
            us,
        })
    }

    /// The largest error of what `run` does to C, and its time, if that is asked for.
    fn by(
        &mut self,
        run: &dyn Fn(usize) -> candle_rocm_runtime::Result<()>,
    ) -> Result<(f64, Option<f64>)> {
        self.stream.memset_zeros(&mut self.c)?;
        run(0)?;
        let errors = Errors {
            problem: self.problem,
            a: &self.a,
            b: &self.b,
        };
        let error = errors.largest(&self.stream.clone_dtoh(&self.c)?);
        let us = match self.times {
            true => Some(microseconds(self.stream, |turn| Ok(run(turn)?))?),
            false => None,
        };
        Ok((error, us))
    }
}

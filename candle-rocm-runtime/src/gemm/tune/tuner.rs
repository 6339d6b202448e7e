//! The choices of one GPU.

use std::collections::HashMap;
use std::sync::Arc;

use foldhash::fast::RandomState;
use parking_lot::{Mutex, RwLock};

use super::results::{results_path, ResultsFile, FILE_VARIABLE};
use super::shape::{rounded, Shape};
use super::timing::{on_a_copy, time};
use crate::base::error::{Error, ErrorKind, Result};
use crate::device::gpu::Device;
use crate::device::per_device::PerDevice;
use crate::gemm::choice::{timings_choose, Tuning, TUNE_VARIABLE};
use crate::gemm::epilogue::Epilogue;
use crate::gemm::kernel::Kernel;
use crate::gemm::library::handles::Library;
use crate::gemm::library::product::multiply_by;
use crate::gemm::library::selection;
use crate::gemm::plan::Plan;
use crate::gemm::prepared::launch_plan;
use crate::gemm::problem::{GemmDtype, GemmProblem};
use crate::plan::gpu::Gpu;
use crate::stream::queue::Stream;

/// Products of fewer multiply-adds are over before the next one is launched, whoever computes them.
const LEAST_WORK: u128 = 1 << 17;
/// Plans that are timed for a shape: the most promising.
const MOST_PLANS: usize = 16;

/// The tuner of each GPU, made at its first matrix product, if any are timed.
static TUNERS: PerDevice<Result<Tuner>> = PerDevice::new();

/// Who computes a product.
// It is returned and taken apart at once: a box would be an allocation for each product.
#[allow(clippy::large_enum_variant)]
#[derive(Clone, Copy, Debug, PartialEq)]
pub(in crate::gemm) enum Choice {
    Library,
    Own(Plan),
    /// Whoever does without timings, as nothing was worth timing, or what was fastest does not suit.
    Untimed,
}

/// A choice for all products of a shape.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Winner {
    Library,
    Own {
        kernel: Kernel,
        is_transposed: bool,
        splits: u32,
    },
}

/// What the file has for a library.
const LIBRARY: &str = "library";

/// The timings of one GPU.
pub(in crate::gemm) struct Tuner {
    tuning: Tuning,
    file: Option<ResultsFile>,
    /// The choices of the file that hold for this GPU, by shape.
    read: HashMap<String, String>,
    known: RwLock<HashMap<Shape, Winner, RandomState>>,
    /// Likewise of work that others plan: the names of the fastest ways, by what the file has for the work.
    others: RwLock<HashMap<String, String, RandomState>>,
    /// Held while plans are timed, so that no two are at once.
    timing: Mutex<()>,
}

/// The tuner of this GPU, if the environment asks for one.
pub(in crate::gemm) fn of(device: &Arc<Device>) -> Result<Option<&'static Tuner>> {
    if !timings_choose()? {
        return Ok(None);
    }
    match TUNERS.get_or_init(device, || Tuner::new(device)) {
        Ok(tuner) => Ok(Some(tuner)),
        Err(error) => Err(error.clone()),
    }
}

impl Tuner {
    fn new(device: &Arc<Device>) -> Result<Self> {
        let path = results_path();
        if path.is_none() {
            tracing::warn!(
                "{TUNE_VARIABLE}: there is no folder to keep timings in; set {FILE_VARIABLE} to a file"
            );
        }
        let file = match path {
            Some(path) => Some(ResultsFile {
                path,
                gpu: describe_gpu(device)?,
            }),
            None => None,
        };
        let read = file.as_ref().map_or_else(HashMap::new, ResultsFile::read);
        Ok(Self {
            tuning: Tuning::current()?,
            file,
            read,
            known: RwLock::default(),
            others: RwLock::default(),
            timing: Mutex::default(),
        })
    }

    /// The fastest way to compute a product with a sum, for good; none if it is not known and cannot be timed now.
    ///
    /// # Safety
    /// As [`gemm_with_epilogue`](crate::gemm::gemm_with_epilogue).
    pub(in crate::gemm) unsafe fn choose(
        &self,
        stream: &Stream,
        problem: &GemmProblem,
        epilogue: &Epilogue,
        library: Option<&'static Library>,
    ) -> Result<Option<Choice>> {
        let [m, n, k, batch] = [problem.m, problem.n, problem.k, problem.batch].map(|n| n as u128);
        if m * n * k * batch < LEAST_WORK {
            return Ok(Some(Choice::Untimed));
        }
        let device = stream.context().device();
        let shape = Shape::new(problem, epilogue);
        let gpu = Gpu::from(device.info());
        let choice = |winner| match winner {
            Winner::Library if library.is_some() => Choice::Library,
            Winner::Library => Choice::Untimed,
            Winner::Own {
                kernel,
                is_transposed,
                splits,
            } => Plan::similar(problem, epilogue, gpu, kernel, is_transposed, splits)
                .map_or(Choice::Untimed, Choice::Own),
        };
        if let Some(winner) = self.known.read().get(&shape) {
            return Ok(Some(choice(*winner)));
        }
        let _one_at_a_time = self.timing.lock();
        if let Some(winner) = self.known.read().get(&shape) {
            return Ok(Some(choice(*winner)));
        }
        let plans = Plan::candidates(problem, epilogue, gpu);
        let winner = match self.remembered(&shape, &plans) {
            Some(winner) => winner,
            None if self.tuning == Tuning::Use || device.pool().is_any_capturing() => {
                return Ok(None)
            }
            None => {
                // SAFETY: the caller's promise.
                let timed = unsafe { fastest(stream, problem, epilogue, library, &plans) }?;
                let Some((winner, microseconds)) = timed else {
                    return Ok(None);
                };
                let name = winner.name(problem.dtype);
                tracing::debug!(%shape, name, microseconds, "the fastest matrix product");
                if let Some(file) = &self.file {
                    file.add(&shape.to_string(), &name, microseconds);
                }
                winner
            }
        };
        self.known.write().insert(shape, winner);
        Ok(Some(choice(winner)))
    }

    /// The choices of this process.
    fn choices(&self) -> Vec<(String, String)> {
        let known = self.known.read();
        let mut all: Vec<_> = known
            .iter()
            .map(|(shape, winner)| (shape.to_string(), winner.name(shape.dtype)))
            .chain(self.others.read().clone())
            .collect();
        all.sort();
        all
    }

    /// [`fastest_of`] on this GPU.
    fn fastest_of(
        &self,
        stream: &Stream,
        work: String,
        ways: &[String],
        run: &mut dyn FnMut(usize) -> Result<()>,
    ) -> Result<Option<usize>> {
        let place = |name: &String| ways.iter().position(|way| way == name);
        if let Some(found) = self.others.read().get(&work).and_then(place) {
            return Ok(Some(found));
        }
        let _one_at_a_time = self.timing.lock();
        let found = match self.read.get(&work).and_then(place) {
            Some(found) => found,
            None if self.tuning == Tuning::Use
                || stream.context().device().pool().is_any_capturing() =>
            {
                return Ok(None)
            }
            None => {
                let mut best: Option<(usize, f32)> = None;
                for (at, way) in ways.iter().enumerate().take(MOST_PLANS) {
                    let least = best.map_or(f32::INFINITY, |(_, time)| time);
                    match time(stream, least, &mut || run(at).map(|()| true)) {
                        Ok(Some(time)) if time < least => best = Some((at, time)),
                        Ok(_) => {}
                        Err(error) => {
                            tracing::warn!(work, way, %error, "left out of the timings");
                        }
                    }
                }
                let Some((found, microseconds)) = best else {
                    return Ok(None);
                };
                let way = &ways[found];
                tracing::debug!(work, way, microseconds, "the fastest way");
                if let Some(file) = &self.file {
                    file.add(&work, way, microseconds);
                }
                found
            }
        };
        self.others.write().insert(work, ways[found].clone());
        Ok(Some(found))
    }

    /// What the file has for this shape, if there is such a plan.
    fn remembered(&self, shape: &Shape, plans: &[Plan]) -> Option<Winner> {
        let name = self.read.get(&shape.to_string())?;
        if name == LIBRARY {
            return Some(Winner::Library);
        }
        // Plans for another size of the shape may have other splits; what is near is as good.
        plans
            .iter()
            .map(Winner::of)
            .find(|winner| winner.name(shape.dtype) == *name)
    }
}

/// What is computed, to those who time ways to do it.
#[derive(Clone, Debug)]
pub struct Work {
    /// All but the sizes, in words.
    pub kind: String,
    /// m, n, k and the batch. Those that differ by less than an eighth are timed once.
    pub sizes: [usize; 4],
}

/// The place in `ways` of the one that takes least time, where the environment asks for timings ([`TUNE_VARIABLE`]) and
/// they are known or can be made; none where it does not, or they cannot. `run` does the work in the way of a place on the
/// stream, whatever it writes being its result each time. `ways` have names that last from process to process, the most
/// promising first; neither they nor `work` are asked for where nothing is timed.
///
/// # Errors
/// The environment's choices make no sense, or the kernels are not embedded for this GPU.
pub fn fastest_of(
    stream: &Stream,
    work: impl FnOnce() -> Work,
    ways: impl FnOnce() -> Vec<String>,
    run: &mut dyn FnMut(usize) -> Result<()>,
) -> Result<Option<usize>> {
    let Some(tuner) = of(stream.context().device())? else {
        return Ok(None);
    };
    let Work { kind, sizes } = work();
    if sizes.iter().map(|&size| size as u128).product::<u128>() < LEAST_WORK {
        return Ok(None);
    }
    let [m, n, k, batch] = sizes.map(rounded);
    let work = format!("{kind} {m}x{n}x{k} batch {batch}");
    tuner.fastest_of(stream, work, &ways(), run)
}

/// The shapes that this process chose for on this stream's GPU by timings, its own or kept ones, and the choices.
///
/// # Errors
/// The environment's choices make no sense, or the kernels are not embedded for this GPU.
pub fn choices(stream: &Stream) -> Result<Vec<(String, String)>> {
    Ok(of(stream.context().device())?.map_or_else(Vec::new, Tuner::choices))
}

impl Winner {
    /// As the file has it.
    fn name(&self, dtype: GemmDtype) -> String {
        match self {
            Self::Library => LIBRARY.to_owned(),
            Self::Own {
                kernel,
                is_transposed,
                splits,
            } => kernel.described(dtype, *is_transposed, *splits),
        }
    }

    fn of(plan: &Plan) -> Self {
        Self::Own {
            kernel: plan.kernel,
            is_transposed: plan.product.is_transposed,
            splits: plan.splits,
        }
    }
}

/// Times the plans, and the library, on a copy of C; none if nothing could be timed.
///
/// # Safety
/// As [`gemm_with_epilogue`](crate::gemm::gemm_with_epilogue).
unsafe fn fastest(
    stream: &Stream,
    problem: &GemmProblem,
    epilogue: &Epilogue,
    library: Option<&'static Library>,
    plans: &[Plan],
) -> Result<Option<(Winner, f32)>> {
    let Some((_copy, problem)) = on_a_copy(stream, problem)? else {
        return Ok(None);
    };
    let gpu = Gpu::from(stream.context().info());
    let mut best: Option<(Winner, f32)> = None;
    let mut consider = |winner: Winner, run: &mut dyn FnMut() -> Result<bool>| {
        let least = best.map_or(f32::INFINITY, |(_, time)| time);
        match time(stream, least, run) {
            Ok(Some(time)) if time < least => best = Some((winner, time)),
            Ok(_) => {}
            Err(error) => {
                let name = winner.name(problem.dtype);
                tracing::warn!(%problem, name, %error, "left out of the timings");
            }
        }
    };
    if let Some(library) = library {
        consider(Winner::Library, &mut || {
            // SAFETY: the caller's promise, and C's copy.
            unsafe { multiply_by(library, stream, &problem, epilogue) }
        });
    }
    // The same plans, for the copy.
    let on_copy = Plan::candidates(&problem, epilogue, gpu);
    for (plan, copy) in plans.iter().zip(&on_copy).take(MOST_PLANS) {
        consider(Winner::of(plan), &mut || {
            // SAFETY: as above.
            unsafe { launch_plan(stream, copy) }.map(|()| true)
        });
    }
    Ok(best)
}

/// All that a timing holds for: the GPU, the driver, our kernels and the library.
fn describe_gpu(device: &Arc<Device>) -> Result<String> {
    let info = device.info();
    let runtime = device.runtime();
    let mut code = 0xcbf2_9ce4_8422_2325u64;
    let modules = [
        candle_rocm_kernels::GEMM,
        candle_rocm_kernels::MATMUL,
        candle_rocm_kernels::GROUPED,
        candle_rocm_kernels::CONVOLUTION,
    ];
    for module in modules {
        let object = module
            .code_object(&info.arch)
            .map_err(|error| Error::new(ErrorKind::Module, error.to_string()))?;
        // FNV-1a, which no release of a library changes.
        for byte in object {
            code = (code ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3);
        }
    }
    let library = match selection::of(device)? {
        Some(library) => library.description(),
        None => "no library",
    };
    let text = format!(
        "{}, {}, {} compute units, {} {}, kernels {code:016x}, {library}",
        info.name,
        info.arch_full,
        info.compute_units,
        runtime.kind(),
        runtime.version(),
    );
    Ok(text.replace(['\t', '\n', '\r'], " "))
}

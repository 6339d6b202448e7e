//! Choosing plans by timing them, for those who ask for it.
//!
//! With `CANDLE_ROCM_GEMM_TUNE=1`, the first product of a shape runs with each plan that may be worth a try, and by the
//! vendor's library where that is loaded, on a copy of C. The fastest computes that shape from then on, in this process
//! and, through a file, in later ones. `CANDLE_ROCM_GEMM_TUNE=use` takes what the file has and times nothing, so that
//! the sums of a program have the same order in each run. Nothing is timed while a graph is captured: the default plan
//! computes those products, unless the shape is known.
//!
//! The file is `CANDLE_ROCM_GEMM_TUNE_FILE`, else `candle-rocm/gemm.tsv` in `$XDG_CACHE_HOME` or `~/.cache`. Its lines
//! hold for one GPU, driver, library and build of the kernels. Shapes share a line if their sizes differ by less than
//! an eighth, so that a growing context does not time each of its lengths.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::{Arc, OnceLock};

use foldhash::fast::RandomState;
use parking_lot::{Mutex, RwLock};

use super::epilogue::{Activation, Epilogue};
use super::hardware::Gpu;
use super::launch::launch_plan;
use super::library::{self, GemmChoice, Library};
use super::plan::{Kernel, Plan};
use super::problem::{GemmDtype, GemmProblem, Transpose};
use crate::base::cuda_names::{cublasComputeType_t, CUevent_flags};
use crate::base::error::{Error, Result};
use crate::base::hip::types::MEMCPY_DEVICE_TO_DEVICE;
use crate::device::Device;
use crate::memory::workspace::Workspace;
use crate::stream::queue::Stream;

/// The variable that turns the timing on.
pub const TUNE_VARIABLE: &str = "CANDLE_ROCM_GEMM_TUNE";
/// The variable that names the file of results.
pub const FILE_VARIABLE: &str = "CANDLE_ROCM_GEMM_TUNE_FILE";

/// First line of the file. The number is that of its format.
const HEADER: &str = "# candle-rocm: fastest matrix products, 1";
/// Products of fewer multiply-adds are over before the next one is launched, whoever computes them.
const LEAST_WORK: u128 = 1 << 17;
/// Plans that are timed for a shape: the most promising.
const MOST_PLANS: usize = 16;
/// Microseconds that the runs between two events should take, and how many they are at most.
const TIMED: f32 = 2000.0;
const MOST_RUNS: f32 = 20.0;
/// Timings of a plan, of which the least counts.
const TIMINGS: usize = 3;

/// What to do about timings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Tuning {
    Off,
    /// Use those that there are.
    Use,
    /// Time what is not known.
    Measure,
}

impl FromStr for Tuning {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        match text {
            "" | "0" => Ok(Self::Off),
            "use" => Ok(Self::Use),
            "1" => Ok(Self::Measure),
            _ => Err(Error::invalid(format!(
                "{TUNE_VARIABLE}={text}: the choices are 0, 1 (time products and keep the results) and use (use kept \
                 results alone)"
            ))),
        }
    }
}

impl Tuning {
    /// What the environment asks for, read once.
    fn current() -> Result<Self> {
        static TUNING: OnceLock<Result<Tuning>> = OnceLock::new();
        TUNING
            .get_or_init(|| match GemmChoice::current()? {
                // There is nothing to choose.
                GemmChoice::Library => Ok(Self::Off),
                GemmChoice::Own | GemmChoice::Auto => std::env::var(TUNE_VARIABLE)
                    .unwrap_or_default()
                    .trim()
                    .parse(),
            })
            .clone()
    }
}

/// Whether timings choose, so that a library may be worth loading that is no default.
pub(super) fn is_on() -> Result<bool> {
    Ok(Tuning::current()? != Tuning::Off)
}

/// Who computes a product.
// It is returned and taken apart at once: a box would be an allocation for each product.
#[allow(clippy::large_enum_variant)]
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Choice {
    Library,
    Own(Plan),
}

/// A choice for all products of a shape.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Winner {
    Library,
    Own {
        kernel: Kernel,
        is_transposed: bool,
        parts: u32,
    },
}

/// Products for which the same choice is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Shape {
    dtype: GemmDtype,
    compute: cublasComputeType_t,
    ops: [Transpose; 2],
    /// m, n, k and batch, rounded.
    sizes: [usize; 4],
    /// Bytes, at most 16, at whose multiples all columns of A, B and C begin.
    alignments: [u64; 3],
    /// Whether all products of a batch share A, and B.
    shared: [bool; 2],
    reads_c: bool,
    has_bias: bool,
    activation: Activation,
    has_residual: bool,
}

impl Shape {
    fn new(problem: &GemmProblem, epilogue: &Epilogue) -> Self {
        let (bytes, output) = (problem.dtype.bytes(), problem.dtype.output_bytes());
        let aligned = |address: u64, ld: usize, stride: i64, bytes: usize| {
            let distances = (ld as u64 | stride.unsigned_abs()) * bytes as u64;
            1 << (address | distances | 16).trailing_zeros()
        };
        Self {
            dtype: problem.dtype,
            compute: problem.compute,
            ops: [problem.transa, problem.transb],
            sizes: [problem.m, problem.n, problem.k, problem.batch].map(rounded),
            alignments: [
                aligned(problem.a, problem.lda, problem.stride_a, bytes),
                aligned(problem.b, problem.ldb, problem.stride_b, bytes),
                aligned(problem.c, problem.ldc, problem.stride_c, output),
            ],
            shared: [problem.stride_a, problem.stride_b].map(|stride| stride == 0),
            reads_c: problem.beta != 0.0,
            has_bias: epilogue.bias.is_some(),
            activation: epilogue.activation,
            has_residual: epilogue.residual.is_some(),
        }
    }
}

/// Sizes from 17 on to four binary digits, upwards.
fn rounded(size: usize) -> usize {
    match size {
        0..=16 => size,
        _ => size.next_multiple_of(1 << ((size - 1).ilog2() - 3)),
    }
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [m, n, k, batch] = self.sizes;
        let [a, b, c] = self.alignments;
        write!(
            f,
            "{} {}{} {m}x{n}x{k} batch {batch} {:?} aligned {a} {b} {c}",
            self.dtype.name(),
            self.ops[0].letter(),
            self.ops[1].letter(),
            self.compute,
        )?;
        for (word, holds) in [
            (" shared_a", self.shared[0]),
            (" shared_b", self.shared[1]),
            (" beta", self.reads_c),
            (" bias", self.has_bias),
            (" residual", self.has_residual),
        ] {
            if holds {
                f.write_str(word)?;
            }
        }
        match self.activation {
            Activation::None => Ok(()),
            activation => write!(f, " {activation:?}"),
        }
    }
}

/// What the file has for a library.
const LIBRARY: &str = "library";

/// The timings of one GPU.
pub(crate) struct Tuner {
    tuning: Tuning,
    file: Option<ResultsFile>,
    /// Those of the file that hold for this GPU, by shape.
    read: HashMap<String, String>,
    known: RwLock<HashMap<Shape, Winner, RandomState>>,
    /// Held while plans are timed, so that no two are at once.
    timing: Mutex<()>,
}

/// The tuner of this GPU, if the environment asks for one.
pub(super) fn of(device: &Arc<Device>) -> Result<Option<&Tuner>> {
    if !is_on()? {
        return Ok(None);
    }
    match device.gemm_tuner().get_or_init(|| Tuner::new(device)) {
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
            timing: Mutex::default(),
        })
    }

    /// The fastest way to compute a product with a sum; none if it is not known and cannot be timed.
    ///
    /// # Safety
    /// As [`super::gemm_with_epilogue`].
    pub(super) unsafe fn choose(
        &self,
        stream: &Stream,
        problem: &GemmProblem,
        epilogue: &Epilogue,
        library: Option<&Library>,
    ) -> Result<Option<Choice>> {
        let [m, n, k, batch] = [problem.m, problem.n, problem.k, problem.batch].map(|n| n as u128);
        if m * n * k * batch < LEAST_WORK {
            return Ok(None);
        }
        let device = stream.context().device();
        let shape = Shape::new(problem, epilogue);
        let gpu = Gpu::from(device.info());
        let plan = |winner| match winner {
            Winner::Library => library.map(|_| Choice::Library),
            Winner::Own {
                kernel,
                is_transposed,
                parts,
            } => {
                Plan::similar(problem, epilogue, gpu, kernel, is_transposed, parts).map(Choice::Own)
            }
        };
        if let Some(winner) = self.known.read().get(&shape) {
            return Ok(plan(*winner));
        }
        let _one_at_a_time = self.timing.lock();
        if let Some(winner) = self.known.read().get(&shape) {
            return Ok(plan(*winner));
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
        Ok(plan(winner))
    }

    /// The choices of this process.
    fn choices(&self) -> Vec<(String, String)> {
        let known = self.known.read();
        let mut all: Vec<_> = known
            .iter()
            .map(|(shape, winner)| (shape.to_string(), winner.name(shape.dtype)))
            .collect();
        all.sort();
        all
    }

    /// What the file has for this shape, if there is such a plan.
    fn remembered(&self, shape: &Shape, plans: &[Plan]) -> Option<Winner> {
        let name = self.read.get(&shape.to_string())?;
        if name == LIBRARY {
            return Some(Winner::Library);
        }
        // Plans for another size of the shape may have other parts; what is near is as good.
        plans
            .iter()
            .map(Winner::of)
            .find(|winner| winner.name(shape.dtype) == *name)
    }
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
                parts,
            } => kernel.described(dtype, *is_transposed, *parts),
        }
    }

    fn of(plan: &Plan) -> Self {
        Self::Own {
            kernel: plan.kernel,
            is_transposed: plan.product.is_transposed,
            parts: plan.parts,
        }
    }
}

/// Times the plans, and the library, on a copy of C; none if nothing could be timed.
///
/// # Safety
/// As [`super::gemm_with_epilogue`].
unsafe fn fastest(
    stream: &Stream,
    problem: &GemmProblem,
    epilogue: &Epilogue,
    library: Option<&Library>,
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
            unsafe { super::multiply_by(library, stream, &problem, epilogue) }
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

/// Memory like C's, with its content if that is read, and the problem that writes there; none if there is not enough.
fn on_a_copy<'a>(
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
    let start = copy.address.next_multiple_of(ALIGNMENT) + source % ALIGNMENT;
    let start = match start + extent <= copy.address + extent + ALIGNMENT {
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
fn time(stream: &Stream, least: f32, run: &mut dyn FnMut() -> Result<bool>) -> Result<Option<f32>> {
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

/// Where results are kept.
fn results_path() -> Option<PathBuf> {
    let variable = |name| std::env::var_os(name).filter(|value| !value.is_empty());
    if let Some(file) = variable(FILE_VARIABLE) {
        return Some(file.into());
    }
    let cache = match variable("XDG_CACHE_HOME") {
        Some(folder) => PathBuf::from(folder),
        None => PathBuf::from(variable("HOME")?).join(".cache"),
    };
    Some(cache.join("candle-rocm").join("gemm.tsv"))
}

/// All that a timing holds for: the GPU, the driver, our kernels and the library.
fn describe_gpu(device: &Arc<Device>) -> Result<String> {
    let info = device.info();
    let runtime = device.runtime();
    let mut code = 0xcbf2_9ce4_8422_2325u64;
    for module in [candle_rocm_kernels::GEMM, candle_rocm_kernels::MATMUL] {
        let object = module.code_object(&info.arch).map_err(|error| {
            Error::new(crate::base::error::ErrorKind::Module, error.to_string())
        })?;
        // FNV-1a, which no release of a library changes.
        for byte in object {
            code = (code ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3);
        }
    }
    let library = match library::of(device)? {
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

/// The file of results. A line is a GPU, a shape, a choice and its microseconds, with tabs between them.
struct ResultsFile {
    path: PathBuf,
    gpu: String,
}

/// (GPU, shape) to (choice, microseconds).
type Results = BTreeMap<(String, String), (String, String)>;

impl ResultsFile {
    /// The choices for this GPU, by shape.
    fn read(&self) -> HashMap<String, String> {
        let mine = |((gpu, shape), (choice, _))| (gpu == self.gpu).then_some((shape, choice));
        self.read_all()
            .unwrap_or_default()
            .into_iter()
            .filter_map(mine)
            .collect()
    }

    /// All that is in the file; nothing if there is none, and `None` if it is no such file.
    fn read_all(&self) -> Option<Results> {
        let path = self.path.display();
        let bytes = match std::fs::read(&self.path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                return Some(Results::new())
            }
            Err(error) => {
                tracing::warn!(%path, %error, "timings of matrix products cannot be read");
                return None;
            }
        };
        let text = String::from_utf8_lossy(&bytes);
        let mut lines = text.lines();
        if lines.next() != Some(HEADER) {
            tracing::warn!(%path, "not a file of timings of matrix products, or one of another release");
            return None;
        }
        let (mut results, mut damaged) = (Results::new(), 0);
        for line in lines {
            let fields: Vec<&str> = line.split('\t').collect();
            match fields[..] {
                [gpu, shape, choice, time] if time.parse::<f32>().is_ok_and(f32::is_finite) => {
                    results.insert(
                        (gpu.to_owned(), shape.to_owned()),
                        (choice.to_owned(), time.to_owned()),
                    );
                }
                _ => damaged += 1,
            }
        }
        if damaged != 0 {
            tracing::warn!(%path, damaged, "timings of matrix products: lines that make no sense are left out");
        }
        Some(results)
    }

    /// Adds a result to those that are there. Processes that do so at once may lose one, which is timed again.
    fn add(&self, shape: &str, choice: &str, microseconds: f32) {
        let added = self.try_add(shape, choice, microseconds);
        if let Err(error) = added {
            let path = self.path.display();
            tracing::warn!(%path, %error, "timings of matrix products cannot be kept");
        }
    }

    fn try_add(&self, shape: &str, choice: &str, microseconds: f32) -> std::io::Result<()> {
        if let Some(folder) = self.path.parent().filter(|f| !f.as_os_str().is_empty()) {
            std::fs::create_dir_all(folder)?;
        }
        let mut results = match self.read_all() {
            Some(results) => results,
            None => {
                // Perhaps it is somebody's, and the variable is wrong.
                std::fs::rename(&self.path, beside(&self.path, "damaged"))?;
                Results::new()
            }
        };
        results.insert(
            (self.gpu.clone(), shape.to_owned()),
            (choice.to_owned(), format!("{microseconds:.2}")),
        );
        let mut text = format!("{HEADER}\n");
        for ((gpu, shape), (choice, time)) in results {
            text += &format!("{gpu}\t{shape}\t{choice}\t{time}\n");
        }
        // Written aside and renamed, so that nobody ever reads half a file.
        let aside = beside(&self.path, &std::process::id().to_string());
        std::fs::write(&aside, text)?;
        std::fs::rename(&aside, &self.path)
    }
}

/// The path with another ending.
fn beside(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".");
    name.push(ending);
    name.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_rounded_to_four_digits() {
        let expected = [
            (0, 0),
            (1, 1),
            (16, 16),
            (17, 18),
            (31, 32),
            (33, 36),
            (64, 64),
            (65, 72),
            (4096, 4096),
            (4097, 4608),
        ];
        for (size, bucket) in expected {
            assert_eq!(rounded(size), bucket, "{size}");
        }
        for size in 17..5000 {
            assert!(
                rounded(size) >= size && rounded(size) * 8 <= size * 9 + 8,
                "{size}"
            );
            assert_eq!(rounded(rounded(size)), rounded(size));
        }
    }

    #[test]
    fn the_file_keeps_others_results_and_survives_damage() {
        let folder = tempfile::tempdir().unwrap();
        let file = |gpu: &str| ResultsFile {
            path: folder.path().join("sub").join("gemm.tsv"),
            gpu: gpu.to_owned(),
        };
        let (one, other) = (file("one"), file("other"));
        assert!(one.read().is_empty());
        one.add("shape", "library", 1.5);
        other.add("shape", "kernel parts 2", 2.5);
        one.add("shape", "kernel parts 1", 1.25);
        assert_eq!(one.read()["shape"], "kernel parts 1");
        assert_eq!(other.read()["shape"], "kernel parts 2");
        // Lines that make no sense are left out, and gone with the next result.
        let text = std::fs::read_to_string(&one.path).unwrap();
        assert_eq!(text.lines().count(), 3);
        let damaged = format!("{text}one\tanother\tkernel\tfast\nrubbish\n");
        std::fs::write(&one.path, damaged).unwrap();
        assert_eq!(one.read().len(), 1);
        one.add("third", "library", 3.0);
        let text = std::fs::read_to_string(&one.path).unwrap();
        assert_eq!(text.lines().count(), 4, "{text}");
        // What is no such file is moved aside.
        std::fs::write(&one.path, [0xff, 0, 10]).unwrap();
        assert!(one.read().is_empty());
        one.add("shape", "library", 1.0);
        assert_eq!(one.read()["shape"], "library");
        let aside = std::fs::read(beside(&one.path, "damaged")).unwrap();
        assert_eq!(aside, [0xff, 0, 10]);
        let left = std::fs::read_dir(one.path.parent().unwrap())
            .unwrap()
            .count();
        assert_eq!(left, 2, "no temporary file is left");
    }
}

//! Skinny products: every plan of ours, the vendor's library, and a copy that moves as many bytes.
//!
//! Each is captured into a graph of many runs, so that the host's time for a launch is not in the figures. A lies in one
//! buffer for each type, from which runs take their matrices in turns.

use std::sync::Arc;

use anyhow::{ensure, Result};
use candle_rocm_runtime::gemm::plan::{Kernel, Plan};
use candle_rocm_runtime::gemm::{
    gemm_strided_batched, launch_plan, Epilogue, GemmDtype, GemmProblem, Gpu, Transpose,
};
use candle_rocm_runtime::{Context, DeviceBuffer, DevicePtr, DevicePtrMut, Stream};

use crate::element;
use crate::products::tolerance;
use crate::timing::graph_microseconds;

/// Elements of the pattern that the buffer repeats: a prime, so that no two rows or matrices are alike.
const PATTERN: usize = 4_000_037;
/// Matrices take turns within so many bytes, more than caches hold.
const ROTATE_BYTES: usize = 256 << 20;
/// Rows that are checked.
const CHECKED: usize = 16;

/// (outputs, inputs) of layers: LLaMA 3 8B and LLaMA 3.2 1B.
pub const LAYERS: [[usize; 2]; 8] = [
    [4096, 4096],
    [1024, 4096],
    [14336, 4096],
    [4096, 14336],
    [2048, 2048],
    [512, 2048],
    [8192, 2048],
    [2048, 8192],
];

/// Which products.
pub struct Selection {
    /// Types.
    pub dtypes: Vec<GemmDtype>,
    /// Columns of C.
    pub columns: Vec<usize>,
    /// Layers by number of weights in MiB, at least.
    pub least_mib: usize,
    /// Whether all plans are timed, or that which would run.
    pub every_plan: bool,
}

/// What came of a product.
#[derive(serde::Serialize)]
pub struct Line {
    /// Element type.
    pub dtype: &'static str,
    /// Rows of C, columns of C, columns of A.
    pub shape: [usize; 3],
    /// `n` or `t` of A and B.
    pub ops: String,
    /// Bytes of A, B and C.
    pub bytes: usize,
    /// Microseconds of a copy that reads half of them and writes the other half.
    pub copy_us: f64,
    /// Microseconds of the vendor's library.
    pub library_us: Option<f64>,
    /// Our plans, the one that would run first, and their microseconds.
    pub plans: Vec<(String, f64)>,
    /// Largest error of them, as in [`crate::products::Outcome`].
    pub error: f64,
}

/// A buffer that repeats a pattern of elements.
struct Pool {
    dtype: GemmDtype,
    pattern: Vec<u8>,
    buffer: DeviceBuffer<u8>,
    target: DeviceBuffer<u8>,
    elements: usize,
}

impl Pool {
    fn new(stream: &Arc<Stream>, dtype: GemmDtype, most_weights: usize) -> Result<Pool> {
        let pattern = element::random(dtype, 1, PATTERN);
        let bytes = ROTATE_BYTES.max(most_weights * dtype.bytes());
        let elements = bytes / dtype.bytes();
        let mut all = pattern.repeat(bytes.div_ceil(pattern.len()));
        all.truncate(bytes);
        Ok(Pool {
            dtype,
            pattern,
            buffer: stream.clone_htod(&all)?,
            target: stream.alloc_zeros::<u8>(bytes / 2)?,
            elements,
        })
    }

    /// Where runs with matrices of so many elements take them from.
    fn places(&self, weights: usize) -> Vec<usize> {
        let step = weights.next_multiple_of(128);
        let count = (self.elements / step).clamp(1, 32);
        (0..count).map(|i| i * step).collect()
    }

    fn element(&self, at: usize) -> f64 {
        element::operand(self.dtype, &self.pattern, at % PATTERN)
    }
}

/// Measures the selection; `done` is called with each line.
///
/// # Errors
/// A launch fails, or a result is wrong.
pub fn measure(
    context: &Arc<Context>,
    selection: &Selection,
    has_library: bool,
    mut done: impl FnMut(Line),
) -> Result<()> {
    // Captures are of a stream of one's own.
    let stream = context.new_stream()?;
    for &dtype in &selection.dtypes {
        let layers: Vec<[usize; 2]> = LAYERS
            .into_iter()
            .filter(|[m, k]| m * k * dtype.bytes() >= selection.least_mib << 20)
            .collect();
        let most = layers.iter().map(|[m, k]| m * k).max().unwrap_or(0);
        let mut pool = Pool::new(&stream, dtype, most)?;
        for op_a in [Transpose::Yes, Transpose::No] {
            for &[m, k] in &layers {
                for &n in &selection.columns {
                    let problem = Few { op_a, m, n, k };
                    done(problem.measure(&stream, &mut pool, selection, has_library)?);
                }
            }
        }
    }
    Ok(())
}

/// Those by the skinny kernels; of more columns than these are for, all.
fn plans_of(problem: &GemmProblem, gpu: Gpu) -> Vec<Plan> {
    let mut plans = Plan::candidates(problem, &Epilogue::default(), gpu);
    let is_skinny = |plan: &Plan| matches!(plan.kernel, Kernel::Skinny(_));
    if plans.iter().any(is_skinny) {
        plans.retain(is_skinny);
    }
    plans
}

/// A product of matrices that lie close.
struct Few {
    op_a: Transpose,
    m: usize,
    n: usize,
    k: usize,
}

impl Few {
    fn problem(&self, dtype: GemmDtype, a: u64, b: u64, c: u64) -> GemmProblem {
        let ops = [self.op_a, Transpose::No];
        GemmProblem::packed(dtype, ops, [self.m, self.n, self.k], [a, b, c])
    }

    /// Largest |found - exact| / sum of |a b| of some rows, of a product with the matrix at `from`.
    fn error(&self, pool: &Pool, from: usize, b: &[u8], c: &[u8]) -> f64 {
        let mut largest = 0.0f64;
        for row in (0..CHECKED).map(|i| i * (self.m - 1) / (CHECKED - 1)) {
            for column in 0..self.n {
                let (mut exact, mut size) = (0.0, 0.0f64);
                for i in 0..self.k {
                    let at = match self.op_a {
                        Transpose::Yes => row * self.k + i,
                        Transpose::No => i * self.m + row,
                    };
                    let y = element::operand(pool.dtype, b, column * self.k + i);
                    let product = pool.element(from + at) * y;
                    exact += product;
                    size += product.abs();
                }
                let found = element::result(pool.dtype, c, column * self.m + row);
                let error = (found - exact).abs() / size.max(f64::MIN_POSITIVE);
                largest = if error.is_nan() {
                    f64::INFINITY
                } else {
                    largest.max(error)
                };
            }
        }
        largest
    }

    fn measure(
        &self,
        stream: &Arc<Stream>,
        pool: &mut Pool,
        selection: &Selection,
        has_library: bool,
    ) -> Result<Line> {
        let dtype = pool.dtype;
        let Few { m, n, k, .. } = *self;
        let b = element::random(dtype, 2, k * n);
        let on_gpu = stream.clone_htod(&b)?;
        let mut c = stream.alloc_zeros::<u8>(m * n * dtype.bytes())?;
        let (b_at, c_at) = (on_gpu.device_ptr(stream).0, c.device_ptr_mut(stream).0);
        let a_at = pool.buffer.device_ptr(stream).0;
        let places = pool.places(m * k);
        let problems: Vec<GemmProblem> = places
            .iter()
            .map(|place| self.problem(dtype, a_at + (place * dtype.bytes()) as u64, b_at, c_at))
            .collect();
        let gpu = Gpu::from(stream.context().info());
        let bytes = (m * k + k * n + m * n) * dtype.bytes();
        // Runs of a graph: about two milliseconds.
        let runs = (7_000_000_000 / bytes).clamp(8, 200);
        let all: Vec<Vec<Plan>> = problems.iter().map(|p| plans_of(p, gpu)).collect();
        let count = if selection.every_plan {
            all[0].len()
        } else {
            1
        };
        let last = (runs - 1) % places.len();
        let (mut plans, mut error) = (Vec::new(), 0.0f64);
        for (number, plan) in all[0].iter().enumerate().take(count) {
            stream.memset_zeros(&mut c)?;
            // SAFETY: the matrices are the buffers above, which live until the stream was waited for.
            let us = graph_microseconds(stream, runs, |turn| unsafe {
                launch_plan(stream, &all[turn % places.len()][number])
            })?;
            let found = self.error(pool, places[last], &b, &stream.clone_dtoh(&c)?);
            let name = plan.description();
            ensure!(
                found <= tolerance(dtype, k),
                "{name}, {m} x {n} x {k}: an error of {found}"
            );
            error = error.max(found);
            plans.push((name, us));
        }
        let library_us = match has_library {
            // SAFETY: as above.
            true => Some(graph_microseconds(stream, runs, |turn| unsafe {
                gemm_strided_batched(stream, &problems[turn % places.len()])
            })?),
            false => None,
        };
        let half = bytes / 2;
        let copies = (pool.target.len() / half).max(1);
        let copy_us = graph_microseconds(stream, runs, |turn| {
            let at = turn % copies * half;
            let mut to = pool.target.slice_mut(at..at + half);
            stream.memcpy_dtod(&pool.buffer.slice(at..at + half), &mut to)
        })?;
        stream.synchronize()?;
        Ok(Line {
            dtype: dtype.name(),
            shape: [m, n, k],
            ops: [self.op_a.letter(), 'n'].iter().collect(),
            bytes,
            copy_us,
            library_us,
            plans,
            error,
        })
    }
}

impl std::fmt::Display for Line {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let [m, n, k] = self.shape;
        let rate = |us: f64| self.bytes as f64 / us / 1e6;
        let own = self.plans.first().map_or(f64::NAN, |(_, us)| *us);
        let best = self.plans.iter().map(|(_, us)| *us).fold(own, f64::min);
        write!(
            f,
            "{} {m}x{n}x{k} {}: copy {:.1} us {:.2} TB/s, ours {own:.1} us {:.0} % of the copy, best {best:.1} us {:.0} %",
            self.dtype,
            self.ops,
            self.copy_us,
            rate(self.copy_us),
            100.0 * self.copy_us / own,
            100.0 * self.copy_us / best,
        )?;
        if let Some(us) = self.library_us {
            write!(f, ", library {us:.1} us")?;
        }
        for (name, us) in &self.plans {
            write!(f, "\n    {us:7.1} {name}")?;
        }
        Ok(())
    }
}

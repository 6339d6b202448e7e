//! Matrix products against sums in f64: every kernel, and shapes, strides, factors, places and epilogues drawn at
//! random, on each of the five emulated instruction sets. With `CANDLE_ROCM_RUNTIME=nvidia` they run on NVIDIA
//! GPUs, and what `CANDLE_ROCM_GEMM` chooses there is tested beside our own kernels.

mod common;

use std::collections::BTreeSet;
use std::sync::Arc;

use candle_rocm_kernels::gemm::tiles;
use candle_rocm_kernels::{matmul, skinny};
use candle_rocm_runtime::cuda_names::{
    cublasComputeType_t, CUgraphInstantiate_flags, CUstreamCaptureMode,
};
use candle_rocm_runtime::gemm::plan::{Kernel, MatrixTile, Plan};
use candle_rocm_runtime::gemm::{
    self, library, Activation, Epilogue, GemmDtype, GemmProblem, Gpu, Residual, Transpose,
};
use candle_rocm_runtime::{
    enqueued, Context, DeviceBuffer, DevicePtr, DevicePtrMut, DeviceRepr, Graph, Stream,
    ValidAsZeroBits,
};
use candle_rocm_testing::activations;
use candle_rocm_testing::numbers::sum_of_products;
use candle_rocm_testing::random::Random;
use common::on_each_device;
use half::{bf16, f16};

/// An element of A and B; those of C have another type if these are integers.
trait Element: Number {
    const DTYPE: GemmDtype;
    type Output: Number;
}

trait Number: DeviceRepr + Copy + Send + Sync + 'static {
    /// Spacing of numbers around 1 in this type, and in the type of its sums; 0 for integers.
    const EPSILON: f64;
    const SUM_EPSILON: f64;
    /// What a number from -1 to 1 stands for.
    fn new(value: f64) -> Self;
    /// What nobody is to read: NaN, or a number that would change the result.
    fn poison() -> Self;
    fn value(self) -> f64;
    fn bits(self) -> u64;
}

macro_rules! floats {
    ($($type:ty, $dtype:ident, $sum:ty, $epsilon:expr, $x:ident, $new:expr, $value:expr;)*) => {$(
        impl Number for $type {
            const EPSILON: f64 = $epsilon;
            const SUM_EPSILON: f64 = <$sum>::EPSILON as f64;
            fn new($x: f64) -> Self {
                $new
            }
            fn poison() -> Self {
                Self::NAN
            }
            fn value(self) -> f64 {
                let $x = self;
                $value
            }
            fn bits(self) -> u64 {
                self.to_bits() as u64
            }
        }
        impl Element for $type {
            const DTYPE: GemmDtype = GemmDtype::$dtype;
            type Output = Self;
        }
    )*};
}
floats! {
    f16, F16, f32, 0.000_976_562_5, x, f16::from_f64(x), x.to_f64();
    bf16, BF16, f32, 0.007_812_5, x, bf16::from_f64(x), x.to_f64();
    f32, F32, f32, f32::EPSILON as f64, x, x as f32, x as f64;
    f64, F64, f64, f64::EPSILON, x, x, x;
}

macro_rules! integers {
    ($($type:ty;)*) => {$(
        impl Number for $type {
            const EPSILON: f64 = 0.0;
            const SUM_EPSILON: f64 = 0.0;
            /// All of them, so that sums wrap.
            fn new(x: f64) -> Self {
                (x * -f64::from(<$type>::MIN)) as $type
            }
            fn poison() -> Self {
                77
            }
            fn value(self) -> f64 {
                self.into()
            }
            fn bits(self) -> u64 {
                self as u64
            }
        }
    )*};
}
integers! { i8; i32; }
impl Element for i8 {
    const DTYPE: GemmDtype = GemmDtype::I8;
    type Output = i32;
}

/// A number whose products are f32.
#[derive(Clone, Copy)]
#[repr(transparent)]
struct IntoF32<T>(T);

// SAFETY: it is laid out as what it is made of, which is a kernel's parameter.
unsafe impl<T: DeviceRepr> DeviceRepr for IntoF32<T> {}

impl<T: Number> Number for IntoF32<T> {
    const EPSILON: f64 = T::EPSILON;
    const SUM_EPSILON: f64 = T::SUM_EPSILON;
    fn new(value: f64) -> Self {
        Self(T::new(value))
    }
    fn poison() -> Self {
        Self(T::poison())
    }
    fn value(self) -> f64 {
        self.0.value()
    }
    fn bits(self) -> u64 {
        self.0.bits()
    }
}
impl Element for IntoF32<f16> {
    const DTYPE: GemmDtype = GemmDtype::F16ToF32;
    type Output = f32;
}
impl Element for IntoF32<bf16> {
    const DTYPE: GemmDtype = GemmDtype::BF16ToF32;
    type Output = f32;
}

/// Whether C is f32 where A and B have 16 bits: matrix units' tiles alone make it, and nothing follows.
fn upcasts<T: Element>() -> bool {
    matches!(T::DTYPE, GemmDtype::F16ToF32 | GemmDtype::BF16ToF32)
}

/// Who computes a case.
#[derive(Clone, Copy)]
enum By {
    /// Our own kernel, by one of the plans for so many compute units: the first, or the number of another.
    Kernel { compute_units: u32, number: usize },
    /// The plan with this kernel, with split-K of so many elements if that is not 0.
    This { kernel: Kernel, k_per_split: u32 },
    /// Whatever `CANDLE_ROCM_GEMM` says.
    Choice,
}

/// A product with its addresses counted in elements from the start of each buffer.
struct Case {
    problem: GemmProblem,
    epilogue: DrawnEpilogue,
    offsets: [usize; 3],
    by: By,
}

/// An epilogue without addresses.
#[derive(Clone, Copy, Debug, Default)]
struct DrawnEpilogue {
    has_bias: bool,
    activation: Activation,
    /// Leading dimension and stride of the residual.
    residual: Option<(usize, i64)>,
}

fn activate(activation: Activation, x: f64) -> f64 {
    match activation {
        Activation::None => x,
        Activation::GeluErf => activations::gelu_erf(x),
        Activation::GeluTanh => activations::gelu(x),
        Activation::Silu => activations::silu(x),
    }
}

/// Elements from the first of matrix 0 to the last of the last matrix.
fn extent(rows: usize, columns: usize, ld: usize, stride: i64, batch: usize) -> usize {
    if rows == 0 || columns == 0 || batch == 0 {
        return 0;
    }
    (batch - 1) * stride as usize + (columns - 1) * ld + rows
}

fn stored(op: Transpose, rows: usize, columns: usize) -> (usize, usize) {
    match op {
        Transpose::No => (rows, columns),
        Transpose::Yes => (columns, rows),
    }
}

fn index(op: Transpose, ld: usize, row: usize, column: usize) -> usize {
    match op {
        Transpose::No => column * ld + row,
        Transpose::Yes => row * ld + column,
    }
}

/// A buffer of `length` elements that are `poison`, but for the matrices in it.
fn matrices<T: Number>(
    draw: &mut Random,
    at: usize,
    (rows, columns): (usize, usize),
    ld: usize,
    (stride, batch): (i64, usize),
) -> Vec<T> {
    let length = at + extent(rows, columns, ld, stride, batch);
    let columns = if rows == 0 { 0 } else { columns };
    let mut all = vec![T::poison(); length.max(1)];
    for z in 0..batch {
        for column in 0..columns {
            let start = at + z * stride as usize + column * ld;
            for element in &mut all[start..start + rows] {
                *element = T::new(draw.signed());
            }
        }
    }
    all
}

/// The rows of each matrix, one after another, whose elements are at `place(row, number)`.
fn values<T: Number>(
    all: &[T],
    at: usize,
    (stride, batch): (i64, usize),
    (rows, k): (usize, usize),
    place: impl Fn(usize, usize) -> usize,
) -> Vec<f64> {
    let mut values = Vec::with_capacity(batch * rows * k);
    for z in 0..batch {
        let first = at + z * stride as usize;
        for row in 0..rows {
            values.extend((0..k).map(|l| all[first + place(row, l)].value()));
        }
    }
    values
}

/// How a case went.
#[derive(Default)]
struct Checked {
    /// The plan, where a kernel of ours was asked for.
    plan: Option<Plan>,
    /// The largest error by a vendor's library and by our kernel on the same numbers, as shares of what is allowed; where
    /// a library multiplied.
    beside_library: Option<[f64; 2]>,
}

/// Computes a case, and checks every element of C's buffer. Where a vendor's library multiplied, our kernel multiplies
/// the same numbers, and is held to the same bound.
fn check<T: Element>(stream: &Arc<Stream>, case: &Case, draw: &mut Random) -> Checked {
    let mut problem = case.problem;
    let GemmProblem { m, n, k, batch, .. } = problem;
    let [a_at, b_at, c_at] = case.offsets;
    // alpha = 0 must not read A and B at all, nor beta = 0 C.
    let read = |factor: f64| if factor == 0.0 { 0 } else { batch };
    let shape_a = stored(problem.transa, m, k);
    let shape_b = stored(problem.transb, k, n);
    let batch_ab = read(problem.alpha);
    let mut a: Vec<T> = matrices(
        draw,
        a_at,
        shape_a,
        problem.lda,
        (problem.stride_a, batch_ab),
    );
    let mut b: Vec<T> = matrices(
        draw,
        b_at,
        shape_b,
        problem.ldb,
        (problem.stride_b, batch_ab),
    );
    let length = |at: usize, shape: (usize, usize), ld, stride| {
        (at + extent(shape.0, shape.1, ld, stride, batch)).max(1)
    };
    a.resize(
        length(a_at, shape_a, problem.lda, problem.stride_a),
        T::poison(),
    );
    b.resize(
        length(b_at, shape_b, problem.ldb, problem.stride_b),
        T::poison(),
    );
    let (ldc, stride_c) = (problem.ldc, problem.stride_c);
    let mut before: Vec<T::Output> =
        matrices(draw, c_at, (m, n), ldc, (stride_c, read(problem.beta)));
    before.resize(length(c_at, (m, n), ldc, stride_c), T::Output::poison());
    let bias: Vec<T::Output> = matrices(draw, 0, (m, 1), m.max(1), (0, 1));
    let (ld_residual, stride_residual) = case.epilogue.residual.unwrap_or((m.max(1), 0));
    let residual: Vec<T::Output> = matrices(draw, 0, (m, n), ld_residual, (stride_residual, batch));

    let device_a = stream.clone_htod(&a).unwrap();
    let device_b = stream.clone_htod(&b).unwrap();
    let device_bias = stream.clone_htod(&bias).unwrap();
    let device_residual = stream.clone_htod(&residual).unwrap();
    let mut device_c = stream.clone_htod(&before).unwrap();
    let (size, output_size) = (size_of::<T>(), size_of::<T::Output>());
    problem.a = device_a.device_ptr(stream).0 + (a_at * size) as u64;
    problem.b = device_b.device_ptr(stream).0 + (b_at * size) as u64;
    problem.c = device_c.device_ptr_mut(stream).0 + (c_at * output_size) as u64;
    let epilogue = Epilogue {
        bias: case
            .epilogue
            .has_bias
            .then(|| device_bias.device_ptr(stream).0),
        activation: case.epilogue.activation,
        residual: case.epilogue.residual.map(|(ld, stride)| Residual {
            address: device_residual.device_ptr(stream).0,
            ld,
            stride,
        }),
    };
    problem.check().unwrap();
    epilogue.check(&problem).unwrap();
    let (transa, transb) = (problem.transa, problem.transb);
    let in_a = |row, l| index(transa, problem.lda, row, l);
    let in_b = |column, l| index(transb, problem.ldb, l, column);
    let truth = Truth::<T> {
        case,
        problem,
        rows: values(&a, a_at, (problem.stride_a, batch_ab), (m, k), in_a),
        columns: values(&b, b_at, (problem.stride_b, batch_ab), (n, k), in_b),
        before,
        bias,
        residual,
    };
    let processor = stream.context().info().processor;
    let plans = |compute_units| {
        let gpu = Gpu {
            processor,
            compute_units,
        };
        Plan::candidates(&problem, &epilogue, gpu)
    };
    let launch = |plan: &Plan| {
        // SAFETY: the buffers hold the matrices, at these addresses.
        unsafe { gemm::launch_plan(stream, plan) }.unwrap_or_else(|error| {
            panic!(
                "{} on {problem:?} offsets {:?} {:?}: {error}",
                plan.description(),
                case.offsets,
                case.epilogue
            )
        });
    };
    let plan = match case.by {
        By::Kernel {
            compute_units,
            number,
        } => {
            let plans = plans(compute_units);
            plans.get(number % plans.len().max(1)).copied()
        }
        By::This {
            kernel,
            k_per_split,
        } => {
            let plan = plans(1).into_iter().find(|plan| plan.kernel == kernel);
            let plan = plan.unwrap_or_else(|| panic!("{kernel:?} for {problem}"));
            Some(match k_per_split {
                0 => plan,
                _ => Plan {
                    splits: (k as u32).div_ceil(k_per_split),
                    k_per_split,
                    ..plan
                },
            })
        }
        By::Choice => {
            // SAFETY: the buffers hold the matrices, at these addresses.
            let multiply = || unsafe { gemm::gemm_with_epilogue(stream, &problem, &epilogue) };
            let (done, noted) = enqueued::recorded(multiply);
            done.unwrap();
            let by_library = noted.library_products > 0;
            let has_sum = problem.alpha != 0.0 && [m, n, k, batch].iter().all(|&size| size > 0);
            let expected = library::GemmChoice::current().unwrap() == library::GemmChoice::Library
                && T::DTYPE != GemmDtype::I8
                && has_sum;
            assert!(by_library || !expected, "{problem} was not the library's");
            if !by_library {
                truth.verify(&stream.clone_dtoh(&device_c).unwrap(), "the choice");
                return Checked::default();
            }
            let library = truth.verify(&stream.clone_dtoh(&device_c).unwrap(), "the library");
            stream.memcpy_htod(&truth.before, &mut device_c).unwrap();
            let plan = plans(64)[0];
            launch(&plan);
            let after = stream.clone_dtoh(&device_c).unwrap();
            let ours = truth.verify(&after, &plan.description());
            return Checked {
                plan: None,
                beside_library: Some([library, ours]),
            };
        }
    };
    if let Some(plan) = &plan {
        launch(plan);
    }
    let by = plan
        .as_ref()
        .map_or("no kernel".to_owned(), Plan::description);
    truth.verify(&stream.clone_dtoh(&device_c).unwrap(), &by);
    Checked {
        plan,
        beside_library: None,
    }
}

/// A case's numbers, from which the exact result follows.
struct Truth<'a, T: Element> {
    case: &'a Case,
    problem: GemmProblem,
    /// The matrices' rows of A and columns of B, `k` numbers each; none where alpha is 0.
    rows: Vec<f64>,
    columns: Vec<f64>,
    before: Vec<T::Output>,
    bias: Vec<T::Output>,
    residual: Vec<T::Output>,
}

impl<T: Element> Truth<'_, T> {
    /// Every element of C's buffer against sums in f64: what is C within its bound, the rest as it was. Returns the
    /// largest error as a share of what is allowed.
    fn verify(&self, after: &[T::Output], by: &str) -> f64 {
        let problem = &self.problem;
        let GemmProblem { m, n, batch, .. } = *problem;
        let mut written = vec![false; after.len()];
        let mut worst = 0.0f64;
        for z in 0..batch {
            for column in 0..n {
                for row in 0..m {
                    let place = self.case.offsets[2]
                        + z * problem.stride_c as usize
                        + column * problem.ldc
                        + row;
                    written[place] = true;
                    let (expected, bound) = self.element([z, row, column], place);
                    let got = after[place].value();
                    let error = (got - expected).abs();
                    assert!(
                        error <= bound,
                        "{by} on {problem} alpha {} beta {} ld {} {} {} offsets {:?} {:?}: C[{row}, {column}] of {z} is \
                         {got}, not {expected} +- {bound:e}",
                        problem.alpha, problem.beta, problem.lda, problem.ldb, problem.ldc, self.case.offsets,
                        self.case.epilogue,
                    );
                    if bound > 0.0 {
                        worst = worst.max(error / bound);
                    }
                }
            }
        }
        for (place, written) in written.into_iter().enumerate() {
            assert!(
                written || after[place].bits() == self.before[place].bits(),
                "{by} on {problem}: element {place}, which is not in C, was written"
            );
        }
        worst
    }

    /// One element as it should be, and how far it may be from that.
    fn element(&self, [z, row, column]: [usize; 3], place: usize) -> (f64, f64) {
        let (problem, epilogue) = (&self.problem, &self.case.epilogue);
        let (sum, magnitude) = match problem.alpha != 0.0 {
            true => {
                let (row, column) = (z * problem.m + row, z * problem.n + column);
                let k = problem.k;
                sum_of_products(&self.rows[row * k..][..k], &self.columns[column * k..][..k])
            }
            false => (0.0, 0.0),
        };
        let zero = |used: bool, value: f64| if used { value } else { 0.0 };
        let old = zero(problem.beta != 0.0, self.before[place].value());
        let bias = zero(epilogue.has_bias, self.bias[row].value());
        let residual = match epilogue.residual {
            Some((ld, stride)) => self.residual[z * stride as usize + column * ld + row].value(),
            None => 0.0,
        };
        if T::DTYPE == GemmDtype::I8 {
            // Exact: modulo 2^32, and every term here is below 2^53.
            let terms = [problem.alpha * sum, problem.beta * old, bias, residual];
            let wrapped = terms.map(|term| term as i64 as i32);
            return (wrapped.into_iter().fold(0, i32::wrapping_add).into(), 0.0);
        }
        let x = problem.alpha * sum + problem.beta * old + bias;
        let expected = activate(epilogue.activation, x) + residual;
        let scale = problem.alpha.abs() * magnitude + (problem.beta * old).abs() + bias.abs();
        let bound = bound::<T>(problem, epilogue, scale, x, residual, expected);
        (expected, bound)
    }
}

/// How far a result may be from the exact one.
///
/// Each of the k + 3 operations of the sum, of which `scale` is the sum of the terms' absolute values, rounds once: half
/// an epsilon of a partial result, here and (for f64, where it matters) in the reference. split-K adds in another
/// order and so no more. None of the functions is steeper than 1.13, and OpenCL, whose library they come from, allows
/// exp and erf 16 epsilons, which are of 1 + erf or of 1 + exp at most. Then the result is rounded. Where a pass over C
/// does the epilogue C is rounded before as well.
fn bound<T: Element>(
    problem: &GemmProblem,
    epilogue: &DrawnEpilogue,
    scale: f64,
    x: f64,
    residual: f64,
    expected: f64,
) -> f64 {
    let (sum_epsilon, input_epsilon) = precision(problem, T::SUM_EPSILON);
    let mut bound = ((problem.k + 3) as f64 * sum_epsilon + input_epsilon) * scale;
    let is_plain = epilogue.activation == Activation::None
        && epilogue.residual.is_none()
        && !epilogue.has_bias;
    if !is_plain {
        bound += T::Output::EPSILON * scale;
        bound = 1.13 * bound + sum_epsilon * (20.0 * x.abs() + residual.abs());
    }
    // Half the smallest subnormal of f16 is what rounding may lose below its range.
    let subnormal = if T::DTYPE == GemmDtype::F16 {
        6e-8
    } else {
        1e-300
    };
    bound + T::Output::EPSILON * expected.abs() + subnormal
}

/// Spacing of numbers around 1 in the type of the sums, and by how much the factors of a product may be rounded.
fn precision(problem: &GemmProblem, full: f64) -> (f64, f64) {
    match problem.compute {
        cublasComputeType_t::CUBLAS_COMPUTE_16F => (0.000_976_562_5, 0.0),
        // TF32 has 10 bits behind the point; each of two factors loses at most the last one.
        cublasComputeType_t::CUBLAS_COMPUTE_32F_FAST_TF32 => (full, 2.0 * 0.000_976_562_5),
        _ => (full, 0.0),
    }
}

/// A product of matrices that begin where these buffers do.
fn on_buffers<T: Element>(
    stream: &Stream,
    problem: GemmProblem,
    a: &DeviceBuffer<T>,
    b: &DeviceBuffer<T>,
    c: &mut DeviceBuffer<T::Output>,
) -> GemmProblem {
    GemmProblem {
        a: a.device_ptr(stream).0,
        b: b.device_ptr(stream).0,
        c: c.device_ptr_mut(stream).0,
        ..problem
    }
}

/// A contiguous product of one matrix.
fn simple<T: Element>(
    transa: Transpose,
    transb: Transpose,
    m: usize,
    n: usize,
    k: usize,
) -> GemmProblem {
    GemmProblem {
        transa,
        transb,
        m,
        n,
        k,
        alpha: 1.0,
        a: 0,
        lda: stored(transa, m, k).0.max(1),
        stride_a: (m * k) as i64,
        b: 0,
        ldb: stored(transb, k, n).0.max(1),
        stride_b: (k * n) as i64,
        beta: 0.0,
        c: 0,
        ldc: m.max(1),
        stride_c: (m * n) as i64,
        batch: 1,
        dtype: T::DTYPE,
        compute: T::DTYPE.compute(),
    }
}

const OPS: [Transpose; 2] = [Transpose::No, Transpose::Yes];

/// Every kernel once or more: those for few columns by all plans for some shapes, tiles by shapes with edges, and
/// the ones of matrix units with split-K as well. Each with an epilogue.
fn every_kernel<T: Element>(stream: &Arc<Stream>) {
    let mut draw = Random::from_state(1);
    let mut run_with = |problem: GemmProblem, by: By, has_epilogue: bool| -> Plan {
        let epilogue = match has_epilogue {
            true => draw_epilogue::<T>(&mut draw, &problem),
            false => DrawnEpilogue::default(),
        };
        let case = Case {
            problem,
            epilogue,
            offsets: [0; 3],
            by,
        };
        check::<T>(stream, &case, &mut draw).plan.unwrap()
    };
    let processor = stream.context().info().processor;
    for op_a in OPS {
        for op_b in OPS {
            let tiles = match upcasts::<T>() {
                true => None,
                false => Some(tiles(processor, kernels_dtype(T::DTYPE))),
            };
            for tile in tiles.into_iter().flatten() {
                let kernel = Kernel::Tile { tile, op_a, op_b };
                let [rows, columns] = [tile.rows, tile.columns].map(|size| size as usize);
                // Edges, and whole tiles whose loops go round more than once.
                for problem in [
                    simple::<T>(op_a, op_b, rows - 1, columns - 1, 37),
                    simple::<T>(op_a, op_b, rows, 2 * columns, 64),
                ] {
                    let by = By::This {
                        kernel,
                        k_per_split: 0,
                    };
                    run_with(problem, by, true);
                }
            }
            for tile in MatrixTile::all(processor, T::DTYPE) {
                let kernel = Kernel::Matrix { tile, op_a, op_b };
                let (rows, columns) = (tile.rows as usize, tile.columns as usize);
                let depth = tile.depth as usize;
                // More stages than LDS holds, where they are copied straight to it.
                let slices = if tile.dynamic_lds > 0 { 6 } else { 2 };
                let whole = simple::<T>(op_a, op_b, rows, columns, slices * depth);
                run_with(
                    whole,
                    By::This {
                        kernel,
                        k_per_split: 0,
                    },
                    true,
                );
                // What is stored without more ado, by loops that go round more than once.
                let bare = simple::<T>(op_a, op_b, rows, 2 * columns, (slices + 2) * depth + 3);
                run_with(
                    bare,
                    By::This {
                        kernel,
                        k_per_split: 0,
                    },
                    false,
                );
                // More parts than are read at a time where they are reduced in the kernel.
                let edges = simple::<T>(op_a, op_b, rows + 1, columns - 1, 5 * depth + 3);
                let k_per_split = tile.depth;
                run_with(
                    edges,
                    By::This {
                        kernel,
                        k_per_split,
                    },
                    true,
                );
                // As many as larger tiles hand over.
                if rows * columns > 64 * 64 {
                    let k_per_split = 3 * tile.depth;
                    run_with(
                        edges,
                        By::This {
                            kernel,
                            k_per_split,
                        },
                        true,
                    );
                }
            }
        }
    }
    if upcasts::<T>() {
        return;
    }
    // Those for few columns with every number of warps to a row, and k whole and in parts.
    let gpu = Gpu {
        processor,
        compute_units: 96,
    };
    let mut names = BTreeSet::new();
    let kernels = OPS.map(|op| {
        let rows_together = op == Transpose::No;
        let columns = skinny::columns(processor, kernels_dtype(T::DTYPE), rows_together);
        columns.iter().map(move |&columns| (columns, op))
    });
    for (columns, op_a) in kernels.into_iter().flatten() {
        for (m, k) in [(45, 100), (45, 1100), (70, 100), (129, 2600)] {
            let problem = simple::<T>(op_a, Transpose::No, m, columns as usize, k);
            let plans = Plan::candidates(&problem, &Epilogue::default(), gpu);
            for (number, plan) in plans.iter().enumerate() {
                if let Kernel::Skinny(skinny) = plan.kernel {
                    let by = By::Kernel {
                        compute_units: gpu.compute_units,
                        number,
                    };
                    assert_eq!(run_with(problem, by, true).kernel, plan.kernel);
                    names.insert((
                        plan.kernel.name(T::DTYPE),
                        skinny.log2_slice_k,
                        plan.splits > 1,
                    ));
                }
            }
        }
        let name = format!("skinny_{}_{}_n{columns}", op_a.letter(), T::DTYPE.name());
        for log2_slice_k in 0..2 {
            let found = |splits| names.contains(&(name.clone(), log2_slice_k, splits));
            assert!(
                found(false) && found(true),
                "{name} {log2_slice_k}: {names:?}"
            );
        }
    }
}

fn kernels_dtype(dtype: GemmDtype) -> matmul::Dtype {
    let name = |of: &matmul::Dtype| of.name() == dtype.name();
    matmul::Dtype::ALL.into_iter().find(name).unwrap()
}

fn draw_epilogue<T: Element>(draw: &mut Random, problem: &GemmProblem) -> DrawnEpilogue {
    if upcasts::<T>() {
        return DrawnEpilogue::default();
    }
    let activation = match T::DTYPE {
        GemmDtype::I8 => Activation::None,
        _ => draw.choose(&Activation::ALL),
    };
    let ld = problem.m.max(1) + draw.choose(&[0, 0, 1, 4]);
    let stride = (problem.n * ld + draw.choose(&[0, 0, 8])) as i64 * draw.choose(&[0, 1, 1]);
    DrawnEpilogue {
        has_bias: draw.choose(&[false, true]),
        activation,
        residual: draw.choose(&[None, Some((ld, stride))]),
    }
}

/// m, n and k that are drawn: empty, odd, a tile and one more or less, and several tiles.
const SIZES: [usize; 16] = [
    0, 1, 2, 3, 7, 16, 17, 31, 64, 65, 127, 128, 255, 257, 512, 1000,
];
/// Most multiply-adds of a drawn case, so that 2,000 of them take the emulator less than a minute. Every size is
/// still drawn for m, for n and for k, with small partners.
const MOST_WORK: usize = 1_500_000;

/// Shapes, operations, strides, places, factors and epilogues drawn at random; `by` may be drawn as well.
/// Whether nobody multiplies the type here: bytes on NVIDIA's older GPUs, for which the error is looked at instead.
fn refused<T: Element>(stream: &Arc<Stream>) -> bool {
    let arch = &stream.context().info().arch;
    let gpu = Gpu {
        processor: stream.context().info().processor,
        compute_units: 1,
    };
    let mut problem = simple::<T>(Transpose::No, Transpose::No, 4, 4, 4);
    if !Plan::candidates(&problem, &Epilogue::default(), gpu).is_empty() {
        return false;
    }
    assert!(
        T::DTYPE == GemmDtype::I8 && arch.starts_with("sm_"),
        "no kernels for {} on {arch}",
        T::DTYPE.name()
    );
    let memory = stream.alloc_zeros::<f64>(64).unwrap();
    problem.a = memory.device_ptr(stream).0;
    problem.b = problem.a + 128;
    problem.c = problem.a + 256;
    // SAFETY: three matrices of 16 elements of at most 4 bytes, one after another.
    let error = unsafe { gemm::gemm_strided_batched(stream, &problem) }.unwrap_err();
    let expected = format!("there are no kernels for i8 on {arch}");
    assert!(error.to_string().contains(&expected), "{error}");
    true
}

/// Returns the errors of a library and of our kernels, case by case.
fn drawn<T: Element>(
    stream: &Arc<Stream>,
    seed: u64,
    count: usize,
    compute: cublasComputeType_t,
    by: impl Fn(&mut Random) -> By,
) -> Vec<[f64; 2]> {
    if refused::<T>(stream) {
        return Vec::new();
    }
    let mut beside_library = Vec::new();
    let mut draw = Random::from_state(seed);
    let mut done = 0;
    let mut sizes = BTreeSet::new();
    // Empty sums are nobody's: a library has a hundred of its own all the same.
    while done < count || (1..100).contains(&beside_library.len()) {
        let [m, n, k] = [0; 3].map(|_| draw.choose(&SIZES));
        let batch = draw.choose(&[0, 1, 1, 1, 2, 3]);
        if m * n * k.max(1) * batch > MOST_WORK {
            continue;
        }
        sizes.extend([(0, m), (1, n), (2, k)]);
        let mut problem = simple::<T>(draw.choose(&OPS), draw.choose(&OPS), m, n, k);
        problem.batch = batch;
        problem.compute = compute;
        problem.lda += draw.choose(&[0, 0, 1, 4, 13]);
        problem.ldb += draw.choose(&[0, 0, 1, 4, 13]);
        problem.ldc += draw.choose(&[0, 0, 1, 4, 13]);
        let stride = |op, rows, columns, ld, draw: &mut Random| {
            let (_, columns) = stored(op, rows, columns);
            (columns * ld + draw.choose(&[0, 0, 1, 8])) as i64
        };
        problem.stride_a =
            stride(problem.transa, m, k, problem.lda, &mut draw) * draw.choose(&[0, 1, 1]);
        problem.stride_b =
            stride(problem.transb, k, n, problem.ldb, &mut draw) * draw.choose(&[0, 1, 1]);
        problem.stride_c = stride(Transpose::No, m, n, problem.ldc, &mut draw).max(1);
        let (alphas, betas) = match T::DTYPE {
            GemmDtype::I8 => ([1.0, 1.0, -3.0, 2.0, 0.0], [0.0, 0.0, 1.0, -2.0]),
            _ => ([1.0, 1.0, -0.75, 2.0, 0.0], [0.0, 0.0, 1.0, 0.25]),
        };
        problem.alpha = draw.choose(&alphas);
        problem.beta = draw.choose(&betas);
        let epilogue = match draw.choose(&[false, true]) {
            false => DrawnEpilogue::default(),
            true => draw_epilogue::<T>(&mut draw, &problem),
        };
        let case = Case {
            problem,
            epilogue,
            offsets: [0; 3].map(|_| draw.choose(&[0, 0, 1, 3])),
            by: by(&mut draw),
        };
        beside_library.extend(check::<T>(stream, &case, &mut draw).beside_library);
        done += 1;
    }
    assert_eq!(sizes.len(), 3 * SIZES.len(), "a size was never drawn");
    beside_library
}

/// Says how a vendor's library did, and our kernels on the same numbers.
fn print_beside<T: Element>(stream: &Stream, errors: &[[f64; 2]]) {
    if errors.is_empty() {
        return;
    }
    let worst = |which: usize| errors.iter().map(|error| error[which]).fold(0.0, f64::max);
    println!(
        "{} on {}: {} products by the library, largest error {:.2} of what is allowed, ours on the same {:.2}",
        T::DTYPE.name(),
        stream.context().info().arch,
        errors.len(),
        worst(0),
        worst(1)
    );
}

macro_rules! for_each_type {
    ($($every:ident $drawn:ident $chosen:ident $type:ty, $reduced:ident;)*) => {
        $(
            #[test]
            fn $every() {
                on_each_device(stringify!($every), |context| every_kernel::<$type>(&context.default_stream()));
            }
            #[test]
            fn $drawn() {
                on_each_device(stringify!($drawn), |context| {
                    let by = |draw: &mut Random| By::Kernel {
                        compute_units: draw.choose(&[1, 20, 304]),
                        // Half of them the first, which is what would run.
                        number: draw.choose(&[0, 0, 0, 0, 1, 2, 3, 5, 8, 13]),
                    };
                    drawn::<$type>(&context.default_stream(), 7, 420, <$type>::DTYPE.compute(), by);
                });
            }
            #[test]
            fn $chosen() {
                on_each_device(stringify!($chosen), |context| {
                    let stream = context.per_thread_stream();
                    println!("{}", gemm::library::describe(&stream).unwrap());
                    for compute in [<$type>::DTYPE.compute(), cublasComputeType_t::$reduced] {
                        let errors = drawn::<$type>(&stream, 11, 200, compute, |_| By::Choice);
                        print_beside::<$type>(&stream, &errors);
                    }
                });
            }
        )*
    };
}
for_each_type! {
    every_kernel_f32 drawn_f32 chosen_f32 f32, CUBLAS_COMPUTE_32F_FAST_TF32;
    every_kernel_f64 drawn_f64 chosen_f64 f64, CUBLAS_COMPUTE_64F;
    every_kernel_f16 drawn_f16 chosen_f16 f16, CUBLAS_COMPUTE_16F;
    every_kernel_bf16 drawn_bf16 chosen_bf16 bf16, CUBLAS_COMPUTE_32F_FAST_16BF;
    every_kernel_i8 drawn_i8 chosen_i8 i8, CUBLAS_COMPUTE_32I;
    every_kernel_f16_into_f32 drawn_f16_into_f32 chosen_f16_into_f32 IntoF32<f16>, CUBLAS_COMPUTE_32F_FAST_16F;
    every_kernel_bf16_into_f32 drawn_bf16_into_f32 chosen_bf16_into_f32 IntoF32<bf16>, CUBLAS_COMPUTE_32F_FAST_16BF;
}

#[test]
fn equal_inputs_give_equal_bits() {
    on_each_device("equal_inputs_give_equal_bits", |context| {
        let stream = context.default_stream();
        for (m, n, k) in [(65, 65, 65), (100, 1, 300), (1, 100, 300), (40, 40, 5000)] {
            let numbers: Vec<f32> = (0..m * k.max(n) + n * k)
                .map(|i| (i as f32).sin())
                .collect();
            let a = stream.clone_htod(&numbers).unwrap();
            let mut results = BTreeSet::new();
            for _ in 0..5 {
                let mut c = stream.alloc_zeros::<f32>(m * n).unwrap();
                let mut problem = simple::<f32>(Transpose::Yes, Transpose::No, m, n, k);
                problem.a = a.device_ptr(&stream).0;
                problem.b = problem.a + 4;
                problem.c = c.device_ptr_mut(&stream).0;
                // SAFETY: both matrices lie within `a`, and C is `c`.
                unsafe { gemm::gemm_strided_batched(&stream, &problem) }.unwrap();
                let bits: Vec<u32> = stream
                    .clone_dtoh(&c)
                    .unwrap()
                    .into_iter()
                    .map(f32::to_bits)
                    .collect();
                results.insert(bits);
            }
            assert_eq!(results.len(), 1, "{m} x {n} x {k}");
        }
    });
}

#[test]
fn a_batch_beyond_the_grid_is_split() {
    on_each_device("a_batch_beyond_the_grid_is_split", |context| {
        let stream = context.default_stream();
        let batch = 65_535 + 3;
        let a: Vec<f32> = (0..batch).map(|i| i as f32).collect();
        let device_a = stream.clone_htod(&a).unwrap();
        let device_b = stream.clone_htod(&[2.0f32]).unwrap();
        let mut device_c = stream.alloc_zeros::<f32>(batch).unwrap();
        let problem = GemmProblem {
            stride_b: 0,
            batch,
            ..simple::<f32>(Transpose::No, Transpose::No, 1, 1, 1)
        };
        let problem = on_buffers(&stream, problem, &device_a, &device_b, &mut device_c);
        // SAFETY: the buffers hold that many matrices of one element.
        unsafe { gemm::gemm_strided_batched(&stream, &problem) }.unwrap();
        let doubled: Vec<f32> = a.iter().map(|x| 2.0 * x).collect();
        assert_eq!(stream.clone_dtoh(&device_c).unwrap(), doubled);
    });
}

/// Square matrices of f32 with the product by whatever `CANDLE_ROCM_GEMM` says.
struct Square {
    size: usize,
    a: DeviceBuffer<f32>,
    b: DeviceBuffer<f32>,
    c: DeviceBuffer<f32>,
}

impl Square {
    fn new(stream: &Arc<Stream>, size: usize) -> Self {
        let zeros = || stream.alloc_zeros::<f32>(size * size).unwrap();
        let [a, b, c] = [zeros(), zeros(), zeros()];
        Self { size, a, b, c }
    }

    /// Sets A to so many times the unit matrix, and B's elements to their places.
    fn set(&mut self, stream: &Arc<Stream>, factor: f32) {
        let n = self.size;
        let a: Vec<f32> = (0..n * n)
            .map(|i| if i / n == i % n { factor } else { 0.0 })
            .collect();
        let b: Vec<f32> = (0..n * n).map(|i| i as f32).collect();
        stream.memcpy_htod(&a, &mut self.a).unwrap();
        stream.memcpy_htod(&b, &mut self.b).unwrap();
    }

    fn multiply(&mut self, stream: &Arc<Stream>) {
        let n = self.size;
        let mut problem = simple::<f32>(Transpose::No, Transpose::No, n, n, n);
        let ((a, _a), (b, _b), (c, _c)) = (
            self.a.device_ptr(stream),
            self.b.device_ptr(stream),
            self.c.device_ptr_mut(stream),
        );
        (problem.a, problem.b, problem.c) = (a, b, c);
        // SAFETY: the buffers hold the matrices.
        unsafe { gemm::gemm_strided_batched(stream, &problem) }.unwrap();
    }

    fn check(&self, stream: &Arc<Stream>, factor: f32) {
        for (i, c) in stream.clone_dtoh(&self.c).unwrap().into_iter().enumerate() {
            assert_eq!(c, factor * i as f32, "element {i}");
        }
    }
}

/// What this thread gives to the stream, and to those that join it, meanwhile.
fn captured(stream: &Arc<Stream>, work: impl FnOnce()) -> Graph {
    stream
        .begin_capture(CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL)
        .unwrap();
    work();
    stream
        .end_capture(CUgraphInstantiate_flags::default())
        .unwrap()
        .unwrap()
}

#[test]
fn a_captured_product_is_computed_at_each_launch() {
    on_each_device("a_captured_product_is_computed_at_each_launch", |context| {
        let stream = context.new_stream().unwrap();
        let mut square = Square::new(&stream, 96);
        square.set(&stream, 1.0);
        // The module is loaded outside of the capture.
        square.multiply(&stream);
        let graph = captured(&stream, || {
            square.multiply(&stream);
        });
        for factor in [2.0, 3.0] {
            square.set(&stream, factor);
            graph.launch().unwrap();
            square.check(&stream, factor);
        }
    });
}

/// The splits' sums lie in memory that the capture allocates and frees.
#[test]
fn a_captured_product_in_parts_is_computed_at_each_launch() {
    const SIZE: usize = 40;
    const LONG: usize = 8192;
    let test = "a_captured_product_in_parts_is_computed_at_each_launch";
    on_each_device(test, |context| {
        let stream = context.new_stream().unwrap();
        let mut a = stream.alloc_zeros::<f16>(SIZE * LONG).unwrap();
        let b = stream.clone_htod(&vec![f16::ONE; SIZE * LONG]).unwrap();
        let mut c = stream.alloc_zeros::<f16>(SIZE * SIZE).unwrap();
        let problem = simple::<f16>(Transpose::Yes, Transpose::No, SIZE, SIZE, LONG);
        let problem = on_buffers(&stream, problem, &a, &b, &mut c);
        let plan = Plan::new(&problem, &Epilogue::default(), context.info().into()).unwrap();
        if context.info().arch.starts_with("gfx") {
            assert!(plan.splits > 1, "{}", plan.description());
        }
        // SAFETY: the buffers hold the matrices.
        let multiply = || unsafe { gemm::launch_plan(&stream, &plan) }.unwrap();
        multiply();
        let graph = captured(&stream, || {
            multiply();
            multiply();
        });
        for factor in [2.0, 3.0] {
            let numbers = vec![f16::from_f32(factor); SIZE * LONG];
            stream.memcpy_htod(&numbers, &mut a).unwrap();
            graph.launch().unwrap();
            let expected = f16::from_f32(factor * LONG as f32);
            assert_eq!(stream.clone_dtoh(&c).unwrap(), vec![expected; SIZE * SIZE]);
        }
    });
}

#[test]
fn threads_and_streams_multiply_at_once() {
    on_each_device("threads_and_streams_multiply_at_once", |context| {
        let shared = context.per_thread_stream();
        std::thread::scope(|scope| {
            for thread in 1..=6u8 {
                let (context, shared) = (&context, &shared);
                scope.spawn(move || {
                    // Half of them use the stream of their thread behind one handle, as Candle does.
                    let stream = match thread % 2 {
                        0 => shared.clone(),
                        _ => context.new_stream().unwrap(),
                    };
                    for round in 0..10 {
                        let mut square = Square::new(&stream, 32 + usize::from(thread));
                        let factor = f32::from(thread) + round as f32;
                        square.set(&stream, factor);
                        square.multiply(&stream);
                        square.check(&stream, factor);
                    }
                });
            }
        });
    });
}

/// Whether the splits' sums are reduced in the kernel, of tiles: more of them than are read at a time.
fn has_small_tiles_in_parts(plan: &Plan) -> bool {
    matches!(plan.kernel, Kernel::Matrix { .. }) && plan.may_wait() && plan.splits > 4
}

/// A product in parts, of whole numbers, whose splits are reduced in the kernel.
struct SplitK<T: Element> {
    _operands: [DeviceBuffer<T>; 2],
    c: DeviceBuffer<T>,
    plan: Plan,
    expected: Vec<f64>,
}

impl<T: Element<Output = T> + ValidAsZeroBits> SplitK<T> {
    const ROWS: usize = 45;

    /// Of three columns.
    fn skinny(stream: &Arc<Stream>) -> Self {
        Self::new(stream, [3, 8192], |plan| {
            matches!(plan.kernel, Kernel::Skinny(_)) && plan.splits > 1
        })
    }

    /// Of a matrix unit's small tiles.
    fn tiles(stream: &Arc<Stream>) -> Self {
        Self::new(stream, [40, 1536], has_small_tiles_in_parts)
    }

    fn new(stream: &Arc<Stream>, [n, k]: [usize; 2], suits: fn(&Plan) -> bool) -> Self {
        let m = Self::ROWS;
        let a: Vec<f64> = (0..m * k).map(|i| (i * i / 7 % 3) as f64).collect();
        let b: Vec<f64> = (0..n * k).map(|i| (i / 5 % 2 + 1) as f64).collect();
        // Exact in the sums' type, and once rounded in the result's.
        let element = |i: usize| -> f64 {
            let (row, column) = (i % m * k, i / m * k);
            T::new((0..k).map(|l| a[row + l] * b[column + l]).sum()).value()
        };
        let expected = (0..m * n).map(element).collect();
        let [a, b] = [a, b].map(|numbers| {
            let numbers: Vec<T> = numbers.into_iter().map(T::new).collect();
            stream.clone_htod(&numbers).unwrap()
        });
        let mut c = stream.alloc_zeros::<T>(m * n).unwrap();
        let problem = simple::<T>(Transpose::Yes, Transpose::No, m, n, k);
        let problem = on_buffers(stream, problem, &a, &b, &mut c);
        let gpu = stream.context().info().into();
        let plans = Plan::candidates(&problem, &Epilogue::default(), gpu);
        let plan = plans.into_iter().find(suits).unwrap();
        Self {
            _operands: [a, b],
            c,
            plan,
            expected,
        }
    }

    /// Returns in how many launches.
    fn multiply(&self, stream: &Stream) -> usize {
        // SAFETY: the buffers hold the matrices, and live as long as `self`.
        let (done, noted) = enqueued::recorded(|| unsafe { gemm::launch_plan(stream, &self.plan) });
        done.unwrap();
        noted.kernels.len()
    }

    fn check(&mut self, stream: &Arc<Stream>) {
        let results = stream.clone_dtoh(&self.c).unwrap().into_iter();
        assert_eq!(results.map(T::value).collect::<Vec<_>>(), self.expected);
        stream.memset_zeros(&mut self.c).unwrap();
    }
}

/// What is done with a product in parts on a stream.
fn on_streams<T>(context: &Arc<Context>, make: fn(&Arc<Stream>) -> SplitK<T>)
where
    T: Element<Output = T> + ValidAsZeroBits,
{
    let of_thread = context.per_thread_stream();
    let streams = [
        context.default_stream(),
        of_thread.clone(),
        context.new_stream().unwrap(),
    ];
    for stream in streams {
        let mut product = make(&stream);
        for _ in 0..3 {
            assert_eq!(product.multiply(&stream), 1);
            product.check(&stream);
        }
    }
    // What streams and threads leave, others have.
    for _ in 0..3 {
        let stream = context.new_stream().unwrap();
        let mut product = make(&stream);
        assert_eq!(product.multiply(&stream), 1);
        product.check(&stream);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let mut product = make(&of_thread);
                assert_eq!(product.multiply(&of_thread), 1);
                product.check(&of_thread);
            });
        });
    }
}

#[test]
fn parts_are_added_up_within_their_launch() {
    on_each_device("parts_are_added_up_within_their_launch", |context| {
        on_streams(context, SplitK::<f32>::skinny);
        on_streams(context, SplitK::<f16>::tiles);
        on_streams(context, SplitK::<bf16>::tiles);
    });
}

/// A graph shares its stream's split_k_workspace; a stream that became a part of another's capture has none there, since
/// it may be given work while the graph runs, and neither has a thread's own, whose graph another thread may launch on
/// its own.
#[test]
fn captured_parts_are_added_up() {
    on_each_device("captured_parts_are_added_up", |context| {
        let stream = context.new_stream().unwrap();
        let other = context.new_stream().unwrap();
        // SAFETY: what the streams share they wait for.
        unsafe { context.disable_event_tracking() };
        capture_of_two_streams([&stream, &other], SplitK::<f32>::skinny);
        capture_of_two_streams([&stream, &other], SplitK::<f16>::tiles);

        let own = context.per_thread_stream();
        second_launch_adds_captured_parts_up(&own, SplitK::<f16>::skinny);
        second_launch_adds_captured_parts_up(&own, SplitK::<bf16>::skinny);
        second_launch_adds_captured_parts_up(&own, SplitK::<f32>::skinny);
        second_launch_adds_captured_parts_up(&own, SplitK::<f64>::skinny);
        second_launch_adds_captured_parts_up(&own, SplitK::<bf16>::tiles);
    });
}

fn capture_of_two_streams<T>(
    [stream, other]: [&Arc<Stream>; 2],
    make: fn(&Arc<Stream>) -> SplitK<T>,
) where
    T: Element<Output = T> + ValidAsZeroBits,
{
    let mut products = [stream, other].map(make);
    // Modules are loaded outside of the capture.
    assert_eq!(products[1].multiply(other), 1);
    products[1].check(other);
    let graph = captured(stream, || {
        other.join(stream).unwrap();
        assert_eq!(products[1].multiply(other), 2);
        assert_eq!(products[0].multiply(stream), 1);
        stream.join(other).unwrap();
    });
    for _ in 0..2 {
        graph.launch().unwrap();
        for product in &mut products {
            product.check(stream);
        }
        assert_eq!(products[0].multiply(stream), 1);
        products[0].check(stream);
    }
}

/// The capture of a stream without a split_k_workspace has a second launch for the parts, whatever their type.
fn second_launch_adds_captured_parts_up<T>(
    stream: &Arc<Stream>,
    make: fn(&Arc<Stream>) -> SplitK<T>,
) where
    T: Element<Output = T> + ValidAsZeroBits,
{
    let mut product = make(stream);
    assert_eq!(product.multiply(stream), 1);
    product.check(stream);
    let graph = captured(stream, || {
        assert_eq!(product.multiply(stream), 2);
    });
    graph.launch().unwrap();
    product.check(stream);
}

/// Of tiles: a graph's results are those of the same product before it. And what is no number comes through, of which a
/// sum may have all bits set, as where there is none yet.
#[test]
fn parts_of_tiles_have_the_same_sums_in_one_launch_and_in_two() {
    const SIZES: [usize; 3] = [70, 50, 1536];
    let test = "parts_of_tiles_have_the_same_sums_in_one_launch_and_in_two";
    on_each_device(test, |context| {
        let stream = context.per_thread_stream();
        let [m, n, k] = SIZES;
        let mut draw = Random::from_state(3);
        let mut numbers = |count: usize| -> Vec<f16> {
            let number = |_| f16::from_f64(draw.signed());
            (0..count).map(number).collect()
        };
        let (mut a, b) = (numbers(m * k), numbers(k * n));
        // The second row, all of it, and an element of the fourth.
        a[k..2 * k].fill(f16::from_bits(0xffff));
        a[3 * k + 77] = f16::INFINITY;
        let a = stream.clone_htod(&a).unwrap();
        let b = stream.clone_htod(&b).unwrap();
        let mut c = stream.alloc_zeros::<f16>(m * n).unwrap();
        let problem = simple::<f16>(Transpose::Yes, Transpose::No, m, n, k);
        let problem = on_buffers(&stream, problem, &a, &b, &mut c);
        let gpu = context.info().into();
        let plans = Plan::candidates(&problem, &Epilogue::default(), gpu);
        let plan = plans.into_iter().find(has_small_tiles_in_parts).unwrap();
        // SAFETY: the buffers hold the matrices.
        let multiply = || unsafe { gemm::launch_plan(&stream, &plan) }.unwrap();
        multiply();
        let bits = |c: &DeviceBuffer<f16>| -> Vec<u16> {
            let numbers = stream.clone_dtoh(c).unwrap();
            numbers.into_iter().map(f16::to_bits).collect()
        };
        let in_one = bits(&c);
        stream.memset_zeros(&mut c).unwrap();
        captured(&stream, multiply).launch().unwrap();
        assert_eq!(bits(&c), in_one);
        for (i, bits) in in_one.into_iter().enumerate() {
            let number = f16::from_bits(bits);
            match i % m {
                1 => assert!(number.is_nan()),
                3 => assert!(number.is_infinite() || number.is_nan()),
                _ => assert!(number.is_finite()),
            }
        }
    });
}

/// Where a GPU has several second-level caches, each may have splits of its own: the same sums of whole numbers as
/// undivided.
#[test]
fn second_level_caches_have_parts_of_their_own() {
    const SIZES: [usize; 3] = [17 * 64 - 3, 61, 2048];
    on_each_device("second_level_caches_have_parts_of_their_own", |context| {
        let stream = context.per_thread_stream();
        let [m, n, k] = SIZES;
        let mut draw = Random::from_state(5);
        let mut numbers = |count: usize| {
            let number = |_| f16::from_f64((draw.signed() * 1.5).round());
            let numbers: Vec<f16> = (0..count).map(number).collect();
            stream.clone_htod(&numbers).unwrap()
        };
        let (a, b) = (numbers(m * k), numbers(k * n));
        let mut c = stream.alloc_zeros::<f16>(m * n).unwrap();
        let problem = simple::<f16>(Transpose::Yes, Transpose::No, m, n, k);
        let problem = on_buffers(&stream, problem, &a, &b, &mut c);
        let gpu = context.info().into();
        let mut plans = Plan::candidates(&problem, &Epilogue::default(), gpu);
        plans.retain(|plan| matches!(plan.kernel, Kernel::Matrix { .. }));
        let has_several = plans.iter().any(|plan| plan.xcds > 1);
        let dealt = plans.iter().find(|plan| plan.splits_per_xcd);
        assert_eq!(dealt.is_some(), has_several);
        let Some(dealt) = dealt else { return };
        let whole = plans.iter().find(|plan| plan.splits == 1).unwrap();
        let mut of = |plan: &Plan| {
            stream.memset_zeros(&mut c).unwrap();
            // SAFETY: the buffers hold the matrices.
            unsafe { gemm::launch_plan(&stream, plan) }.unwrap();
            stream.clone_dtoh(&c).unwrap()
        };
        let expected = of(whole);
        assert!(expected.iter().any(|x| x.to_f64().abs() > 20.0));
        assert_eq!(of(dealt), expected);
    });
}

/// By matrix units that take f32 apart, too: infinities and what is beyond the largest number.
#[test]
fn few_columns_keep_what_is_no_finite_number() {
    const ROWS: usize = 37;
    const LONG: usize = 300;
    on_each_device("few_columns_keep_what_is_no_finite_number", |context| {
        let stream = context.default_stream();
        for (op, columns) in OPS
            .into_iter()
            .flat_map(|op| [1, 3, 8, 16].map(|n| (op, n)))
        {
            let mut a = vec![1.0f32; ROWS * LONG];
            let mut set = |row: usize, k: usize, x: f32| {
                let (rows, _) = stored(op, ROWS, LONG);
                a[index(op, rows, row, k)] = x;
            };
            set(3, 7, f32::INFINITY);
            set(4, 290, f32::NEG_INFINITY);
            set(5, 8, f32::INFINITY);
            set(5, 9, f32::NEG_INFINITY);
            set(6, 120, f32::NAN);
            set(7, 40, f32::MAX);
            // Thrice half of the largest.
            for k in 40..43 {
                set(8, k, f32::MAX);
            }
            let b = vec![0.5f32; columns * LONG];
            let expected = |row: usize| match row {
                3 | 8 => f32::INFINITY,
                4 => f32::NEG_INFINITY,
                5 | 6 => f32::NAN,
                // Beside which the others are nothing.
                7 => f32::MAX / 2.0,
                _ => LONG as f32 / 2.0,
            };
            let (a, b) = (
                stream.clone_htod(&a).unwrap(),
                stream.clone_htod(&b).unwrap(),
            );
            let mut c = stream.alloc_zeros::<f32>(ROWS * columns).unwrap();
            let problem = simple::<f32>(op, Transpose::No, ROWS, columns, LONG);
            let problem = on_buffers(&stream, problem, &a, &b, &mut c);
            let plan = Plan::new(&problem, &Epilogue::default(), context.info().into()).unwrap();
            // SAFETY: the buffers hold the matrices.
            unsafe { gemm::launch_plan(&stream, &plan) }.unwrap();
            for (i, got) in stream.clone_dtoh(&c).unwrap().into_iter().enumerate() {
                let expected = expected(i % ROWS);
                let is_it = got == expected || got.is_nan() && expected.is_nan();
                assert!(is_it, "{op:?} {columns} columns: {got} in row {}", i % ROWS);
            }
        }
    });
}

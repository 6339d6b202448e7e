//! Matrix products against sums in f64: every kernel, and shapes, strides, factors and places drawn at
//! random, on each of the five emulated instruction sets. With `CANDLE_ROCM_RUNTIME=nvidia` they run on NVIDIA
//! GPUs, and what `CANDLE_ROCM_GEMM` chooses there is tested beside our own kernels.

mod common;

use std::collections::BTreeSet;
use std::sync::Arc;

use candle_rocm_runtime::cuda_names::{
    cublasComputeType_t, CUgraphInstantiate_flags, CUstreamCaptureMode,
};
use candle_rocm_runtime::gemm::plan::{Kernel, Plan, TILES};
use candle_rocm_runtime::gemm::{self, GemmDtype, GemmProblem, Transpose};
use candle_rocm_runtime::{
    runtime, Context, DeviceBuffer, DevicePtr, DevicePtrMut, DeviceRepr, RuntimeKind, Stream,
};
use half::{bf16, f16};

/// Runs the body on each of these that the build embeds.
const ARCHITECTURES: [&str; 5] = ["gfx90a", "gfx942", "gfx1030", "gfx1100", "gfx1201"];

fn on_each_device(test: &str, body: impl Fn(&Arc<Context>)) {
    if std::env::var(runtime::RUNTIME_VARIABLE).as_deref() == Ok("nvidia") {
        return common::in_process(test, &[], || {
            for ordinal in 0..runtime::current().unwrap().device_count() {
                body(&Context::new(ordinal).unwrap());
            }
        });
    }
    let embedded = candle_rocm_kernels::architectures();
    let chosen: Vec<&str> = ARCHITECTURES
        .into_iter()
        .filter(|arch| embedded.contains(arch))
        .collect();
    assert!(
        !chosen.is_empty(),
        "the build embeds none of {ARCHITECTURES:?}, only {embedded:?}"
    );
    common::in_process(test, &[("ROCM_EMU_ARCH", &chosen.join(","))], || {
        runtime::select(RuntimeKind::Emulator).unwrap();
        for (ordinal, arch) in chosen.iter().enumerate() {
            let context = Context::new(ordinal).unwrap();
            assert_eq!(context.device().info().arch, *arch);
            body(&context);
        }
    });
}

trait Element: DeviceRepr + Copy + Send + Sync + 'static {
    const DTYPE: GemmDtype;
    /// Spacing of numbers around 1 in this type, and in the type of its sums.
    const EPSILON: f64;
    const SUM_EPSILON: f64;
    fn new(value: f64) -> Self;
    fn value(self) -> f64;
    fn bits(self) -> u64;
}

macro_rules! element {
    ($type:ty, $dtype:ident, $sum:ty, $epsilon:expr, $x:ident, $new:expr, $value:expr) => {
        impl Element for $type {
            const DTYPE: GemmDtype = GemmDtype::$dtype;
            const EPSILON: f64 = $epsilon;
            const SUM_EPSILON: f64 = <$sum>::EPSILON as f64;
            fn new($x: f64) -> Self {
                $new
            }
            fn value(self) -> f64 {
                let $x = self;
                $value
            }
            fn bits(self) -> u64 {
                self.to_bits() as u64
            }
        }
    };
}
element!(
    f16,
    F16,
    f32,
    0.000_976_562_5,
    x,
    f16::from_f64(x),
    x.to_f64()
);
element!(
    bf16,
    BF16,
    f32,
    0.007_812_5,
    x,
    bf16::from_f64(x),
    x.to_f64()
);
element!(f32, F32, f32, f32::EPSILON as f64, x, x as f32, x as f64);
element!(f64, F64, f64, f64::EPSILON, x, x, x);

/// SplitMix64.
struct Draw(u64);
impl Draw {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
    fn from<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[(self.next() % choices.len() as u64) as usize]
    }
    /// -1 to 1.
    fn number(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 52) as f64 - 1.0
    }
}

/// Who computes a case.
#[derive(Clone, Copy)]
enum By {
    /// Our own kernel, planned for so many compute units.
    Kernel { compute_units: u32 },
    /// Whatever `CANDLE_ROCM_GEMM` says.
    Choice,
}

/// A product with its addresses counted in elements from the start of each buffer.
struct Case {
    problem: GemmProblem,
    offsets: [usize; 3],
    by: By,
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

/// Computes a case, checks every element of C's buffer, and returns the kernel's name.
fn check<T: Element>(stream: &Arc<Stream>, case: &Case, draw: &mut Draw) -> Option<String> {
    let mut problem = case.problem;
    let GemmProblem { m, n, k, batch, .. } = problem;
    let (a_rows, a_columns) = stored(problem.transa, m, k);
    let (b_rows, b_columns) = stored(problem.transb, k, n);
    let [a_at, b_at, c_at] = case.offsets;
    let length_a = a_at + extent(a_rows, a_columns, problem.lda, problem.stride_a, batch);
    let length_b = b_at + extent(b_rows, b_columns, problem.ldb, problem.stride_b, batch);
    let length_c = c_at + extent(m, n, problem.ldc, problem.stride_c, batch);
    // What is not an element of a matrix is NaN: reading it would show, and writing it too.
    let mut numbers = |length: usize, nan: bool| -> Vec<T> {
        (0..length.max(1))
            .map(|_| T::new(if nan { f64::NAN } else { draw.number() }))
            .collect()
    };
    let (mut a, mut b) = (numbers(length_a, true), numbers(length_b, true));
    // alpha = 0 must not read them at all.
    if problem.alpha != 0.0 {
        for z in 0..batch {
            for (matrix, at, op, rows, columns, ld, stride) in [
                (
                    &mut a,
                    a_at,
                    problem.transa,
                    m,
                    k,
                    problem.lda,
                    problem.stride_a,
                ),
                (
                    &mut b,
                    b_at,
                    problem.transb,
                    k,
                    n,
                    problem.ldb,
                    problem.stride_b,
                ),
            ] {
                for row in 0..rows {
                    for column in 0..columns {
                        matrix[at + z * stride as usize + index(op, ld, row, column)] =
                            T::new(draw.number());
                    }
                }
            }
        }
    }
    let before: Vec<T> = (0..length_c.max(1))
        .map(|_| {
            T::new(if problem.beta == 0.0 {
                f64::NAN
            } else {
                draw.number()
            })
        })
        .collect();

    let device_a = stream.clone_htod(&a).unwrap();
    let device_b = stream.clone_htod(&b).unwrap();
    let mut device_c = stream.clone_htod(&before).unwrap();
    let size = std::mem::size_of::<T>();
    let plan = {
        problem.a = device_a.device_ptr(stream).0 + (a_at * size) as u64;
        problem.b = device_b.device_ptr(stream).0 + (b_at * size) as u64;
        problem.c = device_c.device_ptr_mut(stream).0 + (c_at * size) as u64;
        problem.check().unwrap();
        match case.by {
            By::Kernel { compute_units } => Plan::new(&problem, compute_units),
            By::Choice => {
                // SAFETY: the buffers hold the matrices, at these addresses.
                unsafe { gemm::gemm_strided_batched(stream, &problem) }.unwrap();
                None
            }
        }
    };
    if let Some(plan) = &plan {
        // SAFETY: as above.
        unsafe { gemm::launch_plan(stream, plan) }.unwrap();
    }
    let after = stream.clone_dtoh(&device_c).unwrap();

    let mut written = vec![false; after.len()];
    for z in 0..batch {
        for column in 0..n {
            for row in 0..m {
                let place = c_at + z * problem.stride_c as usize + column * problem.ldc + row;
                written[place] = true;
                let (mut sum, mut magnitude) = (0.0, 0.0);
                if problem.alpha != 0.0 {
                    for l in 0..k {
                        let x = a[a_at
                            + z * problem.stride_a as usize
                            + index(problem.transa, problem.lda, row, l)]
                        .value();
                        let y = b[b_at
                            + z * problem.stride_b as usize
                            + index(problem.transb, problem.ldb, l, column)]
                        .value();
                        sum += x * y;
                        magnitude += (x * y).abs();
                    }
                }
                let (mut expected, mut scale) =
                    (problem.alpha * sum, problem.alpha.abs() * magnitude);
                if problem.beta != 0.0 {
                    expected += problem.beta * before[place].value();
                    scale += (problem.beta * before[place].value()).abs();
                }
                // Each of the k + 3 operations rounds once, half an epsilon of a partial result, here
                // and (for f64, where it matters) in the reference; then the result is rounded.
                let (sum_epsilon, input_epsilon) = precision(&problem, T::SUM_EPSILON);
                let bound = ((k + 3) as f64 * sum_epsilon + input_epsilon) * scale
                    + T::EPSILON * expected.abs()
                    + 1e-300;
                // Half the smallest subnormal of f16 is what rounding may lose below its range.
                let bound = bound
                    + if T::DTYPE == GemmDtype::F16 {
                        3e-8
                    } else {
                        0.0
                    };
                let got = after[place].value();
                assert!(
                    (got - expected).abs() <= bound,
                    "{} on {problem} alpha {} beta {} ld {} {} {} offsets {:?}: C[{row}, {column}] of {z} is {got}, \
                     not {expected} +- {bound:e}",
                    plan.as_ref().map_or("the choice".to_owned(), |plan| plan.kernel.name(problem.dtype)),
                    problem.alpha, problem.beta, problem.lda, problem.ldb, problem.ldc, case.offsets,
                );
            }
        }
    }
    for (place, written) in written.into_iter().enumerate() {
        assert!(
            written || after[place].bits() == before[place].bits(),
            "{problem}: element {place}, which is not in C, was written"
        );
    }
    plan.map(|plan| plan.kernel.name(problem.dtype))
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

/// Every kernel once or more, by shapes for which it is the plan.
fn every_kernel<T: Element>(stream: &Arc<Stream>) {
    let mut draw = Draw(1);
    let mut names = BTreeSet::new();
    let mut run = |problem: GemmProblem, compute_units| {
        let case = Case {
            problem,
            offsets: [0; 3],
            by: By::Kernel { compute_units },
        };
        names.insert(check::<T>(stream, &case, &mut draw).unwrap());
    };
    let mut expected = BTreeSet::new();
    for op_a in OPS {
        for op_b in OPS {
            for tile in TILES {
                if T::DTYPE == GemmDtype::F64 && tile.rows == 128 {
                    continue;
                }
                expected.insert(Kernel::Tile { tile, op_a, op_b }.name(T::DTYPE));
                let size = tile.rows as usize - 1;
                run(simple::<T>(op_a, op_b, size, size, 37), 1);
            }
        }
        for columns in [1, 2, 4, 8] {
            for k in [100, 1100] {
                run(
                    simple::<T>(op_a, Transpose::No, 45, columns as usize, k),
                    96,
                );
                run(
                    simple::<T>(op_a, Transpose::Yes, 70, columns as usize, k),
                    96,
                );
            }
            expected.insert(Kernel::VectorN { columns }.name(T::DTYPE));
            for width in [8, 32] {
                expected.insert(Kernel::VectorT { columns, width }.name(T::DTYPE));
            }
        }
    }
    assert_eq!(names, expected);
}

/// Shapes, operations, strides, places and factors drawn at random; `by` may be drawn as well.
fn drawn<T: Element>(
    stream: &Arc<Stream>,
    seed: u64,
    count: usize,
    compute: cublasComputeType_t,
    by: impl Fn(&mut Draw) -> By,
) {
    let sizes = [0, 1, 2, 3, 7, 16, 17, 31, 64, 65, 127, 128, 257];
    let mut draw = Draw(seed);
    let mut done = 0;
    while done < count {
        let [m, n, k] = [0; 3].map(|_| draw.from(&sizes));
        let batch = draw.from(&[0, 1, 1, 2, 3]);
        // Keeps the test short; large products are in `every_kernel` too.
        if m * n * k * batch > 600_000 {
            continue;
        }
        let mut problem = simple::<T>(draw.from(&OPS), draw.from(&OPS), m, n, k);
        problem.batch = batch;
        problem.compute = compute;
        problem.lda += draw.from(&[0, 0, 1, 4, 13]);
        problem.ldb += draw.from(&[0, 0, 1, 4, 13]);
        problem.ldc += draw.from(&[0, 0, 1, 4, 13]);
        let stride = |op, rows, columns, ld, draw: &mut Draw| {
            let (_, columns) = stored(op, rows, columns);
            (columns * ld + draw.from(&[0, 0, 1, 8])) as i64
        };
        problem.stride_a =
            stride(problem.transa, m, k, problem.lda, &mut draw) * draw.from(&[0, 1, 1]);
        problem.stride_b =
            stride(problem.transb, k, n, problem.ldb, &mut draw) * draw.from(&[0, 1, 1]);
        problem.stride_c = stride(Transpose::No, m, n, problem.ldc, &mut draw).max(1);
        problem.alpha = draw.from(&[1.0, 1.0, -0.75, 2.0, 0.0]);
        problem.beta = draw.from(&[0.0, 0.0, 1.0, 0.25]);
        let case = Case {
            problem,
            offsets: [0; 3].map(|_| draw.from(&[0, 0, 1, 3])),
            by: by(&mut draw),
        };
        check::<T>(stream, &case, &mut draw);
        done += 1;
    }
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
                    let by = |draw: &mut Draw| By::Kernel { compute_units: draw.from(&[1, 20, 304]) };
                    drawn::<$type>(&context.default_stream(), 7, 400, <$type>::DTYPE.compute(), by);
                });
            }
            #[test]
            fn $chosen() {
                on_each_device(stringify!($chosen), |context| {
                    let stream = context.per_thread_stream();
                    println!("{}", gemm::library::describe(&stream).unwrap());
                    for compute in [<$type>::DTYPE.compute(), cublasComputeType_t::$reduced] {
                        drawn::<$type>(&stream, 11, 200, compute, |_| By::Choice);
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
}

#[test]
fn equal_inputs_give_equal_bits() {
    on_each_device("equal_inputs_give_equal_bits", |context| {
        let stream = context.default_stream();
        for (m, n, k) in [(65, 65, 65), (100, 1, 300), (1, 100, 300)] {
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
            a: device_a.device_ptr(&stream).0,
            b: device_b.device_ptr(&stream).0,
            stride_b: 0,
            c: device_c.device_ptr_mut(&stream).0,
            batch,
            ..simple::<f32>(Transpose::No, Transpose::No, 1, 1, 1)
        };
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

#[test]
fn a_captured_product_is_computed_at_each_launch() {
    on_each_device("a_captured_product_is_computed_at_each_launch", |context| {
        let stream = context.new_stream().unwrap();
        let mut square = Square::new(&stream, 96);
        square.set(&stream, 1.0);
        // The module is loaded outside of the capture.
        square.multiply(&stream);
        stream
            .begin_capture(CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL)
            .unwrap();
        square.multiply(&stream);
        let graph = stream
            .end_capture(CUgraphInstantiate_flags::default())
            .unwrap()
            .unwrap();
        for factor in [2.0, 3.0] {
            square.set(&stream, factor);
            graph.launch().unwrap();
            square.check(&stream, factor);
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

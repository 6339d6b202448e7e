//! Kernels of few long rows, launched by the names that Candle launches: two kernels share each row.

mod common;
#[path = "common/launched.rs"]
mod launched;

use std::sync::Arc;

use candle_rocm_kernels::REDUCE;
use candle_rocm_runtime::cuda_names::{
    CUevent_flags, CUgraphInstantiate_flags as Flags, CUstreamCaptureMode as Mode,
};
use candle_rocm_runtime::{
    Context, DeviceBuffer, Image, LaunchConfig, PushKernelArg, Result, Stream, View, ViewMut,
};
use common::{context, in_process, pooled};
use launched::launched;

const EPS: f32 = 1e-5;

#[derive(Clone, Copy, Debug)]
enum Kernel {
    Softmax,
    RmsNorm,
    LayerNorm,
}
use Kernel::{LayerNorm, RmsNorm, Softmax};

const KERNELS: [Kernel; 3] = [Softmax, RmsNorm, LayerNorm];

impl Kernel {
    fn name(self) -> &'static str {
        match self {
            Softmax => "softmax",
            RmsNorm => "rmsnorm",
            LayerNorm => "layernorm",
        }
    }

    fn pair(self) -> Vec<String> {
        let of = |step: &str| format!("long_{}_{step}_f32", self.name());
        vec![of("splits"), of("finish")]
    }

    /// In f64.
    fn expected(self, x: &[f32], columns: usize, alpha: &[f32], beta: &[f32]) -> Vec<f64> {
        let mut all = Vec::with_capacity(x.len());
        for row in x.chunks(columns) {
            let row: Vec<f64> = row.iter().map(|&x| x.into()).collect();
            let n = columns as f64;
            let of_weights = |i: usize, x: f64| x * f64::from(alpha[i]);
            match self {
                Softmax => {
                    let largest = row.iter().copied().fold(f64::NEG_INFINITY, f64::max);
                    let sum: f64 = row.iter().map(|x| (x - largest).exp()).sum();
                    all.extend(row.iter().map(|x| (x - largest).exp() / sum));
                }
                RmsNorm => {
                    let square = row.iter().map(|x| x * x).sum::<f64>() / n;
                    let r = 1.0 / (square + f64::from(EPS)).sqrt();
                    all.extend(row.iter().enumerate().map(|(i, x)| of_weights(i, x * r)));
                }
                LayerNorm => {
                    let mean = row.iter().sum::<f64>() / n;
                    let variance = row.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / n;
                    let r = 1.0 / (variance + f64::from(EPS)).sqrt();
                    let normal =
                        |(i, x): (usize, &f64)| of_weights(i, (x - mean) * r) + f64::from(beta[i]);
                    all.extend(row.iter().enumerate().map(normal));
                }
            }
        }
        all
    }
}

/// The kernel as Candle launches it.
fn run(
    context: &Arc<Context>,
    stream: &Stream,
    kernel: Kernel,
    columns: usize,
    x: &View<'_, f32>,
    y: &mut ViewMut<'_, f32>,
    [alpha, beta]: [&View<'_, f32>; 2],
) -> Result<()> {
    let rows = (x.len() / columns) as u32;
    let module = context.load_module(Image::from(&REDUCE))?;
    let function = module.load_function(&format!("{}_f32", kernel.name()))?;
    let columns = columns as i32;
    let config = LaunchConfig {
        grid_dim: (rows, 1, 1),
        block_dim: match kernel {
            Softmax => (1, 32, 1),
            _ => (1024, 1, 1),
        },
        shared_mem_bytes: 0,
    };
    let mut launch = stream.launch_builder(&function);
    launch.arg(x).arg(y);
    match kernel {
        Softmax => {
            launch.arg(&columns);
            // SAFETY: the kernel's arguments, as below.
            unsafe { launch.launch(config) }
        }
        RmsNorm => {
            launch.arg(alpha).arg(&columns).arg(&1024i32).arg(&EPS);
            // SAFETY: as below.
            unsafe { launch.launch(config) }
        }
        LayerNorm => {
            launch.arg(alpha).arg(beta);
            launch.arg(&columns).arg(&1024i32).arg(&EPS);
            // SAFETY: the kernel's arguments; y has x's elements, alpha and beta a row's.
            unsafe { launch.launch(config) }
        }
    }
    .map(drop)
}

fn numbers(count: usize, seed: usize) -> Vec<f32> {
    (0..count)
        .map(|i| (((i + 1) * (2 * seed + 1)) as f64 * 0.754_877_666_246_692_7).fract() as f32 + 0.5)
        .collect()
}

/// Sums in a tree err by some units of 6e-8, as do exponentials of arguments of order one; results are of order one, or
/// compared relative to themselves.
fn assert_close(found: &[f32], expected: &[f64], kernel: Kernel, what: &str) {
    assert_eq!(found.len(), expected.len(), "{what}");
    for (at, (&found, &expected)) in found.iter().zip(expected).enumerate() {
        let scale = match kernel {
            LayerNorm => expected.abs().max(1.0),
            _ => expected.abs(),
        };
        assert!(
            (f64::from(found) - expected).abs() <= 2e-6 * scale,
            "{what}: element {at} is {found}, expected {expected}"
        );
    }
}

struct Operands {
    x: Vec<f32>,
    alpha: Vec<f32>,
    beta: Vec<f32>,
    on_gpu: [DeviceBuffer<f32>; 3],
}

impl Operands {
    fn new(stream: &Arc<Stream>, count: usize, columns: usize) -> Self {
        let [x, alpha, beta] =
            [(count, 1), (columns, 2), (columns, 3)].map(|(count, seed)| numbers(count + 1, seed));
        let on_gpu = [&x, &alpha, &beta].map(|of| stream.clone_htod(of).unwrap());
        Self {
            x,
            alpha,
            beta,
            on_gpu,
        }
    }

    /// The kernel on all of them, each from its beginning.
    fn run(
        &self,
        context: &Arc<Context>,
        stream: &Stream,
        kernel: Kernel,
        y: &mut DeviceBuffer<f32>,
    ) -> Result<()> {
        // Each has an element more, for those that begin one into their memory.
        let [count, columns, _] = [&self.x, &self.alpha, &self.beta].map(|of| of.len() - 1);
        let [x, alpha, beta] = &self.on_gpu;
        run(
            context,
            stream,
            kernel,
            columns,
            &x.slice(..count),
            &mut y.as_view_mut(),
            [&alpha.slice(..columns), &beta.slice(..columns)],
        )
    }
}

#[test]
fn few_long_rows_are_shared_wherever_they_begin() {
    let context = context();
    let stream = context.default_stream();
    for (rows, columns) in [(1, 100_003), (3, 32_768), (2, 33_001), (1, 262_144)] {
        let count = rows * columns;
        let operands = Operands::new(&stream, count, columns);
        // Which of x, y and alpha begin one element into their memory, and thus not at 16 bytes: vectors must not be
        // taken where only some are aligned.
        for offsets in [[0, 0, 0], [1, 1, 1], [0, 1, 0], [0, 0, 1], [1, 0, 0]] {
            let [of_x, of_y, of_alpha] = offsets;
            for kernel in KERNELS {
                let [x, alpha, beta] = &operands.on_gpu;
                let mut y = stream.clone_htod(&vec![f32::NAN; count + 2]).unwrap();
                let (result, kernels) = launched(|| {
                    run(
                        &context,
                        &stream,
                        kernel,
                        columns,
                        &x.slice(of_x..of_x + count),
                        &mut y.slice_mut(of_y..of_y + count),
                        [
                            &alpha.slice(of_alpha..of_alpha + columns),
                            &beta.slice(..columns),
                        ],
                    )
                });
                result.unwrap();
                let what = format!("{kernel:?} of {rows} x {columns} at {offsets:?}");
                assert_eq!(kernels, kernel.pair(), "{what}");
                let y = stream.clone_dtoh(&y).unwrap();
                let expected = kernel.expected(
                    &operands.x[of_x..of_x + count],
                    columns,
                    &operands.alpha[of_alpha..],
                    &operands.beta,
                );
                assert_close(&y[of_y..of_y + count], &expected, kernel, &what);
                // Nothing beside them was written.
                assert!(y[..of_y].iter().all(|y| y.is_nan()), "{what}");
                assert!(y[of_y + count..].iter().all(|y| y.is_nan()), "{what}");
            }
        }
    }
}

/// `fast_sum_f32` of a tensor of `outputs` rows, as Candle launches it.
fn sum(
    context: &Arc<Context>,
    stream: &Arc<Stream>,
    x: &DeviceBuffer<f32>,
    outputs: usize,
) -> Vec<f32> {
    let of_each = x.len() / outputs;
    let function = context.kernel(&REDUCE, "fast_sum_f32").unwrap();
    let info = stream.clone_htod(&[outputs, of_each, of_each, 1]).unwrap();
    let mut y = stream.clone_htod(&vec![f32::NAN; outputs]).unwrap();
    let config = LaunchConfig {
        grid_dim: (outputs as u32, 1, 1),
        block_dim: (1024, 1, 1),
        shared_mem_bytes: 0,
    };
    let (total, dimensions) = (x.len(), 2usize);
    let mut launch = stream.launch_builder(&function);
    launch.arg(&total).arg(&of_each).arg(&dimensions);
    launch.arg(&info).arg(x).arg(&mut y);
    // SAFETY: the kernel's arguments; `info` has the two dimensions and strides of x, y an element for each row.
    unsafe { launch.launch(config) }.unwrap();
    stream.clone_dtoh(&y).unwrap()
}

#[test]
fn few_long_reductions_are_shared() {
    let context = context();
    let stream = context.default_stream();
    let units = context.info().compute_units as usize;
    for (outputs, of_each) in [
        (1, 300_007),
        (3, 32_768),
        (1, 32_767),
        (units / 2 + 1, 32_768),
    ] {
        let values = numbers(outputs * of_each, 4);
        let x = stream.clone_htod(&values).unwrap();
        let (found, kernels) = launched(|| sum(&context, &stream, &x, outputs));
        let expected: Vec<f64> = values
            .chunks(of_each)
            .map(|row| row.iter().map(|&x| f64::from(x)).sum())
            .collect();
        let what = format!("{outputs} sums of {of_each}");
        assert_close(&found, &expected, Softmax, &what);
        let pair: &[&str] = &["long_sum_splits_f32", "long_sum_finish_f32"];
        let is_shared = of_each * 4 >= 128 << 10 && outputs <= units / 2;
        assert_eq!(
            kernels,
            if is_shared { pair } else { &["fast_sum_f32"] },
            "{what}"
        );
    }
}

#[test]
fn short_rows_and_many_rows_are_not() {
    let context = context();
    let stream = context.default_stream();
    let units = context.info().compute_units as usize;
    for (rows, columns) in [(1, 32_767), (1, 7), (units / 2 + 1, 32_768)] {
        let operands = Operands::new(&stream, rows * columns, columns);
        let mut y = stream.alloc_zeros::<f32>(rows * columns).unwrap();
        for kernel in KERNELS {
            let (result, kernels) = launched(|| operands.run(&context, &stream, kernel, &mut y));
            result.unwrap();
            assert_eq!(kernels, [format!("{}_f32", kernel.name())]);
        }
    }
}

#[test]
fn a_graph_keeps_what_parts_leave() {
    in_process("a_graph_keeps_what_parts_leave", &[], || {
        let context = context();
        // SAFETY: one stream.
        unsafe { context.disable_event_tracking() };
        let stream = context.new_stream().unwrap();
        let columns = 40_001;
        let mut operands = Operands::new(&stream, columns, columns);
        let in_use = context.pool_statistics().in_use;
        for kernel in KERNELS {
            // Also the pair is loaded while the stream is captured.
            let mut y = stream.alloc_zeros::<f32>(columns).unwrap();
            stream
                .begin_capture(Mode::CU_STREAM_CAPTURE_MODE_GLOBAL)
                .unwrap();
            let (captured, kernels) = launched(|| operands.run(&context, &stream, kernel, &mut y));
            let graph = stream.end_capture(Flags::NONE).unwrap().unwrap();
            captured.unwrap();
            assert_eq!(kernels, kernel.pair());
            let splits = columns * 4 / (16 << 10);
            let held = context.pool_statistics().held_by_graphs;
            assert_eq!(held, pooled(&context, 2 * 4 * splits));
            for round in 0..3 {
                let values = numbers(columns + 1, 10 + round);
                stream
                    .memcpy_htod(&values, &mut operands.on_gpu[0])
                    .unwrap();
                stream.memset_zeros(&mut y).unwrap();
                graph.launch().unwrap();
                let found = stream.clone_dtoh(&y).unwrap();
                let expected =
                    kernel.expected(&values[..columns], columns, &operands.alpha, &operands.beta);
                assert_close(&found, &expected, kernel, &format!("{kernel:?} {round}"));
            }
            drop((graph, y));
            let statistics = context.pool_statistics();
            assert_eq!((statistics.held_by_graphs, statistics.in_use), (0, in_use));
        }
    });
}

#[test]
fn events_asked_for_are_around_both() {
    let context = context();
    let stream = context.default_stream();
    let columns = 33_000;
    let x = stream.clone_htod(&numbers(columns, 1)).unwrap();
    let mut y = stream.alloc_zeros::<f32>(columns).unwrap();
    let function = context.kernel(&REDUCE, "softmax_f32").unwrap();
    let columns = columns as i32;
    let mut launch = stream.launch_builder(&function);
    launch
        .record_kernel_launch(CUevent_flags::CU_EVENT_DEFAULT)
        .arg(&x)
        .arg(&mut y)
        .arg(&columns);
    let config = LaunchConfig {
        grid_dim: (1, 1, 1),
        block_dim: (1, 32, 1),
        shared_mem_bytes: 0,
    };
    // SAFETY: the kernel's arguments.
    let (events, kernels) = launched(|| unsafe { launch.launch(config) });
    let (start, end) = events.unwrap().unwrap();
    assert_eq!(kernels, Softmax.pair());
    assert!(start.elapsed_ms(&end).unwrap() >= 0.0);
}

#[test]
fn a_fault_names_the_kernel_asked_for_and_the_one_that_ran() {
    in_process(
        "a_fault_names_the_kernel_asked_for_and_the_one_that_ran",
        &[],
        || {
            let context = context();
            let stream = context.default_stream();
            let columns = 33_000;
            let operands = Operands::new(&stream, columns, columns);
            // A result that is too short.
            let mut y = stream.alloc_zeros::<f32>(columns - 1).unwrap();
            let done = operands.run(&context, &stream, RmsNorm, &mut y);
            let error = done.and_then(|()| stream.synchronize()).unwrap_err();
            for split in ["`rmsnorm_f32`", "long_rmsnorm_finish_f32"] {
                assert!(error.to_string().contains(split), "{error}");
            }
        },
    );
}

//! Few long rows, which several workgroups share: Candle's own operators, unchanged, and the fused ones with their
//! gradients. Truth is f64 on the host; that the rows were shared is read from the runtime's trace.

mod common;
#[path = "../../candle-rocm-runtime/tests/common/launched.rs"]
mod launched;

use candle_core::{DType, Device, Result, Tensor, Var};
use candle_rocm_backend::ops;
use candle_rocm_backend::DeviceExt as _;
use candle_rocm_runtime::cuda_names::{
    CUgraphInstantiate_flags as Flags, CUstreamCaptureMode as Mode,
};
use candle_rocm_testing::numbers::assert_near;
use common::{device, numbers};
use launched::launched;

const EPS: f64 = 1e-3;

/// Rows and columns: odd, a power of two. In f16 the least is 128 KiB.
const SHAPES: [(usize, usize); 4] = [(1, 100_003), (3, 65_537), (1, 262_144), (3, 100_000)];

/// What an element may differ by, relative to it or to one: a few units of its type's last place. Sums are of f32 (f64) in
/// a tree, whose errors are below that.
const TYPES: [(DType, f64); 4] = [
    (DType::F64, 1e-12),
    (DType::F32, 4e-6),
    (DType::F16, 2e-3),
    (DType::BF16, 1.6e-2),
];

/// A tensor of numbers of order one that begins `offset` elements into its memory.
fn tensor(shape: &[usize], seed: u64, offset: usize, dtype: DType, on: &Device) -> Result<Tensor> {
    let count: usize = shape.iter().product();
    let values = common::normal(&mut common::Random::new(seed), offset + count);
    Tensor::new(values, &Device::Cpu)?
        .to_dtype(dtype)?
        .to_device(on)?
        .narrow(0, offset, count)?
        .reshape(shape)
}

fn softmax_of(x: &[f64], columns: usize) -> Vec<f64> {
    x.chunks(columns)
        .flat_map(|row| {
            let largest = row.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            let sum: f64 = row.iter().map(|x| (x - largest).exp()).sum();
            row.iter().map(move |x| (x - largest).exp() / sum)
        })
        .collect()
}

fn norm_of(x: &[f64], alpha: &[f64], beta: Option<&[f64]>) -> Vec<f64> {
    let columns = alpha.len();
    let mut all = Vec::with_capacity(x.len());
    for row in x.chunks(columns) {
        let n = columns as f64;
        let mean = match beta {
            Some(_) => row.iter().sum::<f64>() / n,
            None => 0.0,
        };
        let variance = row.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / n;
        let r = 1.0 / (variance + f64::from(EPS as f32)).sqrt();
        all.extend((0..columns).map(|i| {
            let beta = beta.map_or(0.0, |beta| beta[i]);
            (row[i] - mean) * r * alpha[i] + beta
        }));
    }
    all
}

fn pair(kernel: &str, dtype: DType) -> [String; 2] {
    ["splits", "finish"].map(|step| format!("long_{kernel}_{step}_{}", dtype.as_str()))
}

#[test]
fn candles_own_operators_share_few_long_rows() -> Result<()> {
    let device = device()?;
    for (rows, columns) in SHAPES {
        for (dtype, tolerance) in TYPES {
            for offset in [0, 1] {
                let x = tensor(&[rows, columns], 1, offset, dtype, &device)?;
                let alpha = tensor(&[columns], 2, offset, dtype, &device)?;
                let beta = tensor(&[columns], 3, 0, dtype, &device)?;
                let [on_host, of_alpha, of_beta] =
                    [numbers(&x)?, numbers(&alpha)?, numbers(&beta)?];
                let eps = EPS as f32;
                let what =
                    |name: &str| format!("{name} of {rows} x {columns}, {dtype:?} at {offset}");

                let (y, kernels) = launched(|| candle_nn::ops::softmax_last_dim(&x));
                assert_eq!(kernels, pair("softmax", dtype), "{}", what("softmax"));
                // Elements are about 1 / columns; those of f16 have no relative precision below 6e-5.
                let least = if dtype == DType::F16 { 6.2e-5 } else { 1e-7 };
                let expected = softmax_of(&on_host, columns);
                assert_near(
                    &numbers(&y?)?,
                    &expected,
                    tolerance,
                    least,
                    &what("softmax"),
                );

                let (y, kernels) = launched(|| candle_nn::ops::rms_norm(&x, &alpha, eps));
                assert_eq!(kernels, pair("rmsnorm", dtype), "{}", what("rms_norm"));
                let expected = norm_of(&on_host, &of_alpha, None);
                assert_near(&numbers(&y?)?, &expected, tolerance, 1.0, &what("rms_norm"));

                let (y, kernels) = launched(|| candle_nn::ops::layer_norm(&x, &alpha, &beta, eps));
                assert_eq!(kernels, pair("layernorm", dtype), "{}", what("layer_norm"));
                let expected = norm_of(&on_host, &of_alpha, Some(&of_beta));
                assert_near(
                    &numbers(&y?)?,
                    &expected,
                    tolerance,
                    1.0,
                    &what("layer_norm"),
                );
            }
        }
    }
    Ok(())
}

/// The same program captured once and replayed with other inputs.
#[test]
fn a_graph_of_candles_own_operators() -> Result<()> {
    common::device()?;
    let device = Device::new_rocm_with_stream(0)?;
    let gpu = device.as_rocm_device()?;
    // SAFETY: everything of this device runs on its one stream.
    unsafe { gpu.disable_event_tracking() };
    let columns = 50_001;
    let inputs: Vec<Tensor> = (0..3)
        .map(|seed| tensor(&[2, columns], 10 + seed, 0, DType::F32, &device))
        .collect::<Result<_>>()?;
    let alpha = tensor(&[columns], 2, 0, DType::F32, &device)?;
    let forward = |x: &Tensor| -> Result<Tensor> {
        let x = candle_nn::ops::rms_norm(x, &alpha, EPS as f32)?;
        candle_nn::ops::softmax_last_dim(&x)
    };
    let x = inputs[0].force_contiguous()?;
    let stream = gpu.cuda_stream();
    stream
        .begin_capture(Mode::CU_STREAM_CAPTURE_MODE_RELAXED)
        .map_err(candle_core::Error::wrap)?;
    let (y, kernels) = launched(|| forward(&x));
    let graph = stream.end_capture(Flags::NONE);
    let graph = graph
        .map_err(candle_core::Error::wrap)?
        .expect("a capture of kernels");
    let y = y?;
    let of = |kernel| pair(kernel, DType::F32);
    assert_eq!(kernels, [of("rmsnorm"), of("softmax")].concat());
    for input in &inputs {
        x.slice_set(input, 0, 0)?;
        graph.launch().map_err(candle_core::Error::wrap)?;
        let normed = norm_of(&numbers(input)?, &numbers(&alpha)?, None);
        // The norm's error, up to 4e-6 of 4, is the softmax's relative one.
        assert_near(
            &numbers(&y)?,
            &softmax_of(&normed, columns),
            2e-5,
            1e-7,
            "graph",
        );
    }
    Ok(())
}

type Operator = fn(&[Tensor]) -> Result<Tensor>;

/// The fused operators, the kernels of their results and of their gradients, and how many operands have a row's shape.
const FUSED: [(&str, Operator, [&str; 2], usize); 7] = [
    (
        "softmax",
        |x| ops::softmax(&x[0]),
        ["softmax", "backward_softmax"],
        0,
    ),
    (
        "log_softmax",
        |x| ops::log_softmax(&x[0]),
        ["log_softmax", "backward_log_softmax"],
        0,
    ),
    (
        "scaled_masked_softmax",
        |x| ops::scaled_masked_softmax(&x[0], 0.7, Some(&x[1])),
        ["masked_softmax", "backward_softmax"],
        1,
    ),
    (
        "rms_norm",
        |x| ops::rms_norm(&x[0], &x[1], EPS),
        ["rmsnorm", "backward_rmsnorm"],
        1,
    ),
    (
        "layer_norm",
        |x| ops::layer_norm(&x[0], &x[1], Some(&x[2]), EPS),
        ["layernorm", "backward_layernorm"],
        2,
    ),
    (
        "add_rms_norm",
        |x| Ok(ops::add_rms_norm(&x[0], &x[0].detach(), &x[1], EPS)?.1),
        ["add_rmsnorm", "backward_rmsnorm"],
        1,
    ),
    (
        "add_layer_norm",
        |x| Ok(ops::add_layer_norm(&x[0], &x[0].detach(), &x[1], Some(&x[2]), EPS)?.1),
        ["add_layernorm", "backward_layernorm"],
        2,
    ),
];

/// Fixed weights of the elements of a result.
fn weighted_sum(y: &Tensor) -> Result<Tensor> {
    let weights = tensor(y.dims(), 77, 0, DType::F64, y.device())?;
    (y.to_dtype(DType::F64)? * weights)?.sum_all()
}

/// The loss and its gradients by all operands, and the kernels launched for both.
fn gradients(operator: Operator, operands: &[Tensor]) -> Result<(Vec<Tensor>, Vec<String>)> {
    let variables: Vec<Var> = operands
        .iter()
        .map(Var::from_tensor)
        .collect::<Result<_>>()?;
    let operands: Vec<Tensor> = variables.iter().map(|v| v.as_tensor().clone()).collect();
    let (loss, mut kernels) = launched(|| weighted_sum(&operator(&operands)?));
    let loss = loss?;
    let (store, backward) = launched(|| loss.backward());
    let store = store?;
    kernels.extend(backward);
    let found = variables
        .iter()
        .map(|v| store.get(v).expect("a gradient").clone());
    Ok((found.collect(), kernels))
}

fn operands(
    rows: usize,
    columns: usize,
    vectors: usize,
    dtype: DType,
    on: &Device,
) -> Result<Vec<Tensor>> {
    let mut all = vec![tensor(&[rows, columns], 1, 0, dtype, on)?];
    for seed in 0..vectors {
        all.push(tensor(&[columns], 2 + seed as u64, 0, dtype, on)?);
    }
    Ok(all)
}

fn assert_launched(kernels: &[String], [forward, backward]: [&str; 2], dtype: DType, name: &str) {
    // Finishing a norm of a sum is finishing a norm; a log-softmax's parts are a softmax's.
    let wanted = [
        pair(&forward.replace("log_", ""), dtype)[0].clone(),
        pair(&forward.replace("add_", ""), dtype)[1].clone(),
        pair(backward, dtype)[0].clone(),
        pair(backward, dtype)[1].clone(),
    ];
    for kernel in wanted {
        let times = kernels.iter().filter(|of| **of == kernel).count();
        assert!(times >= 1, "{name}: {kernel} is not among {kernels:?}");
    }
    let whole = |name: &str| format!("{name}_{}", dtype.as_str());
    for kernel in [whole(forward), whole(backward)] {
        assert!(!kernels.contains(&kernel), "{name}: {kernel} was launched");
    }
}

/// Against the same on the CPU, which composes the operators of Candle's, in f64: of operands rounded to the type.
#[test]
fn gradients_of_few_long_rows_are_those_of_candles_own_operators() -> Result<()> {
    let device = device()?;
    for (rows, columns) in [(1, 70_001), (3, 66_000)] {
        for (name, operator, kernels, vectors) in FUSED {
            for (dtype, tolerance) in TYPES {
                let on_gpu = operands(rows, columns, vectors, dtype, &device)?;
                let (found, launched) = gradients(operator, &on_gpu)?;
                assert_launched(&launched, kernels, dtype, name);
                let exact: Vec<Tensor> = on_gpu
                    .iter()
                    .map(|x| x.to_device(&Device::Cpu)?.to_dtype(DType::F64))
                    .collect::<Result<_>>()?;
                let (expected, _) = gradients(operator, &exact)?;
                for (operand, (found, expected)) in found.iter().zip(&expected).enumerate() {
                    let what =
                        format!("gradient {operand} of {name}, {rows} x {columns}, {dtype:?}");
                    // Errors are relative to the terms that cancel: results and their gradients were rounded to the type, and
                    // are numbers up to 4 each, of up to three rows.
                    let expected = numbers(expected)?;
                    let scale = match name.contains("softmax") && !name.contains("log") {
                        // Elements of a softmax are about 1 / columns.
                        true => expected.iter().fold(6.2e-5, |max: f64, x| x.abs().max(max)),
                        false => 16.0,
                    };
                    assert_near(&numbers(found)?, &expected, 2.0 * tolerance, scale, &what);
                }
            }
        }
    }
    Ok(())
}

/// Along a direction, the loss changes as its gradients say: in f64, by central differences of the kernels' own results.
#[test]
fn gradients_of_few_long_rows_are_the_slopes_of_the_loss() -> Result<()> {
    const STEP: f64 = 1e-4;
    let device = device()?;
    let (rows, columns) = (2, 17_001);
    for (name, operator, kernels, vectors) in FUSED {
        if name.starts_with("add_") {
            // One of their operands is kept from the graph here.
            continue;
        }
        let x = operands(rows, columns, vectors, DType::F64, &device)?;
        let (found, launched) = gradients(operator, &x)?;
        assert_launched(&launched, kernels, DType::F64, name);
        for (operand, gradient) in found.iter().enumerate() {
            let direction = tensor(x[operand].dims(), 99, 0, DType::F64, &device)?;
            let at = |step: f64| -> Result<f64> {
                let mut moved = x.clone();
                moved[operand] = (&x[operand] + (&direction * step)?)?;
                weighted_sum(&operator(&moved)?)?.to_scalar()
            };
            let slope = (at(STEP)? - at(-STEP)?) / (2.0 * STEP);
            let expected: f64 = (gradient * &direction)?.sum_all()?.to_scalar()?;
            // STEP^2 times a third derivative, of a sum that grows as the root of its terms' number.
            let scale = expected.abs().max(1e-3);
            assert!(
                (slope - expected).abs() <= 1e-5 * scale,
                "{name}, operand {operand}: {slope}, expected {expected}"
            );
        }
    }
    Ok(())
}

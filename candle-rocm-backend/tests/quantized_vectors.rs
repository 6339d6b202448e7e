//! Products of quantised matrices with a quantised vector, and what they leave for the next one, beside Candle's products,
//! plain Rust in f64, and the same in several launches.

mod common;

use candle_core::quantized::{GgmlDType, QMatMul, QStorage, QTensor};
use candle_core::{DType, Device, Module as _, Result, Tensor};
use candle_rocm_backend::graph::recorded;
use candle_rocm_backend::ops::{
    self, quantized_add_norm, quantized_linears, quantized_swiglu, takes_vectors,
    CompletionCounters, Q8_1Activations, RmsNorm,
};
use candle_rocm_testing::activations::silu;
use common::{device, dot, normal, numbers, Random, Weights};

const FORMATS: [GgmlDType; 10] = [
    GgmlDType::Q4_0,
    GgmlDType::Q4_1,
    GgmlDType::Q5_0,
    GgmlDType::Q5_1,
    GgmlDType::Q8_0,
    GgmlDType::Q2K,
    GgmlDType::Q3K,
    GgmlDType::Q4K,
    GgmlDType::Q5K,
    GgmlDType::Q6K,
];
/// Which f32 has, as kernels take it.
const EPSILON: f64 = 1. / 131_072.;

fn row(count: usize, seed: u64, device: &Device) -> Result<Tensor> {
    Tensor::from_vec(normal(&mut Random::new(seed), count), (1, count), device)
}

/// Each number of the vector is its own rounded to 127ths of the largest of 32, by a scale that f16 rounds.
fn assert_quantized(vector: &Q8_1Activations, of: &[f64], what: &str) -> Result<()> {
    let values = vector.values()?;
    assert_eq!(values.len(), of.len(), "{what}");
    for (n, (values, of)) in values.chunks(32).zip(of.chunks(32)).enumerate() {
        let largest = of.iter().fold(0f64, |most, x| most.max(x.abs()));
        let allowed = largest * (0.505 / 127. + 2f64.powi(-10)) + 1e-7;
        for (at, (&found, x)) in values.iter().zip(of).enumerate() {
            assert!(
                (f64::from(found) - x).abs() <= allowed,
                "{what}, element {}: {found} for {x}, {allowed} allowed",
                n * 32 + at
            );
        }
    }
    Ok(())
}

/// Candle's product of the same numbers, by kernels of module `mmvq`, which other tests hold to f64.
fn candles(weights: &Weights, x: &Tensor, device: &Device) -> Result<Vec<f64>> {
    let format = weights.quantized.dtype();
    let storage = QStorage::from_data(weights.quantized.data()?, device, format)?;
    let matrix = QTensor::new(storage, (weights.rows, weights.columns))?;
    numbers(&QMatMul::from_qtensor(matrix)?.forward(x)?)
}

/// Sums in f32 differ by their order alone: a few roundings of what a row and the vector come to.
fn assert_sums(found: &[f64], expected: &[f64], weights: &[&Weights], x: &[f32], what: &str) {
    let rows = weights
        .iter()
        .flat_map(|weights| (0..weights.rows).map(|row| weights.row(row)));
    let norm = |vector: &[f32]| dot(vector, vector).sqrt();
    let of_x = norm(x);
    assert_eq!(found.len(), expected.len(), "{what}");
    for (n, ((found, expected), row)) in found.iter().zip(expected).zip(rows).enumerate() {
        let allowed = 16. * 2f64.powi(-24) * (norm(row) * of_x + expected.abs()) + 1e-30;
        assert!(
            (found - expected).abs() <= allowed,
            "{what}, row {n}: {found} for {expected}, {allowed} allowed"
        );
    }
}

#[test]
fn a_vector_is_rounded_to_127ths() -> Result<()> {
    let device = device()?;
    for count in [1, 31, 32, 100, 256, 257, 4096, 5000] {
        let x = row(count, count as u64, &device)?;
        let vector = Q8_1Activations::of(&x)?;
        assert_eq!(vector.elements(), count);
        assert_quantized(&vector, &numbers(&x)?, &format!("{count} elements"))?;
    }
    let zeros = Q8_1Activations::of(&Tensor::zeros(64, DType::F32, &device)?)?;
    assert!(zeros.values()?.iter().all(|&x| x == 0.));
    Ok(())
}

#[test]
fn products_are_candles() -> Result<()> {
    let device = device()?;
    // Rows that fill no workgroup and several, with as many threads each as `row_threads` knows; k of less than a step,
    // and of several and a part. Of q4_0, Candle's products of 1,024 weights and fewer are CUDA's, with CUDA's errors.
    for (rows, k) in [
        (1usize, 1280usize),
        (7, 768),
        (70, 4352),
        (2051, 256),
        (11, 96),
        (33, 4128),
    ] {
        for format in FORMATS {
            if !k.is_multiple_of(format.block_size()) {
                continue;
            }
            let what = format!("{format:?} {rows} x {k}");
            let weights = Weights::new(format, rows, k, &device)?;
            assert!(takes_vectors(&weights.quantized), "{what}");
            let x = row(k, rows as u64, &device)?;
            let vector = Q8_1Activations::of(&x)?;
            let bias = row(rows, 3, &device)?.squeeze(0)?;
            let expected = candles(&weights, &x, &device)?;
            let x: Vec<f32> = x.flatten_all()?.to_vec1()?;
            let plain = quantized_linears(&[(&weights.quantized, None)], &vector)?;
            assert_eq!(plain.dims(), [1, rows], "{what}");
            assert_sums(&numbers(&plain)?, &expected, &[&weights], &x, &what);
            let both = [
                (&weights.quantized, Some(&bias)),
                (&weights.quantized, None),
            ];
            let both = quantized_linears(&both, &vector)?;
            assert_eq!(both.dims(), [1, 2 * rows], "{what}");
            let biases = numbers(&bias)?;
            let with_bias = expected.iter().zip(&biases).map(|(x, bias)| x + bias);
            let twice: Vec<f64> = with_bias.chain(expected.iter().copied()).collect();
            assert_sums(
                &numbers(&both)?,
                &twice,
                &[&weights, &weights],
                &x,
                &format!("{what}, twice"),
            );
        }
    }
    Ok(())
}

#[test]
fn sums_and_their_norms_are_right() -> Result<()> {
    let device = device()?;
    let completion = CompletionCounters::new(1, &device)?;
    // Rows of one workgroup and of many, in one pass of the norm, two, and two and a part; those that take several launches.
    for (rows, k) in [
        (256usize, 256usize),
        (4096, 64),
        (4352, 32),
        (8448, 32),
        (96, 512),
    ] {
        for format in FORMATS {
            if !k.is_multiple_of(format.block_size()) || (rows > 256 && format != GgmlDType::Q8_0) {
                continue;
            }
            let what = format!("{format:?} {rows} x {k}");
            let weights = Weights::new(format, rows, k, &device)?;
            let (x, sum) = (row(k, 1, &device)?, row(rows, 2, &device)?);
            let norm = row(rows, 3, &device)?.squeeze(0)?;
            let vector = Q8_1Activations::of(&x)?;
            let expected: Vec<f64> = candles(&weights, &x, &device)?
                .iter()
                .zip(numbers(&sum)?)
                .map(|(product, sum)| product + sum)
                .collect();
            let x: Vec<f32> = x.flatten_all()?.to_vec1()?;
            let rms = RmsNorm {
                weight: &norm,
                epsilon: EPSILON,
            };
            let mut first = None;
            // Twice: the counter is zero again.
            for _ in 0..2 {
                let (done, noted) = recorded(|| {
                    quantized_add_norm(&weights.quantized, &vector, &sum, rms, &completion)
                });
                let (result, normed) = done?;
                if rows.is_multiple_of(256) {
                    assert_eq!(noted.kernels.len(), 1, "{what}: {:?}", noted.kernels);
                }
                let result = numbers(&result)?;
                assert_sums(&result, &expected, &[&weights], &x, &what);
                let mean = result.iter().map(|x| x * x).sum::<f64>() / rows as f64;
                let scale = 1. / (mean + EPSILON).sqrt();
                let all = result.iter().zip(numbers(&norm)?);
                let all: Vec<f64> = all.map(|(x, weight)| x * scale * weight).collect();
                assert_quantized(&normed, &all, &what)?;
                let bits = (result, normed.values()?);
                assert_eq!(*first.get_or_insert(bits.clone()), bits, "{what}");
            }
        }
    }
    Ok(())
}

#[test]
fn gated_products_are_right() -> Result<()> {
    let device = device()?;
    let completion = CompletionCounters::new(1024, &device)?;
    for (rows, k) in [(256usize, 256usize), (768, 64), (1024, 288), (48, 256)] {
        for format in FORMATS {
            if !k.is_multiple_of(format.block_size()) {
                continue;
            }
            let what = format!("{format:?} 2 x {rows} x {k}");
            let weights = Weights::new(format, 2 * rows, k, &device)?;
            let vector = Q8_1Activations::of(&row(k, 5, &device)?)?;
            let both = numbers(&quantized_linears(&[(&weights.quantized, None)], &vector)?)?;
            let (gates, ups) = both.split_at(rows);
            let expected: Vec<f64> = gates.iter().zip(ups).map(|(g, u)| silu(*g) * u).collect();
            let mut first = None;
            for _ in 0..2 {
                let (done, noted) =
                    recorded(|| quantized_swiglu(&weights.quantized, &vector, &completion));
                let made = done?;
                if rows.is_multiple_of(256) {
                    assert_eq!(noted.kernels.len(), 1, "{what}: {:?}", noted.kernels);
                }
                assert_quantized(&made, &expected, &what)?;
                let values = made.values()?;
                assert_eq!(*first.get_or_insert(values.clone()), values, "{what}");
            }
        }
    }
    Ok(())
}

#[test]
fn what_does_not_fit_is_an_error() -> Result<()> {
    let device = device()?;
    let weights = Weights::new(GgmlDType::Q8_0, 256, 64, &device)?;
    let matrix = &weights.quantized;
    let x = row(64, 1, &device)?;
    let vector = Q8_1Activations::of(&x)?;
    let longer = Q8_1Activations::of(&row(96, 1, &device)?)?;
    let (norm, sum) = (row(256, 2, &device)?, row(256, 3, &device)?);
    let short = row(255, 2, &device)?;
    let rms = RmsNorm {
        weight: &norm.squeeze(0)?,
        epsilon: EPSILON,
    };
    let completion = CompletionCounters::new(32, &device)?;
    let on_cpu = Weights::new(GgmlDType::Q8_0, 256, 64, &Device::Cpu)?.quantized;
    let of_f16 = Weights::new(GgmlDType::F16, 256, 64, &device)?.quantized;
    assert!(!takes_vectors(&on_cpu) && !takes_vectors(&of_f16));
    let errors = [
        (
            Q8_1Activations::of(&x.to_dtype(DType::F16)?).err(),
            "one row of f32",
        ),
        (
            Q8_1Activations::of(&x.reshape((2, 32))?).err(),
            "one row of f32",
        ),
        (
            Q8_1Activations::of(&x.to_device(&Device::Cpu)?).err(),
            "made on a GPU",
        ),
        (
            quantized_linears(&[(matrix, None)], &longer).err(),
            "a vector of 96 elements",
        ),
        (quantized_linears(&[(&on_cpu, None)], &vector).err(), "Cpu"),
        (
            quantized_linears(&[(&of_f16, None)], &vector).err(),
            "dequantise it",
        ),
        (
            quantized_linears(&[(matrix, Some(&short.squeeze(0)?))], &vector).err(),
            "one contiguous row of 256",
        ),
        (
            quantized_add_norm(matrix, &vector, &short, rms, &completion).err(),
            "the sum",
        ),
        (
            quantized_swiglu(matrix, &vector, &completion).err(),
            "completion counters for 32 elements",
        ),
    ];
    for (error, expected) in errors {
        let error = error.map(|error| error.to_string()).unwrap_or_default();
        assert!(error.contains(expected), "`{error}` lacks `{expected}`");
    }
    // The composed norm's error, where that is what runs.
    let odd = Weights::new(GgmlDType::Q8_0, 96, 64, &device)?;
    let sum = sum.narrow(1, 0, 96)?.contiguous()?;
    assert!(quantized_add_norm(&odd.quantized, &vector, &sum, rms, &completion).is_err());
    let mut random = Random::new(1);
    let empty = Tensor::from_vec(normal(&mut random, 0), (1, 0), &device)?;
    assert!(Q8_1Activations::of(&empty).is_err());
    ops::rms_norm(&x, &row(64, 2, &device)?.squeeze(0)?, EPSILON)?;
    Ok(())
}

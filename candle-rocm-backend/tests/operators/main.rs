//! Norms of groups, concatenation, sparse matrices, small decompositions and Fourier transforms, on the GPU and on the CPU
//! against plain Rust in f64; gradients against central differences of that.

#[path = "../common/mod.rs"]
mod common;

mod cat;
mod fft;
mod group_norm;
mod linalg;
mod sparse;

use candle_core::{DType, Device, Result, Tensor, Var};

use common::{numbers, Random};

fn devices() -> [Device; 2] {
    [common::device().expect("a GPU"), Device::Cpu]
}

/// What a dtype rounds by.
fn rounding(dtype: DType) -> f64 {
    match dtype {
        DType::F64 => 2f64.powi(-53),
        DType::F32 => 2f64.powi(-24),
        DType::F16 => 2f64.powi(-11),
        _ => 2f64.powi(-8),
    }
}

/// Numbers near a normal distribution of variance 1, rounded to the dtype.
fn normal(seed: u64, dims: &[usize], dtype: DType, device: &Device) -> Result<Tensor> {
    let values = common::normal(&mut Random::new(seed), dims.iter().product());
    Tensor::from_vec(values, dims, device)?.to_dtype(dtype)
}

/// Holds numbers to others, within `bound` of the largest of those.
#[track_caller]
fn assert_close(found: &Tensor, expected: &[f64], bound: f64, what: &str) -> Result<()> {
    let found = numbers(found)?;
    assert_eq!(found.len(), expected.len(), "{what}: how many");
    let most = expected.iter().fold(1e-30f64, |most, x| most.max(x.abs()));
    for (i, (found, expected)) in found.iter().zip(expected).enumerate() {
        assert!(
            (found - expected).abs() <= bound * most,
            "{what}, element {i}: {found} for {expected}, bound {bound} of {most}"
        );
    }
    Ok(())
}

/// How far gradients are from central differences in f64: those are off by 1e-8, sums of f32 by 1e-6, and 16 bits are rounded
/// a few times where Candle's operators make the gradient.
fn gradient_bound(dtype: DType) -> f64 {
    match dtype {
        DType::F16 | DType::BF16 => 8.0 * rounding(dtype),
        _ => 1e-5,
    }
}

/// The gradient of a function at `x`, within about 1e-8.
fn central_differences(x: &[f64], of: impl Fn(&[f64]) -> f64) -> Vec<f64> {
    const STEP: f64 = 1e-5;
    let (mut x, count) = (x.to_vec(), x.len());
    let at = |i: usize| {
        let kept = x[i];
        x[i] = kept + STEP;
        let above = of(&x);
        x[i] = kept - STEP;
        let below = of(&x);
        x[i] = kept;
        (above - below) / (2.0 * STEP)
    };
    (0..count).map(at).collect()
}

/// The sum of products of an operator's result with fixed weights, whose gradients are wanted.
fn weighted_sum(result: &Tensor, weights: &[f64]) -> Result<Tensor> {
    let weights = Tensor::from_slice(weights, result.shape(), &Device::Cpu)?;
    let weights = weights
        .to_dtype(result.dtype())?
        .to_device(result.device())?;
    (result * weights)?.sum_all()
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

/// A variable of these numbers.
fn variable(x: &[f64], dims: &[usize], dtype: DType, device: &Device) -> Result<Var> {
    let x = Tensor::from_slice(x, dims, &Device::Cpu)?.to_dtype(dtype)?;
    Var::from_tensor(&x.to_device(device)?)
}

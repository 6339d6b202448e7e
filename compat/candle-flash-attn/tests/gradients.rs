//! Gradients through the functions, on the emulated GPU, against those of the formula of Candle's operators in f64.

use std::sync::LazyLock;

use candle_core::{DType, Device, Result, Tensor, Var};
use candle_flash_attn::{
    flash_attn, flash_attn_alibi_windowed_softcap, flash_attn_varlen_windowed,
};
use candle_rocm_backend::ops::{attention_composed, AttentionOptions};

#[path = "../../../candle-rocm-backend/tests/common/mod.rs"]
mod common;

use common::{numbers, Random};

static GPU: LazyLock<Device> = LazyLock::new(|| common::device().expect("a GPU"));
const SCALE: f32 = 0.2;
const BATCH: usize = 2;
const QUERIES: usize = 37;
const KEYS: usize = 61;

/// q, k and v, on the CPU: numbers of the dtype, in f64.
fn drawn(dtype: DType, elements: usize) -> Result<[Tensor; 3]> {
    let mut random = Random::new(elements as u64);
    let mut draw = |rows: usize, heads: usize| -> Result<Tensor> {
        let shape = (BATCH, rows, heads, elements);
        let numbers = common::normal(&mut random, BATCH * rows * heads * elements);
        let drawn = Tensor::from_vec(numbers, shape, &Device::Cpu)?;
        drawn.to_dtype(dtype)?.to_dtype(DType::F64)
    };
    Ok([draw(QUERIES, 4)?, draw(KEYS, 2)?, draw(KEYS, 2)?])
}

/// The gradients of the sum of squares of what a function makes of three tensors.
fn gradients(
    of: &[Tensor; 3],
    device: &Device,
    dtype: DType,
    function: impl Fn([&Tensor; 3]) -> Result<Tensor>,
) -> Result<Vec<Vec<f64>>> {
    let on = |x: &Tensor| Var::from_tensor(&x.to_device(device)?.to_dtype(dtype)?);
    let vars = of.iter().map(on).collect::<Result<Vec<_>>>()?;
    let y = function([&vars[0], &vars[1], &vars[2]])?;
    let found = y.sqr()?.sum_all()?.backward()?;
    let of = |var: &Var| numbers(found.get(var).expect("a gradient"));
    vars.iter().map(of).collect()
}

fn check(
    options: &AttentionOptions,
    function: impl Fn([&Tensor; 3]) -> Result<Tensor>,
) -> Result<()> {
    for (dtype, elements, rounding) in [
        (DType::F16, 64, 2f64.powi(-11)),
        (DType::BF16, 72, 2f64.powi(-8)),
    ] {
        let operands = drawn(dtype, elements)?;
        let composed = |[q, k, v]: [&Tensor; 3]| attention_composed(q, k, v, options);
        let expected = gradients(&operands, &Device::Cpu, DType::F64, composed)?;
        let found = gradients(&operands, &GPU, dtype, &function)?;
        for ((found, expected), of) in found.iter().zip(&expected).zip(["q", "k", "v"]) {
            let largest = expected.iter().fold(0f64, |most, x| most.max(x.abs()));
            // The result, its gradient, the weights, their changes and the gradient are rounded to the dtype.
            let bound = 5.0 * rounding * largest;
            assert_eq!(found.len(), expected.len());
            for (i, (is, exact)) in found.iter().zip(expected).enumerate() {
                let near = (is - exact).abs() <= bound;
                assert!(near, "{of}, {dtype:?}: {i} is {is}, not {exact} +- {bound}");
            }
        }
    }
    Ok(())
}

#[test]
fn of_a_batch() -> Result<()> {
    let options = AttentionOptions {
        scale: Some(SCALE),
        causal: true,
        ..Default::default()
    };
    check(&options, |[q, k, v]| flash_attn(q, k, v, SCALE, true))
}

#[test]
fn with_everything() -> Result<()> {
    let slopes = Tensor::new(&[0.3f32, 0.1, 0.03, 0.01], &Device::Cpu)?;
    let options = AttentionOptions {
        scale: Some(SCALE),
        window_left: Some(20),
        window_right: Some(3),
        softcap: Some(1.5),
        alibi_slopes: Some(slopes.clone()),
        ..Default::default()
    };
    let slopes = slopes.to_device(&GPU)?;
    check(&options, |[q, k, v]| {
        let windows = [Some(20), Some(3)];
        let [left, right] = windows;
        flash_attn_alibi_windowed_softcap(q, k, v, Some(&slopes), SCALE, left, right, 1.5)
    })
}

#[test]
fn of_packed_sequences() -> Result<()> {
    let options = AttentionOptions {
        scale: Some(SCALE),
        window_left: Some(9),
        window_right: Some(0),
        ..Default::default()
    };
    let starts = |rows: usize| {
        let starts: Vec<u32> = (0..=BATCH).map(|i| (i * rows) as u32).collect();
        Tensor::new(starts, &GPU)
    };
    let (of_q, of_k) = (starts(QUERIES)?, starts(KEYS)?);
    check(&options, |[q, k, v]| {
        let (flat, right) = (|x: &Tensor| x.flatten(0, 1), Some(0));
        let (q3, k3, v3) = (flat(q)?, flat(k)?, flat(v)?);
        let y = flash_attn_varlen_windowed(
            &q3,
            &k3,
            &v3,
            &of_q,
            &of_k,
            QUERIES,
            KEYS,
            SCALE,
            Some(9),
            right,
        )?;
        y.reshape(q.shape())
    })
}

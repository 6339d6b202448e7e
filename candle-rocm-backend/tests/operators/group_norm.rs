//! Norms of groups of channels.

use candle_core::{DType, IndexOp as _, Result, Tensor};
use candle_rocm_backend::ops;

use crate::common::numbers;
use crate::{
    assert_close, central_differences, devices, dot, gradient_bound, normal, rounding, variable,
    weighted_sum,
};

const EPS: f64 = 1e-3;

/// The norm of contiguous numbers, in f64.
fn expected(x: &[f64], dims: &[usize], groups: usize, weight: &[f64], bias: &[f64]) -> Vec<f64> {
    let spatial: usize = dims[2..].iter().product();
    let length = dims[1] / groups * spatial;
    let mut y = Vec::with_capacity(x.len());
    for (number, group) in x.chunks(length).enumerate() {
        let mean = group.iter().sum::<f64>() / length as f64;
        let squares = group.iter().map(|x| (x - mean).powi(2)).sum::<f64>();
        let scale = 1.0 / (squares / length as f64 + EPS).sqrt();
        let first = number % groups * (dims[1] / groups);
        y.extend(group.iter().enumerate().map(|(i, x)| {
            let channel = first + i / spatial;
            (x - mean) * scale * weight[channel] + bias[channel]
        }));
    }
    y
}

fn check(x: &Tensor, groups: usize) -> Result<()> {
    let (dims, dtype, device) = (x.dims(), x.dtype(), x.device());
    let what = format!("{dtype:?} {dims:?}, {groups} groups");
    let weight = normal(11, &dims[1..2], dtype, device)?;
    let bias = normal(12, &dims[1..2], dtype, device)?;
    let [of_x, of_weight, of_bias] = [numbers(x)?, numbers(&weight)?, numbers(&bias)?];
    let y = ops::group_norm(x, groups, &weight, Some(&bias), EPS)?;
    assert_eq!((y.dtype(), y.dims()), (dtype, dims), "{what}");
    // A rounding of the result, and sums of f32: some 64 roundings one after another.
    let bound = rounding(dtype) + 64.0 * rounding(DType::F32);
    let exact = expected(&of_x, dims, groups, &of_weight, &of_bias);
    assert_close(&y, &exact, bound, &what)?;
    let y = ops::group_norm(x, groups, &weight, None, EPS)?;
    let none = vec![0.0; dims[1]];
    let exact = expected(&of_x, dims, groups, &of_weight, &none);
    assert_close(&y, &exact, bound, &format!("{what}, no bias"))
}

#[test]
fn groups_are_normed_on_both_devices() -> Result<()> {
    for device in devices() {
        for dtype in [DType::F32, DType::F16, DType::BF16] {
            // By vectors and by elements, a channel of one element, all channels together and each by itself.
            for (dims, groups) in [
                (vec![2, 6, 4, 8], 3),
                (vec![1, 6, 5, 7], 2),
                (vec![3, 8], 4),
                (vec![2, 4, 33], 1),
                (vec![2, 4, 16], 4),
            ] {
                check(&normal(1, &dims, dtype, &device)?, groups)?;
            }
        }
        // Neither contiguous nor from the first element on.
        let x = normal(2, &[5, 9, 6], DType::F32, &device)?;
        check(&x.permute((2, 0, 1))?.i(1..5)?.narrow(1, 1, 4)?, 2)?;
        check(&x.i(1..3)?.contiguous()?, 3)?;
    }
    Ok(())
}

/// A group whose parts are several workgroups', by vectors and by elements.
#[test]
fn long_groups_are_split() -> Result<()> {
    let [device, _] = devices();
    check(&normal(3, &[1, 4, 10_240], DType::F32, &device)?, 2)?;
    for dtype in [DType::F16, DType::BF16] {
        check(&normal(4, &[1, 2, 9_001], dtype, &device)?, 1)?;
    }
    Ok(())
}

/// Numbers far from 0 keep their distances.
#[test]
fn large_means_cancel_nothing() -> Result<()> {
    let [device, _] = devices();
    let x = (normal(5, &[1, 4, 64], DType::F32, &device)? + 1e3)?;
    let weight = Tensor::ones(4, DType::F32, &device)?;
    let y = ops::group_norm(&x, 2, &weight, None, EPS)?;
    let exact = expected(&numbers(&x)?, &[1, 4, 64], 2, &[1.0; 4], &[0.0; 4]);
    // The mean of 128 numbers near 1,000 is off by a rounding of that, and distances are near 1.
    assert_close(&y, &exact, 1e3 * 2.0 * rounding(DType::F32), "a large mean")
}

#[test]
fn gradients_are_those_of_central_differences() -> Result<()> {
    for device in devices() {
        for (dims, groups, dtype) in [
            ([2, 4, 5], 2, DType::F32),
            ([2, 4, 8], 2, DType::F32),
            ([1, 2, 4], 1, DType::F32),
            ([2, 4, 8], 2, DType::F16),
            ([2, 4, 5], 2, DType::BF16),
        ] {
            let x = numbers(&normal(6, &dims, dtype, &device)?)?;
            let weight = numbers(&normal(7, &dims[1..2], dtype, &device)?)?;
            let bias = numbers(&normal(8, &dims[1..2], dtype, &device)?)?;
            let by = numbers(&normal(9, &dims, dtype, &device)?)?;
            let of = |x: &[f64], weight: &[f64], bias: &[f64]| {
                dot(&expected(x, &dims, groups, weight, bias), &by)
            };
            let vars = [
                variable(&x, &dims, dtype, &device)?,
                variable(&weight, &dims[1..2], dtype, &device)?,
                variable(&bias, &dims[1..2], dtype, &device)?,
            ];
            let y = ops::group_norm(&vars[0], groups, &vars[1], Some(&vars[2]), EPS)?;
            let gradients = weighted_sum(&y, &by)?.backward()?;
            let exact = [
                central_differences(&x, |x| of(x, &weight, &bias)),
                central_differences(&weight, |weight| of(&x, weight, &bias)),
                central_differences(&bias, |bias| of(&x, &weight, bias)),
            ];
            for ((var, exact), what) in vars.iter().zip(&exact).zip(["x", "weight", "bias"]) {
                let found = gradients.get(var).expect("a gradient");
                let what = format!("{dtype:?} {dims:?}: {what}");
                assert_close(found, exact, gradient_bound(dtype), &what)?;
            }
        }
    }
    Ok(())
}

#[test]
fn bad_operands_are_named() -> Result<()> {
    for device in devices() {
        let x = Tensor::zeros((2, 6, 5), DType::F32, &device)?;
        let weight = Tensor::zeros(6, DType::F32, &device)?;
        let said = |result: Result<Tensor>| result.unwrap_err().to_string();
        let error = said(ops::group_norm(&x, 4, &weight, None, EPS));
        assert!(
            error.contains("group_norm: 4 groups") && error.contains("[2, 6, 5]"),
            "{error}"
        );
        let error = said(ops::group_norm(&x, 3, &weight.i(..5)?, None, EPS));
        assert!(
            error.contains("group_norm: the weight has shape [5]"),
            "{error}"
        );
        let error = said(ops::group_norm(
            &x.to_dtype(DType::U8)?,
            3,
            &weight,
            None,
            EPS,
        ));
        assert!(error.contains("group_norm: x is U8"), "{error}");
        let nothing = Tensor::zeros((0, 6, 5), DType::F32, &device)?;
        assert_eq!(
            ops::group_norm(&nothing, 3, &weight, None, EPS)?.dims(),
            [0, 6, 5]
        );
    }
    Ok(())
}

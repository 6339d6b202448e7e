//! Convolutions on the emulated GPU against the same composed of Candle's own operators on the CPU, in f64; those against
//! Candle's convolutions; and gradients against those of Candle's graph.

use candle_core::{DType, Device, Result, Tensor, Var};
use candle_rocm_backend::ops::{self, Activation, ConvOptions, ConvTransposeOptions};

mod common;

use candle_rocm_testing::numbers::assert_near;
use common::{normal, numbers, Random};

fn device() -> Device {
    common::device().expect("a GPU")
}

fn drawn(random: &mut Random, dims: &[usize]) -> Result<Tensor> {
    let count = dims.iter().product();
    let numbers: Vec<f64> = normal(random, count).into_iter().map(f64::from).collect();
    Tensor::from_vec(numbers, dims, &Device::Cpu)
}

/// The spacing of numbers near 1, of the roundings of a sum of at most a few hundred products of such numbers.
fn tolerance(dtype: DType) -> f64 {
    match dtype {
        DType::F16 => 2e-2,
        DType::BF16 => 0.15,
        DType::F32 => 2e-5,
        _ => 1e-12,
    }
}

/// An operator of x, weight, bias and residual.
type Operator = Box<dyn Fn(&Tensor, &Tensor, Option<&Tensor>, Option<&Tensor>) -> Result<Tensor>>;

struct Case {
    name: String,
    x: Vec<usize>,
    weight: Vec<usize>,
    channels: usize,
    operator: Operator,
}

fn conv<const N: usize>(
    name: &str,
    (x, weight): (&[usize], &[usize]),
    options: ConvOptions<'static, N>,
    f: fn(&Tensor, &Tensor, &ConvOptions<N>) -> Result<Tensor>,
) -> Case {
    Case {
        name: name.to_owned(),
        x: x.to_vec(),
        weight: weight.to_vec(),
        channels: weight[0],
        operator: Box::new(move |x, weight, bias, residual| {
            let options = ConvOptions {
                bias,
                residual,
                ..options
            };
            f(x, weight, &options)
        }),
    }
}

fn transposed<const N: usize>(
    name: &str,
    (x, weight): (&[usize], &[usize]),
    options: ConvTransposeOptions<'static, N>,
    f: fn(&Tensor, &Tensor, &ConvTransposeOptions<N>) -> Result<Tensor>,
) -> Case {
    Case {
        name: name.to_owned(),
        x: x.to_vec(),
        weight: weight.to_vec(),
        channels: weight[1] * options.groups,
        operator: Box::new(move |x, weight, bias, residual| {
            let options = ConvTransposeOptions {
                bias,
                residual,
                ..options
            };
            f(x, weight, &options)
        }),
    }
}

fn cases() -> Vec<Case> {
    vec![
        conv(
            "conv1d",
            (&[2, 6, 19], &[8, 3, 4]),
            ConvOptions {
                stride: [2],
                padding: [[1, 3]],
                dilation: [2],
                groups: 2,
                activation: Activation::Gelu,
                ..ConvOptions::default()
            },
            ops::conv1d,
        ),
        conv(
            "conv2d",
            (&[2, 8, 9, 7], &[12, 8, 3, 3]),
            ConvOptions {
                stride: [1, 2],
                padding: [[1, 1], [2, 0]],
                activation: Activation::Relu,
                ..ConvOptions::default()
            },
            ops::conv2d,
        ),
        conv(
            "conv2d of one tap",
            (&[2, 8, 4, 6], &[16, 8, 1, 1]),
            ConvOptions {
                activation: Activation::Silu,
                ..ConvOptions::default()
            },
            ops::conv2d,
        ),
        conv(
            "depthwise",
            (&[1, 5, 8, 8], &[5, 1, 3, 3]),
            ConvOptions {
                padding: [[1, 1]; 2],
                groups: 5,
                ..ConvOptions::default()
            },
            ops::conv2d,
        ),
        conv(
            "conv3d",
            (&[1, 4, 5, 6, 4], &[6, 4, 3, 2, 3]),
            ConvOptions {
                padding: [[2, 0], [0, 1], [1, 1]],
                stride: [1, 2, 1],
                ..ConvOptions::default()
            },
            ops::conv3d,
        ),
        transposed(
            "conv_transpose1d",
            (&[2, 6, 7], &[6, 4, 5]),
            ConvTransposeOptions {
                stride: [3],
                padding: [2],
                output_padding: [1],
                groups: 2,
                activation: Activation::GeluErf,
                ..ConvTransposeOptions::default()
            },
            ops::conv_transpose1d,
        ),
        transposed(
            "conv_transpose2d",
            (&[1, 5, 4, 3], &[5, 7, 3, 2]),
            ConvTransposeOptions {
                stride: [2, 1],
                padding: [1, 0],
                dilation: [1, 2],
                ..ConvTransposeOptions::default()
            },
            ops::conv_transpose2d,
        ),
        transposed(
            "conv_transpose2d with more padding than taps",
            (&[1, 3, 6, 5], &[3, 2, 1, 2]),
            ConvTransposeOptions {
                stride: [2, 2],
                padding: [1, 2],
                output_padding: [1, 0],
                ..ConvTransposeOptions::default()
            },
            ops::conv_transpose2d,
        ),
    ]
}

/// A tensor whose channels are neighbours in memory.
fn channels_last(x: &Tensor) -> Result<Tensor> {
    let rank = x.rank();
    let order: Vec<usize> = [0].into_iter().chain(2..rank).chain([1]).collect();
    let back: Vec<usize> = [0, rank - 1].into_iter().chain(1..rank - 1).collect();
    x.permute(order)?.contiguous()?.permute(back)
}

#[test]
fn results_and_gradients_are_those_of_candles_own_operators() -> Result<()> {
    let device = device();
    for case in cases() {
        let mut random = Random::new(11);
        let (x, weight) = (
            drawn(&mut random, &case.x)?,
            drawn(&mut random, &case.weight)?,
        );
        let bias = drawn(&mut random, &[case.channels])?;
        let plain = (case.operator)(&x, &weight, None, None)?;
        let residual = drawn(&mut random, plain.dims())?;
        let of_y = drawn(&mut random, plain.dims())?;
        for dtype in [DType::F64, DType::F32, DType::F16, DType::BF16] {
            for last in [false, true] {
                let name = format!("{} in {dtype:?}, channels last {last}", case.name);
                // What the GPU has is rounded; the truth is made of the same numbers.
                let there = |t: &Tensor| t.to_dtype(dtype)?.to_device(&device);
                let here = |t: &Tensor| t.to_dtype(DType::F64)?.to_device(&Device::Cpu);
                let all = [&x, &weight, &bias, &residual];
                let given = all.map(&there).into_iter().collect::<Result<Vec<_>>>()?;
                let truth = given.iter().map(here).collect::<Result<Vec<_>>>()?;
                let arranged = match last {
                    true => channels_last(&given[0])?,
                    false => given[0].clone(),
                };
                let y = (case.operator)(&arranged, &given[1], Some(&given[2]), Some(&given[3]))?;
                let expected =
                    (case.operator)(&truth[0], &truth[1], Some(&truth[2]), Some(&truth[3]))?;
                assert_eq!(y.dims(), expected.dims(), "{name}");
                assert_near(
                    &numbers(&y)?,
                    &numbers(&expected)?,
                    tolerance(dtype),
                    4.0,
                    &name,
                );

                let vars = |tensors: &[Tensor]| {
                    tensors
                        .iter()
                        .map(Var::from_tensor)
                        .collect::<Result<Vec<_>>>()
                };
                let gradients = |vars: &[Var], of_y: &Tensor, last: bool| -> Result<Vec<Tensor>> {
                    let x = vars[0].as_tensor().clone();
                    let x = if last { channels_last(&x)? } else { x };
                    let y = (case.operator)(&x, &vars[1], Some(&vars[2]), Some(&vars[3]))?;
                    let all = (y * of_y)?.sum_all()?.backward()?;
                    vars.iter()
                        .map(|var| {
                            let gradient = all.get(var).expect("a gradient");
                            Ok(gradient.clone())
                        })
                        .collect()
                };
                let dy = there(&of_y)?;
                let found = gradients(&vars(&given)?, &dy, last)?;
                let expected = gradients(&vars(&truth)?, &here(&dy)?, false)?;
                for (i, (found, expected)) in found.iter().zip(&expected).enumerate() {
                    let name = format!("{name}, gradient {i}");
                    assert_eq!(found.dims(), expected.dims(), "{name}");
                    // Sums over a batch and its places.
                    let scale = 16.0;
                    assert_near(
                        &numbers(found)?,
                        &numbers(expected)?,
                        tolerance(dtype),
                        scale,
                        &name,
                    );
                }
            }
        }
    }
    Ok(())
}

/// The composition is a truth of the test above, and is held to Candle's own convolutions.
#[test]
fn the_composition_is_candles_convolution() -> Result<()> {
    let mut random = Random::new(5);
    let x = drawn(&mut random, &[2, 6, 8, 8])?;
    let weight = drawn(&mut random, &[4, 3, 3, 3])?;
    let options = ConvOptions {
        stride: [2; 2],
        padding: [[1, 1]; 2],
        dilation: [2; 2],
        groups: 2,
        ..ConvOptions::default()
    };
    let y = ops::conv2d(&x, &weight, &options)?;
    let candles = x.conv2d(&weight, 1, 2, 2, 2)?;
    assert_near(&numbers(&y)?, &numbers(&candles)?, 1e-12, 1.0, "conv2d");

    let weight = drawn(&mut random, &[6, 4, 3, 3])?;
    let options = ConvTransposeOptions {
        stride: [2; 2],
        padding: [1; 2],
        output_padding: [1; 2],
        ..ConvTransposeOptions::default()
    };
    let y = ops::conv_transpose2d(&x, &weight, &options)?;
    let candles = x.conv_transpose2d(&weight, 1, 1, 2, 1)?;
    assert_near(
        &numbers(&y)?,
        &numbers(&candles)?,
        1e-12,
        1.0,
        "conv_transpose2d",
    );
    Ok(())
}

#[test]
fn strided_inputs_are_read_where_they_are() -> Result<()> {
    let device = device();
    let mut random = Random::new(6);
    let whole = drawn(&mut random, &[3, 8, 9, 11])?.to_dtype(DType::F32)?;
    let weight = drawn(&mut random, &[5, 4, 3, 3])?.to_dtype(DType::F32)?;
    let of = |whole: &Tensor, weight: &Tensor| {
        let x = whole
            .narrow(0, 1, 2)?
            .narrow(1, 2, 4)?
            .transpose(2, 3)?
            .narrow(2, 1, 9)?;
        ops::conv2d(&x, weight, &ConvOptions::default())
    };
    let y = of(&whole.to_device(&device)?, &weight.to_device(&device)?)?;
    assert_near(
        &numbers(&y)?,
        &numbers(&of(&whole, &weight)?)?,
        2e-5,
        4.0,
        "a view",
    );
    Ok(())
}

#[test]
fn empty_tensors_give_empty_tensors() -> Result<()> {
    for device in [device(), Device::Cpu] {
        let weight = Tensor::zeros((3, 4, 3, 3), DType::F32, &device)?;
        for (dims, expected) in [([0, 4, 5, 5], [0, 3, 3, 3]), ([2, 4, 2, 5], [2, 3, 0, 3])] {
            let x = Tensor::zeros(&dims[..], DType::F32, &device)?;
            let y = ops::conv2d(&x, &weight, &ConvOptions::default())?;
            assert_eq!(y.dims(), expected);
        }
    }
    Ok(())
}

#[test]
fn what_does_not_fit_is_named() -> Result<()> {
    let x = Tensor::zeros((1, 4, 5, 5), DType::F32, &Device::Cpu)?;
    let weight = Tensor::zeros((6, 4, 3, 3), DType::F32, &Device::Cpu)?;
    let short = Tensor::zeros(5, DType::F32, &Device::Cpu)?;
    let none = ConvOptions::<2>::default();
    let said = |result: Result<Tensor>| result.expect_err("it does not fit").to_string();
    let cases = [
        (
            said(ops::conv2d(&x, &weight, &ConvOptions { groups: 3, ..none })),
            "there are 3 groups",
        ),
        (
            said(ops::conv2d(
                &x,
                &weight,
                &ConvOptions {
                    stride: [0, 1],
                    ..none
                },
            )),
            "axis 0 has stride 0",
        ),
        (
            said(ops::conv2d(
                &x,
                &weight,
                &ConvOptions {
                    bias: Some(&short),
                    ..none
                },
            )),
            "the bias has shape [5]",
        ),
        (
            said(ops::conv1d(&x, &weight, &ConvOptions::default())),
            "both must have 3 dimensions",
        ),
        (
            said(ops::conv2d(&x.to_dtype(DType::U8)?, &weight, &none)),
            "must be f16, bf16, f32 or f64",
        ),
    ];
    for (said, expected) in cases {
        assert!(said.contains(expected) && said.contains("conv"), "{said}");
    }
    Ok(())
}

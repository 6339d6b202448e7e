//! The fused operators on the emulated GPU and on the CPU: results against Candle's own operators in f64, gradients
//! against central differences in f64 and against the gradients of Candle's own graph.

use candle_core::{DType, Device, Result, Shape, Tensor, Var, D};
use candle_nn::ops::{layer_norm_slow, rms_norm_slow};
use candle_rocm_backend::ops::{self, Activation};

mod common;

use candle_rocm_testing::numbers::assert_near;
use common::numbers;

fn device() -> Device {
    common::device().expect("a GPU")
}

const EPS: f64 = 1e-3;

type Operator = Box<dyn Fn(&[Tensor]) -> Result<Vec<Tensor>>>;

/// An operator, the same of Candle's own, and the shapes of its operands.
struct Case {
    name: String,
    shapes: Vec<Vec<usize>>,
    fused: Operator,
    unfused: Operator,
}

fn case(
    name: impl Into<String>,
    shapes: &[&[usize]],
    fused: impl Fn(&[Tensor]) -> Result<Vec<Tensor>> + 'static,
    unfused: impl Fn(&[Tensor]) -> Result<Vec<Tensor>> + 'static,
) -> Case {
    Case {
        name: name.into(),
        shapes: shapes.iter().map(|shape| shape.to_vec()).collect(),
        fused: Box::new(fused),
        unfused: Box::new(unfused),
    }
}

/// Hides about a third of the elements of these shapes, and all of the first row.
fn flags(shape: &[usize], device: &Device) -> Result<Tensor> {
    let columns = shape.last().copied().unwrap_or(1);
    let count: usize = shape.iter().product();
    let flags: Vec<u8> = (0..count)
        .map(|i| u8::from(i >= columns && (i * i + i / 3) % 3 != 0))
        .collect();
    Tensor::from_vec(flags, shape, device)
}

fn flagged_unfused(x: &Tensor, flags: &Tensor, scale: f64) -> Result<Tensor> {
    let hidden = (x.ones_like()? * f64::NEG_INFINITY)?;
    let flags = flags.broadcast_as(x.shape())?.contiguous()?;
    let logits = flags.where_cond(&(x * scale)?, &hidden)?;
    let y = candle_nn::ops::softmax(&logits, D::Minus1)?;
    // Rows without any are NaN there, and zeros here.
    y.eq(&y)?.where_cond(&y, &y.zeros_like()?)
}

const ACTIVATIONS: [Activation; 5] = [
    Activation::None,
    Activation::Gelu,
    Activation::GeluErf,
    Activation::Silu,
    Activation::Relu,
];

fn activate(activation: Activation, x: &Tensor) -> Result<Tensor> {
    match activation {
        Activation::None => Ok(x.clone()),
        Activation::Gelu => x.gelu(),
        Activation::GeluErf => x.gelu_erf(),
        Activation::Silu => candle_nn::ops::silu(x),
        Activation::Relu => x.relu(),
    }
}

fn layer_norm_unfused(x: &Tensor, weight: &Tensor, bias: Option<&Tensor>) -> Result<Tensor> {
    let none = weight.zeros_like()?;
    layer_norm_slow(x, weight, bias.unwrap_or(&none), EPS as f32)
}

/// Shapes of operands with rows of `columns` elements.
fn cases(rows: usize, columns: usize) -> Vec<Case> {
    let (r, c) = (rows, columns);
    let mut cases = vec![
        case(
            "softmax",
            &[&[r, c]],
            |x| Ok(vec![ops::softmax(&x[0])?]),
            |x| Ok(vec![candle_nn::ops::softmax(&x[0], D::Minus1)?]),
        ),
        case(
            "log_softmax",
            &[&[2, r, c]],
            |x| Ok(vec![ops::log_softmax(&x[0])?]),
            |x| {
                // Candle's own sends the gradient through the maximum too, where it cancels to nine digits.
                let shifted = x[0].broadcast_sub(&x[0].detach().max_keepdim(D::Minus1)?)?;
                let sum = shifted.exp()?.sum_keepdim(D::Minus1)?;
                Ok(vec![shifted.broadcast_sub(&sum.log()?)?])
            },
        ),
        case(
            "scaled softmax",
            &[&[r, c]],
            |x| Ok(vec![ops::scaled_masked_softmax(&x[0], 0.7, None)?]),
            |x| Ok(vec![candle_nn::ops::softmax(&(&x[0] * 0.7)?, D::Minus1)?]),
        ),
        case(
            "softmax with a mask of each row",
            &[&[2, 3, r, c], &[r, c]],
            |x| Ok(vec![ops::scaled_masked_softmax(&x[0], 0.7, Some(&x[1]))?]),
            |x| {
                let logits = (&x[0] * 0.7)?.broadcast_add(&x[1])?;
                Ok(vec![candle_nn::ops::softmax(&logits, D::Minus1)?])
            },
        ),
        case(
            "softmax with a mask of each batch",
            &[&[2, 3, r, c], &[2, 1, 1, c]],
            |x| Ok(vec![ops::scaled_masked_softmax(&x[0], -0.7, Some(&x[1]))?]),
            |x| {
                let logits = (&x[0] * -0.7)?.broadcast_add(&x[1])?;
                Ok(vec![candle_nn::ops::softmax(&logits, D::Minus1)?])
            },
        ),
        case(
            "softmax with flags",
            &[&[2, r, c]],
            move |x| {
                let flags = flags(&[r, c], x[0].device())?;
                Ok(vec![ops::scaled_masked_softmax(&x[0], 0.7, Some(&flags))?])
            },
            move |x| {
                let flags = flags(&[r, c], x[0].device())?;
                Ok(vec![flagged_unfused(&x[0], &flags, 0.7)?])
            },
        ),
        case(
            "layer_norm",
            &[&[2, r, c], &[c], &[c]],
            |x| Ok(vec![ops::layer_norm(&x[0], &x[1], Some(&x[2]), EPS)?]),
            |x| Ok(vec![layer_norm_unfused(&x[0], &x[1], Some(&x[2]))?]),
        ),
        case(
            "layer_norm without bias",
            &[&[r, c], &[c]],
            |x| Ok(vec![ops::layer_norm(&x[0], &x[1], None, EPS)?]),
            |x| Ok(vec![layer_norm_unfused(&x[0], &x[1], None)?]),
        ),
        case(
            "rms_norm",
            &[&[r, c], &[c]],
            |x| Ok(vec![ops::rms_norm(&x[0], &x[1], EPS)?]),
            |x| Ok(vec![rms_norm_slow(&x[0], &x[1], EPS as f32)?]),
        ),
        case(
            "add_layer_norm",
            &[&[r, c], &[r, c], &[c], &[c]],
            |x| {
                let (sum, y) = ops::add_layer_norm(&x[0], &x[1], &x[2], Some(&x[3]), EPS)?;
                Ok(vec![sum, y])
            },
            |x| {
                let sum = (&x[0] + &x[1])?;
                let y = layer_norm_unfused(&sum, &x[2], Some(&x[3]))?;
                Ok(vec![sum, y])
            },
        ),
        case(
            "add_rms_norm",
            &[&[r, c], &[r, c], &[c]],
            |x| {
                let (sum, y) = ops::add_rms_norm(&x[0], &x[1], &x[2], EPS)?;
                Ok(vec![sum, y])
            },
            |x| {
                let sum = (&x[0] + &x[1])?;
                let y = rms_norm_slow(&sum, &x[2], EPS as f32)?;
                Ok(vec![sum, y])
            },
        ),
        case(
            "swiglu",
            &[&[r, c], &[r, c]],
            |x| Ok(vec![ops::swiglu(&x[0], &x[1])?]),
            |x| Ok(vec![(candle_nn::ops::silu(&x[0])? * &x[1])?]),
        ),
        case(
            "swiglu_packed",
            &[&[r, 2 * c]],
            |x| Ok(vec![ops::swiglu_packed(&x[0])?]),
            |x| Ok(vec![candle_nn::ops::swiglu(&x[0])?]),
        ),
    ];
    for activation in ACTIVATIONS {
        cases.push(case(
            format!("bias, {activation:?}, residual"),
            &[&[2, r, c], &[c], &[2, r, c]],
            move |x| {
                let y = ops::bias_activation(&x[0], Some(&x[1]), activation, Some(&x[2]))?;
                Ok(vec![y])
            },
            move |x| {
                let z = x[0].broadcast_add(&x[1])?;
                Ok(vec![(activate(activation, &z)? + &x[2])?])
            },
        ));
        cases.push(case(
            format!("{activation:?} alone"),
            &[&[r, c]],
            move |x| Ok(vec![ops::bias_activation(&x[0], None, activation, None)?]),
            move |x| Ok(vec![activate(activation, &x[0])?]),
        ));
        cases.push(case(
            format!("linear, {activation:?}"),
            &[&[2, r, 5], &[c, 5], &[c], &[2, r, c]],
            move |x| {
                let y = ops::linear(&x[0], &x[1], Some(&x[2]), activation, Some(&x[3]))?;
                Ok(vec![y])
            },
            move |x| {
                let z = x[0].broadcast_matmul(&x[1].t()?)?.broadcast_add(&x[2])?;
                Ok(vec![(activate(activation, &z)? + &x[3])?])
            },
        ));
    }
    cases
}

/// Operands of a case as numbers; away from zero, where ReLU has no derivative.
fn operands(case: &Case) -> Vec<Vec<f64>> {
    let mut seed = 1;
    let mut of_shape = |shape: &Vec<usize>| {
        let mut random = common::Random::new(seed);
        seed += 1;
        common::normal(&mut random, shape.iter().product())
            .into_iter()
            .map(|x| f64::from(x) + 0.01f64.copysign(x.into()))
            .collect()
    };
    case.shapes.iter().map(&mut of_shape).collect()
}

fn tensors(case: &Case, values: &[Vec<f64>], dtype: DType, device: &Device) -> Result<Vec<Tensor>> {
    let operands = values.iter().zip(&case.shapes);
    operands
        .map(|(values, shape)| {
            Tensor::from_slice(values, Shape::from(shape.clone()), device)?.to_dtype(dtype)
        })
        .collect()
}

/// Weights of the results' elements in the loss.
fn coefficients(result: &Tensor) -> Result<Tensor> {
    let count = result.elem_count();
    let values: Vec<f64> = (0..count)
        .map(|i| (i as f64 * 0.7548776662466927).fract() * 2.0 - 0.9)
        .collect();
    Tensor::from_vec(values, result.shape(), result.device())?.to_dtype(result.dtype())
}

fn loss(results: &[Tensor]) -> Result<Tensor> {
    let mut loss: Option<Tensor> = None;
    for result in results {
        let term = (result * coefficients(result)?)?
            .to_dtype(DType::F64)?
            .sum_all()?;
        loss = Some(match loss {
            Some(loss) => (loss + term)?,
            None => term,
        });
    }
    Ok(loss.expect("a result"))
}

/// The gradients of the loss by all operands.
fn gradients(
    case: &Case,
    operator: &Operator,
    values: &[Vec<f64>],
    dtype: DType,
    device: &Device,
) -> Result<Vec<Vec<f64>>> {
    let variables: Vec<Var> = tensors(case, values, dtype, device)?
        .iter()
        .map(Var::from_tensor)
        .collect::<Result<_>>()?;
    let operands: Vec<Tensor> = variables.iter().map(|v| v.as_tensor().clone()).collect();
    let gradients = loss(&operator(&operands)?)?.backward()?;
    variables
        .iter()
        .map(|variable| {
            let gradient = gradients.get(variable);
            let gradient =
                gradient.unwrap_or_else(|| panic!("{}: a gradient is missing", case.name));
            assert_eq!(gradient.dtype(), dtype, "{}", case.name);
            assert_eq!(gradient.shape(), variable.shape(), "{}", case.name);
            numbers(gradient)
        })
        .collect()
}

/// What an element of a result may differ by, relative to it or to one: some units of the last place; bf16 has 2^-8.
/// Operands are rounded to the type beforehand, for the reference too.
const TYPES: [(DType, f64); 4] = [
    (DType::F64, 1e-11),
    (DType::F32, 2e-5),
    (DType::F16, 8e-3),
    (DType::BF16, 6e-2),
];

/// The operands' values after rounding to a type.
fn rounded(case: &Case, values: &[Vec<f64>], dtype: DType) -> Result<Vec<Vec<f64>>> {
    let tensors = tensors(case, values, dtype, &Device::Cpu)?;
    tensors.iter().map(numbers).collect()
}

fn compare(case: &Case, types: &[(DType, f64)], device: &Device) -> Result<()> {
    let values = operands(case);
    for &(dtype, tolerance) in types {
        let values = rounded(case, &values, dtype)?;
        let exact = tensors(case, &values, DType::F64, &Device::Cpu)?;
        let expected = (case.unfused)(&exact)?;
        let rows = case.shapes[0].iter().rev().skip(1).product::<usize>() as f64;
        let wanted = gradients(case, &case.unfused, &values, DType::F64, &Device::Cpu)?;
        for on in [device, &Device::Cpu] {
            let what = format!("{} of {:?} on {:?}", case.name, case.shapes, on.location());
            let found = (case.fused)(&tensors(case, &values, dtype, on)?)?;
            assert_eq!(found.len(), expected.len(), "{what}");
            for (found, expected) in found.iter().zip(&expected) {
                assert_eq!((found.dtype(), found.shape()), (dtype, expected.shape()));
                let what = format!("{what}, {dtype:?}");
                assert_near(&numbers(found)?, &numbers(expected)?, tolerance, 1.0, &what);
            }
            // Candle's own gradients of GELU have constants of six digits.
            let tolerance = match case.name.contains("Gelu") {
                true => tolerance.max(1e-5),
                false => tolerance,
            };
            // A product rounded to 16 bits may have another sign, and ReLU another slope.
            if dtype.size_in_bytes() == 2 && case.name == "linear, Relu" {
                continue;
            }
            let found = gradients(case, &case.fused, &values, dtype, on)?;
            for (operand, (found, expected)) in found.iter().zip(&wanted).enumerate() {
                // A parameter's gradient is a sum over rows, of gradients and values that were rounded each.
                let scale = 2.0
                    * if case.shapes[operand].len() == 1 {
                        rows
                    } else {
                        1.0
                    };
                let what = format!("gradient {operand} of {what}, {dtype:?}");
                assert_near(found, expected, tolerance, scale, &what);
            }
        }
    }
    Ok(())
}

#[test]
fn results_and_gradients_are_those_of_candles_own_operators() -> Result<()> {
    let device = device();
    for (rows, columns) in [(3, 7), (5, 64), (2, 1)] {
        for case in cases(rows, columns) {
            compare(&case, &TYPES, &device)?;
        }
    }
    Ok(())
}

#[test]
fn gradients_are_the_slopes_of_the_loss() -> Result<()> {
    let device = device();
    const STEP: f64 = 1e-5;
    for case in cases(2, 5) {
        let values = operands(&case);
        for on in [&device, &Device::Cpu] {
            let found = gradients(&case, &case.fused, &values, DType::F64, on)?;
            for (operand, found) in found.iter().enumerate() {
                let mut slopes = Vec::new();
                for at in 0..found.len() {
                    let at_step = |step: f64| -> Result<f64> {
                        let mut values = values.clone();
                        values[operand][at] += step;
                        let operands = tensors(&case, &values, DType::F64, &Device::Cpu)?;
                        loss(&(case.fused)(&operands)?)?.to_scalar()
                    };
                    slopes.push((at_step(STEP)? - at_step(-STEP)?) / (2.0 * STEP));
                }
                let what = format!("{}, operand {operand}, {:?}", case.name, on.location());
                // The differences' own error is about STEP^2 times a third derivative, and 1e-16 / STEP.
                assert_near(found, &slopes, 1e-6, 1.0, &what);
            }
        }
    }
    Ok(())
}

#[test]
fn rows_of_any_length() -> Result<()> {
    let device = device();
    // What one workgroup holds and more; and long enough for several workgroups, in vectors and in elements.
    for (rows, columns) in [(3, 1000), (2, 20_001), (1, 70_000)] {
        for case in cases(rows, columns) {
            let wanted = [
                "softmax",
                "log_softmax",
                "layer_norm",
                "add_rms_norm",
                "swiglu",
            ];
            if wanted.contains(&case.name.as_str())
                || case.name.starts_with("softmax with a mask of each b")
                || case.name == "bias, Gelu, residual"
                || columns > 50_000 && case.name.contains("norm")
                || columns > 50_000 && case.name.contains("softmax with flags")
            {
                compare(&case, &[(DType::F32, 2e-4), (DType::F64, 1e-10)], &device)?;
            }
        }
    }
    Ok(())
}

/// Transposed, narrowed and repeated operands, and masks of every layout.
#[test]
fn operands_of_any_layout() -> Result<()> {
    let device = device();
    let make = |shape: &[usize], seed: u64| -> Result<Tensor> {
        let count = shape.iter().product();
        let values = common::normal(&mut common::Random::new(seed), count);
        Tensor::from_vec(values, shape, &device)
    };
    let cpu = |x: &Tensor| x.to_device(&Device::Cpu);
    let check = |found: &Tensor, expected: &Tensor, what: &str| -> Result<()> {
        assert_near(&numbers(found)?, &numbers(expected)?, 1e-5, 1.0, what);
        Ok(())
    };
    let turned = make(&[40, 6], 1)?.t()?;
    let inner = make(&[6, 50], 2)?.narrow(1, 3, 40)?;
    let lower = make(&[9, 40], 3)?.narrow(0, 2, 6)?;
    let repeated = make(&[1, 40], 4)?.broadcast_as((6, 40))?;
    let weight = make(&[80], 5)?.narrow(0, 1, 40)?;
    let every_other = make(&[40, 2], 6)?.narrow(1, 0, 1)?.squeeze(1)?;
    for (i, x) in [&turned, &inner, &lower, &repeated].into_iter().enumerate() {
        let on_cpu = cpu(x)?;
        check(&ops::softmax(x)?, &ops::softmax(&on_cpu)?, "softmax")?;
        for weight in [&weight, &every_other] {
            let found = ops::layer_norm(x, weight, Some(&every_other), EPS)?;
            let expected = ops::layer_norm(&on_cpu, &cpu(weight)?, Some(&cpu(&every_other)?), EPS)?;
            check(&found, &expected, &format!("layer_norm of layout {i}"))?;
        }
        let (sum, normed) = ops::add_rms_norm(x, &turned, &weight, EPS)?;
        let expected = ops::add_rms_norm(&on_cpu, &cpu(&turned)?, &cpu(&weight)?, EPS)?;
        check(&sum, &expected.0, "sum")?;
        check(&normed, &expected.1, "add_rms_norm")?;
        let found = ops::bias_activation(x, Some(&weight), Activation::Silu, Some(&inner))?;
        let expected = ops::bias_activation(
            &on_cpu,
            Some(&cpu(&weight)?),
            Activation::Silu,
            Some(&cpu(&inner)?),
        )?;
        check(&found, &expected, "bias_activation")?;
        check(
            &ops::swiglu(x, &turned)?,
            &ops::swiglu(&on_cpu, &cpu(&turned)?)?,
            "swiglu",
        )?;
        check(
            &ops::swiglu_packed(x)?,
            &ops::swiglu_packed(&on_cpu)?,
            "swiglu_packed",
        )?;
    }
    let x = make(&[2, 3, 2, 4, 8], 7)?;
    let masks = [
        make(&[8], 8)?,
        make(&[4, 8], 9)?,
        make(&[8, 4], 10)?.t()?,
        make(&[4, 1], 11)?,
        make(&[1, 3, 1, 4, 8], 12)?,
        make(&[2, 1, 2, 1, 8], 13)?,
        make(&[2, 3, 1, 1, 1], 14)?,
        make(&[2, 1, 2, 4, 16], 15)?.narrow(4, 3, 8)?,
        make(&[3, 2, 2, 4, 8], 16)?.transpose(0, 1)?,
        make(&[2, 4, 3, 2, 8], 17)?.permute((0, 2, 3, 1, 4))?,
        make(&[2, 3, 2, 4, 8], 18)?,
    ];
    for mask in &masks {
        let what = format!("a mask of {:?}", mask.layout());
        let found = ops::scaled_masked_softmax(&x, 0.5, Some(mask))?;
        let expected = ops::scaled_masked_softmax(&cpu(&x)?, 0.5, Some(&cpu(mask)?))?;
        check(&found, &expected, &what)?;
        let flags = mask.gt(0f64)?;
        let found = ops::scaled_masked_softmax(&x, 0.5, Some(&flags))?;
        let expected = ops::scaled_masked_softmax(&cpu(&x)?, 0.5, Some(&cpu(&flags)?))?;
        check(&found, &expected, &what)?;
    }
    Ok(())
}

#[test]
fn rows_without_anything_above_minus_infinity() -> Result<()> {
    for device in [device(), Device::Cpu] {
        let low = f32::NEG_INFINITY;
        let x = Tensor::new(&[[low, low, low], [-200., low, -1000.]], &device)?;
        let y = numbers(&ops::softmax(&x)?)?;
        assert!(y[..3].iter().all(|y| y.is_nan()), "{y:?}");
        assert_near(&y[3..], &[1.0, 0.0, 0.0], 0.0, 0.0, "softmax");
        let zeros = Tensor::zeros((2, 3), DType::F32, &device)?;
        for mask in [&x, &x.gt(-500f64)?] {
            let y = numbers(&ops::scaled_masked_softmax(&zeros, 1.0, Some(mask))?)?;
            assert_near(&y, &[0.0, 0.0, 0.0, 1.0, 0.0, 0.0], 0.0, 0.0, "masked");
        }
    }
    Ok(())
}

#[test]
fn empty_tensors() -> Result<()> {
    for device in [device(), Device::Cpu] {
        for shape in [[0, 4], [3, 0]] {
            let x = Tensor::zeros(&shape, DType::F16, &device)?;
            let weight = Tensor::zeros(shape[1], DType::F16, &device)?;
            let results = [
                ops::softmax(&x)?,
                ops::log_softmax(&x)?,
                ops::scaled_masked_softmax(&x, 2.0, Some(&x))?,
                ops::layer_norm(&x, &weight, Some(&weight), EPS)?,
                ops::rms_norm(&x, &weight, EPS)?,
                ops::add_rms_norm(&x, &x, &weight, EPS)?.1,
                ops::bias_activation(&x, Some(&weight), Activation::Gelu, Some(&x))?,
                ops::swiglu(&x, &x)?,
            ];
            for y in results {
                assert_eq!((y.shape(), y.dtype()), (x.shape(), DType::F16));
            }
            assert_eq!(ops::swiglu_packed(&x)?.dims(), [shape[0], shape[1] / 2]);
            let weight = Tensor::zeros((6, shape[1]), DType::F16, &device)?;
            let y = ops::linear(&x, &weight, None, Activation::Relu, None)?;
            assert_eq!(y.dims(), [shape[0], 6]);
        }
    }
    Ok(())
}

#[test]
fn gradients_are_the_same_bits_every_time() -> Result<()> {
    let device = device();
    let case = &cases(300, 33)[6];
    let values = operands(case);
    let once = gradients(case, &case.fused, &values, DType::F32, &device)?;
    let again = gradients(case, &case.fused, &values, DType::F32, &device)?;
    assert_eq!(once, again, "{}", case.name);
    Ok(())
}

#[test]
fn only_what_is_asked_for_has_a_gradient() -> Result<()> {
    let device = device();
    let x = Tensor::ones((2, 8), DType::F32, &device)?;
    let weight = Var::ones(8, DType::F32, &device)?;
    let y = ops::rms_norm(&x, &weight, EPS)?;
    let gradients = y.sum_all()?.backward()?;
    assert!(gradients.get(&x).is_none());
    assert!(gradients.get(&weight).is_some());
    assert!(!ops::rms_norm(&x, &weight.as_detached_tensor(), EPS)?.track_op());
    Ok(())
}

#[test]
fn errors_name_the_operator_and_what_was_found() -> Result<()> {
    for device in [device(), Device::Cpu] {
        let zeros = |shape: &[usize], dtype| Tensor::zeros(shape, dtype, &device);
        let x = zeros(&[2, 8], DType::F32)?;
        let refused: Vec<(Result<Tensor>, &[&str])> = vec![
            (
                ops::softmax(&zeros(&[2, 8], DType::U32)?),
                &["softmax", "U32", "[2, 8]"],
            ),
            (
                ops::softmax(&zeros(&[], DType::F32)?),
                &["softmax", "scalar"],
            ),
            (
                ops::scaled_masked_softmax(&x, 1.0, Some(&zeros(&[3, 8], DType::F32)?)),
                &["scaled_masked_softmax", "[3, 8]", "[2, 8]"],
            ),
            (
                ops::scaled_masked_softmax(&x, 1.0, Some(&zeros(&[2, 8], DType::F16)?)),
                &["scaled_masked_softmax", "F16", "F32"],
            ),
            (
                ops::layer_norm(&x, &zeros(&[7], DType::F32)?, None, EPS),
                &["layer_norm", "weight", "[7]", "[8]"],
            ),
            (
                ops::rms_norm(&x, &zeros(&[8], DType::BF16)?, EPS),
                &["rms_norm", "weight", "BF16", "F32"],
            ),
            (
                ops::bias_activation(&x, None, Activation::Gelu, Some(&zeros(&[8], DType::F32)?)),
                &["bias_activation", "residual", "[8]", "[2, 8]"],
            ),
            (
                ops::swiglu(&x, &zeros(&[8, 2], DType::F32)?),
                &["swiglu", "[8, 2]", "[2, 8]"],
            ),
            (
                ops::swiglu_packed(&zeros(&[2, 7], DType::F32)?),
                &["swiglu_packed", "[2, 7]", "halves"],
            ),
            (
                ops::linear(
                    &x,
                    &zeros(&[4, 7], DType::F32)?,
                    None,
                    Activation::None,
                    None,
                ),
                &["linear", "[2, 8]", "[4, 7]"],
            ),
            (
                ops::linear(
                    &x,
                    &zeros(&[4, 8], DType::F32)?,
                    Some(&zeros(&[5], DType::F32)?),
                    Activation::None,
                    None,
                ),
                &["linear", "bias", "[5]", "[4]"],
            ),
            (
                ops::linear(
                    &x,
                    &zeros(&[4, 8], DType::F32)?,
                    None,
                    Activation::None,
                    Some(&zeros(&[4, 2], DType::F32)?),
                ),
                &["linear", "residual", "[4, 2]", "[2, 4]"],
            ),
        ];
        for (result, parts) in refused {
            let error = result.expect_err(parts[0]).to_string();
            for part in parts {
                assert!(error.contains(part), "{error:?} does not mention {part}");
            }
        }
    }
    let error = ops::rms_norm(
        &Tensor::zeros((2, 8), DType::F32, &device())?,
        &Tensor::zeros(8, DType::F32, &Device::Cpu)?,
        EPS,
    );
    let error = error.expect_err("two devices").to_string();
    assert!(
        error.contains("rms_norm") && error.contains("Cpu"),
        "{error}"
    );
    Ok(())
}

//! Cross-entropy, of logits and of the product that makes them, and dropout: results on the emulated GPU and on the CPU
//! against Candle's own operators in f64, gradients against central differences, and what is refused.

use candle_core::{DType, Device, IndexOp as _, Result, Tensor, Var, D};
use candle_rocm_backend::ops::{self, CrossEntropyOptions, Reduction};
use candle_rocm_testing::numbers::assert_near;
use candle_rocm_testing::process;

mod common;

use common::{normal, numbers, Random};

fn devices() -> [Device; 2] {
    [common::device().expect("a GPU"), Device::Cpu]
}

/// What a result may differ by, relative to it or to one.
const TYPES: [(DType, f64); 4] = [
    (DType::F64, 1e-11),
    (DType::F32, 2e-5),
    (DType::F16, 4e-3),
    (DType::BF16, 2e-2),
];

fn options() -> Vec<CrossEntropyOptions> {
    let plain = CrossEntropyOptions::default();
    vec![
        plain,
        CrossEntropyOptions {
            ignore_index: Some(3),
            reduction: Reduction::Sum,
            ..plain
        },
        CrossEntropyOptions {
            ignore_index: Some(3),
            label_smoothing: 0.1,
            softcap: Some(2.5),
            z_loss: 0.01,
            reduction: Reduction::Mean,
        },
        CrossEntropyOptions {
            softcap: Some(1.5),
            label_smoothing: 1.0,
            reduction: Reduction::None,
            ..plain
        },
    ]
}

/// Logits that are rounded to a dtype, and targets of which some are 3.
fn operands(
    rows: usize,
    columns: usize,
    dtype: DType,
    device: &Device,
) -> Result<(Tensor, Tensor)> {
    let mut random = Random::new((rows * 31 + columns) as u64);
    let logits = Tensor::from_vec(normal(&mut random, rows * columns), (rows, columns), device)?;
    let targets: Vec<i64> = (0..rows)
        .map(|row| match row % 4 == 1 && columns > 3 {
            true => 3,
            false => random.below(columns) as i64,
        })
        .collect();
    let targets = Tensor::from_vec(targets, rows, device)?;
    Ok(((logits * 3.0)?.to_dtype(dtype)?, targets))
}

/// The losses by their definition, in f64: of the rows, and reduced.
fn expected(
    logits: &Tensor,
    targets: &Tensor,
    options: &CrossEntropyOptions,
) -> Result<[Vec<f64>; 2]> {
    let columns = logits.dim(D::Minus1)?;
    let (logits, targets) = (numbers(logits)?, numbers(targets)?);
    let (mut losses, mut lses, mut counted) = (Vec::new(), Vec::new(), 0.0);
    for (row, &target) in logits.chunks(columns).zip(&targets) {
        let capped = |&x: &f64| options.softcap.map_or(x, |cap| cap * (x / cap).tanh());
        let row: Vec<f64> = row.iter().map(capped).collect();
        let largest = row.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let lse = largest + row.iter().map(|x| (x - largest).exp()).sum::<f64>().ln();
        lses.push(lse);
        if options.ignore_index == Some(target as i64) {
            losses.push(0.0);
            continue;
        }
        counted += 1.0;
        let mean = row.iter().sum::<f64>() / columns as f64;
        let smoothing = options.label_smoothing;
        losses.push(
            (1.0 - smoothing) * (lse - row[target as usize])
                + smoothing * (lse - mean)
                + options.z_loss * lse * lse,
        );
    }
    let sum = losses.iter().sum::<f64>();
    let reduced = match options.reduction {
        Reduction::None => losses,
        Reduction::Sum => vec![sum],
        Reduction::Mean => vec![sum / counted],
    };
    Ok([reduced, lses])
}

/// A loss of all that an operator gives, as a scalar of f64.
fn weighted(results: &[&Tensor]) -> Result<Tensor> {
    let mut total = Tensor::zeros((), DType::F64, results[0].device())?;
    for result in results {
        let count = result.elem_count();
        let weights: Vec<f64> = (0..count).map(|i| 0.5 + (i % 7) as f64).collect();
        let weights = Tensor::from_vec(weights, result.shape(), result.device())?;
        total = (total + (result.to_dtype(DType::F64)? * weights)?.sum_all()?)?;
    }
    Ok(total)
}

/// The gradients of `loss` by variables of these values: made by the graph, and central differences of some of them.
fn assert_gradients(
    values: &[Tensor],
    loss: impl Fn(&[Tensor]) -> Result<Tensor>,
    what: &str,
) -> Result<()> {
    const STEP: f64 = 1e-5;
    let variables: Vec<Var> = values.iter().map(Var::from_tensor).collect::<Result<_>>()?;
    let tensors: Vec<Tensor> = variables
        .iter()
        .map(|var| var.as_tensor().clone())
        .collect();
    let gradients = loss(&tensors)?.backward()?;
    for (operand, variable) in variables.iter().enumerate() {
        let found = numbers(gradients.get(variable).expect("a gradient"))?;
        let all = numbers(&values[operand])?;
        let step = all.len().div_ceil(24);
        for at in (0..all.len()).step_by(step) {
            let at_step = |step: f64| -> Result<f64> {
                let mut moved = all.clone();
                moved[at] += step;
                let mut values = values.to_vec();
                values[operand] =
                    Tensor::from_vec(moved, values[operand].shape(), values[operand].device())?;
                loss(&values)?.to_scalar()
            };
            let slope = (at_step(STEP)? - at_step(-STEP)?) / (2.0 * STEP);
            assert_near(
                &[found[at]],
                &[slope],
                1e-6,
                1.0,
                &format!("{what}: operand {operand}, {at}"),
            );
        }
    }
    Ok(())
}

/// Shapes of rows that a lane, a wavefront, a workgroup and several have, and that do not divide into vectors.
const SHAPES: [(usize, usize); 8] = [
    (5, 7),
    (1, 1),
    (9, 64),
    (300, 10),
    (4, 257),
    (3, 1000),
    (2, 20_001),
    (1, 70_003),
];

#[test]
fn losses_are_those_of_the_definition() -> Result<()> {
    for device in devices() {
        for (rows, columns) in SHAPES {
            for options in options() {
                for (dtype, tolerance) in TYPES {
                    if !device.is_cuda() && columns > 1000 {
                        continue;
                    }
                    let (logits, targets) = operands(rows, columns, dtype, &device)?;
                    let [loss, lse] = expected(&logits, &targets, &options)?;
                    let what = format!("{rows} x {columns} of {dtype:?}, {options:?}");
                    let (found, found_lse) =
                        ops::cross_entropy_with_lse(&logits, &targets, &options)?;
                    // Rounding of few logits to 16 bits has been done before.
                    let tolerance = tolerance.min(1e-3);
                    assert_near(&numbers(&found)?, &loss, tolerance, rows as f64, &what);
                    assert_near(&numbers(&found_lse)?, &lse, tolerance, 1.0, &what);
                    let scalar = options.reduction != Reduction::None;
                    assert_eq!(found.rank(), usize::from(!scalar), "{what}");
                    let plain = ops::cross_entropy(&logits, &targets, &options)?;
                    assert_eq!(numbers(&plain)?, numbers(&found)?, "{what}");
                }
            }
        }
    }
    Ok(())
}

#[test]
fn gradients_are_slopes() -> Result<()> {
    for device in devices() {
        for (rows, columns) in [(6, 7), (3, 130)] {
            for options in options() {
                let (logits, targets) = operands(rows, columns, DType::F64, &device)?;
                let what = format!("{rows} x {columns}, {options:?}");
                let loss = |x: &[Tensor]| {
                    let (loss, lse) = ops::cross_entropy_with_lse(&x[0], &targets, &options)?;
                    weighted(&[&loss, &lse])
                };
                assert_gradients(&[logits], loss, &what)?;
            }
        }
    }
    Ok(())
}

/// The gradients of logits of each dtype are those of f64 logits.
#[test]
fn gradients_of_each_dtype() -> Result<()> {
    let gpu = common::device()?;
    for (rows, columns) in SHAPES {
        for options in options() {
            for (dtype, tolerance) in TYPES {
                let (logits, targets) = operands(rows, columns, dtype, &gpu)?;
                let gradient = |logits: &Tensor, device: &Device| -> Result<Vec<f64>> {
                    let logits = Var::from_tensor(&logits.to_device(device)?)?;
                    let targets = targets.to_device(device)?;
                    let loss = ops::cross_entropy(&logits, &targets, &options)?;
                    let gradients = weighted(&[&loss])?.backward()?;
                    let gradient = gradients.get(&logits).expect("a gradient");
                    assert_eq!(gradient.dtype(), logits.dtype());
                    numbers(gradient)
                };
                let exact = gradient(&logits.to_dtype(DType::F64)?, &Device::Cpu)?;
                let found = gradient(&logits, &gpu)?;
                let what = format!("{rows} x {columns} of {dtype:?}, {options:?}");
                assert_near(&found, &exact, tolerance, 0.5, &what);
            }
        }
    }
    Ok(())
}

#[test]
fn rows_may_be_strided_and_targets_of_any_dtype() -> Result<()> {
    for device in devices() {
        let (wide, _) = operands(6, 40, DType::F32, &device)?;
        let options = CrossEntropyOptions::default();
        for logits in [
            wide.narrow(1, 3, 33)?,
            wide.narrow(1, 4, 32)?,
            wide.i(2..)?,
            wide.t()?,
            wide.reshape((2, 3, 40))?.narrow(2, 1, 37)?,
            wide.reshape((2, 3, 40))?.transpose(0, 1)?,
            wide.narrow(0, 1, 1)?.broadcast_as((5, 40))?,
        ] {
            let count = logits.elem_count() / logits.dim(D::Minus1)?;
            let columns = logits.dim(D::Minus1)?;
            let targets: Vec<i64> = (0..count)
                .map(|i| (i * 5 % columns.min(6)) as i64)
                .collect();
            let shape = &logits.dims()[..logits.rank() - 1];
            let targets = Tensor::from_vec(targets, shape, &device)?;
            let [expected, _] = expected(&logits, &targets, &options)?;
            for dtype in [DType::U8, DType::U32, DType::I64] {
                let found = ops::cross_entropy(&logits, &targets.to_dtype(dtype)?, &options)?;
                assert_near(
                    &numbers(&found)?,
                    &expected,
                    1e-5,
                    1.0,
                    &format!("{logits:?}"),
                );
            }
        }
        // The gradient of logits that are some columns of a variable.
        let var = Var::from_tensor(&wide.to_dtype(DType::F64)?)?;
        for (first, columns) in [(3, 33), (4, 36)] {
            let targets = Tensor::new(&[0u32, 5, 3, 31, 2, 1], &device)?;
            let loss = |x: &[Tensor]| {
                let some = x[0].narrow(1, first, columns)?;
                ops::cross_entropy(&some, &targets, &options)
            };
            assert_gradients(&[var.as_detached_tensor()], loss, "some columns")?;
        }
    }
    Ok(())
}

#[test]
fn rows_that_are_ignored_or_missing() -> Result<()> {
    for device in devices() {
        let logits = Var::from_tensor(&operands(4, 9, DType::F32, &device)?.0)?;
        let targets = Tensor::new(&[-100i64; 4], &device)?;
        let mut options = CrossEntropyOptions {
            ignore_index: Some(-100),
            ..Default::default()
        };
        let loss = ops::cross_entropy(&logits, &targets, &options)?;
        assert!(loss.to_scalar::<f32>()?.is_nan(), "the mean of no rows");
        let gradients = loss.backward()?;
        assert_eq!(numbers(gradients.get(&logits).expect("zeros"))?, [0.0; 36]);
        let nobody = targets.narrow(0, 0, 0)?;
        for (reduction, expected) in [(Reduction::Sum, 0.0), (Reduction::Mean, f32::NAN)] {
            options.reduction = reduction;
            let none = ops::cross_entropy(&logits.narrow(0, 0, 0)?, &nobody, &options)?;
            assert_eq!(none.to_scalar::<f32>()?.to_bits(), expected.to_bits());
        }
        options.reduction = Reduction::None;
        let none = ops::cross_entropy(&logits.narrow(0, 0, 0)?, &nobody, &options)?;
        assert_eq!(none.dims(), [0]);
        // Logits of -infinity are no column's, and no row's loss but that whose target they are.
        let masked = Tensor::new(&[[0f32, f32::NEG_INFINITY, 0.]], &device)?;
        let found = ops::cross_entropy(&masked, &Tensor::new(&[2u32], &device)?, &options)?;
        assert_near(
            &numbers(&found)?,
            &[2f64.ln()],
            1e-6,
            1.0,
            "a masked column",
        );
    }
    Ok(())
}

#[test]
fn what_makes_no_sense_is_an_error_that_says_so() -> Result<()> {
    let device = common::device()?;
    let (logits, targets) = operands(3, 5, DType::F32, &device)?;
    let options = CrossEntropyOptions::default();
    let refused = |logits: &Tensor, targets: &Tensor, options: &CrossEntropyOptions| {
        let error = ops::cross_entropy(logits, targets, options).expect_err("refused");
        error.to_string()
    };
    let floats = targets.to_dtype(DType::F32)?;
    let narrow = targets.narrow(0, 0, 2)?;
    let smooth = CrossEntropyOptions {
        label_smoothing: 1.5,
        ..options
    };
    let capped = CrossEntropyOptions {
        softcap: Some(0.0),
        ..options
    };
    for (found, parts) in [
        (
            refused(&logits, &floats, &options),
            ["F32", "u8, u32 or i64"],
        ),
        (refused(&logits, &narrow, &options), ["[2]", "[3, 5]"]),
        (refused(&targets, &targets, &options), ["I64", "f16, bf16"]),
        (refused(&logits, &targets, &smooth), ["1.5", "from 0 to 1"]),
        (refused(&logits, &targets, &capped), ["softcap", "above 0"]),
    ] {
        assert!(found.starts_with("cross_entropy: "), "{found}");
        assert!(parts.iter().all(|part| found.contains(part)), "{found}");
    }
    let on_host = refused(
        &logits.to_device(&Device::Cpu)?,
        &Tensor::new(&[0i64, 7, 1], &Device::Cpu)?,
        &options,
    );
    let expected = "cross_entropy: index 7 at position 1 is outside of a dimension of 5 (ids: i64)";
    // A backtrace may follow.
    assert_eq!(on_host.lines().next(), Some(expected));
    Ok(())
}

/// A trap ends the process's GPU: the case has a process of its own.
#[test]
fn a_target_that_is_no_column_is_named() {
    process::alone("a_target_that_is_no_column_is_named", &[], || {
        let device = common::device().expect("a GPU");
        let logits = Tensor::zeros((3, 70_000), DType::F32, &device).expect("logits");
        let targets = Tensor::new(&[5u32, 69_999, 70_000], &device).expect("targets");
        let options = CrossEntropyOptions::default();
        let loss = ops::cross_entropy(&logits, &targets, &options);
        let error = loss
            .and_then(|loss| loss.to_scalar::<f32>())
            .expect_err("a trap");
        let expected =
            "cross_entropy: index 70000 at position 2 is outside of a dimension of 70,000 (ids: u32)";
        assert!(error.to_string().contains(expected), "{error}");
    });
}

/// Hidden states and a weight, rounded to a dtype.
fn linear(
    rows: usize,
    width: usize,
    columns: usize,
    dtype: DType,
    device: &Device,
) -> Result<[Tensor; 2]> {
    let mut random = Random::new((rows + width + columns) as u64);
    let mut of = |rows: usize| {
        Tensor::from_vec(normal(&mut random, rows * width), (rows, width), device)?.to_dtype(dtype)
    };
    Ok([of(rows)?, of(columns)?])
}

#[test]
fn a_products_losses_are_those_of_its_logits() -> Result<()> {
    for device in devices() {
        for options in options() {
            for (dtype, tolerance) in TYPES {
                let (rows, width, columns) = (11, 16, 37);
                let [hidden, weight] = linear(rows, width, columns, dtype, &device)?;
                let targets = operands(rows, columns, dtype, &device)?.1;
                let exact = |x: &Tensor| x.to_device(&Device::Cpu)?.to_dtype(DType::F64);
                let gradients = |variables: &[Var; 2], loss: &Tensor| -> Result<Vec<Vec<f64>>> {
                    let gradients = weighted(&[loss])?.backward()?;
                    let of = |var: &Var| numbers(gradients.get(var).expect("a gradient"));
                    variables.iter().map(of).collect()
                };
                let of_f64 = [
                    Var::from_tensor(&exact(&hidden)?)?,
                    Var::from_tensor(&exact(&weight)?)?,
                ];
                let logits = of_f64[0].matmul(&of_f64[1].t()?)?;
                let cpu_targets = targets.to_device(&Device::Cpu)?;
                let loss = ops::cross_entropy(&logits, &cpu_targets, &options)?;
                let wanted = gradients(&of_f64, &loss)?;
                for chunk in [None, Some(1), Some(4), Some(11), Some(100)] {
                    let what = format!("chunks of {chunk:?}, {dtype:?}, {options:?}");
                    let variables = [Var::from_tensor(&hidden)?, Var::from_tensor(&weight)?];
                    let [hidden, weight] = [&variables[0], &variables[1]];
                    let (found, lse) = ops::linear_cross_entropy_with_lse(
                        hidden, weight, &targets, &options, chunk,
                    )?;
                    assert_near(
                        &numbers(&found)?,
                        &numbers(&loss)?,
                        4.0 * tolerance,
                        8.0,
                        &what,
                    );
                    assert_eq!(lse.dims(), [rows]);
                    let found = gradients(&variables, &found)?;
                    for (found, wanted) in found.iter().zip(&wanted) {
                        // Logits, gradients and their sums are rounded to the dtype, those of each chunk.
                        assert_near(found, wanted, 8.0 * tolerance, 4.0, &what);
                    }
                }
            }
        }
    }
    Ok(())
}

#[test]
fn a_products_gradients_are_slopes() -> Result<()> {
    for device in devices() {
        for options in options() {
            let values = linear(6, 5, 9, DType::F64, &device)?;
            let targets = operands(6, 9, DType::F64, &device)?.1.reshape((2, 3))?;
            let loss = |x: &[Tensor]| {
                let hidden = x[0].reshape((2, 3, 5))?;
                let loss = ops::linear_cross_entropy(&hidden, &x[1], &targets, &options, Some(4))?;
                weighted(&[&loss])
            };
            assert_gradients(&values, loss, &format!("{options:?}"))?;
        }
    }
    Ok(())
}

#[test]
fn products_that_make_no_sense_are_refused() -> Result<()> {
    let device = common::device()?;
    let [hidden, weight] = linear(3, 4, 5, DType::F32, &device)?;
    let targets = Tensor::new(&[0u32, 1, 2], &device)?;
    let options = CrossEntropyOptions::default();
    for (hidden, weight, chunk, part) in [
        (&hidden, &weight.t()?, None, "(columns, width)"),
        (&hidden, &weight.to_dtype(DType::F16)?, None, "of one dtype"),
        (&hidden, &weight, Some(0), "chunks of no rows"),
    ] {
        let error = ops::linear_cross_entropy(hidden, weight, &targets, &options, chunk);
        let error = error.expect_err("refused").to_string();
        assert!(
            error.starts_with("linear_cross_entropy: ") && error.contains(part),
            "{error}"
        );
    }
    let nobody = targets.narrow(0, 0, 0)?;
    let none =
        ops::linear_cross_entropy(&hidden.narrow(0, 0, 0)?, &weight, &nobody, &options, None)?;
    assert!(none.to_scalar::<f32>()?.is_nan());
    Ok(())
}

#[test]
fn dropout_is_one_mask_on_every_device_and_in_both_passes() -> Result<()> {
    let gpu = common::device()?;
    for dtype in [DType::F64, DType::F32, DType::F16, DType::BF16] {
        for count in [1, 7, 8, 1003, 40_000] {
            let values = normal(&mut Random::new(count as u64), count);
            let x = Tensor::from_vec(values, count, &Device::Cpu)?.to_dtype(dtype)?;
            let (p, seed) = (0.25, 0x1234_5678_9abc_def0);
            let expected = numbers(&ops::dropout(&x, p, seed)?)?;
            let on_gpu = Var::from_tensor(&x.to_device(&gpu)?)?;
            let y = ops::dropout(&on_gpu, p, seed)?;
            assert_eq!(numbers(&y)?, expected, "{count} of {dtype:?}");
            let gradients = y.sum_all()?.backward()?;
            let factors = numbers(gradients.get(&on_gpu).expect("a gradient"))?;
            let ones = ops::dropout(&x.ones_like()?, p, seed)?;
            assert_eq!(
                factors,
                numbers(&ones)?,
                "the gradient of {count} of {dtype:?}"
            );
            let dropped = factors.iter().filter(|&&factor| factor == 0.0).count() as f64;
            let (mean, deviation) = (p * count as f64, (p * (1.0 - p) * count as f64).sqrt());
            assert!(
                (dropped - mean).abs() <= 4.0 * deviation + 1.0,
                "{dropped} of {count}"
            );
            let other = numbers(&ops::dropout(&x, p, seed + 1)?)?;
            assert!(count < 100 || other != expected, "another seed's mask");
        }
    }
    // Part of a tensor, what is not contiguous, and what is empty.
    let x = Tensor::arange(1f32, 101., &gpu)?;
    for x in [x.narrow(0, 3, 90)?, x.reshape((10, 10))?.t()?] {
        let host = ops::dropout(&x.to_device(&Device::Cpu)?, 0.5, 9)?;
        assert_eq!(numbers(&ops::dropout(&x, 0.5, 9)?)?, numbers(&host)?);
    }
    assert_eq!(ops::dropout(&x.narrow(0, 0, 0)?, 0.5, 1)?.dims(), [0]);
    assert_eq!(numbers(&ops::dropout(&x, 0.0, 1)?)?, numbers(&x)?);
    let error = ops::dropout(&x, 1.0, 1).expect_err("refused").to_string();
    assert!(error.starts_with("dropout: a probability of 1"), "{error}");
    Ok(())
}

//! What docs/user/candle-host-bugs.md lists is as listed: each bug still shows itself by the sign that stands here, and what
//! the page says to do instead is right.
//!
//! Each bug runs in a process of its own. One that dies, or does not end, fails the test unless just that is the sign; and
//! so does one that is gone.

use std::io::Write as _;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::time::Duration;

use anyhow::{ensure, Context as _, Result};
use candle_core::quantized::{GgmlDType, QMatMul, QTensor};
use candle_core::{DType, Device, Module as _, Shape, Tensor};
use candle_rocm_testing::process::{self, End, Ended, PASSED};
use candle_rocm_tests::device;

/// Where a bug is.
#[derive(Clone, Copy)]
enum On {
    Gpu,
    Cpu,
}

/// By what a bug shows itself.
#[derive(Debug)]
enum Sign {
    /// These numbers, in place of the right ones.
    Numbers(&'static [f64]),
    /// An error that says this.
    Error(&'static str),
    /// A panic that says this.
    Panic(&'static str),
    /// It does not end; or, if the compiler makes no loop of it, ends by overflowing the stack.
    NeverEnds,
}

type Run = fn(&Device) -> Result<Vec<f64>>;

/// A bug of the list.
struct Bug {
    /// How its row of the list begins.
    listed: &'static str,
    on: On,
    run: Run,
    sign: Sign,
    /// What it should give.
    right: &'static [f64],
    /// What gives that: what the list says to do instead, or the same elsewhere.
    instead: &'static [(On, Run)],
}

const BUGS: [Bug; 20] = [
    // `CudaStorage::index_add` makes an accumulator of the layout's shape, then takes its part at the layout's offsets.
    Bug {
        listed: "`index_add` on a tensor with a start offset",
        on: On::Gpu,
        run: |device| index_add(Tensor::zeros((3, 3), DType::F32, device)?.narrow(0, 1, 2)?),
        sign: Sign::Panic("is not within a device buffer"),
        right: &[0., 0., 0., 1., 1., 1.],
        instead: &[(On::Gpu, |device| {
            let tensor = Tensor::zeros((3, 3), DType::F32, device)?.narrow(0, 1, 2)?;
            index_add(tensor.force_contiguous()?)
        })],
    },
    // The device's `embedding` does not look at its ids; the CPU's does. Only the emulator sees the access.
    Bug {
        listed: "`QTensor::embedding` with an id past the last row",
        on: On::Gpu,
        run: |device| embedding(device, 1 << 20),
        sign: Sign::Error("get_rows_q8_0"),
        // What q8_0 holds exactly.
        right: &[127.; 32],
        instead: &[
            (On::Gpu, |device| embedding(device, 1)),
            (On::Cpu, |device| embedding(device, 1)),
        ],
    },
    // `CudaStorage::conv1d`, and the CPU's, copy weights that are not contiguous, then multiply by the original: with the
    // weights 0 1 2 3 in place of 0 2 1 3.
    Bug {
        listed: "`conv1d` with weights that are not contiguous",
        on: On::Gpu,
        run: |device| conv1d(device, Ok),
        sign: Sign::Numbers(&[2., 3., 6., 11.]),
        right: &[4., 6., 6., 10.],
        instead: &[(On::Gpu, |device| {
            conv1d(device, |weights| weights.contiguous())
        })],
    },
    Bug {
        listed: "`conv1d` with weights that are not contiguous",
        on: On::Cpu,
        run: |device| conv1d(device, Ok),
        sign: Sign::Numbers(&[2., 3., 6., 11.]),
        right: &[4., 6., 6., 10.],
        instead: &[(On::Cpu, |device| {
            conv1d(device, |weights| weights.contiguous())
        })],
    },
    // `cuda_backend::Gather` passes the kernel the source's sizes after the dimension, where the indices' may be smaller.
    Bug {
        listed: "`gather` with indices that have fewer elements",
        on: On::Gpu,
        run: |device| gather(numbered((2, 3), device)?),
        sign: Sign::Numbers(&[0., 4., 5., 0.]),
        right: &[0., 4., 3., 1.],
        instead: &[
            (On::Gpu, |device| {
                gather(numbered((2, 3), device)?.narrow(1, 0, 2)?.contiguous()?)
            }),
            (On::Cpu, |device| gather(numbered((2, 3), device)?)),
        ],
    },
    // `cuda_backend::FastReduce` divides the number of elements by the number of results, which may be zero.
    Bug {
        listed: "`sum` whose result has no elements",
        on: On::Gpu,
        run: |device| values(Tensor::zeros((0, 3), DType::F32, device)?.sum(1)?),
        sign: Sign::Panic("divide by zero"),
        right: &[],
        instead: &[(On::Cpu, |device| {
            values(Tensor::zeros((0, 3), DType::F32, device)?.sum(1)?)
        })],
    },
    // `sort::ArgSort` divides the number of elements by the number of columns.
    Bug {
        listed: "`arg_sort_last_dim`, `sort_last_dim` of rows without columns",
        on: On::Gpu,
        run: |device| values(Tensor::zeros((3, 0), DType::F32, device)?.arg_sort_last_dim(true)?),
        sign: Sign::Panic("divide by zero"),
        right: &[],
        instead: &[],
    },
    Bug {
        listed: "comparisons (`eq` ... `ge`) of i16 and i32",
        on: On::Gpu,
        run: |device| {
            let x = Tensor::new(&[1i32, 2], device)?;
            values(x.eq(&x)?)
        },
        sign: Sign::Error("dtype mismatch in binary op"),
        right: &[1., 1.],
        instead: &[(On::Gpu, |device| {
            let x = Tensor::new(&[1i32, 2], device)?.to_dtype(DType::I64)?;
            values(x.eq(&x)?)
        })],
    },
    Bug {
        listed: "`to_dtype` from another dtype to i16 or i32",
        on: On::Gpu,
        run: |device| values(Tensor::new(&[1f32, 2.], device)?.to_dtype(DType::I32)?),
        sign: Sign::Error("i16,i32 dtypes are not supported"),
        right: &[1., 2.],
        instead: &[(On::Gpu, |device| {
            values(Tensor::new(&[1f32, 2.], device)?.to_dtype(DType::I64)?)
        })],
    },
    // `gemm_config` in `cuda_backend/mod.rs` knows matrices whose rows or columns follow each other, and no heads between
    // a token's and the next one's. The CPU's product has no such limit.
    Bug {
        listed: "products of heads that lie between a token's and the next one's",
        on: On::Gpu,
        run: |device| heads(numbered((2, 2, 2), device)?, |x| Ok(x.clone())),
        sign: Sign::Error("matmul is only supported for contiguous tensors"),
        right: &[1., 5., 5., 41., 13., 33., 33., 85.],
        instead: &[
            (On::Gpu, |device| {
                heads(numbered((2, 2, 2), device)?, |x| x.contiguous())
            }),
            (On::Cpu, |device| {
                heads(numbered((2, 2, 2), device)?, |x| Ok(x.clone()))
            }),
        ],
    },
    // The same for rows that lie further apart than they are long. cuBLAS has a leading dimension for it.
    Bug {
        listed: "products of a matrix whose rows are apart",
        on: On::Gpu,
        run: |device| apart(device, |x| Ok(x.clone())),
        sign: Sign::Error("matmul is only supported for contiguous tensors"),
        right: &[1., 3., 7., 21.],
        instead: &[
            (On::Gpu, |device| apart(device, |x| x.contiguous())),
            (On::Cpu, |device| apart(device, |x| Ok(x.clone()))),
        ],
    },
    // `Tensor::cumsum` multiplies by a triangular matrix of the dimension's size, here of 160 GB and then 640.
    Bug {
        listed: "`cumsum` of a long dimension",
        on: On::Gpu,
        run: |device| {
            let sums = Tensor::ones(400_000, DType::F32, device)?.cumsum(0)?;
            values(sums.narrow(0, 399_999, 1)?.force_contiguous()?)
        },
        sign: Sign::Error("memory"),
        right: &[400_000.],
        instead: &[(On::Gpu, |device| {
            let parts = Tensor::ones((500, 800), DType::F32, device)?.cumsum(1)?;
            let before = parts.narrow(1, 799, 1)?.contiguous()?.cumsum(0)?;
            let before = Tensor::cat(
                &[
                    &before.narrow(0, 0, 1)?.zeros_like()?,
                    &before.narrow(0, 0, 499)?,
                ],
                0,
            )?;
            let sums = parts.broadcast_add(&before)?.flatten_all()?;
            values(sums.narrow(0, 399_999, 1)?.force_contiguous()?)
        })],
    },
    // `dequantize_matmul_vec` and `dequantize_matmul` in `quantized/cuda.rs` name no kernels for these two.
    Bug {
        listed: "products with q8_1 or q8K weights",
        on: On::Gpu,
        run: |device| product_with(GgmlDType::Q8_1, device, true),
        sign: Sign::Error("unsupported dtype for quantized matmul Q8_1"),
        right: &[127. * 256.],
        instead: &[(On::Gpu, |device| {
            product_with(GgmlDType::Q8_1, device, false)
        })],
    },
    Bug {
        listed: "products with q8_1 or q8K weights",
        on: On::Gpu,
        run: |device| product_with(GgmlDType::Q8K, device, true),
        sign: Sign::Error("unsupported dtype for quantized matmul Q8K"),
        right: &[127. * 256.],
        instead: &[(On::Gpu, |device| {
            product_with(GgmlDType::Q8K, device, false)
        })],
    },
    // `CudaStorage::copy2d` makes 32 bits of its sizes, and copies nothing where one of them is then zero.
    Bug {
        listed: "`slice_set` and `cat` of 2^32 elements",
        on: On::Gpu,
        run: |device| {
            let one = Tensor::ones(1, DType::U8, device)?;
            // SAFETY: what is looked at is written first.
            let [from, to] =
                [(); 2].map(|()| unsafe { Tensor::empty(1usize << 32, DType::U8, device) });
            let (from, to) = (from?, to?);
            from.slice_set(&one, 0, 0)?;
            to.slice_set(&one.zeros_like()?, 0, 0)?;
            to.slice_set(&from, 0, 0)?;
            values(to.narrow(0, 0, 1)?.force_contiguous()?)
        },
        sign: Sign::Numbers(&[0.]),
        right: &[1.],
        instead: &[],
    },
    // The CPU's product of a batch of transposed matrices with one matrix takes the batch for more rows. The device, which
    // the convolution reaches with the same layouts, is right.
    Bug {
        listed: "products of a batch of transposed matrices with one matrix",
        on: On::Cpu,
        run: |device| conv_transpose1d(device, 0, 2),
        sign: Sign::Numbers(&[3., 4., 5., 6., 7., 8.]),
        right: &[3., 4., 5., 9., 10., 11.],
        instead: &[
            (On::Gpu, |device| conv_transpose1d(device, 0, 2)),
            (On::Cpu, |device| {
                Ok([
                    conv_transpose1d(device, 0, 1)?,
                    conv_transpose1d(device, 1, 1)?,
                ]
                .concat())
            }),
        ],
    },
    // `Linear::forward` multiplies a batch that is not contiguous by the weight, broadcast: the product above.
    Bug {
        listed: "`Linear` on a batch of transposed matrices",
        on: On::Cpu,
        run: |device| linear(device, Ok),
        sign: Sign::Numbers(&[3., 4., 5., 6., 7., 8.]),
        right: &[3., 4., 5., 9., 10., 11.],
        instead: &[
            (On::Gpu, |device| linear(device, Ok)),
            (On::Cpu, |device| linear(device, |x| x.contiguous())),
        ],
    },
    // `<F8E4M3 as WithDType>::to_f64` calls itself: its body `v.to_f64()` means the trait's method, not float8's.
    Bug {
        listed: "any conversion of F8E4M3 to f64",
        on: On::Cpu,
        run: |_| {
            Ok(vec![candle_core::WithDType::to_f64(std::hint::black_box(
                one(),
            ))])
        },
        sign: Sign::NeverEnds,
        right: &[1.],
        instead: &[(On::Cpu, |_| Ok(vec![one().to_f64()]))],
    },
    // The CPU multiplies a window's sum by 1 / area as an integer.
    Bug {
        listed: "`avg_pool2d` of integers",
        on: On::Cpu,
        run: mean_of_integers,
        sign: Sign::Numbers(&[0.]),
        right: &[6.],
        instead: &[(On::Gpu, mean_of_integers)],
    },
    // The CPU's `upsample_bilinear2d` to the size that is there returns the storage as it lies.
    Bug {
        listed: "`upsample_bilinear2d` to the size that is there",
        on: On::Cpu,
        run: |device| resized(device, Ok),
        sign: Sign::Numbers(&[0., 1., 2., 3.]),
        right: &[0., 2., 1., 3.],
        instead: &[
            (On::Gpu, |device| resized(device, Ok)),
            (On::Cpu, |device| {
                resized(device, |turned| turned.contiguous())
            }),
        ],
    },
];

/// Only in debug builds of candle-core.
#[cfg(debug_assertions)]
const IN_DEBUG_BUILDS: [Bug; 1] = [Bug {
    listed: "products with q4_1, q5_0 or q5_1 weights whose rows have an odd number of blocks",
    on: On::Cpu,
    run: |device| {
        let weights = Tensor::ones((1, 96), DType::F32, device)?;
        let weights = QMatMul::from_qtensor(QTensor::quantize(&weights, GgmlDType::Q5_1)?)?;
        values(weights.forward(&Tensor::ones((1, 96), DType::F32, device)?)?)
    },
    sign: Sign::Panic("is not divisible by 2"),
    right: &[96.],
    instead: &[],
}];
#[cfg(not(debug_assertions))]
const IN_DEBUG_BUILDS: [Bug; 0] = [];

fn bugs() -> impl Iterator<Item = Bug> {
    BUGS.into_iter().chain(IN_DEBUG_BUILDS)
}

fn values(tensor: Tensor) -> Result<Vec<f64>> {
    Ok(tensor
        .to_device(&Device::Cpu)?
        .to_dtype(DType::F64)?
        .flatten_all()?
        .to_vec1()?)
}

/// Scores of tokens that lie as (token, head, element), head by head.
fn heads(x: Tensor, lay: fn(&Tensor) -> candle_core::Result<Tensor>) -> Result<Vec<f64>> {
    let x = lay(&x.transpose(0, 1)?)?;
    values(x.matmul(&lay(&x.transpose(1, 2)?)?)?)
}

/// A product with two columns of three.
fn apart(device: &Device, lay: fn(&Tensor) -> candle_core::Result<Tensor>) -> Result<Vec<f64>> {
    let x = lay(&numbered((2, 3), device)?.narrow(1, 0, 2)?)?;
    let y = Tensor::new(&[[1f32, 3.], [1., 3.]], device)?;
    values(x.matmul(&y)?)
}

/// Of a row of weights, quantised or as they are dequantised, and a row of ones.
fn product_with(dtype: GgmlDType, device: &Device, quantised: bool) -> Result<Vec<f64>> {
    let weights = Tensor::full(127f32, (1, 256), &Device::Cpu)?;
    let weights = QTensor::quantize_onto(&weights, dtype, device)?;
    let ones = Tensor::ones((1, 256), DType::F32, device)?;
    if quantised {
        return values(QMatMul::from_qtensor(weights)?.forward(&ones)?);
    }
    values(ones.matmul(&weights.dequantize(device)?.t()?)?)
}

fn numbered(shape: impl Into<Shape>, device: &Device) -> Result<Tensor> {
    let shape = shape.into();
    let count = shape.elem_count() as u32;
    Ok(Tensor::arange(0, count, device)?
        .to_dtype(DType::F32)?
        .reshape(shape)?)
}

fn one() -> float8::F8E4M3 {
    float8::F8E4M3::from_bits(0x38)
}

fn index_add(tensor: Tensor) -> Result<Vec<f64>> {
    let ids = Tensor::new(&[1u32], tensor.device())?;
    let source = Tensor::ones((1, 3), DType::F32, tensor.device())?;
    values(tensor.index_add(&ids, &source, 0)?)
}

/// The row with this number, after row 1.
fn embedding(device: &Device, id: u32) -> Result<Vec<f64>> {
    let full = Tensor::full(127f32, (2, 32), &Device::Cpu)?;
    let table = QTensor::quantize_onto(&full, GgmlDType::Q8_0, device)?;
    values(
        table
            .embedding(&Tensor::new(&[1, id], device)?)?
            .narrow(0, 1, 1)?,
    )
}

fn conv1d(device: &Device, treat: fn(Tensor) -> candle_core::Result<Tensor>) -> Result<Vec<f64>> {
    let images = numbered((1, 2, 2), device)?;
    let weights = treat(numbered((2, 2, 1), device)?.transpose(0, 1)?)?;
    values(images.conv1d(&weights, 0, 1, 1, 1)?)
}

fn gather(source: Tensor) -> Result<Vec<f64>> {
    let ids = Tensor::new(&[[0u32, 1], [1, 0]], source.device())?;
    values(source.gather(&ids, 0)?)
}

fn conv_transpose1d(device: &Device, from: usize, count: usize) -> Result<Vec<f64>> {
    let images = numbered((2, 2, 3), device)?.narrow(0, from, count)?;
    let weights = numbered((2, 1, 1), device)?;
    values(images.conv_transpose1d(&weights, 0, 0, 1, 1, 1)?)
}

fn linear(device: &Device, treat: fn(Tensor) -> candle_core::Result<Tensor>) -> Result<Vec<f64>> {
    let x = treat(numbered((2, 2, 3), device)?.transpose(1, 2)?)?;
    let layer = candle_nn::Linear::new(numbered((1, 2), device)?, None);
    values(layer.forward(&x)?)
}

fn mean_of_integers(device: &Device) -> Result<Vec<f64>> {
    let images = Tensor::new(&[3u32, 5, 6, 11], device)?.reshape((1, 1, 2, 2))?;
    values(images.avg_pool2d(2)?)
}

fn resized(device: &Device, treat: fn(Tensor) -> candle_core::Result<Tensor>) -> Result<Vec<f64>> {
    let turned = treat(numbered((1, 1, 2, 2), device)?.transpose(2, 3)?)?;
    values(turned.upsample_bilinear2d(2, 2, false)?)
}

fn on(place: On) -> Result<Device> {
    match place {
        On::Gpu => device(),
        On::Cpu => Ok(Device::Cpu),
    }
}

/// The number of the bug that a process is to run.
const BUG: &str = "CANDLE_ROCM_TEST_BUG";
/// What it prints before the bug, and what before the bug's outcome.
const STARTED: &str = "THE BUG STARTS";
const OUTCOME: &str = "THE BUG'S OUTCOME: ";

#[test]
#[ignore = "one bug of each_bug_shows_its_sign, which runs it in a process of its own"]
fn one_bug() -> Result<()> {
    let number: usize = std::env::var(BUG)?.parse()?;
    let bug = bugs().nth(number).context("no such bug")?;
    let device = on(bug.on)?;
    println!("\n{STARTED}");
    std::io::stdout().flush()?;
    let outcome = match catch_unwind(AssertUnwindSafe(|| (bug.run)(&device))) {
        Ok(Ok(numbers)) => format!("numbers {numbers:?}"),
        Ok(Err(error)) => format!("error {error:#}"),
        Err(panic) => {
            let text = panic.downcast_ref::<&str>().copied();
            let text = text.or(panic.downcast_ref::<String>().map(String::as_str));
            format!("panic {}", text.unwrap_or("without a text"))
        }
    };
    println!("\n{OUTCOME}{}", outcome.replace('\n', " "));
    Ok(())
}

/// Runs a bug in a process of its own. One that does not end gets a few seconds, of which the start of the process
/// takes no part.
fn outcome(number: usize, sign: &Sign) -> Ended {
    let mut patience = match sign {
        Sign::NeverEnds => Duration::from_secs(3),
        _ => process::PATIENCE,
    };
    loop {
        let mut command = process::command_of("one_bug");
        let ended = process::run(command.env(BUG, number.to_string()), patience);
        if ended.stdout.contains(STARTED) || patience >= process::PATIENCE {
            return ended;
        }
        patience *= 4;
    }
}

/// What is wrong with how a bug's process ended, by the bug's sign.
fn judge(bug: &Bug, ended: &Ended) -> Result<(), String> {
    if let Sign::NeverEnds = bug.sign {
        let overflow = ended.stderr.contains("overflowed its stack");
        match ended.end {
            End::Never => return Ok(()),
            End::Signal(6) if overflow => return Ok(()),
            _ => {}
        }
    }
    if ended.end != PASSED {
        return Err(format!("the process died: {}", ended.text()));
    }
    let outcome = ended
        .stdout
        .lines()
        .find_map(|line| line.strip_prefix(OUTCOME));
    let outcome = outcome.ok_or_else(|| format!("no outcome: {}", ended.text()))?;
    if outcome == format!("numbers {:?}", bug.right) {
        return Err("Candle was mended: take it off the list".to_owned());
    }
    let is_as_listed = match bug.sign {
        Sign::Numbers(wrong) => outcome == format!("numbers {wrong:?}"),
        Sign::Error(text) => outcome.starts_with("error ") && outcome.contains(text),
        Sign::Panic(text) => outcome.starts_with("panic ") && outcome.contains(text),
        Sign::NeverEnds => false,
    };
    if is_as_listed {
        return Ok(());
    }
    Err(format!("{outcome}, where the list has {:?}", bug.sign))
}

#[test]
fn each_bug_shows_its_sign() -> Result<()> {
    let mut wrong = Vec::new();
    for (number, bug) in bugs().enumerate() {
        let ended = outcome(number, &bug.sign);
        if let Err(why) = judge(&bug, &ended) {
            wrong.push(format!("{}: {why}", bug.listed));
        }
    }
    ensure!(wrong.is_empty(), "{}", wrong.join("\n"));
    Ok(())
}

#[test]
fn what_to_do_instead_is_right() -> Result<()> {
    for bug in bugs() {
        for (place, run) in bug.instead {
            let found = run(&on(*place)?).with_context(|| bug.listed)?;
            ensure!(found == bug.right, "{}: {found:?}", bug.listed);
        }
    }
    Ok(())
}

/// Every row of the list's tables is here, but for those of models, and all that is here is a row.
#[test]
fn the_list_is_complete() -> Result<()> {
    let page = include_str!("../../docs/user/candle-host-bugs.md");
    let (page, _) = page.split_once("\n## Models").context("no models")?;
    let rows: Vec<&str> = page
        .lines()
        .filter_map(|line| line.strip_prefix("| "))
        .filter(|row| !row.starts_with("operator |"))
        .collect();
    for bug in bugs() {
        let found = rows.iter().any(|row| row.starts_with(bug.listed));
        ensure!(found, "not on the list: {}", bug.listed);
    }
    for row in rows {
        let found = bugs().any(|bug| row.starts_with(bug.listed));
        // Those of debug builds are not compiled into others.
        let elsewhere = cfg!(not(debug_assertions)) && row.contains("debug builds");
        ensure!(found || elsewhere, "nothing tries this row: {row}");
    }
    Ok(())
}

/// A process that dies is not a bug that shows its sign, whatever it said before; nor is a right result.
#[test]
fn deaths_and_right_results_are_told_from_signs() {
    let bug = &BUGS[4];
    let said = |end, outcome: &str| Ended {
        end,
        stdout: format!("{STARTED}\n{OUTCOME}{outcome}\n"),
        stderr: String::new(),
    };
    let listed = "numbers [0.0, 4.0, 5.0, 0.0]";
    assert_eq!(judge(bug, &said(PASSED, listed)), Ok(()));
    for (end, outcome, words) in [
        (End::Signal(6), listed, "died"),
        (End::Signal(11), listed, "died"),
        (End::Never, listed, "died"),
        (process::FAILED, listed, "died"),
        (PASSED, "numbers [0.0, 4.0, 3.0, 1.0]", "mended"),
        (PASSED, "numbers [0.0, 4.0, 5.0, 1.0]", "where the list has"),
        (PASSED, "error divide by zero", "where the list has"),
    ] {
        let error = judge(bug, &said(end, outcome)).unwrap_err();
        assert!(error.contains(words), "{end:?} {outcome}: {error}");
    }
}

//! Convolutions, pooling and upsampling.

use anyhow::{ensure, Result};
use candle_core::{DType, Device, Tensor};
use candle_rocm_tests::device;

use super::compare::{check, check_against, Nearness};
use super::inputs::*;

/// Padding, stride, dilation and groups.
#[derive(Clone, Copy, Debug)]
struct Window {
    padding: usize,
    stride: usize,
    dilation: usize,
    groups: usize,
}

const WINDOWS: [Window; 7] = [
    window(0, 1, 1, 1),
    window(1, 1, 1, 1),
    window(2, 2, 1, 1),
    window(0, 3, 1, 1),
    window(2, 1, 2, 1),
    window(3, 2, 3, 1),
    window(1, 2, 1, 2),
];

const fn window(padding: usize, stride: usize, dilation: usize, groups: usize) -> Window {
    Window {
        padding,
        stride,
        dilation,
        groups,
    }
}

/// A tensor from an odd offset; turned, its first two dimensions are swapped in memory.
fn tensor(dtype: DType, seed: u64, dims: &[usize], turned: bool, gpu: &Device) -> Result<Tensor> {
    let count = dims.iter().product();
    let long = many_numbers(dtype, seed, count + 1)?
        .to_device(gpu)?
        .narrow(0, 1, count)?;
    if !turned {
        return Ok(long.reshape(dims)?);
    }
    let mut swapped = dims.to_vec();
    swapped.swap(0, 1);
    Ok(long.reshape(swapped)?.transpose(0, 1)?)
}

/// The columns of im2col are exact, sums are f32's; transposed ones add up products that are stored in the dtype.
const DIRECT: Nearness = Nearness::Sum(0.0);
const TRANSPOSED: Nearness = Nearness::Sum(2.0);
/// As on the CPU, 1 / area is rounded to the dtype.
const MEAN: Nearness = Nearness::Sum(1.0);

#[test]
fn one_dimension() -> Result<()> {
    let gpu = device()?;
    for dtype in WIDE_FLOATS {
        for (batch, channels, length, out, size) in [
            (1, 2, 9, 2, 3),
            (2, 4, 31, 6, 5),
            (3, 6, 70, 4, 1),
            (2, 2, 12, 2, 4),
        ] {
            for turned in [false, true] {
                for window in WINDOWS {
                    let Window {
                        padding,
                        stride,
                        dilation,
                        groups,
                    } = window;
                    if length + 2 * padding < dilation * (size - 1) + 1 {
                        continue;
                    }
                    let x = tensor(dtype, 71, &[batch, channels, length], turned, &gpu)?;
                    // Candle misreads turned weights here, see docs/user/candle-host-bugs.md.
                    let w = tensor(dtype, 72, &[out, channels / groups, size], false, &gpu)?;
                    let what = format!(
                        "{dtype:?}, {window:?}, {:?} by {:?}, turned {turned}",
                        x.dims(),
                        w.dims()
                    );
                    check(
                        &format!("conv1d of {what}"),
                        &[x.clone(), w],
                        DIRECT,
                        &|x| x[0].conv1d(&x[1], padding, stride, dilation, groups),
                    )?;
                    let w = tensor(dtype, 73, &[channels, out / groups, size], turned, &gpu)?;
                    let output_padding = usize::from(stride > 1);
                    let padding = padding.min(size - 1);
                    let transposed = |x: &Tensor, w: &Tensor| {
                        x.conv_transpose1d(w, padding, output_padding, stride, dilation, groups)
                    };
                    check_against(
                        &format!("conv_transpose1d of {what}"),
                        &[x, w],
                        TRANSPOSED,
                        &|x| transposed(&x[0], &x[1]),
                        // Image by image: of several the CPU backend mixes up the rows, see docs/user/candle-host-bugs.md.
                        &|x| {
                            let images =
                                (0..batch).map(|i| transposed(&x[0].narrow(0, i, 1)?, &x[1]));
                            Tensor::cat(&images.collect::<candle_core::Result<Vec<_>>>()?, 0)
                        },
                    )?;
                }
            }
        }
    }
    Ok(())
}

#[test]
fn two_dimensions() -> Result<()> {
    let gpu = device()?;
    for dtype in WIDE_FLOATS {
        for (batch, channels, (height, width), out, (rows, columns)) in [
            (1, 2, (9, 8), 2, (3, 3)),
            (2, 4, (13, 17), 6, (2, 5)),
            (2, 2, (11, 11), 4, (1, 1)),
        ] {
            for turned in [false, true] {
                for window in WINDOWS {
                    let Window {
                        padding,
                        stride,
                        dilation,
                        groups,
                    } = window;
                    let x = tensor(dtype, 74, &[batch, channels, height, width], turned, &gpu)?;
                    let w = tensor(
                        dtype,
                        75,
                        &[out, channels / groups, rows, columns],
                        turned,
                        &gpu,
                    )?;
                    let what = format!(
                        "{dtype:?}, {window:?}, {:?} by {:?}, turned {turned}",
                        x.dims(),
                        w.dims()
                    );
                    check(
                        &format!("conv2d of {what}"),
                        &[x.clone(), w],
                        DIRECT,
                        &|x| x[0].conv2d(&x[1], padding, stride, dilation, groups),
                    )?;
                    if groups == 1 {
                        let w = tensor(dtype, 76, &[channels, out, rows, columns], turned, &gpu)?;
                        let output_padding = usize::from(stride > 1);
                        let padding = padding.min(rows.min(columns) - 1);
                        check(
                            &format!("conv_transpose2d of {what}"),
                            &[x, w],
                            TRANSPOSED,
                            &|x| {
                                x[0].conv_transpose2d(
                                    &x[1],
                                    padding,
                                    output_padding,
                                    stride,
                                    dilation,
                                )
                            },
                        )?;
                    }
                }
            }
        }
    }
    Ok(())
}

#[test]
fn pooling() -> Result<()> {
    let gpu = device()?;
    for dtype in WIDE_FLOATS {
        for turned in [false, true] {
            for dims in [[1, 1, 4, 4], [2, 3, 11, 7], [3, 2, 30, 33]] {
                for ((rows, columns), (down, across)) in [
                    ((2, 2), (2, 2)),
                    ((3, 2), (1, 2)),
                    ((1, 3), (3, 1)),
                    ((4, 4), (3, 2)),
                ] {
                    if columns > dims[3] || rows > dims[2] {
                        continue;
                    }
                    let x = [tensor(dtype, 77, &dims, turned, &gpu)?];
                    let what = format!("{rows} x {columns} by {down}, {across} of {dtype:?} {dims:?}, turned {turned}");
                    check(&format!("avg_pool2d {what}"), &x, MEAN, &|x| {
                        x[0].avg_pool2d_with_stride((rows, columns), (down, across))
                    })?;
                    check(&format!("max_pool2d {what}"), &x, Nearness::Same, &|x| {
                        x[0].max_pool2d_with_stride((rows, columns), (down, across))
                    })?;
                }
            }
        }
    }
    Ok(())
}

#[test]
fn upsampling() -> Result<()> {
    let gpu = device()?;
    for dtype in WIDE_FLOATS {
        for turned in [false, true] {
            for dims in [[1, 1, 1, 1], [2, 3, 5, 7], [1, 2, 16, 9], [2, 2, 5, 16]] {
                for (height, width) in [(1, 1), (5, 7), (10, 14), (13, 6), (31, 40), (10, 32)] {
                    let x = [tensor(dtype, 78, &dims, turned, &gpu)?];
                    let what = format!("{dtype:?} {dims:?} to {height} x {width}, turned {turned}");
                    check(
                        &format!("upsample_nearest2d of {what}"),
                        &x,
                        Nearness::Same,
                        &|x| x[0].upsample_nearest2d(height, width),
                    )?;
                    for align_corners in [false, true] {
                        // The CPU computes weights in f32, from quotients that f64 has more of.
                        let nearness = Nearness::Smooth(if dtype == DType::F64 {
                            2f64.powi(34)
                        } else {
                            64.0
                        });
                        let what =
                            format!("upsample_bilinear2d of {what}, aligned {align_corners}");
                        check(&what, &x, nearness, &|x| {
                            x[0].upsample_bilinear2d(height, width, align_corners)
                        })?;
                    }
                }
            }
        }
    }
    Ok(())
}

/// Candle's CUDA backend has no one-dimensional upsampling, and its convolutions take floats only: an error, as there.
#[test]
fn what_candle_refuses() -> Result<()> {
    let gpu = device()?;
    let x = Tensor::zeros((1, 2, 8), DType::F32, &gpu)?;
    ensure!(x.upsample_nearest1d(16).is_err());
    for dtype in [DType::U32, DType::I16, DType::I32, DType::I64] {
        let x = Tensor::zeros((1, 2, 8), dtype, &gpu)?;
        let w = Tensor::zeros((2, 2, 3), dtype, &gpu)?;
        ensure!(x.conv1d(&w, 0, 1, 1, 1).is_err(), "conv1d of {dtype:?}");
    }
    Ok(())
}

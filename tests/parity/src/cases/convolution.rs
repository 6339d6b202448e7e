//! Convolutions, pooling, upsampling.

use candle_core::{DType, Result, Tensor};

use super::{any, input, name, List};
use crate::case::Input;
use crate::numbers::{Numbers, INTEGERS, WIDE_FLOATS};

/// Padding, stride, dilation, groups.
type Window = (usize, usize, usize, usize);

const WINDOWS: [Window; 6] = [
    (0, 1, 1, 1),
    (1, 1, 1, 1),
    (2, 2, 1, 1),
    (0, 3, 1, 1),
    (2, 1, 2, 1),
    (1, 2, 1, 2),
];

/// A tensor of these sizes; turned, its first two dimensions are swapped in memory.
fn shaped(x: &Tensor, dims: &[usize], turned: bool) -> Result<Tensor> {
    if !turned {
        return x.reshape(dims);
    }
    let mut swapped = dims.to_vec();
    swapped.swap(0, 1);
    x.reshape(swapped)?.transpose(0, 1)
}

fn flat(dtype: DType, seed: u64, dims: &[usize]) -> Result<Input> {
    any(dtype, seed, &[dims.iter().product()])
}

pub(super) fn add(list: &mut List) -> Result<()> {
    for dtype in WIDE_FLOATS {
        for turned in [false, true] {
            let layout = if turned { "turned" } else { "straight" };
            for window in WINDOWS {
                let what = format!("{}, {layout}, {window:?}", name(dtype));
                one_dimension(list, dtype, turned, window, &what)?;
                two_dimensions(list, dtype, turned, window, &what)?;
            }
            pools(list, dtype, turned, &format!("{}, {layout}", name(dtype)))?;
        }
    }
    for dtype in INTEGERS.into_iter().chain([DType::F8E4M3]) {
        small_numbers(list, dtype)?;
    }
    Ok(())
}

/// Integers and 8-bit floats: small numbers, as sums are in the dtype.
fn small_numbers(list: &mut List, dtype: DType) -> Result<()> {
    let dims = [2, 3, 7, 5];
    let images = input(&Numbers::ties(dtype, 80, 210).positive(), dtype, &dims)?;
    for (operator, run) in [
        (
            "avg_pool2d",
            (|x| x.avg_pool2d_with_stride((3, 2), (2, 1))) as fn(&Tensor) -> Result<Tensor>,
        ),
        ("max_pool2d", |x| x.max_pool2d_with_stride((3, 2), (2, 1))),
        ("upsample_nearest2d", |x| x.upsample_nearest2d(13, 8)),
        ("upsample_bilinear2d", |x| {
            x.upsample_bilinear2d(13, 8, false)
        }),
    ] {
        // CUDA has no signed one, and the CPU's factor 1 / area is 0: nothing to compare with.
        if operator == "avg_pool2d" && matches!(dtype, DType::I16 | DType::I32 | DType::I64) {
            continue;
        }
        for (layout, turned) in [("straight", false), ("turned", true)] {
            let what = format!("{dims:?}, {}, {layout}", name(dtype));
            let of_layout = move |x: &[Tensor]| match turned {
                true => x[0].transpose(0, 1),
                false => Ok(x[0].clone()),
            };
            let run_on = move |x: &[Tensor]| run(&of_layout(x)?);
            let case = list.add(operator, what, vec![images.clone()], run_on);
            if operator == "avg_pool2d" && dtype.is_int() {
                // The CPU's factor 1 / area is 0 in integers.
                case.truth_by(move |x| {
                    let mean = run(&of_layout(x)?.to_dtype(DType::F64)?)?;
                    mean.floor()?.to_dtype(DType::I64)
                });
            }
        }
    }
    let weights = Numbers::ties(dtype, 81, 3 * 2 * 3 * 3).positive();
    let weights = input(&weights, dtype, &[3, 2, 3, 3])?;
    let what = format!("{dims:?} by 3 x 3, {}", name(dtype));
    let inputs = vec![images, weights];
    list.add("conv_transpose2d", &what, inputs.clone(), |x| {
        x[0].conv_transpose2d(&x[1], 1, 1, 2, 1)
    });
    let what = format!("{dims:?} by 3, {}", name(dtype));
    list.add("conv_transpose1d", what, inputs, |x| {
        let (rows, weights) = (x[0].get_on_dim(2, 1)?, x[1].get_on_dim(2, 1)?);
        rows.contiguous()?
            .conv_transpose1d(&weights.contiguous()?, 1, 1, 2, 1, 1)
    });
    Ok(())
}

fn one_dimension(
    list: &mut List,
    dtype: DType,
    turned: bool,
    (padding, stride, dilation, groups): Window,
    what: &str,
) -> Result<()> {
    for (batch, channels, length, out, size) in [(1, 2, 9, 2, 3), (2, 4, 31, 6, 5)] {
        let dims = [batch, channels, length];
        let what = format!("{dims:?} by {size}, {what}");
        let weights = [out, channels / groups, size];
        let inputs = vec![flat(dtype, 71, &dims)?, any(dtype, 72, &weights)?];
        list.add("conv1d", &what, inputs, move |x| {
            shaped(&x[0], &dims, turned)?.conv1d(&x[1], padding, stride, dilation, groups)
        });
        let weights = [channels, out / groups, size];
        let inputs = vec![flat(dtype, 71, &dims)?, any(dtype, 73, &weights)?];
        let output_padding = usize::from(stride > 1);
        let apply = move |images: &Tensor, weights: &Tensor| {
            let padding = padding.min(size - 1);
            images.conv_transpose1d(weights, padding, output_padding, stride, dilation, groups)
        };
        let case = list.add("conv_transpose1d", &what, inputs, move |x| {
            let images = shaped(&x[0], &dims, turned)?;
            match apply(&images, &x[1]) {
                // Strides that cuBLAS cannot have; the message asks for a copy.
                Err(error) if error.to_string().contains("matmul is only supported") => {
                    apply(&images.contiguous()?, &x[1])
                }
                result => result,
            }
        });
        // Image by image: of several the CPU backend mixes up the rows, see docs/user/candle-host-bugs.md.
        case.truth_by(move |x| {
            let images = shaped(&x[0], &dims, turned)?.contiguous()?;
            let images = images.chunk(batch, 0)?;
            let results: Result<Vec<Tensor>> =
                images.iter().map(|image| apply(image, &x[1])).collect();
            Tensor::cat(&results?, 0)
        });
    }
    Ok(())
}

fn two_dimensions(
    list: &mut List,
    dtype: DType,
    turned: bool,
    (padding, stride, dilation, groups): Window,
    what: &str,
) -> Result<()> {
    for (dims, out, (rows, columns)) in [([1, 2, 9, 8], 2, (3, 3)), ([2, 4, 7, 11], 6, (2, 5))] {
        let what = format!("{dims:?} by {rows} x {columns}, {what}");
        let weights = [out, dims[1] / groups, rows, columns];
        let inputs = vec![flat(dtype, 74, &dims)?, flat(dtype, 75, &weights)?];
        list.add("conv2d", &what, inputs, move |x| {
            let weights = shaped(&x[1], &weights, turned)?;
            shaped(&x[0], &dims, turned)?.conv2d(&weights, padding, stride, dilation, groups)
        });
        if groups > 1 {
            continue;
        }
        let weights = [dims[1], out, rows, columns];
        let inputs = vec![flat(dtype, 74, &dims)?, flat(dtype, 76, &weights)?];
        let output_padding = usize::from(stride > 1);
        list.add("conv_transpose2d", &what, inputs, move |x| {
            let weights = shaped(&x[1], &weights, turned)?;
            let padding = padding.min(rows.min(columns) - 1);
            let x = shaped(&x[0], &dims, turned)?;
            x.conv_transpose2d(&weights, padding, output_padding, stride, dilation)
        });
    }
    Ok(())
}

fn pools(list: &mut List, dtype: DType, turned: bool, what: &str) -> Result<()> {
    for dims in [[1, 1, 4, 4], [2, 3, 11, 7]] {
        let inputs = vec![flat(dtype, 77, &dims)?];
        for (size, stride) in [
            ((2, 2), (2, 2)),
            ((3, 2), (1, 2)),
            ((1, 3), (3, 1)),
            ((4, 4), (3, 2)),
        ] {
            let what = format!("{dims:?} by {size:?}, {stride:?}, {what}");
            list.add("avg_pool2d", &what, inputs.clone(), move |x| {
                shaped(&x[0], &dims, turned)?.avg_pool2d_with_stride(size, stride)
            });
            list.add("max_pool2d", &what, inputs.clone(), move |x| {
                shaped(&x[0], &dims, turned)?.max_pool2d_with_stride(size, stride)
            });
        }
    }
    for dims in [[1, 1, 1, 1], [2, 3, 5, 7]] {
        let inputs = vec![flat(dtype, 78, &dims)?];
        for (height, width) in [(1, 1), (5, 7), (10, 14), (13, 6), (8, 17)] {
            let what = format!("{dims:?} to {height} x {width}, {what}");
            list.add("upsample_nearest2d", &what, inputs.clone(), move |x| {
                shaped(&x[0], &dims, turned)?.upsample_nearest2d(height, width)
            });
            for aligned in [false, true] {
                let what = format!("{what}, aligned {aligned}");
                let apply = move |x: &Tensor| x.upsample_bilinear2d(height, width, aligned);
                list.add("upsample_bilinear2d", what, inputs.clone(), move |x| {
                    apply(&shaped(&x[0], &dims, turned)?)
                })
                // To the same size, the CPU backend copies the elements as they lie in memory.
                .truth_by(move |x| apply(&shaped(&x[0], &dims, turned)?.contiguous()?));
            }
        }
    }
    if turned {
        return Ok(());
    }
    for (operator, dims, run) in [
        (
            "pixel_shuffle",
            [1, 8, 3, 5],
            candle_nn::ops::pixel_shuffle as fn(&Tensor, usize) -> Result<Tensor>,
        ),
        ("pixel_unshuffle", [2, 2, 4, 6], |x, by| {
            candle_nn::ops::pixel_unshuffle(x, by)
        }),
        ("replication_pad2d", [2, 2, 4, 5], |x, by| {
            candle_nn::ops::replication_pad2d(x, by)
        }),
    ] {
        let inputs = vec![any(dtype, 79, &dims)?];
        // Candle pads by one.
        let by = if operator == "replication_pad2d" {
            1
        } else {
            2
        };
        list.add(operator, what, inputs, move |x| run(&x[0], by));
    }
    Ok(())
}

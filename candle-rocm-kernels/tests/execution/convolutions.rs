//! Convolutions, pooling and upsampling against loops over the definition.

use crate::device::{Arg, Gpu};
use crate::elements::{assert_close, assert_same, for_all, Element};
use crate::on_each_gpu;
use candle_rocm_kernels::CONV;
use candle_rocm_testing::random::Random;

const BLOCK: [u32; 3] = [1024, 1, 1];
const GRID: [u32; 3] = [2, 1, 1];
/// Batch, channels in and out, height and width in.
const B: usize = 2;
const C_IN: usize = 3;
const C_OUT: usize = 4;
const H: usize = 7;
const W: usize = 9;
/// Kernel height and width, stride, padding, dilation.
const WINDOWS: [[usize; 5]; 4] = [
    [1, 1, 1, 0, 1],
    [3, 2, 1, 1, 1],
    [2, 3, 2, 0, 1],
    [3, 3, 2, 2, 2],
];

/// Fractions for floats; integers of at most 3, of which 27 products are within u8.
fn values<T: Element>(numbers: &mut Random, count: usize) -> Vec<T> {
    let is_integer = T::EPSILON == 0.0;
    let value = |number: f64| {
        if is_integer {
            ((number + 1.0) * 2.0).floor()
        } else {
            number
        }
    };
    (0..count).map(|_| T::of(value(numbers.signed()))).collect()
}

/// Integers are exact. Narrow floats are summed in f32 and rounded once; the others round each of at most 27 sums.
fn tolerance<T: Element>() -> f64 {
    if T::EPSILON < 1e-6 {
        T::EPSILON * 27.0
    } else {
        T::EPSILON * 1.01 + 2e-6
    }
}

fn strides(dims: &[usize]) -> Vec<usize> {
    (0..dims.len())
        .map(|d| dims[d + 1..].iter().product())
        .collect()
}

/// Dimensions and contiguous strides of each tensor, on the device.
fn info(tensors: &[&[usize]]) -> Arg {
    Arg::sizes(
        &tensors
            .iter()
            .flat_map(|dims| [dims.to_vec(), strides(dims)].concat())
            .collect::<Vec<_>>(),
    )
}

fn out_size(size: usize, k: usize, [stride, padding, dilation]: [usize; 3]) -> usize {
    (size + 2 * padding - dilation * (k - 1) - 1) / stride + 1
}

/// The place under a window, if it is not in the padding.
fn place(
    out: usize,
    k: usize,
    size: usize,
    [stride, padding, dilation]: [usize; 3],
) -> Option<usize> {
    (out * stride + k * dilation)
        .checked_sub(padding)
        .filter(|&at| at < size)
}

#[test]
fn convolutions_match() {
    on_each_gpu(|gpu| {
        for_all!(convolutions_match_for, gpu);
    });
}

fn convolutions_match_for<T: Element>(gpu: &Gpu) {
    for [kh, kw, stride, padding, dilation] in WINDOWS {
        let mut numbers = Random::new(15);
        let window = [stride, padding, dilation];
        let source: Vec<T> = values(&mut numbers, B * C_IN * H * W);
        let kernel: Vec<T> = values(&mut numbers, C_OUT * C_IN * kh * kw);
        let (oh, ow) = (out_size(H, kh, window), out_size(W, kw, window));
        let (mut unfolded, mut expected) = (
            vec![T::of(0.0); B * oh * ow * C_IN * kh * kw],
            vec![0f64; B * C_OUT * oh * ow],
        );
        for (n, slot) in unfolded.iter_mut().enumerate() {
            let (x, y) = (n % kw, n / kw % kh);
            let (ci, ox, oy) = (
                n / (kw * kh) % C_IN,
                n / (kw * kh * C_IN) % ow,
                n / (kw * kh * C_IN * ow) % oh,
            );
            let b = n / (kw * kh * C_IN * ow * oh);
            let (Some(sy), Some(sx)) = (place(oy, y, H, window), place(ox, x, W, window)) else {
                continue;
            };
            *slot = source[((b * C_IN + ci) * H + sy) * W + sx];
            for co in 0..C_OUT {
                let weight = kernel[((co * C_IN + ci) * kh + y) * kw + x];
                expected[((b * C_OUT + co) * oh + oy) * ow + ox] += slot.number() * weight.number();
            }
        }
        let dims = [B, C_IN, H, W];
        let found: Vec<T> = gpu.run(
            &CONV,
            &format!("im2col_{}", T::NAME),
            GRID,
            BLOCK,
            &[
                Arg::N(unfolded.len()),
                Arg::N(oh),
                Arg::N(ow),
                Arg::N(kh),
                Arg::N(kw),
                Arg::N(stride),
                Arg::N(padding),
                Arg::N(dilation),
                info(&[&dims]),
                Arg::input(&source),
                Arg::output::<T>(unfolded.len()),
            ],
        );
        assert_same(&found, &unfolded, "im2col");
        let found: Vec<T> = gpu.run(
            &CONV,
            &format!("conv2d_{}", T::NAME),
            GRID,
            BLOCK,
            &[
                Arg::N(source.len()),
                Arg::N(ow),
                Arg::N(oh),
                Arg::N(stride),
                Arg::N(padding),
                Arg::N(dilation),
                info(&[&dims, &[C_OUT, C_IN, kh, kw]]),
                Arg::input(&source),
                Arg::input(&kernel),
                Arg::output::<T>(expected.len()),
            ],
        );
        // At most 27 products below one.
        assert_close(&found, &expected, tolerance::<T>(), 1.0, "conv2d");
    }
}

/// So many channels and places that they are unfolded by tiles, the last of which are not full; the last windows reach
/// too far for that.
#[test]
fn wide_unfolding_matches() {
    on_each_gpu(|gpu| {
        for_all!(wide_unfolding_matches_for, gpu);
    });
}

fn wide_unfolding_matches_for<T: Element>(gpu: &Gpu) {
    const CHANNELS: usize = 37;
    const LENGTH: usize = 70;
    let mut numbers = Random::new(17);
    let source: Vec<T> = values(&mut numbers, B * CHANNELS * LENGTH);
    for [k, stride, padding, dilation] in [[3, 1, 1, 1], [3, 2, 1, 1], [7, 1, 5, 4], [5, 1, 8, 12]]
    {
        let window = [stride, padding, dilation];
        let out = out_size(LENGTH, k, window);
        let unfolded: Vec<T> = (0..B * out * CHANNELS * k)
            .map(|n| {
                let (x, row, o) = (n % k, n / k % CHANNELS, n / (k * CHANNELS));
                let row = o / out * CHANNELS + row;
                place(o % out, x, LENGTH, window).map_or(T::of(0.0), |at| source[row * LENGTH + at])
            })
            .collect();
        let found: Vec<T> = gpu.run(
            &CONV,
            &format!("im2col1d_{}", T::NAME),
            GRID,
            BLOCK,
            &[
                Arg::N(B * out * CHANNELS),
                Arg::N(out),
                Arg::N(k),
                Arg::N(stride),
                Arg::N(padding),
                Arg::N(dilation),
                info(&[&[B, CHANNELS, LENGTH]]),
                Arg::input(&source),
                Arg::output::<T>(unfolded.len()),
            ],
        );
        assert_same(&found, &unfolded, "im2col1d");
    }
}

#[test]
fn one_dimensional_convolutions_match() {
    on_each_gpu(|gpu| {
        for_all!(one_dimensional_convolutions_match_for, gpu);
    });
}

fn one_dimensional_convolutions_match_for<T: Element>(gpu: &Gpu) {
    for [_, k, stride, padding, dilation] in WINDOWS {
        let mut numbers = Random::new(16);
        let window = [stride, padding, dilation];
        let source: Vec<T> = values(&mut numbers, B * C_IN * W);
        let kernel: Vec<T> = values(&mut numbers, C_OUT * C_IN * k);
        let out = out_size(W, k, window);
        let (mut unfolded, mut expected) = (
            vec![T::of(0.0); B * out * C_IN * k],
            vec![0f64; B * C_OUT * out],
        );
        for (n, slot) in unfolded.iter_mut().enumerate() {
            let (x, ci, o, b) = (
                n % k,
                n / k % C_IN,
                n / (k * C_IN) % out,
                n / (k * C_IN * out),
            );
            let Some(at) = place(o, x, W, window) else {
                continue;
            };
            *slot = source[(b * C_IN + ci) * W + at];
            for co in 0..C_OUT {
                expected[(b * C_OUT + co) * out + o] +=
                    slot.number() * kernel[(co * C_IN + ci) * k + x].number();
            }
        }
        let dims = [B, C_IN, W];
        let found: Vec<T> = gpu.run(
            &CONV,
            &format!("im2col1d_{}", T::NAME),
            GRID,
            BLOCK,
            &[
                Arg::N(B * out * C_IN),
                Arg::N(out),
                Arg::N(k),
                Arg::N(stride),
                Arg::N(padding),
                Arg::N(dilation),
                info(&[&dims]),
                Arg::input(&source),
                Arg::output::<T>(unfolded.len()),
            ],
        );
        assert_same(&found, &unfolded, "im2col1d");
        let found: Vec<T> = gpu.run(
            &CONV,
            &format!("conv1d_{}", T::NAME),
            GRID,
            BLOCK,
            &[
                Arg::N(source.len()),
                Arg::N(out),
                Arg::N(stride),
                Arg::N(padding),
                Arg::N(dilation),
                info(&[&dims, &[C_OUT, C_IN, k]]),
                Arg::input(&source),
                Arg::input(&kernel),
                Arg::output::<T>(expected.len()),
            ],
        );
        assert_close(&found, &expected, tolerance::<T>(), 1.0, "conv1d");
    }
}

/// Each input spreads over the outputs under the window; both ways of computing it.
#[test]
fn transposed_convolutions_match() {
    on_each_gpu(|gpu| {
        for_all!(transposed_convolutions_match_for, gpu);
    });
}

fn transposed_convolutions_match_for<T: Element>(gpu: &Gpu) {
    for [kh, kw, stride, padding, dilation] in WINDOWS {
        let mut numbers = Random::new(17);
        let source: Vec<T> = values(&mut numbers, B * C_IN * H * W);
        let kernel: Vec<T> = values(&mut numbers, C_IN * C_OUT * kh * kw);
        let size =
            |size: usize, k: usize| (size - 1) * stride + dilation * (k - 1) + 1 - 2 * padding;
        let (oh, ow) = (size(H, kh), size(W, kw));
        let mut expected = vec![0f64; B * C_OUT * oh * ow];
        for n in 0..source.len() * C_OUT * kh * kw {
            let (x, y, co, at) = (
                n % kw,
                n / kw % kh,
                n / (kw * kh) % C_OUT,
                n / (kw * kh * C_OUT),
            );
            let (sx, sy, ci, b) = (at % W, at / W % H, at / (W * H) % C_IN, at / (W * H * C_IN));
            let oy = (sy * stride + y * dilation)
                .checked_sub(padding)
                .filter(|&oy| oy < oh);
            let ox = (sx * stride + x * dilation)
                .checked_sub(padding)
                .filter(|&ox| ox < ow);
            let (Some(oy), Some(ox)) = (oy, ox) else {
                continue;
            };
            let weight = kernel[((ci * C_OUT + co) * kh + y) * kw + x];
            expected[((b * C_OUT + co) * oh + oy) * ow + ox] +=
                source[at].number() * weight.number();
        }
        let found: Vec<T> = gpu.run(
            &CONV,
            &format!("conv_transpose2d_{}", T::NAME),
            GRID,
            BLOCK,
            &[
                Arg::N(source.len()),
                Arg::N(ow),
                Arg::N(oh),
                Arg::N(stride),
                Arg::N(padding),
                Arg::N(0),
                Arg::N(dilation),
                info(&[&[B, C_IN, H, W], &[C_IN, C_OUT, kh, kw]]),
                Arg::input(&source),
                Arg::input(&kernel),
                Arg::output::<T>(expected.len()),
            ],
        );
        assert_close(&found, &expected, tolerance::<T>(), 1.0, "conv_transpose2d");
    }
}

#[test]
fn one_dimensional_transposed_convolutions_match() {
    on_each_gpu(|gpu| {
        for_all!(one_dimensional_transposed_convolutions_match_for, gpu);
    });
}

fn one_dimensional_transposed_convolutions_match_for<T: Element>(gpu: &Gpu) {
    for [_, k, stride, padding, dilation] in WINDOWS {
        let mut numbers = Random::new(18);
        let source: Vec<T> = values(&mut numbers, B * C_IN * W);
        let kernel: Vec<T> = values(&mut numbers, C_IN * C_OUT * k);
        let out = (W - 1) * stride + dilation * (k - 1) + 1 - 2 * padding;
        let mut expected = vec![0f64; B * C_OUT * out];
        // What GEMM would leave for col2im: (b, l, c_out, k).
        let mut columns = vec![0f64; B * W * C_OUT * k];
        for n in 0..source.len() * C_OUT * k {
            let (x, co, at) = (n % k, n / k % C_OUT, n / (k * C_OUT));
            let (s, ci, b) = (at % W, at / W % C_IN, at / (W * C_IN));
            let product = source[at].number() * kernel[(ci * C_OUT + co) * k + x].number();
            columns[((b * W + s) * C_OUT + co) * k + x] += product;
            let o = (s * stride + x * dilation)
                .checked_sub(padding)
                .filter(|&o| o < out);
            if let Some(o) = o {
                expected[(b * C_OUT + co) * out + o] += product;
            }
        }
        let found: Vec<T> = gpu.run(
            &CONV,
            &format!("conv_transpose1d_{}", T::NAME),
            GRID,
            BLOCK,
            &[
                Arg::N(source.len()),
                Arg::N(out),
                Arg::N(stride),
                Arg::N(padding),
                Arg::N(0),
                Arg::N(dilation),
                info(&[&[B, C_IN, W], &[C_IN, C_OUT, k]]),
                Arg::input(&source),
                Arg::input(&kernel),
                Arg::output::<T>(expected.len()),
            ],
        );
        assert_close(&found, &expected, tolerance::<T>(), 1.0, "conv_transpose1d");
        if padding == 0 && dilation == 1 {
            let columns: Vec<T> = columns.iter().map(|&value| T::of(value)).collect();
            let mut expected = vec![0f64; expected.len()];
            for (n, column) in columns.iter().enumerate() {
                let (x, co) = (n % k, n / k % C_OUT);
                let (at, b) = (n / (k * C_OUT) % W, n / (k * C_OUT * W));
                expected[(b * C_OUT + co) * out + at * stride + x] += column.number();
            }
            let found: Vec<T> = gpu.run(
                &CONV,
                &format!("col2im1d_{}", T::NAME),
                GRID,
                BLOCK,
                &[
                    Arg::N(expected.len()),
                    Arg::N(out),
                    Arg::N(W),
                    Arg::N(C_OUT),
                    Arg::N(k),
                    Arg::N(stride),
                    Arg::input(&columns),
                    Arg::output::<T>(expected.len()),
                ],
            );
            assert_close(&found, &expected, tolerance::<T>(), 1.0, "col2im1d");
        }
    }
}

#[test]
fn pools_match() {
    on_each_gpu(|gpu| {
        for_all!(pools_match_for, gpu);
    });
}

fn pools_match_for<T: Element>(gpu: &Gpu) {
    for (kh, kw, sh, sw) in [(2, 2, 2, 2), (3, 2, 1, 3), (1, 4, 2, 1)] {
        let source: Vec<T> = values(&mut Random::new(19), B * C_IN * H * W);
        let (oh, ow) = ((H - kh) / sh + 1, (W - kw) / sw + 1);
        // As on the CPU the sum is multiplied by the inverse of the area in the element's type, unless that is an
        // integer's 0.
        let (mut largest, mut mean) = (Vec::new(), Vec::new());
        for n in 0..B * C_IN * oh * ow {
            let (x, y, channel) = (n % ow, n / ow % oh, n / (ow * oh));
            let window = (0..kh * kw)
                .map(|i| source[(channel * H + y * sh + i / kw) * W + x * sw + i % kw].number());
            largest.push(window.clone().fold(f64::NEG_INFINITY, f64::max));
            let (sum, area) = (window.sum::<f64>(), (kh * kw) as f64);
            mean.push(match T::of(1.0 / area).number() {
                0.0 => (sum / area).trunc(),
                scale => sum * scale,
            });
        }
        for (name, expected) in [
            (&format!("max_pool2d_{}", T::NAME), largest),
            (&format!("avg_pool2d_{}", T::NAME), mean),
        ] {
            let mut arguments = vec![Arg::N(source.len())];
            arguments.extend([kh, kw, sh, sw].map(Arg::N));
            arguments.extend([
                info(&[&[B, C_IN, H, W]]),
                Arg::input(&source),
                Arg::output::<T>(expected.len()),
            ]);
            let found: Vec<T> = gpu.run(&CONV, name, GRID, BLOCK, &arguments);
            assert_close(&found, &expected, tolerance::<T>(), 1.0, name);
        }
    }
}

#[test]
fn upsampling_matches() {
    on_each_gpu(|gpu| {
        for_all!(upsampling_matches_for, gpu);
    });
}

fn upsampling_matches_for<T: Element>(gpu: &Gpu) {
    // The last is read by vectors, twice as many along both axes.
    for ([height, width], [oh, ow]) in [
        ([H, W], [14, 18]),
        ([H, W], [5, 20]),
        ([H, W], [1, 1]),
        ([3, 16], [6, 32]),
    ] {
        let source: Vec<T> = values(&mut Random::new(20), B * C_IN * height * width);
        let at = |channel: usize, y: usize, x: usize| {
            source[(channel * height + y) * width + x].number()
        };
        let outputs = B * C_IN * oh * ow;
        let (h_scale, w_scale) = (height as f64 / oh as f64, width as f64 / ow as f64);
        let expected: Vec<f64> = (0..outputs)
            .map(|n| {
                let (x, y) = ((n % ow) as f64 * w_scale, (n / ow % oh) as f64 * h_scale);
                at(
                    n / (ow * oh),
                    (y as usize).min(height - 1),
                    (x as usize).min(width - 1),
                )
            })
            .collect();
        let shared = [
            info(&[&[B, C_IN, height, width]]),
            Arg::input(&source),
            Arg::output::<T>(outputs),
        ];
        let sizes = [Arg::N(oh), Arg::N(ow), Arg::D(h_scale), Arg::D(w_scale)];
        let found: Vec<T> = gpu.run(
            &CONV,
            &format!("upsample_nearest2d_{}", T::NAME),
            GRID,
            BLOCK,
            &[&sizes[..], &shared].concat(),
        );
        assert_close(&found, &expected, 0.0, 0.0, "upsample_nearest2d");

        for (align, factor) in [(false, None), (true, None), (false, Some(2.0))] {
            let axis = |out: usize, size: usize, outs: usize| {
                let scale = match (align, factor) {
                    (true, _) if outs > 1 => (size - 1) as f64 / (outs - 1) as f64,
                    (true, _) => 0.0,
                    (false, Some(factor)) => 1.0 / factor,
                    (false, None) => size as f64 / outs as f64,
                };
                let place = if align {
                    scale * out as f64
                } else {
                    scale * (out as f64 + 0.5) - 0.5
                };
                let place = place.max(0.0);
                let first = (place as usize).min(size - 1);
                (
                    first,
                    (first + 1).min(size - 1),
                    (place - first as f64).min(1.0),
                )
            };
            let expected: Vec<f64> = (0..outputs)
                .map(|n| {
                    let (y0, y1, wy) = axis(n / ow % oh, height, oh);
                    let (x0, x1, wx) = axis(n % ow, width, ow);
                    let channel = n / (ow * oh);
                    let line = |y| at(channel, y, x0) * (1.0 - wx) + at(channel, y, x1) * wx;
                    line(y0) * (1.0 - wy) + line(y1) * wy
                })
                .collect();
            let given = [Arg::B(factor.is_some()), Arg::D(factor.unwrap_or(0.0))];
            let sizes = [&[Arg::N(ow), Arg::N(oh), Arg::B(align)][..], &given, &given].concat();
            let found: Vec<T> = gpu.run(
                &CONV,
                &format!("upsample_bilinear2d_{}", T::NAME),
                GRID,
                BLOCK,
                &[&sizes[..], &shared].concat(),
            );
            // Integers lose the fraction; where it is nothing but f64's rounding, either side is right.
            let expected: Vec<f64> = match T::EPSILON {
                0.0 => expected
                    .iter()
                    .zip(&found)
                    .map(|(value, found)| {
                        let (up, down) = ((value + 1e-9).floor(), (value - 1e-9).floor());
                        if found.number() == down {
                            down
                        } else {
                            up
                        }
                    })
                    .collect(),
                _ => expected,
            };
            let what = "upsample_bilinear2d";
            assert_close(&found, &expected, tolerance::<T>(), 1.0, what);
        }
    }
}

//! Softmax, normalisations and rotary embedding.

use crate::device::{Arg, Gpu};
use crate::elements::{assert_close, assert_same, for_wide_floats, Element};
use crate::on_each_gpu;
use candle_rocm_kernels::REDUCE;
use candle_rocm_testing::random::Random;

/// Rows and columns. Columns: one, odd, a vector's multiple, Candle's switch to 1024 threads, and beyond; then multiples of
/// what a workgroup holds, and more than it holds. Many rows share workgroups.
const SHAPES: [(usize, usize); 10] = [
    (3, 1),
    (3, 7),
    (3, 64),
    (3, 1023),
    (3, 1024),
    (3, 2052),
    (1, 8192),
    (1, 16400),
    (64, 40),
    (96, 256),
];

/// Each of 32 threads adds up to 33 numbers in a row, whose errors mostly cancel: some units, halved by
/// the square root. 16-bit types are summed in f32 and rounded once. For f64 the reference's own sum,
/// of up to 2052 numbers in a row, is the less exact one.
fn tolerance<T: Element>() -> f64 {
    if T::BYTES == 8 {
        1e-13
    } else {
        8.0 * T::EPSILON
    }
}

fn values<T: Element>(numbers: &mut Random, count: usize, scale: f64, offset: f64) -> Vec<T> {
    (0..count)
        .map(|_| T::of(numbers.signed() * scale + offset))
        .collect()
}

fn softmax<T: Element>(gpu: &Gpu) {
    let mut numbers = Random::new(4);
    for (rows, columns) in SHAPES {
        let source: Vec<T> = values(&mut numbers, rows * columns, 8.0, 0.0);
        let mut expected = Vec::new();
        for row in source.chunks(columns) {
            let largest = row
                .iter()
                .map(|x| x.number())
                .fold(f64::NEG_INFINITY, f64::max);
            let exponentials: Vec<f64> = row.iter().map(|x| (x.number() - largest).exp()).collect();
            let sum: f64 = exponentials.iter().sum();
            expected.extend(exponentials.iter().map(|e| e / sum));
        }
        let found: Vec<T> = gpu.run(
            &REDUCE,
            &format!("softmax_{}", T::NAME),
            [rows as u32, 1, 1],
            [1, 32, 1],
            &[
                Arg::input(&source),
                Arg::output::<T>(source.len()),
                Arg::I(columns as i32),
            ],
        );
        // exp turns the rounding of x - max (up to 16) into a relative error: 16 half steps of f32.
        let tolerance = tolerance::<T>() + if T::BYTES == 8 { 2e-15 } else { 16.0 * 6e-8 };
        // f16's smallest values lose relative precision below 6e-5.
        assert_close(
            &found,
            &expected,
            tolerance,
            if T::NAME == "f16" { 6.2e-5 } else { 0.0 },
            "softmax",
        );
    }
}

#[test]
fn softmax_matches() {
    on_each_gpu(|gpu| {
        for_wide_floats!(softmax, gpu);
    });
}

#[test]
fn softmax_masks_minus_infinity() {
    on_each_gpu(|gpu| {
        let source = [
            0.0,
            f32::NEG_INFINITY,
            0.0,
            f32::NEG_INFINITY,
            f32::NEG_INFINITY,
            f32::NEG_INFINITY,
        ];
        let found: Vec<f32> = gpu.run(
            &REDUCE,
            "softmax_f32",
            [2, 1, 1],
            [1, 32, 1],
            &[Arg::input(&source), Arg::output::<f32>(6), Arg::I(3)],
        );
        assert_same(
            &found,
            &[0.5, 0.0, 0.5, f32::NAN, f32::NAN, f32::NAN],
            "softmax",
        );
    });
}

fn norms<T: Element>(gpu: &Gpu) {
    let mut numbers = Random::new(5);
    let eps = 1e-5f32;
    for (rows, columns) in SHAPES {
        // An offset far from zero would ruin a variance taken as E[x^2] - mean^2 in f32.
        let source: Vec<T> = values(&mut numbers, rows * columns, 2.0, 3.0);
        let alpha: Vec<T> = values(&mut numbers, columns, 1.0, 1.5);
        let beta: Vec<T> = values(&mut numbers, columns, 1.0, 0.0);
        let (mut rms, mut layer) = (Vec::new(), Vec::new());
        for row in source.chunks(columns) {
            let row: Vec<f64> = row.iter().map(|x| x.number()).collect();
            let mean = row.iter().sum::<f64>() / columns as f64;
            let square = row.iter().map(|x| x * x).sum::<f64>() / columns as f64;
            let variance = row.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / columns as f64;
            for (at, x) in row.iter().enumerate() {
                rms.push(x / (square + eps as f64).sqrt() * alpha[at].number());
                let normal = (x - mean) / (variance + eps as f64).sqrt();
                layer.push(normal * alpha[at].number() + beta[at].number());
            }
        }
        let block = if columns < 1024 { 32u32 } else { 1024 };
        let sizes = [Arg::I(columns as i32), Arg::I(block as i32), Arg::F(eps)];
        let mut arguments = vec![
            Arg::input(&source),
            Arg::output::<T>(source.len()),
            Arg::input(&alpha),
        ];
        let run = |name: &str, arguments: &[Arg]| -> Vec<T> {
            let name = format!("{name}_{}", T::NAME);
            gpu.run(
                &REDUCE,
                &name,
                [rows as u32, 1, 1],
                [block, 1, 1],
                &[arguments, &sizes].concat(),
            )
        };
        assert_close(
            &run("rmsnorm", &arguments),
            &rms,
            tolerance::<T>(),
            0.0,
            "rmsnorm",
        );
        arguments.push(Arg::input(&beta));
        // One element has variance 0 and scale 1 / sqrt(eps): errors of the mean grow by 316.
        let slack = if columns == 1 { 400.0 } else { 4.0 };
        assert_close(
            &run("layernorm", &arguments),
            &layer,
            tolerance::<T>() * slack,
            1.0,
            "layernorm",
        );
    }
}

#[test]
fn norms_match() {
    on_each_gpu(|gpu| {
        for_wide_floats!(norms, gpu);
    });
}

/// Turns pairs as Candle does: two products, each rounded, and their difference or sum.
fn rope<T: Element>(gpu: &Gpu) {
    let (b, h, t, d) = (2, 3, 5, 6);
    let mut numbers = Random::new(6);
    let source: Vec<T> = values(&mut numbers, b * h * t * d, 1.0, 0.0);
    for batched in [false, true] {
        let angles = if batched { b * t * d / 2 } else { t * d / 2 };
        let cos: Vec<T> = values(&mut numbers, angles, 1.0, 0.0);
        let sin: Vec<T> = values(&mut numbers, angles, 1.0, 0.0);
        let stride_b = if batched { (h * t * d) as i32 } else { 0 };
        let threads = [1024u32, 1, 1];
        let bhtd = |bi: usize, hi: usize, ti: usize| ((bi * h + hi) * t + ti) * d;
        let bthd = |bi: usize, hi: usize, ti: usize| ((bi * t + ti) * h + hi) * d;
        type Offset<'a> = &'a dyn Fn(usize, usize, usize) -> usize;
        let sizes_i = vec![b * h, t * d];
        let sizes = vec![b * h, t * d, d];
        let sizes_thd = vec![b, t, h, d];
        let variants: [(&str, Vec<usize>, Offset, bool); 3] = [
            ("rope_i", sizes_i, &bhtd, true),
            ("rope", sizes, &bhtd, false),
            ("rope_thd", sizes_thd, &bthd, false),
        ];
        for (name, sizes, offset, interleaved) in variants {
            let mut expected = vec![0.0; source.len()];
            for (bi, hi, ti, i) in (0..b * h * t * d / 2).map(|n| {
                (
                    n / (h * t * d / 2),
                    n / (t * d / 2) % h,
                    n / (d / 2) % t,
                    n % (d / 2),
                )
            }) {
                let at = offset(bi, hi, ti);
                let (i0, i1) = if interleaved {
                    (at + 2 * i, at + 2 * i + 1)
                } else {
                    (at + i, at + i + d / 2)
                };
                let angle = ti * d / 2 + i + if batched { bi * t * d / 2 } else { 0 };
                let (x0, x1) = (source[i0].number(), source[i1].number());
                let (c, s) = (cos[angle].number(), sin[angle].number());
                expected[i0] = x0 * c - x1 * s;
                expected[i1] = x0 * s + x1 * c;
            }
            let mut arguments = vec![
                Arg::input(&source),
                Arg::input(&cos),
                Arg::input(&sin),
                Arg::output::<T>(source.len()),
            ];
            arguments.extend(sizes.iter().map(|&size| Arg::I(size as i32)));
            arguments.push(Arg::I(stride_b));
            let found: Vec<T> = gpu.run(
                &REDUCE,
                &format!("{name}_{}", T::NAME),
                [1, 1, 1],
                threads,
                &arguments,
            );
            // Products are below one: an absolute tolerance covers cancellation.
            assert_close(&found, &expected, 2.0 * T::EPSILON, 1.0, name);
        }
    }
}

#[test]
fn rope_matches() {
    on_each_gpu(|gpu| {
        for_wide_floats!(rope, gpu);
    });
}

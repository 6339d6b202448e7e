//! The kernels of the fused operators and of their gradients, and what rows move of memory.

use crate::device::{Arg, Gpu};
use crate::elements::{assert_close, assert_same, for_wide_floats, from_bytes, Element};
use crate::on_each_gpu;
use candle_rocm_kernels::{Module, FUSED_OPERATORS, REDUCE};
use candle_rocm_testing::activations::{gelu, gelu_argument, gelu_erf, sigmoid, silu};
use candle_rocm_testing::random::Random;
use half::f16;
use std::collections::HashMap;

/// Rows and columns: shorter than a wavefront, odd, multiples of a vector, what a workgroup holds, one more, and what no
/// workgroup holds. Many rows share workgroups.
const SHAPES: [(usize, usize); 9] = [
    (5, 1),
    (4, 3),
    (3, 63),
    (96, 64),
    (6, 1000),
    (3, 4096),
    (2, 16_385),
    (1, 32_776),
    (1, 50_003),
];

/// Sums of many numbers are of partial sums in a tree, whose errors mostly cancel: some units. 16-bit types are computed
/// in f32 and rounded once. For f64 the reference's own sum is the less exact one.
fn tolerance<T: Element>() -> f64 {
    if T::BYTES == 8 {
        1e-12
    } else {
        16.0 * T::EPSILON.max(6e-8)
    }
}

fn values<T: Element>(numbers: &mut Random, count: usize, scale: f64, offset: f64) -> Vec<T> {
    (0..count)
        .map(|_| T::of(numbers.signed() * scale + offset))
        .collect()
}

fn wide<T: Element>(values: &[T]) -> Vec<f64> {
    values.iter().map(|x| x.number()).collect()
}

/// Runs a kernel of a row for each workgroup asked for.
fn run_rows<T: Element>(gpu: &Gpu, name: &str, rows: usize, args: &[Arg]) -> Vec<Vec<u8>> {
    let name = format!("{name}_{}", T::NAME);
    gpu.launch(
        &FUSED_OPERATORS,
        &name,
        [rows as u32, 1, 1],
        [32, 1, 1],
        0,
        args,
    )
    .0
}

/// Runs a kernel of rows that are cut into parts.
fn run_splits<T: Element>(
    gpu: &Gpu,
    name: &str,
    [splits, rows]: [usize; 2],
    args: &[Arg],
) -> Vec<Vec<u8>> {
    let name = format!("{name}_{}", T::NAME);
    let grid = [splits as u32, rows as u32, 1];
    gpu.launch(&FUSED_OPERATORS, &name, grid, [256, 1, 1], 0, args)
        .0
}

/// Runs a kernel of elements.
fn run_elements<T: Element>(gpu: &Gpu, name: &str, args: &[Arg]) -> Vec<Vec<u8>> {
    let name = format!("{name}_{}", T::NAME);
    gpu.launch(&FUSED_OPERATORS, &name, [2, 1, 1], [256, 1, 1], 0, args)
        .0
}

fn last<T: Element>(results: Vec<Vec<u8>>) -> Vec<T> {
    from_bytes(results.last().expect("a result"))
}

/// The element type that a kernel for T leaves sums in, as an output of `count`, and bytes that stand for one.
fn sums_output<T: Element>(count: usize) -> Arg {
    if T::BYTES == 8 {
        Arg::output::<f64>(count)
    } else {
        Arg::output::<f32>(count)
    }
}

/// Numbers that a kernel for T left.
fn sums_of<T: Element>(bytes: &[u8]) -> Vec<f64> {
    match T::BYTES {
        8 => from_bytes(bytes),
        _ => wide(&from_bytes::<f32>(bytes)),
    }
}

/// Whether rows of so many columns are cut in vectors, as kernels of parts are told.
fn wide_arg<T: Element>(columns: usize) -> Arg {
    Arg::I(i32::from((columns * T::BYTES).is_multiple_of(16)))
}

/// Into how many parts rows of these lengths are cut: one, some, some of which have nothing, and as many as a large GPU
/// would have.
fn cuts(columns: usize) -> &'static [usize] {
    match columns {
        63 => &[80],
        4096 => &[1, 5],
        16_385 => &[3],
        32_776 => &[2],
        50_003 => &[64],
        _ => &[],
    }
}

fn bytes_input(bytes: Vec<u8>) -> Arg {
    Arg::Buffer {
        bytes,
        offset: 0,
        result: false,
    }
}

// ------------------------------------------------------------------ softmax

fn softmax_of(logits: &[f64], columns: usize) -> Vec<f64> {
    let mut all = Vec::with_capacity(logits.len());
    for row in logits.chunks(columns) {
        let largest = row.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let exponentials: Vec<f64> = row.iter().map(|x| (x - largest).exp()).collect();
        let sum: f64 = exponentials.iter().sum();
        all.extend(exponentials.iter().map(|e| e / sum));
    }
    all
}

fn log_softmax_of(logits: &[f64], columns: usize) -> Vec<f64> {
    let mut all = Vec::with_capacity(logits.len());
    for row in logits.chunks(columns) {
        let largest = row.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let sum: f64 = row.iter().map(|x| (x - largest).exp()).sum();
        all.extend(row.iter().map(|x| (x - largest) - sum.ln()));
    }
    all
}

/// Masks of both kinds for rows in (outer, middle, inner), repeated along the outer two: arguments after the mask itself,
/// and which mask row each row has.
fn mask_rows(rows: usize, columns: usize) -> ([Arg; 5], Vec<usize>) {
    let inner = if rows.is_multiple_of(2) {
        rows / 2
    } else {
        rows
    };
    let of_row = (0..rows).map(|row| row % inner).collect();
    let args = [
        Arg::I((rows / inner) as i32),
        Arg::I(inner as i32),
        Arg::N(0),
        Arg::N(0),
        Arg::N(columns),
    ];
    (args, of_row)
}

struct Masked<T> {
    added: Vec<T>,
    flags: Vec<u8>,
    rows: [Arg; 5],
    /// The logits with each.
    with_added: Vec<f64>,
    with_flags: Vec<f64>,
}

const SCALE: f64 = 0.375;

/// The first mask row hides everything, so that rows without elements above -infinity are among all others.
fn masked<T: Element>(numbers: &mut Random, x: &[T], rows: usize, columns: usize) -> Masked<T> {
    let (args, of_row) = mask_rows(rows, columns);
    let count = (of_row.iter().max().expect("a row") + 1) * columns;
    let hidden = |numbers: &mut Random, i: usize| i < columns && rows > 1 || numbers.below(4) == 0;
    let added: Vec<T> = (0..count)
        .map(|i| match hidden(numbers, i) {
            true => T::of(f64::NEG_INFINITY),
            false => T::of(numbers.signed()),
        })
        .collect();
    let flags: Vec<u8> = (0..count)
        .map(|i| {
            if hidden(numbers, i) {
                0
            } else {
                1 + (i % 255) as u8
            }
        })
        .collect();
    let at = |i: usize| of_row[i / columns] * columns + i % columns;
    let scaled = |i: usize| x[i].number() * SCALE;
    Masked {
        with_added: (0..x.len())
            .map(|i| scaled(i) + added[at(i)].number())
            .collect(),
        with_flags: (0..x.len())
            .map(|i| match flags[at(i)] {
                0 => f64::NEG_INFINITY,
                _ => scaled(i),
            })
            .collect(),
        added,
        flags,
        rows: args,
    }
}

/// Rows of which all is hidden are zeros.
fn or_zeros(softmax: Vec<f64>) -> Vec<f64> {
    let zero_if_nan = |y: f64| if y.is_nan() { 0.0 } else { y };
    softmax.into_iter().map(zero_if_nan).collect()
}

/// The launches of one kernel of softmax: whole rows, or parts of them.
fn softmaxes<T: Element>(
    gpu: &Gpu,
    kind: &str,
    [rows, columns]: [usize; 2],
    splits: Option<usize>,
    x: &[T],
    scale: Option<f64>,
    mask: &[Arg],
) -> Vec<T> {
    let (x_arg, y_arg) = (Arg::input(x), Arg::output::<T>(x.len()));
    let size = Arg::I(columns as i32);
    match splits {
        None => {
            let scale: Vec<Arg> = scale.map(Arg::D).into_iter().collect();
            let args = [&[x_arg, y_arg, size], &scale[..], mask].concat();
            last(run_rows::<T>(gpu, kind, rows, &args))
        }
        Some(splits) => {
            // A log-softmax's parts are those of a softmax, as are scaled ones; all have a scale.
            let [found_by, kind] = match kind {
                "log_softmax" => ["softmax", kind],
                "scaled_softmax" => ["softmax", "softmax"],
                masked => [masked, masked],
            };
            let sizes = [
                size,
                Arg::I(splits as i32),
                Arg::D(scale.unwrap_or(1.0)),
                wide_arg::<T>(columns),
            ];
            let first = [
                &[x_arg.clone(), sums_output::<T>(2 * splits * rows)],
                &sizes[..],
                mask,
            ];
            let name = format!("long_{found_by}_splits");
            let found = run_splits::<T>(gpu, &name, [splits, rows], &first.concat());
            let partial = bytes_input(found.into_iter().next().expect("partial results"));
            let second = [&[x_arg, partial, y_arg], &sizes[..], mask];
            let name = format!("long_{kind}_finish");
            last(run_splits::<T>(
                gpu,
                &name,
                [splits, rows],
                &second.concat(),
            ))
        }
    }
}

fn softmax_family<T: Element>(gpu: &Gpu) {
    let mut numbers = Random::new(31);
    for (rows, columns) in SHAPES {
        let x: Vec<T> = values(&mut numbers, rows * columns, 8.0, 0.0);
        let mask = masked(&mut numbers, &x, rows, columns);
        let scaled: Vec<f64> = x.iter().map(|x| x.number() * SCALE).collect();
        let plain = log_softmax_of(&wide(&x), columns);
        // An exponential turns the rounding of x - max, up to 16, into a relative error.
        let tolerance = tolerance::<T>() + if T::BYTES == 8 { 2e-15 } else { 1e-6 };
        // f16's smallest values lose relative precision below 6e-5.
        let least = if T::NAME == "f16" { 6.2e-5 } else { 1e-30 };
        // Kernel, scale, mask, expected, and the size below which errors are not relative.
        type Case<'a> = (&'a str, Option<f64>, Vec<Arg>, Vec<f64>, f64);
        let cases: [Case; 4] = [
            ("log_softmax", None, vec![], plain, 1.0),
            (
                "scaled_softmax",
                Some(SCALE),
                vec![],
                softmax_of(&scaled, columns),
                least,
            ),
            (
                "masked_softmax",
                Some(SCALE),
                [&[Arg::input(&mask.added)], &mask.rows[..]].concat(),
                or_zeros(softmax_of(&mask.with_added, columns)),
                least,
            ),
            (
                "flagged_softmax",
                Some(SCALE),
                [&[Arg::input(&mask.flags)], &mask.rows[..]].concat(),
                or_zeros(softmax_of(&mask.with_flags, columns)),
                least,
            ),
        ];
        for (kind, scale, arguments, expected, least) in cases {
            let cuts = cuts(columns).iter().copied().map(Some);
            for splits in std::iter::once(None).chain(cuts) {
                let found = softmaxes(gpu, kind, [rows, columns], splits, &x, scale, &arguments);
                let what = format!("{kind} of {columns} in {splits:?}");
                assert_close(&found, &expected, tolerance, least, &what);
            }
        }
    }
}

#[test]
fn softmaxes_match() {
    on_each_gpu(|gpu| {
        for_wide_floats!(softmax_family, gpu);
    });
}

/// Numbers far below zero, among them -infinity, in rows shorter than what makes them, and longer: threads that hold
/// nothing, or nothing above -infinity, must not matter.
fn far_below_zero<T: Element>(gpu: &Gpu) {
    for columns in [1usize, 2, 3, 33, 100, 2052, 20_001] {
        let steps: &[usize] = if columns > 4096 { &[65] } else { &[1, 2, 65] };
        for &step in steps {
            let x: Vec<T> = (0..columns)
                .map(|i| match i % step {
                    0 => T::of(-30_000.0 - (i % 7) as f64 * 64.0),
                    _ => T::of(f64::NEG_INFINITY),
                })
                .collect();
            let x: Vec<T> = [x, vec![T::of(f64::NEG_INFINITY); columns]].concat();
            let expected = softmax_of(&wide(&x), columns);
            let tolerance = tolerance::<T>();
            let candles: Vec<T> = gpu.run(
                &REDUCE,
                &format!("softmax_{}", T::NAME),
                [2, 1, 1],
                [1, 32, 1],
                &[
                    Arg::input(&x),
                    Arg::output::<T>(x.len()),
                    Arg::I(columns as i32),
                ],
            );
            assert_close(&candles, &expected, tolerance, 6.2e-5, "softmax");
            let sizes = [2, columns];
            for splits in [None, Some(3)] {
                let scaled = softmaxes(gpu, "scaled_softmax", sizes, splits, &x, Some(1.0), &[]);
                assert_close(&scaled, &expected, tolerance, 6.2e-5, "scaled_softmax");
                let logs = softmaxes(gpu, "log_softmax", sizes, splits, &x, None, &[]);
                let expected_logs = log_softmax_of(&wide(&x), columns);
                assert_close(&logs, &expected_logs, tolerance, 1.0, "log_softmax");
                let (rows, _) = mask_rows(2, columns);
                let none = vec![1u8; columns];
                let mask = [&[Arg::input(&none)], &rows[..]].concat();
                let flagged =
                    softmaxes(gpu, "flagged_softmax", sizes, splits, &x, Some(1.0), &mask);
                let expected = or_zeros(expected.clone());
                assert_close(&flagged, &expected, tolerance, 6.2e-5, "flagged_softmax");
            }
        }
    }
}

#[test]
fn softmax_of_numbers_far_below_zero_is_finite() {
    on_each_gpu(|gpu| {
        for_wide_floats!(far_below_zero, gpu);
    });
}

/// Asserts that elements of a row whose logits are equal have equal results.
fn assert_equal_where_equal<T: Element>(logits: &[f64], found: &[T], columns: usize, what: &str) {
    for (logits, found) in logits.chunks(columns).zip(found.chunks(columns)) {
        let mut first_of = HashMap::new();
        for (at, logit) in logits.iter().enumerate() {
            let first = *first_of.entry(logit.to_bits()).or_insert(at);
            let pair = [found[first], found[at]];
            assert!(
                pair[0] == pair[1] || pair[0].number().is_nan() && pair[1].number().is_nan(),
                "{what} for {}: elements {first} and {at}, both of {logit}, are {pair:?}",
                T::NAME
            );
        }
    }
}

/// Rows of 65 different numbers, all exact in every type with every scale and mask: samplers order tokens by probability,
/// which must not depend on a token's place.
fn equal_logits<T: Element>(gpu: &Gpu) {
    let mut numbers = Random::new(33);
    for (rows, columns) in SHAPES.into_iter().chain([(3, 512), (2, 8192)]) {
        let x: Vec<T> = (0..rows * columns)
            .map(|_| T::of(numbers.below(65) as f64 / 4.0 - 8.0))
            .collect();
        let mut mask = masked(&mut numbers, &x, rows, columns);
        let (_, mask_row) = mask_rows(rows, columns);
        for added in &mut mask.added {
            *added = T::of((added.number() * 4.0).round() / 4.0);
        }
        let plain = wide(&x);
        let scaled: Vec<f64> = plain.iter().map(|x| x * SCALE).collect();
        let added = (0..x.len())
            .map(|i| mask.added[mask_row[i / columns] * columns + i % columns].number())
            .zip(&scaled);
        let with_added = added.map(|(mask, x)| mask + x).collect();
        let candles: Vec<T> = gpu.run(
            &REDUCE,
            &format!("softmax_{}", T::NAME),
            [rows as u32, 1, 1],
            [1, 32, 1],
            &[
                Arg::input(&x),
                Arg::output::<T>(x.len()),
                Arg::I(columns as i32),
            ],
        );
        assert_equal_where_equal(&plain, &candles, columns, &format!("softmax of {columns}"));
        type Case<'a> = (&'a str, Option<f64>, Vec<Arg>, Vec<f64>);
        let of_mask = |mask_arg: Arg| [&[mask_arg], &mask.rows[..]].concat();
        let cases: [Case; 4] = [
            ("log_softmax", None, vec![], plain),
            ("scaled_softmax", Some(SCALE), vec![], scaled),
            (
                "masked_softmax",
                Some(SCALE),
                of_mask(Arg::input(&mask.added)),
                with_added,
            ),
            (
                "flagged_softmax",
                Some(SCALE),
                of_mask(Arg::input(&mask.flags)),
                mask.with_flags.clone(),
            ),
        ];
        for (kind, scale, arguments, logits) in cases {
            let cuts = cuts(columns).iter().copied().map(Some);
            for splits in std::iter::once(None).chain(cuts) {
                let found = softmaxes(gpu, kind, [rows, columns], splits, &x, scale, &arguments);
                let what = format!("{kind} of {columns} in {splits:?}");
                assert_equal_where_equal(&logits, &found, columns, &what);
            }
        }
    }
}

#[test]
fn equal_logits_have_equal_softmax() {
    on_each_gpu(|gpu| {
        for_wide_floats!(equal_logits, gpu);
    });
}

fn softmax_gradients<T: Element>(gpu: &Gpu) {
    let mut numbers = Random::new(32);
    for (rows, columns) in SHAPES {
        let logits: Vec<f64> = (0..rows * columns)
            .map(|_| numbers.signed() * 2.0)
            .collect();
        let dy: Vec<T> = values(&mut numbers, rows * columns, 1.0, 0.3);
        for log in [false, true] {
            let y: Vec<T> = if log {
                log_softmax_of(&logits, columns)
            } else {
                softmax_of(&logits, columns)
            }
            .into_iter()
            .map(T::of)
            .collect();
            let mut expected = Vec::new();
            let mut largest: f64 = 0.0;
            for (y, dy) in y.chunks(columns).zip(dy.chunks(columns)) {
                let (y, dy) = (wide(y), wide(dy));
                let terms = y.iter().zip(&dy);
                if log {
                    let sum: f64 = dy.iter().sum();
                    expected.extend(terms.map(|(y, dy)| dy - y.exp() * sum));
                    largest = 1.0;
                } else {
                    let sum: f64 = terms.clone().map(|(y, dy)| y * dy).sum();
                    expected.extend(terms.map(|(y, dy)| y * (dy - sum) * SCALE));
                    largest = largest.max(y.iter().copied().fold(0.0, f64::max));
                }
            }
            let mut args = vec![
                Arg::input(&y),
                Arg::input(&dy),
                Arg::output::<T>(y.len()),
                Arg::I(columns as i32),
            ];
            let name = if log {
                "backward_log_softmax"
            } else {
                args.push(Arg::D(SCALE));
                "backward_softmax"
            };
            let found: Vec<T> = last(run_rows::<T>(gpu, name, rows, &args));
            // Differences cancel, so that errors are relative to the terms; f16 has no smaller numbers than 6e-8.
            let least = largest.max(if T::NAME == "f16" { 1e-4 } else { 0.0 });
            assert_close(&found, &expected, tolerance::<T>(), least, name);
            for &splits in cuts(columns) {
                let inputs = [Arg::input(&y), Arg::input(&dy)];
                let sizes = [Arg::I(columns as i32), Arg::I(splits as i32)];
                let wide = [wide_arg::<T>(columns)];
                let sums = [sums_output::<T>(splits * rows)];
                let first = [&inputs[..], &sums, &sizes, &wide].concat();
                let grid = [splits, rows];
                let sums = run_splits::<T>(gpu, &format!("long_{name}_splits"), grid, &first);
                let between = [bytes_input(sums[0].clone()), Arg::output::<T>(y.len())];
                let scale = [Arg::D(if log { 1.0 } else { SCALE })];
                let second = [&inputs[..], &between, &sizes, &scale, &wide].concat();
                let found = run_splits::<T>(gpu, &format!("long_{name}_finish"), grid, &second);
                let what = format!("{name} of {columns} in {splits}");
                assert_close(&last::<T>(found), &expected, tolerance::<T>(), least, &what);
            }
        }
    }
}

#[test]
fn gradients_of_softmax_match() {
    on_each_gpu(|gpu| {
        for_wide_floats!(softmax_gradients, gpu);
    });
}

// -------------------------------------------------------------------- norms

const EPS: f32 = 1e-5;

/// A row's mean (0 for RMS) and 1 / sqrt(variance + eps).
fn statistics(row: &[f64], rms: bool) -> (f64, f64) {
    let n = row.len() as f64;
    let mean = if rms {
        0.0
    } else {
        row.iter().sum::<f64>() / n
    };
    let variance = row.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / n;
    (mean, 1.0 / (variance + EPS as f64).sqrt())
}

fn norms<T: Element>(gpu: &Gpu) {
    let mut numbers = Random::new(33);
    for (rows, columns) in SHAPES {
        let count = rows * columns;
        // An offset far from zero would ruin a variance taken as E[x^2] - mean^2 in f32.
        let x: Vec<T> = values(&mut numbers, count, 1.5, 2.0);
        let residual: Vec<T> = values(&mut numbers, count, 1.0, 0.5);
        let alpha: Vec<T> = values(&mut numbers, columns, 1.0, 1.5);
        let beta: Vec<T> = values(&mut numbers, columns, 1.0, 0.0);
        // Rounded once, as one addition in a wider type.
        let sum: Vec<T> = (0..count)
            .map(|i| T::of(x[i].number() + residual[i].number()))
            .collect();
        for rms in [true, false] {
            let kind = if rms { "rmsnorm" } else { "layernorm" };
            let expected: Vec<f64> = sum
                .chunks(columns)
                .flat_map(|row| {
                    let row = wide(row);
                    let (mean, r) = statistics(&row, rms);
                    let of = |i: usize| {
                        (row[i] - mean) * r * alpha[i].number()
                            + if rms { 0.0 } else { beta[i].number() }
                    };
                    (0..columns).map(of).collect::<Vec<f64>>()
                })
                .collect();
            // One element has variance 0 and scale 1 / sqrt(eps): errors of the mean grow by 316.
            let slack = if columns == 1 { 400.0 } else { 2.0 };
            let tolerance = tolerance::<T>() * slack;
            let weights: Vec<Arg> = match rms {
                true => vec![Arg::input(&alpha)],
                false => vec![Arg::input(&alpha), Arg::input(&beta)],
            };
            let outputs = [Arg::output::<T>(count), Arg::output::<T>(count)];
            let args = [
                &[Arg::input(&x), Arg::input(&residual)],
                &outputs[..],
                &weights,
                &[Arg::I(columns as i32), Arg::F(EPS)],
            ];
            let name = format!("add_{kind}");
            let found = run_rows::<T>(gpu, &name, rows, &args.concat());
            assert_same(&from_bytes::<T>(&found[0]), &sum, &name);
            assert_close(
                &from_bytes::<T>(&found[1]),
                &expected,
                tolerance,
                1.0,
                &name,
            );

            for &splits in cuts(columns) {
                let sizes = [
                    Arg::I(columns as i32),
                    Arg::I(splits as i32),
                    wide_arg::<T>(columns),
                ];
                let partial = sums_output::<T>(2 * splits * rows);
                let plain = [&[Arg::input(&sum), partial.clone()], &sizes[..]].concat();
                let added = [
                    &[
                        Arg::input(&x),
                        Arg::input(&residual),
                        Arg::output::<T>(count),
                        partial,
                    ],
                    &sizes[..],
                ]
                .concat();
                let grid = [splits, rows];
                let alone = run_splits::<T>(gpu, &format!("long_{kind}_splits"), grid, &plain);
                let both = run_splits::<T>(gpu, &format!("long_add_{kind}_splits"), grid, &added);
                assert_same(&from_bytes::<T>(&both[0]), &sum, "sum of parts");
                assert_eq!(alone[0], both[1], "{kind} of {columns} in {splits}");
                let args = [
                    Arg::input(&sum),
                    bytes_input(alone[0].clone()),
                    Arg::output::<T>(count),
                    Arg::input(&alpha),
                    Arg::input(&beta),
                    Arg::I(columns as i32),
                    Arg::I(splits as i32),
                    Arg::F(EPS),
                    wide_arg::<T>(columns),
                ];
                let name = format!("long_{kind}_finish");
                let found: Vec<T> = last(run_splits::<T>(gpu, &name, grid, &args));
                let what = format!("{kind} of {columns} in {splits}");
                assert_close(&found, &expected, tolerance, 1.0, &what);
            }
        }
    }
}

#[test]
fn norms_of_sums_match() {
    on_each_gpu(|gpu| {
        for_wide_floats!(norms, gpu);
    });
}

/// Rows that are summed at once: one, some that do not divide the rows, and more than there are.
fn slabs_of(rows: usize) -> Vec<usize> {
    let mut slabs = vec![1, 16, 1000];
    slabs.dedup_by_key(|slab| rows.div_ceil(*slab));
    slabs
}

/// Asserts what columns of gradients and of normed values add up to, in slabs of rows; `statistics` are the rows' means and
/// factors, as the kernel for rows left them.
fn sums_of_columns<T: Element>(
    gpu: &Gpu,
    x: &[T],
    dy: &[T],
    statistics: &[u8],
    [rows, columns]: [usize; 2],
    of_columns: &[Vec<f64>; 2],
) {
    for slab in slabs_of(rows) {
        let slabs = rows.div_ceil(slab);
        let args = [
            Arg::input(dy),
            Arg::input(x),
            bytes_input(statistics.to_vec()),
            sums_output::<T>(slabs * columns),
            sums_output::<T>(slabs * columns),
            Arg::N(rows),
            Arg::I(columns as i32),
            Arg::I(slab as i32),
        ];
        let name = format!("column_sums_{}", T::NAME);
        let grid = [2, slabs as u32, 1];
        let (sums, _) = gpu.launch(&FUSED_OPERATORS, &name, grid, [256, 1, 1], 0, &args);
        let finish = |sums: &[u8]| -> Vec<T> {
            let args = [
                bytes_input(sums.to_vec()),
                Arg::output::<T>(columns),
                Arg::I(slabs as i32),
                Arg::I(columns as i32),
            ];
            last(run_elements::<T>(gpu, "column_finish", &args))
        };
        // Errors are relative to the terms, whose sum may be small.
        let scale = rows as f64;
        let slack = if columns == 1 { 400.0 } else { 1.0 };
        let tolerance = tolerance::<T>() * slack;
        assert_close(
            &finish(&sums[0]),
            &of_columns[0],
            tolerance,
            scale,
            "dalpha",
        );
        assert_close(&finish(&sums[1]), &of_columns[1], tolerance, scale, "dbeta");
        if slab == 16 {
            let args = [
                Arg::input(dy),
                Arg::Null,
                Arg::Null,
                Arg::Null,
                sums_output::<T>(slabs * columns),
                Arg::N(rows),
                Arg::I(columns as i32),
                Arg::I(slab as i32),
            ];
            let (alone, _) = gpu.launch(&FUSED_OPERATORS, &name, grid, [256, 1, 1], 0, &args);
            assert_eq!(alone[0], sums[1], "sums of columns alone");
        }
    }
}

fn norm_gradients<T: Element>(gpu: &Gpu) {
    let mut numbers = Random::new(34);
    let shapes = SHAPES.into_iter().chain([(70, 520), (33, 77)]);
    for (rows, columns) in shapes {
        let count = rows * columns;
        let x: Vec<T> = values(&mut numbers, count, 1.5, 2.0);
        let dy: Vec<T> = values(&mut numbers, count, 1.0, 0.25);
        let alpha: Vec<T> = values(&mut numbers, columns, 1.0, 1.5);
        for rms in [true, false] {
            let mut dx = Vec::new();
            let mut stats = Vec::new();
            let (mut dalpha, mut dbeta) = (vec![0.0; columns], vec![0.0; columns]);
            for (x, dy) in x.chunks(columns).zip(dy.chunks(columns)) {
                let (x, dy) = (wide(x), wide(dy));
                let (mean, r) = statistics(&x, rms);
                stats.extend([mean, r]);
                let g: Vec<f64> = (0..columns).map(|i| dy[i] * alpha[i].number()).collect();
                let n = columns as f64;
                let shift = if rms { 0.0 } else { g.iter().sum::<f64>() / n };
                let along: f64 = (0..columns).map(|i| g[i] * (x[i] - mean)).sum::<f64>() / n;
                for i in 0..columns {
                    let c = x[i] - mean;
                    dx.push(r * (g[i] - shift - c * r * r * along));
                    dalpha[i] += dy[i] * c * r;
                    dbeta[i] += dy[i];
                }
            }
            let kind = if rms { "rmsnorm" } else { "layernorm" };
            let name = format!("backward_{kind}");
            let args = [
                Arg::input(&x),
                Arg::input(&dy),
                Arg::input(&alpha),
                Arg::output::<T>(count),
                sums_output::<T>(2 * rows),
                Arg::I(columns as i32),
                Arg::F(EPS),
            ];
            let found = run_rows::<T>(gpu, &name, rows, &args);
            // One element: the gradient is zero but for rounding, which grows by 316; for RMS it is small, and
            // cancels from numbers of order one.
            let slack = if columns <= 3 { 400.0 } else { 4.0 };
            let tolerance = tolerance::<T>() * slack;
            assert_close(&from_bytes::<T>(&found[0]), &dx, tolerance, 1.0, &name);
            let wide_stats = sums_of::<T>(&found[1]);
            let tolerance_of_stats = if T::BYTES == 8 { 1e-11 } else { 1e-5 };
            let slack = if columns == 1 { 10.0 } else { 1.0 };
            assert_close(&wide_stats, &stats, tolerance_of_stats * slack, 1.0, &name);

            for &splits in cuts(columns) {
                let inputs = [Arg::input(&x), Arg::input(&dy), Arg::input(&alpha)];
                let sizes = [Arg::I(columns as i32), Arg::I(splits as i32)];
                let wide = [wide_arg::<T>(columns)];
                let sums = [sums_output::<T>(4 * splits * rows)];
                let first = [&inputs[..], &sums, &sizes, &wide].concat();
                let grid = [splits, rows];
                let sums = run_splits::<T>(gpu, &format!("long_{name}_splits"), grid, &first);
                for of_rows in [sums_output::<T>(2 * rows), Arg::Null] {
                    let with_stats = !matches!(of_rows, Arg::Null);
                    let between = [
                        bytes_input(sums[0].clone()),
                        Arg::output::<T>(count),
                        of_rows,
                    ];
                    let second = [&inputs[..], &between, &sizes, &[Arg::F(EPS)], &wide].concat();
                    let of_splits =
                        run_splits::<T>(gpu, &format!("long_{name}_finish"), grid, &second);
                    let what = format!("{name} of {columns} in {splits}");
                    let found = from_bytes::<T>(&of_splits[0]);
                    assert_close(&found, &dx, tolerance, 1.0, &what);
                    if with_stats {
                        let found = sums_of::<T>(&of_splits[1]);
                        assert_close(&found, &stats, tolerance_of_stats, 1.0, &what);
                    }
                }
            }

            // A column is summed alone: more of them say nothing new.
            if columns <= 4096 {
                let of_columns = [dalpha, dbeta];
                sums_of_columns(gpu, &x, &dy, &found[1], [rows, columns], &of_columns);
            }
        }
    }
}

#[test]
fn gradients_of_norms_match() {
    on_each_gpu(|gpu| {
        for_wide_floats!(norm_gradients, gpu);
    });
}

// ----------------------------------------------------------------- elements

/// (name, function, derivative)
type Function = (&'static str, fn(f64) -> f64, fn(f64) -> f64);

const HALF_ROOT: f64 = std::f64::consts::FRAC_1_SQRT_2;

const FUNCTIONS: [Function; 5] = [
    ("none", |x| x, |_| 1.0),
    ("relu", |x| x.max(0.0), |x| if x > 0.0 { 1.0 } else { 0.0 }),
    ("silu", silu, |x| {
        sigmoid(x) * (1.0 + x * (1.0 - sigmoid(x)))
    }),
    ("gelu", gelu, |x| {
        let t = gelu_argument(x).tanh();
        let slope = (2.0 / std::f64::consts::PI).sqrt() * (1.0 + 0.134145 * x * x);
        0.5 * (1.0 + t) + 0.5 * x * (1.0 - t * t) * slope
    }),
    ("gelu_erf", gelu_erf, |x| {
        let density = (-0.5 * x * x).exp() / (2.0 * std::f64::consts::PI).sqrt();
        0.5 * (1.0 + libm::erf(x * HALF_ROOT)) + x * density
    }),
];

/// Rows and columns with bias: odd, vectors, more than a grid has threads. One row stands for any shape without bias.
const MATRICES: [(usize, usize); 6] = [(3, 7), (5, 64), (1, 5001), (40, 123), (700, 8), (1, 3)];

fn activations<T: Element>(gpu: &Gpu) {
    let mut numbers = Random::new(35);
    // The exponential turns the rounding of its argument, up to 40, into a relative error.
    let tolerance = if T::BYTES == 8 {
        1e-13
    } else {
        (8.0 * T::EPSILON).max(40.0 * 6e-8)
    };
    for (rows, columns) in MATRICES {
        let count = rows * columns;
        let x: Vec<T> = values(&mut numbers, count, 6.0, 0.0);
        let bias: Vec<T> = values(&mut numbers, columns, 1.0, 0.0);
        let other: Vec<T> = values(&mut numbers, count, 1.0, 0.0);
        for (name, function, slope) in FUNCTIONS {
            for (with_bias, with_residual) in [(true, true), (false, false), (true, false)] {
                let at = |i: usize| {
                    x[i].number()
                        + if with_bias {
                            bias[i % columns].number()
                        } else {
                            0.0
                        }
                };
                let bias = match with_bias {
                    true => Arg::input(&bias),
                    false => Arg::Null,
                };
                let residual = match with_residual {
                    true => Arg::input(&other),
                    false => Arg::Null,
                };
                let sizes = [Arg::N(rows), Arg::N(columns)];
                let args = [
                    &[Arg::input(&x), bias.clone(), residual][..],
                    &[Arg::output::<T>(count)],
                    &sizes[..],
                ];
                let kernel = format!("activate_{name}");
                let found: Vec<T> = last(run_elements::<T>(gpu, &kernel, &args.concat()));
                let rest = |i: usize| {
                    if with_residual {
                        other[i].number()
                    } else {
                        0.0
                    }
                };
                let expected: Vec<f64> = (0..count).map(|i| function(at(i)) + rest(i)).collect();
                assert_close(&found, &expected, tolerance, 1.0, &kernel);
                if name == "none" || with_residual {
                    continue;
                }
                let args = [
                    &[Arg::input(&x), bias, Arg::input(&other)][..],
                    &[Arg::output::<T>(count)],
                    &sizes[..],
                ];
                let kernel = format!("backward_{name}");
                let found: Vec<T> = last(run_elements::<T>(gpu, &kernel, &args.concat()));
                let expected: Vec<f64> = (0..count)
                    .map(|i| other[i].number() * slope(at(i)))
                    .collect();
                assert_close(&found, &expected, tolerance, 1.0, &kernel);
            }
        }
    }
    // Far out the slopes are 0 and 1; a NaN stays one.
    let ends: Vec<T> = [
        f64::INFINITY,
        60_000.0,
        -60_000.0,
        f64::NEG_INFINITY,
        f64::NAN,
    ]
    .map(T::of)
    .to_vec();
    let ones = vec![T::of(1.0); ends.len()];
    for (name, _, _) in &FUNCTIONS[2..] {
        let args = [
            Arg::input(&ends),
            Arg::Null,
            Arg::input(&ones),
            Arg::output::<T>(ends.len()),
            Arg::N(1),
            Arg::N(ends.len()),
        ];
        let found: Vec<T> = last(run_elements::<T>(gpu, &format!("backward_{name}"), &args));
        let expected = [1.0, 1.0, 0.0, 0.0, f64::NAN];
        assert_close(&found, &expected, 0.0, 0.0, name);
    }
}

#[test]
fn activations_and_their_gradients_match() {
    on_each_gpu(|gpu| {
        for_wide_floats!(activations, gpu);
    });
}

fn swiglu<T: Element>(gpu: &Gpu) {
    let mut numbers = Random::new(36);
    let tolerance = if T::BYTES == 8 {
        1e-13
    } else {
        8.0 * T::EPSILON
    };
    let silu = FUNCTIONS[2];
    for (rows, columns) in MATRICES {
        // Both halves of each row in one tensor.
        let both: Vec<T> = values(&mut numbers, 2 * rows * columns, 4.0, 0.0);
        let dy: Vec<T> = values(&mut numbers, rows * columns, 1.0, 0.0);
        let at = |i: usize| 2 * columns * (i / columns) + i % columns;
        let sizes = [Arg::N(rows), Arg::N(columns), Arg::N(2 * columns)];
        let halves = [Arg::input(&both), Arg::input_from(&both, columns)];
        let args = [&halves[..], &[Arg::output::<T>(rows * columns)], &sizes[..]];
        let found: Vec<T> = last(run_elements::<T>(gpu, "swiglu", &args.concat()));
        let gate = |i: usize| both[at(i)].number();
        let up = |i: usize| both[at(i) + columns].number();
        let expected: Vec<f64> = (0..dy.len()).map(|i| silu.1(gate(i)) * up(i)).collect();
        assert_close(&found, &expected, tolerance, 1.0, "swiglu");

        // The gradients of the halves in buffers of their own, each laid out as the whole.
        let empty = vec![T::of(0.0); both.len()];
        let args = [
            &halves[..],
            &[
                Arg::input(&dy),
                Arg::in_out(&empty),
                Arg::in_out_from(&empty, columns),
            ],
            &sizes[..],
        ];
        let found = run_elements::<T>(gpu, "backward_swiglu", &args.concat());
        let mut expected = [vec![0.0; both.len()], vec![0.0; both.len()]];
        for (i, dy) in wide(&dy).into_iter().enumerate() {
            expected[0][at(i)] = dy * up(i) * silu.2(gate(i));
            expected[1][at(i) + columns] = dy * silu.1(gate(i));
        }
        for (found, expected) in found.iter().zip(&expected) {
            let found: Vec<T> = from_bytes(found);
            assert_close(&found, expected, tolerance, 4.0, "backward_swiglu");
        }
    }
}

#[test]
fn gated_activations_match() {
    on_each_gpu(|gpu| {
        for_wide_floats!(swiglu, gpu);
    });
}

// ------------------------------------------------------------ bytes moved

/// Rows of up to 16,384 elements are read once and written once, on the grids that kernels are launched with: the
/// emulator's counts of bytes are those of the data, and of the weights once for each row.
#[test]
fn rows_that_registers_hold_are_moved_once() {
    const ROWS: usize = 3;
    on_each_gpu(|gpu| {
        if gpu.units.is_none() {
            return;
        }
        for columns in [1000, 1003, 4096, 5000, 8192, 12_000, 16_383, 16_384] {
            let data = vec![f16::from_f32(0.5); ROWS * columns];
            let weights = vec![f16::ONE; columns];
            let (x, y) = (Arg::input(&data), Arg::output::<f16>(data.len()));
            let weight = Arg::input(&weights);
            let size = Arg::I(columns as i32);
            let eps = Arg::F(EPS);
            let norm_sizes = [size.clone(), Arg::I(32), eps.clone()];
            let (rows, _) = mask_rows(ROWS, columns);
            let flags = [Arg::input(&vec![1u8; ROWS * columns]), Arg::D(1.0)];
            let args = |list: &[&Arg]| list.iter().map(|&arg| arg.clone()).collect::<Vec<_>>();
            // Kernel, arguments, dimension of the rows, and bytes for each element: data and weights read, results.
            let all = [size.clone(), Arg::D(1.0), flags[0].clone()];
            type Case<'a> = (&'a Module, &'a str, Vec<Arg>, usize, [usize; 2]);
            let cases: [Case; 9] = [
                (&REDUCE, "softmax_f16", args(&[&x, &y, &size]), 0, [2, 2]),
                (
                    &REDUCE,
                    "rmsnorm_f16",
                    [args(&[&x, &y, &weight]), norm_sizes.to_vec()].concat(),
                    1,
                    [4, 2],
                ),
                (
                    &REDUCE,
                    "layernorm_f16",
                    [args(&[&x, &y, &weight, &weight]), norm_sizes.to_vec()].concat(),
                    1,
                    [6, 2],
                ),
                (
                    &FUSED_OPERATORS,
                    "log_softmax_f16",
                    args(&[&x, &y, &size]),
                    1,
                    [2, 2],
                ),
                (
                    &FUSED_OPERATORS,
                    "scaled_softmax_f16",
                    args(&[&x, &y, &size, &flags[1]]),
                    1,
                    [2, 2],
                ),
                (
                    &FUSED_OPERATORS,
                    "flagged_softmax_f16",
                    [args(&[&x, &y]), all.to_vec(), rows.to_vec()].concat(),
                    1,
                    [3, 2],
                ),
                (
                    &FUSED_OPERATORS,
                    "add_rmsnorm_f16",
                    args(&[&x, &x, &y, &y, &weight, &size, &eps]),
                    1,
                    [6, 4],
                ),
                (
                    &FUSED_OPERATORS,
                    "add_layernorm_f16",
                    args(&[&x, &x, &y, &y, &weight, &weight, &size, &eps]),
                    1,
                    [8, 4],
                ),
                (
                    &FUSED_OPERATORS,
                    "backward_softmax_f16",
                    args(&[&x, &x, &y, &size, &flags[1]]),
                    1,
                    [4, 2],
                ),
            ];
            for (module, name, arguments, axis, [loaded, stored]) in cases {
                // Elements of a row that no vector divides: half as many where two numbers are held for each.
                let two = module.name() == "fused_operators" && name != "log_softmax_f16";
                let held = if two { 4 } else { 16 } * gpu.largest_workgroup(module, name) as usize;
                if columns % 8 != 0 && columns > held {
                    continue;
                }
                let block = if axis == 0 { [1, 32, 1] } else { [32, 1, 1] };
                let grid = [ROWS as u32, 1, 1];
                let (_, counters) = gpu.launch(module, name, grid, block, 0, &arguments);
                let elements = (ROWS * columns) as u64;
                let what = format!("{name} on {}, rows of {columns}", gpu.arch);
                assert_eq!(counters.bytes_stored, elements * stored as u64, "{what}");
                assert_eq!(counters.bytes_loaded, elements * loaded as u64, "{what}");
            }
        }
    });
}

//! affine, binary, unary, where, const_set, copy2d in every layout.

use crate::device::{Arg, Gpu};
use crate::elements::{assert_close, assert_same, for_all, for_floats, Element};
use crate::on_each_gpu;
use candle_rocm_kernels::{AFFINE, BINARY, FILL, TERNARY, UNARY};
use candle_rocm_testing::activations;
use candle_rocm_testing::random::Random;

const BLOCK: [u32; 3] = [1024, 1, 1];

fn grid(count: usize) -> [u32; 3] {
    [count.div_ceil(1024) as u32, 1, 1]
}

/// Small whole numbers but for zero: quotients exist, and integers stay in range of every type.
fn values<T: Element>(numbers: &mut Random, count: usize) -> Vec<T> {
    (0..count)
        .map(|_| T::of((numbers.signed() * 6.0).round() + 0.5 * numbers.signed().signum() + 8.0))
        .collect()
}

/// An operand's layout: strides for the dimensions of the case, the offset of its first element.
struct Operand {
    strides: &'static [usize],
    start: usize,
}

/// Dimensions, operands, and whether to pass `info`.
struct Case {
    dims: &'static [usize],
    operands: [Operand; 2],
}

const CASES: &[Case] = &[
    // Contiguous: one element, a vector and a rest, unaligned starts.
    Case {
        dims: &[1],
        operands: [
            Operand {
                strides: &[1],
                start: 0,
            },
            Operand {
                strides: &[1],
                start: 0,
            },
        ],
    },
    Case {
        dims: &[2055],
        operands: [
            Operand {
                strides: &[1],
                start: 0,
            },
            Operand {
                strides: &[1],
                start: 0,
            },
        ],
    },
    Case {
        dims: &[37],
        operands: [
            Operand {
                strides: &[1],
                start: 1,
            },
            Operand {
                strides: &[1],
                start: 3,
            },
        ],
    },
    // Transposed by contiguous, broadcast rows by broadcast columns, three dimensions with gaps.
    Case {
        dims: &[5, 9],
        operands: [
            Operand {
                strides: &[1, 5],
                start: 0,
            },
            Operand {
                strides: &[9, 1],
                start: 2,
            },
        ],
    },
    Case {
        dims: &[6, 7],
        operands: [
            Operand {
                strides: &[0, 1],
                start: 0,
            },
            Operand {
                strides: &[1, 0],
                start: 0,
            },
        ],
    },
    Case {
        dims: &[2, 3, 4],
        operands: [
            Operand {
                strides: &[40, 12, 2],
                start: 1,
            },
            Operand {
                strides: &[1, 2, 6],
                start: 0,
            },
        ],
    },
];

impl Case {
    fn count(&self) -> usize {
        self.dims.iter().product()
    }

    fn offset(&self, operand: &Operand, mut linear: usize) -> usize {
        let mut offset = operand.start;
        for (dim, stride) in self.dims.iter().zip(operand.strides).rev() {
            offset += linear % dim * stride;
            linear /= dim;
        }
        offset
    }

    fn source<T: Element>(&self, operand: &Operand, numbers: &mut Random) -> Vec<T> {
        let count = (0..self.count())
            .map(|i| self.offset(operand, i))
            .max()
            .unwrap_or(0)
            + 1;
        values(numbers, count)
    }

    fn gather<T: Element>(&self, operand: &Operand, source: &[T]) -> Vec<T> {
        (0..self.count())
            .map(|i| source[self.offset(operand, i)])
            .collect()
    }

    fn is_contiguous(&self, operand: &Operand) -> bool {
        (0..self.count()).all(|i| self.offset(operand, i) == operand.start + i)
    }

    /// As Candle: null where all `operands` are contiguous.
    fn info(&self, operands: &[&Operand]) -> Arg {
        if operands.iter().all(|operand| self.is_contiguous(operand)) {
            return Arg::Null;
        }
        let strides = operands
            .iter()
            .flat_map(|operand| operand.strides.iter().copied());
        Arg::sizes(&self.dims.iter().copied().chain(strides).collect::<Vec<_>>())
    }
}

/// A result in exact arithmetic as the element: integers wrap, floats round once. f64's 53 bits are
/// more than twice those of f32, so that rounding a quotient twice changes nothing.
fn exact<T: Element>(value: f64) -> T {
    match T::EPSILON == 0.0 {
        true => T::get(&(value as i64).to_le_bytes()[..T::BYTES]),
        false => T::of(value),
    }
}

fn binary<T: Element>(gpu: &Gpu) {
    let mut numbers = Random::new(9);
    type Op = fn(f64, f64) -> f64;
    let integer = T::EPSILON == 0.0;
    let divide: Op = if integer {
        |a, b| (a / b).trunc()
    } else {
        |a, b| a / b
    };
    let arithmetic: [(&str, Op); 6] = [
        ("badd", |a, b| a + b),
        ("bsub", |a, b| a - b),
        ("bmul", |a, b| a * b),
        ("bdiv", divide),
        ("bminimum", f64::min),
        ("bmaximum", f64::max),
    ];
    type Compare = fn(&f64, &f64) -> bool;
    let comparisons: [(&str, Compare); 6] = [
        ("eq", f64::eq),
        ("ne", f64::ne),
        ("lt", f64::lt),
        ("le", f64::le),
        ("gt", f64::gt),
        ("ge", f64::ge),
    ];
    for case in CASES {
        let [l, r] = &case.operands;
        let (lhs, rhs): (Vec<T>, Vec<T>) =
            (case.source(l, &mut numbers), case.source(r, &mut numbers));
        let pairs: Vec<(f64, f64)> = case
            .gather(l, &lhs)
            .iter()
            .zip(case.gather(r, &rhs))
            .map(|(a, b)| (a.number(), b.number()))
            .collect();
        let arguments = [
            Arg::N(case.count()),
            Arg::N(case.dims.len()),
            case.info(&[l, r]),
            Arg::input_from(&lhs, l.start),
            Arg::input_from(&rhs, r.start),
        ];
        for (name, op) in arithmetic {
            let expected: Vec<T> = pairs.iter().map(|&(a, b)| exact(op(a, b))).collect();
            let all = [&arguments[..], &[Arg::output::<T>(case.count())]].concat();
            let found: Vec<T> = gpu.run(
                &BINARY,
                &format!("{name}_{}", T::NAME),
                grid(case.count()),
                BLOCK,
                &all,
            );
            assert_same(&found, &expected, name);
        }
        for (name, compare) in comparisons {
            let expected: Vec<u8> = pairs.iter().map(|(a, b)| compare(a, b) as u8).collect();
            let all = [&arguments[..], &[Arg::output::<u8>(case.count())]].concat();
            let found: Vec<u8> = gpu.run(
                &BINARY,
                &format!("{name}_{}", T::NAME),
                grid(case.count()),
                BLOCK,
                &all,
            );
            assert_same(&found, &expected, name);
        }
    }
}

#[test]
fn binary_operations_match() {
    on_each_gpu(|gpu| {
        for_all!(binary, gpu);
    });
}

#[test]
fn minimum_and_maximum_keep_the_left_of_what_does_not_compare() {
    on_each_gpu(|gpu| {
        let (lhs, rhs) = ([f32::NAN, 1.0, 2.0], [1.0f32, f32::NAN, 3.0]);
        for (name, expected) in [
            ("bminimum_f32", [f32::NAN, 1.0, 2.0]),
            ("bmaximum_f32", [f32::NAN, 1.0, 3.0]),
        ] {
            let arguments = [
                Arg::N(3),
                Arg::N(1),
                Arg::Null,
                Arg::input(&lhs),
                Arg::input(&rhs),
                Arg::output::<f32>(3),
            ];
            let found: Vec<f32> = gpu.run(&BINARY, name, [1, 1, 1], BLOCK, &arguments);
            assert_same(&found, &expected, name);
        }
    });
}

fn affine<T: Element>(gpu: &Gpu) {
    let mut numbers = Random::new(10);
    let (mul, add) = (T::of(3.0), T::of(0.625));
    for case in CASES {
        let operand = &case.operands[0];
        let source: Vec<T> = case.source(operand, &mut numbers);
        let expected: Vec<T> = case
            .gather(operand, &source)
            .iter()
            .map(|x| exact(exact::<T>(x.number() * mul.number()).number() + add.number()))
            .collect();
        let arguments = [
            Arg::N(case.count()),
            Arg::N(case.dims.len()),
            case.info(&[operand]),
            Arg::input_from(&source, operand.start),
            Arg::output::<T>(case.count()),
            Arg::element(mul),
            Arg::element(add),
        ];
        let name = format!("affine_{}", T::NAME);
        let found: Vec<T> = gpu.run(&AFFINE, &name, grid(case.count()), BLOCK, &arguments);
        assert_same(&found, &expected, "affine");
    }
}

#[test]
fn affine_matches() {
    on_each_gpu(|gpu| {
        for_all!(affine, gpu);
    });
}

fn unary<T: Element>(gpu: &Gpu) {
    let mut numbers = Random::new(11);
    // Positive and negative, but for logarithms and roots.
    let signed: Vec<T> = (0..301).map(|_| T::of(numbers.signed() * 6.0)).collect();
    let positive: Vec<T> = (0..301)
        .map(|_| T::of(numbers.signed().abs() * 6.0 + 0.02))
        .collect();
    type Function = fn(f64) -> f64;
    let functions: [(&str, &[T], Function); 20] = [
        ("uexp", &signed, f64::exp),
        ("ulog", &positive, f64::ln),
        ("usin", &signed, f64::sin),
        ("ucos", &signed, f64::cos),
        ("utanh", &signed, f64::tanh),
        ("uneg", &signed, |x| -x),
        ("urecip", &positive, f64::recip),
        ("usqr", &signed, |x| x * x),
        ("usqrt", &positive, f64::sqrt),
        ("uabs", &signed, f64::abs),
        ("uceil", &signed, f64::ceil),
        ("ufloor", &signed, f64::floor),
        ("uround", &signed, f64::round),
        ("urelu", &signed, |x| x.max(0.0)),
        (
            "usign",
            &signed,
            |x| if x == 0.0 { 0.0 } else { x.signum() },
        ),
        ("usilu", &signed, activations::silu),
        ("usigmoid", &signed, activations::sigmoid),
        ("uerf", &signed, libm::erf),
        ("ugelu", &signed, activations::gelu),
        ("ugelu_erf", &signed, activations::gelu_erf),
    ];
    for (name, source, function) in functions {
        // f8 saturates where others would go on.
        let expected: Vec<f64> = source
            .iter()
            .map(|x| limit::<T>(function(x.number())))
            .collect();
        let arguments = [
            Arg::N(301),
            Arg::N(1),
            Arg::Null,
            Arg::input(source),
            Arg::output::<T>(301),
        ];
        let found: Vec<T> = gpu.run(
            &UNARY,
            &format!("{name}_{}", T::NAME),
            [1, 1, 1],
            BLOCK,
            &arguments,
        );
        assert_close(&found, &expected, tolerance::<T>(), 0.1, name);
    }
    let parameter = T::of(1.5);
    type Function2 = fn(f64, f64) -> f64;
    let functions: [(&str, &[T], Function2); 2] = [
        ("uelu", &signed, |x, p| {
            if x > 0.0 {
                x
            } else {
                (x.exp() - 1.0) * p
            }
        }),
        ("upowf", &positive, f64::powf),
    ];
    for (name, source, function) in functions {
        let expected: Vec<f64> = source
            .iter()
            .map(|x| limit::<T>(function(x.number(), parameter.number())))
            .collect();
        let arguments = [
            Arg::N(301),
            Arg::N(1),
            Arg::Null,
            Arg::element(parameter),
            Arg::input(source),
            Arg::output::<T>(301),
        ];
        let found: Vec<T> = gpu.run(
            &UNARY,
            &format!("{name}_{}", T::NAME),
            [1, 1, 1],
            BLOCK,
            &arguments,
        );
        assert_close(&found, &expected, tolerance::<T>(), 0.1, name);
    }
}

fn limit<T: Element>(value: f64) -> f64 {
    if T::NAME == "f8e4m3" {
        value.clamp(-448.0, 448.0)
    } else {
        value
    }
}

/// Half a step of the type for the last rounding, and ocml's few steps of f32 or f64 before it;
/// composed functions cancel somewhat.
fn tolerance<T: Element>() -> f64 {
    T::EPSILON + if T::BYTES == 8 { 1e-14 } else { 2e-6 }
}

#[test]
fn unary_functions_match() {
    on_each_gpu(|gpu| {
        for_floats!(unary, gpu);
    });
}

fn copies<T: Element>(gpu: &Gpu) {
    let mut numbers = Random::new(12);
    for case in CASES {
        for operand in &case.operands {
            let source: Vec<T> = case.source(operand, &mut numbers);
            let arguments = [
                Arg::N(case.count()),
                Arg::N(case.dims.len()),
                case.info(&[operand]),
                Arg::input_from(&source, operand.start),
                Arg::output::<T>(case.count()),
            ];
            let name = format!("ucopy_{}", T::NAME);
            let found: Vec<T> = gpu.run(&UNARY, &name, grid(case.count()), BLOCK, &arguments);
            assert_same(&found, &case.gather(operand, &source), "ucopy");
        }
    }
    // copy2d, narrow and wide; f8e4m3 travels as u8.
    if T::NAME == "f8e4m3" {
        return;
    }
    for (rows, columns, from, to) in [(3, 5, 7, 6), (4, 32, 48, 64), (1, 16, 16, 16)] {
        let source: Vec<T> = values(&mut numbers, rows * from);
        let before: Vec<T> = values(&mut numbers, rows * to);
        let mut expected = before.clone();
        for row in 0..rows {
            expected[row * to..][..columns].copy_from_slice(&source[row * from..][..columns]);
        }
        let mut arguments = vec![Arg::input(&source), Arg::in_out(&before)];
        arguments.extend([rows, columns, from, to].map(|size| Arg::I(size as i32)));
        let name = format!("copy2d_{}", T::NAME);
        let found: Vec<T> = gpu.run(&FILL, &name, grid(rows * columns), BLOCK, &arguments);
        assert_same(&found, &expected, "copy2d");
    }
}

#[test]
fn copies_match() {
    on_each_gpu(|gpu| {
        for_all!(copies, gpu);
    });
}

fn const_set<T: Element>(gpu: &Gpu) {
    let value = T::of(7.0);
    let name = match T::NAME {
        "f8e4m3" => "const_set_f8_e4m3".to_string(),
        name => format!("const_set_{name}"),
    };
    for case in CASES {
        let operand = &case.operands[0];
        let before: Vec<T> = case.source(operand, &mut Random::new(13));
        let mut expected = before.clone();
        (0..case.count()).for_each(|i| expected[case.offset(operand, i)] = value);
        let arguments = [
            Arg::N(case.count()),
            Arg::N(case.dims.len()),
            case.info(&[operand]),
            Arg::element(value),
            Arg::in_out_from(&before, operand.start),
        ];
        let found: Vec<T> = gpu.run(&FILL, &name, grid(case.count()), BLOCK, &arguments);
        assert_same(&found, &expected, "const_set");
    }
}

#[test]
fn const_set_leaves_the_gaps() {
    on_each_gpu(|gpu| {
        for_all!(const_set, gpu);
    });
}

fn choose<T: Element>(gpu: &Gpu) {
    choose_by::<T, u8>(gpu);
    choose_by::<T, u32>(gpu);
    choose_by::<T, i64>(gpu);
}

fn choose_by<T: Element, C: Element>(gpu: &Gpu) {
    let mut numbers = Random::new(14);
    for case in CASES {
        let [l, r] = &case.operands;
        let (on_true, on_false): (Vec<T>, Vec<T>) =
            (case.source(l, &mut numbers), case.source(r, &mut numbers));
        let condition: Vec<C> = case
            .source::<C>(l, &mut numbers)
            .iter()
            .map(|c| C::of((c.number() as i64 % 3) as f64))
            .collect();
        let expected: Vec<T> = (0..case.count())
            .map(|i| {
                let at = case.offset(l, i);
                if condition[at].number() != 0.0 {
                    on_true[at]
                } else {
                    on_false[case.offset(r, i)]
                }
            })
            .collect();
        // Here info always comes.
        let info = [case.dims, l.strides, l.strides, r.strides].concat();
        let arguments = [
            Arg::N(case.count()),
            Arg::N(case.dims.len()),
            Arg::sizes(&info),
            Arg::input_from(&condition, l.start),
            Arg::input_from(&on_true, l.start),
            Arg::input_from(&on_false, r.start),
            Arg::output::<T>(case.count()),
        ];
        let name = format!("where_{}_{}", C::NAME, T::NAME);
        let found: Vec<T> = gpu.run(&TERNARY, &name, grid(case.count()), BLOCK, &arguments);
        assert_same(&found, &expected, "where");
    }
}

#[test]
fn where_matches() {
    on_each_gpu(|gpu| {
        for_all!(choose, gpu);
    });
}

/// The distance from a number's place among those of a type to the next, for numbers not below the smallest normal one.
struct Format {
    mantissa_bits: i32,
    least_exponent: i32,
}

impl Format {
    fn step(&self, value: f64) -> f64 {
        let exponent = (value.abs().log2().floor() as i32).max(self.least_exponent);
        2f64.powi(exponent - self.mantissa_bits)
    }
}

/// IEEE 754's pow of every number of a type: exact but for half a step and a fiftieth of one, and special cases as f64's.
fn powers<T: Element>(gpu: &Gpu, format: &Format) {
    let all: Vec<T> = (0..1u32 << (8 * T::BYTES))
        .map(|bits| T::get(&bits.to_le_bytes()[..T::BYTES]))
        .collect();
    let largest = all
        .iter()
        .map(|x| x.number())
        .filter(|x| x.is_finite())
        .fold(0.0, f64::max);
    let exponents = [
        0.0,
        -0.0,
        1.0,
        -1.0,
        2.0,
        3.0,
        -2.0,
        -3.0,
        0.5,
        -0.5,
        1.5,
        0.3333,
        2.6,
        -4.4,
        7.0,
        63.0,
        64.0,
        65.0,
        100.5,
        -131.0,
        448.0,
        1e4,
        -6e4,
        f64::INFINITY,
        f64::NEG_INFINITY,
        f64::NAN,
    ];
    for parameter in exponents.map(T::of) {
        let p = parameter.number();
        let arguments = [
            Arg::N(all.len()),
            Arg::N(1),
            Arg::Null,
            Arg::element(parameter),
            Arg::input(&all),
            Arg::output::<T>(all.len()),
        ];
        let name = format!("upowf_{}", T::NAME);
        let found: Vec<T> = gpu.run(&UNARY, &name, grid(all.len()), BLOCK, &arguments);
        for (x, found) in all.iter().zip(&found) {
            let (x, found) = (x.number(), found.number());
            let exact = x.powf(p);
            let right = if exact.is_nan() {
                found.is_nan()
            } else if T::NAME == "f8e4m3" && exact.abs() > largest {
                // It has no infinities.
                found == largest.copysign(exact)
            } else if exact == 0.0 || exact.is_infinite() {
                found == exact && found.is_sign_negative() == exact.is_sign_negative()
            } else {
                let step = format.step(exact);
                let near = 0.52 * step;
                // What is above the largest by half a step is an infinity.
                let infinite = exact.abs() > largest + (0.5 - 0.02) * format.step(largest);
                (found - exact).abs() <= near
                    && found.is_sign_negative() == exact.is_sign_negative()
                    || infinite && found == f64::INFINITY.copysign(exact)
            };
            assert!(right, "{name}({x:e}, {p}) is {found:e}, expected {exact:e}");
        }
    }
}

#[test]
fn powers_of_every_small_float_match() {
    let format = |mantissa_bits, least_exponent| Format {
        mantissa_bits,
        least_exponent,
    };
    on_each_gpu(|gpu| {
        powers::<half::f16>(gpu, &format(10, -14));
        powers::<half::bf16>(gpu, &format(7, -126));
        powers::<float8::F8E4M3>(gpu, &format(3, -6));
    });
}

//! Operators of random programs: what runs, what is true, how near it must be, and between which numbers results lie.

use std::sync::Arc;

use anyhow::{ensure, Result};
use candle_core::{DType, Tensor};

use super::super::compare::{check_against, check_floats, Nearness};
use super::super::inputs::{exact, floats, rounding};

/// An operator of one tensor or several.
pub type Operator = Arc<dyn Fn(&[Tensor]) -> candle_core::Result<Tensor> + Send + Sync>;

/// How near a result must be to the truth.
#[derive(Clone, Copy)]
pub enum Near {
    /// As [`Nearness`] has it.
    Is(Nearness),
    /// A sum of so many products, in any order: of the sum of magnitudes (the same operator on absolute values) twice as
    /// many roundings of f32, or of f64 for f64, as there are terms, since equal terms round alike and the truth is a
    /// sum too; and so many of the dtype.
    Sum { terms: usize, parts: f64 },
    /// A function of one element: two roundings of a result that is computed in f32 or f64 within a few units in the
    /// last place; where terms cancel, four roundings of a term of 4.
    Function,
}

/// An operator, ready to run on any device.
#[derive(Clone)]
pub struct Operation {
    /// With its parameters.
    pub name: String,
    operator: Operator,
    truth: Operator,
    near: Near,
}

impl Operation {
    pub fn new(
        name: impl Into<String>,
        near: Near,
        operator: impl Fn(&[Tensor]) -> candle_core::Result<Tensor> + Send + Sync + 'static,
    ) -> Self {
        let operator: Operator = Arc::new(operator);
        Self {
            name: name.into(),
            truth: operator.clone(),
            operator,
            near,
        }
    }

    /// With a truth that is not the same operator on the CPU.
    pub fn with_truth(
        self,
        truth: impl Fn(&[Tensor]) -> candle_core::Result<Tensor> + Send + Sync + 'static,
    ) -> Self {
        Self {
            truth: Arc::new(truth),
            ..self
        }
    }

    pub fn run(&self, inputs: &[Tensor]) -> candle_core::Result<Tensor> {
        (self.operator)(inputs)
    }

    /// Holds a result to the truth; all tensors are on the CPU, in the dtypes that the GPU had.
    pub fn compare(&self, inputs: &[Tensor], found: &Tensor) -> Result<()> {
        let truth = &*self.truth;
        let near = |nearness| {
            let found = |_: &[Tensor]| Ok(found.clone());
            check_against(&self.name, inputs, nearness, &found, &|numbers| {
                truth(numbers)
            })
        };
        let dtype = found.dtype();
        let once = rounding(dtype);
        let inside = if dtype == DType::F64 {
            once
        } else {
            rounding(DType::F32)
        };
        match self.near {
            Near::Is(nearness) => near(nearness),
            Near::Sum { .. } if dtype.is_int() => near(Nearness::Same),
            Near::Sum { terms, parts } => {
                let numbers = inputs.iter().map(exact).collect::<Result<Vec<_>>>()?;
                let magnitudes = numbers
                    .iter()
                    .map(Tensor::abs)
                    .collect::<candle_core::Result<Vec<_>>>()?;
                let expected = self.expected(&numbers, found)?;
                let magnitudes = self.expected(&magnitudes, found)?;
                let roundings = 64.0 + 2.0 * terms as f64;
                check_floats(&self.name, found, &expected, |i| {
                    once * expected[i].abs() + (roundings * inside + parts * once) * magnitudes[i]
                })
            }
            Near::Function => {
                let numbers = inputs.iter().map(exact).collect::<Result<Vec<_>>>()?;
                let expected = self.expected(&numbers, found)?;
                let roundings = if once == inside { 16.0 } else { 2.0 };
                check_floats(&self.name, found, &expected, |i| {
                    roundings * once * expected[i].abs() + 16.0 * inside
                })
            }
        }
    }

    /// The truth for these numbers, in the shape that was found.
    fn expected(&self, numbers: &[Tensor], found: &Tensor) -> Result<Vec<f64>> {
        let expected = (self.truth)(numbers)?;
        ensure!(
            expected.dims() == found.dims(),
            "{}: the shape is {:?}, not {:?}",
            self.name,
            found.dims(),
            expected.dims()
        );
        floats(&expected)
    }
}

/// Two numbers between which all elements of a tensor lie.
pub type Range = (f64, f64);

/// A function of one element, the ranges it takes, and the range of its results.
pub struct Unary {
    pub name: &'static str,
    pub operator: fn(&Tensor) -> candle_core::Result<Tensor>,
    pub near: Near,
    pub takes: fn(Range) -> bool,
    pub gives: fn(Range) -> Range,
}

const SAME: Near = Near::Is(Nearness::Same);
/// Away from zero, so that a quotient is not large.
pub const SMALLEST_DIVISOR: f64 = 0.2;

pub fn any(_: Range) -> bool {
    true
}

fn not_negative((lo, _): Range) -> bool {
    lo >= 0.0
}

/// Whether numbers of this range may be divided by.
pub fn divides((lo, hi): Range) -> bool {
    lo >= SMALLEST_DIVISOR || hi <= -SMALLEST_DIVISOR
}

/// The largest magnitude.
pub fn bound((lo, hi): Range) -> f64 {
    lo.abs().max(hi.abs())
}

/// The range of a function that is monotone in each of its two arguments.
pub fn corners(a: Range, b: Range, f: impl Fn(f64, f64) -> f64) -> Range {
    let all = [f(a.0, b.0), f(a.0, b.1), f(a.1, b.0), f(a.1, b.1)];
    all.into_iter()
        .fold((f64::INFINITY, f64::NEG_INFINITY), |(lo, hi), x| {
            (lo.min(x), hi.max(x))
        })
}

macro_rules! unary {
    ($name:literal, $operator:expr, $near:expr, $takes:expr, $gives:expr) => {
        Unary {
            name: $name,
            operator: $operator,
            near: $near,
            takes: $takes,
            gives: $gives,
        }
    };
}

/// Between zero (or just below) and the argument.
fn rectified((_, hi): Range) -> Range {
    (-0.2, hi.max(0.0))
}

fn magnitude((lo, hi): Range) -> Range {
    let least = if lo <= 0.0 && hi >= 0.0 {
        0.0
    } else {
        lo.abs().min(hi.abs())
    };
    (least, bound((lo, hi)))
}

pub static UNARY: [Unary; 22] = [
    unary!(
        "exp",
        Tensor::exp,
        Near::Function,
        |(_, hi)| hi <= 3.0,
        |(lo, hi)| (lo.exp(), hi.exp())
    ),
    unary!(
        "log",
        Tensor::log,
        Near::Function,
        |(lo, _)| lo >= SMALLEST_DIVISOR,
        |(lo, hi)| (lo.ln(), hi.ln())
    ),
    unary!("sin", Tensor::sin, Near::Function, any, |_| (-1.0, 1.0)),
    unary!("cos", Tensor::cos, Near::Function, any, |_| (-1.0, 1.0)),
    unary!("tanh", Tensor::tanh, Near::Function, any, |_| (-1.0, 1.0)),
    unary!("neg", Tensor::neg, SAME, any, |(lo, hi)| (-hi, -lo)),
    unary!("recip", Tensor::recip, Near::Function, divides, |(
        lo,
        hi,
    )| (
        1.0 / hi,
        1.0 / lo
    )),
    unary!("sqr", Tensor::sqr, Near::Function, any, |range| (
        0.0,
        bound(range) * bound(range)
    )),
    unary!("sqrt", Tensor::sqrt, Near::Function, not_negative, |(
        lo,
        hi,
    )| (
        lo.sqrt(),
        hi.sqrt()
    )),
    unary!("gelu", Tensor::gelu, Near::Function, any, rectified),
    unary!("gelu_erf", Tensor::gelu_erf, Near::Function, any, rectified),
    unary!("erf", Tensor::erf, Near::Function, any, |_| (-1.0, 1.0)),
    unary!("silu", Tensor::silu, Near::Function, any, |(_, hi)| (
        -0.3,
        hi.max(0.0)
    )),
    unary!("relu", Tensor::relu, SAME, any, |(lo, hi)| (
        lo.max(0.0),
        hi.max(0.0)
    )),
    unary!("abs", Tensor::abs, SAME, any, magnitude),
    unary!("ceil", Tensor::ceil, SAME, any, |(lo, hi)| (
        lo.ceil(),
        hi.ceil()
    )),
    unary!("floor", Tensor::floor, SAME, any, |(lo, hi)| (
        lo.floor(),
        hi.floor()
    )),
    unary!("round", Tensor::round, SAME, any, |(lo, hi)| (
        lo.round(),
        hi.round()
    )),
    unary!("sign", Tensor::sign, SAME, any, |_| (-1.0, 1.0)),
    unary!(
        "sigmoid",
        candle_nn::ops::sigmoid,
        Near::Function,
        any,
        |_| (0.0, 1.0)
    ),
    unary!("elu", |x| x.elu(0.5), Near::Function, any, |(_, hi)| (
        -0.5,
        hi.max(0.0)
    )),
    unary!(
        "powf",
        |x| x.powf(1.5),
        Near::Function,
        not_negative,
        |(lo, hi)| (lo.powf(1.5), hi.powf(1.5))
    ),
];

/// An operator of two tensors whose shapes are broadcast.
pub struct Binary {
    pub name: &'static str,
    pub operator: fn(&Tensor, &Tensor) -> candle_core::Result<Tensor>,
    pub near: Near,
    /// Whether integers have it too.
    pub integers: bool,
    pub takes: fn(Range, Range) -> bool,
    pub gives: fn(Range, Range) -> Range,
}

const ROUNDED: Near = Near::Is(Nearness::Smooth(2.0));

macro_rules! binary {
    ($name:ident, $near:expr, $integers:literal, $takes:expr, $gives:expr) => {
        Binary {
            name: stringify!($name),
            operator: |a, b| a.$name(b),
            near: $near,
            integers: $integers,
            takes: $takes,
            gives: $gives,
        }
    };
}

fn both(_: Range, _: Range) -> bool {
    true
}

pub static BINARY: [Binary; 6] = [
    binary!(broadcast_add, ROUNDED, true, both, |a, b| (
        a.0 + b.0,
        a.1 + b.1
    )),
    binary!(broadcast_sub, ROUNDED, true, both, |a, b| (
        a.0 - b.1,
        a.1 - b.0
    )),
    binary!(broadcast_mul, ROUNDED, true, both, |a, b| corners(
        a,
        b,
        |x, y| x * y
    )),
    binary!(broadcast_div, ROUNDED, false, |_, b| divides(b), |a, b| {
        corners(a, b, |x, y| x / y)
    }),
    binary!(broadcast_minimum, SAME, true, both, |a, b| (
        a.0.min(b.0),
        a.1.min(b.1)
    )),
    binary!(broadcast_maximum, SAME, true, both, |a, b| (
        a.0.max(b.0),
        a.1.max(b.1)
    )),
];

/// Comparisons give 0 or 1 in `u8`.
pub static COMPARISONS: [Binary; 6] = [
    binary!(broadcast_eq, SAME, true, both, |_, _| (0.0, 1.0)),
    binary!(broadcast_ne, SAME, true, both, |_, _| (0.0, 1.0)),
    binary!(broadcast_lt, SAME, true, both, |_, _| (0.0, 1.0)),
    binary!(broadcast_le, SAME, true, both, |_, _| (0.0, 1.0)),
    binary!(broadcast_gt, SAME, true, both, |_, _| (0.0, 1.0)),
    binary!(broadcast_ge, SAME, true, both, |_, _| (0.0, 1.0)),
];

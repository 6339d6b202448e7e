//! Elements by themselves.

use candle_core::{DType, Tensor};
use parity::numbers::{Numbers, INTEGERS, WIDE_FLOATS};

use crate::results::ladder::{any, indices, small, Kind, Ladders, Operator};
use crate::results::lawful::TRANSCENDENTAL;
use parity::case::Input;

/// More elements than workgroups of one launch take at once, and no multiple of anything.
const TOP: usize = 65_539;

const EXACT: Kind = Kind {
    top: TOP,
    least: 1,
    lawful: None,
    // Moved, or computed exactly and rounded once.
    tolerance: Some([0., 0., 0.]),
};

/// A function within a few units in the last place, of f32 on the way to f16 and bf16.
const FUNCTION: Kind = Kind {
    lawful: Some(TRANSCENDENTAL),
    tolerance: Some([8., 2., 0.]),
    ..EXACT
};

fn positive(dtype: DType, size: usize) -> candle_core::Result<Input> {
    let numbers = Numbers::any(dtype, 21, size).positive().without_zeros();
    Ok(Input::Number(numbers.tensor(dtype, &[size])?))
}

pub(super) fn unary(ladders: &mut Ladders) {
    for dtype in WIDE_FLOATS {
        let mut add = |name: &str, kind: Kind, run: fn(&Tensor) -> candle_core::Result<Tensor>| {
            let name = format!("{name} {}", dtype.as_str());
            ladders.add(
                kind,
                name,
                move |size| Ok(vec![positive(dtype, size)?]),
                move |x| run(&x[0]),
            );
        };
        add("exp", FUNCTION, Tensor::exp);
        add("log", FUNCTION, Tensor::log);
        add("sin", FUNCTION, Tensor::sin);
        add("tanh", FUNCTION, Tensor::tanh);
        add("gelu", FUNCTION, Tensor::gelu_erf);
        add("silu", FUNCTION, Tensor::silu);
        add("sqrt", FUNCTION, Tensor::sqrt);
        add("sqr", EXACT, Tensor::sqr);
        add("floor", EXACT, Tensor::floor);
        add("relu, a tail", EXACT, |x| {
            x.narrow(0, x.elem_count() / 2, x.elem_count() - x.elem_count() / 2)?
                .relu()
        });
    }
}

/// Two operands: a matrix of about `size` elements, and one that is laid out otherwise.
fn pair(ladders: &mut Ladders, kind: Kind, name: String, dtype: DType, run: impl Operator) {
    let inputs = move |size: usize| Ok(vec![small(dtype, 1, &[size])?, small(dtype, 2, &[size])?]);
    ladders.add(kind, name, inputs, run);
}

pub(super) fn binary(ladders: &mut Ladders) {
    for dtype in WIDE_FLOATS.into_iter().chain(INTEGERS) {
        let of = |name: &str| format!("{name} {}", dtype.as_str());
        pair(ladders, EXACT, of("add"), dtype, |x| &x[0] + &x[1]);
        pair(ladders, EXACT, of("mul"), dtype, |x| &x[0] * &x[1]);
        pair(ladders, EXACT, of("maximum"), dtype, |x| {
            x[0].maximum(&x[1])
        });
        // A row of seven to each of so many rows.
        let inputs = move |size: usize| {
            Ok(vec![
                small(dtype, 1, &[size.div_ceil(7), 7])?,
                small(dtype, 2, &[7])?,
            ])
        };
        ladders.add(EXACT, of("sub, a row"), inputs, |x| {
            x[0].broadcast_sub(&x[1])
        });
        let inputs = move |size: usize| {
            let rows = size.div_ceil(31);
            Ok(vec![
                small(dtype, 1, &[rows, 31])?,
                small(dtype, 2, &[31, rows])?,
            ])
        };
        ladders.add(EXACT, of("add, transposed"), inputs, |x| {
            &x[0] + x[1].t()?
        });
    }
    for dtype in WIDE_FLOATS {
        // A quotient of f16 and bf16 may be the second nearest.
        let kind = Kind {
            lawful: Some(TRANSCENDENTAL),
            tolerance: Some([2., 0., 0.]),
            ..EXACT
        };
        let inputs = move |size| Ok(vec![any(dtype, 1, &[size])?, positive(dtype, size)?]);
        ladders.add(kind, format!("div {}", dtype.as_str()), inputs, |x| {
            &x[0] / &x[1]
        });
    }
    for dtype in [DType::F32, DType::F16, DType::I64, DType::U8] {
        pair(
            ladders,
            EXACT,
            format!("lt {}", dtype.as_str()),
            dtype,
            |x| x[0].lt(&x[1]),
        );
    }
}

/// Small integers, which all dtypes hold, from each dtype to each other but 8-bit floats, whose conversions on the CPU do
/// not end for some numbers.
pub(super) fn cast(ladders: &mut Ladders) {
    let all: Vec<DType> = WIDE_FLOATS
        .into_iter()
        .chain([DType::U8, DType::U32, DType::I64])
        .collect();
    let few = Kind { top: 4099, ..EXACT };
    for &from in &all {
        for &to in all.iter().filter(|to| **to != from) {
            let name = format!("{} to {}", from.as_str(), to.as_str());
            let inputs = move |size| {
                let numbers = Numbers::ties(DType::U8, 3, size);
                Ok(vec![Input::Fixed(numbers.tensor(from, &[size])?)])
            };
            ladders.add(few, name, inputs, move |x| x[0].to_dtype(to));
        }
    }
    for (from, to) in [
        (DType::F32, DType::F16),
        (DType::F32, DType::BF16),
        (DType::F64, DType::F32),
        (DType::F32, DType::F8E4M3),
        (DType::F8E4M3, DType::F32),
    ] {
        let name = format!("{} to {}, rounded", from.as_str(), to.as_str());
        let inputs = move |size| Ok(vec![any(from, 4, &[size])?]);
        // The numbers themselves, which are rounded to the result's dtype where they are compared.
        let truth: fn(&[Tensor]) -> candle_core::Result<Tensor> = |x| Ok(x[0].clone());
        ladders.add_with(EXACT, name, inputs, move |x| x[0].to_dtype(to), Some(truth));
    }
}

pub(super) fn affine(ladders: &mut Ladders) {
    for dtype in WIDE_FLOATS {
        // Of small integers: exact, in whatever order it is rounded.
        ladders.add(
            EXACT,
            dtype.as_str(),
            move |size| Ok(vec![small(dtype, 5, &[size])?]),
            |x| x[0].affine(1.5, -0.25),
        );
    }
}

pub(super) fn ternary(ladders: &mut Ladders) {
    for dtype in WIDE_FLOATS.into_iter().chain(INTEGERS) {
        let inputs = move |size: usize| {
            Ok(vec![
                indices(2, 6, &[size])?,
                any(dtype, 7, &[size])?,
                any(dtype, 8, &[size])?,
            ])
        };
        ladders.add(EXACT, dtype.as_str(), inputs, |x| {
            x[0].where_cond(&x[1], &x[2])
        });
    }
}

pub(super) fn fill(ladders: &mut Ladders) {
    for dtype in WIDE_FLOATS.into_iter().chain(INTEGERS) {
        let inputs = move |size: usize| Ok(vec![any(dtype, 9, &[size])?]);
        // What lies around the part that is filled must stay.
        ladders.add(EXACT, dtype.as_str(), inputs, |x| {
            let all = x[0].copy()?;
            let count = all.elem_count();
            all.narrow(0, count / 3, count - count / 3)?.one_set()?;
            Ok(all)
        });
    }
}

pub(super) fn copy(ladders: &mut Ladders) {
    for dtype in [DType::F64, DType::F32, DType::F16, DType::U8] {
        let inputs = move |size: usize| Ok(vec![any(dtype, 10, &[size.div_ceil(65), 5, 13])?]);
        let of = |name: &str| format!("{name} {}", dtype.as_str());
        ladders.add(EXACT, of("transposed"), inputs, |x| {
            x[0].transpose(0, 2)?.contiguous()
        });
        ladders.add(EXACT, of("rows and columns turned"), inputs, |x| {
            x[0].flatten_from(1)?.t()?.contiguous()
        });
        ladders.add(EXACT, of("joined"), inputs, |x| {
            Tensor::cat(&[&x[0], &x[0]], 1)
        });
    }
}

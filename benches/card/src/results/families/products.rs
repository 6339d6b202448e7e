//! Products of matrices: of small integers, whose sums are exact in whatever order and unit they are added, so that a GPU
//! has no other bits.

use candle_core::{DType, Result, Tensor};
use candle_rocm_backend::fp8::{self, ScaleFormat};
use candle_rocm_backend::grouped::{self, RowGroups};
use parity::numbers::WIDE_FLOATS;

use crate::results::ladder::{any, fixed, small, Kind, Ladders};
use crate::results::lawful::MATRIX_UNIT;

const EXACT: Kind = Kind {
    top: 391,
    least: 1,
    lawful: None,
    tolerance: Some([0., 0., 0.]),
};

type Product = fn(&Tensor, &Tensor) -> Result<Tensor>;

/// Of (m, k) and (k, n), each stored so or transposed.
const LAYOUTS: [(&str, [bool; 2], Product); 4] = [
    ("nn", [false, false], |a, b| a.matmul(b)),
    ("nt", [false, true], |a, b| a.matmul(&b.t()?)),
    ("tn", [true, false], |a, b| a.t()?.matmul(b)),
    ("tt", [true, true], |a, b| a.t()?.matmul(&b.t()?)),
];

fn dims([rows, columns]: [usize; 2], transposed: bool) -> [usize; 2] {
    if transposed {
        [columns, rows]
    } else {
        [rows, columns]
    }
}

pub(super) fn matmul(ladders: &mut Ladders) {
    for dtype in WIDE_FLOATS {
        for (layout, [left, right], product) in LAYOUTS {
            // Neither square nor a multiple of a tile.
            let inputs = move |size: usize| {
                let [m, n, k] = [size, size.div_ceil(2) + 3, size.div_ceil(3) + 5];
                Ok(vec![
                    small(dtype, 31, &dims([m, k], left))?,
                    small(dtype, 32, &dims([k, n], right))?,
                ])
            };
            let name = format!("{layout} {}", dtype.as_str());
            ladders.add(EXACT, name, inputs, move |x| product(&x[0], &x[1]));
        }
        let inputs = move |size: usize| {
            Ok(vec![
                small(dtype, 33, &[3, size.min(97), 40])?,
                small(dtype, 34, &[3, 40, 33])?,
            ])
        };
        ladders.add(
            Kind { top: 97, ..EXACT },
            format!("batch {}", dtype.as_str()),
            inputs,
            |x| x[0].matmul(&x[1]),
        );
    }
}

pub(super) fn skinny(ladders: &mut Ladders) {
    for dtype in WIDE_FLOATS {
        for rows in [1, 2, 5, 16] {
            // As a layer of a decoded token: (rows, k) by the transpose of (n, k); k is a multiple of 8, as models have it.
            let inputs = move |size: usize| {
                let k = 8 * size;
                Ok(vec![
                    small(dtype, 35, &[rows, k])?,
                    small(dtype, 36, &[size + 2, k])?,
                ])
            };
            let name = format!("{rows} rows {}", dtype.as_str());
            ladders.add(Kind { top: 257, ..EXACT }, name, inputs, |x| {
                x[0].matmul(&x[1].t()?)
            });
        }
    }
}

/// Sizes of groups: one of none, one of few.
fn groups(rows: usize) -> [usize; 3] {
    [rows, 0, rows / 3 + 1]
}

/// Rows filled up to where the next group begins.
fn aligned(rows: usize) -> usize {
    rows.div_ceil(RowGroups::ALIGNMENT) * RowGroups::ALIGNMENT
}

pub(super) fn grouped(ladders: &mut Ladders) {
    let rows_of = |size: usize| -> usize { groups(size).into_iter().map(aligned).sum() };
    // The sizes' own tensor says the size to what runs.
    let inputs = move |size: usize| {
        let sizes = Tensor::zeros(size, DType::U8, &candle_core::Device::Cpu)?;
        Ok(vec![
            parity::case::Input::Fixed(
                small(DType::BF16, 37, &[rows_of(size), 64])?
                    .tensor()
                    .clone(),
            ),
            parity::case::Input::Fixed(small(DType::BF16, 38, &[3, 48, 64])?.tensor().clone()),
            parity::case::Input::Fixed(sizes),
        ])
    };
    ladders.add(Kind { top: 131, ..EXACT }, "bf16", inputs, |x| {
        let sizes = RowGroups::from_sizes(&groups(x[2].elem_count()), x[0].device())?;
        let all = grouped::m_grouped_gemm_nt_contiguous(&x[0], &x[1], &sizes)?;
        // What stands between the groups' rows is undefined.
        let [first, _, last] = groups(x[2].elem_count());
        let [first, last] =
            [(0, first), (aligned(first), last)].map(|(at, rows)| all.narrow(0, at, rows));
        Tensor::cat(&[first?, last?], 0)
    });
}

pub(super) fn fp8(ladders: &mut Ladders) {
    // A factor is a quotient, and an element the nearest of FP8: what lies between two may be either.
    for (name, format) in [
        ("f32 factors", ScaleFormat::F32),
        ("powers of two", ScaleFormat::PowersOfTwo),
    ] {
        for dtype in [DType::F32, DType::BF16] {
            let kind = Kind {
                top: 257,
                tolerance: Some([32., 0., 0.]),
                lawful: Some(crate::results::lawful::TRANSCENDENTAL),
                ..EXACT
            };
            let inputs = move |size: usize| Ok(vec![fixed(dtype, 39, &[3, size])?]);
            let name = format!("cast {}, {name}", dtype.as_str());
            ladders.add(kind, name, inputs, move |x| {
                fp8::cast_per_token(&x[0], format)?.dequantize(DType::F32)
            });
        }
    }
    // Small integers and factors of powers of two: exact but for the last rounding, if the unit adds exactly.
    let kind = Kind {
        top: 193,
        lawful: Some(MATRIX_UNIT),
        tolerance: Some([2., 1., 16.]),
        ..EXACT
    };
    let inputs = move |size: usize| {
        let of = |seed, dims: [usize; 2]| -> Result<_> {
            Ok(parity::case::Input::Fixed(
                any(DType::BF16, seed, &dims)?.tensor().clone(),
            ))
        };
        Ok(vec![of(40, [size, 256])?, of(41, [size / 2 + 16, 256])?])
    };
    ladders.add(kind, "product", inputs, |x| {
        let a = fp8::cast_per_token(&x[0], ScaleFormat::PowersOfTwo)?;
        let b = fp8::cast_per_block(&x[1], ScaleFormat::PowersOfTwo)?;
        fp8::gemm_nt(&a, &b, None, DType::BF16)
    });
}

//! Conversions between all pairs of dtypes.

use candle_core::{DType, Device, Result, Tensor};

use super::{input, name, List, LAYOUTS, LONG};
use crate::numbers::{all_dtypes, float_of_eight_bits, Numbers, WIDE_FLOATS};
use crate::recording::Array;

/// Rust's `as` from f64 to the integers of a dtype: towards zero, saturating, NaN to 0.
fn towards_zero(number: f64, to: DType) -> i64 {
    match to {
        DType::U8 => i64::from(number as u8),
        DType::U32 => i64::from(number as u32),
        DType::I16 => i64::from(number as i16),
        DType::I32 => i64::from(number as i32),
        _ => number as i64,
    }
}

/// The conversion's definition, on the widened numbers.
fn definition(x: &Tensor, to: DType) -> Result<Tensor> {
    let numbers = Array::of(x)?.numbers();
    let numbers = match numbers {
        Numbers::Floats(all) if to.is_int() => {
            Numbers::Integers(all.iter().map(|&x| towards_zero(x, to)).collect())
        }
        // One rounding: not by way of f64.
        Numbers::Integers(all) if to == DType::F32 => {
            Numbers::Floats(all.iter().map(|&x| f64::from(x as f32)).collect())
        }
        Numbers::Integers(all) if to.is_float() => {
            Numbers::Floats(all.iter().map(|&x| x as f64).collect())
        }
        same => same,
    };
    let wide = if to.is_int() { DType::I64 } else { DType::F64 };
    numbers.held(to).tensor(wide, x.dims())
}

fn refused_by_the_host(from: DType, to: DType) -> bool {
    matches!(to, DType::I16 | DType::I32) && to != from
}

pub(super) fn add(list: &mut List) -> Result<()> {
    for from in all_dtypes() {
        for to in all_dtypes().filter(|&to| !refused_by_the_host(from, to)) {
            let any = Numbers::any(from, 31, LONG);
            // Numbers that are in the range of what they become; the others are below.
            let numbers = match (from.is_int(), to.is_int()) {
                (false, true) if to == DType::I64 => any,
                (false, true) => Numbers::between(0.0, 250.0, 32, LONG),
                _ => any,
            };
            let inputs = vec![input(&numbers, from, &[LONG])?];
            for (layout, make) in [LAYOUTS[0], LAYOUTS[1], LAYOUTS[2], LAYOUTS[3]] {
                let what = format!("{} to {}, {layout}", name(from), name(to));
                let case = list.add("to_dtype", what, inputs.clone(), move |x| {
                    make(&x[0])?.to_dtype(to)
                });
                case.truth_by(move |x| definition(&make(&x[0])?, to));
            }
        }
    }
    special(list)
}

/// Ties, denormals, infinities, NaN, and what is too large.
fn special(list: &mut List) -> Result<()> {
    let steps = [-11, -8, -24, -4].map(|power| 2f64.powi(power));
    let mut all: Vec<f64> = steps
        .iter()
        .flat_map(|s| [1.0 + s, 1.0 + 3.0 * s])
        .collect();
    all.extend([
        0.0, 447.0, 448.0, 464.0, 480.0, 65_504.0, 65_519.0, 65_520.0,
    ]);
    all.extend([2f64.powi(-24), 2f64.powi(-25), 1.5 * 2f64.powi(-24)]);
    all.extend([2f64.powi(-10), 3.0 * 2f64.powi(-11), 1e-30, 1e-45, 1e-310]);
    all.extend([127.5, 128.5, 254.9, 70_000.0, 1e30, 1e39, 1e300]);
    all.extend([f64::INFINITY, f64::NAN]);
    let too_large: Vec<f64> = vec![
        -0.5,
        -1.0,
        -3.7,
        255.5,
        256.0,
        300.0,
        -300.0,
        2_147_483_648.0,
        4_294_967_296.0,
        -4_294_967_296.0,
        9.3e18,
        -9.3e18,
        1.9e19,
        f64::INFINITY,
        f64::NEG_INFINITY,
        f64::NAN,
    ];
    all.extend(all.clone().into_iter().map(|number| -number));
    for from in WIDE_FLOATS {
        let inputs = vec![input(&Numbers::Floats(all.clone()), from, &[all.len()])?];
        for to in crate::numbers::FLOATS {
            let what = format!("{} to {}, special", name(from), name(to));
            list.add("to_dtype", what, inputs.clone(), move |x| x[0].to_dtype(to))
                .truth_by(move |x| definition(&x[0], to));
        }
        let count = too_large.len();
        let inputs = vec![input(&Numbers::Floats(too_large.clone()), from, &[count])?];
        for to in [DType::U8, DType::U32, DType::I64] {
            let what = format!("{} to {}, out of range", name(from), name(to));
            list.add("to_dtype", what, inputs.clone(), move |x| x[0].to_dtype(to))
                .truth_by(move |x| definition(&x[0], to));
        }
    }
    let every: Vec<f64> = (0..=255).map(float_of_eight_bits).collect();
    let every = Numbers::Floats(every);
    for to in crate::numbers::FLOATS {
        let what = format!("every {} to {}", name(DType::F8E4M3), name(to));
        let inputs = vec![input(&every, DType::F8E4M3, &[256])?];
        list.add("to_dtype", what, inputs, move |x| x[0].to_dtype(to))
            .truth_by(move |x| definition(&x[0], to));
    }
    // To the device and back.
    for dtype in all_dtypes() {
        let inputs = vec![super::any(dtype, 33, &[LONG])?];
        list.add("to_device", name(dtype), inputs, |x| {
            let device = x[0].device().clone();
            x[0].to_device(&Device::Cpu)?.to_device(&device)
        });
    }
    Ok(())
}

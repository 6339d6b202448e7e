//! Beside `floats.cu`.

use half::{bf16, f16};

use super::integers::directed;
use super::reference::Reference::*;
use super::reference::{word, Program, Words};

fn half(bits: u32) -> f16 {
    f16::from_bits(bits as u16)
}

fn bfloat(bits: u32) -> bf16 {
    bf16::from_bits(bits as u16)
}

/// The bits of an f16, of NaN always the same.
pub fn half_word(x: f16) -> u32 {
    if x.is_nan() {
        0x7fff
    } else {
        x.to_bits().into()
    }
}

fn bfloat_word(x: bf16) -> u32 {
    if x.is_nan() {
        0x7fff
    } else {
        x.to_bits().into()
    }
}

fn of_half(x: f32) -> u32 {
    half_word(f16::from_f32(x))
}

fn of_bfloat(x: f32) -> u32 {
    bfloat_word(bf16::from_f32(x))
}

/// Two words to one.
fn both(low: u32, high: u32) -> u32 {
    low | high << 16
}

fn arithmetic(a: f32, b: f32, narrow: fn(f32) -> u32) -> Words {
    [narrow(a + b), narrow(a - b), narrow(a * b), narrow(a / b)]
}

fn extremes(a: f32, b: f32, narrow: fn(f32) -> u32) -> Words {
    let least = if a.is_nan() || b.is_nan() {
        f32::NAN
    } else {
        a.min(b)
    };
    // Zeros of both signs are equal, and either may be the larger: the bits say which.
    let most = if a == 0.0 && b == 0.0 {
        if a.is_sign_positive() {
            a
        } else {
            b
        }
    } else {
        a.max(b)
    };
    let least = if a == 0.0 && b == 0.0 {
        if a.is_sign_negative() {
            a
        } else {
            b
        }
    } else {
        least
    };
    [narrow(most), narrow(least), narrow(a.abs()), narrow(-b)]
}

fn comparisons(a: f32, b: f32) -> Words {
    let bits = |all: [bool; 6]| {
        (0..)
            .zip(all)
            .map(|(at, holds)| u32::from(holds) << at)
            .sum()
    };
    let apart = a.is_nan() || b.is_nan();
    let unordered = [a == b, a != b, a < b, a <= b, a > b, a >= b].map(|holds| holds || apart);
    let more =
        u32::from(a.is_nan()) | u32::from(a.is_infinite()) << 1 | u32::from(a != b && !apart) << 2;
    [
        bits([a == b, a != b, a < b, a <= b, a > b, a >= b]),
        bits(unordered),
        more,
        0,
    ]
}

/// Towards zero.
fn cut_half(x: f32) -> u32 {
    let near = f16::from_f32(x);
    if x.is_nan() || near.to_f32().abs() <= x.abs() {
        return half_word(near);
    }
    u32::from(near.to_bits() - 1)
}

/// The nearest bf16, ties to even.
fn nearest_bfloat(x: f64) -> u32 {
    let cut = directed(x, x < 0.0).to_bits() >> 16;
    let value = |bits: u32| f64::from(f32::from_bits(bits << 16));
    let (below, above) = ((x - value(cut)).abs(), (value(cut + 1) - x).abs());
    match below.total_cmp(&above) {
        std::cmp::Ordering::Less => cut,
        std::cmp::Ordering::Equal => cut + (cut & 1),
        std::cmp::Ordering::Greater => cut + 1,
    }
}

/// What an 8-bit float is worth: so many bits of mantissa; the largest is the format's last number.
fn fp8_value(bits: u32, mantissa: i32) -> f64 {
    let bias = if mantissa == 3 { 7 } else { 15 };
    let exponent = (bits & 0x7f) as i32 >> mantissa;
    let fraction = f64::from(bits & ((1 << mantissa) - 1)) / f64::from(1 << mantissa);
    let size = match exponent {
        0 => fraction * f64::powi(2.0, 1 - bias),
        _ => (1.0 + fraction) * f64::powi(2.0, exponent - bias),
    };
    if bits & 0x80 == 0 {
        size
    } else {
        -size
    }
}

/// The nearest of the numbers up to `largest`, ties to even.
fn fp8(x: f64, mantissa: i32, largest: u32) -> u32 {
    if x.is_nan() {
        return 0x7f;
    }
    let sign = u32::from(x.is_sign_negative()) << 7;
    // Far beyond the largest all are as far; so near beyond it is one of them the nearest.
    let size = x.abs().min(1e6);
    let nearest = (0..=largest).min_by(|a, b| {
        let far = |bits: u32| (fp8_value(bits, mantissa) - size).abs();
        far(*a).total_cmp(&far(*b)).then((a & 1).cmp(&(b & 1)))
    });
    nearest.unwrap_or(0) | sign
}

fn float_argument(w: Words) -> f32 {
    (w[0] % 4096) as f32 / 512.0 + 0.125
}

pub const PROGRAMS: &[Program] = &[
    (
        "half_arithmetic",
        Thread(|w| arithmetic(half(w[0]).to_f32(), half(w[1]).to_f32(), of_half)),
    ),
    (
        "bfloat_arithmetic",
        Thread(|w| arithmetic(bfloat(w[0]).to_f32(), bfloat(w[1]).to_f32(), of_bfloat)),
    ),
    (
        "half_extremes",
        Thread(|w| extremes(half(w[0]).to_f32(), half(w[1]).to_f32(), of_half)),
    ),
    (
        "bfloat_extremes",
        Thread(|w| extremes(bfloat(w[0]).to_f32(), bfloat(w[1]).to_f32(), of_bfloat)),
    ),
    (
        "half_comparisons",
        Thread(|w| comparisons(half(w[0]).to_f32(), half(w[1]).to_f32())),
    ),
    (
        "bfloat_comparisons",
        Thread(|w| comparisons(bfloat(w[0]).to_f32(), bfloat(w[1]).to_f32())),
    ),
    (
        "half_fma",
        Thread(|w| {
            let [a, b, c, _] = w.map(|bits| half(bits).to_f64());
            [half_word(f16::from_f64(a.mul_add(b, c))), 0, 0, 0]
        }),
    ),
    (
        "half_conversions",
        Thread(|w| {
            let x = f32::from_bits(w[0]);
            let wide = f64::from_bits(u64::from(w[2]) << 32 | u64::from(w[3]));
            [
                of_half(x),
                cut_half(x),
                word(half(w[1]).to_f32()),
                half_word(f16::from_f64(wide)),
            ]
        }),
    ),
    (
        "half_integers",
        Thread(|w| {
            [
                of_half((w[0] as i32 >> 12) as f32),
                half(w[1]).to_f32().round_ties_even() as i32 as u32,
                (half(w[2]).to_f32() as u8).into(),
                of_half((w[3] as i32 >> 20) as f32),
            ]
        }),
    ),
    (
        "bfloat_conversions",
        Thread(|w| {
            let x = f32::from_bits(w[0]);
            let cut = if x.is_nan() { 0x7fff } else { w[0] >> 16 };
            [
                of_bfloat(x),
                cut,
                word(bfloat(w[1]).to_f32()),
                nearest_bfloat((w[2] as i32).into()),
            ]
        }),
    ),
    (
        "half_pairs",
        Thread(|w| {
            let [a, b, ..] = w;
            let each = |of: fn(f32, f32) -> f32| {
                let part = |by: u32| of_half(of(half(a >> by).to_f32(), half(b >> by).to_f32()));
                both(part(0), part(16))
            };
            let turned = both(half_word(half(a >> 16)), half_word(half(a)));
            let floats = word(half(a).to_f32()) ^ word(half(b >> 16).to_f32());
            [each(|a, b| a + b), each(|a, b| a * b), turned, floats]
        }),
    ),
    (
        "bfloat_pairs",
        Thread(|w| {
            let [a, b, ..] = w;
            let each = |of: fn(f32, f32) -> f32| {
                let part =
                    |by: u32| of_bfloat(of(bfloat(a >> by).to_f32(), bfloat(b >> by).to_f32()));
                both(part(0), part(16))
            };
            let numbers = !bfloat(a).is_nan() && !bfloat(a >> 16).is_nan();
            [
                each(|a, b| a - b),
                each(|a, b| a * b),
                numbers.into(),
                bfloat_word(bfloat(b >> 16)),
            ]
        }),
    ),
    (
        "half_functions",
        Near(1.0 / 1024.0, |w| {
            let x = f16::from_f32(float_argument(w)).to_f64();
            [(-x).exp(), x.ln(), x.sqrt(), 1.0 / x]
        }),
    ),
    (
        "bfloat_functions",
        Near(1.0 / 128.0, |w| {
            let x = bf16::from_f32(float_argument(w)).to_f64();
            [x.cos(), x.log2(), 1.0 / x.sqrt(), x.floor()]
        }),
    ),
    (
        "float_functions",
        Near(1e-5, |w| {
            let x = f64::from(float_argument(w));
            [(-x).exp(), x.tanh(), libm::erf(x), 1.0 / x.sqrt()]
        }),
    ),
    (
        "complex_numbers",
        Near(1e-6, |w| {
            let [a, b, c, d] = w.map(|word| f64::from(word % 64));
            let (b, c) = (-b, c + 1.0);
            let real = a * c - b * d + (2.0 * a - c);
            let imaginary = a * d + b * c - (2.0 * b - d);
            [real, imaginary, a - 2.0 * b, a.hypot(b)]
        }),
    ),
    (
        "fp8_e4m3",
        Thread(|w| {
            let value = |bits: u32| match bits & 0x7f {
                0x7f => f32::NAN,
                _ => fp8_value(bits & 0xff, 3) as f32,
            };
            let x = fp8(f32::from_bits(w[0]).into(), 3, 0x7e);
            let wide = f64::from(w[2] as i32) / 1_048_576.0;
            [x, word(value(x)), word(value(w[1])), fp8(wide, 3, 0x7e)]
        }),
    ),
    (
        "fp8_e5m2",
        Thread(|w| {
            let value = match w[1] & 0x7f {
                0x7c => f32::INFINITY.copysign(-f32::from((w[1] & 0x80) as u8) + 0.5),
                0x7d.. => f32::NAN,
                _ => fp8_value(w[1] & 0xff, 2) as f32,
            };
            [
                fp8(f32::from_bits(w[0]).into(), 2, 0x7b),
                word(value),
                fp8(f32::from_bits(w[2]).into(), 2, 0x7c),
                0,
            ]
        }),
    ),
    (
        "constants",
        Thread(|_| {
            [
                0x7f80_0000,
                std::f32::consts::PI.to_bits(),
                0x7ff0_0000,
                0x7f80_3c00,
            ]
        }),
    ),
];

//! The steps of IEEE division: scale, multiply-add with unscaling, fix up.

use super::double::ldexp;
use super::rows::{operations, Table};
use super::single::quiet;
use crate::exec::valu::kernel::entry;
use crate::exec::valu::soft;
use crate::exec::valu::value::F16;

#[inline(always)]
fn exponent(value: f32) -> i32 {
    (value.to_bits() >> 23 & 0xff) as i32
}

#[inline(always)]
fn exponent_f64(value: f64) -> i32 {
    (value.to_bits() >> 52 & 0x7ff) as i32
}

#[inline(always)]
fn is_denormal(value: f32) -> bool {
    (value != 0.0) & (exponent(value) == 0)
}

#[inline(always)]
fn is_denormal_f64(value: f64) -> bool {
    (value != 0.0) & (exponent_f64(value) == 0)
}

#[inline(always)]
fn scale_up(value: f32) -> f32 {
    value * f32::from_bits((127 + 64) << 23)
}

#[inline(always)]
fn scale_down(value: f32) -> f32 {
    value * f32::from_bits((127 - 64) << 23)
}

/// Prescale the numerator or denominator (`value`) of numerator / denominator so that the reciprocal
/// iteration neither overflows nor meets denormals; the flag tells `v_div_fmas` to scale the quotient back.
/// The conditions and their order are the manual's, but where both the reciprocal and the quotient are
/// denormal the denominator is scaled down: the manual prints a scaling up, which would overflow, and
/// `v_div_fmas` scales down. Hardware tells a denormal quotient by the exponents alone, so that it may be the smallest
/// normal ones too, and sets the flag where either number is zero.
#[inline(always)]
fn div_scale(value: f32, denominator: f32, numerator: f32) -> (f32, bool) {
    let difference = exponent(numerator) - exponent(denominator);
    let is_denominator = value.to_bits() == denominator.to_bits();
    let is_numerator = value.to_bits() == numerator.to_bits();
    let reciprocal_is_tiny = is_denormal((1.0 / denominator as f64) as f32);
    let quotient_is_tiny = difference <= -126;
    if (denominator == 0.0) | (numerator == 0.0) {
        (f32::NAN, true)
    } else if difference >= 96 {
        // The quotient is near overflow: only the denominator is scaled.
        (
            if is_denominator {
                scale_up(value)
            } else {
                value
            },
            true,
        )
    } else if is_denormal(denominator) {
        (scale_up(value), false)
    } else if reciprocal_is_tiny & quotient_is_tiny {
        (
            if is_denominator {
                scale_down(value)
            } else {
                value
            },
            true,
        )
    } else if reciprocal_is_tiny {
        (scale_down(value), false)
    } else if quotient_is_tiny {
        (if is_numerator { scale_up(value) } else { value }, true)
    } else if exponent(numerator) <= 23 {
        // The numerator is tiny.
        (scale_up(value), false)
    } else {
        (value, false)
    }
}

#[inline(always)]
fn scale_up_f64(value: f64) -> f64 {
    value * f64::from_bits((1023 + 128) << 52)
}

#[inline(always)]
fn scale_down_f64(value: f64) -> f64 {
    value * f64::from_bits((1023 - 128) << 52)
}

#[inline(always)]
fn div_scale_f64(value: f64, denominator: f64, numerator: f64) -> (f64, bool) {
    let difference = exponent_f64(numerator) - exponent_f64(denominator);
    let is_denominator = value.to_bits() == denominator.to_bits();
    let is_numerator = value.to_bits() == numerator.to_bits();
    let reciprocal_is_tiny = is_denormal_f64(1.0 / denominator);
    let quotient_is_tiny = difference <= -1022;
    if (denominator == 0.0) | (numerator == 0.0) {
        (f64::NAN, true)
    } else if difference >= 768 {
        (
            if is_denominator {
                scale_up_f64(value)
            } else {
                value
            },
            true,
        )
    } else if is_denormal_f64(denominator) {
        (scale_up_f64(value), false)
    } else if reciprocal_is_tiny & quotient_is_tiny {
        (
            if is_denominator {
                scale_down_f64(value)
            } else {
                value
            },
            true,
        )
    } else if reciprocal_is_tiny {
        (scale_down_f64(value), false)
    } else if quotient_is_tiny {
        (
            if is_numerator {
                scale_up_f64(value)
            } else {
                value
            },
            true,
        )
    } else if exponent_f64(numerator) <= 53 {
        (scale_up_f64(value), false)
    } else {
        (value, false)
    }
}

/// a * b + c, and where `scaled` undo what `v_div_scale` did: 2^64 if the quotient is large, 2^-64 if small.
/// Rounded once: the f64 sum is rounded to odd before it is scaled and narrowed.
#[inline(always)]
fn div_fmas(a: f32, b: f32, c: f32, scaled: bool) -> f32 {
    let product = a as f64 * b as f64;
    let addend = c as f64;
    let sum = product + addend;
    let back = sum - product;
    let error = (product - (sum - back)) + (addend - back);
    let bits = sum.to_bits();
    let beyond = (error > 0.0) == (sum > 0.0);
    let odd = if beyond {
        bits.wrapping_add(1)
    } else {
        bits.wrapping_sub(1)
    };
    let adjust = (error != 0.0) & sum.is_finite() & (bits & 1 == 0);
    let sum = if adjust { f64::from_bits(odd) } else { sum };
    let factor = if exponent(c) > 127 {
        (1023 + 64) << 52
    } else {
        (1023u64 - 64) << 52
    };
    let unscaled = (sum * f64::from_bits(factor)) as f32;
    if scaled {
        unscaled
    } else {
        a.mul_add(b, c)
    }
}

/// As [`div_fmas`], by 2^128. Scaled lanes are rare, and computed exactly.
#[inline(always)]
fn div_fmas_f64(a: f64, b: f64, c: f64, scaled: bool) -> f64 {
    if scaled {
        let scale = if exponent_f64(c) > 1023 { 128 } else { -128 };
        let bits = [a, b, c].map(f64::to_bits);
        f64::from_bits(soft::fused(
            soft::F64,
            bits[0],
            bits[1],
            bits[2],
            scale,
            soft::Rounding::NearestEven,
        ))
    } else {
        a.mul_add(b, c)
    }
}

/// Replace the quotient by the defined result in the special cases of division, else give it the sign. A NaN
/// quotient of two ordinary numbers comes of an iteration that overflowed, so the result is infinite; the
/// manual leaves that to its "overflow" case.
#[inline(always)]
fn div_fixup(quotient: f32, denominator: f32, numerator: f32) -> f32 {
    let negative = (denominator.to_bits() ^ numerator.to_bits()) & 0x8000_0000;
    let signed = |magnitude: f32| f32::from_bits(magnitude.to_bits() & 0x7fff_ffff | negative);
    let both_zero = (denominator == 0.0) & (numerator == 0.0);
    let both_infinite = denominator.is_infinite() & numerator.is_infinite();
    if numerator.is_nan() {
        quiet(numerator)
    } else if denominator.is_nan() {
        quiet(denominator)
    } else if both_zero | both_infinite {
        f32::from_bits(0xffc0_0000)
    } else if (denominator == 0.0) | numerator.is_infinite() {
        signed(f32::INFINITY)
    } else if denominator.is_infinite()
        | (numerator == 0.0)
        // The quotient underflows.
        | (exponent(numerator) - exponent(denominator) < -150)
    {
        signed(0.0)
    } else if quotient.is_nan() {
        signed(f32::INFINITY)
    } else {
        signed(quotient)
    }
}

#[inline(always)]
fn div_fixup_f64(quotient: f64, denominator: f64, numerator: f64) -> f64 {
    let negative = (denominator.to_bits() ^ numerator.to_bits()) & 1 << 63;
    let signed = |magnitude: f64| f64::from_bits(magnitude.to_bits() & !(1 << 63) | negative);
    let both_zero = (denominator == 0.0) & (numerator == 0.0);
    let both_infinite = denominator.is_infinite() & numerator.is_infinite();
    if numerator.is_nan() {
        f64::from_bits(numerator.to_bits() | 1 << 51)
    } else if denominator.is_nan() {
        f64::from_bits(denominator.to_bits() | 1 << 51)
    } else if both_zero | both_infinite {
        f64::from_bits(0xfff8 << 48)
    } else if (denominator == 0.0) | numerator.is_infinite() {
        signed(f64::INFINITY)
    } else if denominator.is_infinite()
        | (numerator == 0.0)
        // The quotient underflows.
        | (exponent_f64(numerator) - exponent_f64(denominator) < -1075)
    {
        signed(0.0)
    } else if quotient.is_nan() {
        signed(f64::INFINITY)
    } else {
        signed(quotient)
    }
}

#[inline(always)]
fn div_fixup_f16(quotient: f32, denominator: f32, numerator: f32) -> f32 {
    div_fixup(quotient, denominator, numerator)
}

/// 2/pi in binary, after the point, 1216 bits (the first word holds the first 32).
const TWO_OVER_PI: [u32; 38] = [
    0xa2f9_836e,
    0x4e44_1529,
    0xfc27_57d1,
    0xf534_ddc0,
    0xdb62_9599,
    0x3c43_9041,
    0xfe51_63ab,
    0xdebb_c561,
    0xb724_6e3a,
    0x424d_d2e0,
    0x0649_2eea,
    0x09d1_921c,
    0xfe1d_eb1c,
    0xb129_a73e,
    0xe882_35f5,
    0x2ebb_4484,
    0xe99c_7026,
    0xb45f_7e41,
    0x3991_d639,
    0x8353_39f4,
    0x9c84_5f8b,
    0xbdf9_283b,
    0x1ff8_97ff,
    0xde05_980f,
    0xef2f_118b,
    0x5a0a_6d1f,
    0x6d36_7ecf,
    0x27cb_09b7,
    0x4f46_3f66,
    0x9e5f_ea2d,
    0x7527_bac7,
    0xebe5_f17b,
    0x3d07_39f7,
    0x8a52_92ea,
    0x6bfb_5fb1,
    0x1f8d_5d08,
    0x5603_3046,
    0xfc7b_0000,
];

/// 53 bits of 2/pi from the place that argument reduction of `x` needs for segment `segment`, scaled to their
/// weight. Bits beyond the 1201 that the hardware holds are zero.
#[inline(always)]
fn trig_preop(x: f64, segment: u32) -> f64 {
    let exponent = exponent_f64(x);
    let shift = (segment & 31) as i32 * 53 + if exponent > 1077 { exponent - 1077 } else { 0 };
    let word = (shift as usize) / 32;
    let get = |index: usize| TWO_OVER_PI.get(index).copied().unwrap_or(0) as u128;
    let bits = get(word) << 64 | get(word + 1) << 32 | get(word + 2);
    let field = (bits >> (96 - 53 - shift % 32)) as u64 & ((1 << 53) - 1);
    let scale = -53 - shift + if exponent >= 1968 { 128 } else { 0 };
    ldexp(field as f64, scale)
}

pub(super) fn add(table: &mut Table) {
    operations! { table, entry;
        "v_div_scale_f32" (value: f32, denominator: f32, numerator: f32) -> (f32, bool) =
            div_scale(value, denominator, numerator);
        "v_div_scale_f64" (value: f64, denominator: f64, numerator: f64) -> (f64, bool) =
            div_scale_f64(value, denominator, numerator);
        "v_div_fmas_f32" (a: f32, b: f32, c: f32, scaled: bool) -> f32 = div_fmas(a, b, c, scaled);
        "v_div_fmas_f64" (a: f64, b: f64, c: f64, scaled: bool) -> f64 = div_fmas_f64(a, b, c, scaled);
        "v_div_fixup_f32" (q: f32, denominator: f32, numerator: f32) -> f32 = div_fixup(q, denominator, numerator);
        "v_div_fixup_f64" (q: f64, denominator: f64, numerator: f64) -> f64 = div_fixup_f64(q, denominator, numerator);
        "v_div_fixup_f16" | "v_div_fixup_legacy_f16" (q: F16, denominator: F16, numerator: F16) -> F16 =
            F16(div_fixup_f16(q.0, denominator.0, numerator.0));
        "v_trig_preop_f64" (x: f64, segment: u32) -> f64 = trig_preop(x, segment);
    }
}

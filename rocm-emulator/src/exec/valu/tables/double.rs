//! f64 arithmetic.

use super::rows::{operations, Table};
use crate::exec::valu::kernel::entry;
use crate::exec::valu::value::{Acc, Ieee};

#[inline(always)]
fn key(value: f64) -> i64 {
    let bits = value.to_bits() as i64;
    bits ^ ((bits >> 63) as u64 >> 1) as i64
}

#[inline(always)]
fn quiet(value: f64) -> f64 {
    f64::from_bits(value.to_bits() | 1 << 51)
}

#[inline(always)]
fn is_signalling(value: f64) -> bool {
    value.is_nan() & (value.to_bits() & 1 << 51 == 0)
}

#[inline(always)]
fn select_number(a: f64, b: f64, chosen: f64, ieee: bool) -> f64 {
    if ieee & is_signalling(a) {
        quiet(a)
    } else if ieee & is_signalling(b) {
        quiet(b)
    } else if a.is_nan() {
        if b.is_nan() {
            quiet(a)
        } else {
            b
        }
    } else if b.is_nan() {
        a
    } else {
        chosen
    }
}

#[inline(always)]
fn min_number(a: f64, b: f64, ieee: bool) -> f64 {
    select_number(a, b, if key(a) < key(b) { a } else { b }, ieee)
}

#[inline(always)]
fn max_number(a: f64, b: f64, ieee: bool) -> f64 {
    select_number(a, b, if key(a) < key(b) { b } else { a }, ieee)
}

#[inline(always)]
fn propagate_nan(a: f64, b: f64, chosen: f64) -> f64 {
    if a.is_nan() {
        quiet(a)
    } else if b.is_nan() {
        quiet(b)
    } else {
        chosen
    }
}

/// x * 2^e, rounded once. A result among the denormals is reached in one last step from a normal number
/// that still holds every bit.
#[inline(always)]
pub(super) fn ldexp(a: f64, exponent: i32) -> f64 {
    let power = |e: i32| f64::from_bits(((e + 1023) as u64) << 52);
    let mut value = a;
    let mut e = exponent.clamp(-2200, 2200);
    if e > 1023 {
        value *= power(1023);
        e -= 1023;
        if e > 1023 {
            value *= power(1023);
            e = (e - 1023).min(1023);
        }
    } else if e < -1022 {
        // 2^-969 = 2^-1022 * 2^53: the intermediate keeps 53 bits.
        value *= power(-969);
        e += 969;
        if e < -1022 {
            value *= power(-969);
            e = (e + 969).max(-1022);
        }
    }
    value * power(e)
}

#[inline(always)]
fn normalised(a: f64) -> (u64, i32) {
    let bits = a.to_bits();
    let denormal = bits & 0x7ff0_0000_0000_0000 == 0;
    let scaled = (a * 18_014_398_509_481_984.0).to_bits();
    let bits = if denormal { scaled } else { bits };
    let exponent = (bits >> 52 & 0x7ff) as i32 - 1022 - if denormal { 54 } else { 0 };
    (bits, exponent)
}

#[inline(always)]
fn frexp_mantissa(a: f64) -> f64 {
    let (bits, _) = normalised(a);
    if (a == 0.0) | !a.is_finite() {
        a
    } else {
        f64::from_bits(bits & 0x800f_ffff_ffff_ffff | 0x3fe0_0000_0000_0000)
    }
}

#[inline(always)]
fn frexp_exponent(a: f64) -> i32 {
    let (_, exponent) = normalised(a);
    if (a == 0.0) | !a.is_finite() {
        0
    } else {
        exponent
    }
}

/// x - floor(x), kept below one.
#[inline(always)]
fn fract(a: f64) -> f64 {
    let fraction = a - a.floor();
    if fraction >= 1.0 {
        f64::from_bits(0x3fef_ffff_ffff_ffff)
    } else {
        fraction
    }
}

pub(super) fn add(table: &mut Table) {
    operations! { table, entry;
        "v_add_f64" (a: f64, b: f64) -> f64 = a + b;
        "v_mul_f64" (a: f64, b: f64) -> f64 = a * b;
        "v_fma_f64" (a: f64, b: f64, c: f64) -> f64 = a.mul_add(b, c);
        "v_fmac_f64" (a: f64, b: f64, d: Acc<f64>) -> f64 = a.mul_add(b, d.0);
        "v_min_f64" | "v_min_num_f64" (a: f64, b: f64, i: Ieee) -> f64 = min_number(a, b, i.0);
        "v_max_f64" | "v_max_num_f64" (a: f64, b: f64, i: Ieee) -> f64 = max_number(a, b, i.0);
        "v_minimum_f64" (a: f64, b: f64) -> f64 = propagate_nan(a, b, if key(a) < key(b) { a } else { b });
        "v_maximum_f64" (a: f64, b: f64) -> f64 = propagate_nan(a, b, if key(a) < key(b) { b } else { a });
        "v_rcp_f64" (a: f64) -> f64 = 1.0 / a;
        "v_rsq_f64" (a: f64) -> f64 = 1.0 / a.sqrt();
        "v_sqrt_f64" (a: f64) -> f64 = a.sqrt();
        "v_fract_f64" (a: f64) -> f64 = fract(a);
        "v_trunc_f64" (a: f64) -> f64 = a.trunc();
        "v_ceil_f64" (a: f64) -> f64 = a.ceil();
        "v_floor_f64" (a: f64) -> f64 = a.floor();
        "v_rndne_f64" (a: f64) -> f64 = a.round_ties_even();
        "v_frexp_mant_f64" (a: f64) -> f64 = frexp_mantissa(a);
        "v_frexp_exp_i32_f64" (a: f64) -> i32 = frexp_exponent(a);
        "v_ldexp_f64" (a: f64, e: i32) -> f64 = ldexp(a, e);
    }
    // The names that GFX12 gives the VOP2 forms are the same; `v_trig_preop_f64` is in `divide`.
}

//! f16 arithmetic: exact or suitably rounded in f32, then rounded to f16.

use super::rows::{operations, Table};
use super::single::{max_number, maximum, median, min_number, minimum};
use crate::exec::valu::approximate::{cos_turns, exp2, log2, sin_turns};
use crate::exec::valu::kernel::entry;
use crate::exec::valu::value::{Acc, Ieee, Raw16, F16};

/// The f32 nearest to the exact a * b + c in the sense of rounding to odd, so that the rounding to f16 that
/// follows acts as a single one. The product of two halves is exact in f32; the sum's error is known exactly.
#[inline(always)]
pub(super) fn fma_to_odd(a: f32, b: f32, c: f32) -> f32 {
    let product = a * b;
    let sum = product + c;
    let back = sum - product;
    let error = (product - (sum - back)) + (c - back);
    let bits = sum.to_bits();
    let even = bits & 1 == 0;
    // Move away from zero when the exact sum lies beyond, towards it otherwise.
    let beyond = (error > 0.0) == (sum > 0.0);
    let odd = if beyond {
        bits.wrapping_add(1)
    } else {
        bits.wrapping_sub(1)
    };
    let inexact = (error != 0.0) & sum.is_finite() & !error.is_nan();
    if inexact & even {
        f32::from_bits(odd)
    } else {
        sum
    }
}

#[inline(always)]
fn fma(a: F16, b: F16, c: F16) -> F16 {
    F16(fma_to_odd(a.0, b.0, c.0))
}

#[inline(always)]
fn round(value: f32) -> f32 {
    crate::exec::valu::value::f16_to_f32(crate::exec::valu::value::f32_to_f16(value))
}

/// f64 to f32 rounding to odd, so that rounding to f16 afterwards is a single rounding.
#[inline(always)]
fn narrow(value: f64) -> F16 {
    let single = value as f32;
    let bits = single.to_bits();
    let difference = value - single as f64;
    let beyond = (difference > 0.0) == (value > 0.0);
    let odd = if beyond {
        bits.wrapping_add(1)
    } else {
        bits.wrapping_sub(1)
    };
    F16(
        if (difference != 0.0) & single.is_finite() & (bits & 1 == 0) & !difference.is_nan() {
            f32::from_bits(odd)
        } else {
            single
        },
    )
}

/// x - floor(x), kept below one.
#[inline(always)]
fn fract(a: f32) -> f32 {
    let fraction = round(a - a.floor());
    if fraction >= 1.0 {
        0.999_511_7
    } else {
        fraction
    }
}

#[inline(always)]
fn frexp_exponent(a: f32) -> i16 {
    // Every f16 is a normal f32.
    let exponent = (a.to_bits() >> 23 & 0xff) as i16 - 126;
    if (a == 0.0) | !a.is_finite() {
        0
    } else {
        exponent
    }
}

#[inline(always)]
fn frexp_mantissa(a: f32) -> f32 {
    if (a == 0.0) | !a.is_finite() {
        a
    } else {
        f32::from_bits(a.to_bits() & 0x807f_ffff | 0x3f00_0000)
    }
}

#[inline(always)]
fn power_of_two(exponent: i16) -> f32 {
    f32::from_bits(((exponent.clamp(-100, 100) as i32 + 127) as u32) << 23)
}

pub(super) fn add(table: &mut Table) {
    operations! { table, entry;
        "v_add_f16" (a: F16, b: F16) -> F16 = F16(a.0 + b.0);
        "v_sub_f16" (a: F16, b: F16) -> F16 = F16(a.0 - b.0);
        "v_subrev_f16" (a: F16, b: F16) -> F16 = F16(b.0 - a.0);
        "v_mul_f16" (a: F16, b: F16) -> F16 = F16(a.0 * b.0);
        "v_fma_f16" | "v_fma_legacy_f16" | "v_fmamk_f16" | "v_fmaak_f16" (a: F16, b: F16, c: F16) -> F16 = fma(a, b, c);
        "v_fmac_f16" (a: F16, b: F16, d: Acc<F16>) -> F16 = fma(a, b, d.0);
        "v_mad_f16" | "v_mad_legacy_f16" | "v_madmk_f16" | "v_madak_f16" (a: F16, b: F16, c: F16) -> F16 =
            F16(round(a.0 * b.0) + c.0);
        "v_mac_f16" (a: F16, b: F16, d: Acc<F16>) -> F16 = F16(round(a.0 * b.0) + d.0.0);

        "v_min_f16" | "v_min_num_f16" (a: Raw16, b: Raw16, i: Ieee) -> F16 = F16(min_number(a.0, b.0, i.0));
        "v_max_f16" | "v_max_num_f16" (a: Raw16, b: Raw16, i: Ieee) -> F16 = F16(max_number(a.0, b.0, i.0));
        "v_min3_f16" | "v_min3_num_f16" (a: Raw16, b: Raw16, c: Raw16, i: Ieee) -> F16 =
            F16(min_number(min_number(a.0, b.0, i.0), c.0, i.0));
        "v_max3_f16" | "v_max3_num_f16" (a: Raw16, b: Raw16, c: Raw16, i: Ieee) -> F16 =
            F16(max_number(max_number(a.0, b.0, i.0), c.0, i.0));
        "v_med3_f16" | "v_med3_num_f16" (a: Raw16, b: Raw16, c: Raw16, i: Ieee) -> F16 =
            F16(median(a.0, b.0, c.0, i.0));
        "v_maxmin_f16" | "v_maxmin_num_f16" (a: Raw16, b: Raw16, c: Raw16, i: Ieee) -> F16 =
            F16(min_number(max_number(a.0, b.0, i.0), c.0, i.0));
        "v_minmax_f16" | "v_minmax_num_f16" (a: Raw16, b: Raw16, c: Raw16, i: Ieee) -> F16 =
            F16(max_number(min_number(a.0, b.0, i.0), c.0, i.0));
        "v_minimum_f16" (a: F16, b: F16) -> F16 = F16(minimum(a.0, b.0));
        "v_maximum_f16" (a: F16, b: F16) -> F16 = F16(maximum(a.0, b.0));
        "v_minimum3_f16" (a: F16, b: F16, c: F16) -> F16 = F16(minimum(minimum(a.0, b.0), c.0));
        "v_maximum3_f16" (a: F16, b: F16, c: F16) -> F16 = F16(maximum(maximum(a.0, b.0), c.0));
        "v_minimummaximum_f16" (a: F16, b: F16, c: F16) -> F16 = F16(maximum(minimum(a.0, b.0), c.0));
        "v_maximumminimum_f16" (a: F16, b: F16, c: F16) -> F16 = F16(minimum(maximum(a.0, b.0), c.0));

        "v_rcp_f16" | "v_s_rcp_f16" (a: F16) -> F16 = narrow(1.0 / a.0 as f64);
        "v_rsq_f16" | "v_s_rsq_f16" (a: F16) -> F16 = narrow(1.0 / (a.0 as f64).sqrt());
        "v_sqrt_f16" | "v_s_sqrt_f16" (a: F16) -> F16 = narrow((a.0 as f64).sqrt());
        "v_exp_f16" | "v_s_exp_f16" (a: F16) -> F16 = narrow(exp2(a.0 as f64));
        "v_log_f16" | "v_s_log_f16" (a: F16) -> F16 = narrow(log2(a.0));
        "v_sin_f16" (a: F16) -> F16 = narrow(sin_turns(a.0 as f64));
        "v_cos_f16" (a: F16) -> F16 = narrow(cos_turns(a.0 as f64));

        "v_fract_f16" (a: F16) -> F16 = F16(fract(a.0));
        "v_trunc_f16" (a: F16) -> F16 = F16(a.0.trunc());
        "v_ceil_f16" (a: F16) -> F16 = F16(a.0.ceil());
        "v_floor_f16" (a: F16) -> F16 = F16(a.0.floor());
        "v_rndne_f16" (a: F16) -> F16 = F16(a.0.round_ties_even());
        "v_frexp_mant_f16" (a: F16) -> F16 = F16(frexp_mantissa(a.0));
        "v_frexp_exp_i16_f16" (a: F16) -> i16 = frexp_exponent(a.0);
        "v_ldexp_f16" (a: F16, e: i16) -> F16 = F16(a.0 * power_of_two(e));
    }
}

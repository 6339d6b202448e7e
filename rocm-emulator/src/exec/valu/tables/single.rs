//! f32 arithmetic.

use super::rows::{operations, Table};
use crate::exec::valu::approximate::{cos_turns, exp2, log2, sin_turns};
use crate::exec::valu::kernel::entry;
use crate::exec::valu::value::{Acc, Bf16, Ieee, Mix, Pair, F16};

/// Denormals as zero of the same sign: the transcendental instructions but sine and cosine read and write no
/// f32 denormals, whatever MODE says.
#[inline(always)]
fn no_denormal(value: f32) -> f32 {
    let bits = value.to_bits();
    f32::from_bits(if bits & 0x7f80_0000 == 0 {
        bits & 0x8000_0000
    } else {
        bits
    })
}

#[inline(always)]
fn is_signalling(value: f32) -> bool {
    value.is_nan() & (value.to_bits() & 0x40_0000 == 0)
}

#[inline(always)]
pub(super) fn quiet(value: f32) -> f32 {
    f32::from_bits(value.to_bits() | 0x40_0000)
}

/// Total order of non-NaN values in which -0 < +0.
#[inline(always)]
fn key(value: f32) -> i32 {
    let bits = value.to_bits() as i32;
    bits ^ ((bits >> 31) as u32 >> 1) as i32
}

/// The smaller number; a NaN yields to a number. In IEEE mode a signalling NaN comes out quiet.
#[inline(always)]
pub(super) fn min_number(a: f32, b: f32, ieee: bool) -> f32 {
    let smaller = if key(a) < key(b) { a } else { b };
    select_number(a, b, smaller, ieee)
}

#[inline(always)]
pub(super) fn max_number(a: f32, b: f32, ieee: bool) -> f32 {
    let larger = if key(a) < key(b) { b } else { a };
    select_number(a, b, larger, ieee)
}

#[inline(always)]
fn select_number(a: f32, b: f32, chosen: f32, ieee: bool) -> f32 {
    let number = if a.is_nan() {
        if b.is_nan() {
            quiet(a)
        } else {
            b
        }
    } else if b.is_nan() {
        a
    } else {
        chosen
    };
    if ieee & is_signalling(a) {
        quiet(a)
    } else if ieee & is_signalling(b) {
        quiet(b)
    } else {
        number
    }
}

/// The smaller; NaN wins (IEEE 754-2019 minimum).
#[inline(always)]
pub(super) fn minimum(a: f32, b: f32) -> f32 {
    let smaller = if key(a) < key(b) { a } else { b };
    propagate_nan(a, b, smaller)
}

#[inline(always)]
pub(super) fn maximum(a: f32, b: f32) -> f32 {
    let larger = if key(a) < key(b) { b } else { a };
    propagate_nan(a, b, larger)
}

#[inline(always)]
fn propagate_nan(a: f32, b: f32, chosen: f32) -> f32 {
    if a.is_nan() {
        quiet(a)
    } else if b.is_nan() {
        quiet(b)
    } else {
        chosen
    }
}

/// The median; with a NaN, the smallest of the numbers.
#[inline(always)]
pub(super) fn median(a: f32, b: f32, c: f32, ieee: bool) -> f32 {
    let smallest = min_number(min_number(a, b, ieee), c, ieee);
    let largest = max_number(max_number(a, b, false), c, false);
    let middle = if key(largest) == key(a) {
        max_number(b, c, false)
    } else if key(largest) == key(b) {
        max_number(a, c, false)
    } else {
        max_number(a, b, false)
    };
    if a.is_nan() | b.is_nan() | c.is_nan() {
        smallest
    } else {
        middle
    }
}

/// DirectX 9 multiplication: zero times anything is +0.
#[inline(always)]
fn mul_zero_wins(a: f32, b: f32) -> f32 {
    if (a == 0.0) | (b == 0.0) {
        0.0
    } else {
        a * b
    }
}

/// DirectX 9 fused multiply-add.
#[inline(always)]
fn fma_zero_wins(a: f32, b: f32, c: f32) -> f32 {
    if (a == 0.0) | (b == 0.0) {
        c + 0.0
    } else {
        a.mul_add(b, c)
    }
}

/// The unfused multiply-add: the product is rounded, denormals are zero throughout.
#[inline(always)]
fn mad(a: f32, b: f32, c: f32) -> f32 {
    let product = no_denormal(no_denormal(a) * no_denormal(b));
    no_denormal(product + no_denormal(c))
}

/// The products of the low halves and then of the high ones, added to `sum`; each product is exact.
#[inline(always)]
fn dot2(a: [f32; 2], b: [f32; 2], sum: f32) -> f32 {
    a[1].mul_add(b[1], a[0].mul_add(b[0], sum))
}

/// x * 2^e, rounded once: the scaling is exact in f64.
#[inline(always)]
fn ldexp(a: f32, exponent: i32) -> f32 {
    let power = f64::from_bits(((exponent.clamp(-400, 400) + 1023) as u64) << 52);
    (a as f64 * power) as f32
}

/// Bits and exponent of the value scaled so that denormals are normal.
#[inline(always)]
fn normalised(a: f32) -> (u32, i32) {
    let bits = a.to_bits();
    let denormal = bits & 0x7f80_0000 == 0;
    let scaled = (a * 33_554_432.0).to_bits();
    let bits = if denormal { scaled } else { bits };
    let exponent = (bits >> 23 & 0xff) as i32 - 126 - if denormal { 25 } else { 0 };
    (bits, exponent)
}

#[inline(always)]
fn frexp_mantissa(a: f32) -> f32 {
    let (bits, _) = normalised(a);
    let mantissa = f32::from_bits(bits & 0x807f_ffff | 0x3f00_0000);
    if (a == 0.0) | !a.is_finite() {
        a
    } else {
        mantissa
    }
}

#[inline(always)]
fn frexp_exponent(a: f32) -> i32 {
    let (_, exponent) = normalised(a);
    if (a == 0.0) | !a.is_finite() {
        0
    } else {
        exponent
    }
}

/// x - floor(x), kept below one.
#[inline(always)]
fn fract(a: f32) -> f32 {
    let fraction = a - a.floor();
    if fraction >= 1.0 {
        0.999_999_94
    } else {
        fraction
    }
}

/// The lighting product: -FLT_MAX unless c is positive and b is an ordinary number.
#[inline(always)]
fn mullit(a: f32, b: f32, c: f32) -> f32 {
    if (b <= -f32::MAX) | b.is_nan() | (c <= 0.0) | c.is_nan() {
        -f32::MAX
    } else {
        mul_zero_wins(a, b)
    }
}

/// Where a direction meets a cube: face number, face coordinates, twice the major axis.
#[derive(Clone, Copy)]
struct Cube {
    id: f32,
    s: f32,
    t: f32,
    major: f32,
}

#[inline(always)]
fn cube(x: f32, y: f32, z: f32) -> Cube {
    if (z.abs() >= x.abs()) & (z.abs() >= y.abs()) {
        let back = z < 0.0;
        Cube {
            id: if back { 5.0 } else { 4.0 },
            s: if back { -x } else { x },
            t: -y,
            major: 2.0 * z,
        }
    } else if y.abs() >= x.abs() {
        let below = y < 0.0;
        Cube {
            id: if below { 3.0 } else { 2.0 },
            s: x,
            t: if below { -z } else { z },
            major: 2.0 * y,
        }
    } else {
        let left = x < 0.0;
        Cube {
            id: if left { 1.0 } else { 0.0 },
            s: if left { z } else { -z },
            t: -y,
            major: 2.0 * x,
        }
    }
}

pub(super) fn add(table: &mut Table) {
    operations! { table, entry;
        "v_add_f32" (a: f32, b: f32) -> f32 = a + b;
        "v_sub_f32" (a: f32, b: f32) -> f32 = a - b;
        "v_subrev_f32" (a: f32, b: f32) -> f32 = b - a;
        "v_mul_f32" (a: f32, b: f32) -> f32 = a * b;
        "v_mul_legacy_f32" | "v_mul_dx9_zero_f32" (a: f32, b: f32) -> f32 = mul_zero_wins(a, b);
        "v_fma_f32" | "v_fmamk_f32" | "v_fmaak_f32" (a: f32, b: f32, c: f32) -> f32 = a.mul_add(b, c);
        "v_fmac_f32" (a: f32, b: f32, d: Acc<f32>) -> f32 = a.mul_add(b, d.0);
        "v_fma_legacy_f32" | "v_fma_dx9_zero_f32" (a: f32, b: f32, c: f32) -> f32 = fma_zero_wins(a, b, c);
        "v_fmac_legacy_f32" | "v_fmac_dx9_zero_f32" (a: f32, b: f32, d: Acc<f32>) -> f32 = fma_zero_wins(a, b, d.0);
        "v_mad_f32" | "v_madmk_f32" | "v_madak_f32" (a: f32, b: f32, c: f32) -> f32 = mad(a, b, c);
        "v_mac_f32" (a: f32, b: f32, d: Acc<f32>) -> f32 = mad(a, b, d.0);
        "v_mad_legacy_f32" (a: f32, b: f32, c: f32) -> f32 = mul_zero_wins(a, b) + c;
        "v_fma_mix_f32" | "v_mad_mix_f32" (a: Mix, b: Mix, c: Mix) -> f32 = a.0.mul_add(b.0, c.0);
        "v_fma_mixlo_f16" | "v_fma_mixhi_f16" | "v_mad_mixlo_f16" | "v_mad_mixhi_f16"
            (a: Mix, b: Mix, c: Mix) -> F16 = F16(a.0.mul_add(b.0, c.0));

        "v_min_f32" | "v_min_num_f32" (a: f32, b: f32, i: Ieee) -> f32 = min_number(a, b, i.0);
        "v_max_f32" | "v_max_num_f32" (a: f32, b: f32, i: Ieee) -> f32 = max_number(a, b, i.0);
        "v_min3_f32" | "v_min3_num_f32" (a: f32, b: f32, c: f32, i: Ieee) -> f32 =
            min_number(min_number(a, b, i.0), c, i.0);
        "v_max3_f32" | "v_max3_num_f32" (a: f32, b: f32, c: f32, i: Ieee) -> f32 =
            max_number(max_number(a, b, i.0), c, i.0);
        "v_med3_f32" | "v_med3_num_f32" (a: f32, b: f32, c: f32, i: Ieee) -> f32 = median(a, b, c, i.0);
        "v_maxmin_f32" | "v_maxmin_num_f32" (a: f32, b: f32, c: f32, i: Ieee) -> f32 =
            min_number(max_number(a, b, i.0), c, i.0);
        "v_minmax_f32" | "v_minmax_num_f32" (a: f32, b: f32, c: f32, i: Ieee) -> f32 =
            max_number(min_number(a, b, i.0), c, i.0);
        "v_minimum_f32" (a: f32, b: f32) -> f32 = minimum(a, b);
        "v_maximum_f32" (a: f32, b: f32) -> f32 = maximum(a, b);
        "v_minimum3_f32" (a: f32, b: f32, c: f32) -> f32 = minimum(minimum(a, b), c);
        "v_maximum3_f32" (a: f32, b: f32, c: f32) -> f32 = maximum(maximum(a, b), c);
        "v_minimummaximum_f32" (a: f32, b: f32, c: f32) -> f32 = maximum(minimum(a, b), c);
        "v_maximumminimum_f32" (a: f32, b: f32, c: f32) -> f32 = minimum(maximum(a, b), c);

        "v_rcp_f32" | "v_rcp_iflag_f32" | "v_s_rcp_f32" (a: f32) -> f32 = no_denormal(1.0 / no_denormal(a));
        "v_rsq_f32" | "v_s_rsq_f32" (a: f32) -> f32 = (1.0 / (no_denormal(a) as f64).sqrt()) as f32;
        "v_sqrt_f32" | "v_s_sqrt_f32" (a: f32) -> f32 = no_denormal(a).sqrt();
        "v_exp_f32" | "v_exp_legacy_f32" | "v_s_exp_f32" (a: f32) -> f32 = no_denormal(exp2(no_denormal(a) as f64) as f32);
        "v_log_f32" | "v_log_legacy_f32" | "v_s_log_f32" (a: f32) -> f32 = log2(no_denormal(a)) as f32;
        "v_sin_f32" (a: f32) -> f32 = sin_turns(a as f64) as f32;
        "v_cos_f32" (a: f32) -> f32 = cos_turns(a as f64) as f32;

        "v_mullit_f32" (a: f32, b: f32, c: f32) -> f32 = mullit(a, b, c);
        "v_cubeid_f32" (x: f32, y: f32, z: f32) -> f32 = cube(x, y, z).id;
        "v_cubesc_f32" (x: f32, y: f32, z: f32) -> f32 = cube(x, y, z).s;
        "v_cubetc_f32" (x: f32, y: f32, z: f32) -> f32 = cube(x, y, z).t;
        "v_cubema_f32" (x: f32, y: f32, z: f32) -> f32 = cube(x, y, z).major;

        "v_fract_f32" (a: f32) -> f32 = fract(a);
        "v_trunc_f32" (a: f32) -> f32 = a.trunc();
        "v_ceil_f32" (a: f32) -> f32 = a.ceil();
        "v_floor_f32" (a: f32) -> f32 = a.floor();
        "v_rndne_f32" (a: f32) -> f32 = a.round_ties_even();
        "v_frexp_mant_f32" (a: f32) -> f32 = frexp_mantissa(a);
        "v_frexp_exp_i32_f32" (a: f32) -> i32 = frexp_exponent(a);
        "v_ldexp_f32" (a: f32, e: i32) -> f32 = ldexp(a, e);

        "v_dot2_f32_f16" (a: Pair<F16>, b: Pair<F16>, c: f32) -> f32 =
            dot2([a.0.0, a.1.0], [b.0.0, b.1.0], c);
        "v_dot2c_f32_f16" | "v_dot2acc_f32_f16" (a: Pair<F16>, b: Pair<F16>, d: Acc<f32>) -> f32 =
            dot2([a.0.0, a.1.0], [b.0.0, b.1.0], d.0);
        "v_dot2_f32_bf16" (a: Pair<Bf16>, b: Pair<Bf16>, c: f32) -> f32 =
            dot2([a.0.0, a.1.0], [b.0.0, b.1.0], c);
        "v_dot2c_f32_bf16" | "v_dot2acc_f32_bf16" (a: Pair<Bf16>, b: Pair<Bf16>, d: Acc<f32>) -> f32 =
            dot2([a.0.0, a.1.0], [b.0.0, b.1.0], d.0);
        "v_dot2_f16_f16" (a: Pair<F16>, b: Pair<F16>, c: F16) -> F16 =
            F16(dot2([a.0.0, a.1.0], [b.0.0, b.1.0], c.0));
        "v_dot2_bf16_bf16" (a: Pair<Bf16>, b: Pair<Bf16>, c: Bf16) -> Bf16 =
            Bf16(dot2([a.0.0, a.1.0], [b.0.0, b.1.0], c.0));
    }
}

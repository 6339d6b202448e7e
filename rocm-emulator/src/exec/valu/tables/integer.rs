//! Integer arithmetic.

use super::rows::{operations, Table};
use crate::exec::valu::kernel::entry;
use crate::exec::valu::value::Acc;

#[inline(always)]
fn sext24(value: i32) -> i32 {
    value << 8 >> 8
}

#[inline(always)]
fn low24(value: u32) -> u32 {
    value & 0xff_ffff
}

/// The median of three.
#[inline(always)]
fn median<T: Ord + Copy>(a: T, b: T, c: T) -> T {
    a.min(b).max(a.max(b).min(c))
}

/// a + b + carry, and the carry out.
#[inline(always)]
fn add_carry(a: u32, b: u32, carry: bool) -> (u32, bool) {
    let sum = a.wrapping_add(b);
    let total = sum.wrapping_add(carry as u32);
    (total, (sum < a) | (total < sum))
}

/// a - b - borrow, and the borrow out.
#[inline(always)]
fn sub_borrow(a: u32, b: u32, borrow: bool) -> (u32, bool) {
    let difference = a.wrapping_sub(b);
    let total = difference.wrapping_sub(borrow as u32);
    (total, (a < b) | (difference < borrow as u32))
}

/// With clamp, a carry out saturates.
#[inline(always)]
fn saturate(pair: (u32, bool), limit: u32) -> (u32, bool) {
    (if pair.1 { limit } else { pair.0 }, pair.1)
}

#[inline(always)]
fn clamp_i32(value: i64) -> i32 {
    value.clamp(i32::MIN as i64, i32::MAX as i64) as i32
}

#[inline(always)]
fn clamp_u32(value: u64) -> u32 {
    value.min(u32::MAX as u64) as u32
}

/// Low and high halves, sign-extended.
#[inline(always)]
fn halves_i(a: u32) -> [i64; 2] {
    [a as i16 as i64, (a >> 16) as i16 as i64]
}

#[inline(always)]
fn halves_u(a: u32) -> [u64; 2] {
    [(a & 0xffff) as u64, (a >> 16) as u64]
}

/// Dot product of `a` and `b` cut into fields of `WIDTH` bits, each signed or not.
#[inline(always)]
fn dot<const WIDTH: u32, const A_SIGNED: bool, const B_SIGNED: bool>(a: u32, b: u32) -> i64 {
    let field = |value: u32, index: u32, signed: bool| {
        let left = value << (32 - WIDTH * (index + 1));
        if signed {
            (left as i32 >> (32 - WIDTH)) as i64
        } else {
            (left >> (32 - WIDTH)) as i64
        }
    };
    (0..32 / WIDTH)
        .map(|i| field(a, i, A_SIGNED) * field(b, i, B_SIGNED))
        .sum()
}

pub(super) fn add(table: &mut Table) {
    operations! { table, entry;
        "v_add_u32" | "v_add_nc_u32" (a: u32, b: u32) -> u32 = a.wrapping_add(b);
        "v_sub_u32" | "v_sub_nc_u32" (a: u32, b: u32) -> u32 = a.wrapping_sub(b);
        "v_subrev_u32" | "v_subrev_nc_u32" (a: u32, b: u32) -> u32 = b.wrapping_sub(a);
        "v_add_u32 clamp" | "v_add_nc_u32 clamp" (a: u32, b: u32) -> u32 = a.saturating_add(b);
        "v_sub_u32 clamp" | "v_sub_nc_u32 clamp" (a: u32, b: u32) -> u32 = a.saturating_sub(b);
        "v_subrev_u32 clamp" | "v_subrev_nc_u32 clamp" (a: u32, b: u32) -> u32 = b.saturating_sub(a);
        "v_add_i32" | "v_add_nc_i32" (a: i32, b: i32) -> i32 = a.wrapping_add(b);
        "v_sub_i32" | "v_sub_nc_i32" (a: i32, b: i32) -> i32 = a.wrapping_sub(b);
        "v_add_i32 clamp" | "v_add_nc_i32 clamp" (a: i32, b: i32) -> i32 = a.saturating_add(b);
        "v_sub_i32 clamp" | "v_sub_nc_i32 clamp" (a: i32, b: i32) -> i32 = a.saturating_sub(b);

        "v_add_co_u32" (a: u32, b: u32) -> (u32, bool) = a.overflowing_add(b);
        "v_sub_co_u32" (a: u32, b: u32) -> (u32, bool) = a.overflowing_sub(b);
        "v_subrev_co_u32" (a: u32, b: u32) -> (u32, bool) = b.overflowing_sub(a);
        "v_addc_co_u32" | "v_add_co_ci_u32" (a: u32, b: u32, c: bool) -> (u32, bool) = add_carry(a, b, c);
        "v_subb_co_u32" | "v_sub_co_ci_u32" (a: u32, b: u32, c: bool) -> (u32, bool) = sub_borrow(a, b, c);
        "v_subbrev_co_u32" | "v_subrev_co_ci_u32" (a: u32, b: u32, c: bool) -> (u32, bool) = sub_borrow(b, a, c);
        "v_add_co_u32 clamp" (a: u32, b: u32) -> (u32, bool) = saturate(a.overflowing_add(b), u32::MAX);
        "v_sub_co_u32 clamp" (a: u32, b: u32) -> (u32, bool) = saturate(a.overflowing_sub(b), 0);
        "v_subrev_co_u32 clamp" (a: u32, b: u32) -> (u32, bool) = saturate(b.overflowing_sub(a), 0);
        "v_addc_co_u32 clamp" | "v_add_co_ci_u32 clamp" (a: u32, b: u32, c: bool) -> (u32, bool) =
            saturate(add_carry(a, b, c), u32::MAX);
        "v_subb_co_u32 clamp" | "v_sub_co_ci_u32 clamp" (a: u32, b: u32, c: bool) -> (u32, bool) =
            saturate(sub_borrow(a, b, c), 0);
        "v_subbrev_co_u32 clamp" | "v_subrev_co_ci_u32 clamp" (a: u32, b: u32, c: bool) -> (u32, bool) =
            saturate(sub_borrow(b, a, c), 0);

        "v_mul_lo_u32" (a: u32, b: u32) -> u32 = a.wrapping_mul(b);
        "v_mul_hi_u32" (a: u32, b: u32) -> u32 = ((a as u64 * b as u64) >> 32) as u32;
        "v_mul_hi_i32" (a: i32, b: i32) -> i32 = ((a as i64 * b as i64) >> 32) as i32;
        "v_mul_i32_i24" (a: i32, b: i32) -> i32 = sext24(a).wrapping_mul(sext24(b));
        "v_mul_hi_i32_i24" (a: i32, b: i32) -> i32 = ((sext24(a) as i64 * sext24(b) as i64) >> 32) as i32;
        "v_mul_u32_u24" (a: u32, b: u32) -> u32 = low24(a).wrapping_mul(low24(b));
        "v_mul_hi_u32_u24" (a: u32, b: u32) -> u32 = ((low24(a) as u64 * low24(b) as u64) >> 32) as u32;
        "v_mad_i32_i24" (a: i32, b: i32, c: i32) -> i32 = sext24(a).wrapping_mul(sext24(b)).wrapping_add(c);
        "v_mad_u32_u24" (a: u32, b: u32, c: u32) -> u32 = low24(a).wrapping_mul(low24(b)).wrapping_add(c);
        "v_mul_i32_i24 clamp" (a: i32, b: i32) -> i32 = clamp_i32(sext24(a) as i64 * sext24(b) as i64);
        "v_mul_u32_u24 clamp" (a: u32, b: u32) -> u32 = clamp_u32(low24(a) as u64 * low24(b) as u64);
        "v_mad_i32_i24 clamp" (a: i32, b: i32, c: i32) -> i32 =
            clamp_i32(sext24(a) as i64 * sext24(b) as i64 + c as i64);
        "v_mad_u32_u24 clamp" (a: u32, b: u32, c: u32) -> u32 =
            clamp_u32(low24(a) as u64 * low24(b) as u64 + c as u64);
        "v_mad_u64_u32" | "v_mad_co_u64_u32" (a: u32, b: u32, c: u64) -> (u64, bool) =
            (a as u64 * b as u64).overflowing_add(c);
        "v_mad_i64_i32" | "v_mad_co_i64_i32" (a: i32, b: i32, c: i64) -> (i64, bool) =
            (a as i64 * b as i64).overflowing_add(c);
        "v_mad_u32_u16" (a: u16, b: u16, c: u32) -> u32 = (a as u32 * b as u32).wrapping_add(c);
        "v_mad_i32_i16" (a: i16, b: i16, c: i32) -> i32 = (a as i32 * b as i32).wrapping_add(c);
        "v_mad_u32_u16 clamp" (a: u16, b: u16, c: u32) -> u32 = (a as u32 * b as u32).saturating_add(c);
        "v_mad_i32_i16 clamp" (a: i16, b: i16, c: i32) -> i32 = (a as i32 * b as i32).saturating_add(c);

        "v_min_u32" (a: u32, b: u32) -> u32 = a.min(b);
        "v_max_u32" (a: u32, b: u32) -> u32 = a.max(b);
        "v_min_i32" (a: i32, b: i32) -> i32 = a.min(b);
        "v_max_i32" (a: i32, b: i32) -> i32 = a.max(b);
        "v_min3_u32" (a: u32, b: u32, c: u32) -> u32 = a.min(b).min(c);
        "v_max3_u32" (a: u32, b: u32, c: u32) -> u32 = a.max(b).max(c);
        "v_med3_u32" (a: u32, b: u32, c: u32) -> u32 = median(a, b, c);
        "v_min3_i32" (a: i32, b: i32, c: i32) -> i32 = a.min(b).min(c);
        "v_max3_i32" (a: i32, b: i32, c: i32) -> i32 = a.max(b).max(c);
        "v_med3_i32" (a: i32, b: i32, c: i32) -> i32 = median(a, b, c);
        "v_maxmin_u32" (a: u32, b: u32, c: u32) -> u32 = a.max(b).min(c);
        "v_minmax_u32" (a: u32, b: u32, c: u32) -> u32 = a.min(b).max(c);
        "v_maxmin_i32" (a: i32, b: i32, c: i32) -> i32 = a.max(b).min(c);
        "v_minmax_i32" (a: i32, b: i32, c: i32) -> i32 = a.min(b).max(c);

        "v_add3_u32" (a: u32, b: u32, c: u32) -> u32 = a.wrapping_add(b).wrapping_add(c);
        "v_lshl_add_u32" (a: u32, s: u32, c: u32) -> u32 = (a << (s & 31)).wrapping_add(c);
        "v_add_lshl_u32" (a: u32, b: u32, s: u32) -> u32 = a.wrapping_add(b) << (s & 31);
        "v_lshl_or_b32" (a: u32, s: u32, c: u32) -> u32 = a << (s & 31) | c;
        "v_xad_u32" (a: u32, b: u32, c: u32) -> u32 = (a ^ b).wrapping_add(c);
        "v_lshl_add_u64" (a: u64, s: u32, c: u64) -> u64 = (a << (s & 7)).wrapping_add(c);

        "v_add_u16" | "v_add_nc_u16" | "v_add_i16" | "v_add_nc_i16" (a: u16, b: u16) -> u16 = a.wrapping_add(b);
        "v_sub_u16" | "v_sub_nc_u16" | "v_sub_i16" | "v_sub_nc_i16" (a: u16, b: u16) -> u16 = a.wrapping_sub(b);
        "v_subrev_u16" (a: u16, b: u16) -> u16 = b.wrapping_sub(a);
        "v_add_u16 clamp" | "v_add_nc_u16 clamp" (a: u16, b: u16) -> u16 = a.saturating_add(b);
        "v_sub_u16 clamp" | "v_sub_nc_u16 clamp" (a: u16, b: u16) -> u16 = a.saturating_sub(b);
        "v_subrev_u16 clamp" (a: u16, b: u16) -> u16 = b.saturating_sub(a);
        "v_add_i16 clamp" | "v_add_nc_i16 clamp" (a: i16, b: i16) -> i16 = a.saturating_add(b);
        "v_sub_i16 clamp" | "v_sub_nc_i16 clamp" (a: i16, b: i16) -> i16 = a.saturating_sub(b);
        "v_mul_lo_u16" (a: u16, b: u16) -> u16 = a.wrapping_mul(b);
        "v_mad_u16" | "v_mad_legacy_u16" (a: u16, b: u16, c: u16) -> u16 = a.wrapping_mul(b).wrapping_add(c);
        "v_mad_i16" | "v_mad_legacy_i16" (a: i16, b: i16, c: i16) -> i16 = a.wrapping_mul(b).wrapping_add(c);
        "v_mad_u16 clamp" (a: u16, b: u16, c: u16) -> u16 =
            (a as u32 * b as u32).saturating_add(c as u32).min(0xffff) as u16;
        "v_mad_i16 clamp" (a: i16, b: i16, c: i16) -> i16 =
            (a as i64 * b as i64 + c as i64).clamp(-0x8000, 0x7fff) as i16;
        "v_min_u16" (a: u16, b: u16) -> u16 = a.min(b);
        "v_max_u16" (a: u16, b: u16) -> u16 = a.max(b);
        "v_min_i16" (a: i16, b: i16) -> i16 = a.min(b);
        "v_max_i16" (a: i16, b: i16) -> i16 = a.max(b);
        "v_min3_u16" (a: u16, b: u16, c: u16) -> u16 = a.min(b).min(c);
        "v_max3_u16" (a: u16, b: u16, c: u16) -> u16 = a.max(b).max(c);
        "v_med3_u16" (a: u16, b: u16, c: u16) -> u16 = median(a, b, c);
        "v_min3_i16" (a: i16, b: i16, c: i16) -> i16 = a.min(b).min(c);
        "v_max3_i16" (a: i16, b: i16, c: i16) -> i16 = a.max(b).max(c);
        "v_med3_i16" (a: i16, b: i16, c: i16) -> i16 = median(a, b, c);

        "v_dot2_i32_i16" (a: u32, b: u32, c: i32) -> i32 = {
            let (a, b) = (halves_i(a), halves_i(b));
            (a[0] * b[0] + a[1] * b[1] + c as i64) as i32
        };
        "v_dot2_u32_u16" (a: u32, b: u32, c: u32) -> u32 = {
            let (a, b) = (halves_u(a), halves_u(b));
            (a[0] * b[0] + a[1] * b[1] + c as u64) as u32
        };
        "v_dot2_i32_i16 clamp" (a: u32, b: u32, c: i32) -> i32 = {
            let (a, b) = (halves_i(a), halves_i(b));
            clamp_i32(a[0] * b[0] + a[1] * b[1] + c as i64)
        };
        "v_dot2_u32_u16 clamp" (a: u32, b: u32, c: u32) -> u32 = {
            let (a, b) = (halves_u(a), halves_u(b));
            clamp_u32(a[0] * b[0] + a[1] * b[1] + c as u64)
        };
        "v_dot2c_i32_i16" (a: u32, b: u32, d: Acc<i32>) -> i32 = {
            let (a, b) = (halves_i(a), halves_i(b));
            (a[0] * b[0] + a[1] * b[1] + d.0 as i64) as i32
        };
        "v_dot4_i32_i8" | "v_dot4_i32_iu8 ss" (a: u32, b: u32, c: i32) -> i32 = (dot::<8, true, true>(a, b) + c as i64) as i32;
        "v_dot4_u32_u8" | "v_dot4_i32_iu8 uu" (a: u32, b: u32, c: u32) -> u32 = (dot::<8, false, false>(a, b) + c as i64) as u32;
        "v_dot4_i32_iu8 su" (a: u32, b: u32, c: i32) -> i32 = (dot::<8, true, false>(a, b) + c as i64) as i32;
        "v_dot4_i32_iu8 us" (a: u32, b: u32, c: i32) -> i32 = (dot::<8, false, true>(a, b) + c as i64) as i32;
        "v_dot8_i32_i4" | "v_dot8_i32_iu4 ss" (a: u32, b: u32, c: i32) -> i32 = (dot::<4, true, true>(a, b) + c as i64) as i32;
        "v_dot8_u32_u4" | "v_dot8_i32_iu4 uu" (a: u32, b: u32, c: u32) -> u32 = (dot::<4, false, false>(a, b) + c as i64) as u32;
        "v_dot8_i32_iu4 su" (a: u32, b: u32, c: i32) -> i32 = (dot::<4, true, false>(a, b) + c as i64) as i32;
        "v_dot8_i32_iu4 us" (a: u32, b: u32, c: i32) -> i32 = (dot::<4, false, true>(a, b) + c as i64) as i32;
        "v_dot4c_i32_i8" (a: u32, b: u32, d: Acc<i32>) -> i32 = (dot::<8, true, true>(a, b) + d.0 as i64) as i32;
        "v_dot8c_i32_i4" (a: u32, b: u32, d: Acc<i32>) -> i32 = (dot::<4, true, true>(a, b) + d.0 as i64) as i32;
        "v_dot4_i32_i8 clamp" | "v_dot4_i32_iu8 ss clamp" (a: u32, b: u32, c: i32) -> i32 = clamp_i32(dot::<8, true, true>(a, b) + c as i64);
        "v_dot4_u32_u8 clamp" (a: u32, b: u32, c: u32) -> u32 = clamp_u32(dot::<8, false, false>(a, b) as u64 + c as u64);
        "v_dot4_i32_iu8 uu clamp" (a: u32, b: u32, c: i32) -> i32 = clamp_i32(dot::<8, false, false>(a, b) + c as i64);
        "v_dot4_i32_iu8 su clamp" (a: u32, b: u32, c: i32) -> i32 = clamp_i32(dot::<8, true, false>(a, b) + c as i64);
        "v_dot4_i32_iu8 us clamp" (a: u32, b: u32, c: i32) -> i32 = clamp_i32(dot::<8, false, true>(a, b) + c as i64);
        "v_dot8_i32_i4 clamp" | "v_dot8_i32_iu4 ss clamp" (a: u32, b: u32, c: i32) -> i32 = clamp_i32(dot::<4, true, true>(a, b) + c as i64);
        "v_dot8_u32_u4 clamp" (a: u32, b: u32, c: u32) -> u32 = clamp_u32(dot::<4, false, false>(a, b) as u64 + c as u64);
        "v_dot8_i32_iu4 uu clamp" (a: u32, b: u32, c: i32) -> i32 = clamp_i32(dot::<4, false, false>(a, b) + c as i64);
        "v_dot8_i32_iu4 su clamp" (a: u32, b: u32, c: i32) -> i32 = clamp_i32(dot::<4, true, false>(a, b) + c as i64);
        "v_dot8_i32_iu4 us clamp" (a: u32, b: u32, c: i32) -> i32 = clamp_i32(dot::<4, false, true>(a, b) + c as i64);
    }
}

//! Moves, logic, shifts, bit fields, bytes.

use super::rows::{operations, Table};
use crate::exec::valu::kernel::entry;
use crate::exec::valu::value::{Lane, Selected};

/// Byte `index` of a dword.
#[inline(always)]
fn byte(value: u32, index: u32) -> u32 {
    value >> (8 * index) & 0xff
}

/// One byte of `v_perm_b32`: 0-7 pick a byte of {a, b}, 8-11 replicate the sign of a half, 12 is zero, and
/// more is 0xff.
#[inline(always)]
fn permuted(both: u64, selector: u32) -> u32 {
    let picked = (both >> (8 * (selector & 7))) as u32 & 0xff;
    let sign = (both >> (16 * (selector & 3) + 15)) as u32 & 1;
    if selector < 8 {
        picked
    } else if selector < 12 {
        sign * 0xff
    } else if selector == 12 {
        0
    } else {
        0xff
    }
}

#[inline(always)]
fn bit_field(value: u32, offset: u32, width: u32) -> u32 {
    (value >> (offset & 31)) & !(u32::MAX << (width & 31))
}

/// Each bit of the result is the table's bit whose number those of `a` (high), `b` and `c` (low) are.
#[inline(always)]
fn truth_table(a: u32, b: u32, c: u32, table: u32) -> u32 {
    let mut result = 0;
    for row in 0..8 {
        let either = |word: u32, bit: u32| if row >> bit & 1 != 0 { word } else { !word };
        let here = either(a, 2) & either(b, 1) & either(c, 0);
        result |= here & (table >> row & 1).wrapping_neg();
    }
    result
}

/// Sign-extend the field of `width` bits; a width of zero gives zero.
#[inline(always)]
fn signed_bit_field(value: i32, offset: u32, width: u32) -> i32 {
    let (offset, width) = (offset & 31, width & 31);
    let field = (value >> offset) as u32 & !(u32::MAX << width);
    let sign = 1u32.wrapping_shl(width.wrapping_sub(1));
    if width == 0 {
        0
    } else {
        (field ^ sign).wrapping_sub(sign) as i32
    }
}

#[inline(always)]
fn sum_of_differences(a: u32, b: u32) -> u32 {
    (0..4).map(|i| byte(a, i).abs_diff(byte(b, i))).sum()
}

/// As [`sum_of_differences`], where zero bytes of the reference `b` do not count.
#[inline(always)]
fn masked_sum_of_differences(a: u32, b: u32) -> u32 {
    (0..4)
        .map(|i| {
            if byte(b, i) == 0 {
                0
            } else {
                byte(a, i).abs_diff(byte(b, i))
            }
        })
        .sum()
}

/// Four sums over a sliding window of bytes, added to the quarters of `c`, each made 16 bits by `narrow`.
#[inline(always)]
fn sliding_sums(
    a: u64,
    b: u32,
    c: u64,
    sum: impl Fn(u32, u32) -> u32,
    narrow: impl Fn(u32) -> u16,
) -> u64 {
    (0..4).fold(0, |result, i| {
        let total = sum((a >> (8 * i)) as u32, b) + (c >> (16 * i)) as u32 % 0x1_0000;
        result | u64::from(narrow(total)) << (16 * i)
    })
}

#[inline(always)]
fn truncate(sum: u32) -> u16 {
    sum as u16
}

#[inline(always)]
fn saturate(sum: u32) -> u16 {
    sum.min(0xffff) as u16
}

/// Number of equal leading bits after the sign, as `v_ffbh_i32` counts: the position of the first bit that
/// differs from the sign, or -1.
#[inline(always)]
fn first_bit_unlike_sign(value: i32) -> u32 {
    let unlike = (value ^ (value >> 31)) as u32;
    if unlike == 0 {
        u32::MAX
    } else {
        unlike.leading_zeros()
    }
}

pub(super) fn add(table: &mut Table) {
    operations! { table, entry;
        "v_mov_b32" | "v_accvgpr_read_b32" | "v_accvgpr_write_b32" | "v_accvgpr_mov_b32"
            | "v_accvgpr_read" | "v_accvgpr_write" (a: u32) -> u32 = a;
        "v_mov_b64" (a: u64) -> u64 = a;
        "v_mov_b16" (a: u16) -> u16 = a;
        "v_not_b32" (a: u32) -> u32 = !a;
        "v_not_b16" (a: u16) -> u16 = !a;
        "v_cndmask_b32" (a: u32, b: u32, mask: bool) -> u32 = if mask { b } else { a };
        "v_cndmask_b16" (a: u16, b: u16, mask: bool) -> u16 = if mask { b } else { a };

        "v_and_b32" (a: u32, b: u32) -> u32 = a & b;
        "v_or_b32" (a: u32, b: u32) -> u32 = a | b;
        "v_xor_b32" (a: u32, b: u32) -> u32 = a ^ b;
        "v_xnor_b32" (a: u32, b: u32) -> u32 = !(a ^ b);
        "v_and_b16" (a: u16, b: u16) -> u16 = a & b;
        "v_or_b16" (a: u16, b: u16) -> u16 = a | b;
        "v_xor_b16" (a: u16, b: u16) -> u16 = a ^ b;
        "v_and_or_b32" (a: u32, b: u32, c: u32) -> u32 = a & b | c;
        "v_bitop3_b32" (a: u32, b: u32, c: u32, table: u32) -> u32 = truth_table(a, b, c, table);
        "v_bitop3_b16" (a: u16, b: u16, c: u16, table: u16) -> u16 =
            truth_table(a.into(), b.into(), c.into(), table.into()) as u16;
        "v_or3_b32" (a: u32, b: u32, c: u32) -> u32 = a | b | c;
        "v_xor3_b32" (a: u32, b: u32, c: u32) -> u32 = a ^ b ^ c;

        "v_lshlrev_b32" (s: u32, a: u32) -> u32 = a << (s & 31);
        "v_lshrrev_b32" (s: u32, a: u32) -> u32 = a >> (s & 31);
        "v_ashrrev_i32" (s: u32, a: i32) -> i32 = a >> (s & 31);
        "v_lshlrev_b16" (s: u16, a: u16) -> u16 = a << (s & 15);
        "v_lshrrev_b16" (s: u16, a: u16) -> u16 = a >> (s & 15);
        "v_ashrrev_i16" (s: u16, a: i16) -> i16 = a >> (s & 15);
        "v_lshlrev_b64" (s: u32, a: u64) -> u64 = a << (s & 63);
        "v_lshrrev_b64" (s: u32, a: u64) -> u64 = a >> (s & 63);
        "v_ashrrev_i64" (s: u32, a: i64) -> i64 = a >> (s & 63);

        "v_bfe_u32" (a: u32, offset: u32, width: u32) -> u32 = bit_field(a, offset, width);
        "v_bfe_i32" (a: i32, offset: u32, width: u32) -> i32 = signed_bit_field(a, offset, width);
        "v_bfi_b32" (mask: u32, a: u32, b: u32) -> u32 = mask & a | !mask & b;
        "v_bfm_b32" (width: u32, offset: u32) -> u32 = ((1u32 << (width & 31)) - 1) << (offset & 31);
        "v_bfrev_b32" (a: u32) -> u32 = a.reverse_bits();
        "v_bcnt_u32_b32" (a: u32, b: u32) -> u32 = a.count_ones().wrapping_add(b);
        "v_ffbh_u32" | "v_clz_i32_u32" (a: u32) -> u32 = if a == 0 { u32::MAX } else { a.leading_zeros() };
        "v_ffbl_b32" | "v_ctz_i32_b32" (a: u32) -> u32 = if a == 0 { u32::MAX } else { a.trailing_zeros() };
        "v_ffbh_i32" | "v_cls_i32" (a: i32) -> u32 = first_bit_unlike_sign(a);

        "v_alignbit_b32" (a: u32, b: u32, s: u16) -> u32 = (((a as u64) << 32 | b as u64) >> (s & 31)) as u32;
        "v_alignbyte_b32" (a: u32, b: u32, s: u16) -> u32 = (((a as u64) << 32 | b as u64) >> (8 * (s & 3))) as u32;
        "v_perm_b32" (a: u32, b: u32, s: u32) -> u32 = {
            let both = (a as u64) << 32 | b as u64;
            permuted(both, s & 0xff)
                | permuted(both, s >> 8 & 0xff) << 8
                | permuted(both, s >> 16 & 0xff) << 16
                | permuted(both, s >> 24) << 24
        };
        "v_pack_b32_f16" (low: u16, high: u16) -> u32 = low as u32 | (high as u32) << 16;
        // op_sel picks either register of each source pair.
        "v_pk_mov_b32" (low: Selected, high: Selected) -> u64 = low.0 as u64 | (high.0 as u64) << 32;
        "v_sat_pk_u8_i16" (a: u32) -> u16 = {
            let (low, high) = (a as i16, (a >> 16) as i16);
            low.clamp(0, 255) as u16 | (high.clamp(0, 255) as u16) << 8
        };

        "v_mbcnt_lo_u32_b32" (mask: u32, c: u32, lane: Lane) -> u32 = {
            let below = if lane.0 >= 32 { u32::MAX } else { (1u32 << (lane.0 & 31)) - 1 };
            (mask & below).count_ones().wrapping_add(c)
        };
        "v_mbcnt_hi_u32_b32" (mask: u32, c: u32, lane: Lane) -> u32 = {
            let below = if lane.0 < 32 { 0 } else { (1u32 << (lane.0 & 31)) - 1 };
            (mask & below).count_ones().wrapping_add(c)
        };

        "v_ashr_pk_i8_i32" (a: i32, b: i32, s: u32) -> u16 = {
            let byte = |value: i32| (value >> (s & 31)).clamp(-128, 127) as u8;
            u16::from_le_bytes([byte(a), byte(b)])
        };
        "v_ashr_pk_u8_i32" (a: i32, b: i32, s: u32) -> u16 = {
            let byte = |value: i32| (value >> (s & 31)).clamp(0, 255) as u8;
            u16::from_le_bytes([byte(a), byte(b)])
        };
        // A step of a shift register with feedback.
        "v_prng_b32" (a: u32) -> u32 = (a << 1) ^ if a >> 31 != 0 { 197 } else { 0 };

        "v_lerp_u8" (a: u32, b: u32, c: u32) -> u32 =
            (0..4).fold(0, |r, i| r | ((byte(a, i) + byte(b, i) + (byte(c, i) & 1)) / 2) << (8 * i));
        "v_sad_u8" (a: u32, b: u32, c: u32) -> u32 = sum_of_differences(a, b).wrapping_add(c);
        "v_sad_hi_u8" (a: u32, b: u32, c: u32) -> u32 = (sum_of_differences(a, b) << 16).wrapping_add(c);
        "v_sad_u16" (a: u32, b: u32, c: u32) -> u32 =
            ((a & 0xffff).abs_diff(b & 0xffff) + (a >> 16).abs_diff(b >> 16)).wrapping_add(c);
        "v_sad_u32" (a: u32, b: u32, c: u32) -> u32 = a.abs_diff(b).wrapping_add(c);
        "v_msad_u8" (a: u32, b: u32, c: u32) -> u32 = masked_sum_of_differences(a, b).wrapping_add(c);
        "v_qsad_pk_u16_u8" (a: u64, b: u32, c: u64) -> u64 = sliding_sums(a, b, c, sum_of_differences, truncate);
        "v_qsad_pk_u16_u8 clamp" (a: u64, b: u32, c: u64) -> u64 = sliding_sums(a, b, c, sum_of_differences, saturate);
        "v_mqsad_pk_u16_u8" (a: u64, b: u32, c: u64) -> u64 =
            sliding_sums(a, b, c, masked_sum_of_differences, truncate);
        "v_mqsad_pk_u16_u8 clamp" (a: u64, b: u32, c: u64) -> u64 =
            sliding_sums(a, b, c, masked_sum_of_differences, saturate);
    }
}

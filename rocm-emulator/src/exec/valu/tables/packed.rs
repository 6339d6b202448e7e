//! Packed math: each row is the operation on one half, and runs on both.

use super::half_precision::fma_to_odd;
use super::rows::{operations, Table};
use super::single::{max_number, maximum, min_number, minimum};
use crate::exec::valu::kernel::packed_entry;
use crate::exec::valu::value::{Acc, Bf16, Ieee, Raw16, F16};

pub(super) fn add(table: &mut Table) {
    operations! { table, packed_entry;
        "v_pk_add_f16" (a: F16, b: F16) -> F16 = F16(a.0 + b.0);
        "v_pk_mul_f16" (a: F16, b: F16) -> F16 = F16(a.0 * b.0);
        "v_pk_fma_f16" (a: F16, b: F16, c: F16) -> F16 = F16(fma_to_odd(a.0, b.0, c.0));
        "v_pk_fmac_f16" (a: F16, b: F16, d: Acc<F16>) -> F16 = F16(fma_to_odd(a.0, b.0, d.0.0));
        "v_pk_min_f16" | "v_pk_min_num_f16" (a: Raw16, b: Raw16, i: Ieee) -> F16 = F16(min_number(a.0, b.0, i.0));
        "v_pk_max_f16" | "v_pk_max_num_f16" (a: Raw16, b: Raw16, i: Ieee) -> F16 = F16(max_number(a.0, b.0, i.0));
        "v_pk_minimum_f16" (a: F16, b: F16) -> F16 = F16(minimum(a.0, b.0));
        "v_pk_maximum_f16" (a: F16, b: F16) -> F16 = F16(maximum(a.0, b.0));
        "v_pk_minimum3_f16" (a: F16, b: F16, c: F16) -> F16 = F16(minimum(minimum(a.0, b.0), c.0));
        "v_pk_maximum3_f16" (a: F16, b: F16, c: F16) -> F16 = F16(maximum(maximum(a.0, b.0), c.0));
        "v_pk_add_bf16" (a: Bf16, b: Bf16) -> Bf16 = Bf16(a.0 + b.0);

        "v_pk_add_f32" (a: f32, b: f32) -> f32 = a + b;
        "v_pk_mul_f32" (a: f32, b: f32) -> f32 = a * b;
        "v_pk_fma_f32" (a: f32, b: f32, c: f32) -> f32 = a.mul_add(b, c);

        "v_pk_add_u16" | "v_pk_add_i16" (a: u16, b: u16) -> u16 = a.wrapping_add(b);
        "v_pk_sub_u16" | "v_pk_sub_i16" (a: u16, b: u16) -> u16 = a.wrapping_sub(b);
        "v_pk_add_u16 clamp" (a: u16, b: u16) -> u16 = a.saturating_add(b);
        "v_pk_sub_u16 clamp" (a: u16, b: u16) -> u16 = a.saturating_sub(b);
        "v_pk_add_i16 clamp" (a: i16, b: i16) -> i16 = a.saturating_add(b);
        "v_pk_sub_i16 clamp" (a: i16, b: i16) -> i16 = a.saturating_sub(b);
        "v_pk_mul_lo_u16" (a: u16, b: u16) -> u16 = a.wrapping_mul(b);
        "v_pk_mad_u16" | "v_pk_mad_i16" (a: u16, b: u16, c: u16) -> u16 = a.wrapping_mul(b).wrapping_add(c);
        "v_pk_mad_u16 clamp" (a: u16, b: u16, c: u16) -> u16 =
            (a as u32 * b as u32).saturating_add(c as u32).min(0xffff) as u16;
        "v_pk_mad_i16 clamp" (a: i16, b: i16, c: i16) -> i16 =
            (a as i64 * b as i64 + c as i64).clamp(-0x8000, 0x7fff) as i16;
        "v_pk_min_u16" (a: u16, b: u16) -> u16 = a.min(b);
        "v_pk_max_u16" (a: u16, b: u16) -> u16 = a.max(b);
        "v_pk_min_i16" (a: i16, b: i16) -> i16 = a.min(b);
        "v_pk_max_i16" (a: i16, b: i16) -> i16 = a.max(b);
        "v_pk_lshlrev_b16" (s: u16, a: u16) -> u16 = a << (s & 15);
        "v_pk_lshrrev_b16" (s: u16, a: u16) -> u16 = a >> (s & 15);
        "v_pk_ashrrev_i16" (s: u16, a: i16) -> i16 = a >> (s & 15);
    }
}

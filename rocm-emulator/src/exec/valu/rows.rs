//! Loops over the lanes of a row.

use super::value::f16_to_f32;
use crate::exec::simd::multiversion;
use crate::exec::wave::{Row, LANES};

/// A lane mask as a new row.
pub(super) fn expanded(mask: u64) -> Row {
    let mut row = Row::ZERO;
    spread_mask(&mut row, mask);
    row
}

multiversion! {
    /// One value in every lane.
    pub(super) fn broadcast(row: &mut Row, value: u32) {
        row.0 = [value; LANES];
    }

    /// A lane mask as a row of all-ones and zeroes.
    pub(super) fn spread_mask(row: &mut Row, mask: u64) {
        let (low, high) = (mask as u32, (mask >> 32) as u32);
        for lane in 0..32 {
            row.0[lane] = 0u32.wrapping_sub(low >> lane & 1);
            row.0[32 + lane] = 0u32.wrapping_sub(high >> lane & 1);
        }
    }

    /// abs and neg of a dword.
    pub(super) fn sign(to: &mut Row, from: &Row, and: u32, xor: u32) {
        for (to, from) in to.0.iter_mut().zip(&from.0) {
            *to = from & and ^ xor;
        }
    }

    /// A half of each dword, with abs and neg.
    pub(super) fn half(to: &mut Row, from: &Row, shift: u32, and: u32, xor: u32) {
        for (to, from) in to.0.iter_mut().zip(&from.0) {
            *to = (from >> shift) & and ^ xor;
        }
    }

    /// A half of each dword as f32.
    pub(super) fn widen(to: &mut Row, from: &Row, shift: u32, and: u32, xor: u32) {
        for (to, from) in to.0.iter_mut().zip(&from.0) {
            *to = f16_to_f32(((from >> shift) & and ^ xor) as u16).to_bits();
        }
    }

    /// Two halves, each from either half.
    pub(super) fn halves(to: &mut Row, from: &Row, low: u32, high: u32, xor: u32) {
        for (to, from) in to.0.iter_mut().zip(&from.0) {
            *to = (from >> low & 0xffff | (from >> high) << 16) ^ xor;
        }
    }

    /// Zero for each denormal, of its sign.
    pub(super) fn flush_f32(row: &mut Row) {
        for value in &mut row.0 {
            if *value & 0x7f80_0000 == 0 {
                *value &= 0x8000_0000;
            }
        }
    }

    /// The same, in the low half or in both.
    pub(super) fn flush_f16(row: &mut Row, both: bool) {
        for value in &mut row.0 {
            let low = if *value & 0x7c00 == 0 { 0x8000 } else { 0xffff };
            let high = if both && *value & 0x7c00_0000 == 0 { 0x8000_0000 } else { 0xffff_0000 };
            *value &= low | high;
        }
    }

    /// The same.
    pub(super) fn flush_f64(low: &mut Row, high: &mut Row) {
        for (low, high) in low.0.iter_mut().zip(&mut high.0) {
            if *high & 0x7ff0_0000 == 0 {
                *low = 0;
                *high &= 0x8000_0000;
            }
        }
    }
}

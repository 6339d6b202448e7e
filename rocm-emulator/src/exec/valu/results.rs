//! What becomes of a result on its way out: denormals flushed, output modifier, clamp, part of a dword.

use super::riders::sdwa_field;
use super::rows::{flush_f16, flush_f32, flush_f64};
use super::value::{bf16_to_f32, f16_to_f32, f32_to_bf16, f32_to_f16, Kind};
use crate::exec::wave::{Mode, Row, Wave};
use crate::isa::{Family, SdwaSelect};

/// Replace denormals by zeroes of the same sign unless MODE keeps them; `side` is the mode's bit: 1 for
/// inputs, 2 for outputs.
pub(super) fn flush(kind: Kind, mode: &Mode, side: u8, rows: &mut [Row; 2]) {
    let (keeps_f32, keeps_others) = (mode.denorm_f32 & side != 0, mode.denorm_f64_f16 & side != 0);
    match kind {
        Kind::F32 if !keeps_f32 => flush_f32(&mut rows[0]),
        Kind::PackedF32 if !keeps_f32 => rows.iter_mut().for_each(flush_f32),
        Kind::F16 if !keeps_others => flush_f16(&mut rows[0], false),
        Kind::PackedF16 if !keeps_others => flush_f16(&mut rows[0], true),
        Kind::F64 if !keeps_others => {
            let [low, high] = rows;
            flush_f64(low, high);
        }
        _ => {}
    }
}

/// Apply `f` to every floating-point value of the result.
fn map_float(kind: Kind, rows: &mut [Row; 2], f: impl Fn(f64) -> f64) {
    let single = |bits: u32| (f(f32::from_bits(bits) as f64) as f32).to_bits();
    let half = |bits: u16| f32_to_f16(f(f16_to_f32(bits) as f64) as f32);
    let brain = |bits: u16| f32_to_bf16(f(bf16_to_f32(bits) as f64) as f32);
    let [low, high] = rows;
    for (low, high) in low.0.iter_mut().zip(&mut high.0) {
        match kind {
            Kind::F32 => *low = single(*low),
            Kind::PackedF32 => (*low, *high) = (single(*low), single(*high)),
            Kind::F64 => {
                let value = f(f64::from_bits(*low as u64 | (*high as u64) << 32)).to_bits();
                (*low, *high) = (value as u32, (value >> 32) as u32);
            }
            Kind::F16 => *low = half(*low as u16) as u32,
            Kind::PackedF16 => {
                *low = half(*low as u16) as u32 | (half((*low >> 16) as u16) as u32) << 16;
            }
            Kind::Bf16 => *low = brain(*low as u16) as u32,
            Kind::PackedBf16 => {
                *low = brain(*low as u16) as u32 | (brain((*low >> 16) as u16) as u32) << 16;
            }
            _ => {}
        }
    }
}

/// Clamp to 0..=1. NaN becomes zero with DX10_CLAMP, and stays otherwise.
pub(super) fn clamp(kind: Kind, nan_to_zero: bool, rows: &mut [Row; 2]) {
    map_float(kind, rows, |value| {
        if value.is_nan() {
            if nan_to_zero {
                0.0
            } else {
                value
            }
        } else if value > 0.0 {
            value.min(1.0)
        } else {
            0.0
        }
    });
}

/// Multiply the result by 2, 4 or 1/2; -0 becomes +0. The hardware ignores the modifier where the result's
/// denormals are kept, and in IEEE mode.
pub(super) fn omod(omod: u8, kind: Kind, wave: &Wave, rows: &mut [Row; 2]) {
    let denorm = match kind {
        Kind::F32 | Kind::PackedF32 => wave.mode.denorm_f32,
        _ => wave.mode.denorm_f64_f16,
    };
    let ieee = wave.mode.ieee && wave.target.family() != Family::Rdna4;
    if omod == 0 || denorm & 2 != 0 || ieee {
        return;
    }
    let factor = [1.0, 2.0, 4.0, 0.5][omod as usize & 3];
    map_float(kind, rows, |value| value * factor);
    flush(kind, &wave.mode, 2, rows);
    // A sum with +0 is never -0.
    map_float(kind, rows, |value| value + 0.0);
}

/// Place the result in part of the dword; `unused` says what becomes of the rest.
pub(super) fn sdwa_write(select: SdwaSelect, unused: u8, result: &mut Row, old: &Row) {
    let (shift, bits) = sdwa_field(select);
    let field = (u32::MAX >> (32 - bits)) << shift;
    for (value, old) in result.0.iter_mut().zip(&old.0) {
        let placed = *value << shift & field;
        *value = match unused {
            0 => placed,
            1 => {
                // Sign-extend above, zero below.
                let left = placed << (32 - shift - bits);
                ((left as i32 >> (32 - bits)) as u32) << shift
            }
            _ => *old & !field | placed,
        };
    }
}

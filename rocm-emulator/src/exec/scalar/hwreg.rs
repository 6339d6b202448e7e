//! `s_getreg` and `s_setreg`: the MODE register for real, sensible values for the others.

use std::time::Instant;

use crate::exec::wave::{Mode, Wave};
use crate::isa::Family;

/// Hardware register numbers (ISA manuals, "Hardware registers").
const MODE: u32 = 1;
/// The bit in it that `s_set_gpr_idx_on` sets, on GFX9.
const VGPR_INDEXING: u32 = 27;
const STATUS: u32 = 2;
const FLAT_SCRATCH_LO: u32 = 20;
const FLAT_SCRATCH_HI: u32 = 21;
/// GFX10 and GFX11 `SHADER_CYCLES`; GFX12 has a low and a high one.
const SHADER_CYCLES: u32 = 29;
const SHADER_CYCLES_HI: u32 = 30;

/// The field that a hwreg immediate names: register, offset, width.
fn field(immediate: u32) -> (u32, u32, u32) {
    let (id, offset) = (immediate & 63, immediate >> 6 & 31);
    (id, offset, (immediate >> 11 & 31) + 1)
}

fn mask(width: u32) -> u32 {
    u32::MAX >> (32 - width)
}

/// Ticks of the 100 MHz reference clock since the launch began.
pub(crate) fn time(start: Instant) -> u64 {
    (start.elapsed().as_nanos() / 10) as u64
}

fn read(wave: &Wave, id: u32, start: Instant) -> u32 {
    match id {
        MODE => mode_bits(&wave.mode) | u32::from(wave.vgpr_indexing) << VGPR_INDEXING,
        STATUS => {
            let bit = |value: bool, at: u32| u32::from(value) << at;
            let vccz = wave.vcc & wave.lane_mask() == 0;
            // SCC, EXECZ, VCCZ, and VALID at their usual places.
            bit(wave.scc, 0) | bit(wave.exec() == 0, 9) | bit(vccz, 10) | bit(true, 16)
        }
        FLAT_SCRATCH_LO => wave.flat_scratch as u32,
        FLAT_SCRATCH_HI => (wave.flat_scratch >> 32) as u32,
        SHADER_CYCLES => time(start) as u32,
        SHADER_CYCLES_HI => (time(start) >> 32) as u32,
        // Hardware ids, allocation sizes, trap state: the emulator has one of each, numbered 0.
        _ => 0,
    }
}

/// `s_getreg_b32`.
pub(crate) fn get(wave: &Wave, immediate: u32, start: Instant) -> u32 {
    let (id, offset, width) = field(immediate);
    read(wave, id, start) >> offset & mask(width)
}

/// `s_setreg_b32`.
pub(crate) fn set(wave: &mut Wave, immediate: u32, value: u32) {
    let (id, offset, width) = field(immediate);
    let merge = |old: u32| {
        let mask = mask(width) << offset;
        old & !mask | value << offset & mask
    };
    match id {
        MODE => {
            let indexing = u32::from(wave.vgpr_indexing) << VGPR_INDEXING;
            let bits = merge(mode_bits(&wave.mode) | indexing);
            let modal = wave.target.family() != Family::Rdna4;
            wave.mode = mode_of(bits, modal);
            let has_indexing = wave.target.family() == Family::Cdna;
            wave.vgpr_indexing = has_indexing && bits >> VGPR_INDEXING & 1 != 0;
        }
        FLAT_SCRATCH_LO => {
            let low = merge(wave.flat_scratch as u32);
            wave.flat_scratch = wave.flat_scratch >> 32 << 32 | u64::from(low);
        }
        FLAT_SCRATCH_HI => {
            let high = merge((wave.flat_scratch >> 32) as u32);
            wave.flat_scratch = wave.flat_scratch & 0xffff_ffff | u64::from(high) << 32;
        }
        // Writes to the others have no effect that a program could see here.
        _ => {}
    }
}

fn mode_bits(mode: &Mode) -> u32 {
    u32::from(mode.round_f32)
        | u32::from(mode.round_f64_f16) << 2
        | u32::from(mode.denorm_f32) << 4
        | u32::from(mode.denorm_f64_f16) << 6
        | u32::from(mode.dx10_clamp) << 8
        | u32::from(mode.ieee) << 9
}

fn mode_of(bits: u32, modal: bool) -> Mode {
    let two = |at: u32| (bits >> at & 3) as u8;
    Mode {
        round_f32: two(0),
        round_f64_f16: two(2),
        denorm_f32: two(4),
        denorm_f64_f16: two(6),
        dx10_clamp: modal && bits >> 8 & 1 != 0,
        ieee: modal && bits >> 9 & 1 != 0,
    }
}

/// `s_round_mode` and `s_denorm_mode` write four bits of MODE from their immediate.
pub(crate) fn set_mode_bits(wave: &mut Wave, offset: u32, value: u32) {
    set(wave, MODE | offset << 6 | 3 << 11, value);
}

//! `s_movrel`: moves between scalar registers whose numbers have M0 added. ISA manuals, "SOP1".

use super::op::ScalarOp;
use super::operand::{Destination, Source};
use crate::exec::wave::Wave;

/// The register `first + offset`, aligned to what is moved. Where there is none, a source is s0 and a destination
/// is not written.
fn resolve(first: usize, offset: u32, dwords: usize, wave: &Wave) -> Option<usize> {
    let number = first.saturating_add(offset as usize) & !(dwords - 1);
    (number + dwords <= wave.sgpr.len()).then_some(number)
}

/// The dwords that a source has with its register's number moved; what is no register is as it is.
fn read(source: Source, offset: u32, dwords: usize, wave: &Wave) -> u64 {
    let moved = match source {
        Source::Register(first) => {
            let number = resolve(first.into(), offset, dwords, wave).unwrap_or(0);
            Source::Register(number as u8)
        }
        other => other,
    };
    match dwords {
        1 => moved.read32(wave).into(),
        _ => moved.read64(wave),
    }
}

fn write(destination: Destination, offset: u32, dwords: usize, wave: &mut Wave, value: u64) {
    let moved = match destination {
        Destination::Register(first) => match resolve(first.into(), offset, dwords, wave) {
            Some(number) => Destination::Register(number as u8),
            None => Destination::None,
        },
        other => other,
    };
    match dwords {
        1 => moved.write32(wave, value as u32),
        _ => moved.write64(wave, value),
    }
}

/// `s_movrels`: the source's number is moved.
pub(super) fn source<const DWORDS: usize>(wave: &mut Wave, op: &ScalarOp) {
    let value = read(op.src[0], wave.m0, DWORDS, wave);
    write(op.dst, 0, DWORDS, wave, value);
}

/// `s_movreld`: the destination's number is moved.
pub(super) fn destination<const DWORDS: usize>(wave: &mut Wave, op: &ScalarOp) {
    let value = read(op.src[0], 0, DWORDS, wave);
    write(op.dst, wave.m0, DWORDS, wave, value);
}

/// `s_movrelsd_2`: the source's is moved by M0's bits 0 to 9, the destination's by bits 16 to 25.
pub(super) fn both(wave: &mut Wave, op: &ScalarOp) {
    let value = read(op.src[0], wave.m0 & 0x3ff, 1, wave);
    write(op.dst, wave.m0 >> 16 & 0x3ff, 1, wave, value);
}

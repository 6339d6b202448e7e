//! Scalar operands.

use crate::exec::wave::{Wave, SGPRS};
use crate::isa::{Operand, Special};

/// Where a scalar value comes from.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Source {
    Register(u8),
    Special(Special),
    Constant {
        narrow: u32,
        /// What a 64-bit operand reads.
        wide: u64,
    },
}

impl Source {
    pub const ZERO: Source = Source::Constant { narrow: 0, wide: 0 };

    pub fn lower(operand: Operand) -> Option<Source> {
        let constant = |narrow, wide| Source::Constant { narrow, wide };
        Some(match operand {
            Operand::Sgpr { first, dwords }
                if usize::from(first) + usize::from(dwords.max(1)) <= SGPRS =>
            {
                Source::Register(first as u8)
            }
            Operand::Special { reg, .. } => Source::Special(reg),
            Operand::Integer(value) | Operand::Immediate(value) => {
                constant(value as u32, i64::from(value) as u64)
            }
            Operand::Literal(value) => constant(value, value.into()),
            Operand::Float(bits) => constant(bits, wide_float(bits)),
            _ => return None,
        })
    }

    #[inline(always)]
    pub fn read32(self, wave: &Wave) -> u32 {
        match self {
            Source::Register(first) => wave.sgpr[usize::from(first)],
            Source::Constant { narrow, .. } => narrow,
            Source::Special(register) => wave.special(register),
        }
    }

    #[inline(always)]
    pub fn read64(self, wave: &Wave) -> u64 {
        match self {
            Source::Register(first) => {
                let first = usize::from(first);
                // The last register has no successor; the decoder makes pairs even.
                let high = wave.sgpr.get(first + 1).copied().unwrap_or(0);
                u64::from(wave.sgpr[first]) | u64::from(high) << 32
            }
            Source::Constant { wide, .. } => wide,
            Source::Special(register) => wave.special64(register),
        }
    }
}

/// An inline float constant as a 64-bit operand reads it.
fn wide_float(bits: u32) -> u64 {
    const INVERSE_2PI_F32: u32 = 0x3e22_f983;
    match bits {
        INVERSE_2PI_F32 => 0x3fc4_5f30_6dc9_c882,
        _ => f64::from(f32::from_bits(bits)).to_bits(),
    }
}

/// Where a scalar result goes.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Destination {
    None,
    Register(u8),
    Special(Special),
}

impl Destination {
    /// `dwords` is what the instruction writes.
    pub fn lower(operand: Operand, dwords: u16) -> Option<Destination> {
        Some(match operand {
            Operand::None => Destination::None,
            Operand::Sgpr { first, .. } if usize::from(first + dwords) <= SGPRS => {
                Destination::Register(first as u8)
            }
            Operand::Special { reg, .. } => Destination::Special(reg),
            _ => return None,
        })
    }

    #[inline(always)]
    pub fn write32(self, wave: &mut Wave, value: u32) {
        match self {
            Destination::Register(first) => wave.sgpr[usize::from(first)] = value,
            Destination::Special(register) => wave.set_special(register, value),
            Destination::None => {}
        }
    }

    #[inline(always)]
    pub fn write64(self, wave: &mut Wave, value: u64) {
        match self {
            Destination::Register(first) => {
                let first = usize::from(first);
                wave.sgpr[first] = value as u32;
                if let Some(high) = wave.sgpr.get_mut(first + 1) {
                    *high = (value >> 32) as u32;
                }
            }
            Destination::Special(register) => wave.set_special64(register, value),
            Destination::None => {}
        }
    }

    /// What the destination holds, for instructions that also read it.
    pub fn source(self) -> Source {
        match self {
            Destination::None => Source::ZERO,
            Destination::Register(first) => Source::Register(first),
            Destination::Special(register) => Source::Special(register),
        }
    }
}

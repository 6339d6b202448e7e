//! Operands resolved at lowering: register numbers, constants as rows, scalar registers.

use crate::exec::{Row, Wave, LANES};
use crate::isa::{Operand, Special};

use super::lowering::Unimplemented;
use super::value::Kind;

/// A scalar dword that vector instructions read or write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ScalarReg {
    Sgpr(u8),
    Named(Special),
}

impl ScalarReg {
    /// The register of an operand, if it is scalar.
    pub fn of(operand: Operand) -> Result<Option<ScalarReg>, Unimplemented> {
        Ok(match operand {
            Operand::Sgpr { first, dwords } => {
                if first as usize + dwords.max(1) as usize > 106 {
                    return Err(Unimplemented::new(format!("s{first} does not exist")));
                }
                Some(ScalarReg::Sgpr(first as u8))
            }
            Operand::Special {
                reg: Special::LdsDirect,
                ..
            } => {
                return Err(Unimplemented::new(
                    "lds_direct as the operand of a vector instruction",
                ))
            }
            Operand::Special { reg, .. } => Some(ScalarReg::Named(reg)),
            _ => None,
        })
    }

    pub fn read(self, wave: &Wave) -> u32 {
        match self {
            ScalarReg::Sgpr(number) => wave.sgpr.get(number as usize).copied().unwrap_or(0),
            ScalarReg::Named(register) => wave.special(register),
        }
    }

    pub fn read_pair(self, wave: &Wave) -> u64 {
        match self {
            ScalarReg::Sgpr(number) => {
                let high = ScalarReg::Sgpr(number + 1);
                self.read(wave) as u64 | (high.read(wave) as u64) << 32
            }
            ScalarReg::Named(register) => wave.special64(register),
        }
    }

    /// A lane mask: one dword in wave32, a pair in wave64.
    pub fn read_mask(self, wave: &Wave) -> u64 {
        if wave.lanes == 32 {
            self.read(wave) as u64
        } else {
            self.read_pair(wave)
        }
    }

    pub fn write(self, wave: &mut Wave, value: u32) {
        match self {
            ScalarReg::Sgpr(number) => {
                if let Some(register) = wave.sgpr.get_mut(number as usize) {
                    *register = value;
                }
            }
            ScalarReg::Named(register) => wave.set_special(register, value),
        }
    }

    /// Write a lane mask: one dword in wave32, a pair in wave64.
    pub fn write_mask(self, wave: &mut Wave, mask: u64) {
        if wave.lanes == 32 {
            self.write(wave, mask as u32);
            return;
        }
        match self {
            ScalarReg::Sgpr(number) => {
                self.write(wave, mask as u32);
                ScalarReg::Sgpr(number + 1).write(wave, (mask >> 32) as u32);
            }
            ScalarReg::Named(register) => wave.set_special64(register, mask),
        }
    }
}

/// A source of a vector instruction.
#[derive(Clone, Debug)]
pub(super) enum Source {
    /// Not read: lane numbers.
    Nothing,
    /// MODE's IEEE bit, as a row of all-ones or zeroes.
    Ieee,
    Vgpr(u16),
    Agpr(u16),
    /// A constant, broadcast.
    Rows(Box<[Row; 2]>),
    /// A scalar register, broadcast.
    Scalar(ScalarReg),
    /// A scalar register where the operation reads two dwords: the high one is zero.
    ScalarExtended(ScalarReg),
    /// A scalar pair, broadcast.
    ScalarPair(ScalarReg),
    /// A lane mask in scalar registers, one lane to a bit.
    Mask(ScalarReg),
}

impl Source {
    /// Resolve an operand that is read as `kind`.
    pub fn of(operand: Operand, kind: Kind) -> Result<Source, Unimplemented> {
        if let Some(register) = ScalarReg::of(operand)? {
            return Ok(match kind {
                Kind::Mask => Source::Mask(register),
                _ if kind.dwords() == 2 => match operand {
                    Operand::Sgpr { dwords: 1, .. } | Operand::Special { dwords: 1, .. }
                        if !matches!(kind, Kind::PackedF32 | Kind::PackedB32) =>
                    {
                        Source::ScalarExtended(register)
                    }
                    _ => Source::ScalarPair(register),
                },
                _ => Source::Scalar(register),
            });
        }
        match operand {
            Operand::Vgpr { first, .. } => Ok(Source::Vgpr(first)),
            Operand::Agpr { first, .. } => Ok(Source::Agpr(first)),
            Operand::Integer(_) | Operand::Float(_) | Operand::Literal(_) => {
                let bits = constant(operand, kind);
                Ok(Source::Rows(Box::new([
                    Row([bits as u32; LANES]),
                    Row([(bits >> 32) as u32; LANES]),
                ])))
            }
            other => Err(Unimplemented::new(format!(
                "{other:?} as the source of a vector instruction"
            ))),
        }
    }
}

/// The bits that a constant has as an operand of `kind` (ISA manuals, "Inline constants" and "Literal
/// constants"): inline floats take the operand's format, inline integers are sign-extended bits, and a
/// literal is the high dword of an f64, the low dword of anything else.
pub(super) fn constant(operand: Operand, kind: Kind) -> u64 {
    match operand {
        Operand::Integer(value) => match kind {
            Kind::PackedF32 | Kind::PackedB32 => value as u32 as u64 * 0x1_0000_0001,
            _ => value as i64 as u64,
        },
        Operand::Float(bits) => match kind {
            Kind::F16 | Kind::B16 | Kind::PackedF16 => {
                // 1/(2*pi) is the one inline constant whose f16 is not exact; rounding gives 0x3118.
                half::f16::from_f32(f32::from_bits(bits)).to_bits() as u64
            }
            Kind::Bf16 | Kind::PackedBf16 => {
                half::bf16::from_f32(f32::from_bits(bits)).to_bits() as u64
            }
            Kind::F64 | Kind::U64 | Kind::I64 => {
                if bits & 0x7fff_ffff == 0x3e22_f983 {
                    // The f64 constant is 1/(2*pi) rounded to f64, not the f32 one widened.
                    0x3fc4_5f30_6dc9_c882 | (bits as u64 & 0x8000_0000) << 32
                } else {
                    f64::from(f32::from_bits(bits)).to_bits()
                }
            }
            Kind::PackedF32 | Kind::PackedB32 => bits as u64 * 0x1_0000_0001,
            _ => bits as u64,
        },
        Operand::Literal(bits) => match kind {
            Kind::F64 => (bits as u64) << 32,
            Kind::I64 => bits as i32 as i64 as u64,
            Kind::PackedF32 | Kind::PackedB32 => bits as u64 * 0x1_0000_0001,
            _ => bits as u64,
        },
        _ => 0,
    }
}

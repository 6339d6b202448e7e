//! Registers, numbered.

use crate::isa::{Operand, Special};

/// Registers under one numbering: scalar ones, then the two vector files.
pub(crate) const REGISTERS: usize = 768;
pub(crate) const VCC: u16 = 106;
const TTMP: u16 = 108;
pub(crate) const M0: u16 = 124;
pub(crate) const EXEC: u16 = 126;
const SCALARS: u16 = 256;
const ACCUMULATION: u16 = 512;

/// Consecutive registers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Span {
    pub first: u16,
    pub count: u16,
}

impl Span {
    pub const fn new(first: u16, count: u16) -> Span {
        Span { first, count }
    }

    /// Those that an operand names.
    pub fn of(operand: Operand) -> Option<Span> {
        let span =
            |base: u16, first: u16, dwords: u8| Span::new(base + first, dwords.max(1).into());
        Some(match operand {
            Operand::Sgpr { first, dwords } => span(0, first, dwords),
            Operand::Vgpr { first, dwords } => span(SCALARS, first, dwords),
            Operand::Agpr { first, dwords } => span(ACCUMULATION, first, dwords),
            Operand::Special { reg, dwords } => match reg {
                Special::VccLo => span(VCC, 0, dwords),
                Special::VccHi => span(VCC, 1, dwords),
                Special::ExecLo => span(EXEC, 0, dwords),
                Special::ExecHi => span(EXEC, 1, dwords),
                Special::M0 => span(M0, 0, 1),
                Special::Ttmp(at) => span(TTMP, at.into(), dwords),
                _ => return None,
            },
            _ => return None,
        })
    }

    pub fn overlaps(self, other: Span) -> bool {
        self.first < other.first + other.count && other.first < self.first + self.count
    }

    pub fn is_vector(self) -> bool {
        self.first >= SCALARS
    }

    pub fn registers(self) -> std::ops::Range<usize> {
        let first = usize::from(self.first);
        first..(first + usize::from(self.count)).min(REGISTERS)
    }
}

/// A register's name.
pub(crate) fn name(register: usize) -> String {
    const VCC_AT: usize = VCC as usize;
    match register {
        0..VCC_AT => format!("s{register}"),
        106 => "vcc_lo".into(),
        107 => "vcc_hi".into(),
        124 => "m0".into(),
        126 => "exec_lo".into(),
        127 => "exec_hi".into(),
        108..124 => format!("ttmp{}", register - 108),
        256..512 => format!("v{}", register - 256),
        _ => format!("a{}", register.wrapping_sub(512)),
    }
}

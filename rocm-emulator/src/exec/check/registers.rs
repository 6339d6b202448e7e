//! Registers, numbered. Where one file has vector and accumulation registers, they are numbered on from the first.

use crate::exec::wave::{Row, Wave};
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

/// What a wavefront holds in a vector register.
pub(crate) fn row(wave: &Wave, register: usize) -> &Row {
    match register.checked_sub(ACCUMULATION.into()) {
        Some(register) if !wave.agpr.is_empty() => &wave.agpr[register],
        _ => &wave.vgpr[register - usize::from(SCALARS)],
    }
}

/// The same, to change it.
pub(crate) fn row_mut(wave: &mut Wave, register: usize) -> &mut Row {
    match register.checked_sub(ACCUMULATION.into()) {
        Some(register) if !wave.agpr.is_empty() => &mut wave.agpr[register],
        _ => &mut wave.vgpr[register - usize::from(SCALARS)],
    }
}

/// A register's name in a wavefront.
pub(crate) fn name(register: usize, wave: &Wave) -> String {
    const VCC_AT: usize = VCC as usize;
    let first = usize::from(SCALARS);
    if let Some(offset) = wave.accum_offset.map(usize::from) {
        if register >= first + offset {
            return format!("a{}", register - first - offset);
        }
    }
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exec::wave::Mode;
    use crate::isa::Target;

    fn wave(target: Target, vgprs: usize, agprs: usize, accum_offset: Option<u16>) -> Wave {
        let mode = Mode {
            round_f32: 0,
            round_f64_f16: 0,
            denorm_f32: 3,
            denorm_f64_f16: 3,
            dx10_clamp: true,
            ieee: true,
        };
        let mut wave = Wave::new(target, 64, vgprs, agprs, mode);
        wave.accum_offset = accum_offset;
        wave
    }

    #[test]
    fn accumulation_registers_of_one_file_and_of_two() {
        let mut one = wave(Target::Gfx942, 512, 0, Some(160));
        assert_eq!(name(256 + 159, &one), "v159");
        assert_eq!(name(256 + 160, &one), "a0");
        assert_eq!(name(256 + 511, &one), "a351");
        row_mut(&mut one, 256 + 300).0[0] = 7;
        assert_eq!((one.vgpr[300].0[0], row(&one, 556).0[0]), (7, 7));
        let mut two = wave(Target::Gfx908, 128, 128, None);
        assert_eq!(name(256 + 127, &two), "v127");
        assert_eq!(name(512 + 127, &two), "a127");
        row_mut(&mut two, 512 + 100).0[0] = 7;
        assert_eq!((two.agpr[100].0[0], row(&two, 612).0[0]), (7, 7));
    }
}

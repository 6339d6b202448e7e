//! Where the elements of A and B are.

use super::elements::Element;
use super::layout::Layout;
use super::multiply::Number;
use crate::exec::wave::{Row, Wave, LANES};
use crate::isa::Operand;

/// A register operand of a matrix instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Registers {
    Vgpr(usize),
    Agpr(usize),
}

impl Registers {
    pub fn of(operand: Operand) -> Option<Registers> {
        match operand {
            Operand::Vgpr { first, .. } => Some(Registers::Vgpr(first as usize)),
            Operand::Agpr { first, .. } => Some(Registers::Agpr(first as usize)),
            _ => None,
        }
    }

    pub fn row(self, wave: &Wave, index: usize) -> &Row {
        match self {
            Registers::Vgpr(first) => &wave.vgpr[first + index],
            Registers::Agpr(first) => &wave.agpr[first + index],
        }
    }

    pub fn row_mut(self, wave: &mut Wave, index: usize) -> &mut Row {
        match self {
            Registers::Vgpr(first) => &mut wave.vgpr[first + index],
            Registers::Agpr(first) => &mut wave.agpr[first + index],
        }
    }
}

/// A or B.
pub(super) struct Input {
    pub registers: Registers,
    pub element: Element,
    pub layout: Layout,
    /// Negate the even and the odd elements of each register.
    pub neg: [bool; 2],
    /// BLGP: the lane that each lane takes its data from.
    pub lanes: Option<[u8; LANES]>,
}

impl Input {
    /// Elements into the dense matrix.
    pub fn gather<T: Number>(&self, wave: &Wave, out: &mut [T]) {
        let width = self.layout.width;
        let mut values = [T::ZERO; LANES];
        for (element, bases) in self.layout.bases.chunks(self.layout.groups).enumerate() {
            self.element(wave, element, &mut values);
            for (group, base) in bases.iter().enumerate() {
                if let Some(base) = *base {
                    out[base..base + width]
                        .copy_from_slice(&values[group * width..(group + 1) * width]);
                }
            }
        }
    }

    /// One element of every lane.
    pub fn element<T: Number>(&self, wave: &Wave, element: usize, values: &mut [T; LANES]) {
        let bits = self.element.bits();
        let (register, shift) = (element * bits / 32, element * bits % 32);
        let low = self.registers.row(wave, register);
        if bits == 64 {
            let high = self.registers.row(wave, register + 1);
            for (value, (low, high)) in values.iter_mut().zip(low.0.iter().zip(&high.0)) {
                *value = T::from_bits(*low as u64 | (*high as u64) << 32);
            }
        } else {
            T::unpack(self.element, low, shift as u32, values);
        }
        if self.neg[element & 1] {
            for value in values.iter_mut() {
                *value = value.neg();
            }
        }
        if let Some(from) = &self.lanes {
            let source = *values;
            for (value, &lane) in values.iter_mut().zip(from) {
                *value = source[lane as usize & (LANES - 1)];
            }
        }
    }
}

//! What lowering a memory instruction needs: the kernel's registers, and a number for each instruction.

use std::cell::Cell;

use super::transfer::{self, Transfer};
use crate::exec::wave::{Row, Wave};
use crate::isa::{d16_loads_keep_half, Element, Operand, Target};

/// Consecutive vector registers, checked against the kernel's allocation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Registers {
    pub first: u16,
    pub count: u8,
    pub accumulation: bool,
}

impl Registers {
    #[inline(always)]
    pub fn rows(self, wave: &mut Wave) -> &mut [Row] {
        let file = if self.accumulation {
            &mut wave.agpr
        } else {
            &mut wave.vgpr
        };
        let first = usize::from(self.first);
        &mut file[first..first + usize::from(self.count)]
    }
}

/// What lowering needs to know of the kernel, and hands out.
pub(crate) struct Lowering {
    pub vgprs: usize,
    pub agprs: usize,
    pub target: Target,
    next_site: Cell<u32>,
}

impl Lowering {
    /// For a kernel with so many vector and accumulation registers.
    pub fn new(target: Target, vgprs: usize, agprs: usize) -> Lowering {
        Lowering {
            vgprs,
            agprs,
            target,
            next_site: Cell::new(0),
        }
    }

    /// `rows` registers from the operand's first on, if the kernel has them.
    pub fn registers(&self, operand: Operand, rows: u8) -> Option<Registers> {
        let (first, accumulation, has) = match operand {
            Operand::Vgpr { first, .. } => (first, false, self.vgprs),
            Operand::Agpr { first, .. } => (first, true, self.agprs),
            _ => return None,
        };
        (usize::from(first) + usize::from(rows) <= has).then_some(Registers {
            first,
            count: rows,
            accumulation,
        })
    }

    /// The load of an element, see [`transfer::load_of`].
    pub fn load(&self, element: Element) -> Option<Transfer> {
        transfer::load_of(element, d16_loads_keep_half(self.target))
    }

    /// A number for a memory instruction, to remember its last allocation by.
    pub fn site(&self) -> u32 {
        let site = self.next_site.get();
        self.next_site.set(site + 1);
        site
    }

    /// How many numbers [`Lowering::site`] gave.
    pub fn sites(&self) -> u32 {
        self.next_site.get()
    }
}

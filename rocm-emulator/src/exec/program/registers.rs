//! The vector registers of a kernel's wavefronts, and where an instruction's operands lie in them.
//!
//! CDNA2 and later have one file: `a0` is the register at the kernel's `accum_offset`, which instructions may also call
//! by its number as a vector register (CDNA3 ISA manual, "VGPRs"; LLVM's AMDGPUUsage, `accum_offset`). There operands of
//! either kind become numbers of that file. gfx908 has a file of its own for accumulation registers.

use crate::codeobject::KernelDescriptor;
use crate::exec::wave::SGPRS;
use crate::fault::FaultKind;
use crate::isa::{Inst, Operand, Traits};

/// Vector registers that instructions can name.
const NAMED: usize = 256;

/// What a kernel allocates for each wavefront.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RegisterFile {
    /// All registers of the file that instructions call `v`.
    pub vgprs: usize,
    /// Registers of a file of their own.
    pub agprs: usize,
    /// Where `a0` lies in the file of both; `None` where there is no such file.
    pub accum_offset: Option<u16>,
    /// Accumulation registers, wherever they are.
    accumulation: usize,
}

impl RegisterFile {
    pub fn of(descriptor: &KernelDescriptor) -> RegisterFile {
        let unified = descriptor.accum_offset > 0;
        let accumulation = descriptor.agprs as usize;
        RegisterFile {
            vgprs: descriptor.vgprs as usize,
            agprs: if unified { 0 } else { accumulation },
            accum_offset: unified.then_some(descriptor.accum_offset as u16),
            accumulation,
        }
    }

    /// Make the operands numbers of the file.
    ///
    /// # Errors
    /// Names the first register that the kernel does not have.
    pub fn place(&self, inst: &mut Inst) -> Result<(), FaultKind> {
        // A block moves those of its registers that there are.
        if !inst.op.columns.has(Traits::BLOCK) {
            for operand in operands(inst) {
                self.check(*operand)?;
            }
        }
        self.number(inst);
        Ok(())
    }

    /// The same for an instruction that is looked at, and not executed.
    pub fn number(&self, inst: &mut Inst) {
        let Some(offset) = self.accum_offset else {
            return;
        };
        for operand in operands(inst) {
            if let Operand::Agpr { first, dwords } = *operand {
                let first = first + offset;
                *operand = Operand::Vgpr { first, dwords };
            }
        }
    }

    fn check(&self, operand: Operand) -> Result<(), FaultKind> {
        let (file, first, dwords, has) = match operand {
            Operand::Vgpr { first, dwords } => ('v', first, dwords, self.vgprs.min(NAMED)),
            Operand::Agpr { first, dwords } => ('a', first, dwords, self.accumulation),
            Operand::Sgpr { first, dwords } => ('s', first, dwords, SGPRS),
            _ => return Ok(()),
        };
        let last = usize::from(first) + usize::from(dwords.max(1)) - 1;
        if last < has {
            return Ok(());
        }
        Err(FaultKind::RegisterOutOfRange {
            register: format!("{file}{last}"),
            allocated: self.allocated(file, has),
        })
    }

    /// What there is of a kind, in words.
    fn allocated(&self, file: char, has: usize) -> String {
        let registers = match has {
            0 => format!("no {file} registers"),
            _ => format!("{file}0 to {file}{}", has - 1),
        };
        match self.accum_offset {
            Some(offset) if file != 's' => {
                let all = self.vgprs;
                format!("{registers} ({all} vector registers in all, a0 is v{offset})")
            }
            _ => registers,
        }
    }
}

fn operands(inst: &mut Inst) -> impl Iterator<Item = &mut Operand> {
    let second = inst.second.as_deref_mut().into_iter();
    let second = second.flat_map(|half| half.dst.iter_mut().chain(&mut half.src));
    inst.dst.iter_mut().chain(&mut inst.src).chain(second)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::isa::{decode, Target};

    /// 160 vector registers and 96 for accumulation, as AMD's attention kernels have.
    const UNIFIED: RegisterFile = RegisterFile {
        vgprs: 256,
        agprs: 0,
        accum_offset: Some(160),
        accumulation: 96,
    };
    const SEPARATE: RegisterFile = RegisterFile {
        vgprs: 64,
        agprs: 64,
        accum_offset: None,
        accumulation: 64,
    };

    fn load(acc: u32, vdst: u32) -> Inst {
        // global_load_dwordx4 vdst, v[0:1], off
        decode(
            Target::Gfx942,
            &[0xdc5c_8000, vdst << 24 | acc << 23 | 0x7f << 16],
        )
        .unwrap()
    }

    #[test]
    fn an_accumulation_register_is_the_vector_register_that_many_above() {
        for (acc, number, place) in [(1, 0, 160), (1, 92, 252), (0, 160, 160), (0, 158, 158)] {
            let mut inst = load(acc, number);
            UNIFIED.place(&mut inst).unwrap();
            let (first, dwords) = (place, 4);
            assert_eq!(inst.dst[0], Operand::Vgpr { first, dwords });
        }
    }

    #[test]
    fn the_last_register_is_the_last() {
        let message = |file: RegisterFile, acc, number| {
            let placed = file.place(&mut load(acc, number));
            placed.err().map(|error| error.to_string())
        };
        assert_eq!(message(UNIFIED, 0, 252), None);
        assert_eq!(message(UNIFIED, 1, 92), None);
        let past = message(UNIFIED, 1, 93).unwrap();
        assert_eq!(
            past,
            "register out of range: a96 is used, but the kernel has a0 to a95 (256 vector registers in all, a0 is v160)"
        );
        let past = message(UNIFIED, 0, 253).unwrap();
        assert!(
            past.contains("v256 is used, but the kernel has v0 to v255"),
            "{past}"
        );
        assert_eq!(message(SEPARATE, 0, 60), None);
        let past = message(SEPARATE, 0, 61).unwrap();
        assert!(
            past.ends_with("v64 is used, but the kernel has v0 to v63"),
            "{past}"
        );
    }
}

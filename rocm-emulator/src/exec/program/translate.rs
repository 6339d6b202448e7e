//! A kernel's code, decoded and lowered once: a vector of steps with resolved operands and branch targets.
//!
//! Only code that is reachable from the kernel's entry is translated, by following branches; a jump through a
//! register to code not seen yet extends the program.

use std::collections::HashMap;

use super::code::{branch_target, words_at};
use super::lower::lower;
use super::registers::RegisterFile;
use super::step::{Condition, Op, Step, NOWHERE};
use crate::codeobject::LoadedKernel;
use crate::exec::memory::Lowering;
use crate::fault::FaultKind;
use crate::isa;

/// Translated code.
pub(crate) struct Program {
    pub steps: Vec<Step>,
    by_address: HashMap<u64, u32>,
    /// Memory instructions; see [`Lowering::site`].
    pub sites: u32,
    /// Where translation began.
    pub roots: Vec<u64>,
}

impl Program {
    /// The step at a device address.
    pub fn at(&self, pc: u64) -> Option<u32> {
        self.by_address.get(&pc).copied()
    }
}

/// Translate the code that is reachable from the roots.
pub(crate) fn translate(kernel: &LoadedKernel, roots: Vec<u64>) -> Program {
    let file = RegisterFile::of(&kernel.kernel.descriptor);
    let lowering = Lowering::new(kernel.kernel.target, file.vgprs, file.agprs);
    let mut steps: Vec<Step> = Vec::new();
    let mut by_address = HashMap::new();
    let mut open = roots.clone();
    while let Some(mut pc) = open.pop() {
        // A straight run, until it ends or meets code that is there.
        while kernel.code.contains(&pc) && !by_address.contains_key(&pc) {
            let step = translate_one(kernel, (&lowering, &file), pc);
            by_address.insert(pc, steps.len() as u32);
            let after = pc + u64::from(step.size);
            let falls_through = match &step.op {
                Op::Branch(condition, _) => {
                    open.push(branch_target(kernel, pc));
                    !matches!(condition, Condition::Always)
                }
                Op::Call(..) => {
                    open.push(branch_target(kernel, pc));
                    true
                }
                Op::End | Op::SetPc(_) | Op::Broken(_) | Op::Trap(_) => false,
                _ => true,
            };
            steps.push(step);
            if !falls_through {
                break;
            }
            pc = after;
        }
    }
    let index = |pc: u64| by_address.get(&pc).copied().unwrap_or(NOWHERE);
    for step in &mut steps {
        step.next = index(step.pc + u64::from(step.size));
        if let Op::Branch(_, to) | Op::Call(_, to) = &mut step.op {
            *to = index(branch_target(kernel, step.pc));
        }
    }
    Program {
        steps,
        by_address,
        sites: lowering.sites(),
        roots,
    }
}

fn translate_one(
    kernel: &LoadedKernel,
    (lowering, file): (&Lowering, &RegisterFile),
    pc: u64,
) -> Step {
    let words = words_at(kernel, pc);
    let target = kernel.kernel.target;
    let (op, size) = match isa::decode(target, &words) {
        Ok(mut inst) => {
            let op = match file.place(&mut inst) {
                Ok(()) => lower(kernel, lowering, &inst, pc),
                Err(kind) => Op::Broken(kind),
            };
            (op, inst.size)
        }
        Err(_) => {
            let words = words.iter().take(2).map(|word| format!("{word:08x}"));
            let words = words.collect::<Vec<_>>().join(" ");
            (Op::Broken(FaultKind::UnknownInstruction { words }), 4)
        }
    };
    Step {
        op,
        pc,
        size,
        next: NOWHERE,
    }
}
